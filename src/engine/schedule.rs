//! Who may start now: slots, pools, and measured nodes alone on the machine.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::clock::Stopwatch;
use crate::manifest::pipeline::{Effect, Pool};
use crate::plan::compiled::Stage;

/// Nodes that wait for a slot, and what runs.
pub(super) struct Schedule {
    jobs: usize,
    /// Longest chain first, then by index.
    queue: BTreeSet<(Reverse<u32>, usize)>,
    running: usize,
    alone: bool,
    pools: BTreeMap<String, PoolState>,
    watch: Stopwatch,
}

struct PoolState {
    slots: usize,
    used: usize,
    per_minute: Option<usize>,
    /// Starts of the last minute, in milliseconds since the schedule began.
    starts: Vec<f64>,
}

/// What one node wants of the machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wants<'a> {
    alone: bool,
    pool: Option<&'a str>,
}

impl<'a> Wants<'a> {
    pub(super) fn of(stage: &'a Stage) -> Self {
        Self { alone: stage.effect == Effect::Measured && !stage.share, pool: stage.pool.as_deref() }
    }
}

impl Schedule {
    pub(super) fn new(jobs: usize, pools: impl Iterator<Item = (String, Pool)>) -> Self {
        let pools = pools
            .map(|(name, pool)| {
                let state = PoolState {
                    slots: pool.slots as usize,
                    used: 0,
                    per_minute: pool.per_minute.map(|n| n as usize),
                    starts: Vec::new(),
                };
                (name, state)
            })
            .collect();
        Self { jobs: jobs.max(1), queue: BTreeSet::new(), running: 0, alone: false, pools, watch: Stopwatch::start() }
    }

    pub(super) fn push(&mut self, node: usize, chain: u32) {
        self.queue.insert((Reverse(chain), node));
    }

    pub(super) fn running(&self) -> usize {
        self.running
    }

    pub(super) fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// The next node that may start, taken out of the queue and counted as running.
    pub(super) fn next<'a>(&mut self, wants: impl Fn(usize) -> Wants<'a>) -> Option<usize> {
        if self.alone || self.running >= self.jobs {
            return None;
        }
        let now = self.watch.ms();
        let mut chosen = None;
        for entry in &self.queue {
            let want = wants(entry.1);
            if want.alone && self.running > 0 {
                // The machine drains for the first measured node in line; nothing overtakes it.
                break;
            }
            if want.pool.is_none_or(|pool| self.pool_free(pool, now)) {
                chosen = Some((*entry, want));
                break;
            }
        }
        let (entry, want) = chosen?;
        self.queue.remove(&entry);
        self.running += 1;
        self.alone = want.alone;
        if let Some(state) = want.pool.and_then(|pool| self.pools.get_mut(pool)) {
            state.used += 1;
            state.starts.push(now);
        }
        Some(entry.1)
    }

    /// Counts a node as ended.
    pub(super) fn free(&mut self, want: Wants<'_>) {
        self.running = self.running.saturating_sub(1);
        if want.alone {
            self.alone = false;
        }
        if let Some(state) = want.pool.and_then(|pool| self.pools.get_mut(pool)) {
            state.used = state.used.saturating_sub(1);
        }
    }

    fn pool_free(&self, pool: &str, now: f64) -> bool {
        let Some(state) = self.pools.get(pool) else { return true };
        let recent = state.starts.iter().filter(|at| now - **at < 60_000.0).count();
        state.used < state.slots && state.per_minute.is_none_or(|most| recent < most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn want(alone: bool, pool: Option<&str>) -> Wants<'_> {
        Wants { alone, pool }
    }

    #[test]
    fn measured_nodes_run_alone_and_are_not_overtaken() {
        let mut schedule = Schedule::new(4, std::iter::empty());
        let wants = |node: usize| want(node == 1, None);
        schedule.push(0, 9);
        schedule.push(1, 5);
        schedule.push(2, 1);
        assert_eq!(schedule.next(wants), Some(0));
        assert_eq!(schedule.next(wants), None);
        schedule.free(wants(0));
        assert_eq!(schedule.next(wants), Some(1));
        assert_eq!(schedule.next(wants), None);
        schedule.free(wants(1));
        assert_eq!(schedule.next(wants), Some(2));
    }

    #[test]
    fn pools_bound_slots_and_starts_per_minute() {
        let pool = |slots, per_minute| ("api".to_owned(), Pool { slots, per_minute });
        let wants = |node: usize| want(false, (node < 3).then_some("api"));
        let mut schedule = Schedule::new(8, std::iter::once(pool(1, None)));
        for node in 0..4 {
            schedule.push(node, 1);
        }
        assert_eq!(schedule.next(wants), Some(0));
        // The pool is full: the node outside it is taken instead.
        assert_eq!(schedule.next(wants), Some(3));
        assert_eq!(schedule.next(wants), None);
        schedule.free(wants(0));
        assert_eq!(schedule.next(wants), Some(1));
        let mut schedule = Schedule::new(8, std::iter::once(pool(5, Some(2))));
        for node in 0..3 {
            schedule.push(node, 1);
        }
        assert_eq!((schedule.next(wants), schedule.next(wants), schedule.next(wants)), (Some(0), Some(1), None));
    }
}
