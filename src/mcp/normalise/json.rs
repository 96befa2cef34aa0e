//! JSON replies: a walk that knows lists of places, maps from file to lines,
//! columns, tables, and texts within values.

use serde_json::{Map, Value};

use super::fields::{self, Fields, first_line, plain};
use super::path::Sure;
use super::{Found, MAX_DEPTH, MAX_HITS, MAX_SYMBOL, Rules, bounded, table, text, words};
use crate::artifact::Hit;

/// Most values that are looked at.
const MAX_VALUES: usize = 300_000;

/// Fields beside the result.
const NOISE: &str = " stats statistics timing timings pagination warnings warning included include query queries \
    params parameters options filters filter config settings usage elapsed took tokens hint hints suggestion \
    suggestions next nextsteps nextcursor instructions tips notes request debug version facets aggregations \
    embeddings errors error message status imports dependencies exports tags keywords languages extensions exclude \
    excludepatterns patterns decorators parameters args arguments bases inherits schema allowedtools availabletools \
    availableprojects projects repositories command cmd info telemetry index cost budget ";

/// Fields of a place that hold text about it, never other places.
const CONTENT: &str = " content code text snippet body docstring doc signature preview context contextbefore \
    contextafter before after summary description source raw chunk excerpt match matchedtext linetext lines type \
    kind language lang name symbol ";

/// Fields whose text is the result itself.
const TEXTS: &str = " result results output text content contents markdown data response answer stdout matches hits \
    context repomap map rendered formatted body summary report tree ";

/// Fields that describe the inside of one file.
const OUTLINE: [&str; 12] = [
    "functions",
    "classes",
    "methods",
    "imports",
    "exports",
    "symbolcount",
    "linecount",
    "totallines",
    "totalsymbols",
    "functioncount",
    "classcount",
    "outline",
];

/// Fields that count results.
const COUNTS: &str = " total count totalcount totalmatches totalresults numresults nresults matchcount resultcount \
    rowcount found returned hitcount totalhits nummatches filesfound matchesfound ";

/// Fields that hold a list of results.
const RESULTS: [&str; 14] = [
    "results",
    "result",
    "matches",
    "hits",
    "items",
    "candidates",
    "documents",
    "rows",
    "symbols",
    "references",
    "definitions",
    "callers",
    "chunks",
    "files",
];

struct Walk<'w, 'r> {
    rules: &'w Rules<'r>,
    /// Places in order.
    hits: Vec<Hit>,
    /// Places that belong to a place (callers of a result): after all others.
    later: Vec<Hit>,
    values: usize,
    texts: usize,
}

/// What is known from above.
#[derive(Clone, Copy, Default)]
struct Above<'a> {
    /// The file that everything below is in.
    file: Option<&'a str>,
    /// We are inside a list.
    listed: bool,
    /// We are inside a place: only other places count, no texts.
    related: bool,
}

/// Reads a value.
pub(super) fn read(value: &Value, rules: &Rules<'_>, depth: usize) -> Found {
    let mut walk = Walk { rules, hits: Vec::new(), later: Vec::new(), values: 0, texts: 0 };
    walk.value(value, Above::default(), depth);
    let Walk { mut hits, later, .. } = walk;
    hits.extend(later);
    hits.truncate(MAX_HITS);
    if !hits.is_empty() {
        return Found { hits, ..Found::default() };
    }
    let error = reported(value, 0);
    let said_empty = error.as_deref().is_some_and(|e| words::nothing(e) && words::failure(e).is_none());
    // "no results" in the error field is an answer.
    let (error, empty) =
        if said_empty { (None, true) } else { (error, is_empty(value, 0) || says_empty(value, rules)) };
    Found { hits, empty: empty && error.is_none(), complaint: complaint(value), error }
}

impl Walk<'_, '_> {
    fn value(&mut self, value: &Value, above: Above<'_>, depth: usize) {
        self.values += 1;
        if depth > MAX_DEPTH || self.values > MAX_VALUES || self.hits.len() >= MAX_HITS {
            return;
        }
        match value {
            Value::Array(list) => self.list(list, above, depth),
            Value::Object(object) => self.object(object, above, depth),
            Value::String(text) if !above.related => self.text(text, depth),
            _ => {}
        }
    }

    /// A text that is the result, or a part of it.
    fn text(&mut self, text: &str, depth: usize) {
        self.texts += 1;
        if self.texts > 20_000 || text.trim().is_empty() {
            return;
        }
        let found = text::read(text, self.rules, depth + 1);
        self.hits.extend(found.hits);
    }

