//! Composites and gates: do they name metrics that the pipeline makes?

use std::collections::BTreeMap;

use indexmap::IndexMap;

use super::arms::Arms;
use super::params::Params;
use super::stages::Stages;
use super::{Cx, MIXED, Unknown, short};
use crate::diag::{Diagnostic, Place, Severity, names, nearest};
use crate::manifest::path::KeyPath;
use crate::manifest::pipeline::MetricLayer;
use crate::plan::compiled::{Gate, Term, Work};

/// How far from 1 the sum of weights may be.
const TOLERANCE: f64 = 1e-9;
/// Layers that may not be folded into one another.
const APART: [&str; 2] = ["fairness", "adoption"];

fn layer_of(layer: MetricLayer) -> String {
    APART[usize::from(layer == MetricLayer::Adoption)].to_owned()
}

/// Under this name the catalog lists what judge stages make.
pub(super) const JUDGE: &str = "judge";

/// How an unknown arm is reported.
pub(super) const ARM_NAME: Unknown<'static> =
    Unknown { code: "unknown-arm", noun: "arm", table: Some("arm"), none: "declare arms as `[arm.NAME]`" };

/// The metrics that the pipeline makes.
#[derive(Debug)]
pub(super) struct Produced {
    /// Name to layer; a command's metric has none.
    metrics: BTreeMap<String, Option<String>>,
    /// There may be others: of a command without a schema, or of a faulty stage.
    open: bool,
}

impl Produced {
    pub(super) fn of(cx: &Cx<'_>, params: &Params, stages: &Stages) -> Self {
        let mut metrics = BTreeMap::new();
        // What a stage with a refused parameter would make, nobody knows.
        let mut open = stages.command_metrics.open || cx.document.excuses("metrics") || params.some_refused();
        let mut faulty = false;
        for name in cx.declared("stage") {
            let stage = KeyPath::of(&["stage", &name]);
            if !cx.pipeline.stage.contains_key(&name) {
                faulty = true;
                open |= cx.has(&stage.key("metrics"));
            }
        }
        metrics.extend(stages.command_metrics.named.iter().map(|name| (name.clone(), None)));
        for draft in &stages.all {
            let judge = [JUDGE.to_owned()];
            let graders = match &draft.stage.work {
                Work::Grade { graders, .. } => graders.as_slice(),
                Work::Replies { .. } => &judge,
                _ => continue,
            };
            for grader in graders {
                if let Some(program) = cx.pipeline.grader.get(grader) {
                    let made = program.metrics.iter();
                    metrics.extend(made.map(|(name, metric)| (name.clone(), Some(layer_of(metric.layer)))));
                    continue;
                }
                match cx.request.catalog.graders.get(grader) {
                    Some(made) => {
                        metrics.extend(made.iter().map(|(name, layer)| (name.clone(), Some(layer.clone()))));
                    }
                    None => faulty = true,
                }
            }
            faulty |= graders.is_empty();
        }
        if faulty {
            // Of a misspelt grader nobody knows which one was meant: any might be.
            let all = cx.request.catalog.graders.values().flatten();
            metrics.extend(all.map(|(name, layer)| (name.clone(), Some(layer.clone()))));
        }
        Self { metrics, open }
    }

    fn has(&self, metric: &str) -> bool {
        self.open || self.metrics.contains_key(metric)
    }
}

/// Reads the composites.
pub(super) fn composites(
    cx: &mut Cx<'_>,
    produced: &Produced,
    stages: &Stages,
) -> IndexMap<String, Vec<Term>> {
    let mut out = IndexMap::new();
    for (name, weights) in cx.pipeline.composite.clone() {
        let path = KeyPath::of(&["composite", &name]);
        let mut terms = Vec::new();
        let mut sound = weights.len() == cx.document.keys(&path).len();
        for (key, weight) in &weights {
            let at = path.key(key);
            let Some((metric, inverse)) = term(key) else {
                let help = "write a metric's name, or `1/(1+METRIC)` where less is better";
                cx.error(
                    "bad-term",
                    format!("`{}` is no term of a composite", short(key)),
                    cx.key(&at),
                    help,
                );
                sound = false;
                continue;
            };
            if !produced.has(metric) {
                unknown_metric(cx, produced, metric, &[], cx.key(&at), Severity::Error);
            }
            direction(cx, produced, metric, inverse, cx.key(&at));
            if *weight <= 0.0 {
                let message = format!("the weight of `{}` in `{name}` is {weight}", short(key));
                cx.error(
                    "out-of-range",
                    message,
                    cx.at(&at),
                    "weights are above 0; of a cost weigh `1/(1+METRIC)`",
                );
                sound = false;
            }
            terms.push(Term { metric: metric.to_owned(), inverse, weight: *weight });
        }
        // Neumaier's sum: many small weights must not miss 1 by rounding.
        let sum = precise_sum(weights.values().copied());
        if sound && (sum - 1.0).abs() > TOLERANCE {
            let help = "change the weights so that they sum to 1";
            cx.error(
                "weights",
                format!("the weights of `{name}` sum to {}", rounded(sum)),
                cx.table(&path),
                help,
            );
        }
        if produced.metrics.contains_key(&name) {
            let message = format!("the composite `{name}` has the name of a metric");
            cx.error("bad-name", message, cx.key(&path), "give it another name");
        }
        layers(cx, produced, &name, &terms, &path);
        out.insert(name, terms);
    }
    if !out.is_empty() && !stages.aggregates() && !produced.open {
        no_aggregate(cx, "composite", "composites");
    }
    out
}

