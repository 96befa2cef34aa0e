//! Result files: agent runs and retrieval runs, one answer per row.
//!
//! An agent run is `{"benchmark": "agent-ab", "queries": [...]}`, or an excerpt of one, `{"rows":
//! [...]}`, with shorter names and without the words of answers. A retrieval run has
//! `query_details`. Other files are passed over. Each row becomes the transcript of an answer;
//! the document that it stands in is kept beside it, byte for byte.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::super::{Content, Kept};
use super::{Malformed, Report, name_of, slug};
use crate::artifact::PUBLISHED;
use crate::artifact::transcript::Dialect;
use crate::digest::Digest;
use crate::manifest::write::Doc;

/// Folders that result files lie in, relative to the benchmark's.
const FOLDERS: [&str; 2] = ["", "results"];
/// Name of the part that holds the document of an answer.
const DOCUMENT: &str = "document.json";
/// What every output of these answers says.
const LABEL: &str = "imported from rag-bench";
/// Condition of an agent without a server.
const BASELINE: &str = "baseline";

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

/// Reads the result files of a folder, or one file, into the text of a recording; none where there are none.
pub(super) fn import(path: &Path, report: &mut Report) -> Option<String> {
    let runs = runs(path, report);
    if runs.is_empty() {
        return None;
    }
    let several = runs.len() > 1;
    let mut doc = Doc::with_schema("../../schemas/recording.json");
    doc.comment("Answers of the rag-bench family. Their rows are in the store, under these digests.");
    doc.pair("format", 1)
        .pair("name", "rag-bench")
        .pair("about", "agent and retrieval runs of rag-bench")
        .pair("label", LABEL);
    if several {
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
        run.write(several, &mut doc, report);
    }
    Some(doc.text().to_owned())
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
    let mut names = BTreeSet::new();
    let mut out = Vec::new();
    for file in files {
        let shown = file.strip_prefix(path).ok().filter(|rest| !rest.as_os_str().is_empty()).unwrap_or(&file);
        let shown = shown.display().to_string();
        let stem = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let bad = |message: String| Malformed { file: shown.clone(), line: None, message };
        match document(&file) {
            Ok(None) => {}
            Ok(Some((kind, rows, head))) => {
                let name = name_of(&stem, &[]);
                if name.is_empty() || !names.insert(name.clone()) {
                    report.problems.push(bad(format!("`{stem}` gives no name of its own")));
                    continue;
                }
                out.push(Run { file: shown, name, path: file, kind, rows, head });
            }
            Err(why) => report.problems.push(bad(why)),
        }
    }
    out
}

type Document = (Shape, Vec<Value>, Map<String, Value>);

/// The rows of a result file; none for another file.
fn document(file: &Path) -> Result<Option<Document>, String> {
    let text = super::read(file)?;
    let mut head = match serde_json::from_str(&text) {
        Ok(Value::Object(head)) => head,
        // Lists are repositories; what is no JSON at all is told of where its name promises a run.
        Ok(_) => return Ok(None),
        Err(error) => return Err(format!("not JSON: {error}")),
    };
    let said = head.get("benchmark").and_then(Value::as_str) == Some("agent-ab");
    let mut rows = |name: &str, has: &[&str]| match head.get(name) {
        Some(Value::Array(rows))
            if rows.first().is_none_or(|row| has.iter().all(|k| row.get(k).is_some())) =>
        {
            head.remove(name).and_then(|rows| if let Value::Array(rows) = rows { Some(rows) } else { None })
        }
        _ => None,
    };
    let found = if let Some(rows) = rows("query_details", &["id", "returned_files"]) {
        Some((Shape::Retrieval, rows))
    } else if let Some(rows) = rows("queries", &["query_id", "condition"]).filter(|_| said) {
        Some((Shape::Agent, rows))
    } else {
        rows("rows", &["question", "arm"]).map(|rows| (Shape::Agent, rows))
    };
    Ok(found.map(|(kind, rows)| (kind, rows, head)))
}

impl Run {
    fn write(self, several: bool, doc: &mut Doc, report: &mut Report) {
        let mut seen: BTreeMap<(String, String), u32> = BTreeMap::new();
        for (at, row) in self.rows.iter().enumerate() {
            let made = self.row(row, several, &mut seen, doc);
            match made {
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
        several: bool,
        seen: &mut BTreeMap<(String, String), u32>,
        doc: &mut Doc,
    ) -> Result<Kept, String> {
        let text = |names: &[&str]| {
            names.iter().find_map(|name| row.get(*name)).and_then(Value::as_str).map(str::to_owned)
        };
        let task = text(&["query_id", "question", "id"]).ok_or("it names no question")?;
        let condition = match self.kind {
            Shape::Agent => text(&["condition", "arm"]).ok_or("it names no arm")?,
            Shape::Retrieval => self.server().unwrap_or_else(|| self.name.clone()),
        };
        let own = name_of(&condition, &[]);
        let arm = match (several, self.kind) {
            (false, _) => own.clone(),
            (true, Shape::Agent) => format!("{}-{own}", self.name),
            (true, Shape::Retrieval) => self.name.clone(),
        };
        let task = name_of(&task, &['.']);
        // An id is the repository's name and a number.
        let of_id = task.rsplit_once(['_', '-']).map(|(repo, _)| repo.to_owned());
        let repo = text(&["repo"]).or(of_id).map(|repo| name_of(&repo, &[])).unwrap_or_default();
        if arm.is_empty() || task.is_empty() || repo.is_empty() {
            return Err("its question, arm or repository gives no name".to_owned());
        }
        let replicate = seen.entry((arm.clone(), task.clone())).or_insert(0);
        *replicate += 1;
        let mut id = format!("{}/{own}/{task}", self.name);
        if *replicate > 1 {
            id = format!("{id}/{replicate}");
        }
        let bytes = serde_json::to_vec(row).map_err(|e| e.to_string())?;
        doc.element(&["answer"]);
        doc.pair("id", id.clone()).pair("arm", arm).pair("task", task);
        if *replicate > 1 {
            doc.pair("replicate", *replicate);
        }
        doc.pair("repo", repo).pair("model", self.model()).pair("dialect", Dialect::RagBench.name());
        doc.pair("digest", Digest::of(&bytes).hex()).pair("origin", self.file.clone());
        doc.pair("facts", Value::Object(self.facts(row, &own)));
        Ok(Kept {
            id,
            transcript: Content::Bytes(bytes),
            judgement: None,
            others: vec![(DOCUMENT.to_owned(), self.path.clone())],
        })
    }

    /// What is known of a row beside what an answer's transcript tells.
    fn facts(&self, row: &Value, arm: &str) -> Map<String, Value> {
        let mut out = Map::new();
        let server = if self.kind == Shape::Agent && arm == BASELINE { json!(false) } else { json!(arm) };
        out.insert("server".to_owned(), server);
        let published: Map<String, Value> = ["file_hit", "symbol_hit", "found_file", "found_symbol"]
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), row.get(name).filter(|hit| hit.is_boolean())?.clone())))
            .collect();
        if !published.is_empty() && row.get("error").is_none_or(|e| e.is_null() || *e == json!("")) {
            out.insert(PUBLISHED.to_owned(), Value::Object(published));
        }
        out
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
