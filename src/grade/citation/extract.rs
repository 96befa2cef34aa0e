//! Finds citations in an answer, in one pass from left to right.

use std::collections::HashSet;
use std::ops::Range;

use super::json::{self, Json, Object};
use super::listing::extension;
use super::locator::{self, Given, Lines, Locator};
use super::token::{self, Known, Path, Token};
use super::{Citation, name};

/// So many citations of an answer count, the first ones.
pub const MOST: usize = 50_000;
/// So many open brackets are remembered.
const DEEPEST: usize = 1_000;

/// Span and lines of one citation.
type Element = (Range<usize>, Option<Given>);

/// A path with what stands beside it: one citation for each of its lines.
struct Place {
    path: Range<usize>,
    /// Span and lines of each.
    elements: Vec<Element>,
    /// A symbol within.
    symbol: Option<Range<usize>>,
    /// Everything that belongs to it, a link around it included: names stand beside this.
    whole: Range<usize>,
}

impl Place {
    fn file<'t>(&self, text: &'t str) -> &'t str {
        token::bare(text.get(self.path.clone()).unwrap_or_default())
    }
}

/// Finds the citations of an answer in their order, each once.
///
/// Takes time in proportion to the answer's length. At most [`MOST`] are found.
#[must_use]
pub fn extract(answer: &str, known: &dyn Known) -> Vec<Citation> {
    let json = json::scan(answer, known);
    let places = Scan::new(answer, known, &json).run();
    let mut all = Vec::new();
    for (place, joins) in places.iter().zip(names(answer, &places, known)) {
        let symbol = place.symbol.as_ref().or(joins.as_ref()).and_then(|span| answer.get(span.clone()));
        for (span, lines) in &place.elements {
            all.push(citation(place.file(answer), *lines, symbol, span.clone(), joins.clone()));
        }
    }
    let objects =
        json.objects.iter().flat_map(|object| object.lines.iter().map(move |lines| (object, lines)));
    for (Object { span, file, symbol, .. }, lines) in objects.take(MOST) {
        let (name, joins) = symbol.as_ref().map(|(name, at)| (name.as_str(), at.clone())).unzip();
        all.push(citation(file, Some(*lines), name, span.clone(), joins));
    }
    all.sort_by_key(|citation| citation.span.start);
    let mut seen = HashSet::new();
    let first: Vec<bool> =
        all.iter().map(|c| seen.insert((c.file.as_str(), c.lines, c.symbol.as_deref()))).collect();
    let mut first = first.into_iter();
    all.retain(|_| first.next().unwrap_or(false));
    all.truncate(MOST);
    all
}

fn citation(
    file: &str,
    lines: Option<Given>,
    symbol: Option<&str>,
    span: Range<usize>,
    joins: Option<Range<usize>>,
) -> Citation {
    let locator = match lines {
        Some((from, Some(to))) => format!("{from}-{to}"),
        Some((line, None)) => line.to_string(),
        None => symbol.unwrap_or_default().to_owned(),
    };
    Citation {
        file: file.to_owned(),
        locator,
        lines: lines.map(|(from, to)| (from, to.unwrap_or(from))),
        symbol: symbol.map(str::to_owned),
        span,
        joins,
    }
}

/// The name beside each place, if it has none within. One before it wins; one behind it counts
/// unless it stands before the next place.
fn names(text: &str, places: &[Place], known: &dyn Known) -> Vec<Option<Range<usize>>> {
    let free = |place: &&Place| place.symbol.is_none();
    let before = |place: &Place| name::before(text, place.whole.start, place.file(text), known);
    let mut out: Vec<_> = places.iter().map(|place| Some(place).filter(free).and_then(before)).collect();
    let taken: HashSet<usize> = out.iter().flatten().map(|name| name.start).collect();
    for (place, name) in places.iter().zip(&mut out) {
        if name.is_none() && free(&place) {
            *name = name::behind(text, place.whole.end, place.file(text), known)
                .filter(|name| !taken.contains(&name.start));
        }
    }
    out
}

struct Scan<'t> {
    text: &'t str,
    known: &'t dyn Known,
    /// Escapes in JSON strings that are still ahead.
    escapes: &'t [usize],
    at: usize,
    /// Before this place brackets are no part of paths.
    split: usize,
    /// Open brackets: place, and places found before it.
    brackets: Vec<(usize, usize)>,
    /// The label before a link's target: where the target begins, and the bracket.
    label: Option<(usize, (usize, usize))>,
    found: Vec<Place>,
    /// Citations found, those that a link replaces included.
    count: usize,
}

impl<'t> Scan<'t> {
    fn new(text: &'t str, known: &'t dyn Known, json: &'t Json) -> Self {
        Self {
            text,
            known,
            escapes: &json.escapes,
            at: 0,
            split: 0,
            brackets: Vec::new(),
            label: None,
            found: Vec::new(),
            count: 0,
        }
    }

    fn run(mut self) -> Vec<Place> {
        while self.count < MOST
            && let Some(byte) = self.text.as_bytes().get(self.at).copied()
        {
            if byte == b'\\' && self.skip_escape() {
                continue;
            }
            match Token::at(self.text, self.at, self.at >= self.split) {
                Some(token) => self.token(token),
                None => self.other(byte),
            }
        }
        self.found
    }

