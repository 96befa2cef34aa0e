//! Storage profiles: which band is allowed, and how long one may leave it.

use std::collections::HashMap;

use crate::RuleError;

/// Where a temperature lies relative to the allowed band.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    Inside,
    /// Below the band, by so many thousandths of a degree.
    Below(i32),
    /// Above the band, by so many thousandths of a degree.
    Above(i32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    pub name: String,
    pub low: i32,
    pub high: i32,
    pub grace: i64,
    pub smoothing: usize,
}

impl Profile {
    fn named(name: &str) -> Self {
        Profile { name: name.to_owned(), low: i32::MIN, high: i32::MAX, grace: 0, smoothing: 0 }
    }

    pub fn classify(&self, milli_c: i32) -> Placement {
        if milli_c < self.low {
            Placement::Below(self.low.saturating_sub(milli_c))
        } else if milli_c > self.high {
            Placement::Above(milli_c.saturating_sub(self.high))
        } else {
            Placement::Inside
        }
    }

    fn assign_key(&mut self, key: &str, value: i64) -> Result<(), String> {
        let narrow = |v: i64| i32::try_from(v).map_err(|_| format!("{v} is out of range"));
        match key {
            "low" => self.low = narrow(value)?,
            "high" => self.high = narrow(value)?,
            "grace" => self.grace = value.max(0),
            "smoothing" => self.smoothing = usize::try_from(value).map_err(|e| e.to_string())?,
            other => return Err(format!("unknown key {other}")),
        }
        Ok(())
    }
}

/// All profiles, and which probe uses which.
#[derive(Debug, Default)]
pub struct ProfileBook {
    profiles: HashMap<String, Profile>,
    assigned: HashMap<String, String>,
}

impl ProfileBook {
    pub fn from_text(text: &str) -> Result<Self, RuleError> {
        let mut book = ProfileBook::default();
        let mut section = String::new();
        for (index, raw) in text.lines().enumerate() {
            let wrong = |reason: String| RuleError::Profile { line: index + 1, reason };
            let line = raw.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
                section = name.to_owned();
                continue;
            }
            let (key, value) = line.split_once('=').ok_or_else(|| wrong("no equals sign".to_owned()))?;
            let (key, value) = (key.trim(), value.trim());
            if section == "assign" {
                book.assigned.insert(key.to_owned(), value.to_owned());
                continue;
            }
            let value = value.parse().map_err(|_| wrong(format!("{value} is not a number")))?;
            book.profiles
                .entry(section.clone())
                .or_insert_with(|| Profile::named(&section))
                .assign_key(key, value)
                .map_err(wrong)?;
        }
        Ok(book)
    }

    pub fn profile_for(&self, probe: &str) -> Result<&Profile, RuleError> {
        self.assigned
            .get(probe)
            .and_then(|name| self.profiles.get(name))
            .ok_or_else(|| RuleError::Unassigned(probe.to_owned()))
    }
}
