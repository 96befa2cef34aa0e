//! The values of a stream: one per line, a list of them, or one after the other over several lines.

use std::borrow::Cow;

use serde::de::{Deserialize, IgnoredAny};
use serde_json::Value;

use super::loose::{List, Opt};
use crate::artifact::python_json;

/// What was left out of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// Values that could not be read.
    pub(super) unreadable: u64,
    /// The last line stops in the middle.
    pub(super) cut: bool,
}

/// What a line has in it that Python reads and a strict reader may refuse.
const ODD: [&str; 4] = ["\\ud", "\\uD", "NaN", "Infinity"];

/// Text of a stream: bytes that are no UTF-8 are replaced, a byte order mark is taken away, and lines
/// with half a surrogate pair or a number that is none are written anew without it.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    let text = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    if !ODD.iter().any(|odd| text.contains(odd)) {
        return text;
    }
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let is_odd = ODD.iter().any(|odd| line.contains(odd));
        let trimmed = line.trim_ascii();
        let read = if is_odd && serde_json::from_str::<Value>(trimmed).is_err() {
            python_json::parse(trimmed)
        } else {
            None
        };
        match read {
            Some(read) => {
                out.push_str(&read.strict().to_string());
                out.push_str(if line.ends_with('\n') { "\n" } else { "" });
            }
            None => out.push_str(line),
        }
    }
    Cow::Owned(out)
}

/// Lines with their numbers from 1, without those that hold nothing. What a crash of the
/// machine leaves in a log, NUL bytes, counts as nothing.
pub(super) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.split('\n')
        .enumerate()
        .map(|(n, line)| (n + 1, line.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\0')))
        .filter(|(_, line)| !line.is_empty())
}

/// Hands over every object with the line it is on, and its text where it has a line of its own.
///
/// # Errors
/// Those of `take`, at once.
pub(super) fn each<'a, T: Deserialize<'a>, E>(
    text: &'a str,
    mut take: impl FnMut(usize, &'a str, T) -> Result<(), E>,
) -> Result<Losses, E> {
    let mut losses = Losses::default();
    let Some((first, begin)) = lines(text).next() else { return Ok(losses) };
    if begin.starts_with('[') {
        match serde_json::from_str::<List<Opt<T>>>(text.trim()) {
            Ok(List(all)) => {
                for value in all {
                    match value.0 {
                        Some(value) => take(first, "", value)?,
                        None => losses.unreadable += 1,
                    }
                }
            }
            Err(error) => {
                losses.unreadable += 1;
                losses.cut = error.is_eof();
            }
        }
        return Ok(losses);
    }
    if spread(text, begin) {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<Opt<T>>();
        let mut at = 0;
        let mut line = first;
        while let Some(value) = values.next() {
            let end = values.byte_offset();
            match value {
                Ok(Opt(Some(value))) => take(line, "", value)?,
                Ok(Opt(None)) => losses.unreadable += 1,
                // There is no telling where the next one would begin.
                Err(error) => {
                    losses.cut = error.is_eof();
                    losses.unreadable += u64::from(!losses.cut);
                    break;
                }
            }
            line += text.get(at..end).unwrap_or_default().matches('\n').count();
            at = end;
        }
        return Ok(losses);
    }
    let ended = text.ends_with('\n');
    let mut failed_last = false;
    for (number, line) in lines(text) {
        failed_last = false;
        if let Ok(Opt(Some(value))) = serde_json::from_str::<Opt<T>>(line) {
            take(number, line, value)?;
        } else {
            losses.unreadable += 1;
            failed_last = true;
        }
    }
    if failed_last && !ended {
        losses.unreadable -= 1;
        losses.cut = true;
    }
    Ok(losses)
}

/// Whether the first value goes over several lines.
fn spread(text: &str, first_line: &str) -> bool {
    first_line.starts_with('{')
        && serde_json::from_str::<IgnoredAny>(first_line).is_err()
        && serde_json::Deserializer::from_str(text)
            .into_iter::<IgnoredAny>()
            .next()
            .is_some_and(|first| first.is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_only_python_reads_are_written_anew() {
        let whole = "{\"a\":\"\\ud83d\\ude00\"}\n";
        assert_eq!(text(whole.as_bytes()), whole, "a whole pair is left alone");
        let odd = format!("{{\"a\":\"x\\ud83dy\",\"n\":NaN}}\n{whole}no NaN\n[1");
        assert_eq!(text(odd.as_bytes()), format!("{{\"a\":\"x\u{fffd}y\",\"n\":null}}\n{whole}no NaN\n[1"));
    }
    use serde_json::{Map, Value};

    fn read(text: &str) -> (Vec<(usize, Value)>, Losses) {
        let mut all = Vec::new();
        let losses = each::<Map<String, Value>, ()>(text, |line, _, value| {
            all.push((line, value["a"].clone()));
            Ok(())
        });
        (all, losses.unwrap())
    }

    #[test]
    fn values_are_found_in_every_form() {
        let deep = format!("{}{}", "{\"a\":".repeat(5000), "}".repeat(5000));
        for (text, values, unreadable, cut) in [
            ("", vec![], 0, false),
            ("\n \0\0\n\r\n", vec![], 0, false),
            ("{\"a\":1}\n{\"a\":2}", vec![(1, 1), (2, 2)], 0, false),
            ("{\"a\":1}\r\nnoise\n\n3\n\"x\"\n{\"a\":2}\n", vec![(1, 1), (6, 2)], 3, false),
            ("\0\0{\"a\":1}\n{\"a\":2", vec![(1, 1)], 0, true),
            ("{\"a\":1}\n{\"a\":2\n", vec![(1, 1)], 1, false),
            ("warning: x\n{\"a\":1}\n", vec![(2, 1)], 1, false),
            ("[{\"a\":1},\n7,{\"a\":2}]", vec![(1, 1), (1, 2)], 1, false),
            ("[{\"a\":1},{\"a\"", vec![], 1, true),
            ("{\n \"a\": 1\n}\n{\n \"a\": 2\n}\n", vec![(1, 1), (3, 2)], 0, false),
            ("{\n \"a\": 1\n}\n{\n \"a\"", vec![(1, 1)], 0, true),
            ("{\n \"a\": 1\n}\n}{\"a\":2}", vec![(1, 1)], 1, false),
            (&format!("{deep}\n{{\"a\":1}}\n"), vec![(2, 1)], 1, false),
        ] {
            let want: Vec<(usize, Value)> = values.into_iter().map(|(l, v)| (l, Value::from(v))).collect();
            let name = text.chars().take(40).collect::<String>();
            assert_eq!(read(text), (want, Losses { unreadable, cut }), "{name:?}");
        }
        assert_eq!(text(b"\xef\xbb\xbf{\xff}"), "{\u{fffd}}");
    }
}
