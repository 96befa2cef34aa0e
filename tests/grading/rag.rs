//! Runs of the rag-bench family: imported, graded by its rules, graded anew with a mended ground truth.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Place;

fn oracle() -> Option<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let folder = shared.join("oracle/rag-bench");
    if folder.is_dir() {
        return Some(folder.canonicalize().unwrap());
    }
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!(in_ci && shared.exists()), "{} is missing", folder.display());
    println!("skipped: no oracle");
    None
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}"))
}

/// The shares that are known of a column.
fn mean(rows: &[&Value], column: &str) -> f64 {
    let values: Vec<f64> = rows.iter().filter_map(|row| row["grades"][column].as_f64()).collect();
    values.iter().sum::<f64>() / f64::from(u32::try_from(values.len()).unwrap())
}

#[test]
fn the_published_agent_run_gives_its_pairs() {
    let Some(oracle) = oracle() else { return };
    let place = Place::new();
    let file = oracle.join("agent_ab_express_v3.json");
    let published: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let said = place.ok(&["import", "rag-bench", file.to_str().unwrap(), "--json"]).json();
    assert_eq!(said["answers"], 70);
    // One of the rows is an error, which is the provider's: infrastructure failed.
    let run = place.go(&["run", "regrade", "--set", "profile=rag-bench"]);
    assert_eq!(run.code, 3, "{}{}", run.out, run.err);
    let rows = place.rows();
    assert_eq!(rows.len(), 70);
    let mut checks = 0;
    let mut tasks: BTreeMap<&str, BTreeMap<&str, &Value>> = BTreeMap::new();
    for row in &rows {
        tasks.entry(text(row, "task")).or_default().insert(text(row, "arm"), row);
    }
    for row in published["rows"].as_array().unwrap() {
        let ours = tasks[text(row, "question")][text(row, "arm")];
        if row["error"].is_string() {
            assert_eq!(ours["state"], "error");
            assert_eq!(ours["grades"]["accuracy"], Value::Null);
            continue;
        }
        let share = |hit: &Value| if *hit == json!(true) { 1.0 } else { 0.0 };
        let both = share(&row["file_hit"]) * share(&row["symbol_hit"]);
        let tokens = row["input_tokens"].as_f64().unwrap() + row["output_tokens"].as_f64().unwrap();
        let calls = |words: &str| -> f64 {
            let counts = words.split(',').filter_map(|word| word.split_once(':')?.1.parse::<f64>().ok());
            counts.sum()
        };
        for (column, value) in [
            ("file_accuracy", share(&row["file_hit"])),
            ("symbol_accuracy", share(&row["symbol_hit"])),
            ("accuracy", both),
            ("tokens", tokens),
            ("cost_usd", row["cost_usd"].as_f64().unwrap()),
            ("turns", row["turns"].as_f64().unwrap()),
            ("wall_s", row["duration_ms"].as_f64().unwrap() / 1000.0),
            ("tool_calls", calls(row["tool_calls"].as_str().unwrap_or_default())),
        ] {
            assert_eq!(ours["grades"][column].as_f64(), Some(value), "{column} of {ours}");
            checks += 1;
        }
    }
    let expected = &published["expected"];
    let valid = |arm: &str| -> Vec<&Value> {
        tasks
            .values()
            .filter_map(|arms| arms.get(arm).copied())
            .filter(|row| row["state"] == "valid")
            .collect()
    };
    let pairs: Vec<(&Value, &Value)> = tasks
        .values()
        .filter_map(|arms| Some((*arms.get("baseline")?, *arms.get("nova-rag")?)))
        .filter(|(a, b)| a["state"] == "valid" && b["state"] == "valid")
        .collect();
    assert_eq!(json!(pairs.len()), expected["pairs"]);
    let right = |row: &Value| row["grades"]["accuracy"] == 1.0;
    let only = |first: bool| pairs.iter().filter(|(a, b)| right(a) == first && right(b) != first).count();
    assert_eq!(json!(only(true)), expected["only_baseline_correct"]);
    assert_eq!(json!(only(false)), expected["only_treatment_correct"]);
    let (a, b): (Vec<&Value>, Vec<&Value>) = pairs.iter().copied().unzip();
    assert_eq!(json!(mean(&a, "accuracy")), expected["accuracy_baseline"]);
    assert_eq!(json!(mean(&b, "accuracy")), expected["accuracy_treatment"]);
    let treated = valid("nova-rag");
    assert_eq!(json!(treated.len()), expected["used_server_of"]);
    let used = treated.iter().filter(|row| row["grades"]["server_used"] == 1.0).count();
    assert_eq!(json!(used), expected["used_server"]);
    assert!(valid("baseline").iter().all(|row| row["grades"].get("server_used").is_none()));
    // By other rules nothing can be said of answers whose words are not there.
    drop(place.go(&["run", "regrade"]));
    assert!(place.rows().iter().all(|row| row["grades"]["accuracy"].is_null()));
    println!("oracle checks: {}", checks + 8);
}

