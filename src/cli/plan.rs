//! `plan`, `why`, `graph`: what would happen, without making it happen.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::args::{self, GraphFormat};
use super::context;
use super::exit::CliError;
use super::out::Out;
use crate::engine::dry::{self, Action, Plan};
use crate::engine::table::Table;
use crate::engine::world::{self, World};
use crate::plan::compiled::Compiled;
use crate::plan::key::Reason;
use crate::plan::select::{below, select};
use crate::store::Store;

/// Nodes shown per stage before the rest is only counted.
const SHOWN: usize = 6;

fn dry(
    pipeline: &Arc<Compiled>,
    only: &[String],
    store: Option<&Path>,
    (json, all): (bool, bool),
) -> Result<(Table, World, Plan), CliError> {
    let dir = context::store_dir(store, &pipeline.root);
    let there = dir.join("format").exists();
    let opened = there.then(|| context::open(&dir, &pipeline.root, json)).transpose()?;
    let lock = context::lock(&pipeline.root, json)?;
    let digests = world::peek(pipeline, &context::corpora(&dir, true));
    let cache = opened.as_ref().map(Store::cache);
    let world = World::new(pipeline, digests, lock.as_ref(), cache.as_deref());
    let mut table = Table::new(Arc::clone(pipeline));
    let chosen = context::chosen(pipeline, &table.graph, only)?;
    let planned = dry::plan(&mut table, &world, opened.as_ref(), chosen.as_deref(), all)?;
    Ok((table, world, planned))
}

pub(super) fn plan(command: &args::Plan, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let pipeline = context::compiled(&command.pipeline, command.json, out)?;
    let (_, world, planned) = dry(&pipeline, &command.only, store, (command.json, command.json))?;
    if command.json {
        out.json(&json!({ "nodes": planned.nodes }));
        return Ok(0);
    }
    let sum = |of: fn(&dry::Counts) -> usize| planned.stages.iter().map(of).sum::<usize>();
    let mut text = format!(
        "{} nodes: {} reuse, {} run, {} wait (their keys depend on nodes that must run first)\n",
        sum(dry::Counts::total),
        sum(|c| c.reuse),
        sum(|c| c.run),
        sum(|c| c.wait)
    );
    let mut rest = planned.nodes.as_slice();
    for (stage, counts) in pipeline.stages.iter().zip(&planned.stages) {
        if counts.total() == 0 {
            continue;
        }
        let _ = writeln!(
            text,
            "\n{} ({}): {} reuse, {} run, {} wait",
            stage.name,
            stage.kind(),
            counts.reuse,
            counts.run,
            counts.wait
        );
        let (due, others) = rest.split_at(counts.run + counts.wait);
        rest = others;
        for node in due.iter().take(SHOWN) {
            let word = if node.action == Action::Run { "run " } else { "wait" };
            let price = node.usd.as_ref().map_or(String::new(), |usd| {
                let again = if usd["respend"] == true { ", paid for before" } else { "" };
                format!(" (at most {} USD{again})", usd["high"])
            });
            let _ = writeln!(text, "  {word} {}{price}", node.id);
            for reason in node.reasons.iter().take(3) {
                let _ = writeln!(text, "       {}", in_words(reason));
            }
        }
        if due.len() > SHOWN {
            let _ = writeln!(text, "  ... and {} more", due.len() - SHOWN);
        }
    }
    for arm in &world.unlocked {
        let _ = writeln!(text, "\nunlocked: `{arm}` is identified by the version that its preset states");
    }
    out.data(&text);
    Ok(0)
}

/// A reason as a line: `field: old -> new`.
fn in_words(reason: &Reason) -> String {
    if reason.field == "*" {
        return "never seen".to_owned();
    }
    format!("{}: {} -> {}", reason.field, short(&reason.old), short(&reason.new))
}

fn short(value: &Value) -> String {
    let text = match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if text.chars().count() > 60 { format!("{}...", text.chars().take(57).collect::<String>()) } else { text }
}

