//! Command stages: templates per cell, declared inputs, outputs that don't overlap.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::axes::Axes;
use super::metrics::is_name;
use super::params::Params;
use super::{Cx, Unknown, short, texts};
use crate::artifact::part;
use crate::diag::{Diagnostic, Place, nearest};
use crate::manifest::path::KeyPath;
use crate::manifest::pipeline;
use crate::manifest::project::{Fence, Project, is_plain};
use crate::plan::compiled::Command;
use crate::plan::template::{self, Reference};

/// Most values of an axis for which a text is tried out.
const TRIED: usize = 500;
/// Parts that the engine writes itself.
const RESERVED: [&str; 3] = [part::META, part::CLOCK, part::EXIT];

/// Metrics that commands make.
#[derive(Debug, Default)]
pub(super) struct Metrics {
    /// Names that the schemas of their outputs list.
    pub(super) named: BTreeSet<String>,
    /// There are commands whose metrics no schema lists.
    pub(super) open: bool,
}

/// Outputs of the commands so far.
#[derive(Debug, Default)]
pub(super) struct Outputs {
    declared: Vec<(String, Place)>,
    /// By path: the first output that has it or lies inside it.
    taken: BTreeMap<String, usize>,
    /// By path: the first output that has it.
    paths: BTreeMap<String, usize>,
    pub(super) metrics: Metrics,
}

/// Checks the graders that are programs.
pub(super) fn graders(cx: &mut Cx<'_>) {
    let ours: Vec<String> = cx.request.catalog.graders.keys().cloned().collect();
    let metrics: BTreeSet<String> =
        cx.request.catalog.graders.values().flatten().map(|(name, _)| name.clone()).collect();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    for (name, grader) in cx.pipeline.grader.clone() {
        let path = KeyPath::of(&["grader", &name]);
        if ours.contains(&name) {
            let help = "give it another name";
            cx.error("bad-name", format!("there is a grader `{name}` already"), cx.key(&path), help);
        }
        for (at, text) in grader.run.iter().chain(&grader.inputs).enumerate() {
            if crate::manifest::templated::is_template(text) {
                let key = if at < grader.run.len() { "run" } else { "inputs" };
                let help = "a grader is the same for every answer; what differs is in `in/answer.json`";
                cx.error("bad-template", "a grader has no templates", cx.at(&path.key(key)), help);
            }
        }
        for (at, input) in grader.inputs.iter().enumerate() {
            let at = path.key("inputs").index(at);
            let rendered = vec![input.clone()];
            if first_missing(&cx.project, &rendered).is_some() {
                let message = format!("the input `{}` names no file of the project", short(input));
                cx.error("no-file", message, cx.at(&at), "write a path below the project's root");
            }
        }
        if grader.time.is_some_and(|time| time.0.is_zero()) {
            let help = "write a length of time, or leave it out: no program could end";
            let message = format!("`time` of the grader `{}` is no time at all", short(&name));
            cx.error("out-of-range", message, cx.at(&path.key("time")), help);
        }
        for (metric, bounds) in &grader.metrics {
            let at = path.key("metrics").key(metric);
            if !is_name(metric) {
                let help =
                    "write letters, digits, `_`, `@`, `.` and `-`, so that composites and gates can name it";
                cx.error(
                    "bad-name",
                    format!("`{}` is no name of a metric", short(metric)),
                    cx.key(&at),
                    help,
                );
            }
            let taken = seen.insert(metric.clone(), name.clone());
            if metrics.contains(metric) || taken.is_some() {
                let help = "give it another name";
                cx.error(
                    "bad-name",
                    format!("there is a metric `{}` already", short(metric)),
                    cx.key(&at),
                    help,
                );
            }
            let (least, most) = (bounds.at_least.unwrap_or(0.0), bounds.at_most.unwrap_or(1.0));
            if least >= most {
                let message = format!("`{metric}` may be from {least} to {most}: nothing fits");
                cx.error("out-of-range", message, cx.table(&at), "`at-least` is smaller than `at-most`");
            }
        }
    }
}

