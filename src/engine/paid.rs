//! Buying: what the ledger says before a paid node may be started.
//!
//! A node is bought when no attempt at it is open. An attempt that was begun
//! and has no end is first looked for: it may still run under its supervisor,
//! it may have ended and only wait for somebody to take its result, or nobody
//! can tell. Only the last is a question for a policy or for the user.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;

use super::EngineError;
use super::run::Dispatcher;
use crate::clock::Clock;
use crate::digest::Digest;
use crate::event::Event;
use crate::fsio;
use crate::manifest::pipeline::{Respend, Unknown};
use crate::plan::key::{Keyed, differences};
use crate::process::{EXIT_FILE, End, LOCK_FILE};
use crate::store::ledger::{Caps, Entry, Spend};
use crate::store::{Publication, Record, Store, StoreError};

/// What buying a node takes.
#[derive(Clone, Debug)]
pub(super) struct Purse {
    /// Largest cost of one attempt, in millionths of a dollar.
    pub(super) most: u64,
    /// What may be spent in all.
    pub(super) caps: Caps,
    /// What to do about an attempt of which nobody can tell.
    pub(super) unknown: Unknown,
}

/// How to come by the artifact of a paid node.
#[derive(Debug)]
pub(super) enum Way {
    /// By a new attempt of this number, which no earlier one of the run has.
    Buy(u32),
    /// By taking the result of an attempt that has ended.
    Adopt(Box<Entry>),
    /// Later: an attempt still runs, without its engine.
    Later,
    /// Not now; why, and what can be done.
    Held(String),
}

/// Finds the way for a key whose lease is ours, and writes down what was
/// found out about attempts without an end.
///
/// # Errors
/// When the store fails.
pub(super) fn way(
    store: &Store,
    key: &Digest,
    run: &str,
    purse: &Purse,
    clock: Clock,
) -> Result<Way, StoreError> {
    let mut next = 1;
    for entry in store.spent_on(key)?.into_iter().rev() {
        if entry.run == run {
            next = next.max(entry.attempt + 1);
        }
        let folder = folder(store, &entry);
        match entry.state {
            Spend::Settled | Spend::Void | Spend::Respend => {}
            Spend::Skip => return Ok(Way::Held("it was left out by hand (`proofline settle`)".to_owned())),
            // The money was set aside, and the engine ended before anything was started.
            Spend::Reserved => close(store, &entry, Spend::Void, clock)?,
            Spend::Adopt => return Ok(Way::Adopt(Box::new(entry))),
            Spend::Started | Spend::Unknown => {
                if is_looked_after(&folder) {
                    return Ok(Way::Later);
                }
                match end_of(&folder) {
                    None if was_never_started(&folder)? => close(store, &entry, Spend::Void, clock)?,
                    Some(end) if end.never => close(store, &entry, Spend::Void, clock)?,
                    Some(end) if end.code == Some(0) && !end.timed_out => {
                        return Ok(Way::Adopt(Box::new(entry)));
                    }
                    // It failed on its own: spent, and nothing to be had from it.
                    Some(_) => close(store, &entry, Spend::Settled, clock)?,
                    None => {
                        if entry.state == Spend::Started {
                            enter(store, &entry.then(Spend::Unknown, clock.now_ms()))?;
                        }
                        if purse.unknown == Unknown::Wait {
                            return Ok(Way::Held(format!(
                                "attempt {} of run {} was lost and may have cost {} USD; \
                                 decide with `proofline settle '{}' respend|skip`",
                                entry.attempt, entry.run, entry.usd, entry.node
                            )));
                        }
                        let mut again = entry.then(Spend::Respend, clock.now_ms());
                        again.why = Some("[paid] unknown = \"respend\"".to_owned());
                        enter(store, &again)?;
                    }
                }
            }
        }
    }
    Ok(Way::Buy(next))
}

fn enter(store: &Store, entry: &Entry) -> Result<(), StoreError> {
    store.enter(std::slice::from_ref(entry), Caps::default())
}

/// Writes down the end of an attempt, whose folder is needed no more.
fn close(store: &Store, entry: &Entry, state: Spend, clock: Clock) -> Result<(), StoreError> {
    enter(store, &entry.then(state, clock.now_ms()))?;
    Ok(fsio::remove_dir(&folder(store, entry))?)
}

/// The folder of an attempt.
pub(super) fn folder(store: &Store, entry: &Entry) -> PathBuf {
    store.attempts_dir().join(&entry.folder)
}

/// Whether a supervisor still looks after an attempt.
fn is_looked_after(folder: &Path) -> bool {
    // Without the file it was never started, or its folder is gone.
    File::open(folder.join(LOCK_FILE)).is_ok_and(|file| file.try_lock_shared().is_err())
}

/// Whether nothing was ever started for an attempt, and never will be: its
/// supervisor locks a file in the folder before anything else, and can't once
/// the folder has another name.
fn was_never_started(folder: &Path) -> Result<bool, StoreError> {
    if !folder.is_dir() || folder.join(LOCK_FILE).exists() {
        return Ok(false);
    }
    let aside = folder.with_extension("void");
    fsio::rename(folder, &aside)?;
    // It may have come in between.
    let started = aside.join(LOCK_FILE).exists();
    if started {
        fsio::rename(&aside, folder)?;
    } else {
        fsio::remove_dir(&aside)?;
    }
    Ok(!started)
}

/// Whether nobody can tell any more how an attempt ended, or will: no
/// supervisor looks after it, and none has written down its end.
#[must_use]
pub fn is_lost(store: &Store, entry: &Entry) -> bool {
    let folder = folder(store, entry);
    !is_looked_after(&folder) && end_of(&folder).is_none()
}

/// How an attempt ended, as its supervisor wrote it down.
pub(super) fn end_of(folder: &Path) -> Option<End> {
    let bytes = fsio::read_limited(&folder.join(EXIT_FILE), 1 << 20).ok()?;
    serde_json::from_slice(&bytes).ok()
}

impl Dispatcher<'_> {
    /// Whether a paid node has an answer that was made from another recipe and
    /// is not to be bought again: it is accepted for this one, or the node is held.
    pub(super) fn is_answered(
        &mut self,
        node: usize,
        fresh: &Record,
        keyed: &Keyed,
    ) -> Result<bool, EngineError> {
        let allowed =
            self.options.respend.contains(&node) || self.table.pipeline.paid.respend == Respend::WithinBudget;
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
                let message =
                    format!("`{}`: an earlier answer is accepted: {}", fresh.node, self.options.why);
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
}
