//! Grader `ranking`: where in the list of results the expected files and symbols are.

use std::collections::{BTreeMap, BTreeSet};

use super::matching::{normal_path, path_matches, symbol_matches};
use crate::artifact::{AnswerRow, CellState, Fault, GradeRow, SamplePair};
use crate::manifest::dataset::Question;
use crate::manifest::pipeline::Profile;
use crate::stats;

/// Cut-offs of Hit@K.
pub const HIT_AT: [usize; 4] = [1, 3, 5, 10];
/// Cut-off of nDCG, recall and precision.
const DEPTH: usize = 10;
/// How many symbols count.
const SYMBOLS: usize = 5;
/// How many pairs are kept of a session that found nothing.
const SAMPLES: usize = 3;

/// Scores the answers to questions: one row per question, in their order.
///
/// Columns: `hit@1 hit@3 hit@5 hit@10` (0 or 1), `symbol_hit@5` (0 or 1, left
/// out without expected symbols), `rr`, `ap`, `ndcg@10`, `recall@10`,
/// `precision@10` (left out without expected files), `calls` (left out when no
/// call was made). A question without an answer row is missing.
///
/// **Default profile.** Results are de-duplicated by path, the first one kept;
/// a result without a path keeps its rank and matches nothing. Each expected
/// file is credited once, to the first result that matches it, with a gain of
/// one. Symbols: the first five results that differ in file or symbol. An
/// answer of an invalid or failed cell whose fault is the treatment's is scored
/// as it stands (0 when there is none); where the fault is the harness's, or
/// nobody named one, the row has no values: it is dropped.
///
/// **Profile `rag-bench`** (its sections 5.1 to 5.3, faults included):
/// duplicates keep their ranks, a question without expected files is a miss,
/// the list of symbols is compacted before its first five are taken, symbols
/// match by subset of word pieces, expected symbols are those that a file
/// defines or only mentions, `ap` is a copy of `rr`, every failed question is a
/// miss, and calls are counted for all.
pub fn rank(rows: &[AnswerRow], questions: &[Question], profile: Profile) -> Vec<GradeRow> {
    let by_task: BTreeMap<&str, &AnswerRow> = rows.iter().rev().map(|row| (row.task.as_str(), row)).collect();
    questions
        .iter()
        .map(|question| match by_task.get(question.id.as_str()) {
            Some(row) => score(row, question, profile),
            None => GradeRow { state: CellState::Missing, ..blank(question) },
        })
        .collect()
}

/// Pairs of question and first result, for a session in which servers answered
/// and not one result of any question was right: paths may be spelt in another
/// way than the dataset's. Empty for every other session.
pub fn samples(rows: &[AnswerRow], questions: &[Question], graded: &[GradeRow]) -> Vec<SamplePair> {
    let answered = |row: &&AnswerRow| matches!(row.state, CellState::Valid | CellState::Invalid);
    if graded.iter().any(|row| row.rank.is_some()) {
        return Vec::new();
    }
    let by_task: BTreeMap<&str, &AnswerRow> =
        rows.iter().filter(answered).map(|row| (row.task.as_str(), row)).collect();
    let mut pairs: Vec<SamplePair> =
        questions
            .iter()
            .filter(|question| !question.files.is_empty())
            .filter_map(|question| {
                Some(SamplePair {
                    task: question.id.clone(),
                    question: question.prompt.clone(),
                    expected: question.files.first().cloned(),
                    top: by_task.get(question.id.as_str())?.results.first().map(|hit| {
                        hit.file.clone().unwrap_or_else(|| "(a result without a file)".to_owned())
                    }),
                })
            })
            .collect();
    // A pair that shows a path says more than one that shows nothing.
    pairs.sort_by_key(|pair| pair.top.is_none());
    pairs.truncate(SAMPLES);
    pairs
}

