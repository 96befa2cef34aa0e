//! A value or a template that will become one.

use serde::de::{self, Deserializer, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// `T`, or a text with `{{ }}` that yields a `T` once parameters are known.
#[derive(Clone, Debug, PartialEq)]
pub enum Templated<T> {
    /// Written out.
    Value(T),
    /// The template's text.
    Template(String),
}

/// Whether `text` holds a template.
#[must_use]
pub fn is_template(text: &str) -> bool {
    text.contains("{{")
}

impl<T> Templated<T> {
    /// The value, if it is written out.
    pub fn value(&self) -> Option<&T> {
        match self {
            Self::Value(value) => Some(value),
            Self::Template(_) => None,
        }
    }
}

impl<T: Serialize> Serialize for Templated<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Value(value) => value.serialize(serializer),
            Self::Template(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de, T: de::DeserializeOwned> Deserialize<'de> for Templated<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Through a JSON value: the one format in which manifests reach this type.
        let value = serde_json::Value::deserialize(deserializer)?;
        if let serde_json::Value::String(text) = &value
            && is_template(text)
        {
            return Ok(Self::Template(text.clone()));
        }
        serde_json::from_value(value).map(Self::Value).map_err(de::Error::custom)
    }
}

impl<T: schemars::JsonSchema> schemars::JsonSchema for Templated<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("Templated_{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let inner = generator.subschema_for::<T>();
        schemars::json_schema!({
            "anyOf": [inner, { "type": "string", "pattern": "\\{\\{" }]
        })
    }
}

/// One text or a list of texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OneOrMany(pub Vec<String>);

impl<'de> Deserialize<'de> for OneOrMany {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct V;
        impl<'de> Visitor<'de> for V {
            type Value = OneOrMany;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("a text or a list of texts")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<OneOrMany, E> {
                Ok(OneOrMany(vec![text.to_owned()]))
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<OneOrMany, A::Error> {
                let mut out = Vec::new();
                while let Some(text) = seq.next_element()? {
                    out.push(text);
                }
                Ok(OneOrMany(out))
            }
        }
        deserializer.deserialize_any(V)
    }
}

impl schemars::JsonSchema for OneOrMany {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "OneOrMany".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }]
        })
    }
}
