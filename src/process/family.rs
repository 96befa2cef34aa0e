//! All processes that came of one child, also those that left its group.

use std::collections::HashMap;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::MARK;
use super::proc::{self, Stat};

/// Who belongs to a child. A process belongs when it is the child, is in its
/// group, descends from one that belongs, or carries the mark; once seen it
/// belongs for good, whatever it does to its parent, group or environment.
#[derive(Debug)]
pub(super) struct Family {
    leader: i32,
    entry: Vec<u8>,
    members: HashMap<i32, Member>,
    /// Processes whose environment was read in vain, by start time: a
    /// stranger stays one, since marks are inherited at birth.
    strangers: HashMap<i32, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    start: u64,
    ticks: u64,
    /// Its parent belongs to the family, so its time is in the parent's once it was waited for.
    waited: bool,
}

impl Family {
    /// The family of the child `leader`, marked with `mark`.
    pub(super) fn new(leader: i32, mark: &str) -> Self {
        Self {
            leader,
            entry: format!("{MARK}={mark}").into_bytes(),
            members: HashMap::new(),
            strangers: HashMap::new(),
        }
    }

    /// Looks again; the members that live now, the leader included.
    pub(super) fn look(&mut self) -> Vec<Stat> {
        let own = i32::try_from(std::process::id()).unwrap_or(0);
        let all: Vec<Stat> = proc::pids()
            .into_iter()
            .filter(|pid| *pid != own && *pid > 2)
            .filter_map(proc::stat)
            // Kernel threads are children of process 2.
            .filter(|stat| stat.parent != 2)
            .collect();
        let starts: HashMap<i32, u64> = all.iter().map(|s| (s.pid, s.start)).collect();
        self.strangers.retain(|pid, start| starts.get(pid) == Some(start));
        let mut belongs: HashMap<i32, bool> = HashMap::with_capacity(all.len());
        for stat in &all {
            let known = self.members.get(&stat.pid).is_some_and(|m| m.start == stat.start);
            let yes = known || stat.pid == self.leader || stat.group == self.leader || self.marked(stat);
            belongs.insert(stat.pid, yes);
        }
        // Children of members, to any depth.
        loop {
            let mut grown = false;
            for stat in &all {
                if !belongs[&stat.pid] && belongs.get(&stat.parent) == Some(&true) {
                    belongs.insert(stat.pid, true);
                    grown = true;
                }
            }
            if !grown {
                break;
            }
        }
        let mut living = Vec::new();
        for stat in all.into_iter().filter(|stat| belongs[&stat.pid]) {
            let waited = belongs.get(&stat.parent) == Some(&true);
            self.members.insert(stat.pid, Member { start: stat.start, ticks: stat.ticks, waited });
            if !stat.zombie {
                living.push(stat);
            }
        }
        living.sort_by_key(|stat| stat.pid);
        living
    }

    fn marked(&mut self, stat: &Stat) -> bool {
        if stat.zombie || self.strangers.contains_key(&stat.pid) {
            return false;
        }
        let yes = proc::has_entry(stat.pid, &self.entry, false);
        if !yes {
            self.strangers.insert(stat.pid, stat.start);
        }
        yes
    }

    /// Living members beside the leader.
    pub(super) fn others(&mut self) -> Vec<i32> {
        let leader = self.leader;
        self.look().iter().map(|stat| stat.pid).filter(|pid| *pid != leader).collect()
    }

    /// Sends a signal to every living member beside the leader; how many there were.
    pub(super) fn signal_others(&mut self, signal: Signal) -> usize {
        let others = self.others();
        for pid in &others {
            // One that ended in between is no fault.
            let _ = kill(Pid::from_raw(*pid), signal);
        }
        others.len()
    }

    /// Processor time in ticks of all members, the leader having ended but
    /// not been waited for: what the leader's record holds (itself and what
    /// was waited for below it), and what nobody in the family will wait for.
    pub(super) fn ticks(&mut self) -> u64 {
        let living = self.look();
        let leader = proc::stat(self.leader).map_or(0, |stat| stat.ticks);
        let others: u64 = self
            .members
            .iter()
            .filter(|(pid, member)| {
                let lives = living.iter().any(|stat| stat.pid == **pid);
                **pid != self.leader && (lives || !member.waited)
            })
            .map(|(_, member)| member.ticks)
            .sum();
        leader + others
    }
}
