//! Bounds on numbers of a result, and how a run ends because of them.

use serde::Serialize;
use serde_json::Value;

use crate::manifest::pipeline::Bound;

/// A bound is met within this: sums of weights are rounded.
const ROUNDING: f64 = 1e-12;

/// A bound on a number.
#[derive(Clone, Debug)]
pub struct GateSpec {
    /// The key as written, e.g. `bm25.hit@5.value`.
    pub key: String,
    /// Arm; none in a pipeline without arms.
    pub arm: Option<String>,
    /// Metric or composite.
    pub metric: String,
    /// The bound.
    pub bound: Bound,
}

/// How a gate ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum GateState {
    /// The number keeps the bound.
    Pass,
    /// It does not.
    Fail,
    /// There is no number, or not the whole of it; counts as failed.
    CannotTell,
}

/// What became of a gate.
#[derive(Clone, Debug, Serialize)]
pub struct GateOutcome {
    /// The key as written.
    pub key: String,
    /// The bound.
    pub bound: Bound,
    /// The number.
    pub value: Option<f64>,
    /// How it ended.
    pub state: GateState,
    /// Why, in one sentence; none when it passed.
    pub why: Option<String>,
}

/// Compares a result with bounds.
pub fn gate(result: &Value, gates: &[GateSpec]) -> Vec<GateOutcome> {
    gates.iter().map(|spec| judge(result, spec)).collect()
}

