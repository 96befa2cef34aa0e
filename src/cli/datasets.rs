//! `datasets verify`: questions held against the code that they are about.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::args;
use super::context;
use super::exit::{CliError, USAGE};
use super::out::Out;
use super::render;
use crate::corpus::{self, Corpora, Corpus, CorpusError, Place, Problem};
use crate::diag::{self, Diagnostic, Severity};
use crate::fsio::{self, Scratch};
use crate::manifest::dataset::{QuestionSet, Repo, Repos};
use crate::manifest::dataset_check::archive;
use crate::manifest::load::{self, Loaded};
use crate::manifest::origin::Source;
use crate::manifest::project::Project;
use crate::manifest::source::LARGEST;
use crate::shipped;

/// Most question files of a dataset.
const MOST: usize = 2_000;

/// Where a dataset's files lie.
enum Base {
    Disk(PathBuf),
    Shipped,
}

pub(super) fn verify(
    command: &args::DatasetsVerify,
    store: Option<&Path>,
    out: &Out,
) -> Result<u8, CliError> {
    let project = context::project()?;
    let base = match &command.dir {
        Some(dir) => Base::Disk(project.cwd.join(dir)),
        None if project.root.join("datasets/repos.toml").is_file() => {
            Base::Disk(project.root.join("datasets"))
        }
        None => Base::Shipped,
    };
    let (name, bytes) = base.repos(&project)?;
    let repos = load::repos(&name, &bytes);
    let mut sets: Vec<Loaded<QuestionSet>> = Vec::new();
    for (name, bytes) in base.questions(&project)? {
        sets.push(load::questions(&name, &bytes));
    }
    let mut found: Vec<Diagnostic> = Vec::new();
    found.extend(repos.diagnostics.iter().cloned());
    found.extend(sets.iter().flat_map(|set| set.diagnostics.iter().cloned()));
    let (mut checked, mut skipped) = (Vec::new(), Vec::new());
    if let Some(value) = &repos.value {
        let dir = context::store_dir(store, &project.root);
        // Without a store yet, nothing is left behind.
        let scratch =
            if dir.is_dir() || command.fetch { None } else { Some(Scratch::new_in(&std::env::temp_dir())?) };
        let corpora = match &scratch {
            Some(scratch) => Corpora::new(scratch.path().to_owned(), true),
            None => context::corpora(&dir, !command.fetch),
        };
        let mut there: BTreeMap<String, Corpus> = BTreeMap::new();
        for (name, repo) in &value.repo {
            match base.corpus(&corpora, name, repo) {
                None => skipped.push((name.clone(), "its entry names no source".to_owned())),
                Some(Ok(corpus)) => {
                    checked.push(name.clone());
                    there.insert(name.clone(), corpus);
                }
                Some(Err(CorpusError::Offline { .. })) => {
                    skipped.push((name.clone(), "its code is not here; `--fetch` brings it".to_owned()));
                }
                Some(Err(error)) => {
                    let place =
                        repos.document.key_place(&crate::manifest::path::KeyPath::of(&["repo", name]));
                    let message = format!("the code of `{name}` can't be had: {error}");
                    found.push(Diagnostic::error("no-corpus", message).at(place, ""));
                }
            }
        }
        found.extend(problems(value, &repos, &sets, &there));
    }
    diag::sort(&mut found);
    let failed = found.iter().any(Diagnostic::is_error);
    let exit = if failed { USAGE } else { 0 };
    let questions: usize = sets.iter().filter_map(|s| s.value.as_ref()).map(|s| s.question.len()).sum();
    if command.json {
        let mut object = render::json(&found, exit);
        object["checked"] = json!(checked);
        object["skipped"] =
            json!(skipped.iter().map(|(n, why)| json!({ "repo": n, "why": why })).collect::<Vec<_>>());
        object["questions"] = json!(questions);
        out.json(&object);
        return Ok(exit);
    }
    if !found.is_empty() {
        out.say(render::text(&found, out.people_tty).trim_end());
    }
    for (name, why) in &skipped {
        out.data(&format!("{name}: only its files were read, {why}\n"));
    }
    let verdict = if failed { "not sound" } else { "sound" };
    let names = if checked.is_empty() { "no code".to_owned() } else { checked.join(", ") };
    out.data(&format!(
        "{questions} question(s) of {} file(s), held against {names}: {verdict}\n",
        sets.len()
    ));
    Ok(exit)
}

