//! What arrives in a store: checked piece by piece, then taken in.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use super::names::Name;
use super::{Limits, Moved, envelope};
use crate::clock::Clock;
use crate::digest::{self, Digest};
use crate::fsio::links;
use crate::fsio::tree::{self, Node, Tree};
use crate::fsio::{self, Durability};
use crate::store::index::Staged;
use crate::store::object::loose_path;
use crate::store::pack::{self, FrameKind, HEADER, Header, LARGE, Placed};
use crate::store::record::Record;
use crate::store::sign::{self, PublicKey};
use crate::store::standing::Arrival;
use crate::store::{Store, StoreError};

/// Bytes that wait in memory before they are written.
const BATCH: usize = 8 << 20;
/// Frames that wait before the index is told of them.
const FRAMES: usize = 512;
/// Longest text in a record that people are shown.
const LONGEST: usize = 4096;

/// Takes in what comes from one archive or remote.
pub(super) struct Intake<'a> {
    store: &'a Store,
    limits: Limits,
    /// Bytes unpacked so far.
    unpacked: AtomicU64,
}

/// A record whose own text was found to be sound.
pub(super) struct Candidate {
    pub(super) record: Record,
    pub(super) digest: Digest,
    pub(super) body: Vec<u8>,
    pub(super) signature: Option<String>,
    pub(super) signer: Option<PublicKey>,
}

impl Candidate {
    /// Checks a record's bytes against its name, and its signature against its bytes.
    pub(super) fn read(
        key: Digest,
        digest: Digest,
        body: Vec<u8>,
        signature: Option<Vec<u8>>,
    ) -> Result<Self, String> {
        if Digest::of(&body) != digest {
            return Err("its bytes don't have the digest that it is named by".to_owned());
        }
        let record: Record = serde_json::from_slice(&body)
            .map_err(|e| format!("it is no record of this version of proofline: {e}"))?;
        if record.format != 1 || record.body() != body {
            return Err("it is no record as this version of proofline writes it".to_owned());
        }
        if record.key != key {
            return Err("it is the record of another key".to_owned());
        }
        let texts = [&record.pipeline, &record.node, &record.kind, &record.origin, &record.run];
        let more = [&record.machine, &record.unconfined, &record.blessed, &record.usd];
        let bad = |text: &String| text.len() > LONGEST || text.chars().any(char::is_control);
        if texts.into_iter().chain(more.into_iter().flatten()).chain(record.parts.keys()).any(bad) {
            return Err("it holds a text that is too long or has control characters".to_owned());
        }
        if record.parts.keys().any(|name| tree::plain(name).is_err() || name.contains('/')) {
            return Err("a part's name is no plain name".to_owned());
        }
        let signature = match signature {
            None => None,
            Some(bytes) => Some(String::from_utf8(bytes).map_err(|_| "its signature is no text".to_owned())?),
        };
        let signer = signature.as_deref().map(|text| sign::signer_of(&body, text));
        if signer == Some(None) {
            return Err("its signature is not that of its bytes".to_owned());
        }
        Ok(Self { record, digest, body, signature, signer: signer.flatten() })
    }

    /// Objects that its text names.
    pub(super) fn objects(&self) -> BTreeSet<Digest> {
        self.record.parts.values().map(|part| part.digest).chain([self.record.recipe]).collect()
    }

    /// Its name, for messages.
    pub(super) fn name(&self) -> String {
        Name::Record(self.record.key, self.digest).to_string()
    }
}

impl<'a> Intake<'a> {
    pub(super) fn new(store: &'a Store, limits: Limits) -> Self {
        Self { store, limits, unpacked: AtomicU64::new(0) }
    }

    /// Whether an object is here.
    pub(super) fn has(&self, digest: &Digest) -> Result<bool, StoreError> {
        Ok(self.store.index().object(digest)?.is_some())
    }

