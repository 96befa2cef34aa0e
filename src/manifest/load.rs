//! From a file's text to its type, with everything that is wrong on the way.

use serde_json::Value;

use super::kind::{FileKind, Manifest};
use super::path::KeyPath;
use super::source::Document;
use super::{
    dataset_check, recording_check, rubric_check, scenario_check, server_check, stage_keys, structure,
    trust_check,
};
use crate::diag::{self, Diagnostic};

/// A file as read.
#[derive(Debug)]
pub struct Loaded<T> {
    /// Values and places.
    pub document: Document,
    /// What of it is usable; none when nothing is.
    pub value: Option<T>,
    /// What is wrong with it, in order of place.
    pub diagnostics: Vec<Diagnostic>,
}

/// Reads a file of a known kind.
#[must_use]
pub fn read<T: Manifest>(path: &str, bytes: &[u8]) -> Loaded<T> {
    let (document, mut found) = Document::parse(path, bytes);
    let (value, structural) = typed(&document);
    found.extend(structural);
    diag::sort(&mut found);
    Loaded { document, value, diagnostics: found }
}

/// The document as a `T`, and its structural faults.
#[must_use]
pub fn typed<T: Manifest>(document: &Document) -> (Option<T>, Vec<Diagnostic>) {
    if !document.is_readable() {
        return (None, Vec::new());
    }
    let (usable, mut found) = structure::check(document, &T::KIND.schema());
    if T::KIND == FileKind::Pipeline {
        found.extend(stage_keys::check(document));
    }
    let Some(Value::Object(mut table)) = usable else { return (None, found) };
    T::fill(&mut table);
    let value = Value::Object(table);
    match serde_json::from_value::<T>(value.clone()) {
        Ok(typed) => (Some(typed), found),
        Err(error) => {
            // The schema should have caught it; if it didn't, the type's word counts.
            if !found.iter().any(Diagnostic::is_error) {
                let (path, message) = culprit::<T>(&value, error.to_string());
                let place = document.value_place(&path);
                let help = format!("see the schema `{}` for what may stand here", T::KIND.name());
                found.push(Diagnostic::error("bad-value", message).at(place, "").help(help));
            }
            (None, found)
        }
    }
}

/// Most entries of a table that are tried one by one.
const TRIED: usize = 300;

/// Which value makes the type refuse the whole: the one without which it
/// says something else.
fn culprit<T: Manifest>(value: &Value, message: String) -> (KeyPath, String) {
    let mut path = KeyPath::root();
    let mut whole = value.clone();
    'deeper: for _ in 0..super::source::DEEPEST {
        let inner: Vec<KeyPath> = match at(&whole, &path) {
            Some(Value::Object(table)) => table.keys().take(TRIED).map(|key| path.key(key)).collect(),
            Some(Value::Array(list)) => (0..list.len().min(TRIED)).map(|index| path.index(index)).collect(),
            _ => break,
        };
        for candidate in inner {
            let mut without = whole.clone();
            remove(&mut without, &candidate);
            let now = serde_json::from_value::<T>(without.clone()).err().map(|e| e.to_string());
            if now.as_ref() == Some(&message) {
                // It has no part in the fault; leaving it out makes the rest smaller.
                if matches!(candidate.0.last(), Some(super::path::Step::Key(_))) {
                    whole = without;
                }
                continue;
            }
            path = candidate;
            continue 'deeper;
        }
        break;
    }
    let plain = message.split_once(" at line ").map(|(plain, _)| plain.to_owned());
    (path, plain.unwrap_or(message))
}

fn at<'v>(value: &'v Value, path: &KeyPath) -> Option<&'v Value> {
    path.0.iter().try_fold(value, |value, step| match step {
        super::path::Step::Key(key) => value.get(key),
        super::path::Step::Index(index) => value.get(index),
    })
}

fn remove(value: &mut Value, path: &KeyPath) {
    let Some((last, before)) = path.0.split_last() else { return };
    let mut here = value;
    for step in before {
        let next = match step {
            super::path::Step::Key(key) => here.get_mut(key),
            super::path::Step::Index(index) => here.get_mut(index),
        };
        let Some(next) = next else { return };
        here = next;
    }
    match (here, last) {
        (Value::Object(table), super::path::Step::Key(key)) => {
            table.shift_remove(key);
        }
        (Value::Array(list), super::path::Step::Index(index)) if *index < list.len() => {
            list.remove(*index);
        }
        _ => {}
    }
}

/// Everything that is wrong with one file by itself. A pipeline's meaning
/// (graph, templates, presets) is checked by compiling it.
#[must_use]
pub fn check(kind: FileKind, path: &str, bytes: &[u8]) -> Vec<Diagnostic> {
    match kind {
        FileKind::Pipeline => read::<super::pipeline::Pipeline>(path, bytes).diagnostics,
        FileKind::Server => server(path, bytes).diagnostics,
        FileKind::Repos => repos(path, bytes).diagnostics,
        FileKind::Questions => questions(path, bytes).diagnostics,
        FileKind::Scenario => scenario(path, bytes).diagnostics,
        FileKind::Rubric => rubric(path, bytes).diagnostics,
        FileKind::Recording => recording(path, bytes).diagnostics,
        FileKind::Prices => read::<super::prices::Prices>(path, bytes).diagnostics,
        FileKind::Lock => read::<super::lock::Lock>(path, bytes).diagnostics,
        FileKind::Trust => trust(path, bytes).diagnostics,
    }
}

/// Reads a server preset and checks that its keys go together.
#[must_use]
pub fn server(path: &str, bytes: &[u8]) -> Loaded<super::server::Server> {
    with(read(path, bytes), server_check::check)
}

/// Reads a `repos.toml` and checks that every repository has one source.
#[must_use]
pub fn repos(path: &str, bytes: &[u8]) -> Loaded<super::dataset::Repos> {
    with(read(path, bytes), dataset_check::repos)
}

/// Reads a file of questions and checks that they can be told apart and answered.
#[must_use]
pub fn questions(path: &str, bytes: &[u8]) -> Loaded<super::dataset::QuestionSet> {
    with(read(path, bytes), dataset_check::questions)
}

/// Reads a scenario and checks that its steps, checks and gold rows make sense.
/// What it names in other files is checked by [`scenario_check::in_project`].
#[must_use]
pub fn scenario(path: &str, bytes: &[u8]) -> Loaded<super::scenario::Scenario> {
    with(read(path, bytes), scenario_check::check)
}

/// Reads a rubric and checks that weights sum to 1.
#[must_use]
pub fn rubric(path: &str, bytes: &[u8]) -> Loaded<super::rubric::Rubric> {
    with(read(path, bytes), rubric_check::check)
}

/// Reads a recording and checks that its answers can be told apart and are somewhere.
#[must_use]
pub fn recording(path: &str, bytes: &[u8]) -> Loaded<super::recording::Recording> {
    with(read(path, bytes), recording_check::check)
}

/// Reads a `trust.toml` and checks that every key has one name.
#[must_use]
pub fn trust(path: &str, bytes: &[u8]) -> Loaded<super::trust::Trust> {
    with(read(path, bytes), trust_check::check)
}

fn with<T>(mut loaded: Loaded<T>, check: fn(&T, &Document) -> Vec<Diagnostic>) -> Loaded<T> {
    if let Some(value) = &loaded.value {
        loaded.diagnostics.extend(check(value, &loaded.document));
        diag::sort(&mut loaded.diagnostics);
    }
    loaded
}
