//! The interface to the surrounding process. No call waits.

use files::Caller;
use futures_util::future::BoxFuture;
use limits::LedgerHolder;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;
use vfs::Timestamp;
use wire::ntlm::NtHash;
use wire::rpc::UnixNames;
use wire::spnego::AcceptedTicket;

/// One reading of both clocks, taken by the server and passed down.
#[derive(Clone, Copy, Debug)]
pub struct HostTime {
    /// Monotonic time, for timeouts.
    pub instant: Instant,
    /// Wall-clock time, for clients.
    pub wall: Timestamp,
}

/// The process around the protocol layer. Threads may call it concurrently.
pub trait SmbHost: Send + Sync {
    /// Fills `out` from the system's secure random source.
    fn random(&self, out: &mut [u8]);

    /// Reads both clocks.
    fn now(&self) -> HostTime;

    /// Reads the monotonic clock only.
    fn instant(&self) -> Instant {
        self.now().instant
    }

    /// The account `user`, compared without case.
    fn account(&self, user: &str) -> Option<Account>;

    /// True if the account of an existing session still exists. A failing account service ends no
    /// session.
    fn has_account(&self, user: &str) -> bool {
        self.account(user).is_some()
    }

    /// The account of guest and anonymous sessions, where the configuration allows them.
    fn guest(&self) -> Option<Account>;

    /// True if the configuration names Kerberos keys.
    fn accepts_tickets(&self) -> bool {
        false
    }

    /// Verifies a ticket of a client at address `from`, on another thread than the caller's. The
    /// error is the reason for the log, not for the client.
    fn verify_ticket(
        &self,
        from: IpAddr,
        ticket: Vec<u8>,
    ) -> BoxFuture<'static, Result<AcceptedTicket, String>> {
        let _ = (from, ticket);
        Box::pin(std::future::ready(Err("no Kerberos keys are configured".to_owned())))
    }

    /// Compares the SID of a ticket with the SID of the account's first ticket, on another thread
    /// than the caller's. The error is the reason of the refusal.
    fn check_sid(
        &self,
        account: &str,
        sid: Option<String>,
    ) -> BoxFuture<'static, Result<(), String>> {
        let _ = (account, sid);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Names of the system's users and groups by their numbers.
    fn unix_names(&self) -> Arc<UnixNames> {
        Arc::default()
    }

    /// Logs one failed logon, with the peer's address.
    fn logon_failed(&self, peer: SocketAddr, user: &str, why: &str);

    /// Records a successful logon.
    fn logon_succeeded(&self, peer: SocketAddr, user: &str);

    /// Logs, at a bounded rate, a failed request whose cause an administrator may want to know.
    fn report_failure(&self, failure: &RequestFailure) {
        let _ = failure;
    }

    /// Continues work that no task awaits any more. The default drops it, which cancels it.
    fn carry_on(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        drop(work);
    }

    /// Begins to probe whether the clients of these connections are still reachable, and ends the
    /// unreachable connections. False if the host cannot probe.
    fn probe_connections(&self, connections: &[u64]) -> bool {
        let _ = connections;
        false
    }

    /// Charges a connection to `holder`, at a logon. False if the holder has too many; the logon
    /// then fails with REQUEST_NOT_ACCEPTED.
    fn admit_connection(&self, connection: u64, holder: &LedgerHolder) -> bool {
        let _ = (connection, holder);
        true
    }

    /// Logs a client that supports none of the allowed dialects. `offered` has its dialect numbers,
    /// and is empty for SMB1 only.
    fn dialect_refused(&self, peer: SocketAddr, offered: &[u16]) {
        let _ = (peer, offered);
    }

    /// True if [`SmbHost::write_open_record`] writes to stable storage.
    fn persists_opens(&self) -> bool {
        false
    }

    /// Replaces, or removes, the record under `id` from which a restarted server restores an open.
    /// The write is queued on return, in order. The future is true once the record survives power
    /// loss.
    fn write_open_record(&self, id: u64, record: Option<Vec<u8>>) -> BoxFuture<'static, bool> {
        let _ = (id, record);
        Box::pin(std::future::ready(false))
    }

    /// The addresses at which clients reach this server on `port`.
    fn interfaces(&self, port: u16) -> Vec<InterfaceFact>;
}

/// The cause of a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFailureKind {
    /// The share's file system or the user's quota is full.
    NoSpace,
    /// The share's storage fails.
    StorageError,
    /// The user lacks a right.
    AccessDenied,
    /// The share's directory was removed.
    ShareGone,
}

/// A failed request and its origin.
#[derive(Clone, Debug)]
pub struct RequestFailure {
    /// The cause.
    pub kind: RequestFailureKind,
    /// Client's address.
    pub peer: SocketAddr,
    /// Connection number, and message id of the request.
    pub request: (u64, u64),
    /// User of the session.
    pub user: String,
    /// The share.
    pub share: String,
    /// The path as the client sent it: untrusted.
    pub path: String,
}

/// A user account.
#[derive(Clone, Debug)]
pub struct Account {
    /// The stored spelling of the name.
    pub name: String,
    /// Hash of the password; see [`NtHash`].
    pub nt_hash: NtHash,
    /// The identity for file access.
    pub caller: Arc<Caller>,
    /// Names of the user's system groups.
    pub groups: Arc<[String]>,
    /// A Kerberos logon to this account may get superuser rights.
    pub root_by_ticket: bool,
}

/// One address of a network interface. MS-SMB2 2.2.32.5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceFact {
    /// The interface's index, as the system numbers it.
    pub index: u32,
    /// The interface supports receive-side scaling.
    pub rss: bool,
    /// Link speed.
    pub bits_per_second: u64,
    /// The address.
    pub address: IpAddr,
}
