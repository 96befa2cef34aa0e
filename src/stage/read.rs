//! `read`: rows, states and facts derived from what a measured stage published.
//!
//! Pure and cheap: a mended parser or a changed mapping reads every stored
//! answer again and runs no server.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::raw::{FACTS, Facts, Phase, REPLIES, Raw, Reply, reading};
use super::server::{title, tools_digest, words_of};
use super::warmup::{WARMUP, WarmupFacts};
use super::{Artifact, Failure, Input, Job, questions, session};
use crate::artifact::{
    self, AnswerRow, CallTiming, CellState, Clockings, Fault, Hit, IngestFacts, SessionState, Timing, code,
    part,
};
use crate::manifest::pipeline::{Cause, Kind as StageKind};
use crate::manifest::server::Lines;
use crate::mcp::normalise::{self, Kind as ReplyKind, Rules};
use crate::plan::compiled::Work;
use crate::plan::key::{At, Kind, NoRecipe};
use crate::store::PartContent;

/// Version of this reader; raised when its results change for equal inputs.
const READER: u32 = 1;
/// Raw parts that it reads.
const RAW: [&str; 3] = [FACTS, REPLIES, part::CLOCK];

pub(super) struct Read;

impl Kind for Read {
    fn recipe(&self, at: &At<'_>) -> Result<Map<String, Value>, NoRecipe> {
        let raw = at
            .needs
            .first()
            .and_then(|up| up.first())
            .ok_or_else(|| NoRecipe::Impossible("there is nothing to read".to_owned()))?;
        match at.stage.needs.first().map(|need| &at.pipeline.stages[*need].work) {
            Some(Work::Recorded) => return super::answer::read_recipe(at, raw),
            Some(Work::Replies { .. }) => return super::judged::read_recipe(at, raw),
            _ => {}
        }
        let mut digests = Map::new();
        for name in RAW {
            digests.insert(name.to_owned(), json!(raw.part(name)?));
        }
        let mut out = Map::new();
        out.insert("reader".to_owned(), json!([READER, normalise::VERSION]));
        out.insert("raw".to_owned(), Value::Object(digests));
        if let Work::Read { of } = at.stage.work {
            out.insert("of".to_owned(), json!(of));
            if of == StageKind::Session {
                let lines = at.arm().and_then(|a| a.server.as_ref()).map(|s| s.lines).unwrap_or_default();
                let ids: Vec<&str> = questions(at.pipeline, at.cell).iter().map(|q| q.id.as_str()).collect();
                out.insert("corpus".to_owned(), json!(at.corpus()?));
                out.insert("lines".to_owned(), json!(lines));
                out.insert("tasks".to_owned(), json!(ids));
            }
        }
        Ok(out)
    }

    fn format(&self) -> u32 {
        1
    }
}

pub(super) fn run(job: &Job) -> Result<Artifact, Failure> {
    let Work::Read { of } = job.stage().work else {
        return Err(Failure::new(Cause::Spawn, "this stage reads nothing"));
    };
    let input = job
        .needs
        .first()
        .and_then(|inputs| inputs.first())
        .ok_or_else(|| Failure::new(Cause::Output, "there is nothing to read"))?;
    match job.stage().needs.first().map(|need| &job.pipeline.stages[*need].work) {
        Some(Work::Recorded) => return super::answer::read(job, input),
        Some(Work::Replies { .. }) => return super::judged::read(job, input),
        _ => {}
    }
    let facts: Facts = job.json(input, FACTS)?;
    let clock: Clockings = job.json(input, part::CLOCK)?;
    let replies: Vec<Reply> = job.lines(input, REPLIES)?;
    let parts = match of {
        StageKind::Ingest => ingest(&facts, &clock, &replies),
        StageKind::Warmup => warmup(&facts, &clock, &replies),
        _ => answers(job, input, &facts, &clock, &replies)?,
    };
    Ok(Artifact::done(parts))
}

fn number(clock: &Clockings, name: &str) -> Option<f64> {
    clock.readings.get(name).and_then(Value::as_f64)
}

