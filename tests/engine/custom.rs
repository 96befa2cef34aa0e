//! Pipelines of commands alone.

use std::net::TcpListener;

use serde_json::{Value, json};

use crate::env::{Env, of_stages, set};

const CUSTOM: &str = r#"
format = 1
name   = "custom"

[axes]
size   = ["1", "2"]
colour = ["red", "blue"]

[stage.make]
kind    = "command"
over    = ["size", "colour"]
run     = ["sh", "tools/make.sh", "{{ size }}", "{{ colour }}"]
inputs  = ["tools/make.sh"]
outputs = { text = { path = "made.txt" } }

[stage.join]
kind    = "command"
needs   = ["make"]
over    = ["size"]
run     = ["python3", "tools/join.py"]
inputs  = ["tools/join.py"]
outputs = { numbers = { path = "numbers.json", schema = "tools/numbers.json" } }
metrics = "numbers"

[stage.summary]
kind  = "aggregate"
needs = ["join"]

[composite.total]
colours = 1.0

[gate]
"total.value" = { at-least = 2 }
"#;

const MAKE: &str = "set -e\nfor i in $(seq $1); do echo $2; done > made.txt\n";

const JOIN: &str = r#"
import json, os
colours = sorted(os.listdir("in/make"))
assert colours == ["colour=blue", "colour=red"], colours
lines = 0
for colour in colours:
    lines += len(open("in/make/" + colour + "/text").read().split())
json.dump({"colours": len(colours), "lines": lines}, open("numbers.json", "w"))
"#;

const SCHEMA: &str = r#"{"type":"object","required":["colours","lines"],"additionalProperties":false,
"properties":{"colours":{"type":"integer"},"lines":{"type":"integer"}}}"#;

fn custom() -> Env {
    let env = Env::new();
    env.write("pipelines/custom.toml", CUSTOM);
    env.write("tools/make.sh", MAKE);
    env.write("tools/join.py", JOIN);
    env.write("tools/numbers.json", SCHEMA);
    env
}

