//! Graders that are programs: what they give, and what becomes of their failures.

use serde_json::{Value, json};

use super::Place;

const PIPELINE: &str = r#"format = 1
name = "own"
recordings = ["recordings/demo.toml"]

[grader.tone]
run     = ["sh", "graders/tone.sh"]
inputs  = ["graders/tone.sh"]
time    = "3s"
metrics = { tone = { at-most = 10 }, length = { at-most = 1000000 } }

[axes]
arm    = "all"
answer = { recorded = "{{ arm }}" }

[stage.answers]
kind   = "session"
driver = "recorded"
over   = ["arm", "answer"]

[stage.score]
kind    = "grade"
needs   = ["answers"]
graders = ["checks", "tone"]

[stage.summary]
kind  = "aggregate"
needs = ["score"]
"#;

fn project(script: &str) -> Place {
    let place = Place::new();
    place.write("pipelines/own.toml", PIPELINE);
    place.write("graders/tone.sh", script);
    place
}

fn graded(script: &str) -> (Place, Value) {
    let place = project(script);
    place.ok(&["run", "own", "--trust"]);
    let row = place.row("grep/sample-smoothing/1");
    (place, row)
}

/// The words of a failure, when there is no value.
fn words(row: &Value) -> String {
    assert_eq!(row["grades"]["tone"], Value::Null, "{row}");
    assert!(row["grades"]["keyword_coverage"].is_number(), "the other graders stand: {row}");
    let items = row["items"].as_array().unwrap();
    let failed = items.iter().find(|item| item["grader"] == "tone" && item["hit"] == Value::Null).unwrap();
    failed["note"].as_str().unwrap().to_owned()
}

#[test]
fn a_program_grades_with_values_and_items() {
    let script = r#"
test -f in/answer.json && test -f in/transcript.json || exit 9
n=$(wc -c < in/answer.json)
printf '{"values": {"tone": 7.5, "length": %d}, "items": [{"id": "first", "hit": true, "spans": [[0, 4]]}]}' "$n" > grades.json
"#;
    let (place, row) = graded(script);
    assert_eq!(row["grades"]["tone"], 7.5);
    assert!(row["grades"]["length"].as_f64().unwrap() > 100.0);
    let items = row["items"].as_array().unwrap();
    assert!(items.iter().any(|item| item["grader"] == "tone" && item["spans"] == json!([[0, 4]])));
    let report = place.ok(&["report", "latest", "--json"]).json();
    assert_eq!(report["result"]["arms"][0]["metrics"]["tone"]["value"], 7.5);
    // Another script is another recipe, the sessions stay.
    place.edit("graders/tone.sh", "7.5", "2.5");
    place.ok(&["run", "own", "--trust"]);
    let mut stages = place.executed();
    stages.dedup();
    assert_eq!(stages, ["score", "summary"]);
    assert_eq!(place.row("grep/sample-smoothing/1")["grades"]["tone"], 2.5);
}

fn spans(span: &str) -> String {
    format!(
        r#"echo '{{"values": {{"tone": 1}}, "items": [{{"id": "x", "hit": true, "spans": [[0, 1], {span}]}}]}}' > grades.json"#
    )
}

#[test]
fn a_program_whose_time_was_over_is_tried_again() {
    let place = project("sleep 30");
    place.edit("pipelines/own.toml", "\"3s\"", "\"1s\"");
    place.ok(&["run", "own", "--trust"]);
    assert!(words(&place.row("grep/sample-smoothing/1")).contains("limit"));
    // The load is gone, nothing else has changed.
    place.ok(&["run", "own", "--trust"]);
    let executed = place.executed();
    assert_eq!(executed.iter().filter(|stage| *stage == "score").count(), 4, "{executed:?}");
    // A failure of its own making is one for good.
    let place = project("exit 3");
    place.ok(&["run", "own", "--trust"]);
    place.ok(&["run", "own", "--trust"]);
    assert_eq!(place.executed(), Vec::<String>::new());
}

