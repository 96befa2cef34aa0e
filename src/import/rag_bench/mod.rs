//! Datasets, server configurations and results of the rag-bench family:
//! `repos.json`, `queries/*.jsonl`, `warmup.jsonl`, JSON presets, and result files
//! of its agent and retrieval modes.
//!
//! Questions keep their ids and words. What has no counterpart here is named
//! in the [`Report`]; a line that can't be read is reported with its place and
//! the others are imported. What the files claim is not corrected: a symbol
//! that is expected there is written as one that is defined, and
//! `datasets verify` says where that is wrong.

mod dataset;
mod presets;
mod results;

use std::path::{Path, PathBuf};

use super::writing::{Files, WriteError};
use super::{Kept, fields};
use crate::diag::Diagnostic;
use crate::fsio;
use crate::manifest::load;
use crate::manifest::source::LARGEST as LARGEST_RECORDING;

/// Largest file that is read.
const LARGEST: u64 = 64 << 20;
/// Name of the file that lists answers.
const RECORDING: &str = "recording.toml";

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Files written, relative to the target folder.
    pub written: Vec<PathBuf>,
    /// Repositories imported.
    pub repos: usize,
    /// Questions imported.
    pub questions: usize,
    /// Warm-up questions imported, counted once per source line.
    pub warmups: usize,
    /// Server presets imported.
    pub servers: usize,
    /// Result files imported.
    pub runs: usize,
    /// Rows of result files, in the order of the recording.
    pub kept: Vec<Kept>,
    /// What was left out or must be filled in by hand.
    pub notes: Vec<String>,
    /// What could not be read.
    pub problems: Vec<Malformed>,
}

/// Something in the source that could not be used.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Malformed {
    /// The file, relative to the source folder.
    pub file: String,
    /// 1-based line, where the format has lines.
    pub line: Option<usize>,
    /// What is wrong.
    pub message: String,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.message)
    }
}

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The folder holds no such benchmark.
    #[error("`{}` holds no repos.json (nor a folder `datasets` that does), and no result file", .0.display())]
    NoDataset(PathBuf),
    /// `repos.json` can't be used.
    #[error("{0}")]
    Repos(Malformed),
    /// More rows than a recording can list.
    #[error(
        "the list of all rows would have {bytes} bytes, more than a recording may have; \
         import the result files one by one, each with an `--into` of its own"
    )]
    TooMany {
        /// Its length.
        bytes: usize,
    },
    /// What was written does not read back: a fault of the importer.
    #[error("the imported `{file}` is not valid: {why}")]
    Invalid {
        /// The file.
        file: String,
        /// The reader's words.
        why: String,
    },
}

/// Turns the benchmark at `path` (its root, its `datasets` folder, or one of its result files) into
/// `into/repos.toml`, `into/questions/<repo>.toml`, `into/presets/servers/<name>.toml` and, where
/// there are result files, `into/recording.toml`.
///
/// Questions of a result file are those of the benchmark that it lies in, or, where it lies by
/// itself, what was imported into `into` before.
///
/// # Errors
/// When there is nothing to import or it can't be used, or writing fails.
pub fn import(path: &Path, into: &Path) -> Result<Report, ImportError> {
    import_over(path, into, false)
}

/// [`import`]; with `replace` files that are there with other content are overwritten.
///
/// # Errors
/// Those of [`import`].
pub fn import_over(path: &Path, into: &Path, replace: bool) -> Result<Report, ImportError> {
    let mut report = Report::default();
    let mut out = Vec::new();
    let recording = results::import(path, &mut report);
    match dataset_root(path) {
        Ok(root) => dataset::import(&root, &mut report, &mut out)?,
        // Answers can be had without their questions, and what is wrong with rows is told.
        Err(ImportError::NoDataset(_)) if report.runs > 0 || !report.problems.is_empty() => {}
        Err(error) => return Err(error),
    }
    if path.is_dir() {
        presets::import(path, &mut report, &mut out);
    }
    if let Some(text) = recording {
        check_recording(&text)?;
        out.push((PathBuf::from(RECORDING), text));
    }
    let mut files = Files::default();
    for (file, text) in out {
        files.add(file, text);
    }
    report.written = files.write(into, replace, &mut report.notes)?;
    report.problems.sort();
    Ok(report)
}

/// Holds that a recording can be run before anything is written.
fn check_recording(text: &str) -> Result<(), ImportError> {
    if text.len() > LARGEST_RECORDING {
        return Err(ImportError::TooMany { bytes: text.len() });
    }
    let found = load::recording(RECORDING, text.as_bytes()).diagnostics;
    match found.into_iter().find(Diagnostic::is_error) {
        None => Ok(()),
        Some(wrong) => Err(ImportError::Invalid { file: RECORDING.to_owned(), why: wrong.message }),
    }
}

fn dataset_root(path: &Path) -> Result<PathBuf, ImportError> {
    // A result file lies beside its benchmark's data, or in a folder beside that.
    let parents = path.ancestors().skip(1).take(2).filter(|_| path.is_file());
    let roots: Vec<PathBuf> =
        if path.is_file() { parents.map(Path::to_owned).collect() } else { vec![path.to_owned()] };
    let mut candidates: Vec<PathBuf> =
        roots.iter().flat_map(|root| [root.clone(), root.join("datasets")]).collect();
    // A packaged benchmark keeps its data beside its code.
    for parent in roots.iter().flat_map(|root| [root.clone(), root.join("src")]) {
        let mut inner: Vec<PathBuf> = std::fs::read_dir(&parent)
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path().join("datasets"))
            .collect();
        inner.sort();
        candidates.extend(inner);
    }
    candidates
        .into_iter()
        .find(|folder| folder.join("repos.json").is_file())
        .ok_or_else(|| ImportError::NoDataset(path.to_owned()))
}

/// Reads a text file of the source; links don't lead out of it.
fn read(source: &Path, path: &Path) -> Result<String, String> {
    let bytes = if path == source {
        fsio::read_limited(path, LARGEST)
    } else {
        let inside = path.strip_prefix(source).ok().and_then(Path::to_str);
        fsio::read_inside(source, inside.ok_or("its name is not UTF-8")?, LARGEST)
    };
    let bytes = bytes.map_err(|error| error.explain())?;
    String::from_utf8(bytes).map_err(|_| "the file is not UTF-8".to_owned())
}

/// The name itself where it may stand as a repository's or (with `more`
/// characters) a question's, else a slug of it.
fn name_of(name: &str, more: &[char]) -> String {
    let fits = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-' || more.contains(&c));
    if fits { name.to_owned() } else { slug(name) }
}

/// A slug from any name: lower case, everything but letters and digits as `-`.
fn slug(name: &str) -> String {
    let mut out = String::new();
    for c in name.to_lowercase().chars() {
        if c.is_ascii_alphanumeric() {
            out.push(c);
        } else if !out.is_empty() && !out.ends_with('-') {
            out.push('-');
        }
    }
    out.trim_matches('-').chars().take(80).collect()
}
