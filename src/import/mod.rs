//! Other benchmarks' files into ours.

pub mod rag_bench;
