//! `run` and `replay`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::args;
use super::context;
use super::exit::{self, CliError};
use super::out::Out;
use super::progress::Progress;
use super::{report, trust};
use crate::clock::{Clock, Stopwatch};
use crate::corpus::Corpus;
use crate::engine::table::Table;
use crate::engine::world::{self, World};
use crate::engine::{self, EngineError, Options, Summary};
use crate::event::{Counts, Event, RunState};
use crate::grade::{ExitInput, GateSpec, exit_state, gate};
use crate::plan::compiled::{Compiled, micros};
use crate::plan::select::{SelectError, select};
use crate::report::assemble::RunView;
use crate::store::Store;
use crate::store::journal::JournalWriter;
use crate::unit::Span;

/// How a run is asked for.
struct Asked<'a> {
    only: &'a [String],
    again: &'a [String],
    keep_going: bool,
    jobs: Option<usize>,
    offline: bool,
    locked: bool,
    allow_errors: bool,
    json: bool,
    most: Option<u64>,
    takeover: Duration,
    respend: &'a [String],
    accept: &'a [String],
    why: String,
}

pub(super) fn run(command: &args::Run, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let result = run_or_fail(command, store, out);
    if let (Err(error), true) = (&result, command.json)
        && !matches!(error, CliError::Diagnostics { .. })
    {
        // One object is promised, whatever happens.
        let nodes = Counts::default();
        out.json(&json!({ "run": null, "state": "failed", "nodes": nodes, "exit": error.code() }));
    }
    result
}

fn run_or_fail(command: &args::Run, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let pipeline = context::compiled(&command.pipeline, command.json, out)?;
    let dir = context::store_dir(store, &pipeline.root);
    let store = Arc::new(context::open(&dir, &pipeline.root, command.json)?);
    trust::ensure(&pipeline, &dir, command.trust, out)?;
    let asked = Asked {
        only: &command.only,
        again: &[],
        keep_going: command.keep_going,
        jobs: command.jobs,
        offline: command.offline,
        locked: command.locked,
        allow_errors: command.allow_errors,
        json: command.json,
        most: command.max_usd.map(micros),
        takeover: takeover(&command.takeover)?,
        respend: &command.respend,
        accept: &command.accept,
        why: command.why.clone().unwrap_or_default(),
    };
    let (run, ended) = execute(&pipeline, &store, &asked, out)?;
    if command.json {
        out.json(&ended);
    } else {
        report::after_run(&store, &run, out)?;
    }
    Ok(ended["exit"].as_u64().and_then(|e| u8::try_from(e).ok()).unwrap_or(exit::INFRASTRUCTURE))
}

pub(super) fn replay(command: &args::Replay, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let pipeline = context::compiled(&command.pipeline, command.json, out)?;
    let dir = context::store_dir(store, &pipeline.root);
    let store = Arc::new(context::open(&dir, &pipeline.root, command.json)?);
    trust::ensure(&pipeline, &dir, command.trust, out)?;
    let selector = vec![command.node.clone()];
    let asked = Asked {
        only: &selector,
        again: &selector,
        keep_going: true,
        jobs: None,
        offline: false,
        locked: false,
        allow_errors: true,
        json: command.json,
        most: None,
        takeover: takeover("60s")?,
        respend: &[],
        accept: &[],
        why: String::new(),
    };
    let (run, mut ended) = execute(&pipeline, &store, &asked, out)?;
    let view = RunView::read(&store, &run)?;
    let mut compared = Vec::new();
    for node in &view.executed(&store)? {
        let first = store.hit(&node.record.key)?;
        let differing: Vec<&String> = node
            .record
            .parts
            .iter()
            .filter(|(name, part)| {
                *name != crate::artifact::part::META
                    && first.as_ref().and_then(|f| f.part(name)) != Some(part.digest)
            })
            .map(|(name, _)| name)
            .collect();
        compared.push(json!({ "node": node.id, "same": differing.is_empty(), "differs": differing }));
    }
    let lied = command.verify && compared.iter().any(|c| c["same"] == false);
    if let Some(object) = ended.as_object_mut() {
        object.insert("replayed".to_owned(), json!(compared));
    }
    if command.json {
        out.json(&ended);
    } else {
        for one in &compared {
            let word = if one["same"] == true { "same bytes" } else { "other bytes" };
            let line = format!("{}: {word} {}", one["node"].as_str().unwrap_or_default(), parts_of(one));
            out.data(&format!("{}\n", line.trim_end()));
        }
    }
    Ok(if lied { exit::INFRASTRUCTURE } else { u8::from(ended["state"] == "failed") * exit::INFRASTRUCTURE })
}

