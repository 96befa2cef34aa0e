//! Published runs of the Sense benchmark: imported, graded by its rules, written out again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;

use super::{Place, oracle};

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Folders with a published score, relative to `results`.
fn runs(folder: &Path, at: &str, out: &mut Vec<String>) {
    let mut entries: Vec<_> = std::fs::read_dir(folder.join(at)).unwrap().map(|e| e.unwrap()).collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().into_string().unwrap();
        let path = if at.is_empty() { name.clone() } else { format!("{at}/{name}") };
        if entry.path().is_dir() {
            runs(folder, &path, out);
        } else if name == "scored.json" {
            out.push(at.to_owned());
        }
    }
}

/// Compares what the published file has with what ours has; counts the values.
fn compare(path: &str, published: &Value, ours: &Value, checks: &mut usize) {
    // A fixed sentence that was worded otherwise before a certain day.
    if path.ends_with(".misses.detail") {
        return;
    }
    if path.ends_with(".citation_grounding") {
        // Without a checkout only what was cited can be compared, in order.
        let cited = |block: &Value| -> Vec<(Value, Value)> {
            let details = block["details"].as_array().into_iter().flatten();
            details.map(|one| (one["file"].clone(), one["locator"].clone())).collect()
        };
        assert_eq!(cited(published), cited(ours), "{path}");
        assert_eq!(published["total"], ours["total"], "{path}");
        let buckets = ours["details"].as_array().into_iter().flatten();
        assert!(buckets.clone().all(|one| one["status"] == "cannot-check"), "{path}");
        *checks += 1 + buckets.count();
        return;
    }
    match (published, ours) {
        (Value::Object(published), Value::Object(ours)) => {
            for (name, value) in published {
                let ours = ours.get(name).unwrap_or_else(|| panic!("{path} lacks {name}"));
                compare(&format!("{path}.{name}"), value, ours, checks);
            }
        }
        (Value::Array(published), Value::Array(ours)) => {
            assert_eq!(published.len(), ours.len(), "{path}");
            for (at, (published, ours)) in published.iter().zip(ours).enumerate() {
                compare(&format!("{path}[{at}]"), published, ours, checks);
            }
        }
        _ => {
            // An integer is written as one, a float as one.
            assert_eq!(published.to_string(), ours.to_string(), "{path}");
            *checks += 1;
        }
    }
}

#[test]
fn every_published_score_comes_out_to_the_last_digit() {
    let Some(folder) = oracle("sense-bench") else { return };
    let place = Place::new();
    let said = place.ok(&["import", "sense", folder.to_str().unwrap()]);
    assert!(said.out.contains("23 answers, 15 of them judged"), "{}", said.out);
    let run = place.go(&["run", "regrade", "--set", "profile=sense"]);
    // Invalid and failed cells among what was published are told by the exit code.
    assert!([0, 3, 5].contains(&run.code), "{}\n{}", run.code, run.err);
    place.ok(&["export", "sense", "latest", "--to", "out"]);
    let results = folder.join("results");
    let (mut all, mut checks) = (Vec::new(), 0);
    runs(&results, "", &mut all);
    assert_eq!(all.len(), 17);
    let rows = place.rows();
    let mut judged = 0;
    for id in &all {
        let published = json(&results.join(id).join("scored.json"));
        let ours = json(&place.path("out").join(id).join("scored.json"));
        compare(id, &published, &ours, &mut checks);
        let row = rows.iter().find(|row| row["answer"] == id.as_str()).unwrap();
        let file = results.join(id).join("judged.json");
        if !file.is_file() {
            continue;
        }
        let published = json(&file);
        let steps = published["steps"].as_array().unwrap();
        judged += usize::from(!steps.is_empty());
        assert_eq!(row["judgement"]["quality"], published["scenario_quality"], "{id}");
        for (ours, published) in row["judgement"]["steps"].as_array().unwrap().iter().zip(steps) {
            assert_eq!(ours["quality"], published["step_quality"], "{id}");
            checks += 1;
        }
        checks += 1;
    }
    assert_eq!(judged, 14);
    println!("oracle checks: {checks}");
}

