//! From the grades of a run to its `result`: a pure function, ready for JSON.
//!
//! The shape of the object is documented at [`summarise`]; [`stable`] takes out
//! what differs between executions.

mod composite;
mod pool;
mod stable;
mod tell;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::artifact::{CellState, Fault, Grades, is_lost};
use crate::manifest::dataset::Exposure;
use crate::manifest::pipeline::Profile;

use super::grader::grader;
use super::metric::{Layer, MetricDef, Pool, metric, metrics};
use pool::{Arm, Row};

pub use stable::stable;

/// Composites that rank arms where a pipeline declares them, the first of these; else its first one does.
const HEADLINES: [&str; 2] = ["retrieval", "fairness"];

/// Everything that a result is made of.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Arms in manifest order; empty for a pipeline without arms.
    pub arms: Vec<String>,
    /// Graders whose metrics the pipeline produces.
    pub graders: Vec<String>,
    /// One entry per (arm, repository, replicate) that was planned, finished or not.
    pub cells: Vec<Cell>,
    /// Numbers that command stages gave.
    pub custom: Vec<CustomNumber>,
    /// Composites in manifest order.
    pub composites: Vec<Composite>,
    /// What the result holds for.
    pub design: Design,
    /// Whose rules rows were graded by; by those of rag-bench an arm in which every question failed has
    /// a score (its sections 4.4 and 5.4).
    pub profile: Profile,
}

/// The grades of one session, and how many questions were planned for it.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    /// Arm; none in a pipeline without arms.
    pub arm: Option<String>,
    /// Repository.
    pub repo: Option<String>,
    /// Replicate.
    pub replicate: Option<String>,
    /// Questions planned; those without a row are missing.
    pub planned: u64,
    /// For a node of a command stage that gives metrics, which counts as one cell: did it end?
    pub command: Option<bool>,
    /// Questions that the manifest took out; not in `planned`.
    pub excluded: u64,
    /// Grades; none when the node did not end.
    pub grades: Option<Grades>,
    /// Remarks of the session for the report.
    pub notes: Vec<String>,
}

/// A number that a command stage's node gave under a metric's name.
#[derive(Clone, Debug, Default)]
pub struct CustomNumber {
    /// Metric.
    pub metric: String,
    /// Arm of the node; none: it holds for every arm.
    pub arm: Option<String>,
    /// Replicate of the node; none: it holds for every replicate.
    pub replicate: Option<String>,
    /// The number; none: the command wrote null, or the node did not end.
    pub value: Option<f64>,
    /// Why there is none, in the words of whoever should have given it.
    pub why: Option<String>,
    /// Does the stage say that its numbers are measured?
    pub measured: bool,
}

/// A named weighted sum.
#[derive(Clone, Debug, Default)]
pub struct Composite {
    /// Name.
    pub name: String,
    /// Terms in manifest order; their weights sum to 1.
    pub terms: Vec<Term>,
}

/// A term of a composite.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Term {
    /// Metric.
    pub metric: String,
    /// `true`: 1 / (1 + metric) is weighed, not the metric itself.
    pub inverse: bool,
    /// Weight.
    pub weight: f64,
}

/// What the result holds for: said under every report.
#[derive(Clone, Debug, Default)]
pub struct Design {
    /// Repositories in manifest order.
    pub repos: Vec<RepoFacts>,
    /// Servers whose authors run this.
    pub authors_of: Vec<String>,
    /// What the recordings are called whose answers were graded.
    pub labels: Vec<String>,
}

/// What is known of a repository.
#[derive(Clone, Debug, Default)]
pub struct RepoFacts {
    /// Name.
    pub name: String,
    /// Main language; may be empty.
    pub language: String,
    /// How likely a model knows it by heart.
    pub exposure: Exposure,
    /// Size in lines of code.
    pub lines: Option<u64>,
    /// Questions asked of it.
    pub questions: u64,
}

