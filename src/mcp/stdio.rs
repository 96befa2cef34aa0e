//! MCP over a child's pipes, with the tee in between.
//!
//! rmcp reads and writes an in-memory pipe; two tasks carry lines between it
//! and the child. Only well-formed frames for requests that we sent reach
//! rmcp; requests of the server are answered here, so that they work before
//! the opening exchange is over as well.

use serde_json::Value;
use tokio::io::{
    AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf, duplex, split,
};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::wire::{Verdict, Wire};

/// Bytes in flight between rmcp and us.
const PIPE: usize = 256 * 1024;
/// What is kept of a line that is over the limit: this much of both ends.
const KEPT: usize = 8 * 1024;

/// The two carriers of a connection.
#[derive(Debug)]
pub(super) struct Carriers {
    out: JoinHandle<()>,
    back: JoinHandle<()>,
}

/// rmcp's ends of the pipe: what it reads from and writes to.
pub(super) type Ends = (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>);

/// Connects a child's pipes. A line of the server of more than `limit` bytes
/// is thrown away.
pub(super) fn connect(stdin: ChildStdin, stdout: ChildStdout, wire: &Wire, limit: u64) -> (Carriers, Ends) {
    let (ours, theirs) = duplex(PIPE);
    let (from_rmcp, to_rmcp) = split(ours);
    let (answer, answers) = mpsc::unbounded_channel();
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let out = tokio::spawn(carry_out(from_rmcp, answers, stdin, wire.clone()));
    let back = tokio::spawn(carry_back(stdout, to_rmcp, answer, wire.clone(), limit));
    (Carriers { out, back }, split(theirs))
}

impl Carriers {
    /// Closes the child's standard input.
    pub(super) fn close_input(&self) {
        self.out.abort();
    }

    /// Stops reading as well.
    pub(super) fn stop(&self) {
        self.out.abort();
        self.back.abort();
    }
}

impl Drop for Carriers {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Bytes that the kernel's pipe takes without its reader.
const KERNEL_PIPE: usize = 64 * 1024;

async fn carry_out(
    from_rmcp: ReadHalf<DuplexStream>,
    mut answers: mpsc::UnboundedReceiver<String>,
    mut stdin: ChildStdin,
    wire: Wire,
) {
    let mut lines = BufReader::new(from_rmcp);
    let mut line = Vec::new();
    loop {
        let mut next = tokio::select! {
            // Cancelled half-way it leaves what it has in `line` and goes on from there.
            read = lines.read_until(b'\n', &mut line) => match read {
                Ok(1..) => std::mem::take(&mut line),
                _ => return,
            },
            Some(answer) = answers.recv() => answer.into_bytes(),
        };
        let frame: Value = serde_json::from_slice(&next).unwrap_or_default();
        if next.last() != Some(&b'\n') {
            next.push(b'\n');
        }
        wire.sending(&frame, next.len());
        if stdin.write_all(&next).await.is_err() || stdin.flush().await.is_err() {
            return;
        }
        // What fits the pipe is there at once, and a busy machine may wake us long after the
        // server has begun: then the time before the write is the right one.
        if next.len() > KERNEL_PIPE {
            wire.sent(&frame);
        }
    }
}

async fn carry_back(
    mut stdout: ChildStdout,
    mut to_rmcp: WriteHalf<DuplexStream>,
    answer: mpsc::UnboundedSender<String>,
    wire: Wire,
    limit: usize,
) {
    let mut lines = Lines::new(limit);
    let mut chunk = vec![0u8; 64 * 1024];
    let mut listening = true;
    while let Ok(n @ 1..) = stdout.read(&mut chunk).await {
        let at = wire.now();
        let mut rest = &chunk[..n];
        while let Some(line) = lines.take(&mut rest) {
            match line {
                Line::Whole(line) => match wire.line(&line, at) {
                    Verdict::Forward if listening => {
                        // When rmcp has gone we still drain, or the child blocks.
                        listening =
                            to_rmcp.write_all(&line).await.is_ok() && to_rmcp.write_all(b"\n").await.is_ok();
                    }
                    Verdict::Answer(text) => {
                        // The other carrier ends with the child's input.
                        let _ = answer.send(text);
                    }
                    _ => {}
                },
                Line::OverLong(over) => wire.over_long(&over.head, &over.tail, over.bytes, at),
            }
        }
    }
    let at = wire.now();
    match lines.over {
        Some(over) => wire.over_long(&over.head, &over.tail, over.bytes, at),
        None if !lines.buffer.is_empty() => wire.cut_line(&lines.buffer, at),
        None => {}
    }
    wire.close();
}

/// Splits a stream into lines, keeping at most `limit` bytes of one.
struct Lines {
    buffer: Vec<u8>,
    limit: usize,
    over: Option<OverLong>,
}

/// What is left of a line that was over the limit.
struct OverLong {
    head: Vec<u8>,
    tail: Vec<u8>,
    bytes: u64,
}

enum Line {
    Whole(Vec<u8>),
    OverLong(OverLong),
}

impl Lines {
    fn new(limit: usize) -> Self {
        Self { buffer: Vec::new(), limit, over: None }
    }

