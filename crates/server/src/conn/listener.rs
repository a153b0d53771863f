//! Accepts connections of either protocol and starts their tasks.

use crate::backend;
use crate::conn::connections::{AdmissionRefusal, ConnectionAdmission, ConnectionTable};
use crate::conn::network;
use crate::conn::protocol::{ConnectionEndpoints, End, Protocol};
use crate::conn::task::{ConnectionTask, RunOutcome};
use crate::conn::threads::{ThreadAssignment, ThreadAssignments};
use crate::host::ProcessHost;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use meter::Meter;
use std::any::Any;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};

/// Pause after an accept that failed for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Everything that a new connection of one protocol needs.
pub struct Listener<P: Protocol> {
    /// The protocol layer.
    pub server: Arc<P::Server>,
    /// The host of the protocol layer.
    pub host: Arc<ProcessHost>,
    /// All connections.
    pub connections: Arc<ConnectionTable>,
    assignments: Arc<ThreadAssignments>,
    meter: Arc<Meter>,
}

// `derive` would require that the connection type is `Clone`.
impl<P: Protocol> Clone for Listener<P> {
    fn clone(&self) -> Self {
        Self {
            server: self.server.clone(),
            host: self.host.clone(),
            connections: self.connections.clone(),
            assignments: self.assignments.clone(),
            meter: self.meter.clone(),
        }
    }
}

impl<P: Protocol> Listener<P> {
    /// Creates the listener that all sockets of the protocol share.
    #[must_use]
    pub fn new(
        server: Arc<P::Server>,
        host: Arc<ProcessHost>,
        connections: Arc<ConnectionTable>,
        assignments: Arc<ThreadAssignments>,
        meter: Arc<Meter>,
    ) -> Self {
        Self { server, host, connections, assignments, meter }
    }

    /// Accepts until the task is dropped.
    pub async fn accept(self, socket: TcpListener) {
        loop {
            match socket.accept().await {
                Ok((stream, peer)) => self.start(stream, peer),
                Err(error) => {
                    tracing::error!(%error, "cannot accept a connection; raise LimitNOFILE if descriptors ran out");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn start(&self, stream: TcpStream, peer: SocketAddr) {
        let place = match self.connections.enter(peer.ip()) {
            Ok(place) => place,
            Err(full) => {
                tracing::warn!(%peer, "{} connection refused: {}", P::NAME, why(full));
                return;
            }
        };
        let Ok(local) = stream.local_addr() else { return };
        place.link().set_peer(peer);
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
        }
        if let Err(error) = network::watch(&stream, self.connections.patience().stall) {
            tracing::debug!(%peer, %error, "cannot set the keep-alive of a connection");
        }
        let facts = ConnectionEndpoints { id: place.id(), peer, local };
        let assignment = self.assignments.assign();
        assignment.thread().spawn(self.clone().begin(stream, facts, (place, assignment)));
    }

    async fn begin(
        self,
        stream: TcpStream,
        facts: ConnectionEndpoints,
        place: (ConnectionAdmission, ThreadAssignment),
    ) {
        let conn = P::new(self.server.clone(), facts);
        let patience = self.connections.patience();
        let (host, meter) = (self.host.clone(), self.meter.clone());
        let task = ConnectionTask::new(stream, conn, host, place, patience, meter);
        self.serve(Box::new(task), facts.peer).await;
    }

    /// Runs a connection. A panic ends that connection only.
    fn serve(self, task: Box<ConnectionTask<P>>, peer: SocketAddr) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            match AssertUnwindSafe(work_on_requests(task.run())).catch_unwind().await {
                Ok(RunOutcome::Moves(task)) => {
                    task.thread().spawn(self.serve(task, peer));
                }
                Ok(RunOutcome::Ended(end)) => self.count_end(&end, peer),
                Err(panic) => {
                    tracing::error!(%peer, detail = message_of(&*panic), "{} connection closed: a defect of this server", P::NAME);
                    self.connections.count_end("defect");
                }
            }
        })
    }

    fn count_end(&self, end: &End, peer: SocketAddr) {
        let (kind, why) = kind_of(end);
        if let Some(what) = why {
            tracing::info!(%peer, detail = what, "{} connection closed: {}", P::NAME, reason(kind));
        }
        self.connections.count_end(kind);
    }
}

/// The kind for the counter and, for an unusual end, its description.
fn kind_of(end: &End) -> (&'static str, Option<&'static str>) {
    match end {
        End::Closed => ("closed", None),
        // The client stopped answering: its network or its power failed.
        End::Network(error) if error.kind() == std::io::ErrorKind::TimedOut => {
            ("unreachable", Some("its network acknowledges nothing"))
        }
        End::Network(_) => ("network", None),
        End::Garbage(what) => ("protocol_violation", Some(what)),
        End::Refused(what) => ("security_violation", Some(what)),
        End::Slow(what) => ("timeout", Some(what)),
        End::Stopped => ("stopped", None),
        End::Cut => ("cut", Some("an administrator's command")),
        End::Displaced => ("displaced", Some("too many connections without a logon")),
    }
}

fn reason(kind: &str) -> &'static str {
    match kind {
        "cut" => "cut",
        "displaced" => "displaced by another client",
        "protocol_violation" => "protocol violation",
        "security_violation" => "security violation",
        "unreachable" => "the client is gone",
        _ => "timeout",
    }
}

fn why(full: AdmissionRefusal) -> &'static str {
    match full {
        AdmissionRefusal::All => "connections_max is reached; raise it if these are users",
        AdmissionRefusal::Draining => "the server is draining",
        AdmissionRefusal::Site => "too many connections from this address, or IPv6 network",
        AdmissionRefusal::Unknown => {
            "too many connections without a logon, from this address or IPv6 network or in total"
        }
    }
}

fn message_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("unknown")
}
/// Polls a connection so that its thread keeps a user's identity from call to call, and has the
/// process's identity between two polls.
async fn work_on_requests<T>(requests: impl Future<Output = T>) -> T {
    let mut requests = pin!(requests);
    poll_fn(|cx| backend::keep_identity(|| requests.as_mut().poll(cx))).await
}
