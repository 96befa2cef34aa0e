//! What the TOML files say: wire types, places in the text, schemas.
//!
//! Everything here is text in, typed values and diagnostics out. What the
//! values *mean* together (axes, arms, graphs) is decided by
//! [`crate::plan`].

pub mod axis;
pub mod dataset;
pub mod pipeline;
pub mod server;
pub mod templated;
pub mod write;
