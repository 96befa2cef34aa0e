//! What can be typed.

mod import;
mod store;

use std::path::PathBuf;

pub(super) use import::*;
pub(super) use store::*;

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
    /// Put a pipeline of your own into this folder
    Init(Init),
    /// Check manifests, presets and datasets; show everything that is wrong at once
    Check(Check),
    /// Show which nodes would run and why; starts nothing
    Plan(Plan),
    /// Run what is not in the store yet, then report and evaluate the gates
    Run(Run),
    /// Show how far a run is
    Status(OneRun),
    /// Watch a run that another process does, until it ends; exits as it does
    Attach(Attach),
    /// Show what a node said: as it says it, or as it was kept
    Logs(Logs),
    /// Ask a run to stop: running nodes finish; asked again, they are ended
    Cancel(OneRun),
    /// Show what paid stages have cost, attempt by attempt
    Spend(Spend),
    /// Decide about a paid attempt that was lost
    Settle(Settle),
    /// List the runs of the store
    Runs(Json),
    /// Show a run's report
    Report(Report),
    /// Show how the grades of two runs differ: what flipped and why
    Diff(Diff),
    /// Show one answer with every check and citation, and what they rest on
    Explain(Explain),
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
    /// Add, try and list MCP servers
    Servers {
        #[command(subcommand)]
        command: ServersCommand,
    },
    /// Hold questions against the code that they are about
    Datasets {
        #[command(subcommand)]
        command: DatasetsCommand,
    },
    /// Turn another benchmark's files into ours
    Import {
        #[command(subcommand)]
        command: ImportCommand,
    },
    /// Write what a run found in another benchmark's format
    Export {
        #[command(subcommand)]
        command: ExportCommand,
    },
    /// Pin the installed servers of a pipeline in proofline.lock
    Lock(Lock),
    /// List the programs that the project's files name, and allow them
    Trust(Trust),
    /// Say what of this machine, this store and the server presets can be used, and why not
    Doctor(Doctor),
    /// Look after the store
    Store {
        #[command(subcommand)]
        command: StoreCommand,
    },
    /// Print the JSON Schemas of all kinds of files
    Schema(Schema),
    /// Serve a built-in engine over MCP on standard input and output
    Mcp(Mcp),
    #[command(name = "supervise", hide = true)]
    Supervise(Supervise),
}

