//! The MCP client against a scripted server with a fault menu: every fault
//! ends within its deadline, with the outcome that it deserves.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proofline::artifact::code;
use proofline::clock::Stopwatch;
use proofline::manifest::server::{Lifecycle, Transport};
use proofline::mcp::wire::{RecordedOutcome, recorded};
use proofline::mcp::{Call, Client, How, Launch, Outcome, StartError, ToolsError, free_port};
use proofline::process::base_env;
use serde_json::{Map, Value, json};

/// The fake server: an example, which `cargo test` builds beside the tests.
fn fake() -> String {
    let exe = std::env::current_exe().unwrap();
    let fake = exe.parent().unwrap().parent().unwrap().join("examples/fake-mcp");
    assert!(fake.is_file(), "{} is not built: run `cargo test` or `cargo build --examples`", fake.display());
    fake.to_string_lossy().into_owned()
}

struct Bench {
    dir: tempfile::TempDir,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["home", "tmp", "corpus/src"] {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        let file = dir.path().join("corpus/src/main.py");
        proofline::fsio::write_plain(&file, b"import os\n\ndef url_for(x):\n    return x\n").unwrap();
        Self { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn launch(&self, flags: &[&str]) -> Launch {
        let mut command = vec![fake()];
        command.extend(flags.iter().map(|f| (*f).to_owned()));
        let env: BTreeMap<String, String> = base_env(&self.path("home"), &self.path("tmp"));
        Launch {
            transport: Transport::Stdio,
            command,
            url: None,
            cwd: self.path("corpus"),
            env,
            marker: format!("test-{}", self.dir.path().file_name().unwrap().to_string_lossy()),
            lifecycle: Lifecycle::Initialize,
            start_timeout: Duration::from_secs(10),
            wire_log: self.path("wire.jsonl"),
            stderr_log: self.path("stderr.log"),
            max_reply_bytes: Launch::MAX_REPLY,
        }
    }

    async fn start(&self, flags: &[&str]) -> Client {
        Client::start(&self.launch(flags)).await.unwrap()
    }

    fn wire(&self) -> String {
        String::from_utf8(proofline::fsio::read(&self.path("wire.jsonl")).unwrap()).unwrap()
    }

    /// Processes of this bench that still run.
    fn left(&self) -> usize {
        proofline::process::sweep(&self.launch(&[]).marker).len()
    }
}

fn args(value: Value) -> Map<String, Value> {
    value.as_object().unwrap().clone()
}

async fn search(client: &mut Client, deadline_ms: u64) -> Call {
    let deadline = Duration::from_millis(deadline_ms);
    client.call("search_code", args(json!({"query": "url_for", "limit": 5})), deadline).await
}

fn text(call: &Call) -> String {
    match &call.outcome {
        Outcome::Reply(value) => value["content"][0]["text"].as_str().unwrap_or_default().to_owned(),
        other => panic!("{other:?}"),
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_good_server_is_started_asked_and_ended() {
    let bench = Bench::new();
    let mut client = bench.start(&["--version", "2.3.4", "--log", "calls.log"]).await;
    assert_eq!(
        (client.server_info().name.as_str(), client.server_info().version.as_str()),
        ("fake", "2.3.4")
    );
    assert!(client.start_ms() > 0.0 && client.start_ms() < 5_000.0);
    let tools = client.tools(5 * SECOND).await.unwrap();
    let names: Vec<&str> = tools.iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["index_project", "search_code"]);
    assert_eq!(tools[1].schema["required"], json!(["query"]));
    let corpus = bench.path("corpus").to_string_lossy().into_owned();
    let indexed = client.call("index_project", args(json!({"path": corpus})), 5 * SECOND).await;
    assert!(text(&indexed).contains("\"indexed\":2"), "{indexed:?}");
    let found = search(&mut client, 5_000).await;
    assert!(text(&found).contains("src/main.py") && found.latency_ms > 0.0, "{found:?}");
    let unknown = client.call("nonsense", Map::new(), 5 * SECOND).await;
    assert!(matches!(&unknown.outcome, Outcome::Reply(v) if v["isError"] == true));
    let stopped = client.stop().await;
    assert_eq!((stopped.how, stopped.exit.code), (How::Closed, Some(0)));
    assert_eq!(stopped.counters.bad_frames(), 0, "{:?}", stopped.counters);
    assert!(stopped.exit.rss_mib > 0.0 && stopped.exit.survivors.is_empty(), "{stopped:?}");
    let calls = recorded(bench.wire().as_bytes());
    assert_eq!(calls.len(), 3);
    assert!(calls.iter().all(|c| matches!(c.outcome, RecordedOutcome::Reply(_))));
    assert_eq!(calls[1].arguments, json!({"query": "url_for", "limit": 5}));
    let log = String::from_utf8(proofline::fsio::read(&bench.path("corpus/calls.log")).unwrap()).unwrap();
    assert_eq!(log.lines().filter(|l| l.starts_with("start ")).count(), 1);
    assert!(log.contains("tools/call search_code"));
}

#[tokio::test]
async fn latency_is_the_servers_own() {
    let bench = Bench::new();
    let mut client = bench.start(&["--slow-first", "2:150"]).await;
    let calls = [search(&mut client, 5_000).await, search(&mut client, 5_000).await];
    assert!(calls.iter().all(|c| (149.0..400.0).contains(&c.latency_ms)), "{calls:?}");
    let third = search(&mut client, 5_000).await;
    assert!(third.latency_ms < 100.0, "{third:?}");
    client.stop().await;
}

#[tokio::test]
async fn failures_to_start_are_told_apart() {
    let bench = Bench::new();
    let mut missing = bench.launch(&[]);
    missing.command = vec!["no-such-server-xyz".to_owned()];
    let error = Client::start(&missing).await.unwrap_err();
    assert!(matches!(error, StartError::Spawn(_)), "{error}");
    assert_eq!(error.code(), code::SERVER_NOT_STARTED);

    let error = Client::start(&bench.launch(&["--exit-at-once"])).await.unwrap_err();
    assert!(matches!(&error, StartError::Died { how, .. } if how == "exited with code 3"), "{error}");
    assert_eq!(
        (error.code(), error.words()),
        (code::HANDSHAKE_FAILED, Some("fatal: the model could not be loaded"))
    );

    let mut silent = bench.launch(&["--never-initialize"]);
    silent.start_timeout = Duration::from_millis(400);
    let clock = Stopwatch::start();
    let error = Client::start(&silent).await.unwrap_err();
    assert!(matches!(error, StartError::Timeout { .. }), "{error}");
    assert!(clock.elapsed() < 4 * SECOND);
    assert_eq!(error.code(), code::HANDSHAKE_TIMEOUT);

    // A program that is no MCP server at all.
    let mut echo = bench.launch(&[]);
    echo.command = ["sh", "-c", "echo hello; echo sorry >&2; sleep 0.1"].map(String::from).to_vec();
    let error = Client::start(&echo).await.unwrap_err();
    assert!(matches!(&error, StartError::Died { words, .. } if words == "sorry"), "{error}");
    // One that refuses.
    echo.command = [
        "sh",
        "-c",
        "read x; echo '{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":-1,\"message\":\"no\"}}'; sleep 9",
    ]
    .map(String::from)
    .to_vec();
    let error = Client::start(&echo).await.unwrap_err();
    assert!(matches!(error, StartError::Protocol { .. }), "{error}");
    assert_eq!(bench.left(), 0);
}

#[tokio::test]
async fn death_in_a_call_is_known_at_once_and_for_good() {
    let bench = Bench::new();
    let mut client = bench.start(&["--die-in-call", "2"]).await;
    assert!(text(&search(&mut client, 5_000).await).contains("main.py"));
    let clock = Stopwatch::start();
    let died = search(&mut client, 20_000).await;
    assert!(clock.elapsed() < 3 * SECOND);
    let Outcome::Died { words } = &died.outcome else { panic!("{died:?}") };
    assert!(words.contains("exited with code 7") && words.contains("the engine crashed"), "{words}");
    assert_eq!(died.outcome.code(), Some(code::SERVER_DIED));
    let clock = Stopwatch::start();
    assert!(matches!(search(&mut client, 20_000).await.outcome, Outcome::Died { .. }));
    assert!(matches!(client.tools(20 * SECOND).await, Err(ToolsError::Died(_))));
    assert!(clock.elapsed() < Duration::from_millis(50));
    let stopped = client.stop().await;
    assert_eq!((stopped.how, stopped.exit.code), (How::Itself, Some(7)));
    assert_eq!(stopped.counters.not_json, 1, "half a reply");
}

#[tokio::test]
async fn a_server_that_closes_its_output_is_dead() {
    let bench = Bench::new();
    let mut client = bench.start(&["--close-stdout", "1"]).await;
    let clock = Stopwatch::start();
    let died = search(&mut client, 20_000).await;
    assert!(
        matches!(&died.outcome, Outcome::Died { words } if words.contains("closed its output")),
        "{died:?}"
    );
    assert!(clock.elapsed() < 3 * SECOND);
    let stopped = client.stop().await;
    assert_eq!(stopped.how, How::Terminated);
    assert_eq!(bench.left(), 0);
}

#[tokio::test]
async fn a_deadline_ends_a_call_and_the_server_goes_on() {
    let bench = Bench::new();
    let mut client = bench.start(&["--slow-first", "1:900"]).await;
    let clock = Stopwatch::start();
    let late = search(&mut client, 200).await;
    assert_eq!(late.outcome, Outcome::Timeout);
    assert!(clock.elapsed() < Duration::from_millis(700) && late.latency_ms >= 199.0);
    // The late reply is not taken for the next one's.
    let next = search(&mut client, 5_000).await;
    assert!(text(&next).contains("main.py"));
    let stopped = client.stop().await;
    assert_eq!((stopped.counters.late_replies, stopped.counters.unknown_ids), (1, 0));
    let outcomes: Vec<_> = recorded(bench.wire().as_bytes()).into_iter().map(|c| c.outcome).collect();
    assert_eq!(outcomes[0], RecordedOutcome::Without("timeout".to_owned()));
    assert!(matches!(outcomes[1], RecordedOutcome::Reply(_)));
}

#[tokio::test]
async fn fifty_megabytes_are_too_large_and_cost_no_memory() {
    let bench = Bench::new();
    let mut client = bench.start(&["--reply-mb", "50"]).await;
    let before = own_mib();
    let large = search(&mut client, 20_000).await;
    assert!(
        matches!(large.outcome, Outcome::TooLarge { bytes } if bytes > 50 << 20),
        "{:?}",
        large.outcome.code()
    );
    assert!(own_mib() - before < 60.0, "{} then {}", before, own_mib());
    assert_eq!(large.outcome.code(), Some(code::REPLY_TOO_LARGE));
    // The connection is as good as before.
    assert_eq!(client.tools(5 * SECOND).await.unwrap().len(), 2);
    let stopped = client.stop().await;
    assert_eq!(stopped.counters.over_long, 1);
    assert!(bench.wire().len() < 100_000);
}

fn own_mib() -> f64 {
    let status = proofline::fsio::read(Path::new("/proc/self/status")).unwrap();
    let status = String::from_utf8(status).unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<f64>().unwrap() / 1024.0
}

#[tokio::test]
async fn five_megabytes_are_taken() {
    let bench = Bench::new();
    let mut client = bench.start(&["--reply-mb", "5"]).await;
    assert_eq!(text(&search(&mut client, 20_000).await).len(), 5 << 20);
    client.stop().await;
}

#[tokio::test]
async fn a_flood_on_standard_error_blocks_nothing() {
    let bench = Bench::new();
    let mut client = bench.start(&["--flood-stderr", "20"]).await;
    assert!(text(&search(&mut client, 5_000).await).contains("main.py"));
    let stopped = client.stop().await;
    assert!(stopped.counters.stderr_bytes > 19 << 20);
    let log = proofline::fsio::read(&bench.path("stderr.log")).unwrap();
    assert!(log.len() < 2 << 20 && log.len() > 100_000, "{}", log.len());
}

#[tokio::test]
async fn garbage_half_lines_and_wrong_ids_are_counted_and_survived() {
    let bench = Bench::new();
    for (flag, kind) in [("--garbage", 0), ("--half-lines", 1), ("--wrong-ids", 2)] {
        let mut client = bench.start(&[flag]).await;
        let found = search(&mut client, 5_000).await;
        assert!(text(&found).contains("main.py"), "{flag}");
        let c = client.stop().await.counters;
        let counts = [(c.not_json, c.wrong_shape), (c.not_json, 0), (c.unknown_ids, 0)];
        // Two replies each: to `initialize` and to the search.
        let expected = [(6, 2), (2, 0), (4, 0)];
        assert_eq!(counts[kind], expected[kind], "{flag} {c:?}");
    }
    let mut client = bench.start(&["--only-wrong-ids"]).await;
    let clock = Stopwatch::start();
    assert_eq!(search(&mut client, 300).await.outcome, Outcome::Timeout);
    assert!(clock.elapsed() < SECOND);
    assert_eq!(client.stop().await.counters.unknown_ids, 1);
}

#[tokio::test]
async fn requests_of_the_server_are_answered_or_refused() {
    let bench = Bench::new();
    let mut client = bench.start(&["--server-requests"]).await;
    assert!(text(&search(&mut client, 5_000).await).contains("main.py"));
    let c = client.stop().await.counters;
    assert_eq!((c.pings, c.refused, c.bad_frames()), (2, 4, 0), "{c:?}");
}

#[tokio::test]
async fn pages_are_followed_and_loops_end() {
    let bench = Bench::new();
    let mut client = bench.start(&["--pages", "2"]).await;
    assert_eq!(client.tools(5 * SECOND).await.unwrap().len(), 2);
    client.stop().await;
    let mut client = bench.start(&["--page-loop"]).await;
    assert_eq!(client.tools(5 * SECOND).await, Err(ToolsError::Loop("again".to_owned())));
    client.stop().await;
    let mut client = bench.start(&["--endless-pages"]).await;
    assert!(matches!(client.tools(5 * SECOND).await, Err(ToolsError::TooMany(_))));
    client.stop().await;
}

#[tokio::test]
async fn errors_keep_their_kind() {
    let bench = Bench::new();
    let mut client = bench.start(&["--is-error"]).await;
    assert!(matches!(search(&mut client, 5_000).await.outcome, Outcome::Reply(v) if v["isError"] == true));
    client.stop().await;
    let mut client = bench.start(&["--rpc-error"]).await;
    let call = search(&mut client, 5_000).await;
    assert!(
        matches!(&call.outcome, Outcome::RpcError { code: -32603, message, .. } if message.contains("fetch failed"))
    );
    assert_eq!(call.outcome.code(), Some(code::CALL_ERROR));
    client.stop().await;
    let mut client = bench.start(&["--task-result"]).await;
    assert!(matches!(search(&mut client, 5_000).await.outcome, Outcome::Unexpected(_)));
    client.stop().await;
}

#[tokio::test]
async fn a_daemon_is_named_and_killed() {
    let bench = Bench::new();
    let mut client = bench.start(&["--daemon"]).await;
    search(&mut client, 5_000).await;
    let stopped = client.stop().await;
    assert!(stopped.exit.survivors.iter().any(|s| s.ends_with(" sleep")), "{stopped:?}");
    assert_eq!(bench.left(), 0);
}

#[tokio::test]
async fn a_grandchilds_memory_counts() {
    let bench = Bench::new();
    let mut client = bench.start(&["--grandchild-mb", "200"]).await;
    search(&mut client, 5_000).await;
    assert!(client.peak_mib().unwrap() > 180.0);
    let stopped = client.stop().await;
    assert!((200.0..220.0).contains(&stopped.exit.rss_mib), "{}", stopped.exit.rss_mib);
    assert_eq!(bench.left(), 0);
}

#[tokio::test]
async fn one_that_ignores_the_end_of_input_is_told() {
    let bench = Bench::new();
    let client = bench.start(&["--ignore-stdin-close"]).await;
    let clock = Stopwatch::start();
    let stopped = client.stop().await;
    assert_eq!((stopped.how, stopped.exit.signal), (How::Terminated, Some(15)));
    assert!(clock.elapsed() < 5 * SECOND);
}

#[tokio::test]
async fn dropping_a_client_kills_its_server() {
    let bench = Bench::new();
    let client = bench.start(&["--daemon", "--ignore-stdin-close"]).await;
    drop(client);
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(bench.left(), 0);
}

#[tokio::test]
async fn http_works_like_pipes() {
    let bench = Bench::new();
    let http = |flags: &[&str]| {
        let port = free_port().unwrap().to_string();
        let mut launch = bench.launch(&["--http", &port]);
        launch.command.extend(flags.iter().map(|f| (*f).to_owned()));
        launch.transport = Transport::Http;
        launch.url = Some(format!("http://127.0.0.1:{port}/mcp"));
        launch
    };
    let ours = http(&[]);
    let mut client = Client::start(&ours).await.unwrap();
    assert_eq!(client.server_info().name, "fake");
    assert_eq!(client.tools(5 * SECOND).await.unwrap().len(), 2);
    let found = search(&mut client, 5_000).await;
    assert!(text(&found).contains("main.py") && found.latency_ms > 0.0);
    // Another client of the same server, which isn't its child.
    let mut guest = bench.launch(&[]);
    guest.command.clear();
    guest.transport = Transport::Http;
    guest.url.clone_from(&ours.url);
    guest.wire_log = bench.path("guest.jsonl");
    let mut guest = Client::start(&guest).await.unwrap();
    assert!(text(&search(&mut guest, 5_000).await).contains("main.py"));
    let stopped = guest.stop().await;
    assert_eq!((stopped.how, stopped.exit.rss_mib), (How::NotOurs, 0.0));
    let stopped = client.stop().await;
    assert_eq!(stopped.how, How::Terminated);
    assert!(stopped.exit.rss_mib > 0.0);
    assert!(recorded(bench.wire().as_bytes()).iter().any(|c| c.tool == "search_code"));

    let mut client = Client::start(&http(&["--die-in-call", "1"])).await.unwrap();
    let clock = Stopwatch::start();
    let died = search(&mut client, 20_000).await;
    assert!(matches!(&died.outcome, Outcome::Died { words } if words.contains("code 7")), "{died:?}");
    assert!(matches!(search(&mut client, 20_000).await.outcome, Outcome::Died { .. }));
    assert!(clock.elapsed() < 5 * SECOND);
    client.stop().await;

    let mut client = Client::start(&http(&["--reply-mb", "50"])).await.unwrap();
    let large = search(&mut client, 20_000).await;
    assert!(matches!(large.outcome, Outcome::TooLarge { .. }), "{large:?}");
    client.stop().await;

    let mut client = Client::start(&http(&["--slow-first", "1:900"])).await.unwrap();
    let clock = Stopwatch::start();
    assert_eq!(search(&mut client, 200).await.outcome, Outcome::Timeout);
    assert!(clock.elapsed() < SECOND);
    client.stop().await;

    let mut silent = http(&["--never-initialize"]);
    silent.start_timeout = SECOND;
    assert!(matches!(Client::start(&silent).await, Err(StartError::Timeout { .. })));
    let gone = Client::start(&http(&["--exit-at-once"])).await.unwrap_err();
    assert!(matches!(&gone, StartError::Died { .. }), "{gone}");
    let mut nobody = http(&[]);
    nobody.command.clear();
    assert!(matches!(Client::start(&nobody).await, Err(StartError::Unreachable(_))));
    assert_eq!(bench.left(), 0);
}

#[tokio::test]
async fn the_command_line_transport_passes_arguments_as_they_are() {
    let bench = Bench::new();
    let cli = |flags: &[&str]| {
        let mut launch = bench.launch(flags);
        launch.transport = Transport::Cli;
        launch
    };
    let mut client = Client::start(&cli(&["--log", "calls.log"])).await.unwrap();
    assert_eq!(client.tools(5 * SECOND).await.unwrap().len(), 2);
    let corpus = bench.path("corpus").to_string_lossy().into_owned();
    client.call("index_project", args(json!({"path": corpus})), 5 * SECOND).await;
    let query = "def url_for(x):\n    return x 'quoted' \"twice\"  $HOME";
    let found = client.call("search_code", args(json!({"query": query, "limit": 3})), 5 * SECOND).await;
    assert!(matches!(found.outcome, Outcome::Reply(_)), "{found:?}");
    let found = search(&mut client, 5_000).await;
    assert!(text(&found).contains("main.py"));
    let stopped = client.stop().await;
    assert_eq!(stopped.how, How::NotOurs);
    assert!(stopped.exit.survivors.is_empty());
    let calls = recorded(bench.wire().as_bytes());
    assert_eq!(calls.len(), 3);
    assert_eq!(calls[1].arguments["query"], query);
    assert!(matches!(calls[2].outcome, RecordedOutcome::Reply(_)));

    let mut client = Client::start(&cli(&["--rpc-error"])).await.unwrap();
    let failed = search(&mut client, 5_000).await;
    assert!(
        matches!(&failed.outcome, Outcome::RpcError { code: 1, message, .. } if message.contains("fetch failed")),
        "{failed:?}"
    );
    client.stop().await;
    let mut client = Client::start(&cli(&["--slow", "5000"])).await.unwrap();
    let clock = Stopwatch::start();
    assert_eq!(search(&mut client, 200).await.outcome, Outcome::Timeout);
    assert!(clock.elapsed() < 4 * SECOND);
    assert!(client.stop().await.exit.rss_mib > 0.3);
    let mut client = Client::start(&cli(&["--reply-mb", "50"])).await.unwrap();
    assert!(matches!(search(&mut client, 20_000).await.outcome, Outcome::TooLarge { .. }));
    client.stop().await;
}

#[tokio::test]
async fn the_newer_opening_is_spoken_where_asked_for() {
    let bench = Bench::new();
    let mut launch = bench.launch(&["--discover"]);
    launch.lifecycle = Lifecycle::Discover;
    let mut client = Client::start(&launch).await.unwrap();
    assert_eq!(client.server_info().name, "fake");
    assert_eq!(client.server_info().protocol, "2026-07-28");
    assert_eq!(client.tools(5 * SECOND).await.unwrap().len(), 2);
    assert!(text(&search(&mut client, 5_000).await).contains("main.py"));
    assert_eq!(client.stop().await.counters.bad_frames(), 0);
    // Each kind of server refuses the other opening, at once.
    let clock = Stopwatch::start();
    let mut old = bench.launch(&[]);
    old.lifecycle = Lifecycle::Discover;
    assert!(matches!(Client::start(&old).await, Err(StartError::Protocol { .. })));
    assert!(matches!(Client::start(&bench.launch(&["--discover"])).await, Err(StartError::Protocol { .. })));
    assert!(clock.elapsed() < 5 * SECOND);
}

#[tokio::test]
async fn odd_paths_come_through_whole() {
    let bench = Bench::new();
    let mut client = bench.start(&["--unicode"]).await;
    let found = text(&search(&mut client, 5_000).await);
    assert!(found.contains("日本.py") && found.contains("src\\\\Größe"), "{found}");
    client.stop().await;
}

/// The engine runs clients as tasks.
#[test]
fn a_clients_futures_can_be_spawned() {
    fn sendable<T: Send>(_: &T) {}
    let bench = Bench::new();
    let launch = bench.launch(&[]);
    let whole = async move {
        let mut client = Client::start(&launch).await.unwrap();
        client.tools(SECOND).await.unwrap();
        client.call("x", Map::new(), SECOND).await;
        client.stop().await
    };
    sendable(&whole);
}
