//! `aggregate`: the result of all cells, finished or not.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Artifact, Failure, Input, Job, questions};
use crate::artifact::{CellState, GradeRow, Grades, part};
use crate::digest::Digest;
use crate::grade::grader::JUDGE;
use crate::grade::summarise;
use crate::grade::summary::{Cell, Composite, CustomNumber, Design, RepoFacts, Summary, Term};
use crate::manifest::axis;
use crate::manifest::pipeline::{Effect, Kind as StageKind, Profile};
use crate::plan::compiled::{Answer, Compiled, GraderProgram, Stage, Work};
use crate::plan::key::{At, Kind, NoRecipe};
use crate::store::PartContent;

/// Version of the estimators; raised when a number changes for equal inputs.
const ESTIMATORS: u32 = 2;

pub(super) struct Aggregate;

impl Kind for Aggregate {
    fn recipe(&self, at: &At<'_>) -> Result<Map<String, Value>, NoRecipe> {
        let mut cells = Vec::new();
        for (need, ups) in at.stage.needs.iter().zip(at.needs) {
            let stage = &at.pipeline.stages[*need];
            let wanted = wanted_part(stage);
            for up in ups {
                let digest = match &up.parts {
                    Some(parts) => wanted.as_ref().and_then(|name| parts.get(name)).map(Digest::hex),
                    // A node that produced nothing is a cell too; one that has still to run is not known.
                    None if up.state == "missing" => None,
                    None => return Err(NoRecipe::Wait(up.id.clone())),
                };
                cells.push((&stage.name, &up.cell, up.state, digest));
            }
        }
        cells.sort();
        let composites: Vec<Value> = composites(at.pipeline)
            .iter()
            .map(|composite| {
                let terms: Vec<Value> =
                    composite.terms.iter().map(|t| json!([t.metric, t.inverse, t.weight])).collect();
                json!([composite.name, terms])
            })
            .collect();
        let mut out = Map::new();
        out.insert("cells".to_owned(), json!(cells));
        out.insert("composites".to_owned(), json!(composites));
        out.insert("estimators".to_owned(), json!(ESTIMATORS));
        out.insert("arms".to_owned(), json!(arm_names(at.pipeline)));
        out.insert("design".to_owned(), design_value(at.pipeline));
        let profile = profile(at.pipeline, at.stage);
        if profile != Profile::Default {
            out.insert("profile".to_owned(), json!(profile));
        }
        Ok(out)
    }

    fn format(&self) -> u32 {
        1
    }

    fn tolerates_missing(&self) -> bool {
        true
    }
}

/// Whose rules the rows below an aggregate were graded by: those that its first grade stage with other
/// rules than ours names.
fn profile(pipeline: &Compiled, stage: &Stage) -> Profile {
    let of = |need: &usize| match &pipeline.stages[*need].work {
        Work::Grade { profile, .. } => Some(*profile),
        _ => None,
    };
    stage.needs.iter().filter_map(of).find(|profile| *profile != Profile::Default).unwrap_or_default()
}

/// The part of a need that an aggregate reads.
fn wanted_part(stage: &Stage) -> Option<String> {
    match &stage.work {
        Work::Grade { .. } | Work::Read { of: StageKind::Judge } => Some(part::GRADES.to_owned()),
        Work::Command(command) => command.metrics.clone(),
        _ => None,
    }
}

/// Names of the arms in their order by name: the order of tables and of files
/// in a manifest is the author's and changes no result.
fn arm_names(pipeline: &Compiled) -> Vec<&str> {
    let mut out: Vec<&str> = pipeline.arms.iter().map(|a| a.name.as_str()).collect();
    out.sort_unstable();
    out
}

/// Composites by name, terms by metric.
fn composites(pipeline: &Compiled) -> Vec<Composite> {
    let mut out: Vec<Composite> = pipeline
        .composites
        .iter()
        .map(|(name, terms)| {
            let mut terms: Vec<Term> = terms
                .iter()
                .map(|t| Term { metric: t.metric.clone(), inverse: t.inverse, weight: t.weight })
                .collect();
            terms.sort_by(|a, b| (&a.metric, a.inverse).cmp(&(&b.metric, b.inverse)));
            Composite { name: name.clone(), terms }
        })
        .collect();
    out.sort_by(|a, b| a.name.cmp(&b.name));
    out
}

