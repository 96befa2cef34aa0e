//! Result files: agent runs and retrieval runs, one answer per row.
//!
//! An agent run is `{"benchmark": "agent-ab", "queries": [...]}`, or an excerpt of one, `{"rows":
//! [...]}`, with shorter names and without the words of answers. A retrieval run has
//! `query_details`. Other files are passed over, with a note where they look like a run. Each row becomes the transcript of an answer;
//! the document that it stands in is kept beside it, byte for byte.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::super::{Content, Kept};
use super::fields::kind;
use super::{Malformed, Report, name_of, slug};
use crate::artifact::transcript::Dialect;
use crate::digest::Digest;
use crate::manifest::names::LONGEST_VALUE;
use crate::manifest::write::Doc;

/// Folders that result files lie in, relative to the benchmark's.
const FOLDERS: [&str; 2] = ["", "results"];
/// Name of the part that holds the document of an answer.
const DOCUMENT: &str = "document.json";
/// What every output of these answers says.
const LABEL: &str = "imported from rag-bench";
/// Condition of an agent without a server.
const BASELINE: &str = "baseline";
/// Kind of document of an agent run.
const AGENT: &str = "agent-ab";

/// Bytes that the number of a row among equal ones may take in an id.
const MOST_NUMBER: usize = 8;

/// Rows of one file.
struct Run {
    /// Path relative to the source, for people.
    file: String,
    /// Its name here: what ids begin with.
    name: String,
    path: PathBuf,
    kind: Shape,
    rows: Vec<Value>,
    head: Map<String, Value>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Agent,
    Retrieval,
}

/// Names that were given, so that no two things share one.
#[derive(Default)]
struct Names(BTreeSet<String>);

impl Names {
    /// The name, or the first of `NAME-2`, `NAME-3`, ... that is free.
    fn give(&mut self, wanted: &str) -> String {
        let numbered = (2_u32..).map(|n| format!("{wanted}-{n}"));
        let free = std::iter::once(wanted.to_owned()).chain(numbered).find(|name| !self.0.contains(name));
        let name = free.unwrap_or_default();
        self.0.insert(name.clone());
        name
    }
}

/// What is known while the rows of all files are written.
#[derive(Default)]
struct Writing {
    /// There are several files.
    several: bool,
    arms: Names,
    /// Per arm's name what it was made from: a file and a condition.
    origins: BTreeMap<String, String>,
    /// How many rows there are of an arm, a question and a repository.
    cells: BTreeMap<[String; 3], u32>,
    /// How many rows have an id that begins so.
    ids: BTreeMap<String, u32>,
}

/// The arms of one file, by their conditions.
#[derive(Default)]
struct Arms {
    known: BTreeMap<String, Arm>,
    parts: Names,
}

/// Names that a condition of a file is given.
#[derive(Clone)]
struct Arm {
    /// The condition as a name.
    own: String,
    /// The same, told from other conditions of the file.
    part: String,
    /// The arm.
    name: String,
}

/// Reads the result files of a folder, or one file, into the text of a recording; none where there are
/// no rows.
pub(super) fn import(path: &Path, report: &mut Report) -> Option<String> {
    let runs = runs(path, report);
    let mut doc = Doc::with_schema("../../schemas/recording.json");
    doc.comment("Answers of the rag-bench family. Their rows are in the store, under these digests.");
    doc.pair("format", 1)
        .pair("name", "rag-bench")
        .pair("about", "agent and retrieval runs of rag-bench")
        .pair("label", LABEL);
    let mut writing = Writing { several: runs.len() > 1, ..Writing::default() };
    if writing.several {
        report.notes.push(format!(
            "{} result files: the names of their arms begin with those of the files",
            runs.len()
        ));
    }
    for run in runs {
        report.runs += 1;
        if run.kind == Shape::Retrieval {
            report.notes.push(format!(
                "{}: of each list its first results are written down, so hit@10 and ranks below are left out",
                run.file
            ));
        }
        if run.rows.is_empty() {
            report.notes.push(format!("{}: it has no rows", run.file));
        }
        run.write(&mut writing, &mut doc, report);
    }
    (!report.kept.is_empty()).then(|| doc.text().to_owned())
}

