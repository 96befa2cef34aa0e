//! Repositories, their questions, and server presets: found, read, checked.

use std::collections::BTreeMap;
use std::path::PathBuf;

use indexmap::IndexMap;

use super::axes::Axes;
use super::params::{DATASETS, Params};
use super::stages::Stages;
use super::{Cx, Unknown, short};
use crate::diag::{Diagnostic, Place, names, nearest};
use crate::manifest::dataset::{QuestionSet, Repo, Repos};
use crate::manifest::dataset_check::archive;
use crate::manifest::load;
use crate::manifest::path::KeyPath;
use crate::manifest::project::{Found, Origin, ProjectError, is_path, is_plain, normal};
use crate::manifest::server::{Server, Transport};
use crate::manifest::source::Document;
use crate::plan::compiled::{Repository, Source, Work};
use crate::shipped;

/// Folder of server presets.
const SERVERS: &str = "presets/servers";

/// Where a dataset's files lie.
#[derive(Clone, Debug)]
enum Base {
    Disk(PathBuf),
    Shipped,
}

/// One `repos.toml`.
#[derive(Debug)]
struct Dataset {
    base: Base,
    shown: String,
    repos: Repos,
    document: Document,
}

/// A server preset as resolved.
#[derive(Clone, Debug)]
pub(super) struct Preset {
    pub(super) server: Server,
    pub(super) dir: Option<PathBuf>,
}

/// The datasets of this invocation, and what was read from them.
#[derive(Debug, Default)]
pub(super) struct Data {
    datasets: Vec<Dataset>,
    /// The folder that `--set datasets=` names; its presets come first.
    folder: Option<PathBuf>,
    /// By name; none for one that can't be used, which has been reported.
    repos: IndexMap<String, Option<Repository>>,
    /// A dataset was to be read and could not: names can't be checked.
    unsure: bool,
    corpora: BTreeMap<String, Source>,
}

impl Data {
    /// Finds the datasets: the folder that the parameter `datasets` names, by
    /// default the project's own `datasets/` and after it the shipped one.
    pub(super) fn open(cx: &mut Cx<'_>, params: &Params) -> Self {
        let corpora =
            params.corpora.iter().map(|(name, (source, _))| (name.clone(), source.clone())).collect();
        let mut out = Self { corpora, ..Self::default() };
        let mut folder = cx.project.root.join(DATASETS);
        let mut chosen = None;
        if let Some(value) = params.values.get(DATASETS) {
            let place = params.place(cx, DATASETS, None);
            let Some(text) = value.as_str() else {
                let help = "write the folder that holds repos.toml, e.g. \"datasets\"";
                cx.error("wrong-type", format!("the parameter `{DATASETS}` names a folder"), place, help);
                out.unsure = true;
                return out;
            };
            if params.is_set(DATASETS) {
                folder = normal(&cx.project.cwd.join(text));
                out.folder = Some(folder.clone());
                chosen = Some(place);
            } else {
                match cx.project.inside(&cx.project.root, text) {
                    Ok(inside) => folder = inside,
                    Err(error) => {
                        let help = "a folder outside can be named with `--set datasets=DIR`";
                        cx.error("bad-path", error.to_string(), place, help);
                        out.unsure = true;
                        return out;
                    }
                }
                chosen = (text != DATASETS).then_some(place);
            }
        }
        let found = cx.project.own(&folder, "repos.toml");
        out.take(cx, found, Base::Disk(folder.clone()), chosen.clone(), &folder);
        if chosen.is_none()
            && let Some(found) = cx.project.shipped("datasets/repos.toml")
        {
            out.take(cx, Ok(Some(found)), Base::Shipped, None, &folder);
        }
        out
    }

    fn take(
        &mut self,
        cx: &mut Cx<'_>,
        found: Result<Option<Found>, ProjectError>,
        base: Base,
        chosen: Option<Place>,
        folder: &std::path::Path,
    ) {
        let file = match found {
            Ok(Some(file)) => file,
            Ok(None) => {
                if let Some(place) = chosen {
                    let message = format!("there is no `repos.toml` in `{}`", cx.project.show(folder));
                    let help = "name a folder that holds repos.toml and questions/";
                    cx.error("no-dataset", message, place, help);
                    self.unsure = true;
                }
                return;
            }
            Err(error) => {
                let place = chosen.unwrap_or_else(|| cx.table(&KeyPath::root()));
                cx.error("unreadable", error.to_string(), place, "make it a readable file");
                self.unsure = true;
                return;
            }
        };
        let loaded = load::repos(&file.shown, &file.bytes);
        self.unsure |= loaded.diagnostics.iter().any(Diagnostic::is_error);
        cx.found.extend(loaded.diagnostics);
        if let Some(repos) = loaded.value {
            self.datasets.push(Dataset { base, shown: file.shown, repos, document: loaded.document });
        }
    }

