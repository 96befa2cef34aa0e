//! What a tool's name and description say about what it is for.

use std::sync::LazyLock;

use regex::Regex;

use super::Slot;
use crate::mcp::tools::Tool;

/// The words of a name: parts between separators and humps, in lower case;
/// a first word that most tools share is left out.
pub(super) fn words(name: &str, shared: Option<&str>) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut before = ' ';
    for c in name.chars().take(200) {
        if c.is_alphanumeric() {
            if c.is_uppercase() && before.is_lowercase() && !word.is_empty() {
                words.push(std::mem::take(&mut word));
            }
            word.extend(c.to_lowercase());
        } else if !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        before = c;
    }
    words.extend((!word.is_empty()).then_some(word));
    if words.len() > 1 && shared == words.first().map(String::as_str) {
        words.remove(0);
    }
    words
}

/// The first word of most names, which says nothing about any.
pub(super) fn shared_word(tools: &[Tool]) -> Option<String> {
    if tools.len() < 2 {
        return None;
    }
    let firsts: Vec<String> = tools
        .iter()
        .filter_map(|tool| {
            let words = words(&tool.name, None);
            (words.len() > 1).then(|| words[0].clone())
        })
        .collect();
    let count = |word: &str| firsts.iter().filter(|first| *first == word).count();
    let most = firsts.iter().max_by_key(|word| (count(word), std::cmp::Reverse(word.len())))?;
    let all = count(most) == tools.len();
    (all || (tools.len() > 3 && count(most) * 10 >= tools.len() * 6)).then(|| most.clone())
}

/// Verbs of tools that look for things.
const LOOKING: [(&str, f64); 18] = [
    ("search", 5.0),
    ("query", 5.0),
    ("retrieve", 5.0),
    ("explore", 5.0),
    ("retrieval", 4.5),
    ("ask", 4.0),
    ("lookup", 4.0),
    ("locate", 4.0),
    ("recall", 3.5),
    ("grep", 3.5),
    ("find", 3.5),
    ("ripgrep", 3.5),
    ("rg", 3.0),
    ("searcher", 3.0),
    ("answer", 3.0),
    ("where", 2.5),
    ("discover", 2.5),
    ("match", 1.5),
];

/// Words beside such a verb.
const LOOKING_FOR: [(&str, f64); 40] = [
    ("semantic", 2.0),
    ("hybrid", 1.5),
    ("code", 1.5),
    ("codebase", 1.5),
    ("rag", 1.0),
    ("similar", 0.5),
    ("documents", 0.5),
    ("document", 0.5),
    ("docs", 0.0),
    ("chunks", 0.5),
    ("index", 0.5),
    ("repo", 0.5),
    ("repository", 0.5),
    ("context", 0.5),
    ("text", 0.5),
    ("fulltext", 0.5),
    ("content", 0.5),
    ("vector", 0.5),
    ("advanced", -0.25),
    ("symbol", -0.5),
    ("symbols", -0.5),
    ("pattern", 0.0),
    ("files", -1.5),
    ("file", -2.0),
    ("filename", -3.0),
    ("references", -2.0),
    ("referencing", -2.0),
    ("implementations", -2.0),
    ("declaration", -2.0),
    ("callers", -2.0),
    ("callees", -2.0),
    ("usages", -2.0),
    ("rule", -2.0),
    ("imports", -2.5),
    ("path", -1.5),
    ("dead", -2.5),
    ("run", -2.0),
    ("execute", -2.0),
    ("web", -3.0),
    ("batch", -1.0),
];

/// Verbs of tools that index.
const INDEXING: [(&str, f64); 22] = [
    ("index", 5.0),
    ("ingest", 5.0),
    ("reindex", 4.5),
    ("indexing", 4.5),
    ("embed", 3.5),
    ("build", 2.5),
    ("rebuild", 2.5),
    ("vectorize", 4.0),
    ("crawl", 2.5),
    ("initialize", 2.0),
    ("init", 2.0),
    ("sync", 2.0),
    ("refresh", 2.0),
    ("scan", 1.5),
    ("load", 1.5),
    ("register", 2.0),
    ("add", 1.0),
    ("import", 1.0),
    ("set", 1.0),
    ("process", 1.0),
    ("activate", 1.5),
    ("analyze", 1.5),
];

/// Words beside such a verb.
const INDEXED: [(&str, f64); 24] = [
    ("index", 3.0),
    ("graph", 2.0),
    ("embeddings", 2.0),
    ("embedding", 1.5),
    ("codebase", 2.0),
    ("project", 2.0),
    ("repo", 2.0),
    ("repository", 2.0),
    ("directory", 2.0),
    ("folder", 2.0),
    ("workspace", 2.0),
    ("path", 1.0),
    ("code", 1.5),
    ("local", 0.5),
    ("deep", 0.0),
    ("full", 0.0),
    ("documents", -0.5),
    ("document", -1.0),
    ("file", -1.5),
    ("files", 0.0),
    ("data", -1.0),
    ("text", -1.5),
    ("cache", -1.5),
    ("imports", -3.0),
];

