//! Every kind of file that a person writes.

use std::path::{Path, PathBuf};

use proofline::cli::render;
use proofline::fsio;
use proofline::manifest::kind::FileKind;
use proofline::manifest::load;
use proofline::plan::compile::{Catalog, Request, compile};

use crate::mutate::fuzz;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn toml_files(folder: &str) -> Vec<Vec<u8>> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|end| end == "toml"));
    paths.sort();
    assert!(!paths.is_empty(), "{folder}");
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// Whatever it is, it is read, and what is said about it can be shown.
fn checked(kind: FileKind, bytes: &[u8]) {
    let found = load::check(kind, "it.toml", bytes);
    let shown = render::text(&found, false);
    assert_eq!(found.is_empty(), shown.is_empty());
}

const WORDS: &[&str] = &[
    "[",
    "]",
    "{",
    "}",
    "{{",
    "}}",
    "{%",
    "%}",
    "\"",
    "'''",
    "=",
    ".",
    "\n",
    "#",
    "\u{feff}",
    "\u{202e}",
    "../",
    "1e999",
    "-0",
    "0x",
    "1979-05-27",
    "inf",
    "[[stage]]",
    "[axes]",
    "over = [\"i\"]",
    "needs = []",
    "{ count = 9999999999 }",
    "params.",
    "item",
    "arm",
    "extends = \"main.toml\"",
    "\0",
];

#[test]
fn pipelines() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pipelines/main.toml");
    fuzz("pipelines", &toml_files("pipelines"), WORDS, |bytes| {
        checked(FileKind::Pipeline, bytes);
        fsio::write_plain(&file, bytes).unwrap();
        let engines = ["grep", "bm25", "symbols", "hybrid", "embed"].map(str::to_owned).to_vec();
        let request = Request {
            pipeline: "pipelines/main.toml".to_owned(),
            sets: Vec::new(),
            cwd: dir.path().to_owned(),
            catalog: Catalog { engines, ..Catalog::default() },
            only_checked: false,
        };
        if let Err(found) = compile(&request) {
            assert!(!render::text(&found, false).is_empty());
        }
    });
}

#[test]
fn presets() {
    fuzz("presets", &toml_files("presets/servers"), WORDS, |bytes| checked(FileKind::Server, bytes));
}

#[test]
fn datasets() {
    let mut seeds = toml_files("datasets/questions");
    seeds.extend(toml_files("datasets"));
    fuzz("datasets", &seeds, WORDS, |bytes| {
        checked(FileKind::Questions, bytes);
        checked(FileKind::Repos, bytes);
    });
}

#[test]
fn scenarios() {
    let mut seeds = toml_files("scenarios");
    seeds.extend(toml_files("rubrics"));
    seeds.extend(toml_files("recordings"));
    fuzz("scenarios", &seeds, WORDS, |bytes| {
        checked(FileKind::Scenario, bytes);
        checked(FileKind::Rubric, bytes);
        checked(FileKind::Recording, bytes);
    });
}

#[test]
fn locks() {
    let mut seeds = toml_files("presets");
    seeds.push(b"format = 1\n\n[signer.a]\nkey = \"ed25519:AAAA\"\nabout = \"a\"\n".to_vec());
    seeds.push(b"format = 1\n\n[server.a]\nversion = \"1\"\ndigest = \"00\"\n".to_vec());
    fuzz("locks", &seeds, WORDS, |bytes| {
        checked(FileKind::Lock, bytes);
        checked(FileKind::Trust, bytes);
        checked(FileKind::Prices, bytes);
    });
}
