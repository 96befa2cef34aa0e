//! What a command may touch, and how the kernel is made to hold it to that.
//!
//! The network is left by a process as a whole, before it has threads
//! ([`leave_network`]); files are given up by the thread that starts the
//! command ([`restrict`]), since the kernel keeps Landlock's rules per thread
//! and a child inherits those of its starter. What the kernel can't enforce is
//! reported and stops nothing.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated,
    RulesetCreatedAttr, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};
use serde::{Deserialize, Serialize};

use super::env::{find_program, own_home, own_path};
use crate::fsio;

/// Newest Landlock interface that we ask for; older kernels enforce less.
const LEVEL: ABI = ABI::V5;
/// The interface since which signals and abstract sockets stay inside.
const SCOPES: ABI = ABI::V6;

/// What a confined program may touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confine {
    /// Files and folders that it may read and execute, beside the system's own.
    pub read: Vec<PathBuf>,
    /// Files and folders that it may change.
    pub write: Vec<PathBuf>,
    /// May it use the network? Without, there is not even a loopback interface.
    pub network: bool,
}

/// What was enforced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfineReport {
    /// What could not be enforced: `files`, `network`; empty is good.
    pub unconfined: Vec<String>,
    /// Why, for people.
    pub notes: Vec<String>,
}

/// The system's own files that a program may use, opened once for many commands.
#[derive(Debug)]
struct Ground(Vec<(PathFd, BitFlags<AccessFs>)>);

impl Ground {
    /// That of a program.
    fn open(program: &str) -> Self {
        let all = AccessFs::from_all(LEVEL);
        let look = AccessFs::from_read(LEVEL);
        let devices = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
        let system = outermost(system_paths(program)).into_iter().map(|path| (path, look));
        let devices = DEVICES.into_iter().map(|path| (PathBuf::from(path), devices));
        let shared = ["/dev/shm", "/dev/pts"].into_iter().map(|path| (PathBuf::from(path), all));
        let opened = system.chain(devices).chain(shared).filter_map(|(path, access)| {
            let of_file = AccessFs::from_file(LEVEL);
            let access = if path.is_dir() { access } else { access & of_file };
            // What this system doesn't have needs no rule.
            Some((PathFd::new(&path).ok()?, access))
        });
        Self(opened.collect())
    }
}

/// A network namespace of our own, by right (root) or inside a user namespace.
pub(super) fn leave_network(report: &mut ConfineReport) {
    let Err(by_right) = unshare(CloneFlags::CLONE_NEWNET) else { return };
    let (user, group) = (geteuid(), getegid());
    match unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNET) {
        Ok(()) => {
            // The same ids inside as outside. Without the maps the program
            // would run as the overflow user, which is a nuisance, not a leak.
            let maps = [
                ("/proc/self/setgroups", "deny".to_owned()),
                ("/proc/self/uid_map", format!("{user} {user} 1")),
                ("/proc/self/gid_map", format!("{group} {group} 1")),
            ];
            for (file, text) in maps {
                if let Err(e) = fsio::write_plain(Path::new(file), text.as_bytes()) {
                    report.notes.push(e.explain());
                }
            }
        }
        Err(in_namespace) => {
            report.unconfined.push("network".to_owned());
            report.notes.push(format!(
                "no network namespace: {by_right}; none in a user namespace either: {in_namespace}"
            ));
        }
    }
}

/// The rules of commands; those of folders that serve many commands are made once.
#[derive(Debug, Default)]
pub(super) struct Fences {
    grounds: HashMap<String, Ground>,
    made: HashMap<(String, Confine), (RulesetCreated, Vec<Place>)>,
}

/// Device and inode of a path; none where nothing is.
type Place = Option<(u64, u64)>;

/// Most rules that are kept.
const MOST_MADE: usize = 64;

