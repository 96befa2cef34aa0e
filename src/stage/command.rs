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
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::{Artifact, Failure, Job, questions};
use crate::digest::Digest;
use crate::fsio;
use crate::fsio::slot::{HOME, TMP, WORK, Want};
use crate::fsio::tree;
use crate::manifest::axis;
use crate::manifest::pipeline::{Cause, Effect};
use crate::plan::compiled::{self, Compiled, Work};
use crate::plan::key::{At, Kind, NoRecipe};
use crate::plan::template;
use crate::process::{self, Confine, End, Order, SupervisorError};
use crate::store::{Outcome, PartContent};

/// Longest time of a command without `limits.time`.
const DEFAULT_LIMIT: Duration = Duration::from_hours(1);
/// Most bytes kept of what a command says.
const SAID: u64 = 1 << 20;
/// File of the scratch folder that takes what a command says.
const SAID_FILE: &str = "said";
/// Outputs up to this size are read at once, so that their folder is free for the next command.
const SMALL: u64 = 64 << 10;
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
    // Until the order is given nothing is spent.
    let order = prepare(job, command).map_err(|f| Failure { cause: Cause::Spawn, ..f })?;
    let said = order.said.clone();
    let end = job.supervisors.run(order, &job.cancel).await.map_err(|e| match e {
        SupervisorError::Start(_) => Failure::new(Cause::Spawn, e.to_string()),
        SupervisorError::Gone => Failure::new(Cause::Signal, super::SUPERVISOR_GONE),
    })?;
    if job.cancel.is_cancelled() && end.code != Some(0) {
        return Err(Failure::cancelled());
    }
    if let Some(slot) = job.slot.as_ref().filter(|_| end.strays) {
        slot.retire();
    }
    gather(job, command, &end, &said)
}

