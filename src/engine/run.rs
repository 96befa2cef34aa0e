//! The dispatcher: one task that owns scheduling, the journal and the signals.

mod settle;

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{MissedTickBehavior, interval as every};
use tokio_util::sync::CancellationToken;

use super::EngineError;
use super::abroad::Abroad;
use super::ending::{Publishing, published};
use super::executor::{self, Ended, Message, Task};
use super::paid::Purse;
use super::schedule::{Schedule, Wants};
use super::table::Table;
use super::world::World;
use crate::clock::{Clock, Stopwatch};
use crate::corpus::Corpus;
use crate::digest::Digest;
use crate::event::{Counts, Event, RunState};
use crate::fsio::slot::{Lent, Slots};
use crate::manifest::pipeline::Effect;
use crate::plan::compiled::Work;
use crate::plan::key::Keyed;
use crate::process::Supervisors;
use crate::stage::Job;
use crate::store::journal::JournalWriter;
use crate::store::ledger::Caps;
use crate::store::{Outcome, Publication, Record, Store};

/// Pause between two looks at what other runs have done.
const ABROAD: Duration = Duration::from_millis(50);
/// Nodes that end within this time are published together.
pub(super) const GROUP: Duration = Duration::from_millis(20);
/// So many are published although more may soon end.
pub(super) const MANY_ENDED: usize = 32;
/// No node is started while results of so many bytes wait for their publication.
pub(super) const MOST_HELD: usize = 8 << 20;
/// How long an event may take to be seen by others.
const SOON: Duration = Duration::from_millis(20);
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
    mut table: Table,
    world: World,
    store: Arc<Store>,
    corpora: Arc<BTreeMap<String, Corpus>>,
    journal: &mut JournalWriter,
    options: Options,
    listen: &mut (dyn FnMut(&Event) + Send),
) -> Result<Summary, EngineError> {
    let (send, receive) = unbounded_channel();
    let version = store.version()?;
    table.recall(&world, &store, &options.again)?;
    let open = (0..table.graph.len()).any(|node| table.is_open(node));
    let chains = if open { table.graph.chains() } else { Vec::new() };
    let pools = table.pipeline.pools.iter().map(|(n, p)| (n.clone(), p.clone()));
    let schedule = Schedule::new(options.jobs, pools);
    let supervisors = Arc::new(Supervisors::new(&options.exe));
    let slots = Arc::new(Slots::new(&store.tmp()));
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
        version,
        publishing: None,
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
        ended_since: Stopwatch::start(),
        held: 0,
        halted: false,
    };
    dispatcher.go(receive).await
}

/// The one who schedules: owns the journal, the signals and all that is known of nodes.
pub(super) struct Dispatcher<'a> {
    pub(super) table: Table,
    pub(super) world: World,
    pub(super) store: Arc<Store>,
    pub(super) corpora: Arc<BTreeMap<String, Corpus>>,
    pub(super) journal: &'a mut JournalWriter,
    pub(super) options: Options,
    pub(super) listen: &'a mut (dyn FnMut(&Event) + Send),
    pub(super) send: UnboundedSender<Message>,
    pub(super) supervisors: Arc<Supervisors>,
    pub(super) slots: Arc<Slots>,
    /// Nodes on which other runs work.
    pub(super) abroad: Abroad,
    /// Version of the index before anything was looked up.
    pub(super) version: i64,
    /// What is being published.
    pub(super) publishing: Option<Publishing>,
    pub(super) schedule: Schedule,
    pub(super) chains: Vec<u32>,
    /// Per node: needs that are open and have not ended yet.
    pub(super) pending: Vec<u32>,
    /// Nodes all of whose needs have ended.
    pub(super) ready: Vec<usize>,
    /// Recipes of some nodes in the queue; those of all would take much memory, so the others
    /// are made once more.
    pub(super) keyed: HashMap<usize, Keyed>,
    /// Key of what runs, and the node that runs it.
    pub(super) in_flight: HashMap<Digest, usize>,
    /// Nodes that wait for another node of the same key.
    pub(super) waiting_for: HashMap<usize, Vec<usize>>,
    /// Reused nodes that are not in the journal yet, by stage.
    pub(super) reused: BTreeMap<usize, Vec<usize>>,
    /// What was reused before the first node started is in the journal.
    pub(super) begun: bool,
    pub(super) counts: Counts,
    /// Ended nodes that are not published yet.
    pub(super) ended: Vec<Ended>,
    /// Since when there are some.
    pub(super) ended_since: Stopwatch,
    /// Bytes of results that are not published yet.
    pub(super) held: usize,
    /// Nothing more is taken: a failure without `keep_going`, or a signal.
    pub(super) halted: bool,
}

