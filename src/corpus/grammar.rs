//! Grammars: which language a file is in, its syntax tree, and the nodes that
//! a chunker cuts at. tree-sitter stays inside `corpus`; others get plain
//! values.
//!
//! Input is hostile: files above [`LARGEST`] bytes aren't parsed, parsing has
//! a [`Budget`], and trees are walked with a cursor, so that depth costs heap
//! and never stack.

use std::cell::RefCell;
use std::ops::ControlFlow;
use std::sync::OnceLock;
use std::time::Duration;

use tree_sitter::{ParseOptions, Parser, Tree};

use crate::clock::Stopwatch;

/// Files larger than this many bytes are neither parsed nor searched.
pub const LARGEST: usize = 2 << 20;

/// How many leading bytes are looked at to tell text from binary.
const SNIFFED: usize = 8 << 10;

/// A language with a grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Language {
    /// Python.
    Python,
    /// JavaScript and JSX.
    JavaScript,
    /// TypeScript.
    TypeScript,
    /// TypeScript with JSX.
    Tsx,
    /// Go.
    Go,
    /// Rust.
    Rust,
    /// Java.
    Java,
    /// Ruby.
    Ruby,
    /// C.
    C,
    /// C++.
    Cpp,
    /// C#.
    CSharp,
    /// PHP.
    Php,
}

impl Language {
    /// All of them, in a fixed order.
    pub const ALL: [Self; 12] = [
        Self::Python,
        Self::JavaScript,
        Self::TypeScript,
        Self::Tsx,
        Self::Go,
        Self::Rust,
        Self::Java,
        Self::Ruby,
        Self::C,
        Self::Cpp,
        Self::CSharp,
        Self::Php,
    ];

    /// Its name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Python => "python",
            Self::JavaScript => "javascript",
            Self::TypeScript => "typescript",
            Self::Tsx => "tsx",
            Self::Go => "go",
            Self::Rust => "rust",
            Self::Java => "java",
            Self::Ruby => "ruby",
            Self::C => "c",
            Self::Cpp => "c++",
            Self::CSharp => "c#",
            Self::Php => "php",
        }
    }

    /// The compiled grammar, built once.
    pub(super) fn grammar(self) -> &'static tree_sitter::Language {
        static GRAMMARS: [OnceLock<tree_sitter::Language>; 12] = [const { OnceLock::new() }; 12];
        GRAMMARS[self as usize].get_or_init(|| match self {
            Self::Python => tree_sitter_python::LANGUAGE.into(),
            Self::JavaScript => tree_sitter_javascript::LANGUAGE.into(),
            Self::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
            Self::Tsx => tree_sitter_typescript::LANGUAGE_TSX.into(),
            Self::Go => tree_sitter_go::LANGUAGE.into(),
            Self::Rust => tree_sitter_rust::LANGUAGE.into(),
            Self::Java => tree_sitter_java::LANGUAGE.into(),
            Self::Ruby => tree_sitter_ruby::LANGUAGE.into(),
            Self::C => tree_sitter_c::LANGUAGE.into(),
            Self::Cpp => tree_sitter_cpp::LANGUAGE.into(),
            Self::CSharp => tree_sitter_c_sharp::LANGUAGE.into(),
            Self::Php => tree_sitter_php::LANGUAGE_PHP.into(),
        })
    }
}

/// The language of a file by the end of its name; `None` without a grammar.
/// `.h` counts as C, as most tools have it.
#[must_use]
pub fn language_of(path: &str) -> Option<Language> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let (stem, suffix) = name.rsplit_once('.')?;
    if stem.is_empty() {
        return None;
    }
    Some(match suffix.to_ascii_lowercase().as_str() {
        "py" | "pyi" | "pyw" => Language::Python,
        "js" | "jsx" | "mjs" | "cjs" => Language::JavaScript,
        "ts" | "mts" | "cts" => Language::TypeScript,
        "tsx" => Language::Tsx,
        "go" => Language::Go,
        "rs" => Language::Rust,
        "java" => Language::Java,
        "rb" | "rake" | "gemspec" => Language::Ruby,
        "c" | "h" => Language::C,
        "cc" | "cpp" | "cxx" | "hh" | "hpp" | "hxx" => Language::Cpp,
        "cs" => Language::CSharp,
        "php" => Language::Php,
        _ => return None,
    })
}

/// Whether bytes look like no text: a NUL among the first 8 KiB.
#[must_use]
pub fn is_binary(bytes: &[u8]) -> bool {
    memchr::memchr(0, &bytes[..bytes.len().min(SNIFFED)]).is_some()
}

/// How much work one parse may take.
///
/// Steps give the same answer on a slow machine, but in the recovery from
/// errors one step may take long: for some nonsense the time grows with the
/// square of its length. The time is the net below them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Steps, each of 100 operations of the parser.
    pub steps: u64,
    /// Longest time.
    pub time: Duration,
}

impl Default for Budget {
    /// An ordinary file takes a step for every 50 to 200 bytes and some 0.2 s
    /// for a megabyte; this leaves a file of [`LARGEST`] bytes five times the
    /// steps and twenty times the time.
    fn default() -> Self {
        Self { steps: 200_000, time: Duration::from_secs(10) }
    }
}

/// The syntax tree of a text; `None` when it is too large or the budget ran
/// out. Faulty code gives a tree with error nodes.
pub(super) fn parse(text: &str, language: Language, budget: Budget) -> Option<Tree> {
    if text.len() > LARGEST {
        return None;
    }
    PARSERS.with_borrow_mut(|parsers| {
        let mut parser = if let Some(parser) = parsers[language as usize].take() {
            parser
        } else {
            let mut parser = Parser::new();
            parser.set_language(language.grammar()).ok()?;
            parser
        };
        let tree = parse_with(&mut parser, text, budget)?;
        // One that was stopped half way is not used again.
        parsers[language as usize] = Some(parser);
        Some(tree)
    })
}

