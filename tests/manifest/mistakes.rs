//! Mistakes: all at once, and each alone.

use std::path::PathBuf;

use proofline::cli::render;
use proofline::diag::Diagnostic;
use proofline::manifest::source::Document;

use crate::common::{compiled, root};

pub(crate) fn project() -> PathBuf {
    root().join("tests/fixtures/manifest/project")
}

/// The sound pipeline, which every mistake is made in.
fn sound() -> String {
    std::fs::read_to_string(project().join("pipelines/sound.toml")).unwrap()
}

/// Compiles a text as a pipeline of the fixture project.
pub(crate) fn compile_text(text: &str, sets: &[(&str, &str)]) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    let copy = tempfile::tempdir().unwrap();
    proofline::fsio::tree::copy(&project(), &copy.path().join("p")).unwrap();
    let root = copy.path().join("p");
    proofline::fsio::write_plain(&root.join("pipelines/edited.toml"), text.as_bytes()).unwrap();
    compiled(&root, "pipelines/edited.toml", sets).map(|(_, warnings)| warnings)
}

#[test]
fn the_sound_pipeline_is_sound() {
    let warnings = compile_text(&sound(), &[]).unwrap_or_else(|d| panic!("{}", render::text(&d, false)));
    assert!(warnings.is_empty(), "{}", render::text(&warnings, false));
}

#[test]
fn many_mistakes_show_at_once() {
    let found = compiled(&project(), "pipelines/mistakes.toml", &[]).unwrap_err();
    let errors: Vec<&Diagnostic> = found.iter().filter(|d| d.is_error()).collect();
    assert!(errors.len() >= 25, "{}", errors.len());
    for error in &found {
        assert!(error.help.is_some(), "no way out of: {error:?}");
        let place = error.place().unwrap_or_else(|| panic!("no place: {error:?}"));
        assert!(place.start < place.end, "an empty place: {error:?}");
    }
    let mut places: Vec<(usize, usize)> =
        errors.iter().map(|d| (d.labels[0].place.start, d.labels[0].place.end)).collect();
    places.sort_unstable();
    places.dedup();
    assert!(places.len() >= 24, "mistakes at {} places", places.len());
    // Which presets are shipped is no matter of this test.
    insta::with_settings!({ filters => vec![("presets: .*", "presets: [...]")] }, {
        insta::assert_snapshot!("many_mistakes", render::text(&found, false));
    });
}

#[test]
fn as_json_every_diagnostic_names_its_place() {
    let found = compiled(&project(), "pipelines/mistakes.toml", &[]).unwrap_err();
    let json = render::json(&found, 1);
    assert_eq!(json["exit"], 1);
    let first = &json["diagnostics"][0];
    assert_eq!(first["place"], "pipelines/mistakes.toml:3:10");
    assert_eq!(first["code"], "bad-format");
    assert_eq!(json["diagnostics"].as_array().unwrap().len(), found.len());
}

/// A mistake: what is replaced by what, the code that it must show, and the
/// text at the main place.
struct Mistake(&'static str, &'static str, &'static str, &'static str);

