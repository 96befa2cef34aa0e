//! Whole folders of the sense benchmark: scenarios, rubrics, runs with their
//! records and judgements, held-out sets.
//!
//! Manifests are written; transcripts and what stands beside them are named
//! in the [`Report`], to be kept byte for byte.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::super::writing::{Files, WriteError};
use super::super::{Content, Kept};
use super::{ours, scenario};
use crate::digest::Digest;
use crate::fsio;
use crate::manifest::project::is_plain;
use crate::manifest::recording_check::misread;
use crate::manifest::write::Doc;

/// A run's transcript.
const TRANSCRIPT: &str = "transcript.json";
/// What a judge said of it.
const JUDGED: &str = "judged.json";
/// Largest transcript, in bytes; other files are far smaller.
const LARGEST: u64 = 256 << 20;
const LARGEST_MANIFEST: u64 = 4 << 20;
/// Deepest folder that is looked into.
const DEEPEST: usize = 12;
/// Beginnings of folders that the benchmark has put aside.
const PARKED: [&str; 4] = ["_", "failed-", "dryruns-", "dropped-cells-"];
/// What the files of this import are called in every output.
const LABEL: &str = "imported from the Sense benchmark";

/// What an import did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Files written, relative to the target folder.
    pub written: Vec<PathBuf>,
    /// Scenarios, rubrics, answers, and judgements among them.
    pub scenarios: usize,
    /// Rubrics.
    pub rubrics: usize,
    /// Answers.
    pub answers: usize,
    /// Answers with a judgement.
    pub judgements: usize,
    /// Files of each answer.
    pub kept: Vec<Kept>,
    /// What was left out or is called otherwise.
    pub notes: Vec<String>,
    /// What could not be read.
    pub problems: Vec<String>,
}

/// Why nothing was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// It could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// The folder holds no such benchmark.
    #[error("`{}` holds no transcript.json below `results` (nor below `verticals/*/results`)", .0.display())]
    Nothing(PathBuf),
    /// None of its runs can be read.
    #[error("`{}` holds no run that can be read:\n{}", .0.display(), .1.join("\n"))]
    Unreadable(PathBuf, Vec<String>),
    /// What would be written does not read back: a fault of the importer.
    #[error("the recording that was made is not valid: {0}")]
    Invalid(String),
}

/// A scenario file.
struct Source {
    path: PathBuf,
    /// Its name here.
    task: String,
    /// Name and repository as it says them.
    title: String,
    repo: String,
    /// Folder that its runs stand below: a vertical, or `held-out`.
    home: String,
    /// It can't be used, and its problem was told: its runs are about it all the same, not about another.
    broken: bool,
}

/// Longest id, in bytes: ids stand in the names of nodes.
const LONGEST_ID: usize = 180;

/// Fact that holds a run's folder below its results, where its id is called otherwise.
pub const FOLDER: &str = "folder";

/// Further files of a run that are kept.
const FILES: [&str; 4] = ["run_meta.json", "scored.json", "onboarding-overhead.json", "channels.json"];

/// Imports the folder `path` into `into`. Files that somebody has changed are overwritten only
/// with `replace`; links are followed as far as they stay in `path`.
///
/// # Errors
/// When there is nothing to import, or it can't be written.
pub fn import(path: &Path, into: &Path, replace: bool) -> Result<Report, ImportError> {
    let mut runs = Vec::new();
    for (root, prefix) in roots(path) {
        find(&root, &prefix, DEEPEST, &mut runs);
    }
    if runs.is_empty() {
        return Err(ImportError::Nothing(path.to_owned()));
    }
    runs.sort();
    let mut report = Report::default();
    let mut files = Files::default();
    let sources = scenarios(path, &mut files, &mut report);
    let mut doc = Doc::with_schema("../../schemas/recording.json");
    doc.comment("Answers of the sense benchmark. Their transcripts are in the store, under these digests.");
    doc.pair("format", 1)
        .pair("name", "sense")
        .pair("about", "runs of the Sense benchmark")
        .pair("label", LABEL);
    let mut answers = Vec::new();
    let mut ids = BTreeSet::new();
    for (place, folder) in runs {
        match run(&place, &folder, path, &sources, &mut report) {
            Ok(mut answer) => {
                answer.call(&place, &mut ids);
                report.kept.push(kept(answer.id.clone(), &folder, path));
                answers.push(answer);
            }
            Err(problem) => report.problems.push(format!("{}: {problem}", shown(&folder, path))),
        }
    }
    if answers.is_empty() {
        return Err(ImportError::Unreadable(path.to_owned(), report.problems));
    }
    number(&mut answers, &mut report);
    for answer in answers {
        answer.write(&mut doc);
    }
    super::super::check_recording(doc.text()).map_err(ImportError::Invalid)?;
    held_out(path, &mut files, &mut report);
    files.add("recording.toml", doc.text());
    report.written = files.write(into, replace, &mut report.notes)?;
    Ok(report)
}

