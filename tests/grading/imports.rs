//! Imports of sessions and folders: numbering, refusals, and what is there already.

use std::os::unix::fs::symlink;

use serde_json::{Value, json};

use super::Place;

fn atif(words: &str) -> String {
    json!({
        "schema_version": "ATIF-v1.4", "session_id": words, "agent": {"name": "a", "version": "1"},
        "steps": [{"step_id": 1, "source": "agent", "message": words}],
    })
    .to_string()
}

#[test]
fn answers_of_one_arm_and_task_are_replicates() {
    let place = Place::new();
    for nth in [1, 2, 10] {
        place.write(&format!("in/{nth}.json"), &atif(&format!("answer {nth}")));
    }
    let import = ["import", "atif", "in", "--arm", "a", "--task", "t", "--repo", "r", "--json"];
    assert_eq!(place.ok(&import).json()["answers"], json!(["1", "2", "10"]));
    place.ok(&["run", "regrade"]);
    let mut replicates: Vec<u64> = place.rows().iter().filter_map(|row| row["replicate"].as_u64()).collect();
    replicates.sort_unstable();
    assert_eq!(replicates, [1, 2, 3]);
}

#[test]
fn a_folder_without_a_session_is_refused_before_anything_is_written() {
    let place = Place::new();
    place.write("in/one.json", "{\"type\": \"other\"}");
    place.write("in/steps.json", &atif("x").replace("[{", "{").replace("}]", "}"));
    let said = place.go(&["import", "atif", "in"]);
    assert_eq!(said.code, 1, "{}{}", said.out, said.err);
    assert!(said.err.contains("holds no session of atif") && said.err.contains(".jsonl"), "{}", said.err);
    assert!(said.err.contains("none of 2 is one"), "{}", said.err);
    assert!(!place.path("imported").exists());
    place.write("empty/notes.txt", "");
    let said = place.go(&["import", "claude", "empty"]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("there are none") && !place.path("imported").exists(), "{}", said.err);
}

#[test]
fn steps_that_are_no_list_are_unreadable() {
    let place = Place::new();
    let odd = r#"{"schema_version": "ATIF-v1.4", "steps": "no"}"#;
    place.write("in/odd.json", odd);
    let said = place.go(&["import", "atif", "in"]);
    assert!(said.code == 1 && said.err.contains("`steps` are no list"), "{}", said.err);
    place.write("t/odd.json", odd);
    place.write(
        "recordings/mine.toml",
        "format = 1\nname = \"mine\"\nlabel = \"a test\"\n\n[[answer]]\nid = \"odd\"\narm = \"a\"\ntask = \"t\"\nrepo = \"sample\"\ntranscript = \"t/odd.json\"\n",
    );
    drop(place.go(&["run", "regrade", "--set", "recordings=recordings/mine.toml"]));
    let row = place.row("odd");
    assert_eq!(row["codes"], json!(["unreadable-transcript"]), "{row}");
}

#[test]
fn what_was_edited_is_not_written_over() {
    let place = Place::new();
    place.write("a/one.json", &atif("one"));
    place.write("b/two.json", &atif("two"));
    let list = "imported/atif/recording.toml";
    place.ok(&["import", "atif", "a", "--repo", "r"]);
    let first = place.read(list);
    place.ok(&["import", "atif", "a", "--repo", "r"]);
    assert_eq!(place.read(list), first, "the same again is no conflict");
    // Nobody has changed what the first wrote; what becomes of it is told.
    let said = place.ok(&["import", "atif", "b", "--repo", "r"]);
    assert!(
        said.out.contains("note: of an earlier import this one writes over `recording.toml`"),
        "{}",
        said.out
    );
    place.ok(&["import", "atif", "a", "--repo", "r"]);
    assert_eq!(place.read(list), first);
    place.edit(list, "label = ", "about = \"mended\"\nlabel = ");
    let before = place.read(list);
    let said = place.go(&["import", "atif", "a", "--repo", "r"]);
    assert_eq!(said.code, 1, "{}", said.err);
    for words in ["recording.toml", "--into OTHER", "--replace"] {
        assert!(said.err.contains(words), "{words}: {}", said.err);
    }
    assert_eq!(place.read(list), before);
    place.ok(&["import", "atif", "b", "--repo", "r", "--into", "imported/other"]);
    place.ok(&["import", "atif", "b", "--repo", "r", "--replace"]);
    assert!(place.read(list).contains("id = \"two\"") && !place.read(list).contains("mended"));
}

const SCENARIO: &str = "name: NAME\ndescription: d\nrepo: flask\ndifficulty: easy\nsteps:\n- name: one\n  prompt: where?\n  checks:\n  - {type: contains, value: x, layer: fairness, required: true}\n";

