//! What stages write and other stages read: the types behind named parts.
//!
//! A part is bytes with a digest. Parts that hold structured data are JSON
//! (one value) or JSON Lines (one value per line), written by [`to_json`] and
//! [`to_lines`], so that equal values have equal bytes.

pub mod python_json;
pub mod steps;
pub mod transcript;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

/// Names of parts.
pub mod part {
    /// What an ingest left on disk (a tree).
    pub const STATE: &str = "state";
    /// JSON-RPC frames in both directions with times (JSON Lines).
    pub const WIRE: &str = "wire";
    /// Clock and memory readings as taken ([`super::Clockings`]).
    pub const CLOCK: &str = "clock";
    /// How a server ended and what it said on standard error.
    pub const EXIT: &str = "exit";
    /// [`super::AnswerRow`] per task (JSON Lines); nothing measured in it.
    pub const RESULTS: &str = "results";
    /// [`super::Timing`]: what was measured in a session.
    pub const TIMING: &str = "timing";
    /// [`super::SessionState`] of a session or ingest.
    pub const CELL: &str = "cell";
    /// [`super::IngestFacts`].
    pub const INGEST: &str = "ingest";
    /// A recorded transcript's bytes; of several `stream-1`, `stream-2`, in the order of steps.
    pub const STREAM: &str = "stream";
    /// [`super::Recorded`]: what is known of a recorded session beside its transcript.
    pub const SESSION: &str = "session";
    /// [`super::Claims`]: what a row of another benchmark says beside its answer.
    pub const CLAIMS: &str = "claims";
    /// [`super::transcript::Transcript`].
    pub const TRANSCRIPT: &str = "transcript";
    /// A judge's replies as they came.
    pub const REPLIES: &str = "judge-replies";
    /// [`super::Judgement`].
    pub const JUDGEMENT: &str = "judgement";
    /// [`super::Item`] per check, row of gold and the like (JSON Lines).
    pub const ITEMS: &str = "items";
    /// [`super::CitationRow`] per citation (JSON Lines).
    pub const CITATIONS: &str = "citations";
    /// What the profile's own scorer would have written.
    pub const SCORED: &str = "scored";
    /// [`super::Grades`].
    pub const GRADES: &str = "grades";
    /// The result of an aggregate, as reports show it.
    pub const RESULT: &str = "result";
    /// Logs, process ids, host, time of day: read by no stage.
    pub const META: &str = "meta";
}

/// A value as the bytes of a part.
///
/// # Panics
/// Never for the types of this module: they hold no maps with other than text keys.
#[must_use]
pub fn to_json<T: Serialize>(value: &T) -> Vec<u8> {
    let mut out = serde_json::to_vec(value).unwrap_or_default();
    out.push(b'\n');
    out
}

/// Values as the bytes of a JSON Lines part.
#[must_use]
pub fn to_lines<T: Serialize>(values: &[T]) -> Vec<u8> {
    values.iter().flat_map(to_json).collect()
}

/// Reads a JSON part.
///
/// # Errors
/// When the bytes are not such a value.
pub fn from_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(bytes)
}

/// Reads a JSON Lines part.
///
/// # Errors
/// When a line is not such a value.
pub fn from_lines<T: DeserializeOwned>(bytes: &[u8]) -> Result<Vec<T>, serde_json::Error> {
    bytes
        .split(|b| *b == b'\n')
        .filter(|line| !line.iter().all(u8::is_ascii_whitespace))
        .map(serde_json::from_slice)
        .collect()
}

/// State of a cell: exactly one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellState {
    /// The arm was what the manifest declares and an answer exists.
    #[default]
    Valid,
    /// The treatment or control was not what it claims.
    Invalid,
    /// Infrastructure failed.
    Error,
    /// Not run.
    Missing,
    /// Taken out by the manifest.
    Excluded,
}

/// Whose fault an invalid or failed cell is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// Ours, the provider's, the corpus's: the block is dropped.
    Harness,
    /// The server's: intention-to-treat keeps the cell.
    Treatment,
}