fn state_of(facts: &Facts) -> SessionState {
    let (state, codes, fault) = match &facts.trouble {
        Some(trouble) => (CellState::Error, vec![trouble.code.clone()], Some(Fault::Treatment)),
        None => (CellState::Valid, Vec::new(), None),
    };
    let mut notes = facts.notes.clone();
    if let Some(counters) = &facts.counters
        && counters.bad_frames() > 0
    {
        notes.push(format!("{} frames that are no protocol", counters.bad_frames()));
    }
    for left in &facts.survivors {
        notes.push(format!("left a process behind: {left}"));
    }
    SessionState {
        state,
        codes,
        fault,
        error: facts.trouble.as_ref().map(|t| t.words.clone()),
        server: facts.server.as_ref().map(title),
        tools: (!facts.tools.is_empty()).then(|| tools_digest(&facts.tools)),
        notes,
    }
}

fn json_part(name: &str, value: &impl serde::Serialize) -> (String, PartContent) {
    (name.to_owned(), PartContent::Bytes(artifact::to_json(value)))
}

fn ingest(facts: &Facts, clock: &Clockings, replies: &[Reply]) -> Vec<(String, PartContent)> {
    let mib = |bytes: f64| bytes / f64::from(1u32 << 20);
    let said = replies.iter().rev().find(|r| r.phase == Phase::Ingest).map(|r| &r.outcome);
    let out = IngestFacts {
        ingest_s: number(clock, reading::INGEST_MS).map(|ms| ms / 1000.0),
        rss_mib: number(clock, reading::RSS_MIB),
        index_mib: number(clock, reading::INDEX_BYTES).map(mib),
        files: said.and_then(|raw| {
            said_count(raw, &["files", "files_indexed", "file_count", "indexed_files", "total_files"])
        }),
        bytes: said.and_then(|raw| said_count(raw, &["bytes", "total_bytes", "indexed_bytes"])),
        start_ms: number(clock, reading::START_MS),
    };
    vec![json_part(part::INGEST, &out), json_part(part::CELL, &state_of(facts))]
}

/// A count that the server itself gives in its reply.
fn said_count(raw: &Raw, names: &[&str]) -> Option<u64> {
    let Raw::Reply { value } = raw else { return None };
    let text = || {
        let text = value["content"].as_array()?.iter().find_map(|b| b["text"].as_str())?;
        serde_json::from_str::<Value>(text).ok()
    };
    let said = value.get("structuredContent").cloned().or_else(text)?;
    names.iter().find_map(|name| said.get(name).and_then(Value::as_u64))
}

fn warmup(facts: &Facts, clock: &Clockings, replies: &[Reply]) -> Vec<(String, PartContent)> {
    let calls: Vec<Option<f64>> = replies
        .iter()
        .filter(|r| r.phase == Phase::Warmup)
        .map(|r| (!r.outcome.failed()).then_some(r.latency_ms))
        .collect();
    let out = WarmupFacts {
        cold_ms: calls.first().copied().flatten(),
        calls_ms: calls,
        start_ms: number(clock, reading::START_MS),
    };
    vec![json_part(WARMUP, &out), json_part(part::CELL, &state_of(facts))]
}

