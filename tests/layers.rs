//! Holds the map of modules: who may use whom, and where outside crates live.
//!
//! Every source file is parsed; every path in it (uses, inline `crate::x::y`,
//! `super::`, and paths inside macro calls) is resolved to a top-level module
//! or an outside crate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use regex::Regex;
use syn::visit::{self, Visit};

/// Modules by layer, lowest first; those that are still to come have their place.
const LAYERS: [&[&str]; 7] = [
    &["clock", "diag", "digest", "fsio", "id", "process", "shipped", "stats", "unit"],
    &["artifact", "event", "manifest"],
    &["agent", "corpus", "grade", "import", "judge", "mcp", "model", "plan", "remote", "retrieve", "store"],
    &["stage"],
    &["engine"],
    &["report", "serve"],
    &["cli"],
];

/// Edges inside a layer that are allowed.
const BESIDE: [(&str, &str); 14] = [
    // A tree of files is written and hashed in one pass.
    ("fsio", "digest"),
    // Children are timed, and their logs are files.
    ("process", "clock"),
    ("process", "fsio"),
    // Manifests name transcripts by the form that they have.
    ("manifest", "artifact"),
    // The journal tells states and causes in the words of the formats.
    ("event", "artifact"),
    ("event", "manifest"),
    // Graders look into code through a trait of theirs, which a corpus implements.
    ("corpus", "grade"),
    ("retrieve", "corpus"),
    ("retrieve", "mcp"),
    ("agent", "mcp"),
    ("agent", "model"),
    ("judge", "model"),
    ("import", "agent"),
    // Results move between a store and what others can reach.
    ("store", "remote"),
];

/// Edges to a lower layer that are refused all the same: an old run renders
/// without the machinery that made it.
const REFUSED: [(&str, &[&str]); 2] =
    [("report", &["engine", "stage", "mcp", "agent"]), ("serve", &["engine", "stage", "mcp", "agent"])];

/// Outside crates and the modules that may use them. Grammars count as `tree_sitter`.
const HOMES: [(&str, &[&str]); 15] = [
    ("toml", &["manifest"]),
    ("petgraph", &["plan"]),
    ("rmcp", &["mcp", "retrieve"]),
    ("git2", &["corpus"]),
    ("indicatif", &["cli"]),
    ("clap", &["cli"]),
    ("statrs", &["stats"]),
    ("minijinja", &["plan", "judge", "report"]),
    ("rusqlite", &["store", "serve"]),
    ("tree_sitter", &["corpus"]),
    ("reqwest", &["model", "mcp"]),
    ("comfy_table", &["report", "cli"]),
    ("object_store", &["remote"]),
    ("ring", &["store"]),
    ("saphyr_parser", &["import"]),
];

/// Modules that are synchronous and do no input or output, and what would show that they do.
const PURE: [&str; 4] = ["grade", "judge", "plan", "stats"];
const IMPURE: [&str; 6] = ["tokio", "std::fs", "std::net", "std::process", "crate::fsio", "crate::process"];
/// Names of impure modules that are pure all the same: the check of a path's spelling.
const PURE_NAMES: [&str; 2] = ["crate::fsio::tree::plain", "crate::fsio::tree::UnsafePath"];

/// The crates that the project is built on.
const NAMED: [&str; 10] =
    ["toml", "serde", "tokio", "petgraph", "rmcp", "regex", "git2", "indicatif", "statrs", "minijinja"];

fn sources() -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut open = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                out.push(path);
            }
        }
    }
    out.sort();
    out
}

/// Module path of a file: `src/grade/summary/mod.rs` is `[grade, summary]`.
fn module_of(file: &Path) -> Vec<String> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let relative = file.strip_prefix(&src).expect("under src").with_extension("");
    let mut parts: Vec<String> =
        relative.components().map(|c| c.as_os_str().to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod") || parts == ["lib"] {
        parts.pop();
    }
    parts
}

/// Paths of a file, each as full segments beginning with `crate` or an outside name.
struct Paths<'a> {
    module: Vec<String>,
    macros: &'a Regex,
    found: BTreeSet<Vec<String>>,
}