    fn list(&mut self, list: &[Value], above: Above<'_>, depth: usize) {
        let inner = Above { listed: true, ..above };
        if list.iter().any(Value::is_string) {
            self.strings(list, inner, depth);
        }
        for value in list {
            match value {
                Value::String(_) => {}
                Value::Number(_) => {
                    if let (Some(file), Some(line)) = (above.file, first_line(value, 0)) {
                        self.push(file.to_owned(), Some(line), None, None);
                    }
                }
                Value::Array(row) => {
                    if !self.row(row) {
                        self.value(value, inner, depth + 1);
                    }
                }
                other => self.value(other, inner, depth + 1),
            }
        }
    }

    /// A row such as `["src/a.py", 10, "def x"]`.
    fn row(&mut self, row: &[Value]) -> bool {
        let at = row
            .iter()
            .position(|cell| cell.as_str().is_some_and(|text| self.rules.place(text, Sure::Yes).is_some()));
        let Some(at) = at.filter(|_| row.len() > 1 && row.iter().any(Value::is_number)) else { return false };
        let Some(place) = row[at].as_str().and_then(|text| self.rules.place(text, Sure::Yes)) else {
            return false;
        };
        let numbers = || row.iter().skip(at + 1).filter(|cell| cell.is_number());
        let line = place.line.or_else(|| numbers().find_map(Value::as_u64));
        let score = numbers().filter(|n| n.as_u64().is_none()).find_map(Value::as_f64);
        self.push(place.file, line, place.symbol, score);
        true
    }

    /// Strings of a list: lines of a file that is known, or places. A list
    /// in which most strings are no places (names, modules) holds none.
    fn strings(&mut self, list: &[Value], above: Above<'_>, depth: usize) {
        let strings: Vec<&str> = list.iter().filter_map(Value::as_str).collect();
        if let Some(file) = above.file {
            let mut any = false;
            for text in &strings {
                for line in text::numbered_lines(text) {
                    self.push(file.to_owned(), Some(line), None, None);
                    any = true;
                }
            }
            if any {
                return;
            }
        }
        if above.related {
            return;
        }
        let before = self.hits.len();
        let mut places = 0;
        for text in &strings {
            let start = self.hits.len();
            match self.rules.place(text, Sure::Yes) {
                // `request.json` in a list of names is a file only if there is one.
                Some(place) if self.is_name(&place.file) && place.line.is_none() => {}
                Some(place) => self.push(place.file, place.line, place.symbol, None),
                None => self.text(text, depth),
            }
            places += usize::from(self.hits.len() > start);
        }
        if places * 2 < strings.len() {
            self.hits.truncate(before);
        }
    }

    fn object(&mut self, object: &Map<String, Value>, above: Above<'_>, depth: usize) {
        if self.columns(object) || self.table(object) {
            return;
        }
        // A report of a failure may name the file that it is about.
        let lists = object.values().any(|v| v.as_array().is_some_and(|list| !list.is_empty()));
        if !above.listed && !lists && words::failed(object).is_some() {
            return;
        }
        let lists_results = object.iter().any(|(key, value)| {
            (value.is_array() || value.is_object()) && RESULTS.contains(&plain(key).as_str())
        });
        let mut own = fields::read(object, self.rules);
        if lists_results && !own.used.is_empty() {
            // The file came out of an inner object that is a result or a setting.
            let outer: Map<String, Value> = object
                .iter()
                .filter(|(key, _)| !own.used.contains(key))
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect();
            own = fields::read(&outer, self.rules);
        }
        let bare = own.line.is_none() && own.score.is_none() && !lists;
        if above.listed && bare && words::failed(object).is_some() {
            return;
        }
        match (own.file.clone(), above.file) {
            (Some(file), _) => self.in_file(object, &file, own, above, depth),
            (None, Some(file)) if own.line.is_some() => {
                self.push(file.to_owned(), own.line, own.symbol, own.score);
            }
            _ => self.container(object, above, depth),
        }
    }

    /// An object that names a file: a place, or the head of places in it.
    fn in_file(
        &mut self,
        object: &Map<String, Value>,
        file: &str,
        own: Fields,
        above: Above<'_>,
        depth: usize,
    ) {
        let outline = object.keys().filter(|key| OUTLINE.contains(&plain(key).as_str())).count();
        if !above.listed && !above.related && own.line.is_none() && outline > 0 {
            return;
        }
        if own.line.is_some() {
            self.push(file.to_owned(), own.line, own.symbol, own.score);
            self.related(object, &own.used, depth);
            return;
        }
        let before = self.hits.len();
        let inside = Above { file: Some(file), ..above };
        for (key, value) in object {
            let name = plain(key);
            if own.used.contains(key) || !(value.is_array() || value.is_object()) || is_in(NOISE, &name) {
                continue;
            }
            self.value(value, inside, depth + 1);
        }
        if self.hits.len() == before {
            self.push(file.to_owned(), None, own.symbol, own.score);
        }
    }

