//! `warmup`: what the first calls of a fresh server cost.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::raw::{Facts, Phase, Reply};
use super::server::Running;
use super::session::{self, Bench};
use super::{Artifact, Failure, Job, ask, ingest};
use crate::plan::compiled::Compiled;
use crate::plan::key::{At, Kind, NoRecipe};

pub(super) struct Warmup;

impl Kind for Warmup {
    fn recipe(&self, at: &At<'_>) -> Result<Map<String, Value>, NoRecipe> {
        let mut out = Map::new();
        out.insert("ingest".to_owned(), json!(at.single("ingest")?.key()?));
        out.insert("prompts".to_owned(), recipe_prompts(at));
        Ok(out)
    }

    fn reads_keys(&self) -> bool {
        true
    }

    fn format(&self) -> u32 {
        1
    }
}

/// Warm-up prompts as recipes hold them: the words, in order.
pub(super) fn recipe_prompts(at: &At<'_>) -> Value {
    json!(prompts(at.pipeline, at.cell).iter().map(|(_, words)| *words).collect::<Vec<_>>())
}

/// The warm-up prompts of a cell's repository, id and words, in order of ids.
/// A dataset without any is warmed up by its first question of each kind.
pub(super) fn prompts<'a>(
    pipeline: &'a Compiled,
    cell: &BTreeMap<String, String>,
) -> Vec<(&'a str, &'a str)> {
    let Some(repository) = super::repository(pipeline, cell) else { return Vec::new() };
    let set = &repository.questions;
    let mut out: Vec<(&str, &str)> = set.warmup.iter().map(|w| (w.id.as_str(), w.prompt.as_str())).collect();
    out.sort_unstable();
    if out.is_empty() {
        let mut kinds = BTreeMap::new();
        for question in &set.question {
            let first = kinds.entry(question.kind).or_insert(question);
            if question.id < first.id {
                *first = question;
            }
        }
        out = kinds.values().map(|q| (q.id.as_str(), q.prompt.as_str())).collect();
    }
    out
}

pub(super) async fn run(job: &Job) -> Result<Artifact, Failure> {
    let preset = ingest::preset(job)?;
    let bench = match session::bench(job, preset).await? {
        Ok(bench) => bench,
        Err(trouble) => {
            let facts = Facts { trouble: Some(trouble), ..Facts::default() };
            return Ok(session::artifact(job, &facts, &BTreeMap::new(), &[], None));
        }
    };
    let (facts, readings, replies) = work(job, &bench).await?;
    let artifact = session::artifact(job, &facts, &readings, &replies, bench.used.clone());
    bench.clear(job)?;
    Ok(artifact)
}

async fn work(job: &Job, bench: &Bench<'_>) -> Result<(Facts, BTreeMap<String, Value>, Vec<Reply>), Failure> {
    let mut running = match bench.open(job).await? {
        Ok(running) => running,
        Err((facts, readings)) => return Ok((facts, readings, Vec::new())),
    };
    warm_up(job, bench, &mut running).await?;
    Ok(running.stop().await)
}

/// Asks every warm-up question of the repository.
pub(super) async fn warm_up(job: &Job, bench: &Bench<'_>, running: &mut Running<'_>) -> Result<(), Failure> {
    for (id, words) in prompts(&job.pipeline, &job.cell) {
        let texts = ask::words(&bench.preset.query, words);
        if running.ask(job, Phase::Warmup, id, &texts, session::top(job)).await? {
            break;
        }
    }
    Ok(())
}

/// Name of the part that a warmup's read step gives.
pub(super) const WARMUP: &str = "warmup";

/// What first calls cost, for the report.
#[derive(Debug, serde::Serialize)]
#[expect(clippy::struct_field_names, reason = "every reading names its unit")]
pub(super) struct WarmupFacts {
    /// The very first call.
    pub(super) cold_ms: Option<f64>,
    /// Each warm-up call in order; null where it failed.
    pub(super) calls_ms: Vec<Option<f64>>,
    /// From spawning the server to the end of `initialize`.
    pub(super) start_ms: Option<f64>,
}