impl Paths<'_> {
    /// Resolves `self` and `super`; other paths stay as they are.
    fn add(&mut self, segments: Vec<String>) {
        let mut base = self.module.clone();
        let mut rest = segments.as_slice();
        let mut relative = false;
        while let Some((first, tail)) = rest.split_first() {
            match first.as_str() {
                "self" => {}
                "super" => {
                    base.pop();
                }
                _ => break,
            }
            relative = true;
            rest = tail;
        }
        if segments == ["crate"] {
            // `pub(crate)` names no module.
        } else if relative {
            let full = std::iter::once("crate".to_owned()).chain(base).chain(rest.iter().cloned());
            self.found.insert(full.collect());
        } else {
            self.found.insert(segments);
        }
    }

    fn tree(&mut self, before: &[String], tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => {
                let mut next = before.to_vec();
                next.push(path.ident.to_string());
                self.tree(&next, &path.tree);
            }
            syn::UseTree::Group(group) => {
                for item in &group.items {
                    self.tree(before, item);
                }
            }
            syn::UseTree::Name(name) => self.add([before, &[name.ident.to_string()]].concat()),
            syn::UseTree::Rename(name) => self.add([before, &[name.ident.to_string()]].concat()),
            syn::UseTree::Glob(_) => self.add([before, &["*".to_owned()]].concat()),
        }
    }
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add(path.segments.iter().map(|s| s.ident.to_string()).collect());
        visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        self.module.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.module.pop();
    }

    fn visit_item_extern_crate(&mut self, item: &'ast syn::ItemExternCrate) {
        self.add(vec![item.ident.to_string()]);
    }

    // What is inside a macro call is text to the parser: paths are cut out of it.
    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        visit::visit_macro(self, call);
        let text = call.tokens.to_string();
        for path in self.macros.find_iter(&text) {
            self.add(path.as_str().split("::").map(|s| s.trim().to_owned()).collect());
        }
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        visit::visit_attribute(self, attribute);
        if let syn::Meta::List(list) = &attribute.meta {
            let text = list.tokens.to_string();
            for path in self.macros.find_iter(&text) {
                self.add(path.as_str().split("::").map(|s| s.trim().to_owned()).collect());
            }
        }
    }
}

/// Paths of a source text whose module is `module`.
fn paths_of(text: &str, module: Vec<String>) -> BTreeSet<Vec<String>> {
    let macros =
        Regex::new(r"\b[A-Za-z_][A-Za-z0-9_]*(?:\s*::\s*[A-Za-z_][A-Za-z0-9_]*)+").expect("a pattern");
    let file = syn::parse_file(text).expect("a source file that parses");
    let mut paths = Paths { module, macros: &macros, found: BTreeSet::new() };
    paths.visit_file(&file);
    paths.found
}

/// A file and the paths in it.
type FilePaths = (PathBuf, BTreeSet<Vec<String>>);

/// Every path of the sources, by top-level module; `lib` and `main` are the crate's roots.
fn used() -> BTreeMap<String, Vec<FilePaths>> {
    let mut out: BTreeMap<String, Vec<_>> = BTreeMap::new();
    for file in sources() {
        let module = module_of(&file);
        let top = module.first().cloned().unwrap_or_else(|| "lib".to_owned());
        let module = if top == "main" { Vec::new() } else { module };
        let text = std::fs::read_to_string(&file).expect("text");
        let paths = paths_of(&text, module);
        out.entry(top).or_default().push((file, paths));
    }
    out
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|names| names.contains(&module))
}

/// Why an edge between top-level modules is not allowed; none when it is.
fn refusal(from: &str, to: &str) -> Option<String> {
    if from == to {
        return None;
    }
    let (Some(of_from), Some(of_to)) = (layer(from), layer(to)) else {
        return Some(format!("`{from}` -> `{to}`: one of them has no layer"));
    };
    let refused = REFUSED.iter().any(|(module, not)| *module == from && not.contains(&to));
    if refused {
        return Some(format!("`{from}` must not reach `{to}`"));
    }
    let allowed = of_to < of_from || BESIDE.contains(&(from, to));
    (!allowed).then(|| format!("`{from}` (layer {of_from}) must not use `{to}` (layer {of_to})"))
}

/// Name of the outside crate as [`HOMES`] lists it.
fn outside(segments: &[String]) -> &str {
    let first = segments.first().map(String::as_str).unwrap_or_default();
    if first.starts_with("tree_sitter") { "tree_sitter" } else { first }
}

