//! The part of JSON Schema that our wire types generate, as the structural
//! check reads it.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use regex::Regex;
use serde_json::Value;

/// A schema, and the root that its references point into.
#[derive(Clone, Copy)]
pub(super) struct Schema<'s> {
    root: &'s Value,
    own: &'s Value,
}

/// What a pattern of ours means in words; a schema that has `x-words` says it itself.
const WORDS: &str = "x-words";

/// A pattern of a schema, compiled once; none when it is no pattern.
fn compiled(pattern: &str) -> Option<Regex> {
    static KNOWN: Mutex<BTreeMap<String, Option<Regex>>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(regex) = known.get(pattern) {
        return regex.clone();
    }
    known.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).ok()).clone()
}

impl<'s> Schema<'s> {
    pub(super) fn root(root: &'s Value) -> Self {
        Self { root, own: root }
    }

    fn at(&self, own: &'s Value) -> Self {
        Self { root: self.root, own }
    }

    /// The schema that a reference names, or itself. Generated references
    /// don't form cycles, and a bound keeps hand-made ones from hanging.
    pub(super) fn resolved(&self) -> Self {
        let mut here = *self;
        for _ in 0..16 {
            let Some(target) = here.own.get("$ref").and_then(Value::as_str) else { break };
            let Some(found) = target.strip_prefix('#').and_then(|pointer| here.root.pointer(pointer)) else {
                break;
            };
            here = here.at(found);
        }
        here
    }

