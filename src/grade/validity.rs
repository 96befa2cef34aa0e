//! How an agent's session ended, from what it left behind: a pure function,
//! so that imported and old sessions are classified anew without running.

use serde_json::Value;

use crate::artifact::transcript::{Fault as Happened, Transcript, Usage};
use crate::artifact::{CellState, Claims, Fault, Recorded, SessionState, code};

/// Version of these rules; raised when a state changes for equal inputs.
pub const VERSION: u32 = 2;
/// Errors that other runners write down for a provider that refused further requests.
const CAPPED: [&str; 2] = ["provider_cap_error", "rate_limited"];

/// Exit code of a program that a clock ended.
const TIMED_OUT: u64 = 124;

/// What an arm is said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected<'a> {
    /// It has this server.
    Server(&'a str),
    /// It has none.
    None,
    /// Nobody says.
    Unknown,
}

/// State, codes and cause of a session; `claims` are those of an imported row.
#[must_use]
pub fn classify(
    transcript: &Transcript,
    session: &Recorded,
    expected: Expected<'_>,
    claims: Option<&Claims>,
) -> SessionState {
    let mut out = SessionState { notes: notes(transcript, session), ..SessionState::default() };
    out.notes.extend(claims.into_iter().flat_map(unreadable));
    // Excerpts have what became of an answer, without its words.
    let published = claims.is_some_and(|claims| claims.excerpt && claims.judged());
    let answered = published
        || transcript.entries.iter().any(|e| !e.sub_agent && e.text().is_some_and(|t| !t.trim().is_empty()));
    let error = session.facts.get("error").and_then(Value::as_str).filter(|error| !error.is_empty());
    let limited = transcript.faults.iter().any(|f| matches!(f, Happened::Limit { .. }));
    let mut fail = |code: &str, fault: Fault, words: Option<String>| {
        out.state = CellState::Error;
        out.codes = vec![code.to_owned()];
        out.fault = Some(fault);
        out.error = words;
    };
    // A wall that ended the session is a limit, whatever the agent said of it.
    let limited = limited || walled(session);
    let refused = transcript.faults.iter().find_map(|f| match f {
        Happened::RateLimited { text } => Some((code::RATE_LIMITED, text.clone())),
        Happened::ApiError { text, .. } => Some((code::API_ERROR, text.clone())),
        Happened::AgentError { text } if !limited => Some((code::RUN_FAILED, text.clone())),
        _ => None,
    });
    if let Some(error) = error.filter(|error| CAPPED.contains(error)) {
        fail(code::RATE_LIMITED, Fault::Harness, Some(error.to_owned()));
    } else if let Some((code, words)) = refused {
        fail(code, Fault::Harness, Some(words));
    } else if !answered {
        // An agent that worked and came to no answer has answered nothing; one that never
        // said a word was not heard.
        let worked = transcript.calls().next().is_some() || limited;
        let fault = if worked { Fault::Treatment } else { Fault::Harness };
        fail(code::NO_ANSWER, fault, error.map(str::to_owned));
    }
    if out.state == CellState::Valid {
        arm(transcript, expected, &mut out);
    }
    out
}

/// A note per field of an imported row that can't be read.
pub fn unreadable(claims: &Claims) -> impl Iterator<Item = String> + '_ {
    claims.unreadable.iter().map(|field| format!("`{field}` can't be read and counts as unknown"))
}

/// Whether a runner's own clock ended the session: it says so, or its exit code is that of `timeout`.
fn walled(session: &Recorded) -> bool {
    let said = session.facts.get("watchdog_kind").and_then(Value::as_str);
    let codes = session.facts.iter().filter(|(name, _)| name.ends_with("exit_code") || *name == "exit-code");
    said == Some("hard_cap_timeout") || codes.into_iter().any(|(_, code)| code.as_u64() == Some(TIMED_OUT))
}

/// Whether the arm was what it is said to be.
fn arm(transcript: &Transcript, expected: Expected<'_>, out: &mut SessionState) {
    let connected =
        |status: Option<&str>| status.is_none_or(|status| status.eq_ignore_ascii_case("connected"));
    let mut invalid = |code: &str, fault: Fault, words: String| {
        out.state = CellState::Invalid;
        out.fault = Some(out.fault.map_or(fault, |before| before.min(fault)));
        if !out.codes.iter().any(|known| known == code) {
            out.codes.push(code.to_owned());
        }
        out.error.get_or_insert(words);
    };
    let own = match expected {
        Expected::Server(name) => Some(name),
        Expected::None => None,
        Expected::Unknown => return,
    };
    for server in &transcript.servers {
        let is_own = own == Some(server.name.as_str());
        let is_connected = connected(server.status.as_deref());
        if is_own && !is_connected {
            let status = server.status.as_deref().unwrap_or("not connected");
            invalid(code::SERVER_NOT_CONNECTED, Fault::Treatment, format!("`{}` was {status}", server.name));
        } else if !is_own && is_connected && server.status.is_some() {
            let code = if own.is_some() { code::FOREIGN_SERVER } else { code::SERVER_IN_BASELINE };
            invalid(code, Fault::Harness, format!("`{}` was connected", server.name));
        }
    }
    let lists = transcript.servers.iter().any(|server| server.status.is_some());
    if let Some(own) = own.filter(|own| lists && transcript.servers.iter().all(|s| s.name != *own)) {
        invalid(code::SERVER_NOT_CONNECTED, Fault::Treatment, format!("`{own}` was not among the servers"));
    }
    let used =
        transcript.calls().filter_map(|(_, call)| call.server.as_deref()).find(|name| Some(*name) != own);
    if let Some(name) = used {
        let code = if own.is_some() { code::FOREIGN_SERVER } else { code::SERVER_IN_BASELINE };
        invalid(code, Fault::Harness, format!("a tool of `{name}` was called"));
    }
}

/// Attributes of a session that change no state.
fn notes(transcript: &Transcript, session: &Recorded) -> Vec<String> {
    let mut out = Vec::new();
    if !session.label.is_empty() {
        out.push(session.label.clone());
    }
    for fault in &transcript.faults {
        out.push(match fault {
            Happened::Limit { which, value } => {
                let which = serde_json::to_value(which).ok();
                let which = which.as_ref().and_then(Value::as_str).unwrap_or("a limit").to_owned();
                value.map_or(format!("limited: {which}"), |value| format!("limited: {which} {value}"))
            }
            Happened::Cut => "the stream stops in the middle of a line".to_owned(),
            Happened::NoFinalRecord => "the stream has no final record".to_owned(),
            Happened::Retried { times, .. } => format!("requests were repeated {times} times"),
            Happened::PermissionDenied { tool } => format!("`{tool}` was refused"),
            Happened::UnreadableLines { lines } => format!("{lines} lines of the transcript can't be read"),
            _ => continue,
        });
    }
    if walled(session) {
        out.push("limited: time".to_owned());
    }
    let known = |usage: Option<Usage>| usage.and_then(Usage::total).is_some();
    if transcript.usage.is_some() && !known(transcript.usage_messages_main) {
        out.push("unreconciled: tokens come from one source".to_owned());
    }
    if let Some(error) = session.facts.get("error").and_then(Value::as_str).filter(|e| !e.is_empty()) {
        out.push(format!("its runner wrote down: {error}"));
    }
    out.dedup();
    out
}