#[test]
fn sessions_that_were_not_what_they_claim_are_told_apart() {
    let Some(folder) = oracle("sense-bench") else { return };
    let place = Place::new();
    place.ok(&["import", "sense", folder.to_str().unwrap()]);
    place.go(&["run", "regrade", "--set", "profile=sense"]);
    let mut checks = 0;
    for row in place.rows() {
        let id = row["answer"].as_str().unwrap();
        let state = row["state"].as_str().unwrap();
        // A server that nobody declared was connected in all six held-out sessions.
        let expected = if id.starts_with("held-out/") {
            "invalid"
        } else if id.ends_with("mistral-large-3_675b/baseline/dolt/run-2") {
            "error"
        } else {
            "valid"
        };
        assert_eq!(state, expected, "{id}: {row}");
        checks += 1;
    }
    let limited = place.ok(&["explain", "global/baseline/gin"]).out;
    assert!(limited.contains("limited: budget"), "{limited}");
    let walled = place.ok(&["explain", "claude-fable-5/baseline/consul"]).out;
    assert!(walled.contains("limited: time"), "{walled}");
    println!("oracle checks: {}", checks + 2);
}

#[test]
fn an_import_keeps_the_original_bytes_and_can_be_repeated() {
    let Some(folder) = oracle("sense-bench") else { return };
    let place = Place::new();
    place.ok(&["import", "sense", folder.to_str().unwrap()]);
    place.ok(&["import", "sense", folder.to_str().unwrap()]);
    place.go(&["run", "regrade", "--set", "profile=sense"]);
    // All sessions were there already: an import makes the records that a run would.
    assert!(!place.executed().iter().any(|stage| stage == "answers"), "{:?}", place.executed());
    let node = "answers[arm=baseline,answer=global/baseline/flask]";
    let shown = place.ok(&["show", node, "--json"]).json();
    let text = shown.to_string();
    assert!(text.contains("scored.json") && text.contains("run_meta.json"), "{text}");
    println!("oracle checks: 3");
}

/// What a published verdict says of a file: its path, and lines or a word that it has.
fn said_of(detail: &Value) -> Option<(String, usize, Option<String>)> {
    let reason = detail["reason"].as_str()?;
    let via = reason.split_once(" [via ").map(|(_, path)| path.trim_end_matches(']'));
    let lines = |end: &str| reason.split_once(end)?.1.split(' ').next()?.parse::<usize>().ok();
    if let Some(rest) = reason.strip_prefix('`') {
        let (word, rest) = rest.split_once('`')?;
        return match (rest.strip_prefix(" found in "), rest.strip_prefix(" not found anywhere in ")) {
            (Some(path), _) => Some((via.unwrap_or(path).to_owned(), 1, Some(word.to_owned()))),
            (_, Some(path)) => Some((via.unwrap_or(path).to_owned(), 1, None)),
            _ => None,
        };
    }
    if let Some(count) = lines("(file only ") {
        return Some((via.or(detail["file"].as_str())?.to_owned(), count, None));
    }
    let path = reason.split_once(" in ")?.1.split(' ').next()?;
    Some((via.unwrap_or(path).to_owned(), lines("(file has ")?, None))
}

