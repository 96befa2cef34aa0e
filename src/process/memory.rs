//! Peak memory of a child and all that came of it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::family::Family;
use super::proc;
use crate::clock::Stopwatch;

/// First pause between two looks; doubled until it is the shortest.
const FIRST: Duration = Duration::from_millis(2);
/// Shortest pause between two looks.
const SHORTEST: Duration = Duration::from_millis(20);
/// Longest pause between two looks.
const LONGEST: Duration = Duration::from_millis(250);
/// A look may take this share of one processor's time at most: 1 in 25.
const SHARE: u32 = 25;

/// Samples the whole process tree from `/proc` on a thread of its own, every
/// 20 ms or so (less often when looking is expensive), and keeps the largest
/// sum. Shared pages are counted once over the tree (proportional set size)
/// where the kernel tells, else resident pages are summed.
#[derive(Debug)]
pub struct MemoryWatch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    family: Mutex<Family>,
    readings: Mutex<Readings>,
    stop: Condvar,
}

#[derive(Debug, Default)]
struct Readings {
    peak_kib: u64,
    stopped: bool,
}

impl MemoryWatch {
    /// Begins to watch the child `leader` whose processes carry `mark`.
    pub(super) fn start(leader: i32, mark: &str) -> Self {
        let shared = Arc::new(Shared {
            family: Mutex::new(Family::new(leader, mark)),
            readings: Mutex::new(Readings::default()),
            stop: Condvar::new(),
        });
        // A first reading of the child alone: it may be gone before the thread looks.
        lock(&shared.readings).peak_kib = kib(leader, 0);
        let theirs = Arc::clone(&shared);
        // Without a thread (the system is out of them) there are fewer looks, not none.
        let thread = std::thread::Builder::new().name("memory".to_owned()).spawn(move || theirs.watch()).ok();
        Self { shared, thread }
    }

    /// The largest sum so far, in MiB.
    #[must_use]
    pub fn peak_mib(&self) -> f64 {
        lock(&self.shared.readings).peak_kib as f64 / 1024.0
    }

    /// Looks once more, now.
    pub fn sample(&self) {
        self.shared.sample();
    }

    /// Who belongs to the child.
    pub(super) fn family(&self) -> MutexGuard<'_, Family> {
        lock(&self.shared.family)
    }

    /// Ends the watch; the peak stays readable.
    pub(super) fn stop(&mut self) {
        lock(&self.shared.readings).stopped = true;
        self.shared.stop.notify_all();
        if let Some(thread) = self.thread.take() {
            // It can't have panicked: it holds no code that does.
            let _ = thread.join();
        }
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn watch(&self) {
        // Short pauses at first: a daemon is best seen before it has hidden.
        let mut shortest = FIRST;
        loop {
            let took = Stopwatch::start();
            self.sample();
            let pause = if shortest < SHORTEST {
                shortest
            } else {
                (took.elapsed() * SHARE).clamp(SHORTEST, LONGEST)
            };
            shortest = (shortest * 2).min(SHORTEST);
            let readings = lock(&self.readings);
            let (readings, _) = self
                .stop
                .wait_timeout_while(readings, pause, |r| !r.stopped)
                .unwrap_or_else(PoisonError::into_inner);
            if readings.stopped {
                return;
            }
        }
    }

    fn sample(&self) {
        let living = lock(&self.family).look();
        let resident: u64 = living.iter().map(|stat| stat.rss_kib).sum();
        // The proportional sum is never above the resident one, so the
        // expensive reading is only made when it could be a new peak.
        if resident <= lock(&self.readings).peak_kib {
            return;
        }
        let sum: u64 = living.iter().map(|stat| kib(stat.pid, stat.rss_kib)).sum();
        let mut readings = lock(&self.readings);
        readings.peak_kib = readings.peak_kib.max(sum);
    }
}

/// Memory of one process; `resident` where the kernel doesn't tell its share.
fn kib(pid: i32, resident: u64) -> u64 {
    proc::proportional_kib(pid).unwrap_or(resident)
}

/// A panic elsewhere must not hide the readings.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