#[test]
fn the_published_retrieval_run_gives_its_hits() {
    let Some(oracle) = oracle() else { return };
    let place = Place::new();
    let said = place.ok(&["import", "rag-bench", oracle.to_str().unwrap(), "--json"]).json();
    assert_eq!([&said["runs"], &said["answers"], &said["questions"]], [2, 160, 135]);
    drop(place.go(&["run", "regrade", "--set", "profile=rag-bench"]));
    let name = "run_nova-rag_2026-05-09";
    let published: Value =
        serde_json::from_slice(&std::fs::read(oracle.join(format!("{name}.json"))).unwrap()).unwrap();
    let rows = place.rows();
    let of_run: BTreeMap<&str, &Value> =
        rows.iter().filter(|row| text(row, "arm") == name).map(|row| (text(row, "task"), row)).collect();
    let mut checks = 0;
    for one in published["query_details"].as_array().unwrap() {
        let ours = &of_run[text(one, "id")]["grades"];
        let share = |hit: &Value| json!(if *hit == json!(true) { 1.0 } else { 0.0 });
        assert_eq!(ours["hit@5"], share(&one["found_file"]), "{one}");
        assert_eq!(ours["symbol_hit@5"], share(&one["found_symbol"]), "{one}");
        assert_eq!(ours["latency_ms"], one["latency_ms"], "{one}");
        // Further down than five results nothing was written down.
        assert!(ours.get("hit@10").is_none() && ours.get("rr").is_none());
        checks += 3;
    }
    let all: Vec<&Value> = of_run.values().copied().collect();
    for (column, name) in [
        ("hit@1", "hit_at_1"),
        ("hit@3", "hit_at_3"),
        ("hit@5", "hit_at_5"),
        ("symbol_hit@5", "symbol_hit_at_5"),
    ] {
        let rounded = (mean(&all, column) * 1e4).round() / 1e4;
        assert_eq!(json!(rounded), published["retrieval"][name], "{column}");
        checks += 1;
    }
    for (repo, published) in published["by_repo"].as_object().unwrap() {
        let of_repo: Vec<&Value> = all.iter().copied().filter(|row| row["repo"] == *repo.as_str()).collect();
        assert_eq!(json!(of_repo.len()), published["count"]);
        assert_eq!(json!(mean(&of_repo, "hit@5")), published["hit_at_5"]);
        assert_eq!(json!(mean(&of_repo, "symbol_hit@5")), published["symbol_hit_at_5"]);
        checks += 3;
    }
    let report = place.ok(&["report", "latest", "--json"]).json();
    let of_kind = &report["result"]["breakdown"]["kind"];
    for (kind, published) in published["by_type"].as_object().unwrap() {
        let ours = of_kind[kind].as_array().unwrap().iter().find(|one| one["arm"] == name).unwrap();
        assert_eq!(ours["n"], published["count"], "{kind}");
        assert_eq!(ours["hit@5"], published["hit_at_5"], "{kind}");
        checks += 2;
    }
    let arms = report["result"]["arms"].as_array().unwrap();
    let metrics = &arms.iter().find(|arm| arm["arm"] == name).unwrap()["metrics"];
    for (metric, said) in
        [("latency_p50_ms", "p50_ms"), ("latency_p95_ms", "p95_ms"), ("latency_p99_ms", "p99_ms")]
    {
        let rounded = (metrics[metric]["value"].as_f64().unwrap() * 10.0).round() / 10.0;
        assert_eq!(json!(rounded), published["retrieval"]["latency"][said], "{metric}");
        checks += 1;
    }
    println!("oracle checks: {checks}");
}

