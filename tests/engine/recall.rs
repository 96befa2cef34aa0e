//! What a run remembers of the one before must never be a lie.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::env::{Env, set, text};

const PIPELINE: &str = r#"
format = 1
name   = "recall"

[params]
word = { default = "one" }

[axes]
n = ["1", "2", "3"]

[stage.copy]
kind    = "command"
over    = ["n"]
run     = ["/bin/sh", "-c", "cat src/{{ n }}.txt > out.txt", "{{ params.word }}-{{ n }}"]
inputs  = ["src/{{ n }}.txt"]
outputs = { text = { path = "out.txt" } }

[stage.join]
kind    = "command"
needs   = ["copy"]
over    = []
run     = ["/bin/sh", "-c", "cat in/copy/*/text lib/*.txt data/deep/* > all.txt"]
inputs  = ["lib/*.txt", "data"]
outputs = { text = { path = "all.txt" } }
"#;

const RUN: &[&str] = &["pipelines/recall.toml"];

/// A project that has run twice: the second run has seen that all is settled.
fn settled() -> Env {
    let env = Env::new();
    env.write("pipelines/recall.toml", PIPELINE);
    for n in ["1", "2", "3"] {
        env.write(&format!("src/{n}.txt"), &format!("text {n}\n"));
    }
    env.write("lib/a.txt", "lib a\n");
    env.write("data/deep/x", "data x\n");
    settle();
    assert_eq!(env.executed(RUN).len(), 4);
    assert!(env.executed(RUN).is_empty());
    env
}

/// Lets files become older than the step of the clock that they are stamped with.
fn settle() {
    std::thread::sleep(Duration::from_millis(150));
}

fn memo(env: &Env) -> PathBuf {
    let found: Vec<_> = std::fs::read_dir(env.path(".proofline/cache/settled")).unwrap().flatten().collect();
    assert_eq!(found.len(), 1, "one memo for one pipeline");
    found[0].path()
}

fn inode(env: &Env) -> u64 {
    std::fs::metadata(memo(env)).unwrap().ino()
}

fn all_but_one() -> std::collections::BTreeSet<String> {
    set(&["copy[n=2]", "join"])
}

#[test]
fn a_run_without_news_writes_nothing_down() {
    let env = settled();
    let before = inode(&env);
    assert!(env.executed(RUN).is_empty());
    assert_eq!(inode(&env), before);
    let plan = env.run(&["plan", "pipelines/recall.toml", "--json"]).ok().json();
    let reused = |node: &Value| node["action"] == "reuse";
    assert_eq!(plan["nodes"].as_array().unwrap().iter().filter(|n| reused(n)).count(), 4, "{plan}");
}

#[test]
fn other_content_of_the_same_size_and_time_is_seen() {
    let env = settled();
    let path = env.path("src/2.txt");
    let time = std::fs::metadata(&path).unwrap().modified().unwrap();
    std::fs::write(&path, "test 2\n").unwrap();
    std::fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().modified().unwrap(), time);
    let plan = env.run(&["plan", "pipelines/recall.toml", "--json"]).ok().json();
    let runs =
        |id: &str| plan["nodes"].as_array().unwrap().iter().any(|n| n["id"] == id && n["action"] == "run");
    assert!(runs("copy[n=2]") && !runs("copy[n=1]"), "{plan}");
    assert_eq!(env.executed(RUN), all_but_one());
    assert!(env.executed(RUN).is_empty());
}

#[test]
fn a_file_that_takes_the_place_of_another_is_seen() {
    let env = settled();
    let path = env.path("src/2.txt");
    let time = std::fs::metadata(&path).unwrap().modified().unwrap();
    env.write("src/new", "test 2\n");
    std::fs::File::options().write(true).open(env.path("src/new")).unwrap().set_modified(time).unwrap();
    std::fs::rename(env.path("src/new"), &path).unwrap();
    assert_eq!(env.executed(RUN), all_but_one());
}

#[test]
fn a_touched_file_of_the_same_content_runs_nothing() {
    let env = settled();
    let file = std::fs::File::options().write(true).open(env.path("src/2.txt")).unwrap();
    file.set_modified(SystemTime::now()).unwrap();
    settle();
    let before = inode(&env);
    assert!(env.executed(RUN).is_empty());
    let after = inode(&env);
    assert_ne!(before, after, "the new status is written down");
    assert!(env.executed(RUN).is_empty());
    assert_eq!(inode(&env), after);
}

#[test]
fn files_that_come_to_a_pattern_or_leave_it_are_seen() {
    let env = settled();
    env.write("lib/b.txt", "lib b\n");
    assert_eq!(env.executed(RUN), set(&["join"]));
    std::fs::remove_file(env.path("lib/a.txt")).unwrap();
    assert_eq!(env.executed(RUN), set(&["join"]));
    env.write("data/other/y", "data y\n");
    assert_eq!(env.executed(RUN), set(&["join"]));
    std::fs::remove_dir_all(env.path("data/other")).unwrap();
    assert!(env.executed(RUN).is_empty(), "as it was before");
    std::fs::remove_file(env.path("src/2.txt")).unwrap();
    assert_ne!(env.run(&["run", "pipelines/recall.toml", "--trust"]).code, 0);
    env.write("src/2.txt", "text 2\n");
    assert!(env.executed(RUN).is_empty());
}

