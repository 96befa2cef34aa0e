//! Recorded streams of real agents: each means what was taken by hand from the reference
//! and from the sample itself, before the readers were written.

use std::path::{Path, PathBuf};

use proofline::agent::{self, Hints, ReadError};
use proofline::artifact::steps::{self, Split};
use proofline::artifact::transcript::{Dialect, Fault, LimitKind, Transcript, Usage, What};

#[expect(clippy::print_stdout, reason = "says that a test was skipped")]
fn oracle() -> Option<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let folder = shared.join("oracle");
    #[expect(clippy::disallowed_methods, reason = "a test asks whether it runs in CI")]
    let in_ci = std::env::var("CI").is_ok_and(|v| v == "true");
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(!(in_ci && shared.exists()), "the oracle is missing beside the repository");
    println!("skipped: no oracle");
    None
}

/// What a stream means. Usages are `input/output/cache read/cache write`, `-` where unknown.
#[derive(Clone, Copy)]
struct Row {
    file: &'static str,
    dialect: Dialect,
    agent: Option<&'static str>,
    models: &'static str,
    servers: &'static str,
    /// Offered tools: all, and those of MCP servers.
    tools: (usize, usize),
    answer: &'static str,
    last: Option<&'static str>,
    usage: Option<&'static str>,
    main: Option<&'static str>,
    messages: Option<&'static str>,
    messages_main: Option<&'static str>,
    cost: Option<f64>,
    ms: Option<f64>,
    /// `subtype` or `subtype!` for a turn that failed.
    turns: &'static str,
    /// `^` a sub-agent's, `server/tool`, `!` failed, `?` without a reply.
    calls: &'static str,
    faults: &'static str,
}

const LOOK: &str = "I will look for url_for first.";
const FOUND: &str =
    "`url_for` is defined at src/flask/helpers.py:195 and as a method at src/flask/app.py:1003.";
const BOTH: &str = "I will look for url_for first.\n`url_for` is defined at src/flask/helpers.py:195 and as a method at src/flask/app.py:1003.";
const CODEX_WARNING: &str = "Model metadata for `gpt-5` not found. Defaulting to fallback metadata; this can degrade performance and cause issues.";

const CLAUDE: Row = Row {
    file: "",
    dialect: Dialect::Claude,
    agent: Some("claude-code 2.1.197"),
    models: "claude-sonnet-4-5",
    servers: "",
    tools: (4, 0),
    answer: "",
    last: None,
    usage: None,
    main: None,
    messages: None,
    messages_main: None,
    cost: None,
    ms: None,
    turns: "success",
    calls: "",
    faults: "",
};
/// A request that failed for good: nothing was said, and nothing was spent.
const REFUSED: Row =
    Row { usage: Some("0/0/0/0"), main: Some("0/0/0/0"), cost: Some(0.0), turns: "success!", ..CLAUDE };
/// The session of three model calls: grep, search on the server, answer.
const THREE: Row = Row {
    servers: "codeindex=connected",
    tools: (18, 14),
    answer: BOTH,
    last: Some(FOUND),
    usage: Some("1420/105/1850/1010"),
    main: Some("1420/105/1850/1010"),
    messages: Some("1420/-/1850/1010"),
    messages_main: Some("1420/-/1850/1010"),
    cost: Some(0.010_177_5),
    calls: "Grep codeindex/search_code_advanced",
    ..CLAUDE
};
const CODEX: Row =
    Row { dialect: Dialect::Codex, agent: None, models: "", tools: (0, 0), turns: "completed", ..CLAUDE };

