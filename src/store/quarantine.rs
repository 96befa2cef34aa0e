//! Quarantine: records that are disowned, by whom nothing is reused any more.
//!
//! `quarantine/KEY.json` names the records of a key that were there when it
//! was written, each as it was, with the reason. A record that is made under
//! the key afterwards is sound. The files are part of the truth: a new index
//! is told of them before it accepts anything.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::record::Record;
use super::{Store, StoreError, pins};
use crate::digest::Digest;

/// What is disowned under one key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quarantine {
    /// Version of this format; 1.
    pub format: u32,
    /// The key.
    pub key: Digest,
    /// Each time that something was disowned, oldest first.
    pub entries: Vec<Entry>,
}

/// What was disowned at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// When, in milliseconds since 1970-01-01 UTC.
    pub at: i64,
    /// Why.
    pub reason: String,
    /// The records.
    pub records: Vec<Disowned>,
}

/// A disowned record.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disowned {
    /// Its digest.
    pub digest: Digest,
    /// The record: run, attempt, machine, times, origin, parts.
    pub record: Record,
    /// Who signed it, when it came from elsewhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signer: Option<String>,
    /// True when it came from elsewhere.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub arrived: bool,
}

impl Quarantine {
    /// Its disowned records.
    pub fn records(&self) -> impl Iterator<Item = &Disowned> {
        self.entries.iter().flat_map(|entry| &entry.records)
    }
}

fn path(root: &Path, key: &Digest) -> PathBuf {
    root.join("quarantine").join(format!("{key}.json"))
}

fn all(root: &Path) -> Result<Vec<Quarantine>, StoreError> {
    let mut out = Vec::new();
    for (name, path) in pins::files(root, "quarantine")? {
        let one: Quarantine = pins::read(&path)?;
        if one.key.hex() != name {
            return Err(StoreError::Unreadable {
                what: format!("`{}`", path.display()),
                why: "its name is not its key; mend it or take it away".to_owned(),
            });
        }
        out.push(one);
    }
    Ok(out)
}

/// Digests of the disowned records of the store in `root`.
pub(super) fn disowned(root: &Path) -> Result<BTreeSet<Digest>, StoreError> {
    Ok(all(root)?.iter().flat_map(Quarantine::records).map(|one| one.digest).collect())
}

impl Store {
    /// All that is in quarantine, by key.
    ///
    /// # Errors
    /// When one of its files can't be read.
    pub fn quarantined(&self) -> Result<Vec<Quarantine>, StoreError> {
        all(self.root())
    }

    /// The records of a key that can be disowned: those that aren't yet.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn suspects(&self, key: &Digest) -> Result<Vec<Record>, StoreError> {
        let known = disowned(self.root())?;
        let attempts = self.attempts(key)?;
        Ok(attempts.into_iter().filter(|record| !known.contains(&record.digest())).collect())
    }

    /// Disowns the records that a key has now: they are no hits any more.
    ///
    /// # Errors
    /// When the store can't be read or written.
    pub fn quarantine(&self, key: &Digest, reason: &str, at: i64) -> Result<Quarantine, StoreError> {
        let mut records = Vec::new();
        for record in self.suspects(key)? {
            let digest = record.digest();
            let arrival = self.arrival(&digest)?;
            records.push(Disowned {
                digest,
                record,
                signer: arrival.as_ref().and_then(|a| a.signer).map(|key| key.to_string()),
                arrived: arrival.is_some(),
            });
        }
        let before = all(self.root())?.into_iter().find(|one| one.key == *key);
        let mut one = before.unwrap_or_else(|| Quarantine { format: 1, key: *key, entries: Vec::new() });
        one.entries.push(Entry { at, reason: reason.to_owned(), records });
        pins::write(&path(self.root(), key), &one)?;
        self.index().disown(&disowned(self.root())?)?;
        Ok(one)
    }

    /// Owns the records of a key again; none when none of them are disowned.
    /// What was made under the key meanwhile stays the accepted one.
    ///
    /// # Errors
    /// When the store can't be read or written.
    pub fn undo_quarantine(&self, key: &Digest) -> Result<Option<Quarantine>, StoreError> {
        let Some(one) = all(self.root())?.into_iter().find(|one| one.key == *key) else { return Ok(None) };
        pins::remove(&path(self.root(), key))?;
        self.index().disown(&disowned(self.root())?)?;
        Ok(Some(one))
    }
}
