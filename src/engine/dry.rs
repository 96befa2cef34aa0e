//! The dry run: what would run, and why. Starts no process, writes nothing.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::EngineError;
use super::table::{Status, Table};
use super::world::World;
use crate::plan::key::{NoRecipe, Reason, differences};
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

/// Plans all nodes, or those that `chosen` flags.
///
/// # Errors
/// When the store can't be read.
pub fn plan(
    table: &mut Table,
    world: &World,
    store: Option<&Store>,
    chosen: Option<&[bool]>,
) -> Result<Vec<Planned>, EngineError> {
    let mut out = Vec::with_capacity(table.graph.nodes.len());
    for node in 0..table.graph.nodes.len() {
        if chosen.is_some_and(|flags| !flags[node]) {
            table.status[node] = Status::Skipped;
            continue;
        }
        let id = table.id(node);
        let stage = table.pipeline.stages[table.graph.nodes[node].stage].name.clone();
        let cell = table.graph.cell(&table.pipeline, node);
        let (action, reasons) = one(table, node, &id, world, store)?;
        table.status[node] = match action {
            Action::Run => Status::Due,
            Action::Wait => Status::Waiting,
            Action::Reuse => std::mem::take(&mut table.status[node]),
        };
        out.push(Planned { id, stage, cell, action, reasons, usd: None, key: table.keys[node] });
    }
    Ok(out)
}

fn one(
    table: &mut Table,
    node: usize,
    id: &str,
    world: &World,
    store: Option<&Store>,
) -> Result<(Action, Vec<Reason>), EngineError> {
    let keyed = match table.keyed(node, world) {
        Ok(keyed) => keyed,
        Err(NoRecipe::Wait(what)) => {
            let seen = match store {
                Some(store) => store.newest_of_cell(&table.pipeline.name, id)?.is_some(),
                None => false,
            };
            if !seen {
                return Ok((Action::Wait, vec![Reason::new_node()]));
            }
            let reason =
                Reason { field: format!("needs.{what}"), old: Value::Null, new: json!("to be run first") };
            return Ok((Action::Wait, vec![reason]));
        }
        Err(NoRecipe::Impossible(why)) => {
            let reason = Reason { field: "recipe".to_owned(), old: Value::Null, new: json!(why) };
            return Ok((Action::Run, vec![reason]));
        }
    };
    table.keys[node] = Some(keyed.key);
    let Some(store) = store else { return Ok((Action::Run, vec![Reason::new_node()])) };
    if let Some(record) = store.hit(&keyed.key)? {
        table.status[node] = Status::Done(std::sync::Arc::new(record));
        return Ok((Action::Reuse, Vec::new()));
    }
    Ok((Action::Run, why(store, &table.pipeline.name, id, &keyed.key, &keyed.recipe)?))
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
