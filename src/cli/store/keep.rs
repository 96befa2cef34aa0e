//! `store pin` and `store quarantine`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};

use super::nodes;
use crate::cli::args;
use crate::cli::context;
use crate::cli::exit::CliError;
use crate::cli::out::Out;
use crate::clock::{Clock, rfc3339};
use crate::digest::Digest;
use crate::report::assemble::cell_of;
use crate::store::Store;
use crate::store::pins::Pin;
use crate::store::quarantine::Quarantine;

pub(in crate::cli) fn pin(command: &args::StorePin, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let store = context::existing(store)?;
    let Some(what) = &command.what else {
        let pins = store.pins()?;
        if command.json {
            let pins: Vec<Value> = pins.iter().map(pin_json).collect();
            out.json(&json!({ "pins": pins }));
        } else {
            for pin in &pins {
                out.data(&format!("{}, since {}\n", pin_text(pin), rfc3339(pin.at)));
            }
            if pins.is_empty() {
                out.say("nothing is pinned");
            }
        }
        return Ok(0);
    };
    // A run whose journal is gone can still be named by its pin.
    let pins = store.pins()?;
    let run = context::run_id(&store, what).ok().or_else(|| {
        pins.iter()
            .find(|pin| command.remove && pin.run == *what && pin.selector.is_none())
            .map(|p| p.run.clone())
    });
    let selector = if run.is_some() { None } else { Some(what.clone()) };
    if command.remove {
        let gone: Vec<&Pin> = pins
            .iter()
            .filter(|pin| match (&run, &selector) {
                (Some(run), _) => pin.selector.is_none() && pin.run == *run,
                (None, selector) => pin.selector == *selector,
            })
            .collect();
        if gone.is_empty() {
            return Err(CliError::Usage(format!("`{what}` is not pinned; see `proofline store pin`")));
        }
        for pin in &gone {
            store.unpin(&pin.run, pin.selector.as_deref())?;
        }
        return Ok(told(&gone, "took away the pin of", command.json, out));
    }
    let selectors: Vec<String> = selector.iter().cloned().collect();
    let (run, nodes) = nodes(&store, run.as_deref().unwrap_or(&command.run), &selectors)?;
    let keys: BTreeSet<Digest> = nodes.iter().map(|node| node.record.key).collect();
    let pin = Pin { format: 1, run, selector, at: Clock::System.now_ms(), keys: keys.into_iter().collect() };
    store.pin(&pin)?;
    Ok(told(&[&pin], "pinned", command.json, out))
}

fn told(pins: &[&Pin], word: &str, json: bool, out: &Out) -> u8 {
    if json {
        let pins: Vec<Value> = pins.iter().map(|pin| pin_json(pin)).collect();
        out.json(&json!({ "pins": pins }));
    } else {
        for pin in pins {
            out.data(&format!("{word} {}\n", pin_text(pin)));
        }
    }
    0
}

fn pin_json(pin: &Pin) -> Value {
    json!({ "run": pin.run, "selector": pin.selector, "since": rfc3339(pin.at), "keys": pin.keys.len() })
}

fn pin_text(pin: &Pin) -> String {
    let nodes = pin.keys.len();
    match &pin.selector {
        None => format!("run {}: {nodes} node(s)", pin.run),
        Some(selector) => format!("`{selector}` of run {}: {nodes} node(s)", pin.run),
    }
}