impl Fences {
    /// The rules for a command of this program; kept for the next one unless its folders are its own.
    ///
    /// # Errors
    /// When the kernel refuses rules that it should know, and when there are too many open files.
    pub(super) fn rules(
        &mut self,
        program: &str,
        confine: &Confine,
        own: bool,
    ) -> Result<RulesetCreated, String> {
        let words = |e: RulesetError| format!("landlock: {e}");
        let ground = self.grounds.entry(program.to_owned()).or_insert_with(|| Ground::open(program));
        if own {
            return made(confine, ground).map_err(words);
        }
        // Rules hold folders, not paths: where another folder lies now they are of no use. As long as
        // they are kept, no other folder gets the inode.
        let place = |path: &PathBuf| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
        let places: Vec<Place> = confine.read.iter().chain(&confine.write).map(place).collect();
        let key = (program.to_owned(), confine.clone());
        let copy = |rules: &RulesetCreated| rules.try_clone().map_err(|e| format!("landlock: {e}"));
        if let Some((rules, _)) = self.made.get(&key).filter(|(_, then)| *then == places) {
            return copy(rules);
        }
        if self.made.len() >= MOST_MADE {
            self.made.clear();
        }
        let rules = made(confine, ground).map_err(words)?;
        let first = copy(&rules);
        self.made.insert(key, (rules, places));
        first
    }
}

fn made(confine: &Confine, ground: &Ground) -> Result<RulesetCreated, RulesetError> {
    let all = AccessFs::from_all(LEVEL);
    let look = AccessFs::from_read(LEVEL);
    let mut rules = Ruleset::default().handle_access(all)?.scope(Scope::from_all(SCOPES))?;
    // A second line: where no namespace was to be had, TCP at least is refused.
    if !confine.network {
        rules = rules.handle_access(AccessNet::from_all(LEVEL))?;
    }
    let system = ground.0.iter().map(|(path, access)| Ok::<_, RulesetError>(PathBeneath::new(path, *access)));
    rules
        .create()?
        .add_rules(system)?
        .add_rules(path_beneath_rules(&confine.read, look))?
        .add_rules(path_beneath_rules(&confine.write, all))
}

/// Confines this thread and all that it starts from now on.
///
/// # Errors
/// When the kernel refuses.
pub(super) fn restrict(rules: RulesetCreated) -> Result<ConfineReport, RulesetError> {
    let status = rules.restrict_self()?;
    let mut report = ConfineReport::default();
    if status.ruleset == RulesetStatus::NotEnforced {
        report.unconfined.push("files".to_owned());
        report.notes.push("the kernel offers no landlock".to_owned());
    }
    Ok(report)
}

/// The real folders that the others lie in: each rule costs every command a little.
fn outermost(paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let real: BTreeSet<PathBuf> = paths.iter().filter_map(|path| fs::canonicalize(path).ok()).collect();
    real.iter().filter(|path| !path.ancestors().skip(1).any(|above| real.contains(above))).cloned().collect()
}

/// Devices that harmless programs use.
const DEVICES: [&str; 8] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/fd",
];

/// Where the system's programs and libraries are: the usual folders, and for
/// every folder on `PATH` and for `program` the installation that it belongs
/// to (`/x/python/bin` opens `/x/python`), never a home folder as a whole.
#[must_use]
pub fn system_paths(program: &str) -> Vec<PathBuf> {
    const USUAL: [&str; 12] = [
        "/usr",
        "/lib",
        "/lib32",
        "/lib64",
        "/libx32",
        "/bin",
        "/sbin",
        "/etc",
        "/opt",
        "/proc",
        "/sys/devices/system/cpu",
        "/nix",
    ];
    let mut paths: BTreeSet<PathBuf> = USUAL.iter().map(PathBuf::from).collect();
    // Name resolution and clocks, where the system keeps them.
    paths.extend(["/run/systemd/resolve", "/var/lib/dbus", "/sys/fs/cgroup"].map(PathBuf::from));
    let search = own_path();
    let home = own_home();
    let mut add = |folder: &Path| {
        paths.insert(folder.to_owned());
        let installation = folder.parent().filter(|p| {
            p.components().count() > 2
                && Some(*p) != home.as_deref()
                && home.as_deref().is_none_or(|h| !h.starts_with(p))
        });
        if let Some(installation) = installation {
            paths.insert(installation.to_owned());
        }
    };
    let here = Path::new(".");
    for folder in search.split(':').filter(|f| f.starts_with('/')) {
        add(Path::new(folder));
        // An interpreter is often a link into its own installation.
        for interpreter in ["python3", "python", "node", "ruby", "java"] {
            if let Ok(real) = fs::canonicalize(Path::new(folder).join(interpreter)) {
                real.parent().into_iter().for_each(&mut add);
            }
        }
    }
    if let Some(file) = find_program(program, &search, here) {
        let real = fs::canonicalize(&file).ok();
        for file in [Some(file), real].into_iter().flatten() {
            file.parent().into_iter().for_each(&mut add);
        }
    }
    paths.into_iter().filter(|path| path.is_absolute()).collect()
}
