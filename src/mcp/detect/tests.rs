//! Tool lists that lead the unwary astray.

use serde_json::{Value, json};

use super::*;

/// A tool with parameters such as `query! limit:integer`.
fn tool(name: &str, about: &str, params: &str) -> Tool {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for param in params.split_whitespace() {
        let (name, kind) = param.split_once(':').unwrap_or((param, "string"));
        let name = if let Some(name) = name.strip_suffix('!') {
            required.push(name);
            name
        } else {
            name
        };
        properties.insert(name.to_owned(), json!({"type": kind}));
    }
    let schema = json!({"type": "object", "properties": properties, "required": required});
    Tool { name: name.to_owned(), description: about.to_owned(), schema }
}

fn chosen(tools: &[Tool], slot: Slot) -> Option<String> {
    choose(tools, slot).choice.map(|c| c.tool)
}

fn both(tools: &[(&str, &str)]) -> (Option<String>, Option<String>) {
    let tools: Vec<Tool> = tools.iter().map(|(name, params)| tool(name, "", params)).collect();
    (chosen(&tools, Slot::Ingest), chosen(&tools, Slot::Query))
}

/// Tools, the one that indexes, the one that answers.
type Expected<'a> = (&'a [(&'a str, &'a str)], Option<String>, Option<String>);

#[expect(clippy::unnecessary_wraps, reason = "reads as the expectation that it is")]
fn some(name: &str) -> Option<String> {
    Some(name.to_owned())
}

#[test]
fn substrings_fool_nobody() {
    let lists: [Expected; 9] = [
        (
            &[("find_files", "pattern!"), ("search_index", "query!"), ("index_project", "path!")],
            some("index_project"),
            some("search_index"),
        ),
        (
            &[("get_index_status", ""), ("search_code", "query!"), ("index_codebase", "path!")],
            some("index_codebase"),
            some("search_code"),
        ),
        (&[("task", "query!"), ("search", "query!")], None, some("search")),
        (&[("basket_add", "query!"), ("search", "query!")], None, some("search")),
        (&[("preprocess", "path!"), ("search", "query!")], None, some("search")),
        (
            &[("embedding_info", "query"), ("semantic_search", "query!"), ("ingest", "path!")],
            some("ingest"),
            some("semantic_search"),
        ),
        (
            &[
                ("delete_index", "path!"),
                ("clear_all", ""),
                ("index_status", "path"),
                ("query_stats", "query!"),
            ],
            None,
            None,
        ),
        (
            &[
                ("createIndex", "rootPath!"),
                ("searchCode", "query! topK:integer"),
                ("deleteIndex", "rootPath!"),
            ],
            some("createIndex"),
            some("searchCode"),
        ),
        (
            &[("search.search", "query!"), ("search.index", "path!"), ("search.status", "")],
            some("search.index"),
            some("search.search"),
        ),
    ];
    for (tools, ingest, query) in lists {
        assert_eq!(both(tools), (ingest, query), "{tools:?}");
    }
}

#[test]
fn usual_lists_are_read() {
    let lists: [Expected; 7] = [
        (
            &[
                ("index_codebase", "path! force:boolean"),
                ("search_code", "path! query! limit:integer"),
                ("clear_index", "path!"),
                ("get_indexing_status", "path!"),
            ],
            some("index_codebase"),
            some("search_code"),
        ),
        (
            &[
                ("code_search", "query! path project top_k:integer"),
                ("rag_index", "path force:boolean"),
                ("rag_graph", "name!"),
                ("rag_source", "chunk_id!"),
                ("rag_status", ""),
                ("rag_projects_remove", "path!"),
            ],
            some("rag_index"),
            some("code_search"),
        ),
        (
            &[("build_search_index", "directory!"), ("index_search", "q! k:integer"), ("index_list", "")],
            some("build_search_index"),
            some("index_search"),
        ),
        (
            &[("ask_codebase", "question!"), ("add_repository", "repo_path!"), ("list_repositories", "")],
            some("add_repository"),
            some("ask_codebase"),
        ),
        (
            &[("get_relevant_code", "query! limit:integer"), ("get_file_tree", "path"), ("reindex", "")],
            None,
            some("get_relevant_code"),
        ),
        (
            &[
                ("run_sql_query", "query!"),
                ("semantic_lookup", "text! topK:integer"),
                ("web_search", "query!"),
            ],
            None,
            some("semantic_lookup"),
        ),
        (
            &[
                ("search", "pattern! path!"),
                ("advanced-search", "pattern! path!"),
                ("count-matches", "pattern! path!"),
            ],
            None,
            some("search"),
        ),
    ];
    for (tools, ingest, query) in lists {
        assert_eq!(both(tools), (ingest, query), "{tools:?}");
    }
    let family = [tool("advanced-search", "", "pattern! path!"), tool("search", "", "pattern! path!")];
    let got = choose(&family, Slot::Query);
    assert!(got.sure, "{got:?}");
}

