//! The dispatcher: one task that owns scheduling, the journal and the signals.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::EngineError;
use super::abroad::{Abroad, Foreign};
use super::executor::{self, Ended, Message, Place, Stop, Task};
use super::paid::Purse;
use super::schedule::{Schedule, Wants};
use super::table::{Status, Table};
use super::world::World;
use crate::clock::{Clock, Stopwatch};
use crate::corpus::Corpus;
use crate::digest::Digest;
use crate::event::{Counts, Event, RunState};
use crate::fsio::slot::{Lent, Slots};
use crate::manifest::pipeline::{Effect, Respend};
use crate::plan::compiled::Work;
use crate::plan::key::{Keyed, NoRecipe, differences};
use crate::process::Supervisors;
use crate::stage::{Failure, Job};
use crate::store::journal::{self, JournalWriter};
use crate::store::ledger::Caps;
use crate::store::{Outcome, Publication, Published, Record, Store, StoreError};

/// Pause between two looks at what other runs have done.
const ABROAD: Duration = Duration::from_millis(50);
/// Pause between two signs of life.
const BEAT: Duration = Duration::from_millis(500);

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
    /// What this run may spend, in millionths of a dollar.
    pub most: Option<u64>,
    /// Paid nodes that may be bought although there is an answer from another recipe.
    pub respend: Vec<usize>,
    /// Paid nodes whose answer from another recipe is to stand for the present one.
    pub accept: Vec<usize>,
    /// Why, for what is accepted.
    pub why: String,
    /// How long another run may give no sign of life before what it works on is taken over.
    pub takeover: Duration,
    /// Name of this machine, for people.
    pub host: String,
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
    table: Table,
    world: World,
    store: Arc<Store>,
    corpora: Arc<BTreeMap<String, Corpus>>,
    journal: &mut JournalWriter,
    options: Options,
    listen: &mut (dyn FnMut(&Event) + Send),
) -> Result<Summary, EngineError> {
    let (send, receive) = unbounded_channel();
    let chains = table.graph.chains();
    let pools = table.pipeline.pools.iter().map(|(n, p)| (n.clone(), p.clone()));
    let schedule = Schedule::new(options.jobs, pools);
    let pending: Vec<u32> = table
        .graph
        .nodes
        .iter()
        .map(|node| u32::try_from(node.needs.iter().map(Vec::len).sum::<usize>()).unwrap_or(u32::MAX))
        .collect();
    let supervisors = Arc::new(Supervisors::new(&options.exe));
    let slots = Arc::new(Slots::new(&store.tmp(), journal.run()));
    let abroad = Abroad::new(options.takeover);
    let dispatcher = Dispatcher {
        table,
        world,
        store,
        corpora,
        journal,
        options,
        listen,
        send,
        supervisors,
        slots,
        abroad,
        publishing: None,
        schedule,
        chains,
        pending,
        ready: Vec::new(),
        keyed: HashMap::new(),
        in_flight: HashMap::new(),
        waiting_for: HashMap::new(),
        reused: BTreeMap::new(),
        counts: Counts::default(),
        ended: Vec::new(),
        halted: false,
    };
    dispatcher.go(receive).await
}

/// A batch on its way into the store, with its nodes and their wall-clock times.
struct Publishing {
    task: JoinHandle<Result<Vec<Published>, StoreError>>,
    nodes: Vec<(usize, u64)>,
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
    supervisors: Arc<Supervisors>,
    slots: Arc<Slots>,
    /// Nodes on which other runs work.
    abroad: Abroad,
    /// What is being published.
    publishing: Option<Publishing>,
    schedule: Schedule,
    chains: Vec<u32>,
    /// Per node: needs that have not ended yet.
    pending: Vec<u32>,
    /// Nodes all of whose needs have ended.
    ready: Vec<usize>,
    /// Recipes of nodes in the queue, and the version of the index at which they had no artifact.
    keyed: HashMap<usize, (Keyed, i64)>,
    /// Key of what runs, and the node that runs it.
    in_flight: HashMap<Digest, usize>,
    /// Nodes that wait for another node of the same key.
    waiting_for: HashMap<usize, Vec<usize>>,
    /// Reused nodes that are not in the journal yet, by stage.
    reused: BTreeMap<usize, Vec<(String, Digest)>>,
    counts: Counts,
    /// Ended nodes that are not published yet.
    ended: Vec<Ended>,
    /// Nothing more is taken: a failure without `keep_going`, or a signal.
    halted: bool,
}

