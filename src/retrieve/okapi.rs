//! BM25 as rag-bench's `bm25` preset does it, so that its published figures
//! can be had again: word by word on white space, chunks from one definition
//! to the next, `BM25Okapi` of rank-bm25 0.2.2. Not a good searcher of code;
//! a yardstick with known figures.
//!
//! Source of the rules: the preset's code at rag-bench's head; of the
//! formula: Robertson and Zaragoza 2009 with rank-bm25's floor for negative
//! inverse document frequencies.

use super::postings::{Postings, Ranked, order};
use super::{Engine, Found, IndexFacts, SourceFile, excerpt, in_order};
use crate::corpus::grammar::chunk_nodes;

/// Bump when the results change.
pub(super) const FORMAT: u32 = 1;

const SUFFIXES: &[&str] = &[
    "py", "js", "ts", "tsx", "jsx", "java", "go", "rs", "c", "cpp", "h", "hpp", "rb", "php", "swift", "kt",
    "scala", "cs", "m", "mm",
];

const KINDS: &[&str] = &[
    "function_definition",
    "class_definition",
    "method_definition",
    "function_declaration",
    "class_declaration",
    "method_declaration",
    "arrow_function",
    "generator_function",
    "function_expression",
];

const K1: f64 = 1.5;
const B: f64 = 0.75;
/// Share of the mean that stands in for a negative frequency.
const EPSILON: f64 = 0.25;

/// Most known words of a question that count; a guard, not a rule.
const MOST_TOKENS: usize = 2000;

struct Chunk {
    file: usize,
    symbol: Option<String>,
    line: u64,
    content: String,
}

/// The engine.
#[derive(Default)]
pub(super) struct Okapi {
    files: Vec<String>,
    chunks: Vec<Chunk>,
    postings: Postings,
    idf: Vec<f64>,
}

