//! Files of a commit, read from git's objects: nothing is checked out.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use git2::{ObjectType, Oid, Repository};

use super::super::error::CorpusError;
use super::super::source::last_name;
use super::super::{git, staging};
use crate::grade::citation::{FileId, Kind, Unreadable};

/// Deepest folder.
const DEEPEST: usize = 256;

/// What lies at each path.
type Entries = BTreeMap<String, (Kind, Oid)>;

/// The objects of a repository.
pub(super) struct Objects {
    repository: Mutex<Repository>,
    /// By the listing's order.
    ids: Vec<Oid>,
}

impl Objects {
    /// Opens a repository and lists a commit's files and links.
    pub(super) fn open(
        path: &Path,
        commit: &str,
        subdir: Option<&str>,
    ) -> Result<(Self, Entries), CorpusError> {
        crate::manifest::origin::check_revision(commit)?;
        let name = last_name(path);
        let repository = git::open(path)?;
        let commit = git::resolve(&repository, commit, &name)?;
        let entries = list(&repository, &commit, subdir, &name)?;
        Ok((Self { repository: Mutex::new(repository), ids: Vec::new() }, entries))
    }

    /// The same with the objects of the listing's files.
    pub(super) fn with(self, ids: Vec<Oid>) -> Self {
        Self { ids, ..self }
    }

    /// Bytes of a file; its size is known before it is read.
    pub(super) fn read(&self, file: FileId, most: u64) -> Result<Vec<u8>, Unreadable> {
        let failed = |error: git2::Error| Unreadable::Failed(error.message().to_owned());
        let Some(id) = self.ids.get(file.index()) else {
            return Err(Unreadable::Failed("it isn't there".to_owned()));
        };
        // A reader that panicked has changed nothing.
        let repository = self.repository.lock().unwrap_or_else(PoisonError::into_inner);
        let (size, _) = repository.odb().and_then(|objects| objects.read_header(*id)).map_err(failed)?;
        if size as u64 > most {
            return Err(Unreadable::TooLarge);
        }
        let blob = repository.find_blob(*id).map_err(failed)?;
        Ok(blob.content().to_owned())
    }
}

/// Files and links of a commit by path, as [`git::take`] would take them.
fn list(
    repository: &Repository,
    commit: &str,
    subdir: Option<&str>,
    name: &str,
) -> Result<Entries, CorpusError> {
    let failed = |error: git2::Error| CorpusError::Git {
        repository: name.to_owned(),
        said: error.message().to_owned(),
    };
    let refused = |why: String| CorpusError::Refused { origin: format!("{name} at {commit}"), why };
    let most = staging::Limits::CORPUS.entries;
    let oid = Oid::from_str(commit).map_err(failed)?;
    let mut root = repository.find_commit(oid).and_then(|commit| commit.tree()).map_err(failed)?;
    if let Some(subdir) = subdir {
        let missing =
            || CorpusError::NoSubdir { origin: format!("{name} at {commit}"), subdir: subdir.to_owned() };
        let entry = root.get_path(Path::new(subdir)).map_err(|_| missing())?;
        root = repository.find_tree(entry.id()).map_err(|_| missing())?;
    }
    let mut out = Entries::new();
    let mut pending = vec![(root.id(), String::new(), 0)];
    let mut seen = 0;
    while let Some((id, prefix, depth)) = pending.pop() {
        let tree = repository.find_tree(id).map_err(failed)?;
        for entry in &tree {
            seen += 1;
            if seen > most {
                return Err(refused(format!("it has more than {most} entries")));
            }
            let Ok(own) = std::str::from_utf8(entry.name_bytes()) else { continue };
            let path = format!("{prefix}{own}");
            if own.contains('/') || staging::check_name(&path).is_err() || staging::is_private(&path) {
                continue;
            }
            match entry.kind() {
                Some(ObjectType::Tree) if depth < DEEPEST => {
                    pending.push((entry.id(), format!("{path}/"), depth + 1));
                }
                Some(ObjectType::Blob) => {
                    let kind = if entry.filemode() == 0o120_000 { Kind::Link } else { Kind::File };
                    out.entry(path).or_insert((kind, entry.id()));
                }
                _ => {}
            }
        }
    }
    Ok(out)
}
