//! Quality from stored judge replies, and the composite of the reference.

use std::collections::BTreeMap;

use serde_json::Value;

use super::python;

/// Weights of a step's criteria, by name.
pub type Weights = BTreeMap<String, f64>;

/// Quality of each step and of the scenario, from `judged.json` and the rubric's weights by
/// step. A criterion that a reply lacks counts 0, as in the reference.
#[must_use]
pub fn from_judged(judged: &Value, weights: &[Weights]) -> (Vec<f64>, f64) {
    let steps = judged["steps"].as_array().into_iter().flatten().zip(weights);
    let of = |(step, weights): (&Value, &Weights)| {
        let score = |name: &str| step["scores"][name]["score"].as_f64().unwrap_or_default().clamp(0.0, 1.0);
        python::round(weights.iter().map(|(name, weight)| weight * score(name)).sum(), 4)
    };
    let steps: Vec<f64> = steps.map(of).collect();
    #[expect(clippy::cast_precision_loss, reason = "steps are few")]
    let mean = if steps.is_empty() { 0.0 } else { steps.iter().sum::<f64>() / steps.len() as f64 };
    (steps, python::round(mean, 4))
}
