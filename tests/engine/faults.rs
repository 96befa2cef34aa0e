//! The fault menu, each fault beside a good server whose rows stay complete.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::Value;

use crate::env::{Env, TASKS, fake, over_servers, text};

const SHORT: &str = "start-timeout = \"1500ms\"\ncall-timeout = \"1s\"\nindex-timeout = \"5s\"";

struct Fault {
    name: &'static str,
    flags: &'static [&'static str],
    /// State of the rows, the code of one of them, and words of the server's.
    state: &'static str,
    code: &'static str,
    words: &'static str,
}

const fn fault(
    name: &'static str,
    flags: &'static [&'static str],
    state: &'static str,
    code: &'static str,
    words: &'static str,
) -> Fault {
    Fault { name, flags, state, code, words }
}

/// Faults that end in an error, and some that a client must bear.
const MENU: [Fault; 15] = [
    fault("mute", &["--never-initialize"], "error", "handshake-timeout", ""),
    fault("quitter", &["--exit-at-once"], "error", "handshake-failed", "the model could not be loaded"),
    fault("dier", &["--die-in-call", "3"], "error", "server-died", "crashed in the middle"),
    fault("hanger", &["--hang-in-call", "4"], "error", "call-timeout", ""),
    fault("closer", &["--close-stdout", "3"], "error", "server-died", ""),
    fault("giant", &["--reply-mb", "50"], "error", "reply-too-large", ""),
    fault("iserror", &["--is-error"], "error", "call-error", "the index is not ready"),
    fault("rpcerror", &["--rpc-error"], "error", "call-error", "fetch failed"),
    fault(
        "noindex",
        &["--index-error", "no such model: tiny"],
        "error",
        "ingest-failed",
        "no such model: tiny",
    ),
    fault("wrongids", &["--only-wrong-ids"], "error", "call-timeout", ""),
    fault("flooder", &["--flood-stderr", "20"], "valid", "", ""),
    fault("garbler", &["--garbage", "--half-lines", "--wrong-ids"], "valid", "", ""),
    fault("asker", &["--server-requests"], "valid", "", ""),
    fault("pager", &["--pages", "3"], "valid", "", ""),
    fault("looper", &["--page-loop"], "", "", ""),
];

fn by_arm(rows: Vec<Value>) -> BTreeMap<String, Vec<Value>> {
    let mut out: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for row in rows {
        out.entry(text(&row["arm"])).or_default().push(row);
    }
    out
}

fn good_is_complete(rows: &BTreeMap<String, Vec<Value>>) {
    let good = &rows["good"];
    assert_eq!(good.len(), TASKS);
    for row in good {
        assert_eq!((&row["state"], &row["rank"]), (&"valid".into(), &1.into()), "{row}");
        assert!(row["latency_ms"].is_number() && row["error"].is_null(), "{row}");
    }
}

#[test]
fn every_fault_is_a_row_and_harms_nobody_else() {
    let env = Env::new();
    env.server("good", &[], "");
    let mut servers = "good".to_owned();
    for fault in &MENU {
        env.server(fault.name, fault.flags, SHORT);
        servers = format!("{servers},{}", fault.name);
    }
    env.write("pipelines/servers.toml", &over_servers(&servers));
    let start = Instant::now();
    let run = env.go(&["pipelines/servers.toml"]);
    assert!(start.elapsed().as_secs() < 90, "something hung: {:?}", start.elapsed());
    assert_eq!((&run["state"], &run["exit"]), (&"complete".into(), &3.into()), "{run}");
    assert_eq!(run["nodes"]["failed"], 0, "what a server does wrong is no failure of a node: {run}");
    let rows = by_arm(env.rows());
    good_is_complete(&rows);
    for fault in &MENU {
        let rows = rows.get(fault.name).unwrap_or_else(|| panic!("{} has no rows", fault.name));
        assert_eq!(rows.len(), TASKS, "{}: {rows:?}", fault.name);
        if fault.state.is_empty() {
            continue;
        }
        assert!(rows.iter().any(|r| r["state"] == fault.state), "{}: {rows:?}", fault.name);
        if fault.state == "valid" {
            assert!(rows.iter().all(|r| r["state"] == "valid" && r["rank"] == 1), "{}: {rows:?}", fault.name);
            continue;
        }
        let said = rows.iter().any(|r| {
            let coded = r["codes"].as_array().unwrap().iter().any(|c| *c == fault.code);
            coded && r["error"].as_str().is_some_and(|e| e.contains(fault.words) && !e.is_empty())
        });
        assert!(said, "{}: {rows:?}", fault.name);
    }
    let page = env.run(&["report"]).ok().stdout;
    assert!(page.contains("the model could not be loaded"), "{page}");

    // What ended in error is tried again, what ended well is not; errors can be allowed.
    let (good, mute) = (env.starts("good"), env.starts("mute"));
    let small = ["pipelines/servers.toml", "--set", "servers=good,mute,quitter", "--allow-errors"];
    let again = env.go(&small);
    assert_eq!((&again["state"], &again["exit"]), (&"complete".into(), &0.into()), "{again}");
    assert_eq!(env.starts("good"), good);
    assert_eq!(env.starts("mute"), mute + 1, "its ingest is tried again");
    good_is_complete(&by_arm(env.rows()));
}