/// Lays everything out; what the supervisor is told.
fn prepare(job: &Job, command: &compiled::Command) -> Result<Order, Failure> {
    let [work, home, tmp] = [WORK, HOME, TMP].map(|name| job.scratch.join(name));
    if job.slot.is_none() {
        for folder in [&work, &home, &tmp] {
            fsio::create_dir(folder)?;
        }
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
    let limit = job.stage().limits.time.map_or(DEFAULT_LIMIT, |span| span.0);
    let confine =
        Confine { read: Vec::new(), write: vec![work.clone(), home, tmp], network: command.network };
    Ok(Order {
        id: 0,
        argv,
        cwd: work,
        env,
        said: job.scratch.join(SAID_FILE),
        confine,
        limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        marker: job.marker.clone(),
        attempt: (job.stage().effect == Effect::Paid).then(|| job.scratch.clone()),
    })
}

/// The artifact of an attempt that has ended under its supervisor alone.
pub(super) fn adopt(job: &Job, end: &End) -> Result<Artifact, Failure> {
    let Work::Command(command) = &job.stage().work else {
        return Err(Failure::new(Cause::Spawn, "this stage runs nothing"));
    };
    gather(job, command, end, &job.scratch.join(SAID_FILE))
}

/// The artifact of a command that has ended: exit 0 alone is no success.
fn gather(job: &Job, command: &compiled::Command, end: &End, said: &Path) -> Result<Artifact, Failure> {
    let log = fsio::read_start(said, SAID).unwrap_or_default();
    let fail = |cause: Cause, message: String| Failure { cause, message, log: log.clone() };
    let argv = || {
        let words: Vec<&str> =
            job.recipe["run"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        words.join(" ")
    };
    if let Some(trouble) = &end.trouble {
        let cause = if end.never { Cause::Spawn } else { Cause::Output };
        return Err(fail(cause, format!("`{}`: {trouble}", argv())));
    }
    if end.timed_out || end.code != Some(0) {
        let cause = match (end.timed_out, end.code) {
            (true, _) => Cause::Timeout,
            (false, Some(_)) => Cause::Exit,
            (false, None) => Cause::Signal,
        };
        return Err(fail(cause, format!("`{}` {}{}", argv(), end.words(), last_line(&log))));
    }
    let parts =
        collect(job, command, &job.scratch.join(WORK)).map_err(|message| fail(Cause::Output, message))?;
    let unconfined = (!end.unconfined.is_empty()).then(|| end.unconfined.join(", "));
    let micros = command.cost.as_ref().and_then(|name| bill(&parts, name));
    let mut artifact = Artifact { parts, outcome: Outcome::Done, used: BTreeMap::new(), unconfined, micros };
    if !log.is_empty() {
        artifact.parts.push((crate::artifact::part::META.to_owned(), PartContent::Bytes(log)));
    }
    Ok(artifact)
}

/// What a command says that it cost; none when that can't be read.
fn bill(parts: &[(String, PartContent)], name: &str) -> Option<u64> {
    let bytes = match &parts.iter().find(|(part, _)| part == name)?.1 {
        PartContent::Bytes(bytes) => bytes.clone(),
        PartContent::File(path) => fsio::read_limited(path, 1 << 20).ok()?,
        PartContent::Shared(_) | PartContent::Tree(_) => return None,
    };
    let value: Value = serde_json::from_slice(&bytes).ok()?;
    Some(compiled::micros(value["usd"].as_f64()?)).filter(|micros| *micros != u64::MAX)
}

/// The last line that a program said, for a message.
fn last_line(said: &[u8]) -> String {
    let text = String::from_utf8_lossy(said);
    let line = text.lines().rev().find(|l| !l.trim().is_empty()).unwrap_or_default();
    if line.is_empty() {
        String::new()
    } else {
        format!(": {}", line.trim().chars().take(300).collect::<String>())
    }
}

/// Puts declared inputs, parts of needs and the task into the working directory.
fn lay_inputs(job: &Job, work: &Path) -> Result<(), Failure> {
    let mut files: BTreeMap<String, (Want, Source<'_>)> = BTreeMap::new();
    for (path, digest) in job.recipe["inputs"].as_object().into_iter().flatten() {
        let digest = digest.as_str().and_then(|hex| hex.parse().ok());
        let digest =
            digest.ok_or_else(|| Failure::new(Cause::Spawn, format!("input `{path}` has no digest")))?;
        let from = job.pipeline.root.join(path);
        let want = Want { digest, executable: is_executable(&from) };
        files.insert(path.clone(), (want, Source::Project(from)));
    }
    let mut trees = BTreeMap::new();
    for (need, inputs) in job.stage().needs.iter().zip(&job.needs) {
        for input in inputs {
            let Some(parts) = &input.parts else { continue };
            let folder = place(&job.pipeline.stages[*need].name, &input.extra);
            for (name, part) in parts.iter().filter(|(name, _)| !is_meta(name)) {
                let path = format!("{folder}/{name}");
                if part.tree {
                    trees.insert(path, part.digest);
                } else {
                    let want = Want { digest: part.digest, executable: false };
                    files.insert(path, (want, Source::Store));
                }
            }
        }
    }
    let task = task(&job.pipeline, &job.cell);
    let task = if task.is_null() { Vec::new() } else { crate::artifact::to_json(&task) };
    if !task.is_empty() {
        let want = Want { digest: Digest::of(&task), executable: false };
        files.insert("in/task.json".to_owned(), (want, Source::Bytes(&task)));
    }
    if let Some(slot) = &job.slot {
        let wanted = files.iter().map(|(path, (want, _))| (path.clone(), *want)).collect();
        let folders = trees.keys().filter_map(|path| Some(path.rsplit_once('/')?.0.to_owned())).collect();
        slot.begin(&wanted, &folders)?;
    }
    for (path, (want, source)) in files {
        let bytes = || source.read(job, &path, want.digest);
        if let Some(slot) = &job.slot {
            slot.lay(&path, want, bytes)?;
            continue;
        }
        let target = work.join(&path);
        fsio::write_plain(&target, &bytes()?)?;
        if want.executable {
            tree::set_executable(&target)?;
        }
    }
    for (path, digest) in trees {
        job.store.restore(&digest, &work.join(path))?;
    }
    Ok(())
}

/// Where the bytes of an input come from.
enum Source<'a> {
    Project(PathBuf),
    Store,
    Bytes(&'a [u8]),
}

impl Source<'_> {
    fn read(&self, job: &Job, path: &str, digest: Digest) -> Result<Vec<u8>, Failure> {
        match self {
            Self::Project(from) => {
                let bytes = fsio::read(from)?;
                // Inputs are frozen here: what moved since the key was made is not run.
                if Digest::of(&bytes) != digest {
                    let message = format!("input `{path}` changed while the run was going on");
                    return Err(Failure::new(Cause::Output, message));
                }
                Ok(bytes)
            }
            Self::Store => Ok(job.store.get(&digest)?),
            Self::Bytes(bytes) => Ok(bytes.to_vec()),
        }
    }
}

pub(super) fn is_executable(path: &Path) -> bool {
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
        let content = if meta.len() <= SMALL {
            PartContent::Bytes(fsio::read(&full).map_err(|e| e.explain())?)
        } else {
            PartContent::File(full)
        };
        parts.push((name.clone(), content));
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
