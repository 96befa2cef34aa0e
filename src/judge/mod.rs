//! Judges: what their replies say, and what they come to.
//!
//! A reply is one JSON object with a score and a rationale per criterion;
//! prose around it is passed over. One that lacks a criterion or has a score
//! out of range is no reply: the next one of the step counts, at most
//! [`ATTEMPTS`] in all, and a step without a usable reply is unscored.

pub mod sense;

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::artifact::{JudgedStep, Judgement};
use crate::manifest::rubric::{Rubric, RubricStep};

/// Version of these rules; raised when a judgement changes for equal replies.
pub const VERSION: u32 = 1;
/// Replies of a step that are looked at: the first and one that was asked for again.
pub const ATTEMPTS: usize = 2;

/// One line of a file of replies.
#[derive(Deserialize)]
struct Line {
    /// Name of the step.
    step: String,
    /// The judge's words.
    reply: String,
    /// The judge.
    #[serde(default)]
    judge: Option<String>,
}

/// What replies come to by a rubric.
///
/// They are lines of `{"step", "reply"}`, or a file `judged.json` of the Sense benchmark.
#[must_use]
pub fn read(bytes: &[u8], rubric: &Rubric) -> Judgement {
    let text = String::from_utf8_lossy(bytes);
    if text.trim().is_empty() {
        return Judgement { why: Some("there are no replies".to_owned()), ..Judgement::default() };
    }
    let mut out = match serde_json::from_str::<Value>(&text) {
        Ok(judged) if judged["steps"].is_array() => stored(&judged, rubric),
        _ => lines(&text, rubric),
    };
    let scored: Vec<f64> = out.steps.iter().filter_map(|step| step.quality).collect();
    if scored.len() == rubric.step.len() && !scored.is_empty() {
        #[expect(clippy::cast_precision_loss, reason = "steps are few")]
        let mean = scored.iter().sum::<f64>() / scored.len() as f64;
        out.quality = Some(mean);
    } else if out.why.is_none() {
        let without = rubric.step.len() - scored.len();
        out.why = Some(format!("{without} of {} steps have no usable reply", rubric.step.len()));
    }
    out
}

fn lines(text: &str, rubric: &Rubric) -> Judgement {
    let mut out = Judgement::default();
    let mut by_step: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let names: Vec<&str> = rubric.step.iter().map(|step| step.name.as_str()).collect();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let Ok(line) = serde_json::from_str::<Line>(line) else {
            out.replies += 1;
            out.unreadable += 1;
            continue;
        };
        out.judge = line.judge.or(out.judge);
        if let Some(name) = names.iter().find(|name| **name == line.step) {
            by_step.entry(name).or_default().push(line.reply);
        }
    }
    for step in &rubric.step {
        let mut judged = JudgedStep { name: step.name.clone(), ..JudgedStep::default() };
        for reply in by_step.get(step.name.as_str()).into_iter().flatten().take(ATTEMPTS) {
            out.replies += 1;
            let Some(scores) = scores(reply, step) else {
                out.unreadable += 1;
                continue;
            };
            judged.quality = weighted(&scores, step);
            judged.scores = scores;
            break;
        }
        out.steps.push(judged);
    }
    out
}

/// Scores of a reply; none when it is no usable one.
fn scores(reply: &str, step: &RubricStep) -> Option<BTreeMap<String, (Option<f64>, String)>> {
    let from = reply.find('{')?;
    let value = serde_json::Deserializer::from_str(&reply[from..]).into_iter::<Value>().next()?.ok()?;
    let of = |name: &String| {
        let score = value["scores"][name]["score"].as_f64().filter(|score| (0.0..=1.0).contains(score))?;
        let rationale = value["scores"][name]["rationale"].as_str().unwrap_or_default().to_owned();
        Some((name.clone(), (Some(score), rationale)))
    };
    step.criteria.keys().map(of).collect()
}

