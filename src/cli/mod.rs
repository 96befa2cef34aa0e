//! The `proofline` program: arguments in, text and exit code out.
//!
//! One file per command. What commands share is in [`context`]; [`out`] is the
//! only place that prints, [`exit`] the only one that knows exit codes.

mod answers;
mod args;
mod check;
mod context;
mod datasets;
mod doctor;
mod exit;
mod import;
mod init;
mod inspect;
mod live;
mod lock;
mod out;
mod package;
mod plan;
mod probe;
mod progress;
pub mod render;
mod report;
mod run;
mod servers;
mod spend;
mod starter;
mod store;
mod trust;

use clap::Parser;

use args::{Args, Command, DatasetsCommand, ExportCommand, ImportCommand, ServersCommand, StoreCommand};
use out::Out;

use crate::artifact::transcript::Dialect;

/// Runs the program on the process's arguments; gives its exit code.
#[must_use]
pub fn main() -> u8 {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Help and version go to stdout and are no error.
            let code = u8::from(error.use_stderr());
            let _ = error.print();
            return code;
        }
    };
    let out = Out::new();
    match dispatch(args, &out) {
        Ok(code) => code,
        Err(error) => {
            let code = error.code();
            error.show(&out);
            code
        }
    }
}

fn dispatch(args: Args, out: &Out) -> Result<u8, exit::CliError> {
    let store = args.store.as_deref();
    match args.command {
        Command::Init(command) => init::init(&command, out),
        Command::Check(command) => check::check(&command, out),
        Command::Graph(command) => plan::graph(&command, out),
        Command::Schema(command) => check::schema(&command, out),
        Command::Plan(command) => plan::plan(&command, store, out),
        Command::Run(command) => run::run(&command, store, out),
        Command::Report(command) => report::report(&command, store, out),
        Command::Gate(command) => report::gate(&command, store, out),
        Command::Runs(command) => inspect::runs(&command, store, out),
        Command::Status(command) => inspect::status(&command, store, out),
        Command::Attach(command) => live::attach(&command, store, out),
        Command::Logs(command) => live::logs(&command, store, out),
        Command::Cancel(command) => live::cancel(&command, store, out),
        Command::Spend(command) => spend::spend(&command, store, out),
        Command::Settle(command) => spend::settle(&command, store, out),
        Command::Show(command) => inspect::show(&command, store, out),
        Command::Why(command) => plan::why(&command, store, out),
        Command::Replay(command) => run::replay(&command, store, out),
        Command::Servers { command } => match command {
            ServersCommand::Add(command) => servers::add(&command, store, out),
            ServersCommand::Probe(command) => servers::probe(&command, store, out),
            ServersCommand::List(command) => servers::list(&command, out),
        },
        Command::Datasets { command: DatasetsCommand::Verify(command) } => {
            datasets::verify(&command, store, out)
        }
        Command::Import { command: ImportCommand::RagBench(command) } => {
            import::rag_bench(&command, store, out)
        }
        Command::Import { command: ImportCommand::Sense(command) } => import::sense(&command, store, out),
        Command::Import { command: ImportCommand::Claude(command) } => {
            import::streams(&command, Dialect::Claude, store, out)
        }
        Command::Import { command: ImportCommand::Codex(command) } => {
            import::streams(&command, Dialect::Codex, store, out)
        }
        Command::Import { command: ImportCommand::Opencode(command) } => {
            import::streams(&command, Dialect::Opencode, store, out)
        }
        Command::Import { command: ImportCommand::Atif(command) } => {
            import::streams(&command, Dialect::Atif, store, out)
        }
        Command::Export { command: ExportCommand::Sense(command) } => {
            answers::export_sense(&command, store, out)
        }
        Command::Diff(command) => answers::diff(&command, store, out),
        Command::Explain(command) => answers::explain(&command, store, out),
        Command::Lock(command) => lock::lock(&command, out),
        Command::Doctor(command) => doctor::doctor(&command, store, out),
        Command::Trust(command) => trust::trust(&command, store, out),
        Command::Store { command } => match command {
            StoreCommand::Verify(command) => store::verify(&command, store, out),
            StoreCommand::Stats(command) => store::stats(&command, store, out),
            StoreCommand::Gc(command) => store::gc(&command, store, out),
            StoreCommand::Export(command) => store::export(&command, store, out),
            StoreCommand::Import(command) => store::import(&command, store, out),
            StoreCommand::Push(command) => store::push(&command, store, out),
            StoreCommand::Pull(command) => store::pull(&command, store, out),
            StoreCommand::Identity(command) => store::identity(&command, store, out),
            StoreCommand::Untrusted(command) => store::untrusted(&command, store, out),
            StoreCommand::Pin(command) => store::pin(&command, store, out),
            StoreCommand::Quarantine(command) => store::quarantine(&command, store, out),
        },
        Command::Mcp(command) => check::mcp(&command, out),
        Command::Supervise(command) => check::supervise(&command),
    }
}
