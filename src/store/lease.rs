//! Leases: who works on a key, so that of several runs one does.
//!
//! On one kernel a lease is a lock on one byte of `leases.lock`, at an offset
//! that the key gives. It is free at once when its owner ends, however it
//! ends, and needs no process ids. An owner that is stopped keeps its lock;
//! whoever takes such a node over writes a *fence* into the index, and from
//! then on nothing that the stopped owner publishes for the key is taken.
//! Fence and publication exclude each other, being transactions of one database.

use rusqlite::{OptionalExtension, params};

use super::index::Index;
use super::journal::Journal;
use super::{Store, StoreError};
use crate::digest::Digest;

impl Store {
    /// Tries to become the one who works on a key in the name of a run. Where
    /// no other process has `changed` the index there is no fence to look for.
    ///
    /// # Errors
    /// When the file system has no locks, or the index fails.
    pub fn try_lease(&self, key: &Digest, run: &str, changed: bool) -> Result<bool, StoreError> {
        if !self.leases.try_lock(offset(key))? {
            // The sleeper keeps its lock; the fence is ours then.
            return Ok(self.index().fence(key)?.as_deref() == Some(run));
        }
        let fence = if changed { self.index().fence(key)? } else { None };
        if let Some(other) = fence
            && other != run
            && Journal::is_live(self.root(), &other) == Some(true)
        {
            self.release(key);
            return Ok(false);
        }
        Ok(true)
    }

    /// Takes a key over from an owner that gives no sign of life: what that
    /// one publishes from now on is not taken.
    ///
    /// # Errors
    /// When the index fails.
    pub fn fence_off(&self, key: &Digest, run: &str) -> Result<(), StoreError> {
        self.index().set_fence(key, run)
    }

    /// Whether a run has lost a key to another one.
    ///
    /// # Errors
    /// When the index fails.
    pub fn is_fenced(&self, key: &Digest, run: &str) -> Result<bool, StoreError> {
        Ok(self.index().fence(key)?.is_some_and(|by| by != run))
    }

    /// Gives a lease up.
    pub fn release(&self, key: &Digest) {
        self.leases.unlock(offset(key));
    }
}

/// Where in the file the lock of a key is. Two keys that fall together would
/// only wait for each other.
fn offset(key: &Digest) -> u64 {
    let mut le = [0u8; 8];
    le.copy_from_slice(&key.bytes()[..8]);
    u64::from_le_bytes(le)
}

impl Index {
    /// The run that has fenced a key off.
    pub(super) fn fence(&self, key: &Digest) -> Result<Option<String>, StoreError> {
        let mut query = self.db.prepare_cached("SELECT run FROM fences WHERE key = ?1")?;
        Ok(query.query_row([key.bytes().as_slice()], |row| row.get(0)).optional()?)
    }

    fn set_fence(&self, key: &Digest, run: &str) -> Result<(), StoreError> {
        self.db.execute(
            "INSERT INTO fences (key, run) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET run = excluded.run",
            params![key.bytes().as_slice(), run],
        )?;
        Ok(())
    }
}
