//! `import claude`, `codex`, `opencode`, `atif`: sessions of agents.

use std::path::Path;

use serde_json::json;

use super::super::args;
use super::super::context;
use super::super::exit::{CliError, USAGE};
use super::super::out::Out;
use super::publish::publish;
use crate::artifact::transcript::Dialect;
use crate::import::streams::{self, ImportError, Names};
use crate::store::Store;

pub(in crate::cli) fn streams(
    command: &args::ImportStreams,
    dialect: Dialect,
    store: Option<&Path>,
    out: &Out,
) -> Result<u8, CliError> {
    let cwd = context::cwd()?;
    let shown = command.into.clone().unwrap_or_else(|| Path::new("imported").join(dialect.name()));
    let into = cwd.join(&shown);
    let names = Names { arm: command.arm.clone(), task: command.task.clone(), repo: command.repo.clone() };
    let report = streams::import(&cwd.join(&command.path), dialect, &names, (&into, command.replace))
        .map_err(|error| match error {
            ImportError::Write(error) => super::unwritten(error, &shown),
            ImportError::Nothing { .. } => CliError::Usage(error.to_string()),
            ImportError::Invalid(_) => CliError::Infrastructure(error.to_string()),
        })?;
    let store = Store::open(&context::store_dir(store, &cwd))?;
    publish(&store, &into, &report.kept)?;
    let exit = if report.problems.is_empty() { 0 } else { USAGE };
    let next = "proofline run regrade";
    if command.json {
        let ids: Vec<&String> = report.kept.iter().map(|kept| &kept.id).collect();
        out.json(&json!({
            "written": [shown.join("recording.toml").display().to_string()], "answers": ids,
            "notes": report.notes, "problems": report.problems, "next": next, "exit": exit
        }));
        return Ok(exit);
    }
    out.data(&format!(
        "{} answers: {} lists them, their transcripts are in the store\n",
        report.kept.len(),
        shown.join("recording.toml").display()
    ));
    for note in &report.notes {
        out.data(&format!("note: {note}\n"));
    }
    for problem in &report.problems {
        out.say(&format!("error: {problem}"));
    }
    out.data(&format!("\nNext:\n  {next}\n"));
    Ok(exit)
}