/// The repositories of the published runs are not at hand, but what verdicts say of their files is: paths,
/// numbers of lines, words. Over files that are so, each verdict must be the published one.
#[test]
fn over_files_as_the_verdicts_describe_them_the_verdicts_are_equal() {
    let Some(folder) = oracle("sense-bench") else { return };
    let results = folder.join("results");
    let mut all = Vec::new();
    runs(&results, "", &mut all);
    let repo_of = |id: &str| {
        let mut folders = id.split('/').filter(|name| !name.starts_with("run-"));
        folders.next_back().unwrap().to_owned()
    };
    let mut files: BTreeMap<(String, String), (usize, BTreeSet<String>)> = BTreeMap::new();
    let mut abroad = 0;
    for id in &all {
        let published = json(&results.join(id).join("scored.json"));
        for detail in published["citation_grounding"]["details"].as_array().into_iter().flatten() {
            let Some((path, lines, word)) = said_of(detail) else { continue };
            // On its author's own disk; here it is the same file of the checkout.
            let home = format!("/{}/", repo_of(id));
            let below =
                if path.starts_with('/') { path.rfind(&home).map(|at| at + home.len()) } else { None };
            abroad += usize::from(below.is_some());
            let path = path[below.unwrap_or_default()..].to_owned();
            let file = files.entry((repo_of(id), path)).or_default();
            file.0 = file.0.max(lines);
            file.1.extend(word);
        }
    }
    assert!(files.len() > 50, "{}", files.len());
    let place = Place::new();
    for ((repo, path), (lines, words)) in &files {
        let mut text = words.iter().fold(String::new(), |text, word| text + word + "\n");
        text.push_str(&"-\n".repeat(lines.saturating_sub(words.len())));
        place.write(&format!("checkouts/{repo}/{path}"), &text);
    }
    place.ok(&["import", "sense", folder.to_str().unwrap()]);
    let run = place.go(&["run", "regrade", "--set", "profile=sense", "--set", "checkouts=checkouts"]);
    assert!([0, 3, 5].contains(&run.code), "{}\n{}", run.code, run.err);
    place.ok(&["export", "sense", "latest", "--to", "out"]);
    let mut checks = 0;
    for id in &all {
        let published = json(&results.join(id).join("scored.json"));
        let ours = json(&place.path("out").join(id).join("scored.json"));
        let (published, ours) = (&published["citation_grounding"], &ours["citation_grounding"]);
        let details = |of: &Value| of["details"].as_array().cloned().unwrap_or_default();
        for (published, ours) in details(published).iter().zip(&details(ours)) {
            assert_eq!(published, ours, "{id}");
            checks += 1;
        }
        assert_eq!(published, ours, "{id}");
        checks += 1;
    }
    assert!(abroad > 0, "no citation is absolute");
    assert!(checks > 1000, "{checks}");
    println!("oracle checks: {checks}");
}

