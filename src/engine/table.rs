//! What is known of every node: its key, and its record once it has one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::EngineError;
use super::memo::Memo;
use super::world::World;
use crate::digest::Digest;
use crate::manifest::axis;
use crate::plan::compiled::Compiled;
use crate::plan::expand::Graph;
use crate::plan::key::{self, At, Keyed, NoRecipe, Upstream};
use crate::stage::{self, Input};
use crate::store::{Outcome, PartRef, Record, Standing, Store};

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
    /// It has the artifact that it had in the last run.
    Kept,
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
    /// Keys that were made since the table was.
    pub(super) keys: Vec<Option<Digest>>,
    /// What the last run settled, where that can be built on.
    pub(super) memo: Option<Arc<Memo>>,
    /// Nodes that must be keyed: something that their recipe rests on may have changed.
    touched: Vec<bool>,
    /// Nodes of which it is open whether they are as they were.
    pub(super) open: Vec<bool>,
    /// Per node that was keyed: the patterns that it asked for.
    pub(super) asked: BTreeMap<u32, Vec<u32>>,
    /// Nodes whose record may not be the one that its key stands for.
    pub(super) unsure: BTreeSet<usize>,
    pub(super) basis: Option<Digest>,
    pub(super) standing: Option<Standing>,
    /// Per stage: the object that lists the keys of all its nodes.
    pub(super) listings: Vec<Option<Digest>>,
    /// Per node, where listings are known: its key is another one than the listing has.
    pub(super) deviates: Vec<bool>,
    /// Something is known that the memo does not hold.
    pub(super) changed: bool,
}

impl Table {
    /// Expands a pipeline; nothing is known of its nodes.
    #[must_use]
    pub fn new(pipeline: Arc<Compiled>) -> Self {
        let graph = Graph::expand(&pipeline);
        let count = graph.len();
        Self {
            status: vec![Status::Open; count],
            keys: vec![None; count],
            memo: None,
            touched: vec![true; count],
            open: vec![true; count],
            asked: BTreeMap::new(),
            unsure: BTreeSet::new(),
            basis: None,
            standing: None,
            listings: vec![None; pipeline.stages.len()],
            deviates: vec![false; count],
            changed: true,
            pipeline,
            graph,
        }
    }

