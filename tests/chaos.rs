//! The store and the scheduler under fire: engines are killed at seeded
//! moments, disks fill up, files are damaged. What is published stays, what is
//! not is made anew, nothing is bought twice.
//!
//! `PROOFLINE_CHAOS=200 cargo test --release --test chaos` kills 200 times.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests work on real files and clocks")]
#![expect(clippy::print_stderr, reason = "says where the kernel lets a test see nothing")]
#![allow(dead_code, reason = "the projects and the shop are those of the engine's tests")]

#[path = "engine/env.rs"]
mod env;
#[path = "engine/shop.rs"]
mod shop;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use env::{Env, over_servers, pid, supervisors, until, wait};
use nix::sys::signal::{Signal, kill, killpg};
use serde_json::Value;
use shop::Shop;

/// Kills in CI, and how many of them hit one store one after the other.
const KILLS: usize = 50;
const PER_STORE: usize = 5;
/// Nodes of each of the three stages of commands.
const WIDTH: usize = 85;
const PIPELINE: &str = "pipelines/chaos.toml";

/// A small generator of the same numbers for the same seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self, below: usize) -> usize {
        // splitmix64
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % below as u64).unwrap()
    }
}

/// About 300 nodes: pure commands, paid ones, and fake servers of a fixed latency.
fn project(shop: &Shop) -> Env {
    let env = Env::new();
    env.server("good", &["--slow", "2"], "");
    env.server("other", &["--slow", "1"], "");
    let values: Vec<String> = (0..WIDTH).map(|n| format!("\"{n}\"")).collect();
    let commands = format!(
        r#"
[stage.make]
kind    = "command"
over    = ["n"]
run     = ["sh", "-c", "echo {{{{ n }}}} > out.txt"]
outputs = {{ text = {{ path = "out.txt" }} }}
[stage.buy]
kind    = "command"
needs   = ["make"]
effect  = "paid"
network = true
limits  = {{ usd = 0.5, time = "20s" }}
run     = ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/{port}; echo {{{{ n }}}} >&3; read -r got <&3; sleep 0.02; echo $got {{{{ n }}}} > got.txt"]
outputs = {{ got = {{ path = "got.txt" }} }}
[stage.cut]
kind    = "command"
needs   = ["buy"]
run     = ["sh", "-c", "wc -c < in/buy/got > n.txt"]
outputs = {{ text = {{ path = "n.txt" }} }}
[stage.all]
kind    = "command"
needs   = ["cut"]
over    = []
run     = ["sh", "-c", "cat in/cut/*/text > all.txt"]
outputs = {{ text = {{ path = "all.txt" }} }}
"#,
        port = shop.port
    );
    let whole = over_servers("good,other")
        .replace("replicates = { default = 1", "replicates = { default = 3")
        .replace("[axes]\n", &format!("[axes]\nn = [{}]\n", values.join(", ")));
    env.write(PIPELINE, &(whole + &commands));
    env
}

const RUN: [&str; 6] = ["run", PIPELINE, "--trust", "--json", "--jobs", "4"];

fn journals(env: &Env) -> Vec<(String, Vec<Value>)> {
    let mut out = Vec::new();
    for run in std::fs::read_dir(env.path(".proofline/runs")).into_iter().flatten().flatten() {
        let text = std::fs::read_to_string(run.path().join("journal.jsonl")).unwrap_or_default();
        let whole = text.lines().filter_map(|line| serde_json::from_str(line.split('\t').next()?).ok());
        out.push((run.file_name().into_string().unwrap(), whole.collect()));
    }
    out
}

fn of_type<'a>(lines: &'a [Value], kind: &str) -> Vec<&'a str> {
    lines
        .iter()
        .filter(|line| line["event"]["type"] == kind)
        .filter_map(|line| line["event"]["node"].as_str())
        .collect()
}

/// Nodes that some run has told to be done.
fn done(env: &Env) -> BTreeSet<String> {
    journals(env).iter().flat_map(|(_, lines)| of_type(lines, "done")).map(str::to_owned).collect()
}

/// The report without what differs between two honest executions.
fn stable(env: &Env, args: &[&str]) -> Value {
    let mut all = vec!["report", "latest", "--stable", "--json"];
    all.extend(args);
    env.run(&all).ok().json()["result"].clone()
}

