//! Citations of answers against fixtures that were written by hand, and against what is hostile.
//!
//! `PROOFLINE_FLASK` names a folder with the source distribution of Flask 3.1.0; without it
//! `target/flask-3.1.0` is looked for.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use proofline::clock::Stopwatch;
use proofline::corpus::ground::Ground;
use proofline::corpus::{Corpora, Source};
use proofline::grade::citation::{Citation, Finding, Nothing, View, examine, extract};
use proptest::prelude::*;
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fixture {
    root: Option<String>,
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    answer: String,
    #[serde(default)]
    citation: Vec<Want>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Want {
    text: String,
    file: String,
    line: Option<u64>,
    lines: Option<(u64, u64)>,
    symbol: Option<String>,
    bucket: String,
    path: Option<String>,
    distance: Option<u64>,
    #[serde(default)]
    candidates: Vec<String>,
    occurrence: Option<usize>,
}

fn fixture(name: &str) -> Fixture {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/citations").join(name);
    toml::from_str(&std::fs::read_to_string(path).expect("the fixture")).expect("TOML")
}

impl Want {
    fn shown(&self) -> String {
        let lines = self.lines.or(self.line.map(|line| (line, line)));
        let Self { text, file, symbol, bucket, path, distance, candidates, .. } = self;
        format!("{text:?} {file} {lines:?} {symbol:?} {bucket} {path:?} {distance:?} {candidates:?}")
    }
}

fn shown(answer: &str, (citation, finding): &(Citation, Finding)) -> String {
    let text = &answer[citation.span.clone()];
    let Citation { file, lines, symbol, .. } = citation;
    let Finding { bucket, path, distance, candidates, .. } = finding;
    let bucket = bucket.as_str();
    format!("{text:?} {file} {lines:?} {symbol:?} {bucket} {path:?} {distance:?} {candidates:?}")
}

/// Compares a fixture with what is found, and says how much that was.
#[expect(clippy::print_stdout, reason = "a test that compares nothing must be seen")]
fn holds(name: &str, ground: Option<&Ground>) {
    let fixture = fixture(name);
    let view = ground.map(|source| View { source, root: fixture.root.as_deref() });
    let (mut wrong, mut checks) = (String::new(), 0);
    for case in &fixture.case {
        let found = examine(&case.answer, view);
        let have: Vec<String> = found.iter().map(|one| shown(&case.answer, one)).collect();
        let want: Vec<String> = case.citation.iter().map(Want::shown).collect();
        checks += want.len().max(1);
        let mut places = String::new();
        for (want, (citation, finding)) in case.citation.iter().zip(&found) {
            sound(citation, finding, &case.answer);
            let nth = case.answer.match_indices(&want.text).position(|(at, _)| at == citation.span.start);
            if want.occurrence.is_some_and(|want| nth.map(|nth| nth + 1) != Some(want)) {
                let _ = write!(places, "\n    at {:?} of {:?}", nth, want.text);
            }
        }
        if have != want || !places.is_empty() {
            let _ = write!(wrong, "\n{}{places}\n  found:\n    {}", case.name, have.join("\n    "));
            let _ = write!(wrong, "\n  wanted:\n    {}", want.join("\n    "));
        }
    }
    println!("{name}: {checks} checks in {} cases", fixture.case.len());
    assert!(wrong.is_empty(), "{wrong}");
}

/// What holds of any citation and finding.
fn sound(citation: &Citation, finding: &Finding, answer: &str) {
    assert!(answer.get(citation.span.clone()).is_some_and(|text| !text.is_empty()), "{citation:?}");
    if let Some(joins) = &citation.joins {
        assert!(answer.get(joins.clone()).is_some(), "{citation:?}");
    }
    assert!(citation.lines.is_some() || citation.symbol.is_some(), "{citation:?}");
    assert!(!citation.file.is_empty() && !citation.locator.is_empty() && !finding.reason.is_empty());
    let json = serde_json::to_string(&(citation, finding)).expect("JSON");
    let read: (Citation, Finding) = serde_json::from_str(&json).expect("the same");
    assert_eq!((&read.0, &read.1), (citation, finding));
}

#[expect(clippy::print_stdout, reason = "says that a test was skipped")]
fn flask() -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "a test asks where the source is")]
    let named = std::env::var_os("PROOFLINE_FLASK").filter(|path| !path.is_empty());
    if let Some(named) = named {
        let path = PathBuf::from(named);
        assert!(path.join("src/flask/app.py").is_file(), "no source of Flask in {}", path.display());
        return Some(path);
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/flask-3.1.0");
    if path.join("src/flask/app.py").is_file() {
        return Some(path);
    }
    println!("SKIPPED: no source of Flask 3.1.0; name its folder with PROOFLINE_FLASK");
    None
}