/// Pools grades into the `result` object:
///
/// ```text
/// {"arms": [{"arm": NAME|null,
///            "metrics": {NAME: {"value", "n", "of", "unscored", "unit", "direction", "measured",
///                               "replicates", "iqr", "cv", "identical", "why"?, "interval"?,
///                               "per_protocol"?, "terms"?, "floor"?, "note"?}},
///            "cells": {"planned", "valid", "invalid", "error", "missing", "excluded"},
///            "dropped": N, "attrition": [{"code", "fault", "n"}], "floor": {COMPOSITE: X|null},
///            "identical": BOOL|null, "notes": [TEXT]}],
///  "cells": {totals}, "complete": BOOL,
///  "breakdown": {"kind"|"difficulty"|"repo": {VALUE: [{"arm", "n", METRIC of [`GROUPED`]: X|null}]}},
///  "ranked_by": COMPOSITE|null, "ranking": [{"arm", "rank", COMPOSITE}],
///  "repos": [...], "notes": [TEXT], "limits": [TEXT], "disclosure": [TEXT], "labels"?: [TEXT]}
/// ```
///
/// `value` is the median over replicates of the number that the metric's
/// [`super::Pool`] makes of one replicate (all repositories' questions
/// together); `n` counts what `of` names (questions, repositories or nodes)
/// that gave a value; `unscored` counts cells that a grader could not score.
/// What is not estimable is null with `why`. `iqr` and `cv` are over
/// replicates; `interval` is Student's t at 95 % over the questions' means,
/// descriptive. `per_protocol` is the same number over valid cells only, given
/// where it rests on other cells than the intention-to-treat value.
pub fn summarise(input: &Summary) -> Value {
    let arms: Vec<Arm<'_>> = if input.arms.is_empty() {
        vec![Arm::new(None, input)]
    } else {
        input.arms.iter().map(|name| Arm::new(Some(name), input)).collect()
    };
    let defs: Vec<_> = produced(input).into_iter().filter(|def| applies(def, &arms, input)).collect();
    let mut totals = Counts::default();
    let mut entries = Vec::new();
    for arm in &arms {
        let counts = Counts::of(arm);
        totals.add(counts);
        entries.push(entry(arm, input, &defs, counts));
    }
    let named = |name: &str| input.composites.iter().find(|c| c.name == name);
    let ranked_by = HEADLINES
        .iter()
        .find_map(|name| named(name))
        .or_else(|| input.composites.first())
        .map(|c| c.name.as_str());
    let mut out = json!({
        "arms": entries,
        "cells": totals.json(),
        "complete": totals.missing == 0,
        "breakdown": breakdown(&arms, &defs),
        "ranked_by": ranked_by,
        "ranking": ranking(&entries, ranked_by),
        "repos": tell::repos(&input.design),
        "notes": tell::notes(&totals, &input.design),
        "limits": tell::limits(input, &defs, &arms),
        "disclosure": tell::disclosure(&input.design),
    });
    if !input.design.labels.is_empty() {
        out["labels"] = json!(input.design.labels);
    }
    out
}

/// Metrics of the pipeline's graders, in the order of the registry. Those that
/// only feed composites come with the ones that they are made from.
fn produced(input: &Summary) -> Vec<&'static MetricDef> {
    let named: Vec<&str> =
        input.graders.iter().filter_map(|g| grader(g)).flat_map(|g| g.metrics.iter().copied()).collect();
    metrics().iter().filter(|m| named.contains(&m.name)).collect()
}

/// Whether a metric says anything here: some row has it, or a composite weighs it, or nobody
/// knows because no session came to an end.
fn applies(def: &MetricDef, arms: &[Arm<'_>], input: &Summary) -> bool {
    let (Pool::Mean(column) | Pool::Percentile(column, _)) = def.pool else { return true };
    def.layer == Layer::Retrieval && !of_answers(arms)
        || arms.iter().flat_map(Arm::rows).any(|row| row.grade.values.contains_key(column))
        || input.composites.iter().flat_map(|c| &c.terms).any(|term| term.metric == def.name)
}

/// Whether answers of agents are among what was graded.
fn of_answers(arms: &[Arm<'_>]) -> bool {
    let of_answer = |name: &String| {
        metrics().iter().any(|def| def.layer != Layer::Retrieval && def.pool.column() == Some(name))
    };
    arms.iter().flat_map(Arm::rows).any(|row| row.grade.values.keys().any(of_answer))
}

/// One arm of the result.
fn entry(arm: &Arm<'_>, input: &Summary, defs: &[&'static MetricDef], counts: Counts) -> Value {
    let mut all: Map<String, Value> = Map::new();
    let mut by_name = BTreeMap::new();
    for def in defs {
        let series = arm.series(def);
        all.insert(def.name.to_owned(), series.json());
        by_name.insert(def.name.to_owned(), series);
    }
    for series in arm.custom_series() {
        if metric(&series.name).is_none() {
            all.insert(series.name.clone(), series.json());
            by_name.insert(series.name.clone(), series);
        }
    }
    // Quality only: clock readings always differ.
    let identical = pool::identical(by_name.values().filter(|s| !s.measured && s.layer != Layer::Custom));
    let mut floors = Map::new();
    for composite in &input.composites {
        let floor = composite::floor(composite);
        floors.insert(composite.name.clone(), json!(floor));
        all.insert(composite.name.clone(), composite::json(composite, &by_name, floor));
    }
    json!({
        "arm": arm.name,
        "metrics": all,
        "cells": counts.json(),
        "dropped": arm.rows().filter(|row| dropped(row)).count(),
        "attrition": attrition(arm),
        "floor": floors,
        "identical": identical,
        "notes": tell::arm_notes(arm, identical, &by_name),
    })
}

/// Is the cell left out of the numbers because the fault is not the treatment's?
fn dropped(row: &Row<'_>) -> bool {
    is_lost(row.grade.state, row.grade.fault)
}

/// How many cells ended how. `planned` = valid + invalid + error + missing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    planned: u64,
    valid: u64,
    invalid: u64,
    error: u64,
    missing: u64,
    excluded: u64,
}

