//! A server's tool list.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::artifact::code;

/// Most pages of a tool list.
pub(super) const MAX_PAGES: usize = 200;
/// Most tools.
pub(super) const MAX_TOOLS: usize = 5_000;

/// A tool as listed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it says of itself; may be empty.
    #[serde(default)]
    pub description: String,
    /// JSON Schema of its arguments.
    #[serde(default, rename = "inputSchema")]
    pub schema: Value,
}

impl Tool {
    /// A tool of a `tools/list` reply; none when it has no name.
    #[must_use]
    pub fn from_listed(value: &Value) -> Option<Self> {
        let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let name = text("name");
        let schema = value
            .get("inputSchema")
            .or_else(|| value.get("input_schema"))
            .or_else(|| value.get("parameters"))
            .cloned()
            .unwrap_or(Value::Null);
        let title = value.pointer("/annotations/title").and_then(Value::as_str);
        let told = value.get("description").and_then(Value::as_str).filter(|told| !told.is_empty());
        let description = told.or(title).unwrap_or_default().to_owned();
        (!name.is_empty()).then_some(Self { name, description, schema })
    }
}

/// Why there is no tool list.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ToolsError {
    /// It did not come in time.
    #[error("the tool list did not come within {0} ms")]
    Timeout(u64),
    /// The server ended.
    #[error("the server ended while listing its tools: {0}")]
    Died(String),
    /// It answered with an error.
    #[error("listing tools failed: {message} ({code})")]
    Rpc {
        /// JSON-RPC error code.
        code: i64,
        /// Its words.
        message: String,
    },
    /// A page came twice.
    #[error("the tool list repeats its page `{0}`")]
    Loop(String),
    /// There is no end of it.
    #[error("the tool list has more than {0}")]
    TooMany(String),
    /// It is no tool list.
    #[error("no tool list came back: {0}")]
    Unexpected(String),
}

impl ToolsError {
    /// The code of the cell's state.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Timeout(_) => code::CALL_TIMEOUT,
            Self::Died(_) => code::SERVER_DIED,
            Self::Rpc { .. } | Self::Loop(_) | Self::Unexpected(_) => code::CALL_ERROR,
            Self::TooMany(_) => code::REPLY_TOO_LARGE,
        }
    }
}