/// Reads and checks one command.
pub(super) fn read(
    cx: &mut Cx<'_>,
    params: &Params,
    axes: &Axes,
    (name, wire): (&str, &pipeline::Stage),
    own: &[usize],
    outputs: &mut Outputs,
) -> Command {
    let path = KeyPath::of(&["stage", name]);
    let mut texts = Texts { params, axes, own, stage: name };
    for (at, text) in wire.run.iter().enumerate() {
        texts.check(cx, text, &path.key("run").index(at));
    }
    for (key, text) in &wire.env {
        texts.check(cx, text, &path.key("env").key(key));
    }
    for (at, input) in wire.inputs.iter().enumerate() {
        let at = path.key("inputs").index(at);
        let rendered = texts.check(cx, input, &at);
        if let Some(missing) = first_missing(&cx.project, &rendered) {
            missing_input(cx, params, input, &rendered[missing], &at);
        }
    }
    for (part, output) in &wire.outputs {
        let at = path.key("outputs").key(part).key("path");
        let rendered = texts.check(cx, &output.path, &at);
        if RESERVED.contains(&part.as_str()) {
            let place = cx.key(&path.key("outputs").key(part));
            cx.error(
                "bad-name",
                format!("an output can't be named `{part}`"),
                place,
                "the engine writes a part of that name",
            );
        }
        output_path(cx, &output.path, &rendered, &at, outputs);
    }
    forgotten_inputs(cx, wire, &path);
    metrics(cx, name, wire, &path, outputs);
    cost(cx, name, wire, &path);
    Command {
        run: wire.run.clone(),
        inputs: wire.inputs.clone(),
        outputs: wire.outputs.clone(),
        env: wire.env.clone(),
        secrets: wire.secrets.clone(),
        metrics: wire.metrics.clone(),
        cost: wire.cost.clone(),
        network: wire.network,
    }
}

/// Checks texts that are filled in per cell.
struct Texts<'a> {
    params: &'a Params,
    axes: &'a Axes,
    own: &'a [usize],
    stage: &'a str,
}

impl Texts<'_> {
    /// Reports what is wrong with a text; returns it as filled in for some cells.
    fn check(&mut self, cx: &mut Cx<'_>, text: &str, path: &KeyPath) -> Vec<String> {
        let place = cx.at(path);
        let references = match template::references(text) {
            Ok(references) => references,
            Err(error) => {
                texts::bad_template(cx, &error, &place);
                return Vec::new();
            }
        };
        let mut sound = self.params.known(cx, &references, &place);
        let mut used = Vec::new();
        for reference in &references {
            let Reference::Name(name) = reference else { continue };
            match self.axes.index(name) {
                Some(axis) if self.own.contains(&axis) => used.push(axis),
                _ => {
                    self.unknown(cx, name, &place);
                    sound = false;
                }
            }
        }
        if sound { self.render(cx, text, &used, &place) } else { Vec::new() }
    }

    fn unknown(&self, cx: &mut Cx<'_>, name: &str, place: &Place) {
        let own: Vec<String> = self.own.iter().map(|axis| self.axes.all[*axis].name.clone()).collect();
        if self.axes.declared.iter().any(|d| d == name) {
            let message = format!("the stage `{}` doesn't run over the axis `{name}`", self.stage);
            let help = format!("add `{name}` to its `over`");
            cx.error("unknown-variable", message, place.clone(), help);
            return;
        }
        let what = Unknown {
            code: "unknown-variable",
            noun: "parameter or axis",
            table: Some("axes"),
            none: "templates of this stage know `params.NAME` only: it runs over no axis",
        };
        cx.unknown(&what, name, &own, place.clone());
    }

    /// With one axis all its values are tried, with more the first of each.
    fn render(&self, cx: &mut Cx<'_>, text: &str, used: &[usize], place: &Place) -> Vec<String> {
        let axes = &self.axes.all;
        let name = |axis: usize| axes[axis].name.as_str();
        let first = |axis: usize| axes[axis].values.first().map(|v| (name(axis), v.text.as_str()));
        let cells: Vec<Vec<(&str, &str)>> = match used {
            [only] => {
                axes[*only].values.iter().take(TRIED).map(|v| vec![(name(*only), v.text.as_str())]).collect()
            }
            _ => used.iter().map(|axis| first(*axis)).collect::<Option<Vec<_>>>().into_iter().collect(),
        };
        let mut out = Vec::new();
        for cell in cells {
            match template::render_cell(text, &self.params.values, &cell) {
                Ok(rendered) => out.push(rendered),
                Err(error) => {
                    texts::bad_template(cx, &error, place);
                    break;
                }
            }
        }
        out
    }
}

