//! A transcript as the reference reads it: JSON lines in the form of Claude
//! Code's stream, also where another program's stream was rewritten into it.

use indexmap::IndexMap;

use super::python;
use crate::artifact::python_json::{self, Json};

/// US dollars per million tokens by which partial usage is priced: input, output, cache read, cache write.
const PRICES: [f64; 4] = [15.00, 75.00, 1.50, 18.75];

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Name of the tool.
    pub name: String,
    /// What it was given.
    pub input: Json,
}

/// Tokens by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Not from a cache.
    pub input: u64,
    /// Written by the model.
    pub output: u64,
    /// Read from a cache.
    pub cache_read: u64,
    /// Written to a cache.
    pub cache_write: u64,
}

/// What the reference takes from a transcript.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Session {
    /// All text of all assistant messages, joined by line ends.
    pub answer: String,
    /// Characters of the answer, tool inputs as JSON and tool results, joined by line ends.
    pub audit_chars: u64,
    /// Calls in order.
    pub calls: Vec<Call>,
    /// Usage of the final records.
    pub tokens: Tokens,
    /// Usage of every message that states it, repeated ones included.
    pub partial: Tokens,
    /// Sum of the costs that final records state; none where no one does.
    pub cost: Option<f64>,
    /// Sum of the durations that final records state, in milliseconds.
    pub duration_ms: f64,
}

impl Tokens {
    /// Sums up; more than fits stays at the largest.
    fn add(&mut self, usage: Option<&Json>) {
        let Some(usage) = usage else { return };
        let tokens = |name: &str| {
            let number = usage.get(name).and_then(Json::as_f64);
            number.filter(|n| *n >= 0.0).map_or(0, to_u64)
        };
        self.input = self.input.saturating_add(tokens("input_tokens"));
        self.output = self.output.saturating_add(tokens("output_tokens"));
        self.cache_read = self.cache_read.saturating_add(tokens("cache_read_input_tokens"));
        self.cache_write = self.cache_write.saturating_add(tokens("cache_creation_input_tokens"));
    }

    /// Tokens that the reference calls billed: caches are left out.
    #[must_use]
    pub fn billed(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.billed().saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// Their price in US dollars by the reference's one table.
    #[must_use]
    pub fn estimate(&self) -> f64 {
        let counts = [self.input, self.output, self.cache_read, self.cache_write];
        #[expect(clippy::cast_precision_loss, reason = "as the reference does")]
        counts.iter().zip(PRICES).map(|(count, price)| *count as f64 * price / 1e6).sum()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float beyond stays at the bound"
)]
fn to_u64(value: f64) -> u64 {
    value as u64
}

/// Reads a transcript; lines that are none of its forms are passed over.
#[must_use]
pub fn read(bytes: &[u8]) -> Session {
    let text = String::from_utf8_lossy(bytes);
    let mut reader = Reader::default();
    // Python takes a lone carriage return for a line end, too.
    for line in text.split(['\n', '\r']).map(|line| line.trim_matches(python::is_space)) {
        if let Some(line) = python_json::parse(line) {
            reader.take(&line);
        }
    }
    // Pieces are joined by line ends.
    reader.session.audit_chars += reader.pieces.saturating_sub(1);
    reader.session
}

#[derive(Default)]
struct Reader {
    session: Session,
    /// Texts of the answer, and pieces of what is audited.
    texts: u64,
    pieces: u64,
}

/// The text under a key; empty where something else stands.
fn text<'j>(of: &'j Json, key: &str) -> &'j str {
    of.get(key).and_then(Json::as_str).unwrap_or_default()
}

impl Reader {
    fn take<'j>(&mut self, line: &'j Json) {
        if text(line, "type") == "result" {
            self.session.tokens.add(line.get("usage"));
            if let Some(cost) = line.get("total_cost_usd").and_then(Json::as_f64) {
                self.session.cost = Some(self.session.cost.unwrap_or_default() + cost);
            }
            self.session.duration_ms += line.get("duration_ms").and_then(Json::as_f64).unwrap_or_default();
        }
        let object = |of: &'j Json, key: &str| of.get(key).filter(|value| matches!(value, Json::Map(_)));
        let event = object(line, "event").unwrap_or(line);
        let Some(message) = object(event, "message") else { return };
        self.session.partial.add(message.get("usage"));
        match (text(event, "type"), message.get("content")) {
            ("assistant", Some(Json::Text(text))) => self.say(text),
            ("assistant", Some(Json::List(blocks))) => blocks.iter().for_each(|block| self.assistant(block)),
            ("user", Some(Json::List(blocks))) => {
                for block in blocks.iter().filter(|block| text(block, "type") == "tool_result") {
                    self.result(block.get("content"));
                }
            }
            _ => {}
        }
    }

    fn assistant(&mut self, block: &Json) {
        match (block, text(block, "type")) {
            (Json::Text(text), _) => self.say(text),
            (_, "text") => self.say(text(block, "text")),
            (_, "tool_use") => {
                let input = block.get("input").cloned().unwrap_or_else(|| Json::Map(IndexMap::new()));
                self.audit(python::dumps_len(&input) as u64);
                self.session.calls.push(Call { name: text(block, "name").to_owned(), input });
            }
            _ => {}
        }
    }

    fn result(&mut self, content: Option<&Json>) {
        match content {
            Some(Json::Text(text)) => self.audit(chars(text)),
            Some(Json::List(parts)) => {
                for part in parts {
                    match part {
                        Json::Text(text) => self.audit(chars(text)),
                        Json::Map(_) => self.audit(chars(text(part, "text"))),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn say(&mut self, text: &str) {
        if self.texts > 0 {
            self.session.answer.push('\n');
        }
        self.texts += 1;
        self.session.answer.push_str(text);
        self.audit(chars(text));
    }

    fn audit(&mut self, chars: u64) {
        self.pieces += 1;
        self.session.audit_chars += chars;
    }
}

fn chars(text: &str) -> u64 {
    text.chars().count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_python_accepts_count() {
        let nested = "[".repeat(300) + &"]".repeat(300);
        let lines = [
            r#"{"type":"assistant","message":{"content":[{"type":"text","text":"x\ud83dy"}]}}"#.to_owned(),
            r#"{"type":"user","type":"assistant","message":{"content":[{"type":"text","text":"two"}]}}"#.to_owned(),
            format!(r#"{{"type":"assistant","message":{{"content":[{{"type":"tool_use","name":"a","input":{{"d":{nested},"n":NaN,"big":123456789012345678901234567890}}}}]}}}}"#),
            r#"{"type":"assistant","message":{"content":[{"type":"tool_use","name":"b"},{"type":"tool_use","name":"c","input":null}]}}"#.to_owned(),
            r#"{"type":"result","message":"done","event":"text","total_cost_usd":0.5,"duration_ms":2000,"usage":{"input_tokens":3,"output_tokens":4}}"#.to_owned(),
        ];
        let session = read(lines.join("\r").as_bytes());
        assert_eq!(session.answer, "x\u{fffd}y\ntwo");
        assert_eq!(session.calls.len(), 3);
        assert_eq!((session.cost, session.tokens.billed()), (Some(0.5), 7));
        assert!((session.duration_ms - 2000.0).abs() < 1e-9);
        // 3 + 3 characters; {"d": .., "n": NaN, "big": ..}; {}; null; four line ends between.
        let input = format!(r#"{{"d": {nested}, "n": NaN, "big": 123456789012345678901234567890}}"#);
        assert_eq!(session.audit_chars, 6 + input.len() as u64 + 2 + 4 + 4);
    }
}
