//! `store export`, `import`, `push`, `pull`, `identity`, `untrusted`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use super::nodes;
use crate::cli::args;
use crate::cli::context;
use crate::cli::exit::{CliError, INFRASTRUCTURE};
use crate::cli::out::Out;
use crate::plan::select::fits;
use crate::process;
use crate::remote;
use crate::report::assemble::cell_of;
use crate::store::moving::{Leaving, Limits, MoveError, Moved};
use crate::store::sign::{PublicKey, Signer};
use crate::store::{Record, Store};

/// Refusals that a person is shown.
const SHOWN: usize = 20;

/// The file of the user's secret key.
fn key_file(asked: Option<&Path>) -> Result<PathBuf, CliError> {
    if let Some(path) = asked {
        return Ok(path.to_owned());
    }
    let folder = |name: &str| process::secret(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let config = folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")));
    config.map(|config| config.join("proofline").join("key")).ok_or_else(|| {
        CliError::Usage(
            "neither XDG_CONFIG_HOME nor HOME is set; name the file of your key with --key".to_owned(),
        )
    })
}

/// The user's key, which never lies in a store: a copy of the folder would give it away.
fn signer(asked: Option<&Path>, store: &Path) -> Result<Signer, CliError> {
    let path = key_file(asked)?;
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let absolute = std::path::absolute(&path).unwrap_or_else(|_| path.clone());
    let parent = real(absolute.parent().unwrap_or(Path::new("/")));
    if parent.starts_with(real(store)) {
        return Err(CliError::Usage(format!(
            "the key `{}` would lie in the store, and go along with every copy of it; choose another place",
            path.display()
        )));
    }
    Ok(Signer::open(&path)?)
}

pub(in crate::cli) fn identity(
    command: &args::StoreIdentity,
    store: Option<&Path>,
    out: &Out,
) -> Result<u8, CliError> {
    let dir = context::store_dir(store, &context::cwd()?);
    let signer = signer(command.key.as_deref(), &dir)?;
    let public = signer.public().to_string();
    if command.json {
        let file = key_file(command.key.as_deref())?;
        out.json(&json!({ "key": public, "file": file }));
    } else {
        out.data(&format!("{public}\n"));
        out.say(&format!("whoever wants to use your results puts this into {}:\n", context::TRUST));
        out.say(&entry(&public, "NAME"));
    }
    Ok(0)
}

/// The lines of `trust.toml` for a key.
fn entry(key: &str, name: &str) -> String {
    format!("[signer.{name}]\nkey = \"{key}\"\n")
}

/// What a command is about to move, ready to leave.
fn leaving(command: &args::Leaving, store: &Store) -> Result<Vec<Leaving>, CliError> {
    let (_, nodes) = nodes(store, &command.run, &command.nodes)?;
    let signer = signer(command.key.as_deref(), store.root())?;
    let records: Vec<Record> = nodes.into_iter().map(|node| node.record).collect();
    Ok(store.leaving(&records, &signer)?)
}

/// Shows how far a move is, on a terminal.
fn bar(out: &Out, json: bool, word: &'static str) -> ProgressBar {
    if json || !out.people_tty {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{prefix} {pos}/{len} ({elapsed})");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar.set_prefix(word);
    bar
}

/// A closure that moves a bar; an unknown end is shown as what has been done.
fn step(bar: &ProgressBar) -> impl Fn(u64, u64) + Sync + use<> {
    let bar = bar.clone();
    move |done, of| {
        bar.set_length(of.max(done));
        bar.set_position(done);
    }
}

pub(in crate::cli) fn export(
    command: &args::StoreExport,
    store: Option<&Path>,
    out: &Out,
) -> Result<u8, CliError> {
    let json = command.leaving.json;
    let store = context::existing(store)?;
    let leaving = leaving(&command.leaving, &store)?;
    let bar = bar(out, json, "writing");
    let moved = store.export(&leaving, &command.to, &step(&bar));
    bar.finish_and_clear();
    tell(moved, "wrote", &command.to.display().to_string(), &BTreeMap::new(), json, out)
}

pub(in crate::cli) fn import(
    command: &args::StoreImport,
    store: Option<&Path>,
    out: &Out,
) -> Result<u8, CliError> {
    if !command.file.is_file() {
        return Err(CliError::Usage(format!("`{}` is no file", command.file.display())));
    }
    let store = context::taking(store, command.json)?;
    let bar = bar(out, command.json, "reading");
    let moved = store.import(&command.file, Limits::default(), &step(&bar));
    bar.finish_and_clear();
    tell(moved, "took in", &command.file.display().to_string(), &names(command.json)?, command.json, out)
}

/// Opens a remote as typed, with the variables of the environment.
fn remote(address: &str, seconds: u64) -> Result<Box<dyn remote::Remote>, CliError> {
    Ok(remote::open(address, &process::secret, Duration::from_secs(seconds)).map_err(MoveError::from)?)
}

pub(in crate::cli) fn push(
    command: &args::StorePush,
    store: Option<&Path>,
    out: &Out,
) -> Result<u8, CliError> {
    let json = command.leaving.json;
    let store = context::existing(store)?;
    let remote = remote(&command.remote, command.timeout)?;
    let leaving = leaving(&command.leaving, &store)?;
    let bar = bar(out, json, "pushing");
    let moved = store.push(&leaving, remote.as_ref(), &step(&bar));
    bar.finish_and_clear();
    tell(moved, "pushed to", &command.remote, &BTreeMap::new(), json, out)
}

pub(in crate::cli) fn pull(
    command: &args::StorePull,
    store: Option<&Path>,
    out: &Out,
) -> Result<u8, CliError> {
    let remote = remote(&command.remote, command.timeout)?;
    for selector in &command.nodes {
        fits(selector, "", &BTreeMap::new())?;
    }
    let wanted = |record: &Record| {
        let stage = record.node.split('[').next().unwrap_or_default();
        let cell = cell_of(&record.node);
        command.nodes.is_empty()
            || command.nodes.iter().any(|selector| fits(selector, stage, &cell) == Ok(true))
    };
    let store = context::taking(store, command.json)?;
    let bar = bar(out, command.json, "pulling");
    let moved = store.pull(remote.as_ref(), Limits::default(), &wanted, &step(&bar));
    bar.finish_and_clear();
    tell(moved, "pulled from", &command.remote, &names(command.json)?, command.json, out)
}

fn names(json: bool) -> Result<BTreeMap<PublicKey, String>, CliError> {
    context::trusted(&context::project()?.root, json)
}

/// Says what was moved; the exit code.
fn tell(
    moved: Result<Moved, MoveError>,
    word: &str,
    place: &str,
    trusted: &BTreeMap<PublicKey, String>,
    json: bool,
    out: &Out,
) -> Result<u8, CliError> {
    let moved = match moved {
        // One object is promised, also when nothing at all was taken.
        Err(MoveError::Refused { what, why }) if json => {
            let mut moved = Moved::default();
            moved.refuse(what, why);
            moved
        }
        other => other?,
    };
    let exit = if moved.refusals == 0 { 0 } else { INFRASTRUCTURE };
    if json {
        let mut object = json!(moved);
        object["exit"] = json!(exit);
        out.json(&object);
        return Ok(exit);
    }
    out.data(&format!(
        "{word} {place}: {} objects and {} records ({} bytes), {} were there already\n",
        moved.objects, moved.records, moved.bytes, moved.skipped
    ));
    for note in &moved.notes {
        out.say(&format!("note: {note}"));
    }
    for one in &moved.untrusted {
        match &one.signer {
            None => out
                .say(&format!("{} record(s) are signed by nobody: they are kept and not used", one.records)),
            Some(key) => {
                out.say(&format!(
                    "{} record(s) are signed by a key that is not in {}: they are kept and not used. If you trust it, add\n",
                    one.records,
                    context::TRUST
                ));
                let head = if trusted.is_empty() { "format = 1\n\n" } else { "" };
                out.say(&format!("{head}{}", entry(key, "NAME")));
            }
        }
    }
    for one in moved.refused.iter().take(SHOWN) {
        out.say(&format!("refused: {}: {}", one.what, one.why));
    }
    if moved.refusals > SHOWN as u64 {
        out.say(&format!("... and {} more", moved.refusals - SHOWN as u64));
    }
    Ok(exit)
}

pub(in crate::cli) fn untrusted(
    command: &args::Json,
    store: Option<&Path>,
    out: &Out,
) -> Result<u8, CliError> {
    drop(context::existing(store)?);
    let store = context::taking(store, command.json)?;
    let list = store.untrusted()?;
    let why = |signer: &Option<PublicKey>| match signer {
        None => "signed by nobody".to_owned(),
        Some(key) => format!("signed by {key}, which is not in {}", context::TRUST),
    };
    if command.json {
        let records: Vec<Value> = list
            .iter()
            .map(|one| {
                json!({
                    "node": one.record.node, "pipeline": one.record.pipeline, "key": one.record.key,
                    "record": one.digest, "origin": one.record.origin,
                    "signer": one.signer.map(|key| key.to_string()), "why": why(&one.signer)
                })
            })
            .collect();
        out.json(&json!({ "untrusted": records }));
        return Ok(0);
    }
    for one in &list {
        out.data(&format!("{} of {}: {}\n", one.record.node, one.record.pipeline, why(&one.signer)));
    }
    if list.is_empty() {
        out.say("there are none");
    }
    Ok(0)
}