/// A result file by the benchmark's own names, with words; the third answer cites a file that is not there.
fn small(place: &Place) {
    place.write(
        "bench/datasets/repos.json",
        r#"[{"name": "shop", "git_url": "https://example.org/shop.git", "ref": "0123456789012345678901234567890123456789", "language": "javascript", "size": "small"}]"#,
    );
    place.write("bench/datasets/warmup.jsonl", "{\"id\": \"w1\", \"query\": \"what is this?\"}\n");
    let question = |id: &str, files: &[&str], symbols: &[&str]| {
        let all = json!({ "id": id, "type": "locate", "query": format!("where is {id}?"), "difficulty": "easy",
            "expected_files": files, "expected_symbols": symbols });
        format!("{all}\n")
    };
    place.write(
        "bench/datasets/queries/shop.jsonl",
        &[
            question("shop_001", &["lib/cart.js"], &["addItem"]),
            question("shop_002", &["lib/router/index.js"], &["Layer"]),
            question("shop_003", &["lib/router/layer.js"], &[]),
        ]
        .concat(),
    );
    let row = |id: &str, arm: &str, answer: &str, calls: Value| {
        json!({ "query_id": id, "repo": "shop", "query_type": "locate", "difficulty": "easy", "condition": arm,
            "answer": answer, "file_hit": true, "symbol_hit": true, "correct": true, "judge_correct": null,
            "input_tokens": 4, "output_tokens": 96, "cost_usd": 0.05, "num_turns": 3, "duration_ms": 1500,
            "tool_calls": calls, "mcp_calls": 0, "error": null })
    };
    let served = json!({ "mcp__finder__code_search": 2, "Read": 1 });
    let own = json!({ "Grep": 2 });
    let mut rows = vec![
        row("shop_001", "baseline", "`addItem` in lib/cart.js puts it there.", own.clone()),
        row("shop_001", "finder", "See lib/cart.js, function addItem.", served.clone()),
        row("shop_002", "baseline", "node_modules/router/index.js; there is no Layer class.", own),
        row("shop_002", "finder", "It is `Layer` in lib/routing.js.", served.clone()),
        row("shop_003", "finder", "lib/router/layer.js, I think.", served),
    ];
    let mut failed = row("shop_003", "baseline", "", json!({}));
    failed["error"] = json!("claude exited 1: no more");
    rows.push(failed);
    let document = json!({ "benchmark": "agent-ab", "run_id": "r", "model": "some-model", "max_turns": 15,
        "conditions": ["baseline", "finder"], "repos": ["shop"], "summary": {}, "queries": rows });
    place.write("bench/results/agent_shop.json", &document.to_string());
}

/// Accuracy, file, symbol of an answer; none where it is unscored.
fn graded(place: &Place, id: &str) -> [Option<f64>; 3] {
    let row = place.row(&format!("agent_shop/{id}"));
    ["accuracy", "file_accuracy", "symbol_accuracy"].map(|name| row["grades"][name].as_f64())
}

