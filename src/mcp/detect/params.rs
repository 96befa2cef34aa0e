//! Which parameters of a tool we can fill, and with what.

use indexmap::IndexMap;
use serde_json::{Value, json};

use super::Slot;
use crate::mcp::tools::Tool;

/// What a tool would be called with.
#[derive(Clone, Debug, Default)]
pub(super) struct Fitted {
    pub(super) args: IndexMap<String, Value>,
    /// What the parameters say about the tool's fitness.
    pub(super) score: f64,
    /// Required parameters that we can't fill.
    pub(super) missing: Vec<String>,
}

/// Parameters that take the question, and how clearly they do.
const QUESTIONS: [(&str, f64); 40] = [
    ("query", 5.0),
    ("question", 5.0),
    ("searchquery", 5.0),
    ("querytext", 5.0),
    ("naturallanguagequery", 5.0),
    ("userquery", 5.0),
    ("semanticquery", 5.0),
    ("searchstring", 4.5),
    ("searchtext", 4.5),
    ("searchterm", 4.5),
    ("q", 4.5),
    ("search", 4.5),
    ("querystring", 4.5),
    ("querytexts", 4.5),
    ("queries", 4.5),
    ("searchterms", 4.0),
    ("keywords", 4.0),
    ("keyword", 4.0),
    ("term", 4.0),
    ("terms", 4.0),
    ("phrase", 3.5),
    ("pattern", 3.5),
    ("searchpattern", 4.0),
    ("substring", 3.0),
    ("substringpattern", 3.0),
    ("needle", 3.0),
    ("prompt", 3.0),
    ("regex", 2.5),
    ("regexp", 2.5),
    ("intent", 2.5),
    ("input", 2.0),
    ("text", 2.0),
    ("namepathpattern", 2.0),
    ("namepattern", 2.0),
    ("topic", 2.0),
    ("symbolquery", 2.5),
    ("symbolname", 1.0),
    ("symbol", 1.0),
    ("identifier", 1.0),
    ("name", 0.5),
];

const LIMITS: &str = " limit topk k n numresults maxresults nresults resultlimit maxcount numberofresults size \
    pagesize num maxmatches maxhits maxfiles count resultcount maxitems maxnumresults perpage maxsnippets ";

/// Parameters that take a folder.
const FOLDERS: &str = " path paths directory dir folder root rootpath rootdir rootdirectory projectpath projectdir \
    projectdirectory projectroot projectfolder repopath repodir reporoot repositorypath workspace workspacepath \
    workspaceroot workspacefolder codebasepath codebase basepath basedir searchpath cwd workingdirectory workdir \
    directorypath folderpath dirpath localpath sourcepath sourcedir targetdir targetpath indexpath directories \
    folders roots absolutepath codepath rootfolder ";

/// Of these the ones that mean the whole project also when they are optional.
const PROJECTS: &str = " root rootpath rootdir projectpath projectdir projectdirectory projectroot projectfolder \
    repopath reporoot repositorypath workspace workspacepath workspaceroot codebasepath ";

/// Parameters that name a project in the server's own way.
const NAMES: &str = " repo repository project projectname reponame collection collectionname index indexname \
    workspaceid projectid repoid database db namespace dataset ";

/// Parameters that take a single file.
const FILES: &str =
    " file filepath filename relativepath relativefilepath sourcefile uri document documentpath ";

fn plain(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

fn is_in(list: &str, name: &str) -> bool {
    list.split_ascii_whitespace().any(|word| word == name)
}

/// A parameter as the schema describes it.
struct Param<'a> {
    name: &'a str,
    plain: String,
    about: String,
    schema: &'a Value,
    types: Vec<&'a str>,
    required: bool,
}

impl Param<'_> {
    fn is(&self, kind: &str) -> bool {
        self.types.is_empty() || self.types.contains(&kind)
    }

    fn number(&self) -> bool {
        self.types.contains(&"integer") || self.types.contains(&"number")
    }

    /// A text as a value of this parameter's type.
    fn text(&self, template: &str) -> Value {
        if self.is("string") { json!(template) } else { json!([template]) }
    }

    fn takes_text(&self) -> bool {
        let choices = self.schema.get("enum").is_some();
        !choices && (self.is("string") || self.is("array"))
    }
}

/// The types that a schema allows, through `anyOf` and `oneOf`.
fn types(schema: &Value, depth: usize) -> Vec<&str> {
    let mut found = Vec::new();
    match schema.get("type") {
        Some(Value::String(kind)) => found.push(kind.as_str()),
        Some(Value::Array(kinds)) => found.extend(kinds.iter().filter_map(Value::as_str)),
        _ => {}
    }
    if depth < 3 {
        for key in ["anyOf", "oneOf", "allOf"] {
            for inner in schema.get(key).and_then(Value::as_array).into_iter().flatten().take(16) {
                found.extend(types(inner, depth + 1));
            }
        }
    }
    found.retain(|kind| *kind != "null");
    found
}

fn params(schema: &Value) -> Vec<Param<'_>> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required: Vec<&str> = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let Some(properties) = properties else { return Vec::new() };
    properties
        .iter()
        .take(200)
        .map(|(name, schema)| Param {
            name,
            plain: plain(name),
            about: schema.get("description").and_then(Value::as_str).unwrap_or_default().to_lowercase(),
            schema,
            types: types(schema, 0),
            required: required.contains(&name.as_str()),
        })
        .collect()
}