#[test]
fn citations_of_flask() {
    let Some(path) = flask() else { return };
    holds("flask.toml", Some(&Ground::of_folder(&path).expect("the folder")));
}

#[test]
fn citations_without_a_corpus() {
    holds("no-corpus.toml", None);
}

#[test]
fn citations_of_the_sample() {
    let dir = tempfile::tempdir().expect("a folder");
    let corpora = Corpora::new(dir.path().join("cache"), true);
    let corpus = corpora.fetch("sample", &Source::Embedded("sample".to_owned()), None).expect("the sample");
    holds("sample.toml", Some(&Ground::of_corpus(&corpus).expect("its folder")));
    // The folder as it is says the same.
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/sample");
    holds("sample.toml", Some(&Ground::of_folder(&folder).expect("the folder")));
}

/// Pieces that answers to this grammar are made of, and what breaks it.
const PIECES: &[&str] = &[
    "a/b.py",
    "app.py",
    "__init__.py",
    "src/[id]/(x)/p.ts",
    "Makefile",
    "./",
    "../",
    "/",
    "//",
    "~~",
    "_",
    "*",
    "**",
    "`",
    "``",
    "\"",
    "'",
    "(",
    ")",
    "[",
    "]",
    "](",
    "{",
    "}",
    "<",
    ">",
    ":",
    "::",
    "#",
    "#L",
    "L",
    "-",
    "–",
    "—",
    ",",
    ", ",
    " ",
    " and ",
    " to ",
    " of ",
    " in ",
    " at ",
    "line ",
    "lines ",
    "Line ",
    "0",
    "12",
    "81-90",
    "99999999999999999999",
    "Name",
    "a.b",
    "f()",
    "\n",
    "\r\n",
    "\\n",
    "\\",
    "é",
    "日本",
    "😀",
    "\u{301}",
    "\0",
    "{\"file\": \"a.py\", \"line\": 3}",
    "\"line\": [1, \"2-3\"]",
    "https://x/",
];

fn garbage() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        9 => proptest::sample::select(PIECES).prop_map(str::to_owned),
        1 => ".{0,3}",
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

fn small() -> Ground {
    let text = |text: &str| text.as_bytes().to_vec();
    Ground::of_memory(BTreeMap::from([
        ("a/b.py".to_owned(), text("def Name():\n    f()\n")),
        ("x/app.py".to_owned(), text("Name = 1\n")),
        ("y/app.py".to_owned(), text("\n\n\n")),
        ("Makefile".to_owned(), text("all:\n")),
    ]))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4_000) })]

    #[test]
    fn any_text_is_read(text in garbage()) {
        let ground = small();
        let view = View { source: &ground, root: Some("/") };
        let found = examine(&text, Some(view));
        prop_assert!(found.windows(2).all(|two| two[0].0.span.start <= two[1].0.span.start));
        for (citation, finding) in &found {
            sound(citation, finding, &text);
        }
        let _ = extract(&text, &Nothing);
    }

    #[test]
    fn what_follows_changes_nothing(nth in any::<prop::sample::Index>(), more in garbage()) {
        let cases = fixture("sample.toml").case;
        let answer = &cases[nth.index(cases.len())].answer;
        let alone = extract(answer, &Nothing);
        let both = extract(&format!("{answer}\n{more}"), &Nothing);
        prop_assert_eq!(&both[..alone.len().min(both.len())], &alone[..]);
        let _ = extract(&format!("{more}\n{answer}"), &Nothing);
    }
}

