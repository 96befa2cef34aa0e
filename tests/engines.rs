//! The engines on real repositories: the reference profile of BM25 against
//! recorded lists, the default profile beside it, and determinism.
//!
//! The corpora aren't part of the repository: unpacked source distributions
//! are named by `PROOFLINE_FLASK` (Flask 3.1.0) and `PROOFLINE_FASTAPI`
//! (FastAPI 0.115.0). The pipeline's own test fetches them itself.

#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a test")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proofline::retrieve::{Engine, Found, IndexFacts, SourceFile, engine, names, read_folder};
use serde_json::Value;

fn oracle() -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/oracle");
    if folder.is_dir() {
        return Some(folder);
    }
    println!("skipped: no oracle");
    None
}

#[expect(clippy::disallowed_methods, reason = "tests are told where corpora are")]
fn corpus(variable: &str) -> Option<Vec<SourceFile>> {
    let Some(folder) = std::env::var_os(variable) else {
        println!("skipped: {variable} names no unpacked source distribution");
        return None;
    };
    Some(read_folder(Path::new(&folder), &[]).unwrap())
}

/// A question with its answers.
struct Question {
    id: String,
    query: String,
    files: Vec<String>,
    symbols: Vec<String>,
}

fn questions(oracle: &Path, name: &str) -> Vec<Question> {
    let path = oracle.join(format!("rag-bench/queries/{name}.jsonl"));
    let text = std::fs::read_to_string(path).unwrap();
    let list = |value: &Value| -> Vec<String> {
        value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let one = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        Question {
            id: row["id"].as_str().unwrap().to_owned(),
            query: row["query"].as_str().unwrap().to_owned(),
            files: list(&row["expected_files"]),
            symbols: list(&row["expected_symbols"]),
        }
    };
    text.lines().filter(|l| !l.trim().is_empty()).map(one).collect()
}

/// The reference's path rule: equal, or the end of the returned path at a
/// component's boundary, without regard to capitals.
fn path_matches(returned: &str, expected: &str) -> bool {
    let normal = |path: &str| {
        let path = path.replace('\\', "/").to_lowercase();
        path.split('/').filter(|part| !part.is_empty() && *part != ".").collect::<Vec<_>>().join("/")
    };
    let (returned, expected) = (normal(returned), normal(expected));
    !expected.is_empty() && (returned == expected || returned.ends_with(&format!("/{expected}")))
}

/// The reference's symbol rule: all tokens of the expected one are among
/// those of the returned one.
fn symbol_matches(returned: &str, expected: &str) -> bool {
    let tokens = |text: &str| -> BTreeSet<String> {
        let pattern = regex::Regex::new("[A-Z]?[a-z]+|[A-Z]+|[0-9]+").unwrap();
        let mut out = BTreeSet::new();
        for part in text.split(['.', '_', '-', '/', ':', ' ']) {
            let mut at = 0;
            // `[A-Z]+(?=[A-Z][a-z])` first: no look-ahead in this crate.
            while let Some(found) = pattern.find_at(part, at) {
                let word = found.as_str();
                let upper = word.len() > 1 && word.chars().all(|c| c.is_ascii_uppercase());
                let small = part[found.end()..].starts_with(|c: char| c.is_ascii_lowercase());
                let end = if upper && small { found.end() - 1 } else { found.end() };
                out.insert(part[found.start()..end].to_lowercase());
                at = end;
            }
        }
        out
    };
    let expected = tokens(expected);
    !expected.is_empty() && expected.is_subset(&tokens(returned))
}

/// Retrieval metrics as the reference computes them.
#[derive(Debug)]
struct Metrics {
    hit: [f64; 4],
    symbol: f64,
    mrr: f64,
}

const CUTS: [usize; 4] = [1, 3, 5, 10];

