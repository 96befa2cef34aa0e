//! A pipeline after compilation: immutable, checked, without TOML.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use indexmap::IndexMap;
use serde_json::Value;

use crate::artifact::transcript::Dialect;
use crate::digest::{ContentHasher, Digest};
use crate::manifest::axis;
use crate::manifest::dataset::{Question, QuestionSet, Repo};
pub use crate::manifest::origin::Source;
use crate::manifest::pipeline::{
    Bound, Disclosure, Effect, Experiment, Grader, Kind, Limits, Output, Paid, Pool, Profile, Retry, Start,
};
use crate::manifest::recording::RecordedAnswer;
use crate::manifest::rubric::Rubric;
use crate::manifest::scenario;
use crate::manifest::server::Server;

/// A compiled pipeline.
#[derive(Clone, Debug)]
pub struct Compiled {
    /// Name of the pipeline.
    pub name: String,
    /// The question that it answers.
    pub about: String,
    /// Seed of every random order and sample.
    pub seed: u64,
    /// Salt of every key.
    pub salt: String,
    /// Who has an interest in the outcome.
    pub disclosure: Disclosure,
    /// What all runs may spend, in millionths of a dollar.
    pub budget: Option<u64>,
    /// What to do about money that was or would be spent twice.
    pub paid: Paid,
    /// Rules that say when the experiment is void.
    pub experiment: Experiment,
    /// Parameters with the values of this invocation.
    pub params: IndexMap<String, Value>,
    /// Arms in manifest order.
    pub arms: Vec<Arm>,
    /// Axes in manifest order.
    pub axes: Vec<Axis>,
    /// Cells taken out: axis name to value.
    pub exclude: Vec<BTreeMap<String, String>>,
    /// Pools by name.
    pub pools: IndexMap<String, Pool>,
    /// Stages, every one after those that it needs.
    pub stages: Vec<Stage>,
    /// Composites by name.
    pub composites: IndexMap<String, Vec<Term>>,
    /// Bounds, in manifest order.
    pub gates: Vec<Gate>,
    /// Repositories that the cells name, and those that recorded answers are about.
    pub repos: IndexMap<String, Repository>,
    /// Recorded answers by id, in the order of their recordings.
    pub answers: IndexMap<String, Answer>,
    /// Scenarios that cells or answers are about, by the path of their file.
    pub scenarios: IndexMap<String, Scenario>,
    /// The project's root: every relative path of a file is under it.
    pub root: std::path::PathBuf,
    /// The pipeline file as the user named it; of a shipped one `(shipped)/pipelines/NAME.toml`.
    pub path: String,
}

/// A repository and its questions.
#[derive(Clone, Debug)]
pub struct Repository {
    /// Name.
    pub name: String,
    /// Where its files come from, `--set corpus.NAME=` applied.
    pub source: Source,
    /// The entry of `repos.toml`.
    pub entry: Repo,
    /// Its questions; empty when it has no file of them. Where the pipeline has an axis of
    /// questions, only those that are on it.
    pub questions: QuestionSet,
}

/// A scenario and what its answers are judged by.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The scenario.
    pub task: scenario::Scenario,
    /// Its rubric, where it names one.
    pub rubric: Option<Rubric>,
}

/// An answer that exists already.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Name of its arm.
    pub arm: String,
    /// Its task: a scenario or a question.
    pub task: String,
    /// Which of several answers of the arm to the task, from 1.
    pub replicate: u32,
    /// Name of the repository that it is about.
    pub repo: String,
    /// The repository's files at the answer's commit, by a name in [`Compiled::repos`].
    pub corpus: Option<String>,
    /// What of its record could not be honoured when that corpus was chosen, in words.
    pub remark: Option<String>,
    /// Path of its scenario in [`Compiled::scenarios`].
    pub scenario: Option<String>,
    /// Its question, for a task that is one.
    pub question: Option<Question>,
    /// Model that answered.
    pub model: Option<String>,
    /// Agent and version.
    pub agent: Option<String>,
    /// Form of the transcript; none: found out.
    pub dialect: Option<Dialect>,
    /// The transcript, or one per step.
    pub transcripts: Vec<Bytes>,
    /// Replies of a judge.
    pub judgement: Option<Bytes>,
    /// What else is known of the session.
    pub facts: IndexMap<String, Value>,
    /// What every output calls it.
    pub label: String,
    /// Where it is from, for people.
    pub origin: Option<String>,
    /// The corpus's folder as the agent saw it.
    pub cwd: Option<String>,
}

