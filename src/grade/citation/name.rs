//! Names of symbols: what one looks like, and where it stands beside a citation.

use std::ops::Range;

use super::listing::extension;
use super::token::{Known, skip_marks};

/// Longest name, and longest piece of code in backticks that is looked at, in bytes.
const LONGEST: usize = 256;

/// What may stand between a name and the citation behind it.
const BEFORE: [&str; 8] = [" (", " at ", " in ", " @ ", " - ", " – ", " — ", ": "];
/// What may stand between a citation and a name behind it.
const BEHIND: [&str; 4] = [" - ", " – ", " — ", " "];

fn begins(c: char) -> bool {
    c == '_' || c == '$' || c.is_alphabetic()
}

fn goes_on(c: char) -> bool {
    c == '_' || c == '$' || c.is_alphanumeric()
}

/// Place behind the identifier at `at`, if that is at most `most`.
fn identifier(text: &str, at: usize, most: usize) -> Option<usize> {
    let rest = text.get(at..)?;
    let mut behind = rest.char_indices().skip_while(|(nth, c)| at + nth <= most && goes_on(*c));
    let end = behind.next().map_or(text.len(), |(nth, _)| at + nth);
    (rest.starts_with(begins) && end <= most).then_some(end)
}

/// Place behind the identifier path at `at`: `Flask.run`, `Flask#run`, `cli::main`. None when it is
/// too long; then no more of it is read.
pub(super) fn path(text: &str, at: usize) -> Option<usize> {
    let most = at + LONGEST;
    let mut end = identifier(text, at, most)?;
    loop {
        let step = match text.as_bytes().get(end..).unwrap_or_default() {
            [b':', b':', ..] => 2,
            [b'.' | b'#', ..] => 1,
            _ => return Some(end),
        };
        let next = end + step;
        if !text[next..].starts_with(begins) {
            return Some(end);
        }
        end = identifier(text, next, most)?;
    }
}

/// The name in a piece of code, without arguments.
pub(super) fn of_code(code: &str) -> Option<&str> {
    let name = match code.split_once('(') {
        Some((name, rest)) if rest.ends_with(')') => name,
        Some(_) => return None,
        None => code,
    };
    (path(name, 0) == Some(name.len())).then_some(name)
}

/// Name of a symbol itself: `run` of `Flask.run`, `Flask#run` and `Flask::run`.
pub(super) fn own(symbol: &str) -> &str {
    symbol.rsplit(['.', ':', '#']).next().unwrap_or(symbol)
}

/// Whether what looks like a name is rather one of a file.
fn is_file(name: &str, file: &str, known: &dyn Known) -> bool {
    let last = file.rsplit('/').next().unwrap_or(file);
    name == last
        || extension(name).is_some_and(|end| extension(file) == Some(end))
        || (name.contains('.') && known.path(name))
}

/// Place before the marks that end at `at`.
fn skip_back(text: &str, at: usize, marks: &[u8]) -> usize {
    let bytes = text.as_bytes().get(..at).unwrap_or_default();
    at - bytes.iter().rev().take_while(|byte| marks.contains(byte)).count()
}

/// Place behind the bold marks at `at`.
fn skip_bold(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes().get(at..).unwrap_or_default();
    at + bytes.iter().take_while(|byte| matches!(byte, b'*' | b'_')).count()
}

fn span_of(name: &str, at: usize) -> Range<usize> {
    at..at + name.len()
}

/// The name in backticks directly before `at`, where the citation of `file` begins.
pub(super) fn before(text: &str, at: usize, file: &str, known: &dyn Known) -> Option<Range<usize>> {
    let outer = text.get(..skip_back(text, at, b"`*_\"'"))?;
    let left = BEFORE.iter().find_map(|joint| outer.strip_suffix(joint))?;
    let left = &left[..skip_back(left, left.len(), b"*_")];
    let close = skip_back(left, left.len(), b"`");
    if close == left.len() {
        return None;
    }
    let from = close.saturating_sub(LONGEST);
    let open = from
        + 1
        + text.as_bytes()[from..close].iter().rposition(|byte| matches!(byte, b'`' | b'\n' | b'\r'))?;
    let within = text.as_bytes()[open - 1] == b'`';
    let name = within.then(|| of_code(text.get(open..close)?)).flatten()?;
    (!is_file(name, file, known)).then(|| span_of(name, open))
}

