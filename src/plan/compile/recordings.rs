//! Recordings: answers that exist already, what they are about, and the
//! files that each was given about.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use indexmap::IndexMap;

use super::data::Data;
use super::params::Params;
use super::texts;
use super::{Cx, short};
use crate::diag::{Diagnostic, Place};
use crate::digest::Digest;
use crate::manifest::dataset::{Question, QuestionSet, Repo};
use crate::manifest::load;
use crate::manifest::origin::is_commit_id;
use crate::manifest::path::KeyPath;
use crate::manifest::project::{Found, Origin, is_plain, normal};
use crate::manifest::recording::RecordedAnswer;
use crate::manifest::recording_check::INSIDE;
use crate::plan::compiled::{Answer, Bytes, Repository, Scenario, Source};
use crate::shipped;

/// Parameter that names a folder with one checkout per repository.
pub(super) const CHECKOUTS: &str = "checkouts";
/// Fact that names the commit that an answer is about.
const COMMIT: &str = "commit";
/// Fact that names its repository as the answer's own harness did.
const REPO: &str = "repo";

/// What was read.
#[derive(Debug, Default)]
pub(super) struct Answers {
    all: IndexMap<String, Answer>,
    scenarios: IndexMap<String, Scenario>,
    /// Sets of questions that lie beside recordings, by their paths; none: there is none, or it can't be used.
    sets: BTreeMap<String, Option<QuestionSet>>,
    /// Something could not be read, which has been reported.
    pub(super) unsure: bool,
    /// The pipeline names recordings at all.
    pub(super) declared: bool,
}

/// Where a recording lies: paths in it are relative to the project, scenarios may lie beside it.
struct Beside {
    /// Its folder, relative to the project or among the shipped files.
    folder: String,
    shipped: bool,
}

/// Reads the recordings that the pipeline names.
pub(super) fn read(cx: &mut Cx<'_>, params: &Params) -> Answers {
    let mut out = Answers::default();
    let Some(list) = cx.pipeline.recordings.clone() else {
        out.unsure = cx.document.excuses("recordings");
        return out;
    };
    out.declared = true;
    let Some(patterns) = texts::list(cx, params, &list, &KeyPath::of(&["recordings"])) else {
        out.unsure = true;
        return out;
    };
    for pattern in patterns {
        let place = pattern.place(cx);
        let files = match cx.project.matching(&pattern.text) {
            Ok(files) => files,
            Err(error) => {
                let help = "name a file of the project, e.g. `recordings/demo.toml`; `*` stands for any name";
                cx.error("bad-path", error.to_string(), place, help);
                out.unsure = true;
                continue;
            }
        };
        if files.is_empty() {
            let message = format!("there is no recording `{}`", short(&pattern.text));
            let help = "`proofline import KIND PATH` makes one of another program's answers";
            if cx.request.only_checked && pattern.text.contains('*') {
                cx.warning("no-recording", message, place, help);
            } else {
                cx.error("no-recording", message, place, help);
            }
            out.unsure = true;
        }
        for (path, found) in files {
            out.take(cx, &path, &found);
        }
    }
    out
}

impl Answers {
    /// Names of arms that answers have, in order of appearance.
    pub(super) fn arms(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        self.all.values().map(|answer| answer.arm.as_str()).filter(|arm| seen.insert(*arm)).collect()
    }

    /// Ids of an arm's answers.
    pub(super) fn of_arm<'a>(&'a self, arm: &'a str) -> impl Iterator<Item = &'a str> {
        self.all.iter().filter(move |(_, answer)| answer.arm == arm).map(|(id, _)| id.as_str())
    }

    /// Reads a scenario of the project or a shipped one.
    pub(super) fn scenario(&mut self, cx: &mut Cx<'_>, path: &str) -> Option<&Scenario> {
        if !self.scenarios.contains_key(path) {
            let found = self.find(cx, path, None)?;
            self.take_scenario(cx, path, &found)?;
        }
        self.scenarios.get(path)
    }

