//! YAML as another benchmark's own loader understands it: version 1.1 with the
//! resolution of `PyYAML`'s `safe_load`, where `no` is false, `010` is eight
//! and `1:30` is ninety.
//!
//! The parser gives events with the style of every scalar, so that a quoted
//! `no` stays a text. A file is hostile until read: its size, depth, number of
//! values and what its aliases grow to are bounded.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, Tag};
use serde_json::{Map, Number, Value};

/// The largest file, in bytes.
pub const LARGEST: usize = 4 << 20;
/// The deepest nesting of mappings and sequences.
pub const DEEPEST: usize = 64;
/// The most values, those that aliases repeat included.
pub const MOST_VALUES: usize = 500_000;
/// The most bytes of text in them, those that aliases repeat included.
pub const MOST_TEXT: usize = 32 << 20;

/// Why a text is not one YAML document of a bearable size.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    /// More than [`LARGEST`] bytes.
    #[error("the file has more than 4 MiB")]
    TooLarge,
    /// It is no text.
    #[error("the file is not UTF-8")]
    NotUtf8,
    /// The parser refuses it.
    #[error("line {line}, column {column}: {why}")]
    Syntax {
        /// 1-based line.
        line: usize,
        /// 1-based column, in characters.
        column: usize,
        /// The parser's words.
        why: String,
    },
    /// Something that has no meaning here, such as a tag of a program's own types.
    #[error("line {line}, column {column}: {what}")]
    Refused {
        /// 1-based line.
        line: usize,
        /// 1-based column, in characters.
        column: usize,
        /// What it is.
        what: String,
    },
    /// A bound is passed.
    #[error("line {line}: more {what} than are read")]
    TooMuch {
        /// 1-based line.
        line: usize,
        /// Of what.
        what: &'static str,
    },
}

impl From<ScanError> for YamlError {
    fn from(error: ScanError) -> Self {
        let at = error.marker();
        Self::Syntax { line: at.line(), column: at.col() + 1, why: error.info().to_owned() }
    }
}

/// Reads one document; an empty text is null.
///
/// Whole numbers that fit are numbers, larger ones, infinities and dates are
/// texts as they are written. Keys that are no texts become the texts that JSON
/// would have: `true`, `null`, `12`. Of equal keys the last one counts.
///
/// # Errors
/// When the text is no YAML, holds several documents or types that a safe
/// loader refuses, or passes a bound.
pub fn read(bytes: &[u8]) -> Result<Value, YamlError> {
    if bytes.len() > LARGEST {
        return Err(YamlError::TooLarge);
    }
    let text = std::str::from_utf8(bytes).map_err(|_| YamlError::NotUtf8)?;
    let mut reader = Reader::default();
    for event in Parser::new_from_str(text.strip_prefix('\u{feff}').unwrap_or(text)) {
        let (event, span) = event?;
        reader.take(event, span)?;
    }
    Ok(reader.document.map_or(Value::Null, |node| node.value))
}

/// A finished value, and what it costs to repeat it.
#[derive(Clone, Debug)]
struct Node {
    value: Value,
    /// A plain `<<`: as a key it takes in other mappings.
    merge: bool,
    size: Cost,
}

/// A mapping or sequence whose end hasn't come yet.
#[derive(Debug)]
enum Open {
    List { anchor: usize, items: Vec<Value> },
    Table { anchor: usize, merged: Vec<Map<String, Value>>, own: Map<String, Value>, key: Key },
}

/// What a mapping has of its next entry.
#[derive(Debug)]
enum Key {
    None,
    Text(String),
    Merge,
}

#[derive(Debug, Default)]
struct Reader {
    /// What is open, outermost first, each with the size of what it holds so far.
    open: Vec<(Open, Cost)>,
    anchors: HashMap<usize, Node>,
    document: Option<Node>,
    documents: usize,
    spent: Cost,
}

/// How much was read or repeated.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    values: usize,
    text: usize,
}

