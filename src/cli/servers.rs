//! `servers add | probe | list`.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::args::{self, Tried};
use super::context;
use super::exit::CliError;
use super::out::Out;
use super::package::{self, Installed};
use super::probe::{self, Asked, Chosen, Seen, Trial};
use super::trust;
use crate::diag::{Diagnostic, nearest};
use crate::fsio::{self, Durability};
use crate::manifest::load;
use crate::manifest::names::is_slug;
use crate::manifest::path::KeyPath;
use crate::manifest::project::{Found, Origin, Project, is_path};
use crate::manifest::server::{Form, Index, Lines, Registry, Server};
use crate::manifest::write::Doc;
use crate::process;
use crate::stage::identity;
use crate::store::Store;

/// Folder of server presets.
pub(super) const PRESETS: &str = "presets/servers";
/// A start slower than this gets a longer limit, in milliseconds.
const SLOW_START: f64 = 15_000.0;

pub(super) fn add(command: &args::ServersAdd, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let name = &command.name;
    if !is_slug(name) {
        let message =
            format!("`{name}` is no name: use letters, digits, `-` and `_`, first a letter or digit");
        return Err(CliError::Usage(message));
    }
    let project = context::project()?;
    let file = format!("{PRESETS}/{name}.toml");
    let path = project.root.join(&file);
    if path.symlink_metadata().is_ok() {
        return Err(CliError::Usage(format!(
            "{} is there already; remove it first, or take another name. `proofline servers probe {name}` tries it",
            project.show(&path)
        )));
    }
    let preset = typed(name, &command.command, &command.tried, &project)?;
    let dir = context::store_dir(store, &project.root);
    let store = Store::open(&dir)?;
    trust::allow(&dir, &trust::of_preset(&preset, &project.root))?;
    let package = installed(&preset, &project);
    let seen = look(&preset, &project, &command.tried, &store)?;
    if seen.query.tool.is_none() {
        let names: Vec<&str> = seen.tools.iter().map(|t| t.name.as_str()).collect();
        return Err(CliError::Usage(format!(
            "none of its {} tools looks like one that answers questions ({}); name it: --query-tool TOOL",
            names.len(),
            names.join(", ")
        )));
    }
    let text = preset_text(&preset, &seen, package.as_ref(), &command.tried);
    let loaded = load::server(&project.show(&path), text.as_bytes());
    if loaded.diagnostics.iter().any(Diagnostic::is_error) {
        return Err(CliError::Diagnostics { found: loaded.diagnostics, json: command.tried.json });
    }
    fsio::write_atomic(&path, text.as_bytes(), Durability::Synced)?;
    let joined = join(&project, name);
    let checks = checks(&preset, &seen, package.as_ref());
    if command.tried.json {
        let mut object = json!(seen);
        object["written"] = json!(file);
        object["pipeline"] = json!(joined.as_ref().ok().map(|()| context::MAIN));
        object["check"] = json!(checks);
        out.json(&object);
        return Ok(0);
    }
    let mut text = told(name, &seen);
    let _ = writeln!(text, "\nwrote {}", project.show(&path));
    match &joined {
        Ok(()) => {
            let _ = writeln!(text, "{} now compares it with the others", context::MAIN);
        }
        Err(why) => {
            let _ = writeln!(text, "{why}: name it with `--set servers=grep,bm25,{name}`");
        }
    }
    if !checks.is_empty() {
        text.push_str("\nLook at this:\n");
        for check in &checks {
            let _ = writeln!(text, "  - {check}");
        }
    }
    let next = if joined.is_ok() {
        "proofline run".to_owned()
    } else {
        format!("proofline run quickstart --set servers=grep,bm25,{name}")
    };
    let _ = writeln!(text, "\nNext:\n  {next}");
    out.data(&text);
    Ok(0)
}

