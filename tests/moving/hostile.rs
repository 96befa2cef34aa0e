//! Archives and remotes that lie: refused with words, and nothing is written
//! that isn't what it says.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;

use proofline::digest::Digest;
use serde_json::{Value, json};
use tar::{Archive, Builder, EntryType, Header};

use super::{Place, exported};

/// What is made of a file of an archive; none leaves it out.
type Edit<'a> = Box<dyn Fn(String, Vec<u8>) -> Option<(String, Vec<u8>)> + 'a>;

/// Files of an archive in their order.
fn files(archive: &Path) -> Vec<(String, Vec<u8>)> {
    let mut archive = Archive::new(std::fs::File::open(archive).unwrap());
    let one = |entry: std::io::Result<tar::Entry<'_, std::fs::File>>| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (name, bytes)
    };
    archive.entries().unwrap().map(one).collect()
}

/// Copies an archive, with what `edit` makes of each file.
pub(crate) fn rewrite(
    from: &Path,
    to: &Path,
    mut edit: impl FnMut(String, Vec<u8>) -> Option<(String, Vec<u8>)>,
) {
    let mut tar = Builder::new(std::fs::File::create_new(to).unwrap());
    for (name, bytes) in files(from) {
        if let Some((name, bytes)) = edit(name, bytes) {
            add(&mut tar, &name, EntryType::Regular, &bytes, None);
        }
    }
    tar.finish().unwrap();
}

/// Adds an entry, however wrong its name is.
fn add(tar: &mut Builder<impl Write>, name: &str, kind: EntryType, bytes: &[u8], link: Option<&str>) {
    let mut header = Header::new_ustar();
    if header.set_path(name).is_err() {
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
    }
    if let Some(link) = link {
        header.set_link_name(link).unwrap();
    }
    header.set_entry_type(kind);
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    header.set_cksum();
    tar.append(&header, bytes).unwrap();
}

/// Whether a name is that of a signature.
pub(crate) fn is_signature(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|e| e == "sig")
}

/// A frame as the store writes it.
fn frame(kind: u8, zstd: bool, raw: u64, payload: &[u8], digest: &Digest) -> Vec<u8> {
    let mut out = b"PLF1".to_vec();
    out.extend([kind, u8::from(zstd), 0, 0]);
    out.extend(raw.to_le_bytes());
    out.extend((payload.len() as u64).to_le_bytes());
    out.extend(digest.bytes());
    out.extend(payload);
    out
}

fn object_name(digest: &Digest) -> String {
    let hex = digest.hex();
    format!("objects/{}/{}", &hex[..2], &hex[2..])
}

/// All files below a folder with their bytes, but for those that may change by looking.
fn tree(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let list = proofline::fsio::tree::list(root).unwrap();
    list.into_iter().map(|path| (path.clone(), std::fs::read(root.join(&path)).unwrap_or_default())).collect()
}

