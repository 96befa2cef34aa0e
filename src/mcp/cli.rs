//! Tools behind a command line: one process per call.
//!
//! `COMMAND list-tools` prints a JSON array or `{"tools": [...]}`;
//! `COMMAND call-tool NAME JSON` prints JSON.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::call::{Call, Outcome, short_text};
use super::launch::{Launch, StartError};
use super::said::{Said, last_words};
use super::wire::{Verdict, Wire};
use crate::process::{Captured, Exit, SpawnError, Spec, capture, find_program};

/// Most places in an output at which JSON is looked for.
const MAX_STARTS: usize = 64;

/// A server that is a command line.
#[derive(Debug)]
pub(super) struct Cli {
    launch: Launch,
    calls: u64,
    /// Sums over the calls: processor and wall time; memory is the largest.
    pub(super) exit: Exit,
}

impl Cli {
    /// Checks that there is a program.
    pub(super) fn new(launch: &Launch) -> Result<Self, StartError> {
        let name = launch.command.first().ok_or(SpawnError::Empty)?;
        let path = launch.env.get("PATH").map_or("", String::as_str);
        find_program(name, path, &launch.cwd).ok_or_else(|| SpawnError::NotFound(name.clone()))?;
        Ok(Self { launch: launch.clone(), calls: 0, exit: Exit::default() })
    }

    /// Name of the program.
    pub(super) fn name(&self) -> String {
        let program = self.launch.command.first().map_or("", String::as_str);
        program.rsplit('/').next().unwrap_or_default().to_owned()
    }

    /// The tool list as the value of a reply.
    pub(super) async fn list(&mut self, deadline: Duration, wire: &Wire, said: &Said) -> Call {
        let request = json!({"method": "tools/list", "params": {}});
        let call = self.run(vec!["list-tools".to_owned()], request, deadline, wire, said).await;
        let outcome = match call.outcome {
            Outcome::Reply(Value::Array(tools)) => Outcome::Reply(json!({"tools": tools})),
            other => other,
        };
        Call { outcome, ..call }
    }

    /// Calls a tool.
    pub(super) async fn call(
        &mut self,
        tool: &str,
        args: Map<String, Value>,
        deadline: Duration,
        wire: &Wire,
        said: &Said,
    ) -> Call {
        let args = Value::Object(args);
        let argv = vec!["call-tool".to_owned(), tool.to_owned(), args.to_string()];
        let request = json!({"method": "tools/call", "params": {"name": tool, "arguments": args}});
        let call = self.run(argv, request, deadline, wire, said).await;
        let outcome = match call.outcome {
            Outcome::Reply(value) => Outcome::Reply(as_tool_result(value)),
            other => other,
        };
        Call { outcome, ..call }
    }

    /// One process. The log shows it as if it were a request and its reply.
    async fn run(
        &mut self,
        argv: Vec<String>,
        mut request: Value,
        deadline: Duration,
        wire: &Wire,
        said: &Said,
    ) -> Call {
        self.calls += 1;
        let id = self.calls;
        let mut spec = Spec::new(
            self.launch.command.clone(),
            self.launch.cwd.clone(),
            self.launch.env.clone(),
            &self.launch.marker,
        );
        spec.argv.extend(argv);
        request["jsonrpc"] = json!("2.0");
        request["id"] = json!(id);
        wire.sending(&request, request.to_string().len());
        let limit = usize::try_from(self.launch.max_reply_bytes).unwrap_or(usize::MAX);
        let got = match capture(&spec, deadline, limit).await {
            Ok(got) => got,
            Err(error) => {
                let words = error.to_string();
                wire.abandon(&id.to_string(), "died");
                return Call { latency_ms: 0.0, outcome: Outcome::Died { words } };
            }
        };
        said.take(&got.stderr, wire);
        self.exit.rss_mib = self.exit.rss_mib.max(got.exit.rss_mib);
        self.exit.cpu_ms += got.exit.cpu_ms;
        self.exit.wall_ms += got.exit.wall_ms;
        self.exit.code = got.exit.code;
        self.exit.signal = got.exit.signal;
        self.exit.survivors.extend(got.exit.survivors.iter().cloned());
        let latency_ms = got.exit.wall_ms;
        let outcome = self.outcome(&got);
        log(wire, id, &outcome);
        Call { latency_ms, outcome }
    }

