//! What in a text is a path.

use std::ops::Range;

use super::listing::extension;

/// Longest path in bytes.
const LONGEST: usize = 1_024;
/// Longest part in brackets or parentheses.
const LONGEST_GROUP: usize = 128;

/// What is known of the code that an answer is about.
pub trait Known {
    /// Whether some file has this extension, written without its dot.
    fn extension(&self, extension: &str) -> bool;
    /// Whether this is a path of the code, or the last components of one.
    fn path(&self, path: &str) -> bool;
}

/// Nothing is known: only common extensions make a path.
#[derive(Clone, Copy, Debug)]
pub struct Nothing;

impl Known for Nothing {
    fn extension(&self, _: &str) -> bool {
        false
    }

    fn path(&self, _: &str) -> bool {
        false
    }
}

/// Extensions that make a path whatever the code is.
fn is_common(extension: &str) -> bool {
    matches!(
        extension,
        "py" | "pyi"
            | "go"
            | "rs"
            | "java"
            | "kt"
            | "kts"
            | "rb"
            | "erb"
            | "php"
            | "ts"
            | "tsx"
            | "js"
            | "jsx"
            | "mjs"
            | "cjs"
            | "c"
            | "cc"
            | "h"
            | "cpp"
            | "hpp"
            | "cs"
            | "swift"
            | "scala"
            | "vue"
            | "svelte"
            | "ex"
            | "exs"
            | "sh"
            | "sql"
            | "css"
            | "html"
            | "json"
            | "toml"
            | "yaml"
            | "yml"
            | "md"
            | "rst"
            | "txt"
            | "cfg"
            | "ini"
    )
}

fn is_path_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | '@' | '$' | '+' | '~' | '%')
}

/// Marks that may close between a path and its line.
pub(super) fn is_mark(byte: u8) -> bool {
    matches!(byte, b'`' | b'*' | b'_' | b'"' | b'\'')
}

/// Place behind the marks at `at`.
pub(super) fn skip_marks(text: &str, at: usize) -> usize {
    let bytes = text.as_bytes().get(at..).unwrap_or_default();
    at + bytes.iter().take_while(|byte| is_mark(**byte)).count()
}

/// Place behind the characters of a path at `at`.
pub(super) fn run(text: &str, at: usize) -> usize {
    let rest = text.get(at..).unwrap_or_default();
    rest.find(|c| !is_path_char(c)).map_or(text.len(), |len| at + len)
}

/// Place behind a `[slug]`, `[[...all]]` or `(shop)` at `at`; nothing else may be inside.
fn group(text: &str, at: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let (open, close) = match bytes.get(at)? {
        b'[' => (b'[', b']'),
        b'(' => (b'(', b')'),
        _ => return None,
    };
    let double = open == b'[' && bytes.get(at + 1) == Some(&b'[');
    let from = at + 1 + usize::from(double);
    let mut most = (from + LONGEST_GROUP).min(text.len());
    while !text.is_char_boundary(most) {
        most -= 1;
    }
    let inside = text.get(from..most)?;
    let len = inside.find(|c| c == '/' || !is_path_char(c))?;
    let closed =
        bytes.get(from + len) == Some(&close) && (!double || bytes.get(from + len + 1) == Some(&close));
    (len > 0 && closed).then_some(from + len + 1 + usize::from(double))
}

/// A run of characters that may be a path.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) start: usize,
    pub(super) end: usize,
    /// It has parts in brackets or parentheses.
    pub(super) grouped: bool,
    /// It has a slash outside of them.
    slash: bool,
}

impl Token {
    /// The token at `at`, if one begins there.
    pub(super) fn at(text: &str, at: usize, groups: bool) -> Option<Self> {
        let mut token = Self { start: at, end: at, grouped: false, slash: false };
        loop {
            let next = run(text, token.end);
            if next > token.end {
                token.slash |= text.as_bytes()[token.end..next].contains(&b'/');
                token.end = next;
            } else if groups && let Some(next) = group(text, token.end) {
                token.grouped = true;
                token.end = next;
            } else {
                return (token.end > at).then_some(token);
            }
        }
    }
}

/// A path in an answer.
#[derive(Clone, Debug)]
pub(super) struct Path {
    /// As written.
    pub(super) span: Range<usize>,
    /// A line may follow: between path and end of the token are but closing marks.
    pub(super) whole: bool,
}

impl Path {
    /// The file as it is reported.
    pub(super) fn file<'t>(&self, text: &'t str) -> &'t str {
        bare(text.get(self.span.clone()).unwrap_or_default())
    }
}

/// A path without `./` before it.
pub(super) fn bare(mut path: &str) -> &str {
    while let Some(rest) = path.strip_prefix("./") {
        path = rest;
    }
    path
}

