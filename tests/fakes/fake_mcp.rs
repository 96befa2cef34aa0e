//! A scripted MCP server with a fault menu, std only, so that it shares no
//! code with what it tests.
//!
//! It speaks over standard input and output, with `--http PORT` a minimal
//! streamable HTTP, and with `list-tools` or `call-tool NAME JSON` at the end
//! of its arguments the command line protocol. By default it offers
//! `index_project(path)` and `search_code(query, limit)`: a plain substring
//! search over the folder that was indexed last (remembered under `HOME`),
//! answering `{"results": [{"file", "line", "text"}]}`.
#![expect(
    clippy::exit,
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::zombie_processes,
    reason = "a fake server, not a part of the program"
)]

mod fake_json;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio, exit};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use fake_json::{Json, quote};

const MENU: &str = "fake-mcp [FLAG...] [list-tools | call-tool NAME JSON]
  --name NAME            what it calls itself (fake)
  --version V            its version (1.0.0)
  --log FILE             appends `start PID` and one line per request
  --tools VARIANT        default, search, confusing, none
  --answers FILE         JSON object: query to list of results
  --nothing              every search finds nothing
  --unicode              odd paths and names in results
  --is-error             every search ends with isError
  --rpc-error            every search ends with a JSON-RPC error
  --task-result          every search answers with a task
  --index-error WORDS    indexing ends with isError and these words
  --slow-first N:MS      the first N searches take MS milliseconds
  --slow MS              every search takes MS milliseconds
  --slow-index MS        indexing takes MS milliseconds
  --discover             speaks the revision of 2026-07-28 only
  --never-initialize     reads and says nothing
  --exit-at-once         says why on standard error, and exits with 3
  --die-in-call N        exits with 7 in the middle of the Nth search
  --hang-in-call N       never answers the Nth search
  --close-stdout N       closes its output in the Nth search and lives on
  --reply-mb MB          every search answers with so much text
  --flood-stderr MB      writes so much to standard error first
  --garbage              lines that are no JSON-RPC before every reply
  --half-lines           replies in two pieces, and half a line before
  --wrong-ids            replies to requests that nobody made, before the right one
  --only-wrong-ids       searches are answered under another id
  --server-requests      asks us for things before answering, and waits
  --pages N              lists its tools in N pages
  --page-loop            the pages have no end
  --endless-pages        nor any repetition
  --daemon               leaves a process in a session of its own
  --grandchild-mb MB     starts a child that holds so much memory
  --ignore-stdin-close   stays when its input ends
  --http PORT            streamable HTTP on 127.0.0.1
";

/// Flags, and what comes after them.
#[derive(Clone, Debug, Default)]
struct Flags {
    set: BTreeMap<String, String>,
    rest: Vec<String>,
}

impl Flags {
    fn read() -> Self {
        let mut flags = Self::default();
        let mut args = std::env::args().skip(1).peekable();
        while let Some(arg) = args.next() {
            let Some(name) = arg.strip_prefix("--") else {
                flags.rest.push(arg);
                continue;
            };
            if name == "help" {
                say(MENU);
                exit(0);
            }
            if !MENU.contains(&format!("--{name} ")) && name != "hold-mb" {
                let _ = writeln!(std::io::stderr(), "fake-mcp: no flag --{name}");
                exit(2);
            }
            let takes_value = name == "hold-mb"
                || MENU.lines().any(|line| {
                    line.trim_start()
                        .strip_prefix(&format!("--{name} "))
                        .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
                });
            let value = if takes_value { args.next().unwrap_or_default() } else { String::new() };
            flags.set.insert(name.to_owned(), value);
        }
        flags
    }

    fn has(&self, name: &str) -> bool {
        self.set.contains_key(name)
    }

    fn text(&self, name: &str, default: &str) -> String {
        self.set.get(name).cloned().unwrap_or_else(|| default.to_owned())
    }

    fn number(&self, name: &str) -> Option<usize> {
        self.set.get(name).and_then(|v| v.parse().ok())
    }
}

struct Server {
    flags: Flags,
    root: Option<PathBuf>,
    searches: usize,
    pages: usize,
}

/// What a request is answered with.
enum Answer {
    Result(String),
    Error(i64, String),
}

