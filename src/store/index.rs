//! The SQLite index: where objects are and which records are accepted.
//!
//! Everything in it can be read again from packs, object files and journals,
//! so a damaged index is put aside and rebuilt.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::ledger::insert_ledger;
use super::object::{Found, loose_path, pack_path};
use super::pack::{FrameKind, PackWriter, Placed};
use super::record::{Outcome, PartRef, Record};
use super::scan::{Scanned, scan_loose, scan_pack};
use super::standing::{self, Arrival};
use super::{Standing, StoreError};
use crate::digest::Digest;
use crate::fsio;

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS objects (
  digest BLOB PRIMARY KEY, pack TEXT, offset INTEGER NOT NULL, size INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS records (
  id INTEGER PRIMARY KEY, digest BLOB NOT NULL UNIQUE, key BLOB NOT NULL,
  pipeline TEXT NOT NULL, node TEXT NOT NULL, kind TEXT NOT NULL,
  accepted INTEGER CHECK (accepted = 1), ended INTEGER NOT NULL, body TEXT NOT NULL
);
-- One accepted record per key: those that aren't have no mark, and nothing equals nothing.
CREATE UNIQUE INDEX IF NOT EXISTS by_key ON records (key, accepted);
CREATE INDEX IF NOT EXISTS by_cell ON records (pipeline, node);
CREATE TABLE IF NOT EXISTS ledger (
  digest BLOB PRIMARY KEY, key BLOB NOT NULL, body TEXT NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS spend (
  key BLOB NOT NULL, run TEXT NOT NULL, attempt INTEGER NOT NULL, pipeline TEXT NOT NULL,
  at INTEGER NOT NULL, micros INTEGER NOT NULL, last TEXT NOT NULL, PRIMARY KEY (key, run, attempt)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS spend_by_pipeline ON spend (pipeline, run);
CREATE TABLE IF NOT EXISTS fences (key BLOB PRIMARY KEY, run TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS home (inode INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS packs (id TEXT PRIMARY KEY, taken INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS standing (id BLOB NOT NULL, losses INTEGER NOT NULL);
INSERT INTO standing SELECT randomblob(16), 0 WHERE NOT EXISTS (SELECT 1 FROM standing);
";
/// The accepted record of a key.
const ACCEPTED: &str = "SELECT body FROM records WHERE key = ?1 AND accepted = 1";
/// Raised when the tables change; an index of another version is rebuilt.
const VERSION: i64 = 3;

pub(super) struct Index {
    pub(super) db: Connection,
}

/// Parts of a record by name.
pub(super) type Parts = BTreeMap<String, PartRef>;

/// What of a record is shown to those that read it.
#[derive(Deserialize)]
struct Shown {
    recipe: Digest,
    parts: Parts,
}

/// The objects that must be there for a record to be whole.
trait Objects {
    fn recipe(&self) -> &Digest;
    fn parts(&self) -> &Parts;
}

impl Objects for Record {
    fn recipe(&self) -> &Digest {
        &self.recipe
    }

    fn parts(&self) -> &Parts {
        &self.parts
    }
}

impl Objects for Shown {
    fn recipe(&self) -> &Digest {
        &self.recipe
    }

    fn parts(&self) -> &Parts {
        &self.parts
    }
}

/// A record that is written but not yet in the index.
pub(super) struct Staged {
    pub(super) record: Record,
    pub(super) digest: Digest,
    /// How it came, when it was not made here.
    pub(super) arrival: Option<Arrival>,
}

impl Index {
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        match Self::try_open(path) {
            Ok(index) if index.is_at_home(path)? => Ok(index),
            // A copy of a store that was written to meanwhile: the copied index may be of two
            // moments. Packs and journals are not, being appended to only.
            Ok(index) => {
                drop(index);
                set_aside(path)?;
                Self::try_open(path)
            }
            Err(StoreError::Sql(error)) if is_damage(&error) => {
                set_aside(path)?;
                Self::try_open(path)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether this is the file in which the index was made, not a copy of it.
    fn is_at_home(&self, path: &Path) -> Result<bool, StoreError> {
        use std::os::unix::fs::MetadataExt;
        let inode = as_i64(fsio::at(fs::metadata(path), "can't look at", path)?.ino());
        let known: Option<i64> =
            self.db.query_row("SELECT inode FROM home", [], |row| row.get(0)).optional()?;
        if known.is_none() {
            self.db.execute("INSERT INTO home (inode) VALUES (?1)", [inode])?;
        }
        Ok(known.is_none_or(|known| known == inode))
    }

    fn try_open(path: &Path) -> Result<Self, StoreError> {
        let db = Connection::open(path)?;
        db.busy_timeout(std::time::Duration::from_mins(1))?;
        db.pragma_update(None, "journal_mode", "WAL")?;
        // The truth is in packs and journals, which are synced; the index may lose its tail.
        db.pragma_update(None, "synchronous", "NORMAL")?;
        db.pragma_update(None, "cache_size", -16_000)?;
        let version: i64 = db.pragma_query_value(None, "user_version", |row| row.get(0))?;
        if version != VERSION {
            db.execute_batch(
                "DROP TABLE IF EXISTS objects; DROP TABLE IF EXISTS records; DROP TABLE IF EXISTS packs;
                 DROP TABLE IF EXISTS ledger; DROP TABLE IF EXISTS spend; DROP TABLE IF EXISTS fences;
                 DROP TABLE IF EXISTS home; DROP TABLE IF EXISTS arrivals; DROP TABLE IF EXISTS standing;",
            )?;
            db.execute_batch(SCHEMA)?;
            db.pragma_update(None, "user_version", VERSION)?;
        }
        db.execute_batch(standing::SCHEMA)?;
        Ok(Self { db })
    }

    /// Takes in frames that are in packs or object files but not in the index.
    pub(super) fn take_in(&mut self, root: &Path) -> Result<(), StoreError> {
        let mut known = self.packs()?;
        let mut packs: Vec<PathBuf> = Vec::new();
        let folder = root.join("packs");
        for entry in fsio::at(fs::read_dir(&folder), "can't list", &folder)? {
            let path = fsio::at(entry, "can't list", &folder)?.path();
            if path.extension().is_some_and(|e| e == "pack") {
                packs.push(path);
            }
        }
        packs.sort();
        let mut sizes = Vec::with_capacity(packs.len());
        for path in packs {
            let size = fsio::at(fs::metadata(&path), "can't look at", &path)?.len();
            let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            sizes.push((path, id, size));
        }
        let lost: Vec<&String> = known
            .iter()
            .filter(|(id, taken)| !sizes.iter().any(|(_, other, size)| other == *id && size >= taken))
            .map(|(id, _)| id)
            .collect();
        if !lost.is_empty() {
            self.forget_packs(&lost)?;
            // What they held may stand in others too: all are read again.
            known.clear();
        }
        let mut found: Vec<Scanned> = Vec::new();
        for (path, id, size) in sizes {
            let taken = known.get(&id).copied().unwrap_or(0);
            if size > taken {
                found.push(scan_pack(&path, id, taken)?);
            }
        }
        let loose = if known.is_empty() { scan_loose(root)? } else { Vec::new() };
        if found.is_empty() && loose.is_empty() {
            return Ok(());
        }
        let tx = self.begin()?;
        for placed in &loose {
            insert_object(&tx, placed)?;
        }
        let mut records = Vec::new();
        for Scanned { id, end, placed, staged, ledger } in found {
            for one in &placed {
                insert_object(&tx, one)?;
            }
            for one in &ledger {
                insert_ledger(&tx, one)?;
            }
            records.extend(staged);
            tx.execute(
                "INSERT INTO packs (id, taken) VALUES (?1, ?2)
                 ON CONFLICT (id) DO UPDATE SET taken = MAX(taken, excluded.taken)",
                params![id, as_i64(end)],
            )?;
        }
        // Those made here and oldest first, so that the accepted one is the same as before.
        records.sort_by_key(|one| (one.arrival.is_some(), one.record.ended, one.digest));
        for staged in &records {
            insert_record(&tx, staged)?;
        }
        tx.commit()?;
        Ok(())
    }

    /// Begins a change; other writers wait, readers don't.
    pub(super) fn begin(&mut self) -> Result<Transaction<'_>, StoreError> {
        Ok(self.db.transaction_with_behavior(TransactionBehavior::Immediate)?)
    }

    /// The packs that were taken in, each up to which byte.
    fn packs(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        let mut query = self.db.prepare_cached("SELECT id, taken FROM packs")?;
        let rows = query.query_map([], |row| {
            Ok((row.get::<_, String>(0)?, u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0)))
        })?;
        rows.map(|row| row.map_err(StoreError::from)).collect()
    }

    /// Drops what packs held that are gone or have become shorter.
    fn forget_packs(&mut self, ids: &[&String]) -> Result<(), StoreError> {
        let tx = self.begin()?;
        for id in ids {
            tx.execute("DELETE FROM objects WHERE pack = ?1", [id])?;
            tx.execute("DELETE FROM packs WHERE id = ?1", [id])?;
        }
        lose(&tx)?;
        tx.commit()?;
        Ok(())
    }

    pub(super) fn standing(&self) -> Result<Standing, StoreError> {
        let mut query = self.db.prepare_cached("SELECT id, losses FROM standing")?;
        let (id, losses): (Vec<u8>, i64) = query.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let mut index = [0; 16];
        index.iter_mut().zip(id).for_each(|(slot, byte)| *slot = byte);
        Ok(Standing { index, losses: u64::try_from(losses).unwrap_or(u64::MAX) })
    }

    /// Makes written frames known, and records among them.
    pub(super) fn commit(&mut self, writer: &mut PackWriter, staged: &[Staged]) -> Result<(), StoreError> {
        let tx = self.begin()?;
        took(&tx, writer)?;
        for one in staged {
            insert_record(&tx, one)?;
        }
        tx.commit()?;
        writer.indexed();
        Ok(())
    }

    /// A number that changes when another process has changed the index.
    pub(super) fn version(&self) -> Result<i64, StoreError> {
        Ok(self.db.prepare_cached("PRAGMA data_version")?.query_row([], |row| row.get(0))?)
    }

    pub(super) fn object(&self, digest: &Digest) -> Result<Option<Found>, StoreError> {
        object(&self.db, digest)
    }

    pub(super) fn objects(&self) -> Result<Vec<(Digest, Found)>, StoreError> {
        let mut query = self
            .db
            .prepare("SELECT digest, pack, offset, size FROM objects ORDER BY pack, offset, digest")?;
        let rows = query.query_map([], |row| {
            let digest: Vec<u8> = row.get(0)?;
            Ok((
                digest,
                Found {
                    pack: row.get(1)?,
                    offset: u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0),
                    size: u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0),
                },
            ))
        })?;
        let mut out = Vec::new();
        for row in rows {
            let (digest, found) = row?;
            if let Ok(bytes) = <[u8; 32]>::try_from(digest) {
                out.push((Digest::from_bytes(bytes), found));
            }
        }
        Ok(out)
    }

    pub(super) fn accepted(&self, key: &Digest) -> Result<Option<Record>, StoreError> {
        self.one(ACCEPTED, &[&key.bytes().as_slice()])
    }

    pub(super) fn record(&self, digest: &Digest) -> Result<Option<Record>, StoreError> {
        self.one("SELECT body FROM records WHERE digest = ?1", &[&digest.bytes().as_slice()])
    }

    pub(super) fn newest_attempt(&self, key: &Digest) -> Result<Option<Record>, StoreError> {
        self.one(
            "SELECT body FROM records WHERE key = ?1 ORDER BY ended DESC, id DESC LIMIT 1",
            &[&key.bytes().as_slice()],
        )
    }

    pub(super) fn newest_of_cell(&self, pipeline: &str, node: &str) -> Result<Option<Record>, StoreError> {
        self.one(
            "SELECT body FROM records WHERE pipeline = ?1 AND node = ?2 ORDER BY ended DESC, id DESC LIMIT 1",
            &[&pipeline, &node],
        )
    }

    /// The newest accepted record of a cell that was paid for.
    pub(super) fn paid_of_cell(&self, pipeline: &str, node: &str) -> Result<Option<Record>, StoreError> {
        self.one(
            "SELECT body FROM records WHERE pipeline = ?1 AND node = ?2 AND accepted = 1
             AND json_extract(body, '$.usd') IS NOT NULL ORDER BY ended DESC, id DESC LIMIT 1",
            &[&pipeline, &node],
        )
    }

    pub(super) fn attempts(&self, key: &Digest) -> Result<Vec<Record>, StoreError> {
        let mut query =
            self.db.prepare_cached("SELECT body FROM records WHERE key = ?1 ORDER BY ended, id")?;
        let rows = query.query_map([key.bytes().as_slice()], |row| row.get::<_, String>(0))?;
        let mut out = Vec::new();
        for body in rows {
            out.push(parse(&body?)?);
        }
        Ok(out)
    }

    pub(super) fn records(&self) -> Result<Vec<(Digest, Record)>, StoreError> {
        let mut query = self.db.prepare("SELECT digest, body FROM records ORDER BY ended, id")?;
        let rows = query.query_map([], |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, String>(1)?)))?;
        let mut out = Vec::new();
        for row in rows {
            let (digest, body) = row?;
            if let Ok(bytes) = <[u8; 32]>::try_from(digest) {
                out.push((Digest::from_bytes(bytes), parse(&body)?));
            }
        }
        Ok(out)
    }

    /// The accepted and complete records of keys, read as of one moment.
    pub(super) fn hits(&self, keys: &[Digest]) -> Result<Vec<Option<Record>>, StoreError> {
        self.hits_as(keys)
    }

    /// The parts of such records, by name.
    pub(super) fn parts(&self, keys: &[Digest]) -> Result<Vec<Option<Parts>>, StoreError> {
        let found = self.hits_as::<Shown>(keys)?;
        Ok(found.into_iter().map(|one| one.map(|shown| shown.parts)).collect())
    }

    fn hits_as<T: DeserializeOwned + Objects>(&self, keys: &[Digest]) -> Result<Vec<Option<T>>, StoreError> {
        let tx = self.db.unchecked_transaction()?;
        let mut out = Vec::with_capacity(keys.len());
        {
            let mut records = tx.prepare_cached(ACCEPTED)?;
            let mut objects = tx.prepare_cached("SELECT size FROM objects WHERE digest = ?1")?;
            let mut size = |digest: &Digest| -> Result<Option<u64>, StoreError> {
                let size = objects.query_row([digest.bytes().as_slice()], |row| row.get::<_, i64>(0));
                Ok(size.optional()?.map(|size| u64::try_from(size).unwrap_or(0)))
            };
            for key in keys {
                let mut rows = records.query([key.bytes().as_slice()])?;
                let record: Option<T> = match rows.next()? {
                    Some(row) => Some(parse(row.get_ref(0)?.as_str().unwrap_or_default())?),
                    None => None,
                };
                out.push(match record {
                    Some(record) if whole(&record, &mut size)? => Some(record),
                    _ => None,
                });
            }
        }
        tx.commit()?;
        Ok(out)
    }

    /// Whether every object of a record is present in its size.
    pub(super) fn complete(&self, record: &Record) -> Result<bool, StoreError> {
        complete(&self.db, record)
    }

    pub(super) fn forget_object(&self, digest: &Digest) -> Result<(), StoreError> {
        self.db.execute("DELETE FROM objects WHERE digest = ?1", [digest.bytes().as_slice()])?;
        lose(&self.db)
    }

    pub(super) fn forget_record(&self, digest: &Digest) -> Result<(), StoreError> {
        self.db.execute("DELETE FROM records WHERE digest = ?1", [digest.bytes().as_slice()])?;
        lose(&self.db)
    }

    pub(super) fn forget_pack(&self, id: &str) -> Result<(), StoreError> {
        self.db.execute("DELETE FROM packs WHERE id = ?1", [id])?;
        lose(&self.db)
    }

    /// What is wrong with the database; none when nothing is.
    pub(super) fn integrity(&self) -> Option<String> {
        let word = self.db.query_row("PRAGMA integrity_check(1)", [], |row| row.get::<_, String>(0));
        match word {
            Ok(word) if word == "ok" => None,
            Ok(word) => Some(word),
            Err(error) => Some(error.to_string()),
        }
    }

    fn one(&self, sql: &str, args: &[&dyn rusqlite::ToSql]) -> Result<Option<Record>, StoreError> {
        let mut query = self.db.prepare_cached(sql)?;
        let body = query.query_row(args, |row| row.get::<_, String>(0)).optional()?;
        body.map(|text| parse(&text)).transpose()
    }
}

/// Counts a loss: nobody can rely any more on what was known of hits.
pub(super) fn lose(db: &Connection) -> Result<(), StoreError> {
    db.prepare_cached("UPDATE standing SET losses = losses + 1")?.execute([])?;
    Ok(())
}

pub(super) fn parse<T: DeserializeOwned>(body: &str) -> Result<T, StoreError> {
    serde_json::from_str(body)
        .map_err(|e| StoreError::Unreadable { what: "a record".to_owned(), why: e.to_string() })
}

fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::NotADatabase | rusqlite::ErrorCode::DatabaseCorrupt)
    )
}

