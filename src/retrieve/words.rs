//! Words of questions and of code.

/// Words that say nothing about where code is: function words of English,
/// and what one asks about code with.
const STOP: &[&str] = &[
    "a",
    "about",
    "across",
    "after",
    "all",
    "also",
    "an",
    "and",
    "any",
    "anywhere",
    "are",
    "as",
    "at",
    "be",
    "been",
    "before",
    "being",
    "between",
    "both",
    "but",
    "by",
    "can",
    "case",
    "code",
    "codebase",
    "could",
    "define",
    "defined",
    "defines",
    "definition",
    "did",
    "do",
    "does",
    "doing",
    "done",
    "during",
    "each",
    "else",
    "ever",
    "every",
    "exactly",
    "explain",
    "file",
    "files",
    "find",
    "for",
    "from",
    "function",
    "functions",
    "get",
    "gets",
    "had",
    "happen",
    "happens",
    "has",
    "have",
    "how",
    "i",
    "if",
    "implement",
    "implementation",
    "implemented",
    "implements",
    "in",
    "inside",
    "into",
    "involved",
    "is",
    "it",
    "its",
    "live",
    "lives",
    "locate",
    "located",
    "logic",
    "look",
    "main",
    "many",
    "me",
    "method",
    "methods",
    "more",
    "most",
    "my",
    "need",
    "needs",
    "no",
    "not",
    "of",
    "off",
    "on",
    "one",
    "only",
    "or",
    "other",
    "our",
    "out",
    "over",
    "part",
    "parts",
    "place",
    "places",
    "project",
    "repo",
    "repository",
    "responsible",
    "same",
    "see",
    "should",
    "show",
    "so",
    "some",
    "source",
    "such",
    "take",
    "tell",
    "than",
    "that",
    "the",
    "their",
    "them",
    "then",
    "there",
    "these",
    "they",
    "thing",
    "this",
    "those",
    "through",
    "to",
    "under",
    "up",
    "upon",
    "us",
    "use",
    "used",
    "uses",
    "using",
    "via",
    "want",
    "was",
    "way",
    "we",
    "were",
    "what",
    "when",
    "where",
    "which",
    "while",
    "who",
    "whose",
    "why",
    "will",
    "with",
    "within",
    "without",
    "work",
    "works",
    "would",
    "you",
    "your",
];

/// Whether a lower-case word says nothing about where code is.
pub(super) fn is_stop(word: &str) -> bool {
    STOP.binary_search(&word).is_ok()
}

/// Most words of a question that are looked at; what is longer is no question.
const MOST_WORDS: usize = 256;

/// A word of a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// As it was written.
    pub(super) text: String,
    /// Whether it looks like a name in code rather than like English.
    pub(super) identifier: bool,
}

/// The words of a question that are worth looking for: names first, then
/// the others, each once, in the order of the question.
pub(super) fn question_words(question: &str) -> Vec<Word> {
    let mut out: Vec<Word> = Vec::new();
    let mut quoted = false;
    for (index, (start, end)) in spans(question).into_iter().take(MOST_WORDS).enumerate() {
        let between = |from: usize, to: usize| question.get(from..to).unwrap_or_default();
        let last = if index == 0 { 0 } else { spans_end(question, start) };
        if between(last, start).matches('`').count() % 2 == 1 {
            quoted = !quoted;
        }
        let text = between(start, end);
        let lower = text.to_lowercase();
        let after = &question[end..];
        let called = after.starts_with('(');
        let dotted = joined(question, start, end);
        let identifier = quoted || called || dotted || looks_like_name(text);
        if text.chars().all(char::is_numeric) || (!identifier && (is_stop(&lower) || lower.len() < 2)) {
            continue;
        }
        // A capital at the start of a sentence means nothing.
        let first = index == 0 && !identifier && !acronym(text);
        let text = if first { lower } else { text.to_owned() };
        match out.iter_mut().find(|w| w.text == text) {
            Some(known) => known.identifier |= identifier,
            None => out.push(Word { text, identifier }),
        }
    }
    out.sort_by_key(|w| !w.identifier);
    out
}

/// Byte ranges of the runs of letters, digits and underscores.
pub(super) fn spans(text: &str) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    each_span(text, |start, end| out.push((start, end)));
    out
}

/// [`spans`] one by one, without a list: this is where indexing spends its
/// time, hence the short way for ASCII.
pub(super) fn each_span(text: &str, mut each: impl FnMut(usize, usize)) {
    let bytes = text.as_bytes();
    let mut start = None;
    let mut at = 0;
    while let Some(byte) = bytes.get(at) {
        let (word, size) = if byte.is_ascii() {
            (*byte == b'_' || byte.is_ascii_alphanumeric(), 1)
        } else {
            let c = text[at..].chars().next().unwrap_or(' ');
            (c.is_alphanumeric(), c.len_utf8())
        };
        if word {
            start.get_or_insert(at);
        } else if let Some(from) = start.take() {
            each(from, at);
        }
        at += size;
    }
    if let Some(from) = start {
        each(from, text.len());
    }
}

