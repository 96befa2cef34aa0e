//! What a session cost: tokens, money, time, against the ceilings of its task.

use std::collections::BTreeSet;

use crate::artifact::Claims;
use crate::artifact::transcript::{Transcript, TurnEnd, Usage};
use crate::manifest::pipeline::Profile;
use crate::manifest::scenario::Scenario;

/// What a token of each kind costs beside one of uncached input: output, cache read, cache write.
const OUTPUT: f64 = 5.0;
const CACHE_READ: f64 = 0.1;
const CACHE_WRITE: f64 = 1.25;
/// Share of each half of efficiency.
const HALF: f64 = 0.5;

/// Tokens weighed by their price, in uncached input tokens; none when a kind is unknown.
pub(super) fn priced(usage: Usage) -> Option<f64> {
    let of = |count: Option<u64>| count.map(as_f64);
    Some(
        of(usage.input)?
            + OUTPUT * of(usage.output)?
            + CACHE_READ * of(usage.cache_read)?
            + CACHE_WRITE * of(usage.cache_write)?,
    )
}

/// Uncached input and output: what other benchmarks call billed.
fn billed(usage: Usage) -> Option<f64> {
    Some(as_f64(usage.input?) + as_f64(usage.output?))
}

#[expect(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^53")]
pub(super) fn as_f64(count: u64) -> f64 {
    count as f64
}

/// Turns of the model in the main thread: the agent's own count, else its messages; none where
/// neither is told.
fn turns(transcript: &Transcript) -> Option<u64> {
    let told = transcript.turns.iter().map(|turn: &TurnEnd| turn.calls);
    told.sum::<Option<u64>>().filter(|_| !transcript.turns.is_empty()).or_else(|| {
        let own = transcript.entries.iter().filter(|entry| !entry.sub_agent);
        let messages: BTreeSet<&String> = own.filter_map(|entry| entry.message.as_ref()).collect();
        (!messages.is_empty()).then_some(messages.len() as u64)
    })
}

/// Columns and their values; none is unscored. What needs ceilings is left out for a question.
///
/// Profile `rag-bench` counts uncached input and output as tokens.
pub(super) fn columns(
    scenario: Option<&Scenario>,
    transcript: &Transcript,
    claims: Option<&Claims>,
    wall_s: Option<f64>,
    profile: Profile,
) -> Vec<(&'static str, Option<f64>)> {
    let usage = transcript.usage.or(transcript.usage_messages);
    let wall = transcript.duration_ms.map(|ms| ms / 1000.0).or(wall_s);
    let tokens = usage.and_then(priced);
    let mut out = Vec::new();
    if let Some(scenario) = scenario {
        let left = |used: Option<f64>, ceiling: Option<f64>| Some((1.0 - used? / ceiling?).max(0.0));
        let ceilings = &scenario.ceilings;
        let of_time = ceilings.time.map(|span| span.0.as_secs_f64());
        let by_time = left(wall, of_time);
        let efficiency =
            |tokens: Option<f64>| Some(HALF * left(tokens, ceilings.tokens.map(as_f64))? + HALF * by_time?);
        out.push(("efficiency", efficiency(tokens)));
        out.push(("efficiency_billed", efficiency(usage.and_then(billed))));
    }
    let all = match profile {
        Profile::RagBench => usage.and_then(billed),
        Profile::Default | Profile::Sense => usage.and_then(Usage::total).map(as_f64),
    };
    out.push(("tokens", all));
    out.push(("tokens_priced", tokens));
    out.push(("cost_usd", transcript.cost_usd));
    out.push(("wall_s", wall));
    out.push(("turns", turns(transcript).map(as_f64)));
    let known = claims.is_none_or(|claims| !claims.lacks("tool_calls"));
    out.push(("tool_calls", known.then(|| as_f64(transcript.calls().count() as u64))));
    out
}