#[test]
fn a_word_that_becomes_a_file_is_an_input() {
    let env = settled();
    env.write("one-2", "a file\n");
    assert_eq!(env.executed(RUN), set(&["copy[n=2]"]), "other inputs, same output");
    std::fs::remove_file(env.path("one-2")).unwrap();
    assert!(env.executed(RUN).is_empty());
    std::fs::create_dir(env.path("one-3")).unwrap();
    assert!(env.executed(RUN).is_empty(), "a folder is no file");
    std::fs::remove_dir(env.path("one-3")).unwrap();
    env.write("one-3", "a file\n");
    assert_eq!(env.executed(RUN), set(&["copy[n=3]"]));
}

#[test]
fn what_the_store_has_lost_is_made_anew() {
    let env = settled();
    let report = env.run(&["report", "--json"]).ok().json();
    assert_eq!(report["run"]["records"].as_array().unwrap().len(), 4);
    // One byte of an object.
    let pack = |env: &Env| {
        let packs = std::fs::read_dir(env.path(".proofline/packs")).unwrap().flatten();
        packs.map(|e| e.path()).max_by_key(|p| std::fs::metadata(p).unwrap().len()).unwrap()
    };
    let path = pack(&env);
    let mut bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(7).position(|w| w == b"text 2\n").unwrap();
    bytes[at] = b'T';
    std::fs::write(&path, bytes).unwrap();
    assert!(env.executed(RUN).is_empty(), "the index is believed until something is checked");
    assert_ne!(env.run(&["store", "verify"]).code, 0);
    assert_eq!(env.executed(RUN), set(&["copy[n=2]"]));
    assert!(env.executed(RUN).is_empty());
    // A whole pack.
    std::fs::remove_file(pack(&env)).unwrap();
    let ran = env.executed(RUN);
    assert!(ran.contains("copy[n=1]") && ran.contains("copy[n=3]") && ran.contains("join"), "{ran:?}");
    assert!(env.executed(RUN).is_empty());
}

#[test]
fn a_pack_that_was_cut_short_has_lost_what_it_held() {
    let env = settled();
    let packs = std::fs::read_dir(env.path(".proofline/packs")).unwrap().flatten().map(|e| e.path());
    for pack in packs {
        std::fs::File::options().write(true).open(pack).unwrap().set_len(100).unwrap();
    }
    assert_eq!(env.executed(RUN).len(), 4);
}

