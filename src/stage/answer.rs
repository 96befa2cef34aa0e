//! Reading a session's transcript, and grading and judging what it says.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Artifact, Failure, Input, Job};
use crate::agent;
use crate::artifact::transcript::{Dialect, Transcript};
use crate::artifact::{self, AnswerRow, CallTiming, Claims, Recorded, SessionState, Timing, part};
use crate::corpus::Corpus;
use crate::digest::Digest;
use crate::fsio::tree::Node;
use crate::grade::answer::{self, Inputs};
use crate::grade::citation::View;
use crate::grade::sense::citations::{Checkout, folders, follow};
use crate::grade::validity::{self, Expected};
use crate::manifest::axis;
use crate::manifest::pipeline::{Cause, Profile};
use crate::plan::compiled::{Compiled, Work};
use crate::plan::key::{At, NoRecipe, Upstream};
use crate::store::PartContent;

/// Version of this reader; raised when its results change for equal inputs.
const READER: u32 = 1;
/// Largest file of a corpus that is read, in bytes.
const LARGEST: u64 = 16 << 20;
/// Fact that names an arm's server; null: it has none.
const SERVER: &str = "server";

/// Field of a recipe that says what of an answer's commit could not be honoured.
const REMARK: &str = "corpus-remark";

/// Names of the parts that hold a session's streams.
fn is_stream(name: &str) -> bool {
    name == part::STREAM || name.strip_prefix(part::STREAM).is_some_and(|rest| rest.starts_with('-'))
}

/// Fields of the recipe of a node that reads a transcript.
pub(super) fn read_recipe(at: &At<'_>, raw: &Upstream) -> Result<Map<String, Value>, NoRecipe> {
    let parts = raw.parts.as_ref().ok_or_else(|| NoRecipe::Wait(raw.id.clone()))?;
    let streams: Vec<&Digest> = parts.iter().filter(|(name, _)| is_stream(name)).map(|(_, d)| d).collect();
    let mut out = Map::new();
    out.insert("reader".to_owned(), json!([READER, agent::VERSION, validity::VERSION]));
    out.insert("streams".to_owned(), json!(streams));
    out.insert("session".to_owned(), json!(raw.part(part::SESSION)?));
    out.insert("server".to_owned(), json!(preset(at.pipeline, at.arm_index)));
    Ok(out)
}

/// Name of an arm's server preset.
fn preset(pipeline: &Compiled, arm: Option<usize>) -> Option<&str> {
    pipeline.arms[arm?].server.as_ref().map(|server| server.name.as_str())
}

/// What an arm is said to be: by its preset, else by what was written down of the session.
fn expected<'a>(job: &'a Job, session: &'a Recorded) -> Expected<'a> {
    if let Some(name) = preset(&job.pipeline, job.arm) {
        return Expected::Server(name);
    }
    match session.facts.get(SERVER) {
        Some(Value::String(name)) => Expected::Server(name),
        Some(Value::Bool(false)) => Expected::None,
        _ => Expected::Unknown,
    }
}

