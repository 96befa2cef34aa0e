//! Working folders that are used again and again.
//!
//! Making and removing folders and files is what a small command costs most:
//! file systems pass over inodes that were deleted a moment ago one by one, so
//! the more is deleted the slower everything new is made. A slot keeps its
//! folders, and files that are done with become the next ones.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{FsError, at, create_dir, remove_dir};

/// Most files that a slot keeps.
const MOST_SPARE: usize = 64;
/// Files larger than this are not kept, in bytes.
const LARGEST_SPARE: u64 = 1 << 20;
/// Permissions of a file that nobody has changed.
const PLAIN: u32 = 0o644;

/// All slots of a run, by kind of work.
#[derive(Debug)]
pub struct Slots {
    root: PathBuf,
    name: String,
    count: AtomicUsize,
    free: Mutex<Vec<(usize, Slot)>>,
}

#[derive(Debug)]
struct Slot {
    path: PathBuf,
    spare: Vec<PathBuf>,
    /// Folders below `work` that are there.
    folders: BTreeSet<PathBuf>,
    /// Times of change of home and of the folder for temporary files when they were empty.
    empty: [Option<(i64, i64)>; 2],
}

/// A slot in use; given back when it goes out of scope.
#[derive(Debug)]
pub struct Lent {
    slot: Mutex<Option<Slot>>,
    path: PathBuf,
    kind: usize,
    retired: AtomicBool,
    home: Arc<Slots>,
}

/// The folders of a slot: where a command works, its home, its temporary files.
pub const WORK: &str = "work";
/// Its home.
pub const HOME: &str = "home";
/// Its temporary files.
pub const TMP: &str = "tmp";

impl Slots {
    /// Slots in folders of `root` whose names begin with `name`.
    #[must_use]
    pub fn new(root: &Path, name: &str) -> Self {
        Self {
            root: root.to_owned(),
            name: name.to_owned(),
            count: AtomicUsize::new(0),
            free: Mutex::default(),
        }
    }

    /// A slot for a kind of work: its folders are there and empty.
    ///
    /// # Errors
    /// When they can't be made.
    pub fn take(self: &Arc<Self>, kind: usize) -> Result<Lent, FsError> {
        let free = {
            let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
            let at = free.iter().rposition(|(of, _)| *of == kind);
            at.map(|at| free.swap_remove(at).1)
        };
        let slot = if let Some(slot) = free {
            slot
        } else {
            let number = self.count.fetch_add(1, Ordering::Relaxed);
            let path = self.root.join(format!("{}-slot-{number}", self.name));
            for folder in [WORK, HOME, TMP, "spare"] {
                create_dir(&path.join(folder))?;
            }
            Slot { path, spare: Vec::new(), folders: BTreeSet::new(), empty: [None; 2] }
        };
        let path = slot.path.clone();
        Ok(Lent {
            slot: Mutex::new(Some(slot)),
            path,
            kind,
            retired: AtomicBool::new(false),
            home: Arc::clone(self),
        })
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        for (_, slot) in self.free.get_mut().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // What can't be removed is swept by the next run.
            let _ = remove_dir(&slot.path);
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

    /// Writes a file below the working folder.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn lay(&self, relative: &Path, bytes: &[u8]) -> Result<(), FsError> {
        let target = self.path.join(WORK).join(relative);
        let mut guard = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(slot) = guard.as_mut() else { return Ok(()) };
        let mut folder = relative.parent();
        if folder.is_some_and(|folder| !folder.as_os_str().is_empty() && !slot.folders.contains(folder)) {
            create_dir(target.parent().unwrap_or(&self.path))?;
            while let Some(one) = folder.filter(|one| !one.as_os_str().is_empty()) {
                slot.folders.insert(one.to_owned());
                folder = one.parent();
            }
        }
        if let Some(spare) = slot.spare.pop()
            && super::rename(&spare, &target).is_err()
        {
            slot.spare.push(spare);
        }
        let file = File::options().write(true).create(true).truncate(true).open(&target);
        at(file.and_then(|mut file| file.write_all(bytes)), "can't write", &target)
    }

    /// Removes the folders that earlier work has left and this one doesn't have.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn prune(&self, needed: &BTreeSet<PathBuf>) -> Result<(), FsError> {
        let mut guard = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(slot) = guard.as_mut() else { return Ok(()) };
        let stale: Vec<PathBuf> = slot.folders.difference(needed).cloned().collect();
        // The deepest first: in order, a folder stands before what is in it.
        for folder in stale.into_iter().rev() {
            let full = self.path.join(WORK).join(&folder);
            at(remove_empty(&full), "can't remove", &full)?;
            slot.folders.remove(&folder);
        }
        Ok(())
    }
}

/// Time of a folder's last change, in seconds and nanoseconds.
fn changed(folder: &Path) -> Option<(i64, i64)> {
    fs::metadata(folder).ok().map(|meta| (meta.ctime(), meta.ctime_nsec()))
}

