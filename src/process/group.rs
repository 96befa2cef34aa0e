//! One child and its process group, from start to the last process of it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::proc;
use super::{MARK, MemoryWatch, find_program};
use crate::clock::Stopwatch;
use crate::fsio::{self, FsError};

/// How long processes that are left when the child has ended may take to end by themselves.
const SETTLE: Duration = Duration::from_millis(300);
/// How long killed processes may take to vanish before we give up on them.
const VANISH: Duration = Duration::from_secs(3);
/// Pause between two looks at what is left.
const LOOK: Duration = Duration::from_millis(15);

/// What a stream of a child is connected to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stdio {
    /// To us.
    Pipe,
    /// To nothing.
    Null,
    /// To a file: standard input reads it, the others append to it.
    File(PathBuf),
}

/// What to start. The child inherits nothing that isn't here.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Program and arguments; the program is looked for on `env`'s `PATH`.
    pub argv: Vec<String>,
    /// Working directory.
    pub cwd: PathBuf,
    /// The complete environment.
    pub env: BTreeMap<String, String>,
    /// Standard input.
    pub stdin: Stdio,
    /// Standard output.
    pub stdout: Stdio,
    /// Standard error.
    pub stderr: Stdio,
    /// A name for what this child is for, e.g. of a node's attempt; all its
    /// processes can be found by it, also by a later proofline ([`super::sweep`]).
    pub marker: String,
}

impl Spec {
    /// A child without streams.
    #[must_use]
    pub fn new(argv: Vec<String>, cwd: PathBuf, env: BTreeMap<String, String>, marker: &str) -> Self {
        Self {
            argv,
            cwd,
            env,
            stdin: Stdio::Null,
            stdout: Stdio::Null,
            stderr: Stdio::Null,
            marker: marker.to_owned(),
        }
    }
}

/// Why a child could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The argument list is empty.
    #[error("the command is empty")]
    Empty,
    /// There is no such program.
    #[error("the program `{0}` is not found or not executable")]
    NotFound(String),
    /// There is no such working directory.
    #[error("the working directory `{}` is not there", .0.display())]
    NoFolder(PathBuf),
    /// A file of a stream can't be opened.
    #[error("{}", .0.explain())]
    File(#[from] FsError),
    /// The system refused.
    #[error("can't start `{program}`: {source}")]
    System {
        /// The program.
        program: String,
        /// The system's word.
        source: io::Error,
    },
}

/// How a child ended by itself, before anything that it left was ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ending {
    /// Exit code, when it exited.
    pub code: Option<i32>,
    /// Signal, when it was killed by one.
    pub signal: Option<i32>,
    /// Milliseconds from its start to its end.
    pub wall_ms: f64,
}

/// How a child and all that came of it ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    /// Exit code, when it exited.
    pub code: Option<i32>,
    /// Signal, when it was killed by one.
    pub signal: Option<i32>,
    /// It ran past its limit and was ended.
    pub timed_out: bool,
    /// Milliseconds from its start to its end.
    pub wall_ms: f64,
    /// Processor time of the whole tree, in milliseconds.
    pub cpu_ms: f64,
    /// Largest memory of the whole tree, in MiB.
    pub rss_mib: f64,
    /// Processes that outlived it and were killed: `PID PROGRAM`.
    pub survivors: Vec<String>,
}

impl Exit {
    /// Exit code 0, in time.
    #[must_use]
    pub fn ok(&self) -> bool {
        self.code == Some(0) && !self.timed_out
    }

    /// `exited with code 3`, `was killed by signal 9`, `ran past its time limit`.
    #[must_use]
    pub fn words(&self) -> String {
        ending_words(self.timed_out, self.code, self.signal)
    }
}

/// How a child ended, in words.
pub(super) fn ending_words(timed_out: bool, code: Option<i32>, signal: Option<i32>) -> String {
    match (timed_out, code, signal) {
        (true, ..) => "ran past its time limit".to_owned(),
        (_, Some(code), _) => format!("exited with code {code}"),
        (_, _, Some(signal)) => format!("was killed by signal {signal}"),
        _ => "ended".to_owned(),
    }
}

/// A running child with its process group. Dropping it kills all of it.
#[derive(Debug)]
pub struct Group {
    child: Child,
    leader: i32,
    memory: MemoryWatch,
    ended: watch::Receiver<Option<Ending>>,
    exit: Option<Exit>,
}

