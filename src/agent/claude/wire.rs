//! The events of Claude Code as they are written, as far as they are read.

#![expect(clippy::struct_field_names, reason = "fields are named as they are written")]

use serde::Deserialize;
use serde_json::Value;

use crate::agent::loose::{Content, Flag, List, Num, Opt, Text, Values};
use crate::artifact::transcript::Usage;

/// Any line.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Line<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) subtype: Text<'a>,
    #[serde(borrow)]
    pub(super) event: Opt<Partial<'a>>,
    #[serde(borrow)]
    pub(super) message: Opt<Message<'a>>,
    #[serde(borrow)]
    pub(super) session_id: Text<'a>,
    #[serde(borrow)]
    pub(super) parent_tool_use_id: Text<'a>,
    #[serde(borrow)]
    pub(super) timestamp: Text<'a>,
    #[serde(borrow)]
    pub(super) error: Text<'a>,
    // Of the final record.
    pub(super) usage: Opt<Tokens>,
    // Of the first event.
    #[serde(borrow)]
    pub(super) cwd: Text<'a>,
    #[serde(borrow)]
    pub(super) tools: List<Text<'a>>,
    #[serde(borrow)]
    pub(super) mcp_servers: List<Opt<Server<'a>>>,
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    #[serde(borrow)]
    pub(super) claude_code_version: Text<'a>,
    #[serde(borrow)]
    pub(super) qwen_code_version: Text<'a>,
    // Of a repeated request and of limits of a subscription.
    pub(super) error_status: Num,
    #[serde(borrow)]
    pub(super) rate_limit_info: Opt<RateLimit<'a>>,
    // Of the final record.
    pub(super) is_error: Flag,
    pub(super) api_error_status: Num,
    pub(super) result_index: Num,
    pub(super) num_turns: Num,
    pub(super) duration_ms: Num,
    pub(super) total_cost_usd: Num,
    #[serde(borrow)]
    pub(super) result: Text<'a>,
    #[serde(borrow)]
    pub(super) errors: List<Text<'a>>,
    #[serde(borrow, rename = "modelUsage")]
    pub(super) model_usage: Values<'a, Opt<ModelTokens>>,
    #[serde(borrow)]
    pub(super) permission_denials: List<Opt<Denial<'a>>>,
    // Of stored sessions.
    #[serde(borrow, rename = "sessionId")]
    pub(super) stored_session: Text<'a>,
    #[serde(borrow)]
    pub(super) uuid: Text<'a>,
    #[serde(borrow, rename = "parentUuid")]
    pub(super) parent_uuid: Text<'a>,
    #[serde(borrow)]
    pub(super) version: Text<'a>,
    #[serde(rename = "isSidechain")]
    pub(super) sidechain: Flag,
    #[serde(rename = "isMeta")]
    pub(super) meta: Flag,
    #[serde(rename = "isCompactSummary")]
    pub(super) summary: Flag,
    #[serde(rename = "isApiErrorMessage")]
    pub(super) stored_api_error: Flag,
    #[serde(rename = "apiErrorStatus")]
    pub(super) stored_error_status: Num,
}

/// The event of a partial message.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Partial<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) message: Opt<Begun<'a>>,
    pub(super) usage: Opt<Tokens>,
}

/// A message that begins.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Begun<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message<'a> {
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) model: Text<'a>,
    #[serde(borrow)]
    pub(super) content: Content<'a, Block<'a>>,
    pub(super) usage: Opt<Tokens>,
    #[serde(borrow)]
    pub(super) stop_reason: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Block<'a> {
    #[serde(borrow, rename = "type")]
    pub(super) kind: Text<'a>,
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow)]
    pub(super) id: Text<'a>,
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    pub(super) input: Value,
    #[serde(borrow)]
    pub(super) tool_use_id: Text<'a>,
    #[serde(borrow)]
    pub(super) content: Content<'a, Inner<'a>>,
    pub(super) is_error: Flag,
}

/// A block of a tool's result.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Inner<'a> {
    #[serde(borrow)]
    pub(super) text: Text<'a>,
    #[serde(borrow)]
    pub(super) tool_name: Text<'a>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tokens {
    pub(super) input_tokens: Num,
    pub(super) output_tokens: Num,
    pub(super) cache_read_input_tokens: Num,
    pub(super) cache_creation_input_tokens: Num,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ModelTokens {
    pub(super) input_tokens: Num,
    pub(super) output_tokens: Num,
    pub(super) cache_read_input_tokens: Num,
    pub(super) cache_creation_input_tokens: Num,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Server<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(borrow)]
    pub(super) status: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RateLimit<'a> {
    #[serde(borrow)]
    pub(super) status: Text<'a>,
    #[serde(borrow, rename = "rateLimitType")]
    pub(super) kind: Text<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Denial<'a> {
    #[serde(borrow)]
    pub(super) tool_name: Text<'a>,
    #[serde(borrow)]
    pub(super) tool_use_id: Text<'a>,
}

impl Tokens {
    pub(super) fn usage(self) -> Usage {
        Usage {
            input: self.input_tokens.count(),
            output: self.output_tokens.count(),
            cache_read: self.cache_read_input_tokens.count(),
            cache_write: self.cache_creation_input_tokens.count(),
        }
    }
}

impl ModelTokens {
    pub(super) fn usage(self) -> Usage {
        Usage {
            input: self.input_tokens.count(),
            output: self.output_tokens.count(),
            cache_read: self.cache_read_input_tokens.count(),
            cache_write: self.cache_creation_input_tokens.count(),
        }
    }
}