pub(super) fn read(job: &Job, input: &Input) -> Result<Artifact, Failure> {
    let session: Recorded = job.json(input, part::SESSION)?;
    let names: Vec<String> =
        input.parts.iter().flat_map(|parts| parts.keys()).filter(|name| is_stream(name)).cloned().collect();
    let mut streams = Vec::new();
    for name in &names {
        streams.push(job.part(input, name)?);
    }
    let dialect = session.dialect.as_deref();
    let stream = streams.join(&b'\n');
    let expected = expected(job, &session);
    let claims = agent::claims(&stream).filter(|_| dialect == Some(Dialect::RagBench.name()));
    if let Some(claims) = &claims
        && let Some((row, timing)) = agent::results(&stream)
    {
        return Ok(listed(row, timing, claims, stream, &session));
    }
    let (transcript, cell) = match transcript(dialect, &stream, expected) {
        Ok(mut transcript) => {
            if transcript.cwd.is_none() {
                transcript.cwd.clone_from(&session.cwd);
            }
            let cell = validity::classify(&transcript, &session, expected, claims.as_ref());
            (transcript, cell)
        }
        Err(why) => (Transcript::default(), unreadable(why)),
    };
    let mut parts = vec![
        (part::TRANSCRIPT.to_owned(), PartContent::Bytes(artifact::to_json(&transcript))),
        (part::STREAM.to_owned(), PartContent::Bytes(stream)),
        (part::SESSION.to_owned(), PartContent::Bytes(artifact::to_json(&session))),
        (part::CELL.to_owned(), PartContent::Bytes(artifact::to_json(&cell))),
    ];
    parts.extend(
        claims.map(|claims| (part::CLAIMS.to_owned(), PartContent::Bytes(artifact::to_json(&claims)))),
    );
    Ok(Artifact::done(parts))
}

/// A row about a server alone: no agent said anything, and a list is what is graded.
fn listed(
    row: AnswerRow,
    call: CallTiming,
    claims: &Claims,
    stream: Vec<u8>,
    session: &Recorded,
) -> Artifact {
    let label = Some(session.label.clone()).filter(|label| !label.is_empty());
    let cell = SessionState {
        state: row.state,
        codes: row.codes.clone(),
        fault: row.fault,
        error: row.error.clone(),
        notes: label.into_iter().chain(validity::unreadable(claims)).collect(),
        ..SessionState::default()
    };
    let transcript = Transcript { dialect: Dialect::RagBench, ..Transcript::default() };
    let timing = Timing { calls: vec![call], ..Timing::default() };
    Artifact::done(vec![
        (part::TRANSCRIPT.to_owned(), PartContent::Bytes(artifact::to_json(&transcript))),
        (part::RESULTS.to_owned(), PartContent::Bytes(artifact::to_lines(&[row]))),
        (part::TIMING.to_owned(), PartContent::Bytes(artifact::to_json(&timing))),
        (part::CLAIMS.to_owned(), PartContent::Bytes(artifact::to_json(claims))),
        (part::STREAM.to_owned(), PartContent::Bytes(stream)),
        (part::SESSION.to_owned(), PartContent::Bytes(artifact::to_json(session))),
        (part::CELL.to_owned(), PartContent::Bytes(artifact::to_json(&cell))),
    ])
}

fn unreadable(why: String) -> SessionState {
    SessionState {
        state: artifact::CellState::Error,
        codes: vec![artifact::code::UNREADABLE.to_owned()],
        fault: Some(artifact::Fault::Harness),
        error: Some(why),
        ..SessionState::default()
    }
}

/// The transcript of a session.
fn transcript(dialect: Option<&str>, stream: &[u8], expected: Expected<'_>) -> Result<Transcript, String> {
    let mut hints = agent::Hints::default();
    if let Expected::Server(name) = expected {
        hints.servers.push(name.to_owned());
    }
    let dialect = match dialect.and_then(|name| serde_json::from_value(json!(name)).ok()) {
        Some(dialect) => dialect,
        None => agent::detect(stream).map_err(|e| e.to_string())?,
    };
    agent::read_with(dialect, stream, &hints).map_err(|e| e.to_string())
}

