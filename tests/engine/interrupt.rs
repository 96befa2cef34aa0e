//! Ctrl-C, a killed engine, and how the next run goes on.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use serde_json::{Value, json};

use crate::env::{Env, over_servers, pid, slow, until, wait};

/// The journal of the newest run so far.
fn journal(env: &Env) -> String {
    let runs = std::fs::read_dir(env.path(".proofline/runs")).into_iter().flatten().flatten();
    let newest = runs.map(|e| e.path()).max_by_key(|p| p.metadata().unwrap().created().unwrap());
    newest.and_then(|run| std::fs::read_to_string(run.join("journal.jsonl")).ok()).unwrap_or_default()
}

fn until_done(env: &Env, nodes: usize) {
    until(30, "some nodes are done", || {
        (journal(env).matches("\"type\":\"done\"").count() >= nodes).then_some(())
    });
}

fn count(said: &Value, what: &str) -> u64 {
    said["nodes"][what].as_u64().unwrap()
}

/// Processes that carry the mark of a run.
fn marked(run: &str) -> Vec<i32> {
    let entry = format!("PROOFLINE_MARK={run}-");
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            environ.split(|b| *b == 0).any(|have| have.starts_with(entry.as_bytes()))
        })
        .collect()
}

#[test]
fn one_interrupt_lets_running_nodes_finish() {
    let env = Env::new();
    env.write("pipelines/slow.toml", &slow("slow", "0.25", 8));
    let child = env.spawn(&["run", "pipelines/slow.toml", "--trust", "--json", "--jobs", "2"]);
    until_done(&env, 2);
    assert_eq!(env.run(&["status", "--json"]).ok().json()["state"], "running");
    let busy = env.run(&["store", "gc", "--delete"]);
    assert!(busy.code == 1 && busy.stderr.contains("going on"), "{}", busy.stderr);
    kill(pid(&child), Signal::SIGINT).unwrap();
    let said = wait(child);
    let first = said.json();
    assert_eq!((&first["state"], &first["exit"], said.code), (&json!("incomplete"), &json!(4), 4), "{first}");
    let done = count(&first, "executed");
    assert!((2..8).contains(&done), "some and not all nodes were finished: {first}");
    assert_eq!((count(&first, "failed"), count(&first, "blocked")), (0, 0));
    // What had started has ended well.
    assert_eq!(journal(&env).matches("\"type\":\"started\"").count() as u64, done);
    let second = env.go(&["pipelines/slow.toml"]);
    assert_eq!(second["state"], "complete");
    assert_eq!((count(&second, "reused"), count(&second, "executed")), (done, 9 - done), "{second}");
    assert_eq!(env.run(&["show", "all", "--part", "text"]).ok().stdout, "1\n2\n3\n4\n5\n6\n7\n8\n");
}

#[test]
fn two_interrupts_end_what_runs() {
    let env = Env::new();
    env.write("pipelines/slow.toml", &slow("slow", "0.25", 8));
    let child = env.spawn(&["run", "pipelines/slow.toml", "--trust", "--json", "--set", "seconds=60"]);
    let run = until(30, "a node has started", || {
        let journal = journal(&env);
        journal.contains("\"type\":\"started\"").then(|| newest_run(&env))
    });
    until(30, "its command runs", || (!marked(&run).is_empty()).then_some(()));
    let start = Instant::now();
    kill(pid(&child), Signal::SIGINT).unwrap();
    until(10, "the first is taken", || journal(&env).contains("\"step\":1").then_some(()));
    // Signals in the same instant are one wish; a person takes longer.
    std::thread::sleep(Duration::from_millis(150));
    kill(pid(&child), Signal::SIGINT).unwrap();
    let said = wait(child);
    assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
    let object = said.json();
    assert_eq!((&object["state"], said.code), (&json!("incomplete"), 4), "{object}");
    assert_eq!((count(&object, "executed"), count(&object, "failed")), (0, 0), "{object}");
    assert!(marked(&run).is_empty(), "its commands still run");
}

fn newest_run(env: &Env) -> String {
    let runs = std::fs::read_dir(env.path(".proofline/runs")).unwrap().flatten();
    runs.max_by_key(|e| e.path().metadata().unwrap().created().unwrap())
        .unwrap()
        .file_name()
        .into_string()
        .unwrap()
}

#[test]
fn a_killed_engine_leaves_a_run_that_goes_on() {
    let env = Env::new();
    // Does not end with its input: only being looked for ends it.
    env.server("stubborn", &["--ignore-stdin-close", "--slow", "80"], "");
    env.server("good", &["--slow", "80"], "");
    env.write("pipelines/servers.toml", &over_servers("good,stubborn"));
    let args = ["run", "pipelines/servers.toml", "--trust", "--json", "--set", "replicates=2"];
    let child = env.spawn(&args);
    // In the middle: nodes are done, and a stubborn server is at work.
    until(60, "a stubborn server works", || {
        let journal = journal(&env);
        let done = journal.matches("\"type\":\"done\"").count();
        (done >= 3 && env.starts("stubborn") >= 1 && !marked(&newest_run(&env)).is_empty()).then_some(())
    });
    let run = until(60, "a marked process", || {
        let run = newest_run(&env);
        let busy = marked(&run).iter().any(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains("stubborn")
        });
        busy.then_some(run)
    });
    killpg(pid(&child), Signal::SIGKILL).unwrap();
    assert_eq!(wait(child).code, -1);
    let done = journal(&env).matches("\"type\":\"done\"").count() as u64;
    assert!(!marked(&run).is_empty(), "the test needs a survivor");
    let status = env.run(&["status", "--json"]).ok().json();
    assert_eq!(status["state"], "incomplete", "its engine is gone");

    let said = env.run(&args);
    let again = said.json();
    assert_eq!((&again["state"], said.code), (&json!("complete"), 0), "{again} {}", said.stderr);
    assert!(marked(&run).is_empty(), "a process of the killed run is alive");
    let total = count(&again, "total");
    assert!(count(&again, "reused") >= done && done >= 3, "{done} were done: {again}");
    assert!(count(&again, "executed") > 0 && count(&again, "executed") < total, "{again}");
    let verify = env.run(&["store", "verify", "--json"]).ok().json();
    assert_eq!(verify, json!({ "ok": true, "problems": [] }));
    let resumed = env.run(&["report", "--stable"]).ok().stdout;

    let fresh = env.outside("fresh");
    let fresh = fresh.to_str().unwrap();
    let mut whole = args.to_vec();
    whole.extend(["--store", fresh]);
    env.run(&whole).ok();
    let uninterrupted = env.run(&["report", "--stable", "--store", fresh]).ok().stdout;
    assert_eq!(resumed, uninterrupted);
    assert!(env.go(&["pipelines/servers.toml", "--set", "replicates=2"])["nodes"]["executed"] == 0);
}
