//! What a change makes run, and what it does not.

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::env::{Env, of_stages, over_servers, question, questions, set, text, with_arms};

/// A project with two servers under two arms, run once.
fn two_arms() -> Env {
    let env = Env::new();
    env.server("good", &[], "");
    env.server(
        "other",
        &["--tools", "search"],
        "\n[tools.query]\ntool = \"search_code\"\nargs = { query = \"{query}\", limit = \"{limit}\" }\n",
    );
    env.write("pipelines/arms.toml", &with_arms(&[("one", "good"), ("two", "other")]));
    let first = env.executed(&["pipelines/arms.toml"]);
    assert_eq!(first.len(), 2 * 7 + 1, "{first:?}");
    assert!(env.starts("good") == 3 && env.starts("other") == 3, "each node has a server of its own");
    env
}

fn files(env: &Env) -> Vec<std::path::PathBuf> {
    let mut out = Vec::new();
    let mut todo = vec![env.root.clone()];
    while let Some(folder) = todo.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.file_name() == ".proofline" {
                continue;
            }
            if entry.file_type().unwrap().is_dir() {
                todo.push(entry.path());
            } else {
                out.push(entry.path());
            }
        }
    }
    out
}

#[test]
fn what_does_not_count_runs_nothing() {
    let mut env = two_arms();
    let nothing = |env: &Env, what: &str, said: Value| {
        assert_eq!(said["state"], "complete", "{what}: {said}");
        assert_eq!(said["nodes"]["executed"], 0, "{what}: {said}");
        assert_eq!((env.starts("good"), env.starts("other")), (3, 3), "{what} started a server");
    };
    nothing(&env, "nothing changed", env.go(&["pipelines/arms.toml"]));

    for file in files(&env) {
        let then = SystemTime::now() - Duration::from_hours(24);
        std::fs::File::options().append(true).open(file).unwrap().set_modified(then).unwrap();
    }
    nothing(&env, "touched files", env.go(&["pipelines/arms.toml"]));

    // Keys of tables and tables of a file in another order, with comments.
    env.edit(
        "pipelines/arms.toml",
        "format = 1\nname = \"arms\"\nseed = 7\n",
        "# why\nseed = 7\nname = \"arms\" # a\nformat = 1\n",
    );
    env.edit(
        "pipelines/arms.toml",
        "\"hit@5\" = 0.75\n\"mrr\"   = 0.25\n",
        "\"mrr\"   = 0.25\n\"hit@5\" = 0.75\n",
    );
    nothing(&env, "keys of the pipeline in another order", env.go(&["pipelines/arms.toml"]));
    env.edit(
        "pipelines/arms.toml",
        "[arm.one]\nserver = \"good\"\n\n[arm.two]\nserver = \"other\"\n",
        "[arm.two]\nserver = \"other\"\n\n[arm.one]\nserver = \"good\"\n",
    );
    nothing(&env, "arms in another order", env.go(&["pipelines/arms.toml"]));
    env.edit(
        "pipelines/arms.toml",
        "kind = \"ingest\"\nover = [\"repo\", \"arm\"]",
        "over = [\"repo\", \"arm\"]\nkind = \"ingest\"",
    );
    let whole = env.read("pipelines/arms.toml");
    let at = whole.find("[stage.summary]").unwrap();
    let end = whole.find("[composite").unwrap();
    let moved = format!(
        "{}{}",
        whole[..at].replacen("[stage.index]", &format!("{}\n[stage.index]", &whole[at..end]), 1),
        &whole[end..]
    );
    env.write("pipelines/arms.toml", &moved);
    nothing(&env, "stages in another order", env.go(&["pipelines/arms.toml"]));
    env.edit("presets/servers/other.toml", "version = \"1.0\"\n", "");
    env.edit("presets/servers/other.toml", "format = 1\n", "# a comment\nversion = \"1.0\"\nformat = 1\n");
    env.edit(
        "presets/servers/other.toml",
        "{ query = \"{query}\", limit = \"{limit}\" }",
        "{ limit = \"{limit}\", query = \"{query}\" }",
    );
    nothing(&env, "a preset in another order", env.go(&["pipelines/arms.toml"]));
    let moved = question("beta", "beta") + &question("gamma", "gamma") + &question("alpha", "alpha");
    env.write(
        "datasets/questions/tiny.toml",
        &(questions(&[], 1).replace("format = 1\nrepo = \"tiny\"", "repo = \"tiny\"\n# why\nformat = 1")
            + &moved),
    );
    nothing(&env, "questions in another order", env.go(&["pipelines/arms.toml"]));
    env.edit(
        "datasets/repos.toml",
        "path = \"tiny\"\nlanguage = \"python\"\n",
        "language = \"python\" # x\npath = \"tiny\"\n",
    );
    nothing(&env, "repositories in another order", env.go(&["pipelines/arms.toml"]));

    // From another directory, and after a move of the whole checkout.
    let path = env.path("pipelines/arms.toml");
    let said = env
        .command(&["run", path.to_str().unwrap(), "--json"])
        .current_dir(env.outside(""))
        .output()
        .unwrap();
    nothing(&env, "another directory", serde_json::from_slice(&said.stdout).unwrap());
    let moved = env.outside("elsewhere/deep/checkout");
    std::fs::create_dir_all(moved.parent().unwrap()).unwrap();
    std::fs::rename(&env.root, &moved).unwrap();
    env.root = moved;
    nothing(&env, "a moved checkout", env.go(&["pipelines/arms.toml"]));
}

