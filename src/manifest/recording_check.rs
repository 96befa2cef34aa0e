//! Whether recorded answers can be told apart and are somewhere.

use std::collections::BTreeMap;

use serde_json::Value;

use super::entries::{Once, entries, is_empty, text};
use super::path::KeyPath;
use super::project::{Project, is_plain};
use super::recording::Recording;
use super::scenario_check::{missing, repos, unknown_repo};
use super::source::{Document, shorten};
use crate::diag::Diagnostic;
use crate::shipped;

/// Keys of an answer that name files of the project.
const FILES: [&str; 2] = ["transcript", "judgement"];
/// What to do about a file that lies elsewhere.
pub const INSIDE: &str = "paths in a recording are of files of the project, and no link leads out of it";
/// Most missing files that are reported: each costs a look at its folder.
const MOST_MISSING: usize = 50;

/// What is wrong with a recording by itself.
pub(super) fn check(recording: &Recording, document: &Document) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let answers = KeyPath::of(&["answer"]);
    if is_empty(document, &answers) {
        let message = format!("the recording `{}` has no answers", shorten(&recording.name));
        let place = document.table_place(&answers);
        let help = "add `[[answer]]` with `id`, `arm`, `task`, `repo` and `transcript`";
        found.push(Diagnostic::error("no-answers", message).at(place, "").help(help));
    }
    let mut once = Once::new("id", "every answer has an id of its own");
    let mut cells = BTreeMap::new();
    for (path, answer) in entries(document, &answers) {
        let id = text(answer, "id").unwrap_or("?");
        if let Some(id) = text(answer, "id") {
            found.extend(once.see(id, path.key("id"), document));
            if !id.is_empty() && !is_plain(id) {
                let message = format!("`{}` can't be an id", shorten(id));
                let help = "write plain names joined by `/`, as in `grep/sample-smoothing/1`";
                let place = document.value_place(&path.key("id"));
                found.push(Diagnostic::error("bad-id", message).at(place, "").help(help));
            }
        }
        source(id, answer, &path, document, &mut found);
        facts(answer, &path, document, &mut found);
        for (at, file) in files(answer, &path) {
            if !file.is_empty() && !is_plain(file) {
                let message = format!("`{}` doesn't stay inside the project", shorten(file));
                let help = "write a path relative to the project, with `/` and without `..`";
                let place = document.value_place(&at);
                found.push(Diagnostic::error("bad-path", message).at(place, "").help(help));
            }
        }
        let Some(cell) = cell(answer) else { continue };
        if let Some(first) = cells.get(&cell) {
            let message =
                format!("the answer `{}` is of the same arm, task and replicate as another", shorten(id));
            found.push(
                Diagnostic::error("duplicate-answer", message)
                    .at(document.table_place(&path), "this one")
                    .at(document.table_place(first), "and this one")
                    .help("number them with `replicate = 2` and so on"),
            );
        } else {
            cells.insert(cell, path);
        }
    }
    found
}

/// What tells answers apart; none for an answer that lacks some of it.
fn cell(answer: &Value) -> Option<[String; 6]> {
    let replicate = answer.get("replicate").map_or(Some(1), Value::as_u64)?;
    let word = |key: &str| text(answer, key).unwrap_or_default().to_owned();
    (!word("arm").is_empty() && !word("task").is_empty()).then(|| {
        [word("arm"), word("task"), word("repo"), word("model"), word("agent"), replicate.to_string()]
    })
}

/// The files that an answer names, with their places.
fn files<'v>(answer: &'v Value, path: &KeyPath) -> Vec<(KeyPath, &'v str)> {
    let single = FILES.into_iter().filter_map(|key| Some((path.key(key), text(answer, key)?)));
    let steps = answer.get("steps").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let at = path.key("steps");
    let steps = steps.iter().enumerate().filter_map(|(nth, file)| Some((at.index(nth), file.as_str()?)));
    single.chain(steps).collect()
}

/// Name of a fact, whether a value is what it is read as, and that in words.
type Fact = (&'static str, fn(&Value) -> bool, &'static str);

