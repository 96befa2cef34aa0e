//! What Python does to text and numbers, where a score depends on it.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::artifact::python_json::Json;

/// Letters and numbers of any script.
static WORD: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^[\p{L}\p{N}_]$").ok());

/// Whether a character is a word character of its regular expressions.
pub(super) fn is_word(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_alphanumeric() || c == '_';
    }
    let mut buffer = [0; 4];
    WORD.as_ref().is_some_and(|word| word.is_match(c.encode_utf8(&mut buffer)))
}

/// What a character is compared as where a regular expression ignores case: in lower case by itself, and
/// of those that share an upper case one for all.
pub(super) fn fold(c: char) -> char {
    // A longer lower case begins with the one that counts.
    let lower = c.to_lowercase().next().unwrap_or(c);
    match lower {
        '\u{131}' => 'i',
        '\u{17f}' => 's',
        '\u{3bc}' => '\u{b5}',
        '\u{345}' | '\u{1fbe}' => '\u{3b9}',
        '\u{1fd3}' => '\u{390}',
        '\u{1fe3}' => '\u{3b0}',
        '\u{3d0}' => '\u{3b2}',
        '\u{3f5}' => '\u{3b5}',
        '\u{3d1}' => '\u{3b8}',
        '\u{3f0}' => '\u{3ba}',
        '\u{3d6}' => '\u{3c0}',
        '\u{3f1}' => '\u{3c1}',
        '\u{3c2}' => '\u{3c3}',
        '\u{3d5}' => '\u{3c6}',
        '\u{1c80}' => '\u{432}',
        '\u{1c81}' => '\u{434}',
        '\u{1c82}' => '\u{43e}',
        '\u{1c83}' => '\u{441}',
        '\u{1c84}' | '\u{1c85}' => '\u{442}',
        '\u{1c86}' => '\u{44a}',
        '\u{1c87}' => '\u{463}',
        '\u{1c88}' => '\u{a64b}',
        '\u{1e9b}' => '\u{1e61}',
        '\u{fb05}' => '\u{fb06}',
        lower => lower,
    }
}

/// Whether a character is white space of its regular expressions.
pub(super) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// Lines as `str.splitlines` cuts them.
pub(super) fn lines(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let (mut from, mut rest) = (0, text.char_indices().peekable());
    while let Some((at, c)) = rest.next() {
        let ends = matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        );
        if !ends {
            continue;
        }
        out.push(&text[from..at]);
        from = at + c.len_utf8();
        if c == '\r' && rest.next_if(|(_, next)| *next == '\n').is_some() {
            from += 1;
        }
    }
    if from < text.len() {
        out.push(&text[from..]);
    }
    out
}

/// `round(value, digits)`: the exact value of the double, ties to even.
pub(super) fn round(value: f64, digits: usize) -> f64 {
    format!("{value:.digits$}").parse().unwrap_or(value)
}

/// `repr` of a float.
fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e16).contains(&size) {
        let text = format!("{value:e}");
        let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, power) = power.strip_prefix('-').map_or(('+', power), |power| ('-', power));
        return format!("{digits}e{sign}{power:0>2}");
    }
    let text = value.to_string();
    if text.contains('.') { text } else { text + ".0" }
}

/// Bytes of a text in JSON with everything but ASCII escaped, quotes included.
fn text_len(text: &str) -> usize {
    let of = |c: char| match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        ' '..='~' => 1,
        c => 6 * c.len_utf16(),
    };
    // Long texts are nearly all plain.
    2 + text.chars().map(of).sum::<usize>()
}

/// Length of `json.dumps(value)`.
pub(super) fn dumps_len(value: &Json) -> usize {
    match value {
        Json::Null => 4,
        Json::Bool(value) => 5 - usize::from(*value),
        Json::Int(digits) => digits.len(),
        Json::Float(number) => float(*number).len(),
        Json::Text(text) => text_len(text),
        Json::List(items) => {
            2 + items.iter().map(dumps_len).sum::<usize>() + 2 * items.len().saturating_sub(1)
        }
        Json::Map(map) => {
            let entries: usize = map.iter().map(|(key, value)| text_len(key) + 2 + dumps_len(value)).sum();
            2 + entries + 2 * map.len().saturating_sub(1)
        }
    }
}

