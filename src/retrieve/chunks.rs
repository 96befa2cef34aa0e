//! Cuts a file into pieces that one would show: a function with the comment
//! above it, a type without its methods, and what is left of the file.

use crate::corpus::symbols::{Symbol, SymbolKind, definitions};

/// Longest piece, in lines, of text that belongs to no definition.
const WINDOW: usize = 60;

/// Deepest nest of types that are pieces of their own.
const DEEPEST: usize = 32;

/// A piece of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Name of the definition, for a piece that is one.
    pub(super) symbol: Option<String>,
    /// Name of the type or module around it.
    pub(super) container: Option<String>,
    /// 1-based line to show.
    pub(super) line: u64,
    /// Its byte ranges in order.
    pub(super) ranges: Vec<(usize, usize)>,
}

/// The pieces of a file in order, and whether a grammar was used.
pub(super) fn pieces(path: &str, text: &str) -> (Vec<Piece>, bool) {
    let symbols = definitions(path, text);
    let parsed = symbols.is_some();
    let units = units(symbols.unwrap_or_default(), text);
    let mut out = Vec::new();
    let rest = without(0, text.len(), units.iter().filter(|u| u.depth == 0));
    windows(text, &rest, &mut out);
    for (at, unit) in units.iter().enumerate() {
        let inner = units[at + 1..].iter().take_while(|u| u.start < unit.end);
        out.push(Piece {
            symbol: Some(unit.symbol.name.clone()),
            container: unit.symbol.container.clone(),
            line: unit.symbol.line,
            ranges: without(unit.start, unit.end, inner.filter(|u| u.depth == unit.depth + 1)),
        });
    }
    out.retain(|p| p.ranges.iter().any(|(a, b)| text.get(*a..*b).is_some_and(|t| !t.trim().is_empty())));
    out.sort_by_key(|p| (p.line, p.ranges[0]));
    (out, parsed)
}

/// A definition that is a piece of its own.
struct Unit {
    symbol: Symbol,
    start: usize,
    end: usize,
    depth: usize,
}

fn units(symbols: Vec<Symbol>, text: &str) -> Vec<Unit> {
    let wanted = |s: &Symbol| s.kind.is_callable() || s.kind.is_type() || s.kind == SymbolKind::Module;
    let mut symbols: Vec<Symbol> = symbols.into_iter().filter(wanted).collect();
    symbols.sort_by(|a, b| (a.start, b.end).cmp(&(b.start, a.end)));
    let mut out: Vec<Unit> = Vec::new();
    // Ends of the units around, with whether each is callable.
    let mut open: Vec<(usize, bool)> = Vec::new();
    let mut floor = 0;
    for symbol in symbols {
        while open.last().is_some_and(|(end, _)| *end <= symbol.start) {
            floor = open.pop().map_or(floor, |(end, _)| end.max(floor));
        }
        // What is inside a function belongs to it.
        if open.last().is_some_and(|(_, callable)| *callable) || open.len() >= DEEPEST {
            continue;
        }
        let start = lead(text, symbol.start, floor);
        let end = symbol.end;
        open.push((end, symbol.kind.is_callable()));
        floor = symbol.start;
        out.push(Unit { start, end, depth: open.len() - 1, symbol });
    }
    out
}

/// Start of the comments and decorators that stand right above a definition,
/// not before `floor`.
fn lead(text: &str, start: usize, floor: usize) -> usize {
    let bytes = text.as_bytes();
    // Not further back than `floor`: a file may be one endless line.
    let line_start = |at: usize| memchr::memrchr(b'\n', &bytes[floor..at]).map_or(floor, |i| floor + i + 1);
    if start < floor {
        return start;
    }
    let mut at = line_start(start);
    if at == floor && floor > 0 && bytes[floor - 1] != b'\n' {
        return start;
    }
    while at > floor {
        let above = line_start(at - 1);
        let line = text.get(above..at).unwrap_or_default().trim();
        let belongs = ["//", "#", "*", "/*", "@", "--"].iter().any(|mark| line.starts_with(mark));
        if !belongs || line.starts_with("#include") || line.starts_with("#!") {
            break;
        }
        at = above;
    }
    at
}

