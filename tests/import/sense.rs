//! Scenarios and rubrics of the sense benchmark, whole and broken.

use std::path::{Path, PathBuf};

use proofline::fsio;
use proofline::import::sense::scenario::{rubric, scenario};
use proofline::import::sense::{SenseError, allowance};
use proofline::import::yaml;
use proofline::manifest::scenario::{CheckType, Layer, Scope, UNGROUPED};
use proofline::manifest::{load, scenario_check};
use serde_json::Value;

#[expect(clippy::disallowed_methods, reason = "a test asks where it runs")]
fn oracle() -> Option<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let folder = shared.join("oracle/sense-bench");
    if folder.is_dir() {
        return Some(folder);
    }
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!shared.exists() || !in_ci, "{} is missing", folder.display());
    println!("skipped: no oracle");
    None
}

/// Files of the oracle, with their numbers of steps, checks and gold rows (of a
/// rubric: of steps and criteria) as the reference's own loader counts them.
const SCENARIOS: [(&str, usize, usize, usize); 8] = [
    ("held-out/axum-towers", 4, 22, 0),
    ("held-out/flask-blueprints", 4, 23, 0),
    ("held-out/sense-mcp-flow", 4, 24, 0),
    ("scenarios/consul", 7, 16, 13),
    ("scenarios/dolt", 7, 16, 12),
    ("scenarios/flask", 4, 26, 0),
    ("scenarios/gin", 4, 32, 0),
    ("scenarios/pebble", 3, 13, 7),
];
const RUBRICS: [(&str, usize, usize); 7] = [
    ("held-out/axum-towers", 4, 16),
    ("held-out/flask-blueprints", 4, 16),
    ("held-out/sense-mcp-flow", 4, 16),
    ("scenarios/dolt", 7, 35),
    ("scenarios/flask", 4, 16),
    ("scenarios/gin", 4, 16),
    ("scenarios/pebble", 3, 12),
];

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[][..], Vec::as_slice)
}

#[test]
fn every_scenario_arrives_whole() {
    let Some(folder) = oracle() else { return };
    let mut checks = 0;
    for (name, steps, in_steps, rows) in SCENARIOS {
        let bytes = fsio::read(&folder.join(format!("{name}.yaml"))).unwrap();
        let theirs = yaml::read(&bytes).unwrap();
        let stem = name.rsplit('/').next().unwrap();
        let done = scenario(&bytes, stem, Some("rubrics/x.toml")).unwrap_or_else(|e| panic!("{name}: {e}"));
        let loaded = load::scenario(&format!("{stem}.toml"), done.text.as_bytes());
        assert!(loaded.diagnostics.is_empty(), "{name}: {:?}", loaded.diagnostics);
        let ours = loaded.value.unwrap();
        assert_eq!(ours.step.len(), steps, "{name}");
        assert_eq!(ours.step.iter().map(|s| s.check.len()).sum::<usize>(), in_steps, "{name}");
        assert_eq!(ours.gold.len(), rows, "{name}");
        assert_eq!(ours.name, stem);
        assert_eq!(Value::from(ours.title.clone()), theirs["name"]);
        assert_eq!(Value::from(ours.about.clone()), theirs["description"]);
        assert_eq!(Value::from(ours.repo.clone()), theirs["repo"]);
        let allowed = allowance(&ours.repo);
        assert_eq!(ours.limits.usd, Some(allowed.usd));
        assert_eq!(ours.ceilings.tokens, Some(allowed.tokens));
        assert_eq!(ours.ceilings.time.unwrap().0.as_secs(), allowed.seconds);
        checks += 8;
        for (ours, theirs) in ours.step.iter().zip(list(&theirs, "steps")) {
            assert_eq!(Value::from(ours.name.clone()), theirs["name"]);
            assert_eq!(Value::from(ours.prompt.clone()), theirs["prompt"]);
            for (ours, theirs) in ours.check.iter().zip(list(theirs, "checks")) {
                assert_eq!(Value::from(ours.original.clone()), theirs["type"]);
                assert_eq!(Value::from(ours.value.clone()), theirs["value"]);
                assert_eq!(ours.required, theirs.get("required").is_none_or(|v| v == true));
                let adoption = theirs.get("layer").is_some_and(|v| v == "adoption");
                assert_eq!(ours.layer == Layer::Adoption, adoption);
                assert_eq!(ours.scope, Scope::Session);
                let about = theirs.get("description").and_then(Value::as_str).unwrap_or_default();
                assert_eq!(ours.about, about);
                let kind = match theirs["type"].as_str().unwrap() {
                    "word" => CheckType::Word,
                    "contains" => CheckType::Contains,
                    "response_richness" => CheckType::Richness,
                    "mcp_tool_used" => CheckType::ToolUsed,
                    "no_grep" => CheckType::NoSearch,
                    other => panic!("{other}"),
                };
                assert_eq!(ours.kind, kind);
                checks += 7;
            }
        }
        for (ours, theirs) in ours.gold.iter().zip(list(&theirs, "gold")) {
            assert_eq!(Value::from(ours.id.clone()), theirs["id"]);
            assert_eq!(Value::from(ours.matches.clone()), theirs["match"]);
            assert_eq!(ours.group.as_str(), theirs.get("group").and_then(Value::as_str).unwrap_or(UNGROUPED));
            assert_eq!(ours.relation.as_deref(), theirs.get("relation").and_then(Value::as_str));
            assert_eq!(ours.fact.as_deref(), theirs.get("disambiguator").and_then(Value::as_str));
            checks += 5;
        }
        // What is said to be lost is what nothing there reads.
        for note in &done.notes {
            assert!(note.ends_with("scoring") || note.ends_with("contract_symbol, contract_file"), "{note}");
        }
    }
    println!("checks: {checks}");
    assert!(checks > 1_200);
}