pub(super) fn probe(command: &args::ServersProbe, store: Option<&Path>, out: &Out) -> Result<u8, CliError> {
    let project = context::project()?;
    let dir = context::store_dir(store, &project.root);
    let store = Store::open(&dir)?;
    let (preset, root) = match command.target.as_slice() {
        [] => (typed("probed", &command.command, &command.tried, &project)?, project.root.clone()),
        [name] if is_preset_file(name) || find(&project, name).is_some() => {
            let (found, preset) = named(&project, name, command.tried.json)?;
            let root = root_of(&project, &found);
            if let Origin::Disk(_) = found.origin {
                trust::ensure_all(&trust::of_preset(&preset, &root), &dir, command.trust, out)?;
            }
            (preset, root)
        }
        words => {
            if let [name] = words
                && !name.contains('/')
                && process::find_program(name, &context::search_path(), &project.cwd).is_none()
            {
                return Err(unknown(&project, name));
            }
            (typed("probed", words, &command.tried, &project)?, project.root.clone())
        }
    };
    let probed = Project { root, cwd: project.cwd.clone() };
    let package = installed(&preset, &probed);
    let seen = look(&preset, &probed, &command.tried, &store)?;
    let checks = checks(&preset, &seen, package.as_ref());
    if command.tried.json {
        let mut object = json!(seen);
        object["check"] = json!(checks);
        out.json(&object);
        return Ok(0);
    }
    let mut text = told(&preset.name, &seen);
    text.push_str("\nTools:\n");
    for tool in &seen.tools {
        let line = tool.description.lines().next().unwrap_or_default();
        let _ = writeln!(
            text,
            "  {:<28} {}",
            tool.name,
            line.chars().take(out.width.saturating_sub(32)).collect::<String>()
        );
    }
    for asked in [&seen.question, &seen.symbol].into_iter().flatten() {
        let _ = writeln!(text, "\nResults for \"{}\" as normalised:", asked.text);
        for hit in &asked.hits {
            let line = hit.line.map_or_else(String::new, |line| format!(":{line}"));
            let symbol = hit.symbol.as_deref().map_or_else(String::new, |symbol| format!("  {symbol}"));
            let score = hit.score.map_or_else(String::new, |score| format!("  {score:.3}"));
            let _ = writeln!(text, "  {}{line}{symbol}{score}", hit.file.as_deref().unwrap_or("(no file)"));
        }
        if asked.hits.is_empty() {
            let _ = writeln!(text, "  {}", asked.error.as_deref().unwrap_or("none"));
        }
    }
    if !checks.is_empty() {
        text.push_str("\nLook at this:\n");
        for check in &checks {
            let _ = writeln!(text, "  - {check}");
        }
    }
    out.data(&text);
    Ok(0)
}

pub(super) fn list(command: &args::Json, out: &Out) -> Result<u8, CliError> {
    let project = context::project()?;
    let mut rows = Vec::new();
    for name in project.names_in(PRESETS, &[]) {
        let Some(found) = find(&project, &name) else { continue };
        let own = matches!(found.origin, Origin::Disk(_));
        let loaded = load::server(&found.shown, &found.bytes);
        let sound = !loaded.diagnostics.iter().any(Diagnostic::is_error);
        let about = loaded.value.as_ref().map(|p| p.about.clone()).unwrap_or_default();
        let version = loaded.value.as_ref().map(|p| p.version.clone()).unwrap_or_default();
        rows.push(json!({
            "name": name, "about": about, "version": version, "from": if own { "project" } else { "shipped" },
            "path": found.shown, "valid": sound
        }));
    }
    // The project's own first.
    rows.sort_by_key(|row| row["from"] != "project");
    if command.json {
        out.json(&json!({ "servers": rows }));
        return Ok(0);
    }
    let width = rows.iter().map(|row| row["name"].as_str().unwrap_or_default().len()).max().unwrap_or(0);
    for row in &rows {
        let text = |key: &str| row[key].as_str().unwrap_or_default();
        let broken = if row["valid"] == true { "" } else { " (not valid: see `proofline check`)" };
        out.data(&format!("{:<width$}  {:<8} {}{broken}\n", text("name"), text("from"), text("about")));
    }
    Ok(0)
}

/// The file of a preset by name: the project's own, else the shipped one.
pub(super) fn find(project: &Project, name: &str) -> Option<Found> {
    if !is_slug(name) {
        return None;
    }
    project.find(&format!("{PRESETS}/{name}.toml")).ok().flatten()
}

/// A preset by name or by the path of its file.
pub(super) fn named(project: &Project, name: &str, json: bool) -> Result<(Found, Server), CliError> {
    let found = if is_path(name) {
        project.named_on_command_line(name).map_err(|e| CliError::Usage(e.to_string()))?
    } else {
        find(project, name).ok_or_else(|| unknown(project, name))?
    };
    let loaded = load::server(&found.shown, &found.bytes);
    match loaded.value {
        Some(preset) if !loaded.diagnostics.iter().any(Diagnostic::is_error) => Ok((found, preset)),
        _ => Err(CliError::Diagnostics { found: loaded.diagnostics, json }),
    }
}