const MISTAKES: &[Mistake] = &[
    // Structure.
    Mistake("about  =", "abuot  =", "unknown-key", "abuot"),
    Mistake("seed   = 7", "seed   = \"7\"", "wrong-type", "\"7\""),
    Mistake("seed   = 7", "seed   = -7", "out-of-range", "-7"),
    Mistake("format = 1", "format = 2", "out-of-range", "2"),
    Mistake("name   = \"sound\"", "name   = \"So und\"", "bad-format", "\"So und\""),
    Mistake("kind = \"ingest\"\n", "", "missing-key", "[stage.index]"),
    Mistake("kind  = \"warmup\"", "kind  = \"warmupp\"", "not-a-choice", "\"warmupp\""),
    Mistake("kind  = \"warmup\"", "kind  = \"warmup\"\nkind = \"warmup\"", "duplicate-key", "kind"),
    Mistake("[pools]", "[stage.index]\n[pools]", "duplicate-key", "index"),
    Mistake("\"30s\"", "\"30 seconds\"", "bad-format", "\"30 seconds\""),
    Mistake("driver = \"retrieval\"\n", "", "missing-key", "[stage.search]"),
    Mistake("graders = [", "driver = \"retrieval\"\ngraders = [", "misplaced-key", "driver"),
    Mistake("graders = [\"ranking\", \"latency\"]", "graders = []", "empty", "[]"),
    Mistake(
        "graders = [\"ranking\", \"latency\"]",
        "graders = [\"ranking\", \"latency\", \"checks\"]",
        "unfit-grader",
        "\"checks\"",
    ),
    Mistake("needs = [\"index\"]", "needs = [\"index\", 3]", "wrong-type", "3"),
    Mistake("needs = [\"index\"]", "needs = \"index\"", "wrong-type", "\"index\""),
    Mistake("slots = 2", "slots = 0", "out-of-range", "0"),
    Mistake("[arm.each]", "[arm.\"ea ch\"]", "bad-name", "\"ea ch\""),
    Mistake("at-least = 0.1 }", "at-lest = 0.1 }", "unknown-key", "at-lest"),
    // Syntax.
    Mistake("name   = \"sound\"", "name   = \"sound", "syntax", "name   = \"sound"),
    Mistake("name   = \"sound\"", "name   = sound", "syntax", "sound"),
    Mistake(
        "size      = [\"small\", \"large\"]",
        "size      = [\"small\", \"large\"",
        "syntax",
        "[\"small\", \"large\"",
    ),
    Mistake("[stage.sum]", "[stage.sum", "syntax", "[stage.sum"),
    // Parameters.
    Mistake("default = 2, min = 1", "default = 0, min = 1", "out-of-range", "0"),
    Mistake("default = 2, min = 1, max = 50", "default = 2, min = 51, max = 50", "out-of-range", "51"),
    Mistake("default = \"cold\", choices", "default = \"clod\", choices", "not-a-choice", "\"clod\""),
    Mistake("default = [\"tiny\"], list", "default = \"tiny\", list", "bad-param", "\"tiny\""),
    Mistake(
        "word       = { default = \"cold\"",
        "word       = { min = 1, default = \"cold\"",
        "bad-param",
        "min",
    ),
    Mistake("sample     = { default = 3,", "sample     = { default = { a = 1 },", "bad-param", "{ a = 1 }"),
    Mistake("\"{{ params.word }}\"", "\"{{ params.wrod }}\"", "unknown-param", "\"{{ params.wrod }}\""),
    Mistake("\"{{ params.sample }}\"", "\"{{ params.word }}\"", "wrong-type", "\"{{ params.word }}\""),
    Mistake("\"{{ params.repos }}\"", "\"{{ params.word }}\"", "wrong-type", "\"{{ params.word }}\""),
    Mistake(
        "\"{{ params.repos }}\"",
        "\"{{ params.repos | nofilter }}\"",
        "bad-template",
        "\"{{ params.repos | nofilter }}\"",
    ),
    Mistake("\"{{ params.repos }}\"", "\"{{ params.repos\"", "bad-template", "\"{{ params.repos\""),
    // Arms.
    Mistake("[\"grep\", \"bm25\"]", "[\"grep\", \"bm52\"]", "no-preset", "\"bm52\""),
    Mistake("[\"grep\", \"bm25\"]", "[\"grep\", \"grep\", \"bm25\"]", "duplicate-arm", "\"grep\""),
    Mistake("[axes]", "[arm.bm25]\nserver = \"mine\"\n[axes]", "duplicate-arm", "bm25"),
    Mistake("[axes]", "[arm.again]\nserver = \"grep\"\n[axes]", "equal-arms", "again"),
    Mistake("[axes]", "[arm.nobody]\n[axes]", "no-server", "[arm.nobody]"),
    Mistake("over   = \"{{ params.servers }}\"\n", "", "unknown-variable", "\"{{ item }}\""),
    Mistake(
        "server = \"{{ item }}\"",
        "server = \"../else/mine.toml\"",
        "no-preset",
        "\"../else/mine.toml\"",
    ),
    Mistake("[\"grep\", \"bm25\"]", "[]", "empty", "\"{{ params.servers }}\""),
    // Axes.
    Mistake("[\"tiny\"]", "[\"tinny\"]", "unknown-repo", "\"tinny\""),
    Mistake("[\"small\", \"large\"]", "[\"small\", \"small\"]", "duplicate-value", "\"small\""),
    Mistake("[\"small\", \"large\"]", "[]", "empty", "[]"),
    Mistake("[\"small\", \"large\"]", "[\"small\", \"a,b\"]", "bad-value", "\"a,b\""),
    Mistake("[\"small\", \"large\"]", "\"all\"", "bad-axis", "\"all\""),
    Mistake("\"{{ repo }}\"", "\"{{ repos }}\"", "unknown-axis", "\"{{ repos }}\""),
    Mistake("\"{{ repo }}\"", "\"{{ replicate }}\"", "axis-order", "\"{{ replicate }}\""),
    Mistake("kind = [\"locate\"", "kind = [\"locte\"", "not-a-choice", "\"locte\""),
    Mistake("where = { kind", "where = { knd", "unknown-field", "knd"),
    Mistake("arm       = \"all\"\n", "", "no-arm-axis", "[axes]"),
    Mistake("task = \"tiny-001\"", "task = \"tiny-900\"", "excludes-nothing", "\"tiny-900\""),
    Mistake("exclude   = [{ repo =", "exclude   = [{ rep =", "unknown-axis", "rep"),
    // Stages.
    Mistake("needs = [\"index\"]", "needs = [\"indx\"]", "unknown-stage", "\"indx\""),
    Mistake("needs   = [\"count\"]", "needs   = [\"sum\"]", "cycle", "\"sum\""),
    Mistake(
        "over   = [\"repo\", \"replicate\", \"arm\"]",
        "over   = [\"repo\", \"replicat\", \"arm\"]",
        "unknown-axis",
        "\"replicat\"",
    ),
    Mistake(
        "over   = [\"repo\", \"replicate\", \"arm\"]",
        "over   = [\"repo\", \"replicate\"]",
        "missing-axis",
        "[\"repo\", \"replicate\"]",
    ),
    Mistake(
        "over   = [\"repo\", \"replicate\", \"arm\"]",
        "over   = [\"repo\", \"task\", \"arm\"]",
        "bad-axis",
        "\"task\"",
    ),
    Mistake(
        "over    = [\"repo\", \"task\", \"size\"]",
        "over    = [\"task\", \"size\"]",
        "dependent-axis",
        "\"task\"",
    ),
    Mistake("over = [\"repo\", \"arm\"]", "over = [\"repo\", \"size\", \"arm\"]", "gathers", "\"warm\""),
    Mistake("needs  = [\"warm\"]\n", "", "no-ingest", "[stage.search]"),
    Mistake("needs   = [\"search\", \"index\"]", "needs   = [\"index\"]", "no-session", "[\"index\"]"),
    Mistake("needs  = [\"warm\"]", "needs  = [\"score\"]", "cycle", "\"score\""),
    Mistake("needs = [\"score\", \"sum\"]", "needs = [\"score\", \"count\"]", "bad-need", "\"count\""),
    Mistake("needs = [\"score\", \"sum\"]", "needs = []", "missing-key", "[]"),
    Mistake(
        "needs = [\"score\", \"sum\"]",
        "needs = [\"score\", \"sum\"]\nover = [\"arm\"]",
        "misplaced-key",
        "over",
    ),
    Mistake("pool    = \"disk\"", "pool    = \"disc\"", "unknown-pool", "\"disc\""),
    Mistake("[\"ranking\", \"latency\"]", "[\"rankin\", \"latency\"]", "unknown-grader", "\"rankin\""),
    Mistake("time = \"30s\"", "usd = 1.0", "misplaced-key", "usd"),
    Mistake("effect  = \"pure\"", "effect  = \"paid\"", "missing-key", "\"paid\""),
    Mistake("top    = 5", "top    = 0", "out-of-range", "0"),
    // Commands.
    Mistake("\"{{ size }}\"", "\"{{ siz }}\"", "unknown-variable", "\"{{ siz }}\""),
    Mistake("\"{{ size }}\"", "\"{{ arm }}\"", "unknown-variable", "\"{{ arm }}\""),
    Mistake(
        "inputs  = [\"scripts/count.py\"]",
        "inputs  = [\"scripts/cuont.py\"]",
        "no-input",
        "\"scripts/cuont.py\"",
    ),
    Mistake("inputs  = [\"scripts/count.py\"]", "inputs  = [\"../count.py\"]", "bad-path", "\"../count.py\""),
    Mistake("inputs  = [\"scripts/count.py\"]\n", "", "undeclared-input", "\"scripts/count.py\""),
    Mistake("path = \"sums.json\"", "path = \"counts.json\"", "overlapping-outputs", "\"counts.json\""),
    Mistake("path = \"sums.json\"", "path = \"counts.json/x\"", "overlapping-outputs", "\"counts.json/x\""),
    Mistake("path = \"sums.json\"", "path = \"../sums.json\"", "bad-path", "\"../sums.json\""),
    Mistake("metrics = \"sums\"", "metrics = \"sum\"", "unknown-output", "\"sum\""),
    Mistake("scripts/sums.schema.json", "scripts/none.json", "no-schema", "\"scripts/none.json\""),
    Mistake("scripts/sums.schema.json", "scripts/sum.py", "bad-schema", "\"scripts/sum.py\""),
    // Composites and gates.
    Mistake("\"mrr\"         = 0.5", "\"mrr\"         = 0.6", "weights", "[composite.quality]"),
    Mistake("\"1/(1+calls)\"", "\"1/(1+cals)\"", "unknown-metric", "\"1/(1+cals)\""),
    Mistake("\"1/(1+calls)\"", "\"2*calls\"", "bad-term", "\"2*calls\""),
    Mistake("\"density\"  ", "\"densty\"  ", "unknown-metric", "\"densty\""),
    Mistake("\"grep.mrr.value\"", "\"gerp.mrr.value\"", "unknown-arm", "\"gerp.mrr.value\""),
    Mistake("\"grep.mrr.value\"", "\"grep.mr.value\"", "unknown-metric", "\"grep.mr.value\""),
    Mistake("\"grep.mrr.value\"", "\"grep.mrr\"", "bad-gate", "\"grep.mrr\""),
    Mistake("\"grep.mrr.value\"", "\"grep.mrr.delta.low\"", "not-available", "\"grep.mrr.delta.low\""),
    Mistake("{ at-least = 0.1 }", "{}", "empty", "{}"),
    Mistake("at-most = 1.0", "at-most = 0.0", "out-of-range", "{ at-least = 0.1, at-most = 0.0 }"),
];

