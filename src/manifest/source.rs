//! A TOML file as read: its text, its values, and where each of them stands.
//!
//! A file is hostile until read: its size, depth and number of values are
//! bounded, and a syntax error hides as little of the rest as possible. The
//! statement that holds one is blanked out and the file is read again, so
//! several errors show at once and what is sound is still checked.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Map, Number, Value};
use toml::de::{DeTable, DeValue};

use super::path::KeyPath;
use super::syntax;
use crate::diag::{self, Diagnostic, Place};

/// The largest file, in bytes.
pub const LARGEST: usize = 1 << 20;
/// The deepest nesting of tables and lists.
pub const DEEPEST: usize = 24;
/// The most values in a file.
pub const MOST_VALUES: usize = 200_000;

/// A file's name and text.
#[derive(Clone, Debug)]
pub struct Text {
    /// The file as the user named it.
    pub path: Arc<str>,
    /// What it says.
    pub text: Arc<str>,
    /// Where its lines begin.
    lines: Arc<[usize]>,
}

impl Text {
    fn new(path: &str, text: &str) -> Self {
        Self { path: path.into(), text: text.into(), lines: diag::line_starts(text).into() }
    }

    /// A place in it.
    #[must_use]
    pub fn place(&self, range: &Range<usize>) -> Place {
        Place::in_lines(&self.path, &self.text, &self.lines, range.start, range.end)
    }
}

/// Where a value stands.
#[derive(Clone, Debug)]
pub(super) struct Spot {
    /// Index of the file.
    file: usize,
    /// Its key; none for the root and list entries.
    key: Option<Range<usize>>,
    /// The value itself; of a `[table]`, its header.
    value: Range<usize>,
    /// Where the value and all inside it end.
    end: usize,
    /// Of a list, its entries: a matrix may have many thousand.
    entries: Vec<Range<usize>>,
}

/// One or (after [`Document::overlay`]) several files as one tree of values.
#[derive(Clone, Debug)]
pub struct Document {
    /// The files; the first is the one that was asked for.
    files: Vec<Text>,
    /// The values, tables in the order of the file; dates as texts.
    pub value: Value,
    spots: BTreeMap<KeyPath, Spot>,
    /// Statements with syntax errors: names in them may be missed elsewhere.
    broken: Vec<String>,
    /// The file is text of a bearable size; else nothing of it is known.
    readable: bool,
}

impl Document {
    /// Reads `bytes`, the content of the file that the user named `path`, and
    /// says what is wrong with it as TOML. Some of the document is there even
    /// when there are errors.
    #[must_use]
    pub fn parse(path: &str, bytes: &[u8]) -> (Self, Vec<Diagnostic>) {
        match readable(path, bytes) {
            Ok(text) => Self::parse_text(path, text),
            Err(diagnostic) => (Self { readable: false, ..Self::empty(path, "") }, vec![*diagnostic]),
        }
    }

    fn empty(path: &str, text: &str) -> Self {
        let text = Text::new(path, text);
        let root = Spot { file: 0, key: None, value: 0..0, end: text.text.len(), entries: Vec::new() };
        Self {
            files: vec![text],
            value: Value::Object(Map::new()),
            spots: BTreeMap::from([(KeyPath::root(), root)]),
            broken: Vec::new(),
            readable: true,
        }
    }

