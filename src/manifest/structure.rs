//! Structural faults of a file, all at once: a walk of its values beside the
//! JSON Schema that is generated from the wire types.
//!
//! The walk also returns what is usable, without the faulty parts, so that a
//! file with structural faults still has its meaning checked.

use serde_json::{Map, Value};

use super::path::KeyPath;
use super::schema::Schema;
use super::source::{Document, shorten};
use crate::diag::{Diagnostic, names, nearest};

/// Most names that a help line lists.
const LISTED: usize = 24;

/// Checks `document` against the schema. Returns what of it is usable (the
/// root even when it lacks a required key) and what is wrong.
#[must_use]
pub fn check(document: &Document, root: &Value) -> (Option<Value>, Vec<Diagnostic>) {
    let mut walk = Walk { document, found: Vec::new() };
    let usable = walk.value(&document.value, &Schema::root(root), &KeyPath::root(), &Hint::default());
    (usable, walk.found)
}

struct Walk<'d> {
    document: &'d Document,
    found: Vec<Diagnostic>,
}

/// What is known of the place that a value stands in.
#[derive(Clone, Copy, Default)]
struct Hint<'s> {
    /// What the schema says of the key.
    about: Option<&'s str>,
    /// A template may stand here instead.
    template: bool,
}

impl Walk<'_> {
    fn value(
        &mut self,
        value: &Value,
        schema: &Schema<'_>,
        path: &KeyPath,
        hint: &Hint<'_>,
    ) -> Option<Value> {
        let about = hint.about.or_else(|| schema.description());
        let schema = schema.resolved();
        let hint = Hint { about: about.or_else(|| schema.description()), ..*hint };
        if let Some(choices) = schema.choices() {
            return self.choice(value, &choices, &schema, path, &hint);
        }
        let alternatives = schema.alternatives();
        if !alternatives.is_empty() {
            return self.any_of(value, &alternatives, &schema, path, &hint);
        }
        if !schema.admits(value) {
            self.wrong_type(value, &schema, path, &hint);
            return None;
        }
        match value {
            Value::String(text) => self.text(text, &schema, path, &hint),
            Value::Number(number) => self.number(number.as_f64().unwrap_or(0.0), value, &schema, path, &hint),
            Value::Array(list) => Some(self.list(list, &schema, path, &hint)),
            Value::Object(table) => self.table(table, &schema, path),
            _ => Some(value.clone()),
        }
    }

    fn any_of(
        &mut self,
        value: &Value,
        alternatives: &[Schema<'_>],
        whole: &Schema<'_>,
        path: &KeyPath,
        hint: &Hint<'_>,
    ) -> Option<Value> {
        let template = alternatives.iter().any(Schema::is_template);
        if template && value.as_str().is_some_and(super::templated::is_template) {
            return Some(value.clone());
        }
        let hint = Hint { template: template || hint.template, ..*hint };
        let plain: Vec<&Schema<'_>> = alternatives.iter().filter(|a| !a.is_template()).collect();
        if let [only] = plain[..] {
            return self.value(value, only, path, &hint);
        }
        let fitting: Vec<&Schema<'_>> = plain.iter().filter(|a| a.admits_shape(value)).copied().collect();
        if fitting.is_empty() {
            self.wrong_type(value, whole, path, &hint);
            return None;
        }
        // The alternative with which most of the table's keys agree is the one that was meant.
        let agreement = |schema: &&Schema<'_>| {
            value
                .as_object()
                .map_or(0, |table| table.keys().filter(|k| schema.resolved().property(k).is_some()).count())
        };
        let most = fitting.iter().map(agreement).max().unwrap_or(0);
        let mut first: Option<Vec<Diagnostic>> = None;
        for schema in fitting.into_iter().filter(|s| agreement(s) == most) {
            let mut trial = Walk { document: self.document, found: Vec::new() };
            let usable = trial.value(value, schema, path, &hint);
            if trial.found.is_empty() {
                return usable;
            }
            first.get_or_insert(trial.found);
        }
        if value.is_string() {
            self.wrong_type(value, whole, path, &hint);
        } else {
            self.found.extend(first.unwrap_or_default());
        }
        None
    }

    fn choice(
        &mut self,
        value: &Value,
        choices: &[(&str, Option<&str>)],
        schema: &Schema<'_>,
        path: &KeyPath,
        hint: &Hint<'_>,
    ) -> Option<Value> {
        let Some(text) = value.as_str() else {
            self.wrong_type(value, schema, path, hint);
            return None;
        };
        if choices.iter().any(|(choice, _)| *choice == text) {
            return Some(value.clone());
        }
        let all = names(choices.iter().map(|(choice, _)| *choice), LISTED);
        let help = match nearest(text, choices.iter().map(|(choice, _)| *choice)) {
            Some(near) => format!("did you mean `{near}`? allowed: {all}"),
            None => format!("allowed: {all}"),
        };
        self.report(
            "not-a-choice",
            path,
            format!("`{}` is no value of `{}`", shorten(text), name(path)),
            help,
        );
        None
    }

    fn text(&mut self, text: &str, schema: &Schema<'_>, path: &KeyPath, hint: &Hint<'_>) -> Option<Value> {
        if let Some((pattern, words)) = schema.pattern_failed_by(text) {
            let subject = path.last_key().map_or_else(|| "this text".to_owned(), |key| format!("`{key}`"));
            let message = format!("{subject} can't be `{}`", shorten(text));
            let words = words
                .or(schema.description())
                .or(hint.about)
                .map_or_else(|| format!("it must match {pattern}"), str::to_owned);
            self.report("bad-format", path, message, format!("expected {words}"));
            return None;
        }
        if schema.number("minLength").is_some_and(|least| (text.chars().count() as f64) < least) {
            self.report("empty", path, format!("`{}` is empty", name(path)), about(hint, "write a text"));
            return None;
        }
        Some(Value::String(text.to_owned()))
    }

    fn number(
        &mut self,
        number: f64,
        value: &Value,
        schema: &Schema<'_>,
        path: &KeyPath,
        hint: &Hint<'_>,
    ) -> Option<Value> {
        let (low, high) = schema.bounds();
        let low = low.filter(|low| number < *low);
        let high = high.filter(|high| number > *high);
        let help = match (low, high) {
            (None, None) => return Some(value.clone()),
            (Some(low), _) => format!("the smallest value allowed is {low}"),
            (_, Some(high)) => format!("the largest value allowed is {high}"),
        };
        let help = about(hint, &help);
        self.report("out-of-range", path, format!("`{}` can't be {value}", name(path)), help);
        None
    }

    fn list(&mut self, list: &[Value], schema: &Schema<'_>, path: &KeyPath, hint: &Hint<'_>) -> Value {
        if schema.number("minItems").is_some_and(|least| (list.len() as f64) < least) {
            self.report(
                "empty",
                path,
                format!("`{}` is an empty list", name(path)),
                about(hint, "name at least one"),
            );
        }
        let Some(items) = schema.items() else { return Value::Array(list.to_vec()) };
        let entries = list.iter().enumerate();
        let hint = Hint { about: None, ..*hint };
        let resolved = items.resolved();
        // A matrix has thousands of texts; one that is as it should be needs no path of its own.
        let texts =
            resolved.choices().is_none() && resolved.alternatives().is_empty() && resolved.takes("string");
        let least = resolved.number("minLength").unwrap_or(0.0);
        let fine = |text: &str| (text.len() as f64) >= 4.0 * least || (text.chars().count() as f64) >= least;
        let plain = |value: &Value| {
            value.as_str().is_some_and(|text| fine(text) && resolved.pattern_failed_by(text).is_none())
        };
        if texts && list.iter().all(plain) {
            return Value::Array(list.to_vec());
        }
        Value::Array(entries.filter_map(|(at, v)| self.value(v, &items, &path.index(at), &hint)).collect())
    }

    fn table(&mut self, table: &Map<String, Value>, schema: &Schema<'_>, path: &KeyPath) -> Option<Value> {
        let mut out = Map::new();
        for (key, value) in table {
            let inner = path.key(key);
            if let Some(property) = schema.property(key) {
                out.extend(self.value(value, &property, &inner, &Hint::default()).map(|v| (key.clone(), v)));
                continue;
            }
            let Some(entry) = schema.entries() else {
                self.unknown_key(key, schema, &inner);
                continue;
            };
            if let Some(words) = schema.name_refused(key) {
                let message = format!("`{}` can't be a name here", shorten(key));
                let place = self.document.key_place(&inner);
                self.found.push(
                    Diagnostic::error("bad-name", message).at(place, "").help(format!("expected {words}")),
                );
                continue;
            }
            out.extend(self.value(value, &entry, &inner, &Hint::default()).map(|v| (key.clone(), v)));
        }
        let mut complete = true;
        for key in schema.required() {
            complete &= out.contains_key(key);
            if !table.contains_key(key) && !self.document.excuses(key) {
                self.missing_key(key, schema, path);
            }
        }
        let least = schema.number("minProperties").unwrap_or(0.0);
        if (table.len() as f64) < least {
            let message = format!("`{}` is empty", name(path));
            let place = self.document.table_place(path);
            let help = schema.description().map_or_else(|| "name at least one".to_owned(), str::to_owned);
            self.found.push(Diagnostic::error("empty", message).at(place, "").help(help));
        }
        // An incomplete root is still worth a look at its meaning.
        (complete || path.0.is_empty()).then_some(Value::Object(out))
    }

    fn unknown_key(&mut self, key: &str, schema: &Schema<'_>, path: &KeyPath) {
        let known: Vec<&str> = schema.properties();
        let table = path.parent();
        let place = match &table.0[..] {
            [] => "the file".to_owned(),
            _ => format!("`{table}`"),
        };
        let all =
            if known.is_empty() { "no keys at all".to_owned() } else { names(known.iter().copied(), LISTED) };
        let help = match nearest(key, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`? allowed: {all}"),
            None if needs_quotes(&table) => {
                format!("put the whole name in quotes, as in `\"{}\" = ...`; allowed here: {all}", tail(path))
            }
            None => format!("allowed: {all}"),
        };
        let message = format!("unknown key `{}` in {place}", shorten(key));
        self.found.push(
            Diagnostic::error("unknown-key", message)
                .at(self.document.key_place(path), "not known here")
                .help(help),
        );
    }

    fn missing_key(&mut self, key: &str, schema: &Schema<'_>, path: &KeyPath) {
        let of = match &path.0[..] {
            [] => "the file".to_owned(),
            _ => format!("`{path}`"),
        };
        let property = schema.property(key);
        let about = property.as_ref().and_then(|p| p.description().or_else(|| p.resolved().description()));
        let choices = property.as_ref().and_then(|p| p.resolved().choices());
        let value = match choices {
            Some(choices) => names(choices.iter().map(|(choice, _)| *choice), LISTED),
            None => property.as_ref().map_or_else(|| "...".to_owned(), |p| p.resolved().words()),
        };
        let help = match about {
            Some(about) => format!("add `{key} = ...` ({value}): {}", decapitalised(about)),
            None => format!("add `{key} = ...` ({value})"),
        };
        let place = self.document.table_place(path);
        self.found.push(
            Diagnostic::error("missing-key", format!("{of} has no `{key}`"))
                .at(place, format!("`{key}` is missing"))
                .help(help),
        );
    }

    fn wrong_type(&mut self, value: &Value, schema: &Schema<'_>, path: &KeyPath, hint: &Hint<'_>) {
        let mut expected = schema.words();
        if hint.template {
            expected.push_str(", or a template in quotes");
        }
        let message = format!("`{}` is {}, expected {expected}", name(path), found_words(value));
        let help = rewrite(value, schema).unwrap_or_else(|| about(hint, &format!("write {expected}")));
        self.report("wrong-type", path, message, help);
    }

    fn report(&mut self, code: &'static str, path: &KeyPath, message: String, help: String) {
        let place = self.document.value_place(path);
        self.found.push(Diagnostic::error(code, message).at(place, "").help(help));
    }
}

