//! State of a connection that its requests share: bound sessions, recent callers, warnings.

use crate::clients::client::ClientIncarnation;
use crate::clients::credentials::Callers;
use crate::clients::link::{ConnLink, NfsConnFacts};
use crate::clients::session::NfsSession;
use crate::exports::export::{Export, HostVerdict};
use crate::limits::SESSIONS_PER_CONNECTION_MAX;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use sync::Mutex;
use wire::nfs::{NfsSessionId, NfsStatus};

/// Connection state that its jobs share.
#[derive(Debug)]
pub struct ConnShared {
    /// Addresses, and calls to the client.
    pub link: Arc<ConnLink>,
    /// Recent callers on the connection.
    pub callers: Callers,
    /// A request has named a valid client or session on it.
    is_identified: AtomicBool,
    /// The log has a warning that a share here needs TLS.
    is_warned: AtomicBool,
    /// The log has a warning that a share here needs a reserved source port.
    is_warned_of_port: AtomicBool,
    /// Bound sessions, the one of the latest request first.
    sessions: Mutex<Vec<Arc<NfsSession>>>,
}

impl ConnShared {
    /// State of a new connection.
    #[must_use]
    pub fn new(facts: NfsConnFacts) -> Self {
        Self {
            link: Arc::new(ConnLink::new(facts)),
            callers: Callers::default(),
            is_identified: AtomicBool::new(false),
            is_warned: AtomicBool::new(false),
            is_warned_of_port: AtomicBool::new(false),
            sessions: Mutex::default(),
        }
    }

    /// Whether a request has named a valid client or session.
    #[must_use]
    pub fn is_identified(&self) -> bool {
        self.is_identified.load(Ordering::Acquire)
    }

    /// Notes that a request has named a valid client or session.
    pub fn set_identified(&self) {
        self.is_identified.store(true, Ordering::Release);
    }

    /// Checks that the connection may reach a share.
    ///
    /// # Errors
    /// `absent`, the status of a missing share, for other hosts. `unanswered` where an entry
    /// without an answer may admit the host. DELAY while a host lookup is in flight. PERM for an
    /// unreserved source port where a reserved one is required, as the Linux server replies.
    /// WRONGSEC without required TLS.
    pub(crate) fn admit(
        &self,
        export: &Export,
        absent: NfsStatus,
        unanswered: NfsStatus,
    ) -> Result<(), NfsStatus> {
        match export.verdict(self.link.facts.peer.ip()) {
            HostVerdict::Admitted => {}
            HostVerdict::Refused => return Err(absent),
            HostVerdict::Unanswered => return Err(unanswered),
            HostVerdict::Unknown => return Err(NfsStatus::DELAY),
        }
        if export.reserved_ports && !self.link.facts.has_reserved_port() {
            self.warn_of_unreserved_port(&export.name);
            return Err(NfsStatus::PERM);
        }
        if export.tls_required && !self.link.is_under_tls() {
            self.warn_of_missing_tls(&export.name);
            return Err(NfsStatus::WRONGSEC);
        }
        Ok(())
    }

    /// Logs once how a client without TLS can reach a share.
    fn warn_of_missing_tls(&self, share: &[u8]) {
        if !self.is_warned.swap(true, Ordering::Relaxed) {
            let (peer, share) = (self.link.facts.peer, String::from_utf8_lossy(share));
            tracing::warn!(%peer, %share, "refused, since nfs_tls is required here and the connection does not use TLS: mount with xprtsec=tls, and run tlshd on the client");
        }
    }

    /// Logs once how a client from an unreserved port can reach a share.
    fn warn_of_unreserved_port(&self, share: &[u8]) {
        if !self.is_warned_of_port.swap(true, Ordering::Relaxed) {
            let (peer, share) = (self.link.facts.peer, String::from_utf8_lossy(share));
            tracing::warn!(%peer, %share, "refused, since the connection uses an unreserved source port (1024 or higher), from which any program can claim any user: mount without noresvport, run a user-space client as root, or set reserved_ports = false for the share if every program on its clients is trusted");
        }
    }

    /// The bound session with this id.
    pub fn session(&self, id: NfsSessionId) -> Option<Arc<NfsSession>> {
        self.sessions.lock().iter().find(|session| session.id == id).cloned()
    }

    /// Whether the connection is bound to a session of the client.
    pub fn is_of(&self, client: &Arc<ClientIncarnation>) -> bool {
        self.sessions.lock().iter().any(|session| Arc::ptr_eq(&session.client, client))
    }

    /// Binds the connection to a session. RFC 8881 2.10.3.1: with SP4_NONE any request of the
    /// session binds.
    pub fn bind(self: &Arc<Self>, session: &Arc<NfsSession>) {
        let mut sessions = self.sessions.lock();
        if sessions.first().is_some_and(|first| Arc::ptr_eq(first, session)) {
            return;
        }
        let before = sessions.len();
        sessions.retain(|known| !Arc::ptr_eq(known, session));
        let is_new = sessions.len() == before;
        sessions.retain(|known| !known.has_ended());
        sessions.truncate(SESSIONS_PER_CONNECTION_MAX - 1);
        sessions.insert(0, session.clone());
        drop(sessions);
        if is_new {
            session.add_connection(&self.link);
        }
    }
}