impl Answer {
    /// The answer that a recording names, given where its bytes are.
    #[must_use]
    pub fn of(wire: RecordedAnswer, label: &str, transcripts: Vec<Bytes>, judgement: Option<Bytes>) -> Self {
        Self {
            arm: wire.arm,
            task: wire.task,
            replicate: wire.replicate,
            repo: wire.repo,
            corpus: None,
            remark: None,
            scenario: None,
            question: None,
            model: wire.model,
            agent: wire.agent,
            dialect: wire.dialect,
            transcripts,
            judgement,
            facts: wire.facts,
            label: label.to_owned(),
            origin: wire.origin,
            cwd: wire.cwd,
        }
    }
}

/// Where bytes are that a recording names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bytes {
    /// A file of the project, by its path there.
    File(String),
    /// A file that is compiled into the program, by its path there.
    Shipped(String),
    /// An object of the store.
    Object(Digest),
}

/// One condition of the experiment.
#[derive(Clone, Debug)]
pub struct Arm {
    /// Its name.
    pub name: String,
    /// Its server, or none.
    pub server: Option<Server>,
    /// Folder (absolute) that the preset's `inputs` are relative to: the project's root, the dataset
    /// folder or, for a file outside both, the file's own; none for a shipped preset.
    pub preset_dir: Option<std::path::PathBuf>,
    /// How a session meets the server.
    pub start: Start,
    /// Label that tells equal arms apart.
    pub draw: Option<String>,
    /// It was not declared: recorded answers name it.
    pub recorded: bool,
}

/// One axis and its values.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Name.
    pub name: String,
    /// Index of the axis that its values depend on.
    pub of: Option<usize>,
    /// Values in order, each with the index (into the parent's values) that it belongs to.
    pub values: Vec<AxisValue>,
}

/// A value of an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AxisValue {
    /// The value as text: an arm's name, a repository's, a task's id, a number.
    pub text: String,
    /// Index of the parent's value, for a dependent axis.
    pub parent: Option<usize>,
}

/// One stage.
#[derive(Clone, Debug)]
pub struct Stage {
    /// Name.
    pub name: String,
    /// What it does.
    pub work: Work,
    /// Indexes of the stages that it needs, in the order of the manifest. All but ingest, warmup
    /// and session read the `NAME.read` stage of a measured stage that the manifest names.
    pub needs: Vec<usize>,
    /// Indexes of its axes, ascending.
    pub axes: Vec<usize>,
    /// Name of its pool.
    pub pool: Option<String>,
    /// What to do when an attempt fails.
    pub retry: Option<Retry>,
    /// Bounds of one execution.
    pub limits: Limits,
    /// How it may be repeated.
    pub effect: Effect,
    /// May it run beside others although it is measured?
    pub share: bool,
}

/// What a stage does, with the settings of its kind.
#[derive(Clone, Debug)]
pub enum Work {
    /// Start the server on the corpus and have it index.
    Ingest,
    /// Ask warm-up questions of a server of its own.
    Warmup,
    /// Ask the questions.
    Retrieval {
        /// How many results are asked for.
        top: u32,
    },
    /// Take an answer that exists already.
    Recorded,
    /// Take a judge's replies that exist already.
    Replies {
        /// Whose rules of aggregation.
        profile: Profile,
    },
    /// Derive rows, states and facts from what a stage published that only keeps what came from outside.
    Read {
        /// The kind whose artifact it reads.
        of: Kind,
    },
    /// Score.
    Grade {
        /// Names of graders.
        graders: Vec<String>,
        /// Whose rules.
        profile: Profile,
        /// Those of them that are programs.
        programs: Vec<GraderProgram>,
    },
    /// Put grades together.
    Aggregate,
    /// Run a program.
    Command(Command),
}

/// A command stage. Texts may hold templates over axis values and parameters.
#[derive(Clone, Debug)]
pub struct Command {
    /// Program and arguments.
    pub run: Vec<String>,
    /// Project files and folders that it reads, globs allowed.
    pub inputs: Vec<String>,
    /// Files that it must write, by part name.
    pub outputs: IndexMap<String, Output>,
    /// Environment.
    pub env: BTreeMap<String, String>,
    /// Variables passed on by name.
    pub secrets: Vec<String>,
    /// Output whose numbers become metrics.
    pub metrics: Option<String>,
    /// Output that says what it cost.
    pub cost: Option<String>,
    /// May it use the network?
    pub network: bool,
}

/// A grader that is a program.
#[derive(Clone, Debug)]
pub struct GraderProgram {
    /// Name.
    pub name: String,
    /// The grader.
    pub grader: Grader,
}

/// A term of a composite.
#[derive(Clone, Debug, PartialEq)]
pub struct Term {
    /// Metric.
    pub metric: String,
    /// `true`: 1 / (1 + metric) is weighed, not the metric itself.
    pub inverse: bool,
    /// Weight.
    pub weight: f64,
}

