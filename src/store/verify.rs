//! `store verify`: is everything there and what it says it is?

use std::collections::BTreeSet;

use serde::Serialize;

use super::index::Index;
use super::journal::Journal;
use super::pack;
use super::record::Record;
use super::{Store, StoreError};
use crate::digest::Digest;
use crate::fsio::tree::{Node, Tree};

/// Something that is wrong in a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// `damaged-object`, `missing-object`, `damaged-record`, `damaged-journal`, `damaged-index`.
    pub kind: &'static str,
    /// File or object, in words.
    pub where_: String,
    /// Key of a node that is concerned.
    pub key: Option<Digest>,
    /// Whether it was repaired: what was lost can't be reused any more and is made anew by the next
    /// run; a record is written again.
    pub repaired: bool,
}

/// What `store verify` found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Problems.
    pub problems: Vec<Problem>,
    /// Objects looked at.
    pub objects: u64,
    /// Records looked at.
    pub records: u64,
}

impl Store {
    /// Checks presence and sizes; with `full` also every digest. A damaged
    /// object is dropped from the index, so that no node reuses it.
    ///
    /// # Errors
    /// When the store can't be read at all.
    pub fn verify(&self, full: bool) -> Result<VerifyReport, StoreError> {
        let mut report = VerifyReport::default();
        let wrong = self.index().integrity();
        if let Some(word) = wrong {
            // All that it knew is in packs and journals.
            self.rebuild_index()?;
            report.problems.push(Problem { kind: "damaged-index", where_: word, key: None, repaired: true });
        }
        let index = self.index();
        let records = index.records()?;
        let mut bad: BTreeSet<Digest> = BTreeSet::new();
        for (digest, found) in index.objects()? {
            report.objects += 1;
            let path = Index::place(self.root(), &digest, &found);
            let sound = match pack::read_at(&path, found.offset) {
                Ok(Some((header, payload))) if header.digest == digest => {
                    !full || pack::unpack(&header, payload).is_some()
                }
                _ => false,
            };
            if !sound {
                index.forget_object(&digest)?;
                bad.insert(digest);
                report.problems.push(Problem {
                    kind: "damaged-object",
                    where_: format!("{} at {}", path.display(), found.offset),
                    key: key_of(&records, &digest),
                    repaired: true,
                });
            }
        }
        for (_, record) in &records {
            report.records += 1;
            let parts = record.parts.iter().map(|(name, part)| (format!("part `{name}`"), part.digest));
            for (what, digest) in parts.chain([("the recipe".to_owned(), record.recipe)]) {
                if index.object(&digest)?.is_none() && !bad.contains(&digest) {
                    report.problems.push(Problem {
                        kind: "missing-object",
                        where_: format!("{what} of {}", record.node),
                        key: Some(record.key),
                        repaired: true,
                    });
                }
            }
        }
        let packs = index.pack_ids()?;
        drop(index);
        if full {
            self.verify_records(&records, &packs, &mut report)?;
            self.verify_trees(&records, &bad, &mut report)?;
        }
        self.forget_broken(&records)?;
        for run in Journal::runs(self.root())? {
            let journal = Journal::read(self.root(), &run)?;
            if let Some(line) = journal.damaged {
                report.problems.push(Problem {
                    kind: "damaged-journal",
                    where_: format!("runs/{run}/journal.jsonl line {}", line + 1),
                    key: None,
                    repaired: false,
                });
            }
        }
        Ok(report)
    }

    /// Records and entries of the ledger whose frame in a pack is damaged are in the index only:
    /// they are written again, so that the index can be rebuilt with them.
    fn verify_records(
        &self,
        records: &[(Digest, Record)],
        packs: &[String],
        report: &mut VerifyReport,
    ) -> Result<(), StoreError> {
        let mut sound: BTreeSet<Digest> = BTreeSet::new();
        let mut entries: BTreeSet<Digest> = BTreeSet::new();
        for id in packs {
            // A pack that is gone holds none.
            let path = super::object::pack_path(self.root(), id);
            if let Ok(scanned) = super::scan::scan_pack(&path, id.clone(), 0) {
                sound.extend(scanned.staged.iter().map(|one| one.digest));
                entries.extend(scanned.ledger.iter().map(|one| one.digest));
            }
        }
        let lost = self.index().entries_but(&entries)?;
        for (digest, entry) in lost {
            let repaired = self.enter_again(digest, &entry)?;
            report.problems.push(Problem {
                kind: "damaged-record",
                where_: format!("an entry of the ledger about {}", entry.node),
                key: Some(entry.key),
                repaired,
            });
        }
        for (digest, record) in records.iter().filter(|(digest, _)| !sound.contains(digest)) {
            let repaired = self.rewrite(*digest, record)?;
            report.problems.push(Problem {
                kind: "damaged-record",
                where_: format!("the record of {}", record.node),
                key: Some(record.key),
                repaired,
            });
        }
        Ok(())
    }

    /// Forgets records that have lost an object: they are no hits and would be
    /// told of for ever. What was paid for is kept.
    fn forget_broken(&self, records: &[(Digest, Record)]) -> Result<(), StoreError> {
        let index = self.index();
        for (digest, record) in records.iter().filter(|(_, record)| record.usd.is_none()) {
            let mut whole = index.object(&record.recipe)?.is_some();
            for part in record.parts.values() {
                whole &= index.object(&part.digest)?.is_some();
            }
            if !whole {
                index.forget_record(digest)?;
            }
        }
        Ok(())
    }

    fn verify_trees(
        &self,
        records: &[(Digest, Record)],
        bad: &BTreeSet<Digest>,
        report: &mut VerifyReport,
    ) -> Result<(), StoreError> {
        let mut seen = BTreeSet::new();
        for (_, record) in records {
            for part in record.parts.values().filter(|p| p.tree) {
                if !seen.insert(part.digest) || bad.contains(&part.digest) {
                    continue;
                }
                let Ok(listing) = self.get(&part.digest) else { continue };
                let Ok(tree) = Tree::parse(&listing) else { continue };
                for entry in tree.entries {
                    let Node::File { digest, .. } = entry.node else { continue };
                    let absent = self.index().object(&digest)?.is_none();
                    if absent {
                        // Without its listing the tree is no hit, so it is made anew.
                        self.index().forget_object(&part.digest)?;
                        report.problems.push(Problem {
                            kind: "missing-object",
                            where_: format!("`{}` in a folder of {}", entry.path, record.node),
                            key: Some(record.key),
                            repaired: true,
                        });
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

fn key_of(records: &[(Digest, Record)], object: &Digest) -> Option<Digest> {
    records
        .iter()
        .find(|(_, r)| r.recipe == *object || r.parts.values().any(|p| p.digest == *object))
        .map(|(_, r)| r.key)
}
