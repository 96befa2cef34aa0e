//! Runs one node: attempts, retries, scratch folders.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use crate::event::Event;
use crate::fsio::Scratch;
use crate::manifest::pipeline::{Backoff, Cause, Effect, Retry};
use crate::process;
use crate::stage::{self, Artifact, Failure, Job};
use crate::store::{Publication, Record};

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
    pub(super) result: Result<Publication, Failure>,
    /// Held until what is in it has been published.
    pub(super) scratch: Option<Scratch>,
}

/// What a node is, apart from its inputs.
pub(super) struct Task {
    pub(super) node: usize,
    pub(super) id: String,
    pub(super) record: Record,
    pub(super) canonical: String,
    pub(super) effect: Effect,
    pub(super) retry: Option<Retry>,
    /// Told to stop at once.
    pub(super) cancel: CancellationToken,
    pub(super) clock: crate::clock::Clock,
}

/// Runs a node to its end and reports it.
pub(super) async fn execute(
    task: Task,
    make: impl Fn(std::path::PathBuf, String) -> Job,
    tmp: std::path::PathBuf,
    messages: UnboundedSender<Message>,
) {
    let attempts = task.retry.as_ref().map_or(1, |retry| retry.attempts.max(1));
    let mut attempt = 1;
    loop {
        let _ = messages.send(Message::Event(Event::Started {
            node: task.id.clone(),
            key: task.record.key,
            attempt,
        }));
        let started = task.clock.now_ms();
        let watch = crate::clock::Stopwatch::start();
        let (result, scratch) = once(&task, &make, &tmp, attempt).await;
        let wall_ms = watch.elapsed().as_millis().try_into().unwrap_or(u64::MAX);
        match result {
            Ok(artifact) => {
                let publication = publication(&task, artifact, attempt, started);
                let ended = Ended { node: task.node, wall_ms, result: Ok(publication), scratch };
                let _ = messages.send(Message::Ended(Box::new(ended)));
                return;
            }
            Err(failure) => {
                let again = attempt < attempts
                    && !failure.is_cancelled()
                    && task.retry.as_ref().is_some_and(|r| r.on.is_empty() || r.on.contains(&failure.cause));
                if !again {
                    let ended = Ended { node: task.node, wall_ms, result: Err(failure), scratch };
                    let _ = messages.send(Message::Ended(Box::new(ended)));
                    return;
                }
                let wait = pause(task.retry.as_ref().map(|r| r.backoff).unwrap_or_default(), attempt);
                let _ = messages.send(Message::Event(Event::Retry {
                    node: task.id.clone(),
                    cause: failure.cause,
                    message: failure.message,
                    wait_ms: wait.as_millis().try_into().unwrap_or(u64::MAX),
                }));
                tokio::select! {
                    () = tokio::time::sleep(wait) => attempt += 1,
                    () = task.cancel.cancelled() => {
                        let result = Err(Failure::cancelled());
                        let ended = Ended { node: task.node, wall_ms, result, scratch };
                        let _ = messages.send(Message::Ended(Box::new(ended)));
                        return;
                    }
                }
            }
        }
    }
}

async fn once(
    task: &Task,
    make: &impl Fn(std::path::PathBuf, String) -> Job,
    tmp: &std::path::Path,
    attempt: u32,
) -> (Result<Artifact, Failure>, Option<Scratch>) {
    let scratch = match Scratch::new_in(tmp) {
        Ok(scratch) => scratch,
        Err(error) => {
            let failure = Failure { cause: Cause::Spawn, message: error.explain(), log: Vec::new() };
            return (Err(failure), None);
        }
    };
    let marker = super::orphans::marker(&task.record.run, &task.record.key.short(), attempt);
    let job = make(scratch.path().to_owned(), marker.clone());
    let result = stage::run(Arc::new(job)).await;
    // Whatever a stage left running must not be there when the next one is measured.
    let swept = tokio::task::spawn_blocking(move || process::sweep(&marker)).await;
    drop(swept);
    (result, Some(scratch))
}

fn publication(task: &Task, artifact: Artifact, attempt: u32, started: i64) -> Publication {
    let mut record = task.record.clone();
    record.outcome = artifact.outcome;
    record.used = artifact.used;
    record.unconfined = artifact.unconfined;
    record.attempt = attempt;
    record.started = started;
    record.ended = task.clock.now_ms();
    record.machine = (task.effect == Effect::Measured).then(process::machine);
    Publication { record, recipe: task.canonical.clone().into_bytes(), parts: artifact.parts }
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