    /// Skips the escape of a JSON string at this place, so that the `n` of `\n` begins no path.
    fn skip_escape(&mut self) -> bool {
        while let Some((at, rest)) = self.escapes.split_first() {
            if *at > self.at {
                return false;
            }
            self.escapes = rest;
            if *at == self.at {
                let bytes = &self.text.as_bytes()[at + 1..];
                let hex = bytes.iter().skip(1).take(4).take_while(|byte| byte.is_ascii_hexdigit()).count();
                self.at += if bytes.first() == Some(&b'u') { 2 + hex } else { 2 };
                return true;
            }
        }
        false
    }

    /// A character that is no part of a path.
    fn other(&mut self, byte: u8) {
        match byte {
            b'[' => {
                if self.brackets.len() >= DEEPEST {
                    self.brackets.clear();
                }
                self.brackets.push((self.at, self.found.len()));
            }
            b']' => {
                let open = self.brackets.pop();
                let target = match self.text.as_bytes().get(self.at + 1..) {
                    Some([b'(', b'<', ..]) => Some(self.at + 3),
                    Some([b'(', ..]) => Some(self.at + 2),
                    _ => None,
                };
                if let (Some(open), Some(target)) = (open, target) {
                    self.label = Some((target, open));
                }
            }
            _ => {}
        }
        self.at += self.text[self.at..].chars().next().map_or(1, char::len_utf8);
    }

    fn token(&mut self, token: Token) {
        if self.text[token.end..].starts_with("://") {
            self.at = address(self.text, token.end + 3);
            return;
        }
        let word = &self.text[token.start..token.end];
        if matches!(word, "line" | "lines" | "Line" | "Lines") && self.line_first(token) {
            return;
        }
        let behind = locator::behind(self.text, token::skip_marks(self.text, token.end), true);
        let next = match behind.and_then(|found| self.place(token, found)) {
            Some(place) => {
                let end = place.whole.end;
                self.push(place);
                end
            }
            None if token.grouped => {
                // Perhaps its parts are paths: `[app.py](src/app.py#L3)`.
                self.split = token.end;
                token.start
            }
            None => token.end,
        };
        self.at = next;
    }

    /// The citation of a token with what stands behind it.
    fn place(&self, token: Token, found: Locator) -> Option<Place> {
        let text = self.text;
        let marked = text[found.end..].bytes().take_while(|byte| *byte == b'_').count();
        let path = token::path_in(text, token, marked, self.known).filter(|path| path.whole)?;
        let mark = found.symbol.as_ref().and_then(|name| text.get(token.end..name.start));
        // In pages `#name` is an anchor.
        if mark.is_some_and(|mark| mark.ends_with('#'))
            && matches!(extension(path.file(text)), Some("md" | "rst" | "txt" | "html"))
        {
            return None;
        }
        let symbol = found.symbol.clone();
        let (lines, first, end) = found.whole(text);
        if symbol.is_none() && self.belongs_to_next(end) {
            return None;
        }
        let start = path.span.start;
        let mut lines = lines.into_iter();
        let mut elements = vec![(start..first, lines.next().map(|lines| lines.given))];
        elements.extend(lines.map(|lines| (lines.span, Some(lines.given))));
        Some(Place { path: path.span, elements, symbol, whole: start..end })
    }

    /// Whether lines that end at `at` are those of a path behind them: `a.py, line 3 of b.py`.
    fn belongs_to_next(&self, at: usize) -> bool {
        let Some(rest) = self.text[at..].strip_prefix(" of ") else { return false };
        let at = token::skip_marks(self.text, self.text.len() - rest.len());
        self.path_at(at).is_some()
    }

    fn path_at(&self, at: usize) -> Option<(Path, Token)> {
        let token = Token::at(self.text, at, true)?;
        let web = self.text[token.end..].starts_with("://");
        let path = token::path_in(self.text, token, 0, self.known)?;
        (!web).then_some((path, token))
    }

    /// `line 10 of PATH`; false when it is none.
    fn line_first(&mut self, word: Token) -> bool {
        let text = self.text;
        let Some((lines, at)) = locator::of(text, word.end) else { return false };
        let Some((path, token)) = self.path_at(token::skip_marks(text, at)) else { return false };
        // With lines of its own behind it, it needs none before.
        let behind = locator::behind(text, token::skip_marks(text, token.end), false);
        if path.whole && behind.is_some_and(|found| self.place(token, found).is_some()) {
            return false;
        }
        let whole = word.start..path.span.end;
        let element = |(nth, lines): (usize, Lines)| {
            let span = if nth == 0 { whole.clone() } else { lines.span };
            (span, Some(lines.given))
        };
        let elements = lines.into_iter().enumerate().map(element).collect();
        self.at = token.end;
        self.push(Place { path: path.span, elements, symbol: None, whole });
        true
    }

    /// Takes a citation; as the target of a link it stands for what its label says.
    fn push(&mut self, mut place: Place) {
        if let Some((target, (open, before))) = self.label.take()
            && target == place.path.start
        {
            self.found.truncate(before);
            let mut end = place.whole.end;
            for close in ['>', ')'] {
                end += usize::from(self.text[end..].starts_with(close));
            }
            place.whole = open..end;
        }
        self.count += place.elements.len();
        self.found.push(place);
    }
}

/// Place behind an address on the web that goes on at `at`.
fn address(text: &str, at: usize) -> usize {
    let mut open = 0u32;
    for (nth, c) in text[at..].char_indices() {
        match c {
            '(' | '[' => open += 1,
            ')' | ']' if open > 0 => open -= 1,
            ')' | ']' | '<' | '>' | '"' | '\'' | '`' | '|' => return at + nth,
            _ if c.is_whitespace() => return at + nth,
            _ => {}
        }
    }
    text.len()
}