fn is_path(token: &str, known: &dyn Known) -> bool {
    let has = |extension: &str| {
        is_common(extension)
            // `127.0.0.1` is no path because of a manual page `x.1`.
            || (extension.contains(|c: char| c.is_alphabetic()) && known.extension(extension))
    };
    token.len() <= LONGEST && (extension(token).is_some_and(has) || known.path(token))
}

/// Whether a text is a path from its first to its last character.
pub(super) fn is_whole(text: &str, known: &dyn Known) -> bool {
    text.len() <= LONGEST
        && Token::at(text, 0, true)
            .is_some_and(|token| token.end == text.len() && (token.slash || !token.grouped))
        && is_path(text, known)
}

/// The path in a token; `marked` says how many `_` close behind its line.
pub(super) fn path_in(text: &str, token: Token, marked: usize, known: &dyn Known) -> Option<Path> {
    if token.grouped && !token.slash {
        return None;
    }
    let all = text.get(token.start..token.end)?;
    let mut body = all;
    if !is_path(body, known) {
        body = all.trim_end_matches(['.', '_', '-', '~', '+', '/', '%', '@', '$']);
        if body.len() == all.len() || !is_path(body, known) {
            return None;
        }
    }
    let behind = &all[body.len()..];
    let whole = behind.bytes().all(|byte| byte == b'_');
    let marks = marked + if whole { behind.len() } else { 0 };
    let start = token.start + opening(body, marks, known);
    Some(Path { span: start..token.start + body.len(), whole })
}

/// How many bytes before a path are marks: emphasis that closes behind it, or what hides a path
/// that is known without it, as the sign of a list or of a changed line.
fn opening(body: &str, marks: usize, known: &dyn Known) -> usize {
    let is_sign = |byte: &u8| matches!(byte, b'_' | b'-' | b'+' | b'~' | b'@');
    let signs = body.bytes().take_while(|byte| is_sign(byte)).count();
    let comment = if body.starts_with("//") { 2 } else { 0 };
    if (signs == 0 && comment == 0) || known.path(body) {
        return 0;
    }
    let hidden = |cut: &usize| known.path(&body[*cut..]);
    if let Some(cut) = (1..=signs.min(3)).find(hidden).or((comment > 0).then_some(2).filter(hidden)) {
        return cut;
    }
    let cut = marks.min(body.bytes().take_while(|byte| *byte == b'_').count());
    if is_path(&body[cut..], known) { cut } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Option<(&str, bool)> {
        let token = Token::at(text, 0, true)?;
        let path = path_in(text, token, 0, &Nothing)?;
        Some((&text[path.span.clone()], path.whole))
    }

    #[test]
    fn tokens_with_groups() {
        for whole in ["app/[slug]/page.tsx", "app/(shop)/[[...all]]/page.tsx", "a/post-[id].ts", "[id]/a.ts"]
        {
            assert_eq!(path(whole), Some((whole, true)), "{whole}");
            assert!(is_whole(whole, &Nothing));
        }
        for none in ["[app.py]", "(app.py)", "f(app.py)", "[a/b.py]", "a/[x", "a/[]/", "a/[[x]/b"] {
            assert_eq!(path(none), None, "{none}");
        }
    }

    #[test]
    fn marks_and_stops_are_cut_off() {
        assert_eq!(path("_a.py_"), Some(("a.py", true)));
        assert_eq!(path("a.py."), Some(("a.py", false)));
        assert_eq!(path("__init__.py"), Some(("__init__.py", true)));
        assert_eq!(path("a.py._"), Some(("a.py", false)));
        for none in ["a", ".py", "127.0.0.1", "a.docx", "Makefile", "a/b", "..", ""] {
            assert_eq!(path(none), None, "{none}");
        }
        assert_eq!(path(&"a/".repeat(600)), None);
        assert_eq!(path(&format!("{}.py", "a/".repeat(600))), None);
    }

    #[test]
    fn signs_before_a_known_path_are_none_of_it() {
        struct One;
        impl Known for One {
            fn extension(&self, _: &str) -> bool {
                false
            }
            fn path(&self, path: &str) -> bool {
                path == "a.py" || path == "_b.py"
            }
        }
        let cut = |body| opening(body, 0, &One);
        assert_eq!(
            [cut("+a.py"), cut("//a.py"), cut("~~a.py"), cut("_b.py"), cut("__b.py")],
            [1, 2, 2, 0, 1]
        );
        assert_eq!([cut("-c.py"), cut("a.py"), cut("/a.py"), cut("@a/a.py")], [0, 0, 0, 0]);
    }
}