#[test]
fn a_moved_checkout_can_go_on() {
    let mut env = Env::new();
    env.server("good", &[], "");
    env.executed(&["pipelines/servers.toml"]);
    let moved = env.outside("elsewhere");
    std::fs::rename(&env.root, &moved).unwrap();
    env.root = moved;
    // The index was made at another path and is not said to be relocatable: it is made again.
    let added = env.executed(&["pipelines/servers.toml", "--set", "replicates=2"]);
    assert!(added.contains("search[repo=tiny,replicate=2,arm=good]"), "{added:?}");
    assert!(of_stages(&added, &["index", "warm"]).is_empty(), "{added:?}");
    assert!(env.rows().iter().all(|row| row["state"] == "valid" && row["rank"] == 1), "{:?}", env.rows());
}

#[test]
fn a_renamed_arm_runs_aggregates_only() {
    let env = two_arms();
    env.edit("pipelines/arms.toml", "[arm.two]", "[arm.renamed]");
    assert_eq!(env.executed(&["pipelines/arms.toml"]), set(&["summary"]));
    assert_eq!((env.starts("good"), env.starts("other")), (3, 3));
    let arms = env.run(&["report", "--json"]).ok().json()["result"]["arms"].clone();
    let arms: BTreeSet<String> = arms.as_array().unwrap().iter().map(|a| text(&a["arm"])).collect();
    assert_eq!(arms, set(&["one", "renamed"]));
}

#[test]
fn another_expected_file_grades_again() {
    let env = two_arms();
    env.edit("datasets/questions/tiny.toml", "files = [\"src/gamma.py\"]", "files = [\"src/alpha.py\"]");
    let ran = env.executed(&["pipelines/arms.toml"]);
    assert_eq!(
        ran,
        set(&["score[repo=tiny,replicate=1,arm=one]", "score[repo=tiny,replicate=1,arm=two]", "summary"])
    );
    assert_eq!((env.starts("good"), env.starts("other")), (3, 3));
}

#[test]
fn another_version_runs_that_server_alone_and_plan_says_so() {
    let env = two_arms();
    env.edit("presets/servers/other.toml", "version = \"1.0\"", "version = \"2.0\"");
    let plan = env.run(&["plan", "pipelines/arms.toml", "--json"]).ok().json();
    let mut planned = BTreeSet::new();
    for node in plan["nodes"].as_array().unwrap() {
        let id = text(&node["id"]);
        if node["action"] == "reuse" {
            assert!(node["reasons"].as_array().unwrap().is_empty(), "{node}");
            continue;
        }
        assert!(id.contains("arm=two") || id == "summary", "{node}");
        let fields: Vec<String> =
            node["reasons"].as_array().unwrap().iter().map(|r| text(&r["field"])).collect();
        let (action, field) = match node["stage"].as_str().unwrap() {
            "index" | "search" => ("run", "server.version"),
            "warm" => ("run", "ingest"),
            _ => ("wait", "needs."),
        };
        assert_eq!(node["action"], action, "{node}");
        assert!(fields.iter().any(|f| f.starts_with(field)), "{node}");
        if field == "server.version" {
            let reason = node["reasons"].as_array().unwrap().iter().find(|r| r["field"] == field).unwrap();
            assert_eq!((&reason["old"], &reason["new"]), (&"1.0".into(), &"2.0".into()));
        }
        planned.insert(id);
    }
    let ran = env.executed(&["pipelines/arms.toml"]);
    assert!(ran.is_subset(&planned), "{ran:?} of {planned:?}");
    assert_eq!(of_stages(&ran, &["index", "warm", "search"]).len(), 3, "{ran:?}");
    assert_eq!((env.starts("good"), env.starts("other")), (3, 6));
}

