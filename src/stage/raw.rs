//! What measured stages publish: what came from outside, nothing derived.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::mcp;
use crate::mcp::Tool;

/// Part that holds [`Reply`] lines.
pub(super) const REPLIES: &str = "replies";
/// Part that holds [`Facts`].
pub(super) const FACTS: &str = "facts";

/// When a call was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Phase {
    /// The tool that indexes.
    Ingest,
    /// Thrown away.
    Warmup,
    /// The known-answer question.
    Known,
    /// A question that counts.
    Question,
}

/// One call and what came back, as it came.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Reply {
    pub(super) phase: Phase,
    /// Task id.
    pub(super) task: String,
    /// Words that were sent.
    pub(super) query: String,
    /// Tool that was called.
    pub(super) tool: String,
    /// Milliseconds until the reply was there.
    pub(super) latency_ms: f64,
    pub(super) outcome: Raw,
}

/// What came back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Raw {
    Reply { value: Value },
    RpcError { code: i64, message: String },
    Timeout,
    Died { words: String },
    TooLarge { bytes: u64 },
    Unexpected { text: String },
}

impl Raw {
    /// Whether the server failed at it (a tool's own `isError` included).
    pub(super) fn failed(&self) -> bool {
        match self {
            Self::Reply { value } => value.get("isError").and_then(Value::as_bool) == Some(true),
            _ => true,
        }
    }
}

impl From<mcp::Outcome> for Raw {
    fn from(outcome: mcp::Outcome) -> Self {
        match outcome {
            mcp::Outcome::Reply(value) => Self::Reply { value },
            mcp::Outcome::RpcError { code, message, .. } => Self::RpcError { code, message },
            mcp::Outcome::Timeout => Self::Timeout,
            mcp::Outcome::Died { words } => Self::Died { words },
            mcp::Outcome::TooLarge { bytes } => Self::TooLarge { bytes },
            mcp::Outcome::Unexpected(text) => Self::Unexpected { text },
        }
    }
}

/// A failure of the server before or between calls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Trouble {
    /// One of [`crate::artifact::code`].
    pub(super) code: String,
    /// The server's own words.
    pub(super) words: String,
}

impl Trouble {
    pub(super) fn new(code: &str, words: impl Into<String>) -> Self {
        Self { code: code.to_owned(), words: words.into() }
    }
}

/// What was seen of a server apart from replies and clocks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Facts {
    /// What went wrong, if anything did.
    pub(super) trouble: Option<Trouble>,
    /// What the server calls itself.
    pub(super) server: Option<mcp::ServerInfo>,
    /// Its tools.
    pub(super) tools: Vec<Tool>,
    /// Tool chosen for indexing, with arguments.
    pub(super) ingest_tool: Option<String>,
    /// Tool chosen for questions.
    pub(super) query_tool: Option<String>,
    /// Remarks on how tools were chosen.
    pub(super) notes: Vec<String>,
    /// Absolute paths of the corpus copy, as the server saw it.
    pub(super) roots: Vec<String>,
    /// Corpus files changed outside the preset's `writes`.
    pub(super) corpus_changed: Vec<String>,
    /// Digest of the tool list that the ingest saw.
    pub(super) ingest_tools: Option<String>,
    /// The file that the known-answer question must find.
    pub(super) known_file: Option<String>,
    /// Counts of frames, good and bad.
    pub(super) counters: Option<mcp::Counters>,
    /// Processes that outlived the server and were ended.
    pub(super) survivors: Vec<String>,
}

/// Names of clock readings.
pub(super) mod reading {
    pub(in crate::stage) const START_MS: &str = "start_ms";
    pub(in crate::stage) const INGEST_MS: &str = "ingest_ms";
    pub(in crate::stage) const REINDEX_MS: &str = "reindex_ms";
    pub(in crate::stage) const RSS_MIB: &str = "rss_mib";
    pub(in crate::stage) const INDEX_BYTES: &str = "index_bytes";
    pub(in crate::stage) const PRE_INGEST_MS: &str = "pre_ingest_ms";
}
