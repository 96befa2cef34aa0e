//! Files that an import makes: all of them are known before the first is written, and what
//! somebody has changed stays.
//!
//! Beside them lies [`LIST`] with the digests of what was written, by which a later import tells
//! its own files from changed ones.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::digest::Digest;
use crate::fsio::{self, Durability, FsError};

/// Name of the list of digests.
pub const LIST: &str = ".imported.json";
/// Largest list, in bytes.
const LARGEST_LIST: u64 = 64 << 20;

/// Most files that a refusal names.
const NAMED: usize = 8;

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Reading or writing failed.
    #[error("{}", .0.explain())]
    Fs(#[from] FsError),
    /// Files that are there hold something else, and no import wrote it.
    #[error("{} there with other content than this import would write: {}", are(.0.len()), named(.0))]
    Differ(Vec<PathBuf>),
}

fn are(number: usize) -> String {
    if number == 1 { "1 file is".to_owned() } else { format!("{number} files are") }
}

fn named(paths: &[PathBuf]) -> String {
    let mut names: Vec<String> =
        paths.iter().take(NAMED).map(|path| format!("`{}`", path.display())).collect();
    if paths.len() > NAMED {
        names.push(format!("and {} more", paths.len() - NAMED));
    }
    names.join(", ")
}

/// Files in the making, by their paths in the target folder.
#[derive(Debug, Default)]
pub struct Files(Vec<(PathBuf, Vec<u8>)>);

impl Files {
    /// Adds one.
    pub fn add(&mut self, path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) {
        self.0.push((path.into(), content.into()));
    }

    /// Writes all into the folder `into`; their paths there, sorted. What somebody has changed since an
    /// import wrote it is overwritten only with `replace`; a note tells what of an earlier import is
    /// overwritten.
    ///
    /// # Errors
    /// When something can't be read or written; without `replace` when anything was changed, and then
    /// nothing is written.
    pub fn write(
        self,
        into: &Path,
        replace: bool,
        notes: &mut Vec<String>,
    ) -> Result<Vec<PathBuf>, WriteError> {
        let list = into.join(LIST);
        // Without a list, or with one that can't be read, every other content counts as changed.
        let mut ours: BTreeMap<String, Digest> = fsio::read_limited(&list, LARGEST_LIST)
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        let (mut new, mut changed, mut earlier) = (Vec::new(), Vec::new(), Vec::new());
        let mut all = Vec::new();
        for (path, content) in self.0 {
            let full = into.join(&path);
            let name = path.to_string_lossy().into_owned();
            match fsio::read(&full) {
                Ok(there) if there == content => {}
                Ok(there) => {
                    let is_ours = ours.get(&name) == Some(&Digest::of(&there));
                    if is_ours { &mut earlier } else { &mut changed }.push(path.clone());
                    new.push((full, content.clone()));
                }
                Err(error) if error.source.kind() == io::ErrorKind::NotFound => {
                    new.push((full, content.clone()));
                }
                Err(error) => return Err(error.into()),
            }
            ours.insert(name, Digest::of(&content));
            all.push(path);
        }
        if !changed.is_empty() && !replace {
            changed.sort();
            return Err(WriteError::Differ(changed));
        }
        if !earlier.is_empty() {
            earlier.sort();
            notes.push(format!("of an earlier import this one writes over {}", named(&earlier)));
        }
        for (full, content) in new {
            fsio::write_atomic(&full, &content, Durability::Synced)?;
        }
        let bytes = fsio::at(serde_json::to_vec(&ours).map_err(io::Error::from), "can't write", &list)?;
        fsio::write_atomic(&list, &bytes, Durability::Cached)?;
        all.sort();
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_stays_and_nothing_is_half_written() {
        let dir = tempfile::tempdir().unwrap();
        let files = || {
            let mut files = Files::default();
            files.add("a.toml", "one");
            files.add("sub/b.toml", "two");
            files
        };
        let read = |name: &str| String::from_utf8(fsio::read(&dir.path().join(name)).unwrap()).unwrap();
        let mut notes = Vec::new();
        let mut other = files();
        other.0[0].1 = b"earlier".to_vec();
        assert_eq!(other.write(dir.path(), false, &mut notes).unwrap().len(), 2);
        assert!(notes.is_empty());
        assert_eq!(files().write(dir.path(), false, &mut notes).unwrap().len(), 2, "nobody has changed them");
        assert_eq!(notes, ["of an earlier import this one writes over `a.toml`"]);
        assert_eq!(
            files().write(dir.path(), false, &mut notes).unwrap().len(),
            2,
            "equal files are no conflict"
        );
        assert_eq!(notes.len(), 1);
        fsio::write_plain(&dir.path().join("sub/b.toml"), b"mended").unwrap();
        let mut more = files();
        more.add("0.toml", "new");
        let error = more.write(dir.path(), false, &mut notes).unwrap_err();
        assert_eq!(
            error.to_string(),
            "1 file is there with other content than this import would write: `sub/b.toml`"
        );
        assert!(!dir.path().join("0.toml").exists() && read("sub/b.toml") == "mended");
        files().write(dir.path(), true, &mut notes).unwrap();
        assert_eq!(read("sub/b.toml"), "two");
    }
}
