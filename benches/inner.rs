//! What the inner steps of planning and publishing cost: `cargo bench --bench inner`.
//!
//! With `cargo bench --bench inner -- settle FOLDER`, the project that
//! `benches/graph.py proofline N FOLDER` makes gets the store that a run would
//! leave, without starting its N shells.

#![expect(clippy::unwrap_used, clippy::print_stdout, clippy::disallowed_methods, reason = "a bench")]

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use proofline::digest::{Digest, canonical};
use proofline::engine::table::{Status, Table};
use proofline::engine::world::World;
use proofline::plan::compile::{Catalog, Request, compile};
use proofline::plan::compiled::Compiled;
use proofline::plan::expand::Graph;
use proofline::plan::template::render_cell;
use proofline::store::{Outcome, PartContent, Publication, Record, Store};
use serde_json::json;

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["settle", folder] => settle(Path::new(folder)),
        [] => all(),
        _ => println!("usage: inner [settle FOLDER]"),
    }
}

/// Median time of one call over some rounds.
fn time<T>(name: &str, calls: u32, mut work: impl FnMut() -> T) {
    let mut rounds: Vec<f64> = (0..15)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..calls {
                black_box(work());
            }
            start.elapsed().as_secs_f64() * 1e6 / f64::from(calls)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    println!("{name:<44} {:>12.2} us", rounds[rounds.len() / 2]);
}

fn compiled(root: &Path) -> Arc<Compiled> {
    let request = Request {
        pipeline: "pipelines/main.toml".to_owned(),
        sets: Vec::new(),
        cwd: root.to_owned(),
        catalog: Catalog::default(),
        only_checked: false,
    };
    Arc::new(compile(&request).map_err(|found| format!("{found:?}")).unwrap().0)
}

/// A project as `benches/graph.py` makes it.
fn project(root: &Path, chains: usize) {
    std::fs::create_dir_all(root.join("pipelines")).unwrap();
    std::fs::create_dir_all(root.join("src")).unwrap();
    let values: Vec<String> = (0..chains).map(|i| format!("\"{i}\"")).collect();
    let command = |rest: &str| format!("kind = \"command\"\n{rest}\n");
    let text = [
        format!("format = 1\nname = \"graph\"\n[axes]\ni = [{}]\n[stage.a]\n", values.join(", ")),
        command(
            "over = [\"i\"]\nrun = [\"/bin/sh\", \"-c\", \"cat src/{{ i }}.txt > a.txt\"]\n\
             inputs = [\"src/{{ i }}.txt\"]\noutputs = { text = { path = \"a.txt\" } }",
        ),
        "[stage.b]\n".to_owned(),
        command(
            "needs = [\"a\"]\nover = [\"i\"]\nrun = [\"/bin/sh\", \"-c\", \"cat in/a/text > b.txt\"]\n\
             outputs = { text = { path = \"b.txt\" } }",
        ),
    ];
    std::fs::write(root.join("pipelines/main.toml"), text.concat()).unwrap();
    for i in 0..chains {
        std::fs::write(root.join(format!("src/{i}.txt")), format!("source {i}\n")).unwrap();
    }
}

/// A project of stages that need each other in a row.
fn chain(root: &Path, stages: usize) {
    std::fs::create_dir_all(root.join("pipelines")).unwrap();
    let mut text = vec!["format = 1\nname = \"chain\"\n".to_owned()];
    for i in 0..stages {
        let needs = if i == 0 { String::new() } else { format!("needs = [\"s{}\"]\n", i - 1) };
        text.push(format!(
            "[stage.s{i}]\nkind = \"command\"\n{needs}run = [\"/bin/sh\", \"-c\", \"echo {i} > {i}\"]\n\
             outputs = {{ text = {{ path = \"{i}\" }} }}\n"
        ));
    }
    std::fs::write(root.join("pipelines/main.toml"), text.concat()).unwrap();
}

fn record(key: Digest, node: String) -> Record {
    Record {
        format: 1,
        key,
        recipe: key,
        pipeline: "graph".to_owned(),
        node,
        kind: "command".to_owned(),
        parts: BTreeMap::new(),
        outcome: Outcome::Done,
        used: BTreeMap::new(),
        origin: "bench".to_owned(),
        run: "bench".to_owned(),
        attempt: 1,
        started: 1,
        ended: 2,
        machine: None,
        unconfined: None,
        blessed: None,
        usd: None,
    }
}

