//! Codex: `exec --json`. Stored sessions are in [`rollout`].
//!
//! Tokens of `turn.completed` go on counting over the whole thread, also when it is resumed;
//! input includes what was read from and written to a cache.

#![expect(clippy::struct_field_names, reason = "fields are named as they are written")]

mod rollout;

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::{Value, json};

use super::draft::{Draft, Who, millis, words};
use super::loose::{Content, Num, Opt, Text};
use super::tools::Prefix;
use super::{Dialect, Hints, ReadError, source};
use crate::artifact::transcript::{Fault, Transcript, TurnEnd, Usage, What};
use rollout::{Payload, Rollout};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    thread_id: Text<'a>,
    #[serde(borrow)]
    item: Opt<Item<'a>>,
    usage: Opt<Tokens>,
    #[serde(borrow)]
    message: Text<'a>,
    #[serde(borrow)]
    error: Opt<Said<'a>>,
    #[serde(borrow)]
    timestamp: Text<'a>,
    #[serde(borrow, rename = "sessionID")]
    opencode_session: Text<'a>,
    #[serde(borrow)]
    payload: Opt<Payload<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Said<'a> {
    #[serde(borrow)]
    pub(super) message: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Item<'a> {
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    message: Text<'a>,
    #[serde(borrow)]
    status: Text<'a>,
    #[serde(borrow)]
    command: Text<'a>,
    #[serde(borrow)]
    aggregated_output: Text<'a>,
    #[serde(borrow)]
    server: Text<'a>,
    #[serde(borrow)]
    tool: Text<'a>,
    arguments: Value,
    #[serde(borrow)]
    result: Opt<Outcome<'a>>,
    #[serde(borrow)]
    error: Opt<Said<'a>>,
    changes: Value,
    #[serde(borrow)]
    query: Text<'a>,
    #[serde(borrow)]
    prompt: Text<'a>,
}

/// What a tool of a server gave.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Outcome<'a> {
    #[serde(borrow)]
    pub(super) content: Content<'a, Inner<'a>>,
    #[serde(alias = "structuredContent")]
    pub(super) structured_content: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Inner<'a> {
    #[serde(borrow)]
    pub(super) text: Text<'a>,
}

impl Outcome<'_> {
    /// As the model saw it: the structured content where there is one.
    pub(super) fn text(&self) -> String {
        if self.structured_content.is_null() {
            words(&self.content, |b| b.text.get().map(str::to_owned))
        } else {
            self.structured_content.to_string()
        }
    }
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    input_tokens: Num,
    cached_input_tokens: Num,
    cache_write_input_tokens: Num,
    output_tokens: Num,
}

impl Tokens {
    /// Kinds apart. A write to a cache is told by newer versions only.
    pub(super) fn usage(self) -> Usage {
        let read = self.cached_input_tokens.count();
        let write = self.cache_write_input_tokens.count();
        let cached = read.unwrap_or(0).saturating_add(write.unwrap_or(0));
        Usage {
            input: self.input_tokens.count().map(|all| all.saturating_sub(cached)),
            // Reasoning is in it.
            output: self.output_tokens.count(),
            cache_read: read,
            cache_write: write,
        }
    }
}

/// What a thread has counted; used by streams and stored sessions.
#[derive(Debug)]
pub(super) struct Meter(Option<Usage>);

impl Meter {
    pub(super) fn new(before: Option<Usage>) -> Self {
        Self(before)
    }

    /// What is new since last time. A count that went down began anew.
    pub(super) fn new_since(&mut self, now: Usage) -> Usage {
        let before = self.0.replace(now);
        let Some(before) = before else { return now };
        let new = now.minus(before);
        let went_down = now.input.zip(before.input).is_some_and(|(n, b)| n < b)
            || now.output.zip(before.output).is_some_and(|(n, b)| n < b);
        if went_down { now } else { new }
    }
}

struct Reader<'h> {
    draft: Draft<'h>,
    meter: Meter,
    /// Calls by the item's id; ids begin anew in each process.
    begun: HashSet<String>,
    /// Words of an error that the turn's end has not confirmed yet.
    failed: Option<String>,
    rollout: Rollout,
}

pub(super) fn read(text: &str, hints: &Hints) -> Result<Transcript, ReadError> {
    let mut reader = Reader {
        draft: Draft::new(Dialect::Codex, hints),
        meter: Meter::new(hints.before),
        begun: HashSet::new(),
        failed: None,
        rollout: Rollout::default(),
    };
    let mut any = false;
    let losses = source::each::<Line<'_>, ReadError>(text, |number, line, value| {
        if reader.line(value) {
            any = true;
            Ok(())
        } else {
            super::foreign(Dialect::Codex, number, line)
        }
    })?;
    super::some_of(any, Dialect::Codex, text)?;
    Ok(reader.finish(losses))
}

