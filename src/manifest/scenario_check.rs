//! Whether a scenario's steps, checks and must-find rows make sense, and
//! whether what it names in other files is there.

use serde_json::Value;

use super::entries::{Once, entries, is_empty, text};
use super::load;
use super::path::KeyPath;
use super::project::{Project, ProjectError, is_plain};
use super::scenario::{CheckType, Scenario, is_file_like};
use super::source::{Document, shorten};
use crate::diag::{Diagnostic, names, nearest};
use crate::shipped;

/// Largest compiled size of a check's regular expression, in bytes.
pub const LARGEST_REGEX: usize = 1 << 20;
/// Most regular expressions in a scenario: compiling one takes milliseconds.
pub const MOST_REGEXES: usize = 256;

/// What is wrong with a scenario by itself.
pub(super) fn check(scenario: &Scenario, document: &Document) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let steps = KeyPath::of(&["step"]);
    if is_empty(document, &steps) {
        let message = format!("the scenario `{}` has no steps", shorten(&scenario.name));
        let place = document.table_place(&steps);
        let help = "add `[[step]]` with `name` and `prompt`: without one nothing is asked";
        found.push(Diagnostic::error("no-steps", message).at(place, "").help(help));
    }
    let mut regexes = 0;
    let mut once = Once::new("step", "every step has a name of its own: the rubric finds it by that");
    for (path, step) in entries(document, &steps) {
        if let Some(name) = text(step, "name") {
            found.extend(once.see(name, path.key("name"), document));
        }
        checks(&path.key("check"), document, &mut regexes, &mut found);
    }
    gold(document, &mut found);
    if let Some(rubric) = &scenario.rubric
        && !is_plain(rubric)
    {
        let path = KeyPath::of(&["rubric"]);
        found.push(outside("bad-path", rubric, &path, document, "the project"));
    }
    let zero = |span: Option<crate::unit::Span>| span.is_some_and(|span| span.0.is_zero());
    for (is_zero, table, help) in [
        (
            zero(scenario.limits.time),
            "limits",
            "write a length of time, or leave it out: no session could begin",
        ),
        (
            zero(scenario.ceilings.time),
            "ceilings",
            "write a length of time, or leave it out: nothing can be faster",
        ),
    ] {
        if is_zero {
            let place = document.value_place(&KeyPath::of(&[table, "time"]));
            let message = format!("`{table}.time` is no time at all");
            found.push(Diagnostic::error("out-of-range", message).at(place, "").help(help));
        }
    }
    found
}

/// A path that leads out of where it must lie.
fn outside(code: &'static str, text: &str, path: &KeyPath, document: &Document, of: &str) -> Diagnostic {
    let message = format!("`{}` doesn't stay inside {of}", shorten(text));
    let help = format!("write a path relative to {of}, with `/` and without `..`");
    Diagnostic::error(code, message).at(document.value_place(path), "").help(help)
}

fn checks(path: &KeyPath, document: &Document, regexes: &mut usize, found: &mut Vec<Diagnostic>) {
    let mut seen = std::collections::BTreeMap::new();
    for (path, check) in entries(document, path) {
        let Some(kind) = text(check, "type").and_then(CheckType::of) else { continue };
        *regexes += usize::from(kind == CheckType::Regex);
        if kind == CheckType::Regex && *regexes > MOST_REGEXES {
            if *regexes == MOST_REGEXES + 1 {
                let message = format!("the scenario has more than {MOST_REGEXES} checks of type `regex`");
                let place = document.table_place(&path);
                let help = "use `contains`, `word` or `phrase` where no pattern is needed";
                found.push(Diagnostic::error("too-many", message).at(place, "").help(help));
            }
            continue;
        }
        value(kind, check, &path, document, found);
        layer(kind, check, &path, document, found);
        let identity = (kind, text(check, "value"), text(check, "layer"), text(check, "scope"));
        if let Some(first) = seen.get(&identity) {
            let message = format!("this check of type `{}` stands in the step twice", kind.name());
            found.push(
                Diagnostic::warning("duplicate-check", message)
                    .at(document.table_place(&path), "again here")
                    .at(document.table_place(first), "first here")
                    .help("keep one of them: else it counts double"),
            );
        } else {
            seen.insert(identity, path);
        }
    }
}

