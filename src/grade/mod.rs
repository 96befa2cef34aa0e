//! Pure graders: what came back, scored against what was expected.
//!
//! [`metric`] and [`grader`] are the registries that the compiler checks names
//! against.

pub mod grader;
pub mod metric;

pub use grader::{GraderDef, PartNeed, grader, graders};
pub use metric::{Direction, Layer, MetricDef, Pool, metric, metrics};
