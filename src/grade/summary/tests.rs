use super::*;
use crate::artifact::{GradeRow, SamplePair};

fn row(task: &str, kind: &str, state: CellState, values: &[(&str, Option<f64>)]) -> GradeRow {
    GradeRow {
        task: task.into(),
        kind: kind.into(),
        difficulty: "easy".into(),
        state,
        values: values.iter().map(|(k, v)| ((*k).to_owned(), *v)).collect(),
        rank: values.iter().any(|(k, v)| *k == "hit@5" && *v == Some(1.0)).then_some(1),
        ..GradeRow::default()
    }
}

/// Two questions, the first found or not, answered in `ms`.
fn grades(found: f64, ms: f64) -> Grades {
    let values = |hit: f64, ms: f64| {
        [
            ("hit@5", Some(hit)),
            ("rr", Some(hit)),
            ("symbol_hit@5", Some(0.0)),
            ("calls", Some(1.0)),
            ("latency_ms", Some(ms)),
        ]
    };
    Grades {
        rows: vec![
            row("q-2", "locate", CellState::Valid, &values(1.0, ms * 2.0)),
            row("q-1", "callers", CellState::Valid, &values(found, ms)),
        ],
        node: [("ingest_s", 2.0), ("rss_mib", 300.0), ("index_mib", 100.0), ("footprint_rss_mib", 300.0)]
            .into_iter()
            .map(|(k, v)| (k.to_owned(), Some(v)))
            .collect(),
        ..Grades::default()
    }
}

fn cell(arm: &str, repo: &str, replicate: u32, grades: Option<Grades>) -> Cell {
    Cell {
        arm: (!arm.is_empty()).then(|| arm.to_owned()),
        repo: Some(repo.into()),
        replicate: Some(replicate.to_string()),
        planned: 2,
        grades,
        ..Cell::default()
    }
}

fn retrieval() -> Composite {
    let term = |metric: &str, inverse, weight| Term { metric: metric.into(), inverse, weight };
    Composite {
        name: "retrieval".into(),
        terms: vec![
            term("hit@5", false, 0.30),
            term("symbol_hit@5", false, 0.15),
            term("mrr", false, 0.15),
            term("calls", true, 0.15),
            term("latency_p95_s", true, 0.15),
            term("footprint", true, 0.10),
        ],
    }
}

fn input(arms: &[&str], cells: Vec<Cell>) -> Summary {
    Summary {
        arms: arms.iter().map(ToString::to_string).collect(),
        graders: vec!["ranking".into(), "latency".into(), "resources".into()],
        cells,
        composites: vec![retrieval()],
        ..Summary::default()
    }
}

fn close(value: &Value, want: f64) {
    let have = value.as_f64().unwrap_or(f64::NAN);
    assert!((have - want).abs() < 1e-12, "{value} is not {want}");
}

#[test]
fn numbers_are_medians_over_replicates_of_pooled_questions() {
    let result = summarise(&input(
        &["a"],
        vec![
            cell("a", "x", 1, Some(grades(1.0, 10.0))),
            cell("a", "y", 1, Some(grades(0.0, 10.0))),
            cell("a", "x", 2, Some(grades(0.0, 20.0))),
            cell("a", "y", 2, Some(grades(0.0, 20.0))),
            cell("a", "x", 10, Some(grades(1.0, 30.0))),
            cell("a", "y", 10, Some(grades(1.0, 30.0))),
        ],
    ));
    let metrics = &result["arms"][0]["metrics"];
    let hit = &metrics["hit@5"];
    assert_eq!(hit["replicates"], json!([0.75, 0.5, 1.0]), "replicate 10 comes after 2");
    close(&hit["value"], 0.75);
    assert_eq!((&hit["n"], &hit["unscored"], &hit["identical"]), (&json!(4), &json!(0), &json!(false)));
    assert!(hit["interval"]["low"].as_f64() < hit["value"].as_f64());
    // Two repositories' indexes add up, memory is the largest; measured once each.
    close(&metrics["index_mib"]["value"], 200.0);
    close(&metrics["rss_mib"]["value"], 300.0);
    assert_eq!(metrics["ingest_s"]["replicates"], json!([4.0]));
    close(&metrics["footprint"]["value"], 0.5);
    // 20 ms and 40 ms twice in the middle replicate.
    close(&metrics["latency_p50_ms"]["value"], 30.0);
    close(&metrics["latency_p95_s"]["value"], 0.04);
    let retrieval = &metrics["retrieval"];
    close(&retrieval["replicates"][1], 0.30 * 0.5 + 0.15 * 0.5 + 0.15 * 0.5 + 0.15 / 1.04 + 0.10 / 1.5);
    close(&result["arms"][0]["floor"]["retrieval"], 0.325);
    assert!(retrieval["note"].as_str().unwrap_or_default().contains("unsteady"));
    assert_eq!(result["cells"]["planned"], 12);
    assert_eq!(result["complete"], true);
    assert_eq!(
        result["breakdown"]["kind"]["locate"],
        json!([{ "arm": "a", "n": 2, "hit@5": 1.0, "symbol_hit@5": 0.0, "mrr": 1.0 }])
    );
    assert_eq!(result["breakdown"]["repo"]["x"][0]["n"], 2);
}

