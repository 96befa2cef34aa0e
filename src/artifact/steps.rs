//! The part of an answer that belongs to each step of a task.
//!
//! A step that was asked in a turn of its own is answered by that turn. Imported sessions were
//! asked all steps at once: there headers in the answer are all there is to go by, and where they
//! don't tell, nothing is guessed.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::transcript::Transcript;

/// What the parts were told apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// One step: the whole answer is its.
    Single,
    /// Real turns.
    Turns,
    /// Headers in the answer.
    Headers,
    /// Nothing: there are neither turns nor headers.
    Failed,
}

/// Answers by step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepAnswers {
    /// What they were told apart by.
    pub split: Split,
    /// One per step; null where the step has none, or none was found.
    pub answers: Vec<Option<String>>,
}

/// Answers of a session's `steps` steps, by real turns where there are as many (or fewer, but
/// more than one: the session ended early), else by headers as [`headers`] finds them. `names`
/// are the steps' names in order.
pub fn step_answers(transcript: &Transcript, steps: usize, names: &[&str]) -> StepAnswers {
    let turns = transcript.turns_begun();
    if steps <= 1 {
        let whole = Some(transcript.answer()).filter(|text| !text.is_empty());
        return StepAnswers { split: Split::Single, answers: vec![whole; steps] };
    }
    if turns > 1 && turns <= steps {
        let turn = |step| u32::try_from(step).ok().and_then(|step| transcript.turn_answer(step));
        return StepAnswers { split: Split::Turns, answers: (0..steps).map(turn).collect() };
    }
    let answer = transcript.answer();
    let ranges = headers(&answer, steps, names);
    let split = if ranges.iter().any(Option::is_some) { Split::Headers } else { Split::Failed };
    let part = |range: Option<Range<usize>>| range.and_then(|r| answer.get(r)).map(str::to_owned);
    StepAnswers { split, answers: ranges.into_iter().map(part).collect() }
}

/// Longest line that counts as a header, in bytes.
const MAX_HEADER: usize = 200;

/// How an answer may label its steps, the surest first.
const LABELS: usize = 3;
const HEADER: usize = 0;
const KEY: usize = 1;
const TITLE: usize = 2;

/// Byte ranges of steps by the answer's own labels: headers (`## Step 2`, `**Step 2 - name**`, or
/// a header that is a step's name), keys of a JSON summary (`"step2_callers": ...`), or lines that
/// begin with `Step 2:`. The kind of label that tells most steps apart is taken.
///
/// Of a label that comes more than once the last is meant that leaves the later steps behind it.
/// A part goes to the label of the next step; a step whose next one has none is not told apart.
pub fn headers(answer: &str, steps: usize, names: &[&str]) -> Vec<Option<Range<usize>>> {
    let mut places = vec![vec![Vec::new(); steps]; LABELS];
    let names: Vec<String> = names.iter().map(|name| plain(name)).collect();
    // Keys of inner objects may look alike: only those that stand furthest out count.
    let mut outermost = usize::MAX;
    let mut at = 0;
    for line in answer.split_inclusive('\n') {
        if let Some((indent, step)) = key_of(line)
            && step < steps
            && indent <= outermost
        {
            if indent < outermost {
                places[KEY].iter_mut().for_each(Vec::clear);
                outermost = indent;
            }
            places[KEY][step].push(at);
        } else if line.len() <= MAX_HEADER
            && let Some((label, step)) = header_of(line, &names)
            && let Some(of_step) = places[label].get_mut(step)
        {
            of_step.push(at);
        }
        at += line.len();
    }
    let parts = places.iter().map(|places| chain(places, answer.len()));
    // Of equals the first: `max_by_key` would give the last.
    let found = |ranges: &Vec<Option<Range<usize>>>| ranges.iter().flatten().count();
    parts.reduce(|best, next| if found(&next) > found(&best) { next } else { best }).unwrap_or_default()
}

/// Parts between labels, from the last step to the first.
fn chain(places: &[Vec<usize>], length: usize) -> Vec<Option<Range<usize>>> {
    let mut out = vec![None; places.len()];
    // Where the next step begins; none when that is not known.
    let mut next = Some(length);
    let mut limit = length;
    for (step, places) in places.iter().enumerate().rev() {
        let before = places.partition_point(|place| *place < limit);
        let start = before.checked_sub(1).map(|last| places[last]);
        out[step] = start.zip(next).map(|(start, end)| start..end);
        limit = start.unwrap_or(limit);
        next = start;
    }
    out
}