#[test]
fn every_rubric_arrives_whole() {
    let Some(folder) = oracle() else { return };
    let mut checks = 0;
    for (name, steps, in_steps) in RUBRICS {
        let bytes = fsio::read(&folder.join(format!("{name}.rubric.yaml"))).unwrap();
        let theirs = yaml::read(&bytes).unwrap();
        let done = rubric(&bytes).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(done.notes.is_empty(), "{name}: {:?}", done.notes);
        let loaded = load::rubric("rubric.toml", done.text.as_bytes());
        assert!(loaded.diagnostics.is_empty(), "{name}: {:?}", loaded.diagnostics);
        let ours = loaded.value.unwrap();
        assert_eq!(ours.step.len(), steps, "{name}");
        assert_eq!(ours.step.iter().map(|s| s.criteria.len()).sum::<usize>(), in_steps, "{name}");
        assert_eq!(Value::from(ours.audience.clone()), theirs["audience"]);
        for (ours, theirs) in ours.step.iter().zip(list(&theirs, "steps")) {
            assert_eq!(Value::from(ours.name.clone()), theirs["name"]);
            let theirs = theirs["criteria"].as_object().unwrap();
            assert!(ours.criteria.keys().eq(theirs.keys()));
            for (name, criterion) in &ours.criteria {
                assert_eq!(Value::from(criterion.question.clone()), theirs[name]["question"]);
                assert_eq!(Some(criterion.weight), theirs[name]["weight"].as_f64());
                checks += 2;
            }
        }
        // A rubric and its scenario go together here as they did there.
        let bytes = fsio::read(&folder.join(format!("{name}.yaml"))).unwrap();
        let whole = scenario(&bytes, "x", None).unwrap();
        let whole = load::scenario("x.toml", whole.text.as_bytes());
        assert_eq!(scenario_check::same_steps(&whole.document, &loaded.document), []);
        checks += 4;
    }
    println!("checks: {checks}");
    assert!(checks > 250);
}

const SMALL: &str = r#"
name: Small
repo: llm.rb
description: "two\n lines "
time_budget_minutes: 12
steps:
- name: one
  prompt: " keep me \n"
  checks:
  - {type: transcript_contains, value: 12}
  - {type: phrase, value: yes, required: no}
  - {type: exact, value: 'No'}
  - {type: starts_with, value: "- x"}
  - {type: diff_contains, value: "+a"}
  - {type: response_richness, value: '2', layer: fairness}
  - {type: mcp_tool_used, value: graph, layer: adoption}
  - {type: no_grep, value: no_grep}
- name: two
  prompt: nothing is checked
  checks: []
gold:
- lib/a.rb
- {match: [x, lib/b.rb]}
- {id: c, disambiguator: d}
- {id: c, group: g, match: one.go}
"#;

