//! Code that citations are held against: odd entries of a checkout, commits that can't be honoured,
//! and files of a recording that lie elsewhere.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use git2::{Repository, Signature};
use serde_json::{Value, json};

use super::Place;

const RECORDING: &str = "recordings/mine.toml";
const RUN: [&str; 6] =
    ["run", "regrade", "--set", "recordings=recordings/mine.toml", "--set", "checkouts=checkouts"];

fn transcript(words: &str) -> String {
    json!({
        "schema_version": "ATIF-v1.4", "session_id": "s", "agent": {"name": "a", "version": "1"},
        "steps": [
            {"step_id": 1, "source": "user", "message": "where?"},
            {"step_id": 2, "source": "agent", "message": words},
        ],
    })
    .to_string()
}

/// A project with one answer about the repository `code`.
fn project(words: &str, facts: &str) -> Place {
    let place = Place::new();
    place.write("t/one.json", &transcript(words));
    let text = format!(
        "format = 1\nname = \"mine\"\nlabel = \"a test\"\n\n[[answer]]\nid = \"one\"\narm = \"a\"\n\
         task = \"t\"\nrepo = \"sample\"\ndialect = \"atif\"\ntranscript = \"t/one.json\"\n{facts}\n"
    );
    place.write(RECORDING, &text);
    place
}

/// Bucket and reason by file and locator.
fn cited(row: &Value) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let all = row["citations"].as_array().unwrap().iter();
    all.map(|one| (text(&one["file"]), text(&one["bucket"]), text(&one["reason"]))).collect()
}

fn odd_entries(place: &Place) {
    place.write("checkouts/sample/src/a.py", "one\ntwo\nthree\n");
    place.write("checkouts/sample/src/A.py", "one\n");
    place.write("secret.py", "a secret\n");
    let root = place.path("checkouts/sample");
    symlink("../../secret.py", root.join("out.py")).unwrap();
    symlink("round.py", root.join("round.py")).unwrap();
    symlink("/nowhere", root.join("src/gone.py")).unwrap();
    std::fs::write(root.join(OsStr::from_bytes(b"latin-\xff.py")), "x\n").unwrap();
    symlink(OsStr::from_bytes(b"\xff"), root.join("latin-link.py")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(root.join("pipe.py")).status().unwrap().success());
}

#[test]
fn odd_entries_of_a_checkout_are_passed_over() {
    let words = "See src/a.py:2, out.py:1, round.py:1, src/a.py:9 and src/A.py:1.";
    let place = project(words, "");
    odd_entries(&place);
    place.ok(&RUN);
    let row = place.row("one");
    let cited = cited(&row);
    let of = |nth: usize| (cited[nth].0.as_str(), cited[nth].1.as_str());
    assert_eq!(of(0), ("src/a.py", "grounded"), "{row}");
    assert_eq!(of(1), ("out.py", "unresolved"));
    assert!(cited[1].2.contains("leads out of the code"), "{}", cited[1].2);
    assert_eq!(of(2), ("round.py", "unresolved"));
    assert_eq!(of(3), ("src/a.py", "hallucinated"));
    assert_eq!(of(4), ("src/A.py", "grounded"), "names that differ in case only are two files");
    assert!(!row.to_string().contains("a secret"));
    // Nothing of it has changed: neither has the code.
    place.ok(&RUN);
    assert_eq!(place.executed(), Vec::<String>::new());
}

#[test]
fn odd_entries_are_passed_over_by_the_rules_of_sense_too() {
    let words = "See `src/a.py:2` and `out.py:1`.";
    let place = project(words, "");
    place.write(
        "scenarios/t.toml",
        "format = 1\nname = \"t\"\ntitle = \"t\"\nrepo = \"sample\"\n\n[[step]]\nname = \"s\"\nprompt = \"where?\"\n",
    );
    let claude = [
        json!({"type": "system", "subtype": "init", "session_id": "s", "cwd": "/w", "tools": [], "mcp_servers": []}),
        json!({"type": "assistant", "message": {"id": "m", "role": "assistant", "content": [{"type": "text", "text": words}]}}),
        json!({"type": "result", "subtype": "success", "result": words, "session_id": "s", "is_error": false, "num_turns": 1}),
    ];
    place.write("t/one.json", &claude.map(|line| line.to_string()).join("\n"));
    place.edit(RECORDING, "\"atif\"", "\"claude\"");
    odd_entries(&place);
    let mut run = RUN.to_vec();
    run.extend(["--set", "profile=sense"]);
    drop(place.go(&run));
    let row = place.row("one");
    let buckets: Vec<String> = cited(&row).into_iter().map(|one| one.1).collect();
    assert!(buckets.contains(&"grounded".to_owned()), "{row}");
    assert!(!buckets.contains(&"cannot-check".to_owned()), "{row}");
}

/// A repository with one commit, and the commit's id.
fn commit(folder: &Path) -> String {
    let repository = Repository::init(folder).unwrap();
    let mut index = repository.index().unwrap();
    index.add_all(["*"], git2::IndexAddOption::DEFAULT, None).unwrap();
    let tree = repository.find_tree(index.write_tree().unwrap()).unwrap();
    let who = Signature::now("a", "a@example.org").unwrap();
    repository.commit(Some("HEAD"), &who, &who, "one", &tree, &[]).unwrap().to_string()
}

fn explained(place: &Place) -> String {
    place.ok(&["explain", "one"]).out
}