fn judge(result: &Value, spec: &GateSpec) -> GateOutcome {
    let outcome = |value, state, why: Option<String>| GateOutcome {
        key: spec.key.clone(),
        bound: spec.bound.clone(),
        value,
        state,
        why,
    };
    let cannot = |value, why: String| outcome(value, GateState::CannotTell, Some(why));
    let arms = result["arms"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(arm) = arms.iter().find(|a| a["arm"].as_str() == spec.arm.as_deref()) else {
        return cannot(None, format!("the result has no arm `{}`", spec.arm.as_deref().unwrap_or_default()));
    };
    let Some(entry) = arm["metrics"].get(&spec.metric) else {
        return cannot(None, format!("the result has no metric `{}`", spec.metric));
    };
    let Some(value) = entry["value"].as_f64() else {
        let why = entry["why"].as_str().unwrap_or("not estimable");
        return cannot(None, format!("`{}` has no value: {why}", spec.metric));
    };
    let missing = count(arm, "missing");
    if missing > 0 {
        return cannot(Some(value), format!("incomplete: {missing} cells are missing"));
    }
    if let Some(low) = spec.bound.at_least.filter(|low| value < low - ROUNDING) {
        return outcome(Some(value), GateState::Fail, Some(format!("{value} is below {low}")));
    }
    if let Some(high) = spec.bound.at_most.filter(|high| value > high + ROUNDING) {
        return outcome(Some(value), GateState::Fail, Some(format!("{value} is above {high}")));
    }
    outcome(Some(value), GateState::Pass, None)
}

/// What decides how a run ends, beside its result and gates.
#[derive(Clone, Copy, Debug)]
pub struct ExitInput {
    /// Largest share (0 to 1) of an arm's cells that may be invalid.
    pub max_invalid: f64,
    /// Cells in error do not count.
    pub allow_errors: bool,
    /// Nodes that could produce no artifact.
    pub failed: u64,
    /// Nodes that were not run: cancelled, out of budget.
    pub unfinished: u64,
}

impl Default for ExitInput {
    fn default() -> Self {
        Self { max_invalid: 0.10, allow_errors: false, failed: 0, unfinished: 0 }
    }
}

/// Exit code of a run whose manifest was sound, the first that holds: 5 too
/// many invalid cells in an arm, 3 infrastructure errors remain, 4 incomplete,
/// 2 a gate failed or cannot tell, 0.
pub fn exit_state(result: &Value, gates: &[GateOutcome], input: ExitInput) -> u8 {
    let arms = result["arms"].as_array().map(Vec::as_slice).unwrap_or_default();
    let void = |arm: &Value| {
        let planned = count(arm, "planned");
        planned > 0 && count(arm, "invalid") as f64 / planned as f64 > input.max_invalid
    };
    let total = |state: &str| arms.iter().map(|arm| count(arm, state)).sum::<u64>();
    if arms.iter().any(void) {
        5
    } else if input.failed > 0 || (total("error") > 0 && !input.allow_errors) {
        3
    } else if input.unfinished > 0 || total("missing") > 0 {
        4
    } else if gates.iter().any(|g| g.state != GateState::Pass) {
        2
    } else {
        0
    }
}

fn count(arm: &Value, state: &str) -> u64 {
    arm["cells"][state].as_u64().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::GateState::{CannotTell, Fail, Pass};
    use super::*;

    fn result(invalid: u64, error: u64, missing: u64) -> Value {
        let valid = 20 - invalid - error - missing;
        json!({ "arms": [{
            "arm": "grep",
            "metrics": { "hit@5": { "value": 0.6 }, "mrr": { "value": null, "why": "no cell has an answer" } },
            "cells": { "planned": 20, "valid": valid, "invalid": invalid, "error": error, "missing": missing, "excluded": 0 }
        }] })
    }

    fn spec(arm: Option<&str>, metric: &str, at_least: Option<f64>, at_most: Option<f64>) -> GateSpec {
        GateSpec {
            key: format!("{metric}.value"),
            arm: arm.map(str::to_owned),
            metric: metric.to_owned(),
            bound: Bound { at_least, at_most },
        }
    }

    #[test]
    fn gates_pass_fail_or_cannot_tell() {
        let gates = [
            spec(Some("grep"), "hit@5", Some(0.6), Some(0.6)),
            spec(Some("grep"), "hit@5", Some(0.61), None),
            spec(Some("grep"), "hit@5", None, Some(0.59)),
            spec(Some("grep"), "mrr", Some(0.0), None),
            spec(Some("grep"), "map", Some(0.0), None),
            spec(Some("bm25"), "hit@5", Some(0.0), None),
            spec(None, "hit@5", Some(0.0), None),
        ];
        let states: Vec<GateState> = gate(&result(0, 0, 0), &gates).iter().map(|o| o.state).collect();
        assert_eq!(states, [Pass, Fail, Fail, CannotTell, CannotTell, CannotTell, CannotTell]);
        let incomplete = gate(&result(0, 0, 1), &gates[..1]);
        assert_eq!((incomplete[0].state, incomplete[0].value), (CannotTell, Some(0.6)));
        assert_eq!(incomplete[0].why.as_deref(), Some("incomplete: 1 cells are missing"));
    }

    #[test]
    fn exit_codes_in_their_order() {
        let fails = gate(&result(0, 0, 0), &[spec(Some("grep"), "hit@5", Some(0.9), None)]);
        let plain = ExitInput::default();
        assert_eq!(exit_state(&result(0, 0, 0), &[], plain), 0);
        assert_eq!(exit_state(&result(2, 0, 0), &[], plain), 0, "exactly a tenth is allowed");
        assert_eq!(exit_state(&result(0, 0, 0), &fails, plain), 2);
        assert_eq!(exit_state(&result(0, 0, 1), &fails, plain), 4);
        assert_eq!(exit_state(&result(0, 1, 1), &fails, plain), 3);
        assert_eq!(exit_state(&result(3, 1, 1), &fails, plain), 5);
        assert_eq!(exit_state(&result(0, 1, 0), &[], ExitInput { allow_errors: true, ..plain }), 0);
        assert_eq!(
            exit_state(&result(0, 0, 0), &[], ExitInput { failed: 1, allow_errors: true, ..plain }),
            3
        );
        assert_eq!(exit_state(&result(0, 0, 0), &[], ExitInput { unfinished: 1, ..plain }), 4);
    }
}
