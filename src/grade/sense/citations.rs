//! Citations by the reference's one regular expression, and its three buckets.

use std::cmp::Ordering;
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

/// Most links on the way to one file, as systems have it.
const MOST_LINKS: usize = 40;

/// A checkout as the reference sees it.
pub trait Checkout {
    /// All its files and links, but those to folders: relative paths with `/`, in bytewise order.
    fn files(&self) -> &[String];
    /// What a link says, where the path is one.
    fn link(&self, path: &str) -> Option<&str> {
        let _ = path;
        None
    }
    /// A file's bytes; none when it can't be read.
    fn bytes(&self, path: &str) -> Option<Vec<u8>>;
    /// The folder's absolute path as the agent saw it, or that of a folder in it.
    fn root(&self) -> Option<&str> {
        None
    }
}

/// Checks citations against one checkout.
pub struct Checker<'a> {
    checkout: &'a dyn Checkout,
    all: HashSet<&'a str>,
    folders: HashSet<&'a str>,
    /// Files outside pruned folders, by name, as a walk meets them.
    by_name: HashMap<&'a str, Vec<&'a str>>,
    /// What absolute paths of the checkout hold before their part in it, such as `/baseline/pebble/`.
    homes: Vec<String>,
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
        for paths in by_name.values_mut() {
            paths.sort_by(|a, b| walked(a, b));
        }
        let all = checkout.files().iter().map(String::as_str).collect();
        let folders = folders(checkout.files().iter().map(String::as_str));
        Self { checkout, all, folders, by_name, homes: Vec::new(), texts: BTreeMap::new() }
    }

    /// Takes absolute paths for those of the checkout, too, that lead through the folders in which the
    /// reference keeps the clones of a repository: on whose disk ever.
    #[must_use]
    pub fn at_home(mut self, tool: Option<&str>, repo: &str) -> Self {
        if !repo.is_empty() {
            let parents = tool.into_iter().filter(|tool| !tool.is_empty()).chain(["_reference", "repos"]);
            self.homes = parents.map(|parent| format!("/{parent}/{repo}/")).collect();
        }
        self
    }

    /// The verdict on a citation.
    pub fn check(&mut self, citation: &Citation) -> Verdict {
        let (line, symbol) = split(&citation.locator);
        let number = line.as_ref().map_or_else(String::new, |line| line.text.clone());
        let line = line.map(|line| line.at);
        let (path, is_literal) = match self.resolve(&citation.file, line) {
            Ok(found) => found,
            Err(reason) => return Verdict { status: Status::Unresolved, reason, path: None },
        };
        let file = &citation.file;
        let via = if is_literal { String::new() } else { format!(" [via {path}]") };
        let Some(lines) = self.lines(&path) else {
            let reason = format!("file not readable at {file}{via}");
            return Verdict { status: Status::Unresolved, reason, path: Some(path) };
        };
        let count = lines.starts.len() as u64;
        let beyond = line.filter(|line| !(1..=count).contains(line));
        let (status, reason) = match (line, symbol) {
            (Some(_), _) if beyond.is_some() => {
                (Status::Hallucinated, format!("line {number} out of range (file only {count} lines){via}"))
            }
            (Some(_), None) => {
                (Status::Grounded, format!("line {number} in {file} (file has {count} lines){via}"))
            }
            (Some(line), Some(symbol)) => {
                let (first, last) = (line.saturating_sub(NEAR).max(1), (line + NEAR).min(count));
                let near = (first..=last).any(|at| lines.line(at).is_some_and(|text| has_word(text, symbol)));
                if near {
                    (Status::Grounded, format!("`{symbol}` found near line {number} in {file}{via}"))
                } else {
                    (Status::Unresolved, format!("`{symbol}` not within ±5 of line {number} in {file}{via}"))
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

    /// Paths in the checkout that an absolute one may mean, the likeliest first.
    fn below<'p>(&self, file: &'p str) -> Vec<&'p str> {
        let after = |path: &'p str, at: usize, home: &str| path.get(at + home.len()..);
        let mut out: Vec<&str> = Vec::new();
        let root = self.checkout.root().map(|root| format!("{}/", root.trim_end_matches('/')));
        // The clone, where the session began in a folder of it.
        let clone = root.as_deref().map(|root| {
            let ends = self.homes.iter().filter_map(|home| root.rfind(home).map(|at| at + home.len()));
            &root[..ends.max().unwrap_or(root.len())]
        });
        out.extend(clone.and_then(|clone| file.strip_prefix(clone)));
        for home in &self.homes {
            out.extend(file.rfind(home).and_then(|at| after(file, at, home)));
        }
        out
    }

    /// The file that is meant, and whether the citation says it in full. An absolute path counts in
    /// the checkout only, and `..` never leaves it: unlike the reference, which reads the host's disk.
    fn resolve(&mut self, file: &str, line: Option<u64>) -> Result<(String, bool), String> {
        let missing = || format!("file not found at {file}");
        let inside = if file.starts_with('/') { self.below(file) } else { vec![file] };
        let literal = inside.into_iter().find_map(|path| self.plain(path));
        if let Some(path) = literal {
            return Ok((path, true));
        }
        let name = file.rsplit('/').next().unwrap_or(file);
        let tail = format!("/{file}");
        let found: Vec<&str> = self
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
                return Ok((path.to_owned(), false));
            }
        }
        match found.as_slice() {
            [] => Err(missing()),
            [one] => Ok(((*one).to_owned(), false)),
            several => {
                let first: Vec<&str> = several.iter().take(3).copied().collect();
                let more = if several.len() > 3 { ", …" } else { "" };
                Err(format!("ambiguous: {} files match `{file}` ({}{more})", several.len(), first.join(", ")))
            }
        }
    }

    /// The file to which a relative path leads without leaving the root; the folders on its way must be
    /// there.
    fn plain(&self, path: &str) -> Option<String> {
        let found = follow(path, |path| self.folders.contains(path), |path| self.checkout.link(path))?;
        self.all.contains(found.as_str()).then_some(found)
    }

    fn lines(&mut self, path: &str) -> Option<&Lines> {
        if !self.texts.contains_key(path) {
            let real = self.plain(path);
            let lines = real.and_then(|real| self.checkout.bytes(&real)).map(|bytes| Lines::new(&bytes));
            self.texts.insert(path.to_owned(), lines);
        }
        self.texts.get(path)?.as_ref()
    }
}

