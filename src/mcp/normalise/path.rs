//! What is a path, and which file of the corpus it means.

use std::sync::LazyLock;

use regex::Regex;

use super::{MAX_SYMBOL, Rules, bounded};
use crate::manifest::server::Lines;

/// Longest path.
const MAX_PATH: usize = 1_024;

/// Endings by which a name without a folder is recognised as a file.
const ENDINGS: &str = " adoc asm astro awk bash bat bzl c cc cfg cjs clj cljs cmake cmd conf cpp cr cs csproj \
    css csv cts cu cue cxx d dart diff dockerfile eex el elm env erb erl ex exs f90 fish fs fsx gd go gql \
    gradle graphql groovy h haml hbs hcl hh hpp hrl hs htm html hxx inc ini ipynb java jl js json json5 \
    jsonc jsx jinja kt kts less lisp lock log lua m make markdown md mdx mjs mk ml mli mm mod mts nim nix \
    patch php pl pm po proto ps1 pug pxd py pyi pyx r rake rb rs rst s sass scala scm scss sh sln sol sql \
    sum svelte swift tcl tex tf thrift toml ts tsx txt v vb vim vue wat xml xsd yaml yml zig zsh ";

/// Files that have no ending.
const BARE: &str = " makefile dockerfile license licence copying readme rakefile gemfile procfile authors \
    changelog changes contributing notice vagrantfile jenkinsfile justfile brewfile build workspace codeowners \
    cmakelists .gitignore .gitattributes .editorconfig .dockerignore .env .npmrc .eslintrc .prettierrc ";

/// How surely a text is a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sure {
    /// It is none.
    No,
    /// It could be one: a folder, a module name.
    Maybe,
    /// It is one.
    Yes,
}

/// A path with what was attached to it. The line is as the server numbers it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) file: String,
    pub(super) line: Option<u64>,
    pub(super) symbol: Option<String>,
}

fn lazy(pattern: &str) -> Option<Regex> {
    Regex::new(pattern).ok()
}

/// `:10`, `:10:5`, `:10-20`, `#L10-L20`, ` (line 10)`, `, lines 10-20`, `@10` at the end.
static SUFFIX: LazyLock<Option<Regex>> = LazyLock::new(|| {
    lazy(
        r"(?i)(?:[:@]L?|#L?|\s*[(\[,]?\s*(?:at\s+)?(?:lines?|ln)[\s.:#]+|\s+[(\[]?L)(\d{1,9})(?:[:.,]\d{1,9})?(?:\s*(?:-|–|\.\.|to|:)\s*L?\d{1,9}(?::\d{1,9})?)?\s*[)\]]?$",
    )
});