impl Server {
    fn log(&self, line: &str) {
        if let Some(path) = self.flags.set.get("log") {
            let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
            // One write, so that lines of several processes don't mix.
            file.write_all(format!("{line}\n").as_bytes()).unwrap();
        }
    }

    fn handle(&mut self, method: &str, params: &Json) -> Answer {
        match method {
            "initialize" if !self.flags.has("discover") => {
                let asked = params.get("protocolVersion").text();
                let version = if asked.is_empty() { "2025-06-18" } else { asked };
                Answer::Result(format!(
                    "{{\"protocolVersion\":{},\"capabilities\":{{\"tools\":{{}}}},\
                     \"serverInfo\":{{\"name\":{},\"version\":{}}}}}",
                    quote(version),
                    quote(&self.flags.text("name", "fake")),
                    quote(&self.flags.text("version", "1.0.0"))
                ))
            }
            "server/discover" if self.flags.has("discover") => Answer::Result(format!(
                "{{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],\
                 \"capabilities\":{{\"tools\":{{}}}},\"ttlMs\":0,\"cacheScope\":\"private\",\
                 \"_meta\":{{\"io.modelcontextprotocol/serverInfo\":{{\"name\":{},\"version\":{}}}}}}}",
                quote(&self.flags.text("name", "fake")),
                quote(&self.flags.text("version", "1.0.0"))
            )),
            "ping" => Answer::Result("{}".to_owned()),
            "tools/list" => Answer::Result(self.list(params)),
            "tools/call" => self.call(params.get("name").text(), params.get("arguments")),
            other => Answer::Error(-32601, format!("method not found: {other}")),
        }
    }

    fn list(&mut self, params: &Json) -> String {
        let tools = tools(&self.flags.text("tools", "default"));
        if self.flags.has("page-loop") {
            return format!("{{\"tools\":[{}],\"nextCursor\":\"again\"}}", tools.join(","));
        }
        if self.flags.has("endless-pages") {
            self.pages += 1;
            return format!("{{\"tools\":[],\"nextCursor\":\"page{}\"}}", self.pages);
        }
        let pages = self.flags.number("pages").unwrap_or(1).max(1);
        let page: usize = params.get("cursor").text().trim_start_matches("page").parse().unwrap_or(0);
        let size = tools.len().div_ceil(pages).max(1);
        let shown: Vec<String> = tools.iter().skip(page * size).take(size).cloned().collect();
        let next = page + 1;
        let cursor = if next < pages { format!(",\"nextCursor\":\"page{next}\"") } else { String::new() };
        format!("{{\"tools\":[{}]{cursor}}}", shown.join(","))
    }

    fn call(&mut self, tool: &str, args: &Json) -> Answer {
        match tool {
            "index_project" | "index_codebase" => self.index(args),
            "search_code" => self.search(args),
            "get_index_status" => result("{\"status\":\"ready\",\"files\":3}", false),
            "clear_index" => result("cleared", false),
            other => result(&format!("Unknown tool: {other}"), true),
        }
    }

    fn index(&mut self, args: &Json) -> Answer {
        pause(self.flags.number("slow-index").unwrap_or(0));
        if let Some(words) = self.flags.set.get("index-error") {
            return result(words, true);
        }
        let path = PathBuf::from(args.get("path").text());
        if !path.is_dir() {
            return result(&format!("not a folder: {}", path.display()), true);
        }
        let files = files_of(&path);
        let bytes: u64 = files.iter().filter_map(|f| fs::metadata(f).ok()).map(|m| m.len()).sum();
        if let Some(place) = memory_place() {
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(&place, path.to_string_lossy().as_bytes()).unwrap();
        }
        self.root = Some(path);
        result(&format!("{{\"indexed\":{},\"bytes\":{bytes}}}", files.len()), false)
    }

