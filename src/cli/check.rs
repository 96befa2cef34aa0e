//! `check`, `schema`, `mcp`, and the hidden `confined`.

use std::path::{Path, PathBuf};

use super::args;
use super::context;
use super::exit::{CliError, USAGE};
use super::out::Out;
use super::render;
use crate::diag::{self, Diagnostic};
use crate::fsio::{self, Durability};
use crate::manifest::kind::FileKind;
use crate::manifest::project::Project;
use crate::manifest::{load, recording_check, scenario_check, schemas};
use crate::plan::compile::{Request, compile};
use crate::process;
use crate::retrieve::server::{ServeOptions, serve_stdio};

pub(super) fn check(command: &args::Check, out: &Out) -> Result<u8, CliError> {
    let cwd = context::cwd()?;
    let files = if command.files.is_empty() { project_files(&cwd) } else { command.files.clone() };
    if files.is_empty() {
        return Err(CliError::Usage(
            "there is nothing to check here: no pipelines/, presets/, datasets/ or scenarios/".to_owned(),
        ));
    }
    let mut found: Vec<Diagnostic> = Vec::new();
    for file in &files {
        found.extend(check_file(file, &cwd, &command.sets)?);
    }
    diag::sort(&mut found);
    let failed = found.iter().any(Diagnostic::is_error);
    let exit = if failed { USAGE } else { 0 };
    if command.json {
        out.json(&render::json(&found, exit));
    } else {
        if !found.is_empty() {
            out.say(render::text(&found, out.people_tty).trim_end());
        }
        if !failed {
            out.data(&format!("{} file(s) checked\n", files.len()));
        }
    }
    Ok(exit)
}

/// The kind of a file by where it lies; a pipeline elsewhere is anything else.
fn kind_of(path: &Path) -> FileKind {
    let text = path.to_string_lossy().replace('\\', "/");
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy().into_owned();
    if name == context::LOCK {
        FileKind::Lock
    } else if name == context::TRUST {
        FileKind::Trust
    } else if name == "prices.toml" {
        FileKind::Prices
    } else if name == "repos.toml" {
        FileKind::Repos
    } else if folder == "questions" {
        FileKind::Questions
    } else if lies_in(path, "rubrics") {
        FileKind::Rubric
    } else if lies_in(path, "recordings") {
        FileKind::Recording
    } else if lies_in(path, "scenarios") {
        FileKind::Scenario
    } else if folder == "servers" || text.contains("presets/servers/") {
        FileKind::Server
    } else {
        FileKind::Pipeline
    }
}

/// Whether a folder of that name is above the file; some have folders below them.
fn lies_in(path: &Path, folder: &str) -> bool {
    path.parent().is_some_and(|above| above.components().any(|part| part.as_os_str() == folder))
}

fn check_file(file: &Path, cwd: &Path, sets: &[String]) -> Result<Vec<Diagnostic>, CliError> {
    let kind = kind_of(file);
    if kind == FileKind::Pipeline {
        let request = Request {
            pipeline: file.to_string_lossy().into_owned(),
            sets: context::sets(sets)?,
            cwd: cwd.to_owned(),
            catalog: context::catalog(),
            only_checked: true,
        };
        return Ok(match compile(&request) {
            Ok((_, warnings)) => warnings,
            Err(found) => found,
        });
    }
    let bytes = fsio::read(&cwd.join(file)).map_err(|e| CliError::Usage(e.explain()))?;
    let shown = file.to_string_lossy();
    let project = || Project { root: root_of(&cwd.join(file), cwd), cwd: cwd.to_owned() };
    Ok(match kind {
        FileKind::Scenario => {
            let mut loaded = load::scenario(&shown, &bytes);
            if let Some(scenario) = &loaded.value {
                let beside = scenario_check::in_project(scenario, &loaded.document, &project());
                loaded.diagnostics.extend(beside);
            }
            loaded.diagnostics
        }
        FileKind::Recording => {
            let mut loaded = load::recording(&shown, &bytes);
            loaded.diagnostics.extend(recording_check::in_project(&loaded.document, &project()));
            loaded.diagnostics
        }
        _ => load::check(kind, &shown, &bytes),
    })
}

/// The project that a scenario or recording belongs to: the folder that holds
/// the `scenarios` or `recordings` in which it lies, else the working directory.
fn root_of(file: &Path, cwd: &Path) -> PathBuf {
    let named =
        |folder: &&Path| folder.file_name().is_some_and(|name| name == "scenarios" || name == "recordings");
    file.ancestors().skip(1).find(named).and_then(Path::parent).unwrap_or(cwd).to_owned()
}

/// Manifests, presets, datasets, scenarios and recordings of the folder, relative to it.
fn project_files(cwd: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    for folder in [
        "pipelines",
        "presets",
        "presets/servers",
        "datasets",
        "datasets/questions",
        "scenarios",
        "scenarios/held-out",
        "rubrics",
        "recordings",
    ] {
        let Ok(entries) = std::fs::read_dir(cwd.join(folder)) else { continue };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let is_toml = Path::new(&name).extension().is_some_and(|e| e == "toml");
            if is_toml && entry.path().is_file() {
                out.push(Path::new(folder).join(name));
            }
        }
    }
    for name in [context::LOCK, context::TRUST] {
        if cwd.join(name).is_file() {
            out.push(PathBuf::from(name));
        }
    }
    out.sort();
    out
}

pub(super) fn schema(command: &args::Schema, out: &Out) -> Result<u8, CliError> {
    let all = schemas::all();
    if let Some(folder) = &command.into {
        for (name, schema) in &all {
            fsio::write_atomic(&folder.join(name), schemas::text(schema).as_bytes(), Durability::Cached)?;
        }
        return Ok(0);
    }
    match &command.name {
        None => {
            let names: Vec<&str> = all.iter().map(|(name, _)| name.trim_end_matches(".json")).collect();
            out.data(&format!("{}\n", names.join("\n")));
            out.say("`proofline schema NAME` prints one, `--into DIR` writes all");
        }
        Some(asked) => {
            let found = all.iter().find(|(name, _)| name.trim_end_matches(".json") == asked);
            let Some((_, schema)) = found else {
                let names: Vec<&str> = all.iter().map(|(name, _)| name.trim_end_matches(".json")).collect();
                return Err(CliError::Usage(format!(
                    "there is no schema `{asked}`; there are {}",
                    names.join(", ")
                )));
            };
            out.data(&schemas::text(schema));
        }
    }
    Ok(0)
}

pub(super) fn mcp(command: &args::Mcp, _out: &Out) -> Result<u8, CliError> {
    let options = ServeOptions {
        engine: command.engine.clone(),
        profile: command.profile.clone(),
        weights: command.weights.clone(),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| CliError::Infrastructure(e.to_string()))?;
    let served = runtime.block_on(serve_stdio(options));
    // A blocked read of stdin must not keep the program alive.
    runtime.shutdown_background();
    served.map_err(|e| CliError::Usage(e.to_string()))?;
    Ok(0)
}

pub(super) fn supervise(command: &args::Supervise) -> Result<u8, CliError> {
    process::supervise_main(command.network).map_err(|e| CliError::Infrastructure(e.to_string()))?;
    Ok(0)
}
