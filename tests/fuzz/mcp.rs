//! What servers say: replies, tool lists, wire logs, and frames on a live pipe.

use std::time::Duration;

use indexmap::IndexMap;
use proofline::fsio;
use proofline::manifest::server::{Lifecycle, Lines, Transport};
use proofline::mcp::detect::{Slot, Values, choose, fill};
use proofline::mcp::normalise::{MAX_HITS, Rules, normalise};
use proofline::mcp::wire::recorded;
use proofline::mcp::{Client, Launch, Tool};
use proofline::process::base_env;
use serde_json::{Value, json};

use crate::mutate::fuzz;

const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ":",
    ",",
    "null",
    "true",
    "1e309",
    "-1",
    "\\ud800",
    "\\n",
    "\n",
    "\r\n",
    "\u{2028}",
    "\"file\":\"a.py\"",
    "\"line\":3",
    "src/a.py:3: def f",
    "../../etc/passwd",
    "/corpus/src/a.py",
    "|",
    "---",
    "```",
    "</file>",
    "<file path=\"a.py\">",
    "file:///corpus/a.py",
    "%2e%2e/",
    "No results",
    "Error:",
    "18446744073709551616",
    "\"jsonrpc\":\"2.0\"",
    "\"id\":1",
    "\"result\":{}",
    "\"method\":\"ping\"",
];

fn texts() -> Vec<Vec<u8>> {
    let all = [
        json!({"content": [{"type": "text", "text": "src/a.py:3: def f():\nsrc/b.py:14: f()\n"}]}),
        json!({"content": [{"type": "text", "text": "{\"results\":[{\"file\":\"src/a.py\",\"line\":3,\"score\":0.5}]}"}]}),
        json!({"content": [{"type": "text", "text": "| file | line |\n|---|---|\n| src/a.py | 3 |\n"}]}),
        json!({"content": [{"type": "text", "text": "## src/a.py\n```python\n3: def f():\n```\n"}]}),
        json!({"content": [{"type": "text", "text": "<result><file path=\"src/a.py\"><line>3</line></file></result>"}]}),
        json!({"structuredContent": {"hits": [{"path": "/corpus/src/a.py", "range": {"start": {"line": 2}}}]}}),
        json!({"isError": true, "content": [{"type": "text", "text": "Error: no index"}]}),
        json!({"code": -32000, "message": "broken"}),
        json!({"src/a.py": [1, 2, 3], "src/b.py": {"4": "x"}}),
    ];
    all.iter().map(|value| value.to_string().into_bytes()).collect()
}

/// A value out of any bytes: as JSON, else as the text of a reply.
fn value(bytes: &[u8]) -> Value {
    serde_json::from_slice(bytes)
        .unwrap_or_else(|_| json!({"content": [{"type": "text", "text": String::from_utf8_lossy(bytes)}]}))
}

#[test]
fn replies() {
    fuzz("replies", &texts(), WORDS, |bytes| {
        let known = |path: &str| path.starts_with("src/");
        for lines in [Lines::OneBased, Lines::ZeroBased] {
            let rules = Rules { roots: vec!["/corpus".to_owned()], lines, known: Some(&known) };
            for value in
                [value(bytes), json!({"content": [{"type": "text", "text": String::from_utf8_lossy(bytes)}]})]
            {
                let said = normalise(&value, &rules);
                assert!(said.hits.len() <= MAX_HITS);
                for hit in said.hits {
                    assert!(hit.file.is_some() || hit.symbol.is_some(), "{hit:?}");
                }
            }
        }
    });
}

