//! What the TOML files say: wire types, places in the text, schemas.
//!
//! Everything here is text in, typed values and diagnostics out. What the
//! values *mean* together (axes, arms, graphs) is decided by
//! [`crate::plan`].

pub mod axis;
pub mod dataset;
pub mod dataset_check;
mod entries;
pub mod kind;
pub mod load;
pub mod lock;
pub mod names;
pub mod origin;
pub mod path;
pub mod pipeline;
pub mod prices;
pub mod project;
pub mod recording;
pub mod recording_check;
pub mod rubric;
mod rubric_check;
pub mod scenario;
pub mod scenario_check;
mod schema;
pub mod schemas;
pub mod server;
mod server_check;
pub mod source;
mod stage_keys;
pub mod structure;
mod syntax;
pub mod templated;
pub mod trust;
mod trust_check;
pub mod write;
