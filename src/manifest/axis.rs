//! `[axes]`: one table in which every key but `exclude` is an axis.

use serde::Deserialize;
use serde::de::{self, Deserializer};
use serde_json::Value;

use super::pipeline::{Axes, Axis, Questions, Recorded, Scenarios};
use super::templated::{Templated, is_template};

/// Name of the axis that holds the arms.
pub const ARM: &str = "arm";
/// Name of the axis that holds the tasks.
pub const TASK: &str = "task";
/// Name of the axis that holds the repositories.
pub const REPO: &str = "repo";
/// Name of the axis that holds recorded answers, by their ids.
pub const ANSWER: &str = "answer";
/// Name of the axis that holds the replicates.
pub const REPLICATE: &str = "replicate";

impl<'de> Deserialize<'de> for Axes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let table = serde_json::Map::deserialize(deserializer)?;
        let mut out = Self::default();
        for (name, value) in table {
            if name == "exclude" {
                out.exclude = serde_json::from_value(value).map_err(de::Error::custom)?;
            } else {
                let axis = axis(value).map_err(|e| de::Error::custom(format!("axis `{name}`: {e}")))?;
                out.axes.insert(name, axis);
            }
        }
        Ok(out)
    }
}

fn axis(value: Value) -> Result<Axis, String> {
    match value {
        Value::String(text) if text == "all" => Ok(Axis::Arms),
        Value::String(text) if is_template(&text) => Ok(Axis::Values(Templated::Template(text))),
        Value::Array(_) => serde_json::from_value(value).map(Axis::Values).map_err(|e| e.to_string()),
        Value::Object(mut map) if map.contains_key("count") => {
            let count = map.remove("count").unwrap_or(Value::Null);
            if let Some(other) = map.keys().next() {
                return Err(format!("`{other}` can't stand beside `count`"));
            }
            serde_json::from_value(count).map(Axis::Count).map_err(|e| e.to_string())
        }
        Value::Object(map) if map.contains_key("scenarios") => {
            serde_json::from_value::<Scenarios>(Value::Object(map)).map(Axis::Scenarios).map_err(|e| e.to_string())
        }
        Value::Object(map) if map.contains_key("recorded") => {
            serde_json::from_value::<Recorded>(Value::Object(map)).map(Axis::Recorded).map_err(|e| e.to_string())
        }
        Value::Object(_) => {
            serde_json::from_value::<Questions>(value).map(Axis::Questions).map_err(|e| e.to_string())
        }
        _ => Err("write \"all\", a list, { count = N }, { questions = REPO }, { scenarios = REPO } or { recorded = ARM }".to_owned()),
    }
}
