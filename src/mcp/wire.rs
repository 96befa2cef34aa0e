//! The tee: every frame in both directions, with its time, into a log.
//!
//! The log is JSON Lines: `{"at_ms", "dir": "c2s"|"s2c", "frame": <JSON>}`, or
//! `"text"` (bounded) for what is no JSON, or `"dir": "note"` with a `"call"`
//! and an `"outcome"` when a request ended without a reply. Replies are kept
//! whole, so that results can be read again without asking the server again
//! ([`recorded`]).

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tokio::sync::{oneshot, watch};

use super::counters::Counters;
use crate::clock::Stopwatch;
use crate::fsio::{self, FsError};

/// Most bytes of the whole log; what comes later is counted, not kept.
const LOG_LIMIT: u64 = 1 << 30;
/// Most bad lines and notifications that are kept each.
const KEPT_LINES: u64 = 5_000;
/// Most characters of a bad line that are kept.
const KEPT_TEXT: usize = 2_000;

/// The tee of one connection; clones share it.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    clock: Stopwatch,
    state: Arc<Mutex<State>>,
    closed: Arc<watch::Sender<bool>>,
}

#[derive(Debug)]
struct State {
    log: BufWriter<File>,
    logged: u64,
    counters: Counters,
    requests: HashMap<String, Request>,
    last_sent: f64,
}

#[derive(Debug, Default)]
struct Request {
    sent_ms: f64,
    phase: Phase,
    tell: Option<oneshot::Sender<Reply>>,
    hear: Option<oneshot::Receiver<Reply>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Somebody waits, but the request was not yet seen going out.
    #[default]
    Announced,
    Sent,
    Answered,
    Abandoned,
}

/// What came back for a request.
#[derive(Debug)]
pub(super) enum Reply {
    /// The whole frame.
    Frame { frame: Value, latency_ms: f64 },
    /// It was longer than the limit.
    TooLarge { bytes: u64, latency_ms: f64 },
}

/// What is to be done with a line of the server.
#[derive(Debug, PartialEq)]
pub(super) enum Verdict {
    /// It is for the protocol layer.
    Forward,
    /// It is a request of the server, and this is our answer.
    Answer(String),
    /// It is nothing.
    Drop,
}

impl Wire {
    /// Starts the clock and the log.
    pub(super) fn open(path: &Path) -> Result<Self, FsError> {
        let state = State {
            log: BufWriter::with_capacity(64 * 1024, fsio::append(path)?),
            logged: 0,
            counters: Counters::default(),
            requests: HashMap::new(),
            last_sent: 0.0,
        };
        let (closed, _) = watch::channel(false);
        Ok(Self { clock: Stopwatch::start(), state: Arc::new(Mutex::new(state)), closed: Arc::new(closed) })
    }

    /// Milliseconds since the connection was opened.
    pub(super) fn now(&self) -> f64 {
        self.clock.ms()
    }

    pub(super) fn counters(&self) -> Counters {
        self.lock().counters.clone()
    }

    /// Says that nothing will come any more.
    pub(super) fn close(&self) {
        self.closed.send_replace(true);
    }

    pub(super) fn closing(&self) -> watch::Receiver<bool> {
        self.closed.subscribe()
    }

    pub(super) fn flush(&self) {
        // A full disk shows where the log is read.
        let _ = self.lock().log.flush();
    }

    /// A frame of ours is about to be written.
    pub(super) fn sending(&self, frame: &Value, bytes: usize) {
        let now = self.now();
        let mut state = self.lock();
        state.counters.frames_out += 1;
        state.counters.bytes_out += bytes as u64;
        state.last_sent = now;
        if let (Some(id), true) = (id_of(frame), frame.get("method").is_some()) {
            let request = state.requests.entry(id).or_default();
            request.sent_ms = now;
            request.phase = Phase::Sent;
        }
        state.write(now, "c2s", "frame", &frame.to_string());
    }

    /// The last byte of a frame of ours was written.
    pub(super) fn sent(&self, frame: &Value) {
        let now = self.now();
        let mut state = self.lock();
        if let Some(request) = id_of(frame).and_then(|id| state.requests.get_mut(&id))
            && request.phase == Phase::Sent
        {
            request.sent_ms = now;
        }
    }

    /// What comes back for the request `id`; can be asked before it is sent.
    pub(super) fn hear(&self, id: &str) -> oneshot::Receiver<Reply> {
        let mut state = self.lock();
        let request = state.requests.entry(id.to_owned()).or_default();
        if let Some(hear) = request.hear.take() {
            return hear;
        }
        let (tell, hear) = oneshot::channel();
        request.tell = Some(tell);
        hear
    }

