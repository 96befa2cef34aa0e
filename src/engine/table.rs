//! What is known of every node: its key, and its record once it has one.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::world::World;
use crate::digest::Digest;
use crate::manifest::axis;
use crate::plan::compiled::Compiled;
use crate::plan::expand::Graph;
use crate::plan::key::{self, At, Keyed, NoRecipe, Upstream};
use crate::stage::{self, Input};
use crate::store::Record;

/// Where a node stands.
#[derive(Clone, Debug, Default)]
pub enum Status {
    /// Not looked at yet.
    #[default]
    Open,
    /// Not chosen by a selector.
    Skipped,
    /// It has to run; its key is known.
    Due,
    /// Its key depends on what has to run first.
    Waiting,
    /// It has an artifact.
    Done(Arc<Record>),
    /// It could produce none.
    Failed,
    /// It can't run because another one failed.
    Blocked,
}

/// The nodes of a plan with all that is known of them.
pub struct Table {
    /// The pipeline.
    pub pipeline: Arc<Compiled>,
    /// Its nodes.
    pub graph: Graph,
    /// Where each stands.
    pub status: Vec<Status>,
    /// Keys as far as they are known.
    pub keys: Vec<Option<Digest>>,
}

impl Table {
    /// Expands a pipeline.
    #[must_use]
    pub fn new(pipeline: Arc<Compiled>) -> Self {
        let graph = Graph::expand(&pipeline);
        let count = graph.nodes.len();
        Self { pipeline, graph, status: vec![Status::Open; count], keys: vec![None; count] }
    }

    /// Id of a node.
    #[must_use]
    pub fn id(&self, node: usize) -> String {
        self.graph.id(&self.pipeline, node)
    }

    /// Index of a node's arm.
    #[must_use]
    pub fn arm(&self, cell: &BTreeMap<String, String>) -> Option<usize> {
        let name = cell.get(axis::ARM)?;
        self.pipeline.arms.iter().position(|a| a.name == *name)
    }

    /// Recipe and key of a node from what is known of its needs.
    ///
    /// # Errors
    /// When it depends on what has still to run, or can't be given at all.
    pub fn keyed(&self, node: usize, world: &World) -> Result<Keyed, NoRecipe> {
        let stage = &self.pipeline.stages[self.graph.nodes[node].stage];
        let cell = self.graph.cell(&self.pipeline, node);
        let needs = self.upstreams(node, &cell);
        let at = At {
            pipeline: &self.pipeline,
            stage,
            cell: &cell,
            arm_index: self.arm(&cell),
            needs: &needs,
            world,
        };
        key::keyed(stage::kind(&stage.work), &at)
    }

    fn upstreams(&self, node: usize, cell: &BTreeMap<String, String>) -> Vec<Vec<Upstream>> {
        self.over_needs(node, |up| {
            let their = self.graph.cell(&self.pipeline, up);
            let (parts, state) = match &self.status[up] {
                Status::Done(record) => (
                    Some(record.parts.iter().map(|(n, p)| (n.clone(), p.digest)).collect()),
                    match record.outcome {
                        crate::store::Outcome::Done => "valid",
                        crate::store::Outcome::Error => "error",
                    },
                ),
                Status::Failed | Status::Blocked | Status::Skipped => (None, "missing"),
                Status::Open | Status::Due | Status::Waiting => (None, "open"),
            };
            let (id, key) = (self.id(up), self.keys[up]);
            Upstream { id, extra: extra(cell, &their), cell: their, key, parts, state }
        })
    }

    /// The nodes that a node reads, with their records.
    #[must_use]
    pub fn inputs(&self, node: usize) -> Vec<Vec<Input>> {
        let cell = self.graph.cell(&self.pipeline, node);
        self.over_needs(node, |up| {
            let their = self.graph.cell(&self.pipeline, up);
            let record = match &self.status[up] {
                Status::Done(record) => Some(Record::clone(record)),
                _ => None,
            };
            Input { id: self.id(up), extra: extra(&cell, &their), cell: their, record }
        })
    }

    /// What `one` makes of each node that a node reads, need by need.
    fn over_needs<T>(&self, node: usize, one: impl Fn(usize) -> T) -> Vec<Vec<T>> {
        let needs = self.graph.nodes[node].needs.iter();
        needs.map(|list| list.iter().map(|up| one(*up as usize)).collect()).collect()
    }

    /// The failed or blocked node that keeps this one from running, if any.
    #[must_use]
    pub fn blocked_by(&self, node: usize) -> Option<usize> {
        let stage = &self.pipeline.stages[self.graph.nodes[node].stage];
        if stage::kind(&stage.work).tolerates_missing() {
            return None;
        }
        let needs = self.graph.nodes[node].needs.iter().flatten();
        needs.map(|up| *up as usize).find(|up| matches!(self.status[*up], Status::Failed | Status::Blocked))
    }
}

/// Values of `their` cell on axes that `own` lacks.
fn extra(own: &BTreeMap<String, String>, their: &BTreeMap<String, String>) -> Vec<(String, String)> {
    their.iter().filter(|(axis, _)| !own.contains_key(*axis)).map(|(a, v)| (a.clone(), v.clone())).collect()
}
