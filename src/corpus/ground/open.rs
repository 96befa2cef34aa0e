//! Files of a folder, opened without leaving it.

use std::fs::File;
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

use super::super::error::CorpusError;
use crate::fsio;
use crate::fsio::tree;
use crate::grade::citation::Unreadable;

/// A folder that is held open: what takes its place later is not looked at.
pub(super) struct Folder {
    root: OwnedFd,
}

impl Folder {
    pub(super) fn open(root: &Path) -> Result<Self, CorpusError> {
        let missing = || CorpusError::NotThere { path: root.to_owned(), expected: "folder" };
        if !root.is_dir() {
            return Err(missing());
        }
        Ok(Self { root: fsio::at(File::open(root), "can't open", root)?.into() })
    }

    /// Bytes of a regular file. Every component is opened by itself, and none may be a link; a pipe
    /// or device is not waited for and not read.
    pub(super) fn read(&self, path: &str, most: u64) -> Result<Vec<u8>, Unreadable> {
        let failed = |why: &str| Unreadable::Failed(why.to_owned());
        tree::plain(path).map_err(|error| Unreadable::Failed(error.to_string()))?;
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let step = |at: &OwnedFd, name: &str, flags: OFlag| {
            openat(at, name, flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty()).map_err(|error| {
                match error {
                    Errno::ELOOP | Errno::ENOTDIR => failed("a link is on the way"),
                    other => failed(other.desc()),
                }
            })
        };
        let mut around: Option<OwnedFd> = None;
        for folder in folders.split('/').filter(|folder| !folder.is_empty()) {
            around = Some(step(
                around.as_ref().unwrap_or(&self.root),
                folder,
                OFlag::O_RDONLY | OFlag::O_DIRECTORY,
            )?);
        }
        let flags = OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY;
        let mut file = File::from(step(around.as_ref().unwrap_or(&self.root), name, flags)?);
        let meta = file.metadata().map_err(|error| failed(&error.to_string()))?;
        if !meta.is_file() {
            return Err(failed("it is no regular file"));
        }
        if meta.len() > most {
            return Err(Unreadable::TooLarge);
        }
        let mut out = Vec::with_capacity(usize::try_from(meta.len()).unwrap_or(0));
        let read = Read::by_ref(&mut file).take(most + 1).read_to_end(&mut out);
        read.map_err(|error| failed(&error.to_string()))?;
        if out.len() as u64 > most { Err(Unreadable::TooLarge) } else { Ok(out) }
    }
}