fn no_aggregate(cx: &mut Cx<'_>, table: &str, words: &str) {
    let help = "add `[stage.summary]` with `kind = \"aggregate\"` that needs the stages with the metrics";
    let place = cx.table(&KeyPath::of(&[table]));
    cx.error(
        "no-aggregate",
        format!("the pipeline has {words} but no aggregate stage to compute them"),
        place,
        help,
    );
}

fn rounded(sum: f64) -> f64 {
    (sum * 1e9).round() / 1e9
}

fn precise_sum(values: impl Iterator<Item = f64>) -> f64 {
    let (mut sum, mut lost) = (0.0_f64, 0.0_f64);
    for value in values {
        let next = sum + value;
        lost += if sum.abs() >= value.abs() { (sum - next) + value } else { (value - next) + sum };
        sum = next;
    }
    sum + lost
}

/// `metric` or `1/(1+metric)`.
fn term(key: &str) -> Option<(&str, bool)> {
    let compact = key.trim();
    if is_name(compact) {
        return Some((compact, false));
    }
    let rest = compact.strip_prefix('1')?.trim_start().strip_prefix('/')?.trim_start().strip_prefix('(')?;
    let inner = rest.trim_start().strip_prefix('1')?.trim_start().strip_prefix('+')?.trim_start();
    let metric = inner.strip_suffix(')')?.trim_end();
    is_name(metric).then_some((metric, true))
}

/// Whether a text may be a metric's name.
pub(super) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "_@.-".contains(c))
}

/// What is weighed must be better when there is more of it.
fn direction(cx: &mut Cx<'_>, produced: &Produced, metric: &str, inverse: bool, place: Place) {
    let catalog = &cx.request.catalog;
    let is_cost = catalog.costs.contains(metric);
    // Whether more of a user's own metric is better, nobody says.
    let ours = catalog.graders.values().flatten().any(|(name, _)| name == metric);
    if !ours || !produced.metrics.contains_key(metric) || is_cost == inverse {
        return;
    }
    let (message, help) = if is_cost {
        (format!("less `{metric}` is better, and this weighs more of it"), format!("write `1/(1+{metric})`"))
    } else {
        (format!("more `{metric}` is better, and this weighs less of it"), format!("write `{metric}`"))
    };
    cx.error("wrong-direction", message, place, help);
}

fn layers(cx: &mut Cx<'_>, produced: &Produced, name: &str, terms: &[Term], path: &KeyPath) {
    let layer = |term: &Term| produced.metrics.get(&term.metric).and_then(Option::as_deref);
    let of = |wanted: &str| terms.iter().find(|term| layer(term) == Some(wanted));
    let place = |term: &Term| {
        let key = cx
            .document
            .keys(path)
            .into_iter()
            .find(|key| super::metrics::term(key).is_some_and(|(m, _)| m == term.metric));
        cx.key(&path.key(key.unwrap_or(&term.metric)))
    };
    if let Some(mixed) = of(MIXED) {
        let message =
            format!("`{}` counts fairness and adoption at once, so `{name}` would too", mixed.metric);
        let help = "weigh a metric of one layer, such as `keyword_coverage`";
        let error = Diagnostic::error("mixed-layers", message).at(place(mixed), "").help(help);
        cx.found.push(error);
        return;
    }
    let (Some(first), Some(second)) = (of(APART[0]), of(APART[1])) else { return };
    let message = format!("`{name}` mixes fairness and adoption");
    let error = Diagnostic::error("mixed-layers", message)
        .at(place(second), format!("adoption: `{}`", second.metric))
        .at(place(first), format!("fairness: `{}`", first.metric));
    let help = "make two composites: a high adoption must not make up for a wrong answer";
    cx.found.push(error.help(help));
}

fn unknown_metric(
    cx: &mut Cx<'_>,
    produced: &Produced,
    metric: &str,
    more: &[String],
    place: Place,
    severity: Severity,
) {
    let known: Vec<&str> =
        produced.metrics.keys().map(String::as_str).chain(more.iter().map(String::as_str)).collect();
    let near = nearest(metric, known.iter().copied());
    // A metric of a grader that the pipeline lacks: name the grader.
    let grader =
        cx.request.catalog.graders.iter().find(|(_, made)| made.iter().any(|(name, _)| name == metric));
    let help = match (grader, near) {
        (Some((grader, _)), _) if grader == JUDGE => {
            "a judge makes it: add a stage of kind `judge`, and name it in the aggregate's `needs`".to_owned()
        }
        (Some((grader, _)), _) => format!("the grader `{grader}` makes it: add it to a grade stage"),
        (None, Some(near)) => {
            format!("did you mean `{near}`? the pipeline makes {}", names(known.iter().copied(), 32))
        }
        (None, None) if known.is_empty() => "no stage of the pipeline makes metrics".to_owned(),
        (None, None) => format!("the pipeline makes {}", names(known.iter().copied(), 32)),
    };
    let message = format!("no stage of the pipeline makes the metric `{}`", short(metric));
    let error = Diagnostic { severity, ..Diagnostic::error("unknown-metric", message) };
    cx.found.push(error.at(place, "").help(help));
}

