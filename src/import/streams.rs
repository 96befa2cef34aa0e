//! Transcripts of agents as they lie on a disk: streams and stored sessions.
//!
//! Each file is a session (of OpenCode's storage all files of a session are);
//! what can't be read as one is named, and the others are imported.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::writing::{Files, WriteError};
use super::{Content, Kept, slug};
use crate::agent;
use crate::artifact::transcript::Dialect;
use crate::digest::Digest;
use crate::manifest::write::Doc;

/// Largest transcript, in bytes.
const LARGEST: u64 = 256 << 20;
/// Deepest folder that is looked into.
const DEEPEST: usize = 12;

/// What the files don't say.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// The arm of all answers; none: the agent's name.
    pub arm: Option<String>,
    /// Their task; none: each file's name.
    pub task: Option<String>,
    /// Their repository; none: the name of the folder that the agent worked in.
    pub repo: Option<String>,
}

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Files of each answer.
    pub kept: Vec<Kept>,
    /// What was done in another way than one may expect.
    pub notes: Vec<String>,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// There is no such session.
    #[error("`{}` holds no session of {what}: files whose names end in .json or .jsonl are looked at{}", .path.display(), tried(.problems))]
    Nothing {
        /// Where it was looked for.
        path: PathBuf,
        /// The agent.
        what: &'static str,
        /// What was found instead.
        problems: Vec<String>,
    },
    /// What would be written does not read back: a fault of the importer.
    #[error("the recording that was made is not valid: {0}")]
    Invalid(String),
}

/// What became of the files that were looked at.
fn tried(problems: &[String]) -> String {
    match problems {
        [] => ", and there are none".to_owned(),
        [only] => format!("; of the one that was found: {only}"),
        [first, ..] => format!(", and none of {} is one; the first: {first}", problems.len()),
    }
}

/// Imports the sessions of an agent below `path` into `into/recording.toml`; one that somebody has
/// changed is overwritten only with `replace`.
///
/// # Errors
/// When there are none, or it can't be written.
pub fn import(
    path: &Path,
    dialect: Dialect,
    names: &Names,
    (into, replace): (&Path, bool),
) -> Result<Report, ImportError> {
    let mut report = Report::default();
    let mut numbers = BTreeMap::new();
    let mut doc = Doc::with_schema("../../schemas/recording.json");
    let name = dialect.name();
    doc.comment("Imported sessions. Their transcripts are in the store, under these digests.");
    doc.pair("format", 1).pair("name", slug(&format!("{name}-sessions")));
    doc.pair("label", format!("imported sessions of {name}"));
    let mut found: Vec<_> = sessions(path, dialect).into_iter().collect();
    found.sort_by(|(a, _), (b, _)| numbered(a).cmp(&numbered(b)));
    for (id, files) in found {
        match one(&id, &files, dialect, names, &mut numbers, &mut doc) {
            Ok(()) => {
                report.kept.push(Kept {
                    id,
                    transcript: Content::Files(files),
                    judgement: None,
                    others: Vec::new(),
                });
            }
            Err(problem) => report.problems.push(format!("{id}: {problem}")),
        }
    }
    if report.kept.is_empty() {
        return Err(ImportError::Nothing { path: path.to_owned(), what: name, problems: report.problems });
    }
    super::check_recording(doc.text()).map_err(ImportError::Invalid)?;
    let mut files = Files::default();
    files.add("recording.toml", doc.text());
    files.write(into, replace, &mut report.notes)?;
    Ok(report)
}

/// An id in parts that put its last number into the order of numbers.
fn numbered(id: &str) -> (&str, Option<u64>, &str) {
    let words = id.trim_end_matches(|c: char| c.is_ascii_digit());
    (words, id[words.len()..].parse().ok(), id)
}

