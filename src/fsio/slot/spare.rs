//! Files that commands are done with, to be used again for the next inputs of any slot.
//!
//! A file system that passes over lately deleted inodes is spared the deleting
//! until the end of the run: what one stage wrote becomes what another reads.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{FsError, LARGEST_KEPT, PLAIN, at, kept};
use crate::fsio;

/// Most bytes on the disk that lie about unused.
const MOST: u64 = 64 << 20;
/// Most files that lie about unused.
const MANY: usize = 16_384;
/// Unit of [`MetadataExt::blocks`], in bytes.
const BLOCK: u64 = 512;
/// Kind of the folder; no hex digits, so no stage's.
const KIND: &str = "spare";

#[derive(Debug)]
pub(super) struct Spares {
    root: PathBuf,
    pool: Mutex<Pool>,
}

#[derive(Debug, Default)]
struct Pool {
    /// The folder and its lock, made when it is first needed.
    folder: Option<(PathBuf, File)>,
    /// Names of the files in it, with their bytes on the disk.
    files: Vec<(u32, u64)>,
    bytes: u64,
    /// Number of the next file.
    next: u32,
}

impl Spares {
    pub(super) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), pool: Mutex::default() }
    }

    /// Keeps a plain file for the next one to be written, or removes it.
    pub(super) fn put_away(&self, path: &Path) -> Result<(), FsError> {
        let meta = match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            meta => at(meta, "can't look at", path)?,
        };
        let plain = meta.is_file()
            && meta.nlink() == 1
            && meta.len() <= LARGEST_KEPT
            && meta.permissions().mode() & 0o7777 == PLAIN;
        if plain && self.keep(path, meta.blocks() * BLOCK) {
            return Ok(());
        }
        fsio::remove_file(path)
    }

    fn keep(&self, path: &Path, bytes: u64) -> bool {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        if pool.files.len() >= MANY || pool.bytes + bytes > MOST {
            return false;
        }
        if pool.folder.is_none() {
            // Without a folder nothing is kept.
            pool.folder = kept::folder(&self.root, KIND, |_| None, |path, lock| Ok((path, lock))).ok();
        }
        let number = pool.next;
        let Some((folder, _)) = &pool.folder else { return false };
        if fsio::rename(path, &folder.join(number.to_string())).is_err() {
            return false;
        }
        pool.next = pool.next.wrapping_add(1);
        pool.bytes += bytes;
        pool.files.push((number, bytes));
        true
    }

    /// Puts a kept file at a path, when there is one; it is yet to be written.
    pub(super) fn give(&self, target: &Path) {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((number, bytes)) = pool.files.pop() else { return };
        pool.bytes -= bytes;
        // Without it a new file is made.
        if let Some((folder, _)) = &pool.folder {
            let _ = fsio::rename(&folder.join(number.to_string()), target);
        }
    }
}

impl Drop for Spares {
    fn drop(&mut self) {
        let pool = self.pool.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((folder, _)) = &pool.folder {
            // What commands wrote is nobody's business later; what can't be removed is swept.
            let _ = fsio::remove_dir(folder);
        }
    }
}
