//! Rows of result files of the rag-bench family: one JSON object per question, an agent's answer
//! or a server's list of results. Numbers of calls are all that is left of what an agent did.
//!
//! Fields are read one by one, as that benchmark's own programs would take them: whole numbers
//! with a fraction of 0 are counts, `false` is no error. A field that can't be read counts as
//! unknown and is named in [`Claims::unreadable`]; the others stand.

use serde_json::{Map, Value};

use super::draft::{Draft, Who};
use super::source::Losses;
use super::tools::Prefix;
use super::{Dialect, Hints, ReadError, beginning};
use crate::artifact::transcript::{Call, Fault, Transcript, TurnEnd, Usage, What};
use crate::artifact::{AnswerRow, CallTiming, CellState, Claims, Fault as Whose, Hit, code};

/// Most calls that one row is believed to stand for.
const MOST_CALLS: u64 = 100_000;
/// Largest number that is taken for a count.
const MOST: f64 = 9e15;
/// What the benchmark writes down for a call that ran out of time, and for a server that was gone.
const TIMEOUT: &str = "timeout";
const SERVER_GONE: &str = "server_error";
/// Names of the question that an agent's row is about: the benchmark's, and that of excerpts.
const ASKED: [&str; 2] = ["query_id", "question"];

/// An object of which fields are read one by one.
struct Fields<'v> {
    row: &'v Map<String, Value>,
    unreadable: Vec<String>,
}

impl<'v> Fields<'v> {
    fn of(row: &'v Map<String, Value>) -> Self {
        Self { row, unreadable: Vec::new() }
    }

    /// The first of several names that is there and not null, and its value.
    fn get(&self, names: &[&'static str]) -> Option<(&'static str, &'v Value)> {
        names.iter().find_map(|name| Some((*name, self.row.get(*name).filter(|value| !value.is_null())?)))
    }

    /// A value as `with` takes it; one that it doesn't take is noted.
    fn take<T>(&mut self, names: &[&'static str], with: impl Fn(&'v Value) -> Option<T>) -> Option<T> {
        let (name, value) = self.get(names)?;
        let taken = with(value);
        if taken.is_none() {
            self.unreadable.push(name.to_owned());
        }
        taken
    }

    fn texts(&mut self, name: &'static str) -> Option<Vec<String>> {
        self.take(&[name], |value| {
            value.as_array()?.iter().map(|one| one.as_str().map(str::to_owned)).collect()
        })
    }

    /// A list of texts; what is none in it is an empty text, and noted unless it is null.
    fn list(&mut self, name: &'static str) -> Option<Vec<&'v str>> {
        let list = self.take(&[name], Value::as_array)?;
        if list.iter().any(|one| !one.is_null() && !one.is_string()) {
            self.unreadable.push(format!("{name}.entries"));
        }
        Some(list.iter().map(|one| one.as_str().unwrap_or_default()).collect())
    }

    /// What went wrong, in words; none for what counts as nothing there.
    fn error(&self) -> Option<String> {
        let error = self.row.get("error").filter(|error| is_something(error))?;
        Some(error.as_str().map_or_else(|| error.to_string(), str::to_owned))
    }

    /// Calls by name, and whether they are an excerpt's words: `Grep:1,Read:2`.
    fn calls(&mut self) -> (Vec<(&'v str, u64)>, bool) {
        const NAME: &str = "tool_calls";
        let Some((_, value)) = self.get(&[NAME]).filter(|(_, value)| is_something(value)) else {
            return (Vec::new(), false);
        };
        let (counts, is_text): (Vec<(&str, Option<u64>)>, bool) = match value {
            Value::Object(counts) => {
                (counts.iter().map(|(name, value)| (name.as_str(), count(value))).collect(), false)
            }
            Value::String(words) => {
                let words = words.split(',').map(str::trim).filter(|word| !word.is_empty());
                let pair = |word: &'v str| match word.rsplit_once(':') {
                    Some((name, count)) => (name.trim(), count.trim().parse().ok()),
                    None => (word, None),
                };
                (words.map(pair).collect(), true)
            }
            _ => {
                self.unreadable.push(NAME.to_owned());
                (Vec::new(), false)
            }
        };
        let mut left = MOST_CALLS;
        let mut out = Vec::new();
        for (name, count) in counts {
            match count.filter(|count| *count <= left) {
                Some(count) => {
                    left -= count;
                    out.push((name, count));
                }
                None => self.unreadable.push(format!("{NAME}.{name}")),
            }
        }
        (out, is_text)
    }
}

/// Whether a value is more than nothing: not null, `false`, 0 or empty.
fn is_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(yes) => *yes,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

/// A number; true and false are 1 and 0.
fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(yes) => Some(f64::from(u8::from(*yes))),
        other => other.as_f64().filter(|number| number.is_finite()),
    }
}