    /// Places inside a place go behind all results.
    fn related(&mut self, object: &Map<String, Value>, used: &[String], depth: usize) {
        let outer = std::mem::take(&mut self.hits);
        for (key, value) in object {
            let name = plain(key);
            let skip = used.contains(key) || is_in(NOISE, &name) || is_in(CONTENT, &name);
            if !skip && (value.is_array() || value.is_object()) {
                self.value(value, Above { file: None, listed: true, related: true }, depth + 1);
            }
        }
        let inner = std::mem::replace(&mut self.hits, outer);
        let room = MAX_HITS.saturating_sub(self.later.len());
        self.later.extend(inner.into_iter().take(room));
    }

    /// An object that is no place itself.
    fn container(&mut self, object: &Map<String, Value>, above: Above<'_>, depth: usize) {
        for (key, value) in object {
            let name = plain(key);
            if let Some(place) = self.file_key(key) {
                self.keyed(&place.0, place.1, value, above, depth);
                continue;
            }
            if is_in(NOISE, &name) {
                continue;
            }
            match value {
                Value::String(text) if !above.related && is_in(TEXTS, &name) => self.text(text, depth),
                Value::Array(_) | Value::Object(_) => self.value(value, above, depth + 1),
                _ => {}
            }
        }
    }

    /// The file, and perhaps the line, that the key of a map is.
    fn file_key(&self, key: &str) -> Option<(String, Option<u64>)> {
        if !key.contains(['.', '/', '\\']) {
            return None;
        }
        let place = self.rules.place(key, Sure::Yes)?;
        Some((place.file, place.line))
    }

    /// The value of a map from file to whatever.
    fn keyed(&mut self, file: &str, line: Option<u64>, value: &Value, above: Above<'_>, depth: usize) {
        let before = self.hits.len();
        let inside = Above { file: Some(file), listed: true, related: above.related };
        match value {
            _ if line.is_some() => {}
            Value::Number(_) => {
                // A fraction is a score.
                match (value.as_u64(), value.as_f64()) {
                    (Some(line), _) => self.push(file.to_owned(), Some(line), None, None),
                    (None, score) => self.push(file.to_owned(), None, None, score),
                }
            }
            Value::String(text) => {
                for line in text::numbered_lines(text) {
                    self.push(file.to_owned(), Some(line), None, None);
                }
            }
            Value::Object(object) => {
                let own = fields::read(object, self.rules);
                if own.file.is_none() && own.line.is_none() && own.score.is_some() {
                    self.container(object, inside, depth + 1);
                    if self.hits.len() == before {
                        self.push(file.to_owned(), None, own.symbol, own.score);
                    }
                } else {
                    self.value(value, inside, depth + 1);
                }
            }
            other => self.value(other, inside, depth + 1),
        }
        if self.hits.len() == before {
            self.push(file.to_owned(), line, None, None);
        }
    }

    /// `{"ids": [[..]], "documents": [[..]], "metadatas": [[{..}]]}`: one result in several lists.
    fn columns(&mut self, object: &Map<String, Value>) -> bool {
        let Some(ids) = object.get("ids").and_then(Value::as_array) else { return false };
        let meta = object.get("metadatas").or_else(|| object.get("metadata")).and_then(Value::as_array);
        let documents = object.get("documents").and_then(Value::as_array);
        if meta.is_none() && documents.is_none() {
            return false;
        }
        let flat = |list: &[Value]| -> Vec<Value> {
            if list.iter().all(Value::is_array) {
                list.iter().flat_map(|inner| inner.as_array().cloned().unwrap_or_default()).collect()
            } else {
                list.to_vec()
            }
        };
        let meta = meta.map(|m| flat(m)).unwrap_or_default();
        let scores = object.get("scores").and_then(Value::as_array).map(|s| flat(s)).unwrap_or_default();
        for (at, id) in flat(ids).iter().enumerate().take(MAX_HITS) {
            let mut own = meta
                .get(at)
                .and_then(Value::as_object)
                .map(|m| fields::read(m, self.rules))
                .unwrap_or_default();
            if own.file.is_none()
                && let Some(place) = id.as_str().and_then(|id| fields::in_id(id, self.rules))
            {
                own.file = Some(place.file);
                own.line = own.line.or(place.line);
            }
            let score = own.score.or_else(|| scores.get(at).and_then(Value::as_f64));
            if let Some(file) = own.file {
                self.push(file, own.line, own.symbol, score);
            }
        }
        true
    }

