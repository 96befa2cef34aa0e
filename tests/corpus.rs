//! Corpora from every kind of source, hostile ones included. Nothing here
//! uses the network.

#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use flate2::{Compression, write::GzEncoder};
use git2::{FileMode, Oid, Repository, Signature};
use proofline::corpus::{
    Corpora, Corpus, CorpusError, Limits, Place, Source, archive_source, check_copy, known_answer, verify,
};
use proofline::diag::Severity;
use proofline::fsio::{self, tree};
use proofline::manifest::dataset::{QuestionSet, Repos};
use proofline::manifest::server::Registry;
use proofline::manifest::write::read_back;
use tar::{Builder, EntryType, Header};

struct Env {
    dir: tempfile::TempDir,
}

impl Env {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn corpora(&self) -> Corpora {
        Corpora::new(self.path("cache"), true)
    }

    /// Writes a .tar.gz that `fill` fills.
    fn packed(&self, fill: impl FnOnce(&mut Builder<Vec<u8>>)) -> Source {
        let mut builder = Builder::new(Vec::new());
        fill(&mut builder);
        let plain = builder.into_inner().unwrap();
        self.gzipped(&plain)
    }

    fn gzipped(&self, plain: &[u8]) -> Source {
        let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
        gz.write_all(plain).unwrap();
        let path = self.path("x.tar.gz");
        fsio::write_plain(&path, &gz.finish().unwrap()).unwrap();
        Source::File(path)
    }

    fn refused(&self, source: &Source) -> String {
        let error = self.corpora().fetch("x", source, None).unwrap_err().to_string();
        assert!(error.contains("is refused"), "{error}");
        // Nothing of it was published, and nothing is left behind.
        assert!(!self.path("cache/trees").exists(), "{error}");
        assert_eq!(std::fs::read_dir(self.path("cache/tmp")).unwrap().count(), 0, "{error}");
        error
    }
}

/// An entry whose name is taken as it is, whatever it says.
fn entry(kind: EntryType, name: &[u8], link: &[u8], size: u64, mode: u32) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(mode);
    let old = header.as_old_mut();
    old.name[..name.len()].copy_from_slice(name);
    old.linkname[..link.len()].copy_from_slice(link);
    header.set_cksum();
    header
}

fn file(builder: &mut Builder<Vec<u8>>, name: &str, content: &str) {
    let header = entry(EntryType::Regular, name.as_bytes(), b"", content.len() as u64, 0o644);
    builder.append(&header, content.as_bytes()).unwrap();
}

fn special(builder: &mut Builder<Vec<u8>>, kind: EntryType, name: &str, link: &str) {
    builder.append(&entry(kind, name.as_bytes(), link.as_bytes(), 0, 0o644), &b""[..]).unwrap();
}

fn paths(corpus: &Corpus) -> Vec<&str> {
    corpus.tree.entries.iter().map(|entry| entry.path.as_str()).collect()
}

