//! A running server: started, asked, ended.

use std::time::Duration;

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientRequest, ListToolsRequest, PaginatedRequestParams,
    ProtocolVersion,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, ClientServiceExt, PeerRequestOptions, RoleClient,
    RunningService, ServiceError,
};
use rmcp::transport::IntoTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use serde_json::{Map, Value};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::call::{Call, How, Outcome, Stopped, short, short_text};
use super::cli::Cli;
use super::counters::Counters;
use super::handler::Plain;
use super::http;
use super::launch::{Launch, ServerInfo, StartError};
use super::said::Said;
use super::stdio::{self, Carriers};
use super::tools::{MAX_PAGES, MAX_TOOLS, Tool, ToolsError};
use super::wire::{Reply, Wire};
use crate::clock::Stopwatch;
use crate::manifest::server::{Lifecycle, Transport};
use crate::process::{Ending, Exit, Group, Spec, Stdio};

/// How long a server may take to end once its input is closed, and again once it is told to.
const GRACE: Duration = Duration::from_secs(2);
/// How long the output of an ended server may take to arrive.
const LAST_OUTPUT: Duration = Duration::from_millis(500);
/// How long an ended server's last words may take to arrive.
const LAST_WORDS: Duration = Duration::from_millis(300);
/// How long we take to say that we no longer want an answer.
const CANCEL: Duration = Duration::from_millis(200);

/// A running server. Dropping it kills its processes.
#[derive(Debug)]
pub struct Client {
    speaks: Speaks,
    wire: Wire,
    said: Said,
    group: Option<Group>,
    info: ServerInfo,
    start_ms: f64,
    dead: Option<String>,
}

#[derive(Debug)]
enum Speaks {
    Mcp { service: RunningService<RoleClient, Plain>, carriers: Option<Carriers> },
    Cli(Cli),
}

/// What came back for a request.
enum Raw {
    Result(Value),
    Error { code: i64, message: String, data: Option<Value> },
    Timeout,
    Died(String),
    TooLarge(u64),
    Unexpected(String),
}

impl Client {
    /// Starts a server and opens the protocol.
    ///
    /// # Errors
    /// When it can't be started, ends, says nothing in time, or something else
    /// than the protocol asks for; its processes are ended by then.
    pub async fn start(launch: &Launch) -> Result<Self, StartError> {
        match launch.transport {
            Transport::Stdio => Self::start_stdio(launch).await,
            Transport::Http => Self::start_http(launch).await,
            Transport::Cli => Self::start_cli(launch),
            Transport::Builtin => Err(StartError::Launch("a built-in engine has no process".to_owned())),
        }
    }

    async fn start_stdio(launch: &Launch) -> Result<Self, StartError> {
        let wire = Wire::open(&launch.wire_log)?;
        let mut said = Said::open(&launch.stderr_log)?;
        let clock = Stopwatch::start();
        let mut group = Group::spawn(&child(launch, Stdio::Pipe))?;
        said.drain(group.take_stderr(), &wire);
        let (Some(stdin), Some(stdout)) = (group.take_stdin(), group.take_stdout()) else {
            return Err(StartError::Launch("its pipes are gone".to_owned()));
        };
        let (carriers, (read, write)) = stdio::connect(stdin, stdout, &wire, launch.max_reply_bytes);
        close_after_end(group.ended(), &wire);
        let longest = usize::try_from(launch.max_reply_bytes).unwrap_or(usize::MAX).saturating_add(1024);
        let transport = AsyncRwTransport::new_client(read, write).with_max_line_length(longest);
        let opened = open(transport, launch, &wire, clock).await;
        let speaks = |service| Speaks::Mcp { service, carriers: Some(carriers) };
        Self::opened(opened, speaks, launch, wire, said, Some(group), clock).await
    }

