//! Children that are run to their end.

use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::group::{Exit, Group, SpawnError, Spec, Stdio};
use super::{MARK, proc};

/// How long a child that ran past its limit may take to end when asked to.
const GRACE: Duration = Duration::from_secs(2);
/// How long output may take to arrive once all processes have ended.
const DRAIN: Duration = Duration::from_secs(2);

/// What a child said.
#[derive(Clone, Debug, Default)]
pub struct Captured {
    /// How it ended.
    pub exit: Exit,
    /// The first bytes of its standard output.
    pub stdout: Vec<u8>,
    /// The first bytes of its standard error.
    pub stderr: Vec<u8>,
    /// It said more than was kept: bytes of standard output in all.
    pub stdout_bytes: u64,
}

/// Runs a child to its end, or ends it at `limit`. Streams that are pipes are
/// read and thrown away. Dropping the future kills the child.
///
/// # Errors
/// When it can't be started; an exit code is no error.
pub async fn run(spec: &Spec, limit: Duration) -> Result<Exit, SpawnError> {
    let mut group = Group::spawn(spec)?;
    drop(group.take_stdin());
    let out = drain(group.take_stdout(), 0);
    let err = drain(group.take_stderr(), 0);
    let exit = finish(&mut group, limit).await;
    out.abort();
    err.abort();
    Ok(exit)
}

/// Runs a child as [`run`] does and keeps the first `max` bytes of each of its
/// output streams (standard output and error are made pipes).
///
/// # Errors
/// When it can't be started; an exit code is no error.
pub async fn capture(spec: &Spec, limit: Duration, max: usize) -> Result<Captured, SpawnError> {
    let piped = Spec { stdout: Stdio::Pipe, stderr: Stdio::Pipe, ..spec.clone() };
    let mut group = Group::spawn(&piped)?;
    drop(group.take_stdin());
    let out = drain(group.take_stdout(), max);
    let err = drain(group.take_stderr(), max);
    let exit = finish(&mut group, limit).await;
    let collect = async |task: JoinHandle<(Vec<u8>, u64)>| {
        let abort = task.abort_handle();
        let kept = timeout(DRAIN, task).await;
        abort.abort();
        kept.ok().and_then(Result::ok).unwrap_or_default()
    };
    let (stdout, stdout_bytes) = collect(out).await;
    let (stderr, _) = collect(err).await;
    Ok(Captured { exit, stdout, stderr, stdout_bytes })
}

async fn finish(group: &mut Group, limit: Duration) -> Exit {
    let mut ended = group.ended();
    let in_time = timeout(limit, ended.wait_for(Option::is_some)).await.is_ok();
    if in_time { group.wait().await } else { Exit { timed_out: true, ..group.terminate(GRACE).await } }
}

fn drain<R: AsyncRead + Unpin + Send + 'static>(
    stream: Option<R>,
    keep: usize,
) -> JoinHandle<(Vec<u8>, u64)> {
    tokio::spawn(async move {
        let (mut kept, mut total) = (Vec::new(), 0u64);
        let Some(mut stream) = stream else { return (kept, total) };
        let mut chunk = vec![0u8; 64 * 1024];
        while let Ok(n @ 1..) = stream.read(&mut chunk).await {
            total += n as u64;
            let room = keep - kept.len();
            kept.extend_from_slice(&chunk[..n.min(room)]);
        }
        (kept, total)
    })
}

/// Kills every process that an earlier proofline, perhaps killed itself,
/// started with this marker; `PID PROGRAM` of each.
#[must_use]
pub fn sweep(marker: &str) -> Vec<String> {
    let entry = format!("{MARK}={marker}/").into_bytes();
    kill_all(|pid| proc::has_entry(pid, &entry, true))
}

/// Kills every process whose proofline is gone and for whose marker `orphaned`
/// says so; `PID PROGRAM` of each.
pub fn sweep_orphans(orphaned: impl Fn(&str) -> bool) -> Vec<String> {
    kill_all(|pid| {
        let mark = proc::variable(pid, MARK).unwrap_or_default();
        let Some((marker, starter)) = mark.rsplit_once('/') else { return false };
        let starter = starter.split('.').next().and_then(|pid| pid.parse().ok());
        let gone = starter.is_some_and(|pid| proc::stat(pid).is_none_or(|stat| stat.zombie));
        gone && orphaned(marker)
    })
}

fn kill_all(wanted: impl Fn(i32) -> bool) -> Vec<String> {
    let mut killed = Vec::new();
    for _ in 0..5 {
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let found: Vec<i32> = proc::pids().into_iter().filter(|pid| *pid != own && wanted(*pid)).collect();
        if found.is_empty() {
            break;
        }
        for pid in found {
            let words = proc::describe(pid);
            if kill(Pid::from_raw(pid), Signal::SIGKILL).is_ok() && !killed.contains(&words) {
                killed.push(words);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    killed
}
