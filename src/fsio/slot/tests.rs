use super::*;
use crate::fsio::write_plain;

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

fn want(bytes: &[u8]) -> Want {
    Want { digest: Digest::of(bytes), executable: false }
}

/// Begins work that wants these files and lays them.
fn begin(lent: &Lent, files: &[(&str, &[u8])]) {
    let wanted = files.iter().map(|(path, bytes)| ((*path).to_owned(), want(bytes))).collect();
    lent.begin(&wanted, &BTreeSet::new()).unwrap();
    for (path, bytes) in files {
        lent.lay(path, want(bytes), || Ok::<_, FsError>(bytes.to_vec())).unwrap();
    }
}

/// Files of a slot's working folder.
fn files(lent: &Lent) -> Vec<String> {
    crate::fsio::tree::list(&lent.path().join(WORK)).unwrap()
}

/// Inputs enough for a slot to be kept, the last one with `last` in it.
fn many(last: &str) -> Vec<(String, Vec<u8>)> {
    let text = |i: usize| if i == 39 { last.to_owned() } else { format!("text {i}") };
    (0..40).map(|i| (format!("in/b/i={i}/text"), text(i).into_bytes())).collect()
}

fn begin_many(lent: &Lent, files: &[(String, Vec<u8>)]) {
    let files: Vec<(&str, &[u8])> = files.iter().map(|(p, b)| (p.as_str(), b.as_slice())).collect();
    begin(lent, &files);
}