    fn search(&mut self, args: &Json) -> Answer {
        self.searches += 1;
        let nth = self.searches;
        if let Some((n, ms)) = self.flags.text("slow-first", "").split_once(':')
            && n.parse().is_ok_and(|n: usize| nth <= n)
        {
            pause(ms.parse().unwrap_or(0));
        }
        pause(self.flags.number("slow").unwrap_or(0));
        if self.flags.number("hang-in-call") == Some(nth) {
            loop {
                pause(1_000_000);
            }
        }
        if self.flags.has("rpc-error") {
            return Answer::Error(-32603, "the engine is broken: fetch failed".to_owned());
        }
        if self.flags.has("is-error") {
            return result("Error: the index is not ready, see src/broken.py:12", true);
        }
        if self.flags.has("task-result") {
            return Answer::Result("{\"resultType\":\"task\",\"task\":{\"taskId\":\"1\"}}".to_owned());
        }
        if self.flags.has("nothing") {
            return result("{\"results\":[]}", false);
        }
        if let Some(mb) = self.flags.number("reply-mb") {
            return result(&"x".repeat(mb << 20), false);
        }
        let query = args.get("query").text();
        let limit = match args.get("limit") {
            Json::Number(n) => n.parse().unwrap_or(10),
            _ => 10,
        };
        if let Some(file) = self.flags.set.get("answers") {
            let answers = fs::read_to_string(file).ok().and_then(|text| Json::parse(&text));
            let found = answers.unwrap_or(Json::Null).get(query).write();
            let found = if found == "null" { "[]".to_owned() } else { found };
            return result(&format!("{{\"results\":{found}}}"), false);
        }
        if self.flags.has("unicode") {
            let hits = [
                ("src\\Größe\\módulo.py", "función"),
                ("C:\\corpus\\src\\日本.py", "検索"),
                ("./src/naïve file.py", "naïve"),
            ];
            let hits: Vec<String> = hits
                .iter()
                .map(|(f, s)| format!("{{\"file\":{},\"line\":7,\"symbol\":{}}}", quote(f), quote(s)))
                .collect();
            return result(&format!("{{\"results\":[{}]}}", hits.join(",")), false);
        }
        let root = self.root.clone().or_else(remembered).unwrap_or_else(|| PathBuf::from("."));
        result(&format!("{{\"results\":[{}]}}", find(&root, query, limit).join(",")), false)
    }
}

fn result(text: &str, is_error: bool) -> Answer {
    Answer::Result(format!(
        "{{\"content\":[{{\"type\":\"text\",\"text\":{}}}],\"isError\":{is_error}}}",
        quote(text)
    ))
}

fn memory_place() -> Option<PathBuf> {
    std::env::var_os("HOME").map(|home| Path::new(&home).join(".fake-mcp/root"))
}

fn remembered() -> Option<PathBuf> {
    fs::read_to_string(memory_place()?).ok().map(PathBuf::from)
}

/// All files below a folder, in bytewise order, without `.git`.
fn files_of(root: &Path) -> Vec<PathBuf> {
    let (mut found, mut todo) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = todo.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && entry.file_name() != ".git" {
                todo.push(entry.path());
            } else if kind.is_file() {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    found
}

/// Lines that hold the whole query, or else its longest word that occurs at all.
fn find(root: &Path, query: &str, limit: usize) -> Vec<String> {
    let texts: Vec<(String, String)> = files_of(root)
        .into_iter()
        .filter_map(|file| {
            let text = fs::read_to_string(&file).ok().filter(|t| t.len() < 1 << 20 && !t.contains('\0'))?;
            let name = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().into_owned();
            Some((name, text))
        })
        .collect();
    let mut words: Vec<&str> =
        query.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| w.chars().count() > 3).collect();
    words.sort_by_key(|w| std::cmp::Reverse(w.len()));
    for needle in std::iter::once(query).chain(words) {
        let hits: Vec<String> = texts
            .iter()
            .flat_map(|(name, text)| {
                text.lines().enumerate().filter(|(_, line)| line.contains(needle)).map(move |(n, line)| {
                    let (name, line) = (quote(name), quote(line.trim()));
                    format!("{{\"file\":{name},\"line\":{},\"text\":{line}}}", n + 1)
                })
            })
            .take(limit)
            .collect();
        if !hits.is_empty() && !needle.is_empty() {
            return hits;
        }
    }
    Vec::new()
}

