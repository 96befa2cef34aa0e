//! later
use crate::artifact::Hit;
use crate::manifest::server::Lines;
use serde_json::Value;
/// .
pub const VERSION: u32 = 1;
/// .
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// .
    Hits,
    /// .
    Empty,
    /// .
    Error,
    /// .
    Other,
}
/// .
pub struct Rules<'a> {
    /// .
    pub roots: Vec<String>,
    /// .
    pub lines: Lines,
    /// .
    pub known: Option<&'a dyn Fn(&str) -> bool>,
}
/// .
pub struct Normalised {
    /// .
    pub kind: Kind,
    /// .
    pub hits: Vec<Hit>,
    /// .
    pub error: Option<String>,
}
/// .
pub fn normalise(value: &Value, _rules: &Rules<'_>) -> Normalised {
    let hits: Vec<Hit> = value["structuredContent"]["results"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|r| Hit {
            file: r["file"].as_str().map(str::to_owned),
            symbol: r["symbol"].as_str().map(str::to_owned),
            line: r["line"].as_u64(),
            score: r["score"].as_f64(),
        })
        .collect();
    Normalised { kind: if hits.is_empty() { Kind::Empty } else { Kind::Hits }, hits, error: None }
}