/// Words of tools that report or change things; none of them answers or indexes.
const OTHER: &str = " status info stats statistics list clear delete remove reset drop health ping version help \
    instructions instruction onboarding memory memories settings config configure configuration count peek \
    rename write edit replace rewrite move copy insert append modify upsert patch restore purge uninstall \
    install cancel stop kill abort pause resume watch watcher unwatch subscribe validate test lint format \
    dump debug log logs diagnostics history diff commit changes metrics usage quota login logout auth \
    create update save store put upload export download fork temp temporary estimate benchmark feedback \
    summarize summary overview tree outline manual capabilities tools languages types ";

/// Of these, verbs that go well with an index.
const MAKING: &str = " create update ";

fn lazy(pattern: &str) -> Option<Regex> {
    Regex::new(pattern).ok()
}

struct Sign {
    pattern: LazyLock<Option<Regex>>,
    weight: f64,
}

macro_rules! sign {
    ($pattern:literal, $weight:literal) => {
        Sign { pattern: LazyLock::new(|| lazy($pattern)), weight: $weight }
    };
}

/// What descriptions of answering tools say, looked for in their first part.
static SAYS_QUERY: [Sign; 16] = [
    sign!(r"(?i)\bsemantic(ally)?\b", 1.0),
    sign!(r"(?i)natural[ -]language", 1.5),
    sign!(r"(?i)\bsearch(es)?\b[^.]{0,40}\b(code|codebase|repositor|project|source|index)", 1.5),
    sign!(r"(?i)\b(find|locate|retrieve)s?\b[^.]{0,30}\b(code|snippets?|chunks?|implementation)", 1.0),
    sign!(
        r"(?i)\b(primary|main|default|preferred|first choice)\b[^.]{0,20}\b(tool|entry|choice)|\bcall (this )?first\b|use this (tool )?first|start here",
        2.5
    ),
    sign!(r"(?i)\branked\b|\brelevan(t|ce)\b|by meaning|most similar", 0.75),
    sign!(r"(?i)\bquery\b[^.]{0,40}\b(documents?|code|knowledge|index|vector)", 1.0),
    sign!(r"(?i)\bgrep\b|\bregex\b|\bpattern\b", 0.25),
    sign!(r"(?i)\bglob\b|file ?names?\b|\bfiles (and directories )?matching\b|by name\b", -1.5),
    sign!(
        r"(?i)^\W*(delete|remove|clear|reset|drop|create|add|insert|update|modify|rename|replace|write|store|save|set)\b",
        -5.0
    ),
    sign!(
        r"(?i)^\W*((get|show|check|return|report|display)s?\s+(the\s+|current\s+)*)?(status|statistics|info|information|settings|configuration|health|version|count|number)\b",
        -4.0
    ),
    sign!(
        r"(?i)^\W*(get|show|return|list)s?\s+(a\s+|an\s+|the\s+|all\s+)*(list|summary|overview|available)\b",
        -2.5
    ),
    sign!(r"(?i)\b(cypher|sql|graphql|sparql|yaml rule|ast pattern)\b", -3.0),
    sign!(r"(?i)\bdeprecated\b|\blegacy\b", -3.0),
    sign!(r"(?i)\bnon-code\b|\blog files?\b|\bweb\b|\binternet\b|\bmemor(y|ies)\b|\bcommits?\b", -2.0),
    sign!(r"(?i)\breferences? to\b|\bcallers? of\b|\bblast radius\b|\bdependenc(y|ies)\b", -0.5),
];

/// What descriptions of indexing tools say.
static SAYS_INGEST: [Sign; 9] = [
    sign!(
        r"(?i)\b(re-?)?index(es|ing)?\b[^.]{0,50}\b(project|codebase|repositor|director|folder|code|files|path|workspace)",
        2.5
    ),
    sign!(r"(?i)\b(build|create|construct|generate)s?\b[^.]{0,40}\b(index|graph|embeddings)", 1.5),
    sign!(r"(?i)\bingest", 1.5),
    sign!(r"(?i)\bfor indexing\b|before searching|must be (called|run) (first|before)", 1.5),
    sign!(r"(?i)^\W*(search|find|query|retrieve|get|list|show|return|check|delete|remove|clear)s?\b", -4.0),
    sign!(r"(?i)\bstatus\b|\bstatistics\b", -1.0),
    sign!(r"(?i)\b(single|one|specific|a document) file\b", -2.0),
    sign!(r"(?i)^\W*(create|make)s? (a |the |new )*(temporary )?(director|folder|file)", -6.0),
    sign!(r"(?i)\bcontent as a string\b|\bnot from a file\b|\bweb ?pages?\b|\burls?\b", -2.0),
];

