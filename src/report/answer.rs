//! The sentences that answer the question: who leads, how sure, at what cost.

use serde_json::Value;

use super::text::{counted, number, plain, quantity};

/// One arm of a result.
#[derive(Clone, Copy)]
pub(super) struct Arm<'a>(pub(super) &'a Value);

impl<'a> Arm<'a> {
    /// Arms in the order of the ranking, arms that it lacks after them.
    pub(super) fn ranked(result: &'a Value) -> Vec<Self> {
        let arms = result["arms"].as_array().map(Vec::as_slice).unwrap_or_default();
        let place = |arm: &Value| {
            result["ranking"].as_array().into_iter().flatten().position(|r| r["arm"] == arm["arm"])
        };
        let mut out: Vec<Self> = arms.iter().map(Self).collect();
        out.sort_by_key(|arm| place(arm.0).unwrap_or(usize::MAX));
        out
    }

    pub(super) fn name(self) -> String {
        self.0["arm"].as_str().map_or_else(|| "all".to_owned(), plain)
    }

    pub(super) fn metric(self, name: &str) -> &'a Value {
        &self.0["metrics"][name]
    }

    pub(super) fn value(self, name: &str) -> Option<f64> {
        self.metric(name)["value"].as_f64()
    }
}

/// The sentences, in the order in which they are asked for.
pub(super) fn sentences(result: &Value) -> Vec<String> {
    let arms = Arm::ranked(result);
    let mut out = Vec::new();
    let labels: Vec<String> =
        result["labels"].as_array().into_iter().flatten().filter_map(Value::as_str).map(plain).collect();
    if !labels.is_empty() {
        out.push(format!("No agent was asked in this run. Its answers: {}.", labels.join("; ")));
    }
    if let Some(by) = result["ranked_by"].as_str() {
        out.push(lead(&arms, by));
        out.extend(sure(&arms, by));
    } else {
        out.push("No composite is declared, so arms are not ranked.".to_owned());
    }
    out.extend(cost(&arms));
    out.push(cells(result));
    out
}

fn lead(arms: &[Arm<'_>], by: &str) -> String {
    let mut scored = arms.iter().filter_map(|arm| Some((arm, arm.value(by)?)));
    let Some((first, best)) = scored.next() else {
        let why = arms.first().and_then(|a| a.metric(by)["why"].as_str()).unwrap_or("not estimable");
        return format!("No arm has a number for {}: {}.", plain(by), plain(why));
    };
    let floor = first.0["floor"][by]
        .as_f64()
        .map(|f| format!(" An engine that finds nothing reaches {}.", number(Some(f), 3)))
        .unwrap_or_default();
    let by = plain(by);
    let best_text = number(Some(best), 3);
    match scored.next() {
        None => format!("{}: {by} {best_text}, with no arm to compare.{floor}", first.name()),
        Some((second, next)) if number(Some(next), 3) == best_text => {
            format!("{} and {} are level: {by} {best_text}.{floor}", first.name(), second.name())
        }
        Some((second, next)) => format!(
            "{} leads: {by} {best_text}, {} above {} ({}).{floor}",
            first.name(),
            number(Some(best - next), 3),
            second.name(),
            number(Some(next), 3),
        ),
    }
}

/// How much the numbers move, and whether the lead stands out.
fn sure(arms: &[Arm<'_>], by: &str) -> Vec<String> {
    let mut out = Vec::new();
    let replicates = arms
        .iter()
        .flat_map(|a| a.0["metrics"].as_object().into_iter().flatten())
        .filter_map(|(_, m)| m["replicates"].as_array().map(Vec::len))
        .max()
        .unwrap_or(0);
    let same: Vec<String> = arms.iter().filter(|a| a.0["identical"] == true).map(|a| a.name()).collect();
    let spread = arms
        .iter()
        .filter_map(|a| a.metric(by)["cv"].as_f64())
        .fold(None, |m: Option<f64>, v| Some(m.map_or(v, |m| m.max(v))));
    let said = if replicates < 2 {
        ": how much the numbers move is not known".to_owned()
    } else if !same.is_empty() && same.len() == arms.len() {
        ", identical in every measure of quality: deterministic engines".to_owned()
    } else if same.is_empty() {
        String::new()
    } else {
        format!(", identical in quality for {}", listed(&same))
    };
    let moves = spread
        .map(|cv| format!("; {} varies by at most {} % (CV)", plain(by), number(Some(cv * 100.0), 1)))
        .unwrap_or_default();
    out.push(format!("{}{said}{moves}.", counted(replicates as u64, "replicate", "replicates")));
    out.extend(overlap(arms, by));
    out
}

/// Whether the descriptive intervals of the first two overlap.
fn overlap(arms: &[Arm<'_>], by: &str) -> Option<String> {
    let mut scored = arms.iter().filter(|arm| arm.value(by).is_some());
    let (first, second) = (scored.next()?, scored.next()?);
    let ends = |arm: &Arm<'_>| {
        let i = &arm.metric("hit@5")["interval"];
        Some((i["low"].as_f64()?, i["high"].as_f64()?))
    };
    let ((a_low, a_high), (b_low, b_high)) = (ends(first)?, ends(second)?);
    let shown = |arm: &Arm<'_>, low, high| {
        format!(
            "{} [{}, {}] for {}",
            number(arm.value("hit@5"), 3),
            number(Some(low), 2),
            number(Some(high), 2),
            arm.name()
        )
    };
    let n = first.metric("hit@5")["n"].as_u64().unwrap_or(0);
    let apart = a_low > b_high || b_low > a_high;
    Some(format!(
        "Hit@5 over {}: {}, {}; {}.",
        counted(n, "question", "questions"),
        shown(first, a_low, a_high),
        shown(second, b_low, b_high),
        if apart { "these intervals do not overlap" } else { "these intervals overlap: no winner is shown" },
    ))
}

/// What the leader costs, and the arm behind it.
fn cost(arms: &[Arm<'_>]) -> Option<String> {
    let of = |arm: &Arm<'_>| -> Option<String> {
        let parts: Vec<String> = [
            ("latency_p95_ms", "95 % of questions within ", " ms"),
            ("ingest_s", "indexing ", " s"),
            ("rss_mib", "memory ", " MiB"),
            ("index_mib", "index ", " MiB"),
        ]
        .into_iter()
        .filter_map(|(metric, before, after)| {
            let value = arm.value(metric)?;
            Some(format!("{before}{}{after}", quantity(Some(value))))
        })
        .collect();
        (!parts.is_empty()).then(|| format!("{}: {}", arm.name(), parts.join(", ")))
    };
    let told: Vec<String> = arms.iter().take(2).filter_map(of).collect();
    (!told.is_empty()).then(|| format!("Cost of {}.", told.join("; of ")))
}

fn cells(result: &Value) -> String {
    let cells = &result["cells"];
    let of = |state: &str| cells[state].as_u64().unwrap_or(0);
    let incomplete = if result["complete"] == false { " The result is incomplete." } else { "" };
    format!(
        "Cells: {} planned, {} valid, {} invalid, {} in error, {} missing.{incomplete}",
        of("planned"),
        of("valid"),
        of("invalid"),
        of("error"),
        of("missing"),
    )
}

/// `a`, `a and b`, `a, b and 2 more`.
pub(super) fn listed(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [one, two] => format!("{one} and {two}"),
        [one, two, rest @ ..] => format!("{one}, {two} and {} more", rest.len()),
    }
}
