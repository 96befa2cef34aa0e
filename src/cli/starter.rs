//! What a corpus alone can be asked: symbols that are defined once, and names
//! that one other file uses.
//!
//! Nothing here knows a server: the choice depends on the files and a seed.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use crate::corpus::Corpus;
use crate::corpus::symbols::{self, SymbolKind};
use crate::digest::Digest;
use crate::fsio;
use crate::fsio::tree::Node;

/// Most files that are read, and the most bytes of one.
const FILES: usize = 6_000;
const BYTES: u64 = 1 << 20;
/// Shorter names are parts of others, longer ones are no names that people say.
const LENGTHS: std::ops::RangeInclusive<usize> = 5..=40;
/// Most symbols that are taken from one file.
const PER_FILE: usize = 2;

/// A symbol that is defined once in the whole corpus.
#[derive(Clone, Debug)]
pub(super) struct Once {
    pub(super) name: String,
    pub(super) kind: SymbolKind,
    pub(super) file: String,
    /// 1-based line of the name.
    pub(super) line: u64,
    /// The line before it is blank or absent: neither a comment nor an attribute belongs to it.
    pub(super) bare: bool,
    /// The one other file in which the name occurs, as code.
    pub(super) used_in: Option<String>,
}

/// Symbols that are defined once, in a seeded order.
pub(super) fn symbols_of(corpus: &Corpus, seed: &str) -> Vec<Once> {
    let mut defined: BTreeMap<String, Vec<Once>> = BTreeMap::new();
    let files: Vec<&str> = corpus
        .tree
        .entries
        .iter()
        .filter(|e| matches!(e.node, Node::File { size, .. } if size <= BYTES))
        .map(|e| e.path.as_str())
        .take(FILES)
        .collect();
    for path in &files {
        let Some(text) = text_of(&corpus.path, path) else { continue };
        let lines: Vec<&str> = text.lines().collect();
        for symbol in symbols::definitions(path, &text).unwrap_or_default() {
            let at = usize::try_from(symbol.line).unwrap_or(1);
            let bare = at < 2 || lines.get(at - 2).is_some_and(|line| line.trim().is_empty());
            defined.entry(symbol.name.clone()).or_default().push(Once {
                name: symbol.name,
                kind: symbol.kind,
                file: (*path).to_owned(),
                line: symbol.line,
                bare,
                used_in: None,
            });
        }
    }
    let mut once: BTreeMap<String, Once> = defined
        .into_values()
        .filter(|all| all.len() == 1)
        .flatten()
        .filter(|s| (s.kind.is_callable() || s.kind.is_type()) && sayable(&s.name) && !is_test(&s.file))
        .map(|s| (s.name.clone(), s))
        .collect();
    let places = occurrences(corpus, &files, &once);
    for (name, found) in places {
        let Some(symbol) = once.get_mut(name.as_str()) else { continue };
        let others: Vec<&str> = found.into_iter().filter(|file| *file != symbol.file).collect();
        if let [other] = others.as_slice()
            && uses(&corpus.path, other, &name)
        {
            symbol.used_in = Some((*other).to_owned());
        }
    }
    let mut out: Vec<(String, Once)> = once
        .into_values()
        .map(|s| {
            let text = format!("{seed}\n{}\n{}", s.file, s.name);
            (Digest::tagged("proofline starter 1", text.as_bytes()).hex(), s)
        })
        .collect();
    out.sort_by(|a, b| a.0.cmp(&b.0));
    out.into_iter().map(|(_, symbol)| symbol).collect()
}

/// The first `count` that pass, at most [`PER_FILE`] of one file.
pub(super) fn pick<'a>(
    from: &'a [Once],
    count: usize,
    taken: &mut BTreeSet<&'a str>,
    pass: impl Fn(&Once) -> bool,
) -> Vec<&'a Once> {
    let mut per_file: HashMap<&str, usize> = HashMap::new();
    let mut out = Vec::new();
    for symbol in from {
        if out.len() == count {
            break;
        }
        let already = per_file.entry(symbol.file.as_str()).or_default();
        if *already < PER_FILE && !taken.contains(symbol.name.as_str()) && pass(symbol) {
            *already += 1;
            taken.insert(&symbol.name);
            out.push(symbol);
        }
    }
    out
}

fn text_of(root: &Path, path: &str) -> Option<String> {
    let bytes = fsio::read_limited(&root.join(path), BYTES).ok()?;
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// Names of two parts and more, which can't be taken for a word of the question.
fn sayable(name: &str) -> bool {
    let parts = name.contains('_') || name.chars().skip(1).any(|c| c.is_ascii_uppercase());
    parts
        && LENGTHS.contains(&name.len())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with('_')
        && name.chars().any(|c| c.is_ascii_lowercase())
}

fn is_test(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    lower.split('/').any(|part| {
        part.starts_with("test")
            || part.ends_with("tests")
            || part.contains("_test.")
            || part.contains(".test.")
    })
}

/// For each of the names, the files in which it occurs as a word (at most three).
fn occurrences<'f>(
    corpus: &Corpus,
    files: &[&'f str],
    names: &BTreeMap<String, Once>,
) -> BTreeMap<String, Vec<&'f str>> {
    let mut out: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for path in files {
        let Some(text) = text_of(&corpus.path, path) else { continue };
        for word in text.split(|c: char| !(c.is_alphanumeric() || c == '_')) {
            if !names.contains_key(word) {
                continue;
            }
            let found = out.entry(word.to_owned()).or_default();
            if found.len() < 3 && found.last() != Some(path) {
                found.push(path);
            }
        }
    }
    out
}

/// Whether a file names the symbol in its code, not only in a comment or a string.
fn uses(root: &Path, path: &str, name: &str) -> bool {
    text_of(root, path)
        .and_then(|text| symbols::references(path, &text))
        .is_some_and(|all| all.iter().any(|use_of| use_of.name == name))
}