#[test]
fn identical_replicates_say_so() {
    let cells = |found: [f64; 2]| {
        vec![cell("a", "x", 1, Some(grades(found[0], 10.0))), cell("a", "x", 2, Some(grades(found[1], 11.0)))]
    };
    let same = summarise(&input(&["a"], cells([1.0, 1.0])));
    assert_eq!(same["arms"][0]["identical"], true);
    assert!(
        same["arms"][0]["notes"][0]
            .as_str()
            .unwrap_or_default()
            .contains("identical: a deterministic engine")
    );
    assert_eq!(same["arms"][0]["metrics"]["hit@5"]["identical"], true);
    assert_eq!(same["arms"][0]["metrics"]["hit@5"]["cv"], 0.0);
    assert_eq!(summarise(&input(&["a"], cells([1.0, 0.0])))["arms"][0]["identical"], false);
    let single = summarise(&input(&["a"], cells([1.0, 1.0])[..1].to_vec()));
    assert_eq!(single["arms"][0]["identical"], Value::Null);
    assert_eq!(single["arms"][0]["metrics"]["hit@5"]["cv"], Value::Null);
}

#[test]
fn states_add_up_and_faults_are_told_apart() {
    let failed = |fault, task: &str| GradeRow {
        codes: vec!["call-timeout".into()],
        fault,
        ..row(
            task,
            "locate",
            CellState::Error,
            if fault == Some(Fault::Treatment) { &[("hit@5", Some(0.0))] } else { &[] },
        )
    };
    let mut one = grades(1.0, 10.0);
    one.rows.push(failed(Some(Fault::Treatment), "q-3"));
    one.rows.push(failed(Some(Fault::Harness), "q-4"));
    one.rows.push(row("q-5", "locate", CellState::Excluded, &[]));
    let with_room = Cell { planned: 5, ..cell("a", "x", 1, Some(one)) };
    let result = summarise(&input(&["a", "b"], vec![with_room, cell("b", "x", 1, None)]));
    let a = &result["arms"][0];
    assert_eq!(
        a["cells"],
        json!({ "planned": 5, "valid": 2, "invalid": 0, "error": 2, "missing": 1, "excluded": 1 })
    );
    assert_eq!(a["dropped"], 1);
    assert_eq!(
        a["attrition"],
        json!([{ "code": "call-timeout", "fault": "harness", "n": 1 }, { "code": "call-timeout", "fault": "treatment", "n": 1 }])
    );
    close(&a["metrics"]["hit@5"]["value"], 2.0 / 3.0);
    assert_eq!(a["metrics"]["hit@5"]["per_protocol"], json!({ "value": 1.0, "n": 2 }));
    let b = &result["arms"][1];
    assert_eq!(b["cells"]["missing"], 2);
    assert_eq!(b["metrics"]["hit@5"]["value"], Value::Null);
    assert_eq!(b["metrics"]["hit@5"]["why"], "no cell has an answer");
    assert_eq!(b["metrics"]["index_mib"]["why"], "not measured on x");
    assert_eq!(b["metrics"]["retrieval"]["why"], "hit@5: no cell has an answer");
    assert_eq!(result["ranking"][1], json!({ "arm": "b", "rank": null, "retrieval": null }));
    assert_eq!(result["complete"], false);
    assert_eq!(result["notes"][0], "incomplete: 3 of 7 cells are missing");
}

