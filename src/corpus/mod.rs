//! (to come)

pub mod grammar;
pub mod symbols;
