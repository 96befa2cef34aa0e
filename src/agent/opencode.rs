//! OpenCode: `run --format json`, `export`, and stored sessions (the JSON files of a session, its
//! messages and their parts, one after the other in any order).
//!
//! A part is written again while it grows: the last version counts, in the place of the first.
//! There is no final record: a turn ends with a step whose reason is not to call tools. Input
//! leaves out what was read from and written to a cache.

use std::collections::{BTreeMap, HashMap};

use serde::Deserialize;
use serde_json::Value;

use super::draft::{Draft, Who};
use super::loose::{Flag, List, Num, Opt, Text};
use super::tools::Prefix;
use super::{Dialect, Hints, ReadError, source};
use crate::artifact::transcript::{Fault, LimitKind, Transcript, TurnEnd, Usage, What};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    timestamp: Num,
    #[serde(borrow, rename = "sessionID")]
    session: Text<'a>,
    #[serde(borrow)]
    part: Opt<Part<'a>>,
    #[serde(borrow)]
    error: Opt<Failure<'a>>,
    // Of an export.
    #[serde(borrow)]
    info: Opt<Info<'a>>,
    #[serde(borrow)]
    messages: List<Opt<Message<'a>>>,
    // Of a stored file: a session, a message or a part.
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow, rename = "messageID")]
    message: Text<'a>,
    #[serde(borrow)]
    role: Text<'a>,
    #[serde(borrow)]
    directory: Text<'a>,
    #[serde(borrow)]
    version: Text<'a>,
    #[serde(borrow, rename = "modelID")]
    model: Text<'a>,
    #[serde(borrow, rename = "providerID")]
    provider: Text<'a>,
    #[serde(borrow)]
    finish: Text<'a>,
    #[serde(borrow)]
    path: Opt<Place<'a>>,
    #[serde(borrow)]
    text: Text<'a>,
    synthetic: Flag,
    #[serde(borrow)]
    tool: Text<'a>,
    #[serde(borrow, rename = "callID")]
    call: Text<'a>,
    #[serde(borrow)]
    state: Opt<State<'a>>,
    #[serde(borrow)]
    reason: Text<'a>,
    tokens: Opt<Tokens>,
    cost: Num,
    time: Opt<Times>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Message<'a> {
    #[serde(borrow)]
    info: Opt<Info<'a>>,
    #[serde(borrow)]
    parts: List<Opt<Part<'a>>>,
}

/// A session's or a message's own data.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Info<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    role: Text<'a>,
    #[serde(borrow)]
    directory: Text<'a>,
    #[serde(borrow)]
    version: Text<'a>,
    #[serde(borrow, rename = "modelID")]
    model: Text<'a>,
    #[serde(borrow, rename = "providerID")]
    provider: Text<'a>,
    #[serde(borrow)]
    finish: Text<'a>,
    #[serde(borrow)]
    error: Opt<Failure<'a>>,
    #[serde(borrow)]
    path: Opt<Place<'a>>,
    tokens: Opt<Tokens>,
    cost: Num,
    time: Opt<Times>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Place<'a> {
    #[serde(borrow)]
    cwd: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Part<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow, rename = "messageID")]
    message: Text<'a>,
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    text: Text<'a>,
    synthetic: Flag,
    #[serde(borrow)]
    tool: Text<'a>,
    #[serde(borrow, rename = "callID")]
    call: Text<'a>,
    #[serde(borrow)]
    state: Opt<State<'a>>,
    #[serde(borrow)]
    reason: Text<'a>,
    tokens: Opt<Tokens>,
    cost: Num,
    #[serde(borrow)]
    error: Opt<Failure<'a>>,
    time: Opt<Times>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Times {
    created: Num,
    start: Num,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct State<'a> {
    #[serde(borrow)]
    status: Text<'a>,
    input: Value,
    #[serde(borrow)]
    output: Text<'a>,
    #[serde(borrow)]
    error: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Failure<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    data: Opt<Details<'a>>,
    #[serde(borrow)]
    message: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details<'a> {
    #[serde(borrow)]
    message: Text<'a>,
    #[serde(rename = "statusCode")]
    status: Num,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Tokens {
    total: Num,
    input: Num,
    output: Num,
    reasoning: Num,
    cache: Opt<Cache>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Cache {
    read: Num,
    write: Num,
}

impl Tokens {
    /// Thinking counts as output. Whether it is in `output` already, the total tells where there
    /// is one; without it the two are apart, as the agent's own prices take them.
    fn usage(self) -> Usage {
        let cache = self.cache.0.unwrap_or_default();
        let mut usage = Usage {
            input: self.input.count(),
            output: self.output.count(),
            cache_read: cache.read.count(),
            cache_write: cache.write.count(),
        };
        let inside = self.total.count().is_some() && self.total.count() == usage.total();
        if !inside {
            usage.output = usage.output.map(|n| n.saturating_add(self.reasoning.count().unwrap_or(0)));
        }
        usage
    }
}

/// What a stream holds, in order of first appearance.
enum Slot<'a> {
    Part(Box<Part<'a>>, Option<u64>),
    Failed(Failure<'a>, Option<u64>),
}

#[derive(Default)]
struct Held<'a> {
    slots: Vec<Slot<'a>>,
    by_id: HashMap<String, usize>,
    /// Stored messages and their parts, by id: ids grow with time.
    messages: BTreeMap<String, Info<'a>>,
    parts: BTreeMap<String, BTreeMap<String, Part<'a>>>,
}

struct Reader<'h> {
    draft: Draft<'h>,
    steps: u64,
    cost: Option<f64>,
    turn_cost: Option<f64>,
}

pub(super) fn read(text: &str, hints: &Hints) -> Result<Transcript, ReadError> {
    let draft = Draft::new(Dialect::Opencode, hints);
    let mut reader = Reader { draft, steps: 0, cost: None, turn_cost: None };
    let mut held = Held::default();
    let mut any = false;
    let losses = source::each::<Line<'_>, ReadError>(text, |number, line, value| {
        if reader.line(value, &mut held) {
            any = true;
            Ok(())
        } else {
            super::foreign(Dialect::Opencode, number, line)
        }
    })?;
    super::some_of(any, Dialect::Opencode, text)?;
    for slot in held.slots {
        match slot {
            Slot::Part(part, at) => reader.part(*part, at, false),
            Slot::Failed(failure, at) => reader.failed(failure, at),
        }
    }
    for (id, info) in held.messages {
        let parts = held.parts.remove(&id).unwrap_or_default();
        reader.message(info, parts.into_values());
    }
    reader.draft.out.cost_usd = reader.cost;
    Ok(reader.draft.finish(losses, false))
}

