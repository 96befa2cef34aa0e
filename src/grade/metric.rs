//! The registry of metrics: what a name means and how it is pooled.

use serde::Serialize;

/// A layer of metrics; composites stay inside one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layer {
    /// What a server finds, and at what cost, without an agent.
    Retrieval,
    /// How good an answer is.
    Fairness,
    /// How much of the work the server did.
    Adoption,
    /// Both at once, as another benchmark counts it: in no composite.
    Mixed,
    /// Named by a user's own command.
    Custom,
}

/// Which way is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Larger is better.
    HigherBetter,
    /// Smaller is better.
    LowerBetter,
}

/// How the values of one replicate become one number.
///
/// Columns are those of [`crate::artifact::GradeRow::values`], node columns
/// those of [`crate::artifact::Grades::node`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pool {
    /// Mean of a column over the questions of all repositories to which it applies.
    Mean(&'static str),
    /// Percentile (0 to 100) of a column over the questions of all repositories, by linear interpolation.
    Percentile(&'static str, f64),
    /// Sum of a node column over repositories; not estimable when one of them lacks it.
    NodeSum(&'static str),
    /// Largest of a node column over repositories; not estimable when one of them lacks it.
    NodeMax(&'static str),
    /// Another metric times a factor.
    Scaled(&'static str, f64),
    /// (largest resident memory + size of all indexes) / 1000, both in MiB.
    Footprint,
}

impl Pool {
    /// The column that it is made from, where that is one of questions.
    #[must_use]
    pub fn column(&self) -> Option<&'static str> {
        match self {
            Self::Mean(column) | Self::Percentile(column, _) => Some(column),
            _ => None,
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct MetricDef {
    /// Name as manifests and reports use it.
    pub name: &'static str,
    /// Layer.
    pub layer: Layer,
    /// Which way is better.
    pub direction: Direction,
    /// Unit: `share`, `score`, `ms`, `s`, `MiB`, `calls`, `GB`.
    pub unit: &'static str,
    /// Is it read off a clock or a memory gauge? Then it differs between executions.
    pub measured: bool,
    /// How values become a number.
    pub pool: Pool,
    /// Best value that an arm which does nothing can have.
    pub idle: f64,
}

/// Column of latencies in milliseconds.
pub const LATENCY: &str = "latency_ms";
/// Node column: resident memory as the profile counts it for the footprint.
pub const FOOTPRINT_RSS: &str = "footprint_rss_mib";

const fn found(name: &'static str, column: &'static str, unit: &'static str) -> MetricDef {
    MetricDef {
        name,
        layer: Layer::Retrieval,
        direction: Direction::HigherBetter,
        unit,
        measured: false,
        pool: Pool::Mean(column),
        idle: 0.0,
    }
}

const fn cost(name: &'static str, unit: &'static str, pool: Pool) -> MetricDef {
    MetricDef {
        name,
        layer: Layer::Retrieval,
        direction: Direction::LowerBetter,
        unit,
        measured: true,
        pool,
        idle: 0.0,
    }
}

/// About an answer; the column has the metric's name.
const fn answer(name: &'static str, unit: &'static str) -> MetricDef {
    MetricDef { layer: Layer::Fairness, ..found(name, name, unit) }
}

/// About the use of tools.
const fn tools(name: &'static str, unit: &'static str) -> MetricDef {
    MetricDef { layer: Layer::Adoption, ..found(name, name, unit) }
}

/// What an answer cost: smaller is better.
const fn spent(name: &'static str, unit: &'static str) -> MetricDef {
    MetricDef { direction: Direction::LowerBetter, ..answer(name, unit) }
}

/// Every metric that a grader or judge of ours can give, in the order of reports.
static METRICS: [MetricDef; 46] = [
    found("hit@1", "hit@1", "share"),
    found("hit@3", "hit@3", "share"),
    found("hit@5", "hit@5", "share"),
    found("hit@10", "hit@10", "share"),
    found("symbol_hit@5", "symbol_hit@5", "share"),
    found("mrr", "rr", "score"),
    found("map", "ap", "score"),
    found("ndcg@10", "ndcg@10", "score"),
    found("recall@10", "recall@10", "share"),
    found("precision@10", "precision@10", "share"),
    // An engine that finds nothing has been asked all the same: at least one call.
    MetricDef { measured: false, idle: 1.0, ..cost("calls", "calls", Pool::Mean("calls")) },
    cost("latency_p50_ms", "ms", Pool::Percentile(LATENCY, 50.0)),
    cost("latency_p95_ms", "ms", Pool::Percentile(LATENCY, 95.0)),
    cost("latency_p99_ms", "ms", Pool::Percentile(LATENCY, 99.0)),
    cost("latency_p95_s", "s", Pool::Scaled("latency_p95_ms", 0.001)),
    cost("ingest_s", "s", Pool::NodeSum("ingest_s")),
    cost("rss_mib", "MiB", Pool::NodeMax("rss_mib")),
    cost("index_mib", "MiB", Pool::NodeSum("index_mib")),
    cost("footprint", "GB", Pool::Footprint),
    answer("accuracy", "share"),
    answer("file_accuracy", "share"),
    answer("symbol_accuracy", "share"),
    answer("file_precision", "share"),
    answer("keyword_coverage", "share"),
    answer("llm_quality", "score"),
    answer("citation_grounding", "share"),
    spent("hallucination_rate", "share"),
    answer("gold_mentioned", "share"),
    answer("gold_cited", "share"),
    answer("gold_at_line", "share"),
    answer("efficiency", "score"),
    answer("efficiency_billed", "score"),
    answer("step_avg_score", "score"),
    // Checks of adoption count in it too.
    MetricDef { layer: Layer::Mixed, ..answer("completeness", "score") },
    spent("tokens", "tokens"),
    spent("tokens_priced", "tokens"),
    spent("cost_usd", "USD"),
    spent("wall_s", "s"),
    spent("turns", "turns"),
    spent("tool_calls", "calls"),
    tools("tool_fluency", "share"),
    tools("discoverability", "share"),
    tools("server_used", "share"),
    tools("server_calls", "calls"),
    MetricDef { direction: Direction::LowerBetter, ..tools("server_failed", "share") },
    MetricDef { direction: Direction::LowerBetter, ..tools("native_lookups", "calls") },
];

/// Every metric that a grader of ours can give, in the order of reports.
pub fn metrics() -> &'static [MetricDef] {
    &METRICS
}

/// The metric of this name.
pub fn metric(name: &str) -> Option<&'static MetricDef> {
    METRICS.iter().find(|m| m.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_derived_metrics_exist() {
        for (i, m) in METRICS.iter().enumerate() {
            assert_eq!(METRICS.iter().position(|n| n.name == m.name), Some(i), "{}", m.name);
            if let Pool::Scaled(of, _) = m.pool {
                assert!(metric(of).is_some(), "{of}");
            }
        }
    }
}