/// Where the word before `at` ends.
fn spans_end(text: &str, at: usize) -> usize {
    let word = |c: char| c == '_' || c.is_alphanumeric();
    text[..at].rfind(word).map_or(0, |i| i + text[i..].chars().next().map_or(0, char::len_utf8))
}

/// Whether a word is part of `a.b`, `a::b` or `a/b` without blanks.
fn joined(text: &str, start: usize, end: usize) -> bool {
    let word = |c: Option<char>| c.is_some_and(|c| c == '_' || c.is_alphanumeric());
    let before = [".", "::", "/"]
        .iter()
        .any(|mark| text[..start].strip_suffix(mark).is_some_and(|rest| word(rest.chars().next_back())));
    let after = [".", "::", "/"]
        .iter()
        .any(|mark| text[end..].strip_prefix(mark).is_some_and(|rest| word(rest.chars().next())));
    // `and/or`, `e.g.`: too short for names.
    (before || after) && end - start > 2
}

fn acronym(text: &str) -> bool {
    text.chars().count() > 1 && text.chars().all(|c| c.is_uppercase() || c.is_numeric())
}

/// `snake_case`, `camelCase`, `PascalCase` of two parts, or letters with
/// digits.
fn looks_like_name(text: &str) -> bool {
    let bump = text.chars().zip(text.chars().skip(1)).any(|(a, b)| a.is_lowercase() && b.is_uppercase());
    let digits = text.chars().any(char::is_numeric) && text.chars().any(char::is_alphabetic);
    bump || digits || (text.contains('_') && text.chars().any(char::is_alphanumeric))
}

/// The parts of an identifier, as byte ranges: at underscores, before a
/// capital that follows a small letter or precedes one, and around digits.
pub(super) fn parts(name: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut start = 0;
    let chars: Vec<(usize, char)> = name.char_indices().collect();
    for (i, (at, c)) in chars.iter().enumerate() {
        let before = i.checked_sub(1).map(|j| chars[j].1);
        let after = chars.get(i + 1).map(|(_, c)| *c);
        let cut = match before {
            None => false,
            Some(b) => {
                *c == '_'
                    || b == '_'
                    || c.is_numeric() != b.is_numeric()
                    || (c.is_uppercase() && (b.is_lowercase() || after.is_some_and(char::is_lowercase)))
            }
        };
        if cut {
            out.push(&name[start..*at]);
            start = *at;
        }
    }
    out.push(&name[start..]);
    out.retain(|p| !p.is_empty() && !p.starts_with('_'));
    out
}

/// Endings that are cut from words, longest first where one ends another.
const ENDINGS: &[&str] =
    &["ation", "ating", "ator", "ated", "ate", "ion", "ing", "er", "ed", "ies", "ie", "y", "e"];

/// The stem of a lower-case word: plural and one of the common endings cut,
/// so that `routes`, `routing` and `route` are one. Cruder than an English
/// stemmer, and harmless to names.
pub(super) fn stem(word: &str) -> &str {
    if !word.is_ascii() || word.len() < 4 {
        return word;
    }
    let mut word = word;
    if word.ends_with('s') && !word.ends_with("ss") && !word.ends_with("us") && !word.ends_with("is") {
        word = &word[..word.len() - 1];
    }
    for ending in ENDINGS {
        if let Some(rest) = word.strip_suffix(ending) {
            let least = if ending.len() == 1 { 3 } else { 4 };
            if rest.len() >= least {
                // `running`, `setter`: the doubled letter goes with the ending.
                let bytes = rest.as_bytes();
                let n = bytes.len();
                let doubled = matches!(*ending, "ing" | "er" | "ed")
                    && bytes[n - 1] == bytes[n - 2]
                    && !matches!(bytes[n - 1], b's' | b'l');
                return if doubled { &rest[..n - 1] } else { rest };
            }
        }
    }
    word
}

/// Terms of one identifier: the whole in lower case when it has several
/// parts, and the stem of each part of two letters or more.
pub(super) fn terms_of(name: &str, mut each: impl FnMut(&str)) {
    let pieces = parts(name);
    if pieces.len() > 1 {
        let lower = name.to_lowercase();
        let whole = lower.trim_matches('_');
        if whole.chars().any(char::is_alphabetic) {
            each(whole);
        }
    }
    for piece in pieces {
        let lower = piece.to_lowercase();
        if lower.len() > 1 && lower.chars().any(char::is_alphabetic) {
            each(stem(&lower));
        }
    }
}

/// What a file is for, by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The program itself.
    Code,
    /// Tests of it.
    Test,
    /// Words about it, and programs that are only shown.
    Docs,
    /// Neither program nor words: settings, data, generated lists.
    Data,
}

