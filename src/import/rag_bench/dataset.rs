//! Repositories, questions, warm-ups.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::fields::{Fields, kind, plain};
use super::{ImportError, Malformed, Report, name_of, read};
use crate::fsio::tree;
use crate::manifest::dataset::{QuestionSet, Repos, SHORTEST_CONTENT};
use crate::manifest::write::{Doc, read_back};

/// A public repository whose releases a registry holds.
struct Published {
    address: &'static str,
    /// Key of our archive table.
    registry: &'static str,
    separator: &'static str,
    package: &'static str,
    /// Version whose archive's SHA-256 is known.
    version: &'static str,
    sha256: &'static str,
}

/// The repositories of the public sets.
const PUBLISHED: [Published; 4] = [
    Published {
        address: "github.com/pallets/flask",
        registry: "pypi",
        separator: "==",
        package: "flask",
        version: "3.1.0",
        sha256: "5f873c5184c897c8d9d1b05df1e3d01b14910ce69607a117bd3277098a5836ac",
    },
    Published {
        address: "github.com/fastapi/fastapi",
        registry: "pypi",
        separator: "==",
        package: "fastapi",
        version: "0.115.0",
        sha256: "f93b4ca3529a8ebc6fc3fcf710e5efa8de3df9b41570958abf1d97d843138004",
    },
    Published {
        address: "github.com/django/django",
        registry: "pypi",
        separator: "==",
        package: "Django",
        version: "5.2",
        sha256: "1a47f7a7a3d43ce64570d350e008d2949abe8c7e21737b351b6a1611277c6d89",
    },
    Published {
        address: "github.com/expressjs/express",
        registry: "npm",
        separator: "@",
        package: "express",
        version: "5.0.1",
        sha256: "e4c11546338cd41d6797381d1e029b9f2051183534e3037031300f5d60815a8b",
    },
];

/// A warm-up question.
struct Warmup {
    id: String,
    prompt: String,
}

/// Files to be written: path relative to the target, and text.
pub(super) type Out = Vec<(PathBuf, String)>;

