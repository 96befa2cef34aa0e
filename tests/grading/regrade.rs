//! A changed check, gold row, rubric or composite: what is graded anew, and what the difference says.

use serde_json::{Value, json};

use super::Place;

const SCENARIO: &str = "scenarios/sample-smoothing.toml";

/// A project with the demonstration's files of its own.
fn project() -> Place {
    let place = Place::new();
    for file in ["pipelines/demo.toml", SCENARIO, "rubrics/sample-smoothing.toml"] {
        place.take(file);
    }
    place
}

fn flips(found: &Value) -> Vec<&Value> {
    found["flips"].as_array().unwrap().iter().collect()
}

#[test]
fn a_changed_check_grades_anew_and_nothing_else() {
    let place = project();
    place.ok(&["run", "demo"]);
    let first = place.ok(&["report", "latest", "--json"]).json();
    // Everybody names the filter; nobody names this.
    place.edit(SCENARIO, "value = \"MedianFilter\"", "value = \"KalmanFilter\"");
    place.ok(&["run", "demo"]);
    let mut stages = place.executed();
    stages.dedup();
    assert_eq!(stages, ["score", "summary"]);
    let found = place.ok(&["diff", first["run"]["run"].as_str().unwrap(), "latest", "--json"]).json();
    assert_eq!(flips(&found).len(), 4, "one check, in four answers: {found}");
    for flip in flips(&found) {
        let name = |key: &str| flip[key].as_str().unwrap();
        assert!(name("was").ends_with("word MedianFilter") && name("item").ends_with("word KalmanFilter"));
        assert_eq!((&flip["before"], &flip["after"]), (&json!(true), &json!(false)));
    }
    let why = flips(&found)[0]["why"][0]["field"].as_str().unwrap();
    assert!(why.starts_with("fields.checks"), "{why}");
    assert!(found["moved"].as_array().unwrap().iter().all(|one| one["item"] == "keyword_coverage"));
    assert!(found["arms"].as_array().unwrap().iter().any(|one| one["metric"] == "fairness"));
    let told = place.ok(&["diff", first["run"]["run"].as_str().unwrap()]).out;
    assert!(told.contains("What flipped (4)") && told.contains("because of fields.checks"), "{told}");
    // Old grades stay: the first run still reports as it did.
    let again = place.ok(&["report", first["run"]["run"].as_str().unwrap(), "--json"]).json();
    assert_eq!(again["result"], first["result"]);
    // Back to the old check: all grades are there already.
    place.edit(SCENARIO, "value = \"KalmanFilter\"", "value = \"MedianFilter\"");
    place.ok(&["run", "demo"]);
    assert_eq!(place.executed(), Vec::<String>::new());
}

#[test]
fn a_changed_weight_of_the_rubric_reads_the_replies_anew() {
    let place = project();
    place.ok(&["run", "demo"]);
    let judged = || -> Vec<Option<f64>> {
        place.rows().iter().map(|row| row["judgement"]["quality"].as_f64()).collect()
    };
    let before = judged();
    // Two weights of the first step change places: they still sum to 1.
    let rubric = "rubrics/sample-smoothing.toml";
    place.edit(rubric, "weight   = 0.4\n", "weight   = 0.150\n");
    place.edit(rubric, "weight   = 0.15\n", "weight   = 0.40\n");
    place.ok(&["run", "demo"]);
    let mut stages = place.executed();
    stages.dedup();
    assert_eq!(stages, ["rate.read", "summary"]);
    assert_ne!(judged(), before);
}

#[test]
fn a_bad_reply_is_counted_and_the_next_one_is_taken() {
    let place = project();
    place.ok(&["run", "demo"]);
    let unreadable: Vec<u64> =
        place.rows().iter().filter_map(|row| row["judgement"]["unreadable"].as_u64()).collect();
    assert_eq!(unreadable.len(), 4);
    assert!(unreadable.iter().sum::<u64>() >= 1, "one recorded reply is unusable");
}

#[test]
fn a_recording_that_is_not_there_says_what_to_do() {
    let place = Place::new();
    let said = place.go(&["run", "regrade"]);
    assert_eq!(said.code, 1);
    assert!(
        said.err.contains("there is no recording") && said.err.contains("proofline import"),
        "{}",
        said.err
    );
}

#[test]
fn a_session_that_was_recorded_step_by_step_is_graded_as_the_whole() {
    let place = project();
    place.take("recordings/demo/grep-1.jsonl");
    let whole = place.read("recordings/demo/grep-1.jsonl");
    // Each turn ends with a final record.
    let mut steps = vec![String::new()];
    for line in whole.lines() {
        let step = steps.last_mut().unwrap();
        step.push_str(line);
        step.push('\n');
        if line.contains("\"type\":\"result\"") {
            steps.push(String::new());
        }
    }
    steps.retain(|step| !step.is_empty());
    assert_eq!(steps.len(), 4);
    let mut names = Vec::new();
    for (at, step) in steps.iter().enumerate() {
        names.push(format!("steps/{}.jsonl", at + 1));
        place.write(&names[at], step);
    }
    let answer = |id: &str, source: &str| {
        format!(
            "[[answer]]\nid = \"{id}\"\narm = \"grep\"\ntask = \"sample-smoothing\"\nrepo = \"sample\"\n{source}\n\n"
        )
    };
    let text = [
        "format = 1\nname = \"mine\"\nlabel = \"two ways to record a session\"\n\n".to_owned(),
        answer("whole", "transcript = \"recordings/demo/grep-1.jsonl\""),
        answer("steps", &format!("replicate = 2\nsteps = {names:?}")),
    ];
    place.write("recordings/mine.toml", &text.concat());
    let run = ["run", "regrade", "--set", "recordings=recordings/mine.toml"];
    place.ok(&run);
    let (whole, steps) = (place.row("whole"), place.row("steps"));
    assert!(whole["grades"]["keyword_coverage"].as_f64().is_some_and(|v| v > 0.0), "{whole}");
    for part in ["grades", "items", "citations", "state"] {
        assert_eq!(whole[part], steps[part], "{part}");
    }
    // One changed step is one changed stream.
    place.edit("steps/2.jsonl", "\"is_error\":false", "\"is_error\":false ");
    place.ok(&run);
    assert!(place.executed().iter().all(|stage| stage != "score"), "an equal transcript is graded already");
    assert!(place.executed().iter().any(|stage| stage == "answers"));
}