fn rows() -> Vec<Row> {
    vec![
        Row { file: "claude-stream.jsonl", ms: Some(462.0), ..THREE },
        Row {
            file: "claude-2.1.332-stream-ok.jsonl",
            agent: Some("claude-code 2.1.332"),
            ms: Some(663.0),
            ..THREE
        },
        Row {
            file: "claude-2.1.332-stream-api-400.jsonl",
            agent: Some("claude-code 2.1.332"),
            tools: (26, 0),
            ms: Some(538.0),
            faults: "api-error 400 `API Error: 400 scripted invalid_request_error`",
            ..REFUSED
        },
        // One object instead of a stream: the only prose is the record's.
        Row {
            file: "claude-json-output.json",
            agent: None,
            tools: (0, 0),
            answer: "[fake model: none of ['mcp__codeindex__search_code_advanced'] offered]",
            last: Some("[fake model: none of ['mcp__codeindex__search_code_advanced'] offered]"),
            usage: Some("1300/70/900/950"),
            main: Some("1300/70/900/950"),
            cost: Some(0.008_782_5),
            ms: Some(1513.0),
            ..CLAUDE
        },
        Row {
            file: "claude-stream-api-400.jsonl",
            ms: Some(881.0),
            faults: "api-error 400 `API Error: 400 scripted invalid_request_error`",
            ..REFUSED
        },
        // Killed while it was still asking again.
        Row {
            file: "claude-stream-api-401-killed.jsonl",
            turns: "",
            faults: "retried 7 401; no-final-record",
            ..CLAUDE
        },
        Row {
            file: "claude-stream-api-404.jsonl",
            ms: Some(999.0),
            faults: "api-error 404 `There's an issue with the selected model (claude-sonnet-4-5). It may not exist or you may not have access to it. Run --model to pick a different model.`",
            ..REFUSED
        },
        Row {
            file: "claude-stream-api-429.jsonl",
            ms: Some(1055.0),
            faults: "retried 1 429; rate-limited `API Error: Request rejected (429) \u{b7} scripted rate_limit_error`",
            ..REFUSED
        },
        Row {
            file: "claude-stream-api-529.jsonl",
            ms: Some(1060.0),
            faults: "retried 1 529; api-error 529 `API Error: 529 scripted overloaded_error. This is a server-side issue, usually temporary \u{2014} try again in a moment. If it persists, check your inference gateway (127.0.0.1:8399).`",
            ..REFUSED
        },
        Row {
            file: "claude-stream-api-unreachable.jsonl",
            ms: Some(994.0),
            faults: "retried 1 -; api-error - `API Error: Unable to connect to API (ConnectionRefused)`",
            ..REFUSED
        },
        // The second request went out again without streaming: its reply has all its tokens, the
        // main thread's record lacks it, and the record by model has it.
        Row {
            file: "claude-stream-cut-stream.jsonl",
            answer: "cut here and this is a long text which is going to be truncated in the middle of the stream because of cut",
            last: Some(
                "cut here and this is a long text which is going to be truncated in the middle of the stream because of cut",
            ),
            usage: Some("23240/39/0/0"),
            main: Some("11585/12/0/0"),
            messages: Some("23240/-/0/0"),
            messages_main: Some("23240/-/0/0"),
            cost: Some(0.070_305),
            ms: Some(1017.0),
            calls: "Grep",
            ..CLAUDE
        },
        Row { file: "claude-stream-killed.jsonl", turns: "", faults: "no-final-record", ..CLAUDE },
        // The main thread's record is all zeros here, which is not what was spent: unknown.
        Row {
            file: "claude-stream-max-budget.jsonl",
            servers: "codeindex=connected",
            tools: (43, 14),
            answer: LOOK,
            usage: Some("1200/40/0/900"),
            messages: Some("1200/-/0/900"),
            messages_main: Some("1200/-/0/900"),
            cost: Some(0.007_575),
            ms: Some(218.0),
            turns: "error_max_budget_usd!",
            calls: "Grep?",
            faults: "limit budget 0.005",
            ..CLAUDE
        },
        Row {
            file: "claude-stream-max-turns.jsonl",
            servers: "codeindex=connected",
            tools: (43, 14),
            answer: LOOK,
            usage: Some("1300/70/900/950"),
            main: Some("1300/70/900/950"),
            messages: Some("1300/-/900/950"),
            messages_main: Some("1300/-/900/950"),
            cost: Some(0.008_782_5),
            ms: Some(637.0),
            turns: "error_max_turns!",
            calls: "Grep codeindex/search_code_advanced",
            faults: "limit turns 2",
            ..CLAUDE
        },
        Row {
            file: "claude-stream-mcp-failed-and-alwaysload.jsonl",
            servers: "codeindex=connected broken=failed missing=failed",
            tools: (43, 14),
            ms: Some(563.0),
            faults: "server-not-connected broken failed; server-not-connected missing failed",
            ..THREE
        },
        Row {
            file: "claude-stream-parallel-and-tool-errors.jsonl",
            answer: "first answer\nsecond answer, src/flask/helpers.py:195",
            last: Some("second answer, src/flask/helpers.py:195"),
            usage: Some("35632/99/0/0"),
            main: Some("35632/99/0/0"),
            messages: Some("35632/-/0/0"),
            messages_main: Some("35632/-/0/0"),
            cost: Some(0.108_380_999_999_999_99),
            ms: Some(1652.0),
            calls: "Grep Read Read! Bash! NoSuchTool!",
            faults: "permission-denied Bash",
            ..CLAUDE
        },
        // Partial messages say how many tokens came out.
        Row {
            file: "claude-stream-partial-messages.jsonl",
            answer: "I will look for url_for first.\n[fake model: none of ['mcp__codeindex__search_code_advanced'] offered]",
            last: Some("[fake model: none of ['mcp__codeindex__search_code_advanced'] offered]"),
            usage: Some("1300/70/900/950"),
            main: Some("1300/70/900/950"),
            messages: Some("1300/70/900/950"),
            messages_main: Some("1300/70/900/950"),
            cost: Some(0.008_782_5),
            ms: Some(1257.0),
            calls: "Grep",
            ..CLAUDE
        },
        Row {
            file: "claude-stream-permission-denied.jsonl",
            tools: (43, 14),
            ms: Some(520.0),
            calls: "Grep codeindex/search_code_advanced!",
            faults: "permission-denied mcp__codeindex__search_code_advanced",
            ..THREE
        },
        Row {
            file: "claude-stream-resume-fork.jsonl",
            answer: "step three answer",
            last: Some("step three answer"),
            usage: Some("11833/5/0/0"),
            main: Some("11833/5/0/0"),
            messages: Some("11833/-/0/0"),
            messages_main: Some("11833/-/0/0"),
            cost: Some(0.035_574),
            ms: Some(325.0),
            ..CLAUDE
        },
        Row {
            file: "claude-stream-resume-step1.jsonl",
            answer: "step one answer: src/flask/helpers.py:195",
            last: Some("step one answer: src/flask/helpers.py:195"),
            usage: Some("23246/23/0/0"),
            main: Some("23246/23/0/0"),
            messages: Some("23246/-/0/0"),
            messages_main: Some("23246/-/0/0"),
            cost: Some(0.070_083),
            ms: Some(724.0),
            calls: "Grep",
            ..CLAUDE
        },
        Row {
            file: "claude-stream-resume-step2.jsonl",
            answer: "step two answer: src/flask/app.py:109",
            last: Some("step two answer: src/flask/app.py:109"),
            usage: Some("23494/22/0/0"),
            main: Some("23494/22/0/0"),
            messages: Some("23494/-/0/0"),
            messages_main: Some("23494/-/0/0"),
            cost: Some(0.070_812),
            ms: Some(750.0),
            calls: "Grep",
            ..CLAUDE
        },
        // Two prompts to one process: by-model tokens and cost go on counting, the rest is per turn.
        Row {
            file: "claude-stream-stream-json-input.jsonl",
            answer: "step one answer: src/flask/helpers.py:195\nstep two answer: src/flask/app.py:109",
            last: Some("step two answer: src/flask/app.py:109"),
            usage: Some("46740/45/0/0"),
            main: Some("46740/45/0/0"),
            messages: Some("46740/-/0/0"),
            messages_main: Some("46740/-/0/0"),
            cost: Some(0.140_895_000_000_000_02),
            ms: Some(880.0),
            turns: "success success",
            calls: "Grep Grep",
            ..CLAUDE
        },
        // Sub-agents below the first are not in the stream, but in the record by model.
        Row {
            file: "claude-stream-subagent.jsonl",
            tools: (24, 0),
            answer: "final from whoever",
            last: Some("final from whoever"),
            usage: Some("201479/170/0/0"),
            main: Some("58041/32/0/0"),
            messages: Some("73901/-/0/0"),
            messages_main: Some("58041/-/0/0"),
            cost: Some(0.606_986_999_999_999_9),
            ms: Some(1888.0),
            calls: "Agent ^Agent",
            ..CLAUDE
        },
        Row {
            file: "claude-stream-toolsearch.jsonl",
            servers: "codeindex=connected",
            tools: (44, 14),
            answer: "src/flask/helpers.py:195",
            last: Some("src/flask/helpers.py:195"),
            usage: Some("68958/49/0/0"),
            main: Some("68958/49/0/0"),
            messages: Some("68958/-/0/0"),
            messages_main: Some("68958/-/0/0"),
            cost: Some(0.207_609),
            ms: Some(278.0),
            calls: "ToolSearch codeindex/search_code_advanced",
            ..CLAUDE
        },
        // Input counts what was read from the cache, and writes are not told.
        Row {
            file: "qwen-stream.jsonl",
            dialect: Dialect::Qwen,
            agent: Some("qwen-code 0.15.10"),
            models: "fake-model",
            servers: "codeindex=connected",
            tools: (27, 14),
            answer: BOTH,
            last: Some(FOUND),
            usage: Some("19528/125/1900/-"),
            main: Some("19528/125/1900/-"),
            messages: Some("19528/125/1900/-"),
            messages_main: Some("19528/125/1900/-"),
            ms: Some(1316.0),
            calls: "Grep ToolSearch codeindex/search_code_advanced",
            ..CLAUDE
        },
        // Says success, but the words are the program's.
        Row {
            file: "qwen-stream-api-400.jsonl",
            dialect: Dialect::Qwen,
            agent: Some("qwen-code 0.15.10"),
            models: "fake-model",
            tools: (13, 0),
            usage: Some("0/0/0/-"),
            main: Some("0/0/0/-"),
            ms: Some(305.0),
            turns: "success!",
            faults: "api-error 400 `[API Error: 400 scripted invalid_request_error]`",
            ..CLAUDE
        },
        Row {
            file: "codex-exec.jsonl",
            servers: "codeindex",
            answer: BOTH,
            last: Some(FOUND),
            usage: Some("36992/63/0/0"),
            main: Some("36992/63/0/0"),
            calls: "Bash codeindex/search_code_advanced",
            ..CODEX
        },
        Row {
            file: "codex-exec-mcp-not-approved.jsonl",
            servers: "codeindex",
            answer: BOTH,
            last: Some(FOUND),
            usage: Some("36949/63/0/0"),
            main: Some("36949/63/0/0"),
            calls: "Bash codeindex/search_code_advanced!",
            faults: "permission-denied mcp__codeindex__search_code_advanced",
            ..CODEX
        },
        Row {
            file: "codex-exec-api-401.jsonl",
            turns: "failed!",
            faults: "api-error 401 `unexpected status 401 Unauthorized: scripted authentication_error, url: http://127.0.0.1:8399/s/err401/v1/responses`",
            ..CODEX
        },
        Row {
            file: "codex-exec-resume-1.jsonl",
            answer: "step one answer: src/flask/helpers.py:195",
            last: Some("step one answer: src/flask/helpers.py:195"),
            usage: Some("20421/26/0/0"),
            main: Some("20421/26/0/0"),
            calls: "Bash",
            ..CODEX
        },
        // By itself it cannot know what the thread had counted before.
        Row {
            file: "codex-exec-resume-2.jsonl",
            answer: "step two answer: src/flask/app.py:109",
            last: Some("step two answer: src/flask/app.py:109"),
            usage: Some("41323/60/0/0"),
            main: Some("41323/60/0/0"),
            calls: "Bash",
            ..CODEX
        },
        // The server is known when the caller names it; see below for a stream by itself.
        Row {
            file: "opencode-run.jsonl",
            dialect: Dialect::Opencode,
            agent: None,
            models: "",
            servers: "codeindex",
            tools: (0, 0),
            answer: BOTH,
            last: Some(FOUND),
            usage: Some("2000/105/1900/0"),
            messages: Some("2000/105/1900/0"),
            messages_main: Some("2000/105/1900/0"),
            cost: Some(0.008_145),
            turns: "stop",
            calls: "Grep codeindex/search_code_advanced",
            ..CLAUDE
        },
        Row {
            file: "opencode-run-api-401.jsonl",
            dialect: Dialect::Opencode,
            agent: None,
            models: "",
            tools: (0, 0),
            turns: "error!",
            faults: "api-error 401 `scripted authentication_error`",
            ..CLAUDE
        },
    ]
}

