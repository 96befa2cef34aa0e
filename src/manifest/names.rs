//! What names in files may look like.

use serde_json::{Value, json};

/// A slug in words.
pub const SLUG_WORDS: &str = "letters, digits, `-` and `_`, beginning with a letter or digit";
/// An identifier of a question in words.
pub const ID_WORDS: &str = "letters, digits, `-`, `_` and `.`, beginning with a letter or digit";
/// A name that templates can use, in words.
pub const IDENTIFIER_WORDS: &str =
    "letters, digits and `_`, beginning with a letter, so that templates can use the name";

/// Most bytes of a value that stands in the name of a node: an arm, a task, the id of an answer.
pub const LONGEST_VALUE: usize = 200;

const SLUG: &str = r"^[A-Za-z0-9][A-Za-z0-9_-]*$";
const IDENTIFIER: &str = r"^[A-Za-z][A-Za-z0-9_]*$";

/// Schema of names that stand in node ids: arms, stages, repositories.
#[must_use]
pub fn slug() -> Value {
    json!({ "type": "string", "pattern": SLUG, "x-words": SLUG_WORDS })
}

/// Schema of names that templates use: parameters, axes.
#[must_use]
pub fn identifier() -> Value {
    json!({ "type": "string", "pattern": IDENTIFIER, "x-words": IDENTIFIER_WORDS })
}

/// Whether a text may be the name of an arm, a stage or a repository.
#[must_use]
pub fn is_slug(text: &str) -> bool {
    let tail = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(tail)
}
