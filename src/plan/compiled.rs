//! A pipeline after compilation: immutable, checked, without TOML.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use indexmap::IndexMap;
use serde_json::Value;

use crate::digest::{ContentHasher, Digest};
use crate::manifest::dataset::{QuestionSet, Repo};
pub use crate::manifest::origin::Source;
use crate::manifest::pipeline::{
    Bound, Disclosure, Effect, Experiment, Kind, Limits, Output, Paid, Pool, Profile, Retry, Start,
};
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
    /// Repositories that the cells name.
    pub repos: IndexMap<String, Repository>,
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
    /// Derive rows, states and facts from what `Ingest`, `Warmup` or `Retrieval` published.
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
                (exclude, pools, stages, composites, gates, repos, root)
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
            Work::Retrieval { .. } => "session",
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
