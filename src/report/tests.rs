use serde_json::{Value, json};

use super::*;

fn arm(name: &str, cv: f64, numbers: [f64; 6], cost: [f64; 3], cells: [u64; 5]) -> Value {
    let quality = |v: f64| {
        json!({ "value": v, "n": 40, "of": "questions", "unscored": 0, "unit": "share", "direction": "higher-better",
                "measured": false, "replicates": [v, v, v], "iqr": 0.0, "cv": 0.0, "identical": true,
                "interval": { "low": v - 0.15, "high": v + 0.15, "level": 0.95, "method": "t over questions, descriptive" } })
    };
    let measured = |v: f64, unit: &str| {
        json!({ "value": v, "n": 40, "of": "questions", "unscored": cells[3], "unit": unit,
                "direction": "lower-better", "measured": true, "replicates": [v, v * 1.1, v * 0.9],
                "iqr": v * 0.1, "cv": 0.08, "identical": false })
    };
    let mut composite = json!({
        "value": numbers[0], "n": 40, "of": "questions", "unscored": 0, "unit": "score", "direction": "higher-better",
        "measured": true, "replicates": [numbers[0], numbers[0], numbers[0]], "iqr": 0.0, "cv": cv,
        "identical": false, "floor": 0.325, "terms": []
    });
    if cv > 0.05 {
        composite["note"] =
            json!(format!("unsteady: coefficient of variation {cv:.3} over 3 replicates, above 0.05"));
    }
    json!({
        "arm": name,
        "metrics": {
            "hit@1": quality(numbers[1]), "hit@5": quality(numbers[2]), "hit@10": quality(numbers[3]),
            "symbol_hit@5": quality(numbers[4]), "mrr": quality(numbers[5]), "ndcg@10": quality(0.5),
            "latency_p50_ms": measured(cost[0] / 2.0, "ms"), "latency_p95_ms": measured(cost[0], "ms"),
            "ingest_s": measured(cost[1], "s"), "rss_mib": measured(cost[2], "MiB"),
            "retrieval": composite,
        },
        "cells": { "planned": cells[0], "valid": cells[1], "invalid": cells[2], "error": cells[3],
                   "missing": cells[4], "excluded": 0 },
        "dropped": 0,
        "attrition": if cells[3] > 0 { json!([{ "code": "call-timeout", "fault": "treatment", "n": cells[3] }]) } else { json!([]) },
        "floor": { "retrieval": 0.325 },
        "identical": true,
        "notes": ["the 3 replicates are identical: a deterministic engine; they say nothing about chance"],
    })
}

/// A hand-written result of three arms, one of them with trouble.
fn report() -> Value {
    let mut grep = arm(
        "grep",
        0.012,
        [0.569, 0.300, 0.600, 0.750, 0.000, 0.412],
        [22.0, 0.0, 12.0],
        [120, 120, 0, 0, 0],
    );
    grep["metrics"]["ingest_s"] = json!({ "value": null, "n": 0, "why": "it does not apply to this arm" });
    let bm25 = arm(
        "bm25",
        0.004,
        [0.612, 0.350, 0.700, 0.800, 0.275, 0.478],
        [4.2, 1.25, 85.0],
        [120, 120, 0, 0, 0],
    );
    let mut odd = arm(
        "a-server-with-a-rather-long-name",
        0.081,
        [0.401, 0.100, 0.250, 0.300, 0.125, 0.201],
        [1240.0, 93.0, 1617.0],
        [120, 114, 0, 6, 0],
    );
    odd["notes"] = json!(["tool chosen: search_code; runner-up: find | \u{1b}[31mfiles"]);
    odd["identical"] = json!(false);
    let kind = |a: f64, b: f64, c: f64| {
        json!([
            { "arm": "grep", "n": 8, "hit@5": a, "symbol_hit@5": 0.0, "mrr": 0.1 },
            { "arm": "bm25", "n": 8, "hit@5": b, "symbol_hit@5": 0.1, "mrr": 0.2 },
            { "arm": "a-server-with-a-rather-long-name", "n": 8, "hit@5": c, "symbol_hit@5": 0.1, "mrr": 0.2 }
        ])
    };
    json!({
        "result": {
            "arms": [grep, bm25, odd],
            "cells": { "planned": 360, "valid": 354, "invalid": 0, "error": 6, "missing": 0, "excluded": 0 },
            "complete": true,
            "breakdown": { "kind": { "locate": kind(0.875, 0.75, 0.25), "callers": kind(0.5, 0.5, 0.125), "dead-code": kind(0.0, 0.0, 0.0) } },
            "ranked_by": "retrieval",
            "ranking": [
                { "arm": "bm25", "rank": 1, "retrieval": 0.612 },
                { "arm": "grep", "rank": 2, "retrieval": 0.569 },
                { "arm": "a-server-with-a-rather-long-name", "rank": 3, "retrieval": 0.401 }
            ],
            "repos": [],
            "notes": ["every repository is famous (flask): servers may be tuned to it"],
            "limits": ["other code: the numbers are of 40 questions about 1 repository (flask)",
                       "whether an agent answers better with the server: it was asked directly, without an agent"],
            "disclosure": ["no interest in a server is declared"],
        },
        "run": {
            "run": "20261201-093000-ab12", "pipeline": "retrieval", "about": "Which finds the right file?",
            "state": "complete", "nodes": { "executed": 31, "reused": 2 },
            "gates": [{ "key": "bm25.hit@5.value", "bound": { "at-least": 0.65, "at-most": null }, "value": 0.7, "state": "pass", "why": null },
                      { "key": "grep.ingest_s.value", "bound": { "at-least": null, "at-most": 5.0 }, "value": null, "state": "cannot-tell",
                        "why": "`ingest_s` has no value: it does not apply to this arm" }],
        },
    })
}