#[test]
fn modules_use_lower_layers_only() {
    let mut edges: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut faults = Vec::new();
    for (from, files) in used() {
        if from == "lib" || from == "main" {
            continue;
        }
        for (file, paths) in files {
            for path in paths {
                let Some(("crate" | "proofline", rest)) = path.split_first().map(|(f, r)| (f.as_str(), r))
                else {
                    continue;
                };
                // `crate::Item` names something of the root; there is nothing but modules.
                let to = rest.first().map(String::as_str).unwrap_or_default();
                if let Some(why) = refusal(&from, to) {
                    faults.push(format!("{}: {} in `{}`", file.display(), why, path.join("::")));
                } else if from != to {
                    edges.entry(from.clone()).or_default().insert(to.to_owned());
                }
            }
        }
    }
    for (from, to) in &edges {
        println!("{from:>9} -> {}", to.iter().cloned().collect::<Vec<_>>().join(" "));
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_module_has_a_layer() {
    for module in used().keys().filter(|m| *m != "lib" && *m != "main") {
        assert!(layer(module).is_some(), "`{module}` is in no layer: add it to ARCHITECTURE.md and here");
    }
    let main =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/main.rs")).expect("text");
    for path in paths_of(&main, Vec::new()) {
        if path.first().is_some_and(|first| first == "proofline") {
            assert_eq!(path.get(1).map(String::as_str), Some("cli"), "main.rs calls cli and nothing else");
        }
    }
}

#[test]
fn outside_crates_stay_in_their_modules() {
    let mut users: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut faults = Vec::new();
    for (module, files) in used() {
        for (file, paths) in files {
            for path in paths {
                let name = outside(&path);
                users.entry(name.to_owned()).or_default().insert(module.clone());
                if let Some((_, homes)) = HOMES.iter().find(|(krate, _)| *krate == name)
                    && !homes.contains(&module.as_str())
                    // A local variable or module may share a crate's name; a path goes further.
                    && path.len() > 1
                {
                    faults.push(format!("{}: `{}` belongs to {homes:?}", file.display(), path.join("::")));
                }
                let text = path.join("::");
                if PURE.contains(&module.as_str())
                    && !PURE_NAMES.contains(&text.as_str())
                    && let Some(what) =
                        IMPURE.iter().find(|i| text == **i || text.starts_with(&format!("{i}::")))
                {
                    faults.push(format!(
                        "{}: `{module}` does no input or output, but uses {what}",
                        file.display()
                    ));
                }
            }
        }
    }
    println!("{:>10}  used by", "crate");
    // A skeleton without commands is let off.
    let built = users.contains_key("clap");
    for krate in NAMED {
        let by: Vec<_> = users.get(krate).into_iter().flatten().cloned().collect();
        println!("{krate:>10}  {}", by.join(" "));
        if built && by.is_empty() {
            faults.push(format!("no module uses {krate}"));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn no_source_file_has_more_than_600_lines() {
    let long: Vec<String> = sources()
        .into_iter()
        .map(|file| (std::fs::read_to_string(&file).expect("text").lines().count(), file))
        .filter(|(lines, _)| *lines > 600)
        .map(|(lines, file)| format!("{}: {lines}", file.display()))
        .collect();
    assert!(long.is_empty(), "split by noun:\n{}", long.join("\n"));
}

#[test]
fn the_reader_of_paths_sees_every_spelling() {
    let text = r#"
        use crate::{grade::metric, stats as numbers, engine::{self, run::Thing}};
        use super::plan::Node;
        fn f(x: crate::store::Id) -> u8 {
            let _ = crate::report::text();
            println!("{}", crate::mcp::name());
            vec![crate :: cli :: go()]
        }
        #[serde(with = "x")]
        mod inner {
            use super::super::super::diag;
            fn g() { self::h(); super::super::super::corpus::open() }
        }
        impl crate::unit::Span { fn h() where u8: crate::digest::D {} }
    "#;
    let found: BTreeSet<String> = paths_of(text, vec!["grade".into(), "x".into()])
        .into_iter()
        .filter(|p| p[0] == "crate")
        .filter_map(|p| p.get(1).cloned())
        .collect();
    let want =
        ["cli", "corpus", "diag", "digest", "engine", "grade", "mcp", "report", "stats", "store", "unit"];
    assert_eq!(found, want.iter().map(ToString::to_string).collect());
    assert!(refusal("grade", "stats").is_none() && refusal("retrieve", "corpus").is_none());
    for (from, to) in
        [("grade", "plan"), ("corpus", "retrieve"), ("report", "engine"), ("stats", "cli"), ("grade", "Item")]
    {
        assert!(refusal(from, to).is_some(), "{from} -> {to}");
    }
}
