//! Answers of a run: what became of each, and how two runs differ.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::assemble::{RunNode, RunView};
use crate::artifact::transcript::Transcript;
use crate::artifact::{
    self, AnswerRow, CellState, CitationRow, Fault, GradeRow, Grades, Hit, Item, Judgement, Recorded,
    SessionState, part,
};
use crate::digest::Digest;
use crate::plan::key;
use crate::store::{Store, StoreError};

/// One graded answer.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// Its id.
    pub id: String,
    /// Its cell.
    pub cell: BTreeMap<String, String>,
    /// Task id.
    pub task: String,
    /// What is known beside its transcript.
    pub session: Recorded,
    /// How the session ended.
    pub state: SessionState,
    /// Values by column, of all graders and judges.
    pub values: BTreeMap<String, Option<f64>>,
    /// Remarks of those that graded it: what could not be honoured.
    pub notes: Vec<String>,
    /// What was found where.
    pub items: Vec<Item>,
    /// Citations in their order.
    pub citations: Vec<CitationRow>,
    /// What the judge's replies came to.
    pub judgement: Option<Judgement>,
    /// What the profile's own scorer would have written.
    pub scored: Option<Digest>,
    /// What a server returned, of a row that is about a server alone, and the rank of the first right result.
    pub results: Option<(Vec<Hit>, Option<u64>)>,
    /// The transcript's part.
    pub transcript: Option<Digest>,
    /// Recipes of the nodes that graded it.
    recipes: Vec<Digest>,
}

/// Nodes of one cell.
#[derive(Default)]
struct Nodes<'a> {
    read: Option<&'a RunNode>,
    grades: Vec<&'a RunNode>,
    judged: Option<&'a RunNode>,
}

fn get<T: serde::de::DeserializeOwned>(
    store: &Store,
    node: &RunNode,
    name: &str,
) -> Result<Option<T>, StoreError> {
    let Some(digest) = node.record.part(name) else { return Ok(None) };
    let found = artifact::from_json(&store.get(&digest)?);
    found.map(Some).map_err(|e| StoreError::Unreadable { what: node.id.clone(), why: e.to_string() })
}

fn lines<T: serde::de::DeserializeOwned>(
    store: &Store,
    node: &RunNode,
    name: &str,
) -> Result<Vec<T>, StoreError> {
    let Some(digest) = node.record.part(name) else { return Ok(Vec::new()) };
    artifact::from_lines(&store.get(&digest)?)
        .map_err(|e| StoreError::Unreadable { what: node.id.clone(), why: e.to_string() })
}

impl RunView {
    /// Hands every answer of the run to `each`, in the order of arms and cells.
    ///
    /// # Errors
    /// When an artifact can't be read, and those of `each`.
    pub fn answers<E: From<StoreError>>(
        &self,
        store: &Store,
        mut each: impl FnMut(Answer) -> Result<(), E>,
    ) -> Result<(), E> {
        let nodes = self.of_kinds(store, &["read", "grade"])?;
        let mut cells: BTreeMap<(usize, &BTreeMap<String, String>), Nodes<'_>> = BTreeMap::new();
        for node in &nodes {
            let arm = node.cell.get("arm");
            let at = self.arms.iter().position(|name| Some(name) == arm).unwrap_or(usize::MAX);
            let cell = cells.entry((at, &node.cell)).or_default();
            if node.record.part(part::TRANSCRIPT).is_some() {
                cell.read = Some(node);
            } else if node.record.part(part::ITEMS).is_some() {
                cell.grades.push(node);
            } else if node.record.part(part::JUDGEMENT).is_some() {
                cell.judged = Some(node);
            }
        }
        for ((_, cell), nodes) in cells {
            if let Some(read) = nodes.read {
                each(one(store, cell, read, &nodes)?)?;
            }
        }
        Ok(())
    }
}

