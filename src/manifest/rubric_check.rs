//! Whether a rubric's steps can be told apart and their weights sum to 1.

use serde_json::Value;

use super::entries::{Once, entries, is_empty, text};
use super::path::KeyPath;
use super::rubric::Rubric;
use super::source::{Document, shorten};
use crate::diag::Diagnostic;

/// How far weights may miss 1: they are decimal fractions, added as binary ones.
const TOLERANCE: f64 = 1e-6;

/// Most weights that one message points at.
const MOST_SHOWN: usize = 16;

/// What is wrong with a rubric by itself.
pub(super) fn check(_: &Rubric, document: &Document) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let steps = KeyPath::of(&["step"]);
    if is_empty(document, &steps) {
        let place = document.table_place(&steps);
        let help = "add `[[step]]` with the name of the scenario's step, and its criteria";
        found.push(Diagnostic::error("no-steps", "the rubric has no steps").at(place, "").help(help));
    }
    let mut once = Once::new("step", "every step has a name of its own, that of the scenario's step");
    for (path, step) in entries(document, &steps) {
        if let Some(name) = text(step, "name") {
            found.extend(once.see(name, path.key("name"), document));
        }
        found.extend(weights(step, &path, document));
    }
    found
}

fn weights(step: &Value, path: &KeyPath, document: &Document) -> Option<Diagnostic> {
    let name = shorten(text(step, "name").unwrap_or("?"));
    let at = path.key("criteria");
    let criteria = match step.get("criteria") {
        None => None,
        // A value of another type is reported by the schema.
        Some(value) => Some(value.as_object()?),
    };
    let Some(criteria) = criteria.filter(|criteria| !criteria.is_empty()) else {
        let message = format!("the step `{name}` has no criteria");
        let help = "add `[step.criteria.NAME]` with `weight` and `question`";
        return Some(Diagnostic::error("no-criteria", message).at(document.table_place(path), "").help(help));
    };
    let weights: Option<Vec<f64>> =
        criteria.values().map(|criterion| criterion.get("weight").and_then(Value::as_f64)).collect();
    let sum: f64 = weights?.iter().sum();
    if (sum - 1.0).abs() <= TOLERANCE {
        return None;
    }
    let message = format!("the weights of the step `{name}` sum to {}", rounded(sum));
    let mut error = Diagnostic::error("bad-weights", message);
    for criterion in criteria.keys().take(MOST_SHOWN) {
        error = error.at(document.value_place(&at.key(criterion).key("weight")), "");
    }
    Some(error.help("they must sum to 1, so that a step's score lies between 0 and 1"))
}

/// A sum as people would write it.
fn rounded(sum: f64) -> String {
    let text = format!("{sum:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
