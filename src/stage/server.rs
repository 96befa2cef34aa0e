//! A server at work in its place: started, its tools chosen, asked, stopped.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::ask;
use super::place::Place;
use super::raw::{Facts, Phase, Raw, Reply, Trouble, reading};
use super::{Failure, Job};
use crate::artifact::code;
use crate::clock::Stopwatch;
use crate::digest::Digest;
use crate::manifest::server::{Index, Server, ToolUse, Transport};
use crate::mcp::detect::{self, Slot};
use crate::mcp::{self, Client, Launch, Tool};
use crate::process::{self, Spec, Stdio};
use crate::retrieve;

/// Longest time for a server's list of tools.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);
/// Most bytes kept of what a command before indexing says.
const SAID: usize = 64 * 1024;

/// A started server.
pub(super) struct Running<'a> {
    preset: &'a Server,
    place: &'a Place,
    speaker: Speaker,
    pub(super) ingest: Option<ToolUse>,
    pub(super) query: Option<ToolUse>,
    pub(super) facts: Facts,
    pub(super) readings: BTreeMap<String, Value>,
    pub(super) replies: Vec<Reply>,
}

enum Speaker {
    Mcp(Box<Client>),
    Builtin { engine: Option<Box<dyn retrieve::Engine>> },
}

/// Runs the commands that a preset wants before its server starts.
pub(super) async fn pre_ingest(
    job: &Job,
    preset: &Server,
    place: &Place,
    log: &mut Vec<u8>,
) -> Result<Result<f64, Trouble>, Failure> {
    let watch = Stopwatch::start();
    for step in &preset.pre_ingest {
        let argv = place.command(&step.run, job);
        let cwd = step
            .cwd
            .as_deref()
            .map_or_else(|| place.corpus.clone(), |cwd| std::path::PathBuf::from(place.fill(cwd, &job.exe)));
        let mut spec = Spec::new(argv.clone(), cwd, place.env(preset, job), &job.marker);
        spec.stdin = Stdio::Null;
        let run = process::capture(&spec, step.timeout.0, SAID);
        let said = tokio::select! {
            said = run => said,
            () = job.cancel.cancelled() => return Err(cancelled()),
        };
        let name = argv.first().cloned().unwrap_or_default();
        let said = match said {
            Ok(said) => said,
            Err(error) => {
                return Ok(Err(Trouble::new(code::PRE_INGEST_FAILED, format!("`{name}`: {error}"))));
            }
        };
        log.extend_from_slice(&said.stdout);
        log.extend_from_slice(&said.stderr);
        if !said.exit.ok() {
            let words =
                String::from_utf8_lossy(if said.stderr.is_empty() { &said.stdout } else { &said.stderr });
            let how = said.exit.words();
            let gist = gist(words.trim());
            return Ok(Err(Trouble::new(code::PRE_INGEST_FAILED, format!("`{name}` {how}: {gist}"))));
        }
    }
    Ok(Ok(watch.ms()))
}

/// What of a long text is kept as a server's words: lines that tell a cause,
/// then the first and the last ones.
fn gist(words: &str) -> String {
    const MOST: usize = 1_000;
    const CAUSES: [&str; 6] = ["error", "fail", "denied", "not found", "cannot", "refused"];
    if words.chars().count() <= MOST {
        return words.to_owned();
    }
    let lines: Vec<&str> = words.lines().filter(|line| !line.trim().is_empty()).collect();
    let tells = |line: &&&str| {
        let line = line.to_lowercase();
        CAUSES.iter().any(|cause| line.contains(cause))
    };
    let mut chosen: Vec<&str> = Vec::new();
    let causes = lines.iter().filter(tells).take(3);
    for line in causes.chain(lines.first()).chain(lines.last()) {
        if !chosen.contains(line) {
            chosen.push(line);
        }
    }
    let each = MOST / chosen.len().max(1);
    let cut: Vec<String> = chosen.iter().map(|line| line.trim().chars().take(each).collect()).collect();
    cut.join("\n")
}

