//! `attach`, `logs`, `cancel`: a run that another process does.

use std::collections::BTreeSet;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::args;
use super::context;
use super::exit::{self, CliError};
use super::out::Out;
use super::progress::Progress;
use crate::event::Event;
use crate::fsio::tree;
use crate::report::assemble::RunView;
use crate::store::Store;
use crate::store::journal::{self, Journal, Tail};

/// Pause between two looks at what has been added.
const LOOK: Duration = Duration::from_millis(100);
/// File of a command's scratch folder that takes what it says, beside those of servers.
const SAID: [&str; 2] = ["said", "stderr.log"];

pub(super) fn attach(command: &args::Attach, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let store = context::existing(store)?;
    let run = context::run_id(&store, &command.run)?;
    let mut tail = Tail::open(store.root(), &run)?;
    let mut progress = Progress::new(out, false);
    loop {
        // Asked before reading: what is written until then is read.
        let live = Journal::is_live(store.root(), &run) != Some(false);
        for line in tail.more() {
            progress.event(&line.event);
            if let Event::RunEnded { exit, .. } = line.event {
                return Ok(exit);
            }
        }
        if !live {
            out.say(&format!("the engine of run {run} is gone; `proofline run` again resumes"));
            return Ok(exit::INCOMPLETE);
        }
        std::thread::sleep(LOOK);
    }
}

pub(super) fn cancel(command: &args::OneRun, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let store = context::existing(store)?;
    let run = context::run_id(&store, &command.run)?;
    if Journal::is_live(store.root(), &run) == Some(false) {
        return Err(CliError::Usage(format!("run {run} doesn't run any more; see `proofline status {run}`")));
    }
    let step = journal::wish_to_stop(store.root(), &run)?;
    if command.json {
        out.json(&serde_json::json!({ "run": run, "step": step }));
    } else {
        let what = if step == 1 {
            "running nodes finish; `proofline cancel` once more ends them"
        } else {
            "running nodes are ended"
        };
        out.data(&format!("run {run} is asked to stop: {what}\n"));
    }
    Ok(0)
}

pub(super) fn logs(command: &args::Logs, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let store = context::existing(store)?;
    let run = context::run_id(&store, &command.run)?;
    let (mut shown, mut begun) = (0, Begun::default());
    let mut tail = Tail::open(store.root(), &run)?;
    loop {
        // Asked before reading: what is written until then is read.
        let live = Journal::is_live(store.root(), &run) != Some(false);
        tail.more().into_iter().for_each(|line| begun.take(line.event, &store));
        let node = begun.node(&run, &command.node)?;
        let folders = begun.folders.iter().rev().filter(|(of, _)| *of == node).map(|(_, folder)| folder);
        let mut files = folders.flat_map(|folder| SAID.map(|name| folder.join(name)));
        if let Some(file) = files.find(|file| file.is_file()) {
            shown += more(&file, shown, out);
            if command.follow && live {
                std::thread::sleep(LOOK);
                continue;
            }
            if shown == 0 {
                out.say(&format!("{node} has said nothing so far"));
            }
            return Ok(0);
        }
        let view = RunView::read(&store, &run)?;
        let done = view.node(&store, &node)?;
        let failed = view.failed.iter().rev().find(|(id, ..)| *id == node);
        let kept = done
            .as_ref()
            .and_then(|n| n.record.part(crate::artifact::part::META))
            .or_else(|| failed.and_then(|(_, _, log)| *log));
        if let Some(digest) = kept {
            let bytes = store.get(&digest)?;
            let rest = bytes.get(usize::try_from(shown).unwrap_or(0)..).unwrap_or_default();
            out.data(&String::from_utf8_lossy(rest));
            return Ok(0);
        }
        if done.is_some() || failed.is_some() {
            if let (0, Some((_, message, _))) = (shown, failed) {
                out.data(&format!("{message}\n"));
            }
            return Ok(0);
        }
        if !(command.follow && live) {
            out.say(&format!("{node} has said nothing so far"));
            return Ok(0);
        }
        std::thread::sleep(LOOK);
    }
}

/// What a run has begun, as its journal tells.
#[derive(Default)]
struct Begun {
    nodes: BTreeSet<String>,
    /// Folders of attempts that go on, the newest last, with their nodes.
    folders: Vec<(String, PathBuf)>,
}

impl Begun {
    fn take(&mut self, event: Event, store: &Store) {
        match event {
            Event::Started { node, folder, .. } if tree::plain(&folder).is_ok() => {
                for place in [store.tmp(), store.attempts_dir()] {
                    self.folders.push((node.clone(), place.join(&folder)));
                }
                self.nodes.insert(node);
            }
            // Its folder may be that of another node by now.
            Event::Done { node, .. } | Event::Failed { node, .. } => {
                self.folders.retain(|(of, _)| *of != node);
                self.nodes.insert(node);
            }
            _ => {}
        }
    }

    /// The node that is meant.
    fn node(&self, run: &str, asked: &str) -> Result<String, CliError> {
        let fitting: Vec<&str> =
            self.nodes.iter().map(String::as_str).filter(|node| node.starts_with(asked)).collect();
        match fitting.as_slice() {
            [one] => Ok((*one).to_owned()),
            _ if self.nodes.contains(asked) => Ok(asked.to_owned()),
            [] => Err(CliError::Usage(format!(
                "run {run} has not executed a node `{asked}`; `proofline status {run}` shows what it did"
            ))),
            several => {
                let some = several.iter().take(5).copied().collect::<Vec<_>>().join(", ");
                Err(CliError::Usage(format!("`{asked}` may be any of {some}, ...")))
            }
        }
    }
}

/// Shows what a file holds behind `from`; how many bytes that was.
fn more(file: &Path, from: u64, out: &Out) -> u64 {
    let Ok(mut opened) = std::fs::File::open(file) else { return 0 };
    let mut bytes = Vec::new();
    if opened.seek(SeekFrom::Start(from)).is_err() || opened.read_to_end(&mut bytes).is_err() {
        return 0;
    }
    out.data(&String::from_utf8_lossy(&bytes));
    bytes.len() as u64
}