#[test]
fn all_types_are_kept_apart() {
    let done = scenario(SMALL.as_bytes(), "small", None).unwrap();
    let loaded = load::scenario("small.toml", done.text.as_bytes());
    // A fairness check that no baseline can pass is warned about, and kept.
    assert_eq!(loaded.diagnostics.iter().map(|d| d.code).collect::<Vec<_>>(), ["wrong-layer"]);
    let ours = loaded.value.unwrap();
    assert_eq!((ours.repo.as_str(), ours.about.as_str()), ("llm-rb", "two\n lines "));
    assert_eq!(ours.step[0].prompt, " keep me \n");
    let checks: Vec<(CheckType, &str, &str)> = ours.step[0]
        .check
        .iter()
        .map(|c| (c.kind, c.value.as_str(), c.original.as_deref().unwrap_or_default()))
        .collect();
    assert_eq!(
        checks,
        [
            (CheckType::Contains, "12", "transcript_contains"),
            (CheckType::Phrase, "True", "phrase"),
            (CheckType::Exact, "No", "exact"),
            (CheckType::StartsWith, "- x", "starts_with"),
            (CheckType::DiffContains, "+a", "diff_contains"),
            (CheckType::Richness, "2", "response_richness"),
            (CheckType::ToolUsed, "graph", "mcp_tool_used"),
            (CheckType::NoSearch, "no_grep", "no_grep"),
        ]
    );
    assert!(!ours.step[0].check[1].required && ours.step[1].check.is_empty());
    let rows: Vec<(&str, &[String])> =
        ours.gold.iter().map(|g| (g.id.as_str(), g.matches.as_slice())).collect();
    let texts = |list: &[&str]| list.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
    let want = [texts(&["lib/a.rb"]), texts(&["x", "lib/b.rb"]), texts(&["c"]), texts(&["one.go"])];
    let ids = ["lib/a.rb", "x", "c", "c-2"];
    assert_eq!(rows, ids.iter().zip(&want).map(|(id, m)| (*id, m.as_slice())).collect::<Vec<_>>());
    assert_eq!(ours.gold[2].fact.as_deref(), Some("d"));
    assert_eq!(
        done.notes,
        [
            "scenario: repository `llm.rb` is called `llm-rb` here",
            "gold row 4: the id `c` occurs twice and is called `c-2` here; profile `sense` scores what the file says",
            "scenario: no counterpart for time_budget_minutes",
        ]
    );
}

#[test]
fn all_faults_are_told_at_once() {
    let text = SMALL
        .replace("repo: llm.rb", "repository: x")
        .replace("type: exact", "type: exactly")
        .replace("required: no}", "required: 'no'}")
        .replace("checks: []", "check: []");
    let Err(SenseError::Malformed(problems)) = scenario(text.as_bytes(), "small", None) else {
        panic!("accepted");
    };
    assert_eq!(problems.len(), 4, "{problems:#?}");
    assert!(problems[0].contains("`repo` is missing"), "{problems:?}");
    assert!(problems[1].starts_with("step 1, check 2: `required` must be"), "{problems:?}");
    assert!(problems[2].contains("the type `exactly` is none of contains"), "{problems:?}");
    assert!(problems[3].contains("step 2: `checks` is missing"), "{problems:?}");
    for text in ["", "a", "- a", "name: x", "steps: 3", "name: [", "steps:\n- 1\n- {checks: {}}\ngold: {}"] {
        assert!(scenario(text.as_bytes(), "x", None).is_err(), "{text:?}");
        assert!(rubric(text.as_bytes()).is_err(), "{text:?}");
    }
    // What our own check refuses is refused here, with its words.
    let odd = SMALL.replace("value: '2', layer", "value: many, layer");
    let Err(SenseError::Malformed(problems)) = scenario(odd.as_bytes(), "small", None) else {
        panic!("accepted");
    };
    assert!(problems[0].contains("not a number of files"), "{problems:?}");
}

const ODD: &str = r#"
name: Odd
repo: pebble
description: ''
steps:
- name: one
  prompt: ''
  checks:
  - {type: contains, value: ''}
  - {type: word, value: null, layer: other}
  - {type: contains, value: [a, "b'c"]}
  - {type: response_richness, value: -1}
- name: one
  prompt: 3
  checks: []
