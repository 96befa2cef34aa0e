//! Citations: what an answer points at, and what each pointer is worth.
//!
//! [`extract`] finds places that an answer names (`src/app.py:81`, "lines 10-20 of
//! src/app.py", links, JSON), [`check`] looks each up in the code through the trait
//! [`Source`], and [`examine`] does both. A citation falls into one bucket: it is
//! [grounded](Bucket::Grounded) when file and lines exist and the symbol that is named
//! with them stands within five lines.
//!
//! Answers are hostile: every pass takes time in proportion to their length.

mod check;
mod extract;
mod json;
mod listing;
mod locator;
mod name;
mod text;
mod token;

use std::ops::Range;

use serde::{Deserialize, Serialize};

pub use check::{NEAR, check};
pub use extract::{MOST, extract};
pub use listing::{FileId, Kind, Listing};
pub use text::{NotText, Text};
pub use token::{Known, Nothing};

use std::sync::Arc;

/// Files larger than this many bytes are not read.
pub const LARGEST: u64 = 16 << 20;

/// One place that an answer points at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Citation {
    /// The file as written, without a leading `./` and without marks around it.
    pub file: String,
    /// `12`, `12-20`, or the symbol where there is no line.
    pub locator: String,
    /// First and last line as written, 1-based where it is right; the same twice for one line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<(u64, u64)>,
    /// The symbol as written, without arguments.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub symbol: Option<String>,
    /// Bytes of the answer that it takes. Elements of one list of lines have spans of their own, or,
    /// in JSON, share one.
    pub span: Range<usize>,
    /// Bytes of the answer where the symbol stands, if apart from the span.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joins: Option<Range<usize>>,
}

/// What a citation is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bucket {
    /// It holds.
    Grounded,
    /// File and symbol are real, the line is off.
    Displaced,
    /// It names no file, or more than one.
    Unresolved,
    /// The line is past the end, or the symbol is nowhere in the file.
    Hallucinated,
    /// There is no code to look in.
    CannotCheck,
}

impl Bucket {
    /// All of them, best first.
    pub const ALL: [Self; 5] =
        [Self::Grounded, Self::Displaced, Self::Unresolved, Self::Hallucinated, Self::CannotCheck];

    /// Its name in details and reports.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Grounded => "grounded",
            Self::Displaced => "displaced",
            Self::Unresolved => "unresolved",
            Self::Hallucinated => "hallucinated",
            Self::CannotCheck => "cannot-check",
        }
    }
}

/// What was found at a citation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Finding {
    /// What it is worth.
    pub bucket: Bucket,
    /// The corpus file that it means, when that is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Of a displaced one: lines between the cited lines and the symbol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distance: Option<u64>,
    /// Of an ambiguous one: the files that it may mean, sorted; the first 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<String>,
    /// Why, in plain words.
    pub reason: String,
    /// Where its symbol was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub evidence: Option<Evidence>,
}

/// Where a symbol stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Evidence {
    /// 1-based line.
    pub line: u64,
    /// As what.
    pub found: Found,
}

/// As what a symbol stands somewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Found {
    /// It is defined there.
    Definition,
    /// Its name is a word there.
    Word,
}

/// Why a file's text can't be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// It is no text.
    #[error("it is a binary file")]
    Binary,
    /// It has more than [`LARGEST`] bytes.
    #[error("it is larger than {} MiB", LARGEST >> 20)]
    TooLarge,
    /// It isn't what the listing says, or reading failed.
    #[error("it can't be read: {0}")]
    Failed(String),
}

/// The code that citations are checked against; [`crate::grade`] itself reads no file.
///
/// Files are named by their position in the listing, and nothing else is ever opened.
pub trait Source {
    /// The files and links.
    fn listing(&self) -> &Listing;

    /// The text of a file.
    ///
    /// # Errors
    /// When it has none that can be read.
    fn text(&self, file: FileId) -> Result<Arc<Text>, Unreadable>;

    /// How many lines a file has; cheaper than its text where that was read before.
    ///
    /// # Errors
    /// As [`text`](Self::text).
    fn line_count(&self, file: FileId) -> Result<u64, Unreadable> {
        Ok(self.text(file)?.line_count())
    }

    /// 1-based lines on which a file defines `name`, ascending; none without a grammar.
    fn definitions(&self, file: FileId, name: &str) -> Vec<u64>;
}

/// Code as the one who answered saw it.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The code.
    pub source: &'a dyn Source,
    /// The folder that it lay in: absolute paths count below it.
    pub root: Option<&'a str>,
}

/// Finds the citations of an answer and checks each; without a `view` none can be checked.
#[must_use]
pub fn examine(answer: &str, view: Option<View<'_>>) -> Vec<(Citation, Finding)> {
    let found = match &view {
        Some(view) => extract(answer, view),
        None => extract(answer, &Nothing),
    };
    found
        .into_iter()
        .map(|citation| {
            let finding = check(&citation, view);
            (citation, finding)
        })
        .collect()
}
