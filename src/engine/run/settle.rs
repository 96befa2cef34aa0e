//! Which nodes have their artifact already, and which must run.

use std::sync::Arc;

use super::Dispatcher;
use crate::digest::Digest;
use crate::engine::EngineError;
use crate::engine::table::Status;
use crate::event::Event;
use crate::manifest::pipeline::Cause;
use crate::plan::key::{Keyed, NoRecipe};
use crate::stage::Failure;
use crate::store::Record;

/// Nodes that are keyed and looked up together.
const WAVE: usize = 256;
/// Fewer reused nodes than this are told of before the next node starts.
const FEW: usize = 64;
/// So many are told of although there may soon be more.
const MANY: usize = 4_096;

impl Dispatcher<'_> {
    /// Counts what is as it was, and finds the nodes to begin with.
    pub(super) fn begin(&mut self) {
        let table = &mut self.table;
        self.pending = vec![0; table.graph.len()];
        for node in 0..table.graph.len() {
            if table.is_open(node) {
                let open = table.graph.ups(node).filter(|up| table.is_open(*up as usize)).count();
                self.pending[node] = u32::try_from(open).unwrap_or(u32::MAX);
                if open == 0 {
                    self.ready.push(node);
                }
            } else if self.options.chosen.as_ref().is_some_and(|chosen| !chosen[node]) {
                table.status[node] = Status::Skipped;
            } else {
                self.counts.reused += 1;
                self.reused.entry(table.graph.stage(node)).or_default().push(node);
            }
        }
    }

    /// Gives keys to the nodes whose needs have ended, and reuses what is in the store.
    pub(super) fn settle_ready(&mut self) -> Result<(), EngineError> {
        while !self.ready.is_empty() {
            let mut wave = std::mem::take(&mut self.ready);
            wave.sort_unstable();
            for some in wave.chunks(WAVE) {
                self.settle_some(some)?;
            }
        }
        Ok(())
    }

    fn settle_some(&mut self, nodes: &[usize]) -> Result<(), EngineError> {
        let mut keys = Vec::with_capacity(nodes.len());
        for node in nodes.iter().copied() {
            if self.options.chosen.as_ref().is_some_and(|chosen| !chosen[node]) {
                self.table.status[node] = Status::Skipped;
                self.released(node);
            } else if let Some(by) = self.table.blocked_by(node) {
                self.table.status[node] = Status::Blocked;
                self.counts.blocked += 1;
                let (id, by) = (self.table.id(node), self.table.id(by));
                self.tell(Event::Blocked { node: id, by });
                self.released(node);
            } else if !self.table.is_touched(node) {
                self.table.status[node] = Status::Kept(u32::try_from(node).unwrap_or(u32::MAX));
                self.reused(node);
            } else {
                match self.table.keyed(node, &self.world) {
                    Ok(keyed) => keys.push((node, keyed)),
                    Err(NoRecipe::Wait(what) | NoRecipe::Impossible(what)) => {
                        let cause = Cause::Spawn;
                        self.fail(node, None, &Failure { cause, message: what, log: Vec::new() })?;
                    }
                }
            }
        }
        let wanted: Vec<Digest> = keys.iter().map(|(_, keyed)| keyed.key).collect();
        let hits = self.table.look_up(&wanted, &self.store)?;
        for ((node, keyed), hit) in keys.into_iter().zip(hits) {
            self.settle(node, keyed, hit);
        }
        Ok(())
    }

    fn settle(&mut self, node: usize, keyed: Keyed, hit: Option<Status>) {
        let key = keyed.key;
        if let Some(other) = self.in_flight.get(&key) {
            self.waiting_for.entry(*other).or_default().push(node);
            return;
        }
        if let Some(status) = hit
            && !self.options.again.contains(&node)
        {
            self.table.status[node] = status;
            self.reused(node);
            return;
        }
        self.in_flight.insert(key, node);
        if self.keyed.len() < WAVE {
            self.keyed.insert(node, keyed);
        }
        self.table.status[node] = Status::Due;
        self.schedule.push(node, self.chains[node]);
    }

    pub(in crate::engine) fn reuse(&mut self, node: usize, record: Arc<Record>) {
        self.table.status[node] = Status::Done(record);
        self.reused(node);
    }

    pub(in crate::engine) fn reused(&mut self, node: usize) {
        self.counts.reused += 1;
        self.reused.entry(self.table.graph.stage(node)).or_default().push(node);
        self.released(node);
    }

    /// Counts a node as ended for those that need it.
    pub(in crate::engine) fn released(&mut self, node: usize) {
        self.table.touch_below(node);
        for below in self.table.graph.dependents(node) {
            let below = *below as usize;
            self.pending[below] -= 1;
            if self.pending[below] == 0 {
                self.ready.push(below);
            }
        }
    }

    /// Tells of reused nodes; unless of `all`, of those that make a line of a good length.
    pub(super) fn flush_reused(&mut self, all: bool) -> Result<(), EngineError> {
        for (stage, mut nodes) in std::mem::take(&mut self.reused) {
            if !all && (FEW..MANY).contains(&nodes.len()) {
                self.reused.insert(stage, nodes);
                continue;
            }
            nodes.sort_unstable();
            let event = self.table.reused(stage, &nodes, &self.store)?;
            self.tell(event);
        }
        Ok(())
    }
}
