//! Stores, journals and listings of trees that somebody else wrote.

use std::path::{Path, PathBuf};

use proofline::clock::Clock;
use proofline::digest::Digest;
use proofline::event::Event;
use proofline::fsio::{self, tree};
use proofline::store::journal::{Journal, JournalWriter};
use proofline::store::moving::Limits;
use proofline::store::sign::Signer;
use proofline::store::{PartContent, Publication, Record, Store};
use serde_json::json;

use crate::archives::signed;
use crate::mutate::fuzz;

fn publication(key: u8, parts: Vec<(String, PartContent)>) -> Publication {
    let digest = |bytes: &[u8]| Digest::of(bytes).hex();
    let record = json!({
        "format": 1, "key": digest(&[key]), "recipe": digest(b""), "pipeline": "p", "node": format!("n[{key}]"),
        "kind": "command", "parts": {}, "outcome": "done", "origin": "here", "run": "r", "attempt": 1, "started": 1,
        "ended": key,
    });
    let record: Record = serde_json::from_value(record).unwrap();
    Publication { record, recipe: format!("{{\"key\":{key}}}").into_bytes(), parts, ledger: None }
}

fn event() -> Event {
    let event = json!({"type": "started", "node": "n", "key": Digest::of(b"k").hex(), "attempt": 1});
    serde_json::from_value(event).unwrap()
}

/// A sound store: small and large objects, a folder, a run.
fn store(root: &Path) {
    let folder = root.with_extension("folder");
    fsio::write_plain(&folder.join("a/b.txt"), b"in a folder").unwrap();
    tree::make_link(&folder.join("a/link"), "b.txt").unwrap();
    let noise: Vec<u8> = (0..300_000u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let store = Store::open(root).unwrap();
    let part = |content| vec![("out".to_owned(), content)];
    let batch = vec![
        publication(1, part(PartContent::Bytes(b"small".to_vec()))),
        publication(2, part(PartContent::Bytes(b"much of the same ".repeat(200)))),
        publication(3, part(PartContent::Bytes(noise))),
        publication(4, part(PartContent::Tree(folder))),
    ];
    store.publish(batch).unwrap();
    let mut journal = JournalWriter::begin(root, Clock::Fixed(1)).unwrap();
    for _ in 0..4 {
        journal.add(&event());
    }
    journal.sync().unwrap();
}

fn files(root: &Path) -> Vec<PathBuf> {
    tree::list(root).unwrap().into_iter().map(|path| root.join(path)).collect()
}

/// The first byte of an input chooses the file, the rest is its content.
#[test]
fn damaged_stores() {
    let dir = tempfile::tempdir().unwrap();
    let sound = dir.path().join("sound");
    store(&sound);
    let mut names = tree::list(&sound).unwrap();
    names.retain(|name| !name.contains(".lock"));
    // Kept inputs call the pack number 0.
    names.sort_by_key(|name| !name.starts_with("packs/"));
    let seeds: Vec<Vec<u8>> = (0u8..)
        .zip(&names)
        .map(|(number, name)| [vec![number], fsio::read(&sound.join(name)).unwrap()].concat())
        .collect();
    let outer = dir.path().join("outer");
    fuzz("stores", &seeds, &["PLF1", "\n", "../", "{\"format\":1", "-wal"], |bytes| {
        let Some((number, content)) = bytes.split_first() else { return };
        let root = outer.join("store");
        let _ = std::fs::remove_dir_all(&outer);
        tree::copy(&sound, &root).unwrap();
        fsio::write_plain(&root.join(&names[usize::from(*number) % names.len()]), content).unwrap();
        if let Ok(store) = Store::open(&root) {
            look(&store, &outer);
            if let Ok(report) = store.verify(true) {
                // What was mended stays mended.
                let left = store.verify(true).unwrap().problems;
                assert!(left.len() <= report.problems.len(), "{left:?}");
            }
            look(&store, &outer);
            for run in Journal::runs(&root).unwrap_or_default() {
                let _ = Journal::read(&root, &run);
            }
        }
        let mut beside: Vec<_> = std::fs::read_dir(&outer).unwrap().map(|e| e.unwrap().file_name()).collect();
        beside.retain(|name| name != "restored" && name != "store");
        assert!(beside.is_empty(), "{beside:?}");
    });
}

/// What a store gives has the digest that was asked for.
fn look(store: &Store, outer: &Path) {
    for key in 1u8..=4 {
        let Ok(Some(record)) = store.hit(&Digest::of(&[key])) else { continue };
        for (name, part) in &record.parts {
            if let Ok(bytes) = store.get(&part.digest) {
                assert_eq!(Digest::of(&bytes), part.digest, "{name}");
            }
            if part.tree {
                let _ = store.restore(&part.digest, &outer.join(format!("restored/{key}")));
            }
        }
    }
}

#[test]
fn journals() {
    let dir = tempfile::tempdir().unwrap();
    let sound = dir.path().join("sound");
    let mut writer = JournalWriter::begin(&sound, Clock::Fixed(1)).unwrap();
    for _ in 0..6 {
        writer.add(&event());
    }
    writer.sync().unwrap();
    let seed = files(&sound).into_iter().map(|path| fsio::read(&path).unwrap()).collect::<Vec<_>>();
    let root = dir.path().join("store");
    fuzz("journals", &seed, &["\n", "\t", "{\"seq\":0", "\"type\":\"done\""], |bytes| {
        fsio::write_plain(&root.join("runs/r/journal.jsonl"), bytes).unwrap();
        let journal = Journal::read(&root, "r").unwrap();
        // A line counts only with its checksum, so nothing but lines of ours come back.
        for line in &journal.lines {
            assert_eq!(line.event, event());
        }
        assert_eq!(Journal::runs(&root).unwrap(), ["r"]);
    });
}

/// A listing that is accepted is written inside its folder, and nowhere else.
#[test]
fn listings() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    let content = store.put(b"content").unwrap();
    let file = |path: &str| {
        format!(
            "{{\"path\":\"{path}\",\"node\":{{\"file\":{{\"size\":7,\"exec\":true,\"digest\":\"{content}\"}}}}}}\n"
        )
    };
    let link = |path: &str, to: &str| format!("{{\"path\":\"{path}\",\"node\":{{\"link\":\"{to}\"}}}}\n");
    let seeds: Vec<Vec<u8>> = [
        [file("a/b"), file("a/c"), link("a/d", "b"), file("e")].concat(),
        [link("a/b", "."), link("a/c", "b/.."), file("a/d"), link("x", "a")].concat(),
        [link("a", "."), link("b", "a/c"), file("c/d")].concat(),
    ]
    .map(String::into_bytes)
    .to_vec();
    let words = [
        "a/",
        "..",
        "/",
        "./",
        "b/../..",
        "\"path\":\"a/b/c\"",
        "\n",
        "{\"path\":\"b\",\"node\":{\"link\":\"..\"}}\n",
        "\\u0000",
    ];
    let outer = dir.path().join("outer");
    fuzz("listings", &seeds, &words, |bytes| {
        let Ok(tree) = tree::Tree::parse(bytes) else { return };
        for entry in &tree.entries {
            tree::plain(&entry.path).unwrap();
        }
        let _ = std::fs::remove_dir_all(&outer);
        let inner = outer.join("middle/inner");
        let listing = store.put(bytes).unwrap();
        if store.restore(&listing, &inner).is_ok() {
            // Every link ends inside, or nowhere.
            let root = inner.canonicalize().unwrap();
            for entry in &tree.entries {
                if let Ok(real) = inner.join(&entry.path).canonicalize() {
                    assert!(real.starts_with(&root), "{} leads to {}", entry.path, real.display());
                }
            }
        }
        let outside = tree::list(&outer).unwrap();
        assert!(outside.iter().all(|path| path.starts_with("middle/inner/")), "{outside:?}");
        let folders: Vec<_> = std::fs::read_dir(&outer)
            .unwrap()
            .chain(std::fs::read_dir(outer.join("middle")).unwrap())
            .collect();
        assert_eq!(folders.len(), 2);
    });
}

