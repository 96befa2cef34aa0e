//! Grades answers and prints what it did, for `grading.py`, which measures the whole process.
//!
//! ```text
//! grade sense FOLDER ROUNDS        score every run of a folder of the Sense benchmark by its rules
//! grade parse FOLDER ROUNDS        only read the transcripts
//! grade citations FOLDER COUNT     make so many citations of the files of FOLDER and look them up
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proofline::clock::Stopwatch;
use proofline::corpus::ground::Ground;
use proofline::fsio;
use proofline::grade::citation::{Bucket, Source, View, examine};
use proofline::grade::sense::{Check, Gold, Meta, Scenario, Step, score, session};
use proofline::import::yaml;
use serde_json::{Value, json};

type Failed = Box<dyn std::error::Error>;

fn transcripts(folder: &Path, out: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            transcripts(&path, out);
        } else if path.file_name().is_some_and(|name| name == "transcript.json") {
            out.push(path);
        }
    }
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn scenario(whole: &Value) -> Scenario {
    let check = |check: &Value| Check {
        kind: text(&check["type"]),
        value: text(&check["value"]),
        required: check["required"].as_bool().unwrap_or(true),
        layer: check["layer"].as_str().unwrap_or("fairness").to_owned(),
    };
    let gold = |row: &Value| Gold {
        id: row["id"].clone(),
        group: row["group"].clone(),
        matches: list(&row["match"]).map(text).collect(),
    };
    Scenario {
        name: text(&whole["name"]),
        repo: text(&whole["repo"]),
        steps: list(&whole["steps"])
            .map(|step| Step {
                name: text(&step["name"]),
                checks: list(&step["checks"]).map(check).collect(),
            })
            .collect(),
        gold: list(&whole["gold"]).map(gold).collect(),
    }
}

fn sense(folder: &Path, rounds: u32, only_read: bool) -> Result<Value, Failed> {
    let mut scenarios = BTreeMap::new();
    for entry in std::fs::read_dir(folder.join("scenarios"))? {
        let path = entry?.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        if path.extension().is_some_and(|end| end == "yaml") && !stem.ends_with(".rubric") {
            let found = scenario(&yaml::read(&fsio::read(&path)?)?);
            scenarios.insert(found.repo.clone(), found);
        }
    }
    let mut paths = Vec::new();
    transcripts(&folder.join("results"), &mut paths);
    let (mut bytes, mut cited) = (0, 0);
    for path in &paths {
        let meta: Value = serde_json::from_slice(&fsio::read(&path.with_file_name("run_meta.json"))?)?;
        let Some(scenario) = scenarios.get(meta["repo"].as_str().unwrap_or_default()) else { continue };
        let known = Meta {
            tool: meta["tool"].as_str().map(str::to_owned),
            error: meta["error"].as_str().map(str::to_owned),
            wall: meta["wall_time_seconds"].as_f64(),
            overhead: None,
        };
        let transcript = fsio::read(path)?;
        bytes += transcript.len();
        for _ in 0..rounds {
            cited += if only_read {
                session::read(&transcript).calls.len()
            } else {
                score(scenario, &transcript, &known, None).citations.len()
            };
        }
    }
    Ok(json!({ "transcripts": paths.len(), "bytes": bytes, "cited": cited }))
}

fn citations(folder: &Path, count: usize) -> Result<Value, Failed> {
    let ground = Ground::of_folder(folder)?;
    let files: Vec<&str> = ground.listing().iter().map(|(_, path, _)| path).collect();
    // Lines and names that are there and some that are not, files in turn.
    let mut answer = String::new();
    for at in 0..count {
        let file = files[(at * 7_919) % files.len()];
        let line = 1 + (at * 31) % 400;
        match at % 3 {
            0 => writeln!(answer, "- {file}:{line}")?,
            1 => writeln!(answer, "- `{file}` (lines {line}-{})", line + 5)?,
            _ => writeln!(answer, "- `get` ({file}:{line})")?,
        }
    }
    let view = View { source: &ground, root: None };
    // The first pass reads the files; the second is what a later answer costs.
    let watch = Stopwatch::start();
    let first = examine(&answer, Some(view));
    let read = watch.ms();
    let again = examine(&answer, Some(view));
    let looked = watch.ms() - read;
    let grounded = again.iter().filter(|(_, finding)| finding.bucket == Bucket::Grounded).count();
    Ok(json!({
        "files": files.len(), "citations": first.len(), "grounded": grounded, "first_ms": read, "again_ms": looked,
    }))
}

fn main() -> Result<(), Failed> {
    // `cargo bench` adds a flag of its own.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let said = match words.as_slice() {
        ["sense", folder, rounds] => sense(Path::new(folder), rounds.parse()?, false)?,
        ["parse", folder, rounds] => sense(Path::new(folder), rounds.parse()?, true)?,
        ["citations", folder, count] => citations(Path::new(folder), count.parse()?)?,
        _ => json!({ "usage": "sense|parse|citations FOLDER N" }),
    };
    std::io::Write::write_all(&mut std::io::stdout(), format!("{said}\n").as_bytes())?;
    Ok(())
}