/// Codes of retrieval cells; each is documented in `docs/`.
pub mod code {
    /// The server could not be started.
    pub const SERVER_NOT_STARTED: &str = "server-not-started";
    /// It did not answer `initialize` in time.
    pub const HANDSHAKE_TIMEOUT: &str = "handshake-timeout";
    /// It ended or closed its output before or during `initialize`.
    pub const HANDSHAKE_FAILED: &str = "handshake-failed";
    /// A command before indexing failed.
    pub const PRE_INGEST_FAILED: &str = "pre-ingest-failed";
    /// Indexing failed or ran past its limit.
    pub const INGEST_FAILED: &str = "ingest-failed";
    /// No tool that answers questions was found.
    pub const NO_QUERY_TOOL: &str = "no-query-tool";
    /// A mapped tool is not in its list.
    pub const TOOL_MISSING: &str = "tool-missing";
    /// Detection was not sure enough to choose a tool.
    pub const TOOL_UNSURE: &str = "tool-unsure";
    /// A call ran past its limit.
    pub const CALL_TIMEOUT: &str = "call-timeout";
    /// The server ended or closed its output during a call.
    pub const SERVER_DIED: &str = "server-died";
    /// The server answered with an error.
    pub const CALL_ERROR: &str = "call-error";
    /// The reply was larger than the limit.
    pub const REPLY_TOO_LARGE: &str = "reply-too-large";
    /// The known-answer question was answered wrongly.
    pub const KNOWN_ANSWER_FAILED: &str = "known-answer-failed";
    /// Every question came back without a result.
    pub const NOTHING_FOUND: &str = "nothing-on-every-question";
    /// No result of any question names a file of the corpus.
    pub const PATHS_FOREIGN: &str = "path-vocabulary-mismatch";
    /// The session's server lists other tools than the ingest's.
    pub const TOOLS_DIFFER: &str = "tools-differ";
    /// An agent said nothing.
    pub const NO_ANSWER: &str = "no-answer";
    /// A transcript is none that we know.
    pub const UNREADABLE: &str = "unreadable-transcript";
    /// A request to the model failed for good.
    pub const API_ERROR: &str = "api-error";
    /// The provider refused further requests.
    pub const RATE_LIMITED: &str = "rate-limited";
    /// What ran the agent wrote an error down.
    pub const RUN_FAILED: &str = "run-failed";
    /// The arm's server was not connected.
    pub const SERVER_NOT_CONNECTED: &str = "server-not-connected";
    /// A server was connected that the arm doesn't have.
    pub const FOREIGN_SERVER: &str = "foreign-server";
    /// An arm without a server was offered a server's tools.
    pub const SERVER_IN_BASELINE: &str = "server-in-baseline";
    /// The corpus copy was changed outside the preset's `writes`.
    pub const CORPUS_CHANGED: &str = "corpus-changed";
}

/// One result as a server returned it, normalised, not de-duplicated.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Hit {
    /// File, relative to the corpus with `/`; a path outside the corpus stays as it was.
    pub file: Option<String>,
    /// Symbol.
    pub symbol: Option<String>,
    /// Line, 1-based.
    pub line: Option<u64>,
    /// The server's own score.
    pub score: Option<f64>,
}

/// What came of one question in one session. Nothing measured is in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AnswerRow {
    /// Task id.
    pub task: String,
    /// State of the cell.
    pub state: CellState,
    /// Why, when it is not plainly valid.
    pub codes: Vec<String>,
    /// Whose fault, when it is invalid or an error.
    pub fault: Option<Fault>,
    /// The whole returned list.
    pub results: Vec<Hit>,
    /// Tool calls made for it.
    pub calls: u32,
    /// The server's own words, when it failed.
    pub error: Option<String>,
}

/// Measured times of one question.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CallTiming {
    /// Task id.
    pub task: String,
    /// From writing the request to having the reply, summed over its calls; null when it failed.
    pub latency_ms: Option<f64>,
}