/// Indentation and step, from 0, of a line that begins with a JSON key like `"step1_callers":`.
fn key_of(line: &str) -> Option<(usize, usize)> {
    let text = line.trim_start_matches([' ', '\t', '{', '[', ',']);
    let rest = text.strip_prefix('"')?;
    let (word, rest) = rest.split_at_checked(4)?;
    let rest = rest.trim_start_matches(['_', '-', ' ']);
    let digits = rest.bytes().take(4).take_while(u8::is_ascii_digit).count();
    let (number, rest) = rest.split_at(digits);
    let apart = !rest.starts_with(|c: char| c.is_alphanumeric());
    // The key's end is near: what follows is its value.
    let end = rest.bytes().take(MAX_HEADER).position(|b| b == b'"')?;
    let is_key = rest.get(end + 1..)?.trim_start().starts_with(':');
    let step = number.parse::<usize>().ok()?.checked_sub(1)?;
    (word.eq_ignore_ascii_case("step") && apart && is_key).then_some((line.len() - text.len(), step))
}

/// Kind and step, from 0, of a line that is a header.
fn header_of(line: &str, names: &[String]) -> Option<(usize, usize)> {
    static NUMBERED: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"(?i)^[ \t>]{0,6}(?P<mark>#{1,6}[ \t]*|[-*+][ \t]+)?(?P<bold>\*\*|__)?[ \t]*step[ \t]*(?P<n>[0-9]{1,3})(?P<rest>.*)$",
        )
        .ok()
    });
    let line = line.trim_end();
    if let Some(found) = NUMBERED.as_ref()?.captures(line) {
        let step = found["n"].parse::<usize>().ok()?.checked_sub(1)?;
        let rest = found["rest"].chars().next();
        let apart = rest.is_none_or(|c| !c.is_alphanumeric() && c != '_');
        let hashed = found.name("mark").is_some_and(|m| m.as_str().starts_with('#'));
        if apart && (hashed || found.name("bold").is_some()) {
            return Some((HEADER, step));
        }
        // Without a mark prose begins with these words, too.
        let titled = rest.is_none_or(|c| matches!(c, ':' | '.' | ')' | '\u{2013}' | '\u{2014}'));
        return titled.then_some((TITLE, step));
    }
    let text = line.trim_start();
    let header = text.starts_with('#') || (text.starts_with("**") && text.ends_with("**"));
    let text = plain(text);
    let named = || names.iter().position(|name| !name.is_empty() && text.ends_with(name));
    header.then(named)?.map(|step| (HEADER, step))
}

/// Words of a header without marks, in lower case.
fn plain(text: &str) -> String {
    let marks = |c: char| c.is_whitespace() || matches!(c, '#' | '*' | '_' | ':' | '.' | '`');
    text.trim_matches(marks).to_lowercase()
}

