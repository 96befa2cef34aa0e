//! `lock`: the exact servers of a pipeline, by the files that are installed.
//!
//! Starts nothing. A server that is part of proofline or a file of the project
//! needs no entry: its own version or digest identifies it already.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::json;

use super::args;
use super::context;
use super::exit::{CliError, INFRASTRUCTURE};
use super::out::Out;
use super::package::{self, Installed};
use crate::fsio::{self, Durability};
use crate::manifest::lock::{Lock, LockedServer};
use crate::manifest::server::Server;
use crate::manifest::write::Doc;
use crate::process;
use crate::stage::identity;

pub(super) fn lock(command: &args::Lock, out: &Out) -> Result<u8, CliError> {
    let pipeline = context::compiled(&command.pipeline, command.json, out)?;
    let old = context::lock(&pipeline.root, command.json)?;
    let mut lock = old.clone().unwrap_or_default();
    lock.format = 1;
    let (mut locked, mut failed, mut notes) = (BTreeMap::new(), Vec::new(), Vec::new());
    let mut own = BTreeSet::new();
    for arm in &pipeline.arms {
        let Some(preset) = &arm.server else { continue };
        let base = arm.preset_dir.as_deref().unwrap_or(&pipeline.root);
        if !identity::is_unlocked(preset, base, None) {
            own.insert(preset.name.clone());
            continue;
        }
        match installed(preset, base) {
            Ok(found) => {
                let tree = found.tree()?;
                let version = [&found.version, &preset.version].into_iter().find(|v| !v.is_empty());
                let entry = LockedServer {
                    version: version.map_or_else(|| "unknown".to_owned(), Clone::clone),
                    digest: tree.digest(),
                    files: tree.entries.len() as u64,
                };
                notes.extend(found.note.iter().map(|note| format!("{}: {note}", preset.name)));
                if !found.version.is_empty() && !preset.version.is_empty() && found.version != preset.version
                {
                    notes.push(format!(
                        "{}: version {} is installed, its preset states {}",
                        preset.name, found.version, preset.version
                    ));
                }
                locked.insert(preset.name.clone(), entry);
            }
            Err(words) => failed.push(format!("{}: {words}", preset.name)),
        }
    }
    let changed: BTreeMap<&String, &'static str> = locked
        .iter()
        .map(|(name, entry)| {
            let word = match old.as_ref().and_then(|old| old.server.get(name)) {
                None => "new",
                Some(was) if was == entry => "as before",
                Some(_) => "changed",
            };
            (name, word)
        })
        .collect();
    lock.server.extend(locked.clone());
    if !lock.server.is_empty() {
        fsio::write_atomic(&pipeline.root.join(context::LOCK), text(&lock).as_bytes(), Durability::Synced)?;
    }
    let exit = if failed.is_empty() { 0 } else { INFRASTRUCTURE };
    if command.json {
        out.json(&json!({
            "locked": locked, "changed": changed, "own": own, "failed": failed, "notes": notes, "exit": exit
        }));
        return Ok(exit);
    }
    for (name, entry) in &locked {
        out.data(&format!(
            "{name} {}: {} file(s), {} ({})\n",
            entry.version,
            entry.files,
            entry.digest.short(),
            changed.get(name).copied().unwrap_or_default()
        ));
    }
    for name in &own {
        out.data(&format!("{name}: part of proofline or a file of the project, needs no lock\n"));
    }
    for note in &notes {
        out.data(&format!("note: {note}\n"));
    }
    for words in &failed {
        out.say(&format!("error: can't lock {words}"));
    }
    if !locked.is_empty() {
        out.data(&format!("wrote {}; `proofline run --locked` refuses any other server\n", context::LOCK));
    }
    Ok(exit)
}

/// The package of a preset's program, or why there is none.
pub(super) fn installed(preset: &Server, base: &Path) -> Result<Installed, String> {
    let Some(first) = preset.command.first() else {
        return Err("it has no command: a server that runs elsewhere can't be locked".to_owned());
    };
    let program = process::find_program(first, &context::search_path(), base)
        .ok_or_else(|| format!("its program `{first}` is not on PATH"))?;
    let args: Vec<String> = preset.command[1..]
        .iter()
        .map(|word| {
            identity::file_of(word, base).map_or_else(|| word.clone(), |p| p.to_string_lossy().into_owned())
        })
        .collect();
    Ok(package::of(&program, &args))
}

fn text(lock: &Lock) -> String {
    let mut doc = Doc::default();
    doc.comment("Written by `proofline lock`: the servers that are installed, by the digest of their files.");
    doc.pair("format", 1);
    for (name, entry) in &lock.server {
        doc.table(&["server", name]).pair("version", entry.version.as_str());
        doc.pair("digest", entry.digest.hex()).pair("files", entry.files);
    }
    doc.text().to_owned()
}
