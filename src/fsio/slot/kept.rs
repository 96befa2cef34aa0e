//! Slots between runs: what one was left with, and who has it.
//!
//! A slot lies in a folder `slot-KIND-N`. Whoever uses it holds a lock on its
//! file `lock`. `laid.json` is there only while nobody uses it: a slot without
//! a lock and without that file was left in the middle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::laid::{Laid, Stamp};
use super::spare::Spares;
use super::{FsError, HOME, Slot, TMP, WORK, Want, at, create_dir, remove_dir};
use crate::digest::Digest;

/// Fewest inputs for which a slot is worth keeping.
const FEWEST: usize = 32;
/// Most bytes of inputs that a slot may keep.
const MOST_BYTES: u64 = 16 << 20;
/// Most slots that are kept; the longest unused goes first.
const MOST_SLOTS: usize = 32;
/// Largest list of inputs, in bytes.
const MOST_LIST: u64 = 64 << 20;
const PREFIX: &str = "slot-";
const LOCK: &str = "lock";
const LIST: &str = "laid.json";

/// `laid.json`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    format: u32,
    files: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    path: String,
    digest: Digest,
    executable: bool,
    stamp: Stamp,
}

/// A slot that an earlier run has left, or a new one.
pub(super) fn open(root: &Path, kind: &str, spares: &Spares) -> Result<Slot, FsError> {
    let make = |path: PathBuf, lock| {
        for folder in [WORK, HOME, TMP] {
            create_dir(&path.join(folder))?;
        }
        Ok(slot(path, lock, BTreeMap::new()))
    };
    folder(root, kind, |path| adopt(path, spares), make)
}

/// A folder beside the others that this run alone has: one that is there and can be adopted, or a new one.
pub(super) fn folder<T>(
    root: &Path,
    kind: &str,
    adopt: impl Fn(&Path) -> Option<T>,
    make: impl Fn(PathBuf, File) -> Result<T, FsError>,
) -> Result<T, FsError> {
    create_dir(root)?;
    let mut number = 0;
    loop {
        let path = root.join(format!("{PREFIX}{kind}-{number}"));
        match fs::create_dir(&path) {
            Ok(()) => {
                if let Some(lock) = lock_new(&path)? {
                    return make(path, lock);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if let Some(adopted) = adopt(&path) {
                    return Ok(adopted);
                }
                number += 1;
            }
            Err(error) => return at(Err(error), "can't make the folder", &path),
        }
    }
}

/// The lock of a folder that was made just now; none when somebody who swept took it for a
/// left one before it was locked.
fn lock_new(path: &Path) -> Result<Option<File>, FsError> {
    let lock = super::super::create_new(&path.join(LOCK))?;
    at(lock.lock(), "can't lock", path)?;
    Ok(path.join(LOCK).exists().then_some(lock))
}

fn slot(path: PathBuf, lock: File, laid: BTreeMap<String, Laid>) -> Slot {
    Slot { path, _lock: lock, laid, folders: BTreeSet::new(), empty: [None; 2] }
}

/// Takes a slot that nobody uses and whose list tells what lies there.
fn adopt(path: &Path, spares: &Spares) -> Option<Slot> {
    let list = path.join(LIST);
    if !list.exists() {
        return None;
    }
    let lock = locked(path)?;
    let bytes = super::super::read_limited(&list, MOST_LIST).ok()?;
    // From here on it is in use, whatever happens.
    super::super::remove_file(&list).ok()?;
    let found: List = serde_json::from_slice(&bytes).ok().filter(|list: &List| list.format == 1)?;
    let laid = found.files.into_iter().map(|entry| {
        let want = Want { digest: entry.digest, executable: entry.executable };
        (entry.path, Laid { want, stamp: entry.stamp })
    });
    let mut slot = slot(path.to_owned(), lock, laid.collect());
    slot.clear(spares).ok()?;
    Some(slot)
}

/// The lock of a slot, when nobody has it.
fn locked(path: &Path) -> Option<File> {
    let lock = File::options().read(true).write(true).open(path.join(LOCK)).ok()?;
    lock.try_lock().is_ok().then_some(lock)
}

/// Writes down what lies in a slot that is used no more, or removes it.
pub(super) fn close(slot: Slot) {
    let bytes: u64 = slot.laid.values().map(|laid| laid.stamp.size()).sum();
    let kept = slot.laid.len() >= FEWEST && bytes <= MOST_BYTES && write_down(&slot).is_ok();
    if !kept {
        // What can't be removed is swept by the next run.
        let _ = remove_dir(&slot.path);
    }
}

fn write_down(slot: &Slot) -> Result<(), FsError> {
    let files = slot.laid.iter().map(|(path, laid)| Entry {
        path: path.clone(),
        digest: laid.want.digest,
        executable: laid.want.executable,
        stamp: laid.stamp,
    });
    let list = List { format: 1, files: files.collect() };
    let path = slot.path.join(LIST);
    let bytes = at(serde_json::to_vec(&list).map_err(io::Error::from), "can't write", &path)?;
    super::super::write_plain(&path, &bytes)?;
    if let Some(root) = slot.path.parent() {
        thin(root);
    }
    Ok(())
}

/// Removes the longest unused slots where there are too many.
fn thin(root: &Path) {
    let mut kept: Vec<(std::time::SystemTime, PathBuf)> = folders(root)
        .filter_map(|path| Some((fs::metadata(path.join(LIST)).ok()?.modified().ok()?, path)))
        .collect();
    kept.sort();
    let many = kept.len().saturating_sub(MOST_SLOTS);
    for (_, path) in kept.into_iter().take(many) {
        remove_free(&path);
    }
}

fn folders(root: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(|n| n.starts_with(PREFIX)))
        .map(|e| e.path())
}

fn remove_free(path: &Path) {
    if let Some(_lock) = locked(path) {
        // What can't be removed now is tried again later.
        let _ = remove_dir(path);
    }
}

/// Removes the slots in folders of `root` that a run has left in the middle.
pub fn sweep(root: &Path) {
    folders(root).filter(|path| !path.join(LIST).exists()).for_each(|path| remove_free(&path));
}
