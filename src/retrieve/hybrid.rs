//! Grep, BM25 and symbols together, by reciprocal rank fusion (Cormack,
//! Clarke and Büttcher 2009, k = 60): a file's score is the sum of
//! 1/(k + rank) over the lists that have it.

use std::collections::BTreeMap;

use super::bm25::Bm25;
use super::grep::Grep;
use super::symbols::Symbols;
use super::{Engine, Found, IndexFacts, SourceFile};

/// Bump when the results change, also by a change of one of the three.
pub(super) const FORMAT: u32 = 1;

const K: f64 = 60.0;
/// How far down each list is read.
const DEPTH: usize = 50;

/// The engine.
#[derive(Default)]
pub(super) struct Hybrid {
    symbols: Symbols,
    bm25: Bm25,
    grep: Grep,
}

/// Fuses lists; a file is shown as in the first list that names a symbol for
/// it, or else in the first that has it.
fn fuse(lists: [Vec<Found>; 3], limit: usize) -> Vec<Found> {
    let mut sums: BTreeMap<String, Found> = BTreeMap::new();
    for list in lists {
        for (rank, found) in (1_u32..).zip(list) {
            let share = 1.0 / (K + f64::from(rank));
            match sums.get_mut(&found.file) {
                Some(known) => {
                    let score = known.score + share;
                    if known.symbol.is_none() && found.symbol.is_some() {
                        *known = found;
                    }
                    known.score = score;
                }
                None => {
                    sums.insert(found.file.clone(), Found { score: share, ..found });
                }
            }
        }
    }
    let mut out: Vec<Found> = sums.into_values().collect();
    out.sort_by(|a, b| b.score.total_cmp(&a.score));
    out.truncate(limit);
    out
}

impl Engine for Hybrid {
    fn index(&mut self, files: &[SourceFile]) -> IndexFacts {
        let symbols = self.symbols.index(files);
        self.grep.index(files);
        IndexFacts { notes: symbols.notes, ..self.bm25.index(files) }
    }

    fn search(&self, query: &str, limit: usize) -> Vec<Found> {
        let depth = DEPTH.max(limit);
        let lists = [
            self.symbols.search(query, depth),
            self.bm25.search(query, depth),
            self.grep.search(query, depth),
        ];
        fuse(lists, limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_high_in_all_lists_wins() {
        let found = |file: &str, symbol: Option<&str>| Found {
            file: file.into(),
            symbol: symbol.map(Into::into),
            line: None,
            score: 1.0,
            content: String::new(),
        };
        let lists = [
            vec![found("a", None), found("b", None)],
            vec![found("c", None), found("b", Some("s"))],
            vec![found("b", None)],
        ];
        let fused = fuse(lists, 10);
        let seen: Vec<_> = fused.iter().map(|f| (f.file.as_str(), f.symbol.as_deref())).collect();
        assert_eq!(seen, [("b", Some("s")), ("a", None), ("c", None)]);
        assert!((fused[0].score - (2.0 / 62.0 + 1.0 / 61.0)).abs() < 1e-12);
    }
}