pub(super) fn why(command: &args::Why, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let pipeline = context::compiled(&command.pipeline, command.json, out)?;
    let (mut table, world, planned) = dry(&pipeline, &[], store, (command.json, true))?;
    let nodes = select(&pipeline, &table.graph, &command.node)?;
    let mut found = Vec::new();
    for index in nodes {
        let Some(node) = planned.nodes.get(index).filter(|p| p.node == index) else { continue };
        let recipe = table.keyed(index, &world).ok().map(|k| k.recipe);
        let below: Vec<String> =
            below(&table.graph, &[index]).into_iter().map(|node| table.id(node)).collect();
        found.push(json!({
            "id": node.id, "action": node.action, "reasons": node.reasons, "key": node.key,
            "recipe": recipe, "downstream": below
        }));
    }
    if command.json {
        out.json(&json!({ "nodes": found }));
        return Ok(0);
    }
    for node in &found {
        let mut text = format!(
            "{}: {}\n",
            node["id"].as_str().unwrap_or_default(),
            node["action"].as_str().unwrap_or_default()
        );
        if let Some(key) = node["key"].as_str() {
            let _ = writeln!(text, "  key {key}");
        }
        for reason in node["reasons"].as_array().into_iter().flatten() {
            let reason = Reason {
                field: reason["field"].as_str().unwrap_or_default().to_owned(),
                old: reason["old"].clone(),
                new: reason["new"].clone(),
            };
            let _ = writeln!(text, "  {}", in_words(&reason));
        }
        let below = node["downstream"].as_array().map_or(0, Vec::len);
        if below > 0 {
            let _ = writeln!(text, "  {below} node(s) below it");
        }
        if let Some(recipe) = node["recipe"].as_object() {
            for (field, value) in recipe {
                let _ = writeln!(text, "  {field} = {}", short(value));
            }
        }
        out.data(&text);
    }
    Ok(0)
}

pub(super) fn graph(command: &args::Graph, out: &Out) -> Result<u8, CliError> {
    let pipeline = context::compiled(&command.pipeline, false, out)?;
    let (names, edges): (Vec<String>, Vec<(usize, usize)>) = if command.nodes {
        let table = Table::new(Arc::clone(&pipeline));
        let nodes = 0..table.graph.len();
        let names = nodes.clone().map(|n| table.id(n)).collect();
        let edges = nodes.flat_map(|to| table.graph.ups(to).map(move |from| (from as usize, to))).collect();
        (names, edges)
    } else {
        let names = pipeline
            .stages
            .iter()
            .map(|s| {
                let axes: Vec<&str> = s.axes.iter().map(|a| pipeline.axes[*a].name.as_str()).collect();
                if axes.is_empty() { s.name.clone() } else { format!("{} ({})", s.name, axes.join(", ")) }
            })
            .collect();
        let edges = pipeline
            .stages
            .iter()
            .enumerate()
            .flat_map(|(to, s)| s.needs.iter().map(move |from| (*from, to)))
            .collect();
        (names, edges)
    };
    out.data(&draw(command.format, &names, &edges));
    Ok(0)
}

fn draw(format: GraphFormat, names: &[String], edges: &[(usize, usize)]) -> String {
    let mut text = String::new();
    match format {
        GraphFormat::Mermaid => {
            text.push_str("flowchart LR\n");
            for (at, name) in names.iter().enumerate() {
                let _ = writeln!(text, "  n{at}[\"{}\"]", name.replace('"', "#quot;"));
            }
            for (from, to) in edges {
                let _ = writeln!(text, "  n{from} --> n{to}");
            }
        }
        GraphFormat::Dot => {
            text.push_str("digraph pipeline {\n  rankdir=LR;\n  node [shape=box];\n");
            for (at, name) in names.iter().enumerate() {
                let _ = writeln!(
                    text,
                    "  n{at} [label=\"{}\"];",
                    name.replace('\\', "\\\\").replace('"', "\\\"")
                );
            }
            for (from, to) in edges {
                let _ = writeln!(text, "  n{from} -> n{to};");
            }
            text.push_str("}\n");
        }
    }
    text
}
