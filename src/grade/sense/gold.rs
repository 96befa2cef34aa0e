//! Recall over the must-find set by the reference's rules. The number of a
//! cited line is never compared with anything.

use std::collections::{BTreeMap, HashMap, HashSet};

use memchr::memmem;
use serde_json::{Map, Value, json};

use super::{Gold, python};

/// Endings of names that make a pattern one of a file.
const ENDINGS: [&str; 17] = [
    ".rb", ".py", ".go", ".ts", ".tsx", ".js", ".jsx", ".rs", ".java", ".kt", ".cs", ".cpp", ".cc", ".c",
    ".php", ".scala", ".erb",
];
/// Most characters between a path and the field of JSON that pins its line.
const FIELD_WITHIN: usize = 60;
/// Folders of a checkout whose files no pattern means.
const PRUNED: [&str; 4] = [".git", ".sense", "node_modules", ".bundle"];

/// What is known beside the answer: a transcript and the files of a checkout, for paths that
/// the answer shortened.
#[derive(Clone, Copy)]
pub(super) struct Beside<'a> {
    /// The raw transcript in lower case.
    pub(super) transcript: &'a str,
    /// All files of the checkout.
    pub(super) files: &'a [String],
}

/// The block `gold_recall`; null without gold.
pub(super) fn recall(gold: &[Gold], lower: &str, beside: Option<Beside<'_>>) -> Value {
    if gold.is_empty() {
        return Value::Null;
    }
    let patterns = Patterns::new(gold);
    let tails = beside.map(|beside| Tails::new(beside, &patterns));
    let mut items = Vec::with_capacity(gold.len());
    for item in gold {
        let mut mentioned = item.matches.iter().any(|pattern| lower.contains(&pattern.to_lowercase()));
        let mut cited = false;
        let files: Vec<String> =
            item.matches.iter().map(|p| p.to_lowercase()).filter(|p| is_file(p)).collect();
        if files.is_empty() {
            cited = mentioned;
        }
        for pattern in &files {
            cited = cited || patterns.is_cited(lower, pattern);
            for suffix in patterns.unique_suffixes(pattern) {
                let mut ends = places(lower, suffix, Anchor::Strict).peekable();
                mentioned = mentioned || ends.peek().is_some();
                cited = cited || ends.any(|end| is_pinned(&lower[end..]));
            }
            if let Some(tails) = &tails {
                let (said, pinned) = tails.look(lower, pattern);
                mentioned = mentioned || said;
                cited = cited || pinned;
            }
        }
        items.push((item, mentioned || cited, cited));
    }
    block(&items)
}

/// Lower-cased patterns.
struct Patterns {
    /// Those of files.
    files: HashSet<String>,
    /// How many of these have a name, and how many of all end in a suffix or are it.
    names: HashMap<String, usize>,
    suffixes: HashMap<String, usize>,
}

impl Patterns {
    fn new(gold: &[Gold]) -> Self {
        let all: HashSet<String> =
            gold.iter().flat_map(|item| &item.matches).map(|p| p.to_lowercase()).collect();
        let mut suffixes = HashMap::new();
        for pattern in &all {
            for suffix in std::iter::once(pattern.as_str()).chain(tails(pattern)) {
                *suffixes.entry(suffix.to_owned()).or_insert(0) += 1;
            }
        }
        let files: HashSet<String> = all.into_iter().filter(|p| is_file(p)).collect();
        let mut names = HashMap::new();
        for file in &files {
            *names.entry(name(file).to_owned()).or_insert(0) += 1;
        }
        Self { files, names, suffixes }
    }

    fn is_cited(&self, lower: &str, pattern: &str) -> bool {
        let anchor = if pattern.contains('/') { Anchor::Path } else { Anchor::Strict };
        if places(lower, pattern, anchor).any(|end| is_pinned(&lower[end..])) {
            return true;
        }
        let name = name(pattern);
        self.names.get(name) == Some(&1)
            && places(lower, name, Anchor::Strict).any(|end| is_line(&lower[end..]))
    }