fn verified(env: &Env) {
    let verify = env.run(&["store", "verify", "--json"]);
    assert_eq!(verify.json()["ok"], true, "{} {}", verify.stdout, verify.stderr);
}

/// Attempts that were begun and have no end in the ledger, by what they buy.
fn lost(env: &Env) -> BTreeMap<String, usize> {
    let mut out = BTreeMap::new();
    let spend = env.run(&["spend", "--json"]).ok().json();
    for attempt in spend["attempts"].as_array().unwrap() {
        if attempt["state"] == "started" || attempt["state"] == "unknown" {
            let n = attempt["node"].as_str().unwrap().trim_start_matches("buy[n=").trim_end_matches(']');
            *out.entry(n.to_owned()).or_insert(0) += 1;
        }
    }
    out
}

#[test]
fn a_killed_run_goes_on_where_it_was() {
    let kills: usize = std::env::var("PROOFLINE_CHAOS").ok().and_then(|n| n.parse().ok()).unwrap_or(KILLS);
    let calm_shop = Shop::open();
    let calm = project(&calm_shop);
    let whole = calm.run(&RUN).ok().json();
    let total = usize::try_from(whole["nodes"]["total"].as_u64().unwrap()).unwrap();
    assert!((280..320).contains(&total), "{whole}");
    let expected = stable(&calm, &[]);

    let mut dice = Dice(20_261_201);
    let mut killed = 0;
    while killed < kills {
        let shop = Shop::open();
        let env = project(&shop);
        // A kill may fall between a node's record and the journal's word of it: such nodes are
        // done and never told of, so the last marks could not be reached.
        let mut marks: Vec<usize> = (0..PER_STORE).map(|_| 1 + dice.next(total - 60)).collect();
        marks.sort_unstable();
        let mut unknown: BTreeMap<String, usize> = BTreeMap::new();
        for mark in marks {
            let before = done(&env);
            let child = env.spawn(&RUN);
            // Where the mark is passed already, the moment is as early as can be.
            until(120, "enough is done", || (done(&env).len() > mark.max(before.len())).then_some(()));
            std::thread::sleep(std::time::Duration::from_micros(dice.next(20_000) as u64));
            // Every fourth time the supervisors go, too: what they looked after is lost.
            let hard = dice.next(4) == 0;
            let mine = supervisors(&env);
            killpg(pid(&child), Signal::SIGKILL).unwrap();
            if hard {
                for pid in mine {
                    let _ = kill(pid, Signal::SIGKILL);
                }
            }
            wait(child);
            if hard {
                // One that was just being started has got no order, and ends by itself.
                until(10, "the supervisors are gone", || supervisors(&env).is_empty().then_some(()));
            }
            killed += 1;
            let now = done(&env).len();
            assert!(now > 0 && now < total, "the kill fell at {now} of {total}");
            verified(&env);
            if hard {
                unknown = settle_lost(&env, &unknown);
            }
        }
        let finished = done(&env);
        let last = env.run(&RUN).ok().json();
        assert_eq!(last["state"], "complete", "{last}");
        // Nothing that was done is done again, in any of the runs.
        let mut told: BTreeMap<String, usize> = BTreeMap::new();
        for (_, lines) in journals(&env) {
            for node in of_type(&lines, "done") {
                *told.entry(node.to_owned()).or_insert(0) += 1;
            }
        }
        let twice: Vec<_> = told.iter().filter(|(_, n)| **n > 1).collect();
        assert!(twice.is_empty(), "{twice:?}");
        let executed = usize::try_from(last["nodes"]["executed"].as_u64().unwrap()).unwrap();
        assert!(executed <= total - finished.len(), "{executed} of {total}, {} were done", finished.len());
        verified(&env);
        assert_eq!(stable(&env, &[]), expected);
        for (n, times) in shop.sold() {
            let most = 1 + unknown.get(&n).copied().unwrap_or(0);
            assert!(times <= most, "`{n}` was bought {times} times, {most} can be accounted for");
        }
        assert_eq!(shop.sold().len(), WIDTH);
    }
    eprintln!("killed {killed} times, {total} nodes");
}

