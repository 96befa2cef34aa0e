//! Other benchmarks' files into ours.

mod fields;
pub mod rag_bench;
pub mod sense;
pub mod streams;
pub mod writing;
pub mod yaml;

use std::path::PathBuf;

use crate::fsio;

/// Files of an imported answer, to be kept byte for byte.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Id of the answer.
    pub id: String,
    /// Its transcript.
    pub transcript: Content,
    /// What a judge said of it.
    pub judgement: Option<PathBuf>,
    /// Others, with the names under which they are kept.
    pub others: Vec<(String, PathBuf)>,
}

/// The bytes of a transcript.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// The files of one session, one after the other.
    Files(Vec<PathBuf>),
    /// A part of a file.
    Bytes(Vec<u8>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Bytes(Vec::new())
    }
}

impl Content {
    /// The bytes, at most `most` of them.
    ///
    /// # Errors
    /// When a file can't be read or they are more, in words.
    pub fn read(&self, most: u64) -> Result<Vec<u8>, String> {
        match self {
            Self::Files(files) => joined(files, most),
            Self::Bytes(bytes) => Ok(bytes.clone()),
        }
    }
}

/// What is wrong with a recording that an import made, before it is written.
///
/// # Errors
/// The first thing, in words.
fn check_recording(text: &str) -> Result<(), String> {
    let loaded = crate::manifest::load::recording("recording.toml", text.as_bytes());
    match loaded.diagnostics.into_iter().find(crate::diag::Diagnostic::is_error) {
        Some(wrong) => Err(wrong.message),
        None => Ok(()),
    }
}

/// The bytes of files one after the other, with line ends between them.
///
/// # Errors
/// When one can't be read or they are longer than `most` bytes, in words.
pub fn joined(files: &[PathBuf], most: u64) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    for file in files {
        if !out.is_empty() && !out.ends_with(b"\n") {
            out.push(b'\n');
        }
        out.extend(fsio::read_limited(file, most).map_err(|error| error.explain())?);
        if out.len() as u64 > most {
            return Err(format!("its files are longer than {most} bytes"));
        }
    }
    Ok(out)
}

/// The name itself where it may stand as one of ours, else the nearest that may.
fn slug(name: &str) -> String {
    if crate::manifest::names::is_slug(name) {
        return name.to_owned();
    }
    let mut out = String::new();
    for c in name.chars().take(200) {
        if c.is_ascii_alphanumeric() || c == '_' {
            out.push(c);
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    out.trim_matches(|c| c == '-' || c == '_').to_owned()
}