impl Dispatcher<'_> {
    async fn go(mut self, mut receive: UnboundedReceiver<Message>) -> Result<Summary, EngineError> {
        self.counts.total = self.table.graph.nodes.len() as u64;
        if let Some(chosen) = &self.options.chosen {
            self.counts.total = chosen.iter().filter(|c| **c).count() as u64;
        }
        for node in (0..self.table.graph.nodes.len()).rev() {
            if self.pending[node] == 0 {
                self.ready.push(node);
            }
        }
        let (mut stopped, mut killed) = (false, false);
        loop {
            self.settle_ready()?;
            // For those who look on; what must be durable is synced with a publication.
            self.journal.write()?;
            // A signal may have come before there was anything to run.
            self.halted |= self.options.stop.is_cancelled();
            self.start_nodes()?;
            self.publish();
            let idle = self.schedule.running() == 0 && self.publishing.is_none();
            if idle && (self.halted || (self.schedule.waiting() == 0 && self.abroad.is_empty())) {
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
                    self.fail_ended()?;
                }
                published = published(&mut self.publishing) => self.finish_all(published?)?,
                () = tokio::time::sleep(ABROAD), if !self.abroad.is_empty() => self.look_abroad()?,
                () = tokio::time::sleep(BEAT) => self.beat(),
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
        self.flush_reused();
        self.journal.sync()?;
        self.supervisors.close().await;
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
                let stage = self.table.graph.nodes[ended.node].stage;
                let pipeline = Arc::clone(&self.table.pipeline);
                self.schedule.free(Wants::of(&pipeline.stages[stage]));
                self.ended.push(*ended);
            }
        }
    }

    /// Gives keys to the nodes whose needs have ended, and reuses what is in the store.
    fn settle_ready(&mut self) -> Result<(), EngineError> {
        while let Some(node) = self.ready.pop() {
            if self.options.chosen.as_ref().is_some_and(|chosen| !chosen[node]) {
                self.table.status[node] = Status::Skipped;
                self.released(node);
                continue;
            }
            if let Some(by) = self.table.blocked_by(node) {
                self.table.status[node] = Status::Blocked;
                self.counts.blocked += 1;
                let (id, by) = (self.table.id(node), self.table.id(by));
                self.tell(Event::Blocked { node: id, by });
                self.released(node);
                continue;
            }
            match self.table.keyed(node, &self.world) {
                Ok(keyed) => self.settle(node, keyed)?,
                Err(NoRecipe::Wait(what) | NoRecipe::Impossible(what)) => {
                    self.fail(
                        node,
                        None,
                        &Failure {
                            cause: crate::manifest::pipeline::Cause::Spawn,
                            message: what,
                            log: Vec::new(),
                        },
                    )?;
                }
            }
        }
        Ok(())
    }

    fn settle(&mut self, node: usize, keyed: Keyed) -> Result<(), EngineError> {
        self.table.keys[node] = Some(keyed.key);
        if let Some(other) = self.in_flight.get(&keyed.key) {
            self.waiting_for.entry(*other).or_default().push(node);
            return Ok(());
        }
        let again = self.options.again.contains(&node);
        if !again && let Some(record) = self.store.hit(&keyed.key)? {
            self.reuse(node, Arc::new(record));
            return Ok(());
        }
        self.in_flight.insert(keyed.key, node);
        self.keyed.insert(node, (keyed, self.store.version()?));
        self.table.status[node] = Status::Due;
        self.schedule.push(node, self.chains[node]);
        Ok(())
    }

    fn reuse(&mut self, node: usize, record: Arc<Record>) {
        self.counts.reused += 1;
        let stage = self.table.graph.nodes[node].stage;
        self.reused.entry(stage).or_default().push((self.table.id(node), record.key));
        self.table.status[node] = Status::Done(record);
        self.released(node);
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

    /// Gives a sign of life, and looks whether the run is asked to stop.
    fn beat(&mut self) {
        self.journal.beat();
        let step = journal::wished(self.store.root(), self.journal.run());
        if step >= 1 {
            self.options.stop.cancel();
        }
        if step >= 2 {
            self.options.kill.cancel();
        }
    }

    /// Whether a paid node has an answer that was made from another recipe and
    /// is not to be bought again: it is accepted for this one, or the node is held.
    fn is_answered(&mut self, node: usize, fresh: &Record, keyed: &Keyed) -> Result<bool, EngineError> {
        let allowed = self.options.respend.contains(&node)
            || self.table.pipeline.paid.respend == Respend::WithinBudget;
        let accept = self.options.accept.contains(&node);
        let Some(old) = self.store.paid_of_cell(&fresh.pipeline, &fresh.node)?.filter(|_| accept || !allowed)
        else {
            return Ok(false);
        };
        if accept {
            let record = Record {
                parts: old.parts.clone(),
                used: old.used.clone(),
                machine: old.machine.clone(),
                started: old.started,
                ended: self.options.clock.now_ms(),
                blessed: Some(self.options.why.clone()),
                usd: old.usd.clone(),
                ..fresh.clone()
            };
            let recipe = keyed.canonical.clone().into_bytes();
            let batch = vec![Publication { record, recipe, parts: Vec::new(), ledger: None }];
            let published = self.store.publish(batch)?.pop().filter(|p| p.accepted);
            self.store.release(&fresh.key);
            if let Some(published) = published {
                let message = format!("`{}`: an earlier answer is accepted: {}", fresh.node, self.options.why);
                self.tell(Event::Note { message });
                self.arrive(node, Arc::new(published.record));
            }
            return Ok(true);
        }
        let before: Value = serde_json::from_slice(&self.store.get(&old.recipe)?).unwrap_or_default();
        let fields: Vec<String> = differences(&before, &keyed.recipe).into_iter().map(|r| r.field).collect();
        let (id, usd) = (&fresh.node, old.usd.as_deref().unwrap_or("?"));
        let why = format!(
            "it has an answer that cost {usd} USD, made from another recipe ({} differ); \
             buy it again with `--respend '{id}'`, or keep the old one with `--accept '{id}' --why TEXT`",
            fields.join(", ")
        );
        self.tell(Event::Held { node: id.clone(), why });
        self.undone(node);
        Ok(true)
    }

    /// Leaves a node to the run that works on it.
    fn send_abroad(&mut self, node: usize, keyed: Keyed) {
        let id = self.table.id(node);
        self.tell(Event::Abroad { node: id });
        let (key, since) = (keyed.key, Stopwatch::start());
        self.abroad.nodes.push(Foreign { node, key, keyed: Some(keyed), since });
    }

    /// Leaves a node that was begun here to somebody else.
    fn again_abroad(&mut self, node: usize) {
        let Some(key) = self.table.keys[node] else { return };
        self.store.release(&key);
        self.table.status[node] = Status::Due;
        self.abroad.nodes.push(Foreign { node, key, keyed: None, since: Stopwatch::start() });
    }

    /// Takes what other runs have finished, and goes on with what they gave up.
    fn look_abroad(&mut self) -> Result<(), EngineError> {
        let version = self.store.version()?;
        let changed = version != self.abroad.seen;
        self.abroad.seen = version;
        for foreign in std::mem::take(&mut self.abroad.nodes) {
            if changed && let Some(record) = self.store.hit(&foreign.key)? {
                self.arrive(foreign.node, Arc::new(record));
                continue;
            }
            let free = self.store.try_lease(&foreign.key, self.journal.run())?;
            if free {
                self.store.release(&foreign.key);
            } else if !self.may_take_over(&foreign)? {
                self.abroad.nodes.push(foreign);
                continue;
            } else {
                self.store.fence_off(&foreign.key, self.journal.run())?;
            }
            let keyed = match foreign.keyed {
                Some(keyed) => keyed,
                None => match self.table.keyed(foreign.node, &self.world) {
                    Ok(keyed) => keyed,
                    Err(_) => continue,
                },
            };
            // No version is older than any: it is looked up again before it starts.
            self.keyed.insert(foreign.node, (keyed, i64::MIN));
            self.schedule.push(foreign.node, self.chains[foreign.node]);
        }
        Ok(())
    }

    /// Whether a node may be taken from a run that gives no sign of life: never a paid one.
    fn may_take_over(&mut self, foreign: &Foreign) -> Result<bool, StoreError> {
        let stage = self.table.graph.nodes[foreign.node].stage;
        let free = self.table.pipeline.stages[stage].effect != Effect::Paid;
        Ok(free
            && foreign.since.elapsed() > self.abroad.takeover
            && self.abroad.is_silent(&self.store, &foreign.key, self.journal.run())?)
    }

    /// A node has got the record of another run.
    fn arrive(&mut self, node: usize, record: Arc<Record>) {
        self.in_flight.remove(&record.key);
        for twin in self.waiting_for.remove(&node).unwrap_or_default() {
            self.reuse(twin, Arc::clone(&record));
        }
        self.reuse(node, record);
    }

    /// Counts a node as ended for those that need it.
    fn released(&mut self, node: usize) {
        for at in 0..self.table.graph.nodes[node].dependents.len() {
            let below = self.table.graph.nodes[node].dependents[at] as usize;
            self.pending[below] -= 1;
            if self.pending[below] == 0 {
                self.ready.push(below);
            }
        }
    }

    fn flush_reused(&mut self) {
        for (stage, nodes) in std::mem::take(&mut self.reused) {
            let stage = self.table.pipeline.stages[stage].name.clone();
            self.tell(Event::Reused { stage, nodes });
        }
    }

    fn start_nodes(&mut self) -> Result<(), EngineError> {
        while !self.halted {
            let pipeline = Arc::clone(&self.table.pipeline);
            let nodes = &self.table.graph.nodes;
            let Some(node) = self.schedule.next(|n| Wants::of(&pipeline.stages[nodes[n].stage])) else {
                break;
            };
            self.flush_reused();
            if !self.start(node)? {
                let stage = self.table.graph.nodes[node].stage;
                self.schedule.free(Wants::of(&pipeline.stages[stage]));
            }
        }
        Ok(())
    }

    /// Starts a node that has a slot; false when it needs none after all.
    fn start(&mut self, node: usize) -> Result<bool, EngineError> {
        let Some((keyed, version)) = self.keyed.remove(&node) else { return Ok(false) };
        if !self.store.try_lease(&keyed.key, self.journal.run())? {
            self.send_abroad(node, keyed);
            return Ok(false);
        }
        // Another run may have been faster since the node was looked up.
        if version != self.store.version()?
            && !self.options.again.contains(&node)
            && let Some(record) = self.store.hit(&keyed.key)?
        {
            self.store.release(&keyed.key);
            self.arrive(node, Arc::new(record));
            return Ok(false);
        }
        let stage_index = self.table.graph.nodes[node].stage;
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
            blessed: None,
            usd: None,
        };
        if stage.effect == Effect::Paid && self.is_answered(node, &record, &keyed)? {
            return Ok(false);
        }
        let purse = (stage.effect == Effect::Paid).then(|| Purse {
            most: stage.most_micros(),
            caps: Caps { pipeline: pipeline.budget, run: self.options.most },
            unknown: pipeline.paid.unknown.command,
        });
        // Servers and what is paid for have folders of their own.
        let shares = stage.effect == Effect::Pure || matches!(stage.work, Work::Command(_));
        let task = Task {
            node,
            id,
            record,
            canonical: keyed.canonical,
            effect: stage.effect,
            retry: stage.retry.clone(),
            purse,
            store: Arc::clone(&self.store),
            shares: shares.then_some(stage_index),
            slots: Arc::clone(&self.slots),
            host: self.options.host.clone(),
            cancel: self.options.kill.clone(),
            clock: self.options.clock,
        };
        let arm = self.table.arm(&cell);
        let needs = self.table.inputs(node);
        let (store, corpora) = (Arc::clone(&self.store), Arc::clone(&self.corpora));
        let (exe, cancel, recipe) = (self.options.exe.clone(), self.options.kill.clone(), keyed.recipe);
        let (make_pipeline, supervisors) = (Arc::clone(&self.table.pipeline), Arc::clone(&self.supervisors));
        let make = move |scratch: PathBuf, slot: Option<Arc<Lent>>, marker: String| Job {
            pipeline: Arc::clone(&make_pipeline),
            stage: stage_index,
            cell: cell.clone(),
            arm,
            needs: needs.clone(),
            store: Arc::clone(&store),
            corpora: Arc::clone(&corpora),
            scratch,
            exe: exe.clone(),
            supervisors: Arc::clone(&supervisors),
            marker,
            slot,
            cancel: cancel.clone(),
            recipe: recipe.clone(),
        };
        tokio::spawn(executor::execute(task, make, self.send.clone()));
        Ok(true)
    }

    /// Tells of those that have ended without a result.
    fn fail_ended(&mut self) -> Result<(), EngineError> {
        let (done, stopped): (Vec<Ended>, Vec<Ended>) =
            std::mem::take(&mut self.ended).into_iter().partition(|ended| ended.result.is_ok());
        self.ended = done;
        for ended in stopped {
            let Err(stop) = ended.result else { continue };
            let key = self.table.keys[ended.node];
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
    fn publish(&mut self) {
        if self.ended.is_empty() || self.publishing.is_some() {
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
            if published.is_err() {
                kept.iter_mut().flatten().for_each(Place::keep);
            }
            drop(kept);
            published
        });
        self.publishing = Some(Publishing { task, nodes });
    }

    fn finish_all(&mut self, published: Vec<Published>) -> Result<(), EngineError> {
        let nodes = self.publishing.take().map(|p| p.nodes).unwrap_or_default();
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

    fn finish(&mut self, node: usize, wall_ms: u64, published: Published) -> Result<(), EngineError> {
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
            self.store.hit(&record.key)?.unwrap_or(record)
        };
        let record = Arc::new(record);
        self.in_flight.remove(&record.key);
        self.table.status[node] = Status::Done(Arc::clone(&record));
        self.twins(node, &record, digest);
        self.released(node);
        Ok(())
    }

    /// Gives the nodes that waited for another one of their key its record.
    fn twins(&mut self, node: usize, record: &Arc<Record>, digest: Digest) {
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
    fn differs(&mut self, node: usize, second: &Record) -> Result<(), StoreError> {
        let pure = self.table.pipeline.stages[self.table.graph.nodes[node].stage].effect
            == Effect::Pure;
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
        if let Some(key) = self.table.keys[node] {
            self.in_flight.remove(&key);
            self.store.release(&key);
        }
        self.table.status[node] = Status::Open;
    }

    fn fail(&mut self, node: usize, key: Option<Digest>, failure: &Failure) -> Result<(), EngineError> {
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
async fn published(publishing: &mut Option<Publishing>) -> Result<Vec<Published>, EngineError> {
    match publishing {
        None => std::future::pending().await,
        Some(publishing) => {
            let published = (&mut publishing.task).await;
            Ok(published.map_err(|e| EngineError::Internal(e.to_string()))??)
        }
    }
}
