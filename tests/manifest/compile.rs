//! What compilation makes of sound files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proofline::cli::render;
use proofline::diag::Diagnostic;
use proofline::manifest::server::Registry;
use proofline::plan::compiled::{Compiled, Source, Work};
use serde_json::json;

use crate::common::compiled;
use crate::mistakes::project;

fn ok(result: Result<(Compiled, Vec<Diagnostic>), Vec<Diagnostic>>) -> Compiled {
    let (plan, warnings) = result.unwrap_or_else(|d| panic!("{}", render::text(&d, false)));
    assert!(warnings.is_empty(), "{}", render::text(&warnings, false));
    plan
}

fn codes(result: Result<(Compiled, Vec<Diagnostic>), Vec<Diagnostic>>) -> Vec<&'static str> {
    match result {
        Ok((_, found)) | Err(found) => found.iter().map(|d| d.code).collect(),
    }
}

fn sound(sets: &[(&str, &str)]) -> Result<(Compiled, Vec<Diagnostic>), Vec<Diagnostic>> {
    compiled(&project(), "pipelines/sound.toml", sets)
}

/// A project of these files in a fresh folder.
fn files(files: &[(&str, &str)]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    for (path, text) in files {
        let path = root.join(path);
        proofline::fsio::create_dir(path.parent().unwrap()).unwrap();
        proofline::fsio::write_plain(&path, text.as_bytes()).unwrap();
    }
    (folder, root)
}

fn values<'p>(plan: &'p Compiled, axis: &str) -> Vec<&'p str> {
    let axis = plan.axes.iter().find(|a| a.name == axis).unwrap();
    axis.values.iter().map(|v| v.text.as_str()).collect()
}

#[test]
fn set_values_take_the_type_of_the_default() {
    let plan = ok(sound(&[
        ("servers", "bm25, grep,mine"),
        ("replicates", "5"),
        ("word", "warm"),
        ("share", "1"),
        ("verbose", "true"),
    ]));
    assert_eq!(plan.params["servers"], json!(["bm25", "grep", "mine"]));
    assert_eq!(plan.params["replicates"], json!(5));
    assert_eq!(plan.params["word"], json!("warm"));
    assert_eq!(plan.params["share"], json!(1.0));
    assert_eq!(plan.params["verbose"], json!(true));
    assert_eq!(values(&plan, "arm"), ["bm25", "grep", "mine"]);
    assert_eq!(values(&plan, "replicate"), ["1", "2", "3", "4", "5"]);
    // Of a name given twice the last counts.
    assert_eq!(ok(sound(&[("replicates", "3"), ("replicates", "4")])).params["replicates"], json!(4));
}

#[test]
fn wrong_sets_are_reported_where_they_were_typed() {
    let cases: &[(&str, &str, &str, usize)] = &[
        ("replicats", "5", "unknown-param", 1),
        ("replicates", "five", "wrong-type", 12),
        ("replicates", "0", "out-of-range", 12),
        ("replicates", "51", "out-of-range", 12),
        ("word", "hot", "not-a-choice", 6),
        ("verbose", "yes", "wrong-type", 9),
        ("share", "nan", "wrong-type", 7),
        ("servers", "grep,bm52", "no-preset", 14),
        ("servers", "grep,./none.toml", "no-preset", 14),
        ("repos", "tiny,tinny", "unknown-repo", 12),
        ("corpus.tiny", "pypi:flask", "bad-source", 13),
        ("corpus.tiny", "./nowhere", "bad-source", 13),
        ("corpus.ti/ny", ".", "bad-name", 1),
        ("corpus.tinny", ".", "unknown-repo", 1),
    ];
    for (name, value, code, column) in cases {
        let found = sound(&[(name, value)]).unwrap_err();
        let hit =
            found.iter().find(|d| d.code == *code).unwrap_or_else(|| panic!("{name}={value}: {found:#?}"));
        let place = hit.place().unwrap();
        assert_eq!((place.path.as_str(), place.line, place.column), ("--set", 1, *column), "{name}={value}");
        assert!(hit.help.is_some(), "{name}={value}");
    }
    let help = sound(&[("replicats", "5")]).unwrap_err()[0].help.clone().unwrap();
    assert!(help.contains("did you mean `replicates`?"), "{help}");
}

