//! What is needed to start a server, and how starting fails.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::artifact::code;
use crate::fsio::FsError;
use crate::manifest::server::{Lifecycle, Transport};
use crate::process::SpawnError;

/// How a server is started and reached. Placeholders are already replaced.
#[derive(Clone, Debug)]
pub struct Launch {
    /// How it is spoken to; `builtin` can't be launched.
    pub transport: Transport,
    /// Program and arguments; may be empty for an HTTP server that runs elsewhere.
    pub command: Vec<String>,
    /// Address of an HTTP server.
    pub url: Option<String>,
    /// Its working directory.
    pub cwd: PathBuf,
    /// Its complete environment.
    pub env: BTreeMap<String, String>,
    /// Marks its processes; see [`crate::process::Spec::marker`].
    pub marker: String,
    /// How the protocol is opened.
    pub lifecycle: Lifecycle,
    /// Longest time from its start to the end of the opening exchange.
    pub start_timeout: Duration,
    /// Where frames are logged ([`super::wire`]).
    pub wire_log: PathBuf,
    /// Where its standard error is logged, head and tail.
    pub stderr_log: PathBuf,
    /// Largest reply that is taken.
    pub max_reply_bytes: u64,
}

impl Launch {
    /// Default of [`Launch::max_reply_bytes`]: 16 MiB.
    pub const MAX_REPLY: u64 = 16 << 20;
}

/// What a server says of itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerInfo {
    /// Its name.
    pub name: String,
    /// Its version, often that of its MCP library.
    pub version: String,
    /// The protocol revision that was agreed on.
    pub protocol: String,
    /// Instructions, which some agents hand to the model.
    pub instructions: Option<String>,
    /// Its capabilities as sent.
    pub capabilities: Value,
}

/// Why a server could not be started. `words` are its own last ones.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Its process could not be started.
    #[error("the server was not started: {0}")]
    Spawn(#[from] SpawnError),
    /// A log could not be opened.
    #[error("{}", .0.explain())]
    Log(#[from] FsError),
    /// The launch makes no sense.
    #[error("the server can't be launched: {0}")]
    Launch(String),
    /// Nothing accepts connections at the URL of a server that we did not start.
    #[error("nothing answers at `{0}`")]
    Unreachable(String),
    /// It was not ready in time.
    #[error("the server did not finish the opening exchange within {} ms{}", .after.as_millis(), quote(.words))]
    Timeout {
        /// The limit.
        after: Duration,
        /// Its last words.
        words: String,
    },
    /// It ended, or closed its output, first.
    #[error("the server {how} before it had answered the opening request{}", quote(.words))]
    Died {
        /// How, e.g. `exited with code 1`.
        how: String,
        /// Its last words.
        words: String,
    },
    /// It answered, but not as the protocol says.
    #[error("the opening exchange failed: {message}{}", quote(.words))]
    Protocol {
        /// What was wrong.
        message: String,
        /// Its last words.
        words: String,
    },
}

impl StartError {
    /// The code of the cell's state.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Spawn(_) | Self::Log(_) | Self::Launch(_) | Self::Unreachable(_) => {
                code::SERVER_NOT_STARTED
            }
            Self::Timeout { .. } => code::HANDSHAKE_TIMEOUT,
            Self::Died { .. } | Self::Protocol { .. } => code::HANDSHAKE_FAILED,
        }
    }

    /// The server's own last words on standard error, when it had any.
    #[must_use]
    pub fn words(&self) -> Option<&str> {
        match self {
            Self::Timeout { words, .. } | Self::Died { words, .. } | Self::Protocol { words, .. } => {
                Some(words.as_str()).filter(|words| !words.is_empty())
            }
            _ => None,
        }
    }
}

/// Last words as the end of a message.
pub(super) fn quote(words: &str) -> String {
    if words.is_empty() { String::new() } else { format!("; its last words: {words}") }
}

/// A port of this machine that was free a moment ago, for `{port}`.
///
/// # Errors
/// When the system has none.
pub fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
