//! Citations as JSON: objects with a path and a line in them.
//!
//! Objects stand anywhere in prose. They are read in one pass with a stack; where what was
//! begun turns out to be no JSON, it is dropped and reading goes on from there, so no byte is
//! read twice.

use std::ops::Range;

use super::extract::MOST;
use super::locator::{self, Given, Style};
use super::name;
use super::token::{self, Known};

/// Deepest nest: what is deeper is no JSON.
const DEEPEST: usize = 256;

/// A citation in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Object {
    /// From the first to the last of the pairs that make it.
    pub(super) span: Range<usize>,
    pub(super) file: String,
    /// Each of them a citation.
    pub(super) lines: Vec<Given>,
    pub(super) symbol: Option<(String, Range<usize>)>,
}

/// What a text holds of JSON.
#[derive(Debug, Default)]
pub(super) struct Json {
    pub(super) objects: Vec<Object>,
    /// Places of escapes by a letter, as `\\n`, in strings, ascending.
    pub(super) escapes: Vec<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Key {
    File,
    Line,
    Start,
    End,
    Range,
    /// By how much it says: the lowest wins.
    Symbol(u8),
}

fn key(name: &str) -> Option<Key> {
    Some(match name {
        "file" | "path" | "file_path" | "filepath" | "filename" => Key::File,
        "line" | "lines" | "line_number" | "lineno" => Key::Line,
        "line_start" | "start_line" => Key::Start,
        "line_end" | "end_line" => Key::End,
        "line_range" => Key::Range,
        "symbol" => Key::Symbol(0),
        "function" => Key::Symbol(1),
        "method" => Key::Symbol(2),
        "class" => Key::Symbol(3),
        _ => return None,
    })
}

enum Value {
    /// A string, with its quotes.
    Text(Range<usize>),
    Number(u64),
    List(Vec<Value>),
    Other,
}

struct Pair {
    key: Key,
    span: Range<usize>,
    value: Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Want {
    Key,
    Colon,
    Value,
    Next,
}

struct Frame {
    object: bool,
    want: Want,
    /// The key whose value comes, and where its pair begins.
    key: (Option<Key>, usize),
    pairs: Vec<Pair>,
    /// Of an array whose elements are of interest.
    items: Vec<Value>,
    keeps: bool,
}

impl Frame {
    fn object() -> Self {
        Self {
            object: true,
            want: Want::Key,
            key: (None, 0),
            pairs: Vec::new(),
            items: Vec::new(),
            keeps: false,
        }
    }

    fn array(keeps: bool) -> Self {
        Self { object: false, want: Want::Value, keeps, ..Self::object() }
    }

