//! One JSON line per question of every session: what came back and how it ended.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::artifact::{AnswerRow, CellState, Grades, Timing};

/// The parts of one session.
#[derive(Clone, Copy, Debug, Default)]
pub struct RowCell<'a> {
    /// Arm; none in a pipeline without arms.
    pub arm: Option<&'a str>,
    /// Repository.
    pub repo: Option<&'a str>,
    /// Replicate; a number is written as one.
    pub replicate: Option<&'a str>,
    /// Ids of the planned questions in the dataset's order.
    pub tasks: &'a [String],
    /// Part `results`; empty when the session did not end.
    pub answers: &'a [AnswerRow],
    /// Part `timing`.
    pub timing: Option<&'a Timing>,
    /// Part `grades` of the node that scored it.
    pub grades: Option<&'a Grades>,
}

/// JSON Lines with the keys `arm repo task replicate state codes results
/// latency_ms error rank`, all of them in every line, absent values null.
/// Results are as they were returned and normalised, before de-duplication;
/// `rank` is that of the grade, in the whole list. A planned question without
/// an answer is `missing`. Lines are in the order of arms and repositories
/// given, then of tasks, then of replicates.
pub fn rows(cells: &[RowCell<'_>]) -> String {
    let mut groups: Vec<Vec<&RowCell<'_>>> = Vec::new();
    for cell in cells {
        let same = |g: &&mut Vec<&RowCell<'_>>| g.iter().any(|c| c.arm == cell.arm && c.repo == cell.repo);
        match groups.iter_mut().find(same) {
            Some(group) => group.push(cell),
            None => groups.push(vec![cell]),
        }
    }
    // One arm of many is together even where its repositories are apart.
    let mut arms: Vec<Option<&str>> = Vec::new();
    for group in &groups {
        if !arms.contains(&group[0].arm) {
            arms.push(group[0].arm);
        }
    }
    groups.sort_by_key(|g| arms.iter().position(|a| *a == g[0].arm));
    let mut out = String::new();
    for group in groups {
        let mut tasks: Vec<&str> = Vec::new();
        let mut place: BTreeMap<&str, usize> = BTreeMap::new();
        for cell in &group {
            let planned = cell.tasks.iter().map(String::as_str);
            for task in planned.chain(cell.answers.iter().map(|a| a.task.as_str())) {
                place.entry(task).or_insert_with(|| {
                    tasks.push(task);
                    tasks.len()
                });
            }
        }
        let known: Vec<Known<'_>> = group.iter().map(|cell| Known::of(cell)).collect();
        for task in tasks {
            for cell in &known {
                if let Some(line) = cell.line(task) {
                    out.push_str(&line.to_string());
                    out.push('\n');
                }
            }
        }
    }
    out
}

/// A session's parts by task.
struct Known<'a> {
    cell: &'a RowCell<'a>,
    answers: BTreeMap<&'a str, &'a AnswerRow>,
    latency: BTreeMap<&'a str, Option<f64>>,
    ranks: BTreeMap<&'a str, Option<u64>>,
}

impl<'a> Known<'a> {
    fn of(cell: &'a RowCell<'a>) -> Self {
        Self {
            cell,
            answers: cell.answers.iter().map(|a| (a.task.as_str(), a)).collect(),
            latency: cell
                .timing
                .iter()
                .flat_map(|t| &t.calls)
                .map(|c| (c.task.as_str(), c.latency_ms))
                .collect(),
            ranks: cell.grades.iter().flat_map(|g| &g.rows).map(|r| (r.task.as_str(), r.rank)).collect(),
        }
    }

    fn line(&self, task: &str) -> Option<Value> {
        let answer = self.answers.get(task).copied();
        if answer.is_none() && !self.cell.tasks.iter().any(|t| t == task) {
            return None;
        }
        let replicate = self.cell.replicate.map(|r| r.parse::<u64>().map_or_else(|_| json!(r), |n| json!(n)));
        Some(json!({
            "arm": self.cell.arm,
            "repo": self.cell.repo,
            "task": task,
            "replicate": replicate,
            "state": answer.map_or(CellState::Missing, |a| a.state),
            "codes": answer.map(|a| a.codes.as_slice()).unwrap_or_default(),
            "results": answer.map(|a| a.results.as_slice()).unwrap_or_default(),
            "latency_ms": self.latency.get(task).copied().flatten(),
            "error": answer.and_then(|a| a.error.as_deref()),
            "rank": self.ranks.get(task).copied().flatten(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::{CallTiming, GradeRow, Hit, code};

    #[test]
    fn every_line_has_every_key() {
        let tasks = ["q-1".to_owned(), "q-2".to_owned()];
        let answers = [AnswerRow {
            task: "q-2".into(),
            state: CellState::Error,
            codes: vec![code::CALL_TIMEOUT.into()],
            results: vec![Hit { file: Some("a.py".into()), score: Some(0.5), ..Hit::default() }],
            calls: 1,
            error: Some("no answer within 30s".into()),
            ..AnswerRow::default()
        }];
        let timing = Timing {
            calls: vec![CallTiming { task: "q-2".into(), latency_ms: Some(1.5) }],
            ..Timing::default()
        };
        let grades = Grades {
            rows: vec![GradeRow { task: "q-2".into(), rank: Some(1), ..GradeRow::default() }],
            ..Grades::default()
        };
        let full = RowCell {
            arm: Some("grep"),
            repo: Some("flask"),
            replicate: Some("1"),
            tasks: &tasks,
            answers: &answers,
            timing: Some(&timing),
            grades: Some(&grades),
        };
        let later = RowCell { replicate: Some("2"), answers: &[], timing: None, grades: None, ..full };
        let other =
            RowCell { arm: None, repo: None, replicate: Some("x"), tasks: &tasks[..1], ..RowCell::default() };
        let text = rows(&[later, other, full]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5);
        assert_eq!(
            lines[3],
            r#"{"arm":"grep","repo":"flask","task":"q-2","replicate":1,"state":"error","codes":["call-timeout"],"results":[{"file":"a.py","symbol":null,"line":null,"score":0.5}],"latency_ms":1.5,"error":"no answer within 30s","rank":1}"#
        );
        assert_eq!(
            lines[4],
            r#"{"arm":null,"repo":null,"task":"q-1","replicate":"x","state":"missing","codes":[],"results":[],"latency_ms":null,"error":null,"rank":null}"#
        );
    }
}
