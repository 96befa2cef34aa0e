//! Recorded replies of real servers: each call ends in the kind, and with the
//! places, that the oracle lists.
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use std::path::{Path, PathBuf};

use proofline::manifest::server::Lines;
use proofline::mcp::Tool;
use proofline::mcp::detect::{Slot, choose};
use proofline::mcp::normalise::{Kind, Normalised, Rules, normalise};
use serde_json::Value;

/// The oracle's folder, when it is there.
fn oracle() -> Option<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/oracle");
    let there = dir.join("agents/expected-mcp.json").is_file();
    if !there {
        println!("skipped: no oracle");
        let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared").is_dir();
        let ci = proofline::process::secret("CI").is_some_and(|ci| ci == "true");
        assert!(!(ci && shared), "the oracle is incomplete");
    }
    there.then_some(dir)
}

fn load(path: &Path) -> Value {
    serde_json::from_slice(&proofline::fsio::read(path).unwrap()).unwrap()
}

fn word(kind: Kind) -> &'static str {
    match kind {
        Kind::Hits => "hits",
        Kind::Empty => "empty",
        Kind::Error => "error",
        Kind::Other => "other",
    }
}

#[test]
fn every_recorded_call_is_understood() {
    let Some(oracle) = oracle() else { return };
    let dir = oracle.join("agents");
    let expected = load(&dir.join("expected-mcp.json"));
    let mut checks = 0;
    let mut wrong = Vec::new();
    for (file, calls) in expected["records"].as_object().unwrap() {
        let record = load(&dir.join(file));
        let server = file.trim_start_matches("mcp-").trim_end_matches(".json");
        let lines = match expected["line_base"][server].as_u64() {
            Some(0) => Lines::ZeroBased,
            _ => Lines::OneBased,
        };
        let cwd = record["cwd"].as_str().unwrap();
        let mut roots = vec!["/bench/src/flask-3.1.2".to_owned()];
        roots.extend((cwd != roots[0]).then(|| cwd.to_owned()));
        let rules = Rules { roots, lines, known: None };
        let recorded = record["calls"].as_array().unwrap();
        assert_eq!(recorded.len(), calls.as_array().unwrap().len(), "{file}: each call has an expectation");
        for call in calls.as_array().unwrap() {
            let index = usize::try_from(call["call"].as_u64().unwrap()).unwrap();
            let response = &recorded[index]["response"];
            let value = response.get("result").or_else(|| response.get("error")).unwrap();
            let got = normalise(value, &rules);
            let name = format!("{file} call {index}");
            checks += 1;
            if word(got.kind) != call["kind"] {
                wrong.push(format!("{name}: {} instead of {}: {got:?}", word(got.kind), call["kind"]));
            }
            for place in call["contains"].as_array().unwrap() {
                checks += 1;
                if !holds(&got, place) {
                    wrong.push(format!("{name}: {place} is missing: {:?}", got.hits));
                }
            }
            if let Some(absent) = call.get("absent") {
                checks += 1;
                if absent_violated(&got, absent) {
                    wrong.push(format!("{name}: {absent} must be absent: {:?}", got.hits));
                }
            }
            println!("{name}: {} {}", word(got.kind), shown(&got));
            // Every place must be in the corpus's vocabulary.
            for hit in &got.hits {
                let path = hit.file.as_deref().unwrap_or_default();
                checks += 1;
                if path.starts_with('/') || path.contains('\\') || path.starts_with("./") || path.is_empty() {
                    wrong.push(format!("{name}: `{path}` is not relative"));
                }
            }
        }
    }
    println!("oracle checks: {checks}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The first places, for the reader of a failure.
fn shown(got: &Normalised) -> String {
    let places: Vec<String> = got
        .hits
        .iter()
        .take(12)
        .map(|hit| {
            let file = hit.file.as_deref().unwrap_or_default();
            let line = hit.line.map_or(String::new(), |line| format!(":{line}"));
            let symbol = hit.symbol.as_deref().map_or(String::new(), |s| format!(" ({s})"));
            format!("{file}{line}{symbol}")
        })
        .collect();
    format!("{} places: {}", got.hits.len(), places.join(", "))
}

/// A listed file, and its line where one is listed.
fn holds(got: &Normalised, place: &Value) -> bool {
    got.hits.iter().any(|hit| {
        hit.file.as_deref() == place["file"].as_str()
            && (place["line"].is_null() || hit.line == place["line"].as_u64())
    })
}

/// `absent` says that no result may carry a line, or lists places that must not be there.
fn absent_violated(got: &Normalised, absent: &Value) -> bool {
    match absent {
        Value::Array(places) => places.iter().any(|place| match place {
            Value::Object(_) => holds(got, place),
            Value::String(file) => got.hits.iter().any(|hit| hit.file.as_deref() == Some(file)),
            Value::Number(line) => got.hits.iter().any(|hit| hit.line == line.as_u64()),
            _ => got.hits.iter().any(|hit| hit.line.is_some()),
        }),
        Value::Bool(false) | Value::Null => false,
        _ => got.hits.iter().any(|hit| hit.line.is_some()),
    }
}

/// From the recorded tool list alone, the tool that answers questions.
#[test]
fn tools_are_detected_from_recorded_lists() {
    let Some(oracle) = oracle() else { return };
    let expected: [(&str, &[&str], Option<&str>); 12] = [
        ("ast-grep", &["find_code"], Some("pattern")),
        ("chroma", &["chroma_query_documents"], Some("query_texts")),
        ("cocoindex-code", &["search"], Some("query")),
        ("code-index", &["search_code_advanced"], Some("pattern")),
        ("codegraph", &["codegraph_explore"], Some("query")),
        ("filesystem", &["search_files"], Some("pattern")),
        ("gitnexus", &["query"], Some("query")),
        ("local-rag-no-model", &["query_documents"], Some("query")),
        ("probe", &["search_code"], Some("query")),
        ("repomap", &[], None),
        ("ripgrep", &["search"], Some("pattern")),
        ("serena", &["search_for_pattern", "find_symbol"], None),
    ];
    let mut wrong = Vec::new();
    let mut checks = 0;
    for (server, tools, param) in expected {
        let record = load(&oracle.join(format!("agents/mcp-{server}.json")));
        let listed = find_tools(&record["tools_list"]).unwrap();
        let listed: Vec<Tool> = listed.iter().filter_map(Tool::from_listed).collect();
        let query = choose(&listed, Slot::Query);
        let ingest = choose(&listed, Slot::Ingest);
        println!("{server}: query {query:?}\n    ingest {ingest:?}");
        checks += 1;
        let name = query.choice.as_ref().map(|c| c.tool.as_str());
        let right = match name {
            Some(name) => tools.contains(&name),
            None => tools.is_empty(),
        };
        let asked = param.is_none_or(|p| query.choice.as_ref().is_some_and(|c| c.args.contains_key(p)));
        if !right || !asked {
            wrong.push(format!("{server}: {query:?}"));
        }
        // What indexes must not change or report.
        let harmless = |name: &str| {
            !["delete", "clear", "create", "write", "status", "info", "list"].iter().any(|w| name.contains(w))
        };
        checks += 1;
        if ingest.choice.as_ref().is_some_and(|c| !harmless(&c.tool)) {
            wrong.push(format!("{server}: {ingest:?}"));
        }
    }
    println!("oracle checks: {checks}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn find_tools(value: &Value) -> Option<&Vec<Value>> {
    match value {
        Value::Array(tools) => Some(tools),
        Value::Object(map) => {
            map.get("tools").and_then(Value::as_array).or_else(|| map.values().find_map(find_tools))
        }
        _ => None,
    }
}