/// Folders below which runs lie, with what their ids begin with.
fn roots(path: &Path) -> Vec<(PathBuf, String)> {
    let mut out = vec![(path.join("results"), String::new())];
    for name in folders(&path.join("verticals")) {
        out.push((path.join("verticals").join(&name).join("results"), format!("{name}/")));
    }
    for held_out in ["held-out", "scenarios/held-out"] {
        out.push((path.join(held_out).join("transcripts"), "held-out/".to_owned()));
    }
    out
}

fn folders(path: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let mut out: Vec<String> = entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    out.sort();
    out
}

/// Folders with a transcript; links are not followed.
fn find(folder: &Path, id: &str, depth: usize, out: &mut Vec<(String, PathBuf)>) {
    if folder.join(TRANSCRIPT).is_file() {
        out.push((id.trim_end_matches('/').to_owned(), folder.to_owned()));
    }
    if depth == 0 {
        return;
    }
    for name in folders(folder) {
        if !PARKED.iter().any(|parked| name.starts_with(parked)) {
            find(&folder.join(&name), &format!("{id}{name}/"), depth - 1, out);
        }
    }
}

fn shown(path: &Path, root: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

/// A file of the imported folder; a link that leads out of it is refused.
fn take(root: &Path, file: &Path, most: u64) -> Result<Vec<u8>, String> {
    let inner = file.strip_prefix(root).unwrap_or(file).to_string_lossy();
    fsio::read_inside(root, &inner, most)
        .map_err(|error| format!("{} can't be read: {}", shown(file, root), error.source))
}

/// Converts all scenarios and rubrics.
fn scenarios(path: &Path, files: &mut Files, report: &mut Report) -> Vec<Source> {
    let mut places =
        vec![(path.join("scenarios"), String::new()), (path.join("held-out"), "held-out".to_owned())];
    for name in folders(&path.join("scenarios")) {
        places.push((path.join("scenarios").join(&name), name));
    }
    for name in folders(&path.join("verticals")) {
        places.push((path.join("verticals").join(&name).join("scenarios"), name));
    }
    let (mut out, mut names) = (Vec::new(), BTreeSet::new());
    for (folder, home) in places {
        for file in yaml_files(&folder) {
            let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            let mut task = ours(&stem);
            if names.contains(&task) {
                task = ours(&format!("{home}-{stem}"));
            }
            let called = task.clone();
            let mut times = 1;
            while names.contains(&task) {
                times += 1;
                task = format!("{called}-{times}");
            }
            names.insert(task.clone());
            let read = one_scenario(path, &file, &task, files, report);
            let broken = read.is_err();
            let (title, repo) = read.unwrap_or_else(|(problem, repo)| {
                report.problems.push(format!("{}: {problem}", shown(&file, path)));
                (String::new(), repo.unwrap_or(stem))
            });
            out.push(Source { path: file, task, title, repo, home: home.clone(), broken });
        }
    }
    out
}

/// Scenario files of a folder: YAML that is no rubric.
fn yaml_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut out: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let is_yaml = path.extension().is_some_and(|end| end == "yaml");
            path.is_file() && is_yaml && !name.ends_with(".rubric.yaml") && !name.starts_with('_')
        })
        .collect();
    out.sort();
    out
}

