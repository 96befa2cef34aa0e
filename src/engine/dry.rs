//! The dry run: what would run, and why. Starts no process, writes nothing.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::EngineError;
use super::table::{Status, Table};
use super::world::World;
use crate::manifest::pipeline::Effect;
use crate::plan::key::{Keyed, NoRecipe, Reason, differences};
use crate::store::{Outcome, Store};

/// What would become of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// Its artifact is in the store.
    Reuse,
    /// It would be executed.
    Run,
    /// Its key depends on a node that must run first.
    Wait,
}

/// A node of a dry run.
#[derive(Clone, Debug, Serialize)]
pub struct Planned {
    /// Index of the node.
    #[serde(skip)]
    pub node: usize,
    /// Node id.
    pub id: String,
    /// Stage.
    pub stage: String,
    /// Cell.
    pub cell: BTreeMap<String, String>,
    /// What would become of it.
    pub action: Action,
    /// Why, for what does not reuse.
    pub reasons: Vec<Reason>,
    /// Cost range in US dollars; null where nothing is paid.
    pub usd: Option<Value>,
    /// Key, when it is known.
    #[serde(skip)]
    pub key: Option<crate::digest::Digest>,
}

/// What would become of the nodes of one stage.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    /// Nodes that reuse.
    pub reuse: usize,
    /// Nodes that run.
    pub run: usize,
    /// Nodes that wait.
    pub wait: usize,
}

impl Counts {
    /// All nodes.
    #[must_use]
    pub fn total(&self) -> usize {
        self.reuse + self.run + self.wait
    }
}

/// A dry run.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// Per stage.
    pub stages: Vec<Counts>,
    /// Nodes, in order: all, or those that do not reuse.
    pub nodes: Vec<Planned>,
}

/// Plans all nodes, or those that `chosen` flags. The plan lists those that
/// reuse only where `all` are wanted.
///
/// # Errors
/// When the store can't be read.
pub fn plan(
    table: &mut Table,
    world: &World,
    store: Option<&Store>,
    chosen: Option<&[bool]>,
    all: bool,
) -> Result<Plan, EngineError> {
    if let Some(store) = store {
        table.recall(world, store, &[])?;
    }
    let mut out = Plan { stages: vec![Counts::default(); table.pipeline.stages.len()], nodes: Vec::new() };
    for stage in 0..table.pipeline.stages.len() {
        let nodes: Vec<usize> = table.graph.of_stage(stage).collect();
        for some in nodes.chunks(WAVE) {
            wave(table, world, store, (chosen, all), some, &mut out)?;
        }
    }
    Ok(out)
}

/// Nodes that are keyed and looked up together.
const WAVE: usize = 256;

