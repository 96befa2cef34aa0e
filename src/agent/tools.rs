//! Names of tools: which server a tool is of, and one vocabulary for what agents bring along.

use crate::artifact::transcript::Call;

/// Common names of the agents' own tools, by lower-cased raw names.
const COMMON: [(&str, &[&str]); 11] = [
    ("Read", &["read", "read_file", "readfile", "view", "view_file", "read_many_files"]),
    ("Grep", &["grep", "grep_search", "search_file_content", "ripgrep"]),
    ("Glob", &["glob", "find_files", "file_search"]),
    ("LS", &["ls", "list", "list_directory", "list_dir"]),
    (
        "Bash",
        &[
            "bash",
            "shell",
            "shell_command",
            "local_shell",
            "exec_command",
            "command_execution",
            "container.exec",
            "run_shell_command",
            "execute_bash",
            "bash_command",
            "terminal",
        ],
    ),
    ("Edit", &["edit", "multiedit", "replace", "apply_patch", "patch", "file_change", "str_replace_editor"]),
    ("Write", &["write", "write_file"]),
    ("WebFetch", &["webfetch", "web_fetch"]),
    ("WebSearch", &["websearch", "web_search", "web_search_call", "google_web_search"]),
    ("Agent", &["agent", "task", "spawn_agent"]),
    ("ToolSearch", &["toolsearch", "tool_search"]),
];

/// How a dialect puts a server's name before its tool's.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefix {
    /// `mcp__server__tool`.
    Mcp,
    /// `server_tool`, or the other where a stream was rewritten.
    Bare,
}

/// A call with its server and tool told apart. `known` are servers by their configured names.
pub(super) fn call<'k>(name: String, prefix: Prefix, known: impl Iterator<Item = &'k str>) -> Call {
    let mut known: Vec<&str> = known.collect();
    // Of two servers one of which begins like the other, the longer one is meant.
    known.sort_by_key(|server| std::cmp::Reverse(server.len()));
    let (server, tool) = match split(&name, prefix, &known) {
        Some((server, tool)) => (Some(server), tool),
        None => (None, common(&name).to_owned()),
    };
    Call { id: None, name, server, tool, input: serde_json::Value::Null }
}

/// The common name of an agent's own tool, or the name itself.
pub(super) fn common(name: &str) -> &str {
    if name.len() > 32 {
        return name;
    }
    let lower = name.to_ascii_lowercase();
    COMMON.iter().find(|(_, raw)| raw.contains(&lower.as_str())).map_or(name, |(common, _)| common)
}

fn split(name: &str, prefix: Prefix, known: &[&str]) -> Option<(String, String)> {
    if let Some(rest) = name.strip_prefix("mcp__") {
        let by_known = known.iter().find_map(|server| after(rest, server, "__"));
        let (server, tool) = by_known.or_else(|| rest.split_once("__"))?;
        return (!server.is_empty() && !tool.is_empty()).then(|| (server.to_owned(), tool.to_owned()));
    }
    if prefix == Prefix::Bare {
        let (server, tool) = known.iter().find_map(|server| after(name, server, "_"))?;
        return (!tool.is_empty()).then(|| (server.to_owned(), tool.to_owned()));
    }
    None
}

/// What comes after a server's name and `between`; agents write `_` for what a tool's name can't have.
fn after<'a>(name: &'a str, server: &'a str, between: &str) -> Option<(&'a str, &'a str)> {
    if server.is_empty() {
        return None;
    }
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let mut rest = name.chars();
    server.chars().all(|c| rest.next() == Some(plain(c))).then_some(())?;
    rest.as_str().strip_prefix(between).map(|tool| (server, tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, prefix: Prefix, known: &[&str]) -> String {
        let call = call(name.to_owned(), prefix, known.iter().copied());
        format!("{}/{}", call.server.unwrap_or_default(), call.tool)
    }

    #[test]
    fn servers_and_tools_are_told_apart() {
        for (name, known, want) in [
            ("mcp__codeindex__find_files", &[][..], "codeindex/find_files"),
            ("mcp__a__b__c", &[], "a/b__c"),
            ("mcp__a__b__c", &["a__b"], "a__b/c"),
            ("mcp__my_server__x", &["my server"], "my server/x"),
            ("mcp__a_b__x", &["a", "a.b"], "a.b/x"),
            ("mcp__lonely", &[], "/mcp__lonely"),
            ("mcp____x", &[], "/mcp____x"),
            ("codeindex_find", &["codeindex"], "/codeindex_find"),
            ("Task", &[], "/Agent"),
            ("grep_search", &[], "/Grep"),
            ("NotebookEdit", &[], "/NotebookEdit"),
        ] {
            assert_eq!(told(name, Prefix::Mcp, known), want, "{name}");
        }
        for (name, known, want) in [
            ("codeindex_find_files", &["codeindex"][..], "codeindex/find_files"),
            ("codeindex_find_files", &[], "/codeindex_find_files"),
            ("code_index_find", &["code", "code.index"], "code.index/find"),
            ("codeindex_", &["codeindex"], "/codeindex_"),
            ("mcp__sense__graph", &[], "sense/graph"),
            ("read", &["re"], "/Read"),
            ("\u{e9}_x", &["\u{e9}"], "/\u{e9}_x"),
        ] {
            assert_eq!(told(name, Prefix::Bare, known), want, "{name}");
        }
    }
}
