//! Writes TOML files in the form in which people would: keys in the order
//! given, comments, no defaults spelt out.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// A file in the making.
#[derive(Clone, Debug, Default)]
pub struct Doc {
    text: String,
}

impl Doc {
    /// A file that tells editors its schema, a path relative to the file.
    #[must_use]
    pub fn with_schema(schema: &str) -> Self {
        Self { text: format!("#:schema {}\n", one_line(schema)) }
    }

    /// A blank line, unless the file is empty or ends with one.
    pub fn blank(&mut self) -> &mut Self {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
        self
    }

    /// A comment; every line of it becomes one of its own.
    pub fn comment(&mut self, text: &str) -> &mut Self {
        for line in text.lines() {
            let line: String = line.chars().filter(|c| !c.is_control()).collect();
            self.text.push_str(format!("# {line}").trim_end());
            self.text.push('\n');
        }
        self
    }

    /// `[a.b]`.
    pub fn table(&mut self, keys: &[&str]) -> &mut Self {
        self.blank();
        self.line(&format!("[{}]", dotted(keys)))
    }

    /// `[[a.b]]`.
    pub fn element(&mut self, keys: &[&str]) -> &mut Self {
        self.blank();
        self.line(&format!("[[{}]]", dotted(keys)))
    }

    /// `key = value`; null, empty texts, lists and tables are left out.
    pub fn pair(&mut self, key: &str, value: impl Into<Value>) -> &mut Self {
        let value = value.into();
        let empty = match &value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty(),
            Value::Object(map) => map.is_empty(),
            Value::Bool(_) | Value::Number(_) => false,
        };
        if !empty && let Some(value) = inline(&value) {
            self.line(&format!("{} = {value}", bare(key)));
        }
        self
    }

    fn line(&mut self, line: &str) -> &mut Self {
        self.text.push_str(line);
        self.text.push('\n');
        self
    }

    /// The file's text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// Reads a text back as the type that it was written for.
///
/// # Errors
/// With the reader's own words, when it is none.
pub fn read_back<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| error.message().to_owned())
}

fn one_line(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).collect()
}

fn dotted(keys: &[&str]) -> String {
    keys.iter().map(|key| bare(key)).collect::<Vec<_>>().join(".")
}

fn bare(key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    if plain { key.to_owned() } else { quoted(key) }
}

/// A basic string: the same escapes as JSON's, except for the delete character.
fn quoted(text: &str) -> String {
    let json = Value::String(text.to_owned()).to_string();
    json.replace('\u{7f}', "\\u007f")
}

/// A value on one line; TOML has no null: such entries are left out.
fn inline(value: &Value) -> Option<String> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(flag) => flag.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(text) => quoted(text),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().filter_map(inline).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Object(map) => {
            let pairs: Vec<String> = map
                .iter()
                .filter_map(|(key, value)| Some(format!("{} = {}", bare(key), inline(value)?)))
                .collect();
            if pairs.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", pairs.join(", ")) }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_value_reads_back() {
        let odd = "quote \" back \\ tab \t nl \n bell \u{7} del \u{7f} emoji \u{1f600} é";
        let value = json!({
            "a b": odd, "n": -3, "f": 0.25, "big": 1e300, "flag": true,
            "list": [1, [odd], {"x": null, "y": []}], "empty": {},
        });
        let mut doc = Doc::with_schema("../s.json");
        doc.comment("two\nlines\u{7}").pair("format", 1).pair("none", Value::Null).pair("text", "");
        doc.table(&["t", "a.b"]).pair("value", value.clone()).element(&["t", "list"]).pair(odd, odd);
        let back: Value = read_back(doc.text()).unwrap();
        assert_eq!(back["format"], 1);
        assert_eq!(back.as_object().unwrap().len(), 2);
        let mut wanted = value;
        wanted["list"][2].as_object_mut().unwrap().remove("x");
        assert_eq!(back["t"]["a.b"]["value"], wanted);
        assert_eq!(back["t"]["list"][0][odd], odd);
        assert!(read_back::<Value>("a = ").is_err());
    }
}