fn run_of(place: &Place, folder: &str, words: &str) {
    let stream = json!([
        {"type": "system", "subtype": "init", "session_id": "s", "cwd": "/w", "tools": [], "mcp_servers": []},
        {"type": "assistant", "message": {"id": "m", "role": "assistant", "content": [{"type": "text", "text": words}]}},
        {"type": "result", "subtype": "success", "result": words, "session_id": "s", "is_error": false, "num_turns": 1},
    ]);
    place.write(&format!("{folder}/transcript.json"), &stream.to_string());
}

fn sense() -> Place {
    let place = Place::new();
    place.write("bench/scenarios/flask.yaml", &SCENARIO.replace("NAME", "Flask"));
    place.write("bench/held-out/flask-blueprints.yaml", &SCENARIO.replace("NAME", "Blueprints"));
    run_of(&place, "bench/results/baseline/flask", "the answer");
    run_of(&place, "bench/held-out/transcripts/baseline/flask", "the held-out answer");
    place
}

#[test]
fn a_broken_scenario_is_named_and_the_rest_is_imported() {
    let place = sense();
    place.write("bench/scenarios/flask.yaml", "name: Flask\nrepo: flask\nsteps: [\n");
    let said = place.go(&["import", "sense", "bench", "--json"]);
    assert_eq!(said.code, 1, "{}{}", said.out, said.err);
    let told = said.json();
    let problem = told["problems"][0].as_str().unwrap();
    assert!(problem.starts_with("scenarios/flask.yaml: line ") && problem.contains("column"), "{problem}");
    assert_eq!((&told["answers"], &told["scenarios"]), (&json!(2), &json!(1)));
    let list = place.read("imported/sense/recording.toml");
    assert!(list.contains("task = \"flask\"") && list.contains("task = \"flask-blueprints\""), "{list}");
    let notes = told["notes"].to_string();
    assert!(notes.contains("scenarios/flask.yaml") && notes.contains("can't be used"), "{notes}");
}

#[test]
fn runs_of_one_place_are_numbered_with_a_note() {
    let place = sense();
    std::fs::remove_dir_all(place.path("bench/scenarios")).unwrap();
    std::fs::remove_file(place.path("bench/held-out/flask-blueprints.yaml")).unwrap();
    let told = place.ok(&["import", "sense", "bench", "--json"]).json();
    assert_eq!(told["answers"], 2);
    assert!(told["notes"].to_string().contains("it is replicate 2 here"), "{told}");
    assert!(place.read("imported/sense/recording.toml").contains("replicate = 2"));
}

#[test]
fn edited_manifests_of_sense_stay() {
    let place = sense();
    place.ok(&["import", "sense", "bench"]);
    let file = "imported/sense/scenarios/flask.toml";
    place.edit(file, "where?", "where is it?");
    run_of(&place, "bench/results/sense/flask", "another answer");
    let list = place.read("imported/sense/recording.toml");
    let said = place.go(&["import", "sense", "bench"]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("scenarios/flask.toml") && said.err.contains("--replace"), "{}", said.err);
    assert!(place.read(file).contains("where is it?"));
    assert_eq!(place.read("imported/sense/recording.toml"), list, "nothing is half-written");
    place.ok(&["import", "sense", "bench", "--replace"]);
    assert!(!place.read(file).contains("where is it?"));
}

#[test]
fn links_out_of_an_imported_folder_are_refused() {
    let place = sense();
    place.write("secret.json", "the secret");
    let linked = "bench/results/baseline/flask/transcript.json";
    std::fs::remove_file(place.path(linked)).unwrap();
    symlink(place.path("secret.json"), place.path(linked)).unwrap();
    symlink(place.path("secret.json"), place.path("bench/held-out/x.gold.json")).unwrap();
    symlink("flask.yaml", place.path("bench/scenarios/other.yaml")).unwrap();
    let said = place.go(&["import", "sense", "bench", "--json"]);
    assert_eq!(said.code, 1);
    let told = said.json();
    let problems: Vec<&str> = told["problems"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    for file in ["results/baseline/flask", "held-out/x.gold.json"] {
        let problem = problems.iter().find(|problem| problem.contains(file)).unwrap();
        assert!(problem.contains("leads out") && problem.contains("copy the file"), "{problem}");
    }
    assert_eq!((&told["answers"], &told["scenarios"]), (&json!(1), &json!(3)), "links inside are followed");
}

#[test]
fn facts_and_files_of_odd_runs_are_left_out_with_a_note() {
    let place = sense();
    let meta = json!({"wall_time_seconds": "many", "error": null, "tool": "baseline", "repo": "flask"});
    place.write("bench/results/baseline/flask/run_meta.json", &meta.to_string());
    let told = place.ok(&["import", "sense", "bench", "--json"]).json();
    assert!(told["notes"].to_string().contains("`wall_time_seconds` is left out"), "{told}");
}
