//! The engine's side of the supervisor.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::{OnceCell, oneshot};
use tokio_util::sync::CancellationToken;

use super::supervise::{Ask, End, Order, Reply, SUPERVISE};

/// How long a supervisor without commands may take to end.
const CLOSE: Duration = Duration::from_secs(5);

/// Starts commands through supervisors: one for those without a network, one
/// for the others, each started when it is first needed.
#[derive(Debug)]
pub struct Supervisors {
    exe: PathBuf,
    closed: OnceCell<Arc<Supervisor>>,
    open: OnceCell<Arc<Supervisor>>,
}

/// Why a command has no end that could be told.
#[derive(Debug, thiserror::Error)]
pub enum SupervisorError {
    /// The supervisor can't be started.
    #[error("the supervisor can't be started: {0}")]
    Start(#[from] std::io::Error),
    /// It ended while commands ran.
    #[error("the supervisor was killed")]
    Gone,
}

type Waiting = Arc<Mutex<Option<HashMap<u64, oneshot::Sender<End>>>>>;

#[derive(Debug)]
struct Supervisor {
    /// None when nothing more is asked.
    stdin: tokio::sync::Mutex<Option<ChildStdin>>,
    /// Who waits for which command; none when the supervisor is gone.
    waiting: Waiting,
    /// Never killed: it ends by itself.
    child: tokio::sync::Mutex<Child>,
}

impl Supervisors {
    /// None is started yet; `exe` is the program itself.
    #[must_use]
    pub fn new(exe: &Path) -> Self {
        Self { exe: exe.to_owned(), closed: OnceCell::new(), open: OnceCell::new() }
    }

    /// Runs a command to its end; ends it when `cancel` is told. The id of the
    /// order is given here.
    ///
    /// # Errors
    /// When there is no supervisor, or it ends before the command.
    pub async fn run(&self, mut order: Order, cancel: &CancellationToken) -> Result<End, SupervisorError> {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        order.id = COUNT.fetch_add(1, Ordering::Relaxed);
        let network = order.confine.network;
        let cell = if network { &self.open } else { &self.closed };
        let supervisor =
            cell.get_or_try_init(|| async { Supervisor::start(&self.exe, network).map(Arc::new) }).await?;
        supervisor.run(order, cancel).await
    }
}

impl Supervisors {
    /// Tells the supervisors that nothing more comes, and waits until they have ended.
    pub async fn close(&self) {
        for supervisor in [self.closed.get(), self.open.get()].into_iter().flatten() {
            supervisor.stdin.lock().await.take();
            // One that doesn't end in time is left to itself.
            let _ = tokio::time::timeout(CLOSE, supervisor.child.lock().await.wait()).await;
        }
    }
}

impl Supervisor {
    fn start(exe: &Path, network: bool) -> Result<Self, SupervisorError> {
        let mut command = Command::new(exe);
        command
            .arg(SUPERVISE)
            .args(network.then_some("--network"))
            .process_group(0)
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null());
        let mut child = command.spawn()?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(SupervisorError::Gone);
        };
        let waiting: Waiting = Arc::new(Mutex::new(Some(HashMap::new())));
        let told = Arc::clone(&waiting);
        tokio::spawn(async move {
            let mut lines = BufReader::new(stdout).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let Ok(reply) = serde_json::from_str::<Reply>(&line) else { continue };
                let mut guard = told.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(waiter) = guard.as_mut().and_then(|map| map.remove(&reply.id)) {
                    // Who doesn't wait any more needs no word.
                    let _ = waiter.send(reply.end);
                }
            }
            // Dropping the senders tells all that wait.
            told.lock().unwrap_or_else(PoisonError::into_inner).take();
        });
        Ok(Self {
            stdin: tokio::sync::Mutex::new(Some(stdin)),
            waiting,
            child: tokio::sync::Mutex::new(child),
        })
    }

    async fn run(&self, order: Order, cancel: &CancellationToken) -> Result<End, SupervisorError> {
        let (send, mut receive) = oneshot::channel();
        let id = order.id;
        {
            let mut guard = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            guard.as_mut().ok_or(SupervisorError::Gone)?.insert(id, send);
        }
        self.ask(&Ask::Run(Box::new(order))).await?;
        tokio::select! {
            end = &mut receive => return end.map_err(|_| SupervisorError::Gone),
            () = cancel.cancelled() => {}
        }
        self.ask(&Ask::End(id)).await?;
        receive.await.map_err(|_| SupervisorError::Gone)
    }

    async fn ask(&self, ask: &Ask) -> Result<(), SupervisorError> {
        let mut line = serde_json::to_vec(ask).map_err(std::io::Error::from)?;
        line.push(b'\n');
        let mut guard = self.stdin.lock().await;
        let stdin = guard.as_mut().ok_or(SupervisorError::Gone)?;
        stdin.write_all(&line).await.map_err(|_| SupervisorError::Gone)
    }
}
