//! The dispatcher: one task that owns scheduling, the journal and the signals.

mod settle;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use super::EngineError;
use super::executor::{self, Ended, Message, Task};
use super::schedule::{Schedule, Wants};
use super::table::{Status, Table};
use super::world::World;
use crate::clock::Clock;
use crate::corpus::Corpus;
use crate::digest::Digest;
use crate::event::{Counts, Event, RunState};
use crate::plan::key::Keyed;
use crate::stage::{Failure, Job};
use crate::store::journal::JournalWriter;
use crate::store::{Outcome, Published, Record, Store, StoreError};

/// How a run is to be done.
pub struct Options {
    /// Nodes to run at once at most.
    pub jobs: usize,
    /// Go on with independent nodes after one has failed.
    pub keep_going: bool,
    /// Flags of the nodes to run; none: all.
    pub chosen: Option<Vec<bool>>,
    /// Told to stop taking nodes.
    pub stop: CancellationToken,
    /// Told to end running nodes too.
    pub kill: CancellationToken,
    /// The program itself.
    pub exe: PathBuf,
    /// What time it is.
    pub clock: Clock,
    /// Keys that must be executed although they have an artifact.
    pub again: Vec<usize>,
}

/// How a run went.
pub struct Summary {
    /// How it ended.
    pub state: RunState,
    /// Counts of nodes.
    pub counts: Counts,
    /// The table with the records of this run.
    pub table: Table,
}

/// Runs what is not in the store.
///
/// Events go to `listen` as well as to the journal; [`Event::RunEnded`] is
/// left to the caller, who knows the exit code.
///
/// # Errors
/// When the store fails; what had been published stays.
pub async fn run(
    mut table: Table,
    world: World,
    store: Arc<Store>,
    corpora: Arc<BTreeMap<String, Corpus>>,
    journal: &mut JournalWriter,
    options: Options,
    listen: &mut (dyn FnMut(&Event) + Send),
) -> Result<Summary, EngineError> {
    let (send, receive) = unbounded_channel();
    table.recall(&world, &store, &options.again)?;
    let open = (0..table.graph.len()).any(|node| table.is_open(node));
    let chains = if open { table.graph.chains() } else { Vec::new() };
    let pools = table.pipeline.pools.iter().map(|(n, p)| (n.clone(), p.clone()));
    let schedule = Schedule::new(options.jobs, pools);
    let dispatcher = Dispatcher {
        table,
        world,
        store,
        corpora,
        journal,
        options,
        listen,
        send,
        schedule,
        chains,
        pending: Vec::new(),
        ready: Vec::new(),
        keyed: HashMap::new(),
        in_flight: HashMap::new(),
        waiting_for: HashMap::new(),
        reused: BTreeMap::new(),
        begun: false,
        counts: Counts::default(),
        ended: Vec::new(),
        halted: false,
    };
    dispatcher.go(receive).await
}

struct Dispatcher<'a> {
    table: Table,
    world: World,
    store: Arc<Store>,
    corpora: Arc<BTreeMap<String, Corpus>>,
    journal: &'a mut JournalWriter,
    options: Options,
    listen: &'a mut (dyn FnMut(&Event) + Send),
    send: UnboundedSender<Message>,
    schedule: Schedule,
    chains: Vec<u32>,
    /// Per node: needs that are open and have not ended yet.
    pending: Vec<u32>,
    /// Nodes all of whose needs have ended.
    ready: Vec<usize>,
    /// Recipes of some nodes in the queue; those of all would take much memory, so the others
    /// are made once more.
    keyed: HashMap<usize, Keyed>,
    /// Key of what runs, and the node that runs it.
    in_flight: HashMap<Digest, usize>,
    /// Nodes that wait for another node of the same key.
    waiting_for: HashMap<usize, Vec<usize>>,
    /// Reused nodes that are not in the journal yet, by stage.
    reused: BTreeMap<usize, Vec<usize>>,
    /// What was reused before the first node started is in the journal.
    begun: bool,
    counts: Counts,
    /// Ended nodes that are not published yet.
    ended: Vec<Ended>,
    /// Nothing more is taken: a failure without `keep_going`, or a signal.
    halted: bool,
}

