//! Git repositories as corpora: objects are read with git2, never checked
//! out. No filter, hook or attribute has a say in what a file holds.

use std::collections::HashSet;
use std::path::Path;

use git2::{ObjectType, Oid, Repository, RepositoryOpenFlags};

use super::error::CorpusError;
use super::source::last_name;
use super::staging::{self, Staging};

/// First bytes of a large-file pointer, whose content lives elsewhere.
const LFS: &[u8] = b"version https://git-lfs.github.com/spec/v1";

fn failed(repository: &str) -> impl Fn(git2::Error) -> CorpusError {
    let repository = repository.to_owned();
    move |error| CorpusError::Git { repository: repository.clone(), said: error.message().to_owned() }
}

/// Opens the repository at exactly `path`: folders above are not searched.
pub(crate) fn open(path: &Path) -> Result<Repository, CorpusError> {
    if !path.is_dir() {
        return Err(CorpusError::NotThere { path: path.to_owned(), expected: "git repository" });
    }
    let none: [&std::ffi::OsStr; 0] = [];
    Repository::open_ext(path, RepositoryOpenFlags::NO_SEARCH, none).map_err(failed(&last_name(path)))
}

/// The full hash of a commit named by a hash, tag or branch.
pub(crate) fn resolve(repository: &Repository, commit: &str, name: &str) -> Result<String, CorpusError> {
    let object = repository.revparse_single(commit).map_err(failed(name))?;
    let commit = object.peel_to_commit().map_err(failed(name))?;
    Ok(commit.id().to_string())
}

/// The full hash of the commit whose id is, or begins with, `id`; no name of a branch or tag is looked at.
pub(crate) fn resolve_id(repository: &Repository, id: &str, path: &Path) -> Result<String, CorpusError> {
    match repository.find_commit_by_prefix(&id.to_ascii_lowercase()) {
        Ok(commit) => Ok(commit.id().to_string()),
        Err(error) if error.code() == git2::ErrorCode::NotFound => {
            Err(CorpusError::NoCommit { path: path.to_owned(), commit: id.to_owned() })
        }
        Err(error) => Err(failed(&last_name(path))(error)),
    }
}

/// Takes the files of a commit into `staging`; with `subdir` only what is in that folder.
pub(crate) fn take(
    repository: &Repository,
    commit: &str,
    subdir: Option<&str>,
    name: &str,
    staging: &mut Staging,
) -> Result<(), CorpusError> {
    let failed = failed(name);
    let oid = Oid::from_str(commit).map_err(&failed)?;
    let mut root = repository.find_commit(oid).and_then(|c| c.tree()).map_err(&failed)?;
    if let Some(subdir) = subdir {
        let missing =
            || CorpusError::NoSubdir { origin: format!("{name} at {commit}"), subdir: subdir.to_owned() };
        let entry = root.get_path(Path::new(subdir)).map_err(|_| missing())?;
        root = repository.find_tree(entry.id()).map_err(|_| missing())?;
    }
    let objects = repository.odb().map_err(&failed)?;
    let (mut pointers, mut submodules) = (0usize, 0usize);
    let mut pending = vec![(root.id(), String::new())];
    // A tree inside itself can't exist; the same one at two places is normal.
    let mut folders = 0usize;
    while let Some((id, prefix)) = pending.pop() {
        let tree = repository.find_tree(id).map_err(&failed)?;
        folders += 1;
        let mut names = HashSet::new();
        for entry in &tree {
            staging.count()?;
            let Ok(entry_name) = std::str::from_utf8(entry.name_bytes()) else {
                let shown = String::from_utf8_lossy(entry.name_bytes()).into_owned();
                staging.decline(format!("the name `{shown}` in `{prefix}` is not UTF-8"))?;
                continue;
            };
            let path = format!("{prefix}{entry_name}");
            if entry_name.contains('/') || !names.insert(entry_name.to_owned()) {
                staging.decline(format!("`{path}` is no proper name"))?;
                continue;
            }
            if let Err(why) = staging::check_name(&path) {
                staging.decline(why)?;
                continue;
            }
            if staging::is_private(&path) {
                staging.decline(format!("`{path}` is a repository's or store's own data"))?;
                continue;
            }
            match entry.kind() {
                Some(ObjectType::Tree) => pending.push((entry.id(), format!("{path}/"))),
                Some(ObjectType::Commit) => {
                    submodules += 1;
                    staging.note(format!("left out: `{path}` is a submodule"));
                }
                Some(ObjectType::Blob) => {
                    let (size, _) = objects.read_header(entry.id()).map_err(&failed)?;
                    if size as u64 > staging.limits().file {
                        let limit = staging.limits().file;
                        staging.decline(format!("file `{path}` is larger than {limit} bytes"))?;
                        continue;
                    }
                    let blob = repository.find_blob(entry.id()).map_err(&failed)?;
                    let content = blob.content();
                    if entry.filemode() == 0o120_000 {
                        match std::str::from_utf8(content) {
                            Ok(target) => staging.link(&path, target)?,
                            Err(_) => {
                                staging.decline(format!("link `{path}` has a target that is not UTF-8"))?;
                            }
                        }
                        continue;
                    }
                    pointers += usize::from(content.starts_with(LFS));
                    staging.file(&path, entry.filemode() & 0o111 != 0, &mut &content[..])?;
                }
                _ => staging.decline(format!("`{path}` is of an unknown kind"))?,
            }
        }
    }
    if pointers > 0 {
        staging.note(format!("{pointers} files are pointers to large files and hold no content"));
    }
    if submodules > 0 && folders == 1 {
        staging.note("the repository's code may be in its submodules, which are not fetched".to_owned());
    }
    Ok(())
}
