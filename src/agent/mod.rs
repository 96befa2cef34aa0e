//! What headless agents say, read into one shape: one file per command-line agent.
//!
//! [`detect`] tells whose stream it is, [`read`] reads it. Both are pure, and nothing that a
//! stream holds makes them fail but its being no such stream at all: lines that cannot be read
//! are counted, fields of an unexpected shape are taken as absent, unknown events are passed over.

mod atif;
mod claude;
mod codex;
mod draft;
mod loose;
mod opencode;
mod rag_bench;
mod source;
#[cfg(test)]
mod tests;
mod tools;

use serde::Deserialize;

pub use self::rag_bench::results;
pub use crate::artifact::transcript::Dialect;
use crate::artifact::transcript::{Transcript, Usage};
use loose::{Opt, Shape, Text};

/// Version of all readers; raised when what they read from equal bytes changes.
pub const VERSION: u32 = 2;
/// Longest stream that is read, in bytes.
pub const MAX_BYTES: usize = 256 << 20;

/// What the caller knows and the stream may not say.
#[derive(Clone, Debug, Default)]
pub struct Hints {
    /// Names of the configured MCP servers: OpenCode writes `server_tool`, which is not to be
    /// told from a tool's name otherwise.
    pub servers: Vec<String>,
    /// What a resumed thread had counted before this stream began: Codex goes on counting.
    pub before: Option<Usage>,
}

/// Why there is no transcript.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Longer than [`MAX_BYTES`].
    #[error("the stream has {0} bytes; at most {MAX_BYTES} are read")]
    TooLarge(usize),
    /// Nothing in it is an event of a dialect that is known.
    #[error("no line of the stream is an event of an agent that is known; it begins with `{first}`")]
    Unknown {
        /// Beginning of the first line.
        first: String,
    },
    /// Nothing in it is an event of the dialect that it was taken for.
    #[error("no line of the stream is an event of {}; it begins with `{first}`", .dialect.name())]
    NotOf {
        /// What it was taken for.
        dialect: Dialect,
        /// Beginning of the first line.
        first: String,
    },
    /// Events of two agents in one stream.
    #[error("line {line} of a stream of {} is an event of {}: `{text}`", .dialect.name(), .other.name())]
    Mixed {
        /// From 1.
        line: usize,
        /// Whose stream it is.
        dialect: Dialect,
        /// Whose event it is.
        other: Dialect,
        /// Beginning of the line.
        text: String,
    },
}

/// Whose stream it is: the first event that belongs to one dialect decides.
///
/// # Errors
/// When there is none, or the stream is too long.
pub fn detect(bytes: &[u8]) -> Result<Dialect, ReadError> {
    let text = bounded(bytes)?;
    let mut found = None;
    // The error only ends the search.
    let _ = source::each::<Peek<'_>, ()>(&text, |_, line, peek| {
        found =
            peek.dialect().or_else(|| peek.wraps().then(|| inside::<Peek<'_>>(line)?.dialect()).flatten());
        if found.is_some() { Err(()) } else { Ok(()) }
    });
    found.ok_or_else(|| ReadError::Unknown { first: beginning(&text) })
}

/// Reads a stream, a stored session, or several of one session one after the other.
///
/// A stream without anything in it is a session that ended before it began.
///
/// # Errors
/// When no line is of the dialect, when lines are of two, or the stream is too long.
pub fn read(dialect: Dialect, bytes: &[u8]) -> Result<Transcript, ReadError> {
    read_with(dialect, bytes, &Hints::default())
}

/// [`read`] with what the caller knows besides.
///
/// # Errors
/// As [`read`].
pub fn read_with(dialect: Dialect, bytes: &[u8], hints: &Hints) -> Result<Transcript, ReadError> {
    let text = bounded(bytes)?;
    match dialect {
        Dialect::Claude | Dialect::Qwen => claude::read(dialect, &text, hints),
        Dialect::Codex => codex::read(&text, hints),
        Dialect::Opencode => opencode::read(&text, hints),
        Dialect::Atif => atif::read(&text, hints),
        Dialect::RagBench => rag_bench::read(&text, hints),
    }
}

/// [`detect`], then [`read`].
///
/// # Errors
/// Those of both.
pub fn read_any(bytes: &[u8]) -> Result<Transcript, ReadError> {
    read(detect(bytes)?, bytes)
}

fn bounded(bytes: &[u8]) -> Result<std::borrow::Cow<'_, str>, ReadError> {
    if bytes.len() > MAX_BYTES { Err(ReadError::TooLarge(bytes.len())) } else { Ok(source::text(bytes)) }
}

