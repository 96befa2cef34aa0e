//! `pipelines/*.toml`: the wire form of a pipeline.

use std::collections::BTreeMap;

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names;
use super::templated::{OneOrMany, Templated};
use crate::unit::Span;

/// A pipeline: parameters, arms, axes, stages, and what is made of their results.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Pipeline {
    /// Version of this file format; 1.
    #[schemars(range(min = 1, max = 1))]
    pub format: u32,
    /// Name of the pipeline, a slug.
    #[schemars(regex(pattern = r"^[a-z0-9][a-z0-9_-]*$"), extend("x-words" = names::SLUG_WORDS))]
    pub name: String,
    /// The question that it answers, in one line.
    #[serde(default)]
    pub about: String,
    /// Another pipeline file that this one overlays; relative to this file.
    #[serde(default)]
    pub extends: Option<String>,
    /// Seed of every random order and sample.
    #[serde(default)]
    pub seed: u64,
    /// Changes every key: disowns all earlier results of this pipeline.
    #[serde(default)]
    pub salt: String,
    /// What a reader must know of the authors.
    #[serde(default)]
    pub disclosure: Disclosure,
    /// Parameters that `--set NAME=VALUE` may change.
    #[serde(default)]
    #[schemars(extend("propertyNames" = names::identifier()))]
    pub params: IndexMap<String, Param>,
    /// Arms: conditions of the experiment.
    #[serde(default)]
    #[schemars(extend("propertyNames" = names::slug()))]
    pub arm: IndexMap<String, Arm>,
    /// Recordings whose answers this pipeline takes: files of the project, globs allowed.
    #[serde(default)]
    pub recordings: Option<Templated<Vec<String>>>,
    /// Axes of the matrix, in order.
    #[serde(default)]
    pub axes: Axes,
    /// What paid stages may cost in all.
    #[serde(default)]
    pub budget: Budget,
    /// What to do about money that was or would be spent twice.
    #[serde(default)]
    pub paid: Paid,
    /// Named pools of slots that stages may share.
    #[serde(default)]
    #[schemars(extend("propertyNames" = names::slug()))]
    pub pools: IndexMap<String, Pool>,
    /// Stages by name.
    #[schemars(extend("minProperties" = 1, "propertyNames" = names::slug()))]
    pub stage: IndexMap<String, Stage>,
    /// Graders of the user's own: programs that score answers.
    #[serde(default)]
    #[schemars(extend("propertyNames" = names::slug()))]
    pub grader: IndexMap<String, Grader>,
    /// Named weighted sums over metrics.
    #[serde(default)]
    #[schemars(extend("propertyNames" = names::slug()))]
    pub composite: IndexMap<String, Composite>,
    /// Bounds that the result must keep, by `[ARM.]METRIC.value`.
    #[serde(default)]
    pub gate: IndexMap<String, Bound>,
    /// Shares above which an experiment is void.
    #[serde(default)]
    pub experiment: Experiment,
}

/// A program that scores answers: it reads `in/answer.json` and writes `grades.json`, in a working directory
/// of its own and without a network.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Grader {
    /// The program and its arguments; each stays one argument, no shell.
    #[schemars(length(min = 1))]
    pub run: Vec<String>,
    /// Project files and folders that it reads; globs allowed.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// Metrics that it gives, by name.
    #[schemars(extend("minProperties" = 1))]
    pub metrics: IndexMap<String, GraderMetric>,
    /// Longest time for one answer; default one minute.
    #[serde(default)]
    pub time: Option<Span>,
}

/// A metric of a user's grader. A value outside the bounds counts as none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct GraderMetric {
    /// Smallest value allowed; default 0.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// Largest value allowed; default 1.
    #[serde(default)]
    pub at_most: Option<f64>,
    /// Which layer it belongs to; default fairness.
    #[serde(default)]
    pub layer: MetricLayer,
}

/// Layer of a metric; composites stay inside one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MetricLayer {
    /// How good an answer is.
    #[default]
    Fairness,
    /// How much of the work the server did.
    Adoption,
}

