//! What agents say: streams, stored sessions and documents of every dialect.

use proofline::agent::{Dialect, Hints, detect, read_with};
use proofline::artifact::steps::{headers, reference_headers, step_answers};
use proofline::artifact::{from_json, to_json};

use crate::mutate::fuzz;

const WORDS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    "\"",
    ",",
    ":",
    "null",
    "\n",
    "\r\n",
    "\u{0}",
    "\\ud800",
    "-1",
    "1e309",
    "\"id\":\"m1\"",
    "\"type\":\"assistant\"",
    "\"type\":\"result\"",
    "\"type\":\"turn.completed\"",
    "\"type\":\"error\"",
    "\"sessionID\":\"ses_1\"",
    "\"sessionId\":\"s\"",
    "\"parentUuid\":\"a\"",
    "\"parent_tool_use_id\":\"t\"",
    "\"content\":\"x\"",
    "\"usage\":{}",
    "\"modelUsage\":{}",
    "\"event\":{}",
    "\"schema_version\":\"ATIF-v1.4\"",
    "mcp__a__b",
    "## Step 1\n",
    "**Step 2**\n",
];

const CLAUDE: &str = r###"{"type":"system","subtype":"init","cwd":"/w","session_id":"s","tools":["Read","mcp__a__find"],"mcp_servers":[{"name":"a","status":"connected"}],"model":"m","claude_code_version":"2.1.332"}
{"type":"stream_event","event":{"type":"message_start","message":{"id":"m1"}},"parent_tool_use_id":null}
{"type":"assistant","message":{"id":"m1","model":"m","content":[{"type":"text","text":"## Step 1\none\n## Step 2\ntwo"}],"usage":{"input_tokens":10,"output_tokens":1}},"parent_tool_use_id":null,"timestamp":"2026-01-01T00:00:00Z"}
{"type":"assistant","message":{"id":"m1","model":"m","content":[{"type":"tool_use","id":"t","name":"mcp__a__find","input":{"q":["x"]}}]},"parent_tool_use_id":null}
{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"a.py"}],"is_error":true}]},"parent_tool_use_id":"t"}
{"type":"system","subtype":"api_retry","error_status":529}
{"type":"result","subtype":"success","is_error":false,"result":"two","usage":{"input_tokens":10,"output_tokens":7},"modelUsage":{"m":{"inputTokens":10,"outputTokens":7}},"total_cost_usd":0.5,"duration_ms":12,"permission_denials":[{"tool_name":"Bash","tool_use_id":"t"}]}
"###;

