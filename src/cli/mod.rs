//! The `proofline` program.

pub mod render;
