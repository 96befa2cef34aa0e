//! `presets/servers/*.toml`: how a server is identified, started, indexed and asked.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::unit::Span;

/// A server preset.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Server {
    /// Version of this file format; 1.
    #[schemars(range(min = 1, max = 1))]
    pub format: u32,
    /// Name, a slug; arms made from this preset are called by it.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"), extend("x-words" = super::names::SLUG_WORDS))]
    pub name: String,
    /// What it is, in one line.
    #[serde(default)]
    pub about: String,
    /// Version; part of the server's identity.
    #[serde(default)]
    pub version: String,
    /// Where it comes from.
    #[serde(default)]
    pub package: Option<Package>,
    /// Product names, masked before a judge sees an answer.
    #[serde(default)]
    pub names: Vec<String>,
    /// How it is spoken to.
    #[serde(default)]
    pub transport: Transport,
    /// Program and arguments; `{corpus}`, `{state}`, `{home}`, `{tmp}`, `{proofline}`, `{port}` are replaced.
    #[serde(default)]
    pub command: Vec<String>,
    /// Address of an HTTP server; `{port}` is replaced. A server on another machine has no `command`.
    #[serde(default)]
    pub url: Option<String>,
    /// Built-in engine (transport `builtin`).
    #[serde(default)]
    pub engine: Option<String>,
    /// Profile of the built-in engine.
    #[serde(default)]
    pub profile: Option<String>,
    /// The only environment it sees besides PATH, HOME, XDG directories, TMPDIR and `LC_CTYPE`.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Variables passed on by name when they are set; their values are never recorded.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// Project files that determine the server; their content is part of its identity.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// Where its index lives.
    #[serde(default)]
    pub index: Index,
    /// Of an external index: a number that you raise when it has changed.
    #[serde(default)]
    pub epoch: u64,
    /// Further places that hold the index.
    #[serde(default)]
    pub state: Vec<String>,
    /// What it may add to its own copy of the corpus.
    #[serde(default)]
    pub writes: Vec<String>,
    /// May its state be used at another absolute path?
    #[serde(default)]
    pub relocatable: bool,
    /// Numbering of structured line fields.
    #[serde(default)]
    pub lines: Lines,
    /// How the protocol is opened.
    #[serde(default)]
    pub lifecycle: Lifecycle,
    /// Longest time until it has answered `initialize`; default 60 s.
    #[serde(default = "minute")]
    pub start_timeout: Span,
    /// Longest time of one call; default 30 s.
    #[serde(default = "half_minute")]
    pub call_timeout: Span,
    /// Longest time of indexing; default 10 minutes.
    #[serde(default = "ten_minutes")]
    pub index_timeout: Span,
    /// Only these folders of the corpus are indexed.
    #[serde(default)]
    pub index_directories: Vec<String>,
    /// Commands run before the server starts, not counted as indexing.
    #[serde(default)]
    pub pre_ingest: Vec<PreIngest>,
    /// Which of its tools does what; what is left out is detected.
    #[serde(default)]
    pub tools: Tools,
    /// How a question is put to it.
    #[serde(default)]
    pub query: Query,
    /// How its known-answer question is asked.
    #[serde(default)]
    pub known_answer: KnownAnswer,
}

fn minute() -> Span {
    Span(std::time::Duration::from_mins(1))
}

fn half_minute() -> Span {
    Span(std::time::Duration::from_secs(30))
}

fn ten_minutes() -> Span {
    Span(std::time::Duration::from_mins(10))
}

/// Where a package comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Package {
    /// The registry's client that installs it.
    pub registry: Registry,
    /// Name there.
    #[serde(default)]
    pub name: String,
}

/// Package registries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Registry {
    /// pip.
    Pypi,
    /// npm.
    Npm,
    /// cargo.
    Crate,
    /// It is not in a registry.
    None,
}

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// MCP over standard input and output.
    #[default]
    Stdio,
    /// MCP over streamable HTTP.
    Http,
    /// One process per call: `COMMAND list-tools`, `COMMAND call-tool NAME JSON`.
    Cli,
    /// An engine of proofline's, called in its own process.
    Builtin,
}

/// Where a server's index lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Index {
    /// On disk: a session works on a private copy.
    #[default]
    Directory,
    /// In memory: each session's server indexes again before its clock starts.
    Memory,
    /// It has none.
    None,
    /// Elsewhere; `epoch` says which state of it is meant.
    External,
}

/// Numbering of lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Lines {
    /// The first line is 1.
    #[default]
    OneBased,
    /// The first line is 0.
    ZeroBased,
}

/// How the protocol is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Lifecycle {
    /// The classic `initialize` exchange.
    #[default]
    Initialize,
    /// `server/discover` of the revision 2026-07-28.
    Discover,
}

/// A command that is run before the server starts.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PreIngest {
    /// Program and arguments.
    pub run: Vec<String>,
    /// Working directory; default `{corpus}`.
    #[serde(default)]
    pub cwd: Option<String>,
    /// Longest time; default 10 minutes.
    #[serde(default = "ten_minutes")]
    pub timeout: Span,
}

/// Which tool does what.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Tools {
    /// Indexes the corpus.
    #[serde(default)]
    pub ingest: Option<ToolUse>,
    /// Answers a question.
    #[serde(default)]
    pub query: Option<ToolUse>,
}

/// A tool and the arguments that it is called with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ToolUse {
    /// Name of the tool.
    pub tool: String,
    /// Arguments; `{query}`, `{limit}`, `{corpus}` are replaced, and one that stands alone keeps its type.
    #[serde(default)]
    pub args: IndexMap<String, serde_json::Value>,
}

/// How a question is put.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Query {
    /// The words that are sent.
    #[serde(default)]
    pub form: Form,
    /// Of `keywords`: the most calls per question; default 3.
    #[serde(default = "three")]
    #[schemars(range(min = 1, max = 10))]
    pub max_calls: u32,
}

impl Default for Query {
    fn default() -> Self {
        Self { form: Form::default(), max_calls: three() }
    }
}

fn three() -> u32 {
    3
}

/// The words that are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// The question as it stands.
    #[default]
    Question,
    /// Its keywords, one call each, the lists merged in turn.
    Keywords,
}

/// How a server's known-answer question is asked.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct KnownAnswer {
    /// With the repository's known symbol or its known question; default by `query.form`.
    #[serde(default)]
    pub ask: Option<Ask>,
}

/// What a known-answer question says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// Only the symbol's name.
    Symbol,
    /// The whole question.
    Question,
}