/// The role of a path: folders and names as projects commonly have them.
pub(super) fn role(path: &str) -> Role {
    let lower = path.to_lowercase();
    let (folders, name) = lower.rsplit_once('/').unwrap_or(("", &lower));
    let (stem, suffix) = name.rsplit_once('.').unwrap_or((name, ""));
    let mut folders = folders.split('/');
    let test_name = stem.starts_with("test_")
        || stem == "conftest"
        || [".test", ".spec", "_test", "_spec"].iter().any(|end| stem.ends_with(end));
    let mut test_folder = false;
    let mut docs_folder = false;
    for folder in folders.by_ref() {
        test_folder |= matches!(folder, "test" | "tests" | "testing_data" | "spec" | "specs" | "__tests__");
        docs_folder |= folder.starts_with("doc") && folder.len() < 10;
        docs_folder |= matches!(folder, "example" | "examples" | "samples" | "tutorial" | "tutorials");
    }
    if test_name || test_folder {
        return Role::Test;
    }
    match suffix {
        "md" | "rst" | "txt" | "adoc" | "html" | "htm" => Role::Docs,
        "json" | "yml" | "yaml" | "toml" | "cfg" | "ini" | "lock" | "csv" | "svg" | "xml" | "po" | "css"
        | "scss" | "map" | "" => Role::Data,
        _ if docs_folder => Role::Docs,
        _ => Role::Code,
    }
}

/// Whether a question asks for tests, documents or settings, so that they
/// aren't set back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Interest {
    tests: bool,
    docs: bool,
    data: bool,
}

impl Interest {
    /// Reads it off a question's words.
    pub(super) fn of(question: &str) -> Self {
        let mut out = Self::default();
        for (start, end) in spans(question) {
            match question[start..end].to_lowercase().as_str() {
                "test" | "tests" | "tested" | "testing" | "covered" | "coverage" | "verify" | "verified" => {
                    out.tests = true;
                }
                "docs" | "documentation" | "documented" | "readme" | "changelog" | "example" | "examples"
                | "tutorial" => out.docs = true,
                "config" | "configuration" | "settings" | "json" | "yaml" | "toml" | "dependency"
                | "dependencies" | "css" => out.data = true,
                _ => {}
            }
        }
        out
    }

    /// What a file's score is multiplied by.
    pub(super) fn weight(self, role: Role) -> f64 {
        match role {
            Role::Code => 1.0,
            Role::Test => {
                if self.tests {
                    1.0
                } else {
                    0.6
                }
            }
            Role::Docs => {
                if self.docs {
                    1.0
                } else {
                    0.6
                }
            }
            Role::Data => {
                if self.data {
                    0.9
                } else {
                    0.5
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_words_are_sorted_for_the_search() {
        assert!(STOP.is_sorted());
    }

    #[test]
    fn names_come_first() {
        let words = |q: &str| -> Vec<(String, bool)> {
            question_words(q).into_iter().map(|w| (w.text, w.identifier)).collect()
        };
        let word = |t: &str, i: bool| (t.to_owned(), i);
        assert_eq!(
            words("Routing: who calls render_template and `url` in app.py, or FlaskClient?"),
            [
                word("render_template", true),
                word("url", true),
                word("app", true),
                word("FlaskClient", true),
                word("routing", false),
                word("calls", false),
                word("py", false),
            ]
        );
        assert_eq!(words("What does it do?"), []);
        assert_eq!(
            words("URL parsing with get()"),
            [word("get", true), word("URL", false), word("parsing", false)]
        );
    }

    #[test]
    fn identifiers_fall_into_parts() {
        assert_eq!(parts("HTTPServerError_v2x"), ["HTTP", "Server", "Error", "v", "2", "x"]);
        assert_eq!(parts("__init__"), ["init"]);
        assert_eq!(parts("größeÄndern"), ["größe", "Ändern"]);
        let mut terms = Vec::new();
        terms_of("renderTemplates", |t| terms.push(t.to_owned()));
        assert_eq!(terms, ["rendertemplates", "rend", "templ"]);
    }

    #[test]
    fn stems_join_what_belongs_together() {
        for group in [
            &["route", "routes", "routing", "routed"][..],
            &["validate", "validation", "validator", "validating"],
            &["handle", "handler", "handlers", "handling"],
            &["query", "queries"],
            &["set", "sets"],
        ] {
            let stems: Vec<_> = group.iter().map(|w| stem(w)).collect();
            assert!(stems.iter().all(|s| *s == stems[0]), "{group:?} {stems:?}");
        }
        assert_ne!(stem("class"), stem("clas"));
        assert_eq!(stem("über"), "über");
    }

    #[test]
    fn roles_follow_common_habits() {
        assert_eq!(role("src/app.py"), Role::Code);
        assert_eq!(role("tests/app.py"), Role::Test);
        assert_eq!(role("pkg/store_test.go"), Role::Test);
        assert_eq!(role("docs_src/a.py"), Role::Docs);
        assert_eq!(role("README.md"), Role::Docs);
        assert_eq!(role("package.json"), Role::Data);
        assert!(Interest::of("which tests cover it?").weight(Role::Test) > 0.9);
        assert!(Interest::of("where is it?").weight(Role::Test) < 0.9);
    }
}
