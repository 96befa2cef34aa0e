//! Search by vectors: pieces and questions become points, the nearest wins.
//!
//! With weights (`static`): the mean of the vectors of a text's tokens, read
//! from a static embedding table. Without (`hash`): sub-words and letter
//! trigrams of identifiers hashed with a sign into 256 dimensions, weighted
//! by rarity (Weinberger et al. 2009); a baseline that needs no download.

mod tokenizer;
mod weights;

use std::collections::HashMap;
use std::path::Path;

use self::tokenizer::Tokenizer;
use self::weights::Table;
use super::chunks::pieces;
use super::postings::by_file;
use super::words::{Interest, Role, question_words, role, spans, terms_of};
use super::{Engine, EngineError, Found, IndexFacts, SourceFile, excerpt, in_order};

/// Bump when the results change.
pub(super) const FORMAT: u32 = 1;

/// Dimensions of hashed vectors.
const DIMENSIONS: usize = 256;
/// Different features; a power of two, larger than most vocabularies.
const BUCKETS: u32 = 1 << 22;
/// What a letter trigram counts beside the word that it is from.
const TRIGRAM: f32 = 0.3;
/// What the words of the path and of the definition's name count.
const NAME: f32 = 3.0;

struct Chunk {
    file: usize,
    symbol: Option<String>,
    line: u64,
    content: String,
}

/// The engine.
pub(super) struct Embed {
    weights: Option<(Tokenizer, Table)>,
    files: Vec<(String, Role)>,
    chunks: Vec<Chunk>,
    /// One row of unit length (or zero) per chunk.
    vectors: Vec<f32>,
    /// Rarity of each hashed feature: ln(1 + chunks / chunks with it).
    rarity: Vec<f32>,
}

impl Embed {
    pub(super) fn new(profile: Option<&str>, weights: Option<&Path>) -> Result<Self, EngineError> {
        let weights = match (profile, weights) {
            (Some("static"), None) => {
                let reason = "the profile `static` needs a folder with weights".to_owned();
                return Err(EngineError::Weights { path: Path::new("").to_owned(), reason });
            }
            (_, Some(path)) => Some(weights::read(path)?),
            _ => None,
        };
        Ok(Self { weights, files: Vec::new(), chunks: Vec::new(), vectors: Vec::new(), rarity: Vec::new() })
    }

    fn dimensions(&self) -> usize {
        self.weights.as_ref().map_or(DIMENSIONS, |(_, table)| table.dimensions)
    }

    fn hashed(&self, bag: &[(u32, f32)]) -> Vec<f32> {
        let mut out = vec![0.0; DIMENSIONS];
        for (key, count) in bag {
            let rarity = self.rarity.get((key % BUCKETS) as usize).copied().unwrap_or(1.0);
            let sign = if key / BUCKETS == 0 { 1.0 } else { -1.0 };
            out[*key as usize % DIMENSIONS] += sign * (1.0 + count).ln() * rarity;
        }
        unit(out)
    }
}

/// Features of a text with their counts, being gathered.
#[derive(Default)]
struct Bag(HashMap<u32, f32>);

impl Bag {
    /// Adds the terms of a text's identifiers and their trigrams.
    fn add(&mut self, text: &str, weight: f32) {
        for (start, end) in spans(text) {
            terms_of(&text[start..end], |term| {
                *self.0.entry(hash(term.as_bytes(), 1)).or_default() += weight;
                for three in term.as_bytes().windows(3) {
                    *self.0.entry(hash(three, 2)).or_default() += weight * TRIGRAM;
                }
            });
        }
    }

    /// In order of feature: sums of floats depend on their order.
    fn sorted(self) -> Vec<(u32, f32)> {
        let mut out: Vec<_> = self.0.into_iter().collect();
        out.sort_unstable_by_key(|(key, _)| *key);
        out
    }
}