/// Fields of the recipe of a grade node that grades an answer.
pub(super) fn grade_recipe(
    at: &At<'_>,
    names: &[String],
    profile: Profile,
    read: &Upstream,
) -> Result<Map<String, Value>, NoRecipe> {
    let scenario = at.pipeline.scenario(at.cell).map(|scenario| &scenario.task);
    let answer = at.pipeline.answer(at.cell);
    let question = answer.and_then(|(_, answer)| answer.question.as_ref());
    let mut versions = Vec::new();
    let mut fields = Map::new();
    for name in names {
        let def = super::grade::definition(name).map_err(NoRecipe::Impossible)?;
        versions.push(json!([name, def.version]));
        let read = answer::task_fields(name, profile, scenario, question);
        if !read.is_null() {
            fields.insert(name.clone(), read);
        }
    }
    let mut out = Map::new();
    out.insert("graders".to_owned(), json!(versions));
    out.insert("profile".to_owned(), json!(profile));
    out.insert("task".to_owned(), json!(task(at.pipeline, at.cell)));
    out.insert("fields".to_owned(), Value::Object(fields));
    let mut parts = Map::new();
    let mut wanted = vec![part::TRANSCRIPT, part::SESSION, part::CELL];
    if profile == Profile::Sense {
        wanted.push(part::STREAM);
    }
    for name in wanted {
        parts.insert(name.to_owned(), json!(read.part(name)?));
    }
    for name in [part::RESULTS, part::TIMING, part::CLAIMS] {
        if let Ok(digest) = read.part(name) {
            parts.insert(name.to_owned(), json!(digest));
        }
    }
    out.insert("parts".to_owned(), Value::Object(parts));
    out.insert("server".to_owned(), json!(preset(at.pipeline, at.arm_index)));
    if let Some(name) = corpus_name(at.pipeline, at.cell) {
        // What can't be had is graded without.
        out.insert("corpus".to_owned(), json!(at.world.corpus(name)));
    }
    let lacks = corpus_name(at.pipeline, at.cell).and_then(|name| at.world.lacks(name));
    if let Some(remark) = lacks.or_else(|| answer?.1.remark.as_deref()) {
        out.insert(REMARK.to_owned(), json!(remark));
    }
    Ok(out)
}

/// The task of a cell.
pub(super) fn task(pipeline: &Compiled, cell: &std::collections::BTreeMap<String, String>) -> String {
    let answer = pipeline.answer(cell).map(|(_, answer)| answer.task.as_str());
    answer.or(cell.get(axis::TASK).map(String::as_str)).unwrap_or_default().to_owned()
}

/// Name of the corpus that an answer is held against.
fn corpus_name<'a>(
    pipeline: &'a Compiled,
    cell: &'a std::collections::BTreeMap<String, String>,
) -> Option<&'a str> {
    match cell.get(axis::REPO) {
        Some(repo) => Some(repo),
        None => pipeline.answer(cell)?.1.corpus.as_deref(),
    }
}

