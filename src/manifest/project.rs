//! Where files are: the project's own first, the shipped ones after them.
//!
//! A project's root is the folder above `pipelines/` for a pipeline that lives
//! in one; else the nearest folder, from the pipeline's own upwards, that holds
//! `.proofline/`, `presets/`, `datasets/` or `.git`; else the pipeline's own.
//! For a shipped pipeline the search begins in the working directory.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};

use super::source::LARGEST;
use crate::diag::{Diagnostic, Place, names, nearest};
use crate::{fsio, shipped};

/// What marks a project's root.
pub const MARKS: [&str; 4] = [".proofline", "presets", "datasets", ".git"];

/// Most entries of one folder that are looked at.
const MOST_ENTRIES: usize = 100_000;
/// How the path of a shipped file is shown.
const SHIPPED: &str = "(shipped)/";

/// A project's folder.
#[derive(Clone, Debug)]
pub struct Project {
    /// The root, absolute.
    pub root: PathBuf,
    /// The working directory that paths on the command line start from.
    pub cwd: PathBuf,
}

/// A file that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its path as it is shown to people.
    pub shown: String,
    /// Its content.
    pub bytes: Vec<u8>,
    /// Where it is.
    pub origin: Origin,
}

/// Where a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// On disk, absolute.
    Disk(PathBuf),
    /// Compiled into the program; the path there.
    Shipped(String),
}

/// Whether a value names a file and not a preset or pipeline.
#[must_use]
pub fn is_path(text: &str) -> bool {
    text.contains('/') || text.contains('\\') || Path::new(text).extension().is_some_and(|e| e == "toml")
}

/// Whether a path is plain words joined by `/`: relative, without `.` and `..`.
#[must_use]
pub fn is_plain(path: &str) -> bool {
    fsio::tree::plain(path).is_ok()
}

/// Why a file could not be had.
#[derive(Debug, thiserror::Error)]
pub enum ProjectError {
    /// There is none.
    #[error("there is no file `{0}`")]
    Missing(String),
    /// It lies where a file's own words may not reach.
    #[error("`{0}` doesn't stay inside the project")]
    Outside(String),
    /// A link leads out of the project, or out of the folder that the file belongs to.
    #[error("a link at `{0}` leads out of the project: copy what it leads to into the project")]
    Linked(String),
    /// It is there but can't be read.
    #[error("{0}")]
    Unreadable(String),
}

/// Keeps paths in a folder; folders that many paths lie in are resolved once.
#[derive(Debug)]
pub struct Fence<'f> {
    folder: &'f Path,
    limit: &'f Path,
    real: Option<PathBuf>,
    parents: RefCell<HashMap<PathBuf, Option<PathBuf>>>,
}

impl Fence<'_> {
    /// The place of a path that may not lead out; see [`Project::inside`].
    ///
    /// # Errors
    /// When it would.
    pub fn inside(&self, path: &str) -> Result<PathBuf, ProjectError> {
        let outside = || ProjectError::Outside(path.to_owned());
        if Path::new(path).is_absolute() || path.contains('\0') {
            return Err(outside());
        }
        let full = normal(&self.folder.join(path));
        if !full.starts_with(self.limit) {
            return Err(outside());
        }
        // A link may lead out although the words don't.
        if let (Some(real), Some(real_fence)) = (self.real(&full), &self.real)
            && !real.starts_with(real_fence)
        {
            return Err(ProjectError::Linked(path.to_owned()));
        }
        Ok(full)
    }

    /// The path without links; none when there is nothing.
    fn real(&self, full: &Path) -> Option<PathBuf> {
        let (Some(parent), Some(name)) = (full.parent(), full.file_name()) else {
            return full.canonicalize().ok();
        };
        if std::fs::symlink_metadata(full).ok()?.is_symlink() {
            return full.canonicalize().ok();
        }
        let mut parents = self.parents.borrow_mut();
        if let Some(known) = parents.get(parent) {
            return known.as_ref().map(|real| real.join(name));
        }
        let real = parent.canonicalize().ok();
        let out = real.as_ref().map(|real| real.join(name));
        parents.insert(parent.to_owned(), real);
        out
    }
}