/// What paid stages may cost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Budget {
    /// US dollars, over all runs of this pipeline in one store: nothing is begun that could pass it.
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub usd: Option<f64>,
}

/// What to do about money that was or would be spent twice.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Paid {
    /// Attempts that were lost, so that nobody can tell what they did; by kind of stage.
    #[serde(default)]
    pub unknown: UnknownSpend,
    /// Nodes whose earlier, paid answer was made from another recipe.
    #[serde(default)]
    pub respend: Respend,
}

/// What to do about lost attempts, by kind of stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct UnknownSpend {
    /// Of commands; default `wait`.
    #[serde(default)]
    pub command: Unknown,
}

/// What to do about a lost attempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unknown {
    /// The node waits for `proofline settle`; all others go on.
    #[default]
    Wait,
    /// It is bought again.
    Respend,
}

/// What to do about a node whose earlier, paid answer was made from another recipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Respend {
    /// It is not bought unless `run --respend` names it.
    #[default]
    Refuse,
    /// It is bought as long as the budget lasts.
    WithinBudget,
}

/// Who has an interest in the outcome.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Disclosure {
    /// Servers whose authors run this pipeline.
    #[serde(default)]
    pub authors_of: Vec<String>,
}

/// Rules that say when an experiment as a whole is void.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Experiment {
    /// Largest share of an arm's cells that may be invalid (0 to 1).
    #[serde(default = "ten_percent")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub max_invalid: f64,
}

impl Default for Experiment {
    fn default() -> Self {
        Self { max_invalid: ten_percent() }
    }
}

fn ten_percent() -> f64 {
    0.10
}

/// A parameter. Its type is that of its default.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Param {
    /// The value unless `--set` gives another: text, integer, number, boolean, or a list of texts.
    pub default: serde_json::Value,
    /// True when the parameter is a list; `--set` splits at commas.
    #[serde(default)]
    pub list: bool,
    /// Smallest number allowed.
    #[serde(default)]
    pub min: Option<f64>,
    /// Largest number allowed.
    #[serde(default)]
    pub max: Option<f64>,
    /// The only values allowed.
    #[serde(default)]
    pub choices: Option<Vec<serde_json::Value>>,
    /// What it is, in one line.
    #[serde(default)]
    pub about: String,
}

/// One arm, or with `over` one arm per entry (named by the entry).
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Arm {
    /// Makes one arm per entry of this list; `{{ item }}` is the entry.
    #[serde(default)]
    pub over: Option<Templated<Vec<String>>>,
    /// Server preset, by name or path; absent: an arm without a server.
    #[serde(default)]
    pub server: Option<String>,
    /// Label that tells two arms of equal content apart on purpose (A/A).
    #[serde(default)]
    pub draw: Option<String>,
    /// Whether a session's server has been warmed up (`warm`) or not (`cold`).
    #[serde(default)]
    pub start: Start,
}

/// State in which a session meets its server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Start {
    /// Warm-up questions are asked first and thrown away.
    #[default]
    Warm,
    /// The first question meets a server that has answered nothing yet.
    Cold,
}

/// The matrix: axes in the order in which they are written, and cells taken out.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Axes {
    /// The axes by name, in order.
    pub axes: IndexMap<String, Axis>,
    /// Cells that are not run: each entry names axis values that must all match.
    pub exclude: Vec<BTreeMap<String, String>>,
}

