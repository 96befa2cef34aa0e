//! A file's text: its lines, and where words stand in it.

use std::borrow::Cow;
use std::sync::OnceLock;

/// How many leading bytes are looked at to tell text from binary.
const SNIFFED: usize = 8 << 10;

/// The bytes are no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a NUL among the first 8 KiB")]
pub struct NotText;

/// A text with its lines; words are indexed when first asked for.
///
/// Lines end with `\n`, `\r\n` or `\r`, and with nothing else. A `\r` that ends a line by
/// itself is kept as `\n`, so that parsers count the same lines.
#[derive(Debug)]
pub struct Text {
    content: String,
    /// First byte of each line.
    starts: Vec<u32>,
    words: OnceLock<Vec<(u32, u32)>>,
}

impl Text {
    /// A text from a file's bytes: UTF-8 or, by its mark, UTF-16; what is neither is replaced
    /// character by character, so that lines stay what they are.
    ///
    /// # Errors
    /// When it looks binary.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NotText> {
        let content = match bytes {
            [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes)?,
            [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes)?,
            _ if memchr::memchr(0, &bytes[..bytes.len().min(SNIFFED)]).is_some() => return Err(NotText),
            [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
            _ => String::from_utf8_lossy(bytes).into_owned(),
        };
        Ok(Self::new(content))
    }

    /// A text from a string of at most 4 GiB; what is beyond is cut off.
    #[must_use]
    pub fn new(mut content: String) -> Self {
        if content.len() > u32::MAX as usize {
            let end = (0..=u32::MAX as usize).rev().find(|at| content.is_char_boundary(*at));
            content.truncate(end.unwrap_or(0));
        }
        if let Cow::Owned(plain) = single_ends(&content) {
            content = plain;
        }
        let after = memchr::memchr_iter(b'\n', content.as_bytes()).map(|at| at + 1);
        let starts = std::iter::once(0).chain(after).filter(|at| *at < content.len());
        let starts = starts.filter_map(|at| u32::try_from(at).ok()).collect();
        Self { content, starts, words: OnceLock::new() }
    }

    /// What it says, each line's end as `\n` or `\r\n`.
    #[must_use]
    pub fn content(&self) -> &str {
        &self.content
    }

    /// How many lines it has: none when it is empty.
    #[must_use]
    pub fn line_count(&self) -> u64 {
        self.starts.len() as u64
    }

    /// Bytes of memory that it may take with its index, roughly.
    #[must_use]
    pub fn weight(&self) -> usize {
        // An entry of the index takes eight bytes, for a word of six with what is around it.
        self.content.len() * 5 / 2 + self.starts.len() * 4 + 200
    }

    /// Whether `name` stands in it as a whole word.
    #[must_use]
    pub fn has_word(&self, name: &str) -> bool {
        Needle::new(name).is_some_and(|needle| self.found(&needle).next().is_some())
    }

    /// The 1-based line nearest to the lines `first` to `last` on which `name` stands as a whole
    /// word, a line among them before all others and of equally near ones the earlier.
    #[must_use]
    pub fn nearest_word(&self, name: &str, first: u64, last: u64) -> Option<u64> {
        let needle = Needle::new(name)?;
        let all = self.range(&needle);
        let begin = self.start_of(first);
        let split = all.partition_point(|(_, at)| *at < begin);
        let whole = |(_, at): &&(u32, u32)| self.is_at(&needle, *at);
        let before = all[..split].iter().rev().find(whole).map(|(_, at)| self.line_of(*at));
        let behind = all[split..].iter().find(whole).map(|(_, at)| self.line_of(*at));
        nearer(before, behind, first, last)
    }

    /// First byte of a line; the text's end for a line past the last.
    fn start_of(&self, line: u64) -> u32 {
        let nth = usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX);
        self.starts.get(nth).copied().unwrap_or_else(|| u32::try_from(self.content.len()).unwrap_or(u32::MAX))
    }

    fn line_of(&self, at: u32) -> u64 {
        self.starts.partition_point(|start| *start <= at) as u64
    }

    fn found<'a>(&'a self, needle: &'a Needle<'_>) -> impl Iterator<Item = u32> + use<'a> {
        self.range(needle).iter().map(|(_, at)| *at).filter(|at| self.is_at(needle, *at))
    }

    /// Places of words that may be the needle's.
    fn range(&self, needle: &Needle<'_>) -> &[(u32, u32)] {
        let words = self.words.get_or_init(|| index(&self.content));
        let hash = hash(needle.word);
        let from = words.partition_point(|(have, _)| *have < hash);
        let len = words[from..].partition_point(|(have, _)| *have == hash);
        &words[from..from + len]
    }

    /// Whether the needle stands there with its word at `at`.
    fn is_at(&self, needle: &Needle<'_>, at: u32) -> bool {
        let Some(begin) = (at as usize).checked_sub(needle.before) else { return false };
        let Some(rest) = self.content.get(begin..) else { return false };
        let Some(behind) = rest.strip_prefix(needle.whole) else { return false };
        let edge = |inner: Option<char>, outer: Option<char>| {
            !(inner.is_some_and(is_word) && outer.is_some_and(is_word))
        };
        edge(needle.whole.chars().next(), self.content[..begin].chars().next_back())
            && edge(needle.whole.chars().next_back(), behind.chars().next())
    }
}

