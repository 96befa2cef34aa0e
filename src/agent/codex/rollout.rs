//! Codex's stored sessions (`sessions/**/rollout-*.jsonl`).
//!
//! `response_item` lines are what the model was sent and sent back, `event_msg` lines what a
//! screen showed. Prose and calls are taken from the former, prompts, turns and tokens from the
//! latter, so that nothing is counted twice.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Meter, Said, Tokens, mcp};
use crate::agent::draft::{Draft, Who, words};
use crate::agent::loose::{Content, List, Opt, Piece, Text};
use crate::agent::tools::Prefix;
use crate::artifact::transcript::{TurnEnd, Usage, What};

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Payload<'a> {
    #[serde(borrow, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow)]
    id: Text<'a>,
    #[serde(borrow)]
    cwd: Text<'a>,
    #[serde(borrow)]
    cli_version: Text<'a>,
    #[serde(borrow)]
    model: Text<'a>,
    #[serde(borrow)]
    role: Text<'a>,
    #[serde(borrow)]
    content: Content<'a, Block<'a>>,
    #[serde(borrow)]
    summary: List<Opt<Block<'a>>>,
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    namespace: Text<'a>,
    arguments: Value,
    input: Value,
    action: Value,
    #[serde(borrow)]
    call_id: Text<'a>,
    #[serde(borrow)]
    output: Output<'a>,
    #[serde(borrow)]
    message: Text<'a>,
    #[serde(borrow)]
    last_agent_message: Text<'a>,
    #[serde(borrow)]
    reason: Text<'a>,
    #[serde(borrow)]
    error: Opt<Said<'a>>,
    info: Opt<Info>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Block<'a> {
    #[serde(borrow)]
    text: Text<'a>,
}