    /// Takes over from the last run what is so still: see [`super::memo`]. The nodes
    /// `again` are looked at whatever is known of them.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn recall(&mut self, world: &World, store: &Store, again: &[usize]) -> Result<(), EngineError> {
        self.basis = world.basis(&self.pipeline);
        let standing = store.standing()?;
        self.standing = Some(standing);
        let Some(memo) = world.memo() else { return Ok(()) };
        let same = self.basis == Some(memo.basis())
            && memo.standing() == standing
            && memo.nodes() == self.graph.len()
            && memo.stages() == self.pipeline.stages.len();
        if !same {
            return Ok(());
        }
        let Some(changed) = world.changed(memo) else { return Ok(()) };
        let mut touched: Vec<bool> = (0..self.graph.len()).map(|node| !memo.is_done(node)).collect();
        if !changed.is_empty() {
            for (query, node) in memo.uses() {
                if changed.binary_search(&query).is_ok()
                    && let Some(flag) = touched.get_mut(node as usize)
                {
                    *flag = true;
                }
            }
        }
        for node in again {
            touched[*node] = true;
        }
        let mut open = touched.clone();
        for node in 0..open.len() {
            if open[node] {
                for below in self.graph.dependents(node) {
                    open[*below as usize] = true;
                }
            } else {
                self.status[node] = Status::Kept;
            }
        }
        if touched.contains(&true) {
            // Its patterns have the numbers that they had.
            world.recall();
        }
        for (stage, listing) in self.listings.iter_mut().enumerate() {
            *listing = memo.listing(stage);
        }
        self.deviates = (0..self.graph.len()).map(|node| memo.deviates(node)).collect();
        (self.touched, self.open, self.changed) = (touched, open, false);
        self.memo = Some(Arc::clone(memo));
        Ok(())
    }

    /// Whether it is open if a node is as it was in the last run.
    #[must_use]
    pub fn is_open(&self, node: usize) -> bool {
        self.open[node]
    }

    /// Whether a node must be keyed; else it is as it was in the last run.
    #[must_use]
    pub fn is_touched(&self, node: usize) -> bool {
        self.touched[node]
    }

    /// Has those keyed that read this node, if what it shows them has changed.
    pub fn touch_below(&mut self, node: usize) {
        let (parts, key) = match (&self.memo, &self.status[node]) {
            (_, Status::Kept) => return,
            (Some(memo), Status::Done(record)) if record.outcome == Outcome::Done => {
                (!same_parts(memo, node, record), memo.key(node) != Some(record.key))
            }
            _ => (true, true),
        };
        self.changed |= parts || key;
        self.deviates[node] |= key;
        for below in self.graph.dependents(node) {
            let below = *below as usize;
            if parts || (key && self.kind(below).reads_keys()) {
                self.touched[below] = true;
            }
        }
    }

    fn kind(&self, node: usize) -> &'static dyn key::Kind {
        stage::kind(&self.pipeline.stages[self.graph.stage(node)].work)
    }

    /// Id of a node.
    #[must_use]
    pub fn id(&self, node: usize) -> String {
        self.graph.id(&self.pipeline, node)
    }

    /// Key of a node, when it is known.
    #[must_use]
    pub fn key(&self, node: usize) -> Option<Digest> {
        match (&self.status[node], &self.memo) {
            (Status::Kept, Some(memo)) => memo.key(node),
            _ => self.keys[node],
        }
    }

    /// Parts of a node that has an artifact.
    #[must_use]
    pub fn parts(&self, node: usize) -> Option<BTreeMap<String, PartRef>> {
        match (&self.status[node], &self.memo) {
            (Status::Done(record), _) => Some(record.parts.clone()),
            (Status::Kept, Some(memo)) => {
                let part = |part: super::memo::Part<'_>| {
                    let reference = PartRef { digest: part.digest, size: part.size, tree: part.tree };
                    (part.name.to_owned(), reference)
                };
                Some(memo.parts(node)?.map(part).collect())
            }
            _ => None,
        }
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
    pub fn keyed(&mut self, node: usize, world: &World) -> Result<Keyed, NoRecipe> {
        let stage = &self.pipeline.stages[self.graph.stage(node)];
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
        drop(world.asked());
        let keyed = key::keyed(stage::kind(&stage.work), &at);
        let asked = world.asked();
        if let Ok(keyed) = &keyed {
            self.keys[node] = Some(keyed.key);
        }
        self.asked.insert(u32::try_from(node).unwrap_or(u32::MAX), asked);
        keyed
    }

    fn upstreams(&self, node: usize, cell: &BTreeMap<String, String>) -> Vec<Vec<Upstream>> {
        self.over_needs(node, |up| {
            let their = self.graph.cell(&self.pipeline, up);
            let (parts, state) = match (&self.status[up], &self.memo) {
                (Status::Done(record), _) => (
                    Some(record.parts.iter().map(|(n, p)| (n.clone(), p.digest)).collect()),
                    match record.outcome {
                        Outcome::Done => "valid",
                        Outcome::Error => "error",
                    },
                ),
                (Status::Kept, Some(memo)) => (
                    memo.parts(up).map(|parts| parts.map(|p| (p.name.to_owned(), p.digest)).collect()),
                    "valid",
                ),
                (Status::Failed | Status::Blocked | Status::Skipped, _) => (None, "missing"),
                _ => (None, "open"),
            };
            Upstream {
                id: self.id(up),
                extra: extra(cell, &their),
                cell: their,
                key: self.key(up),
                parts,
                state,
            }
        })
    }

    /// The nodes that a node reads, with what they produced.
    #[must_use]
    pub fn inputs(&self, node: usize) -> Vec<Vec<Input>> {
        let cell = self.graph.cell(&self.pipeline, node);
        self.over_needs(node, |up| {
            let their = self.graph.cell(&self.pipeline, up);
            let record = match &self.status[up] {
                Status::Done(record) => Some(Arc::clone(record)),
                _ => None,
            };
            Input {
                id: self.id(up),
                extra: extra(&cell, &their),
                cell: their,
                key: self.key(up),
                parts: self.parts(up),
                record,
            }
        })
    }

    /// What `one` makes of each node that a node reads, need by need.
    fn over_needs<T>(&self, node: usize, one: impl Fn(usize) -> T) -> Vec<Vec<T>> {
        self.graph.needs(node).map(|list| list.iter().map(|up| one(*up as usize)).collect()).collect()
    }

    /// The failed or blocked node that keeps this one from running, if any.
    #[must_use]
    pub fn blocked_by(&self, node: usize) -> Option<usize> {
        if self.kind(node).tolerates_missing() {
            return None;
        }
        let mut needs = self.graph.ups(node).map(|up| up as usize);
        needs.find(|up| matches!(self.status[*up], Status::Failed | Status::Blocked))
    }

    /// A record that the key may not stand for: it is not kept for the next run.
    pub fn doubt(&mut self, node: usize) {
        self.unsure.insert(node);
    }
}

/// Whether a node shows the parts that it showed in the last run.
fn same_parts(memo: &Memo, node: usize, record: &Record) -> bool {
    let Some(mut before) = memo.parts(node) else { return false };
    let same = record.parts.iter().all(|(name, part)| {
        before.next().is_some_and(|b| {
            b.name == name && b.tree == part.tree && b.digest == part.digest && b.size == part.size
        })
    });
    same && before.next().is_none()
}

/// Values of `their` cell on axes that `own` lacks.
fn extra(own: &BTreeMap<String, String>, their: &BTreeMap<String, String>) -> Vec<(String, String)> {
    their.iter().filter(|(axis, _)| !own.contains_key(*axis)).map(|(a, v)| (a.clone(), v.clone())).collect()
}
