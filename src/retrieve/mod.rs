//! The engines that come with the program: grep, BM25, symbols, a hybrid of
//! them, and embeddings.
//!
//! Each is a pure function of the files and the question: the same input
//! gives the same list, whatever the machine and the order of the files. A
//! change of an engine's results bumps its `FORMAT`, which is part of its
//! identity and so of every key that its results are kept under.

mod bm25;
mod chunks;
mod embed;
mod folder;
mod grep;
mod hybrid;
mod okapi;
mod postings;
pub mod server;
mod symbols;
mod words;

use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use self::folder::read_folder;
use crate::fsio::FsError;

/// Most characters of a result's content.
const CONTENT: usize = 500;

/// A file to index.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Path relative to the root, with `/`.
    pub path: String,
    /// Its content.
    pub bytes: Arc<[u8]>,
}

impl SourceFile {
    /// Its text; what is no UTF-8 is replaced.
    fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }
}

/// One result.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Path as indexed.
    pub file: String,
    /// Name of the definition that was found.
    pub symbol: Option<String>,
    /// 1-based line.
    pub line: Option<u64>,
    /// Larger is better; comparable within one list only.
    pub score: f64,
    /// At most 500 characters of the place.
    pub content: String,
}

/// What an index holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IndexFacts {
    /// Files that can be found.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Pieces that are ranked.
    pub chunks: u64,
    /// What a reader of a report should know, e.g. `symbols: text only`.
    pub notes: Vec<String>,
}

/// A search engine over files in memory.
pub trait Engine: Send {
    /// Replaces the index by one of these files. Their order is of no
    /// consequence; of two with one path the first in byte order of content
    /// wins.
    fn index(&mut self, files: &[SourceFile]) -> IndexFacts;

    /// At most `limit` results, best first, one per file. Equal scores are in
    /// bytewise order of path.
    fn search(&self, query: &str, limit: usize) -> Vec<Found>;
}

/// Why an engine can't be had or used.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// No engine of this name.
    #[error("no engine `{}`; there are {}", .0, names().join(", "))]
    UnknownEngine(String),
    /// The engine has no such profile.
    #[error("engine `{engine}` has no profile `{profile}`; it has {}", profiles(.engine).join(", "))]
    UnknownProfile {
        /// The engine.
        engine: String,
        /// What was asked for.
        profile: String,
    },
    /// Weights given to an engine that takes none.
    #[error("engine `{0}` takes no weights")]
    NoWeights(String),
    /// Weights that can't be used.
    #[error("can't use the weights `{}`: {reason}", path.display())]
    Weights {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A path that leads out of the folder.
    #[error("`{0}` is not a plain path inside the folder")]
    Outside(String),
    /// More than may be indexed.
    #[error("the folder has more than {most} {what}")]
    TooLarge {
        /// What there is too much of.
        what: &'static str,
        /// The limit.
        most: u64,
    },
    /// The system refuses.
    #[error("{}", .0.explain())]
    File(#[from] FsError),
}

/// Names of the engines.
#[must_use]
pub fn names() -> &'static [&'static str] {
    &["grep", "bm25", "symbols", "hybrid", "embed"]
}

/// Profiles of an engine, the default one first; empty for an unknown engine.
#[must_use]
pub fn profiles(engine: &str) -> &'static [&'static str] {
    match engine {
        "bm25" => &["code", "reference"],
        "grep" | "symbols" | "hybrid" => &["default"],
        "embed" => &["hash", "static"],
        _ => &[],
    }
}

/// `NAME/PROFILE/FORMAT`: what an engine's results depend on besides files
/// and question; `None` when there is no such engine or profile. For
/// embeddings with weights, the weights come on top.
#[must_use]
pub fn identity(name: &str, profile: Option<&str>) -> Option<String> {
    let known = profiles(name);
    let profile = profile.unwrap_or(known.first()?);
    if !known.contains(&profile) {
        return None;
    }
    let format = match (name, profile) {
        ("grep", _) => grep::FORMAT,
        ("bm25", "reference") => okapi::FORMAT,
        ("bm25", _) => bm25::FORMAT,
        ("symbols", _) => symbols::FORMAT,
        ("hybrid", _) => hybrid::FORMAT,
        _ => embed::FORMAT,
    };
    Some(format!("{name}/{profile}/{format}"))
}

