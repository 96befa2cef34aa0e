//! Scenarios, rubrics, recordings: mistakes, and what they name elsewhere.

use std::fmt::Write as _;
use std::path::PathBuf;

use proofline::cli::render;
use proofline::diag::Diagnostic;
use proofline::fsio;
use proofline::manifest::kind::FileKind;
use proofline::manifest::project::Project;
use proofline::manifest::scenario::{CheckType, Layer, Scope, UNGROUPED, is_file_like};
use proofline::manifest::source::Document;
use proofline::manifest::{load, recording_check, scenario_check};
use serde_json::Value;

use crate::common::root;

const SCENARIO: &str = r#"format = 1
name = "moved-door"
title = "A door that moved"
repo = "sample"
about = "words"
rubric = "rubrics/moved-door.toml"

[ceilings]
tokens = 1000
time = "60s"

[[step]]
name = "first"
prompt = "Where?"

[[step.check]]
type = "word"
value = "door"

[[step.check]]
type = "regex"
value = '\bdoor\b'
required = false

[[step.check]]
type = "tool-used"
value = "find"
layer = "adoption"
scope = "session"

[[step]]
name = "second"
prompt = "Why?"

[[step.check]]
type = "richness"
value = "2"

[[step.check]]
type = "cites-file"
value = "rules/src/engine.rs"

[[step.check]]
type = "no-search"
layer = "adoption"

[[gold]]
id = "a"
match = ["rules/src/engine.rs"]
line = 3

[[gold]]
id = "b"
match = ["a phrase"]
"#;

const RUBRIC: &str = r#"format = 1
audience = "programmers"

[[step]]
name = "first"

[step.criteria.whole]
weight = 0.7
question = "Is it whole?"

[step.criteria.exact]
weight = 0.3
question = "Is it exact?"

[[step]]
name = "second"

[step.criteria.whole]
weight = 1
question = "Is it whole?"
"#;

const RECORDING: &str = r#"format = 1
name = "kept"
label = "a recording: of a test"

[[answer]]
id = "grep/moved-door/1"
arm = "grep"
task = "moved-door"
repo = "sample"
transcript = "recordings/kept/1.jsonl"
facts = { exit-code = 0, commit = "abc", nested = { a = [1, 2.5] } }

[[answer]]
id = "grep/moved-door/2"
arm = "grep"
task = "moved-door"
repo = "sample"
replicate = 2
dialect = "codex"
steps = ["recordings/kept/2a.jsonl", "recordings/kept/2b.jsonl"]
judgement = "recordings/kept/2.judge.jsonl"
"#;

/// What is replaced by what, the code that it must show, and the text at the main place.
struct Mistake(&'static str, &'static str, &'static str, &'static str);

