//! Pack files: small objects and records, appended by one writer.
//!
//! A frame is self-describing: magic, kind, codec, lengths, digest of the
//! plain bytes, payload. Reading stops at the first frame that isn't whole,
//! which only the crash of its writer can leave behind.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::StoreError;
use crate::digest::{ContentHasher, Digest};
use crate::fsio;

const MAGIC: &[u8; 4] = b"PLF1";
/// Length of a frame's header in bytes.
pub(super) const HEADER: usize = 4 + 4 + 8 + 8 + 32;
/// Objects of at least this many bytes get a file of their own.
pub(super) const LARGE: usize = 256 * 1024;
/// A frame may not claim to hold more than this (guards against damage).
const MAX: u64 = 1 << 40;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FrameKind {
    Object,
    Record,
    /// An entry of the ledger.
    Ledger,
    /// A record from elsewhere with its signature.
    Arrival,
}

/// A frame's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: FrameKind,
    pub(super) zstd: bool,
    pub(super) raw: u64,
    pub(super) stored: u64,
    pub(super) digest: Digest,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER] {
        let mut out = [0u8; HEADER];
        out[..4].copy_from_slice(MAGIC);
        out[4] = match self.kind {
            FrameKind::Object => b'O',
            FrameKind::Record => b'R',
            FrameKind::Ledger => b'L',
            FrameKind::Arrival => b'A',
        };
        out[5] = u8::from(self.zstd);
        out[8..16].copy_from_slice(&self.raw.to_le_bytes());
        out[16..24].copy_from_slice(&self.stored.to_le_bytes());
        out[24..].copy_from_slice(self.digest.bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8; HEADER]) -> Option<Self> {
        if &bytes[..4] != MAGIC || bytes[5] > 1 {
            return None;
        }
        let kind = match bytes[4] {
            b'O' => FrameKind::Object,
            b'R' => FrameKind::Record,
            b'L' => FrameKind::Ledger,
            b'A' => FrameKind::Arrival,
            _ => return None,
        };
        let number = |from: usize| {
            let mut le = [0u8; 8];
            le.copy_from_slice(&bytes[from..from + 8]);
            u64::from_le_bytes(le)
        };
        let mut digest = [0u8; 32];
        digest.copy_from_slice(&bytes[24..]);
        let header = Self {
            kind,
            zstd: bytes[5] == 1,
            raw: number(8),
            stored: number(16),
            digest: Digest::from_bytes(digest),
        };
        (header.raw <= MAX && header.stored <= MAX).then_some(header)
    }
}

/// Encodes bytes as a frame, compressed where that saves an eighth or more.
pub(super) fn frame(kind: FrameKind, digest: Digest, raw: &[u8]) -> (Header, Vec<u8>) {
    let packed = (raw.len() >= 256).then(|| compressed(raw)).flatten();
    match packed {
        Some(packed) if packed.len() + packed.len() / 8 < raw.len() => {
            (Header { kind, zstd: true, raw: raw.len() as u64, stored: packed.len() as u64, digest }, packed)
        }
        _ => (
            Header { kind, zstd: false, raw: raw.len() as u64, stored: raw.len() as u64, digest },
            raw.to_vec(),
        ),
    }
}

/// From this many plain bytes on a payload is first unpacked without being kept: the header may
/// lie, and a few bytes can unpack to more than there is memory.
const LIMIT: u64 = 64 << 20;

thread_local! {
    /// Making one takes longer than compressing a record with it.
    static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
}

fn compressed(raw: &[u8]) -> Option<Vec<u8>> {
    COMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = zstd::bulk::Compressor::new(3).ok();
        }
        slot.as_mut()?.compress(raw).ok()
    })
}

/// The plain bytes of a payload; none when they don't have the length or digest.
pub(super) fn unpack(header: &Header, payload: Vec<u8>) -> Option<Vec<u8>> {
    let raw = if header.zstd {
        let plain = || Some(zstd::stream::read::Decoder::new(payload.as_slice()).ok()?.take(header.raw + 1));
        if header.raw > LIMIT {
            let mut hasher = blake3::Hasher::new();
            hasher.update_reader(plain()?).ok()?;
            if hasher.count() != header.raw || hasher.finalize().as_bytes() != header.digest.bytes() {
                return None;
            }
        }
        let mut out = Vec::new();
        plain()?.read_to_end(&mut out).ok()?;
        out
    } else {
        payload
    };
    (raw.len() as u64 == header.raw && Digest::of(&raw) == header.digest).then_some(raw)
}

