//! `spend`, `settle`: the ledger of what was paid for.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::json;

use super::args::{self, Decision};
use super::context;
use super::exit::CliError;
use super::out::Out;
use crate::clock::{Clock, rfc3339};
use crate::engine::is_lost;
use crate::store::journal::Journal;
use crate::store::ledger::{Caps, Entry, Spend, dollars};

pub(super) fn spend(command: &args::Spend, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let store = context::existing(store)?;
    let attempts = store.spent_by(command.pipeline.as_deref())?;
    let total = attempts.iter().map(Entry::micros).fold(0, u64::saturating_add);
    if command.json {
        out.json(&json!({ "usd": dollars(total), "attempts": attempts }));
        return Ok(0);
    }
    let mut text = String::new();
    for entry in &attempts {
        let state = json!(entry.state);
        let _ = writeln!(
            text,
            "{}  {:<8} {:>10} USD  {}  run {} attempt {}{}",
            rfc3339(entry.at),
            state.as_str().unwrap_or_default(),
            entry.usd,
            entry.node,
            entry.run,
            entry.attempt,
            entry.why.as_ref().map_or(String::new(), |why| format!(": {why}"))
        );
    }
    let _ = writeln!(text, "{} attempts, {} USD in all", attempts.len(), dollars(total));
    out.data(&text);
    Ok(0)
}

pub(super) fn settle(command: &args::Settle, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let store = context::existing(store)?;
    let lost = |entry: &Entry| match entry.state {
        Spend::Unknown | Spend::Skip => true,
        // Begun, and its engine is gone; the next run has not looked at it yet.
        Spend::Started => Journal::is_live(store.root(), &entry.run) == Some(false) && is_lost(&store, entry),
        _ => false,
    };
    let found: Vec<Entry> =
        store.spent_by(None)?.into_iter().filter(|entry| entry.node == command.node && lost(entry)).collect();
    if found.is_empty() {
        return Err(CliError::Usage(format!(
            "no attempt at `{}` was lost; `proofline spend` lists the attempts with their states",
            command.node
        )));
    }
    let state = match command.decision {
        Decision::Adopt => Spend::Adopt,
        Decision::Respend => Spend::Respend,
        Decision::Skip => Spend::Skip,
    };
    let now = Clock::System.now_ms();
    let entries: Vec<Entry> =
        found.iter().map(|entry| Entry { why: command.why.clone(), ..entry.then(state, now) }).collect();
    store.enter(&entries, Caps::default())?;
    if command.json {
        out.json(&json!({ "settled": entries }));
    } else {
        let word = json!(state);
        out.data(&format!(
            "{}: {}; the next `proofline run` goes by it\n",
            command.node,
            word.as_str().unwrap_or_default()
        ));
    }
    Ok(0)
}
