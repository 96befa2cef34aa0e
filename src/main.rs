//! The `proofline` program.

fn main() {}
