//! Small written streams: what each agent's peculiarities mean.

use serde_json::{Value, json};

use super::*;
use crate::artifact::transcript::{Fault, LimitKind, What};

fn lines(all: &[Value]) -> Vec<u8> {
    all.iter().fold(String::new(), |text, line| text + &line.to_string() + "\n").into_bytes()
}

fn said(of: &Transcript) -> Vec<String> {
    let one = |e: &crate::artifact::transcript::Entry| {
        let who = if e.sub_agent { "^" } else { "" };
        let what = match &e.what {
            What::Text(text) => format!("text {text}"),
            What::Call(call) => format!("call {}", call.tool),
            What::Result(reply) => format!("result {}", reply.text),
            What::Prompt(text) => format!("prompt {text}"),
            What::Thinking { chars } => format!("thinking {chars}"),
            What::Notice(text) => format!("notice {text}"),
        };
        format!("{} {who}{what}", e.turn)
    };
    of.entries.iter().map(one).collect()
}

fn spent(of: Option<Usage>) -> [Option<u64>; 4] {
    let of = of.unwrap_or_default();
    [of.input, of.output, of.cache_read, of.cache_write]
}

fn assistant(id: &str, block: Value) -> Value {
    json!({"type": "assistant", "message": {"id": id, "model": "m", "content": [block],
        "usage": {"input_tokens": 10, "output_tokens": 1, "cache_read_input_tokens": 2,
            "cache_creation_input_tokens": 3}}, "parent_tool_use_id": null, "session_id": "s"})
}

fn text(words: &str) -> Value {
    json!({"type": "text", "text": words})
}

fn result(extra: Value) -> Value {
    let mut all = json!({"type": "result", "subtype": "success", "is_error": false, "session_id": "s",
        "usage": {"input_tokens": 10, "output_tokens": 7, "cache_read_input_tokens": 2,
            "cache_creation_input_tokens": 3}});
    for (key, value) in extra.as_object().unwrap() {
        all[key] = value.clone();
    }
    all
}