pub(super) fn grade(
    job: &Job,
    names: &[String],
    profile: Profile,
    input: &Input,
) -> Result<Artifact, Failure> {
    let transcript: Transcript = job.json(input, part::TRANSCRIPT)?;
    let session: Recorded = job.json(input, part::SESSION)?;
    let cell: SessionState = job.json(input, part::CELL)?;
    let has = |name: &str| input.parts.iter().any(|parts| parts.contains_key(name));
    let results: Option<(Vec<AnswerRow>, Timing)> = if has(part::RESULTS) {
        Some((job.lines(input, part::RESULTS)?, job.json(input, part::TIMING)?))
    } else {
        None
    };
    let claims: Option<Claims> = has(part::CLAIMS).then(|| job.json(input, part::CLAIMS)).transpose()?;
    let stream = if profile == Profile::Sense { job.part(input, part::STREAM)? } else { Vec::new() };
    let corpus = corpus_name(&job.pipeline, &job.cell).and_then(|name| job.corpora.get(name));
    let files = corpus.map(|corpus| Files::new(corpus, transcript.cwd.clone()));
    let ground = match corpus {
        Some(corpus) if profile != Profile::Sense => {
            let ground = corpus.ground().map_err(|error| Failure::new(Cause::Output, error.to_string()))?;
            Some(ground)
        }
        _ => None,
    };
    let task = task(&job.pipeline, &job.cell);
    let server = match expected(job, &session) {
        Expected::Server(name) => Some(name),
        _ => None,
    };
    let inputs = Inputs {
        task: &task,
        scenario: job.pipeline.scenario(&job.cell).map(|scenario| &scenario.task),
        question: job.pipeline.answer(&job.cell).and_then(|(_, answer)| answer.question.as_ref()),
        transcript: &transcript,
        results: results.as_ref().map(|(rows, timing)| (rows.as_slice(), timing)),
        claims: claims.as_ref(),
        stream: &stream,
        session: &session,
        cell: &cell,
        server,
        checkout: files.as_ref().map(|files| files as &dyn Checkout),
        view: ground.as_ref().map(|source| View { source: source.as_ref(), root: transcript.cwd.as_deref() }),
    };
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut graded = answer::grade(&names, &inputs, profile);
    if let Some(remark) = job.recipe[REMARK].as_str() {
        graded.grades.notes.push(remark.to_owned());
        if corpus.is_none() {
            for row in &mut graded.citations {
                remark.clone_into(&mut row.reason);
            }
        }
    }
    let mut parts = vec![
        (part::GRADES.to_owned(), PartContent::Bytes(artifact::to_json(&graded.grades))),
        (part::ITEMS.to_owned(), PartContent::Bytes(artifact::to_lines(&graded.items))),
        (part::CITATIONS.to_owned(), PartContent::Bytes(artifact::to_lines(&graded.citations))),
    ];
    if let Some(scored) = graded.scored {
        parts.push((part::SCORED.to_owned(), PartContent::Bytes(scored.into_bytes())));
    }
    Ok(Artifact::done(parts))
}

/// A corpus as graders see it.
struct Files<'a> {
    corpus: &'a Corpus,
    paths: Vec<String>,
    links: BTreeMap<&'a str, &'a str>,
    root: Option<String>,
}

impl<'a> Files<'a> {
    fn new(corpus: &'a Corpus, root: Option<String>) -> Self {
        let entries = || corpus.tree.entries.iter();
        let links: BTreeMap<&str, &str> = entries()
            .filter_map(|entry| match &entry.node {
                Node::Link(target) => Some((entry.path.as_str(), target.as_str())),
                Node::File { .. } => None,
            })
            .collect();
        let folders = folders(entries().map(|entry| entry.path.as_str()));
        // A link to a folder is one; all others are listed among the files, also those that lead nowhere.
        let is_folder = |path: &str| {
            links.contains_key(path)
                && follow(path, |path| folders.contains(path), |path| links.get(path).copied())
                    .is_some_and(|end| folders.contains(end.as_str()))
        };
        let paths = entries().map(|entry| &entry.path).filter(|path| !is_folder(path)).cloned().collect();
        Self { corpus, paths, links, root }
    }
}

impl Checkout for Files<'_> {
    fn files(&self) -> &[String] {
        &self.paths
    }

    fn link(&self, path: &str) -> Option<&str> {
        self.links.get(path).copied()
    }

    fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        if self.links.contains_key(path) {
            return None;
        }
        // Only what the tree lists as a file is opened.
        self.paths.binary_search_by(|known| known.as_str().cmp(path)).ok()?;
        crate::fsio::read_limited(&self.corpus.path.join(path), LARGEST).ok()
    }

    fn root(&self) -> Option<&str> {
        self.root.as_deref()
    }
}

/// Whether a stage below reads an answer and not a list of results.
pub(super) fn reads_answers(pipeline: &Compiled, needs: &[usize]) -> bool {
    needs.iter().any(|need| {
        let stage = &pipeline.stages[*need];
        matches!(stage.work, Work::Read { .. })
            && stage.needs.iter().any(|raw| matches!(pipeline.stages[*raw].work, Work::Recorded))
    })
}

/// A failure of a node that lacks what it reads.
pub(super) fn nothing() -> Failure {
    Failure::new(Cause::Output, "there is no answer to read")
}
