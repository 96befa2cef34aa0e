//! A report for a terminal.

use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, LineStyle, Table as Grid, TableStyle, Width,
};
use serde_json::Value;

use super::page::{Body, Field, Page, Table};
use super::text::wrap;

/// How the terminal is.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Characters in a line; at least 40 are used.
    pub width: u16,
    /// May titles be set off by escape sequences? Never when it is no terminal.
    pub colour: bool,
}

impl Default for Style {
    /// What is written to a file or a pipe: 100 characters, no colour.
    fn default() -> Self {
        Self { width: 100, colour: false }
    }
}

/// Widest that a column of text is kept when room is short.
const SQUEEZED: usize = 16;
/// Characters between two columns.
const GUTTER: usize = 2;

/// The report object as text of at most `width` characters a line (a word that
/// is longer stays whole).
pub fn terminal(report: &Value, style: Style) -> String {
    let width = usize::from(style.width.max(40));
    let page = Page::new(report, width);
    let bold = |text: &str| if style.colour { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() };
    let mut lines = vec![bold(&wrap(&page.title, width, ""))];
    lines.extend(page.about.iter().map(|about| wrap(about, width, "")));
    lines.push(String::new());
    for (i, sentence) in page.answer.iter().enumerate() {
        let text = wrap(sentence, width, "");
        lines.push(if i == 0 { bold(&text) } else { text });
    }
    for section in &page.sections {
        lines.push(String::new());
        lines.push(bold(&section.title));
        match &section.body {
            Body::Table(table) => {
                for part in parts(table, width) {
                    lines.extend(grid(table, &part, width));
                }
            }
            Body::List(items) => {
                lines.extend(items.iter().map(|item| wrap(&format!("- {item}"), width, "  ")));
            }
        }
    }
    lines.push(String::new());
    lines.join("\n")
}

/// Columns of each of the tables into which a table is cut so that it fits;
/// the columns up to the first of text (rank, name) are in all of them.
fn parts(table: &Table, width: usize) -> Vec<Vec<usize>> {
    let least: Vec<usize> = (0..table.head.len()).map(|i| least_width(table, i) + GUTTER).collect();
    let keys = table.head.iter().position(|c| c.text).map_or(1, |i| i + 1).min(table.head.len());
    let key_width: usize = least[..keys].iter().sum();
    let mut out = vec![(0..keys).collect::<Vec<usize>>()];
    let mut used = key_width;
    for (i, need) in least.iter().enumerate().skip(keys) {
        let fresh = out.last().is_none_or(|part| part.len() == keys);
        if used + need > width && !fresh {
            out.push((0..keys).collect());
            used = key_width;
        }
        used += need;
        if let Some(part) = out.last_mut() {
            part.push(i);
        }
    }
    out
}

/// Characters that a column needs: a number all of them, a text its longest word up to a limit.
fn least_width(table: &Table, column: usize) -> usize {
    let head = table.head[column].name.chars().count();
    let text = table.head[column].text;
    let of_field = |field: &Field| {
        if text { longest_word(&field.text).min(SQUEEZED) } else { shown(field).chars().count() }
    };
    table.rows.iter().map(|row| of_field(&row[column])).max().unwrap_or(0).max(head)
}

/// Some columns of a table, without frames; texts wrap, numbers do not.
fn grid(table: &Table, columns: &[usize], width: usize) -> Vec<String> {
    let mut grid = Grid::new();
    grid.load_style(TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─')))
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(u16::try_from(width).unwrap_or(u16::MAX))
        .set_header(columns.iter().map(|i| table.head[*i].name.clone()));
    for row in &table.rows {
        grid.add_row(columns.iter().map(|i| shown(&row[*i])));
    }
    grid.set_constraints(columns.iter().map(|i| {
        if table.head[*i].text {
            let least = u16::try_from(least_width(table, *i) + 1).unwrap_or(u16::MAX);
            ColumnConstraint::LowerBoundary(Width::Fixed(least))
        } else {
            ColumnConstraint::ContentWidth
        }
    }));
    for (at, i) in columns.iter().enumerate() {
        if let Some(column) = grid.column_mut(at) {
            column.set_padding((0, 1));
            if !table.head[*i].text {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
    }
    grid.lines().map(|line| line.trim_end().to_owned()).collect()
}

fn shown(field: &Field) -> String {
    if field.best { format!("*{}", field.text) } else { field.text.clone() }
}

fn longest_word(text: &str) -> usize {
    text.split(' ').map(|word| word.chars().count()).max().unwrap_or(0)
}
