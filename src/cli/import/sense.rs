//! `import sense`: manifests into a folder, answers into the store.

use std::path::Path;

use serde_json::json;

use super::super::args;
use super::super::context;
use super::super::exit::{CliError, USAGE};
use super::super::out::Out;
use super::publish::publish;
use crate::import::sense::runs::{self, ImportError};
use crate::store::Store;

pub(in crate::cli) fn sense(
    command: &args::ImportSense,
    store: Option<&Path>,
    out: &Out,
) -> Result<u8, CliError> {
    let cwd = context::cwd()?;
    let into = cwd.join(&command.into);
    let report =
        runs::import(&cwd.join(&command.path), &into, command.replace).map_err(|error| match error {
            ImportError::Write(error) => super::unwritten(error, &command.into),
            ImportError::Nothing(_) | ImportError::Unreadable(..) => CliError::Usage(error.to_string()),
            ImportError::Invalid(_) => CliError::Infrastructure(error.to_string()),
        })?;
    let store = Store::open(&context::store_dir(store, &cwd))?;
    publish(&store, &into, &report.kept)?;
    let shown = command.into.display().to_string();
    let exit = if report.problems.is_empty() { 0 } else { USAGE };
    let next = "proofline run regrade --set profile=sense";
    if command.json {
        out.json(&json!({
            "written": report.written.iter().map(|p| command.into.join(p).display().to_string()).collect::<Vec<_>>(),
            "scenarios": report.scenarios, "rubrics": report.rubrics, "answers": report.answers,
            "judgements": report.judgements, "notes": report.notes, "problems": report.problems,
            "next": next, "exit": exit
        }));
        return Ok(exit);
    }
    out.data(&format!(
        "{} scenarios, {} rubrics, {} answers, {} of them judged: manifests in {shown}, answers in the store\n",
        report.scenarios, report.rubrics, report.answers, report.judgements
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