fn remove_empty(path: &Path) -> std::io::Result<()> {
    fs::remove_dir(path)
}

impl Drop for Lent {
    fn drop(&mut self) {
        let slot = self.slot.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut slot) = slot else { return };
        let clean = !self.retired.load(Ordering::Relaxed) && slot.clear().is_ok();
        if clean {
            self.home.free.lock().unwrap_or_else(PoisonError::into_inner).push((self.kind, slot));
        } else {
            // What can't be removed is swept by the next run.
            let _ = remove_dir(&slot.path);
        }
    }
}

impl Slot {
    /// Takes the files out; the folders of the working folder stay.
    fn clear(&mut self) -> Result<(), FsError> {
        self.folders.clear();
        let work = self.path.join(WORK);
        let mut pending = vec![work.clone()];
        while let Some(folder) = pending.pop() {
            for entry in at(fs::read_dir(&folder), "can't list", &folder)? {
                let entry = at(entry, "can't list", &folder)?;
                let (path, kind) = (entry.path(), at(entry.file_type(), "can't look at", &folder)?);
                if kind.is_dir() {
                    if let Ok(relative) = path.strip_prefix(&work) {
                        self.folders.insert(relative.to_owned());
                    }
                    pending.push(path);
                } else {
                    self.put_away(&path)?;
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
                    self.put_away(&entry.path())?;
                }
            }
            // The clock of folders is coarse: a change within one tick would not be seen. The working
            // folder was changed just now, so it tells the time.
            let (now, then) = (changed(&work), changed(&folder));
            self.empty[at_index] = then.filter(|then| now.is_some_and(|now| then.0 + 1 < now.0));
        }
        Ok(())
    }

    /// Keeps a plain file for the next one to be written, or removes it.
    fn put_away(&mut self, path: &Path) -> Result<(), FsError> {
        let meta = at(fs::symlink_metadata(path), "can't look at", path)?;
        let plain = meta.is_file()
            && meta.nlink() == 1
            && meta.len() <= LARGEST_SPARE
            && meta.permissions().mode() & 0o7777 == PLAIN;
        if plain && self.spare.len() < MOST_SPARE {
            let spare = self.path.join("spare").join(self.spare.len().to_string());
            if super::rename(path, &spare).is_ok() {
                self.spare.push(spare);
                return Ok(());
            }
        }
        super::remove_file(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inode(path: &Path) -> u64 {
        fs::metadata(path).unwrap().ino()
    }

    #[test]
    fn files_and_folders_are_used_again_and_nothing_shows_through() {
        let folder = tempfile::tempdir().unwrap();
        let slots = Arc::new(Slots::new(folder.path(), "run"));
        let lent = slots.take(1).unwrap();
        let work = lent.path().join(WORK);
        lent.lay(Path::new("in/a/x=1/out"), b"a long first text").unwrap();
        lent.lay(Path::new("old/file"), b"x").unwrap();
        let first = inode(&work.join("in/a/x=1/out"));
        super::super::write_plain(&lent.path().join("home/.cache/deep/file"), b"x").unwrap();
        drop(lent);
        assert!(!folder.path().join("run-slot-0/home/.cache").exists());

        let other = slots.take(2).unwrap();
        assert_ne!(other.path(), folder.path().join("run-slot-0"));
        let lent = slots.take(1).unwrap();
        assert_eq!(lent.path(), folder.path().join("run-slot-0"));
        lent.lay(Path::new("in/a/x=2/out"), b"short").unwrap();
        lent.lay(Path::new("src/file"), b"y").unwrap();
        let needed = ["in", "in/a", "in/a/x=2", "src"].map(PathBuf::from).into();
        lent.prune(&needed).unwrap();
        assert!(!work.join("in/a/x=1").exists() && !work.join("old").exists());
        assert_eq!(fs::read(work.join("in/a/x=2/out")).unwrap(), b"short");
        let now = [inode(&work.join("in/a/x=2/out")), inode(&work.join("src/file"))];
        assert!(now.contains(&first), "no file was used again");

        lent.retire();
        drop(lent);
        assert!(!folder.path().join("run-slot-0").exists());
        drop(other);
        drop(slots);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn links_and_odd_files_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let slots = Arc::new(Slots::new(folder.path(), "run"));
        let lent = slots.take(0).unwrap();
        let outside = folder.path().join("outside");
        super::super::write_plain(&outside, b"kept").unwrap();
        let work = lent.path().join(WORK);
        std::os::unix::fs::symlink(&outside, work.join("link")).unwrap();
        fs::hard_link(&outside, work.join("hard")).unwrap();
        drop(lent);
        let lent = slots.take(0).unwrap();
        lent.lay(Path::new("link"), b"new").unwrap();
        lent.lay(Path::new("hard"), b"new").unwrap();
        assert_eq!(fs::read(&outside).unwrap(), b"kept");
        assert!(fs::symlink_metadata(work.join("link")).unwrap().is_file());
    }
}
