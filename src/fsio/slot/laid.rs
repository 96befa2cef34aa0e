//! Inputs that lie in a slot, and whether they are still what was laid.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::Want;
use crate::digest::Digest;

/// Longest tick of a file system's clock, in nanoseconds: two changes within
/// one may carry the same time.
const TICK: i128 = 20_000_000;

/// A file that was laid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Laid {
    pub(super) want: Want,
    pub(super) stamp: Stamp,
}

/// What tells that nobody has touched a file since.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Stamp {
    inode: u64,
    size: u64,
    mode: u32,
    links: u64,
    /// Last changes of content and of anything, in nanoseconds.
    modified: i128,
    changed: i128,
}

impl Stamp {
    pub(super) fn of(meta: &Metadata) -> Self {
        let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        Self {
            inode: meta.ino(),
            size: meta.len(),
            mode: meta.mode(),
            links: meta.nlink(),
            modified: nanos(meta.mtime(), meta.mtime_nsec()),
            changed: nanos(meta.ctime(), meta.ctime_nsec()),
        }
    }

    /// Bytes of the file.
    pub(super) fn size(&self) -> u64 {
        self.size
    }
}

/// What lay there before a command ran.
pub(super) struct Before {
    laid: BTreeMap<String, Laid>,
    /// The last change when all had been laid.
    newest: i128,
}

impl Before {
    pub(super) fn new(laid: BTreeMap<String, Laid>) -> Self {
        let newest = laid.values().map(|laid| laid.stamp.changed).max().unwrap_or_default();
        Self { laid, newest }
    }

    /// The file as it was laid, when it is still that.
    pub(super) fn still(&self, path: &str, full: &Path) -> Option<Laid> {
        let laid = self.laid.get(path)?;
        if Stamp::of(&fs::symlink_metadata(full).ok()?) != laid.stamp {
            return None;
        }
        // Whatever came after the last file was laid came a tick after this one, so it would show.
        // What was laid last has to be read.
        let shows = laid.stamp.changed + TICK < self.newest;
        (shows || Digest::of(&super::super::read(full).ok()?) == laid.want.digest).then_some(*laid)
    }
}
