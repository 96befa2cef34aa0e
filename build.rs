//! Lists the files that are compiled into the program: the sample corpus,
//! questions, presets, pipelines, scenarios with rubrics and recordings, schemas.

#![expect(
    clippy::disallowed_methods,
    reason = "a build script talks to cargo through the environment and files"
)]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs};

const FOLDERS: [&str; 8] =
    ["datasets", "presets", "pipelines", "scenarios", "rubrics", "recordings", "schemas", "examples"];

fn main() {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap_or_default());
    let mut files = Vec::new();
    for folder in FOLDERS {
        println!("cargo:rerun-if-changed={folder}");
        collect(&root, folder, &mut files);
    }
    files.sort();
    let mut out = String::from("&[\n");
    for path in files {
        let full = root.join(&path);
        let _ = writeln!(out, "    ({path:?}, include_bytes!({:?}).as_slice()),", full.display().to_string());
    }
    out.push_str("]\n");
    let target = Path::new(&env::var("OUT_DIR").unwrap_or_default()).join("shipped.rs");
    if let Err(error) = fs::write(&target, out) {
        println!("cargo:error=can't write {}: {error}", target.display());
    }
}

fn collect(root: &Path, folder: &str, files: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(root.join(folder)) else { return };
    for entry in entries.flatten() {
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{folder}/{name}");
        if entry.path().is_dir() {
            if name != "__pycache__" && name != "node_modules" {
                collect(root, &path, files);
            }
        } else if name != ".DS_Store" {
            files.push(path);
        }
    }
}
