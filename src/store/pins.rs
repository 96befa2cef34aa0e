//! Pins: what `gc` keeps because someone asked for it.
//!
//! One small file per pin in `pins/`, so that a copy of the folder keeps them.

use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::{Store, StoreError};
use crate::digest::Digest;
use crate::fsio::{self, Durability};

/// The largest file of a pin or quarantine in bytes.
const LARGEST: u64 = 64 << 20;

/// A pin: a run, or some nodes of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pin {
    /// Version of this format; 1.
    pub format: u32,
    /// The run.
    pub run: String,
    /// The selector of the nodes; none: all of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// When it was set, in milliseconds since 1970-01-01 UTC.
    pub at: i64,
    /// Keys of the nodes.
    pub keys: Vec<Digest>,
}

impl Pin {
    fn path(root: &Path, run: &str, selector: Option<&str>) -> PathBuf {
        let name =
            Digest::tagged("proofline pin 1", format!("{run} {}", selector.unwrap_or_default()).as_bytes());
        root.join("pins").join(format!("{}.json", name.short()))
    }
}

impl Store {
    /// All pins, oldest first.
    ///
    /// # Errors
    /// When one of them can't be read.
    pub fn pins(&self) -> Result<Vec<Pin>, StoreError> {
        let mut pins: Vec<Pin> = Vec::new();
        for (_, path) in files(self.root(), "pins")? {
            pins.push(read(&path)?);
        }
        pins.sort_by(|a, b| (a.at, &a.run, &a.selector).cmp(&(b.at, &b.run, &b.selector)));
        Ok(pins)
    }

    /// Sets a pin; one of the same run and selector is replaced.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn pin(&self, pin: &Pin) -> Result<(), StoreError> {
        write(&Pin::path(self.root(), &pin.run, pin.selector.as_deref()), pin)
    }

    /// Takes a pin away; false when there is none.
    ///
    /// # Errors
    /// When its file can't be removed.
    pub fn unpin(&self, run: &str, selector: Option<&str>) -> Result<bool, StoreError> {
        remove(&Pin::path(self.root(), run, selector))
    }
}

/// The files `NAME.json` of a folder of the store, by name.
pub(super) fn files(root: &Path, folder: &str) -> Result<Vec<(String, PathBuf)>, StoreError> {
    let folder = root.join(folder);
    let entries = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => fsio::at(other, "can't list", &folder)?,
    };
    let mut out = Vec::new();
    for entry in entries {
        let path = fsio::at(entry, "can't list", &folder)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // What a killed writer has left begins with a dot.
        if let Some(name) = name.strip_suffix(".json").filter(|name| !name.starts_with('.')) {
            out.push((name.to_owned(), path.clone()));
        }
    }
    out.sort();
    Ok(out)
}

/// Reads such a file.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<T, StoreError> {
    let bytes = fsio::read_limited(path, LARGEST)?;
    serde_json::from_slice(&bytes).map_err(|e| StoreError::Unreadable {
        what: format!("`{}`", path.display()),
        why: format!("{e}; mend it or take it away"),
    })
}

/// Writes such a file.
pub(super) fn write<T: Serialize>(path: &Path, value: &T) -> Result<(), StoreError> {
    let unreadable = |e: serde_json::Error| StoreError::Unreadable {
        what: format!("`{}`", path.display()),
        why: e.to_string(),
    };
    let mut text = serde_json::to_vec_pretty(value).map_err(unreadable)?;
    text.push(b'\n');
    Ok(fsio::write_atomic(path, &text, Durability::Synced)?)
}

/// Removes such a file; false when there is none.
pub(super) fn remove(path: &Path) -> Result<bool, StoreError> {
    if !path.exists() {
        return Ok(false);
    }
    fsio::remove_file(path)?;
    if let Some(folder) = path.parent() {
        fsio::sync_dir(folder)?;
    }
    Ok(true)
}
