//! What a stage of each kind may need and run over.

use super::Cx;
use super::arms::Arms;
use super::axes::Axes;
use super::stages::{Draft, Stages};
use crate::diag::{Diagnostic, Place};
use crate::manifest::axis::{ANSWER, ARM, REPLICATE, REPO, TASK};
use crate::manifest::path::KeyPath;
use crate::manifest::pipeline::Kind;
use crate::plan::compiled::Work;

/// Grader of what a server took.
const RESOURCES: &str = "resources";

/// What a kind of stage may need and run over.
pub(super) fn check(cx: &mut Cx<'_>, stages: &Stages, at: usize, draft: &Draft, axes: &Axes, arms: &Arms) {
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
        Kind::Judge => (&[Kind::Session], "needs a session"),
        Kind::Aggregate => (
            &[Kind::Grade, Kind::Judge, Kind::Command],
            "needs grade and judge stages, or commands with `metrics`",
        ),
        Kind::Command => (
            &[
                Kind::Ingest,
                Kind::Warmup,
                Kind::Session,
                Kind::Grade,
                Kind::Judge,
                Kind::Aggregate,
                Kind::Command,
            ],
            "",
        ),
    };
    let article = if matches!(draft.kind, Kind::Ingest | Kind::Aggregate) { "an" } else { "a" };
    let kind = kind_word(draft.kind);
    for (index, need) in draft.stage.needs.iter().enumerate() {
        let needed = &stages.all[*need];
        let metrics = draft.kind != Kind::Aggregate || needed.kind != Kind::Command || has_metrics(needed);
        if allowed.contains(&needed.kind) && metrics {
            continue;
        }
        // A circle has been reported, and one of its needs has to go anyway.
        if upstream(stages, *need).contains(&at) {
            continue;
        }
        let place = need_place(cx, &path, &needed.stage.name, index);
        let other = &needed.stage.name;
        let message = if metrics {
            format!("`{name}` can't need `{other}`, {} stage", with_article(needed.kind))
        } else {
            format!("`{name}` can't need `{other}`, a command without `metrics`")
        };
        let help = if metrics {
            format!("{article} {kind} stage {words}")
        } else {
            format!("add `metrics = \"OUTPUT\"` to `{other}`, the output whose numbers are metrics")
        };
        cx.error("bad-need", message, place, help);
    }
    if draft.unsure {
        return;
    }
    match draft.kind {
        Kind::Ingest => runs_over(cx, draft, &path, axes, &[REPO, ARM]),
        Kind::Session if matches!(draft.stage.work, Work::Recorded) => {
            recorded(cx, draft, &path, axes);
            gathers(cx, stages, draft, &path, axes);
        }
        Kind::Warmup | Kind::Session => {
            runs_over(cx, draft, &path, axes, &[REPO, ARM]);
            let ingests = of_kind(stages, at, Kind::Ingest);
            let any_server = arms.all.iter().any(|arm| arm.server.is_some());
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
        Kind::Grade | Kind::Judge => {
            if of_kind(stages, at, Kind::Session).is_empty() {
                let message =
                    format!("the {kind} stage `{name}` needs no session, so it has nothing to score");
                let place =
                    if cx.has(&path.key("needs")) { cx.at(&path.key("needs")) } else { cx.table(&path) };
                cx.error("no-session", message, place, "name a session in `needs`");
            }
            if let Work::Grade { graders, .. } = &draft.stage.work {
                fitting(cx, stages, at, graders, &path);
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
                    "add `needs = [...]`: grade and judge stages, or commands with `metrics`",
                );
            }
        }
        Kind::Command => {}
    }
}

/// Graders of answers need a session in which an agent spoke; what a server cost can't be told
/// from a recorded one.
fn fitting(cx: &mut Cx<'_>, stages: &Stages, at: usize, graders: &[String], path: &KeyPath) {
    let sessions = of_kind(stages, at, Kind::Session);
    let Some(session) = sessions.first().map(|at| &stages.all[*at]).filter(|session| !session.unsure) else {
        return;
    };
    let is_recorded = matches!(session.stage.work, Work::Recorded);
    for (index, grader) in graders.iter().enumerate() {
        let (needs, gives) = match grader.as_str() {
            name if cx.request.catalog.of_answers.contains(name) && !is_recorded => {
                ("answers", "lists of results")
            }
            RESOURCES if is_recorded => ("readings of a server", "recordings"),
            _ => continue,
        };
        let message = format!("`{grader}` grades {needs}; `{}` gives {gives}", session.stage.name);
        let help = if is_recorded {
            "take it out: a recording doesn't say what a server took"
        } else {
            "take it out, or need a session with `driver = \"recorded\"`"
        };
        cx.error("unfit-grader", message, cx.at(&path.key("graders").index(index)), help);
    }
}