/// The row of a question before anything is known of its answer.
pub(super) fn blank(question: &Question) -> GradeRow {
    GradeRow {
        task: question.id.clone(),
        kind: word(&question.kind),
        difficulty: word(&question.difficulty),
        ..GradeRow::default()
    }
}

/// The row of a question with the state of its answer.
pub(super) fn stated(row: &AnswerRow, question: &Question) -> GradeRow {
    GradeRow { state: row.state, codes: row.codes.clone(), fault: row.fault, ..blank(question) }
}

/// Is the answer scored at all?
pub(super) fn counts(row: &AnswerRow, profile: Profile) -> bool {
    match (row.state, profile) {
        (CellState::Missing | CellState::Excluded, _) => false,
        (CellState::Valid, _) | (_, Profile::RagBench) => true,
        (CellState::Invalid | CellState::Error, Profile::Default | Profile::Sense) => {
            row.fault == Some(Fault::Treatment)
        }
    }
}

fn word<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_value(value).ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
}

fn score(row: &AnswerRow, question: &Question, profile: Profile) -> GradeRow {
    let mut out = stated(row, question);
    if !counts(row, profile) {
        return out;
    }
    let mut set = |column: &str, value: Option<f64>| {
        out.values.insert(column.to_owned(), value);
    };
    let expected: BTreeSet<String> =
        question.files.iter().map(|f| normal_path(f, profile)).filter(|f| !f.is_empty()).collect();
    let list = ranked_files(row, profile);
    let hits: Vec<bool> =
        list.iter().map(|file| expected.iter().any(|e| path_matches(file, e, profile))).collect();
    let rank = hits.iter().position(|hit| *hit).map(|i| i + 1);
    if !expected.is_empty() || profile == Profile::RagBench {
        for k in HIT_AT {
            set(&format!("hit@{k}"), Some(flag(rank.is_some_and(|r| r <= k))));
        }
    }
    if !expected.is_empty() {
        let credited = credit(&list, &expected, profile);
        let gains: Vec<f64> = credited.iter().map(|hit| flag(*hit)).collect();
        let total = expected.len();
        let rr = stats::reciprocal_rank(&hits);
        set("rr", Some(rr));
        set(
            "ap",
            match profile {
                Profile::RagBench => Some(rr),
                Profile::Default | Profile::Sense => stats::average_precision(&credited, total),
            },
        );
        set("ndcg@10", stats::ndcg(&gains, &vec![1.0; total], DEPTH));
        set("recall@10", stats::recall_at(&credited, DEPTH, total));
        set("precision@10", stats::precision_at(&credited, DEPTH));
    }
    if let Some(found) = symbol_found(row, question, profile) {
        set("symbol_hit@5", Some(flag(found)));
    }
    if row.calls > 0 || profile == Profile::RagBench {
        set("calls", Some(f64::from(row.calls)));
    }
    out.rank = rank.map(|r| r as u64);
    out
}

/// Normalised paths in rank order; a result without a path is an empty text.
fn ranked_files(row: &AnswerRow, profile: Profile) -> Vec<String> {
    let mut seen = BTreeSet::new();
    row.results
        .iter()
        .map(|hit| normal_path(hit.file.as_deref().unwrap_or_default(), profile))
        .filter(|file| profile == Profile::RagBench || file.is_empty() || seen.insert(file.clone()))
        .collect()
}

/// Which results bring an expected file that none before them brought.
fn credit(list: &[String], expected: &BTreeSet<String>, profile: Profile) -> Vec<bool> {
    let mut open: BTreeSet<&String> = expected.iter().collect();
    list.iter()
        .map(|file| {
            let met = open.iter().find(|e| path_matches(file, e, profile)).copied();
            met.is_some_and(|e| open.remove(e))
        })
        .collect()
}

