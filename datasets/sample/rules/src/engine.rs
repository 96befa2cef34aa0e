//! Puts the parts together: one engine for all probes of a kitchen.

use std::collections::HashMap;

use crate::alarm::Alarm;
use crate::excursion::{Phase, Tracker};
use crate::frame::{parse_reading, Reading};
use crate::kinetic::Exposure;
use crate::smoothing::MedianFilter;
use crate::threshold::ProfileBook;
use crate::RuleError;

struct ProbeState {
    tracker: Tracker,
    filter: Option<MedianFilter>,
    exposure: Exposure,
    battery: u8,
}

/// A line for the overview of a kitchen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeSummary {
    pub probe: String,
    pub alarmed: bool,
    pub mean_kinetic: Option<i32>,
    pub battery_low: bool,
}

pub struct Engine {
    book: ProfileBook,
    states: HashMap<String, ProbeState>,
}

const LOW_BATTERY: u8 = 15;

impl Engine {
    pub fn new(book: ProfileBook) -> Self {
        Engine { book, states: HashMap::new() }
    }

    pub fn ingest_line(&mut self, line: &str) -> Result<Vec<Alarm>, RuleError> {
        let reading = parse_reading(line)?;
        self.apply_reading(&reading)
    }

    /// Zero or one alarm today; the list leaves room for rules over pairs.
    pub fn apply_reading(&mut self, reading: &Reading) -> Result<Vec<Alarm>, RuleError> {
        let profile = self.book.profile_for(&reading.probe)?;
        let state = self.states.entry(reading.probe.clone()).or_insert_with(|| ProbeState {
            tracker: Tracker::new(&reading.probe),
            filter: (profile.smoothing > 1).then(|| MedianFilter::new(profile.smoothing)),
            exposure: Exposure::default(),
            battery: reading.battery,
        });
        state.battery = reading.battery;
        state.exposure.add(reading.taken, reading.milli_c);
        let milli_c = match &mut state.filter {
            Some(filter) => filter.push(reading.milli_c),
            None => reading.milli_c,
        };
        Ok(state.tracker.observe(profile, reading.taken, milli_c).into_iter().collect())
    }

    pub fn overview(&self) -> Vec<ProbeSummary> {
        let mut rows: Vec<ProbeSummary> = self
            .states
            .iter()
            .map(|(probe, state)| ProbeSummary {
                probe: probe.clone(),
                alarmed: matches!(state.tracker.phase(), Phase::Breached { .. } | Phase::Recovering { .. }),
                mean_kinetic: state.exposure.mean_kinetic(),
                battery_low: state.battery < LOW_BATTERY,
            })
            .collect();
        rows.sort_by(|a, b| b.alarmed.cmp(&a.alarmed).then_with(|| a.probe.cmp(&b.probe)));
        rows
    }
}
