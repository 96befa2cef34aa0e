//! Files that nobody wrote in good faith: bounded work, clear words, no panic.

use proofline::diag::Diagnostic;
use proofline::manifest::kind::FileKind;
use proofline::manifest::load;
use proofline::manifest::source::Document;

use crate::common::compiled;
use crate::mistakes::{compile_text, project};

fn parse(bytes: &[u8]) -> Vec<Diagnostic> {
    load::check(FileKind::Pipeline, "p.toml", bytes)
}

fn codes(bytes: &[u8]) -> Vec<&'static str> {
    parse(bytes).iter().map(|d| d.code).collect()
}

#[test]
fn size_is_bounded() {
    let huge = vec![b'#'; (1 << 20) + 1];
    assert_eq!(codes(&huge), ["too-large"]);
    let many = format!("a = [{}]\n", "0,".repeat(400_000));
    assert!(codes(many.as_bytes()).contains(&"too-many-values"));
    let keys: Vec<String> = (0..60_000).map(|n| format!("k{n} = {n}")).collect();
    let keys = keys.join("\n");
    assert!(parse(keys.as_bytes()).len() > 1_000);
}

#[test]
fn depth_is_bounded() {
    for text in [
        format!("a = {}1{}", "[".repeat(60), "]".repeat(60)),
        format!("a = {}{}", "[".repeat(100_000), "]".repeat(100_000)),
        format!("a = {}", "[".repeat(500_000)),
        format!("a = {}1{}", "{ a = ".repeat(40), " }".repeat(40)),
        format!("a = {}", "{ a = ".repeat(100_000)),
        format!("{} = 1", "a.".repeat(70) + "a"),
        format!("[{}]", "a.".repeat(100_000) + "a"),
    ] {
        let found = parse(text.as_bytes());
        assert!(!found.is_empty(), "{}", &text[..40]);
    }
}

#[test]
fn odd_bytes_have_places() {
    assert_eq!(codes(b"name = \"\xff\""), ["not-utf8"]);
    assert_eq!(parse(b"a = 1\nname = \"\xff\"")[0].place().unwrap().line, 2);
    assert!(codes(b"name = \"a\0b\"\n").contains(&"syntax"));
    assert!(codes(b"\0\0\0").contains(&"syntax"));
    assert!(codes("name = \"\u{202e}\" \u{2028}".as_bytes()).contains(&"syntax"));
    for text in
        ["", "\n", "#", "=", "[", "]", "[[", "[a", "\"", "'''", "a", "a.", "a=", "=1", "a = \"\"\"\nx", "\r"]
    {
        assert!(!parse(text.as_bytes()).is_empty(), "{text:?}");
    }
}

#[test]
fn a_byte_order_mark_and_windows_line_ends_are_read() {
    let text = std::fs::read_to_string(project().join("pipelines/sound.toml")).unwrap();
    let windows = format!("\u{feff}{}", text.replace('\n', "\r\n"));
    let warnings = compile_text(&windows, &[]).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    let found = compile_text(&windows.replace("abou", "abuo"), &[]).unwrap_err();
    let place = found[0].place().unwrap();
    assert_eq!((found[0].code, place.line, place.column), ("unknown-key", 4, 1));
}

#[test]
fn numbers_outside_json_are_refused() {
    let (document, found) = Document::parse(
        "p.toml",
        b"a = 99999999999999999999\nb = nan\nc = 1e999\nd = inf\ne = 0xff\nf = 1_000\n",
    );
    assert_eq!(found.len(), 4, "{found:?}");
    assert_eq!(document.value, serde_json::json!({ "e": 255, "f": 1000 }));
}

#[test]
fn dates_are_texts() {
    let (document, _) = Document::parse("p.toml", b"a = 2010-04-16\nb = 1979-05-27T07:32:00Z\n");
    assert_eq!(document.value, serde_json::json!({ "a": "2010-04-16", "b": "1979-05-27T07:32:00Z" }));
}

#[test]
fn long_lines_are_named_and_not_shown() {
    let text = format!("format = 1\nabout = \"{}\"\nnmae = \"{}\"", "x".repeat(5_000), "y".repeat(5_000));
    let found = parse(text.as_bytes());
    let shown = proofline::cli::render::text(&found, false);
    assert!(shown.contains("p.toml:3:1"), "{shown}");
    assert!(shown.len() < 5_000, "{}", shown.len());
}