/// Is an expected symbol among the first five? None when none is expected.
fn symbol_found(row: &AnswerRow, question: &Question, profile: Profile) -> Option<bool> {
    let mentions: &[String] = if profile == Profile::RagBench { &question.mentions } else { &[] };
    let expected: Vec<&String> = question.symbols.iter().chain(mentions).collect();
    if expected.is_empty() {
        return None;
    }
    let symbols: Vec<&str> = match profile {
        Profile::RagBench => row
            .results
            .iter()
            .filter_map(|h| h.symbol.as_deref())
            .filter(|s| !s.is_empty())
            .take(SYMBOLS)
            .collect(),
        Profile::Default | Profile::Sense => {
            let mut seen = BTreeSet::new();
            row.results
                .iter()
                .map(|h| (normal_path(h.file.as_deref().unwrap_or_default(), profile), h.symbol.as_deref()))
                .filter(|pair| seen.insert(pair.clone()))
                .take(SYMBOLS)
                .filter_map(|(_, symbol)| symbol)
                .collect()
        }
    };
    Some(symbols.iter().any(|s| expected.iter().any(|e| symbol_matches(s, e, profile))))
}

fn flag(yes: bool) -> f64 {
    if yes { 1.0 } else { 0.0 }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "ratios of small counts are exact or compared as they are computed")]
mod tests {
    use super::*;
    use crate::artifact::Hit;
    use crate::manifest::dataset::{Difficulty, QuestionKind};

    fn question(files: &[&str], symbols: &[&str]) -> Question {
        Question {
            id: "q-1".into(),
            kind: QuestionKind::MultiHop,
            difficulty: Difficulty::Hard,
            prompt: "where is it?".into(),
            files: files.iter().map(ToString::to_string).collect(),
            symbols: symbols.iter().map(ToString::to_string).collect(),
            mentions: Vec::new(),
            content: Vec::new(),
        }
    }

    fn answer(hits: &[(&str, &str)]) -> AnswerRow {
        let text = |s: &str| (!s.is_empty()).then(|| s.to_owned());
        AnswerRow {
            task: "q-1".into(),
            results: hits
                .iter()
                .map(|(f, s)| Hit { file: text(f), symbol: text(s), ..Hit::default() })
                .collect(),
            calls: 1,
            ..AnswerRow::default()
        }
    }

    fn one(row: AnswerRow, question: Question, profile: Profile) -> GradeRow {
        rank(&[row], &[question], profile).remove(0)
    }

    fn value(row: &GradeRow, column: &str) -> f64 {
        row.values[column].expect("scored")
    }

    #[test]
    fn duplicates_are_removed_before_ranking() {
        let hits = [
            ("src/x.py", ""),
            ("./src/x.py", ""),
            ("", ""),
            ("src/a.py", ""),
            ("src/a.py", ""),
            ("src/b.py", ""),
        ];
        let row = one(answer(&hits), question(&["src/a.py", "src/b.py"], &[]), Profile::Default);
        assert_eq!(row.rank, Some(3));
        assert_eq!((value(&row, "hit@1"), value(&row, "hit@3")), (0.0, 1.0));
        assert!((value(&row, "ap") - 5.0 / 12.0).abs() < 1e-12);
        assert_eq!(value(&row, "recall@10"), 1.0);
        assert_eq!(value(&row, "precision@10"), 0.2);
        assert!(!row.values.contains_key("symbol_hit@5"));
        assert_eq!((row.kind.as_str(), row.difficulty.as_str()), ("multi-hop", "hard"));

        let reference = one(answer(&hits), question(&["src/a.py", "src/b.py"], &[]), Profile::RagBench);
        assert_eq!(reference.rank, Some(4));
        assert_eq!(value(&reference, "ap"), 0.25);
    }

    #[test]
    fn one_expected_file_is_credited_once() {
        let row = one(
            answer(&[("a/src/m.py", ""), ("b/src/m.py", "")]),
            question(&["src/m.py"], &[]),
            Profile::Default,
        );
        assert_eq!(value(&row, "recall@10"), 1.0);
        assert_eq!(value(&row, "precision@10"), 0.1);
        assert_eq!(value(&row, "ndcg@10"), 1.0);
    }