fn answers(
    job: &Job,
    input: &Input,
    facts: &Facts,
    clock: &Clockings,
    replies: &[Reply],
) -> Result<Vec<(String, PartContent)>, Failure> {
    let corpus = job.corpus()?;
    let files: BTreeSet<&str> = corpus.tree.entries.iter().map(|e| e.path.as_str()).collect();
    let known = |path: &str| files.contains(path);
    let lines =
        job.arm.and_then(|at| job.pipeline.arms[at].server.as_ref()).map(|s| s.lines).unwrap_or_default();
    let reader = Reader { roots: facts.roots.clone(), lines, known: &known };
    let mut by_task: BTreeMap<&str, Vec<&Reply>> = BTreeMap::new();
    let mut asked: Vec<&str> = Vec::new();
    for reply in replies.iter().filter(|r| r.phase == Phase::Question) {
        if !by_task.contains_key(reply.task.as_str()) {
            asked.push(&reply.task);
        }
        by_task.entry(&reply.task).or_default().push(reply);
    }
    let mut state = state_of(facts);
    let died = replies.iter().rev().find_map(|r| match &r.outcome {
        Raw::Died { words } => Some(words.clone()),
        _ => None,
    });
    let mut rows: Vec<AnswerRow> = Vec::new();
    for question in questions(&job.pipeline, &job.cell) {
        let row = match by_task.get(question.id.as_str()) {
            Some(replies) => reader.row(&question.id, replies),
            None => unasked(&question.id, &state, died.as_deref()),
        };
        rows.push(row);
    }
    judge_session(&mut rows, &mut state, facts, replies, &reader);
    let timing = Timing {
        calls: asked
            .iter()
            .map(|task| CallTiming {
                task: (*task).to_owned(),
                latency_ms: latency(by_task.get(task).map(Vec::as_slice).unwrap_or_default()),
            })
            .collect(),
        start_ms: number(clock, reading::START_MS),
        reindex_ms: number(clock, reading::REINDEX_MS),
        rss_mib: number(clock, reading::RSS_MIB),
        first_call_ms: replies.iter().find(|r| r.phase != Phase::Ingest).map(|r| r.latency_ms),
    };
    if rows.is_empty() {
        return Err(Failure::new(
            Cause::Output,
            format!("`{}` asked no question: the dataset has none", input.id),
        ));
    }
    Ok(vec![
        (part::RESULTS.to_owned(), PartContent::Bytes(artifact::to_lines(&rows))),
        json_part(part::TIMING, &timing),
        json_part(part::CELL, &state),
    ])
}

/// Sum over the calls of a question; none when one of them failed.
fn latency(replies: &[&Reply]) -> Option<f64> {
    if replies.is_empty() || replies.iter().any(|r| r.outcome.failed()) {
        return None;
    }
    Some(replies.iter().map(|r| r.latency_ms).sum())
}

/// The row of a question that could not be asked any more.
fn unasked(task: &str, state: &SessionState, died: Option<&str>) -> AnswerRow {
    let (codes, error) = if state.state == CellState::Error {
        (state.codes.clone(), state.error.clone())
    } else {
        (vec![code::SERVER_DIED.to_owned()], died.map(str::to_owned))
    };
    AnswerRow {
        task: task.to_owned(),
        state: CellState::Error,
        codes,
        fault: Some(Fault::Treatment),
        error,
        ..AnswerRow::default()
    }
}

struct Reader<'a> {
    roots: Vec<String>,
    lines: Lines,
    known: &'a dyn Fn(&str) -> bool,
}

impl Reader<'_> {
    fn row(&self, task: &str, replies: &[&Reply]) -> AnswerRow {
        let mut lists: Vec<Vec<Hit>> = Vec::new();
        let (mut codes, mut error) = (Vec::new(), None);
        for reply in replies {
            let (hits, failed) = self.hits(&reply.outcome);
            match failed {
                None => lists.push(hits),
                Some((code, words)) => {
                    codes.push(code.to_owned());
                    error = Some(words);
                }
            }
        }
        codes.dedup();
        // One call of several that failed leaves an answer; it is kept with its code.
        let state = if lists.is_empty() { CellState::Error } else { CellState::Valid };
        AnswerRow {
            task: task.to_owned(),
            state,
            fault: (!codes.is_empty()).then_some(Fault::Treatment),
            codes,
            results: in_turn(lists),
            calls: u32::try_from(replies.len()).unwrap_or(u32::MAX),
            error,
        }
    }

    fn hits(&self, outcome: &Raw) -> (Vec<Hit>, Option<(&'static str, String)>) {
        let value = match outcome {
            Raw::Reply { value } => value,
            Raw::RpcError { .. } | Raw::Unexpected { .. } => return failed(code::CALL_ERROR, outcome),
            Raw::Timeout => return failed(code::CALL_TIMEOUT, outcome),
            Raw::Died { .. } => return failed(code::SERVER_DIED, outcome),
            Raw::TooLarge { .. } => return failed(code::REPLY_TOO_LARGE, outcome),
        };
        let rules = Rules { roots: self.roots.clone(), lines: self.lines, known: Some(self.known) };
        let read = normalise::normalise(value, &rules);
        match read.kind {
            ReplyKind::Error => {
                let words = read.error.unwrap_or_else(|| words_of(outcome));
                (Vec::new(), Some((code::CALL_ERROR, words)))
            }
            ReplyKind::Hits | ReplyKind::Empty | ReplyKind::Other => (read.hits, None),
        }
    }
}

