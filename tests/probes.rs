//! What is promised of a run, tried as `benches/probes.py` does by hand: what a killed engine
//! leaves, early cutoff, two runs at once, edited outputs, a typo in a manifest.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test")]

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

struct Project {
    dir: tempfile::TempDir,
}

/// A node: name, input, the node that it needs, script.
type Node<'a> = (&'a str, Option<&'a str>, Option<&'a str>, &'a str);

impl Project {
    fn new(nodes: &[Node<'_>]) -> Self {
        let project = Self { dir: tempfile::tempdir().unwrap() };
        let list = |name: Option<&str>| name.map_or_else(|| "[]".to_owned(), |name| format!("[{name:?}]"));
        let mut text = "format = 1\nname = \"probe\"\n".to_owned();
        for (name, input, need, script) in nodes {
            write!(
                text,
                "\n[stage.{name}]\nkind = \"command\"\nrun = [\"/bin/sh\", \"-c\", {script:?}]\ninputs = {}\n\
                 needs = {}\noutputs = {{ text = {{ path = \"{name}.txt\" }} }}\n",
                list(*input),
                list(*need)
            )
            .unwrap();
        }
        project.write("pipelines/main.toml", &text);
        project.write("s", "one\n");
        project
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn start(&self, args: &[&str]) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_proofline"));
        command.args(args).args(["--store", ".proofline"]).current_dir(self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    fn go(&self, args: &[&str]) -> Output {
        self.start(args).wait_with_output().unwrap()
    }

    /// How many nodes a run executed; it must end well.
    fn run(&self) -> usize {
        executed(&self.go(&["run", "--trust", "--json", "--jobs", "2"]))
    }

    fn shown(&self, node: &str) -> String {
        String::from_utf8(self.go(&["show", node, "--part", "text"]).stdout).unwrap()
    }

    /// Events of a kind in all journals.
    fn events(&self, kind: &str) -> usize {
        let runs = std::fs::read_dir(self.path(".proofline/runs")).into_iter().flatten().flatten();
        let journals = runs.filter_map(|run| std::fs::read_to_string(run.path().join("journal.jsonl")).ok());
        journals.map(|text| text.matches(&format!("\"type\":\"{kind}\"")).count()).sum()
    }

    /// Starts a run and kills the engine, without warning, once there are so many events.
    fn killed(&self, kind: &str, number: usize) {
        let mut child = self.start(&["run", "--trust", "--json", "--jobs", "2"]);
        let start = Instant::now();
        while self.events(kind) < number {
            assert!(
                start.elapsed() < Duration::from_mins(1) && child.try_wait().unwrap().is_none(),
                "{kind}"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(200));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

fn executed(output: &Output) -> usize {
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_str(&said).unwrap();
    usize::try_from(json["nodes"]["executed"].as_u64().unwrap()).unwrap()
}

#[test]
fn a_partial_output_is_not_accepted_after_a_kill() {
    let project =
        Project::new(&[("a", Some("s"), None, "echo partial > a.txt; sleep 2; echo full >> a.txt")]);
    project.killed("started", 1);
    assert_eq!((project.run(), project.shown("a").as_str()), (1, "partial\nfull\n"));
}

#[test]
fn an_output_that_is_the_same_cuts_off() {
    let project = Project::new(&[
        ("a", Some("s"), None, "wc -l < s > a.txt"),
        ("b", None, Some("a"), "cat in/a/text > b.txt"),
    ]);
    assert_eq!(project.run(), 2);
    project.write("s", "two\n");
    assert_eq!(project.run(), 1);
    project.write("s", "two\nlines\n");
    assert_eq!(project.run(), 2);
}

#[test]
fn two_runs_at_once_share_the_work() {
    let project = Project::new(&[
        ("n0", Some("s"), None, "sleep 1; echo 0 > n0.txt"),
        ("n1", Some("s"), None, "sleep 1; echo 1 > n1.txt"),
        ("n2", Some("s"), None, "sleep 1; echo 2 > n2.txt"),
    ]);
    let args = ["run", "--trust", "--json", "--jobs", "3"];
    let runs = [project.start(&args), project.start(&args)];
    let done: usize = runs.into_iter().map(|run| executed(&run.wait_with_output().unwrap())).sum();
    assert_eq!((done, project.events("started")), (3, 3));
}

#[test]
fn an_edited_output_is_not_taken_for_what_the_node_made() {
    let project = Project::new(&[("a", Some("s"), None, "cat s > a.txt")]);
    project.write("s", &"as the node made it\n".repeat(9));
    assert_eq!(project.run(), 1);
    let sound = project.shown("a");
    project.write("a.txt", "TAMPERED\n");
    assert_eq!((project.run(), project.shown("a")), (0, sound.clone()));
    let packs = std::fs::read_dir(project.path(".proofline/packs")).unwrap();
    let mut edited = 0;
    for pack in packs.map(|entry| entry.unwrap().path()) {
        let mut bytes = std::fs::read(&pack).unwrap();
        while let Some(at) = bytes.windows(8).position(|piece| piece == b"the node") {
            bytes[at..at + 8].copy_from_slice(b"somebody");
            edited += 1;
        }
        std::fs::write(pack, bytes).unwrap();
    }
    assert!(edited > 0);
    let refused = project.go(&["show", "a", "--part", "text"]);
    assert!(!refused.status.success() && refused.stdout.is_empty(), "{refused:?}");
    assert!(!project.go(&["store", "verify"]).status.success());
    assert_eq!((project.run(), project.shown("a")), (1, sound));
}

#[test]
fn exactly_what_was_not_finished_is_executed_again() {
    let script = "sleep 0.2; echo x > n.txt";
    let names: Vec<(String, String)> =
        (0..12).map(|n| (format!("n{n}"), script.replace("n.txt", &format!("n{n}.txt")))).collect();
    let nodes: Vec<Node<'_>> =
        names.iter().map(|(name, script)| (name.as_str(), Some("s"), None, script.as_str())).collect();
    let project = Project::new(&nodes);
    project.killed("done", 4);
    let done = project.events("done");
    assert!((4..12).contains(&done), "{done}");
    // What the store has is finished, also where the journal had not told of it yet.
    let stats: serde_json::Value =
        serde_json::from_slice(&project.go(&["store", "stats", "--json"]).stdout).unwrap();
    let finished = usize::try_from(stats["records"].as_u64().unwrap()).unwrap();
    assert!(finished >= done, "{stats}");
    assert_eq!(project.run(), 12 - finished);
}

#[test]
fn a_typo_is_shown_where_it_stands() {
    let project = Project::new(&[("a", Some("s"), None, "cat s > a.txt")]);
    let text = std::fs::read_to_string(project.path("pipelines/main.toml")).unwrap();
    project.write("pipelines/main.toml", &text.replace("inputs", "inptus"));
    let output = project.go(&["check", "pipelines/main.toml"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    let at = lines.iter().position(|line| line.contains("pipelines/main.toml:7:1")).expect(&said);
    assert_eq!(lines[at + 2], "7 | inptus = [\"s\"]");
    assert_eq!(lines[at + 3].trim_end(), "  | ^^^^^^ not known here");
    assert!(said.contains("did you mean `inputs`?"), "{said}");
}
