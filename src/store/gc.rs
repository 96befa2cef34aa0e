//! `store gc` and `store stats`.

use std::collections::BTreeSet;
use std::fs;

use super::index::Index;
use super::journal::Journal;
use super::pack::{self, FrameKind};
use super::standing::Envelope;
use super::{Store, StoreError};
use crate::digest::Digest;
use crate::event::Event;
use crate::fsio;
use crate::fsio::tree::{Node, Tree};

/// What `gc` would delete or has deleted, and what is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GcReport {
    /// Records in the store.
    pub records: u64,
    /// Records that no kept run names.
    pub dead_records: u64,
    /// Objects in the store.
    pub objects: u64,
    /// Objects that no kept record reaches.
    pub dead_objects: u64,
    /// Bytes on disk, packs and object files.
    pub bytes: u64,
    /// Bytes that would be or were freed.
    pub freed: u64,
    /// Runs in the store.
    pub runs: u64,
    /// Left-over folders of attempts.
    pub leftovers: u64,
}

impl Store {
    /// Counts, and what a collection that keeps the newest `keep_runs` runs would free.
    /// With `delete` it is freed: records first, then objects, then left-overs.
    ///
    /// Paid raw answers are kept whatever runs there are. While a run is going
    /// on nothing is deleted: what it has made is named nowhere yet.
    ///
    /// # Errors
    /// When the store can't be read or written, or a run is going on.
    pub fn gc(&self, keep_runs: usize, delete: bool) -> Result<GcReport, StoreError> {
        let mut report = GcReport::default();
        let runs = Journal::runs(self.root())?;
        report.runs = runs.len() as u64;
        if delete && let Some(run) = runs.iter().find(|run| Journal::is_live(self.root(), run) == Some(true))
        {
            return Err(StoreError::Busy(run.clone()));
        }
        let mut keys: BTreeSet<Digest> = BTreeSet::new();
        let mut roots: BTreeSet<Digest> = BTreeSet::new();
        let pins = self.pins()?;
        keys.extend(pins.iter().flat_map(|pin| pin.keys.iter().copied()));
        let pinned = |run: &String| pins.iter().any(|pin| pin.selector.is_none() && pin.run == *run);
        let newest = runs.len().saturating_sub(keep_runs);
        let kept_runs = runs.iter().enumerate().filter(|(at, run)| *at >= newest || pinned(run));
        for (_, run) in kept_runs {
            for line in Journal::read(self.root(), run)?.lines {
                match line.event {
                    Event::Reused { listing, nodes, except, .. } => {
                        // Of a listing that is lost nothing more can be kept than what other lines name.
                        let reused = self.reused(listing, &nodes, &except).unwrap_or(nodes);
                        keys.extend(reused.iter().map(|(_, key)| *key));
                        roots.extend(listing);
                    }
                    Event::Done { key, .. } => {
                        keys.insert(key);
                    }
                    Event::Failed { log: Some(log), .. } => {
                        roots.insert(log);
                    }
                    _ => {}
                }
            }
        }
        let records = self.index().records()?;
        report.records = records.len() as u64;
        let mut dead = Vec::new();
        for (digest, record) in &records {
            if keys.contains(&record.key) || record.usd.is_some() {
                roots.insert(record.recipe);
                for part in record.parts.values() {
                    roots.insert(part.digest);
                    if part.tree
                        && let Ok(listing) = self.get(&part.digest)
                        && let Ok(tree) = Tree::parse(&listing)
                    {
                        roots.extend(tree.entries.iter().filter_map(|e| match e.node {
                            Node::File { digest, .. } => Some(digest),
                            Node::Link(_) => None,
                        }));
                    }
                }
            } else {
                dead.push(*digest);
            }
        }
        report.dead_records = dead.len() as u64;
        if delete {
            for digest in &dead {
                self.index().forget_record(digest)?;
            }
        }
        self.sweep(&roots, delete, &mut report)?;
        for folder in [self.tmp(), self.root().join("places")] {
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten().filter(|e| e.path().is_dir()) {
                report.leftovers += 1;
                if delete {
                    fsio::remove_dir(&entry.path())?;
                }
            }
        }
        Ok(report)
    }

    fn sweep(&self, roots: &BTreeSet<Digest>, delete: bool, report: &mut GcReport) -> Result<(), StoreError> {
        let mut live_packs: BTreeSet<String> = BTreeSet::new();
        let objects = self.index().objects()?;
        report.objects = objects.len() as u64;
        for (digest, found) in &objects {
            if roots.contains(digest) {
                live_packs.extend(found.pack.clone());
                continue;
            }
            report.dead_objects += 1;
            if found.pack.is_none() {
                let path = Index::place(self.root(), digest, found);
                report.freed += fs::metadata(&path).map_or(0, |m| m.len());
                if delete {
                    self.index().forget_object(digest)?;
                    fsio::remove_file(&path)?;
                }
            }
        }
        // Records live in packs too: a pack with a kept record stays.
        let kept: BTreeSet<Digest> = self.index().records()?.into_iter().map(|(digest, _)| digest).collect();
        let ids = self.index().pack_ids()?;
        for id in ids {
            let path = super::object::pack_path(self.root(), &id);
            let size = fs::metadata(&path).map_or(0, |m| m.len());
            report.bytes += size;
            if live_packs.contains(&id) || pack_has_record(&path, &kept)? {
                continue;
            }
            report.freed += size;
            if delete {
                for (digest, found) in &objects {
                    if found.pack.as_deref() == Some(id.as_str()) {
                        self.index().forget_object(digest)?;
                    }
                }
                self.index().forget_pack(&id)?;
                fsio::remove_file(&path)?;
            }
        }
        for path in fsio::tree::list(&self.root().join("objects"))? {
            report.bytes += fs::metadata(self.root().join("objects").join(path)).map_or(0, |m| m.len());
        }
        Ok(())
    }
}

fn pack_has_record(path: &std::path::Path, kept: &BTreeSet<Digest>) -> Result<bool, StoreError> {
    let file = fsio::at(fs::File::open(path), "can't read", path)?;
    let mut reader = std::io::BufReader::new(file);
    while let Some((header, payload)) = pack::read_frame(&mut reader, path)? {
        let keeps = match header.kind {
            FrameKind::Object => false,
            FrameKind::Record => kept.contains(&header.digest),
            FrameKind::Arrival => pack::unpack(&header, payload)
                .and_then(|body| Envelope::open(&body))
                .is_some_and(|one| kept.contains(&one.digest)),
            // What was spent is never forgotten.
            FrameKind::Ledger => true,
        };
        if keeps {
            return Ok(true);
        }
    }
    Ok(false)
}