thread_local! {
    /// Parsers are kept: each has buffers that grow with the first files.
    static PARSERS: RefCell<[Option<Parser>; Language::ALL.len()]> =
        const { RefCell::new([const { None }; Language::ALL.len()]) };
}

fn parse_with(parser: &mut Parser, text: &str, budget: Budget) -> Option<Tree> {
    let bytes = text.as_bytes();
    let mut left = budget.steps;
    let watch = Stopwatch::start();
    let mut spend = |_: &tree_sitter::ParseState| {
        if left == 0 || watch.elapsed() > budget.time {
            return ControlFlow::Break(());
        }
        left -= 1;
        ControlFlow::Continue(())
    };
    let options = ParseOptions::new().progress_callback(&mut spend);
    parser.parse_with_options(&mut |at, _| &bytes[at.min(bytes.len())..], None, Some(options))
}

/// A node that a chunker cuts at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// First byte.
    pub start: usize,
    /// Byte after the last.
    pub end: usize,
    /// 1-based line of the first byte.
    pub line: u64,
    /// Text of the node's `name` field.
    pub name: Option<String>,
}

/// All nodes of the given kinds at any depth, by first byte; `None` without a
/// grammar or beyond the budget.
#[must_use]
pub fn chunk_nodes(path: &str, text: &str, kinds: &[&str]) -> Option<Vec<Cut>> {
    let language = language_of(path)?;
    let tree = parse(text, language, Budget::default())?;
    let grammar = language.grammar();
    let wanted = kind_table(grammar, kinds);
    let name = grammar.field_id_for_name("name").map(std::num::NonZero::get);
    let mut out = Vec::new();
    let mut cursor = tree.walk();
    'walk: loop {
        let node = cursor.node();
        if wanted.get(usize::from(node.kind_id())).is_some_and(|w| *w) {
            let named = name.and_then(|id| node.child_by_field_id(id)).and_then(|n| text.get(n.byte_range()));
            out.push(Cut {
                start: node.start_byte(),
                end: node.end_byte(),
                line: node.start_position().row as u64 + 1,
                name: named.map(str::to_owned),
            });
        }
        if cursor.goto_first_child() {
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                break 'walk;
            }
        }
    }
    out.sort_by_key(|c| c.start);
    Some(out)
}

/// Which node ids have one of these kinds. A grammar may have several ids of
/// one kind.
pub(super) fn kind_table(grammar: &tree_sitter::Language, kinds: &[&str]) -> Vec<bool> {
    (0..grammar.node_kind_count())
        .map(|id| {
            let id = u16::try_from(id).unwrap_or(u16::MAX);
            grammar.node_kind_is_named(id)
                && grammar.node_kind_for_id(id).is_some_and(|kind| kinds.contains(&kind))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_told_by_the_end_of_the_name() {
        assert_eq!(language_of("a/b/C.PY"), Some(Language::Python));
        assert_eq!(language_of("x.test.tsx"), Some(Language::Tsx));
        assert_eq!(language_of("include/a.h"), Some(Language::C));
        assert_eq!(language_of(".rs"), None);
        assert_eq!(language_of("a.py/README"), None);
        assert_eq!(language_of("go"), None);
    }

    #[test]
    fn every_grammar_loads_and_parses_nothing() {
        for language in Language::ALL {
            assert!(parse("", language, Budget::default()).is_some(), "{}", language.name());
        }
    }

    #[test]
    fn a_parse_ends_with_its_budget() {
        let text = "x = 1\n".repeat(5000);
        assert!(parse(&text, Language::Python, Budget { steps: 3, ..Budget::default() }).is_none());
        assert!(parse(&text, Language::Python, Budget::default()).is_some());
        let nonsense = "a?.b.".repeat(50_000);
        let short = Budget { time: Duration::from_millis(50), ..Budget::default() };
        let watch = Stopwatch::start();
        assert!(parse(&nonsense, Language::C, short).is_none());
        assert!(watch.elapsed() < Duration::from_secs(5));
        assert!(parse(&" ".repeat(LARGEST + 1), Language::Python, Budget::default()).is_none());
    }

    #[test]
    fn cuts_are_named_and_in_order() {
        let text = "class A:\n    def f(self): pass\n\ndef g(): pass\n";
        let cuts = chunk_nodes("m.py", text, &["function_definition", "class_definition"]).unwrap();
        let seen: Vec<_> = cuts.iter().map(|c| (c.name.as_deref().unwrap(), c.line)).collect();
        assert_eq!(seen, [("A", 1), ("f", 2), ("g", 4)]);
        assert_eq!(chunk_nodes("m.txt", text, &["x"]), None);
    }

    #[test]
    fn depth_and_breadth_are_only_heap() {
        for (open, close) in [("(", ")"), ("[", "]"), ("{", "}"), ("f(", ""), ("a.", "")] {
            for language in Language::ALL {
                let text = format!("x = {}{}", open.repeat(20_000), close.repeat(20_000));
                if let Some(tree) = parse(&text, language, Budget { steps: 40_000, ..Budget::default() }) {
                    drop(tree);
                }
            }
        }
        let nested = "class A:\n".to_owned() + &"(".repeat(200_000);
        let _ = chunk_nodes("a.py", &nested, &["class_definition"]);
    }
}
