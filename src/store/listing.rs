//! Lists of nodes and keys: what a journal names instead of many nodes.
//!
//! An object of lines `KEY NODE`, in the order of the plan.

use std::collections::{BTreeMap, BTreeSet};

use super::{Store, StoreError};
use crate::digest::Digest;

/// A list on its way to an object.
#[derive(Default)]
pub struct Text(Vec<u8>);

impl Text {
    /// Adds a node.
    pub fn add(&mut self, node: &str, key: &Digest) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        for byte in key.bytes() {
            self.0.extend([DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        self.0.push(b' ');
        self.0.extend_from_slice(node.as_bytes());
        self.0.push(b'\n');
    }

    /// The object's bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Store {
    /// The reused nodes that a line of a journal tells of: those of its listing
    /// but the excepted ones, and its own, whose keys count.
    ///
    /// # Errors
    /// When the listing is absent, damaged or no list.
    pub fn reused(
        &self,
        listing: Option<Digest>,
        own: &[(String, Digest)],
        except: &[String],
    ) -> Result<Vec<(String, Digest)>, StoreError> {
        let Some(listing) = listing else { return Ok(own.to_vec()) };
        let unreadable = |why: &str| StoreError::Unreadable {
            what: format!("the list {listing} of reused nodes"),
            why: why.to_owned(),
        };
        let bytes = self.get(&listing)?;
        let text = std::str::from_utf8(&bytes).map_err(|e| unreadable(&e.to_string()))?;
        let except: BTreeSet<&str> = except.iter().map(String::as_str).collect();
        let mut other: BTreeMap<&str, Digest> = own.iter().map(|(node, key)| (node.as_str(), *key)).collect();
        let mut out = Vec::new();
        for line in text.lines() {
            let (key, node) = line.split_once(' ').ok_or_else(|| unreadable("a line without a node"))?;
            if except.contains(node) {
                continue;
            }
            let key = match other.remove(node) {
                Some(key) => key,
                None => key.parse().map_err(|_| unreadable("a line without a key"))?,
            };
            out.push((node.to_owned(), key));
        }
        out.extend(own.iter().filter(|(node, _)| other.contains_key(node.as_str())).cloned());
        Ok(out)
    }
}
