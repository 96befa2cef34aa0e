//! `rubrics/*.toml`: what a judge asks of each step's answer.

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names;

/// A judge's questions about the answers to one scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Rubric {
    /// Version of this file format; 1.
    #[schemars(range(min = 1, max = 1))]
    pub format: u32,
    /// Who will use the answers, and what for; shown to the judge.
    #[schemars(length(min = 1))]
    pub audience: String,
    /// One entry per step of the scenario, in its order.
    #[serde(default)]
    pub step: Vec<RubricStep>,
}

/// What is asked of one step's answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RubricStep {
    /// Name of the scenario's step.
    #[schemars(length(min = 1))]
    pub name: String,
    /// The criteria by name; their weights sum to 1.
    #[serde(default)]
    #[schemars(extend("propertyNames" = names::slug()))]
    pub criteria: IndexMap<String, Criterion>,
}

/// One thing that a judge scores from 0 to 1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Criterion {
    /// Its share of the step's score.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub weight: f64,
    /// Its weight before the import, where those of its step did not sum to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original_weight: Option<f64>,
    /// What the judge is asked.
    #[schemars(length(min = 1))]
    pub question: String,
}