fn failure(env: &Env) -> String {
    let report = env.run(&["report", "--json"]).ok().json();
    report["run"]["failed"][0]["message"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_matrix_a_fan_in_and_a_gate() {
    let env = custom();
    let first = env.executed(&["pipelines/custom.toml"]);
    assert_eq!(first.len(), 4 + 2 + 1, "{first:?}");
    assert_eq!(
        env.run(&["show", "join[size=2]", "--part", "numbers"]).ok().json(),
        json!({"colours": 2, "lines": 4})
    );
    let report = env.run(&["report", "--json"]).ok().json();
    let metrics = &report["result"]["arms"][0]["metrics"];
    assert_eq!(metrics["total"]["value"], 2.0, "{metrics}");
    assert_eq!(report["run"]["gates"][0]["state"], "pass");
    assert_eq!(env.run(&["gate", "latest"]).code, 0);

    env.edit("pipelines/custom.toml", "at-least = 2", "at-least = 3");
    let failed = env.go(&["pipelines/custom.toml"]);
    assert_eq!((&failed["state"], &failed["exit"]), (&json!("complete"), &json!(2)), "{failed}");
    assert_eq!(failed["nodes"]["executed"], 0, "a gate is in no recipe");
    let gate = env.run(&["gate", "latest", "--json"]);
    assert_eq!((gate.code, &gate.json()["gates"][0]["state"]), (2, &json!("fail")));
}

#[test]
fn a_changed_script_runs_what_it_touches() {
    let env = custom();
    env.executed(&["pipelines/custom.toml"]);
    // Other bytes, same output: nothing below runs.
    env.write("tools/make.sh", &format!("# a remark\n{MAKE}"));
    let ran = env.executed(&["pipelines/custom.toml"]);
    assert_eq!(of_stages(&ran, &["make"]).len(), 4);
    assert_eq!(ran.len(), 4, "the same output re-runs nothing below: {ran:?}");
    // Other output for one cell.
    env.write("tools/make.sh", &MAKE.replace("echo $2", "echo $2; [ $1$2 = 2red ] && echo more || true"));
    let ran = env.executed(&["pipelines/custom.toml"]);
    assert_eq!(of_stages(&ran, &["join", "summary"]), set(&["join[size=2]", "summary"]), "{ran:?}");
    // The other end of the pipeline.
    env.write("tools/join.py", &format!("# a remark\n{JOIN}"));
    let ran = env.executed(&["pipelines/custom.toml"]);
    assert_eq!(ran, set(&["join[size=1]", "join[size=2]"]));
    // Back to what it was: all of it is known.
    env.write("tools/make.sh", MAKE);
    env.write("tools/join.py", JOIN);
    assert!(env.executed(&["pipelines/custom.toml"]).is_empty());
}

#[test]
fn exit_zero_is_no_success() {
    let env = custom();
    env.write(
        "tools/join.py",
        "import json\njson.dump({'colours': 'many', 'lines': 1}, open('numbers.json', 'w'))\n",
    );
    let run = env.go(&["pipelines/custom.toml", "--keep-going"]);
    assert_eq!((&run["state"], &run["exit"]), (&json!("failed"), &json!(3)), "{run}");
    assert_eq!(run["nodes"]["failed"], 2, "{run}");
    let said = failure(&env);
    assert!(said.contains("numbers") && said.contains("many"), "{said}");
    env.write("tools/join.py", "print('did nothing')\n");
    assert_eq!(env.go(&["pipelines/custom.toml"])["state"], "failed");
    let said = failure(&env);
    assert!(said.contains("numbers.json") && said.contains("not"), "{said}");
    let journal = newest_journal(&env);
    assert!(journal.contains("\"cause\":\"output\""), "{journal}");
}

fn newest_journal(env: &Env) -> String {
    let run = env.run(&["status", "--json"]).ok().json()["run"].as_str().unwrap().to_owned();
    env.read(&format!(".proofline/runs/{run}/journal.jsonl"))
}

#[test]
fn limits_and_retries() {
    let env = custom();
    env.write(
        "pipelines/limits.toml",
        r#"
format = 1
name   = "limits"

[stage.late]
kind    = "command"
run     = ["sh", "-c", "echo begun; sleep 30; echo x > late.txt"]
outputs = { text = { path = "late.txt" } }
limits  = { time = "500ms" }
retry   = { attempts = 2, on = ["exit"], backoff = "none" }

[stage.broken]
kind    = "command"
run     = ["sh", "-c", "echo no luck >&2; exit 9"]
outputs = { text = { path = "broken.txt" } }
retry   = { attempts = 3, on = ["exit", "timeout"], backoff = "none" }
"#,
    );
    let run = env.go(&["pipelines/limits.toml", "--keep-going"]);
    assert_eq!(run["nodes"], json!({ "total": 2, "executed": 0, "reused": 0, "failed": 2, "blocked": 0 }));
    let journal = newest_journal(&env);
    let starts = |node: &str| {
        journal
            .lines()
            .filter(|l| l.contains("\"started\"") && l.contains(&format!("\"node\":\"{node}\"")))
            .count()
    };
    assert_eq!(
        (starts("late"), starts("broken")),
        (1, 3),
        "only the named causes are tried again: {journal}"
    );
    assert!(journal.contains("\"cause\":\"timeout\"") && journal.contains("no luck"), "{journal}");
}

#[test]
fn a_command_sees_what_it_declares_and_no_network() {
    let env = custom();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    env.write("secret.txt", "nobody declared it\n");
    env.write("data/open.txt", "declared\n");
    env.write(
        "tools/spy.py",
        r#"
import json, os, socket
def there(path):
    try:
        return open(path).read() != ""
    except OSError:
        return False
def reached():
    try:
        socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), 2).close()
        return True
    except OSError:
        return False
root = os.environ["ROOT"]
json.dump({
    "env": sorted(os.environ), "declared": there("data/open.txt"),
    "beside": there("secret.txt"), "absolute": there(os.path.join(root, "secret.txt")),
    "network": reached(), "files": sorted(os.listdir(".")),
}, open("spied-" + os.environ["NAME"] + ".json", "w"))
"#,
    );
    let stage = |name: &str, extra: &str| {
        format!(
            "\n[stage.{name}]\nkind = \"command\"\nrun = [\"python3\", \"tools/spy.py\"]\n\
             inputs = [\"tools/spy.py\", \"data\"]\n{extra}\
             env = {{ PORT = \"{port}\", ROOT = '{}', NAME = \"{name}\" }}\n\
             outputs = {{ seen = {{ path = \"spied-{name}.json\" }} }}\n",
            env.root.display()
        )
    };
    let text =
        format!("format = 1\nname = \"spy\"\n{}{}", stage("shut", ""), stage("open", "network = true\n"));
    env.write("pipelines/spy.toml", &text);
    let said = env
        .command(&["run", "pipelines/spy.toml", "--trust", "--json"])
        .env("UNDECLARED", "1")
        .output()
        .unwrap();
    assert!(
        said.status.success(),
        "{} {}",
        String::from_utf8_lossy(&said.stdout),
        String::from_utf8_lossy(&said.stderr)
    );
    let shut = env.run(&["show", "shut", "--part", "seen"]).ok().json();
    let open = env.run(&["show", "open", "--part", "seen"]).ok().json();
    for seen in [&shut, &open] {
        let names: Vec<&str> = seen["env"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(names.contains(&"PORT") && !names.contains(&"UNDECLARED"), "{names:?}");
        assert_eq!((&seen["declared"], &seen["beside"]), (&json!(true), &json!(false)));
        assert_eq!(seen["files"], json!(["data", "tools"]), "an empty folder but for its inputs");
    }
    let record = env.run(&["show", "shut", "--json"]).ok().json()["record"].clone();
    let unconfined = record["unconfined"].as_str().unwrap_or_default().to_owned();
    println!("unconfined here: {unconfined:?}");
    // Where the kernel can't confine, the record says so.
    assert_eq!(shut["absolute"], json!(unconfined.contains("files")), "{record}");
    assert_eq!(shut["network"], json!(unconfined.contains("network")), "{record}");
    assert_eq!(open["network"], true);
    // A file that is no input is in no key.
    env.write("secret.txt", "changed\n");
    assert!(env.executed(&["pipelines/spy.toml"]).is_empty());
    env.write("data/open.txt", "changed\n");
    assert_eq!(env.executed(&["pipelines/spy.toml"]), set(&["open", "shut"]));
}