/// The weighted sum of scores; none when one is missing.
fn weighted(scores: &BTreeMap<String, (Option<f64>, String)>, step: &RubricStep) -> Option<f64> {
    step.criteria
        .iter()
        .try_fold(0.0, |sum, (name, criterion)| Some(sum + criterion.weight * scores.get(name)?.0?))
}

/// Judgements that another program has read: scores by step, in the rubric's order.
fn stored(judged: &Value, rubric: &Rubric) -> Judgement {
    let judge = judged["judge"]["model"].as_str().map(str::to_owned);
    let mut out = Judgement { judge, ..Judgement::default() };
    if let Some(reason) = judged["judge"]["skipped_reason"].as_str() {
        out.why = Some(format!("it was not judged: {reason}"));
        return out;
    }
    let steps = judged["steps"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (at, step) in rubric.step.iter().enumerate() {
        let found = steps.get(at).filter(|found| found["step"].as_str().is_none_or(|name| name == step.name));
        let mut scores = BTreeMap::new();
        for name in step.criteria.keys() {
            let of = found.map(|found| &found["scores"][name]);
            let score = of.and_then(|of| of["score"].as_f64()).filter(|score| (0.0..=1.0).contains(score));
            let rationale = of.and_then(|of| of["rationale"].as_str()).unwrap_or_default();
            scores.insert(name.clone(), (score, rationale.to_owned()));
        }
        out.replies += u64::from(found.is_some());
        let failed = found.is_some_and(|found| found["error"].is_string());
        out.unreadable += u64::from(failed);
        let quality = if failed { None } else { weighted(&scores, step) };
        out.steps.push(JudgedStep { name: step.name.clone(), scores, quality });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::rubric::Criterion;

    fn rubric() -> Rubric {
        let criterion = |weight| Criterion { weight, question: "?".to_owned(), original_weight: None };
        let step = |name: &str| RubricStep {
            name: name.to_owned(),
            criteria: [("map".to_owned(), criterion(0.75)), ("why".to_owned(), criterion(0.25))]
                .into_iter()
                .collect(),
        };
        Rubric { format: 1, audience: "x".to_owned(), step: vec![step("one"), step("two")] }
    }

    fn line(step: &str, reply: &str) -> String {
        serde_json::json!({ "step": step, "reply": reply }).to_string()
    }

    const GOOD: &str = r#"{"scores": {"map": {"score": 0.8, "rationale": "r"}, "why": {"score": 0.4}}}"#;

    #[test]
    fn a_step_is_weighed_and_a_scenario_is_the_mean_of_its_steps() {
        let prose = format!("Here it is:\n```json\n{GOOD}\n``` as asked");
        let all =
            [line("one", &prose), line("two", r#"{"scores": {"map": {"score": 1}, "why": {"score": 1}}}"#)];
        let out = read(all.join("\n").as_bytes(), &rubric());
        assert_eq!(out.steps[0].quality, Some(0.75 * 0.8 + 0.25 * 0.4));
        assert_eq!(out.quality, Some((0.75 * 0.8 + 0.25 * 0.4 + 1.0) / 2.0));
        assert_eq!((out.replies, out.unreadable), (2, 0));
    }

    #[test]
    fn a_bad_reply_is_asked_again_once_and_never_counts_zero() {
        let out_of_range = r#"{"scores": {"map": {"score": 1.5}, "why": {"score": 1}}}"#;
        let all = [
            line("one", out_of_range),
            line("one", GOOD),
            line("two", "no"),
            line("two", "{"),
            line("two", GOOD),
        ];
        let out = read(all.join("\n").as_bytes(), &rubric());
        assert!(out.steps[0].quality.is_some());
        assert_eq!((out.steps[1].quality, out.quality), (None, None), "a third reply is one too many");
        assert_eq!((out.replies, out.unreadable), (4, 3));
        assert!(out.why.unwrap().contains("1 of 2 steps"));
        assert_eq!(read(b"", &rubric()).quality, None);
        assert_eq!(read(b"not json\n[]", &rubric()).unreadable, 2);
    }
}
