//! `session` with the driver `retrieval`: all questions put to the server itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::place::Place;
use super::raw::{FACTS, Facts, Phase, Raw, Reply, Trouble, reading};
use super::server::{Running, cancelled, pre_ingest, tools_digest};
use super::{Artifact, Failure, Job, ask, ingest, questions, warmup};
use crate::artifact::{code, part};
use crate::corpus;
use crate::digest::Digest;
use crate::manifest::axis;
use crate::manifest::dataset::Known;
use crate::manifest::pipeline::{Cause, Start};
use crate::manifest::server::{Ask, Form, Index, Server};
use crate::plan::compiled::Work;
use crate::plan::key::{At, Kind, NoRecipe, seal};
use crate::store::{Outcome, Record};

/// Version of the rule that picks a known answer where a repository declares none.
const AUTO_KNOWN: u32 = 2;
/// Task id of the known-answer question.
pub(super) const KNOWN_TASK: &str = "known-answer";

pub(super) struct Retrieval;

impl Kind for Retrieval {
    fn recipe(&self, at: &At<'_>) -> Result<Map<String, Value>, NoRecipe> {
        let arm = at.arm().ok_or_else(|| NoRecipe::Impossible("a session needs an arm".to_owned()))?;
        let preset = arm
            .server
            .as_ref()
            .ok_or_else(|| NoRecipe::Impossible(format!("arm `{}` has no server", arm.name)))?;
        let asked: Vec<Value> = questions(at.pipeline, at.cell)
            .iter()
            .map(|q| json!([q.id, ask::words(&preset.query, &q.prompt)]))
            .collect();
        let mut out = Map::new();
        let mut put = |name: &str, value: Value| out.insert(name.to_owned(), value);
        put("driver", json!("retrieval"));
        put("corpus", json!(at.corpus()?));
        put("server", at.server()?.clone());
        put("ingest", json!(ingest_of(at)?));
        put("questions", json!(asked));
        put("order-seed", json!(at.pipeline.seed.to_string()));
        put("replicate", json!(at.value(axis::REPLICATE).unwrap_or("1")));
        if arm.start == Start::Warm {
            put("warmup", warmup::recipe_prompts(at));
        } else {
            put("start", json!("cold"));
        }
        if let Some(draw) = &arm.draw {
            put("draw", json!(draw));
        }
        if let Work::Retrieval { top } = at.stage.work {
            put("top", json!(top));
        }
        if let Some(tool) = &preset.tools.query {
            put("query-tool", json!(tool));
        }
        if preset.query.form == Form::Keywords {
            put("keywords", json!(ask::KEYWORDS));
        }
        put("call-timeout", json!(preset.call_timeout));
        let known = super::repository(at.pipeline, at.cell).and_then(|r| r.entry.known.as_ref());
        put(
            "known",
            known.map_or(json!(AUTO_KNOWN), |known| json!([known_words(preset, known), known.file])),
        );
        Ok(out)
    }

    fn reads_keys(&self) -> bool {
        true
    }

    fn format(&self) -> u32 {
        1
    }
}

/// Key of the ingest below a session: directly, or through its warmup.
fn ingest_of(at: &At<'_>) -> Result<Digest, NoRecipe> {
    at.single("ingest").or_else(|_| at.single("warmup"))?.key()
}

/// Words of the known-answer question for this server.
fn known_words(preset: &Server, known: &Known) -> Vec<String> {
    let by_form = match preset.query.form {
        Form::Keywords => Ask::Symbol,
        Form::Question => Ask::Question,
    };
    match preset.known_answer.ask.unwrap_or(by_form) {
        Ask::Symbol => vec![known.symbol.clone()],
        Ask::Question => ask::words(&preset.query, &known.question),
    }
}

/// A place with the server's state in it, ready to be opened.
pub(super) struct Bench<'a> {
    pub(super) preset: &'a Server,
    place: Place,
    /// The state that was restored, by the node that made it.
    pub(super) used: Option<(String, Digest)>,
    /// Digest of the tool list that the ingest saw.
    ingest_tools: Option<String>,
    /// The state was left at another path and can't be moved: index anew.
    rebuild: bool,
}