    /// Whether a record and all that it names are here.
    pub(super) fn has_record(&self, digest: &Digest) -> Result<bool, StoreError> {
        let index = self.store.index();
        match index.record(digest)? {
            None => Ok(false),
            Some(record) => index.complete(&record),
        }
    }

    /// Checks a frame that should hold the object `digest`; in words what is wrong.
    pub(super) fn check(&self, digest: &Digest, frame: &[u8]) -> Result<Header, String> {
        let head = frame.first_chunk::<HEADER>().ok_or("it is too short to be an object")?;
        let header = Header::decode(head).ok_or("it is no object of proofline")?;
        if header.kind != FrameKind::Object {
            return Err("it is no object".to_owned());
        }
        if header.raw > self.limits.object {
            return Err(format!(
                "it would unpack to {} bytes, more than the {} that are taken",
                header.raw, self.limits.object
            ));
        }
        let before = self.unpacked.fetch_add(header.raw, Ordering::Relaxed);
        if before.saturating_add(header.raw) > self.limits.total {
            return Err(format!("all would unpack to more than {} bytes", self.limits.total));
        }
        if header.stored != (frame.len() - HEADER) as u64 {
            return Err("it is cut off, or longer than it says".to_owned());
        }
        if header.digest != *digest || !pack::is_sound(&header, &frame[HEADER..]) {
            return Err("its bytes don't have the digest that it is named by".to_owned());
        }
        Ok(header)
    }

    /// Takes in a checked frame; false when the object is here already.
    pub(super) fn object(&self, header: Header, frame: &[u8]) -> Result<bool, StoreError> {
        let store = self.store;
        let mut guard = store.writer();
        let writer = store.opened(&mut guard)?;
        if store.present(writer, &header.digest)? {
            return Ok(false);
        }
        if frame.len() - HEADER < LARGE {
            writer.append(header, &frame[HEADER..]);
        } else {
            fsio::write_atomic(&loose_path(&store.root, &header.digest), frame, Durability::Synced)?;
            writer.note(Placed { header, pack: None, offset: 0 });
        }
        if writer.waiting() > BATCH || writer.fresh().len() > FRAMES {
            writer.sync()?;
            store.index().commit(writer, &[])?;
        }
        Ok(true)
    }

    /// Makes durable and known what was taken in.
    pub(super) fn flush(&self) -> Result<(), StoreError> {
        let mut guard = self.store.writer();
        if let Some(writer) = guard.as_mut() {
            writer.sync()?;
            self.store.index().commit(writer, &[])?;
        }
        Ok(())
    }

    /// The files that the listings of a candidate's folders name; in words why
    /// it is refused. Its own objects must be here.
    pub(super) fn files(&self, one: &Candidate) -> Result<Result<BTreeSet<Digest>, String>, StoreError> {
        let mut out = BTreeSet::new();
        for (name, part) in one.record.parts.iter().filter(|(_, part)| part.tree) {
            let found = self.store.index().object(&part.digest)?;
            match found {
                None => return Ok(Err(format!("the listing of its part `{name}` did not come"))),
                Some(found) if found.size > self.limits.listing => {
                    return Ok(Err(format!("the listing of its part `{name}` has {} bytes", found.size)));
                }
                Some(_) => {}
            }
            match folder(&self.store.get(&part.digest)?, part.size) {
                Ok(files) => out.extend(files.keys()),
                Err(why) => return Ok(Err(format!("its part `{name}`: {why}"))),
            }
        }
        Ok(Ok(out))
    }

