use super::*;
use crate::grade::citation::{Bucket, View, examine};

fn memory(files: &[(&str, &[u8])]) -> Ground {
    Ground::of_memory(files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec())).collect())
}

/// Bucket and reason of the only citation of an answer.
fn verdict(ground: &Ground, answer: &str) -> (Bucket, String) {
    let view = View { source: ground, root: Some("/code") };
    let found = examine(answer, Some(view));
    assert_eq!(found.len(), 1, "{answer}: {found:?}");
    (found[0].1.bucket, found[0].1.reason.clone())
}

#[test]
fn nothing_outside_the_folder_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("code");
    fsio::write_plain(&root.join("src/app.py"), b"def run():\n    pass\n").unwrap();
    fsio::write_plain(&dir.path().join("secret.py"), b"secret\n").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", root.join("passwd.txt")).unwrap();
    std::os::unix::fs::symlink("../secret.py", root.join("secret.py")).unwrap();
    std::os::unix::fs::symlink("src", root.join("other")).unwrap();
    std::os::unix::fs::symlink("/", root.join("top")).unwrap();
    nix::unistd::mkfifo(&root.join("pipe.py"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let ground = Ground::of_folder(&root).unwrap();
    for (answer, word) in [
        ("passwd.txt:1", "link"),
        ("/code/passwd.txt:1", "link"),
        ("secret.py:1", "link"),
        ("other/app.py:1", "no file"),
        ("top/etc/x.conf.txt:1", "no file"),
        ("pipe.py:1", "no file"),
        ("src/../../secret.py:1", "leaves"),
        ("/etc/hosts.txt:1", "outside"),
        ("/code/../secret.py:1", "leaves"),
        ("/codex/secret.py:1", "outside"),
    ] {
        let (bucket, reason) = verdict(&ground, answer);
        assert_eq!(bucket, Bucket::Unresolved, "{answer}");
        assert!(reason.contains(word), "{answer}: {reason}");
    }
    assert_eq!(verdict(&ground, "app.py:2").0, Bucket::Grounded);
}

#[test]
fn what_took_the_place_of_a_file_is_not_opened() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("code");
    for path in ["a/link.py", "a/pipe.py", "a/gone.py", "b/c.py"] {
        fsio::write_plain(&root.join(path), b"x = 1\n").unwrap();
    }
    let tree = tree::scan(&root).unwrap();
    let ground = Ground::of_tree(&root, &tree).unwrap();
    for path in ["a/link.py", "a/pipe.py", "a/gone.py"] {
        fsio::remove_file(&root.join(path)).unwrap();
    }
    std::os::unix::fs::symlink("/etc/passwd", root.join("a/link.py")).unwrap();
    nix::unistd::mkfifo(&root.join("a/pipe.py"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    fsio::remove_dir(&root.join("b")).unwrap();
    fsio::write_plain(&dir.path().join("c.py"), b"secret\n").unwrap();
    std::os::unix::fs::symlink("..", root.join("b")).unwrap();
    for (answer, word) in [
        ("link.py:1", "link"),
        ("pipe.py:1", "no regular file"),
        ("gone.py:1", "can't be read"),
        ("b/c.py:1", "link"),
    ] {
        let (bucket, reason) = verdict(&ground, answer);
        assert_eq!(bucket, Bucket::Unresolved, "{answer}");
        assert!(reason.contains(word), "{answer}: {reason}");
    }
}

#[test]
fn binary_and_large_files_are_not_texts() {
    let large = vec![b'\n'; usize::try_from(LARGEST).unwrap() + 1];
    let ground =
        memory(&[("a.py", b"\0"), ("b.py", &large), ("c.py", &large[1..]), ("d.py", b"\xff\xfed\0\n\0")]);
    assert_eq!(verdict(&ground, "a.py:1"), (Bucket::Unresolved, "`a.py`: it is a binary file".to_owned()));
    assert_eq!(
        verdict(&ground, "b.py:1"),
        (Bucket::Unresolved, "`b.py`: it is larger than 16 MiB".to_owned())
    );
    assert_eq!(verdict(&ground, "c.py:16777216").0, Bucket::Grounded);
    assert_eq!(verdict(&ground, "`d` (d.py:1)").0, Bucket::Grounded);
    let dir = tempfile::tempdir().unwrap();
    fsio::write_plain(&dir.path().join("b.py"), &large).unwrap();
    assert!(verdict(&Ground::of_folder(dir.path()).unwrap(), "b.py:1").1.contains("larger"));
}

#[test]
fn a_small_bound_changes_no_verdict() {
    let text = |name: &str| format!("def {name}():\n    pass\n");
    let files = ["a/m.py", "b/m.py", "c/m.py"].map(|path| (path, text(&path[..1])));
    let files: Vec<_> = files.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
    for bound in [0, 300, 600, KEPT] {
        let ground = memory(&files).keeping(bound);
        for _ in 0..2 {
            for name in ["a", "b", "c"] {
                let (bucket, reason) = verdict(&ground, &format!("`{name}` (m.py:2)"));
                assert_eq!(bucket, Bucket::Grounded);
                assert!(reason.contains(&format!("line 1 of `{name}/m.py`; of 3 files")), "{reason}");
            }
        }
    }
}

#[test]
fn definitions_count_lines_as_texts_do() {
    let ground = memory(&[
        ("a.py", b"x = 1\r# y\rdef f():\r    pass\r"),
        ("b.py", b"\xef\xbb\xbf\r\ndef f(): pass\r\n"),
    ]);
    let at = |path| ground.definitions(ground.listing().at(path).unwrap(), "f");
    assert_eq!((at("a.py"), at("b.py")), (vec![3], vec![2]));
}

#[test]
fn a_commit_is_read_from_its_objects() {
    let dir = tempfile::tempdir().unwrap();
    let repository = git2::Repository::init(dir.path()).unwrap();
    let blob = |bytes: &[u8]| repository.blob(bytes).unwrap();
    let mut inner = repository.treebuilder(None).unwrap();
    inner.insert("app.py", blob(b"def run():\n    pass\n"), 0o100_644).unwrap();
    inner.insert("way.py", blob(b"/etc/passwd"), 0o120_000).unwrap();
    inner.insert("big.py", blob(&vec![b'\n'; usize::try_from(LARGEST).unwrap() + 1]), 0o100_644).unwrap();
    let inner = inner.write().unwrap();
    let mut outer = repository.treebuilder(None).unwrap();
    outer.insert("src", inner, 0o040_000).unwrap();
    outer.insert("module", git2::Oid::from_str(&"1".repeat(40)).unwrap(), 0o160_000).unwrap();
    let tree = repository.find_tree(outer.write().unwrap()).unwrap();
    let who = git2::Signature::new("a", "a@example.org", &git2::Time::new(0, 0)).unwrap();
    let commit = repository.commit(None, &who, &who, "x", &tree, &[]).unwrap().to_string();
    let ground = Ground::of_git(dir.path(), &commit, None).unwrap();
    assert_eq!(verdict(&ground, "`run` (src/app.py:2)").0, Bucket::Grounded);
    assert!(verdict(&ground, "way.py:1").1.contains("link"));
    assert!(verdict(&ground, "big.py:1").1.contains("larger"));
    assert!(verdict(&ground, "module:1 module/a.py:1").1.contains("no file"));
    let inner = Ground::of_git(dir.path(), &commit, Some("src")).unwrap();
    assert_eq!(verdict(&inner, "/code/app.py:3").0, Bucket::Hallucinated);
    assert!(matches!(Ground::of_git(dir.path(), &commit, Some("lib")), Err(CorpusError::NoSubdir { .. })));
    assert!(Ground::of_git(dir.path(), &"0".repeat(40), None).is_err());
}