const IN_SCENARIO: &[Mistake] = &[
    Mistake("repo = \"sample\"", "repo = \"sam ple\"", "bad-format", "\"sam ple\""),
    Mistake("title = \"A door that moved\"", "title = \"\"", "empty", "\"\""),
    Mistake("\"rubrics/moved-door.toml\"", "\"../else.toml\"", "bad-path", "\"../else.toml\""),
    Mistake("time = \"60s\"", "time = \"0s\"", "out-of-range", "\"0s\""),
    Mistake("tokens = 1000", "tokens = 0", "out-of-range", "0"),
    Mistake("[ceilings]", "[ceiling]", "unknown-key", "ceiling"),
    Mistake("name = \"second\"", "name = \"first\"", "duplicate-name", "\"first\""),
    Mistake("type = \"word\"", "type = \"wrod\"", "not-a-choice", "\"wrod\""),
    Mistake("value = \"door\"\n", "", "no-value", "[[step.check]]\ntype = \"word\""),
    Mistake("value = \"door\"", "value = \"\"", "no-value", "\"\""),
    Mistake("value = \"door\"", "value = 3", "wrong-type", "3"),
    Mistake(r"'\bdoor\b'", "'(door'", "bad-regex", "'(door'"),
    Mistake(r"'\bdoor\b'", r"'(?=door)'", "bad-regex", "'(?=door)'"),
    Mistake(r"'\bdoor\b'", r"'(\w{300}){300}'", "bad-regex", r"'(\w{300}){300}'"),
    Mistake("value = \"2\"", "value = \"two\"", "not-a-number", "\"two\""),
    Mistake("value = \"2\"", "value = \"-1\"", "not-a-number", "\"-1\""),
    Mistake("value = \"rules/src/engine.rs\"", "value = \"/etc/passwd\"", "bad-path", "\"/etc/passwd\""),
    Mistake("value = \"rules/src/engine.rs\"", "value = \"a/../b.rs\"", "bad-path", "\"a/../b.rs\""),
    Mistake("type = \"cites-file\"", "type = \"cites-symbol\"\nabout = \"x\"", "", ""),
    Mistake(
        "type = \"cites-file\"\nvalue = \"rules/src/engine.rs\"",
        "type = \"cites-symbol\"\nvalue = \"two words\"",
        "bad-symbol",
        "\"two words\"",
    ),
    Mistake("layer = \"adoption\"\nscope", "layer = \"fairness\"\nscope", "wrong-layer", "\"fairness\""),
    Mistake("layer = \"adoption\"\nscope", "scope", "wrong-layer", "\"tool-used\""),
    Mistake("value = \"2\"", "value = \"2\"\nlayer = \"adoption\"", "wrong-layer", "\"adoption\""),
    Mistake("layer = \"adoption\"\nscope", "layer = \"adopted\"\nscope", "not-a-choice", "\"adopted\""),
    Mistake("scope = \"session\"", "scope = \"sesion\"", "not-a-choice", "\"sesion\""),
    Mistake("id = \"b\"", "id = \"a\"", "duplicate-name", "\"a\""),
    Mistake("match = [\"a phrase\"]", "match = []", "no-match", "[]"),
    Mistake("match = [\"a phrase\"]", "match = [\" \"]", "no-match", "\" \""),
    Mistake("match = [\"a phrase\"]\n", "", "no-match", "[[gold]]\nid = \"b\""),
    Mistake("match = [\"a phrase\"]", "match = [\"a phrase\"]\nline = 3", "no-path", "line"),
    Mistake("match = [\"a phrase\"]", "match = [\"a phrase\"]\nsymbol = \"door\"", "no-path", "symbol"),
    Mistake("line = 3", "line = 0", "out-of-range", "0"),
];

const IN_RUBRIC: &[Mistake] = &[
    Mistake("weight = 0.7", "weight = 0.6", "bad-weights", "0.6"),
    Mistake("weight = 0.7", "weight = 1.7", "out-of-range", "1.7"),
    Mistake("question = \"Is it exact?\"\n", "", "missing-key", "[step.criteria.exact]\nweight = 0.3"),
    Mistake("name = \"second\"", "name = \"first\"", "duplicate-name", "\"first\""),
    Mistake(
        "[step.criteria.whole]\nweight = 1\nquestion = \"Is it whole?\"\n",
        "",
        "no-criteria",
        "[[step]]\nname = \"second\"",
    ),
    Mistake("[step.criteria.exact]", "[step.criteria.\"ex act\"]", "bad-name", "\"ex act\""),
    Mistake("audience = \"programmers\"\n", "", "missing-key", ""),
];

const IN_RECORDING: &[Mistake] = &[
    Mistake(
        "id = \"grep/moved-door/2\"",
        "id = \"grep/moved-door/1\"",
        "duplicate-name",
        "\"grep/moved-door/1\"",
    ),
    Mistake("id = \"grep/moved-door/2\"", "id = \"../2\"", "bad-id", "\"../2\""),
    Mistake("transcript = \"recordings/kept/1.jsonl\"\n", "", "no-transcript", ""),
    Mistake(
        "transcript = \"recordings",
        "transcript = \"/recordings",
        "bad-path",
        "\"/recordings/kept/1.jsonl\"",
    ),
    Mistake("transcript =", "steps = []\ntranscript =", "two-sources", "steps"),
    Mistake("\"recordings/kept/2b.jsonl\"", "\"a/../b\"", "bad-path", "\"a/../b\""),
    Mistake("replicate = 2\n", "", "duplicate-answer", ""),
    Mistake("replicate = 2", "replicate = 0", "out-of-range", "0"),
    Mistake("dialect = \"codex\"", "dialect = \"codec\"", "not-a-choice", "\"codec\""),
    Mistake("label = \"a recording: of a test\"\n", "", "missing-key", ""),
    Mistake("commit = \"abc\"", "commit = 5", "wrong-type", "5"),
    Mistake("exit-code = 0", "wall_time_seconds = \"many\"", "wrong-type", "\"many\""),
    Mistake("exit-code = 0", "wall_time_seconds = -1", "wrong-type", "-1"),
    Mistake("exit-code = 0", "exit-code = \"0\"", "wrong-type", "\"0\""),
    Mistake("exit-code = 0", "server = true", "wrong-type", "true"),
    Mistake("exit-code = 0", "server = false, own = [1]", "", ""),
    Mistake(
        "judgement =",
        "judgement-digest = \"0123456789012345678901234567890123456789012345678901234567890123\"\njudgement =",
        "two-sources",
        "judgement-digest",
    ),
];

