//! Replies of any shape into hits: pure, bounded, in the server's order.
//!
//! Servers answer with JSON, with JSON inside text, with one block per hit,
//! with grep output, Markdown, tables, tagged text, maps from file to lines;
//! with absolute or relative paths and lines from 0 or 1; and they say "no
//! result" and "broken" in the same breath. Shapes are recognised by what
//! they hold, never by who sent them. A file that is merely mentioned in an
//! error or in prose is no hit.

mod fields;
mod json;
mod path;
mod table;
mod text;
mod words;
mod xml;

#[cfg(test)]
mod tests;

use std::fmt;

use serde_json::Value;

use crate::artifact::Hit;
use crate::manifest::server::Lines;

/// Version of the rules, raised when hits change for equal replies; in the recipe of readers.
pub const VERSION: u32 = 1;
/// Most hits of one reply.
pub const MAX_HITS: usize = 2_000;
/// Most bytes of one text that are read.
const MAX_TEXT: usize = 8 << 20;
/// Most characters of an error.
const MAX_ERROR: usize = 2_000;
/// Most characters of a symbol.
const MAX_SYMBOL: usize = 300;
/// How deep values and texts within values are followed.
const MAX_DEPTH: usize = 24;

/// What is needed to understand a reply.
#[derive(Clone, Default)]
pub struct Rules<'a> {
    /// Absolute corpus roots, as the server may spell them.
    pub roots: Vec<String>,
    /// Numbering of lines.
    pub lines: Lines,
    /// Is this corpus-relative path a file of the corpus? Settles doubtful cases.
    pub known: Option<&'a dyn Fn(&str) -> bool>,
}

impl fmt::Debug for Rules<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules")
            .field("roots", &self.roots)
            .field("lines", &self.lines)
            .field("known", &self.known.is_some())
            .finish()
    }
}

/// What a reply is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It lists places.
    Hits,
    /// It says that there are none.
    Empty,
    /// It says that something failed.
    Error,
    /// Something else: a status, a file's content, prose.
    Other,
}

/// A reply, understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Normalised {
    /// What it is.
    pub kind: Kind,
    /// Places in the server's order, not de-duplicated; empty unless `kind` is `Hits`.
    pub hits: Vec<Hit>,
    /// The server's words, when it failed or complained.
    pub error: Option<String>,
}

/// What was found in one part of a reply.
#[derive(Clone, Debug, Default)]
struct Found {
    hits: Vec<Hit>,
    error: Option<String>,
    empty: bool,
    /// Complaints beside the result.
    complaint: Option<String>,
}

impl Found {
    fn lines(&self) -> usize {
        self.hits.iter().filter(|hit| hit.line.is_some()).count()
    }
}

/// Understands a `CallToolResult` or a JSON-RPC error object.
#[must_use]
pub fn normalise(value: &Value, rules: &Rules<'_>) -> Normalised {
    let content = value.get("content").and_then(Value::as_array);
    let structured = value.get("structuredContent").filter(|s| !s.is_null());
    if content.is_none() && structured.is_none() {
        if let Some(error) = words::rpc_error(value) {
            return Normalised {
                kind: Kind::Error,
                hits: Vec::new(),
                error: Some(bounded(&error, MAX_ERROR)),
            };
        }
        // A bare result: some servers leave the envelope out.
        return settle(vec![json::read(value, rules, 0)]);
    }
    let blocks = content.map(Vec::as_slice).unwrap_or_default();
    if value.get("isError").and_then(Value::as_bool) == Some(true) {
        let text = joined(blocks);
        let words = if text.trim().is_empty() { structured.map(Value::to_string) } else { Some(text) };
        let words = words.map(|text| words::message_in(&text).unwrap_or(text)).unwrap_or_default();
        return Normalised {
            kind: Kind::Error,
            hits: Vec::new(),
            error: Some(bounded(words.trim(), MAX_ERROR)),
        };
    }
    let mut parts = Vec::new();
    if let Some(structured) = structured {
        parts.push(json::read(structured, rules, 0));
    }
    parts.push(read_blocks(blocks, rules));
    settle(parts)
}

/// The richer part wins, the earlier one when they are equal.
fn settle(parts: Vec<Found>) -> Normalised {
    let mut best: Option<&Found> = None;
    for part in &parts {
        let richer = best.is_none_or(|b| (part.hits.len(), part.lines()) > (b.hits.len(), b.lines()));
        if richer {
            best = Some(part);
        }
    }
    if let Some(best) = best.filter(|b| !b.hits.is_empty()) {
        let mut hits = best.hits.clone();
        hits.truncate(MAX_HITS);
        return Normalised { kind: Kind::Hits, hits, error: None };
    }
    let error = parts.iter().find_map(|part| part.error.clone());
    let complaint = parts.iter().find_map(|part| part.complaint.clone());
    let kind = match (&error, parts.iter().any(|part| part.empty)) {
        (Some(_), _) => Kind::Error,
        (None, true) => Kind::Empty,
        (None, false) => Kind::Other,
    };
    Normalised { kind, hits: Vec::new(), error: error.or(complaint).map(|e| bounded(&e, MAX_ERROR)) }
}

/// All text of the blocks, a line each.
fn joined(blocks: &[Value]) -> String {
    let texts: Vec<&str> = blocks.iter().filter_map(|b| b.get("text").and_then(Value::as_str)).collect();
    texts.join("\n")
}

fn read_blocks(blocks: &[Value], rules: &Rules<'_>) -> Found {
    let texts: Vec<&str> = blocks.iter().filter_map(|b| b.get("text").and_then(Value::as_str)).collect();
    let values: Option<Vec<Value>> = texts
        .iter()
        .map(|text| serde_json::from_str::<Value>(text.trim()).ok().filter(|v| v.is_object() || v.is_array()))
        .collect();
    let mut found = match values {
        // One hit per block, as some servers send lists.
        Some(values) if values.len() > 1 => json::read(&Value::Array(values), rules, 0),
        _ => text::read(&texts.join("\n"), rules, 0),
    };
    let links: Vec<Value> = blocks
        .iter()
        .filter_map(|block| {
            let kind = block.get("type").and_then(Value::as_str)?;
            match kind {
                "resource_link" => Some(serde_json::json!({"uri": block.get("uri")?})),
                "resource" => Some(serde_json::json!({"uri": block.pointer("/resource/uri")?})),
                _ => None,
            }
        })
        .collect();
    if !links.is_empty() {
        let linked = json::read(&Value::Array(links), rules, 0);
        if found.hits.len() < linked.hits.len() {
            found.hits = linked.hits;
        }
    }
    found
}

/// At most so many characters.
fn bounded(text: &str, limit: usize) -> String {
    let mut chars = text.chars();
    let head: String = chars.by_ref().take(limit).collect();
    if chars.next().is_some() { head + "…" } else { head }
}
