//! `proofline.lock`: the exact servers that results were made with.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;

/// The lock file. Identities come from it, so that planning needs nothing installed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Lock {
    /// Version of this file format; 1.
    #[schemars(range(min = 1, max = 1))]
    pub format: u32,
    /// Servers by the name of their preset.
    #[serde(default)]
    #[schemars(extend("propertyNames" = super::names::slug()))]
    pub server: BTreeMap<String, LockedServer>,
}

/// One server as it was installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct LockedServer {
    /// Version that was found.
    pub version: String,
    /// Digest of the installed files as a tree.
    #[schemars(with = "String", regex(pattern = r"^[0-9a-f]{64}$"), extend("x-words" = "64 lower-case hex digits"))]
    pub digest: Digest,
    /// Number of files in that tree.
    #[serde(default)]
    pub files: u64,
}
