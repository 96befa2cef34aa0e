//! Working folders that are used again and again, also by later runs.
//!
//! Making and removing folders and files is what a small command costs most:
//! file systems pass over inodes that were deleted a moment ago one by one, so
//! the more is deleted the slower everything new is made. A slot keeps its
//! folders, files that are done with become the next ones of any slot
//! ([`spare`]), and an input that is still what it was stays where it lies
//! ([`laid`]). What a slot was left with is written down at the end of a run
//! ([`kept`]).

mod kept;
mod laid;
mod spare;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{FsError, at, create_dir, remove_dir};
use crate::digest::Digest;
pub use kept::sweep;
use laid::{Laid, Stamp};
use spare::Spares;

/// Files larger than this are not used again, in bytes.
const LARGEST_KEPT: u64 = 1 << 20;
/// Permissions of a file that nobody has changed.
const PLAIN: u32 = 0o644;

/// The slots of a run, by kind of work.
#[derive(Debug)]
pub struct Slots {
    root: PathBuf,
    free: Mutex<Vec<(String, Slot)>>,
    spares: Spares,
}

#[derive(Debug)]
struct Slot {
    path: PathBuf,
    /// Held locked as long as the slot is in use, free or not.
    _lock: File,
    /// Inputs that lie in `work`, by their path there.
    laid: BTreeMap<String, Laid>,
    /// Folders below `work` that are there.
    folders: BTreeSet<String>,
    /// Times of change of home and of the folder for temporary files when they were empty.
    empty: [Option<(i64, i64)>; 2],
}

/// A slot in use; given back when it goes out of scope.
#[derive(Debug)]
pub struct Lent {
    slot: Mutex<Option<Slot>>,
    path: PathBuf,
    kind: String,
    retired: AtomicBool,
    home: Arc<Slots>,
}

/// The folders of a slot: where a command works, its home, its temporary files.
pub const WORK: &str = "work";
/// Its home.
pub const HOME: &str = "home";
/// Its temporary files.
pub const TMP: &str = "tmp";

/// What is to lie at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Digest of its bytes.
    pub digest: Digest,
    /// Whether it can be executed.
    pub executable: bool,
}

impl Slots {
    /// Slots in folders of `root`.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), free: Mutex::default(), spares: Spares::new(root) }
    }

    /// A slot for a kind of work, a plain name. Below its folders nothing lies but
    /// inputs of earlier work of that kind, until [`Lent::begin`].
    ///
    /// # Errors
    /// When its folders can't be made.
    pub fn take(self: &Arc<Self>, kind: &str) -> Result<Lent, FsError> {
        let free = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            let at = free.iter().rposition(|(of, _)| of == kind);
            at.map(|at| free.swap_remove(at).1)
        };
        let slot = match free {
            Some(slot) => slot,
            None => kept::open(&self.root, kind, &self.spares)?,
        };
        Ok(Lent {
            path: slot.path.clone(),
            slot: Mutex::new(Some(slot)),
            kind: kind.to_owned(),
            retired: AtomicBool::new(false),
            home: Arc::clone(self),
        })
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        for (_, slot) in self.free.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            kept::close(slot);
        }
    }
}

impl Lent {
    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Somebody may still have a hand in it: it is removed, not used again.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Relaxed);
    }

    /// Makes room for new work: what lies there and isn't wanted goes, and so do folders
    /// that are neither above a wanted file nor in `folders`.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn begin(&self, wanted: &BTreeMap<String, Want>, folders: &BTreeSet<String>) -> Result<(), FsError> {
        self.with(|slot| slot.begin(wanted, folders, &self.home.spares))
    }

    /// Lays a file below the working folder; its bytes are asked for only when it doesn't
    /// lie there yet.
    ///
    /// # Errors
    /// When the system refuses, and those of `bytes`.
    pub fn lay<E: From<FsError>>(
        &self,
        path: &str,
        want: Want,
        bytes: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<(), E> {
        let lies = self.with(|slot| Ok(slot.laid.get(path).is_some_and(|laid| laid.want == want)))?;
        if !lies {
            let bytes = bytes()?;
            self.with(|slot| slot.lay(path, want, &bytes, &self.home.spares))?;
        }
        Ok(())
    }

    fn with<T: Default>(&self, work: impl FnOnce(&mut Slot) -> Result<T, FsError>) -> Result<T, FsError> {
        let mut guard = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        guard.as_mut().map_or_else(|| Ok(T::default()), work)
    }
}

/// Time of a folder's last change, in seconds and nanoseconds.
fn changed(folder: &Path) -> Option<(i64, i64)> {
    fs::metadata(folder).ok().map(|meta| (meta.ctime(), meta.ctime_nsec()))
}

/// The folders above a path, the nearest first.
fn above(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(parent(path), |path| parent(path))
}

fn parent(path: &str) -> Option<&str> {
    path.rsplit_once('/').map(|(folder, _)| folder)
}

