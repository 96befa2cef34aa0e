//! Replies in text: grep output, lists of paths, Markdown, labelled blocks,
//! code listings under a path; and JSON within text.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Deserializer, Value};

use super::fields::first_line;
use super::path::{Place, Sure, undress};
use super::{Found, MAX_DEPTH, MAX_HITS, MAX_SYMBOL, MAX_TEXT, Rules, bounded, json, table, words, xml};
use crate::artifact::Hit;

/// Most bytes of a line that are looked at.
const MAX_LINE: usize = 4_096;
/// Most places in a text at which JSON is tried.
const MAX_STARTS: usize = 200;

macro_rules! pattern {
    ($name:ident, $pattern:expr) => {
        static $name: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new($pattern).ok());
    };
}

// `path:12:text`, `path:12:5: text`, `path:12`.
pattern!(GREP, r"^(.{1,600}?):(\d{1,7})(?::(\d{1,6}))?(:|\s|$|[-–,;)\]])");
// `path-12-text`: a context line.
pattern!(CONTEXT, r"^(.{1,600}?)-(\d{1,7})-");
// A path and its line anywhere in a line.
pattern!(
    INLINE,
    r#"(?x) ((?:[A-Za-z]:[\\/])? [\w.@~$+\-/\\()\[\]]* \.[A-Za-z][A-Za-z0-9]{0,9})
        ["'`*)\]]{0,4}
        (?: (?::|\#L|\#|@L?)(\d{1,7})\b (?:[:.]\d{1,6})? (?:\s?[-–]\s?L?\d{1,7})?
          | \s*[,(\[:]?\s*(?:at\s+)?(?:[Ll]ines?|[Ll]n|L)\.?[\s:\#]*(\d{1,7})\b )"#
);
// A path at the beginning of a line, and something that isn't a sentence.
pattern!(
    START,
    r#"(?x)^["'`*\[(]* ((?:[A-Za-z]:[\\/])? [\w.@~$+\-/\\()\[\]]* \.[A-Za-z][A-Za-z0-9]{0,9})
        ["'`*\])]* (?: \s*(?:[-–—|(\[,:]|→|=>) | \s{2,} | \s*$ )"#
);
// List marks, numbers, headings, quotes, branches of a tree.
pattern!(
    BULLET,
    r"^(?:[-*+•‣▸►→·]\s+|\d{1,4}[.)]\s+|\#{1,6}\s+|>\s+|\[\d{1,4}\]:?\s+|[├└│─┬┌╰╭╎|`]+[─\-]*\s+)+"
);
pattern!(
    LABEL,
    r#"(?i)^[\W_]*(?:file[\s_-]?path|file[\s_-]?name|file|path|source(?:[\s_-]?file)?|location|relative[\s_-]?path|uri|document|defined\s+(?:in|at)|found\s+(?:in|at)|in\s+file)\b["'`*]*\s*[:=]\s*(\S.*)$"#
);
pattern!(
    QUOTED,
    r#"(?i)["']?\b(?:file_?path|file|relative_?path|path|file_?name|source)\b["']?\s*[:=]\s*["']([^"'\n]{1,600})["']"#
);
pattern!(
    LINE_LABEL,
    r#"(?i)\b(?:lines?|line[\s_-]?(?:number|no|start)|start[\s_-]?line|ln)\b["'`*]*\s*[:=#]?\s*["'`(\[]?L?(\d{1,7})\b"#
);
pattern!(SCORE_LABEL, r#"(?i)\b(?:score|similarity|relevance)\b["'`*]*\s*[:=]?\s*["'`(]?(\d+(?:\.\d+)?)\b"#);
pattern!(
    NAME_LABEL,
    r#"(?i)\b(?:symbol|name|function|method|class|identifier|qualified[\s_-]?name)\b["'`*]*\s*[:=]\s*["'`*]*([A-Za-z_$][\w$.:]{0,200})"#
);
// A name before a path: `- url_for (function) - `, "`url_for` (".
pattern!(
    NAME_BEFORE,
    r#"(?x)^[^\w$]* (?:(?:function|method|class|def|fn|func|struct|interface|enum|trait|type|const|variable|module)\s+)?
        ([A-Za-z_$][\w$.:~<>\#]*) (?:\([^)]{0,200}\))? [`*"'\s]*
        (?:[\[(]\s*[\w\ ,/-]{1,40}\s*[\])])? [^\w]* (?:(?:at|in|defined\ in|defined\ at)\s+)? [^\w]*$"#
);
// A line that is only a name: `**url_for** (function)`.
pattern!(
    ONLY_NAME,
    r"(?x)^[^\w$]* (?:(?:function|method|class|def|fn|func|struct|interface|enum|trait|type)\s+)?
        ([A-Za-z_$][\w$.:]*) (?:\(\))? [`*\s]* (?:[\[(][\w\ ,-]{1,40}[\])])? \s*:?\s*$"
);
pattern!(ROW, r"^\s*(>{1,2}|\*|→|➜)?\s*(\d{1,7})(\s?[:|│→]|\t|\s{1,4}|-|$)(.*)$");
// `3 matches` below a path is no row of code.
pattern!(
    COUNTED,
    r"(?i)^\s*(?:match(?:es)?|results?|lines?|hits?|files?|symbols?|callers?|references?|occurrences?|usages?|functions|classes|times|more|others?|total)\b\s*(?:found|in\b|of\b|total|$|[(,:.])"
);

/// The whole text as JSON, when it is an object or a list.
pub(super) fn as_json(text: &str) -> Option<Value> {
    let text = text.trim();
    if !text.starts_with(['{', '[']) {
        return None;
    }
    serde_json::from_str::<Value>(text).ok()
}

/// Reads a text.
pub(super) fn read(text: &str, rules: &Rules<'_>, depth: usize) -> Found {
    let text = clip(text, MAX_TEXT);
    if depth >= MAX_DEPTH {
        return Found { empty: words::nothing(text), ..Found::default() };
    }
    if text.trim().is_empty() {
        return Found { empty: true, ..Found::default() };
    }
    if let Some(value) = as_json(text) {
        return json::read(&value, rules, depth + 1);
    }
    // A list of paths in brackets, a quoted text: JSON too.
    if let Ok(Value::String(inner)) = serde_json::from_str::<Value>(text.trim()) {
        return read(&inner, rules, depth + 1);
    }
    if text.trim_start().starts_with("#MUNCH/") {
        let hits = table::compact(text.trim_start(), rules);
        return Found { empty: hits.is_empty(), hits, ..Found::default() };
    }
    let embedded = embedded(text, rules, depth);
    if embedded.as_ref().is_some_and(|found| !found.hits.is_empty() || found.error.is_some() || found.empty) {
        return embedded.unwrap_or_default();
    }
    if let Some(error) = words::failure(text).filter(|_| words::begins_with_failure(text)) {
        return Found { error: Some(error), ..Found::default() };
    }
    let mut hits = Vec::new();
    if xml::looks_tagged(text) {
        hits = xml::read(text, rules);
    }
    if hits.is_empty() {
        hits = table::separated(text, rules);
    }
    if hits.is_empty() {
        hits = Reader::new(rules).read(text);
    }
    if !hits.is_empty() {
        return Found { hits, ..Found::default() };
    }
    if let Some(error) = words::failure(text) {
        return Found { error: Some(error), ..Found::default() };
    }
    let first = text.trim_start().lines().next().unwrap_or_default();
    let empty = words::nothing(if text.trim().len() < 500 { text } else { first });
    Found { empty, ..Found::default() }
}

/// JSON values that begin lines of a text, read as one reply.
fn embedded(text: &str, rules: &Rules<'_>, depth: usize) -> Option<Found> {
    let mut values = Vec::new();
    let mut at = 0;
    let mut starts = 0;
    while at < text.len() && starts < MAX_STARTS {
        let rest = &text[at..];
        let lead = rest.len() - rest.trim_start_matches([' ', '\t', '\r']).len();
        if rest[lead..].starts_with(['{', '[']) {
            starts += 1;
            let mut stream = Deserializer::from_str(&rest[lead..]).into_iter::<Value>();
            if let Some(Ok(value)) = stream.next() {
                let end = at + lead + stream.byte_offset();
                values.push(value);
                at = end;
            }
        }
        match text[at..].find('\n') {
            Some(end) => at += end + 1,
            None => break,
        }
    }
    if values.is_empty() {
        return None;
    }
    let mut all = Found::default();
    for value in &values {
        let found = json::read(value, rules, depth + 1);
        all.hits.extend(found.hits);
        all.error = all.error.or(found.error);
        all.complaint = all.complaint.or(found.complaint);
        all.empty |= found.empty;
    }
    if !all.hits.is_empty() {
        all.error = None;
    }
    Some(all)
}

/// Numbers of the lines that a listing shows: the marked ones when some are
/// marked (`> 194:`), else the first of each stretch.
pub(super) fn numbered_lines(text: &str) -> Vec<u64> {
    let mut listing = Listing::default();
    let mut firsts = Vec::new();
    let mut marked = Vec::new();
    for line in clip(text, MAX_TEXT).lines().take(5_000) {
        let line = line.trim_start_matches('.');
        let Some(row) = row(line) else {
            listing = Listing::default();
            continue;
        };
        if row.marked {
            marked.push(row.number);
        }
        if row.separator != '-'
            && let Shown::Place(first) = listing.next(line, true)
        {
            firsts.push(first);
        }
    }
    if marked.is_empty() { firsts } else { marked }
}

struct Row {
    number: u64,
    marked: bool,
    separator: char,
}

fn row(line: &str) -> Option<Row> {
    let found = ROW.as_ref()?.captures(clip(line, MAX_LINE))?;
    let separator =
        found[3].trim().chars().next().unwrap_or(if found[3].contains('\t') { '\t' } else { ' ' });
    let number = found[2].parse().ok()?;
    let counted = separator == ' ' && COUNTED.as_ref().is_some_and(|c| c.is_match(&found[4]));
    (!counted).then(|| Row { number, marked: found.get(1).is_some(), separator })
}

/// What a line of a listing is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shown {
    /// No numbered line.
    Else,
    /// One that belongs to what came before.
    Row,
    /// One that stands for a place.
    Place(u64),
}

/// Follows the numbered lines of a piece of code.
#[derive(Clone, Debug, Default)]
pub(super) struct Listing {
    last: Option<u64>,
}

impl Listing {
    /// Looks at the next line. A row counts when a stretch of rows begins with
    /// it, when it is marked, or, without `stretches`, when it is one of grep's.
    pub(super) fn next(&mut self, line: &str, stretches: bool) -> Shown {
        let Some(row) = row(line) else { return Shown::Else };
        if row.separator == '-' {
            return Shown::Row;
        }
        let follows = self.last.is_some_and(|last| row.number == last + 1);
        self.last = Some(row.number);
        let each = !stretches && row.separator == ':';
        if row.marked || each || !follows { Shown::Place(row.number) } else { Shown::Row }
    }
}

/// A path whose line may follow.
struct Pending {
    place: Place,
    score: Option<f64>,
    listing: Listing,
    rows: Vec<u64>,
}

struct Reader<'w, 'r> {
    rules: &'w Rules<'r>,
    hits: Vec<Hit>,
    pending: Option<Pending>,
    hint: Option<String>,
    fence: bool,
    columns: Option<Vec<String>>,
}

impl<'w, 'r> Reader<'w, 'r> {
    fn new(rules: &'w Rules<'r>) -> Self {
        Self { rules, hits: Vec::new(), pending: None, hint: None, fence: false, columns: None }
    }

    fn read(mut self, text: &str) -> Vec<Hit> {
        let lines: Vec<&str> = text.lines().take(200_000).collect();
        for (at, line) in lines.iter().enumerate() {
            if self.hits.len() >= MAX_HITS {
                break;
            }
            let line = clip(line, MAX_LINE);
            let next = lines.get(at + 1).copied().unwrap_or_default();
            self.line(line, next);
        }
        self.flush();
        self.hits
    }

    fn line(&mut self, line: &str, next: &str) {
        let trimmed = line.trim();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            self.fence = !self.fence;
            return;
        }
        if trimmed.is_empty() {
            self.hint = None;
            self.columns = None;
            return;
        }
        let fence = self.fence;
        if let Some(pending) = &mut self.pending
            && pending.place.line.is_none()
        {
            match pending.listing.next(line, fence) {
                Shown::Place(number) => return pending.rows.push(number),
                Shown::Row => return,
                Shown::Else => {}
            }
        }
        if self.grep(trimmed) || self.fence {
            return;
        }
        if self.table(trimmed, next) {
            return;
        }
        if self.labels(trimmed) {
            return;
        }
        let body =
            BULLET.as_ref().map_or(trimmed, |b| b.find(trimmed).map_or(trimmed, |m| &trimmed[m.end()..]));
        if body.len() != trimmed.len() && self.grep(body) {
            return;
        }
        if let Some(place) = self.rules.place(body, Sure::Yes) {
            self.found(place, true);
            return;
        }
        if self.inline(body) {
            return;
        }
        if self.start(body) {
            return;
        }
        let decorated = trimmed.contains(['`', '#']) || trimmed.contains("**");
        let name = ONLY_NAME.as_ref().and_then(|n| n.captures(body)).map(|c| bounded(&c[1], MAX_SYMBOL));
        self.hint = name.filter(|_| decorated);
    }

    /// `path:12:text`
    fn grep(&mut self, line: &str) -> bool {
        if let Some(found) = GREP.as_ref().and_then(|g| g.captures(line))
            && self.rules.sure(&found[1]) == Sure::Yes
            && let Some(file) = self.rules.relative(&found[1])
        {
            let number = found[2].parse().ok();
            // What follows a colon is code, what follows a blank may hold more places.
            let rest = found.get(0).map_or("", |m| &line[m.end()..]);
            let more = found[4].starts_with([' ', '-', '–', ',', ';']);
            let symbol = self.hint.take();
            self.push(Place { file, line: number, symbol });
            if more && !self.fence {
                self.inline(rest);
            }
            return true;
        }
        // A context line belongs to a match that has its own line.
        CONTEXT.as_ref().and_then(|c| c.captures(line)).is_some_and(|found| {
            self.rules.sure(&found[1]) == Sure::Yes && found[1].contains(['/', '\\', '.'])
        }) && !self.hits.is_empty()
    }

    /// Rows of a Markdown table.
    fn table(&mut self, line: &str, next: &str) -> bool {
        if !line.starts_with('|') {
            self.columns = None;
            return false;
        }
        if table::is_rule(line) {
            return true;
        }
        let Some(cells) = table::pipe_cells(line) else { return false };
        match &self.columns {
            None if table::is_rule(next) => {
                self.columns = Some(cells);
                true
            }
            None => false,
            Some(names) => {
                let cells: Vec<Value> = cells.into_iter().map(Value::String).collect();
                let hit = table::row(names, &cells, self.rules);
                self.flush();
                self.hits.extend(hit);
                true
            }
        }
    }

    /// `File: a.py`, `Line: 3`, `{'file': 'a.py', 'line': 3}`.
    fn labels(&mut self, line: &str) -> bool {
        let quoted: Vec<(usize, usize, Place)> = QUOTED
            .as_ref()
            .map(|q| {
                q.captures_iter(line)
                    .filter_map(|c| {
                        let whole = c.get(0)?;
                        Some((whole.start(), whole.end(), self.rules.place(&c[1], Sure::Yes)?))
                    })
                    .collect()
            })
            .unwrap_or_default();
        if !quoted.is_empty() {
            for (at, (start, end, place)) in quoted.iter().enumerate() {
                let from = if at == 0 { 0 } else { *end };
                let to = quoted.get(at + 1).map_or(line.len(), |(next, ..)| *next);
                self.found(place.clone(), false);
                self.details(&line[*end..to], &line[from.min(*start)..*start]);
            }
            return true;
        }
        if let Some(found) = LABEL.as_ref().and_then(|l| l.captures(line)) {
            let rest = found.get(1).map_or("", |m| m.as_str());
            let whole = self.rules.place(rest, Sure::Yes);
            let cut = rest.find([',', ';', '|', ' ', '\t']).unwrap_or(rest.len());
            let (place, more) = match whole {
                Some(place) => (Some(place), ""),
                None => (self.rules.place(&rest[..cut], Sure::Yes), &rest[cut..]),
            };
            let Some(place) = place else { return false };
            self.found(place, false);
            self.details(more, "");
            return true;
        }
        self.pending.is_some() && line.len() < 200 && self.details(line, "")
    }

    /// Line, score and name beside a labelled path.
    fn details(&mut self, text: &str, before: &str) -> bool {
        let first = |pattern: &LazyLock<Option<Regex>>, text: &str| {
            pattern.as_ref().and_then(|p| p.captures(text)).map(|c| c[1].to_owned())
        };
        let either =
            |pattern: &LazyLock<Option<Regex>>| first(pattern, text).or_else(|| first(pattern, before));
        let (line, score, name) = (either(&LINE_LABEL), either(&SCORE_LABEL), either(&NAME_LABEL));
        let Some(pending) = &mut self.pending else { return false };
        let any = line.is_some() || score.is_some() || name.is_some();
        if pending.place.line.is_none() && pending.rows.is_empty() {
            pending.place.line = line.and_then(|l| first_line(&Value::String(l), 0));
        }
        pending.score = pending.score.or_else(|| score.and_then(|s| s.parse().ok()));
        if pending.place.symbol.is_none() {
            pending.place.symbol = name;
        }
        any
    }

    /// Paths with lines anywhere in a line.
    fn inline(&mut self, body: &str) -> bool {
        let Some(pattern) = &*INLINE else { return false };
        let mut seen: Vec<(String, Option<u64>)> = Vec::new();
        for found in pattern.captures_iter(body).take(200) {
            let Some(whole) = found.get(0) else { continue };
            let before = &body[..whole.start()];
            // Part of an address, or of a longer word.
            if before.ends_with(':') || found[1].starts_with("//") {
                continue;
            }
            let path = unbalanced(&found[1]);
            let number = found.get(2).or_else(|| found.get(3)).and_then(|m| m.as_str().parse().ok());
            if self.rules.sure(path) != Sure::Yes {
                continue;
            }
            let Some(file) = self.rules.relative(path) else { continue };
            let key = (file.clone(), number);
            if seen.contains(&key) {
                continue;
            }
            let symbol = if seen.is_empty() {
                self.hint.take();
                NAME_BEFORE.as_ref().and_then(|n| n.captures(before)).map(|c| bounded(&c[1], MAX_SYMBOL))
            } else {
                None
            };
            seen.push(key);
            self.push(Place { file, line: number, symbol });
        }
        !seen.is_empty()
    }

    /// A path that begins a line, with something behind it that is no sentence.
    fn start(&mut self, body: &str) -> bool {
        let Some(found) = START.as_ref().and_then(|s| s.captures(body)) else { return false };
        let path = unbalanced(&found[1]);
        let named =
            path.contains(['/', '\\']) || self.rules.relative(path).is_some_and(|f| self.rules.knows(&f));
        if !named || self.rules.sure(path) != Sure::Yes {
            return false;
        }
        let Some(file) = self.rules.relative(path) else { return false };
        self.found(Place { file, line: None, symbol: None }, true);
        self.details(&body[found.get(1).map_or(0, |m| m.end())..], "");
        true
    }

    /// A path that stands for itself; its line may come later.
    fn found(&mut self, mut place: Place, take_hint: bool) {
        self.flush();
        let hint = self.hint.take();
        if take_hint && place.symbol.is_none() {
            place.symbol = hint;
        }
        self.pending = Some(Pending { place, score: None, listing: Listing::default(), rows: Vec::new() });
    }

    fn push(&mut self, place: Place) {
        self.flush();
        self.emit(&place, place.line, None);
    }

    fn flush(&mut self) {
        let Some(pending) = self.pending.take() else { return };
        let Pending { place, score, rows, .. } = pending;
        if rows.is_empty() {
            self.emit(&place, place.line, score);
        }
        for row in rows {
            self.emit(&place, Some(row), score);
        }
    }

    fn emit(&mut self, place: &Place, line: Option<u64>, score: Option<f64>) {
        if self.hits.len() < MAX_HITS {
            self.hits.push(Hit {
                file: Some(place.file.clone()),
                symbol: place.symbol.clone(),
                line: line.and_then(|line| self.rules.line(line)),
                score,
            });
        }
    }
}

/// Without opening brackets that are not closed within the path.
fn unbalanced(path: &str) -> &str {
    let mut path = path;
    loop {
        let cut = [('(', ')'), ('[', ']')].iter().find_map(|(open, close)| {
            let (mut depth, mut last_bad) = (0_i32, None);
            for (at, c) in path.char_indices() {
                if c == *open {
                    depth += 1;
                    if depth == 1 {
                        last_bad = Some(at);
                    }
                } else if c == *close {
                    depth -= 1;
                    if depth < 0 {
                        return Some(at + c.len_utf8());
                    }
                }
            }
            (depth > 0).then_some(last_bad? + open.len_utf8())
        });
        match cut {
            Some(at) => path = &path[at..],
            None => return undress(path),
        }
    }
}

/// The first bytes of a text, at a character's end.
fn clip(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