#[test]
fn a_failure_of_any_kind_is_unscored_with_its_words() {
    let (back, far) = (spans("[9, 2]"), spans("[5, 99999999999]"));
    let cases = [
        ("echo the scale is broken >&2; exit 3", "the scale is broken"),
        ("kill -9 $$", "signal"),
        ("sleep 30", "limit"),
        ("true", "it wrote no `grades.json`"),
        ("echo hello > grades.json", "grades.json"),
        ("echo '[1]' > grades.json", "grades.json"),
        (r#"echo '{"values": {"tome": 1}}' > grades.json"#, "doesn't declare"),
        (r#"echo '{"values": {"tone": 11}}' > grades.json"#, "11 is not from 0 to 10"),
        (r#"echo '{"values": {"tone": -0.1}}' > grades.json"#, "-0.1 is not from 0 to 10"),
        ("ln -s /etc/passwd grades.json", "no regular file"),
        ("echo 'no scale here' >&2; echo hello > grades.json", "no scale here"),
        ("echo 'no scale here' >&2", "no scale here"),
        ("echo \"gone: $PWD/scale\" >&2", "gone: scale"),
        ("head -c 5000000 /dev/zero > grades.json", "its `grades.json` is larger than 4 MiB"),
        (r#"echo '{"values": {"tone": 1, "tone": 2}}' > grades.json"#, "`tone` is given twice"),
        (r#"echo '{"values": {}, "values": {"tone": 1}}' > grades.json"#, "duplicate"),
        (back.as_str(), "the item `x` has the span [9, 2]"),
        (far.as_str(), "the item `x` has the span [5, 99999999999]"),
    ];
    for (script, expected) in cases {
        let (place, row) = graded(script);
        let words = words(&row);
        assert!(words.contains(expected), "{script}: {words}");
        assert!(!words.contains(&*place.path("").to_string_lossy()) && !words.contains("slot-"), "{words}");
        let report = place.ok(&["report", "latest", "--json"]).json();
        let metric = &report["result"]["arms"][0]["metrics"]["tone"];
        assert_eq!(metric["value"], Value::Null, "{script}");
        assert_eq!(metric["unscored"], 2, "{script}");
        // Who only looks at the screen sees it too, with the words.
        let notes = report["result"]["arms"][0]["notes"].to_string();
        assert!(
            notes.contains("tone: all 2 have no value: ") && notes.contains(expected),
            "{script}: {notes}"
        );
    }
}

#[test]
fn what_fails_for_some_answers_is_told_beside_the_mean_of_the_others() {
    let script = r#"case "$(cat in/answer.json)" in *trimmed*) exit 3;; esac; echo '{"values": {"tone": 10}}' > grades.json"#;
    let place = project(script);
    let said = place.ok(&["run", "own", "--trust"]);
    assert!(said.out.contains("tone: 1 of 2 has no value: "), "{}", said.out);
}

#[test]
fn a_grader_may_not_take_a_name_that_is_taken() {
    let place = project("true");
    place.edit("pipelines/own.toml", "[grader.tone]", "[grader.checks]");
    let said = place.go(&["check", "pipelines/own.toml"]);
    assert_eq!(said.code, 1);
    assert!(
        said.err.contains("there is a grader `checks` already") && said.err.contains("own.toml:"),
        "{}",
        said.err
    );
    let place = project("true");
    place.edit("pipelines/own.toml", "tone = { at-most = 10 }", "efficiency = { at-least = 2, at-most = 1 }");
    let said = place.go(&["check", "pipelines/own.toml"]);
    assert!(said.err.contains("there is a metric `efficiency` already"), "{}", said.err);
    assert!(said.err.contains("nothing fits"), "{}", said.err);
    for name in ["a b", "1/(1+x)", ""] {
        let place = project("true");
        place.edit("pipelines/own.toml", "tone = {", &format!("{name:?} = {{"));
        let said = place.go(&["check", "pipelines/own.toml"]);
        assert_eq!(said.code, 1);
        assert!(
            said.err.contains("is no name of a metric") && said.err.contains("own.toml:"),
            "{}",
            said.err
        );
    }
    let place = project("true");
    place.edit("pipelines/own.toml", "\"3s\"", "\"0s\"");
    let said = place.go(&["check", "pipelines/own.toml"]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("no time at all") && said.err.contains("own.toml:"), "{}", said.err);
}
