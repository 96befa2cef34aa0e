//! `doctor`: what can be used here, and why something can't.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::args;
use super::context;
use super::exit::{CliError, INFRASTRUCTURE};
use super::lock;
use super::out::Out;
use super::probe::{self, Trial};
use super::servers::{self, PRESETS};
use super::trust;
use crate::clock::{Clock, rfc3339};
use crate::fsio::{self, Durability, Scratch};
use crate::manifest::project::{Origin, Project};
use crate::manifest::server::{Registry, Server, Transport};
use crate::process::{self, Confine, Order, Spec, Supervisors};
use crate::stage::identity;
use crate::store::Store;

/// Longest time of a tool that only says its version.
const SAYS: Duration = Duration::from_secs(20);
/// Less free space than this is too little for indexes and corpora, in MiB.
const LITTLE: u64 = 2048;
/// No sound clock is before this: 2026-01-01, in milliseconds.
const BEFORE: i64 = 1_767_225_600_000;
/// The clock and the file system may differ by so much, in milliseconds.
const SKEW: i64 = 5_000;

/// One thing that was looked at.
struct Check {
    name: String,
    /// `ok`, `warn` or `fail`.
    state: &'static str,
    words: String,
}

pub(super) fn doctor(command: &args::Doctor, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let project = context::project()?;
    let dir = context::store_dir(store, &project.root);
    let mut checks = Vec::new();
    if command.names.is_empty() {
        checks.extend(machine(&dir)?);
        checks.push(health(&dir));
    }
    let names: Vec<String> = if command.names.is_empty() {
        project.names_in(PRESETS, &[]).into_iter().collect()
    } else {
        command.names.clone()
    };
    let mut rows = Vec::new();
    for name in &names {
        rows.push(row(command, &project, name, &dir, out)?);
    }
    let broken = checks.iter().any(|check| check.state == "fail");
    let unusable = rows.iter().any(|row| row["usable"] == false);
    let exit = if broken || unusable && !command.names.is_empty() { INFRASTRUCTURE } else { 0 };
    if command.json {
        let checks: Vec<Value> =
            checks.iter().map(|c| json!({ "name": c.name, "state": c.state, "words": c.words })).collect();
        out.json(&json!({ "checks": checks, "servers": rows, "exit": exit }));
        return Ok(exit);
    }
    for check in &checks {
        out.data(&format!("{:<5} {:<12} {}\n", check.state, check.name, check.words));
    }
    if !checks.is_empty() && !rows.is_empty() {
        out.data("\n");
    }
    let width = names.iter().map(String::len).max().unwrap_or(0);
    for row in &rows {
        let list = |key: &str| -> Vec<&str> {
            row[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
        };
        let state = if row["usable"] == true { "ok" } else { "no" };
        let mut words = list("why");
        words.extend(list("notes"));
        out.data(&format!(
            "{state:<5} {:<width$}  {}\n",
            row["name"].as_str().unwrap_or_default(),
            words.join("; ")
        ));
        if let Some(install) = row["install"].as_str() {
            out.data(&format!("      {:<width$}  {install}\n", ""));
        }
    }
    Ok(exit)
}

/// Whether a preset can be used here.
fn row(
    command: &args::Doctor,
    project: &Project,
    name: &str,
    dir: &Path,
    out: &Out,
) -> Result<Value, CliError> {
    let (found, preset) = match servers::named(project, name, command.json) {
        Ok(found) => found,
        Err(CliError::Diagnostics { .. }) => {
            let why = format!("its file is not valid: `proofline check {PRESETS}/{name}.toml`");
            return Ok(json!({ "name": name, "usable": false, "why": [why], "notes": [], "install": null }));
        }
        Err(other) => return Err(other),
    };
    let base = servers::root_of(project, &found);
    let looked = look(&preset, &base);
    let mut why = looked.why;
    let mut notes = looked.notes;
    if command.start && why.is_empty() && preset.transport != Transport::Builtin {
        if let Origin::Disk(_) = found.origin {
            trust::ensure_all(&trust::of_preset(&preset, &base), dir, command.trust, out)?;
        }
        let store = Store::open(dir)?;
        let trial = Trial { preset: &preset, root: base, query_tool: None, ingest_tool: None };
        match probe::greet(&trial, &store) {
            Ok((tools, ms)) => notes.push(format!("started in {ms:.0} ms, {tools} tool(s)")),
            Err(CliError::Infrastructure(words)) => why.push(words),
            Err(other) => return Err(other),
        }
    }
    Ok(json!({
        "name": preset.name, "usable": why.is_empty(), "why": why, "notes": notes, "install": looked.install
    }))
}

struct Looked {
    why: Vec<String>,
    notes: Vec<String>,
    install: Option<String>,
}

/// What a preset needs and what of it is there; starts nothing.
fn look(preset: &Server, base: &Path) -> Looked {
    let (mut why, mut notes) = (Vec::new(), Vec::new());
    let path = context::search_path();
    let mut missing_program = false;
    let mut seen = BTreeSet::new();
    let steps = preset.pre_ingest.iter().map(|step| &step.run);
    for words in [&preset.command].into_iter().chain(steps) {
        let Some(first) = words.first().filter(|first| !first.starts_with('{')) else { continue };
        if !seen.insert(first.clone()) || identity::file_of(first, base).is_some() && first.contains('/') {
            continue;
        }
        if process::find_program(first, &path, base).is_none() {
            why.push(format!("`{first}` is not on PATH"));
            missing_program = true;
        }
    }
    for name in &preset.secrets {
        if process::secret(name).is_none() {
            why.push(format!("the variable {name} is not set"));
        }
    }
    for (name, value) in &preset.env {
        if value.starts_with('/') && !Path::new(value).exists() {
            why.push(format!("{name} names `{value}`, which is not there"));
        }
    }
    for input in preset.inputs.iter().filter(|input| !input.contains('*')) {
        if !base.join(input).exists() {
            why.push(format!("its input `{input}` is not there"));
        }
    }
    if preset.command.is_empty() && preset.transport == Transport::Http {
        notes.push(format!("runs elsewhere: {}", preset.url.as_deref().unwrap_or_default()));
    }
    let wanted = identity::is_unlocked(preset, base, None);
    let mut other_version = false;
    if wanted
        && !missing_program
        && let Ok(found) = lock::installed(preset, base)
    {
        let known = found.registry != Registry::None && !found.version.is_empty();
        other_version = known && !preset.version.is_empty() && found.version != preset.version;
        if other_version {
            notes.push(format!(
                "{} {} is installed, the preset states {}",
                found.name, found.version, preset.version
            ));
        } else if known {
            notes.push(format!("{} {}", found.name, found.version));
        }
        notes.extend(found.note);
    }
    if why.is_empty() && notes.is_empty() {
        let built_in = preset.command.first().is_none_or(|first| first.starts_with('{'));
        let words = match (wanted, built_in) {
            (true, _) => "installed",
            (false, true) => "part of proofline",
            (false, false) => "a program named by its path",
        };
        notes.push(words.to_owned());
    }
    let install = if missing_program || other_version { install(preset) } else { None };
    Looked { why, notes, install }
}

/// What would install a preset's program.
fn install(preset: &Server) -> Option<String> {
    let package = preset.package.as_ref()?;
    let (name, version) = (&package.name, &preset.version);
    if name.is_empty() {
        return None;
    }
    let at = |sign: &str| if version.is_empty() { String::new() } else { format!("{sign}{version}") };
    match package.registry {
        Registry::Pypi => Some(format!("pip install '{name}{}'", at("=="))),
        Registry::Npm => Some(format!("npm install -g '{name}{}'", at("@"))),
        Registry::Crate => Some(format!("cargo install {name}{}", at(" --version "))),
        Registry::None => None,
    }
}

/// The machine: confinement, tools, disk, clock.
fn machine(dir: &Path) -> Result<Vec<Check>, CliError> {
    let scratch = Scratch::new_in(&std::env::temp_dir())?;
    let here = scratch.path().to_owned();
    let exe = context::exe()?;
    let runtime = context::runtime()?;
    let said = |words: Vec<String>| -> Option<String> {
        // Tools that manage themselves look for their settings at home.
        let mut env = process::base_env(&here, &here);
        for name in ["HOME", "CARGO_HOME", "RUSTUP_HOME"] {
            env.extend(process::secret(name).map(|value| (name.to_owned(), value)));
        }
        let spec = Spec::new(words, here.clone(), env, "doctor");
        let said = runtime.block_on(process::capture(&spec, SAYS, 16 * 1024)).ok()?;
        said.exit.ok().then(|| String::from_utf8_lossy(&said.stdout).trim().to_owned())
    };
    let words = |list: &[&str]| list.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    let mut out = vec![check("machine", "ok", process::machine())];
    out.push(confinement(&here, &exe, &runtime));
    let tools: [(&str, &[&str], &str); 4] = [
        ("git", &["git", "--version"], "corpora from git addresses need it"),
        ("pip", &["python3", "-m", "pip", "--version"], "corpora and servers from PyPI need it"),
        ("npm", &["npm", "--version"], "corpora and servers from npm need it"),
        ("cargo", &["cargo", "--version"], "corpora and servers that are crates need it"),
    ];
    for (name, argv, need) in tools {
        out.push(match said(words(argv)) {
            Some(version) => check(name, "ok", version.lines().next().unwrap_or_default().to_owned()),
            None => check(name, "warn", format!("`{}` doesn't work: {need}", argv.join(" "))),
        });
    }
    let place = dir.ancestors().find(|folder| folder.is_dir()).unwrap_or(dir);
    let df = said(words(&["df", "-Pk", &place.to_string_lossy()]));
    let free =
        df.as_deref().and_then(|text| text.lines().nth(1)?.split_whitespace().nth(3)?.parse::<u64>().ok());
    out.push(match free.map(|kib| kib / 1024) {
        Some(mib) if mib >= LITTLE => check("disk", "ok", format!("{mib} MiB free for the store")),
        Some(mib) => check("disk", "warn", format!("only {mib} MiB free for the store")),
        None => check("disk", "warn", "free space is unknown".to_owned()),
    });
    out.push(clock(&here)?);
    runtime.shutdown_timeout(Duration::from_secs(1));
    Ok(out)
}

fn check(name: &str, state: &'static str, words: String) -> Check {
    Check { name: name.to_owned(), state, words }
}

/// Confines a program that does nothing and tells what the kernel enforced.
fn confinement(here: &Path, exe: &Path, runtime: &tokio::runtime::Runtime) -> Check {
    let order = Order {
        id: 0,
        argv: vec!["true".to_owned()],
        cwd: here.to_owned(),
        env: process::base_env(here, here),
        said: here.join("said"),
        confine: Confine { write: vec![here.to_owned()], ..Confine::default() },
        limit_ms: u64::try_from(SAYS.as_millis()).unwrap_or(u64::MAX),
        marker: "doctor".to_owned(),
        attempt: None,
    };
    let end = runtime.block_on(async { Supervisors::new(exe).run(order, &CancellationToken::new()).await });
    match end {
        Ok(end) if end.code == Some(0) && end.unconfined.is_empty() => check(
            "confinement",
            "ok",
            "command stages are kept to their files and off the network".to_owned(),
        ),
        Ok(end) if end.code == Some(0) => {
            let words = format!(
                "not enforced here: {}; such results are marked `unconfined`",
                end.unconfined.join(", ")
            );
            check("confinement", "warn", words)
        }
        _ => {
            check("confinement", "warn", "a confined program did not run; command stages may fail".to_owned())
        }
    }
}

fn clock(here: &Path) -> Result<Check, CliError> {
    let now = Clock::System.now_ms();
    if now < BEFORE {
        return Ok(check("clock", "fail", format!("the clock says {}, which is past", rfc3339(now))));
    }
    let file = here.join("clock");
    fsio::write_atomic(&file, b"x", Durability::Cached)?;
    let written = file
        .metadata()
        .and_then(|meta| meta.modified())
        .ok()
        .and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok())
        .and_then(|since| i64::try_from(since.as_millis()).ok());
    Ok(match written {
        Some(at) if (at - now).abs() > SKEW => {
            check("clock", "warn", format!("clock and file system differ by {} ms", (at - now).abs()))
        }
        _ => check("clock", "ok", rfc3339(now)),
    })
}

/// The store's health by presence and sizes.
fn health(dir: &Path) -> Check {
    match Store::open_existing(dir).map(|store| store.map(|store| store.verify(false))) {
        Ok(None) => check("store", "ok", "none yet; the first run makes it".to_owned()),
        Ok(Some(Ok(report))) if report.problems.is_empty() => {
            check("store", "ok", format!("{} objects, {} records", report.objects, report.records))
        }
        Ok(Some(Ok(report))) => check(
            "store",
            "fail",
            format!("{} problem(s); see `proofline store verify`", report.problems.len()),
        ),
        Ok(Some(Err(error))) | Err(error) => check("store", "fail", error.to_string()),
    }
}
