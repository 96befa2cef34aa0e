//! Other benchmarks' files into ours.

mod fields;
pub mod rag_bench;
pub mod sense;
pub mod yaml;