    /// Nobody waits for the request any more; why goes to the log.
    pub(super) fn abandon(&self, id: &str, outcome: &str) {
        let now = self.now();
        let mut state = self.lock();
        if let Some(request) = state.requests.get_mut(id)
            && request.phase != Phase::Answered
        {
            request.phase = Phase::Abandoned;
        }
        state.note(now, id, outcome);
    }

    /// A line of the server, complete at `at`.
    pub(super) fn line(&self, line: &[u8], at: f64) -> Verdict {
        let mut state = self.lock();
        state.counters.bytes_in += line.len() as u64 + 1;
        let trimmed = line.trim_ascii();
        if trimmed.is_empty() {
            return Verdict::Drop;
        }
        let raw = String::from_utf8_lossy(trimmed);
        if let Ok(frame) = serde_json::from_slice::<Value>(trimmed) {
            return state.frame(frame, Some(&raw), at);
        }
        state.counters.not_json += 1;
        state.bad_text(at, &raw);
        Verdict::Drop
    }

    /// A frame that came by another way than lines.
    pub(super) fn frame(&self, frame: Value, at: f64) -> Verdict {
        self.lock().frame(frame, None, at)
    }

    /// Output that ended in the middle of a line.
    pub(super) fn cut_line(&self, line: &[u8], at: f64) {
        let mut state = self.lock();
        state.counters.bytes_in += line.len() as u64;
        state.counters.not_json += 1;
        state.bad_text(at, &String::from_utf8_lossy(line));
    }

    /// A line over the limit ended (or the waiting for its end did): `head`
    /// and `tail` are what was kept of it. It settles the request that it
    /// names, or else the only one that is open.
    pub(super) fn over_long(&self, head: &[u8], tail: &[u8], bytes: u64, at: f64) {
        let mut state = self.lock();
        state.counters.bytes_in += bytes;
        state.counters.over_long += 1;
        state.bad_text(at, &String::from_utf8_lossy(&head[..head.len().min(KEPT_TEXT)]));
        let open: Vec<String> =
            state.requests.iter().filter(|(_, r)| r.phase == Phase::Sent).map(|(id, _)| id.clone()).collect();
        let named = [head, tail].into_iter().find_map(|part| id_in_text(part, &open));
        let Some(id) = named.or_else(|| (open.len() == 1).then(|| open[0].clone())) else { return };
        state.note(at, &id, "too-large");
        state.settle(&id, |latency_ms| Reply::TooLarge { bytes, latency_ms }, at);
    }