impl Reader<'_> {
    /// Takes an event; whether it is one of this dialect.
    fn line(&mut self, line: Line<'_>) -> bool {
        let at_ms = millis(line.timestamp.get());
        match line.kind.get() {
            Some("thread.started") => {
                self.begun.clear();
                self.draft.out.session = line.thread_id.owned().or(self.draft.out.session.take());
                true
            }
            Some("turn.started") => true,
            Some("item.started" | "item.updated") => {
                if let Some(item) = line.item.0 {
                    self.begin(&item, at_ms);
                }
                true
            }
            Some("item.completed") => {
                if let Some(item) = line.item.0 {
                    self.complete(item, at_ms);
                }
                true
            }
            Some("turn.completed") => {
                self.failed = None;
                let usage = line.usage.0.map(|t| self.meter.new_since(t.usage()));
                let subtype = Some("completed".to_owned());
                self.draft.end_turn(TurnEnd { subtype, usage, usage_main: usage, ..TurnEnd::default() });
                true
            }
            Some("turn.failed") => {
                let text = line.error.0.and_then(|e| e.message.owned()).or(self.failed.take());
                self.failed = None;
                self.refused(text.unwrap_or_default());
                let subtype = Some("failed".to_owned());
                self.draft.end_turn(TurnEnd { subtype, error: true, ..TurnEnd::default() });
                true
            }
            // OpenCode has one of the same name, with a session.
            Some("error") if !line.opencode_session.there && line.message.get().is_some() => {
                self.error(line.message.owned().unwrap_or_default(), at_ms);
                true
            }
            Some(kind) => {
                let kind = kind.to_owned();
                line.payload.0.is_some_and(|payload| {
                    let (draft, meter) = (&mut self.draft, &mut self.meter);
                    self.rollout.line(&kind, payload, at_ms, draft, meter)
                })
            }
            None => false,
        }
    }

    fn error(&mut self, text: String, at_ms: Option<u64>) {
        if text.starts_with("Reconnecting") {
            self.draft.retry(None);
            return;
        }
        self.draft.say(Who { at_ms, ..Who::default() }, What::Notice(text.clone()));
        self.failed = Some(text);
    }

    fn refused(&mut self, text: String) {
        let word = text.contains("usage limit").then_some("rate_limit");
        self.draft.refused(None, word, text);
    }

    /// The call of an item, once.
    fn begin(&mut self, item: &Item<'_>, at_ms: Option<u64>) {
        let Some((name, input)) = called(item) else { return };
        let id = item.id.get().unwrap_or_default().to_owned();
        if self.begun.insert(id.clone()) {
            let who = Who { message: Some(&id), at_ms, sub_agent: false };
            if let Some(server) = item.server.some() {
                self.draft.named(server.to_owned(), None);
            }
            self.draft.call(who, Some(id.clone()), name, Prefix::Mcp, input);
        }
    }

    fn complete(&mut self, item: Item<'_>, at_ms: Option<u64>) {
        self.begin(&item, at_ms);
        let id = item.id.owned();
        let who = Who { message: id.as_deref(), at_ms, sub_agent: false };
        let failed = matches!(item.status.get(), Some("failed" | "declined"));
        match item.kind.get() {
            Some("agent_message") => self.draft.text(who, item.text.get().unwrap_or_default()),
            Some("reasoning") => self.draft.thinking(who, item.text.get().unwrap_or_default()),
            Some("error") => {
                self.draft.say(who, What::Notice(item.message.owned().unwrap_or_default()));
            }
            Some("command_execution") => {
                let text = item.aggregated_output.owned().unwrap_or_default();
                let declined = item.status.is("declined");
                self.draft.reply(who, id.clone(), text, failed);
                if declined {
                    self.draft.fault(Fault::PermissionDenied { tool: "command_execution".to_owned() });
                }
            }
            Some("mcp_tool_call") => {
                let refused = item.error.0.and_then(|e| e.message.owned());
                let tool = mcp(item.server.get(), item.tool.get());
                let text = match (&refused, &item.result.0) {
                    (Some(text), _) => text.clone(),
                    (None, Some(result)) => result.text(),
                    (None, None) => String::new(),
                };
                self.draft.reply(who, id.clone(), text, failed || refused.is_some());
                if refused.is_some_and(|text| text.contains("requires approval")) {
                    self.draft.fault(Fault::PermissionDenied { tool });
                }
            }
            Some("file_change" | "web_search" | "collab_tool_call") => {
                let text = item.status.owned().unwrap_or_default();
                self.draft.reply(who, id.clone(), text, failed);
            }
            _ => {}
        }
    }

    fn finish(mut self, losses: source::Losses) -> Transcript {
        self.rollout.finish(&mut self.draft, &mut self.meter);
        if let Some(text) = self.failed.take() {
            self.refused(text);
        }
        let told = self.draft.out.turns.iter().any(|t| t.usage.is_some());
        self.draft.finish(losses, told)
    }
}

/// Name and arguments of an item that is a call.
fn called(item: &Item<'_>) -> Option<(String, Value)> {
    let word = |text: &Text<'_>| text.get().unwrap_or_default().to_owned();
    match item.kind.get()? {
        "command_execution" => {
            Some(("command_execution".to_owned(), json!({ "command": word(&item.command) })))
        }
        "mcp_tool_call" => Some((mcp(item.server.get(), item.tool.get()), item.arguments.clone())),
        "file_change" => Some(("file_change".to_owned(), json!({ "changes": item.changes }))),
        "web_search" => Some(("web_search".to_owned(), json!({ "query": word(&item.query) }))),
        "collab_tool_call" => {
            let tool = item.tool.get().unwrap_or("collab_tool_call").to_owned();
            Some((tool, json!({ "prompt": word(&item.prompt) })))
        }
        _ => None,
    }
}

pub(super) fn mcp(server: Option<&str>, tool: Option<&str>) -> String {
    format!("mcp__{}__{}", server.unwrap_or_default(), tool.unwrap_or_default())
}