fn all() {
    let dir = tempfile::tempdir().unwrap();
    project(dir.path(), 1_000);
    time("compile, an axis of 1,000 values", 3, || compiled(dir.path()));
    let pipeline = compiled(dir.path());
    time("fingerprint of that", 10, || pipeline.fingerprint());
    let cell = [("i", "17")];
    time("a template", 1_000, || render_cell("cat src/{{ i }}.txt > a.txt", &pipeline.params, &cell));

    let mut table = Table::new(Arc::clone(&pipeline));
    let world = World::new(&pipeline, BTreeMap::new(), None, None);
    let mut node = 0;
    time("recipe and key of a node", 500, || {
        node = (node + 1) % 1_000;
        table.keyed(node, &world).unwrap().key
    });
    let keyed = table.keyed(17, &world).unwrap();
    time("canonical JSON of a recipe", 1_000, || canonical(&keyed.recipe).unwrap());

    let many = tempfile::tempdir().unwrap();
    project(many.path(), 50_000);
    let wide = compiled(many.path());
    time("compile, an axis of 50,000 values", 1, || compiled(many.path()));
    time("expansion of 100,000 nodes", 1, || Graph::expand(&wide));

    let long = tempfile::tempdir().unwrap();
    for stages in [1_500, 3_000] {
        chain(long.path(), stages);
        time(&format!("compile, a chain of {stages} stages"), 1, || compiled(long.path()));
    }

    let store = Store::open(&dir.path().join("store")).unwrap();
    let mut next = 0u32;
    time("publish, in batches of 100", 1, || {
        let batch = (0..100).map(|_| {
            next += 1;
            let recipe = json!({ "n": next }).to_string().into_bytes();
            let key = Digest::of(&recipe);
            let parts = vec![("text".to_owned(), PartContent::Bytes(format!("text {next}").into_bytes()))];
            Publication { record: record(key, format!("a[i={next}]")), recipe, parts, ledger: None }
        });
        store.publish(batch.collect()).unwrap().len()
    });
    let keys: Vec<Digest> =
        (1..=next).map(|n| Digest::of(json!({ "n": n }).to_string().as_bytes())).collect();
    time("look-up of 1,000 keys", 1, || store.hits(&keys[..1_000.min(keys.len())]).unwrap().len());
}

/// Publishes what every node of a graph of copies would give.
fn settle(root: &Path) {
    let root = root.canonicalize().unwrap();
    let pipeline = compiled(&root);
    let store = Store::open(&root.join(".proofline")).unwrap();
    let world = World::new(&pipeline, BTreeMap::new(), None, None);
    let mut table = Table::new(Arc::clone(&pipeline));
    let mut texts: Vec<Vec<u8>> = Vec::new();
    let mut batch: Vec<(usize, Publication)> = Vec::new();
    for node in 0..table.graph.len() {
        let apart = table.graph.ups(node).any(|up| !matches!(table.status[up as usize], Status::Done(_)));
        if apart || batch.len() >= 2_000 {
            publish(&store, &mut table, &mut batch);
        }
        let keyed = table.keyed(node, &world).unwrap();
        let ups: Vec<u32> = table.graph.ups(node).collect();
        let text: Vec<u8> = if ups.is_empty() {
            let inputs = keyed.recipe["inputs"].as_object().unwrap();
            inputs.keys().flat_map(|path| std::fs::read(root.join(path)).unwrap()).collect()
        } else {
            ups.iter().flat_map(|up| texts[*up as usize].clone()).collect()
        };
        let parts = vec![("text".to_owned(), PartContent::Bytes(text.clone()))];
        texts.push(text);
        let record = record(keyed.key, table.id(node));
        batch.push((node, Publication { record, recipe: keyed.canonical.into_bytes(), parts, ledger: None }));
    }
    publish(&store, &mut table, &mut batch);
    println!("{} nodes", table.graph.len());
}

fn publish(store: &Store, table: &mut Table, batch: &mut Vec<(usize, Publication)>) {
    let (nodes, publications): (Vec<usize>, Vec<Publication>) = std::mem::take(batch).into_iter().unzip();
    for (node, published) in nodes.into_iter().zip(store.publish(publications).unwrap()) {
        table.status[node] = Status::Done(Arc::new(published.record));
    }
}
