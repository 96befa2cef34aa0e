//! Documents that can be followed: their commands run, their links lead
//! somewhere, and they name every code, key and command that there is.
//!
//! In `docs/*.md` a fenced block whose info string holds `file=PATH` is a file
//! of the reader's project, and a line `$ proofline ...` of a block marked
//! `console` is a command. Files are written and commands are run in the order
//! of the page, in an empty folder of its own. A command must end with exit
//! code 0, or with the one that `# exits N` behind it says. A block marked
//! `fresh` begins in a new empty folder. What a page shows as output is not
//! compared.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use proofline::fsio;
use regex::Regex;
use serde_json::Value;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|e| panic!("{path}: {e}"))
}

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).unwrap()
}

/// Markdown files of the project, as paths below its root.
fn pages() -> Vec<String> {
    let mut out = Vec::new();
    for folder in ["", "docs", "examples", "examples/custom", "datasets", "presets"] {
        let Ok(entries) = fs::read_dir(root().join(folder)) else { continue };
        for entry in entries {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if Path::new(&name).extension().is_some_and(|e| e == "md") {
                out.push(if folder.is_empty() { name } else { format!("{folder}/{name}") });
            }
        }
    }
    out.sort();
    assert!(out.len() > 8, "{out:?}");
    out
}

/// A fenced block: info string and body.
struct Block {
    line: usize,
    info: String,
    body: String,
}

/// The fenced blocks of a page, and the page without them.
fn blocks(text: &str) -> (Vec<Block>, String) {
    let (mut out, mut rest) = (Vec::new(), String::new());
    let mut open: Option<Block> = None;
    for (at, line) in text.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (Some(_), Some("")) => out.extend(open.take()),
            (Some(block), _) => {
                block.body.push_str(line);
                block.body.push('\n');
            }
            (None, Some(info)) => {
                open = Some(Block { line: at + 1, info: info.to_owned(), body: String::new() });
            }
            (None, None) => {
                rest.push_str(line);
                rest.push('\n');
            }
        }
    }
    assert!(open.is_none(), "a fenced block is not closed");
    (out, rest)
}

/// Runs a page from its top; the number of commands.
fn follow(page: &str) -> usize {
    let exits = regex(r"\s*# exits ([0-9])\s*$");
    let file = regex(r"\bfile=(\S+)");
    let place = tempfile::tempdir().unwrap();
    let mut project = place.path().join("project");
    let bin = place.path().join("bin");
    let home = place.path().join("home");
    for folder in [&project, &bin, &home] {
        fsio::create_dir(folder).unwrap();
    }
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_proofline"), bin.join("proofline")).unwrap();
    let mut count = 0;
    for block in blocks(&read(page)).0 {
        if block.info.split_whitespace().any(|word| word == "fresh") {
            project = place.path().join(format!("project-{}", block.line));
            fsio::create_dir(&project).unwrap();
        }
        if let Some(found) = file.captures(&block.info) {
            fsio::write_plain(&project.join(&found[1]), block.body.as_bytes()).unwrap();
        }
        if block.info.split_whitespace().next() != Some("console") {
            continue;
        }
        for line in block.body.lines().filter(|l| l.starts_with("$ proofline")) {
            let expected: i32 = exits.captures(line).map_or(0, |c| c[1].parse().unwrap());
            let command = exits.replace(&line[2..], "").into_owned();
            // The page's words reach a shell as its reader would type them.
            let script = format!("PATH=\"{}:$PATH\"; {command}", bin.display());
            let done = Command::new("sh")
                .args(["-c", &script])
                .current_dir(&project)
                .env("HOME", &home)
                .stdin(Stdio::null())
                .output()
                .unwrap();
            assert_eq!(
                done.status.code(),
                Some(expected),
                "{page}:{}: `{command}`\n{}{}",
                block.line,
                String::from_utf8_lossy(&done.stdout),
                String::from_utf8_lossy(&done.stderr)
            );
            count += 1;
        }
    }
    count
}

#[test]
fn commands_of_the_documents_run() {
    let pages: Vec<String> = pages().into_iter().filter(|p| p.starts_with("docs/")).collect();
    let counts: Vec<usize> = std::thread::scope(|scope| {
        let runs: Vec<_> = pages.iter().map(|page| scope.spawn(|| follow(page))).collect();
        runs.into_iter().map(|run| run.join().unwrap_or_else(|e| std::panic::resume_unwind(e))).collect()
    });
    for (page, count) in pages.iter().zip(&counts) {
        println!("{page}: {count} commands");
    }
    assert!(counts.iter().sum::<usize>() > 20, "too few commands were found");
}