    async fn start_http(launch: &Launch) -> Result<Self, StartError> {
        let url = launch.url.as_deref().ok_or_else(|| StartError::Launch("it has no url".to_owned()))?;
        let (host, port) =
            http::address(url).ok_or_else(|| StartError::Launch(format!("`{url}` is no address")))?;
        let wire = Wire::open(&launch.wire_log)?;
        let mut said = Said::open(&launch.stderr_log)?;
        let clock = Stopwatch::start();
        let mut group = None;
        if launch.command.is_empty() {
            if !http::accepts(host, port).await {
                return Err(StartError::Unreachable(url.to_owned()));
            }
        } else {
            let mut ours = Group::spawn(&child(launch, Stdio::Null))?;
            said.drain(ours.take_stderr(), &wire);
            said.drain(ours.take_stdout(), &wire);
            let ended = ours.ended();
            while !http::accepts(host.clone(), port).await {
                let over = *ended.borrow();
                if let Some(ending) = over {
                    said.settle(LAST_WORDS).await;
                    return Err(StartError::Died { how: words_of(ending), words: said.words() });
                }
                if clock.elapsed() >= launch.start_timeout {
                    ours.terminate(GRACE).await;
                    said.settle(LAST_WORDS).await;
                    return Err(StartError::Timeout { after: launch.start_timeout, words: said.words() });
                }
                sleep(Duration::from_millis(40)).await;
            }
            close_after_end(ended, &wire);
            group = Some(ours);
        }
        let transport = http::connect(url, launch.max_reply_bytes, &wire)
            .map_err(|e| StartError::Launch(e.to_string()))?;
        let opened = open(transport, launch, &wire, clock).await;
        let speaks = |service| Speaks::Mcp { service, carriers: None };
        Self::opened(opened, speaks, launch, wire, said, group, clock).await
    }

    fn start_cli(launch: &Launch) -> Result<Self, StartError> {
        let wire = Wire::open(&launch.wire_log)?;
        let said = Said::open(&launch.stderr_log)?;
        let cli = Cli::new(launch)?;
        let info = ServerInfo { name: cli.name(), ..ServerInfo::default() };
        Ok(Self { speaks: Speaks::Cli(cli), wire, said, group: None, info, start_ms: 0.0, dead: None })
    }

    async fn opened(
        opened: Result<RunningService<RoleClient, Plain>, NotOpened>,
        speaks: impl FnOnce(RunningService<RoleClient, Plain>) -> Speaks,
        launch: &Launch,
        wire: Wire,
        mut said: Said,
        mut group: Option<Group>,
        clock: Stopwatch,
    ) -> Result<Self, StartError> {
        let start_ms = clock.ms();
        let failed = match opened {
            Ok(service) => {
                service.peer().set_response_cache_config(rmcp::service::ClientCacheConfig::disabled()).await;
                let info = info(&service);
                let speaks = speaks(service);
                return Ok(Self { speaks, wire, said, group, info, start_ms, dead: None });
            }
            Err(failed) => failed,
        };
        // Before it is ended by us: had it ended by itself?
        let ending = match &mut group {
            Some(group) => {
                let mut ended = group.ended();
                if matches!(failed, NotOpened::Closed | NotOpened::Broken(_)) {
                    // It may be about to: its output closes a little before.
                    let _ = timeout(LAST_WORDS, ended.wait_for(Option::is_some)).await;
                }
                let ending = *ended.borrow();
                group.terminate(GRACE / 4).await;
                ending
            }
            None => None,
        };
        said.settle(LAST_WORDS).await;
        wire.flush();
        let words = said.words();
        said.close();
        Err(match (failed, ending) {
            (NotOpened::Refused(message), _) | (NotOpened::Broken(message), None) => {
                StartError::Protocol { message, words }
            }
            (NotOpened::Timeout, None) => StartError::Timeout { after: launch.start_timeout, words },
            (_, Some(ending)) => StartError::Died { how: words_of(ending), words },
            (NotOpened::Closed, None) => StartError::Died { how: "closed its output".to_owned(), words },
        })
    }

    /// What the server says of itself.
    #[must_use]
    pub fn server_info(&self) -> &ServerInfo {
        &self.info
    }

    /// Milliseconds from spawning the server to the end of the opening exchange.
    #[must_use]
    pub fn start_ms(&self) -> f64 {
        self.start_ms
    }

    /// Largest memory of the server's process tree so far, in MiB; none for one that isn't ours.
    #[must_use]
    pub fn peak_mib(&self) -> Option<f64> {
        match &self.speaks {
            Speaks::Cli(cli) => Some(cli.exit.rss_mib),
            Speaks::Mcp { .. } => self.group.as_ref().map(|group| {
                group.memory().sample();
                group.memory().peak_mib()
            }),
        }
    }

