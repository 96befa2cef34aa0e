//! Search in definitions and references found by syntax: exact names first,
//! then names that share words with the question. Questions for callers get
//! the places of the references. Files without a grammar are found by words
//! only, which the facts say.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, LazyLock};

use regex::Regex;

use super::postings::{Map, Ranked, by_file, order};
use super::words::{Interest, Role, Word, each_span, parts, question_words, role, spans, stem};
use super::{Engine, Found, IndexFacts, SourceFile, excerpt, in_order};
use crate::corpus::grammar::Budget;
use crate::corpus::symbols::{Symbol, SymbolKind, each_reference};

/// Bump when the results change.
pub(super) const FORMAT: u32 = 1;

/// What a name counts that the question spells out, over all its words.
const EXACT: f64 = 6.0;
/// The same but for capitals.
const FOLDED: f64 = 4.0;
/// What a question's word counts in the name of what is around, and in the
/// path.
const AROUND: f64 = 0.5;
const PATH: f64 = 0.35;
/// What a file without grammar counts.
const TEXT_ONLY: f64 = 0.3;
/// What a mention counts over a call, when callers are asked for.
const MENTION: f64 = 0.3;

struct File {
    path: String,
    role: Role,
    bytes: Arc<[u8]>,
    /// Stems of the path's words.
    words: Vec<u32>,
}

struct Definition {
    file: u32,
    name: u32,
    symbol: Symbol,
}

struct Reference {
    file: u32,
    line: u64,
    /// Definition around it.
    within: Option<u32>,
    call: bool,
}

/// The engine.
#[derive(Default)]
pub(super) struct Symbols {
    files: Vec<File>,
    definitions: Vec<Definition>,
    /// Names with their definitions and references.
    names: Vec<Name>,
    by_name: Map<String, u32>,
    by_folded: Map<String, Vec<u32>>,
    stems: Map<String, u32>,
    /// For each stem the names that have it as a part.
    parts: Vec<Vec<u32>>,
    /// For each stem the files without grammar that have it, with the line.
    texts: Vec<Vec<(u32, u64)>>,
}

#[derive(Default)]
struct Name {
    stems: Vec<u32>,
    definitions: Vec<u32>,
    references: Vec<Reference>,
}

/// Stems of the words of texts, as the same ones come again, with the last
/// file that had the word.
type Known = Map<String, (u32, Vec<u32>)>;

/// What a question wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// Where something is.
    Definitions,
    /// Where something is used.
    References,
    /// What hangs on something: it and its uses.
    Both,
}

impl Wish {
    fn of(question: &str) -> Self {
        static USES: LazyLock<Option<Regex>> = LazyLock::new(|| {
            let verbs = "calls?|invokes?|uses?|references?|instantiates?|depends? on|consumes?|imports?";
            let past = "called|used|invoked|referenced|instantiated|imported";
            Regex::new(&format!(
                r"(?i)\b(?:who|what|which)\b(?:\W+\w+){{0,3}}?\W+(?:{verbs})\b|\b(?:callers?|usages?|uses|references|users|call sites?) (?:of|to)\b|\b(?:{past}) (?:by|from|in|anywhere)\b|\bwhere (?:is|are)\b.*\b(?:{past})\b"
            ))
            .ok()
        });
        static HANGS: LazyLock<Option<Regex>> = LazyLock::new(|| {
            Regex::new(r"(?i)\b(?:impact|affected|affects?|breaks?|broken|blast radius|ripple|if (?:i|we|you) (?:change|rename|remove|delete)|chang(?:e|ed|ing)|renam(?:e|ed|ing)|remov(?:e|ed|ing))\b").ok()
        });
        let is = |pattern: &Option<Regex>| pattern.as_ref().is_some_and(|p| p.is_match(question));
        if is(&HANGS) {
            Self::Both
        } else if is(&USES) {
            Self::References
        } else {
            Self::Definitions
        }
    }
}

fn kind_weight(kind: SymbolKind) -> f64 {
    match kind {
        _ if kind.is_type() || kind.is_callable() => 1.0,
        SymbolKind::Declaration | SymbolKind::Module => 0.8,
        SymbolKind::Constant | SymbolKind::Property => 0.7,
        _ => 0.5,
    }
}

