//! `export` and `import`: results in one file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::Path;

use tar::{Archive, Builder, EntryType, Header};

use super::arriving::{Candidate, Intake};
use super::names::{FORMAT, Name};
use super::{Leaving, Limits, MoveError, Moved, Progress};
use crate::digest::Digest;
use crate::fsio::{self, FsError, Readers};
use crate::store::Store;
use crate::store::pack::HEADER;
use crate::store::sign;

/// Bytes at the end of a tar that are zero.
const END: usize = 1024;
/// Records that are taken in together.
const TOGETHER: usize = 1000;

impl Store {
    /// Writes records and all that they need into an archive at `to`. The same
    /// records give the same bytes.
    ///
    /// # Errors
    /// When something in the store is damaged or the file can't be written;
    /// then what was at `to` stays.
    pub fn export(&self, leaving: &[Leaving], to: &Path, progress: Progress<'_>) -> Result<Moved, MoveError> {
        let mut objects: BTreeSet<Digest> = BTreeSet::new();
        for one in leaving {
            objects.extend(self.needed(&one.record)?);
        }
        let mut moved = Moved::default();
        let total = (objects.len() + leaving.len()) as u64;
        fsio::write_in_pieces(to, Readers::Others, |file| -> Result<(), MoveError> {
            let mut tar = Builder::new(file);
            let mut add =
                |name: Name, bytes: &[u8]| fsio::at(append(&mut tar, name, bytes), "can't write", to);
            add(Name::Format, FORMAT)?;
            for digest in &objects {
                let frame = self.frame(digest)?;
                add(Name::Object(*digest), &frame)?;
                moved.objects += 1;
                moved.bytes += frame.len() as u64;
                progress(moved.objects, total);
            }
            for one in leaving {
                let key = one.record.key;
                add(Name::Record(key, one.digest), &one.body)?;
                if let Some(signature) = &one.signature {
                    add(Name::Signature(key, one.digest), signature.as_bytes())?;
                }
                moved.records += 1;
                moved.bytes += one.body.len() as u64;
                progress(moved.objects + moved.records, total);
            }
            fsio::at(tar.finish(), "can't write", to)?;
            Ok(())
        })?;
        Ok(moved)
    }

    /// Takes in the archive at `from`.
    ///
    /// # Errors
    /// When it is not an archive as [`Self::export`] writes it, from its first
    /// entry to its end: then no record of it is taken in.
    pub fn import(&self, from: &Path, limits: Limits, progress: Progress<'_>) -> Result<Moved, MoveError> {
        let file = fsio::at(File::open(from), "can't read", from)?;
        let meta = fsio::at(file.metadata(), "can't look at", from)?;
        if !meta.is_file() {
            let error = io::Error::new(io::ErrorKind::InvalidInput, "it is no file");
            return Err(FsError { action: "can't read", path: from.to_owned(), source: error }.into());
        }
        Reading {
            intake: Intake::new(self, limits),
            limits,
            what: format!("`{}`", from.display()),
            moved: Moved::default(),
            names: BTreeSet::new(),
            records: BTreeMap::new(),
            size: meta.len(),
        }
        .all(file, progress)
    }
}

fn append(tar: &mut Builder<impl Write>, name: Name, bytes: &[u8]) -> io::Result<()> {
    let mut header = Header::new_ustar();
    header.set_path(name.to_string())?;
    header.set_size(bytes.len() as u64);
    header.set_mode(0o644);
    header.set_entry_type(EntryType::Regular);
    header.set_cksum();
    tar.append(&header, bytes)
}

/// A record's bytes and those of its signature, as far as they have come.
#[derive(Default)]
struct Pair {
    body: Option<Vec<u8>>,
    signature: Option<Vec<u8>>,
}

/// An archive that is being read.
struct Reading<'a> {
    intake: Intake<'a>,
    limits: Limits,
    what: String,
    moved: Moved,
    names: BTreeSet<Name>,
    records: BTreeMap<(Digest, Digest), Pair>,
    /// Bytes of the archive.
    size: u64,
}

