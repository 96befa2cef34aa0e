//! What the last run of a pipeline settled, so that the next one need not ask again.
//!
//! A recipe is a pure function of [`At`](crate::plan::key::At): the pipeline,
//! the node's place in it, facts about corpora and servers, the project files
//! that its patterns name, and what is known of the nodes that it reads. So a
//! node's key and record are the same as last time when
//!
//! - the pipeline, the facts and the program are the same (the *basis*),
//! - every file that one of its patterns named has the same status as when it
//!   was hashed, and the pattern names the same files,
//! - no word of a command has become a file of the project meanwhile,
//! - the index has lost nothing (the *standing*), so that what was complete is,
//! - and the nodes that it reads show the same parts and, to the kinds that read
//!   keys, the same key.
//!
//! The nodes of which one of these is not so are *touched*: they are keyed and
//! looked up. One that then shows its dependents what it showed before leaves
//! them alone. Any doubt about the file itself (other length, checksum, version)
//! makes it as good as absent, and all nodes are touched.
//!
//! A file is never the truth: it lies in the store's `cache/` and can be deleted at
//! any time. It is also where digests of project files are kept from run to run.
//! A file whose change time is not older than the moment of its hashing could
//! have been written once more without a visible trace; such a digest is not
//! *settled* and is made anew the next time. (Where files are stamped by another
//! machine's clock, two writes within one step of that clock, of one size and with
//! the hashing between them, can't be told apart.)

use std::path::{Path, PathBuf};

use crate::digest::Digest;
use crate::fsio::{self, Durability};
use crate::store::Standing;

const MAGIC: &[u8; 8] = b"PLMEMO1\n";
/// A memo larger than this is not read, in bytes.
const LARGEST: u64 = 1 << 30;
/// Length of the header in bytes.
const HEADER: usize = 8 + 32 + 16 + 8 + 4 * COUNTS;
const COUNTS: usize = 9;
/// Length of the checksum at the end in bytes.
const SUM: usize = 32;
const NODE: usize = 32 + 4 + 4;
const PART: usize = 32 + 8;
const SHAPE: usize = 8;
const NAME: usize = 12;
const STAGE: usize = 4 + 32;
const QUERY: usize = 8 + 4 + 8;
const FILE: usize = 8 + STAT + 4 + 32;
const STAT: usize = 8 * 7;
const ABSENT: usize = 8 + 4;
const USE: usize = 8;

/// Flag of a node whose key is not the one that its stage's listing has.
const DEVIATES: u32 = 1 << 16;

/// A file's status: device, inode, size, modification and change time (seconds
/// and nanoseconds).
pub(super) type Stat = (u64, u64, u64, i64, i64, i64, i64);

/// A file's digest and the status that it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) stat: Stat,
    pub(super) digest: Digest,
    /// Whether any later change would show in the status.
    pub(super) settled: bool,
}

/// What stands at a path that must not be a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Other {
    Nothing,
    /// A folder, say.
    Something,
}

/// A part that a node showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    pub(super) name: &'a str,
    pub(super) tree: bool,
    pub(super) digest: Digest,
    pub(super) size: u64,
}

/// A pattern and the files that it named.
pub(super) struct Query<'a> {
    pub(super) pattern: &'a str,
    /// Whether folders were walked for it; else it names one file.
    pub(super) walked: bool,
    files: (usize, usize),
}

/// A memo as read.
pub(super) struct Memo {
    bytes: Vec<u8>,
    counts: [usize; COUNTS],
    /// Where each section begins.
    at: [usize; COUNTS],
}

/// The sections, in order.
#[derive(Clone, Copy)]
enum Section {
    Nodes,
    Parts,
    Shapes,
    Names,
    Stages,
    Queries,
    Files,
    Absents,
    Uses,
}

const SIZES: [usize; COUNTS] = [NODE, PART, SHAPE, NAME, STAGE, QUERY, FILE, ABSENT, USE];

/// Where the memo of a pipeline lies.
pub(super) fn path(cache: &Path, root: &Path, pipeline: &str) -> PathBuf {
    let name = format!("{}\n{pipeline}", root.display());
    cache.join("settled").join(Digest::tagged("proofline memo path 1", name.as_bytes()).short())
}

