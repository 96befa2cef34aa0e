//! Scenarios and rubrics: their YAML into our TOML.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Converted, SenseError, allowance, ours};
use crate::diag::Diagnostic;
use crate::import::fields::{Fields, kind};
use crate::import::yaml;
use crate::manifest::load;
use crate::manifest::scenario::{CheckType, UNGROUPED};
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
    /// The scenario as the reference reads it.
    steps: Vec<Value>,
    gold: Vec<Value>,
    /// Whether our form of it says something else.
    differs: bool,
}

impl Found {
    /// Notes where our form says something else.
    fn differ(&mut self, place: &str, what: &str) {
        self.differs = true;
        self.notes.push(format!("{place}: {what}; profile `sense` scores what the file says"));
    }

    /// A text that the reference wants to be there, whatever it holds; ours is `other` where it is empty.
    fn said(&mut self, place: &str, fields: &mut Fields, key: &str, other: &str) -> (String, String) {
        if !fields.has(key) {
            self.problems.push(format!("{place}: `{key}` is missing"));
            return (String::new(), other.to_owned());
        }
        let text = match fields.value(key) {
            Some(Value::String(text)) => text,
            value => {
                let value = value.unwrap_or(Value::Null);
                self.notes.push(format!("{place}: `{key}` is {}, read as a text", kind(&value)));
                text_of(&value)
            }
        };
        if !text.trim().is_empty() {
            return (text.clone(), text);
        }
        self.differ(place, &format!("`{key}` is empty"));
        (text, other.to_owned())
    }

    /// What makes a step's weights sum to 1, where they don't and need not.
    fn share(&mut self, place: &str, weights: &[f64], is_extended: bool) -> Option<f64> {
        let sum: f64 = weights.iter().sum();
        let is_one = (sum - 1.0).abs() <= 1e-6;
        // Those of an extended rubric are checked there, too.
        if is_one || is_extended || sum <= 0.0 || weights.iter().any(|weight| *weight < 0.0) {
            return None;
        }
        self.notes.push(format!(
            "{place}: its weights sum to {sum:.4} and are divided by that here; profile `sense` takes them as they are"
        ));
        Some(sum)
    }

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
    let (their_name, title) = found.said("scenario", &mut fields, "name", name);
    let theirs = found.or_note("scenario", fields.needed("repo"));
    if !fields.has("description") {
        found.problems.push("scenario: `description` is missing".to_owned());
    }
    let about = fields.value("description").map(|about| text_of(&about)).unwrap_or_default();
    let commit = found.or_note("scenario", fields.text("repo_commit")).unwrap_or_default();
    let repo = ours(&theirs);
    if repo != theirs {
        found.notes.push(format!("scenario: repository `{theirs}` is called `{repo}` here"));
    }
    let steps = found.list("scenario", &mut fields, "steps", true);
    let gold = found.list("scenario", &mut fields, "gold", false);

