//! Folders as values: listing, copying, hashing.
//!
//! A tree is its regular files (path, executable bit, content) and symbolic
//! links that stay inside. Owners, times, other modes and empty folders are
//! no part of it.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{FsError, at};
use crate::digest::Digest;

/// One entry of a tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Path relative to the root, with `/`.
    pub path: String,
    /// What it is.
    pub node: Node,
}

/// What an entry is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Node {
    /// A regular file.
    File {
        /// Size in bytes.
        size: u64,
        /// May it be executed?
        exec: bool,
        /// Digest of its content.
        digest: Digest,
    },
    /// A symbolic link to this text.
    Link(String),
}

/// All entries of a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// Entries in bytewise order of their paths.
    pub entries: Vec<Entry>,
}

/// A relative path that is unsafe to use.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not a plain path inside the folder")]
pub struct UnsafePath(pub String);

impl Tree {
    /// Digest of the whole: the domain-tagged hash of the listing.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::tagged("proofline tree 1", &self.listing())
    }

    /// The listing as bytes: one canonical JSON line per entry.
    #[must_use]
    pub fn listing(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for entry in &self.entries {
            out.extend(serde_json::to_vec(entry).unwrap_or_default());
            out.push(b'\n');
        }
        out
    }

    /// Reads a listing.
    ///
    /// # Errors
    /// When a line is no entry, a path is unsafe or lies below another entry, or the order is wrong.
    pub fn parse(listing: &[u8]) -> Result<Self, String> {
        let mut entries: Vec<Entry> = Vec::new();
        let mut leaves: HashSet<String> = HashSet::new();
        for line in listing.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
            let entry: Entry = serde_json::from_slice(line).map_err(|e| e.to_string())?;
            plain(&entry.path).map_err(|e| e.to_string())?;
            if entries.last().is_some_and(|last| last.path >= entry.path) {
                return Err(format!("entry `{}` is out of order", entry.path));
            }
            // Whoever writes the tree would write through a link.
            let mut above = entry.path.match_indices('/').map(|(at, _)| &entry.path[..at]);
            if above.any(|folder| leaves.contains(folder)) {
                return Err(format!("entry `{}` lies below a file or link", entry.path));
            }
            leaves.insert(entry.path.clone());
            entries.push(entry);
        }
        Ok(Self { entries })
    }

    /// Targets of the links by their paths.
    #[must_use]
    pub fn links(&self) -> BTreeMap<String, String> {
        let link = |entry: &Entry| match &entry.node {
            Node::Link(target) => Some((entry.path.clone(), target.clone())),
            Node::File { .. } => None,
        };
        self.entries.iter().filter_map(link).collect()
    }

    /// Sum of the files' sizes in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.entries
            .iter()
            .map(|e| match e.node {
                Node::File { size, .. } => size,
                Node::Link(_) => 0,
            })
            .sum()
    }
}

/// Checks that a relative path has only plain components.
///
/// # Errors
/// For absolute paths, `..`, `.`, empty or NUL-holding ones.
pub fn plain(path: &str) -> Result<(), UnsafePath> {
    let ok = !path.is_empty()
        && !path.contains('\0')
        && !path.ends_with('/')
        && !path.contains("//")
        && Path::new(path).components().all(|c| matches!(c, Component::Normal(_)))
        && !path.split('/').any(|part| part == "." || part == "..");
    if ok { Ok(()) } else { Err(UnsafePath(path.to_owned())) }
}

/// Joins `root` with a relative path that may not leave it.
///
/// # Errors
/// See [`plain`].
pub fn inside(root: &Path, path: &str) -> Result<PathBuf, UnsafePath> {
    plain(path)?;
    Ok(root.join(path))
}

/// Paths of all regular files and links under `root`, relative with `/`, in
/// bytewise order. Sockets, devices and pipes are left out.
///
/// # Errors
/// When a folder can't be read or a name is not UTF-8.
pub fn list(root: &Path) -> Result<Vec<String>, FsError> {
    let mut out = Vec::new();
    let mut pending = vec![(root.to_owned(), String::new())];
    while let Some((folder, prefix)) = pending.pop() {
        for entry in at(fs::read_dir(&folder), "can't list", &folder)? {
            let entry = at(entry, "can't list", &folder)?;
            let name = entry.file_name();
            let Some(name) = name.to_str() else {
                let error = io::Error::new(io::ErrorKind::InvalidData, "name is not UTF-8");
                return at(Err(error), "can't list", &entry.path());
            };
            let path = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") };
            let kind = at(entry.file_type(), "can't look at", &entry.path())?;
            if kind.is_dir() {
                pending.push((entry.path(), path));
            } else if kind.is_file() || kind.is_symlink() {
                out.push(path);
            }
        }
    }
    out.sort_unstable();
    Ok(out)
}

/// Reads a folder as a tree, hashing every file.
///
/// # Errors
/// When something can't be read.
pub fn scan(root: &Path) -> Result<Tree, FsError> {
    let mut entries = Vec::new();
    for path in list(root)? {
        let full = root.join(&path);
        let meta = at(fs::symlink_metadata(&full), "can't look at", &full)?;
        let node = if meta.file_type().is_symlink() {
            let target = at(fs::read_link(&full), "can't read the link", &full)?;
            Node::Link(target.to_string_lossy().into_owned())
        } else {
            let digest = hash_file(&full)?;
            Node::File { size: meta.len(), exec: meta.permissions().mode() & 0o111 != 0, digest }
        };
        entries.push(Entry { path, node });
    }
    Ok(Tree { entries })
}

