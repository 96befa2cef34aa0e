//! From a run's journal and the store to the report object.
//!
//! Records are read where they are shown: a run of 100,000 reused nodes is told
//! by a few lines.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::rows::{RowCell, rows};
use crate::artifact::{self, AnswerRow, CellState, Grades, SessionState, Timing, part};
use crate::clock::rfc3339;
use crate::digest::Digest;
use crate::event::{Counts, Event, RunState};
use crate::store::journal::Journal;
use crate::store::{Record, Store, StoreError};

/// A node of a run and what it produced.
#[derive(Clone, Debug)]
pub struct RunNode {
    /// Node id.
    pub id: String,
    /// Cell, axis to value.
    pub cell: BTreeMap<String, String>,
    /// Its record.
    pub record: Record,
    /// Executed in this run, not reused.
    pub executed: bool,
}

/// A line of the journal about nodes with an artifact.
#[derive(Clone, Debug)]
enum Entry {
    Reused {
        stage: String,
        count: u64,
        listing: Option<Digest>,
        nodes: Vec<(String, Digest)>,
        except: Vec<String>,
    },
    Done {
        node: String,
        record: Digest,
    },
}

/// Nodes of one stage with an artifact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Executed in this run.
    pub executed: u64,
    /// Taken from the store.
    pub reused: u64,
}

/// A run as its journal tells it.
#[derive(Clone, Debug, Default)]
pub struct RunView {
    /// Run id.
    pub run: String,
    /// Pipeline.
    pub pipeline: String,
    /// Its file as the user named it.
    pub path: String,
    /// Parameters.
    pub params: BTreeMap<String, Value>,
    /// Stages with their numbers of nodes.
    pub stages: Vec<(String, u64)>,
    /// Arms in manifest order.
    pub arms: Vec<String>,
    /// Corpora: repository, digest, origin.
    pub corpora: Vec<(String, Digest, String)>,
    /// Kinds of the stages, in their order; empty in journals of versions that did not say them.
    pub kinds: Vec<String>,
    /// Nodes with an artifact, in the order of the journal.
    entries: Vec<Entry>,
    /// Failed nodes: id, message, object with the log.
    pub failed: Vec<(String, String, Option<Digest>)>,
    /// Blocked nodes: id and the node that blocks.
    pub blocked: Vec<(String, String)>,
    /// Paid nodes that were not bought, and why.
    pub held: Vec<(String, String)>,
    /// Nodes that have started and not ended.
    pub running: Vec<String>,
    /// Remarks.
    pub notes: Vec<String>,
    /// Outcomes of the gates.
    pub gates: Vec<Value>,
    /// Milliseconds since 1970-01-01 UTC of the first line.
    pub started: i64,
    /// Of the last line.
    pub last: i64,
    /// Its engine lives, as far as can be known.
    pub live: bool,
    /// How it ended; none while it runs or after a crash.
    pub ended: Option<(RunState, Counts, u8)>,
}

/// Axis values of a node id, `stage[a=1,b=2]`.
#[must_use]
pub fn cell_of(id: &str) -> BTreeMap<String, String> {
    let Some((_, cell)) = id.split_once('[') else { return BTreeMap::new() };
    cell.trim_end_matches(']')
        .split(',')
        .filter_map(|pair| pair.split_once('='))
        .map(|(axis, value)| (axis.to_owned(), value.to_owned()))
        .collect()
}

/// The stage of a node id.
fn stage_of(node: &str) -> &str {
    node.split_once('[').map_or(node, |(stage, _)| stage)
}

impl Entry {
    fn reused(&self, store: &Store) -> Result<Vec<(String, Digest)>, StoreError> {
        let Self::Reused { listing, nodes, except, .. } = self else { return Ok(Vec::new()) };
        match store.reused(*listing, nodes, except) {
            // Of an old run the list may be gone, as its records may.
            Err(StoreError::Missing(_)) => Ok(nodes.clone()),
            other => other,
        }
    }

    fn done(&self, store: &Store) -> Result<Option<RunNode>, StoreError> {
        let Self::Done { node, record } = self else { return Ok(None) };
        let found = store.record(record)?;
        Ok(found.map(|record| RunNode { cell: cell_of(node), id: node.clone(), record, executed: true }))
    }
}

