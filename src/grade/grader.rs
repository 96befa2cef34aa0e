//! The registry of graders: what each reads and which metrics it gives.

use crate::artifact::part;
use crate::manifest::pipeline::Kind;

/// A part that a grader reads, and the kind of stage whose (read) artifact holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartNeed {
    /// Kind of stage.
    pub of: Kind,
    /// Name of the part.
    pub part: &'static str,
}

/// One grader.
#[derive(Clone, Copy, Debug)]
pub struct GraderDef {
    /// Name as manifests use it.
    pub name: &'static str,
    /// Version; bumped when its numbers change for equal inputs. In the recipe.
    pub version: u32,
    /// Parts that it reads. In the recipe by their digests.
    pub parts: &'static [PartNeed],
    /// Metrics that it gives.
    pub metrics: &'static [&'static str],
    /// Fields of a task that it reads. In the recipe by their values.
    pub task_fields: &'static [&'static str],
    /// What it does, in one line.
    pub about: &'static str,
}

/// What stands for judge stages among the graders; no grade stage may name it.
pub const JUDGE: &str = "judge";

const RESULTS: PartNeed = PartNeed { of: Kind::Session, part: part::RESULTS };
const TIMING: PartNeed = PartNeed { of: Kind::Session, part: part::TIMING };
const TRANSCRIPT: PartNeed = PartNeed { of: Kind::Session, part: part::TRANSCRIPT };
const INGEST: PartNeed = PartNeed { of: Kind::Ingest, part: part::INGEST };

static GRADERS: [GraderDef; 10] = [
    GraderDef {
        name: "ranking",
        version: 2,
        parts: &[RESULTS],
        metrics: &[
            "hit@1",
            "hit@3",
            "hit@5",
            "hit@10",
            "symbol_hit@5",
            "mrr",
            "map",
            "ndcg@10",
            "recall@10",
            "precision@10",
            "calls",
        ],
        task_fields: &["kind", "difficulty", "prompt", "files", "symbols", "mentions"],
        about: "where in the list of results the expected files and symbols are",
    },
    GraderDef {
        name: "latency",
        version: 2,
        parts: &[TIMING, RESULTS],
        metrics: &["latency_p50_ms", "latency_p95_ms", "latency_p99_ms", "latency_p95_s"],
        task_fields: &["kind", "difficulty"],
        about: "time per question over successful calls",
    },
    GraderDef {
        name: "resources",
        version: 1,
        parts: &[INGEST, TIMING],
        metrics: &["ingest_s", "rss_mib", "index_mib", "footprint"],
        task_fields: &[],
        about: "what indexing and answering cost: time, memory, disk",
    },
    GraderDef {
        name: "accuracy",
        version: 2,
        parts: &[TRANSCRIPT],
        metrics: &["accuracy", "file_accuracy", "symbol_accuracy", "file_precision"],
        task_fields: &[],
        about: "whether an answer names the expected files and symbols of its question",
    },
    GraderDef {
        name: "checks",
        version: 2,
        parts: &[TRANSCRIPT],
        metrics: &["keyword_coverage", "step_avg_score", "completeness"],
        task_fields: &[],
        about: "the checks of a scenario's steps",
    },
    GraderDef {
        name: "citations",
        version: 2,
        parts: &[TRANSCRIPT],
        metrics: &["citation_grounding", "hallucination_rate"],
        task_fields: &[],
        about: "what an answer cites, held against the corpus",
    },
    GraderDef {
        name: "gold",
        version: 2,
        parts: &[TRANSCRIPT],
        metrics: &["gold_mentioned", "gold_cited", "gold_at_line"],
        task_fields: &[],
        about: "recall over what a scenario says must be found",
    },
    GraderDef {
        name: "efficiency",
        version: 4,
        parts: &[TRANSCRIPT],
        metrics: &[
            "efficiency",
            "efficiency_billed",
            "tokens",
            "tokens_priced",
            "cost_usd",
            "wall_s",
            "turns",
            "tool_calls",
        ],
        task_fields: &[],
        about: "tokens, money and time against the ceilings of a scenario",
    },
    GraderDef {
        name: "adoption",
        version: 3,
        parts: &[TRANSCRIPT],
        metrics: &[
            "tool_fluency",
            "discoverability",
            "server_used",
            "server_calls",
            "server_failed",
            "native_lookups",
        ],
        task_fields: &[],
        about: "how much of a session's look-ups its server did",
    },
    // Given by judge stages, not by a grade stage.
    GraderDef {
        name: JUDGE,
        version: 1,
        parts: &[],
        metrics: &["llm_quality"],
        task_fields: &[],
        about: "a judge's scores by a rubric",
    },
];

/// Every grader, by name.
pub fn graders() -> &'static [GraderDef] {
    &GRADERS
}

/// The grader of this name.
pub fn grader(name: &str) -> Option<&'static GraderDef> {
    GRADERS.iter().find(|g| g.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grade::metric::{metric, metrics};

    #[test]
    fn graders_and_metrics_cover_each_other() {
        for g in graders() {
            for m in g.metrics {
                assert!(metric(m).is_some(), "{m}");
            }
        }
        for m in metrics() {
            assert_eq!(graders().iter().filter(|g| g.metrics.contains(&m.name)).count(), 1, "{}", m.name);
        }
        assert!(grader("nothing").is_none());
    }
}
