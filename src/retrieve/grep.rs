//! What a good developer does with ripgrep: search for the question's rare
//! words, names first, prefer whole words and lines that define something,
//! and open the files where most of them meet.
//!
//! Searching is done by ripgrep's own libraries. There is no index.

use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};
use grep_matcher::LineTerminator;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{Searcher, SearcherBuilder, Sink, SinkMatch};

use super::postings::{Ranked, order};
use super::words::{Interest, question_words, role};
use super::{Engine, Found, IndexFacts, SourceFile, excerpt, in_order};

/// Bump when the results change.
pub(super) const FORMAT: u32 = 1;

/// Most keywords that are searched for.
const MOST_KEYWORDS: usize = 16;
/// What a name counts over a word of English.
const NAME: f64 = 2.0;
/// What a keyword counts more in a file that defines it, or is named by it.
const DEFINED: f64 = 2.0;
/// What a keyword counts that is only part of longer names.
const PARTIAL: f64 = 0.7;
/// Longest line that is looked at, in bytes; what is longer is no source.
const LONGEST_LINE: usize = 2000;

/// Words that make the word after them a definition, in common languages.
const DEFINERS: &[&str] = &[
    "class",
    "const",
    "def",
    "defp",
    "enum",
    "fn",
    "func",
    "function",
    "interface",
    "let",
    "macro_rules!",
    "module",
    "namespace",
    "object",
    "record",
    "static",
    "struct",
    "trait",
    "type",
    "typedef",
    "union",
    "var",
    "#define",
];

struct Text {
    path: String,
    bytes: Arc<[u8]>,
}

/// The engine.
#[derive(Default)]
pub(super) struct Grep {
    files: Vec<Text>,
}

/// A word to search for.
struct Keyword {
    text: String,
    identifier: bool,
    /// Capitals in the word: they must be there in the text too.
    exact: bool,
}

fn keywords(question: &str) -> Vec<Keyword> {
    let mut out: Vec<Keyword> = Vec::new();
    for word in question_words(question).into_iter().take(MOST_KEYWORDS) {
        let exact = word.text.chars().any(char::is_uppercase);
        let mut text = word.text;
        // A plural is searched for by its singular, of which it is a match.
        let plural = text.ends_with('s') && !text.ends_with("ss") && text.len() > 4;
        if !word.identifier && !exact && plural {
            text.pop();
        }
        if out.iter().all(|k| k.text != text) {
            out.push(Keyword { text, identifier: word.identifier, exact });
        }
    }
    out
}

/// How one keyword fared in one file.
#[derive(Clone, Copy, Default)]
struct Hits {
    whole: u32,
    partial: u32,
    defined: bool,
}

/// What one file's matched lines come to.
struct Tally {
    hits: Vec<Hits>,
    /// Distinct keywords and definitions on the best line, with the line.
    best: Option<((u32, u32), u64, String)>,
}

struct Counter<'k> {
    keywords: &'k [Keyword],
    finder: &'k AhoCorasick,
    tally: Tally,
}

fn is_word(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric() || byte >= 0x80
}

impl Counter<'_> {
    fn line(&mut self, number: u64, line: &[u8]) {
        if line.len() > LONGEST_LINE {
            return;
        }
        let mut seen = vec![false; self.keywords.len()];
        let mut defined = 0;
        for found in self.finder.find_overlapping_iter(line) {
            let at = found.pattern().as_usize();
            let keyword = &self.keywords[at];
            let (start, end) = (found.start(), found.end());
            if keyword.exact && &line[start..end] != keyword.text.as_bytes() {
                continue;
            }
            let mut tail = end;
            if !keyword.identifier && line.get(tail).is_some_and(|b| *b == b's') {
                tail += 1;
            }
            let left = start == 0 || !is_word(line[start - 1]);
            let whole = left && !line.get(tail).is_some_and(|b| is_word(*b));
            let hits = &mut self.tally.hits[at];
            if whole {
                hits.whole += 1;
                if defines(&line[..start]) {
                    hits.defined = true;
                    defined += 1;
                }
            } else {
                hits.partial += 1;
            }
            seen[at] = true;
        }
        let distinct = u32::try_from(seen.iter().filter(|s| **s).count()).unwrap_or(u32::MAX);
        let rank = (distinct, defined);
        if distinct > 0 && self.tally.best.as_ref().is_none_or(|(known, _, _)| rank > *known) {
            self.tally.best = Some((rank, number, excerpt(&String::from_utf8_lossy(line))));
        }
    }
}