#[test]
fn an_archive_that_is_none_is_refused_whole() {
    let (a, archive, _) = exported();
    let b = Place::new();
    b.trust(&a.identity());
    let good = files(&archive);
    let zero = Digest::of(b"nobody has this");
    let object = object_name(&zero);
    let empty = frame(b'O', false, 0, b"", &zero);
    let upper = object.replace('f', "F");
    let names: [(&str, &str); 9] = [
        ("../evil", "no name of an archive"),
        ("/tmp/proofline-evil", "no name of an archive"),
        ("objects/../../evil", "no name of an archive"),
        ("records/x/y.json", "no name of an archive"),
        ("packs/p.pack", "no name of an archive"),
        ("index.sqlite", "no name of an archive"),
        (&upper, "no name of an archive"),
        ("FORMAT", "no name of an archive"),
        ("format", "is in it twice"),
    ];
    let outside = b.outside("");
    let check = |what: &str, words: &str, archive: &Path| {
        let before = tree(&b.env.path("datasets"));
        let said = b.import(archive);
        assert_eq!(said.code, 3, "{what}: {} {}", said.stdout, said.stderr);
        let json = said.json();
        let why = json["refused"][0]["why"].as_str().unwrap();
        assert!(why.contains(words), "{what}: {why}");
        assert_eq!((&json["records"], &json["exit"]), (&json!(0), &json!(3)), "{what}");
        let stats = b.run(&["store", "stats", "--json"]).ok().json();
        assert_eq!(stats["records"], 0, "{what}");
        assert_eq!(tree(&b.env.path("datasets")), before);
        assert!(!outside.join("evil").exists() && !Path::new("/tmp/proofline-evil").exists(), "{what}");
        std::fs::remove_file(archive).unwrap();
    };
    let build = |entries: &dyn Fn(&mut Builder<std::fs::File>)| {
        let path = b.outside("hostile.tar");
        let mut tar = Builder::new(std::fs::File::create_new(&path).unwrap());
        entries(&mut tar);
        tar.finish().unwrap();
        path
    };
    let all = |tar: &mut Builder<std::fs::File>| {
        for (name, bytes) in &good {
            add(tar, name, EntryType::Regular, bytes, None);
        }
    };
    for (name, words) in names {
        let path = build(&|tar| {
            all(tar);
            add(tar, name, EntryType::Regular, b"x", None);
        });
        check(name, words, &path);
    }
    for (kind, words) in [
        (EntryType::Symlink, "is a link"),
        (EntryType::Link, "is a link"),
        (EntryType::Char, "is a device"),
        (EntryType::Block, "is a device"),
        (EntryType::Fifo, "is a pipe"),
        (EntryType::XHeader, "of an unknown kind"),
        (EntryType::GNULongName, "of an unknown kind"),
        (EntryType::GNUSparse, "of an unknown kind"),
        (EntryType::new(b'Z'), "of an unknown kind"),
    ] {
        let link = matches!(kind, EntryType::Symlink | EntryType::Link).then_some("/etc/passwd");
        let path = build(&|tar| {
            all(tar);
            add(tar, &object, kind, b"", link);
        });
        check(words, words, &path);
    }
    let path = build(&|tar| {
        all(tar);
        add(tar, "secrets/", EntryType::Directory, b"", None);
    });
    check("folder", "a folder that does not belong there", &path);
    let path = build(&|tar| add(tar, &object, EntryType::Regular, &empty, None));
    check("no format", "doesn't begin with the file `format`", &path);
    let path = build(&|tar| add(tar, "format", EntryType::Regular, b"proofline results 9\n", None));
    check("another format", "this program reads `proofline results 1`", &path);
    // A claim of eight exbibytes takes no memory.
    let path = build(&|tar| {
        all(tar);
        let mut header = Header::new_ustar();
        header.set_path(&object).unwrap();
        header.set_entry_type(EntryType::Regular);
        header.set_size(1 << 29);
        header.set_cksum();
        tar.get_mut().write_all(header.as_bytes()).unwrap();
    });
    check("a size beyond its end", "in the middle of", &path);
    let path = build(&|tar| {
        all(tar);
        add(tar, &format!("records/{zero}/{zero}.json.sig"), EntryType::Regular, &[b'x'; 9999], None);
    });
    check("a large signature", "more than the 256 that are taken", &path);

    // Cut off anywhere.
    let whole = std::fs::read(&archive).unwrap();
    for (what, end) in
        [("at an entry", 1024), ("in the middle", whole.len() / 2 + 77), ("its end", whole.len() - 1024)]
    {
        let path = b.outside("hostile.tar");
        std::fs::write(&path, &whole[..end]).unwrap();
        check(what, "", &path);
    }
    let path = b.outside("hostile.tar");
    std::fs::write(&path, b"PK\x03\x04 something else").unwrap();
    check("no tar", "no archive", &path);
    std::fs::write(&path, [&whole[..], b"more", &[0; 2048]].concat()).unwrap();
    check("something behind the end", "behind its end", &path);
    // All the same, the sound one is taken.
    b.import(&archive).ok();
    assert!(b.executed().is_empty());
    b.sound();
}

