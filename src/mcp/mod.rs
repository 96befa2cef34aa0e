//! The MCP client: how servers are started, spoken to, timed and ended; which
//! of their tools does what; and what their answers mean.
//!
//! We own the child process and its pipes and rmcp only speaks the protocol
//! over them, so that every byte is seen with its time, bad frames are
//! counted instead of hidden, and a server's memory and end are known.
//! [`Client`] drives a server, [`detect`] chooses tools from a tool list,
//! [`normalise`] turns replies into hits; the last two are pure.

mod call;
mod cli;
mod client;
mod counters;
pub mod detect;
mod handler;
mod http;
mod launch;
pub mod normalise;
mod said;
mod stdio;
mod tools;
pub mod wire;

pub use call::{Call, How, Outcome, Stopped};
pub use client::Client;
pub use counters::Counters;
pub use launch::{Launch, ServerInfo, StartError, free_port};
pub use tools::{Tool, ToolsError};