impl Reader<'_> {
    /// Takes an event, a document or a stored file; whether it is one of this dialect.
    fn line<'a>(&mut self, line: Line<'a>, held: &mut Held<'a>) -> bool {
        if let Some(info) = line.info.0 {
            self.session(info.id.get(), info.directory.get(), info.version.get());
            for message in line.messages.0.into_iter().filter_map(|m| m.0) {
                if let Some(info) = message.info.0 {
                    self.message(info, message.parts.0.into_iter().filter_map(|p| p.0));
                }
            }
            return true;
        }
        let at = line.timestamp.count();
        if let Some(session) = line.session.some() {
            if self.draft.out.session.as_deref() != Some(session) {
                self.draft.out.session = Some(session.to_owned());
            }
            if let Some(part) = line.part.0 {
                held.put(part, at);
                return true;
            }
            if line.kind.is("error") {
                held.slots.push(Slot::Failed(line.error.0.unwrap_or_default(), at));
                return true;
            }
        }
        let Some(id) = line.id.get().map(str::to_owned) else { return line.kind.there && line.session.there };
        if id.starts_with("ses_") {
            self.session(Some(&id), line.directory.get(), line.version.get());
        } else if id.starts_with("msg_") && line.role.there {
            let (role, model, provider) = (line.role, line.model, line.provider);
            let (finish, error, path) = (line.finish, line.error, line.path);
            let (tokens, cost, time) = (line.tokens, line.cost, line.time);
            let stored =
                Info { role, model, provider, finish, error, path, tokens, cost, time, ..Info::default() };
            held.messages.insert(id, stored);
        } else if id.starts_with("prt_")
            && let Some(message) = line.message.get().map(str::to_owned)
        {
            let (kind, text, synthetic, tool) = (line.kind, line.text, line.synthetic, line.tool);
            let (call, state, reason, tokens) = (line.call, line.state, line.reason, line.tokens);
            let (cost, error, time) = (line.cost, line.error, line.time);
            let part = Part {
                id: line.id,
                message: line.message,
                kind,
                text,
                synthetic,
                tool,
                call,
                state,
                reason,
                tokens,
                cost,
                error,
                time,
            };
            held.parts.entry(message).or_default().insert(id, part);
        } else {
            return false;
        }
        true
    }

    fn session(&mut self, id: Option<&str>, directory: Option<&str>, version: Option<&str>) {
        let out = &mut self.draft.out;
        out.session = id.map(str::to_owned).or(out.session.take());
        out.cwd = directory.map(str::to_owned).or(out.cwd.take());
        out.agent = version.map(|v| format!("opencode {v}")).or(out.agent.take());
    }

    /// A stored message with its parts.
    fn message<'a>(&mut self, info: Info<'a>, parts: impl Iterator<Item = Part<'a>>) {
        let at = info.time.0.and_then(|t| t.created.count());
        let asked = info.role.is("user");
        if let Some(model) = info.model.some().filter(|_| !asked) {
            let provider = info.provider.some().map(|p| format!("{p}/")).unwrap_or_default();
            self.draft.answered(&format!("{provider}{model}"));
        }
        if self.draft.out.cwd.is_none() {
            self.draft.out.cwd = info.path.0.and_then(|p| p.cwd.owned());
        }
        let steps = self.steps;
        for part in parts {
            self.part(part, at, asked);
        }
        if asked {
            return;
        }
        // Versions without parts for steps keep their sums in the message.
        if self.steps == steps
            && let Some(tokens) = info.tokens.0
        {
            self.step(info.finish.get(), Some(tokens), info.cost);
        }
        if let Some(failure) = info.error.0 {
            self.failed(failure, at);
        }
    }

    fn part(&mut self, part: Part<'_>, at: Option<u64>, asked: bool) {
        let message = part.message.owned();
        let at_ms = part.time.0.and_then(|t| t.start.count()).filter(|_| at.is_none()).or(at);
        let who = Who { sub_agent: false, message: message.as_deref(), at_ms };
        match part.kind.get() {
            Some("text") if part.synthetic.0 => {}
            Some("text") if asked => {
                self.draft.say(who, What::Prompt(part.text.owned().unwrap_or_default()));
            }
            Some("text") => self.draft.text(who, part.text.get().unwrap_or_default()),
            Some("reasoning") => self.draft.thinking(who, part.text.get().unwrap_or_default()),
            Some("tool") => {
                let state = part.state.0.unwrap_or_default();
                let id = part.call.owned().or(part.id.owned());
                let name = part.tool.owned().unwrap_or_default();
                self.draft.call(who, id.clone(), name, Prefix::Bare, state.input);
                let failed = state.status.is("error");
                if failed || state.status.is("completed") {
                    let text = if failed { state.error.owned() } else { state.output.owned() };
                    self.draft.reply(who, id, text.unwrap_or_default(), failed);
                }
            }
            Some("step-finish") => self.step(part.reason.get(), part.tokens.0, part.cost),
            Some("retry") => {
                let status = part.error.0.and_then(|e| e.data.0).and_then(|d| d.status.status());
                self.draft.retry(status);
            }
            _ => {}
        }
    }

    /// A model call ended.
    fn step(&mut self, reason: Option<&str>, tokens: Option<Tokens>, cost: Num) {
        self.steps += 1;
        self.draft.spend(None, Some(&format!("step {}", self.steps)), tokens.map(Tokens::usage));
        if let Some(cost) = cost.0 {
            self.cost = Some(self.cost.unwrap_or(0.0) + cost);
            self.turn_cost = Some(self.turn_cost.unwrap_or(0.0) + cost);
        }
        match reason {
            None | Some("tool-calls" | "unknown" | "") => {}
            Some(reason) => {
                if reason == "length" {
                    self.draft.fault(Fault::Limit { which: LimitKind::Tokens, value: None });
                }
                self.end(reason.to_owned(), false);
            }
        }
    }

    fn failed(&mut self, failure: Failure<'_>, at_ms: Option<u64>) {
        let (text, status) = match failure.data.0 {
            Some(data) => (data.message.owned(), data.status.status()),
            None => (None, None),
        };
        let text = text.or(failure.message.owned());
        let name = failure.name.owned().unwrap_or_default();
        let words = text.unwrap_or_else(|| name.clone());
        self.draft.say(Who { at_ms, ..Who::default() }, What::Notice(words.clone()));
        if name == "MessageOutputLengthError" {
            self.draft.fault(Fault::Limit { which: LimitKind::Tokens, value: None });
        } else if name == "MessageAbortedError" || (name != "APIError" && status.is_none()) {
            self.draft.fault(Fault::AgentError { text: words });
        } else {
            self.draft.refused(status, None, words);
        }
        self.end("error".to_owned(), true);
    }

    fn end(&mut self, subtype: String, error: bool) {
        let usage = self.draft.messages(Some(self.draft.turn()), false);
        let cost_usd = self.turn_cost.take();
        self.draft.end_turn(TurnEnd { subtype: Some(subtype), error, usage, cost_usd, ..TurnEnd::default() });
    }
}

impl<'a> Held<'a> {
    fn put(&mut self, part: Part<'a>, at: Option<u64>) {
        let Some(id) = part.id.some().map(str::to_owned) else {
            self.slots.push(Slot::Part(Box::new(part), at));
            return;
        };
        if let Some(slot) = self.by_id.get(&id).and_then(|slot| self.slots.get_mut(*slot)) {
            // The time is when it began.
            let began = match slot {
                Slot::Part(_, began) | Slot::Failed(_, began) => *began,
            };
            *slot = Slot::Part(Box::new(part), began);
            return;
        }
        self.by_id.insert(id, self.slots.len());
        self.slots.push(Slot::Part(Box::new(part), at));
    }
}
