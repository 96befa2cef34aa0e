//! The only writer of files: whole or not at all.
//!
//! A file is written beside its place, synced, and renamed. Errors name the
//! path.

mod bytelock;
mod inside;
pub mod links;
pub mod slot;
pub mod tree;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

pub use bytelock::ByteLocks;
pub use inside::{open_inside, read_inside, stays_inside};

/// An I/O failure and where it happened.
#[derive(Debug, thiserror::Error)]
#[error("{action} `{}`", path.display())]
pub struct FsError {
    /// What was being done, e.g. `can't write`.
    pub action: &'static str,
    /// The file or folder.
    pub path: PathBuf,
    /// The system's word.
    #[source]
    pub source: io::Error,
}

impl FsError {
    /// The system's reason together with the place, on one line.
    #[must_use]
    pub fn explain(&self) -> String {
        format!("{self}: {}", self.source)
    }
}

/// Names what was done where in an I/O error.
///
/// # Errors
/// That of `result`.
pub fn at<T>(result: io::Result<T>, action: &'static str, path: &Path) -> Result<T, FsError> {
    result.map_err(|source| FsError { action, path: path.to_owned(), source })
}

/// Makes a folder and those above it.
///
/// # Errors
/// When the system refuses.
pub fn create_dir(path: &Path) -> Result<(), FsError> {
    at(fs::create_dir_all(path), "can't make the folder", path)
}

/// Reads a file of at most `limit` bytes.
///
/// # Errors
/// When it can't be read or is larger.
pub fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>, FsError> {
    let file = at(File::open(path), "can't read", path)?;
    let mut out = Vec::new();
    at(file.take(limit + 1).read_to_end(&mut out), "can't read", path)?;
    if out.len() as u64 > limit {
        let error = io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {limit} bytes"));
        return at(Err(error), "can't read", path);
    }
    Ok(out)
}

/// Reads a file into the front of `buffer`, which grows to `limit` + 1 bytes; its length. For many
/// files one after the other: no memory is taken for each, and each is read in one go.
///
/// # Errors
/// When it can't be read or is larger than `limit` bytes.
pub fn read_into(path: &Path, limit: u64, buffer: &mut Vec<u8>) -> Result<usize, FsError> {
    let mut file = at(File::open(path), "can't read", path)?;
    let most = usize::try_from(limit).unwrap_or(usize::MAX).saturating_add(1);
    if buffer.len() < most {
        buffer.resize(most, 0);
    }
    let mut length = 0;
    loop {
        match file.read(&mut buffer[length..]) {
            Ok(0) if length < most => return Ok(length),
            Ok(0) => {
                let error = io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {limit} bytes"));
                return at(Err(error), "can't read", path);
            }
            Ok(more) => length += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return at(Err(error), "can't read", path),
        }
    }
}

/// Reads at most the first `most` bytes of a file.
///
/// # Errors
/// When it can't be read.
pub fn read_start(path: &Path, most: u64) -> Result<Vec<u8>, FsError> {
    let file = at(File::open(path), "can't read", path)?;
    let mut out = Vec::new();
    at(file.take(most).read_to_end(&mut out), "can't read", path)?;
    Ok(out)
}

/// Reads a whole file.
///
/// # Errors
/// When it can't be read.
pub fn read(path: &Path) -> Result<Vec<u8>, FsError> {
    at(fs::read(path), "can't read", path)
}

/// Whether a written file must survive a power cut before the call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Synced, and its folder too.
    Synced,
    /// As the system pleases; for files that can be made again.
    Cached,
}

/// Writes a file whole: readers see the old or the new content, never a part.
///
/// # Errors
/// When the system refuses.
pub fn write_atomic(path: &Path, bytes: &[u8], durability: Durability) -> Result<(), FsError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    create_dir(folder)?;
    let mut temp =
        at(tempfile::Builder::new().prefix(".new-").tempfile_in(folder), "can't write in", folder)?;
    at(temp.write_all(bytes), "can't write", path)?;
    if durability == Durability::Synced {
        at(temp.as_file().sync_all(), "can't sync", path)?;
    }
    temp.persist(path).map_err(|e| FsError {
        action: "can't write",
        path: path.to_owned(),
        source: e.error,
    })?;
    if durability == Durability::Synced {
        sync_dir(folder)?;
    }
    Ok(())
}

/// Who may read a new file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// Its owner alone.
    Owner,
    /// Whoever the process's mask of modes lets read it.
    Others,
}

impl Readers {
    fn temp_in(self, folder: &Path) -> Result<tempfile::NamedTempFile, FsError> {
        use std::os::unix::fs::PermissionsExt;
        let mode = match self {
            Self::Owner => 0o600,
            Self::Others => 0o666,
        };
        let mut builder = tempfile::Builder::new();
        let made = builder.prefix(".new-").permissions(fs::Permissions::from_mode(mode)).tempfile_in(folder);
        at(made, "can't write in", folder)
    }
}

