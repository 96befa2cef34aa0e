//! Texts of a corpus, and where words stand in them.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::grammar::{self, LARGEST};
use super::symbols::{Symbol, code_identifiers, definitions};
use crate::fsio;

/// A file's text and what its syntax says.
pub(crate) struct Text {
    /// What it says.
    pub(crate) content: String,
    /// Definitions; none without a grammar.
    pub(crate) definitions: Option<Vec<Symbol>>,
    /// Names that occur as code; none without a grammar.
    pub(crate) identifiers: Option<HashSet<String>>,
}

/// Reads a corpus file as text: not binary, UTF-8, of ordinary size.
pub(crate) fn read(root: &Path, path: &str) -> Option<String> {
    let bytes = fsio::read_limited(&root.join(path), LARGEST as u64).ok()?;
    if grammar::is_binary(&bytes) {
        return None;
    }
    String::from_utf8(bytes).ok()
}

/// The files of one corpus, each read and parsed once.
pub(crate) struct Texts {
    root: PathBuf,
    read: BTreeMap<String, Option<Rc<Text>>>,
}

impl Texts {
    pub(crate) fn new(root: &Path) -> Self {
        Self { root: root.to_owned(), read: BTreeMap::new() }
    }

    /// The file, unless it is no text.
    pub(crate) fn get(&mut self, path: &str) -> Option<Rc<Text>> {
        if let Some(known) = self.read.get(path) {
            return known.clone();
        }
        let text = read(&self.root, path).map(|text| {
            let identifiers =
                code_identifiers(path, &text).map(|all| all.into_iter().map(|(name, _)| name).collect());
            Rc::new(Text { definitions: definitions(path, &text), identifiers, content: text })
        });
        self.read.insert(path.to_owned(), text.clone());
        text
    }
}

impl Text {
    /// Whether it defines `symbol`: by its own name, or as `Container.name`.
    pub(crate) fn defines(&self, symbol: &str) -> bool {
        defines(self.definitions.as_deref().unwrap_or_default(), &self.content, symbol)
    }

    /// Whether `symbol`'s own name occurs as code.
    pub(crate) fn uses(&self, symbol: &str) -> bool {
        self.identifiers.as_ref().is_some_and(|all| all.contains(own_name(symbol)))
    }

    /// Whether `symbol`'s own name occurs as a word, wherever.
    pub(crate) fn says(&self, symbol: &str) -> bool {
        has_word(&self.content, own_name(symbol))
    }
}

/// Whether one of a text's definitions is the one that `symbol` names.
pub(crate) fn defines(found: &[Symbol], content: &str, symbol: &str) -> bool {
    found.iter().any(|found| is(found, content, symbol))
}

fn is(found: &Symbol, content: &str, symbol: &str) -> bool {
    if found.name == symbol {
        return true;
    }
    let own = own_name(symbol);
    let container = symbol[..symbol.len() - own.len()].trim_end_matches(['.', ':', '#']);
    if found.name != own || container.is_empty() {
        return false;
    }
    match &found.container {
        Some(around) => own_name(around) == own_name(container),
        // `res.send = function ...`: the container is only written before the name.
        None => content.get(found.start..found.end).is_some_and(|text| text.starts_with(symbol)),
    }
}

/// `route` of `Flask.route`, `Flask::route` and `Flask#route`.
pub(crate) fn own_name(symbol: &str) -> &str {
    symbol.rsplit(['.', ':', '#']).next().filter(|name| !name.is_empty()).unwrap_or(symbol)
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || c == '$'
}

/// Whether `word` occurs in `text` and is not part of a longer one.
pub(crate) fn has_word(text: &str, word: &str) -> bool {
    if word.is_empty() {
        return false;
    }
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(is_word) && !after.is_some_and(is_word)
    })
}

/// The words of a text.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_word(c)).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_whole() {
        assert!(has_word("x = route(1)", "route"));
        assert!(!has_word("x = reroute(1) + route_all + $route", "route"));
        assert!(!has_word("x", ""));
        assert_eq!(own_name("a::B#c"), "c");
        assert_eq!(own_name("plain"), "plain");
        assert_eq!(own_name("odd."), "odd.");
        assert_eq!(words("a-b_c d.e").collect::<Vec<_>>(), ["a", "b_c", "d", "e"]);
    }
}
