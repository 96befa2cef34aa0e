//! Where symbolic links of a tree lead.

use std::collections::BTreeMap;

/// Links followed before a chain counts as endless; the kernel's own limit.
const HOPS: usize = 40;

/// Whether the link at `path` leads out of the tree (or nowhere, in a
/// circle). Links on the way are followed as the kernel would: a check of the
/// text alone would miss `a -> x/y`, `b -> a/../..`.
#[must_use]
pub fn leaves(links: &BTreeMap<String, String>, path: &str) -> bool {
    let mut here: Vec<&str> = path.split('/').collect();
    here.pop();
    let Some(target) = links.get(path) else { return false };
    if target.starts_with('/') || target.is_empty() {
        return true;
    }
    // What is still to be walked, next step last.
    let mut ahead: Vec<&str> = target.split('/').rev().collect();
    let mut hops = 0;
    while let Some(step) = ahead.pop() {
        match step {
            "" | "." => {}
            ".." => {
                if here.pop().is_none() {
                    return true;
                }
            }
            name => {
                here.push(name);
                if let Some(target) = links.get(&here.join("/")) {
                    hops += 1;
                    if hops > HOPS || target.starts_with('/') || ahead.len() > 10_000 {
                        return true;
                    }
                    here.pop();
                    ahead.extend(target.split('/').rev());
                }
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_followed_through_links() {
        let links: BTreeMap<String, String> = [
            ("in", "src/a"),
            ("src/up", "../lib/x"),
            ("abs", "/etc/passwd"),
            ("out", "../x"),
            ("s/t/home", "../.."),
            ("sly", "s/t/home/../etc"),
            ("fine", "s/t/home/src"),
            ("loop", "loop"),
            ("back", "src/../../tree/src"),
            ("empty", ""),
        ]
        .into_iter()
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
        .collect();
        for stays in ["in", "src/up", "s/t/home", "fine", "no-link"] {
            assert!(!leaves(&links, stays), "{stays}");
        }
        for out in ["abs", "out", "sly", "loop", "back", "empty"] {
            assert!(leaves(&links, out), "{out}");
        }
    }
}
