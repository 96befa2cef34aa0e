//! From stages over axes to nodes and edges: by arithmetic, without any
//! search for patterns.
//!
//! Everything lies flat: a node is a number, its cell a slice of one list, and
//! nodes that read the same others share one list of them, so that a matrix of
//! 100,000 nodes is a handful of allocations.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::ops::Range;

use super::compiled::{Compiled, Stage, Work};
use crate::manifest::axis;

/// All nodes of a pipeline, numbered; those of one stage stand together,
/// stages in the order of [`Compiled::stages`].
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Per stage: its first node, and behind the last stage the number of nodes.
    first: Vec<usize>,
    /// Per node: its stage.
    stages: Vec<u32>,
    /// Cells of all nodes, stage after stage.
    cells: Vec<u32>,
    /// Per stage: where its cells begin, and how many axes it has.
    strides: Vec<(usize, usize)>,
    /// Per node and need: the part of `ups` that holds what it reads.
    needs: Vec<(u32, u32)>,
    /// Per stage: where its `needs` begin, and how many it has.
    need_strides: Vec<(usize, usize)>,
    ups: Vec<u32>,
    /// Per node: where its dependents begin in `downs`; one more at the end.
    down_from: Vec<u32>,
    downs: Vec<u32>,
}

impl Graph {
    /// Expands a pipeline. Work is proportional to nodes plus edges.
    #[must_use]
    pub fn expand(pipeline: &Compiled) -> Self {
        let mut graph = Self::default();
        for (at, stage) in pipeline.stages.iter().enumerate() {
            graph.first.push(graph.stages.len());
            graph.strides.push((graph.cells.len(), stage.axes.len()));
            graph.need_strides.push((graph.needs.len(), stage.needs.len()));
            let joins: Vec<Join> =
                stage.needs.iter().map(|need| Join::new(&mut graph, pipeline, stage, *need)).collect();
            let cells = Cells::of(pipeline, stage);
            graph.reserve(cells.count, stage);
            for cell in cells.iter() {
                let before = graph.needs.len();
                graph.needs.extend(joins.iter().map(|join| join.of(cell)));
                let lists = &graph.needs[before..];
                // A node all of whose inputs don't exist (an arm without a server) doesn't either; an
                // answer is there without any.
                let stands_alone = matches!(stage.work, Work::Recorded);
                if !stands_alone && !lists.is_empty() && lists.iter().all(|(_, count)| *count == 0) {
                    graph.needs.truncate(before);
                    continue;
                }
                graph.stages.push(narrow(at));
                graph.cells.extend_from_slice(cell);
            }
        }
        graph.first.push(graph.stages.len());
        graph.turn_round();
        graph
    }

    fn reserve(&mut self, count: usize, stage: &Stage) {
        self.stages.reserve(count);
        self.cells.reserve(count * stage.axes.len());
        self.needs.reserve(count * stage.needs.len());
    }

    /// Finds each node's dependents from what each node needs.
    fn turn_round(&mut self) {
        let count = self.len();
        let mut from = vec![0u32; count + 1];
        for node in 0..count {
            for up in self.ups(node) {
                from[up as usize + 1] += 1;
            }
        }
        for at in 1..from.len() {
            from[at] += from[at - 1];
        }
        let mut next = from.clone();
        let mut downs = vec![0u32; from.last().copied().unwrap_or(0) as usize];
        for node in 0..count {
            for up in self.ups(node) {
                let slot = &mut next[up as usize];
                downs[*slot as usize] = narrow(node);
                *slot += 1;
            }
        }
        (self.down_from, self.downs) = (from, downs);
    }

