//! Children that misbehave, as real processes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::*;
use crate::clock::Stopwatch;

fn spec(script: &str, marker: &str) -> Spec {
    let env = base_env(Path::new("/nonexistent"), Path::new("/tmp"));
    Spec::new(vec!["sh".into(), "-c".into(), script.into()], PathBuf::from("/tmp"), env, marker)
}

fn marked(marker: &str) -> usize {
    let entry = format!("{MARK}={marker}/").into_bytes();
    proc::pids().into_iter().filter(|pid| proc::has_entry(*pid, &entry, true)).count()
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

#[tokio::test]
async fn a_child_sees_only_what_it_is_given() {
    let mut spec = spec("env; echo oops >&2; exit 3", "env");
    spec.env.insert("DECLARED".into(), "yes".into());
    let got = capture(&spec, seconds(10), 1 << 16).await.unwrap();
    let out = String::from_utf8(got.stdout).unwrap();
    let mut names: Vec<&str> = out.lines().filter_map(|l| Some(l.split_once('=')?.0)).collect();
    names.sort_unstable();
    // The shell adds PWD (and perhaps OLDPWD, _, SHLVL) by itself.
    names.retain(|n| !["PWD", "OLDPWD", "_", "SHLVL"].contains(n));
    assert_eq!(
        names,
        [
            "DECLARED",
            "HOME",
            "LC_CTYPE",
            "PATH",
            "PROOFLINE_MARK",
            "TERM",
            "TMPDIR",
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
            "XDG_DATA_HOME",
            "XDG_STATE_HOME"
        ]
    );
    assert_eq!((got.exit.code, got.exit.ok(), got.stderr.as_slice()), (Some(3), false, b"oops\n".as_slice()));
    assert_eq!(got.exit.words(), "exited with code 3");
}

#[tokio::test]
async fn failures_to_start_are_told_apart() {
    let mut missing = spec("", "start");
    missing.argv[0] = "no-such-program-xyz".into();
    assert!(matches!(Group::spawn(&missing), Err(SpawnError::NotFound(_))));
    let mut folder = spec("", "start");
    folder.cwd = PathBuf::from("/no/such/folder");
    assert!(matches!(Group::spawn(&folder), Err(SpawnError::NoFolder(_))));
    let mut empty = spec("", "start");
    empty.argv.clear();
    assert!(matches!(Group::spawn(&empty), Err(SpawnError::Empty)));
}

#[tokio::test]
async fn output_beyond_the_limit_is_counted_not_kept() {
    let got = capture(&spec("head -c 3000000 /dev/zero", "much"), seconds(20), 1000).await.unwrap();
    assert_eq!((got.stdout.len(), got.stdout_bytes), (1000, 3_000_000));
}

#[tokio::test]
async fn a_limit_ends_child_and_grandchild() {
    let clock = Stopwatch::start();
    let exit = run(&spec("sleep 60 & sleep 60", "limit"), Duration::from_millis(200)).await.unwrap();
    assert!(exit.timed_out && clock.elapsed() < seconds(5), "{exit:?}");
    assert_eq!(marked("limit"), 0);
}

#[tokio::test]
async fn one_that_ignores_term_is_killed() {
    let mut group = Group::spawn(&spec("trap '' TERM; while :; do sleep 0.05; done", "deaf")).unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    let exit = group.terminate(Duration::from_millis(300)).await;
    assert_eq!((exit.code, exit.signal), (None, Some(9)));
    assert_eq!(group.terminate(seconds(1)).await, exit);
    assert_eq!(marked("deaf"), 0);
}

#[tokio::test]
async fn a_daemon_that_left_the_group_is_found_named_and_killed() {
    let exit = run(&spec("setsid sleep 61 & exit 0", "daemon"), seconds(10)).await.unwrap();
    assert_eq!(exit.code, Some(0));
    assert!(exit.survivors.iter().any(|s| s.ends_with(" sleep")), "{exit:?}");
    assert_eq!(marked("daemon"), 0);
}

#[tokio::test]
async fn a_daemon_that_also_drops_its_environment_is_found() {
    let script = "(setsid sh -c 'sleep 0.2; exec env -i sleep 62' &) ; sleep 0.6; exit 0";
    let exit = run(&spec(script, "bare"), seconds(10)).await.unwrap();
    assert!(exit.survivors.iter().any(|s| s.ends_with("sleep")), "{exit:?}");
}

#[tokio::test]
async fn dropping_kills_everything() {
    let group = Group::spawn(&spec("setsid sleep 63 & sleep 63", "drop")).unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(marked("drop") >= 2);
    drop(group);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(marked("drop"), 0);
}

#[tokio::test]
async fn a_later_sweep_finds_what_an_earlier_run_left() {
    let group = Group::spawn(&spec("sleep 64", "swept")).unwrap();
    // In the moment in which the shell becomes another program it shows no environment.
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(sweep("swep"), Vec::<String>::new());
    let found = sweep("swept");
    assert!(!found.is_empty());
    assert_eq!(marked("swept"), 0);
    drop(group);
}

#[tokio::test]
async fn memory_and_time_of_the_whole_tree_are_measured() {
    // A buffer of 100 MiB in a grandchild, filled some times.
    let script = "sh -c 'dd if=/dev/zero of=/dev/null bs=100M count=150; true'; true";
    let exit = run(&spec(script, "memory"), seconds(30)).await.unwrap();
    assert!(exit.rss_mib > 95.0 && exit.rss_mib < 110.0, "{exit:?}");
    assert!(exit.cpu_ms > 50.0 && exit.cpu_ms < 20_000.0, "{exit:?}");
    assert!(exit.wall_ms > 50.0);
}
