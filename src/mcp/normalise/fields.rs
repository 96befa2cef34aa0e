//! Which fields of an object hold file, line, symbol and score.

use serde_json::{Map, Value};

use super::path::{Place, Sure};
use super::{MAX_SYMBOL, Rules, bounded};

/// What an object says of one place; the line is as the server numbers it.
#[derive(Clone, Debug, Default)]
pub(super) struct Fields {
    pub(super) file: Option<String>,
    pub(super) line: Option<u64>,
    pub(super) symbol: Option<String>,
    pub(super) score: Option<f64>,
    /// Inner objects that were read for it.
    pub(super) used: Vec<String>,
}

/// Fields that hold a file, best first. The flag: a name without an ending is one too.
const FILES: [(&str, bool); 26] = [
    ("relativepath", false),
    ("relpath", false),
    ("filepath", true),
    ("file", true),
    ("path", false),
    ("relativefilepath", true),
    ("relativefile", true),
    ("absolutepath", false),
    ("abspath", false),
    ("fullpath", false),
    ("sourcefile", true),
    ("sourcepath", false),
    ("documentpath", false),
    ("docpath", false),
    ("modulepath", false),
    ("definedin", false),
    ("fileuri", false),
    ("uri", false),
    ("source", false),
    ("location", false),
    ("filename", true),
    ("fname", true),
    ("document", false),
    ("doc", false),
    ("url", false),
    ("title", false),
];

/// Fields that may hold a place when nothing else does.
const IDS: [&str; 7] = ["id", "chunkid", "docid", "documentid", "key", "ref", "uid"];

/// Fields that hold the first line, best first.
const LINES: [&str; 22] = [
    "line",
    "startline",
    "linestart",
    "linenumber",
    "lineno",
    "linenum",
    "firstline",
    "beginline",
    "fromline",
    "line1",
    "ln",
    "row",
    "startrow",
    "lines",
    "linerange",
    "range",
    "span",
    "start",
    "begin",
    "position",
    "offsetline",
    "matchline",
];

/// Fields that hold a symbol, best first.
const SYMBOLS: [&str; 15] = [
    "symbol",
    "symbolname",
    "qualifiedname",
    "fullname",
    "namepath",
    "functionname",
    "function",
    "methodname",
    "method",
    "classname",
    "name",
    "identifier",
    "class",
    "entity",
    "label",
];

/// Fields that hold a score.
const SCORES: [&str; 8] = [
    "score",
    "relevance",
    "similarity",
    "relevancescore",
    "similarityscore",
    "confidence",
    "rrfscore",
    "weight",
];

/// Inner objects that describe the same place.
const INNER: [&str; 24] = [
    "metadata",
    "meta",
    "location",
    "loc",
    "bodylocation",
    "definition",
    "position",
    "source",
    "document",
    "doc",
    "node",
    "payload",
    "item",
    "chunk",
    "symbol",
    "entity",
    "file",
    "attributes",
    "properties",
    "record",
    "fields",
    "selectionrange",
    "declaration",
    "data",
];

/// A field's name without case, separators and prefix (`f.filePath` is `filepath`).
pub(super) fn plain(key: &str) -> String {
    key.rsplit('.')
        .next()
        .unwrap_or_default()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}

/// Is this the name of a field that holds a file?
pub(super) fn is_file_field(key: &str) -> bool {
    let key = plain(key);
    FILES[..21].iter().any(|(name, _)| *name == key) || key == "filename" || key == "fname"
}

/// Reads the place that an object describes.
pub(super) fn read(object: &Map<String, Value>, rules: &Rules<'_>) -> Fields {
    let mut fields = Fields::default();
    read_into(&mut fields, object, rules, 0);
    if fields.file.is_none() {
        read_ids(&mut fields, object, rules);
    }
    fields
}

fn read_into(fields: &mut Fields, object: &Map<String, Value>, rules: &Rules<'_>, depth: usize) {
    let entries: Vec<(String, &String, &Value)> =
        object.iter().take(200).map(|(key, value)| (plain(key), key, value)).collect();
    let find = |name: &str| entries.iter().find(|(plain, ..)| plain == name).map(|(_, key, v)| (*key, *v));
    if fields.file.is_none() {
        for (name, bare) in FILES {
            let Some((_, Value::String(text))) = find(name) else { continue };
            // A path beside a protocol field is one even when it looks odd.
            let least = if bare && depth == 0 { Sure::Maybe } else { Sure::Yes };
            let title = matches!(name, "title" | "url" | "doc" | "document" | "source");
            let place = rules.place(text, least).or_else(|| ending_in_field(name, text, rules));
            let Some(place) = place.filter(|p| !title || is_named(p, text, rules)) else { continue };
            take(fields, place);
            break;
        }
    }
    if fields.line.is_none() {
        fields.line = LINES.iter().find_map(|name| first_line(find(name)?.1, 0));
    }
    if fields.symbol.is_none() {
        fields.symbol = SYMBOLS.iter().find_map(|name| symbol(find(name)?.1));
    }
    if fields.score.is_none() {
        fields.score = SCORES.iter().find_map(|name| score(find(name)?.1));
    }
    if depth < 3 {
        for name in INNER {
            let Some((key, Value::Object(inner))) = find(name) else { continue };
            let had = (fields.file.is_some(), fields.line.is_some());
            read_into(fields, inner, rules, depth + 1);
            if had != (fields.file.is_some(), fields.line.is_some()) && depth == 0 {
                fields.used.push(key.clone());
            }
        }
    }
}