/// The name directly behind `at`, where the citation of `file` ends.
pub(super) fn behind(text: &str, at: usize, file: &str, known: &dyn Known) -> Option<Range<usize>> {
    let at = skip_marks(text, at);
    let rest = text.get(at..)?;
    let found = if rest.starts_with(" (") {
        let inside = skip_bold(text, at + 2);
        match code(text, inside) {
            Some((name, end)) => {
                let end = skip_bold(text, end);
                (text.as_bytes().get(end) == Some(&b')')).then_some(name)?
            }
            None => plain(text, at + 2)?,
        }
    } else {
        let joint = BEHIND.iter().find(|joint| rest.starts_with(**joint))?;
        code(text, skip_bold(text, at + joint.len()))?.0
    };
    (!is_file(&text[found.clone()], file, known)).then_some(found)
}

/// The name in backticks at `at`, and the place behind them.
fn code(text: &str, at: usize) -> Option<(Range<usize>, usize)> {
    let bytes = text.as_bytes();
    let ticks = bytes.get(at..)?.iter().take_while(|byte| **byte == b'`').count();
    let from = at + ticks;
    if ticks == 0 || ticks > 2 {
        return None;
    }
    let most = (from + LONGEST).min(text.len());
    let len = bytes[from..most].iter().position(|byte| matches!(byte, b'`' | b'\n' | b'\r'))?;
    let end = from + len + ticks;
    if !bytes.get(from + len..end)?.iter().all(|byte| *byte == b'`') {
        return None;
    }
    let name = of_code(text.get(from..from + len)?)?;
    Some((span_of(name, from), end))
}

/// The name without backticks at `at`, before a `)`; prose is none.
fn plain(text: &str, at: usize) -> Option<Range<usize>> {
    let end = path(text, at)?;
    let name = &text[at..end];
    let called = text[end..].starts_with("()");
    let close = end + if called { 2 } else { 0 };
    let inner = || name.chars().skip(1).any(char::is_uppercase);
    let tells = called || name.contains(['_', '.', ':', '#']) || inner();
    (tells && text[close..].starts_with(')')).then(|| span_of(name, at))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grade::citation::Nothing;

    #[test]
    fn identifier_paths() {
        let end = |text| path(text, 0);
        assert_eq!(end("Flask.run."), Some(9));
        assert_eq!(end("A::b#c.d::"), Some(8));
        assert_eq!(end("größe_2 x"), Some(9));
        assert_eq!(path(&"a".repeat(LONGEST), 0), Some(LONGEST));
        assert_eq!(path(&"a".repeat(LONGEST + 1), 0), None);
        assert_eq!(path(&"é.".repeat(LONGEST), 0), None);
        assert_eq!([end("2a"), end(""), end(".a"), end("(")], [None; 4]);
        assert_eq!(of_code("url_for(endpoint, **values)"), Some("url_for"));
        assert_eq!(of_code("main()"), Some("main"));
        for none in ["flask run", "class Flask", "--debug", "f(", "f()x", "", "a..b", "a:b", "a()b"] {
            assert_eq!(of_code(none), None, "{none}");
        }
        assert_eq!([own("A::b#c"), own("plain"), own("A.b")], ["c", "plain", "b"]);
    }

    #[test]
    fn names_of_files_are_none_of_symbols() {
        let at = |text: &str| {
            let at = text.find("s/a.py").unwrap();
            before(text, at, "s/a.py", &Nothing).map(|span| text[span].to_owned())
        };
        assert_eq!(at("`f` (s/a.py:1)"), Some("f".to_owned()));
        assert_eq!(at("``f`` in **`s/a.py:1`**"), Some("f".to_owned()));
        assert_eq!(at("`a.json` (s/a.py:1)"), Some("a.json".to_owned()));
        for none in
            ["`a.py` (s/a.py:1)", "`b.py`: s/a.py:1", "f` (s/a.py:1)", "`f\n` (s/a.py:1)", " (s/a.py:1)"]
        {
            assert_eq!(at(none), None, "{none}");
        }
    }
}
