//! The supervisor: a small process beside the engine that owns the commands.
//!
//! It stands in a process group of its own, so it outlives an engine that is
//! killed: what costs nothing is then ended at once; what was paid for may end
//! by itself within [`GRACE`], and how it ended is written down in the
//! attempt's folder, where the next engine finds it. It also makes commands
//! cheap: the network is left once for all of them, and each is confined by
//! the thread that starts it, without another program in between.
//!
//! Orders arrive as JSON lines on standard input, replies leave on standard
//! output. Everything that a command leaves behind becomes the supervisor's
//! child (it is a subreaper), so leftovers are found without searching.

#![expect(
    clippy::disallowed_methods,
    reason = "deadlines are points in time, and this process has no other clock"
)]

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, BufRead, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use landlock::RulesetCreated;
use nix::sys::prctl;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::confine::{Confine, ConfineReport, Fences, leave_network, restrict};
use super::group::{ending_words, start};
use super::{MARK, find_program, proc};
use crate::fsio::{self, Durability};

/// Name of the hidden subcommand.
pub const SUPERVISE: &str = "supervise";
/// Name of the file in which the end of a paid command is written down.
pub const EXIT_FILE: &str = "exit.json";
/// Name of the file that is locked as long as a paid command is looked after.
pub const LOCK_FILE: &str = "lock";
/// How long a paid command may go on when its engine is gone.
const GRACE: Duration = Duration::from_mins(10);
/// How long a command may take to end when it was asked to.
const ASKED: Duration = Duration::from_secs(2);
/// How long what a command left behind may take to end by itself.
const SETTLE: Duration = Duration::from_millis(300);
/// Pause between two looks at what is left, and at how much is being said.
const LOOK: Duration = Duration::from_millis(15);
/// A command that says more than this is ended, in bytes.
const TALK: u64 = 256 << 20;

/// One command to be run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// Number of the order, given by the engine.
    pub id: u64,
    /// Program and arguments.
    pub argv: Vec<String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// The complete environment but for the mark.
    pub env: BTreeMap<String, String>,
    /// File that takes standard output and standard error.
    pub said: PathBuf,
    /// What it may touch.
    pub confine: Confine,
    /// Longest time in milliseconds.
    pub limit_ms: u64,
    /// Marks its processes.
    pub marker: String,
    /// Folder of a paid attempt: its lock is held while the command runs, and its end is written there.
    pub attempt: Option<PathBuf>,
}

/// What the engine asks.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Ask {
    /// Run a command.
    Run(Box<Order>),
    /// End a command.
    End(u64),
}

/// What the supervisor tells.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Reply {
    pub(super) id: u64,
    pub(super) end: End,
}

/// How a command ended, as it stands in [`EXIT_FILE`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// Exit code, when it exited.
    #[serde(default)]
    pub code: Option<i32>,
    /// Signal, when it was killed by one.
    #[serde(default)]
    pub signal: Option<i32>,
    /// It ran past its limit, or past the grace of a lost engine, and was ended.
    #[serde(default)]
    pub timed_out: bool,
    /// It could not be started, or was ended for what it did; why.
    #[serde(default)]
    pub trouble: Option<String>,
    /// It was never started.
    #[serde(default)]
    pub never: bool,
    /// Milliseconds from its start to its end.
    #[serde(default)]
    pub wall_ms: f64,
    /// Processes that outlived it and were killed: `PID PROGRAM`.
    #[serde(default)]
    pub survivors: Vec<String>,
    /// What could not be enforced: `files`, `network`.
    #[serde(default)]
    pub unconfined: Vec<String>,
    /// There are processes of which nobody can tell whose they are: they may be of this command.
    #[serde(default)]
    pub strays: bool,
}

impl End {
    /// `exited with code 3`, `was killed by signal 9`, `ran past its time limit`.
    #[must_use]
    pub fn words(&self) -> String {
        ending_words(self.timed_out, self.code, self.signal)
    }
}

enum Message {
    Ask(Ask),
    /// The engine is gone.
    Gone,
    Started(u64, i32),
    Failed(u64, String),
    Ended(u64, Child, Vec<String>),
}

