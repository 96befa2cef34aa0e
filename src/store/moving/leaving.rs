//! What leaves a store: records with their signatures, and objects as frames.

use std::collections::BTreeSet;

use crate::digest::Digest;
use crate::fsio::tree::{Node, Tree};
use crate::store::index::Index;
use crate::store::record::{Outcome, Record};
use crate::store::sign::Signer;
use crate::store::{Store, StoreError, pack};

/// A record on its way out.
#[derive(Clone, Debug)]
pub struct Leaving {
    /// The record.
    pub record: Record,
    /// Its digest.
    pub digest: Digest,
    /// Its bytes.
    pub(super) body: Vec<u8>,
    /// The text of its signature; none for one from elsewhere that had none.
    pub(super) signature: Option<String>,
}

impl Store {
    /// Makes records ready to leave, each once, in order of keys. Records that
    /// were made here are signed; those from elsewhere keep the signature that
    /// they came with. What ended in error is no result and stays.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn leaving(&self, records: &[Record], signer: &Signer) -> Result<Vec<Leaving>, StoreError> {
        let mut out = Vec::new();
        for record in records.iter().filter(|record| record.outcome == Outcome::Done) {
            let body = record.body();
            let digest = Digest::of(&body);
            let signature = match self.arrival(&digest)? {
                Some(arrival) => arrival.signature,
                None => Some(signer.sign(&body)),
            };
            out.push(Leaving { record: record.clone(), digest, body, signature });
        }
        out.sort_by_key(|one| (one.record.key, one.digest));
        out.dedup_by_key(|one| one.digest);
        Ok(out)
    }

    /// Digests of all objects that a record needs.
    pub(super) fn needed(&self, record: &Record) -> Result<BTreeSet<Digest>, StoreError> {
        let mut out = BTreeSet::from([record.recipe]);
        for part in record.parts.values() {
            out.insert(part.digest);
            if part.tree {
                let listing = self.get(&part.digest)?;
                let tree = Tree::parse(&listing)
                    .map_err(|why| StoreError::Unreadable { what: format!("tree {}", part.digest), why })?;
                out.extend(tree.entries.iter().filter_map(|entry| match entry.node {
                    Node::File { digest, .. } => Some(digest),
                    Node::Link(_) => None,
                }));
            }
        }
        Ok(out)
    }

    /// An object as a frame, checked against its digest.
    pub(super) fn frame(&self, digest: &Digest) -> Result<Vec<u8>, StoreError> {
        let found = self.index().object(digest)?.ok_or(StoreError::Missing(*digest))?;
        let path = Index::place(&self.root, digest, &found);
        let damaged = || StoreError::Damaged { digest: *digest, place: path.display().to_string() };
        let (header, payload) = pack::read_at(&path, found.offset)?.ok_or_else(damaged)?;
        if header.digest != *digest || !pack::is_sound(&header, &payload) {
            return Err(damaged());
        }
        let mut out = header.encode().to_vec();
        out.extend_from_slice(&payload);
        Ok(out)
    }
}
