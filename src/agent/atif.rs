//! Agent Trajectory Interchange Format, versions 1.0 to 1.8: one document of steps.
//!
//! Prompt tokens include those that were read from a cache. Steps that were copied from an
//! earlier session (`is_copied_context`) are that session's. A user's step after the agent has
//! spoken begins another turn.

#![expect(clippy::struct_field_names, reason = "fields are named as they are written")]

use serde::Deserialize;
use serde_json::Value;

use super::draft::{Draft, Who, millis, words};
use super::loose::{Content, Flag, List, Listed, Num, Opt, Text};
use super::tools::Prefix;
use super::{Dialect, Hints, ReadError, source};
use crate::artifact::transcript::{Transcript, TurnEnd, Usage, What};

/// Deepest nesting of sub-agents that is followed.
const MAX_DEPTH: u32 = 8;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Document<'a> {
    #[serde(borrow)]
    schema_version: Text<'a>,
    #[serde(borrow)]
    session_id: Text<'a>,
    #[serde(borrow)]
    agent: Opt<Agent<'a>>,
    #[serde(borrow)]
    steps: Listed<Opt<Step<'a>>>,
    final_metrics: Opt<FinalMetrics>,
    #[serde(borrow)]
    subagent_trajectories: List<Opt<Document<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Agent<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    version: Text<'a>,
    #[serde(borrow)]
    model_name: Text<'a>,
    #[serde(borrow)]
    tool_definitions: List<Opt<Tool<'a>>>,
    #[serde(borrow)]
    extra: Opt<Extra<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Extra<'a> {
    #[serde(borrow)]
    cwd: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Tool<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    function: Opt<Named<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Named<'a> {
    #[serde(borrow)]
    name: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Step<'a> {
    step_id: Num,
    #[serde(borrow)]
    timestamp: Text<'a>,
    #[serde(borrow)]
    source: Text<'a>,
    #[serde(borrow)]
    model_name: Text<'a>,
    #[serde(borrow)]
    message: Content<'a, Part<'a>>,
    #[serde(borrow)]
    reasoning_content: Text<'a>,
    #[serde(borrow)]
    tool_calls: List<Opt<ToolCall<'a>>>,
    #[serde(borrow)]
    observation: Opt<Observation<'a>>,
    metrics: Opt<Metrics>,
    is_copied_context: Flag,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Part<'a> {
    #[serde(borrow)]
    text: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ToolCall<'a> {
    #[serde(borrow)]
    tool_call_id: Text<'a>,
    #[serde(borrow)]
    function_name: Text<'a>,
    arguments: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Observation<'a> {
    #[serde(borrow)]
    results: List<Opt<Outcome<'a>>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Outcome<'a> {
    #[serde(borrow)]
    source_call_id: Text<'a>,
    #[serde(borrow)]
    content: Content<'a, Part<'a>>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Metrics {
    prompt_tokens: Num,
    completion_tokens: Num,
    cached_tokens: Num,
    cost_usd: Num,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct FinalMetrics {
    total_prompt_tokens: Num,
    total_completion_tokens: Num,
    total_cached_tokens: Num,
    total_cost_usd: Num,
}

/// Kinds apart; writes to a cache have no place in the format.
fn usage(prompt: Num, completion: Num, cached: Num) -> Usage {
    let cache_read = cached.count();
    Usage {
        input: prompt.count().map(|all| all.saturating_sub(cache_read.unwrap_or(0))),
        output: completion.count(),
        cache_read,
        cache_write: None,
    }
}

pub(super) fn read(text: &str, hints: &Hints) -> Result<Transcript, ReadError> {
    let mut draft = Draft::new(Dialect::Atif, hints);
    let mut any = false;
    let losses = source::each::<Document<'_>, ReadError>(text, |number, line, document| {
        if document.schema_version.get().is_some_and(|v| v.starts_with("ATIF-")) {
            any = true;
            if matches!(document.steps, Listed::Other) {
                let why = "its `steps` are no list";
                return Err(ReadError::Malformed { line: number, dialect: Dialect::Atif, why });
            }
            take(&mut draft, document);
            Ok(())
        } else {
            super::foreign(Dialect::Atif, number, line)
        }
    })?;
    super::some_of(any, Dialect::Atif, text)?;
    Ok(draft.finish(losses, true))
}