gold:
- {id: x, match: ['']}
- {id: x, match: a.go}
- {id: 5, group: 7, relation: 9, match: [batch.go, 12]}
"#;

#[test]
fn what_the_reference_accepts_is_kept_to_the_letter() {
    let done = scenario(ODD.as_bytes(), "odd", None).unwrap();
    let loaded = load::scenario("odd.toml", done.text.as_bytes());
    assert_eq!(loaded.diagnostics, [], "{}", done.text);
    let ours = loaded.value.unwrap();
    let names: Vec<&str> = ours.step.iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["one", "one (2)"]);
    let values: Vec<&str> = ours.step[0].check.iter().map(|check| check.value.as_str()).collect();
    assert_eq!(values, ["None", "['a', \"b'c\"]", "0"]);
    let ids: Vec<&str> = ours.gold.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids, ["x", "x-2", "5"]);
    let original: Value = serde_json::from_str(&ours.original.unwrap().scenario).unwrap();
    assert_eq!(
        original,
        serde_json::json!({
            "name": "Odd",
            "steps": [
                {"name": "one", "checks": [
                    {"type": "contains", "value": "", "required": true, "layer": "fairness"},
                    {"type": "word", "value": "None", "required": true, "layer": "other"},
                    {"type": "contains", "value": "['a', \"b'c\"]", "required": true, "layer": "fairness"},
                    {"type": "response_richness", "value": "-1", "required": true, "layer": "fairness"},
                ]},
                {"name": "one", "checks": []},
            ],
            "gold": [
                {"id": "x", "group": "_", "match": [""]},
                {"id": "x", "group": "_", "match": ["a.go"]},
                {"id": 5, "group": 7, "match": ["batch.go", "12"]},
            ],
        })
    );
    assert!(done.notes.iter().any(|note| note.contains("profile `sense` scores what the file says")));
    // What says the same here needs no second form.
    let plain = SMALL.replace("- {id: c, group: g, match: one.go}\n", "");
    let plain = scenario(plain.as_bytes(), "small", None).unwrap();
    assert!(!plain.text.contains("[original]"), "{}", plain.text);
}

#[test]
fn weights_that_do_not_sum_to_one_are_kept_beside_those_that_do() {
    let text = "audience: a\nsteps:\n- name: one\n  criteria:\n    map_quality: {weight: 0.35, question: m}\n    specificity: {question: s}\n    justification: {question: j}\n    uncertainty: {question: u}\n";
    let done = rubric(text.as_bytes()).unwrap();
    assert!(done.notes[0].contains("sum to 0.9500"), "{:?}", done.notes);
    let loaded = load::rubric("r.toml", done.text.as_bytes());
    assert_eq!(loaded.diagnostics, [], "{}", done.text);
    let ours = loaded.value.unwrap();
    let original: Vec<Option<f64>> = ours.step[0].criteria.values().map(|c| c.original_weight).collect();
    assert_eq!(original, [Some(0.35), Some(0.25), Some(0.2), Some(0.15)]);
    let replies = r#"{"steps":[{"scores":{"map_quality":{"score":1.0},"specificity":{"score":1.0},"justification":{"score":1.0},"uncertainty":{"score":1.0}}}]}"#;
    let judged = proofline::judge::sense::read(replies.as_bytes(), &ours);
    assert_eq!(judged.quality, Some(0.95));
    // An extended rubric is refused there, too.
    let extended = format!("{text}    relationship: {{weight: 0.2, question: r}}\n");
    assert!(rubric(extended.as_bytes()).is_err());
}

#[test]
fn weights_that_are_left_out_are_the_benchmarks_own() {
    let text = "audience: a\nsteps:\n- name: one\n  criteria:\n    map_quality: {question: m}\n    specificity: {question: s}\n    justification: {weight: 0.2, question: j}\n    uncertainty: {question: u}\n";
    let done = rubric(text.as_bytes()).unwrap();
    let ours = load::rubric("r.toml", done.text.as_bytes()).value.unwrap();
    let weights: Vec<f64> = ours.step[0].criteria.values().map(|c| c.weight).collect();
    assert_eq!(weights, [0.4, 0.25, 0.2, 0.15]);
    let fewer = text.replace("    uncertainty: {question: u}\n", "");
    assert!(rubric(fewer.as_bytes()).unwrap_err().to_string().contains("`uncertainty` is missing"));
}
