//! Whether the keys of a server preset go together.

use serde_json::Value;

use super::path::KeyPath;
use super::server::{Index, Registry, Server, Transport};
use super::source::Document;
use crate::diag::{Diagnostic, names, nearest};

/// Variables that a preset's texts may hold, by where.
const COMMAND: [&str; 6] = ["corpus", "state", "home", "tmp", "proofline", "port"];
const ARGUMENTS: [&str; 3] = ["query", "limit", "corpus"];

/// What doesn't fit together in a preset.
pub(super) fn check(server: &Server, document: &Document) -> Vec<Diagnostic> {
    let mut check = Check { document, found: Vec::new() };
    check.transport(server);
    check.index(server);
    check.variables(server);
    check.query(server);
    check.identity(server);
    check.found
}

struct Check<'d> {
    document: &'d Document,
    found: Vec<Diagnostic>,
}

impl Check<'_> {
    fn has(&self, key: &str) -> bool {
        self.document.get(&KeyPath::of(&[key])).is_some()
    }

    fn missing(&mut self, key: &str, why: &str, help: &str) {
        if self.has(key) && key != "command" || self.document.excuses(key) {
            return;
        }
        let place = if self.has(key) {
            self.document.value_place(&KeyPath::of(&[key]))
        } else if self.has("transport") {
            self.document.value_place(&KeyPath::of(&["transport"]))
        } else {
            self.document.value_place(&KeyPath::of(&["name"]))
        };
        let message = format!("{why} needs `{key}`");
        let mut error = Diagnostic::error("missing-key", message).at(place, "");
        if !self.has(key) {
            error = error.at(self.document.table_place(&KeyPath::root()), format!("no `{key}` in this file"));
        }
        self.found.push(error.help(help));
    }

    fn unused(&mut self, key: &str, why: &str, help: &str) {
        if self.has(key) {
            let place = self.document.key_place(&KeyPath::of(&[key]));
            let message = format!("`{key}` has no use in {why}");
            self.found.push(Diagnostic::error("misplaced-key", message).at(place, "").help(help));
        }
    }

    fn transport(&mut self, server: &Server) {
        let command = "add `command = [\"PROGRAM\", \"ARGUMENT\", ...]`";
        match server.transport {
            Transport::Stdio | Transport::Cli => {
                let why = if server.transport == Transport::Stdio {
                    "transport `stdio`"
                } else {
                    "transport `cli`"
                };
                if server.command.is_empty() {
                    self.missing("command", why, command);
                }
                self.unused("url", why, "leave it out, or set `transport = \"http\"`");
            }
            Transport::Http => {
                if server.url.is_none() {
                    self.missing("url", "transport `http`", "add `url = \"http://127.0.0.1:{port}/mcp\"`");
                }
            }
            Transport::Builtin => {
                if server.engine.is_none() {
                    self.missing(
                        "engine",
                        "transport `builtin`",
                        "add `engine = \"bm25\"` or another engine",
                    );
                }
                self.unused("url", "transport `builtin`", "leave it out");
                self.unused("command", "transport `builtin`", "leave it out, or set `transport = \"stdio\"`");
            }
        }
        if server.transport != Transport::Builtin {
            let help = "leave it out, or set `transport = \"builtin\"`";
            self.unused("engine", "a server that is no built-in engine", help);
            self.unused("profile", "a server that is no built-in engine", help);
        }
    }

    fn index(&mut self, server: &Server) {
        if server.index == Index::External {
            let help = "add `epoch = 1`, and raise it whenever the index has changed: it stands for the index in every key";
            self.missing("epoch", "an external index", help);
        } else {
            self.unused(
                "epoch",
                "a preset whose index isn't external",
                "leave it out, or set `index = \"external\"`",
            );
        }
        for (at, step) in server.pre_ingest.iter().enumerate() {
            if step.run.is_empty() {
                let place = self.document.value_place(&KeyPath::of(&["pre-ingest"]).index(at).key("run"));
                let error = Diagnostic::error("empty", "`run` of a pre-ingest step is empty");
                self.found.push(error.at(place, "").help("name a program and its arguments"));
            }
        }
    }

    fn variables(&mut self, server: &Server) {
        let command = KeyPath::of(&["command"]);
        for (at, text) in server.command.iter().enumerate() {
            self.text(text, &command.index(at), &COMMAND);
        }
        for (at, step) in server.pre_ingest.iter().enumerate() {
            let run = KeyPath::of(&["pre-ingest"]).index(at).key("run");
            for (index, text) in step.run.iter().enumerate() {
                self.text(text, &run.index(index), &COMMAND);
            }
        }
        for (use_of, tool) in [("ingest", &server.tools.ingest), ("query", &server.tools.query)] {
            let Some(tool) = tool else { continue };
            let args = KeyPath::of(&["tools", use_of, "args"]);
            for (key, value) in &tool.args {
                if let Some(text) = value.as_str() {
                    self.text(text, &args.key(key), &ARGUMENTS);
                }
            }
        }
    }

    /// A query tool that isn't told the question answers nothing.
    fn query(&mut self, server: &Server) {
        let Some(tool) = &server.tools.query else { return };
        if tool.args.is_empty() || tool.args.values().any(|value| mentions(value, "{query}")) {
            return;
        }
        let message = "no argument of the query tool holds the question";
        let place = self.document.table_place(&KeyPath::of(&["tools", "query", "args"]));
        let help = "put `{query}` into the argument that takes it, e.g. `query = \"{query}\"`";
        self.found.push(Diagnostic::error("no-query", message).at(place, "").help(help));
    }

    /// What comes from a registry is only named exactly with its version.
    fn identity(&mut self, server: &Server) {
        let Some(package) = &server.package else { return };
        if package.registry == Registry::None || !server.version.is_empty() || self.has("version") {
            return;
        }
        let message = format!("the preset `{}` names a package without its version", server.name);
        let place = self.document.value_place(&KeyPath::of(&["package"]));
        let error = Diagnostic::warning("no-version", message).at(place, "");
        let error = error.at(self.document.table_place(&KeyPath::root()), "no `version` in this file");
        self.found.push(
            error.help("add `version = \"...\"`: results of two versions would be taken for one another"),
        );
    }

    /// Only near misses of a variable are reported: braces mean other things to other programs.
    fn text(&mut self, text: &str, path: &KeyPath, known: &[&str]) {
        for part in text.split('{').skip(1) {
            let Some((name, _)) = part.split_once('}') else { continue };
            if let Some(near) = nearest(name, known.iter().copied()).filter(|_| !known.contains(&name)) {
                let all: Vec<String> = known.iter().map(|name| format!("{{{name}}}")).collect();
                let help =
                    format!("did you mean `{{{near}}}`? known: {}", names(all.iter().map(String::as_str), 8));
                let place = self.document.value_place(path);
                let message = format!("`{{{name}}}` is no variable of a preset");
                self.found.push(Diagnostic::error("unknown-variable", message).at(place, "").help(help));
            }
        }
    }
}

/// Whether a text is part of a value at any depth that a file can have.
fn mentions(value: &Value, text: &str) -> bool {
    match value {
        Value::String(own) => own.contains(text),
        Value::Array(list) => list.iter().any(|entry| mentions(entry, text)),
        Value::Object(table) => table.values().any(|entry| mentions(entry, text)),
        _ => false,
    }
}