    /// Whether the files are text of a bearable size; else nothing of them is known.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.readable
    }

    fn parse_text(path: &str, text: &str) -> (Self, Vec<Diagnostic>) {
        let mut out = Self::empty(path, text);
        let file = out.files[0].clone();
        let (sound, faults) = syntax::sound_part(text);
        out.broken = faults.iter().filter_map(|f| f.blanked.clone()).map(|r| text[r].to_owned()).collect();
        let (table, _) = DeTable::parse_recoverable(&sound);
        let mut walk = Walk { file: &file, spots: &mut out.spots, found: Vec::new(), values: 0 };
        let (value, _) = walk.table(table.get_ref(), &KeyPath::root(), 0);
        let mut found = walk.found;
        out.value = Value::Object(value);
        for fault in faults {
            found.push(out.syntax_diagnostic(&file, &fault));
        }
        crate::diag::sort(&mut found);
        (out, found)
    }

    fn syntax_diagnostic(&self, file: &Text, fault: &syntax::Fault) -> Diagnostic {
        let code = if fault.duplicate { "duplicate-key" } else { "syntax" };
        let text = if fault.duplicate { "given again here" } else { "" };
        let diagnostic = Diagnostic::error(code, &fault.message).at(file.place(&fault.at), text);
        let first = fault.duplicate.then_some(()).and_then(|()| {
            let key = file.text.get(fault.at.clone())?;
            self.earlier(key, fault.at.start)
        });
        diagnostic.maybe_at(first.map(|range| file.place(&range)), "first given here").help(&*fault.help)
    }

    /// The key of the same spelling that stands last before `offset`.
    fn earlier(&self, key: &str, offset: usize) -> Option<Range<usize>> {
        let spelled =
            |spot: &Spot| spot.key.clone().filter(|k| self.files[0].text.get(k.clone()) == Some(key));
        self.spots.values().filter_map(spelled).filter(|k| k.end <= offset).max_by_key(|k| k.start)
    }

    /// Lays `self` over `base`: tables are merged key by key, except that an
    /// axis, a composite and a gate are replaced whole; all else is replaced.
    /// Places keep naming the file that a value comes from.
    #[must_use]
    pub fn overlay(mut self, base: Self) -> Self {
        let shift = self.files.len();
        let mut moved = base.spots;
        for spot in moved.values_mut() {
            spot.file += shift;
        }
        self.files.extend(base.files);
        self.broken.extend(base.broken);
        self.readable &= base.readable;
        let over = std::mem::take(&mut self.value);
        self.value = merge(base.value, over, &KeyPath::root(), &mut |replaced| {
            // What the replaced value held is gone, and so are its places.
            let inside = moved.range(replaced.clone()..).map(|(path, _)| path.clone());
            let gone: Vec<KeyPath> = inside.take_while(|path| path.0.starts_with(&replaced.0)).collect();
            for path in gone {
                moved.remove(&path);
            }
        });
        for (path, spot) in moved {
            self.spots.entry(path).or_insert(spot);
        }
        self
    }

    /// The file that was asked for.
    #[must_use]
    pub fn file(&self) -> &Text {
        &self.files[0]
    }

    /// Whether `name` stands in a statement that could not be read, so that
    /// missing it elsewhere would only repeat that error.
    #[must_use]
    pub fn excuses(&self, name: &str) -> bool {
        !self.readable || self.broken.iter().any(|statement| statement.contains(name))
    }

    /// Whether any of the files mentions `word`, on its own and not as part of a longer name.
    #[must_use]
    pub fn mentions(&self, word: &str) -> bool {
        let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
        self.files.iter().any(|file| {
            file.text.match_indices(word).any(|(at, _)| !file.text[at + word.len()..].starts_with(part))
        })
    }

    /// The value at `path`.
    #[must_use]
    pub fn get(&self, path: &KeyPath) -> Option<&Value> {
        path.0.iter().try_fold(&self.value, |value, step| match step {
            super::path::Step::Key(key) => value.get(key),
            super::path::Step::Index(at) => value.get(at),
        })
    }

    /// The keys of the table at `path`, in order.
    #[must_use]
    pub fn keys(&self, path: &KeyPath) -> Vec<&str> {
        self.get(path)
            .and_then(Value::as_object)
            .map_or_else(Vec::new, |table| table.keys().map(String::as_str).collect())
    }

    fn spot(&self, path: &KeyPath) -> Cow<'_, Spot> {
        let mut path = path.clone();
        loop {
            if let Some(spot) = self.spots.get(&path) {
                return Cow::Borrowed(spot);
            }
            if let Some(super::path::Step::Index(at)) = path.0.last()
                && let Some(list) = self.spots.get(&path.parent())
                && let Some(value) = list.entries.get(*at)
            {
                let (value, end) = (value.clone(), value.end);
                return Cow::Owned(Spot { file: list.file, key: None, value, end, entries: Vec::new() });
            }
            if path.0.pop().is_none() {
                // The root's spot is put in by every constructor.
                return Cow::Borrowed(self.spots.values().next().unwrap_or(&NOWHERE));
            }
        }
    }

    /// The place of the key at `path`, or of the value where it has none.
    #[must_use]
    pub fn key_place(&self, path: &KeyPath) -> Place {
        let spot = self.spot(path);
        self.files[spot.file].place(spot.key.as_ref().unwrap_or(&spot.value))
    }

    /// The place of the value at `path`; of a `[table]`, its header. A path
    /// that is not in the file gets the place of the nearest table around it.
    #[must_use]
    pub fn value_place(&self, path: &KeyPath) -> Place {
        let spot = self.spot(path);
        self.files[spot.file].place(&spot.value)
    }

    /// The place of a whole table, from its header to its last value.
    #[must_use]
    pub fn table_place(&self, path: &KeyPath) -> Place {
        let spot = self.spot(path);
        self.files[spot.file].place(&(spot.value.start..spot.end))
    }
}

