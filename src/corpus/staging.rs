//! A tree that is being taken in: every entry is checked before it is written.

use std::collections::{BTreeMap, HashMap};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::error::CorpusError;
use crate::digest::ContentHasher;
use crate::fsio::tree::{self, Entry, Node, Tree};
use crate::fsio::{self, Scratch, links};

/// Bounds on what is taken in. They stop accidents and bombs, not big code:
/// the largest public repositories stay below.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Entries, folders included.
    pub entries: usize,
    /// Bytes of one file.
    pub file: u64,
    /// Bytes of all files.
    pub total: u64,
    /// Bytes that one byte of an archive may unpack to, beyond [`Limits::GRACE`].
    pub ratio: u64,
}

impl Limits {
    /// Unpacked bytes below which the ratio is not looked at.
    pub const GRACE: u64 = 32 << 20;

    /// The bounds that corpora are held to.
    pub const CORPUS: Self = Self { entries: 500_000, file: 256 << 20, total: 4 << 30, ratio: 100 };
}

/// What to do with an entry that can't be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// Refuse the whole source: an archive or folder with such an entry is not what was meant.
    Refuse,
    /// Leave the entry out and say so: repositories hold odd fixtures.
    Skip,
    /// The same, but a link that leads out stays as one that leads nowhere, so that it can be told from
    /// what isn't there.
    Blunt,
}

/// A tree in a private folder, not yet published.
pub(crate) struct Staging {
    scratch: Scratch,
    root: PathBuf,
    origin: String,
    nodes: BTreeMap<String, Node>,
    /// Path, case-folded unless files of both spellings are taken, to its spelling and whether it is a folder.
    folded: HashMap<String, (String, bool)>,
    bytes: u64,
    seen: usize,
    limits: Limits,
    policy: Policy,
    notes: Notes,
}

/// A checked tree on disk, ready to be published.
pub(crate) struct Staged {
    /// Holds the folder alive.
    pub(crate) scratch: Scratch,
    /// The tree's folder, writable.
    pub(crate) root: PathBuf,
    /// What is in it.
    pub(crate) tree: Tree,
    /// Remarks for people.
    pub(crate) notes: Vec<String>,
}

/// Remarks, the first few in full.
#[derive(Default)]
pub(crate) struct Notes {
    lines: Vec<String>,
    more: usize,
}

impl Notes {
    const SHOWN: usize = 20;

    /// Adds one.
    pub(crate) fn push(&mut self, line: String) {
        if self.lines.len() < Self::SHOWN { self.lines.push(line) } else { self.more += 1 }
    }

    /// All, with a last line that counts those not shown.
    pub(crate) fn finish(mut self) -> Vec<String> {
        if self.more > 0 {
            self.lines.push(format!("and {} more entries left out", self.more));
        }
        self.lines
    }
}

impl Staging {
    /// A fresh one in a private folder inside `parent`.
    pub(crate) fn new(
        parent: &Path,
        origin: &str,
        policy: Policy,
        limits: Limits,
    ) -> Result<Self, CorpusError> {
        let scratch = Scratch::new_in(parent)?;
        let root = scratch.path().join("in");
        fsio::create_dir(&root)?;
        Ok(Self {
            scratch,
            root,
            origin: origin.to_owned(),
            nodes: BTreeMap::new(),
            folded: HashMap::new(),
            bytes: 0,
            seen: 0,
            limits,
            policy,
            notes: Notes::default(),
        })
    }

    /// The source refused, with a reason.
    pub(crate) fn refusal(&self, why: impl Into<String>) -> CorpusError {
        CorpusError::Refused { origin: self.origin.clone(), why: why.into() }
    }

    /// Refuses the source, or leaves the entry out with a remark.
    pub(crate) fn decline(&mut self, why: String) -> Result<(), CorpusError> {
        if self.policy == Policy::Refuse {
            return Err(self.refusal(why));
        }
        self.notes.push(format!("left out: {why}"));
        Ok(())
    }

    /// Adds a remark.
    pub(crate) fn note(&mut self, line: String) {
        self.notes.push(line);
    }

    /// Counts an entry of any kind.
    pub(crate) fn count(&mut self) -> Result<(), CorpusError> {
        self.seen += 1;
        if self.seen > self.limits.entries {
            return Err(self.refusal(format!("it has more than {} entries", self.limits.entries)));
        }
        Ok(())
    }

    /// The limits that apply.
    pub(crate) fn limits(&self) -> Limits {
        self.limits
    }