/// The error of a stage that was told to stop.
pub(super) fn cancelled() -> Failure {
    Failure::cancelled()
}

impl<'a> Running<'a> {
    /// Starts the server and chooses its tools. What the server does wrong is
    /// in `facts.trouble` of the value that comes back in its place.
    pub(super) async fn start(
        job: &Job,
        preset: &'a Server,
        place: &'a Place,
    ) -> Result<Result<Self, (Facts, BTreeMap<String, Value>)>, Failure> {
        let mut facts =
            Facts { roots: vec![place.corpus.to_string_lossy().into_owned()], ..Facts::default() };
        let mut readings = BTreeMap::new();
        if preset.transport == Transport::Builtin {
            let name = preset.engine.clone().unwrap_or_default();
            let engine = match retrieve::engine(&name, preset.profile.as_deref(), None) {
                Ok(engine) => engine,
                Err(error) => {
                    facts.trouble = Some(Trouble::new(code::SERVER_NOT_STARTED, error.to_string()));
                    return Ok(Err((facts, readings)));
                }
            };
            let call = |tool: &str, args: &[(&str, &str)]| ToolUse {
                tool: tool.to_owned(),
                args: args.iter().map(|(k, v)| ((*k).to_owned(), json!(v))).collect(),
            };
            readings.insert(reading::START_MS.to_owned(), json!(0.0));
            return Ok(Ok(Self {
                preset,
                place,
                speaker: Speaker::Builtin { engine: Some(engine) },
                ingest: Some(call("index", &[("path", "{corpus}")])),
                query: Some(call("search", &[("query", "{query}"), ("limit", "{limit}")])),
                facts,
                readings,
                replies: Vec::new(),
            }));
        }
        let launch = Launch {
            transport: preset.transport,
            command: place.command(&preset.command, job),
            url: preset.url.as_deref().map(|url| place.fill(url, &job.exe)),
            cwd: place.corpus.clone(),
            env: place.env(preset, job),
            marker: job.marker.clone(),
            lifecycle: preset.lifecycle,
            start_timeout: preset.start_timeout.0,
            wire_log: job.scratch.join("wire.jsonl"),
            stderr_log: job.scratch.join("stderr.log"),
            max_reply_bytes: Launch::MAX_REPLY,
        };
        let started = tokio::select! {
            started = Client::start(&launch) => started,
            () = job.cancel.cancelled() => return Err(cancelled()),
        };
        let mut client = match started {
            Ok(client) => client,
            Err(error) => {
                facts.trouble = Some(Trouble::new(error.code(), error.to_string()));
                return Ok(Err((facts, readings)));
            }
        };
        readings.insert(reading::START_MS.to_owned(), json!(client.start_ms()));
        facts.server = Some(client.server_info().clone());
        let listed = client.tools(LIST_TIMEOUT).await;
        let mut running = Self {
            preset,
            place,
            speaker: Speaker::Mcp(Box::new(client)),
            ingest: None,
            query: None,
            facts,
            readings,
            replies: Vec::new(),
        };
        match listed {
            Ok(tools) => running.choose(tools),
            Err(error) => running.facts.trouble = Some(Trouble::new(error.code(), error.to_string())),
        }
        if running.facts.trouble.is_some() {
            let (facts, readings, _) = running.stop().await;
            return Ok(Err((facts, readings)));
        }
        Ok(Ok(running))
    }

