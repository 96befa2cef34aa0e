//! An engine as an MCP server: tools `index`, `search` and `status`.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer, ServiceExt};
use rmcp::{ErrorData, ServerHandler};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{Engine, EngineError, Found, IndexFacts, engine, identity, read_folder};

/// Results when the caller names no number.
const LIMIT: u64 = 10;
/// Most results that can be asked for.
const MOST: u64 = 1000;

/// Which engine to serve.
#[derive(Clone, Debug, Default)]
pub struct ServeOptions {
    /// Its name, e.g. `bm25`.
    pub engine: String,
    /// Its profile; the default one without.
    pub profile: Option<String>,
    /// Folder with weights, for `embed`.
    pub weights: Option<PathBuf>,
}

/// Why serving failed or ended badly.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The engine can't be had.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The client never completed the handshake.
    #[error("the client's handshake failed: {0}")]
    Handshake(String),
    /// The server's task died.
    #[error("the server ended badly: {0}")]
    Ended(String),
}

/// Serves on stdin and stdout until stdin closes.
///
/// # Errors
/// When the engine can't be had or the client's handshake fails. A client
/// that goes away before the handshake is no error.
pub async fn serve_stdio(options: ServeOptions) -> Result<(), ServeError> {
    let (read, write) = rmcp::transport::stdio_pipes();
    serve(options, read, write).await
}

/// Serves on any pair of streams until the first closes.
///
/// # Errors
/// As [`serve_stdio`].
pub async fn serve<R, W>(options: ServeOptions, read: R, write: W) -> Result<(), ServeError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let server = Server::new(&options)?;
    let running = match server.serve((read, write)).await {
        Ok(running) => running,
        Err(rmcp::service::ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(ServeError::Handshake(error.to_string())),
    };
    running.waiting().await.map(|_| ()).map_err(|e| ServeError::Ended(e.to_string()))
}

/// The engine and what it holds.
struct State {
    engine: Box<dyn Engine>,
    indexed: Option<(String, IndexFacts)>,
}

impl State {
    fn index(&mut self, path: &str, only: &[String]) -> Result<IndexFacts, EngineError> {
        let files = read_folder(Path::new(path), only)?;
        let facts = self.engine.index(&files);
        self.indexed = Some((path.to_owned(), facts.clone()));
        Ok(facts)
    }

    fn search(&mut self, query: &str, limit: usize) -> Result<Vec<Found>, EngineError> {
        if self.indexed.is_none() {
            self.index(".", &[])?;
        }
        Ok(self.engine.search(query, limit))
    }
}

#[derive(Clone)]
struct Server {
    name: String,
    identity: String,
    state: Arc<Mutex<State>>,
}

/// What a tool call asks for.
enum Ask {
    Index { path: String, only: Vec<String> },
    Search { query: String, limit: usize },
    Status,
}

fn facts_json(facts: &IndexFacts) -> Value {
    json!({"files": facts.files, "bytes": facts.bytes, "chunks": facts.chunks, "notes": facts.notes})
}

fn found_json(found: Found) -> Value {
    json!({"file": found.file, "line": found.line, "symbol": found.symbol, "score": found.score,
        "content": found.content})
}

fn tool(name: &'static str, about: &'static str, properties: Value, required: &[&str]) -> Tool {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    let schema: JsonObject = match schema {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    Tool::new(name, about, schema)
}

fn tools() -> Vec<Tool> {
    let path = json!({"type": "string", "description": "folder, absolute or relative to the server's"});
    let only = json!({"type": "array", "items": {"type": "string"},
        "description": "only these folders or files below it"});
    let query = json!({"type": "string", "description": "a question or keywords"});
    let limit = json!({"type": "integer", "minimum": 1, "maximum": MOST, "default": LIMIT,
        "description": "most results"});
    vec![
        tool("index", "Index the text files of a folder.", json!({"path": path, "only": only}), &["path"]),
        tool(
            "search",
            "Search the indexed code; best files first.",
            json!({"query": query, "limit": limit}),
            &["query"],
        ),
        tool("status", "Say what is indexed.", json!({}), &[]),
    ]
}

impl Ask {
    fn of(request: &CallToolRequestParams) -> Result<Self, String> {
        let empty = JsonObject::new();
        let given = request.arguments.as_ref().unwrap_or(&empty);
        let text = |key: &str| {
            let value = given.get(key).and_then(Value::as_str);
            value.map(str::to_owned).ok_or_else(|| format!("`{key}` must be a string"))
        };
        match request.name.as_ref() {
            "index" => {
                let only = match given.get("only") {
                    None | Some(Value::Null) => Vec::new(),
                    Some(list) => serde_json::from_value(list.clone())
                        .map_err(|_| "`only` must be a list of strings".to_owned())?,
                };
                Ok(Self::Index { path: text("path")?, only })
            }
            "search" => {
                let limit = match given.get("limit") {
                    None | Some(Value::Null) => LIMIT,
                    Some(n) => n
                        .as_u64()
                        .filter(|n| (1..=MOST).contains(n))
                        .ok_or_else(|| format!("`limit` must be an integer from 1 to {MOST}"))?,
                };
                Ok(Self::Search { query: text("query")?, limit: usize::try_from(limit).unwrap_or(10) })
            }
            "status" => Ok(Self::Status),
            other => Err(format!("no tool `{other}`")),
        }
    }
}

impl Server {
    fn new(options: &ServeOptions) -> Result<Self, EngineError> {
        let profile = match (&options.profile, &options.weights) {
            (None, Some(_)) => Some("static"),
            (profile, _) => profile.as_deref(),
        };
        let made = engine(&options.engine, profile, options.weights.as_deref())?;
        Ok(Self {
            name: format!("proofline-{}", options.engine),
            identity: identity(&options.engine, profile).unwrap_or_default(),
            state: Arc::new(Mutex::new(State { engine: made, indexed: None })),
        })
    }

    fn answer(&self, ask: Ask) -> Result<Value, EngineError> {
        // A panic in an earlier call leaves an engine that can be indexed
        // again.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match ask {
            Ask::Index { path, only } => state.index(&path, &only).map(|facts| facts_json(&facts)),
            Ask::Search { query, limit } => {
                let found = state.search(&query, limit)?;
                Ok(json!({"results": found.into_iter().map(found_json).collect::<Vec<_>>()}))
            }
            Ask::Status => {
                let (path, facts) = match &state.indexed {
                    Some((path, facts)) => (Some(path.as_str()), facts_json(facts)),
                    None => (None, Value::Null),
                };
                Ok(json!({"engine": self.identity, "path": path, "index": facts}))
            }
        }
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new(self.name.clone(), self.identity.clone()))
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let refuse = |text: String| CallToolResult::error(vec![ContentBlock::text(text)]).into();
        let ask = match Ask::of(&request) {
            Ok(ask) => ask,
            Err(text) => return Ok(refuse(text)),
        };
        let server = self.clone();
        let answer = tokio::task::spawn_blocking(move || server.answer(ask)).await;
        Ok(match answer {
            Ok(Ok(value)) => CallToolResult::structured(value).into(),
            Ok(Err(error)) => refuse(error.to_string()),
            Err(error) => refuse(format!("the engine failed: {error}")),
        })
    }
}

