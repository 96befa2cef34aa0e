//! Fields that take what they are meant to hold and let everything else pass as absent: one
//! field of an unexpected shape must not cost the line that it is on. Text is borrowed.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Methods of a visitor that let every shape but its own pass as absent.
macro_rules! passes {
    (@ text $out:expr) => {
        fn visit_str<E: Error>(self, _: &str) -> Result<Self::Value, E> { Ok($out) }
    };
    (@ number $out:expr) => {
        fn visit_u64<E: Error>(self, _: u64) -> Result<Self::Value, E> { Ok($out) }
        fn visit_i64<E: Error>(self, _: i64) -> Result<Self::Value, E> { Ok($out) }
        fn visit_f64<E: Error>(self, _: f64) -> Result<Self::Value, E> { Ok($out) }
    };
    (@ flag $out:expr) => {
        fn visit_bool<E: Error>(self, _: bool) -> Result<Self::Value, E> { Ok($out) }
    };
    (@ map $out:expr) => {
        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok($out)
        }
    };
    (@ seq $out:expr) => {
        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            Ok($out)
        }
    };
    ($out:expr; $($shape:ident)*) => { $(passes!(@ $shape $out);)* };
}

/// A word, or something else that was there.
#[derive(Debug, Default)]
pub(super) struct Text<'a> {
    word: Option<Cow<'a, str>>,
    /// Something other than null was there.
    pub(super) there: bool,
}

impl<'a> Text<'a> {
    pub(super) fn get(&self) -> Option<&str> {
        self.word.as_deref()
    }

    /// The word, where there is one with anything in it.
    pub(super) fn some(&self) -> Option<&str> {
        self.get().filter(|w| !w.is_empty())
    }

    pub(super) fn is(&self, word: &str) -> bool {
        self.get() == Some(word)
    }

    pub(super) fn owned(self) -> Option<String> {
        self.word.map(Cow::into_owned)
    }

    pub(super) fn cow(self) -> Option<Cow<'a, str>> {
        self.word
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Words;
        impl<'de> Visitor<'de> for Words {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text { word: Some(Cow::Borrowed(text)), there: true })
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text { word: Some(Cow::Owned(text.to_owned())), there: true })
            }

            fn visit_string<E: Error>(self, text: String) -> Result<Text<'de>, E> {
                Ok(Text { word: Some(Cow::Owned(text)), there: true })
            }

            fn visit_unit<E: Error>(self) -> Result<Text<'de>, E> {
                Ok(Text::default())
            }

            passes!(Text { word: None, there: true }; number flag map seq);
        }
        deserializer.deserialize_any(Words)
    }
}

/// What kind of value is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Shape {
    #[default]
    Nothing,
    Text,
    Number,
    Flag,
    Object,
    List,
}

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Shapes;
        impl<'de> Visitor<'de> for Shapes {
            type Value = Shape;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_unit<E: Error>(self) -> Result<Shape, E> {
                Ok(Shape::Nothing)
            }

            passes!(Shape::Text; text);
            passes!(Shape::Number; number);
            passes!(Shape::Flag; flag);
            passes!(Shape::Object; map);
            passes!(Shape::List; seq);
        }
        deserializer.deserialize_any(Shapes)
    }
}

/// A number that is not below 0.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Num(pub(super) Option<f64>);

impl Num {
    /// As a count: the whole number, where it is one.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
    pub(super) fn count(self) -> Option<u64> {
        self.0.filter(|n| n.fract() == 0.0 && *n < 9e15).map(|n| n as u64)
    }

    /// As the status of an HTTP reply.
    pub(super) fn status(self) -> Option<u16> {
        self.count().and_then(|n| u16::try_from(n).ok()).filter(|n| (100..1000).contains(n))
    }
}

impl<'de> Deserialize<'de> for Num {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Numbers;
        impl<'de> Visitor<'de> for Numbers {
            type Value = Num;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number")
            }

            fn visit_u64<E: Error>(self, n: u64) -> Result<Num, E> {
                Ok(Num(Some(n as f64)))
            }

            fn visit_i64<E: Error>(self, _: i64) -> Result<Num, E> {
                Ok(Num(None))
            }

            fn visit_f64<E: Error>(self, n: f64) -> Result<Num, E> {
                Ok(Num(Some(n).filter(|n| n.is_finite() && *n >= 0.0)))
            }

            fn visit_unit<E: Error>(self) -> Result<Num, E> {
                Ok(Num(None))
            }

            passes!(Num(None); text flag map seq);
        }
        deserializer.deserialize_any(Numbers)
    }
}

/// Yes or no; anything else is no.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flag(pub(super) bool);

impl<'de> Deserialize<'de> for Flag {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Flags;
        impl<'de> Visitor<'de> for Flags {
            type Value = Flag;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("yes or no")
            }

