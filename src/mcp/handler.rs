//! What we offer to a server: nothing but answers to pings.

#![expect(deprecated, reason = "roots are on their way out, but servers still ask for them")]

use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult, ErrorCode, ErrorData,
    Implementation, ListRootsResult, ProtocolVersion,
};
use rmcp::service::{RequestContext, RoleClient};

/// A client without roots, sampling or elicitation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plain;

impl ClientHandler for Plain {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("proofline", env!("CARGO_PKG_VERSION"));
        let mut config = ClientConfig::new(ClientCapabilities::default(), us);
        // The newest revision that still has this opening exchange.
        config.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        config
    }

    async fn list_roots(&self, _: RequestContext<RoleClient>) -> Result<ListRootsResult, ErrorData> {
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "method not found: roots/list", None))
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "method not found: elicitation/create", None))
    }
}
