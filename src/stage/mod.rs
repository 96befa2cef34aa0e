//! What nodes do: one file per kind, each with its recipe and its run.
//!
//! A stage is given its inputs as records and gives back parts; it knows
//! nothing of other nodes, of scheduling or of reports.

mod aggregate;
mod answer;
pub(crate) mod ask;
mod command;
mod grade;
pub mod identity;
mod ingest;
mod judged;
mod place;
mod program;
mod raw;
mod read;
pub mod recorded;
mod server;
mod session;
mod warmup;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::corpus::Corpus;
use crate::digest::Digest;
use crate::fsio::slot::Lent;
use crate::manifest::axis;
use crate::manifest::dataset::Question;
use crate::manifest::pipeline::Cause;
use crate::plan::compiled::{Arm, Compiled, Repository, Stage, Work};
use crate::plan::key::Kind;
use crate::process::Supervisors;
use crate::store::{Outcome, PartContent, PartRef, Record, Store, StoreError};

/// Everything that one execution of a node may use.
pub struct Job {
    /// The pipeline.
    pub pipeline: Arc<Compiled>,
    /// Index of the stage.
    pub stage: usize,
    /// The cell.
    pub cell: BTreeMap<String, String>,
    /// Index of the arm.
    pub arm: Option<usize>,
    /// Per need: the nodes that are read.
    pub needs: Vec<Vec<Input>>,
    /// The store, for reading parts.
    pub store: Arc<Store>,
    /// Corpora by repository.
    pub corpora: Arc<BTreeMap<String, Corpus>>,
    /// A private folder for this attempt; empty, unless it is that of `slot`.
    pub scratch: PathBuf,
    /// The slot whose folder `scratch` is, for work that shares folders with what came before.
    pub slot: Option<Arc<Lent>>,
    /// The program itself, for built-in engines and confinement.
    pub exe: PathBuf,
    /// Run commands.
    pub supervisors: Arc<Supervisors>,
    /// Marks the processes of this attempt.
    pub marker: String,
    /// Tells the stage to end its children and return.
    pub cancel: CancellationToken,
    /// The recipe of the node.
    pub recipe: serde_json::Value,
}

/// A node that is read.
#[derive(Clone, Debug)]
pub struct Input {
    /// Node id.
    pub id: String,
    /// Its cell.
    pub cell: BTreeMap<String, String>,
    /// Values on the axes that the reading stage lacks.
    pub extra: Vec<(String, String)>,
    /// Its key, when it is known.
    pub key: Option<Digest>,
    /// Its parts by name; none when it produced nothing.
    pub parts: Option<BTreeMap<String, PartRef>>,
    /// Its record, where that had to be read.
    pub record: Option<Arc<Record>>,
}

impl Input {
    /// Its record; none when it produced nothing.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn record(&self, store: &Store) -> Result<Option<Arc<Record>>, StoreError> {
        match (&self.record, &self.key, &self.parts) {
            (Some(record), ..) => Ok(Some(Arc::clone(record))),
            (None, Some(key), Some(_)) => Ok(store.hit(key)?.map(Arc::new)),
            _ => Ok(None),
        }
    }
}

/// What an execution produced.
pub struct Artifact {
    /// Parts by name.
    pub parts: Vec<(String, PartContent)>,
    /// Whether it can be reused.
    pub outcome: Outcome,
    /// Server states that were used, by the node that made them.
    pub used: BTreeMap<String, Digest>,
    /// What could not be confined.
    pub unconfined: Option<String>,
    /// What it cost in millionths of a dollar, where it says so.
    pub micros: Option<u64>,
}

/// Why an execution produced nothing.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// Kind of cause, for retries.
    pub cause: Cause,
    /// In words, naming the thing.
    pub message: String,
    /// What the program said.
    pub log: Vec<u8>,
}

/// What a failed attempt may have spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spent {
    /// Nothing was started.
    Nothing,
    /// It ran and ended; all that was set aside counts.
    Something,
    /// Nobody can tell any more.
    Unknown,
}

