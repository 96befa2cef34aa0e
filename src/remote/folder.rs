//! A folder as a remote: another disk, a mounted share.
//!
//! Others may write there. So no link is followed below the folder, and only
//! plain files are opened: a pipe would never answer.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::{Remote, RemoteError};
use crate::fsio::{self, FsError, Readers};

/// Folders inside one another or side by side that are looked into at most.
const FOLDERS: usize = 2_000_000;

/// A folder as a remote.
pub struct Folder {
    address: String,
    root: PathBuf,
}

impl Folder {
    /// The remote in the folder at `address`; it is made by the first writing.
    #[must_use]
    pub fn new(address: &str) -> Self {
        Self { address: address.to_owned(), root: PathBuf::from(address) }
    }

    fn failed(&self, name: &str, why: impl ToString) -> RemoteError {
        RemoteError::Request { what: format!("`{name}` in {}", self.address), why: why.to_string() }
    }

    fn fs<T>(&self, name: &str, result: Result<T, FsError>) -> Result<T, RemoteError> {
        result.map_err(|e| self.failed(name, e.source))
    }

    /// The path of a file when there is one that may be opened. Everything on the way to it is
    /// a folder of its own.
    fn plain(&self, name: &str) -> Result<Option<PathBuf>, RemoteError> {
        let mut path = self.root.clone();
        let parts: Vec<&str> = name.split('/').collect();
        for (at, part) in parts.iter().enumerate() {
            path.push(part);
            let meta = match fs::symlink_metadata(&path) {
                Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                    return Ok(None);
                }
                other => other.map_err(|e| self.failed(name, e))?,
            };
            let last = at + 1 == parts.len();
            if meta.file_type().is_symlink() || (last && !meta.is_file() && !meta.is_dir()) {
                return Err(self.failed(name, "it is a link, a pipe or a device"));
            }
            if last && meta.is_dir() {
                return Ok(None);
            }
        }
        Ok(Some(path))
    }
}

impl Remote for Folder {
    fn address(&self) -> &str {
        &self.address
    }

    fn list(&self, folder: &str, most: usize) -> Result<Vec<String>, RemoteError> {
        let (mut out, mut open) = (Vec::new(), vec![folder.to_owned()]);
        while let Some(here) = open.pop() {
            let entries = match fs::read_dir(self.root.join(&here)) {
                Err(e) if e.kind() == ErrorKind::NotFound => continue,
                other => other.map_err(|e| self.failed(&here, e))?,
            };
            for entry in entries {
                let entry = entry.map_err(|e| self.failed(&here, e))?;
                let Ok(name) = entry.file_name().into_string() else { continue };
                let kind = entry.file_type().map_err(|e| self.failed(&here, e))?;
                // What a killed writer has left begins with a dot.
                let own = kind.is_file() && !name.starts_with('.');
                let full = if here.is_empty() { name } else { format!("{here}/{name}") };
                if kind.is_dir() {
                    open.push(full);
                } else if own {
                    out.push(full);
                }
                if out.len() >= most {
                    return Ok(out);
                }
                if open.len() > FOLDERS {
                    return Err(self.failed(folder, "it holds too many folders"));
                }
            }
        }
        out.sort();
        Ok(out)
    }

    fn get(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, RemoteError> {
        let Some(path) = self.plain(name)? else { return Ok(None) };
        self.fs(name, fsio::read_limited(&path, limit)).map(Some)
    }

    fn has(&self, name: &str) -> Result<bool, RemoteError> {
        Ok(self.plain(name)?.is_some())
    }

    fn create(&self, name: &str, bytes: Vec<u8>) -> Result<bool, RemoteError> {
        let path = self.root.join(name);
        let folders = Path::new(name).ancestors().skip(1);
        for folder in folders.filter(|folder| !folder.as_os_str().is_empty()) {
            if fs::symlink_metadata(self.root.join(folder)).is_ok_and(|meta| !meta.is_dir()) {
                return Err(self.failed(name, format!("`{}` is no folder", folder.display())));
            }
        }
        self.fs(name, fsio::write_new(&path, &bytes, Readers::Others))
    }

    fn remove(&self, name: &str) -> Result<(), RemoteError> {
        // Its folder stays: another writer may be about to use it.
        self.fs(name, fsio::remove_file(&self.root.join(name)))
    }
}