            fn visit_bool<E: Error>(self, is: bool) -> Result<Flag, E> {
                Ok(Flag(is))
            }

            fn visit_unit<E: Error>(self) -> Result<Flag, E> {
                Ok(Flag(false))
            }

            passes!(Flag(false); text number map seq);
        }
        deserializer.deserialize_any(Flags)
    }
}

/// An object.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opt<T>(pub(super) Option<T>);

impl<T> Default for Opt<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Opt<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Objects<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Objects<T> {
            type Value = Opt<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Opt<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(|value| Opt(Some(value)))
            }

            fn visit_unit<E: Error>(self) -> Result<Opt<T>, E> {
                Ok(Opt(None))
            }

            passes!(Opt(None); text number flag seq);
        }
        deserializer.deserialize_any(Objects(PhantomData))
    }
}

/// A list; elements keep their own looseness.
#[derive(Debug)]
pub(super) struct List<T>(pub(super) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Lists<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Lists<T> {
            type Value = List<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<List<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(one) = seq.next_element()? {
                    all.push(one);
                }
                Ok(List(all))
            }

            fn visit_unit<E: Error>(self) -> Result<List<T>, E> {
                Ok(List(Vec::new()))
            }

            passes!(List(Vec::new()); text number flag map);
        }
        deserializer.deserialize_any(Lists(PhantomData))
    }
}

/// A list, nothing, or something else that was there.
#[derive(Debug, Default)]
pub(super) enum Listed<T> {
    #[default]
    Nothing,
    List(Vec<T>),
    Other,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Listed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Lists<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Lists<T> {
            type Value = Listed<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Listed<T>, A::Error> {
                let mut all = Vec::new();
                while let Some(one) = seq.next_element()? {
                    all.push(one);
                }
                Ok(Listed::List(all))
            }

            fn visit_unit<E: Error>(self) -> Result<Listed<T>, E> {
                Ok(Listed::Nothing)
            }

            passes!(Listed::Other; text number flag map);
        }
        deserializer.deserialize_any(Lists(PhantomData))
    }
}

/// Keys and values of an object, in their order.
#[derive(Debug)]
pub(super) struct Values<'a, T>(pub(super) Option<Vec<(Text<'a>, T)>>);

impl<T> Default for Values<'_, T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<'de: 'a, 'a, T: Deserialize<'de>> Deserialize<'de> for Values<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Maps<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Maps<T> {
            type Value = Values<'de, T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    all.push(entry);
                }
                Ok(Values(Some(all)))
            }

            fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                Ok(Values(None))
            }

            passes!(Values(None); text number flag seq);
        }
        deserializer.deserialize_any(Maps(PhantomData))
    }
}

/// What a message says: a bare text, or blocks.
#[derive(Debug, Default)]
pub(super) enum Content<'a, B> {
    #[default]
    Nothing,
    Words(Cow<'a, str>),
    Blocks(Vec<Piece<'a, B>>),
}

/// A block, or a bare text in its place.
#[derive(Debug)]
pub(super) enum Piece<'a, B> {
    Nothing,
    Words(Cow<'a, str>),
    Block(B),
}

impl<'de: 'a, 'a, B: Deserialize<'de>> Deserialize<'de> for Content<'a, B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Contents<B>(PhantomData<B>);
        impl<'de, B: Deserialize<'de>> Visitor<'de> for Contents<B> {
            type Value = Content<'de, B>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text or blocks")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Content::Words(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Content::Words(Cow::Owned(text.to_owned())))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(piece) = seq.next_element::<Piece<'de, B>>()? {
                    if !matches!(piece, Piece::Nothing) {
                        all.push(piece);
                    }
                }
                Ok(Content::Blocks(all))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                let block = B::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Content::Blocks(vec![Piece::Block(block)]))
            }

            fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                Ok(Content::Nothing)
            }

            passes!(Content::Nothing; number flag);
        }
        deserializer.deserialize_any(Contents(PhantomData))
    }
}

impl<'de: 'a, 'a, B: Deserialize<'de>> Deserialize<'de> for Piece<'a, B> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pieces<B>(PhantomData<B>);
        impl<'de, B: Deserialize<'de>> Visitor<'de> for Pieces<B> {
            type Value = Piece<'de, B>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a block")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Piece::Words(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Piece::Words(Cow::Owned(text.to_owned())))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                B::deserialize(MapAccessDeserializer::new(map)).map(Piece::Block)
            }

            fn visit_unit<E: Error>(self) -> Result<Self::Value, E> {
                Ok(Piece::Nothing)
            }

            passes!(Piece::Nothing; number flag seq);
        }
        deserializer.deserialize_any(Pieces(PhantomData))
    }
}
