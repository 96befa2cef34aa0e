//! Every way to speak to a server, and what a server does to its corpus.

use crate::env::{Env, fake, of_stages, over_servers, set};

const MAPPED: &str = "\n[tools.ingest]\ntool = \"index_project\"\nargs = { path = \"{corpus}\" }\n\n\
    [tools.query]\ntool = \"search_code\"\nargs = { query = \"{query}\", limit = \"{limit}\" }\n";

#[test]
fn every_transport_gives_rows() {
    let env = Env::new();
    env.server("stdio", &[], "");
    env.server("http", &["--http", "{port}"], "transport = \"http\"\nurl = \"http://127.0.0.1:{port}/mcp\"");
    env.server("cli", &[], "transport = \"cli\"");
    env.write(
        "presets/servers/inside.toml",
        "format = 1\nname = \"inside\"\ntransport = \"builtin\"\nengine = \"bm25\"\nindex = \"memory\"\n",
    );
    env.write("pipelines/servers.toml", &over_servers("stdio,http,cli,inside"));
    let first = env.executed(&["pipelines/servers.toml"]);
    assert_eq!(of_stages(&first, &["index", "warm", "search"]).len(), 12, "{first:?}");
    let rows = env.rows();
    assert_eq!(rows.len(), 12);
    for row in &rows {
        assert_eq!((&row["state"], &row["rank"]), (&"valid".into(), &1.into()), "{row}");
        assert!(row["latency_ms"].as_f64().unwrap() > 0.0, "{row}");
    }
    assert!(env.executed(&["pipelines/servers.toml"]).is_empty());
}

#[test]
fn a_server_may_add_what_its_preset_says() {
    let env = Env::new();
    for (name, extra) in [("tidy", "writes = [\".cache/\"]"), ("messy", "")] {
        env.server(name, &[], extra);
        env.edit(
            &format!("servers/{name}.sh"),
            "#!/bin/sh\n",
            "#!/bin/sh\nmkdir -p .cache; echo x >> .cache/index\n",
        );
    }
    env.write("pipelines/servers.toml", &over_servers("tidy,messy"));
    let run = env.go(&["pipelines/servers.toml"]);
    assert_eq!(run["exit"], 5, "{run}");
    for row in env.rows() {
        if row["arm"] == "tidy" {
            assert_eq!(row["state"], "valid", "{row}");
        } else {
            assert_eq!(row["state"], "invalid", "{row}");
            assert!(row["codes"].to_string().contains("corpus-changed"), "{row}");
        }
    }
    // The corpus itself is as it was.
    assert!(!env.path("datasets/tiny/.cache").exists());
    assert!(env.executed(&["pipelines/servers.toml", "--set", "servers=tidy"]).contains("summary"));
}

#[test]
fn steps_before_indexing_count_and_fail_in_their_own_words() {
    let env = Env::new();
    let step = |words: &str| {
        format!("{MAPPED}\n[[pre-ingest]]\nrun = [\"sh\", \"-c\", '{words}']\ncwd = \"{{corpus}}\"\n")
    };
    env.server("ready", &[], &step("cat src/*.py > \"$HOME/all\""));
    env.server("unready", &[], &step("echo no compiler here >&2; exit 4"));
    env.write("pipelines/servers.toml", &over_servers("ready,unready"));
    let run = env.go(&["pipelines/servers.toml"]);
    assert_eq!((&run["state"], &run["exit"]), (&"complete".into(), &3.into()), "{run}");
    for row in env.rows() {
        if row["arm"] == "ready" {
            assert_eq!((&row["state"], &row["rank"]), (&"valid".into(), &1.into()), "{row}");
        } else {
            assert!(row["codes"].to_string().contains("pre-ingest-failed"), "{row}");
            assert!(row["error"].as_str().unwrap().contains("no compiler here"), "{row}");
        }
    }
    assert_eq!(env.starts("unready"), 0);
    // The step is part of what the server is.
    env.edit("presets/servers/ready.toml", "cat src/*.py >", "cat src/*.py src/*.py >");
    let ran = env.executed(&["pipelines/servers.toml", "--set", "servers=ready"]);
    assert!(ran.contains("index[repo=tiny,arm=ready]"), "{ran:?}");
}

#[test]
fn a_changed_corpus_runs_its_repository_again() {
    let env = Env::new();
    env.server("good", &[], "");
    env.executed(&["pipelines/servers.toml"]);
    env.write("datasets/tiny/src/delta.py", "def compute_delta(x):\n    return x\n");
    let plan = env.run(&["plan", "pipelines/servers.toml", "--json"]).ok().json();
    let index = plan["nodes"].as_array().unwrap().iter().find(|n| n["stage"] == "index").unwrap().clone();
    assert_eq!(
        (&index["action"], &index["reasons"][0]["field"]),
        (&"run".into(), &"corpus".into()),
        "{index}"
    );
    assert_eq!(of_stages(&env.executed(&["pipelines/servers.toml"]), &["index", "warm", "search"]).len(), 3);
    std::fs::remove_file(env.path("datasets/tiny/src/delta.py")).unwrap();
    assert!(env.executed(&["pipelines/servers.toml"]).is_empty(), "the first corpus is known");
}

#[test]
fn a_new_program_is_a_new_server() {
    let env = Env::new();
    env.server("good", &[], "");
    env.executed(&["pipelines/servers.toml"]);
    env.edit("servers/good.sh", "#!/bin/sh\n", "#!/bin/sh\n# another program\n");
    let ran = env.executed(&["pipelines/servers.toml"]);
    assert!(ran.contains("index[repo=tiny,arm=good]"), "{ran:?}");
    // A preset for another copy of the same program shares all but the aggregate.
    let other = env.read("presets/servers/good.toml").replace("name = \"good\"", "name = \"twin\"");
    env.write("presets/servers/twin.toml", &other);
    assert_eq!(env.executed(&["pipelines/servers.toml", "--set", "servers=twin"]), set(&["summary"]));
    assert!(fake().is_file());
}
