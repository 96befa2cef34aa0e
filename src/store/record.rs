//! Records: the fact that a key produced an artifact.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::artifact::CellState;
use crate::digest::Digest;

/// A record: key K produced these parts, when, where, in which attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Version of this format; 1.
    pub format: u32,
    /// The node's key.
    pub key: Digest,
    /// Digest of the recipe's canonical JSON (an object).
    pub recipe: Digest,
    /// Name of the pipeline that made it.
    pub pipeline: String,
    /// Node id in that pipeline.
    pub node: String,
    /// Kind of the stage.
    pub kind: String,
    /// Parts by name.
    pub parts: BTreeMap<String, PartRef>,
    /// What came of it.
    pub outcome: Outcome,
    /// Digest of the server state that it used, by need.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub used: BTreeMap<String, Digest>,
    /// Store that made it.
    pub origin: String,
    /// Run that made it.
    pub run: String,
    /// Attempt within that run, from 1.
    pub attempt: u32,
    /// Milliseconds since 1970-01-01 UTC.
    pub started: i64,
    /// Milliseconds since 1970-01-01 UTC.
    pub ended: i64,
    /// Machine on which it was measured: processor model and count; none for pure nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// What could not be confined, for a command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unconfined: Option<String>,
    /// Why an answer that was made from another recipe stands for this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blessed: Option<String>,
    /// Cost in US dollars as a decimal text; none where nothing was paid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usd: Option<String>,
}

/// A part of an artifact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartRef {
    /// Digest of the bytes, or of a tree's listing.
    pub digest: Digest,
    /// Size in bytes; of a tree, of all its files.
    pub size: u64,
    /// True for a folder.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub tree: bool,
}

/// What came of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// The artifact can be reused.
    Done,
    /// The artifact says what failed; the next run tries again.
    Error,
}

impl Record {
    /// The state of the node as the journal tells it.
    #[must_use]
    pub fn state(&self) -> CellState {
        match self.outcome {
            Outcome::Done => CellState::Valid,
            Outcome::Error => CellState::Error,
        }
    }

    /// Its bytes as they are stored and signed.
    #[must_use]
    pub fn body(&self) -> Vec<u8> {
        // Texts, numbers and tables with text keys: nothing that JSON can't hold.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Digest of [`Self::body`]: its name.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::of(&self.body())
    }

    /// Digest of a part.
    #[must_use]
    pub fn part(&self, name: &str) -> Option<Digest> {
        self.parts.get(name).map(|p| p.digest)
    }
}
