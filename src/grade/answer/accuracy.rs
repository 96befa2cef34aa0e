//! Whether an answer to a question names the expected files and symbols.

use std::sync::LazyLock;

use regex::Regex;

use super::Inputs;
use super::checks::find;
use super::cost::as_f64;
use crate::artifact::{Claims, Item};
use crate::manifest::dataset::Question;
use crate::manifest::pipeline::Profile;

/// Names of files that stand in too many folders to tell anything, by the rules of rag-bench.
const GENERIC: [&str; 16] = [
    "index.js",
    "index.ts",
    "index.py",
    "utils.js",
    "utils.py",
    "app.py",
    "app.js",
    "main.py",
    "main.js",
    "base.py",
    "__init__.py",
    "mod.rs",
    "lib.rs",
    "setup.py",
    "config.py",
    "types.ts",
];

/// What an answer is given: items, and columns.
type Given = (Vec<Item>, Vec<(&'static str, Option<f64>)>);

/// What an answer comes to; none where there is nothing to say.
///
/// Profile `rag-bench` takes an imported row at what was published of it where its words are
/// elsewhere, or its question is not known.
pub(super) fn of(inputs: &Inputs<'_>, text: &str, profile: Profile) -> Option<Given> {
    let claims = inputs.claims;
    let judged = claims.filter(|claims| claims.judged());
    match (profile, judged.filter(|claims| claims.excerpt)) {
        (Profile::RagBench, Some(claims)) => {
            return Some(as_published(claims, "as published; the answer's words are not in the file"));
        }
        // By other rules nothing can be said without the words.
        (_, Some(_)) => return None,
        (_, None) => {}
    }
    if let Some(question) = inputs.question {
        return Some(grade(question, text, profile));
    }
    if profile != Profile::RagBench {
        return None;
    }
    Some(match judged {
        Some(claims) => as_published(claims, "as published; the question is not known"),
        None => as_published(claims?, "unscored: the question is not known, and nothing was published"),
    })
}

/// Items, and the columns `accuracy`, `file_accuracy`, `symbol_accuracy` and, by the default rules,
/// `file_precision`.
fn grade(question: &Question, text: &str, profile: Profile) -> Given {
    let rag = profile == Profile::RagBench;
    let normal = rag_text(text);
    let file_hit = |file: &str| if rag { rag_file(file, &normal) } else { has_path(text, file) };
    let symbol_hit =
        |symbol: &str| if rag { rag_symbol(symbol, text) } else { !find_cased(text, symbol).is_empty() };
    let mut items = Vec::new();
    let mut item = |id: String, hit: bool, spans: Vec<std::ops::Range<usize>>| {
        items.push(Item {
            grader: "accuracy".to_owned(),
            id,
            step: None,
            hit: Some(hit),
            spans: spans.into_iter().map(|span| (span.start as u64, span.end as u64)).collect(),
            note: String::new(),
        });
        hit
    };
    let mut files = false;
    for file in &question.files {
        files |= item(format!("file {file}"), file_hit(file), find(text, file, false));
    }
    let mut symbols = false;
    for symbol in &question.symbols {
        symbols |= item(format!("symbol {symbol}"), symbol_hit(symbol), find_cased(text, symbol));
    }
    let files = question.files.is_empty() || files;
    let symbols = question.symbols.is_empty() || symbols;
    let mut columns = columns(Some(files), Some(symbols));
    if !rag {
        columns.push(("file_precision", precision(question, text)));
    }
    (items, columns)
}

/// Items and columns of a row as they were published; what was not is unscored.
fn as_published(claims: &Claims, note: &str) -> Given {
    let item = |id: &str, hit: Option<bool>| Item {
        grader: "accuracy".to_owned(),
        id: id.to_owned(),
        hit,
        note: note.to_owned(),
        ..Item::default()
    };
    let (file, symbol) = (claims.file_hit, claims.symbol_hit);
    (vec![item("any file", file), item("any symbol", symbol)], columns(file, symbol))
}

fn columns(file: Option<bool>, symbol: Option<bool>) -> Vec<(&'static str, Option<f64>)> {
    let share = |hit: Option<bool>| hit.map(|hit| if hit { 1.0 } else { 0.0 });
    let both = match (file, symbol) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (file, symbol) => file.zip(symbol).map(|_| true),
    };
    vec![("accuracy", share(both)), ("file_accuracy", share(file)), ("symbol_accuracy", share(symbol))]
}

/// A text as paths are looked for in it.
fn rag_text(text: &str) -> String {
    text.replace('\\', "/").trim_matches('/').to_lowercase()
}

/// The last two components as plain text anywhere, or, for a telling name, name and folder
/// each anywhere.
fn rag_file(file: &str, normal: &str) -> bool {
    let file = rag_text(file);
    let parts: Vec<&str> = file.split('/').collect();
    let tail = parts[parts.len().saturating_sub(2)..].join("/");
    if normal.contains(&tail) {
        return true;
    }
    match parts.as_slice() {
        [.., folder, name] => !GENERIC.contains(name) && normal.contains(name) && normal.contains(folder),
        _ => false,
    }
}

/// `re.search(r"\bSYM\b", text)` in Python: at both ends of the symbol a word begins or ends.
fn rag_symbol(symbol: &str, text: &str) -> bool {
    let ends = text.char_indices().map(|(at, _)| at).chain([text.len()]);
    let mut before = false;
    for at in ends {
        let rest = &text[at..];
        let after = rest.chars().next().is_some_and(is_word);
        let is_edge = std::mem::replace(&mut before, after) != after;
        if is_edge
            && let Some(behind) = rest.strip_prefix(symbol)
            && edge(&text[..text.len() - behind.len()], behind)
        {
            return true;
        }
    }
    false
}

/// Whether a word begins or ends between two texts.
fn edge(before: &str, after: &str) -> bool {
    before.chars().next_back().is_some_and(is_word) != after.chars().next().is_some_and(is_word)
}

/// A character of words as Python has them: letters, numbers of every kind and `_`, but neither
/// marks nor joiners nor other connectors, nor letters in circles.
fn is_word(c: char) -> bool {
    /// Without it, which can't be, all that is no ASCII stands outside words.
    static LETTER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"[\p{L}\p{N}]").ok());
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    LETTER.as_ref().is_some_and(|letter| letter.is_match(c.encode_utf8(&mut [0; 4])))
}