/// What was measured in a session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timing {
    /// Per question, in the order of asking.
    pub calls: Vec<CallTiming>,
    /// From spawning the server to the end of `initialize`.
    pub start_ms: Option<f64>,
    /// Re-indexing in memory before the clock started.
    pub reindex_ms: Option<f64>,
    /// Largest sum of resident memory over the server's process tree, in MiB.
    pub rss_mib: Option<f64>,
    /// First call of the session's warm-up, thrown away otherwise.
    pub first_call_ms: Option<f64>,
}

/// What an ingest did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct IngestFacts {
    /// Seconds of indexing; null for a server without an index step.
    pub ingest_s: Option<f64>,
    /// Largest sum of resident memory over the process tree, in MiB.
    pub rss_mib: Option<f64>,
    /// Size of the state that it left, in MiB.
    pub index_mib: Option<f64>,
    /// Files that the server says it indexed.
    pub files: Option<u64>,
    /// Bytes that the server says it indexed.
    pub bytes: Option<u64>,
    /// From spawning the server to the end of `initialize`.
    pub start_ms: Option<f64>,
}

/// State of a whole ingest or session.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionState {
    /// State.
    pub state: CellState,
    /// Why.
    pub codes: Vec<String>,
    /// Whose fault.
    pub fault: Option<Fault>,
    /// The server's own words.
    pub error: Option<String>,
    /// What the server calls itself: name and version.
    pub server: Option<String>,
    /// Digest of its tool list.
    pub tools: Option<String>,
    /// Remarks for the report, e.g. the tool chosen and the runner-up.
    pub notes: Vec<String>,
}

/// Grades of one node: a row per task, and values of the node as a whole.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Grades {
    /// Per task.
    pub rows: Vec<GradeRow>,
    /// Values that belong to the node, not to a task (e.g. `ingest_s`); null: unscored.
    pub node: BTreeMap<String, Option<f64>>,
    /// Where no question of a session found anything: what was asked and what came first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<SamplePair>,
    /// Why a column has no value, in the words of whoever should have given it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub why: BTreeMap<String, String>,
    /// Remarks for the report: what could not be honoured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// A question beside the first result that a server gave for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SamplePair {
    /// Task id.
    pub task: String,
    /// The words of the question.
    pub question: String,
    /// A file that would have answered it.
    pub expected: Option<String>,
    /// File of the first result; null: there was none.
    pub top: Option<String>,
}

/// Grades of one task.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GradeRow {
    /// Task id.
    pub task: String,
    /// Kind of question.
    pub kind: String,
    /// How hard it is.
    pub difficulty: String,
    /// State of the cell.
    pub state: CellState,
    /// Why, when it is not plainly valid.
    pub codes: Vec<String>,
    /// Whose fault.
    pub fault: Option<Fault>,
    /// Values by column; null: unscored. A column that does not apply is left out.
    pub values: BTreeMap<String, Option<f64>>,
    /// Rank (1-based) of the first result that answers the question, in the whole list as the
    /// profile ranks it (the default one takes repeated paths out first).
    pub rank: Option<u64>,
}

impl GradeRow {
    /// Takes all values of a cell that was lost by the harness: what never came to an answer has no
    /// score, whoever gave one. Where the fault is the treatment's, values stay.
    pub fn forfeit(&mut self) {
        if is_lost(self.state, self.fault) {
            self.values.values_mut().for_each(|value| *value = None);
        }
    }
}

/// Whether a cell has no score because the fault is the harness's, or nobody's.
#[must_use]
pub fn is_lost(state: CellState, fault: Option<Fault>) -> bool {
    matches!(state, CellState::Error | CellState::Invalid) && fault != Some(Fault::Treatment)
}

