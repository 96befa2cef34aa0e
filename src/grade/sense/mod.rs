//! Profile `sense`: answers scored exactly as the Sense benchmark scores them,
//! faults included (they are listed in `docs/profiles.md`).
//!
//! [`score`] makes what its scorer writes to `scored.json`. Rules, formulas
//! and their deviations are those of the published scorer at its commit
//! `74576321`.

mod checks;
pub mod citations;
mod fluency;
pub mod gold;
mod python;
pub mod session;

use serde_json::{Map, Value, json};

use checks::Answer;
use citations::{Checker, Checkout, Citation, Verdict};
use fluency::Counts;
use session::{Session, Tokens};

/// A scenario as the scorer sees it.
#[derive(Clone, Debug, Default)]
pub struct Scenario {
    /// Its name.
    pub name: String,
    /// Name of its repository.
    pub repo: String,
    /// Steps in order.
    pub steps: Vec<Step>,
    /// The must-find set.
    pub gold: Vec<Gold>,
}

/// A step.
#[derive(Clone, Debug, Default)]
pub struct Step {
    /// Its name.
    pub name: String,
    /// Its checks.
    pub checks: Vec<Check>,
}

/// A check.
#[derive(Clone, Debug)]
pub struct Check {
    /// Its type by the reference's name.
    pub kind: String,
    /// What it looks for.
    pub value: String,
    /// Whether it counts in full.
    pub required: bool,
    /// Which layer it belongs to: anything but [`ADOPTION`] is about the answer.
    pub layer: String,
}

/// Layer of checks about the use of tools.
pub const ADOPTION: &str = "adoption";

/// A row of the must-find set.
#[derive(Clone, Debug, Default)]
pub struct Gold {
    /// Label: a text, or what else stands there.
    pub id: Value,
    /// Bucket, likewise.
    pub group: Value,
    /// Texts of which one must occur.
    pub matches: Vec<String>,
}

/// What is known of a run beside its transcript.
#[derive(Clone, Debug, Default)]
pub struct Meta {
    /// Name of the tool, after which the reference calls the folder of its clones.
    pub tool: Option<String>,
    /// Error that its runner wrote down.
    pub error: Option<String>,
    /// Seconds that its runner measured.
    pub wall: Option<f64>,
    /// What setting the tool up cost: the reference's `onboarding-overhead.json`.
    pub overhead: Option<Value>,
}

/// A scored run.
#[derive(Clone, Debug)]
pub struct Scored {
    /// The file `scored.json` as a value, keys in the reference's order.
    pub value: Value,
    /// Citations in their order with what came of each.
    pub citations: Vec<(Citation, Verdict)>,
}

impl Scored {
    /// The bytes of `scored.json`.
    #[must_use]
    pub fn file(&self) -> String {
        python::dump(&self.value)
    }
}

/// Tokens and seconds at which efficiency is 0.
fn ceilings(repo: &str) -> (u64, u64) {
    match repo {
        "flask" | "gin" => (15_000, 320),
        "javalin" => (15_000, 480),
        "axum" => (20_000, 480),
        "nextjs" => (40_000, 720),
        "dolt" | "pebble" => (30_000, 300),
        _ => (30_000, 480),
    }
}

/// Files that a session should name for full discoverability.
const FILES: f64 = 20.0;
/// Most examples that a block of citations shows per bucket.
const EXAMPLES: usize = 5;

