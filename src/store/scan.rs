//! Reading packs and object files from end to end: what an index is made from.

use std::fs::File;
use std::path::Path;

use super::StoreError;
use super::index::Staged;
use super::ledger::StagedEntry;
use super::object::loose_path;
use super::pack::{self, FrameKind, HEADER, Header, Placed};
use super::record::Record;
use super::standing::Envelope;
use crate::digest::Digest;
use crate::fsio;

/// What a pack holds from an offset on.
#[derive(Default)]
pub(super) struct Scanned {
    pub(super) id: String,
    /// Where the last sound frame ends.
    pub(super) end: u64,
    pub(super) placed: Vec<Placed>,
    pub(super) staged: Vec<Staged>,
    pub(super) ledger: Vec<StagedEntry>,
}

/// The sound frames of a pack from an offset on.
pub(super) fn scan_pack(path: &Path, id: String, from: u64) -> Result<Scanned, StoreError> {
    use std::io::{BufReader, Seek, SeekFrom};
    let file = fsio::at(File::open(path), "can't read", path)?;
    let mut left = fsio::at(file.metadata(), "can't look at", path)?.len().saturating_mul(pack::SEARCH);
    let mut reader = BufReader::with_capacity(1 << 20, file);
    fsio::at(reader.seek(SeekFrom::Start(from)), "can't read", path)?;
    let mut out = Scanned { id, end: from, ..Scanned::default() };
    loop {
        let frame = pack::read_frame(&mut reader, path)?.and_then(|(header, payload)| {
            let length = (HEADER + payload.len()) as u64;
            Some((header, pack::unpack(&header, payload)?, length))
        });
        let Some((header, body, length)) = frame else {
            // Damaged, or the torn end that a crash leaves: what is sound behind it still counts.
            let Some(next) = pack::resync(path, out.end + 1, &mut left)? else { break };
            fsio::at(reader.seek(SeekFrom::Start(next)), "can't read", path)?;
            out.end = next;
            continue;
        };
        match header.kind {
            FrameKind::Record => {
                if let Ok(record) = serde_json::from_slice::<Record>(&body) {
                    out.staged.push(Staged { record, digest: header.digest, arrival: None });
                }
            }
            FrameKind::Arrival => out.staged.extend(Envelope::open(&body)),
            FrameKind::Ledger => {
                if let Ok(entry) = serde_json::from_slice(&body) {
                    out.ledger.push(StagedEntry { entry, digest: header.digest });
                }
            }
            FrameKind::Object => {
                out.placed.push(Placed { header, pack: Some(out.id.clone()), offset: out.end });
            }
        }
        out.end += length;
    }
    Ok(out)
}

/// Frames of the object files.
pub(super) fn scan_loose(root: &Path) -> Result<Vec<Placed>, StoreError> {
    use std::io::Read;
    let mut out = Vec::new();
    let folder = root.join("objects");
    for path in crate::fsio::tree::list(&folder)? {
        let Ok(digest) = path.replace('/', "").parse::<Digest>() else { continue };
        let full = loose_path(root, &digest);
        let mut head = [0u8; HEADER];
        let mut file = fsio::at(File::open(&full), "can't read", &full)?;
        if file.read_exact(&mut head).is_err() {
            continue;
        }
        if let Some(header) = Header::decode(&head)
            && header.digest == digest
        {
            out.push(Placed { header, pack: None, offset: 0 });
        }
    }
    Ok(out)
}
