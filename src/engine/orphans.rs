//! Processes that a killed engine left behind.

use std::collections::BTreeMap;

use crate::fsio::{self, tree};
use crate::process;
use crate::store::Store;
use crate::store::journal::Journal;

/// Marker of an attempt: run, key, number.
pub(super) fn marker(run: &str, key: &str, attempt: u32) -> String {
    format!("{run}-{key}-{attempt}")
}

fn run_of(marker: &str) -> Option<&str> {
    let run = marker.rsplitn(3, '-').nth(2)?;
    (!run.contains('/') && tree::plain(run).is_ok()).then_some(run)
}

/// Ends all processes of runs of this store whose engine is gone, so that
/// nothing works in a server's place or disturbs a measurement; `PID PROGRAM`
/// of each. Both must say so, the journal's lock and the process table: a copy
/// of a store has no locks, and ids of processes come again.
pub fn end_orphans(store: &Store) -> Vec<String> {
    let known = std::cell::RefCell::new(BTreeMap::new());
    process::sweep_orphans(|marker| {
        let Some(run) = run_of(marker) else { return false };
        let mut known = known.borrow_mut();
        let live = known.entry(run.to_owned()).or_insert_with(|| Journal::is_live(store.root(), run));
        *live == Some(false)
    })
}

/// Removes the scratch folders of runs whose engine is gone.
pub fn remove_leftovers(store: &Store) {
    for entry in std::fs::read_dir(store.tmp()).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(run) = name.to_str().and_then(run_of) else { continue };
        if Journal::is_live(store.root(), run) == Some(false) {
            // What can't be removed now is met by the next run, or by `store gc`.
            let _ = fsio::remove_dir(&entry.path());
        }
    }
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