/// Scores a run: its transcript's bytes, what its runner wrote down, and the checkout at its
/// commit where there is one.
#[must_use]
pub fn score(scenario: &Scenario, transcript: &[u8], meta: &Meta, checkout: Option<&dyn Checkout>) -> Scored {
    let session = session::read(transcript);
    let error = meta.error.as_deref().filter(|error| !error.is_empty());
    if let Some(reason) = error
        && session.answer.is_empty()
    {
        return Scored { value: failed(scenario, reason, &session, meta), citations: Vec::new() };
    }
    let cited = citations::extract(&session.answer);
    let answer = Answer::new(&session, &cited);
    let mut out = Map::new();
    let steps: Vec<StepScore> = scenario.steps.iter().map(|step| StepScore::of(step, &answer)).collect();
    let counts = Counts::of(&session.calls);
    let fluency = python::round(counts.fluency(), 4);
    let found = python::round((as_f64(answer.files) / FILES).min(1.0), 4);
    let adoption = 0.60 * counts.fluency() + 0.40 * (as_f64(answer.files) / FILES).min(1.0);
    let cost = Cost::of(scenario, &session, meta);
    out.insert("scenario".to_owned(), json!(scenario.name));
    out.insert("repo".to_owned(), json!(scenario.repo));
    out.insert("adoption_score".to_owned(), json!(python::round(adoption, 4)));
    out.insert("keyword_coverage".to_owned(), json!(coverage(&steps)));
    let mean = |of: fn(&StepScore) -> f64| {
        #[expect(clippy::cast_precision_loss, reason = "steps are few")]
        let count = steps.len().max(1) as f64;
        python::round(steps.iter().map(of).sum::<f64>() / count, 4)
    };
    out.insert("step_avg_score".to_owned(), json!(mean(|step| step.fairness.score())));
    out.insert("efficiency".to_owned(), json!(cost.efficiency));
    out.insert("completeness".to_owned(), json!(mean(|step| step.all.score())));
    out.insert("tool_fluency".to_owned(), json!(fluency));
    out.insert("discoverability".to_owned(), json!(found));
    let citations = verdicts(cited, checkout, scenario, meta);
    out.insert("citation_grounding".to_owned(), grounding(&citations, checkout.is_some()));
    // What is no UTF-8 is left out here, as there.
    let valid = || transcript.utf8_chunks().map(|chunk| chunk.valid()).collect::<String>();
    let transcript = checkout.map(|_| valid().to_lowercase());
    let beside = checkout
        .zip(transcript.as_deref())
        .map(|(checkout, transcript)| gold::Beside { transcript, files: checkout.files() });
    out.insert("gold_recall".to_owned(), gold::recall(&scenario.gold, answer.lower(), beside));
    out.insert("steps".to_owned(), steps.into_iter().map(|step| step.value).collect());
    out.insert("misses".to_owned(), fluency::misses(&session.calls));
    out.insert("metrics".to_owned(), cost.metrics(&session, counts, meta));
    if let Some(reason) = error {
        out.insert("failed".to_owned(), json!(false));
        out.insert("constrained".to_owned(), json!(true));
        out.insert("constraint_reason".to_owned(), json!(reason));
    }
    Scored { value: Value::Object(out), citations }
}

#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn as_f64(count: u64) -> f64 {
    count as f64
}

/// Hits among required and other checks.
#[derive(Clone, Copy, Debug, Default)]
struct Hits {
    required: [u64; 2],
    bonus: [u64; 2],
}

impl Hits {
    fn count(&mut self, required: bool, hit: bool) {
        let pair = if required { &mut self.required } else { &mut self.bonus };
        pair[0] += u64::from(hit);
        pair[1] += 1;
    }

    fn points(self) -> [f64; 2] {
        [0, 1].map(|at| as_f64(self.required[at]) + 0.5 * as_f64(self.bonus[at]))
    }

    /// Points of those to be had, at least one.
    fn score(self) -> f64 {
        let [had, most] = self.points();
        python::round(had / most.max(1.0), 4)
    }
}

struct StepScore {
    all: Hits,
    fairness: Hits,
    value: Value,
}

