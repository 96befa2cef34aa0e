//! Digests of files that have not changed since they were read.
//!
//! A file's stamp is (device, inode, size, modification and change time in
//! nanoseconds). The change time can't be set back by a program, so an equal
//! stamp means equal content, except within the clock's granularity: files
//! that changed just before they were read are not remembered. Stamps only
//! save reading; digests never depend on them.

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, Metadata};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::clock::Clock;
use crate::digest::Digest;
use crate::fsio::tree::{self, Node};
use crate::fsio::{self, Durability, FsError};

/// Files that changed within this many milliseconds before the scan are read again next time.
const FRESH_MS: i64 = 2_000;
const LARGEST: u64 = 256 << 20;

type Stamp = [i64; 7];

fn stamp(meta: &Metadata) -> Stamp {
    [
        meta.dev().cast_signed(),
        meta.ino().cast_signed(),
        meta.size().cast_signed(),
        meta.mtime(),
        meta.mtime_nsec(),
        meta.ctime(),
        meta.ctime_nsec(),
    ]
}

/// The remembered digests of one folder.
pub(crate) struct Stamps {
    file: PathBuf,
    known: HashMap<Stamp, Digest>,
    seen: HashMap<Stamp, Digest>,
    read: usize,
    began_ms: i64,
}

impl Stamps {
    /// Loads what is remembered of `root`; nothing, when it can't be read.
    pub(crate) fn load(folder: &Path, root: &Path) -> Self {
        let name = Digest::tagged("proofline stamps 1", root.as_os_str().as_encoded_bytes()).hex();
        let file = folder.join(&name[..32]);
        let mut known = HashMap::new();
        if let Ok(bytes) = fsio::read_limited(&file, LARGEST) {
            for line in bytes.split(|b| *b == b'\n').filter(|line| !line.is_empty()) {
                let Ok((stamp, digest)) = serde_json::from_slice::<(Stamp, Digest)>(line) else { continue };
                known.insert(stamp, digest);
            }
        }
        Self { file, known, seen: HashMap::new(), read: 0, began_ms: Clock::System.now_ms() }
    }

    /// Digest of a file's content, read only when its stamp is unknown.
    pub(crate) fn digest(&mut self, path: &Path, meta: &Metadata) -> Result<Digest, FsError> {
        let stamp = stamp(meta);
        let digest = if let Some(digest) = self.known.get(&stamp) {
            *digest
        } else {
            self.read += 1;
            tree::hash_file(path)?
        };
        let changed_ms = meta.ctime().saturating_mul(1000).saturating_add(meta.ctime_nsec() / 1_000_000);
        if changed_ms < self.began_ms - FRESH_MS {
            self.seen.insert(stamp, digest);
        }
        Ok(digest)
    }

    /// What is at `path`; none for what is neither file nor link.
    pub(crate) fn node(&mut self, path: &Path) -> Result<Option<Node>, FsError> {
        let meta = fsio::at(fs::symlink_metadata(path), "can't look at", path)?;
        if meta.file_type().is_symlink() {
            let target = fsio::at(fs::read_link(path), "can't read the link", path)?;
            return Ok(Some(Node::Link(target.to_string_lossy().into_owned())));
        }
        if !meta.is_file() {
            return Ok(None);
        }
        let digest = self.digest(path, &meta)?;
        Ok(Some(Node::File { size: meta.len(), exec: meta.permissions().mode() & 0o111 != 0, digest }))
    }

    /// Number of files that had to be read.
    #[cfg(test)]
    pub(crate) fn read(&self) -> usize {
        self.read
    }

    /// Keeps what was seen for the next time. Failing is no harm: then files are read again.
    pub(crate) fn save(&self) {
        if self.seen == self.known {
            return;
        }
        let sorted: BTreeMap<&Stamp, &Digest> = self.seen.iter().collect();
        let mut out = Vec::new();
        for line in sorted {
            out.extend(serde_json::to_vec(&line).unwrap_or_default());
            out.push(b'\n');
        }
        let _ = fsio::write_atomic(&self.file, &out, Durability::Cached);
    }
}
