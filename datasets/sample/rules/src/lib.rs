//! Rules that turn readings into alarms.

pub mod alarm;
pub mod engine;
pub mod excursion;
pub mod frame;
pub mod kinetic;
pub mod smoothing;
pub mod threshold;

use std::fmt;

pub use alarm::{Alarm, Severity};
pub use engine::Engine;
pub use frame::{parse_reading, Reading};
pub use threshold::ProfileBook;

/// Everything that can go wrong in this library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RuleError {
    /// A line that is not a reading.
    Frame { field: &'static str, text: String },
    /// The trailer of a line does not belong to it.
    Trailer { expected: u16, found: String },
    /// A line of the profile file.
    Profile { line: usize, reason: String },
    /// A probe without a storage profile.
    Unassigned(String),
}

impl fmt::Display for RuleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RuleError::Frame { field, text } => write!(f, "bad {field}: {text:?}"),
            RuleError::Trailer { expected, found } => {
                write!(f, "trailer is {found:?}, should be {expected:04X}")
            }
            RuleError::Profile { line, reason } => write!(f, "profile line {line}: {reason}"),
            RuleError::Unassigned(probe) => write!(f, "no profile for {probe}"),
        }
    }
}

impl std::error::Error for RuleError {}

/// Runs a whole text of lines through a fresh engine and returns the alarms
/// as lines, in the order in which they were raised, and the faulty lines.
pub fn evaluate_text(profiles: &str, lines: &str) -> Result<(Vec<String>, Vec<RuleError>), RuleError> {
    let book = ProfileBook::from_text(profiles)?;
    let mut engine = Engine::new(book);
    let mut raised = Vec::new();
    let mut faults = Vec::new();
    for line in lines.lines().filter(|l| !l.trim().is_empty()) {
        match engine.ingest_line(line) {
            Ok(alarms) => raised.extend(alarms.iter().map(Alarm::to_line)),
            Err(fault) => faults.push(fault),
        }
    }
    Ok((raised, faults))
}
