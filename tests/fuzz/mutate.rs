//! Mutations, and the loop around them.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestError, TestRng, TestRunner};

/// Cases of a target when nothing else is said.
const CASES: u32 = 48;
/// Longest that one input may take; a slow machine under load is no fault.
const PATIENCE: Duration = Duration::from_secs(20);
/// Most memory that this process may ever have had, in bytes.
const MEMORY: u64 = 1 << 30;

/// One change to a sequence of bytes.
#[derive(Clone, Debug)]
enum Change {
    Flip(Index, u8),
    Put(Index, u8),
    Insert(Index, Vec<u8>),
    Word(Index, Index),
    Remove(Index, u8),
    Repeat(Index, u8, u8),
    Move(Index, Index, u8),
    Number(Index, Index),
    Cut(Index),
}

/// Numbers that lengths and counts fear.
const NUMBERS: [u64; 10] =
    [0, 1, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 40, u64::MAX >> 1, u64::MAX];

fn change() -> impl Strategy<Value = Change> {
    let at = any::<Index>;
    prop_oneof![
        (at(), 0u8..8).prop_map(|(i, bit)| Change::Flip(i, bit)),
        (at(), any::<u8>()).prop_map(|(i, byte)| Change::Put(i, byte)),
        (at(), prop::collection::vec(any::<u8>(), 1..8)).prop_map(|(i, bytes)| Change::Insert(i, bytes)),
        (at(), at()).prop_map(|(i, word)| Change::Word(i, word)),
        (at(), 1u8..64).prop_map(|(i, length)| Change::Remove(i, length)),
        (at(), 1u8..32, 2u8..32).prop_map(|(i, length, times)| Change::Repeat(i, length, times)),
        (at(), at(), 1u8..64).prop_map(|(from, to, length)| Change::Move(from, to, length)),
        (at(), at()).prop_map(|(i, number)| Change::Number(i, number)),
        at().prop_map(Change::Cut),
    ]
}

fn apply(bytes: &mut Vec<u8>, change: &Change, words: &[&str]) {
    let place = |index: &Index, bytes: &[u8]| index.index(bytes.len() + 1);
    let end = |from: usize, length: u8, bytes: &[u8]| (from + usize::from(length)).min(bytes.len());
    match change {
        Change::Flip(index, bit) if !bytes.is_empty() => {
            let at = index.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        Change::Put(index, byte) if !bytes.is_empty() => {
            let at = index.index(bytes.len());
            bytes[at] = *byte;
        }
        Change::Flip(..) | Change::Put(..) => {}
        Change::Insert(index, more) => {
            let at = place(index, bytes);
            bytes.splice(at..at, more.iter().copied());
        }
        Change::Word(index, word) => {
            let at = place(index, bytes);
            let word = if words.is_empty() { "" } else { words[word.index(words.len())] };
            bytes.splice(at..at, word.bytes());
        }
        Change::Remove(index, length) => {
            let at = place(index, bytes);
            bytes.drain(at..end(at, *length, bytes));
        }
        Change::Repeat(index, length, times) => {
            let at = place(index, bytes);
            let piece = bytes[at..end(at, *length, bytes)].repeat(usize::from(*times));
            bytes.splice(at..at, piece);
        }
        Change::Move(from, to, length) => {
            let at = place(from, bytes);
            let piece: Vec<u8> = bytes.drain(at..end(at, *length, bytes)).collect();
            let at = place(to, bytes);
            bytes.splice(at..at, piece);
        }
        Change::Number(index, number) => {
            let at = place(index, bytes);
            let number = NUMBERS[number.index(NUMBERS.len())].to_le_bytes();
            for (byte, new) in bytes.iter_mut().skip(at).zip(number) {
                *byte = new;
            }
        }
        Change::Cut(index) => bytes.truncate(place(index, bytes)),
    }
}

fn asked(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Inputs that were of interest once, by name.
fn kept(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/fuzz").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut out: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    out.sort();
    assert!(!out.is_empty(), "{} holds no input", folder.display());
    out.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Most memory that this process has had so far, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse().ok()).map_or(0, |kib: u64| kib << 10)
}

/// Holds `check` to every kept input, then to mutations of `seeds`; `words` are put in here and there.
pub(crate) fn fuzz(target: &str, seeds: &[Vec<u8>], words: &[&str], check: impl Fn(&[u8])) {
    for (path, bytes) in kept(target) {
        println!("{}", path.display());
        timed(&check, &bytes);
    }
    let seconds = asked("PROOFLINE_FUZZ_SECONDS").map(Duration::from_secs);
    let cases = asked("PROOFLINE_FUZZ_CASES").and_then(|n| u32::try_from(n).ok()).unwrap_or(CASES);
    let first = asked("PROOFLINE_FUZZ_SEED").unwrap_or(0);
    let start = Instant::now();
    let mut round = first;
    loop {
        batch(target, seeds, words, &check, cases, round);
        round += 1;
        if seconds.is_none_or(|most| start.elapsed() >= most) {
            println!("{target}: {} cases", u64::from(cases) * (round - first));
            return;
        }
    }
}

fn timed(check: &impl Fn(&[u8]), bytes: &[u8]) {
    let start = Instant::now();
    check(bytes);
    assert!(start.elapsed() < PATIENCE, "one input took {:?}", start.elapsed());
    assert!(peak() < MEMORY, "{} MiB of memory", peak() >> 20);
}

fn batch(target: &str, seeds: &[Vec<u8>], words: &[&str], check: &impl Fn(&[u8]), cases: u32, round: u64) {
    let mut seed = [0u8; 32];
    seed[..8].copy_from_slice(&round.to_le_bytes());
    for (byte, letter) in seed[8..].iter_mut().zip(target.bytes()) {
        *byte = letter;
    }
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 2_000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
    let changes = prop::collection::vec(change(), 0..12);
    let strategy =
        (any::<Index>(), changes, prop::option::weighted(0.05, prop::collection::vec(any::<u8>(), 0..600)));
    let last = RefCell::new(Vec::new());
    let result = runner.run(&strategy, |(seed, changes, noise)| {
        let mut bytes = noise.unwrap_or_else(|| seeds[seed.index(seeds.len())].clone());
        for change in &changes {
            apply(&mut bytes, change, words);
        }
        last.borrow_mut().clone_from(&bytes);
        timed(check, &bytes);
        Ok(())
    });
    if let Err(error) = result {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{target}-{round}"));
        proofline::fsio::write_plain(&path, &last.borrow()).unwrap();
        let why = match error {
            TestError::Fail(reason, _) => reason.to_string(),
            TestError::Abort(reason) => format!("gave up: {reason}"),
        };
        panic!("{target}: {why}\nthe input is in {}", path.display());
    }
}
