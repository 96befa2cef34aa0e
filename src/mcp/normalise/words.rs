//! What a server says in words: that it failed, that there is nothing.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

fn lazy(pattern: &str) -> Option<Regex> {
    Regex::new(pattern).ok()
}

fn is_match(regex: &LazyLock<Option<Regex>>, text: &str) -> bool {
    regex.as_ref().is_some_and(|regex| regex.is_match(text))
}

/// Words that begin a failure.
static FAILED: LazyLock<Option<Regex>> = LazyLock::new(|| {
    lazy(
        r"(?ix)^[^\w\n]*(?:
            (?:error|fatal|exception|failure|internal\s+(?:server\s+)?error)\b\s*(?:[:\-–—!.]\s*(?:[^\d\s]|\s)|\(|$|(?:executing|calling|running|while|during|searching|parsing|reading|loading|performing|processing|occurred|from|invoking|in\s+tool)\b)
          | an?\s+(?:unexpected\s+|internal\s+)?(?:error|exception)\s+(?:occurred|happened|was)
          | [A-Za-z_.]*(?:Error|Exception)\s*:\s
          | traceback\s+\(most\s+recent
          | (?:\w+\s+){0,3}failed\b(?:\s*:|\s+(?:to|with|because|due|during|while)\b)
          | (?:could\s+not|couldn't|cannot|can't|unable\s+to)\s+(?:\w+\s+){0,2}(?:open|read|load|connect|access|initiali[sz]e|start|parse|execute|run|reach|resolve|download|fetch|search|complete)\b
          | access\s+denied | permission\s+denied | unauthori[sz]ed | forbidden | invalid\s+(?:arguments?|parameters?|params|request|regex|pattern|path|query)
          | unknown\s+tool | tool\s+\S+\s+not\s+found | (?:validation|connection|timeout|network)\s+error
          | missing\s+required | (?:request|operation|search|query)\s+timed\s+out | timed\s+out
          | \d+\s+validation\s+errors?
        )",
    )
});

/// Words that say that it isn't ready to answer.
static NOT_READY: LazyLock<Option<Regex>> = LazyLock::new(|| {
    lazy(
        r"(?ix)\b(?:
            (?:index|project|repo(?:sitory)?|collection|database|workspace|codebase|directory|folder|file|model|graph|tool|command|module|cache|store)\b[^.\n]{0,60}?\b(?:not\s+found|does\s+not\s+exist|doesn't\s+exist|not\s+been\s+(?:built|indexed|created|initiali[sz]ed)|(?:is\s+)?not\s+(?:yet\s+)?(?:built|indexed|ready|available|initiali[sz]ed|loaded|set|configured))
          | not\s+(?:yet\s+)?indexed | no\s+index\b | no\s+(?:project|repositor\w+|workspace|collection|codebase)\b[^.\n]{0,30}(?:indexed|set|found|loaded|active|configured|selected)
          | needs?[_\s](?:\w+[_\s])?index | (?:run|call|use)\s+\S+\s+(?:first|before)\b | indexing\s+(?:is\s+)?in\s+progress | still\s+indexing
        )",
    )
});

/// Words that say that there is nothing.
static NOTHING: LazyLock<Option<Regex>> = LazyLock::new(|| {
    lazy(
        r"(?ix)(?:
            \b(?:no|0|zero|not\s+any)\s+(?:[\w-]+\s+){0,3}(?:results?|match(?:es)?|hits?|files?|symbols?|documents?|references?|callers?|callees?|definitions?|declarations?|implementations?|occurrences?|entries|items?|usages?|records?|snippets?|chunks?|nodes?|rows?|code|functions?|class(?:es)?|answers?|data|content|output)\b
          | \bnothing\s+(?:was\s+)?(?:found|matched|matches|relevant|to\s+show)
          | \b(?:could\s+not|couldn't|did\s+not|didn't|unable\s+to|cannot|can't)\s+(?:find|locate|match)\b
          | \bnot\s+found\b | \bno\s+such\b | \bnothing\b\s*\.?\s*$ | ^\s*(?:none|null|empty|\(empty\)|\(none\)|n/a|\[\s*\]|\{\s*\})\s*\.?\s*$
          | \bno\s+(?:one|matching)\b | \breturned\s+(?:nothing|no\b) | \bfound\s+(?:0|no|nothing|none)\b | \bno\s+\w+\s+found\b
        )",
    )
});

/// The failure that a text reports, when it begins with one.
pub(super) fn failure(text: &str) -> Option<String> {
    let head = head(text);
    if is_match(&FAILED, head) {
        return Some(text.trim().to_owned());
    }
    // A long text that says so in passing is something else.
    let short = text.trim().len() < 600;
    (short && is_match(&NOT_READY, head)).then(|| text.trim().to_owned())
}

/// Is a failure the first thing that a text says?
pub(super) fn begins_with_failure(text: &str) -> bool {
    is_match(&FAILED, head(text))
}

/// Does a text say that there is nothing?
pub(super) fn nothing(text: &str) -> bool {
    let text = text.trim();
    text.is_empty() || is_match(&NOTHING, head(text))
}

/// The first lines: what a reply is about is said at its beginning.
fn head(text: &str) -> &str {
    let text = text.trim_start();
    let mut end = text.len().min(400);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The words of a JSON-RPC error object or of a whole error reply.
pub(super) fn rpc_error(value: &Value) -> Option<String> {
    let error =
        value.get("error").filter(|e| e.is_object() && value.get("result").is_none()).unwrap_or(value);
    let code = error.get("code").is_some_and(Value::is_number);
    let message = error.get("message").and_then(Value::as_str)?;
    code.then(|| message.to_owned())
}

/// The message inside an error text that is JSON.
pub(super) fn message_in(text: &str) -> Option<String> {
    let value: Value = serde_json::from_str(text.trim()).ok()?;
    said(value.as_object()?)
}

const FAILED_STATES: &str = " error failed failure fail fatal invalid unavailable not_ready notready not-ready \
    not_indexed notindexed not-indexed unindexed no_index noindex missing_index indexing building initializing \
    uninitialized pending loading unauthorized forbidden timeout timed_out not_found_index disabled stale_error ";

/// The failure that an object reports by its fields.
pub(super) fn failed(object: &Map<String, Value>) -> Option<String> {
    let status = ["status", "state", "result_status"]
        .iter()
        .find_map(|key| object.get(*key).and_then(Value::as_str))
        .unwrap_or_default()
        .to_lowercase();
    let bad_status = !status.is_empty()
        && (FAILED_STATES.contains(&format!(" {status} "))
            || status.starts_with("needs_")
            || status.starts_with("needs-")
            || status.contains("error"));
    let denied = ["success", "ok"].iter().any(|key| object.get(*key) == Some(&Value::Bool(false)));
    let flagged = ["isError", "is_error"].iter().any(|key| object.get(*key) == Some(&Value::Bool(true)));
    let error = match object.get("error") {
        Some(Value::String(text)) => !text.trim().is_empty(),
        Some(Value::Object(map)) => !map.is_empty(),
        Some(Value::Bool(yes)) => *yes,
        _ => false,
    };
    let exception = object.get("exception").is_some_and(|e| e.as_str().is_some_and(|s| !s.is_empty()));
    if !(bad_status || denied || flagged || error || exception) {
        return None;
    }
    Some(said(object).unwrap_or(status))
}

/// The words in an object that reports something.
fn said(object: &Map<String, Value>) -> Option<String> {
    for key in ["error", "message", "detail", "details", "reason", "exception", "hint", "status"] {
        match object.get(key) {
            Some(Value::String(text)) if !text.trim().is_empty() => return Some(text.trim().to_owned()),
            Some(Value::Object(inner)) => {
                if let Some(text) = inner.get("message").and_then(Value::as_str) {
                    return Some(text.trim().to_owned());
                }
            }
            _ => {}
        }
    }
    None
}
