//! `session` with the driver `recorded`, and `judge` with recorded replies:
//! what exists already is taken as it is, byte for byte.

use serde_json::{Map, Value, json};

use super::{Artifact, Failure, Job};
use crate::artifact::{self, part};
use crate::digest::Digest;
use crate::fsio;
use crate::manifest::pipeline::Cause;
use crate::plan::compiled::{Answer, Bytes};
use crate::plan::key::{At, Kind, NoRecipe, seal};
use crate::shipped;
use crate::store::{PartContent, Publication, Record, Shared};

/// Largest transcript or file of replies, in bytes.
const LARGEST: u64 = 256 << 20;

/// Version of the meaning of both kinds.
const FORMAT: u32 = 1;

/// A recorded session.
pub(super) struct Session;

impl Kind for Session {
    fn recipe(&self, at: &At<'_>) -> Result<Map<String, Value>, NoRecipe> {
        let (id, answer) = answer(at)?;
        let streams: Vec<Digest> =
            answer.transcripts.iter().map(|b| digest(at, b)).collect::<Result<_, _>>()?;
        Ok(session_recipe(id, answer, &streams))
    }

    fn format(&self) -> u32 {
        FORMAT
    }
}

/// A judge whose replies exist already.
pub(super) struct Replies;

impl Kind for Replies {
    fn recipe(&self, at: &At<'_>) -> Result<Map<String, Value>, NoRecipe> {
        let (id, answer) = answer(at)?;
        let replies = answer.judgement.as_ref().map(|bytes| digest(at, bytes)).transpose()?;
        Ok(replies_recipe(id, replies))
    }

    fn format(&self) -> u32 {
        FORMAT
    }
}

/// The recipe of a recorded session whose transcripts have these digests.
#[must_use]
pub(super) fn session_recipe(id: &str, answer: &Answer, streams: &[Digest]) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("driver".to_owned(), json!("recorded"));
    out.insert("streams".to_owned(), json!(streams));
    out.insert("session".to_owned(), json!(known(id, answer)));
    out
}

/// What an import publishes of one answer: its session and, where there is one, its judge's replies, as a
/// run of `pipeline` would, with further files under names of their own.
///
/// # Errors
/// When the facts hold a number that a recipe can't.
pub fn publications(
    id: &str,
    answer: &Answer,
    files: Files,
    base: &Record,
) -> Result<Vec<Publication>, crate::digest::CanonicalError> {
    let mut out = Vec::new();
    let mut add = |kind: &str, mut fields: Map<String, Value>, parts: Vec<(String, PartContent)>| {
        fields.insert("kind".to_owned(), json!(kind));
        fields.insert("format".to_owned(), json!(FORMAT));
        let keyed = seal(Value::Object(fields))?;
        let node =
            format!("{}[arm={},answer={id}]", if kind == "judge" { "rate" } else { "answers" }, answer.arm);
        let record =
            Record { key: keyed.key, recipe: keyed.key, node, kind: kind.to_owned(), ..base.clone() };
        out.push(Publication { record, recipe: keyed.canonical.into_bytes(), parts, ledger: None });
        Ok::<(), crate::digest::CanonicalError>(())
    };
    let stream = Digest::of(&files.transcript);
    let mut parts = vec![
        (part::STREAM.to_owned(), PartContent::Bytes(files.transcript)),
        (part::SESSION.to_owned(), PartContent::Bytes(artifact::to_json(&known(id, answer)))),
    ];
    parts.extend(files.others.into_iter().map(|(name, bytes)| (name, PartContent::Shared(bytes))));
    add("session", session_recipe(id, answer, &[stream]), parts)?;
    if let Some(replies) = files.judgement {
        let fields = replies_recipe(id, Some(Digest::of(&replies)));
        add("judge", fields, vec![(part::REPLIES.to_owned(), PartContent::Bytes(replies))])?;
    }
    Ok(out)
}

/// Files of an imported answer.
pub struct Files {
    /// The transcript.
    pub transcript: Vec<u8>,
    /// A judge's replies.
    pub judgement: Option<Vec<u8>>,
    /// Others, by the names of the parts that they become.
    pub others: Vec<(String, Shared)>,
}

