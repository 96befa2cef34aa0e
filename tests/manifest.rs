//! Manifests: what is wrong with them, where, and the way out.

#[path = "manifest/common.rs"]
mod common;
#[path = "manifest/shipped.rs"]
mod shipped;