fn number(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

impl Symbols {
    fn stem(&mut self, text: &str) -> u32 {
        if let Some(id) = self.stems.get(text) {
            return *id;
        }
        let id = number(self.stems.len());
        self.stems.insert(text.to_owned(), id);
        self.parts.push(Vec::new());
        self.texts.push(Vec::new());
        id
    }

    /// Stems of the parts of a name, each once.
    fn stems_of(&mut self, name: &str) -> Vec<u32> {
        let mut out: Vec<u32> = Vec::new();
        for part in parts(name) {
            let lower = part.to_lowercase();
            if lower.len() > 1 && lower.chars().any(char::is_alphabetic) {
                let id = self.stem(stem(&lower));
                if !out.contains(&id) {
                    out.push(id);
                }
            }
        }
        out
    }

    fn name(&mut self, text: &str) -> u32 {
        if let Some(id) = self.by_name.get(text) {
            return *id;
        }
        let id = number(self.names.len());
        let stems = self.stems_of(text);
        self.by_name.insert(text.to_owned(), id);
        self.by_folded.entry(text.to_lowercase()).or_default().push(id);
        for stem in &stems {
            self.parts[*stem as usize].push(id);
        }
        self.names.push(Name { stems, ..Name::default() });
        id
    }

    /// Adds a text without grammar: for each stem its first line.
    fn add_text(&mut self, file: u32, text: &str, known: &mut Known) {
        for (line, words) in (1..).zip(text.lines()) {
            each_span(words, |start, end| {
                let word = &words[start..end];
                let add = |texts: &mut Vec<Vec<(u32, u64)>>, (last, stems): &mut (u32, Vec<u32>)| {
                    // A word that this file had before adds nothing.
                    if std::mem::replace(last, file) == file {
                        return;
                    }
                    for stem in stems {
                        let places = &mut texts[*stem as usize];
                        // Files come one after the other: the last place tells.
                        if places.last().is_none_or(|(last, _)| *last != file) {
                            places.push((file, line));
                        }
                    }
                };
                if let Some(word) = known.get_mut(word) {
                    add(&mut self.texts, word);
                } else {
                    let stems = self.stems_of(word);
                    let fresh = known.entry(word.to_owned()).or_insert((u32::MAX, stems));
                    add(&mut self.texts, fresh);
                }
            });
        }
    }

    /// Names that the question spells out: (name, weight), best first.
    fn spelled(&self, words: &[Word]) -> Vec<(u32, f64)> {
        let mut out: Vec<(u32, f64)> = Vec::new();
        for word in words {
            let mut add = |id: u32, weight: f64| {
                if !self.names[id as usize].definitions.is_empty() && out.iter().all(|(n, _)| *n != id) {
                    out.push((id, weight));
                }
            };
            // A plain English word is a name only as it stands, and less so.
            let share = if word.identifier {
                1.0
            } else if word.text.starts_with(char::is_uppercase) {
                0.6
            } else {
                0.25
            };
            if let Some(id) = self.by_name.get(&word.text) {
                add(*id, EXACT * share);
            }
            for id in self.by_folded.get(&word.text.to_lowercase()).into_iter().flatten() {
                add(*id, FOLDED * share);
            }
        }
        out
    }

    /// Stems of the question's words with their rarity, each once.
    fn asked(&self, words: &[Word]) -> Vec<(u32, f64)> {
        let total = self.names.len() as f64;
        let mut out: Vec<(u32, f64)> = Vec::new();
        for word in words {
            for part in parts(&word.text) {
                let Some(id) = self.stems.get(stem(&part.to_lowercase())).copied() else { continue };
                if out.iter().all(|(known, _)| *known != id) {
                    let n = self.parts[id as usize].len() as f64;
                    out.push((id, (1.0 + total / (n + 1.0)).ln()));
                }
            }
        }
        out
    }

    /// Scores of definitions, by number.
    fn score(&self, words: &[Word]) -> BTreeMap<u32, f64> {
        let asked = self.asked(words);
        let spelled = self.spelled(words);
        let mut names: BTreeSet<u32> = spelled.iter().map(|(n, _)| *n).collect();
        names.extend(asked.iter().flat_map(|(stem, _)| self.parts[*stem as usize].iter().copied()));
        let mut out = BTreeMap::new();
        for id in names {
            let name = &self.names[id as usize];
            let exact = spelled.iter().find(|(n, _)| *n == id).map_or(0.0, |(_, w)| *w);
            let matched = |stems: &[u32]| -> f64 {
                asked.iter().filter(|(s, _)| stems.contains(s)).map(|(_, rarity)| rarity).sum()
            };
            let hit = asked.iter().filter(|(s, _)| name.stems.contains(s)).count();
            let closeness = 0.5 + 0.5 * hit as f64 / name.stems.len().max(1) as f64;
            let own = matched(&name.stems) * closeness;
            for at in &name.definitions {
                let definition = &self.definitions[*at as usize];
                let rest = |stems: &[u32]| -> f64 {
                    let other = asked.iter().filter(|(s, _)| stems.contains(s) && !name.stems.contains(s));
                    other.map(|(_, rarity)| rarity).sum()
                };
                let container = definition.symbol.container.as_deref().and_then(|c| self.by_name.get(c));
                let around = container.map_or(0.0, |c| rest(&self.names[*c as usize].stems));
                let path = rest(&self.files[definition.file as usize].words);
                let score = own + AROUND * around + PATH * path + exact;
                out.insert(*at, score * kind_weight(definition.symbol.kind));
            }
        }
        out
    }

    /// What is around a byte, in at most 500 characters.
    fn content(&self, file: u32, start: usize) -> String {
        let bytes = &self.files[file as usize].bytes;
        let end = bytes.len().min(start.saturating_add(2400));
        excerpt(&String::from_utf8_lossy(bytes.get(start..end).unwrap_or_default()))
    }

    fn line_content(&self, file: u32, line: u64) -> String {
        let bytes = &self.files[file as usize].bytes;
        let skip = usize::try_from(line.saturating_sub(1)).unwrap_or(0);
        let start =
            if skip == 0 { 0 } else { memchr::memchr_iter(b'\n', bytes).nth(skip - 1).map_or(0, |i| i + 1) };
        let end = memchr::memchr(b'\n', &bytes[start..]).map_or(bytes.len(), |i| start + i);
        excerpt(String::from_utf8_lossy(&bytes[start..end]).trim())
    }

    /// Files by the definitions and texts that match.
    fn defined(&self, words: &[Word], interest: Interest, limit: usize) -> Vec<Found> {
        let scores = self.score(words);
        let weight = |file: u32| interest.weight(self.files[file as usize].role);
        let definitions = scores.iter().map(|(at, score)| {
            let file = self.definitions[*at as usize].file;
            (file as usize, *at as usize, score * weight(file))
        });
        // Texts come after all definitions in number.
        let mut texts: BTreeMap<u32, (f64, u64)> = BTreeMap::new();
        for (stem, rarity) in self.asked(words) {
            for (file, line) in &self.texts[stem as usize] {
                let known = texts.entry(*file).or_insert((0.0, *line));
                known.0 += rarity * TEXT_ONLY;
            }
        }
        let base = self.definitions.len();
        let lines: Vec<(u32, u64)> = texts.iter().map(|(file, (_, line))| (*file, *line)).collect();
        let others = texts
            .iter()
            .enumerate()
            .map(|(i, (file, (score, _)))| (*file as usize, base + i, score * weight(*file)));
        let found = |r: Ranked| {
            let file = self.files[r.file].path.clone();
            if let Some(d) = self.definitions.get(r.piece) {
                return Found {
                    file,
                    symbol: Some(d.symbol.name.clone()),
                    line: Some(d.symbol.line),
                    score: r.score,
                    content: self.content(d.file, d.symbol.start),
                };
            }
            let (at, line) = lines[r.piece - base];
            let content = self.line_content(at, line);
            Found { file, symbol: None, line: Some(line), score: r.score, content }
        };
        by_file(definitions.chain(others)).into_iter().take(limit).map(found).collect()
    }

    /// Files by the references to what the question names.
    fn used(&self, words: &[Word], interest: Interest, limit: usize) -> Vec<Found> {
        let Some(target) = self.target(words) else { return Vec::new() };
        let references = &self.names[target as usize].references;
        let mut best: BTreeMap<u32, (f64, usize)> = BTreeMap::new();
        for (at, reference) in references.iter().enumerate() {
            let weight = if reference.call { 1.0 } else { MENTION };
            let first = best.entry(reference.file).or_insert((0.0, at));
            // A file is shown by its first call.
            if reference.call && !references[first.1].call {
                first.1 = at;
            }
            first.0 += weight;
        }
        let ranked = best.into_iter().map(|(file, (sum, at))| Ranked {
            file: file as usize,
            piece: at,
            // Ten calls from one file say little more than three.
            score: (1.0 + f64::from(u8::from(references[at].call)) + (1.0 + sum).ln())
                * interest.weight(self.files[file as usize].role),
        });
        let mut ranked: Vec<Ranked> = ranked.collect();
        order(&mut ranked);
        let found = |r: &Ranked| {
            let reference = &references[r.piece];
            let within = reference.within.and_then(|d| self.definitions.get(d as usize));
            Found {
                file: self.files[r.file].path.clone(),
                symbol: within.map(|d| d.symbol.name.clone()),
                line: Some(reference.line),
                score: r.score,
                content: self.line_content(reference.file, reference.line),
            }
        };
        ranked.iter().take(limit).map(found).collect()
    }

    /// The name whose uses are asked for: spelled out if there is one, else
    /// the best match.
    fn target(&self, words: &[Word]) -> Option<u32> {
        let mut spelled = self.spelled(words);
        spelled.sort_by(|a, b| b.1.total_cmp(&a.1));
        if let Some((name, _)) = spelled.first().filter(|(_, weight)| *weight >= EXACT * 0.5) {
            return Some(*name);
        }
        let scores = self.score(words);
        let best = scores.iter().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)))?;
        Some(self.definitions[*best.0 as usize].name)
    }
}

