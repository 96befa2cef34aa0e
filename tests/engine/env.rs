//! A temporary project with its own store, and the program run in it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use serde_json::Value;

pub(crate) const BIN: &str = env!("CARGO_BIN_EXE_proofline");

/// A project in a folder that goes away with it.
pub(crate) struct Env {
    dir: tempfile::TempDir,
    pub(crate) root: PathBuf,
}

/// What a command said.
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Standard output as one JSON value.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|e| panic!("{e}\nstdout: {}\nstderr: {}", self.stdout, self.stderr))
    }

    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }
}

/// The fake server: an example, which `cargo test` builds beside the tests.
pub(crate) fn fake() -> PathBuf {
    let fake = Path::new(BIN).parent().unwrap().join("examples/fake-mcp");
    assert!(fake.is_file(), "{} is not built: run `cargo test` or `cargo build --examples`", fake.display());
    fake
}

pub(crate) const TASKS: usize = 3;

const SEARCH: &str = r#"
[stage.index]
kind = "ingest"
over = ["repo", "arm"]

[stage.warm]
kind  = "warmup"
needs = ["index"]

[stage.search]
kind   = "session"
driver = "retrieval"
needs  = ["warm"]
over   = ["repo", "replicate", "arm"]

[stage.score]
kind    = "grade"
needs   = ["search", "index"]
graders = ["ranking", "latency", "resources"]

[stage.summary]
kind  = "aggregate"
needs = ["score"]

[composite.retrieval]
"hit@5" = 0.75
"mrr"   = 0.25
"#;

impl Env {
    /// A project with a small corpus `tiny`, three questions and a pipeline
    /// `pipelines/servers.toml` over server presets.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("project");
        std::fs::create_dir_all(root.join(".git")).unwrap();
        let env = Self { dir, root };
        for name in ["alpha", "beta", "gamma"] {
            let text = format!("import os\n\n\ndef compute_{name}(x):\n    return x\n");
            env.write(&format!("datasets/tiny/src/{name}.py"), &text);
        }
        env.write(
            "datasets/repos.toml",
            "format = 1\n\n[repo.tiny]\npath = \"tiny\"\nlanguage = \"python\"\n\
             known = { symbol = \"compute_beta\", question = \"where is compute_beta defined?\", \
             file = \"src/beta.py\" }\n",
        );
        env.write("datasets/questions/tiny.toml", &questions(&["alpha", "beta", "gamma"], 1));
        env.write("pipelines/servers.toml", &over_servers("good"));
        env
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// A place outside the project.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Replaces a text that must be there.
    pub(crate) fn edit(&self, name: &str, old: &str, new: &str) {
        let text = self.read(name);
        assert!(text.contains(old), "{name} has no {old:?}");
        self.write(name, &text.replace(old, new));
    }

    /// A preset of the fake with these flags; `extra` is TOML for the preset's
    /// root, without tables unless it maps tools itself. Its starts and requests are logged outside the project.
    pub(crate) fn server(&self, name: &str, flags: &[&str], extra: &str) {
        let log = self.outside(&format!("{name}.log"));
        let script = format!(
            "#!/bin/sh\nexec '{}' --name {name} --log '{}' \"$@\"\n",
            fake().display(),
            log.display()
        );
        self.script(&format!("servers/{name}.sh"), &script);
        let mapping = if extra.contains("[tools") {
            ""
        } else {
            "\n[tools.ingest]\ntool = \"index_project\"\nargs = { path = \"{corpus}\" }\n\n[tools.query]\n\
             tool = \"search_code\"\nargs = { query = \"{query}\", limit = \"{limit}\" }\n"
        };
        let words: Vec<String> = flags.iter().map(|f| format!(", {f:?}")).collect();
        self.write(
            &format!("presets/servers/{name}.toml"),
            &format!(
                "format = 1\nname = \"{name}\"\nversion = \"1.0\"\n\
                 command = [\"servers/{name}.sh\"{}]\nindex = \"directory\"\n{extra}\n{mapping}",
                words.concat()
            ),
        );
    }

