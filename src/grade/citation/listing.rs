//! The paths of a corpus, found by their ends.

use std::cmp::Ordering;

/// Position of a file in its [`Listing`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(u32);

impl FileId {
    /// The position as a number, from 0, in the order of paths.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What lies at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A symbolic link: it is never followed.
    Link,
    /// A symbolic link that leads out of the code or nowhere.
    Astray,
}

/// Files and links of a corpus.
#[derive(Clone, Debug, Default)]
pub struct Listing {
    /// By path.
    entries: Vec<(Box<str>, Kind)>,
    /// The same by path read from its end: what ends alike lies together.
    by_end: Vec<u32>,
    /// Extensions of files, sorted.
    extensions: Vec<Box<str>>,
}

/// The part behind the last dot of a path's last component; none for `.env` and `Makefile`.
pub(super) fn extension(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let (stem, extension) = name.rsplit_once('.')?;
    let has = stem.contains(|c| c != '.') && !extension.is_empty();
    has.then_some(extension)
}

impl Listing {
    /// A listing of relative paths with `/` between components; of equal ones the first counts.
    pub fn new(entries: impl IntoIterator<Item = (String, Kind)>) -> Self {
        let mut entries: Vec<_> =
            entries.into_iter().map(|(path, kind)| (path.into_boxed_str(), kind)).collect();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        entries.dedup_by(|later, first| later.0 == first.0);
        entries.truncate(u32::MAX as usize);
        let mut by_end: Vec<u32> = (0u32..).zip(&entries).map(|(nth, _)| nth).collect();
        let bytes = |nth: &u32| entries[*nth as usize].0.bytes().rev();
        by_end.sort_unstable_by(|a, b| bytes(a).cmp(bytes(b)));
        let mut extensions: Vec<Box<str>> =
            entries.iter().filter_map(|(path, _)| extension(path)).map(Into::into).collect();
        extensions.sort_unstable();
        extensions.dedup();
        Self { entries, by_end, extensions }
    }

    /// How many files and links there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Path of a file.
    #[must_use]
    pub fn path(&self, file: FileId) -> &str {
        self.entries.get(file.index()).map_or("", |(path, _)| path)
    }

    /// What lies at a file's path.
    #[must_use]
    pub fn kind(&self, file: FileId) -> Kind {
        self.entries.get(file.index()).map_or(Kind::Link, |(_, kind)| *kind)
    }

    /// All of them with path and kind, by path.
    pub fn iter(&self) -> impl Iterator<Item = (FileId, &str, Kind)> {
        (0u32..).zip(&self.entries).map(|(nth, (path, kind))| (FileId(nth), &**path, *kind))
    }

    /// What has exactly this path.
    #[must_use]
    pub fn at(&self, path: &str) -> Option<FileId> {
        let nth = self.entries.binary_search_by(|(have, _)| (**have).cmp(path)).ok()?;
        u32::try_from(nth).ok().map(FileId)
    }

    /// What lies below some folder as this path: each path that ends in `/` and `end`. In no
    /// particular order.
    pub fn ending<'a>(&'a self, end: &'a str) -> impl Iterator<Item = FileId> + use<'a> {
        let first = self.by_end.partition_point(|nth| self.compare(*nth, end) == Ordering::Less);
        let rest = self.by_end.get(first..).unwrap_or_default();
        rest.iter().take_while(move |nth| self.compare(**nth, end) == Ordering::Equal).map(|nth| FileId(*nth))
    }

    /// A path, read from its end, against `/` and `end`: equal when it ends so.
    fn compare(&self, nth: u32, end: &str) -> Ordering {
        let mut have = self.path(FileId(nth)).bytes().rev();
        for want in end.bytes().rev().chain([b'/']) {
            match have.next().map(|have| have.cmp(&want)) {
                Some(Ordering::Equal) => {}
                Some(other) => return other,
                None => return Ordering::Less,
            }
        }
        Ordering::Equal
    }

    /// Whether a file has this extension, written without its dot.
    #[must_use]
    pub fn has_extension(&self, extension: &str) -> bool {
        self.extensions.binary_search_by(|have| (**have).cmp(extension)).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_by_their_ends() {
        let paths = ["a.py", "x/a.py", "y/x/a.py", "xx/a.py", "x/ba.py", "Makefile", "x/.env", "py"];
        let listing = Listing::new(paths.map(|path| (path.to_owned(), Kind::File)));
        let ending = |end: &str| {
            let mut found: Vec<_> = listing.ending(end).map(|file| listing.path(file)).collect();
            found.sort_unstable();
            found
        };
        assert_eq!(ending("a.py"), ["x/a.py", "xx/a.py", "y/x/a.py"]);
        assert_eq!(ending("x/a.py"), ["y/x/a.py"]);
        assert_eq!(ending(".env"), ["x/.env"]);
        for none in ["y/x/a.py", "py", "Makefile", "z.py", ".py", "/a.py"] {
            assert!(ending(none).is_empty(), "{none}");
        }
        assert_eq!(listing.at("x/a.py").map(|file| listing.path(file)), Some("x/a.py"));
        assert_eq!(listing.at("x"), None);
        assert!(listing.has_extension("py") && !listing.has_extension("env"));
        assert_eq!(listing.len(), paths.len());
    }

    #[test]
    fn extensions_need_a_name_before_them() {
        assert_eq!(extension("a/b.tar.gz"), Some("gz"));
        for none in [".env", "a/.env", "a.b/c", "a.", "", "..x", "Makefile"] {
            assert_eq!(extension(none), None, "{none}");
        }
    }
}