/// The first list, then what the second adds in files, each file once.
fn append(mut first: Vec<Found>, second: Vec<Found>) -> Vec<Found> {
    let known: BTreeSet<String> = first.iter().map(|f| f.file.clone()).collect();
    let floor = first.last().map_or(1.0, |f| f.score);
    let top = second.first().map_or(1.0, |f| f.score);
    let rest = second.into_iter().filter(|f| !known.contains(&f.file));
    // Scores keep falling over the seam.
    first.extend(rest.map(|mut f| {
        f.score *= floor / top * 0.99;
        f
    }));
    first
}

impl Engine for Symbols {
    fn index(&mut self, files: &[SourceFile]) -> IndexFacts {
        *self = Self::default();
        let mut facts = IndexFacts::default();
        let mut plain: BTreeMap<String, u64> = BTreeMap::new();
        let mut mentions: Vec<(u32, Reference)> = Vec::new();
        // Names that are only mentioned get a number, but no entry yet.
        let mut mentioned: Map<String, u32> = Map::default();
        let mut known = Map::default();
        for file in in_order(files) {
            let at = number(self.files.len());
            let mut words = Vec::new();
            let stem_end = file.path.rfind('.').unwrap_or(file.path.len());
            for (start, end) in spans(&file.path[..stem_end]) {
                words.extend(self.stems_of(&file.path[start..end]));
            }
            let bytes = Arc::clone(&file.bytes);
            self.files.push(File { path: file.path.clone(), role: role(&file.path), bytes, words });
            facts.files += 1;
            facts.bytes += file.bytes.len() as u64;
            let text = file.text();
            let base = self.definitions.len();
            let each = |r: crate::corpus::symbols::Reference<'_>| {
                let next = number(mentioned.len());
                let id = match mentioned.get(r.name) {
                    Some(id) => *id,
                    None => *mentioned.entry(r.name.to_owned()).or_insert(next),
                };
                let within = r.enclosing.map(|i| number(base + i));
                mentions.push((id, Reference { file: at, line: r.line, within, call: r.call }));
            };
            let Some(symbols) = each_reference(&file.path, &text, Budget::default(), each) else {
                let name = file.path.rsplit('/').next().unwrap_or_default();
                let suffix = name.rsplit_once('.').map_or(name, |(_, suffix)| suffix);
                *plain.entry(suffix.to_lowercase()).or_default() += 1;
                self.add_text(at, &text, &mut known);
                continue;
            };
            for symbol in symbols {
                let name = self.name(&symbol.name);
                self.names[name as usize].definitions.push(number(self.definitions.len()));
                self.definitions.push(Definition { file: at, name, symbol });
            }
        }
        // Only what is defined here can be asked for.
        let mut owner = vec![None; mentioned.len()];
        for (name, id) in &mentioned {
            owner[*id as usize] = self.by_name.get(name).copied();
        }
        for (id, reference) in mentions {
            if let Some(name) = owner[id as usize] {
                self.names[name as usize].references.push(reference);
            }
        }
        facts.chunks = self.definitions.len() as u64;
        if !plain.is_empty() {
            let list: Vec<String> = plain.iter().map(|(suffix, n)| format!("{suffix} ({n})")).collect();
            facts.notes.push(format!("symbols: text only for {}", list.join(", ")));
        }
        facts
    }

    fn search(&self, query: &str, limit: usize) -> Vec<Found> {
        let words = question_words(query);
        if words.is_empty() || self.files.is_empty() {
            return Vec::new();
        }
        // The verb of the question is no part of what is asked for.
        let verbs =
            ["call", "invok", "referenc", "import", "depend", "caller", "impact", "affect", "chang", "break"];
        let wish = Wish::of(query);
        let kept: Vec<Word> = match wish {
            Wish::Definitions => words,
            Wish::References | Wish::Both => {
                let verb = |w: &Word| !w.identifier && verbs.contains(&stem(&w.text.to_lowercase()));
                words.into_iter().filter(|w| !verb(w)).collect()
            }
        };
        let interest = Interest::of(query);
        let mut found = match wish {
            Wish::Definitions => self.defined(&kept, interest, limit),
            Wish::References => {
                append(self.used(&kept, interest, limit), self.defined(&kept, interest, limit))
            }
            Wish::Both => {
                let mut defined = self.defined(&kept, interest, limit);
                let rest = defined.split_off(defined.len().min(1));
                append(append(defined, self.used(&kept, interest, limit)), rest)
            }
        };
        found.truncate(limit);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.into(), bytes: text.as_bytes().into() }
    }

    fn sample() -> Symbols {
        let mut engine = Symbols::default();
        let facts = engine.index(&[
            file("store/disk.py", "class DiskStore:\n    def load_page(self, n):\n        return read(n)\n"),
            file("web/view.py", "def show():\n    return store.load_page(1)\n\ndef other():\n    pass\n"),
            file("web/api.py", "callback = load_page\n"),
            file("notes.md", "# Notes\nthe load_page function is old\nloading pages\n"),
        ]);
        assert_eq!((facts.files, facts.chunks), (4, 5));
        assert_eq!(facts.notes, ["symbols: text only for md (1)"]);
        engine
    }

    #[test]
    fn a_definition_is_found_by_name_and_by_words() {
        let engine = sample();
        let found = engine.search("where is load_page defined?", 10);
        assert_eq!((found[0].file.as_str(), found[0].line), ("store/disk.py", Some(2)));
        assert_eq!(found[0].symbol.as_deref(), Some("load_page"));
        assert!(found[0].content.starts_with("def load_page"));
        assert_eq!(engine.search("pages loaded from disk", 1)[0].file, "store/disk.py");
        assert_eq!(engine.search("diskstore", 1)[0].symbol.as_deref(), Some("DiskStore"));
    }

    #[test]
    fn callers_are_the_places_of_use() {
        let engine = sample();
        let found = engine.search("who calls load_page?", 10);
        let seen: Vec<_> = found.iter().map(|f| (f.file.as_str(), f.symbol.as_deref(), f.line)).collect();
        assert_eq!(
            seen[..3],
            [
                ("web/view.py", Some("show"), Some(2)),
                ("web/api.py", Some("callback"), Some(1)),
                ("store/disk.py", Some("load_page"), Some(2)),
            ]
        );
        assert!(found.windows(2).all(|w| w[0].score >= w[1].score));
        assert_eq!(engine.search("what breaks if load_page changes?", 1)[0].file, "store/disk.py");
    }

    #[test]
    fn the_wish_is_read_off_the_question() {
        for (question, wish) in [
            ("who calls run?", Wish::References),
            ("Which functions invoke run", Wish::References),
            ("find all callers of run", Wish::References),
            ("where is run used?", Wish::References),
            ("what is the impact of changing run?", Wish::Both),
            ("where is run defined?", Wish::Definitions),
            ("how does the call stack work?", Wish::Definitions),
        ] {
            assert_eq!(Wish::of(question), wish, "{question}");
        }
    }
}
