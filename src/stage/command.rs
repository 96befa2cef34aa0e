//! `command`: a program of the user's, alone with its inputs.
//!
//! ```text
//! WORK/                      the working directory, empty but for
//!   PATH...                  declared project inputs, at their project paths
//!   in/STAGE/PART            a need with one node
//!   in/STAGE/a=1,b=2/PART    a need with several (a gather)
//!   in/task.json             the question of the node's task, without its ground truth
//! ```

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Artifact, Failure, Job, questions};
use crate::fsio;
use crate::fsio::tree;
use crate::manifest::axis;
use crate::manifest::pipeline::{Cause, Effect};
use crate::plan::compiled::{self, Compiled, Work};
use crate::plan::key::{At, Kind, NoRecipe};
use crate::plan::template;
use crate::process::{self, Confine, ConfineReport, Spec};
use crate::store::{Outcome, PartContent};

/// Longest time of a command without `limits.time`.
const DEFAULT_LIMIT: Duration = Duration::from_hours(1);
/// Most bytes kept of what a command says.
const SAID: usize = 1 << 20;
/// Largest output that is taken, in bytes.
const MAX_OUTPUT: u64 = 4 << 30;

pub(super) struct Command;

impl Kind for Command {
    fn recipe(&self, at: &At<'_>) -> Result<Map<String, Value>, NoRecipe> {
        let Work::Command(command) = &at.stage.work else {
            return Err(NoRecipe::Impossible("this stage runs nothing".to_owned()));
        };
        let cell: Vec<(&str, &str)> =
            at.cell.iter().map(|(axis, value)| (axis.as_str(), value.as_str())).collect();
        let render = |text: &str| {
            template::render_cell(text, &at.pipeline.params, &cell)
                .map_err(|e| NoRecipe::Impossible(e.to_string()))
        };
        let mut out = Map::new();
        let run = command.run.iter().map(|w| render(w)).collect::<Result<Vec<_>, _>>()?;
        // By path, so that a reason names the file; scripts are inputs like others.
        let mut inputs: BTreeMap<String, String> = BTreeMap::new();
        for word in run.iter().filter(|word| at.world.is_file(word)) {
            inputs.extend(files(at, word)?);
        }
        let text = |text: &String| Value::String(text.clone());
        out.insert("run".to_owned(), Value::Array(run.into_iter().map(Value::String).collect()));
        for pattern in &command.inputs {
            inputs.extend(files(at, &render(pattern)?)?);
        }
        if !inputs.is_empty() {
            let inputs = inputs.into_iter().map(|(path, digest)| (path, Value::String(digest)));
            out.insert("inputs".to_owned(), Value::Object(inputs.collect()));
        }
        if !command.env.is_empty() {
            let env = command.env.iter().map(|(k, v)| Ok((k.clone(), Value::String(render(v)?))));
            out.insert("env".to_owned(), Value::Object(env.collect::<Result<_, _>>()?));
        }
        if !command.secrets.is_empty() {
            out.insert("secrets".to_owned(), Value::Array(command.secrets.iter().map(text).collect()));
        }
        if command.network {
            out.insert("network".to_owned(), Value::Bool(true));
        }
        let mut outputs = Map::new();
        for (name, output) in &command.outputs {
            let schema = match &output.schema {
                Some(path) => Some(files(at, path)?),
                None => None,
            };
            let schema = schema.map_or(Value::Null, |schema| json!(schema));
            outputs.insert(name.clone(), Value::Array(vec![Value::String(render(&output.path)?), schema]));
        }
        out.insert("outputs".to_owned(), Value::Object(outputs));
        let mut needs = Vec::new();
        for (need, ups) in at.stage.needs.iter().zip(at.needs) {
            for up in ups {
                let parts = up.parts.as_ref().ok_or_else(|| NoRecipe::Wait(up.id.clone()))?;
                // In the recipe stands what the command can see: place and content, not the producer's name.
                let parts = parts.iter().filter(|(n, _)| !is_meta(n));
                needs.push((place(&at.pipeline.stages[*need].name, &up.extra), parts));
            }
        }
        // It sees folders, not an order.
        needs.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.clone().cmp(b.1.clone())));
        if !needs.is_empty() {
            let needs = needs.into_iter().map(|(place, parts)| {
                let parts = parts.map(|(name, digest)| (name.clone(), Value::String(digest.hex())));
                Value::Array(vec![Value::String(place), Value::Object(parts.collect())])
            });
            out.insert("needs".to_owned(), Value::Array(needs.collect()));
        }
        put(&mut out, "task", task(at.pipeline, at.cell), &Value::Null);
        if at.stage.effect != Effect::Pure {
            put(&mut out, "replicate", json!(at.value(axis::REPLICATE)), &Value::Null);
        }
        Ok(out)
    }

    fn format(&self) -> u32 {
        1
    }
}