fn design(pipeline: &Compiled) -> Design {
    let used = pipeline.axes.iter().find(|a| a.name == axis::REPO);
    let mut repos: Vec<RepoFacts> = used
        .map(|a| {
            a.values
                .iter()
                .filter_map(|v| pipeline.repos.get(&v.text))
                .map(|r| RepoFacts {
                    name: r.name.clone(),
                    language: r.entry.language.clone(),
                    exposure: r.entry.exposure,
                    lines: r.entry.lines,
                    questions: questions(pipeline, &BTreeMap::from([(axis::REPO.to_owned(), r.name.clone())]))
                        .len() as u64,
                })
                .collect()
        })
        .unwrap_or_default();
    repos.sort_by(|a, b| a.name.cmp(&b.name));
    let mut labels: Vec<String> = pipeline.answers.values().map(|answer| answer.label.clone()).collect();
    labels.sort();
    labels.dedup();
    Design { repos, authors_of: pipeline.disclosure.authors_of.clone(), labels }
}

fn design_value(pipeline: &Compiled) -> Value {
    let design = design(pipeline);
    let repos: Vec<Value> =
        design.repos.iter().map(|r| json!([r.name, r.language, r.exposure, r.lines, r.questions])).collect();
    let mut out = json!({ "repos": repos, "authors-of": design.authors_of });
    if !design.labels.is_empty() {
        out["labels"] = json!(design.labels);
    }
    out
}

pub(super) fn run(job: &Job) -> Result<Artifact, Failure> {
    let pipeline = &job.pipeline;
    let mut summary = Summary {
        arms: arm_names(pipeline).into_iter().map(str::to_owned).collect(),
        composites: composites(pipeline),
        design: design(pipeline),
        profile: profile(pipeline, job.stage()),
        ..Summary::default()
    };
    let profile = summary.profile;
    let mut needs: Vec<(&Stage, Vec<&Input>)> = Vec::new();
    for (need, inputs) in job.stage().needs.iter().zip(&job.needs) {
        let mut inputs: Vec<&Input> = inputs.iter().collect();
        inputs.sort_by(|a, b| a.cell.cmp(&b.cell));
        needs.push((&pipeline.stages[*need], inputs));
    }
    needs.sort_by(|a, b| a.0.name.cmp(&b.0.name));
    let mut cells = Cells::default();
    for (stage, inputs) in needs {
        match &stage.work {
            Work::Grade { graders, programs, .. } => {
                for input in &inputs {
                    summary.custom.extend(own_numbers(job, input, programs, profile)?);
                }
                for name in graders {
                    if !summary.graders.contains(name) {
                        summary.graders.push(name.clone());
                    }
                }
                for input in inputs {
                    cells.add(job, input, profile)?;
                }
            }
            Work::Read { of: StageKind::Judge } => {
                summary.graders.push(JUDGE.to_owned());
                for input in inputs {
                    cells.add(job, input, profile)?;
                }
            }
            Work::Command(command) => {
                if let Some(name) = &command.metrics {
                    for input in inputs {
                        summary.cells.push(Cell {
                            command: Some(input.parts.is_some()),
                            planned: 1,
                            arm: input.cell.get(axis::ARM).cloned(),
                            repo: input.cell.get(axis::REPO).cloned(),
                            replicate: input.cell.get(axis::REPLICATE).cloned(),
                            ..Cell::default()
                        });
                        summary.custom.extend(numbers(job, input, name, stage.effect == Effect::Measured)?);
                    }
                }
            }
            _ => {}
        }
    }
    for mut cell in cells.all.into_values() {
        for row in cell.grades.iter_mut().flat_map(|grades| &mut grades.rows) {
            row.forfeit();
        }
        summary.cells.push(cell);
    }
    let result = summarise(&summary);
    Ok(Artifact::done(vec![(part::RESULT.to_owned(), PartContent::Bytes(crate::artifact::to_json(&result)))]))
}

/// Replicate of a cell; none where there is none.
///
/// Rows of rag-bench are one sample: it has no replicates of answers, and a row that stands twice in a
/// file counts twice.
fn replicate(input: &Input, answer: Option<&Answer>, profile: Profile) -> Option<String> {
    let recorded = answer.filter(|_| profile != Profile::RagBench);
    let axis = input.cell.get(axis::REPLICATE).cloned();
    axis.or_else(|| recorded.map(|answer| answer.replicate.to_string()))
}

