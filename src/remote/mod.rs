//! Places outside that hold results: a folder, or a bucket that speaks S3.
//!
//! A remote is a flat set of named files that are written once. It is never
//! believed: who reads from it checks what came. All calls block; they may be
//! made from several threads at once.

mod folder;
mod s3;

use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

pub use folder::Folder;

/// What keeps a remote from being used.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The address can't be one, or lacks what is needed to use it.
    #[error("{address}: {why}")]
    Address {
        /// The remote.
        address: String,
        /// Why.
        why: String,
    },
    /// A request failed, after retries where they could help.
    #[error("{what}: {why}")]
    Request {
        /// The file and the remote.
        what: String,
        /// Why.
        why: String,
    },
}

/// Files by name in a place outside.
pub trait Remote: Sync {
    /// Where it is, as the user said it.
    fn address(&self) -> &str;

    /// Names of the files under a folder, at most `most`; for an absent one none.
    ///
    /// # Errors
    /// When it can't be listed.
    fn list(&self, folder: &str, most: usize) -> Result<Vec<String>, RemoteError>;

    /// A file's bytes; none when it isn't there.
    ///
    /// # Errors
    /// When it can't be had, or is larger than `limit` bytes.
    fn get(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, RemoteError>;

    /// Whether a file is there.
    ///
    /// # Errors
    /// When that can't be known.
    fn has(&self, name: &str) -> Result<bool, RemoteError>;

    /// Writes a file that isn't there; false when it is. Where the remote
    /// can't tell, a file that is there may be written again.
    ///
    /// # Errors
    /// When it can't be written.
    fn create(&self, name: &str, bytes: Vec<u8>) -> Result<bool, RemoteError>;

    /// Removes a file.
    ///
    /// # Errors
    /// When it can't be removed.
    fn remove(&self, name: &str) -> Result<(), RemoteError>;
}

/// Opens the remote at an address: `s3://BUCKET/PREFIX`, or a folder. `env`
/// gives variables of the environment; a request that shows no progress for
/// `patience` has failed.
///
/// # Errors
/// When the address can't be one or lacks what is needed to use it.
pub fn open(
    address: &str,
    env: &dyn Fn(&str) -> Option<String>,
    patience: Duration,
) -> Result<Box<dyn Remote>, RemoteError> {
    match address.split_once("://") {
        None => Ok(Box::new(Folder::new(address))),
        Some(("s3", _)) => Ok(Box::new(s3::Bucket::open(address, env, patience)?)),
        Some(_) => Err(RemoteError::Address {
            address: address.to_owned(),
            why: "a remote is a folder, or `s3://BUCKET/PREFIX`".to_owned(),
        }),
    }
}

/// Whether of two writers of one name the second is told so. Found out by
/// trying, with a file that is removed again.
///
/// # Errors
/// When nothing can be written.
pub fn is_exclusive(remote: &dyn Remote) -> Result<bool, RemoteError> {
    // Another prober at the same moment must have another name.
    let name = format!("probe/{:016x}", std::hash::RandomState::new().build_hasher().finish());
    remote.create(&name, b"first\n".to_vec())?;
    let second = remote.create(&name, b"second\n".to_vec())?;
    let kept = remote.get(&name, 64)?;
    // Who may write need not be allowed to remove; a probe that stays is read by nobody.
    let _ = remote.remove(&name);
    Ok(!second && kept.as_deref() == Some(b"first\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_lets_one_writer_win() {
        let dir = tempfile::tempdir().unwrap();
        let address = dir.path().join("remote").display().to_string();
        let remote = open(&address, &|_| None, Duration::from_secs(1)).unwrap();
        assert!(remote.list("records", 9).unwrap().is_empty());
        assert!(is_exclusive(remote.as_ref()).unwrap());
        assert!(remote.list("probe", 9).unwrap().is_empty());
        assert!(remote.create("records/a/b.json", b"x".to_vec()).unwrap());
        assert!(!remote.create("records/a/b.json", b"y".to_vec()).unwrap());
        assert_eq!(remote.get("records/a/b.json", 1).unwrap().unwrap(), b"x");
        assert!(remote.get("records/a/b.json", 0).is_err(), "a limit holds");
        assert_eq!(remote.get("records/a/c.json", 1).unwrap(), None);
        assert!(remote.has("records/a/b.json").unwrap() && !remote.has("records/a").unwrap());
        assert_eq!(remote.list("records", 9).unwrap(), ["records/a/b.json"]);
    }

    #[test]
    fn a_folder_follows_no_link_and_reads_no_pipe() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("remote");
        let outside = dir.path().join("outside");
        crate::fsio::write_plain(&outside.join("b.json"), b"secret").unwrap();
        crate::fsio::create_dir(&root.join("records")).unwrap();
        std::os::unix::fs::symlink(&outside, root.join("records/a")).unwrap();
        std::os::unix::fs::symlink(outside.join("b.json"), root.join("records/x.json")).unwrap();
        let made = std::process::Command::new("mkfifo").arg(root.join("records/pipe")).status().unwrap();
        assert!(made.success());
        let remote = Folder::new(&root.display().to_string());
        assert!(remote.list("records", 9).unwrap().is_empty());
        for name in ["records/x.json", "records/pipe"] {
            assert!(remote.get(name, 99).is_err(), "{name}");
        }
        assert!(remote.get("records/a/b.json", 99).is_err());
        assert!(remote.create("records/a/new.json", b"x".to_vec()).is_err());
        assert!(!outside.join("new.json").exists());
    }

    #[test]
    fn other_addresses_are_refused_with_words() {
        for (address, words) in [("ftp://host/x", "s3://BUCKET/PREFIX"), ("http://host", "a folder")] {
            let error = open(address, &|_| None, Duration::from_secs(1)).err().unwrap().to_string();
            assert!(error.contains(words), "{error}");
        }
    }
}