/// A range less the units inside.
fn without<'u>(start: usize, end: usize, inner: impl Iterator<Item = &'u Unit>) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    let mut at = start;
    for unit in inner {
        if unit.start > at {
            out.push((at, unit.start));
        }
        at = at.max(unit.end);
    }
    if at < end {
        out.push((at, end));
    }
    if out.is_empty() {
        out.push((start, start));
    }
    out
}

/// Cuts what belongs to no definition into windows of [`WINDOW`] lines.
fn windows(text: &str, ranges: &[(usize, usize)], out: &mut Vec<Piece>) {
    let bytes = text.as_bytes();
    let mut lines = 0;
    let (mut line, mut counted) = (1, 0);
    let mut piece: Vec<(usize, usize)> = Vec::new();
    let mut first = None;
    let mut close = |piece: &mut Vec<(usize, usize)>, first: &mut Option<u64>| {
        if let Some(line) = first.take().filter(|_| !piece.is_empty()) {
            let ranges = std::mem::take(piece);
            out.push(Piece { symbol: None, container: None, line, ranges });
        }
        piece.clear();
    };
    for (start, end) in ranges {
        let mut at = *start;
        while at < *end {
            let stop = memchr::memchr(b'\n', &bytes[at..*end]).map_or(*end, |i| at + i + 1);
            let blank = bytes[at..stop].iter().all(u8::is_ascii_whitespace);
            if !blank && first.is_none() {
                line += memchr::memchr_iter(b'\n', &bytes[counted..at]).count() as u64;
                counted = at;
                first = Some(line);
            }
            match piece.last_mut() {
                Some((_, last)) if *last == at => *last = stop,
                _ => piece.push((at, stop)),
            }
            lines += 1;
            if lines >= WINDOW {
                close(&mut piece, &mut first);
                lines = 0;
            }
            at = stop;
        }
    }
    close(&mut piece, &mut first);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(path: &str, text: &str) -> Vec<(Option<String>, u64, String)> {
        let show = |p: Piece| {
            let text: Vec<&str> = p.ranges.iter().map(|(a, b)| text[*a..*b].trim()).collect();
            (p.symbol, p.line, text.join("|"))
        };
        pieces(path, text).0.into_iter().map(show).collect()
    }

    #[test]
    fn each_definition_is_a_piece_and_the_rest_is_one() {
        let text = "import os\n\n# about A\n@mark\nclass A:\n    x = 1\n\n    # about f\n    def f(self):\n        def g(): pass\n\n    y = 2\n\nz = 3\n";
        let some = |s: &str| Some(s.to_owned());
        assert_eq!(
            shown("m.py", text),
            [
                (None, 1, "import os|z = 3".to_owned()),
                (some("A"), 5, "# about A\n@mark\nclass A:\n    x = 1|y = 2".to_owned()),
                (some("f"), 9, "# about f\n    def f(self):\n        def g(): pass".to_owned()),
            ]
        );
    }

    #[test]
    fn text_without_grammar_is_cut_into_windows() {
        let text = "word\n".repeat(130);
        let pieces = pieces("a.md", &text);
        assert!(!pieces.1);
        assert_eq!(pieces.0.iter().map(|p| p.line).collect::<Vec<_>>(), [1, 61, 121]);
        assert_eq!(shown("a.md", " \n\n"), []);
        assert_eq!(shown("a.py", ""), []);
    }

    #[test]
    fn all_text_is_in_exactly_one_piece() {
        let text = "const a = 1;\n/** doc */\nexport class B { m() { return () => 1; }\n  n = 2 }\nfunction f() {}\nf();\n";
        let mut ranges: Vec<_> = pieces("a.ts", text).0.into_iter().flat_map(|p| p.ranges).collect();
        ranges.sort_unstable();
        let joined: String = ranges.iter().map(|(a, b)| &text[*a..*b]).collect();
        assert_eq!(joined, text);
    }
}