impl StepScore {
    fn of(step: &Step, answer: &Answer<'_>) -> Self {
        let (mut all, mut fairness) = (Hits::default(), Hits::default());
        let mut checks = Vec::new();
        for check in &step.checks {
            let (hit, value) = answer.check(check);
            checks.push(value);
            all.count(check.required, hit);
            if check.layer != ADOPTION {
                fairness.count(check.required, hit);
            }
        }
        let share = |[had, most]: [u64; 2], none: f64| {
            if most == 0 { none } else { python::round(as_f64(had) / as_f64(most), 4) }
        };
        let value = json!({
            "name": step.name,
            "checks": checks,
            "hits_required": all.required[0],
            "total_required": all.required[1],
            "hits_bonus": all.bonus[0],
            "total_bonus": all.bonus[1],
            "fairness_hits_required": fairness.required[0],
            "fairness_total_required": fairness.required[1],
            "fairness_hits_bonus": fairness.bonus[0],
            "fairness_total_bonus": fairness.bonus[1],
            "score_required": share(all.required, 1.0),
            "score_bonus": share(all.bonus, 0.0),
            "combined_score": all.score(),
            "fairness_score": fairness.score(),
        });
        Self { all, fairness, value }
    }
}

/// Fairness points of all steps over those to be had.
fn coverage(steps: &[StepScore]) -> f64 {
    let sum = |at: usize| steps.iter().map(|step| step.fairness.points()[at]).sum::<f64>();
    let most = sum(1);
    if most == 0.0 { 1.0 } else { python::round(sum(0) / most, 4) }
}

fn verdicts(
    cited: Vec<Citation>,
    checkout: Option<&dyn Checkout>,
    scenario: &Scenario,
    meta: &Meta,
) -> Vec<(Citation, Verdict)> {
    let at_home = |checkout| Checker::new(checkout).at_home(meta.tool.as_deref(), &scenario.repo);
    let mut checker = checkout.map(at_home);
    let mut verdict = |citation: &Citation| match &mut checker {
        Some(checker) => checker.check(citation),
        None => Verdict {
            status: citations::Status::CannotCheck,
            reason: "there is no checkout of the repository".to_owned(),
            path: None,
        },
    };
    cited
        .into_iter()
        .map(|citation| {
            let verdict = verdict(&citation);
            (citation, verdict)
        })
        .collect()
}

/// The block `citation_grounding`.
fn grounding(citations: &[(Citation, Verdict)], checked: bool) -> Value {
    let statuses =
        [citations::Status::Grounded, citations::Status::Unresolved, citations::Status::Hallucinated];
    let count = |status| citations.iter().filter(|(_, verdict)| verdict.status == status).count();
    let mut out = Map::new();
    out.insert("total".to_owned(), json!(citations.len()));
    for status in statuses {
        out.insert(status.as_str().to_owned(), json!(count(status)));
    }
    #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
    let rate = match citations.len() {
        0 => 0.0,
        all => python::round(count(citations::Status::Grounded) as f64 / all as f64, 4),
    };
    out.insert("rate".to_owned(), json!(rate));
    if !checked {
        out.insert("skipped".to_owned(), json!("repo_path missing or not a directory"));
    }
    let examples = statuses.map(|status| {
        let of = citations.iter().filter(|(_, verdict)| verdict.status == status).take(EXAMPLES);
        let text = |(cited, verdict): &(Citation, Verdict)| {
            format!("{}:{} ({})", cited.file, cited.locator, verdict.reason)
        };
        (status.as_str().to_owned(), json!(of.map(text).collect::<Vec<_>>()))
    });
    out.insert("examples".to_owned(), Value::Object(examples.into_iter().collect()));
    let details: Vec<Value> = citations
        .iter()
        .map(|(cited, verdict)| {
            json!({
                "file": cited.file,
                "locator": cited.locator,
                "status": verdict.status.as_str(),
                "reason": verdict.reason,
            })
        })
        .collect();
    out.insert("details".to_owned(), json!(details));
    Value::Object(out)
}

/// What a run cost against its ceilings.
struct Cost {
    ceilings: (u64, u64),
    wall: f64,
    billed: u64,
    effective_wall: f64,
    token_efficiency: f64,
    time_efficiency: f64,
    efficiency: f64,
}