pub(super) fn import(root: &Path, report: &mut Report, out: &mut Out) -> Result<(), ImportError> {
    let (repos, names) = repos(root, report)?;
    let warmups = warmups(root, report);
    report.warmups = warmups.len();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut with_questions: BTreeSet<String> = BTreeSet::new();
    let folder = root.join("queries");
    let mut files: Vec<PathBuf> = std::fs::read_dir(&folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"))
        .collect();
    files.sort();
    for path in files {
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let file = format!("queries/{stem}.jsonl");
        if stem == "warmup" {
            continue;
        }
        let text = match read(root, &path) {
            Ok(text) => text,
            Err(message) => {
                report.problems.push(Malformed { file, line: None, message });
                continue;
            }
        };
        let repo = name_of(&stem, &[]);
        if repo.is_empty() || !with_questions.insert(repo.clone()) {
            let message = format!("`{stem}` gives no name of its own for a repository");
            report.problems.push(Malformed { file, line: None, message });
            continue;
        }
        if !names.contains(&repo) {
            report.notes.push(format!(
                "{file}: repository `{stem}` is not in repos.json; add it to repos.toml before you use its questions"
            ));
        }
        let set = questions(&repo, &file, &text, &warmups, &mut taken, report);
        check::<QuestionSet>(&set, &format!("questions/{repo}.toml"))?;
        out.push((PathBuf::from(format!("questions/{repo}.toml")), set));
    }
    if with_questions.is_empty() {
        report.notes.push("there is no queries/*.jsonl: no questions were imported".to_owned());
    }
    for name in names.iter().filter(|name| !with_questions.contains(*name)) {
        report.notes.push(format!("repository `{name}` has no questions"));
    }
    check::<Repos>(&repos, "repos.toml")?;
    out.push((PathBuf::from("repos.toml"), repos));
    Ok(())
}

/// What was written must read back into the type that it is for.
pub(super) fn check<T: serde::de::DeserializeOwned>(text: &str, file: &str) -> Result<(), ImportError> {
    read_back::<T>(text).map(drop).map_err(|why| ImportError::Invalid { file: file.to_owned(), why })
}

fn repos(root: &Path, report: &mut Report) -> Result<(String, BTreeSet<String>), ImportError> {
    let mut doc = Doc::with_schema("../schemas/repos.json");
    doc.pair("format", 1);
    let mut names = BTreeSet::new();
    for (file, optional) in [("repos.json", false), ("repos.local.json", true)] {
        let path = root.join(file);
        if optional && !path.exists() {
            continue;
        }
        let bad = |message: String| Malformed { file: file.to_owned(), line: None, message };
        let text = read(root, &path).map_err(|why| ImportError::Repos(bad(why)))?;
        let list = match serde_json::from_str(&text) {
            Ok(Value::Array(list)) => list,
            Ok(other) => {
                let why = format!("expected a list, found {}", kind(&other));
                return Err(ImportError::Repos(bad(why)));
            }
            Err(error) => {
                let line = Some(error.line());
                let message = format!("not JSON: {}", plain(&error));
                return Err(ImportError::Repos(Malformed { line, ..bad(message) }));
            }
        };
        for (nth, item) in list.into_iter().enumerate() {
            if let Err(why) = repo(item, file, &mut doc, &mut names, report) {
                report.problems.push(bad(format!("entry {}: {why}", nth + 1)));
            }
        }
    }
    report.repos = names.len();
    Ok((doc.text().to_owned(), names))
}

fn repo(
    item: Value,
    file: &str,
    doc: &mut Doc,
    names: &mut BTreeSet<String>,
    report: &mut Report,
) -> Result<(), String> {
    let mut fields = Fields::of(item)?;
    let original = fields.needed("name")?;
    let url = fields.text("git_url")?.unwrap_or_default();
    let reference = fields.text("ref")?.unwrap_or_default();
    let language = fields.text("language")?.unwrap_or_default();
    let size = fields.text("size")?.unwrap_or_default();
    let name = name_of(&original, &[]);
    if name.is_empty() || !names.insert(name.clone()) {
        return Err(format!("name `{original}` is taken or gives no slug"));
    }
    if name != original {
        report.notes.push(format!("{file}: repository `{original}` is called `{name}` here"));
    }
    left(fields, &format!("{file}: repository `{name}`"), report);
    doc.blank();
    doc.comment(&format!(
        "{url} at {reference}{}",
        if size.is_empty() { String::new() } else { format!(", size {size}") }
    ));
    let version = reference.strip_prefix('v').unwrap_or(&reference);
    let bare_url =
        url.strip_prefix("https://").unwrap_or(&url).trim_end_matches('/').trim_end_matches(".git");
    let known = PUBLISHED.iter().find(|known| bare_url.eq_ignore_ascii_case(known.address));
    let full =
        reference.len() == 40 && reference.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    let versioned = version.starts_with(|c: char| c.is_ascii_digit())
        && version.chars().all(|c| c.is_ascii_alphanumeric() || ".+-".contains(c));
    let (mut source, mut exposure) = (Vec::new(), None);
    if full {
        source.push(("url", json!(url)));
        source.push(("commit", json!(reference)));
    } else if let Some(known) = known.filter(|_| versioned) {
        exposure = Some("famous");
        let registry = known.registry;
        let spec = format!("{}{}{version}", known.package, known.separator);
        let pin = (known.version == version).then_some(known.sha256);
        let mut archive = serde_json::Map::new();
        archive.insert(registry.to_owned(), json!(spec));
        if let Some(pin) = pin {
            archive.insert("sha256".to_owned(), json!(pin));
        } else {
            doc.comment(&format!(
                "Fill in: sha256 of the archive, or name the source by --set corpus.{name}={registry}:{spec}"
            ));
            report.notes.push(format!(
                "repository `{name}`: the SHA-256 of {registry}:{spec} is not known here; fill it in repos.toml or use --set corpus.{name}={registry}:{spec}"
            ));
        }
        if registry == "npm" {
            doc.comment("The npm package holds the library's own files only, neither tests nor examples:");
            doc.comment(
                "questions about those can't be answered, and scores differ from those on the git tree.",
            );
            report.notes.push(format!(
                "repository `{name}`: the npm package lacks tests and examples; for those fill in url and commit"
            ));
        }
        source.push(("archive", Value::Object(archive)));
    } else {
        // Written out, an entry without a source would make the whole file unusable.
        doc.comment("Fill in the commit of the tag above (40 hex digits) and remove the `#`:");
        doc.comment(&format!("[repo.{name}]"));
        doc.comment(&format!("url = {}", json!(url)));
        doc.comment("commit = \"\"");
        doc.comment(&format!("language = {}", json!(language)));
        report.notes.push(format!(
            "repository `{name}`: `{reference}` is no full commit; fill in its entry in repos.toml before you use its questions"
        ));
        return Ok(());
    }
    doc.table(&["repo", &name]);
    for (key, value) in source {
        doc.pair(key, value);
    }
    doc.pair("language", language);
    if let Some(exposure) = exposure {
        doc.pair("exposure", exposure);
    }
    Ok(())
}

fn warmups(root: &Path, report: &mut Report) -> Vec<Warmup> {
    let places = ["warmup.jsonl", "queries/warmup.jsonl"];
    let Some(file) = places.into_iter().find(|file| root.join(file).is_file()) else {
        report.notes.push("there is no warmup.jsonl: the sets have no warm-up questions".to_owned());
        return Vec::new();
    };
    let text = match read(root, &root.join(file)) {
        Ok(text) => text,
        Err(message) => {
            report.problems.push(Malformed { file: file.to_owned(), line: None, message });
            return Vec::new();
        }
    };
    let mut out: Vec<Warmup> = Vec::new();
    for (line, row) in rows(&text) {
        let warmup = (|| {
            let mut fields = Fields::parse(row)?;
            let warmup = Warmup { id: fields.needed("id")?, prompt: fields.needed("query")? };
            Ok::<_, String>((warmup, fields))
        })();
        match warmup {
            Ok((warmup, fields)) => {
                left(fields, &format!("{file}:{line}"), report);
                out.push(warmup);
            }
            Err(message) => {
                report.problems.push(Malformed { file: file.to_owned(), line: Some(line), message });
            }
        }
    }
    out
}

/// Lines that hold something, with their 1-based numbers.
fn rows(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.trim_start_matches('\u{feff}')
        .lines()
        .enumerate()
        .map(|(nth, line)| (nth + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty())
}

fn questions(
    repo: &str,
    file: &str,
    text: &str,
    warmups: &[Warmup],
    taken: &mut BTreeSet<String>,
    report: &mut Report,
) -> String {
    let mut doc = Doc::with_schema("../../schemas/questions.json");
    doc.pair("format", 1).pair("repo", repo);
    doc.comment("Its expectations were written for that benchmark's way of scoring.");
    doc.pair("profile", "rag-bench");
    for warmup in warmups {
        // The same lines serve every repository, and an id may occur only once.
        doc.element(&["warmup"]);
        doc.pair("id", format!("{repo}-{}", name_of(&warmup.id, &['.'])))
            .pair("prompt", warmup.prompt.clone());
    }
    for (line, row) in rows(text) {
        if let Err(message) = question(row, file, line, &mut doc, taken, report) {
            report.problems.push(Malformed { file: file.to_owned(), line: Some(line), message });
        }
    }
    doc.text().to_owned()
}

fn question(
    row: &str,
    file: &str,
    line: usize,
    doc: &mut Doc,
    taken: &mut BTreeSet<String>,
    report: &mut Report,
) -> Result<(), String> {
    let mut fields = Fields::parse(row)?;
    let original = fields.needed("id")?;
    let kind = kind_of(&fields.needed("type")?)?;
    let prompt = fields.needed("query")?;
    let files = fields.texts("expected_files")?;
    let symbols = fields.texts("expected_symbols")?;
    let content = fields.texts("expected_content")?;
    let difficulty = fields.needed("difficulty")?;
    if !["easy", "medium", "hard"].contains(&difficulty.as_str()) {
        return Err(format!("difficulty `{difficulty}` is none of easy, medium, hard"));
    }
    let id = name_of(&original, &['.']);
    if id.is_empty() {
        return Err(format!("id `{original}` gives no slug"));
    }
    if !taken.insert(id.clone()) {
        return Err(format!("id `{id}` occurs twice"));
    }
    if id != original {
        report.notes.push(format!("{file}:{line}: question `{original}` is called `{id}` here"));
    }
    let (files, content) = usable(&id, files, content, file, line, report);
    if files.is_empty() {
        report.notes.push(format!("{file}:{line}: question `{id}` expects no file"));
    }
    left(fields, &format!("{file}:{line}"), report);
    doc.element(&["question"]);
    doc.pair("id", id).pair("kind", kind).pair("difficulty", difficulty).pair("prompt", prompt);
    doc.pair("files", files).pair("symbols", symbols).pair("content", content);
    report.questions += 1;
    Ok(())
}

/// Expected files and content as they may stand in a set; what may not is left out and named.
///
/// Slashes and `./` before a path are taken off: both ways of matching of that benchmark do so.
fn usable(
    id: &str,
    files: Vec<String>,
    content: Vec<String>,
    file: &str,
    line: usize,
    report: &mut Report,
) -> (Vec<String>, Vec<String>) {
    let expected = files.len();
    let mut kept = Vec::new();
    for path in files {
        let mut bare = path.as_str();
        while let Some(rest) = bare.strip_prefix("./").or_else(|| bare.strip_prefix('/')) {
            bare = rest;
        }
        if tree::plain(bare.trim_end_matches('/')).is_err() {
            let message =
                format!("question `{id}`: the expected file `{path}` is no path in a corpus; it is left out");
            report.problems.push(Malformed { file: file.to_owned(), line: Some(line), message });
            continue;
        }
        if bare != path {
            report.notes.push(format!("{file}:{line}: question `{id}`: `{path}` is written as `{bare}`"));
        }
        kept.push(bare.to_owned());
    }
    if kept.is_empty() && expected > 0 {
        let message =
            format!("question `{id}`: no expected file is left, and none expected is a hit for every answer");
        report.problems.push(Malformed { file: file.to_owned(), line: Some(line), message });
    }
    let (content, short): (Vec<String>, Vec<String>) =
        content.into_iter().partition(|text| text.chars().count() >= SHORTEST_CONTENT);
    for text in short {
        report.notes.push(format!(
            "{file}:{line}: question `{id}`: the content `{text}` is too short; it is left out"
        ));
    }
    (kept, content)
}

fn kind_of(text: &str) -> Result<String, String> {
    const KINDS: [&str; 11] = [
        "locate",
        "explain",
        "callers",
        "callees",
        "impact",
        "multi-hop",
        "cross-package",
        "architecture",
        "dead-code",
        "conditional-path",
        "test-traceability",
    ];
    let kind = text.replace('_', "-");
    if KINDS.contains(&kind.as_str()) { Ok(kind) } else { Err(format!("type `{text}` is not known")) }
}

/// Names the keys that have no counterpart.
pub(super) fn left(fields: Fields, place: &str, report: &mut Report) {
    let keys = fields.left();
    if !keys.is_empty() {
        report.notes.push(format!("{place}: no counterpart for {}", keys.join(", ")));
    }
}