/// Has the next run find out what was lost, and decides that it is bought again.
fn settle_lost(env: &Env, before: &BTreeMap<String, usize>) -> BTreeMap<String, usize> {
    let mut all = before.clone();
    for (n, times) in lost(env) {
        let said = env.run(&["settle", &format!("buy[n={n}]"), "respend"]);
        if said.code == 0 {
            *all.entry(n.clone()).or_insert(0) += times;
        } else {
            // It has ended, and the next run takes its result.
            assert!(said.stderr.contains("was lost"), "{}", said.stderr);
        }
    }
    all
}

/// Copies a folder as it is at this moment, as `cp -r` does.
fn copy(from: &Path, to: &Path) {
    // It complains of what comes and goes meanwhile, and copies the rest.
    Command::new("cp").arg("-r").arg(from).arg(to).output().unwrap();
    assert!(to.join("format").is_file() && to.join("packs").is_dir());
}

#[test]
fn a_copy_made_in_the_middle_is_a_store() {
    let shop = Shop::open();
    let env = project(&shop);
    let child = env.spawn(&RUN);
    until(60, "half is done", || (done(&env).len() > 150).then_some(()));
    let other = env.outside("copy");
    copy(&env.path(".proofline"), &other);
    let here = wait(child).ok().json();
    let expected = stable(&env, &[]);
    let place = other.to_string_lossy().into_owned();
    // What was being bought at that moment is lost for the copy: it can't know.
    let first = env.run(&[&RUN[..], &["--store", &place]].concat());
    if first.code == 4 {
        for attempt in env.run(&["spend", "--json", "--store", &place]).json()["attempts"].as_array().unwrap()
        {
            if attempt["state"] == "unknown" {
                let node = attempt["node"].as_str().unwrap();
                env.run(&["settle", node, "respend", "--store", &place]).ok();
            }
        }
        env.run(&[&RUN[..], &["--store", &place]].concat()).ok();
    }
    assert_eq!(stable(&env, &["--store", &place]), expected, "{here}");
    assert_eq!(env.run(&["store", "verify", "--json", "--store", &place]).json()["ok"], true);
}

fn newest(folder: &Path) -> PathBuf {
    let all = std::fs::read_dir(folder).unwrap().flatten().map(|e| e.path());
    all.max_by_key(|path| path.metadata().unwrap().modified().unwrap()).unwrap()
}

#[test]
fn damage_is_found_and_made_good() {
    let shop = Shop::open();
    let env = project(&shop);
    env.edit(
        PIPELINE,
        "\"echo {{ n }} > out.txt\"",
        "\"if [ {{ n }} = 7 ]; then seq 400000; else echo {{ n }}; fi > out.txt\"",
    );
    env.run(&RUN).ok();
    let expected = stable(&env, &[]);
    let store = env.path(".proofline");
    let again = |what: &str| {
        let verify = env.run(&["store", "verify", "--json"]);
        let second = env.run(&["store", "verify", "--json"]);
        assert_eq!(second.json()["ok"], true, "{what}: {} {}", verify.stdout, second.stdout);
        env.run(&RUN).ok();
        assert_eq!(stable(&env, &[]), expected, "{what}");
        verify.json()
    };

    // The tail of a journal is gone.
    let journal = newest(&store.join("runs")).join("journal.jsonl");
    let bytes = std::fs::read(&journal).unwrap();
    std::fs::write(&journal, &bytes[..bytes.len() - 700]).unwrap();
    assert_eq!(env.run(&["status", "--json"]).ok().json()["state"], "incomplete");
    assert_eq!(again("a truncated journal")["ok"], true);

    // A bit of a pack has flipped.
    let pack = std::fs::read_dir(store.join("packs")).unwrap().flatten().map(|e| e.path());
    let pack = pack.max_by_key(|p| p.metadata().unwrap().len()).unwrap();
    let mut bytes = std::fs::read(&pack).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&pack, bytes).unwrap();
    assert_eq!(again("a flipped bit")["ok"], false);

    // An object is gone.
    let large = std::fs::read_dir(store.join("objects")).unwrap().flatten().next();
    if let Some(folder) = large {
        std::fs::remove_dir_all(folder.path()).unwrap();
        assert_eq!(again("a deleted object")["ok"], false);
    }

    // The index is no database any more, and then one with a hole.
    std::fs::write(store.join("index.sqlite"), b"this was a database once").unwrap();
    assert_eq!(again("a corrupt index")["ok"], true);
    let mut bytes = std::fs::read(store.join("index.sqlite")).unwrap();
    let from = bytes.len() / 2;
    bytes[from..].fill(0x5a);
    std::fs::write(store.join("index.sqlite"), bytes).unwrap();
    let _ = again("a torn index");
    assert_eq!(shop.sold().len(), WIDTH);
    assert!(shop.sold().values().all(|n| *n == 1), "{:?}", shop.sold());
}