impl Rules<'_> {
    /// How surely is this a path? Blanks are allowed only where a folder and an ending show what it is.
    pub(super) fn sure(&self, text: &str) -> Sure {
        if text.is_empty() || text.len() > MAX_PATH || text.contains(|c: char| c.is_control()) {
            return Sure::No;
        }
        if text.contains(['<', '>', '|', '*', '?', '"', '`', '{', '}', ';', '=']) || text.contains("://") {
            return Sure::No;
        }
        if text.starts_with(['-', ',', ':', ')', ']']) || text.ends_with(['/', '\\', ',', ':', '(', ' ']) {
            return Sure::No;
        }
        let colon = text.find(':');
        if colon.is_some() && !(has_drive(text) && text[2..].find(':').is_none()) {
            return Sure::No;
        }
        if self.known.is_some() && self.relative(text).is_some_and(|file| self.knows(&file)) {
            return Sure::Yes;
        }
        let folder = text.contains(['/', '\\']);
        let name = text.rsplit(['/', '\\']).next().unwrap_or_default();
        if name.is_empty() || name == "." || name == ".." {
            return Sure::No;
        }
        let lower = format!(" {} ", name.to_lowercase());
        let blank = text.contains(char::is_whitespace);
        // A sentence has blanks before its first slash, a path behind it.
        let first = text.split(['/', '\\']).next().unwrap_or_default();
        if first.contains(char::is_whitespace) || !balanced(text) {
            return Sure::No;
        }
        if blank && (!folder || text.contains("  ") || text.contains(" - ") || text.contains(", ")) {
            return Sure::No;
        }
        if BARE.contains(&lower) {
            return if folder { Sure::Yes } else { Sure::Maybe };
        }
        let Some((stem, ending)) = name.rsplit_once('.') else {
            return if blank { Sure::No } else { Sure::Maybe };
        };
        let shaped = (1..=10).contains(&ending.len())
            && ending.chars().all(|c| c.is_ascii_alphanumeric())
            && ending.chars().any(|c| c.is_ascii_alphabetic());
        if !shaped {
            return if blank { Sure::No } else { Sure::Maybe };
        }
        let usual = ENDINGS.contains(&format!(" {} ", ending.to_lowercase()));
        match (folder, usual) {
            (true, true) => Sure::Yes,
            // `a/b.xyz` with an unheard-of ending; sentences don't look so.
            (true, false) if !blank && (!stem.is_empty() || text.len() > 3) => Sure::Yes,
            (false, true) if !stem.is_empty() || self.known.is_none() => Sure::Yes,
            _ if blank => Sure::No,
            _ => Sure::Maybe,
        }
    }

    /// Does the corpus hold this file?
    pub(super) fn knows(&self, file: &str) -> bool {
        self.known.is_some_and(|known| known(file))
    }

    /// The corpus-relative spelling of a path; a path outside stays as it was.
    /// None for the corpus root itself.
    pub(super) fn relative(&self, path: &str) -> Option<String> {
        let path = path.trim();
        let slashed = if path.contains('\\') && (has_drive(path) || !path.contains('/')) {
            path.replace('\\', "/")
        } else {
            path.to_owned()
        };
        let clean = collapse(&slashed);
        for root in &self.roots {
            let root = collapse(&root.replace('\\', "/"));
            let root = root.trim_end_matches('/');
            if root.is_empty() {
                continue;
            }
            if let Some(rest) = strip_root(&clean, root) {
                let rest = rest.trim_start_matches('/');
                return (!rest.is_empty()).then(|| rest.to_owned());
            }
        }
        if clean.is_empty() || clean == "." {
            return None;
        }
        if self.known.is_some() && !self.knows(&clean) {
            // `project/src/a.py` of a server that looks from one folder above.
            for root in &self.roots {
                let name = root.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next().unwrap_or_default();
                let inner = clean.strip_prefix(name).and_then(|rest| rest.strip_prefix('/'));
                if let Some(inner) = inner.filter(|inner| !name.is_empty() && self.knows(inner)) {
                    return Some(inner.to_owned());
                }
            }
            // `@src/a.py:37`: a mark in front, unless a folder is called so.
            if let Some(inner) = clean.strip_prefix('@').filter(|inner| self.knows(inner)) {
                return Some(inner.to_owned());
            }
            // A drive letter says nothing here; what follows may.
            if has_drive(&clean) {
                let mut rest = clean.as_str();
                while let Some((_, after)) = rest.split_once('/') {
                    if self.knows(after) {
                        return Some(after.to_owned());
                    }
                    rest = after;
                }
            }
        }
        Some(clean)
    }

    /// The line as 1-based.
    pub(super) fn line(&self, line: u64) -> Option<u64> {
        match self.lines {
            Lines::ZeroBased => line.checked_add(1),
            Lines::OneBased => (line > 0).then_some(line),
        }
    }

    /// Reads `path`, `path:10`, `path#L10-L20`, `path::symbol`, `file:///path` and the like
    /// from the whole of a text, when it is at least as surely a path as asked.
    pub(super) fn place(&self, text: &str, at_least: Sure) -> Option<Place> {
        let text = undress(text);
        if text.is_empty() || text.len() > 2 * MAX_PATH || text.contains('\n') {
            return None;
        }
        let decoded;
        let text = match strip_file_uri(text) {
            Some(path) => {
                decoded = path;
                decoded.as_str()
            }
            None => text,
        };
        // First as what it surely is, so that `a.py#L3` is no odd file name.
        self.place_as(text, Sure::Yes).or_else(|| self.place_as(text, at_least))
    }

    fn place_as(&self, text: &str, at_least: Sure) -> Option<Place> {
        if self.sure(text) >= at_least
            && let Some(file) = self.relative(text)
        {
            return Some(Place { file, line: None, symbol: None });
        }
        if let Some((path, rest)) = text.split_once("::")
            && self.sure(path) >= at_least
            && let Some(file) = self.relative(path)
        {
            let (symbol, line) = self.split_line(rest).map_or((rest, None), |(s, line)| (s, Some(line)));
            let symbol = symbol.split('#').next().unwrap_or_default();
            let symbol = (!symbol.is_empty()).then(|| bounded(symbol, MAX_SYMBOL));
            return Some(Place { file, line, symbol });
        }
        let (path, line) = self.split_line(text)?;
        let path = undress(path);
        let file = (self.sure(path) >= at_least).then(|| self.relative(path))??;
        Some(Place { file, line: Some(line), symbol: None })
    }

    /// The text before a line number at its end, and the number as the server writes it.
    #[expect(clippy::unused_self, reason = "reads as the other questions about a text do")]
    pub(super) fn split_line<'t>(&self, text: &'t str) -> Option<(&'t str, u64)> {
        let found = SUFFIX.as_ref()?.captures(text)?;
        let whole = found.get(0)?;
        let line = found.get(1)?.as_str().parse().ok()?;
        (whole.start() > 0).then(|| (&text[..whole.start()], line))
    }
}

