//! What can be typed after `store`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::Json;

#[derive(Debug, Subcommand)]
pub(in crate::cli) enum StoreCommand {
    /// Check that everything is there and is what it says it is
    Verify(StoreVerify),
    /// Count what is in the store
    Stats(Json),
    /// Show what could be deleted; with --delete, delete it
    Gc(Gc),
    /// Write results of a run into one file
    Export(StoreExport),
    /// Take in results from such a file
    Import(StoreImport),
    /// Write results of a run into a remote: a folder, or `s3://BUCKET/PREFIX`
    Push(StorePush),
    /// Take in results from a remote
    Pull(StorePull),
    /// Show the public key that your results are signed with; made on first use
    Identity(StoreIdentity),
    /// List results from elsewhere that are not used, because nobody that is trusted signed them
    Untrusted(Json),
    /// Keep what a run or some of its nodes made, whatever gc deletes; without WHAT, list
    Pin(StorePin),
    /// Disown what was made under a key; without WHAT, list
    Quarantine(StoreQuarantine),
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct StoreVerify {
    /// Check presence and sizes only, not every digest
    #[arg(long)]
    pub(in crate::cli) quick: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Gc {
    /// Keep what the newest N runs name
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(in crate::cli) keep: usize,
    /// Delete, not only show
    #[arg(long)]
    pub(in crate::cli) delete: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

/// Which results leave the store, and who signs them.
#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct Leaving {
    /// Nodes: stage, stage[axis=value,...], globs in both [default: all of the run]
    #[arg(value_name = "SEL")]
    pub(in crate::cli) nodes: Vec<String>,
    /// Run id, a prefix of one, or `latest`
    #[arg(long, default_value = "latest")]
    pub(in crate::cli) run: String,
    /// File of your secret key [default: proofline/key in the configuration folder]
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) key: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct StoreExport {
    #[command(flatten)]
    pub(in crate::cli) leaving: Leaving,
    /// The file
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) to: PathBuf,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct StoreImport {
    /// The file
    pub(in crate::cli) file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct StorePush {
    /// A folder, or `s3://BUCKET/PREFIX` with the usual AWS_* variables
    pub(in crate::cli) remote: String,
    #[command(flatten)]
    pub(in crate::cli) leaving: Leaving,
    /// Longest time that a request may show no progress
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(in crate::cli) timeout: u64,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct StorePull {
    /// A folder, or `s3://BUCKET/PREFIX` with the usual AWS_* variables
    pub(in crate::cli) remote: String,
    /// Nodes: stage, stage[axis=value,...], globs in both [default: all that is there]
    #[arg(value_name = "SEL")]
    pub(in crate::cli) nodes: Vec<String>,
    /// Longest time that a request may show no progress
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub(in crate::cli) timeout: u64,
    /// Print one JSON object
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct StoreIdentity {
    /// File of your secret key [default: proofline/key in the configuration folder]
    #[arg(long, value_name = "FILE")]
    pub(in crate::cli) key: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct StorePin {
    /// A run (id, a prefix of one, `latest`), or nodes: stage, stage[axis=value,...], globs in both
    #[arg(value_name = "WHAT")]
    pub(in crate::cli) what: Option<String>,
    /// Run that the nodes are of: id, a prefix of one, or `latest`
    #[arg(long, default_value = "latest")]
    pub(in crate::cli) run: String,
    /// Take the pin away
    #[arg(long, requires = "what")]
    pub(in crate::cli) remove: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(in crate::cli) json: bool,
}

#[derive(Debug, ClapArgs)]
pub(in crate::cli) struct StoreQuarantine {
    /// A key, or a node of the run
    #[arg(value_name = "WHAT")]
    pub(in crate::cli) what: Option<String>,
    /// Why, in words; kept
    #[arg(long, value_name = "TEXT", conflicts_with = "undo", requires = "what")]
    pub(in crate::cli) reason: Option<String>,
    /// Own it again
    #[arg(long, requires = "what")]
    pub(in crate::cli) undo: bool,
    /// Run that the node is of: id, a prefix of one, or `latest`
    #[arg(long, default_value = "latest")]
    pub(in crate::cli) run: String,
    /// Disown what was paid for, too: the next run would buy it again
    #[arg(long)]
    pub(in crate::cli) yes: bool,
    /// Print one JSON object
    #[arg(long)]
    pub(in crate::cli) json: bool,
}
