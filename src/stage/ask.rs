//! The words in which a question is put to a server.

use serde_json::{Map, Value};

use crate::manifest::server::{Form, Query, ToolUse};

/// Version of [`words`], in the recipe of sessions that send keywords.
pub(super) const KEYWORDS: u32 = 1;

/// Words that carry no meaning for a search in code.
const STOP: [&str; 78] = [
    "a",
    "about",
    "after",
    "all",
    "an",
    "and",
    "any",
    "are",
    "as",
    "at",
    "be",
    "before",
    "between",
    "by",
    "call",
    "called",
    "calls",
    "can",
    "change",
    "code",
    "could",
    "defined",
    "definition",
    "do",
    "does",
    "else",
    "file",
    "find",
    "for",
    "from",
    "function",
    "get",
    "gets",
    "happens",
    "has",
    "have",
    "how",
    "i",
    "if",
    "implemented",
    "in",
    "into",
    "is",
    "it",
    "its",
    "method",
    "never",
    "of",
    "on",
    "only",
    "or",
    "our",
    "over",
    "show",
    "that",
    "the",
    "their",
    "there",
    "they",
    "this",
    "to",
    "use",
    "used",
    "uses",
    "using",
    "was",
    "we",
    "what",
    "when",
    "where",
    "which",
    "who",
    "why",
    "will",
    "with",
    "without",
    "would",
    "you",
];

/// The texts to send for one question, in order; one call each.
#[must_use]
pub(super) fn words(query: &Query, question: &str) -> Vec<String> {
    match query.form {
        Form::Question => vec![question.to_owned()],
        Form::Keywords => keywords(question, query.max_calls as usize),
    }
}

/// Keywords of a question: names that look like code first, then the longest
/// words; at most `limit`. The whole question when nothing is left.
fn keywords(question: &str, limit: usize) -> Vec<String> {
    let mut found: Vec<(bool, usize, String)> = Vec::new();
    for (at, raw) in
        question.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.' || c == ':')).enumerate()
    {
        let word = raw.trim_matches(|c| c == '.' || c == ':');
        // `Flask.url_for` and `a::b` are searched by their last name.
        let word = word.rsplit(['.', ':']).next().unwrap_or(word);
        let lower = word.to_lowercase();
        if word.chars().count() < 3
            || STOP.contains(&lower.as_str())
            || found.iter().any(|(_, _, w)| w == word)
        {
            continue;
        }
        found.push((looks_like_code(word, at == 0), at, word.to_owned()));
    }
    found.sort_by_key(|(code, at, word)| (!code, usize::MAX - word.chars().count(), *at));
    let mut out: Vec<String> = found.into_iter().map(|(_, _, word)| word).take(limit).collect();
    if out.is_empty() {
        out.push(question.to_owned());
    }
    out
}

/// `snake_case`, `camelCase`, `PascalCase` inside a sentence, `CONSTANT`, digits.
fn looks_like_code(word: &str, first: bool) -> bool {
    let inner_upper = word.chars().skip(1).any(char::is_uppercase);
    let starts_upper = word.starts_with(char::is_uppercase);
    word.contains('_') || inner_upper || (starts_upper && !first) || word.chars().any(|c| c.is_ascii_digit())
}

/// Fills a tool's arguments. A text that is one placeholder becomes the value
/// itself (a number stays a number); placeholders inside a text are replaced.
#[must_use]
pub(crate) fn arguments(tool: &ToolUse, values: &[(&str, Value)]) -> Map<String, Value> {
    tool.args.iter().map(|(name, value)| (name.clone(), fill(value, values))).collect()
}

fn fill(value: &Value, values: &[(&str, Value)]) -> Value {
    match value {
        Value::String(text) => {
            if let Some((_, whole)) = values.iter().find(|(name, _)| text == &format!("{{{name}}}")) {
                return whole.clone();
            }
            let mut out = text.clone();
            for (name, value) in values {
                let mark = format!("{{{name}}}");
                if out.contains(&mark) {
                    let plain = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    out = out.replace(&mark, &plain);
                }
            }
            Value::String(out)
        }
        Value::Array(items) => Value::Array(items.iter().map(|v| fill(v, values)).collect()),
        Value::Object(map) => Value::Object(map.iter().map(|(k, v)| (k.clone(), fill(v, values))).collect()),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keywords_prefer_names() {
        assert_eq!(
            keywords("Where is Flask.full_dispatch_request called when an error handler fails?", 3),
            ["full_dispatch_request", "handler", "error"]
        );
        assert_eq!(keywords("who calls it?", 3), ["who calls it?"]);
        assert_eq!(keywords("Which module parses WireFrame v2?", 2), ["WireFrame", "module"]);
    }

    #[test]
    fn a_lone_placeholder_keeps_its_type() {
        let tool = ToolUse {
            tool: "search".to_owned(),
            args: [
                ("n".to_owned(), json!("{limit}")),
                ("q".to_owned(), json!("find {query}!")),
                ("deep".to_owned(), json!([{"p": "{corpus}"}])),
                ("flag".to_owned(), json!(true)),
            ]
            .into_iter()
            .collect(),
        };
        let filled =
            arguments(&tool, &[("limit", json!(7)), ("query", json!("x {limit}")), ("corpus", json!("/c"))]);
        assert_eq!(
            Value::Object(filled),
            json!({"n": 7, "q": "find x {limit}!", "deep": [{"p": "/c"}], "flag": true})
        );
    }
}