/// A bound on a number of the result.
#[derive(Clone, Debug)]
pub struct Gate {
    /// The key as written, e.g. `bm25.hit@5.value`.
    pub key: String,
    /// Arm, in a pipeline with arms.
    pub arm: Option<String>,
    /// Metric or composite.
    pub metric: String,
    /// The bound.
    pub bound: Bound,
}

impl Compiled {
    /// Digest of everything that it holds but the name of its file, so that two pipelines
    /// of one digest have the same nodes and recipes.
    #[must_use]
    pub fn fingerprint(&self) -> Digest {
        let Self {
            name,
            about,
            seed,
            salt,
            disclosure,
            budget,
            paid,
            experiment,
            params,
            arms,
            axes,
            exclude,
            pools,
            stages,
            composites,
            gates,
            repos,
            answers,
            scenarios,
            root,
            // As the user named it: it is shown, and in no recipe.
            path: _,
        } = self;
        let mut sink = Sink(ContentHasher::default());
        // Every derived form names all of a type's fields and quotes its texts.
        let written = write!(
            sink,
            "{:?}",
            (
                (name, about, seed, salt, disclosure, experiment, params, arms),
                (budget, paid),
                (exclude, pools, stages, composites, gates, repos, root),
                (answers, scenarios)
            )
        );
        debug_assert!(written.is_ok(), "a hasher takes everything");
        // A matrix may have many thousand values.
        for axis in axes {
            let _ = write!(sink, "{:?}", (&axis.name, axis.of, axis.values.len()));
            for value in &axis.values {
                let parent = value.parent.map_or(u64::MAX, |at| at as u64);
                sink.0.update(&(value.text.len() as u64).to_le_bytes());
                sink.0.update(value.text.as_bytes());
                sink.0.update(&parent.to_le_bytes());
            }
        }
        sink.0.finish()
    }
}

/// Hashes what is written to it.
struct Sink(ContentHasher);

impl fmt::Write for Sink {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

impl Compiled {
    /// The recorded answer of a cell, with its id: that of its `answer`, else that of its arm,
    /// task and replicate.
    #[must_use]
    pub fn answer(&self, cell: &BTreeMap<String, String>) -> Option<(&str, &Answer)> {
        let value = |axis: &str| cell.get(axis).map(String::as_str);
        if let Some(id) = value(axis::ANSWER) {
            return self.answers.get_key_value(id).map(|(id, answer)| (id.as_str(), answer));
        }
        let (arm, task) = (value(axis::ARM)?, value(axis::TASK)?);
        let replicate: u32 = value(axis::REPLICATE).unwrap_or("1").parse().ok()?;
        let fits =
            |answer: &Answer| answer.arm == arm && answer.task == task && answer.replicate == replicate;
        self.answers.iter().find(|(_, answer)| fits(answer)).map(|(id, answer)| (id.as_str(), answer))
    }

    /// The scenario of a cell: its answer's, else that of its task.
    #[must_use]
    pub fn scenario(&self, cell: &BTreeMap<String, String>) -> Option<&Scenario> {
        if let Some((_, answer)) = self.answer(cell) {
            return self.scenarios.get(answer.scenario.as_deref()?);
        }
        self.scenarios.get(&format!("scenarios/{}.toml", cell.get(axis::TASK)?))
    }
}

impl Arm {
    /// What paths in the arm's preset are relative to, in a project at `root`.
    #[must_use]
    pub fn base<'a>(&'a self, root: &'a std::path::Path) -> &'a std::path::Path {
        self.preset_dir.as_deref().unwrap_or(root)
    }
}

impl Stage {
    /// The most that one execution may cost, in millionths of a dollar.
    #[must_use]
    pub fn most_micros(&self) -> u64 {
        self.limits.usd.map_or(0, micros)
    }

    /// The kind of the stage as manifests name it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self.work {
            Work::Ingest => "ingest",
            Work::Warmup => "warmup",
            Work::Retrieval { .. } | Work::Recorded => "session",
            Work::Replies { .. } => "judge",
            Work::Read { .. } => "read",
            Work::Grade { .. } => "grade",
            Work::Aggregate => "aggregate",
            Work::Command(_) => "command",
        }
    }
}

/// Millionths of a dollar; more than any budget for what is no sum of money.
#[must_use]
pub fn micros(usd: f64) -> u64 {
    let micros = (usd * 1e6).round();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked just before")]
    if micros.is_finite() && (0.0..9e15).contains(&micros) { micros as u64 } else { u64::MAX }
}