    fn take(&mut self, cx: &mut Cx<'_>, path: &str, found: &Found) {
        let loaded = load::recording(&found.shown, &found.bytes);
        self.unsure |= loaded.diagnostics.iter().any(Diagnostic::is_error);
        cx.found.extend(loaded.diagnostics);
        let Some(recording) = loaded.value else { return };
        let beside = Beside {
            folder: path.rsplit_once('/').map_or(String::new(), |(folder, _)| folder.to_owned()),
            shipped: matches!(found.origin, Origin::Shipped(_)),
        };
        for (at, answer) in recording.answer.into_iter().enumerate() {
            let place = |key: &str| {
                let path = KeyPath::of(&["answer"]).index(at);
                if loaded.document.get(&path.key(key)).is_some() {
                    loaded.document.value_place(&path.key(key))
                } else {
                    loaded.document.table_place(&path)
                }
            };
            if self.all.contains_key(&answer.id) {
                let message = format!("two recordings have an answer `{}`", short(&answer.id));
                cx.error("duplicate-value", message, place("id"), "name one of the two under `recordings`");
                self.unsure = true;
                continue;
            }
            let id = answer.id.clone();
            match self.answer(cx, &beside, answer, &recording.label, &place) {
                Some(answer) => {
                    self.all.insert(id, answer);
                }
                None => self.unsure = true,
            }
        }
    }

    fn answer(
        &mut self,
        cx: &mut Cx<'_>,
        beside: &Beside,
        wire: RecordedAnswer,
        label: &str,
        place: &dyn Fn(&str) -> Place,
    ) -> Option<Answer> {
        let file = |cx: &mut Cx<'_>, path: &str, key: &str| bytes(cx, beside, path, place(key));
        let object = |digest: Option<&String>| digest.and_then(|hex| hex.parse().ok()).map(Bytes::Object);
        let mut transcripts = Vec::new();
        for path in wire.transcript.iter().chain(&wire.steps) {
            transcripts.push(file(cx, path, "transcript")?);
        }
        transcripts.extend(object(wire.digest.as_ref()));
        let judgement = match &wire.judgement {
            Some(path) => Some(file(cx, path, "judgement")?),
            None => object(wire.judgement_digest.as_ref()),
        };
        let scenario = self.scenario_of(cx, beside, &wire.task, place);
        let mut answer = Answer::of(wire, label, transcripts, judgement);
        answer.scenario = scenario;
        answer.question = self.question_of(cx, beside, (&answer.repo, &answer.task), place);
        Some(answer)
    }

    /// A file of the project or a shipped one; one that is there and can't be had is reported at `place`.
    fn find(&mut self, cx: &mut Cx<'_>, path: &str, place: Option<Place>) -> Option<Found> {
        match cx.project.find(path) {
            Ok(found) => found,
            Err(error) => {
                self.unsure = true;
                let place = place.unwrap_or_else(|| cx.table(&KeyPath::root()));
                cx.error("unreadable", error.to_string(), place, "make it a readable file of the project");
                None
            }
        }
    }

    /// Path of the scenario of a task: beside its recording, else the project's or a shipped one.
    fn scenario_of(
        &mut self,
        cx: &mut Cx<'_>,
        beside: &Beside,
        task: &str,
        place: &dyn Fn(&str) -> Place,
    ) -> Option<String> {
        let near = format!("{}/scenarios/{task}.toml", beside.folder);
        let own = format!("scenarios/{task}.toml");
        let paths = if beside.folder.is_empty() { vec![own] } else { vec![near, own] };
        for path in paths.into_iter().filter(|path| is_plain(path)) {
            if self.scenarios.contains_key(&path) {
                return Some(path);
            }
            // The project's own comes before a shipped one of the same path, also for a shipped recording.
            if let Some(found) = self.find(cx, &path, Some(place("task"))) {
                self.take_scenario(cx, &path, &found)?;
                return Some(path);
            }
        }
        None
    }

