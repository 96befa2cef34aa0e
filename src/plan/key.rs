//! Recipes and keys: what a node is, and why it has to run.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::compiled::{Arm, Compiled, Stage};
use crate::digest::{self, CanonicalError, Digest, canonical};
use crate::manifest::axis;

/// Facts about the outside that recipes hold; gathered by the engine.
pub trait World {
    /// Digest of a repository's tree; none when it has not been fetched yet.
    fn corpus(&self, repo: &str) -> Option<Digest>;
    /// Why the code that citations are held against can't be had, in words; none when it can.
    fn lacks(&self, repo: &str) -> Option<&str>;
    /// Identity of an arm's server, by index of the arm.
    fn server(&self, arm: usize) -> Option<&Value>;
    /// Project files that match a pattern: relative path and digest, in order.
    ///
    /// # Errors
    /// When nothing matches or something can't be read.
    fn files(&self, pattern: &str) -> Result<Arc<Vec<(String, Digest)>>, String>;
    /// Whether a path, relative to the project's root, is a plain one and that of a file.
    fn is_file(&self, path: &str) -> bool;
}

/// What is known of a node that another one reads.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// Node id.
    pub id: String,
    /// Values on the axes that the reading stage lacks, for a gather.
    pub extra: Vec<(String, String)>,
    /// Whole cell, axis to value.
    pub cell: BTreeMap<String, String>,
    /// Its key, when known.
    pub key: Option<Digest>,
    /// Digests of its parts, when it has an artifact.
    pub parts: Option<BTreeMap<String, Digest>>,
    /// State: `valid`, `error`, `missing`.
    pub state: &'static str,
}

/// A node at which a recipe is asked for.
pub struct At<'a> {
    /// The pipeline.
    pub pipeline: &'a Compiled,
    /// The stage.
    pub stage: &'a Stage,
    /// Values of the stage's axes.
    pub cell: &'a BTreeMap<String, String>,
    /// Index of the node's arm.
    pub arm_index: Option<usize>,
    /// Per need: what is read.
    pub needs: &'a [Vec<Upstream>],
    /// The outside.
    pub world: &'a dyn World,
}

/// Why a recipe can't be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoRecipe {
    /// It depends on something that must run or be fetched first; its name.
    Wait(String),
    /// It never can; why.
    Impossible(String),
}

/// The part of a stage kind that planning needs: its recipe.
pub trait Kind: Sync {
    /// Fields of the recipe besides `kind`, `format` and `salt`.
    ///
    /// # Errors
    /// [`NoRecipe::Wait`] when an input isn't known yet.
    fn recipe(&self, at: &At<'_>) -> Result<Map<String, Value>, NoRecipe>;
    /// Version of the kind's meaning, raised by hand.
    fn format(&self) -> u32;
    /// Do its recipes hold keys of nodes that it reads, and not only their parts?
    fn reads_keys(&self) -> bool {
        false
    }
    /// Does the node run even when one that it needs produced nothing? (aggregates)
    fn tolerates_missing(&self) -> bool {
        false
    }
}

impl<'a> At<'a> {
    /// Value of an axis.
    #[must_use]
    pub fn value(&self, axis: &str) -> Option<&'a str> {
        self.cell.get(axis).map(String::as_str)
    }

    /// The node's arm.
    #[must_use]
    pub fn arm(&self) -> Option<&'a Arm> {
        self.arm_index.map(|at| &self.pipeline.arms[at])
    }

    /// Digest of the corpus of the node's repository.
    ///
    /// # Errors
    /// When it has not been fetched yet, or the stage has no repository.
    pub fn corpus(&self) -> Result<Digest, NoRecipe> {
        let repo = self
            .value(axis::REPO)
            .ok_or_else(|| NoRecipe::Impossible(format!("stage `{}` has no axis `repo`", self.stage.name)))?;
        self.world.corpus(repo).ok_or_else(|| NoRecipe::Wait(format!("corpus `{repo}`")))
    }

    /// Identity of the node's server.
    ///
    /// # Errors
    /// When the arm has none.
    pub fn server(&self) -> Result<&'a Value, NoRecipe> {
        self.arm_index
            .and_then(|at| self.world.server(at))
            .ok_or_else(|| NoRecipe::Impossible(format!("stage `{}` has no server", self.stage.name)))
    }

    /// The single node of a need, by the name of the stage's kind.
    ///
    /// # Errors
    /// When there is none.
    pub fn single(&self, kind: &str) -> Result<&'a Upstream, NoRecipe> {
        for (need, up) in self.stage.needs.iter().zip(self.needs) {
            if self.pipeline.stages[*need].kind() == kind
                && let [one] = up.as_slice()
            {
                return Ok(one);
            }
        }
        Err(NoRecipe::Impossible(format!("stage `{}` needs exactly one {kind}", self.stage.name)))
    }
}