/// A pipeline and its parameters.
#[derive(Debug, ClapArgs)]
pub(super) struct Pipeline {
    /// Pipeline file, or the name of a shipped one
    #[arg(default_value = "main")]
    pub(super) pipeline: String,
    /// Set a parameter (lists split at commas), or a repository's source: corpus.NAME=PATH|pypi:flask==3.1.0|git:URL@COMMIT
    #[arg(long = "set", value_name = "NAME=VALUE")]
    pub(super) sets: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Init {
    /// Take this code as the corpus, with starter questions made from its symbols [default: the shipped sample]
    #[arg(long, value_name = "PATH")]
    pub(super) repo: Option<PathBuf>,
    /// Name of the pipeline, and with --repo of the repository [default: the folder's name]
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum ServersCommand {
    /// Start a server once on the sample corpus, and write the preset that runs use
    #[command(after_help = ADD_HELP)]
    Add(ServersAdd),
    /// Start a server once on the sample corpus and show what is seen; writes nothing
    Probe(ServersProbe),
    /// List the project's presets and the shipped ones
    List(Json),
}

const ADD_HELP: &str = "\
COMMAND is started in a copy of the corpus. `{corpus}` in it becomes the path of that copy, `{state}` a
folder for the server's index, `{port}` a free port. Naming the command is the permission to start it.

  proofline servers add mine -- my-server --root {corpus}
  proofline servers add mine --env LOG=off --secret MY_KEY -- node server.js
  proofline servers add mine --url http://127.0.0.1:{port}/mcp -- my-server --port {port}";

#[derive(Debug, ClapArgs)]
pub(super) struct Tried {
    /// Tool that answers questions [default: detected]
    #[arg(long, value_name = "TOOL")]
    pub(super) query_tool: Option<String>,
    /// Tool that indexes the corpus, or `none` [default: detected]
    #[arg(long, value_name = "TOOL")]
    pub(super) ingest_tool: Option<String>,
    /// Variable that the server sees; it sees no others but PATH, HOME and the like
    #[arg(long = "env", value_name = "NAME=VALUE")]
    pub(super) env: Vec<String>,
    /// Variable of yours that is passed on by name; its value is recorded nowhere
    #[arg(long = "secret", value_name = "NAME")]
    pub(super) secrets: Vec<String>,
    /// Address of a server that speaks streamable HTTP
    #[arg(long, value_name = "URL")]
    pub(super) url: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ServersAdd {
    /// Name of the preset and of its row in reports
    pub(super) name: String,
    #[command(flatten)]
    pub(super) tried: Tried,
    /// The server's command
    #[arg(last = true, value_name = "COMMAND", required_unless_present = "url")]
    pub(super) command: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct ServersProbe {
    #[command(flatten)]
    pub(super) tried: Tried,
    /// Allow the programs that the preset names without asking
    #[arg(long)]
    pub(super) trust: bool,
    /// Name or file of a preset, or a program
    #[arg(value_name = "NAME", required_unless_present_any = ["url", "command"])]
    pub(super) target: Vec<String>,
    /// A server's command
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "target")]
    pub(super) command: Vec<String>,
}

#[derive(Debug, Subcommand)]
pub(super) enum DatasetsCommand {
    /// Check that files exist and that symbols are defined where questions claim it
    Verify(DatasetsVerify),
}

#[derive(Debug, ClapArgs)]
pub(super) struct DatasetsVerify {
    /// Folder with repos.toml and questions/ [default: the project's datasets/, else the shipped ones]
    pub(super) dir: Option<PathBuf>,
    /// Bring in corpora that are not here yet
    #[arg(long)]
    pub(super) fetch: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum ExportCommand {
    /// A `scored.json` per answer, in the format of the Sense benchmark
    Sense(ExportSense),
}

#[derive(Debug, ClapArgs)]
pub(super) struct ExportSense {
    /// Run id, a prefix of one, or `latest`; graded by profile `sense`
    #[arg(default_value = "latest")]
    pub(super) run: String,
    /// Folder to write into; each file at its answer's id
    #[arg(long, value_name = "DIR")]
    pub(super) to: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Diff {
    /// The earlier run: an id, a prefix of one, or `latest`
    pub(super) a: String,
    /// The later run
    #[arg(default_value = "latest")]
    pub(super) b: String,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Explain {
    /// Id of the answer, or a part of it that no other has
    pub(super) answer: String,
    /// Run id, a prefix of one, or `latest`
    #[arg(long, default_value = "latest")]
    pub(super) run: String,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Lock {
    #[command(flatten)]
    pub(super) pipeline: Pipeline,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Doctor {
    /// Presets to look at [default: the project's and the shipped ones]
    pub(super) names: Vec<String>,
    /// Start the servers that can be used, and list their tools
    #[arg(long)]
    pub(super) start: bool,
    /// Allow the programs that the project's presets name without asking
    #[arg(long)]
    pub(super) trust: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Check {
    /// Files to check [default: every manifest, preset, dataset, scenario and recording of the project]
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
    /// Spend at most this many US dollars in this run
    #[arg(long, value_name = "USD")]
    pub(super) max_usd: Option<f64>,
    /// Buy these paid nodes again although they have an answer, made from another recipe
    #[arg(long, value_name = "SEL")]
    pub(super) respend: Vec<String>,
    /// Let the earlier, paid answers of these nodes stand although their recipe has changed
    #[arg(long, value_name = "SEL", requires = "why")]
    pub(super) accept: Vec<String>,
    /// Why, for the records of what is accepted
    #[arg(long, value_name = "TEXT")]
    pub(super) why: Option<String>,
    /// Take over what another run works on when it gave no sign of life for so long; never what is paid for
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub(super) takeover: String,
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
pub(super) struct Attach {
    /// Run id, a prefix of one, or `latest`
    #[arg(default_value = "latest")]
    pub(super) run: String,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Logs {
    /// Node id, or the start of one
    pub(super) node: String,
    /// Run id, a prefix of one, or `latest`
    #[arg(long, default_value = "latest")]
    pub(super) run: String,
    /// Go on as long as the node runs
    #[arg(short, long)]
    pub(super) follow: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Spend {
    /// Name of a pipeline [default: all]
    pub(super) pipeline: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(super) struct Settle {
    /// Node id
    pub(super) node: String,
    /// adopt: take what it left, if it is whole; respend: buy it again; skip: leave the node out
    pub(super) decision: Decision,
    /// Why, for the ledger
    #[arg(long, value_name = "TEXT")]
    pub(super) why: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(super) json: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Decision {
    Adopt,
    Respend,
    Skip,
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
pub(super) struct Supervise {
    #[arg(long)]
    pub(super) network: bool,
}
