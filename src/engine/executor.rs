//! Runs one node: attempts, retries, scratch folders; of a paid one what the
//! ledger must say before and after.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use super::paid::{self, Purse, Way};
use crate::event::Event;
use crate::fsio::slot::{Lent, Slots};
use crate::fsio::{self, FsError, Scratch};
use crate::manifest::pipeline::{Backoff, Cause, Effect, Retry};
use crate::process::{self, End};
use crate::stage::{self, Artifact, Failure, Job};
use crate::store::ledger::{Caps, Entry, Spend, dollars};
use crate::store::{Publication, Record, Store, StoreError};

/// What an executor tells the dispatcher.
pub(super) enum Message {
    /// For the journal and the screen.
    Event(Event),
    /// The node has ended.
    Ended(Box<Ended>),
}

/// The end of a node.
pub(super) struct Ended {
    pub(super) node: usize,
    pub(super) wall_ms: u64,
    pub(super) result: Result<Publication, Stop>,
    /// Held until what is in it has been published.
    pub(super) place: Option<Place>,
}

/// Where an attempt works.
pub(super) enum Place {
    /// A folder of its own.
    Own(Scratch),
    /// One that is used again.
    Slot(Arc<Lent>),
}

impl Place {
    fn path(&self) -> &Path {
        match self {
            Self::Own(scratch) => scratch.path(),
            Self::Slot(slot) => slot.path(),
        }
    }

    /// What is in it is needed no more. Until then the folder of a paid attempt stays, also
    /// when the engine ends in the middle.
    pub(super) fn release(&mut self) {
        if let Self::Own(scratch) = self {
            scratch.release();
        }
    }
}

/// Why a node has nothing to publish.
pub(super) enum Stop {
    /// It failed.
    Failed(Failure),
    /// It may not be bought now; why, and what can be done.
    Held(String),
    /// Somebody else works on it.
    Later,
}

/// What a node is, apart from its inputs.
pub(super) struct Task {
    pub(super) node: usize,
    pub(super) id: String,
    pub(super) record: Record,
    pub(super) canonical: String,
    pub(super) effect: Effect,
    pub(super) retry: Option<Retry>,
    /// What buying it takes; none for what is free.
    pub(super) purse: Option<Purse>,
    pub(super) store: Arc<Store>,
    /// Kind of work for which folders are used again; none where each attempt has its own.
    pub(super) shares: Option<String>,
    pub(super) slots: Arc<Slots>,
    pub(super) host: String,
    /// Told to stop at once.
    pub(super) cancel: CancellationToken,
    pub(super) clock: crate::clock::Clock,
}

/// Runs a node to its end and reports it.
pub(super) async fn execute(task: Task, make: impl Make, messages: UnboundedSender<Message>) {
    let watch = crate::clock::Stopwatch::start();
    let (result, place) = to_the_end(&task, &make, &messages).await;
    let wall_ms = watch.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
    let _ = messages.send(Message::Ended(Box::new(Ended { node: task.node, wall_ms, result, place })));
}

type Made = (Result<Publication, Stop>, Option<Place>);

/// Makes the job of an attempt: where it works, the slot if it is one, its marker.
pub(super) trait Make: Fn(PathBuf, Option<Arc<Lent>>, String) -> Job {}

impl<F: Fn(PathBuf, Option<Arc<Lent>>, String) -> Job> Make for F {}

async fn to_the_end(task: &Task, make: &impl Make, messages: &UnboundedSender<Message>) -> Made {
    let mut first = 1;
    if let Some(purse) = &task.purse {
        match way(task, purse).await {
            Err(error) => return (Err(Stop::Failed(Failure::from(error))), None),
            Ok(Way::Later) => return (Err(Stop::Later), None),
            Ok(Way::Held(why)) => return (Err(Stop::Held(why)), None),
            Ok(Way::Buy(next)) => first = next,
            Ok(Way::Adopt(entry)) => match adopt(task, make, &entry).await {
                Ok(made) => return made,
                Err(failure) => {
                    // It is paid for, and there is nothing to be had from it.
                    let message = format!("attempt {} of run {}: {failure}", entry.attempt, entry.run);
                    let _ = messages.send(Message::Event(Event::Note { message }));
                    let spent = entry.then(Spend::Settled, task.clock.now_ms());
                    if let Err(error) = enter(task, vec![spent], Caps::default()).await {
                        return (Err(Stop::Failed(Failure::from(error))), None);
                    }
                    // What can't be removed is of no use to anybody.
                    let _ = fsio::remove_dir(&paid::folder(&task.store, &entry));
                }
            },
        }
    }
    attempts(task, make, messages, first).await
}

