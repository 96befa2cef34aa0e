//! Recomputes published numbers with the profile that promises them, and
//! statistics that reference libraries gave.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use proofline::artifact::{AnswerRow, CallTiming, GradeRow, Hit, Timing};
use proofline::grade::{Inputs, Summary, grade, summarise, summary};
use proofline::manifest::dataset::{Difficulty, Question, QuestionKind};
use proofline::manifest::pipeline::Profile;
use proofline::stats;
use serde_json::Value;

#[expect(clippy::print_stdout, reason = "says that a test was skipped")]
fn oracle() -> Option<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let folder = shared.join("oracle");
    #[expect(clippy::disallowed_methods, reason = "a test asks whether it runs in CI")]
    let in_ci = std::env::var("CI").is_ok_and(|v| v == "true");
    if folder.is_dir() {
        return Some(folder);
    }
    assert!(!(in_ci && shared.exists()), "the oracle is missing beside the repository");
    println!("skipped: no oracle");
    None
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("the oracle's file")).expect("JSON")
}

/// Counts comparisons, so that a test which compares nothing is seen.
#[derive(Default)]
struct Checks(usize);

impl Checks {
    fn close(&mut self, what: &str, have: f64, want: &Value, within: f64) {
        let want = want.as_f64().unwrap_or_else(|| panic!("{what}: the oracle has no number"));
        assert!((have - want).abs() <= within, "{what}: {have} is not {want}");
        self.0 += 1;
    }

    fn equal<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, have: T, want: T) {
        assert_eq!(have, want, "{what}");
        self.0 += 1;
    }
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Questions of the reference's dataset by id.
fn questions(folder: &Path) -> BTreeMap<String, Question> {
    let mut out = BTreeMap::new();
    for repo in ["django", "express", "fastapi", "flask"] {
        let text = std::fs::read_to_string(folder.join(format!("{repo}.jsonl"))).expect("the oracle's file");
        for line in text.lines().filter(|l| !l.trim().is_empty()) {
            let q: Value = serde_json::from_str(line).expect("JSON");
            let word = |key: &str| Value::String(q[key].as_str().expect("text").replace('_', "-"));
            let kind: QuestionKind = serde_json::from_value(word("type")).expect("a kind");
            let difficulty: Difficulty = serde_json::from_value(word("difficulty")).expect("a difficulty");
            let id = q["id"].as_str().expect("text").to_owned();
            let question = Question {
                id: id.clone(),
                kind,
                difficulty,
                prompt: q["query"].as_str().expect("text").to_owned(),
                files: texts(&q["expected_files"]),
                symbols: texts(&q["expected_symbols"]),
                mentions: Vec::new(),
                content: texts(&q["expected_content"]),
            };
            out.insert(id, question);
        }
    }
    out
}

/// A row whose results are the stored files and, apart from them, the stored symbols.
fn answer(detail: &Value) -> AnswerRow {
    let files = texts(&detail["returned_files"]).into_iter().map(|f| Hit { file: Some(f), ..Hit::default() });
    // The reference stores symbols compacted, so which file each belongs to is lost; the
    // profile compacts too and reads them without their files.
    let symbols =
        texts(&detail["returned_symbols"]).into_iter().map(|s| Hit { symbol: Some(s), ..Hit::default() });
    AnswerRow {
        task: detail["id"].as_str().expect("text").to_owned(),
        results: files.chain(symbols).collect(),
        calls: u32::try_from(detail["tool_calls"].as_u64().expect("a number")).expect("small"),
        ..AnswerRow::default()
    }
}

fn column(row: &GradeRow, name: &str) -> f64 {
    row.values[name].expect("scored")
}