#[test]
fn an_archive_becomes_a_read_only_tree_without_its_top_folder() {
    let env = Env::new();
    let long = format!("top/{}/deep.py", "long".repeat(40));
    let source = env.packed(|b| {
        special(b, EntryType::XGlobalHeader, "pax_global_header", "");
        special(b, EntryType::Directory, "top/", "");
        file(b, "./top/src/a.py", "a = 1\n");
        b.append(&entry(EntryType::Regular, b"top/run.sh", b"", 3, 0o755), &b"ls\n"[..]).unwrap();
        special(b, EntryType::Symlink, "top/link.py", "src/a.py");
        special(b, EntryType::Link, "top/hard.py", "top/src/a.py");
        file(b, "top/.git/config", "[core]");
        let mut header = Header::new_gnu();
        header.set_size(2);
        header.set_mode(0o644);
        b.append_data(&mut header, &long, &b"d\n"[..]).unwrap();
        b.append_pax_extensions([("path", "top/pax name.py".as_bytes()), ("size", b"1")]).unwrap();
        file(b, "top/short.py", "p");
    });
    let corpora = env.corpora();
    assert_eq!(corpora.peek(&source, None), None);
    let corpus = corpora.fetch("x", &source, None).unwrap();
    let deep = long.strip_prefix("top/").unwrap();
    assert_eq!(paths(&corpus), ["hard.py", "link.py", deep, "pax name.py", "run.sh", "src/a.py"]);
    assert_eq!(fsio::read(&corpus.path.join("hard.py")).unwrap(), b"a = 1\n");
    assert!(corpus.path.join("run.sh").metadata().unwrap().permissions().mode() & 0o111 != 0);
    assert_eq!(corpus.path.join("src").metadata().unwrap().permissions().mode() & 0o222, 0);
    assert_eq!(tree::scan(&corpus.path).unwrap(), corpus.tree);
    assert_eq!(corpus.digest, corpus.tree.digest());
    assert!(corpus.origin.starts_with("archive x.tar.gz, SHA-256 "), "{}", corpus.origin);
    assert_eq!(corpus.sha256.as_ref().unwrap().len(), 64);
    assert_eq!(corpus.notes.len(), 1, "{:?}", corpus.notes);
    assert_eq!(corpora.peek(&source, None), Some(corpus.digest));
    // The same files from a folder are the same corpus.
    let copy = env.path("copy");
    tree::copy(&corpus.path, &copy).unwrap();
    let folder = corpora.fetch("x", &Source::Folder(copy), None).unwrap();
    assert_eq!((folder.digest, folder.path), (corpus.digest, corpus.path));
    let inner = corpora.fetch("x", &source, Some("src/")).unwrap();
    assert_eq!(paths(&inner), ["a.py"]);
    let absent = corpora.fetch("x", &source, Some("lib")).unwrap_err();
    assert!(matches!(absent, CorpusError::NoSubdir { .. }), "{absent}");
    assert!(corpora.fetch("x", &source, Some("../x")).is_err());
}

#[test]
fn hostile_archives_are_refused() {
    type Fill = Box<dyn FnOnce(&mut Builder<Vec<u8>>)>;
    let cases: Vec<(&str, Fill)> = vec![
        ("not a plain path", Box::new(|b| file(b, "top/../../evil.py", "x"))),
        ("not a plain path", Box::new(|b| file(b, "/etc/evil.py", "x"))),
        ("not a plain path", Box::new(|b| file(b, "..", "x"))),
        ("not a plain path", Box::new(|b| special(b, EntryType::Directory, "top/../../d/", ""))),
        ("leads out", Box::new(|b| special(b, EntryType::Symlink, "top/l", "/etc/passwd"))),
        ("leads out", Box::new(|b| special(b, EntryType::Symlink, "top/l", "../../x"))),
        (
            "leads out",
            Box::new(|b| {
                file(b, "top/a/b/c.py", "x");
                special(b, EntryType::Symlink, "top/a/b/up", "../..");
                special(b, EntryType::Symlink, "top/l", "a/b/up/../x");
            }),
        ),
        (
            "which is no folder",
            Box::new(|b| {
                special(b, EntryType::Symlink, "top/l", "/tmp");
                file(b, "top/l/evil.py", "x");
            }),
        ),
        ("leads to no file", Box::new(|b| special(b, EntryType::Link, "top/l", "/etc/passwd"))),
        ("leads to no file", Box::new(|b| special(b, EntryType::Link, "top/l", "../../etc/passwd"))),
        ("is a device", Box::new(|b| special(b, EntryType::Char, "top/null", ""))),
        ("is a device", Box::new(|b| special(b, EntryType::Block, "top/sda", ""))),
        ("is a pipe", Box::new(|b| special(b, EntryType::Fifo, "top/pipe", ""))),
        ("unknown kind", Box::new(|b| special(b, EntryType::GNUSparse, "top/sparse", ""))),
        (
            "only in case",
            Box::new(|b| {
                file(b, "top/Readme.md", "x");
                file(b, "top/README.md", "y");
            }),
        ),
        (
            "only in case",
            Box::new(|b| {
                file(b, "top/Src/a.py", "x");
                file(b, "top/src/b.py", "y");
            }),
        ),
        (
            "occurs twice",
            Box::new(|b| {
                file(b, "top/a.py", "x");
                file(b, "top/a.py", "y");
            }),
        ),
        (
            "not UTF-8",
            Box::new(|b| {
                b.append(&entry(EntryType::Regular, b"top/\xff.py", b"", 0, 0o644), &b""[..]).unwrap();
            }),
        ),
        ("control characters", Box::new(|b| file(b, "top/a\nb.py", "x"))),
        (
            "two sizes",
            Box::new(|b| {
                b.append_pax_extensions([("size", b"512".as_slice())]).unwrap();
                file(b, "top/a.py", "x");
            }),
        ),
        (
            "absurd size",
            Box::new(|b| {
                let size = 1 << 20;
                let header = entry(EntryType::GNULongName, b"././@LongLink", b"", size, 0o644);
                b.append(&header, std::io::repeat(b'a').take(size)).unwrap();
                file(b, "top/a.py", "x");
            }),
        ),
        (
            // 300 MiB of zeros pack into some 300 KiB.
            "absurd size",
            Box::new(|b| {
                for n in 0..3 {
                    let size = 100 << 20;
                    let header = entry(EntryType::Regular, format!("top/{n}").as_bytes(), b"", size, 0o644);
                    b.append(&header, std::io::repeat(0).take(size)).unwrap();
                }
            }),
        ),
    ];
    for (nth, (wanted, fill)) in cases.into_iter().enumerate() {
        let env = Env::new();
        let source = env.packed(|b| {
            file(b, "top/good.py", "good");
            fill(b);
        });
        let error = env.refused(&source);
        assert!(error.contains(wanted), "case {nth}: {error}");
    }
}