/// The same with this many arms.
fn many(arms: usize) -> Value {
    let mut out = report();
    let template = out["result"]["arms"][1].clone();
    let mut list = Vec::new();
    let mut kind = Vec::new();
    for i in 0..arms {
        let mut one = template.clone();
        one["arm"] = json!(format!("server-number-{i}-of-somebody"));
        kind.push(json!({ "arm": one["arm"], "n": 8, "hit@5": 0.5 + 0.01 * (i / 2) as f64 }));
        list.push(one);
    }
    out["result"]["arms"] = json!(list);
    out["result"]["breakdown"]["kind"] = json!({ "locate": kind });
    out["result"]["ranking"] = json!([]);
    out
}

#[test]
fn on_a_terminal() {
    insta::assert_snapshot!(terminal(&report(), Style::default()));
}

#[test]
fn on_a_narrow_terminal() {
    insta::assert_snapshot!(terminal(&report(), Style { width: 72, colour: false }));
}

#[test]
fn with_twelve_arms() {
    insta::assert_snapshot!(terminal(&many(12), Style::default()));
}

#[test]
fn as_markdown() {
    insta::assert_snapshot!(markdown(&report()).expect("the template is sound"));
}

#[test]
fn colour_is_for_terminals_only() {
    assert!(!terminal(&report(), Style::default()).contains('\u{1b}'));
    assert!(terminal(&report(), Style { width: 100, colour: true }).contains("\u{1b}[1m"));
}

#[test]
fn lines_keep_to_the_width() {
    for arms in [1, 2, 5, 12] {
        for width in [80, 100, 160] {
            let text = terminal(&many(arms), Style { width, colour: false });
            for line in text.lines() {
                assert!(line.chars().count() <= usize::from(width), "{arms} arms, {width}: {line}");
            }
        }
    }
}

#[test]
fn odd_reports_do_not_panic() {
    for odd in [json!(null), json!({}), json!({ "result": { "arms": [{}], "ranked_by": "x" } }), json!([1])] {
        terminal(&odd, Style { width: 1, colour: false });
        markdown(&odd).expect("renders");
        json(&odd, true);
    }
    let summary = crate::grade::summarise(&crate::grade::Summary::default());
    assert!(terminal(&json!({ "result": summary, "run": {} }), Style::default()).contains("No composite"));
}

#[test]
fn stable_json_has_no_run() {
    let text = json(&report(), true);
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert!(value.get("run").is_none() && text.ends_with('\n'));
    assert!(value["result"]["arms"][0]["metrics"]["latency_p95_ms"].get("value").is_none());
    assert!(json(&report(), false).contains("\"run\""));
}