#[test]
fn the_published_run_is_recomputed() {
    let Some(oracle) = oracle() else { return };
    let mut checks = Checks::default();
    let run = json(&oracle.join("rag-bench/run_nova-rag_2026-05-09.json"));
    let known = questions(&oracle.join("rag-bench/queries"));
    let details = run["query_details"].as_array().expect("rows");
    let asked: Vec<Question> =
        details.iter().map(|d| known[d["id"].as_str().expect("text")].clone()).collect();
    let rows: Vec<AnswerRow> = details.iter().map(answer).collect();
    let calls = details
        .iter()
        .map(|d| CallTiming {
            task: d["id"].as_str().expect("text").to_owned(),
            latency_ms: d["latency_ms"].as_f64(),
        })
        .collect();
    let timing = Timing { calls, ..Timing::default() };
    let inputs = Inputs { questions: &asked, rows: Some(&rows), timing: Some(&timing), ingest: None };
    let grades = grade(&["ranking", "latency"], inputs, Profile::RagBench).expect("grades");

    for (row, detail) in grades.rows.iter().zip(details) {
        let found = |name: &str| row.values.get(name).copied().flatten() == Some(1.0);
        checks.equal(&row.task, Some(found("hit@5")), detail["found_file"].as_bool());
        checks.equal(&row.task, Some(found("symbol_hit@5")), detail["found_symbol"].as_bool());
    }
    let mut by: BTreeMap<(&str, &str), Vec<&GradeRow>> = BTreeMap::new();
    for (row, detail) in grades.rows.iter().zip(details) {
        for (field, key) in [("by_repo", "repo"), ("by_type", "type"), ("by_difficulty", "difficulty")] {
            by.entry((field, detail[key].as_str().expect("text"))).or_default().push(row);
        }
    }
    for ((field, value), rows) in by {
        let published = &run[field][value];
        let n = rows.len() as f64;
        let share = |name: &str| rows.iter().map(|r| column(r, name)).sum::<f64>() / n;
        checks.close(&format!("{value} count"), n, &published["count"], 0.0);
        checks.close(&format!("{value} hit@5"), share("hit@5"), &published["hit_at_5"], 1e-12);
        checks.close(
            &format!("{value} symbols"),
            share("symbol_hit@5"),
            &published["symbol_hit_at_5"],
            1e-12,
        );
    }

    let composites = vec![composite()];
    let graders = vec!["ranking".to_owned(), "latency".to_owned()];
    let cell = summary::Cell {
        repo: Some("all".to_owned()),
        planned: 90,
        grades: Some(grades),
        ..summary::Cell::default()
    };
    let result = summarise(&Summary { graders, cells: vec![cell], composites, ..Summary::default() });
    let metrics = &result["arms"][0]["metrics"];
    let value =
        |name: &str| metrics[name]["value"].as_f64().unwrap_or_else(|| panic!("{name}: {}", metrics[name]));
    let published = &run["retrieval"];
    for (ours, theirs) in [
        ("hit@1", "hit_at_1"),
        ("hit@3", "hit_at_3"),
        ("hit@5", "hit_at_5"),
        ("symbol_hit@5", "symbol_hit_at_5"),
    ] {
        checks.close(ours, value(ours), &published[theirs], 0.5e-4);
    }
    checks.close("total_hits", value("hit@5") * 90.0, &published["total_hits"], 1e-9);
    checks.close("avg_tool_calls", value("calls"), &run["efficiency"]["avg_tool_calls"], 0.0);
    // Only five paths of each list are stored: what rests on more is a lower bound.
    assert!(value("hit@10") <= published["hit_at_10"].as_f64().expect("a number"));
    assert!(value("mrr") <= published["mrr"].as_f64().expect("a number"));

    // The rows are of the last replicate.
    let last = &run["replicates"][2];
    for p in ["p50", "p95", "p99"] {
        let name = format!("latency_{p}_ms");
        // The stored latencies are rounded to one decimal, as the published percentiles are.
        let rounded = (value(&name) * 10.0).round() / 10.0;
        checks.close(&name, rounded, &last[&name], 1e-9);
    }
    // The published composite leaves memory out and rounds what it shows to four places.
    let index = run["ingest"]["index_size_mb"].as_f64().expect("a number");
    for replicate in run["replicates"].as_array().expect("rows") {
        let published = |key: &str| replicate[key].as_f64().expect("a number");
        let numbers = [
            ("hit@5", published("hit_at_5")),
            ("symbol_hit@5", published("symbol_hit_at_5")),
            ("mrr", published("mrr")),
            ("calls", published("avg_tool_calls")),
            ("latency_p95_s", published("latency_p95_ms") / 1000.0),
            ("footprint", index / 1000.0),
        ];
        checks.close("composite", composed(&numbers), &replicate["composite_score"], 1e-4);
    }
    let baseline = &run["baseline"];
    let of_baseline = |key: &str| baseline["retrieval"][key].as_f64().expect("a number");
    let numbers = [
        ("hit@5", of_baseline("hit_at_5")),
        ("symbol_hit@5", of_baseline("symbol_hit_at_5")),
        ("mrr", of_baseline("mrr")),
        ("calls", baseline["efficiency"]["avg_tool_calls"].as_f64().expect("a number")),
        ("latency_p95_s", baseline["retrieval"]["latency"]["p95_ms"].as_f64().expect("a number") / 1000.0),
        ("footprint", 0.0),
    ];
    checks.close("baseline composite", composed(&numbers), &baseline["composite_score"], 1e-4);
    let medians: Vec<(&str, Vec<f64>)> =
        ["latency_p50_ms", "latency_p95_ms", "latency_p99_ms", "composite_score"]
            .iter()
            .map(|key| {
                let replicates = run["replicates"].as_array().expect("rows");
                (*key, replicates.iter().filter_map(|r| r[*key].as_f64()).collect())
            })
            .collect();
    for (key, values) in medians {
        let want = match key {
            "composite_score" => &run[key],
            other => &run["retrieval"]["latency"][other.trim_start_matches("latency_")],
        };
        checks.close(key, stats::median(&values).expect("values"), want, 1e-9);
        if let Some(range) = run["iqr"].get(key) {
            // The published range is of unrounded values.
            checks.close(key, stats::iqr(&values).expect("values"), range, 0.11);
        }
    }
    println!("oracle checks: {}", checks.0);
    assert!(checks.0 > 200);
}

