//! Archives of code: what is taken in lies in the cache, and nowhere else.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proofline::corpus::{Corpora, Limits, Source};
use proofline::fsio::{self, tree};
use tar::{Builder, EntryType, Header};

use crate::mutate::fuzz;

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn sound() -> Vec<u8> {
    let mut builder = Builder::new(Vec::new());
    let mut add = |kind: EntryType, name: &str, link: &str, content: &[u8]| {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        let old = header.as_old_mut();
        old.name[..name.len()].copy_from_slice(name.as_bytes());
        old.linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        builder.append(&header, content).unwrap();
    };
    add(EntryType::Directory, "top/", "", b"");
    add(EntryType::Regular, "top/a.py", "", b"a = 1\n");
    add(EntryType::Symlink, "top/link", "a.py", b"");
    add(EntryType::Link, "top/hard", "top/a.py", b"");
    add(EntryType::GNULongName, "././@LongLink", "", b"top/a/long/name/of/a/file\0");
    add(EntryType::Regular, "short", "", b"x");
    add(EntryType::XHeader, "pax", "", b"20 path=top/pax.txt\n");
    add(EntryType::Regular, "top/p", "", b"y");
    builder.into_inner().unwrap()
}

/// Every header of a tar file gets the checksum that it should have, as an attacker would see to.
pub(crate) fn signed(tar: &[u8]) -> Vec<u8> {
    let mut out = tar.to_vec();
    for block in out.chunks_exact_mut(512).filter(|block| block[257..262] == *b"ustar") {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|b| u32::from(*b)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    out
}

#[test]
fn archives() {
    let dir = tempfile::tempdir().unwrap();
    let outer = dir.path().join("outer");
    let file = dir.path().join("x.tar.gz");
    let limits = Limits { entries: 200, file: 1 << 20, total: 4 << 20, ratio: 100 };
    let words = [
        "../",
        "/",
        "/etc/passwd",
        "top/link/x",
        "..",
        ".git/",
        "a.py",
        "A.PY",
        "\0",
        "7777777",
        "ustar  \0",
    ];
    fuzz("archives", &[sound()], &words, |bytes| {
        for packed in [gzipped(bytes), gzipped(&signed(bytes)), bytes.to_vec()] {
            let _ = fsio::remove_dir(&outer);
            fsio::write_plain(&file, &packed).unwrap();
            let corpora = Corpora::new(outer.join("cache"), true).with_limits(limits);
            if let Ok(corpus) = corpora.fetch("x", &Source::File(file.clone()), None) {
                assert_eq!(tree::scan(&corpus.path).unwrap(), corpus.tree);
                assert!(corpus.tree.bytes() <= limits.total && corpus.tree.entries.len() <= limits.entries);
                let root = corpus.path.canonicalize().unwrap();
                for entry in &corpus.tree.entries {
                    let real = corpus.path.join(&entry.path).canonicalize();
                    assert!(real.is_err() || real.unwrap().starts_with(&root), "{}", entry.path);
                }
            }
            if let Ok(beside) = std::fs::read_dir(&outer) {
                assert!(beside.flatten().all(|entry| entry.file_name() == "cache"));
            }
        }
    });
}
