//! Runs a built-in engine on a folder and prints what it did, for `retrieval.py`, which
//! measures the whole process.
//!
//! ```text
//! retrieve FOLDER ENGINE[/PROFILE] [QUESTIONS]   index, then ask every line of QUESTIONS
//! retrieve FOLDER texts PROFILE                  a JSON string a line: what a profile of bm25 ranks
//! retrieve - patterns QUESTIONS                  the expression that grep searches by, a line each
//! ```

use std::io::{BufWriter, Write};
use std::path::Path;

use proofline::clock::Stopwatch;
use proofline::fsio;
use proofline::retrieve::{engine, grep_pattern, ranked_texts, read_folder};
use serde_json::{Value, json};

/// As many results as `proofline mcp` gives when nothing else is asked for.
const LIMIT: usize = 10;

type Failed = Box<dyn std::error::Error>;

fn lines(path: &str) -> Result<Vec<String>, Failed> {
    Ok(String::from_utf8(fsio::read(Path::new(path))?)?.lines().map(str::to_owned).collect())
}

fn run(folder: &str, name: &str, questions: &[String]) -> Result<Value, Failed> {
    let watch = Stopwatch::start();
    let files = read_folder(Path::new(folder), &[])?;
    let read = watch.ms();
    let (name, profile) = name.split_once('/').map_or((name, None), |(name, profile)| (name, Some(profile)));
    let mut engine = engine(name, profile, None)?;
    let facts = engine.index(&files);
    let indexed = watch.ms();
    let mut found = 0;
    let mut first = Vec::new();
    for question in questions {
        let list = engine.search(question, LIMIT);
        found += list.len();
        first.push(list.first().map(|f| json!([f.file, f.line, f.score])));
    }
    let asked = watch.ms();
    Ok(json!({
        "files": facts.files, "bytes": facts.bytes, "chunks": facts.chunks, "questions": questions.len(),
        "found": found, "read_ms": read, "index_ms": indexed - read, "ask_ms": asked - indexed, "first": first,
    }))
}

fn main() -> Result<(), Failed> {
    // `cargo bench` adds a flag of its own.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut out = BufWriter::new(std::io::stdout());
    match words.as_slice() {
        [folder, "texts", profile] => {
            for text in ranked_texts(profile, &read_folder(Path::new(folder), &[])?) {
                writeln!(out, "{}", Value::from(text))?;
            }
        }
        ["-", "patterns", questions] => {
            for question in lines(questions)? {
                writeln!(out, "{}", grep_pattern(&question).unwrap_or_default())?;
            }
        }
        [folder, name] => writeln!(out, "{}", run(folder, name, &[])?)?,
        [folder, name, questions] => writeln!(out, "{}", run(folder, name, &lines(questions)?)?)?,
        _ => writeln!(out, "nothing to do: name a folder and an engine; see benches/retrieval.py")?,
    }
    out.flush()?;
    Ok(())
}
