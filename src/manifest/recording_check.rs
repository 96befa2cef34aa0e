//! Whether a recording makes sense.

use super::recording::Recording;
use super::source::Document;
use crate::diag::Diagnostic;

/// What is wrong with it.
pub(super) fn check(_: &Recording, _: &Document) -> Vec<Diagnostic> {
    Vec::new()
}
