//! Locking ourselves in before becoming another program.
//!
//! A hidden subcommand calls [`confined_main`]: it restricts its own process
//! with Landlock, leaves the network by a namespace of its own, writes down
//! what the kernel could not enforce, and then *becomes* the command. It must
//! be called before any thread is started: a process with threads can't enter
//! a user namespace.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fs;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access, AccessFs, AccessNet, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, RulesetStatus,
    path_beneath_rules,
};
use nix::sched::{CloneFlags, unshare};
use nix::unistd::{getegid, geteuid};
use serde::{Deserialize, Serialize};

use super::env::{find_program, own_home, own_path};
use crate::fsio::{self, FsError};

/// Name of the hidden subcommand: `proofline confined --json SPEC -- ARGV`.
pub const SUBCOMMAND: &str = "confined";

/// Newest Landlock interface that we ask for; older kernels enforce less.
const LEVEL: ABI = ABI::V5;

/// What a confined program may touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confine {
    /// Files and folders that it may read and execute, beside the system's own.
    pub read: Vec<PathBuf>,
    /// Files and folders that it may change.
    pub write: Vec<PathBuf>,
    /// May it use the network? Without, there is not even a loopback interface.
    pub network: bool,
    /// Where a [`ConfineReport`] is written as JSON.
    pub report: Option<PathBuf>,
}

/// What was enforced.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConfineReport {
    /// `full`, `partial` or `none`: how much of the file rules the kernel enforces.
    pub files: String,
    /// What could not be enforced: `files`, `network`; empty is good.
    pub unconfined: Vec<String>,
    /// Why, for people.
    pub notes: Vec<String>,
}

/// Why a program could not be confined or become.
#[derive(Debug, thiserror::Error)]
pub enum ConfineError {
    /// The description can't be read.
    #[error("the confinement is not described: {0}")]
    Spec(#[from] serde_json::Error),
    /// The report can't be written.
    #[error("{}", .0.explain())]
    Report(#[from] FsError),
    /// The kernel refused rules that it should know.
    #[error("landlock: {0}")]
    Landlock(#[from] RulesetError),
    /// The command is empty.
    #[error("the command is empty")]
    Empty,
    /// The program can't be run.
    #[error("can't start `{program}`: {source}")]
    Exec {
        /// The program.
        program: String,
        /// The system's word.
        source: io::Error,
    },
}

impl Confine {
    /// The command that runs `argv` confined in this way: `own_exe` is proofline itself.
    #[must_use]
    pub fn launcher_argv(&self, own_exe: &Path, argv: &[String]) -> Vec<String> {
        let spec = serde_json::to_string(self).unwrap_or_default();
        let mut out = vec![
            own_exe.to_string_lossy().into_owned(),
            SUBCOMMAND.to_owned(),
            "--json".to_owned(),
            spec,
            "--".to_owned(),
        ];
        out.extend_from_slice(argv);
        out
    }
}

/// What the hidden subcommand does; it only returns to say why it failed.
///
/// # Errors
/// When the description is broken, or the program can't be run.
pub fn confined_main(spec_json: &str, argv: &[String]) -> Result<Infallible, ConfineError> {
    let confine: Confine = serde_json::from_str(spec_json)?;
    enter(&confine, argv)
}

/// Restricts this process and becomes `argv`. What the kernel can't enforce is
/// written to the report and does not stop it.
///
/// # Errors
/// When the report can't be written, or the program can't be run.
pub fn enter(confine: &Confine, argv: &[String]) -> Result<Infallible, ConfineError> {
    let program = argv.first().ok_or(ConfineError::Empty)?;
    // Opened first: afterwards its folder may be out of reach.
    let sheet = confine.report.as_deref().map(fsio::append).transpose()?;
    let mut report = ConfineReport::default();
    if !confine.network {
        leave_network(&mut report);
    }
    restrict_files(confine, program, &mut report)?;
    if let (Some(mut sheet), Some(path)) = (sheet, confine.report.as_deref()) {
        let line = serde_json::to_vec(&report)?;
        fsio::at(sheet.write_all(&line), "can't write", path)?;
    }
    let source = std::process::Command::new(program).args(&argv[1..]).exec();
    Err(ConfineError::Exec { program: program.clone(), source })
}

/// A network namespace of our own, by right (root) or inside a user namespace.
fn leave_network(report: &mut ConfineReport) {
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

fn restrict_files(confine: &Confine, program: &str, report: &mut ConfineReport) -> Result<(), RulesetError> {
    let all = AccessFs::from_all(LEVEL);
    let look = AccessFs::from_read(LEVEL);
    let mut rules = Ruleset::default().handle_access(all)?;
    // A second line: where no namespace was to be had, TCP at least is refused.
    if !confine.network {
        rules = rules.handle_access(AccessNet::from_all(LEVEL))?;
    }
    let devices = AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::IoctlDev;
    let status = rules
        .create()?
        .add_rules(path_beneath_rules(system_paths(program), look))?
        .add_rules(path_beneath_rules(DEVICES, devices))?
        .add_rules(path_beneath_rules(["/dev/shm", "/dev/pts"], all))?
        .add_rules(path_beneath_rules(&confine.read, look))?
        .add_rules(path_beneath_rules(&confine.write, all))?
        .restrict_self()?;
    let files = match status.ruleset {
        RulesetStatus::FullyEnforced => "full",
        RulesetStatus::PartiallyEnforced => "partial",
        RulesetStatus::NotEnforced => "none",
    };
    if status.ruleset == RulesetStatus::NotEnforced {
        report.unconfined.push("files".to_owned());
        report.notes.push("the kernel offers no landlock".to_owned());
    }
    files.clone_into(&mut report.files);
    Ok(())
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
