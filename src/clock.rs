//! The only place that asks what time it is.

use std::time::{Duration, Instant};

/// Wall-clock time; a fixed one for tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// The machine's clock.
    System,
    /// Always this many milliseconds since 1970-01-01 UTC.
    Fixed(i64),
}

impl Clock {
    /// Milliseconds since 1970-01-01 UTC.
    #[must_use]
    pub fn now_ms(self) -> i64 {
        match self {
            Self::System => jiff::Timestamp::now().as_millisecond(),
            Self::Fixed(at) => at,
        }
    }
}

/// `2026-12-01T09:30:00Z` for milliseconds since 1970-01-01 UTC.
#[must_use]
pub fn rfc3339(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms)
        .map(|t| t.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
        .unwrap_or_default()
}

/// `20261201-093000` for milliseconds since 1970-01-01 UTC; used in run ids.
#[must_use]
pub fn compact(ms: i64) -> String {
    jiff::Timestamp::from_millisecond(ms).map(|t| t.strftime("%Y%m%d-%H%M%S").to_string()).unwrap_or_default()
}

/// Measures elapsed time on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// Milliseconds since the start, with microsecond resolution.
    #[must_use]
    pub fn ms(&self) -> f64 {
        (self.elapsed().as_secs_f64() * 1e6).round() / 1e3
    }
}