/// Moves a damaged index away; it stays for whoever wants to look at it.
pub(super) fn set_aside(path: &Path) -> Result<(), StoreError> {
    for suffix in ["", "-wal", "-shm"] {
        let from = PathBuf::from(format!("{}{suffix}", path.display()));
        if from.exists() {
            fsio::rename(&from, &PathBuf::from(format!("{}{suffix}.damaged", path.display())))?;
        }
    }
    Ok(())
}

fn insert_object(db: &Connection, placed: &Placed) -> Result<(), StoreError> {
    let mut insert = db.prepare_cached(
        "INSERT OR IGNORE INTO objects (digest, pack, offset, size) VALUES (?1, ?2, ?3, ?4)",
    )?;
    insert.execute(params![
        placed.header.digest.bytes().as_slice(),
        placed.pack,
        as_i64(placed.offset),
        as_i64(placed.header.raw)
    ])?;
    Ok(())
}

/// Makes the frames of a writer known.
pub(super) fn took(tx: &Connection, writer: &PackWriter) -> Result<(), StoreError> {
    for placed in writer.fresh() {
        if placed.header.kind == FrameKind::Object {
            insert_object(tx, placed)?;
        }
    }
    tx.prepare_cached(
        "INSERT INTO packs (id, taken) VALUES (?1, ?2)
         ON CONFLICT (id) DO UPDATE SET taken = MAX(taken, excluded.taken)",
    )?
    .execute(params![writer.id(), as_i64(writer.end())])?;
    Ok(())
}

