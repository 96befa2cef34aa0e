//! A report as GitHub-flavoured Markdown.

use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, context};
use serde_json::Value;

use super::page::{Body, Field, Page, Section};

/// A fault of the template: not of the report.
#[derive(Debug, thiserror::Error)]
#[error("report template: {0}")]
pub struct MarkdownError(#[from] minijinja::Error);

/// Characters of a table up to which arms are its columns.
const ROOM: usize = 120;

/// The report object as Markdown. Texts from outside are escaped.
///
/// # Errors
/// Only when the template itself is broken.
pub fn markdown(report: &Value) -> Result<String, MarkdownError> {
    let page = Page::new(report, ROOM);
    let mut environment = Environment::new();
    let whole_lines =
        SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).keep_trailing_newline(true).build()?;
    environment.set_syntax(whole_lines);
    environment.add_template("report.md", include_str!("templates/report.md.j2"))?;
    let sections: Vec<minijinja::Value> = page.sections.iter().map(section).collect();
    let out = environment.get_template("report.md")?.render(context! {
        title => escaped(&page.title),
        about => page.about.as_deref().map(escaped),
        answer => page.answer.iter().map(|s| escaped(s)).collect::<Vec<_>>(),
        sections,
    })?;
    Ok(out)
}

fn section(section: &Section) -> minijinja::Value {
    let title = escaped(&section.title);
    match &section.body {
        Body::Table(table) => {
            let head: Vec<String> = table.head.iter().map(|c| escaped(&c.name)).collect();
            let rules: Vec<&str> = table.head.iter().map(|c| if c.text { "---" } else { "---:" }).collect();
            let rows: Vec<Vec<String>> = table.rows.iter().map(|r| r.iter().map(shown).collect()).collect();
            context! { title, head, rules, rows }
        }
        Body::List(items) => {
            context! { title, items => items.iter().map(|i| escaped(i)).collect::<Vec<_>>() }
        }
    }
}

fn shown(field: &Field) -> String {
    if field.best { format!("**{}**", escaped(&field.text)) } else { escaped(&field.text) }
}

/// A text in which nothing is markup.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' | '`' | '*' | '|' | '[' | ']' | '~' => out.extend(['\\', c]),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            c => out.push(c),
        }
    }
    out
}