#[test]
fn damaged_and_oversized_archives_are_refused() {
    let env = Env::new();
    let mut builder = Builder::new(Vec::new());
    file(&mut builder, "top/a.py", &"x".repeat(5000));
    let whole = builder.into_inner().unwrap();
    let cut = env.gzipped(&whole[..2000]);
    let error = env.refused(&cut);
    assert!(error.contains("in the middle") || error.contains("damaged"), "{error}");
    let path = env.path("plain.tar.gz");
    fsio::write_plain(&path, &whole).unwrap();
    assert!(env.refused(&Source::File(path)).contains("no gzipped tar"));
    let lie = env.packed(|b| {
        let header = entry(EntryType::Regular, b"top/a", b"", 1 << 60, 0o644);
        b.append(&header, &b"x"[..]).unwrap();
    });
    assert!(env.refused(&lie).contains("larger than"));
    let many = env.packed(|b| {
        for n in 0..50 {
            file(b, &format!("top/{n}.py"), "0123456789");
        }
    });
    for (limits, wanted) in [
        (Limits { entries: 49, ..Limits::CORPUS }, "more than 49 entries"),
        (Limits { file: 9, ..Limits::CORPUS }, "larger than 9 bytes"),
        (Limits { total: 499, ..Limits::CORPUS }, "more than 499 bytes"),
    ] {
        let corpora = env.corpora().with_limits(limits);
        let error = corpora.fetch("x", &many, None).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
    let empty = env.packed(|b| special(b, EntryType::Directory, "top/", ""));
    assert!(matches!(env.corpora().fetch("x", &empty, None), Err(CorpusError::Empty(_))));
    let absent = Source::File(env.path("none.tar.gz"));
    assert!(matches!(env.corpora().fetch("x", &absent, None), Err(CorpusError::NotThere { .. })));
}

fn blob(repository: &Repository, text: &[u8]) -> Oid {
    repository.blob(text).unwrap()
}

fn commit(repository: &Repository, tree: Oid) -> String {
    let who = Signature::now("a", "a@example.org").unwrap();
    let tree = repository.find_tree(tree).unwrap();
    let oid = repository.commit(Some("HEAD"), &who, &who, "all", &tree, &[]).unwrap();
    repository.tag_lightweight("v1.0", repository.find_commit(oid).unwrap().as_object(), false).unwrap();
    oid.to_string()
}

#[test]
fn a_commit_is_read_without_hooks_filters_submodules_and_links_out() {
    let env = Env::new();
    let root = env.path("repository");
    let repository = Repository::init(&root).unwrap();
    let witness = env.path("witness");
    let hook = format!("#!/bin/sh\ntouch {}\n", witness.display());
    for name in ["post-checkout", "post-index-change", "reference-transaction"] {
        let path = root.join(".git/hooks").join(name);
        fsio::write_plain(&path, hook.as_bytes()).unwrap();
        tree::set_executable(&path).unwrap();
    }
    let mut config = repository.config().unwrap();
    config.set_str("filter.evil.smudge", &format!("touch {}", witness.display())).unwrap();
    config.set_str("core.autocrlf", "true").unwrap();
    config.set_str("core.fsmonitor", &format!("touch {}", witness.display())).unwrap();
    let mut src = repository.treebuilder(None).unwrap();
    src.insert("a.py", blob(&repository, b"a = 1\n"), FileMode::Blob.into()).unwrap();
    src.insert("run", blob(&repository, b"ls\n"), FileMode::BlobExecutable.into()).unwrap();
    let src = src.write().unwrap();
    let mut top = repository.treebuilder(None).unwrap();
    top.insert("src", src, FileMode::Tree.into()).unwrap();
    top.insert(".gitattributes", blob(&repository, b"*.py filter=evil\n"), FileMode::Blob.into()).unwrap();
    top.insert("in", blob(&repository, b"src/a.py"), FileMode::Link.into()).unwrap();
    top.insert("out", blob(&repository, b"../../etc/passwd"), FileMode::Link.into()).unwrap();
    top.insert("abs", blob(&repository, b"/etc/passwd"), FileMode::Link.into()).unwrap();
    top.insert("README", blob(&repository, b"1"), FileMode::Blob.into()).unwrap();
    top.insert("readme", blob(&repository, b"2"), FileMode::Blob.into()).unwrap();
    top.insert(b"b\xffd".as_slice(), blob(&repository, b"3"), FileMode::Blob.into()).unwrap();
    let submodule = Oid::from_str("0123456789abcdef0123456789abcdef01234567").unwrap();
    top.insert("module", submodule, FileMode::Commit.into()).unwrap();
    top.insert(
        "big.bin",
        blob(&repository, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"),
        FileMode::Blob.into(),
    )
    .unwrap();
    let hash = commit(&repository, top.write().unwrap());

    let corpora = env.corpora();
    let at = |commit: &str| Source::Checkout { path: root.clone(), commit: commit.to_owned() };
    assert_eq!(corpora.peek(&at("v1.0"), None), None);
    let corpus = corpora.fetch("x", &at("v1.0"), None).unwrap();
    assert_eq!(paths(&corpus), [".gitattributes", "README", "big.bin", "in", "src/a.py", "src/run"]);
    assert_eq!(fsio::read(&corpus.path.join("src/a.py")).unwrap(), b"a = 1\n");
    assert!(!witness.exists());
    assert!(corpus.origin.contains(&hash) && !corpus.origin.contains('/'), "{}", corpus.origin);
    let notes = corpus.notes.join("\n");
    for wanted in ["`out`", "`abs`", "`readme` differs", "not UTF-8", "`module` is a submodule", "pointers"] {
        assert!(notes.contains(wanted), "{wanted}: {notes}");
    }
    // A short hash, a moved repository and another address of the commit are the same.
    assert_eq!(corpora.peek(&at(&hash[..8]), None), Some(corpus.digest));
    let moved = env.path("moved");
    fsio::rename(&root, &moved).unwrap();
    let again = Source::Checkout { path: moved, commit: hash.clone() };
    assert_eq!(corpora.peek(&again, None), Some(corpus.digest));
    let remote = Source::Git { url: "https://example.org/x.git".to_owned(), commit: hash };
    assert_eq!(corpora.fetch("x", &remote, None).unwrap().digest, corpus.digest);
    let inner = corpora.fetch("x", &again, Some("src")).unwrap();
    assert_eq!(paths(&inner), ["a.py", "run"]);
    let error = corpora.fetch("x", &again, Some("in")).unwrap_err();
    assert!(matches!(error, CorpusError::NoSubdir { .. }), "{error}");
    let unknown = Source::Checkout { path: env.path("moved"), commit: "v9".to_owned() };
    assert!(matches!(corpora.fetch("x", &unknown, None), Err(CorpusError::Git { .. })));
    let none = Source::Checkout { path: env.path("nowhere"), commit: "v9".to_owned() };
    assert!(matches!(corpora.fetch("x", &none, None), Err(CorpusError::NotThere { .. })));
}

#[test]
fn a_folder_is_its_content_and_nothing_else() {
    let env = Env::new();
    let root = env.path("code");
    for (path, text) in [
        ("src/a.py", "a = 1\n"),
        ("src/b.py", "b = 1\n"),
        ("docs/x.md", "# x\n"),
        (".gitignore", "*.log\n"),
        ("noise.log", "noise"),
        (".git/HEAD", "ref: x"),
        (".proofline/x", "x"),
    ] {
        fsio::write_plain(&root.join(path), text.as_bytes()).unwrap();
    }
    symlink("a.py", root.join("src/alias.py")).unwrap();
    let corpora = env.corpora();
    let source = Source::Folder(root.clone());
    let seen = corpora.peek(&source, None).unwrap();
    let corpus = corpora.fetch("x", &source, None).unwrap();
    assert_eq!(corpus.digest, seen);
    assert_eq!(paths(&corpus), [".gitignore", "docs/x.md", "src/a.py", "src/alias.py", "src/b.py"]);
    let inner = corpora.fetch("x", &source, Some("src")).unwrap();
    assert_eq!(paths(&inner), ["a.py", "alias.py", "b.py"]);
    assert_eq!(corpora.peek(&source, Some("src")), Some(inner.digest));

    // Times, what is ignored, and the folder's place don't matter; content does.
    for path in ["src/a.py", "src/b.py", "docs/x.md"] {
        let file = std::fs::File::options().write(true).open(root.join(path)).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    fsio::write_plain(&root.join("more.log"), b"noise").unwrap();
    assert_eq!(corpora.peek(&source, None), Some(seen));
    let moved = env.path("elsewhere/code2");
    fsio::create_dir(moved.parent().unwrap()).unwrap();
    fsio::rename(&root, &moved).unwrap();
    let source = Source::Folder(moved.clone());
    assert_eq!(corpora.peek(&source, None), Some(seen));
    fsio::write_plain(&moved.join("src/a.py"), b"a = 2\n").unwrap();
    assert_ne!(corpora.peek(&source, None), Some(seen));
    fsio::write_plain(&moved.join("src/a.py"), b"a = 1\n").unwrap();
    assert_eq!(corpora.peek(&source, None), Some(seen));

    // A private copy may be written to; the check tells what was.
    let copy = env.path("private");
    tree::copy(&corpus.path, &copy).unwrap();
    assert!(check_copy(&copy, &corpus.tree, &[]).is_empty());
    fsio::write_plain(&copy.join("src/a.py"), b"server was here").unwrap();
    fsio::write_plain(&copy.join(".idx/db"), b"index").unwrap();
    assert_eq!(check_copy(&copy, &corpus.tree, &[".idx/".to_owned()]), ["changed: src/a.py"]);
    assert_eq!(tree::scan(&corpus.path).unwrap(), corpus.tree);

    symlink("/etc/passwd", moved.join("src/out")).unwrap();
    assert_eq!(corpora.peek(&source, None), None);
    let error = corpora.fetch("x", &source, None).unwrap_err().to_string();
    assert!(error.contains("`src/out` leads out"), "{error}");
    let gone = corpora.fetch("x", &Source::Folder(env.path("none")), None).unwrap_err();
    assert!(matches!(gone, CorpusError::NotThere { .. }), "{gone}");
}

#[test]
fn a_changed_export_is_made_again() {
    let env = Env::new();
    let source = env.packed(|b| {
        file(b, "top/a.py", "a = 1\n");
        file(b, "top/b.py", "b = 1\n");
    });
    let corpora = env.corpora();
    let corpus = corpora.fetch("x", &source, None).unwrap();
    let damages: [fn(&Path); 5] = [
        |root| fsio::write_plain(&root.join("a.py"), b"a = 2\n").unwrap(),
        |root| std::fs::remove_file(root.join("b.py")).unwrap(),
        |root| fsio::write_plain(&root.join("new.py"), b"").unwrap(),
        |root| {
            std::fs::remove_file(root.join("a.py")).unwrap();
            symlink("b.py", root.join("a.py")).unwrap();
        },
        |root| fsio::write_plain(&root.join("../listing"), b"{}\n").unwrap(),
    ];
    for damage in damages {
        tree::make_writable(&corpus.path).unwrap();
        damage(&corpus.path);
        let again = corpora.fetch("x", &source, None).unwrap();
        assert_eq!(again.digest, corpus.digest);
        assert_eq!(tree::scan(&again.path).unwrap(), corpus.tree);
        assert_eq!(fsio::read(&again.path.join("a.py")).unwrap(), b"a = 1\n");
    }
    assert_eq!(std::fs::read_dir(env.path("cache/tmp")).unwrap().count(), 0);
}

#[test]
fn many_may_fetch_at_once() {
    let env = Env::new();
    let source = env.packed(|b| {
        for n in 0..200 {
            file(b, &format!("top/{n}.py"), &format!("x = {n}\n"));
        }
    });
    let digests: Vec<_> = std::thread::scope(|scope| {
        let all: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let corpora = env.corpora();
                    (0..3).map(|_| corpora.fetch("x", &source, None).unwrap().digest).collect::<Vec<_>>()
                })
            })
            .collect();
        all.into_iter().flat_map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(digests.len(), 24);
    assert!(digests.windows(2).all(|pair| pair[0] == pair[1]));
    assert_eq!(std::fs::read_dir(env.path("cache/trees")).unwrap().count(), 1);
    assert_eq!(std::fs::read_dir(env.path("cache/tmp")).unwrap().count(), 0);
}

#[test]
fn offline_says_what_it_would_need() {
    let env = Env::new();
    let commit = "0123456789abcdef0123456789abcdef01234567".to_owned();
    for source in [
        Source::Git { url: "https://example.org/x.git".to_owned(), commit },
        archive_source(Registry::Pypi, "flask==3.1.0", None).unwrap(),
    ] {
        assert_eq!(env.corpora().peek(&source, None), None);
        let error = env.corpora().fetch("flask", &source, None).unwrap_err();
        assert!(matches!(error, CorpusError::Offline { .. }), "{error}");
        assert!(error.to_string().contains("`flask`"));
    }
    let evil = Source::Git { url: "ext::sh -c evil".to_owned(), commit: "0".repeat(40) };
    assert!(matches!(env.corpora().fetch("x", &evil, None), Err(CorpusError::Source(_))));
    let evil = Source::Archive {
        registry: Registry::Pypi,
        name: "--requirement=/etc/passwd".to_owned(),
        version: "1".to_owned(),
        sha256: None,
    };
    assert!(matches!(env.corpora().fetch("x", &evil, None), Err(CorpusError::Source(_))));
}

#[test]
fn the_embedded_sample_is_a_corpus() {
    let env = Env::new();
    let source = Source::Embedded("sample".to_owned());
    let seen = env.corpora().peek(&source, None).unwrap();
    let corpus = env.corpora().fetch("sample", &source, None).unwrap();
    assert_eq!(corpus.digest, seen);
    assert!(corpus.tree.entries.len() > 20);
    let known = known_answer(&corpus.path, &corpus.tree).unwrap();
    assert!(corpus.path.join(&known.file).is_file());
    assert_eq!(known_answer(&corpus.path, &corpus.tree).unwrap(), known);
    for name in ["none", "../presets", "", "sample/x"] {
        let source = Source::Embedded(name.to_owned());
        assert!(
            matches!(env.corpora().fetch("x", &source, None), Err(CorpusError::NotEmbedded(_))),
            "{name}"
        );
    }
}

/// Run by the test below in a process whose pip knows a local folder only.
#[test]
fn inner_fetch_of_a_local_distribution() {
    let Some(dir) = std::env::args().find_map(|arg| arg.strip_prefix("corpus_local_").map(str::to_owned))
    else {
        return;
    };
    let dir = PathBuf::from(dir.replace("__", "/"));
    let corpora = Corpora::new(dir.join("cache"), false);
    let source = archive_source(Registry::Pypi, "proofline-probe==1.0", None).unwrap();
    let corpus = corpora.fetch("probe", &source, None).unwrap();
    assert_eq!(paths(&corpus), ["PKG-INFO", "proofline_probe.py", "pyproject.toml", "setup.py"]);
    assert!(corpus.origin.starts_with("proofline-probe 1.0 source distribution, SHA-256 "));
    let sum = corpus.sha256.clone().unwrap();
    // From the cache now, also offline, also when the pin is known.
    let pinned = archive_source(Registry::Pypi, "proofline-probe==1.0", Some(&sum)).unwrap();
    let offline = Corpora::new(dir.join("cache"), true);
    assert_eq!(offline.peek(&pinned, None), Some(corpus.digest));
    assert_eq!(offline.fetch("probe", &pinned, None).unwrap().digest, corpus.digest);
    assert_eq!(paths(&offline.fetch("probe", &source, None).unwrap()).len(), 4);
    let other = archive_source(Registry::Pypi, "proofline-probe==1.0", Some(&"0".repeat(64))).unwrap();
    assert_eq!(corpora.peek(&other, None), None);
    let error = corpora.fetch("probe", &other, None).unwrap_err();
    assert!(matches!(error, CorpusError::Pin { .. }), "{error}");
    assert!(error.to_string().contains(&sum) && error.to_string().contains(&"0".repeat(64)));
    let absent = archive_source(Registry::Pypi, "proofline-probe==2.0", None).unwrap();
    let error = corpora.fetch("probe", &absent, None).unwrap_err().to_string();
    assert!(error.contains("pip could not fetch proofline-probe 2.0"), "{error}");
    assert!(error.contains("2.0"), "{error}");
    println!("inner fetch done");
}

#[test]
fn a_source_distribution_comes_without_running_its_build_code() {
    let python = Command::new("python3").args(["-I", "-c", "import pip"]).output();
    if !python.is_ok_and(|out| out.status.success()) {
        println!("skipped: no python3 with pip");
        return;
    }
    let env = Env::new();
    let witness = env.path("witness");
    let setup = format!(
        "open({:?}, 'w').write('x')\nfrom setuptools import setup\nsetup()\n",
        witness.display().to_string()
    );
    let backend = format!(
        "[build-system]\nrequires = []\nbuild-backend = \"proofline_probe\"\nbackend-path = [\".\"]\n# {}\n",
        witness.display()
    );
    let mut builder = Builder::new(Vec::new());
    let top = "proofline_probe-1.0";
    file(
        &mut builder,
        &format!("{top}/PKG-INFO"),
        "Metadata-Version: 2.1\nName: proofline-probe\nVersion: 1.0\n",
    );
    file(&mut builder, &format!("{top}/setup.py"), &setup);
    file(&mut builder, &format!("{top}/pyproject.toml"), &backend);
    file(&mut builder, &format!("{top}/proofline_probe.py"), &setup);
    let mut gz = GzEncoder::new(Vec::new(), Compression::fast());
    gz.write_all(&builder.into_inner().unwrap()).unwrap();
    let links = env.path("links");
    fsio::write_plain(&links.join(format!("{top}.tar.gz")), &gz.finish().unwrap()).unwrap();
    let name = format!("corpus_local_{}", env.dir.path().display().to_string().replace('/', "__"));
    let out = Command::new(std::env::current_exe().unwrap())
        .args(["--nocapture", "inner_fetch_of_a_local_distribution", "--skip", &name])
        .env("PIP_NO_INDEX", "1")
        .env("PIP_FIND_LINKS", &links)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success() && said.contains("inner fetch done"), "{said}");
    assert!(!witness.exists(), "the package's build code was run");
}

