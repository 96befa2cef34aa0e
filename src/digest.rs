//! BLAKE3 digests, canonical JSON, and domain tags.
//!
//! Content is identified by the plain BLAKE3 hash of its bytes, so any
//! outside tool can check an object. Everything that is *derived* (keys,
//! trees) is hashed under a domain tag, so that no file can be mistaken for
//! a recipe.

use std::fmt::{self, Write as _};
use std::str::FromStr;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// Domain of the keys of nodes: the hash of a recipe's canonical JSON under it.
pub const NODE: &str = "proofline node 1";

/// A 256-bit BLAKE3 digest; shown and stored as 64 lower-case hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// A text that is no digest.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a digest of 64 hex digits")]
pub struct NotADigest(String);

/// A value that canonical JSON cannot hold.
#[derive(Debug, thiserror::Error)]
pub enum CanonicalError {
    /// An integer that a double cannot hold exactly; such numbers are written as strings.
    #[error("integer {0} is beyond 2^53 and must be written as a string in a recipe")]
    BigInteger(String),
    /// NaN or an infinity.
    #[error("canonical json: {0}")]
    Json(#[from] serde_json::Error),
}

impl Digest {
    /// The digest of `bytes` as content.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }

    /// The digest of `bytes` under a domain tag, for everything that is not plain content.
    #[must_use]
    pub fn tagged(domain: &str, bytes: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(domain.as_bytes());
        hasher.update(b"\n");
        hasher.update(bytes);
        Self(*hasher.finalize().as_bytes())
    }

    /// The digest of the canonical form of `value` under a domain tag.
    ///
    /// # Errors
    /// When the value holds a number that canonical JSON would round.
    pub fn of_json(domain: &str, value: &Value) -> Result<Self, CanonicalError> {
        Ok(Self::tagged(domain, canonical(value)?.as_bytes()))
    }

    /// The 32 bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The digest with these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// 64 hex digits.
    #[must_use]
    pub fn hex(&self) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
        let mut out = String::with_capacity(64);
        for byte in self.0 {
            out.push(digit(byte >> 4));
            out.push(digit(byte & 15));
        }
        out
    }

    /// The first 12 hex digits, for people.
    #[must_use]
    pub fn short(&self) -> String {
        self.hex()[..12].to_owned()
    }
}

/// Hashes content that arrives in pieces.
#[derive(Default)]
pub struct ContentHasher(blake3::Hasher);

impl ContentHasher {
    /// Takes the next piece.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all pieces so far.
    #[must_use]
    pub fn finish(&self) -> Digest {
        Digest(*self.0.finalize().as_bytes())
    }
}

/// Canonical JSON after RFC 8785: sorted keys, shortest numbers, no blanks.
///
/// # Errors
/// Integers beyond 2^53 are refused: RFC 8785 rounds them, and two different
/// recipes would get one key.
pub fn canonical(value: &Value) -> Result<String, CanonicalError> {
    let mut out = String::with_capacity(512);
    write_canonical(value, &mut out)?;
    Ok(out)
}

fn write_canonical(value: &Value, out: &mut String) -> Result<(), CanonicalError> {
    const LIMIT: u64 = 1 << 53;
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::String(text) => write_text(text, out),
        Value::Number(number) => match number.as_i64().map(i64::unsigned_abs).or(number.as_u64()) {
            Some(size) if size > LIMIT => return Err(CanonicalError::BigInteger(number.to_string())),
            Some(_) => out.push_str(&number.to_string()),
            // The shortest spelling of a double is a craft of its own.
            None => out.push_str(&serde_json_canonicalizer::to_string(value)?),
        },
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_canonical(item, out)?;
            }
            out.push(']');
        }
        Value::Object(map) => {
            let mut entries: Vec<(&String, &Value)> = map.iter().collect();
            // By UTF-16 units, as the standard has it; of ASCII that is the order of bytes.
            if entries.iter().all(|(key, _)| key.is_ascii()) {
                entries.sort_unstable_by_key(|(key, _)| *key);
            } else {
                entries.sort_unstable_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            }
            out.push('{');
            for (at, (key, item)) in entries.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_text(key, out);
                out.push(':');
                write_canonical(item, out)?;
            }
            out.push('}');
        }
    }
    Ok(())
}

