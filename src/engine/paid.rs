//! Buying: what the ledger says before a paid node may be started.
//!
//! A node is bought when no attempt at it is open. An attempt that was begun
//! and has no end is first looked for: it may still run under its supervisor,
//! it may have ended and only wait for somebody to take its result, or nobody
//! can tell. Only the last is a question for a policy or for the user.

use std::fs::File;
use std::path::{Path, PathBuf};

use crate::clock::Clock;
use crate::digest::Digest;
use crate::fsio;
use crate::manifest::pipeline::Unknown;
use crate::process::{EXIT_FILE, End, LOCK_FILE};
use crate::store::ledger::{Caps, Entry, Spend};
use crate::store::{Store, StoreError};

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
    Adopt(Entry),
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
            Spend::Adopt => return Ok(Way::Adopt(entry)),
            Spend::Started | Spend::Unknown => {
                if is_looked_after(&folder) {
                    return Ok(Way::Later);
                }
                match end_of(&folder) {
                    Some(end) if end.never => close(store, &entry, Spend::Void, clock)?,
                    Some(end) if end.code == Some(0) && !end.timed_out => return Ok(Way::Adopt(entry)),
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

/// How an attempt ended, as its supervisor wrote it down.
pub(super) fn end_of(folder: &Path) -> Option<End> {
    let bytes = fsio::read_limited(&folder.join(EXIT_FILE), 1 << 20).ok()?;
    serde_json::from_slice(&bytes).ok()
}
