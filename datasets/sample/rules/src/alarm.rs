//! What leaves this library.

use std::str::FromStr;

use crate::frame::{check_seal, seal};
use crate::RuleError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    Notice,
    Warning,
    Critical,
}

impl Severity {
    pub fn word(self) -> &'static str {
        match self {
            Severity::Notice => "notice",
            Severity::Warning => "warning",
            Severity::Critical => "critical",
        }
    }
}

impl FromStr for Severity {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        [Severity::Notice, Severity::Warning, Severity::Critical]
            .into_iter()
            .find(|s| s.word() == text)
            .ok_or_else(|| RuleError::Frame { field: "severity", text: text.to_owned() })
    }
}

/// A probe that was outside its band for too long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alarm {
    pub probe: String,
    pub severity: Severity,
    pub opened: i64,
    pub closed: Option<i64>,
    pub peak_milli_c: i32,
}

impl Alarm {
    pub fn to_line(&self) -> String {
        let closed = self.closed.map_or_else(|| "-".to_owned(), |at| at.to_string());
        seal(&format!(
            "AL1;{};{};{};{};{};",
            self.probe,
            self.severity.word(),
            self.opened,
            closed,
            self.peak_milli_c
        ))
    }

    pub fn from_line(line: &str) -> Result<Self, RuleError> {
        let body = check_seal(line)?;
        let fields: Vec<&str> = body.trim_end_matches(';').split(';').collect();
        let ["AL1", probe, severity, opened, closed, peak] = fields[..] else {
            return Err(RuleError::Frame { field: "alarm", text: line.to_owned() });
        };
        let seconds = |text: &str| {
            text.parse::<i64>().map_err(|_| RuleError::Frame { field: "time", text: text.to_owned() })
        };
        Ok(Alarm {
            probe: probe.to_owned(),
            severity: severity.parse()?,
            opened: seconds(opened)?,
            closed: if closed == "-" { None } else { Some(seconds(closed)?) },
            peak_milli_c: peak
                .parse()
                .map_err(|_| RuleError::Frame { field: "peak", text: peak.to_owned() })?,
        })
    }
}
