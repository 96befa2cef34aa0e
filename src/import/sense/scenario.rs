//! Scenarios and rubrics: their YAML into our TOML.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Converted, SenseError, allowance, slug};
use crate::diag::Diagnostic;
use crate::import::fields::{Fields, kind};
use crate::import::yaml;
use crate::manifest::load;
use crate::manifest::scenario::CheckType;
use crate::manifest::write::Doc;

/// Distinct files for a discoverability of 1, in every scenario of theirs.
const TARGET_FILES: u32 = 20;

/// Weight of a criterion that states none.
const WEIGHTS: [(&str, f64); 4] =
    [("map_quality", 0.40), ("specificity", 0.25), ("justification", 0.20), ("uncertainty", 0.15)];
/// The criterion that only extended rubrics have.
const RELATIONSHIP: &str = "relationship";

/// The types of checks, under their names there and here.
const TYPES: [(&str, CheckType); 10] = [
    ("contains", CheckType::Contains),
    ("transcript_contains", CheckType::Contains),
    ("word", CheckType::Word),
    ("phrase", CheckType::Phrase),
    ("exact", CheckType::Exact),
    ("starts_with", CheckType::StartsWith),
    ("mcp_tool_used", CheckType::ToolUsed),
    ("no_grep", CheckType::NoSearch),
    ("response_richness", CheckType::Richness),
    ("diff_contains", CheckType::DiffContains),
];

/// What is found on the way.
#[derive(Default)]
struct Found {
    notes: Vec<String>,
    problems: Vec<String>,
}

impl Found {
    /// Names the keys that nobody took.
    fn left(&mut self, place: &str, fields: Fields) {
        let keys = fields.left();
        if !keys.is_empty() {
            self.notes.push(format!("{place}: no counterpart for {}", keys.join(", ")));
        }
    }

    /// The value, or its default with the problem noted.
    fn or_note<T: Default>(&mut self, place: &str, value: Result<T, String>) -> T {
        value.unwrap_or_else(|why| {
            self.problems.push(format!("{place}: {why}"));
            T::default()
        })
    }

    /// A mapping of theirs.
    fn fields(&mut self, place: &str, value: Value) -> Option<Fields> {
        Fields::of(value).map_err(|why| self.problems.push(format!("{place}: {why}"))).ok()
    }

    /// The list under a key; absent where `needed` is a problem.
    fn list(&mut self, place: &str, fields: &mut Fields, key: &str, needed: bool) -> Vec<Value> {
        match fields.value(key) {
            Some(Value::Array(list)) => return list,
            Some(other) => {
                self.problems.push(format!("{place}: `{key}` must be a list, not {}", kind(&other)));
            }
            None if needed => self.problems.push(format!("{place}: `{key}` is missing")),
            None => {}
        }
        Vec::new()
    }

    /// The converted file, if nothing is wrong with it here or by our own check.
    fn finish(
        mut self,
        doc: &Doc,
        check: impl FnOnce(&[u8]) -> Vec<Diagnostic>,
    ) -> Result<Converted, SenseError> {
        if self.problems.is_empty() {
            let found = check(doc.text().as_bytes());
            self.problems.extend(found.into_iter().filter(Diagnostic::is_error).map(|d| d.message));
        }
        if self.problems.is_empty() {
            Ok(Converted { text: doc.text().to_owned(), notes: self.notes })
        } else {
            Err(SenseError::Malformed(self.problems))
        }
    }
}