    /// What was seen on the wire so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.wire.counters()
    }

    /// The server's last words on standard error.
    #[must_use]
    pub fn last_words(&self) -> String {
        self.said.words()
    }

    /// All tools, page by page, in the server's order.
    ///
    /// # Errors
    /// When the list doesn't come, has no end, or is none.
    pub async fn tools(&mut self, deadline: Duration) -> Result<Vec<Tool>, ToolsError> {
        let clock = Stopwatch::start();
        let late = || ToolsError::Timeout(u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX));
        let mut tools = Vec::new();
        let mut cursor: Option<String> = None;
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..MAX_PAGES {
            let left = deadline.saturating_sub(clock.elapsed());
            let (_, raw) = match &mut self.speaks {
                Speaks::Cli(cli) => {
                    let got = cli.list(left, &self.wire, &self.said).await;
                    (got.latency_ms, raw_of(got.outcome))
                }
                Speaks::Mcp { .. } => {
                    let page = PaginatedRequestParams::default().with_cursor(cursor.clone());
                    let request = ClientRequest::ListToolsRequest(ListToolsRequest::with_param(page));
                    self.ask(request, left).await
                }
            };
            let page = match raw {
                Raw::Result(page) => page,
                Raw::Error { code, message, .. } => return Err(ToolsError::Rpc { code, message }),
                Raw::Timeout => return Err(late()),
                Raw::Died(words) => return Err(ToolsError::Died(words)),
                Raw::TooLarge(bytes) => return Err(ToolsError::TooMany(format!("{bytes} bytes"))),
                Raw::Unexpected(what) => return Err(ToolsError::Unexpected(what)),
            };
            let listed = page
                .get("tools")
                .and_then(Value::as_array)
                .ok_or_else(|| ToolsError::Unexpected(short(&page)))?;
            tools.extend(listed.iter().filter_map(Tool::from_listed));
            if tools.len() > MAX_TOOLS {
                return Err(ToolsError::TooMany(format!("{MAX_TOOLS} tools")));
            }
            match page.get("nextCursor").and_then(Value::as_str).filter(|c| !c.is_empty()) {
                None => return Ok(tools),
                Some(next) if !seen.insert(next.to_owned()) => {
                    return Err(ToolsError::Loop(next.chars().take(80).collect()));
                }
                Some(next) => cursor = Some(next.to_owned()),
            }
        }
        Err(ToolsError::TooMany(format!("{MAX_PAGES} pages")))
    }

    /// Calls a tool and waits at most until `deadline`.
    pub async fn call(&mut self, tool: &str, args: Map<String, Value>, deadline: Duration) -> Call {
        if let Speaks::Cli(cli) = &mut self.speaks {
            return cli.call(tool, args, deadline, &self.wire, &self.said).await;
        }
        let params = CallToolRequestParams::new(tool.to_owned()).with_arguments(args);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let (latency_ms, raw) = self.ask(request, deadline).await;
        let outcome = match raw {
            Raw::Result(result) => as_tool_result(result),
            Raw::Error { code, message, data } => Outcome::RpcError { code, message, data },
            Raw::Timeout => Outcome::Timeout,
            Raw::Died(words) => Outcome::Died { words },
            Raw::TooLarge(bytes) => Outcome::TooLarge { bytes },
            Raw::Unexpected(what) => Outcome::Unexpected(what),
        };
        Call { latency_ms, outcome }
    }

    /// Sends a request through rmcp and takes the answer from the tee.
    async fn ask(&mut self, request: ClientRequest, deadline: Duration) -> (f64, Raw) {
        if let Some(words) = &self.dead {
            return (0.0, Raw::Died(words.clone()));
        }
        let Speaks::Mcp { service, .. } = &self.speaks else {
            return (0.0, Raw::Unexpected("it does not speak the protocol".to_owned()));
        };
        let clock = Stopwatch::start();
        let peer = service.peer().clone();
        let mut closing = self.wire.closing();
        let late = sleep(deadline);
        tokio::pin!(late);
        let sent = tokio::select! {
            sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options()) => sent,
            () = &mut late => return (clock.ms(), Raw::Timeout),
        };
        let Ok(mut handle) = sent else {
            return (clock.ms(), Raw::Died(self.bury(None).await));
        };
        let id = handle.id.to_string();
        let mut reply = self.wire.hear(&id);
        let mut settled = false;
        loop {
            tokio::select! {
                biased;
                Ok(reply) = &mut reply => return answered(reply),
                () = until_closed(&mut closing) => {
                    self.wire.abandon(&id, "died");
                    return (clock.ms(), Raw::Died(self.bury(None).await));
                }
                // rmcp's own view only matters when it could not send.
                got = &mut handle.rx, if !settled => match got {
                    Ok(Err(ServiceError::TransportSend(e))) => {
                        let what = chain(&e);
                        return (clock.ms(), self.not_sent(&id, what).await);
                    }
                    Ok(Err(ServiceError::TransportClosed)) | Err(_) => {
                        self.wire.abandon(&id, "died");
                        return (clock.ms(), Raw::Died(self.bury(None).await));
                    }
                    Ok(_) => settled = true,
                },
                () = &mut late => {
                    self.wire.abandon(&id, "timeout");
                    let cancel = handle.cancel(Some("deadline".to_owned()));
                    // A server that reads nothing must not hold us either.
                    let _ = timeout(CANCEL, cancel).await;
                    return (clock.ms(), Raw::Timeout);
                }
            }
        }
    }

    /// The request did not get out, or its answer did not get in.
    async fn not_sent(&mut self, id: &str, what: String) -> Raw {
        if what.contains("exceeded the maximum size") {
            self.wire.abandon(id, "too-large");
            let digits: String = what
                .split("maximum size of ")
                .nth(1)
                .unwrap_or_default()
                .chars()
                .take_while(char::is_ascii_digit)
                .collect();
            return Raw::TooLarge(digits.parse().unwrap_or(0));
        }
        let broken = ["error sending request", "connection", "Transport", "channel closed", "Io error"];
        let ended = match &self.group {
            Some(group) => {
                let mut ended = group.ended();
                timeout(LAST_WORDS, ended.wait_for(Option::is_some)).await.is_ok()
            }
            None => false,
        };
        if ended || broken.iter().any(|sign| what.contains(sign)) {
            self.wire.abandon(id, "died");
            return Raw::Died(self.bury(Some(what)).await);
        }
        self.wire.abandon(id, &what.chars().take(300).collect::<String>());
        Raw::Unexpected(what)
    }

    /// Notes that the server is gone, and its last words.
    async fn bury(&mut self, what: Option<String>) -> String {
        if let Some(words) = &self.dead {
            return words.clone();
        }
        let how = match &self.group {
            Some(group) => {
                let mut ended = group.ended();
                let _ = timeout(LAST_WORDS, ended.wait_for(Option::is_some)).await;
                let ending = *ended.borrow();
                ending.map_or_else(|| what.unwrap_or_else(|| "closed its output".to_owned()), words_of)
            }
            None => what.unwrap_or_else(|| "closed the connection".to_owned()),
        };
        self.said.settle(LAST_WORDS).await;
        let words = self.said.words();
        let all = if words.is_empty() { format!("it {how}") } else { format!("it {how}: {words}") };
        self.dead = Some(all.clone());
        all
    }

    /// Ends the server: closes its input, waits a little, asks it by signal,
    /// kills it; then whatever it left behind.
    pub async fn stop(mut self) -> Stopped {
        let mut how = How::NotOurs;
        let mut exit = Exit::default();
        if let Speaks::Mcp { service, carriers } = &mut self.speaks {
            let ended = self.group.as_ref().map(Group::ended);
            let had_ended = ended.as_ref().is_some_and(|ended| ended.borrow().is_some());
            if let Some(group) = &self.group {
                group.memory().sample();
            }
            // It says goodbye over HTTP; over pipes the end of input is the goodbye.
            let _ = service.close_with_timeout(GRACE).await;
            if let Some(carriers) = carriers {
                carriers.close_input();
            }
            if let (Some(group), Some(mut ended)) = (&mut self.group, ended) {
                let reads_input = carriers.is_some();
                let by_itself = reads_input && timeout(GRACE, ended.wait_for(Option::is_some)).await.is_ok();
                exit = if by_itself || had_ended { group.wait().await } else { group.terminate(GRACE).await };
                how = match (had_ended, by_itself, exit.signal) {
                    (true, ..) => How::Itself,
                    (_, true, _) => How::Closed,
                    (.., Some(9)) => How::Killed,
                    _ => How::Terminated,
                };
            }
        }
        if let Speaks::Cli(cli) = &mut self.speaks {
            exit = std::mem::take(&mut cli.exit);
        }
        self.said.settle(LAST_WORDS).await;
        self.said.close();
        self.wire.flush();
        Stopped { how, exit, counters: self.wire.counters() }
    }
}

