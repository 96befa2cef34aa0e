//! Which part of a session's answer belongs to which step.

use std::ops::Range;

use crate::artifact::steps::headers;
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
    /// Cuts an answer into the steps of these names: by turns where there are as many, else by what
    /// the answer itself calls its parts.
    #[must_use]
    pub fn of(transcript: &Transcript, names: &[&str]) -> Self {
        let count = names.len();
        let (text, turns) = by_turn(transcript);
        if count > 1 && transcript.turns_begun() == count {
            let ranges = (0..count).map(|turn| turns.get(turn).cloned().flatten()).collect();
            return Self { text, ranges, split: Split::Turns };
        }
        let ranges = if count > 1 { headers(&text, count, names) } else { vec![None; count] };
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
        let steps = Steps::of(&said(&[(0, "one"), (0, "more"), (2, "three")], 3), &["a", "b", "c"]);
        assert_eq!((steps.text.as_str(), steps.split), ("one\nmore\nthree", Split::Turns));
        assert_eq!(steps.ranges, [Some(0..8), None, Some(9..14)]);
        assert_eq!(steps.range(1), 0..0, "nothing was said in the second turn");
        assert_eq!(steps.note(), None);
    }

    #[test]
    fn headings_cut_an_answer_of_one_turn() {
        let text = "Steps:\n## Step 1: a\nfirst\n## Step 2: b\nsecond\n";
        let steps = Steps::of(&said(&[(0, text)], 1), &["a", "b"]);
        assert_eq!(steps.split, Split::Headings);
        assert!(
            steps.text[steps.range(0)].contains("first") && !steps.text[steps.range(0)].contains("second")
        );
        assert!(steps.text[steps.range(1)].contains("second"));
        // No headings: all have all.
        let steps = Steps::of(&said(&[(0, "both are done")], 1), &["a", "b"]);
        assert_eq!((steps.split, steps.range(1)), (Split::Whole, 0..13));
        assert!(steps.note().is_some());
    }
}
