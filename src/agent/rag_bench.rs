//! Rows of result files of the rag-bench family: one JSON object per question, an agent's answer
//! or a server's list of results. Numbers of calls are all that is left of what an agent did.

use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::Value;

use super::draft::{Draft, Who};
use super::source::Losses;
use super::tools::Prefix;
use super::{Dialect, Hints, ReadError, beginning};
use crate::artifact::transcript::{Call, Fault, Transcript, TurnEnd, Usage, What};
use crate::artifact::{AnswerRow, CallTiming, CellState, Fault as Whose, Hit, code};

/// Most calls that one row is believed to stand for.
const MOST_CALLS: u64 = 100_000;
/// What the benchmark writes down for a call that ran out of time, and for a server that was gone.
const TIMEOUT: &str = "timeout";
const SERVER_GONE: &str = "server_error";
/// Folder below which it keeps its clones, one per repository.
const CLONES: &str = "/repos/";

/// An agent's row, by its own names and by those of numeric excerpts.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Row {
    #[serde(alias = "question")]
    query_id: Option<String>,
    answer: Option<String>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    cost_usd: Option<f64>,
    #[serde(alias = "turns")]
    num_turns: Option<u64>,
    duration_ms: Option<f64>,
    tool_calls: Option<Calls>,
    error: Option<String>,
}

/// Calls by name: an object, or `Grep:1,Read:2`.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Calls {
    Counts(IndexMap<String, u64>),
    Words(String),
    Other(serde::de::IgnoredAny),
}

impl Calls {
    fn counts(&self) -> Vec<(&str, u64)> {
        match self {
            Self::Counts(counts) => counts.iter().map(|(name, count)| (name.as_str(), *count)).collect(),
            Self::Words(words) => words
                .split(',')
                .filter_map(|word| word.trim().rsplit_once(':'))
                .filter_map(|(name, count)| Some((name.trim(), count.trim().parse().ok()?)))
                .collect(),
            Self::Other(_) => Vec::new(),
        }
    }
}

/// Reads an agent's row.
pub(super) fn read(text: &str, hints: &Hints) -> Result<Transcript, ReadError> {
    let row: Row = serde_json::from_str(text).map_err(|_| not_of(text))?;
    if row.query_id.is_none() {
        return Err(not_of(text));
    }
    let mut draft = Draft::new(Dialect::RagBench, hints);
    let mut losses = Losses::default();
    let mut left = MOST_CALLS;
    for (name, count) in row.tool_calls.iter().flat_map(Calls::counts) {
        if count > left {
            losses.unreadable += 1;
            continue;
        }
        left -= count;
        for _ in 0..count {
            call(&mut draft, name, hints);
        }
    }
    if let Some(answer) = &row.answer {
        draft.text(Who::default(), answer);
    }
    let failed = row.error.as_deref().filter(|error| !error.is_empty());
    if let Some(error) = failed {
        draft.fault(Fault::AgentError { text: error.to_owned() });
    }
    let tokens = Usage { input: row.input_tokens, output: row.output_tokens, ..Usage::default() };
    draft.end_turn(TurnEnd {
        subtype: None,
        error: failed.is_some(),
        text: row.answer,
        usage: Some(tokens).filter(|u| u.input.is_some() || u.output.is_some()),
        usage_main: None,
        cost_usd: row.cost_usd,
        duration_ms: row.duration_ms,
        calls: row.num_turns,
    });
    Ok(draft.finish(losses, false))
}

/// Excerpts shorten names of a server's tools; those of the agent begin with a capital letter.
fn call(draft: &mut Draft<'_>, name: &str, hints: &Hints) {
    let short = !name.contains("__") && name.starts_with(|c: char| c.is_ascii_lowercase());
    match hints.servers.first().filter(|_| short) {
        Some(server) => draft.say(
            Who::default(),
            What::Call(Call {
                name: name.to_owned(),
                server: Some(server.clone()),
                tool: name.to_owned(),
                ..Call::default()
            }),
        ),
        None => draft.call(Who::default(), None, name.to_owned(), Prefix::Mcp, Value::Null),
    }
}

fn not_of(text: &str) -> ReadError {
    ReadError::NotOf { dialect: Dialect::RagBench, first: beginning(text) }
}

/// A server's row: what it returned for a question.
#[derive(Debug, Deserialize)]
struct Found {
    id: String,
    #[serde(default)]
    repo: String,
    returned_files: Vec<Option<String>>,
    #[serde(default)]
    returned_symbols: Vec<Option<String>>,
    #[serde(default)]
    latency_ms: Option<f64>,
    #[serde(default)]
    tool_calls: Option<u64>,
    #[serde(default)]
    error: Option<String>,
}

/// What a server returned for a question, where a row is about that; none for an agent's.
///
/// Of the list only the beginning is written down, and which result a symbol was of is not:
/// symbols are given to results in their order.
#[must_use]
pub fn results(stream: &[u8]) -> Option<(AnswerRow, CallTiming)> {
    let row: Found = serde_json::from_slice(stream).ok()?;
    let symbols = row.returned_symbols.iter().flatten().filter(|symbol| !symbol.is_empty()).map(Some);
    let mut symbols = symbols.chain(std::iter::repeat(None));
    let results = row.returned_files.iter().map(|file| Hit {
        file: file.as_deref().filter(|file| !file.is_empty()).map(|file| inside(file, &row.repo)),
        symbol: symbols.next().flatten().cloned(),
        line: None,
        score: None,
    });
    let error = row.error.filter(|error| !error.is_empty());
    let codes = error.as_deref().map(|error| match error {
        TIMEOUT => code::CALL_TIMEOUT,
        SERVER_GONE => code::SERVER_DIED,
        _ => code::CALL_ERROR,
    });
    let answer = AnswerRow {
        task: row.id.clone(),
        state: if error.is_some() { CellState::Error } else { CellState::Valid },
        codes: codes.map(str::to_owned).into_iter().collect(),
        fault: error.as_ref().map(|_| Whose::Treatment),
        results: results.collect(),
        calls: row.tool_calls.and_then(|calls| u32::try_from(calls).ok()).unwrap_or(1),
        error: error.clone(),
    };
    let latency = row.latency_ms.filter(|ms| error.is_none() && *ms > 0.0);
    Some((answer, CallTiming { task: row.id, latency_ms: latency }))
}

/// A path below the benchmark's clone of a repository, from there on.
fn inside(file: &str, repo: &str) -> String {
    let clone = format!("{CLONES}{repo}/");
    match file.split_once(clone.as_str()) {
        Some((_, inside)) if !repo.is_empty() => inside.to_owned(),
        _ => file.to_owned(),
    }
}
