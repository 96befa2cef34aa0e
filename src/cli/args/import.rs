//! What can be typed after `import`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum ImportCommand {
    /// Scenarios, rubrics, transcripts and judgements of the Sense benchmark
    Sense(ImportSense),
    /// Sessions of Claude Code: streams, JSON output, stored sessions
    Claude(ImportStreams),
    /// Sessions of Codex: streams and stored rollouts
    Codex(ImportStreams),
    /// Sessions of OpenCode: streams, exports, its storage
    Opencode(ImportStreams),
    /// Trajectories in the format ATIF
    Atif(ImportStreams),
    /// Repositories, questions, server configurations and results of the rag-bench family
    RagBench(ImportRagBench),
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct ImportSense {
    /// Folder of the benchmark, with `results` and `scenarios` in it
    pub(in crate::cli) path: PathBuf,
    /// Folder to write the manifests into; answers go into the store
    #[arg(long, value_name = "DIR", default_value = "imported/sense")]
    pub(in crate::cli) into: PathBuf,
    /// Write over files that are there with other content [default: nothing is written then]
    #[arg(long)]
    pub(in crate::cli) replace: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct ImportStreams {
    /// A session's file, or a folder of them
    pub(in crate::cli) path: PathBuf,
    /// Folder to write the recording into [default: imported/KIND]
    #[arg(long, value_name = "DIR")]
    pub(in crate::cli) into: Option<PathBuf>,
    /// Write over files that are there with other content [default: nothing is written then]
    #[arg(long)]
    pub(in crate::cli) replace: bool,
    /// Arm of all answers [default: the kind]
    #[arg(long)]
    pub(in crate::cli) arm: Option<String>,
    /// Task of all answers, a scenario or question [default: each file's name]
    #[arg(long)]
    pub(in crate::cli) task: Option<String>,
    /// Repository that they are about [default: the folder that the agent worked in]
    #[arg(long)]
    pub(in crate::cli) repo: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct ImportRagBench {
    /// Folder of the benchmark, its folder `datasets`, or one of its result files
    pub(in crate::cli) path: PathBuf,
    /// Folder to write into
    #[arg(long, value_name = "DIR", default_value = "imported/rag-bench")]
    pub(in crate::cli) into: PathBuf,
    /// Write over files that are there with other content [default: nothing is written then]
    #[arg(long)]
    pub(in crate::cli) replace: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(in crate::cli) json: bool,
}
