//! The store: content-addressed objects, records, journals.
//!
//! ```text
//! .proofline/
//!   format                 one line: the layout's version
//!   packs/ID.pack          small objects and records, append-only, one writer each
//!   objects/ab/cdef...     large objects, one file each
//!   runs/RUN/journal.jsonl one journal per run
//!   index.sqlite           answers without opening objects; rebuilt from the rest
//!   cache/  tmp/           can be deleted at any time
//! ```
//!
//! Order of publication: objects, then the record, then one sync, then the
//! index, then the journal's event. A crash between any two steps leaves
//! objects without a record (swept by `gc`) or a record that the next opening
//! finds in the pack. A plain copy of the folder is a valid store.

mod gc;
mod index;
pub mod journal;
pub mod listing;
mod object;
mod pack;
pub mod record;
mod verify;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

pub use gc::GcReport;
pub use object::Found;
pub use record::{Outcome, PartRef, Record};
pub use verify::{Problem, VerifyReport};

use crate::digest::Digest;
use crate::fsio::{self, Durability, FsError};
use index::Index;
use pack::PackWriter;

/// Version of the layout.
const FORMAT: &str = "proofline store 1\n";

/// What can go wrong in a store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The file system.
    #[error("{}", .0.explain())]
    Fs(#[from] FsError),
    /// The index.
    #[error("the store's index: {0}")]
    Sql(#[from] rusqlite::Error),
    /// A store of another layout.
    #[error("`{}` is not a store of this version (its format line is `{found}`)", path.display())]
    Format {
        /// The store.
        path: PathBuf,
        /// Its format line.
        found: String,
    },
    /// An object isn't there.
    #[error("object {0} is not in the store")]
    Missing(Digest),
    /// An object's bytes don't have its digest.
    #[error("object {digest} is damaged in `{place}`")]
    Damaged {
        /// The object.
        digest: Digest,
        /// File that holds it.
        place: String,
    },
    /// Nothing can be deleted while a run is going on.
    #[error("run {0} is going on in this store; delete when it has ended")]
    Busy(String),
    /// A record, journal or listing that can't be read.
    #[error("{what} can't be read: {why}")]
    Unreadable {
        /// Which thing.
        what: String,
        /// Why.
        why: String,
    },
}

/// A result: what is published for one node.
#[derive(Clone, Debug)]
pub struct Publication {
    /// The record without the digests of parts (filled in from `parts`).
    pub record: Record,
    /// The recipe's canonical JSON.
    pub recipe: Vec<u8>,
    /// Parts by name.
    pub parts: Vec<(String, PartContent)>,
}

/// Content of a part.
#[derive(Clone, Debug)]
pub enum PartContent {
    /// Bytes.
    Bytes(Vec<u8>),
    /// A file; read when it is published.
    File(PathBuf),
    /// A folder: each file becomes an object, the listing is the part.
    Tree(PathBuf),
}

/// What became of a publication.
#[derive(Clone, Debug)]
pub struct Published {
    /// The record as stored.
    pub record: Record,
    /// Its digest.
    pub digest: Digest,
    /// False when another result had been accepted for the key before.
    pub accepted: bool,
}

/// What the index can be trusted for. While it is the same, nothing has been lost:
/// a record that was a hit with all its objects still is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The index; a rebuilt one is another.
    pub index: [u8; 16],
    /// How often something was dropped from it.
    pub losses: u64,
}

/// An open store.
pub struct Store {
    root: PathBuf,
    index: Mutex<Index>,
    writer: Mutex<Option<PackWriter>>,
    origin: String,
}

