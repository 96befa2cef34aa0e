//! Locks on single bytes of one file: any number of leases by one handle.
//!
//! They are open-file-description locks: the kernel gives them up when their
//! owner ends, however it ends, and they hold between containers and process
//! namespaces that share the file, where process ids mean nothing.

use std::fs::File;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, fcntl};
use nix::libc;

use super::{FsError, at};

/// A file whose bytes can be locked.
#[derive(Debug)]
pub struct ByteLocks {
    file: File,
    path: PathBuf,
}

impl ByteLocks {
    /// Opens the file, making it when it isn't there; it stays empty.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn open(path: &Path) -> Result<Self, FsError> {
        let file = File::options().read(true).write(true).create(true).truncate(false).open(path);
        Ok(Self { file: at(file, "can't open", path)?, path: path.to_owned() })
    }

    /// Locks the byte at `offset`; false when somebody else has it.
    ///
    /// # Errors
    /// When the file system has no such locks.
    pub fn try_lock(&self, offset: u64) -> Result<bool, FsError> {
        match self.set(offset, libc::F_WRLCK) {
            Ok(()) => Ok(true),
            Err(Errno::EAGAIN | Errno::EACCES) => Ok(false),
            Err(error) => at(Err(error.into()), "can't lock a part of", &self.path),
        }
    }

    /// Gives the byte at `offset` up.
    pub fn unlock(&self, offset: u64) {
        // What isn't locked can be unlocked, and nothing else can go wrong.
        let _ = self.set(offset, libc::F_UNLCK);
    }

    fn set(&self, offset: u64, kind: libc::c_int) -> Result<(), Errno> {
        let lock = libc::flock {
            l_type: libc::c_short::try_from(kind).unwrap_or_default(),
            l_whence: libc::c_short::try_from(libc::SEEK_SET).unwrap_or_default(),
            l_start: libc::off_t::try_from(offset & (i64::MAX as u64 >> 1)).unwrap_or_default(),
            l_len: 1,
            // Must be 0 for locks of this kind.
            l_pid: 0,
        };
        fcntl(&self.file, FcntlArg::F_OFD_SETLK(&lock)).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_has_one_owner_and_is_free_when_the_owner_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks");
        let (one, two) = (ByteLocks::open(&path).unwrap(), ByteLocks::open(&path).unwrap());
        assert!(one.try_lock(7).unwrap() && one.try_lock(u64::MAX).unwrap());
        assert!(!two.try_lock(7).unwrap() && two.try_lock(8).unwrap());
        assert!(!two.try_lock(u64::MAX).unwrap());
        one.unlock(7);
        assert!(two.try_lock(7).unwrap() && !one.try_lock(7).unwrap());
        drop(one);
        assert!(two.try_lock(u64::MAX).unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);
    }
}
