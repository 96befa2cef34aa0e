//! From manifests to a graph of nodes with keys.
//!
//! Compile ([`compiled`]) → expand ([`expand`]) → recipes and keys ([`key`]).
//! Nothing here does I/O while planning: digests and records are passed in.

pub mod compile;
pub mod compiled;
pub mod expand;
pub mod key;
pub mod select;
pub mod template;