#[test]
fn a_server_that_was_never_called_has_no_cheap_composite() {
    let dead = Grades {
        rows: vec![row(
            "q-1",
            "locate",
            CellState::Error,
            &[("hit@5", Some(0.0)), ("rr", Some(0.0)), ("symbol_hit@5", Some(0.0))],
        )],
        ..Grades::default()
    };
    let result = summarise(&input(&["a"], vec![cell("a", "x", 1, Some(dead))]));
    let metrics = &result["arms"][0]["metrics"];
    assert_eq!(metrics["hit@5"]["value"], Value::Null, "an error is no zero");
    assert_eq!(metrics["hit@5"]["why"], "no cell is valid");
    assert_eq!((&metrics["hit@5"]["n"], &metrics["hit@5"]["unscored"]), (&json!(0), &json!(1)));
    assert_eq!(metrics["retrieval"]["value"], Value::Null);
}

#[test]
fn an_index_that_one_repository_lacks_is_not_summed() {
    let mut unmeasured = grades(1.0, 10.0);
    unmeasured.node.insert("index_mib".into(), None);
    let mut without = grades(1.0, 10.0);
    without.node.remove("ingest_s");
    let result = summarise(&input(
        &["a"],
        vec![
            cell("a", "x", 1, Some(grades(1.0, 10.0))),
            cell("a", "y", 1, Some(unmeasured)),
            cell("a", "z", 1, Some(without)),
        ],
    ));
    let metrics = &result["arms"][0]["metrics"];
    assert_eq!(metrics["index_mib"]["why"], "not measured on y");
    assert_eq!(metrics["footprint"]["why"], "index size: not measured on y");
    close(&metrics["ingest_s"]["value"], 4.0);
}

#[test]
fn ranks_are_shared_by_equals() {
    let result = summarise(&input(
        &["c", "b", "a"],
        vec![
            cell("a", "x", 1, Some(grades(1.0, 10.0))),
            cell("b", "x", 1, Some(grades(1.0, 10.0))),
            cell("c", "x", 1, Some(grades(0.0, 10.0))),
        ],
    ));
    let order: Vec<_> = result["ranking"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|r| (r["arm"].clone(), r["rank"].clone()))
        .collect();
    assert_eq!(order, [(json!("b"), json!(1)), (json!("a"), json!(1)), (json!("c"), json!(3))]);
}

#[test]
fn stable_keeps_quality_and_drops_what_the_clock_said() {
    let run = |ms| {
        summarise(&input(
            &["b", "a"],
            vec![cell("b", "x", 1, Some(grades(0.0, ms))), cell("a", "x", 1, Some(grades(1.0, 30.0 - ms)))],
        ))
    };
    let (one, two) = (run(10.0), run(20.0));
    assert_ne!(one, two);
    assert_eq!(stable(&one), stable(&two));
    let left = stable(&one);
    close(&left["arms"][0]["metrics"]["hit@5"]["value"], 0.5);
    assert_eq!(
        left["arms"][0]["metrics"]["latency_p95_ms"],
        json!({ "n": 2, "of": "questions", "unscored": 0, "unit": "ms", "direction": "lower-better", "measured": true })
    );
    assert!(left["arms"][0]["metrics"]["retrieval"].get("value").is_none());
    assert_eq!(left["ranking"], json!([{ "arm": "b", "n": 2 }, { "arm": "a", "n": 2 }]));
    // A composite of quality alone stays, and so does its ranking.
    let mut quality = input(&["b", "a"], vec![cell("a", "x", 1, Some(grades(1.0, 1.0)))]);
    quality.composites[0].terms.truncate(3);
    let result = summarise(&quality);
    assert_eq!(stable(&result)["ranking"], result["ranking"]);
}

