//! Stages: what each does, over which axes, and what it may need.

use std::collections::BTreeSet;

use super::arms::Arms;
use super::axes::Axes;
use super::commands::{self, Outputs};
use super::data::AXIS;
use super::metrics::JUDGE;
use super::needs::Graph;
use super::params::Params;
use super::rules;
use super::{Cx, Unknown, texts};
use crate::diag::{Diagnostic, nearest};
use crate::manifest::path::KeyPath;
use crate::manifest::pipeline::{self, Driver, Effect, Kind, Profile};
use crate::manifest::templated::Templated;
use crate::plan::compiled::{GraderProgram, Stage, Work};

/// How many results a session asks for unless it says so.
const TOP: u32 = 10;
/// The most results that may be asked for.
const MOST_RESULTS: u32 = 1_000;

/// A stage on its way to be compiled.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) kind: Kind,
    /// Its needs are indexes into [`Stages::all`].
    pub(super) stage: Stage,
    /// Something that it builds on is unknown or faulty: checks that would
    /// only repeat that are left out.
    pub(super) unsure: bool,
}

/// All stages, in the order of the manifest.
#[derive(Debug)]
pub(super) struct Stages {
    pub(super) all: Vec<Draft>,
    /// Indexes, each after those that it needs; none when there is a cycle.
    order: Option<Vec<usize>>,
    /// Metrics of commands: names that their schemas list, and whether there are others.
    pub(super) command_metrics: commands::Metrics,
}

/// Reads and checks all stages.
pub(super) fn read(cx: &mut Cx<'_>, params: &Params, axes: &Axes, arms: &Arms) -> Stages {
    let wires: Vec<(String, pipeline::Stage)> =
        cx.pipeline.stage.iter().map(|(name, stage)| (name.clone(), stage.clone())).collect();
    let graph = Graph::read(cx, &wires);
    commands::graders(cx);
    let mut all: Vec<Draft> = Vec::new();
    for (at, (name, wire)) in wires.iter().enumerate() {
        let work = work(cx, params, name, wire);
        let unsure = graph.unsure[at] || work.is_none();
        let effect = match wire.kind {
            // What exists already is only taken.
            Kind::Session if wire.driver == Some(Driver::Recorded) => Effect::Pure,
            Kind::Ingest | Kind::Warmup | Kind::Session => Effect::Measured,
            Kind::Grade | Kind::Judge | Kind::Aggregate => Effect::Pure,
            Kind::Command => wire.effect.unwrap_or(Effect::Pure),
        };
        let stage = Stage {
            name: name.clone(),
            work: work.unwrap_or(Work::Aggregate),
            needs: graph.needs[at].clone(),
            axes: Vec::new(),
            pool: wire.pool.clone(),
            retry: wire.retry.clone(),
            limits: wire.limits.clone(),
            effect,
            share: wire.share,
        };
        all.push(Draft { kind: wire.kind, stage, unsure });
        pool_and_limits(cx, name, wire, effect);
    }
    // Without an order the stages of a cycle come last; they are unsure anyway.
    let sequence = graph.order.clone().unwrap_or_else(|| (0..all.len()).collect());
    for at in sequence {
        let sure = over(cx, &mut all, at, &wires[at], axes);
        all[at].unsure |= !sure;
    }
    let mut outputs = Outputs::default();
    for (at, (name, wire)) in wires.iter().enumerate() {
        if wire.kind == Kind::Command {
            let command = commands::read(cx, params, axes, (name, wire), &all[at].stage.axes, &mut outputs);
            all[at].stage.work = Work::Command(command);
        }
    }
    let stages = Stages { all, order: graph.order, command_metrics: outputs.metrics };
    for (at, draft) in stages.all.iter().enumerate() {
        rules::check(cx, &stages, at, draft, axes, arms);
    }
    unused(cx, &stages);
    stages
}

fn work(cx: &mut Cx<'_>, params: &Params, name: &str, wire: &pipeline::Stage) -> Option<Work> {
    let path = KeyPath::of(&["stage", name]);
    Some(match wire.kind {
        Kind::Ingest => Work::Ingest,
        Kind::Warmup => Work::Warmup,
        Kind::Session if wire.driver == Some(Driver::Recorded) => {
            if cx.has(&path.key("top")) {
                let help = "leave it out: a recorded session asks nothing";
                cx.error(
                    "misplaced-key",
                    "`top` belongs to the driver `retrieval`",
                    cx.key(&path.key("top")),
                    help,
                );
            }
            Work::Recorded
        }
        Kind::Judge => Work::Replies { profile: profile_of(cx, params, wire, &path)? },
        Kind::Session => {
            let top = match &wire.top {
                None => TOP,
                Some(top) => texts::count(cx, params, top, &path.key("top"), (1, MOST_RESULTS))?,
            };
            Work::Retrieval { top }
        }
        Kind::Grade => {
            graders(cx, &wire.graders, &path.key("graders"));
            let programs = wire.graders.iter().filter_map(|name| {
                let grader = cx.pipeline.grader.get(name)?.clone();
                Some(GraderProgram { name: name.clone(), grader })
            });
            let programs = programs.collect();
            let profile = profile_of(cx, params, wire, &path)?;
            Work::Grade { graders: wire.graders.clone(), profile, programs }
        }
        // A command is read once the axes of the stage are known.
        Kind::Aggregate | Kind::Command => Work::Aggregate,
    })
}

