//! When a returned path or symbol is an expected one.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::manifest::pipeline::Profile;

/// A path with `/` between its parts and without `.` parts.
///
/// Profile `rag-bench` lower-cases it as well and keeps an empty part for a
/// leading `//`; its `file:///x` becomes `file:/x`, as in the reference.
pub fn normal_path(path: &str, profile: Profile) -> String {
    let slashed = path.replace('\\', "/");
    let parts: Vec<&str> = slashed.split('/').filter(|p| !p.is_empty() && *p != ".").collect();
    match profile {
        Profile::RagBench => parts.join("/").to_lowercase(),
        // The leading slash is kept: an absolute path is no corpus path.
        Profile::Default | Profile::Sense if slashed.starts_with('/') => format!("/{}", parts.join("/")),
        Profile::Default | Profile::Sense => parts.join("/"),
    }
}

/// Does a returned path name the expected file? Both normalised.
///
/// It must be equal, or end with `/` and the expected path: servers put their
/// own root in front. One direction only: a bare `app.py` is not
/// `src/flask/app.py`. Case counts in the default profile, because two files
/// of a corpus may differ by it alone, and an expected file in the corpus's
/// root must be equal there: else every `index.js` would be the root's.
pub fn path_matches(returned: &str, expected: &str, profile: Profile) -> bool {
    if returned.is_empty() || expected.is_empty() {
        return false;
    }
    let suffix = || {
        returned
            .strip_suffix(expected)
            .is_some_and(|front| front.ends_with('/') && !expected.starts_with('/'))
    };
    match profile {
        Profile::RagBench => returned == expected || suffix(),
        Profile::Default | Profile::Sense => returned == expected || (expected.contains('/') && suffix()),
    }
}

/// Does a returned symbol name the expected one?
///
/// Default profile: they are equal, or the last segment of the returned
/// symbol's path (`Flask.url_for`, `Router::route`, `impl/Foo#bar`) is equal to
/// the expected symbol, or to its last segment where the expected symbol is
/// itself a path that the returned one ends with. A list of arguments and
/// surrounding spaces are not part of it.
///
/// Profile `rag-bench`: the set of word pieces of the expected symbol is not
/// empty and a subset of the returned one's.
pub fn symbol_matches(returned: &str, expected: &str, profile: Profile) -> bool {
    match profile {
        Profile::RagBench => {
            let wanted = pieces(expected);
            !wanted.is_empty() && wanted.is_subset(&pieces(returned))
        }
        Profile::Default | Profile::Sense => {
            let returned = segments(returned);
            let expected = segments(expected);
            !expected.is_empty() && returned.ends_with(&expected)
        }
    }
}

/// `a.b`, `a::b`, `a/b`, `a#b` as their segments, without arguments.
fn segments(symbol: &str) -> Vec<&str> {
    let name = symbol.split('(').next().unwrap_or_default().trim();
    name.split(['.', ':', '/', '#']).filter(|s| !s.is_empty()).collect()
}

static SPLIT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"[._\-/\s:]+").ok());
// `[A-Z]+` before a capitalised word would need look-ahead; the pieces are cut by hand below.
fn pieces(symbol: &str) -> BTreeSet<String> {
    let Some(split) = SPLIT.as_ref() else { return BTreeSet::new() };
    split.split(symbol).flat_map(words).collect()
}