/// Whether another run than this has taken a key over.
pub(super) fn fenced(tx: &Connection, key: &Digest, run: &str) -> Result<bool, StoreError> {
    let mut query = tx.prepare_cached("SELECT 1 FROM fences WHERE key = ?1 AND run <> ?2")?;
    Ok(query.exists(params![key.bytes().as_slice(), run])?)
}

fn object(db: &Connection, digest: &Digest) -> Result<Option<Found>, StoreError> {
    let mut query = db.prepare_cached("SELECT pack, offset, size FROM objects WHERE digest = ?1")?;
    let found = query
        .query_row([digest.bytes().as_slice()], |row| {
            Ok(Found {
                pack: row.get(0)?,
                offset: u64::try_from(row.get::<_, i64>(1)?).unwrap_or(0),
                size: u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0),
            })
        })
        .optional()?;
    Ok(found)
}

pub(super) fn complete(db: &Connection, record: &Record) -> Result<bool, StoreError> {
    whole(record, &mut |digest| Ok(object(db, digest)?.map(|found| found.size)))
}

/// Whether every object of a record is there, by the size of each that is.
fn whole(
    record: &dyn Objects,
    size: &mut dyn FnMut(&Digest) -> Result<Option<u64>, StoreError>,
) -> Result<bool, StoreError> {
    if size(record.recipe())?.is_none() {
        return Ok(false);
    }
    for part in record.parts().values() {
        match size(&part.digest)? {
            None => return Ok(false),
            // The size of a tree's part is that of its files, not of the listing.
            Some(found) if !part.tree && found != part.size => return Ok(false),
            Some(_) => {}
        }
    }
    Ok(true)
}

