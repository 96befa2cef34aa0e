//! Facts about the outside that recipes hold: corpora, servers, project files.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::GlobBuilder;
use serde_json::Value;

use super::EngineError;
use crate::corpus::{Corpora, Corpus, Source};
use crate::digest::Digest;
use crate::fsio::tree;
use crate::manifest::lock::Lock;
use crate::plan::compiled::Compiled;
use crate::plan::key;
use crate::stage::identity;

/// Most files that one pattern may name.
const MAX_FILES: usize = 100_000;

/// A remembered digest: device, inode, size, modification and change time
/// (seconds and nanoseconds), and the digest that the file had then.
type Stat = (u64, u64, u64, i64, i64, i64, i64);

/// A pattern's files: relative path and digest; or why there are none.
type Files = Result<Arc<Vec<(String, Digest)>>, String>;

/// The outside as one command sees it.
pub struct World {
    root: PathBuf,
    digests: BTreeMap<String, Digest>,
    servers: Vec<Option<Value>>,
    /// Arms whose server's identity rests on its stated version only.
    pub unlocked: Vec<String>,
    files: RefCell<HashMap<String, Files>>,
    known: RefCell<HashMap<PathBuf, (Stat, Digest)>>,
}

/// Repositories whose corpora the pipeline's nodes need.
fn needed(pipeline: &Compiled) -> impl Iterator<Item = (&String, &Source, Option<&str>)> {
    let axis = pipeline.axes.iter().find(|a| a.name == crate::manifest::axis::REPO);
    let named: Vec<&String> = axis.map(|a| a.values.iter().map(|v| &v.text).collect()).unwrap_or_default();
    let any = pipeline.stages.iter().any(|s| matches!(s.kind(), "ingest" | "session"));
    pipeline
        .repos
        .iter()
        .filter(move |(name, _)| any && named.contains(name))
        .map(|(name, r)| (name, &r.source, r.entry.subdir.as_deref()))
}

/// Brings in all corpora that the pipeline needs.
///
/// # Errors
/// When one can't be had.
pub fn fetch(pipeline: &Compiled, corpora: &Corpora) -> Result<BTreeMap<String, Corpus>, EngineError> {
    let mut out = BTreeMap::new();
    for (name, source, subdir) in needed(pipeline) {
        let corpus = corpora
            .fetch(name, source, subdir)
            .map_err(|source| EngineError::Corpus { repo: name.clone(), source })?;
        out.insert(name.clone(), corpus);
    }
    Ok(out)
}

/// Digests of the corpora that are there already, without process or network.
#[must_use]
pub fn peek(pipeline: &Compiled, corpora: &Corpora) -> BTreeMap<String, Digest> {
    needed(pipeline)
        .filter_map(|(name, source, subdir)| Some((name.clone(), corpora.peek(source, subdir)?)))
        .collect()
}

impl World {
    /// Gathers the servers' identities; corpora are given by digest.
    #[must_use]
    pub fn new(pipeline: &Compiled, digests: BTreeMap<String, Digest>, lock: Option<&Lock>) -> Self {
        let mut world = Self {
            root: pipeline.root.clone(),
            digests,
            servers: Vec::new(),
            unlocked: Vec::new(),
            files: RefCell::default(),
            known: RefCell::default(),
        };
        for arm in &pipeline.arms {
            let identity = arm.server.as_ref().map(|preset| {
                let base = arm.base(&pipeline.root);
                let locked = lock.and_then(|l| l.server.get(&preset.name)).map(|s| s.digest.hex());
                if identity::is_unlocked(preset, base, locked.as_deref()) {
                    world.unlocked.push(arm.name.clone());
                }
                identity::server(preset, base, locked.as_deref(), &mut |path| world.digest(path))
            });
            world.servers.push(identity);
        }
        world
    }

    /// Digest of a file; read again only when its status has changed.
    fn digest(&self, path: &Path) -> Option<Digest> {
        let meta = std::fs::metadata(path).ok()?;
        let stat = (
            meta.dev(),
            meta.ino(),
            meta.len(),
            meta.mtime(),
            meta.mtime_nsec(),
            meta.ctime(),
            meta.ctime_nsec(),
        );
        if let Some((then, digest)) = self.known.borrow().get(path)
            && *then == stat
        {
            return Some(*digest);
        }
        let digest = tree::hash_file(path).ok()?;
        self.known.borrow_mut().insert(path.to_owned(), (stat, digest));
        Some(digest)
    }

    fn find(&self, pattern: &str) -> Files {
        if tree::plain(pattern).is_ok() {
            let path = self.root.join(pattern);
            if path.is_file() {
                let digest = self.digest(&path).ok_or_else(|| format!("input `{pattern}` can't be read"))?;
                return Ok(Arc::new(vec![(pattern.to_owned(), digest)]));
            }
            if path.is_dir() {
                return self.matching(pattern, &format!("{pattern}/**"));
            }
        }
        self.matching(pattern, pattern)
    }

    fn matching(&self, said: &str, pattern: &str) -> Files {
        let nothing = || Err(format!("input `{said}` names no file of the project"));
        if pattern.starts_with('/') || pattern.split('/').any(|part| part == "..") {
            return Err(format!("input `{said}` leaves the project; write a path below its root"));
        }
        let glob = GlobBuilder::new(pattern).literal_separator(true).build();
        let matcher = glob.map_err(|e| format!("input `{said}`: {e}"))?.compile_matcher();
        // Only the part of the tree below the fixed start of the pattern is walked.
        let fixed: Vec<&str> = pattern.split('/').take_while(|p| !p.contains(['*', '?', '[', '{'])).collect();
        let start = fixed.join("/");
        let base = self.root.join(&start);
        if !base.is_dir() {
            return nothing();
        }
        let mut out = Vec::new();
        for path in walk(&base, &start) {
            if matcher.is_match(&path) {
                let full = self.root.join(&path);
                let digest = self.digest(&full).ok_or_else(|| format!("input `{path}` can't be read"))?;
                out.push((path, digest));
                if out.len() > MAX_FILES {
                    return Err(format!("input `{said}` names more than {MAX_FILES} files"));
                }
            }
        }
        if out.is_empty() {
            return nothing();
        }
        out.sort();
        Ok(Arc::new(out))
    }
}

/// Regular files below a folder, relative to the project; the store and git's own files are left out.
fn walk(base: &Path, prefix: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut pending = vec![(base.to_owned(), prefix.to_owned())];
    while let Some((folder, prefix)) = pending.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else { continue };
            if name == ".git" || name == ".proofline" {
                continue;
            }
            let path = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
            if kind.is_dir() {
                pending.push((entry.path(), path));
            } else if kind.is_file() {
                out.push(path);
            }
        }
    }
    out
}

impl key::World for World {
    fn corpus(&self, repo: &str) -> Option<Digest> {
        self.digests.get(repo).copied()
    }

    fn server(&self, arm: usize) -> Option<&Value> {
        self.servers.get(arm)?.as_ref()
    }

    fn files(&self, pattern: &str) -> Files {
        if let Some(known) = self.files.borrow().get(pattern) {
            return known.clone();
        }
        let found = self.find(pattern);
        self.files.borrow_mut().insert(pattern.to_owned(), found.clone());
        found
    }
}