/// A scenario under the name `name` (a slug: the file's name), with the project
/// path of its rubric. Token and time ceilings and the budget are those of the
/// benchmark's table.
///
/// # Errors
/// When it is no YAML or no scenario, with everything that is wrong.
pub fn scenario(bytes: &[u8], name: &str, rubric: Option<&str>) -> Result<Converted, SenseError> {
    let mut found = Found::default();
    let mut fields = whole(bytes, "scenario")?;
    let title = found.or_note("scenario", fields.needed("name"));
    let theirs = found.or_note("scenario", fields.needed("repo"));
    let about = found.or_note("scenario", fields.needed("description"));
    let commit = found.or_note("scenario", fields.text("repo_commit")).unwrap_or_default();
    let repo = slug(&theirs);
    if repo != theirs {
        found.notes.push(format!("scenario: repository `{theirs}` is called `{repo}` here"));
    }
    let steps = found.list("scenario", &mut fields, "steps", true);
    let gold = found.list("scenario", &mut fields, "gold", false);

    let mut doc = Doc::with_schema("../schemas/scenario.json");
    doc.comment("A scenario of the sense benchmark. Its checks read the whole answer, as they do there.");
    doc.pair("format", 1).pair("name", slug(name)).pair("title", title).pair("repo", repo);
    if is_commit(&commit) {
        doc.pair("commit", commit);
    } else if !commit.is_empty() {
        found.notes.push(format!("scenario: `{commit}` is no full commit and was left out"));
    }
    doc.pair("about", about).pair("rubric", rubric.map(str::to_owned));
    let allowed = allowance(&theirs);
    doc.table(&["limits"]).pair("usd", allowed.usd);
    doc.table(&["ceilings"]).pair("tokens", allowed.tokens).pair("time", format!("{}s", allowed.seconds));
    doc.table(&["target"]).pair("files", TARGET_FILES);
    for (at, item) in steps.into_iter().enumerate() {
        step(&format!("step {}", at + 1), item, &mut doc, &mut found);
    }
    let mut ids = BTreeMap::new();
    for (at, item) in gold.into_iter().enumerate() {
        row(&format!("gold row {}", at + 1), item, &mut ids, &mut doc, &mut found);
    }
    found.left("scenario", fields);
    found.finish(&doc, |text| load::scenario(name, text).diagnostics)
}

/// A rubric; what weights it leaves out are those of the benchmark.
///
/// # Errors
/// When it is no YAML or no rubric, with everything that is wrong.
pub fn rubric(bytes: &[u8]) -> Result<Converted, SenseError> {
    let mut found = Found::default();
    let mut fields = whole(bytes, "rubric")?;
    let audience = found.or_note("rubric", fields.needed("audience"));
    let steps = found.list("rubric", &mut fields, "steps", true);
    let mut doc = Doc::with_schema("../schemas/rubric.json");
    doc.comment("A rubric of the sense benchmark.");
    doc.pair("format", 1).pair("audience", audience);
    for (at, item) in steps.into_iter().enumerate() {
        let place = format!("step {}", at + 1);
        let Some(mut step) = found.fields(&place, item) else { continue };
        doc.element(&["step"]).pair("name", found.or_note(&place, step.needed("name")));
        let criteria = match step.value("criteria") {
            Some(Value::Object(criteria)) => criteria,
            Some(other) => {
                found.problems.push(format!("{place}: `criteria` must be a mapping, not {}", kind(&other)));
                continue;
            }
            None => {
                found.problems.push(format!("{place}: `criteria` is missing"));
                continue;
            }
        };
        for (name, _) in WEIGHTS.iter().filter(|(name, _)| !criteria.contains_key(*name)) {
            found.problems.push(format!("{place}: the criterion `{name}` is missing"));
        }
        for (name, value) in criteria {
            criterion(&place, &name, value, &mut doc, &mut found);
        }
        found.left(&place, step);
    }
    found.left("rubric", fields);
    found.finish(&doc, |text| load::rubric("rubric", text).diagnostics)
}

fn whole(bytes: &[u8], what: &str) -> Result<Fields, SenseError> {
    Fields::of(yaml::read(bytes)?).map_err(|why| SenseError::Malformed(vec![format!("{what}: {why}")]))
}

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

fn step(place: &str, item: Value, doc: &mut Doc, found: &mut Found) {
    let Some(mut fields) = found.fields(place, item) else { return };
    let name = found.or_note(place, fields.needed("name"));
    let prompt = found.or_note(place, fields.needed("prompt"));
    doc.element(&["step"]).pair("name", name).pair("prompt", prompt);
    let checks = found.list(place, &mut fields, "checks", true);
    for (at, item) in checks.into_iter().enumerate() {
        check(&format!("{place}, check {}", at + 1), item, doc, found);
    }
    found.left(place, fields);
}

