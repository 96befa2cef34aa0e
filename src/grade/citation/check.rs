//! Looks a citation up.

use std::fmt::Write as _;

use super::listing::{FileId, Kind};
use super::text::nearer;
use super::token::{Known, bare};
use super::{Bucket, Citation, Evidence, Finding, Found, Unreadable, View, name};

/// A symbol may stand so many lines beside the cited ones.
pub const NEAR: u64 = 5;

/// So many files of an ambiguous citation are named.
const NAMED: usize = 50;

impl Known for View<'_> {
    fn extension(&self, extension: &str) -> bool {
        self.source.listing().has_extension(extension)
    }

    fn path(&self, path: &str) -> bool {
        let Ok(place) = self.place(bare(path)) else { return false };
        let listing = self.source.listing();
        listing.at(&place.path).is_some() || (!place.absolute && listing.ending(&place.path).next().is_some())
    }
}

/// A path inside the corpus.
struct Inside {
    /// Without `.` and `..`, relative to the root.
    path: String,
    /// It was written with the root.
    absolute: bool,
}

impl View<'_> {
    /// Where in the corpus a written path points, or why it points outside.
    fn place(&self, file: &str) -> Result<Inside, String> {
        let absolute = file.starts_with('/');
        let inner = if absolute { self.below_root(file)? } else { file };
        let mut parts: Vec<&str> = Vec::new();
        for part in inner.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop().ok_or_else(|| format!("`{file}` leaves the folder of the code"))?;
                }
                name => parts.push(name),
            }
        }
        if parts.is_empty() || inner.contains('\0') {
            return Err(format!("`{file}` names no file"));
        }
        Ok(Inside { path: parts.join("/"), absolute })
    }

    /// What follows the root in an absolute path.
    fn below_root<'f>(&self, file: &'f str) -> Result<&'f str, String> {
        let outside = || format!("`{file}` is an absolute path outside of the code");
        let root = self.root.filter(|root| root.starts_with('/')).ok_or_else(outside)?;
        let inner = file.strip_prefix(root.trim_end_matches('/'));
        inner.filter(|inner| inner.starts_with('/')).ok_or_else(outside)
    }
}

/// What a path came to.
enum Resolved {
    One(FileId, Option<String>),
    None(String),
    Several(Vec<FileId>, String),
}

/// Checks one citation; without a `view` it can't be.
#[must_use]
pub fn check(citation: &Citation, view: Option<View<'_>>) -> Finding {
    let Some(view) = view else {
        return unknown(Bucket::CannotCheck, "there is no code to look in".to_owned());
    };
    let (file, note) = match resolve(citation, view) {
        Resolved::One(file, note) => (file, note),
        Resolved::None(reason) => return unknown(Bucket::Unresolved, reason),
        Resolved::Several(files, reason) => {
            let mut candidates: Vec<String> =
                files.into_iter().map(|file| view.source.listing().path(file).to_owned()).collect();
            candidates.sort_unstable();
            candidates.truncate(NAMED);
            return Finding { candidates, ..unknown(Bucket::Unresolved, reason) };
        }
    };
    let path = view.source.listing().path(file).to_owned();
    let mut finding = match look(citation, view, file, &path) {
        Ok(finding) => Finding { path: Some(path), ..finding },
        Err(why) => return unknown(Bucket::Unresolved, format!("`{path}`: {why}")),
    };
    if let Some(note) = note {
        // Writing to a string can't fail.
        let _ = write!(finding.reason, "; {note}");
    }
    finding
}

fn unknown(bucket: Bucket, reason: String) -> Finding {
    Finding { bucket, path: None, distance: None, candidates: Vec::new(), reason, evidence: None }
}

/// The file that a citation means.
fn resolve(citation: &Citation, view: View<'_>) -> Resolved {
    let listing = view.source.listing();
    let written = &citation.file;
    let place = match view.place(bare(written)) {
        Ok(place) => place,
        Err(why) => return Resolved::None(why),
    };
    let link = |kind: Kind| {
        Resolved::None(match kind {
            Kind::Astray => format!("`{written}` is a link that leads out of the code or nowhere"),
            Kind::Link | Kind::File => format!("`{written}` is a link, and links aren't followed"),
        })
    };
    if let Some(file) = listing.at(&place.path) {
        let kind = listing.kind(file);
        return if kind == Kind::File { Resolved::One(file, None) } else { link(kind) };
    }
    if place.absolute {
        return Resolved::None(format!("there is no file `{}`", place.path));
    }
    let (files, links): (Vec<FileId>, Vec<FileId>) =
        listing.ending(&place.path).partition(|file| listing.kind(*file) == Kind::File);
    match files.as_slice() {
        [] if !links.is_empty() => link(listing.kind(links[0])),
        [] => Resolved::None(format!("there is no file `{}`", place.path)),
        [one] => Resolved::One(*one, None),
        several => choose(citation, view, several, &place.path),
    }
}