    /// Reads a repository and its questions; reports at `place` when there is none.
    pub(super) fn repository(&mut self, cx: &mut Cx<'_>, name: &str, place: &Place) -> Option<&Repository> {
        if !self.repos.contains_key(name) {
            let repository = self.read(cx, name, place);
            self.repos.insert(name.to_owned(), repository);
        }
        self.repos.get(name).and_then(Option::as_ref)
    }

    /// Whether a dataset has this repository.
    pub(super) fn has(&self, name: &str) -> bool {
        self.corpora.contains_key(name) || self.datasets.iter().any(|d| d.repos.repo.contains_key(name))
    }

    fn read(&self, cx: &mut Cx<'_>, name: &str, place: &Place) -> Option<Repository> {
        let given = self.corpora.get(name).cloned();
        let at = self.datasets.iter().position(|d| d.repos.repo.contains_key(name));
        let Some(dataset) = at.map(|at| &self.datasets[at]) else {
            // A source alone is enough for a repository without questions of its own.
            if let (Some(source), Some(first)) = (given, self.datasets.first()) {
                let questions = questions(cx, first, name)?;
                return Some(Repository { name: name.to_owned(), source, entry: Repo::default(), questions });
            }
            if !self.unsure {
                self.unknown_repo(cx, name, place);
            }
            return None;
        };
        let entry = dataset.repos.repo.get(name)?.clone();
        let source = match given {
            Some(source) => source,
            None => source(cx, dataset, name, &entry)?,
        };
        let questions = questions(cx, dataset, name)?;
        Some(Repository { name: name.to_owned(), source, entry, questions })
    }

