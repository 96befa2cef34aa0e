//! Unit tests of what moves: folders that lie, limits, remotes that fail.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use super::*;
use crate::digest::{self, Digest};
use crate::fsio::tree::{Entry, Node, Tree};
use crate::remote::Remote;
use crate::store::record::PartRef;
use crate::store::sign::Signer;
use crate::store::{Outcome, PartContent, Publication, Record, Store};

fn record(recipe: &[u8], node: &str) -> Record {
    Record {
        format: 1,
        key: Digest::tagged(digest::NODE, recipe),
        recipe: Digest::of(recipe),
        pipeline: "p".to_owned(),
        node: node.to_owned(),
        kind: "command".to_owned(),
        parts: BTreeMap::new(),
        outcome: Outcome::Done,
        used: BTreeMap::new(),
        origin: "there".to_owned(),
        run: "r".to_owned(),
        attempt: 1,
        started: 1,
        ended: 2,
        machine: None,
        unconfined: None,
        blessed: None,
        usd: None,
    }
}

/// A store with one record of a text under each of these names.
fn store(dir: &Path, names: &[&str]) -> Store {
    let store = Store::open(&dir.join("store")).unwrap();
    for name in names {
        let recipe = format!("{{\"name\":\"{name}\"}}").into_bytes();
        let parts = vec![("out".to_owned(), PartContent::Bytes(format!("text of {name}").into_bytes()))];
        store
            .publish(vec![Publication { record: record(&recipe, name), recipe, parts, ledger: None }])
            .unwrap();
    }
    store
}

fn key(name: &str) -> Digest {
    Digest::tagged(digest::NODE, format!("{{\"name\":\"{name}\"}}").as_bytes())
}

fn leaving(store: &Store, dir: &Path) -> (Vec<Leaving>, Signer) {
    let signer = Signer::open(&dir.join("key")).unwrap();
    let records: Vec<Record> =
        store.index().records().unwrap().into_iter().map(|(_, record)| record).collect();
    (store.leaving(&records, &signer).unwrap(), signer)
}

/// Files in memory, with faults.
#[derive(Default)]
struct Memory {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    /// Requests for files that are answered before the rest fails.
    answers: Option<usize>,
    asked: AtomicUsize,
    /// Writes over what is there, and says that it was new.
    careless: bool,
}

impl Memory {
    fn put(&self, name: impl ToString, bytes: &[u8]) {
        self.files.lock().unwrap().insert(name.to_string(), bytes.to_vec());
    }
}

impl Remote for Memory {
    fn address(&self) -> &'static str {
        "memory"
    }

    fn list(&self, folder: &str, most: usize) -> Result<Vec<String>, RemoteError> {
        Ok(self
            .files
            .lock()
            .unwrap()
            .keys()
            .filter(|name| name.starts_with(folder))
            .take(most)
            .cloned()
            .collect())
    }

    fn get(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, RemoteError> {
        let failed = |why: &str| RemoteError::Request { what: name.to_owned(), why: why.to_owned() };
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        if self.answers.is_some_and(|answers| asked >= answers) {
            return Err(failed("gone"));
        }
        let found = self.files.lock().unwrap().get(name).cloned();
        if found.as_ref().is_some_and(|bytes| bytes.len() as u64 > limit) {
            return Err(failed("too large"));
        }
        Ok(found)
    }

    fn has(&self, name: &str) -> Result<bool, RemoteError> {
        Ok(self.files.lock().unwrap().contains_key(name))
    }

    fn create(&self, name: &str, bytes: Vec<u8>) -> Result<bool, RemoteError> {
        let mut files = self.files.lock().unwrap();
        let new = self.careless || !files.contains_key(name);
        if new {
            files.insert(name.to_owned(), bytes);
        }
        Ok(new)
    }

    fn remove(&self, name: &str) -> Result<(), RemoteError> {
        self.files.lock().unwrap().remove(name);
        Ok(())
    }
}

fn quiet(_: u64, _: u64) {}

fn pull(store: &Store, remote: &Memory) -> Moved {
    store.pull(remote, Limits::default(), &|_| true, &quiet).unwrap()
}