#[test]
fn a_larger_sample_contains_the_smaller() {
    let mut before = BTreeSet::new();
    for n in 1..=9 {
        let plan = ok(sound(&[("sample", &n.to_string())]).map(|(plan, found)| {
            // The excluded question may be on no axis when the sample is small.
            (plan, found.into_iter().filter(|d| d.code != "excludes-nothing").collect())
        }));
        let now: BTreeSet<String> = values(&plan, "task").into_iter().map(str::to_owned).collect();
        assert!(before.is_subset(&now), "{n}: {before:?} {now:?}");
        assert_eq!(now.len(), n.min(8));
        // A session asks what is on the axis, and nothing else.
        let asked: BTreeSet<String> =
            plan.repos["tiny"].questions.question.iter().map(|q| q.id.clone()).collect();
        assert_eq!(asked, now);
        before = now;
    }
}

#[test]
fn dependent_values_know_their_parent() {
    let plan = ok(sound(&[]));
    let (repo, task) = (&plan.axes[0], &plan.axes[1]);
    assert_eq!((repo.name.as_str(), task.name.as_str(), task.of), ("repo", "task", Some(0)));
    assert!(task.values.iter().all(|v| v.parent == Some(0)));
    assert_eq!(plan.exclude.len(), 1);
    let names: Vec<&str> = plan.stages.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "index",
            "index.read",
            "warm",
            "warm.read",
            "search",
            "search.read",
            "score",
            "count",
            "sum",
            "summary"
        ]
    );
    let sum = &plan.stages[8];
    assert_eq!((sum.needs.as_slice(), sum.axes.as_slice()), (&[7][..], &[3][..]));
    assert!(matches!(&sum.work, Work::Command(command) if command.metrics.as_deref() == Some("sums")));
}

#[test]
fn an_exclude_or_gate_that_names_nothing_is_a_warning_after_a_change() {
    assert!(codes(sound(&[("servers", "grep,mine")])).contains(&"unknown-arm"));
    assert!(sound(&[("servers", "grep,mine")]).is_ok());
    assert_eq!(codes(sound(&[("replicates", "9")])), Vec::<&str>::new());
}

#[test]
fn corpora_come_from_where_the_command_line_says() {
    let plan = ok(sound(&[("corpus.tiny", "pypi:flask==3.1.0")]));
    let flask = Source::Archive {
        registry: Registry::Pypi,
        name: "flask".to_owned(),
        version: "3.1.0".to_owned(),
        sha256: None,
    };
    assert_eq!(plan.repos["tiny"].source, flask);
    assert_eq!(plan.repos["tiny"].entry.language, "python");
    let plan = ok(sound(&[("corpus.tiny", "scripts")]));
    assert_eq!(plan.repos["tiny"].source, Source::Folder(project().join("scripts")));
    // The default: the folder beside repos.toml.
    assert_eq!(ok(sound(&[])).repos["tiny"].source, Source::Folder(project().join("datasets/tiny")));
    // A repository of the dataset that this run doesn't use.
    assert_eq!(codes(sound(&[("corpus.flask", "scripts")])), ["unused-source"]);
}