/// The nearer of a line before and one behind the first of the lines `first` to `last`.
pub(super) fn nearer(before: Option<u64>, behind: Option<u64>, first: u64, last: u64) -> Option<u64> {
    let (Some(left), Some(right)) = (before, behind) else { return before.or(behind) };
    Some(if right.saturating_sub(last) < first.saturating_sub(left) { right } else { left })
}

/// A name that is looked for, by one of its words.
struct Needle<'n> {
    whole: &'n str,
    word: &'n str,
    /// Bytes before the word.
    before: usize,
}

impl<'n> Needle<'n> {
    fn new(whole: &'n str) -> Option<Self> {
        let before = whole.find(is_word)?;
        let rest = &whole[before..];
        let word = &rest[..rest.find(|c| !is_word(c)).unwrap_or(rest.len())];
        Some(Self { whole, word, before })
    }
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Places of all words by their hash, then in order.
fn index(text: &str) -> Vec<(u32, u32)> {
    let mut out = Vec::with_capacity(text.len() / 8);
    let mut begin = None;
    for (at, c) in text.char_indices() {
        match (begin, is_word(c)) {
            (None, true) => begin = Some(at),
            (Some(from), false) => {
                out.push((hash(&text[from..at]), u32::try_from(from).unwrap_or(u32::MAX)));
                begin = None;
            }
            _ => {}
        }
    }
    if let Some(from) = begin {
        out.push((hash(&text[from..]), u32::try_from(from).unwrap_or(u32::MAX)));
    }
    out.sort_unstable();
    out
}

/// FNV-1a. What it finds is compared with the text, so that a clash costs time and no truth.
fn hash(word: &str) -> u32 {
    word.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Result<String, NotText> {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let units = pairs.iter().map(|pair| unit(*pair));
    if units.clone().take(SNIFFED / 2).any(|unit| unit == 0) {
        return Err(NotText);
    }
    let mut out: String =
        char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    if !odd.is_empty() {
        out.push(char::REPLACEMENT_CHARACTER);
    }
    Ok(out)
}

/// The text with each `\r` that no `\n` follows as `\n`.
fn single_ends(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let lone = |at: &usize| bytes.get(at + 1) != Some(&b'\n');
    let mut ends = memchr::memchr_iter(b'\r', bytes).filter(lone).peekable();
    if ends.peek().is_none() {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for at in ends {
        out.push_str(&text[from..at]);
        out.push('\n');
        from = at + 1;
    }
    out.push_str(&text[from..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> u64 {
        Text::from_bytes(bytes).unwrap().line_count()
    }

    #[test]
    fn lines_end_in_three_ways() {
        assert_eq!(lines(b""), 0);
        assert_eq!(lines(b"\n"), 1);
        assert_eq!(lines(b"a"), 1);
        assert_eq!(lines(b"a\nb"), 2);
        assert_eq!(lines(b"a\r\nb\r\n"), 2);
        assert_eq!(lines(b"a\rb\rc\r"), 3);
        assert_eq!(lines(b"a\r\r\nb\n\r"), 4);
        assert_eq!(lines("a\x0cb\x0bc\u{2028}d\u{85}e\n".as_bytes()), 1);
    }

    #[test]
    fn encodings_keep_the_lines() {
        assert_eq!(lines(b"gr\xfc\xdfe\nstra\xdfe\n"), 2);
        assert_eq!(lines(b"\xff\xfea\0\n\0b\0\n\0"), 2);
        assert_eq!(lines(b"\xfe\xff\0a\0\n\0b"), 2);
        assert_eq!(lines(b"\xff\xfea\0\x0a\x0a\x00\xd8x"), 1);
        let marked = Text::from_bytes(b"\xef\xbb\xbfdef f\n").unwrap();
        assert_eq!((marked.content(), marked.nearest_word("f", 1, 1)), ("def f\n", Some(1)));
        assert_eq!(Text::from_bytes(b"a\0b").unwrap_err(), NotText);
        assert_eq!(Text::from_bytes(b"\xff\xfe\0\0a\0\0\0").unwrap_err(), NotText);
        let late = [vec![b'a'; SNIFFED], vec![0]].concat();
        assert_eq!(lines(&late), 1);
    }

    #[test]
    fn words_are_whole() {
        let text = Text::new("run re_run\nrun2 Größe $run\nx-run\n".to_owned());
        assert!(text.has_word("run") && text.has_word("re_run") && text.has_word("Größe"));
        assert!(text.has_word("$run") && text.has_word("x-run"));
        for none in ["re", "ru", "Gr", "un", "$", "", "$run2", "y-run", "-run x"] {
            assert!(!text.has_word(none), "{none}");
        }
    }

    #[test]
    fn the_nearest_line_is_found() {
        let text = Text::new("\n\nx\n\n\n\n\nx y x\n\n".to_owned());
        let at = |first, last| text.nearest_word("x", first, last);
        assert_eq!(at(1, 1), Some(3));
        assert_eq!(at(3, 3), Some(3));
        assert_eq!(at(5, 5), Some(3));
        assert_eq!(at(6, 6), Some(8));
        assert_eq!(at(4, 9), Some(8));
        assert_eq!(at(9, 20), Some(8));
        assert_eq!(at(4, 7), Some(3), "equally near");
        assert_eq!(text.nearest_word("z", 1, 1), None);
    }
}