fn usage(of: Option<Usage>) -> Option<String> {
    let word = |n: Option<u64>| n.map_or("-".to_owned(), |n| n.to_string());
    of.map(|u| [u.input, u.output, u.cache_read, u.cache_write].map(word).join("/"))
}

fn status(of: Option<u16>) -> String {
    of.map_or("-".to_owned(), |s| s.to_string())
}

fn fault(of: &Fault) -> String {
    match of {
        Fault::ApiError { status: code, text } => format!("api-error {} `{text}`", status(*code)),
        Fault::RateLimited { text } => format!("rate-limited `{text}`"),
        Fault::Retried { times, status: code } => format!("retried {times} {}", status(*code)),
        Fault::Cut => "cut".to_owned(),
        Fault::NoFinalRecord => "no-final-record".to_owned(),
        Fault::Limit { which, value } => {
            let which = match which {
                LimitKind::Turns => "turns",
                LimitKind::Budget => "budget",
                _ => "other",
            };
            format!("limit {which} {}", value.map_or("-".to_owned(), |v| v.to_string()))
        }
        Fault::AgentError { text } => format!("agent-error `{text}`"),
        Fault::ServerNotConnected { name, status } => format!("server-not-connected {name} {status}"),
        Fault::PermissionDenied { tool } => format!("permission-denied {tool}"),
        Fault::UnreadableLines { lines } => format!("unreadable-lines {lines}"),
    }
}

