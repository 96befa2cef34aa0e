//! Which lines of a stored session were taken back.
//!
//! Each line names the line that it follows. Where two prompts follow the same line, the session
//! was wound back to it: what hangs on the earlier prompt is no part of the conversation. Other
//! forks are calls that ran side by side.

use std::collections::{HashMap, HashSet};

#[derive(Debug, Default)]
pub(super) struct Branches {
    by_id: HashMap<String, usize>,
    parents: Vec<Option<usize>>,
    /// For a line that prompts follow, the last of them.
    prompts: HashMap<usize, usize>,
    left: HashSet<usize>,
}

impl Branches {
    /// Adds a line; returns its number.
    pub(super) fn add(&mut self, id: Option<&str>, parent: Option<&str>, prompt: bool) -> usize {
        let number = self.parents.len();
        let parent = parent.and_then(|p| self.by_id.get(p).copied());
        self.parents.push(parent);
        if let Some(id) = id {
            self.by_id.insert(id.to_owned(), number);
        }
        if let Some(parent) = parent.filter(|_| prompt)
            && let Some(earlier) = self.prompts.insert(parent, number)
        {
            self.left.insert(earlier);
        }
        number
    }

    /// Lines that were taken back, with all that hangs on them.
    pub(super) fn left(&mut self) -> &HashSet<usize> {
        // A line comes after the one that it follows.
        for (number, parent) in self.parents.iter().enumerate() {
            if parent.is_some_and(|p| self.left.contains(&p)) {
                self.left.insert(number);
            }
        }
        &self.left
    }
}