/// Makes an engine with an empty index. `weights` is a folder with a
/// safetensors file and a tokenizer JSON; only `embed` takes it, and its
/// profile is `static` then.
///
/// # Errors
/// When there is no such engine or profile, or the weights can't be used.
pub fn engine(
    name: &str,
    profile: Option<&str>,
    weights: Option<&Path>,
) -> Result<Box<dyn Engine>, EngineError> {
    let known = profiles(name);
    if known.is_empty() {
        return Err(EngineError::UnknownEngine(name.to_owned()));
    }
    if let Some(profile) = profile.filter(|p| !known.contains(p)) {
        return Err(EngineError::UnknownProfile { engine: name.to_owned(), profile: profile.to_owned() });
    }
    if weights.is_some() && (name != "embed" || profile == Some("hash")) {
        let who = profile.map_or_else(|| name.to_owned(), |p| format!("{name}/{p}"));
        return Err(EngineError::NoWeights(who));
    }
    Ok(match (name, profile) {
        ("grep", _) => Box::new(grep::Grep::default()),
        ("bm25", Some("reference")) => Box::new(okapi::Okapi::default()),
        ("bm25", _) => Box::new(bm25::Bm25::default()),
        ("symbols", _) => Box::new(symbols::Symbols::default()),
        ("hybrid", _) => Box::new(hybrid::Hybrid::default()),
        (_, profile) => Box::new(embed::Embed::new(profile, weights)?),
    })
}

/// The texts that a profile of `bm25` ranks, in its order; empty for another
/// profile. For measuring another implementation on the same ones.
#[must_use]
pub fn ranked_texts(profile: &str, files: &[SourceFile]) -> Vec<String> {
    match profile {
        "reference" => okapi::texts(files),
        "code" => bm25::texts(files),
        _ => Vec::new(),
    }
}

/// The regular expression by which `grep` finds lines for a question; none
/// when the question has no word to look for.
#[must_use]
pub fn grep_pattern(question: &str) -> Option<String> {
    grep::pattern_of(question)
}

/// The first characters of a text, without blank ends.
fn excerpt(text: &str) -> String {
    let text = text.trim_end();
    match text.char_indices().nth(CONTENT) {
        Some((end, _)) => text[..end].to_owned(),
        None => text.to_owned(),
    }
}

/// Files in order of path, each path once.
fn in_order(files: &[SourceFile]) -> Vec<&SourceFile> {
    let mut out: Vec<&SourceFile> = files.iter().collect();
    out.sort_by(|a, b| (&a.path, &a.bytes).cmp(&(&b.path, &b.bytes)));
    out.dedup_by(|a, b| a.path == b.path);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_has_an_identity_and_can_be_made() {
        for name in names() {
            for profile in profiles(name) {
                assert!(identity(name, Some(profile)).unwrap().starts_with(&format!("{name}/{profile}/")));
                if *profile != "static" {
                    engine(name, Some(profile), None).unwrap();
                }
            }
            assert_eq!(identity(name, None), identity(name, Some(profiles(name)[0])));
        }
        assert_eq!(identity("ag", None), None);
        assert_eq!(identity("grep", Some("x")), None);
    }

    #[test]
    fn refusals_name_the_thing() {
        let text = |r: Result<Box<dyn Engine>, EngineError>| r.err().unwrap().to_string();
        assert_eq!(
            text(engine("ag", None, None)),
            "no engine `ag`; there are grep, bm25, symbols, hybrid, embed"
        );
        assert_eq!(
            text(engine("bm25", Some("x"), None)),
            "engine `bm25` has no profile `x`; it has code, reference"
        );
        assert_eq!(text(engine("grep", None, Some(Path::new("w")))), "engine `grep` takes no weights");
        assert!(text(engine("embed", Some("static"), None)).contains("weights"));
    }

    #[test]
    fn nothing_indexed_finds_nothing() {
        for name in names() {
            let mut engine = engine(name, None, None).unwrap();
            assert!(engine.search("where is x?", 10).is_empty(), "{name}");
            assert_eq!(engine.index(&[]), IndexFacts::default(), "{name}");
            assert!(engine.search("where is x?", 10).is_empty(), "{name}");
        }
    }
}