impl Project {
    /// The project of a pipeline that was asked for by name or path, and the pipeline's file.
    ///
    /// # Errors
    /// When there is none, with the nearest name.
    pub fn of_pipeline(cwd: &Path, asked: &str) -> Result<(Self, Found), Box<Diagnostic>> {
        let cwd = normal(cwd);
        if is_path(asked) {
            let path = normal(&cwd.join(asked));
            let project = Self { root: root_of(&path), cwd: cwd.clone() };
            match read_file(&path) {
                Ok(bytes) => {
                    return Ok((
                        project,
                        Found { shown: asked.to_owned(), bytes, origin: Origin::Disk(path) },
                    ));
                }
                Err(ProjectError::Missing(_)) => {}
                Err(error) => return Err(Box::new(at_command_line(asked, "unreadable", error.to_string()))),
            }
            let plain = asked.strip_prefix("./").unwrap_or(asked);
            let project = Self { root: marked(&cwd).unwrap_or_else(|| cwd.clone()), cwd };
            return match project.shipped(plain).or_else(|| project.shipped(&format!("pipelines/{plain}"))) {
                Some(found) => Ok((project, found)),
                None => Err(Box::new(no_pipeline(&project, asked))),
            };
        }
        let project = Self { root: marked(&cwd).unwrap_or_else(|| cwd.clone()), cwd };
        match project.find(&format!("pipelines/{asked}.toml")) {
            Ok(Some(found)) => Ok((project, found)),
            Ok(None) => Err(Box::new(no_pipeline(&project, asked))),
            Err(error) => Err(Box::new(at_command_line(asked, "unreadable", error.to_string()))),
        }
    }

    /// The path of a file as people see it: relative to the working directory where it can be.
    #[must_use]
    pub fn show(&self, path: &Path) -> String {
        let relative = path.strip_prefix(&self.cwd).unwrap_or(path);
        let shown = relative.display().to_string();
        if shown.is_empty() { ".".to_owned() } else { shown }
    }

    /// A file by its path in the project, else the shipped one of that path.
    ///
    /// # Errors
    /// When it is there but can't be read.
    pub fn find(&self, path: &str) -> Result<Option<Found>, ProjectError> {
        Ok(self.own(&self.root, path)?.or_else(|| self.shipped(path)))
    }

    /// The shipped file of that path.
    #[must_use]
    pub fn shipped(&self, path: &str) -> Option<Found> {
        let bytes = shipped::get(path)?.to_vec();
        Some(Found { shown: format!("{SHIPPED}{path}"), bytes, origin: Origin::Shipped(path.to_owned()) })
    }

    /// A file by its path below a folder; none when it isn't there.
    ///
    /// # Errors
    /// When it is there but can't be read, or a link on the way leads out of the project (or out of
    /// `folder`, where that lies elsewhere).
    pub fn own(&self, folder: &Path, path: &str) -> Result<Option<Found>, ProjectError> {
        self.at(&self.inside(folder, path)?)
    }

