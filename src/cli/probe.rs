//! A server tried once on the sample corpus: what it offers and how it answers.
//!
//! Everything that a preset must state is tried, not guessed: which tools do
//! what, whether the index outlives its process, whether whole questions or
//! names are understood, and from which number lines are counted.

mod place;
mod seen;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;

use super::context;
use super::exit::CliError;
use super::starter;
use crate::clock::Stopwatch;
use crate::corpus::{Corpus, Source, check_copy};
use crate::manifest::dataset::Known;
use crate::manifest::load;
use crate::manifest::server::{Form, Index, Lines, Server, ToolUse, Transport};
use crate::mcp::detect::{self, Slot};
use crate::mcp::normalise::{self, Kind, Rules};
use crate::mcp::{Client, How, Outcome, Tool};
use crate::shipped;
use crate::stage::ask;
use crate::store::Store;

use place::Place;
pub(super) use seen::{Asked, Chosen, Seen};

/// Name of the shipped corpus.
const SAMPLE: &str = "sample";
/// Results asked for; the right file must be among them.
const TOP: u32 = 10;
/// Further symbols that are asked for, to see how lines are counted.
const LINES: usize = 3;
/// Hits of a call that are shown.
const SHOWN: usize = 5;
/// Longest time for a list of tools.
const LIST: Duration = Duration::from_secs(30);
/// What a server may leave on disk beside an index: settings, a log.
const SMALL: u64 = 64 * 1024;

/// What is tried.
pub(super) struct Trial<'a> {
    /// The server as far as it is known.
    pub(super) preset: &'a Server,
    /// What its files are relative to.
    pub(super) root: PathBuf,
    /// Tool that the user names for questions.
    pub(super) query_tool: Option<&'a str>,
    /// Tool that the user names for indexing, or `none`.
    pub(super) ingest_tool: Option<&'a str>,
}

/// The sample corpus and what is known of it.
struct Sample {
    corpus: Corpus,
    known: Known,
    /// Symbol, file and 1-based line of definitions.
    lines: Vec<(String, String, u64)>,
}

/// Starts the server, tries it, ends it.
pub(super) fn look(trial: &Trial<'_>, store: &Store) -> Result<Seen, CliError> {
    let sample = sample(store)?;
    let runtime = context::runtime()?;
    let seen = runtime.block_on(async {
        tokio::select! {
            seen = tried(trial, &sample, store) => seen,
            // Dropping what runs ends its processes.
            _ = tokio::signal::ctrl_c() => Err(CliError::Infrastructure("interrupted".to_owned())),
        }
    });
    runtime.shutdown_timeout(Duration::from_secs(2));
    seen
}

/// Starts a server in an empty folder and lists its tools; how many, and milliseconds to the start.
pub(super) fn greet(trial: &Trial<'_>, store: &Store) -> Result<(usize, f64), CliError> {
    let runtime = context::runtime()?;
    let greeted = runtime.block_on(async {
        let place = Place::make(None, trial, store)?;
        let mut client = place.start(trial, "greet").await?;
        let (tools, start_ms) = (client.tools(LIST).await, client.start_ms());
        client.stop().await;
        let tools = tools.map_err(|e| CliError::Infrastructure(e.to_string()))?;
        Ok((tools.len(), start_ms))
    });
    runtime.shutdown_timeout(Duration::from_secs(2));
    greeted
}

fn sample(store: &Store) -> Result<Sample, CliError> {
    let missing = || CliError::Infrastructure("the shipped sample corpus is incomplete".to_owned());
    let corpus =
        context::corpora(store.root(), true).fetch(SAMPLE, &Source::Embedded(SAMPLE.to_owned()), None)?;
    let repos = load::repos(
        "(shipped)/datasets/repos.toml",
        shipped::get("datasets/repos.toml").ok_or_else(missing)?,
    );
    let known = repos.value.and_then(|repos| repos.repo.get(SAMPLE)?.known.clone()).ok_or_else(missing)?;
    let all = starter::symbols_of(&corpus, "lines");
    let mut taken = BTreeSet::new();
    // A line before the definition that belongs to it would look like counting from 0.
    let lines = starter::pick(&all, LINES, &mut taken, |s| s.bare && s.kind.is_callable())
        .into_iter()
        .map(|s| (s.name.clone(), s.file.clone(), s.line))
        .collect();
    Ok(Sample { corpus, known, lines })
}

