//! Unit tests of the store.

use std::collections::BTreeMap;

use super::*;

fn publication(key: u8, node: &str, text: &str, outcome: Outcome) -> Publication {
    Publication {
        record: Record {
            format: 1,
            key: Digest::of(&[key]),
            recipe: Digest::of(b""),
            pipeline: "p".to_owned(),
            node: node.to_owned(),
            kind: "command".to_owned(),
            parts: BTreeMap::new(),
            outcome,
            used: BTreeMap::new(),
            origin: "here".to_owned(),
            run: "r".to_owned(),
            attempt: 1,
            started: 1,
            ended: i64::from(key),
            machine: None,
            unconfined: None,
            blessed: None,
            usd: None,
        },
        recipe: b"{}".to_vec(),
        parts: vec![("out".to_owned(), PartContent::Bytes(text.as_bytes().to_vec()))],
        ledger: None,
    }
}

#[test]
fn what_is_published_is_found_again_even_without_the_index() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let store = Store::open(&root).unwrap();
    let big = "large object ".repeat(100_000);
    let noise: String = (0..400_000u32)
        .map(|i| char::from(b'!' + (i.wrapping_mul(2_654_435_761) >> 25) as u8 % 90))
        .collect();
    store
        .publish(vec![
            publication(1, "a", "small", Outcome::Done),
            publication(2, "b", &big, Outcome::Done),
            publication(3, "c", &noise, Outcome::Done),
        ])
        .unwrap();
    drop(store);
    for damage in ["none", "delete", "garbage"] {
        let index = root.join("index.sqlite");
        match damage {
            "delete" => {
                for suffix in ["", "-wal", "-shm"] {
                    let _ = std::fs::remove_file(root.join(format!("index.sqlite{suffix}")));
                }
            }
            "garbage" => crate::fsio::write_plain(&index, &[7u8; 8192]).unwrap(),
            _ => {}
        }
        let store = Store::open(&root).unwrap();
        for (key, text) in [(1u8, "small"), (2, big.as_str()), (3, noise.as_str())] {
            let record = store.hit(&Digest::of(&[key])).unwrap().expect(damage);
            assert_eq!(store.get(&record.part("out").unwrap()).unwrap(), text.as_bytes(), "{damage}");
        }
        assert!(store.verify(true).unwrap().problems.is_empty(), "{damage}");
    }
}

#[test]
fn the_first_result_of_a_key_is_the_accepted_one_and_errors_never_are() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let key = Digest::of(&[1]);
    let failed = store.publish(vec![publication(1, "a", "broken", Outcome::Error)]).unwrap();
    assert!(!failed[0].accepted);
    assert!(store.hit(&key).unwrap().is_none());
    assert!(store.publish(vec![publication(1, "a", "first", Outcome::Done)]).unwrap()[0].accepted);
    assert!(!store.publish(vec![publication(1, "a", "second", Outcome::Done)]).unwrap()[0].accepted);
    let record = store.hit(&key).unwrap().unwrap();
    assert_eq!(store.get(&record.part("out").unwrap()).unwrap(), b"first");
    assert_eq!(store.attempts(&key).unwrap().len(), 3);
}

#[test]
fn a_torn_pack_loses_only_its_torn_frame() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.publish(vec![publication(1, "a", "first", Outcome::Done)]).unwrap();
    drop(store);
    let pack = std::fs::read_dir(dir.path().join("packs")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&pack).unwrap();
    let whole = bytes.len();
    bytes.extend_from_slice(b"PLF1O\0\0\0\x10\0\0\0");
    crate::fsio::write_plain(&pack, &bytes).unwrap();
    std::fs::remove_file(dir.path().join("index.sqlite")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    assert!(store.hit(&Digest::of(&[1])).unwrap().is_some());
    assert!(store.verify(true).unwrap().problems.is_empty());
    drop(store);
    bytes.truncate(whole - 3);
    crate::fsio::write_plain(&pack, &bytes).unwrap();
    std::fs::remove_file(dir.path().join("index.sqlite")).unwrap();
    let store = Store::open(dir.path()).unwrap();
    // The record was the last frame: without it the node is simply made again.
    assert!(store.hit(&Digest::of(&[1])).unwrap().is_none());
}

#[test]
fn a_flipped_bit_is_found_and_is_no_hit_any_more() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.publish(vec![publication(1, "a", "the quick brown fox", Outcome::Done)]).unwrap();
    drop(store);
    let pack = std::fs::read_dir(dir.path().join("packs")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&pack).unwrap();
    let at = bytes.windows(5).position(|w| w == b"brown").unwrap();
    bytes[at] ^= 1;
    crate::fsio::write_plain(&pack, &bytes).unwrap();
    let store = Store::open(dir.path()).unwrap();
    let record = store.hit(&Digest::of(&[1])).unwrap().unwrap();
    assert!(matches!(store.get(&record.part("out").unwrap()), Err(StoreError::Damaged { .. })));
    let report = store.verify(true).unwrap();
    assert_eq!(report.problems.len(), 1);
    assert_eq!(report.problems[0].key, Some(Digest::of(&[1])));
    assert!(store.hit(&Digest::of(&[1])).unwrap().is_none());
    // Made anew, it is the accepted one: the broken record gives way.
    assert!(
        store.publish(vec![publication(1, "a", "the quick brown fox", Outcome::Done)]).unwrap()[0].accepted
    );
    assert!(store.hit(&Digest::of(&[1])).unwrap().is_some());
}

