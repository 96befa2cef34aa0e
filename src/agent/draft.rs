//! A transcript while it is being read: entries in order, turns, and who spent which tokens.

use std::collections::HashMap;

use crate::artifact::transcript::{
    Call, Entry, Fault, LimitKind, Reply, ServerSeen, Transcript, TurnEnd, Usage, What,
};

use super::loose::{Content, Piece};
use super::source::Losses;
use super::tools::{self, Prefix};
use super::{Dialect, Hints};

/// Longest lists that are kept of what a stream names; a list is searched for each new word.
const MAX_MODELS: usize = 128;
const MAX_SERVERS: usize = 128;
const MAX_TOOLS: usize = 4096;

/// Who says something, when, and in which message.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Who<'m> {
    pub(super) sub_agent: bool,
    pub(super) message: Option<&'m str>,
    pub(super) at_ms: Option<u64>,
}

/// What one message cost.
#[derive(Clone, Copy, Debug)]
struct Spent {
    turn: u32,
    sub_agent: bool,
    usage: Usage,
    /// Output that is said apart from the rest, and better known.
    output: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Draft<'h> {
    pub(super) out: Transcript,
    hints: &'h Hints,
    turn: u32,
    /// Something happened since the last turn ended.
    pub(super) open: bool,
    /// Models that were asked for, where none answered.
    asked: Vec<String>,
    spent: Vec<Spent>,
    by_message: HashMap<String, usize>,
    key: String,
    /// A message came without its tokens: no sum over messages can be right.
    untold: bool,
    retried: Option<(u32, Option<u16>)>,
}

impl<'h> Draft<'h> {
    pub(super) fn new(dialect: Dialect, hints: &'h Hints) -> Self {
        Self {
            out: Transcript { dialect, ..Transcript::default() },
            hints,
            turn: 0,
            open: false,
            asked: Vec::new(),
            spent: Vec::new(),
            by_message: HashMap::new(),
            key: String::new(),
            untold: false,
            retried: None,
        }
    }

    pub(super) fn turn(&self) -> u32 {
        self.turn
    }

    pub(super) fn say(&mut self, who: Who<'_>, what: What) {
        self.flush_retries();
        self.open = true;
        self.out.entries.push(Entry {
            turn: self.turn,
            sub_agent: who.sub_agent,
            message: who.message.map(str::to_owned),
            at_ms: who.at_ms,
            what,
        });
    }

    pub(super) fn text(&mut self, who: Who<'_>, text: &str) {
        if !text.is_empty() {
            self.say(who, What::Text(text.to_owned()));
        }
    }

    pub(super) fn thinking(&mut self, who: Who<'_>, text: &str) {
        self.say(who, What::Thinking { chars: text.chars().count() as u64 });
    }

    pub(super) fn call(
        &mut self,
        who: Who<'_>,
        id: Option<String>,
        name: String,
        prefix: Prefix,
        input: serde_json::Value,
    ) {
        let known = self.out.servers.iter().map(|s| s.name.as_str());
        let call = tools::call(name, prefix, known.chain(self.hints.servers.iter().map(String::as_str)));
        if let Some(server) = &call.server {
            self.named(server.clone(), None);
        }
        self.say(who, What::Call(Call { id, input, ..call }));
    }

    pub(super) fn reply(&mut self, who: Who<'_>, id: Option<String>, text: String, error: bool) {
        self.say(who, What::Result(Reply { id, text, error }));
    }

    /// Marks the end of a turn; what follows is another's.
    pub(super) fn end_turn(&mut self, end: TurnEnd) {
        self.flush_retries();
        self.out.turns.push(end);
        self.turn = self.turn.saturating_add(1);
        self.open = false;
    }

    /// Something was said in the main thread since the last turn ended.
    pub(super) fn spoke(&self) -> bool {
        let this = self.out.entries.iter().rev().take_while(|e| e.turn == self.turn);
        this.filter(|e| !e.sub_agent).any(|e| matches!(e.what, What::Text(_) | What::Notice(_)))
    }

    pub(super) fn fault(&mut self, fault: Fault) {
        self.flush_retries();
        self.out.faults.push(fault);
    }

    /// A request was repeated; repetitions in a row are one fault.
    pub(super) fn retry(&mut self, status: Option<u16>) {
        let (times, _) = self.retried.unwrap_or_default();
        self.retried = Some((times.saturating_add(1), status));
    }