fn measure(questions: &[Question], lists: &[Vec<Found>]) -> Metrics {
    let mut hit = [0.0; 4];
    let (mut symbol, mut asked, mut reciprocal) = (0.0, 0.0, 0.0);
    for (question, list) in questions.iter().zip(lists) {
        let rank = list.iter().position(|f| question.files.iter().any(|e| path_matches(&f.file, e)));
        for (sum, cut) in hit.iter_mut().zip(CUTS) {
            *sum += f64::from(u8::from(rank.is_some_and(|r| r < cut)));
        }
        reciprocal += rank.map_or(0.0, |r| 1.0 / (r as f64 + 1.0));
        if !question.symbols.is_empty() {
            asked += 1.0;
            let found = list.iter().take(5).filter_map(|f| f.symbol.as_deref());
            let any = found.into_iter().any(|s| question.symbols.iter().any(|e| symbol_matches(s, e)));
            symbol += f64::from(u8::from(any));
        }
    }
    let n = questions.len() as f64;
    Metrics { hit: hit.map(|h| h / n), symbol: symbol / asked, mrr: reciprocal / n }
}

fn run(
    name: &str,
    profile: Option<&str>,
    files: &[SourceFile],
    questions: &[Question],
) -> (IndexFacts, Vec<Vec<Found>>) {
    let mut engine: Box<dyn Engine> = engine(name, profile, None).unwrap();
    let facts = engine.index(files);
    (facts, questions.iter().map(|q| engine.search(&q.query, 10)).collect())
}

#[test]
fn the_reference_profile_gives_the_recorded_lists() {
    let Some(oracle) = oracle() else { return };
    let Some(files) = corpus("PROOFLINE_FLASK") else { return };
    let text = std::fs::read(oracle.join("retrieval/bm25_flask-3.1.0.json")).unwrap();
    let recorded: Value = serde_json::from_slice(&text).unwrap();
    let questions = questions(&oracle, "flask");
    let (facts, lists) = run("bm25", Some("reference"), &files, &questions);
    assert_eq!((facts.files, facts.chunks), (80, 1591));
    let (mut same, mut checks) = (0, 0);
    for (question, list) in questions.iter().zip(&lists) {
        let expected = recorded["top10"][&question.id].as_array().unwrap();
        let files: Vec<&str> = expected.iter().filter_map(|row| row[0].as_str()).collect();
        let got: Vec<&str> = list.iter().map(|f| f.file.as_str()).collect();
        if files != got {
            println!("{}: {files:?} {got:?}", question.id);
            continue;
        }
        same += 1;
        for (row, found) in expected.iter().zip(list) {
            assert_eq!(row[1].as_str(), found.symbol.as_deref(), "{}", question.id);
            assert_eq!(row[2].as_u64(), found.line, "{}", question.id);
            assert!((row[3].as_f64().unwrap() - found.score).abs() < 1e-6, "{}", question.id);
            checks += 4;
        }
    }
    println!("lists equal: {same} of {}", questions.len());
    assert!(same >= 34);
    let metrics = measure(&questions, &lists);
    let aggregate = &recorded["aggregate"];
    let pairs = [
        ("hit_at_1", metrics.hit[0]),
        ("hit_at_3", metrics.hit[1]),
        ("hit_at_5", metrics.hit[2]),
        ("hit_at_10", metrics.hit[3]),
        ("symbol_hit_at_5", metrics.symbol),
        ("mrr", metrics.mrr),
    ];
    for (name, value) in pairs {
        let expected = aggregate[name].as_f64().unwrap();
        assert!((expected - value).abs() < 5e-5, "{name}: {expected} {value}");
        checks += 1;
    }
    println!("oracle checks: {checks}");
}