fn is_glob(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// The first of some inputs that isn't plainly there.
fn first_missing(project: &Project, inputs: &[String]) -> Option<usize> {
    let fence = project.fence(&project.root);
    let there = |input: &String| {
        !is_glob(input) && fence.inside(input).is_ok_and(|full| project.exists(&full))
            || is_glob(input) && globbed(project, &fence, input)
    };
    inputs.iter().position(|input| !there(input))
}

/// Whether a glob is one, and the folder before its first sign is there.
fn globbed(project: &Project, fence: &Fence<'_>, input: &str) -> bool {
    fence.inside(input).is_ok()
        && globset::Glob::new(input).is_ok()
        && project.exists(&project.root.join(fixed_folder(input)))
}

/// The folder before the first sign of a glob.
fn fixed_folder(input: &str) -> &str {
    let fixed = input.split(['*', '?', '[']).next().unwrap_or_default();
    fixed.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Reports an input that isn't there or leads out of the project. Of a glob
/// the folder before its first sign must be there; what it matches may change.
fn missing_input(cx: &mut Cx<'_>, params: &Params, written: &str, input: &str, path: &KeyPath) {
    let folder = fixed_folder(input);
    let (code, message, near) = match cx.project.inside(&cx.project.root, input) {
        Err(error) => ("bad-path", error.to_string(), None),
        Ok(_) if is_glob(input) => {
            if let Err(error) = globset::Glob::new(input) {
                ("bad-path", format!("`{}` is no glob: {}", short(input), error.kind()), None)
            } else {
                let full = cx.project.root.join(folder);
                let near = cx.project.nearest_beside(&full);
                ("no-input", format!("there is no folder `{}` for `{}`", short(folder), short(input)), near)
            }
        }
        Ok(full) => {
            let near = cx.project.nearest_beside(&full);
            ("no-input", format!("there is no file or folder `{}`", short(input)), near)
        }
    };
    let root = cx.project.show(&cx.project.root);
    let help = format!("inputs are files, folders or globs, relative to the project's root `{root}`");
    let help = near.map_or_else(|| help.clone(), |near| format!("did you mean `{near}`? {help}"));
    let mut error = Diagnostic::error(code, message).at(cx.at(path), "");
    for reference in template::references(written).unwrap_or_default() {
        if let Reference::Param(name) = reference {
            error = error.at(params.place(cx, &name, None), format!("`{name}` comes from here"));
        }
    }
    cx.found.push(error.help(help));
}

fn output_path(cx: &mut Cx<'_>, written: &str, rendered: &[String], path: &KeyPath, outputs: &mut Outputs) {
    let place = cx.at(path);
    if let Some(bad) = rendered.iter().find(|text| !is_plain(text)) {
        let help = "write a path below the command's working directory, with `/` and without `..`";
        cx.error(
            "bad-path",
            format!("`{}` doesn't stay in the command's working directory", short(bad)),
            place,
            help,
        );
        return;
    }
    let clash = outputs.clash(written).map(|at| outputs.declared[at].clone());
    if let Some((other, first)) = clash {
        let message = if other == written {
            format!("two outputs have the path `{}`", short(written))
        } else {
            format!(
                "the output `{}` lies inside the output `{}`, or around it",
                short(written),
                short(&other)
            )
        };
        let error = Diagnostic::error("overlapping-outputs", message).at(place, "this output");
        cx.found
            .push(error.at(first, "and this one").help("give each output of the pipeline a path of its own"));
        return;
    }
    outputs.declare(written, place);
}

impl Outputs {
    /// The first output whose path is this one or lies inside it, or around it.
    fn clash(&self, path: &str) -> Option<usize> {
        let around = above(path).filter_map(|folder| self.paths.get(folder));
        around.chain(self.taken.get(path)).min().copied()
    }

    fn declare(&mut self, path: &str, place: Place) {
        let at = self.declared.len();
        self.declared.push((path.to_owned(), place));
        self.paths.entry(path.to_owned()).or_insert(at);
        for taken in above(path).chain([path]) {
            if !self.taken.contains_key(taken) {
                self.taken.insert(taken.to_owned(), at);
            }
        }
    }
}

/// The folders that a path lies in.
fn above(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').map(|(at, _)| &path[..at])
}

/// Whether one path is the other or lies inside it.
fn overlap(a: &str, b: &str) -> bool {
    let inside =
        |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
    a == b || inside(a, b) || inside(b, a)
}

/// An argument that is a file of the project and no declared input: the
/// command would not find it, since it runs in an empty folder.
fn forgotten_inputs(cx: &mut Cx<'_>, wire: &pipeline::Stage, path: &KeyPath) {
    for (at, text) in wire.run.iter().enumerate() {
        let plain = text.strip_prefix("./").unwrap_or(text);
        if text.contains("{{") || !cx.project.holds_file(plain) {
            continue;
        }
        let covers = |input: &String| {
            input == plain
                || overlap(input.trim_end_matches('/'), plain)
                || input.contains("{{")
                || globset::Glob::new(input).is_ok_and(|glob| glob.compile_matcher().is_match(plain))
        };
        if !wire.inputs.iter().any(covers) {
            let message =
                format!("`{}` is a file of the project, but no input of this command", short(plain));
            let help = format!("add \"{plain}\" to `inputs`: a command sees only what it declares");
            cx.warning("undeclared-input", message, cx.at(&path.key("run").index(at)), help);
        }
    }
}

fn metrics(cx: &mut Cx<'_>, name: &str, wire: &pipeline::Stage, path: &KeyPath, outputs: &mut Outputs) {
    let mut schemas: BTreeMap<&str, Option<Value>> = BTreeMap::new();
    for (part, output) in &wire.outputs {
        if let Some(file) = &output.schema {
            let schema = schema(cx, file, &path.key("outputs").key(part).key("schema"));
            schemas.insert(part, schema);
        }
    }
    let Some(part) = &wire.metrics else { return };
    if !wire.outputs.contains_key(part) {
        let declared: Vec<String> =
            cx.document.keys(&path.key("outputs")).into_iter().map(str::to_owned).collect();
        outputs.metrics.open = true;
        if declared.contains(part) {
            return;
        }
        let near = nearest(part, declared.iter().map(String::as_str));
        let help = match near {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("declare it: `outputs = {{ {} = {{ path = \"metrics.json\" }} }}`", short(part)),
        };
        let place = cx.at(&path.key("metrics"));
        cx.error("unknown-output", format!("`{name}` has no output `{}`", short(part)), place, help);
        return;
    }
    match schemas.get(part.as_str()) {
        Some(Some(schema)) if schema["properties"].is_object() => {
            let properties = schema["properties"].as_object();
            outputs.metrics.named.extend(properties.into_iter().flat_map(|p| p.keys().cloned()));
        }
        _ => outputs.metrics.open = true,
    }
}

/// The JSON Schema of an output; reports when it isn't one.
fn schema(cx: &mut Cx<'_>, file: &str, path: &KeyPath) -> Option<Value> {
    let help = "name a JSON Schema file, relative to the project's root";
    let found = match cx.project.named_in_file(file) {
        Ok(found) => found,
        Err(error) => {
            cx.error("no-schema", error.to_string(), cx.at(path), help);
            return None;
        }
    };
    let value: Result<Value, _> = serde_json::from_slice(&found.bytes);
    let problem = match value {
        Err(error) => error.to_string(),
        Ok(value) => match jsonschema::meta::validate(&value) {
            Ok(()) => return Some(value),
            Err(error) => error.to_string(),
        },
    };
    let message = format!("`{}` is no JSON Schema: {problem}", short(file));
    cx.error("bad-schema", message, cx.at(path), help);
    None
}

/// The output that says what a command cost must be one that it declares.
fn cost(cx: &mut Cx<'_>, name: &str, wire: &pipeline::Stage, path: &KeyPath) {
    let Some(cost) = &wire.cost else { return };
    if wire.effect != Some(pipeline::Effect::Paid) {
        let place = cx.key(&path.key("cost"));
        let help = "leave it out, or set `effect = \"paid\"`";
        cx.error("misplaced-key", format!("`{name}` costs nothing"), place, help);
    } else if !wire.outputs.contains_key(cost) {
        let known: Vec<String> = wire.outputs.keys().cloned().collect();
        let what = Unknown {
            code: "unknown-output",
            noun: "output",
            table: None,
            none: "declare it: `outputs = { bill = { path = \"bill.json\" } }`",
        };
        let place = cx.at(&path.key("cost"));
        cx.unknown(&what, cost, &known, place);
    }
}