    /// Takes a value that ends before `end`.
    fn take(&mut self, value: Value, end: usize) {
        self.want = Want::Next;
        if !self.object {
            if self.keeps && self.items.len() < MOST {
                self.items.push(value);
            }
        } else if let (Some(key), start) = self.key {
            self.pairs.push(Pair { key, span: start..end, value });
        }
    }
}

/// Reads the JSON in a text.
pub(super) fn scan(text: &str, known: &dyn Known) -> Json {
    let bytes = text.as_bytes();
    let mut out = Json::default();
    let mut stack: Vec<Frame> = Vec::new();
    let mut at = 0;
    loop {
        let depth = stack.len();
        let Some(frame) = stack.last_mut() else {
            let Some(open) = memchr::memchr(b'{', &bytes[at..]) else { break };
            at += open + 1;
            stack.push(Frame::object());
            continue;
        };
        let Some(byte) = bytes.get(at).copied() else { break };
        if byte.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        let mut sound = true;
        match (frame.want, byte) {
            (Want::Key, b'"') => match string(bytes, at, &mut out.escapes) {
                Ok(end) => {
                    frame.key = (key(&text[at + 1..end - 1]), at);
                    frame.want = Want::Colon;
                    at = end;
                }
                Err(end) => (at, sound) = (end, false),
            },
            (Want::Colon, b':') => {
                frame.want = Want::Value;
                at += 1;
            }
            (Want::Next, b',') => {
                frame.want = if frame.object { Want::Key } else { Want::Value };
                at += 1;
            }
            // A comma before the end is let through.
            (Want::Key | Want::Next, b'}') if frame.object => {
                at += 1;
                out.objects.extend(citation(text, &frame.pairs, known));
                close(&mut stack, Value::Other, at);
            }
            (Want::Value | Want::Next, b']') if !frame.object => {
                at += 1;
                let items = std::mem::take(&mut frame.items);
                close(&mut stack, Value::List(items), at);
            }
            (Want::Value, b'"') => match string(bytes, at, &mut out.escapes) {
                Ok(end) => {
                    frame.take(Value::Text(at..end), end);
                    at = end;
                }
                Err(end) => (at, sound) = (end, false),
            },
            (Want::Value, b'{' | b'[') if depth < DEEPEST => {
                let keeps = frame.object && matches!(frame.key.0, Some(Key::Line | Key::Range));
                stack.push(if byte == b'{' { Frame::object() } else { Frame::array(keeps) });
                at += 1;
            }
            (Want::Value, b'-' | b'0'..=b'9' | b'a'..=b'z') => {
                let (value, end) = scalar(text, at);
                match value {
                    Some(value) => frame.take(value, end),
                    None => sound = false,
                }
                at = end;
            }
            _ => sound = false,
        }
        if !sound {
            stack.clear();
        }
    }
    out.objects.sort_by_key(|object| object.span.start);
    out
}

/// Ends the innermost frame, which is a value of the one around it.
fn close(stack: &mut Vec<Frame>, value: Value, end: usize) {
    stack.pop();
    if let Some(around) = stack.last_mut() {
        around.take(value, end);
    }
}

/// Place behind the string at `at`, or where it turns out to be none.
fn string(bytes: &[u8], at: usize, escapes: &mut Vec<usize>) -> Result<usize, usize> {
    let mut at = at + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return Ok(at + 1),
            b'\\' => {
                if bytes.get(at + 1).is_some_and(u8::is_ascii_alphabetic) {
                    escapes.push(at);
                }
                at += 2;
            }
            b'\n' | b'\r' => return Err(at),
            _ => at += 1,
        }
    }
    Err(bytes.len())
}

/// The number or word at `at` and the place behind it.
fn scalar(text: &str, at: usize) -> (Option<Value>, usize) {
    let bytes = &text.as_bytes()[at..];
    let plain = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'+' | b'.');
    let end = at + bytes.iter().take_while(plain).count().max(1);
    let word = &text[at..end];
    let value = match word {
        "true" | "false" | "null" => Some(Value::Other),
        _ => match word.parse::<u64>() {
            Ok(number) => Some(Value::Number(number)),
            Err(_) => word.parse::<f64>().ok().map(|_| Value::Other),
        },
    };
    (value, end)
}

/// The text of a string with its quotes.
fn decode(text: &str, span: &Range<usize>) -> Option<String> {
    serde_json::from_str(text.get(span.clone())?).ok()
}

/// The citation that the pairs of an object make.
fn citation(text: &str, pairs: &[Pair], known: &dyn Known) -> Option<Object> {
    let (file, path) =
        pairs.iter().filter(|pair| pair.key == Key::File).find_map(|pair| match &pair.value {
            Value::Text(span) => {
                decode(text, span).filter(|file| token::is_whole(file, known)).map(|file| (file, pair))
            }
            _ => None,
        })?;
    let (lines, mut span) = pairs.iter().find_map(|pair| {
        let one = |value| single(text, value);
        match (pair.key, &pair.value) {
            (Key::Line, Value::List(items)) => {
                let lines: Option<Vec<_>> = items.iter().map(one).collect();
                Some((lines.filter(|lines| !lines.is_empty())?, pair.span.clone()))
            }
            (Key::Range, Value::List(items)) => match items.as_slice() {
                [from, to] => match (one(from)?, one(to)?) {
                    ((from, None), (to, None)) => Some((vec![(from, Some(to))], pair.span.clone())),
                    _ => None,
                },
                _ => None,
            },
            (Key::Line | Key::Range, value) => Some((vec![one(value)?], pair.span.clone())),
            (Key::Start, value) => {
                let (from, None) = one(value)? else { return None };
                let end =
                    pairs.iter().filter(|pair| pair.key == Key::End).find_map(
                        |pair| match one(&pair.value) {
                            Some((to, None)) => Some((to, &pair.span)),
                            _ => None,
                        },
                    );
                let span = end.map_or(pair.span.clone(), |(_, end)| around(&pair.span, end));
                Some((vec![(from, end.map(|(to, _)| to))], span))
            }
            _ => None,
        }
    })?;
    span = around(&span, &path.span);
    let named = pairs.iter().filter_map(|pair| match (pair.key, &pair.value) {
        (Key::Symbol(rank), Value::Text(span)) => {
            let name = decode(text, span)?;
            Some((rank, name::of_code(&name)?.to_owned(), span.clone()))
        }
        _ => None,
    });
    let symbol = named.min_by_key(|(rank, _, _)| *rank).map(|(_, name, span)| (name, span));
    Some(Object { span, file: token::bare(&file).to_owned(), lines, symbol })
}

