//! An inverted index in memory, and the step from ranked pieces to ranked
//! files.

use std::collections::HashMap;

/// A map whose order is never looked at. Indexing looks up every word, so it hashes fast; it is
/// seeded all the same, as words come from strangers.
pub(super) type Map<K, V> = HashMap<K, V, foldhash::fast::RandomState>;

/// Terms, and for each the pieces that it occurs in. Terms have numbers in
/// the order of their first occurrence.
#[derive(Debug, Default)]
pub(super) struct Postings {
    terms: Map<Box<str>, u32>,
    lists: Vec<Vec<(u32, f32)>>,
    /// Length of each piece in (weighted) terms.
    pub(super) lengths: Vec<f32>,
    /// Weights of the piece being built, by term.
    counts: Vec<f32>,
    /// Its terms in order of first occurrence.
    touched: Vec<u32>,
}

impl Postings {
    /// The number of a term, new ones included.
    pub(super) fn term(&mut self, text: &str) -> u32 {
        if let Some(id) = self.terms.get(text) {
            return *id;
        }
        let id = u32::try_from(self.lists.len()).unwrap_or(u32::MAX);
        self.terms.insert(text.into(), id);
        self.lists.push(Vec::new());
        self.counts.push(0.0);
        id
    }

    /// The number of a term that occurs.
    pub(super) fn known(&self, text: &str) -> Option<u32> {
        self.terms.get(text).copied()
    }

    /// Pieces of a term, in order, with its weight in each.
    pub(super) fn list(&self, term: u32) -> &[(u32, f32)] {
        self.lists.get(term as usize).map_or(&[], Vec::as_slice)
    }

    /// All lists in order of the terms' first occurrence.
    pub(super) fn lists(&self) -> impl Iterator<Item = &[(u32, f32)]> {
        self.lists.iter().map(Vec::as_slice)
    }

    /// Adds an occurrence to the piece being built.
    pub(super) fn count(&mut self, term: u32, weight: f32) {
        let at = term as usize;
        if self.counts[at] == 0.0 {
            self.touched.push(term);
        }
        self.counts[at] += weight;
    }

    /// Ends the piece being built; its length is the sum of its weights.
    pub(super) fn end_piece(&mut self) {
        let piece = u32::try_from(self.lengths.len()).unwrap_or(u32::MAX);
        let mut length = 0.0;
        for term in self.touched.drain(..) {
            let weight = std::mem::take(&mut self.counts[term as usize]);
            self.lists[term as usize].push((piece, weight));
            length += weight;
        }
        self.lengths.push(length);
    }

    /// Mean length of the pieces.
    pub(super) fn mean_length(&self) -> f64 {
        self.lengths.iter().map(|l| f64::from(*l)).sum::<f64>() / self.lengths.len().max(1) as f64
    }
}

/// A file with its best piece.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ranked {
    pub(super) file: usize,
    pub(super) piece: usize,
    pub(super) score: f64,
}

/// What the second and third best piece of a file add to its score.
const REST: [f64; 2] = [0.25, 0.1];

/// Ranks files by their best piece and a share of the next two. `pieces` are
/// (file, piece, score) with pieces in rising order; files are numbered in
/// order of path, so that equal scores end in that order.
pub(super) fn by_file(pieces: impl Iterator<Item = (usize, usize, f64)>) -> Vec<Ranked> {
    let mut best: Map<usize, [(f64, usize); 3]> = Map::default();
    for (file, piece, score) in pieces {
        let top = best.entry(file).or_insert([(0.0, usize::MAX); 3]);
        let mut candidate = (score, piece);
        for place in top.iter_mut() {
            if candidate.0 > place.0 {
                std::mem::swap(place, &mut candidate);
            }
        }
    }
    let sum = |(file, top): (usize, [(f64, usize); 3])| Ranked {
        file,
        piece: top[0].1,
        score: top[0].0 + REST[0] * top[1].0 + REST[1] * top[2].0,
    };
    let mut out: Vec<Ranked> = best.into_iter().filter(|(_, t)| t[0].0 > 0.0).map(sum).collect();
    order(&mut out);
    out
}

/// Best first; equal ones in order of path.
pub(super) fn order(ranked: &mut [Ranked]) {
    ranked.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.file.cmp(&b.file)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_counts_its_terms() {
        let mut index = Postings::default();
        let (a, b) = (index.term("a"), index.term("b"));
        index.count(b, 2.0);
        index.count(a, 1.0);
        index.count(b, 0.5);
        index.end_piece();
        index.end_piece();
        index.count(a, 1.0);
        index.end_piece();
        assert_eq!(index.list(a), [(0, 1.0), (2, 1.0)]);
        assert_eq!(index.list(b), [(0, 2.5)]);
        assert_eq!(index.lengths, [3.5, 0.0, 1.0]);
        assert_eq!(index.known("c"), None);
    }

    #[test]
    fn files_rank_by_their_best_pieces() {
        let pieces = [(1, 0, 2.0), (0, 1, 2.0), (2, 2, 1.9), (2, 3, 1.0), (2, 4, 1.0), (2, 5, 1.0)];
        let ranked = by_file(pieces.into_iter());
        let seen: Vec<_> = ranked.iter().map(|r| (r.file, r.piece)).collect();
        assert_eq!(seen, [(2, 2), (0, 1), (1, 0)]);
        assert!((ranked[0].score - 2.25).abs() < 1e-12);
    }
}
