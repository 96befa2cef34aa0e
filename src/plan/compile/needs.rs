//! The graph of stages: who needs whom, in which order, and no circles.

use std::collections::{BTreeSet, HashMap};

use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use super::{Cx, Unknown};
use crate::diag::Diagnostic;
use crate::manifest::path::KeyPath;
use crate::manifest::pipeline::Stage;

/// The needs of all stages.
#[derive(Debug)]
pub(super) struct Graph {
    /// Of each stage the indexes of those that it needs.
    pub(super) needs: Vec<Vec<usize>>,
    /// Whether a need of it is unknown, faulty or part of a circle.
    pub(super) unsure: Vec<bool>,
    /// All stages, each after those that it needs; none when that can't be.
    pub(super) order: Option<Vec<usize>>,
}

impl Graph {
    pub(super) fn read(cx: &mut Cx<'_>, stages: &[(String, Stage)]) -> Self {
        let declared = cx.declared("stage");
        let known: HashMap<&str, usize> =
            stages.iter().enumerate().map(|(at, (name, _))| (name.as_str(), at)).collect();
        let mut needs = vec![Vec::new(); stages.len()];
        let mut unsure = vec![false; stages.len()];
        for (at, (name, stage)) in stages.iter().enumerate() {
            let path = KeyPath::of(&["stage", name, "needs"]);
            // Part of the list was faulty: what is left is not all.
            let written = cx.document.get(&path).map_or(0, |v| v.as_array().map_or(1, Vec::len));
            unsure[at] = written != stage.needs.len();
            for (index, need) in stage.needs.iter().enumerate() {
                let place = cx.at(&path.index(index));
                match known.get(need.as_str()).copied() {
                    Some(other) if needs[at].contains(&other) => {
                        let message = format!("`{name}` names `{need}` twice among its needs");
                        cx.error("duplicate-value", message, place, "take one out");
                    }
                    Some(other) => needs[at].push(other),
                    None => {
                        unsure[at] = true;
                        if !declared.contains(need) {
                            let what = Unknown {
                                code: "unknown-stage",
                                noun: "stage",
                                table: Some("stage"),
                                none: "declare it as `[stage.NAME]`",
                            };
                            // Its own name is no candidate.
                            let others: Vec<String> =
                                declared.iter().filter(|d| *d != name).cloned().collect();
                            cx.unknown(&what, need, &others, place);
                        }
                    }
                }
            }
        }
        let order = order(cx, stages, &needs, &mut unsure);
        // Doubt is inherited.
        let mut changed = true;
        while changed {
            changed = false;
            for at in 0..stages.len() {
                if !unsure[at] && needs[at].iter().any(|need| unsure[*need]) {
                    unsure[at] = true;
                    changed = true;
                }
            }
        }
        Self { needs, unsure, order }
    }
}

fn order(
    cx: &mut Cx<'_>,
    stages: &[(String, Stage)],
    needs: &[Vec<usize>],
    unsure: &mut [bool],
) -> Option<Vec<usize>> {
    let mut graph: DiGraph<usize, ()> = DiGraph::new();
    let nodes: Vec<NodeIndex> = (0..stages.len()).map(|at| graph.add_node(at)).collect();
    for (at, needed) in needs.iter().enumerate() {
        for need in needed {
            graph.add_edge(nodes[*need], nodes[at], ());
        }
    }
    let mut sound = true;
    let mut circles: Vec<Vec<usize>> = tarjan_scc(&graph)
        .into_iter()
        .map(|component| component.into_iter().map(|node| graph[node]).collect::<Vec<_>>())
        .filter(|component| component.len() > 1 || needs[component[0]].contains(&component[0]))
        .collect();
    for circle in &mut circles {
        circle.sort_unstable();
    }
    circles.sort();
    for circle in circles {
        sound = false;
        for at in &circle {
            unsure[*at] = true;
        }
        report(cx, stages, needs, &circle);
    }
    if !sound {
        return None;
    }
    // Among those whose needs are met the first of the manifest comes next.
    let mut out: Vec<usize> = Vec::with_capacity(stages.len());
    let mut missing: Vec<usize> = needs.iter().map(Vec::len).collect();
    let mut readers = vec![Vec::new(); stages.len()];
    for (at, needed) in needs.iter().enumerate() {
        for need in needed {
            readers[*need].push(at);
        }
    }
    let mut ready: BTreeSet<usize> = (0..stages.len()).filter(|at| missing[*at] == 0).collect();
    while let Some(next) = ready.pop_first() {
        out.push(next);
        for reader in &readers[next] {
            missing[*reader] -= 1;
            if missing[*reader] == 0 {
                ready.insert(*reader);
            }
        }
    }
    (out.len() == stages.len()).then_some(out)
}

/// Names one way round the circle: from its first stage along the needs back to it.
fn report(cx: &mut Cx<'_>, stages: &[(String, Stage)], needs: &[Vec<usize>], circle: &[usize]) {
    let start = circle[0];
    let way = way_round(needs, circle, start);
    let name = |at: usize| stages[at].0.as_str();
    let mut words: Vec<&str> = way.iter().map(|at| name(*at)).collect();
    words.push(name(start));
    let message = match way.len() {
        1 => format!("the stage `{}` needs itself", name(start)),
        _ => format!("stages need each other in a circle: {}", words.join(" -> ")),
    };
    let mut error = Diagnostic::error("cycle", message);
    for (index, at) in way.iter().enumerate() {
        let next = way.get(index + 1).copied().unwrap_or(start);
        let path = KeyPath::of(&["stage", name(*at), "needs"]);
        let entry = stages[*at].1.needs.iter().position(|need| need == name(next)).unwrap_or(0);
        error = error.at(cx.at(&path.index(entry)), format!("`{}` needs `{}`", name(*at), name(next)));
    }
    cx.found.push(error.help("take one of these needs out"));
}

/// The shortest way from `start` along needs back to `start`, inside the circle.
fn way_round(needs: &[Vec<usize>], circle: &[usize], start: usize) -> Vec<usize> {
    let mut before = vec![None; needs.len()];
    let mut queue = std::collections::VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        for need in &needs[at] {
            if *need == start {
                let mut way = vec![at];
                while let Some(earlier) = before[way[way.len() - 1]] {
                    way.push(earlier);
                }
                way.reverse();
                return way;
            }
            if circle.contains(need) && before[*need].is_none() {
                before[*need] = Some(at);
                queue.push_back(*need);
            }
        }
    }
    vec![start]
}
