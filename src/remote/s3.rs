//! A bucket that speaks S3 as a remote.
//!
//! Server errors, timeouts and broken bodies are tried again a few times with
//! growing pauses; what was denied is not. A body may take as long as its
//! stated size allows, so a slow one ends.
//!
//! The crate behind it is always built in: it and what only it needs take 74 s
//! of processor time of a cold release build on two cores (measured; the whole
//! takes some 1,000), less than a second build with a switch would.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{
    BackoffConfig, ClientOptions, Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
    RetryConfig,
};
use tokio::runtime::Runtime;

use super::{Remote, RemoteError};

/// How often a request is made at most.
const TRIES: u32 = 3;
/// Bytes per second that a body must reach on the whole.
const SLOWEST: u64 = 64 * 1024;

/// A bucket, from a prefix on.
pub(super) struct Bucket {
    address: String,
    prefix: String,
    client: AmazonS3,
    runtime: Runtime,
    patience: Duration,
}

/// What became of one request.
enum Failed {
    /// Trying again can't help.
    Final(String),
    /// It may help.
    Passing(String),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        match error {
            Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
                Self::Final("the remote denies it; see the AWS_* variables".to_owned())
            }
            other => Self::Passing(words(&other)),
        }
    }
}

/// An error with its causes on one line; the library's own addresses and
/// blanks are of no use to a reader.
fn words(error: &dyn std::error::Error) -> String {
    let (mut out, mut next) = (error.to_string(), error.source());
    while let Some(cause) = next {
        let text = cause.to_string();
        if !out.contains(&text) {
            out = format!("{out}: {text}");
        }
        next = cause.source();
    }
    let line: String = out.chars().map(|c| if c.is_control() { ' ' } else { c }).take(300).collect();
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl Bucket {
    pub(super) fn open(
        address: &str,
        env: &dyn Fn(&str) -> Option<String>,
        patience: Duration,
    ) -> Result<Self, RemoteError> {
        let refused = |why: String| RemoteError::Address { address: address.to_owned(), why };
        let rest = address.strip_prefix("s3://").unwrap_or_default();
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() || prefix.split('/').any(|part| part == "." || part == "..") {
            return Err(refused("write `s3://BUCKET/PREFIX`".to_owned()));
        }
        let first =
            |names: &[&str]| names.iter().find_map(|name| env(name).filter(|value| !value.is_empty()));
        let needed = |name: &str| {
            env(name).filter(|value| !value.is_empty()).ok_or_else(|| {
                refused(format!("the variable {name} is not set; credentials come from the environment"))
            })
        };
        let options = ClientOptions::new().with_timeout_disabled().with_connect_timeout(patience);
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(bucket)
            .with_access_key_id(needed("AWS_ACCESS_KEY_ID")?)
            .with_secret_access_key(needed("AWS_SECRET_ACCESS_KEY")?)
            .with_region(
                first(&["AWS_REGION", "AWS_DEFAULT_REGION"]).unwrap_or_else(|| "us-east-1".to_owned()),
            )
            .with_retry(RetryConfig {
                backoff: BackoffConfig {
                    init_backoff: Duration::from_millis(100),
                    max_backoff: Duration::from_secs(2),
                    base: 2.0,
                },
                max_retries: 3,
                retry_timeout: patience,
            });
        if let Some(token) = env("AWS_SESSION_TOKEN").filter(|value| !value.is_empty()) {
            builder = builder.with_token(token);
        }
        let mut options = options;
        if let Some(endpoint) = first(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]) {
            if endpoint.starts_with("http://") {
                if !is_loopback(&endpoint) {
                    return Err(refused(format!(
                        "the endpoint {endpoint} is not encrypted; `http` is for this machine alone, write `https`"
                    )));
                }
                options = options.with_allow_http(true);
            }
            builder = builder.with_endpoint(endpoint);
        }
        // A second installation is refused, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = builder.with_client_options(options).build().map_err(|e| refused(words(&e)))?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|e| refused(e.to_string()))?;
        let prefix = prefix.trim_matches('/').to_owned();
        Ok(Self { address: address.to_owned(), prefix, client, runtime, patience })
    }

    fn path(&self, name: &str) -> Path {
        if self.prefix.is_empty() { Path::from(name) } else { Path::from(format!("{}/{name}", self.prefix)) }
    }

    /// Longest time for this many bytes.
    fn deadline(&self, bytes: u64) -> Duration {
        self.patience + Duration::from_secs(bytes / SLOWEST)
    }

    async fn within<T>(
        &self,
        bytes: u64,
        request: impl Future<Output = Result<T, Error>>,
    ) -> Result<Result<T, Error>, Failed> {
        let limit = self.deadline(bytes);
        tokio::time::timeout(limit, request)
            .await
            .map_err(|_| Failed::Passing(format!("no answer within {} s", limit.as_secs())))
    }

    /// Makes a request until it succeeds, can't, or has failed often enough.
    fn tried<T, F>(&self, name: &str, mut request: impl FnMut() -> F) -> Result<T, RemoteError>
    where
        F: Future<Output = Result<T, Failed>>,
    {
        let failed = |why| RemoteError::Request { what: format!("`{name}` in {}", self.address), why };
        let mut pause = Duration::from_millis(200);
        for left in (0..TRIES).rev() {
            match self.runtime.block_on(request()) {
                Ok(done) => return Ok(done),
                Err(Failed::Final(why)) => return Err(failed(why)),
                Err(Failed::Passing(why)) if left == 0 => return Err(failed(why)),
                Err(Failed::Passing(_)) => std::thread::sleep(pause),
            }
            pause *= 3;
        }
        Err(failed("it was never asked for".to_owned()))
    }

    async fn list_once(&self, folder: &str, most: usize) -> Result<Vec<String>, Failed> {
        let under = self.path(folder);
        let cut = if self.prefix.is_empty() { 0 } else { self.prefix.len() + 1 };
        let mut found = self.client.list(Some(&under));
        let mut out = Vec::new();
        while let Some(next) = self.within(0, async { Ok(found.next().await) }).await?? {
            let name = next?.location.to_string();
            out.extend(name.get(cut..).map(str::to_owned));
            if out.len() >= most {
                break;
            }
        }
        out.sort();
        Ok(out)
    }

    async fn get_once(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, Failed> {
        let found = match self.within(0, self.client.get(&self.path(name))).await? {
            Err(Error::NotFound { .. }) => return Ok(None),
            other => other?,
        };
        let size = found.meta.size;
        if size > limit {
            return Err(Failed::Final(format!("it has {size} bytes, more than the {limit} that are taken")));
        }
        let bytes = self.within(size, found.bytes()).await??;
        if bytes.len() as u64 != size {
            return Err(Failed::Passing(format!("{} of {size} bytes came", bytes.len())));
        }
        Ok(Some(bytes.to_vec()))
    }

    async fn has_once(&self, name: &str) -> Result<bool, Failed> {
        match self.within(0, self.client.head(&self.path(name))).await? {
            Err(Error::NotFound { .. }) => Ok(false),
            other => Ok(other.map(|_| true)?),
        }
    }

    async fn create_once(&self, name: &str, bytes: &Arc<[u8]>) -> Result<bool, Failed> {
        let (path, size) = (self.path(name), bytes.len() as u64);
        let payload = || PutPayload::from(bytes::Bytes::from_owner(Arc::clone(bytes)));
        let create = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        match self.within(size, self.client.put_opts(&path, payload(), create)).await? {
            Ok(_) => Ok(true),
            // Two at once may both be told so; who wants to be sure asks whether it is there.
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => {
                self.within(size, self.client.put(&path, payload())).await??;
                Ok(true)
            }
            Err(other) => Err(other.into()),
        }
    }
}

/// Whether an address names this machine.
fn is_loopback(endpoint: &str) -> bool {
    let rest = endpoint.strip_prefix("http://").unwrap_or_default();
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    // Whoever stands before an `@` is a user, not a host.
    let host = authority.rsplit('@').next().unwrap_or_default();
    let host = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl Remote for Bucket {
    fn address(&self) -> &str {
        &self.address
    }

    fn list(&self, folder: &str, most: usize) -> Result<Vec<String>, RemoteError> {
        self.tried(folder, || self.list_once(folder, most))
    }

    fn get(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, RemoteError> {
        self.tried(name, || self.get_once(name, limit))
    }

    fn has(&self, name: &str) -> Result<bool, RemoteError> {
        self.tried(name, || self.has_once(name))
    }

    fn create(&self, name: &str, bytes: Vec<u8>) -> Result<bool, RemoteError> {
        let bytes: Arc<[u8]> = bytes.into();
        self.tried(name, || self.create_once(name, &bytes))
    }

    fn remove(&self, name: &str) -> Result<(), RemoteError> {
        self.tried(name, || async {
            match self.within(0, self.client.delete(&self.path(name))).await? {
                Err(Error::NotFound { .. }) => Ok(()),
                other => Ok(other?),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unencrypted_is_for_this_machine() {
        for yes in ["http://127.0.0.1:5000", "http://localhost:1/x", "http://[::1]:5000", "http://127.9.9.9"]
        {
            assert!(is_loopback(yes), "{yes}");
        }
        for no in [
            "http://example.com",
            "http://127.0.0.1.example.com",
            "http://localhost@example.com",
            "http://10.0.0.1",
            "http://[fe80::1]",
        ] {
            assert!(!is_loopback(no), "{no}");
        }
        let env = |name: &str| match name {
            "AWS_ENDPOINT_URL" => Some("http://example.com".to_owned()),
            name if name.contains("KEY") => Some("x".to_owned()),
            _ => None,
        };
        let refused = |address: &str, env: &dyn Fn(&str) -> Option<String>| {
            Bucket::open(address, env, Duration::from_secs(1)).err().unwrap().to_string()
        };
        assert!(refused("s3://bucket/x", &env).contains("write `https`"));
        assert!(refused("s3://bucket/x", &|_| None).contains("AWS_ACCESS_KEY_ID"));
        assert!(refused("s3:///x", &env).contains("s3://BUCKET/PREFIX"));
        assert!(refused("s3://bucket/../x", &env).contains("s3://BUCKET/PREFIX"));
    }
}
