//! Citations by the reference's one regular expression, and its three buckets.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::python;

/// A path of a known kind of source file, `:` or `>`, a number or a name. Digits and
/// words are those of any script, and white space is what Python takes for it.
static CITATION: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"([\p{L}\p{N}_/\-.]+\.(?:py|go|rs|java|kt|rb|ts|tsx|js|jsx|c|h|cpp|hpp|swift|scala|cs|vue|svelte|ex|exs))",
        r"[\s\x1c-\x1f]*[:>][\s\x1c-\x1f]*",
        r"(\p{Nd}+|[\p{L}\p{N}_.#:]+)",
    ))
    .ok()
});

/// Lines before and after a cited one in which its symbol may stand.
const NEAR: u64 = 5;
/// Folders that are no part of a checkout's files.
const PRUNED: [&str; 12] = [
    ".git",
    ".sense",
    ".serena",
    ".gitnexus",
    ".roam",
    ".grepai",
    "node_modules",
    "__pycache__",
    "vendor",
    ".bundle",
    ".workspace",
    "target",
];
/// And those that builds leave.
const BUILT: [&str; 2] = ["build", "dist"];

/// A citation as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Citation {
    /// The path.
    pub file: String,
    /// What stands behind it.
    pub locator: String,
    /// Where it stands in the answer, in bytes.
    pub span: Range<usize>,
}

/// Citations in the order of their first appearance.
#[must_use]
pub fn extract(answer: &str) -> Vec<Citation> {
    let Some(citation) = CITATION.as_ref() else { return Vec::new() };
    let mut seen = HashSet::new();
    let mut out = Vec::new();
    for found in citation.captures_iter(answer) {
        let (Some(whole), Some(file), Some(locator)) = (found.get(0), found.get(1), found.get(2)) else {
            continue;
        };
        if seen.insert((file.as_str(), locator.as_str())) {
            out.push(Citation {
                file: file.as_str().to_owned(),
                locator: locator.as_str().to_owned(),
                span: whole.range(),
            });
        }
    }
    out
}

/// Where a citation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// A line that the file has, or a symbol where it is said to be.
    Grounded,
    /// No such file, or the symbol isn't there.
    Unresolved,
    /// A line that the file doesn't have.
    Hallucinated,
    /// There is no checkout.
    CannotCheck,
}

impl Status {
    /// Its word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Grounded => "grounded",
            Self::Unresolved => "unresolved",
            Self::Hallucinated => "hallucinated",
            Self::CannotCheck => "cannot-check",
        }
    }
}

/// What came of a citation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its bucket.
    pub status: Status,
    /// Why.
    pub reason: String,
    /// The file that it was resolved to.
    pub path: Option<String>,
}

/// A checkout as the reference sees it.
pub trait Checkout {
    /// All its files but links, relative paths with `/`, in bytewise order.
    fn files(&self) -> &[String];
    /// A file's bytes; none when it can't be read.
    fn bytes(&self, path: &str) -> Option<Vec<u8>>;
    /// The folder's absolute path as the agent saw it.
    fn root(&self) -> Option<&str> {
        None
    }
}

/// Checks citations against one checkout.
pub struct Checker<'a> {
    checkout: &'a dyn Checkout,
    all: HashSet<&'a str>,
    /// Files outside pruned folders, by name.
    by_name: HashMap<&'a str, Vec<&'a str>>,
    texts: BTreeMap<String, Option<Lines>>,
}

struct Lines {
    text: String,
    starts: Vec<Range<usize>>,
}

impl<'a> Checker<'a> {
    /// Makes its index of files.
    #[must_use]
    pub fn new(checkout: &'a dyn Checkout) -> Self {
        let mut by_name: HashMap<&str, Vec<&str>> = HashMap::new();
        for path in checkout.files() {
            let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
            let pruned = |folder: &str| {
                folder.starts_with('.') && folder.len() > 1
                    || PRUNED.contains(&folder)
                    || BUILT.contains(&folder)
            };
            if !folders.split('/').any(pruned) {
                by_name.entry(name).or_default().push(path);
            }
        }
        let all = checkout.files().iter().map(String::as_str).collect();
        Self { checkout, all, by_name, texts: BTreeMap::new() }
    }

    /// The verdict on a citation.
    pub fn check(&mut self, citation: &Citation) -> Verdict {
        let (line, symbol) = split(&citation.locator);
        let path = match self.resolve(&citation.file, line) {
            Ok(path) => path,
            Err(reason) => return Verdict { status: Status::Unresolved, reason, path: None },
        };
        let file = &citation.file;
        let via = if path == *file { String::new() } else { format!(" [via {path}]") };
        let Some(lines) = self.lines(&path) else {
            let reason = format!("file not readable at {file}{via}");
            return Verdict { status: Status::Unresolved, reason, path: Some(path) };
        };
        let count = lines.starts.len() as u64;
        let beyond = line.filter(|line| !(1..=count).contains(line));
        let (status, reason) = match (line, symbol) {
            (Some(line), _) if beyond.is_some() => {
                (Status::Hallucinated, format!("line {line} out of range (file only {count} lines){via}"))
            }
            (Some(line), None) => {
                (Status::Grounded, format!("line {line} in {file} (file has {count} lines){via}"))
            }
            (Some(line), Some(symbol)) => {
                let (first, last) = (line.saturating_sub(NEAR).max(1), (line + NEAR).min(count));
                let near = (first..=last).any(|at| lines.line(at).is_some_and(|text| has_word(text, symbol)));
                if near {
                    (Status::Grounded, format!("`{symbol}` found near line {line} in {file}{via}"))
                } else {
                    (Status::Unresolved, format!("`{symbol}` not within ±5 of line {line} in {file}{via}"))
                }
            }
            (None, Some(symbol)) if has_word(&lines.text, symbol) => {
                (Status::Grounded, format!("`{symbol}` found in {file}{via}"))
            }
            (None, Some(symbol)) => {
                (Status::Unresolved, format!("`{symbol}` not found anywhere in {file}{via}"))
            }
            (None, None) => (Status::Unresolved, "locator had no line or symbol".to_owned()),
        };
        Verdict { status, reason, path: Some(path) }
    }