const REPOS: &str = r#"
format = 1
[repo.code]
path = "code"
known = { symbol = "Ledger", question = "where is Ledger?", file = "src/ledgr.py" }
"#;

const QUESTIONS: &str = r#"
format = 1
repo = "code"
[[warmup]]
id = "w1"
prompt = "Where does it start?"
[[question]]
id = "good"
kind = "locate"
difficulty = "easy"
prompt = "where is the ledger?"
files = ["src/ledger.py"]
symbols = ["Ledger", "Ledger.post"]
mentions = ["Decimal"]
content = ["    return Decimal(amount) / 100"]
[[question]]
id = "Bad Id"
kind = "locate"
difficulty = "easy"
prompt = "Where is  THE ledger?"
files = ["src/ledger.py", "src/legder.py", "../x", "util/index.js"]
symbols = ["Decimal", "phantom", "quoted_only", "nowhere_at_all", "elsewhere"]
mentions = ["phantom", "Ledger", "missing_one"]
content = ["too short", "this line is not in the file at all"]
[[question]]
id = "good"
kind = "locate"
difficulty = "easy"
prompt = "where does it   start?"
files = ["notes.txt", "index.js"]
symbols = ["remembered"]
[[question]]
id = "none"
kind = "locate"
difficulty = "easy"
prompt = "and?"
"#;