fn one(
    store: &Store,
    cell: &BTreeMap<String, String>,
    read: &RunNode,
    nodes: &Nodes<'_>,
) -> Result<Answer, StoreError> {
    let session: Recorded = get(store, read, part::SESSION)?.unwrap_or_default();
    let of_list = read.record.part(part::RESULTS).is_some();
    let listed: Vec<AnswerRow> = lines(store, read, part::RESULTS)?;
    let listed: Vec<Hit> = listed.into_iter().flat_map(|row| row.results).collect();
    let mut out = Answer {
        id: session.id.clone(),
        cell: cell.clone(),
        session,
        state: get(store, read, part::CELL)?.unwrap_or_default(),
        transcript: read.record.part(part::TRANSCRIPT),
        results: of_list.then_some((listed, None)),
        ..Answer::default()
    };
    for node in nodes.grades.iter().copied().chain(nodes.judged) {
        let is_judge = node.record.part(part::JUDGEMENT).is_some();
        let grades: Grades = get(store, node, part::GRADES)?.unwrap_or_default();
        out.notes.extend(grades.notes);
        for row in grades.rows {
            if !is_judge {
                out.state = counted(std::mem::take(&mut out.state), &row);
            }
            out.task = row.task;
            out.values.extend(row.values);
            if let Some((_, rank)) = &mut out.results {
                *rank = rank.or(row.rank);
            }
        }
        out.items.extend(lines(store, node, part::ITEMS)?);
        out.citations.extend(lines(store, node, part::CITATIONS)?);
        out.scored = node.record.part(part::SCORED).or(out.scored);
        out.recipes.push(node.record.recipe);
    }
    // A judge's replies may be there although the answer was lost.
    if artifact::is_lost(out.state.state, out.state.fault) {
        out.values.values_mut().for_each(|value| *value = None);
    }
    if let Some(node) = nodes.judged {
        out.judgement = get(store, node, part::JUDGEMENT)?;
    }
    Ok(out)
}

/// How a session ended by the rules of the profile that graded it, with a note where those count what
/// others don't.
fn counted(state: SessionState, row: &GradeRow) -> SessionState {
    if row.state != CellState::Valid || state.state == CellState::Valid {
        return state;
    }
    let mut notes = state.notes.clone();
    notes.push(format!("counted by the profile's rules: {}", state_words(&state)));
    SessionState { server: state.server, tools: state.tools, notes, ..SessionState::default() }
}

impl Answer {
    /// Its line among the rows of a report.
    #[must_use]
    pub fn row(&self) -> Value {
        let axis = |name: &str| self.cell.get(name);
        let mut out = json!({
            "answer": self.id,
            "arm": axis("arm"),
            "repo": axis("repo").unwrap_or(&self.session.repo),
            "task": self.task,
            "replicate": axis("replicate").and_then(|r| r.parse().ok()).unwrap_or(self.session.replicate),
            "model": self.session.model,
            "state": self.state.state,
            "codes": self.state.codes,
            "fault": self.state.fault,
            "error": self.state.error,
            "grades": self.values,
            "items": self.items,
            "citations": self.citations,
            "judgement": self.judgement,
            "notes": self.remarks().collect::<Vec<_>>(),
            "label": self.session.label,
        });
        if let Some((results, rank)) = &self.results {
            out["results"] = json!(results);
            out["rank"] = json!(rank);
        }
        out
    }

    /// What changes no state: of the session, and of its grades. Its label is told elsewhere.
    pub fn remarks(&self) -> impl Iterator<Item = &String> {
        self.state.notes.iter().filter(|note| **note != self.session.label).chain(&self.notes)
    }

    /// The prose that spans count in.
    ///
    /// # Errors
    /// When the transcript can't be read.
    pub fn text(&self, store: &Store) -> Result<String, StoreError> {
        let Some(digest) = self.transcript else { return Ok(String::new()) };
        let transcript: Transcript = artifact::from_json(&store.get(&digest)?)
            .map_err(|e| StoreError::Unreadable { what: self.id.clone(), why: e.to_string() })?;
        Ok(transcript.answer())
    }
}

/// One thing that is different.
struct Change<'a> {
    answer: &'a str,
    arm: Option<&'a String>,
    task: &'a str,
}

impl Change<'_> {
    fn json(&self, what: &str, name: &str, before: Value, after: Value, why: &[Value]) -> Value {
        json!({
            "answer": self.answer, "arm": self.arm, "task": self.task, "what": what, "item": name,
            "before": before, "after": after, "why": why,
        })
    }
}

/// How the grades of two runs differ:
///
/// ```text
/// {"a", "b": RUN, "flips": [{"answer", "arm", "task", "what", "item", "before", "after", "why"}],
///  "moved": [{"answer", "arm", "task", "what": "grade", "item": METRIC, "before", "after", "why"}],
///  "arms": [{"arm", "metric", "before", "after"}], "rankings": [{"by", "before": [ARM], "after": [ARM]}],
///  "only_a", "only_b": [ID], "equal": N}
/// ```
///
/// `what` of a flip is `item` (found or not), `citation` (its bucket), `state`; null is an item that
/// one of the runs doesn't have. Where an item has another name than before (a check was given
/// another value), `was` is the old one. `why` names the fields of the recipes that differ.
///
/// # Errors
/// When an artifact can't be read.
pub fn diff(store: &Store, a: &RunView, b: &RunView) -> Result<Value, StoreError> {
    let mut before: BTreeMap<String, Answer> = BTreeMap::new();
    a.answers(store, |answer| {
        before.insert(key_of(&answer), answer);
        Ok::<(), StoreError>(())
    })?;
    let (mut flips, mut moved, mut only_b, mut equal) = (Vec::new(), Vec::new(), Vec::new(), 0u64);
    b.answers(store, |after| {
        let Some(before) = before.remove(&key_of(&after)) else {
            only_b.push(json!(after.id));
            return Ok::<(), StoreError>(());
        };
        let count = flips.len() + moved.len();
        compare(store, &before, &after, &mut flips, &mut moved)?;
        equal += u64::from(count == flips.len() + moved.len());
        Ok(())
    })?;
    rows(store, a, b, &mut flips, &mut equal)?;
    let only_a: Vec<&String> = before.values().map(|answer| &answer.id).collect();
    let (arms, rankings) = results(&a.result(store)?, &b.result(store)?);
    Ok(json!({
        "a": a.run, "b": b.run, "flips": flips, "moved": moved, "arms": arms, "rankings": rankings,
        "only_a": only_a, "only_b": only_b, "equal": equal,
    }))
}

