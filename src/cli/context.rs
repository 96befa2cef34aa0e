//! What commands share: the compiled pipeline, the store, the run that is meant.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::args::Pipeline;
use super::exit::CliError;
use super::out::Out;
use super::render;
use crate::corpus::Corpora;
use crate::diag::Diagnostic;
use crate::event::Event;
use crate::manifest::load;
use crate::manifest::lock::Lock;
use crate::manifest::project::{MARKS, Project};
use crate::plan::compile::{Catalog, MIXED, Request, compile};
use crate::plan::compiled::Compiled;
use crate::plan::expand::Graph;
use crate::plan::select::{select, with_needs};
use crate::store::Store;
use crate::store::journal::Journal;
use crate::store::sign::PublicKey;
use crate::{fsio, grade, process, retrieve};

/// Name of the store's folder.
const STORE: &str = ".proofline";
/// Name of the lock file, in the project's root.
pub(super) const LOCK: &str = "proofline.lock";

/// Name of the file of trusted signers, in the project's root.
pub(super) const TRUST: &str = "trust.toml";

/// The pipeline that is meant when none is named, relative to the project.
pub(super) const MAIN: &str = "pipelines/main.toml";

/// The working directory.
pub(super) fn cwd() -> Result<PathBuf, CliError> {
    std::env::current_dir().map_err(|e| CliError::Infrastructure(format!("the working directory: {e}")))
}

/// The program's own file.
pub(super) fn exe() -> Result<PathBuf, CliError> {
    std::env::current_exe().map_err(|e| CliError::Infrastructure(format!("the program's own file: {e}")))
}

/// What manifests may name.
pub(super) fn catalog() -> Catalog {
    let mut graders = BTreeMap::new();
    for def in grade::graders() {
        let metrics = def
            .metrics
            .iter()
            .map(|name| {
                let layer = grade::metric(name).map_or(grade::Layer::Custom, |m| m.layer);
                ((*name).to_owned(), layer_name(layer).to_owned())
            })
            .collect();
        graders.insert(def.name.to_owned(), metrics);
    }
    let of_answers = grade::answer::GRADERS.iter().map(|name| (*name).to_owned()).collect();
    let costs = grade::metrics().iter().filter(|m| m.direction == grade::Direction::LowerBetter);
    Catalog {
        graders,
        of_answers,
        costs: costs.map(|m| m.name.to_owned()).collect(),
        engines: retrieve::names().iter().map(|n| (*n).to_owned()).collect(),
    }
}

fn layer_name(layer: grade::Layer) -> &'static str {
    match layer {
        grade::Layer::Retrieval => "retrieval",
        grade::Layer::Fairness => "fairness",
        grade::Layer::Adoption => "adoption",
        grade::Layer::Mixed => MIXED,
        grade::Layer::Custom => "custom",
    }
}

/// The project of a working directory: itself when it has the default
/// pipeline, else the nearest folder above with a mark of a project, else itself.
pub(super) fn project() -> Result<Project, CliError> {
    let cwd = cwd()?;
    let marked = || cwd.ancestors().find(|f| MARKS.iter().any(|mark| f.join(mark).exists()));
    let root = if cwd.join(MAIN).is_file() { cwd.clone() } else { marked().unwrap_or(&cwd).to_owned() };
    Ok(Project { root, cwd })
}

/// The folders in which programs are looked for.
pub(super) fn search_path() -> String {
    process::base_env(Path::new("/"), Path::new("/")).remove("PATH").unwrap_or_default()
}

/// A runtime for one command that starts children.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|e| CliError::Infrastructure(e.to_string()))
}

/// Parameters and sources as typed.
pub(super) fn sets(words: &[String]) -> Result<Vec<(String, String)>, CliError> {
    pairs("--set", words)
}

/// `NAME=VALUE` pairs of an option.
pub(super) fn pairs(option: &str, words: &[String]) -> Result<Vec<(String, String)>, CliError> {
    words
        .iter()
        .map(|word| match word.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
            _ => Err(CliError::Usage(format!("{option} {word}: write NAME=VALUE"))),
        })
        .collect()
}

/// Compiles a pipeline; warnings go to people.
pub(super) fn compiled(pipeline: &Pipeline, json: bool, out: &Out) -> Result<Arc<Compiled>, CliError> {
    let request = Request {
        pipeline: pipeline.pipeline.clone(),
        sets: sets(&pipeline.sets)?,
        cwd: cwd()?,
        catalog: catalog(),
        only_checked: false,
    };
    let (compiled, warnings) = compile(&request).map_err(|found| CliError::Diagnostics { found, json })?;
    warn(&warnings, out);
    Ok(Arc::new(compiled))
}

/// Shows warnings.
pub(super) fn warn(warnings: &[Diagnostic], out: &Out) {
    if !warnings.is_empty() {
        out.say(render::text(warnings, out.people_tty).trim_end());
    }
}