fn is_preset_file(word: &str) -> bool {
    Path::new(word).extension().is_some_and(|e| e == "toml")
}

/// What the files that a preset names are relative to.
pub(super) fn root_of(project: &Project, found: &Found) -> PathBuf {
    match &found.origin {
        Origin::Disk(path) if !path.starts_with(&project.root) => {
            path.parent().map_or_else(|| project.root.clone(), Path::to_owned)
        }
        _ => project.root.clone(),
    }
}

fn unknown(project: &Project, name: &str) -> CliError {
    let known = project.names_in(PRESETS, &[]);
    let near = nearest(name, known.iter().map(String::as_str))
        .map_or_else(String::new, |near| format!("; did you mean the preset `{near}`?"));
    CliError::Usage(format!("`{name}` is neither a preset nor a program on PATH{near}"))
}

/// A preset as far as the command line says it.
fn typed(name: &str, words: &[String], tried: &Tried, project: &Project) -> Result<Server, CliError> {
    let command: Vec<String> = words.iter().map(|word| relative(word, project)).collect();
    if let Some(first) = command.first()
        && !first.starts_with('{')
        && process::find_program(first, &context::search_path(), &project.root).is_none()
    {
        return Err(CliError::Usage(format!(
            "`{first}` is no program: neither on PATH nor a file that can be executed"
        )));
    }
    let mut env = Map::new();
    for (key, value) in context::pairs("--env", &tried.env)? {
        env.insert(key, json!(value));
    }
    let preset = json!({
        "format": 1, "name": name, "command": command, "env": env, "secrets": tried.secrets,
        "transport": if tried.url.is_some() { "http" } else { "stdio" }, "url": tried.url,
    });
    serde_json::from_value(preset).map_err(|e| CliError::Usage(e.to_string()))
}

/// A word that names a file, as files of the project name it.
fn relative(word: &str, project: &Project) -> String {
    let Some(file) = identity::file_of(word, &project.cwd) else { return word.to_owned() };
    if word.starts_with('/') || project.cwd == project.root {
        return word.to_owned();
    }
    let shown = file.strip_prefix(&project.root).unwrap_or(&file);
    shown.to_string_lossy().into_owned()
}

fn installed(preset: &Server, project: &Project) -> Option<Installed> {
    let first = preset.command.first().filter(|first| !first.starts_with('{'))?;
    let program = process::find_program(first, &context::search_path(), &project.root)?;
    Some(package::of(&program, &preset.command[1..]))
}

fn look(preset: &Server, project: &Project, tried: &Tried, store: &Store) -> Result<Seen, CliError> {
    let trial = Trial {
        preset,
        root: project.root.clone(),
        query_tool: tried.query_tool.as_deref(),
        ingest_tool: tried.ingest_tool.as_deref(),
    };
    probe::look(&trial, store)
}