fn calls(of: &Transcript) -> String {
    let word = |(entry, call, reply): &(&_, &proofline::artifact::transcript::Call, Option<&_>)| {
        let entry: &proofline::artifact::transcript::Entry = entry;
        let reply: Option<&proofline::artifact::transcript::Reply> = *reply;
        let who = if entry.sub_agent { "^" } else { "" };
        let server = call.server.as_ref().map(|s| format!("{s}/")).unwrap_or_default();
        let end = match reply {
            Some(reply) if reply.error => "!",
            Some(_) => "",
            None => "?",
        };
        format!("{who}{server}{}{end}", call.tool)
    };
    of.exchanges().iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Counts comparisons, so that a test which compares nothing is seen.
#[derive(Default)]
struct Checks {
    done: usize,
    wrong: Vec<String>,
}

impl Checks {
    fn equal<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, have: T, want: T) {
        self.done += 1;
        if have != want {
            self.wrong.push(format!("{what}: {have:?} instead of {want:?}"));
        }
    }

    #[expect(clippy::print_stdout, reason = "says how much was compared")]
    fn end(self) {
        println!("oracle checks: {}", self.done);
        assert!(self.done > 0 && self.wrong.is_empty(), "{}", self.wrong.join("\n"));
    }
}

fn load(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("the oracle's file")
}