#[test]
fn a_dataset_elsewhere_brings_its_repositories_questions_and_presets() {
    let (_folder, elsewhere) = files(&[]);
    proofline::fsio::tree::copy(&project().join("datasets"), &elsewhere.join("d")).unwrap();
    proofline::fsio::create_dir(&elsewhere.join("d/presets/servers")).unwrap();
    let theirs = "format = 1\nname = \"theirs\"\ncommand = [\"theirs\"]\ninputs = [\"repos.toml\"]\n";
    proofline::fsio::write_plain(&elsewhere.join("d/presets/servers/theirs.toml"), theirs.as_bytes())
        .unwrap();
    let (_empty, cwd) = files(&[]);
    let dir = elsewhere.join("d").display().to_string();
    let sets = [("datasets", dir.as_str()), ("repos", "tiny"), ("servers", "theirs,grep")];
    let plan = ok(compiled(&cwd, "retrieval", &sets));
    assert_eq!(plan.repos["tiny"].source, Source::Folder(elsewhere.join("d/tiny")));
    assert_eq!(plan.arms[0].preset_dir, Some(elsewhere.join("d")));
    assert_eq!(plan.arms[1].preset_dir, None);
    let found = compiled(&cwd, "retrieval", &[("datasets", "nowhere")]).unwrap_err();
    assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), ["no-dataset"], "{found:#?}");
    // Without the shipped dataset beside it: the folder is all there is.
    assert_eq!(
        codes(compiled(&cwd, "retrieval", &[("datasets", dir.as_str()), ("repos", "sample")])),
        ["unknown-repo"]
    );
}

#[test]
fn a_preset_file_on_the_command_line_may_lie_anywhere_and_names_its_arm() {
    let (_folder, root) = files(&[("mine.toml", "format = 1\nname = \"fresh\"\ncommand = [\"x\"]\n")]);
    let (_empty, cwd) = files(&[]);
    let path = root.join("mine.toml").display().to_string();
    let plan = ok(compiled(&cwd, "quickstart", &[("servers", &format!("grep,{path}"))]));
    assert_eq!(values(&plan, "arm"), ["grep", "fresh"]);
    assert_eq!(plan.arms[1].preset_dir, Some(root.clone()));
    let plan = ok(compiled(&root, "quickstart", &[("servers", "grep,./mine.toml")]));
    assert_eq!(values(&plan, "arm"), ["grep", "fresh"]);
    // Its name may not be that of another arm.
    let (_other, other) = files(&[("mine.toml", "format = 1\nname = \"grep\"\ncommand = [\"x\"]\n")]);
    assert_eq!(codes(compiled(&other, "quickstart", &[("servers", "grep,mine.toml")])), ["duplicate-arm"]);
}

#[test]
fn equal_arms_need_draw_labels() {
    let (_folder, root) = files(&[]);
    let text = |draws: [&str; 2]| {
        let arm = |name: &str, draw: &str| format!("[arm.{name}]\nserver = \"grep\"\n{draw}\n");
        format!(
            "format = 1\nname = \"aa\"\n{}{}[axes]\nrepo = [\"sample\"]\narm = \"all\"\n[stage.index]\nkind = \"ingest\"\nover = [\"repo\", \"arm\"]\n[stage.search]\nkind = \"session\"\ndriver = \"retrieval\"\nneeds = [\"index\"]\n[stage.score]\nkind = \"grade\"\nneeds = [\"search\"]\ngraders = [\"ranking\"]\n[stage.summary]\nkind = \"aggregate\"\nneeds = [\"score\"]\n",
            arm("a", draws[0]),
            arm("b", draws[1])
        )
    };
    let write = |text: String| proofline::fsio::write_plain(&root.join("aa.toml"), text.as_bytes()).unwrap();
    write(text(["", ""]));
    assert_eq!(codes(compiled(&root, "aa.toml", &[])), ["equal-arms"]);
    write(text(["draw = \"1\"", "draw = \"2\""]));
    let plan = ok(compiled(&root, "aa.toml", &[]));
    assert_eq!(plan.arms[0].draw.as_deref(), Some("1"));
    write(text(["start = \"cold\"", ""]));
    ok(compiled(&root, "aa.toml", &[]));
    // Without an own `over` a session runs over what its ingest runs over.
    assert_eq!(plan.stages[2].axes, [0, 1]);
}

