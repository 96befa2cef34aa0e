//! What all manifest tests use.

use std::path::{Path, PathBuf};

use proofline::plan::compile::{Catalog, Outcome, Request, compile};

/// The package's folder: shipped files lie in it as in a project.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Graders and engines as the shipped pipelines need them, and two layers that may not mix.
pub(crate) fn catalog() -> Catalog {
    let grader = |name: &str, layer: &str, metrics: &[&str]| {
        let metrics = metrics.iter().map(|m| ((*m).to_owned(), layer.to_owned())).collect();
        (name.to_owned(), metrics)
    };
    Catalog {
        graders: [
            grader(
                "ranking",
                "retrieval",
                &["hit@1", "hit@3", "hit@5", "hit@10", "symbol_hit@5", "mrr", "map"],
            ),
            grader("latency", "retrieval", &["latency_p50_ms", "latency_p95_ms", "latency_p95_s", "calls"]),
            grader("resources", "retrieval", &["ingest_s", "rss_mib", "index_mib", "footprint"]),
            grader("fair", "fairness", &["keyword_coverage"]),
            grader("usage", "adoption", &["tool_fluency"]),
            grader("checks", "fairness", &["keyword_coverage"]),
            grader("citations", "fairness", &["citation_grounding", "hallucination_rate"]),
            grader("gold", "fairness", &["gold_cited"]),
            grader("whole", "mixed", &["completeness"]),
            grader("accuracy", "fairness", &["accuracy"]),
            grader("efficiency", "fairness", &["efficiency"]),
            grader("judge", "fairness", &["llm_quality"]),
            grader("adoption", "adoption", &["tool_fluency", "discoverability"]),
        ]
        .into_iter()
        .collect(),
        of_answers: ["checks", "citations", "gold", "accuracy", "efficiency", "adoption"]
            .map(str::to_owned)
            .into(),
        costs: [
            "latency_p50_ms",
            "latency_p95_ms",
            "latency_p95_s",
            "calls",
            "footprint",
            "hallucination_rate",
        ]
        .map(str::to_owned)
        .into(),
        engines: ["grep", "bm25", "symbols", "hybrid", "embed"].map(str::to_owned).to_vec(),
    }
}

/// Compiles a pipeline with these `--set`s, from `cwd`.
pub(crate) fn compiled(cwd: &Path, pipeline: &str, sets: &[(&str, &str)]) -> Outcome {
    let sets = sets.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    compile(&Request {
        pipeline: pipeline.to_owned(),
        sets,
        cwd: cwd.to_owned(),
        catalog: catalog(),
        only_checked: false,
    })
}