/// Writes a file whole and durable, unless there is one at `path`; false when
/// there is. Of several writers one wins, where the file system can do that.
///
/// # Errors
/// When the system refuses.
pub fn write_new(path: &Path, bytes: &[u8], readers: Readers) -> Result<bool, FsError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    create_dir(folder)?;
    let mut temp = readers.temp_in(folder)?;
    at(temp.write_all(bytes), "can't write", path)?;
    at(temp.as_file().sync_all(), "can't sync", path)?;
    match temp.persist_noclobber(path) {
        Ok(_) => {}
        Err(e) if e.error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
        Err(e) => return at(Err(e.error), "can't write", path),
    }
    sync_dir(folder)?;
    Ok(true)
}

/// Writes a file whole and durable from what `write` gives in pieces; when it
/// fails, what was at `path` stays.
///
/// # Errors
/// Those of `write`, or when the system refuses.
pub fn write_in_pieces<E: From<FsError>>(
    path: &Path,
    readers: Readers,
    write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    create_dir(folder)?;
    let mut temp = readers.temp_in(folder)?;
    let mut buffered = io::BufWriter::with_capacity(1 << 18, &mut temp);
    write(&mut buffered)?;
    at(buffered.flush(), "can't write", path)?;
    drop(buffered);
    at(temp.as_file().sync_all(), "can't sync", path)?;
    let persisted = temp.persist(path).map_err(|e| e.error);
    at(persisted, "can't write", path)?;
    sync_dir(folder)?;
    Ok(())
}

/// Writes a file that nothing relies on (copies in private folders).
///
/// # Errors
/// When the system refuses.
#[expect(clippy::disallowed_methods, reason = "this is the writer")]
pub fn write_plain(path: &Path, bytes: &[u8]) -> Result<(), FsError> {
    if let Some(folder) = path.parent() {
        create_dir(folder)?;
    }
    at(fs::write(path, bytes), "can't write", path)
}

/// Makes a new file and refuses to touch one that exists.
///
/// # Errors
/// When it exists or the system refuses.
pub fn create_new(path: &Path) -> Result<File, FsError> {
    at(OpenOptions::new().write(true).create_new(true).open(path), "can't make", path)
}

/// Opens a file for appending, making it when it isn't there.
///
/// # Errors
/// When the system refuses.
pub fn append(path: &Path) -> Result<File, FsError> {
    at(OpenOptions::new().append(true).create(true).open(path), "can't append to", path)
}

/// Makes a folder's entries durable.
///
/// # Errors
/// When the system refuses.
pub fn sync_dir(path: &Path) -> Result<(), FsError> {
    at(File::open(path).and_then(|f| f.sync_all()), "can't sync", path)
}

/// Renames within one file system.
///
/// # Errors
/// When the system refuses.
#[expect(clippy::disallowed_methods, reason = "this is the writer")]
pub fn rename(from: &Path, to: &Path) -> Result<(), FsError> {
    at(fs::rename(from, to), "can't rename to", to)
}

/// Removes a folder and all in it, read-only folders included; absent is fine.
///
/// # Errors
/// When the system refuses.
pub fn remove_dir(path: &Path) -> Result<(), FsError> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {
            tree::make_writable(path)?;
            at(fs::remove_dir_all(path), "can't remove", path)
        }
        other => at(other, "can't remove", path),
    }
}

/// Removes a file; absent is fine.
///
/// # Errors
/// When the system refuses.
pub fn remove_file(path: &Path) -> Result<(), FsError> {
    match fs::remove_file(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => at(other, "can't remove", path),
    }
}

/// A private folder that is removed when it goes out of scope.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    kept: bool,
}

impl Scratch {
    /// Makes one inside `parent`.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn new_in(parent: &Path) -> Result<Self, FsError> {
        create_dir(parent)?;
        let dir =
            at(tempfile::Builder::new().prefix("n-").tempdir_in(parent), "can't make a folder in", parent)?;
        Ok(Self { path: dir.keep(), kept: false })
    }

    /// Takes a folder as one, making it when it isn't there.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn at(path: PathBuf) -> Result<Self, FsError> {
        create_dir(&path)?;
        Ok(Self { path, kept: false })
    }

    /// Takes a folder that stays where it is until it is released, whatever happens.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn kept_at(path: PathBuf) -> Result<Self, FsError> {
        create_dir(&path)?;
        Ok(Self { path, kept: true })
    }

    /// It may go.
    pub fn release(&mut self) {
        self.kept = false;
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.kept {
            // Nothing relies on it being gone; leftovers are swept by the next run.
            let _ = remove_dir(&self.path);
        }
    }
}
