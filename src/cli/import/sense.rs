//! `import sense`: manifests into a folder, answers into the store.

use std::path::Path;

use serde_json::json;

use super::super::args;
use super::super::context;
use super::super::exit::{CliError, USAGE};
use super::super::out::Out;
use crate::clock::Clock;
use crate::import::sense::runs::{self, ImportError};
use crate::manifest::load;
use crate::plan::compiled::Answer;
use crate::stage::recorded;
use crate::store::{Outcome, Publication, Record, Store};

/// Most bytes that are published at once.
const BATCH: usize = 32 << 20;

pub(in crate::cli) fn sense(command: &args::ImportSense, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let cwd = context::cwd()?;
    let into = cwd.join(&command.into);
    let report = runs::import(&cwd.join(&command.path), &into).map_err(|error| match error {
        ImportError::Fs(error) => error.into(),
        ImportError::Nothing(_) => CliError::Usage(error.to_string()),
    })?;
    let store = Store::open(&context::store_dir(store, &cwd))?;
    publish(&store, &into, &report.runs)?;
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

/// Publishes the answers of the recording that was just written.
fn publish(store: &Store, into: &Path, runs: &[(String, std::path::PathBuf)]) -> Result<(), CliError> {
    let failed = |why: String| CliError::Infrastructure(why);
    let file = into.join("recording.toml");
    let bytes = crate::fsio::read(&file)?;
    let loaded = load::recording(&file.display().to_string(), &bytes);
    if let Some(wrong) = loaded.diagnostics.iter().find(|d| d.is_error()) {
        return Err(failed(format!("the imported `{}` is not valid: {}", file.display(), wrong.message)));
    }
    let Some(recording) = loaded.value else {
        return Err(failed(format!("the imported `{}` can't be read", file.display())));
    };
    let now = Clock::System.now_ms();
    let base = Record {
        format: 1,
        key: crate::digest::Digest::of(b""),
        recipe: crate::digest::Digest::of(b""),
        pipeline: "regrade".to_owned(),
        node: String::new(),
        kind: String::new(),
        parts: std::collections::BTreeMap::new(),
        outcome: Outcome::Done,
        used: std::collections::BTreeMap::new(),
        origin: store.origin().to_owned(),
        run: "import".to_owned(),
        attempt: 1,
        started: now,
        ended: now,
        machine: None,
        unconfined: None,
        blessed: None,
        usd: None,
    };
    let (mut batch, mut size): (Vec<Publication>, usize) = (Vec::new(), 0);
    for (wire, (id, folder)) in recording.answer.into_iter().zip(runs) {
        let transcript = runs::read(&folder.join(runs::TRANSCRIPT)).map_err(failed)?;
        let judged = folder.join(runs::JUDGED);
        let judgement = judged.is_file().then(|| runs::read(&judged)).transpose().map_err(failed)?;
        let mut others = Vec::new();
        for name in runs::FILES {
            let path = folder.join(name);
            if path.is_file() {
                others.push((name.to_owned(), runs::read(&path).map_err(failed)?));
            }
        }
        let answer = Answer::of(wire, &recording.label, Vec::new(), None);
        size += transcript.len();
        let files = recorded::Files { transcript, judgement, others };
        let made = recorded::publications(id, &answer, files, &base);
        batch.extend(made.map_err(|e| failed(format!("{id}: {e}")))?);
        if size > BATCH {
            drop(store.publish(std::mem::take(&mut batch))?);
            size = 0;
        }
    }
    drop(store.publish(batch)?);
    Ok(())
}
