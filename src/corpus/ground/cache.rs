//! Texts that were read, within a bound: the oldest are dropped first.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, OnceLock};

use crate::grade::citation::{FileId, Text, Unreadable};

/// A text and what it defines.
pub(super) struct Loaded {
    pub(super) text: Arc<Text>,
    /// Names with 1-based lines, sorted; made when first asked for.
    pub(super) definitions: OnceLock<Vec<(String, u64)>>,
}

impl Loaded {
    pub(super) fn new(text: Text) -> Self {
        Self { text: Arc::new(text), definitions: OnceLock::new() }
    }

    /// Bytes of memory, definitions included by what they usually take.
    fn weight(&self) -> usize {
        self.text.weight() + self.text.content().len() / 2
    }
}

pub(super) struct Cache {
    most: usize,
    weight: usize,
    texts: HashMap<FileId, Arc<Loaded>>,
    /// In the order in which they came.
    order: VecDeque<FileId>,
    /// Never dropped: small, and enough to choose among many files of one name.
    counts: HashMap<FileId, Result<u64, Unreadable>>,
}

impl Cache {
    pub(super) fn new(most: usize) -> Self {
        Self { most, weight: 0, texts: HashMap::new(), order: VecDeque::new(), counts: HashMap::new() }
    }

    /// What is known of a file's text.
    pub(super) fn get(&self, file: FileId) -> Option<Result<Arc<Loaded>, Unreadable>> {
        if let Some(loaded) = self.texts.get(&file) {
            return Some(Ok(Arc::clone(loaded)));
        }
        self.counts.get(&file)?.clone().err().map(Err)
    }

    /// What is known of a file's number of lines.
    pub(super) fn count(&self, file: FileId) -> Option<Result<u64, Unreadable>> {
        self.counts.get(&file).cloned()
    }

    /// Keeps what a file came to.
    pub(super) fn put(&mut self, file: FileId, loaded: Result<Arc<Loaded>, Unreadable>) {
        self.counts
            .insert(file, loaded.as_ref().map(|loaded| loaded.text.line_count()).map_err(Clone::clone));
        let Ok(loaded) = loaded else { return };
        let weight = loaded.weight();
        if weight > self.most {
            return;
        }
        while self.weight + weight > self.most
            && let Some(oldest) = self.order.pop_front()
        {
            if let Some(dropped) = self.texts.remove(&oldest) {
                self.weight = self.weight.saturating_sub(dropped.weight());
            }
        }
        if self.texts.insert(file, loaded).is_none() {
            self.weight += weight;
            self.order.push_back(file);
        }
    }
}