    /// Takes in a file of `content`.
    pub(crate) fn file(&mut self, path: &str, exec: bool, content: &mut dyn Read) -> Result<(), CorpusError> {
        if let Err(why) = self.claim(path, false) {
            return self.decline(why);
        }
        let full = self.root.join(path);
        if let Some(folder) = full.parent() {
            fsio::create_dir(folder)?;
        }
        let mut out = fsio::create_new(&full)?;
        let mut hasher = ContentHasher::default();
        let mut size = 0u64;
        let mut buffer = vec![0u8; 64 << 10];
        loop {
            let got = content
                .read(&mut buffer)
                .map_err(|e| self.refusal(format!("entry `{path}` can't be read: {e}")))?;
            if got == 0 {
                break;
            }
            size += got as u64;
            if size > self.limits.file {
                return Err(self.refusal(format!("file `{path}` is larger than {} bytes", self.limits.file)));
            }
            if self.bytes + size > self.limits.total {
                return Err(self.refusal(format!("it holds more than {} bytes", self.limits.total)));
            }
            hasher.update(&buffer[..got]);
            fsio::at(out.write_all(&buffer[..got]), "can't write", &full)?;
        }
        if exec {
            tree::set_executable(&full)?;
        }
        self.bytes += size;
        self.nodes.insert(path.to_owned(), Node::File { size, exec, digest: hasher.finish() });
        Ok(())
    }

    /// Takes in a link; where it leads is checked when all entries are known.
    pub(crate) fn link(&mut self, path: &str, target: &str) -> Result<(), CorpusError> {
        if !is_usable_target(target) {
            return self.decline(format!("link `{path}` has an unusable target"));
        }
        if let Err(why) = self.claim(path, false) {
            return self.decline(why);
        }
        self.nodes.insert(path.to_owned(), Node::Link(target.to_owned()));
        Ok(())
    }

    /// Checks a folder's path. It is made when something is put in it.
    pub(crate) fn folder(&mut self, path: &str) -> Result<(), CorpusError> {
        match self.claim(path, true) {
            Ok(()) => Ok(()),
            Err(why) => self.decline(why),
        }
    }

    /// A file that was taken in before, for hard links.
    pub(crate) fn again(&self, path: &str) -> Option<(PathBuf, bool)> {
        match self.nodes.get(path) {
            Some(Node::File { exec, .. }) => Some((self.root.join(path), *exec)),
            _ => None,
        }
    }

    /// Settles links, top folder (dropped when `strip` and there is only one) and subfolder.
    pub(crate) fn finish(mut self, strip: bool, subdir: Option<&str>) -> Result<Staged, CorpusError> {
        let nodes = std::mem::take(&mut self.nodes);
        let chosen = choose(nodes, &self.origin, self.policy, strip, subdir, &mut self.notes)?;
        let root = if chosen.prefix.is_empty() { self.root.clone() } else { self.root.join(&chosen.prefix) };
        // Files of the same folder that were not chosen can't occur: a prefix
        // takes all below it. Links are made last, so that nothing was ever
        // written through one.
        for entry in &chosen.tree.entries {
            if let Node::Link(target) = &entry.node {
                tree::make_link(&root.join(&entry.path), target)?;
            }
        }
        Ok(Staged { scratch: self.scratch, root, tree: chosen.tree, notes: self.notes.finish() })
    }

    /// A citation means a file by its exact name; what a server searches must be the same on every machine.
    fn fold(&self, path: &str) -> String {
        if self.policy == Policy::Blunt { path.to_owned() } else { path.to_lowercase() }
    }

    /// Takes a path in, or says why it can't be.
    fn claim(&mut self, path: &str, folder: bool) -> Result<(), String> {
        check_name(path)?;
        let mut ends: Vec<usize> = path.match_indices('/').map(|(at, _)| at).collect();
        ends.push(path.len());
        // Nothing is entered before all of it is found good.
        for (nth, end) in ends.iter().enumerate() {
            let (prefix, leaf) = (&path[..*end], nth + 1 == ends.len());
            let Some((spelling, is_folder)) = self.folded.get(&self.fold(prefix)) else { break };
            if spelling != prefix {
                return Err(format!("`{path}` differs from `{spelling}` only in case"));
            }
            if !leaf && !is_folder {
                return Err(format!("`{path}` is inside `{prefix}`, which is no folder"));
            }
            if leaf && !(folder && *is_folder) {
                return Err(format!("`{path}` occurs twice"));
            }
        }
        for (nth, end) in ends.iter().enumerate() {
            let prefix = &path[..*end];
            let is_folder = folder || nth + 1 < ends.len();
            let key = self.fold(prefix);
            self.folded.entry(key).or_insert_with(|| (prefix.to_owned(), is_folder));
        }
        Ok(())
    }
}

