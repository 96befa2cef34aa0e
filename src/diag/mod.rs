//! What is wrong, where, and the way out: a value, not a printout.

use std::fmt::{self, Write as _};

use serde::Serialize;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The input can't be used.
    Error,
    /// It can be used, but probably not as meant.
    Warning,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file as the user named it.
    pub path: String,
    /// 1-based line.
    pub line: usize,
    /// 1-based column, in characters.
    pub column: usize,
    /// Byte offset of the first byte.
    pub start: usize,
    /// Byte offset after the last byte.
    pub end: usize,
    /// The line that the place begins in, for showing; not part of the JSON form.
    #[serde(skip)]
    pub excerpt: Option<Excerpt>,
}

/// The line that a place begins in, kept so that a diagnostic can be shown
/// without its file (which may be compiled in, or typed on the command line).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excerpt {
    /// The line without its end.
    pub text: String,
    /// Byte offset of its first byte in the file.
    pub start: usize,
}

/// Lines longer than this many bytes are named but not shown.
const LONGEST_EXCERPT: usize = 2_000;

impl Place {
    /// The place of `start..end` in `text`, the content of `path`. Offsets past
    /// the end or inside a character are moved back to one that exists.
    #[must_use]
    pub fn new(path: &str, text: &str, start: usize, end: usize) -> Self {
        Self::in_lines(path, text, &line_starts(text), start, end)
    }

    /// [`Self::new`] for a text whose [`line_starts`] are known: many places of one
    /// file cost no pass over it each.
    #[must_use]
    pub fn in_lines(path: &str, text: &str, lines: &[usize], start: usize, end: usize) -> Self {
        let mut start = start.min(text.len());
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let mut end = end.clamp(start, text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let line = lines.partition_point(|first| *first <= start).max(1);
        let line_start = lines.get(line - 1).copied().unwrap_or(0);
        Self {
            path: path.to_owned(),
            line,
            column: text[line_start..start].chars().count() + 1,
            start,
            end: end.max(start),
            excerpt: excerpt(text, line_start),
        }
    }

    /// Whether the place covers byte `offset`.
    #[must_use]
    pub fn covers(&self, offset: usize) -> bool {
        (self.start..=self.end).contains(&offset)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.path, self.line, self.column)
    }
}

/// Byte offsets at which the lines of a text begin, the first at 0.
#[must_use]
pub fn line_starts(text: &str) -> Vec<usize> {
    std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect()
}

fn excerpt(text: &str, start: usize) -> Option<Excerpt> {
    let line = text[start..].split('\n').next().unwrap_or_default();
    let line = line.strip_suffix('\r').unwrap_or(line);
    (line.len() <= LONGEST_EXCERPT).then(|| Excerpt { text: line.to_owned(), start })
}

/// A place with a remark.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Label {
    /// Where.
    pub place: Place,
    /// What is to be seen there; may be empty.
    pub text: String,
}

/// One problem, complete: renderable as text with carets or as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Diagnostic {
    /// A stable code such as `unknown-key`.
    pub code: &'static str,
    /// Error or warning.
    pub severity: Severity,
    /// One lower-case sentence without a period that names the thing.
    pub message: String,
    /// Where; the first is the main one.
    pub labels: Vec<Label>,
    /// The way out.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error without a place.
    #[must_use]
    pub fn error(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, severity: Severity::Error, message: message.into(), labels: Vec::new(), help: None }
    }

    /// A warning without a place.
    #[must_use]
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, message) }
    }

    /// Adds a place.
    #[must_use]
    pub fn at(mut self, place: Place, text: impl Into<String>) -> Self {
        self.labels.push(Label { place, text: text.into() });
        self
    }

    /// Adds a place where one is known.
    #[must_use]
    pub fn maybe_at(self, place: Option<Place>, text: impl Into<String>) -> Self {
        match place {
            Some(place) => self.at(place, text),
            None => self,
        }
    }

    /// The main place.
    #[must_use]
    pub fn place(&self) -> Option<&Place> {
        self.labels.first().map(|label| &label.place)
    }

    /// Whether it forbids going on.
    #[must_use]
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }

    /// Sets the way out.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }
}

/// Puts diagnostics into the order of their places (those without one last)
/// and drops repetitions.
pub fn sort(found: &mut Vec<Diagnostic>) {
    let key = |d: &Diagnostic| {
        d.place().map_or((true, String::new(), 0, 0), |p| (false, p.path.clone(), p.start, p.end))
    };
    found.sort_by_cached_key(key);
    let mut seen = Vec::<Diagnostic>::with_capacity(found.len());
    for diagnostic in found.drain(..) {
        // Equal ones have equal places, so they stand together.
        let repeated = seen.iter().rev().take_while(|d| d.place() == diagnostic.place());
        if !repeated.into_iter().any(|d| *d == diagnostic) {
            seen.push(diagnostic);
        }
    }
    *found = seen;
}

/// Names in backticks, separated by commas; past `most` of them only their number.
#[must_use]
pub fn names<'a>(known: impl IntoIterator<Item = &'a str>, most: usize) -> String {
    let known: Vec<&str> = known.into_iter().collect();
    let mut out = known.iter().take(most).map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    if known.len() > most {
        let _ = write!(out, " and {} more", known.len() - most);
    }
    out
}

/// The longest name, in characters, for which a nearest one is looked for.
const LONGEST_NAME: usize = 80;

/// The name among `known` that `word` was probably meant to be: the smallest
/// Damerau-Levenshtein distance, at most a third of the longer name.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word_len = word.chars().take(LONGEST_NAME + 1).count();
    if word_len > LONGEST_NAME {
        return None;
    }
    known
        .into_iter()
        .filter(|name| name.len() <= 4 * LONGEST_NAME)
        .map(|name| (distance(word, name), name))
        .filter(|(d, name)| *d > 0 && *d <= (word_len.max(name.chars().count()) / 3).max(1))
        .min()
        .map(|(_, name)| name)
}

fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut rows = vec![vec![0usize; b.len() + 1]; a.len() + 1];
    for (i, row) in rows.iter_mut().enumerate() {
        row[0] = i;
    }
    for (j, cell) in rows[0].iter_mut().enumerate() {
        *cell = j;
    }
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            let substitution = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = substitution.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = best;
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters() {
        let text = "a = 1\nébc = 2\n";
        let place = Place::new("p.toml", text, 8, 10);
        assert_eq!((place.line, place.column), (2, 2));
        let past = Place::new("p.toml", text, 900, 901);
        assert_eq!((past.line, past.start), (3, text.len()));
        let inside = Place::new("p.toml", text, 7, 7);
        assert_eq!(inside.start, 6);
    }

    #[test]
    fn nearest_finds_typos_only() {
        let known = ["replicates", "repos", "servers"];
        assert_eq!(nearest("replicats", known), Some("replicates"));
        assert_eq!(nearest("rpeos", known), Some("repos"));
        assert_eq!(nearest("zebra", known), None);
        assert_eq!(nearest("repos", ["repos"]), None);
    }
}
