//! `scenarios/*.toml`: a task of several steps about one repository, what a
//! good answer holds, and what must be found.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names;
use crate::unit::Span;

/// A task of one or more steps about one repository.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    /// Version of this file format; 1.
    #[schemars(range(min = 1, max = 1))]
    pub format: u32,
    /// Identifier of the task, a slug.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"), extend("x-words" = names::SLUG_WORDS))]
    pub name: String,
    /// What it is called, in a few words; shown to the agent.
    #[schemars(length(min = 1))]
    pub title: String,
    /// The repository's name in `repos.toml`.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"), extend("x-words" = names::SLUG_WORDS))]
    pub repo: String,
    /// Commit that it was written for, where the repository is pinned elsewhere; 40 hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9a-f]{40}$"), extend("x-words" = "a full commit of 40 hex digits"))]
    pub commit: Option<String>,
    /// What it is about; shown to the agent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Languages of the files that an answer should cite; none: any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub languages: Vec<String>,
    /// The judge's rubric, a path in the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub rubric: Option<String>,
    /// Bounds of one session.
    #[serde(default)]
    pub limits: Limits,
    /// What efficiency is measured against.
    #[serde(default)]
    pub ceilings: Ceilings,
    /// What discoverability is measured against.
    #[serde(default)]
    pub target: Target,
    /// The steps, in order.
    #[serde(default)]
    pub step: Vec<Step>,
    /// What must be found: the must-find set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gold: Vec<Gold>,
    /// What the scenario said before its import, where steps and rows here can't say it all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original: Option<Original>,
}

/// A scenario as the benchmark that it was imported from reads it: by that benchmark's rules it is scored
/// in place of the steps' checks and the must-find set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Original {
    /// JSON: `name`, `steps` with `name` and `checks`, and `gold`.
    #[schemars(length(min = 1))]
    pub scenario: String,
}

/// Bounds of one session of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// Wall-clock time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Span>,
    /// Cost in US dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0.0))]
    pub usd: Option<f64>,
    /// Turns of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub turns: Option<u32>,
}

/// At and above these, efficiency is 0. Without one of them its half can't be scored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Ceilings {
    /// Tokens of the whole session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub tokens: Option<u64>,
    /// Wall-clock time of the whole session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Span>,
}

/// What a full score asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Target {
    /// Distinct files of the corpus that an answer names, for a discoverability of 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub files: Option<u32>,
}

/// One step: what is asked, and what its answer is checked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Step {
    /// Name, unique in the scenario; the rubric's step is called the same.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The words.
    #[schemars(length(min = 1))]
    pub prompt: String,
    /// What the answer is checked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub check: Vec<Check>,
}

/// One yes-or-no question that a program can answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Check {
    /// How it is answered.
    #[serde(rename = "type")]
    pub kind: CheckType,
    /// What is looked for; of `richness` a whole number, of `no-search` nothing.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// Required checks count 1, others 0.5.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub required: bool,
    /// Which score it counts in.
    #[serde(default, skip_serializing_if = "is_default")]
    pub layer: Layer,
    /// Which part of the answer it reads.
    #[serde(default, skip_serializing_if = "is_default")]
    pub scope: Scope,
    /// Why it is asked, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// What its type is called in the file that it was imported from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub original: Option<String>,
}

/// How a check is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckType {
    /// `value` is part of the answer, in whatever case.
    Contains,
    /// `value` stands in the answer as a word of its own, in whatever case.
    Word,
    /// The same as `word`, for several words.
    Phrase,
    /// `value` is part of the answer, in this case.
    Exact,
    /// A line of the answer begins with `value`, in whatever case.
    StartsWith,
    /// The regular expression `value` matches somewhere in the answer.
    Regex,
    /// `value` is no part of the answer, in whatever case.
    Absent,
    /// The answer cites the file `value` of the corpus.
    CitesFile,
    /// The answer cites a place at which the symbol `value` stands.
    CitesSymbol,
    /// `value` is part of the changes that the session made to the corpus.
    DiffContains,
    /// The answer cites at least `value` distinct files.
    Richness,
    /// A tool was called whose name holds `value`.
    ToolUsed,
    /// Nothing was searched by the agent's own means (grep, glob, search commands of a shell).
    NoSearch,
}