#[test]
fn a_treatment_that_is_none_makes_the_experiment_invalid() {
    let env = Env::new();
    env.server("good", &[], "");
    env.server("nothing", &["--nothing"], "");
    env.server("unicode", &["--unicode"], "");
    // Other tools at its second start: what it found in its home says so.
    let fake = fake();
    let fake = fake.display();
    env.server("changing", &[], "");
    env.script(
        "servers/changing.sh",
        &format!(
            "#!/bin/sh\nif [ -e \"$HOME/seen\" ]; then exec '{fake}' --tools search; fi\n: > \"$HOME/seen\"\nexec '{fake}'\n"
        ),
    );
    for (name, text) in
        [("src/Größe/módulo.py", "x = 1\n"), ("src/日本.py", "y = 2\n"), ("src/naïve file.py", "z = 3\n")]
    {
        env.write(&format!("datasets/tiny/{name}"), text);
    }
    env.write("pipelines/servers.toml", &over_servers("good,nothing,unicode,changing"));
    let run = env.go(&["pipelines/servers.toml"]);
    assert_eq!((&run["state"], &run["exit"]), (&"complete".into(), &5.into()), "{run}");
    let rows = by_arm(env.rows());
    good_is_complete(&rows);
    let codes = |arm: &str| -> Vec<String> {
        assert_eq!(rows[arm].len(), TASKS);
        let mut codes: Vec<String> = Vec::new();
        for row in &rows[arm] {
            assert_eq!(row["state"], "invalid", "{row}");
            codes.extend(row["codes"].as_array().unwrap().iter().map(text));
        }
        codes
    };
    assert!(codes("nothing").contains(&"known-answer-failed".to_owned()), "{:?}", rows["nothing"]);
    assert!(codes("changing").contains(&"tools-differ".to_owned()), "{:?}", rows["changing"]);
    assert!(codes("unicode").contains(&"known-answer-failed".to_owned()), "{:?}", rows["unicode"]);
    let found: Vec<&Value> =
        rows["unicode"][0]["results"].as_array().unwrap().iter().map(|r| &r["file"]).collect();
    assert_eq!(found[0], "src/Größe/módulo.py", "{found:?}");
    assert_eq!(found[2], "src/naïve file.py", "{found:?}");
    assert!(found[1].as_str().unwrap().ends_with("src/日本.py"), "{found:?}");
    // An invalid session is no error: it isn't asked again.
    let starts = env.starts("nothing");
    assert_eq!(env.go(&["pipelines/servers.toml"])["nodes"]["executed"], 0);
    assert_eq!(env.starts("nothing"), starts);
}

#[test]
fn a_daemon_is_gone_when_its_node_is_done() {
    let env = Env::new();
    env.server("good", &[], "");
    env.server("daemon", &["--daemon"], "");
    env.write("pipelines/servers.toml", &over_servers("good,daemon"));
    let run = env.go(&["pipelines/servers.toml"]);
    assert_eq!(run["exit"], 0, "{run}");
    let mark = format!("PROOFLINE_MARK={}-", text(&run["run"]));
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let environ = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let alive = environ.split(|b| *b == 0).any(|have| have.starts_with(mark.as_bytes()));
        assert!(!alive, "{} is alive", entry.path().display());
    }
    let rows = by_arm(env.rows());
    good_is_complete(&rows);
    assert!(rows["daemon"].iter().all(|r| r["state"] == "valid"));
    let report = env.run(&["report", "--json"]).ok().json();
    assert!(report["run"]["sessions"].to_string().contains("left a process behind"), "{}", report["run"]);
}
