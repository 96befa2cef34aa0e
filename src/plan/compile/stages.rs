//! Stages: what each does, over which axes, and what it may need.

use super::arms::Arms;
use super::axes::Axes;
use super::commands::{self, Outputs};
use super::data::AXIS;
use super::needs::Graph;
use super::params::Params;
use super::rules;
use super::{Cx, Unknown, texts};
use crate::diag::{Diagnostic, nearest};
use crate::manifest::path::KeyPath;
use crate::manifest::pipeline::{self, Effect, Kind, Profile};
use crate::manifest::templated::Templated;
use crate::plan::compiled::{Stage, Work};

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
    let mut all: Vec<Draft> = Vec::new();
    for (at, (name, wire)) in wires.iter().enumerate() {
        let work = work(cx, params, name, wire);
        let unsure = graph.unsure[at] || work.is_none();
        let effect = match wire.kind {
            Kind::Ingest | Kind::Warmup | Kind::Session => Effect::Measured,
            Kind::Grade | Kind::Aggregate => Effect::Pure,
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
        Kind::Session => {
            let top = match &wire.top {
                None => TOP,
                Some(top) => texts::count(cx, params, top, &path.key("top"), (1, MOST_RESULTS))?,
            };
            Work::Retrieval { top }
        }
        Kind::Grade => {
            graders(cx, &wire.graders, &path.key("graders"));
            let profile = match &wire.profile {
                None => Profile::Default,
                Some(Templated::Value(profile)) => *profile,
                Some(Templated::Template(text)) => profile(cx, params, text, &path.key("profile"))?,
            };
            Work::Grade { graders: wire.graders.clone(), profile }
        }
        // A command is read once the axes of the stage are known.
        Kind::Aggregate | Kind::Command => Work::Aggregate,
    })
}