/// Files of each session, by an id.
fn sessions(path: &Path, dialect: Dialect) -> BTreeMap<String, Vec<PathBuf>> {
    let mut files = Vec::new();
    find(path, DEEPEST, &mut files);
    let mut out: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    // Messages name their session by their folder, parts their message by theirs.
    let mut of_message: BTreeMap<String, String> = BTreeMap::new();
    let folder =
        |file: &Path| file.parent().and_then(Path::file_name).map(|n| n.to_string_lossy().into_owned());
    let stem = |file: &Path| file.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    for file in &files {
        let parent = folder(file).unwrap_or_default();
        if dialect == Dialect::Opencode && parent.starts_with("ses_") {
            of_message.insert(stem(file), parent);
        }
    }
    for file in files {
        let parent = folder(&file).unwrap_or_default();
        let name = stem(&file);
        let id = match dialect {
            Dialect::Opencode if parent.starts_with("ses_") => parent,
            Dialect::Opencode if parent.starts_with("msg_") => match of_message.get(&parent) {
                Some(session) => session.clone(),
                None => continue,
            },
            Dialect::Opencode if name.starts_with("ses_") => name,
            _ => id_of(file.strip_prefix(path).ok().filter(|p| !p.as_os_str().is_empty()).unwrap_or(&file)),
        };
        out.entry(id).or_default().push(file);
    }
    out
}

/// An id from a path: plain names joined by `/`.
fn id_of(path: &Path) -> String {
    let path = path.with_extension("");
    let names = path.components().filter_map(|part| match part {
        std::path::Component::Normal(name) => Some(slug(&name.to_string_lossy())),
        _ => None,
    });
    let all: Vec<String> = names.filter(|name| !name.is_empty()).collect();
    // An absolute path has only its name to offer.
    if path.is_absolute() { all.last().cloned().unwrap_or_default() } else { all.join("/") }
}

fn find(path: &Path, depth: usize, out: &mut Vec<PathBuf>) {
    if path.is_file() {
        out.push(path.to_owned());
        return;
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut entries: Vec<_> =
        entries.filter_map(|entry| Some((entry.file_type().ok()?, entry.path()))).collect();
    entries.sort_by(|a, b| a.1.cmp(&b.1));
    for (kind, path) in entries {
        if kind.is_dir() && depth > 0 {
            find(&path, depth - 1, out);
        } else if kind.is_file() && path.extension().is_some_and(|end| end == "json" || end == "jsonl") {
            out.push(path);
        }
    }
}

/// Adds the answer of a session; `numbers` counts those of an arm and task.
fn one(
    id: &str,
    files: &[PathBuf],
    dialect: Dialect,
    names: &Names,
    numbers: &mut BTreeMap<[String; 3], u32>,
    doc: &mut Doc,
) -> Result<(), String> {
    let bytes = super::joined(files, LARGEST)?;
    let transcript = agent::read(dialect, &bytes).map_err(|error| error.to_string())?;
    let arm = names.arm.clone().unwrap_or_else(|| dialect.name().to_owned());
    let task = names.task.clone().unwrap_or_else(|| id.rsplit('/').next().unwrap_or(id).to_owned());
    let cwd = transcript.cwd.clone();
    let folder =
        cwd.as_deref().and_then(|cwd| cwd.trim_end_matches('/').rsplit('/').next()).map(str::to_owned);
    let repo = names.repo.clone().or(folder).unwrap_or_else(|| "unknown".to_owned());
    let cell = [slug(&arm), slug(&task), slug(&repo)];
    let number = numbers.entry(cell.clone()).or_insert(0);
    *number += 1;
    let [arm, task, repo] = cell;
    doc.element(&["answer"]);
    doc.pair("id", id).pair("arm", arm).pair("task", task);
    if *number > 1 {
        doc.pair("replicate", *number);
    }
    doc.pair("repo", repo);
    doc.pair("model", transcript.models.first().cloned()).pair("agent", transcript.agent);
    doc.pair("dialect", dialect.name()).pair("digest", Digest::of(&bytes).hex()).pair("cwd", cwd);
    doc.pair("origin", files.first().map(|file| file.display().to_string()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fsio;

    #[test]
    fn files_of_one_stored_session_belong_together() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str| fsio::write_plain(&dir.path().join(name), b"{}").unwrap();
        for name in [
            "storage/session/p/ses_1.json",
            "storage/message/ses_1/msg_a.json",
            "storage/part/msg_a/prt_1.json",
            "storage/part/msg_lost/prt_2.json",
            "notes.txt",
        ] {
            write(name);
        }
        let found = sessions(dir.path(), Dialect::Opencode);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["ses_1"]);
        assert_eq!(found["ses_1"].len(), 3);
        write("runs/a b/one.jsonl");
        let found = sessions(&dir.path().join("runs"), Dialect::Claude);
        assert_eq!(found.keys().collect::<Vec<_>>(), ["a-b/one"]);
    }
}
