//! `--set NAME=VALUE` as typed: parameters, and where corpora come from.

use std::collections::BTreeMap;
use std::path::Path;

use super::{Cx, short};
use crate::diag::Place;
use crate::manifest::names::is_slug;
use crate::manifest::origin::{FORMS, Source, parse_set};

/// How the command line is named in diagnostics.
const PATH: &str = "--set";
/// What begins a name that says where a repository comes from.
const CORPUS: &str = "corpus.";

/// One `--set`.
#[derive(Clone, Debug)]
pub(super) struct Set {
    /// `NAME=VALUE`.
    text: String,
    name: String,
    pub(super) value: String,
}

impl Set {
    fn new(name: &str, value: &str) -> Self {
        Self { text: format!("{name}={value}"), name: name.to_owned(), value: value.to_owned() }
    }

    /// Place of the name.
    pub(super) fn name_place(&self) -> Place {
        Place::new(PATH, &self.text, 0, self.name.len())
    }

    /// Place of the value.
    pub(super) fn value_place(&self) -> Place {
        Place::new(PATH, &self.text, self.name.len() + 1, self.text.len())
    }

    /// The entries of a list with the place of each; empty ones are left out.
    pub(super) fn entries(&self) -> Vec<(String, Place)> {
        let mut start = self.name.len() + 1;
        let mut out = Vec::new();
        for piece in self.value.split(',') {
            let lead = piece.len() - piece.trim_start().len();
            let entry = piece.trim();
            if !entry.is_empty() {
                let place = Place::new(PATH, &self.text, start + lead, start + lead + entry.len());
                out.push((entry.to_owned(), place));
            }
            start += piece.len() + 1;
        }
        out
    }
}

/// All of them, sorted into their two uses.
#[derive(Debug, Default)]
pub(super) struct Sets {
    /// By name of the parameter.
    pub(super) params: BTreeMap<String, Set>,
    /// By name of the repository.
    pub(super) corpora: BTreeMap<String, (Source, Set)>,
}

impl Sets {
    pub(super) fn read(cx: &mut Cx<'_>) -> Self {
        let mut out = Self::default();
        for (name, value) in &cx.request.sets {
            let set = Set::new(name, value);
            let Some(repo) = name.strip_prefix(CORPUS) else {
                out.params.insert(name.clone(), set);
                continue;
            };
            if !is_slug(repo) {
                let help = "write `--set corpus.NAME=SOURCE`";
                cx.error(
                    "bad-name",
                    format!("`{}` is no name of a repository", short(repo)),
                    set.name_place(),
                    help,
                );
                continue;
            }
            match source(value, &cx.project.cwd) {
                Ok(source) => {
                    out.corpora.insert(repo.to_owned(), (source, set));
                }
                Err(message) => cx.error("bad-source", message, set.value_place(), FORMS),
            }
        }
        out
    }
}

/// Where a corpus comes from, as typed; what it names on this machine must be there.
fn source(text: &str, cwd: &Path) -> Result<Source, String> {
    let source = parse_set(text, cwd).map_err(|error| error.to_string())?;
    match &source {
        Source::Folder(path) | Source::Checkout { path, .. } if !path.is_dir() => {
            Err(format!("there is no folder `{}`", short(text)))
        }
        Source::File(path) if !path.is_file() => Err(format!("there is no archive `{}`", short(text))),
        _ => Ok(source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::server::Registry;

    #[test]
    fn sources_read_as_typed() {
        let cwd = Path::new(env!("CARGO_MANIFEST_DIR"));
        let archive = |registry, name: &str, version: &str| Source::Archive {
            registry,
            name: name.to_owned(),
            version: version.to_owned(),
            sha256: None,
        };
        assert_eq!(source("pypi:flask==3.1.0", cwd), Ok(archive(Registry::Pypi, "flask", "3.1.0")));
        assert_eq!(source("npm:@scope/pkg@1.0.0", cwd), Ok(archive(Registry::Npm, "@scope/pkg", "1.0.0")));
        assert_eq!(source("crate:ripgrep@14.1.0", cwd), Ok(archive(Registry::Crate, "ripgrep", "14.1.0")));
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let git = Source::Git { url: "https://example.org/x".to_owned(), commit: commit.to_owned() };
        assert_eq!(source(&format!("git:https://example.org/x@{commit}"), cwd), Ok(git));
        assert_eq!(source("src", cwd), Ok(Source::Folder(cwd.join("src"))));
        let checkout = Source::Checkout { path: cwd.join("src"), commit: "v1.0".to_owned() };
        assert_eq!(source("src@v1.0", cwd), Ok(checkout));
        for bad in [
            "",
            "nowhere",
            "pypi:flask",
            "npm:x",
            "git:https://example.org/x@main",
            "pypi:flask==--x",
            "src@--x",
            "nothing.tar.gz",
        ] {
            assert!(source(bad, cwd).is_err(), "{bad}");
        }
    }

    #[test]
    fn entries_of_a_list_have_places() {
        let set = Set::new("servers", "grep, bm25,,x");
        let entries = set.entries();
        let places: Vec<(usize, usize)> = entries.iter().map(|(_, p)| (p.start, p.end)).collect();
        assert_eq!(entries.iter().map(|(e, _)| e.as_str()).collect::<Vec<_>>(), ["grep", "bm25", "x"]);
        assert_eq!(places, [(8, 12), (14, 18), (20, 21)]);
    }
}