#[test]
fn arms_of_a_pipeline_of_commands_are_labels() {
    let text = "format = 1\nname = \"labels\"\n[arm.old]\n[arm.new]\n[axes]\narm = \"all\"\nlang = [\"go\", \"c++\"]\n\
                [stage.work]\nkind = \"command\"\nover = [\"arm\", \"lang\"]\nrun = [\"true\", \"{{ arm }}-{{ lang }}\"]\n\
                outputs = { m = { path = \"m.json\" } }\nmetrics = \"m\"\n\
                [stage.all]\nkind = \"aggregate\"\nneeds = [\"work\"]\n[gate]\n\"new.speed.value\" = { at-least = 1 }\n";
    let (_folder, root) = files(&[("labels.toml", text)]);
    let plan = ok(compiled(&root, "labels.toml", &[]));
    assert_eq!(values(&plan, "lang"), ["go", "c++"]);
    assert_eq!((plan.gates[0].arm.as_deref(), plan.gates[0].metric.as_str()), (Some("new"), "speed"));
    // Without arms a gate names none.
    let text =
        text.replace("[arm.old]\n[arm.new]\n", "").replace("arm = \"all\"\n", "").replace("\"arm\", ", "");
    let text = text.replace("{{ arm }}-", "").replace("new.speed", "speed");
    let (_folder, root) = files(&[("plain.toml", &text)]);
    assert_eq!(ok(compiled(&root, "plain.toml", &[])).gates[0].arm, None);
}

const BASE: &str = "format = 1\nname = \"base\"\nseed = 3\n[params]\nword = { default = \"a\", choices = [\"a\", \"b\"] }\n\
    [axes]\nsize = [\"s\", \"m\"]\n[stage.one]\nkind = \"command\"\nover = [\"size\"]\nrun = [\"true\", \"{{ params.word }}\"]\n\
    outputs = { m = { path = \"m.json\" } }\nmetrics = \"m\"\n[stage.all]\nkind = \"aggregate\"\nneeds = [\"one\"]\n\
    [composite.both]\nx = 0.5\ny = 0.5\n";

#[test]
fn an_overlay_merges_tables_and_replaces_axes_and_composites() {
    let over = "format = 1\nname = \"over\"\nextends = \"base.toml\"\n[params]\nword = { default = \"b\" }\n\
                [axes]\nsize = [\"xl\"]\nlang = [\"go\"]\n[stage.one]\nover = [\"size\", \"lang\"]\n[composite.both]\nz = 1.0\n";
    let (_folder, root) = files(&[("pipelines/base.toml", BASE), ("pipelines/over.toml", over)]);
    let plan = ok(compiled(&root, "over", &[]));
    assert_eq!((plan.name.as_str(), plan.seed), ("over", 3));
    assert_eq!(plan.params["word"], json!("b"));
    assert_eq!(plan.axes.iter().map(|a| a.name.as_str()).collect::<Vec<_>>(), ["size", "lang"]);
    assert_eq!(values(&plan, "size"), ["xl"]);
    assert_eq!(plan.stages[0].axes, [0, 1]);
    assert_eq!(plan.composites["both"].len(), 1);
    // By the name of a pipeline, too; and of a shipped one.
    let named = over.replace("base.toml", "base");
    let shipped =
        "format = 1\nname = \"mine\"\nextends = \"quickstart\"\n[params]\nreplicates = { default = 1 }\n";
    let (_folder, root) = files(&[
        ("pipelines/base.toml", BASE),
        ("pipelines/over.toml", &named),
        ("pipelines/q.toml", shipped),
    ]);
    assert_eq!(ok(compiled(&root, "over", &[])).params["word"], json!("b"));
    assert_eq!(values(&ok(compiled(&root, "q", &[])), "replicate"), ["1"]);
}

