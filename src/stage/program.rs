//! Graders that are programs of the user's.
//!
//! ```text
//! WORK/NAME/             the working directory, empty but for
//!   PATH...              declared project inputs, at their project paths
//!   in/answer.json       {"task", "answer", "steps": [{"name", "prompt", "answer"}], "state"}
//!   in/transcript.json   the transcript
//!   grades.json          what it must write: {"values": {METRIC: number | null}, "items": [...]}
//! ```
//!
//! A program that fails in any way leaves its metrics unscored, with its words; never a 0. What may be
//! the machine's doing (its time was over, it was killed, it never began) is no result to be kept:
//! the node ends in error, and the next run tries it again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::{Map, Value, json};

use super::{Artifact, Failure, Input, Job, answer};
use crate::artifact::transcript::Transcript;
use crate::artifact::{self, Grades, Item, SessionState, part};
use crate::fsio::slot::{HOME, TMP, WORK};
use crate::fsio::{self, tree};
use crate::grade::answer::Steps;
use crate::manifest::pipeline::Kind as StageKind;
use crate::plan::compiled::{GraderProgram, Work};
use crate::plan::key::{At, NoRecipe};
use crate::process::{self, Confine, Order};
use crate::store::{Outcome, PartContent};

/// Longest time of a grader without `time`.
const DEFAULT_LIMIT: Duration = Duration::from_mins(1);
/// Largest `grades.json`, in bytes, and most of what a grader says that is kept.
const LARGEST: u64 = 4 << 20;
const SAID: u64 = 64 << 10;
/// Largest declared input, in bytes.
const LARGEST_INPUT: u64 = 1 << 30;
/// Most items of one grader.
const MOST_ITEMS: usize = 10_000;
const OUT: &str = "grades.json";

/// What a grader writes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    values: Values,
    #[serde(default)]
    items: Vec<WrittenItem>,
}

/// Item of a grader that failed as a whole.
const FAILED: &str = "failed";
/// Most characters of a reason that reports repeat.
const LONGEST_REASON: usize = 200;

/// One thing that it looked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenItem {
    id: String,
    #[serde(default)]
    hit: Option<bool>,
    #[serde(default)]
    spans: Vec<(u64, u64)>,
    #[serde(default)]
    note: String,
}

/// Values by metric, none of them given twice.
struct Values(BTreeMap<String, Option<f64>>);

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Once;
        impl<'de> Visitor<'de> for Once {
            type Value = Values;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object of numbers by metric")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Values, A::Error> {
                let mut out = BTreeMap::new();
                while let Some((name, value)) = map.next_entry::<String, Option<f64>>()? {
                    if out.contains_key(&name) {
                        return Err(A::Error::custom(format!("the value `{name}` is given twice")));
                    }
                    out.insert(name, value);
                }
                Ok(Values(out))
            }
        }
        deserializer.deserialize_map(Once)
    }
}

/// Why a grader gave nothing.
struct Trouble {
    words: String,
    /// The next run may fare better with the same inputs.
    passing: bool,
}

impl Trouble {
    fn lasting(words: String) -> Self {
        Self { words, passing: false }
    }
}

/// What of the graders is in a recipe.
pub(super) fn recipe(at: &At<'_>, programs: &[GraderProgram]) -> Result<Value, NoRecipe> {
    let mut out = Map::new();
    for program in programs {
        let mut inputs: BTreeMap<String, String> = BTreeMap::new();
        let scripts = program.grader.run.iter().filter(|word| at.world.is_file(word));
        for pattern in scripts.chain(&program.grader.inputs) {
            let found = at.world.files(pattern).map_err(NoRecipe::Impossible)?;
            inputs.extend(found.iter().map(|(path, digest)| (path.clone(), digest.hex())));
        }
        let metrics = &program.grader.metrics;
        out.insert(program.name.clone(), json!([program.grader.run, inputs, metrics]));
    }
    Ok(Value::Object(out))
}

/// Runs the graders and adds what they give to the artifact.
pub(super) async fn run(
    job: &Arc<Job>,
    programs: &[GraderProgram],
    artifact: Artifact,
) -> Result<Artifact, Failure> {
    let mut artifact = artifact;
    let input = answer_of(job).ok_or_else(answer::nothing)?;
    let (given, length) = given(job, input)?;
    for program in programs {
        let graded = match one(job, program, &given, length).await? {
            Ok(mut graded) => {
                for item in &mut graded.items {
                    item.note = placeless(job, &program.name, &item.note);
                }
                graded
            }
            Err(trouble) => {
                if trouble.passing {
                    artifact.outcome = Outcome::Error;
                }
                Given::unscored(program, &placeless(job, &program.name, &trouble.words))
            }
        };
        add(&mut artifact, graded)?;
    }
    Ok(artifact)
}