/// Byte ranges of steps by the rule of the reference benchmark (its section 4.4): from the last
/// header of a step to the last header of the next step behind it, else to the end. It gives the
/// whole answer for a step without a header; here that step is null.
pub fn reference_headers(answer: &str, steps: usize) -> Vec<Option<Range<usize>>> {
    static HEADER: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"(?mi)^#{1,4}\s*Step\s*([0-9]+)\b[^\n]*\n").ok());
    let mut last: Vec<Option<usize>> = vec![None; steps.saturating_add(1)];
    for found in HEADER.iter().flat_map(|header| header.captures_iter(answer)) {
        let (Some(whole), Some(number)) = (found.get(0), found.get(1)) else { continue };
        let step = number.as_str().parse::<usize>().ok().filter(|_| !number.as_str().starts_with('0'));
        if let Some(place) = step.and_then(|n| last.get_mut(n - 1)) {
            *place = Some(whole.start());
        }
    }
    let part = |step: usize| {
        let start = last[step]?;
        let end = last[step + 1].filter(|next| *next > start).unwrap_or(answer.len());
        Some(start..end)
    };
    (0..steps).map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::transcript::{Entry, TurnEnd, What};

    fn parts<'a>(answer: &'a str, ranges: &[Option<Range<usize>>]) -> Vec<Option<&'a str>> {
        ranges.iter().map(|r| r.clone().map(|r| &answer[r])).collect()
    }

    #[test]
    fn headers_of_many_kinds_are_found() {
        for answer in [
            "intro\n## Step 1\na\n## Step 2\nb\n## Step 3\nc",
            "### **Step 1: Find callers**\na\n### **Step 2: x**\nb\n### **Step 3**\nc\n",
            "**Step 1 \u{2014} Find callers**\na\n**Step 2**\nb\n  **Step 3**\nc\n",
            "Step 1: x\nStep 1 was hard\nStep 2\nb\nStep 3.\nc",
            "- **Step 1**\na\n- **Step 2**: x\nb\n> ## Step 3\nc",
            "# Find callers\na\n## 2. Trace it\nb\n**Say so**\nc",
            // A plan first, then the answer.
            "## Step 1\n## Step 2\n## Step 3\nplan done\n## Step 1\na\n## Step 2\nb\n## Step 3\nc",
        ] {
            let found = headers(answer, 3, &["Find callers", "Trace it", "Say so"]);
            assert!(found.iter().all(Option::is_some), "{answer}: {found:?}");
            assert_eq!(found[2].as_ref().unwrap().end, answer.len(), "{answer}");
            assert!(found[0].as_ref().unwrap().end == found[1].as_ref().unwrap().start, "{answer}");
            let plan = answer.find("plan done").unwrap_or(0);
            assert!(found[0].as_ref().unwrap().start >= plan, "{answer}");
        }
    }

    #[test]
    fn what_is_no_header_splits_nothing() {
        for answer in [
            "",
            "Step 1 finds the callers, and step 2 traces them.",
            "## Stepping 1\n## Step one\n## Step 0\n## Step 1a\n## Step 99999999999999999999\n",
            "the steps:\n1. x\n2. y\n",
        ] {
            assert_eq!(headers(answer, 2, &[]), [None, None], "{answer}");
            assert!(reference_headers(answer, 2).iter().all(Option::is_none), "{answer}");
        }
        // Where a part ends is known by the next step's label alone.
        let answer = "x\n## Step 2\nb\n";
        assert_eq!(parts(answer, &headers(answer, 3, &[])), [None, None, None]);
        assert_eq!(parts(answer, &headers(answer, 2, &[])), [None, Some("## Step 2\nb\n")]);
        let answer = "## Step 1\na\n## Step 2\nb\n## Step 4\nd\n";
        let found = parts(answer, &headers(answer, 4, &[]));
        assert_eq!(found, [Some("## Step 1\na\n"), None, None, Some("## Step 4\nd\n")]);
    }

    #[test]
    fn a_summary_is_split_by_its_outer_keys() {
        let answer = "Step 1: look.\n```json\n{\n  \"steps_completed\": 2,\n  \"step1_find\": {\n    \"step1\": \"x\",\n    \"step2\": 1\n  },\n  \"Step_2\": [\n    \"step2: not a key\"\n  ]\n}\n";
        let found = parts(answer, &headers(answer, 2, &[]));
        assert!(
            found[0].unwrap().starts_with("  \"step1_find\": {") && found[0].unwrap().ends_with("  },\n")
        );
        assert!(found[1].unwrap().starts_with("  \"Step_2\": [") && found[1].unwrap().ends_with("}\n"));
        for no in [
            "\"step\": 1",
            "\"step1",
            "\"step1\" 2",
            "\"step0\": 1",
            "\"step99999\": 1",
            "\"step1a\": 1",
            "\"st\u{e9}p1\": 1",
        ] {
            assert_eq!(key_of(no), None, "{no}");
        }
    }

    #[test]
    fn the_reference_takes_last_headers() {
        let answer = "# Step 1\nplan\n# step 2\nplan\n####Step 1: a\nA\n## Step2 b\nB\n### Step 3";
        let found = reference_headers(answer, 3);
        // The last line has no end, so it is no header; emphasis is not seen.
        assert_eq!(
            parts(answer, &found),
            [Some("####Step 1: a\nA\n"), Some("## Step2 b\nB\n### Step 3"), None]
        );
        assert_eq!(reference_headers("### **Step 1**\na\n", 1), [None]);
        // A next step's header before this one's does not end it.
        assert_eq!(
            parts("## Step 2\nb\n## Step 1\na\n", &reference_headers("## Step 2\nb\n## Step 1\na\n", 2)),
            [Some("## Step 1\na\n"), Some("## Step 2\nb\n## Step 1\na\n")]
        );
    }

    fn session(turns: &[&str], ended: usize) -> Transcript {
        let entry = |(turn, text): (usize, &&str)| Entry {
            turn: u32::try_from(turn).unwrap(),
            sub_agent: false,
            message: None,
            at_ms: None,
            what: What::Text((*text).to_owned()),
        };
        Transcript {
            entries: turns.iter().enumerate().map(entry).collect(),
            turns: vec![TurnEnd::default(); ended],
            ..Transcript::default()
        }
    }

    #[test]
    fn turns_go_before_headers() {
        let some = |texts: &[&str]| texts.iter().map(|t| Some((*t).to_owned())).collect::<Vec<_>>();
        let two = step_answers(&session(&["## Step 2\na", "b"], 2), 2, &[]);
        assert_eq!(two, StepAnswers { split: Split::Turns, answers: some(&["## Step 2\na", "b"]) });
        // It ended in the second of three.
        let early = step_answers(&session(&["a", "b"], 1), 3, &[]);
        assert_eq!(early.split, Split::Turns);
        assert_eq!(early.answers, [Some("a".to_owned()), Some("b".to_owned()), None]);
        let one = step_answers(&session(&["## Step 1\na\n## Step 2\nb"], 1), 2, &[]);
        assert_eq!(
            one,
            StepAnswers { split: Split::Headers, answers: some(&["## Step 1\na\n", "## Step 2\nb"]) }
        );
        let none = step_answers(&session(&["a and b"], 1), 2, &[]);
        assert_eq!(none, StepAnswers { split: Split::Failed, answers: vec![None, None] });
        let single = step_answers(&session(&["a", "b"], 2), 1, &[]);
        assert_eq!(single, StepAnswers { split: Split::Single, answers: some(&["a\nb"]) });
    }
}