#[test]
fn every_recorded_stream_means_what_it_should() {
    let Some(oracle) = oracle() else { return };
    let dir = oracle.join("agents");
    let mut checks = Checks::default();
    for row in rows() {
        let bytes = load(&dir.join(row.file));
        let name = |what: &str| format!("{} {what}", row.file);
        checks.equal(&name("dialect"), agent::detect(&bytes).ok(), Some(row.dialect));
        let hints = Hints { servers: vec!["codeindex".to_owned()], ..Hints::default() };
        let hints = if row.dialect == Dialect::Opencode { hints } else { Hints::default() };
        let got = agent::read_with(row.dialect, &bytes, &hints).expect("a transcript");
        checks.equal(&name("agent"), got.agent.as_deref(), row.agent);
        checks.equal(&name("models"), got.models.join(" "), row.models.to_owned());
        let servers: Vec<String> = got
            .servers
            .iter()
            .map(|s| match &s.status {
                Some(status) => format!("{}={status}", s.name),
                None => s.name.clone(),
            })
            .collect();
        checks.equal(&name("servers"), servers.join(" "), row.servers.to_owned());
        let of_servers = got.tools.iter().filter(|t| t.starts_with("mcp__")).count();
        checks.equal(&name("tools"), (got.tools.len(), of_servers), row.tools);
        checks.equal(&name("answer"), got.answer().as_str(), row.answer);
        checks.equal(&name("final message"), got.final_message().as_deref(), row.last);
        checks.equal(&name("usage"), usage(got.usage).as_deref(), row.usage);
        checks.equal(&name("usage, main"), usage(got.usage_main).as_deref(), row.main);
        checks.equal(&name("usage, messages"), usage(got.usage_messages).as_deref(), row.messages);
        let messages_main = usage(got.usage_messages_main);
        checks.equal(&name("usage, messages of main"), messages_main.as_deref(), row.messages_main);
        let close = match (got.cost_usd, row.cost) {
            (Some(have), Some(want)) => (have - want).abs() < 1e-12,
            (have, want) => have == want,
        };
        checks.equal(&name(&format!("cost {:?}", got.cost_usd)), close, true);
        checks.equal(&name("duration"), got.duration_ms, row.ms);
        let turns: Vec<String> = got
            .turns
            .iter()
            .map(|t| format!("{}{}", t.subtype.as_deref().unwrap_or("-"), if t.error { "!" } else { "" }))
            .collect();
        checks.equal(&name("turns"), turns.join(" "), row.turns.to_owned());
        checks.equal(&name("calls"), calls(&got), row.calls.to_owned());
        let faults: Vec<String> = got.faults.iter().map(fault).collect();
        checks.equal(&name("faults"), faults.join("; "), row.faults.to_owned());
        let cwd = (row.dialect == Dialect::Claude || row.dialect == Dialect::Qwen)
            && row.file != "claude-json-output.json";
        checks.equal(&name("cwd"), got.cwd.as_deref(), cwd.then_some("/bench/src/flask-3.1.2"));
        // What is written into a store is read back as it was.
        let written = proofline::artifact::to_json(&got);
        checks.equal(&name("as JSON"), proofline::artifact::from_json(&written).ok(), Some(got));
    }
    checks.end();
}

#[test]
fn every_stream_in_the_folder_has_a_row() {
    let Some(oracle) = oracle() else { return };
    let mut checks = Checks::default();
    let known: Vec<&str> = rows().iter().map(|r| r.file).collect();
    let mut found: Vec<String> = std::fs::read_dir(oracle.join("agents"))
        .expect("a folder")
        .map(|e| e.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| Path::new(name).extension().is_some_and(|e| e == "jsonl"))
        .collect();
    found.sort();
    for name in found {
        let other = name.starts_with("gemini-") || name.starts_with("pi-");
        checks.equal(&name, known.contains(&name.as_str()), !other);
    }
    checks.end();
}

/// Streams of agents that have no reader are refused in words, with their first line.
#[test]
fn other_streams_are_refused() {
    let Some(oracle) = oracle() else { return };
    let mut checks = Checks::default();
    for (file, first) in [
        ("gemini-stream.jsonl", "{\"type\":\"init\",\"timestamp\":"),
        ("gemini-stream-api-400.jsonl", "{\"type\":\"init\",\"timestamp\":"),
        ("pi-json.jsonl", "{\"type\":\"session\",\"version\":3"),
    ] {
        let bytes = load(&oracle.join("agents").join(file));
        let refused = agent::detect(&bytes).expect_err("not one of ours");
        checks.equal(file, refused.to_string().contains(first), true);
        for dialect in [Dialect::Claude, Dialect::Codex, Dialect::Opencode, Dialect::Atif] {
            let refused = agent::read(dialect, &bytes).is_err();
            checks.equal(&format!("{file} as {}", dialect.name()), refused, true);
        }
    }
    let claude = load(&oracle.join("agents/claude-stream.jsonl"));
    let codex = load(&oracle.join("agents/codex-exec.jsonl"));
    let mixed = [claude.as_slice(), &codex].concat();
    let refused = agent::read(Dialect::Claude, &mixed);
    checks.equal("mixed", matches!(refused, Err(ReadError::Mixed { line: 9, .. })), true);
    let refused = agent::read(Dialect::Opencode, &claude);
    checks.equal("claude as opencode", refused.is_err(), true);
    checks.end();
}