fn take(draft: &mut Draft<'_>, document: Document<'_>) {
    draft.out.session = document.session_id.owned().or(draft.out.session.take());
    let first_turn = draft.out.turns.len();
    if let Some(agent) = document.agent.0 {
        if let Some(name) = agent.name.some() {
            let version = agent.version.some().map(|v| format!(" {v}")).unwrap_or_default();
            draft.out.agent = Some(format!("{name}{version}"));
        }
        draft.asked(agent.model_name.get().unwrap_or_default());
        for tool in agent.tool_definitions.0.iter().filter_map(|t| t.0.as_ref()) {
            let function = tool.function.0.as_ref().and_then(|f| f.name.get());
            draft.tool(tool.name.get().or(function).unwrap_or_default());
        }
        draft.out.cwd = agent.extra.0.and_then(|e| e.cwd.owned()).or(draft.out.cwd.take());
    }
    let mut cost = None;
    let mut agent_spoke = false;
    let alone = document.subagent_trajectories.0.is_empty();
    for step in own(document.steps) {
        let user = step.source.is("user");
        if user && agent_spoke {
            end(draft, &mut cost);
        }
        agent_spoke = (agent_spoke && !user) || step.source.is("agent");
        self::step(draft, step, None, &mut cost);
    }
    // What sub-agents did is no part of the main thread, and nothing says when they did it.
    for sub in document.subagent_trajectories.0.into_iter().filter_map(|s| s.0) {
        sub_agent(draft, sub, &mut cost, 1);
    }
    end(draft, &mut cost);
    let Some(last) = document.final_metrics.0 else { return };
    let whole = usage(last.total_prompt_tokens, last.total_completion_tokens, last.total_cached_tokens);
    // Sums are of the whole document: with one turn they are that turn's.
    let mut turns = draft.out.turns.iter_mut().skip(first_turn);
    if let (Some(only), None) = (turns.next(), turns.next()) {
        if whole != Usage::default() {
            only.usage = Some(whole);
            only.usage_main = Some(whole).filter(|_| alone);
        }
        only.cost_usd = last.total_cost_usd.0.or(only.cost_usd);
    }
}

fn end(draft: &mut Draft<'_>, cost: &mut Option<f64>) {
    let turn = Some(draft.turn());
    let usage = draft.messages(turn, false);
    draft.end_turn(TurnEnd { usage, cost_usd: cost.take(), ..TurnEnd::default() });
}

fn sub_agent(draft: &mut Draft<'_>, document: Document<'_>, cost: &mut Option<f64>, depth: u32) {
    if depth > MAX_DEPTH {
        return;
    }
    let thread = format!("sub-agent {depth} {}", draft.out.entries.len());
    for step in own(document.steps) {
        self::step(draft, step, Some(&thread), cost);
    }
    for sub in document.subagent_trajectories.0.into_iter().filter_map(|s| s.0) {
        sub_agent(draft, sub, cost, depth + 1);
    }
}

/// Steps of this session, not those that it took over from an earlier one.
fn own(steps: Listed<Opt<Step<'_>>>) -> impl Iterator<Item = Step<'_>> {
    let steps = match steps {
        Listed::List(steps) => steps,
        Listed::Nothing | Listed::Other => Vec::new(),
    };
    steps.into_iter().filter_map(|step| step.0).filter(|step| !step.is_copied_context.0)
}

fn step(draft: &mut Draft<'_>, step: Step<'_>, thread: Option<&str>, cost: &mut Option<f64>) {
    let number = step.step_id.count().unwrap_or(draft.out.entries.len() as u64);
    let id = format!("{} {number}", draft.turn());
    let who = Who { sub_agent: thread.is_some(), message: Some(&id), at_ms: millis(step.timestamp.get()) };
    let text = words(&step.message, |part| part.text.get().map(str::to_owned));
    let of = |part: &Part<'_>| part.text.get().map(str::to_owned);
    match step.source.get() {
        Some("agent") => {
            if let Some(thoughts) = step.reasoning_content.some() {
                draft.thinking(who, thoughts);
            }
            draft.text(who, &text);
            if let Some(model) = step.model_name.some() {
                draft.answered(model);
            }
        }
        Some("user") if !text.is_empty() => draft.say(who, What::Prompt(text)),
        Some("system") if !text.is_empty() => draft.say(who, What::Notice(text)),
        _ => {}
    }
    for call in step.tool_calls.0.into_iter().filter_map(|c| c.0) {
        let name = call.function_name.owned().unwrap_or_default();
        draft.call(who, call.tool_call_id.owned(), name, Prefix::Bare, call.arguments);
    }
    for result in step.observation.0.into_iter().flat_map(|o| o.results.0).filter_map(|r| r.0) {
        let text = words(&result.content, of);
        draft.reply(who, result.source_call_id.owned(), text, false);
    }
    let Some(metrics) = step.metrics.0 else { return };
    let spent = usage(metrics.prompt_tokens, metrics.completion_tokens, metrics.cached_tokens);
    draft.spend(thread, Some(&id), Some(spent));
    if let Some(spent) = metrics.cost_usd.0 {
        *cost = Some(cost.unwrap_or(0.0) + spent);
    }
}
