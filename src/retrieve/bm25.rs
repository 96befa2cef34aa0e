//! BM25 for code: identifiers fall into parts, names and paths count more,
//! pieces are definitions, and a file is as good as its best pieces.
//!
//! Formula: Robertson and Zaragoza 2009, with the inverse document frequency
//! that can't be negative (ln(1 + (N - n + 0.5)/(n + 0.5))); fields are
//! weighted term counts as in BM25F.

use super::chunks::{Piece, pieces};
use super::postings::{Map, Postings, by_file};
use super::words::{Interest, Role, each_span, question_words, role, stem, terms_of};
use super::{Engine, Found, IndexFacts, SourceFile, excerpt, in_order};

/// Bump when the results change.
pub(super) const FORMAT: u32 = 1;

const K1: f64 = 1.2;
const B: f64 = 0.6;
/// What an occurrence in a definition's own name counts.
const NAME: f32 = 4.0;
/// In the name of what is around it.
const CONTAINER: f32 = 1.5;
/// In the file's name without its suffix.
const FILE: f32 = 2.0;
/// In a folder's name.
const FOLDER: f32 = 0.5;
/// What the whole of a name in the question counts over its parts.
const WHOLE: f64 = 2.0;

struct Chunk {
    file: usize,
    symbol: Option<String>,
    line: u64,
    content: String,
}

struct Indexed {
    path: String,
    role: Role,
}

/// The engine.
#[derive(Default)]
pub(super) struct Bm25 {
    files: Vec<Indexed>,
    chunks: Vec<Chunk>,
    postings: Postings,
    mean: f64,
}

/// Terms of identifiers, remembered: the same names come again and again.
#[derive(Default)]
struct Terms {
    known: Map<Box<str>, (u32, u32)>,
    flat: Vec<u32>,
}

impl Terms {
    fn count(&mut self, postings: &mut Postings, text: &str, weight: f32) {
        each_span(text, |start, end| {
            let word = &text[start..end];
            let (from, to) = if let Some(range) = self.known.get(word) {
                *range
            } else {
                let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
                let from = number(self.flat.len());
                terms_of(word, |t| self.flat.push(postings.term(t)));
                let range = (from, number(self.flat.len()));
                self.known.insert(word.into(), range);
                range
            };
            for term in &self.flat[from as usize..to as usize] {
                postings.count(*term, weight);
            }
        });
    }
}

impl Bm25 {
    fn add(&mut self, terms: &mut Terms, path: &str, text: &str, piece: Piece) {
        for (start, end) in &piece.ranges {
            terms.count(&mut self.postings, text.get(*start..*end).unwrap_or_default(), 1.0);
        }
        for (name, weight) in [(&piece.symbol, NAME), (&piece.container, CONTAINER)] {
            terms.count(&mut self.postings, name.as_deref().unwrap_or_default(), weight);
        }
        let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
        let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
        terms.count(&mut self.postings, stem, FILE);
        terms.count(&mut self.postings, folders, FOLDER);
        self.postings.end_piece();
        let begin = piece.ranges.iter().find_map(|(a, b)| {
            let text = text.get(*a..*b)?;
            (!text.trim().is_empty()).then_some(text)
        });
        let content = excerpt(begin.unwrap_or_default().trim_start_matches(['\n', '\r']));
        self.chunks.push(Chunk { file: self.files.len(), symbol: piece.symbol, line: piece.line, content });
    }
}

/// The texts of all pieces, in order; names and paths, which count more, are no
/// part of them.
pub(super) fn texts(files: &[SourceFile]) -> Vec<String> {
    let mut out = Vec::new();
    for file in in_order(files) {
        let text = file.text();
        let part = |range: &(usize, usize)| text.get(range.0..range.1).unwrap_or_default();
        out.extend(pieces(&file.path, &text).0.iter().map(|p| p.ranges.iter().map(part).collect::<String>()));
    }
    out
}

