//! Quality by the rules of the Sense benchmark, from its `judged.json`.

use serde_json::Value;

use crate::artifact::Judgement;
use crate::manifest::rubric::{Criterion, Rubric, RubricStep};

/// Four digits, as the reference rounds.
fn round(value: f64) -> f64 {
    format!("{value:.4}").parse().unwrap_or(value)
}

/// A step's weighted score: what is missing counts 0, what is out of range as the bound.
fn step(judged: &Value, rubric: &RubricStep) -> f64 {
    let score = |name: &str| judged["scores"][name]["score"].as_f64().unwrap_or_default().clamp(0.0, 1.0);
    let weight = |criterion: &Criterion| criterion.original_weight.unwrap_or(criterion.weight);
    round(rubric.criteria.iter().map(|(name, criterion)| weight(criterion) * score(name)).sum())
}

/// What replies come to: what is missing or unreadable counts 0.
#[must_use]
pub fn read(bytes: &[u8], rubric: &Rubric) -> Judgement {
    let mut out = super::read(bytes, rubric);
    let Ok(judged) = serde_json::from_slice::<Value>(bytes) else { return out };
    let Some(steps) = judged["steps"].as_array() else { return out };
    let qualities: Vec<f64> =
        steps.iter().zip(&rubric.step).map(|(judged, rubric)| step(judged, rubric)).collect();
    for (step, quality) in out.steps.iter_mut().zip(&qualities) {
        step.quality = Some(*quality);
    }
    #[expect(clippy::cast_precision_loss, reason = "steps are few")]
    let mean =
        if qualities.is_empty() { 0.0 } else { qualities.iter().sum::<f64>() / qualities.len() as f64 };
    out.quality = Some(round(mean));
    out.why = None;
    out
}