fn check(place: &str, item: Value, doc: &mut Doc, found: &mut Found) {
    let Some(mut fields) = found.fields(place, item) else { return };
    let original = found.or_note(place, fields.needed("type"));
    let Some((_, kind_here)) = TYPES.iter().find(|(name, _)| *name == original) else {
        if !original.is_empty() {
            let known: Vec<&str> = TYPES.iter().map(|(name, _)| *name).collect();
            found.problems.push(format!("{place}: the type `{original}` is none of {}", known.join(", ")));
        }
        return;
    };
    let Some(value) = fields.value("value") else {
        found.problems.push(format!("{place}: `value` is missing"));
        return;
    };
    let value = found.or_note(place, text_of(value));
    let required = match fields.value("required") {
        None => true,
        Some(Value::Bool(flag)) => flag,
        Some(other) => {
            found.problems.push(format!("{place}: `required` must be true or false, not {}", kind(&other)));
            return;
        }
    };
    let layer = found.or_note(place, fields.text("layer"));
    let adoption = match layer.as_deref() {
        None | Some("fairness") => false,
        Some("adoption") => true,
        Some(other) => {
            // Anything that isn't adoption counts as fairness there.
            found.notes.push(format!("{place}: the layer `{other}` counts as fairness"));
            false
        }
    };
    let about = found.or_note(place, fields.text("description")).unwrap_or_default();
    doc.element(&["step", "check"]).pair("type", kind_here.name()).pair("value", value);
    if !required {
        doc.pair("required", false);
    }
    if adoption {
        doc.pair("layer", "adoption");
    }
    doc.pair("scope", "session").pair("about", about).pair("original", original);
    found.left(place, fields);
}

/// A value as the text that the reference compares with.
fn text_of(value: Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(true) => Ok("True".to_owned()),
        Value::Bool(false) => Ok("False".to_owned()),
        other => Err(format!("`value` must be a text, not {}", kind(&other))),
    }
}

fn row(place: &str, item: Value, ids: &mut BTreeMap<String, u32>, doc: &mut Doc, found: &mut Found) {
    let item = match item {
        Value::String(text) => json!({ "match": [text] }),
        other => other,
    };
    let Some(mut fields) = found.fields(place, item) else { return };
    let given = found.or_note(place, fields.text("id")).filter(|id| !id.is_empty());
    let mut matches = match fields.value("match") {
        Some(Value::String(one)) => vec![one],
        Some(Value::Array(list)) => {
            list.into_iter().map(|value| found.or_note(place, text_of(value))).collect()
        }
        Some(other) => {
            found.problems.push(format!("{place}: `match` must be a list of texts, not {}", kind(&other)));
            return;
        }
        None => Vec::new(),
    };
    let mut id = given.or_else(|| matches.first().cloned()).unwrap_or_else(|| "?".to_owned());
    if matches.is_empty() {
        matches.push(id.clone());
    }
    // There an id is only a label; here rows are told apart by it.
    while let Some(times) = ids.get_mut(&id) {
        *times += 1;
        let numbered = format!("{id}-{times}");
        found.notes.push(format!("{place}: the id `{id}` occurs twice and is called `{numbered}` here"));
        id = numbered;
    }
    ids.insert(id.clone(), 1);
    let group = found.or_note(place, fields.text("group"));
    let relation = found.or_note(place, fields.text("relation"));
    let fact = found.or_note(place, fields.text("disambiguator"));
    doc.element(&["gold"]).pair("id", id).pair("group", group).pair("match", matches);
    doc.pair("relation", relation).pair("fact", fact);
    found.left(place, fields);
}

fn criterion(place: &str, name: &str, value: Value, doc: &mut Doc, found: &mut Found) {
    let place = format!("{place}, criterion {name}");
    let default = WEIGHTS.iter().find(|(known, _)| *known == name).map(|(_, weight)| *weight);
    if default.is_none() && name != RELATIONSHIP {
        found.notes.push(format!("{place}: not one of the benchmark's own criteria"));
    }
    let Some(mut fields) = found.fields(&place, value) else { return };
    let weight = match fields.value("weight") {
        Some(Value::Number(number)) => number.as_f64(),
        Some(other) => {
            found.problems.push(format!("{place}: `weight` must be a number, not {}", kind(&other)));
            return;
        }
        None => default,
    };
    let Some(weight) = weight else {
        found.problems.push(format!("{place}: `weight` is missing"));
        return;
    };
    let question = found.or_note(&place, fields.needed("question"));
    doc.table(&["step", "criteria", name]).pair("weight", weight).pair("question", question);
    found.left(&place, fields);
}