fn replies_recipe(id: &str, replies: Option<Digest>) -> Map<String, Value> {
    let mut out = Map::new();
    out.insert("judge".to_owned(), json!("recorded"));
    out.insert("answer".to_owned(), json!(id));
    out.insert("replies".to_owned(), json!(replies));
    out
}

/// What is known of an answer beside its transcript.
fn known(id: &str, answer: &Answer) -> artifact::Recorded {
    artifact::Recorded {
        id: id.to_owned(),
        repo: answer.repo.clone(),
        replicate: answer.replicate,
        dialect: answer.dialect.and_then(|d| json!(d).as_str().map(str::to_owned)),
        model: answer.model.clone(),
        agent: answer.agent.clone(),
        cwd: answer.cwd.clone(),
        label: answer.label.clone(),
        origin: answer.origin.clone(),
        facts: answer.facts.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
    }
}

fn answer<'a>(at: &At<'a>) -> Result<(&'a str, &'a Answer), NoRecipe> {
    at.pipeline.answer(at.cell).ok_or_else(|| {
        let cell: Vec<String> = at.cell.iter().map(|(axis, value)| format!("{axis} {value}")).collect();
        NoRecipe::Impossible(format!("no recording has an answer of {}", cell.join(", ")))
    })
}

fn digest(at: &At<'_>, bytes: &Bytes) -> Result<Digest, NoRecipe> {
    match bytes {
        Bytes::File(path) => {
            let files = at.world.files(path).map_err(NoRecipe::Impossible)?;
            let found = files.first().map(|(_, digest)| *digest);
            found.ok_or_else(|| NoRecipe::Impossible(format!("`{path}` is no file")))
        }
        other => {
            other.digest().ok_or_else(|| NoRecipe::Impossible("a shipped recording lacks a file".to_owned()))
        }
    }
}

pub(super) fn run(job: &Job) -> Result<Artifact, Failure> {
    let (id, answer) = taken(job)?;
    let digests: Vec<Digest> = serde_json::from_value(job.recipe["streams"].clone())
        .map_err(|e| Failure::new(Cause::Output, e.to_string()))?;
    let mut parts = Vec::new();
    for (at, (bytes, digest)) in answer.transcripts.iter().zip(&digests).enumerate() {
        let name =
            if digests.len() == 1 { part::STREAM.to_owned() } else { format!("{}-{}", part::STREAM, at + 1) };
        parts.push((name, PartContent::Bytes(read(job, bytes, *digest)?)));
    }
    parts.push((part::SESSION.to_owned(), PartContent::Bytes(artifact::to_json(&known(id, answer)))));
    Ok(Artifact::done(parts))
}

pub(super) fn run_replies(job: &Job) -> Result<Artifact, Failure> {
    let (_, answer) = taken(job)?;
    let digest: Option<Digest> = serde_json::from_value(job.recipe["replies"].clone())
        .map_err(|e| Failure::new(Cause::Output, e.to_string()))?;
    let bytes = match (&answer.judgement, digest) {
        (Some(bytes), Some(digest)) => read(job, bytes, digest)?,
        _ => Vec::new(),
    };
    Ok(Artifact::done(vec![(part::REPLIES.to_owned(), PartContent::Bytes(bytes))]))
}

fn taken(job: &Job) -> Result<(&str, &Answer), Failure> {
    job.pipeline
        .answer(&job.cell)
        .ok_or_else(|| Failure::new(Cause::Spawn, "no recording has an answer of this cell"))
}

fn read(job: &Job, bytes: &Bytes, digest: Digest) -> Result<Vec<u8>, Failure> {
    let found = match bytes {
        Bytes::File(path) => fsio::read_inside(&job.pipeline.root, path, LARGEST)?,
        Bytes::Shipped(path) => shipped::get(path).map(<[u8]>::to_vec).unwrap_or_default(),
        Bytes::Object(digest) => job.store.get(digest).map_err(|error| {
            let message = format!("{error}; import the recording again, or pull it into this store");
            Failure::new(Cause::Output, message)
        })?,
    };
    if Digest::of(&found) != digest {
        return Err(Failure::new(Cause::Output, "a recorded file changed while the run was going on"));
    }
    Ok(found)
}
