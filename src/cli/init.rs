//! `init`: a pipeline of one's own, and with `--repo` a dataset about one's own code.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::args;
use super::context;
use super::exit::CliError;
use super::out::Out;
use super::starter::{self, Once};
use crate::corpus::{Corpora, Corpus, Source, known_answer};
use crate::fsio::{self, Durability, Scratch, tree};
use crate::manifest::names::is_slug;
use crate::manifest::write::Doc;

/// Questions that are generated, by kind.
const LOCATE: usize = 12;
const CALLERS: usize = 8;
const WARMUPS: usize = 3;

/// Where the pipeline's servers and repositories stand in [`PIPELINE`].
const SERVERS: &str = "@SERVERS@";
const REPOS: &str = "@REPOS@";

/// The pipeline after its name.
const PIPELINE: &str = r#"about  = "Which server finds the right file, how fast, at what footprint?"
seed   = 20260601

[params]
servers    = { default = @SERVERS@, list = true, about = "server presets, by name or path" }
repos      = { default = @REPOS@, list = true, about = "repositories of the dataset" }
replicates = { default = 3, min = 1, about = "independent repetitions" }

# One arm, that is one row of the report, for each server.
[arm.each]
over   = "{{ params.servers }}"
server = "{{ item }}"

[axes]
repo      = "{{ params.repos }}"
replicate = { count = "{{ params.replicates }}" }
arm       = "all"

[stage.index]
kind = "ingest"
over = ["repo", "arm"]

[stage.warm]
kind  = "warmup"
needs = ["index"]

[stage.search]
kind   = "session"
driver = "retrieval"
needs  = ["warm"]
over   = ["repo", "replicate", "arm"]
top    = 10

[stage.score]
kind    = "grade"
needs   = ["search", "index"]
graders = ["ranking", "latency", "resources"]

[stage.summary]
kind  = "aggregate"
needs = ["score"]

# What the rows are ranked by; the weights add up to 1.
[composite.retrieval]
"hit@5"               = 0.30
"symbol_hit@5"        = 0.15
"mrr"                 = 0.15
"1/(1+calls)"         = 0.15
"1/(1+latency_p95_s)" = 0.15
"1/(1+footprint)"     = 0.10

# A bound makes `proofline run` exit with 2 when it does not hold, e.g. in CI:
# [gate]
# "bm25.hit@5.value" = { at-least = 0.5 }
"#;

const SERVERS_README: &str = "\
# Server presets

One TOML file per MCP server: how it is identified, started, indexed and asked.

    proofline servers add NAME -- COMMAND    starts a server once and writes its preset
    proofline servers list                   lists these and the shipped ones
    proofline schema server                  what may stand in a preset
";

/// What was done, for people and programs.
#[derive(Default)]
struct Done {
    written: Vec<String>,
    present: Vec<String>,
    notes: Vec<String>,
}

impl Done {
    /// Writes a file that isn't there yet.
    fn file(&mut self, root: &Path, path: &str, text: &str) -> Result<bool, CliError> {
        let full = root.join(path);
        if full.symlink_metadata().is_ok() {
            self.present.push(path.to_owned());
            return Ok(false);
        }
        fsio::write_atomic(&full, text.as_bytes(), Durability::Synced)?;
        self.written.push(path.to_owned());
        Ok(true)
    }
}

pub(super) fn init(command: &args::Init, out: &Out) -> Result<u8, CliError> {
    let root = context::cwd()?;
    let name = match &command.name {
        Some(name) if is_slug(name) => name.clone(),
        Some(name) => {
            let message = format!("--name {name}: use letters, digits, `-` and `_`, first a letter or digit");
            return Err(CliError::Usage(message));
        }
        None => slug(command.repo.as_ref().map_or(&root, |repo| repo)).unwrap_or_else(|| "main".to_owned()),
    };
    let mut done = Done::default();
    let repo = match &command.repo {
        None => "sample".to_owned(),
        Some(path) => {
            let name = match &command.name {
                Some(name) => name.clone(),
                None => slug(&real_folder(&root, path)?).unwrap_or_else(|| "repo".to_owned()),
            };
            dataset(&root, path, &name, &mut done)?;
            name
        }
    };
    let pipeline = pipeline(&name, &servers(&root), &repo);
    let fresh = done.file(&root, context::MAIN, &pipeline)?;
    done.file(&root, "presets/servers/README.md", SERVERS_README)?;
    if fresh {
        let asked = args::Pipeline { pipeline: context::MAIN.to_owned(), sets: Vec::new() };
        context::compiled(&asked, command.json, out)?;
    } else if command.repo.is_some() {
        done.notes.push(format!(
            "{} is as it was; `proofline run --set repos={repo}` takes this repository",
            context::MAIN
        ));
    }
    let next =
        ["proofline servers add NAME -- COMMAND   # your MCP server, beside grep and bm25", "proofline run"];
    if command.json {
        out.json(
            &json!({ "written": done.written, "present": done.present, "notes": done.notes, "next": next }),
        );
        return Ok(0);
    }
    for path in &done.written {
        out.data(&format!("wrote {path}\n"));
    }
    for path in &done.present {
        out.data(&format!("kept {path}, which was there already\n"));
    }
    for note in &done.notes {
        out.data(&format!("note: {note}\n"));
    }
    out.data(&format!("\nNext:\n  {}\n  {}\n", next[0], next[1]));
    Ok(0)
}