fn number_text(number: &serde_json::Number) -> String {
    if number.is_f64() { float(number.as_f64().unwrap_or_default()) } else { number.to_string() }
}

/// `json.dump(value, indent=2)` and a line end.
pub(super) fn dump(value: &Value) -> String {
    let mut out = String::new();
    write(value, 0, &mut out);
    out.push('\n');
    out
}

fn write(value: &Value, depth: usize, out: &mut String) {
    let line = |out: &mut String, depth: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", depth));
    };
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::String(text) => write_text(text, out),
        Value::Array(items) if items.is_empty() => out.push_str("[]"),
        Value::Object(map) if map.is_empty() => out.push_str("{}"),
        Value::Array(items) => {
            for (at, item) in items.iter().enumerate() {
                out.push(if at == 0 { '[' } else { ',' });
                line(out, depth + 1);
                write(item, depth + 1, out);
            }
            line(out, depth);
            out.push(']');
        }
        Value::Object(map) => {
            for (at, (key, item)) in map.iter().enumerate() {
                out.push(if at == 0 { '{' } else { ',' });
                line(out, depth + 1);
                write_text(key, out);
                out.push_str(": ");
                write(item, depth + 1, out);
            }
            line(out, depth);
            out.push('}');
        }
    }
}

fn write_text(text: &str, out: &mut String) {
    use std::fmt::Write as _;
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a string can't fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_rounded_and_written_as_python_does() {
        assert!((round(0.03125, 4) - 0.0312).abs() < 1e-12, "a tie goes to the even digit");
        assert!((round(0.09375, 4) - 0.0938).abs() < 1e-12);
        assert!((round(2.675, 2) - 2.67).abs() < 1e-12, "2.675 lies below");
        let cases: [(f64, &str); 9] = [
            (1.0, "1.0"),
            (0.0, "0.0"),
            (0.0001, "0.0001"),
            (0.000_01, "1e-05"),
            (1e16, "1e+16"),
            (123_456_789_012_345.6, "123456789012345.6"),
            (1.5e-7, "1.5e-07"),
            (1e22, "1e+22"),
            (-0.5, "-0.5"),
        ];
        for (value, text) in cases {
            assert_eq!(float(value), text);
        }
    }

    #[test]
    fn json_is_escaped_and_counted_as_python_does() {
        let value = r#"{"a": ["ü\ud83d\ude00\n\u007f", 1, 1.0, true, null], "b": {}, "c": [], "d": 1e999}"#;
        // json.dumps(value)
        let compact =
            r#"{"a": ["\u00fc\ud83d\ude00\n\u007f", 1, 1.0, true, null], "b": {}, "c": [], "d": Infinity}"#;
        assert_eq!(dumps_len(&crate::artifact::python_json::parse(value).unwrap()), compact.len());
        assert_eq!(dump(&json!("a\u{7f}~")), "\"a\\u007f~\"\n", "DEL is escaped");
        assert_eq!(
            dump(&json!({"k": ["é"], "e": {}})),
            "{\n  \"k\": [\n    \"\\u00e9\"\n  ],\n  \"e\": {}\n}\n"
        );
    }

    #[test]
    fn letters_are_folded_as_python_does_it() {
        for (one, other) in [('İ', 'i'), ('ı', 'I'), ('ſ', 'S'), ('\u{212a}', 'k'), ('ς', 'Σ'), ('µ', 'μ')]
        {
            assert_eq!(fold(one), fold(other), "{one} {other}");
        }
        assert_ne!(fold('ß'), fold('s'));
        assert_eq!(fold('ẞ'), fold('ß'));
    }

    #[test]
    fn lines_end_where_python_ends_them() {
        assert_eq!(lines("a\r\nb\rc\u{b}d\u{c}e\u{85}f\u{2028}g\n"), ["a", "b", "c", "d", "e", "f", "g"]);
        assert_eq!(lines("\n\n"), ["", ""]);
        assert!(lines("").is_empty());
        assert!(is_word('é') && is_word('٣') && is_word('_') && !is_word('\u{301}') && !is_word('-'));
        assert!(is_space('\u{1f}') && is_space('\u{85}') && !is_space('x'));
    }
}