#[test]
fn each_mistake_has_its_place_and_a_way_out() {
    for (kind, sound, mistakes) in [
        (FileKind::Scenario, SCENARIO, IN_SCENARIO),
        (FileKind::Rubric, RUBRIC, IN_RUBRIC),
        (FileKind::Recording, RECORDING, IN_RECORDING),
    ] {
        let file = format!("{}.toml", kind.name());
        let found = load::check(kind, &file, sound.as_bytes());
        assert!(found.is_empty(), "{}", render::text(&found, false));
        for Mistake(from, to, code, at) in mistakes {
            assert!(sound.contains(from), "{from}");
            let text = sound.replacen(from, to, 1);
            let found = load::check(kind, &file, text.as_bytes());
            if code.is_empty() {
                assert!(found.is_empty(), "{}", render::text(&found, false));
                continue;
            }
            let one = found
                .iter()
                .find(|d| d.code == *code)
                .unwrap_or_else(|| panic!("{from} -> {to}: {}", render::text(&found, false)));
            assert!(one.is_error() && one.help.is_some(), "{one:?}");
            let place = one.place().unwrap();
            let shown = &text[place.start..place.end];
            assert!(
                if at.is_empty() { place.start < place.end } else { shown == *at },
                "{from} -> {to}: points at {shown:?}"
            );
        }
    }
}

#[test]
fn all_mistakes_show_at_once_also_beside_broken_entries() {
    // The first step lacks its prompt, so the typed list is shorter than the file's.
    let text = SCENARIO
        .replace("prompt = \"Where?\"\n", "")
        .replace("value = \"2\"", "value = \"many\"")
        .replace("id = \"b\"", "id = \"a\"")
        .replace(r"'\bdoor\b'", "'['");
    let found = load::check(FileKind::Scenario, "s.toml", text.as_bytes());
    let codes: Vec<&str> = found.iter().map(|d| d.code).collect();
    assert_eq!(codes, ["missing-key", "bad-regex", "not-a-number", "duplicate-name"]);
    let place = found[2].place().unwrap();
    assert_eq!(&text[place.start..place.end], "\"many\"");
    // A line that is no TOML is told once, as what it is.
    let text = SCENARIO.replace("value = \"door\"", "value = \"do\\or\"");
    let found = load::check(FileKind::Scenario, "s.toml", text.as_bytes());
    assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), ["syntax"], "{found:?}");
    let empty =
        load::check(FileKind::Scenario, "s.toml", b"format = 1\nname = \"a\"\ntitle = \"a\"\nrepo = \"a\"\n");
    assert_eq!(empty.iter().map(|d| d.code).collect::<Vec<_>>(), ["no-steps"]);
}

#[test]
fn too_many_patterns_are_refused_before_they_cost_time() {
    let mut text = SCENARIO.replace("[[gold]]", "[[golden]]");
    text.truncate(text.find("[[golden]]").unwrap());
    for at in 0..300 {
        writeln!(text, "[[step.check]]\ntype = \"regex\"\nvalue = 'x{at}'").unwrap();
    }
    let found = load::check(FileKind::Scenario, "s.toml", text.as_bytes());
    assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), ["too-many"]);
}

#[test]
fn imported_checks_may_stand_in_any_layer() {
    let text = SCENARIO
        .replace("value = \"2\"", "value = \"2\"\nlayer = \"adoption\"\noriginal = \"response_richness\"");
    let found = load::check(FileKind::Scenario, "s.toml", text.as_bytes());
    assert_eq!(found.iter().map(|d| (d.code, d.is_error())).collect::<Vec<_>>(), [("wrong-layer", false)]);
}