/// The preset's file.
fn preset_text(preset: &Server, seen: &Seen, package: Option<&Installed>, tried: &Tried) -> String {
    let mut doc = Doc::with_schema("../../schemas/server.json");
    doc.comment(
        "Written by `proofline servers add`, which started the server once on the sample corpus.\n\
         What was detected is stated, so that runs don't depend on detection: correct it where it is wrong.",
    );
    doc.pair("format", 1).pair("name", preset.name.as_str());
    doc.pair("about", format!("{} {}", seen.server.name, seen.server.version).trim());
    let managed = package.filter(|p| p.registry != Registry::None && !p.version.is_empty());
    if let Some(found) = managed {
        doc.comment("Of the installed package; raise it when you install another.");
        doc.pair("version", found.version.as_str());
        doc.pair("package", json!({ "registry": found.registry, "name": found.name }));
    } else {
        doc.comment(
            "As the server says, which may be its library's. Results are kept under it: raise it with the server.",
        );
        doc.pair("version", seen.server.version.as_str());
    }
    let mut names: BTreeSet<&str> = BTreeSet::new();
    names.extend(managed.map(|p| p.name.as_str()));
    names.extend([seen.server.name.as_str()].iter().filter(|name| !name.is_empty()));
    doc.pair("names", names.into_iter().collect::<Vec<_>>());
    doc.pair("transport", json!(preset.transport)).pair("command", preset.command.clone());
    doc.pair("url", json!(preset.url)).pair("secrets", preset.secrets.clone());
    doc.comment(&format!("directory, memory, none or external: {}.", seen.index_why));
    doc.pair("index", json!(seen.index));
    doc.pair("writes", seen.writes.clone());
    doc.comment(&seen.lines.map_or_else(
        || {
            "Not seen: no result had the line of a definition. `zero-based` if its line fields begin at 0."
                .to_owned()
        },
        |_| format!("Seen on {} definition(s).", seen.on_lines),
    ));
    doc.pair("lines", json!(seen.lines.unwrap_or_default()));
    if seen.start_ms > SLOW_START {
        doc.comment(&format!("It took {:.0} s to start.", seen.start_ms / 1e3));
        doc.pair("start-timeout", format!("{:.0}s", (seen.start_ms / 1e3 * 4.0).ceil()));
    }
    if !preset.env.is_empty() {
        doc.table(&["env"]);
        for (key, value) in &preset.env {
            doc.pair(key, value.as_str());
        }
    }
    for (slot, chosen) in [("ingest", &seen.ingest), ("query", &seen.query)] {
        let Some(tool) = &chosen.tool else { continue };
        if slot == "ingest" && chosen.how == "unsure" {
            doc.blank();
            doc.comment(&format!("Perhaps `{}` indexes; it was not tried: {}", tool.tool, chosen.why));
            doc.comment("[tools.ingest]");
            doc.comment(&format!("tool = {}", json!(tool.tool)));
            continue;
        }
        doc.table(&["tools", slot]);
        doc.comment(&how(chosen));
        doc.pair("tool", tool.tool.as_str()).pair("args", json!(tool.args));
    }
    let form = seen.form.unwrap_or_default();
    doc.table(&["query"]);
    doc.comment(match (&seen.form, &tried.query_tool) {
        (Some(Form::Question), _) => "It found the known answer with the whole question.",
        (Some(Form::Keywords), _) => {
            "It found the known answer only with the symbol's name, not with the whole question."
        }
        (None, _) => "Not seen: it found the known answer in neither form. `question` or `keywords`.",
    });
    doc.pair("form", json!(form));
    doc.text().to_owned()
}

/// How a tool was chosen, in a line.
fn how(chosen: &Chosen) -> String {
    let confidence = chosen.confidence.map_or_else(String::new, |c| format!(", confidence {c:.2}"));
    let word = match chosen.how {
        "given" | "none" => "",
        "sure" => "detected",
        _ => "detected, but not surely",
    };
    let head = format!("{word}{confidence}");
    let parts: Vec<&str> =
        [head.as_str(), chosen.why.as_str()].into_iter().filter(|p| !p.is_empty()).collect();
    parts.join(": ")
}

/// Puts the server into the default list of the project's main pipeline.
fn join(project: &Project, name: &str) -> Result<(), String> {
    let path = project.root.join(context::MAIN);
    let shown = context::MAIN;
    if !path.is_file() {
        return Err(format!("there is no {shown}"));
    }
    let bytes = fsio::read(&path).map_err(|e| e.explain())?;
    let text = String::from_utf8(bytes).map_err(|_| format!("{shown} is not UTF-8"))?;
    let no_list = || format!("{shown} has no list `params.servers.default`");
    let default = KeyPath::of(&["params", "servers", "default"]);
    let parse =
        |text: &str| load::read::<crate::manifest::pipeline::Pipeline>(shown, text.as_bytes()).document;
    let document = parse(&text);
    let before: Vec<Value> = document.get(&default).and_then(Value::as_array).ok_or_else(no_list)?.clone();
    if before.iter().any(|entry| entry == name) {
        return Ok(());
    }
    // After the last entry, so that comments and line breaks stay as they are.
    let place = match before.len().checked_sub(1) {
        Some(last) => document.value_place(&default.index(last)),
        None => document.value_place(&default),
    };
    let (head, tail) =
        (text.get(..place.end).ok_or_else(no_list)?, text.get(place.end..).ok_or_else(no_list)?);
    let edited = if before.is_empty() {
        format!("{}[\"{name}\"]{tail}", text.get(..place.start).ok_or_else(no_list)?)
    } else {
        format!("{head}, \"{name}\"{tail}")
    };
    let mut wanted = before;
    wanted.push(json!(name));
    if parse(&edited).get(&default) != Some(&Value::Array(wanted)) {
        return Err(format!("{shown} could not be edited"));
    }
    fsio::write_atomic(&path, edited.as_bytes(), Durability::Synced).map_err(|e| e.explain())
}

