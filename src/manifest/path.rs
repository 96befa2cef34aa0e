//! Where a value stands in a file: the keys that lead to it.

use std::fmt;

/// One step from a value to one inside it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// Into a table.
    Key(String),
    /// Into a list, 0-based.
    Index(usize),
}

/// The steps from the root of a file to a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyPath(pub Vec<Step>);

impl KeyPath {
    /// The root of a file.
    #[must_use]
    pub fn root() -> Self {
        Self::default()
    }

    /// The path through these keys.
    #[must_use]
    pub fn of(keys: &[&str]) -> Self {
        Self(keys.iter().map(|key| Step::Key((*key).to_owned())).collect())
    }

    /// One key further.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        self.then(Step::Key(key.to_owned()))
    }

    /// One list entry further.
    #[must_use]
    pub fn index(&self, at: usize) -> Self {
        self.then(Step::Index(at))
    }

    fn then(&self, step: Step) -> Self {
        let mut steps = Vec::with_capacity(self.0.len() + 1);
        steps.extend_from_slice(&self.0);
        steps.push(step);
        Self(steps)
    }

    /// The path without its last step; the root's is the root.
    #[must_use]
    pub fn parent(&self) -> Self {
        Self(self.0[..self.0.len().saturating_sub(1)].to_vec())
    }

    /// The last key, if the last step is one.
    #[must_use]
    pub fn last_key(&self) -> Option<&str> {
        match self.0.last() {
            Some(Step::Key(key)) => Some(key),
            _ => None,
        }
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, step) in self.0.iter().enumerate() {
            match step {
                Step::Index(index) => write!(f, "[{index}]")?,
                Step::Key(key) => {
                    if at > 0 {
                        f.write_str(".")?;
                    }
                    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
                    if !key.is_empty() && key.chars().all(bare) {
                        f.write_str(key)?;
                    } else {
                        write!(f, "{key:?}")?;
                    }
                }
            }
        }
        Ok(())
    }
}