/// The name by which a heading is linked to.
fn slug(heading: &str) -> String {
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[test]
fn links_lead_somewhere() {
    let link = regex(r"\]\(([^)\s]+)\)");
    let heading = regex(r"(?m)^#{1,6} (.*)$");
    let mut faults = Vec::new();
    for page in pages() {
        let text = blocks(&read(&page)).1;
        for found in link.captures_iter(&text) {
            let target = &found[1];
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
            let folder = Path::new(&page).parent().unwrap();
            let full = if path.is_empty() { root().join(&page) } else { root().join(folder).join(path) };
            if !full.exists() {
                faults.push(format!("{page}: `{target}` is not there"));
            } else if !fragment.is_empty() {
                let text = blocks(&fs::read_to_string(&full).unwrap()).1;
                if !heading.captures_iter(&text).any(|h| slug(&h[1]) == fragment) {
                    faults.push(format!("{page}: `{target}` names no heading"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn every_code_and_exit_code_is_documented() {
    let source = read("src/artifact/mod.rs");
    let codes = source.split("pub mod code {").nth(1).unwrap().split("\n}").next().unwrap();
    let code = regex(r#"pub const [A-Z_]+: &str = "([a-z0-9-]+)";"#);
    let page = read("docs/benchmark-my-server.md");
    let mut count = 0;
    for found in code.captures_iter(codes) {
        assert!(
            page.contains(&format!("| `{}` |", &found[1])),
            "docs/benchmark-my-server.md lacks `{}`",
            &found[1]
        );
        count += 1;
    }
    assert!(count > 10, "only {count} codes were found");
    let row = regex(r"(?m)^//! \| ([0-9]) \|");
    let exit = read("src/cli/exit.rs");
    let exits: Vec<&str> = row.captures_iter(&exit).map(|c| c.get(1).unwrap().as_str()).collect();
    assert_eq!(exits.len(), 6);
    for page in ["docs/ci.md", "docs/scripts.md"] {
        let text = read(page);
        for code in &exits {
            assert!(text.contains(&format!("\n| {code} |")), "{page} has no row for exit code {code}");
        }
    }
}

/// Names of all properties in a schema.
fn properties(value: &Value, out: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            if let Some(Value::Object(of)) = map.get("properties") {
                out.extend(of.keys().cloned());
            }
            for inner in map.values() {
                properties(inner, out);
            }
        }
        Value::Array(items) => {
            for inner in items {
                properties(inner, out);
            }
        }
        _ => {}
    }
}

#[test]
fn every_key_of_every_file_is_documented() {
    let page = read("docs/manifest.md");
    let mut missing: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for kind in [
        "pipeline",
        "server",
        "repos",
        "questions",
        "scenario",
        "rubric",
        "recording",
        "prices",
        "lock",
        "trust",
    ] {
        let schema: Value = serde_json::from_str(&read(&format!("schemas/{kind}.json"))).unwrap();
        let mut names = BTreeSet::new();
        properties(&schema, &mut names);
        for name in names {
            if !page.contains(&format!("`{name}`")) {
                missing.entry(kind).or_default().push(name);
            }
        }
    }
    assert!(missing.is_empty(), "docs/manifest.md lacks {missing:?}");
}

/// The commands that `--help` lists, and every one that its words name.
fn commands() -> (BTreeSet<String>, BTreeSet<String>) {
    let help = Command::new(env!("CARGO_BIN_EXE_proofline")).arg("--help").output().unwrap();
    let text = String::from_utf8(help.stdout).unwrap();
    let table = text.split("Commands:\n").nth(1).unwrap().split("\n\n").next().unwrap();
    let row = regex(r"(?m)^  ([a-z]+)\b");
    let listed: BTreeSet<String> = row.captures_iter(table).map(|c| c[1].to_owned()).collect();
    assert!(listed.len() > 10, "{listed:?}");
    let example = regex(r"\bproofline ([a-z]+)\b");
    let named = listed.iter().cloned().chain(example.captures_iter(&text).map(|c| c[1].to_owned())).collect();
    (listed, named)
}

#[test]
fn documents_and_help_name_the_same_commands() {
    let (listed, named) = commands();
    let in_prose = regex(r"`proofline(?: --store \S+)? ([a-z]+)\b");
    let in_code = regex(r"(?m)^(?:\$ )?(?:cargo run --release -- |proofline (?:--store \S+ )?)([a-z]+)\b");
    let mut faults = Vec::new();
    for page in pages() {
        let (blocks, prose) = blocks(&read(&page));
        let of_prose = in_prose.captures_iter(&prose);
        let of_code = blocks.iter().flat_map(|b| in_code.captures_iter(&b.body));
        for found in of_prose.chain(of_code) {
            if !named.contains(&found[1]) {
                faults.push(format!("{page}: there is no command `proofline {}`", &found[1]));
            }
        }
    }
    let all = read("docs/scripts.md").split("## All commands").nth(1).unwrap().to_owned();
    for name in listed {
        if !regex(&format!(r"(?m)^\|.*`{name}\b")).is_match(&all) {
            faults.push(format!("docs/scripts.md: no row for `proofline {name}`"));
        }
    }
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn metrics_are_defined() {
    let page = read("docs/read-the-report.md");
    for metric in proofline::grade::metrics() {
        assert!(
            page.contains(&format!("| `{}` |", metric.name)),
            "docs/read-the-report.md lacks `{}`",
            metric.name
        );
    }
    for grader in proofline::grade::graders() {
        assert!(read("docs/manifest.md").contains(&format!("`{}`", grader.name)), "{}", grader.name);
    }
}