async fn way(task: &Task, purse: &Purse) -> Result<Way, StoreError> {
    let (purse, clock) = (purse.clone(), task.clock);
    let (key, run) = (task.record.key, task.record.run.clone());
    on_ledger(task, move |store| paid::way(store, &key, &run, &purse, clock)).await
}

/// Reads or writes the ledger beside the tasks: each entry waits for a sync.
async fn on_ledger<T: Send + 'static>(
    task: &Task,
    work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let store = Arc::clone(&task.store);
    tokio::task::spawn_blocking(move || work(&store))
        .await
        .unwrap_or_else(|e| Err(StoreError::Unreadable { what: "the ledger".to_owned(), why: e.to_string() }))
}

/// The attempts that the stage allows, with pauses between them.
async fn attempts(task: &Task, make: &impl Make, messages: &UnboundedSender<Message>, first: u32) -> Made {
    let most = first + task.retry.as_ref().map_or(1, |retry| retry.attempts.max(1)) - 1;
    let mut attempt = first;
    loop {
        let entry = match reserve(task, attempt).await {
            Ok(entry) => entry,
            Err(stop) => return (Err(stop), None),
        };
        let mut place = match place(task, entry.as_ref(), attempt) {
            Ok(place) => place,
            Err(error) => {
                let failure = Failure { cause: Cause::Spawn, message: error.explain(), log: Vec::new() };
                return (Err(Stop::Failed(failure)), None);
            }
        };
        let folder = place.path().file_name().map(|name| name.to_string_lossy().into_owned());
        let _ = messages.send(Message::Event(Event::Started {
            node: task.id.clone(),
            key: task.record.key,
            attempt,
            folder: folder.unwrap_or_default(),
        }));
        let started = task.clock.now_ms();
        let result = once(task, make, &place, attempt).await;
        let failure = match result {
            Ok(artifact) => {
                let settled = entry.map(|entry| settled(&entry, artifact.micros, task.clock.now_ms()));
                return (Ok(publication(task, artifact, attempt, started, settled)), Some(place));
            }
            Err(failure) => failure,
        };
        if let Some(entry) = entry {
            let state = match failure.spent() {
                stage::Spent::Nothing => Some(Spend::Void),
                stage::Spent::Something => Some(Spend::Settled),
                // Its end is told by whoever finds the folder.
                stage::Spent::Unknown => None,
            };
            if let Some(state) = state {
                let end = entry.then(state, task.clock.now_ms());
                if let Err(error) = enter(task, vec![end], Caps::default()).await {
                    return (Err(Stop::Failed(Failure::from(error))), Some(place));
                }
                place.release();
            }
        }
        let again = attempt < most
            && !failure.is_cancelled()
            && !matches!(failure.spent(), stage::Spent::Unknown)
            && task.retry.as_ref().is_some_and(|r| r.on.is_empty() || r.on.contains(&failure.cause));
        if !again {
            return (Err(Stop::Failed(failure)), Some(place));
        }
        let wait = pause(task.retry.as_ref().map(|r| r.backoff).unwrap_or_default(), attempt + 1 - first);
        let _ = messages.send(Message::Event(Event::Retry {
            node: task.id.clone(),
            cause: failure.cause,
            message: failure.message,
            wait_ms: wait.as_millis().try_into().unwrap_or(u64::MAX),
        }));
        tokio::select! {
            () = tokio::time::sleep(wait) => attempt += 1,
            () = task.cancel.cancelled() => return (Err(Stop::Failed(Failure::cancelled())), Some(place)),
        }
    }
}

/// The folder of an attempt.
fn place(task: &Task, entry: Option<&Entry>, attempt: u32) -> Result<Place, FsError> {
    Ok(match (entry, &task.shares) {
        (Some(entry), _) => Place::Own(Scratch::kept_at(paid::folder(&task.store, entry))?),
        (None, Some(kind)) => Place::Slot(Arc::new(task.slots.take(kind)?)),
        (None, None) => Place::Own(Scratch::at(task.store.tmp().join(mark(task, attempt)))?),
    })
}

/// Marks the processes of an attempt.
fn mark(task: &Task, attempt: u32) -> String {
    super::orphans::marker(&task.record.run, &task.record.key.short(), attempt)
}

