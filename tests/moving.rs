//! Results that move between stores: archives, remotes in folders, trust,
//! pins and quarantine. Offline; buckets are in tests/network/s3.sh.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests work on real files")]

#[path = "engine/env.rs"]
#[expect(dead_code, reason = "shared with the tests of the engine, which use all of it")]
mod env;
#[path = "moving/hostile.rs"]
mod hostile;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use env::{Env, Said, of_stages, over_servers};
use serde_json::{Value, json};

/// The nodes that follow from an expected file of a question.
const REGRADED: [&str; 2] = ["score", "summary"];

/// A project over two built-in engines, and a home of its own.
pub(crate) struct Place {
    env: Env,
}

impl Place {
    fn new() -> Self {
        let env = Env::new();
        env.write("pipelines/main.toml", &over_servers("grep,bm25"));
        Self { env }
    }

    fn outside(&self, name: &str) -> PathBuf {
        self.env.outside(name)
    }

    fn run(&self, args: &[&str]) -> Said {
        let output = self.env.command(args).env("HOME", self.outside("home")).output().unwrap();
        Said {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    fn executed(&self) -> BTreeSet<String> {
        self.env.executed(&["main"])
    }

    /// How many nodes a dry run would reuse, and the reasons for the others.
    fn plan(&self) -> (usize, Vec<Value>) {
        let plan = self.run(&["plan", "--json"]).ok().json();
        let nodes = plan["nodes"].as_array().unwrap();
        let due = nodes.iter().filter(|node| node["action"] != "reuse");
        let reasons: Vec<Value> = due.map(|node| node["reasons"].clone()).collect();
        (nodes.len() - reasons.len(), reasons)
    }

    fn export(&self, to: &Path) -> Value {
        self.run(&["store", "export", "--to", to.to_str().unwrap(), "--json"]).ok().json()
    }

    fn import(&self, from: &Path) -> Said {
        self.run(&["store", "import", from.to_str().unwrap(), "--json"])
    }

    fn identity(&self) -> String {
        self.run(&["store", "identity"]).ok().stdout.trim().to_owned()
    }

    fn trust(&self, key: &str) {
        self.env.write("trust.toml", &format!("format = 1\n\n[signer.alice]\nkey = \"{key}\"\n"));
    }

    fn forget_index(&self) {
        for suffix in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(self.env.path(&format!(".proofline/index.sqlite{suffix}")));
        }
    }

    fn sound(&self) {
        let said = self.run(&["store", "verify", "--json"]).ok().json();
        assert_eq!(said["problems"], json!([]));
    }

    /// Another expected file for one question.
    fn edit_question(&self) {
        self.env.edit(
            "datasets/questions/tiny.toml",
            "files = [\"src/beta.py\"]",
            "files = [\"src/gamma.py\"]",
        );
    }
}

/// A place that has run, and the archive of what it made.
pub(crate) fn exported() -> (Place, PathBuf, usize) {
    let a = Place::new();
    let count = a.executed().len();
    let archive = a.outside("results.tar");
    let moved = a.export(&archive);
    assert_eq!((moved["records"].as_u64(), &moved["refused"]), (Some(count as u64), &json!([])), "{moved}");
    (a, archive, count)
}

#[test]
fn results_of_a_trusted_signer_are_used_and_a_changed_question_is_graded_again() {
    let (a, archive, count) = exported();
    let again = a.outside("again.tar");
    a.export(&again);
    assert_eq!(
        std::fs::read(&archive).unwrap(),
        std::fs::read(&again).unwrap(),
        "the same results, the same bytes"
    );

    let b = Place::new();
    let moved = b.import(&archive).ok().json();
    let key = a.identity();
    assert_eq!(moved["records"], count, "{moved}");
    assert_eq!(moved["untrusted"], json!([{ "signer": key, "records": count }]), "{moved}");
    // Kept, listed, and not used.
    let list = b.run(&["store", "untrusted", "--json"]).ok().json();
    assert_eq!(list["untrusted"].as_array().unwrap().len(), count);
    assert_eq!(list["untrusted"][0]["signer"], key.as_str(), "{list}");
    let (reused, reasons) = b.plan();
    assert_eq!(reused, 0);
    assert!(reasons.iter().any(|r| r[0]["old"] == "untrusted"), "{reasons:?}");
    assert_eq!(b.run(&["store", "stats", "--json"]).ok().json()["untrusted"], count);

    // Another key changes nothing.
    b.trust(&b.identity());
    assert_ne!(b.identity(), key);
    assert_eq!(b.plan().0, 0);
    // The signer's does, and nothing is imported again.
    b.trust(&key);
    assert_eq!(b.plan().0, count);
    assert!(b.executed().is_empty());
    assert_eq!(b.run(&["store", "untrusted", "--json"]).ok().json()["untrusted"], json!([]));
    let skipped = b.import(&archive).ok().json();
    assert_eq!((&skipped["records"], &skipped["objects"]), (&json!(0), &json!(0)), "{skipped}");

    b.edit_question();
    let ran = b.executed();
    assert_eq!(ran, of_stages(&ran, &REGRADED), "{ran:?}");
    assert_eq!(ran.len(), 3, "two arms are graded again, and the summary: {ran:?}");
    b.sound();

    // Trust and signatures survive the loss of the index and a copy of the folder.
    b.forget_index();
    assert!(b.executed().is_empty());
    let copied = std::process::Command::new("cp")
        .args(["-r", b.env.path(".proofline").to_str().unwrap(), b.outside("copy").to_str().unwrap()])
        .status();
    assert!(copied.unwrap().success());
    std::fs::remove_file(b.env.path("trust.toml")).unwrap();
    b.forget_index();
    assert_eq!(b.plan().0, 0, "what was made here rests on answers that are not trusted any more");
    b.trust(&key);
    let copy = b.outside("copy").display().to_string();
    assert_eq!(b.env.go(&["main", "--store", &copy])["nodes"]["executed"], 0);
}

#[test]
fn what_nobody_signed_is_kept_and_not_used() {
    let (a, archive, count) = exported();
    let b = Place::new();
    b.trust(&a.identity());
    let bare = b.outside("bare.tar");
    hostile::rewrite(&archive, &bare, |name, bytes| (!hostile::is_signature(&name)).then_some((name, bytes)));
    let moved = b.import(&bare).ok().json();
    assert_eq!(moved["untrusted"], json!([{ "signer": null, "records": count }]), "{moved}");
    assert_eq!(b.plan().0, 0);
    let said = b.run(&["store", "untrusted"]).ok().stdout;
    assert!(said.contains("search[repo=tiny,replicate=1,arm=bm25] of servers: signed by nobody"), "{said}");
    b.sound();
}

#[test]
fn a_result_made_here_never_gives_way() {
    let (a, archive, count) = exported();
    let b = Place::new();
    b.executed();
    let key_of = |place: &Place| {
        place.run(&["show", "search[repo=tiny,replicate=1,arm=grep]", "--json"]).ok().json()["record"]["origin"].clone()
    };
    let own = key_of(&b);
    assert_ne!(own, key_of(&a));
    b.trust(&a.identity());
    let moved = b.import(&archive).ok().json();
    // Pure nodes give the same record only when run and times are the same, too.
    assert_eq!(moved["records"], count, "{moved}");
    for lost in [false, true] {
        if lost {
            b.forget_index();
        }
        assert!(b.executed().is_empty());
        assert_eq!(key_of(&b), own);
    }
}

#[test]
fn a_folder_is_a_remote() {
    let (a, _, count) = exported();
    let remote = a.outside("remote");
    let (to, from) = (remote.to_str().unwrap(), remote.to_str().unwrap());
    let b = Place::new();
    assert_eq!(b.run(&["store", "pull", from]).code, 3, "nothing was pushed there yet");
    let pushed = a.run(&["store", "push", to, "--json"]).ok().json();
    assert_eq!((&pushed["records"], &pushed["notes"]), (&json!(count), &json!([])), "{pushed}");
    let again = a.run(&["store", "push", to, "--json"]).ok().json();
    assert_eq!(
        (&again["objects"], &again["records"], &again["bytes"]),
        (&json!(0), &json!(0), &json!(0)),
        "{again}"
    );
    assert_eq!(again["skipped"], count);

    // Some of it first, then the rest.
    b.trust(&a.identity());
    let some = b.run(&["store", "pull", from, "search[arm=gr*]", "--json"]).ok().json();
    assert_eq!(some["records"], 1, "{some}");
    let pulled = b.run(&["store", "pull", from, "--json"]).ok().json();
    assert_eq!((&pulled["records"], &pulled["refused"]), (&json!(count - 1), &json!([])), "{pulled}");
    b.edit_question();
    let ran = b.executed();
    assert_eq!(ran, of_stages(&ran, &REGRADED), "{ran:?}");
    // What b made goes the same way, beside what a had made; theirs keeps its signature.
    b.run(&["store", "push", to]).ok();
    let c = Place::new();
    c.edit_question();
    c.env.write(
        "trust.toml",
        &format!(
            "format = 1\n[signer.a]\nkey = \"{}\"\n[signer.b]\nkey = \"{}\"\n",
            a.identity(),
            b.identity()
        ),
    );
    c.run(&["store", "pull", from]).ok();
    assert!(c.executed().is_empty());

    // A selection of a run.
    let small = a.outside("small");
    let pushed = a.run(&["store", "push", small.to_str().unwrap(), "score", "--json"]).ok().json();
    assert_eq!(pushed["records"], 2, "{pushed}");
    let wrong = a.run(&["store", "push", small.to_str().unwrap(), "scroe"]);
    assert_eq!(wrong.code, 1);
    // A folder of something else does not become a remote.
    let other = a.run(&["store", "push", a.env.root.to_str().unwrap()]);
    assert!(other.code == 3 && other.stderr.contains("holds other files"), "{}", other.stderr);
    let store = a.env.path(".proofline");
    let other = b.run(&["store", "pull", store.to_str().unwrap()]);
    assert!(other.code == 3 && other.stderr.contains("it is a store, not a remote"), "{}", other.stderr);
}

#[test]
fn eight_pushers_at_once() {
    let places: Vec<Place> = (0..8).map(|_| Place::new()).collect();
    let remote = places[0].outside("remote");
    let to = remote.to_str().unwrap();
    let count = places[0].executed().len();
    places[0].run(&["store", "export", "--to", places[0].outside("x.tar").to_str().unwrap()]).ok();
    // Half of them have results of their own, half those of the first.
    for (at, place) in places.iter().enumerate().skip(1) {
        if at % 2 == 0 {
            place.executed();
        } else {
            place.trust(&places[0].identity());
            place.import(&places[0].outside("x.tar")).ok();
            assert!(place.executed().is_empty());
        }
    }
    std::thread::scope(|scope| {
        for place in &places {
            scope.spawn(|| place.run(&["store", "push", to]).ok());
        }
    });
    let reader = Place::new();
    // One of them is trusted: what all made for one key can't be mixed then.
    reader.trust(&places[0].identity());
    let pulled = reader.run(&["store", "pull", to, "--json"]).ok().json();
    assert_eq!(pulled["refused"], json!([]), "{pulled}");
    assert_eq!(pulled["records"], count * 4, "{pulled}");
    assert!(reader.executed().is_empty());
    reader.sound();
}

#[test]
fn a_pin_keeps_what_gc_deletes() {
    let a = Place::new();
    a.executed();
    let first = a.run(&["status", "--json"]).ok().json()["run"].as_str().unwrap().to_owned();
    a.edit_question();
    assert_eq!(a.executed().len(), 3);
    let dead =
        |place: &Place| place.run(&["store", "gc", "--keep", "1", "--json"]).ok().json()["records"].clone();
    assert_eq!(dead(&a), 3, "the first run's grades and summary");
    a.run(&["store", "pin", "score", "--run", &first]).ok();
    assert_eq!(dead(&a), 1);
    a.run(&["store", "pin", &first[..first.len() - 1]]).ok();
    assert_eq!(dead(&a), 0);
    let pins = a.run(&["store", "pin", "--json"]).ok().json();
    assert_eq!(pins["pins"].as_array().unwrap().len(), 2, "{pins}");
    assert_eq!(pins["pins"][0]["selector"], "score");
    // A new index and a copy of the folder keep them.
    a.forget_index();
    a.run(&["store", "gc", "--keep", "1", "--delete"]).ok();
    a.env.edit(
        "datasets/questions/tiny.toml",
        "files = [\"src/gamma.py\"]\n\n[[",
        "files = [\"src/beta.py\"]\n\n[[",
    );
    assert!(a.executed().is_empty(), "all of the first run is there");
    // Its three nodes are now named by the newest run; those between are not.
    a.run(&["store", "pin", &first, "--remove"]).ok();
    a.run(&["store", "pin", "score", "--remove"]).ok();
    assert_eq!(a.run(&["store", "pin", "score", "--remove"]).code, 1);
    assert_eq!(a.run(&["store", "pin", "--json"]).ok().json()["pins"], json!([]));
    assert_eq!(a.run(&["store", "pin", "no-such-stage"]).code, 1);
}

#[test]
fn what_is_in_quarantine_is_made_anew() {
    let a = Place::new();
    a.executed();
    let node = "score[repo=tiny,replicate=1,arm=grep]";
    let show = |place: &Place| place.run(&["show", node, "--json"]).ok().json()["record"].clone();
    let record = show(&a);
    let key = record["key"].as_str().unwrap().to_owned();
    assert_eq!(a.run(&["store", "quarantine", node]).code, 1, "a reason is asked for");
    assert_eq!(a.run(&["store", "quarantine", "score[repo=nowhere]", "--reason", "x"]).code, 1);
    let said = a.run(&["store", "quarantine", node, "--reason", "a broken clock"]).ok().stdout;
    for part in [
        &key,
        "a broken clock",
        record["run"].as_str().unwrap(),
        "attempt 1",
        record["origin"].as_str().unwrap(),
        "part grades",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let (_, reasons) = a.plan();
    assert_eq!(reasons[0][0]["old"], "quarantined", "{reasons:?}");
    // Twice is no reason for another entry, and a lost index none to trust it.
    assert_eq!(a.run(&["store", "quarantine", &key, "--reason", "again"]).code, 1);
    a.forget_index();
    assert_eq!(a.executed(), BTreeSet::from([node.to_owned()]));
    assert!(a.executed().is_empty(), "what was made anew is sound");
    let anew = show(&a);
    assert!(anew["key"] == record["key"] && anew["run"] != record["run"], "{anew}");
    let list = a.run(&["store", "quarantine", "--json"]).ok().json();
    assert_eq!(list["quarantined"][0]["key"], key.as_str());
    assert_eq!(list["quarantined"][0]["entries"][0]["records"][0]["record"], record, "{list}");
    let verified = a.run(&["store", "verify", "--json"]).ok().json();
    assert_eq!(verified["quarantined"], list["quarantined"]);
    assert!(a.run(&["store", "verify"]).ok().stdout.contains("a broken clock"));

    // Undone, what was made meanwhile stays; without it the old one would be used again.
    a.run(&["store", "quarantine", node, "--undo"]).ok();
    assert_eq!(a.run(&["store", "quarantine", node, "--undo"]).code, 1);
    assert!(a.executed().is_empty());
    let b = Place::new();
    b.executed();
    let old = show(&b);
    b.run(&["store", "quarantine", node, "--reason", "doubt"]).ok();
    b.run(&["store", "quarantine", node, "--undo"]).ok();
    assert!(b.executed().is_empty());
    assert_eq!(show(&b), old);

    // A file that can't be read hides nothing.
    b.env.write(&format!(".proofline/quarantine/{key}.json"), "{");
    let said = b.run(&["store", "verify"]);
    assert!(
        said.code == 3 && said.stderr.contains(&key) && said.stderr.contains("take it away"),
        "{}",
        said.stderr
    );
}

#[test]
fn a_quarantine_holds_for_what_comes_in_again() {
    let (a, archive, count) = exported();
    let b = Place::new();
    b.trust(&a.identity());
    b.import(&archive).ok();
    let key = a.run(&["show", "summary", "--json"]).ok().json()["record"]["key"].as_str().unwrap().to_owned();
    let said = b.run(&["store", "quarantine", &key, "--reason", "not ours"]).ok().stdout;
    assert!(said.contains(&format!("signed by {}", a.identity())), "{said}");
    b.import(&archive).ok();
    assert_eq!(b.plan().0, count - 1);
    assert_eq!(b.executed(), BTreeSet::from(["summary".to_owned()]));
}

#[test]
fn a_key_is_made_once_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let a = Place::new();
    a.executed();
    let key = a.identity();
    let file = a.outside("home/.config/proofline/key");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(a.identity(), key);
    let other = a.outside("other-key");
    let named = a.run(&["store", "identity", "--key", other.to_str().unwrap(), "--json"]).ok().json();
    assert_ne!(named["key"], key.as_str());
    assert!(other.is_file());
    let inside = a.run(&["store", "identity", "--key", ".proofline/key"]);
    assert!(inside.code == 1 && inside.stderr.contains("would lie in the store"), "{}", inside.stderr);
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let open = a.run(&["store", "export", "--to", "x.tar"]);
    assert!(open.code == 1 && open.stderr.contains("chmod 600"), "{}", open.stderr);
    assert!(!a.env.path("x.tar").exists());
}

#[test]
fn a_mistake_in_the_trust_file_is_shown_with_its_place() {
    let (a, archive, _) = exported();
    let b = Place::new();
    b.trust(&a.identity().replace("ed25519:", "ed2519:"));
    for args in [vec!["check"], vec!["plan"], vec!["store", "import", archive.to_str().unwrap()]] {
        if args == ["plan"] {
            // Trust matters to a plan once there is a store.
            b.run(&["run", "quickstart", "--set", "replicates=1", "--set", "servers=grep"]);
            continue;
        }
        let said = b.run(&args);
        assert_eq!(said.code, 1, "{args:?} {}", said.stderr);
        assert!(said.stderr.contains("trust.toml:4:7") && said.stderr.contains('^'), "{}", said.stderr);
        assert!(said.stderr.contains("proofline store identity"), "{}", said.stderr);
    }
}