/// Inserts a record; true when it is the accepted one of its key.
pub(super) fn insert_record(db: &Connection, staged: &Staged) -> Result<bool, StoreError> {
    let record = &staged.record;
    let body = serde_json::to_string(record)
        .map_err(|e| StoreError::Unreadable { what: "a record of ours".to_owned(), why: e.to_string() })?;
    let taken = db
        .prepare_cached("SELECT digest, body FROM records WHERE key = ?1 AND accepted = 1")?
        .query_row([record.key.bytes().as_slice()], |row| {
            Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, String>(1)?))
        })
        .optional()?;
    let free = match &taken {
        None => true,
        Some((digest, _)) if digest.as_slice() == staged.digest.bytes() => true,
        // An accepted record that lost an object is broken and gives way.
        Some((digest, body)) if !complete(db, &parse(body)?)? => {
            db.execute("UPDATE records SET accepted = NULL WHERE digest = ?1", [digest])?;
            lose(db)?;
            true
        }
        Some(_) => false,
    };
    let accepted = record.outcome == Outcome::Done && free && standing::eligible(db, staged)?;
    standing::note(db, staged)?;
    db.prepare_cached(
        "INSERT OR IGNORE INTO records (digest, key, pipeline, node, kind, accepted, ended, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute(params![
        staged.digest.bytes().as_slice(),
        record.key.bytes().as_slice(),
        record.pipeline,
        record.node,
        record.kind,
        accepted.then_some(1),
        record.ended,
        body
    ])?;
    Ok(accepted)
}

pub(super) fn as_i64(n: u64) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl Index {
    /// Rows of packs that are known, for `verify` and `gc`.
    pub(super) fn pack_ids(&self) -> Result<Vec<String>, StoreError> {
        let mut query = self.db.prepare("SELECT id FROM packs ORDER BY id")?;
        let rows = query.query_map([], |row| row.get(0))?;
        rows.map(|r| r.map_err(StoreError::from)).collect()
    }

    /// Path of the file that holds an object.
    pub(super) fn place(root: &Path, digest: &Digest, found: &Found) -> PathBuf {
        found.pack.as_ref().map_or_else(|| loose_path(root, digest), |id| pack_path(root, id))
    }
}