/// Name and repository of a scenario; of one that can't be used what is wrong and, where it says so, its
/// repository.
type Named = Result<(String, String), (String, Option<String>)>;

fn one_scenario(root: &Path, file: &Path, task: &str, files: &mut Files, report: &mut Report) -> Named {
    let bytes = take(root, file, LARGEST_MANIFEST).map_err(|problem| (problem, None))?;
    let whole = super::super::yaml::read(&bytes).map_err(|error| (error.to_string(), None))?;
    let rubric_file = file.with_extension("rubric.yaml");
    let mut rubric = None;
    if rubric_file.is_file() {
        let converted = take(root, &rubric_file, LARGEST_MANIFEST)
            .and_then(|bytes| scenario::rubric(&bytes).map_err(|error| error.to_string()));
        match converted {
            Ok(converted) => {
                let name = format!("rubrics/{task}.toml");
                files.add(&name, converted.text);
                note(report, &shown(&rubric_file, root), converted.notes);
                report.rubrics += 1;
                rubric = Some(name);
            }
            Err(error) => report.problems.push(format!("{}: {error}", shown(&rubric_file, root))),
        }
    }
    let text = |name: &str| whole[name].as_str().unwrap_or_default().to_owned();
    let converted = scenario::scenario(&bytes, task, rubric.as_deref())
        .map_err(|error| (error.to_string(), Some(text("repo")).filter(|repo| !repo.is_empty())))?;
    files.add(format!("scenarios/{task}.toml"), converted.text);
    note(report, &shown(file, root), converted.notes);
    report.scenarios += 1;
    Ok((text("name"), text("repo")))
}

fn note(report: &mut Report, file: &str, notes: Vec<String>) {
    report.notes.extend(notes.into_iter().map(|note| format!("{file}: {note}")));
}

/// One answer of the recording.
struct Answer {
    id: String,
    task: String,
    run: Run,
    replicate: u32,
    transcript: Digest,
    judgement: Option<Digest>,
    origin: String,
}

impl Answer {
    /// Gives it an id of its own: its place, as far as an id may say it.
    fn call(&mut self, place: &str, ids: &mut BTreeSet<String>) {
        let is_odd = |c: char| c.is_control() || c.is_whitespace() || ",[]={}\"'\\*".contains(c);
        let fits = |name: &str| !name.contains(is_odd);
        let names = place.split('/').map(|name| if fits(name) { name.to_owned() } else { ours(name) });
        let mut id = names.collect::<Vec<_>>().join("/");
        if id.len() > LONGEST_ID {
            id = Digest::of(id.as_bytes()).hex();
        }
        while !ids.insert(id.clone()) {
            id.push_str("-2");
        }
        if id != place {
            self.run.facts.insert(FOLDER.to_owned(), json!(place));
        }
        self.id = id;
    }

    fn write(self, doc: &mut Doc) {
        doc.element(&["answer"]);
        doc.pair("id", self.id).pair("arm", self.run.arm).pair("task", self.task);
        if self.replicate > 1 {
            doc.pair("replicate", self.replicate);
        }
        doc.pair("repo", ours(&self.run.repo)).pair("model", self.run.model).pair("dialect", "claude");
        doc.pair("digest", self.transcript.hex());
        doc.pair("judgement-digest", self.judgement.map(|digest| digest.hex()));
        doc.pair("origin", self.origin).pair("facts", Value::Object(self.run.facts));
    }
}

/// Numbers the answers of the same arm, task and model: those that have a number keep it while it is
/// free, the others take the next free ones.
fn number(answers: &mut [Answer], report: &mut Report) {
    let mut taken = BTreeSet::new();
    let of = |answer: &Answer, number: u32| {
        let run = &answer.run;
        (run.arm.clone(), answer.task.clone(), ours(&run.repo), run.model.clone(), number)
    };
    let mut others = Vec::new();
    for (at, answer) in answers.iter_mut().enumerate() {
        match answer.run.number {
            Some(number) if taken.insert(of(answer, number)) => answer.replicate = number,
            _ => others.push(at),
        }
    }
    for at in others {
        let Some(answer) = answers.get_mut(at) else { continue };
        let free = (1..=u32::MAX).find(|number| taken.insert(of(answer, *number)));
        answer.replicate = free.unwrap_or(u32::MAX);
        if answer.replicate != answer.run.number.unwrap_or(1) {
            report.notes.push(format!(
                "{}: another run of the arm `{}` has its number; it is replicate {} here",
                answer.id, answer.run.arm, answer.replicate
            ));
        }
    }
}

