//! `pull`: results out of a remote.
//!
//! Best effort: what can't be had, or is not what its name says, is told of
//! and left out, and what is here stays as it was. A record is taken in when
//! all that it needs is here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};

use super::arriving::{Candidate, Intake};
use super::names::Name;
use super::push::{counted, expect, is_given_up};
use super::{Limits, MoveError, Moved, Progress, each};
use crate::digest::Digest;
use crate::remote::Remote;
use crate::store::pack::HEADER;
use crate::store::record::Record;
use crate::store::{Store, StoreError, sign};

/// Records that are fetched together.
const TOGETHER: usize = 256;

/// Fetches from one remote.
struct Fetch<'a> {
    intake: Intake<'a>,
    remote: &'a dyn Remote,
    limits: Limits,
    failures: AtomicU64,
    /// Objects that could not be had, and why.
    lost: BTreeMap<Digest, String>,
}

/// What became of one object.
enum Got {
    New(u64),
    There,
    Refused(String),
}

impl Store {
    /// Takes in those records of a remote that `wanted` wants, with all that
    /// they need. What is here is not fetched again, so a broken pull goes on
    /// where it ended.
    ///
    /// # Errors
    /// When the remote can't be listed or is none of ours, or this store fails.
    pub fn pull(
        &self,
        remote: &dyn Remote,
        limits: Limits,
        wanted: &(dyn Fn(&Record) -> bool + Sync),
        progress: Progress<'_>,
    ) -> Result<Moved, MoveError> {
        expect(remote)?;
        let mut moved = Moved::default();
        let most = usize::try_from(limits.files).unwrap_or(usize::MAX);
        let listed = remote.list("records", most.saturating_add(1))?;
        if listed.len() > most {
            return Err(MoveError::Refused {
                what: remote.address().to_owned(),
                why: format!("it holds more than {most} files of records"),
            });
        }
        let mut names: Vec<(Digest, Digest)> = Vec::new();
        for text in listed {
            match Name::parse(&text) {
                Some(Name::Record(key, record)) => names.push((key, record)),
                Some(Name::Signature(..)) => {}
                _ => {
                    let shown: String = text.chars().take(160).flat_map(char::escape_debug).collect();
                    moved.refuse(shown, "it is no name of a record");
                }
            }
        }
        names.sort();
        names.dedup();
        let mut fetch = Fetch {
            intake: Intake::new(self, limits),
            remote,
            limits,
            failures: AtomicU64::new(0),
            lost: BTreeMap::new(),
        };
        let mut strangers = BTreeMap::new();
        let total = names.len() as u64;
        let mut done = 0;
        for some in names.chunks(TOGETHER) {
            let mut due = Vec::new();
            for name in some {
                if fetch.intake.has_record(&name.1)? {
                    moved.skipped += 1;
                } else {
                    due.push(*name);
                }
            }
            let read = each(&due, |(key, record)| fetch.record(*key, *record));
            let mut candidates = Vec::new();
            for ((key, record), read) in due.iter().zip(read) {
                match read {
                    Err(why) => moved.refuse(Name::Record(*key, *record), why),
                    Ok(one) if wanted(&one.record) => candidates.push(one),
                    Ok(_) => {}
                }
            }
            let candidates = fetch.with_objects(candidates, &mut moved)?;
            fetch.intake.records(candidates, &mut moved, &mut strangers)?;
            done += some.len() as u64;
            progress(done, total);
        }
        fetch.intake.flush()?;
        moved.strangers(&strangers);
        Ok(moved)
    }
}

impl Fetch<'_> {
    fn get(&self, name: Name, limit: u64) -> Result<Option<Vec<u8>>, String> {
        if is_given_up(&self.failures) {
            return Err("not asked for any more: too many requests have failed".to_owned());
        }
        counted(&self.failures, self.remote.get(&name.to_string(), limit))
    }

    fn record(&self, key: Digest, record: Digest) -> Result<Candidate, String> {
        let body = self.get(Name::Record(key, record), self.limits.record)?;
        let body = body.ok_or("it is listed, but not there")?;
        let signature = self.get(Name::Signature(key, record), sign::LONGEST as u64)?;
        Candidate::read(key, record, body, signature)
    }

    /// Fetches what candidates need; gives those for which all of it is here.
    fn with_objects(
        &mut self,
        candidates: Vec<Candidate>,
        moved: &mut Moved,
    ) -> Result<Vec<Candidate>, StoreError> {
        let first = candidates.iter().flat_map(Candidate::objects).collect();
        self.objects(&first, moved)?;
        // Listings are here now; they name the files of folders.
        let (mut listed, mut second) = (Vec::new(), BTreeSet::new());
        for one in candidates {
            if let Some(why) = one.objects().iter().find_map(|digest| self.lost.get(digest)) {
                moved.refuse(one.name(), format!("an object that it needs: {why}"));
                continue;
            }
            match self.intake.files(&one)? {
                Err(why) => moved.refuse(one.name(), why),
                Ok(files) => {
                    second.extend(files.iter().copied());
                    listed.push((one, files));
                }
            }
        }
        self.objects(&second, moved)?;
        let mut whole = Vec::new();
        for (one, files) in listed {
            match files.iter().find_map(|digest| self.lost.get(digest)) {
                Some(why) => moved.refuse(one.name(), format!("an object that it needs: {why}")),
                None => whole.push(one),
            }
        }
        Ok(whole)
    }

    fn objects(&mut self, wanted: &BTreeSet<Digest>, moved: &mut Moved) -> Result<(), StoreError> {
        let mut due = Vec::new();
        for digest in wanted {
            if self.lost.contains_key(digest) {
                continue;
            }
            if self.intake.has(digest)? {
                moved.skipped += 1;
            } else {
                due.push(*digest);
            }
        }
        let got = each(&due, |digest| self.object(digest));
        for (digest, got) in due.into_iter().zip(got) {
            match got? {
                Got::New(bytes) => {
                    moved.objects += 1;
                    moved.bytes += bytes;
                }
                Got::There => moved.skipped += 1,
                Got::Refused(why) => {
                    moved.refuse(Name::Object(digest), &why);
                    self.lost.insert(digest, why);
                }
            }
        }
        self.intake.flush()
    }

    fn object(&self, digest: &Digest) -> Result<Got, StoreError> {
        let name = Name::Object(*digest);
        let mut why = String::new();
        // Bytes may be damaged on the way: they are asked for once more.
        for _ in 0..2 {
            match self.get(name, self.limits.object + HEADER as u64) {
                Err(words) => return Ok(Got::Refused(words)),
                Ok(None) => return Ok(Got::Refused("it is not there".to_owned())),
                Ok(Some(frame)) => match self.intake.check(digest, &frame) {
                    Err(words) => why = words,
                    Ok(header) => {
                        let new = self.intake.object(header, &frame)?;
                        return Ok(if new { Got::New(frame.len() as u64) } else { Got::There });
                    }
                },
            }
        }
        self.failures.fetch_add(1, Ordering::Relaxed);
        Ok(Got::Refused(why))
    }
}