    /// A file by its absolute path; none when it isn't there.
    ///
    /// # Errors
    /// When it is there but can't be read.
    pub fn at(&self, path: &Path) -> Result<Option<Found>, ProjectError> {
        let full = normal(path);
        match read_file(&full) {
            Ok(bytes) => Ok(Some(Found { shown: self.show(&full), bytes, origin: Origin::Disk(full) })),
            Err(ProjectError::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A file that another file names: relative to the root, and inside it.
    ///
    /// # Errors
    /// When it isn't there, can't be read, or lies outside.
    pub fn named_in_file(&self, path: &str) -> Result<Found, ProjectError> {
        let full = self.inside(&self.root, path)?;
        let bytes = read_file(&full)?;
        Ok(Found { shown: self.show(&full), bytes, origin: Origin::Disk(full) })
    }

    /// A file that the command line names: it may lie anywhere.
    ///
    /// # Errors
    /// When it isn't there or can't be read.
    pub fn named_on_command_line(&self, path: &str) -> Result<Found, ProjectError> {
        let full = normal(&self.cwd.join(path));
        let bytes = read_file(&full)?;
        Ok(Found { shown: path.to_owned(), bytes, origin: Origin::Disk(full) })
    }

    /// The place of a path that a file below `folder` names; neither `..` nor
    /// links lead out of the project (or out of `folder`, where that lies elsewhere).
    ///
    /// # Errors
    /// When it would.
    pub fn inside(&self, folder: &Path, path: &str) -> Result<PathBuf, ProjectError> {
        self.fence(folder).inside(path)
    }

    /// [`Self::inside`] for many paths of one folder.
    #[must_use]
    pub fn fence<'f>(&'f self, folder: &'f Path) -> Fence<'f> {
        let limit = if folder.starts_with(&self.root) { &self.root } else { folder };
        Fence { folder, limit, real: limit.canonicalize().ok(), parents: RefCell::default() }
    }

    /// Whether there is a file or folder.
    #[must_use]
    pub fn exists(&self, path: &Path) -> bool {
        self.cwd.join(path).exists()
    }

    /// Whether there is a folder; a relative path is taken from the working directory.
    #[must_use]
    pub fn is_folder(&self, path: &Path) -> bool {
        self.cwd.join(path).is_dir()
    }

    /// Whether the project holds a file of this path, relative to its root.
    #[must_use]
    pub fn holds_file(&self, path: &str) -> bool {
        is_plain(path) && self.inside(&self.root, path).is_ok_and(|full| full.is_file())
    }

    /// What is wrong with a plain path of the project that a link leads out of; none when nothing is.
    #[must_use]
    pub fn leads_out(&self, path: &str) -> Option<ProjectError> {
        self.inside(&self.root, path).err().filter(|error| matches!(error, ProjectError::Linked(_)))
    }

    /// The name that stands nearest to that of `path` in its folder.
    #[must_use]
    pub fn nearest_beside(&self, path: &Path) -> Option<String> {
        let wanted = path.file_name()?.to_str()?;
        let entries = std::fs::read_dir(path.parent()?).ok()?;
        let present: BTreeSet<String> =
            entries.flatten().take(10_000).filter_map(|e| e.file_name().into_string().ok()).collect();
        nearest(wanted, present.iter().map(String::as_str)).map(str::to_owned)
    }

    /// Files of the project that match a pattern in which `*` stands for any name or part of
    /// one, by their paths; a path without `*` may name a shipped file as well.
    ///
    /// # Errors
    /// When the pattern leaves the project or a file can't be read.
    pub fn matching(&self, pattern: &str) -> Result<Vec<(String, Found)>, ProjectError> {
        if !is_plain(&pattern.replace('*', "x")) {
            return Err(ProjectError::Outside(pattern.to_owned()));
        }
        let mut paths = vec![String::new()];
        for part in pattern.split('/') {
            let mut next = Vec::new();
            for path in paths {
                let join =
                    |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
                if part.contains('*') {
                    let entries = std::fs::read_dir(self.root.join(&path)).into_iter().flatten().flatten();
                    let names =
                        entries.take(MOST_ENTRIES).filter_map(|entry| entry.file_name().into_string().ok());
                    next.extend(names.filter(|name| fits(name, part)).map(|name| join(&name)));
                } else {
                    next.push(join(part));
                }
            }
            paths = next;
        }
        paths.sort();
        let mut out = Vec::new();
        for path in paths {
            let found = if pattern.contains('*') { self.own(&self.root, &path)? } else { self.find(&path)? };
            out.extend(found.map(|found| (path, found)));
        }
        Ok(out)
    }

    /// Names of `*.toml` files in `folder`: the project's, those of further
    /// folders, and the shipped ones; without the extension, in order.
    #[must_use]
    pub fn names_in(&self, folder: &str, further: &[PathBuf]) -> BTreeSet<String> {
        let mut out = BTreeSet::new();
        let prefix = format!("{folder}/");
        for (path, _) in shipped::list(&prefix) {
            out.extend(
                path[prefix.len()..].strip_suffix(".toml").filter(|n| !n.contains('/')).map(str::to_owned),
            );
        }
        for base in further.iter().chain([&self.root]) {
            let Ok(entries) = std::fs::read_dir(base.join(folder)) else { continue };
            // A hostile folder may be endless; names beyond these are only missed in a suggestion.
            for entry in entries.flatten().take(10_000) {
                let name = entry.file_name();
                out.extend(name.to_str().and_then(|n| n.strip_suffix(".toml")).map(str::to_owned));
            }
        }
        out
    }
}

/// Whether a name fits a pattern in which `*` stands for anything.
fn fits(name: &str, pattern: &str) -> bool {
    let mut parts = pattern.split('*');
    let (first, mut rest) = (parts.next().unwrap_or_default(), parts.collect::<Vec<_>>());
    let last = rest.pop().unwrap_or_default();
    let Some(mut left) = name.strip_prefix(first).and_then(|name| name.strip_suffix(last)) else {
        return false;
    };
    for part in rest {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    true
}

fn no_pipeline(project: &Project, asked: &str) -> Diagnostic {
    let known = project.names_in("pipelines", &[]);
    let stem = Path::new(asked).file_stem().and_then(|s| s.to_str()).unwrap_or(asked);
    let all = names(known.iter().map(String::as_str), 24);
    let help = match nearest(stem, known.iter().map(String::as_str)) {
        Some(near) => format!("did you mean `{near}`? pipelines: {all}"),
        None => format!("pipelines: {all}; `proofline init` begins a new one"),
    };
    let what = if is_path(asked) {
        format!("there is no file `{asked}`")
    } else {
        format!("there is no pipeline `{asked}`")
    };
    at_command_line(asked, "no-pipeline", what).help(help)
}

fn at_command_line(asked: &str, code: &'static str, message: String) -> Diagnostic {
    Diagnostic::error(code, message).at(Place::new("(command line)", asked, 0, asked.len()), "")
}

fn root_of(pipeline: &Path) -> PathBuf {
    let folder = pipeline.parent().unwrap_or(pipeline);
    if folder.file_name().is_some_and(|name| name == "pipelines")
        && let Some(above) = folder.parent()
    {
        return above.to_owned();
    }
    marked(folder).unwrap_or_else(|| folder.to_owned())
}

/// The nearest folder, from `folder` upwards, with a mark.
fn marked(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().find(|f| MARKS.iter().any(|mark| f.join(mark).exists())).map(Path::to_owned)
}

/// The path without `.` and `..`, by its words: links are not followed.
pub(crate) fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                if !out.pop() {
                    out.push("..");
                }
            }
            other => out.push(other),
        }
    }
    out
}

/// Reads a regular file; a pipe or device would block or never end.
fn read_file(path: &Path) -> Result<Vec<u8>, ProjectError> {
    let shown = || path.display().to_string();
    match std::fs::metadata(path) {
        Ok(meta) if meta.is_file() => {}
        Ok(_) => return Err(ProjectError::Unreadable(format!("`{}` is no regular file", shown()))),
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
        {
            return Err(ProjectError::Missing(shown()));
        }
        Err(error) => return Err(ProjectError::Unreadable(format!("can't read `{}`: {error}", shown()))),
    }
    // One byte more than allowed, so that the reader of the text says that it is too large.
    match fsio::read_limited(path, LARGEST as u64 + 1) {
        Ok(bytes) => Ok(bytes),
        Err(error) if error.source.kind() == std::io::ErrorKind::FileTooLarge => {
            Err(ProjectError::Unreadable(format!("`{}` is larger than 1 MiB", shown())))
        }
        Err(error) => Err(ProjectError::Unreadable(error.explain())),
    }
}
