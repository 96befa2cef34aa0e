//! Graders of an agent's answer: what it says, what it cites, what it cost,
//! and how much of it the server did.
//!
//! They read a transcript and a task and give values by column, items that
//! say what was found where, and citations. Profile `sense` takes its numbers
//! from [`super::sense`] instead.

mod accuracy;
mod adoption;
mod checks;
mod cited;
mod cost;
mod gold;
mod listed;
mod sense;
mod steps;
mod tools;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::citation::{Bucket, Citation, Finding, View, examine};
use super::sense::citations::Checkout;
use crate::artifact::transcript::{Dialect, Fault as Happened, Transcript};
use crate::artifact::{
    AnswerRow, CellState, CitationRow, Claims, Fault, GradeRow, Grades, Item, Recorded, SessionState, Timing,
};
use crate::manifest::dataset::Question;
use crate::manifest::pipeline::Profile;
use crate::manifest::scenario::Scenario;

pub use steps::{Split, Steps};

/// Everything that graders of an answer may look at.
#[derive(Clone, Copy)]
pub struct Inputs<'a> {
    /// Task id.
    pub task: &'a str,
    /// The scenario, for a task that is one.
    pub scenario: Option<&'a Scenario>,
    /// The question, for a task that is one.
    pub question: Option<&'a Question>,
    /// What the agent said and did.
    pub transcript: &'a Transcript,
    /// What a server returned for the question, of a row that is about a server alone.
    pub results: Option<(&'a [AnswerRow], &'a Timing)>,
    /// What an imported row says beside its answer or list.
    pub claims: Option<&'a Claims>,
    /// Its stream as it came.
    pub stream: &'a [u8],
    /// What is known beside it.
    pub session: &'a Recorded,
    /// How the session ended.
    pub cell: &'a SessionState,
    /// Name of the arm's server, where it has one.
    pub server: Option<&'a str>,
    /// The corpus at the answer's commit, as profile `sense` looks at it.
    pub checkout: Option<&'a dyn Checkout>,
    /// The same for the default rules.
    pub view: Option<View<'a>>,
}

/// What graders give.
#[derive(Clone, Debug, Default)]
pub struct Graded {
    /// One row.
    pub grades: Grades,
    /// What was found where.
    pub items: Vec<Item>,
    /// Citations in their order.
    pub citations: Vec<CitationRow>,
    /// What the profile's own scorer would have written.
    pub scored: Option<String>,
}

/// Kind of a task that is a scenario.
pub const SCENARIO: &str = "scenario";

/// Names of the graders of answers.
pub const GRADERS: [&str; 6] = ["checks", "citations", "gold", "efficiency", "adoption", "accuracy"];

/// The fields of a task that a grader reads, for its recipe.
#[must_use]
pub fn task_fields(
    grader: &str,
    profile: Profile,
    scenario: Option<&Scenario>,
    question: Option<&Question>,
) -> Value {
    match grader {
        "accuracy" => return json!(question.map(|q| json!([q.id, q.files, q.symbols]))),
        "ranking" => return json!(question.map(|q| json!([q.id, q.files, q.symbols, q.mentions]))),
        "latency" => return Value::Null,
        _ => {}
    }
    let Some(scenario) = scenario else { return Value::Null };
    let steps =
        || -> Vec<Value> { scenario.step.iter().map(|step| json!([step.name, step.check])).collect() };
    match (grader, profile) {
        // One scorer gives all numbers.
        (_, Profile::Sense) => {
            let original = scenario.original.as_ref().map(|original| &original.scenario);
            json!([scenario.title, scenario.repo, steps(), scenario.gold, original])
        }
        ("checks", _) => json!(steps()),
        ("gold", _) => json!(scenario.gold),
        ("efficiency", _) => json!(scenario.ceilings),
        ("adoption", _) => json!(scenario.target),
        _ => Value::Null,
    }
}

/// Runs graders on one answer.
#[must_use]
pub fn grade(names: &[&str], inputs: &Inputs<'_>, profile: Profile) -> Graded {
    let mut out = Graded::default();
    let mut values: BTreeMap<String, Option<f64>> = BTreeMap::new();
    let mut rank = None;
    if let Some((rows, timing)) = inputs.results {
        rank = listed::grade(names, inputs, rows, timing, profile, &mut out.items, &mut values);
    } else if profile == Profile::Sense && inputs.scenario.is_some() {
        sense::grade(names, inputs, &mut out, &mut values);
    } else {
        default(names, inputs, profile, &mut out, &mut values);
    }
    let (state, fault) = counted(inputs, profile);
    let kind = if inputs.scenario.is_some() {
        SCENARIO.to_owned()
    } else {
        words(inputs.question.map(|q| json!(q.kind)))
    };
    let mut row = GradeRow {
        task: inputs.task.to_owned(),
        kind,
        difficulty: words(inputs.question.map(|q| json!(q.difficulty))),
        state,
        codes: inputs.cell.codes.clone(),
        fault,
        values,
        rank,
    };
    row.forfeit();
    out.grades.rows.push(row);
    out
}