    /// Chooses tools: the preset's mapping wins, else detection.
    fn choose(&mut self, tools: Vec<Tool>) {
        let mapped = &self.preset.tools;
        for (slot, tool) in [("ingest", &mapped.ingest), ("query", &mapped.query)] {
            if let Some(tool) = tool
                && !tools.iter().any(|t| t.name == tool.tool)
            {
                // Some servers answer tools that they don't list, so this is no trouble yet.
                self.facts.notes.push(format!("the {slot} tool `{}` is not in the server's list", tool.tool));
            }
        }
        self.query.clone_from(&mapped.query);
        self.ingest.clone_from(&mapped.ingest);
        if self.query.is_none() {
            let found = detect::choose(&tools, Slot::Query);
            self.facts.notes.push(found.why.clone());
            match found.choice {
                Some(choice) if found.sure => self.query = Some(choice.tool_use()),
                Some(choice) => {
                    self.facts.trouble = Some(Trouble::new(
                        code::TOOL_UNSURE,
                        format!(
                            "not sure that `{}` is the tool that answers questions ({}); name it under [tools.query] in the preset",
                            choice.tool, found.why
                        ),
                    ));
                }
                None => {
                    self.facts.trouble = Some(Trouble::new(
                        code::NO_QUERY_TOOL,
                        format!(
                            "no tool that answers questions among {} tools; name it under [tools.query]",
                            tools.len()
                        ),
                    ));
                }
            }
            // Who maps the query tool by hand leaves the ingest tool out on purpose.
            let wants_index = matches!(self.preset.index, Index::Directory | Index::Memory);
            if self.ingest.is_none() && self.preset.pre_ingest.is_empty() && wants_index {
                let found = detect::choose(&tools, Slot::Ingest);
                if let Some(choice) = found.choice.filter(|_| found.sure) {
                    self.facts.notes.push(found.why);
                    self.ingest = Some(choice.tool_use());
                }
            }
        }
        self.facts.query_tool = self.query.as_ref().map(|t| t.tool.clone());
        self.facts.ingest_tool = self.ingest.as_ref().map(|t| t.tool.clone());
        self.facts.tools = tools;
    }

    /// Has the server index its copy of the corpus; milliseconds, or none when it has no such tool.
    pub(super) async fn index(&mut self, job: &Job) -> Result<Result<Option<f64>, Trouble>, Failure> {
        let Some(tool) = self.ingest.clone() else { return Ok(Ok(None)) };
        let mut folders = vec![self.place.corpus.clone()];
        if !self.preset.index_directories.is_empty() && self.preset.transport != Transport::Builtin {
            folders = self.preset.index_directories.iter().map(|d| self.place.corpus.join(d)).collect();
        }
        let watch = Stopwatch::start();
        for folder in folders {
            let values = [("corpus", json!(folder.to_string_lossy()))];
            let args = ask::arguments(&tool, &values);
            let reply =
                self.one(job, Phase::Ingest, "", "", &tool.tool, args, self.preset.index_timeout.0).await?;
            if reply.failed() {
                let words = words_of(&reply);
                return Ok(Err(Trouble::new(code::INGEST_FAILED, format!("`{}`: {words}", tool.tool))));
            }
        }
        Ok(Ok(Some(watch.ms())))
    }

