//! Sentences of a result: what could be wrong, what it does not show.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use crate::artifact::SamplePair;
use crate::grade::metric::{Layer, MetricDef};
use crate::manifest::dataset::Exposure;

use super::pool::{Arm, Series};
use super::{Counts, Design, Summary, dropped};

/// Remarks about one arm.
pub(super) fn arm_notes(
    arm: &Arm<'_>,
    identical: Option<bool>,
    series: &BTreeMap<String, Series>,
) -> Vec<String> {
    let mut out = Vec::new();
    let replicates = arm.replicate_count();
    if identical == Some(true) {
        out.push(format!(
            "the {replicates} replicates are identical: a deterministic engine; they say nothing about chance"
        ));
    }
    let lost = arm.rows().filter(dropped).count();
    if lost > 0 {
        let are = if lost == 1 { "cell is" } else { "cells are" };
        out.push(format!("{lost} {are} dropped: the fault is not the server's"));
    }
    out.extend(silent(series));
    out.extend(samples(arm));
    let mut seen = BTreeSet::new();
    for cell in &arm.cells {
        out.extend(cell.notes.iter().filter(|note| seen.insert(note.as_str())).cloned());
    }
    out
}

/// Metrics that some answers have no value of, with the words of whoever gave none; failed calls
/// of retrieval are counted in a column of their own.
fn silent(series: &BTreeMap<String, Series>) -> Vec<String> {
    let mut alike: BTreeMap<(u64, u64, &[String]), Vec<&str>> = BTreeMap::new();
    for (name, one) in series.iter().filter(|(_, one)| one.silent > 0 && one.layer != Layer::Retrieval) {
        alike.entry((one.silent, one.silent + one.n, &one.words)).or_default().push(name);
    }
    let tell = |((silent, of, words), names): ((u64, u64, &[String]), Vec<&str>)| {
        let why = if words.is_empty() { String::new() } else { format!(": {}", words.join("; ")) };
        let which = match (silent, of) {
            (1, 1) => "the only one has".to_owned(),
            (silent, of) if silent == of => format!("all {of} have"),
            (1, of) => format!("1 of {of} has"),
            (silent, of) => format!("{silent} of {of} have"),
        };
        format!("{}: {which} no value{why}", names.join(", "))
    };
    alike.into_iter().map(tell).collect()
}

/// Three pairs of question and first result, when an arm found nothing at all.
fn samples(arm: &Arm<'_>) -> Vec<String> {
    if arm.rows().any(|row| row.grade.rank.is_some()) {
        return Vec::new();
    }
    let mut pairs: Vec<&SamplePair> = Vec::new();
    for pair in arm.cells.iter().filter_map(|c| c.grades.as_ref()).flat_map(|g| &g.samples) {
        if !pairs.contains(&pair) {
            pairs.push(pair);
        }
    }
    pairs.sort_by_key(|pair| pair.top.is_none());
    if pairs.is_empty() {
        return Vec::new();
    }
    let mut out = vec!["nothing was found for any question: path vocabulary mismatch?".to_owned()];
    for pair in pairs.into_iter().take(3) {
        out.push(format!(
            "{}: \"{}\" expects {}; the first result is {}",
            pair.task,
            pair.question,
            pair.expected.as_deref().unwrap_or("nothing"),
            pair.top.as_deref().unwrap_or("none"),
        ));
    }
    out
}

/// Remarks about the whole result.
pub(super) fn notes(totals: &Counts, design: &Design) -> Vec<String> {
    let mut out = Vec::new();
    if totals.missing > 0 {
        out.push(format!("incomplete: {} of {} cells are missing", totals.missing, totals.planned));
    }
    let famous: Vec<&str> =
        design.repos.iter().filter(|r| r.exposure == Exposure::Famous).map(|r| r.name.as_str()).collect();
    if !famous.is_empty() && famous.len() == design.repos.len() {
        out.push(format!("every repository is famous ({}): servers may be tuned to it", famous.join(", ")));
    }
    out
}

/// What the result does not show, made from the design.
pub(super) fn limits(input: &Summary, defs: &[&'static MetricDef], arms: &[Arm<'_>]) -> Vec<String> {
    let mut out = Vec::new();
    let design = &input.design;
    let answers = super::of_answers(arms);
    let asked: BTreeSet<(&str, &str)> =
        arms.iter().flat_map(Arm::rows).map(|row| (row.repo, row.grade.task.as_str())).collect();
    // Answers that exist already say themselves what they are about.
    let (tasks, names): (u64, BTreeSet<&str>) = if answers {
        (asked.len() as u64, asked.iter().map(|(repo, _)| *repo).collect())
    } else {
        (
            design.repos.iter().map(|r| r.questions).sum(),
            design.repos.iter().map(|r| r.name.as_str()).collect(),
        )
    };
    if !names.is_empty() {
        let what = if answers { ("task", "tasks") } else { ("question", "questions") };
        out.push(format!(
            "other code: the numbers are of {} about {} ({})",
            plural(usize::try_from(tasks).unwrap_or(usize::MAX), what.0, what.1),
            plural(names.len(), "repository", "repositories"),
            names.into_iter().collect::<Vec<_>>().join(", "),
        ));
    }
    let retrieval = defs.iter().any(|d| d.layer == Layer::Retrieval && !d.measured);
    if retrieval && !answers {
        out.push(
            "whether an agent answers better with the server: it was asked directly, without an agent"
                .to_owned(),
        );
    }
    if arms.len() > 1 && (retrieval || answers) {
        out.push(
            "a winner: differences between arms are not tested here, and intervals are descriptive, \
             over questions as if drawn independently"
                .to_owned(),
        );
    }
    if retrieval {
        out.push("differences by kind, difficulty or repository: these groups are exploratory".to_owned());
        out.push(
            "whether a whole answer was found: any one of a question's expected files counts as a hit"
                .to_owned(),
        );
    }
    if defs.iter().any(|d| d.measured) {
        out.push("other machines: times and memory are of this machine under its load".to_owned());
    }
    if design.repos.iter().any(|r| matches!(r.exposure, Exposure::Famous | Exposure::Obscure)) {
        out.push(
            "code that no model has seen: published repositories may be known to a server's models"
                .to_owned(),
        );
    }
    if out.is_empty() {
        out.push("anything beyond the numbers that this pipeline's own commands wrote".to_owned());
    }
    out
}

/// Who has an interest in the outcome.
pub(super) fn disclosure(design: &Design) -> Vec<String> {
    if design.authors_of.is_empty() {
        return vec!["no interest in a server is declared".to_owned()];
    }
    vec![format!("run by authors of {}", design.authors_of.join(", "))]
}

/// Facts of the repositories.
pub(super) fn repos(design: &Design) -> Value {
    design
        .repos
        .iter()
        .map(|r| {
            json!({ "repo": r.name, "language": r.language, "exposure": r.exposure,
                    "lines": r.lines, "questions": r.questions })
        })
        .collect()
}

fn plural(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}