impl Counts {
    fn of(arm: &Arm<'_>) -> Self {
        let mut all = Self::default();
        for cell in &arm.cells {
            let mut one = Self { excluded: cell.excluded, ..Self::default() };
            for row in cell.grades.iter().flat_map(|g| &g.rows) {
                match row.state {
                    CellState::Valid => one.valid += 1,
                    CellState::Invalid => one.invalid += 1,
                    CellState::Error => one.error += 1,
                    CellState::Missing => {}
                    CellState::Excluded => one.excluded += 1,
                }
            }
            one.valid += u64::from(cell.command == Some(true));
            let ended = one.valid + one.invalid + one.error;
            one.planned = cell.planned.max(ended);
            one.missing = one.planned - ended;
            all.add(one);
        }
        all
    }

    fn add(&mut self, other: Self) {
        self.planned += other.planned;
        self.valid += other.valid;
        self.invalid += other.invalid;
        self.error += other.error;
        self.missing += other.missing;
        self.excluded += other.excluded;
    }

    fn json(self) -> Value {
        json!({
            "planned": self.planned, "valid": self.valid, "invalid": self.invalid,
            "error": self.error, "missing": self.missing, "excluded": self.excluded,
        })
    }
}

/// Cells that ended invalid or in error, by code and fault; a cell with two codes is in both.
fn attrition(arm: &Arm<'_>) -> Value {
    let mut counts: BTreeMap<(&str, Option<Fault>), u64> = BTreeMap::new();
    for row in arm.rows().filter(|r| matches!(r.grade.state, CellState::Invalid | CellState::Error)) {
        if row.grade.codes.is_empty() {
            *counts.entry(("no-code", row.grade.fault)).or_default() += 1;
        }
        for code in &row.grade.codes {
            *counts.entry((code, row.grade.fault)).or_default() += 1;
        }
    }
    counts.into_iter().map(|((code, fault), n)| json!({ "code": code, "fault": fault, "n": n })).collect()
}

/// What is shown of groups of questions, the first that there is before the others.
pub const GROUPED: [&str; 7] =
    ["hit@5", "symbol_hit@5", "mrr", "accuracy", "llm_quality", "keyword_coverage", "citation_grounding"];

/// The metrics of [`GROUPED`] by kind, difficulty and repository.
fn breakdown(arms: &[Arm<'_>], defs: &[&'static MetricDef]) -> Value {
    type Field = fn(&Row<'_>) -> String;
    let fields: [(&str, Field); 3] = [
        ("kind", |r| r.grade.kind.clone()),
        ("difficulty", |r| r.grade.difficulty.clone()),
        ("repo", |r| r.repo.to_owned()),
    ];
    let shown: Vec<_> = GROUPED.into_iter().filter_map(|name| defs.iter().find(|d| d.name == name)).collect();
    let mut out = Map::new();
    for (name, field) in fields {
        let mut values: Vec<String> =
            arms.iter().flat_map(Arm::rows).map(|row| field(&row)).filter(|v| !v.is_empty()).collect();
        values.sort_by_key(|v| (["easy", "medium", "hard"].iter().position(|d| d == v), v.clone()));
        values.dedup();
        let mut by_value = Map::new();
        for value in values.iter().filter(|_| !shown.is_empty()) {
            let of_arms: Vec<Value> = arms
                .iter()
                .map(|arm| {
                    let part = arm.only(|row| field(row) == *value);
                    let mut one = Map::new();
                    one.insert("arm".to_owned(), json!(arm.name));
                    let series = shown.iter().map(|def| part.series(def));
                    one.insert("n".to_owned(), json!(series.map(|s| s.n).max()));
                    for def in &shown {
                        one.insert(def.name.to_owned(), json!(part.series(def).value()));
                    }
                    Value::Object(one)
                })
                .collect();
            by_value.insert(value.clone(), Value::Array(of_arms));
        }
        out.insert(name.to_owned(), Value::Object(by_value));
    }
    Value::Object(out)
}

/// Arms by their composite, best first; equal numbers share a rank, an arm
/// without a number has none and comes last.
fn ranking(entries: &[Value], by: Option<&str>) -> Value {
    let Some(by) = by else { return json!([]) };
    let mut order: Vec<(Option<f64>, &Value)> =
        entries.iter().map(|e| (e["metrics"][by]["value"].as_f64(), &e["arm"])).collect();
    order.sort_by(|a, b| match (a.0, b.0) {
        (Some(x), Some(y)) => y.total_cmp(&x),
        (x, y) => y.is_some().cmp(&x.is_some()),
    });
    let mut out = Vec::new();
    for (value, arm) in &order {
        let rank = value.map(|v| 1 + order.iter().filter(|o| o.0.is_some_and(|x| x > v)).count());
        let mut one = Map::new();
        one.insert("arm".to_owned(), (*arm).clone());
        one.insert("rank".to_owned(), json!(rank));
        one.insert(by.to_owned(), json!(value));
        out.push(Value::Object(one));
    }
    Value::Array(out)
}

#[cfg(test)]
mod tests;
