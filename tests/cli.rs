//! The program as a user meets it: folders, files, exit codes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use proofline::fsio;
use serde_json::Value;
use tempfile::TempDir;

/// Every command that `--help` lists, in its order.
const COMMANDS: [&str; 29] = [
    "init", "check", "plan", "run", "status", "attach", "logs", "cancel", "spend", "settle", "runs",
    "report", "diff", "explain", "export", "gate", "why", "show", "replay", "graph", "servers", "datasets",
    "import", "lock", "trust", "doctor", "store", "schema", "mcp",
];

/// A folder of one's own, and nothing of the environment but PATH.
struct TestEnv {
    dir: TempDir,
}

struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|e| panic!("{e}: {} {}", self.out, self.err))
    }

    #[track_caller]
    fn ok(self) -> Self {
        assert_eq!(self.code, 0, "stdout: {}\nstderr: {}", self.out, self.err);
        self
    }
}

impl TestEnv {
    fn new() -> Self {
        let env = Self { dir: tempfile::tempdir().expect("a folder") };
        fsio::create_dir(&env.path("home")).expect("it works");
        fsio::create_dir(&env.path("tmp")).expect("it works");
        fsio::create_dir(&env.path("p")).expect("it works");
        env
    }

    fn path(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    /// A file of the project.
    fn file(&self, path: &str) -> String {
        let bytes = fsio::read(&self.path("p").join(path)).unwrap_or_else(|e| panic!("{}", e.explain()));
        String::from_utf8(bytes).expect("it works")
    }

    fn put(&self, path: &str, text: &str) {
        fsio::write_plain(&self.path("p").join(path), text.as_bytes()).expect("it works");
    }

    fn run(&self, args: &[&str]) -> Ran {
        self.run_on(args, "")
    }

    /// With a folder in front of PATH.
    fn run_on(&self, args: &[&str], bin: &str) -> Ran {
        let path = proofline::process::secret("PATH").unwrap_or_default();
        let path = if bin.is_empty() { path } else { format!("{bin}:{path}") };
        let output: Output = Command::new(env!("CARGO_BIN_EXE_proofline"))
            .args(args)
            .current_dir(self.path("p"))
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .output()
            .expect("the program");
        Ran {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

fn fake() -> String {
    let bin = Path::new(env!("CARGO_BIN_EXE_proofline"));
    let fake = bin.parent().expect("a folder").join("examples/fake-mcp");
    assert!(fake.is_file(), "{} is not built: `cargo test` without --test builds examples", fake.display());
    fake.to_string_lossy().into_owned()
}

fn oracle() -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/oracle");
    path.is_dir().then_some(path)
}

fn listed(help: &str) -> Vec<String> {
    help.lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| !line.trim().is_empty())
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .collect()
}

#[test]
fn help_lists_exactly_the_documented_commands() {
    let env = TestEnv::new();
    let help = env.run(&["--help"]).ok().out;
    let found: BTreeSet<String> = listed(&help).into_iter().collect();
    let wanted: BTreeSet<String> = COMMANDS.iter().map(|c| (*c).to_owned()).collect();
    assert_eq!(found, wanted);
    for command in COMMANDS {
        let help = env.run(&[command, "--help"]).ok().out;
        assert!(help.contains("Usage: proofline"), "{command}: {help}");
        for inner in listed(&help) {
            assert!(env.run(&[command, &inner, "--help"]).ok().out.contains("Usage:"), "{command} {inner}");
        }
    }
    assert_eq!(env.run(&["nonsense"]).code, 1);
}

#[test]
fn three_commands_give_a_server_a_row() {
    let env = TestEnv::new();
    let first = env.run(&["init"]).ok();
    assert!(first.out.contains("wrote pipelines/main.toml"), "{}", first.out);
    assert!(first.out.contains("servers add") && first.out.contains("proofline run"), "{}", first.out);
    let before = env.file("pipelines/main.toml");
    let again = env.run(&["init"]).ok();
    assert!(again.out.contains("kept pipelines/main.toml"), "{}", again.out);
    assert_eq!(env.file("pipelines/main.toml"), before);
    env.run(&["check"]).ok();

    let added = env.run(&["servers", "add", "mine", "--", &fake(), "--name", "mine-mcp"]).ok();
    assert!(added.out.contains("`search_code`") && added.out.contains("`index_project`"), "{}", added.out);
    let preset = env.file("presets/servers/mine.toml");
    for wanted in [
        "name = \"mine\"",
        "version = \"1.0.0\"",
        "index = \"directory\"",
        "lines = \"one-based\"",
        "tool = \"index_project\"",
        "tool = \"search_code\"",
        "args = { query = \"{query}\", limit = \"{limit}\" }",
        "confidence",
        "form = \"question\"",
    ] {
        assert!(preset.contains(wanted), "{wanted}: {preset}");
    }
    assert!(env.file("pipelines/main.toml").contains("[\"grep\", \"bm25\", \"mine\"]"));
    env.run(&["check"]).ok();
    // Not a second time, and not under a name that is none.
    assert_eq!(env.run(&["servers", "add", "mine", "--", &fake()]).code, 1);
    assert_eq!(env.run(&["servers", "add", "a b", "--", &fake()]).code, 1);
    assert_eq!(env.run(&["servers", "add", "ghost", "--", "no-such-program-here"]).code, 1);

    let listed = env.run(&["servers", "list", "--json"]).ok().json();
    let row = listed["servers"].as_array().unwrap().iter().find(|row| row["name"] == "mine").unwrap().clone();
    assert_eq!(row["from"], "project");

    // `servers add` was the permission: no question, no --trust.
    let ran = env.run(&["run", "--set", "replicates=1", "--json"]).ok().json();
    assert_eq!(ran["state"], "complete");
    let report = env.run(&["report", "--json"]).ok().json();
    let arms: Vec<&str> =
        report["result"]["arms"].as_array().unwrap().iter().filter_map(|arm| arm["arm"].as_str()).collect();
    for arm in ["grep", "bm25", "mine"] {
        assert!(arms.contains(&arm), "{arms:?}");
    }
    let rows = env.run(&["report", "--rows"]).ok().out;
    let states: BTreeSet<String> = rows
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|row| row["arm"] == "mine")
        .map(|row| row["state"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(states, BTreeSet::from(["valid".to_owned()]));
}

#[test]
fn a_probe_shows_what_it_saw_and_writes_nothing() {
    let env = TestEnv::new();
    env.run(&["init"]).ok();
    let seen = env.run(&["servers", "probe", "--json", "--", &fake(), "--tools", "confusing"]).ok().json();
    assert_eq!(seen["query"]["tool"]["tool"], "search_code");
    assert_eq!(seen["ingest"]["tool"]["tool"], "index_codebase");
    assert!(seen["symbol"]["rank"].as_u64().is_some_and(|rank| rank <= 10), "{}", seen["symbol"]);
    assert_eq!(seen["form"], "question");
    assert_eq!(seen["survivors"], serde_json::json!([]));
    assert!(seen["rss_mib"].as_f64().unwrap() > 0.1 && seen["schema_bytes"].as_u64().unwrap() > 100);
    assert_eq!(seen["tools"].as_array().unwrap().len(), 4);
    assert!(!env.path("p/presets/servers/probed.toml").exists());
    let text = env.run(&["servers", "probe", "--", &fake()]).ok().out;
    assert!(text.contains("as normalised") && text.contains("rules/src/smoothing.rs"), "{text}");

    // A shipped preset by name: its index lives in memory, it understands questions.
    let seen = env.run(&["servers", "probe", "bm25", "--json"]).ok().json();
    assert_eq!((seen["form"].as_str(), seen["lines"].as_str()), (Some("question"), Some("one-based")));

    // The same engine as a stranger: its index is found to end with its process.
    let exe = env!("CARGO_BIN_EXE_proofline");
    let seen = env.run(&["servers", "probe", "--json", "--", exe, "mcp", "--engine", "bm25"]).ok().json();
    assert_eq!(seen["index"], "memory", "{}", seen["index_why"]);

    let gone = env.run(&["servers", "probe", "--", &fake(), "--exit-at-once"]);
    assert_eq!(gone.code, 3, "{}", gone.err);
    assert!(gone.err.contains("exited with code 3"), "{}", gone.err);
    let nothing = env.run(&["servers", "add", "nothing", "--", &fake(), "--tools", "none"]);
    assert_eq!(nothing.code, 1, "{}", nothing.err);
    assert!(nothing.err.contains("--query-tool"), "{}", nothing.err);
    assert!(!env.path("p/presets/servers/nothing.toml").exists());
    assert_eq!(env.run(&["servers", "probe", "serenaa"]).code, 1);
}

#[test]
fn a_server_that_finds_nothing_is_told_so() {
    let env = TestEnv::new();
    env.run(&["init"]).ok();
    let added = env.run(&["servers", "add", "empty", "--", &fake(), "--nothing", "--daemon"]).ok();
    assert!(added.out.contains("did not find the known answer"), "{}", added.out);
    assert!(added.out.contains("left processes behind"), "{}", added.out);
}

#[test]
fn init_with_code_asks_questions_that_verify() {
    let env = TestEnv::new();
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/sample");
    fsio::tree::copy(&sample, &env.path("p/code")).unwrap();
    env.run(&["init", "--repo", "code", "--name", "mine"]).ok();
    let repos = env.file("datasets/repos.toml");
    assert!(repos.contains("[repo.mine]") && repos.contains("path = \"../code\""), "{repos}");
    let questions = env.file("datasets/questions/mine.toml");
    assert!(
        questions.contains("Generated by `proofline init`")
            && questions.matches("[[question]]").count() >= 15
    );
    let verified = env.run(&["datasets", "verify", "--json"]).ok().json();
    assert_eq!(verified["diagnostics"], serde_json::json!([]), "{verified}");
    assert_eq!(verified["checked"], serde_json::json!(["mine"]));
    env.run(&["check"]).ok();
    env.run(&["plan"]).ok();

    // The same code elsewhere makes the same questions; what lies outside is copied.
    let other = TestEnv::new();
    fsio::tree::copy(&sample, &other.path("outside")).unwrap();
    let told = other.run(&["init", "--repo", "../outside", "--name", "mine"]).ok().out;
    assert!(told.contains("is a copy of ../outside"), "{told}");
    assert_eq!(other.file("datasets/questions/mine.toml"), questions);
    assert!(other.path("p/datasets/mine/rules/src/smoothing.rs").is_file());
    other.run(&["datasets", "verify"]).ok();
    let ran = other.run(&["run", "--set", "replicates=1", "--set", "servers=grep", "--json"]).ok().json();
    assert_eq!(ran["state"], "complete");
    assert_eq!(env.run(&["init", "--repo", "nowhere"]).code, 1);
}

#[test]
fn datasets_are_held_against_their_code() {
    let env = TestEnv::new();
    let shipped = env.run(&["datasets", "verify"]).ok();
    assert!(shipped.out.contains("held against") && shipped.out.contains("sample"), "{}", shipped.out);
    assert!(shipped.out.contains("flask: only its files were read"), "{}", shipped.out);
    assert!(!env.path("p/.proofline").exists(), "verifying leaves nothing behind");

    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    fsio::tree::copy(&root.join("datasets/sample"), &env.path("p/datasets/sample")).unwrap();
    let repos = "format = 1\n\n[repo.sample]\npath = \"sample\"\n";
    env.put("datasets/repos.toml", repos);
    let questions =
        String::from_utf8(fsio::read(&root.join("datasets/questions/sample.toml")).unwrap()).unwrap();
    env.put("datasets/questions/sample.toml", &questions);
    env.run(&["datasets", "verify"]).ok();

    let first = questions.lines().position(|line| line.starts_with("files")).expect("files");
    let mut spoiled: Vec<&str> = questions.lines().collect();
    let line = "files      = [\"rules/src/no_such_file.rs\"]";
    spoiled[first] = line;
    env.put("datasets/questions/sample.toml", &spoiled.join("\n"));
    let found = env.run(&["datasets", "verify"]);
    assert_eq!(found.code, 1);
    let place = format!("datasets/questions/sample.toml:{}:{}", first + 1, line.find('"').unwrap() + 1);
    assert!(found.err.contains(&place) && found.err.contains("missing-file"), "{place}: {}", found.err);
    let json = env.run(&["datasets", "verify", "datasets", "--json"]);
    assert_eq!((json.code, json.json()["exit"].as_u64()), (1, Some(1)));
    assert_eq!(json.json()["diagnostics"][0]["place"], place);
    assert_eq!(env.run(&["datasets", "verify", "nowhere"]).code, 1);
}

#[test]
fn another_benchmark_is_imported_and_run() {
    let env = TestEnv::new();
    assert_eq!(env.run(&["import", "rag-bench", "nowhere"]).code, 1);
    let Some(oracle) = oracle().map(|path| path.join("rag-bench")).filter(|path| path.is_dir()) else {
        println!("skipped: no oracle");
        return;
    };
    let done = env.run(&["import", "rag-bench", &oracle.to_string_lossy(), "--json"]).json();
    let written: Vec<&str> = done["written"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(written.contains(&"imported/rag-bench/repos.toml"), "{written:?}");
    assert!(done["questions"].as_u64().unwrap() >= 35);
    let questions = env.file("imported/rag-bench/questions/flask.toml");
    assert!(questions.contains("profile = \"rag-bench\""), "{questions}");
    let verified = env.run(&["datasets", "verify", "imported/rag-bench", "--json"]).json();
    assert!(verified["skipped"].as_array().unwrap().iter().any(|s| s["repo"] == "flask"), "{verified}");
    let args =
        ["plan", "retrieval", "--set", "datasets=imported/rag-bench", "--set", "repos=flask", "--json"];
    let planned = env.run(&args).ok().json();
    assert!(!planned["nodes"].as_array().unwrap().is_empty());
    println!("oracle checks: 4");
}

#[test]
fn doctor_says_what_is_missing() {
    let env = TestEnv::new();
    let all = env.run(&["doctor", "--json"]).ok().json();
    let names: Vec<&str> =
        all["checks"].as_array().unwrap().iter().filter_map(|c| c["name"].as_str()).collect();
    for name in ["machine", "confinement", "git", "pip", "npm", "cargo", "disk", "clock", "store"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let server =
        |name: &str| all["servers"].as_array().unwrap().iter().find(|s| s["name"] == name).unwrap().clone();
    assert_eq!(server("bm25")["usable"], true);
    env.put(
        "presets/servers/absent.toml",
        "format = 1\nname = \"absent\"\nversion = \"1.2\"\ncommand = [\"no-such-program-here\"]\n\
         secrets = [\"NO_SUCH_SECRET\"]\npackage = { registry = \"pypi\", name = \"absent-mcp\" }\n\
         [env]\nMODEL = \"/nowhere/model\"\n",
    );
    let told = env.run(&["doctor", "absent"]);
    assert_eq!(told.code, 3);
    for wanted in
        ["no-such-program-here", "NO_SUCH_SECRET", "/nowhere/model", "pip install 'absent-mcp==1.2'"]
    {
        assert!(told.out.contains(wanted), "{wanted}: {}", told.out);
    }
    assert_eq!(env.run(&["doctor", "nothing-of-that-name"]).code, 1);
    // A project's own server is started only when it may be.
    let text = format!("format = 1\nname = \"own\"\ncommand = [\"{}\"]\n", fake());
    env.put("presets/servers/own.toml", &text);
    assert_eq!(env.run(&["doctor", "own", "--start"]).code, 1);
    let started = env.run(&["doctor", "own", "--start", "--trust"]).ok();
    assert!(started.out.contains("2 tool(s)"), "{}", started.out);
}

#[test]
fn a_lock_pins_what_is_installed() {
    let env = TestEnv::new();
    env.run(&["init"]).ok();
    let bin = env.path("bin");
    fsio::create_dir(&bin).unwrap();
    fsio::tree::make_link(&bin.join("fake-mcp"), &fake()).unwrap();
    let bin = bin.to_string_lossy().into_owned();
    env.run_on(&["servers", "add", "mine", "--", "fake-mcp"], &bin).ok();
    let refused = env.run_on(&["run", "--locked", "--set", "replicates=1", "--json"], &bin);
    assert_eq!(refused.code, 1, "{}", refused.err);
    assert!(refused.err.contains("mine") && refused.err.contains("proofline lock"), "{}", refused.err);

    let locked = env.run_on(&["lock", "--json"], &bin).ok().json();
    assert_eq!(locked["changed"]["mine"], "new");
    assert_eq!(locked["own"], serde_json::json!(["bm25", "grep"]));
    let lock = env.file("proofline.lock");
    assert!(lock.contains("[server.mine]"), "{lock}");
    env.run(&["check"]).ok();
    assert_eq!(env.run_on(&["lock", "--json"], &bin).ok().json()["changed"]["mine"], "as before");
    assert_eq!(env.file("proofline.lock"), lock);
    let args = ["run", "--locked", "--set", "replicates=1", "--set", "servers=mine", "--json"];
    assert_eq!(env.run_on(&args, &bin).ok().json()["state"], "complete");
    // Planning needs nothing installed; locking does.
    env.run(&["plan", "--set", "servers=mine"]).ok();
    let gone = env.run(&["lock"]);
    assert_eq!(gone.code, 3);
    assert!(gone.err.contains("`fake-mcp` is not on PATH"), "{}", gone.err);
    assert_eq!(env.file("proofline.lock"), lock);
}

#[test]
fn programs_before_a_server_are_listed_and_asked_for() {
    let env = TestEnv::new();
    env.run(&["init"]).ok();
    env.put(
        "presets/servers/mine.toml",
        "format = 1\nname = \"mine\"\ncommand = [\"serve-here\"]\n\n[[pre-ingest]]\nrun = [\"make-index\", \".\"]\n\n\
         [[pre-ingest]]\nrun = [\"sh\", \"-c\", \"echo one\"]\n",
    );
    let named = ["--set", "servers=mine"];
    let listed = env.run(&["trust", named[0], named[1]]).ok().out;
    for program in ["not allowed\tserve-here", "not allowed\tmake-index", "not allowed\tsh -c echo one"] {
        assert!(listed.contains(program), "{program}: {listed}");
    }
    let refused = env.run(&["run", named[0], named[1]]);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("make-index"), "{}", refused.err);
    env.run(&["trust", "--yes", named[0], named[1]]).ok();
    let listed = env.run(&["trust", named[0], named[1]]).ok().out;
    assert!(!listed.contains("not allowed"), "{listed}");
    // Other code for the same shell is another question.
    let text = env.file("presets/servers/mine.toml").replace("echo one", "echo two");
    env.put("presets/servers/mine.toml", &text);
    assert_eq!(env.run(&["run", named[0], named[1]]).code, 1);
}

#[test]
fn a_corpus_comes_from_an_archive_on_disk() {
    let env = TestEnv::new();
    let code = env.path("p/code");
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/sample");
    fsio::tree::copy(&sample, &code).unwrap();
    let packed =
        Command::new("tar").args(["-czf", "code.tar.gz", "code"]).current_dir(env.path("p")).status();
    if !packed.is_ok_and(|status| status.success()) {
        println!("skipped: no tar");
        return;
    }
    let set = ["--set", "replicates=1", "--set", "servers=grep", "--set"];
    let of = |source: &str| {
        let mut args = vec!["run", "quickstart", "--json"];
        args.extend(set);
        args.push(source);
        env.run(&args)
    };
    assert_eq!(of("corpus.sample=code.tar.gz").ok().json()["state"], "complete");
    // The same files from a folder are the same corpus.
    assert_eq!(of("corpus.sample=code").ok().json()["nodes"]["executed"], 0);
    let bad = of("corpus.sample=nothing.tar.gz");
    assert_eq!(bad.code, 1);
    assert_eq!(bad.json()["diagnostics"][0]["code"], "bad-source");
}
