//! A question whose answer every working search tool must find.
//!
//! When a dataset states none, one is chosen from the corpus alone, so that
//! it is the same for every server and on every machine: a symbol that is
//! defined once and whose name occurs in as few files as can be.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use super::grammar::{Language, language_of};
use super::symbols::{Symbol, definitions};
use super::text::{self, words};
use crate::fsio::tree::{Node, Tree};
use crate::manifest::dataset::Known;

/// A name in more files than this may be crowded out of ten results.
const FEW: usize = 4;
/// Files that are parsed in search of a symbol.
const PARSED: usize = 400;
/// Bytes that are read in all.
const READ: usize = 512 << 20;
/// Shortest and longest name: shorter ones are parts of others in many tokenizers.
const LENGTHS: std::ops::RangeInclusive<usize> = 6..=40;

/// The smaller, the easier to find: whether its file has the name only glued
/// to other text, files with the name, whether it belongs to a type, and its
/// length. Long names have rare parts, so that tokenizers
/// that split names find them as well.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Rank(bool, usize, bool, Reverse<usize>);

/// Chooses a known-answer question for the corpus at `root`; none when no
/// symbol is rare enough (or no file has a grammar).
#[must_use]
pub fn known_answer(root: &Path, tree: &Tree) -> Option<Known> {
    let paths: Vec<&str> = tree
        .entries
        .iter()
        .filter(|entry| matches!(entry.node, Node::File { .. }))
        .map(|entry| entry.path.as_str())
        .collect();
    let places = places(root, &paths);
    let main = main_language(&paths)?;
    let candidates = paths
        .iter()
        .enumerate()
        .filter(|(_, path)| language_of(path) == Some(main) && !is_aside(path))
        .take(PARSED);
    let mut best: Option<(Rank, usize, Symbol)> = None;
    for (nth, path) in candidates {
        let Some(text) = text::read(root, path).filter(|text| !is_packed(text)) else { continue };
        let alone = alone(&text);
        for symbol in definitions(path, &text).unwrap_or_default() {
            let Some(files) = places.get(symbol.name.as_str()) else { continue };
            if files.is_empty() || files.len() > FEW || !is_plain(&symbol.name) {
                continue;
            }
            let kind = symbol.kind;
            if !(kind.is_callable() || kind.is_type()) {
                continue;
            }
            let glued = !alone.contains(symbol.name.as_str());
            let rank = Rank(glued, files.len(), symbol.container.is_some(), Reverse(symbol.name.len()));
            let better = best.as_ref().is_none_or(|(so_far, _, _)| rank < *so_far);
            if better && defined_once(root, &paths, files, &symbol.name) {
                best = Some((rank, nth, symbol));
            }
        }
    }
    let (_, nth, symbol) = best?;
    Some(Known {
        question: format!("where is {} defined?", symbol.name),
        symbol: symbol.name,
        file: (*paths.get(nth)?).to_owned(),
    })
}

/// The words between white space, without the punctuation around them. The
/// plainest tokenizers see no others: to them `name(first,` is one word.
fn alone(text: &str) -> HashSet<&str> {
    text.split_whitespace()
        .map(|word| word.trim_matches(|c: char| c.is_ascii_punctuation() && c != '_'))
        .collect()
}

/// For each word of fitting length, the files in which it occurs; at most one more than [`FEW`].
fn places(root: &Path, paths: &[&str]) -> HashMap<String, Vec<usize>> {
    let mut out: HashMap<String, Vec<usize>> = HashMap::new();
    let mut read = 0;
    for (nth, path) in paths.iter().enumerate() {
        let Some(text) = text::read(root, path) else { continue };
        read += text.len();
        if read > READ {
            break;
        }
        for word in words(&text).filter(|word| LENGTHS.contains(&word.len())) {
            match out.get_mut(word) {
                Some(files) if files.last() == Some(&nth) || files.len() > FEW => {}
                Some(files) => files.push(nth),
                None => {
                    out.insert(word.to_owned(), vec![nth]);
                }
            }
        }
    }
    out
}

fn defined_once(root: &Path, paths: &[&str], files: &[usize], name: &str) -> bool {
    let mut count = 0;
    for path in files.iter().filter_map(|nth| paths.get(*nth)) {
        let Some(text) = text::read(root, path) else { continue };
        let found = definitions(path, &text).unwrap_or_default();
        count += found.iter().filter(|symbol| symbol.name == name).count();
    }
    count == 1
}

fn main_language(paths: &[&str]) -> Option<Language> {
    let mut counts: BTreeMap<Language, usize> = BTreeMap::new();
    for language in paths.iter().filter(|path| !is_aside(path)).filter_map(|path| language_of(path)) {
        *counts.entry(language).or_default() += 1;
    }
    let most = counts.values().copied().max()?;
    counts.into_iter().find(|(_, count)| *count == most).map(|(language, _)| language)
}

/// Tests, examples and foreign code: tools may leave them out of their index.
fn is_aside(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let (folders, file) = lower.rsplit_once('/').unwrap_or(("", &lower));
    folders.split('/').any(|folder| {
        matches!(
            folder,
            "test"
                | "tests"
                | "__tests__"
                | "testing"
                | "testdata"
                | "spec"
                | "specs"
                | "fixtures"
                | "example"
                | "examples"
                | "scripts"
                | "tools"
                | "bench"
                | "benches"
                | "benchmark"
                | "benchmarks"
                | "vendor"
                | "third_party"
                | "node_modules"
                | "dist"
                | "build"
                | "target"
                | "generated"
                | "migrations"
        ) || folder.starts_with(['.', '_'])
            || folder.starts_with("doc")
    }) || file.starts_with("test_")
        || file.starts_with("conftest")
        || ["_test.", ".test.", ".spec.", "_spec.", ".min.", ".pb.", ".d.ts"]
            .iter()
            .any(|part| file.contains(part))
}

/// Minified or generated: lines that no one wrote.
fn is_packed(text: &str) -> bool {
    text.len() > 2_000 && text.len() / text.lines().count().max(1) > 200
}

fn is_plain(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fsio::{self, tree};

    #[test]
    fn the_rarest_symbol_that_is_defined_once_is_chosen() {
        let dir = tempfile::tempdir().unwrap();
        let write =
            |path: &str, text: &str| fsio::write_plain(&dir.path().join(path), text.as_bytes()).unwrap();
        write("a.py", "def common_name():\n    pass\n\ndef twice_defined():\n    pass\n");
        write("b.py", "def twice_defined():\n    common_name()\n");
        write("c.py", "def parse_ledger_line(x):\n    return common_name()\n\ndef f():\n    pass\n");
        write("tests/test_c.py", "def unique_in_tests():\n    pass\n");
        for n in 0..5 {
            write(&format!("d{n}.md"), "common_name");
        }
        let tree = tree::scan(dir.path()).unwrap();
        let known = known_answer(dir.path(), &tree).unwrap();
        assert_eq!((known.symbol.as_str(), known.file.as_str()), ("parse_ledger_line", "c.py"));
        assert_eq!(known.question, "where is parse_ledger_line defined?");
        // A shorter name, but one that stands alone: no bracket is glued to what follows.
        write("e.py", "def sum_of(\n    x,\n):\n    pass\n");
        let known = known_answer(dir.path(), &tree::scan(dir.path()).unwrap()).unwrap();
        assert_eq!((known.symbol.as_str(), known.file.as_str()), ("sum_of", "e.py"));
        let empty = Tree::default();
        assert_eq!(known_answer(dir.path(), &empty), None);
    }
}
