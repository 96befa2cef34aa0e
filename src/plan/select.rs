//! Selectors: which nodes a command is about.
//!
//! `stage`, `stage[axis=value,...]`, globs in both, `+SEL` with all that it
//! needs, `SEL+` with all that needs it.

use std::collections::BTreeMap;

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
        // Per wanted axis: its place in the stage's cells; a stage without it has no such node.
        let places: Option<Vec<(usize, &str)>> = wanted
            .iter()
            .map(|(axis, value)| {
                let place = stage.axes.iter().position(|a| pipeline.axes[*a].name == *axis)?;
                Some((place, *value))
            })
            .collect();
        let Some(places) = places else { continue };
        chosen.extend(graph.of_stage(at).filter(|node| {
            let cell = graph.values(*node);
            places.iter().all(|(place, value)| {
                glob(value, &pipeline.axes[stage.axes[*place]].values[cell[*place] as usize].text)
            })
        }));
    }
    if chosen.is_empty() {
        let names = pipeline.stages.iter().map(|s| s.name.as_str());
        let hint = crate::diag::nearest(name, names).map(str::to_owned);
        return Err(SelectError::Nothing { selector: selector.to_owned(), hint });
    }
    if up || down {
        let mut seen = vec![false; graph.len()];
        if down {
            reach(&mut seen, &chosen, |node, out| out.extend_from_slice(graph.dependents(node)));
        }
        if up {
            let mut above = vec![false; graph.len()];
            reach(&mut above, &chosen, |node, out| out.extend(graph.ups(node)));
            seen.iter_mut().zip(above).for_each(|(seen, above)| *seen |= above);
        }
        chosen = (0..seen.len()).filter(|i| seen[*i]).collect();
    }
    Ok(chosen)
}

/// Nodes that must exist for `chosen` to run: themselves and all that they need, as flags.
#[must_use]
pub fn with_needs(graph: &Graph, chosen: &[usize]) -> Vec<bool> {
    let mut seen = vec![false; graph.len()];
    reach(&mut seen, chosen, |node, out| out.extend(graph.ups(node)));
    seen
}

/// All nodes that build on these, directly or not, without them.
#[must_use]
pub fn below(graph: &Graph, from: &[usize]) -> Vec<usize> {
    let mut seen = vec![false; graph.len()];
    reach(&mut seen, from, |node, out| out.extend_from_slice(graph.dependents(node)));
    for node in from {
        seen[*node] = false;
    }
    (0..seen.len()).filter(|node| seen[*node]).collect()
}

/// Flags what can be reached from some nodes, themselves included.
fn reach(seen: &mut [bool], from: &[usize], next: impl Fn(usize, &mut Vec<u32>)) {
    let mut open: Vec<u32> = Vec::new();
    for start in from {
        if std::mem::replace(&mut seen[*start], true) {
            continue;
        }
        next(*start, &mut open);
        while let Some(node) = open.pop() {
            let node = node as usize;
            if !std::mem::replace(&mut seen[node], true) {
                next(node, &mut open);
            }
        }
    }
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