impl Reading<'_> {
    fn refused(&self, why: impl ToString) -> MoveError {
        MoveError::Refused { what: self.what.clone(), why: why.to_string() }
    }

    fn all(mut self, mut file: File, progress: Progress<'_>) -> Result<Moved, MoveError> {
        // What is cut off between two entries would else pass for a smaller archive.
        let mut end = [1u8; END];
        let ended = self.size > END as u64
            && file.seek(SeekFrom::End(-1024)).is_ok()
            && file.read_exact(&mut end).is_ok()
            && file.rewind().is_ok();
        if !ended || end.iter().any(|b| *b != 0) {
            return Err(self.refused("it is no archive, or its end is missing"));
        }
        let mut archive = Archive::new(BufReader::with_capacity(1 << 18, file));
        let mut text = 0u64;
        let mut count = 0u64;
        // Raw: a convenient reader would first load a long name of any size into memory.
        let entries = archive.entries().map_err(|e| self.refused(format!("it is no archive: {e}")))?;
        for entry in entries.raw(true) {
            let mut entry = entry.map_err(|e| self.refused(format!("it is damaged: {e}")))?;
            count += 1;
            if count > self.limits.files {
                return Err(self.refused(format!("it holds more than {} files", self.limits.files)));
            }
            let path = entry.path_bytes().into_owned();
            let shown: String =
                String::from_utf8_lossy(&path).chars().take(160).flat_map(char::escape_debug).collect();
            let kind = entry.header().entry_type();
            if kind.is_dir() && std::str::from_utf8(&path).is_ok_and(Name::is_folder) {
                continue;
            }
            if kind != EntryType::Regular {
                return Err(self.refused(format!("`{shown}` is {}, not a plain file", kind_words(kind))));
            }
            let name = std::str::from_utf8(&path).ok().and_then(Name::parse);
            let name = name.ok_or_else(|| {
                self.refused(format!(
                    "`{shown}` is no name of an archive of results; `proofline store export` writes them"
                ))
            })?;
            if !self.names.insert(name) {
                return Err(self.refused(format!("`{shown}` is in it twice")));
            }
            if self.names.len() == 1 && name != Name::Format {
                return Err(self.refused("it doesn't begin with the file `format`"));
            }
            let limit = match name {
                Name::Format => 64,
                Name::Object(_) => self.limits.object + HEADER as u64,
                Name::Record(..) => self.limits.record,
                Name::Signature(..) => sign::LONGEST as u64,
            };
            let size = entry.size();
            if size > limit {
                return Err(
                    self.refused(format!("`{shown}` has {size} bytes, more than the {limit} that are taken"))
                );
            }
            // A size beyond the file's would be claimed to have memory set aside.
            if size > self.size {
                return Err(self.refused(format!("it ends in the middle of `{shown}`")));
            }
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).map_err(|e| self.refused(format!("it is damaged: {e}")))?;
            if bytes.len() as u64 != size {
                return Err(self.refused(format!("it ends in the middle of `{shown}`")));
            }
            match name {
                Name::Format if bytes == FORMAT => {}
                Name::Format => {
                    return Err(self.refused(format!(
                        "its format is `{}`, this program reads `{}`",
                        String::from_utf8_lossy(&bytes).trim().escape_debug(),
                        String::from_utf8_lossy(FORMAT).trim()
                    )));
                }
                Name::Object(digest) => self.object(digest, &bytes)?,
                Name::Record(key, record) => {
                    text += size;
                    self.records.entry((key, record)).or_default().body = Some(bytes);
                }
                Name::Signature(key, record) => {
                    text += size;
                    self.records.entry((key, record)).or_default().signature = Some(bytes);
                }
            }
            if text > self.limits.records {
                return Err(self.refused(format!("its records have more than {} bytes", self.limits.records)));
            }
            progress(count, 0);
        }
        if self.names.is_empty() {
            return Err(self.refused("there is nothing in it"));
        }
        self.end(archive.into_inner())
    }

    fn object(&mut self, digest: Digest, frame: &[u8]) -> Result<(), MoveError> {
        match self.intake.check(&digest, frame) {
            Err(why) => self.moved.refuse(Name::Object(digest), why),
            Ok(header) if self.intake.object(header, frame)? => {
                self.moved.objects += 1;
                self.moved.bytes += frame.len() as u64;
            }
            Ok(_) => self.moved.skipped += 1,
        }
        Ok(())
    }

    /// The records, once all of the archive was found to be sound.
    fn end(mut self, mut rest: impl Read) -> Result<Moved, MoveError> {
        let mut byte = [0u8; 1 << 12];
        loop {
            let got = rest.read(&mut byte).map_err(|e| self.refused(format!("it is damaged: {e}")))?;
            if got == 0 {
                break;
            }
            if byte[..got].iter().any(|b| *b != 0) {
                return Err(self.refused("something follows behind its end"));
            }
        }
        let mut strangers = BTreeMap::new();
        let mut waiting = Vec::new();
        for ((key, digest), pair) in std::mem::take(&mut self.records) {
            let name = Name::Record(key, digest);
            let Some(body) = pair.body else {
                self.moved.refuse(Name::Signature(key, digest), "it is a signature without its record");
                continue;
            };
            match Candidate::read(key, digest, body, pair.signature) {
                Err(why) => self.moved.refuse(name, why),
                Ok(_) if self.intake.has_record(&digest)? => self.moved.skipped += 1,
                Ok(candidate) => waiting.push(candidate),
            }
            if waiting.len() >= TOGETHER {
                self.intake.records(std::mem::take(&mut waiting), &mut self.moved, &mut strangers)?;
            }
        }
        self.intake.records(waiting, &mut self.moved, &mut strangers)?;
        self.moved.strangers(&strangers);
        Ok(self.moved)
    }
}

fn kind_words(kind: EntryType) -> &'static str {
    match kind {
        EntryType::Link | EntryType::Symlink => "a link",
        EntryType::Char | EntryType::Block => "a device",
        EntryType::Fifo => "a pipe",
        EntryType::Directory => "a folder that does not belong there",
        _ => "of an unknown kind",
    }
}
