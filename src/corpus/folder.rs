//! Folders as corpora: what of them counts, and their content as a tree.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use ignore::WalkBuilder;

use super::error::CorpusError;
use super::source::last_name;
use super::staging::{self, Limits, Notes, Policy, Staging};
use super::stamps::Stamps;
use crate::fsio;
use crate::fsio::tree::{Node, Tree};

/// The paths of a folder that belong to the corpus, in bytewise order: files
/// and links, without `.git`, `.proofline` and what the folder's own
/// `.gitignore` files name. Rules of folders above, of the user and of
/// `.git/info/exclude` don't count: the same folder is the same corpus on
/// every machine.
///
/// What can't be taken is refused, or with `lenient` passed over.
pub(crate) fn list(root: &Path, limits: Limits, lenient: bool) -> Result<Vec<String>, CorpusError> {
    let limit = limits.entries;
    let origin = format!("folder {}", last_name(root));
    let refused = |why: String| CorpusError::Refused { origin: origin.clone(), why };
    let walk = WalkBuilder::new(root)
        .standard_filters(false)
        .git_ignore(true)
        .require_git(false)
        .parents(false)
        .follow_links(false)
        .filter_entry(|entry| {
            entry.depth() == 0 || !entry.file_name().to_str().is_some_and(staging::is_private)
        })
        .build();
    let mut out = Vec::new();
    for entry in walk {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) if lenient && error.depth().is_some_and(|depth| depth > 0) => continue,
            Err(error) => return Err(refused(error.to_string())),
        };
        let kind = entry.file_type();
        if entry.depth() == 0 || !kind.is_some_and(|kind| kind.is_file() || kind.is_symlink()) {
            continue;
        }
        let inner = entry.path().strip_prefix(root).unwrap_or(entry.path());
        let Some(path) = inner.to_str() else {
            if lenient {
                continue;
            }
            return Err(refused(format!("the name `{}` is not UTF-8", inner.display())));
        };
        if out.len() >= limit {
            return Err(refused(format!("it has more than {limit} entries")));
        }
        out.push(path.to_owned());
    }
    out.sort_unstable();
    if lenient {
        out.retain(|path| staging::check_name(path).is_ok() && can_be_taken(&root.join(path), limits));
    }
    Ok(out)
}

/// Whether a file can be read and is no larger than allowed, and a link's target is a text.
fn can_be_taken(full: &Path, limits: Limits) -> bool {
    let Ok(meta) = std::fs::symlink_metadata(full) else { return false };
    if meta.file_type().is_symlink() {
        return std::fs::read_link(full)
            .is_ok_and(|target| target.to_str().is_some_and(staging::is_usable_target));
    }
    meta.is_file() && meta.len() <= limits.file && File::open(full).is_ok()
}

/// The folder's real path.
pub(crate) fn real(path: &Path) -> Result<PathBuf, CorpusError> {
    match path.canonicalize() {
        Ok(real) if real.is_dir() => Ok(real),
        _ => Err(CorpusError::NotThere { path: path.to_owned(), expected: "folder" }),
    }
}

/// The folder as a tree, from stamps where files are unchanged.
pub(crate) fn look(
    root: &Path,
    paths: &[String],
    subdir: Option<&str>,
    policy: Policy,
    stamps: &mut Stamps,
) -> Result<Tree, CorpusError> {
    let origin = format!("folder {}", last_name(root));
    let mut nodes = BTreeMap::new();
    for path in paths {
        if outside(path, subdir) {
            // Its content is of no matter, but links lead through it.
            nodes.insert(path.clone(), placeholder(root, path)?);
            continue;
        }
        if let Some(node) = stamps.node(&root.join(path))? {
            nodes.insert(path.clone(), node);
        }
    }
    let mut notes = Notes::default();
    Ok(staging::choose(nodes, &origin, policy, false, subdir, &mut notes)?.tree)
}