/// A remote with one sound record whose part is a folder with this listing.
fn with_folder(dir: &Path, entries: Vec<(&str, Node)>) -> Memory {
    let remote = Memory::default();
    remote.put("format", names::FORMAT);
    let recipe = b"{}";
    let entries = entries.into_iter().map(|(path, node)| Entry { path: path.to_owned(), node }).collect();
    let tree = Tree { entries };
    let listing = tree.listing();
    let mut one = record(recipe, "a");
    let part = PartRef { digest: Digest::of(&listing), size: tree.bytes(), tree: true };
    one.parts.insert("state".to_owned(), part);
    for bytes in [recipe.to_vec(), listing, b"x".to_vec()] {
        let (header, payload) =
            crate::store::pack::frame(crate::store::pack::FrameKind::Object, Digest::of(&bytes), &bytes);
        remote.put(names::Name::Object(Digest::of(&bytes)), &[&header.encode()[..], &payload].concat());
    }
    let signer = Signer::open(&dir.join("key")).unwrap();
    remote.put(names::Name::Record(one.key, one.digest()), &one.body());
    remote.put(names::Name::Signature(one.key, one.digest()), signer.sign(&one.body()).as_bytes());
    remote
}

#[test]
fn folders_that_would_leave_their_place_are_refused() {
    let file = || Node::File { size: 1, exec: false, digest: Digest::of(b"x") };
    let link = |to: &str| Node::Link(to.to_owned());
    for (words, entries) in [
        ("", vec![("a/b", file()), ("c", link("a/b"))]),
        ("not a plain path", vec![("../x", file())]),
        ("not a plain path", vec![("/x", file())]),
        ("not a plain path", vec![("a/./x", file())]),
        ("leads out", vec![("x", link("/etc/passwd"))]),
        ("leads out", vec![("a/x", link("../../y"))]),
        ("differ in case alone", vec![("README", file()), ("readme", file())]),
        ("differ in case alone", vec![("A/x", file()), ("a/y", file())]),
        ("below a file or link", vec![("a", link("b")), ("a/x", file())]),
        ("out of order", vec![("b", file()), ("a", file())]),
        ("out of order", vec![("a", file()), ("a", file())]),
        ("another size", vec![("a", Node::File { size: 2, exec: false, digest: Digest::of(b"x") })]),
        ("it is not there", vec![("a", Node::File { size: 1, exec: false, digest: Digest::of(b"y") })]),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let remote = with_folder(dir.path(), entries);
        let store = Store::open(&dir.path().join("store")).unwrap();
        let moved = pull(&store, &remote);
        assert_eq!(moved.records, u64::from(words.is_empty()), "{words}: {moved:?}");
        assert!(
            words.is_empty() || moved.refused.iter().any(|one| one.why.contains(words)),
            "{words}: {moved:?}"
        );
        assert!(store.verify(true).unwrap().problems.is_empty(), "{words}");
    }
}

#[test]
fn records_that_fit_nothing_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let from = store(dir.path(), &["a"]);
    let (leaving, signer) = leaving(&from, dir.path());
    let bend = |change: &dyn Fn(&mut Record)| {
        let mut record = leaving[0].record.clone();
        change(&mut record);
        record
    };
    for (words, record) in [
        ("not the one of its key", bend(&|r| r.key = Digest::of(b"k"))),
        ("control characters", bend(&|r| r.node = "a\u{1b}[2J".to_owned())),
        ("control characters", bend(&|r| r.node = "a".repeat(5000))),
        ("no plain name", {
            bend(&|r| {
                let part = r.parts["out"].clone();
                r.parts.insert("../out".to_owned(), part);
            })
        }),
        ("as this version", bend(&|r| r.format = 2)),
        ("another size", {
            bend(&|r| {
                r.parts.get_mut("out").unwrap().size = 1;
            })
        }),
    ] {
        let remote = Memory::default();
        from.push(&leaving, &remote, &quiet).unwrap();
        remote.put(names::Name::Record(record.key, record.digest()), &record.body());
        remote
            .put(names::Name::Signature(record.key, record.digest()), signer.sign(&record.body()).as_bytes());
        let dir = tempfile::tempdir().unwrap();
        let to = Store::open(dir.path()).unwrap();
        let moved = pull(&to, &remote);
        assert_eq!((moved.records, moved.refusals), (1, 1), "{words}: {moved:?}");
        assert!(moved.refused[0].why.contains(words), "{words}: {moved:?}");
    }
}

