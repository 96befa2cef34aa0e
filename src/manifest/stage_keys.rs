//! Which keys a stage may have, by its kind.

use serde_json::Value;

use super::path::KeyPath;
use super::source::Document;
use crate::diag::{Diagnostic, names};

/// Keys that every kind has.
const COMMON: [&str; 5] = ["kind", "needs", "pool", "retry", "limits"];

/// A kind's further keys.
struct Keys {
    kind: &'static str,
    own: &'static [&'static str],
    required: &'static [(&'static str, &'static str)],
}

/// The table; a key in no row belongs to no kind, which the schema refuses.
const KINDS: [Keys; 7] = [
    Keys { kind: "ingest", own: &["over", "share"], required: &[] },
    Keys { kind: "warmup", own: &["over", "share"], required: &[] },
    Keys {
        kind: "session",
        own: &["over", "share", "driver", "top"],
        required: &[(
            "driver",
            "add `driver = \"retrieval\"`, which asks the server itself, or `driver = \"recorded\"`",
        )],
    },
    Keys {
        kind: "grade",
        own: &["over", "graders", "profile"],
        required: &[("graders", "add `graders = [...]`, e.g. [\"ranking\", \"latency\", \"resources\"]")],
    },
    Keys {
        kind: "judge",
        own: &["over", "judge", "profile"],
        required: &[("judge", "add `judge = \"recorded\"`, which takes recorded replies")],
    },
    Keys { kind: "aggregate", own: &[], required: &[] },
    Keys {
        kind: "command",
        own: &["over", "share", "run", "inputs", "outputs", "env", "secrets", "effect", "metrics", "network"],
        required: &[("run", "add `run = [\"PROGRAM\", \"ARGUMENT\", ...]`")],
    },
];

/// Keys that stand in a stage of another kind than they belong to, and those
/// that a kind must have and lacks.
#[must_use]
pub(super) fn check(document: &Document) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    let root = KeyPath::of(&["stage"]);
    let Some(Value::Object(stages)) = document.get(&root) else { return found };
    for (name, stage) in stages {
        let Some(kind) = stage.get("kind").and_then(Value::as_str) else { continue };
        let Some(keys) = KINDS.iter().find(|keys| keys.kind == kind) else { continue };
        let Some(table) = stage.as_object() else { continue };
        let path = root.key(name);
        for key in table.keys() {
            let key = key.as_str();
            if COMMON.contains(&key) || keys.own.contains(&key) {
                continue;
            }
            let owners: Vec<&str> = KINDS.iter().filter(|k| k.own.contains(&key)).map(|k| k.kind).collect();
            if owners.is_empty() {
                continue;
            }
            found.push(misplaced(document, &path, key, keys, &owners));
        }
        for (key, help) in keys.required {
            let empty = table.get(*key).is_some_and(|v| v.as_array().is_some_and(Vec::is_empty));
            let article = if kind == "ingest" { "an" } else { "a" };
            if empty {
                let message = format!("`{key}` of {article} {kind} stage is empty");
                let place = document.value_place(&path.key(key));
                found.push(Diagnostic::error("empty", message).at(place, "").help(*help));
            } else if !table.contains_key(*key) && !document.excuses(key) {
                let message = format!("`{path}` is {article} {kind} stage without `{key}`");
                let place = document.table_place(&path);
                let label = format!("`{key}` is missing");
                found.push(Diagnostic::error("missing-key", message).at(place, label).help(*help));
            }
        }
    }
    found
}

fn misplaced(document: &Document, path: &KeyPath, key: &str, keys: &Keys, owners: &[&str]) -> Diagnostic {
    let kind = keys.kind;
    let article = |kind: &str| if matches!(kind, "ingest" | "aggregate") { "an" } else { "a" };
    let message = format!("`{key}` doesn't belong to {} {kind} stage", article(kind));
    let allowed = names(COMMON.iter().chain(keys.own).copied(), 24);
    let help = if kind == "aggregate" && key == "over" {
        format!("an aggregate gathers all cells, so it has no axes; leave `over` out (allowed: {allowed})")
    } else {
        format!(
            "it belongs to stages of kind {}; {} {kind} stage may have {allowed}",
            names(owners.iter().copied(), 6),
            article(kind)
        )
    };
    Diagnostic::error("misplaced-key", message)
        .at(document.key_place(&path.key(key)), "")
        .at(document.value_place(&path.key("kind")), "because of this kind")
        .help(help)
}