/// A slug of a folder's own name.
fn slug(folder: &Path) -> Option<String> {
    let name = folder.file_name()?.to_string_lossy().to_lowercase();
    let text: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect();
    Some(text.trim_matches(['-', '_']).to_owned()).filter(|text| is_slug(text))
}

/// `grep`, `bm25` and the presets that the folder has.
fn servers(root: &Path) -> Vec<String> {
    let mut own = BTreeSet::new();
    for entry in std::fs::read_dir(root.join("presets/servers")).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_str().and_then(|name| name.strip_suffix(".toml"));
        own.extend(name.filter(|name| is_slug(name) && !["grep", "bm25"].contains(name)).map(str::to_owned));
    }
    ["grep".to_owned(), "bm25".to_owned()].into_iter().chain(own).collect()
}

fn pipeline(name: &str, servers: &[String], repo: &str) -> String {
    let mut doc = Doc::with_schema("../schemas/pipeline.json");
    doc.comment("`proofline schema --into schemas` writes the schemas with which editors help.");
    doc.pair("format", 1).pair("name", name);
    let list = |items: &[&str]| items.iter().map(|i| format!("\"{i}\"")).collect::<Vec<_>>().join(", ");
    let names: Vec<&str> = servers.iter().map(String::as_str).collect();
    let body = PIPELINE
        .replace(SERVERS, &format!("[{}]", list(&names)))
        .replace(REPOS, &format!("[{}]", list(&[repo])));
    format!("{}{body}", doc.text())
}

fn real_folder(root: &Path, path: &Path) -> Result<PathBuf, CliError> {
    let full = root.join(path);
    match full.canonicalize() {
        Ok(real) if real.is_dir() => Ok(real),
        _ => Err(CliError::Usage(format!("--repo {}: there is no such folder", path.display()))),
    }
}

/// `datasets/`: the repository's entry and starter questions.
fn dataset(root: &Path, path: &Path, name: &str, done: &mut Done) -> Result<(), CliError> {
    let repo = real_folder(root, path)?;
    let real_root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let scratch = Scratch::new_in(&std::env::temp_dir())?;
    let corpora = Corpora::new(scratch.path().join("corpora"), true);
    let mut copied = None;
    // What lies in the project is named; files may not name what lies outside,
    // and a corpus that holds its own questions would be found by them.
    let (folder, corpus) = if let Ok(inside) = repo.strip_prefix(&real_root)
        && inside != Path::new("")
        && !["datasets", "pipelines", "presets"].iter().any(|own| inside == Path::new(own))
    {
        let inside = inside.to_string_lossy().into_owned();
        let folder = inside.strip_prefix("datasets/").map_or_else(|| format!("../{inside}"), str::to_owned);
        (folder, corpora.fetch(name, &Source::Folder(repo), None)?)
    } else {
        let target = root.join("datasets").join(name);
        if target.symlink_metadata().is_ok() {
            done.present.push(format!("datasets/{name}/"));
        } else {
            let corpus = corpora.fetch(name, &Source::Folder(repo), None)?;
            tree::copy(&corpus.path, &target)?;
            copied = Some((corpus.tree.entries.len(), corpus.tree.bytes()));
            done.written.push(format!("datasets/{name}/"));
        }
        (name.to_owned(), corpora.fetch(name, &Source::Folder(target), None)?)
    };
    if let Some((files, bytes)) = copied {
        done.notes.push(format!(
            "datasets/{name}/ is a copy of {} ({files} files, {} KiB): what files name lies in the project. \
             Remove it and run `proofline init` again to take a newer state, or run with `--set corpus.{name}=PATH`",
            path.display(),
            bytes / 1024
        ));
    }
    let entry = entry(name, &folder, &corpus);
    let whole = format!("{}{entry}", head());
    if !done.file(root, "datasets/repos.toml", &whole)? {
        let text = fsio::read(&root.join("datasets/repos.toml"))?;
        if !String::from_utf8_lossy(&text).contains(&format!("[repo.{name}]")) {
            done.notes.push(format!("add this to datasets/repos.toml:\n{entry}"));
        }
    }
    let (questions, count) = questions(name, &corpus);
    let file = format!("datasets/questions/{name}.toml");
    if done.file(root, &file, &questions)? {
        done.notes.push(if count == 0 {
            format!("no symbol of {} is fit for a question: write your own in {file}", path.display())
        } else {
            format!(
                "{file} holds {count} generated questions: a start, to be replaced by what people really ask"
            )
        });
    }
    Ok(())
}