fn write_text(text: &str, out: &mut String) {
    out.push('"');
    let mut rest = text;
    while let Some(at) = rest.bytes().position(|b| b < 0x20 || b == b'"' || b == b'\\') {
        out.push_str(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x08 => out.push_str("\\b"),
            b'\t' => out.push_str("\\t"),
            b'\n' => out.push_str("\\n"),
            0x0c => out.push_str("\\f"),
            b'\r' => out.push_str("\\r"),
            byte => {
                let _ = write!(out, "\\u{byte:04x}");
            }
        }
        rest = &rest[at + 1..];
    }
    out.push_str(rest);
    out.push('"');
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.hex())
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Digest({})", self.short())
    }
}

impl FromStr for Digest {
    type Err = NotADigest;

    fn from_str(text: &str) -> Result<Self, NotADigest> {
        let bytes = text.as_bytes();
        if bytes.len() != 64 {
            return Err(NotADigest(text.to_owned()));
        }
        let mut out = [0u8; 32];
        for (slot, pair) in out.iter_mut().zip(bytes.chunks_exact(2)) {
            let digit = |b: u8| (b as char).to_digit(16).filter(|_| !b.is_ascii_uppercase());
            match (digit(pair[0]), digit(pair[1])) {
                (Some(high), Some(low)) => *slot = u8::try_from(high * 16 + low).unwrap_or(0),
                _ => return Err(NotADigest(text.to_owned())),
            }
        }
        Ok(Self(out))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.hex())
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(HexDigits)
    }
}

/// Reads a digest from text without a copy of it.
struct HexDigits;

impl Visitor<'_> for HexDigits {
    type Value = Digest;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("64 hex digits")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Digest, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn key_order_and_number_spelling_do_not_matter() {
        let a = json!({"b": 1, "a": [1.0, "x"]});
        let b: Value = serde_json::from_str(r#"{"a":[1e0,"x"],"b":1}"#).unwrap();
        assert_eq!(canonical(&a).unwrap(), r#"{"a":[1,"x"],"b":1}"#);
        assert_eq!(Digest::of_json("t", &a).unwrap(), Digest::of_json("t", &b).unwrap());
    }

    #[test]
    fn the_form_is_that_of_the_standard() {
        let all: String = (0u32..0x300).chain([0x2028, 0xfb33, 0x1f600]).filter_map(char::from_u32).collect();
        let value = json!({
            "numbers": [0, -0.0, 1, -1, 1.5, 1e21, 1e-7, 333_333_333.333_333_3, 9_007_199_254_740_992_u64, -9_007_199_254_740_992_i64],
            "\u{fb33}": 1, "\u{1f600}": 2, "\u{20ac}": 3, "\r": 4, "1": 5, "\u{80}": 6, "\u{f6}": 7,
            "text": all, "": { "b": [], "a": {} }, "nothing": null, "flags": [true, false],
        });
        assert_eq!(canonical(&value).unwrap(), serde_json_canonicalizer::to_string(&value).unwrap());
    }

    proptest::proptest! {
        #[test]
        fn any_text_and_number_has_the_form_of_the_standard(
            text in ".*", key in "\\PC*", int in -(1i64 << 53)..=(1i64 << 53), double in proptest::num::f64::NORMAL
        ) {
            let value = json!({ "text": text, "list": [int, double, { key: text }] });
            proptest::prop_assert_eq!(
                canonical(&value).unwrap(),
                serde_json_canonicalizer::to_string(&value).unwrap()
            );
        }
    }

    #[test]
    fn big_integers_are_refused_at_any_depth() {
        let value = json!({"a": [{"n": 9_007_199_254_740_993_u64}]});
        assert!(matches!(canonical(&value), Err(CanonicalError::BigInteger(_))));
        assert!(canonical(&json!({"n": 9_007_199_254_740_992_u64})).is_ok());
    }

    #[test]
    fn a_domain_separates_equal_bytes() {
        assert_ne!(Digest::tagged("a", b"x"), Digest::tagged("b", b"x"));
        assert_ne!(Digest::tagged("a", b"x"), Digest::of(b"x"));
    }

    #[test]
    fn hex_round_trips_and_rejects_others() {
        // Published BLAKE3 test vector: the hash of the empty input.
        let empty = Digest::of(b"");
        assert_eq!(empty.hex(), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
        assert_eq!(empty.hex().parse::<Digest>().unwrap(), empty);
        assert!("AF".repeat(32).parse::<Digest>().is_err());
        assert!("é".repeat(32).parse::<Digest>().is_err());
    }
}
