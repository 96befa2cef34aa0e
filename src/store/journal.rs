//! Journals: one append-only, checksummed log per run.
//!
//! A line is `{"seq":..,"at":..,"event":{..}}`, a tab, and the first 16 hex
//! digits of the BLAKE3 of what stands before the tab. Readers never wait for
//! the writer; a torn last line is what a crash leaves and is passed over.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::StoreError;
use crate::clock::{self, Clock, Stopwatch};
use crate::digest::Digest;
use crate::event::{Event, Line};
use crate::fsio;

/// What a journal tells that is not synced may be lost in a power cut; what it tells of is in the store.
const A_WHILE_MS: f64 = 1000.0;
/// Events of so short a time are written together.
const A_MOMENT_MS: f64 = 15.0;

/// Folder with an empty file for each run that has not ended in order.
const LIVE: &str = "live";

/// Writes the journal of one run.
pub struct JournalWriter {
    run: String,
    path: PathBuf,
    /// Is there as long as the run has not ended in order.
    live: PathBuf,
    file: File,
    seq: u64,
    clock: Clock,
    pending: Vec<u8>,
    /// Something was written since the last sync.
    dirty: bool,
    synced: Stopwatch,
    written: Stopwatch,
}

/// A journal as read.
#[derive(Clone, Debug)]
pub struct Journal {
    /// Run id.
    pub run: String,
    /// Its whole lines, in order.
    pub lines: Vec<Line>,
    /// Number of the first line that is damaged although whole lines follow it.
    pub damaged: Option<u64>,
}

impl JournalWriter {
    /// Begins a run: makes its folder and journal. The id sorts by time.
    ///
    /// # Errors
    /// When the store can't be written.
    pub fn begin(root: &Path, clock: Clock) -> Result<Self, StoreError> {
        let runs = root.join("runs");
        fsio::create_dir(&runs)?;
        let stamp = clock::compact(clock.now_ms());
        // tempdir picks a suffix that no run of this second has.
        let dir = tempfile::Builder::new().prefix(&format!("{stamp}-")).rand_bytes(6).tempdir_in(&runs);
        let dir = fsio::at(dir, "can't make a folder in", &runs)?.keep();
        let run = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = dir.join("journal.jsonl");
        let file = fsio::create_new(&path)?;
        // Held until this process ends, however it ends: see `Journal::is_live`.
        // A file system without locks leaves the run live for ever, which only spares orphans.
        let _ = file.lock();
        fsio::sync_dir(&dir)?;
        fsio::sync_dir(&runs)?;
        let live = live_path(root, &run);
        fsio::create_dir(&root.join(LIVE))?;
        drop(fsio::create_new(&live)?);
        Ok(Self {
            run,
            path,
            live,
            file,
            seq: 0,
            clock,
            pending: Vec::new(),
            dirty: false,
            synced: Stopwatch::start(),
            written: Stopwatch::start(),
        })
    }

    /// The run's id.
    #[must_use]
    pub fn run(&self) -> &str {
        &self.run
    }

    /// Adds an event; durable after [`Self::sync`].
    pub fn add(&mut self, event: &Event) {
        let line = Line { seq: self.seq, at: self.clock.now_ms(), event: event.clone() };
        self.seq += 1;
        let text = serde_json::to_string(&line).unwrap_or_default();
        let sum = Digest::of(text.as_bytes()).hex();
        self.pending.extend_from_slice(text.as_bytes());
        self.pending.push(b'\t');
        self.pending.extend_from_slice(&sum.as_bytes()[..16]);
        self.pending.push(b'\n');
    }

    /// Writes what was added, for readers; durable after [`Self::sync`].
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn write(&mut self) -> Result<(), StoreError> {
        if !self.pending.is_empty() {
            fsio::at(self.file.write_all(&self.pending), "can't write", &self.path)?;
            self.pending.clear();
            self.dirty = true;
            self.written = Stopwatch::start();
        }
        Ok(())
    }

    /// Something was added and not written yet.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Writes what was added, unless that was done a moment ago.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn write_soon(&mut self) -> Result<(), StoreError> {
        if self.pending.is_empty() || self.written.ms() < A_MOMENT_MS { Ok(()) } else { self.write() }
    }

    /// Writes and syncs what was added.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn sync(&mut self) -> Result<(), StoreError> {
        self.write()?;
        if self.dirty {
            fsio::at(self.file.sync_data(), "can't sync", &self.path)?;
            self.dirty = false;
            self.synced = Stopwatch::start();
        }
        Ok(())
    }

    /// Writes what was added, and syncs it when the last sync was a while ago.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn sync_in_a_while(&mut self) -> Result<(), StoreError> {
        self.write()?;
        if self.synced.ms() > A_WHILE_MS { self.sync() } else { Ok(()) }
    }

    /// Ends the run in order: nothing of it is left that somebody would have to clean up.
    ///
    /// # Errors
    /// When the store can't be written.
    pub fn end(mut self) -> Result<(), StoreError> {
        self.sync()?;
        Ok(fsio::remove_file(&self.live)?)
    }

    /// A sign of life for other runs: the journal's time of change.
    pub fn beat(&self) {
        // Without it others may only take this run for silent, which costs work, not results.
        let now = u64::try_from(self.clock.now_ms()).unwrap_or(0);
        let _ = self.file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_millis(now));
    }
}

