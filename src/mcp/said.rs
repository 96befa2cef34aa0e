//! A server's standard error: always drained, head and tail kept, last words told.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use regex::Regex;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::wire::Wire;
use crate::fsio::{self, FsError};

/// Bytes that go to the log from the beginning.
const HEAD: usize = 512 * 1024;
/// Bytes that go to the log from the end.
const TAIL: usize = 256 * 1024;
/// Most characters and lines of last words.
const WORDS: usize = 1_200;
const WORD_LINES: usize = 12;

/// What a server says beside the protocol.
#[derive(Debug)]
pub(super) struct Said {
    kept: Arc<Mutex<Kept>>,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Debug)]
struct Kept {
    log: Option<File>,
    headed: usize,
    tail: Vec<u8>,
    left_out: u64,
}

impl Said {
    /// Opens the log.
    pub(super) fn open(path: &Path) -> Result<Self, FsError> {
        let log = Some(fsio::append(path)?);
        let kept = Kept { log, headed: 0, tail: Vec::new(), left_out: 0 };
        Ok(Self { kept: Arc::new(Mutex::new(kept)), tasks: Vec::new() })
    }

    /// Drains a stream from now on.
    pub(super) fn drain<R: AsyncRead + Unpin + Send + 'static>(&mut self, stream: Option<R>, wire: &Wire) {
        let Some(mut stream) = stream else { return };
        let (kept, wire) = (Arc::clone(&self.kept), wire.clone());
        self.tasks.push(tokio::spawn(async move {
            let mut chunk = vec![0u8; 64 * 1024];
            while let Ok(n @ 1..) = stream.read(&mut chunk).await {
                wire.stderr_bytes(n as u64);
                lock(&kept).take(&chunk[..n]);
            }
        }));
    }

    /// Takes bytes that were collected otherwise.
    pub(super) fn take(&self, bytes: &[u8], wire: &Wire) {
        wire.stderr_bytes(bytes.len() as u64);
        lock(&self.kept).take(bytes);
    }

    /// Waits up to `limit` for the streams to end.
    pub(super) async fn settle(&mut self, limit: Duration) {
        for task in &mut self.tasks {
            if !task.is_finished() {
                // What isn't there by then is not waited for.
                let _ = timeout(limit, task).await;
            }
        }
        self.tasks.retain(|task| !task.is_finished());
    }

    /// The last lines, without colours and control characters; empty when it said nothing.
    pub(super) fn words(&self) -> String {
        let kept = lock(&self.kept);
        let from = kept.tail.len().saturating_sub(16 * 1024);
        last_words(&String::from_utf8_lossy(&kept.tail[from..]))
    }

    /// Completes the log.
    pub(super) fn close(&mut self) {
        self.tasks.drain(..).for_each(|task| task.abort());
        lock(&self.kept).close();
    }
}

impl Drop for Said {
    fn drop(&mut self) {
        self.close();
    }
}

impl Kept {
    fn take(&mut self, bytes: &[u8]) {
        let head = bytes.len().min(HEAD - self.headed);
        if head > 0 {
            if let Some(log) = &mut self.log {
                // A full disk costs a log, not the run.
                let _ = log.write_all(&bytes[..head]);
            }
            self.headed += head;
        }
        self.left_out += (bytes.len() - head) as u64;
        self.tail.extend_from_slice(bytes);
        if self.tail.len() > 2 * TAIL {
            self.tail.drain(..self.tail.len() - TAIL);
        }
    }

    fn close(&mut self) {
        let Some(mut log) = self.log.take() else { return };
        let end = usize::try_from(self.left_out).unwrap_or(usize::MAX).min(self.tail.len()).min(TAIL);
        let lost = self.left_out - end as u64;
        if lost > 0 {
            let _ = writeln!(log, "\n[{lost} bytes left out]");
        }
        let _ = log.write_all(&self.tail[self.tail.len() - end..]);
    }
}

fn lock(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The last lines of a text, bounded, printable.
pub(super) fn last_words(text: &str) -> String {
    static ESCAPES: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]").ok()
    });
    let plain = match &*ESCAPES {
        Some(escapes) => escapes.replace_all(text, ""),
        None => text.into(),
    };
    let lines: Vec<String> = plain
        .split(['\n', '\r'])
        .map(|line| {
            let line: String = line.chars().map(|c| if c == '\t' { ' ' } else { c }).collect();
            line.chars().filter(|c| !c.is_control()).collect::<String>().trim_end().to_owned()
        })
        .filter(|line| !line.trim().is_empty())
        .collect();
    let joined = lines[lines.len().saturating_sub(WORD_LINES)..].join("\n");
    let over = joined.chars().count().saturating_sub(WORDS);
    if over == 0 { joined } else { format!("…{}", joined.chars().skip(over).collect::<String>()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_words_are_plain_and_short() {
        assert_eq!(last_words("a\n\x1b[31mred\x1b[0m\x07\n\n\x1b]0;title\x07b\r\n"), "a\nred\nb");
        assert_eq!(last_words(""), "");
        let many = "line é\n".repeat(100_000);
        let words = last_words(&many);
        assert!(words.lines().count() == WORD_LINES && words.chars().count() <= WORDS + 1);
        assert!(last_words(&"x".repeat(5_000)).starts_with('…'));
    }

    #[test]
    fn a_log_keeps_head_and_tail() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stderr.log");
        let mut said = Said::open(&path).unwrap();
        for i in 0..200_000 {
            lock(&said.kept).take(format!("line number {i}\n").as_bytes());
        }
        said.close();
        let log = String::from_utf8(fsio::read(&path).unwrap()).unwrap();
        assert!(log.starts_with("line number 0\n") && log.ends_with("line number 199999\n"));
        assert!(log.contains("bytes left out]") && log.len() < HEAD + TAIL + 100, "{}", log.len());
        assert!(said.words().ends_with("199999"));
    }

    #[test]
    fn a_short_log_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stderr.log");
        let mut said = Said::open(&path).unwrap();
        lock(&said.kept).take(b"one\ntwo\n");
        said.close();
        assert_eq!(fsio::read(&path).unwrap(), b"one\ntwo\n");
    }
}