#[cfg(test)]
mod tests {
    use rmcp::RoleClient;
    use rmcp::service::RunningService;

    use super::*;
    use crate::fsio;

    async fn client(
        options: ServeOptions,
    ) -> (RunningService<RoleClient, ()>, tokio::task::JoinHandle<Result<(), ServeError>>) {
        let (here, there) = tokio::io::duplex(1 << 16);
        let (read, write) = tokio::io::split(there);
        let server = tokio::spawn(serve(options, read, write));
        let (read, write) = tokio::io::split(here);
        (().serve((read, write)).await.unwrap(), server)
    }

    fn call(name: &'static str, arguments: &Value) -> CallToolRequestParams {
        CallToolRequestParams::new(name).with_arguments(arguments.as_object().unwrap().clone())
    }

    #[tokio::test]
    async fn a_client_indexes_and_searches() {
        let dir = tempfile::tempdir().unwrap();
        fsio::write_plain(&dir.path().join("src/a.py"), b"def open_socket(): pass\n").unwrap();
        fsio::write_plain(&dir.path().join("src/b.md"), b"words\n").unwrap();
        let options = ServeOptions { engine: "symbols".into(), ..ServeOptions::default() };
        let (client, server) = client(options).await;
        let info = client.peer_info().unwrap().server_info.clone().unwrap();
        assert_eq!(info.name, "proofline-symbols");
        assert_eq!(Some(info.version), identity("symbols", None));
        let names: Vec<_> = client.list_all_tools().await.unwrap().into_iter().map(|t| t.name).collect();
        assert_eq!(names, ["index", "search", "status"]);
        let facts = client.call_tool(call("index", &json!({"path": dir.path()}))).await.unwrap();
        let expected =
            json!({"files": 2, "bytes": 30, "chunks": 1, "notes": ["symbols: text only for md (1)"]});
        assert_eq!(facts.structured_content, Some(expected));
        let found = client.call_tool(call("search", &json!({"query": "open_socket"}))).await.unwrap();
        let body = found.structured_content.unwrap();
        assert_eq!(body["results"][0]["file"], "src/a.py");
        assert_eq!(body["results"][0]["line"], 1);
        assert_eq!(body["results"][0]["symbol"], "open_socket");
        let text = found.content[0].as_text().unwrap().text.clone();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), body);
        for (name, arguments, word) in [
            ("search", json!({"query": 3}), "`query` must be a string"),
            ("search", json!({"query": "x", "limit": 0}), "`limit` must be"),
            ("index", json!({"path": "/nowhere/at/all"}), "can't read `/nowhere/at/all"),
            ("index", json!({"path": ".", "only": ["../x"]}), "not a plain path"),
            ("other", json!({}), "no tool `other`"),
        ] {
            let refused = client.call_tool(call(name, &arguments)).await.unwrap();
            assert_eq!(refused.is_error, Some(true));
            assert!(refused.content[0].as_text().unwrap().text.contains(word), "{refused:?}");
        }
        let status = client.call_tool(call("status", &json!({}))).await.unwrap().structured_content.unwrap();
        assert_eq!(status["index"]["files"], 2);
        client.cancel().await.unwrap();
        server.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn a_client_that_goes_away_ends_it() {
        let (here, there) = tokio::io::duplex(64);
        let (read, write) = tokio::io::split(there);
        drop(here);
        let options = ServeOptions { engine: "grep".into(), ..ServeOptions::default() };
        serve(options, read, write).await.unwrap();
        let options = ServeOptions { engine: "ag".into(), ..ServeOptions::default() };
        let failed = serve(options, tokio::io::empty(), tokio::io::sink()).await;
        assert!(matches!(failed, Err(ServeError::Engine(_))));
    }
}
