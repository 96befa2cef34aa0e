//! What can be typed.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

const HELP: &str = "\
Start here:
  proofline run quickstart          compare grep, BM25 and symbols on the embedded corpus, offline
  proofline init                    put a pipeline of your own into this folder
  proofline servers add mine -- CMD add your MCP server, then: proofline run

Exit codes: 0 ok, 1 usage or manifest, 2 a gate failed, 3 infrastructure errors remain,
4 incomplete, 5 the experiment is invalid.";

/// Settles, with evidence, whether a code-intelligence MCP server makes a coding agent better or grep is enough.
#[derive(Debug, Parser)]
#[command(name = "proofline", version, about, after_help = HELP, disable_help_subcommand = true)]
pub(super) struct Args {
    /// Folder of the store [default: .proofline in the nearest parent that has one, else in the project's root]
    #[arg(long, global = true, value_name = "DIR")]
    pub(super) store: Option<PathBuf>,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Check manifests, presets and datasets; show everything that is wrong at once
    Check(Check),
    /// Show which nodes would run and why; starts nothing
    Plan(Plan),
    /// Run what is not in the store yet, then report and evaluate the gates
    Run(Run),
    /// Show how far a run is
    Status(OneRun),
    /// List the runs of the store
    Runs(Json),
    /// Show a run's report
    Report(Report),
    /// Evaluate a run's gates again
    Gate(OneRun),
    /// Say why a node would run, or what it is made of
    Why(Why),
    /// Show a node of a run: record, recipe, parts
    Show(Show),
    /// Execute nodes again from their stored inputs
    Replay(Replay),
    /// Draw the stages and how they need each other
    Graph(Graph),
    /// List the programs that the project's files name, and allow them
    Trust(Trust),
    /// Look after the store
    Store {
        #[command(subcommand)]
        command: StoreCommand,
    },
    /// Print the JSON Schemas of all kinds of files
    Schema(Schema),
    /// Serve a built-in engine over MCP on standard input and output
    Mcp(Mcp),
    #[command(name = "confined", hide = true)]
    Confined(Confined),
}

/// A pipeline and its parameters.
#[derive(Debug, ClapArgs)]
pub(super) struct Pipeline {
    /// Pipeline file, or the name of a shipped one
    #[arg(default_value = "pipelines/main.toml")]
    pub(super) pipeline: String,
    /// Set a parameter (lists split at commas), or a repository's source: corpus.NAME=PATH|pypi:flask==3.1.0|git:URL@COMMIT
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(super) sets: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Check {
    /// Files to check [default: every manifest, preset and dataset of the project]
    pub(super) files: Vec<PathBuf>,
    /// Set parameters while checking a pipeline
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(super) sets: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Plan {
    #[command(flatten)]
    pub(super) pipeline: Pipeline,
    /// Only these nodes and what they need: stage, stage[axis=value,...], +SEL, SEL+
    #[arg(long, value_name = "SEL")]
    pub(super) only: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Run {
    #[command(flatten)]
    pub(super) pipeline: Pipeline,
    /// Only these nodes and what they need: stage, stage[axis=value,...], +SEL, SEL+
    #[arg(long, value_name = "SEL")]
    pub(super) only: Vec<String>,
    /// Go on with independent nodes after one has failed
    #[arg(long)]
    pub(super) keep_going: bool,
    /// Nodes to run at once; measured ones run alone all the same [default: number of processors]
    #[arg(long, value_name = "N")]
    pub(super) jobs: Option<usize>,
    /// Use no network for corpora
    #[arg(long)]
    pub(super) offline: bool,
    /// Refuse servers that the lock file doesn't name
    #[arg(long)]
    pub(super) locked: bool,
    /// Exit 0 although cells are in error
    #[arg(long)]
    pub(super) allow_errors: bool,
    /// Allow the programs that the project's files name without asking
    #[arg(long)]
    pub(super) trust: bool,
    /// Print one JSON object instead of the report
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct OneRun {
    /// Run id, a prefix of one, or `latest`
    #[arg(default_value = "latest")]
    pub(super) run: String,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Json {
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Report {
    /// Run id, a prefix of one, or `latest`
    #[arg(default_value = "latest")]
    pub(super) run: String,
    /// Print {"result", "run"} as JSON
    #[arg(long, conflicts_with_all = ["markdown", "rows"])]
    pub(super) json: bool,
    /// Print Markdown
    #[arg(long, conflicts_with = "rows")]
    pub(super) markdown: bool,
    /// Print one JSON line per arm, repository, task and replicate
    #[arg(long)]
    pub(super) rows: bool,
    /// Only what two honest executions share: measured numbers are replaced by their n
    #[arg(long)]
    pub(super) stable: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Why {
    /// Node: stage, stage[axis=value,...]
    pub(super) node: String,
    #[command(flatten)]
    pub(super) pipeline: Pipeline,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Show {
    /// Node id, or the start of one
    pub(super) node: String,
    /// Run id, a prefix of one, or `latest`
    #[arg(long, default_value = "latest")]
    pub(super) run: String,
    /// Print the bytes of this part (`recipe` for the recipe)
    #[arg(long, value_name = "NAME")]
    pub(super) part: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Replay {
    /// Nodes: stage, stage[axis=value,...]
    pub(super) node: String,
    #[command(flatten)]
    pub(super) pipeline: Pipeline,
    /// Compare the new bytes with the stored ones and name a pure stage that lied
    #[arg(long)]
    pub(super) verify: bool,
    /// Allow the programs that the project's files name without asking
    #[arg(long)]
    pub(super) trust: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Graph {
    #[command(flatten)]
    pub(super) pipeline: Pipeline,
    /// Language of the drawing
    #[arg(long, value_enum, default_value = "mermaid")]
    pub(super) format: GraphFormat,
    /// Draw every node, not every stage
    #[arg(long)]
    pub(super) nodes: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum GraphFormat {
    Mermaid,
    Dot,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Trust {
    #[command(flatten)]
    pub(super) pipeline: Pipeline,
    /// Allow them; without, they are only listed
    #[arg(long)]
    pub(super) yes: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum StoreCommand {
    /// Check that everything is there and is what it says it is
    Verify(StoreVerify),
    /// Count what is in the store
    Stats(Json),
    /// Show what could be deleted; with --delete, delete it
    Gc(Gc),
}

#[derive(Debug, ClapArgs)]
pub(super) struct StoreVerify {
    /// Check presence and sizes only, not every digest
    #[arg(long)]
    pub(super) quick: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Gc {
    /// Keep what the newest N runs name
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(super) keep: usize,
    /// Delete, not only show
    #[arg(long)]
    pub(super) delete: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Schema {
    /// One of them by name, e.g. `pipeline`
    pub(super) name: Option<String>,
    /// Write all of them into this folder
    #[arg(long, value_name = "DIR")]
    pub(super) into: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Mcp {
    /// grep, bm25, symbols, hybrid or embed
    #[arg(long)]
    pub(super) engine: String,
    /// Profile of the engine, e.g. `reference` for bm25
    #[arg(long)]
    pub(super) profile: Option<String>,
    /// Folder with token embeddings, for embed
    #[arg(long, value_name = "DIR")]
    pub(super) weights: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Confined {
    #[arg(long)]
    pub(super) json: String,
    #[arg(last = true)]
    pub(super) argv: Vec<String>,
}