#[test]
fn files_and_folders_are_used_again_and_nothing_shows_through() {
    let folder = tempfile::tempdir().unwrap();
    let slots = Arc::new(Slots::new(folder.path()));
    let lent = slots.take("a").unwrap();
    let work = lent.path().join(WORK);
    begin(&lent, &[("in/a/x=1/out", b"a long first text"), ("old/file", b"x")]);
    let first = inode(&work.join("in/a/x=1/out"));
    write_plain(&lent.path().join("home/.cache/deep/file"), b"x").unwrap();
    write_plain(&work.join("result"), b"x").unwrap();
    drop(lent);
    assert!(!folder.path().join("slot-a-0/home/.cache").exists());
    assert!(!work.join("result").exists());

    let other = slots.take("b").unwrap();
    assert_ne!(other.path(), folder.path().join("slot-a-0"));
    let lent = slots.take("a").unwrap();
    assert_eq!(lent.path(), folder.path().join("slot-a-0"));
    begin(&lent, &[("in/a/x=2/out", b"short"), ("src/file", b"y")]);
    assert!(!work.join("in/a/x=1").exists() && !work.join("old").exists());
    assert_eq!(fs::read(work.join("in/a/x=2/out")).unwrap(), b"short");
    let now = [inode(&work.join("in/a/x=2/out")), inode(&work.join("src/file"))];
    assert!(now.contains(&first), "no file was used again");

    lent.retire();
    drop(lent);
    assert!(!folder.path().join("slot-a-0").exists());
    drop(other);
    drop(slots);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_one_stage_wrote_becomes_what_another_reads() {
    let folder = tempfile::tempdir().unwrap();
    let slots = Arc::new(Slots::new(folder.path()));
    let lent = slots.take("a").unwrap();
    let written = lent.path().join(WORK).join("out");
    write_plain(&written, b"a long text").unwrap();
    let first = inode(&written);
    drop(lent);
    let lent = slots.take("b").unwrap();
    begin(&lent, &[("in/a/out", b"short")]);
    let read = lent.path().join(WORK).join("in/a/out");
    assert_eq!((inode(&read), fs::read(&read).unwrap()), (first, b"short".to_vec()));
    // Large ones would keep the disk full.
    write_plain(&lent.path().join(WORK).join("large"), &vec![0; usize::try_from(LARGEST_KEPT + 1).unwrap()])
        .unwrap();
    drop(lent);
    let spares = fs::read_dir(folder.path().join("slot-spare-0")).unwrap();
    let mut sizes: Vec<u64> = spares.map(|e| e.unwrap().metadata().unwrap().len()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [0], "the lock alone; the input lies where it is");
    drop(slots);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn links_and_odd_files_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let slots = Arc::new(Slots::new(folder.path()));
    let lent = slots.take("a").unwrap();
    let outside = folder.path().join("outside");
    write_plain(&outside, b"kept").unwrap();
    let work = lent.path().join(WORK);
    std::os::unix::fs::symlink(&outside, work.join("link")).unwrap();
    fs::hard_link(&outside, work.join("hard")).unwrap();
    drop(lent);
    let lent = slots.take("a").unwrap();
    begin(&lent, &[("link", b"new"), ("hard", b"new")]);
    assert_eq!(fs::read(&outside).unwrap(), b"kept");
    assert!(fs::symlink_metadata(work.join("link")).unwrap().is_file());
}

#[test]
fn an_input_stays_where_it_lies_only_while_nobody_touches_it() {
    let folder = tempfile::tempdir().unwrap();
    let slots = Arc::new(Slots::new(folder.path()));
    let lent = slots.take("a").unwrap();
    let work = lent.path().join(WORK);
    let laid: &[(&str, &[u8])] = &[("same", b"1"), ("edited", b"2"), ("linked", b"3"), ("other", b"4")];
    begin(&lent, laid);
    // Of equal size, within the same tick of the clock.
    write_plain(&work.join("edited"), b"X").unwrap();
    let outside = folder.path().join("outside");
    fs::hard_link(work.join("linked"), &outside).unwrap();
    drop(lent);
    let lent = slots.take("a").unwrap();
    assert_eq!(files(&lent), ["other", "same"]);
    lent.lay("same", want(b"1"), || -> Result<Vec<u8>, FsError> { panic!("it lies there") }).unwrap();
    begin(&lent, &[("same", b"1"), ("edited", b"2"), ("linked", b"3"), ("other", b"5")]);
    write_plain(&outside, b"X").unwrap();
    for (path, bytes) in [("same", b"1"), ("edited", b"2"), ("linked", b"3"), ("other", b"5")] {
        assert_eq!(fs::read(work.join(path)).unwrap(), bytes, "{path}");
    }
    // An input that is wanted as a program, or no more as one.
    let program = Want { digest: Digest::of(b"1"), executable: true };
    lent.begin(&[("same".to_owned(), program)].into(), &BTreeSet::new()).unwrap();
    lent.lay("same", program, || Ok::<_, FsError>(b"1".to_vec())).unwrap();
    assert_eq!(fs::metadata(work.join("same")).unwrap().permissions().mode() & 0o111, 0o111);
    begin(&lent, &[("same", b"1")]);
    assert_eq!(fs::metadata(work.join("same")).unwrap().permissions().mode() & 0o111, 0);
    assert_eq!(files(&lent), ["same"]);
}

#[test]
fn a_later_run_finds_what_lay_there_and_lays_only_what_differs() {
    let folder = tempfile::tempdir().unwrap();
    let slots = Arc::new(Slots::new(folder.path()));
    let lent = slots.take("a").unwrap();
    begin_many(&lent, &many("old"));
    write_plain(&lent.path().join("work/secret"), b"x").unwrap();
    let work = lent.path().join(WORK);
    let of = |i: usize| inode(&work.join(format!("in/b/i={i}/text")));
    let (kept, edited) = (of(3), work.join("in/b/i=7/text"));
    drop(lent);
    drop(slots);
    assert!(!folder.path().join("slot-spare-0").exists() && !work.join("secret").exists());

    // Somebody meddles between the runs.
    fs::remove_file(&edited).unwrap();
    write_plain(&edited, b"text X").unwrap();
    write_plain(&work.join("in/b/stranger"), b"x").unwrap();

    let slots = Arc::new(Slots::new(folder.path()));
    let lent = slots.take("a").unwrap();
    assert_eq!(lent.path(), folder.path().join("slot-a-0"));
    begin_many(&lent, &many("new"));
    assert_eq!(of(3), kept);
    assert_eq!(files(&lent).len(), 40);
    for (path, bytes) in many("new") {
        assert_eq!(fs::read(work.join(&path)).unwrap(), bytes, "{path}");
    }
    // Two runs at once never share one.
    let elsewhere = Arc::new(Slots::new(folder.path()));
    assert_eq!(elsewhere.take("a").unwrap().path(), folder.path().join("slot-a-1"));
}

#[test]
fn a_slot_that_was_left_in_the_middle_is_swept_and_never_used() {
    let folder = tempfile::tempdir().unwrap();
    let slots = Arc::new(Slots::new(folder.path()));
    let lent = slots.take("a").unwrap();
    begin_many(&lent, &many("x"));
    // In use: neither taken nor swept.
    let others = Arc::new(Slots::new(folder.path()));
    assert_eq!(others.take("a").unwrap().path(), folder.path().join("slot-a-1"));
    sweep(folder.path());
    assert!(lent.path().exists());
    drop(lent);
    drop(slots);
    // Kept ones stay when others are swept; a list that can't be read, and one of a copied folder, are no use.
    sweep(folder.path());
    let list = folder.path().join("slot-a-0/laid.json");
    assert!(list.exists());
    let whole = fs::read(&list).unwrap();
    write_plain(&list, &whole[..whole.len() / 2]).unwrap();
    let slots = Arc::new(Slots::new(folder.path()));
    assert_ne!(slots.take("a").unwrap().path(), folder.path().join("slot-a-0"));
    assert!(!list.exists());
    sweep(folder.path());
    assert!(!folder.path().join("slot-a-0").exists());
}
