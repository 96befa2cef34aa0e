//! What a server did to its private copy of a corpus.

use std::collections::BTreeMap;
use std::path::Path;

use globset::Glob;

use crate::fsio::tree::{self, Node, Tree};

/// What differs in `copy` from `original`, beyond what `allowed` permits:
/// one line per entry (`changed: a.py`, `appeared: x`, `gone: b.py`), in
/// bytewise order of the paths.
///
/// An `allowed` entry is a folder (`.serena/`), a file, or a glob
/// (`**/*.idx`; `*` does not cross folders); all relative to the copy. It
/// permits new entries and changes of entries; what was there may not vanish.
#[must_use]
pub fn check_copy(copy: &Path, original: &Tree, allowed: &[String]) -> Vec<String> {
    let found = match tree::scan(copy) {
        Ok(found) => found,
        Err(error) => return vec![format!("the copy can't be read: {}", error.explain())],
    };
    let rules: Vec<Rule> = allowed.iter().map(|rule| Rule::new(rule)).collect();
    let permitted = |path: &str| rules.iter().any(|rule| rule.permits(path));
    let index = |tree: &Tree| -> BTreeMap<String, Node> {
        tree.entries.iter().map(|entry| (entry.path.clone(), entry.node.clone())).collect()
    };
    let (before, after) = (index(original), index(&found));
    let mut out: BTreeMap<&str, &str> = BTreeMap::new();
    for (path, node) in &after {
        match before.get(path) {
            Some(was) if was == node => {}
            _ if permitted(path) => {}
            Some(_) => {
                out.insert(path, "changed");
            }
            None => {
                out.insert(path, "appeared");
            }
        }
    }
    for path in before.keys().filter(|path| !after.contains_key(*path)) {
        out.insert(path, "gone");
    }
    out.into_iter().map(|(path, what)| format!("{what}: {path}")).collect()
}

enum Rule {
    /// A folder or file by name.
    Under(String),
    /// A pattern.
    Glob(globset::GlobMatcher),
}

impl Rule {
    fn new(text: &str) -> Self {
        let text = text.strip_prefix("./").unwrap_or(text);
        let pattern = text.trim_end_matches('/');
        if text.contains(['*', '?', '[', '{'])
            && let Ok(glob) = globset::GlobBuilder::new(pattern).literal_separator(true).build()
        {
            return Self::Glob(Glob::compile_matcher(&glob));
        }
        Self::Under(pattern.to_owned())
    }

    fn permits(&self, path: &str) -> bool {
        match self {
            Self::Under(place) => {
                !place.is_empty()
                    && path
                        .strip_prefix(place.as_str())
                        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            }
            // A pattern that names a folder permits all in it.
            Self::Glob(glob) => {
                let mut prefix = path;
                loop {
                    if glob.is_match(prefix) {
                        return true;
                    }
                    match prefix.rsplit_once('/') {
                        Some((above, _)) => prefix = above,
                        None => return false,
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fsio;

    #[test]
    fn only_declared_writes_are_permitted() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("c");
        for path in ["src/a.py", "src/b.py", "keep.txt", "docs/x.md"] {
            fsio::write_plain(&root.join(path), path.as_bytes()).unwrap();
        }
        let tree = tree::scan(&root).unwrap();
        assert!(check_copy(&root, &tree, &[]).is_empty());
        for path in [".serena/cache/x", "src/a.py", "new.txt", "a/b/c.idx", ".serena2/x"] {
            fsio::write_plain(&root.join(path), b"other").unwrap();
        }
        std::fs::remove_file(root.join("keep.txt")).unwrap();
        std::fs::remove_dir_all(root.join("docs")).unwrap();
        std::os::unix::fs::symlink("/etc", root.join("docs")).unwrap();
        let allowed = [".serena/".to_owned(), "**/*.idx".to_owned(), "keep.txt".to_owned()];
        assert_eq!(
            check_copy(&root, &tree, &allowed),
            [
                "appeared: .serena2/x",
                "appeared: docs",
                "gone: docs/x.md",
                "gone: keep.txt",
                "appeared: new.txt",
                "changed: src/a.py",
            ]
        );
        let all = ["*".to_owned()];
        assert_eq!(check_copy(&root, &tree, &all), ["gone: docs/x.md", "gone: keep.txt"]);
        assert_eq!(check_copy(&dir.path().join("none"), &tree, &[]).len(), 1);
    }
}
