//! What an agent said and did, in one shape for every command-line agent.
//!
//! Made from the raw stream by `agent::read`, which can be done again at any time: the
//! stream is kept byte for byte beside it.

use std::collections::HashMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Which program's words a stream is written in.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// Claude Code: its stream, its one-object output, its stored sessions.
    #[default]
    Claude,
    /// Qwen Code: the shape of Claude Code's stream with its own way of counting.
    Qwen,
    /// Codex: its stream and its stored sessions.
    Codex,
    /// `OpenCode`: its stream, its stored sessions, its export.
    Opencode,
    /// Agent Trajectory Interchange Format, one document.
    Atif,
    /// A row of a result file of the rag-bench family.
    RagBench,
}

impl Dialect {
    /// Its name in manifests and artifacts.
    pub fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Qwen => "qwen",
            Self::Codex => "codex",
            Self::Opencode => "opencode",
            Self::Atif => "atif",
            Self::RagBench => "rag-bench",
        }
    }
}

/// One session of an agent, with all its turns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Transcript {
    /// Whose stream it was.
    pub dialect: Dialect,
    /// The agent's id of the session; of several, the last.
    pub session: Option<String>,
    /// The agent's name and version, as far as the stream says: `claude-code 2.1.332`.
    pub agent: Option<String>,
    /// Models that answered, in order of appearance; what was asked for, where nothing answered.
    pub models: Vec<String>,
    /// The corpus root as the agent saw it.
    pub cwd: Option<String>,
    /// Tools offered, as far as the stream says.
    pub tools: Vec<String>,
    /// MCP servers that the stream names, with the last status that it gives.
    pub servers: Vec<ServerSeen>,
    /// What was said and done, in the order of the stream.
    pub entries: Vec<Entry>,
    /// One per final record: several with resume, or with several prompts to one process.
    pub turns: Vec<TurnEnd>,
    /// Tokens of the whole session, sub-agents included: from final records where there are any.
    pub usage: Option<Usage>,
    /// Tokens of the main thread by final records; null where those are known to be incomplete.
    pub usage_main: Option<Usage>,
    /// Tokens of the whole session summed over messages, each id once: for reconciling.
    pub usage_messages: Option<Usage>,
    /// The part of `usage_messages` that is the main thread's.
    pub usage_messages_main: Option<Usage>,
    /// US dollars by the agent's own account.
    pub cost_usd: Option<f64>,
    /// Milliseconds by the agent's own account, summed over turns.
    pub duration_ms: Option<f64>,
    /// What went wrong, in the order of the stream.
    pub faults: Vec<Fault>,
}

/// An MCP server as the stream shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct ServerSeen {
    /// Its name in the agent's configuration.
    pub name: String,
    /// The agent's word for its state: `connected`, `pending`, `failed`; null when it gives none.
    pub status: Option<String>,
}

/// One thing said or done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Entry {
    /// Turn that it belongs to, from 0; an index into [`Transcript::turns`] once that turn has ended.
    pub turn: u32,
    /// A sub-agent's, not the main thread's.
    #[serde(default, skip_serializing_if = "is_false")]
    pub sub_agent: bool,
    /// Id of the message that it is a block of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// When, in milliseconds since 1970, where the stream says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_ms: Option<u64>,
    /// What.
    pub what: What,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

/// The kinds of entries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Prose of the model.
    Text(String),
    /// A tool was called.
    Call(Call),
    /// A tool's answer as the model saw it.
    Result(Reply),
    /// What the model was asked.
    Prompt(String),
    /// The model thought; its words are no part of an answer.
    Thinking {
        /// Length in characters; 0 where the stream keeps the words to itself.
        chars: u64,
    },
    /// Words of the agent program itself: errors and warnings that stand where prose would.
    Notice(String),
}

/// A call of a tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Call {
    /// Ties it to its [`Reply`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The name as the stream has it.
    pub name: String,
    /// MCP server, for a tool of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<String>,
    /// The tool's name on its server; for a tool of the agent itself the common name:
    /// `Read`, `Grep`, `Glob`, `LS`, `Bash`, `Edit`, `Write`, `WebFetch`, `WebSearch`, `Agent`,
    /// `ToolSearch`, or the raw name where it is none of these.
    pub tool: String,
    /// Arguments.
    #[serde(default)]
    pub input: Value,
}