    /// Number of nodes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.stages.len()
    }

    /// Whether there is no node.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.stages.is_empty()
    }

    /// Indexes of the nodes of a stage.
    #[must_use]
    pub fn of_stage(&self, stage: usize) -> Range<usize> {
        self.first[stage]..self.first[stage + 1]
    }

    /// Index of a node's stage.
    #[must_use]
    pub fn stage(&self, node: usize) -> usize {
        self.stages[node] as usize
    }

    /// Per axis of the node's stage: index of the value.
    #[must_use]
    pub fn values(&self, node: usize) -> &[u32] {
        let stage = self.stage(node);
        let (start, stride) = self.strides[stage];
        let at = start + (node - self.first[stage]) * stride;
        &self.cells[at..at + stride]
    }

    /// Per need of the node's stage: indexes of the nodes that it reads, in axis order.
    pub fn needs(&self, node: usize) -> impl Iterator<Item = &[u32]> {
        let stage = self.stage(node);
        let (start, stride) = self.need_strides[stage];
        let at = start + (node - self.first[stage]) * stride;
        self.needs[at..at + stride].iter().map(|(from, count)| {
            let from = *from as usize;
            &self.ups[from..from + *count as usize]
        })
    }

    /// Indexes of all nodes that it reads.
    pub fn ups(&self, node: usize) -> impl Iterator<Item = u32> {
        self.needs(node).flatten().copied()
    }

    /// Indexes of the nodes that read it.
    #[must_use]
    pub fn dependents(&self, node: usize) -> &[u32] {
        &self.downs[self.down_from[node] as usize..self.down_from[node + 1] as usize]
    }

    /// The node's name: `stage[axis=value,...]`, axes in manifest order.
    #[must_use]
    pub fn id(&self, pipeline: &Compiled, node: usize) -> String {
        let mut out = String::new();
        self.write_id(pipeline, node, &mut out);
        out
    }

    /// Adds the node's name to a text.
    pub fn write_id(&self, pipeline: &Compiled, node: usize, out: &mut String) {
        let stage = &pipeline.stages[self.stage(node)];
        out.push_str(&stage.name);
        for (at, (axis, value)) in stage.axes.iter().zip(self.values(node)).enumerate() {
            let axis = &pipeline.axes[*axis];
            let sign = if at == 0 { '[' } else { ',' };
            let _ = write!(out, "{sign}{}={}", axis.name, axis.values[*value as usize].text);
        }
        if !stage.axes.is_empty() {
            out.push(']');
        }
    }

    /// The node's cell as axis name to value.
    #[must_use]
    pub fn cell(&self, pipeline: &Compiled, node: usize) -> BTreeMap<String, String> {
        let stage = &pipeline.stages[self.stage(node)];
        let places = stage.axes.iter().zip(self.values(node));
        places
            .map(|(axis, value)| {
                let axis = &pipeline.axes[*axis];
                (axis.name.clone(), axis.values[*value as usize].text.clone())
            })
            .collect()
    }

    /// Longest chain of dependents below each node, itself included: the
    /// scheduler takes the longest first.
    #[must_use]
    pub fn chains(&self) -> Vec<u32> {
        let mut chains = vec![1u32; self.len()];
        for index in (0..self.len()).rev() {
            let below = self.dependents(index).iter().map(|d| chains[*d as usize]).max().unwrap_or(0);
            chains[index] = below + 1;
        }
        chains
    }
}

/// Cells of a stage, in axis order.
struct Cells {
    count: usize,
    stride: usize,
    flat: Vec<u32>,
}

impl Cells {
    fn of(pipeline: &Compiled, stage: &Stage) -> Self {
        let mut out = Self { count: 1, stride: 0, flat: Vec::new() };
        for (place, axis_index) in stage.axes.iter().enumerate() {
            let axis = &pipeline.axes[*axis_index];
            let parent = axis.of.and_then(|of| stage.axes[..place].iter().position(|a| *a == of));
            let mut longer = Self { count: 0, stride: out.stride + 1, flat: Vec::new() };
            for cell in out.iter() {
                for (value, entry) in axis.values.iter().enumerate() {
                    let belongs = match (parent, entry.parent) {
                        (Some(at), Some(of)) => cell[at] == narrow(of),
                        _ => true,
                    };
                    if belongs {
                        longer.flat.extend_from_slice(cell);
                        longer.flat.push(narrow(value));
                        longer.count += 1;
                    }
                }
            }
            out = longer;
        }
        // What a server published is read where there is a server.
        let source = match (&stage.work, stage.needs.first()) {
            (Work::Read { .. }, Some(need)) => &pipeline.stages[*need].work,
            (work, _) => work,
        };
        let needs_server = matches!(source, Work::Ingest | Work::Warmup | Work::Retrieval { .. });
        let arm_place = stage.axes.iter().position(|a| pipeline.axes[*a].name == axis::ARM);
        if pipeline.exclude.is_empty() && !(needs_server && arm_place.is_some()) {
            return out;
        }
        let mut left = Self { count: 0, stride: out.stride, flat: Vec::new() };
        for cell in out.iter() {
            let served = match arm_place {
                Some(at) if needs_server => pipeline.arms[cell[at] as usize].server.is_some(),
                _ => true,
            };
            if served && survives(pipeline, stage, cell) {
                left.flat.extend_from_slice(cell);
                left.count += 1;
            }
        }
        left
    }

    fn iter(&self) -> impl Iterator<Item = &[u32]> {
        (0..self.count).map(|at| &self.flat[at * self.stride..(at + 1) * self.stride])
    }
}

