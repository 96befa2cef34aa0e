//! Arms: one per table, or one per entry of a table's `over`.

use super::data::Data;
use super::params::Params;
use super::recordings::Answers;
use super::texts::{self, Placed};
use super::{Cx, short};
use crate::diag::{Diagnostic, Place, nearest};
use crate::manifest::names::{SLUG_WORDS, is_slug};
use crate::manifest::path::KeyPath;
use crate::manifest::pipeline;
use crate::manifest::project::is_path;
use crate::manifest::templated::Templated;
use crate::plan::compiled::Arm;
use crate::plan::template::{self, Reference};

/// The arms, and what is unsure of them.
#[derive(Debug, Default)]
pub(super) struct Arms {
    pub(super) all: Vec<Arm>,
    /// Where each was declared, in the order of `all`.
    pub(super) places: Vec<Place>,
    /// Names of arms that could not be made, which has been reported.
    failed: Vec<String>,
    /// There are arms without a known name: names of arms can't be checked.
    pub(super) unsure: bool,
    /// The pipeline declares arms at all.
    pub(super) declared: bool,
}

impl Arms {
    /// Names of the arms, faulty ones last.
    pub(super) fn names(&self) -> Vec<String> {
        self.all.iter().map(|arm| &arm.name).chain(&self.failed).cloned().collect()
    }

    /// Whether the name is probably that of an arm whose own name is misspelt.
    pub(super) fn probably_failed(&self, name: &str) -> bool {
        nearest(name, self.failed.iter().map(String::as_str)).is_some()
    }

    /// Whether all arms could be made.
    pub(super) fn complete(&self) -> bool {
        !self.unsure && self.failed.is_empty()
    }

    /// Adds the arms that recorded answers name and the pipeline doesn't declare.
    pub(super) fn add_recorded(&mut self, cx: &Cx<'_>, answers: &Answers) {
        let place = cx.at(&KeyPath::of(&["recordings"]));
        self.unsure |= answers.unsure;
        self.declared |= answers.declared;
        for name in answers.arms() {
            if self.all.iter().all(|arm| arm.name != name) && !self.failed.iter().any(|failed| failed == name)
            {
                self.all.push(Arm {
                    name: name.to_owned(),
                    server: None,
                    preset_dir: None,
                    start: pipeline::Start::default(),
                    draw: None,
                    recorded: true,
                });
                self.places.push(place.clone());
            }
        }
    }

    /// Whether which arms there are depends on what `--set` gave.
    pub(super) fn changed(cx: &Cx<'_>, params: &Params) -> bool {
        cx.pipeline.arm.values().any(|arm| {
            let over = match &arm.over {
                Some(Templated::Template(text)) => params.changed(text),
                _ => false,
            };
            over || [&arm.server, &arm.draw].into_iter().flatten().any(|text| params.changed(text))
        })
    }
}

/// Makes the arms.
pub(super) fn read(cx: &mut Cx<'_>, params: &Params, data: &Data) -> Arms {
    let declared = cx.declared("arm");
    let mut out = Arms { declared: !declared.is_empty(), ..Arms::default() };
    // A table that could not be read stands for arms that nobody knows.
    out.unsure = declared.len() != cx.pipeline.arm.len();
    for (table, arm) in cx.pipeline.arm.clone() {
        let path = KeyPath::of(&["arm", &table]);
        match &arm.over {
            None => {
                let place = cx.key(&path);
                one(cx, params, data, &mut out, (&table, &arm), None, place);
            }
            Some(over) => match texts::list(cx, params, over, &path.key("over")) {
                None => out.unsure = true,
                Some(entries) => {
                    if entries.is_empty() {
                        let help = "name at least one entry";
                        cx.error(
                            "empty",
                            format!("`{path}` makes no arm: its list is empty"),
                            cx.at(&path.key("over")),
                            help,
                        );
                        out.unsure = true;
                    }
                    for entry in entries {
                        let place = entry.place(cx);
                        one(cx, params, data, &mut out, (&table, &arm), Some(&entry), place);
                    }
                }
            },
        }
    }
    equal(cx, &out);
    out
}