/// Of several files that end alike, the one that has the lines and the symbol.
fn choose(citation: &Citation, view: View<'_>, files: &[FileId], path: &str) -> Resolved {
    let last = citation.lines.map_or(0, |(from, to)| from.max(to));
    let symbol = citation.symbol.as_deref().map(name::own);
    // What is needed at all is asked for first: counts of lines stay known, texts may not.
    let fits = |file: &&FileId| {
        view.source.line_count(**file).is_ok_and(|count| last <= count)
            && symbol.is_none_or(|name| view.source.text(**file).is_ok_and(|text| text.has_word(name)))
    };
    let left: Vec<FileId> = files.iter().filter(fits).copied().collect();
    let all = files.len();
    let what = match (symbol, citation.lines) {
        (Some(name), Some(_)) => format!("`{name}` and line {last}"),
        (Some(name), None) => format!("`{name}`"),
        (None, _) => format!("line {last}"),
    };
    match left.as_slice() {
        [one] => {
            Resolved::One(*one, Some(format!("of {all} files that end in `{path}` only this one has {what}")))
        }
        [] => Resolved::Several(files.to_vec(), format!("{all} files end in `{path}`, and none has {what}")),
        some => {
            let reason = format!("{all} files end in `{path}`, and {} have {what}", some.len());
            Resolved::Several(left, reason)
        }
    }
}

/// Looks at the lines and the symbol in the file that was found.
fn look(citation: &Citation, view: View<'_>, file: FileId, path: &str) -> Result<Finding, Unreadable> {
    let count = view.source.line_count(file)?;
    if let Some((from, to)) = citation.lines
        && let Some(why) = impossible(from, to, count, path)
    {
        return Ok(unknown(Bucket::Hallucinated, why));
    }
    let Some(symbol) = &citation.symbol else {
        let lines = lines(citation.lines);
        return Ok(unknown(Bucket::Grounded, format!("`{path}` has {lines}")));
    };
    let text = view.source.text(file)?;
    let own = name::own(symbol);
    let (first, last) = citation.lines.unwrap_or((1, count.max(1)));
    let Some(word) = text.nearest_word(own, first, last) else {
        return Ok(unknown(Bucket::Hallucinated, format!("`{own}` stands nowhere in `{path}`")));
    };
    let definition = nearest(&view.source.definitions(file, own), first, last);
    let near = |line: &u64| away(*line, first, last) <= NEAR;
    let as_word = Evidence { line: word, found: Found::Word };
    let evidence = match definition {
        Some(line) if near(&line) || !near(&word) => Evidence { line, found: Found::Definition },
        _ => as_word,
    };
    let stands = match evidence.found {
        Found::Definition => format!("`{own}` is defined in line {} of `{path}`", evidence.line),
        Found::Word => format!("`{own}` stands in line {} of `{path}`", evidence.line),
    };
    let distance = away(evidence.line, first, last);
    let finding = if distance <= NEAR {
        unknown(Bucket::Grounded, stands)
    } else {
        let lines = lines(citation.lines);
        let reason = format!("{stands}, {distance} lines from {lines}");
        Finding { distance: Some(distance), ..unknown(Bucket::Displaced, reason) }
    };
    Ok(Finding { evidence: Some(evidence), ..finding })
}

/// Why there are no such lines in a file of `count` lines.
fn impossible(from: u64, to: u64, count: u64, path: &str) -> Option<String> {
    if from == 0 || to == 0 {
        return Some("lines are counted from 1".to_owned());
    }
    if from > to {
        return Some(format!("the range ends with line {to} before it begins with line {from}"));
    }
    (to > count).then(|| format!("there is no line {to}: `{path}` has {count} {}", plural(count)))
}

fn plural(count: u64) -> &'static str {
    if count == 1 { "line" } else { "lines" }
}

fn lines(lines: Option<(u64, u64)>) -> String {
    match lines {
        Some((from, to)) if from == to => format!("line {from}"),
        Some((from, to)) => format!("lines {from} to {to}"),
        None => "no line".to_owned(),
    }
}

/// Lines between a line and the nearer end of the lines `first` to `last`; 0 among them.
fn away(line: u64, first: u64, last: u64) -> u64 {
    first.saturating_sub(line).max(line.saturating_sub(last))
}

/// The nearest of ascending lines; of equally near ones the earlier.
fn nearest(ascending: &[u64], first: u64, last: u64) -> Option<u64> {
    let split = ascending.partition_point(|line| *line < first);
    let before = split.checked_sub(1).and_then(|nth| ascending.get(nth)).copied();
    nearer(before, ascending.get(split).copied(), first, last)
}
