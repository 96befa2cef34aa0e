//! Manifests: what is wrong with them, where, and the way out.

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
#[path = "manifest/shipped.rs"]
mod shipped;