/// Result files in a folder, or the file itself.
fn runs(path: &Path, report: &mut Report) -> Vec<Run> {
    let mut files: Vec<PathBuf> = Vec::new();
    if path.is_file() {
        files.push(path.to_owned());
    } else {
        for folder in FOLDERS {
            let entries = std::fs::read_dir(path.join(folder)).into_iter().flatten().flatten();
            let is_json =
                |file: &PathBuf| file.is_file() && file.extension().is_some_and(|end| end == "json");
            files.extend(entries.map(|entry| entry.path()).filter(is_json));
        }
    }
    files.sort();
    let mut names = Names::default();
    let mut out = Vec::new();
    for file in files {
        let shown = file.strip_prefix(path).ok().filter(|rest| !rest.as_os_str().is_empty()).unwrap_or(&file);
        let shown = shown.display().to_string();
        let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let bad = |message: String| Malformed { file: shown.clone(), line: None, message };
        match document(path, &file) {
            Ok(Document::Other) => {}
            Ok(Document::Strange(why)) => report.notes.push(format!("{shown}: passed over: {why}")),
            Ok(Document::Run(kind, rows, head)) => {
                let wanted = name_of(&stem, &[]);
                if wanted.is_empty() {
                    report.problems.push(bad(format!("`{stem}` gives no name")));
                    continue;
                }
                let name = names.give(&wanted);
                if name != stem {
                    report.notes.push(format!("{shown}: the file is called `{name}` here"));
                }
                out.push(Run { file: shown, name, path: file, kind, rows, head });
            }
            Err(why) => report.problems.push(bad(why)),
        }
    }
    out
}

/// What a JSON file is.
enum Document {
    /// A result file, its rows, and what stands beside them.
    Run(Shape, Vec<Value>, Map<String, Value>),
    /// It looks like a run and isn't one that is known: why.
    Strange(String),
    /// Something else.
    Other,
}

/// What a file is. One that says to be a run and has no list of rows is an error.
fn document(source: &Path, file: &Path) -> Result<Document, String> {
    let text = super::read(source, file)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let mut head = match serde_json::from_str(text) {
        Ok(Value::Object(head)) => head,
        // Lists are repositories; what is no JSON at all is told of where its name promises a run.
        Ok(_) => return Ok(Document::Other),
        Err(error) => return Err(format!("not JSON: {error}")),
    };
    let is_agent = head.get("benchmark").and_then(Value::as_str) == Some(AGENT);
    let has = |name: &str| head.get(name).is_some_and(|value| !value.is_null());
    let (name, shape) = if has("query_details") {
        ("query_details", Shape::Retrieval)
    } else if is_agent && (has("queries") || !has("rows")) {
        ("queries", Shape::Agent)
    } else if has("rows") {
        ("rows", Shape::Agent)
    } else if has("benchmark") || has("queries") {
        return Ok(Document::Strange(format!(
            "it has neither `query_details`, nor `rows`, nor `queries` of `\"benchmark\": \"{AGENT}\"`"
        )));
    } else {
        return Ok(Document::Other);
    };
    match head.remove(name) {
        Some(Value::Array(rows)) => {
            let is_row = |row: &Value| row.get("question").is_some() && row.get("arm").is_some();
            if name == "rows" && !is_agent && !rows.iter().any(is_row) {
                return Ok(Document::Strange("none of its `rows` has `question` and `arm`".to_owned()));
            }
            Ok(Document::Run(shape, rows, head))
        }
        // Any table may have rows.
        Some(_) if name == "rows" && !is_agent => Ok(Document::Other),
        Some(other) => Err(format!("`{name}` must be a list of rows, not {}", kind(&other))),
        None => Err(format!("it says to be of `{AGENT}` and has no `{name}`")),
    }
}

impl Run {
    fn write(&self, writing: &mut Writing, doc: &mut Doc, report: &mut Report) {
        let mut arms = Arms::default();
        for (at, row) in self.rows.iter().enumerate() {
            match self.row(row, &mut arms, writing, doc, &mut report.notes) {
                Ok(kept) => report.kept.push(kept),
                Err(why) => {
                    let message = format!("row {}: {why}", at + 1);
                    report.problems.push(Malformed { file: self.file.clone(), line: None, message });
                }
            }
        }
    }

