//! Code that citations are checked against: an exported tree, git objects, or texts in memory.
//!
//! Only what the listing names is ever opened, without following a link. Texts are read when
//! first asked for and kept within a bound; counts of lines stay known.

mod cache;
mod objects;
mod open;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::error::CorpusError;
use super::{Corpus, staging, symbols};
use crate::fsio;
use crate::fsio::tree::{self, Entry, Node, Tree};
use crate::grade::citation::{FileId, Kind, LARGEST, Listing, Source, Text, Unreadable};

use cache::{Cache, Loaded};
use objects::Objects;
use open::Folder;

/// Bytes that kept texts may take with their indexes.
pub const KEPT: usize = 256 << 20;

/// Where the bytes of files come from.
enum Store {
    Folder(Folder),
    Objects(Objects),
    Memory(Vec<Vec<u8>>),
}

/// The files of a corpus with their lines, words and definitions.
pub struct Ground {
    listing: Listing,
    store: Store,
    cache: Mutex<Cache>,
}

impl std::fmt::Debug for Ground {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ground").field("files", &self.listing.len()).finish_non_exhaustive()
    }
}

impl Ground {
    fn new(listing: Listing, store: Store) -> Self {
        Self { listing, store, cache: Mutex::new(Cache::new(KEPT)) }
    }

    /// The same with another bound on what is kept, in bytes.
    #[must_use]
    pub fn keeping(mut self, bytes: usize) -> Self {
        self.cache = Mutex::new(Cache::new(bytes));
        self
    }

    /// The files of a corpus that was fetched.
    ///
    /// # Errors
    /// When its folder is not there.
    pub fn of_corpus(corpus: &Corpus) -> Result<Self, CorpusError> {
        Self::of_tree(&corpus.path, &corpus.tree)
    }

    /// The files that `tree` names, in the folder `root`.
    ///
    /// # Errors
    /// When the folder is not there.
    pub fn of_tree(root: &Path, tree: &Tree) -> Result<Self, CorpusError> {
        let kind = |entry: &Entry| match &entry.node {
            Node::File { .. } => Kind::File,
            Node::Link(target) if staging::is_blunt(&entry.path, target) => Kind::Astray,
            Node::Link(_) => Kind::Link,
        };
        let entries = tree.entries.iter().map(|entry| (entry.path.clone(), kind(entry)));
        let listing = Listing::new(entries.filter(|(path, _)| tree::plain(path).is_ok()));
        Ok(Self::new(listing, Store::Folder(Folder::open(root)?)))
    }

    /// All regular files and links below the folder `root`, without a repository's own data.
    ///
    /// # Errors
    /// When it can't be listed.
    pub fn of_folder(root: &Path) -> Result<Self, CorpusError> {
        let mut entries = Vec::new();
        for path in tree::list(root)?.into_iter().filter(|path| !staging::is_private(path)) {
            let full = root.join(&path);
            let meta = fsio::at(std::fs::symlink_metadata(&full), "can't look at", &full)?;
            entries.push((path, if meta.file_type().is_symlink() { Kind::Link } else { Kind::File }));
        }
        Ok(Self::new(Listing::new(entries), Store::Folder(Folder::open(root)?)))
    }

    /// The files of a commit (a hash, tag or branch) of the git repository at `path`, from its
    /// objects; with `subdir` only what is in that folder.
    ///
    /// # Errors
    /// When there is no such repository, commit or folder.
    pub fn of_git(path: &Path, commit: &str, subdir: Option<&str>) -> Result<Self, CorpusError> {
        let subdir = super::check_subdir(subdir)?;
        let (objects, entries) = Objects::open(path, commit, subdir)?;
        let listing = Listing::new(entries.iter().map(|(path, (kind, _))| (path.clone(), *kind)));
        let ids = listing.iter().filter_map(|(_, path, _)| entries.get(path).map(|(_, id)| *id)).collect();
        Ok(Self::new(listing, Store::Objects(objects.with(ids))))
    }

    /// Files in memory.
    #[must_use]
    pub fn of_memory(files: BTreeMap<String, Vec<u8>>) -> Self {
        let listing = Listing::new(files.keys().map(|path| (path.clone(), Kind::File)));
        Self::new(listing, Store::Memory(files.into_values().collect()))
    }

    fn cache(&self) -> MutexGuard<'_, Cache> {
        // What is kept is whole at every moment.
        self.cache.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn bytes(&self, file: FileId) -> Result<Vec<u8>, Unreadable> {
        if self.listing.kind(file) != Kind::File {
            return Err(Unreadable::Failed("it is a link".to_owned()));
        }
        match &self.store {
            Store::Folder(folder) => folder.read(self.listing.path(file), LARGEST),
            Store::Objects(objects) => objects.read(file, LARGEST),
            Store::Memory(files) => match files.get(file.index()) {
                Some(bytes) if bytes.len() as u64 > LARGEST => Err(Unreadable::TooLarge),
                Some(bytes) => Ok(bytes.clone()),
                None => Err(Unreadable::Failed("it isn't there".to_owned())),
            },
        }
    }

    fn load(&self, file: FileId) -> Result<Arc<Loaded>, Unreadable> {
        if let Some(known) = self.cache().get(file) {
            return known;
        }
        let text =
            self.bytes(file).and_then(|bytes| Text::from_bytes(&bytes).map_err(|_| Unreadable::Binary));
        let loaded = text.map(|text| Arc::new(Loaded::new(text)));
        self.cache().put(file, loaded.clone());
        loaded
    }
}

impl Source for Ground {
    fn listing(&self) -> &Listing {
        &self.listing
    }

    fn text(&self, file: FileId) -> Result<Arc<Text>, Unreadable> {
        self.load(file).map(|loaded| Arc::clone(&loaded.text))
    }

    fn line_count(&self, file: FileId) -> Result<u64, Unreadable> {
        if let Some(known) = self.cache().count(file) {
            return known;
        }
        self.load(file).map(|loaded| loaded.text.line_count())
    }

    fn definitions(&self, file: FileId, name: &str) -> Vec<u64> {
        let Ok(loaded) = self.load(file) else { return Vec::new() };
        let all = loaded.definitions.get_or_init(|| {
            let found = symbols::definitions(self.listing.path(file), loaded.text.content());
            let mut all: Vec<_> = found.unwrap_or_default().into_iter().map(|s| (s.name, s.line)).collect();
            all.sort_unstable();
            all.dedup();
            all
        });
        let from = all.partition_point(|(have, _)| have.as_str() < name);
        all[from..].iter().take_while(|(have, _)| have == name).map(|(_, line)| *line).collect()
    }
}

#[cfg(test)]
mod tests;
