//! Views of a finished run: terminal, Markdown, JSON, rows.
//!
//! Everything here is a function of the report object `{"result", "run"}` or of
//! stored parts; an old run renders without the machinery that made it.
//!
//! `result` is what [`crate::grade::summarise`] gives. Of `run` these keys are
//! shown where they are there: `run` (id), `pipeline`, `about`, `state`,
//! `nodes` (`executed`, `reused`) and `gates` (a list of
//! [`crate::grade::GateOutcome`]).

mod answer;
pub mod answers;
pub mod assemble;
mod markdown;
mod page;
mod rows;
mod terminal;
mod text;

use serde_json::{Value, json};

pub use markdown::{MarkdownError, markdown};
pub use rows::{RowCell, rows};
pub use terminal::{Style, terminal};
pub use text::plain;

/// The report object as one line of JSON. With `stable` only what two honest
/// executions share: `result` by [`crate::grade::stable`], and no `run`.
pub fn json(report: &Value, stable: bool) -> String {
    let object =
        if stable { json!({ "result": crate::grade::stable(&report["result"]) }) } else { report.clone() };
    format!("{object}\n")
}

#[cfg(test)]
mod tests;
