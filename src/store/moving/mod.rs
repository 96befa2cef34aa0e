//! Moving results between stores: archives, and remotes in folders or buckets.
//!
//! Both have one layout of small files, and no database:
//!
//! ```text
//! format                        one line: the layout's version
//! objects/ab/cdef...            an object as a frame, zstd or plain, that says its own digest
//! records/KEY/RECORD.json       a record, named by its digest
//! records/KEY/RECORD.json.sig   who vouches for it: see [`super::sign`]
//! ```
//!
//! An archive is a plain tar of that, in order of names, so objects come
//! before the records that need them. What arrives is hostile until checked:
//! names, sizes and digests first, and a record only when all its objects are
//! here. Nothing of it runs, and no path in it is ever opened.

mod archive;
mod arriving;
mod leaving;
mod names;
mod pull;
mod push;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;

pub use leaving::Leaving;

use super::StoreError;
use super::sign::PublicKey;
use super::standing::Envelope;
use crate::fsio::FsError;
use crate::remote::RemoteError;

/// Requests to a remote at once.
const AT_ONCE: usize = 8;
/// Refusals that are told one by one.
const TOLD: usize = 200;

/// What is taken from outside at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one object, unpacked.
    pub object: u64,
    /// Bytes of all objects, unpacked.
    pub total: u64,
    /// Files in an archive or a remote.
    pub files: u64,
    /// Bytes of one record.
    pub record: u64,
    /// Bytes of all records of an archive.
    pub records: u64,
    /// Bytes of the listing of a folder.
    pub listing: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            object: 1 << 30,
            total: 64 << 30,
            files: 2_000_000,
            record: 1 << 20,
            records: 512 << 20,
            listing: 64 << 20,
        }
    }
}

/// What keeps results from being moved at all.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// Our own store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A file of ours.
    #[error("{}", .0.explain())]
    Fs(#[from] FsError),
    /// The remote.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// An archive or remote that is not as it must be.
    #[error("{what} is refused: {why}")]
    Refused {
        /// The archive or remote.
        what: String,
        /// Why.
        why: String,
    },
}

/// Something that was not taken, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// File of the archive or remote.
    pub what: String,
    /// Why.
    pub why: String,
}

/// Records that are here now and no hits, by their signer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Stranger {
    /// Public key; none for records that nobody signed.
    pub signer: Option<String>,
    /// Records.
    pub records: u64,
}

/// What was moved.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Moved {
    /// Objects that are new where they went.
    pub objects: u64,
    /// Records that are new where they went.
    pub records: u64,
    /// Bytes of new objects and records, as they are stored.
    pub bytes: u64,
    /// Objects and records that were there already.
    pub skipped: u64,
    /// What was not taken; the first 200 of them.
    pub refused: Vec<Refusal>,
    /// How many were not taken.
    pub refusals: u64,
    /// Of the new records, those that are no hits because nobody that is trusted signed them.
    pub untrusted: Vec<Stranger>,
    /// Remarks for people.
    pub notes: Vec<String>,
}

impl Moved {
    /// Notes something that was not taken.
    pub fn refuse(&mut self, what: impl ToString, why: impl ToString) {
        self.refusals += 1;
        if self.refused.len() < TOLD {
            self.refused.push(Refusal { what: what.to_string(), why: why.to_string() });
        }
    }

    fn strangers(&mut self, count: &BTreeMap<Option<PublicKey>, u64>) {
        self.untrusted = count
            .iter()
            .map(|(signer, records)| Stranger {
                signer: signer.map(|key| key.to_string()),
                records: *records,
            })
            .collect();
    }
}

/// How far a move is: files done and files to do.
pub type Progress<'a> = &'a (dyn Fn(u64, u64) + Sync);

/// A record from elsewhere as a frame keeps it.
pub(super) fn envelope(body: &[u8], signature: Option<String>, arrived: i64) -> Vec<u8> {
    let record = String::from_utf8_lossy(body).into_owned();
    serde_json::to_vec(&Envelope { record, signature, arrived }).unwrap_or_default()
}

/// Does `work` for every item on a few threads; results in the order of the items.
fn each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let one = || {
            let mut mine = Vec::new();
            while let Some((at, item)) = {
                let at = next.fetch_add(1, Ordering::Relaxed);
                items.get(at).map(|item| (at, item))
            } {
                mine.push((at, work(item)));
            }
            mine
        };
        let workers: Vec<_> = (0..AT_ONCE.min(items.len())).map(|_| scope.spawn(one)).collect();
        let ends = workers.into_iter().map(|w| w.join().unwrap_or_else(|e| std::panic::resume_unwind(e)));
        ends.flatten().collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}
