//! Lines and symbols beside a path.

use std::ops::Range;

use super::name;

/// Longest list.
const MOST: usize = 10_000;

/// First line, and last of a range.
pub(super) type Given = (u64, Option<u64>);

/// Line or lines as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lines {
    pub(super) span: Range<usize>,
    pub(super) given: Given,
}

/// What follows a path, up to its first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Locator {
    /// None for a symbol alone.
    pub(super) lines: Option<Lines>,
    /// A symbol in it.
    pub(super) symbol: Option<Range<usize>>,
    /// Place behind it.
    pub(super) end: usize,
    /// How a list may go on.
    list: Option<Style>,
    /// It stands in parentheses.
    inside: bool,
}

/// A range is written with a hyphen or dash, or, behind the word `line`, also in words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Marks,
    Words,
}

fn byte(text: &str, at: usize) -> Option<u8> {
    text.as_bytes().get(at).copied()
}

fn rest(text: &str, at: usize) -> &str {
    text.get(at..).unwrap_or_default()
}

/// A number with an optional `L`; what is too large stays too large.
fn number(text: &str, at: usize) -> Option<(u64, usize)> {
    let from = at + usize::from(byte(text, at) == Some(b'L'));
    let digits = text.as_bytes().get(from..)?.iter().take_while(|byte| byte.is_ascii_digit());
    let mut end = from;
    let mut value = 0u64;
    for digit in digits {
        value = value.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
        end += 1;
    }
    (end > from).then_some((value, end))
}

/// Whether a number may end here: `12abc`, `12%` and `12.5` are none of lines.
fn ends(text: &str, at: usize) -> bool {
    let rest = rest(text, at);
    let behind = rest.trim_start_matches('_');
    let digit = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit());
    !(behind.starts_with(char::is_alphanumeric)
        || rest.starts_with('%')
        || rest.strip_prefix('.').is_some_and(digit))
}

/// Whether more than a column is glued to a number: `3-fold`, `3.x`, `3:45`, `3/4`.
fn is_glued(text: &str, at: usize) -> bool {
    let rest = rest(text, at);
    rest.starts_with('/')
        || rest.strip_prefix(['-', '.', ':']).is_some_and(|rest| rest.starts_with(char::is_alphanumeric))
}

/// A line or a range at `at`.
pub(super) fn range(text: &str, at: usize, style: Style) -> Option<Lines> {
    let (from, end) = number(text, at)?;
    let joints = ["-", "–", " to ", " through "];
    let joints = &joints[..if style == Style::Words { 4 } else { 2 }];
    let next =
        joints.iter().find(|joint| rest(text, end).starts_with(**joint)).map(|joint| end + joint.len());
    if let Some((to, end)) = next.and_then(|next| number(text, next))
        && ends(text, end)
    {
        // A date is no range.
        let dated = byte(text, end) == Some(b'-') && number(text, end + 1).is_some();
        return (!dated).then_some(Lines { span: at..end, given: (from, Some(to)) });
    }
    ends(text, end).then_some(Lines { span: at..end, given: (from, None) })
}

/// Place behind `:5` at `at`, or `at`.
fn column(text: &str, at: usize) -> usize {
    let number = (byte(text, at) == Some(b':') && byte(text, at + 1) != Some(b'L'))
        .then(|| number(text, at + 1))
        .flatten();
    match number {
        Some((_, end)) if ends(text, end) => end,
        _ => at,
    }
}

/// Place of the next number of a list: behind `, `, `,`, ` and ` or `, and `.
fn joint(text: &str, at: usize) -> Option<usize> {
    let rest = rest(text, at);
    [", and ", " and ", ", ", ","]
        .iter()
        .find(|joint| rest.starts_with(**joint))
        .map(|joint| at + joint.len())
}