impl Drop for Lent {
    fn drop(&mut self) {
        let slot = self.slot.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut slot) = slot else { return };
        let clean = !self.retired.load(Ordering::Relaxed) && slot.clear(&self.home.spares).is_ok();
        if clean {
            let mut free = self.home.free.lock().unwrap_or_else(PoisonError::into_inner);
            free.push((std::mem::take(&mut self.kind), slot));
        } else {
            // What can't be removed is swept by the next run.
            let _ = remove_dir(&slot.path);
        }
    }
}

impl Slot {
    fn begin(
        &mut self,
        wanted: &BTreeMap<String, Want>,
        folders: &BTreeSet<String>,
        spares: &Spares,
    ) -> Result<(), FsError> {
        let gone: Vec<String> = self
            .laid
            .iter()
            .filter(|(path, laid)| wanted.get(*path) != Some(&laid.want))
            .map(|(path, _)| path.clone())
            .collect();
        for path in gone {
            self.laid.remove(&path);
            spares.put_away(&self.path.join(WORK).join(path))?;
        }
        let mut needed: BTreeSet<&str> = wanted.keys().flat_map(|path| above(path)).collect();
        needed.extend(folders.iter().flat_map(|path| above(path).chain([path.as_str()])));
        let stale: Vec<String> =
            self.folders.iter().filter(|folder| !needed.contains(folder.as_str())).cloned().collect();
        // The deepest first: in order, a folder stands before what is in it.
        for folder in stale.into_iter().rev() {
            let full = self.path.join(WORK).join(&folder);
            at(fs::remove_dir(&full), "can't remove", &full)?;
            self.folders.remove(&folder);
        }
        Ok(())
    }

    fn lay(&mut self, path: &str, want: Want, bytes: &[u8], spares: &Spares) -> Result<(), FsError> {
        let target = self.path.join(WORK).join(path);
        if let Some(folder) = parent(path).filter(|folder| !self.folders.contains(*folder)) {
            create_dir(&self.path.join(WORK).join(folder))?;
            self.folders.extend([folder].into_iter().chain(above(folder)).map(str::to_owned));
        }
        spares.give(&target);
        let file = File::options().write(true).create(true).truncate(true).open(&target);
        let write = |mut file: File| -> io::Result<fs::Metadata> {
            file.write_all(bytes)?;
            if want.executable {
                file.set_permissions(fs::Permissions::from_mode(PLAIN | 0o111))?;
            }
            file.metadata()
        };
        let meta = at(file.and_then(write), "can't write", &target)?;
        if meta.len() <= LARGEST_KEPT {
            self.laid.insert(path.to_owned(), Laid { want, stamp: Stamp::of(&meta) });
        }
        Ok(())
    }

    /// Takes out all that isn't an input as it was laid; the folders of the working folder stay.
    fn clear(&mut self, spares: &Spares) -> Result<(), FsError> {
        self.folders.clear();
        let work = self.path.join(WORK);
        let before = laid::Before::new(std::mem::take(&mut self.laid));
        let mut pending = vec![String::new()];
        while let Some(relative) = pending.pop() {
            let folder = work.join(&relative);
            for entry in at(fs::read_dir(&folder), "can't list", &folder)? {
                let entry = at(entry, "can't list", &folder)?;
                let is_dir = at(entry.file_type(), "can't look at", &folder)?.is_dir();
                let Some(name) = entry.file_name().to_str().map(str::to_owned) else {
                    // No input has such a name.
                    if is_dir {
                        remove_dir(&entry.path())?;
                    } else {
                        super::remove_file(&entry.path())?;
                    }
                    continue;
                };
                let inner = if relative.is_empty() { name } else { format!("{relative}/{name}") };
                if is_dir {
                    self.folders.insert(inner.clone());
                    pending.push(inner);
                } else if let Some(laid) = before.still(&inner, &entry.path()) {
                    self.laid.insert(inner, laid);
                } else {
                    spares.put_away(&entry.path())?;
                }
            }
        }
        for (at_index, folder) in [HOME, TMP].into_iter().enumerate() {
            let folder = self.path.join(folder);
            // Nobody has put anything in since it was seen empty.
            if self.empty[at_index].is_some() && self.empty[at_index] == changed(&folder) {
                continue;
            }
            for entry in at(fs::read_dir(&folder), "can't list", &folder)? {
                let entry = at(entry, "can't list", &folder)?;
                if at(entry.file_type(), "can't look at", &folder)?.is_dir() {
                    remove_dir(&entry.path())?;
                } else {
                    spares.put_away(&entry.path())?;
                }
            }
            // The clock of folders is coarse: a change within one tick would not be seen. The working
            // folder was changed just now, so it tells the time.
            let (now, then) = (changed(&work), changed(&folder));
            self.empty[at_index] = then.filter(|then| now.is_some_and(|now| then.0 + 1 < now.0));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
