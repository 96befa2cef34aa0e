//! The shapes that scripts rely on.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::env::{Env, over_servers, text};

const COMMANDS: &str = r#"
format = 1
name   = "commands"

[params]
fail = { default = "none" }

[axes]
n = ["1", "2", "3"]

[stage.make]
kind    = "command"
over    = ["n"]
run     = ["sh", "-c", "test {{ params.fail }} != {{ n }} || { echo it broke >&2; exit 7; }; echo {{ n }} > out.txt"]
outputs = { text = { path = "out.txt" } }

[stage.use]
kind    = "command"
needs   = ["make"]
run     = ["cp", "in/make/text", "copy.txt"]
outputs = { text = { path = "copy.txt" } }

[stage.all]
kind    = "command"
needs   = ["use"]
over    = []
run     = ["sh", "-c", "cat in/use/*/text > all.txt"]
outputs = { text = { path = "all.txt" } }
"#;

fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// Every file below a folder with its bytes.
fn snapshot(folder: &std::path::Path) -> BTreeMap<std::path::PathBuf, Vec<u8>> {
    let mut out = BTreeMap::new();
    let mut todo = vec![folder.to_owned()];
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_type().unwrap().is_dir() {
                todo.push(entry.path());
            } else {
                out.insert(entry.path(), std::fs::read(entry.path()).unwrap());
            }
        }
    }
    out
}

