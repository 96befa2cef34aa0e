//! Lists of tables as they stand in a file. Of a faulty file the typed value
//! lacks entries, so that places counted in it would be those of others.

use std::collections::BTreeMap;

use serde_json::Value;

use super::path::KeyPath;
use super::source::Document;
use crate::diag::Diagnostic;

/// The entries of the list at `path`, each with its own path; none where there is no list.
pub(super) fn entries<'d>(
    document: &'d Document,
    path: &KeyPath,
) -> impl Iterator<Item = (KeyPath, &'d Value)> + use<'d> {
    let list = document.get(path).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let path = path.clone();
    list.iter().enumerate().map(move |(at, value)| (path.index(at), value))
}

/// The text of a key of a table.
pub(super) fn text<'v>(table: &'v Value, key: &str) -> Option<&'v str> {
    table.get(key).and_then(Value::as_str)
}

/// Whether the list at `path` is not there or empty; what is there and no list is reported elsewhere.
pub(super) fn is_empty(document: &Document, path: &KeyPath) -> bool {
    document.get(path).is_none_or(|value| value.as_array().is_some_and(Vec::is_empty))
}

/// Reports what is given twice.
pub(super) struct Once<'v> {
    what: &'static str,
    help: &'static str,
    seen: BTreeMap<&'v str, KeyPath>,
}

impl<'v> Once<'v> {
    /// For things that are called `what`, with the way out of a repetition.
    pub(super) fn new(what: &'static str, help: &'static str) -> Self {
        Self { what, help, seen: BTreeMap::new() }
    }

    /// Notes a name and its place; says so when it was there before.
    pub(super) fn see(&mut self, name: &'v str, path: KeyPath, document: &Document) -> Option<Diagnostic> {
        let Some(first) = self.seen.get(name) else {
            self.seen.insert(name, path);
            return None;
        };
        let message = format!("the {} `{}` is given twice", self.what, super::source::shorten(name));
        Some(
            Diagnostic::error("duplicate-name", message)
                .at(document.value_place(&path), "again here")
                .at(document.value_place(first), "first here")
                .help(self.help),
        )
    }
}
