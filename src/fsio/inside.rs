//! Files below a folder: links are followed only as far as they stay there.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};

use nix::fcntl::{OFlag, openat};
use nix::sys::stat::Mode;

use super::{FsError, at, tree};

/// Whether what lies at a plain path below `root` lies there without its links, too; what isn't there
/// doesn't lead out.
#[must_use]
pub fn stays_inside(root: &Path, path: &str) -> bool {
    match (root.canonicalize(), root.join(path).canonicalize()) {
        (Ok(root), Ok(full)) => full.starts_with(root),
        (_, Err(_)) => fs::symlink_metadata(root.join(path)).is_err(),
        _ => false,
    }
}

/// Opens a regular file by a plain path below `root`. The place that its links lead to is looked up
/// first and then opened step by step without following any, so that none can be put in between.
///
/// # Errors
/// When it can't be opened, is no regular file, or a link leads out of `root`.
pub fn open_inside(root: &Path, path: &str) -> Result<File, FsError> {
    let full = root.join(path);
    at(open(root, path, &full), "can't read", &full)
}

fn open(root: &Path, path: &str, full: &Path) -> io::Result<File> {
    let refused = |why: &str| io::Error::new(io::ErrorKind::PermissionDenied, why.to_owned());
    tree::plain(path).map_err(|error| refused(&error.to_string()))?;
    let root = root.canonicalize()?;
    let real = full.canonicalize()?;
    let inner: PathBuf = real
        .strip_prefix(&root)
        .map_err(|_| refused("a link leads out of the folder; copy the file into it"))?
        .to_owned();
    let mut folder: OwnedFd = File::open(&root)?.into();
    let mut parts: Vec<&OsStr> = inner
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    let name = parts.pop().ok_or_else(|| refused("it is no regular file"))?;
    let step = |folder: &OwnedFd, name: &OsStr, flags: OFlag| {
        openat(folder, name, flags | OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty())
    };
    for part in parts {
        folder = step(&folder, part, OFlag::O_DIRECTORY)?;
    }
    // A pipe or device is not waited for.
    let file = File::from(step(&folder, name, OFlag::O_NONBLOCK | OFlag::O_NOCTTY)?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(refused("it is no regular file")) }
}

/// Reads a file of at most `limit` bytes by a plain path below `root`; see [`open_inside`].
///
/// # Errors
/// Those of [`open_inside`], and when it is larger.
pub fn read_inside(root: &Path, path: &str, limit: u64) -> Result<Vec<u8>, FsError> {
    let file = open_inside(root, path)?;
    let full = root.join(path);
    let mut out = Vec::new();
    at(file.take(limit.saturating_add(1)).read_to_end(&mut out), "can't read", &full)?;
    if out.len() as u64 > limit {
        let error = io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {limit} bytes"));
        return at(Err(error), "can't read", &full);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::{create_dir, write_plain};
    use super::*;

    #[test]
    fn links_are_followed_inside_only() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        write_plain(&root.join("a/real.txt"), b"inside").unwrap();
        write_plain(&dir.path().join("secret.txt"), b"outside").unwrap();
        create_dir(&dir.path().join("elsewhere")).unwrap();
        write_plain(&dir.path().join("elsewhere/x.txt"), b"outside").unwrap();
        symlink("a/real.txt", root.join("near")).unwrap();
        symlink("../secret.txt", root.join("far")).unwrap();
        symlink(dir.path().join("elsewhere"), root.join("folder")).unwrap();
        symlink("round", root.join("round")).unwrap();
        for good in ["a/real.txt", "near"] {
            assert_eq!(read_inside(&root, good, 100).unwrap(), b"inside", "{good}");
            assert!(stays_inside(&root, good), "{good}");
        }
        for bad in ["far", "folder/x.txt", "../secret.txt", "round", "a", "none"] {
            assert!(read_inside(&root, bad, 100).is_err(), "{bad}");
        }
        for bad in ["far", "folder/x.txt", "round"] {
            assert!(!stays_inside(&root, bad), "{bad}");
        }
        assert!(stays_inside(&root, "none"));
        let words = read_inside(&root, "far", 100).unwrap_err().explain();
        assert!(words.contains("leads out") && words.contains("copy the file"), "{words}");
        assert!(read_inside(&root, "near", 5).is_err());
    }
}
