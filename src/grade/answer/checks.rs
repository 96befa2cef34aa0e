//! Checks of a scenario against its answer, by the default rules.

use std::collections::BTreeSet;
use std::ops::Range;

use regex::{Regex, RegexBuilder};

use super::cited::Cited;
use super::steps::Steps;
use super::tools;
use crate::artifact::Item;
use crate::artifact::transcript::Transcript;
use crate::manifest::scenario::{Check, CheckType, Layer, Scenario, Scope};

/// Most places of one check that are kept.
const MOST_PLACES: usize = 20;
/// Largest compiled size of a check's regular expression, in bytes.
const LARGEST_REGEX: usize = 1 << 20;
/// Weight of a check that is not required.
const BONUS: f64 = 0.5;

/// What came of the checks.
pub(super) struct Checked {
    /// Per check.
    pub(super) items: Vec<Item>,
    /// Points had over points to be had, of the fairness layer; none without such a check.
    pub(super) coverage: Option<f64>,
}

/// Runs all checks.
pub(super) fn check(
    scenario: &Scenario,
    steps: &Steps,
    transcript: &Transcript,
    cited: &[Cited<'_>],
) -> Checked {
    let mut items = Vec::new();
    let (mut had, mut most) = (0.0, 0.0);
    let mut seen = BTreeSet::new();
    for (at, step) in scenario.step.iter().enumerate() {
        for check in &step.check {
            let range = match check.scope {
                Scope::Step => steps.range(at),
                Scope::Session => 0..steps.text.len(),
            };
            let found = look(check, &steps.text, &range, transcript, cited);
            let weight = if check.required { 1.0 } else { BONUS };
            if let (Layer::Fairness, Some(hit)) = (check.layer, found.hit) {
                most += weight;
                had += if hit { weight } else { 0.0 };
            }
            let mut id = format!("step {}: {} {}", at + 1, check.kind.name(), check.value);
            while !seen.insert(id.clone()) {
                id.push('\'');
            }
            let (start, spans) = (range.start, found.places);
            items.push(Item {
                grader: "checks".to_owned(),
                id,
                step: u32::try_from(at + 1).ok(),
                hit: found.hit,
                spans: spans
                    .into_iter()
                    .map(|p| ((start + p.start) as u64, (start + p.end) as u64))
                    .collect(),
                note: found.note,
            });
        }
    }
    Checked { items, coverage: (most > 0.0).then(|| had / most) }
}

/// What came of one check; places count from the start of the text that it looks at.
struct Found {
    hit: Option<bool>,
    places: Vec<Range<usize>>,
    note: String,
}

fn look(
    check: &Check,
    text: &str,
    range: &Range<usize>,
    transcript: &Transcript,
    cited: &[Cited<'_>],
) -> Found {
    let part = &text[range.clone()];
    let value = check.value.as_str();
    let places =
        |places: Vec<Range<usize>>| Found { hit: Some(!places.is_empty()), places, note: String::new() };
    let told = |hit: bool, note: String| Found { hit: Some(hit), places: Vec::new(), note };
    let here = || cited.iter().filter(|c| range.start <= c.span.start && c.span.end <= range.end);
    let spans = |of: Vec<&Cited<'_>>| {
        let of = of.iter().take(MOST_PLACES);
        of.map(|c| c.span.start - range.start..c.span.end - range.start).collect()
    };
    match check.kind {
        CheckType::Contains => places(find(part, value, false)),
        CheckType::Word | CheckType::Phrase => places(find(part, value, true)),
        CheckType::Exact => places(exact(part, value)),
        CheckType::StartsWith => places(starts(part, value)),
        CheckType::Absent => {
            let found = find(part, value, false);
            Found { hit: Some(found.is_empty()), places: found, note: String::new() }
        }
        CheckType::Regex => match RegexBuilder::new(value).size_limit(LARGEST_REGEX).multi_line(true).build()
        {
            Ok(regex) => places(regex.find_iter(part).take(MOST_PLACES).map(|m| m.range()).collect()),
            Err(_) => {
                Found { hit: None, places: Vec::new(), note: "the expression can't be used".to_owned() }
            }
        },
        CheckType::CitesFile => places(spans(here().filter(|c| c.is_file(value)).collect())),
        CheckType::CitesSymbol => places(spans(here().filter(|c| c.symbol == Some(value)).collect())),
        CheckType::Richness => {
            let files: BTreeSet<&str> = here().map(Cited::file).collect();
            let least: u64 = value.trim().parse().unwrap_or(u64::MAX);
            told(files.len() as u64 >= least, format!("{} files cited, {value} wanted", files.len()))
        }
        CheckType::ToolUsed => {
            let used = transcript.calls().filter(|(_, call)| call.name.contains(value)).count();
            told(used > 0, format!("called {used} times"))
        }
        CheckType::NoSearch => {
            let searches = transcript.calls().filter(|(_, call)| tools::searches(call)).count();
            told(searches == 0, format!("{searches} searches without the server"))
        }
        CheckType::DiffContains => {
            Found { hit: None, places: Vec::new(), note: "the session's changes are not recorded".to_owned() }
        }
    }
}

/// Places of a text, whatever its case; as a word of its own where that is asked for.
pub(super) fn find(text: &str, value: &str, word: bool) -> Vec<Range<usize>> {
    if value.is_empty() {
        return Vec::new();
    }
    let Some(regex) = pattern(value) else { return Vec::new() };
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut out = Vec::new();
    let mut from = 0;
    while out.len() < MOST_PLACES {
        let Some(found) = regex.find_at(text, from) else { break };
        let free = !text[..found.start()].chars().next_back().is_some_and(is_word)
            && !text[found.end()..].chars().next().is_some_and(is_word);
        if free || !word {
            out.push(found.range());
            from = found.end();
        } else {
            from = found.start() + text[found.start()..].chars().next().map_or(1, char::len_utf8);
        }
    }
    out
}

fn pattern(value: &str) -> Option<Regex> {
    RegexBuilder::new(&regex::escape(value)).case_insensitive(true).size_limit(LARGEST_REGEX).build().ok()
}

fn exact(text: &str, value: &str) -> Vec<Range<usize>> {
    if value.is_empty() {
        return Vec::new();
    }
    text.match_indices(value).take(MOST_PLACES).map(|(at, found)| at..at + found.len()).collect()
}

/// Lines that begin with a text, whatever its case.
fn starts(text: &str, value: &str) -> Vec<Range<usize>> {
    let value = value.to_lowercase();
    let mut from = 0;
    let mut out = Vec::new();
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim();
        if trimmed.to_lowercase().starts_with(&value) {
            let start = from + (line.len() - line.trim_start().len());
            out.push(start..start + trimmed.len());
        }
        from += line.len();
    }
    out.truncate(MOST_PLACES);
    out
}