#[test]
fn a_dataset_is_held_against_its_code() {
    let env = Env::new();
    let root = env.path("code");
    for (path, text) in [
        (
            "src/ledger.py",
            "from decimal import Decimal\n\n\nclass Ledger:\n    # phantom is only told of\n    def post(self, amount):\n        text = \"quoted_only\"\n        return text\n\n\ndef convert(amount):\n    return Decimal(amount) / 100\n",
        ),
        ("src/other.py", "def elsewhere():\n    pass\n"),
        ("notes.txt", "remembered here\n"),
        ("index.js", "export const a = 1;\n"),
        ("util/index.js", "export const b = 1;\n"),
    ] {
        fsio::write_plain(&root.join(path), text.as_bytes()).unwrap();
    }
    let corpus = env.corpora().fetch("code", &Source::Folder(root), None).unwrap();
    let corpora = BTreeMap::from([("code".to_owned(), corpus)]);
    let repos: Repos = read_back(REPOS).unwrap();
    let set: QuestionSet = read_back(QUESTIONS).unwrap();
    let stray: QuestionSet = read_back("format = 1\nrepo = \"cod\"\n").unwrap();
    let found = verify(&repos, &[set, stray], &corpora);
    let shown: Vec<(Severity, &str, String)> = found
        .iter()
        .map(|problem| {
            let file = match problem.file {
                Place::Repos => "repos".to_owned(),
                Place::Set(nth) => format!("set{nth}"),
            };
            let path = format!("{file}.{}", problem.path);
            (problem.severity, problem.code, path)
        })
        .collect();
    let (error, warning) = (Severity::Error, Severity::Warning);
    let wanted = [
        (error, "missing-file", "repos.repo.code.known.file"),
        (error, "bad-id", "set0.question[1].id"),
        (error, "duplicate-prompt", "set0.question[1].prompt"),
        (error, "duplicate-id", "set0.question[2].id"),
        (error, "warm-up-question", "set0.question[2].prompt"),
        (error, "missing-file", "set0.question[1].files[1]"),
        (error, "bad-path", "set0.question[1].files[2]"),
        (error, "symbol-not-defined", "set0.question[1].symbols[0]"),
        (error, "symbol-in-comment", "set0.question[1].symbols[1]"),
        (error, "symbol-in-comment", "set0.question[1].symbols[2]"),
        (error, "symbol-not-found", "set0.question[1].symbols[3]"),
        (error, "symbol-not-found", "set0.question[1].symbols[4]"),
        (error, "mention-in-comment", "set0.question[1].mentions[0]"),
        (warning, "mention-defined", "set0.question[1].mentions[1]"),
        (error, "mention-not-found", "set0.question[1].mentions[2]"),
        (error, "short-content", "set0.question[1].content[0]"),
        (error, "content-not-found", "set0.question[1].content[1]"),
        (warning, "crowded-name", "set0.question[2].files[1]"),
        (warning, "text-only", "set0.question[2].symbols[0]"),
        (error, "no-file", "set0.question[3].files"),
        (error, "unknown-repo", "set1.repo"),
    ];
    let wanted: Vec<(Severity, &str, String)> =
        wanted.into_iter().map(|(severity, code, path)| (severity, code, path.to_owned())).collect();
    assert_eq!(shown, wanted);
    let help = |code: &str| found.iter().find(|p| p.code == code).unwrap().help.clone().unwrap();
    assert_eq!(help("missing-file"), "did you mean `src/ledger.py`?");
    assert_eq!(help("unknown-repo"), "did you mean `code`?");
    let elsewhere = found.iter().rfind(|p| p.code == "symbol-not-found").unwrap();
    assert_eq!(elsewhere.help.as_deref(), Some("it is defined in `src/other.py`"));
    assert_eq!(
        elsewhere.to_string(),
        "Bad Id: `elsewhere` does not occur in `src/ledger.py`, `util/index.js`"
    );
}
