//! The engine: runs a plan, keeps what it gives, tells the world in events.
//!
//! One task (the dispatcher, [`run`]) owns scheduling, the journal and the
//! signals; executors run nodes and report back over one channel. A dry run
//! ([`dry`]) walks the same table of nodes ([`table`]) and starts nothing.

mod abroad;
pub mod dry;
mod ending;
mod executor;
mod memo;
mod orphans;
mod paid;
mod remember;
pub mod run;
mod schedule;
pub mod table;
pub mod world;

use crate::corpus::CorpusError;
use crate::store::StoreError;

pub use orphans::clean_up;
pub use paid::is_lost;
pub use run::{Options, Summary, run};

/// What keeps a run from taking place or from going on.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A corpus can't be had.
    #[error("{source}")]
    Corpus {
        /// The repository.
        repo: String,
        /// Why.
        source: CorpusError,
    },
    /// A selector.
    #[error(transparent)]
    Select(#[from] crate::plan::select::SelectError),
    /// A task of ours ended early.
    #[error("the engine: {0}")]
    Internal(String),
}