impl Reader {
    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), YamlError> {
        let at = span.start;
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => Ok(()),
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    return Err(refused(at, "a second document begins here, and one is read"));
                }
                Ok(())
            }
            Event::Alias(id) => {
                let Some(node) = self.anchors.get(&id) else {
                    return Err(refused(at, "an alias stands inside of what it repeats"));
                };
                // Counted before anything is copied.
                let size = node.size;
                let node = if self.fits(size) { Some(node.clone()) } else { None };
                self.spend(size, at)?;
                node.map_or(Ok(()), |node| self.put(node, at))
            }
            Event::Scalar(text, style, anchor, tag) => {
                let size = Cost { values: 1, text: text.len() };
                self.spend(size, at)?;
                let merge = text == "<<" && style == ScalarStyle::Plain && tag.is_none();
                let value = scalar(&text, style, tag.as_deref(), at)?;
                self.finish(Node { value, merge, size }, anchor, at)
            }
            Event::SequenceStart(anchor, tag) => {
                is_tag(tag.as_deref(), "seq", at)?;
                self.begin(Open::List { anchor, items: Vec::new() }, at)
            }
            Event::MappingStart(anchor, tag) => {
                is_tag(tag.as_deref(), "map", at)?;
                let (merged, own, key) = (Vec::new(), Map::new(), Key::None);
                self.begin(Open::Table { anchor, merged, own, key }, at)
            }
            Event::SequenceEnd | Event::MappingEnd => self.end(at),
        }
    }

    fn fits(&self, cost: Cost) -> bool {
        self.spent.values + cost.values <= MOST_VALUES && self.spent.text + cost.text <= MOST_TEXT
    }

    fn spend(&mut self, cost: Cost, at: Marker) -> Result<(), YamlError> {
        self.spent.values += cost.values;
        self.spent.text += cost.text;
        let line = at.line();
        if self.spent.values > MOST_VALUES {
            return Err(YamlError::TooMuch { line, what: "values" });
        }
        if self.spent.text > MOST_TEXT {
            return Err(YamlError::TooMuch { line, what: "bytes of text" });
        }
        Ok(())
    }

    fn begin(&mut self, open: Open, at: Marker) -> Result<(), YamlError> {
        if self.open.len() >= DEEPEST {
            return Err(YamlError::TooMuch { line: at.line(), what: "levels" });
        }
        let size = Cost { values: 1, text: 0 };
        self.spend(size, at)?;
        self.open.push((open, size));
        Ok(())
    }

    fn end(&mut self, at: Marker) -> Result<(), YamlError> {
        let Some((open, size)) = self.open.pop() else { return Ok(()) };
        let (anchor, value) = match open {
            Open::List { anchor, items } => (anchor, Value::Array(items)),
            Open::Table { anchor, merged, own, .. } => {
                // What is merged in stands before the mapping's own entries, and gives way to them.
                let mut tables = merged.into_iter().chain([own]);
                let mut whole = tables.next().unwrap_or_default();
                tables.for_each(|table| whole.extend(table));
                (anchor, Value::Object(whole))
            }
        };
        self.finish(Node { value, merge: false, size }, anchor, at)
    }

    /// Keeps a value that has an anchor, and puts it where it belongs.
    fn finish(&mut self, node: Node, anchor: usize, at: Marker) -> Result<(), YamlError> {
        if anchor != 0 {
            self.spend(node.size, at)?;
            self.anchors.insert(anchor, node.clone());
        }
        self.put(node, at)
    }

    fn put(&mut self, node: Node, at: Marker) -> Result<(), YamlError> {
        let Some((open, size)) = self.open.last_mut() else {
            self.document = Some(node);
            return Ok(());
        };
        size.values += node.size.values;
        size.text += node.size.text;
        match open {
            Open::List { items, .. } => items.push(node.value),
            Open::Table { merged, own, key, .. } => match std::mem::replace(key, Key::None) {
                Key::None if node.merge => *key = Key::Merge,
                Key::None => *key = Key::Text(key_text(node.value, at)?),
                Key::Text(name) => {
                    own.insert(name, node.value);
                }
                Key::Merge => merge(merged, node.value, at)?,
            },
        }
        Ok(())
    }
}

/// Takes in a mapping, or a list of mappings of which earlier ones win.
fn merge(merged: &mut Vec<Map<String, Value>>, value: Value, at: Marker) -> Result<(), YamlError> {
    match value {
        Value::Object(table) => {
            merged.push(table);
            Ok(())
        }
        Value::Array(list) => {
            for item in list.into_iter().rev() {
                let Value::Object(table) = item else {
                    return Err(refused(at, "`<<` takes mappings only"));
                };
                merged.push(table);
            }
            Ok(())
        }
        _ => Err(refused(at, "`<<` takes a mapping or a list of mappings")),
    }
}

/// A key as the text that JSON would have.
fn key_text(value: Value, at: Marker) -> Result<String, YamlError> {
    match value {
        Value::String(text) => Ok(text),
        Value::Null => Ok("null".to_owned()),
        Value::Bool(flag) => Ok(flag.to_string()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Array(_) | Value::Object(_) => Err(refused(at, "a list or mapping can't be a key")),
    }
}

fn refused(at: Marker, what: impl Into<String>) -> YamlError {
    YamlError::Refused { line: at.line(), column: at.col() + 1, what: what.into() }
}

/// What the standard types' tags begin with when they are written out.
const STANDARD: &str = "tag:yaml.org,2002:";

/// The name of a standard tag; none for no tag or the unspecific one.
fn standard(tag: Option<&Tag>, at: Marker) -> Result<Option<&str>, YamlError> {
    match tag {
        None => Ok(None),
        Some(tag) if tag.is_yaml_core_schema() => Ok(Some(&tag.suffix)),
        Some(tag) if format!("{}{}", tag.handle, tag.suffix) == "!" => Ok(None),
        Some(Tag { handle, suffix }) if handle.is_empty() && suffix.starts_with(STANDARD) => {
            Ok(Some(&suffix[STANDARD.len()..]))
        }
        Some(tag) => Err(refused(at, format!("the tag `{tag}` is of no known type"))),
    }
}

fn is_tag(tag: Option<&Tag>, wanted: &str, at: Marker) -> Result<(), YamlError> {
    match standard(tag, at)? {
        Some(other) if other != wanted => Err(refused(at, format!("a `!!{other}` is not read here"))),
        _ => Ok(()),
    }
}

fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>, at: Marker) -> Result<Value, YamlError> {
    let wrong = |what: &str| refused(at, format!("`{}` is not {what}", beginning(text)));
    match standard(tag, at)? {
        // With the unspecific tag even quoted texts are resolved.
        None if style == ScalarStyle::Plain || tag.is_some() => plain(text).map_err(wrong),
        None | Some("str" | "timestamp") => Ok(Value::String(text.to_owned())),
        Some("null") => Ok(Value::Null),
        Some("bool") => boolean(&text.to_lowercase()).map(Value::Bool).ok_or_else(|| wrong("yes or no")),
        Some("int") => whole(text).ok_or_else(|| wrong("a whole number")),
        Some("float") => float(text).ok_or_else(|| wrong("a number")),
        Some(other) => Err(refused(at, format!("a `!!{other}` is not read here"))),
    }
}

