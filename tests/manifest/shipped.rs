//! Every shipped file is sound, and the schemas are those of the types.

use std::path::{Path, PathBuf};

use proofline::cli::render;
use proofline::diag::Diagnostic;
use proofline::manifest::kind::FileKind;
use proofline::manifest::load;
use proofline::manifest::schemas;
use proofline::plan::compiled::{Source, Work};

use crate::common::{compiled, root};

/// Shipped TOML files, relative to the package, in order.
pub(crate) fn files() -> Vec<String> {
    let mut out = Vec::new();
    for folder in ["datasets", "pipelines", "presets", "recordings", "rubrics", "scenarios"] {
        collect(&root(), Path::new(folder), &mut out);
    }
    out.sort();
    out
}

fn collect(root: &Path, folder: &Path, out: &mut Vec<String>) {
    for entry in std::fs::read_dir(root.join(folder)).unwrap().flatten() {
        let path: PathBuf = folder.join(entry.file_name());
        if root.join(&path).is_dir() {
            // The sample corpus is data, whatever its files are called.
            if path != Path::new("datasets/sample") {
                collect(root, &path, out);
            }
        } else if path.extension().is_some_and(|e| e == "toml") {
            out.push(path.to_str().unwrap().to_owned());
        }
    }
}

fn complain(found: &[Diagnostic]) -> String {
    render::text(found, false)
}

#[test]
fn schemas_are_current() {
    for (name, schema) in schemas::all() {
        let path = root().join("schemas").join(&name);
        let committed = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            committed == schemas::text(&schema),
            "schemas/{name} is not what the types say; write it with:\n  cargo test --release --test manifest write_schemas -- --ignored"
        );
        jsonschema::meta::validate(&schema).unwrap();
    }
}

#[test]
#[ignore = "writes the schemas; run it when a wire type has changed"]
fn write_schemas() {
    for (name, schema) in schemas::all() {
        let path = root().join("schemas").join(name);
        proofline::fsio::write_plain(&path, schemas::text(&schema).as_bytes()).unwrap();
    }
}

#[test]
fn every_shipped_file_is_sound() {
    let files = files();
    assert!(files.len() > 20, "{files:?}");
    for file in files {
        let bytes = std::fs::read(root().join(&file)).unwrap();
        let text = std::str::from_utf8(&bytes).unwrap();
        let kind = FileKind::of(&file, text).unwrap_or_else(|| panic!("{file}: of which kind?"));
        assert!(text.starts_with("#:schema "), "{file} names no schema for editors");
        let found = load::check(kind, &file, &bytes);
        assert!(found.is_empty(), "{}", complain(&found));
        // An independent validator must agree that the schema takes the file.
        let (document, _) = proofline::manifest::source::Document::parse(&file, &bytes);
        let validator = jsonschema::validator_for(&kind.schema()).unwrap();
        let errors: Vec<String> = validator.iter_errors(&document.value).map(|e| e.to_string()).collect();
        assert!(errors.is_empty(), "{file}: {errors:?}");
        if kind == FileKind::Pipeline {
            // What is graded again has to be imported first; the shipped recording stands for that.
            let sets: &[_] =
                if file.ends_with("regrade.toml") { &[("recordings", "recordings/demo.toml")] } else { &[] };
            let warnings = match compiled(&root(), &file, sets) {
                Ok((_, warnings)) => warnings,
                Err(found) => panic!("{}", complain(&found)),
            };
            assert!(warnings.is_empty(), "{}", complain(&warnings));
        }
    }
}

#[test]
fn quickstart_is_what_its_file_says() {
    let (plan, _) = compiled(&root(), "pipelines/quickstart.toml", &[]).unwrap();
    let names: Vec<&str> = plan.stages.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(
        names,
        ["index", "index.read", "warm", "warm.read", "search", "search.read", "score", "summary"]
    );
    let needs: Vec<Vec<&str>> =
        plan.stages.iter().map(|s| s.needs.iter().map(|n| names[*n]).collect()).collect();
    assert_eq!(needs[4], ["warm"]);
    assert_eq!(needs[5], ["search"]);
    assert_eq!(needs[6], ["search.read", "index.read"]);
    assert_eq!(needs[7], ["score"]);
    let axes: Vec<Vec<&str>> =
        plan.stages.iter().map(|s| s.axes.iter().map(|a| plan.axes[*a].name.as_str()).collect()).collect();
    assert_eq!(axes[2], ["repo", "arm"]);
    assert_eq!(axes[6], ["repo", "replicate", "arm"]);
    assert!(axes[7].is_empty());
    assert!(matches!(plan.stages[4].work, Work::Retrieval { top: 10 }));
    assert_eq!(plan.arms.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["grep", "bm25", "symbols"]);
    assert_eq!(plan.axes[1].values.iter().map(|v| v.text.as_str()).collect::<Vec<_>>(), ["1", "2", "3"]);
    assert_eq!(plan.repos["sample"].source, Source::Folder(root().join("datasets/sample")));
    assert_eq!(plan.root, root());
}

#[test]
fn in_an_empty_folder_the_shipped_files_are_found() {
    let empty = tempfile::tempdir().unwrap();
    for asked in ["quickstart", "pipelines/quickstart.toml", "./pipelines/quickstart.toml", "quickstart.toml"]
    {
        let (plan, warnings) =
            compiled(empty.path(), asked, &[]).unwrap_or_else(|d| panic!("{}", complain(&d)));
        assert!(warnings.is_empty(), "{}", complain(&warnings));
        assert_eq!(plan.repos["sample"].source, Source::Embedded("sample".to_owned()));
        assert_eq!(plan.root, empty.path());
        assert!(plan.arms.iter().all(|arm| arm.preset_dir.is_none()));
    }
    let found = compiled(empty.path(), "quikstart", &[]).unwrap_err();
    assert!(found[0].help.as_ref().unwrap().contains("`quickstart`"), "{found:?}");
}
