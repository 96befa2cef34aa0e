//! Claude Code: `-p --output-format stream-json` and `json`, with partial messages, sub-agents and
//! several prompts; its stored sessions; and the shape of it that Qwen Code writes.
//!
//! One event holds one block of a message; several share the message's id and repeat its usage,
//! whose output is a placeholder until the message is complete. The final record counts tokens
//! twice: `usage` for this turn's main thread, `modelUsage` for everything since the process
//! began, sub-agents and side models included.

mod branches;
mod wire;

use std::collections::HashSet;

use super::draft::{Draft, Who, millis, words};
use super::loose::{Content, Piece, Text};
use super::tools::Prefix;
use super::{Dialect, Hints, ReadError, source};
use crate::artifact::transcript::{Fault, LimitKind, Transcript, TurnEnd, Usage, What};
use branches::Branches;
use wire::{Block, Line, ModelTokens, Partial, Tokens};

/// Words of a failed request that wait for the final record and its status.
#[derive(Debug)]
struct Refusal {
    word: Option<String>,
    status: Option<u16>,
    text: String,
}

struct Reader<'h> {
    draft: Draft<'h>,
    dialect: Dialect,
    refusal: Option<Refusal>,
    /// Totals of the process when its last turn ended.
    since: Option<(Usage, Option<f64>)>,
    /// Cost of processes before this one; none once one of them is unknown.
    cost_before: Option<f64>,
    cost: Option<f64>,
    records: usize,
    denied: HashSet<String>,
    /// Message of the partial events, by thread.
    partial: Option<(Option<String>, String)>,
    stored: Stored,
}

/// What is needed to follow a stored session, which has no final records.
#[derive(Default)]
struct Stored {
    is: bool,
    /// The main thread's last message is complete.
    complete: bool,
    stop: Option<String>,
    /// For each entry the line that it came with.
    lines: Vec<usize>,
    ids: Branches,
}

pub(super) fn read(dialect: Dialect, text: &str, hints: &Hints) -> Result<Transcript, ReadError> {
    let mut reader = Reader {
        draft: Draft::new(dialect, hints),
        dialect,
        refusal: None,
        since: None,
        cost_before: Some(0.0),
        cost: None,
        records: 0,
        denied: HashSet::new(),
        partial: None,
        stored: Stored::default(),
    };
    let mut any = false;
    let losses = source::each::<Line<'_>, ReadError>(text, |number, line, value| {
        // Some harnesses wrap each event; a partial message has one of its own.
        let wrapped = value.kind.get().is_none() && value.event.0.is_some();
        let value = wrapped.then(|| super::inside(line)).flatten().unwrap_or(value);
        if reader.line(value) {
            any = true;
            Ok(())
        } else {
            super::foreign(dialect, number, line)
        }
    })?;
    super::some_of(any, dialect, text)?;
    Ok(reader.finish(losses))
}