    pub(super) fn description(&self) -> Option<&'s str> {
        self.own.get("description").and_then(Value::as_str)
    }

    pub(super) fn number(&self, keyword: &str) -> Option<f64> {
        self.own.get(keyword).and_then(Value::as_f64)
    }

    /// Texts of which one must stand here, with what they mean.
    pub(super) fn choices(&self) -> Option<Vec<(&'s str, Option<&'s str>)>> {
        if let Some(list) = self.own.get("enum").and_then(Value::as_array) {
            return list.iter().map(|v| v.as_str().map(|text| (text, None))).collect();
        }
        if let Some(one) = self.own.get("const").and_then(Value::as_str) {
            return Some(vec![(one, None)]);
        }
        let mut out = Vec::new();
        for branch in self.own.get("oneOf")?.as_array()? {
            let about = branch.get("description").and_then(Value::as_str);
            if let Some(one) = branch.get("const").and_then(Value::as_str) {
                out.push((one, about));
            } else {
                out.extend(
                    branch.get("enum")?.as_array()?.iter().filter_map(|v| v.as_str().map(|t| (t, None))),
                );
            }
        }
        Some(out)
    }

    /// The branches of an `anyOf`; null, which TOML doesn't have, left out.
    pub(super) fn alternatives(&self) -> Vec<Self> {
        let branches = self.own.get("anyOf").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        branches
            .iter()
            .filter(|branch| branch.get("type").and_then(Value::as_str) != Some("null"))
            .map(|branch| self.at(branch))
            .collect()
    }

    /// The branch that stands for "a template".
    pub(super) fn is_template(&self) -> bool {
        self.own.get("pattern").and_then(Value::as_str) == Some(r"\{\{")
    }

    /// Whether values of a JSON Schema type are taken.
    pub(super) fn takes(&self, kind: &str) -> bool {
        let here = self.resolved();
        let alternatives = here.alternatives();
        if !alternatives.is_empty() {
            return alternatives.iter().any(|a| !a.is_template() && a.takes(kind));
        }
        if here.choices().is_some() {
            return kind == "string";
        }
        match here.own.get("type") {
            Some(Value::String(own)) => own == kind,
            Some(Value::Array(list)) => list.iter().any(|own| own.as_str() == Some(kind)),
            _ => false,
        }
    }

    /// Whether the value has one of the types that the schema names.
    pub(super) fn admits(&self, value: &Value) -> bool {
        if self.own.get("type").is_none() {
            return true;
        }
        match value {
            Value::Null => self.takes("null"),
            Value::Bool(_) => self.takes("boolean"),
            Value::Number(number) => self.takes("number") || (self.takes("integer") && !number.is_f64()),
            Value::String(_) => self.takes("string"),
            Value::Array(_) => self.takes("array"),
            Value::Object(_) => self.takes("object"),
        }
    }

    /// [`Self::admits`] for a schema that may be a reference, choice or union.
    pub(super) fn admits_shape(&self, value: &Value) -> bool {
        let here = self.resolved();
        if here.choices().is_some() {
            return value.is_string();
        }
        let alternatives = here.alternatives();
        if alternatives.is_empty() {
            return here.admits(value);
        }
        alternatives.iter().any(|a| a.admits_shape(value))
    }

    /// Smallest and largest number; an unsigned format has bounds of its own.
    pub(super) fn bounds(&self) -> (Option<f64>, Option<f64>) {
        let high = match self.own.get("format").and_then(Value::as_str) {
            Some("uint8") => Some(f64::from(u8::MAX)),
            Some("uint32") => Some(f64::from(u32::MAX)),
            _ => None,
        };
        (self.number("minimum"), self.number("maximum").or(high))
    }

    /// The pattern, and in words what it wants, if `text` doesn't match it.
    pub(super) fn pattern_failed_by(&self, text: &str) -> Option<(&'s str, Option<&'s str>)> {
        let pattern = self.own.get("pattern")?.as_str()?;
        let fails = compiled(pattern).is_some_and(|regex| !regex.is_match(text));
        fails.then(|| (pattern, self.own.get(WORDS).and_then(Value::as_str)))
    }

    /// What the names of entries must be, if `key` isn't so.
    pub(super) fn name_refused(&self, key: &str) -> Option<String> {
        let (pattern, words) = self.at(self.own.get("propertyNames")?).resolved().pattern_failed_by(key)?;
        Some(words.map_or_else(|| format!("a name that matches {pattern}"), str::to_owned))
    }

    pub(super) fn items(&self) -> Option<Self> {
        self.own.get("items").filter(|items| items.is_object()).map(|items| self.at(items))
    }

    pub(super) fn property(&self, key: &str) -> Option<Self> {
        self.own.get("properties")?.get(key).map(|own| self.at(own))
    }

    pub(super) fn properties(&self) -> Vec<&'s str> {
        let table = self.own.get("properties").and_then(Value::as_object);
        table.map_or_else(Vec::new, |table| table.keys().map(String::as_str).collect())
    }

    /// The schema of entries that are no properties; none when there may be none.
    pub(super) fn entries(&self) -> Option<Self> {
        match self.own.get("additionalProperties") {
            Some(Value::Bool(false)) => None,
            Some(own) => Some(self.at(own)),
            None => Some(self.at(&Value::Null)),
        }
    }

    pub(super) fn required(&self) -> Vec<&'s str> {
        let list = self.own.get("required").and_then(Value::as_array);
        list.map_or_else(Vec::new, |list| list.iter().filter_map(Value::as_str).collect())
    }

    /// What is expected, in words.
    pub(super) fn words(&self) -> String {
        let here = self.resolved();
        if let Some(words) = here.own.get(WORDS).and_then(Value::as_str) {
            return words.to_owned();
        }
        if let Some(choices) = here.choices() {
            let choices = crate::diag::names(choices.iter().map(|(choice, _)| *choice), 12);
            return if choices.contains(',') { format!("one of {choices}") } else { choices };
        }
        let alternatives = here.alternatives();
        if !alternatives.is_empty() {
            let words: Vec<String> =
                alternatives.iter().filter(|a| !a.is_template()).map(Self::words).collect();
            return words.join(" or ");
        }
        let text = match &here.own["type"] {
            Value::String(text) => text.as_str(),
            Value::Array(list) => list.iter().filter_map(Value::as_str).find(|t| *t != "null").unwrap_or(""),
            _ => "",
        };
        match text {
            "string" if here.own.get("pattern").is_some() => {
                here.description().map_or_else(|| "a text".to_owned(), str::to_owned)
            }
            "string" => "a text".to_owned(),
            "integer" => "a whole number".to_owned(),
            "number" => "a number".to_owned(),
            "boolean" => "true or false".to_owned(),
            "array" => match here.items().map(|items| items.words()).as_deref() {
                Some("a text") => "a list of texts".to_owned(),
                Some("a whole number") => "a list of whole numbers".to_owned(),
                Some("a table") => "a list of tables".to_owned(),
                _ => "a list".to_owned(),
            },
            "object" => "a table".to_owned(),
            _ => "a value".to_owned(),
        }
    }
}
