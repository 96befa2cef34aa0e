//! What comes of a call, and of a server.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::counters::Counters;
use crate::artifact::code;
use crate::process::Exit;

/// What came of one call, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// From writing the last byte of the request to reading the last byte of
    /// the reply; without a reply, the time until we knew.
    pub latency_ms: f64,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of one call.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The raw `CallToolResult`, which may say `isError`.
    Reply(Value),
    /// A JSON-RPC error.
    RpcError {
        /// Its code.
        code: i64,
        /// Its words.
        message: String,
        /// What else it carries.
        data: Option<Value>,
    },
    /// No reply before the deadline.
    Timeout,
    /// The server ended, or closed its output.
    Died {
        /// How, and its last words.
        words: String,
    },
    /// The reply was larger than the limit.
    TooLarge {
        /// Bytes that came.
        bytes: u64,
    },
    /// A reply that is no result of a tool.
    Unexpected(String),
}

impl Outcome {
    /// The code of the row's state; none for a reply, which may still say that it is an error.
    #[must_use]
    pub fn code(&self) -> Option<&'static str> {
        match self {
            Self::Reply(_) => None,
            Self::RpcError { .. } | Self::Unexpected(_) => Some(code::CALL_ERROR),
            Self::Timeout => Some(code::CALL_TIMEOUT),
            Self::Died { .. } => Some(code::SERVER_DIED),
            Self::TooLarge { .. } => Some(code::REPLY_TOO_LARGE),
        }
    }

    /// What to hand to [`super::normalise`]: the result, or the error object.
    #[must_use]
    pub fn value(&self) -> Option<Value> {
        match self {
            Self::Reply(value) => Some(value.clone()),
            Self::RpcError { code, message, .. } => Some(json!({"code": code, "message": message})),
            _ => None,
        }
    }
}

/// How a server was brought to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// It had ended before.
    Itself,
    /// It ended when its input was closed.
    Closed,
    /// It had to be told by a signal.
    Terminated,
    /// It had to be killed.
    Killed,
    /// It was not ours to end, or has no process between calls.
    NotOurs,
}

/// What is left of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stopped {
    /// How it was brought to its end.
    pub how: How,
    /// How its process ended; time, memory and survivors of the whole tree.
    pub exit: Exit,
    /// What was seen on the wire.
    pub counters: Counters,
}

/// A value on one short line.
pub(super) fn short(value: &Value) -> String {
    short_text(&value.to_string())
}

/// A text of at most 300 characters.
pub(super) fn short_text(text: &str) -> String {
    let mut chars = text.chars();
    let head: String = chars.by_ref().take(300).collect();
    if chars.next().is_some() { head + "…" } else { head }
}
