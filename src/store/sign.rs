//! Signatures on records that leave a store.
//!
//! A signature is Ed25519 over a domain line and the record's bytes as they
//! are stored, in a file of one line beside the record:
//! `ed25519:PUBLIC SIGNATURE`, both in base64. The secret key belongs to a
//! person, not to a store: it lies in the configuration folder and is made on
//! first use.

use std::fmt;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use super::StoreError;
use crate::fsio::{self, Readers};

/// What is signed begins with this line, so that no other text can pass for a record.
const DOMAIN: &[u8] = b"proofline record 1\n";
/// Begins a key's text.
const ALGORITHM: &str = "ed25519:";
/// Begins the file of a secret key.
const SECRET: &str = "proofline secret key 1 ";
/// Longest text of a signature in bytes.
pub(super) const LONGEST: usize = 256;

/// A public key: who signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

/// A text that is no public key.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is no public key; one looks like `ed25519:` and 44 characters")]
pub struct NotAKey(String);

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ALGORITHM}{}", STANDARD.encode(self.0))
    }
}

impl FromStr for PublicKey {
    type Err = NotAKey;

    fn from_str(text: &str) -> Result<Self, NotAKey> {
        let bytes = text.strip_prefix(ALGORITHM).and_then(|rest| STANDARD.decode(rest).ok());
        let bytes = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        bytes.map(Self).ok_or_else(|| NotAKey(text.chars().take(80).collect()))
    }
}

/// Someone who can sign.
pub struct Signer {
    pair: Ed25519KeyPair,
    public: PublicKey,
}

impl Signer {
    /// The key in the file at `path`; without such a file a new one is made there.
    ///
    /// # Errors
    /// When the file can't be read or written, holds no key, or others may read it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let faulty = |why: String| StoreError::Key { path: path.to_owned(), why };
        if let Err(error) = std::fs::symlink_metadata(path)
            && error.kind() == ErrorKind::NotFound
        {
            let mut seed = [0u8; 32];
            SystemRandom::new()
                .fill(&mut seed)
                .map_err(|_| faulty("the system gives no randomness".to_owned()))?;
            let text = format!("{SECRET}{ALGORITHM}{}\n", STANDARD.encode(seed));
            // Another process may be faster: then its key is the one.
            fsio::write_new(path, text.as_bytes(), Readers::Owner)?;
        }
        let meta = fsio::at(std::fs::metadata(path), "can't look at", path)?;
        let mode = meta.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(faulty(format!(
                "it can be read or changed by others (mode {mode:03o}); say `chmod 600`, or move it away to get a new one"
            )));
        }
        let text = fsio::read_limited(path, 1024)?;
        let seed = std::str::from_utf8(&text)
            .ok()
            .and_then(|text| STANDARD.decode(text.trim().strip_prefix(SECRET)?.strip_prefix(ALGORITHM)?).ok())
            .ok_or_else(|| faulty("it holds no key of proofline".to_owned()))?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|e| faulty(e.to_string()))?;
        let public = <[u8; 32]>::try_from(pair.public_key().as_ref());
        let public = public.map_err(|_| faulty("it holds no key of proofline".to_owned()))?;
        Ok(Self { pair, public: PublicKey(public) })
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// The text of the signature of a record.
    #[must_use]
    pub fn sign(&self, record: &[u8]) -> String {
        let signature = self.pair.sign(&message(record));
        format!("{} {}\n", self.public, STANDARD.encode(signature.as_ref()))
    }
}

fn message(record: &[u8]) -> Vec<u8> {
    [DOMAIN, record].concat()
}

/// Who signed these bytes of a record; none when the text is no sound signature of them.
#[must_use]
pub fn signer_of(record: &[u8], signature: &str) -> Option<PublicKey> {
    if signature.len() > LONGEST {
        return None;
    }
    let (key, rest) = signature.strip_suffix('\n')?.split_once(' ')?;
    let key: PublicKey = key.parse().ok()?;
    let signature = STANDARD.decode(rest).ok()?;
    UnparsedPublicKey::new(&ED25519, key.0).verify(&message(record), &signature).ok().map(|()| key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_holds_for_its_bytes_and_its_signer_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/key");
        let signer = Signer::open(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let again = Signer::open(&path).unwrap();
        assert_eq!(signer.public(), again.public(), "it is made once");
        let text = signer.sign(b"record");
        assert_eq!(text, again.sign(b"record"), "the same bytes, the same signature");
        assert_eq!(signer_of(b"record", &text), Some(signer.public()));
        assert_eq!(signer_of(b"recorD", &text), None);
        let other = Signer::open(&dir.path().join("other")).unwrap();
        let mixed = text.replace(&signer.public().to_string(), &other.public().to_string());
        assert_eq!(signer_of(b"record", &mixed), None);
        for bad in ["", "\n", "ed25519: x\n", &text.trim_end().repeat(9), text.trim_end()] {
            assert_eq!(signer_of(b"record", bad), None, "{bad:?}");
        }
        assert_eq!(signer.public().to_string().parse::<PublicKey>().unwrap(), signer.public());
    }

    #[test]
    fn a_key_that_others_can_read_or_that_is_none_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        Signer::open(&path).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let error = Signer::open(&path).err().unwrap().to_string();
        assert!(error.contains("mode 640") && error.contains("chmod 600"), "{error}");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        fsio::write_plain(&path, b"something else\n").unwrap();
        assert!(Signer::open(&path).err().unwrap().to_string().contains("holds no key"));
    }
}