    /// The next complete line; takes what it uses from `rest`.
    fn take(&mut self, rest: &mut &[u8]) -> Option<Line> {
        let end = memchr::memchr(b'\n', rest);
        let (part, left) = match end {
            Some(at) => (&rest[..at], &rest[at + 1..]),
            None => (*rest, &rest[rest.len()..]),
        };
        *rest = left;
        if self.over.is_none() && self.buffer.len() + part.len() > self.limit {
            let head = std::mem::take(&mut self.buffer);
            let bytes = head.len() as u64;
            self.over = Some(OverLong {
                tail: head[head.len().saturating_sub(KEPT)..].to_vec(),
                head: head.into_iter().take(KEPT).collect(),
                bytes,
            });
        }
        match &mut self.over {
            Some(over) => {
                over.bytes += part.len() as u64;
                let room = KEPT.saturating_sub(over.head.len());
                over.head.extend_from_slice(&part[..part.len().min(room)]);
                over.tail.extend_from_slice(&part[part.len().saturating_sub(KEPT)..]);
                if over.tail.len() > 4 * KEPT {
                    over.tail.drain(..over.tail.len() - KEPT);
                }
            }
            None => self.buffer.extend_from_slice(part),
        }
        end?;
        match self.over.take() {
            Some(over) => Some(Line::OverLong(over)),
            None => Some(Line::Whole(std::mem::take(&mut self.buffer))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn feed(lines: &mut Lines, bytes: &[u8]) -> Vec<Result<Vec<u8>, u64>> {
        let mut rest = bytes;
        let mut out = Vec::new();
        while let Some(line) = lines.take(&mut rest) {
            out.push(match line {
                Line::Whole(line) => Ok(line),
                Line::OverLong(over) => Err(over.bytes),
            });
        }
        out
    }

    #[test]
    fn lines_come_whole_whatever_the_pieces() {
        let mut lines = Lines::new(100);
        assert!(feed(&mut lines, b"ab").is_empty());
        assert_eq!(feed(&mut lines, b"c\n\nde\nf"), [Ok(b"abc".to_vec()), Ok(vec![]), Ok(b"de".to_vec())]);
        assert_eq!(feed(&mut lines, b"\n"), [Ok(b"f".to_vec())]);
    }

    #[test]
    fn a_line_over_the_limit_costs_no_memory_and_ends_alone() {
        let mut lines = Lines::new(100_000);
        let mut out = Vec::new();
        for _ in 0..1_000 {
            out.extend(feed(&mut lines, &[b'x'; 10_000]));
            assert!(lines.buffer.len() <= 100_000);
            assert!(lines.over.as_ref().is_none_or(|o| o.head.len() <= KEPT && o.tail.len() <= 5 * KEPT));
        }
        assert!(out.is_empty());
        assert_eq!(feed(&mut lines, b"\nnext\n"), [Err(10_000_000), Ok(b"next".to_vec())]);
    }
}