impl Reader<'_> {
    /// Takes an event; whether it is one of this dialect.
    fn line(&mut self, mut line: Line<'_>) -> bool {
        let kind = std::mem::take(&mut line.kind);
        match kind.get() {
            Some("assistant") => line.message.0.is_some() && self.assistant(line),
            Some("user") => line.message.0.is_some() && self.user(line),
            Some("result") if !line.subtype.there && !told(&line) => false,
            Some("result") => {
                self.result(line);
                true
            }
            Some("system") if line.subtype.there => {
                self.system(line);
                true
            }
            Some("stream_event") => {
                let parent = line.parent_tool_use_id.owned();
                if let Some(event) = line.event.0 {
                    self.partial(parent, event);
                }
                true
            }
            Some("rate_limit_event") => {
                if let Some(info) = line.rate_limit_info.0.filter(|i| i.status.is("rejected")) {
                    let kind = info.kind.get().unwrap_or("rate limit").to_owned();
                    self.draft.fault(Fault::RateLimited { text: kind });
                }
                true
            }
            // Of a stored session: titles, snapshots, progress. They carry its id.
            Some("summary" | "file-history-snapshot") => true,
            Some(_) => line.stored_session.get().is_some(),
            None => false,
        }
    }

    fn system(&mut self, line: Line<'_>) {
        self.seen(&line);
        match line.subtype.get() {
            Some("init") => {
                if let Some(model) = line.model.get() {
                    self.draft.asked(model);
                }
                for tool in &line.tools.0 {
                    self.draft.tool(tool.get().unwrap_or_default());
                }
                for server in line.mcp_servers.0.into_iter().filter_map(|s| s.0) {
                    if let Some(name) = server.name.owned() {
                        self.draft.named(name, server.status.owned());
                    }
                }
            }
            Some("api_retry") => self.draft.retry(line.error_status.status()),
            _ => {}
        }
    }

    /// What any line may say of the session as a whole.
    fn seen(&mut self, line: &Line<'_>) {
        let out = &mut self.draft.out;
        if let Some(id) = line.session_id.some().or(line.stored_session.some())
            && out.session.as_deref() != Some(id)
        {
            out.session = Some(id.to_owned());
        }
        if let Some(cwd) = line.cwd.some().filter(|_| out.cwd.is_none()) {
            out.cwd = Some(cwd.to_owned());
        }
        if out.agent.is_none() {
            let claude = line.claude_code_version.some().or(line.version.some());
            let named = claude
                .map(|v| ("claude-code", v))
                .or(line.qwen_code_version.some().map(|v| ("qwen-code", v)));
            out.agent = named.map(|(name, version)| format!("{name} {version}"));
        }
        // Each of the two is known by its own version, whatever the caller took it for.
        if line.qwen_code_version.some().is_some() {
            self.dialect = Dialect::Qwen;
        } else if line.claude_code_version.some().is_some() {
            self.dialect = Dialect::Claude;
        }
        out.dialect = self.dialect;
        if line.stored_session.get().is_some() {
            self.stored.is = true;
        }
    }

    fn assistant(&mut self, line: Line<'_>) -> bool {
        self.seen(&line);
        let at_ms = millis(line.timestamp.get());
        let Some(message) = line.message.0 else { return false };
        let sub_agent = line.parent_tool_use_id.there || line.sidechain.0;
        let thread = sub_agent.then(|| line.parent_tool_use_id.some().unwrap_or("-"));
        let who = Who { sub_agent, message: message.id.get(), at_ms };
        let failed = line.error.there || line.stored_api_error.0;
        let of_qwen = self.dialect == Dialect::Qwen && starts(&message.content, "[API Error");
        if failed || of_qwen || message.model.is("<synthetic>") {
            let text = words(&message.content, |b| b.text.get().map(str::to_owned));
            self.flush_refusal();
            if failed || of_qwen {
                let status = line.api_error_status.status().or(line.stored_error_status.status());
                let word = line.error.get().map(str::to_owned);
                self.refusal = Some(Refusal { word, status, text: text.clone() });
            }
            self.draft.say(who, What::Notice(text));
            self.placed(&line.uuid, &line.parent_uuid, false);
            return true;
        }
        // The session went on after a failed request.
        self.flush_refusal();
        if let Some(model) = message.model.some() {
            self.draft.answered(model);
        }
        let complete = message.stop_reason.get().is_some() || self.dialect == Dialect::Qwen;
        let usage = message.usage.0.map(|tokens| self.of_message(tokens, complete));
        self.draft.spend(thread, message.id.get(), usage);
        if !sub_agent {
            self.stored.stop = message.stop_reason.get().map(str::to_owned);
        }
        match message.content {
            Content::Nothing => {}
            Content::Words(text) => self.draft.text(who, &text),
            Content::Blocks(pieces) => {
                for piece in pieces {
                    match piece {
                        Piece::Nothing => {}
                        Piece::Words(text) => self.draft.text(who, &text),
                        Piece::Block(block) => self.block(who, block),
                    }
                }
            }
        }
        if !sub_agent {
            let last = self.draft.out.entries.last();
            self.stored.complete = last.is_some_and(|e| matches!(e.what, What::Text(_)));
        }
        self.placed(&line.uuid, &line.parent_uuid, false);
        true
    }

    fn block(&mut self, who: Who<'_>, block: Block<'_>) {
        match block.kind.get() {
            Some("text") => self.draft.text(who, block.text.get().unwrap_or_default()),
            Some("thinking") => self.draft.thinking(who, block.thinking.get().unwrap_or_default()),
            Some("redacted_thinking") => self.draft.thinking(who, ""),
            Some("tool_use" | "server_tool_use" | "mcp_tool_use") => {
                let name = block.name.owned().unwrap_or_default();
                self.draft.call(who, block.id.owned(), name, Prefix::Mcp, block.input);
            }
            Some(kind) if kind.ends_with("tool_result") => self.reply(who, block),
            _ => {}
        }
    }

    fn reply(&mut self, who: Who<'_>, block: Block<'_>) {
        let text = words(&block.content, |b| b.text.get().or(b.tool_name.get()).map(str::to_owned));
        self.draft.reply(who, block.tool_use_id.owned(), text, block.is_error.0);
    }

    fn user(&mut self, line: Line<'_>) -> bool {
        self.seen(&line);
        let at_ms = millis(line.timestamp.get());
        let Some(message) = line.message.0 else { return false };
        let sub_agent = line.parent_tool_use_id.there || line.sidechain.0;
        let who = Who { sub_agent, message: None, at_ms };
        let mut prompt = Vec::new();
        match message.content {
            Content::Nothing => {}
            Content::Words(text) => prompt.push(text),
            Content::Blocks(pieces) => {
                for piece in pieces {
                    match piece {
                        Piece::Words(text) => prompt.push(text),
                        Piece::Block(block) if block.kind.is("text") => prompt.extend(block.text.cow()),
                        Piece::Block(block) if block.kind.is("tool_result") => {
                            self.stored.complete = false;
                            self.reply(who, block);
                        }
                        _ => {}
                    }
                }
            }
        }
        let text = prompt.join("\n");
        let mut opens = false;
        if !text.is_empty() && !line.meta.0 {
            opens = self.stored.is && !sub_agent && !line.summary.0;
            if opens {
                self.end_stored();
            }
            self.draft.say(who, What::Prompt(text));
        }
        self.placed(&line.uuid, &line.parent_uuid, opens);
        true
    }

    fn partial(&mut self, parent: Option<String>, event: Partial<'_>) {
        match event.kind.get() {
            Some("message_start") => {
                let id = event.message.0.and_then(|m| m.id.owned());
                self.partial = id.map(|id| (parent, id));
            }
            Some("message_delta") => {
                let output = event.usage.0.and_then(|u| u.output_tokens.count());
                if let Some((thread, id)) = self.partial.as_ref().filter(|(thread, _)| *thread == parent)
                    && let Some(output) = output
                {
                    self.draft.spend_output(thread.as_deref(), id, output);
                }
            }
            _ => {}
        }
    }

    fn result(&mut self, line: Line<'_>) {
        self.seen(&line);
        self.records += 1;
        let main = line.usage.0.map(|tokens| self.of_record(tokens));
        let (usage, cost) = self.since_last_turn(&line, main);
        let text = line.result.get().map(str::to_owned);
        let mut error = line.is_error.0;
        if !self.draft.spoke()
            && let Some(text) = line.result.some()
        {
            // One object instead of a stream.
            let what = if error { What::Notice(text.to_owned()) } else { What::Text(text.to_owned()) };
            self.draft.say(Who::default(), what);
        }
        let refusal = self.refusal.take();
        let words = line.errors.0.iter().filter_map(Text::get).collect::<Vec<_>>().join("; ");
        match line.subtype.get() {
            Some("error_max_turns") => self.draft.limit(LimitKind::Turns, &words),
            Some("error_max_budget_usd") => self.draft.limit(LimitKind::Budget, &words),
            Some("success") | None if error || refusal.is_some() => {
                error = true;
                let refusal = refusal.unwrap_or(Refusal { word: None, status: None, text: String::new() });
                let text = text.clone().unwrap_or(refusal.text);
                let status = line.api_error_status.status().or(refusal.status);
                self.draft.refused(status, refusal.word.as_deref(), text);
            }
            Some("success") | None => {}
            Some(other) => {
                error = true;
                let text = if words.is_empty() { other.to_owned() } else { words };
                self.draft.fault(Fault::AgentError { text });
            }
        }
        for denial in line.permission_denials.0.into_iter().filter_map(|d| d.0) {
            let again = denial.tool_use_id.get().is_some_and(|id| !self.denied.insert(id.to_owned()));
            if let Some(tool) = denial.tool_name.owned().filter(|_| !again) {
                self.draft.fault(Fault::PermissionDenied { tool });
            }
        }
        self.draft.end_turn(TurnEnd {
            subtype: line.subtype.owned(),
            error,
            text,
            usage,
            usage_main: main,
            cost_usd: cost,
            duration_ms: line.duration_ms.0,
            calls: line.num_turns.count(),
        });
    }

    /// Tokens and cost of this turn: by-model tokens and cost go on counting within a process.
    fn since_last_turn(&mut self, line: &Line<'_>, main: Option<Usage>) -> (Option<Usage>, Option<f64>) {
        let cost = line.total_cost_usd.0;
        let Some(models) = &line.model_usage.0 else {
            self.since = None;
            self.cost_before = self.cost_before.zip(cost).map(|(before, this)| before + this);
            self.cost = self.cost_before;
            return (main, cost);
        };
        let zero = Usage { input: Some(0), output: Some(0), cache_read: Some(0), cache_write: Some(0) };
        for (model, _) in models {
            // Heard of where no message is in the stream.
            self.draft.asked(model.get().unwrap_or_default());
        }
        let each = models.iter().filter_map(|(_, tokens)| tokens.0).map(ModelTokens::usage);
        let now = each.fold(zero, Usage::plus);
        let goes_on = self.since.filter(|(before, cost_before)| {
            let costs_more = cost_before.zip(cost).is_none_or(|(before, now)| now >= before);
            match line.result_index.count() {
                Some(index) => index > 0,
                None => costs_more && continues(*before, now, main),
            }
        });
        if goes_on.is_none() && self.records > 1 {
            self.cost_before = self.cost;
        }
        let (before, cost_before) = goes_on.map_or((zero, 0.0), |(usage, cost)| (usage, cost.unwrap_or(0.0)));
        self.since = Some((now, cost));
        self.cost = self.cost_before.zip(cost).map(|(before, this)| before + this);
        (Some(now.minus(before)), cost.map(|c| (c - cost_before).max(0.0)))
    }

    fn of_record(&self, tokens: Tokens) -> Usage {
        let usage = tokens.usage();
        if self.dialect != Dialect::Qwen {
            return usage;
        }
        // Input includes what was read from the cache; nothing read is sometimes left out.
        let read = usage.cache_read.or(Some(0));
        Usage {
            input: usage.input.zip(read).map(|(all, read)| all.saturating_sub(read)),
            cache_read: read,
            ..usage
        }
    }

    fn of_message(&self, tokens: Tokens, complete: bool) -> Usage {
        let usage = self.of_record(tokens);
        Usage { output: usage.output.filter(|_| complete), ..usage }
    }

    fn flush_refusal(&mut self) {
        if let Some(refusal) = self.refusal.take() {
            self.draft.refused(refusal.status, refusal.word.as_deref(), refusal.text);
        }
    }

    /// A stored session has no records: a turn ends where the next prompt comes.
    fn end_stored(&mut self) {
        if !self.draft.open {
            return;
        }
        let failed = self.refusal.is_some();
        self.flush_refusal();
        let stop = self.stored.stop.take();
        self.draft.end_turn(TurnEnd {
            subtype: stop,
            error: failed,
            usage: self.draft.messages(Some(self.draft.turn()), false),
            ..TurnEnd::default()
        });
    }

    /// Remembers where a stored line hangs, and which entries came with it.
    fn placed(&mut self, id: &Text<'_>, parent: &Text<'_>, prompt: bool) {
        if self.stored.is {
            let line = self.stored.ids.add(id.get(), parent.get(), prompt);
            self.stored.lines.resize(self.draft.out.entries.len(), line);
        }
    }

    fn finish(mut self, losses: source::Losses) -> Transcript {
        self.flush_refusal();
        if self.stored.is && self.records == 0 {
            let ended = self.stored.stop.as_deref().is_some_and(|s| s != "tool_use") || self.stored.complete;
            if ended {
                self.end_stored();
            }
            let left = self.stored.ids.left();
            let mut lines = self.stored.lines.iter();
            self.draft.out.entries.retain(|_| lines.next().is_none_or(|line| !left.contains(line)));
        }
        if self.records == 0 {
            self.denied_by_words();
        } else if !self.draft.open {
            self.draft.out.cost_usd = self.cost;
        }
        // Where the budget ends a turn the main thread's count lags behind what was spent.
        let budget = |f: &Fault| matches!(f, Fault::Limit { which: LimitKind::Budget, .. });
        let told = self.records > 0 && !self.draft.out.faults.iter().any(budget);
        self.draft.finish(losses, told)
    }

    /// Without a final record, refusals are known by the words that the model was given.
    fn denied_by_words(&mut self) {
        const ASKED: &str = "Claude requested permissions to use ";
        let tools: Vec<String> = self
            .draft
            .out
            .entries
            .iter()
            .filter_map(|entry| match &entry.what {
                What::Result(reply) if reply.error => reply.text.strip_prefix(ASKED),
                _ => None,
            })
            .filter_map(|rest| rest.split([',', ' ']).next().map(str::to_owned))
            .collect();
        for tool in tools {
            self.draft.fault(Fault::PermissionDenied { tool });
        }
    }
}

/// Whether a record without a subtype holds what a final record holds.
fn told(line: &Line<'_>) -> bool {
    line.usage.0.is_some() || line.result.there || line.total_cost_usd.0.is_some()
}

/// Whether by-model tokens go on counting from `before`: what is new covers the turn's own.
fn continues(before: Usage, now: Usage, main: Option<Usage>) -> bool {
    let new = now.minus(before);
    let kinds = |u: Usage| [u.input, u.output, u.cache_read, u.cache_write];
    let turn = main.map_or([Some(0); 4], kinds);
    kinds(new).into_iter().zip(turn).all(|(new, turn)| new.is_some_and(|new| new >= turn.unwrap_or(0)))
}

fn starts(content: &Content<'_, Block<'_>>, with: &str) -> bool {
    match content {
        Content::Nothing => false,
        Content::Words(words) => words.starts_with(with),
        Content::Blocks(pieces) => pieces.first().is_some_and(|piece| match piece {
            Piece::Nothing => false,
            Piece::Words(words) => words.starts_with(with),
            Piece::Block(block) => block.text.get().is_some_and(|t| t.starts_with(with)),
        }),
    }
}