#[test]
fn a_file_of_an_archive_that_lies_takes_its_records_along() {
    let (a, archive, count) = exported();
    let good = files(&archive);
    let is_record =
        |name: &str| name.starts_with("records/") && Path::new(name).extension().is_some_and(|e| e == "json");
    let summary: Vec<&(String, Vec<u8>)> = good
        .iter()
        .filter(|(name, bytes)| {
            is_record(name) && String::from_utf8_lossy(bytes).contains("\"kind\":\"aggregate\"")
        })
        .collect();
    let (record_name, record_bytes) = summary[0];
    let record: Value = serde_json::from_slice(record_bytes).unwrap();
    let part = |name: &str| -> Digest { record["parts"][name]["digest"].as_str().unwrap().parse().unwrap() };
    let result = part("result");
    let object = object_name(&result);
    let zeros = zstd_of_zeros(2 << 30);
    let replace = |victim: &str, with: Vec<u8>| -> Edit<'_> {
        let victim = victim.to_owned();
        Box::new(move |name, bytes| Some(if name == victim { (name, with.clone()) } else { (name, bytes) }))
    };
    let drop_file = |victim: &str| -> Edit<'_> {
        let victim = victim.to_owned();
        Box::new(move |name, bytes| (name != victim).then_some((name, bytes)))
    };
    let signature = format!("{record_name}.sig");
    let other_signature = good.iter().find(|(name, _)| is_signature(name) && *name != signature).unwrap();
    let bent = String::from_utf8(record_bytes.clone()).unwrap().replace("\"attempt\":1", "\"attempt\":2");
    let bent_name = {
        let (folder, _) = record_name.rsplit_once('/').unwrap();
        format!("{folder}/{}.json", Digest::of(bent.as_bytes()))
    };
    let cases: Vec<(&str, &str, Edit<'_>)> = vec![
        ("other bytes", "don't have the digest", replace(&object, frame(b'O', false, 5, b"wrong", &result))),
        (
            "its own wrong digest",
            "don't have the digest",
            replace(&object, frame(b'O', false, 5, b"wrong", &Digest::of(b"wrong"))),
        ),
        (
            "a record as an object",
            "it is no object",
            replace(&object, frame(b'R', false, 5, b"wrong", &result)),
        ),
        ("no frame", "no object of proofline", replace(&object, vec![7; 99])),
        ("too short", "too short", replace(&object, b"PLF1".to_vec())),
        (
            "a bomb that says so",
            "would unpack to",
            replace(&object, frame(b'O', true, 2 << 30, &zeros, &result)),
        ),
        (
            "a bomb that does not",
            "don't have the digest",
            replace(&object, frame(b'O', true, 1000, &zeros, &result)),
        ),
        (
            "absurd length",
            "no object of proofline",
            replace(&object, frame(b'O', true, u64::MAX, b"x", &result)),
        ),
        (
            "longer than it says",
            "cut off, or longer",
            replace(&object, [frame(b'O', false, 5, b"wrong", &result), vec![0]].concat()),
        ),
        ("an absent object", "its part `result` did not come", drop_file(&object)),
        (
            "another record's signature",
            "its signature is not that of its bytes",
            replace(&signature, other_signature.1.clone()),
        ),
        (
            "a damaged signature",
            "its signature is not that of its bytes",
            replace(&signature, b"ed25519:".to_vec()),
        ),
        ("a signature of no text", "is no text", replace(&signature, vec![0xff; 9])),
        ("a changed record", "don't have the digest", replace(record_name, bent.clone().into_bytes())),
        (
            "a changed record under its name, with the old signature",
            "its signature is not that of its bytes",
            {
                let (from, bent, to) = (record_name.clone(), bent.clone(), bent_name.clone());
                Box::new(move |name, bytes| {
                    Some(if name == from {
                        (to.clone(), bent.clone().into_bytes())
                    } else if name == format!("{from}.sig") {
                        (format!("{to}.sig"), bytes)
                    } else {
                        (name, bytes)
                    })
                })
            },
        ),
        ("a signature alone", "a signature without its record", drop_file(record_name)),
        ("a record under another key", "the record of another key", {
            let (_, file) = record_name.rsplit_once('/').unwrap();
            let to = format!("records/{}/{file}", Digest::of(b"x"));
            let from = record_name.clone();
            Box::new(move |name, bytes| {
                Some(if name == from {
                    (to.clone(), bytes)
                } else if name == format!("{from}.sig") {
                    (format!("{to}.sig"), bytes)
                } else {
                    (name, bytes)
                })
            })
        }),
        ("no record at all", "no record of this version", {
            let bytes = b"[1]".to_vec();
            let (from, to) =
                (record_name.clone(), format!("records/{}/{}.json", Digest::of(b"k"), Digest::of(&bytes)));
            Box::new(move |name, old| {
                Some(if name == from { (to.clone(), bytes.clone()) } else { (name, old) })
            })
        }),
    ];
    for (what, words, edit) in cases {
        let b = Place::new();
        b.trust(&a.identity());
        let path = b.outside("hostile.tar");
        rewrite(&archive, &path, edit);
        let said = b.import(&path);
        let json = said.json();
        assert_eq!((said.code, &json["exit"]), (3, &json!(3)), "{what}: {json}");
        let refused = json["refused"].as_array().unwrap();
        assert!(refused.iter().any(|one| one["why"].as_str().unwrap().contains(words)), "{what}: {json}");
        assert_eq!(json["records"], count - 1, "{what}: {json}");
        b.sound();
        assert_eq!(
            b.executed(),
            ["summary".to_owned()].into(),
            "{what}: the rest is used, this one is made here"
        );
    }
}