/// A command that runs or is being started.
struct Job {
    leader: Option<i32>,
    since: Instant,
    deadline: Instant,
    mark: String,
    said: PathBuf,
    attempt: Option<PathBuf>,
    /// Held until its end is written down.
    lock: Option<File>,
    /// It was asked to end at this moment.
    asked: Option<Instant>,
    end: End,
    /// It has ended at this moment; what it left may take a while.
    ended: Option<Instant>,
    /// Keeps the thread that started it: its child is its own as long as it lives.
    hold: Option<Sender<()>>,
}

/// What the hidden subcommand does until the engine is gone and nothing runs.
///
/// # Errors
/// When standard input or output fail at once.
pub fn supervise_main(network: bool) -> io::Result<()> {
    let mut report = ConfineReport::default();
    if !network {
        leave_network(&mut report);
    }
    // Without it, leftovers are still found by their mark.
    let reaper = prctl::set_child_subreaper(true).is_ok();
    let (tell, told) = channel();
    let asks = tell.clone();
    std::thread::Builder::new().name("asks".to_owned()).spawn(move || listen(&asks))?;
    Supervisor {
        network_report: report,
        reaper,
        jobs: HashMap::new(),
        fences: Fences::default(),
        tell,
        gone: false,
        count: 0,
    }
    .go(&told);
    Ok(())
}

fn listen(tell: &Sender<Message>) {
    for line in io::stdin().lock().lines() {
        let Ok(line) = line else { break };
        if let Ok(ask) = serde_json::from_str::<Ask>(&line)
            && tell.send(Message::Ask(ask)).is_err()
        {
            return;
        }
    }
    // Nobody listens any more only when everything has ended.
    let _ = tell.send(Message::Gone);
}

struct Supervisor {
    network_report: ConfineReport,
    reaper: bool,
    jobs: HashMap<u64, Job>,
    fences: Fences,
    tell: Sender<Message>,
    gone: bool,
    count: u64,
}