/// The feature of some bytes: a bucket, and above it a bit for the sign.
/// FNV-1a with a final mix.
fn hash(text: &[u8], seed: u64) -> u32 {
    let mut h = 0xcbf2_9ce4_8422_2325 ^ seed;
    for byte in text {
        h = (h ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    h ^= h >> 33;
    h = h.wrapping_mul(0xff51_afd7_ed55_8ccd);
    u32::try_from((h >> 33) % u64::from(2 * BUCKETS)).unwrap_or(0)
}

/// The vector at length one; zero stays zero.
fn unit(mut vector: Vec<f32>) -> Vec<f32> {
    let length = vector.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        for x in &mut vector {
            *x /= length;
        }
    }
    vector
}

impl Engine for Embed {
    fn index(&mut self, files: &[SourceFile]) -> IndexFacts {
        self.files.clear();
        self.chunks.clear();
        self.vectors.clear();
        self.rarity.clear();
        let mut facts = IndexFacts::default();
        let mut bags: Vec<Vec<(u32, f32)>> = Vec::new();
        for file in in_order(files) {
            let text = file.text();
            facts.files += 1;
            facts.bytes += file.bytes.len() as u64;
            for piece in pieces(&file.path, &text).0 {
                let parts: Vec<&str> = piece.ranges.iter().filter_map(|(a, b)| text.get(*a..*b)).collect();
                let body = parts.concat();
                let symbol = piece.symbol.as_deref().unwrap_or_default();
                if let Some((tokenizer, table)) = &self.weights {
                    let named = format!("{} {symbol}\n{body}", file.path);
                    self.vectors.extend(unit(table.mean(tokenizer.tokens(&named))));
                } else {
                    let mut bag = Bag::default();
                    bag.add(&body, 1.0);
                    bag.add(symbol, NAME);
                    bag.add(&file.path, NAME);
                    bags.push(bag.sorted());
                }
                self.chunks.push(Chunk {
                    file: self.files.len(),
                    symbol: piece.symbol,
                    line: piece.line,
                    content: excerpt(body.trim_start_matches(['\n', '\r'])),
                });
            }
            self.files.push((file.path.clone(), role(&file.path)));
        }
        facts.chunks = self.chunks.len() as u64;
        if self.weights.is_none() {
            let mut chunks = vec![0_u32; BUCKETS as usize];
            for (key, _) in bags.iter().flatten() {
                chunks[(key % BUCKETS) as usize] += 1;
            }
            #[expect(clippy::cast_possible_truncation, reason = "a weight, not a count")]
            let rarity = |n: u32| (1.0 + bags.len() as f64 / f64::from(n.max(1))).ln() as f32;
            self.rarity = chunks.into_iter().map(rarity).collect();
        }
        for bag in &bags {
            let row = self.hashed(bag);
            self.vectors.extend(row);
        }
        facts
    }

    fn search(&self, query: &str, limit: usize) -> Vec<Found> {
        let vector = if let Some((tokenizer, table)) = &self.weights {
            unit(table.mean(tokenizer.tokens(query)))
        } else {
            let mut bag = Bag::default();
            for word in question_words(query) {
                bag.add(&word.text, 1.0);
            }
            self.hashed(&bag.sorted())
        };
        let interest = Interest::of(query);
        let rows = self.vectors.chunks_exact(self.dimensions().max(1));
        let scored = rows.zip(&self.chunks).enumerate().map(|(piece, (row, chunk))| {
            let near: f32 = row.iter().zip(&vector).map(|(a, b)| a * b).sum();
            (chunk.file, piece, f64::from(near) * interest.weight(self.files[chunk.file].1))
        });
        let found = |r: super::postings::Ranked| {
            let chunk = &self.chunks[r.piece];
            Found {
                file: self.files[r.file].0.clone(),
                symbol: chunk.symbol.clone(),
                line: Some(chunk.line),
                score: r.score,
                content: chunk.content.clone(),
            }
        };
        by_file(scored).into_iter().take(limit).map(found).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.into(), bytes: text.as_bytes().into() }
    }

    #[test]
    fn near_words_are_near_without_weights() {
        let mut engine = Embed::new(None, None).unwrap();
        engine.index(&[
            file("a.py", "def retry_request(url):\n    return with_backoff(url)\n"),
            file("b.py", "def draw_circle(radius):\n    return canvas.arc(radius)\n"),
        ]);
        assert_eq!(engine.search("how are failing requests retried?", 10)[0].file, "a.py");
        assert_eq!(engine.search("drawing circles", 10)[0].symbol.as_deref(), Some("draw_circle"));
        assert!(engine.search("?", 10).is_empty());
    }

    #[test]
    fn the_mean_of_a_table_ranks() {
        let dir = weights::tests::folder(
            &[("red", [1.0, 0.0]), ("▁apple", [1.0, 0.1]), ("▁sea", [0.0, 1.0]), ("▁blue", [0.1, 1.0])],
            "F32",
        );
        let mut engine = Embed::new(None, Some(dir.path())).unwrap();
        engine.index(&[file("x.txt", "apple"), file("y.txt", "sea")]);
        assert_eq!(engine.search("blue", 10)[0].file, "y.txt");
        assert_eq!(engine.search("redred", 10)[0].file, "x.txt");
    }
}
