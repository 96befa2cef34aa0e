//! Published runs of the Sense benchmark: imported, graded by its rules, written out again.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::Place;

fn oracle() -> Option<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let folder = shared.join("oracle/sense-bench");
    if folder.is_dir() {
        return Some(folder.canonicalize().unwrap());
    }
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!(in_ci && shared.exists()), "{} is missing", folder.display());
    println!("skipped: no oracle");
    None
}

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
    let Some(folder) = oracle() else { return };
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
    let Some(folder) = oracle() else { return };
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
    let Some(folder) = oracle() else { return };
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
    let Some(folder) = oracle() else { return };
    let results = folder.join("results");
    let mut all = Vec::new();
    runs(&results, "", &mut all);
    let repo_of = |id: &str| {
        let mut folders = id.split('/').filter(|name| !name.starts_with("run-"));
        folders.next_back().unwrap().to_owned()
    };
    let mut files: BTreeMap<(String, String), (usize, BTreeSet<String>)> = BTreeMap::new();
    for id in &all {
        let published = json(&results.join(id).join("scored.json"));
        for detail in published["citation_grounding"]["details"].as_array().into_iter().flatten() {
            let Some((path, lines, word)) = said_of(detail) else { continue };
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
        let mut abroad = 0;
        let published = json(&results.join(id).join("scored.json"));
        let ours = json(&place.path("out").join(id).join("scored.json"));
        let (published, ours) = (&published["citation_grounding"], &ours["citation_grounding"]);
        let details = |of: &Value| of["details"].as_array().cloned().unwrap_or_default();
        for (published, ours) in details(published).iter().zip(&details(ours)) {
            // Its author's own disk, which was looked at then.
            let is_elsewhere = published["file"].as_str().is_some_and(|file| file.starts_with('/'));
            abroad += usize::from(is_elsewhere);
            assert!(is_elsewhere || published == ours, "{id}: {published} {ours}");
            checks += 1;
        }
        if abroad == 0 {
            assert_eq!(published, ours, "{id}");
            checks += 1;
        }
    }
    assert!(checks > 1000, "{checks}");
    println!("oracle checks: {checks}");
}