async fn tried(trial: &Trial<'_>, sample: &Sample, store: &Store) -> Result<Seen, CliError> {
    let place = Place::make(Some(&sample.corpus), trial, store)?;
    place.prepare(trial).await?;
    let mut client = place.start(trial, "first").await?;
    let infra = |e: crate::mcp::ToolsError| CliError::Infrastructure(e.to_string());
    let tools = client.tools(LIST).await.map_err(infra)?;
    let query = choose(&tools, Slot::Query, trial.query_tool, trial.preset.tools.query.as_ref())?;
    let mapped = trial.preset.tools.query.is_some();
    let ingest = match (trial.ingest_tool, &trial.preset.tools.ingest) {
        (Some("none"), _) => Chosen { how: "given", ..Chosen::default() },
        // Who maps the query tool by hand leaves the ingest tool out on purpose.
        (None, None) if mapped => Chosen { how: "given", ..Chosen::default() },
        (named, given) => choose(&tools, Slot::Ingest, named, given.as_ref())?,
    };
    let mut seen = Seen {
        server: client.server_info().clone(),
        start_ms: client.start_ms(),
        schema_bytes: json!(tools).to_string().len(),
        tools,
        query,
        ingest,
        ingest_ms: None,
        ingest_error: None,
        question: None,
        symbol: None,
        form: None,
        lines: None,
        on_lines: 0,
        index: trial.preset.index,
        index_why: String::new(),
        writes: Vec::new(),
        changed: Vec::new(),
        end: How::NotOurs,
        rss_mib: 0.0,
        survivors: Vec::new(),
        bad_frames: 0,
        stderr_bytes: 0,
    };
    if let Some(tool) = usable(&seen.ingest) {
        index(&mut client, &tool, trial, &place, &mut seen).await;
    }
    if let Some(tool) = seen.query.tool.clone() {
        questions(&mut client, &tool, trial, sample, &place, &mut seen).await;
    }
    let stopped = client.stop().await;
    seen.end = stopped.how;
    seen.rss_mib = stopped.exit.rss_mib;
    seen.survivors = stopped.exit.survivors;
    seen.bad_frames = stopped.counters.bad_frames();
    seen.stderr_bytes = stopped.counters.stderr_bytes;
    written(&place, sample, &mut seen);
    where_index(trial, sample, &place, &mut seen).await;
    Ok(seen)
}

/// The tool of a slot: the user's word, else the preset's, else detection's.
fn choose(
    tools: &[Tool],
    slot: Slot,
    named: Option<&str>,
    given: Option<&ToolUse>,
) -> Result<Chosen, CliError> {
    if let (None, Some(tool)) = (named, given) {
        let listed = tools.iter().any(|t| t.name == tool.tool);
        let why =
            if listed { "named by the preset" } else { "named by the preset, but not in the server's list" };
        return Ok(Chosen {
            tool: Some(tool.clone()),
            how: "given",
            confidence: None,
            runner_up: None,
            why: why.to_owned(),
        });
    }
    let Some(named) = named else {
        let found = detect::choose(tools, slot);
        let how = match (&found.choice, found.sure) {
            (None, _) => "none",
            (Some(_), true) => "sure",
            (Some(_), false) => "unsure",
        };
        let confidence = found.choice.as_ref().map(|choice| choice.confidence);
        let runner_up = found.runner_up.map(|next| (next.tool, next.confidence));
        return Ok(Chosen {
            tool: found.choice.map(|c| c.tool_use()),
            how,
            confidence,
            runner_up,
            why: found.why,
        });
    };
    let only: Vec<Tool> = tools.iter().filter(|t| t.name == named).cloned().collect();
    if only.is_empty() {
        let names: Vec<&str> = tools.iter().map(|t| t.name.as_str()).collect();
        return Err(CliError::Usage(format!(
            "the server has no tool `{named}`; it has {}",
            names.join(", ")
        )));
    }
    let found = detect::choose(&only, slot);
    let tool = found.choice.map_or_else(|| by_schema(&only[0], slot), |c| c.tool_use());
    Ok(Chosen {
        tool: Some(tool),
        how: "given",
        confidence: None,
        runner_up: None,
        why: "named by you".to_owned(),
    })
}

