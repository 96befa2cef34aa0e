//! Facts about the outside that recipes hold: corpora, servers, project files.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use globset::GlobBuilder;
use serde_json::{Value, json};

use super::EngineError;
use super::memo::{self, Known, Memo, Other, Stat, Writer};
use crate::clock::Clock;
use crate::corpus::{self, Corpora, Corpus, Source};
use crate::digest::Digest;
use crate::fsio::{self, tree};
use crate::manifest::lock::Lock;
use crate::plan::compiled::Compiled;
use crate::plan::key;
use crate::stage::identity;

/// Most files that one pattern may name.
const MAX_FILES: usize = 100_000;

/// How much older than the moment of its hashing a file's change time must be,
/// in milliseconds: the clock that files are stamped with moves in steps.
const STEP: i64 = 100;
/// The same on a file system that stamps whole seconds.
const COARSE_STEP: i64 = 2_500;

/// A pattern's files: relative path and digest; or why there are none.
type Files = Result<Arc<Vec<(String, Digest)>>, String>;

/// A pattern that was asked for.
struct Query {
    pattern: String,
    /// Whether folders were walked for it; else it names one file.
    walked: bool,
    found: Files,
}

/// The outside as one command sees it.
pub struct World {
    root: PathBuf,
    digests: BTreeMap<String, Digest>,
    /// Why the code of a repository that answers are held against can't be had.
    lacks: BTreeMap<String, String>,
    servers: Vec<Option<Value>>,
    /// Arms whose server's identity rests on its stated version only.
    pub unlocked: Vec<String>,
    /// What the last run knew, if anything.
    memo: Option<Arc<Memo>>,
    seen: RefCell<Seen>,
}

/// What has been looked at.
#[derive(Default)]
struct Seen {
    /// The memo's files have been taken into `known`, its patterns into `queries`.
    files_recalled: bool,
    queries_recalled: bool,
    queries: Vec<Query>,
    by_pattern: HashMap<String, u32>,
    known: HashMap<String, Known>,
    /// Those that are no project files.
    outside: BTreeSet<String>,
    /// Paths that are no files: those on which recipes rest because of it.
    absents: BTreeMap<String, Other>,
    /// Queries that were asked for since [`World::asked`] was called.
    asked: Vec<u32>,
    /// Something was learnt that the memo doesn't hold.
    learnt: bool,
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

/// Repositories that recorded answers are held against, each at its commit: what can't be
/// had is done without.
fn wanted(pipeline: &Compiled) -> impl Iterator<Item = (&String, &Source, Option<&str>)> {
    let names: BTreeSet<&String> =
        pipeline.answers.values().filter_map(|answer| answer.corpus.as_ref()).collect();
    pipeline
        .repos
        .iter()
        .filter(move |(name, _)| names.contains(name))
        .map(|(name, r)| (name, &r.source, r.entry.subdir.as_deref()))
}

/// Brings in all corpora that the pipeline needs; `missed` is told of those that it can do without and
/// that can't be had.
///
/// # Errors
/// When one that it can't do without can't be had.
pub fn fetch(
    pipeline: &Compiled,
    corpora: &Corpora,
    missed: &mut dyn FnMut(String),
) -> Result<BTreeMap<String, Corpus>, EngineError> {
    let mut out = BTreeMap::new();
    for (name, source, subdir) in wanted(pipeline) {
        match corpora.fetch(name, source, subdir) {
            Ok(corpus) => drop(out.insert(name.clone(), corpus)),
            Err(error) => missed(format!("answers about `{name}` are graded without its files: {error}")),
        }
    }
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
        .chain(wanted(pipeline))
        .filter_map(|(name, source, subdir)| Some((name.clone(), corpora.peek(source, subdir)?)))
        .collect()
}

impl World {
    /// Gathers the servers' identities; corpora are given by digest. `cache` is
    /// the folder in which a memo of the last run may lie.
    #[must_use]
    pub fn new(
        pipeline: &Compiled,
        digests: BTreeMap<String, Digest>,
        lock: Option<&Lock>,
        cache: Option<&Path>,
    ) -> Self {
        let memo = cache.and_then(|cache| Memo::read(&memo::path(cache, &pipeline.root, &pipeline.name)));
        let mut world = Self {
            root: pipeline.root.clone(),
            lacks: wanted(pipeline)
                .filter(|(name, ..)| !digests.contains_key(*name))
                .filter_map(|(name, source, _)| Some((name.clone(), corpus::lacks(source)?)))
                .collect(),
            digests,
            servers: Vec::new(),
            unlocked: Vec::new(),
            memo: memo.map(Arc::new),
            seen: RefCell::default(),
        };
        for arm in &pipeline.arms {
            let identity = arm.server.as_ref().map(|preset| {
                let base = arm.base(&pipeline.root);
                let locked = lock.and_then(|l| l.server.get(&preset.name)).map(|s| s.digest.hex());
                if identity::is_unlocked(preset, base, locked.as_deref()) {
                    world.unlocked.push(arm.name.clone());
                }
                identity::server(preset, base, locked.as_deref(), &mut |path| {
                    match path.to_str() {
                        Some(path) => world.outside_digest(path),
                        // It has no place in a memo.
                        None => tree::hash_file(path).ok(),
                    }
                })
            });
            world.servers.push(identity);
        }
        world
    }