    /// The question of a task, from a set that lies beside the recording.
    fn question_of(
        &mut self,
        cx: &mut Cx<'_>,
        beside: &Beside,
        (repo, task): (&str, &str),
        place: &dyn Fn(&str) -> Place,
    ) -> Option<Question> {
        let path = format!("{}/questions/{repo}.toml", beside.folder);
        if beside.folder.is_empty() || !is_plain(&path) {
            return None;
        }
        if !self.sets.contains_key(&path) {
            let mut set = None;
            if let Some(found) = self.find(cx, &path, Some(place("repo"))) {
                let loaded = load::questions(&found.shown, &found.bytes);
                self.unsure |= loaded.diagnostics.iter().any(Diagnostic::is_error);
                cx.found.extend(loaded.diagnostics);
                set = loaded.value;
            }
            self.sets.insert(path.clone(), set);
        }
        self.sets.get(&path)?.as_ref()?.question.iter().find(|q| q.id == task).cloned()
    }

    fn take_scenario(&mut self, cx: &mut Cx<'_>, path: &str, found: &Found) -> Option<()> {
        let loaded = load::scenario(&found.shown, &found.bytes);
        let sound = !loaded.diagnostics.iter().any(Diagnostic::is_error);
        self.unsure |= !sound;
        cx.found.extend(loaded.diagnostics);
        let task = loaded.value?;
        let mut rubric = None;
        if let Some(wanted) = &task.rubric {
            // Beside the scenario's folder, as an import lays them, else in the project.
            let base = path.strip_suffix(&format!("scenarios/{}.toml", task.name)).unwrap_or_default();
            let near = format!("{base}{wanted}");
            let place = loaded.document.value_place(&KeyPath::of(&["rubric"]));
            let before = cx.found.len();
            let found = [near.as_str(), wanted.as_str()]
                .into_iter()
                .filter(|path| is_plain(path))
                .find_map(|path| self.find(cx, path, Some(place.clone())));
            if let Some(found) = found {
                let loaded = load::rubric(&found.shown, &found.bytes);
                self.unsure |= loaded.diagnostics.iter().any(Diagnostic::is_error);
                cx.found.extend(loaded.diagnostics);
                rubric = loaded.value;
            } else if cx.found.len() == before {
                let message = format!("there is no rubric `{}`", short(wanted));
                cx.error("no-rubric", message, place, "write it, or take `rubric` out");
                self.unsure = true;
            }
        }
        self.scenarios.insert(path.to_owned(), Scenario { task, rubric });
        Some(())
    }

    /// The answers, each with the files and the question that it is about; the
    /// repositories of their files are added to `repos`.
    pub(super) fn finish(
        mut self,
        cx: &mut Cx<'_>,
        params: &Params,
        data: &mut Data,
        repos: &mut IndexMap<String, Repository>,
    ) -> (IndexMap<String, Answer>, IndexMap<String, Scenario>) {
        let checkouts = checkouts(cx, params);
        for answer in self.all.values_mut() {
            let (commit, remark) = commit(answer);
            answer.remark = remark;
            if data.has(&answer.repo)
                && let Some(repository) = data.repository(cx, &answer.repo, &Place::new("", "", 0, 0))
            {
                if answer.question.is_none() {
                    let asked = repository.questions.question.iter().find(|q| q.id == answer.task);
                    answer.question = asked.cloned();
                }
                if checkouts.is_none() && commit.is_none() {
                    repos.entry(answer.repo.clone()).or_insert_with(|| repository.clone());
                    answer.corpus = Some(answer.repo.clone());
                }
            }
            // Under its own name, which may be none that repositories have here.
            let own = answer.facts.get(REPO).and_then(|name| name.as_str()).unwrap_or(&answer.repo);
            let Some(folder) = checkouts.as_ref().filter(|_| is_plain(own)).map(|folder| folder.join(own))
            else {
                if answer.corpus.is_none() {
                    // Nothing is looked up: how doesn't matter.
                    answer.remark = None;
                }
                continue;
            };
            if !folder.is_dir() {
                answer.remark = Some(format!("among the checkouts is no folder `{own}`"));
                continue;
            }
            let is_git = folder.join(".git").exists() || folder.join("HEAD").is_file();
            if let Some(commit) = commit.as_ref().filter(|_| !is_git) {
                answer.remark = Some(format!(
                    "the commit {commit} could not be honoured: `{own}` is no git repository; its files as they are were used"
                ));
            }
            let commit = commit.filter(|_| is_git);
            let name = format!("{}@{}", answer.repo, commit.as_deref().unwrap_or("files"));
            let source = Source::Cited { path: folder, commit };
            repos.entry(name.clone()).or_insert_with(|| Repository {
                name: name.clone(),
                source,
                entry: Repo::default(),
                questions: QuestionSet {
                    format: 1,
                    repo: answer.repo.clone(),
                    profile: None,
                    warmup: Vec::new(),
                    question: Vec::new(),
                },
            });
            answer.corpus = Some(name);
        }
        (self.all, self.scenarios)
    }
}