/// Runs of one session in several processes, one file after the other.
#[test]
fn resumed_sessions_count_each_turn_once() {
    let Some(oracle) = oracle() else { return };
    let dir = oracle.join("agents");
    let mut checks = Checks::default();
    let one = load(&dir.join("codex-exec-resume-1.jsonl"));
    let two = load(&dir.join("codex-exec-resume-2.jsonl"));
    let codex = agent::read(Dialect::Codex, &[one, two.clone()].concat()).expect("a transcript");
    checks.equal("codex, whole", usage(codex.usage).as_deref(), Some("41323/60/0/0"));
    let turns: Vec<_> = codex.turns.iter().map(|t| usage(t.usage)).collect();
    let want = ["20421/26/0/0", "20902/34/0/0"].map(|t| Some(t.to_owned()));
    checks.equal("codex, turns", turns, want.to_vec());
    checks.equal(
        "codex, second",
        codex.turn_answer(1).as_deref(),
        Some("step two answer: src/flask/app.py:109"),
    );
    checks.equal(
        "codex, first",
        codex.turn_answer(0).as_deref(),
        Some("step one answer: src/flask/helpers.py:195"),
    );
    checks.equal("codex, no third", codex.turn_answer(2), None);
    checks.equal("codex, calls", calls(&codex), "Bash Bash".to_owned());
    let before = Usage { input: Some(20421), output: Some(26), cache_read: Some(0), cache_write: Some(0) };
    let hints = Hints { before: Some(before), ..Hints::default() };
    let alone = agent::read_with(Dialect::Codex, &two, &hints).expect("a transcript");
    checks.equal("codex, second alone", usage(alone.usage).as_deref(), Some("20902/34/0/0"));

    let steps = ["resume-step1", "resume-step2"];
    let bytes: Vec<Vec<u8>> =
        steps.iter().map(|s| load(&dir.join(format!("claude-stream-{s}.jsonl")))).collect();
    let claude = agent::read(Dialect::Claude, &bytes.concat()).expect("a transcript");
    // Each process counts from 0: 23246 and 23494 are not 248 apart, but two sums.
    checks.equal("claude, whole", usage(claude.usage).as_deref(), Some("46740/45/0/0"));
    checks.equal("claude, cost", claude.cost_usd.map(|c| (c * 1e6).round()), Some(140_895.0));
    let stream = load(&dir.join("claude-stream-stream-json-input.jsonl"));
    let stream = agent::read(Dialect::Claude, &stream).expect("a transcript");
    for (turn, want) in [(0_u32, "23246/23/0/0"), (1, "23494/22/0/0")] {
        for (name, of) in [("resumed", &claude), ("one process", &stream)] {
            let end = &of.turns[turn as usize];
            checks.equal(&format!("{name}, turn {turn}"), usage(end.usage).as_deref(), Some(want));
            let text = end.text.clone();
            checks.equal(&format!("{name}, answer of turn {turn}"), of.turn_answer(turn), text);
            let cents = end.cost_usd.map(|c| (c * 1e6).round());
            checks.equal(
                &format!("{name}, cost of turn {turn}"),
                cents,
                Some([70083.0, 70812.0][turn as usize]),
            );
        }
    }
    checks.equal(
        "one process, calls of its turns",
        stream.turns.iter().map(|t| t.calls).collect(),
        vec![Some(2), Some(2)],
    );
    checks.end();
}