/// What tells dialects apart.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Peek<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    schema_version: Text<'a>,
    #[serde(borrow)]
    id: Text<'a>,
    event: Shape,
    subtype: Shape,
    message: Shape,
    usage: Shape,
    result: Shape,
    total_cost_usd: Shape,
    qwen_code_version: Shape,
    #[serde(rename = "sessionId")]
    stored_session: Shape,
    thread_id: Shape,
    item: Shape,
    error: Shape,
    payload: Shape,
    #[serde(rename = "sessionID")]
    opencode_session: Shape,
    part: Shape,
    info: Shape,
    messages: Shape,
    steps: Shape,
}

impl Peek<'_> {
    /// Whose event it is, where its shape leaves no doubt.
    fn dialect(&self) -> Option<Dialect> {
        use Shape::{List, Object, Text};
        if self.schema_version.get().is_some_and(|v| v.starts_with("ATIF-")) && self.steps == List {
            return Some(Dialect::Atif);
        }
        if self.info == Object && self.messages == List {
            return Some(Dialect::Opencode);
        }
        if self.opencode_session == Text {
            let ours = self.part == Object || self.error == Object || self.stored_of_opencode();
            return ours.then_some(Dialect::Opencode);
        }
        let Some(kind) = self.kind.get() else {
            let of_session = self.id.get().is_some_and(|id| id.starts_with("ses_"));
            return of_session.then_some(Dialect::Opencode);
        };
        let claude = match kind {
            "assistant" | "user" => self.message == Object,
            "system" => self.subtype == Text,
            "result" => {
                self.subtype == Text
                    || self.usage == Object
                    || self.result == Text
                    || self.total_cost_usd == Shape::Number
            }
            "stream_event" => self.event == Object,
            "rate_limit_event" | "file-history-snapshot" => true,
            _ => self.stored_session == Text,
        };
        if claude {
            let qwen = self.qwen_code_version == Text;
            return Some(if qwen { Dialect::Qwen } else { Dialect::Claude });
        }
        let codex = match kind {
            "thread.started" => self.thread_id == Text,
            "turn.started" | "turn.completed" | "turn.failed" => true,
            "item.started" | "item.updated" | "item.completed" => self.item == Object,
            "session_meta" | "response_item" | "event_msg" | "turn_context" | "compacted" => {
                self.payload == Object
            }
            _ => false,
        };
        codex.then_some(Dialect::Codex)
    }

    fn wraps(&self) -> bool {
        self.event == Shape::Object && self.kind.get().is_none()
    }

    /// A message or part of a stored session: its id says which.
    fn stored_of_opencode(&self) -> bool {
        self.id.get().is_some_and(|id| id.starts_with("msg_") || id.starts_with("prt_"))
    }
}

/// A line whose event is wrapped in another object.
#[derive(Debug, Deserialize)]
struct Wrapper<T> {
    #[serde(default = "Opt::default")]
    event: Opt<T>,
}

/// The event inside a line that wraps it. It is read anew: types that hold themselves would let
/// a stream choose how deep the stack goes.
fn inside<'a, T: Deserialize<'a>>(line: &'a str) -> Option<T> {
    serde_json::from_str::<Wrapper<T>>(line).ok().and_then(|wrapper| wrapper.event.0)
}

/// Whether a line that is not the dialect's may be passed over: not when it is another's.
fn foreign(dialect: Dialect, line: usize, text: &str) -> Result<(), ReadError> {
    let other = serde_json::from_str::<Peek<'_>>(text).ok().and_then(|peek| peek.dialect());
    let same = |other| match dialect {
        // They share a shape.
        Dialect::Claude | Dialect::Qwen => matches!(other, Dialect::Claude | Dialect::Qwen),
        _ => dialect == other,
    };
    match other.filter(|other| !same(*other)) {
        Some(other) => Err(ReadError::Mixed { line, dialect, other, text: beginning(text) }),
        None => Ok(()),
    }
}

/// Refuses a stream that held something, but nothing of the dialect.
fn some_of(any: bool, dialect: Dialect, text: &str) -> Result<(), ReadError> {
    if any || source::lines(text).next().is_none() {
        return Ok(());
    }
    Err(ReadError::NotOf { dialect, first: beginning(text) })
}

/// The beginning of the first line that holds something, fit to be shown.
fn beginning(text: &str) -> String {
    let line = source::lines(text).next().map(|(_, line)| line).unwrap_or_default();
    line.chars().take(120).map(|c| if c.is_control() { ' ' } else { c }).collect()
}
