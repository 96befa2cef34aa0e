//! YAML as the reference loader reads it, and what is refused.

use std::fmt::Write as _;
use std::time::Duration;

use proofline::clock::Stopwatch;
use proofline::import::yaml::{self, DEEPEST, LARGEST, YamlError};
use serde_json::{Value, json};

/// Texts and what `PyYAML` 6.0.3 `safe_load` made of them, numbers that JSON
/// lacks and dates as texts, keys as JSON writes them; `error` where it refused.
const CASES: &str = include_str!("../fixtures/yaml/cases.jsonl");

/// Texts that we read otherwise, with the reason.
const OTHERWISE: &[(&str, &str)] = &[
    // The reference can't make a value of these two and gives up.
    ("v: <<\n", "a merge key as a value is its text"),
    ("- <<\n", "a merge key as a value is its text"),
    ("[<<, x]\n", "a merge key as a value is its text"),
    ("v: =\n", "the default key as a value is its text"),
    // Version 1.2 of the language, whose parser this is, takes more or other texts.
    ("a: &x 1\nb: &x 2\nc: *x\n", "an anchor may be given again"),
    ("\ta: b\n", "tabs may stand where nothing depends on indentation"),
    ("a:\t b\n", "tabs may stand where nothing depends on indentation"),
    ("a: \"\u{85}\"\n", "next line is no end of a line"),
    ("a: b\u{2028}c\n", "line separator is no end of a line"),
];

/// Equal but for the last digits of fractions, which readers of JSON round differently.
fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            (a - b).abs() <= a.abs() * 1e-15
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((k, a), (l, b))| k == l && same(a, b))
        }
        _ => a == b,
    }
}

#[test]
fn values_are_those_of_the_reference() {
    let (mut equal, mut other) = (0, Vec::new());
    for line in CASES.lines() {
        let case: Value = serde_json::from_str(line).unwrap();
        let text = case["yaml"].as_str().unwrap();
        let have = yaml::read(text.as_bytes());
        let fine = match (case.get("json"), &have) {
            (Some(want), Ok(have)) => same(want, have),
            (None, Err(_)) => true,
            _ => false,
        };
        if fine || OTHERWISE.iter().any(|(known, _)| *known == text) {
            equal += 1;
        } else {
            other.push(format!("{text:?}: {have:?}, not {:?}", case.get("json")));
        }
    }
    println!("{equal} texts are read alike");
    assert!(other.is_empty(), "{} differ:\n{}", other.len(), other.join("\n"));
}

#[test]
fn errors_say_where() {
    let at = |text: &str| match yaml::read(text.as_bytes()) {
        Err(YamlError::Syntax { line, column, .. } | YamlError::Refused { line, column, .. }) => {
            (line, column)
        }
        other => panic!("{text:?}: {other:?}"),
    };
    assert_eq!(at("a: 1\nb: !mine x\n"), (2, 4));
    assert_eq!(at("a: 1\n---\nb: 2\n").0, 2);
    assert_eq!(at("a: *gone\n").0, 1);
    assert_eq!(at("a: 1\n? [x]\n: 2\n").0, 2);
    assert_eq!(at("ok: 1\nbad: [1, 2\n").0, 3);
    assert!(yaml::read(b"a: !mine x").unwrap_err().to_string().starts_with("line 1, column 4: the tag"));
    assert_eq!(yaml::read(b"\xff\xfe"), Err(YamlError::NotUtf8));
    assert_eq!(yaml::read(&vec![b'#'; LARGEST + 1]), Err(YamlError::TooLarge));
}

#[test]
fn bounds_hold() {
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    assert!(yaml::read(deep(DEEPEST).as_bytes()).is_ok());
    assert!(matches!(
        yaml::read(deep(DEEPEST + 1).as_bytes()),
        Err(YamlError::TooMuch { what: "levels", .. })
    ));
    let mut block = String::new();
    for n in 0..5_000 {
        writeln!(block, "{}a:", " ".repeat(n)).unwrap();
    }
    assert!(yaml::read(block.as_bytes()).is_err());
    let dashes = "- ".repeat(100_000);
    assert!(yaml::read(dashes.as_bytes()).is_err());
    // Each level repeats the one before ten times.
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for n in 1..12 {
        let before = format!("*a{}", n - 1);
        writeln!(laughs, "a{n}: &a{n} [{}]", [before.as_str(); 10].join(", ")).unwrap();
    }
    assert!(matches!(yaml::read(laughs.as_bytes()), Err(YamlError::TooMuch { what: "values", .. })));
    let mut long = format!("a: &a {}\nb:\n", "x".repeat(1 << 20));
    long.push_str(&"- *a\n".repeat(64));
    assert!(matches!(yaml::read(long.as_bytes()), Err(YamlError::TooMuch { what: "bytes of text", .. })));
    // What an anchor holds is counted once more, but not once more per level.
    let nested = format!("{}1{}", "[&a ".repeat(60), "]".repeat(60));
    assert!(yaml::read(nested.as_bytes()).is_ok());
    let kept = "- &a [x]\n".repeat(200_000);
    assert!(matches!(yaml::read(kept.as_bytes()), Err(YamlError::TooMuch { what: "values", .. })));
}

#[test]
fn large_texts_are_read_in_time() {
    let texts = [
        "- {id: a, match: [b.go], relation: \"c\"}\n".repeat(20_000),
        format!("a: \"{}\"\n", "x\\n".repeat(300_000)),
        format!("a: {}\n", "b: ".repeat(200_000)),
        "? a\n".repeat(100_000),
        "&a ".repeat(300_000),
        "!a ".repeat(300_000),
        "[".repeat(1_000_000),
        "{".repeat(1_000_000),
        "\"".repeat(1_000_001),
        "a: |\n".to_owned() + &"  \n".repeat(300_000),
        "#".repeat(1_000_000),
        "\n".repeat(1_000_000),
        "%a\n".repeat(300_000),
        format!("a: {}", "'".repeat(1_000_000)),
        " ".repeat(1_000_000) + "a",
        "a: b\n".repeat(200_000),
        "--- a\n".repeat(100_000),
        "a\n".repeat(400_000),
        format!("v: {}", "9".repeat(1_000_000)),
        format!("v: 1{}", ":1".repeat(400_000)),
    ];
    for text in texts {
        let watch = Stopwatch::start();
        let _ = yaml::read(text.as_bytes());
        let took = watch.elapsed();
        assert!(
            took < Duration::from_secs(5),
            "{:?}...: {took:?}",
            text.chars().take(12).collect::<String>()
        );
    }
}

#[test]
fn repeated_and_merged_mappings_keep_their_order() {
    let text = "base: &b {x: 1, y: 2}\nuse:\n  z: 0\n  <<: *b\n  y: 3\n";
    let value = yaml::read(text.as_bytes()).unwrap();
    assert_eq!(value["use"], json!({"x": 1, "y": 3, "z": 0}));
    assert_eq!(value["use"].as_object().unwrap().keys().collect::<Vec<_>>(), ["x", "y", "z"]);
    assert_eq!(yaml::read(b"").unwrap(), Value::Null);
}

mod any {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(400))]

        #[test]
        fn bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = yaml::read(&bytes);
        }

        #[test]
        fn near_yaml_never_panics(text in "([ab01:\\[\\]{}\"'#,!&*?|>%@~<\\-=. é\t]{0,16}\n){0,10}") {
            let _ = yaml::read(text.as_bytes());
        }
    }
}
