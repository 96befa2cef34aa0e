//! What a session's calls were for.

use serde_json::Value;

use crate::artifact::transcript::Call;

/// Programs of a shell that look something up in files.
const SHELL: [&str; 9] = ["grep", "egrep", "fgrep", "rg", "ag", "ack", "find", "fd", "git-grep"];

/// What a call looks up, and by what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lookup {
    /// A tool of an MCP server.
    Server,
    /// A search of the agent's own, or one by a shell.
    Search,
    /// A file was read.
    Read,
}

/// What a call looks up; none for what is no look-up.
pub(super) fn lookup(call: &Call) -> Option<Lookup> {
    if call.server.is_some() {
        return Some(Lookup::Server);
    }
    match call.tool.as_str() {
        "Grep" | "Glob" => Some(Lookup::Search),
        "Read" => Some(Lookup::Read),
        "Bash" if searches_by_shell(call) => Some(Lookup::Search),
        _ => None,
    }
}

/// Whether a call searches without a server.
pub(super) fn searches(call: &Call) -> bool {
    lookup(call) == Some(Lookup::Search)
}

fn searches_by_shell(call: &Call) -> bool {
    let command = match call.input.get("command").or_else(|| call.input.get("cmd")) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(words)) => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        _ => return false,
    };
    command.split(['|', ';', '&', '\n', '(', '`', '"', '\'']).any(|part| {
        let mut words = part.split_whitespace().skip_while(|word| word.contains('=') || *word == "sudo");
        let program = words.next().unwrap_or_default();
        let name = program.rsplit('/').next().unwrap_or(program);
        SHELL.contains(&name) || name == "git" && words.next() == Some("grep")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_shell_searches_by_its_programs_not_by_its_letters() {
        let shell = |command: &str| Call {
            tool: "Bash".to_owned(),
            input: json!({ "command": command }),
            ..Call::default()
        };
        for command in [
            "grep -rn x .",
            "cat a | rg y",
            "FOO=1 /usr/bin/find . -name x",
            "git grep z",
            "bash -lc \"rg -n x\"",
        ] {
            assert!(searches(&shell(command)), "{command}");
        }
        for command in ["cd myorg && ls", "cat grep.txt", "git log", "echo agrep"] {
            assert!(!searches(&shell(command)), "{command}");
        }
        let served = Call { server: Some("s".to_owned()), tool: "grep".to_owned(), ..Call::default() };
        assert_eq!(lookup(&served), Some(Lookup::Server));
    }
}