/// What a call gave: a text, blocks, or an object with either and a mark of success.
type Output<'a> = Content<'a, Given<'a>>;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Given<'a> {
    #[serde(borrow)]
    text: Text<'a>,
    #[serde(borrow)]
    content: Content<'a, Block<'a>>,
    success: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Info {
    total_token_usage: Opt<Tokens>,
    last_token_usage: Opt<Tokens>,
}

/// What is known of a stored session so far.
#[derive(Debug, Default)]
pub(super) struct Rollout {
    is: bool,
    /// Turns are marked; older versions don't.
    marked: bool,
    total: Option<Usage>,
    requests: u64,
}

impl Rollout {
    /// Takes a line; whether it is one of a stored session.
    pub(super) fn line(
        &mut self,
        kind: &str,
        payload: Payload<'_>,
        at_ms: Option<u64>,
        draft: &mut Draft<'_>,
        meter: &mut Meter,
    ) -> bool {
        let who = Who { at_ms, ..Who::default() };
        match kind {
            "session_meta" => {
                let out = &mut draft.out;
                out.session = payload.id.owned().or(out.session.take());
                out.cwd = payload.cwd.owned().or(out.cwd.take());
                out.agent = payload.cli_version.some().map(|v| format!("codex {v}")).or(out.agent.take());
            }
            "turn_context" => draft.answered(payload.model.get().unwrap_or_default()),
            "response_item" => item(payload, who, draft),
            "event_msg" => self.event(payload, who, draft, meter),
            "compacted" => {}
            _ => return false,
        }
        self.is = true;
        true
    }

    fn event(&mut self, payload: Payload<'_>, who: Who<'_>, draft: &mut Draft<'_>, meter: &mut Meter) {
        match payload.kind.get() {
            Some("task_started" | "turn_started") => self.marked = true,
            Some("user_message") => {
                if !self.marked && draft.open {
                    self.end(draft, meter, TurnEnd::default());
                }
                draft.say(who, What::Prompt(payload.message.owned().unwrap_or_default()));
            }
            Some("token_count") => {
                if let Some(info) = payload.info.0 {
                    self.count(info, draft, meter);
                }
            }
            Some("task_complete" | "turn_complete") => {
                self.marked = true;
                let end = TurnEnd {
                    subtype: Some("completed".to_owned()),
                    text: payload.last_agent_message.owned(),
                    ..TurnEnd::default()
                };
                self.end(draft, meter, end);
            }
            Some("turn_aborted") => {
                let subtype = payload.reason.owned().or(Some("aborted".to_owned()));
                self.end(draft, meter, TurnEnd { subtype, error: true, ..TurnEnd::default() });
            }
            Some("error") => {
                let text = payload.message.owned().or(payload.error.0.and_then(|e| e.message.owned()));
                let text = text.unwrap_or_default();
                draft.say(who, What::Notice(text.clone()));
                draft.refused(None, text.contains("usage limit").then_some("rate_limit"), text);
            }
            _ => {}
        }
    }

    /// A meter reading; the same one is often written twice.
    fn count(&mut self, info: Info, draft: &mut Draft<'_>, meter: &mut Meter) {
        let Some(now) = info.total_token_usage.0.map(Tokens::usage) else { return };
        if self.total == Some(now) {
            return;
        }
        let last = info.last_token_usage.0.map(Tokens::usage);
        let last = last.unwrap_or_else(|| self.total.map_or(now, |before| now.minus(before)));
        self.total = Some(now);
        self.requests += 1;
        // A reading may come after the mark of the turn that it is of.
        if !draft.open
            && let Some(turn) = draft.out.turns.last_mut()
        {
            let new = meter.new_since(now);
            turn.usage = Some(turn.usage.map_or(new, |u| u.plus(new)));
            turn.usage_main = turn.usage;
        }
        draft.spend(None, Some(&format!("request {}", self.requests)), Some(last));
    }

    fn end(&self, draft: &mut Draft<'_>, meter: &mut Meter, end: TurnEnd) {
        let usage = self.total.map(|now| meter.new_since(now));
        draft.end_turn(TurnEnd { usage, usage_main: usage, ..end });
    }

    /// The end of the file is the end of the last turn, where turns are not marked.
    pub(super) fn finish(&self, draft: &mut Draft<'_>, meter: &mut Meter) {
        let said = draft.out.entries.last().is_some_and(|e| e.text().is_some());
        if self.is && !self.marked && draft.open && said {
            self.end(draft, meter, TurnEnd::default());
        }
    }
}

/// Something that the model was sent or sent back.
fn item(payload: Payload<'_>, who: Who<'_>, draft: &mut Draft<'_>) {
    let id = payload.id.get().map(str::to_owned);
    let who = Who { message: id.as_deref(), ..who };
    let call_id = payload.call_id.get().map(str::to_owned);
    match payload.kind.get() {
        Some("message") if payload.role.is("assistant") => match payload.content {
            Content::Nothing => {}
            Content::Words(text) => draft.text(who, &text),
            Content::Blocks(pieces) => {
                for piece in pieces {
                    match piece {
                        Piece::Nothing => {}
                        Piece::Words(text) => draft.text(who, &text),
                        Piece::Block(block) => draft.text(who, block.text.get().unwrap_or_default()),
                    }
                }
            }
        },
        Some("reasoning") => {
            let texts = payload.summary.0.iter().filter_map(|b| b.0.as_ref()?.text.get());
            draft.thinking(who, &texts.collect::<Vec<_>>().join("\n"));
        }
        Some("function_call") => {
            let name = payload.name.get().unwrap_or_default();
            let name = match payload.namespace.some() {
                Some(space) => mcp(Some(space.trim_start_matches("mcp__")), Some(name)),
                None => name.to_owned(),
            };
            draft.call(who, call_id, name, Prefix::Mcp, parsed(payload.arguments));
        }
        Some("custom_tool_call") => {
            let name = payload.name.owned().unwrap_or_default();
            draft.call(who, call_id, name, Prefix::Mcp, json!({ "input": payload.input }));
        }
        Some(kind @ ("local_shell_call" | "web_search_call")) => {
            let name = kind.trim_end_matches("_call").to_owned();
            draft.call(who, call_id.or(id.clone()), name, Prefix::Mcp, payload.action);
        }
        Some("function_call_output" | "custom_tool_call_output") => {
            let (text, failed) = given(&payload.output);
            draft.reply(Who { message: None, ..who }, call_id, text, failed);
        }
        _ => {}
    }
}

/// Text of an output, and whether it is marked as failed.
fn given(output: &Output<'_>) -> (String, bool) {
    let failed = |g: &Given<'_>| g.success == Value::Bool(false);
    let any_failed = match output {
        Content::Blocks(pieces) => pieces.iter().any(|p| matches!(p, Piece::Block(g) if failed(g))),
        _ => false,
    };
    let text = words(output, |given| match given.text.get() {
        Some(text) => Some(text.to_owned()),
        None => Some(words(&given.content, |b| b.text.get().map(str::to_owned))),
    });
    (text, any_failed)
}

/// Arguments come as JSON in a text.
fn parsed(arguments: Value) -> Value {
    match arguments {
        Value::String(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        other => other,
    }
}