/// State and fault of the session as the profile counts it.
///
/// rag-bench knows errors of rows and nothing else: what servers an arm had, and whether a word was
/// said, leaves no row out. The session's codes stay with the grades.
fn counted(inputs: &Inputs<'_>, profile: Profile) -> (CellState, Option<Fault>) {
    let cell = inputs.cell;
    let failed = || {
        inputs.transcript.dialect != Dialect::RagBench
            || inputs.transcript.faults.iter().any(|fault| matches!(fault, Happened::AgentError { .. }))
    };
    let kept = match (profile, cell.state) {
        (Profile::RagBench, _) if inputs.results.is_some() => false,
        (Profile::RagBench, CellState::Invalid) => true,
        (Profile::RagBench, CellState::Error) => !failed(),
        _ => false,
    };
    if kept { (CellState::Valid, None) } else { (cell.state, cell.fault) }
}

fn row(citation: &Citation, finding: &Finding) -> CitationRow {
    CitationRow {
        file: citation.file.clone(),
        locator: citation.locator.clone(),
        bucket: finding.bucket.as_str().to_owned(),
        path: finding.path.clone(),
        distance: finding.distance,
        span: (citation.span.start as u64, citation.span.end as u64),
        reason: finding.reason.clone(),
        symbol: citation.symbol.clone().filter(|_| citation.lines.is_some()),
        evidence: finding.evidence.map(|e| (e.line, e.found == super::citation::Found::Definition)),
        candidates: finding.candidates.clone(),
    }
}

fn words(value: Option<Value>) -> String {
    value.and_then(|value| value.as_str().map(str::to_owned)).unwrap_or_default()
}

fn default(
    graders: &[&str],
    inputs: &Inputs<'_>,
    profile: Profile,
    out: &mut Graded,
    values: &mut BTreeMap<String, Option<f64>>,
) {
    let names: Vec<&str> = inputs
        .scenario
        .map_or(vec![""], |scenario| scenario.step.iter().map(|step| step.name.as_str()).collect());
    let steps = Steps::of(inputs.transcript, &names);
    let examined = examine(&steps.text, inputs.view);
    let cited: Vec<cited::Cited<'_>> = examined
        .iter()
        .map(|(citation, finding)| cited::Cited {
            written: &citation.file,
            path: finding.path.as_deref(),
            lines: citation.lines,
            symbol: citation.symbol.as_deref(),
            span: citation.span.clone(),
        })
        .collect();
    let mut put = |columns: Vec<(&'static str, Option<f64>)>| {
        values.extend(columns.into_iter().map(|(name, value)| (name.to_owned(), value)));
    };
    for name in graders {
        match (*name, inputs.scenario) {
            ("checks", Some(scenario)) => {
                let checked = checks::check(scenario, &steps, inputs.transcript, &cited);
                put(vec![("keyword_coverage", checked.coverage)]);
                out.items.extend(checked.items);
            }
            ("citations", _) => {
                let share = |bucket: Bucket| {
                    let of = examined.iter().filter(|(_, finding)| finding.bucket == bucket).count();
                    // Nothing cited says nothing, and neither does what can't be looked up.
                    let can = inputs.view.is_some() && !examined.is_empty();
                    can.then(|| cost::as_f64(of as u64) / cost::as_f64(examined.len() as u64))
                };
                put(vec![
                    ("citation_grounding", share(Bucket::Grounded)),
                    ("hallucination_rate", share(Bucket::Hallucinated)),
                ]);
                let why = match inputs.view {
                    None => "there is no code to hold citations against",
                    Some(_) => "some answers cite nothing",
                };
                for name in ["citation_grounding", "hallucination_rate"] {
                    out.grades.why.insert(name.to_owned(), why.to_owned());
                }
                out.citations = examined.iter().map(|(citation, finding)| row(citation, finding)).collect();
            }
            ("gold", Some(scenario)) => {
                let (items, [mentioned, found, exact]) = gold::recall(&scenario.gold, &steps.text, &cited);
                put(vec![("gold_mentioned", mentioned), ("gold_cited", found), ("gold_at_line", exact)]);
                out.items.extend(items);
            }
            ("efficiency", scenario) => {
                let wall = inputs.session.facts.get("wall_time_seconds").and_then(Value::as_f64);
                put(cost::columns(scenario, inputs.transcript, inputs.claims, wall, profile));
            }
            ("adoption", scenario) => {
                let checked = inputs.view.is_some();
                put(adoption::columns(scenario, inputs, &cited, checked, profile));
            }
            ("accuracy", _) => {
                if let Some((items, columns)) = accuracy::of(inputs, &steps.text, profile) {
                    put(columns);
                    out.items.extend(items);
                }
            }
            _ => {}
        }
    }
}
