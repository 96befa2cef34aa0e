//! What is seen of a server that is tried.

use serde::Serialize;

use crate::artifact::Hit;
use crate::manifest::server::{Form, Index, Lines, ToolUse};
use crate::mcp::{How, ServerInfo, Tool};

/// Which tool does a thing, and how sure that is.
#[derive(Clone, Debug, Default, Serialize)]
pub(in crate::cli) struct Chosen {
    /// The tool and its arguments.
    pub(in crate::cli) tool: Option<ToolUse>,
    /// `given` by a preset or the user, `sure`, `unsure`, or `none`.
    pub(in crate::cli) how: &'static str,
    /// Between 0 and 1, where it was detected.
    pub(in crate::cli) confidence: Option<f64>,
    /// The next best tool and its confidence.
    pub(in crate::cli) runner_up: Option<(String, f64)>,
    /// Why, in words.
    pub(in crate::cli) why: String,
}

/// One call and what came of it.
#[derive(Clone, Debug, Serialize)]
pub(in crate::cli) struct Asked {
    /// The text that was sent.
    pub(in crate::cli) text: String,
    /// Milliseconds.
    pub(in crate::cli) latency_ms: f64,
    /// `hits`, `empty`, `error` or `other`.
    pub(in crate::cli) kind: &'static str,
    /// Number of results.
    pub(in crate::cli) count: usize,
    /// Rank of the file that is right, from 1.
    pub(in crate::cli) rank: Option<usize>,
    /// The first results, as normalised.
    pub(in crate::cli) hits: Vec<Hit>,
    /// What the server said where it failed.
    pub(in crate::cli) error: Option<String>,
}

/// What was seen.
#[derive(Clone, Debug, Serialize)]
pub(in crate::cli) struct Seen {
    /// What it says of itself.
    pub(in crate::cli) server: ServerInfo,
    /// From spawning to the end of the opening exchange.
    pub(in crate::cli) start_ms: f64,
    /// Its tools.
    pub(in crate::cli) tools: Vec<Tool>,
    /// Bytes of the tool list as JSON: what an agent's context carries.
    pub(in crate::cli) schema_bytes: usize,
    /// The tool that answers questions.
    pub(in crate::cli) query: Chosen,
    /// The tool that indexes.
    pub(in crate::cli) ingest: Chosen,
    /// How long indexing the sample took.
    pub(in crate::cli) ingest_ms: Option<f64>,
    /// Why indexing failed.
    pub(in crate::cli) ingest_error: Option<String>,
    /// The sample's known question as it stands.
    pub(in crate::cli) question: Option<Asked>,
    /// Its symbol alone.
    pub(in crate::cli) symbol: Option<Asked>,
    /// The form in which it found the answer.
    pub(in crate::cli) form: Option<Form>,
    /// Numbering of lines, and the definitions on which that rests.
    pub(in crate::cli) lines: Option<Lines>,
    pub(in crate::cli) on_lines: usize,
    /// Where the index lives, and why that is thought.
    pub(in crate::cli) index: Index,
    pub(in crate::cli) index_why: String,
    /// What it added to its copy of the corpus.
    pub(in crate::cli) writes: Vec<String>,
    /// Files of the corpus that it changed or removed.
    pub(in crate::cli) changed: Vec<String>,
    /// How it ended, its memory, and processes that it left behind.
    pub(in crate::cli) end: How,
    pub(in crate::cli) rss_mib: f64,
    pub(in crate::cli) survivors: Vec<String>,
    /// Frames that no well-behaved server sends.
    pub(in crate::cli) bad_frames: u64,
    pub(in crate::cli) stderr_bytes: u64,
}
