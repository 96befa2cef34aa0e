//! Which tools a session used, and what it did without the server.

use serde_json::{Value, json};

use super::checks::{SEARCHES, greps};
use super::session::Call;
use crate::artifact::python_json::Json;

/// Tools of the reference's own server, as its diagnosis of misses looks for them in names.
const OWN: [&str; 6] =
    ["sense_graph", "sense_search", "sense_blast", "sense_conventions", "mcp__sense", "sense_sense"];
/// Most characters of a command and of a pattern in a label.
const COMMAND_CHARS: usize = 60;
const PATTERN_CHARS: usize = 40;

/// How often each kind of tool was called.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) grep: u64,
    pub(super) read: u64,
    pub(super) mcp: u64,
}

impl Counts {
    pub(super) fn of(calls: &[Call]) -> Self {
        let mut out = Self::default();
        for call in calls {
            if call.name.starts_with("mcp__") {
                out.mcp += 1;
            } else if call.name == "Grep" || call.name == "Glob" || greps(call, &["command"]) {
                out.grep += 1;
            } else if reads(call).is_some() {
                out.read += 1;
            }
        }
        out
    }

    /// Share of look-ups that went to a server; a half where there are none.
    pub(super) fn fluency(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "calls are far fewer than 2^53")]
        match self.mcp + self.grep {
            0 => 0.5,
            all => self.mcp as f64 / all as f64,
        }
    }
}

/// The path that a call reads, when it reads source.
fn reads(call: &Call) -> Option<&str> {
    if call.name != "Read" {
        return None;
    }
    let path = |name: &str| call.input.get(name).and_then(Json::as_str).filter(|path| !path.is_empty());
    let path = path("filePath").or_else(|| path("file_path")).unwrap_or_default();
    (!path.contains(".summary.md")).then_some(path)
}

/// The block `misses`: look-ups beside the reference's own server, before and after its first call.
pub(super) fn misses(calls: &[Call]) -> Value {
    let first = calls.iter().position(|call| OWN.iter().any(|own| call.name.contains(own)));
    let (mut before, mut verified, mut after) = (Vec::new(), Vec::new(), Vec::new());
    if let Some(first) = first {
        for (at, call) in calls.iter().enumerate() {
            let read = reads(call);
            let searches = SEARCHES.contains(&call.name.as_str()) || greps(call, &["command", "cmd"]);
            let label = match read {
                Some(path) => format!("Read({})", path.rsplit('/').next().unwrap_or(path)),
                None if searches => format!("{}({})", call.name, words(call)),
                None => continue,
            };
            match (at < first, read.is_some()) {
                (true, _) => before.push(label),
                (false, true) => verified.push(label),
                (false, false) => after.push(label),
            }
        }
    }
    let detail = format!(
        "pre-MCP bypasses: {}, post-MCP verification reads: {}, post-MCP misses: {} (diagnostic only - grep_count drives fluency)",
        before.len(),
        verified.len(),
        after.len()
    );
    json!({
        "pre_mcp_misses": before,
        "post_mcp_verification_reads": verified,
        "post_mcp_misses": after,
        "has_mcp_tools": first.is_some(),
        "detail": detail,
    })
}

/// What a call searched for, shortened.
fn words(call: &Call) -> String {
    let input = |name: &str| call.input.get(name).and_then(Json::as_str).filter(|text| !text.is_empty());
    match input("command").or_else(|| input("cmd")) {
        Some(command) => command.chars().take(COMMAND_CHARS).collect(),
        None => input("pattern").unwrap_or_default().chars().take(PATTERN_CHARS).collect(),
    }
}