/// Whether a check's value is one that its type can use.
fn value(kind: CheckType, check: &Value, path: &KeyPath, document: &Document, found: &mut Vec<Diagnostic>) {
    let at = path.key("value");
    let Some(value) = text(check, "value").filter(|value| !value.is_empty()) else {
        // A value of another type is reported by the schema, a broken line as such.
        let told = check.get("value").map_or(document.excuses("value"), |value| !value.is_string());
        if kind != CheckType::NoSearch && !told {
            let message = format!("the check of type `{}` has no `value`", kind.name());
            let help = format!("add `value = \"...\"`: {}", kind.about());
            let place = document.table_place(if check.get("value").is_some() { &at } else { path });
            found.push(Diagnostic::error("no-value", message).at(place, "").help(help));
        }
        return;
    };
    let bad = |code: &'static str, message: String, help: String| {
        Diagnostic::error(code, message).at(document.value_place(&at), "").help(help)
    };
    match kind {
        CheckType::Regex => {
            if let Err(error) = regex::RegexBuilder::new(value).size_limit(LARGEST_REGEX).build() {
                let why = reason(&error);
                let message = format!("`{}` is no regular expression: {why}", shorten(value));
                let help = "in a basic text every backslash is written twice; in '...' once";
                found.push(bad("bad-regex", message, help.to_owned()));
            }
        }
        CheckType::Richness if value.trim().parse::<u32>().is_err() => {
            let message = format!("the value of `richness` is `{}`, not a number of files", shorten(value));
            let help = "write a whole number in quotes, as in `value = \"4\"`";
            found.push(bad("not-a-number", message, help.to_owned()));
        }
        CheckType::CitesFile if !is_plain(value) => {
            found.push(outside("bad-path", value, &at, document, "the corpus"));
        }
        CheckType::CitesSymbol if value.contains(char::is_whitespace) => {
            let message = format!("`{}` is no symbol", shorten(value));
            let help = "write one name as it stands in the code; for words use the type `phrase`";
            found.push(bad("bad-symbol", message, help.to_owned()));
        }
        _ => {}
    }
}

/// The cause of a refused expression, without the drawing that goes before it.
fn reason(error: &regex::Error) -> String {
    match error {
        regex::Error::CompiledTooBig(_) => "it is too large when compiled".to_owned(),
        other => {
            let text = other.to_string();
            let last = text.lines().last().unwrap_or_default();
            last.trim_start_matches("error: ").to_owned()
        }
    }
}

/// Whether a check stands in the layer that its type belongs to. Imported checks
/// are graded by the rules of where they are from, which allow it.
fn layer(kind: CheckType, check: &Value, path: &KeyPath, document: &Document, found: &mut Vec<Diagnostic>) {
    let declared = check.get("layer");
    let adoption = match declared.map(Value::as_str) {
        None | Some(Some("fairness")) => false,
        Some(Some("adoption")) => true,
        // What is neither is reported by the schema.
        Some(_) => return,
    };
    if adoption == kind.reads_calls() {
        return;
    }
    let (message, help) = if adoption {
        (
            format!("a check of type `{}` can't count as adoption", kind.name()),
            "leave `layer` out: adoption is what `tool-used` and `no-search` see, the others read the answer",
        )
    } else {
        (
            format!("a check of type `{}` can't count as fairness", kind.name()),
            "add `layer = \"adoption\"`: an arm without a server could never pass it",
        )
    };
    let place = document.value_place(&path.key(if declared.is_some() { "layer" } else { "type" }));
    let diagnostic = if check.get("original").is_some() {
        Diagnostic::warning("wrong-layer", message)
    } else {
        Diagnostic::error("wrong-layer", message)
    };
    found.push(diagnostic.at(place, "").help(help));
}

fn gold(document: &Document, found: &mut Vec<Diagnostic>) {
    let mut once = Once::new("id", "every row has an id of its own");
    for (path, row) in entries(document, &KeyPath::of(&["gold"])) {
        let id = text(row, "id").unwrap_or("?");
        if let Some(id) = text(row, "id") {
            found.extend(once.see(id, path.key("id"), document));
        }
        let list = path.key("match");
        if is_empty(document, &list) {
            let message = format!("the row `{}` matches nothing", shorten(id));
            let place = document.table_place(if row.get("match").is_some() { &list } else { &path });
            let help =
                "add `match = [\"path/in/the/corpus\"]`: one of these texts in an answer finds the row";
            found.push(Diagnostic::error("no-match", message).at(place, "").help(help));
            continue;
        }
        let mut paths = 0;
        for (at, entry) in entries(document, &list) {
            match entry.as_str() {
                Some(entry) if entry.trim().is_empty() => {
                    let message = format!("the row `{}` matches the empty text", shorten(id));
                    let help = "write a text that stands only in an answer which found it";
                    let place = document.value_place(&at);
                    found.push(Diagnostic::error("no-match", message).at(place, "").help(help));
                }
                Some(entry) => paths += usize::from(is_file_like(entry)),
                None => paths += 1,
            }
        }
        for key in ["line", "symbol"] {
            if row.get(key).is_some() && paths == 0 {
                let message = format!("the row `{}` has a `{key}` but no path to cite", shorten(id));
                let place = document.key_place(&path.key(key));
                let help = format!("add the path to `match`, or leave `{key}` out");
                found.push(Diagnostic::error("no-path", message).at(place, "").help(help));
            }
        }
    }
}