/// Which score a check counts in.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// How good the answer is; every arm can pass it.
    #[default]
    Fairness,
    /// Whether the arm's server was used.
    Adoption,
}

/// Which part of a session's answer a check reads.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Scope {
    /// The step's own answer.
    #[default]
    Step,
    /// The answers of all steps.
    Session,
}

/// One row of the must-find set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Gold {
    /// Identifier, unique in the scenario.
    #[schemars(length(min = 1))]
    pub id: String,
    /// Group that it is counted in.
    #[serde(default = "ungrouped", skip_serializing_if = "is_ungrouped")]
    #[schemars(length(min = 1))]
    pub group: String,
    /// Texts of which any one in the answer finds it, in whatever case; a path can be cited, too.
    #[serde(default, rename = "match")]
    pub matches: Vec<String>,
    /// The right line in the first path of `match`, 1-based.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub line: Option<u64>,
    /// The symbol that stands there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub symbol: Option<String>,
    /// The true reason why it belongs; rows without one aren't audited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub relation: Option<String>,
    /// A checked fact that tells a right reason from a plausible one; shown to the auditor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub fact: Option<String>,
}

/// Group of rows that name none.
pub const UNGROUPED: &str = "_";

fn yes() -> bool {
    true
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_yes(flag: &bool) -> bool {
    *flag
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn ungrouped() -> String {
    UNGROUPED.to_owned()
}

fn is_ungrouped(group: &str) -> bool {
    group == UNGROUPED
}

impl CheckType {
    /// Every type, in the order of the documentation.
    pub const ALL: [Self; 13] = [
        Self::Contains,
        Self::Word,
        Self::Phrase,
        Self::Exact,
        Self::StartsWith,
        Self::Regex,
        Self::Absent,
        Self::CitesFile,
        Self::CitesSymbol,
        Self::DiffContains,
        Self::Richness,
        Self::ToolUsed,
        Self::NoSearch,
    ];

    /// Its name in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Contains => "contains",
            Self::Word => "word",
            Self::Phrase => "phrase",
            Self::Exact => "exact",
            Self::StartsWith => "starts-with",
            Self::Regex => "regex",
            Self::Absent => "absent",
            Self::CitesFile => "cites-file",
            Self::CitesSymbol => "cites-symbol",
            Self::DiffContains => "diff-contains",
            Self::Richness => "richness",
            Self::ToolUsed => "tool-used",
            Self::NoSearch => "no-search",
        }
    }

    /// Whether it reads the session's tool calls and not the answer.
    #[must_use]
    pub fn reads_calls(self) -> bool {
        matches!(self, Self::ToolUsed | Self::NoSearch)
    }

    /// The type of that name.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What its `value` is, in words.
    pub(super) fn about(self) -> &'static str {
        match self {
            Self::Contains | Self::Word | Self::Phrase | Self::Exact => "the words that the answer must hold",
            Self::StartsWith => "the words that a line of the answer must begin with",
            Self::Regex => "the regular expression that must match",
            Self::Absent => "the words that the answer must not hold",
            Self::CitesFile => "the file of the corpus that the answer must cite",
            Self::CitesSymbol => "the symbol that the answer must cite",
            Self::DiffContains => "the text that the changes must hold",
            Self::Richness => "the least number of distinct files that the answer must cite",
            Self::ToolUsed => "a part of the tool's name",
            Self::NoSearch => "nothing",
        }
    }
}

/// Endings of file names that make a text without a folder a path.
const ENDINGS: [&str; 44] = [
    "rb", "py", "go", "ts", "tsx", "js", "jsx", "mjs", "cjs", "rs", "java", "kt", "kts", "cs", "cpp", "cc",
    "c", "h", "hpp", "php", "scala", "erb", "swift", "vue", "svelte", "ex", "exs", "pyi", "json", "yaml",
    "yml", "toml", "xml", "css", "scss", "html", "md", "rst", "txt", "sql", "sh", "proto", "graphql", "ini",
];

/// Whether a text of a row's `match` is a path, which an answer can cite: it
/// ends like a source file, or has a folder and a dot.
#[must_use]
pub fn is_file_like(text: &str) -> bool {
    if text.contains(char::is_whitespace) {
        return false;
    }
    let ending = text.rsplit_once('.').map_or("", |(_, ending)| ending);
    (text.contains('/') && text.contains('.')) || ENDINGS.contains(&ending.to_ascii_lowercase().as_str())
}