    pub(crate) fn script(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt;
        self.write(name, text);
        std::fs::set_permissions(self.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Starts of a fake so far.
    pub(crate) fn starts(&self, name: &str) -> usize {
        let log = std::fs::read_to_string(self.outside(&format!("{name}.log"))).unwrap_or_default();
        log.lines().filter(|line| line.starts_with("start ")).count()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(BIN);
        command.args(args).current_dir(&self.root).env_clear().stdin(Stdio::null());
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Said {
        Said::of(self.command(args).output().unwrap())
    }

    /// `run PIPELINE --trust --json ...`, which must give its object.
    pub(crate) fn go(&self, args: &[&str]) -> Value {
        let mut all = vec!["run"];
        all.extend(args);
        all.extend(["--trust", "--json"]);
        let said = self.run(&all);
        let json = said.json();
        assert_eq!(json["exit"], said.code, "{json} {}", said.stderr);
        json
    }

    /// The same, which must end well; the ids of what it executed.
    pub(crate) fn executed(&self, args: &[&str]) -> BTreeSet<String> {
        let json = self.go(args);
        assert_eq!((&json["state"], &json["exit"]), (&"complete".into(), &0.into()), "{json}");
        let report = self.run(&["report", "latest", "--json"]).ok().json();
        assert_eq!(report["run"]["run"], json["run"]);
        let ids: BTreeSet<String> = report["run"]["executed"].as_array().unwrap().iter().map(text).collect();
        assert_eq!(json["nodes"]["executed"], ids.len(), "{json}");
        ids
    }

    /// Starts a command whose output is kept; its own process group.
    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        use std::os::unix::process::CommandExt;
        let mut command = self.command(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        command.spawn().unwrap()
    }

    /// Rows of the newest run.
    pub(crate) fn rows(&self) -> Vec<Value> {
        let said = self.run(&["report", "latest", "--rows"]).ok();
        said.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A pipeline of so many nodes `make` that take a while, and one, `all`, that gathers them.
pub(crate) fn slow(name: &str, seconds: &str, nodes: usize) -> String {
    let values: Vec<String> = (1..=nodes).map(|n| format!("\"{n}\"")).collect();
    format!(
        r#"
format = 1
name   = "{name}"

[params]
seconds = {{ default = "{seconds}" }}

[axes]
n = [{}]

[stage.make]
kind    = "command"
over    = ["n"]
run     = ["sh", "-c", "sleep {{{{ params.seconds }}}}; echo {{{{ n }}}} > out.txt"]
outputs = {{ text = {{ path = "out.txt" }} }}

[stage.all]
kind    = "command"
needs   = ["make"]
over    = []
run     = ["sh", "-c", "cat in/make/*/text > all.txt"]
outputs = {{ text = {{ path = "all.txt" }} }}
"#,
        values.join(", ")
    )
}

/// Process id of a spawned command, which is that of its group.
pub(crate) fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap())
}

/// Process ids of the supervisors of runs in a project.
pub(crate) fn supervisors(env: &Env) -> Vec<Pid> {
    let of_project = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let here = std::fs::read_link(format!("/proc/{pid}/cwd")).ok();
        line.windows(9).any(|w| w == b"supervise") && here.as_deref() == Some(env.root.as_path())
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(of_project).map(Pid::from_raw).collect()
}

/// Waits for the end of a spawned command.
pub(crate) fn wait(child: Child) -> Said {
    Said::of(child.wait_with_output().unwrap())
}

/// Waits until `done` gives something; fails after `seconds`.
pub(crate) fn until<T>(seconds: u64, what: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = done() {
            return value;
        }
        assert!(start.elapsed() < Duration::from_secs(seconds), "not within {seconds} s: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

/// The question file of `tiny`: one question per word, and warm-up prompts.
pub(crate) fn questions(words: &[&str], warmups: usize) -> String {
    let mut out = "format = 1\nrepo = \"tiny\"\n".to_owned();
    for at in 0..warmups {
        let prompt = format!("where does alpha number {at} start?");
        out += &[
            "\n[[warmup]]\nid = \"w-",
            &at.to_string(),
            "\"\nkind = \"locate\"\nprompt = \"",
            &prompt,
            "\"\n",
        ]
        .concat();
    }
    for word in words {
        out += &question(word, word);
    }
    out
}

pub(crate) fn question(id: &str, word: &str) -> String {
    format!(
        "\n[[question]]\nid = \"t-{id}\"\nkind = \"locate\"\ndifficulty = \"easy\"\n\
         prompt = \"where is compute_{word} defined?\"\nfiles = [\"src/{word}.py\"]\n"
    )
}

/// A retrieval pipeline over servers, by default these.
pub(crate) fn over_servers(default: &str) -> String {
    let list: Vec<String> = default.split(',').map(|s| format!("{s:?}")).collect();
    format!(
        "format = 1\nname = \"servers\"\nseed = 7\n\n[params]\nservers = {{ default = [{}], list = true }}\n\
         replicates = {{ default = 1, min = 1 }}\n\n[arm.each]\nover = \"{{{{ params.servers }}}}\"\n\
         server = \"{{{{ item }}}}\"\n\n[axes]\nrepo = [\"tiny\"]\n\
         replicate = {{ count = \"{{{{ params.replicates }}}}\" }}\narm = \"all\"\n{SEARCH}",
        list.join(", ")
    )
}

/// A retrieval pipeline over two arms with tables of their own.
pub(crate) fn with_arms(arms: &[(&str, &str)]) -> String {
    let tables: Vec<String> =
        arms.iter().map(|(arm, server)| format!("[arm.{arm}]\nserver = {server:?}\n")).collect();
    format!(
        "format = 1\nname = \"arms\"\nseed = 7\n\n{}\n[axes]\nrepo = [\"tiny\"]\n\
         replicate = {{ count = 1 }}\narm = \"all\"\n{SEARCH}",
        tables.join("\n")
    )
}

/// Ids whose stage is one of these.
pub(crate) fn of_stages(ids: &BTreeSet<String>, stages: &[&str]) -> BTreeSet<String> {
    ids.iter().filter(|id| stages.contains(&id.split('[').next().unwrap())).cloned().collect()
}

pub(crate) fn set(ids: &[&str]) -> BTreeSet<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}
