//! `push`: results into a remote.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use super::names::{FORMAT, Name};
use super::{Leaving, MoveError, Moved, Progress, each};
use crate::digest::Digest;
use crate::remote::{self, Remote, RemoteError};
use crate::store::{Store, StoreError};

/// Failed files after which a remote is given up.
const PATIENCE: u64 = 24;

/// What became of one file.
enum Sent {
    New(u64),
    There,
    Failed(String),
}

impl Store {
    /// Writes records and all that they need into a remote: objects first,
    /// then each record's signature, then the record. What is there already is
    /// not written again, so a broken push goes on where it ended.
    ///
    /// # Errors
    /// When the remote can't be written at all, or is none of ours.
    pub fn push(
        &self,
        leaving: &[Leaving],
        remote: &dyn Remote,
        progress: Progress<'_>,
    ) -> Result<Moved, MoveError> {
        let mut moved = Moved::default();
        claim(remote)?;
        if !remote::is_exclusive(remote)? {
            moved.notes.push(format!(
                "{} lets two writers of one file both win; that is harmless, as files are named by what is in them",
                remote.address()
            ));
        }
        let failures = AtomicU64::new(0);
        let there = each(leaving, |one| {
            counted(&failures, remote.has(&Name::Record(one.record.key, one.digest).to_string()))
        });
        let mut due = Vec::new();
        for (one, there) in leaving.iter().zip(there) {
            match there {
                Ok(true) => moved.skipped += 1,
                Ok(false) => due.push(one),
                Err(why) => moved.refuse(Name::Record(one.record.key, one.digest), why),
            }
        }
        let mut needed: BTreeMap<Digest, BTreeSet<Digest>> = BTreeMap::new();
        let mut lost: BTreeMap<Digest, String> = BTreeMap::new();
        for one in &due {
            match self.needed(&one.record) {
                Ok(objects) => {
                    needed.insert(one.digest, objects);
                }
                Err(error) => {
                    lost.insert(one.digest, error.to_string());
                }
            }
        }
        let objects: Vec<Digest> =
            needed.values().flatten().copied().collect::<BTreeSet<_>>().into_iter().collect();
        let (done, total) = (AtomicU64::new(0), (objects.len() + due.len()) as u64);
        let step = || progress(done.fetch_add(1, Ordering::Relaxed) + 1, total);
        let sent = each(&objects, |digest| {
            let sent = send(remote, Name::Object(*digest), &failures, || self.frame(digest));
            step();
            sent
        });
        let mut absent: BTreeMap<Digest, String> = BTreeMap::new();
        for (digest, sent) in objects.iter().zip(sent) {
            match sent {
                Sent::New(bytes) => {
                    moved.objects += 1;
                    moved.bytes += bytes;
                }
                Sent::There => moved.skipped += 1,
                Sent::Failed(why) => {
                    moved.refuse(Name::Object(*digest), &why);
                    absent.insert(*digest, why);
                }
            }
        }
        let records = each(&due, |one| {
            let name = Name::Record(one.record.key, one.digest);
            let whole =
                needed.get(&one.digest).is_some_and(|all| !all.iter().any(|o| absent.contains_key(o)));
            let sent = if let Some(why) = lost.get(&one.digest) {
                Sent::Failed(why.clone())
            } else if !whole {
                Sent::Failed("not all of its objects could be written".to_owned())
            } else {
                let signed = one.signature.as_ref().map(|text| {
                    let name = Name::Signature(one.record.key, one.digest);
                    send(remote, name, &failures, || Ok(text.as_bytes().to_vec()))
                });
                match signed {
                    Some(Sent::Failed(why)) => Sent::Failed(format!("its signature: {why}")),
                    _ => send(remote, name, &failures, || Ok(one.body.clone())),
                }
            };
            step();
            (name, sent)
        });
        for (name, sent) in records {
            match sent {
                Sent::New(bytes) => {
                    moved.records += 1;
                    moved.bytes += bytes;
                }
                Sent::There => moved.skipped += 1,
                Sent::Failed(why) => moved.refuse(name, why),
            }
        }
        Ok(moved)
    }
}

/// Writes one file, unless it is there.
fn send(
    remote: &dyn Remote,
    name: Name,
    failures: &AtomicU64,
    content: impl Fn() -> Result<Vec<u8>, StoreError>,
) -> Sent {
    if is_given_up(failures) {
        return Sent::Failed("not written any more: too many requests have failed".to_owned());
    }
    let text = name.to_string();
    match counted(failures, remote.has(&text)) {
        Ok(true) => return Sent::There,
        Ok(false) => {}
        Err(why) => return Sent::Failed(why),
    }
    let bytes = match content() {
        Ok(bytes) => bytes,
        Err(error) => return Sent::Failed(error.to_string()),
    };
    let size = bytes.len() as u64;
    match counted(failures, remote.create(&text, bytes)) {
        Ok(true) => Sent::New(size),
        // Another writer was faster; that it has not failed since is seen by asking.
        Ok(false) => match counted(failures, remote.has(&text)) {
            Ok(true) => Sent::There,
            Ok(false) => Sent::Failed("another writer began it and did not end; push again".to_owned()),
            Err(why) => Sent::Failed(why),
        },
        Err(why) => Sent::Failed(why),
    }
}

/// A request's result in words; counts failures, and after many of them makes none any more.
pub(super) fn counted<T>(failures: &AtomicU64, result: Result<T, RemoteError>) -> Result<T, String> {
    result.map_err(|error| {
        failures.fetch_add(1, Ordering::Relaxed);
        error.to_string()
    })
}

/// Whether so many requests have failed that the rest would, too.
pub(super) fn is_given_up(failures: &AtomicU64) -> bool {
    failures.load(Ordering::Relaxed) >= PATIENCE
}

/// Marks an unused remote as one of ours, or checks that it is.
fn claim(remote: &dyn Remote) -> Result<(), MoveError> {
    let name = Name::Format.to_string();
    if remote.get(&name, 1024)?.is_none() {
        // A folder of something else must not become a remote by a slip of the pen.
        let foreign = remote.list("", 1)?;
        // Another first push may have begun meanwhile.
        if !foreign.is_empty() && remote.get(&name, 1024)?.is_none() {
            return Err(MoveError::Refused {
                what: remote.address().to_owned(),
                why: format!("it holds other files (`{}`) and no results; name a new folder", foreign[0]),
            });
        }
        remote.create(&name, FORMAT.to_vec())?;
    }
    expect(remote)
}

/// Checks that a remote is one of ours.
pub(super) fn expect(remote: &dyn Remote) -> Result<(), MoveError> {
    let refused = |why: String| MoveError::Refused { what: remote.address().to_owned(), why };
    match remote.get(&Name::Format.to_string(), 1024)? {
        None => Err(refused("nothing was pushed there yet: it has no file `format`".to_owned())),
        Some(found) if found == FORMAT => Ok(()),
        Some(found) if found.starts_with(b"proofline store") => {
            Err(refused("it is a store, not a remote; push from it, or export and import".to_owned()))
        }
        Some(found) => Err(refused(format!(
            "its format is `{}`, this program reads `{}`",
            String::from_utf8_lossy(&found).trim().escape_debug(),
            String::from_utf8_lossy(FORMAT).trim()
        ))),
    }
}