#[test]
fn limits_hold() {
    let dir = tempfile::tempdir().unwrap();
    let from = store(dir.path(), &["a", "b", "c"]);
    let (leaving, _) = leaving(&from, dir.path());
    let archive = dir.path().join("x.tar");
    from.export(&leaving, &archive, &quiet).unwrap();
    let default = Limits::default();
    for (words, whole, limits) in [
        ("more than 5 files", true, Limits { files: 5, ..default }),
        ("have more than 700 bytes", true, Limits { records: 700, ..default }),
        ("more than the 100 that are taken", true, Limits { record: 100, ..default }),
        ("more than the 66 that are taken", true, Limits { object: 10, ..default }),
        ("unpack to more than 30 bytes", false, Limits { total: 30, ..default }),
    ] {
        let to = tempfile::tempdir().unwrap();
        let to = Store::open(to.path()).unwrap();
        match to.import(&archive, limits, &quiet) {
            Err(error) => assert!(whole && error.to_string().contains(words), "{words}: {error}"),
            Ok(moved) => {
                assert!(
                    !whole && moved.refused.iter().any(|one| one.why.contains(words)),
                    "{words}: {moved:?}"
                );
            }
        }
    }
    let to = tempfile::tempdir().unwrap();
    let to = Store::open(to.path()).unwrap();
    assert_eq!(to.import(&archive, default, &quiet).unwrap().records, 3);
    let remote = Memory::default();
    from.push(&leaving, &remote, &quiet).unwrap();
    let error = to.pull(&remote, Limits { files: 2, ..default }, &|_| true, &quiet).unwrap_err().to_string();
    assert!(error.contains("more than 2 files"), "{error}");
}

