//! What makes a server the server that it is: the value that recipes hold.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::digest::Digest;
use crate::fsio::tree;
use crate::manifest::server::{Server, Transport};
use crate::retrieve;

/// Digests of project files, remembered while one command runs.
pub type Digests<'a> = &'a mut dyn FnMut(&Path) -> Option<Digest>;

/// Identity of a server: everything that can change what it does, and no name
/// that people give it, no absolute path, no time.
///
/// Program and script stand as name and digest where they are files, so moving
/// a project changes nothing and changing a script does. `locked` is its entry in the
/// lock file; without one an installed package is known by its version only.
#[must_use]
pub fn server(preset: &Server, root: &Path, locked: Option<&str>, digests: Digests<'_>) -> Value {
    let mut files: Vec<Value> = Vec::new();
    for input in &preset.inputs {
        let digest = digests(&root.join(input)).map(|d| d.hex());
        files.push(json!([input, digest]));
    }
    let command = words(&preset.command, root, digests);
    let pre: Vec<Value> = preset
        .pre_ingest
        .iter()
        .map(|step| json!({ "run": words(&step.run, root, digests), "cwd": step.cwd }))
        .collect();
    let mut out = BTreeMap::new();
    let mut put = |name: &str, value: Value, default: Value| {
        // A field at its default is left out: a new field changes no existing key.
        if value != default {
            out.insert(name.to_owned(), value);
        }
    };
    put("version", json!(preset.version), json!(""));
    put("package", json!(preset.package), Value::Null);
    put("transport", json!(preset.transport), json!(Transport::Stdio));
    put("command", json!(command), json!([]));
    put("url", json!(preset.url), Value::Null);
    put("engine", json!(engine(preset)), Value::Null);
    put("weights", json!(weights(preset, root, digests)), json!([]));
    put("env", json!(preset.env), json!({}));
    put("secrets", json!(preset.secrets), json!([]));
    put("files", json!(files), json!([]));
    put("index", json!(preset.index), json!("directory"));
    put("epoch", json!(preset.epoch), json!(0));
    put("lifecycle", json!(preset.lifecycle), json!("initialize"));
    put("index-directories", json!(preset.index_directories), json!([]));
    put("pre-ingest", json!(pre), json!([]));
    put("ingest-tool", json!(preset.tools.ingest), Value::Null);
    put("writes", json!(preset.writes), json!([]));
    put("lock", json!(locked), Value::Null);
    json!(out)
}

/// Files of the folder that a preset gives to a built-in engine as `--weights`:
/// name and digest.
fn weights(preset: &Server, root: &Path, digests: Digests<'_>) -> Vec<Value> {
    let at = preset.command.iter().position(|word| word == "--weights");
    let Some(folder) = at.and_then(|at| preset.command.get(at + 1)) else { return Vec::new() };
    let folder = root.join(folder);
    let paths = tree::list(&folder).unwrap_or_default();
    paths.iter().map(|path| json!([path, digests(&folder.join(path)).map(|d| d.hex())])).collect()
}

/// Version of the built-in engine that a preset starts, if it starts one.
fn engine(preset: &Server) -> Option<String> {
    if preset.transport == Transport::Builtin {
        return retrieve::identity(preset.engine.as_deref()?, preset.profile.as_deref());
    }
    let option = |name: &str| {
        let at = preset.command.iter().position(|word| word == name)?;
        preset.command.get(at + 1).map(String::as_str)
    };
    if preset.command.first().is_none_or(|word| word != "{proofline}") {
        return None;
    }
    retrieve::identity(option("--engine")?, option("--profile"))
}

/// The file that a word of a command names, if it names one: an absolute path,
/// or one relative to the project that has a `/` or an extension. A bare word
/// is a program on the `PATH` or an argument, whatever files there are.
#[must_use]
pub fn file_of(word: &str, root: &Path) -> Option<PathBuf> {
    let bare = !word.contains('/') && Path::new(word).extension().is_none();
    if bare || word.contains('{') || word.starts_with('-') {
        return None;
    }
    let path = root.join(word);
    path.is_file().then_some(path)
}

/// Programs that run the first file that they are given.
const INTERPRETERS: [&str; 15] = [
    "bash", "bun", "deno", "dotnet", "java", "lua", "node", "npx", "perl", "php", "pwsh", "python", "ruby",
    "sh", "uv",
];