/// Whether some cell of the whole matrix that is not excluded projects on this one.
fn survives(pipeline: &Compiled, stage: &Stage, cell: &[u32]) -> bool {
    if pipeline.exclude.is_empty() {
        return true;
    }
    let value_of =
        |axis_index: usize| stage.axes.iter().position(|a| *a == axis_index).map(|at| cell[at] as usize);
    // Axes that excludes name and the stage doesn't have: their values are tried out.
    let mut open: Vec<usize> = Vec::new();
    for exclude in &pipeline.exclude {
        for name in exclude.keys() {
            if let Some(at) = pipeline.axes.iter().position(|a| a.name == *name)
                && value_of(at).is_none()
                && !open.contains(&at)
            {
                open.push(at);
            }
        }
    }
    open.sort_unstable();
    let mut chosen: Vec<(usize, usize)> =
        stage.axes.iter().zip(cell).map(|(a, v)| (*a, *v as usize)).collect();
    any_survivor(pipeline, &open, &mut chosen)
}

fn any_survivor(pipeline: &Compiled, open: &[usize], chosen: &mut Vec<(usize, usize)>) -> bool {
    let Some((axis_index, rest)) = open.split_first() else {
        return !pipeline.exclude.iter().any(|exclude| {
            exclude.iter().all(|(name, value)| {
                chosen.iter().any(|(a, v)| {
                    pipeline.axes[*a].name == *name && pipeline.axes[*a].values[*v].text == *value
                })
            })
        });
    };
    let axis = &pipeline.axes[*axis_index];
    for (value, entry) in axis.values.iter().enumerate() {
        let parent = axis.of.and_then(|of| chosen.iter().find(|(a, _)| *a == of).map(|(_, v)| *v));
        if parent.is_some() && entry.parent.is_some() && parent != entry.parent {
            continue;
        }
        chosen.push((*axis_index, value));
        let survived = any_survivor(pipeline, rest, chosen);
        chosen.pop();
        if survived {
            return true;
        }
    }
    false
}

/// How a stage's cells meet the nodes of one of its needs.
struct Join {
    /// Per axis that both have: its place in the stage's cell, and its number of values.
    shared: Vec<(usize, u64)>,
    groups: Groups,
}

/// The part of [`Graph::ups`] that holds the nodes of a need, by their values
/// on the shared axes written as one number.
enum Groups {
    /// Where most numbers have nodes.
    Dense(Vec<(u32, u32)>),
    Sparse(HashMap<u64, (u32, u32)>),
}

impl Join {
    fn new(graph: &mut Graph, pipeline: &Compiled, stage: &Stage, need: usize) -> Self {
        let other = &pipeline.stages[need];
        let (mut shared, mut theirs) = (Vec::new(), Vec::new());
        let mut numbers = 1u64;
        for (place, axis) in stage.axes.iter().enumerate() {
            if let Some(there) = other.axes.iter().position(|a| a == axis) {
                let radix = pipeline.axes[*axis].values.len() as u64;
                shared.push((place, radix));
                theirs.push((there, radix));
                numbers = numbers.saturating_mul(radix);
            }
        }
        let nodes = graph.of_stage(need);
        let mut sorted: Vec<(u64, u32)> =
            nodes.map(|node| (number(&theirs, graph.values(node)), narrow(node))).collect();
        // Within one number the order of the nodes, which is that of the axes, stays.
        sorted.sort_unstable();
        let dense = numbers <= 4 * sorted.len() as u64 + 1024;
        let mut groups = if dense {
            Groups::Dense(vec![(0, 0); usize::try_from(numbers).unwrap_or(0)])
        } else {
            Groups::Sparse(HashMap::new())
        };
        for group in sorted.chunk_by(|a, b| a.0 == b.0) {
            let part = (narrow(graph.ups.len()), narrow(group.len()));
            graph.ups.extend(group.iter().map(|(_, node)| *node));
            match &mut groups {
                Groups::Dense(list) => list[usize::try_from(group[0].0).unwrap_or(0)] = part,
                Groups::Sparse(map) => {
                    map.insert(group[0].0, part);
                }
            }
        }
        Self { shared, groups }
    }

    fn of(&self, cell: &[u32]) -> (u32, u32) {
        let number = number(&self.shared, cell);
        let found = match &self.groups {
            Groups::Dense(list) => usize::try_from(number).ok().and_then(|at| list.get(at)),
            Groups::Sparse(map) => map.get(&number),
        };
        found.copied().unwrap_or((0, 0))
    }
}

/// The values at some places of a cell as one number; `u64` holds the product
/// of all axes of the largest matrix many times.
fn number(places: &[(usize, u64)], cell: &[u32]) -> u64 {
    places.iter().fold(0, |n, (at, radix)| n.saturating_mul(*radix).saturating_add(u64::from(cell[*at])))
}

#[expect(clippy::expect_used, reason = "a plan of four thousand million nodes would not fit in memory")]
fn narrow(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32 nodes")
}
