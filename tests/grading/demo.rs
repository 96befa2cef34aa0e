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