    /// `{"columns": ["file", "line"], "rows": [["a.py", 3]]}`.
    fn table(&mut self, object: &Map<String, Value>) -> bool {
        let list =
            |names: [&str; 3]| names.iter().find_map(|name| object.get(*name).and_then(Value::as_array));
        let Some(columns) = list(["columns", "headers", "fields"]) else { return false };
        let Some(rows) = list(["rows", "data", "values"]) else { return false };
        let names: Option<Vec<String>> = columns
            .iter()
            .map(|c| c.as_str().or_else(|| c.get("name").and_then(Value::as_str)).map(str::to_owned))
            .collect();
        let Some(names) = names.filter(|_| rows.iter().all(Value::is_array)) else { return false };
        for row in rows.iter().filter_map(Value::as_array).take(MAX_HITS) {
            self.hits.extend(table::row(&names, row, self.rules));
        }
        true
    }

    /// A name without a folder that is known to be no file.
    fn is_name(&self, file: &str) -> bool {
        !file.contains('/') && self.rules.known.is_some() && !self.rules.knows(file)
    }

    fn push(&mut self, file: String, line: Option<u64>, symbol: Option<String>, score: Option<f64>) {
        if self.hits.len() < MAX_HITS {
            let name = file.rsplit('/').next().unwrap_or_default();
            // The name of the file is no symbol.
            let symbol = symbol.filter(|s| s != name && *s != file).map(|s| bounded(&s, MAX_SYMBOL));
            let line = line.and_then(|line| self.rules.line(line));
            self.hits.push(Hit { file: Some(file), symbol, line, score });
        }
    }
}

fn is_in(words: &str, name: &str) -> bool {
    !name.is_empty() && words.split_ascii_whitespace().any(|word| word == name)
}

/// The failure that a value reports, at its top or just below.
fn reported(value: &Value, depth: usize) -> Option<String> {
    match value {
        Value::Object(object) => words::failed(object).or_else(|| {
            let inner = ["result", "results", "data", "response", "structuredContent", "output"];
            let inner = inner.iter().find_map(|key| object.get(*key))?;
            (depth < 2).then(|| reported(inner, depth + 1)).flatten()
        }),
        Value::Array(list) if !list.is_empty() && depth < 2 => {
            let failures: Vec<String> = list.iter().filter_map(|v| reported(v, depth + 1)).collect();
            (failures.len() == list.len()).then(|| failures.into_iter().next()).flatten()
        }
        Value::String(text) => {
            let inner =
                text::as_json(text).and_then(|v| if depth < 2 { reported(&v, depth + 1) } else { None });
            inner.or_else(|| words::failure(text))
        }
        _ => None,
    }
}

/// Does the value say in words that there is nothing?
fn says_empty(value: &Value, rules: &Rules<'_>) -> bool {
    match value {
        Value::String(text) => text::read(text, rules, MAX_DEPTH - 1).empty,
        Value::Object(object) => {
            let texts = object.iter().filter(|(key, _)| {
                let name = plain(key);
                is_in(TEXTS, &name) || name == "message" || name == "error"
            });
            texts.filter_map(|(_, v)| v.as_str()).any(|text| !text.is_empty() && words::nothing(text))
                && !object.values().any(|v| v.as_array().is_some_and(|list| !list.is_empty()))
        }
        _ => false,
    }
}

/// Is the value an empty list of results, whatever its shape?
fn is_empty(value: &Value, depth: usize) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => {
            let inner = if depth < 4 { text::as_json(text) } else { None };
            inner.map_or_else(|| text.trim().is_empty(), |inner| is_empty(&inner, depth + 1))
        }
        Value::Array(list) => {
            list.iter().all(|v| (v.is_array() || v.is_null()) && depth < 6 && is_empty(v, depth + 1))
        }
        Value::Object(object) => {
            let mut signs = object.is_empty();
            for (key, value) in object {
                let name = plain(key);
                if is_in(COUNTS, &name) && value.is_number() {
                    signs |= value.as_f64() == Some(0.0);
                    continue;
                }
                if is_in(NOISE, &name) {
                    continue;
                }
                let counts = match value {
                    Value::Array(_) => true,
                    Value::Object(_) => depth < 6,
                    Value::String(_) | Value::Null => is_in(TEXTS, &name) || RESULTS.contains(&name.as_str()),
                    _ => false,
                };
                if counts {
                    // An inner object of plain facts says nothing either way.
                    let facts = value.as_object().is_some_and(|o| {
                        !o.is_empty() && o.values().all(|v| !v.is_array() && !v.is_object())
                    });
                    if facts {
                        continue;
                    }
                    if !is_empty(value, depth + 1) {
                        return false;
                    }
                    signs = true;
                }
            }
            signs
        }
        _ => false,
    }
}

/// The first warning beside an empty result: the only trace of what went wrong.
fn complaint(value: &Value) -> Option<String> {
    let object = value.as_object()?;
    ["warnings", "errors", "warning"].iter().find_map(|key| match object.get(*key)? {
        Value::String(text) if !text.trim().is_empty() => Some(text.trim().to_owned()),
        Value::Array(list) => list.first().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)),
        _ => None,
    })
}