/// Reads the gates.
pub(super) fn gates(
    cx: &mut Cx<'_>,
    params: &Params,
    arms: &Arms,
    produced: &Produced,
    stages: &Stages,
) -> Vec<Gate> {
    let composites: Vec<String> = cx.declared("composite");
    let mut out = Vec::new();
    for (key, bound) in cx.pipeline.gate.clone() {
        let path = KeyPath::of(&["gate", &key]);
        let place = cx.key(&path);
        match (bound.at_least, bound.at_most) {
            (None, None) if cx.document.keys(&path).is_empty() => {
                let help = "write `{ at-least = N }`, `{ at-most = N }` or both";
                cx.error("empty", format!("the gate `{}` has no bound", short(&key)), cx.at(&path), help);
            }
            (Some(least), Some(most)) if least > most => {
                let message = format!("no number satisfies the gate `{}`", short(&key));
                cx.error("out-of-range", message, cx.at(&path), "`at-least` must not be above `at-most`");
            }
            _ => {}
        }
        let Some((arm, metric)) = gate_key(cx, &key, arms, &place) else { continue };
        if let Some(arm) = &arm {
            let known = arms.names();
            if !known.contains(arm) && !arms.unsure && !arms.probably_failed(arm) {
                if Arms::changed(cx, params) {
                    let help = format!("this invocation has {}", names(known.iter().map(String::as_str), 24));
                    cx.warning(
                        "unknown-arm",
                        format!("the gate `{key}` names the arm `{}`, which isn't there", short(arm)),
                        place,
                        help,
                    );
                    continue;
                }
                cx.unknown(&ARM_NAME, arm, &known, place.clone());
            }
        }
        if !produced.has(&metric) && !composites.contains(&metric) {
            unknown_metric(cx, produced, &metric, &composites, place, Severity::Error);
        }
        out.push(Gate { key: key.clone(), arm, metric, bound });
    }
    if !out.is_empty() && !stages.aggregates() && !produced.open {
        no_aggregate(cx, "gate", "gates");
    }
    out
}

/// `ARM.METRIC.value`, or `METRIC.value` in a pipeline without arms.
fn gate_key(cx: &mut Cx<'_>, key: &str, arms: &Arms, place: &Place) -> Option<(Option<String>, String)> {
    let form = if arms.declared { "ARM.METRIC.value" } else { "METRIC.value" };
    let mut rest = key;
    let mut arm = None;
    if arms.declared {
        let Some((first, after)) = key.split_once('.') else {
            let message = format!("the gate `{}` is no `{form}`", short(key));
            cx.error("bad-gate", message, place.clone(), format!("write `\"{form}\"`"));
            return None;
        };
        arm = Some(first.to_owned());
        rest = after;
    }
    let parts: Vec<&str> = rest.split('.').collect();
    match parts[..] {
        [.., "delta", "value" | "low" | "high"] | [.., "delta"] => {
            let message = format!(
                "the gate `{}` bounds a difference, which is not available yet in this version",
                short(key)
            );
            let help =
                format!("it needs `compare`, which comes later; bound the arm's own value: `\"{form}\"`");
            cx.error("not-available", message, place.clone(), help);
            None
        }
        [.., "low" | "high"] => {
            let message = format!(
                "the gate `{}` bounds an interval, which is not available yet in this version",
                short(key)
            );
            let help = format!("it needs `compare`, which comes later; bound the value: `\"{form}\"`");
            cx.error("not-available", message, place.clone(), help);
            None
        }
        [_, .., "value"] => Some((arm, rest[..rest.len() - ".value".len()].to_owned())),
        _ => {
            let first_is_metric = arms.declared && rest == "value";
            let help = if first_is_metric {
                format!("name the arm as well: `\"ARM.{key}\"`")
            } else {
                format!("write `\"{form}\"`, with `.value` at the end")
            };
            cx.error("bad-gate", format!("the gate `{}` is no `{form}`", short(key)), place.clone(), help);
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_metrics_or_inverses() {
        assert_eq!(term("hit@5"), Some(("hit@5", false)));
        assert_eq!(term("1/(1+calls)"), Some(("calls", true)));
        assert_eq!(term(" 1 / ( 1 + latency_p95_s ) "), Some(("latency_p95_s", true)));
        for bad in ["", "1/(2+calls)", "1/(1+calls", "calls*2", "1/(1+)", "a b"] {
            assert_eq!(term(bad), None, "{bad}");
        }
    }

    #[test]
    fn many_weights_sum_to_one() {
        assert!((precise_sum(std::iter::repeat_n(0.1, 10)) - 1.0).abs() < f64::EPSILON);
    }
}