    /// Puts one question; true when the server is gone.
    pub(super) async fn ask(
        &mut self,
        job: &Job,
        phase: Phase,
        task: &str,
        texts: &[String],
        top: u32,
    ) -> Result<bool, Failure> {
        let Some(tool) = self.query.clone() else { return Ok(true) };
        for text in texts {
            let values = [
                ("query", json!(text)),
                ("limit", json!(top)),
                ("corpus", json!(self.place.corpus.to_string_lossy())),
            ];
            let args = ask::arguments(&tool, &values);
            let reply =
                self.one(job, phase, task, text, &tool.tool, args, self.preset.call_timeout.0).await?;
            if matches!(reply, Raw::Died { .. }) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    #[expect(clippy::too_many_arguments, reason = "one call has this many sides")]
    async fn one(
        &mut self,
        job: &Job,
        phase: Phase,
        task: &str,
        query: &str,
        tool: &str,
        args: Map<String, Value>,
        deadline: Duration,
    ) -> Result<Raw, Failure> {
        let (latency_ms, outcome) = match &mut self.speaker {
            Speaker::Mcp(client) => {
                let call = tokio::select! {
                    call = client.call(tool, args, deadline) => call,
                    () = job.cancel.cancelled() => return Err(cancelled()),
                };
                (call.latency_ms, Raw::from(call.outcome))
            }
            Speaker::Builtin { engine } => {
                let watch = Stopwatch::start();
                let outcome =
                    builtin(engine, tool, &args, &self.place.corpus, &self.preset.index_directories).await;
                (watch.ms(), outcome)
            }
        };
        self.replies.push(Reply {
            phase,
            task: task.to_owned(),
            query: query.to_owned(),
            tool: tool.to_owned(),
            latency_ms,
            outcome: outcome.clone(),
        });
        Ok(outcome)
    }

    /// Ends the server; gives what was seen, read and answered.
    pub(super) async fn stop(mut self) -> (Facts, BTreeMap<String, Value>, Vec<Reply>) {
        if let Speaker::Mcp(client) = self.speaker {
            let stopped = client.stop().await;
            let ours = self.preset.transport != Transport::Http || !self.preset.command.is_empty();
            if ours {
                self.readings.insert(reading::RSS_MIB.to_owned(), json!(stopped.exit.rss_mib));
            }
            self.facts.survivors = stopped.exit.survivors;
            self.facts.counters = Some(stopped.counters);
        }
        (self.facts, self.readings, self.replies)
    }
}

/// Digest of a tool list: what an arm's servers must agree on.
pub(super) fn tools_digest(tools: &[Tool]) -> String {
    let mut sorted: Vec<Value> = tools.iter().map(|t| json!(t)).collect();
    sorted.sort_by_key(|t| t["name"].as_str().unwrap_or_default().to_owned());
    Digest::of(json!(sorted).to_string().as_bytes()).short()
}

/// A failed reply in the server's own words, at most 600 characters.
pub(super) fn words_of(raw: &Raw) -> String {
    let text = match raw {
        Raw::Reply { value } => {
            let texts: Vec<&str> = value["content"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|block| block["text"].as_str())
                .collect();
            if texts.is_empty() { value.to_string() } else { texts.join("\n") }
        }
        Raw::RpcError { code, message } => format!("error {code}: {message}"),
        Raw::Timeout => "no reply before the deadline".to_owned(),
        Raw::Died { words } => words.clone(),
        Raw::TooLarge { bytes } => format!("a reply of {bytes} bytes is larger than the limit"),
        Raw::Unexpected { text } => text.clone(),
    };
    text.trim().chars().take(600).collect()
}

async fn builtin(
    slot: &mut Option<Box<dyn retrieve::Engine>>,
    tool: &str,
    args: &Map<String, Value>,
    corpus: &Path,
    only: &[String],
) -> Raw {
    let Some(mut engine) = slot.take() else {
        return Raw::Died { words: "the engine ended early".to_owned() };
    };
    let (tool, args, corpus, only) = (tool.to_owned(), args.clone(), corpus.to_owned(), only.to_vec());
    // Indexing and searching are work for a processor, not for the reactor.
    let done = tokio::task::spawn_blocking(move || {
        let value = if tool == "index" {
            retrieve::read_folder(&corpus, &only).map(|files| {
                let facts = engine.index(&files);
                json!({ "structuredContent": { "files": facts.files, "bytes": facts.bytes, "chunks": facts.chunks } })
            })
        } else {
            let query = args.get("query").and_then(Value::as_str).unwrap_or_default();
            let limit = args.get("limit").and_then(Value::as_u64).unwrap_or(10);
            let found = engine.search(query, usize::try_from(limit).unwrap_or(10));
            let results: Vec<Value> = found
                .iter()
                .map(|f| json!({ "file": f.file, "line": f.line, "symbol": f.symbol, "score": f.score, "content": f.content }))
                .collect();
            Ok(json!({ "structuredContent": { "results": results } }))
        };
        (engine, value)
    })
    .await;
    match done {
        Ok((engine, Ok(value))) => {
            *slot = Some(engine);
            Raw::Reply { value }
        }
        Ok((engine, Err(error))) => {
            *slot = Some(engine);
            Raw::RpcError { code: -32_603, message: error.to_string() }
        }
        Err(error) => Raw::Died { words: error.to_string() },
    }
}

/// What `mcp` calls a server, for people.
pub(super) fn title(info: &mcp::ServerInfo) -> String {
    format!("{} {}", info.name, info.version).trim().to_owned()
}