fn said(text: &str) -> String {
    let line = |value: Value| value.to_string() + "\n";
    line(serde_json::json!({"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}}))
        + &line(
            serde_json::json!({"type": "result", "total_cost_usd": 0.1, "duration_ms": 1000, "usage": {}}),
        )
}

const ODD: &str = "name: Odd\nrepo: REPO\ndescription: ''\nsteps:\n- name: one\n  prompt: p\n  checks:\n  - {type: contains, value: ''}\n  - {type: word, value: batch, layer: other}\n  - {type: response_richness, value: -1}\n- name: one\n  prompt: p\n  checks: []\ngold:\n- {id: x, match: [zzz]}\n- {id: x, match: [yyy]}\n- {id: 5, group: 7, match: [batch.go]}\n";

/// Runs whose arms, tasks and numbers collide, odd repositories, odd scenarios: each is scored.
#[test]
fn what_is_odd_is_scored_as_it_stands() {
    let place = Place::new();
    place.write("in/scenarios/odd.yaml", &ODD.replace("REPO", "pebble"));
    place.write("in/scenarios/far.yaml", &ODD.replace("REPO", "\u{65e5}\u{672c} x"));
    let here = said("see /Users/dev/sense-benchmark/baseline/pebble/batch.go:1 and batch.go:1");
    let ids = ["baseline/pebble", "baseline/pebble/run-1", "baseline/pebble/run-2"];
    for id in ids {
        place.write(&format!("in/results/{id}/transcript.json"), &here);
    }
    for tool in ["sense", "sense-pitch"] {
        place.write(&format!("in/results/{tool}/pebble/transcript.json"), &said("batch"));
        let meta = r#"{"tool": "sense", "repo": "pebble", "cost": 18446744073709551615}"#;
        place.write(&format!("in/results/{tool}/pebble/run_meta.json"), meta);
    }
    let overhead = r#"{"source": null, "token_total_billed": 5}"#;
    place.write("in/results/sense/pebble/onboarding-overhead.json", overhead);
    let far = "baseline/\u{65e5}\u{672c} x";
    place.write(&format!("in/results/{far}/transcript.json"), &said("batch"));
    place.write("checkouts/pebble/batch.go", "one\n");
    let told = place.ok(&["import", "sense", "in"]).out;
    assert!(told.contains("6 answers") && told.contains("it is replicate 3 here"), "{told}");
    let run = place.go(&["run", "regrade", "--set", "profile=sense", "--set", "checkouts=checkouts"]);
    assert!([0, 3, 5].contains(&run.code), "{}\n{}", run.code, run.err);
    place.ok(&["export", "sense", "latest", "--to", "out"]);
    let scored = |id: &str| json(&place.path("out").join(id).join("scored.json"));
    for id in ids {
        let scored = scored(id);
        assert_eq!(scored["citation_grounding"]["grounded"], 2, "{scored}");
        let step = &scored["steps"][0];
        assert_eq!((&step["name"], &scored["steps"][1]["name"]), (&"one".into(), &"one".into()));
        assert_eq!(
            step["checks"][0],
            serde_json::json!({"hit": true, "type": "contains", "value": "", "layer": "fairness"})
        );
        assert_eq!(step["checks"][1]["layer"], "other");
        assert_eq!(
            (&step["checks"][2]["value"], &step["checks"][2]["threshold"]),
            (&"-1".into(), &(-1).into())
        );
        let gold = &scored["gold_recall"];
        assert_eq!(gold["missed_cite"], serde_json::json!(["x", "x"]));
        assert_eq!((&gold["details"][2]["id"], &gold["groups"]["7"]["cited"]), (&5.into(), &1.into()));
    }
    let costs = scored("sense/pebble")["metrics"].clone();
    assert_eq!(costs["overhead"], serde_json::json!({"source": null, "token_total_billed": 5}));
    assert_eq!(costs["effective_token_total_billed"], 5);
    assert_eq!(scored("sense-pitch/pebble")["steps"][0]["hits_required"], 3);
    assert_eq!(scored(far)["repo"], "\u{65e5}\u{672c} x");
}

#[test]
fn another_form_of_transcript_is_not_scored_as_if_nothing_was_said() {
    let place = Place::new();
    place.write("in/scenarios/odd.yaml", &ODD.replace("REPO", "pebble"));
    let stream = concat!(
        r#"{"type":"thread.started","thread_id":"t"}"#,
        "\n",
        r#"{"type":"item.completed","item":{"id":"1","type":"agent_message","text":"batch"}}"#,
        "\n",
        r#"{"type":"turn.completed","usage":{"input_tokens":1,"cached_input_tokens":0,"output_tokens":1}}"#,
        "\n"
    );
    place.write("in/results/baseline/pebble/transcript.json", stream);
    place.ok(&["import", "sense", "in"]);
    place.edit("imported/sense/recording.toml", "dialect = \"claude\"", "dialect = \"codex\"");
    let run = place.go(&["run", "regrade", "--set", "profile=sense"]);
    assert!([0, 3, 5].contains(&run.code), "{}\n{}", run.code, run.err);
    let told = place.ok(&["explain", "baseline/pebble"]).out;
    assert!(told.contains("not scored: the benchmark's rules read") && told.contains("unscored"), "{told}");
    assert!(!told.contains("0.0000"), "{told}");
}
