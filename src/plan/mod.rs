//! From manifests to a graph of nodes with keys.

pub mod compiled;