/// `C:\` or `C:/` at the beginning.
fn has_drive(path: &str) -> bool {
    let bytes = path.as_bytes();
    bytes.len() > 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':' && matches!(bytes[2], b'\\' | b'/')
}

/// What follows the root; drive letters compare without case.
fn strip_root<'p>(path: &'p str, root: &str) -> Option<&'p str> {
    let head = path.get(..root.len())?;
    let same = head == root || (has_drive(path) && head.eq_ignore_ascii_case(root));
    let rest = &path[root.len()..];
    (same && (rest.is_empty() || rest.starts_with('/'))).then_some(rest)
}

/// Removes `./`, `//` and `x/../`.
fn collapse(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            ".." if absolute => {}
            other => parts.push(other),
        }
    }
    let joined = parts.join("/");
    if absolute { format!("/{joined}") } else { joined }
}

/// Is every bracket closed?
fn balanced(text: &str) -> bool {
    [('(', ')'), ('[', ']')].iter().all(|(open, close)| {
        let mut depth = 0_i32;
        text.chars().all(|c| {
            depth += i32::from(c == *open) - i32::from(c == *close);
            depth >= 0
        }) && depth == 0
    })
}

/// Without quotes, backquotes, emphasis and brackets around it.
pub(super) fn undress(text: &str) -> &str {
    let mut text = text.trim();
    loop {
        let before = text;
        text = text.trim_matches(['`', '"', '\'', '*']).trim();
        for (open, close) in [('(', ')'), ('[', ']'), ('<', '>')] {
            if let Some(inner) = text.strip_prefix(open).and_then(|t| t.strip_suffix(close)) {
                text = inner.trim();
            }
        }
        if text == before {
            return text;
        }
    }
}

/// The path of a `file:` address, decoded.
fn strip_file_uri(text: &str) -> Option<String> {
    let rest = text.strip_prefix("file://").or_else(|| text.strip_prefix("file:"))?;
    let rest = rest.strip_prefix("localhost").unwrap_or(rest);
    let mut bytes = Vec::with_capacity(rest.len());
    let mut left = rest.as_bytes();
    while let Some((&first, after)) = left.split_first() {
        let code = (first == b'%')
            .then(|| after.get(..2))
            .flatten()
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(code.unwrap_or(first));
        left = if code.is_some() { &after[2..] } else { after };
    }
    let path = String::from_utf8_lossy(&bytes).into_owned();
    // `/C:/x` is `C:/x`.
    let drive = path.strip_prefix('/').filter(|p| has_drive(p)).map(str::to_owned);
    Some(drive.unwrap_or(path))
}