    fn unknown_repo(&self, cx: &mut Cx<'_>, name: &str, place: &Place) {
        let known: Vec<&str> =
            self.datasets.iter().flat_map(|d| d.repos.repo.keys().map(String::as_str)).collect();
        let files: Vec<&str> = self.datasets.iter().map(|d| d.shown.as_str()).collect();
        let all = names(known.iter().copied(), 24);
        let help = match nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`? known: {all}"),
            None if known.is_empty() => "write a datasets/repos.toml with `[repo.NAME]`".to_owned(),
            None => format!(
                "add `[repo.{}]` to a repos.toml (read: {}); known: {all}",
                short(name),
                files.join(", ")
            ),
        };
        cx.error("unknown-repo", format!("there is no repository `{}`", short(name)), place.clone(), help);
    }

    /// Reads a server preset; reports at `place` when there is none.
    pub(super) fn preset(
        &self,
        cx: &mut Cx<'_>,
        params: &Params,
        name: &str,
        place: &Place,
    ) -> Option<Preset> {
        let found = if is_path(name) {
            let found = if params.typed(name) {
                cx.project.named_on_command_line(name)
            } else {
                cx.project.named_in_file(name)
            };
            match found {
                Ok(found) => found,
                Err(error) => {
                    let help = match error {
                        ProjectError::Missing(_) if params.typed(name) => {
                            "the path is relative to the working directory".to_owned()
                        }
                        ProjectError::Missing(_) => {
                            format!(
                                "the path is relative to the project's root `{}`",
                                cx.project.show(&cx.project.root)
                            )
                        }
                        ProjectError::Outside(_) | ProjectError::Linked(_) => {
                            "a preset elsewhere can be named with `--set`".to_owned()
                        }
                        ProjectError::Unreadable(_) => "name a readable file".to_owned(),
                    };
                    let message = format!("there is no server preset `{}`: {error}", short(name));
                    cx.error("no-preset", message, place.clone(), help);
                    return None;
                }
            }
        } else {
            self.preset_by_name(cx, name, place)?
        };
        let dir = match &found.origin {
            Origin::Shipped(_) => None,
            Origin::Disk(path) => Some(self.preset_dir(cx, path)),
        };
        let loaded = load::server(&found.shown, &found.bytes);
        let mut sound = !loaded.diagnostics.iter().any(Diagnostic::is_error);
        cx.found.extend(loaded.diagnostics);
        let server = loaded.value?;
        sound &= check_engine(cx, &server, &loaded.document);
        if let Some(dir) = &dir {
            sound &= check_inputs(cx, &server, &loaded.document, dir);
        }
        if !is_path(name) && server.name != name && sound {
            let place = loaded.document.value_place(&KeyPath::of(&["name"]));
            let message = format!("the preset `{name}` calls itself `{}`", server.name);
            cx.warning("other-name", message, place, "give the file and the preset one name");
        }
        sound.then_some(Preset { server, dir })
    }

    fn preset_by_name(&self, cx: &mut Cx<'_>, name: &str, place: &Place) -> Option<Found> {
        let file = format!("{SERVERS}/{name}.toml");
        let known = || cx.project.names_in(SERVERS, self.folder.as_slice());
        if is_plain(&file) {
            let own = self.folder.as_ref().map_or(Ok(None), |folder| cx.project.own(folder, &file));
            let found = own.and_then(|own| own.map_or_else(|| cx.project.find(&file), |own| Ok(Some(own))));
            match found {
                Ok(Some(found)) => return Some(found),
                Ok(None) => {}
                Err(error) => {
                    cx.error("unreadable", error.to_string(), place.clone(), "make it a readable file");
                    return None;
                }
            }
        }
        let known = known();
        let all = names(known.iter().map(String::as_str), 32);
        let help = match nearest(name, known.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{near}`? presets: {all}"),
            None => format!("presets: {all}; `proofline servers add NAME -- COMMAND` makes a new one"),
        };
        cx.error("no-preset", format!("there is no server preset `{}`", short(name)), place.clone(), help);
        None
    }

    /// What a preset's paths are relative to: the project (or dataset folder)
    /// that it belongs to, else its own folder.
    fn preset_dir(&self, cx: &Cx<'_>, file: &std::path::Path) -> PathBuf {
        let homes = self.folder.iter().filter(|folder| file.starts_with(folder.join(SERVERS)));
        let project = Some(&cx.project.root).filter(|root| file.starts_with(root));
        homes.chain(project).next().cloned().or_else(|| file.parent().map(PathBuf::from)).unwrap_or_default()
    }

    /// The repositories that the cells name, in order; with a question axis,
    /// each with only the questions that are on it.
    pub(super) fn finish(
        self,
        cx: &mut Cx<'_>,
        axes: &Axes,
        stages: &Stages,
    ) -> IndexMap<String, Repository> {
        let asks = stages.all.iter().any(|s| matches!(s.stage.work, Work::Retrieval { .. }));
        let mut out = IndexMap::new();
        for (name, repository) in self.repos {
            let Some(mut repository) = repository else { continue };
            if asks && repository.questions.question.is_empty() {
                let place = axes.place_of_repo(&name).unwrap_or_else(|| cx.table(&KeyPath::of(&["axes"])));
                let message = format!("the repository `{name}` has no questions");
                let help = format!(
                    "write questions/{name}.toml beside its repos.toml; see `proofline schema questions`"
                );
                cx.error("no-questions", message, place, help);
            }
            if let Some(kept) = axes.tasks.get(&name) {
                repository.questions.question.retain(|q| kept.contains(&q.id));
            }
            out.insert(name, repository);
        }
        out
    }

    /// Reports sources for repositories that no cell names.
    pub(super) fn check_corpora(&self, cx: &mut Cx<'_>, params: &Params) {
        if self.unsure {
            return;
        }
        for (name, (_, set)) in &params.corpora {
            if self.repos.contains_key(name) {
                continue;
            }
            let used: Vec<&str> = self.repos.keys().map(String::as_str).collect();
            let all = names(used.iter().copied(), 24);
            let help = nearest(name, used.iter().copied()).map_or_else(
                || format!("this run uses {all}"),
                |near| format!("did you mean `{near}`? this run uses {all}"),
            );
            let message = format!("no cell uses the repository `{name}`");
            if self.has(name) && self.datasets.iter().any(|d| d.repos.repo.contains_key(name)) {
                cx.warning("unused-source", message, set.name_place(), help);
            } else {
                cx.error("unknown-repo", message, set.name_place(), help);
            }
        }
    }
}