/// Facts that are read by name.
const FACTS: [Fact; 8] = [
    ("commit", Value::is_string, "a text, the id of a commit"),
    ("repo", Value::is_string, "a text, the repository's name as the harness wrote it"),
    ("error", Value::is_string, "a text"),
    ("watchdog_kind", Value::is_string, "a text"),
    ("scenario", Value::is_string, "a text"),
    ("wall_time_seconds", is_amount, "a number of seconds that is not below 0"),
    ("server", is_server, "a server's name, or false for none"),
    ("overhead", is_table, "a table, or one written out as JSON"),
];

fn is_amount(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number.is_finite() && number >= 0.0)
}

fn is_table(value: &Value) -> bool {
    let written = |text: &str| serde_json::from_str::<Value>(text).is_ok_and(|value| value.is_object());
    value.is_object() || value.as_str().is_some_and(written)
}

fn is_server(value: &Value) -> bool {
    value.is_string() || *value == Value::Bool(false)
}

/// What a fact is read as, in words, where its value is something else.
#[must_use]
pub fn misread(name: &str, value: &Value) -> Option<&'static str> {
    if name.ends_with("exit_code") || name == "exit-code" {
        return (!value.is_i64() && !value.is_u64()).then_some("a whole number");
    }
    FACTS.into_iter().find_map(|(known, is, words)| (known == name && !is(value)).then_some(words))
}

/// Whether the facts that are read by name can be.
fn facts(answer: &Value, path: &KeyPath, document: &Document, found: &mut Vec<Diagnostic>) {
    let at = path.key("facts");
    for (name, value) in answer.get("facts").and_then(Value::as_object).into_iter().flatten() {
        let Some(words) = misread(name, value) else { continue };
        let place = document.value_place(&at.key(name));
        let help = format!("write {words}, or leave it out");
        let message = format!("the fact `{}` must be {words}", shorten(name));
        found.push(Diagnostic::error("wrong-type", message).at(place, "").help(help));
    }
}

/// Whether the answer lies in exactly one place.
fn source(id: &str, answer: &Value, path: &KeyPath, document: &Document, found: &mut Vec<Diagnostic>) {
    let of = |keys: &[&'static str]| -> Vec<&'static str> {
        keys.iter().filter(|key| answer.get(**key).is_some()).copied().collect()
    };
    let sources = of(&["transcript", "digest", "steps"]);
    if sources.is_empty() || (sources == ["steps"] && is_empty(document, &path.key("steps"))) {
        let message = format!("the answer `{}` is nowhere", shorten(id));
        let help = "add `transcript = \"path\"`, or `digest` of an object in the store, or `steps` with one path per step";
        found.push(Diagnostic::error("no-transcript", message).at(document.table_place(path), "").help(help));
    }
    for (what, given) in
        [("the transcript", sources), ("the judgement", of(&["judgement", "judgement-digest"]))]
    {
        let [first, second, ..] = given[..] else { continue };
        let message = format!("{what} of `{}` is given as `{first}` and as `{second}`", shorten(id));
        found.push(
            Diagnostic::error("two-sources", message)
                .at(document.key_place(&path.key(second)), "")
                .at(document.key_place(&path.key(first)), "beside this")
                .help("keep one of them"),
        );
    }
}

/// What is wrong with what a recording names outside itself: repositories, and
/// files of the project or shipped ones.
#[must_use]
pub fn in_project(document: &Document, project: &Project) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let known = repos(project);
    let mut told = 0;
    for (path, answer) in entries(document, &KeyPath::of(&["answer"])) {
        if let (Some(repo), Some(known)) = (text(answer, "repo"), &known) {
            found.extend(unknown_repo(repo, known, &path.key("repo"), document));
        }
        for (at, file) in files(answer, &path) {
            if told < MOST_MISSING
                && is_plain(file)
                && let Some(error) = project.leads_out(file)
            {
                told += 1;
                let place = document.value_place(&at);
                found.push(Diagnostic::error("bad-path", error.to_string()).at(place, "").help(INSIDE));
            } else if told < MOST_MISSING
                && is_plain(file)
                && !project.holds_file(file)
                && shipped::get(file).is_none()
            {
                told += 1;
                found.push(missing(file, &at, document, project));
            }
        }
    }
    found
}