const STORED: &str = r#"{"type":"user","uuid":"a","parentUuid":null,"sessionId":"s","version":"2.0.1","message":{"role":"user","content":"ask"}}
{"type":"assistant","uuid":"b","parentUuid":"a","sessionId":"s","message":{"id":"m1","content":[{"type":"text","text":"one"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}}
{"type":"user","uuid":"c","parentUuid":"a","sessionId":"s","message":{"role":"user","content":"ask again"}}
{"type":"assistant","uuid":"d","parentUuid":"c","sessionId":"s","isApiErrorMessage":true,"message":{"model":"<synthetic>","content":[{"type":"text","text":"API Error: 500"}]}}
"#;

const CODEX: &str = r#"{"type":"thread.started","thread_id":"t"}
{"type":"item.started","item":{"id":"item_1","type":"command_execution","command":"ls","status":"in_progress"}}
{"type":"item.completed","item":{"id":"item_1","type":"command_execution","command":"ls","aggregated_output":"a","status":"completed"}}
{"type":"item.completed","item":{"id":"item_2","type":"mcp_tool_call","server":"a","tool":"b","arguments":{},"result":{"content":[],"structured_content":{"x":1}},"status":"completed"}}
{"type":"item.completed","item":{"id":"item_3","type":"agent_message","text":"one"}}
{"type":"turn.completed","usage":{"input_tokens":30,"cached_input_tokens":10,"output_tokens":5}}
{"timestamp":"2026-01-01T00:00:00Z","type":"event_msg","payload":{"type":"token_count","info":{"total_token_usage":{"input_tokens":9,"output_tokens":2}}}}
{"timestamp":"2026-01-01T00:00:00Z","type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{}","call_id":"1"}}
{"type":"turn.failed","error":{"message":"exceeded retry limit, last status: 429"}}
"#;

const OPENCODE: &str = r#"{"type":"text","timestamp":5,"sessionID":"ses_1","part":{"id":"prt_1","messageID":"msg_1","type":"text","text":"one"}}
{"type":"tool_use","timestamp":6,"sessionID":"ses_1","part":{"id":"prt_2","type":"tool","tool":"a_find","callID":"c","state":{"status":"completed","input":{},"output":"x"}}}
{"type":"step_finish","timestamp":7,"sessionID":"ses_1","part":{"id":"prt_3","type":"step-finish","reason":"stop","tokens":{"input":1,"output":2,"reasoning":0,"cache":{"read":3,"write":0}},"cost":0.5}}
{"type":"error","timestamp":8,"sessionID":"ses_1","error":{"name":"APIError","data":{"message":"no","statusCode":401}}}
"#;

const EXPORT: &str = r#"{"info":{"id":"ses_1","version":"1.0","directory":"/w"},"messages":[{"info":{"id":"msg_1","role":"user"},"parts":[{"id":"prt_1","type":"text","text":"ask"}]},
{"info":{"id":"msg_2","role":"assistant","modelID":"m","finish":"stop","tokens":{"input":1,"output":2}},"parts":[{"id":"prt_2","type":"text","text":"one"}]}]}"#;

const ATIF: &str = r#"{"schema_version":"ATIF-v1.7","session_id":"s","agent":{"name":"a","version":"1"},"steps":[{"step_id":1,"source":"user","message":"ask"},
{"step_id":2,"source":"agent","message":"one","tool_calls":[{"tool_call_id":"c","function_name":"f","arguments":{}}],"observation":{"results":[{"source_call_id":"c","content":"x"}]},"metrics":{"prompt_tokens":3,"completion_tokens":1,"cached_tokens":1}}],
"subagent_trajectories":[{"steps":[{"source":"agent","message":"aside"}]}],"final_metrics":{"total_prompt_tokens":3}}"#;

#[test]
fn transcripts() {
    let seeds = [CLAUDE, STORED, CODEX, OPENCODE, EXPORT, ATIF].map(|seed| seed.as_bytes().to_vec());
    let hints = Hints { servers: vec!["a".to_owned()], before: None };
    fuzz("transcripts", &seeds, WORDS, |bytes| {
        let _ = detect(bytes);
        for dialect in [Dialect::Claude, Dialect::Qwen, Dialect::Codex, Dialect::Opencode, Dialect::Atif] {
            let got = match read_with(dialect, bytes, &hints) {
                Ok(got) => got,
                Err(error) => {
                    assert!(!error.to_string().is_empty());
                    continue;
                }
            };
            assert_eq!(
                from_json::<proofline::artifact::transcript::Transcript>(&to_json(&got)).unwrap(),
                got
            );
            let answer = got.answer();
            assert!(answer.len() <= 4 * bytes.len() + 1024);
            assert!(got.turns_begun() >= got.turns.len());
            assert!(got.exchanges().len() <= got.entries.len());
            let _ = got.final_message();
            assert!(got.entries.is_sorted_by_key(|e| e.turn));
            let parts = step_answers(&got, 3, &["one", "two"]);
            assert_eq!(parts.answers.len(), 3);
            for ranges in [headers(&answer, 3, &["one"]), reference_headers(&answer, 3)] {
                assert!(ranges.into_iter().flatten().all(|r| answer.get(r).is_some()));
            }
        }
    });
}
