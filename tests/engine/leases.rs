//! Several runs on one store: each node is run by one of them, whatever
//! happens to the others.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill, killpg};

use crate::env::{Env, pid, slow, until, wait};

const RUN: [&str; 6] = ["run", "pipelines/leases.toml", "--trust", "--json", "--jobs", "2"];

fn project() -> Env {
    let env = Env::new();
    env.write("pipelines/leases.toml", &slow("leases", "0.2", 6));
    env
}

/// Ids of all nodes that any run has begun, with how often.
fn begun(env: &Env) -> BTreeMap<String, usize> {
    let mut out = BTreeMap::new();
    for run in std::fs::read_dir(env.path(".proofline/runs")).into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(run.path().join("journal.jsonl")).unwrap_or_default();
        for line in text.lines().filter(|line| line.contains("\"type\":\"started\"")) {
            let json: serde_json::Value = serde_json::from_str(line.split('\t').next().unwrap()).unwrap();
            *out.entry(json["event"]["node"].as_str().unwrap().to_owned()).or_insert(0) += 1;
        }
    }
    out
}

fn until_begun(env: &Env, nodes: usize) {
    until(30, "some nodes have begun", || (begun(env).len() >= nodes).then_some(()));
}

#[test]
fn of_two_runs_that_start_together_each_node_is_run_once() {
    for round in 0..5 {
        let env = project();
        let (one, two) = (env.spawn(&RUN), env.spawn(&RUN));
        let (one, two) = (wait(one).ok().json(), wait(two).ok().json());
        let executed = |run: &serde_json::Value| run["nodes"]["executed"].as_u64().unwrap();
        assert_eq!(executed(&one) + executed(&two), 7, "round {round}: {one} {two}");
        assert!(begun(&env).values().all(|n| *n == 1), "round {round}: {:?}", begun(&env));
        let stable = |run: &serde_json::Value| {
            env.run(&["report", run["run"].as_str().unwrap(), "--stable", "--json"]).ok().stdout
        };
        let without_id =
            |run: &serde_json::Value| stable(run).replace(run["run"].as_str().unwrap(), "RUN").len();
        assert_eq!(without_id(&one), without_id(&two));
        assert_eq!(env.run(&["store", "verify", "--json"]).ok().json()["ok"], true);
    }
}

#[test]
fn what_a_killed_run_had_begun_is_taken_over_at_once() {
    let env = project();
    let first = env.spawn(&["run", "pipelines/leases.toml", "--set", "seconds=20", "--trust", "--json"]);
    until_begun(&env, 1);
    killpg(pid(&first), Signal::SIGKILL).unwrap();
    let since = std::time::Instant::now();
    let second = env.spawn(&["run", "pipelines/leases.toml", "--set", "seconds=0.3", "--trust", "--json"]);
    wait(first);
    let second = wait(second).ok().json();
    assert_eq!(second["nodes"]["executed"], 7);
    assert!(since.elapsed().as_secs() < 15);
    // The commands of the killed engine went with it, and so did their folders.
    until(10, "nothing is left", || {
        let left = std::fs::read_dir(env.path(".proofline/tmp")).unwrap().count();
        (left == 0).then_some(())
    });
}

#[test]
fn a_stopped_run_is_fenced_off_and_takes_the_other_ones_results() {
    let env = project();
    let sleeper = env.spawn(&RUN);
    until_begun(&env, 2);
    kill(pid(&sleeper), Signal::SIGSTOP).unwrap();
    // Within the time that a run may be silent its nodes are waited for.
    let mut other = RUN.to_vec();
    other.extend(["--takeover", "1s"]);
    let other = env.run(&other).ok().json();
    assert!(other["nodes"]["executed"].as_u64().unwrap() >= 5, "{other}");
    kill(pid(&sleeper), Signal::SIGCONT).unwrap();
    let said = wait(sleeper).ok();
    let object = said.json();
    assert_eq!(object["nodes"]["total"], 7);
    let sum = |run: &serde_json::Value| run["nodes"]["executed"].as_u64().unwrap();
    // What it had begun counts for nothing; nothing was accepted twice.
    assert_eq!(sum(&object) + sum(&other), 7, "{object} {other} {}", said.stderr);
    assert!(said.stderr.contains("taken over by another run"), "{}", said.stderr);
    assert_eq!(env.run(&["store", "verify", "--json"]).ok().json()["ok"], true);
}

#[test]
fn process_namespaces_on_one_store_do_not_take_each_other_for_dead() {
    let env = project();
    let inside = |extra: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"]);
        command.arg(crate::env::BIN).args(RUN).args(extra).current_dir(&env.root);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let probe =
        Command::new("unshare").args(["--user", "--map-root-user", "--pid", "--fork", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        eprintln!("no process namespaces here: nothing to be seen");
        return;
    }
    let (one, two) = (inside(&[]), inside(&[]));
    let (one, two) = (wait(one).ok().json(), wait(two).ok().json());
    let executed = |run: &serde_json::Value| run["nodes"]["executed"].as_u64().unwrap();
    assert_eq!(executed(&one) + executed(&two), 7, "{one} {two}");
    assert!(begun(&env).values().all(|n| *n == 1), "{:?}", begun(&env));
}

#[test]
fn a_run_is_watched_and_cancelled_from_another_process() {
    let env = project();
    let child = env.spawn(&[
        "run",
        "pipelines/leases.toml",
        "--set",
        "seconds=1",
        "--trust",
        "--json",
        "--jobs",
        "1",
    ]);
    until_begun(&env, 1);
    let watcher = env.spawn(&["attach"]);
    let node = begun(&env).into_keys().next().unwrap();
    assert!(env.run(&["logs", &node]).ok().stderr.contains("nothing so far"));
    let run = env.run(&["cancel", "latest", "--json"]).ok().json();
    assert_eq!(run["step"], 1);
    let said = wait(child);
    assert_eq!((said.code, &said.json()["state"]), (4, &"incomplete".into()), "{}", said.stderr);
    assert_eq!(said.json()["nodes"]["executed"], 1, "{}", said.stderr);
    let watched = wait(watcher);
    assert_eq!(watched.code, 4, "{}", watched.stderr);
    assert!(env.run(&["cancel"]).stderr.contains("doesn't run any more"));
}

#[test]
fn logs_follow_a_command_and_are_kept() {
    let env = project();
    let script = "echo one; sleep 1; echo two >&2; sleep 1; echo 1 > out.txt";
    env.edit("pipelines/leases.toml", "sleep {{ params.seconds }}; echo {{ n }} > out.txt", script);
    env.edit("pipelines/leases.toml", "\"1\", \"2\", \"3\", \"4\", \"5\", \"6\"", "\"1\"");
    let child = env.spawn(&RUN);
    until_begun(&env, 1);
    let followed = env.run(&["logs", "make[n=1]", "--follow"]).ok();
    assert_eq!(followed.stdout, "one\ntwo\n");
    wait(child).ok();
    assert_eq!(env.run(&["logs", "make"]).ok().stdout, "one\ntwo\n");
    let missing = env.run(&["logs", "nothing"]);
    assert!(missing.code == 1 && missing.stderr.contains("has not executed"), "{}", missing.stderr);
}