/// What tells an answer from the others of a run.
fn key_of(answer: &Answer) -> String {
    format!("{:?}", (&answer.id, &answer.cell))
}

fn compare(
    store: &Store,
    before: &Answer,
    after: &Answer,
    flips: &mut Vec<Value>,
    moved: &mut Vec<Value>,
) -> Result<(), StoreError> {
    let change = Change { answer: &after.id, arm: after.cell.get("arm"), task: &after.task };
    let why = why(store, &before.recipes, &after.recipes)?;
    if before.state.state != after.state.state {
        let codes = |state: &SessionState| json!([state.state, state.codes]);
        flips.push(change.json("state", "state", codes(&before.state), codes(&after.state), &[]));
    }
    for (a, b) in paired(&before.items, &after.items) {
        let hit = |item: Option<&Item>| item.and_then(|item| item.hit);
        if hit(a) == hit(b) {
            continue;
        }
        let name = |item: &Item| format!("{} {}", item.grader, item.id);
        let Some(shown) = b.or(a) else { continue };
        let mut flip = change.json("item", &name(shown), json!(hit(a)), json!(hit(b)), &why);
        if let Some(was) = a.map(name).filter(|was| *was != name(shown)) {
            flip["was"] = json!(was);
        }
        flips.push(flip);
    }
    let citations = |answer: &Answer| -> BTreeMap<String, String> {
        answer.citations.iter().map(|c| (format!("{}:{}", c.file, c.locator), c.bucket.clone())).collect()
    };
    pairs(&citations(before), &citations(after), |name, a, b| {
        flips.push(change.json("citation", name, json!(a), json!(b), &why));
    });
    pairs(&before.values, &after.values, |name, a, b| {
        moved.push(change.json(
            "grade",
            name,
            json!(a.copied().flatten()),
            json!(b.copied().flatten()),
            &why,
        ));
    });
    Ok(())
}

/// Items of two gradings that are about the same: of the same name, else what stands in the same
/// place of a grader and step, where as many came as went (a check that was given another value).
fn paired<'a>(a: &'a [Item], b: &'a [Item]) -> Vec<(Option<&'a Item>, Option<&'a Item>)> {
    let name = |item: &'a Item| (item.grader.as_str(), item.id.as_str());
    let by_name = |items: &'a [Item]| -> BTreeMap<_, &'a Item> {
        items.iter().map(|item| (name(item), item)).collect()
    };
    let (before, after) = (by_name(a), by_name(b));
    let mut others: BTreeMap<_, [Vec<&Item>; 2]> = BTreeMap::new();
    let mut out = Vec::new();
    for (side, items, there) in [(0, a, &after), (1, b, &before)] {
        for item in items {
            match there.get(&name(item)) {
                Some(same) if side == 1 => out.push((Some(*same), Some(item))),
                Some(_) => {}
                None => others.entry((&item.grader, item.step)).or_default()[side].push(item),
            }
        }
    }
    for [gone, come] in others.into_values() {
        if gone.len() == come.len() {
            out.extend(gone.into_iter().map(Some).zip(come.into_iter().map(Some)));
        } else {
            out.extend(gone.into_iter().map(|item| (Some(item), None)));
            out.extend(come.into_iter().map(|item| (None, Some(item))));
        }
    }
    out
}

/// Values under one name that are not equal.
fn pairs<T: PartialEq>(
    a: &BTreeMap<String, T>,
    b: &BTreeMap<String, T>,
    mut each: impl FnMut(&str, Option<&T>, Option<&T>),
) {
    let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let (a, b) = (a.get(name), b.get(name));
        if a != b {
            each(name, a, b);
        }
    }
}