/// A number that counts something.
fn count(value: &Value) -> Option<u64> {
    if let Some(whole) = value.as_u64() {
        return Some(whole);
    }
    let number = number(value).filter(|number| number.fract() == 0.0 && (0.0..=MOST).contains(number))?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole, and in range")]
    Some(number as u64)
}

/// Yes or no; 1 and 0 are those too.
fn verdict(value: &Value) -> Option<bool> {
    count(value).filter(|number| *number <= 1).map(|number| number == 1)
}

/// An agent's row, by its own names and by those of numeric excerpts.
struct Row<'v> {
    answer: Option<&'v str>,
    usage: Usage,
    cost_usd: Option<f64>,
    turns: Option<u64>,
    duration_ms: Option<f64>,
    calls: Vec<(&'v str, u64)>,
    /// The calls are an excerpt's words.
    short: bool,
    error: Option<String>,
    claims: Claims,
}

impl<'v> Row<'v> {
    fn of(row: &'v Map<String, Value>) -> Option<Self> {
        let mut fields = Fields::of(row);
        fields.get(&ASKED).filter(|(_, id)| id.is_string())?;
        let (calls, short) = fields.calls();
        let mut out = Self {
            answer: fields.take(&["answer"], Value::as_str),
            usage: Usage {
                input: fields.take(&["input_tokens"], count),
                output: fields.take(&["output_tokens"], count),
                ..Usage::default()
            },
            cost_usd: fields.take(&["cost_usd"], number),
            turns: fields.take(&["num_turns", "turns"], count),
            duration_ms: fields.take(&["duration_ms"], number),
            calls,
            short,
            error: fields.error(),
            claims: Claims {
                excerpt: !row.contains_key("answer"),
                mcp_calls: fields.take(&["mcp_calls"], count),
                file_hit: fields.take(&["file_hit"], verdict),
                symbol_hit: fields.take(&["symbol_hit"], verdict),
                ..Claims::default()
            },
        };
        out.claims.unreadable = fields.unreadable;
        Some(out)
    }
}

/// Reads an agent's row.
pub(super) fn read(text: &str, hints: &Hints) -> Result<Transcript, ReadError> {
    let row: Map<String, Value> = serde_json::from_str(text).map_err(|_| not_of(text))?;
    let row = Row::of(&row).ok_or_else(|| not_of(text))?;
    if row.claims.lacks("answer") {
        return Err(ReadError::Field { dialect: Dialect::RagBench, field: "answer" });
    }
    let mut draft = Draft::new(Dialect::RagBench, hints);
    for (name, count) in &row.calls {
        for _ in 0..*count {
            call(&mut draft, name, row.short, hints);
        }
    }
    if let Some(answer) = row.answer {
        draft.text(Who::default(), answer);
    }
    let failed = row.error.is_some();
    if let Some(text) = row.error {
        draft.fault(Fault::AgentError { text });
    }
    draft.end_turn(TurnEnd {
        subtype: None,
        error: failed,
        text: row.answer.map(str::to_owned),
        usage: Some(row.usage).filter(|u| u.input.is_some() || u.output.is_some()),
        usage_main: None,
        cost_usd: row.cost_usd,
        duration_ms: row.duration_ms,
        calls: row.turns,
    });
    Ok(draft.finish(Losses::default(), false))
}

