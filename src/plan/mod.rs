//! From manifests to a graph of nodes with keys.

pub mod compile;
pub mod compiled;
pub mod template;
