//! Which part of a session's answer belongs to which step.

use std::ops::Range;

use crate::artifact::transcript::Transcript;

/// How an answer was cut into steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Split {
    /// Each step was a turn of its own.
    Turns,
    /// By headings in one answer.
    Headings,
    /// Not at all: every step has the whole answer.
    Whole,
}

/// The answer of a session and where each step's lies in it.
#[derive(Clone, Debug)]
pub struct Steps {
    /// All prose of the main thread, blocks joined by line ends.
    pub text: String,
    /// Per step its bytes; none where a step has no part of its own.
    pub ranges: Vec<Option<Range<usize>>>,
    /// How they were found.
    pub split: Split,
}

impl Steps {
    /// Cuts an answer into so many steps: by turns where there are as many, else by headings.
    #[must_use]
    pub fn of(transcript: &Transcript, count: usize) -> Self {
        let (text, turns) = by_turn(transcript);
        if count > 1 && transcript.turns_begun() == count {
            let ranges = (0..count).map(|turn| turns.get(turn).cloned().flatten()).collect();
            return Self { text, ranges, split: Split::Turns };
        }
        let ranges = by_heading(&text, count);
        let split = if ranges.iter().any(Option::is_some) { Split::Headings } else { Split::Whole };
        Self { text, ranges, split }
    }

    /// The bytes of a step's answer, from 0: its own, or the whole where it has none. A turn in
    /// which nothing was said is empty.
    #[must_use]
    pub fn range(&self, step: usize) -> Range<usize> {
        match (self.ranges.get(step), self.split) {
            (Some(Some(range)), _) => range.clone(),
            (_, Split::Turns) => 0..0,
            _ => 0..self.text.len(),
        }
    }

    /// What a reader must know of the cut; nothing for turns.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let without = self.ranges.iter().filter(|range| range.is_none()).count();
        match self.split {
            Split::Headings if without == 0 => Some("steps were told apart by headings".to_owned()),
            Split::Headings => Some(format!("{without} of {} steps have no heading", self.ranges.len())),
            Split::Whole if self.ranges.len() > 1 => {
                Some("the answer could not be cut into steps".to_owned())
            }
            Split::Turns | Split::Whole => None,
        }
    }
}

/// The text, and per turn its bytes.
fn by_turn(transcript: &Transcript) -> (String, Vec<Option<Range<usize>>>) {
    let mut text = String::new();
    let mut turns: Vec<Option<Range<usize>>> = Vec::new();
    let mut any = false;
    for entry in transcript.entries.iter().filter(|entry| !entry.sub_agent) {
        let Some(said) = entry.text() else { continue };
        if std::mem::replace(&mut any, true) {
            text.push('\n');
        }
        let from = text.len();
        text.push_str(said);
        // A stream numbers its own turns; one that claims many more than it has is cut short.
        let turn = (entry.turn as usize).min(transcript.entries.len());
        if turns.len() <= turn {
            turns.resize(turn + 1, None);
        }
        let start = turns[turn].as_ref().map_or(from, |range| range.start);
        turns[turn] = Some(start..text.len());
    }
    (text, turns)
}

/// By lines such as `## Step 2: name`, the last of each number; a step ends where the next begins.
fn by_heading(text: &str, count: usize) -> Vec<Option<Range<usize>>> {
    let mut headings: Vec<(usize, Range<usize>)> = Vec::new();
    let mut from = 0;
    for line in text.split_inclusive('\n') {
        if let Some(step) = heading(line) {
            headings.push((step, from..from + line.len()));
        }
        from += line.len();
    }
    (1..=count)
        .map(|step| {
            let start = headings.iter().rfind(|(number, _)| *number == step)?.1.end;
            let next = headings.iter().rfind(|(number, range)| *number == step + 1 && range.start >= start);
            Some(start..next.map_or(text.len(), |(_, range)| range.start))
        })
        .collect()
}

/// The number of a heading: one to four `#`, `Step` and a number, whatever marks stand around.
fn heading(line: &str) -> Option<usize> {
    let marks = line.bytes().take_while(|b| *b == b'#').count();
    let rest = line[marks..].trim_start_matches([' ', '\t', '*', '_']);
    let bold = marks == 0 && line.starts_with("**");
    if !(1..=4).contains(&marks) && !bold {
        return None;
    }
    let word = rest.get(..4).filter(|word| word.eq_ignore_ascii_case("step"))?;
    let number = rest[word.len()..].trim_start();
    let digits = number.bytes().take_while(u8::is_ascii_digit).count();
    let after = number[digits..].chars().next();
    if after.is_some_and(|c| c.is_alphanumeric() || c == '_') {
        return None;
    }
    number[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::artifact::transcript::{Entry, TurnEnd, What};

    fn said(turns: &[(u32, &str)], ends: usize) -> Transcript {
        let entry = |(turn, text): &(u32, &str)| Entry {
            turn: *turn,
            sub_agent: false,
            message: None,
            at_ms: None,
            what: What::Text((*text).to_owned()),
        };
        Transcript {
            entries: turns.iter().map(entry).collect(),
            turns: vec![TurnEnd::default(); ends],
            ..Transcript::default()
        }
    }

    #[test]
    fn real_turns_are_steps() {
        let steps = Steps::of(&said(&[(0, "one"), (0, "more"), (2, "three")], 3), 3);
        assert_eq!((steps.text.as_str(), steps.split), ("one\nmore\nthree", Split::Turns));
        assert_eq!(steps.ranges, [Some(0..8), None, Some(9..14)]);
        assert_eq!(steps.range(1), 0..0, "nothing was said in the second turn");
        assert_eq!(steps.note(), None);
    }

    #[test]
    fn headings_cut_an_answer_of_one_turn() {
        let text = "Steps:\n## Step 1: a\nfirst\n**Step 2 — b**\nsecond\n### **Step 3**\nthird";
        let steps = Steps::of(&said(&[(0, text)], 1), 3);
        let parts: Vec<&str> = (0..3).map(|step| &steps.text[steps.range(step)]).collect();
        assert_eq!(parts, ["first\n", "second\n", "third"]);
        assert_eq!(steps.split, Split::Headings);
        // The last heading of a number counts: the first ones are a plan.
        let text = "## Step 1\n## Step 2\nplan\n## Step 1\nx\n## Step 2\ny";
        let steps = Steps::of(&said(&[(0, text)], 1), 2);
        assert_eq!((&steps.text[steps.range(0)], &steps.text[steps.range(1)]), ("x\n", "y"));
        // No headings: all have all.
        let steps = Steps::of(&said(&[(0, "Step 1 is done, Step 20th too")], 1), 2);
        assert_eq!((steps.split, steps.range(1)), (Split::Whole, 0..29));
        assert!(steps.note().is_some());
    }
}
