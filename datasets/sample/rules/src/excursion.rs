//! The states a probe goes through when its temperature leaves the band.

use crate::alarm::{Alarm, Severity};
use crate::threshold::{Placement, Profile};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Steady,
    /// Outside, but still within the grace period.
    Drifting {
        since: i64,
        peak: i32,
    },
    /// An alarm was raised.
    Breached {
        since: i64,
        peak: i32,
        severity: Severity,
    },
    /// Back inside, the alarm closes if it stays there.
    Recovering {
        since: i64,
        back: i64,
        peak: i32,
        severity: Severity,
    },
}

/// How long a probe must stay inside before its alarm closes.
const SETTLE_SECONDS: i64 = 300;

/// Follows one probe.
#[derive(Debug)]
pub struct Tracker {
    probe: String,
    phase: Phase,
    last_taken: i64,
}

impl Tracker {
    pub fn new(probe: &str) -> Self {
        Tracker { probe: probe.to_owned(), phase: Phase::Steady, last_taken: i64::MIN }
    }

    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Takes the next temperature; readings from the past are passed over.
    pub fn observe(&mut self, profile: &Profile, taken: i64, milli_c: i32) -> Option<Alarm> {
        if taken < self.last_taken {
            return None;
        }
        self.last_taken = taken;
        let placement = profile.classify(milli_c);
        match (self.phase, placement) {
            (Phase::Steady, Placement::Inside) => None,
            (Phase::Steady, _) => {
                self.phase = Phase::Drifting { since: taken, peak: milli_c };
                None
            }
            (Phase::Drifting { .. }, Placement::Inside) => {
                self.phase = Phase::Steady;
                None
            }
            (Phase::Drifting { since, peak }, _) => {
                let peak = farther(profile, peak, milli_c);
                if taken - since < profile.grace {
                    self.phase = Phase::Drifting { since, peak };
                    return None;
                }
                self.raise(profile, since, peak)
            }
            (Phase::Breached { since, peak, severity }, Placement::Inside) => {
                self.phase = Phase::Recovering { since, back: taken, peak, severity };
                None
            }
            (Phase::Breached { since, peak, severity }, _)
            | (Phase::Recovering { since, peak, severity, .. }, Placement::Below(_) | Placement::Above(_)) => {
                let peak = farther(profile, peak, milli_c);
                if grade(profile, peak) > severity {
                    return self.raise(profile, since, peak);
                }
                self.phase = Phase::Breached { since, peak, severity };
                None
            }
            (Phase::Recovering { since, back, peak, severity }, Placement::Inside) => {
                if taken - back < SETTLE_SECONDS {
                    return None;
                }
                self.phase = Phase::Steady;
                Some(self.alarm(since, Some(back), peak, severity))
            }
        }
    }

    fn raise(&mut self, profile: &Profile, since: i64, peak: i32) -> Option<Alarm> {
        let severity = grade(profile, peak);
        self.phase = Phase::Breached { since, peak, severity };
        Some(self.alarm(since, None, peak, severity))
    }

    fn alarm(&self, opened: i64, closed: Option<i64>, peak: i32, severity: Severity) -> Alarm {
        Alarm { probe: self.probe.clone(), severity, opened, closed, peak_milli_c: peak }
    }
}

fn distance(profile: &Profile, milli_c: i32) -> i32 {
    match profile.classify(milli_c) {
        Placement::Inside => 0,
        Placement::Below(by) | Placement::Above(by) => by,
    }
}

fn farther(profile: &Profile, a: i32, b: i32) -> i32 {
    if distance(profile, b) > distance(profile, a) {
        b
    } else {
        a
    }
}

fn grade(profile: &Profile, peak: i32) -> Severity {
    match distance(profile, peak) {
        0..=1_999 => Severity::Notice,
        2_000..=5_999 => Severity::Warning,
        _ => Severity::Critical,
    }
}
