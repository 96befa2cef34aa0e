//! Checks by the reference's rules: each against the whole answer.

use serde_json::{Map, Value, json};

use super::session::{Call, Session};
use super::{Check, citations, python};
use crate::artifact::python_json::Json;

/// Calls that count as searching without the server.
pub(super) const SEARCHES: [&str; 7] = ["Grep", "grep", "rg", "Glob", "glob", "find", "Agent"];

/// An answer with what checks look at more than once.
pub(super) struct Answer<'a> {
    text: &'a str,
    /// In lower case.
    lower: String,
    /// ASCII letters in lower case: bytes lie where they do in the text.
    folded: String,
    /// Characters outside ASCII that fold to an ASCII letter occur in it.
    odd: bool,
    calls: &'a [Call],
    /// Distinct cited files and citations.
    pub(super) files: u64,
    pub(super) refs: u64,
}

impl<'a> Answer<'a> {
    pub(super) fn new(session: &'a Session, cited: &[citations::Citation]) -> Self {
        let files: std::collections::HashSet<&str> = cited.iter().map(|c| c.file.as_str()).collect();
        Self {
            text: &session.answer,
            lower: session.answer.to_lowercase(),
            folded: session.answer.to_ascii_lowercase(),
            odd: session.answer.contains(['\u{130}', '\u{131}', '\u{17f}', '\u{212a}']),
            calls: &session.calls,
            files: files.len() as u64,
            refs: cited.len() as u64,
        }
    }

    /// The answer in lower case.
    pub(super) fn lower(&self) -> &str {
        &self.lower
    }

    /// The check's result as it is written, and whether it hit.
    pub(super) fn check(&self, check: &Check) -> (bool, Value) {
        let value = check.value.as_str();
        let mut more = Map::new();
        let mut shown = value.to_owned();
        let hit = match check.kind.as_str() {
            "contains" | "transcript_contains" => self.lower.contains(&value.to_lowercase()),
            "word" | "phrase" => self.has_word(value),
            "exact" => self.text.contains(value),
            "starts_with" => {
                let start = value.to_lowercase();
                python::lines(self.text)
                    .iter()
                    .any(|line| line.trim_matches(python::is_space).to_lowercase().starts_with(&start))
            }
            "mcp_tool_used" => self.calls.iter().any(|call| call.name.contains(value)),
            "no_grep" => !self.calls.iter().any(searches),
            "response_richness" => {
                let threshold: i64 = value.trim().parse().unwrap_or(i64::MAX);
                shown = threshold.to_string();
                more.insert("unique_files".to_owned(), json!(self.files));
                more.insert("unique_refs".to_owned(), json!(self.refs));
                more.insert("threshold".to_owned(), json!(threshold));
                i64::try_from(self.files).unwrap_or(i64::MAX) >= threshold
            }
            // The reference looks at the difference of its own repository, which is never the session's.
            _ => false,
        };
        let mut out = Map::new();
        out.insert("hit".to_owned(), json!(hit));
        out.insert("type".to_owned(), json!(check.kind));
        out.insert("value".to_owned(), json!(shown));
        out.append(&mut more);
        out.insert("layer".to_owned(), json!(check.layer));
        (hit, Value::Object(out))
    }

    /// Whether a text stands between two characters that are no word characters, whatever its case.
    fn has_word(&self, value: &str) -> bool {
        let free = |start: usize, end: usize| {
            let before = self.text[..start].chars().next_back();
            let after = self.text[end..].chars().next();
            !before.is_some_and(python::is_word) && !after.is_some_and(python::is_word)
        };
        if value.is_empty() {
            let mut ends = self.text.char_indices().map(|(at, _)| at).chain([self.text.len()]);
            return ends.any(|at| free(at, at));
        }
        if value.is_ascii() && !self.odd {
            let needle = value.to_ascii_lowercase();
            let mut from = 0;
            while let Some(at) = self.folded[from..].find(&needle) {
                if free(from + at, from + at + needle.len()) {
                    return true;
                }
                from += at + 1;
            }
            return false;
        }
        let wanted: Vec<char> = value.chars().map(python::fold).collect();
        self.text.char_indices().any(|(start, _)| {
            let mut rest = self.text[start..].char_indices();
            let is_it = wanted.iter().all(|c| rest.next().is_some_and(|(_, next)| python::fold(next) == *c));
            is_it && free(start, start + rest.offset())
        })
    }
}

/// Whether a call searches without the server.
fn searches(call: &Call) -> bool {
    SEARCHES.contains(&call.name.as_str()) || greps(call, &["command"])
}

/// Whether one of a call's inputs of these names has `grep` or `rg ` in it, as the reference looks: inside
/// other words, too.
pub(super) fn greps(call: &Call, names: &[&str]) -> bool {
    let input = |name: &&str| call.input.get(name).and_then(Json::as_str);
    names.iter().filter_map(input).any(|command| command.contains("grep") || command.contains("rg "))
}
