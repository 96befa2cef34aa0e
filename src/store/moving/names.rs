//! Names of files in a remote and in an archive: these and no others.

use std::fmt;

use crate::digest::Digest;

/// Content of the file `format`.
pub(super) const FORMAT: &[u8] = b"proofline results 1\n";

/// A file of a remote or an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Name {
    /// `format`: the version of the layout.
    Format,
    /// `objects/ab/cdef...`: an object as a frame.
    Object(Digest),
    /// `records/KEY/RECORD.json`.
    Record(Digest, Digest),
    /// `records/KEY/RECORD.json.sig`.
    Signature(Digest, Digest),
}

impl Name {
    /// Reads a name; none for any text that [`fmt::Display`] would not write.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let name = match (parts.next()?, parts.next(), parts.next()) {
            ("format", None, None) => Self::Format,
            ("objects", Some(two), Some(rest)) if two.len() == 2 => {
                Self::Object(format!("{two}{rest}").parse().ok()?)
            }
            ("records", Some(key), Some(file)) => {
                let key = key.parse().ok()?;
                let (record, rest) = file.split_at_checked(64)?;
                let record = record.parse().ok()?;
                match rest {
                    ".json" => Self::Record(key, record),
                    ".json.sig" => Self::Signature(key, record),
                    _ => return None,
                }
            }
            _ => return None,
        };
        parts.next().is_none().then_some(name)
    }

    /// Whether a text is a folder that such names lie in.
    pub(super) fn is_folder(text: &str) -> bool {
        let text = text.strip_suffix('/').unwrap_or(text);
        match text.split_once('/') {
            None => text == "objects" || text == "records",
            Some(("objects", two)) => Self::parse(&format!("objects/{two}/{}", "0".repeat(62))).is_some(),
            Some(("records", key)) => key.parse::<Digest>().is_ok(),
            Some(_) => false,
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Format => f.write_str("format"),
            Self::Object(digest) => {
                let hex = digest.hex();
                write!(f, "objects/{}/{}", &hex[..2], &hex[2..])
            }
            Self::Record(key, record) => write!(f, "records/{key}/{record}.json"),
            Self::Signature(key, record) => write!(f, "records/{key}/{record}.json.sig"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_it_is_written_and_nothing_else_is() {
        let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
        for name in [Name::Format, Name::Object(a), Name::Record(a, b), Name::Signature(a, b)] {
            assert_eq!(Name::parse(&name.to_string()), Some(name));
            for bad in [
                format!("/{name}"),
                format!("./{name}"),
                format!("{name}/"),
                format!("{name}x"),
                format!("../{name}"),
                name.to_string().to_uppercase(),
                name.to_string().replacen('/', "//", 1),
                format!("{name}\0"),
            ] {
                if bad != name.to_string() {
                    assert_eq!(Name::parse(&bad), None, "{bad:?}");
                }
            }
        }
        assert!(
            Name::is_folder("objects/")
                && Name::is_folder("objects/ab/")
                && Name::is_folder(&format!("records/{a}"))
        );
        for bad in ["", "/", "objects/AB", "objects/a", "objects/ab/c", "records/x", "objects/..", "packs"] {
            assert!(!Name::is_folder(bad), "{bad}");
        }
    }
}