fn graders(cx: &mut Cx<'_>, names: &[String], path: &KeyPath) {
    let shipped = cx.request.catalog.graders.keys().filter(|name| *name != JUDGE).cloned();
    let known: Vec<String> = shipped.chain(cx.declared("grader")).collect();
    for (at, name) in names.iter().enumerate() {
        let place = cx.at(&path.index(at));
        if !known.contains(name) {
            let what = Unknown { code: "unknown-grader", noun: "grader", table: None, none: "" };
            cx.unknown(&what, name, &known, place);
        } else if let Some(first) = names[..at].iter().position(|earlier| earlier == name) {
            let error = Diagnostic::error("duplicate-value", format!("the grader `{name}` is named twice"));
            let error = error.at(place, "again here").at(cx.at(&path.index(first)), "first here");
            cx.found.push(error.help("take one out"));
        }
    }
}

fn profile_of(cx: &mut Cx<'_>, params: &Params, wire: &pipeline::Stage, path: &KeyPath) -> Option<Profile> {
    match &wire.profile {
        None => Some(Profile::Default),
        Some(Templated::Value(profile)) => Some(*profile),
        Some(Templated::Template(text)) => profile(cx, params, text, &path.key("profile")),
    }
}

fn profile(cx: &mut Cx<'_>, params: &Params, text: &str, path: &KeyPath) -> Option<Profile> {
    let place = cx.at(path);
    let value = texts::value(cx, params, None, text, &place)?;
    let profile = serde_json::from_value(value.clone()).ok();
    if profile.is_none() {
        texts::wrong(cx, params, text, path, &value, "`default`, `rag-bench` or `sense`");
    }
    profile
}

fn pool_and_limits(cx: &mut Cx<'_>, name: &str, wire: &pipeline::Stage, effect: Effect) {
    let path = KeyPath::of(&["stage", name]);
    if let Some(pool) = &wire.pool {
        let known = cx.declared("pools");
        if !known.contains(pool) {
            let what = Unknown {
                code: "unknown-pool",
                noun: "pool",
                table: Some("pools"),
                none: "declare it under `[pools]`: `NAME = { slots = 4 }`",
            };
            let place = cx.at(&path.key("pool"));
            cx.unknown(&what, pool, &known, place);
        }
    }
    match (effect, wire.limits.usd) {
        (Effect::Paid, None) if !cx.has(&path.key("limits").key("usd")) => {
            let place = cx.at(&path.key("effect"));
            let help = "add `limits = { usd = N }`: the most that one execution may cost";
            cx.error("missing-key", format!("the paid stage `{name}` has no limit in dollars"), place, help);
        }
        (Effect::Pure | Effect::Measured, Some(_)) => {
            let place = cx.key(&path.key("limits").key("usd"));
            let help = "leave it out, or set `effect = \"paid\"` on a command";
            cx.error(
                "misplaced-key",
                format!("`usd` limits nothing in `{name}`, which costs nothing"),
                place,
                help,
            );
        }
        _ => {}
    }
}

/// Finds the axes of a stage, its needs' being known; says whether all could be found.
fn over(
    cx: &mut Cx<'_>,
    all: &mut [Draft],
    at: usize,
    (name, wire): &(String, pipeline::Stage),
    axes: &Axes,
) -> bool {
    let path = KeyPath::of(&["stage", name, "over"]);
    let mut sure = true;
    let mut found: Vec<usize> = Vec::new();
    match &wire.over {
        _ if wire.kind == Kind::Aggregate => {}
        None => {
            for need in all[at].stage.needs.clone() {
                found.extend(all[need].stage.axes.iter().copied());
                sure &= !all[need].unsure;
            }
            // A faulty `over` is no missing one.
            sure &= !cx.has(&path);
        }
        Some(names) => {
            for (index, axis) in names.iter().enumerate() {
                let place = cx.at(&path.index(index));
                match axes.index(axis) {
                    Some(axis) if found.contains(&axis) => {
                        let message = format!("`{name}` names the axis `{}` twice", names[index]);
                        cx.error("duplicate-value", message, place, "take one out");
                    }
                    Some(axis) => found.push(axis),
                    None => {
                        sure = false;
                        if !axes.declared.contains(axis) {
                            cx.unknown(&AXIS, axis, &axes.declared, place);
                        }
                    }
                }
            }
        }
    }
    found.sort_unstable();
    found.dedup();
    for axis in &found {
        let Some(parent) = axes.all[*axis].of.filter(|parent| !found.contains(parent)) else { continue };
        let (child, parent) = (&axes.all[*axis].name, &axes.all[parent].name);
        let index = wire.over.iter().flatten().position(|name| name == child);
        let place =
            index.map_or_else(|| cx.table(&KeyPath::of(&["stage", name])), |index| cx.at(&path.index(index)));
        let message = format!("`{name}` runs over `{child}` but not over `{parent}`, on which it depends");
        cx.error("dependent-axis", message, place, format!("add `{parent}` to its `over`"));
    }
    all[at].stage.axes = found;
    sure
}