impl Supervisor {
    fn go(mut self, told: &Receiver<Message>) {
        while !(self.gone && self.jobs.is_empty()) {
            let message = match self.next_look() {
                None => told.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(wait) => told.recv_timeout(wait),
            };
            match message {
                Ok(Message::Ask(Ask::Run(order))) => self.start(*order),
                Ok(Message::Ask(Ask::End(id))) => self.ask_to_end(id),
                Ok(Message::Gone) => self.lost(),
                Ok(Message::Started(id, leader)) => self.started(id, leader),
                Ok(Message::Failed(id, why)) => self.never(id, why),
                Ok(Message::Ended(id, child, unconfined)) => self.ended(id, child, unconfined),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.look();
        }
    }

    /// How long nothing has to be looked at.
    fn next_look(&self) -> Option<Duration> {
        let now = Instant::now();
        self.jobs
            .values()
            .map(|job| match (job.ended, job.asked) {
                (Some(_), _) => LOOK,
                (_, Some(asked)) => (asked + ASKED).saturating_duration_since(now),
                // In between it is looked at how much it says.
                _ => job.deadline.saturating_duration_since(now).min(Duration::from_millis(500)),
            })
            .min()
    }

    fn start(&mut self, order: Order) {
        let id = order.id;
        let now = Instant::now();
        self.count += 1;
        let mark = format!("{}/{}.{}", order.marker, std::process::id(), self.count);
        let mut job = Job {
            leader: None,
            since: now,
            deadline: now + Duration::from_millis(order.limit_ms),
            mark: mark.clone(),
            said: order.said.clone(),
            attempt: order.attempt.clone(),
            lock: None,
            asked: None,
            end: End::default(),
            ended: None,
            hold: None,
        };
        let (hold, held) = channel();
        job.hold = Some(hold);
        if let Some(folder) = &order.attempt {
            // Whoever comes later sees by this lock that somebody looks after the attempt.
            match fsio::append(&folder.join(LOCK_FILE)).and_then(|file| {
                fsio::at(file.try_lock().map_err(io::Error::from), "can't lock", folder).map(|()| file)
            }) {
                Ok(file) => job.lock = Some(file),
                Err(error) => {
                    self.jobs.insert(id, job);
                    return self.never(id, error.explain());
                }
            }
        }
        let program = order.argv.first().cloned().unwrap_or_default();
        let rules = self.fences.rules(&program, &order.confine, order.attempt.is_some());
        self.jobs.insert(id, job);
        let network = self.network_report.unconfined.clone();
        let tell = self.tell.clone();
        let run = move || {
            let message = match rules.and_then(|rules| spawn(&order, &mark, rules)) {
                Ok((child, mut unconfined)) => {
                    let leader = i32::try_from(child.id()).unwrap_or(0);
                    let _ = tell.send(Message::Started(id, leader));
                    // Not reaped yet: until then its id is its own.
                    let _ =
                        waitid(Id::Pid(Pid::from_raw(leader)), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
                    if !order.confine.network {
                        unconfined.extend(network);
                    }
                    Message::Ended(id, child, unconfined)
                }
                Err(why) => Message::Failed(id, why),
            };
            let _ = tell.send(message);
            // Comes back with an error when the command has been reaped.
            let _ = held.recv();
        };
        if let Err(error) = std::thread::Builder::new().name("command".to_owned()).spawn(run) {
            self.never(id, format!("no thread can be started: {error}"));
        }
    }

    fn started(&mut self, id: u64, leader: i32) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.leader = Some(leader);
        if job.asked.is_some() || (self.gone && job.attempt.is_none()) {
            signal(leader, Signal::SIGKILL);
        }
    }

    fn never(&mut self, id: u64, why: String) {
        if let Some(job) = self.jobs.get_mut(&id) {
            job.end.trouble = Some(why);
            job.end.never = true;
            self.close(id);
        }
    }

    fn ask_to_end(&mut self, id: u64) {
        if let Some(job) = self.jobs.get_mut(&id)
            && job.asked.is_none()
        {
            job.asked = Some(Instant::now());
            if let Some(leader) = job.leader {
                signal(leader, Signal::SIGTERM);
            }
        }
    }

    /// The engine is gone: only what was paid for may go on for a while.
    fn lost(&mut self) {
        self.gone = true;
        let grace = Instant::now() + GRACE;
        for job in self.jobs.values_mut() {
            if job.attempt.is_some() {
                job.deadline = job.deadline.min(grace);
            } else {
                job.asked = Some(Instant::now());
                if let Some(leader) = job.leader {
                    signal(leader, Signal::SIGKILL);
                }
            }
        }
    }

    fn ended(&mut self, id: u64, mut child: Child, unconfined: Vec<String>) {
        let Some(job) = self.jobs.get_mut(&id) else { return };
        job.end.wall_ms = job.since.elapsed().as_secs_f64() * 1000.0;
        job.end.unconfined = unconfined;
        if let Ok(status) = child.wait() {
            job.end.code = status.code();
            job.end.signal = status.signal();
        }
        job.leader = None;
        job.hold = None;
        job.ended = Some(Instant::now());
    }

    /// Ends what is over its time, and closes what has ended with all that it left.
    fn look(&mut self) {
        let now = Instant::now();
        for job in self.jobs.values_mut().filter(|job| job.ended.is_none()) {
            let talks = || std::fs::metadata(&job.said).is_ok_and(|meta| meta.len() > TALK);
            if job.asked.is_none() && now >= job.deadline {
                job.end.timed_out = true;
                job.asked = Some(now);
                job.leader.into_iter().for_each(|leader| signal(leader, Signal::SIGTERM));
            } else if job.asked.is_none() && now - job.since > Duration::from_millis(400) && talks() {
                job.end.trouble = Some(format!("it said more than {} MiB", TALK >> 20));
                job.asked = Some(now);
                job.leader.into_iter().for_each(|leader| signal(leader, Signal::SIGKILL));
            } else if job.asked.is_some_and(|asked| now >= asked + ASKED) {
                job.leader.into_iter().for_each(|leader| signal(leader, Signal::SIGKILL));
            }
        }
        let ended: Vec<u64> =
            self.jobs.iter().filter(|(_, j)| j.ended.is_some()).map(|(id, _)| *id).collect();
        if ended.is_empty() {
            return;
        }
        let mut left = self.leftovers();
        let anyones = format!("{MARK}=");
        for id in ended {
            let Some(job) = self.jobs.get_mut(&id) else { continue };
            let entry = format!("{MARK}={}", job.mark).into_bytes();
            let own: Vec<i32> =
                left.iter().copied().filter(|pid| proc::has_entry(*pid, &entry, false)).collect();
            left.retain(|pid| !own.contains(pid));
            job.end.strays |= left.iter().any(|pid| !proc::has_entry(*pid, anyones.as_bytes(), true));
            let settled = job.ended.is_none_or(|at| now >= at + SETTLE) || job.asked.is_some();
            if own.is_empty() {
                self.close(id);
            } else if settled {
                for pid in own {
                    let words = proc::describe(pid);
                    if kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok()
                        && !job.end.survivors.contains(&words)
                    {
                        job.end.survivors.push(words);
                    }
                }
            }
        }
    }

    /// Living processes that commands left to us; those that have ended are reaped.
    fn leftovers(&self) -> Vec<i32> {
        let own = std::process::id();
        let listed = self
            .reaper
            .then(|| std::fs::read_to_string(format!("/proc/self/task/{own}/children")).ok())
            .flatten();
        let Some(listed) = listed else {
            // A kernel that keeps no such list: everything is looked at.
            let me = i32::try_from(own).unwrap_or(0);
            return proc::pids().into_iter().filter(|pid| *pid != me).collect();
        };
        listed
            .split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .filter(|pid| {
                !matches!(
                    waitpid(Pid::from_raw(*pid), Some(WaitPidFlag::WNOHANG)),
                    Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..))
                )
            })
            .collect()
    }

    /// Writes down and tells how a command ended.
    fn close(&mut self, id: u64) {
        let Some(job) = self.jobs.remove(&id) else { return };
        // Without the lock the attempt was taken from us before it began; without the folder nobody asks.
        let locked = job.lock.is_some();
        if let Some(folder) = job.attempt.as_ref().filter(|f| locked && f.join(LOCK_FILE).is_file()) {
            let bytes = serde_json::to_vec(&job.end).unwrap_or_default();
            // When it can't be written, the next engine takes the attempt for unknown, which it then is.
            let _ = fsio::write_atomic(&folder.join(EXIT_FILE), &bytes, Durability::Synced);
        }
        drop(job.lock);
        let mut line = serde_json::to_vec(&Reply { id, end: job.end }).unwrap_or_default();
        line.push(b'\n');
        let mut out = io::stdout().lock();
        // The engine may be gone.
        let _ = out.write_all(&line).and_then(|()| out.flush());
    }
}