    /// What the last run knew, if anything.
    pub(super) fn memo(&self) -> Option<&Arc<Memo>> {
        self.memo.as_ref()
    }

    /// Digest of the pipeline, of all facts that recipes hold besides project files, and of
    /// the program that makes recipes of them; none where the program isn't known.
    pub(super) fn basis(&self, pipeline: &Compiled) -> Option<Digest> {
        let program = status(Path::new("/proc/self/exe"))?;
        let facts = json!([self.digests, self.servers, self.lacks]).to_string();
        let text = format!("{}\n{program:?}\n{}\n{facts}", pipeline.fingerprint(), self.root.display());
        Some(Digest::tagged("proofline memo 1", text.as_bytes()))
    }

    /// Which of the memo's nodes rest on files that have changed; none when
    /// any node might.
    pub(super) fn changed(&self, memo: &Memo) -> Option<Vec<u32>> {
        let mut path = self.root.clone();
        for absent in memo.absents() {
            let (name, other) = absent?;
            path.push(name);
            let now = match std::fs::metadata(&path) {
                Ok(meta) if meta.is_file() => return None,
                Ok(_) => Other::Something,
                Err(_) => Other::Nothing,
            };
            path.clone_from(&self.root);
            if now != other {
                return None;
            }
        }
        let mut changed = Vec::new();
        for (index, query) in memo.queries().enumerate() {
            let query = query?;
            let same = !query.walked && {
                let (name, known) = memo.files(&query).next()??;
                path.push(name);
                let now = status(&path);
                path.clone_from(&self.root);
                known.settled && now == Some(known.stat)
            };
            if same {
                continue;
            }
            self.recall();
            let (found, walked) = self.find(query.pattern);
            let before: Option<Vec<(String, Digest)>> = memo
                .files(&query)
                .map(|file| file.map(|(path, known)| (path.to_owned(), known.digest)))
                .collect();
            let stays = walked == query.walked && found.as_deref().ok() == before.as_ref();
            let mut seen = self.seen.borrow_mut();
            if !stays {
                changed.push(narrow(index));
                seen.learnt = true;
            }
            if let Some(query) = seen.queries.get_mut(index) {
                (query.found, query.walked) = (found, walked);
            }
        }
        Some(changed)
    }

    /// Takes in what the memo knows of files: it is true of them whatever else has changed.
    fn recall_files(&self) {
        let Some(memo) = &self.memo else { return };
        let mut seen = self.seen.borrow_mut();
        if !std::mem::replace(&mut seen.files_recalled, true) {
            for (path, known) in memo.all_files().flatten() {
                seen.known.entry(path.to_owned()).or_insert(known);
            }
        }
    }