fn session(cx: &mut Cx<'_>, draft: &Draft, path: &KeyPath, axes: &Axes, arms: &Arms) {
    let name = &draft.stage.name;
    if let Some(task) = axes.index(TASK).filter(|task| draft.stage.axes.contains(task)) {
        let over = path.key("over");
        let entries = cx.pipeline.stage.get(name).and_then(|s| s.over.clone()).unwrap_or_default();
        let index = entries.iter().position(|entry| *entry == axes.all[task].name);
        let place = index.map_or_else(|| cx.table(path), |index| cx.at(&over.index(index)));
        let help = "take `task` out of `over`; the session then asks the questions that are on the axis";
        cx.error(
            "bad-axis",
            format!("the retrieval session `{name}` asks all questions of a repository in one node"),
            place,
            help,
        );
    }
    for (arm, place) in arms.all.iter().zip(&arms.places) {
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

/// A recorded session takes one answer: that of its `answer`, or of its arm, task and replicate.
fn recorded(cx: &mut Cx<'_>, draft: &Draft, path: &KeyPath, axes: &Axes) {
    let runs = |axis: &str| axes.index(axis).is_some_and(|index| draft.stage.axes.contains(&index));
    let says = runs(ANSWER) || runs(ARM) && runs(TASK);
    if !says {
        let place = if cx.has(&path.key("over")) { cx.at(&path.key("over")) } else { cx.table(path) };
        let message =
            format!("the recorded session `{}` doesn't say which answer it takes", draft.stage.name);
        let help = format!("run it over `{ARM}` and `{ANSWER}`, or over `{ARM}`, `{TASK}` and `{REPLICATE}`");
        cx.error("missing-axis", message, place, help);
    }
    if !cx.has(&KeyPath::of(&["recordings"])) {
        let help = "name them above the axes: `recordings = [\"recordings/NAME.toml\"]`";
        cx.error("no-recording", "the pipeline takes no recordings", cx.at(&path.key("driver")), help);
    }
}

/// The table of an arm: its own, or the only one that could have made it.
fn arm_table(cx: &Cx<'_>, arm: &str) -> Option<Place> {
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
        let (axis, name) = (&axes.all[*axis].name, &draft.stage.name);
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
fn need_place(cx: &Cx<'_>, stage: &KeyPath, need: &str, otherwise: usize) -> Place {
    let needs = stage.key("needs");
    let list = cx.document.get(&needs).and_then(serde_json::Value::as_array);
    let at = list.and_then(|list| list.iter().position(|entry| entry.as_str() == Some(need)));
    cx.at(&needs.index(at.unwrap_or(otherwise)))
}

fn has_metrics(draft: &Draft) -> bool {
    matches!(&draft.stage.work, Work::Command(command) if command.metrics.is_some())
}

/// The stages of a kind that a stage builds on, directly or not.
fn of_kind(stages: &Stages, at: usize, kind: Kind) -> Vec<usize> {
    upstream(stages, at).into_iter().filter(|i| stages.all[*i].kind == kind).collect()
}

/// The stages that a stage builds on, directly or not.
fn upstream(stages: &Stages, at: usize) -> Vec<usize> {
    let mut seen = vec![false; stages.all.len()];
    let mut stack = stages.all[at].stage.needs.clone();
    while let Some(need) = stack.pop() {
        if !std::mem::replace(&mut seen[need], true) {
            stack.extend(stages.all[need].stage.needs.iter().copied());
        }
    }
    (0..stages.all.len()).filter(|i| seen[*i]).collect()
}

fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Ingest => "ingest",
        Kind::Warmup => "warmup",
        Kind::Session => "session",
        Kind::Grade => "grade",
        Kind::Judge => "judge",
        Kind::Aggregate => "aggregate",
        Kind::Command => "command",
    }
}

fn with_article(kind: Kind) -> String {
    let article = if matches!(kind, Kind::Ingest | Kind::Aggregate) { "an" } else { "a" };
    format!("{article} {}", kind_word(kind))
}
