//! `diff`, `explain`, `export sense`: what grades say of answers.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::args;
use super::context;
use super::exit::CliError;
use super::out::Out;
use crate::artifact::Item;
use crate::fsio::{self, Durability, tree};
use crate::import::sense::runs::FOLDER;
use crate::report::answers::{self, Answer};
use crate::report::assemble::RunView;
use crate::report::plain;
use crate::store::Store;

/// Most characters of an answer that are shown around a place.
const AROUND: usize = 60;
/// So many reasons of a flip are shown.
const MOST_REASONS: usize = 3;
/// Most lines of one kind that are shown of a difference.
const MOST: usize = 200;

pub(super) fn diff(command: &args::Diff, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let store = context::existing(store)?;
    let view = |run: &str| -> Result<RunView, CliError> {
        Ok(RunView::read(&store, &context::run_id(&store, run)?)?)
    };
    let found = answers::diff(&store, &view(&command.a)?, &view(&command.b)?)?;
    if command.json {
        out.json(&found);
        return Ok(0);
    }
    out.data(&told(&found));
    Ok(0)
}

fn told(found: &Value) -> String {
    let mut text = String::new();
    let list = |name: &str| found[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let word = |value: &Value| match value {
        Value::Null => "-".to_owned(),
        Value::Bool(hit) => if *hit { "found" } else { "not found" }.to_owned(),
        Value::String(text) => plain(text),
        Value::Number(number) => number.as_f64().map_or_else(|| number.to_string(), |n| format!("{n:.4}")),
        other => other.to_string(),
    };
    let mut section = |title: &str, name: &str, line: &dyn Fn(&Value) -> String| {
        let all = list(name);
        if all.is_empty() {
            return;
        }
        let _ = writeln!(text, "{title} ({})", all.len());
        for one in all.iter().take(MOST) {
            let _ = writeln!(text, "  {}", line(one));
        }
        if all.len() > MOST {
            let _ = writeln!(text, "  ... and {} more; `--json` lists them all", all.len() - MOST);
        }
        text.push('\n');
    };
    section("What flipped", "flips", &|one| {
        let was = match &one["was"] {
            Value::String(was) => format!("{} -> ", plain(was)),
            _ => String::new(),
        };
        format!(
            "{}: {} {was}{}: {} -> {}{}",
            word(&one["answer"]),
            word(&one["what"]),
            word(&one["item"]),
            word(&one["before"]),
            word(&one["after"]),
            because(&one["why"])
        )
    });
    section("Grades that moved", "moved", &|one| {
        format!(
            "{}: {} {} -> {}",
            word(&one["answer"]),
            word(&one["item"]),
            word(&one["before"]),
            word(&one["after"])
        )
    });
    section("Arms", "arms", &|one| {
        format!(
            "{}: {} {} -> {}",
            word(&one["arm"]),
            word(&one["metric"]),
            word(&one["before"]),
            word(&one["after"])
        )
    });
    let order = |value: &Value| {
        let all = value.as_array().into_iter().flatten();
        all.map(|row| format!("{} {}", row[0], word(&row[1]))).collect::<Vec<_>>().join(", ")
    };
    section("Rankings that changed", "rankings", &|one| {
        format!("{}: {} -> {}", word(&one["by"]), order(&one["before"]), order(&one["after"]))
    });
    section("Only in the first run", "only_a", &|one| word(one));
    section("Only in the second run", "only_b", &|one| word(one));
    let _ = writeln!(text, "{} answers are graded as before.", found["equal"]);
    text
}

/// The reasons of a flip: those that stand highest in the recipe first, with what they were where
/// that is short.
fn because(why: &Value) -> String {
    let mut all: Vec<&Value> = why.as_array().into_iter().flatten().collect();
    all.sort_by_key(|why| why["field"].as_str().unwrap_or_default().matches('.').count());
    let short = |value: &Value| match value {
        Value::String(text) => Some(plain(text)),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    };
    let told: Vec<String> = all
        .iter()
        .take(MOST_REASONS)
        .map(|why| {
            let field = plain(why["field"].as_str().unwrap_or_default());
            match short(&why["old"]).zip(short(&why["new"])) {
                Some((old, new)) if old.len() + new.len() <= AROUND => format!("{field} ({old} -> {new})"),
                _ => field,
            }
        })
        .collect();
    if told.is_empty() { String::new() } else { format!("   because of {}", told.join(", ")) }
}

pub(super) fn explain(command: &args::Explain, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let store = context::existing(store)?;
    let run = context::run_id(&store, &command.run)?;
    let view = RunView::read(&store, &run)?;
    let (mut exact, mut fitting) = (None, Vec::new());
    view.answers(&store, |answer| {
        if answer.id == command.answer {
            exact = Some(answer);
        } else if answer.id.contains(&command.answer) {
            fitting.push(answer);
        }
        Ok::<(), CliError>(())
    })?;
    let answer = match (exact, fitting.len()) {
        (Some(answer), _) => answer,
        (None, 1) => fitting.remove(0),
        (None, 0) => {
            let message = format!(
                "run {run} has no answer `{}`; `proofline report {run} --rows` lists them",
                command.answer
            );
            return Err(CliError::Usage(message));
        }
        (None, _) => {
            let names: Vec<&str> = fitting.iter().take(8).map(|answer| answer.id.as_str()).collect();
            let message = format!("{} answers fit `{}`: {}", fitting.len(), command.answer, names.join(", "));
            return Err(CliError::Usage(message));
        }
    };
    if command.json {
        let mut row = answer.row();
        row["text"] = json!(answer.text(&store)?);
        out.json(&row);
        return Ok(0);
    }
    out.data(&explained(&answer, &answer.text(&store)?));
    Ok(0)
}

fn explained(answer: &Answer, text: &str) -> String {
    let mut out = String::new();
    let _ = writeln!(out, "{}  task {}", plain(&answer.id), plain(&answer.task));
    if !answer.session.label.is_empty() {
        let _ = writeln!(out, "{}", plain(&answer.session.label));
    }
    let _ = writeln!(out, "state: {}", plain(&answers::state_words(&answer.state)));
    for note in answer.remarks() {
        let _ = writeln!(out, "  {}", plain(note));
    }
    out.push_str("\nGrades\n");
    for (name, value) in &answer.values {
        let _ = writeln!(out, "  {name:22} {}", value.map_or("unscored".to_owned(), |v| format!("{v:.4}")));
    }
    if !answer.items.is_empty() {
        out.push_str("\nItems\n");
    }
    for item in &answer.items {
        let mark = match item.hit {
            Some(true) => "yes",
            Some(false) => "no ",
            None => "?  ",
        };
        let _ = writeln!(out, "  {mark} {} {}{}", item.grader, plain(&item.id), evidence(item, text));
    }
    if !answer.citations.is_empty() {
        out.push_str("\nCitations\n");
    }
    for cited in &answer.citations {
        let far = cited.distance.map(|lines| format!(", {lines} lines off")).unwrap_or_default();
        let (file, reason) = (plain(&cited.file), plain(&cited.reason));
        let _ = writeln!(out, "  {:13} {file}:{}{far}  {reason}", cited.bucket, plain(&cited.locator));
    }
    if let Some(judgement) = &answer.judgement {
        let quality = judgement.quality.map_or("unscored".to_owned(), |q| format!("{q:.4}"));
        let _ = writeln!(
            out,
            "\nJudge: {quality}{}",
            judgement.why.as_ref().map(|w| format!(" ({})", plain(w))).unwrap_or_default()
        );
        for step in &judgement.steps {
            let quality = step.quality.map_or("unscored".to_owned(), |q| format!("{q:.4}"));
            let _ = writeln!(out, "  {}: {quality}", plain(&step.name));
            for (name, (score, rationale)) in &step.scores {
                let score = score.map_or("-".to_owned(), |s| format!("{s:.2}"));
                let _ = writeln!(out, "    {} {score}  {}", plain(name), plain(rationale));
            }
        }
    }
    out
}

/// The words around an item's first place.
fn evidence(item: &Item, text: &str) -> String {
    let mut out = String::new();
    if !item.note.is_empty() {
        let _ = write!(out, "  {}", plain(&item.note));
    }
    let place = item
        .spans
        .first()
        .and_then(|(from, to)| Some((usize::try_from(*from).ok()?, usize::try_from(*to).ok()?)));
    if let Some((from, to)) = place
        && let (Some(before), Some(found), Some(after)) =
            (text.get(..from), text.get(from..to), text.get(to..))
    {
        let left: Vec<char> = before.chars().rev().take(AROUND / 2).collect();
        let left: String = left.into_iter().rev().collect();
        let right: String = after.chars().take(AROUND / 2).collect();
        let line = format!("{left}[{found}]{right}").replace(char::is_control, " ");
        let _ = write!(out, "  ...{line}...");
    }
    out
}

pub(super) fn export_sense(
    command: &args::ExportSense,
    store: Option<&Path>,
    out: &Out,
) -> Result<u8, CliError> {
    let store: Store = context::existing(store)?;
    let run = context::run_id(&store, &command.run)?;
    let view = RunView::read(&store, &run)?;
    let to: PathBuf = context::cwd()?.join(&command.to);
    let (mut written, mut without) = (Vec::new(), Vec::new());
    view.answers(&store, |answer| {
        let Some(scored) = answer.scored else {
            without.push(answer.id);
            return Ok::<(), CliError>(());
        };
        // Where it was, if its id can't say that.
        let folder = answer.session.facts.get(FOLDER).and_then(Value::as_str).unwrap_or(&answer.id);
        tree::plain(folder).map_err(|error| CliError::Usage(error.to_string()))?;
        let path = format!("{folder}/scored.json");
        fsio::write_atomic(&to.join(&path), &store.get(&scored)?, Durability::Cached)?;
        written.push(path);
        Ok(())
    })?;
    if written.is_empty() {
        let message = format!(
            "run {run} graded nothing by profile `sense`: `proofline run regrade --set profile=sense`"
        );
        return Err(CliError::Usage(message));
    }
    if command.json {
        out.json(&json!({ "run": run, "written": written, "without": without }));
    } else {
        out.data(&format!("{} files scored.json below {}\n", written.len(), command.to.display()));
        for id in &without {
            out.say(&format!("note: `{id}` was not graded by profile `sense`"));
        }
    }
    Ok(0)
}
