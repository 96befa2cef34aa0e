//! Looking at runs and nodes, choosing among them, mending a store.

use serde_json::json;

use crate::env::{Env, of_stages, set, text};

const PIPELINE: &str = r#"
format = 1
name   = "inspect"

[axes]
n = ["1", "2"]

[stage.first]
kind    = "command"
over    = ["n"]
run     = ["sh", "-c", "echo {{ n }} > first.txt"]
outputs = { text = { path = "first.txt" } }

[stage.second]
kind    = "command"
needs   = ["first"]
run     = ["sh", "-c", "cat in/first/text in/first/text > second.txt"]
outputs = { text = { path = "second.txt" } }

[stage.clock]
kind    = "command"
run     = ["sh", "-c", "date +%s%N > clock.txt"]
outputs = { text = { path = "clock.txt" } }
"#;

fn env() -> Env {
    let env = Env::new();
    env.write("pipelines/inspect.toml", PIPELINE);
    env
}

#[test]
fn nodes_and_runs_are_explained() {
    let env = env();
    let run = env.go(&["pipelines/inspect.toml"]);
    let why = env.run(&["why", "second[n=2]", "pipelines/inspect.toml", "--json"]).ok().json();
    let node = &why["nodes"][0];
    assert_eq!((&node["id"], &node["action"]), (&json!("second[n=2]"), &json!("reuse")), "{node}");
    env.edit("pipelines/inspect.toml", "cat in/first/text in", "cat in/first/text /dev/null in");
    let why = env.run(&["why", "second[n=2]", "pipelines/inspect.toml", "--json"]).ok().json();
    let node = &why["nodes"][0];
    assert_eq!(node["action"], "run");
    assert_eq!(node["reasons"][0]["field"], "run.2", "{node}");
    assert!(node["reasons"][0]["new"].as_str().unwrap().contains("/dev/null"));
    let words = env.run(&["why", "second[n=2]", "pipelines/inspect.toml"]).ok().stdout;
    assert!(words.contains("run.2"), "{words}");

    assert_eq!(env.run(&["show", "second[n=2]", "--part", "text"]).ok().stdout, "2\n2\n");
    let recipe = env.run(&["show", "first[n=1]", "--part", "recipe"]).ok().json();
    assert_eq!((&recipe["kind"], &recipe["run"][0]), (&json!("command"), &json!("sh")));
    let wrong = env.run(&["show", "second[n=2]", "--part", "txt"]);
    assert!(wrong.code == 1 && wrong.stderr.contains("text"), "{}", wrong.stderr);

    let status = env.run(&["status", "--json"]).ok().json();
    assert_eq!((&status["run"], &status["state"]), (&run["run"], &json!("complete")));
    let stage = &status["stages"][0];
    assert_eq!(
        (&stage["total"], &stage["executed"], &stage["failed"]),
        (&json!(2), &json!(2), &json!(0)),
        "{stage}"
    );
    let runs = env.run(&["runs", "--json"]).ok().json();
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1);
    assert_eq!(runs["runs"][0]["nodes"]["executed"], 5, "{runs}");
}

#[test]
fn replay_names_a_stage_that_lied() {
    let env = env();
    env.go(&["pipelines/inspect.toml"]);
    let honest = env.run(&["replay", "first", "pipelines/inspect.toml", "--verify", "--json"]);
    assert_eq!(honest.code, 0, "{} {}", honest.stdout, honest.stderr);
    let replayed = honest.json()["replayed"].clone();
    assert_eq!(replayed.as_array().unwrap().len(), 2, "{replayed}");
    assert!(replayed.as_array().unwrap().iter().all(|r| r["same"] == true), "{replayed}");
    let liar = env.run(&["replay", "clock", "pipelines/inspect.toml", "--verify"]);
    assert_eq!(liar.code, 3, "{}", liar.stdout);
    assert!(liar.stdout.contains("clock") && liar.stdout.contains("text"), "{}", liar.stdout);
    // The first result stays.
    let runs = env.run(&["runs", "--json"]).ok().json();
    let replay = runs["runs"].as_array().unwrap().last().unwrap()["run"].as_str().unwrap();
    let before = env.run(&["show", "clock", "--part", "text", "--run", replay]).ok().stdout;
    assert!(env.executed(&["pipelines/inspect.toml"]).is_empty());
    let after = env.run(&["show", "clock", "--part", "text"]).ok().stdout;
    assert!(!after.is_empty() && before != after, "the replay's own result is shown in its run only");
}

#[test]
fn selectors_choose_nodes() {
    let env = env();
    let only = |selector: &str| env.executed(&["pipelines/inspect.toml", "--only", selector]);
    assert_eq!(only("second[n=1]"), set(&["first[n=1]", "second[n=1]"]));
    assert_eq!(only("fir*"), set(&["first[n=2]"]));
    assert_eq!(only("first[n=2]+"), set(&["second[n=2]"]));
    let planned = env.run(&["plan", "pipelines/inspect.toml", "--only", "clock", "--json"]).ok().json();
    assert_eq!(planned["nodes"].as_array().unwrap().len(), 1);
    assert_eq!(only("+clock"), set(&["clock"]));
    let none = env.run(&["run", "pipelines/inspect.toml", "--trust", "--only", "secnd"]);
    assert_eq!(none.code, 1);
    assert!(none.stderr.contains("second"), "{}", none.stderr);
}

