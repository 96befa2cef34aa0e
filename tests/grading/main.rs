//! Answers that exist already: imported, graded, judged, graded anew, by the built program.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "tests of a program"
)]

#[path = "../engine/env.rs"]
#[expect(dead_code, reason = "shared with the tests of the engine")]
mod env;

mod checkouts;
mod demo;
mod imports;
mod programs;
mod rag;
mod regrade;
mod sense;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A folder of published results from outside, where it is there.
pub(crate) fn oracle(name: &str) -> Option<PathBuf> {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared");
    let folder = shared.join("oracle").join(name);
    if folder.is_dir() {
        return Some(folder.canonicalize().unwrap());
    }
    let in_ci = std::env::var("CI").is_ok_and(|value| value == "true");
    assert!(!(in_ci && shared.exists()), "{} is missing", folder.display());
    println!("skipped: no oracle");
    None
}

/// A folder with a project of its own, and the program in it.
pub(crate) struct Place {
    dir: tempfile::TempDir,
}

/// What a command said.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}\n{}\n{}", self.out, self.err))
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join(".git")).unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Replaces a text that must be there.
    pub(crate) fn edit(&self, name: &str, old: &str, new: &str) {
        let text = self.read(name);
        assert!(text.contains(old), "{name} has no {old:?}");
        self.write(name, &text.replacen(old, new, 1));
    }

    /// Copies the demonstration's recording and what it names.
    pub(crate) fn take_recording(&self) {
        self.take("recordings/demo.toml");
        for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings/demo")).unwrap()
        {
            self.take(&format!("recordings/demo/{}", entry.unwrap().file_name().to_str().unwrap()));
        }
    }

    /// Copies a file of this repository to the same path.
    pub(crate) fn take(&self, name: &str) {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
        self.write(name, &std::fs::read_to_string(from).unwrap());
    }

    pub(crate) fn go(&self, args: &[&str]) -> Said {
        let output = Command::new(env!("CARGO_BIN_EXE_proofline"))
            .args(args)
            .current_dir(self.dir.path())
            .env_remove("PROOFLINE_STORE")
            .output()
            .unwrap();
        Said {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs a command that must end with 0.
    pub(crate) fn ok(&self, args: &[&str]) -> Said {
        let said = self.go(args);
        assert_eq!(said.code, 0, "{args:?}\n{}\n{}", said.out, said.err);
        said
    }

    /// The answers among the rows of the last run, by id.
    pub(crate) fn rows(&self) -> Vec<Value> {
        let said = self.ok(&["report", "latest", "--rows"]);
        said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The row of an answer.
    pub(crate) fn row(&self, id: &str) -> Value {
        self.rows().into_iter().find(|row| row["answer"] == id).unwrap_or_else(|| panic!("no answer {id}"))
    }

    /// Counts of nodes of the last run by stage: executed and reused.
    pub(crate) fn executed(&self) -> Vec<String> {
        let report = self.ok(&["report", "latest", "--json"]).json();
        let all = report["run"]["executed"].as_array().unwrap();
        all.iter().map(|node| node.as_str().unwrap().split('[').next().unwrap().to_owned()).collect()
    }
}
