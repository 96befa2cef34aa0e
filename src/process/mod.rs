//! Child processes: own group, own environment, deadlines, and nothing left behind.
//!
//! A child is started with exactly the environment that its [`Spec`] names,
//! in a process group of its own, and marked by a variable, so that what
//! leaves the group (a daemon) is found and ended too. Beside [`crate::cli`]
//! this is the only place that reads the environment of proofline itself.

mod confine;
mod env;
mod family;
mod group;
mod machine;
mod memory;
mod proc;
mod run;
mod supervise;
mod supervisor;

pub use confine::{Confine, ConfineReport, system_paths};
pub use env::{base_env, find_program, secret};
pub use group::{Ending, Exit, Group, SpawnError, Spec, Stdio};
pub use machine::machine;
pub use memory::MemoryWatch;
pub use run::{Captured, capture, run, sweep, sweep_orphans};
pub use supervise::{EXIT_FILE, End, LOCK_FILE, Order, SUPERVISE, supervise_main};
pub use supervisor::{SupervisorError, Supervisors};

/// The variable that marks all processes of one child.
pub const MARK: &str = "PROOFLINE_MARK";

#[cfg(test)]
mod tests;