/// An export that somebody changed: what is taken of it is whole, and nobody's word counts but that
/// of a trusted signer.
#[test]
fn exports() {
    let dir = tempfile::tempdir().unwrap();
    let sound = dir.path().join("sound");
    store(&sound);
    let sound = Store::open(&sound).unwrap();
    let signer = Signer::open(&dir.path().join("key")).unwrap();
    let records: Vec<Record> =
        (1u8..=4).map(|key| sound.hit(&Digest::of(&[key])).unwrap().unwrap()).collect();
    let file = dir.path().join("export.tar");
    sound.export(&sound.leaving(&records, &signer).unwrap(), &file, &|_, _| {}).unwrap();
    let seed = fsio::read(&file).unwrap();
    let outer = dir.path().join("outer");
    let taken = Store::open(&outer.join("taken")).unwrap();
    let limits = Limits {
        object: 1 << 20,
        total: 8 << 20,
        files: 100,
        record: 1 << 16,
        records: 1 << 20,
        listing: 1 << 16,
    };
    let words = ["../", "/", "objects/", "records/", ".json", ".sig", "format", "\0", "7777777"];
    fuzz("exports", &[seed], &words, |bytes| {
        for tar in [bytes.to_vec(), signed(bytes)] {
            fsio::write_plain(&file, &tar).unwrap();
            if let Err(error) = taken.import(&file, limits, &|_, _| {}) {
                assert!(!error.to_string().is_empty());
            }
            for key in 1u8..=4 {
                assert!(taken.hit(&Digest::of(&[key])).unwrap().is_none(), "a stranger's record is a hit");
            }
            let problems = taken.verify(true).unwrap().problems;
            assert!(problems.is_empty(), "{problems:?}");
            assert_eq!(std::fs::read_dir(&outer).unwrap().count(), 1);
        }
    });
}