#[test]
fn a_commit_is_honoured_or_it_is_said_that_it_is_not() {
    let gone = "0123456789abcdef0123456789abcdef01234567";
    let place = project("See src/a.py:3.", &format!("facts = {{ commit = \"{gone}\" }}"));
    place.write("checkouts/sample/src/a.py", "one\ntwo\nthree\n");
    // No repository: the files as they are, and a remark.
    place.ok(&RUN);
    assert_eq!(cited(&place.row("one"))[0].1, "grounded");
    let remark = format!("the commit {gone} could not be honoured: `sample` is no git repository");
    assert!(explained(&place).contains(&remark), "{}", explained(&place));
    assert!(place.ok(&["report", "latest"]).out.contains("could not be honoured"));
    // A repository without it.
    let id = commit(&place.path("checkouts/sample"));
    place.ok(&RUN);
    let row = place.row("one");
    let (_, bucket, reason) = cited(&row).remove(0);
    assert_eq!(bucket, "cannot-check");
    assert_eq!(reason, format!("commit {gone} isn't in the repository `sample`"));
    assert!(explained(&place).contains(&reason));
    assert!(place.ok(&["report", "latest"]).out.contains("isn't in the repository"), "{row}");
    // One that has it, shortened: its files, whatever lies there now.
    place.write("checkouts/sample/src/a.py", "one\n");
    place.edit(RECORDING, gone, &id[..10]);
    place.ok(&RUN);
    let row = place.row("one");
    assert_eq!(cited(&row)[0].1, "grounded", "{row}");
    assert_eq!(row["notes"], json!([]));
}

#[test]
fn a_name_that_moves_is_no_commit() {
    for name in ["HEAD", "master", "main"] {
        let place = project("See src/a.py:3.", &format!("facts = {{ commit = \"{name}\" }}"));
        place.write("checkouts/sample/src/a.py", "one\ntwo\nthree\n");
        drop(commit(&place.path("checkouts/sample")));
        // Not what HEAD is today, but the files, and it is said.
        place.write("checkouts/sample/src/a.py", "one\n");
        place.ok(&RUN);
        let row = place.row("one");
        assert_eq!(cited(&row)[0].1, "hallucinated", "{row}");
        assert!(row["notes"][0].as_str().unwrap().contains("counts as not recorded"), "{row}");
    }
}

#[test]
fn a_missing_checkout_is_named() {
    let place = project("See src/a.py:3.", "");
    std::fs::create_dir(place.path("checkouts")).unwrap();
    place.ok(&RUN);
    let row = place.row("one");
    assert_eq!(cited(&row)[0].2, "among the checkouts is no folder `sample`", "{row}");
}

#[test]
fn links_of_a_recording_stay_in_the_project() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().join("one.json");
    std::fs::write(&secret, transcript("the secret words")).unwrap();
    let refused = |place: &Place, key: &str| {
        for args in [&RUN[..4], &["check", RECORDING]] {
            let said = place.go(args);
            assert_eq!(said.code, 1, "{args:?} {}{}", said.out, said.err);
            assert!(said.err.contains("leads out of the project"), "{}", said.err);
            assert!(said.err.contains("mine.toml:") && said.err.contains("copy"), "{}", said.err);
            assert!(said.err.contains(key), "{key}: {}", said.err);
        }
    };
    // A file, a folder, and steps.
    let place = project("", "");
    std::fs::remove_file(place.path("t/one.json")).unwrap();
    symlink(&secret, place.path("t/one.json")).unwrap();
    refused(&place, "t/one.json");
    std::fs::remove_dir_all(place.path("t")).unwrap();
    symlink(outside.path(), place.path("t")).unwrap();
    refused(&place, "t/one.json");
    place.edit(RECORDING, "transcript = \"t/one.json\"", "steps = [\"t/one.json\"]");
    refused(&place, "t/one.json");
    let place = project("words", "judgement = \"j/replies.jsonl\"");
    symlink(outside.path(), place.path("j")).unwrap();
    std::fs::write(outside.path().join("replies.jsonl"), "{}").unwrap();
    refused(&place, "j/replies.jsonl");
    // One that stays inside may be followed.
    let place = project("words", "");
    std::fs::rename(place.path("t/one.json"), place.path("real.json")).unwrap();
    symlink("../real.json", place.path("t/one.json")).unwrap();
    place.ok(&RUN[..4]);
}

#[test]
fn linked_scenarios_and_rubrics_stay_in_the_project() {
    let outside = tempfile::tempdir().unwrap();
    let scenario = "format = 1\nname = \"t\"\ntitle = \"t\"\nrepo = \"sample\"\n\n[[step]]\nname = \"s\"\nprompt = \"?\"\n";
    std::fs::write(outside.path().join("t.toml"), scenario).unwrap();
    let place = project("words", "");
    std::fs::create_dir(place.path("scenarios")).unwrap();
    symlink(outside.path().join("t.toml"), place.path("scenarios/t.toml")).unwrap();
    let said = place.go(&RUN[..4]);
    assert_eq!(said.code, 1, "{}{}", said.out, said.err);
    assert!(said.err.contains("scenarios/t.toml") && said.err.contains("leads out"), "{}", said.err);
    std::fs::remove_file(place.path("scenarios/t.toml")).unwrap();
    place.write("scenarios/t.toml", &scenario.replace("repo =", "rubric = \"rubrics/t.toml\"\nrepo ="));
    std::fs::create_dir(place.path("rubrics")).unwrap();
    symlink(outside.path().join("t.toml"), place.path("rubrics/t.toml")).unwrap();
    let said = place.go(&RUN[..4]);
    assert_eq!(said.code, 1, "{}{}", said.out, said.err);
    assert!(said.err.contains("rubrics/t.toml") && said.err.contains("leads out"), "{}", said.err);
    assert!(!said.err.contains("there is no rubric"), "{}", said.err);
}