/// Fits the parameters of a tool. None when it lacks what the slot needs.
pub(super) fn fit(tool: &Tool, slot: Slot) -> Option<Fitted> {
    let params = params(&tool.schema);
    let mut fitted = Fitted::default();
    let question = question(&params, slot);
    if slot == Slot::Query {
        let (at, score) = question?;
        fitted.score += score;
        fitted.args.insert(params[at].name.to_owned(), params[at].text("{query}"));
    }
    for (at, param) in params.iter().enumerate() {
        if slot == Slot::Query && question.is_some_and(|(q, _)| q == at) {
            continue;
        }
        match value(param, slot) {
            Some((value, score)) => {
                fitted.args.insert(param.name.to_owned(), value);
                fitted.score += score;
            }
            None if param.required => fitted.missing.push(param.name.to_owned()),
            None => {}
        }
    }
    if slot == Slot::Ingest && fitted.args.is_empty() {
        // It would index whatever it was started on.
        fitted.score -= 1.5;
    }
    fitted.score -= 1.5 * fitted.missing.len() as f64;
    Some(fitted)
}

/// The parameter that takes the question, and how clearly.
fn question(params: &[Param<'_>], slot: Slot) -> Option<(usize, f64)> {
    if slot != Slot::Query {
        return None;
    }
    let rate = |param: &Param<'_>| -> Option<f64> {
        if !param.takes_text() {
            return None;
        }
        let known = QUESTIONS.iter().find(|(name, _)| *name == param.plain).map(|(_, score)| *score);
        let told =
            ["search query", "natural language", "query string", "what to search", "search for", "question"]
                .iter()
                .any(|words| param.about.contains(words));
        let folder = is_in(FOLDERS, &param.plain) || is_in(FILES, &param.plain) || is_in(NAMES, &param.plain);
        let by_words = (told && !folder).then_some(2.5);
        let base = match (known, by_words) {
            (Some(a), Some(_)) => a + 0.5,
            (Some(a), None) => a,
            (None, Some(b)) => b,
            (None, None) => return None,
        };
        // An optional question is a filter as often as not.
        Some(if param.required { base } else { base - 2.0 })
    };
    let rated = params.iter().enumerate().filter_map(|(at, param)| Some((at, rate(param)?)));
    let best = rated.reduce(|best, next| if next.1 > best.1 { next } else { best });
    best.or_else(|| {
        // The only required text is the question, whatever it is called.
        let mut required = params.iter().enumerate().filter(|(_, p)| p.required);
        let (at, only) = required.next()?;
        let plainly = required.next().is_none() && only.takes_text();
        let folder = is_in(FOLDERS, &only.plain) || is_in(FILES, &only.plain) || is_in(NAMES, &only.plain);
        (plainly && !folder).then_some((at, 0.5))
    })
}

/// What a parameter beside the question is filled with; none leaves it out.
fn value(param: &Param<'_>, slot: Slot) -> Option<(Value, f64)> {
    if is_in(LIMITS, &param.plain) && param.number() && slot == Slot::Query {
        return Some((limit(param.schema), 0.5));
    }
    let text = param.takes_text();
    let other = ["different", "another", "other project", "glob", "filter", "prefix", "relative"]
        .iter()
        .any(|word| param.about.contains(word));
    if is_in(FOLDERS, &param.plain) && text {
        let whole = is_in(PROJECTS, &param.plain);
        let wanted = match slot {
            Slot::Ingest => param.required || !other,
            Slot::Query => param.required || (whole && !other),
        };
        // Indexing a path is what an indexing tool is for.
        let score = if slot == Slot::Ingest { 3.0 } else { 0.5 };
        return wanted.then(|| (param.text("{corpus}"), score));
    }
    if !param.required {
        return None;
    }
    if is_in(NAMES, &param.plain) && text {
        let path = ["path", "directory", "folder"].iter().any(|word| param.about.contains(word));
        return path.then(|| (param.text("{corpus}"), 0.0));
    }
    if let Some(default) = param.schema.get("default").filter(|d| !d.is_null()) {
        return Some((default.clone(), 0.0));
    }
    if let Some(value) = param.schema.get("const") {
        return Some((value.clone(), 0.0));
    }
    if let Some(choices) = param.schema.get("enum").and_then(Value::as_array) {
        return choice(choices, slot).map(|choice| (choice, 0.0));
    }
    if param.types == ["boolean"] {
        return Some((json!(false), 0.0));
    }
    None
}

/// The choice of a list that looks, and changes nothing.
fn choice(choices: &[Value], slot: Slot) -> Option<Value> {
    let wanted: &[&str] = match slot {
        Slot::Query => &[
            "hybrid", "semantic", "search", "query", "find", "code", "literal", "text", "all", "auto", "any",
        ],
        Slot::Ingest => &["index", "full", "build", "all", "auto", "code", "directory", "folder", "local"],
    };
    let named =
        |want: &str| choices.iter().find(|c| c.as_str().is_some_and(|c| c.eq_ignore_ascii_case(want)));
    let harmful = |c: &Value| {
        let c = c.as_str().unwrap_or_default().to_lowercase();
        ["delete", "remove", "clear", "write", "drop", "reset", "status", "list"]
            .iter()
            .any(|bad| c.contains(bad))
    };
    wanted.iter().find_map(|want| named(want)).or_else(|| choices.iter().find(|c| !harmful(c))).cloned()
}

/// The limit, or the nearest number that the schema allows.
fn limit(schema: &Value) -> Value {
    const WANTED: f64 = 10.0;
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    match (bound("minimum"), bound("maximum")) {
        (_, Some(most)) if (1.0..WANTED).contains(&most) => {
            schema.get("maximum").cloned().unwrap_or_default()
        }
        (Some(least), _) if least > WANTED => schema.get("minimum").cloned().unwrap_or_default(),
        _ => json!("{limit}"),
    }
}