/// Cells by what they are about: what several stages say of one session is one cell.
#[derive(Default)]
struct Cells {
    all: BTreeMap<[Option<String>; 4], Cell>,
}

impl Cells {
    fn add(&mut self, job: &Job, input: &Input, profile: Profile) -> Result<(), Failure> {
        let grades: Option<Grades> =
            input.parts.is_some().then(|| job.json(input, part::GRADES)).transpose()?;
        let value = |axis: &str| input.cell.get(axis).cloned();
        let answer = job.pipeline.answer(&input.cell);
        let of_answer = answer.is_some() || job.pipeline.scenario(&input.cell).is_some();
        let repo = value(axis::REPO).or_else(|| answer.map(|(_, answer)| answer.repo.clone()));
        let replicate = replicate(input, answer.map(|(_, answer)| answer), profile);
        let unit = value(axis::ANSWER).or_else(|| of_answer.then(|| value(axis::TASK)).flatten());
        let key = [value(axis::ARM), repo.clone(), replicate.clone(), unit];
        let planned = if of_answer { 1 } else { questions(&job.pipeline, &input.cell).len() as u64 };
        let cell = self.all.entry(key).or_insert_with(|| Cell {
            arm: value(axis::ARM),
            repo,
            replicate,
            planned,
            ..Cell::default()
        });
        cell.notes.extend(grades.iter().flat_map(|grades| grades.notes.iter().cloned()));
        match (&mut cell.grades, grades) {
            (Some(have), Some(more)) => merge(have, more),
            (have @ None, more) => *have = more,
            _ => {}
        }
        Ok(())
    }
}

/// Adds what another stage says of the same tasks; the first stage that is not content with a cell says
/// what became of it.
fn merge(have: &mut Grades, more: Grades) {
    for row in more.rows {
        match have.rows.iter_mut().find(|known| known.task == row.task) {
            Some(known) => {
                known.values.extend(row.values);
                for (mine, other) in [(&mut known.kind, row.kind), (&mut known.difficulty, row.difficulty)] {
                    if mine.is_empty() {
                        *mine = other;
                    }
                }
                known.rank = known.rank.or(row.rank);
                if known.state == CellState::Valid && row.state != CellState::Valid {
                    (known.state, known.codes, known.fault) = (row.state, row.codes, row.fault);
                }
            }
            None => have.rows.push(row),
        }
    }
    have.node.extend(more.node);
    have.samples.extend(more.samples);
    have.why.extend(more.why);
}

/// Values of graders that are programs; those of a cell whose fault is the harness's are left out.
fn own_numbers(
    job: &Job,
    input: &Input,
    programs: &[GraderProgram],
    profile: Profile,
) -> Result<Vec<CustomNumber>, Failure> {
    if programs.is_empty() || input.parts.is_none() {
        return Ok(Vec::new());
    }
    let grades: Grades = job.json(input, part::GRADES)?;
    let answer = job.pipeline.answer(&input.cell).map(|(_, answer)| answer);
    let replicate = replicate(input, answer, profile);
    let names = programs.iter().flat_map(|program| program.grader.metrics.keys());
    let rows = grades.rows.iter().filter(|row| row.state == CellState::Valid);
    let of = |row: &GradeRow, name: &String| {
        Some(CustomNumber {
            metric: name.clone(),
            arm: input.cell.get(axis::ARM).cloned(),
            replicate: replicate.clone(),
            value: *row.values.get(name)?,
            why: grades.why.get(name).cloned(),
            measured: false,
        })
    };
    Ok(rows.flat_map(|row| names.clone().filter_map(move |name| of(row, name))).collect())
}

/// Numbers of a command's metrics part: a JSON object of names and numbers (or null).
fn numbers(job: &Job, input: &Input, name: &str, measured: bool) -> Result<Vec<CustomNumber>, Failure> {
    let arm = input.cell.get(axis::ARM).cloned();
    let replicate = input.cell.get(axis::REPLICATE).cloned();
    if input.parts.is_none() {
        return Ok(Vec::new());
    }
    let value: Value = job.json(input, name)?;
    let object = value.as_object().cloned().unwrap_or_default();
    Ok(object
        .into_iter()
        .filter(|(_, v)| v.is_number() || v.is_null())
        .map(|(metric, value)| CustomNumber {
            metric,
            arm: arm.clone(),
            replicate: replicate.clone(),
            value: value.as_f64().filter(|v| v.is_finite()),
            why: None,
            measured,
        })
        .collect())
}
