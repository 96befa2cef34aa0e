//! proofline: a pipeline engine that settles, with evidence, whether a
//! code-intelligence MCP server makes a coding agent better or grep is enough.
//!
//! The modules are layered; a module uses strictly lower layers only. The map
//! and the reasons are in `ARCHITECTURE.md`, and a test holds them.

// Layer 0: base.
pub mod clock;
pub mod diag;
pub mod digest;
pub mod fsio;
pub mod id;
pub mod process;
pub mod shipped;
pub mod stats;
pub mod unit;
// Layer 1: formats.
pub mod artifact;
pub mod event;
pub mod manifest;
// Layer 2: services.
pub mod agent;
pub mod corpus;
pub mod grade;
pub mod import;
pub mod judge;
pub mod mcp;
pub mod plan;
pub mod remote;
pub mod retrieve;
pub mod store;
// Layer 3: stages.
pub mod stage;
// Layer 4: the engine.
pub mod engine;
// Layer 5: views.
pub mod report;
// Layer 6: the edge.
pub mod cli;