    /// What a candidate lacks, in words; none when all of it is here and fits.
    fn lacks(&self, one: &Candidate) -> Result<Option<String>, StoreError> {
        let record = &one.record;
        if !self.has(&record.recipe)? {
            return Ok(Some("its recipe did not come".to_owned()));
        }
        if Digest::tagged(digest::NODE, &self.store.get(&record.recipe)?) != record.key {
            return Ok(Some("its recipe is not the one of its key".to_owned()));
        }
        for (name, part) in &record.parts {
            let Some(found) = self.store.index().object(&part.digest)? else {
                return Ok(Some(format!("its part `{name}` did not come")));
            };
            if !part.tree {
                if found.size != part.size {
                    return Ok(Some(format!("its part `{name}` has another size")));
                }
                continue;
            }
            let files = match folder(&self.store.get(&part.digest)?, part.size) {
                Ok(files) => files,
                Err(why) => return Ok(Some(format!("its part `{name}`: {why}"))),
            };
            for (digest, (path, size)) in files {
                match self.store.index().object(&digest)? {
                    None => return Ok(Some(format!("`{path}` of its part `{name}` did not come"))),
                    Some(found) if found.size != size => {
                        return Ok(Some(format!("`{path}` of its part `{name}` has another size")));
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(None)
    }

    /// Takes in those of the candidates whose objects are all here.
    pub(super) fn records(
        &self,
        candidates: Vec<Candidate>,
        moved: &mut Moved,
        strangers: &mut BTreeMap<Option<PublicKey>, u64>,
    ) -> Result<(), StoreError> {
        self.flush()?;
        let arrived = Clock::System.now_ms();
        let (mut frames, mut staged) = (Vec::new(), Vec::new());
        for one in candidates {
            if let Some(why) = self.lacks(&one)? {
                moved.refuse(one.name(), why);
                continue;
            }
            let body = envelope(&one.body, one.signature.clone(), arrived);
            frames.push(pack::frame(FrameKind::Arrival, Digest::of(&body), &body));
            moved.bytes += one.body.len() as u64;
            let arrival = Arrival { signer: one.signer, signature: one.signature, arrived };
            staged.push(Staged { record: one.record, digest: one.digest, arrival: Some(arrival) });
        }
        if staged.is_empty() {
            return Ok(());
        }
        let store = self.store;
        let mut guard = store.writer();
        let writer = store.opened(&mut guard)?;
        for (header, payload) in frames {
            writer.append(header, &payload);
        }
        writer.sync()?;
        let mut index = store.index();
        index.commit(writer, &staged)?;
        for one in &staged {
            moved.records += 1;
            if index.refusal(&one.digest)? == Some("untrusted") {
                let signer = one.arrival.as_ref().and_then(|arrival| arrival.signer);
                *strangers.entry(signer).or_default() += 1;
            }
        }
        Ok(())
    }
}

/// The files of a folder's listing by digest, with path and size; in words why it is refused.
fn folder(listing: &[u8], size: u64) -> Result<BTreeMap<Digest, (String, u64)>, String> {
    let tree = Tree::parse(listing)?;
    if tree.bytes() != size {
        return Err("its files have another size in all".to_owned());
    }
    let (mut out, mut names) = (BTreeMap::new(), BTreeMap::new());
    let known = tree.links();
    for entry in &tree.entries {
        // A file system that knows no case would make one of two.
        let mut upto = 0;
        while let Some(next) = entry.path[upto..].find('/') {
            let above = &entry.path[..upto + next];
            same_case(&mut names, above)?;
            upto += next + 1;
        }
        same_case(&mut names, &entry.path)?;
        match &entry.node {
            Node::File { size, digest, .. } => {
                out.insert(*digest, (entry.path.clone(), *size));
            }
            Node::Link(_) if !links::leaves(&known, &entry.path) => {}
            Node::Link(to) => return Err(format!("the link `{}` leads out, to `{to}`", entry.path)),
        }
    }
    Ok(out)
}

fn same_case<'p>(names: &mut BTreeMap<String, &'p str>, path: &'p str) -> Result<(), String> {
    match names.insert(path.to_lowercase(), path) {
        Some(other) if other != path => Err(format!("`{other}` and `{path}` differ in case alone")),
        _ => Ok(()),
    }
}