    fn outcome(&self, got: &Captured) -> Outcome {
        let exit = &got.exit;
        if exit.timed_out {
            return Outcome::Timeout;
        }
        if got.stdout_bytes > self.launch.max_reply_bytes {
            return Outcome::TooLarge { bytes: got.stdout_bytes };
        }
        let words = last_words(&String::from_utf8_lossy(&got.stderr));
        if exit.code != Some(0) {
            let message = if words.is_empty() { format!("the command {}", exit.words()) } else { words };
            return Outcome::RpcError { code: i64::from(exit.code.unwrap_or(-1)), message, data: None };
        }
        let text = String::from_utf8_lossy(&got.stdout);
        match text.trim() {
            "" => Outcome::Unexpected(format!("the command printed nothing{}", super::launch::quote(&words))),
            trimmed => Outcome::Reply(json_in(trimmed).unwrap_or_else(|| Value::String(trimmed.to_owned()))),
        }
    }
}

fn log(wire: &Wire, id: u64, outcome: &Outcome) {
    let at = wire.now();
    let verdict = match outcome {
        Outcome::Reply(value) => {
            let logged = if value.get("tools").is_some() || value.get("content").is_some() {
                value.clone()
            } else {
                as_tool_result(value.clone())
            };
            wire.frame(json!({"jsonrpc": "2.0", "id": id, "result": logged}), at)
        }
        Outcome::RpcError { code, message, .. } => {
            let error = json!({"code": code, "message": message});
            wire.frame(json!({"jsonrpc": "2.0", "id": id, "error": error}), at)
        }
        other => {
            let why = match other {
                Outcome::Timeout => "timeout".to_owned(),
                Outcome::Died { .. } => "died".to_owned(),
                Outcome::TooLarge { .. } => "too-large".to_owned(),
                Outcome::Unexpected(what) => short_text(what),
                Outcome::Reply(_) | Outcome::RpcError { .. } => String::new(),
            };
            wire.abandon(&id.to_string(), &why);
            Verdict::Drop
        }
    };
    debug_assert!(!matches!(verdict, Verdict::Answer(_)));
}

/// The whole text as JSON, or the first JSON array or object in it (tools
/// print banners).
fn json_in(text: &str) -> Option<Value> {
    if let Ok(value) = serde_json::from_str(text) {
        return Some(value);
    }
    text.match_indices(['{', '['])
        .take(MAX_STARTS)
        .find_map(|(at, _)| serde_json::Deserializer::from_str(&text[at..]).into_iter::<Value>().next()?.ok())
}

/// What a command printed as a `CallToolResult`.
fn as_tool_result(value: Value) -> Value {
    if value.get("content").is_some_and(Value::is_array) {
        return value;
    }
    let text = match &value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let content = json!([{"type": "text", "text": text}]);
    if value.is_object() {
        json!({"content": content, "structuredContent": value})
    } else {
        json!({"content": content})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_found_behind_a_banner() {
        assert_eq!(json_in("{\"a\":1}"), Some(json!({"a": 1})));
        assert_eq!(json_in("loading [ok]...\n{\"a\":1}\nbye"), Some(json!({"a": 1})));
        assert_eq!(json_in("nothing"), None);
        assert_eq!(json_in(&"[".repeat(10_000)), None);
    }

    #[test]
    fn results_take_the_protocols_shape() {
        let plain = as_tool_result(json!({"results": []}));
        assert_eq!(plain["structuredContent"], json!({"results": []}));
        assert_eq!(plain["content"][0]["text"], "{\"results\":[]}");
        let own = json!({"content": [], "isError": true});
        assert_eq!(as_tool_result(own.clone()), own);
        assert_eq!(as_tool_result(json!("text"))["content"][0]["text"], "text");
    }
}