/// The folders that files lie in; the root's name is empty.
pub fn folders<'p>(files: impl Iterator<Item = &'p str>) -> HashSet<&'p str> {
    let mut out = HashSet::from([""]);
    for mut path in files {
        while let Some((above, _)) = path.rsplit_once('/')
            && out.insert(above)
        {
            path = above;
        }
    }
    out
}

/// Where a relative path leads without leaving the root, links followed; the folders on its way must be
/// there, what it ends at need not.
pub fn follow<'l>(
    path: &str,
    is_folder: impl Fn(&str) -> bool,
    link: impl Fn(&str) -> Option<&'l str>,
) -> Option<String> {
    let mut out = String::new();
    let mut links = 0;
    let mut rest: Vec<&str> = path.split('/').rev().collect();
    while let Some(part) = rest.pop() {
        match part {
            "" | "." => {}
            _ if !is_folder(&out) => return None,
            ".." if out.is_empty() => return None,
            ".." => out.truncate(out.rfind('/').unwrap_or_default()),
            part => {
                let above = out.len();
                if !out.is_empty() {
                    out.push('/');
                }
                out.push_str(part);
                if let Some(target) = link(&out) {
                    links += 1;
                    if links > MOST_LINKS || target.starts_with('/') {
                        return None;
                    }
                    out.truncate(above);
                    rest.extend(target.split('/').rev());
                }
            }
        }
    }
    Some(out)
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

/// Order of a sorted walk: a folder's files, then its folders.
fn walked(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.split('/').peekable(), b.split('/').peekable());
    loop {
        let (Some(one), Some(other)) = (a.next(), b.next()) else { return Ordering::Equal };
        match (a.peek().is_some(), b.peek().is_some()) {
            (false, true) => return Ordering::Less,
            (true, false) => return Ordering::Greater,
            _ => match one.cmp(other) {
                Ordering::Equal => {}
                order => return order,
            },
        }
    }
}

/// A line's number as a locator says it.
struct Line {
    /// The number; the largest there is where it is beyond.
    at: u64,
    /// As Python writes it.
    text: String,
}

