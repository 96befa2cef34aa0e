//! `report`, `gate`, and what is shown after a run.

use std::path::Path;

use serde_json::{Value, json};

use super::args::{self, Pipeline};
use super::context;
use super::exit::CliError;
use super::out::Out;
use super::run::evaluate;
use crate::report::assemble::RunView;
use crate::report::{self, Style};
use crate::store::Store;

pub(super) fn report(command: &args::Report, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let store = context::existing(store)?;
    let run = context::run_id(&store, &command.run)?;
    let view = RunView::read(&store, &run)?;
    if command.rows {
        out.data(&view.rows(&store)?);
        return Ok(0);
    }
    if command.json || (command.stable && !command.markdown) {
        out.data(&report::json(&view.report(&store)?, command.stable));
        return Ok(0);
    }
    let whole = view.summary(&store)?;
    if command.markdown {
        let text = report::markdown(&whole).map_err(|e| CliError::Infrastructure(e.to_string()))?;
        out.data(&text);
    } else {
        out.data(&report::terminal(&whole, style(out)));
        out.data(&troubles(&whole));
    }
    Ok(0)
}

fn style(out: &Out) -> Style {
    Style { width: u16::try_from(out.width).unwrap_or(100), colour: out.data_tty }
}

/// The report on the screen after a run.
pub(super) fn after_run(store: &Store, run: &str, out: &Out) -> Result<(), CliError> {
    let view = RunView::read(store, run)?;
    let whole = view.summary(store)?;
    let aggregated = whole["result"]["arms"].as_array().is_some_and(|arms| !arms.is_empty());
    if aggregated {
        out.data(&report::terminal(&whole, style(out)));
    } else {
        let nodes = &whole["run"]["nodes"];
        out.data(&format!(
            "run {run}: {} of {} nodes executed, {} reused, {} failed, {} blocked\n",
            nodes["executed"], nodes["total"], nodes["reused"], nodes["failed"], nodes["blocked"]
        ));
    }
    out.data(&troubles(&whole));
    Ok(())
}

/// Sessions that are not plainly valid, each in the server's own words.
fn troubles(whole: &Value) -> String {
    let mut text = String::new();
    let mut told = std::collections::BTreeSet::new();
    for session in whole["run"]["sessions"].as_array().into_iter().flatten() {
        if session["state"] == "valid" {
            continue;
        }
        let cell = &session["cell"];
        let of = |axis: &str| cell[axis].as_str();
        let who = match (of("answer"), of("task"), of("repo")) {
            (Some(answer), ..) => answer.to_owned(),
            (None, Some(task), _) => {
                let which = of("replicate").map(|r| format!(", replicate {r}")).unwrap_or_default();
                format!("{} on {task}{which}", of("arm").unwrap_or("-"))
            }
            (None, None, repo) => format!("{} on {}", of("arm").unwrap_or("-"), repo.unwrap_or("-")),
        };
        let codes: Vec<&str> =
            session["codes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let state = session["state"].as_str().unwrap_or_default();
        let mut words: Vec<&str> = session["error"].as_str().into_iter().collect();
        words.extend(session["notes"].as_array().into_iter().flatten().filter_map(Value::as_str));
        let words = report::plain(&words.join("; "));
        let line = format!("{}: {state} ({}): {words}\n", report::plain(&who), codes.join(", "));
        if told.insert(line.clone()) {
            text.push_str(&line);
        }
    }
    for failed in whole["run"]["failed"].as_array().into_iter().flatten() {
        let word = |key: &str| failed[key].as_str().unwrap_or_default();
        let (node, message) = (report::plain(word("node")), report::plain(word("message")));
        text.extend(["failed: ", &node, ": ", &message, "\n"]);
    }
    if text.is_empty() { text } else { format!("\nWhat went wrong\n{text}") }
}

pub(super) fn gate(command: &args::OneRun, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let store = context::existing(store)?;
    let run = context::run_id(&store, &command.run)?;
    let view = RunView::read(&store, &run)?;
    let pipeline = Pipeline {
        pipeline: pipeline_file(&view.path, &store),
        sets: view
            .params
            .iter()
            .filter_map(|(name, value)| Some(format!("{name}={}", plain(value)?)))
            .collect(),
    };
    let compiled = context::compiled(&pipeline, command.json, out)?;
    let counts = view.counts();
    let unfinished = counts.total - counts.executed - counts.reused - counts.failed - counts.blocked;
    let (outcomes, exit) = evaluate(&compiled, &view.result(&store)?, counts.failed, unfinished, false);
    if command.json {
        out.json(&json!({ "run": run, "gates": outcomes, "exit": exit }));
    } else {
        for one in &outcomes {
            let why = one["why"].as_str().unwrap_or_default();
            let line = format!(
                "{}\t{}\t{} {why}",
                one["state"].as_str().unwrap_or_default(),
                one["key"].as_str().unwrap_or_default(),
                one["value"]
            );
            out.data(&format!("{}\n", line.trim_end()));
        }
        if outcomes.is_empty() {
            out.say("the pipeline has no [gate]");
        }
    }
    Ok(exit)
}

/// The pipeline of a run as it can be found from here: a shipped one by name,
/// a file where it was named or in the project of the store.
fn pipeline_file(path: &str, store: &Store) -> String {
    if let Some(shipped) = path.strip_prefix("(shipped)/") {
        let name = shipped.rsplit('/').next().unwrap_or(shipped);
        return name.trim_end_matches(".toml").to_owned();
    }
    let beside = store.root().parent().map(|root| root.join(path));
    match beside {
        Some(beside) if !Path::new(path).is_file() && beside.is_file() => {
            beside.to_string_lossy().into_owned()
        }
        _ => path.to_owned(),
    }
}

/// A parameter's value as `--set` takes it.
fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(items) => Some(items.iter().filter_map(plain).collect::<Vec<_>>().join(",")),
        Value::Null | Value::Object(_) => None,
        other => Some(other.to_string()),
    }
}