impl Cost {
    fn of(scenario: &Scenario, session: &Session, meta: &Meta) -> Self {
        let ceilings = ceilings(&scenario.repo);
        let wall = python::round(session.duration_ms / 1000.0, 1);
        let over = |name: &str| meta.overhead.as_ref().and_then(|o| o.get(name));
        let more = over("token_total_billed").and_then(Value::as_u64).unwrap_or_default();
        let billed = session.tokens.billed().saturating_add(more);
        let effective_wall = wall + over("wall_time_seconds").and_then(Value::as_f64).unwrap_or_default();
        let left = |used: f64, ceiling: u64| {
            if used > 0.0 { (1.0 - used / as_f64(ceiling)).max(0.0) } else { 0.0 }
        };
        let (tokens, time) = (left(as_f64(billed), ceilings.0), left(effective_wall, ceilings.1));
        Self {
            ceilings,
            wall,
            billed,
            effective_wall,
            token_efficiency: python::round(tokens, 4),
            time_efficiency: python::round(time, 4),
            efficiency: python::round(0.5 * tokens + 0.5 * time, 4),
        }
    }

    fn metrics(&self, session: &Session, counts: Counts, meta: &Meta) -> Value {
        // A run that was cut and told no cost: what its messages say, while efficiency stays as it was.
        let cut = meta.error.as_deref().is_some_and(|error| !error.is_empty()) && session.cost.is_none();
        let tokens = if cut { session.partial } else { session.tokens };
        let wall = if cut { meta.wall.unwrap_or(self.wall) } else { self.wall };
        let cost = if cut { Some(tokens.estimate()) } else { session.cost };
        let mut out = usage(session.calls.len() as u64, counts, tokens, wall);
        out.insert("cost_usd".to_owned(), json!(cost.map(|cost| python::round(cost, 4))));
        out.insert("effective_token_total_billed".to_owned(), json!(self.billed));
        out.insert("effective_wall_time_seconds".to_owned(), json!(self.effective_wall));
        out.insert("efficiency_ceiling".to_owned(), json!(self.ceilings.0));
        out.insert("time_ceiling_seconds".to_owned(), json!(self.ceilings.1));
        out.insert("token_efficiency".to_owned(), json!(self.token_efficiency));
        out.insert("time_efficiency".to_owned(), json!(self.time_efficiency));
        out.insert("answer_chars".to_owned(), json!(session.answer.chars().count()));
        out.insert("audit_chars".to_owned(), json!(session.audit_chars));
        out.insert("overhead".to_owned(), json!(meta.overhead));
        if cut {
            out.insert("cost_estimated".to_owned(), json!(true));
        }
        Value::Object(out)
    }
}

fn usage(calls: u64, counts: Counts, tokens: Tokens, wall: f64) -> Map<String, Value> {
    let fields: [(&str, Value); 11] = [
        ("tool_calls", json!(calls)),
        ("grep_count", json!(counts.grep)),
        ("read_count", json!(counts.read)),
        ("mcp_count", json!(counts.mcp)),
        ("token_input_uncached", json!(tokens.input)),
        ("token_output", json!(tokens.output)),
        ("token_cache_read", json!(tokens.cache_read)),
        ("token_cache_write", json!(tokens.cache_write)),
        ("token_total_billed", json!(tokens.billed())),
        ("token_total_all", json!(tokens.all())),
        ("wall_time_seconds", json!(wall)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A run whose runner wrote an error down and that said nothing: every score 0.
fn failed(scenario: &Scenario, reason: &str, session: &Session, meta: &Meta) -> Value {
    let tokens = session.partial;
    let mut metrics = usage(0, Counts::default(), tokens, meta.wall.unwrap_or_default());
    metrics.insert("cost_usd".to_owned(), json!(python::round(tokens.estimate(), 4)));
    metrics.insert("cost_estimated".to_owned(), json!(true));
    metrics.insert("efficiency_ceiling".to_owned(), json!(ceilings(&scenario.repo).0));
    json!({
        "scenario": scenario.name,
        "repo": scenario.repo,
        "failed": true,
        "failure_reason": reason,
        "adoption_score": 0.0,
        "keyword_coverage": 0.0,
        "step_avg_score": 0.0,
        "efficiency": 0.0,
        "completeness": 0.0,
        "tool_fluency": 0.0,
        "discoverability": 0.0,
        "steps": [],
        "misses": {},
        "metrics": metrics,
    })
}
