//! `recordings/*.toml`: answers that exist already, to be graded and judged
//! without buying them again.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::names;
use crate::artifact::transcript::Dialect;

/// A set of recorded answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Recording {
    /// Version of this file format; 1.
    #[schemars(range(min = 1, max = 1))]
    pub format: u32,
    /// Name, a slug.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"), extend("x-words" = names::SLUG_WORDS))]
    pub name: String,
    /// What it is and where it is from, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub about: String,
    /// Words that every output made from it shows, such as `a recording: ...`.
    #[schemars(length(min = 1))]
    pub label: String,
    /// The answers.
    #[serde(default)]
    pub answer: Vec<RecordedAnswer>,
}

/// One session that was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RecordedAnswer {
    /// Identifier, unique in the file: plain names joined by `/`.
    #[schemars(length(min = 1))]
    pub id: String,
    /// The arm that gave it.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"), extend("x-words" = names::SLUG_WORDS))]
    pub arm: String,
    /// The task: name of a scenario or id of a question.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"), extend("x-words" = names::ID_WORDS))]
    pub task: String,
    /// Which of several sessions of the same arm and task; 1 is the first.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    #[schemars(range(min = 1))]
    pub replicate: u32,
    /// The repository's name in `repos.toml`.
    #[schemars(regex(pattern = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"), extend("x-words" = names::SLUG_WORDS))]
    pub repo: String,
    /// The model that answered, as its provider names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub model: Option<String>,
    /// The agent and its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub agent: Option<String>,
    /// Form of the transcripts; none: found out from what they hold.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dialect: Option<Dialect>,
    /// The transcript, a path in the project.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub transcript: Option<String>,
    /// The transcript's bytes, as an object of the store; 64 hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"), extend("x-words" = "64 lower-case hex digits"))]
    pub digest: Option<String>,
    /// Transcripts of the steps, in order, of a session that was recorded turn by turn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// Recorded replies of a judge, a path in the project: lines of `{"step", "reply"}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub judgement: Option<String>,
    /// The recorded replies' bytes, as an object of the store; 64 hex digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(regex(pattern = r"^[0-9a-f]{64}$"), extend("x-words" = "64 lower-case hex digits"))]
    pub judgement_digest: Option<String>,
    /// What else is known of the session: exit code, wall seconds, error, commit.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub facts: IndexMap<String, Value>,
    /// Where it is from, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub origin: Option<String>,
    /// The corpus's folder as the agent saw it, where the transcript doesn't say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1))]
    pub cwd: Option<String>,
}

fn first() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_first(number: &u32) -> bool {
    *number == 1
}