#[test]
fn details_are_kept() {
    let Some(oracle) = oracle() else { return };
    let dir = oracle.join("agents");
    let mut checks = Checks::default();
    let read = |file: &str| agent::read_any(&load(&dir.join(file))).expect("a transcript");

    let ok = read("claude-2.1.332-stream-ok.jsonl");
    checks.equal("session", ok.session.as_deref(), Some("e6270cd0-bd58-43b1-99ce-12f47001d42c"));
    let exchanges = ok.exchanges();
    let (entry, call, reply) = exchanges[1];
    checks.equal("raw name", call.name.as_str(), "mcp__codeindex__search_code_advanced");
    checks.equal("input", call.input["pattern"].as_str(), Some("def url_for"));
    checks.equal("id", call.id.as_deref(), Some("toolu_f7a0288039ce3ca0f8d7"));
    checks.equal("message", entry.message.as_deref(), Some("msg_841a05183bd0b4236dde7882"));
    // 2026-11-30T23:37:15.613Z
    checks.equal("time of the call", entry.at_ms, Some(1_796_081_835_613));
    let text = reply.map(|r| r.text.as_str()).unwrap_or_default();
    checks.equal("reply", text.starts_with("{\"results\":[{\"file\":\"./src/flask/app.py\""), true);

    // Results in order of completion find their calls.
    let parallel = read("claude-stream-parallel-and-tool-errors.jsonl");
    let texts: Vec<String> = parallel
        .exchanges()
        .iter()
        .map(|(_, _, reply)| reply.map(|r| r.text.chars().take(12).collect()).unwrap_or_default())
        .collect();
    let want = ["Found 2 file", "195\tdef url_", "File does no", "This Bash co", "<tool_use_er"];
    checks.equal("replies", texts, want.map(str::to_owned).to_vec());

    // What a sub-agent is told and answers is not the main thread's.
    let sub = read("claude-stream-subagent.jsonl");
    let prompts: Vec<_> = sub.entries.iter().filter(|e| matches!(e.what, What::Prompt(_))).collect();
    checks.equal("prompts", prompts.len(), 1);
    checks.equal("a sub-agent's prompt", prompts[0].sub_agent, true);
    let told = sub.exchanges()[0].2.map(|r| r.text.starts_with("final from whoever\nagentId: "));
    checks.equal("what a sub-agent returns", told, Some(true));

    // The words of a failed request are a notice, not an answer.
    let failed = read("claude-stream-api-400.jsonl");
    let notice = What::Notice("API Error: 400 scripted invalid_request_error".to_owned());
    checks.equal("notice", failed.entries.iter().map(|e| &e.what).collect(), vec![&notice]);
    let codex = read("codex-exec.jsonl");
    checks.equal("warning", &codex.entries[0].what, &What::Notice(CODEX_WARNING.to_owned()));
    checks.equal("thread", codex.session.as_deref(), Some("01a22ea3-3d44-7070-abc5-cd31bef9b617"));
    // What the model saw is the structured content, compact.
    let (_, call, reply) = codex.exchanges()[1];
    checks.equal("codex name", call.name.as_str(), "mcp__codeindex__search_code_advanced");
    let text = reply.map(|r| r.text.as_str()).unwrap_or_default();
    checks.equal(
        "codex reply",
        text.starts_with("{\"results\":[{\"file\":\"./src/flask/app.py\",\"line\":1003,"),
        true,
    );

    // By itself the stream doesn't say that a name has a server in it.
    let opencode = read("opencode-run.jsonl");
    checks.equal("opencode", calls(&opencode), "Grep codeindex_search_code_advanced".to_owned());
    checks.equal("opencode session", opencode.session.as_deref(), Some("ses_dd15a42aaffeioabjErstFm6gU"));
    checks.equal("opencode time", opencode.entries[0].at_ms, Some(1_796_078_962_621));

    let search = read("claude-stream-toolsearch.jsonl");
    let found = search.exchanges()[0].2.map(|r| r.text.as_str());
    checks.equal("found tools", found, Some("mcp__codeindex__search_code_advanced"));
    checks.end();
}