#[test]
fn a_remote_that_vanishes_leaves_whole_records_or_none() {
    let dir = tempfile::tempdir().unwrap();
    let names: Vec<String> = (0..40).map(|n| format!("n{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let from = store(dir.path(), &names);
    let (leaving, _) = leaving(&from, dir.path());
    let remote = Memory::default();
    let pushed = from.push(&leaving, &remote, &quiet).unwrap();
    assert_eq!((pushed.records, pushed.refusals), (40, 0), "{pushed:?}");
    let files = remote.files.into_inner().unwrap();
    let to = Store::open(&dir.path().join("to")).unwrap();
    let mut had = 0;
    for answers in [1, 60, 100] {
        let vanishing =
            Memory { files: Mutex::new(files.clone()), answers: Some(answers), ..Memory::default() };
        let moved = pull(&to, &vanishing);
        assert!(moved.refusals > 0, "{answers}: {moved:?}");
        assert!(vanishing.asked.load(Ordering::Relaxed) < answers + 60, "it is given up");
        assert!(to.verify(true).unwrap().problems.is_empty(), "{answers}");
        had += moved.records;
        assert_eq!(to.index().records().unwrap().len() as u64, had);
    }
    let whole = Memory { files: Mutex::new(files), ..Memory::default() };
    let moved = pull(&to, &whole);
    assert_eq!((moved.records + had, moved.refusals), (40, 0), "{moved:?}");
}

#[test]
fn a_careless_remote_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let from = store(dir.path(), &["a"]);
    let (leaving, _) = leaving(&from, dir.path());
    let careless = Memory { careless: true, ..Memory::default() };
    let moved = from.push(&leaving, &careless, &quiet).unwrap();
    assert!(moved.notes.len() == 1 && moved.notes[0].contains("both win"), "{moved:?}");
    assert!(careless.list("probe", 9).unwrap().is_empty());
    assert!(from.push(&leaving, &Memory::default(), &quiet).unwrap().notes.is_empty());
}

#[test]
fn trust_moves_the_mark_and_no_index_forgets_it() {
    let dir = tempfile::tempdir().unwrap();
    let from = store(dir.path(), &["a", "b"]);
    let (leaving, signer) = leaving(&from, dir.path());
    let remote = Memory::default();
    from.push(&leaving, &remote, &quiet).unwrap();
    let root = dir.path().join("to");
    let open = || Store::open(&root).unwrap();
    let hits = |store: &Store| ["a", "b"].map(|name| store.hit(&key(name)).unwrap().is_some());
    let rebuilt = |store: Store| {
        drop(store);
        for suffix in ["", "-wal", "-shm"] {
            let _ = crate::fsio::remove_file(&root.join(format!("index.sqlite{suffix}")));
        }
        open()
    };
    let to = open();
    assert_eq!(pull(&to, &remote).untrusted.len(), 1);
    assert_eq!((hits(&to), to.untrusted().unwrap().len()), ([false; 2], 2));
    let trusted = BTreeSet::from([signer.public()]);
    to.trust(&trusted).unwrap();
    assert_eq!((hits(&to), to.untrusted().unwrap().len()), ([true; 2], 0));
    // It stays when the store is opened by someone who names nobody.
    drop(to);
    let to = rebuilt(open());
    assert_eq!(hits(&to), [false; 2], "a new index trusts nobody yet");
    to.trust(&trusted).unwrap();
    // Made here as well: what was accepted first stays, also without trust in the other.
    let recipe = b"{\"name\":\"a\"}".to_vec();
    let own = Record { origin: "here".to_owned(), ended: 9, ..record(&recipe, "a") };
    let parts = vec![("out".to_owned(), PartContent::Bytes(b"own".to_vec()))];
    let published = to.publish(vec![Publication { record: own, recipe, parts, ledger: None }]).unwrap();
    assert!(!published[0].accepted);
    assert_eq!(to.hit(&key("a")).unwrap().unwrap().origin, "there");
    to.trust(&BTreeSet::new()).unwrap();
    assert_eq!(hits(&to), [true, false]);
    assert_eq!(to.hit(&key("a")).unwrap().unwrap().origin, "here");
    to.trust(&trusted).unwrap();
    assert_eq!(to.hit(&key("a")).unwrap().unwrap().origin, "here", "one made here never gives way");
    let to = rebuilt(to);
    to.trust(&trusted).unwrap();
    assert_eq!(to.hit(&key("a")).unwrap().unwrap().origin, "here");
    // A record whose frame was damaged is written again as one from elsewhere.
    let pack = std::fs::read_dir(root.join("packs"))
        .unwrap()
        .map(|e| e.unwrap().path())
        .find(|path| std::fs::read(path).unwrap().windows(5).any(|w| w == b"PLF1A"));
    let pack = pack.unwrap();
    let mut bytes = std::fs::read(&pack).unwrap();
    let at = bytes.windows(5).position(|w| w == b"PLF1A").unwrap();
    bytes[at + 70] ^= 1;
    crate::fsio::write_plain(&pack, &bytes).unwrap();
    let problems = to.verify(true).unwrap().problems;
    assert_eq!(
        problems.iter().filter(|p| p.kind == "damaged-record" && p.repaired).count(),
        1,
        "{problems:?}"
    );
    let to = rebuilt(to);
    to.trust(&BTreeSet::new()).unwrap();
    assert_eq!((hits(&to), to.untrusted().unwrap().len()), ([true, false], 2));
}

#[test]
fn a_pack_with_a_kept_record_from_elsewhere_stays() {
    let dir = tempfile::tempdir().unwrap();
    let from = store(dir.path(), &["a"]);
    let (leaving, signer) = leaving(&from, dir.path());
    let remote = Memory::default();
    from.push(&leaving, &remote, &quiet).unwrap();
    let to = Store::open(&dir.path().join("to")).unwrap();
    to.trust(&BTreeSet::from([signer.public()])).unwrap();
    pull(&to, &remote);
    to.pin(&crate::store::pins::Pin {
        format: 1,
        run: "r".to_owned(),
        selector: None,
        at: 1,
        keys: vec![key("a")],
    })
    .unwrap();
    assert_eq!(to.gc(1, true).unwrap().dead_records, 0);
    assert!(to.hit(&key("a")).unwrap().is_some());
    assert!(to.verify(true).unwrap().problems.is_empty());
    assert!(to.unpin("r", None).unwrap());
    assert_eq!(to.gc(1, true).unwrap().dead_records, 1);
    assert!(to.hit(&key("a")).unwrap().is_none());
}