impl Memo {
    /// Reads a memo; none when there is none or it isn't whole.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let bytes = fsio::read_limited(path, LARGEST).ok()?;
        Self::parse(bytes)
    }

    fn parse(bytes: Vec<u8>) -> Option<Self> {
        let body = bytes.len().checked_sub(SUM).filter(|body| *body >= HEADER)?;
        if bytes[..8] != *MAGIC || Digest::of(&bytes[..body]).bytes()[..] != bytes[body..] {
            return None;
        }
        let mut counts = [0; COUNTS];
        let mut at = [0; COUNTS];
        let mut end = HEADER;
        for (index, size) in SIZES.iter().enumerate() {
            counts[index] = usize::try_from(number(&bytes, HEADER - 4 * (COUNTS - index))?).ok()?;
            at[index] = end;
            end = end.checked_add(counts[index].checked_mul(*size)?)?;
        }
        // What is left are the texts.
        (end <= body).then_some(Self { bytes, counts, at })
    }

    pub(super) fn basis(&self) -> Digest {
        self.digest(8)
    }

    pub(super) fn standing(&self) -> Standing {
        let mut index = [0; 16];
        index.copy_from_slice(&self.bytes[40..56]);
        Standing { index, losses: self.long(56) }
    }

    fn count(&self, section: Section) -> usize {
        self.counts[section as usize]
    }

    /// Where an entry begins; none when there is no such entry.
    fn entry(&self, section: Section, index: usize) -> Option<usize> {
        let section = section as usize;
        (index < self.counts[section]).then(|| self.at[section] + index * SIZES[section])
    }

    fn word(&self, at: usize) -> u32 {
        number(&self.bytes, at).unwrap_or(0)
    }

    fn long(&self, at: usize) -> u64 {
        let mut le = [0; 8];
        le.copy_from_slice(&self.bytes[at..at + 8]);
        u64::from_le_bytes(le)
    }

    fn digest(&self, at: usize) -> Digest {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(&self.bytes[at..at + 32]);
        Digest::from_bytes(bytes)
    }

    /// The text that an entry names by place and length.
    fn text(&self, at: usize) -> Option<&str> {
        let texts = &self.bytes[self.at[COUNTS - 1] + self.counts[COUNTS - 1] * USE..self.bytes.len() - SUM];
        let (from, length) = (self.word(at) as usize, self.word(at + 4) as usize);
        std::str::from_utf8(texts.get(from..from.checked_add(length)?)?).ok()
    }

    pub(super) fn nodes(&self) -> usize {
        self.count(Section::Nodes)
    }

    pub(super) fn stages(&self) -> usize {
        self.count(Section::Stages)
    }

    fn shape(&self, node: usize) -> Option<usize> {
        let at = self.entry(Section::Nodes, node)?;
        (self.word(at + 32) as usize & 0xffff).checked_sub(1)
    }

    /// Whether the node had an artifact.
    pub(super) fn is_done(&self, node: usize) -> bool {
        self.shape(node).is_some()
    }

    /// The key of a node that had an artifact.
    pub(super) fn key(&self, node: usize) -> Option<Digest> {
        self.is_done(node).then(|| self.entry(Section::Nodes, node)).flatten().map(|at| self.digest(at))
    }

    /// Whether the node's key is not the one that its stage's listing has.
    pub(super) fn deviates(&self, node: usize) -> bool {
        self.entry(Section::Nodes, node).is_some_and(|at| self.word(at + 32) & DEVIATES != 0)
    }

    /// The parts of a node that had an artifact, by name.
    pub(super) fn parts(&self, node: usize) -> Option<impl Iterator<Item = Part<'_>>> {
        let shape = self.entry(Section::Shapes, self.shape(node)?)?;
        let (names, count) = (self.word(shape) as usize, self.word(shape + 4) as usize);
        let first = self.word(self.entry(Section::Nodes, node)? + 36) as usize;
        let held =
            |first: usize, section| first.checked_add(count).is_some_and(|end| end <= self.count(section));
        if !held(names, Section::Names) || !held(first, Section::Parts) {
            return None;
        }
        Some((0..count).filter_map(move |index| {
            let name = self.entry(Section::Names, names + index)?;
            let part = self.entry(Section::Parts, first + index)?;
            Some(Part {
                name: self.text(name)?,
                tree: self.word(name + 8) != 0,
                digest: self.digest(part),
                size: self.long(part + 32),
            })
        }))
    }

    /// The object that lists the keys of all nodes of a stage, but for those that deviate.
    pub(super) fn listing(&self, stage: usize) -> Option<Digest> {
        let at = self.entry(Section::Stages, stage)?;
        (self.word(at) != 0).then(|| self.digest(at + 4))
    }

    pub(super) fn queries(&self) -> impl Iterator<Item = Option<Query<'_>>> {
        (0..self.count(Section::Queries)).map(|index| {
            let at = self.entry(Section::Queries, index)?;
            let files = (self.word(at + 12) as usize, self.word(at + 16) as usize);
            Some(Query { pattern: self.text(at)?, walked: self.word(at + 8) != 0, files })
        })
    }

    /// The files of a query: path and what was known of each.
    pub(super) fn files(&self, query: &Query<'_>) -> impl Iterator<Item = Option<(&str, Known)>> {
        let (from, count) = query.files;
        (from..from.saturating_add(count).min(self.count(Section::Files) + 1)).map(|index| self.file(index))
    }

    /// All files: those of queries and others of which digests are kept.
    pub(super) fn all_files(&self) -> impl Iterator<Item = Option<(&str, Known)>> {
        (0..self.count(Section::Files)).map(|index| self.file(index))
    }

    fn file(&self, index: usize) -> Option<(&str, Known)> {
        let at = self.entry(Section::Files, index)?;
        let long = |index: usize| self.long(at + 8 + 8 * index);
        let time = |index: usize| self.long(at + 8 + 8 * index).cast_signed();
        let stat = (long(0), long(1), long(2), time(3), time(4), time(5), time(6));
        let settled = self.word(at + 8 + STAT) != 0;
        Some((self.text(at)?, Known { stat, digest: self.digest(at + 12 + STAT), settled }))
    }

    /// Paths at which there must not be a file, and what was there.
    pub(super) fn absents(&self) -> impl Iterator<Item = Option<(&str, Other)>> {
        (0..self.count(Section::Absents)).map(|index| {
            let at = self.entry(Section::Absents, index)?;
            let other = if self.word(at + 8) == 0 { Other::Nothing } else { Other::Something };
            Some((self.text(at)?, other))
        })
    }

    /// Which node uses which query, by query.
    pub(super) fn uses(&self) -> impl Iterator<Item = (u32, u32)> {
        let first = self.at[Section::Uses as usize];
        (0..self.count(Section::Uses)).map(move |index| {
            let at = first + index * USE;
            (self.word(at), self.word(at + 4))
        })
    }
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let mut le = [0; 4];
    le.copy_from_slice(bytes.get(at..at.checked_add(4)?)?);
    Some(u32::from_le_bytes(le))
}