fn tools(variant: &str) -> Vec<String> {
    let tool = |name: &str, about: &str, properties: &str, required: &str| {
        format!(
            "{{\"name\":{},\"description\":{},\"inputSchema\":{{\"type\":\"object\",\
             \"properties\":{{{properties}}},\"required\":[{required}]}}}}",
            quote(name),
            quote(about)
        )
    };
    let path = "\"path\":{\"type\":\"string\",\"description\":\"folder of the project\"}";
    let query = "\"query\":{\"type\":\"string\",\"description\":\"words to look for\"},\
                 \"limit\":{\"type\":\"integer\",\"default\":10}";
    let index = |name: &str| tool(name, "Index all files of a project folder.", path, "\"path\"");
    let search = tool("search_code", "Search the indexed code.", query, "\"query\"");
    match variant {
        "none" => vec![tool("get_index_status", "Status of the index.", "", "")],
        "search" => vec![search],
        "confusing" => vec![
            tool("get_index_status", "Status of the index.", "", ""),
            tool("clear_index", "Delete the index.", "", ""),
            search,
            index("index_codebase"),
        ],
        _ => vec![index("index_project"), search],
    }
}

fn pause(ms: usize) {
    std::thread::sleep(Duration::from_millis(ms as u64));
}

/// Writes to standard output; a closed one ends us.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_err() {
        exit(1);
    }
}