fn composite() -> summary::Composite {
    let term = |metric: &str, inverse, weight| summary::Term { metric: metric.to_owned(), inverse, weight };
    summary::Composite {
        name: "retrieval".to_owned(),
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

/// The composite of given component values, through the same code as a run's.
fn composed(numbers: &[(&str, f64)]) -> f64 {
    let mut one = composite();
    let custom = numbers
        .iter()
        .map(|(name, value)| summary::CustomNumber {
            metric: format!("given-{name}"),
            value: Some(*value),
            ..summary::CustomNumber::default()
        })
        .collect();
    for term in &mut one.terms {
        term.metric = format!("given-{}", term.metric);
    }
    let result = summarise(&Summary { custom, composites: vec![one], ..Summary::default() });
    result["arms"][0]["metrics"]["retrieval"]["value"].as_f64().expect("estimable")
}

#[test]
fn the_bm25_lists_score_as_published() {
    let Some(oracle) = oracle() else { return };
    let mut checks = Checks::default();
    let lists = json(&oracle.join("retrieval/bm25_flask-3.1.0.json"));
    let known = questions(&oracle.join("rag-bench/queries"));
    let asked: Vec<Question> = known.into_values().filter(|q| q.id.starts_with("flask")).collect();
    let rows: Vec<AnswerRow> = asked
        .iter()
        .map(|q| AnswerRow {
            task: q.id.clone(),
            calls: 1,
            results: lists["top10"][&q.id]
                .as_array()
                .expect("a list")
                .iter()
                .map(|hit| Hit {
                    file: hit[0].as_str().map(str::to_owned),
                    symbol: hit[1].as_str().map(str::to_owned),
                    line: hit[2].as_u64(),
                    score: hit[3].as_f64(),
                })
                .collect(),
            ..AnswerRow::default()
        })
        .collect();
    let inputs = Inputs { questions: &asked, rows: Some(&rows), ..Inputs::default() };
    let of_profile = |profile| {
        let grades = grade(&["ranking"], inputs, profile).expect("grades");
        let cell = summary::Cell { planned: 35, grades: Some(grades), ..summary::Cell::default() };
        summarise(&Summary { graders: vec!["ranking".to_owned()], cells: vec![cell], ..Summary::default() })
    };
    let result = of_profile(Profile::RagBench);
    let published = &lists["aggregate"];
    for (ours, theirs) in [
        ("hit@1", "hit_at_1"),
        ("hit@3", "hit_at_3"),
        ("hit@5", "hit_at_5"),
        ("hit@10", "hit_at_10"),
        ("symbol_hit@5", "symbol_hit_at_5"),
        ("mrr", "mrr"),
    ] {
        let metric = &result["arms"][0]["metrics"][ours];
        checks.close(ours, metric["value"].as_f64().expect("estimable"), &published[theirs], 0.5e-4);
        checks.equal(ours, metric["n"].as_u64(), Some(35));
        // The lists hold each file once, so the default profile agrees on files.
        if ours != "symbol_hit@5" {
            let default = of_profile(Profile::Default)["arms"][0]["metrics"][ours]["value"].clone();
            checks.equal(ours, default, metric["value"].clone());
        }
    }
    println!("oracle checks: {}", checks.0);
}

#[test]
fn measures_of_rankings_are_those_of_the_libraries() {
    let Some(oracle) = oracle() else { return };
    let mut checks = Checks::default();
    let expected = json(&oracle.join("statistics/expected.json"));
    let ir = &expected["ir"];
    let mut means: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for (query, judged) in ir["qrels"].as_object().expect("queries") {
        let judged: BTreeMap<&str, f64> = judged
            .as_object()
            .expect("documents")
            .iter()
            .map(|(d, g)| (d.as_str(), g.as_f64().expect("a gain")))
            .collect();
        let mut run: Vec<(&str, f64)> = ir["run"][query]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(d, s)| (d.as_str(), s.as_f64().expect("a score")))
            .collect();
        // As trec_eval: by score, ties by document id descending.
        run.sort_by(|a, b| b.1.total_cmp(&a.1).then(b.0.cmp(a.0)));
        let gains: Vec<f64> = run.iter().map(|(d, _)| judged.get(d).copied().unwrap_or(0.0)).collect();
        let all: Vec<f64> = judged.values().copied().collect();
        let relevant: Vec<bool> = gains.iter().map(|g| *g > 0.0).collect();
        let total = all.iter().filter(|g| **g > 0.0).count();
        let values = [
            ("ndcg@10", stats::ndcg(&gains, &all, 10).expect("estimable")),
            ("ap", stats::average_precision(&relevant, total).expect("estimable")),
            ("rr", stats::reciprocal_rank(&relevant)),
            ("recall@5", stats::recall_at(&relevant, 5, total).expect("estimable")),
        ];
        for (name, value) in values {
            checks.close(&format!("{name} of {query}"), value, &ir[name][query], 1e-9);
            means.entry(name).or_default().push(value);
        }
    }
    for (name, values) in means {
        checks.close(name, stats::mean(&values).expect("values"), &ir[name]["mean"], 1e-9);
    }

    let paired = &expected["paired"];
    let numbers =
        |v: &Value| -> Vec<f64> { v.as_array().into_iter().flatten().filter_map(Value::as_f64).collect() };
    let (a, b) = (numbers(&paired["a"]), numbers(&paired["b"]));
    let differences: Vec<f64> = b.iter().zip(&a).map(|(b, a)| b - a).collect();
    let interval = stats::mean_interval(&differences, 0.95).expect("estimable");
    checks.close("low", interval.low, &paired["ci95"][0], 1e-9);
    checks.close("high", interval.high, &paired["ci95"][1], 1e-9);
    let sd = stats::sample_sd(&differences).expect("estimable");
    let t = stats::mean(&differences).expect("values") / (sd / (differences.len() as f64).sqrt());
    checks.close("t", t, &paired["t"], 1e-9);
    let scores = numbers(&expected["clustered_se"]["scores"]);
    let se = stats::sample_sd(&scores).expect("estimable") / (scores.len() as f64).sqrt();
    checks.close("naive standard error", se, &expected["clustered_se"]["naive"], 1e-9);
    println!("oracle checks: {}", checks.0);
}
