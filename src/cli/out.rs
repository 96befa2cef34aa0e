//! The only place that prints: data to stdout, words for people to stderr.

use std::io::{self, IsTerminal, Write};

/// Where output goes and what kind of place that is.
pub(super) struct Out {
    /// stdout is a terminal.
    pub(super) data_tty: bool,
    /// stderr is a terminal.
    pub(super) people_tty: bool,
    /// stdin is a terminal: questions can be asked.
    pub(super) can_ask: bool,
    /// Columns of the terminal.
    pub(super) width: usize,
}

impl Out {
    #[expect(clippy::disallowed_methods, reason = "cli reads the environment for the rest")]
    pub(super) fn new() -> Self {
        let columns = std::env::var_os("COLUMNS").and_then(|c| c.to_str()?.parse().ok());
        Self {
            data_tty: io::stdout().is_terminal(),
            people_tty: io::stderr().is_terminal(),
            can_ask: io::stdin().is_terminal() && io::stderr().is_terminal(),
            width: columns.unwrap_or(100).clamp(60, 200),
        }
    }

    /// Writes data; a closed pipe is the reader's choice and no error.
    #[expect(clippy::unused_self, reason = "who prints has an Out")]
    pub(super) fn data(&self, text: &str) {
        let mut stdout = io::stdout().lock();
        let _ = stdout.write_all(text.as_bytes());
        let _ = stdout.flush();
    }

    /// Writes raw bytes as data.
    #[expect(clippy::unused_self, reason = "who prints has an Out")]
    pub(super) fn bytes(&self, bytes: &[u8]) {
        let mut stdout = io::stdout().lock();
        let _ = stdout.write_all(bytes);
        let _ = stdout.flush();
    }

    /// Writes one JSON value on a line.
    pub(super) fn json(&self, value: &serde_json::Value) {
        self.data(&format!("{value}\n"));
    }

    /// Writes a line for people.
    #[expect(clippy::unused_self, reason = "who prints has an Out")]
    pub(super) fn say(&self, text: &str) {
        let _ = writeln!(io::stderr().lock(), "{text}");
    }

    /// Asks a yes-or-no question; no without a terminal.
    pub(super) fn ask(&self, question: &str) -> bool {
        if !self.can_ask {
            return false;
        }
        let _ = write!(io::stderr().lock(), "{question} [y/N] ");
        let mut line = String::new();
        let _ = io::stdin().read_line(&mut line);
        matches!(line.trim(), "y" | "Y" | "yes")
    }
}