/// Elements of a list behind its first. With `counted`, one that a blank and a word follow counts
/// something else: `app.py:12, 3 tests`.
fn tail(text: &str, mut at: usize, style: Style, counted: bool, into: &mut Vec<Lines>) -> usize {
    while into.len() < MOST
        && let Some(next) = joint(text, at)
        && let Some(lines) = range(text, next, style)
    {
        let end = lines.span.end;
        let word =
            || rest(text, end).strip_prefix(' ').is_some_and(|rest| rest.starts_with(char::is_alphanumeric));
        let goes_on = || joint(text, end).is_some_and(|next| number(text, next).is_some());
        // Nobody counts anything right behind a comma.
        let listed = next == at + 1 && byte(text, at) == Some(b',');
        if is_glued(text, end) || (counted && !listed && word() && !goes_on()) {
            break;
        }
        into.push(lines);
        at = end;
    }
    at
}

impl Locator {
    /// All its lines with the list that goes on behind it, and the places behind the first and
    /// behind all of it. Only for what follows a path: a list may be long.
    pub(super) fn whole(self, text: &str) -> (Vec<Lines>, usize, usize) {
        let mut lines: Vec<_> = self.lines.into_iter().collect();
        let mut end = self.end;
        if let Some(style) = self.list {
            end = tail(text, end, style, true, &mut lines);
        }
        if self.inside && byte(text, end) == Some(b')') {
            end += 1;
        }
        let first = if lines.len() > 1 { self.end } else { end };
        (lines, first, end)
    }
}

/// What stands behind a path at `at`, closing marks skipped; `code` allows `#name`.
pub(super) fn behind(text: &str, at: usize, code: bool) -> Option<Locator> {
    match byte(text, at)? {
        b':' if byte(text, at + 1) != Some(b' ') => colon(text, at + 1),
        b'#' => fragment(text, at + 1, code),
        b':' | b' ' | b',' => worded(text, at),
        _ => None,
    }
}

/// `PATH:12`, `PATH:12-20, 34`, `PATH:12:5`, `PATH:Name`, `PATH::Name:12`.
fn colon(text: &str, at: usize) -> Option<Locator> {
    if let Some(first) = range(text, at, Style::Marks) {
        let end = column(text, first.span.end);
        return Some(Locator {
            lines: Some(first),
            symbol: None,
            end,
            list: Some(Style::Marks),
            inside: false,
        });
    }
    named(text, at + usize::from(byte(text, at) == Some(b':')))
}

/// `PATH#L10`, `PATH#L10-L20`, `PATH#name`.
fn fragment(text: &str, at: usize, code: bool) -> Option<Locator> {
    if byte(text, at) == Some(b'L')
        && let Some(lines) = range(text, at, Style::Marks)
    {
        let end = lines.span.end;
        return Some(Locator { lines: Some(lines), symbol: None, end, list: None, inside: false });
    }
    if code { named(text, at) } else { None }
}

/// A symbol, and perhaps `:12`.
fn named(text: &str, at: usize) -> Option<Locator> {
    let name = at..name::path(text, at)?;
    let mut end = name.end;
    if rest(text, end).starts_with("()") {
        end += 2;
    }
    let behind = rest(text, end);
    // Rather a path, an address or a word with a hyphen.
    let other = behind.starts_with(['/', '@'])
        || behind.starts_with("://")
        || behind.strip_prefix('-').is_some_and(|rest| rest.starts_with(char::is_alphanumeric));
    if other {
        return None;
    }
    let lines = (byte(text, end) == Some(b':')).then(|| range(text, end + 1, Style::Marks)).flatten();
    if let Some(lines) = &lines {
        end = column(text, lines.span.end);
    }
    Some(Locator { lines, symbol: Some(name), end, list: None, inside: false })
}

/// Place behind `line ` or `lines ` at `at`.
fn line_word(text: &str, at: usize) -> Option<usize> {
    let rest = rest(text, at);
    ["lines ", "line ", "Lines ", "Line "]
        .iter()
        .find(|word| rest.starts_with(**word))
        .map(|word| at + word.len())
}

/// `PATH (line 10)`, `PATH, line 10`, `PATH at line 10`, `PATH L10`.
fn worded(text: &str, at: usize) -> Option<Locator> {
    let behind = rest(text, at);
    let inside = behind.starts_with(" (");
    let marked = |at: usize| (byte(text, at) == Some(b'L')).then_some(at);
    let from = if inside {
        line_word(text, at + 2).or(marked(at + 2))?
    } else {
        let joints = [", ", ": ", " at ", " on ", " "];
        let joint = joints.iter().find(|joint| behind.starts_with(**joint))?;
        let next = at + joint.len();
        line_word(text, next).or(if *joint == " " { marked(next) } else { None })?
    };
    let first = range(text, from, Style::Words)?;
    let end = first.span.end;
    Some(Locator { lines: Some(first), symbol: None, end, list: Some(Style::Words), inside })
}