    /// Takes in all that a memo knows which is still valid, before any pattern is
    /// asked for, so that numbers of queries are the memo's.
    pub(super) fn recall(&self) {
        self.recall_files();
        let Some(memo) = &self.memo else { return };
        let mut seen = self.seen.borrow_mut();
        if std::mem::replace(&mut seen.queries_recalled, true) {
            return;
        }
        for query in memo.queries().flatten() {
            let files = memo.files(&query).flatten();
            let found = files.map(|(path, known)| (path.to_owned(), known.digest)).collect();
            let pattern = query.pattern.to_owned();
            let id = narrow(seen.queries.len());
            seen.by_pattern.insert(pattern.clone(), id);
            seen.queries.push(Query { pattern, walked: query.walked, found: Ok(Arc::new(found)) });
        }
        let absents = memo.absents().flatten().map(|(path, other)| (path.to_owned(), other));
        seen.absents.extend(absents);
    }

    /// The queries that were asked for since this was last called.
    pub(super) fn asked(&self) -> Vec<u32> {
        let mut asked = std::mem::take(&mut self.seen.borrow_mut().asked);
        asked.sort_unstable();
        asked.dedup();
        asked
    }

    /// Whether anything was learnt that the memo doesn't hold.
    pub(super) fn has_learnt(&self) -> bool {
        self.seen.borrow().learnt
    }

    /// Adds all that is known of files to a memo.
    pub(super) fn remember(&self, writer: &mut Writer) {
        let seen = self.seen.borrow();
        let mut used: HashSet<&str> = HashSet::new();
        for query in &seen.queries {
            let files = query.found.as_deref().map_or(&[][..], Vec::as_slice);
            let known = files.iter().filter_map(|(path, digest)| {
                // A file that changed again meanwhile has two digests; neither is kept as settled.
                let known = seen.known.get(path)?;
                let settled = known.settled && known.digest == *digest;
                Some((path.as_str(), Known { digest: *digest, settled, ..*known }))
            });
            // One that found nothing is looked for anew.
            writer.query(&query.pattern, query.walked || query.found.is_err(), known);
            used.extend(files.iter().map(|(path, _)| path.as_str()));
        }
        for path in seen.outside.iter().filter(|path| !used.contains(path.as_str())) {
            if let Some(known) = seen.known.get(path) {
                writer.file(path, known);
            }
        }
        for (path, other) in &seen.absents {
            writer.absent(path, *other);
        }
    }

    /// Digest of a file, by its path in the project or an absolute one; read
    /// again only when its status has changed.
    fn digest(&self, path: &str) -> Option<Digest> {
        self.recall_files();
        let full = self.root.join(path);
        let stat = status(&full)?;
        if let Some(known) = self.seen.borrow().known.get(path)
            && known.settled
            && known.stat == stat
        {
            return Some(known.digest);
        }
        let now = Clock::System.now_ms();
        let digest = tree::hash_file(&full).ok()?;
        let known = Known { stat, digest, settled: is_settled(&stat, now) };
        let mut seen = self.seen.borrow_mut();
        seen.learnt = true;
        seen.known.insert(path.to_owned(), known);
        Some(digest)
    }

    fn outside_digest(&self, path: &str) -> Option<Digest> {
        self.seen.borrow_mut().outside.insert(path.to_owned());
        self.digest(path)
    }

