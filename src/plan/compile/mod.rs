//! Compilation: a pipeline file, what it extends, parameters, presets and
//! datasets become one immutable [`Compiled`], or all diagnostics at once.
//!
//! The structural check has already said which parts of the files can't be
//! used. What is left is checked for its meaning; a name whose declaration was
//! faulty counts as known, so that one mistake is reported once.

mod arms;
mod axes;
mod commands;
mod data;
mod exclude;
mod metrics;
mod needs;
mod params;
mod recordings;
mod rules;
mod sets;
mod stages;
mod texts;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use indexmap::IndexMap;

use crate::diag::{self, Diagnostic, Place, names, nearest};
use crate::manifest::load;
use crate::manifest::path::KeyPath;
use crate::manifest::pipeline::{Kind, Pipeline};
use crate::manifest::project::{Found, Origin, Project, is_path};
use crate::manifest::source::Document;
use crate::plan::compiled::Compiled;

/// What is to be compiled.
#[derive(Clone, Debug)]
pub struct Request {
    /// The pipeline, by name or path.
    pub pipeline: String,
    /// `--set NAME=VALUE`, in order; of a name given twice the last counts.
    pub sets: Vec<(String, String)>,
    /// The working directory.
    pub cwd: PathBuf,
    /// What graders and engines there are.
    pub catalog: Catalog,
    /// It is only checked: recordings that are still to be imported are no mistake then.
    pub only_checked: bool,
}

/// What the program can do that manifests may name. The plan stands beside
/// the graders and engines, so it is told.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    /// Graders, with the metrics that each produces and the layer of each.
    pub graders: BTreeMap<String, Vec<(String, String)>>,
    /// Those of them that read what an agent said.
    pub of_answers: BTreeSet<String>,
    /// Metrics of which less is better.
    pub costs: BTreeSet<String>,
    /// Built-in engines.
    pub engines: Vec<String>,
}

/// Layer of a metric that counts fairness and adoption at once, as another benchmark does.
pub const MIXED: &str = "mixed";

/// A compiled pipeline and its warnings, or all that is wrong (warnings included).
pub type Outcome = Result<(Compiled, Vec<Diagnostic>), Vec<Diagnostic>>;

/// The longest chain of `extends`.
const LONGEST_CHAIN: usize = 8;

/// Compiles a pipeline.
///
/// # Errors
/// Everything that is wrong with it, in order of place.
pub fn compile(request: &Request) -> Outcome {
    let (project, file) =
        Project::of_pipeline(&request.cwd, &request.pipeline).map_err(|diagnostic| vec![*diagnostic])?;
    let (document, mut found) = read_chain(&project, &file);
    let (pipeline, structural) = load::typed::<Pipeline>(&document);
    found.extend(structural);
    let Some(pipeline) = pipeline else {
        diag::sort(&mut found);
        return Err(found);
    };
    let mut cx = Cx { request, project, document, pipeline, found };
    let compiled = build(&mut cx);
    let mut found = cx.found;
    diag::sort(&mut found);
    match compiled {
        Some(compiled) if !found.iter().any(Diagnostic::is_error) => Ok((compiled, found)),
        _ => Err(found),
    }
}

fn build(cx: &mut Cx<'_>) -> Option<Compiled> {
    let sets = sets::Sets::read(cx);
    let params = params::Params::read(cx, sets);
    let data = data::Data::open(cx, &params);
    let mut arms = arms::read(cx, &params, &data);
    let mut answers = recordings::read(cx, &params);
    arms.add_recorded(cx, &answers);
    let (axes, data) = axes::read(cx, &params, data, &arms, &mut answers);
    let stages = stages::read(cx, &params, &axes, &arms);
    let produced = metrics::Produced::of(cx, &params, &stages);
    let composites = metrics::composites(cx, &produced, &stages);
    let gates = metrics::gates(cx, &params, &arms, &produced, &stages);
    let exclude = exclude::read(cx, &params, &axes);
    let mut repos = IndexMap::new();
    let mut data = data;
    let (answers, scenarios) = answers.finish(cx, &params, &mut data, &mut repos);
    repos.extend(data.finish(cx, &axes, &stages));
    params.report_unused(cx);
    let pipeline = &cx.pipeline;
    Some(Compiled {
        name: pipeline.name.clone(),
        about: pipeline.about.clone(),
        seed: pipeline.seed,
        salt: pipeline.salt.clone(),
        disclosure: pipeline.disclosure.clone(),
        budget: pipeline.budget.usd.map(crate::plan::compiled::micros),
        paid: pipeline.paid.clone(),
        experiment: pipeline.experiment.clone(),
        params: params.values,
        arms: arms.all,
        axes: axes.all,
        exclude,
        pools: pipeline.pools.clone(),
        stages: stages.finish()?,
        composites,
        gates,
        repos,
        answers,
        scenarios,
        root: cx.project.root.clone(),
        path: cx.document.file().path.to_string(),
    })
}