impl Dispatcher<'_> {
    async fn go(mut self, mut receive: UnboundedReceiver<Message>) -> Result<Summary, EngineError> {
        self.counts.total = self.table.graph.len() as u64;
        if let Some(chosen) = &self.options.chosen {
            self.counts.total = chosen.iter().filter(|c| **c).count() as u64;
        }
        self.begin();
        let (mut stopped, mut killed) = (false, false);
        loop {
            self.settle_ready()?;
            // For those who look on; what must be durable is synced with a publication.
            self.journal.write()?;
            // A signal may have come before there was anything to run.
            self.halted |= self.options.stop.is_cancelled();
            self.start_nodes()?;
            if self.schedule.running() == 0 && (self.halted || self.schedule.waiting() == 0) {
                break;
            }
            let stop = self.options.stop.clone();
            let kill = self.options.kill.clone();
            tokio::select! {
                message = receive.recv() => {
                    if let Some(message) = message {
                        self.take(message);
                    }
                    // Everything that has ended meanwhile is published with one sync.
                    while let Ok(message) = receive.try_recv() {
                        self.take(message);
                    }
                    self.publish().await?;
                }
                () = stop.cancelled(), if !stopped => {
                    stopped = true;
                    self.halted = true;
                    self.tell(Event::Cancelled { step: 1 });
                }
                () = kill.cancelled(), if !killed => {
                    killed = true;
                    self.halted = true;
                    self.tell(Event::Cancelled { step: 2 });
                }
                // A pool's minute may have passed.
                () = tokio::time::sleep(std::time::Duration::from_millis(200)),
                    if self.schedule.waiting() > 0 => {}
            }
        }
        self.flush_reused(true)?;
        self.journal.sync()?;
        // A run without a memo is as good; the next one then takes longer.
        let _ = self.table.remember(&self.world, &self.store);
        let state = if self.counts.failed > 0 {
            RunState::Failed
        } else if self.counts.executed + self.counts.reused < self.counts.total {
            RunState::Incomplete
        } else {
            RunState::Complete
        };
        Ok(Summary { state, counts: self.counts, table: self.table })
    }

    fn tell(&mut self, event: Event) {
        self.journal.add(&event);
        (self.listen)(&event);
    }

    fn take(&mut self, message: Message) {
        match message {
            // What is free to run again need not be durable before it starts; the next
            // publication syncs it.
            Message::Event(event) => self.tell(event),
            Message::Ended(ended) => {
                // A slot is free at the end; dependents wait for the publication.
                let stage = self.table.graph.stage(ended.node);
                let pipeline = Arc::clone(&self.table.pipeline);
                self.schedule.free(Wants::of(&pipeline.stages[stage]));
                self.ended.push(*ended);
            }
        }
    }

    /// Gives a node the record of another one with the same key.
    fn share(&mut self, node: usize, record: &Arc<Record>, digest: Digest) {
        self.counts.reused += 1;
        let node_id = self.table.id(node);
        let (key, state) = (record.key, record.state());
        self.tell(Event::Done { node: node_id, key, record: digest, state, wall_ms: 0 });
        self.table.status[node] = Status::Done(Arc::clone(record));
        self.released(node);
    }

    fn start_nodes(&mut self) -> Result<(), EngineError> {
        while !self.halted {
            let pipeline = Arc::clone(&self.table.pipeline);
            let graph = &self.table.graph;
            let Some(node) = self.schedule.next(|n| Wants::of(&pipeline.stages[graph.stage(n)])) else {
                break;
            };
            let first = !std::mem::replace(&mut self.begun, true);
            self.flush_reused(first)?;
            self.start(node);
        }
        Ok(())
    }

    fn start(&mut self, node: usize) {
        let keyed = match self.keyed.remove(&node) {
            Some(keyed) => keyed,
            None => match self.table.keyed(node, &self.world) {
                Ok(keyed) => keyed,
                Err(_) => return,
            },
        };
        let stage_index = self.table.graph.stage(node);
        let pipeline = Arc::clone(&self.table.pipeline);
        let stage = &pipeline.stages[stage_index];
        let cell = self.table.graph.cell(&pipeline, node);
        let id = self.table.id(node);
        let record = Record {
            format: 1,
            key: keyed.key,
            recipe: keyed.key,
            pipeline: pipeline.name.clone(),
            node: id.clone(),
            kind: stage.kind().to_owned(),
            parts: BTreeMap::new(),
            outcome: Outcome::Done,
            used: BTreeMap::new(),
            origin: self.store.origin().to_owned(),
            run: self.journal.run().to_owned(),
            attempt: 1,
            started: 0,
            ended: 0,
            machine: None,
            unconfined: None,
            usd: None,
        };
        let task = Task {
            node,
            id,
            record,
            canonical: keyed.canonical,
            effect: stage.effect,
            retry: stage.retry.clone(),
            cancel: self.options.kill.clone(),
            clock: self.options.clock,
        };
        let arm = self.table.arm(&cell);
        let needs = self.table.inputs(node);
        let (store, corpora) = (Arc::clone(&self.store), Arc::clone(&self.corpora));
        let (exe, cancel, recipe) = (self.options.exe.clone(), self.options.kill.clone(), keyed.recipe);
        let make_pipeline = Arc::clone(&self.table.pipeline);
        let make = move |scratch: PathBuf, marker: String| Job {
            pipeline: Arc::clone(&make_pipeline),
            stage: stage_index,
            cell: cell.clone(),
            arm,
            needs: needs.clone(),
            store: Arc::clone(&store),
            corpora: Arc::clone(&corpora),
            scratch,
            exe: exe.clone(),
            marker,
            cancel: cancel.clone(),
            recipe: recipe.clone(),
        };
        tokio::spawn(executor::execute(task, make, self.store.tmp(), self.send.clone()));
    }

    /// Publishes what has ended: objects, records, one sync, then the events.
    async fn publish(&mut self) -> Result<(), EngineError> {
        if self.ended.is_empty() {
            return Ok(());
        }
        let (mut batch, mut done, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for ended in std::mem::take(&mut self.ended) {
            match ended.result {
                Ok(publication) => {
                    batch.push(publication);
                    done.push((ended.node, ended.wall_ms));
                }
                Err(failure) => {
                    let key = self.table.key(ended.node);
                    if failure.is_cancelled() {
                        self.undone(ended.node);
                    } else {
                        self.fail(ended.node, key, &failure)?;
                    }
                }
            }
            kept.push(ended.scratch);
        }
        let store = Arc::clone(&self.store);
        let published = tokio::task::spawn_blocking(move || {
            let published = store.publish(batch);
            drop(kept);
            published
        })
        .await
        .map_err(|e| EngineError::Internal(e.to_string()))??;
        for ((node, wall_ms), published) in done.into_iter().zip(published) {
            self.finish(node, wall_ms, published)?;
        }
        self.journal.sync()?;
        Ok(())
    }

    fn finish(&mut self, node: usize, wall_ms: u64, published: Published) -> Result<(), EngineError> {
        let Published { record, digest, accepted } = published;
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
        for twin in self.waiting_for.remove(&node).unwrap_or_default() {
            if record.outcome == Outcome::Error {
                // What ended in error is no hit that a journal could name by its key alone.
                self.share(twin, &record, digest);
            } else {
                self.reuse(twin, Arc::clone(&record));
            }
        }
        self.released(node);
        Ok(())
    }

    /// Notes a second result of a pure node that is not the first.
    fn differs(&mut self, node: usize, second: &Record) -> Result<(), StoreError> {
        let pure = self.table.pipeline.stages[self.table.graph.stage(node)].effect
            == crate::manifest::pipeline::Effect::Pure;
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
    fn undone(&mut self, node: usize) {
        if let Some(key) = self.table.key(node) {
            self.in_flight.remove(&key);
        }
        self.table.status[node] = Status::Open;
    }

    fn fail(&mut self, node: usize, key: Option<Digest>, failure: &Failure) -> Result<(), EngineError> {
        let log = if failure.log.is_empty() { None } else { Some(self.store.put(&failure.log)?) };
        self.counts.failed += 1;
        self.table.status[node] = Status::Failed;
        if let Some(key) = key {
            self.in_flight.remove(&key);
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
