//! `ingest`: the arm's server meets the corpus and indexes it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::place::Place;
use super::raw::{FACTS, Facts, REPLIES, Reply, reading};
use super::server::{self, Running};
use super::{Artifact, Failure, Job};
use crate::artifact::{self, Clockings, part};
use crate::manifest::pipeline::Cause;
use crate::manifest::server::Server;
use crate::plan::key::{At, Kind, NoRecipe};
use crate::store::{Outcome, PartContent};

pub(super) struct Ingest;

impl Kind for Ingest {
    fn recipe(&self, at: &At<'_>) -> Result<Map<String, Value>, NoRecipe> {
        let mut out = Map::new();
        out.insert("corpus".to_owned(), json!(at.corpus()?));
        out.insert("server".to_owned(), at.server()?.clone());
        Ok(out)
    }

    fn format(&self) -> u32 {
        1
    }
}

pub(super) async fn run(job: &Job) -> Result<Artifact, Failure> {
    let preset = preset(job)?;
    let corpus = job.corpus()?;
    let key = super::session::own_key(job)?;
    let place = Place::make(job, &key, corpus).await?;
    let mut log = Vec::new();
    let (mut facts, mut readings, replies) = match server::pre_ingest(job, preset, &place, &mut log).await? {
        Err(trouble) => (Facts { trouble: Some(trouble), ..Facts::default() }, BTreeMap::new(), Vec::new()),
        Ok(ms) => {
            let (facts, mut readings, replies) = work(job, preset, &place).await?;
            if !preset.pre_ingest.is_empty() {
                readings.insert(reading::PRE_INGEST_MS.to_owned(), json!(ms));
            }
            (facts, readings, replies)
        }
    };
    facts.corpus_changed = place.changes(preset, &corpus.tree);
    let bytes = place.strip(preset, &corpus.tree, job)?;
    readings.insert(reading::INDEX_BYTES.to_owned(), json!(bytes));
    let outcome = if facts.trouble.is_some() { Outcome::Error } else { Outcome::Done };
    let mut parts = raw_parts(job, &facts, &readings, &replies);
    // Published after the place is free for others, so it is moved out of it.
    parts.push((part::STATE.to_owned(), PartContent::Tree(place.give_up(job)?)));
    if !log.is_empty() {
        parts.push(("pre-ingest-log".to_owned(), PartContent::Bytes(log)));
    }
    Ok(Artifact { parts, outcome, used: BTreeMap::new(), unconfined: None, micros: None })
}

async fn work(
    job: &Job,
    preset: &Server,
    place: &Place,
) -> Result<(Facts, BTreeMap<String, Value>, Vec<Reply>), Failure> {
    let mut running = match Running::start(job, preset, place).await? {
        Ok(running) => running,
        Err((facts, readings)) => return Ok((facts, readings, Vec::new())),
    };
    match running.index(job).await? {
        Ok(Some(ms)) => {
            running.readings.insert(reading::INGEST_MS.to_owned(), json!(ms));
        }
        Ok(None) => {}
        Err(trouble) => running.facts.trouble = Some(trouble),
    }
    Ok(running.stop().await)
}

/// The preset of the node's arm.
pub(super) fn preset(job: &Job) -> Result<&Server, Failure> {
    let arm = job.arm()?;
    arm.server.as_ref().ok_or_else(|| Failure::new(Cause::Spawn, format!("arm `{}` has no server", arm.name)))
}

/// The parts that all stages with a server publish.
pub(super) fn raw_parts(
    job: &Job,
    facts: &Facts,
    readings: &BTreeMap<String, Value>,
    replies: &[Reply],
) -> Vec<(String, PartContent)> {
    let clock = Clockings { readings: readings.clone() };
    let mut parts = vec![
        (FACTS.to_owned(), PartContent::Bytes(artifact::to_json(facts))),
        (part::CLOCK.to_owned(), PartContent::Bytes(artifact::to_json(&clock))),
        (REPLIES.to_owned(), PartContent::Bytes(artifact::to_lines(replies))),
    ];
    for (name, file) in [(part::WIRE, "wire.jsonl"), ("stderr", "stderr.log")] {
        let path = job.scratch.join(file);
        if path.is_file() {
            parts.push((name.to_owned(), PartContent::File(path)));
        }
    }
    parts
}
