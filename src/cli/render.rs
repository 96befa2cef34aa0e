//! Diagnostics for people and for programs.

use annotate_snippets::{AnnotationKind, Group, Level, Origin, Renderer, Snippet};
use serde_json::{Value, json};

use crate::diag::{Diagnostic, Label, Severity};

/// How many columns a text is made for when the terminal doesn't say.
const WIDTH: usize = 140;

/// Diagnostics as text with carets, one after another, each with its place as
/// `path:line:column` and its way out; at the end their number.
#[must_use]
pub fn text(diagnostics: &[Diagnostic], styled: bool) -> String {
    let renderer = if styled { Renderer::styled() } else { Renderer::plain() };
    let renderer = renderer.term_width(WIDTH);
    let mut out = String::new();
    for diagnostic in diagnostics {
        out.push_str(&renderer.render(&[group(diagnostic)]));
        out.push_str("\n\n");
    }
    out.push_str(&counts(diagnostics));
    out
}

fn counts(diagnostics: &[Diagnostic]) -> String {
    let errors = diagnostics.iter().filter(|d| d.is_error()).count();
    let warnings = diagnostics.len() - errors;
    let plural = |n: usize, one: &str| if n == 1 { format!("1 {one}") } else { format!("{n} {one}s") };
    match (errors, warnings) {
        (0, 0) => String::new(),
        (0, w) => format!("{}\n", plural(w, "warning")),
        (e, 0) => format!("{}\n", plural(e, "error")),
        (e, w) => format!("{}, {}\n", plural(e, "error"), plural(w, "warning")),
    }
}

fn group(diagnostic: &Diagnostic) -> Group<'_> {
    let level = match diagnostic.severity {
        Severity::Error => Level::ERROR,
        Severity::Warning => Level::WARNING,
    };
    let mut group =
        level.primary_title(diagnostic.message.as_str()).id(diagnostic.code).elements(no_elements());
    // Labels on one line share a snippet; others get one each, in order.
    let mut shown: Vec<usize> = Vec::new();
    for (at, label) in diagnostic.labels.iter().enumerate() {
        if shown.contains(&at) {
            continue;
        }
        let Some(excerpt) = &label.place.excerpt else {
            let place = &label.place;
            group =
                group.element(Origin::path(place.path.as_str()).line(place.line).char_column(place.column));
            continue;
        };
        let mut snippet = Snippet::source(excerpt.text.as_str())
            .path(label.place.path.as_str())
            .line_start(label.place.line);
        for (index, other) in diagnostic.labels.iter().enumerate().skip(at) {
            if other.place.path == label.place.path && other.place.excerpt.as_ref() == Some(excerpt) {
                shown.push(index);
                snippet =
                    snippet.annotation(annotation(other, excerpt.start, excerpt.text.len(), index == 0));
            }
        }
        group = group.element(snippet);
    }
    if let Some(help) = &diagnostic.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    group
}

fn no_elements() -> [Snippet<'static, annotate_snippets::Annotation<'static>>; 0] {
    []
}

fn annotation(label: &Label, start: usize, length: usize, main: bool) -> annotate_snippets::Annotation<'_> {
    let kind = if main { AnnotationKind::Primary } else { AnnotationKind::Context };
    // A place may end lines below; only its first line is shown.
    let from = label.place.start.saturating_sub(start).min(length);
    let to = label.place.end.saturating_sub(start).clamp(from, length);
    let annotation = kind.span(from..to);
    if label.text.is_empty() { annotation } else { annotation.label(label.text.as_str()) }
}

/// Diagnostics as the object that `--json` prints.
#[must_use]
pub fn json(diagnostics: &[Diagnostic], exit: u8) -> Value {
    json!({ "diagnostics": diagnostics.iter().map(one).collect::<Vec<_>>(), "exit": exit })
}

fn one(diagnostic: &Diagnostic) -> Value {
    let labels: Vec<Value> = diagnostic
        .labels
        .iter()
        .map(|label| {
            let place = &label.place;
            json!({
                "path": place.path, "line": place.line, "column": place.column,
                "start": place.start, "end": place.end, "text": label.text,
            })
        })
        .collect();
    json!({
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "place": diagnostic.place().map(ToString::to_string),
        "help": diagnostic.help,
        "labels": labels,
    })
}