/// The message of a stage whose supervisor was killed.
const SUPERVISOR_GONE: &str = "the supervisor of the command was killed";
/// The message of a stage that was told to stop.
const CANCELLED: &str = "cancelled";

impl Failure {
    fn new(cause: Cause, message: impl Into<String>) -> Self {
        Self { cause, message: message.into(), log: Vec::new() }
    }

    /// A stage was told to stop, and did: no fault of the node's.
    #[must_use]
    pub fn cancelled() -> Self {
        Self::new(Cause::Signal, CANCELLED)
    }

    /// What a failed attempt of a paid stage may have spent.
    #[must_use]
    pub fn spent(&self) -> Spent {
        match self.cause {
            Cause::Spawn => Spent::Nothing,
            Cause::Signal if self.message == SUPERVISOR_GONE => Spent::Unknown,
            _ => Spent::Something,
        }
    }

    /// Whether it is [`Self::cancelled`].
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.cause == Cause::Signal && self.message == CANCELLED
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::new(Cause::Output, error.to_string())
    }
}

impl From<crate::fsio::FsError> for Failure {
    fn from(error: crate::fsio::FsError) -> Self {
        Self::new(Cause::Output, error.explain())
    }
}

impl Artifact {
    fn done(parts: Vec<(String, PartContent)>) -> Self {
        Self { parts, outcome: Outcome::Done, used: BTreeMap::new(), unconfined: None, micros: None }
    }
}

/// The planning half of a stage's kind.
#[must_use]
pub fn kind(work: &Work) -> &'static dyn Kind {
    match work {
        Work::Ingest => &ingest::Ingest,
        Work::Warmup => &warmup::Warmup,
        Work::Retrieval { .. } => &session::Retrieval,
        Work::Recorded => &recorded::Session,
        Work::Replies { .. } => &recorded::Replies,
        Work::Read { .. } => &read::Read,
        Work::Grade { .. } => &grade::Grade,
        Work::Aggregate => &aggregate::Aggregate,
        Work::Command(_) => &command::Command,
    }
}

/// Executes a node.
///
/// # Errors
/// When it can produce no artifact. What a server did wrong is no failure:
/// the artifact says it.
pub async fn run(job: Arc<Job>) -> Result<Artifact, Failure> {
    match &job.stage().work {
        Work::Ingest => ingest::run(&job).await,
        Work::Warmup => warmup::run(&job).await,
        Work::Retrieval { .. } => session::run(&job).await,
        Work::Command(_) => command::run(&job).await,
        Work::Recorded => blocking(job, recorded::run).await,
        Work::Replies { .. } => blocking(job, recorded::run_replies).await,
        Work::Read { .. } => blocking(job, read::run).await,
        Work::Grade { .. } => grade::run(job).await,
        Work::Aggregate => blocking(job, aggregate::run).await,
    }
}

/// Takes the artifact from the folder of an attempt that has ended without us.
///
/// # Errors
/// When it has none.
pub async fn adopt(job: Arc<Job>, end: crate::process::End) -> Result<Artifact, Failure> {
    let taken = tokio::task::spawn_blocking(move || command::adopt(&job, &end)).await;
    taken.unwrap_or_else(|e| Err(Failure::new(Cause::Signal, format!("the stage ended early: {e}"))))
}

async fn blocking(job: Arc<Job>, work: fn(&Job) -> Result<Artifact, Failure>) -> Result<Artifact, Failure> {
    tokio::task::spawn_blocking(move || work(&job))
        .await
        .unwrap_or_else(|e| Err(Failure::new(Cause::Signal, format!("the stage ended early: {e}"))))
}

impl Job {
    /// Whether processes may be left of it that only their mark tells of: a
    /// command's are ended by its supervisor, and most other stages start none.
    #[must_use]
    pub fn leaves_processes(&self) -> bool {
        matches!(self.stage().work, Work::Ingest | Work::Warmup | Work::Retrieval { .. })
    }

