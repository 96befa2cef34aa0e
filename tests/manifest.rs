//! Manifests: what is wrong with them, where, and the way out.
#![expect(clippy::unwrap_used, reason = "a test that can't go on says so by a panic")]

#[path = "manifest/common.rs"]
mod common;
#[path = "manifest/compile.rs"]
mod compile;
#[path = "manifest/edits.rs"]
mod edits;
#[path = "manifest/hostile.rs"]
mod hostile;
#[path = "manifest/mistakes.rs"]
mod mistakes;
#[path = "manifest/scenarios.rs"]
mod scenarios;
#[path = "manifest/shipped.rs"]
mod shipped;