impl Dispatcher<'_> {
    async fn go(mut self, mut receive: UnboundedReceiver<Message>) -> Result<Summary, EngineError> {
        self.counts.total = self.table.graph.len() as u64;
        if let Some(chosen) = &self.options.chosen {
            self.counts.total = chosen.iter().filter(|c| **c).count() as u64;
        }
        self.begin();
        let (mut stopped, mut killed) = (false, false);
        // Of their own pace, however much happens in between.
        let (mut beats, mut looks) = (interval(BEAT), interval(ABROAD));
        loop {
            self.settle_ready()?;
            // For those who look on; what must be durable is synced with a publication.
            self.journal.write_soon()?;
            // A signal may have come before there was anything to run.
            self.halted |= self.options.stop.is_cancelled();
            self.start_nodes()?;
            self.publish();
            let idle = self.schedule.running() == 0 && self.publishing.is_none() && self.ended.is_empty();
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
                _ = looks.tick(), if !self.abroad.is_empty() => self.look_abroad()?,
                _ = beats.tick() => self.beat(),
                () = tokio::time::sleep(GROUP), if !self.ended.is_empty() && self.publishing.is_none() => {}
                () = tokio::time::sleep(SOON), if self.journal.is_pending() => {}
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
        self.supervisors.close().await;
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

    pub(super) fn tell(&mut self, event: Event) {
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
                if self.ended.is_empty() {
                    self.ended_since = Stopwatch::start();
                }
                self.held += ended.result.as_ref().map_or(0, Publication::held);
                self.ended.push(*ended);
            }
        }
    }

    fn start_nodes(&mut self) -> Result<(), EngineError> {
        while !self.halted && self.held < MOST_HELD {
            let pipeline = Arc::clone(&self.table.pipeline);
            let graph = &self.table.graph;
            let Some(node) = self.schedule.next(|n| Wants::of(&pipeline.stages[graph.stage(n)])) else {
                break;
            };
            let first = !std::mem::replace(&mut self.begun, true);
            self.flush_reused(first)?;
            if !self.start(node)? {
                let stage = self.table.graph.stage(node);
                self.schedule.free(Wants::of(&pipeline.stages[stage]));
            }
        }
        Ok(())
    }

    /// Starts a node that has a slot; false when it needs none after all.
    fn start(&mut self, node: usize) -> Result<bool, EngineError> {
        let keyed = match self.keyed.remove(&node) {
            Some(keyed) => keyed,
            None => match self.table.keyed(node, &self.world) {
                Ok(keyed) => keyed,
                Err(_) => return Ok(false),
            },
        };
        let changed = self.version != self.store.version()?;
        if !self.store.try_lease(&keyed.key, self.journal.run(), changed)? {
            self.send_abroad(node, keyed.key);
            return Ok(false);
        }
        // Another run may have been faster since the node was looked up.
        if changed
            && !self.options.again.contains(&node)
            && let Some(record) = self.store.hit(&keyed.key)?
        {
            self.store.release(&keyed.key);
            self.arrive(node, Arc::new(record));
            return Ok(false);
        }
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
            shares: shares
                .then(|| Digest::of(format!("{}/{}", pipeline.name, stage.name).as_bytes()).short()),
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
}

/// Ticks of a pace; what was missed is not made up for.
fn interval(pace: Duration) -> tokio::time::Interval {
    let mut interval = every(pace);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
