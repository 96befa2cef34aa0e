//! A transcript as the reference reads it: JSON lines in the form of Claude
//! Code's stream, also where another program's stream was rewritten into it.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::python;

/// US dollars per million tokens by which partial usage is priced: input, output, cache read, cache write.
const PRICES: [f64; 4] = [15.00, 75.00, 1.50, 18.75];

/// A call of a tool.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Name of the tool.
    pub name: String,
    /// What it was given.
    pub input: Value,
}

/// Tokens by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Not from a cache.
    pub input: u64,
    /// Written by the model.
    pub output: u64,
    /// Read from a cache.
    pub cache_read: u64,
    /// Written to a cache.
    pub cache_write: u64,
}

/// What the reference takes from a transcript.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Session {
    /// All text of all assistant messages, joined by line ends.
    pub answer: String,
    /// Characters of the answer, tool inputs as JSON and tool results, joined by line ends.
    pub audit_chars: u64,
    /// Calls in order.
    pub calls: Vec<Call>,
    /// Usage of the final records.
    pub tokens: Tokens,
    /// Usage of every message that states it, repeated ones included.
    pub partial: Tokens,
    /// Sum of the costs that final records state; none where no one does.
    pub cost: Option<f64>,
    /// Sum of the durations that final records state, in milliseconds.
    pub duration_ms: f64,
}

impl Tokens {
    /// Sums up; more than fits stays at the largest.
    fn add(&mut self, usage: &Usage) {
        let tokens = |value: &Lenient| value.0.filter(|n| *n >= 0.0).map_or(0, to_u64);
        self.input = self.input.saturating_add(tokens(&usage.input));
        self.output = self.output.saturating_add(tokens(&usage.output));
        self.cache_read = self.cache_read.saturating_add(tokens(&usage.cache_read));
        self.cache_write = self.cache_write.saturating_add(tokens(&usage.cache_write));
    }

    /// Tokens that the reference calls billed: caches are left out.
    #[must_use]
    pub fn billed(&self) -> u64 {
        self.input.saturating_add(self.output)
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.billed().saturating_add(self.cache_read).saturating_add(self.cache_write)
    }

    /// Their price in US dollars by the reference's one table.
    #[must_use]
    pub fn estimate(&self) -> f64 {
        let counts = [self.input, self.output, self.cache_read, self.cache_write];
        #[expect(clippy::cast_precision_loss, reason = "as the reference does")]
        counts.iter().zip(PRICES).map(|(count, price)| *count as f64 * price / 1e6).sum()
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float beyond stays at the bound"
)]
fn to_u64(value: f64) -> u64 {
    value as u64
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    event: Option<Event<'a>>,
    #[serde(borrow, default)]
    message: Option<Message<'a>>,
    #[serde(default)]
    total_cost_usd: Lenient,
    #[serde(default)]
    duration_ms: Lenient,
    #[serde(default)]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
struct Event<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    message: Option<Message<'a>>,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default)]
    content: Content<'a>,
    #[serde(default)]
    usage: Option<Usage>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Usage {
    #[serde(rename = "input_tokens")]
    input: Lenient,
    #[serde(rename = "output_tokens")]
    output: Lenient,
    #[serde(rename = "cache_read_input_tokens")]
    cache_read: Lenient,
    #[serde(rename = "cache_creation_input_tokens")]
    cache_write: Lenient,
}

#[derive(Deserialize)]
struct Block<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Text<'a>,
    #[serde(borrow, default)]
    text: Text<'a>,
    #[serde(borrow, default)]
    name: Text<'a>,
    #[serde(default)]
    input: Value,
    #[serde(borrow, default)]
    content: Content<'a>,
}

/// A text, or nothing where something else stands.
#[derive(Default)]
struct Text<'a>(Cow<'a, str>);

/// A number, or nothing where something else stands.
#[derive(Default)]
struct Lenient(Option<f64>);

/// A text, or a list of blocks and texts.
#[derive(Default)]
enum Content<'a> {
    #[default]
    None,
    Text(Cow<'a, str>),
    Blocks(Vec<Piece<'a>>),
}

enum Piece<'a> {
    Text(Cow<'a, str>),
    Block(Box<Block<'a>>),
    Other,
}

/// Visits a value of which only some shapes count.
macro_rules! lenient {
    ($name:ident, ($($of:tt)*), $out:ty, $other:expr, { $($shapes:tt)* }) => {
        impl<'de: 'a, 'a> Deserialize<'de> for $($of)* {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct $name;
                impl<'de> Visitor<'de> for $name {
                    type Value = $out;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("any value")
                    }
                    fn visit_unit<E: de::Error>(self) -> Result<$out, E> {
                        Ok($other)
                    }
                    fn visit_bool<E: de::Error>(self, _: bool) -> Result<$out, E> {
                        Ok($other)
                    }
                    $($shapes)*
                }
                from.deserialize_any($name)
            }
        }
    };
}

/// Passes over shapes that don't count.
macro_rules! over {
    (number, $out:ty, $other:expr) => {
        fn visit_f64<E: de::Error>(self, _: f64) -> Result<$out, E> {
            Ok($other)
        }
        fn visit_u64<E: de::Error>(self, _: u64) -> Result<$out, E> {
            Ok($other)
        }
        fn visit_i64<E: de::Error>(self, _: i64) -> Result<$out, E> {
            Ok($other)
        }
    };
    (list, $out:ty, $other:expr) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<$out, A::Error> {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            Ok($other)
        }
    };
    (map, $out:ty, $other:expr) => {
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<$out, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok($other)
        }
    };
}

