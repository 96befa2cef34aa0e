//! Corpora: the code that is searched, as a clean tree from a pinned source.
//!
//! [`Corpora::fetch`] brings a source in and returns a read-only tree without
//! `.git`; whoever lets a server write works on a copy ([`crate::fsio::tree::copy`])
//! and asks [`check_copy`] afterwards. [`Corpora::peek`] only says what is
//! known already: it starts no process and uses no network.
//!
//! A tree's identity is its digest: the same files from git, from an archive
//! or from a folder are the same corpus.

mod archive;
mod cache;
mod client;
mod copy;
mod error;
mod folder;
mod git;
pub mod grammar;
pub mod ground;
mod known;
mod registry;
mod remote;
mod staging;
mod stamps;
pub mod symbols;
mod text;
mod verify;

use std::path::{Path, PathBuf};

use serde_json::json;
use sha2::{Digest as _, Sha256};

pub use crate::manifest::origin::{
    FORMS, Source, SourceError, archive as archive_source, is_archive_name, parse_set,
};
pub use copy::check_copy;
pub use error::CorpusError;
pub use known::known_answer;
pub use staging::Limits;
pub use verify::{Place, Problem, verify};

use cache::{Cache, Record};
use staging::{Policy, Staging};

use crate::digest::Digest;
use crate::fsio::tree::{self, Tree};
use crate::fsio::{self, Scratch};
use crate::manifest::origin as source;
use crate::shipped;

/// A corpus that is there.
#[derive(Clone, Debug)]
pub struct Corpus {
    /// The read-only tree.
    pub path: PathBuf,
    /// What is in it.
    pub tree: Tree,
    /// Digest of the tree.
    pub digest: Digest,
    /// Where it came from, for people, e.g. `flask 3.1.0 source distribution, SHA-256 5f87...`.
    pub origin: String,
    /// SHA-256 of the archive that it was unpacked from, hex.
    pub sha256: Option<String>,
    /// Remarks for people, e.g. entries that were left out.
    pub notes: Vec<String>,
    /// Made when somebody first looks something up.
    pub(crate) ground: Looked,
}

/// A corpus's index for looking things up, shared by all copies of it.
pub(crate) type Looked = std::sync::Arc<std::sync::OnceLock<std::sync::Arc<ground::Ground>>>;

impl Corpus {
    /// Its files with their lines, words and definitions; made once.
    ///
    /// # Errors
    /// When its folder is not there.
    pub fn ground(&self) -> Result<std::sync::Arc<ground::Ground>, CorpusError> {
        if let Some(ground) = self.ground.get() {
            return Ok(std::sync::Arc::clone(ground));
        }
        let ground = std::sync::Arc::new(ground::Ground::of_corpus(self)?);
        Ok(std::sync::Arc::clone(self.ground.get_or_init(|| ground)))
    }
}

/// Brings corpora in and keeps them.
pub struct Corpora {
    cache: Cache,
    offline: bool,
    limits: Limits,
}

/// A source of which it is known what identifies it.
enum Pinned {
    /// By name: which tree it came to is recorded under this key.
    Key(Digest),
    /// By content.
    Content(Digest),
}

impl Corpora {
    /// Corpora kept in `cache` (made when needed); `offline` forbids the network.
    #[must_use]
    pub fn new(cache: PathBuf, offline: bool) -> Self {
        Self { cache: Cache::new(cache), offline, limits: Limits::CORPUS }
    }