/// Numbers that a manifest can't hold become texts.
fn bearable(value: &mut Value) {
    match value {
        Value::Number(number) if number.as_u64().is_some_and(|n| i64::try_from(n).is_err()) => {
            *value = Value::String(number.to_string());
        }
        Value::Array(items) => items.iter_mut().for_each(bearable),
        Value::Object(map) => map.values_mut().for_each(bearable),
        _ => {}
    }
}

/// Whether a null, or a number that a manifest can't hold, stands anywhere in a value.
fn needs_text(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Number(number) => number.as_u64().is_some_and(|n| i64::try_from(n).is_err()),
        Value::Array(items) => items.iter().any(needs_text),
        Value::Object(map) => map.values().any(needs_text),
        Value::Bool(_) | Value::String(_) => false,
    }
}

/// Reads one run; a problem is told, not fatal.
fn run(
    id: &str,
    folder: &Path,
    root: &Path,
    sources: &[Source],
    report: &mut Report,
) -> Result<Answer, String> {
    if !is_plain(id) {
        return Err("its path holds characters that no answer's id may have".to_owned());
    }
    let transcript = take(root, &folder.join(TRANSCRIPT), LARGEST)?;
    let mut facts = Map::new();
    let mut scored_name = None;
    let object = |name: &str, bytes: &[u8]| match serde_json::from_slice::<Value>(bytes) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(format!("{name} is no object")),
        Err(error) => Err(format!("{name}: {error}")),
    };
    for name in FILES {
        let path = folder.join(name);
        if !path.is_file() {
            continue;
        }
        let bytes = take(root, &path, LARGEST_MANIFEST)?;
        match object(name, &bytes) {
            Ok(map) if name == "run_meta.json" => facts = map,
            Ok(map) if name == "scored.json" => {
                scored_name = map.get("scenario").and_then(Value::as_str).map(str::to_owned);
            }
            Ok(map) if name == "onboarding-overhead.json" => {
                let map = Value::Object(map);
                // A manifest has no null; the block of the costs is written out as it is.
                let kept = if needs_text(&map) { json!(map.to_string()) } else { map };
                drop(facts.insert("overhead".to_owned(), kept));
            }
            Ok(_) => {}
            Err(problem) => report.problems.push(format!("{}: {problem}", shown(folder, root))),
        }
    }
    let judged = folder.join(JUDGED);
    let judgement = if judged.is_file() { Some(take(root, &judged, LARGEST)?) } else { None };
    facts.retain(|_, value| !value.is_null());
    facts.values_mut().for_each(bearable);
    facts.retain(|name, value| {
        let Some(words) = misread(name, value) else { return true };
        report.notes.push(format!("{}: its `{name}` is left out: it is not {words}", shown(folder, root)));
        false
    });
    let run = Run::of(id, facts)?;
    let source = run.scenario(sources, scored_name.as_deref());
    match source {
        None => report.notes.push(format!("{}: no scenario is about `{}`", shown(folder, root), run.repo)),
        Some(source) if source.broken => report.notes.push(format!(
            "{}: its scenario `{}` can't be used; mend it and import again",
            shown(folder, root),
            shown(&source.path, root)
        )),
        Some(_) => {}
    }
    let task = source.map(|source| source.task.clone());
    report.answers += 1;
    report.judgements += usize::from(judgement.is_some());
    Ok(Answer {
        id: id.to_owned(),
        task: task.unwrap_or_else(|| ours(&run.repo)),
        replicate: 1,
        transcript: Digest::of(&transcript),
        judgement: judgement.as_ref().map(|bytes| Digest::of(bytes)),
        origin: format!("{}/transcript.json", shown(folder, root)),
        run,
    })
}

