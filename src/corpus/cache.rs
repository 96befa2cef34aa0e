//! Exported trees and what is known of their sources.
//!
//! ```text
//! trees/<tree digest>/tree/       the files, read-only
//! trees/<tree digest>/listing     what they must be
//! sources/<key>.json              which tree a pinned source came to
//! archives/<SHA-256>              archives as they came
//! git/<commit>                    bare repositories with that one commit
//! stamps/                         digests of unchanged files
//! tmp/                            what is being made
//! ```
//! Everything can be removed at any time: it is made again. A tree appears
//! whole by one rename, so any number of processes may publish at once.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::CorpusError;
use super::staging::Staged;
use super::stamps::Stamps;
use crate::digest::Digest;
use crate::fsio::tree::{self, Tree};
use crate::fsio::{self, Durability};

const LARGEST_LISTING: u64 = 512 << 20;
/// Others may publish or remove the same tree meanwhile; each round one of us wins.
const ROUNDS: usize = 20;

/// Which tree a pinned source came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Digest of the tree.
    pub(crate) digest: Digest,
    /// The source, for people.
    pub(crate) origin: String,
    /// SHA-256 of the archive.
    pub(crate) sha256: Option<String>,
    /// Remarks of the export.
    pub(crate) notes: Vec<String>,
}

pub(crate) struct Cache {
    root: PathBuf,
}

impl Cache {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Where private folders are made; on the same file system as all else here.
    pub(crate) fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    pub(crate) fn stamps(&self, root: &Path) -> Stamps {
        Stamps::load(&self.root.join("stamps"), root)
    }

    pub(crate) fn archive(&self, sha256: &str) -> PathBuf {
        self.root.join("archives").join(sha256)
    }

    pub(crate) fn repository(&self, commit: &str) -> PathBuf {
        self.root.join("git").join(commit)
    }

    fn place(&self, digest: Digest) -> PathBuf {
        self.root.join("trees").join(digest.hex())
    }

    /// Whether a tree is there; its files are not looked at.
    pub(crate) fn has(&self, digest: Digest) -> bool {
        self.place(digest).join("listing").is_file()
    }

    pub(crate) fn record(&self, key: Digest) -> Option<Record> {
        let bytes = fsio::read_limited(&self.source(key), 1 << 20).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    pub(crate) fn remember(&self, key: Digest, record: &Record) -> Result<(), CorpusError> {
        let bytes = serde_json::to_vec(record).unwrap_or_default();
        Ok(fsio::write_atomic(&self.source(key), &bytes, Durability::Cached)?)
    }

    fn source(&self, key: Digest) -> PathBuf {
        self.root.join("sources").join(format!("{}.json", key.hex()))
    }

    /// A published tree whose files are still what the listing says. Files
    /// with a known stamp are not read.
    pub(crate) fn published(&self, digest: Digest) -> Option<(PathBuf, Tree)> {
        let place = self.place(digest);
        let listing = fsio::read_limited(&place.join("listing"), LARGEST_LISTING).ok()?;
        let tree = Tree::parse(&listing).ok()?;
        let root = place.join("tree");
        if tree.digest() != digest {
            return None;
        }
        let paths = tree::list(&root).ok()?;
        if !paths.iter().eq(tree.entries.iter().map(|entry| &entry.path)) {
            return None;
        }
        let mut stamps = self.stamps(&root);
        for entry in &tree.entries {
            if stamps.node(&root.join(&entry.path)).ok()?.as_ref() != Some(&entry.node) {
                return None;
            }
        }
        stamps.save();
        Some((root, tree))
    }

    /// Puts a tree in its place, or takes the one that is there when it is whole.
    pub(crate) fn publish(&self, staged: Staged) -> Result<(PathBuf, Tree), CorpusError> {
        let digest = staged.tree.digest();
        let place = self.place(digest);
        let out = staged.scratch.path().join("out");
        fsio::create_dir(&out)?;
        fsio::create_dir(&self.root.join("trees"))?;
        fsio::rename(&staged.root, &out.join("tree"))?;
        fsio::write_plain(&out.join("listing"), &staged.tree.listing())?;
        tree::make_read_only(&out.join("tree"))?;
        let mut last = None;
        for round in 0..ROUNDS {
            match fsio::rename(&out, &place) {
                Ok(()) => return Ok((place.join("tree"), staged.tree)),
                Err(error) => last = Some(error),
            }
            if let Some(found) = self.published(digest) {
                return Ok(found);
            }
            // Damaged: out of the way, into the folder that goes away with us.
            let _ = fsio::rename(&place, &staged.scratch.path().join(format!("damaged-{round}")));
        }
        match last {
            Some(error) => Err(error.into()),
            None => Ok((place.join("tree"), staged.tree)),
        }
    }

    /// Puts a file in its place, over one that is there.
    pub(crate) fn replace(made: &Path, place: &Path) -> Result<(), CorpusError> {
        if let Some(folder) = place.parent() {
            fsio::create_dir(folder)?;
        }
        Ok(fsio::rename(made, place)?)
    }

    /// Keeps a folder under a name that says its content; one that is there stays.
    pub(crate) fn keep(made: &Path, place: &Path) -> Result<(), CorpusError> {
        if let Some(folder) = place.parent() {
            fsio::create_dir(folder)?;
        }
        match fsio::rename(made, place) {
            Err(_) if fs::symlink_metadata(place).is_ok() => Ok(()),
            other => Ok(other?),
        }
    }
}
