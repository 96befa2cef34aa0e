//! Which records may be hits: trust in signers and quarantine, in the index.
//!
//! A record that came from elsewhere has a row in `arrivals` with the key that
//! signed it; the signature was checked when it came in. It can be the
//! accepted one of its key only while that signer is in `trusted`, and no
//! record in `disowned` can. Both sets are applied when a store is opened and
//! they have changed, by moving the mark `accepted`; so a look-up of a hit
//! costs what it cost before, and asks for no signature.
//!
//! A record made here never gives way to one that came from elsewhere. One
//! that was accepted from elsewhere stays when the same is made here again.

use std::collections::BTreeSet;

use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};

use super::StoreError;
use super::index::{Index, Staged};
use super::record::{Outcome, Record};
use super::sign::{self, PublicKey};
use crate::digest::Digest;

pub(super) const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS arrivals (
  record BLOB PRIMARY KEY, signer TEXT, signature TEXT, arrived INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS trusted (signer TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS disowned (record BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS departs AFTER DELETE ON records
  BEGIN DELETE FROM arrivals WHERE record = OLD.digest; END;
";

/// A record from elsewhere as a frame of a pack keeps it: with its signature,
/// so that neither a copy of the folder nor a new index makes it one of ours.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Envelope {
    /// The record's bytes.
    pub(super) record: String,
    /// The text of its signature, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) signature: Option<String>,
    /// When it came, in milliseconds since 1970-01-01 UTC.
    pub(super) arrived: i64,
}

impl Envelope {
    /// The record, its digest and who signed it.
    pub(super) fn open(bytes: &[u8]) -> Option<Staged> {
        let envelope: Self = serde_json::from_slice(bytes).ok()?;
        let record: Record = serde_json::from_str(&envelope.record).ok()?;
        let body = envelope.record.as_bytes();
        let signer = envelope.signature.as_deref().and_then(|text| sign::signer_of(body, text));
        let digest = Digest::of(body);
        let arrival = Arrival { signer, signature: envelope.signature, arrived: envelope.arrived };
        Some(Staged { record, digest, arrival: Some(arrival) })
    }
}

/// How a record came here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Who signed it; none when nobody did.
    pub signer: Option<PublicKey>,
    /// The text of the signature.
    pub signature: Option<String>,
    /// When, in milliseconds since 1970-01-01 UTC.
    pub arrived: i64,
}

/// A record from elsewhere that is no hit because of its signer.
#[derive(Clone, Debug)]
pub struct Untrusted {
    /// The record.
    pub record: Record,
    /// Its digest.
    pub digest: Digest,
    /// Who signed it; none when nobody did.
    pub signer: Option<PublicKey>,
}

/// Whether a record may be accepted, as far as its origin and quarantine go.
pub(super) fn eligible(db: &Connection, one: &Staged) -> Result<bool, StoreError> {
    let disowned = db
        .prepare_cached("SELECT 1 FROM disowned WHERE record = ?1")?
        .exists([one.digest.bytes().as_slice()])?;
    if disowned {
        return Ok(false);
    }
    match &one.arrival {
        None => Ok(true),
        Some(Arrival { signer: None, .. }) => Ok(false),
        Some(Arrival { signer: Some(signer), .. }) => {
            let mut query = db.prepare_cached("SELECT 1 FROM trusted WHERE signer = ?1")?;
            Ok(query.exists([signer.to_string()])?)
        }
    }
}

/// Notes how a record came, unless it is here already.
pub(super) fn note(db: &Connection, one: &Staged) -> Result<(), StoreError> {
    let Some(arrival) = &one.arrival else { return Ok(()) };
    db.prepare_cached(
        "INSERT OR IGNORE INTO arrivals (record, signer, signature, arrived)
         SELECT ?1, ?2, ?3, ?4 WHERE NOT EXISTS (SELECT 1 FROM records WHERE digest = ?1)",
    )?
    .execute(params![
        one.digest.bytes().as_slice(),
        arrival.signer.map(|key| key.to_string()),
        arrival.signature,
        arrival.arrived
    ])?;
    Ok(())
}

/// Rows of a set kept in a table of one column.
fn rows<T: rusqlite::types::FromSql>(db: &Connection, sql: &str) -> Result<Vec<T>, StoreError> {
    let mut query = db.prepare_cached(sql)?;
    let rows = query.query_map([], |row| row.get(0))?;
    Ok(rows.collect::<Result<_, _>>()?)
}

impl Index {
    /// Makes these signers the trusted ones.
    pub(super) fn trust(&mut self, signers: &BTreeSet<PublicKey>) -> Result<(), StoreError> {
        let wanted: BTreeSet<String> = signers.iter().map(ToString::to_string).collect();
        let known: BTreeSet<String> = rows(&self.db, "SELECT signer FROM trusted")?.into_iter().collect();
        if wanted == known {
            return Ok(());
        }
        let tx = self.db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        tx.execute("DELETE FROM trusted", [])?;
        for signer in &wanted {
            tx.execute("INSERT INTO trusted (signer) VALUES (?1)", [signer])?;
        }
        settle(&tx)?;
        tx.commit()?;
        Ok(())
    }

    /// Makes these records the disowned ones.
    pub(super) fn disown(&mut self, records: &BTreeSet<Digest>) -> Result<(), StoreError> {
        let known: BTreeSet<Vec<u8>> = rows(&self.db, "SELECT record FROM disowned")?.into_iter().collect();
        let wanted: BTreeSet<Vec<u8>> = records.iter().map(|digest| digest.bytes().to_vec()).collect();
        if wanted == known {
            return Ok(());
        }
        let tx = self.db.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        tx.execute("DELETE FROM disowned", [])?;
        for record in &wanted {
            tx.execute("INSERT INTO disowned (record) VALUES (?1)", [record])?;
        }
        settle(&tx)?;
        tx.commit()?;
        Ok(())
    }

    /// How a record came here; none for one that was made here.
    pub(super) fn arrival(&self, record: &Digest) -> Result<Option<Arrival>, StoreError> {
        let mut query =
            self.db.prepare_cached("SELECT signer, signature, arrived FROM arrivals WHERE record = ?1")?;
        let found = query.query_row([record.bytes().as_slice()], |row| {
            let signer: Option<String> = row.get(0)?;
            Ok(Arrival {
                signer: signer.and_then(|text| text.parse().ok()),
                signature: row.get(1)?,
                arrived: row.get(2)?,
            })
        });
        Ok(found.optional()?)
    }

    /// Records from elsewhere whose signer is nobody or a stranger, in order of cells.
    pub(super) fn untrusted(&self) -> Result<Vec<Untrusted>, StoreError> {
        let mut query = self.db.prepare(
            "SELECT r.digest, r.body, a.signer FROM records r JOIN arrivals a ON a.record = r.digest
             WHERE a.signer IS NULL OR a.signer NOT IN (SELECT signer FROM trusted)
             ORDER BY r.pipeline, r.node, r.digest",
        )?;
        let rows = query.query_map([], |row| {
            Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, String>(1)?, row.get::<_, Option<String>>(2)?))
        })?;
        let mut out = Vec::new();
        for row in rows {
            let (digest, body, signer) = row?;
            if let Ok(bytes) = <[u8; 32]>::try_from(digest) {
                out.push(Untrusted {
                    record: super::index::parse(&body)?,
                    digest: Digest::from_bytes(bytes),
                    signer: signer.and_then(|text| text.parse().ok()),
                });
            }
        }
        Ok(out)
    }

    /// Why a record that is whole is no hit: `quarantined` or `untrusted`.
    pub(super) fn refusal(&self, record: &Digest) -> Result<Option<&'static str>, StoreError> {
        let digest = record.bytes().as_slice();
        let disowned = "SELECT 1 FROM disowned WHERE record = ?1";
        if self.db.prepare_cached(disowned)?.exists([digest])? {
            return Ok(Some("quarantined"));
        }
        let stranger = "SELECT 1 FROM arrivals WHERE record = ?1
                        AND (signer IS NULL OR signer NOT IN (SELECT signer FROM trusted))";
        Ok(self.db.prepare_cached(stranger)?.exists([digest])?.then_some("untrusted"))
    }
}