impl Store {
    /// Opens the store in `root`, making it when it isn't there. Takes in what
    /// a crashed writer had published without indexing it, and rebuilds an
    /// index that is missing or damaged.
    ///
    /// # Errors
    /// When the folder can't be used or holds another format.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        fsio::create_dir(root)?;
        let format = root.join("format");
        if format.exists() {
            let found = fsio::read_limited(&format, 1024)?;
            if found != FORMAT.as_bytes() {
                let found = String::from_utf8_lossy(&found).trim().to_owned();
                return Err(StoreError::Format { path: root.to_owned(), found });
            }
        } else {
            // A folder that is no store of ours must not become one by accident.
            fsio::write_atomic(&format, FORMAT.as_bytes(), Durability::Synced)?;
            fsio::write_atomic(&root.join(".gitignore"), b"*\n", Durability::Cached)?;
        }
        for folder in ["packs", "objects", "runs", "cache", "tmp"] {
            fsio::create_dir(&root.join(folder))?;
        }
        let origin = Self::origin_of(root)?;
        // SQLite refuses at once, without waiting, when two processes make one database.
        let opening = fsio::append(&root.join("opening.lock"))?;
        fsio::at(opening.lock(), "can't lock", &root.join("opening.lock"))?;
        let mut index = Index::open(&root.join("index.sqlite"))?;
        index.take_in(root)?;
        drop(opening);
        Ok(Self { root: root.to_owned(), index: Mutex::new(index), writer: Mutex::new(None), origin })
    }

    /// Opens the store in `root` if there is one.
    ///
    /// # Errors
    /// See [`Self::open`].
    pub fn open_existing(root: &Path) -> Result<Option<Self>, StoreError> {
        if root.join("format").exists() { Self::open(root).map(Some) } else { Ok(None) }
    }

    fn origin_of(root: &Path) -> Result<String, StoreError> {
        let path = root.join("origin");
        if !path.exists() {
            let fresh = tempfile::Builder::new().prefix("origin-").rand_bytes(24).tempfile_in(root);
            let fresh = fsio::at(fresh, "can't write in", root)?;
            let name = fresh.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
            let id = Digest::tagged("proofline origin 1", name.as_bytes()).short();
            fsio::write_atomic(&path, format!("{id}\n").as_bytes(), Durability::Synced)?;
        }
        let text = fsio::read_limited(&path, 256)?;
        Ok(String::from_utf8_lossy(&text).trim().to_owned())
    }

    /// The folder of the store.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A folder for things that can be made again.
    #[must_use]
    pub fn cache(&self) -> PathBuf {
        self.root.join("cache")
    }

    /// A folder for attempts in progress.
    #[must_use]
    pub fn tmp(&self) -> PathBuf {
        self.root.join("tmp")
    }

    /// This store's name as an origin of records.
    #[must_use]
    pub fn origin(&self) -> &str {
        &self.origin
    }

    /// The accepted record of a key whose objects are all present; none
    /// otherwise.
    ///
    /// # Errors
    /// When the index fails.
    pub fn hit(&self, key: &Digest) -> Result<Option<Record>, StoreError> {
        let index = self.index();
        let Some(record) = index.accepted(key)? else { return Ok(None) };
        let complete = index.complete(&record)?;
        Ok(complete.then_some(record))
    }

    /// The accepted records of some keys, in their order; see [`Self::hit`].
    ///
    /// # Errors
    /// When the index fails.
    pub fn hits(&self, keys: &[Digest]) -> Result<Vec<Option<Record>>, StoreError> {
        self.index().hits(keys)
    }

    /// The parts of such records, by name.
    ///
    /// # Errors
    /// When the index fails.
    pub fn parts(&self, keys: &[Digest]) -> Result<Vec<Option<BTreeMap<String, PartRef>>>, StoreError> {
        self.index().parts(keys)
    }

    /// What the index can be trusted for now.
    ///
    /// # Errors
    /// When the index fails.
    pub fn standing(&self) -> Result<Standing, StoreError> {
        self.index().standing()
    }

    /// The record of this digest.
    ///
    /// # Errors
    /// When the index fails.
    pub fn record(&self, digest: &Digest) -> Result<Option<Record>, StoreError> {
        self.index().record(digest)
    }

    /// The newest attempt of a key, accepted or not.
    ///
    /// # Errors
    /// When the index fails.
    pub fn newest_attempt(&self, key: &Digest) -> Result<Option<Record>, StoreError> {
        self.index().newest_attempt(key)
    }

    /// The newest record, accepted or not, of a cell: pipeline and node id.
    ///
    /// # Errors
    /// When the index fails.
    pub fn newest_of_cell(&self, pipeline: &str, node: &str) -> Result<Option<Record>, StoreError> {
        self.index().newest_of_cell(pipeline, node)
    }

    /// All attempts of a key, oldest first.
    ///
    /// # Errors
    /// When the index fails.
    pub fn attempts(&self, key: &Digest) -> Result<Vec<Record>, StoreError> {
        self.index().attempts(key)
    }

    /// Publishes results: objects, records, one sync, then the index.
    ///
    /// # Errors
    /// When the file system or the index fails; then none of the batch is accepted.
    pub fn publish(&self, batch: Vec<Publication>) -> Result<Vec<Published>, StoreError> {
        let mut guard = self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let writer = match guard.as_mut() {
            Some(writer) => writer,
            None => guard.insert(PackWriter::create(&self.root)?),
        };
        let mut staged = Vec::with_capacity(batch.len());
        for publication in batch {
            staged.push(self.stage(writer, publication)?);
        }
        writer.sync()?;
        let mut index = self.index();
        index.commit(writer, &staged)
    }

    /// Stores bytes as an object outside any record (logs, run manifests).
    ///
    /// # Errors
    /// When the file system or the index fails.
    pub fn put(&self, bytes: &[u8]) -> Result<Digest, StoreError> {
        let digest = Digest::of(bytes);
        if self.index().object(&digest)?.is_some() {
            return Ok(digest);
        }
        let mut guard = self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let writer = match guard.as_mut() {
            Some(writer) => writer,
            None => guard.insert(PackWriter::create(&self.root)?),
        };
        let digest = self.put_object(writer, bytes)?;
        writer.sync()?;
        self.index().commit(writer, &[])?;
        Ok(digest)
    }

    /// Writes a record that the index has into a pack again; false when the
    /// index does not hold it as it was written.
    fn rewrite(&self, digest: Digest, record: &Record) -> Result<bool, StoreError> {
        let body = serde_json::to_vec(record).unwrap_or_default();
        if Digest::of(&body) != digest {
            return Ok(false);
        }
        let mut guard = self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let writer = match guard.as_mut() {
            Some(writer) => writer,
            None => guard.insert(PackWriter::create(&self.root)?),
        };
        let (header, payload) = pack::frame(pack::FrameKind::Record, digest, &body);
        writer.append(header, &payload);
        writer.sync()?;
        self.index().commit(writer, &[])?;
        Ok(true)
    }

    fn index(&self) -> std::sync::MutexGuard<'_, Index> {
        // A panic while holding the lock leaves the database itself consistent.
        self.index.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