/// A symbol as a word of its own, by case.
fn find_cased(text: &str, symbol: &str) -> Vec<std::ops::Range<usize>> {
    find(text, symbol, true).into_iter().filter(|place| text[place.clone()] == *symbol).collect()
}

/// Paths that a text names: runs of the characters of paths that end in a name with a dot.
fn paths(text: &str) -> impl Iterator<Item = &str> {
    let is_path = |c: char| c.is_alphanumeric() || "_-./\\@+".contains(c);
    text.split(move |c| !is_path(c))
        .map(|word| word.trim_end_matches(['.', '/', '\\']).trim_start_matches("./"))
        .filter(|word| {
            word.rsplit(['/', '\\']).next().is_some_and(|name| name.chars().skip(1).any(|c| c == '.'))
        })
}

/// Whether a text names a file by whole components: the path, a longer one that ends in it, or an
/// end of it with its folder.
fn has_path(text: &str, file: &str) -> bool {
    let wanted: Vec<&str> = file.split('/').collect();
    paths(text).any(|path| {
        let named: Vec<&str> = path.split(['/', '\\']).filter(|part| !part.is_empty()).collect();
        let common = named.iter().rev().zip(wanted.iter().rev()).take_while(|(a, b)| a == b).count();
        common == wanted.len() || common == named.len() && common >= 2
    })
}