pub(in crate::cli) fn quarantine(
    command: &args::StoreQuarantine,
    store: Option<&Path>,
    out: &Out,
) -> Result<u8, CliError> {
    let store = context::existing(store)?;
    let Some(what) = &command.what else {
        let all = store.quarantined()?;
        if command.json {
            out.json(&json!({ "quarantined": listed(&store)? }));
        } else {
            for one in &all {
                out.data(&quarantine_text(one));
            }
            if all.is_empty() {
                out.say("nothing is in quarantine");
            }
        }
        return Ok(0);
    };
    let key = key_of(&store, what, &command.run)?;
    if command.undo {
        let Some(one) = store.undo_quarantine(&key)? else {
            return Err(CliError::Usage(format!(
                "`{what}` is not in quarantine; see `proofline store quarantine`"
            )));
        };
        if command.json {
            out.json(&json!({ "key": key, "owned": one.records().count() }));
        } else {
            out.data(&format!("{} record(s) of key {key} are owned again\n", one.records().count()));
        }
        return Ok(0);
    }
    let Some(reason) = &command.reason else {
        return Err(CliError::Usage("say why, with --reason TEXT; it is kept".to_owned()));
    };
    let suspects = store.suspects(&key)?;
    if suspects.is_empty() {
        let why =
            if store.attempts(&key)?.is_empty() { "no record" } else { "no record that isn't in quarantine" };
        return Err(CliError::Usage(format!("the store has {why} of `{what}`")));
    }
    let paid: Vec<&str> = suspects.iter().filter_map(|record| record.usd.as_deref()).collect();
    if !paid.is_empty() && !command.yes {
        return Err(CliError::Usage(format!(
            "`{what}` was paid for ({} US dollars): the next run would buy it again; say --yes if it shall",
            paid.join(" + ")
        )));
    }
    let one = store.quarantine(&key, reason, Clock::System.now_ms())?;
    if command.json {
        out.json(&quarantine_json(&one));
    } else {
        out.data(&quarantine_text(&one));
        out.say("the next run makes it anew; --undo takes it back");
    }
    Ok(0)
}

/// The key that is meant: 64 hex digits, a node in quarantine, or a node of a run.
fn key_of(store: &Store, what: &str, run: &str) -> Result<Digest, CliError> {
    if let Ok(key) = what.parse() {
        return Ok(key);
    }
    let stage = what.split('[').next().unwrap_or_default();
    let wanted = cell_of(what);
    let named = |id: &str| id.split('[').next() == Some(stage) && cell_of(id) == wanted;
    let quarantined = store.quarantined()?;
    if let Some(one) = quarantined.iter().find(|one| one.records().any(|d| named(&d.record.node))) {
        // The newest run may have made it anew under another key; that one is asked first.
        let (_, nodes) = nodes(store, run, &[]).unwrap_or_default();
        let now = nodes.iter().find(|node| named(&node.id));
        return Ok(now.map_or(one.key, |node| node.record.key));
    }
    let (run, nodes) = nodes(store, run, &[])?;
    let found = nodes.iter().find(|node| named(&node.id)).map(|node| node.record.key);
    found.ok_or_else(|| {
        CliError::Usage(format!(
            "`{what}` is neither a key nor a node of run {run}; `proofline report --json` lists both"
        ))
    })
}

/// Everything in quarantine as JSON.
pub(super) fn listed(store: &Store) -> Result<Vec<Value>, CliError> {
    Ok(store.quarantined()?.iter().map(quarantine_json).collect())
}

fn quarantine_json(one: &Quarantine) -> Value {
    let entries: Vec<Value> = one
        .entries
        .iter()
        .map(|entry| json!({ "at": rfc3339(entry.at), "reason": entry.reason, "records": entry.records }))
        .collect();
    json!({ "key": one.key, "entries": entries })
}

/// A quarantine with the provenance of each record.
pub(super) fn quarantine_text(one: &Quarantine) -> String {
    let mut text = format!("quarantined: key {}\n", one.key);
    for entry in &one.entries {
        let _ = writeln!(text, "  {}: {}", rfc3339(entry.at), entry.reason);
        for disowned in &entry.records {
            let record = &disowned.record;
            let _ = writeln!(
                text,
                "    {} of {}: run {}, attempt {}, ended {}, on {}",
                record.node,
                record.pipeline,
                record.run,
                record.attempt,
                rfc3339(record.ended),
                record.machine.as_deref().unwrap_or("any machine")
            );
            let origin = match (&disowned.signer, disowned.arrived) {
                (Some(signer), _) => format!("origin {}, signed by {signer}", record.origin),
                (None, true) => format!("origin {}, signed by nobody", record.origin),
                (None, false) => format!("origin {}, made here", record.origin),
            };
            let _ = writeln!(text, "      {origin}; record {}", disowned.digest.short());
            for (name, part) in &record.parts {
                let _ = writeln!(text, "      part {name}: {} bytes, {}", part.size, part.digest.short());
            }
        }
    }
    text
}
