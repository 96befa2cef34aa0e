//! Grades by the rules of the Sense benchmark.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Graded, Inputs};
use crate::artifact::transcript::Dialect;
use crate::artifact::{CitationRow, Item};
use crate::grade::sense::{self, ADOPTION, Check, Gold, Meta, Scenario, Step};
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

/// What the reference read where a scenario's own form can't say it.
fn original(text: &str, repo: &str) -> Option<Scenario> {
    let whole: Value = serde_json::from_str(text).ok()?;
    let list = |of: &Value, key: &str| of[key].as_array().cloned().unwrap_or_default();
    let text = |of: &Value, key: &str| of[key].as_str().unwrap_or_default().to_owned();
    let check = |check: &Value| Check {
        kind: text(check, "type"),
        value: text(check, "value"),
        required: check["required"] != false,
        layer: text(check, "layer"),
    };
    let steps = list(&whole, "steps");
    let steps = steps.iter().map(|step| Step {
        name: text(step, "name"),
        checks: list(step, "checks").iter().map(check).collect(),
    });
    let gold = list(&whole, "gold");
    let gold = gold.iter().map(|row| Gold {
        id: row["id"].clone(),
        group: row["group"].clone(),
        matches: list(row, "match").iter().filter_map(Value::as_str).map(str::to_owned).collect(),
    });
    Some(Scenario {
        name: text(&whole, "name"),
        repo: repo.to_owned(),
        steps: steps.collect(),
        gold: gold.collect(),
    })
}

fn convert(from: &scenario::Scenario) -> Scenario {
    if let Some(original) = from.original.as_ref().and_then(|o| original(&o.scenario, &from.repo)) {
        return original;
    }
    let check = |check: &scenario::Check| Check {
        kind: kind(check),
        value: if check.kind == CheckType::NoSearch && check.value.is_empty() {
            "no_grep".to_owned()
        } else {
            check.value.clone()
        },
        required: check.required,
        layer: match check.layer {
            scenario::Layer::Fairness => "fairness",
            scenario::Layer::Adoption => ADOPTION,
        }
        .to_owned(),
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
                id: row.id.clone().into(),
                group: row.group.clone().into(),
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
    let dialect = inputs.transcript.dialect;
    if !matches!(dialect, Dialect::Claude | Dialect::Qwen) {
        unscored(names, dialect, out, values);
        return;
    }
    let overhead = match facts.get("overhead") {
        // As text where it holds what a manifest can't.
        Some(Value::String(text)) => serde_json::from_str(text).ok(),
        other => other.cloned(),
    };
    let meta = Meta {
        tool: facts.get("tool").and_then(Value::as_str).map(str::to_owned),
        error: facts.get("error").and_then(Value::as_str).map(str::to_owned),
        wall: facts.get("wall_time_seconds").and_then(Value::as_f64),
        overhead: overhead.filter(Value::is_object),
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

/// The reference's scorer reads one form of transcript; of any other it would see nothing and say 0.
fn unscored(names: &[&str], dialect: Dialect, out: &mut Graded, values: &mut BTreeMap<String, Option<f64>>) {
    let note = format!(
        "not scored: the benchmark's rules read transcripts in the form of Claude Code's stream, not of {}",
        dialect.name()
    );
    let columns = FIELDS.iter().filter(|(grader, ..)| names.contains(grader));
    values.extend(columns.map(|(_, column, _)| ((*column).to_owned(), None)));
    let graders: BTreeSet<&str> = FIELDS.iter().map(|(grader, ..)| *grader).collect();
    out.items.extend(graders.into_iter().filter(|grader| names.contains(grader)).map(|grader| Item {
        grader: grader.to_owned(),
        id: "transcript".to_owned(),
        note: note.clone(),
        ..Item::default()
    }));
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
    let mut seen = BTreeSet::new();
    for row in rows(&scored["gold_recall"]["details"]).iter().filter(|_| names.contains(&"gold")) {
        let text = |name: &str| row[name].as_str().map_or_else(|| row[name].to_string(), str::to_owned);
        let mut id = format!("gold {}: {}", text("group"), text("id"));
        while !seen.insert(id.clone()) {
            id.push('\'');
        }
        let note = if row["mentioned"] == true { "mentioned" } else { "not mentioned" };
        out.items.push(Item {
            grader: "gold".to_owned(),
            id,
            hit: row["cited"].as_bool(),
            note: note.to_owned(),
            ..Item::default()
        });
    }
}