    /// The file that is meant. An absolute path counts below the root only, and `..` never
    /// leaves it: unlike the reference, which reads the host's disk.
    fn resolve(&mut self, file: &str, line: Option<u64>) -> Result<String, String> {
        let missing = || format!("file not found at {file}");
        let inside = match (file.strip_prefix('/'), self.checkout.root()) {
            (Some(_), Some(root)) => {
                let below =
                    file.strip_prefix(root.trim_end_matches('/')).and_then(|rest| rest.strip_prefix('/'));
                Some(below.ok_or_else(missing)?)
            }
            (Some(_), None) => None,
            (None, _) => Some(file),
        };
        if let Some(path) = inside.and_then(plain)
            && self.all.contains(path.as_str())
        {
            return Ok(path);
        }
        let name = file.rsplit('/').next().unwrap_or(file);
        let tail = format!("/{file}");
        let mut found: Vec<&str> = self
            .by_name
            .get(name)
            .into_iter()
            .flatten()
            .copied()
            .filter(|path| !file.contains('/') || path.ends_with(&tail))
            .collect();
        if found.len() > 1
            && let Some(line) = line
        {
            let counted: Vec<(u64, &str)> = found
                .iter()
                .map(|path| (self.lines(path).map_or(0, |lines| lines.starts.len() as u64), *path))
                .filter(|(count, _)| *count >= line)
                .collect();
            let most = counted.iter().map(|(count, _)| *count).max();
            if let Some((_, path)) = counted.into_iter().find(|(count, _)| Some(*count) == most) {
                return Ok(path.to_owned());
            }
        }
        found.sort_unstable();
        match found.as_slice() {
            [] => Err(missing()),
            [one] => Ok((*one).to_owned()),
            several => {
                let first: Vec<&str> = several.iter().take(3).copied().collect();
                let more = if several.len() > 3 { ", …" } else { "" };
                Err(format!("ambiguous: {} files match `{file}` ({}{more})", several.len(), first.join(", ")))
            }
        }
    }

    fn lines(&mut self, path: &str) -> Option<&Lines> {
        if !self.texts.contains_key(path) {
            let lines = self.checkout.bytes(path).map(|bytes| Lines::new(&bytes));
            self.texts.insert(path.to_owned(), lines);
        }
        self.texts.get(path)?.as_ref()
    }
}

impl Lines {
    fn new(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let base = text.as_ptr() as usize;
        let starts = python::lines(&text)
            .into_iter()
            .map(|line| {
                let from = line.as_ptr() as usize - base;
                from..from + line.len()
            })
            .collect();
        Self { text, starts }
    }

    fn line(&self, number: u64) -> Option<&str> {
        let at = usize::try_from(number.checked_sub(1)?).ok()?;
        self.text.get(self.starts.get(at)?.clone())
    }
}

/// A relative path without `.` and `..`; none when it leaves the root.
fn plain(path: &str) -> Option<String> {
    let mut out: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                out.pop()?;
            }
            part => out.push(part),
        }
    }
    Some(out.join("/"))
}

/// Line and symbol of a locator.
fn split(locator: &str) -> (Option<u64>, Option<&str>) {
    if locator.chars().all(char::is_numeric) && !locator.is_empty() {
        return (number(locator), None);
    }
    let mut words: Vec<&str> =
        locator.split(|c| !python::is_word(c)).filter(|word| !word.is_empty()).collect();
    let line = words.last().and_then(|last| number(last));
    if line.is_some() {
        words.pop();
    }
    (line, words.last().copied())
}

/// The number that decimal digits of any script make.
fn number(text: &str) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    // A number with more digits is past every line.
    text.chars().try_fold(0u64, |sum, c| Some(sum.saturating_mul(10).saturating_add(u64::from(digit(c)?))))
}

/// The value of a decimal digit: blocks of ten in the order of their values.
pub(super) fn digit(c: char) -> Option<u32> {
    static DIGIT: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^\p{Nd}$").ok());
    if c.is_ascii() {
        return c.to_digit(10);
    }
    let is_digit = |c: char| DIGIT.as_ref().is_some_and(|d| d.is_match(c.encode_utf8(&mut [0; 4])));
    if !is_digit(c) {
        return None;
    }
    // How many digits stand before it in its block of ten.
    let before = (1..10).take_while(|n| char::from_u32(c as u32 - n).is_some_and(is_digit)).count();
    u32::try_from(before).ok().map(|n| n % 10)
}

/// Whether a word stands in a text, by case.
fn has_word(text: &str, word: &str) -> bool {
    memchr::memmem::find_iter(text.as_bytes(), word).any(|at| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(python::is_word) && !after.is_some_and(python::is_word)
    })
}