impl Upstream {
    /// Its key: an edge by recipe.
    ///
    /// # Errors
    /// When it isn't known yet.
    pub fn key(&self) -> Result<Digest, NoRecipe> {
        self.key.ok_or_else(|| NoRecipe::Wait(self.id.clone()))
    }

    /// Digest of one of its parts: an edge by content.
    ///
    /// # Errors
    /// When it has not run yet, or has no such part.
    pub fn part(&self, name: &str) -> Result<Digest, NoRecipe> {
        let parts = self.parts.as_ref().ok_or_else(|| NoRecipe::Wait(self.id.clone()))?;
        parts
            .get(name)
            .copied()
            .ok_or_else(|| NoRecipe::Impossible(format!("`{}` has no part `{name}`", self.id)))
    }
}

/// A recipe in canonical form and its key.
#[derive(Clone, Debug)]
pub struct Keyed {
    /// The recipe.
    pub recipe: Value,
    /// Its canonical JSON.
    pub canonical: String,
    /// The key.
    pub key: Digest,
}

/// Makes the recipe and the key of a node.
///
/// # Errors
/// See [`Kind::recipe`].
pub fn keyed(kind: &dyn Kind, at: &At<'_>) -> Result<Keyed, NoRecipe> {
    let mut fields = kind.recipe(at)?;
    fields.insert("kind".to_owned(), json!(at.stage.kind()));
    fields.insert("format".to_owned(), json!(kind.format()));
    if !at.pipeline.salt.is_empty() {
        fields.insert("salt".to_owned(), json!(at.pipeline.salt));
    }
    seal(Value::Object(fields)).map_err(|e| NoRecipe::Impossible(e.to_string()))
}

/// Key of a complete recipe.
///
/// # Errors
/// When it holds a number that canonical JSON would round.
pub fn seal(recipe: Value) -> Result<Keyed, CanonicalError> {
    let canonical = canonical(&recipe)?;
    let key = Digest::tagged(digest::NODE, canonical.as_bytes());
    Ok(Keyed { recipe, canonical, key })
}

/// A recipe field that differs, with both values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reason {
    /// Path of the field with dots, `*` for a node that was never seen.
    pub field: String,
    /// Value in the newest recipe of this cell; null when absent.
    pub old: Value,
    /// Value now; null when absent.
    pub new: Value,
}

impl Reason {
    /// A node that was never seen.
    #[must_use]
    pub fn new_node() -> Self {
        Self { field: "*".to_owned(), old: Value::Null, new: Value::Null }
    }
}

/// At most this many differing fields are listed.
const MAX_REASONS: usize = 8;

/// The first recipe fields in which two recipes differ, in canonical order.
#[must_use]
pub fn differences(old: &Value, new: &Value) -> Vec<Reason> {
    let mut out = Vec::new();
    compare("", old, new, &mut out);
    out.truncate(MAX_REASONS);
    out
}

fn compare(path: &str, old: &Value, new: &Value, out: &mut Vec<Reason>) {
    if out.len() >= MAX_REASONS || old == new {
        return;
    }
    let join = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match (old, new) {
        (Value::Object(a), Value::Object(b)) => {
            let mut names: Vec<&String> = a.keys().chain(b.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let none = Value::Null;
                compare(&join(name), a.get(name).unwrap_or(&none), b.get(name).unwrap_or(&none), out);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (x, y)) in a.iter().zip(b).enumerate() {
                compare(&join(&index.to_string()), x, y, out);
            }
        }
        _ => out.push(Reason {
            field: if path.is_empty() { "*".to_owned() } else { path.to_owned() },
            old: old.clone(),
            new: new.clone(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_the_fields() {
        let old = json!({"a": 1, "b": {"c": [1, 2], "d": "x"}});
        let new = json!({"a": 1, "b": {"c": [1, 3], "d": "x"}, "e": true});
        let reasons = differences(&old, &new);
        let fields: Vec<&str> = reasons.iter().map(|r| r.field.as_str()).collect();
        assert_eq!(fields, ["b.c.1", "e"]);
        assert_eq!((&reasons[0].old, &reasons[0].new), (&json!(2), &json!(3)));
        assert!(differences(&old, &old).is_empty());
    }

    #[test]
    fn arrays_of_other_length_differ_as_a_whole() {
        let reasons = differences(&json!({"a": [1]}), &json!({"a": [1, 2]}));
        assert_eq!(reasons.len(), 1);
        assert_eq!(reasons[0].field, "a");
    }
}