/// Flips a byte of the payload that holds `content`.
fn damage(env: &Env, content: &str) {
    for entry in std::fs::read_dir(env.path(".proofline/packs")).unwrap().flatten() {
        let mut bytes = std::fs::read(entry.path()).unwrap();
        if let Some(at) = bytes.windows(content.len()).position(|w| w == content.as_bytes()) {
            bytes[at] ^= 0x20;
            std::fs::write(entry.path(), bytes).unwrap();
            return;
        }
    }
    panic!("no pack holds {content:?}");
}

/// Flips a byte in the first record of a pack: magic, `R`, and a header of 56 bytes in all.
fn damage_record(env: &Env) {
    for entry in std::fs::read_dir(env.path(".proofline/packs")).unwrap().flatten() {
        let mut bytes = std::fs::read(entry.path()).unwrap();
        if let Some(at) = bytes.windows(5).position(|w| w == b"PLF1R") {
            bytes[at + 56 + 30] ^= 0x20;
            std::fs::write(entry.path(), bytes).unwrap();
            return;
        }
    }
    panic!("no pack holds a record");
}

#[test]
fn damage_is_found_and_made_good() {
    let env = env();
    env.go(&["pipelines/inspect.toml"]);
    let verify = || env.run(&["store", "verify", "--json"]);
    assert_eq!((verify().code, verify().json()), (0, json!({ "ok": true, "problems": [] })));
    let good = env.run(&["show", "second[n=1]", "--part", "text"]).ok().stdout;
    damage(&env, &good);
    let found = verify();
    assert_eq!(found.code, 3);
    let found = found.json();
    assert_eq!(found["ok"], false);
    let problem = &found["problems"][0];
    assert_eq!((&problem["kind"], &problem["repaired"]), (&json!("damaged-object"), &json!(true)), "{found}");
    assert!(problem["where"].is_string() && problem["key"].is_string(), "{found}");
    assert_eq!(found["problems"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(env.executed(&["pipelines/inspect.toml"]), set(&["second[n=1]"]));
    assert_eq!(env.run(&["show", "second[n=1]", "--part", "text"]).ok().stdout, good);
    assert_eq!(verify().code, 0);

    // A damaged record is in the index still, and is written again for the next rebuild.
    damage_record(&env);
    let found = verify();
    assert_eq!(found.code, 3);
    assert_eq!(found.json()["problems"][0]["kind"], "damaged-record");
    assert_eq!(verify().code, 0);
    for name in ["index.sqlite", "index.sqlite-wal", "index.sqlite-shm"] {
        let _ = std::fs::remove_file(env.path(&format!(".proofline/{name}")));
    }
    assert!(env.executed(&["pipelines/inspect.toml"]).is_empty(), "the index is rebuilt from packs");
}

#[test]
fn a_lost_index_and_a_damaged_one_are_rebuilt() {
    let env = env();
    env.go(&["pipelines/inspect.toml"]);
    std::fs::write(env.path(".proofline/index.sqlite"), "no database at all, however long it may be")
        .unwrap();
    for name in ["index.sqlite-wal", "index.sqlite-shm"] {
        let _ = std::fs::remove_file(env.path(&format!(".proofline/{name}")));
    }
    assert!(env.executed(&["pipelines/inspect.toml"]).is_empty());
    assert_eq!(env.run(&["store", "verify", "--json"]).code, 0);
}

#[test]
fn gc_shows_before_it_deletes_and_keeps_what_runs_name() {
    let env = env();
    env.go(&["pipelines/inspect.toml"]);
    env.edit("pipelines/inspect.toml", "echo {{ n }} >", "echo new {{ n }} >");
    assert_eq!(of_stages(&env.executed(&["pipelines/inspect.toml"]), &["first"]).len(), 2);
    let shown = env.run(&["store", "gc", "--keep", "1", "--json"]).ok().json();
    assert_eq!(shown["deleted"], false);
    assert_eq!(shown["records"], 4, "{shown}");
    assert!(env.executed(&["pipelines/inspect.toml"]).is_empty());
    let gone = env.run(&["store", "gc", "--keep", "1", "--delete", "--json"]).ok().json();
    assert_eq!((&gone["deleted"], &gone["records"]), (&json!(true), &json!(4)), "{gone}");
    assert!(env.executed(&["pipelines/inspect.toml"]).is_empty(), "what the newest run names is kept");
    assert_eq!(env.run(&["store", "verify", "--json"]).ok().json()["ok"], true);
    env.edit("pipelines/inspect.toml", "echo new {{ n }} >", "echo {{ n }} >");
    let again = env.executed(&["pipelines/inspect.toml"]);
    assert_eq!(of_stages(&again, &["first", "second"]).len(), 4, "what was deleted is made anew: {again:?}");
    assert!(!text(&env.run(&["status", "--json"]).ok().json()["run"]).is_empty());
}
