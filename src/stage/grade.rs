//! `grade`: graders over the parts that they declare.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Artifact, Failure, Job, answer, program, questions};
use crate::artifact::{AnswerRow, IngestFacts, Timing, part};
use crate::grade::{self, GraderDef, Inputs};
use crate::manifest::dataset::Question;
use crate::manifest::pipeline::{Cause, Kind as StageKind, Profile};
use crate::plan::compiled::{Repository, Work};
use crate::plan::key::{At, Kind, NoRecipe, Upstream};
use crate::store::PartContent;

pub(super) struct Grade;

impl Kind for Grade {
    fn recipe(&self, at: &At<'_>) -> Result<Map<String, Value>, NoRecipe> {
        let Work::Grade { graders, profile, .. } = &at.stage.work else {
            return Err(NoRecipe::Impossible("this stage grades nothing".to_owned()));
        };
        if answer::reads_answers(at.pipeline, &at.stage.needs) {
            let read = upstream(at, StageKind::Session);
            let read = read.ok_or_else(|| NoRecipe::Impossible("there is no answer to grade".to_owned()))?;
            let Work::Grade { programs, .. } = &at.stage.work else { return Ok(Map::new()) };
            let ours: Vec<String> =
                graders.iter().filter(|name| programs.iter().all(|p| p.name != **name)).cloned().collect();
            let mut out = answer::grade_recipe(at, &ours, *profile, read)?;
            if !programs.is_empty() {
                out.insert("programs".to_owned(), program::recipe(at, programs)?);
            }
            return Ok(out);
        }
        let (mut versions, mut parts, mut fields) = (Vec::new(), BTreeMap::new(), Vec::new());
        for name in graders {
            let def = definition(name).map_err(NoRecipe::Impossible)?;
            versions.push(json!([name, def.version]));
            for need in def.parts {
                if let Some(up) = upstream(at, need.of) {
                    parts.insert(
                        format!("{}.{}", json!(need.of).as_str().unwrap_or_default(), need.part),
                        json!(up.part(need.part)?),
                    );
                }
            }
            for field in def.task_fields {
                if !fields.contains(field) {
                    fields.push(*field);
                }
            }
        }
        fields.sort_unstable();
        let tasks: Vec<Value> =
            questions(at.pipeline, at.cell).iter().map(|q| task_fields(q, &fields)).collect();
        let mut out = Map::new();
        out.insert("graders".to_owned(), json!(versions));
        let profile = rules(*profile, super::repository(at.pipeline, at.cell));
        out.insert("profile".to_owned(), json!(profile));
        out.insert("parts".to_owned(), json!(parts));
        out.insert("tasks".to_owned(), json!(tasks));
        Ok(out)
    }

    fn format(&self) -> u32 {
        1
    }
}

pub(super) fn definition(name: &str) -> Result<&'static GraderDef, String> {
    grade::grader(name).ok_or_else(|| format!("there is no grader `{name}`"))
}

/// Whose rules: the stage's own, or where it names none those that the
/// repository's ground truth was written for.
fn rules(stage: Profile, repository: Option<&Repository>) -> Profile {
    match stage {
        Profile::Default => repository.and_then(|r| r.questions.profile).unwrap_or_default(),
        named => named,
    }
}

/// The fields of a question that graders read, and its id.
fn task_fields(question: &Question, fields: &[&str]) -> Value {
    let whole = json!(question);
    let mut out = Map::new();
    out.insert("id".to_owned(), json!(question.id));
    for field in fields {
        if let Some(value) = whole.get(*field) {
            out.insert((*field).to_owned(), value.clone());
        }
    }
    Value::Object(out)
}

/// The read node of a kind among the needs.
fn upstream<'a>(at: &At<'a>, of: StageKind) -> Option<&'a Upstream> {
    at.stage.needs.iter().zip(at.needs).find_map(|(need, up)| {
        matches!(at.pipeline.stages[*need].work, Work::Read { of: kind } if kind == of)
            .then(|| up.first())
            .flatten()
    })
}

/// Grades; the user's own programs come last, each with what the others leave.
pub(super) async fn run(job: Arc<Job>) -> Result<Artifact, Failure> {
    let artifact = super::blocking(Arc::clone(&job), pure).await?;
    let Work::Grade { programs, .. } = &job.stage().work else { return Ok(artifact) };
    if programs.is_empty() {
        return Ok(artifact);
    }
    program::run(&job, programs, artifact).await
}

/// The graders that are ours.
fn pure(job: &Job) -> Result<Artifact, Failure> {
    let Work::Grade { graders, profile, programs } = &job.stage().work else {
        return Err(Failure::new(Cause::Spawn, "this stage grades nothing"));
    };
    let graders: Vec<String> = graders
        .iter()
        .filter(|name| programs.iter().all(|program| program.name != **name))
        .cloned()
        .collect();
    let of = |kind: StageKind| {
        job.stage().needs.iter().zip(&job.needs).find_map(|(need, inputs)| {
            matches!(job.pipeline.stages[*need].work, Work::Read { of } if of == kind)
                .then(|| inputs.first())
                .flatten()
        })
    };
    let session = of(StageKind::Session);
    if answer::reads_answers(&job.pipeline, &job.stage().needs) {
        return answer::grade(job, &graders, *profile, session.ok_or_else(answer::nothing)?);
    }
    let rows: Option<Vec<AnswerRow>> = session.map(|input| job.lines(input, part::RESULTS)).transpose()?;
    let timing: Option<Timing> = session.map(|input| job.json(input, part::TIMING)).transpose()?;
    let ingest: Option<IngestFacts> =
        of(StageKind::Ingest).map(|input| job.json(input, part::INGEST)).transpose()?;
    let asked: Vec<Question> = questions(&job.pipeline, &job.cell).into_iter().cloned().collect();
    let names: Vec<&str> = graders.iter().map(String::as_str).collect();
    let inputs =
        Inputs { questions: &asked, rows: rows.as_deref(), timing: timing.as_ref(), ingest: ingest.as_ref() };
    let profile = rules(*profile, super::repository(&job.pipeline, &job.cell));
    let grades =
        grade::grade(&names, inputs, profile).map_err(|e| Failure::new(Cause::Output, e.to_string()))?;
    Ok(Artifact::done(vec![(part::GRADES.to_owned(), PartContent::Bytes(crate::artifact::to_json(&grades)))]))
}