/// Excerpts shorten names of a server's tools; those of the agent begin with a capital letter.
fn call(draft: &mut Draft<'_>, name: &str, short: bool, hints: &Hints) {
    let short = short && !name.contains("__") && name.starts_with(|c: char| c.is_ascii_lowercase());
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
struct Found<'v> {
    id: &'v str,
    /// None: they can't be read.
    files: Option<Vec<&'v str>>,
    symbols: Vec<&'v str>,
    latency_ms: Option<f64>,
    calls: Option<u64>,
    error: Option<String>,
    claims: Claims,
}

impl<'v> Found<'v> {
    fn of(row: &'v Map<String, Value>) -> Option<Self> {
        if ASKED.iter().any(|name| row.contains_key(*name)) {
            return None;
        }
        let id = row.get("id")?.as_str()?;
        let mut fields = Fields::of(row);
        let error = fields.error();
        let files = fields.list("returned_files").or_else(|| {
            // A failed call has nothing to return.
            let absent = !fields.unreadable.iter().any(|name| name == "returned_files");
            (absent && error.is_some()).then(Vec::new)
        });
        let mut out = Self {
            id,
            files,
            symbols: fields.list("returned_symbols").unwrap_or_default(),
            latency_ms: fields.take(&["latency_ms"], number),
            calls: fields.take(&["tool_calls"], count),
            error,
            claims: Claims {
                repo: fields.take(&["repo"], Value::as_str).map(str::to_owned),
                file_hit: fields.take(&["found_file"], verdict),
                symbol_hit: fields.take(&["found_symbol"], verdict),
                expected_files: fields.texts("expected_files"),
                expected_symbols: fields.texts("expected_symbols"),
                ..Claims::default()
            },
        };
        out.claims.unreadable = fields.unreadable;
        Some(out)
    }
}

/// What a server returned for a question, where a row is about that; none for an agent's.
///
/// Of the list only the beginning is written down, and which result a symbol was of is not:
/// symbols are given to results in their order, and those that are left to results without a file.
/// The time is as it was written down, also that of a call that failed.
#[must_use]
pub fn results(stream: &[u8]) -> Option<(AnswerRow, CallTiming)> {
    let row: Map<String, Value> = serde_json::from_slice(stream).ok()?;
    let row = Found::of(&row)?;
    let latency_ms = row.latency_ms.filter(|ms| *ms > 0.0);
    let call = CallTiming { task: row.id.to_owned(), latency_ms };
    let Some(files) = row.files else {
        let answer = AnswerRow {
            task: row.id.to_owned(),
            state: CellState::Error,
            codes: vec![code::UNREADABLE.to_owned()],
            fault: Some(Whose::Harness),
            error: Some("`returned_files` is no list".to_owned()),
            ..AnswerRow::default()
        };
        return Some((answer, call));
    };
    let symbols: Vec<&str> = row.symbols.iter().copied().filter(|symbol| !symbol.is_empty()).collect();
    let results = (0..files.len().max(symbols.len())).map(|at| Hit {
        file: files.get(at).filter(|file| !file.is_empty()).map(|file| (*file).to_owned()),
        symbol: symbols.get(at).map(|symbol| (*symbol).to_owned()),
        line: None,
        score: None,
    });
    let codes = row.error.as_deref().map(|error| match error {
        TIMEOUT => code::CALL_TIMEOUT,
        SERVER_GONE => code::SERVER_DIED,
        _ => code::CALL_ERROR,
    });
    let answer = AnswerRow {
        task: row.id.to_owned(),
        state: if row.error.is_some() { CellState::Error } else { CellState::Valid },
        codes: codes.map(str::to_owned).into_iter().collect(),
        fault: row.error.as_ref().map(|_| Whose::Treatment),
        results: results.collect(),
        calls: row.calls.map_or(1, |calls| u32::try_from(calls).unwrap_or(u32::MAX)),
        error: row.error,
    };
    Some((answer, call))
}

