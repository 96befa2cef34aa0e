//! Which programs a project's files may start.
//!
//! The answer is kept in the store, one program a line, so a project that is
//! copied without its store asks again.

use std::collections::BTreeSet;
use std::path::Path;

use super::args;
use super::context;
use super::exit::CliError;
use super::out::Out;
use crate::digest::Digest;
use crate::fsio::{self, Durability};
use crate::manifest::server::Server;
use crate::plan::compiled::{Compiled, Work};
use crate::stage::identity::script_of;

const FILE: &str = "trusted";

/// Programs other than proofline that the project's own files name: the first
/// word of a command, and with it a script of the project.
pub(super) fn programs(pipeline: &Compiled, shipped_pipeline: bool) -> BTreeSet<String> {
    let mut out = BTreeSet::new();
    for arm in &pipeline.arms {
        // A shipped preset is ours; who names it on the command line has chosen it.
        let (Some(preset), Some(_)) = (&arm.server, &arm.preset_dir) else { continue };
        out.extend(of_preset(preset, arm.base(&pipeline.root)));
    }
    if !shipped_pipeline {
        for stage in &pipeline.stages {
            match &stage.work {
                Work::Command(command) => out.extend(program(&command.run, &pipeline.root)),
                Work::Grade { programs, .. } => {
                    out.extend(programs.iter().filter_map(|p| program(&p.grader.run, &pipeline.root)));
                }
                _ => {}
            }
        }
    }
    out
}

/// Programs that a preset starts: its server and what is run before it.
pub(super) fn of_preset(preset: &Server, root: &Path) -> BTreeSet<String> {
    let steps = preset.pre_ingest.iter().map(|step| &step.run);
    [&preset.command].into_iter().chain(steps).filter_map(|words| program(words, root)).collect()
}

/// Characters of code in a command that are shown.
const CODE: usize = 100;

/// How a command is listed: its program, with the script of the project or
/// the code that it is given; none for proofline itself.
fn program(words: &[String], root: &Path) -> Option<String> {
    let first = words.first().filter(|first| *first != "{proofline}")?;
    let coded = words.iter().position(|word| matches!(word.as_str(), "-c" | "-e" | "-lc"));
    if let Some(code) = coded.and_then(|at| words.get(at + 1)) {
        // One line, and its digest where the line doesn't say all: another code is another answer.
        let line = code.split_whitespace().collect::<Vec<_>>().join(" ");
        let shown: String = line.chars().take(CODE).collect();
        let rest = if shown == *code {
            String::new()
        } else {
            format!("... ({})", Digest::of(code.as_bytes()).short())
        };
        return Some(format!("{first} -c {shown}{rest}"));
    }
    let script = script_of(words, root).map(|at| &words[at]);
    Some(script.map_or_else(|| first.clone(), |script| format!("{first} {script}")))
}

fn known(store: &Path) -> BTreeSet<String> {
    let text = fsio::read_limited(&store.join(FILE), 1 << 20).unwrap_or_default();
    String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
}

/// Allows programs for this store.
pub(super) fn allow(store: &Path, programs: &BTreeSet<String>) -> Result<(), CliError> {
    let mut all = known(store);
    all.extend(programs.iter().cloned());
    let text = all.into_iter().fold(String::new(), |text, line| text + &line + "\n");
    fsio::write_atomic(&store.join(FILE), text.as_bytes(), Durability::Synced)?;
    Ok(())
}

/// Asks once for programs that are not allowed yet.
pub(super) fn ensure(pipeline: &Compiled, store: &Path, yes: bool, out: &Out) -> Result<(), CliError> {
    ensure_all(&programs(pipeline, is_shipped(pipeline)), store, yes, out)
}

/// Asks once for those of the programs that are not allowed yet.
pub(super) fn ensure_all(
    programs: &BTreeSet<String>,
    store: &Path,
    yes: bool,
    out: &Out,
) -> Result<(), CliError> {
    let trusted = known(store);
    let fresh: BTreeSet<String> = programs.iter().filter(|p| !trusted.contains(*p)).cloned().collect();
    if fresh.is_empty() {
        return Ok(());
    }
    let list = fresh.iter().fold(String::new(), |text, program| text + "\n  " + program);
    if yes || out.ask(&format!("The project's files name programs that will be started:{list}\nAllow them?"))
    {
        return allow(store, &fresh);
    }
    Err(CliError::Usage(format!(
        "the project's files name programs that are not allowed yet:{list}\nread them, then say `--trust` (or `proofline trust --yes`)"
    )))
}

/// Whether the pipeline's file is compiled into the program and not on disk.
fn is_shipped(pipeline: &Compiled) -> bool {
    let on_disk = context::cwd().is_ok_and(|cwd| cwd.join(&pipeline.path).is_file());
    !on_disk && !pipeline.root.join(&pipeline.path).is_file()
}

pub(super) fn trust(command: &args::Trust, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let pipeline = context::compiled(&command.pipeline, false, out)?;
    let dir = context::store_dir(store, &pipeline.root);
    let trusted = known(&dir);
    let named = programs(&pipeline, is_shipped(&pipeline));
    for program in &named {
        let mark = if trusted.contains(program) { "allowed" } else { "not allowed" };
        out.data(&format!("{mark}\t{program}\n"));
    }
    if command.yes {
        drop(crate::store::Store::open(&dir)?);
        allow(&dir, &named)?;
    }
    Ok(0)
}
