//! Server configurations.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::dataset::{Out, left};
use super::fields::Fields;
use super::{Malformed, Report, read, slug};
use crate::diag::Severity;
use crate::manifest::load;
use crate::manifest::write::Doc;

/// Folders below the source in which configurations are looked for.
const DEPTH: usize = 4;
/// JSON files that are looked at.
const FILES: usize = 2_000;
/// A configuration is a page; results are larger.
const LARGEST: u64 = 256 << 10;

pub(super) fn import(path: &Path, report: &mut Report, out: &mut Out) {
    let mut names = BTreeSet::new();
    for file in candidates(path) {
        let shown = file.strip_prefix(path).unwrap_or(&file).to_string_lossy().into_owned();
        let Ok(text) = read(path, &file) else { continue };
        let parsed = Fields::parse(&text);
        let in_presets = file.parent().and_then(Path::file_name).is_some_and(|name| name == "presets");
        let fields = match parsed {
            Ok(fields) if is_config(&fields) => fields,
            Err(message) if in_presets => {
                report.problems.push(Malformed { file: shown, line: None, message });
                continue;
            }
            _ => continue,
        };
        match server(fields, &shown, &file, report) {
            Ok(Some((name, text))) => {
                if !names.insert(name.clone()) {
                    let message = format!("another configuration is called `{name}`");
                    report.problems.push(Malformed { file: shown, line: None, message });
                    continue;
                }
                let target = format!("presets/servers/{name}.toml");
                let faults = load::server(&target, text.as_bytes()).diagnostics;
                if let Some(fault) = faults.iter().find(|fault| fault.severity == Severity::Error) {
                    let message = format!("makes no valid preset: {}", fault.message);
                    report.problems.push(Malformed { file: shown, line: None, message });
                    continue;
                }
                out.push((PathBuf::from(target), text));
                report.servers += 1;
            }
            Ok(None) => {}
            Err(message) => report.problems.push(Malformed { file: shown, line: None, message }),
        }
    }
}

/// Small JSON files below `path`, in order.
fn candidates(path: &Path) -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut pending = vec![(path.to_owned(), 0)];
    while let Some((folder, depth)) = pending.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let path = entry.path();
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            if kind.is_dir() && depth < DEPTH && !hidden && entry.file_name() != "node_modules" {
                pending.push((path, depth + 1));
            } else if kind.is_file()
                && path.extension().is_some_and(|end| end == "json")
                && entry.metadata().is_ok_and(|meta| meta.len() <= LARGEST)
            {
                out.push(path);
            }
        }
    }
    out.sort();
    out.truncate(FILES);
    out
}

fn is_config(fields: &Fields) -> bool {
    let known = ["tool_mapping", "transport", "command", "module", "pre_ingest_commands"];
    // package.json and the like have names, results have metrics.
    fields.has("name")
        && known.iter().any(|key| fields.has(key))
        && !["metrics", "query_details", "dependencies", "run_id"].iter().any(|key| fields.has(key))
}

/// A configuration as a preset's name and text; none when it can't be one.
fn server(
    mut fields: Fields,
    shown: &str,
    file: &Path,
    report: &mut Report,
) -> Result<Option<(String, String)>, String> {
    let given = fields.needed("name")?;
    let name = slug(&given);
    if name.is_empty() {
        return Err(format!("name `{given}` gives no slug"));
    }
    let version = fields.text("version")?.unwrap_or_default();
    let address = fields.text("git_url")?.unwrap_or_default();
    let owner = fields.text("git_user")?.unwrap_or_default();
    let transport = fields.text("transport")?.unwrap_or_default().to_lowercase();
    let mut command: Vec<String> =
        fields.text("command")?.unwrap_or_default().split_whitespace().map(str::to_owned).collect();
    command.extend(fields.texts("args")?);
    let command: Vec<String> =
        command.into_iter().map(|word| word.replace("{repo_path}", "{corpus}")).collect();
    let mut doc = Doc::with_schema("../../../schemas/server.json");
    doc.comment(&format!("Imported from {}.", file.file_name().unwrap_or_default().to_string_lossy()));
    if !address.is_empty() || !owner.is_empty() {
        doc.comment(&format!("Source: {address} ({owner})"));
    }
    doc.pair("format", 1).pair("name", name.clone()).pair("version", version);
    if given != name {
        doc.pair("names", vec![given.clone()]);
    }
    let mut note = |text: String| report.notes.push(format!("{shown}: {text}"));
    match transport.as_str() {
        "" | "mcp" | "stdio" => {
            doc.pair("transport", "stdio");
        }
        "sse" => {
            note("transport `sse` was standard input and output there, and is here".to_owned());
            doc.pair("transport", "stdio");
        }
        "cli" => {
            doc.pair("transport", "cli");
        }
        "inprocess" => {
            let module = fields.text("module")?.unwrap_or_default();
            let class = fields.text("class")?.unwrap_or_default();
            let engine = format!("{module}.{class}").to_lowercase();
            if engine.contains("bm25") {
                doc.pair("transport", "builtin").pair("engine", "bm25").pair("profile", "reference");
                note(format!("{module}.{class} runs as the built-in engine bm25, profile reference"));
            } else {
                note(format!("`{given}` is not imported: {module}.{class} runs inside that benchmark only"));
                return Ok(None);
            }
        }
        other => return Err(format!("transport `{other}` is not known")),
    }
    if command.is_empty() && transport != "inprocess" {
        return Err("`command` is missing".to_owned());
    }
    doc.pair("command", command);
    environment(fields.object("env")?, &mut doc, &mut note)?;
    if let Some(cwd) = fields.text("cwd")?
        && cwd != "{repo_path}"
    {
        note(format!("working directory `{cwd}` has no counterpart; a server runs in its corpus"));
    }
    let mut state = Vec::new();
    if let Some(dir) = fields.text("index_dir")? {
        state.push(match dir.strip_prefix('~') {
            Some(rest) => format!("{{home}}{rest}"),
            None => dir,
        });
    }
    doc.pair("state", state);
    let writes: Vec<String> =
        fields.texts("index_dirs")?.iter().map(|dir| format!("{}/", dir.trim_end_matches('/'))).collect();
    doc.pair("writes", writes);
    doc.pair("index-directories", fields.texts("index_directories")?);
    pre_ingest(&mut fields, &mut doc)?;
    let mut mapping = fields.object("tool_mapping")?;
    for slot in ["ingest", "query"] {
        let mut tool = mapping.object(slot)?;
        let Some(tool_name) = tool.text("tool")? else { continue };
        let params = tool.object("params")?.into_entries();
        let args = params.into_iter().map(|(key, value)| {
            let value = template(slot, value, &mut note);
            (key, value)
        });
        let args: Map<String, Value> = args.collect();
        doc.table(&["tools", slot]).pair("tool", tool_name).pair("args", Value::Object(args));
        let keys = tool.left();
        if !keys.is_empty() {
            note(format!("tool_mapping.{slot}: no counterpart for {}", keys.join(", ")));
        }
    }
    let slots = mapping.left();
    if !slots.is_empty() {
        note(format!("tool_mapping: no counterpart for {}", slots.join(", ")));
    }
    left(fields, shown, report);
    Ok(Some((name, doc.text().to_owned())))
}

