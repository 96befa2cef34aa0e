//! The journal's events: the only thing that the engine tells the world.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::artifact::CellState;
use crate::digest::Digest;
use crate::manifest::pipeline::Cause;

/// One line of a journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Number of the line, from 0.
    pub seq: u64,
    /// Milliseconds since 1970-01-01 UTC.
    pub at: i64,
    /// What happened.
    pub event: Event,
}

/// What happened in a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Event {
    /// The run began.
    RunStarted {
        /// Name of the pipeline.
        pipeline: String,
        /// Its file as the user named it.
        path: String,
        /// Parameters of this run.
        params: BTreeMap<String, serde_json::Value>,
        /// Stages in order with their numbers of nodes.
        stages: Vec<(String, u64)>,
        /// Kinds of the stages, in the same order.
        #[serde(default)]
        kinds: Vec<String>,
        /// Arms in manifest order.
        #[serde(default)]
        arms: Vec<String>,
        /// Some nodes are made once more, to see whether they come out the same; nothing else is told.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        replay: bool,
        /// Process id of the engine, for people.
        pid: u32,
        /// Host, for people.
        host: String,
    },
    /// A corpus is ready.
    Corpus {
        /// Repository.
        repo: String,
        /// Digest of its tree.
        digest: Digest,
        /// Where it came from, for people.
        origin: String,
    },
    /// Nodes of a stage were taken from the store; many per line.
    Reused {
        /// Stage.
        stage: String,
        /// How many; 0 in journals of versions that did not say it.
        #[serde(default)]
        count: u64,
        /// Object with a line `KEY NODE` for each, where they are many.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        listing: Option<Digest>,
        /// Node ids and keys: all of them, or those that the listing has not or with other keys.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        nodes: Vec<(String, Digest)>,
        /// Nodes of the listing that were not reused.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        except: Vec<String>,
    },
    /// An attempt began.
    Started {
        /// Node.
        node: String,
        /// Its key.
        key: Digest,
        /// Number of the attempt in this run, from 1.
        attempt: u32,
        /// Name of the folder in which it works, for `logs`.
        #[serde(default)]
        folder: String,
    },
    /// An attempt failed and will be repeated.
    Retry {
        /// Node.
        node: String,
        /// Why it failed.
        cause: Cause,
        /// In words.
        message: String,
        /// Pause before the next attempt.
        wait_ms: u64,
    },
    /// A node is done: it produced an artifact.
    Done {
        /// Node.
        node: String,
        /// Its key.
        key: Digest,
        /// Digest of the record.
        record: Digest,
        /// `valid`, or `error` when what it measured failed.
        state: CellState,
        /// Wall-clock time of the attempt.
        wall_ms: u64,
    },
    /// A node could produce no artifact.
    Failed {
        /// Node.
        node: String,
        /// Its key, when it was known.
        key: Option<Digest>,
        /// Why.
        cause: Option<Cause>,
        /// In words.
        message: String,
        /// Object with the log, if there is one.
        log: Option<Digest>,
    },
    /// A node can't run because one that it needs failed.
    Blocked {
        /// Node.
        node: String,
        /// The failed one.
        by: String,
    },
    /// A paid node may not be bought now.
    Held {
        /// Node.
        node: String,
        /// Why, and what can be done.
        why: String,
    },
    /// Another run works on a node; its result is waited for.
    Abroad {
        /// Node.
        node: String,
    },
    /// The user asked to stop.
    Cancelled {
        /// 1: running nodes finish; 2: they are ended.
        step: u8,
    },
    /// Something that a reader of the report must know.
    Note {
        /// In words.
        message: String,
    },
    /// Gates were evaluated.
    Gates {
        /// Their outcomes, as reports show them.
        outcomes: Vec<serde_json::Value>,
    },
    /// The run ended.
    RunEnded {
        /// How.
        state: RunState,
        /// Counts of nodes.
        counts: Counts,
        /// Exit code.
        exit: u8,
    },
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RunState {
    /// Every node is done.
    Complete,
    /// Stopped by the user or a budget.
    Incomplete,
    /// A node failed and its dependents are blocked.
    Failed,
}

/// Counts of nodes of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// All nodes.
    pub total: u64,
    /// Executed in this run, those in error included.
    pub executed: u64,
    /// Taken from the store.
    pub reused: u64,
    /// Could produce no artifact.
    pub failed: u64,
    /// Not run because one that they need failed.
    pub blocked: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_older_journals_are_read() {
        let key = Digest::of(b"k");
        let old = format!(r#"{{"type":"reused","stage":"a","nodes":[["a[i=1]","{key}"]]}}"#);
        let nodes = vec![("a[i=1]".to_owned(), key)];
        let event =
            Event::Reused { stage: "a".to_owned(), count: 0, listing: None, nodes, except: Vec::new() };
        assert_eq!(serde_json::from_str::<Event>(&old).unwrap(), event);
        let old = r#"{"type":"run-started","pipeline":"p","path":"p.toml","params":{},"stages":[["a",1]],"pid":1,"host":"h"}"#;
        let Event::RunStarted { kinds, stages, .. } = serde_json::from_str(old).unwrap() else {
            unreachable!()
        };
        assert!(kinds.is_empty() && stages.len() == 1);
    }
}
