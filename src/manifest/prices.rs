//! `presets/prices.toml`: list prices of models, dated.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// List prices.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Prices {
    /// Version of this file format; 1.
    #[schemars(range(min = 1, max = 1))]
    pub format: u32,
    /// One row per model and date from which its prices hold.
    #[serde(default)]
    pub price: Vec<Price>,
}

/// Prices of one model from one day on, in US dollars per million tokens.
/// Amounts are decimal texts: money is never a binary fraction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Price {
    /// The model as its provider names it.
    #[schemars(length(min = 1))]
    pub model: String,
    /// First day on which these prices hold.
    #[schemars(regex(pattern = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"), extend("x-words" = "a date such as 2026-06-01"))]
    pub date: String,
    /// Of input tokens.
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]+)?$"), extend("x-words" = "an amount in quotes such as \"3.00\""))]
    pub input: String,
    /// Of output tokens.
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]+)?$"), extend("x-words" = "an amount in quotes such as \"15.00\""))]
    pub output: String,
    /// Of input tokens that were read from the provider's cache.
    #[serde(default)]
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]+)?$"), extend("x-words" = "an amount in quotes such as \"0.30\""))]
    pub cache_read: Option<String>,
    /// Of input tokens that were written to it.
    #[serde(default)]
    #[schemars(regex(pattern = r"^[0-9]+(\.[0-9]+)?$"), extend("x-words" = "an amount in quotes such as \"3.75\""))]
    pub cache_write: Option<String>,
}