/// What came back from a call.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Reply {
    /// Of the [`Call`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Text; blocks joined by line ends.
    pub text: String,
    /// The agent marked it as failed.
    #[serde(default, skip_serializing_if = "is_false")]
    pub error: bool,
}

/// How a turn ended.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct TurnEnd {
    /// The agent's word for it: `success`, `error_max_turns`, `completed`, `failed`.
    pub subtype: Option<String>,
    /// The agent marked it as failed, or ended it by a limit.
    pub error: bool,
    /// The final message by the final record.
    pub text: Option<String>,
    /// Tokens of this turn, sub-agents included.
    pub usage: Option<Usage>,
    /// Tokens of this turn's main thread, as the final record has them: behind what was spent
    /// where a budget ended the turn.
    pub usage_main: Option<Usage>,
    /// US dollars of this turn.
    pub cost_usd: Option<f64>,
    /// Milliseconds of this turn.
    pub duration_ms: Option<f64>,
    /// The agent's own count of its turns or calls; what is counted differs between agents.
    pub calls: Option<u64>,
}

/// Tokens by kind; null when unknown, never 0 instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Usage {
    /// Input that was neither read from nor written to a cache.
    pub input: Option<u64>,
    /// Output, thinking included.
    pub output: Option<u64>,
    /// Input read from a cache.
    pub cache_read: Option<u64>,
    /// Input written to a cache.
    pub cache_write: Option<u64>,
}

impl Usage {
    /// The sum; a kind that either doesn't know is unknown.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.by(other, |a, b| Some(a.saturating_add(b)))
    }

    /// What remains after taking `other` away; a kind is unknown where `other` has more.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        self.by(other, u64::checked_sub)
    }

    /// Whether no kind is above 0.
    pub fn is_nothing(self) -> bool {
        [self.input, self.output, self.cache_read, self.cache_write].iter().all(|n| n.is_none_or(|n| n == 0))
    }

    /// All kinds together; none when one is unknown.
    pub fn total(self) -> Option<u64> {
        [self.input, self.output, self.cache_read, self.cache_write]
            .into_iter()
            .try_fold(0_u64, |sum, n| n.map(|n| sum.saturating_add(n)))
    }

    fn by(self, other: Self, f: impl Fn(u64, u64) -> Option<u64>) -> Self {
        let each = |a: Option<u64>, b: Option<u64>| a.zip(b).and_then(|(a, b)| f(a, b));
        Self {
            input: each(self.input, other.input),
            output: each(self.output, other.output),
            cache_read: each(self.cache_read, other.cache_read),
            cache_write: each(self.cache_write, other.cache_write),
        }
    }
}

/// Something that went wrong in a session, as its stream tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Fault {
    /// A request to the model failed for good.
    ApiError {
        /// HTTP status; null where no reply came or the stream keeps it to itself.
        status: Option<u16>,
        /// The agent's words.
        text: String,
    },
    /// A request failed for good because too many were made or an allowance is used up (429).
    RateLimited {
        /// The agent's words.
        text: String,
    },
    /// Requests were repeated.
    Retried {
        /// How often.
        times: u32,
        /// HTTP status of the last one.
        status: Option<u16>,
    },
    /// The last line stops in the middle.
    Cut,
    /// The stream stops in the middle of a turn: the agent was ended, or died.
    NoFinalRecord,
    /// A limit ended a turn.
    Limit {
        /// Which.
        which: LimitKind,
        /// Its value, in calls, US dollars or seconds, where the stream says.
        value: Option<f64>,
    },
    /// The agent gave up for another reason.
    AgentError {
        /// Its words.
        text: String,
    },
    /// A server was not ready when the stream last spoke of it.
    ServerNotConnected {
        /// The server.
        name: String,
        /// The agent's word.
        status: String,
    },
    /// A call was refused by the agent's permissions.
    PermissionDenied {
        /// Raw name of the tool.
        tool: String,
    },
    /// Lines were no JSON, or of a shape that the dialect does not have; they were left out.
    UnreadableLines {
        /// How many.
        lines: u64,
    },
}