/// The files of a run that are there, each where its links lead.
fn kept(id: String, folder: &Path, root: &Path) -> Kept {
    let there = |name: &str| {
        let path = folder.join(name);
        let inside = fsio::stays_inside(root, &shown(&path, root));
        path.canonicalize().ok().filter(|path| inside && path.is_file())
    };
    Kept {
        id,
        transcript: Content::Files(there(TRANSCRIPT).into_iter().collect()),
        judgement: there(JUDGED),
        others: FILES.into_iter().filter_map(|name| Some((name.to_owned(), there(name)?))).collect(),
    }
}

/// What a run is, from its record and its place.
struct Run {
    arm: String,
    repo: String,
    /// Its number, where its folder says one.
    number: Option<u32>,
    model: Option<String>,
    home: String,
    facts: Map<String, Value>,
}

impl Run {
    fn of(id: &str, mut facts: Map<String, Value>) -> Result<Self, String> {
        let parts: Vec<&str> = id.split('/').collect();
        let text = |name: &str| facts.get(name).and_then(Value::as_str).map(str::to_owned);
        let numbered = parts.last().and_then(|last| last.strip_prefix("run-"));
        let numbered: Option<u32> = numbered.and_then(|n| n.parse().ok());
        let inner = if numbered.is_some() { &parts[..parts.len() - 1] } else { &parts[..] };
        let [before @ .., tool, repo] = inner else {
            return Err("its folder is not TOOL/REPO or TOOL/REPO/run-N".to_owned());
        };
        let tool = text("tool").unwrap_or_else(|| (*tool).to_owned());
        let repo = text("repo").unwrap_or_else(|| (*repo).to_owned());
        let home = before.first().map(|home| (*home).to_owned()).unwrap_or_default();
        // Below a vertical the folders of models come first.
        let model_folder = before.get(1).copied();
        let arm = match model_folder {
            Some(model) => format!("{}-{}", ours(&tool), ours(model)),
            None => ours(&tool),
        };
        let model = text("model").or_else(|| model_folder.map(str::to_owned));
        if let Some(commit) = text("repo_commit")
            .filter(|commit| commit.len() >= 7 && commit.chars().all(|c| c.is_ascii_hexdigit()))
        {
            facts.insert("commit".to_owned(), json!(commit));
        }
        let server = if tool == "baseline" { json!(false) } else { json!(tool) };
        facts.insert("server".to_owned(), server);
        facts.insert("repo".to_owned(), json!(repo));
        facts.insert("tool".to_owned(), json!(tool));
        Ok(Self { arm, repo, number: numbered.filter(|number| *number > 0), model, home, facts })
    }

    /// The scenario that the run is about: by its name as far as anything says it, the nearest by place.
    fn scenario<'s>(&self, sources: &'s [Source], scored: Option<&str>) -> Option<&'s Source> {
        let said = self.facts.get("scenario").and_then(Value::as_str);
        let fits = |source: &&Source| source.repo == self.repo;
        let rank = |source: &&Source| {
            let stem = source.path.file_stem().map(|s| s.to_string_lossy().into_owned());
            let named = scored.or(said).is_some_and(|name| name == source.title);
            (named, said.is_some() && said == stem.as_deref(), source.home == self.home)
        };
        // Of equals the first in order.
        sources.iter().filter(fits).rev().max_by_key(rank)
    }
}

/// Hand grades and locks of held-out sets are kept as they are.
fn held_out(path: &Path, files: &mut Files, report: &mut Report) {
    let mut found: BTreeMap<String, PathBuf> = BTreeMap::new();
    for folder in ["held-out", "scenarios/held-out"] {
        for entry in std::fs::read_dir(path.join(folder)).into_iter().flatten().flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let is_lock = entry.path().extension().is_some_and(|end| end == "lock");
            if (is_lock || name.ends_with(".gold.json")) && entry.path().is_file() {
                found.entry(name).or_insert(entry.path());
            }
        }
    }
    for (name, from) in found {
        match take(path, &from, LARGEST_MANIFEST) {
            Ok(bytes) => files.add(PathBuf::from("held-out").join(name), bytes),
            Err(problem) => report.problems.push(problem),
        }
    }
}