    fn stage(&self) -> &Stage {
        &self.pipeline.stages[self.stage]
    }

    fn arm(&self) -> Result<&Arm, Failure> {
        self.arm
            .map(|at| &self.pipeline.arms[at])
            .ok_or_else(|| Failure::new(Cause::Spawn, format!("stage `{}` has no arm", self.stage().name)))
    }

    fn corpus(&self) -> Result<&Corpus, Failure> {
        let repo = self.cell.get(axis::REPO).map(String::as_str).unwrap_or_default();
        self.corpora
            .get(repo)
            .ok_or_else(|| Failure::new(Cause::Spawn, format!("there is no corpus of `{repo}`")))
    }

    /// The single input of a kind.
    fn input(&self, kind: &str) -> Option<&Input> {
        self.stage().needs.iter().zip(&self.needs).find_map(|(need, inputs)| {
            let right = self.pipeline.stages[*need].kind() == kind;
            if right { inputs.first() } else { None }
        })
    }

    /// Bytes of a part of an input.
    fn part(&self, input: &Input, name: &str) -> Result<Vec<u8>, Failure> {
        let digest = input
            .parts
            .as_ref()
            .and_then(|parts| parts.get(name))
            .map(|part| part.digest)
            .ok_or_else(|| Failure::new(Cause::Output, format!("`{}` has no part `{name}`", input.id)))?;
        Ok(self.store.get(&digest)?)
    }

    fn json<T: serde::de::DeserializeOwned>(&self, input: &Input, name: &str) -> Result<T, Failure> {
        crate::artifact::from_json(&self.part(input, name)?).map_err(|e| unreadable(input, name, &e))
    }

    fn lines<T: serde::de::DeserializeOwned>(&self, input: &Input, name: &str) -> Result<Vec<T>, Failure> {
        crate::artifact::from_lines(&self.part(input, name)?).map_err(|e| unreadable(input, name, &e))
    }
}

fn unreadable(input: &Input, name: &str, error: &serde_json::Error) -> Failure {
    Failure::new(Cause::Output, format!("part `{name}` of `{}` can't be read: {error}", input.id))
}

/// The repository of a cell: that of its `repo`; without that axis, the one
/// whose question its `task` is.
fn repository<'a>(pipeline: &'a Compiled, cell: &BTreeMap<String, String>) -> Option<&'a Repository> {
    if let Some(repo) = cell.get(axis::REPO) {
        return pipeline.repos.get(repo);
    }
    let task = cell.get(axis::TASK)?;
    pipeline.repos.values().find(|repo| repo.questions.question.iter().any(|q| q.id == *task))
}

/// The questions of a cell: that of its `task`; else those of the pipeline's
/// `task` axis; else all of its repository. In order of their ids.
#[must_use]
pub fn questions<'a>(pipeline: &'a Compiled, cell: &BTreeMap<String, String>) -> Vec<&'a Question> {
    let Some(repository) = repository(pipeline, cell) else { return Vec::new() };
    let wanted: Option<Vec<&str>> = if let Some(task) = cell.get(axis::TASK) {
        Some(vec![task.as_str()])
    } else {
        pipeline.axes.iter().find(|a| a.name == axis::TASK).map(|tasks| {
            let repo = tasks.of.and_then(|of| {
                pipeline.axes[of].values.iter().position(|v| Some(&v.text) == cell.get(axis::REPO))
            });
            tasks
                .values
                .iter()
                .filter(|v| repo.is_none() || v.parent == repo)
                .map(|v| v.text.as_str())
                .collect()
        })
    };
    let mut out: Vec<&Question> = repository
        .questions
        .question
        .iter()
        .filter(|q| wanted.as_ref().is_none_or(|ids| ids.contains(&q.id.as_str())))
        .collect();
    out.sort_by(|a, b| a.id.cmp(&b.id));
    out
}
