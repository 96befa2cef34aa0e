//! Selectors: which nodes a command is about.
//!
//! `stage`, `stage[axis=value,...]`, globs in both, `+SEL` with all that it
//! needs, `SEL+` with all that needs it.

use std::collections::BTreeMap;

use petgraph::Direction;
use petgraph::graph::{DiGraph, NodeIndex};
use petgraph::visit::{Dfs, Reversed};

use super::compiled::Compiled;
use super::expand::Graph;

/// A selector that can't be read or names nothing.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum SelectError {
    /// It has no closing bracket, or an axis without a value.
    #[error("`{0}` is not a selector; write `stage`, `stage[axis=value]`, `+stage` or `stage+`")]
    Malformed(String),
    /// It names nothing.
    #[error("`{selector}` names no node{}", hint.as_ref().map(|h| format!("; is `{h}` meant?")).unwrap_or_default())]
    Nothing {
        /// As written.
        selector: String,
        /// The nearest stage.
        hint: Option<String>,
    },
}

/// The plan as a graph of the library that the house uses for graphs.
#[must_use]
pub fn digraph(graph: &Graph) -> DiGraph<u32, ()> {
    let mut out = DiGraph::with_capacity(graph.nodes.len(), graph.nodes.len());
    for index in 0..graph.nodes.len() {
        out.add_node(u32::try_from(index).unwrap_or(u32::MAX));
    }
    for (index, node) in graph.nodes.iter().enumerate() {
        for up in node.needs.iter().flatten() {
            out.add_edge(NodeIndex::new(*up as usize), NodeIndex::new(index), ());
        }
    }
    out
}

/// Nodes that a selector names, ascending.
///
/// # Errors
/// When it is malformed or names nothing.
pub fn select(pipeline: &Compiled, graph: &Graph, selector: &str) -> Result<Vec<usize>, SelectError> {
    let (up, rest) = selector.strip_prefix('+').map_or((false, selector), |rest| (true, rest));
    let (down, rest) = rest.strip_suffix('+').map_or((false, rest), |rest| (true, rest));
    let malformed = || SelectError::Malformed(selector.to_owned());
    let (name, wanted) = match rest.split_once('[') {
        None => (rest, Vec::new()),
        Some((name, cell)) => {
            let cell = cell.strip_suffix(']').ok_or_else(malformed)?;
            let mut wanted = Vec::new();
            for pair in cell.split(',').filter(|p| !p.is_empty()) {
                let (axis, value) = pair.split_once('=').ok_or_else(malformed)?;
                wanted.push((axis.trim(), value.trim()));
            }
            (name, wanted)
        }
    };
    if name.is_empty() || name.contains(']') {
        return Err(malformed());
    }
    let mut chosen = Vec::new();
    for (at, stage) in pipeline.stages.iter().enumerate() {
        if !glob(name, &stage.name) {
            continue;
        }
        for index in graph.of_stage(at) {
            let cell = graph.cell(pipeline, index);
            if wanted.iter().all(|(axis, value)| cell.get(*axis).is_some_and(|v| glob(value, v))) {
                chosen.push(index);
            }
        }
    }
    if chosen.is_empty() {
        let names = pipeline.stages.iter().map(|s| s.name.as_str());
        let hint = crate::diag::nearest(name, names).map(str::to_owned);
        return Err(SelectError::Nothing { selector: selector.to_owned(), hint });
    }
    if up || down {
        let digraph = digraph(graph);
        let mut seen = vec![false; graph.nodes.len()];
        for index in &chosen {
            seen[*index] = true;
            if down {
                let mut walk = Dfs::new(&digraph, NodeIndex::new(*index));
                while let Some(next) = walk.next(&digraph) {
                    seen[next.index()] = true;
                }
            }
            if up {
                let reversed = Reversed(&digraph);
                let mut walk = Dfs::new(reversed, NodeIndex::new(*index));
                while let Some(next) = walk.next(reversed) {
                    seen[next.index()] = true;
                }
            }
        }
        chosen = (0..seen.len()).filter(|i| seen[*i]).collect();
    }
    Ok(chosen)
}

/// Nodes that must exist for `chosen` to run: themselves and all that they need, as flags.
#[must_use]
pub fn with_needs(graph: &Graph, chosen: &[usize]) -> Vec<bool> {
    let digraph = digraph(graph);
    let mut seen = vec![false; graph.nodes.len()];
    let mut stack: Vec<NodeIndex> = chosen.iter().map(|i| NodeIndex::new(*i)).collect();
    while let Some(next) = stack.pop() {
        if std::mem::replace(&mut seen[next.index()], true) {
            continue;
        }
        stack.extend(digraph.neighbors_directed(next, Direction::Incoming));
    }
    seen
}

/// Whether a selector without `+` names the node of this stage and cell, for
/// those that have no plan at hand.
///
/// # Errors
/// When it is malformed or follows needs.
pub fn fits(selector: &str, stage: &str, cell: &BTreeMap<String, String>) -> Result<bool, SelectError> {
    let malformed = || SelectError::Malformed(selector.to_owned());
    let (name, rest) = selector.split_once('[').map_or((selector, None), |(name, rest)| (name, Some(rest)));
    if name.is_empty() || name.contains(['+', ']']) {
        return Err(malformed());
    }
    let pairs =
        rest.map(|rest| rest.strip_suffix(']').ok_or_else(malformed)).transpose()?.unwrap_or_default();
    let mut all = glob(name, stage);
    for pair in pairs.split(',').filter(|pair| !pair.is_empty()) {
        let (axis, value) = pair.split_once('=').ok_or_else(malformed)?;
        all &= cell.get(axis.trim()).is_some_and(|own| glob(value.trim(), own));
    }
    Ok(all)
}

/// Matches a text against a pattern with `*` and `?`.
fn glob(pattern: &str, text: &str) -> bool {
    let (p, t): (Vec<char>, Vec<char>) = (pattern.chars().collect(), text.chars().collect());
    let (mut i, mut j, mut star, mut mark) = (0, 0, None, 0);
    while j < t.len() {
        if i < p.len() && (p[i] == '?' || p[i] == t[j]) {
            i += 1;
            j += 1;
        } else if i < p.len() && p[i] == '*' {
            star = Some(i);
            mark = j;
            i += 1;
        } else if let Some(at) = star {
            i = at + 1;
            mark += 1;
            j = mark;
        } else {
            return false;
        }
    }
    p[i..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::{fits, glob};

    #[test]
    fn a_selector_without_a_plan() {
        let cell =
            BTreeMap::from([("repo".to_owned(), "flask".to_owned()), ("arm".to_owned(), "grep".to_owned())]);
        for (selector, want) in [
            ("score", Some(true)),
            ("sc*[repo=fl*,arm=grep]", Some(true)),
            ("score[arm=bm25]", Some(false)),
            ("score[replicate=1]", Some(false)),
            ("index", Some(false)),
            ("+score", None),
            ("score+", None),
            ("score[arm]", None),
            ("score[arm=grep", None),
            ("", None),
        ] {
            assert_eq!(fits(selector, "score", &cell).ok(), want, "{selector}");
        }
    }

    #[test]
    fn globs() {
        for (pattern, text, want) in [
            ("a*", "abc", true),
            ("*c", "abc", true),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b", "abc", false),
        ] {
            assert_eq!(glob(pattern, text), want, "{pattern} {text}");
        }
    }
}