#[test]
fn trees_come_back_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("store")).unwrap();
    let folder = dir.path().join("in");
    crate::fsio::write_plain(&folder.join("a/b.txt"), b"hello").unwrap();
    crate::fsio::write_plain(&folder.join("run.sh"), b"#!/bin/sh\n").unwrap();
    crate::fsio::tree::set_executable(&folder.join("run.sh")).unwrap();
    let mut one = publication(1, "a", "x", Outcome::Done);
    one.parts.push(("state".to_owned(), PartContent::Tree(folder.clone())));
    let published = store.publish(vec![one]).unwrap();
    let state = published[0].record.part("state").unwrap();
    let back = dir.path().join("back");
    store.restore(&state, &back).unwrap();
    assert_eq!(crate::fsio::tree::scan(&back).unwrap(), crate::fsio::tree::scan(&folder).unwrap());
}

#[test]
fn parts_share_bytes_and_are_one_object() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let shared = super::Shared::new(b"a whole document".to_vec());
    let batch = (1..=3).map(|n| {
        let mut one = publication(n, "a", "x", Outcome::Done);
        one.parts.push(("document".to_owned(), PartContent::Shared(shared.clone())));
        one
    });
    let published = store.publish(batch.collect()).unwrap();
    for one in &published {
        assert_eq!(one.record.part("document"), Some(Digest::of(b"a whole document")));
        assert_eq!(one.record.parts["document"].size, 16);
    }
    assert_eq!(store.get(&Digest::of(b"a whole document")).unwrap(), b"a whole document");
    assert!(store.verify(true).unwrap().problems.is_empty());
}

#[test]
fn gc_shows_before_it_deletes() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.publish(vec![publication(1, "a", "gone", Outcome::Done)]).unwrap();
    let dry = store.gc(5, false).unwrap();
    assert_eq!((dry.dead_records, store.hit(&Digest::of(&[1])).unwrap().is_some()), (1, true));
    let wet = store.gc(5, true).unwrap();
    assert!(wet.freed > 0);
    assert!(store.hit(&Digest::of(&[1])).unwrap().is_none());
    assert!(store.verify(true).unwrap().problems.is_empty());
}

#[test]
fn a_journal_survives_a_torn_line_and_shows_damage_in_the_middle() {
    use crate::clock::Clock;
    use crate::event::Event;
    use journal::{Journal, JournalWriter};
    let dir = tempfile::tempdir().unwrap();
    let mut writer = JournalWriter::begin(dir.path(), Clock::Fixed(1_000)).unwrap();
    for n in 0..4 {
        writer.add(&Event::Note { message: format!("n{n}") });
    }
    writer.sync().unwrap();
    let run = writer.run().to_owned();
    let path = dir.path().join("runs").join(&run).join("journal.jsonl");
    let text = std::fs::read_to_string(&path).unwrap();
    crate::fsio::write_plain(&path, &text.as_bytes()[..text.len() - 9]).unwrap();
    let journal = Journal::read(dir.path(), &run).unwrap();
    assert_eq!((journal.lines.len(), journal.damaged), (3, None));
    crate::fsio::write_plain(&path, text.replace("n1", "nX").as_bytes()).unwrap();
    let journal = Journal::read(dir.path(), &run).unwrap();
    assert_eq!((journal.lines.len(), journal.damaged), (3, Some(1)));
}

#[test]
fn a_damaged_entry_of_the_ledger_is_found_and_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("store");
    let store = Store::open(&root).unwrap();
    let entry = ledger::Entry {
        format: 1,
        key: Digest::of(b"k"),
        pipeline: "p".to_owned(),
        node: "ask".to_owned(),
        run: "r".to_owned(),
        attempt: 1,
        state: ledger::Spend::Reserved,
        usd: "0.25".to_owned(),
        at: 1,
        host: String::new(),
        group: None,
        folder: "r/1".to_owned(),
        why: None,
    };
    store.enter(std::slice::from_ref(&entry), ledger::Caps::default()).unwrap();
    drop(store);
    let packs = std::fs::read_dir(root.join("packs")).unwrap().flatten().map(|e| e.path());
    for pack in packs {
        let mut bytes = std::fs::read(&pack).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 4;
        crate::fsio::write_plain(&pack, &bytes).unwrap();
    }
    let store = Store::open(&root).unwrap();
    let report = store.verify(true).unwrap();
    let said: Vec<_> =
        report.problems.iter().map(|p| (p.kind, p.where_.as_str(), p.key, p.repaired)).collect();
    assert_eq!(said, [("damaged-record", "an entry of the ledger about ask", Some(entry.key), true)]);
    assert_eq!(store.verify(true).unwrap().problems, []);
    drop(store);
    // What only packs hold is enough again.
    for suffix in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(root.join(format!("index.sqlite{suffix}")));
    }
    assert_eq!(Store::open(&root).unwrap().spent_on(&entry.key).unwrap(), [entry]);
}