/// What was seen, in words.
fn told(name: &str, seen: &Seen) -> String {
    let mut text = format!(
        "{name} is {} {}: started in {:.0} ms, {} tool(s), {:.1} KiB of schema, {:.0} MiB of memory\n",
        if seen.server.name.is_empty() { "a server" } else { seen.server.name.as_str() },
        seen.server.version,
        seen.start_ms,
        seen.tools.len(),
        seen.schema_bytes as f64 / 1024.0,
        seen.rss_mib
    );
    for (what, chosen) in [("questions go to", &seen.query), ("indexing goes to", &seen.ingest)] {
        match &chosen.tool {
            Some(tool) => {
                let args: Vec<String> =
                    tool.args.iter().map(|(key, value)| format!("{key} = {value}")).collect();
                let _ = writeln!(text, "  {what} `{}` ({})", tool.tool, args.join(", "));
                let _ = writeln!(text, "    {}", how(chosen));
            }
            None => {
                let _ = writeln!(text, "  {what} no tool ({})", how(chosen));
            }
        }
    }
    match (&seen.ingest_error, seen.ingest_ms) {
        (Some(error), _) => {
            let _ = writeln!(text, "  indexing the sample failed: {error}");
        }
        (None, Some(ms)) => {
            let _ = writeln!(text, "  indexing the sample took {ms:.0} ms");
        }
        (None, None) => {}
    }
    let index = match seen.index {
        Index::Directory => "on disk",
        Index::Memory => "in memory",
        Index::None => "none",
        Index::External => "elsewhere",
    };
    let _ = writeln!(text, "  its index: {index} ({})", seen.index_why);
    for asked in [&seen.question, &seen.symbol].into_iter().flatten() {
        let _ = writeln!(text, "  \"{}\": {}", asked.text, came(asked));
    }
    let lines = match seen.lines {
        Some(Lines::OneBased) => format!("counted from 1 (seen on {} definitions)", seen.on_lines),
        Some(Lines::ZeroBased) => format!("counted from 0 (seen on {} definitions)", seen.on_lines),
        None => "no result had the line of a definition".to_owned(),
    };
    let _ = writeln!(text, "  lines: {lines}");
    if !seen.writes.is_empty() {
        let _ = writeln!(text, "  it added to its copy of the corpus: {}", seen.writes.join(", "));
    }
    if !seen.survivors.is_empty() {
        let _ = writeln!(text, "  it left processes behind, which were ended: {}", seen.survivors.join(", "));
    }
    text
}

fn came(asked: &Asked) -> String {
    match (&asked.error, asked.rank) {
        (Some(error), _) => format!("failed: {error}"),
        (None, Some(rank)) => format!(
            "the right file is number {rank} of {} result(s), {:.0} ms",
            asked.count, asked.latency_ms
        ),
        (None, None) => {
            format!("{} result(s), the right file is not among them, {:.0} ms", asked.count, asked.latency_ms)
        }
    }
}

/// What a person should look at before believing a row.
fn checks(preset: &Server, seen: &Seen, package: Option<&Installed>) -> Vec<String> {
    let mut out = Vec::new();
    if seen.query.how == "unsure" {
        out.push("the tool for questions was not chosen surely: see [tools.query]".to_owned());
    }
    if seen.ingest.how == "unsure" {
        out.push(
            "there may be a tool that indexes, which was not called: `--ingest-tool TOOL` names it"
                .to_owned(),
        );
    }
    if let Some(error) = &seen.ingest_error {
        out.push(format!("indexing failed, so its row will be in error: {error}"));
    }
    if seen.form.is_none() && seen.query.tool.is_some() {
        out.push(
            "it did not find the known answer: its rows will be marked invalid until it does. Is its index ready, are the arguments right?"
                .to_owned(),
        );
    }
    if seen.lines.is_none() {
        out.push("how it counts lines was not seen: see `lines`".to_owned());
    }
    if seen.index == Index::Directory && seen.form.is_none() {
        out.push("whether its index outlives its process was not seen: see `index`".to_owned());
    }
    if !seen.changed.is_empty() {
        out.push(format!("it changed files of the corpus: {}", seen.changed.join(", ")));
    }
    if !seen.survivors.is_empty() {
        out.push("it leaves processes behind: they are ended after each session".to_owned());
    }
    if seen.bad_frames > 0 {
        out.push(format!("{} line(s) on its standard output were no MCP messages", seen.bad_frames));
    }
    out.extend(package.and_then(|p| p.note.clone()));
    if let Some(found) = package
        && !found.version.is_empty()
        && !preset.version.is_empty()
        && found.version != preset.version
    {
        out.push(format!("version {} is installed, the preset states {}", found.version, preset.version));
    }
    out
}