/// Why the opening exchange failed.
enum NotOpened {
    Timeout,
    /// Its output ended.
    Closed,
    /// A message could not be sent.
    Broken(String),
    /// It answered, but not well.
    Refused(String),
}

async fn open<T, E, A>(
    transport: T,
    launch: &Launch,
    wire: &Wire,
    clock: Stopwatch,
) -> Result<RunningService<RoleClient, Plain>, NotOpened>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    let mode = match launch.lifecycle {
        Lifecycle::Initialize => ClientLifecycleMode::Initialize,
        Lifecycle::Discover => {
            ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
        }
    };
    let mut closing = wire.closing();
    let left = launch.start_timeout.saturating_sub(clock.elapsed());
    tokio::select! {
        biased;
        opened = Plain.serve_with_lifecycle(transport, mode) => opened.map_err(|error| match error {
            ClientInitializeError::ConnectionClosed(_) => NotOpened::Closed,
            ClientInitializeError::TransportError { error, context } => {
                NotOpened::Broken(format!("{context}: {}", chain(&error)))
            }
            other => NotOpened::Refused(short_text(&other.to_string())),
        }),
        () = until_closed(&mut closing) => Err(NotOpened::Closed),
        () = sleep(left) => Err(NotOpened::Timeout),
    }
}

fn child(launch: &Launch, stdin: Stdio) -> Spec {
    Spec {
        stdin,
        stdout: Stdio::Pipe,
        stderr: Stdio::Pipe,
        ..Spec::new(launch.command.clone(), launch.cwd.clone(), launch.env.clone(), &launch.marker)
    }
}

