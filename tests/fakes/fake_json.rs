//! JSON, as little as the fake server needs.

use std::fmt::Write as _;

/// A value; numbers keep their spelling.
#[derive(Clone, Debug)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    List(Vec<Json>),
    Map(Vec<(String, Json)>),
}

impl Json {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let chars: Vec<char> = text.chars().collect();
        let mut at = 0;
        let value = Self::value(&chars, &mut at)?;
        blanks(&chars, &mut at);
        (at == chars.len()).then_some(value)
    }

    fn value(chars: &[char], at: &mut usize) -> Option<Self> {
        blanks(chars, at);
        match *chars.get(*at)? {
            '{' => {
                let mut map = Vec::new();
                *at += 1;
                loop {
                    blanks(chars, at);
                    match *chars.get(*at)? {
                        '}' => break,
                        ',' => *at += 1,
                        _ => {
                            let key = Self::string(chars, at)?;
                            blanks(chars, at);
                            *at += usize::from(*chars.get(*at)? == ':');
                            map.push((key, Self::value(chars, at)?));
                        }
                    }
                }
                *at += 1;
                Some(Self::Map(map))
            }
            '[' => {
                let mut list = Vec::new();
                *at += 1;
                loop {
                    blanks(chars, at);
                    match *chars.get(*at)? {
                        ']' => break,
                        ',' => *at += 1,
                        _ => list.push(Self::value(chars, at)?),
                    }
                }
                *at += 1;
                Some(Self::List(list))
            }
            '"' => Self::string(chars, at).map(Self::Text),
            _ => {
                let start = *at;
                while chars.get(*at).is_some_and(|c| c.is_alphanumeric() || "+-.".contains(*c)) {
                    *at += 1;
                }
                let word: String = chars[start..*at].iter().collect();
                match word.as_str() {
                    "" => None,
                    "null" => Some(Self::Null),
                    "true" | "false" => Some(Self::Bool(word == "true")),
                    _ => Some(Self::Number(word)),
                }
            }
        }
    }

    fn string(chars: &[char], at: &mut usize) -> Option<String> {
        let mut out = String::new();
        *at += 1;
        loop {
            let c = *chars.get(*at)?;
            *at += 1;
            match c {
                '"' => return Some(out),
                '\\' => {
                    let escape = *chars.get(*at)?;
                    *at += 1;
                    match escape {
                        'n' => out.push('\n'),
                        't' => out.push('\t'),
                        'r' => out.push('\r'),
                        'u' => {
                            let hex: String = chars.get(*at..*at + 4)?.iter().collect();
                            *at += 4;
                            let code = u32::from_str_radix(&hex, 16).ok()?;
                            out.push(char::from_u32(code).unwrap_or('\u{fffd}'));
                        }
                        other => out.push(other),
                    }
                }
                other => out.push(other),
            }
        }
    }

    pub(crate) fn get(&self, key: &str) -> &Json {
        match self {
            Self::Map(map) => map.iter().find(|(k, _)| k == key).map_or(&Json::Null, |(_, v)| v),
            _ => &Json::Null,
        }
    }

    pub(crate) fn text(&self) -> &str {
        match self {
            Self::Text(text) => text,
            _ => "",
        }
    }

    pub(crate) fn write(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(b) => b.to_string(),
            Self::Number(n) => n.clone(),
            Self::Text(text) => quote(text),
            Self::List(list) => format!("[{}]", list.iter().map(Self::write).collect::<Vec<_>>().join(",")),
            Self::Map(map) => {
                let inner: Vec<String> =
                    map.iter().map(|(k, v)| format!("{}:{}", quote(k), v.write())).collect();
                format!("{{{}}}", inner.join(","))
            }
        }
    }
}

fn blanks(chars: &[char], at: &mut usize) {
    while chars.get(*at).is_some_and(|c| c.is_whitespace()) {
        *at += 1;
    }
}

pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 32 => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
