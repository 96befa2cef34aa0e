//! The supervisor: what commands may touch, how they end, and what becomes of
//! them when the engine is gone.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests work on real files")]

use std::path::Path;
use std::time::{Duration, Instant};

use proofline::process::{Confine, End, Order, Supervisors, base_env};
use tokio_util::sync::CancellationToken;

fn order(folder: &Path, script: &str) -> Order {
    let work = folder.join("work");
    std::fs::create_dir_all(&work).unwrap();
    Order {
        id: 0,
        argv: ["sh", "-c", script].map(String::from).to_vec(),
        cwd: work.clone(),
        env: base_env(&work, &work),
        said: folder.join("said"),
        confine: Confine { write: vec![work], ..Confine::default() },
        limit_ms: 20_000,
        marker: format!("supervise-{}", folder.file_name().unwrap().to_string_lossy()),
        attempt: None,
    }
}

fn supervisors() -> Supervisors {
    Supervisors::new(Path::new(env!("CARGO_BIN_EXE_proofline")))
}

async fn run(order: Order) -> End {
    supervisors().run(order, &CancellationToken::new()).await.unwrap()
}

fn said(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("said")).unwrap()
}

#[tokio::test]
async fn a_confined_program_reads_and_writes_only_what_it_may() {
    let folder = tempfile::tempdir().unwrap();
    let outside = folder.path().join("out");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), "text").unwrap();
    let script = format!(
        "echo new > new && echo wrote; cat {0}/file; echo x > {0}/x; python3 -c 'print(40+2)'; \
         cat /proc/net/dev | wc -l; echo > /dev/null && echo null",
        outside.display()
    );
    let end = run(order(folder.path(), &script)).await;
    let out = said(folder.path());
    assert!(end.code == Some(0) && out.contains("wrote") && out.contains("null"), "{end:?} {out}");
    if !end.unconfined.contains(&"files".to_owned()) {
        assert!(!out.contains("text") && !outside.join("x").exists(), "{out}");
    }
    if !end.unconfined.contains(&"network".to_owned()) {
        // Two lines of heading and the (down) loopback interface.
        assert!(out.lines().any(|line| line.trim() == "3"), "{out}");
    }
}

/// A folder's rules are kept for the next command in it, not for another folder of that name.
#[tokio::test]
async fn commands_of_one_folder_are_confined_alike_also_when_it_is_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let (work, outside) = (folder.path().join("work"), folder.path().join("out"));
    std::fs::create_dir(&outside).unwrap();
    let supervisors = supervisors();
    let script = format!("echo x > {}/x; echo new > new && echo wrote", outside.display());
    for round in 0..4 {
        if round == 2 {
            std::fs::rename(&work, folder.path().join("old")).unwrap();
        }
        let end = supervisors.run(order(folder.path(), &script), &CancellationToken::new()).await.unwrap();
        assert!(end.code == Some(0) && said(folder.path()).contains("wrote"), "{round} {end:?}");
        if !end.unconfined.contains(&"files".to_owned()) {
            assert!(!outside.join("x").exists(), "{round}");
        }
    }
    // What may be read more is no matter of the folder.
    std::fs::write(outside.join("file"), "text").unwrap();
    let read = format!("cat {}/file", outside.display());
    let may = Confine { read: vec![outside], write: vec![work], network: false };
    let more = Order { confine: may, ..order(folder.path(), &read) };
    supervisors.run(more, &CancellationToken::new()).await.unwrap();
    assert!(said(folder.path()).contains("text"));
    supervisors.run(order(folder.path(), &read), &CancellationToken::new()).await.unwrap();
    assert!(!said(folder.path()).contains("text") || end_is_free(&supervisors, folder.path()).await);
}

/// Whether this kernel confines nothing.
async fn end_is_free(supervisors: &Supervisors, folder: &Path) -> bool {
    let end = supervisors.run(order(folder, "true"), &CancellationToken::new()).await.unwrap();
    end.unconfined.contains(&"files".to_owned())
}

#[tokio::test]
async fn ends_are_told_apart_and_leftovers_are_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let end = run(order(path, "exit 3")).await;
    assert_eq!((end.code, end.signal, end.timed_out), (Some(3), None, false));
    let end = run(order(path, "kill -9 $$")).await;
    assert_eq!((end.code, end.signal), (None, Some(9)));
    let end = run(Order { limit_ms: 300, ..order(path, "sleep 30") }).await;
    assert!(end.timed_out && end.wall_ms < 5000.0, "{end:?}");
    let missing = Order { argv: vec!["no-such-program".into()], ..order(path, "") };
    let end = run(missing).await;
    assert!(end.never && end.trouble.unwrap().contains("no-such-program"));
    // One in the group, and one that has left it.
    let end = run(order(path, "sleep 30 & setsid sleep 31 & echo started")).await;
    assert_eq!((end.code, end.survivors.len()), (Some(0), 2), "{end:?}");
    // What ends by itself in time is no survivor.
    let end = run(order(path, "sleep 0.1 &")).await;
    assert_eq!((end.code, end.survivors.len()), (Some(0), 0), "{end:?}");
}

#[tokio::test]
async fn a_told_command_ends_and_many_run_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let supervisors = supervisors();
    let cancel = CancellationToken::new();
    let since = Instant::now();
    let long = supervisors.run(order(folder.path(), "sleep 30"), &cancel);
    let (end, ()) = tokio::join!(long, async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        cancel.cancel();
    });
    assert!(end.unwrap().signal.is_some() && since.elapsed() < Duration::from_secs(10));
    let folders: Vec<_> = (0..20).map(|_| tempfile::tempdir().unwrap()).collect();
    let never = CancellationToken::new();
    let mut running = tokio::task::JoinSet::new();
    let supervisors = std::sync::Arc::new(supervisors);
    for folder in &folders {
        let order = order(folder.path(), "echo $$");
        let (supervisors, never) = (std::sync::Arc::clone(&supervisors), never.clone());
        running.spawn(async move { supervisors.run(order, &never).await.unwrap() });
    }
    let ends = running.join_all().await;
    assert!(ends.iter().all(|end| end.code == Some(0)), "{ends:?}");
    let mut pids: Vec<String> = folders.iter().map(|folder| said(folder.path())).collect();
    pids.sort();
    pids.dedup();
    assert_eq!(pids.len(), 20);
    supervisors.close().await;
}
