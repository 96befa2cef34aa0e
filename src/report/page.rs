//! What a report says, before it is laid out for a medium.

use serde_json::Value;

use super::answer::{Arm, listed, sentences};
use super::text::{number, plain, quantity};
use crate::grade::answer::SCENARIO;
use crate::grade::summary::GROUPED;

/// A report as titles, sentences, tables and lists.
pub(super) struct Page {
    pub(super) title: String,
    pub(super) about: Option<String>,
    pub(super) answer: Vec<String>,
    pub(super) sections: Vec<Section>,
}

/// A titled part.
pub(super) struct Section {
    pub(super) title: String,
    pub(super) body: Body,
}

/// What a part holds.
pub(super) enum Body {
    Table(Table),
    List(Vec<String>),
}

/// A table; every row is as long as the head.
pub(super) struct Table {
    pub(super) head: Vec<Column>,
    pub(super) rows: Vec<Vec<Field>>,
}

/// A column.
pub(super) struct Column {
    pub(super) name: String,
    /// Text is aligned left and may wrap, numbers are aligned right.
    pub(super) text: bool,
}

/// A field.
#[derive(Clone)]
pub(super) struct Field {
    pub(super) text: String,
    /// Is it the best of its row?
    pub(super) best: bool,
}

/// Columns of quality: metric and heading.
const QUALITY: [(&str, &str); 6] = [
    ("hit@1", "hit@1"),
    ("hit@3", "hit@3"),
    ("hit@5", "hit@5"),
    ("hit@10", "hit@10"),
    ("symbol_hit@5", "symbol@5"),
    ("mrr", "MRR"),
];
/// Columns of cost.
const COST: [(&str, &str); 7] = [
    ("latency_p50_ms", "p50 ms"),
    ("latency_p95_ms", "p95 ms"),
    ("latency_p99_ms", "p99 ms"),
    ("ingest_s", "ingest s"),
    ("rss_mib", "memory MiB"),
    ("index_mib", "index MiB"),
    ("calls", "calls"),
];
/// Columns about answers, about what they cost, and about the use of tools.
const ANSWERS: [(&str, &str); 11] = [
    ("accuracy", "accuracy"),
    ("file_accuracy", "files"),
    ("symbol_accuracy", "symbols"),
    ("llm_quality", "judge"),
    ("keyword_coverage", "checks"),
    ("citation_grounding", "grounded"),
    ("hallucination_rate", "hallucinated"),
    ("gold_mentioned", "gold named"),
    ("gold_cited", "cited"),
    ("gold_at_line", "at line"),
    ("efficiency", "efficiency"),
];
const SPENT: [(&str, &str); 7] = [
    ("tokens", "tokens"),
    ("tokens_priced", "priced"),
    ("cost_usd", "USD"),
    ("wall_s", "s"),
    ("turns", "turns"),
    ("tool_calls", "calls"),
    ("efficiency_billed", "eff. billed"),
];
const ADOPTION: [(&str, &str); 6] = [
    ("server_used", "used at all"),
    ("tool_fluency", "share of look-ups"),
    ("server_calls", "its calls"),
    ("server_failed", "of them failed"),
    ("native_lookups", "other look-ups"),
    ("discoverability", "discoverability"),
];
/// Metrics that a table of their own would only repeat.
const ELSEWHERE: [&str; 6] = ["map", "ndcg@10", "recall@10", "precision@10", "latency_p95_s", "footprint"];
/// How many columns of a user's own metrics stand side by side.
const ABREAST: usize = 6;

impl Page {
    /// Builds the page of a report object. `room`: how many characters a table
    /// may take; decides whether arms are the columns of a breakdown.
    pub(super) fn new(report: &Value, room: usize) -> Self {
        let (result, run) = (&report["result"], &report["run"]);
        let arms = Arm::ranked(result);
        let mut sections = Vec::new();
        let mut table = |title: &str, table: Option<Table>| {
            sections.extend(table.map(|t| Section { title: title.to_owned(), body: Body::Table(t) }));
        };
        table("Quality", quality(result, &arms));
        table("Cost", cost(&arms));
        table("Answers", columns(&arms, &ANSWERS));
        table("What answers cost", columns(&arms, &SPENT));
        table("Adoption", columns(&arms, &ADOPTION));
        for own in own_metrics(&arms) {
            table("Own metrics", Some(own));
        }
        // Pipelines of commands have no cells.
        let planned = arms.iter().any(|arm| arm.0["cells"]["planned"].as_u64().unwrap_or(0) > 0);
        table("Cells", planned.then(|| cells(&arms)));
        table("Gates", gates(&run["gates"]));
        let mut list = |title: &str, items: Vec<String>| {
            if !items.is_empty() {
                sections.push(Section { title: title.to_owned(), body: Body::List(items) });
            }
        };
        list("What could be wrong", wrong(result, &arms));
        for metric in GROUPED {
            if let Some(t) = kinds(result, &arms, metric, room) {
                let title = format!("By kind of question ({metric})");
                sections.push(Section { title, body: Body::Table(t) });
                break;
            }
        }
        let mut list = |title: &str, key: &str| {
            let items: Vec<String> = texts(&result[key]).collect();
            if !items.is_empty() {
                sections.push(Section { title: title.to_owned(), body: Body::List(items) });
            }
        };
        list("What this does not show", "limits");
        list("Disclosure", "disclosure");
        Self {
            title: title(run),
            about: run["about"].as_str().map(plain),
            answer: sentences(result),
            sections,
        }
    }
}