/// Plans some nodes of one stage, none of which reads another.
fn wave(
    table: &mut Table,
    world: &World,
    store: Option<&Store>,
    (chosen, all): (Option<&[bool]>, bool),
    nodes: &[usize],
    out: &mut Plan,
) -> Result<(), EngineError> {
    let mut keyed: Vec<Option<Result<Keyed, NoRecipe>>> = Vec::with_capacity(nodes.len());
    let mut keys = Vec::new();
    for node in nodes.iter().copied() {
        let wanted = chosen.is_none_or(|flags| flags[node]);
        let one = (wanted && table.is_touched(node)).then(|| table.keyed(node, world));
        keys.extend(one.iter().flatten().map(|keyed| keyed.key));
        keyed.push(one);
    }
    let mut hits = match store {
        Some(store) => table.look_up(&keys, store)?.into_iter(),
        None => Vec::new().into_iter(),
    };
    for (node, one) in nodes.iter().copied().zip(keyed) {
        if chosen.is_some_and(|flags| !flags[node]) {
            table.status[node] = Status::Skipped;
            table.touch_below(node);
            continue;
        }
        let (status, action, reasons) = match (one, store) {
            (None, _) => (Status::Kept(u32::try_from(node).unwrap_or(u32::MAX)), Action::Reuse, Vec::new()),
            (Some(Ok(_)), None) => (Status::Due, Action::Run, vec![Reason::new_node()]),
            (Some(Ok(keyed)), Some(store)) => {
                if let Some(status) = hits.next().flatten() {
                    (status, Action::Reuse, Vec::new())
                } else {
                    let id = table.id(node);
                    let reasons = why(store, &table.pipeline.name, &id, &keyed.key, &keyed.recipe)?;
                    (Status::Due, Action::Run, reasons)
                }
            }
            (Some(Err(NoRecipe::Wait(what))), store) => {
                (Status::Waiting, Action::Wait, vec![waits(table, node, &what, store)?])
            }
            (Some(Err(NoRecipe::Impossible(why))), _) => {
                let reason = Reason { field: "recipe".to_owned(), old: Value::Null, new: json!(why) };
                (Status::Due, Action::Run, vec![reason])
            }
        };
        table.status[node] = status;
        table.touch_below(node);
        let stage = table.graph.stage(node);
        let counts = &mut out.stages[stage];
        match action {
            Action::Reuse => counts.reuse += 1,
            Action::Run => counts.run += 1,
            Action::Wait => counts.wait += 1,
        }
        let usd = price(table, node, action, store)?;
        if all || action != Action::Reuse {
            out.nodes.push(Planned {
                node,
                id: table.id(node),
                stage: table.pipeline.stages[stage].name.clone(),
                cell: table.graph.cell(&table.pipeline, node),
                action,
                reasons,
                usd,
                key: table.key(node),
            });
        }
    }
    Ok(())
}

/// What a paid node that does not reuse may cost, and whether it has been paid for before.
fn price(
    table: &Table,
    node: usize,
    action: Action,
    store: Option<&Store>,
) -> Result<Option<Value>, EngineError> {
    let stage = &table.pipeline.stages[table.graph.stage(node)];
    if action == Action::Reuse || stage.effect != Effect::Paid {
        return Ok(None);
    }
    let before = match store {
        Some(store) => store.paid_of_cell(&table.pipeline.name, &table.id(node))?,
        None => None,
    };
    Ok(Some(json!({ "low": 0, "high": stage.limits.usd, "respend": before.is_some() })))
}

/// Why a node waits for `what`.
fn waits(table: &Table, node: usize, what: &str, store: Option<&Store>) -> Result<Reason, EngineError> {
    let seen = match store {
        Some(store) => store.newest_of_cell(&table.pipeline.name, &table.id(node))?.is_some(),
        None => false,
    };
    if !seen {
        return Ok(Reason::new_node());
    }
    Ok(Reason { field: format!("needs.{what}"), old: Value::Null, new: json!("to be run first") })
}

/// Why a node whose key has no artifact must run: what differs from the
/// newest recipe of the same cell.
///
/// # Errors
/// When the store can't be read.
pub fn why(
    store: &Store,
    pipeline: &str,
    id: &str,
    key: &crate::digest::Digest,
    recipe: &Value,
) -> Result<Vec<Reason>, EngineError> {
    if let Some(attempt) = store.newest_attempt(key)? {
        let old = match attempt.outcome {
            Outcome::Error => "error",
            Outcome::Done => store.refusal(&attempt.digest())?.unwrap_or("broken"),
        };
        return Ok(vec![Reason { field: "state".to_owned(), old: json!(old), new: Value::Null }]);
    }
    let Some(newest) = store.newest_of_cell(pipeline, id)? else { return Ok(vec![Reason::new_node()]) };
    let old: Value = match store.get(&newest.recipe) {
        Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or(Value::Null),
        Err(_) => Value::Null,
    };
    let reasons = differences(&old, recipe);
    Ok(if reasons.is_empty() { vec![Reason::new_node()] } else { reasons })
}
