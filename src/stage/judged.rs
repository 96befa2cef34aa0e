//! Reading a judge's replies: scores by criterion, step and scenario.

use serde_json::{Map, Value, json};

use super::{Artifact, Failure, Input, Job};
use crate::artifact::{self, CellState, GradeRow, Grades, part};
use crate::grade::answer;
use crate::judge;
use crate::manifest::pipeline::Profile;
use crate::manifest::rubric::{Criterion, Rubric};
use crate::plan::compiled::{Compiled, Work};
use crate::plan::key::{At, NoRecipe, Upstream};
use crate::store::PartContent;

/// Fields of the recipe of a node that reads replies.
pub(super) fn read_recipe(at: &At<'_>, raw: &Upstream) -> Result<Map<String, Value>, NoRecipe> {
    let mut out = Map::new();
    out.insert("reader".to_owned(), json!(judge::VERSION));
    out.insert("replies".to_owned(), json!(raw.part(part::REPLIES)?));
    out.insert("profile".to_owned(), json!(profile(at.pipeline, &at.stage.needs)));
    let rubric = at.pipeline.scenario(at.cell).and_then(|scenario| scenario.rubric.as_ref());
    // Questions are for the judge; its replies are weighed by names and weights.
    let steps = rubric.map(|rubric| -> Vec<Value> {
        let weights = |step: &crate::manifest::rubric::RubricStep| -> Vec<Value> {
            let of = |(name, c): (&String, &Criterion)| match c.original_weight {
                Some(original) => json!([name, c.weight, original]),
                None => json!([name, c.weight]),
            };
            step.criteria.iter().map(of).collect()
        };
        rubric.step.iter().map(|step| json!([step.name, weights(step)])).collect()
    });
    out.insert("rubric".to_owned(), json!(steps));
    out.insert("task".to_owned(), json!(super::answer::task(at.pipeline, at.cell)));
    Ok(out)
}

fn profile(pipeline: &Compiled, needs: &[usize]) -> Profile {
    let of = |need: &usize| match pipeline.stages[*need].work {
        Work::Replies { profile } => Some(profile),
        _ => None,
    };
    needs.iter().find_map(of).unwrap_or_default()
}

pub(super) fn read(job: &Job, input: &Input) -> Result<Artifact, Failure> {
    let replies = job.part(input, part::REPLIES)?;
    let none = Rubric { format: 1, audience: String::new(), step: Vec::new() };
    let scenario = job.pipeline.scenario(&job.cell);
    let rubric = scenario.and_then(|scenario| scenario.rubric.as_ref());
    let mut judgement = match (rubric, profile(&job.pipeline, &job.stage().needs)) {
        (Some(rubric), Profile::Sense) => judge::sense::read(&replies, rubric),
        (rubric, _) => judge::read(&replies, rubric.unwrap_or(&none)),
    };
    if rubric.is_none() {
        judgement.why = Some("the task has no rubric".to_owned());
    }
    let row = GradeRow {
        task: super::answer::task(&job.pipeline, &job.cell),
        kind: scenario.map(|_| answer::SCENARIO.to_owned()).unwrap_or_default(),
        state: CellState::Valid,
        values: [("llm_quality".to_owned(), judgement.quality)].into(),
        ..GradeRow::default()
    };
    let without = judgement.why.iter().filter(|_| judgement.quality.is_none());
    let why = without.map(|words| ("llm_quality".to_owned(), words.clone())).collect();
    let grades = Grades { rows: vec![row], why, ..Grades::default() };
    Ok(Artifact::done(vec![
        (part::JUDGEMENT.to_owned(), PartContent::Bytes(artifact::to_json(&judgement))),
        (part::GRADES.to_owned(), PartContent::Bytes(artifact::to_json(&grades))),
    ]))
}
