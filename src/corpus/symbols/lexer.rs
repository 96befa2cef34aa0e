//! Tokens of Python, by logical lines. What is out of the ordinary (tabs, form
//! feeds, letters beyond ASCII in names, faults) ends it: the grammar knows more.

/// What a token is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenKind {
    Name,
    Keyword,
    Number,
    /// A string, or a piece of one that has expressions in it.
    Text,
    /// `{` of an expression in a string, and its end.
    Insert,
    Inserted,
    Open,
    Close,
    Dot,
    Comma,
    Colon,
    Semicolon,
    Assign,
    Augmented,
    Slash,
    Op,
}

/// A token.
#[derive(Clone, Copy, Debug)]
pub(super) struct Token {
    pub(super) kind: TokenKind,
    pub(super) start: usize,
    pub(super) end: usize,
    /// 1-based line of its first and last byte.
    pub(super) line: u64,
    pub(super) end_line: u64,
    /// Brackets around it; a bracket counts as outside of itself.
    pub(super) depth: u32,
}

const KEYWORDS: [&str; 33] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def",
    "del", "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is",
    "lambda", "nonlocal", "not", "or", "pass", "raise", "return", "while", "with",
];

fn is_keyword(word: &str) -> bool {
    word.len() <= 8 && (KEYWORDS.binary_search(&word).is_ok() || matches!(word, "try" | "yield"))
}

/// A comment that has lines of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comment {
    pub(super) indent: usize,
    pub(super) end: usize,
    pub(super) line: u64,
}

pub(super) struct Lexer<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
    line: u64,
    /// Comments before the logical line that came last.
    pub(super) above: Vec<Comment>,
    /// End of the comment behind that line, and the line it is on.
    pub(super) behind: Option<(usize, u64)>,
}

