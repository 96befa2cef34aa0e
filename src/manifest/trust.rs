//! `trust.toml`: whose results from elsewhere may be used here.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The trusted signers of a project, in its root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Trust {
    /// Version of this file format; 1.
    #[schemars(range(min = 1, max = 1))]
    pub format: u32,
    /// Signers by a name of your choice.
    #[serde(default)]
    #[schemars(extend("propertyNames" = super::names::slug()))]
    pub signer: BTreeMap<String, Signer>,
}

/// Someone whose results are used as if they had been made here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Signer {
    /// The public key, as `proofline store identity` prints it.
    #[schemars(
        // The last of 43 digits holds four bits: two texts would otherwise mean one key.
        regex(pattern = r"^ed25519:[A-Za-z0-9+/]{42}[AEIMQUYcgkosw048]=$"),
        extend("x-words" = "a public key such as `proofline store identity` prints: `ed25519:` and 44 characters")
    )]
    pub key: String,
    /// Day from which on the signer is trusted, for people.
    #[serde(default)]
    #[schemars(regex(pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"), extend("x-words" = "a date such as 2026-06-01"))]
    pub since: Option<String>,
    /// Who it is, for people.
    #[serde(default)]
    pub about: Option<String>,
}
