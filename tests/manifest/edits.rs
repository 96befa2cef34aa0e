//! Single edits of every shipped manifest: each is noticed, where it was made.

use std::ops::Range;

use proofline::diag::Diagnostic;
use proofline::manifest::kind::FileKind;
use proofline::manifest::load;
use proofline::manifest::path::{KeyPath, Step};
use proofline::manifest::source::Document;
use serde_json::Value;

use crate::common::{compiled, root};
use crate::shipped::files;

/// Edits per file, at most.
const EDITS: usize = 200;

/// One change of a file.
struct Edit {
    what: String,
    text: String,
    /// Where the change is seen in the new text; of a dropped key, where it was.
    at: Range<usize>,
    /// Where the table that lost a key begins.
    parent: Option<usize>,
}

impl Edit {
    /// Whether a diagnostic points at the change (or at the table that lost a key).
    fn is_noticed_by(&self, file: &str, found: &[Diagnostic]) -> bool {
        found.iter().flat_map(|d| &d.labels).filter(|label| label.place.path.ends_with(file)).any(|label| {
            let place = &label.place;
            let covers = place.start <= self.at.start && place.end >= self.at.end;
            let inside = self.at.start <= place.start && place.end <= self.at.end && place.start < place.end;
            covers || inside || self.parent == Some(place.start)
        })
    }
}

/// A small generator of numbers (`SplitMix64`), so that the edits are the same everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % n as u64).unwrap()
    }
}

fn paths(value: &Value, path: &KeyPath, out: &mut Vec<KeyPath>) {
    match value {
        Value::Object(table) => {
            for (key, value) in table {
                out.push(path.key(key));
                paths(value, &path.key(key), out);
            }
        }
        Value::Array(list) => {
            for (at, value) in list.iter().enumerate() {
                out.push(path.index(at));
                paths(value, &path.index(at), out);
            }
        }
        _ => {}
    }
}

/// Names that the author of a file is free to choose, so that another one is as good.
fn is_free_name(kind: FileKind, path: &KeyPath) -> bool {
    let keys: Vec<&str> = path
        .0
        .iter()
        .filter_map(|s| if let Step::Key(key) = s { Some(key.as_str()) } else { None })
        .collect();
    match (kind, &keys[..]) {
        (FileKind::Repos, ["repo", _])
        | (FileKind::Rubric, ["step", "criteria", _])
        | (FileKind::Recording, ["answer", "facts", _])
        | (FileKind::Server, ["env", _] | ["tools", _, "args", ..])
        | (FileKind::Pipeline, ["arm" | "composite", _] | ["stage", _, "env" | "outputs", ..]) => true,
        // The others are needed by name; the last one is needed by none.
        (FileKind::Pipeline, ["stage", name]) => !["index", "warm", "search", "score"].contains(name),
        _ => false,
    }
}

/// Values of which any is allowed.
fn is_free_value(kind: FileKind, path: &KeyPath) -> bool {
    let text = path.to_string();
    match kind {
        FileKind::Server => text.starts_with("tools.") && text.contains(".args"),
        FileKind::Recording => text.contains(".facts."),
        _ => false,
    }
}

/// Keys without which a file is not whole.
fn is_required(kind: FileKind, path: &KeyPath, document: &Document) -> bool {
    let key = path.last_key().unwrap_or_default();
    let keys: &[&str] = match kind {
        FileKind::Pipeline => {
            &["format", "name", "kind", "driver", "graders", "run", "server", "arm", "default", "count"]
        }
        FileKind::Server => &["format", "name", "command", "engine", "tool", "run"],
        FileKind::Repos => {
            &["format", "archive", "path", "sha256", "pypi", "npm", "symbol", "question", "file"]
        }
        FileKind::Questions => &["format", "repo", "id", "difficulty", "prompt", "files"],
        FileKind::Scenario => &["format", "name", "title", "repo", "prompt", "type", "value", "id", "match"],
        FileKind::Rubric => &["format", "audience", "name", "weight", "question"],
        FileKind::Recording => &["format", "name", "label", "id", "arm", "task", "repo", "transcript"],
        FileKind::Prices => &["format", "model", "date", "input", "output"],
        FileKind::Lock => &["format", "version", "digest"],
        FileKind::Trust => &["format", "key"],
    };
    let over_of_arm = key == "over" && path.0.first() == Some(&Step::Key("arm".to_owned()));
    // With two sources either may go.
    let other_source = key == "archive" && document.get(&path.parent().key("url")).is_some();
    let server_of_arm =
        key == "server" && document.get(&path.parent()).is_some_and(|t| t.get("over").is_none());
    (keys.contains(&key) || over_of_arm) && !other_source && !server_of_arm
}