fn main() {
    let flags = Flags::read();
    if let Some(mb) = flags.number("hold-mb") {
        // Every page is written to, or it would not count.
        let held: Vec<u8> = (0..mb << 20).map(|i| u8::try_from(i % 251).unwrap()).collect();
        say(&format!("holding {}\n", held.len()));
        let _ = std::io::stdin().read(&mut [0]);
        std::hint::black_box(&held);
        return;
    }
    let mut server = Server { flags: flags.clone(), root: None, searches: 0, pages: 0 };
    server.log(&format!("start {}", std::process::id()));
    if flags.has("exit-at-once") {
        let _ = writeln!(std::io::stderr(), "\x1b[31mfatal\x1b[0m: the model could not be loaded");
        exit(3);
    }
    if flags.has("daemon") {
        let mut daemon = Command::new("setsid");
        daemon.args(["sleep", "300"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        daemon.spawn().unwrap();
    }
    let _held = flags.number("grandchild-mb").map(|mb| {
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["--hold-mb", &mb.to_string()]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = child.spawn().unwrap();
        // It says so when it holds all of it.
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        child
    });
    if let Some(mb) = flags.number("flood-stderr") {
        let line = format!("{}\n", "noise ".repeat(170));
        for _ in 0..(mb << 20) / line.len() {
            let _ = std::io::stderr().write_all(line.as_bytes());
        }
    }
    match flags.rest.first().map(String::as_str) {
        Some("list-tools") => say(&format!("{}\n", server.list(&Json::Null))),
        Some("call-tool") => {
            let args = flags.rest.get(2).and_then(|text| Json::parse(text)).unwrap_or(Json::Null);
            let name = flags.rest.get(1).cloned().unwrap_or_default();
            server.log(&format!("call {name}"));
            match server.call(&name, &args) {
                Answer::Result(text) => say(&format!("{text}\n")),
                Answer::Error(code, words) => {
                    let _ = writeln!(std::io::stderr(), "error {code}: {words}");
                    exit(1);
                }
            }
        }
        _ => match flags.number("http") {
            Some(port) => serve_http(server, u16::try_from(port).unwrap()),
            None => serve_stdio(server),
        },
    }
}

fn serve_stdio(mut server: Server) {
    let flags = server.flags.clone();
    let mut lines = std::io::stdin().lock().lines();
    while let Some(Ok(line)) = lines.next() {
        let Some(frame) = Json::parse(&line) else { continue };
        let method = frame.get("method").text().to_owned();
        let id = frame.get("id").write();
        if method.is_empty() || id == "null" || flags.has("never-initialize") {
            continue;
        }
        let tool = frame.get("params").get("name").text().to_owned();
        server.log(format!("{method} {tool}").trim_end());
        if flags.has("server-requests") {
            ask_and_wait(&mut lines);
        }
        let answer = server.handle(&method, frame.get("params"));
        let is_search = tool == "search_code";
        let id = if is_search && flags.has("only-wrong-ids") { format!("\"{id}\"") } else { id };
        let reply = frame_of(&id, answer);
        if is_search && flags.number("die-in-call") == Some(server.searches) {
            let _ = writeln!(std::io::stderr(), "Traceback: the engine crashed in the middle");
            say(&reply[..reply.len() / 2]);
            exit(7);
        }
        if is_search && flags.number("close-stdout") == Some(server.searches) {
            // Replaced by one that has no output: std can't close it.
            let mut sleeper = Command::new("sleep");
            sleeper.arg("300").stdout(Stdio::null());
            let error = std::os::unix::process::CommandExt::exec(&mut sleeper);
            panic!("{error}");
        }
        if flags.has("garbage") {
            say("Loading index... done\n{\"not\":\"a message\"}\n[1,2\n\u{1b}[32mok\u{1b}[0m\n\n");
        }
        if flags.has("wrong-ids") {
            say("{\"jsonrpc\":\"2.0\",\"id\":4711,\"result\":{\"content\":[]}}\n");
            say(&format!("{{\"jsonrpc\":\"2.0\",\"id\":\"{id}x\",\"result\":{{\"content\":[]}}}}\n"));
        }
        if flags.has("half-lines") {
            say("{\"jsonrpc\":\"2.0\",\"id\":\n");
            let mut middle = reply.len() / 2;
            while !reply.is_char_boundary(middle) {
                middle += 1;
            }
            say(&reply[..middle]);
            pause(60);
            say(&reply[middle..]);
            say("\n");
        } else {
            say(&reply);
            say("\n");
        }
    }
    if flags.has("ignore-stdin-close") {
        loop {
            pause(1_000_000);
        }
    }
}

fn frame_of(id: &str, answer: Answer) -> String {
    match answer {
        Answer::Result(result) => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"),
        Answer::Error(code, words) => format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{code},\"message\":{}}}}}",
            quote(&words)
        ),
    }
}

/// Asks the client for three things and goes on when all are answered.
fn ask_and_wait(lines: &mut impl Iterator<Item = std::io::Result<String>>) {
    for (n, method) in ["ping", "roots/list", "sampling/createMessage"].iter().enumerate() {
        say(&format!("{{\"jsonrpc\":\"2.0\",\"id\":\"s{n}\",\"method\":\"{method}\"}}\n"));
    }
    let mut missing = 3;
    while missing > 0 {
        let Some(Ok(line)) = lines.next() else { exit(1) };
        let frame = Json::parse(&line).unwrap_or(Json::Null);
        missing -= usize::from(frame.get("id").text().starts_with('s'));
    }
}

fn serve_http(server: Server, port: u16) {
    let server = Arc::new(Mutex::new(server));
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    for stream in listener.incoming().flatten() {
        let server = Arc::clone(&server);
        std::thread::spawn(move || connection(&stream, &server));
    }
}

fn connection(stream: &TcpStream, server: &Mutex<Server>) {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            match reader.read_line(&mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) if line.trim().is_empty() => break,
                Ok(_) => head.push(line.trim().to_owned()),
            }
        }
        let length = head
            .iter()
            .find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok())
            .unwrap_or(0);
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        let respond = |status: &str, extra: &str, body: &str| {
            let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n{extra}\r\n", body.len());
            let mut stream = stream;
            stream.write_all((head + body).as_bytes()).is_ok()
        };
        let first = head.first().cloned().unwrap_or_default();
        let going = if first.starts_with("POST") {
            let frame = Json::parse(&String::from_utf8_lossy(&body)).unwrap_or(Json::Null);
            let (method, id) = (frame.get("method").text().to_owned(), frame.get("id").write());
            if method.is_empty() || id == "null" {
                respond("202 Accepted", "", "")
            } else {
                let mut server = server.lock().unwrap();
                let tool = frame.get("params").get("name").text().to_owned();
                server.log(format!("{method} {tool}").trim_end());
                if server.flags.has("never-initialize") {
                    pause(1_000_000);
                }
                let answer = server.handle(&method, frame.get("params"));
                if tool == "search_code" && server.flags.number("die-in-call") == Some(server.searches) {
                    let _ = writeln!(std::io::stderr(), "Traceback: the engine crashed in the middle");
                    exit(7);
                }
                drop(server);
                let kind = "Content-Type: application/json\r\nMcp-Session-Id: fake-session\r\n";
                respond("200 OK", kind, &frame_of(&id, answer))
            }
        } else if first.starts_with("DELETE") {
            respond("200 OK", "", "")
        } else {
            respond("405 Method Not Allowed", "", "")
        };
        if !going {
            return;
        }
    }
}