    /// The files of a pattern, and whether folders were walked for them.
    fn find(&self, pattern: &str) -> (Files, bool) {
        if tree::plain(pattern).is_ok() {
            if !fsio::stays_inside(&self.root, pattern) {
                return (Err(led_out(pattern)), false);
            }
            let kind = std::fs::metadata(self.root.join(pattern)).map(|meta| (meta.is_file(), meta.is_dir()));
            match kind {
                Ok((true, _)) => {
                    let digest =
                        self.digest(pattern).ok_or_else(|| format!("input `{pattern}` can't be read"));
                    return (digest.map(|digest| Arc::new(vec![(pattern.to_owned(), digest)])), false);
                }
                Ok((_, true)) => return (self.matching(pattern, &format!("{pattern}/**")), true),
                _ => {}
            }
        }
        (self.matching(pattern, pattern), true)
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
        if !fsio::stays_inside(&self.root, &start) {
            return Err(led_out(said));
        }
        let mut out = Vec::new();
        for path in walk(&base, &start) {
            if matcher.is_match(&path) {
                let digest = self.digest(&path).ok_or_else(|| format!("input `{path}` can't be read"))?;
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

/// The words for an input that a link leads out of the project.
fn led_out(said: &str) -> String {
    format!(
        "input `{said}` is, or lies behind, a link that leads out of the project; copy it into the project"
    )
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

    fn lacks(&self, repo: &str) -> Option<&str> {
        self.lacks.get(repo).map(String::as_str)
    }

    fn server(&self, arm: usize) -> Option<&Value> {
        self.servers.get(arm)?.as_ref()
    }

    fn files(&self, pattern: &str) -> Files {
        let known = self.seen.borrow().by_pattern.get(pattern).copied();
        if let Some(id) = known {
            let mut seen = self.seen.borrow_mut();
            seen.asked.push(id);
            return seen.queries[id as usize].found.clone();
        }
        let (found, walked) = self.find(pattern);
        let mut seen = self.seen.borrow_mut();
        let id = narrow(seen.queries.len());
        seen.asked.push(id);
        seen.learnt = true;
        seen.by_pattern.insert(pattern.to_owned(), id);
        seen.queries.push(Query { pattern: pattern.to_owned(), walked, found: found.clone() });
        found
    }

    fn is_file(&self, path: &str) -> bool {
        if tree::plain(path).is_err() {
            return false;
        }
        // A word of a shell has folders that are not there: the first of them says
        // it for all words that begin alike.
        let seen = self.seen.borrow();
        let folders = path.match_indices('/').map(|(at, _)| &path[..at]);
        if folders.clone().any(|folder| seen.absents.get(folder) == Some(&Other::Nothing))
            || seen.absents.contains_key(path)
        {
            return false;
        }
        drop(seen);
        let full = self.root.join(path);
        let (absent, other) = match std::fs::metadata(&full) {
            Ok(meta) if meta.is_file() => return true,
            Ok(_) => (path, Other::Something),
            Err(_) => {
                let mut missing = folders.filter(|folder| std::fs::metadata(self.root.join(folder)).is_err());
                (missing.next().unwrap_or(path), Other::Nothing)
            }
        };
        let mut seen = self.seen.borrow_mut();
        seen.learnt = true;
        seen.absents.insert(absent.to_owned(), other);
        false
    }
}

/// The status of a file, links followed.
fn status(path: &Path) -> Option<Stat> {
    let meta = std::fs::metadata(path).ok()?;
    Some((
        meta.dev(),
        meta.ino(),
        meta.len(),
        meta.mtime(),
        meta.mtime_nsec(),
        meta.ctime(),
        meta.ctime_nsec(),
    ))
}

/// Whether a file that was hashed at `now`, in milliseconds since 1970-01-01
/// UTC, and had this status before can't change without another status.
fn is_settled(stat: &Stat, now: i64) -> bool {
    let (_, _, _, mtime, mtime_nsec, ctime, ctime_nsec) = *stat;
    let step = if ctime_nsec == 0 && mtime_nsec == 0 { COARSE_STEP } else { STEP };
    let ms = |seconds: i64, nanoseconds: i64| {
        seconds.saturating_mul(1_000).saturating_add(nanoseconds / 1_000_000)
    };
    ms(mtime, mtime_nsec).max(ms(ctime, ctime_nsec)).saturating_add(step) < now
}

fn narrow(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_settled_when_a_later_change_would_show() {
        let stat = |mtime, mtime_nsec, ctime, ctime_nsec| (1, 2, 3, mtime, mtime_nsec, ctime, ctime_nsec);
        let fine = stat(10, 5, 10, 500_000_000);
        assert!(!is_settled(&fine, 10_500) && !is_settled(&fine, 10_600) && is_settled(&fine, 10_601));
        // Whole seconds on both: the file system may know no finer ones.
        let coarse = stat(10, 0, 10, 0);
        assert!(!is_settled(&coarse, 12_500) && is_settled(&coarse, 12_501));
        // A time from the future, and one that doesn't fit.
        assert!(!is_settled(&stat(20, 1, 10, 1), 15_000));
        assert!(!is_settled(&stat(i64::MAX, 1, 10, 1), 15_000));
        assert!(is_settled(&stat(i64::MIN, 1, 10, 1), 15_000));
    }
}