#[test]
fn another_mapping_of_results_asks_nobody() {
    let env = two_arms();
    env.edit(
        "presets/servers/other.toml",
        "index = \"directory\"",
        "index = \"directory\"\nlines = \"zero-based\"",
    );
    let ran = env.executed(&["pipelines/arms.toml"]);
    assert!(ran.contains("search.read[repo=tiny,replicate=1,arm=two]"), "{ran:?}");
    assert!(ran.contains("score[repo=tiny,replicate=1,arm=two]"), "{ran:?}");
    assert!(of_stages(&ran, &["index", "warm", "search"]).is_empty(), "{ran:?}");
    assert!(ran.iter().all(|id| id.contains("arm=two") || id == "summary"), "{ran:?}");
    assert_eq!((env.starts("good"), env.starts("other")), (3, 3));
}

#[test]
fn more_replicates_and_more_arms_run_what_was_added() {
    let env = Env::new();
    env.server("good", &[], "");
    env.server("other", &[], "");
    env.write("pipelines/servers.toml", &over_servers("good"));
    env.executed(&["pipelines/servers.toml"]);
    let added = env.executed(&["pipelines/servers.toml", "--set", "replicates=3"]);
    let mut expected = set(&["summary"]);
    for replicate in [2, 3] {
        for stage in ["search", "search.read", "score"] {
            expected.insert(format!("{stage}[repo=tiny,replicate={replicate},arm=good]"));
        }
    }
    assert_eq!(added, expected);
    let before = env.starts("good");
    let added =
        env.executed(&["pipelines/servers.toml", "--set", "replicates=3", "--set", "servers=good,other"]);
    assert!(added.iter().all(|id| id.contains("arm=other") || id == "summary"), "{added:?}");
    assert_eq!(added.len(), 4 + 3 * 3 + 1, "{added:?}");
    assert_eq!(env.starts("good"), before);
    // Back again: all of it is there.
    assert!(env.executed(&["pipelines/servers.toml"]).is_empty());
}

const PER_TASK: &str = r#"
format = 1
name   = "tasks"
seed   = 3

[params]
sample = { default = 3, min = 1 }

[axes]
task = { questions = "tiny", sample = "{{ params.sample }}" }

[stage.answer]
kind    = "command"
over    = ["task"]
run     = ["sh", "tools/answer.sh"]
inputs  = ["tools/answer.sh"]
outputs = { numbers = { path = "numbers.json", schema = "tools/numbers.json" } }
metrics = "numbers"

[stage.summary]
kind  = "aggregate"
needs = ["answer"]
"#;

#[test]
fn more_tasks_run_what_was_added() {
    let env = Env::new();
    env.write("pipelines/tasks.toml", PER_TASK);
    env.write("tools/answer.sh", "wc -c < in/task.json | sed 's/^ */{\"length\":/; s/$/}/' > numbers.json\n");
    env.write("tools/numbers.json", r#"{"type":"object","properties":{"length":{"type":"number"}}}"#);
    let words = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
    env.write("datasets/questions/tiny.toml", &questions(&words, 0));
    let pipeline = "pipelines/tasks.toml";
    let first = env.executed(&[pipeline]);
    assert_eq!(of_stages(&first, &["answer"]).len(), 3);
    let second = env.executed(&[pipeline, "--set", "sample=8"]);
    assert_eq!(of_stages(&second, &["answer"]).len(), 5, "{second:?}");
    assert!(second.is_disjoint(&of_stages(&first, &["answer"])), "{second:?}");
    let all = env.executed(&[pipeline, "--set", "sample=100"]);
    assert_eq!(of_stages(&all, &["answer"]).len(), 2);
    // One more question in the file, in the middle of it: its node and the aggregate.
    let mut more = words.to_vec();
    more.insert(4, "new");
    env.write("datasets/questions/tiny.toml", &questions(&more, 0));
    let one = env.executed(&[pipeline, "--set", "sample=100"]);
    assert_eq!(one, set(&["answer[task=t-new]", "summary"]));
    more.reverse();
    env.write("datasets/questions/tiny.toml", &questions(&more, 0));
    assert!(env.executed(&[pipeline, "--set", "sample=100"]).is_empty());
    // What a command is given of a task is in its key; the truth is not.
    env.edit("datasets/questions/tiny.toml", "src/new.py", "src/newer.py");
    assert!(env.executed(&[pipeline, "--set", "sample=100"]).is_empty());
    env.edit("datasets/questions/tiny.toml", "where is compute_new defined", "where does compute_new live");
    let one = env.executed(&[pipeline, "--set", "sample=100"]);
    assert!(one.contains("answer[task=t-new]") && one.len() <= 2, "{one:?}");
}
