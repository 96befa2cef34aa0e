//! Runs of the rag-bench family: imported, graded by its rules, graded anew with a mended ground truth.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Place, oracle};

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
    let Some(oracle) = oracle("rag-bench") else { return };
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
    let Some(oracle) = oracle("rag-bench") else { return };
    let place = Place::new();
    let said = place.ok(&["import", "rag-bench", oracle.to_str().unwrap(), "--json"]).json();
    assert_eq!([&said["runs"], &said["answers"], &said["questions"]], [2, 160, 135]);
    drop(place.go(&["run", "regrade", "--set", "profile=rag-bench"]));
    let name = "run_nova-rag_2026-05-09";
    let published: Value =
        serde_json::from_slice(&std::fs::read(oracle.join(format!("{name}.json"))).unwrap()).unwrap();
    let rows = place.rows();
    assert_eq!(rows.len(), 160, "one line per answer");
    let of_run: BTreeMap<&str, &Value> =
        rows.iter().filter(|row| text(row, "arm") == name).map(|row| (text(row, "task"), row)).collect();
    let mut checks = 0;
    for one in published["query_details"].as_array().unwrap() {
        let ours = &of_run[text(one, "id")]["grades"];
        let share = |hit: &Value| json!(if *hit == json!(true) { 1.0 } else { 0.0 });
        assert_eq!(ours["hit@5"], share(&one["found_file"]), "{one}");
        assert_eq!(ours["symbol_hit@5"], share(&one["found_symbol"]), "{one}");
        assert_eq!(ours["latency_ms"], one["latency_ms"], "{one}");
        assert!(!of_run[text(one, "id")]["results"].as_array().unwrap().is_empty(), "{one}");
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

/// A benchmark in `bench` with one repository `shop` and these questions: id, expected files, expected symbols.
fn questions(place: &Place, questions: &[(&str, &[&str], &[&str])]) {
    place.write(
        "bench/repos.json",
        r#"[{"name": "shop", "git_url": "https://example.org/shop.git", "ref": "0123456789012345678901234567890123456789", "language": "python", "size": "small"}]"#,
    );
    place.write("bench/warmup.jsonl", "{\"id\": \"w1\", \"query\": \"what is this?\"}\n");
    let lines: Vec<String> = questions
        .iter()
        .map(|(id, files, symbols)| {
            json!({ "id": id, "type": "locate", "query": "where?", "difficulty": "easy", "expected_files": files,
                "expected_symbols": symbols })
            .to_string()
        })
        .collect();
    place.write("bench/queries/shop.jsonl", &lines.join("\n"));
}

/// A row of an agent run with more or other fields; null takes one out.
fn agent(id: &str, arm: &str, answer: &str, more: &Value) -> Value {
    let mut row = json!({ "query_id": id, "repo": "shop", "query_type": "locate", "difficulty": "easy",
        "condition": arm, "answer": answer, "file_hit": true, "symbol_hit": true, "correct": true,
        "input_tokens": 4, "output_tokens": 96, "cost_usd": 0.05, "num_turns": 3, "duration_ms": 1500,
        "tool_calls": { "Grep": 1 }, "mcp_calls": 0, "error": null });
    for (name, value) in more.as_object().unwrap() {
        row[name] = value.clone();
        if value == "absent" {
            row.as_object_mut().unwrap().remove(name);
        }
    }
    row
}

fn run_of(rows: &[Value]) -> String {
    json!({ "benchmark": "agent-ab", "model": "m", "queries": rows }).to_string()
}

/// Imports `bench` and grades it; the import's own words as JSON.
fn import_and_grade(place: &Place, profile: &str) -> Value {
    let said = place.go(&["import", "rag-bench", "bench", "--json"]).json();
    let run = place.go(&["run", "regrade", "--set", &format!("profile={profile}")]);
    assert!([0, 3].contains(&run.code), "{}{}", run.out, run.err);
    said
}

/// A metric of an arm in the last result.
fn metric(place: &Place, arm: &str, name: &str) -> Value {
    let report = place.ok(&["report", "latest", "--json"]).json();
    let arms = report["result"]["arms"].as_array().unwrap().clone();
    let found = arms.iter().find(|one| one["arm"] == arm).unwrap_or_else(|| panic!("no arm {arm}"));
    found["metrics"][name].clone()
}

fn told(said: &Value, list: &str) -> String {
    let lines: Vec<&str> = said[list].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    lines.join("\n")
}

#[test]
fn questions_without_a_usable_file_stop_nothing() {
    let place = Place::new();
    questions(
        &place,
        &[
            ("shop_001", &[], &["Foo"]),
            ("shop_002", &["/lead/x.py"], &[]),
            ("shop_003", &["../up/x.py", "", "a//c.py", "b/c.py"], &[]),
            ("shop_004", &["/"], &[]),
        ],
    );
    let rows = [
        agent("shop_001", "baseline", "Foo", &json!({})),
        agent("shop_002", "baseline", "it is lead/x.py", &json!({})),
        agent("shop_002", "finder", "it is lead/y.py", &json!({})),
        agent("shop_003", "baseline", "b/c.py", &json!({})),
        agent("shop_004", "baseline", "anything", &json!({})),
    ];
    place.write("bench/results/a.json", &run_of(&rows));
    let said = import_and_grade(&place, "rag-bench");
    assert_eq!((&said["questions"], &said["answers"], &said["exit"]), (&json!(4), &json!(5), &json!(1)));
    let problems = told(&said, "problems");
    for path in ["`../up/x.py`", "``", "`a//c.py`", "`/`"] {
        assert!(problems.contains(&format!("expected file {path} is no path")), "{path}: {problems}");
    }
    assert!(problems.contains("`shop_004`: no expected file is left"), "{problems}");
    assert!(told(&said, "notes").contains("`/lead/x.py` is written as `lead/x.py`"));
    let file = |id: &str| place.row(&format!("a/{id}"))["grades"]["file_accuracy"].as_f64();
    assert_eq!(file("baseline/shop_001"), Some(1.0), "none expected is a hit");
    assert_eq!(file("baseline/shop_002"), Some(1.0));
    assert_eq!(file("finder/shop_002"), Some(0.0));
    assert_eq!(file("baseline/shop_003"), Some(1.0));
}

#[test]
fn all_rows_of_an_arm_are_one_sample() {
    let place = Place::new();
    questions(
        &place,
        &["shop_001", "shop_002", "shop_003", "shop_004"].map(|id| (id, &["a/b.py"][..], &[][..])),
    );
    let mut rows: Vec<Value> = ["shop_001", "shop_002", "shop_003", "shop_004"]
        .iter()
        .map(|id| agent(id, "baseline", "a/b.py", &json!({})))
        .collect();
    rows.push(agent("shop_001", "baseline", "zz", &json!({})));
    rows.push(agent("shop_001", "baseline", "zz", &json!({})));
    place.write("bench/results/a.json", &run_of(&rows));
    assert_eq!(import_and_grade(&place, "rag-bench")["answers"], 6);
    let accuracy = metric(&place, "baseline", "accuracy");
    assert_eq!(accuracy["value"].as_f64(), Some(4.0 / 6.0), "{accuracy}");
    assert_eq!(place.row("a/baseline/shop_001/3")["replicate"], 3);
    // By the default rules they are replicates.
    drop(place.go(&["run", "regrade"]));
    assert_eq!(metric(&place, "baseline", "accuracy")["replicates"], json!([1.0, 0.0, 0.0]));
}

#[test]
fn arms_that_would_share_a_name_are_told_apart() {
    let place = Place::new();
    questions(&place, &[("shop_001", &["a/b.py"], &[])]);
    let one = |arm: &str, answer: &str| agent("shop_001", arm, answer, &json!({}));
    place.write(
        "bench/results/a.json",
        &run_of(&[one("b-c", "a/b.py"), one("b c", "zz"), one("", "zz"), one("?", "zz")]),
    );
    place.write("bench/results/a-b.json", &run_of(&[one("c", "zz")]));
    place.write("bench/a.json", &run_of(&[one("d", "a/b.py")]));
    let long = agent(&format!("shop_{}", "9".repeat(300)), "x", "zz", &json!({ "repo": "shop" }));
    let almost =
        agent(&format!("shop_{}", "9".repeat(185)), "some-condition", "zz", &json!({ "repo": "shop" }));
    place.write("bench/results/long.json", &run_of(&[long, almost, one("x", "a/b.py")]));
    let said = import_and_grade(&place, "rag-bench");
    assert_eq!(said["answers"], 5, "{said}");
    let problems = told(&said, "problems");
    assert_eq!(said["problems"].as_array().unwrap().len(), 4, "{problems}");
    for line in [
        "a.json: row 3: its arm gives no name",
        "a.json: row 4: its arm",
        "long.json: row 1: the name of its question has 305 bytes",
        "long.json: row 2: the file's name",
    ] {
        assert!(problems.contains(line), "{line}: {problems}");
    }
    let notes = told(&said, "notes");
    for line in [
        "results/a.json: the file is called `a-2` here",
        "`b c` of results/a.json is the arm `a-2-b-c-2`: `a-2-b-c` is `b-c` of results/a.json",
    ] {
        assert!(notes.contains(line), "{line}: {notes}");
    }
    let accuracy = |arm: &str| metric(&place, arm, "accuracy")["value"].clone();
    assert_eq!(
        ["a-d", "a-2-b-c", "a-2-b-c-2", "a-b-c", "long-x"].map(accuracy),
        [1.0, 1.0, 0.0, 0.0, 1.0].map(|v| json!(v))
    );
    // The same of two files.
    let place = Place::new();
    questions(&place, &[("shop_001", &["a/b.py"], &[])]);
    place.write("bench/results/a.json", &run_of(&[one("b-c", "a/b.py")]));
    place.write("bench/results/a-b.json", &run_of(&[one("c", "zz")]));
    let notes = told(&import_and_grade(&place, "rag-bench"), "notes");
    assert!(
        notes.contains("`b-c` of results/a.json is the arm `a-b-c-2`: `a-b-c` is `c` of results/a-b.json"),
        "{notes}"
    );
    // Nothing but rows that can't be used.
    let place = Place::new();
    place.write("a.json", &run_of(&[one("", "zz")]));
    let said = place.go(&["import", "rag-bench", "a.json"]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("a.json: row 1: its arm gives no name"), "{}", said.err);
    assert!(!place.path("imported/rag-bench/recording.toml").exists());
}

#[test]
fn what_says_to_be_a_run_is_not_passed_over_in_silence() {
    let place = Place::new();
    questions(&place, &[("shop_001", &["a/b.py"], &[]), ("shop_002", &["a/b.py"], &[])]);
    let row = |id: &str| agent(id, "baseline", "a/b.py", &json!({}));
    let list = |id: &str, more: Value| {
        let mut row = json!({ "id": id, "repo": "shop", "latency_ms": 3.0, "tool_calls": 1 });
        row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        row
    };
    let failed = list("shop_001", json!({ "error": "boom", "latency_ms": 0 }));
    let found = list("shop_002", json!({ "returned_files": ["a/b.py"], "returned_symbols": [] }));
    place.write("bench/results/c.json", &json!({ "query_details": [failed, 7, found] }).to_string());
    let mut nameless = row("shop_001");
    nameless.as_object_mut().unwrap().remove("condition");
    place.write("bench/results/a.json", &run_of(&[nameless, row("shop_002")]));
    place.write(
        "bench/results/e.json",
        &json!({ "benchmark": "agent-ab", "queries": { "0": row("shop_001") } }).to_string(),
    );
    place.write("bench/results/q.json", &json!({ "query_details": 3 }).to_string());
    place.write(
        "bench/results/l.json",
        &json!({ "benchmark": "agent_ab", "queries": [row("shop_001")] }).to_string(),
    );
    place.write("bench/results/r.json", &json!({ "rows": [{ "x": 1 }, { "question": "shop_001", "arm": "baseline", "file_hit": true, "symbol_hit": true }] }).to_string());
    place.write("bench/results/bom.json", &format!("\u{feff}{}", run_of(&[row("shop_001")])));
    place.write("bench/results/nan.json", &run_of(&[row("shop_001")]).replace("1500", "NaN"));
    place.write("bench/results/half.json", &run_of(&[row("shop_001")]).replace("a/b.py", "\\ud800"));
    let said = import_and_grade(&place, "rag-bench");
    let problems = told(&said, "problems");
    for line in [
        "results/a.json: row 1: it names no arm",
        "results/c.json: row 2: it is a number, no object",
        "results/e.json: `queries` must be a list of rows, not an object",
        "results/q.json: `query_details` must be a list of rows, not a number",
        "results/r.json: row 1: it names no question",
    ] {
        assert!(problems.contains(line), "{line}: {problems}");
    }
    for file in ["nan", "half"] {
        let line = problems.lines().find(|line| line.starts_with(&format!("results/{file}.json"))).unwrap();
        assert!(line.contains("not JSON") && line.contains("line 1 column"), "{line}");
    }
    assert_eq!(said["problems"].as_array().unwrap().len(), 7, "{problems}");
    assert!(told(&said, "notes").contains("results/l.json: passed over"));
    assert_eq!((&said["runs"], &said["answers"]), (&json!(4), &json!(5)));
    let row = place.row("c/c/shop_001");
    assert_eq!((&row["state"], &row["grades"]["hit@5"]), (&json!("error"), &json!(0.0)));
    assert_eq!(place.row("bom/baseline/shop_001")["grades"]["accuracy"], 1.0);
}

#[test]
fn lists_are_counted_as_the_benchmark_counts_them() {
    let place = Place::new();
    questions(
        &place,
        &[
            ("shop/x 1", &["a/b.py"], &["Foo"]),
            ("shop_002", &["a/b.py"], &["Foo"]),
            ("shop_003", &["shop/c.py"], &[]),
        ],
    );
    let list = |id: &str, files: &[&str], symbols: &[&str], more: Value| {
        let mut row = json!({ "id": id, "type": "locate", "repo": "shop", "latency_ms": 3.0, "tool_calls": 1,
            "returned_files": files, "returned_symbols": symbols });
        row.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        row
    };
    let lists = [
        list("shop/x 1", &["a/b.py"], &["x", "Foo"], json!({ "latency_ms": 5.0 })),
        list("shop_002", &[], &[], json!({ "error": "timeout", "latency_ms": 120_000.0 })),
        list("shop_003", &["/home/x/repos/shop/c.py"], &[], json!({ "latency_ms": 900.0, "tool_calls": 0 })),
        // Not in the set: by what the row expects, as published, and neither.
        list(
            "other_001",
            &["z/a/b.py"],
            &["Bar"],
            json!({ "expected_files": ["a/b.py"], "expected_symbols": ["Foo"] }),
        ),
        list("other_002", &["q.py"], &[], json!({ "found_file": true, "found_symbol": false })),
        list("other_003", &["q.py"], &[], json!({ "latency_ms": 0, "tool_calls": "one" })),
    ];
    place.write("bench/results/live.json", &json!({ "query_details": lists }).to_string());
    let dead = ["shop_002", "shop_003"]
        .map(|id| list(id, &[], &[], json!({ "error": "server_error", "latency_ms": 0 })));
    place.write("bench/results/dead.json", &json!({ "query_details": dead }).to_string());
    import_and_grade(&place, "rag-bench");
    assert_eq!(place.rows().len(), 8);
    let grades = |id: &str| place.row(&format!("live/live/{id}"))["grades"].clone();
    let of = |id: &str| {
        ["hit@1", "hit@5", "symbol_hit@5", "latency_ms", "calls"].map(|name| grades(id).get(name).cloned())
    };
    let some = |values: [Value; 5]| values.map(Some);
    assert_eq!(of("shop-x-1"), some([json!(1.0), json!(1.0), json!(1.0), json!(5.0), json!(1.0)]));
    assert_eq!(of("shop_002"), some([json!(0.0), json!(0.0), json!(0.0), json!(120_000.0), json!(1.0)]));
    assert_eq!(
        of("shop_003"),
        [Some(json!(1.0)), Some(json!(1.0)), None, Some(json!(900.0)), Some(json!(0.0))]
    );
    assert_eq!(of("other_001"), some([json!(1.0), json!(1.0), json!(0.0), json!(3.0), json!(1.0)]));
    assert_eq!(of("other_002"), some([Value::Null, json!(1.0), json!(0.0), json!(3.0), json!(1.0)]));
    assert_eq!(of("other_003"), some([Value::Null, Value::Null, Value::Null, Value::Null, Value::Null]));
    for (id, words) in [
        ("other_001", "by what the row expects"),
        ("other_002", "as published"),
        ("other_003", "nothing was published"),
    ] {
        let row = place.row(&format!("live/live/{id}"));
        assert!(row["items"][0]["note"].as_str().unwrap().contains(words), "{row}");
    }
    assert_eq!(metric(&place, "live", "latency_p99_ms")["n"], 5);
    assert_eq!(metric(&place, "live", "hit@5")["unscored"], 1);
    // An arm in which everything failed has found nothing, in no time.
    for (name, value) in
        [("hit@1", 0.0), ("hit@5", 0.0), ("latency_p50_ms", 0.0), ("latency_p95_ms", 0.0), ("calls", 1.0)]
    {
        assert_eq!(metric(&place, "dead", name)["value"], value, "{name}");
    }
    // By the default rules it has no score, and failed calls have no time.
    drop(place.go(&["run", "regrade"]));
    assert_eq!(metric(&place, "dead", "hit@5")["why"], "no cell is valid");
    assert_eq!(of("shop_002")[3], Some(Value::Null));
    assert_eq!(of("shop_003")[1], Some(json!(0.0)), "a path of the clone is one in the repository");
    assert_eq!(of("other_002"), [None, None, None, None, None]);
}

#[test]
fn rows_are_counted_as_the_benchmark_counts_them() {
    let place = Place::new();
    questions(
        &place,
        &["shop_001", "shop_002", "shop_003", "shop_004", "shop_005", "shop_006", "shop_007"]
            .map(|id| (id, &["a/b.py"][..], &["Foo"][..])),
    );
    let right = "a/b.py: Foo";
    let bare = json!({ "answer": "absent", "file_hit": "absent", "symbol_hit": "absent", "correct": "absent",
        "tool_calls": "absent", "mcp_calls": "absent" });
    let excerpt = |symbol: Value| json!({ "answer": "absent", "symbol_hit": symbol });
    let finder = |id: &str, answer: &str, more: Value| agent(id, "finder", answer, &more);
    let rows = [
        agent("shop_001", "baseline", right, &json!({ "tool_calls": { "mcp__finder__x": 1 } })),
        finder("shop_001", right, json!({ "tool_calls": { "mcp__other__x": 1 }, "mcp_calls": 1 })),
        finder("shop_002", "", json!({})),
        finder("shop_003", right, bare),
        finder("shop_004", right, excerpt(json!(false))),
        finder("shop_005", right, excerpt(json!("maybe"))),
        finder(
            "shop_006",
            right,
            json!({ "tool_calls": { "search": 2, "Read": "x" }, "mcp_calls": "absent", "input_tokens": "many", "output_tokens": 5.0 }),
        ),
        finder(
            "shop_007",
            right,
            json!({ "tool_calls": {}, "mcp_calls": 3, "error": false, "num_turns": 2.0 }),
        ),
        finder("other_001", right, json!({ "symbol_hit": false })),
        finder("other_002", right, json!({ "file_hit": "absent", "symbol_hit": "absent" })),
        finder("other_003", right, json!({ "error": { "code": 5 } })),
    ];
    place.write("bench/results/a.json", &run_of(&rows));
    import_and_grade(&place, "rag-bench");
    let row = |id: &str| place.row(&format!("a/{id}"));
    let of = |id: &str| {
        let row = row(id);
        let grade = |name: &str| row["grades"][name].as_f64();
        (
            text(&row, "state").to_owned(),
            grade("accuracy"),
            grade("file_accuracy"),
            grade("symbol_accuracy"),
            grade("server_used"),
        )
    };
    let valid = |accuracy, file, symbol, used| ("valid".to_owned(), accuracy, file, symbol, used);
    let (yes, no) = (Some(1.0), Some(0.0));
    assert_eq!(of("baseline/shop_001"), valid(yes, yes, yes, None));
    assert!(row("baseline/shop_001")["notes"].to_string().contains("server-in-baseline"));
    assert_eq!(of("finder/shop_001"), valid(yes, yes, yes, yes));
    assert!(row("finder/shop_001")["notes"].to_string().contains("foreign-server"));
    assert_eq!(
        of("finder/shop_002"),
        valid(no, no, no, no),
        "an empty answer is graded, whatever was published"
    );
    assert_eq!(of("finder/shop_003"), valid(no, no, no, no));
    assert_eq!(of("finder/shop_004"), valid(no, yes, no, no), "an excerpt as published");
    assert_eq!(of("finder/shop_005"), valid(None, yes, None, no));
    assert_eq!(of("finder/shop_006"), valid(yes, yes, yes, None));
    let grades = row("finder/shop_006")["grades"].clone();
    assert_eq!(
        (&grades["tool_calls"], &grades["tokens"], &grades["turns"]),
        (&Value::Null, &Value::Null, &json!(3.0))
    );
    let notes = row("finder/shop_006")["notes"].to_string();
    assert!(notes.contains("`tool_calls.Read`") && notes.contains("`input_tokens`"), "{notes}");
    assert_eq!(of("finder/shop_007"), valid(yes, yes, yes, yes));
    assert_eq!(row("finder/shop_007")["grades"]["turns"], 2.0);
    assert_eq!(of("finder/other_001"), valid(no, yes, no, no), "of no known question: as published");
    assert!(row("finder/other_001")["items"].to_string().contains("the question is not known"));
    assert_eq!(of("finder/other_002"), valid(None, None, None, no));
    assert_eq!(of("finder/other_003"), ("error".to_owned(), None, None, None, None));
    let accuracy = metric(&place, "finder", "accuracy");
    assert_eq!((accuracy["n"].as_u64(), accuracy["unscored"].as_u64()), (Some(7), Some(3)), "{accuracy}");
    // By the default rules servers that should not be there leave rows out, and nothing is taken as published.
    drop(place.go(&["run", "regrade"]));
    assert_eq!(of("baseline/shop_001"), ("invalid".to_owned(), None, None, None, None));
    assert_eq!(of("finder/shop_001").0, "invalid");
    assert_eq!(of("finder/shop_002").0, "error");
    assert_eq!(of("finder/other_001"), valid(None, None, None, no));
}

#[test]
fn a_result_file_that_leads_out_of_the_folder_is_not_read() {
    let place = Place::new();
    let run = json!({ "benchmark": "agent-ab", "queries": [
        { "query_id": "shop_001", "condition": "baseline", "repo": "shop", "answer": "in a/b.py" },
    ]});
    place.write("outside.json", &run.to_string());
    place.write("bench/results/own.json", &run.to_string());
    std::os::unix::fs::symlink(place.path("outside.json"), place.path("bench/results/linked.json")).unwrap();
    let said = place.go(&["import", "rag-bench", "bench", "--json"]);
    assert_ne!(said.code, 0, "{}", said.out);
    let report = said.json();
    assert_eq!((&report["runs"], &report["answers"]), (&json!(1), &json!(1)), "{report}");
    assert!(report["problems"].to_string().contains("linked.json"), "{report}");
}