fn edits(kind: FileKind, file: &str, text: &str) -> Vec<Edit> {
    let (document, _) = Document::parse(file, text.as_bytes());
    let mut all = Vec::new();
    paths(&document.value, &KeyPath::root(), &mut all);
    let mut out = Vec::new();
    for path in &all {
        let value = document.value_place(path);
        let key = document.key_place(path);
        let json = document.get(path).unwrap();
        let is_key = matches!(path.0.last(), Some(Step::Key(_)));
        let written = &text[value.start..value.end];
        let header = (json.is_object() && written.starts_with('[')) || written.starts_with("[[");
        if is_key && !is_free_name(kind, path) {
            let name = text[key.start..key.end].trim_matches('"');
            let name = if text[key.start..].starts_with('"') {
                format!("\"{name}_x1z\"")
            } else {
                format!("{name}_x1z")
            };
            let mut new = text.to_owned();
            new.replace_range(key.start..key.end, &name);
            let at = key.start..key.start + name.len();
            out.push(Edit { what: format!("rename {path}"), text: new, at, parent: None });
        }
        if header {
            continue;
        }
        if !is_free_value(kind, path) {
            let other = match json {
                // A number may stand where a template of one stood.
                Value::String(text) if text.contains("{{") => "true",
                Value::String(_) => "7",
                _ => "\"seven\"",
            };
            let mut new = text.to_owned();
            new.replace_range(value.start..value.end, other);
            let at = value.start..value.start + other.len();
            out.push(Edit { what: format!("retype {path}"), text: new, at, parent: None });
        }
        let line = text[..key.start].rfind('\n').map_or(0, |n| n + 1);
        if is_key && text[line..key.start].trim().is_empty() && is_required(kind, path, &document) {
            let mut new = text.to_owned();
            new.replace_range(key.start..value.end, "");
            let parent = Some(document.value_place(&path.parent()).start);
            out.push(Edit { what: format!("drop {path}"), text: new, at: key.start..key.start, parent });
        }
    }
    out
}

fn check(kind: FileKind, file: &str, text: &str) -> Vec<Diagnostic> {
    if kind != FileKind::Pipeline {
        return load::check(kind, file, text.as_bytes());
    }
    let project = tempfile::tempdir().unwrap();
    let path = project.path().join(file);
    proofline::fsio::create_dir(path.parent().unwrap()).unwrap();
    proofline::fsio::write_plain(&path, text.as_bytes()).unwrap();
    // Inputs that a pipeline names must be there; the shipped datasets are found anyway.
    if root().join("examples").is_dir() {
        proofline::fsio::tree::copy(&root().join("examples"), &project.path().join("examples")).unwrap();
    }
    proofline::fsio::create_dir(&project.path().join("datasets/sample")).unwrap();
    match compiled(project.path(), file, &[]) {
        Ok((_, warnings)) => warnings,
        Err(found) => found,
    }
}

#[test]
fn every_single_edit_is_noticed_where_it_was_made() {
    let mut made = 0;
    let mut unnoticed = Vec::new();
    for (number, file) in files().into_iter().enumerate() {
        let text = std::fs::read_to_string(root().join(&file)).unwrap();
        let kind = FileKind::of(&file, &text).unwrap();
        let mut all = edits(kind, &file, &text);
        let mut random = Random(20_260_601 + number as u64);
        for _ in 0..EDITS.min(all.len()) {
            let edit = all.swap_remove(random.below(all.len()));
            made += 1;
            let found = check(kind, &file, &edit.text);
            if !edit.is_noticed_by(&file, &found) {
                let messages: Vec<&str> = found.iter().map(|d| d.message.as_str()).collect();
                unnoticed.push(format!("{file}: {}: {messages:?}", edit.what));
            }
        }
    }
    println!("edits: {made}");
    assert!(unnoticed.is_empty(), "{}", unnoticed.join("\n"));
}