/// `help`, and what the schema says of the key.
fn about(hint: &Hint<'_>, help: &str) -> String {
    match hint.about {
        Some(about) => format!("{help} ({})", decapitalised(about)),
        None => help.to_owned(),
    }
}

fn decapitalised(text: &str) -> String {
    let text = text.trim_end_matches('.');
    let mut chars = text.chars();
    let (Some(first), second) = (chars.next(), chars.clone().next()) else { return String::new() };
    if second.is_some_and(|c| c.is_uppercase() || !c.is_alphabetic()) {
        return text.to_owned();
    }
    first.to_lowercase().chain(chars).collect()
}

/// The last keys of a path, joined as one name.
fn tail(path: &KeyPath) -> String {
    let keys = path.0.iter().skip(1).map(|step| match step {
        super::path::Step::Key(key) => key.clone(),
        super::path::Step::Index(at) => at.to_string(),
    });
    keys.collect::<Vec<_>>().join(".")
}

/// A gate's or composite's name holds dots and signs, which TOML takes apart.
fn needs_quotes(table: &KeyPath) -> bool {
    table.0.len() > 1 && matches!(&table.0[0], super::path::Step::Key(key) if key == "gate")
}

fn name(path: &KeyPath) -> String {
    if path.0.is_empty() { "the file".to_owned() } else { path.to_string() }
}

/// What was found, in words.
fn found_words(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(flag) => format!("{flag}"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => format!("the text {:?}", shorten(text)),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a table".to_owned(),
    }
}

/// How the value should have been written, where that can be told.
fn rewrite(value: &Value, schema: &Schema<'_>) -> Option<String> {
    let wants = |kind: &str| schema.takes(kind);
    match value {
        Value::Number(_) | Value::Bool(_) if wants("string") => Some(format!("write \"{value}\" in quotes")),
        Value::String(text)
            if (wants("integer") || wants("number")) && text.trim().parse::<f64>().is_ok() =>
        {
            Some(format!("write {} without quotes", text.trim()))
        }
        Value::String(text) if wants("boolean") && matches!(text.as_str(), "true" | "false") => {
            Some(format!("write {text} without quotes"))
        }
        Value::String(text) if wants("array") => Some(format!("write [{:?}]", shorten(text))),
        Value::Array(list) if wants("string") && list.len() == 1 => {
            list[0].as_str().map(|text| format!("write {:?} without brackets", shorten(text)))
        }
        _ => None,
    }
}
