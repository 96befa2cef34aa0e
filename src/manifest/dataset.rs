//! `datasets/repos.toml` and `datasets/questions/*.toml`.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::pipeline::Profile;

/// Fewest characters of a question's content: a shorter line occurs in too many places.
pub const SHORTEST_CONTENT: usize = 20;

/// The repositories of a dataset.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Repos {
    /// Version of this file format; 1.
    #[schemars(range(min = 1, max = 1))]
    pub format: u32,
    /// Repositories by name.
    #[serde(default)]
    #[schemars(extend("propertyNames" = super::names::slug()))]
    pub repo: IndexMap<String, Repo>,
}

/// One repository: where its files come from and what is known of it.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Repo {
    /// Git address; needs `commit`.
    #[serde(default)]
    pub url: Option<String>,
    /// Commit, 40 hex digits.
    #[serde(default)]
    #[schemars(regex(pattern = r"^[0-9a-f]{40}$"), extend("x-words" = "a full commit of 40 hex digits"))]
    pub commit: Option<String>,
    /// Archive from a registry; taken before git where both are given.
    #[serde(default)]
    pub archive: Option<Archive>,
    /// Folder relative to this file; with `commit` a local git checkout.
    #[serde(default)]
    pub path: Option<String>,
    /// Only this folder of the source is the corpus.
    #[serde(default)]
    pub subdir: Option<String>,
    /// Main language.
    #[serde(default)]
    pub language: String,
    /// How likely a model knows it by heart.
    #[serde(default)]
    pub exposure: Exposure,
    /// Date of first publication.
    #[serde(default)]
    #[schemars(regex(pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"), extend("x-words" = "a date such as 2010-04-16"))]
    pub published: Option<String>,
    /// Size in lines of code.
    #[serde(default)]
    pub lines: Option<u64>,
    /// A question whose answer every working search tool must find.
    #[serde(default)]
    pub known: Option<Known>,
}

/// An archive in a registry, pinned by version and SHA-256.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Archive {
    /// Source distribution, `NAME==VERSION`.
    #[serde(default)]
    pub pypi: Option<String>,
    /// Package, `NAME@VERSION`.
    #[serde(default)]
    pub npm: Option<String>,
    /// Crate, `NAME@VERSION`.
    #[serde(default, rename = "crate")]
    pub krate: Option<String>,
    /// SHA-256 of the archive's bytes.
    #[serde(default)]
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"), extend("x-words" = "64 lower-case hex digits"))]
    pub sha256: Option<String>,
}

/// How likely a model knows a repository by heart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Exposure {
    /// In every training set.
    Famous,
    /// Public, but little known.
    Obscure,
    /// First published after the models were trained.
    AfterCutoff,
    /// Never published.
    #[default]
    Private,
}

/// A question with a known answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Known {
    /// A symbol that is defined once.
    pub symbol: String,
    /// The question in words.
    pub question: String,
    /// The file that defines it.
    pub file: String,
}

/// The questions of one repository.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct QuestionSet {
    /// Version of this file format; 1.
    #[schemars(range(min = 1, max = 1))]
    pub format: u32,
    /// The repository's name in `repos.toml`.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"), extend("x-words" = super::names::SLUG_WORDS))]
    pub repo: String,
    /// Whose rules its ground truth was written for; graded by them unless the stage names others.
    #[serde(default)]
    pub profile: Option<Profile>,
    /// Questions asked before the clock starts and thrown away.
    #[serde(default)]
    pub warmup: Vec<Warmup>,
    /// The questions.
    #[serde(default)]
    pub question: Vec<Question>,
}

/// A question that is asked and thrown away.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Warmup {
    /// Identifier, a slug.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"), extend("x-words" = super::names::ID_WORDS))]
    pub id: String,
    /// Kind of question.
    #[serde(default)]
    pub kind: Option<QuestionKind>,
    /// The words.
    #[schemars(length(min = 1))]
    pub prompt: String,
}

/// A question with its ground truth.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Question {
    /// Identifier, unique in the dataset.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"), extend("x-words" = super::names::ID_WORDS))]
    pub id: String,
    /// Kind of question.
    pub kind: QuestionKind,
    /// How hard it is.
    pub difficulty: Difficulty,
    /// The words.
    #[schemars(length(min = 1))]
    pub prompt: String,
    /// Files of which any one answers it; relative to the corpus.
    #[serde(default)]
    pub files: Vec<String>,
    /// Symbols that are defined in one of the files.
    #[serde(default)]
    pub symbols: Vec<String>,
    /// Symbols that one of the files uses without defining them.
    #[serde(default)]
    pub mentions: Vec<String>,
    /// Verbatim lines of one of the files.
    #[serde(default)]
    pub content: Vec<String>,
}

/// Kinds of questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QuestionKind {
    /// Where is it?
    Locate,
    /// How does it work?
    Explain,
    /// Who calls it?
    Callers,
    /// What does it call?
    Callees,
    /// What breaks when it changes?
    Impact,
    /// Several steps apart.
    MultiHop,
    /// Across packages or languages.
    CrossPackage,
    /// How do the parts fit?
    Architecture,
    /// What is never used?
    DeadCode,
    /// What happens only under a condition?
    ConditionalPath,
    /// Which test covers it?
    TestTraceability,
}

/// How hard a question is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Difficulty {
    /// A name in the question leads there.
    Easy,
    /// Needs some reading.
    Medium,
    /// Needs several files.
    Hard,
}