/// A tool's required text arguments, filled with what the slot has to give.
fn by_schema(tool: &Tool, slot: Slot) -> ToolUse {
    let given = match slot {
        Slot::Ingest => "{corpus}",
        Slot::Query => "{query}",
    };
    let required: Vec<&str> =
        tool.schema["required"].as_array().into_iter().flatten().filter_map(|name| name.as_str()).collect();
    let properties = tool.schema["properties"].as_object();
    let texts: Vec<&String> = properties
        .into_iter()
        .flatten()
        .filter(|(_, property)| property["type"] == "string")
        .map(|(name, _)| name)
        .collect();
    let wanted: Vec<&&String> = texts.iter().filter(|name| required.contains(&name.as_str())).collect();
    let wanted = if wanted.is_empty() { texts.iter().take(1).collect() } else { wanted };
    let args = wanted.into_iter().map(|name| ((*name).clone(), json!(given))).collect();
    ToolUse { tool: tool.name.clone(), args }
}

/// The tool that is called: one of which detection is not sure is only for questions, which harm nothing.
fn usable(chosen: &Chosen) -> Option<ToolUse> {
    chosen.tool.clone().filter(|_| matches!(chosen.how, "given" | "sure"))
}

async fn index(client: &mut Client, tool: &ToolUse, trial: &Trial<'_>, place: &Place, seen: &mut Seen) {
    let args = ask::arguments(tool, &[("corpus", json!(place.at("corpus").to_string_lossy()))]);
    let watch = Stopwatch::start();
    let call = client.call(&tool.tool, args, trial.preset.index_timeout.0).await;
    let failed = match &call.outcome {
        Outcome::Reply(value) => value["isError"] == true,
        _ => true,
    };
    if failed {
        seen.ingest_error = Some(words(&call.outcome));
    } else {
        seen.ingest_ms = Some(watch.ms());
    }
}

async fn questions(
    client: &mut Client,
    tool: &ToolUse,
    trial: &Trial<'_>,
    sample: &Sample,
    place: &Place,
    seen: &mut Seen,
) {
    let known = &sample.known;
    let (question, _) = put(client, tool, trial, sample, place, &known.question, &known.file).await;
    let (symbol, _) = put(client, tool, trial, sample, place, &known.symbol, &known.file).await;
    seen.form = match (question.rank, symbol.rank) {
        (Some(_), _) => Some(Form::Question),
        (None, Some(_)) => Some(Form::Keywords),
        (None, None) => None,
    };
    seen.question = Some(question);
    seen.symbol = Some(symbol);
    let (mut one, mut zero) = (0, 0);
    for (name, file, line) in &sample.lines {
        let (_, value) = put(client, tool, trial, sample, place, name, file).await;
        let Some(value) = value else { continue };
        let hit_at = |lines: Lines| {
            read(&value, lines, sample, place)
                .hits
                .iter()
                .any(|h| h.file.as_ref() == Some(file) && h.line == Some(*line))
        };
        match (hit_at(Lines::OneBased), hit_at(Lines::ZeroBased)) {
            // Lines out of a text are read alike in both, so they tell nothing but do no harm.
            (true, _) => one += 1,
            (false, true) => zero += 1,
            (false, false) => {}
        }
    }
    seen.lines = match (one, zero) {
        (0, 0) => None,
        (0, _) => Some(Lines::ZeroBased),
        _ => Some(Lines::OneBased),
    };
    seen.on_lines = one.max(zero);
}

/// Puts a text and reads the reply; the reply itself comes along.
async fn put(
    client: &mut Client,
    tool: &ToolUse,
    trial: &Trial<'_>,
    sample: &Sample,
    place: &Place,
    text: &str,
    file: &str,
) -> (Asked, Option<serde_json::Value>) {
    let values = [
        ("query", json!(text)),
        ("limit", json!(TOP)),
        ("corpus", json!(place.at("corpus").to_string_lossy())),
    ];
    let call = client.call(&tool.tool, ask::arguments(tool, &values), trial.preset.call_timeout.0).await;
    let mut asked = Asked {
        text: text.to_owned(),
        latency_ms: call.latency_ms,
        kind: "error",
        count: 0,
        rank: None,
        hits: Vec::new(),
        error: None,
    };
    let Some(value) = call.outcome.value() else {
        asked.error = Some(words(&call.outcome));
        return (asked, None);
    };
    let found = read(&value, trial.preset.lines, sample, place);
    asked.kind = match found.kind {
        Kind::Hits => "hits",
        Kind::Empty => "empty",
        Kind::Error => "error",
        Kind::Other => "other",
    };
    asked.count = found.hits.len();
    let mut files: Vec<&str> = Vec::new();
    for hit in found.hits.iter().filter_map(|h| h.file.as_deref()) {
        if !files.contains(&hit) {
            files.push(hit);
        }
    }
    asked.rank = files.iter().take(TOP as usize).position(|f| *f == file).map(|at| at + 1);
    asked.error = found.error;
    asked.hits = found.hits.into_iter().take(SHOWN).collect();
    (asked, Some(value))
}