/// What a row says beside its answer or list; none for what is no row.
#[must_use]
pub fn claims(stream: &[u8]) -> Option<Claims> {
    let row: Map<String, Value> = serde_json::from_slice(stream).ok()?;
    let agent = Row::of(&row).map(|row| row.claims);
    agent.or_else(|| Found::of(&row).map(|row| row.claims))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn agent(row: &Value) -> (Transcript, Claims) {
        let text = row.to_string();
        let hints = Hints { servers: vec!["s".to_owned()], ..Hints::default() };
        (read(&text, &hints).unwrap(), claims(text.as_bytes()).unwrap())
    }

    #[test]
    fn fields_are_read_one_by_one() {
        let (transcript, claims) = agent(&json!({
            "query_id": "q", "answer": "x", "input_tokens": 4.0, "output_tokens": -1, "num_turns": true, "turns": 9,
            "cost_usd": "much", "duration_ms": 12, "error": false, "mcp_calls": 2.0, "file_hit": 1, "symbol_hit": "yes",
            "tool_calls": { "Grep": 2.0, "Read": "many", "mcp__s__find": 1, "Glob": 1.5 },
        }));
        assert_eq!(transcript.usage.unwrap().input, Some(4));
        assert_eq!(transcript.usage.unwrap().output, None);
        assert_eq!((transcript.turns[0].calls, transcript.turns[0].error), (Some(1), false));
        assert_eq!((transcript.cost_usd, transcript.duration_ms), (None, Some(12.0)));
        assert_eq!(transcript.calls().count(), 3, "one bad count leaves the others");
        assert_eq!((claims.mcp_calls, claims.file_hit, claims.symbol_hit), (Some(2), Some(true), None));
        assert!(!claims.excerpt && claims.lacks("tool_calls") && !claims.lacks("input_tokens"));
        assert_eq!(
            claims.unreadable,
            ["tool_calls.Read", "tool_calls.Glob", "output_tokens", "cost_usd", "symbol_hit"]
        );
        let (transcript, _) = agent(&json!({ "question": "q", "error": { "code": 1 } }));
        assert_eq!(transcript.faults, [Fault::AgentError { text: "{\"code\":1}".to_owned() }]);
        let error = read(&json!({ "query_id": "q", "answer": [1] }).to_string(), &Hints::default());
        assert!(error.unwrap_err().to_string().contains("`answer`"));
    }

    #[test]
    fn short_names_are_the_servers_in_excerpts_only() {
        let served = |row: Value| -> Vec<bool> {
            agent(&row).0.calls().map(|(_, call)| call.server.as_deref() == Some("s")).collect()
        };
        assert_eq!(served(json!({ "question": "q", "tool_calls": "Grep:1, search:2" })), [false, true, true]);
        assert_eq!(
            served(json!({ "query_id": "q", "tool_calls": { "grep": 1, "read_file": 1 } })),
            [false; 2]
        );
    }

    #[test]
    fn lists_keep_their_symbols_and_times() {
        let list = |row: Value| results(row.to_string().as_bytes()).unwrap();
        let (row, call) =
            list(json!({ "id": "a/b 1", "repo": "r", "returned_files": ["/x/repos/r/a.py", null],
            "returned_symbols": ["", "f", null, "g", "h"], "latency_ms": 3, "tool_calls": 1.0 }));
        let pairs: Vec<_> =
            row.results.iter().map(|hit| (hit.file.as_deref(), hit.symbol.as_deref())).collect();
        assert_eq!(pairs, [(Some("/x/repos/r/a.py"), Some("f")), (None, Some("g")), (None, Some("h"))]);
        assert_eq!((row.calls, call.latency_ms), (1, Some(3.0)));
        let (row, call) = list(json!({ "id": "q", "error": "timeout", "latency_ms": 120_000 }));
        assert_eq!(
            (row.state, row.codes.as_slice()),
            (CellState::Error, &[code::CALL_TIMEOUT.to_owned()][..])
        );
        assert_eq!(call.latency_ms, Some(120_000.0));
        let (row, _) = list(json!({ "id": "q", "returned_files": "a.py" }));
        assert_eq!((row.state, row.fault), (CellState::Error, Some(Whose::Harness)));
        assert!(results(br#"{"query_id":"q","id":"x","returned_files":[]}"#).is_none());
    }
}
