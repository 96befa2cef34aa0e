//! Whether a key of `trust.toml` stands there once.

use std::collections::BTreeMap;

use super::path::KeyPath;
use super::source::Document;
use super::trust::Trust;
use crate::diag::Diagnostic;

/// Two names for one key: taking one away would not end the trust.
pub(super) fn check(trust: &Trust, document: &Document) -> Vec<Diagnostic> {
    let place = |name: &str| document.value_place(&KeyPath::of(&["signer", name, "key"]));
    let (mut first, mut found) = (BTreeMap::new(), Vec::new());
    for (name, signer) in &trust.signer {
        if let Some(other) = first.insert(&signer.key, name) {
            let message = format!("signers `{other}` and `{name}` have the same key");
            found.push(
                Diagnostic::error("duplicate-signer", message)
                    .at(place(name), "given again here")
                    .at(place(other), "first given here")
                    .help("keep one of them: else removing one name would leave the key trusted"),
            );
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::manifest::load;

    const KEY: &str = "ed25519:iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=";

    #[test]
    fn mistakes_have_a_place_and_a_way_out() {
        let good =
            format!("format = 1\n\n[signer.alice]\nkey = \"{KEY}\"\nsince = 2026-06-01\nabout = \"us\"\n");
        let loaded = load::trust("trust.toml", good.as_bytes());
        assert!(loaded.diagnostics.is_empty(), "{:?}", loaded.diagnostics);
        assert_eq!(loaded.value.unwrap().signer["alice"].key, KEY);
        for (text, code, line) in [
            (format!("{good}[signer.bob]\nkey = \"{KEY}\"\n"), "duplicate-signer", 8),
            (good.replace("1w=", "1x="), "bad-format", 4),
            (good.replace("about", "abuot"), "unknown-key", 6),
            (good.replace("key =", "kee ="), "unknown-key", 4),
        ] {
            let found = load::trust("trust.toml", text.as_bytes()).diagnostics;
            let one = found.iter().find(|d| d.code == code).unwrap_or_else(|| panic!("{code}: {found:?}"));
            assert_eq!(one.place().map(|p| p.line), Some(line), "{one:?}");
            assert!(one.help.is_some(), "{one:?}");
        }
    }
}