    pub(super) fn stderr_bytes(&self, bytes: u64) {
        self.lock().counters.stderr_bytes += bytes;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn frame(&mut self, frame: Value, raw: Option<&str>, at: f64) -> Verdict {
        let text = |frame: &Value| raw.map_or_else(|| frame.to_string(), str::to_owned);
        let versioned = frame.get("jsonrpc").and_then(Value::as_str) == Some("2.0");
        let method = frame.get("method").and_then(Value::as_str).map(str::to_owned);
        let reply = frame.get("result").is_some() || frame.get("error").is_some();
        match (versioned, method, id_of(&frame), reply) {
            (true, Some(method), Some(_), _) => {
                self.counters.frames_in += 1;
                self.write(at, "s2c", "frame", &text(&frame));
                let id = frame.get("id").cloned().unwrap_or_default();
                if method == "ping" {
                    self.counters.pings += 1;
                    Verdict::Answer(json!({"jsonrpc": "2.0", "id": id, "result": {}}).to_string())
                } else {
                    self.counters.refused += 1;
                    let error = json!({"code": -32601, "message": format!("method not found: {method}")});
                    Verdict::Answer(json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string())
                }
            }
            (true, Some(_), None, false) => {
                self.counters.frames_in += 1;
                self.counters.notifications += 1;
                if self.counters.notifications <= KEPT_LINES {
                    self.write(at, "s2c", "frame", &text(&frame));
                }
                Verdict::Forward
            }
            (true, None, Some(id), true) => {
                self.write(at, "s2c", "frame", &text(&frame));
                match self.requests.get(&id).map(|r| r.phase) {
                    Some(Phase::Sent) => {
                        self.counters.frames_in += 1;
                        self.settle(&id, |latency_ms| Reply::Frame { frame, latency_ms }, at);
                        Verdict::Forward
                    }
                    Some(Phase::Abandoned) => {
                        self.counters.late_replies += 1;
                        Verdict::Drop
                    }
                    _ => {
                        self.counters.unknown_ids += 1;
                        Verdict::Drop
                    }
                }
            }
            // An error that names no request; the protocol layer takes it
            // for the answer to its opening request.
            (true, None, None, true) if frame.get("error").is_some() => {
                self.counters.wrong_shape += 1;
                self.write(at, "s2c", "frame", &text(&frame));
                Verdict::Forward
            }
            _ => {
                self.counters.wrong_shape += 1;
                self.bad_text(at, &text(&frame));
                Verdict::Drop
            }
        }
    }

    fn settle(&mut self, id: &str, reply: impl FnOnce(f64) -> Reply, at: f64) {
        let Some(request) = self.requests.get_mut(id) else { return };
        request.phase = Phase::Answered;
        // In microseconds: the clock knows no better.
        let reply = reply(((at - request.sent_ms).max(0.0) * 1e3).round() / 1e3);
        let tell = request.tell.take().unwrap_or_else(|| {
            let (tell, hear) = oneshot::channel();
            request.hear = Some(hear);
            tell
        });
        // Nobody may be waiting any more.
        let _ = tell.send(reply);
    }

    fn bad_text(&mut self, at: f64, text: &str) {
        let bad = self.counters.not_json + self.counters.wrong_shape + self.counters.over_long;
        if bad <= KEPT_LINES {
            let short: String = text.chars().take(KEPT_TEXT).collect();
            self.write(at, "s2c", "text", &Value::String(short).to_string());
        }
    }

    fn note(&mut self, at: f64, id: &str, outcome: &str) {
        let line = format!(
            "{{\"at_ms\":{at},\"dir\":\"note\",\"call\":{id},\"outcome\":{}}}\n",
            Value::from(outcome)
        );
        self.append(&line);
    }

    fn write(&mut self, at: f64, dir: &str, key: &str, json: &str) {
        let line = format!("{{\"at_ms\":{at},\"dir\":\"{dir}\",\"{key}\":{json}}}\n");
        self.append(&line);
    }

    fn append(&mut self, line: &str) {
        self.logged += line.len() as u64;
        if self.logged <= LOG_LIMIT {
            // A full disk shows where the log is read.
            let _ = self.log.write_all(line.as_bytes());
        }
    }
}

/// The id of a frame as JSON text.
fn id_of(frame: &Value) -> Option<String> {
    frame.get("id").filter(|id| id.is_number() || id.is_string()).map(Value::to_string)
}

/// The last of the open ids that `"id":` names in a piece of JSON text.
fn id_in_text(part: &[u8], open: &[String]) -> Option<String> {
    let text = String::from_utf8_lossy(part);
    text.rmatch_indices("\"id\"").find_map(|(at, key)| {
        let rest = text[at + key.len()..].trim_start().strip_prefix(':')?.trim_start();
        open.iter()
            .find(|id| {
                rest.strip_prefix(id.as_str())
                    .is_some_and(|after| !after.starts_with(|c: char| c.is_ascii_digit()))
            })
            .cloned()
    })
}

/// A tool call as the log holds it.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedCall {
    /// Name of the tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// Milliseconds on the log's clock when it was sent.
    pub sent_ms: f64,
    /// Milliseconds on the log's clock when it ended.
    pub ended_ms: Option<f64>,
    /// What came of it.
    pub outcome: RecordedOutcome,
}

/// What came of a recorded call.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordedOutcome {
    /// The `result` of the reply.
    Reply(Value),
    /// The `error` of the reply.
    Error(Value),
    /// It ended without a reply: `timeout`, `died`, `too-large`, or other words.
    Without(String),
    /// The log ends before it does.
    Open,
}

/// A field's value, taken out; null where there is none, also of what is no object.
fn taken(value: &mut Value, name: &str) -> Value {
    value.get_mut(name).map(Value::take).unwrap_or_default()
}

