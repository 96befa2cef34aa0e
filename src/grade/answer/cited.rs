//! Citations as the other graders look at them.

use std::ops::Range;

/// One citation.
#[derive(Clone, Debug)]
pub(super) struct Cited<'a> {
    /// The path as written.
    pub(super) written: &'a str,
    /// The file that it was resolved to.
    pub(super) path: Option<&'a str>,
    /// First and last line.
    pub(super) lines: Option<(u64, u64)>,
    /// The symbol that is named.
    pub(super) symbol: Option<&'a str>,
    /// Its bytes of the answer.
    pub(super) span: Range<usize>,
}

impl Cited<'_> {
    /// The file: as resolved, else as written.
    pub(super) fn file(&self) -> &str {
        self.path.unwrap_or(self.written)
    }

    /// Whether it cites a file of this path or of one that ends in it by whole names.
    pub(super) fn is_file(&self, path: &str) -> bool {
        let ends = |longer: &str, shorter: &str| {
            longer.strip_suffix(shorter).is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
        };
        ends(self.file(), path)
            || self.path.is_none() && self.written.contains('/') && ends(path, self.written)
    }
}