fn graders(cx: &mut Cx<'_>, names: &[String], path: &KeyPath) {
    let known: Vec<String> = cx.request.catalog.graders.keys().cloned().collect();
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

fn profile(cx: &mut Cx<'_>, params: &Params, text: &str, path: &KeyPath) -> Option<Profile> {
    let place = cx.at(path);
    let value = texts::value(cx, params, None, text, &place)?;
    let profile = serde_json::from_value(value.clone()).ok();
    if profile.is_none() {
        texts::wrong(cx, params, text, path, &value, "`default` or `rag-bench`");
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

<<<<<<< HEAD
/// What a kind of stage may need and run over.
fn rules(cx: &mut Cx<'_>, stages: &Stages, at: usize, draft: &Draft, axes: &Axes, arms: &Arms) {
    let name = &draft.stage.name;
    let path = KeyPath::of(&["stage", name]);
    let (allowed, words): (&[Kind], &str) = match draft.kind {
        Kind::Ingest => (&[], "reads no other stage"),
        Kind::Warmup => (&[Kind::Ingest], "needs an ingest stage"),
        Kind::Session => (&[Kind::Warmup, Kind::Ingest], "needs a warmup or ingest stage"),
        Kind::Grade => (
            &[Kind::Session, Kind::Ingest, Kind::Warmup],
            "needs a session, and may need its ingest and warmup",
        ),
        Kind::Aggregate => (&[Kind::Grade, Kind::Command], "needs grade stages, or commands with `metrics`"),
        Kind::Command => {
            (&[Kind::Ingest, Kind::Warmup, Kind::Session, Kind::Grade, Kind::Aggregate, Kind::Command], "")
        }
    };
    let article = if matches!(draft.kind, Kind::Ingest | Kind::Aggregate) { "an" } else { "a" };
    let kind = kind_word(draft.kind);
    for (index, need) in draft.stage.needs.iter().enumerate() {
        let needed = &stages.all[*need];
        let metrics = draft.kind != Kind::Aggregate || needed.kind != Kind::Command || has_metrics(needed);
        if allowed.contains(&needed.kind) && metrics {
            continue;
        }
        let place = need_place(cx, &path, &needed.stage.name, index);
        let other = &needed.stage.name;
        let message = match metrics {
            true => format!("`{name}` can't need `{other}`, {} stage", with_article(needed.kind)),
            false => format!("`{name}` can't need `{other}`, a command without `metrics`"),
        };
        let help = match metrics {
            true => format!("{article} {kind} stage {words}"),
            false => format!("add `metrics = \"OUTPUT\"` to `{other}`, the output whose numbers are metrics"),
        };
        cx.error("bad-need", message, place, help);
    }
    if draft.unsure {
        return;
    }
    match draft.kind {
        Kind::Ingest => runs_over(cx, draft, &path, axes, &[REPO, ARM]),
        Kind::Warmup | Kind::Session => {
            runs_over(cx, draft, &path, axes, &[REPO, ARM]);
            let ingests = upstream(stages, at, Kind::Ingest);
            let any_server = arms.arms.iter().any(|arm| arm.server.is_some());
            if ingests.is_empty() && (any_server || draft.kind == Kind::Warmup) {
                let message =
                    format!("the {kind} `{name}` has no ingest stage before it, so no server is ready");
                let help = "add a stage of kind `ingest` over repo and arm, and name it in `needs`";
                cx.error("no-ingest", message, cx.table(&path), help);
            }
            if ingests.len() > 1 {
                let message = format!("the {kind} `{name}` builds on {} ingest stages", ingests.len());
                cx.error("two-ingests", message, cx.at(&path.key("needs")), "let it need one");
            }
            gathers(cx, stages, draft, &path, axes);
            if draft.kind == Kind::Session {
                session(cx, draft, &path, axes, arms);
            }
        }
        Kind::Grade => {
            if upstream(stages, at, Kind::Session).is_empty() {
                let message =
                    format!("the grade stage `{name}` needs no session, so it has nothing to score");
                let place =
                    if cx.has(&path.key("needs")) { cx.at(&path.key("needs")) } else { cx.table(&path) };
                cx.error("no-session", message, place, "name a session in `needs`");
            }
        }
        Kind::Aggregate => {
            if draft.stage.needs.is_empty() {
                let place =
                    if cx.has(&path.key("needs")) { cx.at(&path.key("needs")) } else { cx.table(&path) };
                let message =
                    format!("the aggregate `{name}` needs no stage, so it has nothing to put together");
                cx.error(
                    "missing-key",
                    message,
                    place,
                    "add `needs = [...]`: grade stages, or commands with `metrics`",
                );
            }
        }
        Kind::Command => {}
    }
}

fn session(cx: &mut Cx<'_>, draft: &Draft, path: &KeyPath, axes: &Axes, arms: &Arms) {
    let name = &draft.stage.name;
    if let Some(task) = axes.index(TASK).filter(|task| draft.stage.axes.contains(task)) {
        let over = path.key("over");
        let entries = cx.pipeline.stage.get(name).and_then(|s| s.over.clone()).unwrap_or_default();
        let index = entries.iter().position(|entry| *entry == axes.axes[task].name);
        let place = index.map_or_else(|| cx.table(path), |index| cx.at(&over.index(index)));
        let help = "take `task` out of `over`; the session then asks the questions that are on the axis";
        cx.error(
            "bad-axis",
            format!("the retrieval session `{name}` asks all questions of a repository in one node"),
            place,
            help,
        );
    }
    for (arm, place) in arms.arms.iter().zip(&arms.places) {
        if arm.server.is_none() {
            let message = format!(
                "the arm `{}` has no server, so the retrieval session `{name}` has nobody to ask",
                arm.name
            );
            let error = Diagnostic::error("no-server", message)
                .at(arm_table(cx, &arm.name).unwrap_or_else(|| place.clone()), "");
            let error = error.at(cx.at(&path.key("driver")), "this session");
            cx.found.push(error.help("give the arm a `server`, e.g. the preset `grep`"));
        }
    }
}

/// The table of an arm: its own, or the only one that could have made it.
fn arm_table(cx: &Cx<'_>, arm: &str) -> Option<crate::diag::Place> {
    let own = KeyPath::of(&["arm", arm]);
    if cx.has(&own) {
        return Some(cx.table(&own));
    }
    let tables: Vec<&String> =
        cx.pipeline.arm.iter().filter(|(_, a)| a.over.is_some()).map(|(n, _)| n).collect();
    match tables[..] {
        [only] => Some(cx.table(&KeyPath::of(&["arm", only]))),
        _ => None,
    }
}

/// Reports a stage that lacks an axis that its kind works on.
fn runs_over(cx: &mut Cx<'_>, draft: &Draft, path: &KeyPath, axes: &Axes, wanted: &[&str]) {
    let has = |axis: &&&str| axes.index(axis).is_some_and(|index| draft.stage.axes.contains(&index));
    let missing: Vec<&str> = wanted.iter().filter(|axis| !has(axis)).copied().collect();
    if missing.is_empty() {
        return;
    }
    let kind = with_article(draft.kind);
    let list = missing.iter().map(|axis| format!("`{axis}`")).collect::<Vec<_>>().join(" and ");
    let over = path.key("over");
    let place = if cx.has(&over) { cx.at(&over) } else { cx.table(path) };
    let all = wanted.iter().map(|axis| format!("\"{axis}\"")).collect::<Vec<_>>().join(", ");
    let help = match missing.iter().find(|axis| !axes.declared.iter().any(|d| d == **axis)) {
        Some(axis) if *axis == ARM => {
            "declare `arm = \"all\"` under `[axes]`, and name it in `over`".to_owned()
        }
        Some(axis) => format!("declare `{axis} = [...]` under `[axes]`, and name it in `over`"),
        None => format!("write `over = [{all}, ...]`"),
    };
    let name = &draft.stage.name;
    cx.error("missing-axis", format!("`{name}` doesn't run over {list}, as {kind} stage must"), place, help);
}

/// A session starts one server on one state: it can't gather several.
fn gathers(cx: &mut Cx<'_>, stages: &Stages, draft: &Draft, path: &KeyPath, axes: &Axes) {
    for (index, need) in draft.stage.needs.iter().enumerate() {
        let needed = &stages.all[*need].stage;
        let Some(axis) = needed.axes.iter().find(|axis| !draft.stage.axes.contains(axis)) else { continue };
        let (axis, name) = (&axes.axes[*axis].name, &draft.stage.name);
        if axis == REPO || axis == ARM {
            continue;
        }
        let place = need_place(cx, path, &needed.name, index);
        let message = format!(
            "`{}` runs over `{axis}` and `{name}` doesn't, so it would start from several indexes",
            needed.name
        );
        cx.error(
            "gathers",
            message,
            place,
            format!("add `{axis}` to the `over` of `{name}`, or take it out of `{}`", needed.name),
        );
    }
}

/// Where a stage names another among its needs.
fn need_place(cx: &Cx<'_>, stage: &KeyPath, need: &str, otherwise: usize) -> crate::diag::Place {
    let needs = stage.key("needs");
    let list = cx.document.get(&needs).and_then(serde_json::Value::as_array);
    let at = list.and_then(|list| list.iter().position(|entry| entry.as_str() == Some(need)));
    cx.at(&needs.index(at.unwrap_or(otherwise)))
}

fn has_metrics(draft: &Draft) -> bool {
    matches!(&draft.stage.work, Work::Command(command) if command.metrics.is_some())
}

/// The stages of a kind that a stage builds on, directly or not.
fn upstream(stages: &Stages, at: usize, kind: Kind) -> Vec<usize> {
    let mut seen = vec![false; stages.all.len()];
    let mut stack = stages.all[at].stage.needs.clone();
    while let Some(need) = stack.pop() {
        if !std::mem::replace(&mut seen[need], true) {
            stack.extend(stages.all[need].stage.needs.iter().copied());
        }
    }
    (0..stages.all.len()).filter(|i| seen[*i] && stages.all[*i].kind == kind).collect()
}

=======
>>>>>>> manifest
/// Warns of what nothing reads.
fn unused(cx: &mut Cx<'_>, stages: &Stages) {
    // As written, so that a faulty stage counts as a reader.
    let declared = cx.declared("stage");
    let written: Vec<String> = declared
        .iter()
        .filter_map(|stage| cx.document.get(&KeyPath::of(&["stage", stage, "needs"]))?.as_array())
        .flat_map(|list| list.iter().filter_map(serde_json::Value::as_str))
        .map(str::to_owned)
        .collect();
    for draft in &stages.all {
        let name = &draft.stage.name;
        let terminal = matches!(draft.kind, Kind::Aggregate | Kind::Command);
        // A misspelt need has been reported, with this stage as the nearest name.
        let unknown = written.iter().map(String::as_str).filter(|need| !declared.iter().any(|d| d == need));
        let meant = nearest(name, unknown).is_some();
        if !terminal && !written.contains(name) && !meant && !cx.document.excuses(name) {
            let place = cx.key(&KeyPath::of(&["stage", name]));
<<<<<<< HEAD
            let known: Vec<&str> =
                cx.pipeline.stage.values().flat_map(|s| s.needs.iter().map(String::as_str)).collect();
            let help = match nearest(name, known.iter().copied()) {
                Some(near) => {
                    format!("did you mean to call it `{near}`? else name it in the `needs` of a stage")
                }
                None => "name it in the `needs` of a stage, or take it out".to_owned(),
            };
=======
            let help = "name it in the `needs` of a stage, or take it out";
>>>>>>> manifest
            cx.warning("unused-stage", format!("nothing reads what the stage `{name}` makes"), place, help);
        }
    }
    let pools = cx.declared("pools");
<<<<<<< HEAD
    for pool in pools {
        if !cx.pipeline.stage.values().any(|stage| stage.pool.as_ref() == Some(&pool)) {
            let place = cx.key(&KeyPath::of(&["pools", &pool]));
=======
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
>>>>>>> manifest
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
            let starts = matches!(kind, Kind::Ingest | Kind::Warmup | Kind::Session);
            let map = if starts { &raw } else { &derived };
            stage.needs = stage.needs.iter().map(|need| map[*need]).collect();
            raw[at] = out.len();
            derived[at] = out.len();
            let read = starts.then(|| Stage {
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
