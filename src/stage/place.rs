//! The private place of a server: its home, its temporary folder, its own
//! copy of the corpus, its state.
//!
//! The path of a place depends only on the store and the ingest's key, so a
//! consumer meets its server's files where the ingest left them. A lock keeps
//! two runs from using one place at once.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Failure, Job};
use crate::corpus::{Corpus, check_copy};
use crate::digest::Digest;
use crate::fsio::tree::{self, Node, Tree};
use crate::fsio::{self, FsError};
use crate::manifest::server::Server;
use crate::process;

/// A server's private place.
pub(super) struct Place {
    pub(super) root: PathBuf,
    pub(super) corpus: PathBuf,
    pub(super) home: PathBuf,
    pub(super) tmp: PathBuf,
    pub(super) state: PathBuf,
    /// Port that is free now, for servers that want one.
    pub(super) port: u16,
    /// Held while the place is in use.
    _lock: File,
}

impl Place {
    /// Makes the place anew with a copy of the corpus.
    pub(super) async fn make(job: &Job, ingest_key: &Digest, corpus: &Corpus) -> Result<Self, Failure> {
        let base = job.store.root().join("places");
        fsio::create_dir(&base)?;
        let name = ingest_key.short();
        let lock = fsio::append(&base.join(format!("{name}.lock")))?;
        while lock.try_lock().is_err() {
            if job.cancel.is_cancelled() {
                return Err(super::server::cancelled());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let root = base.join(&name);
        fsio::remove_dir(&root)?;
        let place = Self {
            corpus: root.join("corpus"),
            home: root.join("home"),
            tmp: root.join("tmp"),
            state: root.join("state"),
            port: crate::mcp::free_port().unwrap_or(0),
            root,
            _lock: lock,
        };
        for folder in [&place.home, &place.tmp, &place.state] {
            fsio::create_dir(folder)?;
        }
        tree::copy(&corpus.path, &place.corpus)?;
        Ok(place)
    }

    /// Puts what an ingest left over the fresh copy.
    pub(super) fn restore(&self, job: &Job, state: &Digest) -> Result<(), Failure> {
        job.store.restore(state, &self.root)?;
        Ok(())
    }

    /// Moves all that is in the place into the attempt's own folder, and frees the place.
    pub(super) fn give_up(self, job: &Job) -> Result<PathBuf, Failure> {
        let target = job.scratch.join("place");
        fsio::rename(&self.root, &target)?;
        Ok(target)
    }

    /// Replaces `{corpus}`, `{state}`, `{home}`, `{tmp}`, `{proofline}`, `{port}`.
    pub(super) fn fill(&self, text: &str, exe: &Path) -> String {
        let mut out = text.to_owned();
        let show = |p: &Path| p.to_string_lossy().into_owned();
        for (name, value) in [
            ("{corpus}", show(&self.corpus)),
            ("{state}", show(&self.state)),
            ("{home}", show(&self.home)),
            ("{tmp}", show(&self.tmp)),
            ("{proofline}", show(exe)),
            ("{port}", self.port.to_string()),
        ] {
            out = out.replace(name, &value);
        }
        out
    }

    /// A command's words: placeholders replaced, files of the project by their full path.
    pub(super) fn command(&self, words: &[String], job: &Job) -> Vec<String> {
        let root = &job.pipeline.root;
        let base = job.arm.map_or(root.as_path(), |at| job.pipeline.arms[at].base(root));
        words
            .iter()
            .map(|word| match super::identity::file_of(word, base) {
                Some(path) => path.to_string_lossy().into_owned(),
                None => self.fill(word, &job.exe),
            })
            .collect()
    }

    /// The complete environment of a server or of a command before it.
    pub(super) fn env(&self, preset: &Server, job: &Job) -> BTreeMap<String, String> {
        let mut env = process::base_env(&self.home, &self.tmp);
        for (name, value) in &preset.env {
            env.insert(name.clone(), self.fill(value, &job.exe));
        }
        for name in &preset.secrets {
            if let Some(value) = process::secret(name) {
                env.insert(name.clone(), value);
            }
        }
        env
    }

    /// Corpus files that changed or appeared outside the preset's `writes`.
    pub(super) fn changes(&self, preset: &Server, original: &Tree) -> Vec<String> {
        check_copy(&self.corpus, original, &preset.writes)
    }

    /// Removes from the corpus copy what is as it was, so that only what the
    /// server added is left, and gives the size of everything in bytes.
    pub(super) fn strip(&self, preset: &Server, original: &Tree, job: &Job) -> Result<u64, FsError> {
        let known: BTreeMap<&str, &Node> =
            original.entries.iter().map(|e| (e.path.as_str(), &e.node)).collect();
        for path in tree::list(&self.corpus)? {
            let full = self.corpus.join(&path);
            let same = match known.get(path.as_str()) {
                Some(Node::File { digest, .. }) => tree::hash_file(&full).is_ok_and(|d| d == *digest),
                Some(Node::Link(_)) => true,
                None => false,
            };
            if same {
                fsio::remove_file(&full)?;
            }
        }
        let mut bytes =
            size_of(&self.corpus) + size_of(&self.home) + size_of(&self.tmp) + size_of(&self.state);
        for extra in &preset.state {
            let path = PathBuf::from(self.fill(extra, &job.exe));
            if !path.starts_with(&self.root) {
                bytes += size_of(&path);
            }
        }
        Ok(bytes)
    }
}

/// Sum of the sizes of the regular files under a folder; 0 when there is none.
fn size_of(root: &Path) -> u64 {
    tree::list(root)
        .unwrap_or_default()
        .iter()
        .filter_map(|path| fs::symlink_metadata(root.join(path)).ok())
        .filter(fs::Metadata::is_file)
        .map(|meta| meta.len())
        .sum()
}
