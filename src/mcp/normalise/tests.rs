//! Shapes that are not among the recorded replies.

use serde_json::{Value, json};

use super::{Kind, Normalised, Rules, normalise};
use crate::manifest::server::Lines;

const ROOT: &str = "/srv/copy/flask";

fn known(file: &str) -> bool {
    [
        "src/flask/app.py",
        "src/flask/helpers.py",
        "src/größe/日本.py",
        "Makefile",
        "README.md",
        "bin/run",
        "src/naïve file.py",
        "app/(group)/[id]/page.tsx",
        "setup.py",
    ]
    .contains(&file)
}

fn with(value: &Value, lines: Lines, sure: bool) -> Normalised {
    let known: &dyn Fn(&str) -> bool = &known;
    normalise(value, &Rules { roots: vec![ROOT.to_owned()], lines, known: sure.then_some(known) })
}

fn reply(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// `file:line` of each hit of a text reply; the answer must not depend on knowing the corpus.
fn places(text: &str) -> Vec<String> {
    let value = reply(text);
    let got = list(&with(&value, Lines::OneBased, true));
    assert_eq!(list(&with(&value, Lines::OneBased, false)), got, "with and without knowing the corpus");
    got
}

fn list(got: &Normalised) -> Vec<String> {
    got.hits
        .iter()
        .map(|hit| {
            let file = hit.file.clone().unwrap_or_default();
            hit.line.map_or_else(|| file.clone(), |line| format!("{file}:{line}"))
        })
        .collect()
}

fn kind(text: &str) -> Kind {
    with(&reply(text), Lines::OneBased, true).kind
}

fn json_places(value: &Value) -> Vec<String> {
    places(&value.to_string())
}

#[test]
fn lists_of_objects_by_any_name() {
    let helpers = "src/flask/helpers.py:195";
    for value in [
        json!([{"file": "src/flask/helpers.py", "line": 195}]),
        json!({"results": [{"file_path": "/srv/copy/flask/src/flask/helpers.py", "start_line": 195, "end_line": 246}]}),
        json!({"hits": [{"filePath": "./src/flask/helpers.py", "startLine": "195"}]}),
        json!({"matches": [{"path": "src/flask/helpers.py", "line_number": 195, "lines": {"text": "def url_for("}}]}),
        json!({"result": [{"relative_path": "src/flask/helpers.py", "body_location": {"start_line": 195}}]}),
        json!({"items": [{"metadata": {"path": "src/flask/helpers.py", "line": 195}, "content": "x"}]}),
        json!({"documents": [{"pageContent": "x", "metadata": {"source": "src/flask/helpers.py", "loc": {"lines": {"from": 195, "to": 200}}}}]}),
        json!({"data": {"symbols": [{"name": "url_for", "location": {"uri": "file:///srv/copy/flask/src/flask/helpers.py", "range": {"start": {"line": 195, "character": 4}}}}]}}),
        json!([{"location": "src/flask/helpers.py:195", "name": "url_for"}]),
        json!([{"path": "src/flask/helpers.py:195-246"}]),
        json!([{"file": "src/flask/helpers.py#L195-L246"}]),
        json!({"structured": {"nodes": [{"node": {"file": "src/flask/helpers.py", "range": [195, 246]}}]}}),
        json!({"points": [{"id": 7, "score": 0.5, "payload": {"file_path": "src/flask/helpers.py", "start_line": 195}}]}),
        json!({"results": [{"id": "src/flask/helpers.py:195-246", "text": "def url_for("}]}),
        json!([["src/flask/helpers.py", 195, "def url_for("]]),
        json!({"columns": ["n.name", "n.filePath", "n.startLine"], "rows": [["url_for", "src/flask/helpers.py", 195]]}),
        json!({"src/flask/helpers.py": [195]}),
        json!({"files": {"src/flask/helpers.py": {"matches": [{"line": 195, "text": "x"}]}}}),
        json!({"matches": {"src/flask/helpers.py": [{"lineNumber": 195}]}}),
        json!({"src/flask/helpers.py": ["195: def url_for("]}),
        json!({"results": [{"file": "src/flask/helpers.py", "matches": [{"line": 195, "text": "x"}]}]}),
        json!({"results": ["src/flask/helpers.py:195"]}),
        json!({"results": ["src/flask/helpers.py:195: def url_for("]}),
        json!(["src\\flask\\helpers.py:195"]),
        json!({"result": "[{\"file\": \"src/flask/helpers.py\", \"line\": 195}]"}),
        json!({"result": "src/flask/helpers.py:195:def url_for("}),
        json!({"content": [{"type": "text", "text": "src/flask/helpers.py:195"}]}),
    ] {
        assert_eq!(json_places(&value), [helpers], "{value}");
    }
}

#[test]
fn answers_by_intent_are_read_whatever_the_key() {
    // The answers of a server that routes questions: no `results` in sight.
    let callers = json!({"intent": "callers", "symbol": "url_for", "callers": [
        {"name": "redirect", "file": "src/flask/helpers.py", "line": 249},
        {"name": "dispatch", "file": "src/flask/app.py", "line": 12}], "count": 2});
    assert_eq!(json_places(&callers), ["src/flask/helpers.py:249", "src/flask/app.py:12"]);
    let impact = json!({"intent": "impact", "target": {"name": "url_for", "file": "src/flask/helpers.py", "line": 195},
        "direct": [{"symbol": "x", "file": "src/flask/app.py", "line": 3}],
        "by_depth": {"1": [{"name": "y", "filePath": "src/flask/app.py", "startLine": 9}]}});
    assert_eq!(
        json_places(&impact),
        ["src/flask/helpers.py:195", "src/flask/app.py:3", "src/flask/app.py:9"]
    );
    let nested = json!({"results": [
        {"name": "a", "file": "src/flask/app.py", "line": 1, "uses": [{"file": "src/flask/helpers.py", "line": 2}]},
        {"name": "b", "file": "src/flask/app.py", "line": 3}]});
    // Results first, what hangs on them later.
    assert_eq!(json_places(&nested), ["src/flask/app.py:1", "src/flask/app.py:3", "src/flask/helpers.py:2"]);
    let none = json!({"intent": "callers", "symbol": "x", "callers": [], "count": 0});
    assert_eq!(kind(&none.to_string()), Kind::Empty);
}

#[test]
fn symbols_and_scores_are_kept_in_order_and_not_merged() {
    let value = json!({"results": [
        {"file": "src/flask/app.py", "symbol": "Flask.run", "score": 0.9, "line": 5},
        {"file": "src/flask/app.py", "function": "run", "similarity": "0.5", "line": 5},
        {"file": "src/flask/app.py", "name": "app.py", "score": 0},
        {"file": "src/flask/app.py", "score": "high"}]});
    let got = with(&reply(&value.to_string()), Lines::OneBased, false);
    let pairs: Vec<_> = got.hits.iter().map(|h| (h.symbol.as_deref(), h.score)).collect();
    assert_eq!(
        pairs,
        [(Some("Flask.run"), Some(0.9)), (Some("run"), Some(0.5)), (None, Some(0.0)), (None, None)]
    );
}

#[test]
fn structured_content_wins_unless_the_text_says_more() {
    let text = "src/flask/app.py:1: x\nsrc/flask/helpers.py:2: y";
    let both = json!({"content": [{"type": "text", "text": text}],
        "structuredContent": {"results": [{"file": "src/flask/app.py", "line": 1, "score": 1.5}, {"file": "src/flask/helpers.py", "line": 2}]}});
    let got = with(&both, Lines::OneBased, true);
    assert_eq!(got.hits[0].score, Some(1.5));
    let poor = json!({"content": [{"type": "text", "text": text}], "structuredContent": {"count": 2}});
    assert_eq!(with(&poor, Lines::OneBased, true).hits.len(), 2);
    let wrapped = json!({"content": [], "structuredContent": {"result": ["src/flask/app.py"]}});
    assert_eq!(list(&with(&wrapped, Lines::OneBased, true)), ["src/flask/app.py"]);
}

#[test]
fn blocks_are_one_reply() {
    let block = |text: &str| json!({"type": "text", "text": text});
    let several = json!({"content": [block("{\"file\": \"src/flask/app.py\", \"line\": 3}"), block("{\"file\": \"src/flask/helpers.py\", \"line\": 4}")]});
    assert_eq!(
        list(&with(&several, Lines::OneBased, false)),
        ["src/flask/app.py:3", "src/flask/helpers.py:4"]
    );
    let mixed = json!({"content": [block("Found 1 result:"), block("src/flask/app.py:3"), {"type": "image", "data": "eA=="}]});
    assert_eq!(list(&with(&mixed, Lines::OneBased, false)), ["src/flask/app.py:3"]);
    let linked = json!({"content": [block("See:"), {"type": "resource_link", "uri": "file:///srv/copy/flask/src/flask/app.py"},
        {"type": "resource", "resource": {"uri": "file:///srv/copy/flask/src/gr%C3%B6%C3%9Fe/%E6%97%A5%E6%9C%AC.py#L7"}}]});
    assert_eq!(list(&with(&linked, Lines::OneBased, false)), ["src/flask/app.py", "src/größe/日本.py:7"]);
}

#[test]
fn grep_in_its_dresses() {
    assert_eq!(places("/srv/copy/flask/src/flask/app.py:10:    def x"), ["src/flask/app.py:10"]);
    assert_eq!(
        places("src/flask/app.py:10:5: def x\nsrc/flask/app.py-11-  y\nsrc/flask/app.py:12:z"),
        ["src/flask/app.py:10", "src/flask/app.py:12"]
    );
    assert_eq!(
        places("src/flask/app.py\n10:def x\n11:def y\n\nsrc/flask/helpers.py\n3:z"),
        ["src/flask/app.py:10", "src/flask/app.py:11", "src/flask/helpers.py:3"]
    );
    assert_eq!(places("```\nsrc/flask/app.py:10:def x\n```"), ["src/flask/app.py:10"]);
    assert_eq!(
        places("Found 2 matches:\n  src/flask/app.py:10: raise Error('index not found')\n"),
        ["src/flask/app.py:10"]
    );
    assert_eq!(
        places("./src/flask/app.py:7:x\nsrc/../src/flask/app.py:8:x"),
        ["src/flask/app.py:7", "src/flask/app.py:8"]
    );
    // Code that names other files is no list of them.
    assert_eq!(places("src/flask/app.py:10:open('src/flask/helpers.py:3')"), ["src/flask/app.py:10"]);
}

#[test]
fn markdown_in_its_dresses() {
    assert_eq!(
        places("**Results**\n\n1. `src/flask/app.py:10` - def x\n2. `src/flask/helpers.py:20-30`"),
        ["src/flask/app.py:10", "src/flask/helpers.py:20"]
    );
    assert_eq!(places("- [src/flask/app.py:10](src/flask/app.py#L10): x"), ["src/flask/app.py:10"]);
    assert_eq!(
        places("### src/flask/app.py (lines 10-20)\n```python\ndef x(): pass\n```"),
        ["src/flask/app.py:10"]
    );
    assert_eq!(
        places("## `src/flask/app.py`\n```python\n10\tdef x():\n11\t  pass\n20\tdef y():\n```"),
        ["src/flask/app.py:10", "src/flask/app.py:20"]
    );
    assert_eq!(
        places(
            "| File | Line | Symbol |\n|---|---|---|\n| src/flask/app.py | 10 | x |\n| `src/flask/helpers.py` | 20 | y |"
        ),
        ["src/flask/app.py:10", "src/flask/helpers.py:20"]
    );
    assert_eq!(
        places("File: src/flask/app.py\nLines: 10-20\nScore: 0.83\n\nFile: src/flask/helpers.py:34"),
        ["src/flask/app.py:10", "src/flask/helpers.py:34"]
    );
    assert_eq!(
        places("Result 1 (score 0.9):\n  Path: src/flask/app.py, Line: 10\n"),
        ["src/flask/app.py:10"]
    );
    assert_eq!(
        places("- file: src/flask/app.py\n  line: 10\n- file: src/flask/helpers.py\n  line: 20\n"),
        ["src/flask/app.py:10", "src/flask/helpers.py:20"]
    );
    assert_eq!(
        places("path=src/flask/app.py\nSource: \"src/flask/helpers.py\""),
        ["src/flask/app.py", "src/flask/helpers.py"]
    );
    assert_eq!(
        places("{'file': 'src/flask/app.py', 'line': 10}\n{'file': 'src/flask/helpers.py', 'line': 20}"),
        ["src/flask/app.py:10", "src/flask/helpers.py:20"]
    );
    assert_eq!(
        places("├── src/flask/app.py\n└── src/flask/helpers.py"),
        ["src/flask/app.py", "src/flask/helpers.py"]
    );
    assert_eq!(
        places("src/flask/app.py - 3 matches\nsrc/flask/helpers.py (0.71)"),
        ["src/flask/app.py", "src/flask/helpers.py"]
    );
    assert_eq!(places("url_for is at src/flask/helpers.py, line 195."), ["src/flask/helpers.py:195"]);
    assert_eq!(
        places("Flask.run -> src/flask/app.py:3 calls url_for (src/flask/helpers.py:195)"),
        ["src/flask/app.py:3", "src/flask/helpers.py:195"]
    );
}

#[test]
fn names_before_places_are_symbols() {
    for text in [
        "**url_for** (function)\nsrc/flask/helpers.py:195",
        "- `url_for` (src/flask/helpers.py:195) - 4 callers",
        "- url_for (function) - src/flask/helpers.py:195",
        "function url_for at src/flask/helpers.py:195",
        "src/flask/helpers.py::url_for:195",
    ] {
        let got = with(&reply(text), Lines::OneBased, false);
        assert_eq!(list(&got), ["src/flask/helpers.py:195"], "{text}");
        assert_eq!(got.hits[0].symbol.as_deref(), Some("url_for"), "{text}");
    }
}

#[test]
fn tables_and_compact_rows() {
    assert_eq!(
        places("file,line,symbol\nsrc/flask/app.py,10,x\nsrc/flask/helpers.py,20,\"y, z\""),
        ["src/flask/app.py:10", "src/flask/helpers.py:20"]
    );
    assert_eq!(places("path\tline\nsrc/flask/app.py\t10"), ["src/flask/app.py:10"]);
    let munch = "#MUNCH/1\ns,src/flask/helpers.py::url_for#function,url_for,function,src/flask/helpers.py,195,\ns,src/flask/app.py::Flask.url_for#method,url_for,method,src/flask/app.py,1003,";
    let got = with(&reply(munch), Lines::OneBased, false);
    assert_eq!(list(&got), ["src/flask/helpers.py:195", "src/flask/app.py:1003"]);
    assert_eq!(got.hits[1].symbol.as_deref(), Some("Flask.url_for"));
    assert_eq!(places("#MUNCH/1\n@1=src/flask/app.py\ns,url_for,@1,195,"), ["src/flask/app.py:195"]);
}

#[test]
fn tags_in_their_dresses() {
    assert_eq!(
        places(
            "<results>\n<result file=\"src/flask/app.py\" line=\"10\" score=\"0.5\">code</result>\n</results>"
        ),
        ["src/flask/app.py:10"]
    );
    assert_eq!(
        places(
            "<file path=\"/srv/copy/flask/src/flask/app.py\">\n\n  10 def x():\n  11   pass\n...\n  20 def y():\n</file>"
        ),
        ["src/flask/app.py:10", "src/flask/app.py:20"]
    );
    assert_eq!(
        places(
            "<file>src/flask/app.py</file>\n<lines>\n<start>10</start>\n<end>20</end>\n</lines>\n<code><![CDATA[<file>src/flask/helpers.py</file>]]></code>"
        ),
        ["src/flask/app.py:10"]
    );
    assert_eq!(
        places("<file name=\"src/flask/app.py\"><match line=\"3\"/><match line=\"9\"/></file>"),
        ["src/flask/app.py:3", "src/flask/app.py:9"]
    );
    assert_eq!(places("<script src=\"src/flask/app.py\"></script>"), Vec::<String>::new());
}

#[test]
fn paths_find_home() {
    let windows = json!([{"file": "C:\\corpus\\src\\flask\\app.py", "line": 3}, {"file": "src\\größe\\日本.py", "line": 4},
        {"file": "./src/naïve file.py", "line": 5}, {"file": "file:///C:/corpus/src/flask/app.py"}, {"file": "flask/src/flask/app.py"},
        {"file": "/elsewhere/src/flask/app.py"}, {"file": "Makefile"}, {"file": "bin/run"}]);
    let got = with(&reply(&windows.to_string()), Lines::OneBased, true);
    assert_eq!(
        list(&got),
        [
            "src/flask/app.py:3",
            "src/größe/日本.py:4",
            "src/naïve file.py:5",
            "src/flask/app.py",
            "src/flask/app.py",
            "/elsewhere/src/flask/app.py",
            "Makefile",
            "bin/run"
        ]
    );
    let drive = Rules { roots: vec!["C:/Corpus".to_owned()], ..Rules::default() };
    let got = normalise(&reply("c:\\corpus\\src\\a.py:3:x"), &drive);
    assert_eq!(list(&got), ["src/a.py:3"]);
    assert_eq!(places("src/naïve file.py:7:x"), ["src/naïve file.py:7"]);
    assert_eq!(places("app/(group)/[id]/page.tsx:7 x"), ["app/(group)/[id]/page.tsx:7"]);
}

#[test]
fn zero_based_lines_are_moved() {
    let value = reply("[{\"file\": \"src/flask/app.py\", \"range\": {\"start\": {\"line\": 0}}}]");
    assert_eq!(list(&with(&value, Lines::ZeroBased, true)), ["src/flask/app.py:1"]);
    // Line 0 of a server that counts from 1 is no line.
    assert_eq!(list(&with(&value, Lines::OneBased, true)), ["src/flask/app.py"]);
}

#[test]
fn nothing_is_told_from_broken() {
    for text in [
        "",
        "[]",
        "{}",
        "null",
        "No matches found",
        "No results found for \"x\"",
        "Found 0 matches",
        "{\"results\": []}",
        "{\"results\": null, \"total\": 0}",
        "{\"success\": true, \"results\": [], \"message\": \"No results found.\"}",
        "Nothing found.",
        "{\"matches\": {}, \"count\": 0}",
        "Symbol not found: x",
        "{\"ids\": [[]], \"documents\": [[]], \"metadatas\": [[]]}",
        "{\"message\": \"No results found\"}",
        "0 results",
        "Could not find any code that matches.",
        "{\"repo_map\": \"\", \"stats\": {\"files\": 0}}",
        "```json\n[]\n```",
        "No symbols matching 'zzz' in 120 files.",
    ] {
        assert_eq!(kind(text), Kind::Empty, "{text}");
    }
    for text in [
        "Error: index missing",
        "Error executing tool search: bad",
        "{\"status\": \"error\", \"message\": \"x\"}",
        "{\"status\": \"needs_deep_index\"}",
        "{\"error\": \"Project not indexed\"}",
        "{\"success\": false, \"message\": \"model is missing\"}",
        "Failed to load the model: fetch failed",
        "Traceback (most recent call last):\n  File \"src/flask/app.py\", line 12, in x\nValueError: bad",
        "Repository is not indexed. Run index first.",
        "Unknown tool: x",
        "Error: could not open src/flask/app.py:12",
        "ValueError: src/flask/app.py:3 is broken",
        "{\"error\": {\"code\": 5, \"message\": \"boom\"}}",
        "[{\"status\": \"error\", \"message\": \"x\"}]",
        "No index found for this project. Please call index_project first.",
        "{\"result\": \"Error: the server is not ready\"}",
    ] {
        let got = with(&reply(text), Lines::OneBased, true);
        assert_eq!(got.kind, Kind::Error, "{text} {got:?}");
        assert!(got.error.is_some_and(|e| !e.is_empty()) && got.hits.is_empty(), "{text}");
    }
    for text in [
        "Indexed 112 files in 0.3 s",
        "{\"indexed\": 112, \"bytes\": 5}",
        "{\"status\": \"ok\", \"version\": \"1\"}",
        "import os\n\ndef f():\n    return os.path",
        "The helpers module builds URLs; see src/flask/helpers.py for more.",
        "{\"Class\": [\"Flask\", \"request\"], \"Function\": [\"url_for\"]}",
        "Allowed directories:\n/srv/copy/flask",
        "true",
        "[1, 2, 3]",
        "[{\"name\": \"flask\", \"path\": \"/srv/copy/flask\"}]",
        "https://example.com/docs/page.html:80 is up",
        "{\"file_path\": \"src/flask/app.py\", \"line_count\": 9, \"functions\": [{\"name\": \"x\", \"line\": 3}]}",
    ] {
        let got = with(&reply(text), Lines::OneBased, false);
        assert_eq!(got.kind, Kind::Other, "{text} {got:?}");
    }
}

#[test]
fn errors_of_the_protocol_and_of_tools() {
    let rpc = json!({"code": -32603, "message": "fetch failed: src/flask/app.py:3"});
    let got = with(&rpc, Lines::OneBased, true);
    assert_eq!((got.kind, got.error.as_deref()), (Kind::Error, Some("fetch failed: src/flask/app.py:3")));
    let whole = json!({"jsonrpc": "2.0", "id": 3, "error": {"code": 1, "message": "no"}});
    assert_eq!(with(&whole, Lines::OneBased, true).kind, Kind::Error);
    let tool = json!({"content": [{"type": "text", "text": "src/flask/app.py:3 is bad"}], "isError": true});
    let got = with(&tool, Lines::OneBased, true);
    assert_eq!(
        (got.kind, got.hits.len(), got.error.as_deref()),
        (Kind::Error, 0, Some("src/flask/app.py:3 is bad"))
    );
}

#[test]
fn what_failed_is_no_hit() {
    let value = json!({"results": [{"file": "src/flask/app.py", "error": "parse failed"}, {"file": "src/flask/helpers.py", "line": 3}]});
    assert_eq!(json_places(&value), ["src/flask/helpers.py:3"]);
    let empty = json!({"repo_map": "", "warnings": ["parse failed: src/flask/app.py: no grammar"]});
    let got = with(&reply(&empty.to_string()), Lines::OneBased, true);
    assert_eq!((got.kind, got.hits.len()), (Kind::Empty, 0));
    assert!(got.error.is_some_and(|e| e.starts_with("parse failed")));
    assert_eq!(kind("{\"names\": [\"request.json\", \"session.py\"]}"), Kind::Other);
}

proptest::proptest! {
    #[test]
    fn no_text_panics(text in "[a-z(){}\\[\\]<>/\\\\.:,|#`*\"' \n0-9éß日-]{0,200}") {
        let _ = with(&reply(&text), Lines::OneBased, true);
        let _ = with(&reply(&text), Lines::ZeroBased, false);
        let _ = with(&json!({"structuredContent": {"results": [text.clone(), {"file": text.clone(), "line": text}]}}), Lines::OneBased, false);
    }
}

#[test]
fn hostile_replies_are_survived() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let mut nested = json!({"file": "src/flask/app.py"});
    for _ in 0..100 {
        nested = json!({"results": [nested]});
    }
    let long = format!("src/flask/{}.py:3", "a".repeat(1 << 20));
    let many: Vec<Value> = (0..50_000).map(|i| json!({"file": "src/flask/app.py", "line": i + 1})).collect();
    let got = with(&reply(&Value::Array(many).to_string()), Lines::OneBased, true);
    assert_eq!(got.hits.len(), super::MAX_HITS);
    for text in [
        deep,
        nested.to_string(),
        long,
        "\u{0}\u{1b}[31m:::::".to_owned(),
        "((((((((a.py:1".repeat(500),
        "]])])".repeat(9_000),
        "é:1".repeat(5_000),
        "🦀".repeat(3_000),
    ] {
        let _ = with(&reply(&text), Lines::OneBased, false);
    }
    for value in [
        json!(null),
        json!([]),
        json!(7),
        json!({"content": 5}),
        json!({"content": [1, null, {"type": "text"}]}),
        json!({"structuredContent": []}),
    ] {
        let _ = with(&value, Lines::OneBased, true);
    }
}

#[test]
fn a_mark_in_front_of_a_known_path_is_no_part_of_it() {
    let text = "- process -> process   [dynamic: dispatch @src/flask/app.py:37]";
    assert_eq!(list(&with(&reply(text), Lines::OneBased, true)), ["src/flask/app.py:37"]);
    // A folder may be called so: without the corpus it stays.
    assert_eq!(list(&with(&reply(text), Lines::OneBased, false)), ["@src/flask/app.py:37"]);
}