fn answer_of(job: &Job) -> Option<&Input> {
    job.stage().needs.iter().zip(&job.needs).find_map(|(need, inputs)| {
        let is_answer = matches!(job.pipeline.stages[*need].work, Work::Read { of: StageKind::Session });
        is_answer.then(|| inputs.first()).flatten()
    })
}

/// Words without the place where the program `name` ran: it says nothing, and is another one every time.
fn placeless(job: &Job, name: &str, words: &str) -> String {
    let mut out = words.to_owned();
    for root in [Some(job.scratch.clone()), job.scratch.canonicalize().ok()].into_iter().flatten() {
        for place in [root.join(WORK).join(name), root] {
            let place = place.display().to_string();
            out = out.replace(&format!("{place}/"), "").replace(&place, ".");
        }
    }
    out
}

/// Files by name.
type Laid = Vec<(&'static str, Vec<u8>)>;

/// What a grader is given, and the bytes of the answer that spans count in.
fn given(job: &Job, input: &Input) -> Result<(Laid, u64), Failure> {
    let bytes = job.part(input, part::TRANSCRIPT)?;
    let transcript: Transcript = job.json(input, part::TRANSCRIPT)?;
    let cell: SessionState = job.json(input, part::CELL)?;
    let scenario = job.pipeline.scenario(&job.cell).map(|scenario| &scenario.task);
    let steps = scenario.map(|scenario| scenario.step.as_slice()).unwrap_or_default();
    let names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
    let cut = Steps::of(&transcript, &names);
    let steps: Vec<Value> = steps
        .iter()
        .enumerate()
        .map(|(at, step)| json!({ "name": step.name, "prompt": step.prompt, "answer": cut.text[cut.range(at)] }))
        .collect();
    let answer = json!({
        "task": answer::task(&job.pipeline, &job.cell),
        "answer": cut.text,
        "steps": steps,
        "state": cell.state,
    });
    let files = vec![("in/answer.json", artifact::to_json(&answer)), ("in/transcript.json", bytes)];
    Ok((files, cut.text.len() as u64))
}

/// What a grader gave.
struct Given {
    values: BTreeMap<String, Option<f64>>,
    items: Vec<Item>,
}

impl Given {
    fn unscored(program: &GraderProgram, words: &str) -> Self {
        let failed = Item {
            grader: program.name.clone(),
            id: FAILED.to_owned(),
            note: words.chars().take(1_000).collect(),
            ..Item::default()
        };
        Self {
            values: program.grader.metrics.keys().map(|name| (name.clone(), None)).collect(),
            items: vec![failed],
        }
    }
}

impl Given {
    /// Per metric without a value the first line of why.
    fn reasons(&self) -> impl Iterator<Item = (String, String)> + '_ {
        self.values.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| {
            let says = |item: &&Item| item.id == FAILED || item.id == format!("value {name}");
            let item = self.items.iter().filter(|item| item.hit.is_none()).find(says);
            let line = item.and_then(|item| item.note.lines().find(|line| !line.trim().is_empty()));
            let words = line.unwrap_or("the grader gave none");
            (name.clone(), words.chars().take(LONGEST_REASON).collect())
        })
    }
}

/// Runs one grader; its own failures in words.
async fn one(
    job: &Job,
    program: &GraderProgram,
    given: &[(&str, Vec<u8>)],
    length: u64,
) -> Result<Result<Given, Trouble>, Failure> {
    let [work, home, tmp] = [WORK, HOME, TMP].map(|name| job.scratch.join(name));
    let folder = work.join(&program.name);
    for place in [&folder, &home, &tmp] {
        fsio::create_dir(place)?;
    }
    for (name, bytes) in given {
        fsio::write_plain(&folder.join(name), bytes)?;
    }
    lay(job, program, &folder)?;
    let said = job.scratch.join(format!("said-{}", program.name));
    let limit = program.grader.time.map_or(DEFAULT_LIMIT, |span| span.0);
    let order = Order {
        id: 0,
        argv: program.grader.run.clone(),
        cwd: folder.clone(),
        env: process::base_env(&home, &tmp),
        said: said.clone(),
        confine: Confine { read: Vec::new(), write: vec![folder.clone(), home, tmp], network: false },
        limit_ms: u64::try_from(limit.as_millis()).unwrap_or(u64::MAX),
        marker: job.marker.clone(),
        attempt: None,
    };
    let end = match job.supervisors.run(order, &job.cancel).await {
        Ok(end) => end,
        Err(error) => return Ok(Err(Trouble { words: error.to_string(), passing: true })),
    };
    if job.cancel.is_cancelled() {
        return Err(Failure::cancelled());
    }
    if let Some(slot) = job.slot.as_ref().filter(|_| end.strays) {
        slot.retire();
    }
    let log = fsio::read_start(&said, SAID).unwrap_or_default();
    let log = String::from_utf8_lossy(&log);
    let last = log.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let said = if last.is_empty() { String::new() } else { format!("; it said: {last}") };
    if end.timed_out || end.code != Some(0) || end.trouble.is_some() {
        let how = match &end.trouble {
            Some(trouble) => format!(": {trouble}"),
            None => format!(" {}", end.words()),
        };
        let words = format!("`{}`{how}{said}", program.grader.run.join(" "));
        let passing = end.timed_out || end.never || (end.signal.is_some() && end.trouble.is_none());
        return Ok(Err(Trouble { words, passing }));
    }
    Ok(read(program, &folder.join(OUT), length).map_err(|words| Trouble::lasting(format!("{words}{said}"))))
}