/// Warns of what nothing reads.
fn unused(cx: &mut Cx<'_>, stages: &Stages) {
    // As written, so that a faulty stage counts as a reader.
    let declared = cx.declared("stage");
    let written: BTreeSet<&str> = declared
        .iter()
        .filter_map(|stage| cx.document.get(&KeyPath::of(&["stage", stage, "needs"]))?.as_array())
        .flat_map(|list| list.iter().filter_map(serde_json::Value::as_str))
        .collect();
    let known: BTreeSet<&str> = declared.iter().map(String::as_str).collect();
    // A misspelt need has been reported, with this stage as the nearest name.
    let misspelt: Vec<&str> = written.difference(&known).copied().collect();
    let mut warnings = Vec::new();
    for draft in &stages.all {
        let name = &draft.stage.name;
        let terminal = matches!(draft.kind, Kind::Aggregate | Kind::Command);
        if terminal || written.contains(name.as_str()) || cx.document.excuses(name) {
            continue;
        }
        if nearest(name, misspelt.iter().copied()).is_none() {
            warnings.push(name);
        }
    }
    drop(written);
    for name in warnings {
        let place = cx.key(&KeyPath::of(&["stage", name]));
        let help = "name it in the `needs` of a stage, or take it out";
        cx.warning("unused-stage", format!("nothing reads what the stage `{name}` makes"), place, help);
    }
    let pools = cx.declared("pools");
    for pool in &pools {
        let names = |stage: &String| {
            cx.document.get(&KeyPath::of(&["stage", stage, "pool"])).and_then(|v| v.as_str())
        };
        // A misspelt pool has been reported, with this one as the nearest.
        let meant = |name: &str| {
            name == pool || (!pools.iter().any(|p| p == name) && nearest(name, [pool.as_str()]).is_some())
        };
        if !declared.iter().filter_map(names).any(meant) {
            let place = cx.key(&KeyPath::of(&["pools", pool]));
            cx.warning(
                "unused-pool",
                format!("no stage uses the pool `{pool}`"),
                place,
                "name it in a stage, or take it out",
            );
        }
    }
}

impl Stages {
    /// Whether any stage puts results together.
    pub(super) fn aggregates(&self) -> bool {
        self.all.iter().any(|draft| draft.kind == Kind::Aggregate)
    }

    /// The stages in an order in which each comes after those that it needs;
    /// behind every measured stage the one that reads what it published.
    /// Servers start from the raw artifact, all others read the derived one.
    pub(super) fn finish(self) -> Option<Vec<Stage>> {
        let order = self.order?;
        let mut out: Vec<Stage> = Vec::new();
        let mut raw = vec![0; self.all.len()];
        let mut derived = vec![0; self.all.len()];
        let mut drafts: Vec<Option<Draft>> = self.all.into_iter().map(Some).collect();
        for at in order {
            let Some(Draft { kind, mut stage, .. }) = drafts[at].take() else { continue };
            // Servers start from the raw artifact; judges read answers.
            let starts = matches!(kind, Kind::Ingest | Kind::Warmup | Kind::Session);
            let is_raw = starts || kind == Kind::Judge;
            let map = if starts { &raw } else { &derived };
            stage.needs = stage.needs.iter().map(|need| map[*need]).collect();
            raw[at] = out.len();
            derived[at] = out.len();
            let read = is_raw.then(|| Stage {
                name: format!("{}.read", stage.name),
                work: Work::Read { of: kind },
                needs: vec![out.len()],
                axes: stage.axes.clone(),
                pool: None,
                retry: None,
                limits: pipeline::Limits::default(),
                effect: Effect::Pure,
                share: false,
            });
            out.push(stage);
            if let Some(read) = read {
                derived[at] = out.len();
                out.push(read);
            }
        }
        Some(out)
    }
}