#[test]
fn a_memo_that_is_gone_or_damaged_costs_time_only() {
    let env = settled();
    let path = memo(&env);
    let whole = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(env.executed(RUN).is_empty());
    assert!(path.is_file());
    let mut damaged: Vec<Vec<u8>> =
        [0, 7, 40, 60, 99, whole.len() / 2, whole.len() - 1].map(|n| whole[..n].to_vec()).into();
    for at in [0, 9, 45, 58, 65, 70, 90, whole.len() / 2, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        damaged.push(bytes);
    }
    damaged.push(vec![0xff; 4096]);
    damaged.push([whole.clone(), vec![0; 3]].concat());
    for bytes in damaged {
        std::fs::write(&path, &bytes).unwrap();
        assert!(env.executed(RUN).is_empty());
        assert_ne!(std::fs::read(&path).unwrap(), bytes, "it is written anew");
    }
    // A folder in its place.
    std::fs::remove_file(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    assert!(env.executed(RUN).is_empty());
}

#[test]
fn the_memo_of_another_pipeline_or_store_is_not_believed() {
    let env = settled();
    let path = memo(&env);
    let whole = std::fs::read(&path).unwrap();
    // The same name and place, another graph.
    env.edit("pipelines/recall.toml", r#"n = ["1", "2", "3"]"#, r#"n = ["3", "1", "2"]"#);
    assert!(env.executed(RUN).is_empty(), "an order is in no recipe");
    env.edit("pipelines/recall.toml", "cat src/{{ n }}.txt >", "cat src/{{ n }}.txt src/{{ n }}.txt >");
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(env.executed(RUN).len(), 4);
    // An index that was rebuilt promises nothing of what was before.
    let whole = std::fs::read(&path).unwrap();
    let packs = env.path(".proofline/packs");
    for entry in std::fs::read_dir(&packs).unwrap().flatten() {
        std::fs::remove_file(entry.path()).unwrap();
    }
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(env.path(&format!(".proofline/index.sqlite{suffix}")));
    }
    std::fs::write(&path, &whole).unwrap();
    assert_eq!(env.executed(RUN).len(), 4);
}

#[test]
fn a_parameter_and_a_choice_of_nodes_are_heeded() {
    let env = settled();
    let other = ["pipelines/recall.toml", "--set", "word=two"];
    assert_eq!(env.executed(&other), set(&["copy[n=1]", "copy[n=2]", "copy[n=3]"]));
    assert!(env.executed(RUN).is_empty());
    assert!(env.executed(&other).is_empty());
    assert!(env.executed(RUN).is_empty());
    env.write("src/1.txt", "new 1\n");
    env.write("src/2.txt", "new 2\n");
    assert_eq!(env.executed(&["pipelines/recall.toml", "--only", "copy[n=1]"]), set(&["copy[n=1]"]));
    let only = env.go(&["pipelines/recall.toml", "--only", "copy[n=3]"]);
    assert_eq!((&only["nodes"]["total"], &only["nodes"]["reused"]), (&json!(1), &json!(1)), "{only}");
    assert_eq!(env.executed(RUN), all_but_one());
}

#[test]
fn a_replay_runs_what_is_known() {
    let env = settled();
    let said = env.run(&["replay", "copy[n=2]", "pipelines/recall.toml", "--verify", "--json"]).ok();
    let json = said.json();
    assert_eq!(json["nodes"]["executed"], 1, "{json}");
    assert_eq!(json["replayed"][0]["same"], true, "{json}");
    assert!(env.executed(RUN).is_empty());
}

#[test]
fn many_reused_nodes_are_one_line() {
    let env = Env::new();
    let values: Vec<String> = (0..80).map(|n| format!("\"{n}\"")).collect();
    let list = format!("n = [{}]", values.join(", "));
    env.write("pipelines/recall.toml", &PIPELINE.replace(r#"n = ["1", "2", "3"]"#, &list));
    for n in 0..80 {
        env.write(&format!("src/{n}.txt"), &format!("text {n}\n"));
    }
    env.write("lib/a.txt", "lib a\n");
    env.write("data/deep/x", "data x\n");
    settle();
    assert_eq!(env.executed(RUN).len(), 81);
    let reused = || -> Vec<Value> {
        let runs = std::fs::read_dir(env.path(".proofline/runs")).unwrap().flatten();
        let newest = runs
            .map(|e| e.path())
            .max_by_key(|p| {
                std::fs::metadata(p).unwrap().mtime_nsec()
                    + std::fs::metadata(p).unwrap().mtime() * 1_000_000_000
            })
            .unwrap();
        let journal = std::fs::read_to_string(newest.join("journal.jsonl")).unwrap();
        let events = journal.lines().map(|line| line.split('\t').next().unwrap().to_owned());
        let events = events.map(|line| serde_json::from_str::<Value>(&line).unwrap()["event"].clone());
        events.filter(|event| event["type"] == "reused" && event["stage"] == "copy").collect()
    };
    assert!(env.executed(RUN).is_empty());
    let first = reused();
    assert_eq!((first.len(), &first[0]["count"]), (1, &json!(80)), "{first:?}");
    assert!(first[0]["listing"].is_string() && first[0]["nodes"].is_null(), "{first:?}");
    let objects = || env.run(&["store", "stats", "--json"]).ok().json()["objects"].clone();
    let before = objects();
    assert!(env.executed(RUN).is_empty());
    assert_eq!((reused(), objects()), (first.clone(), before), "the same line, and nothing new in the store");
    // All of them are told of one by one where that is asked for.
    let report = env.run(&["report", "--json"]).ok().json();
    assert_eq!(report["run"]["records"].as_array().unwrap().len(), 81);
    let status = env.run(&["status", "--json"]).ok().json();
    assert_eq!(status["stages"][0]["reused"], 80, "{status}");
    let shown = env.run(&["show", "copy[n=33]", "--part", "text"]).ok();
    assert_eq!(shown.stdout, "text 33\n");
    // One that is executed is an exception, and one with a new key after that stands in the line.
    env.write("src/7.txt", "new 7\n");
    assert_eq!(env.executed(RUN), set(&["copy[n=7]", "join"]));
    let changed = reused();
    assert_eq!(changed[0]["listing"], first[0]["listing"]);
    assert_eq!((&changed[0]["count"], &changed[0]["except"]), (&json!(79), &json!(["copy[n=7]"])));
    assert!(env.executed(RUN).is_empty());
    let after = reused();
    assert_eq!((&after[0]["count"], &after[0]["listing"]), (&json!(80), &first[0]["listing"]));
    assert_eq!(after[0]["nodes"].as_array().unwrap().len(), 1, "{after:?}");
    let report = env.run(&["report", "--json"]).ok().json();
    let records = report["run"]["records"].as_array().unwrap();
    let key = |id: &str| text(&records.iter().find(|r| r[0] == id).unwrap()[1]);
    assert_eq!(after[0]["nodes"][0], json!(["copy[n=7]", key("copy[n=7]")]));
    assert_eq!(records.len(), 81);
    assert_eq!(env.run(&["show", "copy[n=7]", "--part", "text"]).ok().stdout, "new 7\n");
    // What the newest run names is kept.
    env.run(&["store", "gc", "--keep", "1", "--delete"]).ok();
    assert!(env.executed(RUN).is_empty());
}