#[test]
fn the_default_profile_beats_the_reference_on_both() {
    let Some(oracle) = oracle() else { return };
    for (name, variable) in [("flask", "PROOFLINE_FLASK"), ("fastapi", "PROOFLINE_FASTAPI")] {
        let Some(files) = corpus(variable) else { continue };
        let questions = questions(&oracle, name);
        let figures = |engine: &str, profile: Option<&str>| {
            let (facts, lists) = run(engine, profile, &files, &questions);
            let metrics = measure(&questions, &lists);
            let [one, three, five, ten] = metrics.hit;
            let label = format!("{engine}/{}", profile.unwrap_or("-"));
            println!(
                "{name:8} {label:16} files {} chunks {} hit@1 {one:.4} @3 {three:.4} @5 {five:.4} @10 {ten:.4} sym@5 {:.4} mrr {:.4}",
                facts.files, facts.chunks, metrics.symbol, metrics.mrr
            );
            metrics
        };
        let reference = figures("bm25", Some("reference"));
        for other in names().iter().filter(|n| **n != "bm25") {
            figures(other, None);
        }
        let code = figures("bm25", None);
        assert!(code.hit[2] > reference.hit[2], "{name}: hit@5");
        assert!(code.mrr > reference.mrr, "{name}: mrr");
    }
}

/// Small files in several languages, written here.
fn small() -> Vec<SourceFile> {
    let file = |path: &str, text: &str| SourceFile { path: path.into(), bytes: text.as_bytes().into() };
    vec![
        file("src/a.py", "class Store:\n    def load(self): return open_page()\n"),
        file("src/b.py", "class Store:\n    def load(self): return open_page()\n"),
        file("src/c.ts", "export function openPage(): Store { return new Store(); }\n"),
        file("src/d.go", "package d\nfunc OpenPage() *Store { return &Store{} }\n"),
        file("tests/test_a.py", "def test_load(): assert Store().load()\n"),
        file("README.md", "# Store\nopens a page and loads it\n"),
        file("empty.py", ""),
    ]
}

#[test]
fn two_passes_agree_and_the_order_of_files_is_nothing() {
    let questions =
        ["where is Store?", "who calls open_page?", "how are pages loaded", "openPage", "", "the"];
    let files = small();
    let mut turned = small();
    turned.reverse();
    let profiles = [("bm25", Some("reference"))];
    for (name, profile) in names().iter().map(|n| (*n, None)).chain(profiles) {
        let mut first = engine(name, profile, None).unwrap();
        let mut second = engine(name, profile, None).unwrap();
        assert_eq!(first.index(&files), second.index(&turned), "{name}");
        for question in questions {
            let found = first.search(question, 10);
            assert_eq!(found, second.search(question, 10), "{name}: {question}");
            assert_eq!(found[..found.len().min(2)], first.search(question, 2), "{name}: {question}");
            assert!(found.windows(2).all(|w| w[0].score >= w[1].score), "{name}: {question}");
            let files: BTreeSet<&str> = found.iter().map(|f| f.file.as_str()).collect();
            assert_eq!(files.len(), found.len(), "{name}: {question}");
            assert!(found.iter().all(|f| f.content.chars().count() <= 500 && f.line != Some(0)));
        }
        let again: Vec<Vec<Found>> = questions.iter().map(|q| first.search(q, 10)).collect();
        first.index(&turned);
        let after: Vec<Vec<Found>> = questions.iter().map(|q| first.search(q, 10)).collect();
        assert_eq!(again, after, "{name}");
    }
}

#[test]
fn hostile_files_and_questions_are_no_trouble() {
    let file = |path: &str, bytes: Vec<u8>| SourceFile { path: path.into(), bytes: bytes.into() };
    let files = [
        file("deep.py", "(".repeat(50_000).into_bytes()),
        file("wide.js", "a.".repeat(50_000).into_bytes()),
        file("one.c", format!("int x = \"{}\";", "y".repeat(300_000)).into_bytes()),
        file("odd.rb", vec![0xff, 0xfe, b'd', b'e', b'f', 0x80, b'\n']),
        file("crlf.go", b"package a\r\nfunc F() {}\r\n".to_vec()),
    ];
    let questions =
        ["\u{0}", "((((", "`", "a::", "ß`x", &"word ".repeat(5000), "who calls ??", "\u{1F600} F"];
    for name in names() {
        let mut engine = engine(name, None, None).unwrap();
        engine.index(&files);
        for question in questions {
            let _ = engine.search(question, 10);
        }
        assert!(engine.search("F", usize::MAX).len() <= files.len());
    }
}
