//! The tables hold for every grammar, and hostile files come to an end.

use super::rules::rules;
use super::tests::{SAMPLES, seen};
use super::*;
use crate::corpus::grammar::kind_table;

/// Names in the tables that the grammar doesn't know are slips.
#[test]
fn tables_name_only_what_the_grammar_has() {
    let mut unknown = Vec::new();
    for language in Language::ALL {
        let grammar = language.grammar();
        let rules = rules(language);
        let mut check = |kind: &str, field: &str| {
            let kind_known = kind_table(grammar, &[kind]).contains(&true);
            let field_known = field.is_empty() || grammar.field_id_for_name(field).is_some();
            // One table serves TypeScript with and without JSX.
            let jsx = language == Language::TypeScript && kind.starts_with("jsx_");
            if !(jsx || kind_known && field_known) {
                unknown.push(format!("{}: {kind}.{field}", language.name()));
            }
        };
        rules.defines.iter().for_each(|r| check(r.parent, r.field));
        for (kind, field) in rules.through.iter().chain(rules.callee).chain(rules.calls) {
            check(kind, field);
        }
        rules.names.iter().chain(rules.scopes).for_each(|kind| check(kind, ""));
    }
    assert!(unknown.is_empty(), "{unknown:#?}");
}

#[test]
fn a_header_may_be_cpp() {
    assert_eq!(seen("a.h", "namespace deep {\nclass Box { int size(); };\n}\n").len(), 3);
    assert_eq!(seen("a.h", "int f(void);\n"), ["declaration f@1"]);
}

#[test]
fn hostile_files_end() {
    let deep = "(".repeat(50_000);
    let wide = "int a();\n".repeat(5_000);
    let comments = "// x\n".repeat(5_000);
    let names = format!("{} = 1\n", vec!["a"; 20_000].join(", "));
    let types = "class A { impl A { ".repeat(5_000);
    let links = "a?.b.".repeat(3_000);
    for (path, _) in SAMPLES {
        for text in [&deep, &wide, &comments, &names, &types, &links] {
            let _ = outline(path, text);
        }
    }
    assert_eq!(definitions("a.txt", "def f(): pass"), None);
    assert_eq!(
        outline_within("a.py", &"x = 1\n".repeat(9000), Budget { steps: 2, ..Budget::default() }),
        None
    );
}
