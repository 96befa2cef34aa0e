//! Syntax errors: several at once, each where it was made.
//!
//! The TOML parser recovers, but an unclosed list swallows all that follows
//! and then every further line is an error. Here the statement with the first
//! error is blanked out (offsets stay) and the rest is parsed again.

use std::ops::Range;

use toml::de::DeTable;

/// The most errors that are looked for.
const MOST: usize = 20;
/// A text with more errors than this in one reading is no attempt at TOML:
/// only its first is shown.
const HOPELESS: usize = 2_000;

/// A syntax error.
#[derive(Debug)]
pub(super) struct Fault {
    /// What it is.
    pub(super) message: String,
    /// Where, in bytes.
    pub(super) at: Range<usize>,
    /// The way out.
    pub(super) help: String,
    /// A key or table that is given twice.
    pub(super) duplicate: bool,
    /// The statement that was taken out because of it.
    pub(super) blanked: Option<Range<usize>>,
}

/// The text with its broken statements blanked out, and what was wrong with them.
pub(super) fn sound_part(text: &str) -> (String, Vec<Fault>) {
    let mut sound = text.to_owned();
    let mut faults: Vec<Fault> = Vec::new();
    while faults.len() < MOST {
        let (_, errors) = DeTable::parse_recoverable(&sound);
        let mut errors: Vec<(Range<usize>, String)> =
            errors.iter().map(|e| (clip(&sound, e.span().unwrap_or(0..0)), e.message().to_owned())).collect();
        errors.sort_by_key(|(span, _)| span.start);
        let hopeless = errors.len() > HOPELESS;
        let known = |at: &Range<usize>| faults.iter().any(|f| f.duplicate && f.at == *at);
        let Some((at, message)) = errors.into_iter().find(|(at, _)| !known(at)) else { break };
        let mut fault =
            if message == "duplicate key" { duplicate(&sound, at) } else { broken(&sound, at, &message) };
        if hopeless {
            fault.blanked = Some(0..sound.len());
        }
        if let Some(range) = &fault.blanked {
            blank(&mut sound, range);
        }
        faults.push(fault);
    }
    (sound, faults)
}

fn clip(text: &str, span: Range<usize>) -> Range<usize> {
    let boundary = |mut at: usize| {
        at = at.min(text.len());
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        at
    };
    let start = boundary(span.start);
    start..boundary(span.end).max(start)
}

/// Of a repeated key the parser keeps the first; of a repeated table it would
/// keep the second, so that one is taken out.
fn duplicate(text: &str, at: Range<usize>) -> Fault {
    let line = line_start(text, at.start);
    let header = text[line..].trim_start().starts_with('[');
    let blanked = header.then(|| {
        let mut end = next_line(text, at.end);
        while end < text.len() && !text[end..].trim_start_matches([' ', '\t']).starts_with('[') {
            end = next_line(text, end);
        }
        line..end
    });
    let name = text.get(at.clone()).unwrap_or_default();
    let what = if header { "table" } else { "key" };
    Fault {
        message: format!("the {what} `{name}` is given twice"),
        at,
        help: if header { "put both into one table".to_owned() } else { "keep one of them".to_owned() },
        duplicate: true,
        blanked,
    }
}

fn broken(text: &str, at: Range<usize>, message: &str) -> Fault {
    let line = line_start(text, at.start);
    let end_of_file = text[at.start..].trim().is_empty();
    // Where the next statement begins although a list is open, that list lacks its end.
    if (is_statement(&text[line..]) || end_of_file)
        && let Some(start) = statement_before(text, if end_of_file { text.len() } else { line })
    {
        let end = if end_of_file { text.len() } else { line };
        let statement = text[start..end].trim_end();
        if let Some(open) = unclosed(statement) {
            return Fault {
                message: "this list or table has no end".to_owned(),
                at: start + open..start + statement.len(),
                help: "close it with `]` or `}`, and put commas between its entries".to_owned(),
                duplicate: false,
                blanked: Some(start..end),
            };
        }
    }
    let start = if is_statement(&text[line..]) { line } else { statement_before(text, line).unwrap_or(line) };
    let header = text[start..].trim_start().starts_with('[');
    let mut end = next_line(text, start.max(line));
    // The keys of a broken header would land in the table before it.
    while end < text.len() && (!is_statement(&text[end..]) || (header && !is_header(&text[end..]))) {
        end = next_line(text, end);
    }
    if text[start..end].trim().is_empty() {
        // Nothing is left to take out: give up on the rest.
        end = text.len();
    }
    let (message, help) = explain(message);
    Fault { message, at: widen(text, at), help, duplicate: false, blanked: Some(start..end) }
}