/// Parts that no stage reads.
fn is_meta(name: &str) -> bool {
    name == crate::artifact::part::META
}

/// A field at its default is left out: a new field changes no existing key.
fn put(out: &mut Map<String, Value>, name: &str, value: Value, default: &Value) {
    if value != *default {
        out.insert(name.to_owned(), value);
    }
}

/// Files that match a pattern: project path and digest, hex.
fn files(at: &At<'_>, pattern: &str) -> Result<Vec<(String, String)>, NoRecipe> {
    let found = at.world.files(pattern).map_err(NoRecipe::Impossible)?;
    Ok(found.iter().map(|(path, digest)| (path.clone(), digest.hex())).collect())
}

/// The node's question without its ground truth.
fn task(pipeline: &Compiled, cell: &BTreeMap<String, String>) -> Value {
    if !cell.contains_key(axis::TASK) {
        return Value::Null;
    }
    questions(pipeline, cell).first().map_or(
        Value::Null,
        |q| json!({ "id": q.id, "kind": q.kind, "difficulty": q.difficulty, "prompt": q.prompt }),
    )
}

/// Folder of a need's parts under the working directory.
fn place(stage: &str, extra: &[(String, String)]) -> String {
    if extra.is_empty() {
        return format!("in/{stage}");
    }
    let cell: Vec<String> =
        extra.iter().map(|(axis, value)| format!("{axis}={}", value.replace('/', "_"))).collect();
    format!("in/{stage}/{}", cell.join(","))
}

pub(super) async fn run(job: &Job) -> Result<Artifact, Failure> {
    let Work::Command(command) = &job.stage().work else {
        return Err(Failure::new(Cause::Spawn, "this stage runs nothing"));
    };
    let work = job.scratch.join("work");
    let (home, tmp) = (job.scratch.join("home"), job.scratch.join("tmp"));
    for folder in [&work, &home, &tmp] {
        fsio::create_dir(folder)?;
    }
    lay_inputs(job, &work)?;
    let recipe = &job.recipe;
    let argv: Vec<String> = serde_json::from_value(recipe["run"].clone())
        .map_err(|e| Failure::new(Cause::Spawn, e.to_string()))?;
    let mut env = process::base_env(&home, &tmp);
    if let Some(declared) = recipe["env"].as_object() {
        env.extend(declared.iter().map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned())));
    }
    env.extend(command.secrets.iter().filter_map(|name| Some((name.clone(), process::secret(name)?))));
    let report = job.scratch.join("confined.json");
    let mut read = process::system_paths(argv.first().map_or("", String::as_str));
    read.push(work.clone());
    let confine = Confine {
        read,
        write: vec![work.clone(), home, tmp],
        network: command.network,
        report: Some(report.clone()),
    };
    let spec = Spec::new(confine.launcher_argv(&job.exe, &argv), work.clone(), env, &job.marker);
    let limit = job.stage().limits.time.map_or(DEFAULT_LIMIT, |span| span.0);
    let said = tokio::select! {
        said = process::capture(&spec, limit, SAID) => said,
        () = job.cancel.cancelled() => return Err(Failure::cancelled()),
    };
    let said = said.map_err(|e| Failure::new(Cause::Spawn, e.to_string()))?;
    let mut log = said.stdout;
    log.extend_from_slice(&said.stderr);
    let fail = |cause: Cause, message: String| Failure { cause, message, log: log.clone() };
    if !said.exit.ok() {
        let cause = match (said.exit.timed_out, said.exit.signal) {
            (true, _) => Cause::Timeout,
            (false, Some(_)) => Cause::Signal,
            (false, None) => Cause::Exit,
        };
        return Err(fail(
            cause,
            format!("`{}` {}{}", argv.join(" "), said.exit.words(), last_line(&said.stderr)),
        ));
    }
    let parts = collect(job, command, &work).map_err(|message| fail(Cause::Output, message))?;
    let unconfined = unconfined(&report);
    let mut artifact = Artifact { parts, outcome: Outcome::Done, used: BTreeMap::new(), unconfined };
    if !log.is_empty() {
        artifact.parts.push((crate::artifact::part::META.to_owned(), PartContent::Bytes(log)));
    }
    Ok(artifact)
}

/// The last line that a program said, for a message.
fn last_line(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let line = text.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or_default();
    if line.is_empty() {
        String::new()
    } else {
        format!(": {}", line.trim().chars().take(300).collect::<String>())
    }
}

fn unconfined(report: &Path) -> Option<String> {
    let bytes = fsio::read_limited(report, 1 << 20).ok();
    let read: Option<ConfineReport> = bytes.and_then(|b| serde_json::from_slice(&b).ok());
    match read {
        Some(report) if report.unconfined.is_empty() => None,
        Some(report) => Some(report.unconfined.join(", ")),
        None => Some("files, network".to_owned()),
    }
}

