//! Tables: Markdown, CSV and TSV with a heading, and compact rows.

use serde_json::{Map, Value};

use super::fields::{self, is_file_field};
use super::path::Sure;
use super::{MAX_HITS, Rules};
use crate::artifact::Hit;

/// Most cells of a row.
const MAX_CELLS: usize = 64;

/// A row under known names: by its file column, else by a cell that is a place.
pub(super) fn row(names: &[String], cells: &[Value], rules: &Rules<'_>) -> Option<Hit> {
    let object: Map<String, Value> =
        names.iter().zip(cells).take(MAX_CELLS).map(|(name, cell)| (name.clone(), cell.clone())).collect();
    let own = fields::read(&object, rules);
    if let Some(file) = own.file {
        let name = file.rsplit('/').next().unwrap_or_default().to_owned();
        let symbol = own.symbol.filter(|s| *s != name && *s != file);
        return Some(Hit {
            line: own.line.and_then(|l| rules.line(l)),
            file: Some(file),
            symbol,
            score: own.score,
        });
    }
    let place = cells.iter().filter_map(Value::as_str).find_map(|cell| rules.place(cell, Sure::Yes))?;
    let line = place.line.or(own.line).and_then(|line| rules.line(line));
    Some(Hit { file: Some(place.file), symbol: place.symbol.or(own.symbol), line, score: own.score })
}

/// The cells of a line of a Markdown table.
pub(super) fn pipe_cells(line: &str) -> Option<Vec<String>> {
    let inner = line.trim().strip_prefix('|')?;
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    let cells: Vec<String> =
        inner.split('|').take(MAX_CELLS).map(|c| super::path::undress(c).to_owned()).collect();
    (cells.len() > 1).then_some(cells)
}

/// Is this the line under the heading of a Markdown table?
pub(super) fn is_rule(line: &str) -> bool {
    let line = line.trim();
    line.starts_with('|') && line.contains("--") && line.chars().all(|c| "|-: ".contains(c))
}

/// Splits a line at a separator, minding double quotes.
fn cells(line: &str, separator: char) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        if c == '"' {
            quoted = !quoted;
        } else if c == separator && !quoted && cells.len() < MAX_CELLS {
            cells.push(String::new());
        } else if let Some(last) = cells.last_mut() {
            last.push(c);
        }
    }
    cells
}

/// A whole text that is a CSV or TSV table with a column for the file.
pub(super) fn separated(text: &str, rules: &Rules<'_>) -> Vec<Hit> {
    let mut lines = text.trim().lines();
    let Some(heading) = lines.next().filter(|line| line.len() < 1_000) else { return Vec::new() };
    for separator in ['\t', ',', ';'] {
        let names = cells(heading, separator);
        let named = names.len() > 1
            && names.iter().any(|name| is_file_field(name.trim()))
            && names.iter().all(|name| name.trim().len() < 40);
        if !named {
            continue;
        }
        let names: Vec<String> = names.iter().map(|n| n.trim().to_owned()).collect();
        return lines
            .filter_map(|line| {
                let cells: Vec<Value> =
                    cells(line, separator).into_iter().map(|c| Value::String(c.trim().to_owned())).collect();
                if cells.len() < 2 { None } else { row(&names, &cells, rules) }
            })
            .take(MAX_HITS)
            .collect();
    }
    Vec::new()
}

/// Rows of a compact encoding under a `#NAME/1` line: comma-separated cells, of
/// which one is a path, perhaps one an id `path::symbol#kind`, and the first
/// whole number behind the path is the line. A cell may also name an entry of
/// a legend (`@1=src/a.py`).
pub(super) fn compact(text: &str, rules: &Rules<'_>) -> Vec<Hit> {
    let mut legend: Vec<(String, String)> = Vec::new();
    let mut hits = Vec::new();
    for line in text.lines().skip(1).take(20_000) {
        if line.len() > 8_000 || hits.len() >= MAX_HITS {
            continue;
        }
        let entry = line.split_once(['=', ':']).filter(|(name, path)| {
            name.len() <= 8
                && !name.contains([' ', ','])
                && rules.place(path, Sure::Yes).is_some_and(|p| p.line.is_none())
        });
        if let Some((name, path)) = entry {
            legend.push((name.trim().to_owned(), path.trim().to_owned()));
            continue;
        }
        let cells = cells(line, ',');
        if cells.len() < 3 {
            continue;
        }
        let named = |cell: &str| legend.iter().find(|(name, _)| name == cell).map(|(_, path)| path.clone());
        let mut id = None;
        let mut file = None;
        for (at, cell) in cells.iter().enumerate() {
            let cell = cell.trim();
            let named = named(cell);
            let text = named.as_deref().unwrap_or(cell);
            let Some(place) = rules.place(text, Sure::Yes) else { continue };
            if cell.contains("::") {
                id = id.or(Some((at, place)));
            } else if file.is_none() {
                file = Some((at, place));
            }
        }
        let symbol = id.as_ref().and_then(|(_, place)| place.symbol.clone());
        let Some((at, place)) = file.or(id) else { continue };
        let number = cells.iter().skip(at + 1).find_map(|cell| cell.trim().parse::<u64>().ok());
        let line = place.line.or(number).and_then(|line| rules.line(line));
        hits.push(Hit { file: Some(place.file), symbol: place.symbol.or(symbol), line, score: None });
    }
    hits
}