#[test]
fn plan_has_its_shape_starts_nothing_and_writes_nothing() {
    let env = Env::new();
    env.server("good", &[], "");
    let plan = |env: &Env| env.run(&["plan", "pipelines/servers.toml", "--json"]).ok().json();
    let fresh = plan(&env);
    assert_eq!(keys(&fresh), ["nodes"]);
    let nodes = fresh["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 8);
    for node in nodes {
        assert_eq!(keys(node), ["action", "cell", "id", "reasons", "stage", "usd"], "{node}");
        let waits = !matches!(node["stage"].as_str().unwrap(), "index" | "warm" | "search");
        assert_eq!(node["action"], if waits { "wait" } else { "run" }, "{node}");
        assert_eq!(node["reasons"], json!([{ "field": "*", "old": null, "new": null }]), "{node}");
        assert!(node["usd"].is_null());
    }
    let search = nodes.iter().find(|n| n["stage"] == "search").unwrap();
    assert_eq!(search["id"], "search[repo=tiny,replicate=1,arm=good]");
    assert_eq!(search["cell"], json!({ "repo": "tiny", "replicate": "1", "arm": "good" }));
    let summary = nodes.iter().find(|n| n["stage"] == "summary").unwrap();
    assert_eq!((&summary["id"], &summary["cell"]), (&json!("summary"), &json!({})));
    assert!(!env.path(".proofline").exists(), "plan made a store");
    assert_eq!(env.starts("good"), 0);

    env.executed(&["pipelines/servers.toml"]);
    let starts = env.starts("good");
    let before = snapshot(&env.path(".proofline"));
    env.edit("presets/servers/good.toml", "version = \"1.0\"", "version = \"1.1\"");
    let changed = plan(&env);
    assert!(changed["nodes"].as_array().unwrap().iter().any(|n| n["action"] == "run"));
    let after = snapshot(&env.path(".proofline"));
    for (path, bytes) in &after {
        assert_eq!(before.get(path), Some(bytes), "plan wrote {}", path.display());
    }
    assert_eq!(before.len(), after.len(), "plan removed something");
    assert_eq!(env.starts("good"), starts);
}

#[test]
fn run_gives_one_object_whatever_happens() {
    let env = Env::new();
    env.write("pipelines/commands.toml", COMMANDS);
    let good = env.go(&["pipelines/commands.toml"]);
    assert_eq!(keys(&good), ["exit", "nodes", "run", "state"]);
    assert_eq!(keys(&good["nodes"]), ["blocked", "executed", "failed", "reused", "total"]);
    assert_eq!(good["nodes"], json!({ "total": 7, "executed": 7, "reused": 0, "failed": 0, "blocked": 0 }));
    assert_eq!((&good["state"], &good["exit"]), (&json!("complete"), &json!(0)));
    let all = env.run(&["show", "all", "--part", "text"]).ok().stdout;
    assert_eq!(all, "1\n2\n3\n");

    // A node that fails blocks what is below it; with --keep-going the rest goes on.
    let failed = env.go(&["pipelines/commands.toml", "--set", "fail=2", "--keep-going"]);
    assert_eq!((&failed["state"], &failed["exit"]), (&json!("failed"), &json!(3)));
    // Node 1 and 3 have other words in their commands now, but give the same bytes.
    assert_eq!(failed["nodes"], json!({ "total": 7, "executed": 2, "reused": 2, "failed": 1, "blocked": 2 }));
    let status = env.run(&["status", "--json"]).ok().json();
    assert_eq!(status["state"], "failed");
    let shown = env.run(&["show", "make[n=2]"]).ok().stdout;
    assert!(shown.contains("it broke") && shown.contains("code 7"), "{shown}");
    let halted = env.go(&["pipelines/commands.toml", "--set", "fail=1", "--jobs", "1"]);
    assert_eq!((&halted["state"], &halted["exit"]), (&json!("failed"), &json!(3)));
    assert_eq!(halted["nodes"]["failed"], 1, "{halted}");
    assert_eq!(halted["nodes"]["executed"], 0, "without --keep-going nothing new is begun: {halted}");

    // A failure is tried again, not remembered.
    let again = env.go(&["pipelines/commands.toml", "--set", "fail=2", "--keep-going"]);
    assert_eq!(again["nodes"]["failed"], 1);
}

#[test]
fn a_manifest_error_is_an_object_with_places() {
    let env = Env::new();
    env.write(
        "pipelines/bad.toml",
        &over_servers("good").replace("kind  = \"warmup\"", "kind  = \"warmpu\""),
    );
    for command in [vec!["run", "pipelines/bad.toml", "--json"], vec!["plan", "pipelines/bad.toml", "--json"]]
    {
        let said = env.run(&command);
        assert_eq!(said.code, 1);
        let object = said.json();
        assert_eq!(keys(&object), ["diagnostics", "exit"]);
        assert_eq!(object["exit"], 1);
        let found = object["diagnostics"].as_array().unwrap();
        assert!(found.iter().any(|d| d.to_string().contains("warmpu")), "{object}");
    }
    let said = env.run(&["run", "pipelines/bad.toml"]);
    assert_eq!(said.code, 1);
    assert!(said.stderr.contains("pipelines/bad.toml:"), "{}", said.stderr);
    let line = said.stderr.lines().find(|l| l.contains("pipelines/bad.toml:")).unwrap();
    let place = line.split("pipelines/bad.toml:").nth(1).unwrap();
    let numbers: Vec<&str> = place.split(':').take(2).collect();
    assert!(numbers.iter().all(|n| n.trim().split(' ').next().unwrap().parse::<u32>().is_ok()), "{line}");
    assert!(!env.path(".proofline/runs").exists());
}

#[test]
fn programs_of_a_project_need_an_answer() {
    let env = Env::new();
    env.write("pipelines/commands.toml", COMMANDS);
    let said = env.run(&["run", "pipelines/commands.toml", "--json"]);
    assert_eq!(said.code, 1, "{}", said.stdout);
    assert!(said.stderr.contains("cp") && said.stderr.contains("--trust"), "{}", said.stderr);
    env.executed(&["pipelines/commands.toml"]);
    // Asked once only.
    assert_eq!(env.run(&["run", "pipelines/commands.toml", "--json"]).code, 0);
}

#[test]
fn the_reports_object_has_its_shape() {
    let env = Env::new();
    env.server("good", &[], "");
    env.executed(&["pipelines/servers.toml"]);
    let report = env.run(&["report", "latest", "--json"]).ok().json();
    assert_eq!(keys(&report), ["result", "run"]);
    let arm = &report["result"]["arms"][0];
    assert_eq!(arm["arm"], "good");
    for name in [
        "hit@1",
        "hit@3",
        "hit@5",
        "hit@10",
        "symbol_hit@5",
        "mrr",
        "map",
        "ndcg@10",
        "recall@10",
        "precision@10",
        "latency_p50_ms",
        "latency_p95_ms",
        "latency_p99_ms",
        "ingest_s",
        "rss_mib",
        "index_mib",
        "calls",
        "retrieval",
    ] {
        let metric = &arm["metrics"][name];
        for key in ["value", "n", "unscored"] {
            assert!(metric.get(key).is_some(), "{name} has no {key}: {metric}");
        }
    }
    assert_eq!(arm["metrics"]["mrr"]["value"], 1.0);
    assert_eq!(
        report["result"]["cells"],
        json!({ "planned": 3, "valid": 3, "invalid": 0, "error": 0, "missing": 0, "excluded": 0 })
    );
    let rows = env.rows();
    assert_eq!(rows.len(), 3);
    for row in &rows {
        assert_eq!(
            keys(row),
            ["arm", "codes", "error", "latency_ms", "rank", "replicate", "repo", "results", "state", "task"]
        );
        assert_eq!(keys(&row["results"][0]), ["file", "line", "score", "symbol"]);
    }
    let id = text(&report["run"]["run"]);
    let prefix = &id[..id.len() - 2];
    assert_eq!(env.run(&["report", prefix, "--json"]).ok().json(), report);
}