/// What is underlined of a place: a table's goes on below.
fn first_line(text: &str, start: usize, end: usize) -> String {
    text.get(start..end).and_then(|shown| shown.lines().next()).unwrap_or_default().to_owned()
}

#[test]
fn each_mistake_alone_shows_at_its_place() {
    let base = sound();
    let mut wrong = Vec::new();
    for Mistake(from, to, code, at) in MISTAKES {
        assert!(base.contains(from), "the sound pipeline has no {from:?}");
        let text = base.replacen(from, to, 1);
        let found = compile_text(&text, &[]).unwrap_or_else(|found| found);
        let shown =
            |d: &Diagnostic| d.place().map_or_else(String::new, |p| first_line(&text, p.start, p.end));
        match found.iter().find(|d| d.code == *code) {
            None => wrong.push(format!("{to:?}: no `{code}`:\n{}", render::text(&found, false))),
            Some(hit) if shown(hit) != *at => {
                wrong.push(format!("{to:?}: `{code}` at {:?}, not {at:?}", shown(hit)));
            }
            Some(hit) if hit.help.is_none() => wrong.push(format!("{to:?}: no way out")),
            // One mistake is one error: what follows from it is not repeated.
            Some(_) if found.iter().filter(|d| d.is_error()).count() > 1 => {
                wrong.push(format!("{to:?}: more than one error:\n{}", render::text(&found, false)));
            }
            Some(_) => {}
        }
    }
    println!("mistakes: {}", MISTAKES.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn layers_do_not_mix() {
    let text = sound()
        .replace(
            "graders = [\"ranking\", \"latency\"]",
            "graders = [\"ranking\", \"latency\", \"fair\", \"usage\"]",
        )
        .replace(
            "[composite.quality]",
            "[composite.mixed]\ntool_fluency = 0.5\nkeyword_coverage = 0.5\n[composite.quality]",
        );
    let found = compile_text(&text, &[]).unwrap_err();
    assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), ["mixed-layers"]);
}