/// Whether a payload has the length and digest that its header states; takes
/// no more memory however much it unpacks to.
pub(super) fn is_sound(header: &Header, payload: &[u8]) -> bool {
    if payload.len() as u64 != header.stored {
        return false;
    }
    if !header.zstd {
        return header.stored == header.raw && Digest::of(payload) == header.digest;
    }
    let Ok(decoder) = zstd::stream::read::Decoder::new(payload) else { return false };
    let (mut decoder, mut hasher) = (decoder.take(header.raw.saturating_add(1)), ContentHasher::default());
    let (mut chunk, mut length) = (vec![0u8; 1 << 16], 0u64);
    loop {
        match decoder.read(&mut chunk) {
            Ok(0) => return length == header.raw && hasher.finish() == header.digest,
            Ok(got) => {
                hasher.update(&chunk[..got]);
                length += got as u64;
            }
            Err(_) => return false,
        }
    }
}

/// Where a frame went.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) header: Header,
    /// Pack id, or none for a file of its own.
    pub(super) pack: Option<String>,
    pub(super) offset: u64,
}

/// Appends frames to this process's own pack.
pub(super) struct PackWriter {
    id: String,
    file: File,
    end: u64,
    buffer: Vec<u8>,
    broken: bool,
    /// Frames that are written but not yet in the index.
    fresh: Vec<Placed>,
    /// Objects among them.
    known: HashSet<Digest>,
}

impl PackWriter {
    pub(super) fn create(root: &Path) -> Result<Self, StoreError> {
        let folder = root.join("packs");
        // The name only has to be new; tempfile picks one that isn't taken.
        let temp = tempfile::Builder::new().prefix("p").suffix(".pack").rand_bytes(12).tempfile_in(&folder);
        let temp = fsio::at(temp, "can't make a pack in", &folder)?;
        let (file, path) = temp.keep().map_err(|e| fsio::FsError {
            action: "can't keep",
            path: folder.clone(),
            source: e.error,
        })?;
        fsio::sync_dir(&folder)?;
        let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self {
            id,
            file,
            end: 0,
            buffer: Vec::new(),
            broken: false,
            fresh: Vec::new(),
            known: HashSet::new(),
        })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    pub(super) fn has(&self, digest: &Digest) -> bool {
        self.known.contains(digest)
    }

    /// Bytes that wait to be written.
    pub(super) fn waiting(&self) -> usize {
        self.buffer.len()
    }

    pub(super) fn append(&mut self, header: Header, payload: &[u8]) {
        self.buffer.extend_from_slice(&header.encode());
        self.buffer.extend_from_slice(payload);
        self.note(Placed { header, pack: Some(self.id.clone()), offset: self.end });
        self.end += (HEADER + payload.len()) as u64;
    }

    pub(super) fn note(&mut self, placed: Placed) {
        if placed.header.kind == FrameKind::Object {
            self.known.insert(placed.header.digest);
        }
        self.fresh.push(placed);
    }

    /// Frames that are not in the index yet.
    pub(super) fn fresh(&self) -> &[Placed] {
        &self.fresh
    }

    /// Everything written so far is in the index.
    pub(super) fn indexed(&mut self) {
        self.fresh.clear();
        self.known.clear();
    }

    pub(super) fn sync(&mut self) -> Result<(), StoreError> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let path = PathBuf::from(&self.id);
        // Until it is through, nobody knows what is in the file.
        self.broken = true;
        fsio::at(self.file.write_all(&self.buffer), "can't write the pack", &path)?;
        fsio::at(self.file.sync_data(), "can't sync the pack", &path)?;
        self.broken = false;
        self.buffer.clear();
        Ok(())
    }

    /// Writing has failed: offsets can't be relied on, and another pack must be begun.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }
}

