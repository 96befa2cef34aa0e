//! Whether a rubric makes sense.

use super::rubric::Rubric;
use super::source::Document;
use crate::diag::Diagnostic;

/// What is wrong with it.
pub(super) fn check(_: &Rubric, _: &Document) -> Vec<Diagnostic> {
    Vec::new()
}