/// Key of the job's own recipe.
pub(super) fn own_key(job: &Job) -> Result<Digest, Failure> {
    seal(job.recipe.clone()).map(|k| k.key).map_err(|e| Failure::new(Cause::Spawn, e.to_string()))
}

/// Prepares a bench from the ingest's state; the trouble of an ingest that failed comes back instead.
pub(super) async fn bench<'a>(
    job: &'a Job,
    preset: &'a Server,
) -> Result<Result<Bench<'a>, Trouble>, Failure> {
    let ingest = ingest_record(job)?;
    let facts: Facts = read_facts(job, &ingest)?;
    if let Some(trouble) = facts.trouble {
        return Ok(Err(trouble));
    }
    let corpus = job.corpus()?;
    let place = Place::make(job, &ingest.key, corpus).await?;
    let mut used = None;
    if let Some(state) = ingest.part(part::STATE) {
        place.restore(job, &state)?;
        used = Some((ingest.node.clone(), state));
    }
    let here = place.corpus.to_string_lossy();
    let moved = facts.roots.first().is_some_and(|root| *root != here);
    let rebuild = moved && !preset.relocatable && preset.index == Index::Directory;
    let ingest_tools = (!facts.tools.is_empty()).then(|| tools_digest(&facts.tools));
    Ok(Ok(Bench { preset, place, used, ingest_tools, rebuild }))
}

/// The ingest's record: an input of its own, or that of the warmup's recipe.
fn ingest_record(job: &Job) -> Result<Arc<Record>, Failure> {
    let record = |kind| job.input(kind).map_or(Ok(None), |input| input.record(&job.store));
    if let Some(record) = record("ingest")? {
        return Ok(record);
    }
    let missing = || Failure::new(Cause::Output, "the record of the ingest is not in the store");
    let warmup = record("warmup")?.ok_or_else(missing)?;
    let recipe: Value = serde_json::from_slice(&job.store.get(&warmup.recipe)?)
        .map_err(|e| Failure::new(Cause::Output, e.to_string()))?;
    let key: Digest = recipe["ingest"].as_str().and_then(|hex| hex.parse().ok()).ok_or_else(missing)?;
    let record = job.store.hit(&key)?;
    match record {
        Some(record) => Ok(Arc::new(record)),
        None => job.store.newest_attempt(&key)?.map(Arc::new).ok_or_else(missing),
    }
}

fn read_facts(job: &Job, record: &Record) -> Result<Facts, Failure> {
    let digest = record
        .part(FACTS)
        .ok_or_else(|| Failure::new(Cause::Output, format!("`{}` has no part `{FACTS}`", record.node)))?;
    crate::artifact::from_json(&job.store.get(&digest)?)
        .map_err(|e| Failure::new(Cause::Output, format!("`{}`: {e}", record.node)))
}

impl<'a> Bench<'a> {
    /// Leaves nothing in the place: what was in it goes with the attempt's folder.
    pub(super) fn clear(self, job: &Job) -> Result<(), Failure> {
        self.place.give_up(job).map(drop)
    }

    /// Starts the server and, where its index lives in memory, has it index
    /// again, before any clock of the questions starts.
    pub(super) async fn open(
        &'a self,
        job: &Job,
    ) -> Result<Result<Running<'a>, (Facts, BTreeMap<String, Value>)>, Failure> {
        if self.rebuild {
            let mut log = Vec::new();
            if let Err(trouble) = pre_ingest(job, self.preset, &self.place, &mut log).await? {
                return Ok(Err((Facts { trouble: Some(trouble), ..Facts::default() }, BTreeMap::new())));
            }
        }
        let mut running = match Running::start(job, self.preset, &self.place).await? {
            Ok(running) => running,
            Err(failed) => return Ok(Err(failed)),
        };
        running.facts.ingest_tools.clone_from(&self.ingest_tools);
        if self.preset.index == Index::Memory || self.rebuild {
            match running.index(job).await? {
                Ok(Some(ms)) => {
                    running.readings.insert(reading::REINDEX_MS.to_owned(), json!(ms));
                }
                Ok(None) => {}
                Err(trouble) => running.facts.trouble = Some(trouble),
            }
            if self.rebuild {
                running.facts.notes.push("the index was made again: its folder has moved".to_owned());
            }
        }
        if running.facts.trouble.is_some() {
            let (facts, readings, _) = running.stop().await;
            return Ok(Err((facts, readings)));
        }
        Ok(Ok(running))
    }
}

