//! `exclude`: cells that are taken out.

use std::collections::BTreeMap;

use super::Cx;
use super::arms::Arms;
use super::axes::Axes;
use super::data::AXIS;
use super::params::Params;
use crate::diag::{Diagnostic, Severity, names, nearest};
use crate::manifest::path::KeyPath;
use crate::manifest::pipeline::Axis as Wire;
use crate::manifest::templated::Templated;

/// Reads the excluded cells. One that names nothing is an error in the file's
/// own defaults; where `--set` changed the axis it is a warning.
pub(super) fn read(cx: &mut Cx<'_>, params: &Params, axes: &Axes) -> Vec<BTreeMap<String, String>> {
    let mut out = Vec::new();
    for (at, cell) in cx.pipeline.axes.exclude.clone().into_iter().enumerate() {
        let path = KeyPath::of(&["axes", "exclude"]).index(at);
        let mut sound = true;
        if cell.is_empty() && cx.document.keys(&path).is_empty() {
            let help = "name axis values, e.g. { repo = \"django\" }";
            cx.error("empty", "an excluded cell names nothing", cx.at(&path), help);
            sound = false;
        }
        let mut indexes = Vec::new();
        for (axis, value) in &cell {
            let place = cx.key(&path.key(axis));
            let Some(index) = axes.index(axis) else {
                sound = false;
                if !axes.declared.contains(axis) {
                    cx.unknown(&AXIS, axis, &axes.declared, place);
                }
                continue;
            };
            indexes.push((index, value));
            let known = &axes.all[index].values;
            if !axes.sure[index] || known.iter().any(|v| v.text == *value) {
                continue;
            }
            let near = nearest(value, known.iter().map(|v| v.text.as_str()));
            let help = match near {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the axis has {}", names(known.iter().map(|v| v.text.as_str()), 16)),
            };
            let changed = depends_on_set(cx, params, axis);
            let severity = if changed { Severity::Warning } else { Severity::Error };
            let message = format!("an excluded cell names `{value}`, which isn't on the axis `{axis}`");
            let error = Diagnostic { severity, ..Diagnostic::error("excludes-nothing", message) };
            cx.found.push(error.at(cx.at(&path.key(axis)), "").help(help));
            sound = false;
        }
        sound &= together(cx, axes, &indexes, &path);
        if sound {
            out.push(cell);
        }
    }
    out
}

/// A dependent value must belong to the parent that stands beside it.
fn together(cx: &mut Cx<'_>, axes: &Axes, cell: &[(usize, &String)], path: &KeyPath) -> bool {
    for (index, value) in cell {
        let axis = &axes.all[*index];
        let Some((parent, wanted)) = axis.of.and_then(|of| cell.iter().find(|(other, _)| *other == of))
        else {
            continue;
        };
        let at = axes.all[*parent].values.iter().position(|v| v.text == **wanted);
        let present = axis.values.iter().any(|v| v.text == **value);
        let fits = axis.values.iter().any(|v| v.text == **value && v.parent == at);
        if present && at.is_some() && !fits {
            let message = format!("`{value}` doesn't belong to `{wanted}`, so the cell excludes nothing");
            let help = format!("name the {} that it belongs to, or leave that out", axes.all[*parent].name);
            cx.error("excludes-nothing", message, cx.at(&path.key(&axis.name)), help);
            return false;
        }
    }
    true
}

/// Whether the values of an axis depend on a parameter that `--set` gives.
fn depends_on_set(cx: &Cx<'_>, params: &Params, axis: &str) -> bool {
    let list = |list: &Templated<Vec<String>>| match list {
        Templated::Template(text) => params.changed(text),
        Templated::Value(entries) => entries.iter().any(|entry| params.changed(entry)),
    };
    let number =
        |number: &Templated<u32>| matches!(number, Templated::Template(text) if params.changed(text));
    match cx.pipeline.axes.axes.get(axis) {
        None => false,
        Some(Wire::Arms) => Arms::changed(cx, params),
        Some(Wire::Values(values)) => list(values),
        Some(Wire::Count(count)) => number(count),
        Some(Wire::Recorded(_)) => params.is_set("recordings") || Arms::changed(cx, params),
        Some(Wire::Scenarios(scenarios)) => {
            let parent = crate::plan::template::lone(&scenarios.scenarios).unwrap_or_default();
            params.changed(&scenarios.scenarios) || (parent != axis && depends_on_set(cx, params, parent))
        }
        Some(Wire::Questions(questions)) => {
            let parent = crate::plan::template::lone(&questions.questions).unwrap_or_default();
            params.is_set(super::params::DATASETS)
                || questions.sample.as_ref().is_some_and(number)
                || params.changed(&questions.questions)
                || (parent != axis && depends_on_set(cx, params, parent))
        }
    }
}