#[test]
fn a_refused_parameter_is_the_only_mistake() {
    let found = compiled(&root(), "regrade", &[("profile", "nope"), ("recordings", "recordings/demo.toml")])
        .unwrap_err();
    let codes: Vec<_> = found.iter().filter(|d| d.is_error()).map(|d| d.code).collect();
    assert_eq!(codes, ["not-a-choice"], "{}", render::text(&found, false));
}

#[test]
fn what_counts_both_layers_is_in_no_composite() {
    let text = sound()
        .replace(
            "graders = [\"ranking\", \"latency\"]",
            "graders = [\"ranking\", \"latency\", \"fair\", \"whole\"]",
        )
        .replace(
            "[composite.quality]",
            "[composite.fairness]\ncompleteness = 0.5\nkeyword_coverage = 0.5\n[composite.quality]",
        );
    let found = compile_text(&text, &[]).unwrap_err();
    assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), ["mixed-layers"]);
    assert!(render::text(&found, false).contains("^^^^^^^^^^^^\n"), "{}", render::text(&found, false));
}

#[test]
fn a_composite_weighs_what_is_better_when_there_is_more_of_it() {
    for (from, to) in [("1/(1+calls)", "calls"), ("mrr", "1/(1+mrr)")] {
        let term = |metric: &str| {
            format!("[composite.weighed]\n\"{metric}\" = 0.5\n\"hit@5\" = 0.5\n[composite.quality]")
        };
        let text = |metric: &str| sound().replace("[composite.quality]", &term(metric));
        assert!(compile_text(&text(from), &[]).is_ok(), "{from}");
        let found = compile_text(&text(to), &[]).unwrap_err();
        assert_eq!(found.iter().map(|d| d.code).collect::<Vec<_>>(), ["wrong-direction"], "{to}");
        assert!(found[0].help.as_deref().is_some_and(|help| help.contains(from)), "{:?}", found[0].help);
    }
}

#[test]
fn a_reference_of_a_broken_line_is_not_missed() {
    // The parameter's own line is broken; that `params.word` has no value is no second mistake.
    let text = sound().replace("word       = { default", "word       = default");
    let found = compile_text(&text, &[]).unwrap_err();
    assert_eq!(
        found.iter().map(|d| d.code).collect::<Vec<_>>(),
        ["syntax"],
        "{}",
        render::text(&found, false)
    );
}

#[test]
fn several_syntax_errors_show_at_once() {
    let text = "format = \nname = \"x\n[stage.a]\nkind = \"command\"\nrun = [\"a\",\n[stage.b]\nkind = = 3\n[stage.c\nkind = 1\n";
    let (_, found) = Document::parse("p.toml", text.as_bytes());
    let lines: Vec<usize> = found.iter().map(|d| d.place().unwrap().line).collect();
    assert_eq!(lines, [1, 2, 5, 7, 8], "{}", render::text(&found, false));
    insta::assert_snapshot!("syntax_errors", render::text(&found, false));
}