impl JsonSchema for Axes {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Axes".into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let questions = generator.subschema_for::<Questions>();
        let scenarios = generator.subschema_for::<Scenarios>();
        let recorded = generator.subschema_for::<Recorded>();
        let list = generator.subschema_for::<Templated<Vec<String>>>();
        let count = generator.subschema_for::<Templated<u32>>();
        schemars::json_schema!({
            "type": "object",
            "description": "axes of the matrix, in order; `exclude` takes cells out",
            "properties": {
                "exclude": {
                    "type": "array",
                    "items": { "type": "object", "additionalProperties": { "type": "string" } }
                }
            },
            "propertyNames": names::identifier(),
            "additionalProperties": {
                "description": "\"all\" (every arm), a list of values, { count = N }, { questions = REPO }, { scenarios = REPO } or { recorded = ARM }",
                "anyOf": [
                    { "const": "all", "type": "string" },
                    list,
                    {
                        "type": "object",
                        "properties": { "count": count },
                        "required": ["count"],
                        "additionalProperties": false
                    },
                    questions,
                    scenarios,
                    recorded
                ]
            }
        })
    }
}

/// One axis.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub enum Axis {
    /// The listed values, in order.
    Values(Templated<Vec<String>>),
    /// Every arm.
    Arms,
    /// `1` to `count`.
    Count(Templated<u32>),
    /// The questions of a repository's dataset; depends on the axis that the template names.
    Questions(Questions),
    /// The scenarios of a repository; depends on the axis that the template names.
    Scenarios(Scenarios),
    /// The recorded answers of an arm; depends on the axis that the template names.
    Recorded(Recorded),
}

/// Which scenarios an axis runs over: `scenarios/*.toml` of the project and those that ship.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenarios {
    /// The repository: a name, or `{{ repo }}` for the value of the axis `repo`.
    pub scenarios: String,
    /// Only these, by name.
    #[serde(default)]
    pub only: Vec<String>,
}

/// Which recorded answers an axis runs over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Recorded {
    /// `{{ arm }}`: the answers of each arm.
    pub recorded: String,
}

/// Which questions an axis runs over.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Questions {
    /// The repository: a name, or `{{ repo }}` for the value of the axis `repo`.
    pub questions: String,
    /// Keeps only questions whose fields are among these values, e.g. `{ kind = ["locate"] }`.
    #[serde(default, rename = "where")]
    pub keep: BTreeMap<String, OneOrMany>,
    /// Takes a seeded sample of this many; a larger sample contains the smaller.
    #[serde(default)]
    pub sample: Option<Templated<u32>>,
}

/// A pool of slots.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Pool {
    /// How many nodes of the pool may run at once.
    #[schemars(range(min = 1))]
    pub slots: u32,
    /// How many may start in a minute.
    #[serde(default)]
    #[schemars(range(min = 1))]
    pub per_minute: Option<u32>,
}

/// What a stage does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Starts the arm's server on the corpus and has it index.
    Ingest,
    /// Asks a server of its own the warm-up questions, to see what first calls cost.
    Warmup,
    /// Asks the questions.
    Session,
    /// Scores answers.
    Grade,
    /// Has answers judged by a rubric.
    Judge,
    /// Puts grades together: per arm, over replicates, into composites.
    Aggregate,
    /// Runs a program of the user's.
    Command,
}

/// How a stage may be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Same inputs, same bytes; may be run again freely.
    Pure,
    /// Its clock readings are results: runs alone on the machine.
    Measured,
    /// Costs money: never run twice by accident.
    Paid,
}