    /// Ends of a pattern, cut at folders, that no other pattern has.
    fn unique_suffixes<'a>(&'a self, pattern: &'a str) -> impl Iterator<Item = &'a str> {
        debug_assert!(self.files.contains(pattern), "patterns are known");
        tails(pattern).filter(|suffix| self.suffixes.get(*suffix) == Some(&1))
    }
}

/// Proper ends of a path, cut at folders, the longest first.
fn tails(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(path.split_once('/').map(|(_, rest)| rest), |rest| {
        rest.split_once('/').map(|(_, rest)| rest)
    })
}

fn name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_file(lower: &str) -> bool {
    ENDINGS.iter().any(|ending| lower.ends_with(ending)) || lower.contains('/') && lower.contains('.')
}

/// What may not stand before a path.
#[derive(Clone, Copy)]
enum Anchor {
    /// A word character, `.` or `-`.
    Path,
    /// And no `/`: it may not be the end of a longer path.
    Strict,
}

/// Ends of a needle's places in a text.
fn places<'a>(text: &'a str, needle: &'a str, anchor: Anchor) -> impl Iterator<Item = usize> + 'a {
    let mut from = 0;
    let finder = memmem::Finder::new(needle).into_owned();
    std::iter::from_fn(move || {
        if needle.is_empty() {
            return None;
        }
        while let Some(at) = finder.find(text.as_bytes().get(from..)?) {
            let start = from + at;
            from = start + 1;
            let before = text[..start].chars().next_back();
            let barred = before.is_some_and(|c| {
                python::is_word(c) || c == '.' || c == '-' || (c == '/' && matches!(anchor, Anchor::Strict))
            });
            if !barred {
                return Some(start + needle.len());
            }
        }
        None
    })
}

/// Whether a line is given right behind a path: `:12`, `(line 12)`, or a field of JSON close by.
fn is_pinned(rest: &str) -> bool {
    is_line(rest) || is_in_brackets(rest) || is_field(rest)
}

fn is_line(rest: &str) -> bool {
    rest.strip_prefix(':').is_some_and(|rest| rest.chars().next().is_some_and(is_digit))
}

fn is_in_brackets(rest: &str) -> bool {
    let Some(rest) = space(rest).strip_prefix("(line") else { return false };
    let number = space(rest);
    let digits = number.trim_start_matches(is_digit);
    number.len() < rest.len() && digits.len() < number.len() && digits.starts_with(')')
}

/// `"line": 12`, `"lines": ["12`: within so many characters, on the same line and in the same braces.
fn is_field(rest: &str) -> bool {
    let ends = rest.char_indices().map(|(at, c)| (at, Some(c))).chain([(rest.len(), None)]);
    for (at, c) in ends.take(FIELD_WITHIN + 1) {
        if rest[at..].starts_with("\"line") && is_number_of_field(&rest[at + 5..]) {
            return true;
        }
        if matches!(c, Some('\n' | '{' | '}')) {
            return false;
        }
    }
    false
}

fn is_number_of_field(rest: &str) -> bool {
    let rest = rest.strip_prefix('s').unwrap_or(rest);
    let Some(rest) = rest.strip_prefix('"').and_then(|rest| space(rest).strip_prefix(':')) else {
        return false;
    };
    let rest = space(rest);
    let rest = space(rest.strip_prefix('[').unwrap_or(rest));
    rest.strip_prefix('"').unwrap_or(rest).chars().next().is_some_and(is_digit)
}

fn space(text: &str) -> &str {
    text.trim_start_matches(python::is_space)
}

fn is_digit(c: char) -> bool {
    c.is_ascii_digit() || !c.is_ascii() && super::citations::digit(c).is_some()
}

/// Paths that an answer may have shortened although the session saw them whole.
struct Tails<'a> {
    /// Files whose ends patterns are, by pattern; none where several are.
    real: HashMap<String, Option<String>>,
    /// How many files end in two or more last components.
    ends: HashMap<String, usize>,
    transcript: &'a str,
}