/// A memo on its way to its file.
#[derive(Default)]
pub(super) struct Writer {
    sections: [Vec<u8>; COUNTS],
    texts: Vec<u8>,
    shapes: Vec<Vec<(String, bool)>>,
}

impl Writer {
    fn count(&self, section: Section) -> u32 {
        narrow(self.sections[section as usize].len() / SIZES[section as usize])
    }

    fn push(&mut self, section: Section) -> Entry<'_> {
        Entry { out: &mut self.sections[section as usize], texts: &mut self.texts }
    }

    /// Adds the next node; none for one without an artifact.
    pub(super) fn node<'a>(
        &mut self,
        done: Option<(Digest, impl Iterator<Item = Part<'a>> + Clone)>,
        deviates: bool,
    ) {
        let first = self.count(Section::Parts);
        let Some((key, parts)) = done else {
            self.push(Section::Nodes).bytes(&[0; 32]).word(0).word(first);
            return;
        };
        let shape = self.shape_of(parts.clone());
        // A shape that no number is left for stands for a node that isn't done.
        let word = shape.map_or(0, |shape| (shape + 1) | if deviates { DEVIATES } else { 0 });
        self.push(Section::Nodes).bytes(key.bytes()).word(word).word(first);
        for part in parts {
            self.push(Section::Parts).bytes(part.digest.bytes()).long(part.size);
        }
    }

    fn shape_of<'a>(&mut self, parts: impl Iterator<Item = Part<'a>> + Clone) -> Option<u32> {
        let same = |shape: &Vec<(String, bool)>| {
            let mut names = shape.iter();
            parts.clone().all(|part| names.next().is_some_and(|(n, t)| *n == part.name && *t == part.tree))
                && names.next().is_none()
        };
        let known = self.shapes.iter().position(same);
        if known.is_none() {
            let shape: Vec<(String, bool)> = parts.map(|p| (p.name.to_owned(), p.tree)).collect();
            let names = self.count(Section::Names);
            self.push(Section::Shapes).word(names).word(narrow(shape.len()));
            for (name, tree) in &shape {
                self.push(Section::Names).text(name).word(u32::from(*tree));
            }
            self.shapes.push(shape);
        }
        u32::try_from(known.unwrap_or(self.shapes.len() - 1)).ok().filter(|found| *found < 0xffff)
    }

    /// Adds the next stage with the listing of its nodes' keys.
    pub(super) fn stage(&mut self, listing: Option<Digest>) {
        let bytes = listing.map_or([0; 32], |digest| *digest.bytes());
        self.push(Section::Stages).word(u32::from(listing.is_some())).bytes(&bytes);
    }

    /// Adds the next query with its files.
    pub(super) fn query<'a>(
        &mut self,
        pattern: &str,
        walked: bool,
        files: impl Iterator<Item = (&'a str, Known)>,
    ) {
        let first = self.count(Section::Files);
        for (path, known) in files {
            self.file(path, &known);
        }
        let count = self.count(Section::Files) - first;
        self.push(Section::Queries).text(pattern).word(u32::from(walked)).word(first).word(count);
    }

    /// Adds a file.
    pub(super) fn file(&mut self, path: &str, known: &Known) {
        let (device, inode, size, mtime, mtime_nsec, ctime, ctime_nsec) = known.stat;
        let mut entry = self.push(Section::Files);
        entry.text(path).long(device).long(inode).long(size);
        for time in [mtime, mtime_nsec, ctime, ctime_nsec] {
            entry.long(time.cast_unsigned());
        }
        entry.word(u32::from(known.settled)).bytes(known.digest.bytes());
    }

    /// Adds a path at which there must not be a file.
    pub(super) fn absent(&mut self, path: &str, other: Other) {
        self.push(Section::Absents).text(path).word(u32::from(other == Other::Something));
    }

    /// Adds that a node uses a query; in order of queries.
    pub(super) fn uses(&mut self, query: u32, node: u32) {
        self.push(Section::Uses).word(query).word(node);
    }

    /// Writes the memo.
    ///
    /// # Errors
    /// When the system refuses.
    pub(super) fn write(self, path: &Path, basis: Digest, standing: &Standing) -> Result<(), fsio::FsError> {
        let length: usize = self.sections.iter().map(Vec::len).sum();
        let mut out = Vec::with_capacity(HEADER + length + self.texts.len() + SUM);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(basis.bytes());
        out.extend_from_slice(&standing.index);
        out.extend_from_slice(&standing.losses.to_le_bytes());
        for (section, size) in self.sections.iter().zip(SIZES) {
            out.extend_from_slice(&narrow(section.len() / size).to_le_bytes());
        }
        for section in &self.sections {
            out.extend_from_slice(section);
        }
        out.extend_from_slice(&self.texts);
        let sum = Digest::of(&out);
        out.extend_from_slice(sum.bytes());
        fsio::write_atomic(path, &out, Durability::Cached)
    }
}

