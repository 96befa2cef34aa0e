//! `runs`, `status`, `show`: looking at what was done.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::args;
use super::context;
use super::exit::CliError;
use super::out::Out;
use crate::clock::rfc3339;
use crate::diag::nearest;
use crate::report::assemble::{RunView, cell_of};
use crate::store::journal::Journal;

pub(super) fn runs(command: &args::Json, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let store = context::existing(store)?;
    let mut list = Vec::new();
    for run in Journal::runs(store.root())? {
        let view = RunView::read(&store, &run)?;
        list.push(json!({
            "run": run, "pipeline": view.pipeline, "started": rfc3339(view.started),
            "state": view.state(), "nodes": view.counts(), "exit": view.ended.map(|(_, _, exit)| exit)
        }));
    }
    if command.json {
        out.json(&json!({ "runs": list }));
        return Ok(0);
    }
    for run in &list {
        let nodes = &run["nodes"];
        out.data(&format!(
            "{}  {}  {:<10} {}: {} executed, {} reused of {}\n",
            run["run"].as_str().unwrap_or_default(),
            run["started"].as_str().unwrap_or_default(),
            run["state"].as_str().unwrap_or_default(),
            run["pipeline"].as_str().unwrap_or_default(),
            nodes["executed"],
            nodes["reused"],
            nodes["total"]
        ));
    }
    Ok(0)
}

pub(super) fn status(command: &args::OneRun, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let store = context::existing(store)?;
    let run = context::run_id(&store, &command.run)?;
    let view = RunView::read(&store, &run)?;
    let tallies = view.tallies();
    let stages: Vec<Value> = view
        .stages
        .iter()
        .map(|(name, total)| {
            let of = |id: &str| {
                id == name || id.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('['))
            };
            let tally = tallies.get(name.as_str()).copied().unwrap_or_default();
            json!({
                "stage": name, "total": total, "executed": tally.executed, "reused": tally.reused,
                "failed": view.failed.iter().filter(|(id, ..)| of(id)).count(),
                "blocked": view.blocked.iter().filter(|(id, _)| of(id)).count(),
            })
        })
        .collect();
    let object = json!({
        "run": run, "pipeline": view.pipeline, "state": view.state(), "nodes": view.counts(),
        "stages": stages, "running": view.running, "exit": view.ended.map(|(_, _, exit)| exit)
    });
    if command.json {
        out.json(&object);
        return Ok(0);
    }
    let mut text = format!("run {run} of {}: {}\n", view.pipeline, view.state());
    for stage in &stages {
        let _ = writeln!(
            text,
            "  {:<20} {} executed, {} reused, {} failed, {} blocked of {}",
            stage["stage"].as_str().unwrap_or_default(),
            stage["executed"],
            stage["reused"],
            stage["failed"],
            stage["blocked"],
            stage["total"]
        );
    }
    for node in &view.running {
        let word = if view.state() == "running" { "running" } else { "not finished" };
        let _ = writeln!(text, "  {word}: {node}");
    }
    for (node, message, _) in &view.failed {
        let _ = writeln!(text, "  failed: {node}: {message}");
    }
    out.data(&text);
    Ok(0)
}

pub(super) fn show(command: &args::Show, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let store = context::existing(store)?;
    let run = context::run_id(&store, &command.run)?;
    let view = RunView::read(&store, &run)?;
    let stage = command.node.split('[').next().unwrap_or_default();
    let wanted = cell_of(&command.node);
    // Axes may be named in any order, and not all of them.
    let named = |id: &str| {
        id.split('[').next() == Some(stage)
            && wanted.iter().all(|(axis, value)| cell_of(id).get(axis) == Some(value))
    };
    let ids = view.ids(&store, Some(stage))?;
    let fitting: Vec<&str> = ids.iter().map(String::as_str).filter(|id| named(id)).collect();
    if fitting.len() > 1 && !fitting.contains(&command.node.as_str()) {
        let some: Vec<&str> = fitting.iter().copied().take(5).collect();
        return Err(CliError::Usage(format!(
            "`{}` names {} nodes; name one of them: {}{}",
            command.node,
            fitting.len(),
            some.join(" "),
            if fitting.len() > some.len() { " ..." } else { "" }
        )));
    }
    let exact = fitting.iter().find(|id| **id == command.node).or(fitting.first());
    let node = exact.map_or(Ok(None), |id| view.node(&store, id))?;
    let Some(node) = node else {
        if let Some((id, message, log)) = view.failed.iter().find(|(id, ..)| named(id)) {
            out.data(&format!("{id} failed: {message}\n"));
            if let Some(log) = log {
                out.bytes(&store.get(log)?);
            }
            return Ok(0);
        }
        let ids = view.ids(&store, None)?;
        let mut all = ids.iter().map(String::as_str);
        let hint = nearest(&command.node, all.clone()).or_else(|| all.find(|id| id.starts_with(stage)));
        let hint = hint.map_or_else(String::new, |id| format!("; one of its nodes is `{id}`"));
        return Err(CliError::Usage(format!("run {run} has no node `{}`{hint}", command.node)));
    };
    let record = &node.record;
    match command.part.as_deref() {
        Some("recipe") => {
            out.bytes(&store.get(&record.recipe)?);
            out.data("\n");
        }
        Some(name) => {
            let part = record.parts.get(name).ok_or_else(|| {
                let names: Vec<&str> = record.parts.keys().map(String::as_str).collect();
                CliError::Usage(format!("`{}` has no part `{name}`; it has {}", node.id, names.join(", ")))
            })?;
            out.bytes(&store.get(&part.digest)?);
        }
        None => {
            let recipe: Value = serde_json::from_slice(&store.get(&record.recipe)?).unwrap_or_default();
            let object = json!({ "record": record, "recipe": recipe, "executed": node.executed });
            if command.json {
                out.json(&object);
            } else {
                let mut text = format!("{} ({})\n  key {}\n", node.id, record.kind, record.key);
                let _ = writeln!(
                    text,
                    "  {:?} in run {}, attempt {}",
                    record.outcome, record.run, record.attempt
                );
                let _ = writeln!(text, "  {} to {}", rfc3339(record.started), rfc3339(record.ended));
                for (name, part) in &record.parts {
                    let what = if part.tree { "folder" } else { "bytes" };
                    let _ = writeln!(text, "  part {name}: {} {what}, {}", part.size, part.digest.short());
                }
                out.data(&text);
                out.say("--part NAME prints one of them, --part recipe the recipe");
            }
        }
    }
    Ok(0)
}