    fn flush_retries(&mut self) {
        if let Some((times, status)) = self.retried.take() {
            self.out.faults.push(Fault::Retried { times, status });
        }
    }

    /// A request failed for good. Too many requests are told from the rest by status or word.
    pub(super) fn refused(&mut self, status: Option<u16>, word: Option<&str>, text: String) {
        let status = status.or_else(|| status_in(&text));
        let limited = status == Some(429) || word.is_some_and(|w| w.starts_with("rate_limit"));
        self.fault(if limited { Fault::RateLimited { text } } else { Fault::ApiError { status, text } });
    }

    pub(super) fn limit(&mut self, which: LimitKind, text: &str) {
        self.fault(Fault::Limit { which, value: number_in(text) });
    }

    pub(super) fn answered(&mut self, model: &str) {
        note(&mut self.out.models, model, MAX_MODELS);
    }

    pub(super) fn asked(&mut self, model: &str) {
        note(&mut self.asked, model, MAX_MODELS);
    }

    pub(super) fn tool(&mut self, name: &str) {
        // Lists of tools are repeated for each turn of one process.
        note(&mut self.out.tools, name, MAX_TOOLS);
    }

    /// A server's name, with its state where one is given.
    pub(super) fn named(&mut self, name: String, status: Option<String>) {
        let servers = &mut self.out.servers;
        let room = servers.len() < MAX_SERVERS;
        match servers.iter_mut().find(|s| s.name == name) {
            Some(seen) if status.is_some() => seen.status = status,
            None if room => servers.push(ServerSeen { name, status }),
            _ => {}
        }
    }

    /// What a message cost, as told last. A sub-agent's message is another, even by the same id.
    pub(super) fn spend(&mut self, thread: Option<&str>, message: Option<&str>, usage: Option<Usage>) {
        let (Some(message), Some(usage)) = (message, usage) else {
            self.untold = true;
            return;
        };
        let slot = self.slot(thread, message);
        self.spent[slot].usage = usage;
    }

    /// Output of a message that is told apart.
    pub(super) fn spend_output(&mut self, thread: Option<&str>, message: &str, output: u64) {
        let slot = self.slot(thread, message);
        self.spent[slot].output = Some(output);
    }

    fn slot(&mut self, thread: Option<&str>, message: &str) -> usize {
        self.key.clear();
        self.key.push_str(thread.unwrap_or_default());
        self.key.push('\0');
        self.key.push_str(message);
        if let Some(slot) = self.by_message.get(&self.key) {
            return *slot;
        }
        let slot = self.spent.len();
        self.by_message.insert(self.key.clone(), slot);
        let zero = Usage::default();
        self.spent.push(Spent { turn: self.turn, sub_agent: thread.is_some(), usage: zero, output: None });
        slot
    }

    /// Tokens of messages: of the last turn or all, of the main thread or all; none where there are none.
    pub(super) fn messages(&self, turn: Option<u32>, main_only: bool) -> Option<Usage> {
        if self.untold {
            return None;
        }
        // Only the last turn is ever asked for by itself.
        let of_turn = self.spent.iter().rev().take_while(|s| turn.is_none_or(|t| s.turn == t));
        let wanted = of_turn.filter(|s| !(main_only && s.sub_agent));
        wanted.map(|s| Usage { output: s.output.or(s.usage.output), ..s.usage }).reduce(Usage::plus)
    }

    /// The whole: what turns say of themselves, and what is known of a turn that has no end.
    pub(super) fn finish(mut self, losses: Losses, told: bool) -> Transcript {
        self.flush_retries();
        if self.out.models.is_empty() {
            self.out.models = std::mem::take(&mut self.asked);
        }
        self.out.usage_messages = self.messages(None, false);
        self.out.usage_messages_main = self.messages(None, true);
        let all = |each: &dyn Fn(&TurnEnd) -> Option<Usage>, turns: &[TurnEnd]| {
            let known: Option<Vec<Usage>> = turns.iter().map(each).collect();
            known.and_then(|k| k.into_iter().reduce(Usage::plus))
        };
        let turns = &self.out.turns;
        let ended = all(&|t| t.usage, turns);
        let open = self.open.then(|| self.messages(Some(self.turn), false));
        self.out.usage = match open {
            None => ended,
            Some(open) if turns.is_empty() => open,
            Some(open) => ended.zip(open).map(|(a, b)| a.plus(b)),
        };
        if told && !self.open {
            self.out.usage_main = all(&|t| t.usage_main, turns);
        }
        if self.out.cost_usd.is_none() && !self.open {
            self.out.cost_usd = sum(turns.iter().map(|t| t.cost_usd));
        }
        self.out.duration_ms = sum(turns.iter().map(|t| t.duration_ms));
        for server in &self.out.servers {
            if let Some(status) = server.status.as_deref().filter(|s| *s != "connected") {
                let (name, status) = (server.name.clone(), status.to_owned());
                self.out.faults.push(Fault::ServerNotConnected { name, status });
            }
        }
        if losses.unreadable > 0 {
            self.out.faults.push(Fault::UnreadableLines { lines: losses.unreadable });
        }
        if losses.cut {
            self.out.faults.push(Fault::Cut);
        }
        if self.open || self.out.turns.is_empty() {
            self.out.faults.push(Fault::NoFinalRecord);
        }
        self.out
    }
}