/// Runs a script with the program as `$P`, in namespaces of its own where it is root.
fn contained(env: &Env, script: &str) -> Option<env::Said> {
    let probe = Command::new("unshare").args(["--user", "--map-root-user", "--mount", "true"]).status();
    if !probe.is_ok_and(|status| status.success()) {
        eprintln!("no mount namespaces here: nothing to be seen");
        return None;
    }
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-euc", script]);
    command.current_dir(&env.root).env("P", env::BIN);
    let output = command.output().unwrap();
    Some(env::Said {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

#[test]
fn a_full_disk_ends_the_run_and_loses_nothing() {
    let shop = Shop::open();
    let env = project(&shop);
    env.edit(PIPELINE, "\"echo {{ n }} > out.txt\"", "\"head -c 60000 /dev/urandom > out.txt\"");
    // A supervisor can't write down how a command ended either: lost ones are bought again.
    env.edit(PIPELINE, "seed = 7\n", "seed = 7\n[paid]\nunknown = { command = \"respend\" }\n");
    let script = "mkdir disk; mount -t tmpfs -o size=4m none disk; \
        code=0; $P run pipelines/chaos.toml --trust --json --store disk/store >first.json 2>first.err || code=$?; \
        echo $code >first.code; mount -o remount,size=400m none disk; \
        $P store verify --json --store disk/store >verify.json || true; \
        $P run pipelines/chaos.toml --trust --json --store disk/store >second.json 2>second.err; \
        $P store verify --json --store disk/store >verified.json; \
        $P spend --json --store disk/store >spend.json; \
        mount -o remount,ro none disk; \
        $P report latest --stable --json --store disk/store >report.json; \
        $P status --json --store disk/store >status.json; \
        code=0; $P run pipelines/chaos.toml --trust --json --store disk/store >third.json 2>third.err || code=$?; \
        echo $code >third.code";
    let Some(said) = contained(&env, script) else { return };
    let show = |name: &str| std::fs::read_to_string(env.path(name)).unwrap_or_default();
    let context =
        || format!("{}\n{}\n{}\n{}", said.stderr, show("first.err"), show("second.err"), show("third.err"));
    assert_eq!(said.code, 0, "{}", context());
    assert_eq!(show("first.code").trim(), "3", "{}", context());
    let full = ["No space left", "disk is full"].iter().any(|words| show("first.err").contains(words));
    assert!(full, "{}", context());
    let json = |name: &str| -> Value {
        serde_json::from_str(&show(name)).unwrap_or_else(|e| panic!("{name}: {e}\n{}", context()))
    };
    assert_eq!(json("second.json")["state"], "complete", "{}", context());
    assert_eq!(json("verified.json")["ok"], true);
    assert!(json("report.json")["result"].is_object());
    assert_eq!(json("status.json")["state"], "complete");
    // A disk that can't be written: reading works, running says why it doesn't.
    assert_eq!(show("third.code").trim(), "3", "{}", context());
    assert!(show("third.err").contains("Read-only"), "{}", context());
    // A command that bought and could not write what it got has failed: the ledger has it as spent.
    let spend = json("spend.json");
    for (n, times) in shop.sold() {
        let node = format!("buy[n={n}]");
        let attempts = spend["attempts"].as_array().unwrap().iter();
        let spent = |a: &&Value| a["state"] == "settled" || a["state"] == "respend";
        let told = attempts.filter(|a| a["node"] == node.as_str()).filter(spent).count();
        assert!(times <= told, "`{n}` was bought {times} times, the ledger tells of {told}");
    }
}
