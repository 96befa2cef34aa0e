//! Files that an import makes: all of them are known before the first is written, and what
//! somebody has changed stays.

use std::io;
use std::path::{Path, PathBuf};

use crate::fsio::{self, Durability, FsError};

/// Most files that a refusal names.
const NAMED: usize = 8;

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// Reading or writing failed.
    #[error("{}", .0.explain())]
    Fs(#[from] FsError),
    /// Files that are there hold something else.
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

    /// Writes all into the folder `into`; their paths there, sorted. What is there with other content is
    /// overwritten only with `replace`; what is equal is left as it is.
    ///
    /// # Errors
    /// When something can't be read or written; without `replace` when anything differs, and then nothing
    /// is written.
    pub fn write(self, into: &Path, replace: bool) -> Result<Vec<PathBuf>, WriteError> {
        let (mut new, mut differ, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for (path, content) in self.0 {
            let full = into.join(&path);
            match fsio::read(&full) {
                Ok(there) if there == content => {}
                Ok(_) => {
                    differ.push(path.clone());
                    new.push((full, content));
                }
                Err(error) if error.source.kind() == io::ErrorKind::NotFound => new.push((full, content)),
                Err(error) => return Err(error.into()),
            }
            all.push(path);
        }
        if !differ.is_empty() && !replace {
            differ.sort();
            return Err(WriteError::Differ(differ));
        }
        for (full, content) in new {
            fsio::write_atomic(&full, &content, Durability::Synced)?;
        }
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
        assert_eq!(files().write(dir.path(), false).unwrap().len(), 2);
        assert_eq!(files().write(dir.path(), false).unwrap().len(), 2, "equal files are no conflict");
        fsio::write_plain(&dir.path().join("sub/b.toml"), b"mended").unwrap();
        let mut more = files();
        more.add("0.toml", "new");
        let error = more.write(dir.path(), false).unwrap_err();
        assert_eq!(
            error.to_string(),
            "1 file is there with other content than this import would write: `sub/b.toml`"
        );
        assert!(!dir.path().join("0.toml").exists() && read("sub/b.toml") == "mended");
        files().write(dir.path(), true).unwrap();
        assert_eq!(read("sub/b.toml"), "two");
    }
}