    /// The same with other bounds.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        Self { limits, ..self }
    }

    /// The digest of a source's tree, when it is known without process and
    /// network: computed for folders and embedded corpora, looked up for
    /// others. Writes nothing.
    #[must_use]
    pub fn peek(&self, source: &Source, subdir: Option<&str>) -> Option<Digest> {
        let subdir = check_subdir(subdir).ok()?;
        match self.pinned(source, subdir, false).ok()? {
            Pinned::Content(digest) => Some(digest),
            Pinned::Key(key) => {
                let record = self.cache.record(key)?;
                let pin = pin_of(source);
                let meant = pin.is_none() || pin == record.sha256.as_deref();
                (meant && self.cache.has(record.digest)).then_some(record.digest)
            }
        }
    }

    /// The corpus of a source; `repo` names it in messages, `subdir` takes only that folder of it.
    ///
    /// Blocks until it is there. What is in the cache and unchanged is
    /// returned without network; anything else is made again.
    ///
    /// # Errors
    /// When the source is not there, differs from its pin, is refused, or
    /// would need a network that may not be used.
    pub fn fetch(&self, repo: &str, source: &Source, subdir: Option<&str>) -> Result<Corpus, CorpusError> {
        let subdir = check_subdir(subdir)?;
        check(source)?;
        match self.pinned(source, subdir, true)? {
            Pinned::Content(digest) => {
                if let Some((path, tree)) = self.cache.published(digest) {
                    let origin = source.describe();
                    return Ok(Corpus {
                        path,
                        tree,
                        digest,
                        origin,
                        sha256: None,
                        notes: Vec::new(),
                        ground: Looked::default(),
                    });
                }
                self.export(repo, source, subdir, None)
            }
            Pinned::Key(key) => {
                if let Some(record) = self.cache.record(key)
                    && pin_of(source).is_none_or(|pin| Some(pin) == record.sha256.as_deref())
                    && let Some((path, tree)) = self.cache.published(record.digest)
                {
                    let Record { digest, origin, sha256, notes } = record;
                    return Ok(Corpus {
                        path,
                        tree,
                        digest,
                        origin,
                        sha256,
                        notes,
                        ground: Looked::default(),
                    });
                }
                self.export(repo, source, subdir, Some(key))
            }
        }
    }

    /// What names a source's tree; with `keep`, what was read of a folder is remembered.
    fn pinned(&self, source: &Source, subdir: Option<&str>, keep: bool) -> Result<Pinned, CorpusError> {
        let key = |identity: serde_json::Value| {
            let value = json!({ "source": identity, "subdir": subdir });
            // Only texts are in it, so it always has a canonical form.
            let tag = "proofline corpus source 1";
            let fallback = |_| Digest::tagged(tag, value.to_string().as_bytes());
            Pinned::Key(Digest::of_json(tag, &value).unwrap_or_else(fallback))
        };
        if let Some(identity) = source.identity() {
            return Ok(key(identity));
        }
        match source {
            Source::Checkout { path, commit } => {
                source::check_revision(commit)?;
                let repository = git::open(path)?;
                // By commit, not by path: it may be moved, and is the same from elsewhere.
                Ok(key(json!({ "git": git::resolve(&repository, commit, &source::last_name(path))? })))
            }
            Source::File(path) => {
                let sha256 = sha256_of(path, "archive file")?;
                Ok(key(json!({ "archive": sha256 })))
            }
            Source::Cited { path, commit: Some(commit) } => {
                let repository = git::open(path)?;
                Ok(key(json!({ "cited": git::resolve_id(&repository, commit, path)? })))
            }
            Source::Folder(path) | Source::Cited { path, commit: None } => {
                let policy = policy(source);
                let root = folder::real(path)?;
                let paths = folder::list(&root, self.limits, policy != Policy::Refuse)?;
                let mut stamps = self.cache.stamps(&root);
                let tree = folder::look(&root, &paths, subdir, policy, &mut stamps)?;
                if keep {
                    stamps.save();
                }
                Ok(Pinned::Content(tree.digest()))
            }
            Source::Embedded(name) => Ok(Pinned::Content(embedded(name, subdir)?.digest())),
            Source::Git { .. } | Source::Archive { .. } => Err(CorpusError::Empty(source.describe())),
        }
    }

    /// Makes the tree from its source and publishes it.
    fn export(
        &self,
        repo: &str,
        source: &Source,
        subdir: Option<&str>,
        key: Option<Digest>,
    ) -> Result<Corpus, CorpusError> {
        let tmp = self.cache.tmp();
        let mut origin = source.describe();
        let policy = policy(source);
        let mut staging = Staging::new(&tmp, &origin, policy, self.limits)?;
        let mut sha256 = None;
        let staged = match source {
            Source::Embedded(name) => {
                for (path, bytes) in embedded_files(name) {
                    staging.file(path, false, &mut &bytes[..])?;
                }
                staging.finish(false, subdir)?
            }
            Source::Folder(path) | Source::Cited { path, commit: None } => {
                let root = folder::real(path)?;
                let paths = folder::list(&root, self.limits, policy != Policy::Refuse)?;
                folder::take(&root, &paths, subdir, &mut staging)?;
                staging.finish(false, subdir)?
            }
            Source::Checkout { path, commit } => {
                let repository = git::open(path)?;
                let name = source::last_name(path);
                let commit = git::resolve(&repository, commit, &name)?;
                origin = format!("local git repository {name} at {commit}");
                git::take(&repository, &commit, subdir, &name, &mut staging)?;
                staging.finish(false, None)?
            }
            Source::Cited { path, commit: Some(commit) } => {
                let repository = git::open(path)?;
                let commit = git::resolve_id(&repository, commit, path)?;
                let name = source::last_name(path);
                origin = format!("local git repository {name} at {commit}");
                git::take(&repository, &commit, subdir, &name, &mut staging)?;
                staging.finish(false, None)?
            }
            Source::Git { url, commit } => {
                let kept = self.repository(repo, url, commit, &tmp)?;
                git::take(&git::open(&kept)?, commit, subdir, url, &mut staging)?;
                staging.finish(false, None)?
            }
            Source::Archive { .. } | Source::File(_) => {
                let (file, sum) = self.packed(repo, source, &tmp)?;
                archive::unpack(&file, &mut staging)?;
                origin = format!("{origin}, SHA-256 {sum}");
                sha256 = Some(sum);
                staging.finish(true, subdir)?
            }
        };
        let notes = staged.notes.clone();
        let (path, tree) = self.cache.publish(staged)?;
        let digest = tree.digest();
        if let Some(key) = key {
            let record =
                Record { digest, origin: origin.clone(), sha256: sha256.clone(), notes: notes.clone() };
            self.cache.remember(key, &record)?;
        }
        Ok(Corpus { path, tree, digest, origin, sha256, notes, ground: Looked::default() })
    }

    /// The archive file and its SHA-256: the user's, the cache's, or a fresh one.
    fn packed(&self, repo: &str, source: &Source, tmp: &Path) -> Result<(PathBuf, String), CorpusError> {
        let Source::Archive { registry, name, version, sha256: pin } = source else {
            let Source::File(path) = source else { return Err(CorpusError::Empty(source.describe())) };
            return Ok((path.clone(), sha256_of(path, "archive file")?));
        };
        if let Some(pin) = pin {
            let kept = self.cache.archive(pin);
            if sha256_of(&kept, "archive file").is_ok_and(|sum| sum == *pin) {
                return Ok((kept, pin.clone()));
            }
        }
        let what = source.describe();
        if self.offline {
            return Err(CorpusError::Offline { repo: repo.to_owned(), what });
        }
        let scratch = Scratch::new_in(tmp)?;
        let file = registry::fetch(*registry, name, version, &what, scratch.path())?;
        let found = sha256_of(&file, "archive file")?;
        if let Some(pin) = pin
            && *pin != found
        {
            return Err(CorpusError::Pin { origin: what, found, pinned: pin.clone() });
        }
        let kept = self.cache.archive(&found);
        if !sha256_of(&kept, "archive file").is_ok_and(|sum| sum == found) {
            Cache::replace(&file, &kept)?;
        }
        Ok((kept, found))
    }

    /// A bare repository that holds the commit: the cache's or a fresh one.
    fn repository(&self, repo: &str, url: &str, commit: &str, tmp: &Path) -> Result<PathBuf, CorpusError> {
        let kept = self.cache.repository(commit);
        let whole = |path: &Path| {
            git::open(path).and_then(|repository| git::resolve(&repository, commit, url)).is_ok()
        };
        if whole(&kept) {
            return Ok(kept);
        }
        if self.offline {
            return Err(CorpusError::Offline { repo: repo.to_owned(), what: format!("{url} at {commit}") });
        }
        let scratch = Scratch::new_in(tmp)?;
        let bare = remote::fetch(url, commit, "https", scratch.path())?;
        if fsio::rename(&kept, &scratch.path().join("damaged")).is_ok() || !kept.exists() {
            Cache::keep(&bare, &kept)?;
        }
        Ok(kept)
    }
}