fn signal(leader: i32, signal: Signal) {
    if leader > 1 {
        // A group without members is no fault.
        let _ = killpg(Pid::from_raw(leader), signal);
    }
}

/// Confines this thread and starts the command from it; also what could not be enforced.
fn spawn(order: &Order, mark: &str, rules: RulesetCreated) -> Result<(Child, Vec<String>), String> {
    let name = order.argv.first().ok_or("the command is empty")?;
    let path = order.env.get("PATH").map_or("", String::as_str);
    let program = find_program(name, path, &order.cwd)
        .ok_or_else(|| format!("the program `{name}` is not found or not executable"))?;
    let said = fsio::append(&order.said).map_err(|e| e.explain())?;
    // The folder may have served another command.
    said.set_len(0).map_err(|e| e.to_string())?;
    let both = said.try_clone().map_err(|e| e.to_string())?;
    let mut command = Command::new(&program);
    command
        .arg0(name)
        .args(&order.argv[1..])
        .current_dir(&order.cwd)
        .env_clear()
        .envs(&order.env)
        .env(MARK, mark)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(said)
        .stderr(both);
    let report = restrict(rules).map_err(|e| format!("landlock: {e}"))?;
    let child = start(|| command.spawn()).map_err(|e| format!("can't start `{name}`: {e}"))?;
    Ok((child, report.unconfined))
}