/// Puts declared inputs, parts of needs and the task into the working directory.
fn lay_inputs(job: &Job, work: &Path) -> Result<(), Failure> {
    for (path, digest) in job.recipe["inputs"].as_object().into_iter().flatten() {
        let bytes = fsio::read(&job.pipeline.root.join(path))?;
        // Inputs are frozen here: what moved since the key was made is not run.
        if digest.as_str() != Some(crate::digest::Digest::of(&bytes).hex().as_str()) {
            return Err(Failure::new(
                Cause::Output,
                format!("input `{path}` changed while the run was going on"),
            ));
        }
        let target = work.join(path);
        fsio::write_plain(&target, &bytes)?;
        if is_executable(&job.pipeline.root.join(path)) {
            tree::set_executable(&target)?;
        }
    }
    for (need, inputs) in job.stage().needs.iter().zip(&job.needs) {
        for input in inputs {
            let Some(parts) = &input.parts else { continue };
            let folder = work.join(place(&job.pipeline.stages[*need].name, &input.extra));
            for (name, part) in parts.iter().filter(|(n, _)| !is_meta(n)) {
                let target = folder.join(name);
                if part.tree {
                    job.store.restore(&part.digest, &target)?;
                } else {
                    fsio::write_plain(&target, &job.store.get(&part.digest)?)?;
                }
            }
        }
    }
    let task = task(&job.pipeline, &job.cell);
    if !task.is_null() {
        fsio::write_plain(&work.join("in/task.json"), &crate::artifact::to_json(&task))?;
    }
    Ok(())
}

fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(path).is_ok_and(|m| m.permissions().mode() & 0o111 != 0)
}

/// The declared outputs, checked: exit 0 alone is no success.
fn collect(
    job: &Job,
    command: &compiled::Command,
    work: &Path,
) -> Result<Vec<(String, PartContent)>, String> {
    let mut parts = Vec::new();
    for (name, output) in &command.outputs {
        let path = job.recipe["outputs"][name][0].as_str().unwrap_or(&output.path).to_owned();
        let full = tree::inside(work, &path).map_err(|e| e.to_string())?;
        let meta = std::fs::symlink_metadata(&full)
            .map_err(|_| format!("output `{name}` was not written: `{path}` is not there"))?;
        if meta.is_dir() {
            parts.push((name.clone(), PartContent::Tree(full)));
            continue;
        }
        if !meta.is_file() {
            return Err(format!("output `{name}`: `{path}` is no regular file"));
        }
        if meta.len() > MAX_OUTPUT {
            return Err(format!(
                "output `{name}`: `{path}` has {} bytes, more than {MAX_OUTPUT}",
                meta.len()
            ));
        }
        // An input that lies where an output should be was not written by the command.
        if let Some(laid) = job.recipe["inputs"][&path].as_str()
            && tree::hash_file(&full).is_ok_and(|now| now.hex() == laid)
        {
            return Err(format!("output `{name}` was not written: `{path}` is still the input of that name"));
        }
        if output.schema.is_some() || command.metrics.as_ref() == Some(name) {
            check_json(job, command, name, output.schema.as_deref(), &full)?;
        }
        parts.push((name.clone(), PartContent::File(full)));
    }
    Ok(parts)
}

fn check_json(
    job: &Job,
    command: &compiled::Command,
    name: &str,
    schema: Option<&str>,
    path: &Path,
) -> Result<(), String> {
    let bytes = fsio::read_limited(path, 256 << 20).map_err(|e| e.explain())?;
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|e| format!("output `{name}` is not JSON: {e}"))?;
    if let Some(schema) = schema {
        let text = fsio::read_limited(&job.pipeline.root.join(schema), 16 << 20).map_err(|e| e.explain())?;
        let schema_value: Value =
            serde_json::from_slice(&text).map_err(|e| format!("schema `{schema}` is not JSON: {e}"))?;
        let validator = jsonschema::validator_for(&schema_value)
            .map_err(|e| format!("schema `{schema}` is no JSON Schema: {e}"))?;
        let faults: Vec<String> = validator
            .iter_errors(&value)
            .take(3)
            .map(|e| format!("at `{}`: {e}", e.instance_path()))
            .collect();
        if !faults.is_empty() {
            return Err(format!("output `{name}` doesn't satisfy `{schema}`: {}", faults.join("; ")));
        }
    }
    if command.metrics.as_deref() == Some(name) {
        let sound = value.as_object().is_some_and(|o| o.values().all(|v| v.is_number() || v.is_null()));
        if !sound {
            return Err(format!(
                "output `{name}` holds metrics: a JSON object of names and numbers (or null) is expected"
            ));
        }
    }
    Ok(())
}