/// ` 10 of ` behind the word `line` at `at`: its lines, and the place behind the blank.
pub(super) fn of(text: &str, at: usize) -> Option<(Vec<Lines>, usize)> {
    let first = (byte(text, at) == Some(b' ')).then(|| range(text, at + 1, Style::Words)).flatten()?;
    let begin = first.span.end;
    let mut lines = vec![first];
    let end = tail(text, begin, Style::Words, false, &mut lines);
    let joint = [" of ", " in "].iter().find(|joint| rest(text, end).starts_with(**joint))?;
    Some((lines, end + joint.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines behind a path, and the text that they and the locator take.
    fn lines(text: &str) -> Option<(Vec<&str>, &str)> {
        let found = behind(text, 0, true)?;
        assert_eq!(found.symbol, None);
        let (lines, _, end) = found.whole(text);
        Some((lines.into_iter().map(|lines| &text[lines.span]).collect(), &text[..end]))
    }

    #[test]
    fn lists_end_before_what_is_counted() {
        for (text, want, all) in [
            (":12, 34 and 56.", vec!["12", "34", "56"], ":12, 34 and 56"),
            (":12, 34, and 56", vec!["12", "34", "56"], ":12, 34, and 56"),
            (":12,34-40,7", vec!["12", "34-40", "7"], ":12,34-40,7"),
            (":12, 3 tests", vec!["12"], ":12"),
            (":12, 34 and 5 tests", vec!["12", "34"], ":12, 34"),
            (":12, 3rd", vec!["12"], ":12"),
            (":12, 3-fold, 3/4", vec!["12"], ":12"),
            (":12:5, 34", vec!["12", "34"], ":12:5, 34"),
            (":12-foo", vec!["12"], ":12"),
            (":L5-L9 x", vec!["L5-L9"], ":L5-L9"),
            (" (lines 5 to 9 and 12)", vec!["5 to 9", "12"], " (lines 5 to 9 and 12)"),
            (" (line 5, in f)", vec!["5"], " (line 5"),
            (" at line 5 and 3 more", vec!["5"], " at line 5"),
            ("#L5-9, 12", vec!["L5-9"], "#L5-9"),
        ] {
            assert_eq!(lines(text), Some((want, all)), "{text}");
        }
        for none in
            [":12abc", ":12%", ":12.5", ": 12", ":2024-01-05", " (5)", ", 5", " 5", " (see line 5)", "#5", ""]
        {
            assert_eq!(lines(none), None, "{none}");
        }
    }

    #[test]
    fn symbols_and_their_lines() {
        let named = |text: &str| {
            let found = behind(text, 0, true)?;
            let name = found.symbol.map(|name| text[name].to_owned())?;
            Some((name, found.lines.map(|lines| lines.given.0), text[..found.end].to_owned()))
        };
        let want = |name: &str, line, all: &str| Some((name.to_owned(), line, all.to_owned()));
        assert_eq!(named("::A::b():12 x"), want("A::b", Some(12), "::A::b():12"));
        assert_eq!(named(":A#b."), want("A#b", None, ":A#b"));
        assert_eq!(named("#main(x)"), want("main", None, "#main"));
        assert_eq!(named(":L12x"), want("L12x", None, ":L12x"));
        for none in [":src/a.py:3", ":https://x", ":some-key", ": A", "#", ":", ":::a"] {
            assert_eq!(named(none), None, "{none}");
        }
        assert_eq!(behind("#main", 0, false), None);
    }

    #[test]
    fn numbers_stay_too_large() {
        assert_eq!(number("99999999999999999999999", 0), Some((u64::MAX, 23)));
        assert_eq!(of(" 81 and 226 of x", 0).map(|(lines, end)| (lines.len(), end)), Some((2, 15)));
        assert_eq!(of(" 81 of", 0), None);
    }
}