/// What is wrong with what a scenario names in other files: its repository and
/// its rubric, the project's own or a shipped one.
#[must_use]
pub fn in_project(scenario: &Scenario, document: &Document, project: &Project) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if let Some(known) = repos(project) {
        found.extend(unknown_repo(&scenario.repo, &known, &KeyPath::of(&["repo"]), document));
    }
    if let Some(path) = scenario.rubric.as_deref().filter(|path| is_plain(path)) {
        let at = KeyPath::of(&["rubric"]);
        match project.find(path) {
            Ok(Some(file)) => {
                let rubric = load::rubric(&file.shown, &file.bytes);
                if rubric.value.is_some() {
                    found.extend(same_steps(document, &rubric.document));
                }
            }
            Ok(None) => found.push(missing(path, &at, document, project)),
            Err(error) => found.push(unreadable(&error, &at, document)),
        }
    }
    found
}

/// Names of the project's and the shipped repositories; none when a list can't be read.
pub(super) fn repos(project: &Project) -> Option<Vec<String>> {
    let file = "datasets/repos.toml";
    let own = project.own(&project.root, file).ok()?;
    let mut out = Vec::new();
    for file in own.into_iter().chain(project.shipped(file)) {
        let loaded = load::repos(&file.shown, &file.bytes);
        // A faulty list may lack names that are meant to be in it.
        if loaded.diagnostics.iter().any(Diagnostic::is_error) {
            return None;
        }
        out.extend(loaded.value?.repo.into_keys());
    }
    Some(out)
}

/// The error that a repository isn't among the known ones.
pub(super) fn unknown_repo(
    name: &str,
    known: &[String],
    at: &KeyPath,
    document: &Document,
) -> Option<Diagnostic> {
    if known.iter().any(|known| known == name) {
        return None;
    }
    let all = names(known.iter().map(String::as_str), 24);
    let help = match nearest(name, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`? known: {all}"),
        None => format!("add `[repo.{}]` to datasets/repos.toml; known: {all}", shorten(name)),
    };
    let message = format!("there is no repository `{}`", shorten(name));
    Some(Diagnostic::error("unknown-repo", message).at(document.value_place(at), "").help(help))
}

/// A file that a manifest names and that isn't there.
pub(super) fn missing(path: &str, at: &KeyPath, document: &Document, project: &Project) -> Diagnostic {
    let message = format!("there is no file `{}`", shorten(path));
    let folder = path.rfind('/').map_or("", |at| &path[..=at]);
    let own = project.nearest_beside(&project.root.join(path)).map(|near| format!("{folder}{near}"));
    let shipped = || nearest(path, shipped::list(folder).map(|(path, _)| path)).map(str::to_owned);
    let help = match own.or_else(shipped) {
        Some(near) => format!("did you mean `{near}`? paths are relative to the project"),
        None => "write it, or correct the path, which is relative to the project".to_owned(),
    };
    Diagnostic::error("missing-file", message).at(document.value_place(at), "").help(help)
}

/// A file that a manifest names and that can't be read.
pub(super) fn unreadable(error: &ProjectError, at: &KeyPath, document: &Document) -> Diagnostic {
    let help = "name a text file of at most 1 MiB inside the project";
    Diagnostic::error("unreadable", error.to_string()).at(document.value_place(at), "").help(help)
}

/// Whether rubric and scenario have the same steps in the same order; places in both files.
#[must_use]
pub fn same_steps(scenario: &Document, rubric: &Document) -> Vec<Diagnostic> {
    let steps = KeyPath::of(&["step"]);
    let own: Vec<(KeyPath, &Value)> = entries(scenario, &steps).collect();
    let judged: Vec<(KeyPath, &Value)> = entries(rubric, &steps).collect();
    if own.is_empty() || judged.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for ((path, step), (judged_path, judged)) in own.iter().zip(&judged) {
        let (Some(name), Some(judged)) = (text(step, "name"), text(judged, "name")) else { continue };
        if name != judged {
            let message = format!(
                "the rubric judges `{}` where the scenario asks `{}`",
                shorten(judged),
                shorten(name)
            );
            let help = "steps have the same names in the same order in both files";
            found.push(
                Diagnostic::error("other-steps", message)
                    .at(rubric.value_place(&judged_path.key("name")), "the rubric's step")
                    .at(scenario.value_place(&path.key("name")), "the scenario's step")
                    .help(help),
            );
        }
    }
    if own.len() != judged.len() {
        let message = format!("the rubric has {} step(s), the scenario {}", judged.len(), own.len());
        // The first step without a partner; of the shorter list the last one.
        let at = judged.len().min(own.len());
        let of_rubric = &judged[at.min(judged.len() - 1)].0;
        let of_scenario = &own[at.min(own.len() - 1)].0;
        found.push(
            Diagnostic::error("other-steps", message)
                .at(rubric.table_place(of_rubric), "the rubric's")
                .at(scenario.table_place(of_scenario), "the scenario's")
                .help("every step is judged by the rubric's step of its name"),
        );
    }
    found
}
