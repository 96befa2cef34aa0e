//! A folder's text files, in one order everywhere.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use super::{EngineError, SourceFile};
use crate::corpus::grammar::{LARGEST, is_binary};
use crate::fsio;

/// Most files that are read from one folder.
const MOST_FILES: usize = 500_000;
/// Most bytes that are read from one folder.
const MOST_BYTES: u64 = 4 << 30;
/// Deepest folder that is looked into.
const DEEPEST: usize = 128;

/// Text files below `root`, in bytewise order of their relative paths.
///
/// `only` names folders or files below `root`; empty means all of it. Links
/// aren't followed; `.git`, binary files, files above 2 MiB and names that
/// aren't UTF-8 are left out.
///
/// # Errors
/// When `root` or something in it can't be read, a name in `only` leads
/// outside or to nothing, or there is more than the limits allow.
pub fn read_folder(root: &Path, only: &[String]) -> Result<Vec<SourceFile>, EngineError> {
    let mut paths = BTreeSet::new();
    if only.is_empty() {
        collect(root, "", &mut paths)?;
    }
    for name in only {
        let inside = name.trim_start_matches("./").trim_end_matches('/');
        let plain = inside.split('/').all(|part| !matches!(part, "" | "." | ".."));
        if name == "." || name == "./" {
            collect(root, "", &mut paths)?;
        } else if plain {
            collect(root, inside, &mut paths)?;
        } else {
            return Err(EngineError::Outside(name.clone()));
        }
    }
    let mut out = Vec::with_capacity(paths.len());
    let mut total = 0;
    let mut buffer = Vec::new();
    for path in paths {
        let Ok(length) = fsio::read_into(&root.join(&path), LARGEST as u64, &mut buffer) else {
            // Grown or gone since it was listed; an unreadable one is no text.
            continue;
        };
        let bytes = &buffer[..length];
        if is_binary(bytes) {
            continue;
        }
        total += bytes.len() as u64;
        if total > MOST_BYTES {
            return Err(EngineError::TooLarge { what: "bytes", most: MOST_BYTES });
        }
        out.push(SourceFile { path, bytes: Arc::from(bytes) });
    }
    Ok(out)
}

/// Adds the files at or below `start` to `paths`.
fn collect(root: &Path, start: &str, paths: &mut BTreeSet<String>) -> Result<(), EngineError> {
    let place = root.join(start);
    let kind = fsio::at(fs::symlink_metadata(&place), "can't read", &place)?;
    // The root itself may be a link: the user named it.
    if !start.is_empty() && kind.is_file() {
        if kind.len() <= LARGEST as u64 {
            paths.insert(start.to_owned());
        }
        return Ok(());
    }
    let mut folders = vec![(start.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        let place = if folder.is_empty() { root.to_owned() } else { root.join(&folder) };
        for entry in fsio::at(fs::read_dir(&place), "can't list", &place)? {
            let entry = fsio::at(entry, "can't list", &place)?;
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let kind = fsio::at(entry.file_type(), "can't read", &entry.path())?;
            if kind.is_dir() {
                if name != ".git" && depth < DEEPEST {
                    folders.push((path, depth + 1));
                }
            } else if kind.is_file() {
                // Its size shows when it is read.
                paths.insert(path);
                if paths.len() > MOST_FILES {
                    return Err(EngineError::TooLarge { what: "files", most: MOST_FILES as u64 });
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(root: &Path, only: &[&str]) -> Vec<String> {
        let only: Vec<String> = only.iter().map(|s| (*s).to_owned()).collect();
        read_folder(root, &only).unwrap().into_iter().map(|f| f.path).collect()
    }

    #[test]
    fn only_text_in_bytewise_order() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        for (path, bytes) in [
            ("b.py", &b"x"[..]),
            ("B.py", b"x"),
            ("a/z.txt", b"x"),
            ("a.b/c", b"x"),
            (".git/config", b"x"),
            ("a/.hidden", b"x"),
            ("image", b"\x89\0"),
        ] {
            fsio::write_plain(&root.join(path), bytes).unwrap();
        }
        fsio::write_plain(&root.join("big.py"), &vec![b'x'; LARGEST + 1]).unwrap();
        std::os::unix::fs::symlink(root.join("b.py"), root.join("link.py")).unwrap();
        std::os::unix::fs::symlink(root, root.join("loop")).unwrap();
        assert_eq!(names(root, &[]), ["B.py", "a.b/c", "a/.hidden", "a/z.txt", "b.py"]);
        assert_eq!(names(root, &["a/", "b.py", "a"]), ["a/.hidden", "a/z.txt", "b.py"]);
        assert!(matches!(read_folder(root, &["../x".into()]), Err(EngineError::Outside(_))));
        assert!(read_folder(root, &["absent".into()]).is_err());
        assert!(read_folder(&root.join("absent"), &[]).is_err());
    }
}