fn outside(path: &str, subdir: Option<&str>) -> bool {
    subdir.is_some_and(|subdir| !path.strip_prefix(subdir).is_some_and(|rest| rest.starts_with('/')))
}

fn placeholder(root: &Path, path: &str) -> Result<Node, CorpusError> {
    let full = root.join(path);
    let meta = fsio::at(std::fs::symlink_metadata(&full), "can't look at", &full)?;
    if meta.file_type().is_symlink() {
        let target = fsio::at(std::fs::read_link(&full), "can't read the link", &full)?;
        return Ok(Node::Link(target.to_string_lossy().into_owned()));
    }
    Ok(Node::File { size: 0, exec: false, digest: crate::digest::Digest::of(b"") })
}

/// Copies what of the folder belongs to the corpus.
pub(crate) fn take(
    root: &Path,
    paths: &[String],
    subdir: Option<&str>,
    staging: &mut Staging,
) -> Result<(), CorpusError> {
    use std::os::unix::fs::PermissionsExt;
    for path in paths {
        staging.count()?;
        let full = root.join(path);
        let meta = fsio::at(std::fs::symlink_metadata(&full), "can't look at", &full)?;
        if meta.file_type().is_symlink() {
            let target = fsio::at(std::fs::read_link(&full), "can't read the link", &full)?;
            let Some(target) = target.to_str() else {
                return Err(staging.refusal(format!("link `{path}` has a target that is not UTF-8")));
            };
            staging.link(path, target)?;
        } else if meta.is_file() && !outside(path, subdir) {
            let mut file = fsio::at(File::open(&full), "can't read", &full)?;
            staging.file(path, meta.permissions().mode() & 0o111 != 0, &mut file)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unchanged_files_are_not_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("code");
        for n in 0..5 {
            fsio::write_plain(&root.join(format!("f{n}.py")), b"x = 1\n").unwrap();
        }
        let cache = dir.path().join("stamps");
        let scan = || {
            let mut stamps = Stamps::load(&cache, &root);
            let paths = list(&root, Limits::CORPUS, false).unwrap();
            let tree = look(&root, &paths, None, Policy::Refuse, &mut stamps).unwrap();
            stamps.save();
            (tree.digest(), stamps.read())
        };
        let (first, read) = scan();
        assert_eq!(read, 5);
        // Just written: may still change within the clock's granularity.
        assert_eq!(scan(), (first, 5));
        std::thread::sleep(std::time::Duration::from_millis(2100));
        assert_eq!(scan(), (first, 5));
        assert_eq!(scan(), (first, 0));
        let touched = File::options().write(true).open(root.join("f3.py")).unwrap();
        touched.set_modified(std::time::UNIX_EPOCH + std::time::Duration::from_hours(24)).unwrap();
        assert_eq!(scan(), (first, 1));
        fsio::write_plain(&root.join("f3.py"), b"x = 2\n").unwrap();
        let (changed, read) = scan();
        assert_ne!(changed, first);
        assert_eq!(read, 1);
    }

    #[test]
    fn ignored_and_private_files_are_left_out() {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [
            (".gitignore", "build/\n*.log\n"),
            ("sub/.gitignore", "!keep.log\nsecret.py\n"),
            ("sub/keep.log", ""),
            ("sub/secret.py", ""),
            ("a.log", ""),
            ("build/x.py", ""),
            (".git/config", ""),
            ("sub/.git", "gitdir: elsewhere"),
            (".proofline/db", ""),
            (".github/ci.yml", ""),
            ("src/a.py", ""),
        ] {
            fsio::write_plain(&dir.path().join(path), text.as_bytes()).unwrap();
        }
        let paths = list(dir.path(), Limits::CORPUS, false).unwrap();
        assert_eq!(paths, [".github/ci.yml", ".gitignore", "src/a.py", "sub/.gitignore", "sub/keep.log"]);
        assert!(list(dir.path(), Limits { entries: 3, ..Limits::CORPUS }, false).is_err());
    }
}