/// The folder of the store: as asked, else of the nearest parent of `from` that
/// has one, else in `from`.
pub(super) fn store_dir(asked: Option<&Path>, from: &Path) -> PathBuf {
    if let Some(asked) = asked {
        // Servers are told of places in the store and have working directories of their own.
        return std::path::absolute(asked).unwrap_or_else(|_| asked.to_owned());
    }
    let mut here = Some(from);
    while let Some(folder) = here {
        let store = folder.join(STORE);
        if store.join("format").is_file() {
            return store;
        }
        here = folder.parent();
    }
    from.join(STORE)
}

/// The store of the working directory; an error when there is none.
pub(super) fn existing(asked: Option<&Path>) -> Result<Store, CliError> {
    let dir = store_dir(asked, &cwd()?);
    Store::open_existing(&dir)?.ok_or_else(|| {
        CliError::Usage(format!(
            "there is no store in `{}`; name one with --store, or `proofline run` something first",
            dir.display()
        ))
    })
}

/// The store of the project of the working directory, made when there is none, and with
/// the signers that the project trusts. A store named from elsewhere keeps its own.
pub(super) fn taking(asked: Option<&Path>, json: bool) -> Result<Store, CliError> {
    let root = project()?.root;
    let dir = store_dir(asked, &root);
    if asked.is_some() && !root.join(TRUST).is_file() {
        return Ok(Store::open(&dir)?);
    }
    open(&dir, &root, json)
}

/// Opens the store in `dir` with the signers that the project in `root` trusts.
pub(super) fn open(dir: &Path, root: &Path, json: bool) -> Result<Store, CliError> {
    let signers = trusted(root, json)?;
    let store = Store::open(dir)?;
    store.trust(&signers.into_keys().collect())?;
    Ok(store)
}

/// The signers that a project trusts, with their names.
pub(super) fn trusted(root: &Path, json: bool) -> Result<BTreeMap<PublicKey, String>, CliError> {
    let path = root.join(TRUST);
    if !path.is_file() {
        return Ok(BTreeMap::new());
    }
    let bytes = fsio::read_limited(&path, 2 << 20)?;
    let loaded = load::trust(&path.display().to_string(), &bytes);
    let Some(trust) = loaded.value.filter(|_| !loaded.diagnostics.iter().any(Diagnostic::is_error)) else {
        return Err(CliError::Diagnostics { found: loaded.diagnostics, json });
    };
    let mut out = BTreeMap::new();
    for (name, signer) in trust.signer {
        let key: PublicKey = signer.key.parse().map_err(|e| CliError::Usage(format!("{TRUST}: {e}")))?;
        out.insert(key, name);
    }
    Ok(out)
}

/// The id of the run that is meant: an id, a prefix, or `latest`.
pub(super) fn run_id(store: &Store, asked: &str) -> Result<String, CliError> {
    let runs = Journal::runs(store.root())?;
    if asked == "latest" {
        // Of a replay there is nothing to report.
        let whole = |run: &&String| {
            !matches!(Journal::beginning(store.root(), run), Some(Event::RunStarted { replay: true, .. }))
        };
        return runs
            .iter()
            .rev()
            .find(whole)
            .cloned()
            .ok_or_else(|| CliError::Usage("the store holds no run yet".to_owned()));
    }
    let mut fitting = runs.iter().filter(|run| run.starts_with(asked));
    match (fitting.next(), fitting.next()) {
        (Some(run), None) => Ok(run.clone()),
        (Some(_), Some(_)) if runs.iter().any(|run| run == asked) => Ok(asked.to_owned()),
        (Some(_), Some(_)) => {
            Err(CliError::Usage(format!("`{asked}` is the start of several runs; see `proofline runs`")))
        }
        (None, _) => Err(CliError::Usage(format!("there is no run `{asked}`; see `proofline runs`"))),
    }
}

/// The corpora of a store.
pub(super) fn corpora(store_dir: &Path, offline: bool) -> Corpora {
    Corpora::new(store_dir.join("cache").join("corpora"), offline)
}

/// The lock file of a project, if there is one.
pub(super) fn lock(root: &Path, json: bool) -> Result<Option<Lock>, CliError> {
    let path = root.join(LOCK);
    if !path.is_file() {
        return Ok(None);
    }
    let bytes = fsio::read(&path)?;
    let loaded = load::read::<Lock>(&path.display().to_string(), &bytes);
    match loaded.value {
        Some(lock) if !loaded.diagnostics.iter().any(Diagnostic::is_error) => Ok(Some(lock)),
        _ => Err(CliError::Diagnostics { found: loaded.diagnostics, json }),
    }
}

/// Flags of the nodes that `--only` names and of all that they need.
pub(super) fn chosen(
    pipeline: &Compiled,
    graph: &Graph,
    only: &[String],
) -> Result<Option<Vec<bool>>, CliError> {
    if only.is_empty() {
        return Ok(None);
    }
    let mut nodes = Vec::new();
    for selector in only {
        nodes.extend(select(pipeline, graph, selector)?);
    }
    Ok(Some(with_needs(graph, &nodes)))
}