/// One stage. Which keys a stage may have depends on its `kind`.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Stage {
    /// What it does.
    pub kind: Kind,
    /// Stages whose artifacts it reads.
    #[serde(default)]
    pub needs: Vec<String>,
    /// Axes that it runs over; default: the union of its needs' axes, none for an aggregate.
    #[serde(default)]
    pub over: Option<Vec<String>>,
    /// Pool in which it takes a slot.
    #[serde(default)]
    pub pool: Option<String>,
    /// What to do when an attempt fails.
    #[serde(default)]
    pub retry: Option<Retry>,
    /// Bounds of one execution.
    #[serde(default)]
    pub limits: Limits,
    /// May a measured stage share the machine with others?
    #[serde(default)]
    pub share: bool,

    /// session: how the questions are asked; `retrieval` asks the server itself.
    #[serde(default)]
    pub driver: Option<Driver>,
    /// judge: who judges; `recorded` takes replies that exist already.
    #[serde(default)]
    pub judge: Option<Judge>,
    /// session: how many results are asked for.
    #[serde(default)]
    pub top: Option<Templated<u32>>,

    /// grade: the graders, e.g. `ranking`, `latency`, `resources`.
    #[serde(default)]
    pub graders: Vec<String>,
    /// grade: whose rules to follow; default `default`.
    #[serde(default)]
    pub profile: Option<Templated<Profile>>,

    /// command: the program and its arguments; each stays one argument, no shell.
    #[serde(default)]
    pub run: Vec<String>,
    /// command: project files and folders that it reads; globs allowed.
    #[serde(default)]
    pub inputs: Vec<String>,
    /// command: files that it must write, by name of the artifact's part.
    #[serde(default)]
    #[schemars(extend("propertyNames" = names::slug()))]
    pub outputs: IndexMap<String, Output>,
    /// command: the only environment it sees besides PATH, HOME, TMPDIR, `LC_CTYPE`.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// command: variables passed on by name when they are set; their values are never recorded.
    #[serde(default)]
    pub secrets: Vec<String>,
    /// command: how it may be repeated; default `pure`.
    #[serde(default)]
    pub effect: Option<Effect>,
    /// command: name of an output whose numbers become metrics: a JSON object of names and numbers.
    #[serde(default)]
    pub metrics: Option<String>,
    /// command: name of an output that says what it cost, `{"usd": 0.12}`; default: all that `limits.usd` allows.
    #[serde(default)]
    pub cost: Option<String>,
    /// command: may it use the network? default false.
    #[serde(default)]
    pub network: bool,
}

/// How a session asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// The harness asks the server itself, without an agent.
    Retrieval,
    /// Answers that exist already are taken from `recordings`.
    Recorded,
}

/// Who judges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Judge {
    /// Replies that exist already are taken from `recordings`.
    Recorded,
}

/// Whose scoring rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Ours.
    #[default]
    Default,
    /// Those of rag-bench, faults included.
    RagBench,
    /// Those of the Sense benchmark, faults included.
    Sense,
}

/// Bounds of one execution of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// Wall-clock time.
    #[serde(default)]
    pub time: Option<Span>,
    /// Cost in US dollars (paid stages).
    #[serde(default)]
    #[schemars(range(min = 0.0))]
    pub usd: Option<f64>,
}

/// What to do when an attempt fails.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Retry {
    /// Attempts in all, the first included.
    #[schemars(range(min = 1, max = 20))]
    pub attempts: u32,
    /// Causes after which another attempt is made; default: all.
    #[serde(default)]
    pub on: Vec<Cause>,
    /// Pause between attempts.
    #[serde(default)]
    pub backoff: Backoff,
}

/// Why an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The program could not be started.
    Spawn,
    /// It ended with a non-zero exit code.
    Exit,
    /// It was ended by a signal.
    Signal,
    /// It ran past its time limit.
    Timeout,
    /// A declared output is missing or fails its schema.
    Output,
    /// The provider asked to slow down.
    RateLimit,
    /// The provider was overloaded.
    Overloaded,
    /// The network failed.
    Network,
}

/// Pause between attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Backoff {
    /// One second, doubled after each attempt, at most a minute.
    #[default]
    Exponential,
    /// One second.
    Fixed,
    /// None.
    None,
}

/// A file that a command must write.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Output {
    /// Where it is written, relative to the command's working directory.
    pub path: String,
    /// JSON Schema file that it must satisfy; relative to the project.
    #[serde(default)]
    pub schema: Option<String>,
}

/// A named weighted sum over metrics of one layer; the weights sum to 1.
///
/// Keys are metric names, or a transform of one: `1/(1+calls)`.
pub type Composite = IndexMap<String, f64>;

/// A bound on a number of the result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Bound {
    /// The number must not be smaller.
    #[serde(default)]
    pub at_least: Option<f64>,
    /// The number must not be larger.
    #[serde(default)]
    pub at_most: Option<f64>,
}
