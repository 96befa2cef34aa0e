//! Other benchmarks' files, whole and broken.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

#[path = "import/sense.rs"]
mod sense;
#[path = "import/yaml.rs"]
mod yaml;

use std::path::{Path, PathBuf};

use proofline::fsio;
use proofline::import::rag_bench::{ImportError, import};
use proofline::import::writing::LIST;
use proofline::manifest;
use proofline::manifest::dataset::{QuestionKind, QuestionSet, Repos};
use proofline::manifest::server::{Server, Transport};
use proofline::manifest::write::read_back;
use serde_json::{Value, json};

#[expect(clippy::disallowed_methods, reason = "a test asks where it runs")]
fn oracle() -> Option<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let folder = shared.join("oracle/rag-bench");
    if folder.is_dir() {
        return Some(folder);
    }
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!shared.exists() || !in_ci, "{} is missing", folder.display());
    None
}

fn load<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    let text = String::from_utf8(fsio::read(path).unwrap()).unwrap();
    read_back(&text).unwrap()
}

#[test]
fn the_public_set_arrives_whole() {
    let Some(source) = oracle() else {
        println!("skipped: no oracle");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let report = import(&source, dir.path()).unwrap();
    assert_eq!((report.repos, report.questions, report.warmups, report.servers), (4, 135, 5, 0));
    assert_eq!(report.problems, []);
    let repos: Repos = load(&dir.path().join("repos.toml"));
    let mut checks = 0;
    for name in ["flask", "fastapi", "express", "django"] {
        let archive = repos.repo[name].archive.clone().unwrap();
        assert!(archive.sha256.is_some());
        let set: QuestionSet = load(&dir.path().join(format!("questions/{name}.toml")));
        assert_eq!(set.warmup.len(), 5);
        let text =
            String::from_utf8(fsio::read(&source.join(format!("queries/{name}.jsonl"))).unwrap()).unwrap();
        let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(rows.len(), set.question.len());
        for (row, question) in rows.iter().zip(&set.question) {
            assert_eq!(row["id"], json!(question.id));
            assert_eq!(row["query"], json!(question.prompt));
            assert_eq!(row["expected_files"], json!(question.files));
            assert_eq!(row.get("expected_symbols").cloned().unwrap_or(json!([])), json!(question.symbols));
            assert_eq!(row.get("expected_content").cloned().unwrap_or(json!([])), json!(question.content));
            let kind = row["type"].as_str().unwrap().replace('_', "-");
            assert_eq!(json!(kind), serde_json::to_value(question.kind).unwrap());
            assert_eq!(row["difficulty"], serde_json::to_value(question.difficulty).unwrap());
            checks += 7;
        }
    }
    assert_eq!(repos.repo["flask"].archive.clone().unwrap().pypi.unwrap(), "flask==3.1.0");
    assert_eq!(repos.repo["express"].archive.clone().unwrap().npm.unwrap(), "express@5.0.1");
    checks += clean(dir.path());
    println!("oracle checks: {checks}");
}

/// Holds that all imported files pass the manifests' own checks; their number.
fn clean(into: &Path) -> usize {
    let mut count = 0;
    for path in fsio::tree::list(into).unwrap().into_iter().filter(|path| path != LIST) {
        let bytes = fsio::read(&into.join(&path)).unwrap();
        let found = match path.as_str() {
            "repos.toml" => manifest::load::repos(&path, &bytes).diagnostics,
            "recording.toml" => manifest::load::recording(&path, &bytes).diagnostics,
            _ if path.starts_with("questions/") => manifest::load::questions(&path, &bytes).diagnostics,
            _ => manifest::load::server(&path, &bytes).diagnostics,
        };
        assert!(found.is_empty(), "{path}: {found:#?}");
        count += 1;
    }
    count
}

fn write(root: &Path, path: &str, text: &str) {
    fsio::write_plain(&root.join(path), text.as_bytes()).unwrap();
}

#[test]
fn what_is_malformed_is_named_and_the_rest_is_imported() {
    let dir = tempfile::tempdir().unwrap();
    let (from, into) = (dir.path().join("from"), dir.path().join("into"));
    let repos = json!([
        {"name": "My Repo", "git_url": "https://example.org/a.git", "ref": "v1", "stars": 5},
        {"name": "pinned", "git_url": "https://example.org/b.git", "ref": "0123456789abcdef0123456789abcdef01234567"},
        {"name": "flask", "git_url": "https://github.com/pallets/flask", "ref": "3.0.0", "language": "python"},
        {"git_url": "x"},
        7,
    ]);
    write(&from, "datasets/repos.json", &repos.to_string());
    write(&from, "datasets/warmup.jsonl", "{\"id\": \"w_1\", \"query\": \"start?\"}\n{\"id\": 3}\n");
    let good = json!({
        "id": "p_1", "type": "multi_hop", "query": "a \"quoted\"\nline \\ and\ttab", "difficulty": "hard",
        "expected_files": ["a b.py"], "expected_content": ["first line\n    second line"], "reviewed": true,
    });
    let lines = [
        good.to_string(),
        "{\"id\": \"p_2\", \"type\": \"locate\"".to_owned(),
        String::new(),
        "[1, 2]".to_owned(),
        json!({"id": "p_1", "type": "locate", "query": "q", "expected_files": [], "difficulty": "easy"})
            .to_string(),
        json!({"id": "p_3", "type": "guess", "query": "q", "expected_files": [], "difficulty": "easy"})
            .to_string(),
        json!({"id": "p_4", "type": "locate", "query": "q", "expected_files": "a", "difficulty": "easy"})
            .to_string(),
        json!({"id": "p_5", "type": "locate", "query": "q", "expected_files": ["a"], "difficulty": "meh"})
            .to_string(),
        json!({"id": "p_6", "type": "callees", "query": "q", "expected_files": ["a"], "difficulty": "easy"})
            .to_string(),
        "[".repeat(100_000),
    ];
    write(&from, "datasets/queries/pinned.jsonl", &lines.join("\n"));
    write(&from, "datasets/queries/stray.jsonl", "");
    fsio::write_plain(&from.join("datasets/queries/latin.jsonl"), b"\xff\xfe").unwrap();

    let report = import(&from, &into).unwrap();
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    let starts = [
        "queries/latin.jsonl: the file is not UTF-8",
        "queries/pinned.jsonl:2: not JSON",
        "queries/pinned.jsonl:4: expected an object, found a list",
        "queries/pinned.jsonl:5: id `p_1` occurs twice",
        "queries/pinned.jsonl:6: type `guess` is not known",
        "queries/pinned.jsonl:7: `expected_files` must be a list of texts, not a text",
        "queries/pinned.jsonl:8: difficulty `meh`",
        "queries/pinned.jsonl:10: not JSON",
        "repos.json: entry 4: `name` is missing",
        "repos.json: entry 5: expected an object, found a number",
        "warmup.jsonl:2: `id` must be a text, not a number",
    ];
    assert_eq!(problems.len(), starts.len(), "{problems:#?}");
    for (problem, start) in problems.iter().zip(starts) {
        assert!(problem.starts_with(start), "{problem} is not {start}");
    }
    assert_eq!((report.repos, report.questions, report.warmups), (3, 2, 1));
    let notes = report.notes.join("\n");
    for wanted in [
        "`My Repo` is called `my-repo`",
        "no counterpart for stars",
        "`v1` is no full commit",
        "SHA-256 of pypi:flask==3.0.0 is not known",
        "queries/pinned.jsonl:1: no counterpart for reviewed",
        "`stray` is not in repos.json",
        "repository `flask` has no questions",
    ] {
        assert!(notes.contains(wanted), "{wanted}: {notes}");
    }
    let repos: Repos = load(&into.join("repos.toml"));
    assert_eq!(repos.repo["pinned"].commit.as_deref(), Some("0123456789abcdef0123456789abcdef01234567"));
    assert_eq!(repos.repo["flask"].archive.clone().unwrap().sha256, None);
    assert!(!repos.repo.contains_key("my-repo"));
    let text = String::from_utf8(fsio::read(&into.join("repos.toml")).unwrap()).unwrap();
    assert!(text.contains("# [repo.my-repo]") && text.contains("# commit = \"\""), "{text}");
    let set: QuestionSet = load(&into.join("questions/pinned.toml"));
    assert_eq!(set.question[0].kind, QuestionKind::MultiHop);
    assert_eq!(set.question[0].prompt, "a \"quoted\"\nline \\ and\ttab");
    assert_eq!(set.question[0].content, ["first line\n    second line"]);
    assert_eq!((set.warmup[0].id.as_str(), set.warmup[0].prompt.as_str()), ("pinned-w_1", "start?"));

    let nothing = dir.path().join("nothing");
    fsio::create_dir(&nothing).unwrap();
    assert!(matches!(import(&nothing, &into), Err(ImportError::NoDataset(_))));
    write(&nothing, "repos.json", "[\n{]");
    let error = import(&nothing, &into).unwrap_err().to_string();
    assert!(error.starts_with("repos.json:2: not JSON"), "{error}");
}

#[test]
fn server_configurations_become_presets() {
    let dir = tempfile::tempdir().unwrap();
    let (from, into) = (dir.path().join("from"), dir.path().join("into"));
    write(&from, "datasets/repos.json", "[]");
    write(
        &from,
        "presets/Nova_Rag.json",
        &json!({
            "name": "Nova_Rag", "version": "0.3.9", "git_url": "https://example.org/n", "transport": "stdio",
            "command": "nova-rag serve", "args": ["--root", "{repo_path}"], "cwd": "{repo_path}",
            "env": {"NOVA_API_KEY": "s3cret", "MODE": "fast", "N": 3, "HOME": "/x"},
            "index_dir": "~/.nova-rag", "index_dirs": [".nova"],
            "pre_ingest_commands": [{"cmd": "nova", "args": ["init", "."], "cwd_template": "{repo_path}/sub"}],
            "pre_ingest": ["echo {repo_path}"],
            "tool_mapping": {
                "ingest": {"tool": "rag_index", "params": {"path": "{path}", "force": true}},
                "query": {"tool": "code_search", "params": {"query": "{query}", "top_k": "{top_k}", "x": "{odd}"}},
                "clear": {"tool": "rag_clear"}
            },
            "deepseek": {"api_key": "s3cret"}
        })
        .to_string(),
    );
    let config = |value: Value| value.to_string();
    write(
        &from,
        "presets/bm25.json",
        &config(
            json!({"name": "bm25", "transport": "inprocess", "module": "rag_bench.bm25", "class": "Bm25Engine"}),
        ),
    );
    write(
        &from,
        "presets/naive.json",
        &config(
            json!({"name": "naive", "transport": "inprocess", "module": "rag_bench.naive", "class": "Naive"}),
        ),
    );
    write(
        &from,
        "presets/odd.json",
        &config(json!({"name": "odd", "transport": "telepathy", "command": "x"})),
    );
    write(&from, "presets/nova-rag.json", &config(json!({"name": "nova-rag", "command": "x"})));
    write(
        &from,
        "presets/huge.json",
        "{\"name\": \"huge\", \"command\": \"x\", \"tool_mapping\": {\"query\": {\"tool\": \"t\", \"params\": {\"n\": 18446744073709551615}}}}",
    );
    write(&from, "presets/broken.json", "{");
    write(&from, "results/run_x.json", &config(json!({"name": "r", "command": "x", "run_id": "1"})));
    write(&from, "package.json", &config(json!({"name": "p", "command": "x", "dependencies": {}})));

    let report = import(&from, &into).unwrap();
    assert_eq!(report.servers, 2);
    let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 4, "{problems:#?}");
    for (problem, start) in problems.iter().zip([
        "presets/broken.json: not JSON",
        "presets/huge.json: makes no valid preset: the number 18446744073709551615 is too large",
        "presets/nova-rag.json: another configuration is called `nova-rag`",
        "presets/odd.json: transport `telepathy` is not known",
    ]) {
        assert!(problem.starts_with(start), "{problem} is not {start}");
    }
    let notes = report.notes.join("\n");
    for wanted in [
        "naive.json: `naive` is not imported",
        "tool_mapping: no counterpart for clear",
        "no counterpart for deepseek",
        "template `{odd}`",
        "`NOVA_API_KEY` looks like a secret",
        "`HOME` is always set",
    ] {
        assert!(notes.contains(wanted), "{wanted}: {notes}");
    }
    let place = into.join("presets/servers/nova-rag.toml");
    let nova: Server = load(&place);
    assert!(!String::from_utf8(fsio::read(&place).unwrap()).unwrap().contains("s3cret"));
    assert_eq!(nova.command, ["nova-rag", "serve", "--root", "{corpus}"]);
    assert_eq!((nova.version.as_str(), nova.transport), ("0.3.9", Transport::Stdio));
    assert_eq!(nova.names, ["Nova_Rag"]);
    assert_eq!(nova.env.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>(), ["MODE=fast", "N=3"]);
    assert_eq!(nova.secrets, ["NOVA_API_KEY"]);
    assert_eq!((nova.state, nova.writes), (vec!["{home}/.nova-rag".to_owned()], vec![".nova/".to_owned()]));
    assert_eq!(nova.pre_ingest.len(), 2);
    assert_eq!(nova.pre_ingest[0].cwd.as_deref(), Some("{corpus}/sub"));
    assert_eq!(nova.pre_ingest[1].run, ["sh", "-c", "echo {corpus}"]);
    let (ingest, query) = (nova.tools.ingest.unwrap(), nova.tools.query.unwrap());
    assert_eq!(json!(ingest.args), json!({"path": "{corpus}", "force": true}));
    assert_eq!(json!(query.args), json!({"query": "{query}", "top_k": "{limit}", "x": "{odd}"}));
    let bm25: Server = load(&into.join("presets/servers/bm25.toml"));
    assert_eq!((bm25.transport, bm25.engine.as_deref()), (Transport::Builtin, Some("bm25")));
    assert_eq!(bm25.profile.as_deref(), Some("reference"));
    clean(&into.join("presets/servers"));
}
