//! MCP over streamable HTTP, with the tee around rmcp's transport.

use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use rmcp::transport::common::client_side_sse::NeverRetry;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransport, StreamableHttpClientTransportConfig,
};
use serde_json::Value;

use super::wire::Wire;

/// A transport whose messages are seen by the tee. Times are those of handing
/// a message over and of getting it.
pub(super) struct Tee<T> {
    inner: T,
    wire: Wire,
}

/// Why no HTTP client could be made.
#[derive(Debug, thiserror::Error)]
#[error("no http client: {0}")]
pub(super) struct NoClient(#[from] reqwest::Error);

/// A connection to `url` that retries nothing and uses no proxy. Bodies over
/// `limit` bytes are refused.
pub(super) fn connect(
    url: &str,
    limit: u64,
    wire: &Wire,
) -> Result<Tee<StreamableHttpClientTransport<reqwest::Client>>, NoClient> {
    // A second installation is refused, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .build()?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut config = StreamableHttpClientTransportConfig::with_uri(url)
        .max_json_response_size(limit)
        .max_sse_event_size(limit);
    config.retry_config = Arc::new(NeverRetry::default());
    config.reinit_on_expired_session = false;
    let inner = StreamableHttpClientTransport::with_client(client, config);
    Ok(Tee { inner, wire: wire.clone() })
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Tee<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        let frame = serde_json::to_value(&item).unwrap_or(Value::Null);
        let bytes = frame.to_string().len();
        self.wire.sending(&frame, bytes);
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let Some(message) = self.inner.receive().await else {
            self.wire.close();
            return None;
        };
        let at = self.wire.now();
        // rmcp answers requests of the server itself; the verdict is for the counters only.
        self.wire.frame(serde_json::to_value(&message).unwrap_or(Value::Null), at);
        Some(message)
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.inner.close()
    }
}

/// Host and port of a URL.
pub(super) fn address(url: &str) -> Option<(String, u16)> {
    let url = reqwest::Url::parse(url).ok()?;
    let host = url.host_str()?.trim_matches(['[', ']']).to_owned();
    Some((host, url.port_or_known_default()?))
}

/// Does something accept connections there?
pub(super) async fn accepts(host: String, port: u16) -> bool {
    let limit = Duration::from_millis(500);
    let look = move || {
        (host.as_str(), port)
            .to_socket_addrs()
            .is_ok_and(|mut all| all.any(|to| TcpStream::connect_timeout(&to, limit).is_ok()))
    };
    tokio::task::spawn_blocking(look).await.unwrap_or(false)
}