/// Line and symbol of a locator.
fn split(locator: &str) -> (Option<Line>, Option<&str>) {
    if let Some(line) = number(locator) {
        return (Some(line), None);
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
fn number(text: &str) -> Option<Line> {
    if text.is_empty() {
        return None;
    }
    let digits: String = text.chars().map(|c| char::from_digit(digit(c)?, 10)).collect::<Option<String>>()?;
    let digits = digits.trim_start_matches('0');
    let text = if digits.is_empty() { "0" } else { digits }.to_owned();
    Some(Line { at: text.parse().unwrap_or(u64::MAX), text })
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

#[cfg(test)]
mod tests {
    use super::*;

    struct Made {
        files: Vec<String>,
        root: Option<&'static str>,
    }

    impl Checkout for Made {
        fn files(&self) -> &[String] {
            &self.files
        }
        fn bytes(&self, _: &str) -> Option<Vec<u8>> {
            Some(b"one\ntwo ten\n".to_vec())
        }
        fn root(&self) -> Option<&str> {
            self.root
        }
    }

    fn verdicts(files: &[&str], root: Option<&'static str>, answer: &str) -> Vec<(Status, String)> {
        let mut files: Vec<String> = files.iter().map(|file| (*file).to_owned()).collect();
        files.sort_unstable();
        let made = Made { files, root };
        let mut checker = Checker::new(&made).at_home(Some("baseline"), "pebble");
        let cited = extract(answer);
        assert!(!cited.is_empty(), "{answer}");
        cited
            .iter()
            .map(|citation| checker.check(citation))
            .map(|verdict| (verdict.status, verdict.reason))
            .collect()
    }

    #[test]
    fn absolute_paths_of_the_clone_are_of_the_checkout() {
        let files = ["batch.go", "src/f.go", "sub/f.go", "f.go"];
        for (root, path, expected) in [
            (None, "/Users/dev/sense-benchmark/baseline/pebble/batch.go", Status::Grounded),
            (None, "/Users/dev/_reference/pebble/batch.go", Status::Grounded),
            (None, "/repos/pebble/src/f.go", Status::Grounded),
            (None, "/repos/other/src/f.go", Status::Unresolved),
            (None, "/other/pebble/src/f.go", Status::Unresolved),
            (None, "/repos/pebble/../f.go", Status::Unresolved),
            (Some("/repos/pebble/sub"), "/repos/pebble/src/f.go", Status::Grounded),
            // It is not the one in the folder above.
            (Some("/repos/pebble/src"), "/repos/pebble/src/batch.go", Status::Unresolved),
            (Some("/w/clone"), "/w/clone/src/f.go", Status::Grounded),
            (Some("/w/clone"), "/w/clones/src/f.go", Status::Unresolved),
            (Some("/a/baseline/pebble/x/clone"), "/b/baseline/pebble/f.go", Status::Grounded),
        ] {
            let found = verdicts(&files, root, &format!("{path}:2"));
            assert_eq!(found[0].0, expected, "{root:?} {path}: {}", found[0].1);
            let in_full = format!("line 2 in {path} (file has 2 lines)");
            assert!(expected == Status::Unresolved || found[0].1 == in_full, "{}", found[0].1);
        }
    }

    #[test]
    fn links_lead_where_a_disk_leads_them_but_not_out() {
        let links = [
            ("a/up", "../b/x.py"),
            ("folder", "b"),
            ("again", "folder/./deep/../x.py"),
            ("out", "../secret"),
            ("root", "/etc/passwd"),
            ("round", "round"),
            ("nowhere", "b/none"),
        ];
        let folders = folders(["a/up", "b/x.py", "b/deep/y.py", "folder"].into_iter());
        let link = |path: &str| links.iter().find(|(from, _)| *from == path).map(|(_, to)| *to);
        for (path, end) in [
            ("a/up", Some("b/x.py")),
            ("folder/x.py", Some("b/x.py")),
            ("folder/deep/y.py", Some("b/deep/y.py")),
            ("again", Some("b/x.py")),
            ("b/x.py", Some("b/x.py")),
            ("nowhere", Some("b/none")),
            ("out", None),
            ("root", None),
            ("round", None),
            ("b/x.py/more", None),
        ] {
            assert_eq!(follow(path, |path| folders.contains(path), link).as_deref(), end, "{path}");
        }
    }

    #[test]
    fn a_path_in_full_is_used_as_it_is() {
        let files = ["app.py", "src/m.py"];
        for path in ["./app.py", "src//m.py", "src/../app.py", "src/./../src/m.py"] {
            let found = verdicts(&files, None, &format!("{path}:2"));
            assert_eq!(found, [(Status::Grounded, format!("line 2 in {path} (file has 2 lines)"))]);
        }
        for path in ["nodir/../app.py", "app.py/../app.py", "../app.py", "src/../../app.py"] {
            let found = verdicts(&files, None, &format!("{path}:2"));
            assert_eq!(found, [(Status::Unresolved, format!("file not found at {path}"))]);
        }
        let found = verdicts(&files, None, "m.py:2");
        assert_eq!(found[0].1, "line 2 in m.py (file has 2 lines) [via src/m.py]");
    }

    #[test]
    fn files_of_one_name_are_met_as_on_a_walk() {
        let files = ["a/b/x.py", "a/x.py", "x-1/x.py", "x/y/x.py", "x/x.py"];
        let found = verdicts(&files, None, "x.py:ten");
        assert_eq!(found[0].1, "ambiguous: 5 files match `x.py` (a/x.py, a/b/x.py, x/x.py, …)");
        let found = verdicts(&files, None, "x.py:2");
        assert_eq!(found[0].1, "line 2 in x.py (file has 2 lines) [via a/x.py]");
    }

    #[test]
    fn numbers_are_those_that_python_takes_for_digits() {
        let long = "99999999999999999999999";
        for (locator, reason) in [
            ("½", "`½` not found anywhere in a.py".to_owned()),
            ("²", "`²` not found anywhere in a.py".to_owned()),
            ("Ⅷ", "`Ⅷ` not found anywhere in a.py".to_owned()),
            ("٢", "line 2 in a.py (file has 2 lines)".to_owned()),
            ("002", "line 2 in a.py (file has 2 lines)".to_owned()),
            (long, format!("line {long} out of range (file only 2 lines)")),
            ("ten:3", "line 3 out of range (file only 2 lines)".to_owned()),
        ] {
            assert_eq!(verdicts(&["a.py"], None, &format!("a.py:{locator}"))[0].1, reason, "{locator}");
        }
    }
}
