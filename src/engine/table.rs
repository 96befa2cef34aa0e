//! What is known of every node: its key, and its record once it has one.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::EngineError;
use super::memo::{Memo, Part};
use super::world::World;
use crate::digest::Digest;
use crate::manifest::axis;
use crate::plan::compiled::Compiled;
use crate::plan::expand::Graph;
use crate::plan::key::{self, At, Keyed, NoRecipe, Upstream};
use crate::stage::{self, Input};
use crate::store::{Outcome, PartRef, Record, Standing, Store};

/// Parts of a node by name; nodes of one stage share the names.
pub type Parts = Arc<[(Arc<str>, PartRef)]>;

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
    /// It has the artifact that a node of the memo had.
    Kept(u32),
    /// Its artifact was in the store.
    Found(Parts),
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
    /// What the last run settled, where the index has lost nothing since.
    pub(super) memo: Option<Arc<Memo>>,
    /// The memo is of these very nodes.
    pub(super) valid: bool,
    /// Nodes of a memo of other nodes by their keys.
    by_key: HashMap<Digest, u32>,
    /// Names of parts that were seen.
    names: Vec<Arc<str>>,
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
            valid: false,
            by_key: HashMap::new(),
            names: Vec::new(),
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
        let Some(memo) = world.memo().filter(|memo| memo.standing() == standing) else { return Ok(()) };
        self.memo = Some(Arc::clone(memo));
        let same = self.basis == Some(memo.basis())
            && memo.nodes() == self.graph.len()
            && memo.stages() == self.pipeline.stages.len();
        let Some(changed) = same.then(|| world.changed(memo)).flatten() else {
            // Of other nodes or not: what a key stands for is the same.
            let nodes = (0u32..).take(memo.nodes());
            self.by_key = nodes.filter_map(|node| Some((memo.key(node as usize)?, node))).collect();
            return Ok(());
        };
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
                self.status[node] = Status::Kept(narrow(node));
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
        self.valid = true;
        Ok(())
    }

    /// What the memo or else the store has under some keys, in their order.
    ///
    /// # Errors
    /// When the store can't be read.
    pub fn look_up(&mut self, keys: &[Digest], store: &Store) -> Result<Vec<Option<Status>>, EngineError> {
        let mut out: Vec<Option<Status>> =
            keys.iter().map(|key| self.by_key.get(key).map(|node| Status::Kept(*node))).collect();
        let open: Vec<usize> = (0..keys.len()).filter(|at| out[*at].is_none()).collect();
        let wanted: Vec<Digest> = open.iter().map(|at| keys[*at]).collect();
        for (at, parts) in open.into_iter().zip(store.parts(&wanted)?) {
            let Some(parts) = parts else { continue };
            let parts = parts.into_iter().map(|(name, part)| (self.name(name), part)).collect();
            out[at] = Some(Status::Found(parts));
        }
        Ok(out)
    }

    fn name(&mut self, name: String) -> Arc<str> {
        if let Some(known) = self.names.iter().find(|known| ***known == *name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.names.push(Arc::clone(&name));
        name
    }

    /// The parts that a node shows, by name; none when it has no artifact.
    pub(super) fn shown(&self, node: usize) -> Option<Vec<Part<'_>>> {
        let part =
            |name, part: &PartRef| Part { name, tree: part.tree, digest: part.digest, size: part.size };
        match &self.status[node] {
            Status::Done(record) => {
                Some(record.parts.iter().map(|(name, p)| part(name.as_str(), p)).collect())
            }
            Status::Found(parts) => Some(parts.iter().map(|(name, p)| part(&**name, p)).collect()),
            Status::Kept(before) => Some(self.memo.as_ref()?.parts(*before as usize)?.collect()),
            _ => None,
        }
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
        if !self.valid {
            // All nodes are touched.
            return;
        }
        let failed = |record: &Record| record.outcome == Outcome::Error;
        let (parts, key) = match (&self.memo, &self.status[node]) {
            (_, Status::Kept(_)) => return,
            (Some(_), Status::Done(record)) if failed(record) => (true, true),
            (Some(memo), Status::Done(_) | Status::Found(_)) => {
                let before = memo.parts(node).map(Iterator::collect::<Vec<_>>);
                (before.is_none() || before != self.shown(node), memo.key(node) != self.key(node))
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
            (Status::Kept(before), Some(memo)) => memo.key(*before as usize),
            (Status::Done(record), _) => Some(record.key),
            _ => self.keys[node],
        }
    }

    /// Parts of a node that has an artifact.
    #[must_use]
    pub fn parts(&self, node: usize) -> Option<BTreeMap<String, PartRef>> {
        let part = |part: Part<'_>| {
            let reference = PartRef { digest: part.digest, size: part.size, tree: part.tree };
            (part.name.to_owned(), reference)
        };
        Some(self.shown(node)?.into_iter().map(part).collect())
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
        self.asked.insert(narrow(node), asked);
        keyed
    }

    fn upstreams(&self, node: usize, cell: &BTreeMap<String, String>) -> Vec<Vec<Upstream>> {
        self.over_needs(node, |up| {
            let their = self.graph.cell(&self.pipeline, up);
            let parts = self.shown(up);
            let parts = parts.map(|p| p.into_iter().map(|p| (p.name.to_owned(), p.digest)).collect());
            let state = match &self.status[up] {
                Status::Done(record) if record.outcome == Outcome::Error => "error",
                Status::Done(_) | Status::Found(_) | Status::Kept(_) => "valid",
                Status::Failed | Status::Blocked | Status::Skipped => "missing",
                Status::Open | Status::Due | Status::Waiting => "open",
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

/// Values of `their` cell on axes that `own` lacks.
fn extra(own: &BTreeMap<String, String>, their: &BTreeMap<String, String>) -> Vec<(String, String)> {
    their.iter().filter(|(axis, _)| !own.contains_key(*axis)).map(|(a, v)| (a.clone(), v.clone())).collect()
}

fn narrow(node: usize) -> u32 {
    u32::try_from(node).unwrap_or(u32::MAX)
}