/// What a row of a result file of the rag-bench family says beside its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claims {
    /// The row has no key `answer`: an excerpt, whose words are elsewhere.
    pub excerpt: bool,
    /// The repository, as a server's row names it.
    pub repo: Option<String>,
    /// Was an expected file named (an agent's row) or found in the first five (a server's)?
    pub file_hit: Option<bool>,
    /// The same of an expected symbol.
    pub symbol_hit: Option<bool>,
    /// Calls of servers' tools, by the row's own count.
    pub mcp_calls: Option<u64>,
    /// Files that were expected, where the row says so.
    pub expected_files: Option<Vec<String>>,
    /// Symbols that were expected, where the row says so.
    pub expected_symbols: Option<Vec<String>>,
    /// Fields that can't be read and count as unknown: `input_tokens`, `tool_calls.Grep`.
    pub unreadable: Vec<String>,
}

impl Claims {
    /// Whether it was published how the answer did, readable or not.
    #[must_use]
    pub fn judged(&self) -> bool {
        let garbled = ["file_hit", "symbol_hit", "found_file", "found_symbol"];
        self.file_hit.is_some()
            || self.symbol_hit.is_some()
            || garbled.into_iter().any(|field| self.lacks(field))
    }

    /// Whether a field, or a part of it, can't be read.
    #[must_use]
    pub fn lacks(&self, field: &str) -> bool {
        self.unreadable.iter().any(|name| name.split('.').next() == Some(field))
    }
}

/// What is known of a recorded session beside its transcript.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// Id of the answer.
    pub id: String,
    /// Name of the repository that it is about.
    #[serde(default)]
    pub repo: String,
    /// Which of several answers of an arm to a task, from 1.
    #[serde(default)]
    pub replicate: u32,
    /// Form of the transcript; null: to be found out.
    pub dialect: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Agent and version.
    pub agent: Option<String>,
    /// The corpus's folder as the agent saw it.
    pub cwd: Option<String>,
    /// What its recording calls it.
    pub label: String,
    /// Where it is from.
    pub origin: Option<String>,
    /// What else was written down: error, wall seconds, exit code, commit.
    pub facts: BTreeMap<String, Value>,
}

/// One thing that a grader looked for in an answer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// The grader.
    pub grader: String,
    /// What tells it from the grader's other items, in all versions of an answer: `step 1: word wsgi_app`.
    pub id: String,
    /// Step, from 1; null for the whole session.
    pub step: Option<u32>,
    /// Whether it was found; null: it can't be told.
    pub hit: Option<bool>,
    /// Where, in bytes of the answer.
    pub spans: Vec<(u64, u64)>,
    /// More about it, in words.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// One citation of an answer and what came of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CitationRow {
    /// The path as written.
    pub file: String,
    /// What stands behind it: a line, a range, a symbol.
    pub locator: String,
    /// `grounded`, `displaced`, `unresolved`, `hallucinated`, `cannot-check`.
    pub bucket: String,
    /// The file that it was resolved to.
    pub path: Option<String>,
    /// Lines from where it should be.
    pub distance: Option<u64>,
    /// Where it stands, in bytes of the answer.
    pub span: (u64, u64),
    /// Why, in words.
    pub reason: String,
    /// The symbol that it names beside a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// Where that symbol was found: line, and whether it is defined there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<(u64, bool)>,
    /// Of an ambiguous one: the files that it may mean.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<String>,
}

/// What a judge's replies come to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// Steps in order.
    pub steps: Vec<JudgedStep>,
    /// Mean over steps; null: unscored.
    pub quality: Option<f64>,
    /// Replies that could not be read, and all replies.
    pub unreadable: u64,
    /// All replies.
    pub replies: u64,
    /// The judge, as the replies or the recording name it.
    pub judge: Option<String>,
    /// Why it is unscored, in words.
    pub why: Option<String>,
}

/// What a judge said of a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JudgedStep {
    /// Its name.
    pub name: String,
    /// Score and rationale by criterion.
    pub scores: BTreeMap<String, (Option<f64>, String)>,
    /// Weighted sum; null: unscored.
    pub quality: Option<f64>,
}

/// Raw readings of a session or ingest, in the order in which they were taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Clockings {
    /// Named readings: milliseconds, MiB, counts; free-form by stage.
    pub readings: BTreeMap<String, Value>,
}
