//! Recall over the must-find set: mentioned, cited, cited at the right line.

use super::checks::find;
use super::cited::Cited;
use super::cost::as_f64;
use crate::artifact::Item;
use crate::manifest::scenario::{Gold, is_file_like};

/// Lines from the right one within which a citation counts as right.
const NEAR: u64 = 5;

/// Items, and the columns `gold_mentioned`, `gold_cited`, `gold_at_line`.
pub(super) fn recall(gold: &[Gold], text: &str, cited: &[Cited<'_>]) -> (Vec<Item>, [Option<f64>; 3]) {
    let mut items = Vec::new();
    let (mut mentioned, mut found, mut exact, mut lined) = (0u64, 0u64, 0u64, 0u64);
    for row in gold {
        let row = Row::of(row, text, cited);
        mentioned += u64::from(row.mentioned);
        found += u64::from(row.cited);
        lined += u64::from(row.at_line.is_some());
        exact += u64::from(row.at_line == Some(true));
        items.push(row.item);
    }
    let share = |of: u64, all: u64| (all > 0).then(|| as_f64(of) / as_f64(all));
    let all = gold.len() as u64;
    (items, [share(mentioned, all), share(found, all), share(exact, lined)])
}

struct Row {
    mentioned: bool,
    cited: bool,
    /// None where the row names no line.
    at_line: Option<bool>,
    item: Item,
}

impl Row {
    fn of(gold: &Gold, text: &str, cited: &[Cited<'_>]) -> Self {
        let names: Vec<&str> = match gold.matches.as_slice() {
            [] => vec![gold.id.as_str()],
            matches => matches.iter().map(String::as_str).collect(),
        };
        let places: Vec<_> = names.iter().flat_map(|name| find(text, name, false)).collect();
        let files: Vec<&str> = names.iter().copied().filter(|name| is_file_like(name)).collect();
        let citations: Vec<&Cited<'_>> =
            cited.iter().filter(|c| files.iter().any(|file| c.is_file(file))).collect();
        let pinned: Vec<&&Cited<'_>> = citations.iter().filter(|c| c.lines.is_some()).collect();
        // A row without a file can only be mentioned.
        let is_cited = if files.is_empty() { !places.is_empty() } else { !pinned.is_empty() };
        let at_line = gold.line.map(|line| {
            pinned
                .iter()
                .filter_map(|c| c.lines)
                .any(|(first, last)| first.saturating_sub(NEAR) <= line && line <= last.saturating_add(NEAR))
        });
        let mentioned = !places.is_empty() || !citations.is_empty();
        let spans = citations.iter().map(|c| &c.span).chain(&places);
        let note = match (mentioned, is_cited, at_line) {
            (false, ..) => "not mentioned",
            (true, false, _) => "mentioned, not cited",
            (true, true, Some(false)) => "cited, at another line",
            (true, true, Some(true)) => "cited at the right line",
            (true, true, None) => "cited",
        };
        let item = Item {
            grader: "gold".to_owned(),
            id: format!("gold {}: {}", gold.group, gold.id),
            step: None,
            hit: Some(is_cited),
            spans: spans.take(20).map(|span| (span.start as u64, span.end as u64)).collect(),
            note: note.to_owned(),
        };
        Self { mentioned, cited: is_cited, at_line, item }
    }
}