/// Values that look like secrets are passed by name, never copied.
fn environment(env: Fields, doc: &mut Doc, note: &mut impl FnMut(String)) -> Result<(), String> {
    let (mut plain, mut secrets) = (Map::new(), Vec::new());
    for (name, value) in env.into_entries() {
        let upper = name.to_uppercase();
        let secret =
            ["KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL"].iter().any(|part| upper.contains(part));
        let value = match value {
            Value::String(text) => text,
            Value::Number(_) | Value::Bool(_) => value.to_string(),
            other => {
                return Err(format!("variable `{name}` must be a text, not {}", super::fields::kind(&other)));
            }
        };
        if secret {
            note(format!(
                "variable `{name}` looks like a secret: set it in your environment, its value is not copied"
            ));
            secrets.push(name);
        } else if !["PATH", "HOME", "TMPDIR"].contains(&upper.as_str()) {
            plain.insert(name, json!(value));
        } else {
            note(format!("variable `{name}` is always set by proofline and is left out"));
        }
    }
    doc.pair("env", Value::Object(plain)).pair("secrets", secrets);
    Ok(())
}

fn pre_ingest(fields: &mut Fields, doc: &mut Doc) -> Result<(), String> {
    let mut steps: Vec<(Vec<String>, Option<String>)> = Vec::new();
    let corpus = |text: &str| text.replace("{repo_path}", "{corpus}").replace("{cwd}", "{corpus}");
    match fields.value("pre_ingest_commands") {
        None => {}
        Some(Value::Array(items)) => {
            for item in items {
                let mut step = Fields::of(item).map_err(|why| format!("`pre_ingest_commands`: {why}"))?;
                let mut run = vec![step.needed("cmd")?];
                run.extend(step.texts("args")?);
                let cwd = step.text("cwd_template")?.map(|cwd| corpus(&cwd));
                steps.push((run, cwd));
            }
        }
        Some(other) => {
            return Err(format!("`pre_ingest_commands` must be a list, not {}", super::fields::kind(&other)));
        }
    }
    // The documented spelling: lines for a shell.
    for line in fields.texts("pre_ingest")? {
        steps.push((vec!["sh".to_owned(), "-c".to_owned(), corpus(&line)], None));
    }
    for (run, cwd) in steps {
        doc.element(&["pre-ingest"]).pair("run", run).pair("timeout", "10m");
        if let Some(cwd) = cwd.filter(|cwd| cwd != "{corpus}") {
            doc.pair("cwd", cwd);
        }
    }
    Ok(())
}

/// A parameter's template in our names. Only a text that is one template as a
/// whole was ever replaced there.
fn template(slot: &str, value: Value, note: &mut impl FnMut(String)) -> Value {
    const CORPUS: [&str; 7] =
        ["file_path", "path", "directory", "dir", "folder", "project_path", "project_dir"];
    const QUERY: [&str; 5] = ["query", "text", "question", "q", "search"];
    const LIMIT: [&str; 6] = ["top_k", "limit", "k", "n", "num_results", "max_results"];
    let Some(name) = value.as_str().and_then(|text| text.strip_prefix('{')?.strip_suffix('}')) else {
        return value;
    };
    let asks = slot == "query";
    let ours = match name {
        _ if CORPUS.contains(&name) => "{corpus}",
        _ if asks && QUERY.contains(&name) => "{query}",
        _ if asks && LIMIT.contains(&name) => "{limit}",
        _ => {
            note(format!("the template `{{{name}}}` of tool_mapping.{slot} was sent as it stands there"));
            return value;
        }
    };
    json!(ours)
}