#[test]
fn a_mended_ground_truth_lists_the_flipped_rows() {
    let place = Place::new();
    small(&place);
    let said = place.ok(&["import", "rag-bench", "bench"]).out;
    assert!(said.contains("1 result files with 6 answers"), "{said}");
    let run = place.go(&["run", "regrade", "--set", "profile=rag-bench"]);
    assert_eq!(run.code, 3, "the failed row: {}{}", run.out, run.err);
    // By its rules: the last two components are enough, and a denial is a mention.
    assert_eq!(graded(&place, "baseline/shop_001"), [Some(1.0); 3]);
    assert_eq!(graded(&place, "baseline/shop_002"), [Some(1.0); 3]);
    assert_eq!(graded(&place, "finder/shop_002"), [Some(0.0), Some(0.0), Some(1.0)]);
    assert_eq!(graded(&place, "finder/shop_003"), [Some(1.0); 3]);
    assert_eq!(graded(&place, "baseline/shop_003"), [None; 3]);
    let row = place.row("agent_shop/finder/shop_001");
    assert_eq!(row["model"], "some-model");
    for (column, value) in [("tokens", 100.0), ("turns", 3.0), ("tool_calls", 3.0), ("server_calls", 2.0)] {
        assert_eq!(row["grades"][column], value, "{column}");
    }
    // The document is kept byte for byte beside each of its answers.
    let first = place.ok(&["report", "latest", "--json"]).json();
    let parts = place
        .ok(&["show", "answers[arm=finder,answer=agent_shop/finder/shop_001]", "--part", "document.json"])
        .out;
    assert_eq!(parts, place.read("bench/results/agent_shop.json"));

    // The router is a package of its own: what was expected is not in the repository.
    let set = "imported/rag-bench/questions/shop.toml";
    place.edit(set, "lib/router/index.js", "lib/routing.js");
    place.edit(set, "lib/router/layer.js", "lib/view.js");
    let run = place.go(&["run", "regrade", "--set", "profile=rag-bench"]);
    assert_eq!(run.code, 3, "{}{}", run.out, run.err);
    let mut stages = place.executed();
    stages.dedup();
    assert_eq!(stages, ["score", "summary"]);
    assert_eq!(graded(&place, "finder/shop_002"), [Some(1.0); 3]);
    assert_eq!(graded(&place, "finder/shop_003"), [Some(0.0), Some(0.0), Some(1.0)]);
    let before = text(&first["run"], "run");
    let found = place.ok(&["diff", before, "latest", "--json"]).json();
    let moved: Vec<String> = found["moved"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["item"] == "accuracy")
        .map(|one| format!("{} {} {}", text(one, "answer"), one["before"], one["after"]))
        .collect();
    assert_eq!(
        moved,
        [
            "agent_shop/baseline/shop_002 1.0 0.0",
            "agent_shop/finder/shop_002 0.0 1.0",
            "agent_shop/finder/shop_003 1.0 0.0"
        ]
    );
    let why: Vec<&str> =
        found["moved"][0]["why"].as_array().unwrap().iter().map(|w| text(w, "field")).collect();
    assert!(why.iter().any(|field| field.starts_with("fields.accuracy")), "{why:?}");
    // Old grades stay.
    assert_eq!(place.ok(&["report", before, "--json"]).json()["result"], first["result"]);

    // By the default rules the package's file is not the repository's, before and after.
    drop(place.go(&["run", "regrade"]));
    assert_eq!(graded(&place, "baseline/shop_002"), [Some(0.0), Some(0.0), Some(1.0)]);
    assert_eq!(place.row("agent_shop/finder/shop_001")["grades"]["file_precision"], 1.0);
}

#[test]
fn rows_that_cant_be_used_are_named_and_the_others_are_imported() {
    let place = Place::new();
    let hostile = json!({ "benchmark": "agent-ab", "queries": [
        { "query_id": "shop_001", "condition": "a", "answer": "x", "tool_calls": { "Grep": 1_000_000_000_000_000_000_u64 } },
        { "query_id": "../../etc", "condition": "a", "repo": "shop", "answer": "y" },
        { "query_id": "", "condition": "a" },
        { "condition": "a" },
        7,
        { "query_id": "shop_001", "condition": "a", "answer": ["no", "text"] },
    ]});
    place.write("agent.json", &hostile.to_string());
    let said = place.go(&["import", "rag-bench", "agent.json", "--json"]);
    assert_eq!(said.code, 1, "{}{}", said.out, said.err);
    let json = said.json();
    assert_eq!(json["answers"], 3);
    assert_eq!(json["problems"].as_array().unwrap().len(), 3, "{json}");
    drop(place.go(&["run", "regrade", "--set", "profile=rag-bench"]));
    let rows = place.rows();
    assert_eq!(rows.len(), 3);
    let row = place.row("agent/a/shop_001/2");
    assert_eq!((&row["state"], &row["codes"][0]), (&json!("error"), &json!("unreadable-transcript")));
    assert_eq!(row["replicate"], 2);
    let row = place.row("agent/a/shop_001");
    // More calls than anyone makes are unknown, not none.
    assert_eq!(row["grades"]["tool_calls"], Value::Null);
    assert!(row["notes"].to_string().contains("`tool_calls.Grep` can't be read"), "{row}");
    // A file that is no result of anything.
    place.write("other.json", "{\"a\": 1}");
    let said = place.go(&["import", "rag-bench", "other.json"]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("no result file"), "{}", said.err);
}