    #[test]
    fn symbols_of_the_first_five() {
        let hits: Vec<(&str, &str)> =
            vec![("a", ""), ("b", ""), ("c", ""), ("d", ""), ("a", ""), ("e", "x.target"), ("f", "late")];
        let q = |s| question(&["a"], &[s]);
        // The repeated result takes no place, so the sixth is the fifth that differs.
        assert_eq!(value(&one(answer(&hits), q("target"), Profile::Default), "symbol_hit@5"), 1.0);
        assert_eq!(value(&one(answer(&hits), q("late"), Profile::Default), "symbol_hit@5"), 0.0);
        // The reference compacts the list first.
        assert_eq!(value(&one(answer(&hits), q("late"), Profile::RagBench), "symbol_hit@5"), 1.0);
        let mut mention = q("nothing");
        mention.mentions = vec!["late".into()];
        assert_eq!(value(&one(answer(&hits), mention.clone(), Profile::RagBench), "symbol_hit@5"), 1.0);
        assert_eq!(value(&one(answer(&hits), mention, Profile::Default), "symbol_hit@5"), 0.0);
    }

    #[test]
    fn faults_decide_who_is_scored() {
        let failed = |fault| AnswerRow {
            state: CellState::Error,
            fault,
            results: Vec::new(),
            calls: 0,
            ..answer(&[])
        };
        let q = || question(&["a"], &["s"]);
        let treatment = one(failed(Some(Fault::Treatment)), q(), Profile::Default);
        assert_eq!(value(&treatment, "hit@10"), 0.0);
        assert_eq!(value(&treatment, "rr"), 0.0);
        assert!(!treatment.values.contains_key("calls"), "no call was made");
        for fault in [Some(Fault::Harness), None] {
            assert!(one(failed(fault), q(), Profile::Default).values.is_empty());
            assert_eq!(value(&one(failed(fault), q(), Profile::RagBench), "hit@10"), 0.0);
        }
        let partial = AnswerRow { results: answer(&[("a", "")]).results, ..failed(Some(Fault::Treatment)) };
        assert_eq!(value(&one(partial, q(), Profile::Default), "hit@1"), 1.0);
        let missing = rank(&[], &[q()], Profile::Default);
        assert_eq!((missing[0].state, missing[0].values.len()), (CellState::Missing, 0));
    }

    #[test]
    fn empty_lists_and_questions_without_files() {
        let row = one(answer(&[]), question(&["a"], &[]), Profile::Default);
        assert_eq!((row.rank, value(&row, "hit@10"), value(&row, "ndcg@10")), (None, 0.0, 0.0));
        let none = one(answer(&[("a", "")]), question(&[], &[]), Profile::Default);
        assert_eq!(none.values.keys().collect::<Vec<_>>(), ["calls"]);
        let reference = one(answer(&[("a", "")]), question(&[], &[]), Profile::RagBench);
        assert_eq!(value(&reference, "hit@10"), 0.0);
        assert!(!reference.values.contains_key("rr"));
    }

    #[test]
    fn samples_only_where_nothing_was_right() {
        let q = [question(&["src/a.py"], &[])];
        let foreign = [answer(&[("/elsewhere/b.py", "")])];
        let graded = rank(&foreign, &q, Profile::Default);
        let pairs = samples(&foreign, &q, &graded);
        assert_eq!(pairs[0].top.as_deref(), Some("/elsewhere/b.py"));
        assert_eq!(pairs[0].expected.as_deref(), Some("src/a.py"));
        let right = [answer(&[("src/a.py", "")])];
        assert!(samples(&right, &q, &rank(&right, &q, Profile::Default)).is_empty());
        let failed = [AnswerRow { state: CellState::Error, ..answer(&[]) }];
        assert!(samples(&failed, &q, &rank(&failed, &q, Profile::Default)).is_empty());
    }
}