static NOWHERE: Spot = Spot { file: 0, key: None, value: 0..0, end: 0, entries: Vec::new() };

/// The text of a file, or why it can't be read as one.
fn readable<'b>(path: &str, bytes: &'b [u8]) -> Result<&'b str, Box<Diagnostic>> {
    if bytes.len() > LARGEST {
        return Err(Box::new(
            Diagnostic::error("too-large", format!("`{path}` has {} bytes, more than 1 MiB", bytes.len()))
                .at(Place::new(path, "", 0, 0), "")
                .help("split it into several files"),
        ));
    }
    std::str::from_utf8(bytes).map_err(|error| {
        let sound = String::from_utf8_lossy(&bytes[..error.valid_up_to()]);
        let place = Place::new(path, &sound, sound.len(), sound.len());
        Box::new(
            Diagnostic::error("not-utf8", format!("`{path}` is not UTF-8 text"))
                .at(place, "the first byte that isn't")
                .help("save the file in UTF-8"),
        )
    })
}

fn merge(base: Value, over: Value, path: &KeyPath, replaced: &mut dyn FnMut(&KeyPath)) -> Value {
    match (base, over) {
        (Value::Object(mut base), Value::Object(over)) if !whole(path) => {
            for (key, value) in over {
                let inner = path.key(&key);
                if let Some(old) = base.get_mut(&key) {
                    *old = merge(std::mem::take(old), value, &inner, replaced);
                } else {
                    base.insert(key, value);
                }
            }
            Value::Object(base)
        }
        (_, over) => {
            replaced(path);
            over
        }
    }
}

/// Tables that an overlay replaces whole: half of an old axis, composite or
/// bound under a new one would mean something that nobody wrote.
fn whole(path: &KeyPath) -> bool {
    use super::path::Step;
    matches!(&path.0[..], [Step::Key(table), Step::Key(_)] if matches!(table.as_str(), "axes" | "composite" | "gate"))
}

struct Walk<'a> {
    file: &'a Text,
    spots: &'a mut BTreeMap<KeyPath, Spot>,
    found: Vec<Diagnostic>,
    values: usize,
}

