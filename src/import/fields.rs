//! Takes known keys out of an object of another benchmark's file and keeps count of the others.

use serde_json::{Map, Value};

/// An object of which keys are taken one by one.
pub(super) struct Fields(Map<String, Value>);

impl Fields {
    /// From a JSON text.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        match serde_json::from_str(text) {
            Ok(Value::Object(map)) => Ok(Self(map)),
            Ok(other) => Err(format!("expected an object, found {}", kind(&other))),
            Err(error) => Err(format!("not JSON: {}", plain(&error))),
        }
    }

    /// From a JSON value.
    pub(super) fn of(value: Value) -> Result<Self, String> {
        match value {
            Value::Object(map) => Ok(Self(map)),
            other => Err(format!("expected an object, found {}", kind(&other))),
        }
    }

    /// Takes a value; null counts as absent.
    pub(super) fn value(&mut self, key: &str) -> Option<Value> {
        self.0.shift_remove(key).filter(|value| !value.is_null())
    }

    /// Whether the key is there.
    pub(super) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// Takes a text, or nothing.
    pub(super) fn text(&mut self, key: &str) -> Result<Option<String>, String> {
        match self.value(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(format!("`{key}` must be a text, not {}", kind(&other))),
        }
    }

    /// Takes a text that must be there.
    pub(super) fn needed(&mut self, key: &str) -> Result<String, String> {
        match self.text(key)? {
            Some(text) if !text.trim().is_empty() => Ok(text),
            Some(_) => Err(format!("`{key}` is empty")),
            None => Err(format!("`{key}` is missing")),
        }
    }

    /// Takes a list of texts; absent is empty.
    pub(super) fn texts(&mut self, key: &str) -> Result<Vec<String>, String> {
        let Some(value) = self.value(key) else { return Ok(Vec::new()) };
        let Value::Array(items) = value else {
            return Err(format!("`{key}` must be a list of texts, not {}", kind(&value)));
        };
        items
            .into_iter()
            .map(|item| match item {
                Value::String(text) => Ok(text),
                other => Err(format!("`{key}` must hold texts only, not {}", kind(&other))),
            })
            .collect()
    }

    /// Takes an object; absent is empty.
    pub(super) fn object(&mut self, key: &str) -> Result<Fields, String> {
        match self.value(key) {
            None => Ok(Self(Map::new())),
            Some(value) => Self::of(value).map_err(|why| format!("`{key}`: {why}")),
        }
    }

    /// The keys that nobody took, in order.
    pub(super) fn left(self) -> Vec<String> {
        self.0.into_iter().map(|(key, _)| key).collect()
    }

    /// All entries.
    pub(super) fn into_entries(self) -> Map<String, Value> {
        self.0
    }
}

/// What a value is, in words.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// A parser's words without its own count of lines, which starts anew at every line of ours.
pub(super) fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.find(" at line ") {
        Some(at) => format!("{} (column {})", &text[..at], error.column()),
        None => text,
    }
}