#[test]
fn defaults_are_what_the_documents_say() {
    let scenario = load::scenario("s.toml", SCENARIO.as_bytes()).value.unwrap();
    let check = &scenario.step[0].check[0];
    assert_eq!((check.kind, check.required, check.layer), (CheckType::Word, true, Layer::Fairness));
    assert_eq!((check.scope, check.original.clone()), (Scope::Step, None));
    assert_eq!((scenario.gold[0].group.as_str(), scenario.gold[0].line), (UNGROUPED, Some(3)));
    assert!(scenario.limits.time.is_none() && scenario.target.files.is_none());
    let recording = load::recording("r.toml", RECORDING.as_bytes()).value.unwrap();
    assert_eq!((recording.answer[0].replicate, recording.answer[1].replicate), (1, 2));
    assert_eq!(recording.answer[0].facts["nested"]["a"][1], 2.5);
    for kind in CheckType::ALL {
        assert_eq!(serde_json::to_value(kind).unwrap(), Value::from(kind.name()));
        assert_eq!(CheckType::of(kind.name()), Some(kind));
    }
    // What is left out when written is what is read when it isn't there.
    let again: proofline::manifest::scenario::Scenario =
        serde_json::from_value(serde_json::to_value(&scenario).unwrap()).unwrap();
    assert_eq!(again, scenario);
}

#[test]
fn paths_are_told_from_phrases() {
    for path in ["store/cs_metrics.go", "batch.go", "App.PY", "config/profiles.conf", "a/b.weird"] {
        assert!(is_file_like(path), "{path}");
    }
    for phrase in ["Flask.wsgi_app", "and/or", "see app.py now", "v1.2", "word", ""] {
        assert!(!is_file_like(phrase), "{phrase}");
    }
}

/// A project with one scenario, one rubric and one recording.
fn project(files: &[(&str, &str)]) -> (tempfile::TempDir, Project) {
    let dir = tempfile::tempdir().unwrap();
    for (path, text) in files {
        fsio::write_plain(&dir.path().join(path), text.as_bytes()).unwrap();
    }
    let root = dir.path().to_owned();
    (dir, Project { root: root.clone(), cwd: root })
}

fn beside(project: &Project) -> Vec<Diagnostic> {
    let loaded = load::scenario("scenarios/moved-door.toml", SCENARIO.as_bytes());
    scenario_check::in_project(&loaded.value.unwrap(), &loaded.document, project)
}

#[test]
fn what_a_scenario_names_must_be_there() {
    let (_dir, sound) = project(&[("rubrics/moved-door.toml", RUBRIC)]);
    let found = beside(&sound);
    assert!(found.is_empty(), "{}", render::text(&found, false));

    let (_dir, near) = project(&[("rubrics/moved-dor.toml", RUBRIC)]);
    let found = beside(&near);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].code, "missing-file");
    assert!(found[0].help.as_ref().unwrap().contains("rubrics/moved-dor.toml"), "{found:?}");

    // Shipped files are known, too.
    let text = SCENARIO.replace("rubrics/moved-door", "rubrics/sample-smothing");
    let loaded = load::scenario("s.toml", text.as_bytes());
    let found = scenario_check::in_project(&loaded.value.unwrap(), &loaded.document, &near);
    assert!(found[0].help.as_ref().unwrap().contains("rubrics/sample-smoothing.toml"), "{found:?}");

    let other = RUBRIC.replace("\"second\"", "\"last\"");
    let (_dir, other) = project(&[("rubrics/moved-door.toml", &other)]);
    let found = beside(&other);
    assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), ["other-steps"]);
    assert_eq!(found[0].labels.len(), 2, "both files are shown");

    let fewer = &RUBRIC[..RUBRIC.find("[[step]]\nname = \"second\"").unwrap()];
    let (_dir, fewer) = project(&[("rubrics/moved-door.toml", fewer)]);
    assert_eq!(beside(&fewer).iter().map(|d| d.code).collect::<Vec<_>>(), ["other-steps"]);

    let text = SCENARIO.replace("\"sample\"", "\"sampel\"");
    let loaded = load::scenario("s.toml", text.as_bytes());
    let found = scenario_check::in_project(&loaded.value.unwrap(), &loaded.document, &sound);
    assert_eq!(found[0].code, "unknown-repo");
    assert!(found[0].help.as_ref().unwrap().contains("`sample`"), "{found:?}");
}

#[test]
fn what_a_recording_names_must_be_there() {
    let (_dir, own) = project(&[("recordings/kept/1.jsonl", "{}"), ("recordings/kept/2a.jsonl", "{}")]);
    let loaded = load::recording("recordings/kept.toml", RECORDING.as_bytes());
    let found = recording_check::in_project(&loaded.document, &own);
    assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), ["missing-file", "missing-file"]);
}