/// The beginning of a text that may be long.
fn beginning(text: &str) -> String {
    text.chars().take(40).collect()
}

static WHOLE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"^(?:[-+]?0b[01_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)$",
    )
    .ok()
});
static FLOAT: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$",
    )
    .ok()
});

/// What a plain scalar means: the implicit resolvers of YAML 1.1.
fn plain(text: &str) -> Result<Value, &'static str> {
    if matches!(text, "" | "~" | "null" | "Null" | "NULL") {
        return Ok(Value::Null);
    }
    let is_word = |text: &str| {
        let lower = text.to_lowercase();
        let title =
            lower.chars().next().into_iter().flat_map(char::to_uppercase).chain(lower.chars().skip(1));
        text == lower || text == lower.to_uppercase() || text.chars().eq(title)
    };
    if text.len() <= 5
        && let Some(flag) = boolean(&text.to_lowercase())
        && is_word(text)
    {
        return Ok(Value::Bool(flag));
    }
    if !text.starts_with(|c: char| c.is_ascii_digit() || "-+.".contains(c)) {
        return Ok(Value::String(text.to_owned()));
    }
    let matches =
        |pattern: &LazyLock<Option<Regex>>| pattern.as_ref().is_some_and(|regex| regex.is_match(text));
    if matches(&FLOAT) {
        return float(text).ok_or("a number");
    }
    if matches(&WHOLE) {
        return whole(text).ok_or("a whole number");
    }
    Ok(Value::String(text.to_owned()))
}

fn boolean(lower: &str) -> Option<bool> {
    match lower {
        "yes" | "true" | "on" => Some(true),
        "no" | "false" | "off" => Some(false),
        _ => None,
    }
}

/// A whole number: binary, octal, hexadecimal, to the base 60, decimal. One that
/// doesn't fit stays the text that it is.
fn whole(text: &str) -> Option<Value> {
    let digits = text.replace('_', "");
    let (negative, digits) = sign(&digits);
    let (digits, radix) = if digits == "0" {
        (digits, 10)
    } else if let Some(digits) = digits.strip_prefix("0b") {
        (digits, 2)
    } else if let Some(digits) = digits.strip_prefix("0x") {
        (digits, 16)
    } else if digits.starts_with('0') {
        (digits, 8)
    } else {
        (digits, 10)
    };
    if radix != 10 && digits.contains(':') {
        return None;
    }
    let mut value: Option<i128> = Some(0);
    for part in digits.split(':') {
        if part.is_empty() {
            return None;
        }
        let mut own: Option<i128> = Some(0);
        for c in part.chars() {
            let digit = i128::from(c.to_digit(radix)?);
            own = own.and_then(|own| own.checked_mul(i128::from(radix))?.checked_add(digit));
        }
        value = value.and_then(|value| value.checked_mul(60)?.checked_add(own?));
    }
    let fitting =
        value.map(|value| if negative { -value } else { value }).and_then(|v| i64::try_from(v).ok());
    Some(fitting.map_or_else(|| Value::String(text.to_owned()), |fitting| Value::Number(fitting.into())))
}

fn sign(digits: &str) -> (bool, &str) {
    match digits.as_bytes().first() {
        Some(b'-') => (true, &digits[1..]),
        Some(b'+') => (false, &digits[1..]),
        _ => (false, digits),
    }
}

/// A number with a fraction; infinities and no-number stay the texts that they are.
fn float(text: &str) -> Option<Value> {
    let digits = text.replace('_', "").to_lowercase();
    let (negative, digits) = sign(&digits);
    if matches!(digits, ".inf" | ".nan") {
        return Some(Value::String(text.to_owned()));
    }
    // Summed from the last part on, as the reference does: other orders round otherwise.
    let (mut value, mut base) = (0.0_f64, 1.0_f64);
    for part in digits.rsplit(':') {
        let numeric = part.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        value += part.parse::<f64>().ok().filter(|_| numeric)? * base;
        base *= 60.0;
    }
    let value = if negative { -value } else { value };
    Some(Number::from_f64(value).map_or_else(|| Value::String(text.to_owned()), Value::Number))
}