fn read(value: &serde_json::Value, lines: Lines, sample: &Sample, place: &Place) -> normalise::Normalised {
    let corpus = place.at("corpus");
    let known = |path: &str| {
        sample.corpus.tree.entries.binary_search_by(|entry| entry.path.as_str().cmp(path)).is_ok()
    };
    let rules = Rules { roots: vec![corpus.to_string_lossy().into_owned()], lines, known: Some(&known) };
    normalise::normalise(value, &rules)
}

/// What it did to its copy of the corpus.
fn written(place: &Place, sample: &Sample, seen: &mut Seen) {
    let mut writes = BTreeSet::new();
    for line in check_copy(&place.at("corpus"), &sample.corpus.tree, &[]) {
        match line.strip_prefix("appeared: ") {
            Some(path) => {
                let top =
                    path.split_once('/').map_or_else(|| path.to_owned(), |(folder, _)| format!("{folder}/"));
                writes.insert(top);
            }
            None => seen.changed.push(line),
        }
    }
    // A folder of the corpus into which something was put is named by the files, not as a whole.
    let own = |folder: &str| sample.corpus.tree.entries.iter().any(|e| e.path.starts_with(folder));
    let (shared, fresh): (Vec<String>, Vec<String>) =
        writes.into_iter().partition(|w| w.ends_with('/') && own(w));
    seen.writes = fresh;
    if !shared.is_empty() {
        let all = check_copy(&place.at("corpus"), &sample.corpus.tree, &seen.writes);
        seen.writes.extend(all.iter().filter_map(|line| line.strip_prefix("appeared: ")).map(str::to_owned));
        seen.writes.sort();
    }
}

/// Whether the index outlives the process: a second start without indexing must still answer.
async fn where_index(trial: &Trial<'_>, sample: &Sample, place: &Place, seen: &mut Seen) {
    if trial.preset.tools.query.is_some() || trial.preset.transport == Transport::Cli {
        "stated by the preset".clone_into(&mut seen.index_why);
        return;
    }
    let left = place.left();
    if usable(&seen.ingest).is_none() {
        (seen.index, seen.index_why) = if left > SMALL || !seen.writes.is_empty() {
            (Index::Directory, "it has no tool that indexes, but leaves files behind".to_owned())
        } else {
            (Index::None, "it has no tool that indexes and leaves no files behind".to_owned())
        };
        return;
    }
    if left == 0 && seen.writes.is_empty() {
        seen.index = Index::Memory;
        "indexing left nothing on disk".clone_into(&mut seen.index_why);
        return;
    }
    seen.index = Index::Directory;
    let known = &sample.known;
    let text = match seen.form {
        Some(Form::Question) => &known.question,
        Some(Form::Keywords) => &known.symbol,
        None => {
            "not told: no answer was right, so nothing could be asked again".clone_into(&mut seen.index_why);
            return;
        }
    };
    let (Some(tool), Ok(mut client)) = (seen.query.tool.clone(), place.start(trial, "second").await) else {
        "not told: a second start failed".clone_into(&mut seen.index_why);
        return;
    };
    // Some servers open what is on disk only once their tools are listed.
    let _ = client.tools(LIST).await;
    let (again, _) = put(&mut client, &tool, trial, sample, place, text, &known.file).await;
    client.stop().await;
    if again.rank.is_some() {
        "a second start answered without indexing again".clone_into(&mut seen.index_why);
    } else {
        seen.index = Index::Memory;
        "a second start without indexing no longer found the answer".clone_into(&mut seen.index_why);
    }
}

/// A failed call in the server's own words.
fn words(outcome: &Outcome) -> String {
    let text = match outcome {
        Outcome::Reply(value) => {
            let blocks = value["content"].as_array().into_iter().flatten();
            let texts: Vec<&str> = blocks.filter_map(|block| block["text"].as_str()).collect();
            if texts.is_empty() { value.to_string() } else { texts.join("\n") }
        }
        Outcome::RpcError { code, message, .. } => format!("error {code}: {message}"),
        Outcome::Timeout => "no reply before the deadline".to_owned(),
        Outcome::Died { words } | Outcome::Unexpected(words) => words.clone(),
        Outcome::TooLarge { bytes } => format!("a reply of {bytes} bytes is larger than the limit"),
    };
    text.trim().chars().take(600).collect()
}
