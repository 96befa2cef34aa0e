//! `import`: other benchmarks' files into ours.

mod publish;
mod sense;
mod streams;

use std::path::Path;

use serde_json::json;

pub(super) use self::sense::sense;
pub(super) use self::streams::streams;

use super::args;
use super::context;
use super::exit::{CliError, USAGE};
use super::out::Out;
use crate::import::rag_bench::{self, ImportError};
use crate::import::writing::WriteError;
use crate::store::Store;

/// What keeps an import from writing; files that somebody has changed are the user's to decide on.
fn unwritten(error: WriteError, into: &Path) -> CliError {
    match error {
        WriteError::Fs(error) => error.into(),
        WriteError::Differ(_) => CliError::Usage(format!(
            "in `{}` {error}; write elsewhere with `--into OTHER`, or over them with `--replace` (nothing was written)",
            into.display()
        )),
    }
}

pub(super) fn rag_bench(
    command: &args::ImportRagBench,
    store: Option<&Path>,
    out: &Out,
) -> Result<u8, CliError> {
    let cwd = context::cwd()?;
    let report = rag_bench::import_over(&cwd.join(&command.path), &cwd.join(&command.into), command.replace)
        .map_err(|error| match error {
            ImportError::Write(error) => unwritten(error, &command.into),
            ImportError::NoDataset(_) | ImportError::Repos(_) | ImportError::TooMany { .. } => {
                CliError::Usage(error.to_string())
            }
            ImportError::Invalid { .. } => CliError::Infrastructure(error.to_string()),
        })?;
    if !report.kept.is_empty() {
        let store = Store::open(&context::store_dir(store, &cwd))?;
        publish::publish(&store, &cwd.join(&command.into), &report.kept)?;
    }
    let into = command.into.display().to_string();
    let exit = if report.problems.is_empty() { 0 } else { USAGE };
    let mut next = vec![];
    if report.questions > 0 {
        next.push(format!("proofline datasets verify {into} --fetch"));
        next.push(format!("proofline run retrieval --set datasets={into} --set repos=REPO"));
    }
    if !report.kept.is_empty() {
        next.push("proofline run regrade --set profile=rag-bench".to_owned());
    }
    let written: Vec<String> =
        report.written.iter().map(|path| command.into.join(path).display().to_string()).collect();
    if command.json {
        let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        out.json(&json!({
            "written": written, "repos": report.repos, "questions": report.questions, "warmups": report.warmups,
            "servers": report.servers, "runs": report.runs, "answers": report.kept.len(), "notes": report.notes, "problems": problems, "next": next.last(), "exit": exit
        }));
        return Ok(exit);
    }
    for path in &written {
        out.data(&format!("wrote {path}\n"));
    }
    out.data(&format!(
        "{} repositories, {} questions, {} warm-up questions, {} server presets\n",
        report.repos, report.questions, report.warmups, report.servers
    ));
    if report.runs > 0 {
        let listed = format!(": {into}/recording.toml lists them, their rows are in the store");
        out.data(&format!(
            "{} result files with {} answers{}\n",
            report.runs,
            report.kept.len(),
            if report.kept.is_empty() { "" } else { &listed }
        ));
    }
    for note in &report.notes {
        out.data(&format!("note: {note}\n"));
    }
    for problem in &report.problems {
        out.say(&format!("error: {problem}"));
    }
    if !next.is_empty() {
        out.data(&format!("\nNext:\n  {}\n", next.join("\n  ")));
    }
    Ok(exit)
}