async fn once(task: &Task, make: &impl Make, place: &Place, attempt: u32) -> Result<Artifact, Failure> {
    let marker = mark(task, attempt);
    let slot = match place {
        Place::Own(_) => None,
        Place::Slot(slot) => Some(Arc::clone(slot)),
    };
    let job = make(place.path().to_owned(), slot, marker.clone());
    let sweeps = job.leaves_processes();
    let result = stage::run(Arc::new(job)).await;
    if sweeps {
        // Whatever a stage left running must not be there when the next one is measured.
        let swept = tokio::task::spawn_blocking(move || process::sweep(&marker)).await;
        drop(swept);
    }
    result
}

/// Takes the artifact of an attempt that ended without its engine.
async fn adopt(task: &Task, make: &impl Make, entry: &Entry) -> Result<Made, Failure> {
    let scratch = Scratch::kept_at(paid::folder(&task.store, entry))?;
    // What is taken by a decision may lack its end; its outputs must be whole all the same.
    let end = paid::end_of(scratch.path()).unwrap_or_else(|| End { code: Some(0), ..End::default() });
    let job = make(scratch.path().to_owned(), None, String::new());
    let artifact = stage::adopt(Arc::new(job), end).await?;
    let settled = settled(entry, artifact.micros, task.clock.now_ms());
    Ok((Ok(publication(task, artifact, entry.attempt, entry.at, Some(settled))), Some(Place::Own(scratch))))
}

/// Sets aside what a paid attempt may cost and writes down that it begins.
async fn reserve(task: &Task, attempt: u32) -> Result<Option<Entry>, Stop> {
    let Some(purse) = &task.purse else { return Ok(None) };
    let record = &task.record;
    let reserved = Entry {
        format: 1,
        key: record.key,
        pipeline: record.pipeline.clone(),
        node: record.node.clone(),
        run: record.run.clone(),
        attempt,
        state: Spend::Reserved,
        usd: dollars(purse.most),
        at: task.clock.now_ms(),
        host: task.host.clone(),
        group: Some(std::process::id()),
        folder: super::orphans::marker(&record.run, &record.key.short(), attempt),
        why: None,
    };
    let started = reserved.then(Spend::Started, reserved.at);
    // The folder is there before anything is announced: one without a lock proves that nothing was started.
    fsio::create_dir(&paid::folder(&task.store, &started)).map_err(|e| Stop::Failed(Failure::from(e)))?;
    match enter(task, vec![reserved, started.clone()], purse.caps).await {
        Ok(()) => Ok(Some(started)),
        Err(StoreError::Fenced(_)) => Err(Stop::Later),
        Err(StoreError::Budget(_)) => Err(Stop::Held(format!(
            "it may cost {} USD, more than the budget leaves; raise `[budget] usd` or --max-usd",
            dollars(purse.most)
        ))),
        Err(error) => Err(Stop::Failed(Failure::from(error))),
    }
}

fn settled(entry: &Entry, micros: Option<u64>, at: i64) -> Entry {
    let mut settled = entry.then(Spend::Settled, at);
    if let Some(micros) = micros {
        settled.usd = dollars(micros);
    }
    settled
}

async fn enter(task: &Task, entries: Vec<Entry>, caps: Caps) -> Result<(), StoreError> {
    on_ledger(task, move |store| store.enter(&entries, caps)).await
}

fn publication(
    task: &Task,
    artifact: Artifact,
    attempt: u32,
    started: i64,
    ledger: Option<Entry>,
) -> Publication {
    let mut record = task.record.clone();
    record.outcome = artifact.outcome;
    record.used = artifact.used;
    record.unconfined = artifact.unconfined;
    record.attempt = attempt;
    record.started = started;
    record.ended = task.clock.now_ms();
    record.machine = (task.effect == Effect::Measured).then(process::machine);
    record.usd = ledger.as_ref().map(|entry| entry.usd.clone());
    Publication { record, recipe: task.canonical.clone().into_bytes(), parts: artifact.parts, ledger }
}

fn pause(backoff: Backoff, attempt: u32) -> Duration {
    match backoff {
        Backoff::None => Duration::ZERO,
        Backoff::Fixed => Duration::from_secs(1),
        Backoff::Exponential => {
            Duration::from_secs(1u64 << attempt.saturating_sub(1).min(6)).min(Duration::from_mins(1))
        }
    }
}