/// Fields in which the recipes of an answer's grades differ.
fn why(store: &Store, before: &[Digest], after: &[Digest]) -> Result<Vec<Value>, StoreError> {
    let mut out = Vec::new();
    for (before, after) in before.iter().zip(after).filter(|(a, b)| a != b) {
        let read = |digest: &Digest| -> Result<Value, StoreError> {
            serde_json::from_slice(&store.get(digest)?)
                .map_err(|e| StoreError::Unreadable { what: "a recipe".to_owned(), why: e.to_string() })
        };
        let reasons = key::differences(&read(before)?, &read(after)?);
        out.extend(reasons.into_iter().map(|reason| json!(reason)));
    }
    Ok(out)
}

/// Rows of sessions without an answer of an agent: questions whose hits flipped.
fn rows(
    store: &Store,
    a: &RunView,
    b: &RunView,
    flips: &mut Vec<Value>,
    equal: &mut u64,
) -> Result<(), StoreError> {
    type Rows = BTreeMap<(BTreeMap<String, String>, String), (GradeRow, Digest)>;
    let of = |view: &RunView| -> Result<Rows, StoreError> {
        let mut out = Rows::new();
        for node in view.of_kinds(store, &["grade"])? {
            if node.record.part(part::ITEMS).is_some() {
                continue;
            }
            let grades: Grades = get(store, &node, part::GRADES)?.unwrap_or_default();
            for row in grades.rows {
                out.insert((node.cell.clone(), row.task.clone()), (row, node.record.recipe));
            }
        }
        Ok(out)
    };
    let (before, after) = (of(a)?, of(b)?);
    for ((cell, task), (row, recipe)) in &after {
        let Some((old, old_recipe)) = before.get(&(cell.clone(), task.clone())) else { continue };
        let whole = |value: &Option<f64>| *value == Some(0.0) || *value == Some(1.0);
        let count = flips.len();
        let id = cell.iter().map(|(axis, value)| format!("{axis}={value}")).collect::<Vec<_>>().join(",");
        let change = Change { answer: &id, arm: cell.get("arm"), task };
        let flat = |row: &GradeRow| -> BTreeMap<String, Option<f64>> {
            row.values.iter().filter(|(_, v)| whole(v)).map(|(name, v)| (name.clone(), *v)).collect()
        };
        let reasons = why(store, &[*old_recipe], &[*recipe])?;
        pairs(&flat(old), &flat(row), |name, a, b| {
            flips.push(change.json(
                "item",
                name,
                json!(a.copied().flatten()),
                json!(b.copied().flatten()),
                &reasons,
            ));
        });
        *equal += u64::from(count == flips.len());
    }
    Ok(())
}

/// What moved per arm, and which rankings changed.
fn results(a: &Value, b: &Value) -> (Vec<Value>, Vec<Value>) {
    let values = |result: &Value| -> BTreeMap<(String, String), Value> {
        let mut out = BTreeMap::new();
        for arm in result["arms"].as_array().into_iter().flatten() {
            let name = arm["arm"].as_str().unwrap_or_default();
            for (metric, found) in arm["metrics"].as_object().into_iter().flatten() {
                out.insert((name.to_owned(), metric.clone()), found["value"].clone());
            }
        }
        out
    };
    let (before, after) = (values(a), values(b));
    let mut keys: Vec<&(String, String)> = before.keys().chain(after.keys()).collect();
    keys.sort();
    keys.dedup();
    let known = |value: Option<&Value>| value.filter(|v| !v.is_null()).cloned();
    let arms = keys
        .into_iter()
        .filter(|key| known(before.get(*key)) != known(after.get(*key)))
        .map(|key| json!({ "arm": key.0, "metric": key.1, "before": before.get(key), "after": after.get(key) }))
        .collect();
    let order = |result: &Value| -> Vec<Value> {
        result["ranking"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|row| json!([row["rank"], row["arm"]]))
            .collect()
    };
    let (was, is) = (order(a), order(b));
    let rankings = if was == is {
        Vec::new()
    } else {
        vec![json!({ "by": b["ranked_by"], "before": was, "after": is })]
    };
    (arms, rankings)
}

/// A cell's state in words.
#[must_use]
pub fn state_words(state: &SessionState) -> String {
    let word = match state.state {
        CellState::Valid => "valid",
        CellState::Invalid => "invalid",
        CellState::Error => "error",
        CellState::Missing => "missing",
        CellState::Excluded => "excluded",
    };
    let mut out = word.to_owned();
    if !state.codes.is_empty() {
        out.extend([" (", &state.codes.join(", "), ")"]);
    }
    match state.fault {
        Some(Fault::Harness) => out.push_str(", not the treatment's fault"),
        Some(Fault::Treatment) => out.push_str(", the treatment's fault"),
        None => {}
    }
    if let Some(error) = &state.error {
        out.extend([": ", error]);
    }
    out
}
