//! `datasets verify`: are the questions true of the code that they ask about?

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;

use super::grammar::language_of;
use super::text::{Texts, own_name};
use super::{Corpus, text};
use crate::diag::{Severity, nearest};
use crate::fsio::tree::{Node, plain};
use crate::manifest::dataset::{Question, QuestionSet, Repos};
use crate::manifest::path::KeyPath;

/// A line shorter than this (in characters) is found by chance.
const SHORTEST_CONTENT: usize = 20;
/// From so many files of one name on, a bare name says little.
const CROWDED: usize = 10;

/// The file that holds the mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// `repos.toml`.
    Repos,
    /// The question file at this index of the list given to [`verify`].
    Set(usize),
}

/// What is wrong with a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Error or warning.
    pub severity: Severity,
    /// A stable code such as `symbol-not-defined`.
    pub code: &'static str,
    /// The file.
    pub file: Place,
    /// Id of the question or warm-up.
    pub question: Option<String>,
    /// The keys to the value in its file.
    pub path: KeyPath,
    /// One lower-case sentence.
    pub message: String,
    /// The way out.
    pub help: Option<String>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(question) = &self.question {
            write!(f, "{question}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// Checks repositories and questions against their corpora (by repository
/// name). A repository without a corpus here is checked as far as it goes
/// without. Problems come in the order of the files.
#[must_use]
pub fn verify(repos: &Repos, sets: &[QuestionSet], corpora: &BTreeMap<String, Corpus>) -> Vec<Problem> {
    let mut check = Check { out: Vec::new(), file: Place::Repos, question: None };
    for (name, repo) in &repos.repo {
        if let (Some(known), Some(corpus)) = (&repo.known, corpora.get(name)) {
            let at = |key: &str| KeyPath::of(&["repo", name, "known", key]);
            let mut facts = Facts::new(corpus);
            if facts.files.contains(known.file.as_str()) {
                let files = [known.file.as_str()];
                check.symbol(&mut facts, &files, &known.symbol, at("symbol"));
            } else {
                check.missing(&facts, &known.file, at("file"));
            }
        }
    }
    let mut ids: HashSet<&str> = HashSet::new();
    let mut prompts: HashMap<(&str, String), &str> = HashMap::new();
    for (nth, set) in sets.iter().enumerate() {
        check.file = Place::Set(nth);
        check.question = None;
        if !repos.repo.contains_key(&set.repo) {
            let names = repos.repo.keys().map(String::as_str);
            let help = nearest(&set.repo, names).map(|name| format!("did you mean `{name}`?"));
            let message = format!("repository `{}` is not in repos.toml", set.repo);
            check.push(Severity::Error, "unknown-repo", KeyPath::of(&["repo"]), message, help);
        }
        let warmups = set.warmup.iter().map(|w| ("warmup", w.id.as_str(), w.prompt.as_str()));
        let questions = set.question.iter().map(|q| ("question", q.id.as_str(), q.prompt.as_str()));
        let mut index: HashMap<&str, usize> = HashMap::new();
        for (kind, id, prompt) in warmups.chain(questions) {
            let row = index.entry(kind).or_default();
            let at = KeyPath::of(&[kind]).index(*row);
            *row += 1;
            check.question = Some(id.to_owned());
            check.id(id, !ids.insert(id), &at);
            check.prompt(kind, prompt, prompts.insert((&set.repo, folded(prompt)), kind), &at);
        }
        let Some(corpus) = corpora.get(&set.repo) else { continue };
        let mut facts = Facts::new(corpus);
        for (row, question) in set.question.iter().enumerate() {
            check.question = Some(question.id.clone());
            check.truth(&mut facts, question, &KeyPath::of(&["question"]).index(row));
        }
    }
    check.out
}

fn below(at: &KeyPath, key: &str, index: Option<usize>) -> KeyPath {
    let at = at.key(key);
    index.map_or_else(|| at.clone(), |index| at.index(index))
}

/// Prompts that differ in blanks and case only are the same question.
fn folded(prompt: &str) -> String {
    prompt.split_whitespace().map(str::to_lowercase).collect::<Vec<_>>().join(" ")
}

/// What is known of a corpus.
struct Facts<'a> {
    corpus: &'a Corpus,
    files: HashSet<&'a str>,
    /// How many files have this name.
    names: HashMap<&'a str, usize>,
    texts: Texts,
}

impl<'a> Facts<'a> {
    fn new(corpus: &'a Corpus) -> Self {
        let mut files = HashSet::new();
        let mut names: HashMap<&str, usize> = HashMap::new();
        for entry in &corpus.tree.entries {
            if matches!(entry.node, Node::File { .. }) {
                files.insert(entry.path.as_str());
                *names.entry(base(&entry.path)).or_default() += 1;
            }
        }
        Self { corpus, files, names, texts: Texts::new(&corpus.path) }
    }

    /// Other files that define the symbol, the first few.
    fn defined_in(&self, symbol: &str) -> Vec<&'a str> {
        let own = own_name(symbol);
        let mut out = Vec::new();
        for entry in &self.corpus.tree.entries {
            if language_of(&entry.path).is_none() {
                continue;
            }
            let Some(text) = text::read(&self.corpus.path, &entry.path) else { continue };
            if text::has_word(&text, own)
                && super::symbols::definitions(&entry.path, &text)
                    .is_some_and(|all| text::defines(&all, &text, symbol))
            {
                out.push(entry.path.as_str());
                if out.len() == 3 {
                    break;
                }
            }
        }
        out
    }
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn folder(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

struct Check {
    out: Vec<Problem>,
    file: Place,
    question: Option<String>,
}

impl Check {
    fn push(
        &mut self,
        severity: Severity,
        code: &'static str,
        path: KeyPath,
        message: String,
        help: Option<String>,
    ) {
        let question = self.question.clone();
        self.out.push(Problem { severity, code, file: self.file, question, path, message, help });
    }

    fn error(&mut self, code: &'static str, path: KeyPath, message: String, help: Option<String>) {
        self.push(Severity::Error, code, path, message, help);
    }

    fn warn(&mut self, code: &'static str, path: KeyPath, message: String, help: Option<String>) {
        self.push(Severity::Warning, code, path, message, help);
    }

    fn id(&mut self, id: &str, taken: bool, at: &KeyPath) {
        let slug = id.starts_with(|c: char| c.is_ascii_alphanumeric())
            && id.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
        if !slug {
            let help = Some("use letters, digits, `.`, `_` and `-`, first a letter or digit".to_owned());
            self.error("bad-id", below(at, "id", None), format!("id `{id}` is not a slug"), help);
        }
        if taken {
            self.error("duplicate-id", below(at, "id", None), format!("id `{id}` occurs twice"), None);
        }
    }

    fn prompt(&mut self, kind: &str, prompt: &str, earlier: Option<&str>, at: &KeyPath) {
        let at = below(at, "prompt", None);
        if prompt.trim().is_empty() {
            self.error("empty-prompt", at, "the prompt is empty".to_owned(), None);
            return;
        }
        let Some(earlier) = earlier else { return };
        if earlier == kind {
            self.error("duplicate-prompt", at, format!("a {kind} with this prompt occurs before"), None);
        } else {
            let help = Some("a question that was asked before the clock starts measures a cache".to_owned());
            self.error("warm-up-question", at, "this prompt is also a warm-up".to_owned(), help);
        }
    }

    fn missing(&mut self, facts: &Facts<'_>, file: &str, at: KeyPath) {
        if plain(file).is_err() {
            let message = format!("`{file}` is not a plain path inside the corpus");
            self.error("bad-path", at, message, Some("write it relative to the corpus, with `/`".to_owned()));
            return;
        }
        let mut same: Vec<&str> = facts.files.iter().copied().filter(|p| base(p) == base(file)).collect();
        same.sort_unstable();
        let help = match same.as_slice() {
            [] => {
                let beside = sorted(&facts.files).into_iter().filter(|path| folder(path) == folder(file));
                nearest(file, beside).map(|name| format!("did you mean `{name}`?"))
            }
            [one] => Some(format!("did you mean `{one}`?")),
            [one, ..] if same.len() < CROWDED => {
                Some(format!("there are {} of that name, e.g. `{one}`", same.len()))
            }
            _ => None,
        };
        self.error("missing-file", at, format!("file `{file}` is not in the corpus"), help);
    }

    fn truth(&mut self, facts: &mut Facts<'_>, question: &Question, at: &KeyPath) {
        if question.files.is_empty() {
            let help = Some("name at least one file that answers the question".to_owned());
            self.error("no-file", below(at, "files", None), "no file is expected".to_owned(), help);
        }
        let mut there: Vec<&str> = Vec::new();
        for (nth, file) in question.files.iter().enumerate() {
            let at = below(at, "files", Some(nth));
            if there.contains(&file.as_str()) {
                self.warn("duplicate-file", at, format!("file `{file}` is listed twice"), None);
            } else if facts.files.contains(file.as_str()) {
                there.push(file);
                self.crowded(facts, file, at);
            } else {
                self.missing(facts, file, at);
            }
        }
        if there.is_empty() {
            // Everything below would only repeat that.
            return;
        }
        for (nth, symbol) in question.symbols.iter().enumerate() {
            self.symbol(facts, &there, symbol, below(at, "symbols", Some(nth)));
        }
        for (nth, mention) in question.mentions.iter().enumerate() {
            self.mention(facts, &there, mention, below(at, "mentions", Some(nth)));
        }
        for (nth, content) in question.content.iter().enumerate() {
            let at = below(at, "content", Some(nth));
            if content.chars().count() < SHORTEST_CONTENT {
                let message = format!("content is shorter than {SHORTEST_CONTENT} characters");
                self.error("short-content", at, message, Some("quote a longer piece".to_owned()));
                continue;
            }
            let found =
                there.iter().any(|file| facts.texts.get(file).is_some_and(|t| t.content.contains(content)));
            if !found {
                let message = format!("content occurs verbatim in none of {}", listed(&there));
                self.error("content-not-found", at, message, Some("blanks and line breaks count".to_owned()));
            }
        }
    }

    fn crowded(&mut self, facts: &Facts<'_>, file: &str, at: KeyPath) {
        let count = facts.names.get(base(file)).copied().unwrap_or(0);
        // A file at the top has no folder to tell it apart for tools that shorten paths.
        if count >= CROWDED || (count > 1 && !file.contains('/')) {
            let message = format!("`{}` is the name of {count} files", base(file));
            let help = "a tool that shortens paths can't be told right from wrong here".to_owned();
            self.warn("crowded-name", at, message, Some(help));
        }
    }

    fn symbol(&mut self, facts: &mut Facts<'_>, files: &[&str], symbol: &str, at: KeyPath) {
        let texts: Vec<_> = files.iter().filter_map(|file| facts.texts.get(file)).collect();
        if texts.iter().any(|text| text.defines(symbol)) {
            return;
        }
        let by_text = texts.iter().any(|text| text.definitions.is_none() && text.says(symbol));
        if by_text {
            let message = format!("`{symbol}` is checked as a word only: no grammar for {}", listed(files));
            self.warn("text-only", at, message, None);
            return;
        }
        let elsewhere = facts.defined_in(symbol);
        let defined = if elsewhere.is_empty() {
            "it is defined nowhere in the corpus".to_owned()
        } else {
            format!("it is defined in {}", listed(&elsewhere))
        };
        if texts.iter().any(|text| text.uses(symbol)) {
            let message = format!("`{symbol}` is used but not defined in {}", listed(files));
            let help = format!("{defined}; a name that is only used belongs in `mentions`");
            self.error("symbol-not-defined", at, message, Some(help));
        } else if texts.iter().any(|text| text.says(symbol)) {
            let message = format!("`{symbol}` occurs only in a comment or a string of {}", listed(files));
            self.error("symbol-in-comment", at, message, Some(defined));
        } else {
            let message = format!("`{symbol}` does not occur in {}", listed(files));
            self.error("symbol-not-found", at, message, Some(defined));
        }
    }

    fn mention(&mut self, facts: &mut Facts<'_>, files: &[&str], mention: &str, at: KeyPath) {
        let texts: Vec<_> = files.iter().filter_map(|file| facts.texts.get(file)).collect();
        if texts.iter().any(|text| text.defines(mention)) {
            let help = Some("list it under `symbols`".to_owned());
            let message = format!("`{mention}` is defined in {}, not only mentioned", listed(files));
            self.warn("mention-defined", at, message, help);
        } else if texts.iter().any(|text| text.uses(mention)) {
            // As it should be.
        } else if texts.iter().any(|text| text.identifiers.is_none() && text.says(mention)) {
            let message = format!("`{mention}` is checked as a word only: no grammar for {}", listed(files));
            self.warn("text-only", at, message, None);
        } else if texts.iter().any(|text| text.says(mention)) {
            let message = format!("`{mention}` occurs only in a comment or a string of {}", listed(files));
            self.error("mention-in-comment", at, message, None);
        } else {
            let message = format!("`{mention}` does not occur in {}", listed(files));
            self.error("mention-not-found", at, message, None);
        }
    }
}

fn sorted<'a>(files: &HashSet<&'a str>) -> Vec<&'a str> {
    let mut out: Vec<&str> = files.iter().copied().collect();
    out.sort_unstable();
    out
}

fn listed(files: &[&str]) -> String {
    files.iter().map(|file| format!("`{file}`")).collect::<Vec<_>>().join(", ")
}