fn around(one: &Range<usize>, other: &Range<usize>) -> Range<usize> {
    one.start.min(other.start)..one.end.max(other.end)
}

/// A line or a range: `12`, `"12"`, `"12-20"`.
fn single(text: &str, value: &Value) -> Option<Given> {
    match value {
        Value::Number(line) => Some((*line, None)),
        Value::Text(span) => {
            let text = decode(text, span)?;
            let lines = locator::range(&text, 0, Style::Marks)?;
            (lines.span.end == text.len()).then_some(lines.given)
        }
        Value::List(_) | Value::Other => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grade::citation::Nothing;

    fn objects(text: &str) -> Vec<(String, Vec<Given>, Option<String>)> {
        let found = scan(text, &Nothing).objects.into_iter();
        found.map(|o| (o.file, o.lines, o.symbol.map(|(name, _)| name))).collect()
    }

    fn one(file: &str, lines: &[Given], symbol: Option<&str>) -> Vec<(String, Vec<Given>, Option<String>)> {
        vec![(file.to_owned(), lines.to_vec(), symbol.map(str::to_owned))]
    }

    #[test]
    fn objects_stand_anywhere() {
        let want = one("a.py", &[(3, None)], None);
        for text in [
            r#"x {"file": "a.py", "line": 3} y"#,
            r#"{ no {"file": "a.py", "line": 3} }"#,
            r#"{"a": [{"b": {"file": ".\/a.py", "line": "3",},}]}"#,
            r#"{"file": "a.py", "line": 3}{"file": "a.py""#,
            r#"{"x": tru, {"line": 3.5, "lineno": 3, "path": "a.py"}"#,
            "{\"open\n{\"file\": \"a.py\", \"line\": 3}",
        ] {
            assert_eq!(objects(text), want, "{text}");
        }
        for none in [
            r#"{"file": "a.py", "line": -3}"#,
            r#"{"file": "a.py", "line": 3"#,
            r#"{"file": "a.py", "line": "3x"}"#,
            r#"{"file": "see a.py", "line": 3}"#,
            r#"{"file": "a.py", "line": [3, null]}"#,
            r#"{"file": "a.py", "line": []}"#,
            r#"{"file": "a.py", "line_range": [1, 2, 3]}"#,
            r#"{"file": ["a.py"], "line": {"line": 3}}"#,
            r"{'file': 'a.py', 'line': 3}",
            r#"{"file": "a.py", "end_line": 3}"#,
        ] {
            assert_eq!(objects(none), [], "{none}");
        }
    }

    #[test]
    fn ranges_and_symbols() {
        let text = r#"{"class": "A", "method": "f()", "end_line": 9, "file": "a.py", "start_line": "3"}"#;
        assert_eq!(objects(text), one("a.py", &[(3, Some(9))], Some("f")));
        let text = r#"{"file": "a.py", "lines": ["3-9", 4], "symbol": "not one", "class": "A.B"}"#;
        assert_eq!(objects(text), one("a.py", &[(3, Some(9)), (4, None)], Some("A.B")));
    }

    #[test]
    fn depth_and_nonsense_are_nothing() {
        for text in
            ["{".repeat(100_000), "[{\"a\":".repeat(50_000), "{\"a\":[".repeat(50_000), "{\"".repeat(50_000)]
        {
            assert!(scan(&text, &Nothing).objects.is_empty());
        }
        assert_eq!(scan(r#"{"a": "\n\\n\u00e9\"x"}"#, &Nothing).escapes, [7, 12]);
    }
}