fn parts_of(compared: &Value) -> String {
    let names: Vec<&str> =
        compared["differs"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if names.is_empty() { String::new() } else { format!("in {}", names.join(", ")) }
}

/// Runs and gives the run's id and the object that `--json` promises.
fn execute(
    pipeline: &Arc<Compiled>,
    store: &Arc<Store>,
    asked: &Asked<'_>,
    out: &Out,
) -> Result<(String, Value), CliError> {
    let lock = context::lock(&pipeline.root, asked.json)?;
    let table = Table::new(Arc::clone(pipeline));
    let chosen = context::chosen(pipeline, &table.graph, asked.only)?;
    let again = selected(pipeline, &table, asked.again)?;
    if asked.locked {
        let unlocked = World::new(pipeline, BTreeMap::new(), lock.as_ref(), None).unlocked;
        if !unlocked.is_empty() {
            return Err(CliError::Usage(format!(
                "--locked: {} has no entry for {}; run `proofline lock`",
                context::LOCK,
                unlocked.join(", ")
            )));
        }
    }
    let orphans = engine::clean_up(store)?;
    let mut journal = JournalWriter::begin(store.root(), Clock::System)?;
    let run = journal.run().to_owned();
    let mut progress = Progress::new(out, asked.json);
    let stages = stage_counts(&table, chosen.as_deref());
    let total = stages.iter().map(|(_, n)| n).sum();
    let started = Event::RunStarted {
        pipeline: pipeline.name.clone(),
        path: pipeline.path.clone(),
        params: pipeline.params.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        stages,
        kinds: pipeline.stages.iter().map(|stage| stage.kind().to_owned()).collect(),
        arms: pipeline.arms.iter().map(|a| a.name.clone()).collect(),
        replay: !asked.again.is_empty(),
        pid: std::process::id(),
        host: host(),
    };
    journal.add(&started);
    progress.event(&started);
    for orphan in orphans {
        let message = format!("ended a process that a killed run had left: {orphan}");
        journal.add(&Event::Note { message });
    }
    journal.sync()?;
    let ended =
        work(pipeline, store, asked, lock.as_ref(), table, chosen, again, &mut journal, &mut progress);
    let (state, counts, exit) = match ended {
        Ok(summary) => {
            let (outcomes, exit) =
                verdict(pipeline, store, &summary, !asked.only.is_empty(), asked.allow_errors)?;
            journal.add(&Event::Gates { outcomes });
            (summary.state, summary.counts, exit)
        }
        Err(error) => {
            let message = error.to_string();
            progress.say(&format!("error: {message}"));
            journal.add(&Event::Note { message });
            // Without its corpora no node can run: all of them are blocked.
            let counts = Counts { total, blocked: total, ..Counts::default() };
            (RunState::Failed, counts, exit::INFRASTRUCTURE)
        }
    };
    let event = Event::RunEnded { state, counts, exit };
    journal.add(&event);
    progress.event(&event);
    journal.end()?;
    Ok((run.clone(), json!({ "run": run, "state": state, "nodes": counts, "exit": exit })))
}

#[expect(clippy::too_many_arguments, reason = "the pieces of one run, put together once")]
fn work(
    pipeline: &Arc<Compiled>,
    store: &Arc<Store>,
    asked: &Asked<'_>,
    lock: Option<&crate::manifest::lock::Lock>,
    table: Table,
    chosen: Option<Vec<bool>>,
    again: Vec<usize>,
    journal: &mut JournalWriter,
    progress: &mut Progress<'_>,
) -> Result<Summary, EngineError> {
    let internal = |e: std::io::Error| EngineError::Internal(e.to_string());
    // One thread waits for everything; work that takes the processor has threads of its own.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(internal)?;
    let (stop, kill) = (CancellationToken::new(), CancellationToken::new());
    // From here on a signal ends the run in order, whatever it is doing.
    runtime.block_on(async { watch_signals(&stop, &kill) }).map_err(internal)?;
    let corpora: BTreeMap<String, Corpus> =
        world::fetch(pipeline, &context::corpora(store.root(), asked.offline), &mut |message| {
            journal.add(&Event::Note { message });
        })?;
    for (repo, corpus) in &corpora {
        let event =
            Event::Corpus { repo: repo.clone(), digest: corpus.digest, origin: corpus.origin.clone() };
        journal.add(&event);
        progress.event(&event);
    }
    let digests = corpora.iter().map(|(name, c)| (name.clone(), c.digest)).collect();
    let world = World::new(pipeline, digests, lock, Some(&store.cache()));
    for arm in &world.unlocked {
        let message =
            format!("server `{arm}` is unlocked: its identity is the version that its preset states");
        journal.add(&Event::Note { message });
    }
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let options = Options {
        jobs: asked.jobs.unwrap_or(processors),
        keep_going: asked.keep_going,
        chosen,
        stop,
        kill,
        exe: context::exe()
            .map_err(|_| EngineError::Internal("the program's own file is unknown".to_owned()))?,
        clock: Clock::System,
        again,
        most: asked.most,
        respend: selected(pipeline, &table, asked.respend)?,
        accept: selected(pipeline, &table, asked.accept)?,
        why: asked.why.clone(),
        takeover: asked.takeover,
        host: host(),
    };
    let store = Arc::clone(store);
    let summary = runtime.block_on(async {
        engine::run(table, world, store, Arc::new(corpora), journal, options, &mut |event| {
            progress.event(event);
        })
        .await
    });
    runtime.shutdown_timeout(std::time::Duration::from_secs(2));
    summary
}

/// Signals within this many milliseconds of the first count as the first.
const SAME_WISH_MS: f64 = 50.0;

/// First signal: take nothing more; second: end what runs.
fn watch_signals(stop: &CancellationToken, kill: &CancellationToken) -> std::io::Result<()> {
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let (stop, kill) = (stop.clone(), kill.clone());
    tokio::spawn(async move {
        let mut first: Option<Stopwatch> = None;
        loop {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            // A signal to the process and one to its group are one wish.
            let repeated = first.is_some_and(|at| at.ms() < SAME_WISH_MS);
            if !stop.is_cancelled() {
                first = Some(Stopwatch::start());
                stop.cancel();
            } else if !repeated {
                kill.cancel();
            }
        }
    });
    Ok(())
}

/// Outcomes of the gates and the exit code.
fn verdict(
    pipeline: &Compiled,
    store: &Store,
    summary: &Summary,
    partial: bool,
    allow_errors: bool,
) -> Result<(Vec<Value>, u8), CliError> {
    let mut result = json!({});
    let table = &summary.table;
    let aggregates = pipeline.stages.iter().enumerate().filter(|(_, stage)| stage.kind() == "aggregate");
    for node in aggregates.flat_map(|(stage, _)| table.graph.of_stage(stage)) {
        if let Some(part) =
            table.parts(node).and_then(|mut parts| parts.remove(crate::artifact::part::RESULT))
        {
            result = serde_json::from_slice(&store.get(&part.digest)?).unwrap_or_default();
            break;
        }
    }
    let counts = summary.counts;
    let unfinished = counts.total - counts.executed - counts.reused - counts.failed - counts.blocked;
    if partial && result.as_object().is_some_and(serde_json::Map::is_empty) {
        // The aggregate was not asked for: there is nothing that a gate could hold.
        let input = ExitInput { max_invalid: 1.0, allow_errors, failed: counts.failed, unfinished };
        return Ok((Vec::new(), exit_state(&result, &[], input)));
    }
    let (outcomes, exit) = evaluate(pipeline, &result, counts.failed, unfinished, allow_errors);
    Ok((outcomes, exit))
}

/// Gates of a pipeline on a result, and the exit code that follows.
pub(super) fn evaluate(
    pipeline: &Compiled,
    result: &Value,
    failed: u64,
    unfinished: u64,
    allow_errors: bool,
) -> (Vec<Value>, u8) {
    let specs: Vec<GateSpec> = pipeline
        .gates
        .iter()
        .map(|g| GateSpec {
            key: g.key.clone(),
            arm: g.arm.clone(),
            metric: g.metric.clone(),
            bound: g.bound.clone(),
        })
        .collect();
    let outcomes = gate(result, &specs);
    let input = ExitInput { max_invalid: pipeline.experiment.max_invalid, allow_errors, failed, unfinished };
    let exit = exit_state(result, &outcomes, input);
    (outcomes.iter().map(|o| json!(o)).collect(), exit)
}

fn stage_counts(table: &Table, chosen: Option<&[bool]>) -> Vec<(String, u64)> {
    table
        .pipeline
        .stages
        .iter()
        .enumerate()
        .map(|(at, stage)| {
            let nodes = table.graph.of_stage(at).filter(|n| chosen.is_none_or(|c| c[*n])).count();
            (stage.name.clone(), nodes as u64)
        })
        .collect()
}

/// Nodes that selectors name.
fn selected(pipeline: &Compiled, table: &Table, selectors: &[String]) -> Result<Vec<usize>, SelectError> {
    let mut nodes = Vec::new();
    for selector in selectors {
        nodes.extend(select(pipeline, &table.graph, selector)?);
    }
    Ok(nodes)
}

/// A time as manifests write it.
fn takeover(text: &str) -> Result<Duration, CliError> {
    let span: Result<Span, _> = serde_json::from_value(json!(text));
    span.map(|span| span.0)
        .map_err(|_| CliError::Usage(format!("--takeover {text}: write a time, e.g. `60s`")))
}

fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    name.trim().to_owned()
}