/// Terms of a question with their weights, each once, in its order.
fn query_terms(query: &str) -> Vec<(String, f64)> {
    let mut out: Vec<(String, f64)> = Vec::new();
    for word in question_words(query) {
        let whole = word.text.to_lowercase();
        let whole = whole.trim_matches('_');
        terms_of(&word.text, |term| {
            let is_whole = term == whole || term == stem(whole);
            let weight = if word.identifier && is_whole { WHOLE } else { 1.0 };
            match out.iter_mut().find(|(t, _)| t == term) {
                Some((_, known)) => *known = known.max(weight),
                None => out.push((term.to_owned(), weight)),
            }
        });
    }
    out
}

impl Engine for Bm25 {
    fn index(&mut self, files: &[SourceFile]) -> IndexFacts {
        *self = Self::default();
        let mut terms = Terms::default();
        let mut facts = IndexFacts::default();
        for file in in_order(files) {
            let text = file.text();
            for piece in pieces(&file.path, &text).0 {
                self.add(&mut terms, &file.path, &text, piece);
            }
            facts.files += 1;
            facts.bytes += file.bytes.len() as u64;
            self.files.push(Indexed { path: file.path.clone(), role: role(&file.path) });
        }
        facts.chunks = self.chunks.len() as u64;
        self.mean = self.postings.mean_length();
        facts
    }

    fn search(&self, query: &str, limit: usize) -> Vec<Found> {
        let mut scores = vec![0.0_f64; self.chunks.len()];
        let total = self.chunks.len() as f64;
        for (term, weight) in query_terms(query) {
            let Some(term) = self.postings.known(&term) else { continue };
            let list = self.postings.list(term);
            let n = list.len() as f64;
            let idf = (1.0 + (total - n + 0.5) / (n + 0.5)).ln();
            for (chunk, count) in list {
                let at = *chunk as usize;
                let (count, length) = (f64::from(*count), f64::from(self.postings.lengths[at]));
                let norm = K1 * (1.0 - B + B * length / self.mean);
                scores[at] += weight * idf * (count * (K1 + 1.0) / (count + norm));
            }
        }
        let interest = Interest::of(query);
        let scored = self.chunks.iter().zip(scores).enumerate().filter(|(_, (_, score))| *score > 0.0);
        let weighed = scored.map(|(piece, (chunk, score))| {
            (chunk.file, piece, score * interest.weight(self.files[chunk.file].role))
        });
        let found = |r: super::postings::Ranked| {
            let chunk = &self.chunks[r.piece];
            Found {
                file: self.files[r.file].path.clone(),
                symbol: chunk.symbol.clone(),
                line: Some(chunk.line),
                score: r.score,
                content: chunk.content.clone(),
            }
        };
        by_file(weighed).into_iter().take(limit).map(found).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.into(), bytes: text.as_bytes().into() }
    }

    #[test]
    fn parts_of_names_are_found() {
        let mut engine = Bm25::default();
        let facts = engine.index(&[
            file("src/view.py", "class TemplateRenderer:\n    def render(self): pass\n"),
            file("src/net.py", "def open_socket(): pass\n"),
            file("tests/test_view.py", "def test_render_template(): TemplateRenderer().render()\n"),
        ]);
        assert_eq!((facts.files, facts.chunks), (3, 4));
        let found = engine.search("where is the template rendering?", 10);
        assert_eq!(found[0].file, "src/view.py");
        assert_eq!(found[0].symbol.as_deref(), Some("TemplateRenderer"));
        assert_eq!((found.len(), found[1].file.as_str()), (2, "tests/test_view.py"));
        assert_eq!(engine.search("which tests cover rendering a template?", 1)[0].file, "tests/test_view.py");
        assert_eq!(engine.search("open_socket", 10)[0].line, Some(1));
    }

    #[test]
    fn a_name_counts_more_than_its_parts() {
        let terms = query_terms("does render_template render?");
        assert_eq!(
            terms,
            [("render_template".to_owned(), WHOLE), ("rend".to_owned(), 1.0), ("templ".to_owned(), 1.0)]
        );
    }
}