fn head() -> String {
    let mut doc = Doc::with_schema("../schemas/repos.json");
    doc.pair("format", 1);
    doc.text().to_owned()
}

fn entry(name: &str, folder: &str, corpus: &Corpus) -> String {
    let mut doc = Doc::default();
    doc.comment("Relative to this file. `exposure` says how likely a model knows the code by heart:");
    doc.comment("famous, obscure, after-cutoff or private.");
    let mut table = Doc::default();
    table.table(&["repo", name]).pair("path", folder).pair("exposure", "private");
    if let Some(known) = known_answer(&corpus.path, &corpus.tree) {
        table.comment("Every server must find this before its other answers are believed.");
        let known: Value = json!({ "symbol": known.symbol, "question": known.question, "file": known.file });
        table.pair("known", known);
    }
    format!("\n{}{}", doc.text(), table.text())
}

/// The file of starter questions, and how many are in it.
fn questions(repo: &str, corpus: &Corpus) -> (String, usize) {
    let all = starter::symbols_of(corpus, repo);
    let mut taken = BTreeSet::new();
    let mut callers =
        starter::pick(&all, CALLERS, &mut taken, |s| s.kind.is_callable() && s.used_in.is_some());
    let mut locate = starter::pick(&all, LOCATE, &mut taken, |_| true);
    let warmups = starter::pick(&all, WARMUPS, &mut taken, |_| true);
    locate.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    callers.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
    let mut doc = Doc::with_schema("../../schemas/questions.json");
    doc.comment(
        "Generated by `proofline init` from symbols that are defined once: a start, not a benchmark.\n\
         These questions name what they look for, so that a plain search for the name does well.\n\
         Replace them by questions that people ask of this code, each with the files that answer it,\n\
         and hold them against it with `proofline datasets verify`.",
    );
    doc.pair("format", 1).pair("repo", repo);
    if warmups.is_empty() {
        doc.element(&["warmup"]);
        doc.pair("id", format!("{repo}-warmup-1")).pair("prompt", "Where does the program start?");
    }
    for (nth, symbol) in warmups.iter().enumerate() {
        doc.element(&["warmup"]);
        doc.pair("id", format!("{repo}-warmup-{}", nth + 1)).pair("kind", "locate");
        doc.pair("prompt", format!("Where is {} defined?", symbol.name));
    }
    let mut number = 0;
    for symbol in locate {
        number += 1;
        let prompt = format!("Where is the {} {} defined?", noun(symbol), symbol.name);
        question(&mut doc, repo, number, ("locate", "easy"), &prompt, &symbol.file);
        doc.pair("symbols", vec![symbol.name.as_str()]);
    }
    for symbol in callers {
        let Some(user) = &symbol.used_in else { continue };
        number += 1;
        let prompt = format!("Which other file uses {} of {}?", symbol.name, symbol.file);
        question(&mut doc, repo, number, ("callers", "medium"), &prompt, user);
        doc.pair("mentions", vec![symbol.name.as_str()]);
    }
    (doc.text().to_owned(), number)
}

fn question(doc: &mut Doc, repo: &str, number: usize, sort: (&str, &str), prompt: &str, file: &str) {
    doc.element(&["question"]);
    doc.pair("id", format!("{repo}-{number:03}")).pair("kind", sort.0).pair("difficulty", sort.1);
    doc.pair("prompt", prompt).pair("files", vec![file]);
}

fn noun(symbol: &Once) -> &'static str {
    if symbol.kind.is_type() { "type" } else { "function" }
}
