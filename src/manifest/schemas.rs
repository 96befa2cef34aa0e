//! The JSON Schemas that are committed under `schemas/`.

use serde_json::Value;

use super::kind::FileKind;

/// File name under `schemas/` and schema, for every kind of file.
#[must_use]
pub fn all() -> Vec<(String, Value)> {
    FileKind::ALL.into_iter().map(|kind| (format!("{}.json", kind.name()), kind.schema())).collect()
}

/// A schema as the text of its file.
#[must_use]
pub fn text(schema: &Value) -> String {
    format!("{schema:#}\n")
}
