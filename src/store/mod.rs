//! The store: content-addressed objects, records, journals.
//!
//! ```text
//! .proofline/
//!   format                 one line: the layout's version
//!   packs/ID.pack          small objects and records, append-only, one writer each
//!   objects/ab/cdef...     large objects, one file each
//!   runs/RUN/journal.jsonl one journal per run
//!   live/RUN               runs that have not ended in order
//!   pins/ID.json           what `gc` keeps because it was asked to
//!   quarantine/KEY.json    records that are disowned, and why
//!   index.sqlite           answers without opening objects; rebuilt from the rest
//!   attempts/              folders of paid attempts, until they are settled
//!   leases.lock            one byte per key that is worked on; always empty
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
mod lease;
pub mod ledger;
pub mod listing;
pub mod moving;
mod object;
mod pack;
pub mod pins;
pub mod quarantine;
pub mod record;
mod scan;
pub mod sign;
mod standing;
mod verify;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

pub use gc::GcReport;
pub use object::Found;
pub use record::{Outcome, PartRef, Record};
pub use standing::{Arrival, Untrusted};
pub use verify::{Problem, VerifyReport};

use crate::digest::Digest;
use crate::fsio::{self, Durability, FsError};
use index::Index;
use pack::PackWriter;
use sign::PublicKey;

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
    /// Another run has taken a node over; what this one does for it doesn't count.
    #[error("`{0}` was taken over by another run, since this one gave no sign of life")]
    Fenced(String),
    /// What it could cost at most is more than what may still be spent.
    #[error("`{0}` could pass the budget")]
    Budget(String),
    /// Nothing can be deleted while a run is going on.
    #[error("run {0} is going on in this store; delete when it has ended")]
    Busy(String),
    /// A secret key that can't be used.
    #[error("the key in `{}` can't be used: {why}", path.display())]
    Key {
        /// Its file.
        path: PathBuf,
        /// Why.
        why: String,
    },
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
    /// What the ledger says of it from now on.
    pub ledger: Option<ledger::Entry>,
}

impl Publication {
    /// Bytes of it that are held in memory.
    #[must_use]
    pub fn held(&self) -> usize {
        let of = |part: &(String, PartContent)| match &part.1 {
            PartContent::Bytes(bytes) => bytes.len(),
            PartContent::Shared(shared) => shared.bytes.len(),
            PartContent::File(_) | PartContent::Tree(_) => 0,
        };
        self.recipe.len() + self.parts.iter().map(of).sum::<usize>()
    }
}

/// Content of a part.
#[derive(Clone, Debug)]
pub enum PartContent {
    /// Bytes.
    Bytes(Vec<u8>),
    /// Bytes that several parts share.
    Shared(Shared),
    /// A file; read when it is published.
    File(PathBuf),
    /// A folder: each file becomes an object, the listing is the part.
    Tree(PathBuf),
}

/// Bytes that are held, and whose digest is made, once for all parts that they become.
#[derive(Clone, Debug)]
pub struct Shared {
    digest: Digest,
    bytes: Arc<[u8]>,
}

impl Shared {
    /// Bytes to be shared.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { digest: Digest::of(&bytes), bytes: bytes.into() }
    }
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
    /// Another run has taken the node over: nothing was published.
    pub fenced: bool,
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
    leases: fsio::ByteLocks,
    /// Packs that were read from, by id.
    open_packs: Mutex<HashMap<String, Arc<File>>>,
    origin: String,
    /// Holds the index of a store that can only be read.
    _aside: Option<tempfile::TempDir>,
}

