//! The part of a result that two honest executions share.

use serde_json::{Map, Value, json};

/// What is kept of a metric that was read off a clock or a gauge.
const KEPT: [&str; 6] = ["n", "of", "unscored", "unit", "direction", "measured"];

/// A result without what differs between executions: of every measured metric,
/// and of every composite that rests on one, only its `n` (and how many are
/// unscored, unit and direction) is kept; ranks that rest on such a composite
/// give way to `n`, with the arms in manifest order. The rest is as it was.
pub fn stable(result: &Value) -> Value {
    let mut out = result.clone();
    let ranked_by = result["ranked_by"].as_str().unwrap_or_default().to_owned();
    let mut ranks = Vec::new();
    let mut ranking_is_measured = false;
    for arm in out["arms"].as_array_mut().into_iter().flatten() {
        let name = arm["arm"].clone();
        let metrics = arm["metrics"].as_object_mut();
        for (metric, entry) in metrics.into_iter().flatten() {
            let measured = entry["measured"] == json!(true);
            if measured {
                *entry = Value::Object(kept(entry));
            }
            if *metric == ranked_by {
                ranking_is_measured |= measured;
                ranks.push(json!({ "arm": name, "n": entry["n"] }));
            }
        }
    }
    if ranking_is_measured {
        out["ranking"] = Value::Array(ranks);
    }
    out
}

fn kept(entry: &Value) -> Map<String, Value> {
    KEPT.iter().filter_map(|key| entry.get(key).map(|v| ((*key).to_owned(), v.clone()))).collect()
}