lenient!(TextVisitor, (Text<'a>), Text<'de>, Text::default(), {
    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }
    over!(number, Text<'de>, Text::default());
    over!(list, Text<'de>, Text::default());
    over!(map, Text<'de>, Text::default());
});

#[expect(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^53")]
mod numbers {
    use super::{Deserialize, Deserializer, IgnoredAny, Lenient, MapAccess, SeqAccess, Visitor, de, fmt};

    lenient!(NumberVisitor, (Lenient), Lenient, Lenient::default(), {
        fn visit_f64<E: de::Error>(self, number: f64) -> Result<Lenient, E> {
            Ok(Lenient(Some(number)))
        }
        fn visit_u64<E: de::Error>(self, number: u64) -> Result<Lenient, E> {
            Ok(Lenient(Some(number as f64)))
        }
        fn visit_i64<E: de::Error>(self, number: i64) -> Result<Lenient, E> {
            Ok(Lenient(Some(number as f64)))
        }
        fn visit_str<E: de::Error>(self, _: &str) -> Result<Lenient, E> {
            Ok(Lenient::default())
        }
        over!(list, Lenient, Lenient::default());
        over!(map, Lenient, Lenient::default());
    });
}

lenient!(ContentVisitor, (Content<'a>), Content<'de>, Content::None, {
    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Content<'de>, E> {
        Ok(Content::Text(Cow::Borrowed(text)))
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<Content<'de>, E> {
        Ok(Content::Text(Cow::Owned(text.to_owned())))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Content<'de>, A::Error> {
        let mut out = Vec::new();
        while let Some(piece) = list.next_element()? {
            out.push(piece);
        }
        Ok(Content::Blocks(out))
    }
    over!(number, Content<'de>, Content::None);
    over!(map, Content<'de>, Content::None);
});

lenient!(PieceVisitor, (Piece<'a>), Piece<'de>, Piece::Other, {
    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Piece<'de>, E> {
        Ok(Piece::Text(Cow::Borrowed(text)))
    }
    fn visit_str<E: de::Error>(self, text: &str) -> Result<Piece<'de>, E> {
        Ok(Piece::Text(Cow::Owned(text.to_owned())))
    }
    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Piece<'de>, A::Error> {
        Block::deserialize(de::value::MapAccessDeserializer::new(map))
            .map(|block| Piece::Block(Box::new(block)))
    }
    over!(number, Piece<'de>, Piece::Other);
    over!(list, Piece<'de>, Piece::Other);
});

/// Reads a transcript; lines that are none of its forms are passed over.
#[must_use]
pub fn read(bytes: &[u8]) -> Session {
    let text = String::from_utf8_lossy(bytes);
    let mut reader = Reader::default();
    for line in text.split('\n').map(str::trim).filter(|line| !line.is_empty()) {
        if let Ok(line) = serde_json::from_str::<Line<'_>>(line) {
            reader.take(line);
        }
    }
    // Pieces are joined by line ends.
    reader.session.audit_chars += reader.pieces.saturating_sub(1);
    reader.session
}

#[derive(Default)]
struct Reader {
    session: Session,
    /// Texts of the answer, and pieces of what is audited.
    texts: u64,
    pieces: u64,
}

impl Reader {
    fn take(&mut self, line: Line<'_>) {
        if line.kind.0 == "result" {
            if let Some(usage) = &line.usage {
                self.session.tokens.add(usage);
            }
            if let Some(cost) = line.total_cost_usd.0 {
                self.session.cost = Some(self.session.cost.unwrap_or_default() + cost);
            }
            self.session.duration_ms += line.duration_ms.0.unwrap_or_default();
        }
        let (kind, message) = match line.event {
            Some(event) => (event.kind, event.message),
            None => (line.kind, line.message),
        };
        let Some(message) = message else { return };
        if let Some(usage) = &message.usage {
            self.session.partial.add(usage);
        }
        match (&*kind.0, message.content) {
            ("assistant", Content::Text(text)) => self.say(&text),
            ("assistant", Content::Blocks(pieces)) => {
                for piece in pieces {
                    self.assistant(piece);
                }
            }
            ("user", Content::Blocks(pieces)) => {
                for piece in pieces {
                    if let Piece::Block(block) = piece
                        && block.kind.0 == "tool_result"
                    {
                        self.result(&block.content);
                    }
                }
            }
            _ => {}
        }
    }

    fn assistant(&mut self, piece: Piece<'_>) {
        match piece {
            Piece::Text(text) => self.say(&text),
            Piece::Block(block) if block.kind.0 == "text" => self.say(&block.text.0),
            Piece::Block(block) if block.kind.0 == "tool_use" => {
                self.audit(python::dumps_len(&block.input) as u64);
                self.session.calls.push(Call { name: block.name.0.into_owned(), input: block.input });
            }
            _ => {}
        }
    }

    fn result(&mut self, content: &Content<'_>) {
        match content {
            Content::None => {}
            Content::Text(text) => self.audit(chars(text)),
            Content::Blocks(parts) => {
                for part in parts {
                    match part {
                        Piece::Text(text) => self.audit(chars(text)),
                        Piece::Block(block) => self.audit(chars(&block.text.0)),
                        Piece::Other => {}
                    }
                }
            }
        }
    }

    fn say(&mut self, text: &str) {
        if self.texts > 0 {
            self.session.answer.push('\n');
        }
        self.texts += 1;
        self.session.answer.push_str(text);
        self.audit(chars(text));
    }

    fn audit(&mut self, chars: u64) {
        self.pieces += 1;
        self.session.audit_chars += chars;
    }
}

fn chars(text: &str) -> u64 {
    text.chars().count() as u64
}