/// A field that is called a path holds one as soon as its last part has an ending.
fn ending_in_field(name: &str, text: &str, rules: &Rules<'_>) -> Option<Place> {
    let sure = name.contains("path") || name.contains("file");
    let last = text.rsplit(['/', '\\']).next().unwrap_or_default();
    let ends = last.rsplit_once('.').is_some_and(|(stem, ending)| {
        !stem.is_empty()
            && (1..=10).contains(&ending.len())
            && ending.chars().all(|c| c.is_ascii_alphanumeric())
    });
    if !sure || !ends || text.contains(['\n', '<', '>', '|', '*', '?', '"']) || text.contains("://") {
        return None;
    }
    let file = rules.relative(text)?;
    Some(Place { file, line: None, symbol: None })
}

/// Titles and sources are paths only when a folder or the corpus says so.
fn is_named(place: &Place, text: &str, rules: &Rules<'_>) -> bool {
    rules.knows(&place.file) || (rules.known.is_none() || text.starts_with('/')) && text.contains(['/', '\\'])
}

fn read_ids(fields: &mut Fields, object: &Map<String, Value>, rules: &Rules<'_>) {
    for (key, value) in object.iter().take(200) {
        let Value::String(text) = value else { continue };
        if !IDS.contains(&plain(key).as_str()) || text.len() > 600 {
            continue;
        }
        if let Some(place) = in_id(text, rules) {
            take(fields, place);
            return;
        }
    }
}

/// A place in an identifier: `src/a.py:10-20`, `src/a.py#chunk3`, `Function:src/a.py:name`.
pub(super) fn in_id(text: &str, rules: &Rules<'_>) -> Option<Place> {
    if !text.contains(['/', '.']) {
        return None;
    }
    rules.place(text, Sure::Yes).or_else(|| {
        let bare = text.split(['#', '@']).next().unwrap_or_default();
        let place = rules.place(bare, Sure::Yes);
        place.or_else(|| {
            text.split(':')
                .find_map(|part| rules.place(part, Sure::Yes).filter(|_| part.contains(['/', '\\'])))
        })
    })
}

fn take(fields: &mut Fields, place: Place) {
    fields.file = Some(place.file);
    fields.line = fields.line.or(place.line);
    if fields.symbol.is_none() {
        fields.symbol = place.symbol;
    }
}

/// The first line in a number, `"10-20"`, `[10, 20]`, `{"start": {"line": 10}}`.
pub(super) fn first_line(value: &Value, depth: usize) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64().or_else(|| whole(number.as_f64()?)),
        Value::String(text) => {
            let text = text.trim().trim_start_matches(['L', 'l', ':', '#']);
            let digits: String = text.chars().take_while(char::is_ascii_digit).collect();
            let rest = text[digits.len()..].trim_start();
            let ranged = rest.is_empty()
                || (rest.starts_with(['-', '–', ':', ','])
                    && rest.chars().skip(1).all(|c| c.is_ascii_digit() || " L-:".contains(c)));
            if ranged && digits.len() < 10 { digits.parse().ok() } else { None }
        }
        // Two ascending numbers are a range; more are a list, which is read elsewhere.
        Value::Array(pair) if (1..=2).contains(&pair.len()) => first_line(pair.first()?, depth + 1),
        Value::Object(inner) if depth < 3 => {
            let find = |name: &str| inner.iter().find(|(key, _)| plain(key) == name).map(|(_, v)| v);
            ["line", "startline", "linestart", "linenumber", "start", "begin", "from", "row", "first"]
                .iter()
                .find_map(|name| first_line(find(name)?, depth + 1))
        }
        _ => None,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to be whole and in range"
)]
fn whole(number: f64) -> Option<u64> {
    (number.fract() == 0.0 && (0.0..1e9).contains(&number)).then_some(number as u64)
}

fn symbol(value: &Value) -> Option<String> {
    let text = value.as_str()?.trim();
    let plain = !text.is_empty() && !text.contains('\n') && text.len() < 2_000;
    plain.then(|| bounded(text, MAX_SYMBOL))
}

fn score(value: &Value) -> Option<f64> {
    let number = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().trim_end_matches('%').parse().ok(),
        _ => None,
    };
    number.filter(|n| n.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn lines_are_read_from_many_shapes() {
        for (value, line) in [
            (json!(10), Some(10)),
            (json!(10.0), Some(10)),
            (json!("10"), Some(10)),
            (json!("L10-L20"), Some(10)),
            (json!("10-20"), Some(10)),
            (json!([10, 20]), Some(10)),
            (json!({"start": {"line": 10, "character": 4}}), Some(10)),
            (json!({"start_line": 10}), Some(10)),
            (json!({"byteOffset": {"start": 1}, "start": {"line": 10}}), Some(10)),
            (json!("    return x"), None),
            (json!("10 green bottles"), None),
            (json!(-1), None),
            (json!(1.5), None),
            (json!([1, 2, 3]), None),
            (json!("99999999999999999999"), None),
        ] {
            assert_eq!(first_line(&value, 0), line, "{value}");
        }
    }
}