/// An entry that is being written.
struct Entry<'w> {
    out: &'w mut Vec<u8>,
    texts: &'w mut Vec<u8>,
}

impl Entry<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.out.extend_from_slice(bytes);
        self
    }

    fn word(&mut self, word: u32) -> &mut Self {
        self.bytes(&word.to_le_bytes())
    }

    fn long(&mut self, long: u64) -> &mut Self {
        self.bytes(&long.to_le_bytes())
    }

    fn text(&mut self, text: &str) -> &mut Self {
        let from = narrow(self.texts.len());
        self.texts.extend_from_slice(text.as_bytes());
        self.word(from).word(narrow(text.len()))
    }
}

/// Numbers of a memo have 32 bits; one that doesn't fit makes an entry that
/// names nothing, and the memo as good as absent.
fn narrow(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STANDING: Standing = Standing { index: [3; 16], losses: 5 };

    fn known(byte: u8) -> Known {
        Known { stat: (1, 2, 3, -4, 5, 6, 7), digest: Digest::of(&[byte]), settled: byte == 1 }
    }

    fn part(name: &str, tree: bool) -> Part<'_> {
        Part { name, tree, digest: Digest::of(name.as_bytes()), size: 9 }
    }

    fn sample() -> Writer {
        let mut writer = Writer::default();
        writer.node(Some((Digest::of(b"k0"), [part("a", false), part("b", true)].into_iter())), false);
        writer.node(None::<(Digest, std::iter::Empty<Part<'_>>)>, true);
        writer.node(Some((Digest::of(b"k2"), [part("a", false), part("b", true)].into_iter())), true);
        writer.node(Some((Digest::of(b"k3"), std::iter::empty())), false);
        writer.stage(Some(Digest::of(b"list")));
        writer.stage(None);
        writer.query("src/*", true, [("src/x", known(1)), ("src/y", known(2))].into_iter());
        writer.query("z", false, [("z", known(3))].into_iter());
        writer.file("/outside", &known(4));
        writer.absent("cat src", Other::Nothing);
        writer.absent("lib", Other::Something);
        writer.uses(0, 2);
        writer.uses(1, 0);
        writer
    }

    fn bytes(writer: Writer) -> Vec<u8> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("memo");
        writer.write(&path, Digest::of(b"basis"), &STANDING).unwrap();
        fsio::read(&path).unwrap()
    }

    #[test]
    fn what_is_written_is_read() {
        let memo = Memo::parse(bytes(sample())).unwrap();
        assert_eq!((memo.basis(), memo.standing()), (Digest::of(b"basis"), STANDING));
        assert_eq!((memo.nodes(), memo.stages()), (4, 2));
        assert_eq!([0, 1, 2, 3, 4].map(|node| memo.is_done(node)), [true, false, true, true, false]);
        assert_eq!([0, 1, 2, 3, 4].map(|node| memo.deviates(node)), [false, false, true, false, false]);
        assert_eq!((memo.key(2), memo.key(1)), (Some(Digest::of(b"k2")), None));
        for node in [0, 2] {
            let parts: Vec<Part<'_>> = memo.parts(node).unwrap().collect();
            assert_eq!(parts, [part("a", false), part("b", true)]);
        }
        assert!(memo.parts(1).is_none() && memo.parts(3).unwrap().next().is_none());
        assert_eq!((memo.listing(0), memo.listing(1)), (Some(Digest::of(b"list")), None));
        let queries: Vec<Query<'_>> = memo.queries().map(Option::unwrap).collect();
        assert_eq!((queries[0].pattern, queries[0].walked, queries[1].walked), ("src/*", true, false));
        let files: Vec<(&str, Known)> = memo.files(&queries[0]).map(Option::unwrap).collect();
        assert_eq!(files, [("src/x", known(1)), ("src/y", known(2))]);
        assert_eq!(memo.all_files().map(|file| file.unwrap().0).last(), Some("/outside"));
        let absents: Vec<(&str, Other)> = memo.absents().map(Option::unwrap).collect();
        assert_eq!(absents, [("cat src", Other::Nothing), ("lib", Other::Something)]);
        assert_eq!(memo.uses().collect::<Vec<_>>(), [(0, 2), (1, 0)]);
    }

    /// Looks at all that a memo holds.
    fn read_all(memo: &Memo) {
        for node in 0..memo.nodes().min(100) + 2 {
            let _ = (memo.is_done(node), memo.key(node), memo.deviates(node), memo.listing(node));
            let _ = memo.parts(node).map(|parts| parts.take(100).count());
        }
        for query in memo.queries().take(100).flatten() {
            let _ = memo.files(&query).take(100).count();
        }
        let _ = (memo.all_files().take(100).count(), memo.absents().take(100).count());
        let _ = (memo.uses().take(100).count(), memo.basis(), memo.standing());
    }

    #[test]
    fn no_bytes_panic_and_no_length_is_believed() {
        let whole = bytes(sample());
        let sealed = |mut bytes: Vec<u8>| {
            let body = bytes.len() - SUM;
            let sum = Digest::of(&bytes[..body]);
            bytes[body..].copy_from_slice(sum.bytes());
            bytes
        };
        // Every byte of the file in turn, with a checksum that is right.
        for at in 0..whole.len() - SUM {
            for value in [0, 1, 0x7f, 0xff] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                if let Some(memo) = Memo::parse(sealed(bytes)) {
                    read_all(&memo);
                }
            }
        }
        // Every number of the header and of the entries as large as it can be.
        for at in 0..whole.len() - SUM - 4 {
            let mut bytes = whole.clone();
            bytes[at..at + 4].fill(0xff);
            if let Some(memo) = Memo::parse(sealed(bytes)) {
                read_all(&memo);
            }
        }
        for length in 0..whole.len() {
            assert!(Memo::parse(whole[..length].to_vec()).is_none());
            if length >= SUM
                && let Some(memo) = Memo::parse(sealed(whole[..length].to_vec()))
            {
                read_all(&memo);
            }
        }
        assert!(Memo::parse(Vec::new()).is_none());
    }
}