/// What becomes of an entry that can't be taken.
fn policy(source: &Source) -> Policy {
    match source {
        Source::Git { .. } | Source::Checkout { .. } => Policy::Skip,
        Source::Cited { .. } => Policy::Blunt,
        _ => Policy::Refuse,
    }
}

/// Why the code that citations are to be held against can't be had, in words without a path of this
/// machine; none for other sources, and when nothing is wrong.
#[must_use]
pub fn lacks(source: &Source) -> Option<String> {
    let Source::Cited { path, commit } = source else { return None };
    let name = source::last_name(path);
    let Some(commit) = commit else {
        return Some(format!("the folder `{name}` holds no code that can be read"));
    };
    match git::open(path).and_then(|repository| git::resolve_id(&repository, commit, path)) {
        Ok(_) => None,
        Err(CorpusError::NoCommit { .. }) => {
            Some(format!("commit {commit} isn't in the repository `{name}`"))
        }
        Err(_) => Some(format!("`{name}` can't be read as a git repository")),
    }
}

fn pin_of(source: &Source) -> Option<&str> {
    match source {
        Source::Archive { sha256, .. } => sha256.as_deref(),
        _ => None,
    }
}

/// Checks what a compiled source should hold already; it may have been made by other hands.
fn check(source: &Source) -> Result<(), CorpusError> {
    match source {
        Source::Git { url, commit } => {
            source::check_url(url)?;
            source::check_commit(commit)?;
        }
        Source::Archive { registry, name, version, sha256 } => {
            let separator = if *registry == crate::manifest::server::Registry::Pypi { "==" } else { "@" };
            source::archive(*registry, &format!("{name}{separator}{version}"), sha256.as_deref())?;
        }
        Source::Checkout { .. }
        | Source::Cited { .. }
        | Source::Embedded(_)
        | Source::Folder(_)
        | Source::File(_) => {}
    }
    Ok(())
}