/// What the corpora say of the dataset, each at its place in its file.
fn problems(
    repos: &Repos,
    document: &Loaded<Repos>,
    sets: &[Loaded<QuestionSet>],
    there: &BTreeMap<String, Corpus>,
) -> Vec<Diagnostic> {
    // A set that can't be read as one has been reported; places go by the readable ones.
    let readable: Vec<&Loaded<QuestionSet>> = sets.iter().filter(|set| set.value.is_some()).collect();
    let values: Vec<QuestionSet> = readable.iter().filter_map(|set| set.value.clone()).collect();
    let mut out: Vec<Diagnostic> = Vec::new();
    for problem in corpus::verify(repos, &values, there) {
        let at = match problem.file {
            Place::Repos => &document.document,
            Place::Set(nth) => match readable.get(nth) {
                Some(set) => &set.document,
                None => continue,
            },
        };
        out.push(diagnostic(&problem, at));
    }
    let reported: Vec<(&str, String)> = sets
        .iter()
        .flat_map(|set| &set.diagnostics)
        .filter_map(|d| Some((d.code, d.place()?.to_string())))
        .collect();
    // Reading the file says some of the same already.
    out.retain(|d| d.place().is_none_or(|place| !reported.iter().any(|(_, at)| *at == place.to_string())));
    out
}

fn diagnostic(problem: &Problem, document: &crate::manifest::source::Document) -> Diagnostic {
    let place = document.value_place(&problem.path);
    let diagnostic = match problem.severity {
        Severity::Error => Diagnostic::error(problem.code, problem.message.clone()),
        Severity::Warning => Diagnostic::warning(problem.code, problem.message.clone()),
    };
    let diagnostic = diagnostic.at(place, problem.question.clone().unwrap_or_default());
    match &problem.help {
        Some(help) => diagnostic.help(help.clone()),
        None => diagnostic,
    }
}

impl Base {
    fn repos(&self, project: &Project) -> Result<(String, Vec<u8>), CliError> {
        match self {
            Self::Disk(folder) => {
                let path = folder.join("repos.toml");
                let bytes = fsio::read_limited(&path, LARGEST as u64 + 1)
                    .map_err(|e| CliError::Usage(format!("no dataset here: {}", e.explain())))?;
                Ok((project.show(&path), bytes))
            }
            Self::Shipped => {
                let found = project.shipped("datasets/repos.toml");
                let found =
                    found.ok_or_else(|| CliError::Infrastructure("no dataset is shipped".to_owned()))?;
                Ok((found.shown, found.bytes))
            }
        }
    }

    /// Name and content of the question files, in order.
    fn questions(&self, project: &Project) -> Result<Vec<(String, Vec<u8>)>, CliError> {
        let is_toml = |name: &str| Path::new(name).extension().is_some_and(|e| e == "toml");
        match self {
            Self::Disk(folder) => {
                let folder = folder.join("questions");
                let mut names: Vec<PathBuf> = std::fs::read_dir(&folder)
                    .into_iter()
                    .flatten()
                    .flatten()
                    .map(|entry| entry.path())
                    .filter(|path| is_toml(&path.to_string_lossy()))
                    .take(MOST)
                    .collect();
                names.sort();
                let mut out = Vec::new();
                for path in names {
                    out.push((project.show(&path), fsio::read_limited(&path, LARGEST as u64 + 1)?));
                }
                Ok(out)
            }
            Self::Shipped => Ok(shipped::list("datasets/questions/")
                .filter(|(path, _)| is_toml(path))
                .map(|(path, bytes)| (format!("(shipped)/{path}"), bytes.to_vec()))
                .collect()),
        }
    }

    fn corpus(&self, corpora: &Corpora, name: &str, repo: &Repo) -> Option<Result<Corpus, CorpusError>> {
        let source = self.source(repo)?;
        Some(corpora.fetch(name, &source, repo.subdir.as_deref()))
    }

    /// The archive before git, git before a folder; as runs take it.
    fn source(&self, repo: &Repo) -> Option<Source> {
        if let Some(of) = &repo.archive {
            let (registry, name, version) = archive(of)?;
            let (name, version, sha256) = (name.to_owned(), version.to_owned(), of.sha256.clone());
            return Some(Source::Archive { registry, name, version, sha256 });
        }
        if let Some(url) = &repo.url {
            return Some(Source::Git { url: url.clone(), commit: repo.commit.clone()? });
        }
        let written = repo.path.as_ref()?;
        Some(match (self, &repo.commit) {
            (Self::Shipped, _) => Source::Embedded(written.clone()),
            (Self::Disk(folder), Some(commit)) => {
                Source::Checkout { path: folder.join(written), commit: commit.clone() }
            }
            (Self::Disk(folder), None) => Source::Folder(folder.join(written)),
        })
    }
}