/// Declared files, as they were when the key was made.
fn lay(job: &Job, program: &GraderProgram, folder: &Path) -> Result<(), Failure> {
    let inputs = job.recipe["programs"][&program.name][1].as_object().into_iter().flatten();
    for (path, digest) in inputs {
        let from = job.pipeline.root.join(path);
        let bytes = fsio::read_inside(&job.pipeline.root, path, LARGEST_INPUT)?;
        if digest.as_str() != Some(crate::digest::Digest::of(&bytes).hex().as_str()) {
            let message = format!("input `{path}` changed while the run was going on");
            return Err(Failure::new(crate::manifest::pipeline::Cause::Output, message));
        }
        fsio::write_plain(&folder.join(path), &bytes)?;
        if super::command::is_executable(&from) {
            tree::set_executable(&folder.join(path))?;
        }
    }
    Ok(())
}

/// What a grader wrote of an answer of `length` bytes, checked.
fn read(program: &GraderProgram, path: &Path, length: u64) -> Result<Given, String> {
    let meta = std::fs::symlink_metadata(path).map_err(|_| format!("it wrote no `{OUT}`"))?;
    if !meta.is_file() {
        return Err(format!("its `{OUT}` is no regular file"));
    }
    if meta.len() > LARGEST {
        return Err(format!("its `{OUT}` is larger than {} MiB", LARGEST >> 20));
    }
    let bytes = fsio::read_limited(path, LARGEST)
        .map_err(|error| format!("its `{OUT}` can't be read: {}", error.source))?;
    let written: Written = serde_json::from_slice(&bytes).map_err(|e| format!("its `{OUT}`: {e}"))?;
    let metrics = &program.grader.metrics;
    let values = written.values.0;
    if let Some(unknown) = values.keys().find(|name| !metrics.contains_key(*name)) {
        return Err(format!("its `{OUT}` has a value `{unknown}`, which the grader doesn't declare"));
    }
    let mut out = Given { values: BTreeMap::new(), items: Vec::new() };
    for (name, bounds) in metrics {
        let (least, most) = (bounds.at_least.unwrap_or(0.0), bounds.at_most.unwrap_or(1.0));
        let value = values.get(name).copied().flatten();
        let sound = value.filter(|value| (least..=most).contains(value));
        if let (Some(value), None) = (value, sound) {
            let note = format!("{value} is not from {least} to {most}");
            let (grader, id) = (program.name.clone(), format!("value {name}"));
            out.items.push(Item { grader, id, note, ..Item::default() });
        }
        out.values.insert(name.clone(), sound);
    }
    for item in &written.items {
        if let Some((from, to)) = item.spans.iter().find(|(from, to)| from > to || *to > length) {
            return Err(format!(
                "its `{OUT}`: the item `{}` has the span [{from}, {to}], and the answer has {length} bytes",
                item.id.chars().take(80).collect::<String>()
            ));
        }
    }
    out.items.extend(written.items.into_iter().take(MOST_ITEMS).map(|item| Item {
        grader: program.name.clone(),
        id: item.id,
        step: None,
        hit: item.hit,
        spans: item.spans,
        note: item.note,
    }));
    Ok(out)
}

/// Adds values to the row and items to the list.
fn add(artifact: &mut Artifact, given: Given) -> Result<(), Failure> {
    let broken = |e: serde_json::Error| Failure::new(crate::manifest::pipeline::Cause::Output, e.to_string());
    for (name, content) in &mut artifact.parts {
        let PartContent::Bytes(bytes) = content else { continue };
        if name == part::GRADES {
            let mut grades: Grades = artifact::from_json(bytes).map_err(broken)?;
            grades.why.extend(given.reasons());
            for row in &mut grades.rows {
                row.values.extend(given.values.iter().map(|(name, value)| (name.clone(), *value)));
            }
            *bytes = artifact::to_json(&grades);
        } else if name == part::ITEMS {
            bytes.extend(artifact::to_lines(&given.items));
        }
    }
    Ok(())
}
