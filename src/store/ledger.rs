//! The ledger: what was spent on which attempt, and how far each came.
//!
//! An entry is a frame in a pack, like a record: it is synced before what it
//! announces happens, and the index is rebuilt from it. The state of an
//! attempt is that of its last entry. STARTED without an end is what a crash
//! leaves; it is never bought again without a decision.

use std::collections::BTreeSet;

use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

use super::index::{Index, as_i64, fenced, took};
use super::pack::{self, FrameKind};
use super::{Store, StoreError};
use crate::digest::Digest;

/// How far a paid attempt has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Spend {
    /// Its largest cost is set aside.
    Reserved,
    /// From here on money may be spent.
    Started,
    /// It was lost, and nobody can tell what it did; counts with all that was set aside.
    Unknown,
    /// Decided by hand: what an unknown attempt left is taken, if it is whole.
    Adopt,
    /// It has ended and its cost is known.
    Settled,
    /// It is proved that nothing was sent.
    Void,
    /// Decided by hand or by policy: an unknown attempt may be bought again.
    Respend,
    /// Decided by hand: an unknown attempt is left as it is, and the node is not run.
    Skip,
}

/// One line of the ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Version of this format; 1.
    pub format: u32,
    /// The node's key.
    pub key: Digest,
    /// Name of the pipeline.
    pub pipeline: String,
    /// Node id in that pipeline.
    pub node: String,
    /// Run that made the attempt.
    pub run: String,
    /// Attempt within that run, from 1.
    pub attempt: u32,
    /// How far it has come.
    pub state: Spend,
    /// US dollars as a decimal text: set aside, or spent when settled.
    pub usd: String,
    /// Milliseconds since 1970-01-01 UTC.
    pub at: i64,
    /// Host on which it runs, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// Process id of the engine, which is that of its group; for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<u32>,
    /// Folder of the attempt under `attempts/`.
    pub folder: String,
    /// Why, for what was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

/// What may be spent at most, in millionths of a dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Caps {
    /// By the pipeline in this store, over all runs.
    pub pipeline: Option<u64>,
    /// By one run.
    pub run: Option<u64>,
}

/// An entry that is written but not yet in the index.
pub(super) struct StagedEntry {
    pub(super) entry: Entry,
    pub(super) digest: Digest,
}

impl Entry {
    /// The next entry of the same attempt.
    #[must_use]
    pub fn then(&self, state: Spend, at: i64) -> Self {
        Self { state, at, why: None, ..self.clone() }
    }

    /// What counts against a budget, in millionths of a dollar.
    #[must_use]
    pub fn micros(&self) -> u64 {
        if self.state == Spend::Void { 0 } else { micros(&self.usd) }
    }

    /// Grows along an attempt, also within one millisecond.
    pub(super) fn rank(&self) -> i64 {
        self.at.saturating_mul(16).saturating_add(self.state as i64)
    }
}

impl Store {
    /// Writes entries down; they are durable when this returns.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] when another run has taken a key over, and
    /// [`StoreError::Budget`] when a cap would be passed; then nothing was
    /// written. Else when the file system or the index fails.
    pub fn enter(&self, entries: &[Entry], caps: Caps) -> Result<(), StoreError> {
        self.with_writer(|writer, index| {
            // What is checked here stays true until it is written: other writers wait.
            let tx = index.begin()?;
            for entry in entries {
                if fenced(&tx, &entry.key, &entry.run)? {
                    return Err(StoreError::Fenced(entry.node.clone()));
                }
                if entry.state == Spend::Reserved
                    && (passes(&tx, caps.pipeline, entry, "")? || passes(&tx, caps.run, entry, &entry.run)?)
                {
                    return Err(StoreError::Budget(entry.node.clone()));
                }
            }
            let staged: Vec<StagedEntry> = entries.iter().map(|entry| stage(writer, entry)).collect();
            writer.sync()?;
            for one in &staged {
                insert_ledger(&tx, one)?;
            }
            took(&tx, writer)?;
            tx.commit()?;
            writer.indexed();
            Ok(())
        })
    }

    /// Writes an entry that the index has and no pack any more; whether it could be, byte for byte.
    pub(super) fn enter_again(&self, digest: Digest, entry: &Entry) -> Result<bool, StoreError> {
        self.with_writer(|writer, index| {
            if stage(writer, entry).digest != digest {
                return Ok(false);
            }
            writer.sync()?;
            index.commit(writer, &[])?;
            Ok(true)
        })
    }

    /// The last entry of each attempt at a key, oldest first.
    ///
    /// # Errors
    /// When the index fails.
    pub fn spent_on(&self, key: &Digest) -> Result<Vec<Entry>, StoreError> {
        self.index().spend("key = ?1", params![key.bytes().as_slice()])
    }

    /// The last entry of each attempt of a pipeline, oldest first; of all pipelines without a name.
    ///
    /// # Errors
    /// When the index fails.
    pub fn spent_by(&self, pipeline: Option<&str>) -> Result<Vec<Entry>, StoreError> {
        match pipeline {
            Some(name) => self.index().spend("pipeline = ?1", params![name]),
            None => self.index().spend("?1 = ?1", params![0]),
        }
    }
}