/// `[A-Z]+(?=[A-Z][a-z]) | [A-Z]?[a-z]+ | [A-Z]+ | [0-9]+`, leftmost first, lower-cased.
fn words(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let run = |from: usize, test: fn(&u8) -> bool| bytes[from..].iter().take_while(|b| test(b)).count();
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let upper = run(at, u8::is_ascii_uppercase);
        let len = if upper > 0 {
            let lower_follows = bytes.get(at + upper).is_some_and(u8::is_ascii_lowercase);
            match (lower_follows, upper) {
                // `Word`: one capital and what follows.
                (true, 1) => 1 + run(at + 1, u8::is_ascii_lowercase),
                // `HTTPServer`: the last capital belongs to the next word.
                (true, _) => upper - 1,
                (false, _) => upper,
            }
        } else {
            run(at, u8::is_ascii_lowercase).max(run(at, u8::is_ascii_digit))
        };
        if len > 0 {
            out.push(String::from_utf8_lossy(&bytes[at..at + len]).to_ascii_lowercase());
        }
        at += len.max(1);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(profile: Profile, returned: &str, expected: &str) -> bool {
        path_matches(&normal_path(returned, profile), &normal_path(expected, profile), profile)
    }

    #[test]
    fn paths_of_the_reference() {
        let rag = |r, e| path(Profile::RagBench, r, e);
        assert!(rag("/abs/src/flask/app.py", "src/flask/app.py"));
        assert!(rag(r"C:\r\src\flask\app.py", "src/flask/app.py"));
        assert!(rag("./SRC/Flask/App.py", "src/flask/app.py"));
        assert!(!rag("app.py", "src/flask/app.py"));
        assert!(!rag("src/flask/app.py:10", "src/flask/app.py"));
        assert!(rag("examples/mvc/index.js", "index.js"));
        assert!(!rag("", "index.js") && !rag("index.js", ""));
        assert!(!rag("myindex.js", "index.js"));
        assert_eq!(normal_path("file:///r/x", Profile::RagBench), "file:/r/x");
    }

    #[test]
    fn paths_of_the_default() {
        let ours = |r, e| path(Profile::Default, r, e);
        assert!(ours("./src//flask/app.py", "src/flask/app.py"));
        assert!(ours("/abs/src/flask/app.py", "src/flask/app.py"));
        assert!(ours(r"C:\r\src\flask\app.py", "src/flask/app.py"));
        assert!(!ours("SRC/flask/app.py", "src/flask/app.py"));
        assert!(!ours("examples/mvc/index.js", "index.js"));
        assert!(ours("./index.js", "index.js"));
        assert!(!ours("xsrc/flask/app.py", "src/flask/app.py"));
        assert!(!ours(".", "a/b") && !ours("", ""));
    }

    #[test]
    fn symbols_of_the_reference() {
        let rag = |r, e| symbol_matches(r, e, Profile::RagBench);
        assert_eq!(
            pieces("OAuth2PasswordBearer").into_iter().collect::<Vec<_>>().join(" "),
            "2 auth bearer o password"
        );
        assert_eq!(pieces("__call__").into_iter().collect::<Vec<_>>(), ["call"]);
        assert_eq!(pieces("Ünïcode").into_iter().collect::<Vec<_>>(), ["code", "n"]);
        assert_eq!(pieces("HTTPServer2x").into_iter().collect::<Vec<_>>(), ["2", "http", "server", "x"]);
        for (r, e) in [
            ("getUser", "get"),
            ("FlaskClient", "Flask"),
            ("call_tool", "__call__"),
            ("res.sendFile", "send"),
            ("render_template_string", "render_template"),
        ] {
            assert!(rag(r, e), "{r} {e}");
        }
        assert!(!rag("target", "get"));
        assert!(!rag("anything", "___"));
    }

    #[test]
    fn symbols_of_the_default() {
        let ours = |r, e| symbol_matches(r, e, Profile::Default);
        for (r, e) in [
            ("Flask", "Flask"),
            ("app.Flask", "Flask"),
            ("a::b::Router", "Router"),
            ("Flask.run()", "run"),
            ("Foo#bar", "bar"),
            ("pkg.Flask.run", "Flask.run"),
            ("__call__", "__call__"),
            ("run(self, host)", "run"),
        ] {
            assert!(ours(r, e), "{r} {e}");
        }
        for (r, e) in [
            ("FlaskClient", "Flask"),
            ("flask", "Flask"),
            ("Flask.run", "Flask"),
            ("", "Flask"),
            ("x", ""),
            ("run", "Flask.run"),
        ] {
            assert!(!ours(r, e), "{r} {e}");
        }
    }
}