/// The last statement that begins before the line that starts at `line`.
fn statement_before(text: &str, line: usize) -> Option<usize> {
    let mut start = line;
    while start > 0 {
        start = line_start(text, start - 1);
        if is_statement(&text[start..]) {
            return Some(start);
        }
    }
    None
}

/// Where in a `key = value` the first bracket stands that is never closed.
fn unclosed(statement: &str) -> Option<usize> {
    if is_header(statement) {
        return None;
    }
    let mut open = Vec::new();
    let mut quote = None;
    let mut comment = false;
    let mut before = '\0';
    for (at, c) in statement.char_indices() {
        match (quote, c) {
            (_, '\n') => (quote, comment) = (None, false),
            _ if comment => {}
            (Some(q), c) if c == q && !(q == '"' && before == '\\') => quote = None,
            (None, '"' | '\'') => quote = Some(c),
            (None, '#') => comment = true,
            (None, '[' | '{') => open.push(at),
            (None, ']' | '}') => {
                open.pop();
            }
            _ => {}
        }
        before = c;
    }
    open.first().copied()
}

/// A place without width is hard to see: take the character at it, or the line before.
fn widen(text: &str, at: Range<usize>) -> Range<usize> {
    if at.start < at.end {
        return at;
    }
    match text[at.start..].chars().next() {
        Some(c) if !c.is_whitespace() => at.start..at.start + c.len_utf8(),
        _ => {
            let line = line_start(text, at.start);
            let lead = text[line..at.start].len() - text[line..at.start].trim_start().len();
            line + lead..at.start
        }
    }
}

fn explain(message: &str) -> (String, String) {
    let closed = "invalid basic string, expected `\"`";
    if message.starts_with(closed) {
        return ("this text has no end".to_owned(), "close it with `\"`".to_owned());
    }
    if message.starts_with("string values must be quoted") {
        return (
            "there is no value here, or a text without quotes".to_owned(),
            "put a text in quotes, as in `name = \"quick\"`".to_owned(),
        );
    }
    if message.starts_with("invalid basic string") {
        return (
            "this text holds a character that must be written as an escape".to_owned(),
            "write `\\\\` for a backslash and `\\u0000` forms for control characters, or use '...'"
                .to_owned(),
        );
    }
    if message.contains("recursion") || message.contains("recurse") {
        return ("tables and lists are nested too deep".to_owned(), "flatten it".to_owned());
    }
    (
        format!("not TOML: {message}"),
        "a line is `key = value` or `[table]`; texts are quoted, lists are `[\"a\", \"b\"]`".to_owned(),
    )
}

/// Whether a line is meant as a table header.
fn is_header(rest: &str) -> bool {
    let line = rest.lines().next().unwrap_or_default().trim_start();
    let Some(header) = line.strip_prefix('[') else { return false };
    let header = header.strip_prefix('[').unwrap_or(header).trim_start();
    header.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && !header.contains(',')
}

/// Whether a line begins a statement: a table header or `key =`.
fn is_statement(rest: &str) -> bool {
    if is_header(rest) {
        return true;
    }
    let line = rest.lines().next().unwrap_or_default().trim_start();
    let key = line.split('=').next().unwrap_or_default();
    let bare = |c: char| c.is_ascii_alphanumeric() || "_-.\"'@/+() ".contains(c);
    line.contains('=') && !key.trim().is_empty() && key.chars().all(bare)
}

fn line_start(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().rposition(|b| *b == b'\n').map_or(0, |newline| newline + 1)
}

fn next_line(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    text.as_bytes()[at..].iter().position(|b| *b == b'\n').map_or(text.len(), |newline| at + newline + 1)
}

/// Overwrites with blanks, byte for byte, so that all offsets stay.
fn blank(text: &mut String, range: &Range<usize>) {
    let cleared: String =
        text[range.clone()].bytes().map(|b| if b == b'\n' || b == b'\r' { b as char } else { ' ' }).collect();
    text.replace_range(range.clone(), &cleared);
}