impl<'a> Tails<'a> {
    fn new(beside: Beside<'a>, patterns: &Patterns) -> Self {
        let mut real: HashMap<String, Option<String>> = HashMap::new();
        let mut ends: HashMap<String, usize> = HashMap::new();
        let pruned = |file: &&String| {
            file.rsplit_once('/').is_some_and(|(folders, _)| folders.split('/').any(|f| PRUNED.contains(&f)))
        };
        for file in beside.files.iter().filter(|file| !pruned(file)) {
            let file = file.to_lowercase();
            for tail in std::iter::once(file.as_str()).chain(tails(&file)) {
                if patterns.files.contains(tail) {
                    real.entry(tail.to_owned())
                        .and_modify(|found| *found = None)
                        .or_insert_with(|| Some(file.clone()));
                }
                if tail.contains('/') {
                    *ends.entry(tail.to_owned()).or_insert(0) += 1;
                }
            }
        }
        Self { real, ends, transcript: beside.transcript }
    }

    /// Whether the pattern's file is mentioned and cited by its shortest unmistakable end.
    fn look(&self, lower: &str, pattern: &str) -> (bool, bool) {
        let Some(Some(real)) = self.real.get(pattern) else { return (false, false) };
        if !self.transcript.contains(real.as_str()) {
            return (false, false);
        }
        let all: Vec<&str> = std::iter::once(real.as_str()).chain(tails(real)).collect();
        let shortest = all.iter().rev().find(|tail| tail.contains('/') && self.ends.get(**tail) == Some(&1));
        let Some(shortest) = shortest else { return (false, false) };
        let mut found = places(lower, shortest, Anchor::Path).peekable();
        (found.peek().is_some(), found.any(|end| is_pinned(&lower[end..])))
    }
}

/// A group's name as a key of JSON.
fn label(group: &Value) -> String {
    match group {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn block(items: &[(&Gold, bool, bool)]) -> Value {
    let counts = |of: &[(&Gold, bool, bool)]| {
        let total = of.len();
        let mentioned = of.iter().filter(|(_, mentioned, _)| *mentioned).count();
        let cited = of.iter().filter(|(_, _, cited)| *cited).count();
        #[expect(clippy::cast_precision_loss, reason = "lists have fewer than 2^53 rows")]
        let share = |count: usize| python::round(count as f64 / total.max(1) as f64, 4);
        let mut out = Map::new();
        out.insert("total".to_owned(), json!(total));
        out.insert("mentioned".to_owned(), json!(mentioned));
        out.insert("cited".to_owned(), json!(cited));
        out.insert("mention_recall".to_owned(), json!(share(mentioned)));
        out.insert("cited_recall".to_owned(), json!(share(cited)));
        out
    };
    let mut groups: indexmap::IndexMap<String, Vec<(&Gold, bool, bool)>> = indexmap::IndexMap::new();
    for item in items {
        groups.entry(label(&item.0.group)).or_default().push(*item);
    }
    let groups: Map<String, Value> =
        groups.into_iter().map(|(group, items)| (group, Value::Object(counts(&items)))).collect();
    let ids = |wanted: fn(&(&Gold, bool, bool)) -> bool| -> Vec<&Value> {
        items.iter().filter(|item| wanted(item)).map(|(gold, ..)| &gold.id).collect()
    };
    let details: Vec<Value> = items
        .iter()
        .map(|(gold, mentioned, cited)| {
            json!({"id": gold.id, "group": gold.group, "mentioned": mentioned, "cited": cited})
        })
        .collect();
    let mut out = counts(items);
    out.insert("groups".to_owned(), Value::Object(groups));
    out.insert("missed_mention".to_owned(), json!(ids(|(_, mentioned, _)| !mentioned)));
    out.insert("missed_cite".to_owned(), json!(ids(|(_, _, cited)| !cited)));
    out.insert("details".to_owned(), json!(details));
    Value::Object(out)
}

/// Where the items of a must-find set stand in a block, for other views: id to mentioned and cited.
#[must_use]
pub fn items(block: &Value) -> BTreeMap<String, (bool, bool)> {
    let rows = block["details"].as_array().into_iter().flatten();
    rows.filter_map(|row| {
        Some((row["id"].as_str()?.to_owned(), (row["mentioned"].as_bool()?, row["cited"].as_bool()?)))
    })
    .collect()
}
