//! Pure graders: what came back, scored against what was expected.
//!
//! [`metric`](mod@metric) and [`grader`](mod@grader) are the registries that
//! the compiler checks names against, [`grade`] runs graders on the parts of
//! one node, [`summary`] pools the grades of a run into its result, [`gate`](mod@gate)
//! compares results with bounds and says how a run ends. [`citation`] finds what an
//! answer points at and looks it up in the code.

pub mod answer;
pub mod citation;
pub mod cost;
pub mod gate;
pub mod grader;
pub mod matching;
pub mod metric;
pub mod ranking;
pub mod sense;
pub mod summary;
pub mod validity;

use crate::artifact::{AnswerRow, GradeRow, Grades, IngestFacts, Timing};
use crate::manifest::dataset::Question;
use crate::manifest::pipeline::Profile;

pub use gate::{ExitInput, GateOutcome, GateSpec, GateState, exit_state, gate};
pub use grader::{GraderDef, PartNeed, grader, graders};
pub use metric::{Direction, Layer, MetricDef, Pool, metric, metrics};
pub use summary::{Summary, stable, summarise};

/// What stands in the way of a grade.
#[derive(Debug, thiserror::Error)]
pub enum GradeError {
    /// No such grader.
    #[error("there is no grader `{0}`")]
    Unknown(String),
    /// A part that the grader reads was not given.
    #[error("grader `{grader}` needs part `{part}`")]
    Part {
        /// The grader.
        grader: String,
        /// The part.
        part: &'static str,
    },
}

/// The parts of one node that graders read; each grader uses those that it declares.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inputs<'a> {
    /// The questions that were planned, in the dataset's order.
    pub questions: &'a [Question],
    /// Part `results` of the session.
    pub rows: Option<&'a [AnswerRow]>,
    /// Part `timing` of the session.
    pub timing: Option<&'a Timing>,
    /// Part `ingest`; none for an arm without an ingest.
    pub ingest: Option<&'a IngestFacts>,
}

/// Runs graders on the parts of one node: one row per question with the columns
/// of all of them, and the node's own values.
///
/// # Errors
/// When a grader is unknown or a part that it cannot do without is missing.
pub fn grade(names: &[&str], inputs: Inputs<'_>, profile: Profile) -> Result<Grades, GradeError> {
    let mut out = Grades::default();
    for name in names {
        let missing = |part| GradeError::Part { grader: (*name).to_owned(), part };
        match *name {
            "ranking" => {
                let rows = inputs.rows.ok_or_else(|| missing(crate::artifact::part::RESULTS))?;
                let graded = ranking::rank(rows, inputs.questions, profile);
                out.samples = ranking::samples(rows, inputs.questions, &graded);
                merge(&mut out.rows, graded);
            }
            "latency" => {
                let rows = inputs.rows.ok_or_else(|| missing(crate::artifact::part::RESULTS))?;
                let timing = inputs.timing.ok_or_else(|| missing(crate::artifact::part::TIMING))?;
                merge(&mut out.rows, cost::latency(rows, timing, inputs.questions, profile));
            }
            "resources" => out.node.extend(cost::resources(inputs.ingest, inputs.timing, profile)),
            other => return Err(GradeError::Unknown(other.to_owned())),
        }
    }
    Ok(out)
}

/// Adds the columns of rows about the same questions in the same order.
fn merge(into: &mut Vec<GradeRow>, rows: Vec<GradeRow>) {
    if into.is_empty() {
        *into = rows;
        return;
    }
    for (have, row) in into.iter_mut().zip(rows) {
        have.values.extend(row.values);
        have.rank = have.rank.or(row.rank);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_registered_grader_runs() {
        let timing = Timing::default();
        // Graders of answers have inputs of their own.
        let of_lists = |def: &&GraderDef| def.name != grader::JUDGE && !answer::GRADERS.contains(&def.name);
        for def in graders().iter().filter(of_lists) {
            let inputs = Inputs { rows: Some(&[]), timing: Some(&timing), ..Inputs::default() };
            assert!(grade(&[def.name], inputs, Profile::Default).is_ok(), "{}", def.name);
        }
        assert!(matches!(grade(&["x"], Inputs::default(), Profile::Default), Err(GradeError::Unknown(_))));
        let error = grade(&["ranking"], Inputs::default(), Profile::Default).unwrap_err();
        assert_eq!(error.to_string(), "grader `ranking` needs part `results`");
    }
}
