//! JSON as Python reads it: with `NaN`, keys given twice, halves of surrogate
//! pairs, numbers of any length and deep nesting, of which a strict reader
//! would drop the whole line.

use indexmap::IndexMap;
use serde_json::Value;

/// Deepest nesting that is read; Python gives up near its thousandth call.
const DEEPEST: usize = 900;
/// Most values of one text: what more takes is memory, and no session's line has so many.
const MOST: usize = 4 << 20;
/// Longest integer, in digits: longer ones are an error in Python, too.
const LONGEST: usize = 4300;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number as Python writes it.
    Int(Box<str>),
    /// Any other number.
    Float(f64),
    /// A text; a lone half of a surrogate pair is one U+FFFD.
    Text(String),
    /// A list.
    List(Vec<Json>),
    /// An object; of keys given twice the last one counts, at the place of the first.
    Map(IndexMap<String, Json>),
}

impl Json {
    /// The value under a key; none where this is no object.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        match self {
            Self::Map(map) => map.get(key),
            _ => None,
        }
    }

    /// The text, if it is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The number, if it is one.
    #[must_use]
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(digits) => digits.parse().ok(),
            Self::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// The value as a strict reader takes it; what is no number there is null.
    #[must_use]
    pub fn strict(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(flag) => Value::Bool(*flag),
            Self::Int(digits) => {
                let whole = digits
                    .parse::<i64>()
                    .map(Value::from)
                    .or_else(|_| digits.parse::<u64>().map(Value::from));
                whole.unwrap_or_else(|_| digits.parse::<f64>().ok().map_or(Value::Null, Value::from))
            }
            Self::Float(number) => Value::from(*number),
            Self::Text(text) => Value::String(text.clone()),
            Self::List(items) => items.iter().map(Self::strict).collect(),
            Self::Map(map) => map.iter().map(|(key, value)| (key.clone(), value.strict())).collect(),
        }
    }

    /// The list's items; none where this is no list.
    #[must_use]
    pub fn items(&self) -> &[Self] {
        match self {
            Self::List(items) => items,
            _ => &[],
        }
    }
}

