//! Grades of a row that is about a server alone: the list that it returned for a question.

use std::collections::BTreeMap;

use super::Inputs;
use crate::artifact::{AnswerRow, CallTiming, Claims, Item, Timing};
use crate::manifest::dataset::{Difficulty, Question, QuestionKind};
use crate::manifest::pipeline::Profile;

/// Columns that look further down a list than its beginning, which is all that was written down.
const DEEP: [&str; 6] = ["hit@10", "rr", "ap", "ndcg@10", "recall@10", "precision@10"];
/// Folder below which the benchmark keeps its clones, one per repository.
const CLONES: &str = "/repos/";
/// Columns about what was found.
const HITS: [&str; 3] = ["hit@1", "hit@3", "hit@5"];
const SYMBOLS: &str = "symbol_hit@5";
/// Name of the grader of lists.
const RANKING: &str = "ranking";

/// What a list is held against.
enum Truth {
    /// The set's question.
    Known,
    /// What the row says was expected, of a question that is not known.
    Row,
    /// What was published of the row.
    Published,
    /// Nothing.
    None,
}

/// Grades the list into `values`, and says in `items` where it isn't held against a question;
/// the rank of the first right result.
///
/// Of a question that is not known profile `rag-bench` takes what the row says was expected, else
/// what was published of the row; other rules say nothing.
pub(super) fn grade(
    names: &[&str],
    inputs: &Inputs<'_>,
    rows: &[AnswerRow],
    timing: &Timing,
    profile: Profile,
    items: &mut Vec<Item>,
    values: &mut BTreeMap<String, Option<f64>>,
) -> Option<u64> {
    let claims = inputs.claims;
    let (question, truth) = match (inputs.question, claims) {
        (Some(question), _) => (question.clone(), Truth::Known),
        (None, _) if profile != Profile::RagBench => return None,
        (None, Some(Claims { expected_files: Some(files), expected_symbols, .. })) => {
            let symbols = expected_symbols.clone().unwrap_or_default();
            (stub(inputs.task, files.clone(), symbols), Truth::Row)
        }
        (None, claims) => {
            let judged = claims.is_some_and(Claims::judged);
            let truth = if judged { Truth::Published } else { Truth::None };
            (stub(inputs.task, Vec::new(), Vec::new()), truth)
        }
    };
    // The row's own id may be none that questions have here.
    let mut rows: Vec<AnswerRow> =
        rows.iter().map(|row| AnswerRow { task: question.id.clone(), ..row.clone() }).collect();
    if let Some(repo) = claims.and_then(|claims| claims.repo.as_deref())
        && profile != Profile::RagBench
    {
        let files = rows.iter_mut().flat_map(|row| &mut row.results).filter_map(|hit| hit.file.as_mut());
        files.for_each(|file| inside(file, repo));
    }
    let called = |call: &CallTiming| CallTiming { task: question.id.clone(), ..call.clone() };
    let timing = Timing { calls: timing.calls.iter().map(called).collect(), ..timing.clone() };
    let of_lists: Vec<&str> =
        names.iter().copied().filter(|name| [RANKING, "latency"].contains(name)).collect();
    let lists = crate::grade::Inputs {
        questions: std::slice::from_ref(&question),
        rows: Some(&rows),
        timing: Some(&timing),
        ingest: None,
    };
    let row = crate::grade::grade(&of_lists, lists, profile).ok()?.rows.pop()?;
    values.extend(row.values.into_iter().filter(|(column, _)| !DEEP.contains(&column.as_str())));
    if !of_lists.contains(&RANKING) {
        return None;
    }
    if claims.is_some_and(|claims| claims.lacks("tool_calls")) {
        values.insert("calls".to_owned(), None);
    }
    let mut item = |id: &str, hit: Option<bool>, note: &str| {
        let (grader, id) = (RANKING.to_owned(), id.to_owned());
        items.push(Item { grader, id, hit, note: note.to_owned(), ..Item::default() });
    };
    match truth {
        Truth::Known => row.rank,
        Truth::Row => {
            item("any file", Some(row.rank.is_some()), "by what the row expects; its question is not known");
            row.rank
        }
        Truth::Published => {
            let note = "as published; its question is not known";
            let (file, symbol) = claims.map_or((None, None), |claims| (claims.file_hit, claims.symbol_hit));
            let value = |hit: Option<bool>| hit.map(|hit| if hit { 1.0 } else { 0.0 });
            // How far up in the five is not said.
            values.extend(HITS.map(|column| (column.to_owned(), value(file).filter(|_| column == "hit@5"))));
            values.insert(SYMBOLS.to_owned(), value(symbol));
            item("any file", file, note);
            item("any symbol", symbol, note);
            None
        }
        Truth::None => {
            values.extend(HITS.into_iter().chain([SYMBOLS]).map(|column| (column.to_owned(), None)));
            item("any file", None, "its question is not known, and nothing was published of it");
            None
        }
    }
}

/// Cuts a path below the benchmark's clone of a repository: by our rules paths are those in the
/// repository, by its rules the end decides.
fn inside(file: &mut String, repo: &str) {
    let clone = format!("{CLONES}{repo}/");
    if let Some((_, inside)) = file.split_once(clone.as_str()).filter(|_| !repo.is_empty()) {
        *file = inside.to_owned();
    }
}

/// A question of which only what was expected is known.
fn stub(task: &str, files: Vec<String>, symbols: Vec<String>) -> Question {
    Question {
        id: task.to_owned(),
        kind: QuestionKind::Locate,
        difficulty: Difficulty::Easy,
        prompt: String::new(),
        files,
        symbols,
        mentions: Vec::new(),
        content: Vec::new(),
    }
}