/// The pipeline's file laid over those that it extends.
fn read_chain(project: &Project, file: &Found) -> (Document, Vec<Diagnostic>) {
    let (mut document, mut found) = Document::parse(&file.shown, &file.bytes);
    let mut seen = vec![file.origin.clone()];
    let mut here = file.origin.clone();
    // The `extends` of the file that was read last; an overlay's own wins the merge.
    let mut next = extends(&document);
    while let Some((wanted, place)) = next {
        let base = match base_file(project, &here, &wanted) {
            Ok(Some(base)) => base,
            Ok(None) => {
                let known = project.names_in("pipelines", &[]);
                let stem = wanted.trim_end_matches(".toml").rsplit('/').next().unwrap_or_default();
                let help = match nearest(stem, known.iter().map(String::as_str)) {
                    Some(near) => {
                        format!("did you mean `{near}`? it may name a pipeline or a file beside this one")
                    }
                    None => format!("pipelines: {}", names(known.iter().map(String::as_str), 24)),
                };
                let message = format!("there is no pipeline `{wanted}` to extend");
                found.push(Diagnostic::error("no-pipeline", message).at(place, "").help(help));
                break;
            }
            Err(message) => {
                let help = "name a pipeline, or a file inside the project";
                found.push(Diagnostic::error("bad-path", message).at(place, "").help(help));
                break;
            }
        };
        if seen.contains(&base.origin) || seen.len() >= LONGEST_CHAIN {
            let again = seen.contains(&base.origin);
            let message = if again {
                format!("`extends` goes in a circle: `{}` is extended twice", base.shown)
            } else {
                format!("the chain of `extends` is longer than {LONGEST_CHAIN} files")
            };
            let error = Diagnostic::error("extends-cycle", message).at(place, "");
            found.push(error.help("extend a file that doesn't lead back here"));
            break;
        }
        let (lower, faults) = Document::parse(&base.shown, &base.bytes);
        found.extend(faults);
        next = extends(&lower);
        document = document.overlay(lower);
        here = base.origin.clone();
        seen.push(base.origin);
    }
    (document, found)
}

fn extends(document: &Document) -> Option<(String, Place)> {
    let path = KeyPath::of(&["extends"]);
    let wanted = document.get(&path)?.as_str()?.to_owned();
    Some((wanted, document.value_place(&path)))
}

/// The file that `extends` names: beside the file that says it, or a pipeline by name.
fn base_file(project: &Project, from: &Origin, wanted: &str) -> Result<Option<Found>, String> {
    if !is_path(wanted) {
        return project.find(&format!("pipelines/{wanted}.toml")).map_err(|e| e.to_string());
    }
    match from {
        Origin::Shipped(path) => {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            Ok(project.shipped(&format!("{folder}/{wanted}")))
        }
        Origin::Disk(path) => {
            let folder = path.parent().unwrap_or(path);
            let full = project.inside(folder, wanted).map_err(|e| e.to_string())?;
            let beside = project.at(&full).map_err(|e| e.to_string())?;
            let name = wanted.rsplit('/').next().unwrap_or(wanted);
            Ok(beside.or_else(|| project.shipped(&format!("pipelines/{name}"))))
        }
    }
}

/// What every part of the compilation works with.
struct Cx<'r> {
    request: &'r Request,
    project: Project,
    document: Document,
    pipeline: Pipeline,
    found: Vec<Diagnostic>,
}

impl Cx<'_> {
    /// Reports an error at a place.
    fn error(
        &mut self,
        code: &'static str,
        message: impl Into<String>,
        place: Place,
        help: impl Into<String>,
    ) {
        self.found.push(Diagnostic::error(code, message).at(place, "").help(help));
    }

    /// Reports a warning at a place.
    fn warning(
        &mut self,
        code: &'static str,
        message: impl Into<String>,
        place: Place,
        help: impl Into<String>,
    ) {
        self.found.push(Diagnostic::warning(code, message).at(place, "").help(help));
    }

    /// Place of a value.
    fn at(&self, path: &KeyPath) -> Place {
        self.document.value_place(path)
    }

    /// Place of a key.
    fn key(&self, path: &KeyPath) -> Place {
        self.document.key_place(path)
    }

    /// Place of a whole table.
    fn table(&self, path: &KeyPath) -> Place {
        self.document.table_place(path)
    }

    /// Names that a table declares, faulty entries included.
    fn declared(&self, table: &str) -> Vec<String> {
        self.document.keys(&KeyPath::of(&[table])).into_iter().map(str::to_owned).collect()
    }

    /// Whether a table of the manifest holds this key, faulty or not.
    fn has(&self, path: &KeyPath) -> bool {
        self.document.get(path).is_some()
    }

    /// Reports that `name` is none of `known`, all of which `table` declares.
    fn unknown(&mut self, what: &Unknown<'_>, name: &str, known: &[String], place: Place) {
        if self.document.excuses(name) {
            return;
        }
        let all = names(known.iter().map(String::as_str), 24);
        let near = nearest(name, known.iter().map(String::as_str));
        let help = match (near, known.is_empty()) {
            (Some(near), _) => format!("did you mean `{near}`? known: {all}"),
            (None, false) => format!("known: {all}"),
            (None, true) => what.none.to_owned(),
        };
        let message = format!("there is no {} `{}`", what.noun, short(name));
        let mut error = Diagnostic::error(what.code, message).at(place, "");
        if let Some(table) = what.table {
            let table = KeyPath::of(&[table]);
            if let Some(near) = near.filter(|near| self.has(&table.key(near))) {
                error = error.at(self.key(&table.key(near)), "the nearest name");
            } else if self.has(&table) {
                error = error.at(self.table(&table), "declared here");
            }
        }
        self.found.push(error.help(help));
    }

    /// Whether every stage is the user's own: no arm needs a server then.
    fn only_commands(&self) -> bool {
        self.pipeline.stage.values().all(|s| matches!(s.kind, Kind::Command | Kind::Aggregate))
    }
}

/// How an unknown name is reported.
struct Unknown<'a> {
    code: &'static str,
    /// `axis`, `stage`, ...
    noun: &'a str,
    /// The table that declares such names.
    table: Option<&'a str>,
    /// Help when none is declared.
    none: &'a str,
}

/// The beginning of a name that may be long.
fn short(text: &str) -> String {
    const SHOWN: usize = 60;
    let mut out: String = text.chars().take(SHOWN).collect();
    if text.chars().count() > SHOWN {
        out.push_str("...");
    }
    out
}
