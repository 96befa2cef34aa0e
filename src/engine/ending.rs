//! The end of a node: published, failed, held, or left to another run.

use std::sync::Arc;

use tokio::task::JoinHandle;

use super::EngineError;
use super::executor::{Ended, Place, Stop};
use super::run::{Dispatcher, GROUP, MANY_ENDED, MOST_HELD};
use super::table::Status;
use crate::digest::Digest;
use crate::event::Event;
use crate::manifest::pipeline::Effect;
use crate::stage::Failure;
use crate::store::journal;
use crate::store::{Outcome, Published, Record, StoreError};

/// A batch on its way into the store, with its nodes and their wall-clock times.
pub(super) struct Publishing {
    task: JoinHandle<Result<Vec<Published>, StoreError>>,
    nodes: Vec<(usize, u64)>,
    /// Bytes of its results.
    held: usize,
}

impl Dispatcher<'_> {
    /// Gives a node the record of another one with the same key.
    pub(super) fn share(&mut self, node: usize, record: &Arc<Record>, digest: Digest) {
        self.counts.reused += 1;
        let node_id = self.table.id(node);
        let (key, state) = (record.key, record.state());
        self.tell(Event::Done { node: node_id, key, record: digest, state, wall_ms: 0 });
        self.table.status[node] = Status::Done(Arc::clone(record));
        self.released(node);
    }

    /// Gives a sign of life, and looks whether the run is asked to stop.
    pub(super) fn beat(&mut self) {
        self.journal.beat();
        let step = journal::wished(self.store.root(), self.journal.run());
        if step >= 1 {
            self.options.stop.cancel();
        }
        if step >= 2 {
            self.options.kill.cancel();
        }
    }

    /// Tells of those that have ended without a result.
    pub(super) fn fail_ended(&mut self) -> Result<(), EngineError> {
        let (done, stopped): (Vec<Ended>, Vec<Ended>) =
            std::mem::take(&mut self.ended).into_iter().partition(|ended| ended.result.is_ok());
        self.ended = done;
        for ended in stopped {
            let Err(stop) = ended.result else { continue };
            let key = self.table.key(ended.node);
            match stop {
                Stop::Failed(failure) if failure.is_cancelled() => self.undone(ended.node),
                Stop::Failed(failure) => self.fail(ended.node, key, &failure)?,
                Stop::Held(why) => {
                    let node = self.table.id(ended.node);
                    self.tell(Event::Held { node, why });
                    self.undone(ended.node);
                }
                Stop::Later => self.again_abroad(ended.node),
            }
        }
        Ok(())
    }

    /// Publishes what has ended, unless something is being published: objects,
    /// records, one sync; the events follow. Nodes go on meanwhile.
    pub(super) fn publish(&mut self) {
        let due = self.schedule.running() == 0
            || self.ended.len() >= MANY_ENDED
            || self.held >= MOST_HELD
            || self.ended_since.elapsed() >= GROUP;
        if self.ended.is_empty() || self.publishing.is_some() || !due {
            return;
        }
        let (mut batch, mut nodes, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for ended in std::mem::take(&mut self.ended) {
            if let Ok(publication) = ended.result {
                batch.push(publication);
                nodes.push((ended.node, ended.wall_ms));
                kept.push(ended.place);
            }
        }
        let store = Arc::clone(&self.store);
        let task = tokio::task::spawn_blocking(move || {
            let published = store.publish(batch);
            // A paid result that could not be published is found in its folder.
            if published.is_ok() {
                kept.iter_mut().flatten().for_each(Place::release);
            }
            drop(kept);
            published
        });
        self.publishing = Some(Publishing { task, nodes, held: self.held });
    }

    pub(super) fn finish_all(&mut self, published: Vec<Published>) -> Result<(), EngineError> {
        let (nodes, held) = self.publishing.take().map(|p| (p.nodes, p.held)).unwrap_or_default();
        self.held -= held;
        for ((node, wall_ms), published) in nodes.into_iter().zip(published) {
            if published.fenced {
                let id = self.table.id(node);
                self.tell(Event::Note {
                    message: format!("`{id}` was taken over by another run; its result here doesn't count"),
                });
                self.again_abroad(node);
            } else {
                self.finish(node, wall_ms, published)?;
            }
        }
        // What it tells is in the store already; once in a while is enough.
        self.journal.sync_in_a_while()?;
        Ok(())
    }

    pub(super) fn finish(
        &mut self,
        node: usize,
        wall_ms: u64,
        published: Published,
    ) -> Result<(), EngineError> {
        let Published { record, digest, accepted, .. } = published;
        self.store.release(&record.key);
        self.counts.executed += 1;
        self.tell(Event::Done {
            node: self.table.id(node),
            key: record.key,
            record: digest,
            state: record.state(),
            wall_ms,
        });
        // First writer wins: when another run was faster, its result is the one to go on with.
        let record = if accepted || record.outcome == Outcome::Error {
            record
        } else {
            self.differs(node, &record)?;
            let first = self.store.hit(&record.key)?;
            if first.is_none() {
                self.table.doubt(node);
            }
            first.unwrap_or(record)
        };
        let record = Arc::new(record);
        self.in_flight.remove(&record.key);
        self.table.status[node] = Status::Done(Arc::clone(&record));
        self.twins(node, &record, digest);
        self.released(node);
        Ok(())
    }

    /// Gives the nodes that waited for another one of their key its record.
    pub(super) fn twins(&mut self, node: usize, record: &Arc<Record>, digest: Digest) {
        for twin in self.waiting_for.remove(&node).unwrap_or_default() {
            if record.outcome == Outcome::Error {
                // What ended in error is no hit that a journal could name by its key alone.
                self.share(twin, record, digest);
            } else {
                self.reuse(twin, Arc::clone(record));
            }
        }
    }

    /// Notes a second result of a pure node that is not the first.
    pub(super) fn differs(&mut self, node: usize, second: &Record) -> Result<(), StoreError> {
        let pure = self.table.pipeline.stages[self.table.graph.stage(node)].effect == Effect::Pure;
        if let Some(first) = self.store.hit(&second.key)?
            && pure
            && first.parts.iter().any(|(name, part)| {
                name != crate::artifact::part::META && second.parts.get(name) != Some(part)
            })
        {
            let id = self.table.id(node);
            self.tell(Event::Note {
                message: format!(
                    "`{id}` says that it is pure, but a second run gave other bytes; the first result stays"
                ),
            });
        }
        Ok(())
    }

    /// A node that was ended by a signal: neither done nor failed.
    pub(super) fn undone(&mut self, node: usize) {
        if let Some(key) = self.table.key(node) {
            self.in_flight.remove(&key);
            self.store.release(&key);
        }
        self.table.status[node] = Status::Open;
    }

    pub(super) fn fail(
        &mut self,
        node: usize,
        key: Option<Digest>,
        failure: &Failure,
    ) -> Result<(), EngineError> {
        let log = if failure.log.is_empty() { None } else { Some(self.store.put(&failure.log)?) };
        self.counts.failed += 1;
        self.table.status[node] = Status::Failed;
        if let Some(key) = key {
            self.in_flight.remove(&key);
            self.store.release(&key);
        }
        self.tell(Event::Failed {
            node: self.table.id(node),
            key,
            cause: Some(failure.cause),
            message: failure.message.clone(),
            log,
        });
        for twin in self.waiting_for.remove(&node).unwrap_or_default() {
            self.counts.failed += 1;
            self.table.status[twin] = Status::Failed;
            let message = format!("the same work failed in `{}`", self.table.id(node));
            self.tell(Event::Failed {
                node: self.table.id(twin),
                key,
                cause: Some(failure.cause),
                message,
                log: None,
            });
            self.released(twin);
        }
        if !self.options.keep_going {
            self.halted = true;
        }
        self.released(node);
        Ok(())
    }
}

/// Waits for what is being published; for ever when that is nothing.
pub(super) async fn published(publishing: &mut Option<Publishing>) -> Result<Vec<Published>, EngineError> {
    match publishing {
        None => std::future::pending().await,
        Some(publishing) => {
            let published = (&mut publishing.task).await;
            Ok(published.map_err(|e| EngineError::Internal(e.to_string()))??)
        }
    }
}