#[test]
fn shipped_scenarios_and_recordings_find_what_they_name() {
    let (_dir, elsewhere) = project(&[]);
    let here = Project { root: root(), cwd: root() };
    let mut seen = 0;
    for file in crate::shipped::files() {
        let path: PathBuf = root().join(&file);
        let bytes = std::fs::read(&path).unwrap();
        for project in [&here, &elsewhere] {
            let found = match FileKind::of(&file, std::str::from_utf8(&bytes).unwrap()) {
                Some(FileKind::Scenario) => {
                    let loaded = load::scenario(&file, &bytes);
                    scenario_check::in_project(&loaded.value.unwrap(), &loaded.document, project)
                }
                Some(FileKind::Recording) => {
                    let (document, _) = Document::parse(&file, &bytes);
                    recording_check::in_project(&document, project)
                }
                _ => continue,
            };
            assert!(found.is_empty(), "{}", render::text(&found, false));
            seen += 1;
        }
    }
    assert!(seen >= 8, "{seen}");
}

/// Must-find rows of the sample corpus have the symbol that they name at their line.
#[test]
fn rows_of_the_sample_corpus_hold() {
    let corpus = root().join("datasets/sample");
    let mut rows = 0;
    for file in ["scenarios/sample-smoothing.toml", "scenarios/held-out/sample-alarm-line.toml"] {
        let bytes = std::fs::read(root().join(file)).unwrap();
        let scenario = load::scenario(file, &bytes).value.unwrap();
        for row in &scenario.gold {
            let text = std::fs::read_to_string(corpus.join(&row.matches[0])).unwrap();
            let line = text.lines().nth(usize::try_from(row.line.unwrap()).unwrap() - 1).unwrap();
            assert!(line.contains(row.symbol.as_deref().unwrap()), "{file}: {}: {line}", row.id);
            rows += 1;
        }
        for check in scenario.step.iter().flat_map(|step| &step.check) {
            if check.kind == CheckType::CitesFile {
                assert!(corpus.join(&check.value).is_file(), "{file}: {}", check.value);
            }
        }
    }
    assert_eq!(rows, 14);
}

/// Recorded transcripts have one turn per step, and judgements name the scenario's steps.
#[test]
fn the_demonstration_is_whole() {
    let bytes = std::fs::read(root().join("recordings/demo.toml")).unwrap();
    let recording = load::recording("recordings/demo.toml", &bytes).value.unwrap();
    assert_eq!(recording.answer.len(), 4);
    assert!(recording.label.starts_with("a recording: "));
    let lines = |path: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(root().join(path)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let (mut unusable, mut wrapped) = (0, 0);
    for answer in &recording.answer {
        let file = format!("scenarios/{}.toml", answer.task);
        let scenario = load::scenario(&file, &std::fs::read(root().join(&file)).unwrap()).value.unwrap();
        let events = lines(answer.transcript.as_ref().unwrap());
        let ends = events.iter().filter(|event| event["type"] == "result").count();
        assert_eq!(ends, scenario.step.len());
        let prompts: Vec<&str> = events
            .iter()
            .filter(|event| event["type"] == "user")
            .filter_map(|event| event["message"]["content"][0]["text"].as_str())
            .collect();
        assert_eq!(prompts, scenario.step.iter().map(|step| step.prompt.as_str()).collect::<Vec<_>>());
        let rubric = scenario.rubric.unwrap();
        let rubric = load::rubric(&rubric, &std::fs::read(root().join(&rubric)).unwrap()).value.unwrap();
        for step in &rubric.step {
            let replies: Vec<String> = lines(answer.judgement.as_ref().unwrap())
                .iter()
                .filter(|line| line["step"] == step.name.as_str())
                .map(|line| line["reply"].as_str().unwrap().to_owned())
                .collect();
            let usable = replies.iter().rev().find_map(|reply| {
                let (start, end) = (reply.find('{')?, reply.rfind('}')? + 1);
                wrapped += usize::from(start > 0);
                serde_json::from_str::<Value>(&reply[start..end]).ok()
            });
            unusable += replies.iter().filter(|reply| !reply.contains('{')).count();
            let scores = usable.unwrap()["scores"].as_object().unwrap().clone();
            assert_eq!(scores.keys().collect::<Vec<_>>(), step.criteria.keys().collect::<Vec<_>>());
            assert!(scores.values().all(|s| s["score"].as_f64().is_some_and(|v| (0.0..=1.0).contains(&v))));
        }
    }
    assert_eq!((unusable, wrapped), (1, 2));
}