#[test]
fn templates_are_bounded() {
    let text = std::fs::read_to_string(project().join("pipelines/sound.toml")).unwrap();
    for bomb in [
        "{% for a in range(9999) %}{% for b in range(9999) %}x{% endfor %}{% endfor %}{{ size }}",
        "{{ 'x' * 90000000 }}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% include 'x' %}{{ size }}",
        "{{ debug() }}",
    ] {
        let text = text.replace("\"{{ size }}\"", &format!("\"{bomb}\""));
        let found = compile_text(&text, &[]).unwrap_err();
        assert!(
            found.iter().all(|d| ["bad-template", "unknown-variable"].contains(&d.code)),
            "{bomb}: {found:?}"
        );
    }
}

#[test]
fn paths_in_files_stay_inside() {
    let text = std::fs::read_to_string(project().join("pipelines/sound.toml")).unwrap();
    for (from, to) in [
        ("[\"scripts/count.py\"]", "[\"/etc/passwd\"]"),
        ("[\"scripts/count.py\"]", "[\"scripts/../../x\"]"),
        ("\"scripts/sums.schema.json\"", "\"/etc/passwd\""),
        ("path = \"sums.json\"", "path = \"/tmp/sums.json\""),
    ] {
        let found = compile_text(&text.replace(from, to), &[]).unwrap_err();
        assert!(found.iter().any(|d| ["bad-path", "no-schema"].contains(&d.code)), "{to}: {found:?}");
    }
}

#[cfg(unix)]
#[test]
fn links_and_pipes_are_no_way_out() {
    let copy = tempfile::tempdir().unwrap();
    let root = copy.path().join("p");
    proofline::fsio::tree::copy(&project(), &root).unwrap();
    std::os::unix::fs::symlink("/etc", root.join("scripts/etc")).unwrap();
    let text = std::fs::read_to_string(root.join("pipelines/sound.toml")).unwrap();
    let text = text.replace("[\"scripts/count.py\"]", "[\"scripts/count.py\", \"scripts/etc/passwd\"]");
    proofline::fsio::write_plain(&root.join("pipelines/linked.toml"), text.as_bytes()).unwrap();
    let found = compiled(&root, "linked", &[]).unwrap_err();
    assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), ["bad-path"]);
    let made = std::process::Command::new("mkfifo").arg(root.join("pipelines/pipe.toml")).status().unwrap();
    assert!(made.success());
    assert_eq!(compiled(&root, "pipe", &[]).unwrap_err()[0].code, "unreadable");
    assert_eq!(compiled(&root, "pipelines", &[]).unwrap_err()[0].code, "no-pipeline");
    assert_eq!(compiled(&root, "./pipelines", &[]).unwrap_err()[0].code, "unreadable");
}

mod any {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// Nothing that bytes can say makes the reader panic, and every place lies in the text.
        #[test]
        fn bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            for kind in FileKind::ALL {
                let _ = load::check(kind, "x.toml", &bytes);
            }
        }

        #[test]
        fn near_toml_never_panics(text in "([a-c\\[\\]{}=\"'#.,\\n 1é-]{0,20}\n){0,12}") {
            for found in parse(text.as_bytes()) {
                for label in found.labels {
                    prop_assert!(text.get(label.place.start..label.place.end).is_some());
                }
            }
        }

        /// A sound file with one span of bytes taken out or doubled.
        #[test]
        fn torn_files_never_panic(start in 0usize..2_500, length in 1usize..60, double in any::<bool>()) {
            let text = std::fs::read_to_string(project().join("pipelines/sound.toml")).unwrap();
            let start = start.min(text.len());
            let end = (start + length).min(text.len());
            let torn = if double {
                format!("{}{}{}", &text[..end], &text[start..end], &text[end..])
            } else {
                format!("{}{}", &text[..start], &text[end..])
            };
            let copy = tempfile::tempdir().unwrap();
            proofline::fsio::write_plain(&copy.path().join("p.toml"), torn.as_bytes()).unwrap();
            let _ = compiled(copy.path(), "p.toml", &[]);
        }
    }
}
