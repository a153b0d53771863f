//! SESSION_SETUPs that a connection holds: in progress, waiting, or with the verdict on their ticket.

use crate::logon::logon_throttle::{LogonAttempt, WaitingLogon, WaitingTicket};
use crate::session::state::SmbSession;
use bytes::Bytes;
use meter::Arrival;
use std::sync::Arc;
use std::time::Instant;
use wire::crypto::PreauthHash;
use wire::smb::{Header, SessionId};
use wire::spnego::{self, AcceptedTicket, TicketRefusal};

/// A session set-up in progress.
#[derive(Debug)]
pub struct PendingSetup {
    pub(super) acceptor: spnego::SpnegoAcceptor,
    pub(super) preauth: PreauthHash,
    pub(super) purpose: SetupPurpose,
}

/// The purpose of a session set-up.
#[derive(Clone, Debug)]
pub enum SetupPurpose {
    /// Creates a session.
    New,
    /// Re-authenticates a session of this connection.
    Reauthenticate(Arc<SmbSession>),
    /// Binds a session of another connection to this one as a channel.
    Bind(Arc<SmbSession>),
}

impl PendingSetup {
    pub(super) fn bound(&self) -> Option<&Arc<SmbSession>> {
        if let SetupPurpose::Bind(session) = &self.purpose { Some(session) } else { None }
    }
}

/// A SESSION_SETUP whose credits are charged.
#[derive(Debug)]
pub struct SetupRequest {
    pub frame: Bytes,
    pub header: Header,
    pub grant: u16,
    /// The session whose keys decrypted it.
    pub sealed_by: Option<SessionId>,
}

/// The reason for which a SESSION_SETUP waits.
#[derive(Debug)]
pub enum SetupWaitReason {
    /// A binding to a session with all its channels. It waits while the server probes whether each
    /// of them still reaches the client. At most one of a connection.
    Room { until: Instant },
    /// A password whose verification is delayed.
    Password { until: Instant, place: WaitingLogon },
    /// A preceding SESSION_SETUP of the same session waits.
    Turn,
}

impl SetupWaitReason {
    /// The queue entry of a delayed password.
    pub(crate) fn place(&self) -> Option<&WaitingLogon> {
        if let Self::Password { place, .. } = self { Some(place) } else { None }
    }
}

/// A password whose verification must be delayed.
#[derive(Debug)]
pub struct DelayedLogon {
    pub attempt: LogonAttempt,
    pub due: Instant,
    /// The user name as the client sent it.
    pub user: String,
}

/// A waiting SESSION_SETUP.
#[derive(Debug)]
pub struct WaitingSetup {
    pub(super) setup: SetupRequest,
    pub(super) arrival: Option<Arrival>,
    pub(super) wait: SetupWaitReason,
    /// Time of the next try; none until the preceding one is answered.
    pub(super) next_try: Option<Instant>,
}

impl WaitingSetup {
    /// Time of the next try.
    pub fn due(&self) -> Option<Instant> {
        self.next_try
    }

    pub(super) fn is_of(&self, session: SessionId) -> bool {
        self.setup.header.session_id == session
    }
}

/// A SESSION_SETUP with the verdict on its ticket.
#[derive(Debug)]
pub struct TicketVerdict {
    pub(super) setup: SetupRequest,
    pub(super) session: SessionId,
    pub(super) arrival: Option<Arrival>,
    pub(super) verdict: Result<AcceptedTicket, TicketRefusal>,
    /// Its place among the waiting tickets, held until the response.
    pub(super) place: WaitingTicket,
}