/// Digest of a file's content.
///
/// # Errors
/// When it can't be read.
pub fn hash_file(path: &Path) -> Result<Digest, FsError> {
    let mut hasher = blake3::Hasher::new();
    let file = at(fs::File::open(path), "can't read", path)?;
    at(hasher.update_reader(file), "can't read", path)?;
    Ok(Digest::from_bytes(*hasher.finalize().as_bytes()))
}

/// Copies files and links of `from` into `to` (made if absent), as writable files.
///
/// # Errors
/// When something can't be read or written.
#[expect(clippy::disallowed_methods, reason = "this is the writer")]
pub fn copy(from: &Path, to: &Path) -> Result<(), FsError> {
    super::create_dir(to)?;
    for path in list(from)? {
        let source = from.join(&path);
        let target = to.join(&path);
        if let Some(folder) = target.parent() {
            super::create_dir(folder)?;
        }
        let meta = at(fs::symlink_metadata(&source), "can't look at", &source)?;
        if meta.file_type().is_symlink() {
            let link = at(fs::read_link(&source), "can't read the link", &source)?;
            at(symlink(link, &target), "can't link", &target)?;
        } else {
            at(fs::copy(&source, &target), "can't copy to", &target)?;
            let mode = if meta.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 };
            at(
                fs::set_permissions(&target, fs::Permissions::from_mode(mode)),
                "can't set the mode of",
                &target,
            )?;
        }
    }
    Ok(())
}

/// Makes a file executable.
///
/// # Errors
/// When the system refuses.
pub fn set_executable(path: &Path) -> Result<(), FsError> {
    at(fs::set_permissions(path, fs::Permissions::from_mode(0o755)), "can't set the mode of", path)
}

/// Makes a symbolic link and the folders above it.
///
/// # Errors
/// When the system refuses.
pub fn make_link(path: &Path, target: &str) -> Result<(), FsError> {
    if let Some(folder) = path.parent() {
        super::create_dir(folder)?;
    }
    at(symlink(target, path), "can't link", path)
}

/// Takes write permission from every file and folder under `root`.
///
/// # Errors
/// When the system refuses.
pub fn make_read_only(root: &Path) -> Result<(), FsError> {
    set_modes(root, 0o444, 0o555)
}

/// Gives write permission on every file and folder under `root`.
///
/// # Errors
/// When the system refuses.
pub fn make_writable(root: &Path) -> Result<(), FsError> {
    set_modes(root, 0o644, 0o755)
}

fn set_modes(root: &Path, file: u32, folder: u32) -> Result<(), FsError> {
    let set = |path: &Path, mode: u32| {
        at(fs::set_permissions(path, fs::Permissions::from_mode(mode)), "can't set the mode of", path)
    };
    set(root, 0o755)?;
    let mut folders = vec![root.to_owned()];
    let mut at_index = 0;
    while at_index < folders.len() {
        let here = folders[at_index].clone();
        at_index += 1;
        for entry in at(fs::read_dir(&here), "can't list", &here)? {
            let entry = at(entry, "can't list", &here)?;
            let kind = at(entry.file_type(), "can't look at", &entry.path())?;
            if kind.is_dir() {
                set(&entry.path(), 0o755)?;
                folders.push(entry.path());
            } else if kind.is_file() {
                let meta = at(entry.metadata(), "can't look at", &entry.path())?;
                let exec = if meta.permissions().mode() & 0o111 == 0 { 0 } else { 0o111 };
                set(&entry.path(), file | exec)?;
            }
        }
    }
    for here in folders.iter().rev() {
        set(here, folder)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_paths_are_refused() {
        for bad in ["", "/a", "../a", "a/../b", "./a", "a//b", "a/", "a/.", "a\0b", ".."] {
            assert!(plain(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "a/b.c", ".hidden/x", "a/..b"] {
            assert!(plain(good).is_ok(), "{good:?}");
        }
    }

    #[test]
    fn nothing_lies_below_a_file_or_link() {
        let entry = |path: &str, node: Node| Entry { path: path.to_owned(), node };
        let link = || Node::Link("..".to_owned());
        let file = || Node::File { size: 0, exec: false, digest: Digest::of(b"") };
        for first in [link(), file()] {
            let below = vec![entry("a/b", first), entry("a/b-c", file()), entry("a/b/c/d", file())];
            let error = Tree::parse(&Tree { entries: below }.listing()).unwrap_err();
            assert!(error.contains("`a/b/c/d`"), "{error}");
        }
        let beside = Tree { entries: vec![entry("a/b", link()), entry("a/bc/d", file())] };
        assert_eq!(Tree::parse(&beside.listing()).unwrap(), beside);
    }

    #[test]
    fn a_tree_does_not_depend_on_times_or_empty_folders() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        for root in [&a, &b] {
            super::super::write_plain(&root.join("x/y.txt"), b"hello").unwrap();
            super::super::write_plain(&root.join("x.txt"), b"").unwrap();
        }
        super::super::create_dir(&b.join("empty")).unwrap();
        assert_eq!(scan(&a).unwrap().digest(), scan(&b).unwrap().digest());
        let tree = scan(&a).unwrap();
        assert_eq!(Tree::parse(&tree.listing()).unwrap(), tree);
        super::super::write_plain(&b.join("x.txt"), b"!").unwrap();
        assert_ne!(scan(&a).unwrap().digest(), scan(&b).unwrap().digest());
        copy(&a, &dir.path().join("c")).unwrap();
        assert_eq!(scan(&dir.path().join("c")).unwrap(), tree);
        make_read_only(&a).unwrap();
        assert_eq!(scan(&a).unwrap(), tree);
        super::super::remove_dir(&a).unwrap();
        assert!(!a.exists());
    }
}