/// Deepest nest of brackets and of expressions in strings.
const DEEPEST: u32 = 100;

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, bytes: text.as_bytes(), at: 0, line: 1, above: Vec::new(), behind: None }
    }

    fn peek(&self, ahead: usize) -> u8 {
        self.bytes.get(self.at + ahead).copied().unwrap_or(0)
    }

    /// The next logical line that holds tokens, with its indentation; none at the end. The outer
    /// `None`: something out of the ordinary.
    pub(super) fn line(&mut self, out: &mut Vec<Token>) -> Option<Option<usize>> {
        out.clear();
        self.above.clear();
        self.behind = None;
        loop {
            let start = self.at;
            while self.peek(0) == b' ' {
                self.at += 1;
            }
            match self.bytes.get(self.at) {
                None => return Some(None),
                Some(b'\n') => {
                    self.at += 1;
                    self.line += 1;
                }
                Some(b'#') => {
                    let indent = self.at - start;
                    self.comment()?;
                    self.above.push(Comment { indent, end: self.at, line: self.line });
                }
                Some(_) => {
                    let indent = self.at - start;
                    self.tokens(out, 0, false)?;
                    return Some(Some(indent));
                }
            }
        }
    }

    fn comment(&mut self) -> Option<()> {
        let rest = &self.bytes[self.at..];
        let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
        if rest[..end].iter().any(|b| matches!(b, b'\r' | 0)) {
            return None;
        }
        self.at += end;
        Some(())
    }

    /// Tokens to the end of the logical line, or of the expression in a string.
    fn tokens(&mut self, out: &mut Vec<Token>, base: u32, inserted: bool) -> Option<()> {
        let mut open: Vec<u8> = Vec::new();
        loop {
            let Some(byte) = self.bytes.get(self.at).copied() else {
                return (open.is_empty() && !inserted).then_some(());
            };
            let depth = base + u32::try_from(open.len()).ok()?;
            if depth > DEEPEST {
                return None;
            }
            let (start, line) = (self.at, self.line);
            let kind = match byte {
                b' ' => {
                    self.at += 1;
                    continue;
                }
                b'\n' => {
                    if inserted {
                        return None;
                    }
                    self.at += 1;
                    self.line += 1;
                    if open.is_empty() {
                        return Some(());
                    }
                    continue;
                }
                b'#' if !inserted => {
                    self.comment()?;
                    if open.is_empty() {
                        self.behind = Some((self.at, self.line));
                    }
                    continue;
                }
                b'\\' if self.peek(1) == b'\n' && !inserted => {
                    self.at += 2;
                    self.line += 1;
                    continue;
                }
                b'_' | b'a'..=b'z' | b'A'..=b'Z' => {
                    while matches!(self.peek(0), b'_' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9') {
                        self.at += 1;
                    }
                    let word = &self.text[start..self.at];
                    match self.peek(0) {
                        b'"' | b'\'' => {
                            self.string(out, word, start, depth)?;
                            continue;
                        }
                        0x80.. => return None,
                        _ if is_keyword(word) => TokenKind::Keyword,
                        _ if matches!(word, "print" | "exec") => {
                            // A statement of Python 2 looks like this.
                            if self.peek(0) != b'(' {
                                return None;
                            }
                            TokenKind::Name
                        }
                        _ => TokenKind::Name,
                    }
                }
                b'0'..=b'9' => {
                    self.number()?;
                    TokenKind::Number
                }
                b'"' | b'\'' => {
                    self.string(out, "", start, depth)?;
                    continue;
                }
                b'(' | b'[' | b'{' => {
                    open.push(byte);
                    self.at += 1;
                    TokenKind::Open
                }
                b'}' if inserted && open.is_empty() => return Some(()),
                b'!' if inserted && open.is_empty() && self.peek(1) != b'=' => return Some(()),
                b':' if inserted && open.is_empty() => return Some(()),
                b')' | b']' | b'}' => {
                    let matching = match byte {
                        b')' => b'(',
                        b']' => b'[',
                        _ => b'{',
                    };
                    if open.pop() != Some(matching) {
                        return None;
                    }
                    self.at += 1;
                    out.push(Token {
                        kind: TokenKind::Close,
                        start,
                        end: self.at,
                        line,
                        end_line: line,
                        depth: depth - 1,
                    });
                    continue;
                }
                b'.' if self.bytes[self.at..].starts_with(b"...") => {
                    self.at += 3;
                    TokenKind::Op
                }
                b'.' if self.peek(1).is_ascii_digit() => {
                    self.at += 1;
                    self.number()?;
                    TokenKind::Number
                }
                b'.' => {
                    self.at += 1;
                    TokenKind::Dot
                }
                b',' => {
                    self.at += 1;
                    TokenKind::Comma
                }
                b';' => {
                    self.at += 1;
                    TokenKind::Semicolon
                }
                b':' if self.peek(1) == b'=' => {
                    self.at += 2;
                    TokenKind::Op
                }
                b':' => {
                    self.at += 1;
                    TokenKind::Colon
                }
                b'=' if self.peek(1) != b'=' => {
                    self.at += 1;
                    if inserted && open.is_empty() {
                        // `f"{name=}"`
                        if !matches!(self.peek(0), b'}' | b'!' | b':') {
                            return None;
                        }
                        continue;
                    }
                    TokenKind::Assign
                }
                b'+' | b'-' | b'*' | b'/' | b'%' | b'&' | b'|' | b'^' | b'~' | b'<' | b'>' | b'=' | b'!'
                | b'@' => {
                    let rest = &self.bytes[self.at..];
                    let length = match rest {
                        [b'*', b'*', b'=', ..]
                        | [b'/', b'/', b'=', ..]
                        | [b'<', b'<', b'=', ..]
                        | [b'>', b'>', b'=', ..] => 3,
                        [b'*', b'*', ..]
                        | [b'/', b'/', ..]
                        | [b'<', b'<', ..]
                        | [b'>', b'>', ..]
                        | [b'-', b'>', ..] => 2,
                        [b'<', b'>', ..] => return None,
                        [_, b'=', ..] => 2,
                        [b'!', ..] => return None,
                        _ => 1,
                    };
                    self.at += length;
                    let augmented =
                        rest[length - 1] == b'=' && !matches!(&rest[..length], b"==" | b"!=" | b"<=" | b">=");
                    if augmented {
                        TokenKind::Augmented
                    } else if rest[..length] == *b"/" {
                        TokenKind::Slash
                    } else {
                        TokenKind::Op
                    }
                }
                _ => return None,
            };
            out.push(Token { kind, start, end: self.at, line, end_line: line, depth });
        }
    }

    fn number(&mut self) -> Option<()> {
        let start = self.at;
        let prefixed = self.peek(0) == b'0' && matches!(self.peek(1) | 0x20, b'x' | b'o' | b'b');
        loop {
            match self.peek(0) {
                b'+' | b'-'
                    if self.at > start && !prefixed && matches!(self.bytes[self.at - 1], b'e' | b'E') => {}
                b'_' | b'.' | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z' => {}
                _ => break,
            }
            self.at += 1;
        }
        let word = &self.text[start..self.at];
        if prefixed {
            let digits = word[2..].bytes().all(|b| b == b'_' || b.is_ascii_hexdigit());
            return (digits && word.len() > 2).then_some(());
        }
        // Digits, at most one point, an exponent, `j`.
        let word = word.strip_suffix(['j', 'J']).unwrap_or(word);
        let (mantissa, exponent) = word.split_once(['e', 'E']).unwrap_or((word, "0"));
        let digits = |text: &str| text.bytes().all(|b| b == b'_' || b.is_ascii_digit());
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        (digits(whole) && digits(fraction) && digits(exponent) && !exponent.is_empty()).then_some(())
    }

    /// A string behind its prefix.
    fn string(&mut self, out: &mut Vec<Token>, prefix: &str, start: usize, depth: u32) -> Option<()> {
        let (mut raw, mut format) = (false, false);
        for letter in prefix.bytes() {
            match letter | 0x20 {
                b'r' => raw = true,
                b'f' => format = true,
                b'b' | b'u' => {}
                _ => return None,
            }
        }
        if prefix.len() > 2 {
            return None;
        }
        let quote = self.peek(0);
        let triple = self.peek(1) == quote && self.peek(2) == quote;
        let (first, mut line) = (start, self.line);
        let mut start = first;
        self.at += if triple { 3 } else { 1 };
        loop {
            let byte = *self.bytes.get(self.at)?;
            match byte {
                b'\\' => {
                    if self.peek(1) == b'\n' {
                        self.line += 1;
                    }
                    // `\N{NAME}` has braces of its own.
                    if self.peek(1) == b'\r'
                        || format && (raw || self.peek(1) == b'N' || self.peek(1) == b'{')
                    {
                        return None;
                    }
                    self.at += 2;
                }
                b'\n' if !triple => return None,
                b'\n' => {
                    self.line += 1;
                    self.at += 1;
                }
                b'\r' => return None,
                b'{' if format && self.peek(1) == b'{' => self.at += 2,
                b'}' if format && self.peek(1) == b'}' => self.at += 2,
                b'}' if format => return None,
                b'{' if format => {
                    out.push(Token {
                        kind: TokenKind::Text,
                        start,
                        end: self.at,
                        line,
                        end_line: self.line,
                        depth,
                    });
                    self.insert(out, depth)?;
                    (start, line) = (self.at, self.line);
                }
                b if b == quote && (!triple || self.peek(1) == quote && self.peek(2) == quote) => {
                    self.at += if triple { 3 } else { 1 };
                    break;
                }
                _ => self.at += 1,
            }
        }
        out.push(Token { kind: TokenKind::Text, start, end: self.at, line, end_line: self.line, depth });
        Some(())
    }

    /// An expression in a string, from its `{` on.
    fn insert(&mut self, out: &mut Vec<Token>, depth: u32) -> Option<()> {
        let mark = |lexer: &Self, kind| Token {
            kind,
            start: lexer.at,
            end: lexer.at + 1,
            line: lexer.line,
            end_line: lexer.line,
            depth,
        };
        out.push(mark(self, TokenKind::Insert));
        self.at += 1;
        let before = out.len();
        self.tokens(out, depth + 1, true)?;
        if out.len() == before {
            return None;
        }
        out.push(mark(self, TokenKind::Inserted));
        if self.peek(0) == b'!' {
            if !matches!(self.peek(1), b'r' | b's' | b'a') {
                return None;
            }
            self.at += 2;
        }
        if self.peek(0) == b':' {
            self.at += 1;
            loop {
                match *self.bytes.get(self.at)? {
                    b'{' => {
                        self.insert(out, depth + 1)?;
                    }
                    b'}' => break,
                    b'\n' | b'\\' | b'"' | b'\'' | b'\r' => return None,
                    _ => self.at += 1,
                }
            }
        }
        if self.peek(0) != b'}' {
            return None;
        }
        self.at += 1;
        Some(())
    }
}