/// Work grows with the length, whatever is repeated.
#[test]
fn long_texts_take_time_by_their_length() {
    const LENGTH: usize = 1 << 20;
    let shapes = [
        "[",
        "(",
        "{",
        "{\"",
        "{\"a\":",
        "{\"a\":[",
        "[[a]",
        "(a)",
        "a(b)",
        "`",
        "**`a` (",
        "_",
        "a",
        "a/",
        "a.py:",
        "a.py:1",
        "a.py:1 ",
        "a.py:1, ",
        "1, ",
        "1 and ",
        "line 1 and ",
        "x L1 and ",
        "lines 1, ",
        "a.py line 1 of ",
        " at line 1",
        "a.py (line 1",
        "`a` a.py:1 ",
        "[a](",
        "[a.py:1](a.py:2)",
        "https://",
        "\\",
        "\\n",
        "\"",
        "{\"x\": \"\\n",
        "é",
        "日a.py:1",
        "a.py#L1-",
        "a.py::A::",
        "a.py:A.",
        "x:y ",
        "{\"lines\": [1,",
        "{\"file\": \"a.py\", \"line\": 1} ",
        "-",
        "a.py_",
    ];
    let ground = small();
    let view = View { source: &ground, root: None };
    for shape in shapes {
        let repeated = shape.repeat(LENGTH / shape.len());
        for before in ["", "a.py:1 {\"a\": \"", "{\"file\": \"a.py\", \"lines\": [1, ", "`a` a.py (lines 1, "]
        {
            let text = format!("{before}{repeated}");
            let watch = Stopwatch::start();
            let found = extract(&text, &view);
            let took = watch.elapsed().as_secs_f64();
            assert!(took < 5.0, "{shape:?}: {took:.1} s, {} citations", found.len());
        }
    }
}

/// Many citations, many files of one name, symbols that are far: 50,000 in well under two seconds.
#[test]
fn many_citations_are_checked_quickly() {
    let mut files = BTreeMap::new();
    for nth in 0..2_000 {
        let mut text = String::new();
        for line in 0..200 {
            let _ = writeln!(text, "def name_{nth}_{line}(value):\n    return call_{line}(value, {nth})");
        }
        let name = if nth % 10 == 0 { "__init__".to_owned() } else { format!("m{nth}") };
        files.insert(format!("src/p{nth}/{name}.py"), text.into_bytes());
    }
    let paths: Vec<String> = files.keys().cloned().collect();
    let mut answer = String::new();
    for nth in 0..50_000_usize {
        let path = &paths[nth * 7 % paths.len()];
        let of = path.split(['p', '/']).find_map(|part| part.parse::<u32>().ok()).unwrap_or(0);
        let (line, last) = ((nth + nth / 2_000 * 16) % 400 + 1, path.rsplit('/').next().unwrap_or(path));
        let _ = match nth % 3 {
            0 => writeln!(answer, "`name_{of}_{}` ({path}:{line})", nth % 200),
            1 => writeln!(answer, "`name_{of}_{}` ({last}:{line})", nth % 200),
            _ => writeln!(answer, "- {path}:{line}"),
        };
    }
    let ground = Ground::of_memory(files);
    let view = View { source: &ground, root: None };
    let first = Stopwatch::start();
    let found = examine(&answer, Some(view));
    let first = first.elapsed().as_secs_f64();
    let again = Stopwatch::start();
    assert_eq!(examine(&answer, Some(view)), found);
    let again = again.elapsed().as_secs_f64();
    println!("{} citations in {first:.2} s with indexing, {again:.2} s without", found.len());
    assert!(found.len() > 49_000);
    assert!(again < 4.0, "{again:.2} s");
}