fn title(run: &Value) -> String {
    let pipeline = run["pipeline"].as_str().map_or_else(|| "report".to_owned(), plain);
    let id = run["run"].as_str().map(|id| format!(", run {}", plain(id))).unwrap_or_default();
    let state = run["state"].as_str().map(|state| format!(", {}", plain(state))).unwrap_or_default();
    let nodes = match (run["nodes"]["executed"].as_u64(), run["nodes"]["reused"].as_u64()) {
        (Some(executed), Some(reused)) => format!(" ({executed} nodes executed, {reused} reused)"),
        _ => String::new(),
    };
    format!("{pipeline}{id}{state}{nodes}")
}

fn texts(value: &Value) -> impl Iterator<Item = String> + '_ {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(plain)
}

fn field(text: impl Into<String>) -> Field {
    Field { text: text.into(), best: false }
}

fn words(name: &str) -> Column {
    Column { name: plain(name), text: true }
}

fn digits(name: &str) -> Column {
    Column { name: plain(name), text: false }
}

/// Names of the composites in the order of the result.
fn composites(arms: &[Arm<'_>]) -> Vec<String> {
    let metrics = arms.first().and_then(|a| a.0["metrics"].as_object());
    metrics.into_iter().flatten().filter(|(_, m)| m.get("terms").is_some()).map(|(n, _)| n.clone()).collect()
}

fn has(arms: &[Arm<'_>], metric: &str) -> bool {
    arms.iter().any(|arm| arm.metric(metric).is_object())
}

fn quality(result: &Value, arms: &[Arm<'_>]) -> Option<Table> {
    let composites = composites(arms);
    let shown: Vec<_> = QUALITY.iter().filter(|(metric, _)| has(arms, metric)).collect();
    if composites.is_empty() && shown.is_empty() {
        return None;
    }
    let mut head = vec![digits("#"), words("arm")];
    for name in &composites {
        head.push(digits(name));
        head.push(digits("CV %"));
    }
    head.extend(shown.iter().map(|(_, heading)| digits(heading)));
    if !shown.is_empty() {
        head.push(digits("n"));
    }
    let ranking = result["ranking"].as_array();
    let rows = arms
        .iter()
        .map(|arm| {
            let rank = ranking.into_iter().flatten().find(|r| r["arm"] == arm.0["arm"]);
            let rank = rank.and_then(|r| r["rank"].as_u64());
            let mut row =
                vec![field(rank.map_or_else(|| "–".to_owned(), |r| r.to_string())), field(arm.name())];
            for name in &composites {
                row.push(field(number(arm.value(name), 3)));
                row.push(field(spread(arm.metric(name))));
            }
            row.extend(shown.iter().map(|(metric, _)| field(number(arm.value(metric), 3))));
            if let Some((metric, _)) = shown.first() {
                row.push(field(arm.metric(metric)["n"].to_string()));
            }
            row
        })
        .collect();
    Some(Table { head, rows })
}

/// The coefficient of variation in per cent; marked when it is too large, a word when there is none.
fn spread(metric: &Value) -> String {
    if metric["identical"] == true {
        return "identical".to_owned();
    }
    let unsteady = metric["note"].as_str().is_some_and(|note| note.starts_with("unsteady"));
    let mark = if unsteady { "!" } else { "" };
    format!("{}{mark}", number(metric["cv"].as_f64().map(|cv| cv * 100.0), 1))
}

fn cost(arms: &[Arm<'_>]) -> Option<Table> {
    let shown: Vec<_> = COST.iter().filter(|(metric, _)| has(arms, metric)).collect();
    if shown.is_empty() {
        return None;
    }
    let mut head = vec![words("arm")];
    head.extend(shown.iter().map(|(_, heading)| digits(heading)));
    let failed = has(arms, "latency_p95_ms");
    if failed {
        head.push(digits("failed calls"));
    }
    let rows = arms
        .iter()
        .map(|arm| {
            let mut row = vec![field(arm.name())];
            row.extend(shown.iter().map(|(metric, _)| field(quantity(arm.value(metric)))));
            if failed {
                row.push(field(arm.metric("latency_p95_ms")["unscored"].as_u64().unwrap_or(0).to_string()));
            }
            row
        })
        .collect();
    Some(Table { head, rows })
}

/// Those of some columns that any arm has.
fn columns(arms: &[Arm<'_>], of: &[(&str, &str)]) -> Option<Table> {
    let shown: Vec<_> = of.iter().filter(|(metric, _)| has(arms, metric)).collect();
    if shown.is_empty() {
        return None;
    }
    let head =
        std::iter::once(words("arm")).chain(shown.iter().map(|(_, heading)| digits(heading))).collect();
    let row = |arm: &Arm<'_>| {
        let values =
            shown.iter().map(|(metric, _)| field(in_unit(arm.value(metric), &arm.metric(metric)["unit"])));
        std::iter::once(field(arm.name())).chain(values).collect()
    };
    Some(Table { head, rows: arms.iter().map(row).collect() })
}

/// A number with the decimals that its unit deserves.
fn in_unit(value: Option<f64>, unit: &Value) -> String {
    let decimals = match unit.as_str() {
        Some("tokens") => 0,
        Some("turns" | "calls" | "s") => 1,
        Some("USD") => 4,
        _ => 3,
    };
    number(value, decimals)
}

/// A number of a user's own: a count is shown as one.
fn own_number(value: Option<f64>) -> String {
    let whole = value.is_some_and(|v| v.fract() == 0.0 && v.abs() >= 10.0);
    number(value, if whole { 0 } else { 3 })
}

/// Metrics that users' commands gave, some columns at a time.
fn own_metrics(arms: &[Arm<'_>]) -> Vec<Table> {
    let ours = |name: &str| {
        let all = QUALITY.iter().chain(&COST).chain(&ANSWERS).chain(&SPENT).chain(&ADOPTION);
        ELSEWHERE.contains(&name) || all.map(|(metric, _)| *metric).any(|metric| metric == name)
    };
    let mut names: Vec<&String> = arms
        .iter()
        .flat_map(|a| a.0["metrics"].as_object().into_iter().flatten())
        .filter(|(name, metric)| !ours(name) && metric.get("terms").is_none())
        .map(|(name, _)| name)
        .collect();
    names.sort();
    names.dedup();
    names
        .chunks(ABREAST)
        .map(|chunk| Table {
            head: std::iter::once(words("arm")).chain(chunk.iter().map(|n| digits(n))).collect(),
            rows: arms
                .iter()
                .map(|arm| {
                    let values = chunk.iter().map(|name| field(own_number(arm.value(name))));
                    std::iter::once(field(arm.name())).chain(values).collect()
                })
                .collect(),
        })
        .collect()
}

fn cells(arms: &[Arm<'_>]) -> Table {
    const STATES: [&str; 6] = ["planned", "valid", "invalid", "error", "missing", "excluded"];
    let mut head = vec![words("arm")];
    head.extend(STATES.iter().map(|state| digits(state)));
    let reasons = arms.iter().any(|arm| arm.0["attrition"].as_array().is_some_and(|a| !a.is_empty()));
    if reasons {
        head.push(words("why"));
    }
    let rows = arms
        .iter()
        .map(|arm| {
            let mut row = vec![field(arm.name())];
            row.extend(STATES.iter().map(|s| field(arm.0["cells"][*s].as_u64().unwrap_or(0).to_string())));
            let why: Vec<String> = arm.0["attrition"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|a| {
                    let fault = a["fault"].as_str().unwrap_or("no cause");
                    format!(
                        "{} ({}, {})",
                        plain(a["code"].as_str().unwrap_or_default()),
                        a["n"],
                        plain(fault)
                    )
                })
                .collect();
            if reasons {
                row.push(field(why.join(", ")));
            }
            row
        })
        .collect();
    Table { head, rows }
}

fn gates(gates: &Value) -> Option<Table> {
    let gates = gates.as_array().filter(|g| !g.is_empty())?;
    let head = vec![words("gate"), words("bound"), digits("value"), words("state"), words("why")];
    let rows = gates
        .iter()
        .map(|g| {
            let bounds = [("at-least", "≥"), ("at-most", "≤")];
            let bound: Vec<String> = bounds
                .iter()
                .filter_map(|(key, sign)| g["bound"][*key].as_f64().map(|v| format!("{sign} {v}")))
                .collect();
            let text = |key: &str| plain(g[key].as_str().unwrap_or_default());
            vec![
                field(text("key")),
                field(bound.join(", ")),
                field(number(g["value"].as_f64(), 3)),
                field(text("state").replace('-', " ")),
                field(text("why")),
            ]
        })
        .collect();
    Some(Table { head, rows })
}

/// Remarks on the result and on each arm; what is unsteady; what has no number.
fn wrong(result: &Value, arms: &[Arm<'_>]) -> Vec<String> {
    let mut out: Vec<String> = texts(&result["notes"]).collect();
    let composites = composites(arms);
    // A remark that several arms share is made once.
    let mut remarks: Vec<(String, Vec<String>)> = Vec::new();
    for arm in arms {
        let own = arm.0["notes"].as_array().into_iter().flatten().filter_map(Value::as_str).map(plain);
        let of_composites = composites.iter().flat_map(|name| {
            let metric = arm.metric(name);
            let why = metric["why"].as_str().map(|w| format!("no {}: {}", plain(name), plain(w)));
            let note = metric["note"].as_str().filter(|n| n.starts_with("unsteady"));
            why.into_iter().chain(note.map(|n| format!("{} is {}", plain(name), plain(n))))
        });
        for remark in own.chain(of_composites) {
            match remarks.iter_mut().find(|(text, _)| *text == remark) {
                Some((_, names)) => names.push(arm.name()),
                None => remarks.push((remark, vec![arm.name()])),
            }
        }
    }
    let alone = arms.len() == 1 && arms[0].0["arm"].is_null();
    out.extend(remarks.into_iter().map(
        |(remark, names)| {
            if alone { remark } else { format!("{}: {remark}", listed(&names)) }
        },
    ));
    out
}

/// A metric by kind of question: arms as columns where they fit, else the best and the next; none
/// where no kind has it, or one kind is all.
fn kinds(result: &Value, arms: &[Arm<'_>], metric: &str, room: usize) -> Option<Table> {
    let mut kinds = result["breakdown"]["kind"].as_object()?.clone();
    let some = |entries: &Value| entries.as_array().into_iter().flatten().any(|e| e[metric].is_number());
    let all = kinds.len();
    kinds.retain(|_, entries| some(entries));
    if kinds.is_empty() || all == 1 && result["breakdown"]["kind"].get(SCENARIO).is_some() {
        return None;
    }
    let names: Vec<String> = arms.iter().map(|a| a.name()).collect();
    let longest = kinds.keys().map(|k| k.chars().count()).max().unwrap_or(0);
    let wide: usize = longest + 8 + names.iter().map(|n| n.chars().count().max(6) + 2).sum::<usize>();
    let of = |kind: &Value, arm: &Arm<'_>| -> Option<Value> {
        kind.as_array()?.iter().find(|entry| entry["arm"] == arm.0["arm"]).cloned()
    };
    let as_columns = wide <= room;
    let mut head = vec![words("kind"), digits("n")];
    if as_columns {
        head.extend(names.iter().map(|n| digits(n)));
    } else {
        head.extend([words("best"), digits(metric), words("next"), digits(metric)]);
    }
    let mut rows = Vec::new();
    for (kind, entries) in &kinds {
        let scores: Vec<Option<f64>> =
            arms.iter().map(|arm| of(entries, arm).and_then(|e| e[metric].as_f64())).collect();
        let n = arms.iter().filter_map(|arm| of(entries, arm)?["n"].as_u64()).max().unwrap_or(0);
        let mut levels: Vec<f64> = scores.iter().copied().flatten().collect();
        levels.sort_by(|a, b| b.total_cmp(a));
        levels.dedup();
        let best = levels.first().copied().filter(|b| *b > 0.0);
        let mut row = vec![field(plain(kind)), field(n.to_string())];
        if as_columns {
            row.extend(scores.iter().map(|s| Field {
                text: number(*s, 3),
                best: best.is_some() && arms.len() > 1 && *s == best,
            }));
        } else {
            for level in [best, levels.get(1).copied()] {
                let with: Vec<String> = names
                    .iter()
                    .zip(&scores)
                    .filter(|(_, s)| level.is_some() && **s == level)
                    .map(|(n, _)| n.clone())
                    .collect();
                row.push(field(listed(&with)));
                row.push(field(number(level, 3)));
            }
        }
        rows.push(row);
    }
    Some(Table { head, rows })
}