impl Journal {
    /// Reads the journal of a run.
    ///
    /// # Errors
    /// When there is none.
    pub fn read(root: &Path, run: &str) -> Result<Self, StoreError> {
        let path = root.join("runs").join(run).join("journal.jsonl");
        let bytes = fsio::read(&path)?;
        let (mut lines, mut damaged) = (Vec::new(), None);
        let mut bad = None;
        for (number, raw) in bytes.split(|b| *b == b'\n').enumerate() {
            if raw.is_empty() {
                continue;
            }
            match parse_line(raw) {
                Some(line) => {
                    if let Some(bad) = bad.take() {
                        damaged.get_or_insert(bad);
                    }
                    lines.push(line);
                }
                None => {
                    bad.get_or_insert(number as u64);
                }
            }
        }
        Ok(Self { run: run.to_owned(), lines, damaged })
    }

    /// Whether the process that writes this run's journal lives; also true
    /// when that can't be known. None for a run that isn't in this store.
    #[must_use]
    pub fn is_live(root: &Path, run: &str) -> Option<bool> {
        let file = File::open(root.join("runs").join(run).join("journal.jsonl")).ok()?;
        Some(file.try_lock_shared().is_err())
    }

    /// When a run gave its last sign of life, as far as the file system knows.
    #[must_use]
    pub fn last_beat(root: &Path, run: &str) -> Option<SystemTime> {
        fs::metadata(root.join("runs").join(run).join("journal.jsonl")).ok()?.modified().ok()
    }

    /// How a run began; none where that can't be read.
    #[must_use]
    pub fn beginning(root: &Path, run: &str) -> Option<Event> {
        began(&root.join("runs").join(run).join("journal.jsonl")).map(|line| line.event)
    }

    /// Ids of all runs, oldest first.
    ///
    /// # Errors
    /// When the folder can't be read.
    pub fn runs(root: &Path) -> Result<Vec<String>, StoreError> {
        let folder = root.join("runs");
        let mut out = Vec::new();
        for entry in fsio::at(fs::read_dir(&folder), "can't list", &folder)? {
            let entry = fsio::at(entry, "can't list", &folder)?;
            if entry.path().join("journal.jsonl").exists()
                && let Ok(name) = entry.file_name().into_string()
            {
                out.push(name);
            }
        }
        // The stamp has seconds; within one second the journal's first line decides.
        let mut keyed: Vec<(i64, String)> = out
            .into_iter()
            .map(|run| (began(&folder.join(&run).join("journal.jsonl")).map_or(0, |line| line.at), run))
            .collect();
        keyed.sort();
        Ok(keyed.into_iter().map(|(_, run)| run).collect())
    }
}

/// Reads a journal as it grows.
pub struct Tail {
    file: File,
    rest: Vec<u8>,
}

impl Tail {
    /// From the beginning of a run's journal.
    ///
    /// # Errors
    /// When there is none.
    pub fn open(root: &Path, run: &str) -> Result<Self, StoreError> {
        let path = root.join("runs").join(run).join("journal.jsonl");
        Ok(Self { file: fsio::at(File::open(&path), "can't read", &path)?, rest: Vec::new() })
    }

    /// The whole lines that were added since the last call.
    pub fn more(&mut self) -> Vec<Line> {
        // What can't be read now is read by the next call.
        let _ = self.file.read_to_end(&mut self.rest);
        let whole = self.rest.iter().rposition(|b| *b == b'\n').map_or(0, |at| at + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        lines.split(|b| *b == b'\n').filter_map(parse_line).collect()
    }
}

/// Runs that have not ended in order, those that still go on among them.
#[must_use]
pub fn unended(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root.join(LIVE)).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok()).collect()
}

/// Nothing is left of a run that has not ended in order.
///
/// # Errors
/// When the store can't be written.
pub fn cleaned_up(root: &Path, run: &str) -> Result<(), StoreError> {
    Ok(fsio::remove_file(&live_path(root, run))?)
}

fn live_path(root: &Path, run: &str) -> PathBuf {
    root.join(LIVE).join(run)
}

/// The file by which a run is asked to stop.
fn wish_path(root: &Path, run: &str) -> PathBuf {
    root.join("runs").join(run).join("cancel")
}

/// Asks a run to stop, by a file: processes of other containers see it, too.
/// Gives the step: 1, running nodes finish; 2, they are ended.
///
/// # Errors
/// When the store can't be written.
pub fn wish_to_stop(root: &Path, run: &str) -> Result<u8, StoreError> {
    let step = if wished(root, run) == 0 { 1 } else { 2 };
    fsio::write_atomic(&wish_path(root, run), format!("{step}\n").as_bytes(), fsio::Durability::Cached)?;
    Ok(step)
}

/// The step to which a run is asked to stop; 0 when it isn't.
#[must_use]
pub fn wished(root: &Path, run: &str) -> u8 {
    let said = fsio::read_limited(&wish_path(root, run), 16).unwrap_or_default();
    std::str::from_utf8(&said).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Time of a journal's first line.
fn began(path: &Path) -> Option<Line> {
    let mut raw = Vec::new();
    let file = File::open(path).ok()?;
    BufReader::new(file.take(1 << 20)).read_until(b'\n', &mut raw).ok()?;
    parse_line(raw.strip_suffix(b"\n")?)
}

fn parse_line(raw: &[u8]) -> Option<Line> {
    let tab = raw.iter().rposition(|b| *b == b'\t')?;
    let (text, sum) = (&raw[..tab], &raw[tab + 1..]);
    (Digest::of(text).hex().as_bytes()[..16] == *sum).then(|| serde_json::from_slice(text).ok())?
}