#[test]
fn what_a_stream_repeats_is_counted_once() {
    let stream = lines(&[
        assistant("m1", text("one")),
        assistant("m1", json!({"type": "tool_use", "id": "t", "name": "Task", "input": {"a": [1]}})),
        json!({"type": "assistant", "parent_tool_use_id": "t", "message": {"id": "m1", "content": "inside",
            "usage": {"input_tokens": 100, "output_tokens": 1, "cache_read_input_tokens": 0,
                "cache_creation_input_tokens": 0}}}),
        json!({"type": "user", "parent_tool_use_id": null, "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "t", "content": [text("a"), "b", 7, {"type": "image"}]}]}}),
        assistant("m2", json!({"type": "thinking", "thinking": "h\u{e9}m"})),
        assistant("m2", text("two")),
        result(json!({"modelUsage": {"m": {"inputTokens": 120, "outputTokens": 9, "cacheReadInputTokens": 4,
            "cacheCreationInputTokens": 6}, "side": {"inputTokens": 5, "outputTokens": 1,
            "cacheReadInputTokens": 0, "cacheCreationInputTokens": 0}}, "total_cost_usd": 0.5})),
    ]);
    let got = read_any(&stream).unwrap();
    assert_eq!(
        said(&got),
        ["0 text one", "0 call Agent", "0 ^text inside", "0 result a\nb", "0 thinking 3", "0 text two"]
    );
    assert_eq!(got.answer(), "one\ntwo");
    assert_eq!(got.final_message().as_deref(), Some("two"));
    assert_eq!(spent(got.usage), [Some(125), Some(10), Some(4), Some(6)]);
    assert_eq!(spent(got.usage_main), [Some(10), Some(7), Some(2), Some(3)]);
    // The placeholder of the first event is no count of output.
    assert_eq!(spent(got.usage_messages), [Some(120), None, Some(4), Some(6)]);
    assert_eq!(spent(got.usage_messages_main), [Some(20), None, Some(4), Some(6)]);
    assert!(got.faults.is_empty() && got.cost_usd == Some(0.5) && got.models == ["m"]);
}

#[test]
fn wrappers_lists_and_pretty_objects_are_read() {
    let events = [assistant("m1", text("one")), result(json!({"result": "one"}))];
    let wrapped = lines(&events.clone().map(|event| json!({"at": 1, "event": event})));
    let list = serde_json::to_vec_pretty(&events).unwrap();
    let pretty =
        events.iter().map(|e| serde_json::to_string_pretty(e).unwrap()).collect::<Vec<_>>().join("\n");
    let plain = read_any(&lines(&events)).unwrap();
    for other in [wrapped, list, pretty.into_bytes()] {
        assert_eq!(read_any(&other).unwrap(), plain);
    }
    let alone = read_any(&serde_json::to_vec_pretty(&result(json!({"result": "one"}))).unwrap()).unwrap();
    assert_eq!((alone.answer(), alone.turns.len()), ("one".to_owned(), 1));
}

#[test]
fn a_stream_that_stops_says_so() {
    let mut stream = lines(&[assistant("m1", text("one")), result(json!({})), assistant("m2", text("two"))]);
    let whole = read_any(&stream).unwrap();
    assert_eq!(whole.faults, [Fault::NoFinalRecord]);
    // The turn that has no end is known by its messages.
    assert_eq!(spent(whole.usage), [Some(20), None, Some(4), Some(6)]);
    assert_eq!((whole.usage_main, whole.cost_usd, whole.turns_begun()), (None, None, 2));
    stream.extend_from_slice(b"no\n\xff\xfe\n17\n{\"type\":\"assistant\",\"mess");
    let cut = read_any(&stream).unwrap();
    assert_eq!(cut.faults, [Fault::UnreadableLines { lines: 3 }, Fault::Cut, Fault::NoFinalRecord]);
    assert_eq!(cut.entries, whole.entries);
    let nothing = read(Dialect::Codex, b" \n\0\n").unwrap();
    assert_eq!(nothing.faults, [Fault::NoFinalRecord]);
    for (bytes, first) in
        [(&b"usage: agent\n"[..], "usage: agent"), (b"{\"type\":\"x\"}", "{\"type\":\"x\"}")]
    {
        let unknown = detect(bytes).unwrap_err();
        assert!(unknown.to_string().ends_with(&format!("it begins with `{first}`")), "{unknown}");
        assert!(read(Dialect::Claude, bytes).unwrap_err().to_string().contains("an event of claude;"));
    }
}

#[test]
fn fields_of_an_unexpected_shape_cost_no_line() {
    let stream = lines(&[
        json!({"type": "system", "subtype": "init", "cwd": 3, "tools": "all", "mcp_servers": [1, {"name": "a",
            "status": null}, {"name": "b", "status": "pending"}], "model": ["x"]}),
        json!({"type": "assistant", "error": {"status": 529}, "message": {"id": 4, "model": "<synthetic>",
            "content": [text("API Error: 529 overloaded")], "usage": []}}),
        json!({"type": "assistant", "message": {"id": "m", "content": {"type": "text", "text": "one"},
            "usage": {"input_tokens": "many", "output_tokens": -1}}, "timestamp": 12}),
        json!({"type": "user", "message": {"content": [null, {"type": "tool_result", "content": {"text": "x"},
            "is_error": "yes"}]}}),
        json!({"type": "result", "subtype": "error_max_turns", "is_error": true, "duration_ms": "long",
            "errors": {"a": 1}, "permission_denials": [{"tool_name": "Bash", "tool_use_id": "1"},
            {"tool_name": "Bash", "tool_use_id": "1"}, 5], "modelUsage": [], "usage": {"input_tokens": 1e300}}),
    ]);
    let got = read_any(&stream).unwrap();
    assert_eq!(said(&got), ["0 notice API Error: 529 overloaded", "0 text one", "0 result x"]);
    assert_eq!(
        got.faults,
        [
            Fault::ApiError { status: Some(529), text: "API Error: 529 overloaded".to_owned() },
            Fault::Limit { which: LimitKind::Turns, value: None },
            Fault::PermissionDenied { tool: "Bash".to_owned() },
            Fault::ServerNotConnected { name: "b".to_owned(), status: "pending".to_owned() },
        ]
    );
    assert_eq!((spent(got.usage), got.duration_ms), ([None; 4], None));
    assert_eq!(got.servers.len(), 2);
}

#[test]
fn dialects_do_not_mix() {
    let claude = assistant("m", text("one"));
    let codex = json!({"type": "turn.completed", "usage": {}});
    let opencode =
        json!({"type": "text", "sessionID": "ses_1", "part": {"id": "p", "type": "text", "text": "x"}});
    let atif = json!({"schema_version": "ATIF-v1.4", "steps": []});
    let all = [
        (Dialect::Claude, claude),
        (Dialect::Codex, codex),
        (Dialect::Opencode, opencode),
        (Dialect::Atif, atif),
    ];
    for (a, first) in &all {
        assert_eq!(detect(&lines(&[json!({"type": "noise"}), first.clone()])).unwrap(), *a);
        for (b, second) in &all {
            let both = read_any(&lines(&[first.clone(), second.clone()]));
            match both {
                Ok(_) => assert_eq!(a, b),
                Err(ReadError::Mixed { line: 2, dialect, other, .. }) => {
                    assert_eq!((dialect, other), (*a, *b));
                }
                Err(other) => panic!("{a:?} {b:?}: {other}"),
            }
        }
    }
}

fn stored(kind: &str, id: &str, parent: Option<&str>, message: Value) -> Value {
    json!({"type": kind, "uuid": id, "parentUuid": parent, "sessionId": "s", "version": "2.0.1", "cwd": "/w",
        "isSidechain": false, "timestamp": "2026-01-01T00:00:01.500Z", "message": message})
}

#[test]
fn stored_sessions_have_turns_by_prompts_and_leave_out_what_was_taken_back() {
    let reply = |id: &str, words: &str, stop: &str| {
        json!({"id": id, "model": "m", "content": [text(words)],
        "stop_reason": stop, "usage": {"input_tokens": 1, "output_tokens": 5, "cache_read_input_tokens": 0,
        "cache_creation_input_tokens": 0}})
    };
    let call = |id: &str, name: &str| {
        json!({"id": "m0", "content": [{"type": "tool_use", "id": id, "name": name,
        "input": {}}], "stop_reason": "tool_use", "usage": {"input_tokens": 1, "output_tokens": 9,
        "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}})
    };
    let done = |id: &str| {
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id,
        "content": id}]})
    };
    let mut meta = stored("user", "u0", None, json!({"role": "user", "content": "<command>"}));
    meta["isMeta"] = json!(true);
    let mut side = stored("assistant", "x", Some("a0"), json!({"id": "mx", "content": [text("aside")]}));
    side["isSidechain"] = json!(true);
    let session = [
        json!({"type": "summary", "summary": "x", "leafUuid": "y"}),
        meta,
        stored("user", "u1", Some("u0"), json!({"role": "user", "content": "ask"})),
        // Calls side by side: two lines follow the same one, and both stay.
        stored("assistant", "a0", Some("u1"), call("t0", "Read")),
        stored("assistant", "a1", Some("a0"), call("t1", "Grep")),
        side,
        stored("user", "r0", Some("a0"), done("t0")),
        stored("user", "r1", Some("a1"), done("t1")),
        stored("assistant", "a2", Some("r1"), reply("m1", "wrong", "end_turn")),
        stored("user", "u2", Some("a2"), json!({"role": "user", "content": [text("ask badly")]})),
        stored("assistant", "a3", Some("u2"), reply("m2", "taken back", "end_turn")),
        stored("user", "u3", Some("a2"), json!({"role": "user", "content": "ask well"})),
        stored("assistant", "a4", Some("u3"), reply("m3", "right", "end_turn")),
        json!({"type": "file-history-snapshot", "messageId": "z"}),
    ];
    let got = read_any(&lines(&session)).unwrap();
    assert_eq!(
        said(&got),
        [
            "0 prompt ask",
            "0 call Read",
            "0 call Grep",
            "0 ^text aside",
            "0 result t0",
            "0 result t1",
            "0 text wrong",
            "2 prompt ask well",
            "2 text right"
        ]
    );
    assert_eq!(got.turns.len(), 3);
    // What was taken back was paid all the same. The aside does not tell its tokens.
    assert_eq!((got.usage_messages, got.faults.len()), (None, 0));
    assert_eq!(got.agent.as_deref(), Some("claude-code 2.0.1"));
    assert_eq!((got.session.as_deref(), got.cwd.as_deref()), (Some("s"), Some("/w")));
    assert_eq!(got.entries[0].at_ms, Some(1_767_225_601_500));
    let open = read_any(&lines(&session[..6])).unwrap();
    assert_eq!((open.turns.len(), open.faults), (0, vec![Fault::NoFinalRecord]));
}

#[test]
fn partial_messages_give_output_by_thread() {
    let partial = |parent: Value, event: Value| {
        json!({"type": "stream_event", "event": event,
        "parent_tool_use_id": parent})
    };
    let stream = lines(&[
        partial(json!(null), json!({"type": "message_start", "message": {"id": "m1"}})),
        assistant("m1", text("one")),
        partial(json!("t"), json!({"type": "message_delta", "usage": {"output_tokens": 1000}})),
        partial(json!(null), json!({"type": "message_delta", "usage": {"output_tokens": 40}})),
        assistant("m1", text("more")),
        result(json!({})),
    ]);
    let got = read_any(&stream).unwrap();
    assert_eq!(spent(got.usage_messages), [Some(10), Some(40), Some(2), Some(3)]);
    assert_eq!(got.answer(), "one\nmore");
    assert_eq!(got.final_message().as_deref(), Some("one\nmore"));
}

#[test]
fn codex_items_are_calls_and_prose() {
    let item = |kind: &str, item: Value| json!({"type": kind, "item": item});
    let usage = |input: u64, output: u64| {
        json!({"type": "turn.completed", "usage": {"input_tokens": input,
        "cached_input_tokens": 60, "cache_write_input_tokens": 10, "output_tokens": output,
        "reasoning_output_tokens": 3}})
    };
    let started = json!({"type": "thread.started", "thread_id": "t"});
    let stream = [
        started.clone(),
        json!({"type": "turn.started"}),
        item("item.started", json!({"id": "item_0", "type": "web_search", "query": "q"})),
        item(
            "item.completed",
            json!({"id": "item_0", "type": "web_search", "query": "q", "status": "completed"}),
        ),
        item("item.completed", json!({"id": "item_1", "type": "reasoning", "text": "hm"})),
        item(
            "item.completed",
            json!({"id": "item_2", "type": "file_change", "changes": [{"path": "a"}],
            "status": "failed"}),
        ),
        item(
            "item.completed",
            json!({"id": "item_3", "type": "mcp_tool_call", "server": "a__b", "tool": "find",
            "arguments": {"q": 1}, "result": {"content": [text("x"), text("y")]}, "status": "completed"}),
        ),
        json!({"type": "error", "message": "Reconnecting... 1/5"}),
        json!({"type": "error", "message": "Reconnecting... 2/5"}),
        item("item.completed", json!({"id": "item_4", "type": "agent_message", "text": "one"})),
        usage(100, 5),
        started,
        item("item.started", json!({"id": "item_0", "type": "command_execution", "command": "ls"})),
        usage(250, 9),
        json!({"type": "error", "message": "You've hit your usage limit."}),
    ];
    let got = read_any(&lines(&stream)).unwrap();
    assert_eq!(
        said(&got),
        [
            "0 call WebSearch",
            "0 result completed",
            "0 thinking 2",
            "0 call Edit",
            "0 result failed",
            "0 call find",
            "0 result x\ny",
            "0 text one",
            "1 call Bash",
            "2 notice You've hit your usage limit."
        ]
    );
    let (_, call, reply) = got.exchanges()[2];
    assert_eq!((call.server.as_deref(), call.name.as_str()), (Some("a__b"), "mcp__a__b__find"));
    assert!(reply.is_some_and(|r| !r.error) && got.exchanges()[1].2.is_some_and(|r| r.error));
    assert!(got.exchanges()[3].2.is_none());
    assert_eq!(spent(got.turns[0].usage), [Some(30), Some(5), Some(60), Some(10)]);
    assert_eq!(spent(got.turns[1].usage), [Some(150), Some(4), Some(0), Some(0)]);
    assert_eq!(
        got.faults,
        [
            Fault::Retried { times: 2, status: None },
            Fault::RateLimited { text: "You've hit your usage limit.".to_owned() },
            Fault::NoFinalRecord,
        ]
    );
}

#[test]
fn stored_codex_sessions_count_each_reading_once() {
    let line = |kind: &str, payload: Value| {
        json!({"timestamp": "2026-01-01T00:00:00Z", "type": kind,
        "payload": payload})
    };
    let tokens = |n: u64| json!({"input_tokens": n, "cached_input_tokens": 1, "output_tokens": 2});
    let count = |total: u64, last: u64| {
        line(
            "event_msg",
            json!({"type": "token_count", "info": {
        "total_token_usage": tokens(total), "last_token_usage": tokens(last)}}),
        )
    };
    let session = lines(&[
        line("session_meta", json!({"id": "t", "cwd": "/w", "cli_version": "0.171.0"})),
        line("turn_context", json!({"model": "gpt", "cwd": "/w"})),
        line("event_msg", json!({"type": "task_started"})),
        line(
            "response_item",
            json!({"type": "message", "role": "user", "content": [
            {"type": "input_text", "text": "<environment_context>"}]}),
        ),
        line("event_msg", json!({"type": "user_message", "message": "ask"})),
        line("event_msg", json!({"type": "token_count", "info": null})),
        line(
            "response_item",
            json!({"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}),
        ),
        line(
            "response_item",
            json!({"type": "function_call", "name": "shell", "call_id": "1",
            "arguments": "{\"command\":[\"ls\"]}"}),
        ),
        line("response_item", json!({"type": "function_call_output", "call_id": "1", "output": "a.py"})),
        line(
            "response_item",
            json!({"type": "function_call", "namespace": "mcp__ix", "name": "find", "call_id": "2",
            "arguments": "not json"}),
        ),
        line(
            "response_item",
            json!({"type": "function_call_output", "call_id": "2", "output": {"content": "no",
            "success": false}}),
        ),
        count(11, 11),
        count(11, 11),
        line("event_msg", json!({"type": "agent_message", "message": "one"})),
        line(
            "response_item",
            json!({"type": "message", "role": "assistant", "content": [
            {"type": "output_text", "text": "one"}]}),
        ),
        count(31, 20),
        line("event_msg", json!({"type": "task_complete", "last_agent_message": "one"})),
        line("event_msg", json!({"type": "user_message", "message": "again"})),
        line("event_msg", json!({"type": "turn_aborted", "reason": "interrupted"})),
    ]);
    let got = read_any(&session).unwrap();
    assert_eq!(
        said(&got),
        [
            "0 prompt ask",
            "0 thinking 2",
            "0 call Bash",
            "0 result a.py",
            "0 call find",
            "0 result no",
            "0 text one",
            "1 prompt again"
        ]
    );
    let (_, call, reply) = got.exchanges()[1];
    assert_eq!((call.server.as_deref(), call.input.as_str()), (Some("ix"), Some("not json")));
    assert!(reply.is_some_and(|r| r.error));
    assert_eq!(spent(got.usage), [Some(30), Some(2), Some(1), None]);
    // Each reading says output 2, the total says 2 in all: what does not agree is seen.
    assert_eq!(spent(got.usage_messages), [Some(29), Some(4), Some(2), None]);
    assert_eq!(got.turns.iter().map(|t| t.error).collect::<Vec<_>>(), [false, true]);
    assert_eq!((got.agent.as_deref(), got.models.join(" ")), (Some("codex 0.171.0"), "gpt".to_owned()));
}

#[test]
fn opencode_parts_count_in_their_last_version() {
    let event =
        |kind: &str, part: Value| json!({"type": kind, "timestamp": 5, "sessionID": "ses_1", "part": part});
    let finish = |id: &str, reason: &str, tokens: Value| {
        event(
            "step_finish",
            json!({"id": id, "type": "step-finish",
        "reason": reason, "tokens": tokens, "cost": 0.25}),
        )
    };
    let stream = lines(&[
        event("text", json!({"id": "p1", "type": "text", "text": "on"})),
        event(
            "tool_use",
            json!({"id": "p2", "type": "tool", "tool": "my_ix_find", "callID": "c",
            "state": {"status": "running", "input": {}}}),
        ),
        event("text", json!({"id": "p1", "type": "text", "text": "one"})),
        event(
            "tool_use",
            json!({"id": "p2", "type": "tool", "tool": "my_ix_find", "callID": "c",
            "state": {"status": "error", "input": {"q": 1}, "error": "no"}}),
        ),
        finish(
            "p3",
            "tool-calls",
            json!({"input": 10, "output": 4, "reasoning": 3, "cache": {"read": 2, "write": 1}}),
        ),
        event("text", json!({"id": "p4", "type": "text", "text": "two"})),
        finish(
            "p5",
            "stop",
            json!({"total": 14, "input": 10, "output": 4, "reasoning": 3, "cache": {"read": 0, "write": 0}}),
        ),
        event("text", json!({"id": "p6", "type": "text", "text": "three"})),
        finish(
            "p7",
            "length",
            json!({"input": 1, "output": 1, "reasoning": 0, "cache": {"read": 0, "write": 0}}),
        ),
        json!({"type": "error", "sessionID": "ses_1", "error": {"name": "UnknownError", "data": {"message": "gone"}}}),
    ]);
    let hints = Hints { servers: vec!["my.ix".to_owned()], before: None };
    let got = read_with(Dialect::Opencode, &stream, &hints).unwrap();
    assert_eq!(
        said(&got),
        ["0 text one", "0 call find", "0 result no", "0 text two", "1 text three", "2 notice gone"]
    );
    let (_, call, reply) = got.exchanges()[0];
    assert_eq!((call.server.as_deref(), &call.input), (Some("my.ix"), &json!({"q": 1})));
    assert!(reply.is_some_and(|r| r.error));
    // Thinking is output: on top, unless the total says that it is in it.
    assert_eq!(spent(got.turns[0].usage), [Some(20), Some(11), Some(2), Some(1)]);
    assert_eq!((got.turns[0].cost_usd, got.cost_usd), (Some(0.5), Some(0.75)));
    assert_eq!(
        got.faults,
        [
            Fault::Limit { which: LimitKind::Tokens, value: None },
            Fault::AgentError { text: "gone".to_owned() },
        ]
    );
    assert_eq!(
        got.turns.iter().map(|t| t.subtype.as_deref().unwrap_or("-")).collect::<Vec<_>>(),
        ["stop", "length", "error"]
    );
}

#[test]
fn opencode_exports_and_stored_files_mean_the_same() {
    let session = json!({"id": "ses_1", "version": "1.18.33", "directory": "/w", "projectID": "p"});
    let asked = json!({"id": "msg_1", "sessionID": "ses_1", "role": "user", "time": {"created": 7}});
    let answered = json!({"id": "msg_2", "sessionID": "ses_1", "role": "assistant", "modelID": "m", "providerID": "p",
        "path": {"cwd": "/w"}, "finish": "stop", "cost": 0.5, "time": {"created": 9},
        "tokens": {"input": 3, "output": 2, "reasoning": 0, "cache": {"read": 1, "write": 0}}});
    let part = |id: &str, message: &str, kind: &str, words: &str| {
        json!({"id": id, "messageID": message,
        "sessionID": "ses_1", "type": kind, "text": words})
    };
    let parts = [
        part("prt_1", "msg_1", "text", "ask"),
        part("prt_2", "msg_2", "reasoning", "hm"),
        part("prt_3", "msg_2", "text", "one"),
    ];
    let export = json!({"info": session, "messages": [{"info": asked, "parts": [parts[0]]},
        {"info": answered, "parts": [parts[1], parts[2]]}]});
    let whole = read_any(&serde_json::to_vec_pretty(&export).unwrap()).unwrap();
    let [p1, p2, p3] = parts;
    let files = [p3, answered, p1, session, asked, p2];
    let files = files.map(|f| serde_json::to_string_pretty(&f).unwrap()).concat();
    assert_eq!(read_any(files.as_bytes()).unwrap(), whole);
    assert_eq!(said(&whole), ["0 prompt ask", "0 thinking 2", "0 text one"]);
    assert_eq!(spent(whole.usage), [Some(3), Some(2), Some(1), Some(0)]);
    assert_eq!((whole.models.join(" "), whole.cwd.as_deref()), ("p/m".to_owned(), Some("/w")));
    assert_eq!((whole.agent.as_deref(), whole.faults.len()), (Some("opencode 1.18.33"), 0));
    assert_eq!(whole.entries.iter().map(|e| e.at_ms).collect::<Vec<_>>(), [Some(7), Some(9), Some(9)]);
}

#[test]
fn trajectories_are_read_with_their_sub_agents() {
    let document = json!({
        "schema_version": "ATIF-v1.7", "session_id": "s",
        "agent": {"name": "harness", "version": "1.2", "model_name": "m", "tool_definitions": [
            {"type": "function", "function": {"name": "read_file"}}]},
        "steps": [
            {"step_id": 1, "source": "agent", "message": "old", "is_copied_context": true,
             "metrics": {"prompt_tokens": 1000}},
            {"step_id": 2, "source": "system", "message": "rules"},
            {"step_id": 3, "source": "user", "message": [{"type": "text", "text": "ask"}],
             "timestamp": "2026-01-01T00:00:01Z"},
            {"step_id": 4, "source": "agent", "message": "look", "reasoning_content": "hm", "tool_calls": [
                {"tool_call_id": "c", "function_name": "mcp__ix__find", "arguments": {"q": 1}}],
             "observation": {"results": [{"source_call_id": "c", "content": "a.py"}]},
             "metrics": {"prompt_tokens": 10, "completion_tokens": 2, "cached_tokens": 4, "cost_usd": 0.25}},
            {"step_id": 5, "source": "agent", "message": "one",
             "metrics": {"prompt_tokens": 20, "completion_tokens": 3, "cached_tokens": 0, "cost_usd": 0.25}},
        ],
        "subagent_trajectories": [{"schema_version": "ATIF-v1.7", "steps": [
            {"step_id": 4, "source": "agent", "message": "aside", "metrics": {"prompt_tokens": 5,
                "completion_tokens": 1, "cached_tokens": 0}}]}],
        "final_metrics": {"total_prompt_tokens": 36, "total_completion_tokens": 6, "total_cached_tokens": 4,
            "total_cost_usd": 0.625},
    });
    let got = read_any(&serde_json::to_vec_pretty(&document).unwrap()).unwrap();
    assert_eq!(
        said(&got),
        [
            "0 notice rules",
            "0 prompt ask",
            "0 thinking 2",
            "0 text look",
            "0 call find",
            "0 result a.py",
            "0 text one",
            "0 ^text aside"
        ]
    );
    assert_eq!(got.final_message().as_deref(), Some("one"));
    assert_eq!(spent(got.usage), [Some(32), Some(6), Some(4), None]);
    assert_eq!(spent(got.usage_messages), [Some(31), Some(6), Some(4), None]);
    assert_eq!(spent(got.usage_messages_main), [Some(26), Some(5), Some(4), None]);
    assert_eq!((got.usage_main, got.cost_usd, got.faults.len()), (None, Some(0.625), 0));
    assert_eq!((got.agent.as_deref(), got.tools.join(" ")), (Some("harness 1.2"), "read_file".to_owned()));
    let two = json!({"schema_version": "ATIF-v1.0", "steps": [{"source": "user", "message": "a"},
        {"source": "agent", "message": "1"}, {"source": "user", "message": "b"}, {"source": "agent", "message": "2"}]});
    let two = read_any(two.to_string().as_bytes()).unwrap();
    assert_eq!((two.turn_answer(0).as_deref(), two.turn_answer(1).as_deref()), (Some("1"), Some("2")));
    assert_eq!((two.turns.len(), two.usage), (2, None));
}