/// Whether the text before a word ends in `def ` and the like.
fn defines(before: &[u8]) -> bool {
    let Some(blank) = before.iter().rposition(|b| !matches!(b, b' ' | b'\t' | b'*' | b'&')) else {
        return false;
    };
    let before = &before[..=blank];
    DEFINERS.iter().any(|word| {
        before.strip_suffix(word.as_bytes()).is_some_and(|rest| !rest.last().is_some_and(|b| is_word(*b)))
    })
}

impl Sink for Counter<'_> {
    type Error = std::io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> Result<bool, Self::Error> {
        self.line(found.line_number().unwrap_or(0), found.bytes().trim_ascii_end());
        Ok(true)
    }
}

fn pattern(keywords: &[Keyword]) -> String {
    let one = |k: &Keyword| {
        let text = regex::escape(&k.text);
        if k.exact { text } else { format!("(?i:{text})") }
    };
    keywords.iter().map(one).collect::<Vec<_>>().join("|")
}

/// The expression that lines are found by; none without a keyword.
pub(super) fn pattern_of(question: &str) -> Option<String> {
    let keywords = keywords(question);
    (!keywords.is_empty()).then(|| pattern(&keywords))
}

/// One pass finds the lines with any keyword.
fn matcher(keywords: &[Keyword]) -> Option<(RegexMatcher, AhoCorasick)> {
    let pattern = pattern(keywords);
    let lines = RegexMatcherBuilder::new().line_terminator(Some(b'\n')).build(&pattern).ok()?;
    let texts = keywords.iter().map(|k| k.text.as_str());
    let words = AhoCorasick::builder()
        .match_kind(MatchKind::Standard)
        .ascii_case_insensitive(true)
        .build(texts)
        .ok()?;
    Some((lines, words))
}

impl Grep {
    fn tallies(&self, keywords: &[Keyword]) -> Vec<(usize, Tally)> {
        let Some((lines, finder)) = matcher(keywords) else { return Vec::new() };
        let mut searcher =
            SearcherBuilder::new().line_number(true).line_terminator(LineTerminator::byte(b'\n')).build();
        let mut out = Vec::new();
        for (at, file) in self.files.iter().enumerate() {
            let tally = Tally { hits: vec![Hits::default(); keywords.len()], best: None };
            let mut counter = Counter { keywords, finder: &finder, tally };
            // A sink that can't fail over a slice that is in memory.
            if searcher.search_slice(&lines, &file.bytes, &mut counter).is_err() {
                continue;
            }
            let mut tally = counter.tally;
            let stem = file.path.rsplit('/').next().unwrap_or_default().to_lowercase();
            let stem = stem.split('.').next().unwrap_or_default();
            for (hits, keyword) in tally.hits.iter_mut().zip(keywords) {
                let word = keyword.text.to_lowercase();
                if stem == word || stem.strip_suffix('s').is_some_and(|s| s == word) {
                    hits.defined = true;
                    hits.whole += 1;
                }
            }
            if tally.hits.iter().any(|h| h.whole + h.partial > 0) {
                out.push((at, tally));
            }
        }
        out
    }
}

impl Engine for Grep {
    fn index(&mut self, files: &[SourceFile]) -> IndexFacts {
        let files = in_order(files);
        self.files =
            files.iter().map(|f| Text { path: f.path.clone(), bytes: Arc::clone(&f.bytes) }).collect();
        let bytes = files.iter().map(|f| f.bytes.len() as u64).sum();
        IndexFacts { files: files.len() as u64, bytes, chunks: files.len() as u64, notes: Vec::new() }
    }