    let mut doc = Doc::with_schema("../schemas/scenario.json");
    doc.comment("A scenario of the sense benchmark. Its checks read the whole answer, as they do there.");
    doc.pair("format", 1).pair("name", ours(name)).pair("title", title).pair("repo", repo);
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
    let mut names = BTreeSet::new();
    for (at, item) in steps.into_iter().enumerate() {
        step(&format!("step {}", at + 1), item, &mut names, &mut doc, &mut found);
    }
    let mut ids = BTreeMap::new();
    for (at, item) in gold.into_iter().enumerate() {
        row(&format!("gold row {}", at + 1), item, &mut ids, &mut doc, &mut found);
    }
    if found.differs {
        let original = json!({ "name": their_name, "steps": found.steps, "gold": found.gold });
        doc.table(&["original"]).pair("scenario", original.to_string());
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
    let mut names = BTreeSet::new();
    doc.pair("format", 1).pair("audience", audience);
    for (at, item) in steps.into_iter().enumerate() {
        let place = format!("step {}", at + 1);
        let Some(mut step) = found.fields(&place, item) else { continue };
        let (_, mut name) = found.said(&place, &mut step, "name", &place);
        if let Some(other) = once(&name, &mut names) {
            found.notes.push(format!("{place}: its name `{name}` occurs twice and is `{other}` here"));
            name = other;
        }
        doc.element(&["step"]).pair("name", name);
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
        let of = |(name, value): (&String, &Value)| weight_of(name, value);
        let weights: Option<Vec<f64>> = criteria.iter().map(of).collect();
        let share = found.share(&place, &weights.unwrap_or_default(), criteria.contains_key(RELATIONSHIP));
        for (name, value) in criteria {
            criterion(&place, &name, value, share, &mut doc, &mut found);
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

/// Another name for one that is taken; a scenario's step and its rubric's get the same.
fn once(name: &str, taken: &mut BTreeSet<String>) -> Option<String> {
    if taken.insert(name.to_owned()) {
        return None;
    }
    (2..=u32::MAX).map(|times| format!("{name} ({times})")).find(|name| taken.insert(name.clone()))
}

fn step(place: &str, item: Value, names: &mut BTreeSet<String>, doc: &mut Doc, found: &mut Found) {
    let Some(mut fields) = found.fields(place, item) else { return };
    let (their_name, mut name) = found.said(place, &mut fields, "name", place);
    let (_, prompt) = found.said(place, &mut fields, "prompt", &name);
    if let Some(other) = once(&name, names) {
        found.differ(place, &format!("its name `{name}` occurs twice and is `{other}` here"));
        name = other;
    }
    doc.element(&["step"]).pair("name", name).pair("prompt", prompt);
    let checks = found.list(place, &mut fields, "checks", true);
    let mut original = Vec::new();
    for (at, item) in checks.into_iter().enumerate() {
        original.extend(check(&format!("{place}, check {}", at + 1), item, doc, found));
    }
    found.steps.push(json!({ "name": their_name, "checks": original }));
    found.left(place, fields);
}

/// Writes a check and gives it as the reference reads it.
fn check(place: &str, item: Value, doc: &mut Doc, found: &mut Found) -> Option<Value> {
    let mut fields = found.fields(place, item)?;
    let original = found.or_note(place, fields.needed("type"));
    let Some((_, kind_here)) = TYPES.iter().find(|(name, _)| *name == original) else {
        if !original.is_empty() {
            let known: Vec<&str> = TYPES.iter().map(|(name, _)| *name).collect();
            found.problems.push(format!("{place}: the type `{original}` is none of {}", known.join(", ")));
        }
        return None;
    };
    if !fields.has("value") {
        found.problems.push(format!("{place}: `value` is missing"));
        return None;
    }
    let value = fields.value("value").unwrap_or(Value::Null);
    let text = text_of(&value);
    let required = match fields.value("required") {
        None => true,
        Some(Value::Bool(flag)) => flag,
        Some(other) => {
            found.problems.push(format!("{place}: `required` must be true or false, not {}", kind(&other)));
            return None;
        }
    };
    let layer = fields.value("layer").map(|layer| text_of(&layer)).filter(|layer| !layer.is_empty());
    let layer = layer.unwrap_or_else(|| "fairness".to_owned());
    let adoption = layer == "adoption";
    if !adoption && layer != "fairness" {
        // Anything that isn't adoption counts as fairness there.
        found.differ(place, &format!("the layer `{layer}` counts as fairness"));
    }
    let about = fields.value("description").map(|about| text_of(&about)).unwrap_or_default();
    let mut here = text.clone();
    match (kind_here, &value) {
        (CheckType::Richness, _) if text.trim().parse::<i64>().is_ok_and(|least| least < 0) => {
            found.differ(place, &format!("the value `{text}` is 0 here"));
            "0".clone_into(&mut here);
        }
        (_, Value::Null | Value::Array(_) | Value::Object(_)) => {
            found.notes.push(format!("{place}: `value` is {}, read as the text `{text}`", kind(&value)));
        }
        _ if text.is_empty() => found.differ(place, "its empty `value` is left out here"),
        _ => {}
    }
    // By our own rules an empty text finds nothing that could be missing.
    if !here.is_empty() || *kind_here == CheckType::NoSearch {
        doc.element(&["step", "check"]).pair("type", kind_here.name()).pair("value", here);
        if !required {
            doc.pair("required", false);
        }
        if adoption {
            doc.pair("layer", "adoption");
        }
        doc.pair("scope", "session").pair("about", about).pair("original", original.clone());
    }
    found.left(place, fields);
    Some(json!({ "type": original, "value": text, "required": required, "layer": layer }))
}

/// A value as the text that the reference compares with: what Python's `str` makes of it.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => repr(other),
    }
}

fn repr(value: &Value) -> String {
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => {
            let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
            let mut out = String::from(quote);
            for c in text.chars() {
                match c {
                    '\\' => out.push_str("\\\\"),
                    '\n' => out.push_str("\\n"),
                    '\r' => out.push_str("\\r"),
                    '\t' => out.push_str("\\t"),
                    c if c == quote => out.extend(['\\', c]),
                    c => out.push(c),
                }
            }
            out.push(quote);
            out
        }
        Value::Array(items) => format!("[{}]", items.iter().map(repr).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let pair = |(key, value): (&String, &Value)| {
                format!("{}: {}", repr(&Value::String(key.clone())), repr(value))
            };
            format!("{{{}}}", map.iter().map(pair).collect::<Vec<_>>().join(", "))
        }
    }
}

fn row(place: &str, item: Value, ids: &mut BTreeMap<String, u32>, doc: &mut Doc, found: &mut Found) {
    let item = match item {
        Value::String(text) => json!({ "match": [text] }),
        other => other,
    };
    let Some(mut fields) = found.fields(place, item) else { return };
    // A label need not be a text there; what is empty counts as absent.
    let mut label = |key: &str| fields.value(key).filter(|value| !is_empty(value));
    let (given, group) = (label("id"), label("group"));
    let mut matches: Vec<String> = match fields.value("match") {
        None => Vec::new(),
        Some(Value::String(one)) if one.is_empty() => Vec::new(),
        Some(Value::Array(list)) => list.iter().map(text_of).collect(),
        Some(one) => vec![text_of(&one)],
    };
    let their_id =
        given.or_else(|| matches.first().cloned().map(Value::String)).unwrap_or_else(|| json!("?"));
    let mut id = text_of(&their_id);
    if matches.is_empty() {
        matches.push(id.clone());
    }
    if !their_id.is_string() || group.as_ref().is_some_and(|group| !group.is_string()) {
        found.differ(place, "its id or group is no text");
    }
    let their_group = group.unwrap_or_else(|| json!(UNGROUPED));
    let group = text_of(&their_group);
    found.gold.push(json!({ "id": their_id, "group": their_group, "match": matches }));
    if matches.iter().any(String::is_empty) {
        found.differ(place, "an empty text in `match` is left out here");
        matches.retain(|text| !text.is_empty());
    }
    if id.is_empty() {
        place.clone_into(&mut id);
    }
    if matches.is_empty() {
        matches.push(id.clone());
    }
    // There an id is only a label; here rows are told apart by it.
    let called = id.clone();
    while let Some(times) = ids.get_mut(&id) {
        *times += 1;
        id = format!("{called}-{times}");
    }
    if id != called {
        found.differ(place, &format!("the id `{called}` occurs twice and is called `{id}` here"));
    }
    ids.insert(id.clone(), 1);
    let relation = fields.value("relation").map(|relation| text_of(&relation));
    let fact = fields.value("disambiguator").map(|fact| text_of(&fact));
    doc.element(&["gold"]).pair("id", id);
    if group != UNGROUPED {
        doc.pair("group", group);
    }
    doc.pair("match", matches).pair("relation", relation).pair("fact", fact);
    found.left(place, fields);
}

/// Whether a value counts as absent in Python.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// A criterion's weight as the file or the benchmark says it.
fn weight_of(name: &str, value: &Value) -> Option<f64> {
    match value.get("weight") {
        None | Some(Value::Null) => {
            WEIGHTS.iter().find(|(known, _)| *known == name).map(|(_, weight)| *weight)
        }
        Some(weight) => weight.as_f64(),
    }
}

fn criterion(place: &str, name: &str, value: Value, share: Option<f64>, doc: &mut Doc, found: &mut Found) {
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
    doc.table(&["step", "criteria", name]).pair("weight", weight / share.unwrap_or(1.0));
    doc.pair("original-weight", share.map(|_| weight)).pair("question", question);
    found.left(&place, fields);
}