/// Closes the wire when the child has ended and its output had time to
/// arrive; a grandchild may hold the pipe open for ever.
fn close_after_end(mut ended: watch::Receiver<Option<Ending>>, wire: &Wire) {
    let wire = wire.clone();
    tokio::spawn(async move {
        if ended.wait_for(Option::is_some).await.is_ok() {
            let mut closing = wire.closing();
            let _ = timeout(LAST_OUTPUT, closing.wait_for(|closed| *closed)).await;
            wire.close();
        }
    });
}

fn info(service: &RunningService<RoleClient, Plain>) -> ServerInfo {
    let Some(info) = service.peer().peer_info() else { return ServerInfo::default() };
    let (name, version) =
        info.server_info.as_ref().map(|us| (us.name.clone(), us.version.clone())).unwrap_or_default();
    ServerInfo {
        name,
        version,
        protocol: info.protocol_version.to_string(),
        instructions: info.instructions.clone(),
        capabilities: serde_json::to_value(&info.capabilities).unwrap_or(Value::Null),
    }
}

fn answered(reply: Reply) -> (f64, Raw) {
    match reply {
        Reply::TooLarge { bytes, latency_ms } => (latency_ms, Raw::TooLarge(bytes)),
        Reply::Frame { mut frame, latency_ms } => {
            let raw = match frame.get_mut("error").map(Value::take) {
                Some(mut error) => Raw::Error {
                    code: error["code"].as_i64().unwrap_or(0),
                    message: error["message"].as_str().map_or_else(|| short(&error), str::to_owned),
                    data: error.get_mut("data").map(Value::take),
                },
                None => Raw::Result(frame.get_mut("result").map(Value::take).unwrap_or_default()),
            };
            (latency_ms, raw)
        }
    }
}

fn raw_of(outcome: Outcome) -> Raw {
    match outcome {
        Outcome::Reply(value) => Raw::Result(value),
        Outcome::RpcError { code, message, data } => Raw::Error { code, message, data },
        Outcome::Timeout => Raw::Timeout,
        Outcome::Died { words } => Raw::Died(words),
        Outcome::TooLarge { bytes } => Raw::TooLarge(bytes),
        Outcome::Unexpected(what) => Raw::Unexpected(what),
    }
}

/// Only a complete result counts; a request for input and a task do not.
fn as_tool_result(result: Value) -> Outcome {
    match result.get("resultType").and_then(Value::as_str) {
        None | Some("complete") => {}
        Some(other) => return Outcome::Unexpected(format!("the reply is of type `{other}`")),
    }
    if result.get("content").is_some_and(Value::is_array) || result.get("structuredContent").is_some() {
        Outcome::Reply(result)
    } else {
        Outcome::Unexpected(format!("the reply is no tool result: {}", short(&result)))
    }
}

/// Waits for the end of the connection. What `wait_for` returns is a lock on
/// the value; it must be gone before anybody else says that it is closed.
async fn until_closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closed| *closed).await;
}

/// `exited with code 3` or `was killed by signal 9`.
fn words_of(ending: Ending) -> String {
    Exit { code: ending.code, signal: ending.signal, ..Exit::default() }.words()
}

/// An error and its reasons on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(reason) = next {
        let words = reason.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        next = reason.source();
    }
    short_text(&text)
}
