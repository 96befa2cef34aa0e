//! Which tool indexes, which answers questions, and with what arguments.
//!
//! Every tool gets a score from the words of its name, from what its
//! description says, and from its parameters; the best one wins when it is
//! good enough. Names are split into words, so that `task` holds no `ask`, and
//! a word that most tools share (a product's name) counts for nothing. A tool
//! with a required parameter that we can't fill is never chosen with certainty.

mod params;
mod score;

#[cfg(test)]
mod tests;

use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::tools::Tool;
use crate::manifest::server::ToolUse;
use params::Fitted;

/// What a tool is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// To index the corpus.
    Ingest,
    /// To answer a question with places.
    Query,
}

/// A tool, and the arguments that it is called with.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// Name of the tool.
    pub tool: String,
    /// Arguments with `{query}`, `{limit}`, `{corpus}` in them.
    pub args: IndexMap<String, Value>,
    /// From 0 to 1.
    pub confidence: f64,
}

impl Choice {
    /// As presets write it.
    #[must_use]
    pub fn tool_use(&self) -> ToolUse {
        ToolUse { tool: self.tool.clone(), args: self.args.clone() }
    }
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Detection {
    /// The best tool, when any is good enough.
    pub choice: Option<Choice>,
    /// The next best one.
    pub runner_up: Option<Choice>,
    /// Is the choice beyond reasonable doubt? If not, ask for a mapping.
    pub sure: bool,
    /// Why, for people.
    pub why: String,
}

/// Below this a tool is none of the kind.
const LEAST: f64 = 5.0;
/// From here on a tool can be chosen with certainty.
const GOOD: f64 = 7.5;
/// By this much it must be better than the next.
const AHEAD: f64 = 0.75;
/// The score that means full confidence.
const FULL: f64 = 14.0;

struct Rated {
    tool: String,
    words: Vec<String>,
    score: f64,
    fitted: Fitted,
}

/// Chooses a tool for a slot from a tool list.
#[must_use]
pub fn choose(tools: &[Tool], slot: Slot) -> Detection {
    let shared = score::shared_word(tools);
    let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
    let mut rated: Vec<Rated> = tools
        .iter()
        .filter_map(|tool| {
            let words = score::words(&tool.name, shared.as_deref());
            let fitted = params::fit(tool, slot)?;
            let score = score::score(tool, &words, &names, slot)? + fitted.score;
            Some(Rated { tool: tool.name.clone(), words, score, fitted })
        })
        .collect();
    // A tool that can be called comes before one that can't; ties keep the server's order.
    rated.sort_by(|a, b| {
        let callable = a.fitted.missing.is_empty().cmp(&b.fitted.missing.is_empty());
        let good = (b.score >= LEAST).cmp(&(a.score >= LEAST));
        good.then(callable.reverse()).then(b.score.total_cmp(&a.score))
    });
    let next =
        rated.get(1).map_or(0.0, |r| if r.fitted.missing.is_empty() { r.score } else { r.score - 6.0 });
    let Some(best) = rated.first().filter(|best| best.score >= LEAST) else {
        return Detection { choice: None, runner_up: None, sure: false, why: nothing_found(&rated, slot) };
    };
    let ahead = best.score - next.max(0.0);
    let callable = best.fitted.missing.is_empty();
    // `search` beside `advanced-search` is the general one of a family.
    let family = rated.get(1).is_some_and(|next| best.words.iter().all(|word| next.words.contains(word)));
    let enough = if family { ahead > 0.0 } else { ahead >= AHEAD };
    let sure = callable && best.score >= GOOD && enough;
    let runner_up = rated.get(1).filter(|r| r.score >= LEAST / 2.0);
    let why = explain(best, runner_up, callable, enough);
    let choice = as_choice(best, ahead);
    Detection { runner_up: runner_up.map(|r| as_choice(r, 0.0)), choice: Some(choice), sure, why }
}

fn as_choice(rated: &Rated, ahead: f64) -> Choice {
    let strength = (rated.score / FULL).clamp(0.0, 1.0);
    let lead = (ahead / 4.0).clamp(0.0, 1.0);
    let callable = if rated.fitted.missing.is_empty() { 1.0 } else { 0.4 };
    let confidence = strength * (0.6 + 0.4 * lead) * callable;
    Choice {
        tool: rated.tool.clone(),
        args: rated.fitted.args.clone(),
        confidence: (confidence * 100.0).round() / 100.0,
    }
}

fn explain(best: &Rated, runner_up: Option<&Rated>, callable: bool, enough: bool) -> String {
    let next = match runner_up {
        Some(next) => format!("then `{}` with {:.1}", next.tool, next.score),
        None => "and nothing else comes near".to_owned(),
    };
    let doubt = if !callable {
        format!("; it requires `{}`, which is not known", best.fitted.missing.join("`, `"))
    } else if best.score < GOOD {
        "; that is not much".to_owned()
    } else if !enough {
        "; they are too close to tell".to_owned()
    } else {
        String::new()
    };
    format!("`{}` scores {:.1}, {next}{doubt}", best.tool, best.score)
}

fn nothing_found(rated: &[Rated], slot: Slot) -> String {
    let what = match slot {
        Slot::Ingest => "index a folder",
        Slot::Query => "answer a question",
    };
    match rated.first() {
        Some(best) => {
            format!("no tool seems to {what}; `{}` comes nearest with {:.1}", best.tool, best.score)
        }
        None => format!("no tool could {what}"),
    }
}

/// What stands for `{query}`, `{limit}` and `{corpus}`.
#[derive(Clone, Debug)]
pub struct Values<'a> {
    /// The words that are asked.
    pub query: &'a str,
    /// How many results are wanted.
    pub limit: u64,
    /// Absolute path of the corpus.
    pub corpus: &'a str,
}

/// Fills arguments: a text that is only a placeholder takes the value's type,
/// one within a longer text is replaced in it. Lists and objects are filled inside.
#[must_use]
pub fn fill(args: &IndexMap<String, Value>, values: &Values<'_>) -> Map<String, Value> {
    args.iter().map(|(key, value)| (key.clone(), filled(value, values, 0))).collect()
}

fn filled(value: &Value, values: &Values<'_>, depth: usize) -> Value {
    match value {
        Value::String(text) => match text.as_str() {
            "{query}" => Value::from(values.query),
            "{limit}" => Value::from(values.limit),
            "{corpus}" => Value::from(values.corpus),
            _ => Value::from(replaced(text, values)),
        },
        Value::Array(list) if depth < 16 => list.iter().map(|v| filled(v, values, depth + 1)).collect(),
        Value::Object(map) if depth < 16 => {
            map.iter().map(|(key, v)| (key.clone(), filled(v, values, depth + 1))).collect()
        }
        other => other.clone(),
    }
}

/// One pass, so that braces in a question are not read as placeholders.
fn replaced(text: &str, values: &Values<'_>) -> String {
    let limit = values.limit.to_string();
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let known = [("{query}", values.query), ("{limit}", limit.as_str()), ("{corpus}", values.corpus)];
        let (name, value) = known.into_iter().find(|(name, _)| rest.starts_with(name)).unwrap_or(("{", "{"));
        out.push_str(value);
        rest = &rest[name.len()..];
    }
    out + rest
}