/// A zstd stream of this many zero bytes.
fn zstd_of_zeros(count: u64) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    let chunk = vec![0u8; 1 << 20];
    for _ in 0..(count >> 20) {
        encoder.write_all(&chunk).unwrap();
    }
    encoder.finish().unwrap()
}

#[test]
fn a_remote_that_lies_is_not_believed() {
    let (a, _, count) = exported();
    let remote = a.outside("remote");
    let address = remote.to_str().unwrap().to_owned();
    a.run(&["store", "push", &address]).ok();
    let record = a.run(&["show", "summary", "--json"]).ok().json()["record"].clone();
    let digest: Digest = record["parts"]["result"]["digest"].as_str().unwrap().parse().unwrap();
    let object = remote.join(object_name(&digest));
    let sound = std::fs::read(&object).unwrap();
    let pull = |words: &str, records: usize| {
        let b = Place::new();
        b.trust(&a.identity());
        let said = b.run(&["store", "pull", &address, "--json"]);
        let json = said.json();
        assert_eq!(
            (said.code, &json["records"]),
            (if words.is_empty() { 0 } else { 3 }, &json!(records)),
            "{words}: {json}"
        );
        let refused = json["refused"].as_array().unwrap();
        assert!(
            words.is_empty() || refused.iter().any(|one| one["why"].as_str().unwrap().contains(words)),
            "{words}: {json}"
        );
        b.sound();
        assert_eq!(b.executed().len(), count - records);
        b
    };
    let mut wrong = sound.clone();
    *wrong.last_mut().unwrap() ^= 1;
    std::fs::write(&object, &wrong).unwrap();
    let b = pull("don't have the digest", count - 1);
    std::fs::write(&object, &sound[..sound.len() - 3]).unwrap();
    pull("cut off", count - 1);
    std::fs::remove_file(&object).unwrap();
    pull("it is not there", count - 1);
    std::os::unix::fs::symlink("/etc/passwd", &object).unwrap();
    pull("a link, a pipe or a device", count - 1);
    std::fs::remove_file(&object).unwrap();
    // Mended by whoever has it: a record that is there is not enough for a push to leave it.
    std::fs::write(&object, &sound).unwrap();
    pull("", count);
    // What was refused once is taken when it is sound; what was made meanwhile stays.
    let said = b.run(&["store", "pull", &address, "--json"]).ok().json();
    assert_eq!(said["records"], 1, "{said}");
    assert!(b.executed().is_empty());
    // Names that don't belong there are told of.
    std::fs::write(remote.join("records/readme.txt"), "hello").unwrap();
    pull("no name of a record", count);
    std::fs::remove_file(remote.join("records/readme.txt")).unwrap();
    // Another layout.
    std::fs::write(remote.join("format"), "proofline results 2\n").unwrap();
    let said = b.run(&["store", "pull", &address]);
    assert!(said.code == 3 && said.stderr.contains("this program reads"), "{}", said.stderr);
    let said = a.run(&["store", "push", &address]);
    assert!(said.code == 3 && said.stderr.contains("this program reads"), "{}", said.stderr);
}