/// Reads the frame at an offset.
pub(super) fn read_at(path: &Path, offset: u64) -> Result<Option<(Header, Vec<u8>)>, StoreError> {
    let file = fsio::at(File::open(path), "can't read", path)?;
    read_from(&file, path, offset)
}

/// Reads the frame at an offset of an open file; small ones with one call.
pub(super) fn read_from(
    file: &File,
    path: &Path,
    offset: u64,
) -> Result<Option<(Header, Vec<u8>)>, StoreError> {
    use std::os::unix::fs::FileExt;
    const FIRST: usize = 4096;
    let mut first = [0u8; FIRST];
    let mut got = 0;
    while got < FIRST {
        match fsio::at(file.read_at(&mut first[got..], offset + got as u64), "can't read", path)? {
            0 => break,
            n => got += n,
        }
    }
    let Some(head) = first[..got].first_chunk::<HEADER>() else { return Ok(None) };
    let Some(header) = Header::decode(head) else { return Ok(None) };
    let mut payload = first[HEADER..got].to_vec();
    if header.stored <= payload.len() as u64 {
        payload.truncate(usize::try_from(header.stored).unwrap_or(0));
        return Ok(Some((header, payload)));
    }
    let mut at = offset + got as u64;
    // What a header claims is asked for piece by piece: a lying one costs no memory.
    let mut piece = vec![0u8; 1 << 16];
    while (payload.len() as u64) < header.stored {
        let left = usize::try_from(header.stored - payload.len() as u64).unwrap_or(usize::MAX);
        let most = left.min(piece.len());
        match fsio::at(file.read_at(&mut piece[..most], at), "can't read", path)? {
            0 => return Ok(None),
            n => {
                payload.extend_from_slice(&piece[..n]);
                at += n as u64;
            }
        }
    }
    Ok(Some((header, payload)))
}

/// Reads the next frame; none at the end or at a frame that isn't whole.
pub(super) fn read_frame(file: &mut impl Read, path: &Path) -> Result<Option<(Header, Vec<u8>)>, StoreError> {
    let mut head = [0u8; HEADER];
    match file.read_exact(&mut head) {
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        other => fsio::at(other, "can't read", path)?,
    }
    let Some(header) = Header::decode(&head) else { return Ok(None) };
    let mut payload = Vec::new();
    fsio::at(file.take(header.stored).read_to_end(&mut payload), "can't read", path)?;
    if payload.len() as u64 != header.stored {
        return Ok(None);
    }
    Ok(Some((header, payload)))
}

/// How many bytes may be read in search of sound frames behind damaged ones, for each byte of a
/// pack: a file of nothing but marks would be read once for each of them.
pub(super) const SEARCH: u64 = 16;

/// Offset of the next sound frame at or behind `from`: where reading goes on
/// behind a damaged one. What is read for it is taken from `left`; when that is
/// used up, nothing more is found.
pub(super) fn resync(path: &Path, from: u64, left: &mut u64) -> Result<Option<u64>, StoreError> {
    const CHUNK: usize = 1 << 20;
    let mut file = fsio::at(File::open(path), "can't read", path)?;
    let size = fsio::at(file.metadata(), "can't look at", path)?.len();
    let (mut start, mut window) = (from, Vec::new());
    loop {
        fsio::at(file.seek(SeekFrom::Start(start + window.len() as u64)), "can't read", path)?;
        let before = window.len();
        let chunk = Read::by_ref(&mut file).take(CHUNK as u64).read_to_end(&mut window);
        fsio::at(chunk, "can't read", path)?;
        if window.len() == before {
            return Ok(None);
        }
        for at in memchr::memmem::find_iter(&window, MAGIC) {
            let offset = start + at as u64;
            let Some(header) = window[at..].first_chunk().and_then(Header::decode) else { continue };
            let length = header.stored + HEADER as u64;
            if length > size.saturating_sub(offset) {
                continue;
            }
            let Some(rest) = left.checked_sub(length) else { return Ok(None) };
            *left = rest;
            if let Some((header, payload)) = read_at(path, offset)?
                && unpack(&header, payload).is_some()
            {
                return Ok(Some(offset));
            }
        }
        // A header may lie across two windows.
        let keep = window.len().min(HEADER - 1);
        start += (window.len() - keep) as u64;
        window.drain(..window.len() - keep);
    }
}
