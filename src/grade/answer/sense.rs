//! Grades by the rules of the Sense benchmark.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Graded, Inputs};
use crate::artifact::{CitationRow, Item};
use crate::grade::sense::{self, Check, Gold, Layer, Meta, Scenario, Step};
use crate::manifest::scenario::{self, CheckType};

/// Columns by the field of `scored.json` that they are taken from, and the grader that gives them.
const FIELDS: [(&str, &str, &str); 10] = [
    ("checks", "keyword_coverage", "/keyword_coverage"),
    ("checks", "step_avg_score", "/step_avg_score"),
    ("checks", "completeness", "/completeness"),
    ("citations", "citation_grounding", "/citation_grounding/rate"),
    ("gold", "gold_mentioned", "/gold_recall/mention_recall"),
    ("gold", "gold_cited", "/gold_recall/cited_recall"),
    ("efficiency", "efficiency", "/efficiency"),
    ("efficiency", "cost_usd", "/metrics/cost_usd"),
    ("adoption", "tool_fluency", "/tool_fluency"),
    ("adoption", "discoverability", "/discoverability"),
];

/// The reference's name of a type of check.
fn kind(check: &scenario::Check) -> String {
    let name = match check.kind {
        CheckType::StartsWith => "starts_with",
        CheckType::DiffContains => "diff_contains",
        CheckType::Richness => "response_richness",
        CheckType::ToolUsed => "mcp_tool_used",
        CheckType::NoSearch => "no_grep",
        other => other.name(),
    };
    check.original.clone().unwrap_or_else(|| name.to_owned())
}

fn convert(from: &scenario::Scenario) -> Scenario {
    let check = |check: &scenario::Check| Check {
        kind: kind(check),
        value: if check.kind == CheckType::NoSearch && check.value.is_empty() {
            "no_grep".to_owned()
        } else {
            check.value.clone()
        },
        required: check.required,
        layer: match check.layer {
            scenario::Layer::Fairness => Layer::Fairness,
            scenario::Layer::Adoption => Layer::Adoption,
        },
    };
    Scenario {
        name: from.title.clone(),
        repo: from.repo.clone(),
        steps: from
            .step
            .iter()
            .map(|step| Step { name: step.name.clone(), checks: step.check.iter().map(check).collect() })
            .collect(),
        gold: from
            .gold
            .iter()
            .map(|row| Gold {
                id: row.id.clone(),
                group: row.group.clone(),
                matches: if row.matches.is_empty() { vec![row.id.clone()] } else { row.matches.clone() },
            })
            .collect(),
    }
}

pub(super) fn grade(
    names: &[&str],
    inputs: &Inputs<'_>,
    out: &mut Graded,
    values: &mut BTreeMap<String, Option<f64>>,
) {
    let Some(mut scenario) = inputs.scenario.map(convert) else { return };
    let facts = &inputs.session.facts;
    // Its ceilings go by the repository's name there.
    if let Some(repo) = facts.get("repo").and_then(Value::as_str) {
        repo.clone_into(&mut scenario.repo);
    }
    let meta = Meta {
        error: facts.get("error").and_then(Value::as_str).map(str::to_owned),
        wall: facts.get("wall_time_seconds").and_then(Value::as_f64),
        overhead: facts.get("overhead").filter(|value| value.is_object()).cloned(),
    };
    let scored = sense::score(&scenario, inputs.stream, &meta, inputs.checkout);
    let value = &scored.value;
    for (grader, column, field) in FIELDS {
        let Some(found) = value.pointer(field) else { continue };
        // Without a checkout the rate says nothing.
        let checked = column != "citation_grounding" || inputs.checkout.is_some();
        if names.contains(&grader) && !found.is_null() {
            values.insert(column.to_owned(), found.as_f64().filter(|_| checked));
        }
    }
    items(names, value, out);
    if names.contains(&"citations") {
        out.citations = scored
            .citations
            .iter()
            .map(|(cited, verdict)| CitationRow {
                file: cited.file.clone(),
                locator: cited.locator.clone(),
                bucket: verdict.status.as_str().to_owned(),
                path: verdict.path.clone(),
                distance: None,
                span: (cited.span.start as u64, cited.span.end as u64),
                reason: verdict.reason.clone(),
                ..CitationRow::default()
            })
            .collect();
    }
    out.scored = Some(scored.file());
}

fn items(names: &[&str], scored: &Value, out: &mut Graded) {
    let rows = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for (at, step) in rows(&scored["steps"]).iter().enumerate().filter(|_| names.contains(&"checks")) {
        let mut seen = BTreeSet::new();
        for check in rows(&step["checks"]) {
            let text = |name: &str| check[name].as_str().unwrap_or_default().to_owned();
            let mut id = format!("step {}: {} {}", at + 1, text("type"), text("value"));
            while !seen.insert(id.clone()) {
                id.push('\'');
            }
            out.items.push(Item {
                grader: "checks".to_owned(),
                id,
                step: u32::try_from(at + 1).ok(),
                hit: check["hit"].as_bool(),
                ..Item::default()
            });
        }
    }
    for row in rows(&scored["gold_recall"]["details"]).iter().filter(|_| names.contains(&"gold")) {
        let text = |name: &str| row[name].as_str().unwrap_or_default();
        let note = if row["mentioned"] == true { "mentioned" } else { "not mentioned" };
        out.items.push(Item {
            grader: "gold".to_owned(),
            id: format!("gold {}: {}", text("group"), text("id")),
            hit: row["cited"].as_bool(),
            note: note.to_owned(),
            ..Item::default()
        });
    }
}