fn one(
    cx: &mut Cx<'_>,
    params: &Params,
    data: &Data,
    out: &mut Arms,
    (table, arm): (&str, &pipeline::Arm),
    item: Option<&Placed>,
    place: Place,
) {
    let path = KeyPath::of(&["arm", table]);
    let entry = item.map(|item| item.text.as_str());
    let mut fill = |text: &Option<String>, key: &str| match text {
        None => Ok(None),
        Some(text) => texts::text(cx, params, entry, text, &path.key(key)).map(Some).ok_or(()),
    };
    let (Ok(server), Ok(draw)) = (fill(&arm.server, "server"), fill(&arm.draw, "draw")) else {
        out.unsure = true;
        return;
    };
    let preset = match &server {
        None => None,
        Some(name) => {
            // The entry is where the name was written, if it is the entry.
            let at = if entry == Some(name) { place.clone() } else { cx.at(&path.key("server")) };
            let Some(preset) = data.preset(cx, params, name, &at) else {
                match entry {
                    Some(entry) if is_path(entry) => out.unsure = true,
                    Some(entry) => out.failed.push(entry.to_owned()),
                    None => out.failed.push(table.to_owned()),
                }
                return;
            };
            Some(preset)
        }
    };
    let name = match (entry, &preset) {
        (None, _) => table.to_owned(),
        (Some(entry), Some(preset)) if is_path(entry) && server.as_deref() == Some(entry) => {
            preset.server.name.clone()
        }
        (Some(entry), _) => entry.to_owned(),
    };
    if !is_slug(&name) {
        let message = format!("`{}` can't be the name of an arm", short(&name));
        cx.error("bad-name", message, place, format!("expected {SLUG_WORDS}"));
        out.unsure = true;
        return;
    }
    if let Some(first) = out.all.iter().position(|arm| arm.name == name) {
        let error = Diagnostic::error("duplicate-arm", format!("there are two arms named `{name}`"));
        let error = error.at(place, "again here").at(out.places[first].clone(), "first here");
        cx.found
            .push(error.help("an arm made by `over` is named by its entry; give the other one another name"));
        return;
    }
    let (server, preset_dir) = preset.map_or((None, None), |preset| (Some(preset.server), preset.dir));
    out.all.push(Arm { name, server, preset_dir, start: arm.start, draw, recorded: false });
    out.places.push(place);
}

/// Whether some command tells its arms apart by their name.
fn names_arm(cx: &Cx<'_>) -> bool {
    let arm = Reference::Name(crate::manifest::axis::ARM.to_owned());
    cx.pipeline.stage.values().any(|stage| {
        let outputs = stage.outputs.values().map(|output| &output.path);
        let mut texts = stage.run.iter().chain(&stage.inputs).chain(stage.env.values()).chain(outputs);
        texts.any(|text| template::references(text).is_ok_and(|found| found.contains(&arm)))
    })
}

/// Two arms of equal content would be one condition under two names: their
/// nodes would share keys. Labels of commands are exempt: a command sees the
/// arm only where it names it.
fn equal(cx: &mut Cx<'_>, out: &Arms) {
    let labels = cx.only_commands() && names_arm(cx);
    let content = |arm: &Arm| {
        let mut server = arm.server.clone();
        if let Some(server) = &mut server {
            // What only people read is no content.
            server.name.clear();
            server.about.clear();
            server.names.clear();
        }
        let server = server.map(|server| serde_json::to_value(server).unwrap_or_default());
        (server, arm.start, arm.draw.clone())
    };
    for (at, arm) in out.all.iter().enumerate() {
        if labels && arm.server.is_none() {
            continue;
        }
        let same = out.all[..at].iter().position(|earlier| content(earlier) == content(arm));
        let Some(first) = same else { continue };
        let message =
            format!("the arms `{}` and `{}` are equal in all but their names", out.all[first].name, arm.name);
        let error = Diagnostic::error("equal-arms", message).at(out.places[at].clone(), "this arm");
        let error = error.at(out.places[first].clone(), "equals this one");
        cx.found.push(error.help("take one out, or, to compare an arm with itself on purpose, give each its own `draw = \"LABEL\"`"));
    }
}