impl RunView {
    /// Reads a run.
    ///
    /// # Errors
    /// When there is no such run or the store can't be read.
    pub fn read(store: &Store, run: &str) -> Result<Self, StoreError> {
        let journal = Journal::read(store.root(), run)?;
        let mut view = Self { run: run.to_owned(), ..Self::default() };
        view.live = Journal::is_live(store.root(), run) != Some(false);
        view.started = journal.lines.first().map_or(0, |l| l.at);
        view.last = journal.lines.last().map_or(0, |l| l.at);
        for line in journal.lines {
            match line.event {
                Event::RunStarted { pipeline, path, params, stages, kinds, arms, .. } => {
                    view.arms = arms;
                    view.kinds = kinds;
                    view.pipeline = pipeline;
                    view.path = path;
                    view.params = params;
                    view.stages = stages;
                }
                Event::Corpus { repo, digest, origin } => view.corpora.push((repo, digest, origin)),
                Event::Reused { stage, count, listing, nodes, except } => {
                    let count = count.max(nodes.len() as u64);
                    view.entries.push(Entry::Reused { stage, count, listing, nodes, except });
                }
                Event::Started { node, .. } => view.running.push(node),
                Event::Done { node, record, .. } => {
                    view.running.retain(|n| *n != node);
                    view.entries.push(Entry::Done { node, record });
                }
                Event::Failed { node, message, log, .. } => {
                    view.running.retain(|n| *n != node);
                    view.failed.push((node, message, log));
                }
                Event::Blocked { node, by } => view.blocked.push((node, by)),
                Event::Held { node, why } => {
                    view.running.retain(|n| *n != node);
                    view.held.push((node, why));
                }
                Event::Note { message } => view.notes.push(message),
                Event::RunEnded { state, counts, exit } => view.ended = Some((state, counts, exit)),
                Event::Gates { outcomes } => view.gates = outcomes,
                Event::Retry { .. } | Event::Cancelled { .. } | Event::Abroad { .. } => {}
            }
        }
        Ok(view)
    }

    /// Numbers of nodes with an artifact, by stage.
    #[must_use]
    pub fn tallies(&self) -> BTreeMap<&str, Tally> {
        let mut out: BTreeMap<&str, Tally> = BTreeMap::new();
        for entry in &self.entries {
            match entry {
                Entry::Reused { stage, count, .. } => out.entry(stage).or_default().reused += count,
                Entry::Done { node, .. } => out.entry(stage_of(node)).or_default().executed += 1,
            }
        }
        out
    }

    /// Ids of all nodes of a stage that have an artifact, or of `any` stage.
    ///
    /// # Errors
    /// When a list of reused nodes can't be read.
    pub fn ids(&self, store: &Store, of: Option<&str>) -> Result<Vec<String>, StoreError> {
        let mut out = Vec::new();
        for entry in &self.entries {
            match entry {
                Entry::Reused { stage, .. } if of.is_none_or(|of| of == stage) => {
                    out.extend(entry.reused(store)?.into_iter().map(|(node, _)| node));
                }
                Entry::Done { node, .. } if of.is_none_or(|of| of == stage_of(node)) => {
                    out.push(node.clone());
                }
                _ => {}
            }
        }
        Ok(out)
    }

