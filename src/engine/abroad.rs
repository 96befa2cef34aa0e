//! Nodes on which other runs of the same store work.
//!
//! They are looked at again and again: the other run's result is taken when it
//! is there; when the other run is gone, its lease is free and the node is run
//! here. A run that lives but gives no sign of life (it was stopped) is waited
//! for only so long; then what costs nothing is taken over, and a fence keeps
//! the sleeper from publishing it when it wakes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::EngineError;
use super::run::Dispatcher;
use super::table::Status;
use crate::clock::Stopwatch;
use crate::digest::Digest;
use crate::event::Event;
use crate::manifest::pipeline::Effect;
use crate::store::journal::Journal;
use crate::store::{Record, Store, StoreError};

/// Nodes that are waited for.
pub(super) struct Abroad {
    pub(super) nodes: Vec<Foreign>,
    pub(super) takeover: Duration,
    /// Version of the index when it was last looked at.
    pub(super) seen: i64,
    /// Per run: its last sign of life, and since when that has been the last one.
    beats: HashMap<String, (Option<SystemTime>, Stopwatch)>,
}

/// A node on which another run works.
pub(super) struct Foreign {
    pub(super) node: usize,
    pub(super) key: Digest,
    pub(super) since: Stopwatch,
}

impl Abroad {
    pub(super) fn new(takeover: Duration) -> Self {
        Self { nodes: Vec::new(), takeover, seen: -1, beats: HashMap::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Whether the run that works on a key gives no sign of life although it
    /// isn't gone.
    ///
    /// # Errors
    /// When journals can't be read.
    pub(super) fn is_silent(&mut self, store: &Store, key: &Digest, own: &str) -> Result<bool, StoreError> {
        let mut silent = false;
        for run in Journal::runs(store.root())? {
            if run == own || Journal::is_live(store.root(), &run) != Some(true) {
                continue;
            }
            let beat = Journal::last_beat(store.root(), &run);
            let (last, since) = self.beats.entry(run.clone()).or_insert_with(|| (beat, Stopwatch::start()));
            if *last != beat {
                (*last, *since) = (beat, Stopwatch::start());
            }
            let quiet = since.elapsed() > self.takeover;
            if works_on(store, &run, key)? {
                if !quiet {
                    return Ok(false);
                }
                silent = true;
            }
        }
        Ok(silent)
    }
}

impl Dispatcher<'_> {
    /// Leaves a node to the run that works on it.
    pub(super) fn send_abroad(&mut self, node: usize, key: Digest) {
        let id = self.table.id(node);
        self.tell(Event::Abroad { node: id });
        self.abroad.nodes.push(Foreign { node, key, since: Stopwatch::start() });
    }

    /// Leaves a node that was begun here to somebody else.
    pub(super) fn again_abroad(&mut self, node: usize) {
        let Some(key) = self.table.key(node) else { return };
        self.store.release(&key);
        self.table.status[node] = Status::Due;
        self.abroad.nodes.push(Foreign { node, key, since: Stopwatch::start() });
    }

    /// Takes what other runs have finished, and goes on with what they gave up.
    pub(super) fn look_abroad(&mut self) -> Result<(), EngineError> {
        let version = self.store.version()?;
        let changed = version != self.abroad.seen;
        self.abroad.seen = version;
        for foreign in std::mem::take(&mut self.abroad.nodes) {
            if changed && let Some(record) = self.store.hit(&foreign.key)? {
                self.arrive(foreign.node, Arc::new(record));
                continue;
            }
            let free = self.store.try_lease(&foreign.key, self.journal.run(), true)?;
            if free {
                self.store.release(&foreign.key);
            } else if !self.may_take_over(&foreign)? {
                self.abroad.nodes.push(foreign);
                continue;
            } else {
                self.store.fence_off(&foreign.key, self.journal.run())?;
            }
            self.schedule.push(foreign.node, self.chains[foreign.node]);
        }
        Ok(())
    }

    /// Whether a node may be taken from a run that gives no sign of life: never a paid one.
    pub(super) fn may_take_over(&mut self, foreign: &Foreign) -> Result<bool, StoreError> {
        let stage = self.table.graph.stage(foreign.node);
        let free = self.table.pipeline.stages[stage].effect != Effect::Paid;
        Ok(free
            && foreign.since.elapsed() > self.abroad.takeover
            && self.abroad.is_silent(&self.store, &foreign.key, self.journal.run())?)
    }

    /// A node has got the record of another run.
    pub(super) fn arrive(&mut self, node: usize, record: Arc<Record>) {
        self.in_flight.remove(&record.key);
        for twin in self.waiting_for.remove(&node).unwrap_or_default() {
            self.reuse(twin, Arc::clone(&record));
        }
        self.reuse(node, record);
    }
}

/// Whether a run has begun a key and not ended it, as its journal tells.
fn works_on(store: &Store, run: &str, key: &Digest) -> Result<bool, StoreError> {
    let mut works = false;
    for line in Journal::read(store.root(), run)?.lines {
        match line.event {
            Event::Started { key: of, .. } if of == *key => works = true,
            Event::Done { key: of, .. } if of == *key => works = false,
            Event::Failed { key: Some(of), .. } if of == *key => works = false,
            _ => {}
        }
    }
    Ok(works)
}
