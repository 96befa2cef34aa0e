//! Processes that a killed engine left behind.

use std::collections::BTreeSet;

use crate::fsio::{self, tree};
use crate::process;
use crate::store::journal::{self, Journal};
use crate::store::{Store, StoreError};

/// Marker of an attempt: run, key, number.
pub(super) fn marker(run: &str, key: &str, attempt: u32) -> String {
    format!("{run}-{key}-{attempt}")
}

fn run_of(marker: &str) -> Option<&str> {
    let run = marker.rsplitn(3, '-').nth(2)?;
    (!run.contains('/') && tree::plain(run).is_ok()).then_some(run)
}

/// Cleans up after runs of this store whose engine is gone: ends all their
/// processes, so that nothing works in a server's place or disturbs a
/// measurement, and removes their scratch folders; `PID PROGRAM` of each. Both
/// must say that an engine is gone, the journal's lock and the process table: a
/// copy of a store has no locks, and ids of processes come again.
///
/// # Errors
/// When the store can't be written.
pub fn clean_up(store: &Store) -> Result<Vec<String>, StoreError> {
    let root = store.root();
    let dead: BTreeSet<String> = journal::unended(root)
        .into_iter()
        .filter(|run| tree::plain(run).is_ok() && Journal::is_live(root, run) != Some(true))
        .collect();
    // Almost always; looking at all processes would take longer than many a run.
    if dead.is_empty() {
        return Ok(Vec::new());
    }
    let ended = process::sweep_orphans(|marker| run_of(marker).is_some_and(|run| dead.contains(run)));
    for entry in std::fs::read_dir(store.tmp()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().and_then(run_of).is_some_and(|run| dead.contains(run)) {
            fsio::remove_dir(&entry.path())?;
        }
    }
    fsio::slot::sweep(&store.tmp());
    for run in &dead {
        journal::cleaned_up(root, run)?;
    }
    Ok(ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_names_its_run() {
        assert_eq!(run_of(&marker("20261201-021942-0ykUFZ", "0a1b2c", 2)), Some("20261201-021942-0ykUFZ"));
        assert_eq!(run_of("../x-k-1"), None);
        assert_eq!(run_of("k-1"), None);
    }
}