/// The folder without a slash at its end.
fn check_subdir(subdir: Option<&str>) -> Result<Option<&str>, CorpusError> {
    let subdir = subdir.map(|subdir| subdir.strip_suffix('/').unwrap_or(subdir));
    match subdir {
        Some(subdir) if tree::plain(subdir).is_err() => Err(SourceError::BadSubdir(subdir.to_owned()).into()),
        good => Ok(good),
    }
}

/// The files of an embedded corpus, relative to its folder.
fn embedded_files(name: &str) -> Vec<(&'static str, &'static [u8])> {
    let prefix = format!("datasets/{name}/");
    if tree::plain(name).is_err() || name.contains('/') {
        return Vec::new();
    }
    shipped::list(&prefix).map(|(path, bytes)| (&path[prefix.len()..], bytes)).collect()
}

fn embedded(name: &str, subdir: Option<&str>) -> Result<Tree, CorpusError> {
    let nodes: std::collections::BTreeMap<String, tree::Node> = embedded_files(name)
        .into_iter()
        .map(|(path, bytes)| {
            let node = tree::Node::File { size: bytes.len() as u64, exec: false, digest: Digest::of(bytes) };
            (path.to_owned(), node)
        })
        .collect();
    if nodes.is_empty() {
        return Err(CorpusError::NotEmbedded(name.to_owned()));
    }
    let mut notes = staging::Notes::default();
    let origin = format!("embedded corpus {name}");
    Ok(staging::choose(nodes, &origin, Policy::Refuse, false, subdir, &mut notes)?.tree)
}

fn sha256_of(path: &Path, expected: &'static str) -> Result<String, CorpusError> {
    let missing = || CorpusError::NotThere { path: path.to_owned(), expected };
    if !path.is_file() {
        return Err(missing());
    }
    let mut file = fsio::at(std::fs::File::open(path), "can't read", path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0u8; 128 << 10];
    loop {
        let got = fsio::at(std::io::Read::read(&mut file, &mut buffer), "can't read", path)?;
        if got == 0 {
            break;
        }
        hasher.update(&buffer[..got]);
    }
    // Two hex digits per byte, by the digest type that has the same shape.
    let mut bytes = [0u8; 32];
    bytes.copy_from_slice(&hasher.finalize());
    Ok(Digest::from_bytes(bytes).hex())
}
