//! Whether a scenario makes sense.

use super::scenario::Scenario;
use super::source::Document;
use crate::diag::Diagnostic;

/// What is wrong with it.
pub(super) fn check(_: &Scenario, _: &Document) -> Vec<Diagnostic> {
    Vec::new()
}