/// The sum; none when there is nothing, or one is unknown.
fn sum(of: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    of.reduce(|a, b| a.zip(b).map(|(a, b)| a + b)).flatten()
}

fn note(list: &mut Vec<String>, word: &str, most: usize) {
    if !word.is_empty() && list.len() < most && !list.iter().any(|w| w == word) {
        list.push(word.to_owned());
    }
}

/// An HTTP status that an agent's words name: the first number of three digits from 400 on that
/// stands by itself after `status`, `Error:` or an opening bracket.
fn status_in(text: &str) -> Option<u16> {
    let bytes = text.as_bytes();
    let digits = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_digit);
    // The words come first; what follows is the other side's.
    let end = bytes.len().min(400);
    (0..end).find_map(|at| {
        let before = at.checked_sub(1).is_some_and(digits);
        if before || !digits(at) || !digits(at + 1) || !digits(at + 2) || digits(at + 3) {
            return None;
        }
        let said = text.get(..at)?.trim_end();
        let named = ["status", "status:", "Error:", "("].iter().any(|w| said.ends_with(w));
        let code: u16 = text.get(at..at + 3).filter(|_| named)?.parse().ok()?;
        (400..600).contains(&code).then_some(code)
    })
}

/// The number in brackets at the end of an agent's words: `(2)`, `($0.005)`.
fn number_in(text: &str) -> Option<f64> {
    let (_, inner) = text.trim_end().strip_suffix(')')?.rsplit_once('(')?;
    inner.trim_start_matches('$').parse::<f64>().ok().filter(|n| n.is_finite())
}

/// Milliseconds since 1970 of a time like `2026-11-30T23:37:15.613Z`.
pub(super) fn millis(time: Option<&str>) -> Option<u64> {
    let time: jiff::Timestamp = time?.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

/// Texts of blocks, joined by line ends.
pub(super) fn words<B>(content: &Content<'_, B>, of: impl Fn(&B) -> Option<String>) -> String {
    match content {
        Content::Nothing => String::new(),
        Content::Words(words) => words.clone().into_owned(),
        Content::Blocks(pieces) => {
            let each = pieces.iter().filter_map(|piece| match piece {
                Piece::Nothing => None,
                Piece::Words(words) => Some(words.clone().into_owned()),
                Piece::Block(block) => of(block),
            });
            each.collect::<Vec<_>>().join("\n")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_limits_are_found_in_words() {
        for (text, want) in [
            ("API Error: 400 scripted", Some(400)),
            ("[API Error: 529 x]", Some(529)),
            ("Request rejected (429) \u{b7} x", Some(429)),
            ("exceeded retry limit, last status: 429", Some(429)),
            ("unexpected status 401 Unauthorized: see 500 pages", Some(401)),
            ("Reached line 404", None),
            ("API Error: 4000", None),
            ("API Error: 200", None),
            ("\u{e9}\u{e9} status \u{661}", None),
            ("", None),
        ] {
            assert_eq!(status_in(text), want, "{text}");
        }
        assert_eq!(number_in("Reached maximum number of turns (2)"), Some(2.0));
        assert_eq!(number_in("Reached maximum budget ($0.005)"), Some(0.005));
        assert_eq!(number_in("(inf)"), None);
        assert_eq!(millis(Some("2026-11-30T23:37:15.613Z")), Some(1_796_081_835_613));
        assert_eq!(millis(Some("1960-01-01T00:00:00Z")), None);
    }
}
