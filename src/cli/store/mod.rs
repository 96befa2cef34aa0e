//! `store`: looking after a store, and moving results between stores.

mod keep;
mod look;
mod moving;

pub(super) use keep::{pin, quarantine};
pub(super) use look::{gc, stats, verify};
pub(super) use moving::{export, identity, import, pull, push, untrusted};

use super::context;
use super::exit::CliError;
use crate::plan::select::fits;
use crate::report::assemble::{RunNode, RunView};
use crate::store::Store;

/// The nodes of a run that selectors name, all without any; an error when there is none.
fn nodes(store: &Store, run: &str, selectors: &[String]) -> Result<(String, Vec<RunNode>), CliError> {
    let run = context::run_id(store, run)?;
    let view = RunView::read(store, &run)?;
    let mut out = Vec::new();
    for node in view.nodes(store, |_| true, |_| true)? {
        let stage = node.id.split('[').next().unwrap_or_default();
        let mut wanted = selectors.is_empty();
        for selector in selectors {
            wanted |= fits(selector, stage, &node.cell)?;
        }
        if wanted {
            out.push(node);
        }
    }
    if out.is_empty() {
        let what = if selectors.is_empty() {
            "node with a result".to_owned()
        } else {
            format!("node `{}`", selectors.join(" "))
        };
        return Err(CliError::Usage(format!("run {run} has no {what}; see `proofline status {run}`")));
    }
    Ok((run, out))
}
