//! later
use super::Tool;
use serde_json::{Map, Value};
/// .
#[derive(Clone, Copy, Debug)]
pub enum Slot {
    /// .
    Ingest,
    /// .
    Query,
}
/// .
pub struct Choice {
    /// .
    pub tool: String,
    /// .
    pub args: Map<String, Value>,
    /// .
    pub confidence: f64,
}
/// .
pub struct Detection {
    /// .
    pub choice: Option<Choice>,
    /// .
    pub sure: bool,
    /// .
    pub why: String,
}
/// .
pub fn choose(_tools: &[Tool], _slot: Slot) -> Detection {
    Detection { choice: None, sure: false, why: String::new() }
}
