//! What the protocol layer asks of the process around it. Nothing here waits.

use files::Caller;
use futures_util::future::BoxFuture;
use limits::Holder;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;
use vfs::Timestamp;
use wire::ntlm::NtHash;
use wire::rpc::UnixNames;
use wire::spnego::Shown;

/// The time, read by the server and handed down.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// For time-outs.
    pub instant: Instant,
    /// For what clients are told.
    pub wall: Timestamp,
}

/// The process around the protocol layer. Calls may come from any thread.
pub trait Host: Send + Sync {
    /// Fills `out` from the system's secure source.
    fn random(&self, out: &mut [u8]);

    /// The present time.
    fn now(&self) -> Now;

    /// The present time, where only that is asked.
    fn instant(&self) -> Instant {
        self.now().instant
    }

    /// The account `user`, compared without case, or none.
    fn account(&self, user: &str) -> Option<Account>;

    /// Whether the users still have `user`, whose session there is. A system that cannot be asked
    /// for the account just now takes no session away.
    fn has_account(&self, user: &str) -> bool {
        self.account(user).is_some()
    }

    /// Whom a guest or anonymous session acts as, where the configuration allows it.
    fn guest(&self) -> Option<Account>;

    /// Whether Kerberos tickets are judged: the configuration names keys.
    fn takes_tickets(&self) -> bool {
        false
    }

    /// Judges a ticket of a client at an address, elsewhere than on the caller's thread. The error says why it is refused:
    /// for the log, not for the client.
    fn judge_ticket(
        &self,
        from: IpAddr,
        ticket: Vec<u8>,
    ) -> BoxFuture<'static, Result<Shown, String>> {
        let _ = (from, ticket);
        Box::pin(std::future::ready(Err("no keys are configured".to_owned())))
    }

    /// Compares the SID of a ticket for an account with that of the account's first one,
    /// elsewhere than on the caller's thread. The error says why the ticket is refused.
    fn check_sid(
        &self,
        account: &str,
        sid: Option<String>,
    ) -> BoxFuture<'static, Result<(), String>> {
        let _ = (account, sid);
        Box::pin(std::future::ready(Ok(())))
    }

    /// Names of the system's users and groups, to be shown for their numbers.
    fn unix_names(&self) -> Arc<UnixNames> {
        Arc::default()
    }

    /// A logon failed: to be logged once, with the peer's address.
    fn logon_failed(&self, peer: SocketAddr, user: &str, why: &str);

    /// A logon succeeded.
    fn logon_succeeded(&self, peer: SocketAddr, user: &str);

    /// A request failed for a reason that an administrator may want to know: to
    /// be logged, not without a bound.
    fn trouble(&self, trouble: &Trouble) {
        let _ = trouble;
    }

    /// Carries on with work that nobody awaits any more. Whoever does not, drops it:
    /// it is withdrawn then.
    fn carry_on(&self, work: Pin<Box<dyn Future<Output = ()> + Send>>) {
        drop(work);
    }

    /// Begins to find out whether the clients of those connections are still there, and ends the
    /// connections of which nobody answers for. False if that cannot be found out.
    fn doubt(&self, connections: &[u64]) -> bool {
        let _ = connections;
        false
    }

    /// Someone logs on by a connection, which is charged to `holder` from now on. False if
    /// that one has too many: the logon is refused with REQUEST_NOT_ACCEPTED.
    fn admit_connection(&self, connection: u64, holder: &Holder) -> bool {
        let _ = (connection, holder);
        true
    }

    /// A client speaks no dialect that the configuration allows; what it
    /// offered, by number, or nothing if that was SMB1 only: to be logged.
    fn dialect_refused(&self, peer: SocketAddr, offered: &[u16]) {
        let _ = (peer, offered);
    }

    /// Whether [`Host::keep_open`] writes anything down.
    fn keeps_opens(&self) -> bool {
        false
    }

    /// Writes down what must be known of an open after a restart, in place of what
    /// was written under its number; or takes it away. Queued when it returns, in
    /// order; true once it survives power loss.
    fn keep_open(&self, id: u64, record: Option<Vec<u8>>) -> BoxFuture<'static, bool> {
        let _ = (id, record);
        Box::pin(std::future::ready(false))
    }

    /// The addresses that clients can reach this server at, by the `port` that
    /// they use.
    fn interfaces(&self, port: u16) -> Vec<InterfaceFact>;
}

/// What a request failed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TroubleKind {
    /// No room where the share's files are kept, or in the user's quota.
    NoSpace,
    /// The place where they are kept fails.
    Failed,
    /// A right is missing.
    Denied,
    /// The share's directory was removed.
    ShareGone,
}

/// A request that failed, and for whom.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// What for.
    pub kind: TroubleKind,
    /// Client's address.
    pub peer: SocketAddr,
    /// Numbers of the connection, and of the request on it.
    pub request: (u64, u64),
    /// Whose session it was.
    pub user: String,
    /// The share.
    pub share: String,
    /// What it was about, as the client names it: not to be trusted.
    pub path: String,
}

/// A user who may log on.
#[derive(Clone, Debug)]
pub struct Account {
    /// The name as it was stored.
    pub name: String,
    /// Hash of the password; see [`NtHash`].
    pub nt_hash: NtHash,
    /// On whose behalf files are touched.
    pub caller: Arc<Caller>,
    /// Names of the system groups that the user is in.
    pub groups: Arc<[String]>,
    /// A ticket may make somebody the superuser by this account.
    pub root_by_ticket: bool,
}

/// One address of a network interface. MS-SMB2 2.2.32.5.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceFact {
    /// The interface's index, as the system numbers it.
    pub index: u32,
    /// Receive-side scaling: several connections over it use several queues.
    pub rss: bool,
    /// Link speed.
    pub bits_per_second: u64,
    /// The address.
    pub address: IpAddr,
}