/// Where a repository's files come from: the archive before git, git before a folder.
fn source(cx: &mut Cx<'_>, dataset: &Dataset, name: &str, entry: &Repo) -> Option<Source> {
    let path = KeyPath::of(&["repo", name]);
    if let Some(of) = &entry.archive {
        let (registry, package, version) = archive(of)?;
        let sha256 = Some(of.sha256.clone()?);
        return Some(Source::Archive {
            registry,
            name: package.to_owned(),
            version: version.to_owned(),
            sha256,
        });
    }
    if let Some(url) = &entry.url {
        return Some(Source::Git { url: url.clone(), commit: entry.commit.clone()? });
    }
    let written = entry.path.as_ref()?;
    let at = path.key("path");
    let place = || dataset.document.value_place(&at);
    match &dataset.base {
        Base::Shipped => {
            let present = shipped::list(&format!("datasets/{written}/")).next().is_some();
            present.then(|| Source::Embedded(written.clone()))
        }
        Base::Disk(folder) => {
            let help = format!(
                "name a folder in the project, relative to `{}`; one elsewhere: `--set corpus.{name}=PATH`",
                dataset.shown
            );
            let full = match cx.project.inside(folder, written) {
                Ok(full) => full,
                Err(error) => {
                    cx.error("bad-path", error.to_string(), place(), help);
                    return None;
                }
            };
            if !cx.project.is_folder(&full) {
                let message =
                    format!("the folder `{}` of repository `{name}` isn't there", cx.project.show(&full));
                cx.error("no-folder", message, place(), help);
                return None;
            }
            Some(match &entry.commit {
                Some(commit) => Source::Checkout { path: full, commit: commit.clone() },
                None => Source::Folder(full),
            })
        }
    }
}

fn questions(cx: &mut Cx<'_>, dataset: &Dataset, name: &str) -> Option<QuestionSet> {
    let none = QuestionSet {
        format: 1,
        repo: name.to_owned(),
        profile: None,
        warmup: Vec::new(),
        question: Vec::new(),
    };
    let file = format!("questions/{name}.toml");
    if !is_plain(&file) {
        return Some(none);
    }
    let found = match &dataset.base {
        Base::Shipped => cx.project.shipped(&format!("datasets/{file}")),
        Base::Disk(folder) => match cx.project.own(folder, &file) {
            Ok(found) => found,
            Err(error) => {
                let place = dataset.document.key_place(&KeyPath::of(&["repo", name]));
                cx.error("unreadable", error.to_string(), place, "make it a readable file");
                return None;
            }
        },
    };
    let Some(found) = found else { return Some(none) };
    let loaded = load::questions(&found.shown, &found.bytes);
    let mut sound = !loaded.diagnostics.iter().any(Diagnostic::is_error);
    cx.found.extend(loaded.diagnostics);
    let set = loaded.value?;
    if set.repo != name {
        let place = loaded.document.value_place(&KeyPath::of(&["repo"]));
        let message = format!("the questions of `{name}` say that they are about `{}`", short(&set.repo));
        cx.error("other-repo", message, place, format!("write `repo = \"{name}\"`, or rename the file"));
        sound = false;
    }
    sound.then_some(set)
}

fn check_engine(cx: &mut Cx<'_>, server: &Server, document: &Document) -> bool {
    let known = &cx.request.catalog.engines;
    let Some(engine) = server.engine.as_ref().filter(|_| server.transport == Transport::Builtin) else {
        return true;
    };
    if known.contains(engine) {
        return true;
    }
    let all = names(known.iter().map(String::as_str), 16);
    let help = match nearest(engine, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`? engines: {all}"),
        None => format!("engines: {all}"),
    };
    let place = document.value_place(&KeyPath::of(&["engine"]));
    cx.error("unknown-engine", format!("there is no built-in engine `{}`", short(engine)), place, help);
    false
}

fn check_inputs(cx: &mut Cx<'_>, server: &Server, document: &Document, dir: &std::path::Path) -> bool {
    let mut sound = true;
    for (at, input) in server.inputs.iter().enumerate() {
        let place = document.value_place(&KeyPath::of(&["inputs"]).index(at));
        let help = format!("inputs are files and folders, relative to `{}`", cx.project.show(dir));
        match cx.project.inside(dir, input) {
            Ok(full) if cx.project.exists(&full) || input.contains('*') => continue,
            Ok(_) => cx.error("no-input", format!("there is no file `{}`", short(input)), place, help),
            Err(error) => cx.error("bad-path", error.to_string(), place, help),
        }
        sound = false;
    }
    sound
}

/// How an unknown server or repository is named where a table can't be shown.
pub(super) const AXIS: Unknown<'static> = Unknown {
    code: "unknown-axis",
    noun: "axis",
    table: Some("axes"),
    none: "declare it under `[axes]`, e.g. `repo = [\"sample\"]`",
};
