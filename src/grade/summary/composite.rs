//! Named weighted sums over metrics.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::grade::metric::{Direction, metric};

use super::pool::{Series, middle, spread};
use super::{Composite, Term};

/// Coefficient of variation over replicates above which a composite says so.
const UNSTEADY: f64 = 0.05;

/// What an engine that finds nothing reaches: metrics of quality at 0, costs at
/// their best. Null where a term is a metric of the user's own.
pub(super) fn floor(composite: &Composite) -> Option<f64> {
    let value = |term: &Term| {
        let idle = metric(&term.metric)?.idle;
        Some(term.weight * weighed(term, idle))
    };
    // Rounded, so that weights as people write them give the number that they expect.
    let sum: Option<f64> = composite.terms.iter().map(value).sum();
    sum.map(|sum| (sum * 1e12).round() / 1e12)
}

/// The composite's entry in the result.
pub(super) fn json(composite: &Composite, metrics: &BTreeMap<String, Series>, floor: Option<f64>) -> Value {
    let parts: Vec<(&Term, Option<&Series>)> =
        composite.terms.iter().map(|term| (term, metrics.get(&term.metric))).collect();
    let replicates = parts.iter().filter_map(|(_, s)| s.map(|s| s.replicates.len())).max().unwrap_or(0);
    let numbers: Vec<Option<f64>> = (0..replicates)
        .map(|r| {
            parts.iter().map(|(term, s)| Some(term.weight * weighed(term, s.and_then(|s| s.at(r))?))).sum()
        })
        .collect();
    let value = middle(&numbers);
    let of_questions = |s: &&Series| s.of == "questions";
    let known: Vec<&Series> = parts.iter().filter_map(|(_, s)| *s).collect();
    let n = known
        .iter()
        .copied()
        .filter(of_questions)
        .map(|s| s.n)
        .min()
        .or_else(|| known.iter().map(|s| s.n).min())
        .unwrap_or(0);
    let mut out = json!({
        "value": value,
        "n": n,
        "of": if known.iter().any(|s| s.of == "questions") { "questions" } else { "nodes" },
        "unscored": numbers.iter().filter(|v| v.is_none()).count(),
        "unit": "score",
        "direction": Direction::HigherBetter,
        "measured": known.iter().any(|s| s.measured),
    });
    let extra = spread(&numbers);
    let cv = extra["cv"].as_f64();
    let identical = extra["identical"] == json!(true);
    if let Value::Object(entry) = &mut out {
        entry.extend(extra);
        entry.insert("floor".to_owned(), json!(floor));
        entry.insert(
            "terms".to_owned(),
            parts
                .iter()
                .map(|(term, s)| {
                    json!({ "metric": term.metric, "inverse": term.inverse, "weight": term.weight,
                            "value": s.and_then(Series::value).map(|v| weighed(term, v)) })
                })
                .collect(),
        );
        if value.is_none() {
            entry.insert("why".to_owned(), json!(why(&parts)));
        }
        if let Some(cv) = cv.filter(|cv| cv.abs() > UNSTEADY) {
            entry.insert(
                "note".to_owned(),
                json!(format!("unsteady: coefficient of variation {cv:.3} over {replicates} replicates, above {UNSTEADY}")),
            );
        } else if identical {
            entry.insert("note".to_owned(), json!("the replicates are identical: a deterministic engine"));
        }
    }
    out
}

/// The first component that is missing, and why.
fn why(parts: &[(&Term, Option<&Series>)]) -> String {
    for (term, series) in parts {
        match series {
            None => return format!("{}: no stage gives it", term.metric),
            Some(s) if s.value().is_none() => {
                return format!("{}: {}", term.metric, s.why.as_deref().unwrap_or("not estimable"));
            }
            Some(_) => {}
        }
    }
    "no replicate has all components".to_owned()
}

fn weighed(term: &Term, value: f64) -> f64 {
    // Costs are not negative; a negative reading must not pass 1 or divide by 0.
    if term.inverse { 1.0 / (1.0 + value.max(0.0)) } else { value }
}