/// How many results are asked for.
pub(super) fn top(job: &Job) -> u32 {
    let of = |work: &Work| match work {
        Work::Retrieval { top } => Some(*top),
        _ => None,
    };
    // A warmup asks as the sessions of its pipeline do.
    of(&job.stage().work).or_else(|| job.pipeline.stages.iter().find_map(|s| of(&s.work))).unwrap_or(10)
}

pub(super) async fn run(job: &Job) -> Result<Artifact, Failure> {
    let preset = ingest::preset(job)?;
    let bench = match bench(job, preset).await? {
        Ok(bench) => bench,
        Err(trouble) => {
            let facts = Facts { trouble: Some(trouble), ..Facts::default() };
            return Ok(artifact(job, &facts, &BTreeMap::new(), &[], None));
        }
    };
    let (mut facts, readings, replies) = match bench.open(job).await? {
        Ok(running) => questions_loop(job, &bench, running).await?,
        Err((facts, readings)) => (facts, readings, Vec::new()),
    };
    facts.corpus_changed = bench.place.changes(preset, &job.corpus()?.tree);
    let artifact = artifact(job, &facts, &readings, &replies, bench.used.clone());
    bench.clear(job)?;
    Ok(artifact)
}

async fn questions_loop<'a>(
    job: &Job,
    bench: &Bench<'a>,
    mut running: Running<'a>,
) -> Result<(Facts, BTreeMap<String, Value>, Vec<Reply>), Failure> {
    let arm = job.arm()?;
    if arm.start == Start::Warm {
        warmup::warm_up(job, bench, &mut running).await?;
    }
    let corpus = job.corpus()?;
    let declared = super::repository(&job.pipeline, &job.cell).and_then(|r| r.entry.known.clone());
    let known = declared.or_else(|| corpus::known_answer(&corpus.path, &corpus.tree));
    if let Some(known) = &known {
        running.facts.known_file = Some(known.file.clone());
        let texts = known_words(bench.preset, known);
        running.ask(job, Phase::Known, KNOWN_TASK, &texts, top(job)).await?;
    }
    let mut order = questions(&job.pipeline, &job.cell);
    let replicate = job.cell.get(axis::REPLICATE).map_or("1", String::as_str);
    let salt = format!("{} {replicate}", job.pipeline.seed);
    order.sort_by_key(|q| Digest::tagged("proofline order 1", format!("{salt} {}", q.id).as_bytes()));
    for question in order {
        if job.cancel.is_cancelled() {
            return Err(cancelled());
        }
        let texts = ask::words(&bench.preset.query, &question.prompt);
        if running.ask(job, Phase::Question, &question.id, &texts, top(job)).await? {
            // Dead is dead: the read step gives the remaining questions the same state.
            break;
        }
    }
    Ok(running.stop().await)
}

/// The raw artifact of a session or warmup.
pub(super) fn artifact(
    job: &Job,
    facts: &Facts,
    readings: &BTreeMap<String, Value>,
    replies: &[Reply],
    used: Option<(String, Digest)>,
) -> Artifact {
    Artifact {
        parts: ingest::raw_parts(job, facts, readings, replies),
        outcome: outcome(facts, replies),
        used: used.into_iter().collect(),
        unconfined: None,
        micros: None,
    }
}

/// A server that could not work, ended, or failed at a question that counts:
/// the next run tries again. A wrong known answer is a result, not a failure.
fn outcome(facts: &Facts, replies: &[Reply]) -> Outcome {
    let failed = |r: &Reply| {
        matches!(r.outcome, Raw::Died { .. }) || (r.phase == Phase::Question && r.outcome.failed())
    };
    if facts.trouble.is_some() || replies.iter().any(failed) { Outcome::Error } else { Outcome::Done }
}

/// Whether the tools that a session saw are those of its ingest.
pub(super) fn tools_differ(facts: &Facts) -> Option<&'static str> {
    let seen = (!facts.tools.is_empty()).then(|| tools_digest(&facts.tools))?;
    facts.ingest_tools.as_ref().is_some_and(|then| *then != seen).then_some(code::TOOLS_DIFFER)
}