/// How well name and description fit the slot; none when they speak against it.
pub(super) fn score(tool: &Tool, words: &[String], names: &[&str], slot: Slot) -> Option<f64> {
    let by_name = match slot {
        Slot::Query => query_name(words)?,
        Slot::Ingest => ingest_name(words)?,
    };
    let about = opening(&tool.description);
    let signs: &[Sign] = match slot {
        Slot::Query => &SAYS_QUERY,
        Slot::Ingest => &SAYS_INGEST,
    };
    let mut by_words: f64 = signs
        .iter()
        .filter(|sign| sign.pattern.as_ref().is_some_and(|p| p.is_match(about)))
        .map(|sign| sign.weight)
        .sum();
    if points_elsewhere(about, &tool.name, names) {
        by_words -= 2.5;
    }
    Some(by_name + by_words.clamp(-6.0, 4.0))
}

fn weight(list: &[(&str, f64)], word: &str) -> Option<f64> {
    list.iter().find(|(known, _)| *known == word).map(|(_, weight)| *weight)
}

fn is_other(word: &str) -> bool {
    OTHER.split_ascii_whitespace().any(|other| other == word)
}

fn query_name(words: &[String]) -> Option<f64> {
    let verb = words.iter().position(|word| weight(&LOOKING, word).is_some());
    // `list_searches`, `search_status`: it reports, whatever else it says.
    let other = words.iter().position(|word| is_other(word));
    if other.is_some_and(|at| at == 0 || at + 1 == words.len()) {
        return None;
    }
    // `build_search_index` indexes, `index_search` searches.
    let starts = words.first().and_then(|first| weight(&INDEXING, first)).is_some_and(|w| w >= 2.0);
    let ends = words.last().and_then(|last| weight(&LOOKING, last)).is_some_and(|w| w >= 3.0);
    if starts && !ends {
        return None;
    }
    let base = verb.and_then(|at| weight(&LOOKING, &words[at]));
    let beside: f64 = words
        .iter()
        .enumerate()
        .filter(|(at, _)| Some(*at) != verb)
        .map(|(_, word)| weight(&LOOKING_FOR, word).unwrap_or(-0.1))
        .sum();
    let noise = if other.is_some() { -3.0 } else { 0.0 };
    Some(base.unwrap_or(0.0) + beside.clamp(-4.0, 3.0) + noise)
}

fn ingest_name(words: &[String]) -> Option<f64> {
    let last = words.last()?;
    let verb = words.iter().position(|word| weight(&INDEXING, word).is_some());
    let makes = words.first().is_some_and(|first| MAKING.contains(&format!(" {first} ")));
    let other = words.iter().position(|word| is_other(word));
    if is_other(last) || (other == Some(0) && !makes) {
        return None;
    }
    if words.first().is_some_and(|first| weight(&LOOKING, first).is_some() || first == "get") {
        return None;
    }
    // `index_search`: a search in the index.
    if weight(&LOOKING, last).is_some_and(|w| w >= 3.0) {
        return None;
    }
    let indexed = words.iter().any(|word| weight(&INDEXED, word).is_some_and(|w| w >= 1.5));
    if makes && !indexed {
        return None;
    }
    let base = match verb {
        Some(at) => weight(&INDEXING, &words[at])?,
        None if makes => 1.0,
        None => return Some(0.0),
    };
    let beside: f64 = words
        .iter()
        .enumerate()
        .filter(|(at, _)| Some(*at) != verb)
        .filter_map(|(_, word)| weight(&INDEXED, word))
        .sum();
    Some(base + beside.clamp(-3.0, 4.0))
}

/// The part of a description that says what the tool is, not how to use it.
fn opening(description: &str) -> &str {
    let text = description.trim_start();
    let mut end = text.len().min(400);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let text = &text[..end];
    ["Args:", "Parameters:", "Example", "Returns:"]
        .iter()
        .filter_map(|mark| text.find(mark))
        .min()
        .map_or(text, |at| &text[..at])
}

/// "Use `other_tool` instead."
fn points_elsewhere(about: &str, own: &str, names: &[&str]) -> bool {
    static INSTEAD: LazyLock<Option<Regex>> =
        LazyLock::new(|| lazy(r"(?i)\buse\s+`?([A-Za-z][\w.-]*)`?\s+(?:tool\s+)?instead\b(?:\s+of)?"));
    INSTEAD.as_ref().is_some_and(|instead| {
        instead.captures_iter(about).any(|found| {
            !found[0].to_lowercase().ends_with("of") && &found[1] != own && names.contains(&&found[1])
        })
    })
}
