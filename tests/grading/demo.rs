//! The shipped demonstration of all six stages.

use serde_json::Value;

use super::Place;

#[test]
fn the_demonstration_runs_all_six_stages_from_an_empty_folder() {
    let place = Place::new();
    let said = place.ok(&["run", "demo"]);
    assert!(said.out.contains("No agent was asked in this run"), "{}", said.out);
    let report = place.ok(&["report", "latest", "--json"]).json();
    let result = &report["result"];
    assert_eq!(result["cells"]["planned"], 4);
    assert_eq!(result["cells"]["valid"], 4);
    assert_eq!(result["labels"].as_array().unwrap().len(), 1);
    for kind in ["index", "warm", "ask", "score", "rate", "summary"] {
        assert!(place.executed().iter().any(|stage| stage == kind), "{kind}");
    }
    let metric = |arm: usize, name: &str| result["arms"][arm]["metrics"][name]["value"].as_f64();
    for arm in [0, 1] {
        for name in ["keyword_coverage", "llm_quality", "citation_grounding", "efficiency", "fairness"] {
            assert!(metric(arm, name).is_some_and(|v| (0.0..=1.0).contains(&v)), "{arm} {name}");
        }
    }
    // The arm without a server has no share of look-ups, and no composite of adoption.
    assert_eq!(result["arms"][0]["arm"], "grep");
    assert_eq!(metric(0, "tool_fluency"), None);
    assert!(metric(1, "tool_fluency").is_some_and(|v| v > 0.5));
    // The recording says so wherever it is shown.
    for args in [&["report", "latest", "--markdown"][..], &["explain", "symbols/sample-smoothing/1"]] {
        assert!(place.ok(args).out.contains("a recording"), "{args:?}");
    }
    assert!(
        place
            .rows()
            .iter()
            .filter(|row| row["answer"].is_string())
            .all(|row| row["label"].as_str().is_some_and(|label| label.contains("recording")))
    );
    // Nothing is asked again, and the result is the same.
    place.ok(&["run", "demo"]);
    assert_eq!(place.executed(), Vec::<String>::new());
    assert_eq!(&place.ok(&["report", "latest", "--json"]).json()["result"], result);
}

/// A judge's words of an answer that the harness lost are no score, and the report names the answer.
#[test]
fn a_lost_answer_has_no_score_by_anybody() {
    let place = Place::new();
    place.take_recording();
    place.take("pipelines/demo.toml");
    let refused = r#"{"type":"result","subtype":"success","is_error":true,"api_error_status":529,"duration_ms":9,"num_turns":1,"result":"API Error: 529 \u001b[31moverloaded","session_id":"s","total_cost_usd":0,"usage":{"input_tokens":0,"output_tokens":0}}"#;
    place.write("recordings/demo/grep-2.jsonl", &format!("{refused}\n"));
    let said = place.go(&["run", "demo"]);
    assert_eq!(said.code, 3, "{}\n{}", said.out, said.err);
    assert!(said.out.contains("grep on sample-smoothing, replicate 2: error (api-error): "), "{}", said.out);
    assert!(!said.out.contains('\u{1b}'), "{:?}", said.out);
    let row = place.row("grep/sample-smoothing/2");
    assert_eq!(row["fault"], "harness");
    assert!(row["grades"].as_object().unwrap().values().all(Value::is_null), "{row}");
    assert!(row["judgement"]["quality"].is_number(), "what the judge said is kept: {row}");
    let result = place.ok(&["report", "latest", "--json"]).json()["result"].clone();
    let metric = &result["arms"][0]["metrics"]["llm_quality"];
    assert_eq!(metric["replicates"][1], Value::Null);
    assert_eq!(metric["value"], place.row("grep/sample-smoothing/1")["grades"]["llm_quality"]);
}

/// A report of answers says what it is about, and nothing of questions to servers.
#[test]
fn a_report_of_answers_is_one() {
    let place = Place::new();
    let said = place.ok(&["run", "demo"]);
    for absent in ["hit@1", "without an agent", "0 questions", "By kind", "p95"] {
        assert!(!said.out.contains(absent), "{absent}: {}", said.out);
    }
    assert!(said.out.contains("the numbers are of 1 task about 1 repository (sample)"), "{}", said.out);
    // A node that was made once more is no run to report.
    let before = place.ok(&["report", "latest", "--json"]).json();
    place.ok(&["replay", "summary", "demo", "--verify"]);
    assert_eq!(place.ok(&["report", "latest", "--json"]).json(), before);
}

/// Where an item or a citation of an answer stands is where its words are.
#[test]
fn places_are_bytes_of_the_answer() {
    let place = Place::new();
    place.ok(&["run", "demo"]);
    let row = place.ok(&["explain", "grep/sample-smoothing/1", "--json"]).json();
    let text = row["text"].as_str().unwrap();
    let at = |span: &Value| {
        let end = |at: usize| usize::try_from(span[at].as_u64().unwrap()).unwrap();
        text.get(end(0)..end(1)).unwrap_or_else(|| panic!("{span} is no place in the answer"))
    };
    let cited = row["citations"].as_array().unwrap();
    assert!(cited.len() > 5);
    for citation in cited {
        let name = citation["file"].as_str().unwrap().rsplit('/').next().unwrap();
        let words = at(&citation["span"]);
        // The tail of a list has only its number.
        let lines = citation["locator"].as_str().unwrap().split(['-', ':']).next().unwrap();
        assert!(words.contains(name) || words.contains(lines), "{citation}: {words}");
    }
    let mut seen = 0;
    for item in row["items"].as_array().unwrap() {
        let Some(value) = item["id"].as_str().unwrap().split_once(": word ") else { continue };
        for span in item["spans"].as_array().unwrap() {
            assert!(at(span).eq_ignore_ascii_case(value.1), "{item}");
            seen += 1;
        }
    }
    assert!(seen > 3);
}
