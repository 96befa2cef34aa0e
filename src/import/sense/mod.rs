//! Files of the sense benchmark: scenarios with their checks and must-find
//! sets, and the judge's rubrics.
//!
//! What they say is kept to the letter, so that its scores can be recomputed:
//! texts are not trimmed, the names of check types stay beside ours, and every
//! check reads the whole answer, as it does there.

pub mod runs;
pub mod scenario;

use super::slug;
use crate::digest::Digest;

/// A name of theirs as one of ours. Where a slug would lose letters, or all of it, a few digits of a
/// digest keep it apart from others.
#[must_use]
pub fn ours(name: &str) -> String {
    let plain = slug(name);
    if !plain.is_empty() && name.is_ascii() {
        return plain;
    }
    let digest = Digest::of(name.as_bytes()).hex();
    let digits = digest.get(..8).unwrap_or_default();
    if plain.is_empty() { format!("x-{digits}") } else { format!("{plain}-{digits}") }
}

/// A file of theirs as one of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Converted {
    /// The TOML text; it passes the check of its kind.
    pub text: String,
    /// What has no counterpart here, or is called otherwise.
    pub notes: Vec<String>,
}

/// Why a file was not converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SenseError {
    /// It is no YAML of a bearable size.
    #[error(transparent)]
    Yaml(#[from] super::yaml::YamlError),
    /// It is no such file; everything that is wrong with it.
    #[error("{}", .0.join("\n"))]
    Malformed(Vec<String>),
}

/// What a session of a repository may use before its efficiency is 0, and what it may cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allowance {
    /// Tokens: uncached input and output.
    pub tokens: u64,
    /// Wall-clock seconds.
    pub seconds: u64,
    /// US dollars.
    pub usd: f64,
}

/// The allowance of a repository by the benchmark's table, under its name there.
#[must_use]
pub fn allowance(repo: &str) -> Allowance {
    let (tokens, seconds, usd) = match repo {
        "flask" | "gin" => (15_000, 320, 1.0),
        "javalin" => (15_000, 480, 1.75),
        "axum" => (20_000, 480, 1.75),
        "discourse" => (30_000, 480, 2.0),
        "nextjs" => (40_000, 720, 2.25),
        "dolt" | "pebble" => (30_000, 300, 1.5),
        _ => (30_000, 480, 1.5),
    };
    Allowance { tokens, seconds, usd }
}