impl Walk<'_> {
    /// The table as JSON and the offset after all that is in it.
    fn table(&mut self, table: &DeTable<'_>, path: &KeyPath, depth: usize) -> (Map<String, Value>, usize) {
        let mut entries: Vec<_> = table.iter().collect();
        // The parser sorts by name; axes, arms and stages mean an order.
        entries.sort_by_key(|(key, value)| (key.span().start, value.span().start));
        let mut out = Map::new();
        let mut end = 0;
        for (key, value) in entries {
            let inner = path.key(key.get_ref());
            let key_span = key.span();
            let (json, last) =
                self.value(value.get_ref(), &inner, Some(key_span.clone()), value.span(), depth + 1);
            end = end.max(last).max(key_span.end);
            if let Some(json) = json {
                out.insert(key.get_ref().clone().into_owned(), json);
            }
        }
        (out, end)
    }

    fn value(
        &mut self,
        value: &DeValue<'_>,
        path: &KeyPath,
        key: Option<Range<usize>>,
        span: Range<usize>,
        depth: usize,
    ) -> (Option<Value>, usize) {
        if !self.counted(&span) {
            return (None, span.end);
        }
        let mut entries = Vec::new();
        let (json, end) = match value {
            DeValue::String(text) => (Some(Value::String(text.clone().into_owned())), span.end),
            DeValue::Integer(number) => (self.integer(number.as_str(), number.radix(), &span), span.end),
            DeValue::Float(number) => (self.float(number.as_str(), &span), span.end),
            DeValue::Boolean(flag) => (Some(Value::Bool(*flag)), span.end),
            DeValue::Datetime(date) => (Some(Value::String(date.to_string())), span.end),
            DeValue::Array(_) | DeValue::Table(_) if depth > DEEPEST => {
                let message = format!("tables and lists are nested more than {DEEPEST} deep");
                self.refuse("too-deep", message, &span, "no file of proofline needs such depth");
                (None, span.end)
            }
            DeValue::Array(list) => {
                let mut out = Vec::with_capacity(list.len());
                let mut end = span.end;
                for entry in list {
                    let (json, last) = match entry.get_ref() {
                        // It has no path of its own: the list knows where it stands.
                        DeValue::String(text) if self.counted(&entry.span()) => {
                            (Some(Value::String(text.clone().into_owned())), entry.span().end)
                        }
                        DeValue::String(_) => (None, entry.span().end),
                        other => {
                            let inner = path.index(out.len());
                            self.value(other, &inner, None, entry.span(), depth + 1)
                        }
                    };
                    end = end.max(last);
                    if let Some(json) = json {
                        out.push(json);
                        entries.push(entry.span());
                    }
                }
                (Some(Value::Array(out)), end)
            }
            DeValue::Table(table) => {
                let (map, end) = self.table(table, path, depth);
                (Some(Value::Object(map)), end.max(span.end))
            }
        };
        if json.is_some() {
            self.spots.insert(path.clone(), Spot { file: 0, key, value: span, end, entries });
        }
        (json, end)
    }

    /// Counts one more value; false when there are too many.
    fn counted(&mut self, span: &Range<usize>) -> bool {
        self.values += 1;
        if self.values == MOST_VALUES + 1 {
            let message = format!("the file holds more than {MOST_VALUES} values");
            self.refuse("too-many-values", message, span, "split it into several files");
        }
        self.values <= MOST_VALUES
    }

    fn integer(&mut self, text: &str, radix: u32, span: &Range<usize>) -> Option<Value> {
        let digits = text.replace('_', "");
        let number = i64::from_str_radix(&digits, radix).ok().map(|n| Value::Number(n.into()));
        if number.is_none() {
            let message = format!("the number {} is too large", shorten(text));
            self.refuse("out-of-range", message, span, "whole numbers have at most 63 bits");
        }
        number
    }

    fn float(&mut self, text: &str, span: &Range<usize>) -> Option<Value> {
        let number = text.replace('_', "").parse().ok().and_then(Number::from_f64).map(Value::Number);
        if number.is_none() {
            let message = format!("`{}` is not a finite number", shorten(text));
            self.refuse("out-of-range", message, span, "write a number such as 0.5");
        }
        number
    }

    fn refuse(&mut self, code: &'static str, message: String, span: &Range<usize>, help: &str) {
        self.found.push(Diagnostic::error(code, message).at(self.file.place(span), "").help(help));
    }
}

/// The beginning of a text that may be long.
pub(super) fn shorten(text: &str) -> String {
    const SHOWN: usize = 40;
    if text.chars().count() <= SHOWN {
        return text.to_owned();
    }
    text.chars().take(SHOWN).chain("...".chars()).collect()
}