/// Whether a disk can't be written, whoever asks.
fn is_read_only(error: &FsError) -> bool {
    matches!(
        error.source.kind(),
        std::io::ErrorKind::ReadOnlyFilesystem | std::io::ErrorKind::PermissionDenied
    )
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
        for folder in ["packs", "objects", "runs", "cache", "tmp", "attempts"] {
            fsio::create_dir(&root.join(folder))?;
        }
        let origin = Self::origin_of(root)?;
        // SQLite refuses at once, without waiting, when two processes make one database.
        let opening = fsio::append(&root.join("opening.lock"))?;
        fsio::at(opening.lock(), "can't lock", &root.join("opening.lock"))?;
        let mut index = Index::open(&root.join("index.sqlite"))?;
        index.disown(&quarantine::disowned(root)?)?;
        index.take_in(root)?;
        drop(opening);
        let leases = fsio::ByteLocks::open(&root.join("leases.lock"))?;
        Ok(Self {
            root: root.to_owned(),
            index: Mutex::new(index),
            writer: Mutex::new(None),
            leases,
            open_packs: Mutex::default(),
            origin,
            _aside: None,
        })
    }

    /// Opens the store in `root` if there is one.
    ///
    /// # Errors
    /// See [`Self::open`].
    pub fn open_existing(root: &Path) -> Result<Option<Self>, StoreError> {
        if !root.join("format").exists() {
            return Ok(None);
        }
        match Self::open(root) {
            Err(StoreError::Fs(error)) if is_read_only(&error) => Self::open_to_read(root).map(Some),
            other => other.map(Some),
        }
    }

    /// Opens a store on a disk that can't be written: its index is made anew in a folder of its own.
    fn open_to_read(root: &Path) -> Result<Self, StoreError> {
        let aside = tempfile::Builder::new().prefix("proofline-").tempdir();
        let aside = fsio::at(aside, "can't make a folder in", &std::env::temp_dir())?;
        let mut index = Index::open(&aside.path().join("index.sqlite"))?;
        index.disown(&quarantine::disowned(root)?)?;
        index.take_in(root)?;
        let origin =
            String::from_utf8_lossy(&fsio::read_limited(&root.join("origin"), 256)?).trim().to_owned();
        let leases = fsio::ByteLocks::open(&aside.path().join("leases.lock"))?;
        let (index, writer) = (Mutex::new(index), Mutex::new(None));
        Ok(Self {
            root: root.to_owned(),
            index,
            writer,
            leases,
            open_packs: Mutex::default(),
            origin,
            _aside: Some(aside),
        })
    }

    /// Puts the index aside and makes it anew from packs, objects and journals.
    fn rebuild_index(&self) -> Result<(), StoreError> {
        let path = self.root.join("index.sqlite");
        let mut index = self.index();
        index::set_aside(&path)?;
        *index = Index::open(&path)?;
        index.disown(&quarantine::disowned(&self.root)?)?;
        index.take_in(&self.root)
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

    /// Makes these signers the ones whose records from elsewhere may be hits. They stay it
    /// until others are named.
    ///
    /// # Errors
    /// When the index fails.
    pub fn trust(&self, signers: &BTreeSet<PublicKey>) -> Result<(), StoreError> {
        self.index().trust(signers)
    }

    /// Records from elsewhere that are no hits because nobody signed them or a stranger did.
    ///
    /// # Errors
    /// When the index fails.
    pub fn untrusted(&self) -> Result<Vec<Untrusted>, StoreError> {
        self.index().untrusted()
    }

    /// How a record came here; none for one that was made here.
    ///
    /// # Errors
    /// When the index fails.
    pub fn arrival(&self, record: &Digest) -> Result<Option<Arrival>, StoreError> {
        self.index().arrival(record)
    }

    /// Why a record is no hit although it is whole, in a word: `quarantined`
    /// or `untrusted`; none when neither is the cause.
    ///
    /// # Errors
    /// When the index fails.
    pub fn refusal(&self, record: &Digest) -> Result<Option<&'static str>, StoreError> {
        self.index().refusal(record)
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

    /// A folder for paid attempts: kept until they are settled.
    #[must_use]
    pub fn attempts_dir(&self) -> PathBuf {
        self.root.join("attempts")
    }

    /// A number that changes when another process has changed the index.
    ///
    /// # Errors
    /// When the index fails.
    pub fn version(&self) -> Result<i64, StoreError> {
        self.index().version()
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

    /// The newest accepted record of a cell that was paid for.
    ///
    /// # Errors
    /// When the index fails.
    pub fn paid_of_cell(&self, pipeline: &str, node: &str) -> Result<Option<Record>, StoreError> {
        self.index().paid_of_cell(pipeline, node)
    }

    /// All attempts of a key, oldest first.
    ///
    /// # Errors
    /// When the index fails.
    pub fn attempts(&self, key: &Digest) -> Result<Vec<Record>, StoreError> {
        self.index().attempts(key)
    }

    /// Publishes results: objects, records, one sync, then the index. What
    /// another run has taken over meanwhile is left out.
    ///
    /// # Errors
    /// When the file system or the index fails; then none of the batch is accepted.
    pub fn publish(&self, batch: Vec<Publication>) -> Result<Vec<Published>, StoreError> {
        let mut staged = Vec::with_capacity(batch.len());
        let mut guard = self.writer();
        let writer = self.opened(&mut guard)?;
        for publication in batch {
            staged.push(self.stage(writer, publication)?);
        }
        let mut index = self.index();
        // From here on nobody can take anything over.
        let tx = index.begin()?;
        let mut out = Vec::with_capacity(staged.len());
        let mut entries = Vec::new();
        for (one, entry) in &staged {
            let fenced = index::fenced(&tx, &one.record.key, &one.record.run)?;
            if !fenced {
                object::append_record(writer, one)?;
                entries.extend(entry.as_ref().map(|entry| ledger::stage(writer, entry)));
            }
            out.push(Published { record: one.record.clone(), digest: one.digest, accepted: false, fenced });
        }
        writer.sync()?;
        index::took(&tx, writer)?;
        for entry in &entries {
            ledger::insert_ledger(&tx, entry)?;
        }
        for ((one, _), published) in staged.iter().zip(&mut out) {
            published.accepted = !published.fenced && index::insert_record(&tx, one)?;
        }
        tx.commit()?;
        writer.indexed();
        Ok(out)
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
        let mut guard = self.writer();
        let writer = self.opened(&mut guard)?;
        let digest = self.put_object(writer, bytes)?;
        if !writer.fresh().is_empty() {
            writer.sync()?;
            self.index().commit(writer, &[])?;
        }
        Ok(digest)
    }

    /// Writes a record that the index has into a pack again; false when the
    /// index does not hold it as it was written.
    fn rewrite(&self, digest: Digest, record: &Record) -> Result<bool, StoreError> {
        let body = record.body();
        if Digest::of(&body) != digest {
            return Ok(false);
        }
        // One from elsewhere must not become one of ours.
        let (kind, digest, body) = match self.arrival(&digest)? {
            None => (pack::FrameKind::Record, digest, body),
            Some(arrival) => {
                let envelope = moving::envelope(&body, arrival.signature, arrival.arrived);
                (pack::FrameKind::Arrival, Digest::of(&envelope), envelope)
            }
        };
        self.with_writer(|writer, index| {
            let (header, payload) = pack::frame(kind, digest, &body);
            writer.append(header, &payload);
            writer.sync()?;
            index.commit(writer, &[])?;
            Ok(true)
        })
    }

    fn with_writer<T>(
        &self,
        work: impl FnOnce(&mut PackWriter, &mut Index) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut guard = self.writer();
        let writer = self.opened(&mut guard)?;
        work(writer, &mut self.index())
    }

    fn writer(&self) -> std::sync::MutexGuard<'_, Option<PackWriter>> {
        self.writer.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// This process's pack, made when it is first written to.
    fn opened<'a>(&self, writer: &'a mut Option<PackWriter>) -> Result<&'a mut PackWriter, StoreError> {
        if writer.as_ref().is_some_and(PackWriter::is_broken) {
            *writer = None;
        }
        match writer {
            Some(writer) => Ok(writer),
            None => Ok(writer.insert(PackWriter::create(&self.root)?)),
        }
    }

    fn index(&self) -> std::sync::MutexGuard<'_, Index> {
        // A panic while holding the lock leaves the database itself consistent.
        self.index.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