/// Whether an entry would pass a cap on its pipeline, or on one run of it. Only where
/// there is one is anything summed up.
fn passes(tx: &Connection, cap: Option<u64>, entry: &Entry, run: &str) -> Result<bool, StoreError> {
    let Some(cap) = cap else { return Ok(false) };
    Ok(sum(tx, &entry.pipeline, run)?.saturating_add(entry.micros()) > cap)
}

/// Sum over the attempts of a pipeline, or of one run of it.
fn sum(tx: &Connection, pipeline: &str, run: &str) -> Result<u64, StoreError> {
    let mut query = tx.prepare_cached(
        "SELECT COALESCE(SUM(micros), 0) FROM spend WHERE pipeline = ?1 AND (?2 = '' OR run = ?2)",
    )?;
    let sum: i64 = query.query_row(params![pipeline, run], |row| row.get(0))?;
    Ok(u64::try_from(sum).unwrap_or(u64::MAX))
}

/// Puts an entry into the pack; durable after the pack's sync.
pub(super) fn stage(writer: &mut pack::PackWriter, entry: &Entry) -> StagedEntry {
    let body = serde_json::to_vec(entry).unwrap_or_default();
    let digest = Digest::of(&body);
    let (header, payload) = pack::frame(FrameKind::Ledger, digest, &body);
    writer.append(header, &payload);
    StagedEntry { entry: entry.clone(), digest }
}

/// Millionths of a dollar of a decimal text; what can't be read counts as the
/// largest, so that a budget stops rather than overruns.
#[must_use]
pub fn micros(usd: &str) -> u64 {
    let (whole, part) = usd.split_once('.').unwrap_or((usd, ""));
    let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 6 {
        return u64::MAX;
    }
    let part: u64 = format!("{part:0<6}").parse().unwrap_or(0);
    whole.parse::<u64>().ok().and_then(|w| w.checked_mul(1_000_000)?.checked_add(part)).unwrap_or(u64::MAX)
}

/// A decimal text of millionths of a dollar: `0.25`.
#[must_use]
pub fn dollars(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    let text = text.trim_end_matches('0');
    text.strip_suffix('.').map_or_else(|| text.to_owned(), str::to_owned)
}

/// Makes an entry of the ledger known.
pub(super) fn insert_ledger(tx: &Connection, one: &StagedEntry) -> Result<(), StoreError> {
    let body = serde_json::to_string(&one.entry)
        .map_err(|e| StoreError::Unreadable { what: "an entry of ours".to_owned(), why: e.to_string() })?;
    let entry = &one.entry;
    let fresh = tx
        .prepare_cached("INSERT OR IGNORE INTO ledger (digest, key, body) VALUES (?1, ?2, ?3)")?
        .execute(params![one.digest.bytes().as_slice(), entry.key.bytes().as_slice(), body])?;
    if fresh == 0 {
        return Ok(());
    }
    // The last word on an attempt counts; of two of one moment, the one that is further on.
    tx.prepare_cached(
        "INSERT INTO spend (key, run, attempt, pipeline, at, micros, last) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (key, run, attempt) DO UPDATE
         SET at = excluded.at, micros = excluded.micros, last = excluded.last WHERE excluded.at >= at",
    )?
    .execute(params![
        entry.key.bytes().as_slice(),
        entry.run,
        entry.attempt,
        entry.pipeline,
        entry.rank(),
        as_i64(entry.micros()),
        body
    ])?;
    Ok(())
}

impl Index {
    /// Entries whose digests are none of these.
    pub(super) fn entries_but(&self, known: &BTreeSet<Digest>) -> Result<Vec<(Digest, Entry)>, StoreError> {
        let mut query = self.db.prepare("SELECT digest, body FROM ledger ORDER BY digest")?;
        let rows = query.query_map([], |row| Ok((row.get::<_, [u8; 32]>(0)?, row.get::<_, String>(1)?)))?;
        let mut out = Vec::new();
        for row in rows {
            let (digest, body) = row?;
            let digest = Digest::from_bytes(digest);
            if !known.contains(&digest) {
                out.push((digest, entry_of(&body)?));
            }
        }
        Ok(out)
    }

    fn spend(&self, filter: &str, args: impl rusqlite::Params) -> Result<Vec<Entry>, StoreError> {
        let sql = format!("SELECT last FROM spend WHERE {filter} ORDER BY at, key, run, attempt");
        let mut query = self.db.prepare_cached(&sql)?;
        let rows = query.query_map(args, |row| row.get::<_, String>(0))?;
        let mut out = Vec::new();
        for body in rows {
            out.push(entry_of(&body?)?);
        }
        Ok(out)
    }
}

fn entry_of(body: &str) -> Result<Entry, StoreError> {
    serde_json::from_str(body)
        .map_err(|e| StoreError::Unreadable { what: "an entry of the ledger".to_owned(), why: e.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_exact() {
        for (text, n) in [("0.25", 250_000), ("12", 12_000_000), ("0.000001", 1), ("3.1", 3_100_000)] {
            assert_eq!((micros(text), dollars(n).as_str()), (n, text));
        }
        assert_eq!(dollars(0), "0");
        for bad in ["", "1e3", "-1", "0.1234567", "NaN", ".5x"] {
            assert_eq!(micros(bad), u64::MAX, "{bad}");
        }
    }
}