/// Index of the script among a command's words: the first file that an
/// interpreter is given, else the first file that is no option's value. Other
/// files are data (a log, a database): who wants them to count names them
/// under `inputs`.
#[must_use]
pub fn script_of(words: &[String], root: &Path) -> Option<usize> {
    let program = Path::new(words.first()?).file_name()?.to_string_lossy().into_owned();
    let program = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let interpreter = INTERPRETERS.contains(&program);
    (1..words.len()).find(|at| {
        let option = words[at - 1].starts_with('-');
        (interpreter || !option) && file_of(&words[*at], root).is_some()
    })
}

/// A command as recipes hold it: its program and script, where they are files,
/// by name and content.
fn words(command: &[String], root: &Path, digests: Digests<'_>) -> Vec<Value> {
    let script = script_of(command, root);
    let mut out = Vec::new();
    for (at, word) in command.iter().enumerate() {
        let file = if at == 0 || Some(at) == script { file_of(word, root) } else { None };
        out.push(match file {
            Some(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                json!({ "file": name, "digest": digests(&path).map(|d| d.hex()) })
            }
            None => json!(word),
        });
    }
    out
}

/// A server without a lock entry whose package is installed from somewhere:
/// its identity rests on the version that the preset states.
#[must_use]
pub fn is_unlocked(preset: &Server, root: &Path, locked: Option<&str>) -> bool {
    let own =
        preset.command.first().is_none_or(|word| word == "{proofline}" || file_of(word, root).is_some());
    locked.is_none() && !own && preset.transport != Transport::Builtin
}

/// Digest of an installed program for the lock file: of the file that `argv[0]`
/// resolves to, or of the package folder beside it when there is one.
#[must_use]
pub fn installed(program: &Path) -> Option<Digest> {
    tree::hash_file(program).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fsio::write_plain;

    fn preset(command: &[&str]) -> Server {
        let command = json!(command);
        serde_json::from_value(json!({ "format": 1, "name": "mine", "command": command })).unwrap()
    }

    fn identity(preset: &Server, root: &Path) -> Value {
        server(preset, root, None, &mut |path| tree::hash_file(path).ok())
    }

    #[test]
    fn a_script_counts_by_content_and_not_by_place() {
        let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for dir in [&a, &b] {
            write_plain(&dir.path().join("tools/serve.py"), b"print(1)").unwrap();
        }
        let relative = preset(&["python3", "tools/serve.py", "--fast"]);
        let here = identity(&relative, a.path());
        assert_eq!(here, identity(&relative, b.path()));
        let absolute = a.path().join("tools/serve.py").to_string_lossy().into_owned();
        assert_eq!(here, identity(&preset(&["python3", &absolute, "--fast"]), b.path()));
        write_plain(&b.path().join("tools/serve.py"), b"print(2)").unwrap();
        assert_ne!(here, identity(&relative, b.path()));
    }

    #[test]
    fn a_log_that_a_server_writes_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("calls.log").to_string_lossy().into_owned();
        write_plain(&dir.path().join("serve.py"), b"print(1)").unwrap();
        write_plain(&dir.path().join("tool.bin"), b"1").unwrap();
        let tool = dir.path().join("tool.bin").to_string_lossy().into_owned();
        for command in [vec!["python3", "-u", "serve.py", "--log", &log], vec![tool.as_str(), "--log", &log]]
        {
            let before = identity(&preset(&command), dir.path());
            write_plain(Path::new(&log), b"one call").unwrap();
            assert_eq!(before, identity(&preset(&command), dir.path()), "{command:?}");
            std::fs::remove_file(&log).unwrap();
        }
    }

    #[test]
    fn weights_of_a_built_in_engine_count_by_content() {
        let dir = tempfile::tempdir().unwrap();
        write_plain(&dir.path().join("weights/model.bin"), b"one").unwrap();
        let embed = preset(&["{proofline}", "mcp", "--engine", "embed", "--weights", "weights"]);
        let one = identity(&embed, dir.path());
        write_plain(&dir.path().join("weights/model.bin"), b"two").unwrap();
        assert_ne!(one, identity(&embed, dir.path()));
    }

    #[test]
    fn names_for_people_do_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let mut one = preset(&["serve"]);
        let before = identity(&one, dir.path());
        "other".clone_into(&mut one.name);
        "words".clone_into(&mut one.about);
        assert_eq!(before, identity(&one, dir.path()));
        "2.0".clone_into(&mut one.version);
        assert_ne!(before, identity(&one, dir.path()));
    }
}