fn failed(code: &'static str, outcome: &Raw) -> (Vec<Hit>, Option<(&'static str, String)>) {
    (Vec::new(), Some((code, words_of(outcome))))
}

/// Merges lists: first of each, then second of each.
fn in_turn(lists: Vec<Vec<Hit>>) -> Vec<Hit> {
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    let mut out = Vec::new();
    for at in 0..longest {
        for list in &lists {
            if let Some(hit) = list.get(at) {
                out.push(hit.clone());
            }
        }
    }
    out
}

/// What only the session as a whole shows: a wrong known answer, nothing on
/// every question, paths of another vocabulary, other tools, a changed corpus.
fn judge_session(
    rows: &mut [AnswerRow],
    state: &mut SessionState,
    facts: &Facts,
    replies: &[Reply],
    reader: &Reader<'_>,
) {
    if facts.trouble.is_some() {
        return;
    }
    let mut codes: Vec<&'static str> = Vec::new();
    let known: Vec<&Reply> =
        replies.iter().filter(|r| r.phase == Phase::Known && r.task == session::KNOWN_TASK).collect();
    if let Some(file) = &facts.known_file
        && !known.is_empty()
    {
        let row = reader.row(session::KNOWN_TASK, &known);
        let found = row.results.iter().any(|hit| hit.file.as_deref() == Some(file));
        if !found {
            codes.push(code::KNOWN_ANSWER_FAILED);
            let got = row.results.iter().find_map(|h| h.file.clone());
            state.notes.push(format!(
                "the known-answer question was to find `{file}`; {}",
                match (row.error, got) {
                    (Some(error), _) => format!("the server said: {error}"),
                    (None, Some(got)) => format!("the first result was `{got}`"),
                    (None, None) => "nothing came back".to_owned(),
                }
            ));
        }
    }
    let answered: Vec<&AnswerRow> = rows.iter().filter(|r| r.state == CellState::Valid).collect();
    if !answered.is_empty() {
        let hits: Vec<&Hit> = answered.iter().flat_map(|r| &r.results).collect();
        if hits.is_empty() {
            codes.push(code::NOTHING_FOUND);
        } else if !hits.iter().any(|h| h.file.as_deref().is_some_and(|f| (reader.known)(f))) {
            codes.push(code::PATHS_FOREIGN);
        }
    }
    if let Some(differ) = session::tools_differ(facts) {
        codes.push(differ);
    }
    if !facts.corpus_changed.is_empty() {
        codes.push(code::CORPUS_CHANGED);
        let some: Vec<&str> = facts.corpus_changed.iter().take(5).map(String::as_str).collect();
        state.notes.push(format!(
            "changed {} file(s) of its corpus copy outside `writes`: {}",
            facts.corpus_changed.len(),
            some.join(", ")
        ));
    }
    if codes.is_empty() {
        return;
    }
    state.state = CellState::Invalid;
    state.fault = Some(Fault::Treatment);
    state.codes = codes.iter().map(|c| (*c).to_owned()).collect();
    for row in rows.iter_mut().filter(|r| r.state == CellState::Valid) {
        row.state = CellState::Invalid;
        row.fault = Some(Fault::Treatment);
        row.codes.extend(state.codes.iter().cloned());
    }
}
