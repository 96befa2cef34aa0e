//! Exit codes, and errors on their way to one.
//!
//! | code | when |
//! |---|---|
//! | 0 | ok |
//! | 1 | usage or manifest |
//! | 2 | a gate failed |
//! | 3 | infrastructure errors remain |
//! | 4 | incomplete |
//! | 5 | the experiment is invalid |

use super::out::Out;
use super::render;
use crate::corpus::CorpusError;
use crate::diag::Diagnostic;
use crate::engine::EngineError;
use crate::fsio::FsError;
use crate::plan::select::SelectError;
use crate::remote::RemoteError;
use crate::store::StoreError;
use crate::store::moving::MoveError;

/// Usage or manifest.
pub(super) const USAGE: u8 = 1;
/// Infrastructure.
pub(super) const INFRASTRUCTURE: u8 = 3;
/// Nodes are left to be done.
pub(super) const INCOMPLETE: u8 = 4;

/// An error that ends a command.
pub(super) enum CliError {
    /// Wrong manifests.
    Diagnostics { found: Vec<Diagnostic>, json: bool },
    /// Wrong usage, in words.
    Usage(String),
    /// The outside failed, in words.
    Infrastructure(String),
}

impl CliError {
    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Diagnostics { .. } | Self::Usage(_) => USAGE,
            Self::Infrastructure(_) => INFRASTRUCTURE,
        }
    }

    pub(super) fn show(&self, out: &Out) {
        match self {
            Self::Diagnostics { found, json: true } => out.json(&render::json(found, USAGE)),
            Self::Diagnostics { found, json: false } => {
                out.say(render::text(found, out.people_tty).trim_end());
            }
            Self::Usage(words) | Self::Infrastructure(words) => out.say(&format!("error: {words}")),
        }
    }
}

impl From<StoreError> for CliError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Format { .. } | StoreError::Busy(_) | StoreError::Key { .. } => {
                Self::Usage(error.to_string())
            }
            other => Self::Infrastructure(other.to_string()),
        }
    }
}

impl From<FsError> for CliError {
    fn from(error: FsError) -> Self {
        Self::Infrastructure(error.explain())
    }
}

impl From<MoveError> for CliError {
    fn from(error: MoveError) -> Self {
        match error {
            MoveError::Store(error) => error.into(),
            MoveError::Remote(RemoteError::Address { .. }) => Self::Usage(error.to_string()),
            other => Self::Infrastructure(other.to_string()),
        }
    }
}

impl From<SelectError> for CliError {
    fn from(error: SelectError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<CorpusError> for CliError {
    fn from(error: CorpusError) -> Self {
        Self::Infrastructure(error.to_string())
    }
}

impl From<EngineError> for CliError {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Select(error) => error.into(),
            EngineError::Store(error) => error.into(),
            other => Self::Infrastructure(other.to_string()),
        }
    }
}