/// Takes the mark `accepted` from records that may not have it, and gives it
/// where a key has none: records made here first, then the oldest.
fn settle(db: &Connection) -> Result<(), StoreError> {
    // What is remembered of hits outside of the index no longer holds.
    super::index::lose(db)?;
    db.execute(
        "UPDATE records SET accepted = NULL WHERE accepted = 1 AND (
           digest IN (SELECT record FROM disowned) OR digest IN (
             SELECT record FROM arrivals
             WHERE signer IS NULL OR signer NOT IN (SELECT signer FROM trusted)))",
        [],
    )?;
    let mut query = db.prepare(
        "SELECT r.digest, r.body FROM records r LEFT JOIN arrivals a ON a.record = r.digest
         WHERE r.accepted IS NULL
           AND NOT EXISTS (SELECT 1 FROM records o WHERE o.key = r.key AND o.accepted = 1)
           AND r.digest NOT IN (SELECT record FROM disowned)
           AND (a.record IS NULL OR a.signer IN (SELECT signer FROM trusted))
         ORDER BY a.record IS NOT NULL, r.ended, r.digest",
    )?;
    let rows = query.query_map([], |row| Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, String>(1)?)))?;
    let candidates: Vec<(Vec<u8>, String)> = rows.collect::<Result<_, _>>()?;
    let mut given: BTreeSet<Digest> = BTreeSet::new();
    for (digest, body) in candidates {
        let record: Record = super::index::parse(&body)?;
        if record.outcome == Outcome::Done
            && !given.contains(&record.key)
            && super::index::complete(db, &record)?
        {
            db.execute("UPDATE records SET accepted = 1 WHERE digest = ?1", [digest])?;
            given.insert(record.key);
        }
    }
    Ok(())
}
