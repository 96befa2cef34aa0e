//! From stages over axes to nodes and edges: by arithmetic, without any
//! search for patterns.

use std::collections::{BTreeMap, HashMap};

use super::compiled::{Compiled, Stage, Work};
use crate::manifest::axis;

/// All nodes of a pipeline.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// Nodes; those of one stage stand together, stages in the order of [`Compiled::stages`].
    pub nodes: Vec<Node>,
    /// Per stage: index of its first node, and behind the last stage the number of nodes.
    pub first: Vec<usize>,
}

/// A stage at a cell.
#[derive(Clone, Debug)]
pub struct Node {
    /// Index of its stage.
    pub stage: usize,
    /// Per axis of the stage: index of the value.
    pub cell: Vec<u32>,
    /// Per need of the stage: indexes of the nodes that it reads, in axis order.
    pub needs: Vec<Vec<u32>>,
    /// Indexes of the nodes that read it.
    pub dependents: Vec<u32>,
}

impl Graph {
    /// Expands a pipeline. Work is proportional to nodes plus edges.
    #[must_use]
    pub fn expand(pipeline: &Compiled) -> Self {
        let mut graph = Self::default();
        for (at, stage) in pipeline.stages.iter().enumerate() {
            graph.first.push(graph.nodes.len());
            let joins: Vec<Join> =
                stage.needs.iter().map(|need| Join::new(&graph, pipeline, stage, *need)).collect();
            for cell in cells(pipeline, stage) {
                let needs: Vec<Vec<u32>> = joins.iter().map(|join| join.of(&cell)).collect();
                // A node all of whose inputs don't exist (an arm without a server) doesn't either.
                if !needs.is_empty() && needs.iter().all(Vec::is_empty) {
                    continue;
                }
                graph.nodes.push(Node { stage: at, cell, needs, dependents: Vec::new() });
            }
        }
        graph.first.push(graph.nodes.len());
        for index in 0..graph.nodes.len() {
            let up: Vec<u32> = graph.nodes[index].needs.iter().flatten().copied().collect();
            for from in up {
                graph.nodes[from as usize].dependents.push(narrow(index));
            }
        }
        graph
    }

    /// Indexes of the nodes of a stage.
    #[must_use]
    pub fn of_stage(&self, stage: usize) -> std::ops::Range<usize> {
        self.first[stage]..self.first[stage + 1]
    }

    /// The node's name: `stage[axis=value,...]`, axes in manifest order.
    #[must_use]
    pub fn id(&self, pipeline: &Compiled, node: usize) -> String {
        let node = &self.nodes[node];
        let stage = &pipeline.stages[node.stage];
        if stage.axes.is_empty() {
            return stage.name.clone();
        }
        let cell: Vec<String> = stage
            .axes
            .iter()
            .zip(&node.cell)
            .map(|(axis, value)| {
                let axis = &pipeline.axes[*axis];
                format!("{}={}", axis.name, axis.values[*value as usize].text)
            })
            .collect();
        format!("{}[{}]", stage.name, cell.join(","))
    }

    /// The node's cell as axis name to value.
    #[must_use]
    pub fn cell(&self, pipeline: &Compiled, node: usize) -> BTreeMap<String, String> {
        let node = &self.nodes[node];
        pipeline.stages[node.stage]
            .axes
            .iter()
            .zip(&node.cell)
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
        let mut chains = vec![1u32; self.nodes.len()];
        for index in (0..self.nodes.len()).rev() {
            let below = self.nodes[index].dependents.iter().map(|d| chains[*d as usize]).max().unwrap_or(0);
            chains[index] = below + 1;
        }
        chains
    }
}

/// Cells of a stage, in axis order.
fn cells(pipeline: &Compiled, stage: &Stage) -> Vec<Vec<u32>> {
    let mut out = vec![Vec::new()];
    for (place, axis_index) in stage.axes.iter().enumerate() {
        let axis = &pipeline.axes[*axis_index];
        let parent = axis.of.and_then(|of| stage.axes[..place].iter().position(|a| *a == of));
        let mut longer = Vec::new();
        for cell in out {
            for (value, entry) in axis.values.iter().enumerate() {
                let value = narrow(value);
                let belongs = match (parent, entry.parent) {
                    (Some(at), Some(of)) => cell[at] == narrow(of),
                    _ => true,
                };
                if belongs {
                    let mut next: Vec<u32> = cell.clone();
                    next.push(value);
                    longer.push(next);
                }
            }
        }
        out = longer;
    }
    let needs_server = matches!(
        stage.work,
        Work::Ingest | Work::Warmup | Work::Retrieval { .. } | Work::Read { .. }
    );
    let arm_place = stage.axes.iter().position(|a| pipeline.axes[*a].name == axis::ARM);
    out.retain(|cell| {
        let served = match arm_place {
            Some(at) if needs_server => pipeline.arms[cell[at] as usize].server.is_some(),
            _ => true,
        };
        served && survives(pipeline, stage, cell)
    });
    out
}

/// Whether some cell of the whole matrix that is not excluded projects on this one.
fn survives(pipeline: &Compiled, stage: &Stage, cell: &[u32]) -> bool {
    if pipeline.exclude.is_empty() {
        return true;
    }
    let value_of = |axis_index: usize| {
        stage.axes.iter().position(|a| *a == axis_index).map(|at| cell[at] as usize)
    };
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
    let mut chosen: Vec<(usize, usize)> = stage.axes.iter().zip(cell).map(|(a, v)| (*a, *v as usize)).collect();
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
    /// Places in the stage's cell of the axes that both have.
    shared: Vec<usize>,
    /// Nodes of the need by their values on the shared axes, in axis order.
    nodes: HashMap<Vec<u32>, Vec<u32>>,
}

impl Join {
    fn new(graph: &Graph, pipeline: &Compiled, stage: &Stage, need: usize) -> Self {
        let other = &pipeline.stages[need];
        let (mut shared, mut theirs) = (Vec::new(), Vec::new());
        for (place, axis) in stage.axes.iter().enumerate() {
            if let Some(there) = other.axes.iter().position(|a| a == axis) {
                shared.push(place);
                theirs.push(there);
            }
        }
        let mut nodes: HashMap<Vec<u32>, Vec<u32>> = HashMap::new();
        for index in graph.of_stage_so_far(need) {
            let cell = &graph.nodes[index].cell;
            let key: Vec<u32> = theirs.iter().map(|at| cell[*at]).collect();
            nodes.entry(key).or_default().push(narrow(index));
        }
        Self { shared, nodes }
    }

    fn of(&self, cell: &[u32]) -> Vec<u32> {
        let key: Vec<u32> = self.shared.iter().map(|at| cell[*at]).collect();
        self.nodes.get(&key).cloned().unwrap_or_default()
    }
}

impl Graph {
    fn of_stage_so_far(&self, stage: usize) -> std::ops::Range<usize> {
        let end = self.first.get(stage + 1).copied().unwrap_or(self.nodes.len());
        self.first[stage]..end
    }
}

#[expect(clippy::expect_used, reason = "a plan of four thousand million nodes would not fit in memory")]
fn narrow(index: usize) -> u32 {
    u32::try_from(index).expect("fewer than 2^32 nodes")
}