/// Share of the named files that are expected, so that naming every file doesn't win.
fn precision(question: &Question, text: &str) -> Option<f64> {
    if question.files.is_empty() {
        return None;
    }
    let named: std::collections::BTreeSet<&str> = paths(text).filter(|path| path.contains('/')).collect();
    let right = named.iter().filter(|path| question.files.iter().any(|file| has_path(path, file))).count();
    (!named.is_empty()).then(|| as_f64(right as u64) / as_f64(named.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(files: &[&str], symbols: &[&str]) -> Question {
        serde_json::from_value(serde_json::json!({
            "id": "q", "prompt": "?", "kind": "locate", "difficulty": "easy", "files": files, "symbols": symbols,
        }))
        .unwrap()
    }

    fn hits(files: &[&str], symbols: &[&str], text: &str, profile: Profile) -> [bool; 3] {
        let (_, columns) = grade(&question(files, symbols), text, profile);
        let value = |name: &str| columns.iter().find(|(n, _)| *n == name).and_then(|(_, v)| *v) == Some(1.0);
        [value("accuracy"), value("file_accuracy"), value("symbol_accuracy")]
    }

    #[test]
    fn rag_bench_rules_and_their_false_credits() {
        let rag =
            |files: &[&str], symbols: &[&str], text: &str| hits(files, symbols, text, Profile::RagBench);
        assert_eq!(rag(&[], &[], "anything"), [true; 3], "nothing expected is a hit");
        assert_eq!(
            rag(&["lib/express.js"], &["createApplication"], "See LIB\\express.js: createApplication"),
            [true; 3]
        );
        // Name and folder anywhere, for a name that is not generic.
        assert!(rag(&["lib/view.js"], &[], "view.js, somewhere under lib")[1]);
        assert!(!rag(&["src/app.py"], &[], "app.py, somewhere under src")[1]);
        // False credits, kept as they are.
        assert!(rag(&["lib/router/index.js"], &[], "it is node_modules/router/index.js")[1]);
        assert!(rag(&["index.js"], &[], "see test/index.js")[1]);
        assert!(rag(&["x.js"], &["Layer"], "x.js: there is no Layer class")[2]);
        assert!(rag(&["x.js"], &["next"], "x.js is what comes next")[2]);
        // By case, as a word.
        assert!(!rag(&[], &["render"], "res.Render, rendering")[2]);
        assert!(rag(&[], &["send"], "res.send()")[2]);
        // Any of several is enough.
        assert!(rag(&["a/b.js", "c/d.js"], &["X", "Y"], "c/d.js: Y")[0]);
    }

    #[test]
    fn words_end_where_pythons_do() {
        let hit = rag_symbol;
        for text in
            ["g.", "(g)", "g\u{301}", "g\u{203f}", "\u{200d}g\u{200d}", "g\u{20dd}", "g\u{24d0}", "gg g"]
        {
            assert!(hit("g", text), "{text:?}");
        }
        for text in ["g\u{b2}", "g\u{661}", "g\u{e9}", "g\u{2163}", "\u{2460}g", "g_", "flag", ""] {
            assert!(!hit("g", text), "{text:?}");
        }
        // Beside what is no part of a word, a word must begin.
        assert!(hit("$el", "a$el") && !hit("$el", "dir $el"));
        assert!(hit("operator()", "operator()x") && !hit("operator()", "operator() "));
        assert!(hit("-flag", "x-flag") && !hit("-flag", " -flag"));
        // Places overlap, and nothing at all stands at every edge.
        assert!(hit("a-a", "xa-a-a") && hit("", "...a") && !hit("", "...") && !hit("", ""));
        assert!(!hit(&"a".repeat(5_000), &"a".repeat(300_000)));
    }

    #[test]
    fn names_may_begin_with_any_character() {
        for text in ["\u{2460}Foo src/a.py", "\u{dc}ber src/a.py", "\u{dc} src/a.py", "\u{2460}.x src/a.py"] {
            assert!(hits(&["src/a.py"], &[], text, Profile::Default)[1], "{text}");
        }
        assert!(hits(&["src/\u{fc}.py"], &[], "src/\u{fc}.py", Profile::Default)[1]);
    }

    #[test]
    fn default_rules_want_whole_components_and_the_right_folder() {
        let ours =
            |files: &[&str], symbols: &[&str], text: &str| hits(files, symbols, text, Profile::Default);
        assert!(ours(&["lib/router/index.js"], &[], "`lib/router/index.js:3`")[1]);
        assert!(ours(&["lib/router/index.js"], &[], "router/index.js")[1]);
        assert!(!ours(&["lib/router/index.js"], &[], "node_modules/router/index.js")[1]);
        assert!(!ours(&["index.js"], &[], "see test/index.js")[1] || ours(&["index.js"], &[], "index.js")[1]);
        assert!(!ours(&["src/flask/app.py"], &[], "app.py")[1], "the folder is missing");
        assert!(!ours(&["src/flask/app.py"], &[], "xsrc/flask/app.pyc")[1]);
        assert!(!ours(&[], &["get"], "target and getUser")[2]);
        let (_, columns) =
            grade(&question(&["a/b.py"], &[]), "a/b.py, a/c.py, a/d.py, a/e.py", Profile::Default);
        assert_eq!(columns.iter().find(|(n, _)| *n == "file_precision").unwrap().1, Some(0.25));
    }
}
