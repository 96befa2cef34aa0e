//! The engine's promises, kept by the built program on projects of its own:
//! fake MCP servers that count their starts, command stages in sh and Python.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests work on real files and clocks")]

mod contract;
mod custom;
mod env;
mod faults;
mod inspect;
mod interrupt;
mod leases;
mod measured;
mod paid;
mod promises;
mod quickstart;
mod recall;
mod servers;
mod shop;
mod together;