/// Runs of the reference benchmark: native and normalised streams beside the numbers that it
/// computed from them.
#[test]
fn published_runs_have_their_published_numbers() {
    let Some(oracle) = oracle() else { return };
    let mut checks = Checks::default();
    let results = oracle.join("sense-bench/results");
    let runs = [
        "global/baseline/flask",
        "global/baseline/gin",
        "global/gitnexus/flask",
        "global/gitnexus/gin",
        "global/probe/flask",
        "global/probe/gin",
        "global/sense/flask",
        "global/sense/gin",
        "global/serena/flask",
        "global/serena/gin",
        "go/claude-fable-5/baseline/consul/run-1",
        "go/claude-fable-5/sense/consul/run-1",
        "go/glm-5.2_cloud/baseline/dolt/run-1",
        "go/glm-5.2_cloud/sense/dolt/run-1",
        "go/gpt-5.5/baseline/pebble/run-1",
        "go/gpt-5.5/sense/pebble/run-1",
        "go/ollama-cloud_mistral-large-3_675b/baseline/dolt/run-2",
    ];
    for run in runs {
        let folder = results.join(run);
        let got = agent::read_any(&load(&folder.join("transcript.json"))).expect("a transcript");
        let scored: serde_json::Value =
            serde_json::from_slice(&load(&folder.join("scored.json"))).expect("JSON");
        let want = &scored["metrics"];
        let name = |what: &str| format!("{run} {what}");
        checks.equal(&name("dialect"), got.dialect, Dialect::Claude);
        checks.equal(&name("calls"), Some(got.calls().count() as u64), want["tool_calls"].as_u64());
        if want.get("answer_chars").is_some() {
            let chars = got.answer().chars().count() as u64;
            checks.equal(&name("answer"), Some(chars), want["answer_chars"].as_u64());
        }
        let of_servers = got.calls().filter(|(_, call)| call.server.is_some()).count() as u64;
        checks.equal(&name("calls of servers"), Some(of_servers), want["mcp_count"].as_u64());
        // Its rule is the final record of the main thread. Where a budget ended the turn that is
        // no count of the session.
        let budget = got.faults.iter().any(|f| matches!(f, Fault::Limit { which: LimitKind::Budget, .. }));
        let main = got.turns.first().and_then(|t| t.usage_main);
        checks.equal(&name("main usage"), got.usage_main, main.filter(|_| !budget));
        if let Some(main) = main {
            for (kind, have, key) in [
                ("input", main.input, "token_input_uncached"),
                ("output", main.output, "token_output"),
                ("read", main.cache_read, "token_cache_read"),
                ("write", main.cache_write, "token_cache_write"),
            ] {
                checks.equal(&name(kind), have, want[key].as_u64());
            }
        }
        let tenth = got.duration_ms.map(|ms| (ms / 100.0).round());
        let native = got.agent.is_some();
        checks.equal(
            &name("wall"),
            tenth,
            native.then(|| (want["wall_time_seconds"].as_f64().unwrap_or(-1.0) * 10.0).round()),
        );
        let cost = got.cost_usd.map(|c| (c * 1e4).round());
        checks.equal(
            &name("cost"),
            cost,
            native.then(|| (want["cost_usd"].as_f64().unwrap_or(-1.0) * 1e4).round()),
        );
    }
    // Sub-agents and side models are in the whole usage: 3 helpers' tokens more here.
    let held = oracle.join("sense-bench/held-out/transcripts/sense/flask/transcript.json");
    let got = agent::read_any(&load(&held)).expect("a transcript");
    checks.equal("held-out, whole", usage(got.usage).as_deref(), Some("21/6321/192027/48705"));
    checks.equal("held-out, main", usage(got.usage_main).as_deref(), Some("15/6011/176755/37134"));
    checks.equal("held-out, model", got.models.join(" "), "claude-opus-4-7".to_owned());
    let servers: Vec<_> = got.servers.iter().map(|s| s.name.as_str()).collect();
    checks.equal("held-out, servers", servers, vec!["codebase-memory-mcp", "sense"]);
    checks.end();
}

/// Answers to several steps at once, and how many of the steps their own labels tell apart: headers,
/// or the keys of a JSON summary.
#[test]
fn answers_are_split_by_their_own_labels() {
    let Some(oracle) = oracle() else { return };
    let mut checks = Checks::default();
    let bench = oracle.join("sense-bench");
    for (file, steps, split, by_reference) in [
        ("results/global/probe/flask", 4, 4, 4),
        ("results/global/probe/gin", 4, 4, 0),
        ("results/global/serena/flask", 4, 4, 0),
        // Nothing but narration when the budget ended.
        ("results/global/serena/gin", 4, 0, 0),
        ("results/global/baseline/flask", 4, 4, 0),
        ("results/global/sense/flask", 4, 4, 0),
        ("results/global/sense/gin", 4, 4, 0),
        ("results/global/gitnexus/flask", 4, 4, 0),
        ("results/global/gitnexus/gin", 4, 4, 0),
        ("results/go/claude-fable-5/sense/consul/run-1", 7, 7, 0),
        ("results/go/glm-5.2_cloud/baseline/dolt/run-1", 7, 7, 0),
        ("results/go/glm-5.2_cloud/sense/dolt/run-1", 7, 7, 7),
        // Only the first of three has a label: where it ends is not told.
        ("results/go/gpt-5.5/baseline/pebble/run-1", 3, 0, 0),
        ("results/go/gpt-5.5/sense/pebble/run-1", 3, 3, 0),
        ("results/go/ollama-cloud_mistral-large-3_675b/baseline/dolt/run-2", 7, 0, 0),
        ("held-out/transcripts/baseline/flask", 4, 4, 4),
        ("held-out/transcripts/sense/flask", 4, 4, 0),
    ] {
        let got = agent::read_any(&load(&bench.join(file).join("transcript.json"))).expect("a transcript");
        let parts = steps::step_answers(&got, steps, &[]);
        checks.equal(file, parts.answers.iter().flatten().count(), split);
        let want = if split == 0 { Split::Failed } else { Split::Headers };
        checks.equal(&format!("{file}, how"), parts.split, want);
        let reference = steps::reference_headers(&got.answer(), steps);
        checks.equal(&format!("{file}, reference"), reference.iter().flatten().count(), by_reference);
    }
    // The keys begin where they were seen to: characters of the answer.
    let flask = agent::read_any(&load(&bench.join("results/global/baseline/flask/transcript.json")));
    let answer = flask.expect("a transcript").answer();
    let starts: Vec<usize> = steps::headers(&answer, 4, &[])
        .into_iter()
        .flatten()
        .map(|range| answer[..range.start].chars().count())
        .collect();
    checks.equal("baseline/flask, places", starts, vec![89, 3144, 3751, 5756]);
    checks.end();
}
