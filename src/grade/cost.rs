//! Graders `latency` and `resources`: what answers and indexes cost.

use std::collections::BTreeMap;

use super::metric::{FOOTPRINT_RSS, LATENCY};
use super::ranking::{blank, counts, stated};
use crate::artifact::{AnswerRow, CellState, GradeRow, IngestFacts, Timing};
use crate::manifest::dataset::Question;
use crate::manifest::pipeline::Profile;

/// Latency per question: column `latency_ms`, in milliseconds, over successful
/// calls; a call that failed is null, so that failures are counted beside the
/// percentiles. A question that was not asked has no value.
///
/// Profile `rag-bench` takes every value above 0 and no other, whatever became of the call: also the
/// 120000 of a call that ran out of time (its sections 4.4 and 5.4).
pub fn latency(
    rows: &[AnswerRow],
    timing: &Timing,
    questions: &[Question],
    profile: Profile,
) -> Vec<GradeRow> {
    let answers: BTreeMap<&str, &AnswerRow> = rows.iter().map(|row| (row.task.as_str(), row)).collect();
    let times: BTreeMap<&str, Option<f64>> =
        timing.calls.iter().map(|call| (call.task.as_str(), call.latency_ms)).collect();
    questions
        .iter()
        .map(|question| {
            let Some(row) = answers.get(question.id.as_str()) else {
                return GradeRow { state: CellState::Missing, ..blank(question) };
            };
            let mut out = stated(row, question);
            if counts(row, profile) {
                let taken = times.get(question.id.as_str()).copied().flatten().filter(|ms| ms.is_finite());
                let succeeded = row.state != CellState::Error && row.error.is_none();
                let usable = match profile {
                    Profile::RagBench => taken.filter(|ms| *ms > 0.0),
                    Profile::Default | Profile::Sense => taken.filter(|_| succeeded && row.calls > 0),
                };
                if row.calls > 0 || usable.is_some() {
                    out.values.insert(LATENCY.to_owned(), usable);
                }
            }
            out
        })
        .collect()
}

/// Node values: `ingest_s` (left out for a server without an index step),
/// `rss_mib` (the larger of indexing and answering), `index_mib` (0 without an
/// index step), and resident memory as the footprint counts it: profile
/// `rag-bench` counts none (its section 4.7).
pub fn resources(
    ingest: Option<&IngestFacts>,
    timing: Option<&Timing>,
    profile: Profile,
) -> BTreeMap<String, Option<f64>> {
    let mut out = BTreeMap::new();
    let readings = [ingest.and_then(|i| i.rss_mib), timing.and_then(|t| t.rss_mib)];
    let rss = readings.into_iter().flatten().filter(|v| v.is_finite()).reduce(f64::max);
    let without_index = ingest.is_some_and(|i| i.ingest_s.is_none());
    if let Some(seconds) = ingest.and_then(|i| i.ingest_s) {
        out.insert("ingest_s".to_owned(), Some(seconds).filter(|v| v.is_finite()));
    }
    let index = ingest.and_then(|i| i.index_mib).or(without_index.then_some(0.0));
    out.insert("rss_mib".to_owned(), rss);
    out.insert("index_mib".to_owned(), index.filter(|v| v.is_finite()));
    out.insert(FOOTPRINT_RSS.to_owned(), if profile == Profile::RagBench { Some(0.0) } else { rss });
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::CallTiming;
    use crate::manifest::dataset::{Difficulty, QuestionKind};

    #[test]
    fn failed_calls_have_no_latency_but_count() {
        let question = |id: &str| Question {
            id: id.into(),
            kind: QuestionKind::Locate,
            difficulty: Difficulty::Easy,
            prompt: String::new(),
            files: Vec::new(),
            symbols: Vec::new(),
            mentions: Vec::new(),
            content: Vec::new(),
        };
        let row = |id: &str, error: Option<&str>, calls| AnswerRow {
            task: id.into(),
            error: error.map(str::to_owned),
            calls,
            ..AnswerRow::default()
        };
        let call = |id: &str, ms| CallTiming { task: id.into(), latency_ms: ms };
        let timing = Timing {
            calls: vec![call("a", Some(2.5)), call("b", None), call("d", Some(0.0))],
            ..Timing::default()
        };
        let rows = [row("a", None, 1), row("b", Some("boom"), 1), row("c", None, 0), row("d", None, 1)];
        let questions = [question("a"), question("b"), question("c"), question("d"), question("e")];
        let graded = latency(&rows, &timing, &questions, Profile::Default);
        let values: Vec<_> = graded.iter().map(|g| g.values.get(LATENCY).copied()).collect();
        assert_eq!(values, [Some(Some(2.5)), Some(None), None, Some(Some(0.0)), None]);
        assert_eq!(graded[4].state, CellState::Missing);
        let reference = latency(&rows, &timing, &questions, Profile::RagBench);
        assert_eq!(reference[3].values[LATENCY], None);
        // A call that ran out of time took it, whatever was counted.
        let late = [AnswerRow { state: CellState::Error, ..row("b", Some("timeout"), 0) }];
        let timing = Timing { calls: vec![call("b", Some(120_000.0))], ..Timing::default() };
        let of = |profile| latency(&late, &timing, &questions[1..2], profile)[0].values.get(LATENCY).copied();
        assert_eq!(of(Profile::RagBench), Some(Some(120_000.0)));
        assert_eq!(of(Profile::Default), None);
    }

    #[test]
    fn resources_of_servers_with_and_without_an_index() {
        let timing = Timing { rss_mib: Some(80.0), ..Timing::default() };
        let indexed = IngestFacts {
            ingest_s: Some(1.5),
            rss_mib: Some(60.0),
            index_mib: Some(4.0),
            ..IngestFacts::default()
        };
        let node = resources(Some(&indexed), Some(&timing), Profile::Default);
        assert_eq!(
            (node["ingest_s"], node["rss_mib"], node["index_mib"]),
            (Some(1.5), Some(80.0), Some(4.0))
        );
        let grep = resources(Some(&IngestFacts::default()), Some(&timing), Profile::RagBench);
        assert_eq!(
            (grep.get("ingest_s"), grep["index_mib"], grep[FOOTPRINT_RSS]),
            (None, Some(0.0), Some(0.0))
        );
        let blind = resources(None, None, Profile::Default);
        assert_eq!((blind["rss_mib"], blind["index_mib"]), (None, None));
    }
}
