//! From a run's journal and the store to the report object.

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
    /// Nodes with an artifact, in the order of the journal.
    pub nodes: Vec<RunNode>,
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
                Event::RunStarted { pipeline, path, params, stages, arms, .. } => {
                    view.arms = arms;
                    view.pipeline = pipeline;
                    view.path = path;
                    view.params = params;
                    view.stages = stages;
                }
                Event::Corpus { repo, digest, origin } => view.corpora.push((repo, digest, origin)),
                Event::Reused { nodes, .. } => {
                    for (id, key) in nodes {
                        if let Some(record) = store.hit(&key)? {
                            view.nodes.push(RunNode { cell: cell_of(&id), id, record, executed: false });
                        }
                    }
                }
                Event::Started { node, .. } => view.running.push(node),
                Event::Done { node, record, .. } => {
                    view.running.retain(|n| *n != node);
                    if let Some(record) = store.record(&record)? {
                        view.nodes.push(RunNode { cell: cell_of(&node), id: node, record, executed: true });
                    }
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

    /// Counts of nodes so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        if let Some((_, counts, _)) = self.ended {
            return counts;
        }
        let executed = self.nodes.iter().filter(|n| n.executed).count() as u64;
        Counts {
            total: self.stages.iter().map(|(_, n)| n).sum(),
            executed,
            reused: self.nodes.len() as u64 - executed,
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
        for node in self.nodes.iter().filter(|n| n.record.kind == "aggregate") {
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
        let result = self.result(store)?;
        let mut sessions = Vec::new();
        for node in &self.nodes {
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
        let executed: Vec<&str> = self.nodes.iter().filter(|n| n.executed).map(|n| n.id.as_str()).collect();
        let machines: std::collections::BTreeSet<&str> =
            self.nodes.iter().filter_map(|n| n.record.machine.as_deref()).collect();
        let records: Vec<Value> =
            self.nodes.iter().map(|n| json!([n.id, n.record.key, n.executed])).collect();
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
            "executed": executed,
            "records": records,
            "machines": machines,
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

    /// One JSON line per arm, repository, task, replicate.
    ///
    /// # Errors
    /// When an artifact can't be read.
    pub fn rows(&self, store: &Store) -> Result<String, StoreError> {
        let mut cells = Vec::new();
        for node in &self.nodes {
            let Some(results) = node.record.part(part::RESULTS) else { continue };
            let unreadable =
                |e: serde_json::Error| StoreError::Unreadable { what: node.id.clone(), why: e.to_string() };
            let answers: Vec<AnswerRow> = artifact::from_lines(&store.get(&results)?).map_err(unreadable)?;
            let timing: Option<Timing> = match node.record.part(part::TIMING) {
                Some(digest) => Some(artifact::from_json(&store.get(&digest)?).map_err(unreadable)?),
                None => None,
            };
            let graded = self.nodes.iter().find(|n| n.record.kind == "grade" && n.cell == node.cell);
            let grades: Option<Grades> = match graded.and_then(|g| g.record.part(part::GRADES)) {
                Some(digest) => Some(artifact::from_json(&store.get(&digest)?).map_err(unreadable)?),
                None => None,
            };
            let tasks: Vec<String> = answers.iter().map(|a| a.task.clone()).collect();
            cells.push((node, tasks, answers, timing, grades));
        }
        let arms: Vec<&str> = self.arm_order();
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
        Ok(rows(&views))
    }

    /// Puts arms into manifest order: an artifact holds them by name, so that the
    /// order of tables in a manifest changes no key.
    fn order_arms(&self, result: &mut Value) {
        if let Some(arms) = result.get_mut("arms").and_then(Value::as_array_mut) {
            arms.sort_by_key(|arm| self.arms.iter().position(|name| arm["arm"] == name.as_str()));
        }
    }

    /// Arms in manifest order, then those that only cells name.
    fn arm_order(&self) -> Vec<&str> {
        let mut out: Vec<&str> = self.arms.iter().map(String::as_str).collect();
        for arm in self.nodes.iter().filter_map(|n| n.cell.get("arm")) {
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