#[test]
fn tools() {
    let seed = json!([
        {"name": "search_code", "description": "Search the code for a query",
         "inputSchema": {"type": "object", "required": ["query"], "properties": {
            "query": {"type": "string"}, "limit": {"type": ["integer", "null"], "maximum": 50},
            "path": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/p"}]}}}},
        {"name": "index_project", "description": "Index a folder", "input_schema": {"properties": {
            "path": {"type": "string", "enum": ["a"]}, "force": {"type": "boolean", "default": false}}}},
        {"name": "status", "annotations": {"title": "Status"}, "parameters": true}
    ]);
    fuzz("tools", &[seed.to_string().into_bytes()], WORDS, |bytes| {
        let Ok(Value::Array(list)) = serde_json::from_slice(bytes) else { return };
        let tools: Vec<Tool> = list.iter().filter_map(Tool::from_listed).collect();
        for slot in [Slot::Ingest, Slot::Query] {
            let detection = choose(&tools, slot);
            if let Some(choice) = detection.choice {
                assert!(tools.iter().any(|tool| tool.name == choice.tool));
                let values = Values { query: "{limit}{query}", limit: 10, corpus: "/corpus" };
                let filled = fill(&choice.args, &values);
                assert_eq!(filled.len(), choice.args.len());
            }
        }
        // A preset's own arguments are as strange as their author likes.
        let args: IndexMap<String, Value> = [("a".to_owned(), Value::Array(list))].into_iter().collect();
        let _ = fill(&args, &Values { query: "q", limit: 1, corpus: "c" });
    });
}

fn frames() -> String {
    let init = json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "2025-06-18",
        "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}});
    let tools = json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": [
        {"name": "search", "description": "search code", "inputSchema": {"type": "object", "properties":
            {"query": {"type": "string"}}, "required": ["query"]}}]}});
    let call =
        json!({"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "a.py:1"}]}});
    let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "ping"});
    let note = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
    [init, ping, tools, note, call].iter().fold(String::new(), |all, frame| all + &frame.to_string() + "\n")
}

#[test]
fn logs() {
    let mut log = String::new();
    for (at, dir, frame) in [
        (
            1.0,
            "c2s",
            json!({"id": 1, "method": "tools/call", "params": {"name": "s", "arguments": {"q": 1}}}),
        ),
        (2.0, "s2c", json!({"id": 1, "result": {"content": []}})),
        (3.0, "c2s", json!({"id": 2, "method": "tools/call", "params": {"name": "s"}})),
        (4.0, "s2c", json!({"id": 2, "error": {"code": 1, "message": "x"}})),
    ] {
        log += &json!({"at_ms": at, "dir": dir, "frame": frame}).to_string();
        log.push('\n');
    }
    log += "{\"at_ms\":5,\"dir\":\"note\",\"call\":3,\"outcome\":\"timeout\"}\n";
    fuzz("logs", &[log.into_bytes()], WORDS, |bytes| {
        let lines = bytes.split(|b| *b == b'\n').count();
        assert!(recorded(bytes).len() <= lines);
    });
}

/// A server that says these bytes and then listens: the client comes to an end with it, soon.
#[test]
fn live() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let said = dir.path().join("said");
    for folder in ["home", "tmp"] {
        fsio::create_dir(&dir.path().join(folder)).unwrap();
    }
    let soon = Duration::from_millis(300);
    fuzz("live", &[frames().into_bytes()], WORDS, |bytes| {
        fsio::write_plain(&said, bytes).unwrap();
        let script = "cat said; read -r one; read -r two; read -r three";
        let launch = Launch {
            transport: Transport::Stdio,
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            url: None,
            cwd: dir.path().to_owned(),
            env: base_env(&dir.path().join("home"), &dir.path().join("tmp")),
            marker: "fuzz-live".to_owned(),
            lifecycle: Lifecycle::Initialize,
            start_timeout: soon,
            wire_log: dir.path().join("wire.jsonl"),
            stderr_log: dir.path().join("stderr.log"),
            max_reply_bytes: 4096,
        };
        runtime.block_on(async {
            match Client::start(&launch).await {
                Ok(mut client) => {
                    let _ = client.tools(soon).await;
                    let _ = client.call("search", serde_json::Map::new(), soon).await;
                    client.stop().await;
                }
                Err(error) => assert!(!error.to_string().is_empty()),
            }
        });
        let _ = recorded(&fsio::read(&launch.wire_log).unwrap());
    });
}