/// What a source's entries come to.
pub(crate) struct Chosen {
    /// The tree, relative to `prefix`.
    pub(crate) tree: Tree,
    /// The folder of the source that is the tree's root; empty for the source itself.
    pub(crate) prefix: String,
}

/// Drops the single top folder and all that is outside the subfolder, and
/// checks where links lead. Pure: the same for a folder that is only looked
/// at and for one that is exported.
pub(crate) fn choose(
    nodes: BTreeMap<String, Node>,
    origin: &str,
    policy: Policy,
    strip: bool,
    subdir: Option<&str>,
    notes: &mut Notes,
) -> Result<Chosen, CorpusError> {
    let mut prefix = if strip { single_top(&nodes) } else { String::new() };
    let (nodes, _) = below(nodes, &prefix);
    let mut nodes = settle_links(nodes, origin, policy, notes)?;
    if let Some(subdir) = subdir {
        let (inner, any) = below(nodes, subdir);
        if !any {
            return Err(CorpusError::NoSubdir { origin: origin.to_owned(), subdir: subdir.to_owned() });
        }
        // A link that leaves only the subfolder is no attack.
        nodes = settle_links(inner, origin, Policy::Skip, notes)?;
        prefix = if prefix.is_empty() { subdir.to_owned() } else { format!("{prefix}/{subdir}") };
    }
    if nodes.is_empty() {
        return Err(CorpusError::Empty(origin.to_owned()));
    }
    let entries = nodes.into_iter().map(|(path, node)| Entry { path, node }).collect();
    Ok(Chosen { tree: Tree { entries }, prefix })
}

/// The folder that holds everything, or nothing.
fn single_top(nodes: &BTreeMap<String, Node>) -> String {
    let top = |path: &String| path.split_once('/').map(|(top, _)| top.to_owned());
    match nodes.keys().next().and_then(top) {
        Some(first) if nodes.keys().all(|path| top(path).as_ref() == Some(&first)) => first,
        _ => String::new(),
    }
}

fn below(nodes: BTreeMap<String, Node>, prefix: &str) -> (BTreeMap<String, Node>, bool) {
    if prefix.is_empty() {
        let any = !nodes.is_empty();
        return (nodes, any);
    }
    let inner: BTreeMap<String, Node> = nodes
        .into_iter()
        .filter_map(|(path, node)| {
            let rest = path.strip_prefix(prefix)?.strip_prefix('/')?;
            Some((rest.to_owned(), node))
        })
        .collect();
    let any = !inner.is_empty();
    (inner, any)
}

fn settle_links(
    mut nodes: BTreeMap<String, Node>,
    origin: &str,
    policy: Policy,
    notes: &mut Notes,
) -> Result<BTreeMap<String, Node>, CorpusError> {
    let links: BTreeMap<String, String> = nodes
        .iter()
        .filter_map(|(path, node)| match node {
            Node::Link(target) => Some((path.clone(), target.clone())),
            Node::File { .. } => None,
        })
        .collect();
    for path in links.keys().filter(|path| links::leaves(&links, path)) {
        let why = format!("link `{path}` leads out of it");
        if policy == Policy::Refuse {
            return Err(CorpusError::Refused { origin: origin.to_owned(), why });
        }
        if policy == Policy::Blunt {
            notes.push(format!("not followed: {why}"));
            nodes.insert(path.clone(), Node::Link(blunt(path)));
            continue;
        }
        notes.push(format!("left out: {why}"));
        nodes.remove(path);
    }
    Ok(nodes)
}

/// Whether a link can be made that holds this text.
pub(crate) fn is_usable_target(target: &str) -> bool {
    !target.is_empty() && target.len() <= 4096 && !target.contains('\0')
}

/// The target of a link at `path` that leads nowhere: itself.
fn blunt(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_owned()
}

/// Whether a link leads nowhere, as [`Policy::Blunt`] leaves those that led out.
pub(crate) fn is_blunt(path: &str, target: &str) -> bool {
    blunt(path) == target
}

/// Checks a path that comes from outside.
pub(crate) fn check_name(path: &str) -> Result<(), String> {
    tree::plain(path).map_err(|e| e.to_string())?;
    if path.len() > 4000 || path.split('/').any(|part| part.len() > 255) {
        return Err(format!("the path of `{}...` is too long", path.chars().take(60).collect::<String>()));
    }
    if path.chars().any(char::is_control) {
        return Err(format!("`{}` holds control characters", path.escape_debug()));
    }
    Ok(())
}

/// Whether a path belongs to a repository's or a store's own data, which is
/// never part of a corpus.
pub(crate) fn is_private(path: &str) -> bool {
    path.split('/').any(|part| part.eq_ignore_ascii_case(".git") || part == ".proofline")
}