/// The commit that an answer's record names, and what is to be said of one that can't be used.
fn commit(answer: &Answer) -> (Option<String>, Option<String>) {
    let Some(commit) = answer.facts.get(COMMIT).and_then(|commit| commit.as_str()) else {
        return (None, None);
    };
    if is_commit_id(commit) {
        return (Some(commit.to_owned()), None);
    }
    let remark = format!(
        "the commit `{}` of the record is no commit's id and may mean another one today: it counts as not recorded",
        short(commit)
    );
    (None, Some(remark))
}

/// The folder that the parameter `checkouts` names, when it is set.
fn checkouts(cx: &mut Cx<'_>, params: &Params) -> Option<PathBuf> {
    let value = params.values.get(CHECKOUTS)?.clone();
    let Some(value) = value.as_str().map(str::to_owned) else {
        let place = params.place(cx, CHECKOUTS, None);
        let help = "write the folder that holds one folder per repository, or leave it empty";
        cx.error("wrong-type", format!("the parameter `{CHECKOUTS}` names a folder"), place, help);
        return None;
    };
    if value.is_empty() {
        return None;
    }
    let base = if params.is_set(CHECKOUTS) { &cx.project.cwd } else { &cx.project.root };
    let folder = normal(&base.join(&value));
    if !folder.is_dir() {
        let place = params.place(cx, CHECKOUTS, None);
        let message = format!("the folder `{}` isn't there", short(&value));
        cx.error("no-folder", message, place, "name a folder that holds one folder per repository");
        return None;
    }
    Some(folder)
}

/// Where a file that a recording names is: in the project, else among the shipped ones.
fn bytes(cx: &mut Cx<'_>, beside: &Beside, path: &str, place: Place) -> Option<Bytes> {
    if !beside.shipped
        && is_plain(path)
        && let Some(error) = cx.project.leads_out(path)
    {
        cx.error("bad-path", error.to_string(), place, INSIDE);
        return None;
    }
    if !beside.shipped && cx.project.holds_file(path) {
        return Some(Bytes::File(path.to_owned()));
    }
    if shipped::get(path).is_some() {
        return Some(Bytes::Shipped(path.to_owned()));
    }
    let message = format!("there is no file `{}`", short(path));
    cx.error("no-file", message, place, "paths in a recording are relative to the project's root");
    None
}

impl Bytes {
    /// Digest of the bytes where they are known without looking at the disk.
    #[must_use]
    pub fn digest(&self) -> Option<Digest> {
        match self {
            Self::File(_) => None,
            Self::Shipped(path) => shipped::get(path).map(Digest::of),
            Self::Object(digest) => Some(*digest),
        }
    }
}