/// The tool calls in a wire log, in the order of sending. Lines that are no
/// entries of such a log are skipped.
#[must_use]
pub fn recorded(log: &[u8]) -> Vec<RecordedCall> {
    let mut calls: Vec<RecordedCall> = Vec::new();
    let mut open: HashMap<String, usize> = HashMap::new();
    for line in log.split(|b| *b == b'\n') {
        let Ok(mut entry) = serde_json::from_slice::<Value>(line) else { continue };
        let at = entry["at_ms"].as_f64().unwrap_or(0.0);
        let dir = entry["dir"].as_str().unwrap_or_default().to_owned();
        match dir.as_str() {
            "c2s" if entry["frame"]["method"] == "tools/call" => {
                let frame = &mut entry["frame"];
                if let Some(id) = id_of(frame) {
                    open.insert(id, calls.len());
                }
                calls.push(RecordedCall {
                    tool: frame["params"]["name"].as_str().unwrap_or_default().to_owned(),
                    arguments: frame
                        .get_mut("params")
                        .map(|params| taken(params, "arguments"))
                        .unwrap_or_default(),
                    sent_ms: at,
                    ended_ms: None,
                    outcome: RecordedOutcome::Open,
                });
            }
            // A request of the server may carry the number of one of ours.
            "s2c" if entry["frame"].get("method").is_none() => {
                let frame = &mut entry["frame"];
                let Some(call) = id_of(frame).and_then(|id| open.remove(&id)) else { continue };
                let outcome = if frame.get("error").is_some() {
                    RecordedOutcome::Error(taken(frame, "error"))
                } else {
                    RecordedOutcome::Reply(taken(frame, "result"))
                };
                calls[call].ended_ms = Some(at);
                calls[call].outcome = outcome;
            }
            "note" => {
                let id = entry["call"].to_string();
                let Some(call) = open.remove(&id) else { continue };
                calls[call].ended_ms = Some(at);
                calls[call].outcome =
                    RecordedOutcome::Without(entry["outcome"].as_str().unwrap_or_default().to_owned());
            }
            _ => {}
        }
    }
    calls
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire() -> (tempfile::TempDir, Wire) {
        let dir = tempfile::tempdir().unwrap();
        let wire = Wire::open(&dir.path().join("wire.jsonl")).unwrap();
        (dir, wire)
    }

    fn call(id: u64) -> Value {
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call",
               "params": {"name": "search", "arguments": {"query": "q"}}})
    }

    #[test]
    fn bad_frames_are_counted_by_kind_and_not_passed_on() {
        let (_dir, wire) = wire();
        wire.sending(&call(1), 10);
        for line in [
            "hello",
            "{\"jsonrpc\":\"2.0\",\"id\":",
            "[1]",
            "7",
            r#"{"id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":9,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":"1","result":{}}"#,
            "  ",
        ] {
            assert_eq!(wire.line(line.as_bytes(), 5.0), Verdict::Drop, "{line}");
        }
        let ping = wire.line(br#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#, 5.0);
        assert_eq!(ping, Verdict::Answer(r#"{"jsonrpc":"2.0","id":"a","result":{}}"#.to_owned()));
        let roots = wire.line(br#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#, 5.0);
        assert!(matches!(roots, Verdict::Answer(text) if text.contains("-32601")));
        let note = wire.line(br#"{"jsonrpc":"2.0","method":"notifications/message"}"#, 5.0);
        assert_eq!(note, Verdict::Forward);
        let c = wire.counters();
        assert_eq!((c.not_json, c.wrong_shape, c.unknown_ids, c.pings, c.refused), (2, 3, 2, 1, 1));
        assert_eq!((c.notifications, c.bad_frames()), (1, 7));
    }

    #[tokio::test]
    async fn replies_find_their_request_whoever_is_first() {
        let (dir, wire) = wire();
        let early = wire.hear("1");
        wire.sending(&call(1), 10);
        wire.sending(&call(2), 10);
        let at = wire.now() + 10.0;
        assert_eq!(wire.line(br#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#, at), Verdict::Forward);
        assert_eq!(wire.line(br#"{"result":3,"jsonrpc":"2.0","id":2}"#, at), Verdict::Forward);
        let Reply::Frame { frame, latency_ms } = early.await.unwrap() else { panic!() };
        assert!(frame["result"]["content"].is_array() && (9.0..20.0).contains(&latency_ms));
        assert!(matches!(wire.hear("2").await.unwrap(), Reply::Frame { .. }));
        // A second reply, one too late, one too long.
        assert_eq!(wire.line(br#"{"jsonrpc":"2.0","id":1,"result":{}}"#, at), Verdict::Drop);
        wire.sending(&call(3), 10);
        wire.abandon("3", "timeout");
        assert_eq!(wire.line(br#"{"jsonrpc":"2.0","id":3,"result":{}}"#, at), Verdict::Drop);
        wire.sending(&call(4), 10);
        wire.sending(&call(44), 10);
        wire.over_long(br#"{"result":{"content":[{"id": 7"#, br#"]},"id": 44}"#, 99, at);
        assert!(matches!(wire.hear("44").await.unwrap(), Reply::TooLarge { bytes: 99, .. }));
        let c = wire.counters();
        assert_eq!((c.unknown_ids, c.late_replies, c.over_long), (1, 1, 1));
        wire.flush();
        let calls = recorded(&fsio::read(&dir.path().join("wire.jsonl")).unwrap());
        let outcomes: Vec<_> = calls.iter().map(|c| c.outcome.clone()).collect();
        assert_eq!(
            outcomes,
            [
                RecordedOutcome::Reply(json!({"content": []})),
                RecordedOutcome::Reply(json!(3)),
                RecordedOutcome::Without("timeout".to_owned()),
                RecordedOutcome::Open,
                RecordedOutcome::Without("too-large".to_owned())
            ]
        );
        assert_eq!((calls[0].tool.as_str(), &calls[0].arguments), ("search", &json!({"query": "q"})));
    }
}
