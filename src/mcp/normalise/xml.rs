//! Tagged text: `<file path="a.py">`, `<file>a.py</file><start>3</start>`.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::fields::{self, first_line, plain};
use super::path::Sure;
use super::text::{Listing, Shown};
use super::{MAX_HITS, Rules};
use crate::artifact::Hit;

/// An opening or closing tag at the beginning of a line or behind another one.
static TAG: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"<(/?)([A-Za-z][\w:.-]{0,40})((?:\s+[A-Za-z_][\w:.-]{0,40}\s*=\s*(?:"[^"<]{0,2000}"|'[^'<]{0,2000}'))*)\s*(/?)>"#,
    )
    .ok()
});

static ATTRIBUTE: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"([A-Za-z_][\w:.-]*)\s*=\s*(?:"([^"]*)"|'([^']*)')"#).ok());

/// Tags of web pages, which occur in code.
const WEB: &str =
    " script img link a iframe source video audio embed object form input base meta use image area ";

/// Is there any tag that could name a file?
pub(super) fn looks_tagged(text: &str) -> bool {
    [
        "<file",
        "<result",
        "<match",
        "<document",
        "<snippet",
        "<chunk",
        "<hit",
        "<path",
        "<location",
        "<symbol",
        "<code",
        "<reference",
        "<entry",
        "<item",
        "<source",
        "<definition",
        "<search",
    ]
    .iter()
    .any(|tag| text.contains(tag))
}

/// A place that is being described.
#[derive(Default)]
struct Open {
    file: Option<String>,
    line: Option<u64>,
    symbol: Option<String>,
    score: Option<f64>,
    listing: Listing,
    lines: Vec<u64>,
}

impl Open {
    fn close(&mut self, rules: &Rules<'_>, hits: &mut Vec<Hit>) {
        let open = std::mem::take(self);
        let Some(file) = open.file else { return };
        let lines: Vec<Option<u64>> = match open.line {
            Some(line) => vec![Some(line)],
            None if open.lines.is_empty() => vec![None],
            None => open.lines.into_iter().map(Some).collect(),
        };
        for line in lines {
            if hits.len() < MAX_HITS {
                hits.push(Hit {
                    file: Some(file.clone()),
                    symbol: open.symbol.clone(),
                    line: line.and_then(|line| rules.line(line)),
                    score: open.score,
                });
            }
        }
    }
}

/// Reads places from tags; code between them only counts where its lines are numbered.
pub(super) fn read(text: &str, rules: &Rules<'_>) -> Vec<Hit> {
    let (Some(tags), Some(attributes)) = (&*TAG, &*ATTRIBUTE) else { return Vec::new() };
    let mut hits = Vec::new();
    let mut open = Open::default();
    let mut element: Option<String> = None;
    let mut skip = false;
    for line in text.lines().take(200_000) {
        // Verbatim code is none of ours.
        let mut rest = line;
        if skip {
            match line.find("]]>") {
                Some(end) => rest = &line[end + 3..],
                None => continue,
            }
            skip = false;
        }
        if let Some(start) = rest.find("<![CDATA[") {
            skip = !rest[start..].contains("]]>");
            rest = &rest[..start];
        }
        if open.file.is_some() && open.line.is_none() {
            match open.listing.next(rest, true) {
                Shown::Place(number) => open.lines.push(number),
                Shown::Row => {}
                Shown::Else => {
                    tags_of(rest, tags, attributes, rules, &mut open, &mut element, &mut hits);
                }
            }
            continue;
        }
        tags_of(rest, tags, attributes, rules, &mut open, &mut element, &mut hits);
    }
    open.close(rules, &mut hits);
    hits
}

/// The tags of one line.
fn tags_of(
    rest: &str,
    tags: &Regex,
    attributes: &Regex,
    rules: &Rules<'_>,
    open: &mut Open,
    element: &mut Option<String>,
    hits: &mut Vec<Hit>,
) {
    let mut last = 0;
    for tag in tags.captures_iter(rest).take(64) {
        let (Some(whole), name) = (tag.get(0), plain(&tag[2])) else { continue };
        let inner = &rest[last..whole.start()];
        last = whole.end();
        let closing = &tag[1] == "/";
        if closing {
            if element.take().as_deref() == Some(name.as_str()) {
                element_text(&name, inner, rules, open, hits);
            }
            continue;
        }
        let pairs: Map<String, Value> = attributes
            .captures_iter(&tag[3])
            .take(32)
            .map(|pair| {
                let value = pair.get(2).or_else(|| pair.get(3)).map_or("", |m| m.as_str());
                (pair[1].to_owned(), Value::from(value))
            })
            .collect();
        let web = WEB.contains(&format!(" {name} "));
        let own =
            if web || pairs.is_empty() { fields::Fields::default() } else { fields::read(&pairs, rules) };
        let named = matches!(name.as_str(), "file" | "document" | "doc" | "source");
        let by_name = pairs.get("name").and_then(Value::as_str).filter(|_| named);
        let file = own.file.or_else(|| Some(rules.place(by_name?, Sure::Yes)?.file));
        if let Some(file) = file {
            open.close(rules, hits);
            let symbol = own.symbol.filter(|s| !named || !file.ends_with(s.as_str()));
            *open = Open { file: Some(file), line: own.line, symbol, score: own.score, ..Open::default() };
        } else if own.line.is_some() && open.file.is_some() && !web {
            // `<file path=..><match line="3"/>`: each one is a place of its own.
            open.lines.extend(own.line);
        }
        *element = Some(name);
    }
}

/// `<file>a.py</file>`, `<line>3</line>`.
fn element_text(name: &str, inner: &str, rules: &Rules<'_>, open: &mut Open, hits: &mut Vec<Hit>) {
    let inner = inner.trim();
    let is_file = fields::is_file_field(name) && name != "location";
    if is_file && let Some(place) = rules.place(inner, Sure::Yes) {
        open.close(rules, hits);
        *open = Open { file: Some(place.file), line: place.line, symbol: place.symbol, ..Open::default() };
        return;
    }
    if open.file.is_none() {
        return;
    }
    match name {
        "line" | "start" | "startline" | "linestart" | "linenumber" | "lines" | "range"
            if open.line.is_none() =>
        {
            open.line = first_line(&Value::from(inner), 0);
        }
        "symbol" | "name" | "function" | "symbolname" if open.symbol.is_none() && !inner.is_empty() => {
            open.symbol = Some(super::bounded(inner, super::MAX_SYMBOL));
        }
        "score" | "rank" | "relevance" if open.score.is_none() && name != "rank" => {
            open.score = inner.parse().ok().filter(|s: &f64| s.is_finite());
        }
        _ => {}
    }
}