/// What Python's `str.split` and `str.strip` take for white space.
fn blank(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

fn tokens(text: &str, mut each: impl FnMut(&str)) {
    let lower = text.to_lowercase();
    for word in lower.split(blank) {
        let bare = word.trim_matches(|c| ".,;:!?()[]{}'\"\\/".contains(c));
        if !bare.is_empty() && !bare.chars().all(char::is_numeric) {
            each(bare);
        }
    }
}

/// (symbol, line, text) of a file's chunks.
fn chunks_of(path: &str, text: &str) -> Vec<(Option<String>, u64, String)> {
    let cuts = chunk_nodes(path, text, KINDS).unwrap_or_default();
    if cuts.is_empty() {
        let name = path.rsplit('/').next().unwrap_or(path);
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        return vec![(Some(stem.to_owned()), 1, text.trim_matches(blank).to_owned())];
    }
    let end = |i: usize| cuts.get(i + 1).map_or(text.len(), |next| next.start);
    let piece = |i: usize| text.get(cuts[i].start..end(i)).unwrap_or_default().trim_matches(blank).to_owned();
    (0..cuts.len())
        .map(|i| (cuts[i].name.clone(), cuts[i].line, piece(i)))
        .filter(|c| !c.2.is_empty())
        .collect()
}

/// Whether a file is one that the preset reads.
fn is_code(path: &str, text: &str) -> bool {
    let suffix = path.rsplit('/').next().and_then(|n| n.rsplit_once('.')).map(|(_, s)| s);
    let known = suffix.is_some_and(|s| SUFFIXES.contains(&s.to_lowercase().as_str()));
    known && !text.chars().all(blank)
}

/// The texts of all chunks, in order.
pub(super) fn texts(files: &[SourceFile]) -> Vec<String> {
    let mut out = Vec::new();
    for file in in_order(files) {
        let text = file.text();
        if is_code(&file.path, &text) {
            out.extend(chunks_of(&file.path, &text).into_iter().map(|(_, _, content)| content));
        }
    }
    out
}

impl Engine for Okapi {
    fn index(&mut self, files: &[SourceFile]) -> IndexFacts {
        *self = Self::default();
        let mut facts = IndexFacts::default();
        for file in in_order(files) {
            let text = file.text();
            if !is_code(&file.path, &text) {
                continue;
            }
            facts.files += 1;
            facts.bytes += file.bytes.len() as u64;
            for (symbol, line, content) in chunks_of(&file.path, &text) {
                tokens(&content, |token| {
                    let term = self.postings.term(token);
                    self.postings.count(term, 1.0);
                });
                self.postings.end_piece();
                self.chunks.push(Chunk { file: self.files.len(), symbol, line, content: excerpt(&content) });
            }
            self.files.push(file.path.clone());
        }
        facts.chunks = self.chunks.len() as u64;
        let total = self.chunks.len() as f64;
        let raw = |n: usize| (total - n as f64 + 0.5).ln() - (n as f64 + 0.5).ln();
        self.idf = self.postings.lists().map(|list| raw(list.len())).collect();
        let floor = EPSILON * (self.idf.iter().sum::<f64>() / self.idf.len().max(1) as f64);
        for idf in self.idf.iter_mut().filter(|idf| **idf < 0.0) {
            *idf = floor;
        }
        facts
    }

    fn search(&self, query: &str, limit: usize) -> Vec<Found> {
        let mean = self.postings.mean_length();
        let mut scores = vec![0.0_f64; self.chunks.len()];
        let mut left = MOST_TOKENS;
        tokens(query, |token| {
            let Some(term) = self.postings.known(token).filter(|_| left > 0) else { return };
            left -= 1;
            let idf = self.idf[term as usize];
            for (chunk, count) in self.postings.list(term) {
                let at = *chunk as usize;
                let (count, length) = (f64::from(*count), f64::from(self.postings.lengths[at]));
                scores[at] += idf * (count * (K1 + 1.0) / (count + K1 * (1.0 - B + B * length / mean)));
            }
        });
        // The first best chunk of each file, then files by score and by the
        // position of that chunk: what a stable sort of all chunks with one
        // kept per file comes to. Chunks without a match fill up.
        let mut best: Vec<Ranked> = Vec::with_capacity(self.files.len());
        for (piece, (chunk, score)) in self.chunks.iter().zip(&scores).enumerate() {
            match best.last_mut().filter(|r| r.file == chunk.file) {
                Some(known) if *score > known.score => (known.piece, known.score) = (piece, *score),
                Some(_) => {}
                None => best.push(Ranked { file: chunk.file, piece, score: *score }),
            }
        }
        order(&mut best);
        let found = |r: &Ranked| {
            let chunk = &self.chunks[r.piece];
            Found {
                file: self.files[r.file].clone(),
                symbol: chunk.symbol.clone(),
                line: Some(chunk.line),
                score: r.score,
                content: chunk.content.clone(),
            }
        };
        best.iter().take(limit).map(found).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_words_without_their_marks() {
        let mut seen = Vec::new();
        tokens("Where's `url_for(x)`? (12) 12a\u{1c}/End/ \"\"", |t| seen.push(t.to_owned()));
        assert_eq!(seen, ["where's", "`url_for(x)`", "12a", "end"]);
    }

    #[test]
    fn a_chunk_runs_to_the_next_definition() {
        let text = "import os\nclass A:\n    x = 1\n    def f(self):\n        pass\ny = 2\n";
        let chunks = chunks_of("a/m.py", text);
        let seen: Vec<_> = chunks.iter().map(|(s, l, t)| (s.as_deref(), *l, t.as_str())).collect();
        assert_eq!(
            seen,
            [(Some("A"), 2, "class A:\n    x = 1"), (Some("f"), 4, "def f(self):\n        pass\ny = 2"),]
        );
        assert_eq!(chunks_of("a/m.py", " x = 1\n"), [(Some("m".to_owned()), 1, "x = 1".to_owned())]);
        assert_eq!(chunks_of("a/m.kt", "fun f() {}"), [(Some("m".to_owned()), 1, "fun f() {}".to_owned())]);
    }

    /// By hand from the formula, three one-chunk files.
    #[test]
    fn scores_are_those_of_the_formula() {
        let file = |path: &str, text: &str| SourceFile { path: path.into(), bytes: text.as_bytes().into() };
        let mut engine = Okapi::default();
        let facts =
            engine.index(&[file("c.py", "x y"), file("a.py", "x x z"), file("b.py", "w"), file("d.md", "x")]);
        assert_eq!((facts.files, facts.chunks), (3, 3));
        // n(x) = 2 of 3: ln(1.5/2.5) < 0; the others ln(2.5/1.5).
        let (low, high) = ((1.5_f64 / 2.5).ln(), (2.5_f64 / 1.5).ln());
        let floor = 0.25 * (low + 3.0 * high) / 4.0;
        let part = |tf: f64, len: f64| tf * 2.5 / (tf + 1.5 * (0.25 + 0.75 * len / 2.0));
        let found = engine.search("X, x z", 10);
        let files: Vec<_> = found.iter().map(|f| f.file.as_str()).collect();
        assert_eq!(files, ["a.py", "c.py", "b.py"]);
        assert!((found[0].score - (2.0 * floor * part(2.0, 3.0) + high * part(1.0, 3.0))).abs() < 1e-12);
        assert!((found[1].score - 2.0 * floor * part(1.0, 2.0)).abs() < 1e-12);
        assert!(found[2].score.abs() < 1e-12);
    }
}
