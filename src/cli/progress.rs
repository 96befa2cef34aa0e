//! Progress that tells the truth: one line per stage with counts and time left.

use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::out::Out;
use crate::clock::Stopwatch;
use crate::event::Event;

/// Shows events as they come.
pub(super) struct Progress<'a> {
    out: &'a Out,
    stages: Vec<Line>,
    names: BTreeMap<String, usize>,
    screen: Option<MultiProgress>,
    quiet: bool,
    /// It was said that another run is at work.
    abroad: bool,
}

struct Line {
    name: String,
    total: u64,
    done: u64,
    reused: u64,
    troubled: u64,
    /// Wall-clock milliseconds of the nodes executed so far.
    spent: u64,
    executed: u64,
    since: Option<Stopwatch>,
    bar: Option<ProgressBar>,
    told: bool,
}

impl<'a> Progress<'a> {
    /// Lines on a terminal are redrawn; elsewhere one line is written per stage
    /// as it ends. `quiet` leaves only failures.
    pub(super) fn new(out: &'a Out, quiet: bool) -> Self {
        let screen =
            (out.people_tty && !quiet).then(|| MultiProgress::with_draw_target(ProgressDrawTarget::stderr()));
        Self { out, stages: Vec::new(), names: BTreeMap::new(), screen, quiet, abroad: false }
    }

    /// Says something above the lines.
    pub(super) fn say(&self, text: &str) {
        match &self.screen {
            Some(screen) => {
                let _ = screen.println(text);
            }
            None => self.out.say(text),
        }
    }

    pub(super) fn event(&mut self, event: &Event) {
        match event {
            Event::RunStarted { stages, .. } => self.begin(stages),
            Event::Corpus { repo, origin, .. } if !self.quiet => {
                self.say(&format!("corpus {repo}: {origin}"));
            }
            Event::Reused { stage, count, .. } => {
                if let Some(line) = self.line(stage) {
                    line.done += count;
                    line.reused += count;
                }
                self.refresh(stage);
            }
            Event::Started { node, .. } => {
                let stage = stage_of(node).to_owned();
                if let Some(line) = self.line(&stage) {
                    line.since.get_or_insert_with(Stopwatch::start);
                    if let Some(bar) = &line.bar {
                        bar.set_message(node.clone());
                    }
                }
            }
            Event::Retry { node, message, wait_ms, .. } => {
                self.say(&format!("again in {} s: {node}: {message}", wait_ms / 1000));
            }
            Event::Done { node, state, wall_ms, .. } => {
                let stage = stage_of(node).to_owned();
                let troubled = *state != crate::artifact::CellState::Valid;
                if let Some(line) = self.line(&stage) {
                    line.done += 1;
                    line.executed += 1;
                    line.spent += wall_ms;
                    line.troubled += u64::from(troubled);
                }
                if troubled && !self.quiet {
                    self.say(&format!("in error: {node} (see `proofline show {node}`)"));
                }
                self.refresh(&stage);
            }
            Event::Failed { node, message, .. } => {
                self.say(&format!("failed: {node}: {message}"));
                let stage = stage_of(node).to_owned();
                self.refresh(&stage);
            }
            Event::Held { node, why } => self.say(&format!("held: {node}: {why}")),
            Event::Abroad { node } if !self.abroad && !self.quiet => {
                self.abroad = true;
                self.say(&format!("another run works on {node}; what it makes is taken from it"));
            }
            Event::Cancelled { step: 1 } => {
                self.say("stopping: running nodes finish; once more Ctrl-C ends them. `run` again resumes.");
            }
            Event::Cancelled { .. } => self.say("ending running nodes"),
            Event::Note { message } => self.say(&format!("note: {message}")),
            Event::RunEnded { .. } => self.end(),
            _ => {}
        }
    }

    fn begin(&mut self, stages: &[(String, u64)]) {
        let width = stages.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, total) in stages {
            let bar = self.screen.as_ref().map(|screen| {
                let bar = screen.add(ProgressBar::new(*total));
                let template = "{prefix} {bar:24} {pos}/{len} {msg}";
                if let Ok(style) = ProgressStyle::with_template(template) {
                    bar.set_style(style);
                }
                bar.set_prefix(format!("{name:width$}"));
                bar
            });
            self.names.insert(name.clone(), self.stages.len());
            self.stages.push(Line {
                name: name.clone(),
                total: *total,
                done: 0,
                reused: 0,
                troubled: 0,
                spent: 0,
                executed: 0,
                since: None,
                bar,
                told: false,
            });
        }
    }

    fn line(&mut self, stage: &str) -> Option<&mut Line> {
        let at = *self.names.get(stage)?;
        self.stages.get_mut(at)
    }

    fn refresh(&mut self, stage: &str) {
        let (out, quiet) = (self.out, self.quiet);
        let Some(line) = self.line(stage) else { return };
        let left = line.total.saturating_sub(line.done);
        let eta =
            (line.executed > 0 && left > 0).then(|| Duration::from_millis(line.spent / line.executed * left));
        if let Some(bar) = &line.bar {
            bar.set_position(line.done);
            let mut words = Vec::new();
            if line.reused > 0 {
                words.push(format!("{} reused", line.reused));
            }
            if line.troubled > 0 {
                words.push(format!("{} in error", line.troubled));
            }
            if let Some(eta) = eta {
                words.push(format!("about {} s left", eta.as_secs().max(1)));
            }
            bar.set_message(words.join(", "));
        } else if left == 0 && !line.told && !quiet {
            line.told = true;
            let time =
                line.since.map_or(String::new(), |s| format!(" in {:.1} s", s.elapsed().as_secs_f64()));
            let executed = line.executed;
            let (reused, troubled) = (line.reused, line.troubled);
            let trouble = if troubled > 0 { format!(", {troubled} in error") } else { String::new() };
            out.say(&format!("{}: {executed} executed, {reused} reused{trouble}{time}", line.name));
        }
    }

    fn end(&mut self) {
        for line in &self.stages {
            if let Some(bar) = &line.bar {
                bar.abandon();
            }
        }
    }
}

fn stage_of(node: &str) -> &str {
    node.split_once('[').map_or(node, |(stage, _)| stage)
}