#[test]
fn custom_numbers_without_arms_feed_composites() {
    let number = |metric: &str, replicate: Option<&str>, value| CustomNumber {
        metric: metric.into(),
        replicate: replicate.map(str::to_owned),
        value,
        ..CustomNumber::default()
    };
    let result = summarise(&Summary {
        custom: vec![
            number("score", Some("1"), Some(0.5)),
            number("score", Some("2"), Some(0.7)),
            number("score", Some("2"), Some(0.9)),
            number("bonus", None, Some(1.0)),
            number("lost", None, None),
        ],
        composites: vec![Composite {
            name: "quality".into(),
            terms: vec![
                Term { metric: "score".into(), inverse: false, weight: 0.5 },
                Term { metric: "bonus".into(), inverse: false, weight: 0.5 },
            ],
        }],
        ..Summary::default()
    });
    let arm = &result["arms"][0];
    assert_eq!(arm["arm"], Value::Null);
    assert_eq!(arm["metrics"]["score"]["replicates"], json!([0.5, 0.8]));
    close(&arm["metrics"]["quality"]["value"], 0.825);
    assert_eq!(arm["floor"]["quality"], Value::Null);
    assert_eq!(arm["metrics"]["lost"]["why"], "no node gave a number");
    assert_eq!(result["ranked_by"], "quality");
    assert_eq!(result["ranking"][0]["rank"], 1);
    assert_eq!(result["breakdown"]["kind"], json!({}));
}

#[test]
fn an_arm_that_found_nothing_shows_pairs() {
    let nothing = Grades {
        rows: vec![row("q-1", "locate", CellState::Invalid, &[("hit@5", Some(0.0))])],
        samples: vec![
            SamplePair {
                task: "q-0".into(),
                question: "what?".into(),
                expected: Some("src/a.py".into()),
                top: None,
            },
            SamplePair {
                task: "q-1".into(),
                question: "where?".into(),
                expected: Some("src/a.py".into()),
                top: Some("/tmp/b.py".into()),
            },
        ],
        ..Grades::default()
    };
    let result = summarise(&input(
        &["a"],
        vec![cell("a", "x", 1, Some(nothing.clone())), cell("a", "x", 2, Some(nothing))],
    ));
    let notes: Vec<&str> =
        result["arms"][0]["notes"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert!(notes.contains(&"nothing was found for any question: path vocabulary mismatch?"), "{notes:?}");
    assert!(notes.contains(&"q-1: \"where?\" expects src/a.py; the first result is /tmp/b.py"), "{notes:?}");
    assert_eq!(notes.iter().filter(|n| n.contains("the first result is")).count(), 2);
}

#[test]
fn the_order_of_cells_and_rows_changes_nothing() {
    let mut cells: Vec<Cell> = (1..=3)
        .flat_map(|r| {
            ["x", "y"].map(|repo| cell("a", repo, r, Some(grades(0.1 * f64::from(r), 0.7 * f64::from(r)))))
        })
        .collect();
    let forward = summarise(&input(&["a"], cells.clone()));
    cells.reverse();
    for one in &mut cells {
        if let Some(grades) = &mut one.grades {
            grades.rows.reverse();
        }
    }
    assert_eq!(forward, summarise(&input(&["a"], cells)));
}

#[test]
fn by_the_rules_of_rag_bench_an_arm_that_failed_throughout_has_zeros() {
    let values = [("hit@5", Some(0.0)), ("rr", Some(0.0)), ("calls", Some(1.0)), ("latency_ms", None)];
    let dead = Grades {
        rows: vec![GradeRow {
            fault: Some(Fault::Treatment),
            ..row("q-1", "locate", CellState::Error, &values)
        }],
        ..Grades::default()
    };
    let of = |profile| {
        let cells = vec![cell("a", "x", 1, Some(dead.clone()))];
        summarise(&Summary { profile, ..input(&["a"], cells) })["arms"][0]["metrics"].clone()
    };
    let ours = of(Profile::Default);
    assert_eq!((&ours["hit@5"]["value"], &ours["hit@5"]["why"]), (&Value::Null, &json!("no cell is valid")));
    let theirs = of(Profile::RagBench);
    for (name, value) in [("hit@5", 0.0), ("mrr", 0.0), ("calls", 1.0), ("latency_p50_ms", 0.0)] {
        assert_eq!(theirs[name]["value"], value, "{name}");
    }
}