    fn row(
        &self,
        row: &Value,
        arms: &mut Arms,
        writing: &mut Writing,
        doc: &mut Doc,
        notes: &mut Vec<String>,
    ) -> Result<Kept, String> {
        if !row.is_object() {
            return Err(format!("it is {}, no object", kind(row)));
        }
        let text = |names: &[&str]| {
            names.iter().find_map(|name| row.get(*name)).and_then(Value::as_str).map(str::to_owned)
        };
        let asked: &[&str] = match self.kind {
            Shape::Agent => &["query_id", "question"],
            Shape::Retrieval => &["id"],
        };
        let task = text(asked).ok_or("it names no question")?;
        let condition = match self.kind {
            Shape::Agent => text(&["condition", "arm"]).ok_or("it names no arm")?,
            Shape::Retrieval => self.server().unwrap_or_else(|| self.name.clone()),
        };
        let task = name_of(&task, &['.']);
        // An id is the repository's name and a number.
        let of_id = task.rsplit_once(['_', '-']).map(|(repo, _)| repo.to_owned());
        let repo = text(&["repo"]).or(of_id).map(|repo| name_of(&repo, &[])).unwrap_or_default();
        let own = name_of(&condition, &[]);
        for (what, name) in [("question", &task), ("arm", &own), ("repository", &repo)] {
            if name.is_empty() {
                return Err(format!("its {what} gives no name"));
            }
            if name.len() > LONGEST_VALUE {
                return Err(format!(
                    "the name of its {what} has {} bytes; at most {LONGEST_VALUE} fit",
                    name.len()
                ));
            }
        }
        let arm = if let Some(arm) = arms.known.get(&condition) {
            arm.clone()
        } else {
            let arm = self.arm(&condition, own, &mut arms.parts, writing, notes);
            arms.known.insert(condition, arm.clone());
            arm
        };
        let place = format!("{}/{}/{task}", self.name, arm.part);
        let longest = arm.name.len().max(place.len() + MOST_NUMBER);
        if longest > LONGEST_VALUE {
            return Err(format!(
                "the file's name, its arm and its question together make an id of {longest} bytes; at most {LONGEST_VALUE} fit"
            ));
        }
        let bytes = serde_json::to_vec(row).map_err(|e| e.to_string())?;
        let count = |counts: &mut u32| {
            *counts += 1;
            *counts
        };
        let replicate =
            count(writing.cells.entry([arm.name.clone(), task.clone(), repo.clone()]).or_default());
        let id = match count(writing.ids.entry(place.clone()).or_default()) {
            1 => place,
            nth => format!("{place}/{nth}"),
        };
        doc.element(&["answer"]);
        doc.pair("id", id.clone()).pair("arm", arm.name).pair("task", task);
        if replicate > 1 {
            doc.pair("replicate", replicate);
        }
        doc.pair("repo", repo).pair("model", self.model()).pair("dialect", Dialect::RagBench.name());
        doc.pair("digest", Digest::of(&bytes).hex()).pair("origin", self.file.clone());
        let is_baseline = self.kind == Shape::Agent && arm.own == BASELINE;
        let server = if is_baseline { json!(false) } else { json!(arm.own) };
        doc.pair("facts", json!({ "server": server }));
        Ok(Kept {
            id,
            transcript: Content::Bytes(bytes),
            judgement: None,
            others: vec![(DOCUMENT.to_owned(), self.path.clone())],
        })
    }

    /// Gives a condition its names; of two that would share one the second is numbered, and told of.
    fn arm(
        &self,
        condition: &str,
        own: String,
        parts: &mut Names,
        writing: &mut Writing,
        notes: &mut Vec<String>,
    ) -> Arm {
        let wanted = match (writing.several, self.kind) {
            (false, _) => own.clone(),
            (true, Shape::Agent) => format!("{}-{own}", self.name),
            (true, Shape::Retrieval) => self.name.clone(),
        };
        let arm = Arm { part: parts.give(&own), name: writing.arms.give(&wanted), own };
        let origin = format!("`{condition}` of {}", self.file);
        if let Some(other) = writing.origins.get(&wanted) {
            notes.push(format!("{origin} is the arm `{}`: `{wanted}` is {other}", arm.name));
        }
        writing.origins.insert(arm.name.clone(), origin);
        arm
    }

    fn model(&self) -> Option<String> {
        // Excerpts and older files don't say; a word in brackets is no model.
        let said = self.head.get("model").and_then(Value::as_str)?;
        Some(said.to_owned()).filter(|model| !model.is_empty() && !model.starts_with('('))
    }

    fn server(&self) -> Option<String> {
        let name = self.head.get("server")?.get("name")?.as_str()?;
        Some(name.to_owned()).filter(|name| !slug(name).is_empty())
    }
}
