//! The first thing that a user does.

use std::time::Instant;

use crate::env::Env;

#[test]
fn the_quickstart_runs_once_and_is_free_afterwards() {
    let env = Env::new();
    let start = Instant::now();
    let first = env.go(&["quickstart"]);
    assert!(start.elapsed().as_secs() < 120, "{:?}", start.elapsed());
    assert_eq!(first["state"], "complete", "{first}");
    assert_eq!(first["nodes"]["executed"], first["nodes"]["total"]);
    let report = env.run(&["report", "latest", "--json"]).ok().stdout;
    let result = raw_result(&report);

    // No program can be found and none may be started: nothing is left to start.
    let again = env.command(&["run", "quickstart", "--json"]).env_clear().env("PATH", "").output().unwrap();
    let again: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["state"], "complete", "{again}");
    assert_eq!(again["nodes"]["executed"], 0, "{again}");
    assert_eq!(again["nodes"]["reused"], again["nodes"]["total"]);
    let journal = env.read(&format!(".proofline/runs/{}/journal.jsonl", again["run"].as_str().unwrap()));
    assert!(!journal.contains("\"started\""), "{journal}");
    let second = env.run(&["report", "latest", "--json"]).ok().stdout;
    assert_eq!(raw_result(&second), result, "the result must have the same bytes");

    // The questions are fair: plain text search wins somewhere.
    let report: serde_json::Value = serde_json::from_str(&report).unwrap();
    let kinds = report["result"]["breakdown"]["kind"].as_object().unwrap();
    assert!(kinds.len() >= 10, "{:?}", kinds.keys());
    let wins = kinds.values().filter(|arms| {
        let hit = |arm: &serde_json::Value| arm["hit@5"].as_f64().unwrap_or(0.0);
        let best = arms.as_array().unwrap().iter().map(hit).fold(0.0, f64::max);
        arms.as_array().unwrap().iter().any(|arm| arm["arm"] == "grep" && hit(arm) >= best && best > 0.0)
    });
    assert!(wins.count() >= 1, "grep wins no kind: {kinds:?}");
    let page = env.run(&["report"]).ok().stdout;
    assert!(page.contains("retrieval") && page.contains("bm25"), "{page}");
}

/// The bytes of `.result`, without reading them as numbers.
fn raw_result(report: &str) -> &str {
    let end = report.find(",\"run\":{\"run\"").unwrap();
    report[..end].strip_prefix("{\"result\":").unwrap()
}

#[test]
fn a_store_may_be_named_by_a_relative_path() {
    let dir = tempfile::tempdir().unwrap();
    let run = std::process::Command::new(env!("CARGO_BIN_EXE_proofline"))
        .args([
            "run",
            "quickstart",
            "--set",
            "replicates=1",
            "--set",
            "servers=grep",
            "--store",
            "here",
            "--json",
        ])
        .current_dir(dir.path())
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", String::from_utf8_lossy(&run.stderr));
}