impl Group {
    /// Starts the child. Must be called inside a tokio runtime.
    ///
    /// # Errors
    /// When there is no such program or folder, or the system refuses.
    pub fn spawn(spec: &Spec) -> Result<Self, SpawnError> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let name = spec.argv.first().ok_or(SpawnError::Empty)?;
        if !spec.cwd.is_dir() {
            return Err(SpawnError::NoFolder(spec.cwd.clone()));
        }
        let path = spec.env.get("PATH").map_or("", String::as_str);
        let program =
            find_program(name, path, &spec.cwd).ok_or_else(|| SpawnError::NotFound(name.clone()))?;
        // Two children of one node must not sweep each other.
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}/{}.{count}", spec.marker, std::process::id());
        let mut command = Command::new(&program);
        command
            .args(&spec.argv[1..])
            .current_dir(&spec.cwd)
            .env_clear()
            .envs(&spec.env)
            .env(MARK, &mark)
            .process_group(0)
            .stdin(input(&spec.stdin)?)
            .stdout(output(&spec.stdout)?)
            .stderr(output(&spec.stderr)?)
            .kill_on_drop(true);
        let clock = Stopwatch::start();
        let child = start(|| command.spawn())
            .map_err(|source| SpawnError::System { program: name.clone(), source })?;
        let leader = child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or(0);
        Ok(Self {
            child,
            leader,
            memory: MemoryWatch::start(leader, &mark),
            ended: watch_end(leader, clock),
            exit: None,
        })
    }

    /// Process id of the child, which is also that of its group.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.leader
    }

    /// The child's standard input, when it is a pipe and not yet taken.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// The child's standard output, when it is a pipe and not yet taken.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// The child's standard error, when it is a pipe and not yet taken.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    /// Memory of the tree.
    #[must_use]
    pub fn memory(&self) -> &MemoryWatch {
        &self.memory
    }

    /// Tells when the child itself has ended; what it left may still run.
    #[must_use]
    pub fn ended(&self) -> watch::Receiver<Option<Ending>> {
        self.ended.clone()
    }

    /// Waits until the child ends by itself, then ends what it left behind.
    pub async fn wait(&mut self) -> Exit {
        self.until_ended().await;
        self.finish(SETTLE).await
    }

    /// Asks the group to end (TERM), waits up to `grace`, then kills it and
    /// everything that left it.
    pub async fn terminate(&mut self, grace: Duration) -> Exit {
        if self.exit.is_none() && self.ended.borrow().is_none() {
            self.signal(Signal::SIGTERM);
            if timeout(grace, self.until_ended()).await.is_err() {
                self.signal(Signal::SIGKILL);
                // A process in uninterruptible sleep can't be waited for.
                let _ = timeout(VANISH, self.until_ended()).await;
            }
        }
        self.finish(SETTLE).await
    }

    async fn until_ended(&mut self) {
        // The sender only goes away after it has sent.
        let _ = self.ended.wait_for(Option::is_some).await;
    }

    fn signal(&self, signal: Signal) {
        if self.leader > 1 {
            // A group without members is no fault.
            let _ = killpg(Pid::from_raw(self.leader), signal);
        }
    }

    /// The child has ended but was not waited for, so that its id and its
    /// group's are still its own: ends the rest, reads the clocks, reaps.
    async fn finish(&mut self, settle: Duration) -> Exit {
        if let Some(exit) = &self.exit {
            return exit.clone();
        }
        self.memory.sample();
        let since = Stopwatch::start();
        let mut left = self.memory.family().others();
        while !left.is_empty() && since.elapsed() < settle {
            sleep(LOOK).await;
            left = self.memory.family().others();
        }
        let survivors: Vec<String> = left.iter().map(|pid| proc::describe(*pid)).collect();
        let cpu = self.memory.family().ticks();
        let since = Stopwatch::start();
        self.signal(Signal::SIGKILL);
        while self.memory.family().signal_others(Signal::SIGKILL) > 0 && since.elapsed() < VANISH {
            sleep(LOOK).await;
        }
        self.memory.stop();
        let ending = *self.ended.borrow();
        if ending.is_some() {
            // It has ended: this only reaps it.
            let _ = self.child.wait().await;
        }
        let exit = Exit {
            code: ending.and_then(|e| e.code),
            signal: ending.and_then(|e| e.signal),
            timed_out: false,
            wall_ms: ending.map_or(0.0, |e| e.wall_ms),
            cpu_ms: proc::ticks_ms(cpu),
            rss_mib: self.memory.peak_mib(),
            survivors,
        };
        self.exit = Some(exit.clone());
        exit
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if self.exit.is_some() {
            return;
        }
        self.signal(Signal::SIGKILL);
        // What forks while it is being killed is met in the next round.
        for _ in 0..5 {
            if self.memory.family().signal_others(Signal::SIGKILL) == 0 {
                break;
            }
        }
    }
}

/// A file that was just written may for a moment be open in a child that
/// another thread has forked and that has not yet replaced itself.
pub(super) fn start<C>(mut spawn: impl FnMut() -> io::Result<C>) -> io::Result<C> {
    for _ in 0..20 {
        match spawn() {
            Err(e) if e.kind() == io::ErrorKind::ExecutableFileBusy => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
    spawn()
}

/// Waits for the end on a thread of its own, without reaping: the kernel keeps
/// the processor time and the id until [`Group::finish`] has read them.
fn watch_end(leader: i32, clock: Stopwatch) -> watch::Receiver<Option<Ending>> {
    let (tell, ended) = watch::channel(None);
    let wait = move || {
        let status = loop {
            match waitid(Id::Pid(Pid::from_raw(leader)), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT) {
                Err(Errno::EINTR) => {}
                other => break other,
            }
        };
        let (code, signal) = match status {
            Ok(WaitStatus::Exited(_, code)) => (Some(code), None),
            Ok(WaitStatus::Signaled(_, signal, _)) => (None, Some(signal as i32)),
            _ => (None, None),
        };
        tell.send_replace(Some(Ending { code, signal, wall_ms: clock.ms() }));
    };
    // When no thread is to be had, the dropped sender ends every wait at once.
    let _ = std::thread::Builder::new().name("wait".to_owned()).spawn(wait);
    ended
}

fn input(from: &Stdio) -> Result<std::process::Stdio, SpawnError> {
    Ok(match from {
        Stdio::Pipe => std::process::Stdio::piped(),
        Stdio::Null => std::process::Stdio::null(),
        Stdio::File(path) => fsio::at(File::open(path), "can't read", path)?.into(),
    })
}

fn output(to: &Stdio) -> Result<std::process::Stdio, SpawnError> {
    Ok(match to {
        Stdio::Pipe => std::process::Stdio::piped(),
        Stdio::Null => std::process::Stdio::null(),
        Stdio::File(path) => fsio::append(path)?.into(),
    })
}