/// Limits that end a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitKind {
    /// Model calls.
    Turns,
    /// Money.
    Budget,
    /// Time.
    Time,
    /// Tokens.
    Tokens,
    /// One that we have no word for.
    Other,
}

impl Transcript {
    /// The answer: all prose of the main thread, blocks joined by line ends.
    pub fn answer(&self) -> String {
        self.prose(None)
    }

    /// The answer of one turn, from 0; none where the model said nothing in it.
    pub fn turn_answer(&self, turn: u32) -> Option<String> {
        Some(self.prose(Some(turn))).filter(|text| !text.is_empty())
    }

    /// The last message of the main thread, where nothing was called after it: else the session
    /// ended before there was a final message. A final record's text counts where it has one
    /// that the entries lack.
    pub fn final_message(&self) -> Option<String> {
        let mut last: Option<&Entry> = None;
        let mut texts: Vec<&str> = Vec::new();
        for entry in self.entries.iter().rev().filter(|e| !e.sub_agent) {
            match &entry.what {
                What::Text(text) => {
                    let same = |e: &Entry| e.message == entry.message && e.turn == entry.turn;
                    if !last.is_none_or(same) {
                        break;
                    }
                    last = Some(entry);
                    texts.push(text);
                }
                What::Thinking { .. } | What::Notice(_) => {}
                _ => break,
            }
        }
        if texts.is_empty() {
            return self.turns.last().filter(|t| !t.error).and_then(|t| t.text.clone());
        }
        texts.reverse();
        Some(texts.join("\n"))
    }

    /// Calls in the order of the stream, sub-agents' included.
    pub fn calls(&self) -> impl Iterator<Item = (&Entry, &Call)> {
        self.entries.iter().filter_map(|entry| match &entry.what {
            What::Call(call) => Some((entry, call)),
            _ => None,
        })
    }

    /// Calls with what came back. A reply without an id belongs to the first call before it
    /// that has neither id nor reply.
    pub fn exchanges(&self) -> Vec<(&Entry, &Call, Option<&Reply>)> {
        let mut out: Vec<(&Entry, &Call, Option<&Reply>)> = Vec::new();
        // A sub-agent may use the ids that its parent uses.
        let mut by_id: HashMap<(bool, &str), usize> = HashMap::new();
        let mut nameless = std::collections::VecDeque::new();
        for entry in &self.entries {
            match &entry.what {
                What::Call(call) => {
                    match call.id.as_deref() {
                        Some(id) => {
                            by_id.insert((entry.sub_agent, id), out.len());
                        }
                        None => nameless.push_back(out.len()),
                    }
                    out.push((entry, call, None));
                }
                What::Result(reply) => {
                    let at = match reply.id.as_deref() {
                        Some(id) => by_id.get(&(entry.sub_agent, id)).copied(),
                        None => nameless.pop_front(),
                    };
                    if let Some(slot) = at.and_then(|at| out.get_mut(at)) {
                        slot.2 = Some(reply);
                    }
                }
                _ => {}
            }
        }
        out
    }

    /// How many turns began: the last may have no end.
    pub fn turns_begun(&self) -> usize {
        let last = self.entries.last().map_or(0, |e| e.turn as usize + 1);
        last.max(self.turns.len())
    }

    fn prose(&self, turn: Option<u32>) -> String {
        let mut out = String::new();
        let texts = self.entries.iter().filter(|e| !e.sub_agent && turn.is_none_or(|t| t == e.turn));
        for (n, text) in texts.filter_map(Entry::text).enumerate() {
            if n > 0 {
                out.push('\n');
            }
            out.push_str(text);
        }
        out
    }
}

impl Entry {
    /// Prose of the model.
    pub fn text(&self) -> Option<&str> {
        match &self.what {
            What::Text(text) => Some(text),
            _ => None,
        }
    }
}