    fn search(&self, query: &str, limit: usize) -> Vec<Found> {
        let keywords = keywords(query);
        if keywords.is_empty() {
            return Vec::new();
        }
        let tallies = self.tallies(&keywords);
        let interest = Interest::of(query);
        let total = self.files.len() as f64;
        let count = |of: &dyn Fn(&Hits) -> bool| -> Vec<usize> {
            (0..keywords.len()).map(|k| tallies.iter().filter(|(_, t)| of(&t.hits[k])).count()).collect()
        };
        let (any, whole) = (count(&|h| h.whole + h.partial > 0), count(&|h| h.whole > 0));
        let score = |tally: &Tally| -> f64 {
            let one = |(k, hits): (usize, &Hits)| {
                // A name that occurs as a whole word somewhere is not looked
                // for inside of others.
                let strict = keywords[k].identifier && whole[k] > 0;
                let files = if strict { whole[k] } else { any[k] };
                let number = if strict { hits.whole } else { hits.whole + hits.partial };
                if number == 0 {
                    return 0.0;
                }
                let rarity = (1.0 + total / files as f64).ln();
                let kind = if keywords[k].identifier { NAME } else { 1.0 };
                let place = if hits.defined {
                    DEFINED
                } else if hits.whole > 0 {
                    1.0
                } else {
                    PARTIAL
                };
                rarity * kind * place * (1.0 + 0.2 * f64::from(number.min(50)).ln())
            };
            tally.hits.iter().enumerate().map(one).sum()
        };
        let mut ranked: Vec<Ranked> = tallies
            .iter()
            .enumerate()
            .map(|(piece, (file, tally))| Ranked {
                file: *file,
                piece,
                score: score(tally) * interest.weight(role(&self.files[*file].path)),
            })
            .filter(|r| r.score > 0.0)
            .collect();
        order(&mut ranked);
        let found = |r: &Ranked| {
            let best = tallies[r.piece].1.best.as_ref();
            Found {
                file: self.files[r.file].path.clone(),
                symbol: None,
                line: best.map(|b| b.1),
                score: r.score,
                content: best.map(|b| b.2.clone()).unwrap_or_default(),
            }
        };
        ranked.iter().take(limit).map(found).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.into(), bytes: text.as_bytes().into() }
    }

    #[test]
    fn the_rare_word_and_the_definition_win() {
        let mut engine = Grep::default();
        engine.index(&[
            file("a.py", "x = open_socket()\ny = open_socket()\nz = open_socket()\n"),
            file("b.py", "import os\n\ndef open_socket(): pass\n"),
            file("c.py", "reopen_socket()\n"),
            file("d.md", "unrelated\n"),
        ]);
        let found = engine.search("where is open_socket defined?", 10);
        let files: Vec<_> = found.iter().map(|f| (f.file.as_str(), f.line)).collect();
        assert_eq!(files, [("b.py", Some(3)), ("a.py", Some(1))]);
        assert_eq!(found[0].content, "def open_socket(): pass");
        assert_eq!(engine.search("how do sockets reopen?", 1)[0].file, "c.py");
        assert!(engine.search("where is it?", 10).is_empty());
    }

    #[test]
    fn capitals_in_the_question_are_meant() {
        let mut engine = Grep::default();
        engine.index(&[file("a.py", "flask flask flask\n"), file("b.py", "Flask\n")]);
        let files: Vec<_> = engine.search("the Flask object", 10).into_iter().map(|f| f.file).collect();
        assert_eq!(files, ["b.py"]);
    }

    #[test]
    fn special_characters_and_bytes_are_no_trouble() {
        let mut engine = Grep::default();
        let bytes = b"caf\xe9 gr\xc3\xb6\xc3\x9fe\r\n(a+)+$\n".to_vec();
        engine.index(&[SourceFile { path: "a".into(), bytes: bytes.into() }]);
        assert_eq!(engine.search("where is größe?", 10).len(), 1);
        assert!(engine.search("(((( [a-z]+ \\", 10).len() <= 1);
    }
}
