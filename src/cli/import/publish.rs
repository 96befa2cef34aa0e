//! Imported answers as records of the store: what a run would have made of them.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::exit::CliError;
use crate::clock::Clock;
use crate::digest::Digest;
use crate::fsio;
use crate::import::Kept;
use crate::manifest::load;
use crate::plan::compiled::Answer;
use crate::stage::recorded;
use crate::store::{Outcome, Publication, Record, Shared, Store};

/// Most bytes that are published at once.
const BATCH: usize = 32 << 20;
/// Largest file, in bytes.
const LARGEST: u64 = 256 << 20;

/// Publishes the answers of the recording that was just written.
pub(super) fn publish(store: &Store, into: &Path, kept: &[Kept]) -> Result<(), CliError> {
    let failed = |why: String| CliError::Infrastructure(why);
    let file = into.join("recording.toml");
    let bytes = fsio::read(&file)?;
    let loaded = load::recording(&file.display().to_string(), &bytes);
    if let Some(wrong) = loaded.diagnostics.iter().find(|d| d.is_error()) {
        return Err(failed(format!("the imported `{}` is not valid: {}", file.display(), wrong.message)));
    }
    let Some(recording) = loaded.value else {
        return Err(failed(format!("the imported `{}` can't be read", file.display())));
    };
    let now = Clock::System.now_ms();
    let base = Record {
        format: 1,
        key: Digest::of(b""),
        recipe: Digest::of(b""),
        pipeline: "regrade".to_owned(),
        node: String::new(),
        kind: String::new(),
        parts: BTreeMap::new(),
        outcome: Outcome::Done,
        used: BTreeMap::new(),
        origin: store.origin().to_owned(),
        run: "import".to_owned(),
        attempt: 1,
        started: now,
        ended: now,
        machine: None,
        unconfined: None,
        blessed: None,
        usd: None,
    };
    // Rows of one file come one after the other and share it.
    let mut shared: BTreeMap<&str, (&Path, Shared)> = BTreeMap::new();
    let (mut batch, mut size): (Vec<Publication>, usize) = (Vec::new(), 0);
    for (wire, kept) in recording.answer.into_iter().zip(kept) {
        let transcript = kept.transcript.read(LARGEST).map_err(failed)?;
        let judgement = kept.judgement.as_ref().map(|path| fsio::read_limited(path, LARGEST)).transpose()?;
        let mut others = Vec::new();
        for (name, path) in &kept.others {
            let held = match shared.get(name.as_str()) {
                Some((held, bytes)) if held == path => bytes.clone(),
                _ => {
                    let bytes = fsio::read_limited(path, LARGEST)?;
                    size += bytes.len();
                    let bytes = Shared::new(bytes);
                    shared.insert(name, (path, bytes.clone()));
                    bytes
                }
            };
            others.push((name.clone(), held));
        }
        let answer = Answer::of(wire, &recording.label, Vec::new(), None);
        size += transcript.len() + judgement.as_ref().map_or(0, Vec::len);
        let files = recorded::Files { transcript, judgement, others };
        let made = recorded::publications(&kept.id, &answer, files, &base);
        batch.extend(made.map_err(|e| failed(format!("{}: {e}", kept.id)))?);
        if size > BATCH {
            drop(store.publish(std::mem::take(&mut batch))?);
            size = 0;
        }
    }
    drop(store.publish(batch)?);
    Ok(())
}