#[test]
fn faults_of_an_overlay_name_the_file_that_they_are_in() {
    let base = BASE.replace("needs = [\"one\"]", "needs = [\"on\"]");
    let over = "format = 1\nname = \"over\"\nextends = \"base.toml\"\n[params]\nword = { default = \"c\" }\n[stage.one]\nenvv = {}\n";
    let (_folder, root) = files(&[("pipelines/base.toml", &base), ("pipelines/over.toml", over)]);
    let found = compiled(&root, "pipelines/over.toml", &[]).unwrap_err();
    let places: Vec<String> = found.iter().map(|d| format!("{} {}", d.code, d.place().unwrap())).collect();
    assert_eq!(
        places,
        [
            "unknown-stage pipelines/base.toml:16:10",
            "not-a-choice pipelines/over.toml:5:20",
            "unknown-key pipelines/over.toml:7:1"
        ]
    );
    // The bound stands in the other file.
    assert_eq!(found[1].labels[1].place.path, "pipelines/base.toml");
}

#[test]
fn extends_must_lead_somewhere_and_not_back() {
    let a =
        "format = 1\nname = \"a\"\nextends = \"b.toml\"\n[stage.x]\nkind = \"command\"\nrun = [\"true\"]\n";
    let b = "format = 1\nname = \"b\"\nextends = \"a.toml\"\n";
    let (_folder, root) = files(&[("pipelines/a.toml", a), ("pipelines/b.toml", b)]);
    let found = compiled(&root, "a", &[]).unwrap_err();
    assert_eq!(
        (found[0].code, found[0].place().unwrap().to_string().as_str()),
        ("extends-cycle", "pipelines/b.toml:3:11")
    );
    let missing = a.replace("b.toml", "bb.toml");
    let outside = a.replace("b.toml", "../../etc/passwd");
    let (_folder, root) =
        files(&[("pipelines/m.toml", &missing), ("pipelines/o.toml", &outside), ("pipelines/bbb.toml", b)]);
    let found = compiled(&root, "m", &[]).unwrap_err();
    assert_eq!(found[0].code, "no-pipeline");
    assert!(found[0].help.as_ref().unwrap().contains("`bbb`"), "{found:?}");
    assert_eq!(compiled(&root, "o", &[]).unwrap_err()[0].code, "bad-path");
}

#[test]
fn a_root_is_found_from_the_pipeline() {
    let one = "format = 1\nname = \"one\"\n[stage.x]\nkind = \"command\"\nrun = [\"true\", \"data.csv\"]\ninputs = [\"data.csv\"]\n";
    let at = |marks: &[(&str, &str)], pipeline: &str| {
        let mut all = marks.to_vec();
        all.push((pipeline, one));
        let (folder, root) = files(&all);
        let plan = ok(compiled(&root, pipeline, &[]));
        let relative = plan.root.strip_prefix(&root).unwrap().to_owned();
        drop(folder);
        relative
    };
    assert_eq!(at(&[("data.csv", "")], "p.toml"), Path::new(""));
    assert_eq!(at(&[("sub/data.csv", "")], "sub/p.toml"), Path::new("sub"));
    assert_eq!(at(&[("sub/data.csv", "")], "sub/pipelines/p.toml"), Path::new("sub"));
    assert_eq!(at(&[("data.csv", ""), (".proofline/x", "")], "sub/p.toml"), Path::new(""));
    assert_eq!(at(&[("data.csv", ""), ("datasets/x", "")], "a/b/p.toml"), Path::new(""));
}

#[test]
fn the_same_pipeline_from_elsewhere_is_the_same() {
    let from_root = ok(sound(&[]));
    let from_scripts = ok(compiled(&project().join("scripts"), "../pipelines/sound.toml", &[]));
    assert_eq!(from_root.root, from_scripts.root);
    assert_eq!(format!("{:?}", from_root.stages), format!("{:?}", from_scripts.stages));
    assert_eq!(from_scripts.path, "../pipelines/sound.toml");
}