#[test]
fn order_and_prefix_do_not_matter() {
    let base = [
        ("index_project", "path!"),
        ("search_code", "query! limit:integer"),
        ("index_status", ""),
        ("clear_index", ""),
    ];
    for prefix in ["", "acme_", "rag_", "search-engine-x."] {
        let mut tools: Vec<Tool> = base.iter().map(|(n, p)| tool(&format!("{prefix}{n}"), "", p)).collect();
        for _ in 0..tools.len() {
            tools.rotate_left(1);
            assert_eq!(chosen(&tools, Slot::Query), some(&format!("{prefix}search_code")));
            assert_eq!(chosen(&tools, Slot::Ingest), some(&format!("{prefix}index_project")));
        }
    }
}

#[test]
fn arguments_follow_the_schema() {
    let args = |tools: &[Tool], slot| serde_json::to_value(choose(tools, slot).choice.unwrap().args).unwrap();
    let plain = tool("search", "", "query! limit:integer offset:integer path");
    assert_eq!(args(&[plain], Slot::Query), json!({"query": "{query}", "limit": "{limit}"}));
    let lists = tool("query_documents", "", "query_texts!:array n_results:integer");
    assert_eq!(args(&[lists], Slot::Query), json!({"query_texts": ["{query}"], "n_results": "{limit}"}));
    let folder = tool("search", "", "pattern! path! maxResults:number");
    assert_eq!(
        args(&[folder], Slot::Query),
        json!({"pattern": "{query}", "path": "{corpus}", "maxResults": "{limit}"})
    );
    let odd = Tool {
        schema: json!({"properties": {
            "query": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "mode": {"type": "string", "enum": ["delete", "keyword", "semantic"]},
            "k": {"type": "integer", "maximum": 5},
            "verbose": {"type": "boolean"},
            "language": {"type": "string", "default": "en"}
        }, "required": ["query", "mode", "k", "verbose", "language"]}),
        ..tool("search", "", "")
    };
    assert_eq!(
        args(&[odd], Slot::Query),
        json!({"query": "{query}", "mode": "semantic", "k": 5, "verbose": false, "language": "en"})
    );
    let ingest = tool("index_repository", "", "repo_path! force:boolean");
    assert_eq!(args(&[ingest], Slot::Ingest), json!({"repo_path": "{corpus}"}));
}

#[test]
fn what_cannot_be_filled_is_never_sure() {
    let tools = [tool("query_documents", "", "collection_name! query!")];
    let got = choose(&tools, Slot::Query);
    assert!(!got.sure && got.why.contains("collection_name"), "{got:?}");
    assert_eq!(got.choice.map(|c| c.tool), some("query_documents"));
    // One that can be called is better, though its name is poorer.
    let tools = [tool("search_code", "", "session_token! query!"), tool("find", "", "query!")];
    assert_eq!(chosen(&tools, Slot::Query), some("find"));
}

#[test]
fn doubt_is_admitted() {
    let twins = [tool("search_code", "", "query!"), tool("query_code", "", "query!")];
    let got = choose(&twins, Slot::Query);
    assert!(!got.sure && got.runner_up.is_some() && got.why.contains("too close"), "{got:?}");
    let clear =
        [tool("search_code", "Semantic search over the codebase.", "query!"), tool("list_files", "", "path")];
    let got = choose(&clear, Slot::Query);
    assert!(got.sure && got.choice.unwrap().confidence > 0.7);
    assert_eq!(choose(&[], Slot::Query).choice, None);
    assert_eq!(choose(&[tool("status", "", "")], Slot::Ingest).choice, None);
}

#[test]
fn changing_tools_never_win() {
    for name in [
        "delete_search",
        "write_file",
        "clear_search_index",
        "remove_query",
        "create_directory",
        "rename_symbol",
        "search_status",
        "index_info",
        "query_stats",
        "set_settings",
        "update_file",
    ] {
        let tools = [tool(name, "", "path! query!")];
        assert_eq!(both(&[(name, "path! query!")]), (None, None), "{name}");
        assert!(!choose(&tools, Slot::Query).sure);
    }
}

#[test]
fn templates_keep_types_and_braces() {
    let args: IndexMap<String, Value> = serde_json::from_value(json!({
        "q": "{query}", "n": "{limit}", "paths": ["{corpus}/src"], "o": {"t": "top {limit} for {query}"}, "x": true, "y": "{other} {"
    }))
    .unwrap();
    let values = Values { query: "what is {corpus}?", limit: 7, corpus: "/c" };
    assert_eq!(
        Value::Object(fill(&args, &values)),
        json!({"q": "what is {corpus}?", "n": 7, "paths": ["/c/src"], "o": {"t": "top 7 for what is {corpus}?"}, "x": true, "y": "{other} {"})
    );
}

#[test]
fn odd_schemas_are_survived() {
    for schema in [
        json!(null),
        json!([]),
        json!({"properties": 5}),
        json!({"properties": {"query": true}}),
        json!({"properties": {"query": {"type": 7, "anyOf": [[]]}}, "required": [1, "query"]}),
    ] {
        let tool = Tool { name: "search".to_owned(), description: String::new(), schema };
        let _ = choose(std::slice::from_ref(&tool), Slot::Query);
        let _ = choose(&[tool], Slot::Ingest);
    }
    assert_eq!(chosen(&[tool("検索", "", "query!")], Slot::Query), None);
}