    /// The node of this id.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn node(&self, store: &Store, id: &str) -> Result<Option<RunNode>, StoreError> {
        let mut found = self.nodes(store, |stage| stage == stage_of(id), |node| node == id)?;
        Ok(found.pop())
    }

    /// Nodes that were executed in this run.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn executed(&self, store: &Store) -> Result<Vec<RunNode>, StoreError> {
        let mut out = Vec::new();
        for entry in &self.entries {
            out.extend(entry.done(store)?);
        }
        Ok(out)
    }

    /// Nodes of stages of some kinds; of journals that don't tell the kinds, all.
    pub(super) fn of_kinds(&self, store: &Store, kinds: &[&str]) -> Result<Vec<RunNode>, StoreError> {
        let kind = |stage: &str| {
            let at = self.stages.iter().position(|(name, _)| name == stage)?;
            self.kinds.get(at).map(String::as_str)
        };
        self.nodes(store, |stage| kind(stage).is_none_or(|kind| kinds.contains(&kind)), |_| true)
    }

    /// Nodes with their records, those that have been lost since left out.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn nodes(
        &self,
        store: &Store,
        stages: impl Fn(&str) -> bool,
        ids: impl Fn(&str) -> bool,
    ) -> Result<Vec<RunNode>, StoreError> {
        let mut out = Vec::new();
        for entry in &self.entries {
            match entry {
                Entry::Reused { stage, .. } if stages(stage) => {
                    let mut reused = entry.reused(store)?;
                    reused.retain(|(node, _)| ids(node));
                    let keys: Vec<Digest> = reused.iter().map(|(_, key)| *key).collect();
                    for ((id, _), record) in reused.into_iter().zip(store.hits(&keys)?) {
                        let cell = cell_of(&id);
                        out.extend(record.map(|record| RunNode { cell, id, record, executed: false }));
                    }
                }
                Entry::Done { node, .. } if stages(stage_of(node)) && ids(node) => {
                    out.extend(entry.done(store)?);
                }
                _ => {}
            }
        }
        Ok(out)
    }

    /// Counts of nodes so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        if let Some((_, counts, _)) = self.ended {
            return counts;
        }
        let tallies = self.tallies();
        Counts {
            total: self.stages.iter().map(|(_, n)| n).sum(),
            executed: tallies.values().map(|tally| tally.executed).sum(),
            reused: tallies.values().map(|tally| tally.reused).sum(),
            failed: self.failed.len() as u64,
            blocked: self.blocked.len() as u64,
        }
    }

    /// `complete`, `incomplete`, `failed`; for a journal without an end `running`,
    /// or `incomplete` when its engine is gone.
    #[must_use]
    pub fn state(&self) -> &'static str {
        match self.ended {
            None if self.live => "running",
            None | Some((RunState::Incomplete, ..)) => "incomplete",
            Some((RunState::Complete, ..)) => "complete",
            Some((RunState::Failed, ..)) => "failed",
        }
    }

    /// The result: that of the run's aggregate; of several, the first, with
    /// all of them under `aggregates` by stage. An empty one without any.
    ///
    /// # Errors
    /// When an artifact can't be read.
    pub fn result(&self, store: &Store) -> Result<Value, StoreError> {
        let mut found: Vec<(String, Value)> = Vec::new();
        let nodes = self.of_kinds(store, &["aggregate"])?;
        for node in nodes.iter().filter(|n| n.record.kind == "aggregate") {
            if let Some(digest) = node.record.part(part::RESULT) {
                let mut result = read_json(store, &digest, &node.id)?;
                self.order_arms(&mut result);
                found.push((node.id.clone(), result));
            }
        }
        // In the order of stages, whatever ended first.
        let place = |id: &str| self.stages.iter().position(|(name, _)| name == id);
        found.sort_by_key(|(id, _)| place(id));
        match found.len() {
            0 => Ok(json!({
                "arms": [],
                "cells": { "planned": 0, "valid": 0, "invalid": 0, "error": 0, "missing": 0, "excluded": 0 }
            })),
            1 => Ok(found.remove(0).1),
            _ => {
                let mut first = found[0].1.clone();
                let all: Map<String, Value> = found.into_iter().collect();
                if let Some(object) = first.as_object_mut() {
                    object.insert("aggregates".to_owned(), Value::Object(all));
                }
                Ok(first)
            }
        }
    }

    /// The report object: `result`, a pure function of the records that it
    /// names, and `run`, everything that belongs to this invocation.
    ///
    /// # Errors
    /// When an artifact can't be read.
    pub fn report(&self, store: &Store) -> Result<Value, StoreError> {
        let nodes = self.nodes(store, |_| true, |_| true)?;
        let executed: Vec<&str> = nodes.iter().filter(|n| n.executed).map(|n| n.id.as_str()).collect();
        let machines: std::collections::BTreeSet<&str> =
            nodes.iter().filter_map(|n| n.record.machine.as_deref()).collect();
        let records: Vec<Value> = nodes.iter().map(|n| json!([n.id, n.record.key, n.executed])).collect();
        let mut whole = self.summary(store)?;
        if let Some(run) = whole["run"].as_object_mut() {
            run.insert("executed".to_owned(), json!(executed));
            run.insert("records".to_owned(), json!(records));
            run.insert("machines".to_owned(), json!(machines));
        }
        Ok(whole)
    }

    /// The report object without lists of all nodes: what people are shown.
    ///
    /// # Errors
    /// When an artifact can't be read.
    pub fn summary(&self, store: &Store) -> Result<Value, StoreError> {
        let result = self.result(store)?;
        let mut sessions = Vec::new();
        for node in &self.of_kinds(store, &["read"])? {
            let Some(digest) = node.record.part(part::CELL) else { continue };
            let state: SessionState = artifact::from_json(&store.get(&digest)?)
                .map_err(|e| StoreError::Unreadable { what: node.id.clone(), why: e.to_string() })?;
            if state.state != CellState::Valid || !state.notes.is_empty() {
                sessions.push(json!({
                    "node": node.id, "cell": node.cell, "state": state.state, "codes": state.codes,
                    "fault": state.fault, "error": state.error, "server": state.server, "notes": state.notes
                }));
            }
        }
        let run = json!({
            "run": self.run,
            "pipeline": self.pipeline,
            "path": self.path,
            "params": self.params,
            "state": self.state(),
            "exit": self.ended.map(|(_, _, exit)| exit),
            "started": rfc3339(self.started),
            "ended": self.ended.map(|_| rfc3339(self.last)),
            "nodes": self.counts(),
            "corpora": self.corpora.iter().map(|(r, d, o)| json!({ "repo": r, "digest": d, "origin": o })).collect::<Vec<_>>(),
            "sessions": sessions,
            "failed": self.failed.iter().map(|(n, m, _)| json!({ "node": n, "message": m })).collect::<Vec<_>>(),
            "held": self.held.iter().map(|(n, why)| json!({ "node": n, "why": why })).collect::<Vec<_>>(),
            "blocked": self.blocked.iter().map(|(n, by)| json!({ "node": n, "by": by })).collect::<Vec<_>>(),
            "notes": self.notes,
            "gates": self.gates,
        });
        Ok(json!({ "result": result, "run": run }))
    }

    /// One JSON line per arm, repository, task, replicate; for answers of agents one per answer.
    ///
    /// # Errors
    /// When an artifact can't be read.
    pub fn rows(&self, store: &Store) -> Result<String, StoreError> {
        let mut cells = Vec::new();
        let nodes = self.of_kinds(store, &["read", "grade"])?;
        let mut graded: BTreeMap<&BTreeMap<String, String>, &RunNode> = BTreeMap::new();
        for node in nodes.iter().rev().filter(|n| n.record.kind == "grade") {
            graded.insert(&node.cell, node);
        }
        for node in &nodes {
            let Some(results) = node.record.part(part::RESULTS) else { continue };
            if node.record.part(part::TRANSCRIPT).is_some() {
                // It is among the answers.
                continue;
            }
            let unreadable =
                |e: serde_json::Error| StoreError::Unreadable { what: node.id.clone(), why: e.to_string() };
            let answers: Vec<AnswerRow> = artifact::from_lines(&store.get(&results)?).map_err(unreadable)?;
            let timing: Option<Timing> = match node.record.part(part::TIMING) {
                Some(digest) => Some(artifact::from_json(&store.get(&digest)?).map_err(unreadable)?),
                None => None,
            };
            let grades: Option<Grades> =
                match graded.get(&node.cell).and_then(|g| g.record.part(part::GRADES)) {
                    Some(digest) => Some(artifact::from_json(&store.get(&digest)?).map_err(unreadable)?),
                    None => None,
                };
            let tasks: Vec<String> = answers.iter().map(|a| a.task.clone()).collect();
            cells.push((node, tasks, answers, timing, grades));
        }
        let arms: Vec<&str> = self.arm_order(&nodes);
        cells.sort_by_key(|(node, ..)| {
            let arm = node.cell.get("arm").map(String::as_str);
            (arms.iter().position(|a| Some(*a) == arm), node.cell.get("repo"), replicate(&node.cell))
        });
        let views: Vec<RowCell<'_>> = cells
            .iter()
            .map(|(node, tasks, answers, timing, grades)| RowCell {
                arm: node.cell.get("arm").map(String::as_str),
                repo: node.cell.get("repo").map(String::as_str),
                replicate: node.cell.get("replicate").map(String::as_str),
                tasks,
                answers,
                timing: timing.as_ref(),
                grades: grades.as_ref(),
            })
            .collect();
        let mut out = rows(&views);
        self.answers(store, |answer| {
            out.push_str(&answer.row().to_string());
            out.push('\n');
            Ok::<(), StoreError>(())
        })?;
        Ok(out)
    }

    /// Puts arms into manifest order: an artifact holds them by name, so that the
    /// order of tables in a manifest changes no key.
    fn order_arms(&self, result: &mut Value) {
        if let Some(arms) = result.get_mut("arms").and_then(Value::as_array_mut) {
            arms.sort_by_key(|arm| self.arms.iter().position(|name| arm["arm"] == name.as_str()));
        }
    }

    /// Arms in manifest order, then those that only cells name.
    fn arm_order<'a>(&'a self, nodes: &'a [RunNode]) -> Vec<&'a str> {
        let mut out: Vec<&str> = self.arms.iter().map(String::as_str).collect();
        for arm in nodes.iter().filter_map(|n| n.cell.get("arm")) {
            if !out.contains(&arm.as_str()) {
                out.push(arm);
            }
        }
        out
    }
}

fn replicate(cell: &BTreeMap<String, String>) -> u64 {
    cell.get("replicate").and_then(|r| r.parse().ok()).unwrap_or(0)
}

fn read_json(store: &Store, digest: &Digest, what: &str) -> Result<Value, StoreError> {
    serde_json::from_slice(&store.get(digest)?)
        .map_err(|e| StoreError::Unreadable { what: what.to_owned(), why: e.to_string() })
}