/// The value that a text is; none where Python would refuse it, or it is too deep or too large.
#[must_use]
pub fn parse(text: &str) -> Option<Json> {
    let mut parser = Parser { text, at: 0, left: MOST };
    parser.space();
    let value = parser.value(0)?;
    parser.space();
    (parser.at == text.len()).then_some(value)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    left: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &[u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn space(&mut self) {
        self.at += self.rest().iter().take_while(|b| matches!(b, b' ' | b'\t' | b'\n' | b'\r')).count();
    }

    fn take(&mut self, word: &str) -> Option<()> {
        self.rest().starts_with(word.as_bytes()).then(|| self.at += word.len())
    }

    fn value(&mut self, depth: usize) -> Option<Json> {
        self.left = self.left.checked_sub(1)?;
        if depth > DEEPEST {
            return None;
        }
        match *self.rest().first()? {
            b'"' => self.string().map(Json::Text),
            b'[' => self.list(depth),
            b'{' => self.map(depth),
            b'n' => self.take("null").map(|()| Json::Null),
            b't' => self.take("true").map(|()| Json::Bool(true)),
            b'f' => self.take("false").map(|()| Json::Bool(false)),
            b'N' => self.take("NaN").map(|()| Json::Float(f64::NAN)),
            b'I' => self.take("Infinity").map(|()| Json::Float(f64::INFINITY)),
            _ if self.rest().starts_with(b"-I") => {
                self.take("-Infinity").map(|()| Json::Float(f64::NEG_INFINITY))
            }
            _ => self.number(),
        }
    }

    fn list(&mut self, depth: usize) -> Option<Json> {
        self.at += 1;
        let mut items = Vec::new();
        self.space();
        if self.take("]").is_some() {
            return Some(Json::List(items));
        }
        loop {
            self.space();
            items.push(self.value(depth + 1)?);
            self.space();
            if self.take("]").is_some() {
                return Some(Json::List(items));
            }
            self.take(",")?;
        }
    }

    fn map(&mut self, depth: usize) -> Option<Json> {
        self.at += 1;
        let mut map = IndexMap::new();
        self.space();
        if self.take("}").is_some() {
            return Some(Json::Map(map));
        }
        loop {
            self.space();
            let key = self.string()?;
            self.space();
            self.take(":")?;
            self.space();
            let value = self.value(depth + 1)?;
            map.insert(key, value);
            self.space();
            if self.take("}").is_some() {
                return Some(Json::Map(map));
            }
            self.take(",")?;
        }
    }

    fn number(&mut self) -> Option<Json> {
        let text = self.text.get(self.at..)?;
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let sign = usize::from(text.starts_with('-'));
        let whole = match text.as_bytes().get(sign)? {
            b'0' => 1,
            _ => digits(&text[sign..]),
        };
        if whole == 0 {
            return None;
        }
        let mut end = sign + whole;
        let mut is_float = false;
        if text[end..].starts_with('.') && digits(&text[end + 1..]) > 0 {
            end += 1 + digits(&text[end + 1..]);
            is_float = true;
        }
        if text[end..].starts_with(['e', 'E']) {
            let signed = usize::from(text[end + 1..].starts_with(['+', '-']));
            let power = digits(&text[end + 1 + signed..]);
            if power > 0 {
                end += 1 + signed + power;
                is_float = true;
            }
        }
        self.at += end;
        let text = &text[..end];
        if is_float {
            return text.parse().ok().map(Json::Float);
        }
        (whole <= LONGEST).then(|| Json::Int(if text == "-0" { "0" } else { text }.into()))
    }

    fn string(&mut self) -> Option<String> {
        self.take("\"")?;
        let mut out = String::new();
        loop {
            let plain = self.rest().iter().position(|b| matches!(b, b'"' | b'\\' | 0..=0x1f))?;
            out.push_str(self.text.get(self.at..self.at + plain)?);
            self.at += plain;
            if self.take("\"").is_some() {
                return Some(out);
            }
            self.take("\\")?;
            let c = *self.rest().first()?;
            self.at += 1;
            out.push(match c {
                b'"' | b'\\' | b'/' => char::from(c),
                b'n' => '\n',
                b'r' => '\r',
                b't' => '\t',
                b'b' => '\u{8}',
                b'f' => '\u{c}',
                b'u' => self.escaped()?,
                _ => return None,
            });
        }
    }

    fn escaped(&mut self) -> Option<char> {
        let first = self.unit()?;
        if (0xd800..0xdc00).contains(&first) && self.rest().starts_with(b"\\u") {
            let before = self.at;
            self.at += 2;
            let pair = [first, self.unit()?];
            if let Some(Ok(c)) = char::decode_utf16(pair).next() {
                return Some(c);
            }
            // What follows is a character of its own.
            self.at = before;
        }
        Some(char::from_u32(u32::from(first)).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn unit(&mut self) -> Option<u16> {
        let digits = self.text.get(self.at..self.at + 4)?;
        if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        self.at += 4;
        u16::from_str_radix(digits, 16).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: &str) -> Option<String> {
        parse(json)?.as_str().map(str::to_owned)
    }

    #[test]
    fn what_python_accepts_is_read() {
        assert_eq!(text(r#""a\ud83d b""#).unwrap(), "a\u{fffd} b");
        assert_eq!(text(r#""\ud83d\ude00\ude00\ud83d\u0041""#).unwrap(), "\u{1f600}\u{fffd}\u{fffd}A");
        assert_eq!(parse(r#"{"a": 1, "b": 2, "a": "x"}"#).unwrap().get("a").unwrap().as_str(), Some("x"));
        let odd = parse("[NaN, Infinity, -Infinity, 1e999, -0, 123456789012345678901234567890]").unwrap();
        assert!(odd.items()[0].as_f64().unwrap().is_nan());
        assert_eq!(odd.items()[3], Json::Float(f64::INFINITY));
        assert_eq!(odd.items()[4], Json::Int("0".into()));
        assert_eq!(odd.items()[5], Json::Int("123456789012345678901234567890".into()));
        let deep = "[".repeat(500) + &"]".repeat(500);
        assert!(parse(&deep).is_some());
    }

    #[test]
    fn what_python_refuses_and_what_is_too_much_is_not_read() {
        for bad in [
            "",
            "[",
            "{",
            "{\"a\"",
            "01",
            "1.",
            "+1",
            "-",
            ".5",
            "[1,]",
            "{\"a\":1,}",
            "\"\n\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u+123\"",
            "nul",
            "'a'",
            "1 2",
            "{1: 2}",
            "\u{feff}1",
        ] {
            assert!(parse(bad).is_none(), "{bad}");
        }
        assert!(parse(&("[".repeat(100_000) + &"]".repeat(100_000))).is_none());
        assert!(parse(&"9".repeat(LONGEST + 1)).is_none());
        let many = format!("[{}1]", "1,".repeat(MOST));
        assert!(parse(&many).is_none());
    }
}
