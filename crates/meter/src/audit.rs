//! What is written down of who was here and what they were denied: events of sessions, told to
//! whoever the process has for that.

use crate::api::Protocol;
use std::net::SocketAddr;

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditKind {
    /// Somebody tried to show who they are.
    SessionSetup,
    /// Somebody tried to connect a share.
    TreeConnect,
    /// A right was missing.
    Denied,
    /// A session is over.
    SessionEnd,
}

impl AuditKind {
    /// What is shown.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::SessionSetup => "SessionSetup",
            Self::TreeConnect => "TreeConnect",
            Self::Denied => "AccessDenied",
            Self::SessionEnd => "SessionEnd",
        }
    }
}

/// One event. Texts may come from clients: not to be trusted.
#[derive(Clone, Debug)]
pub struct AuditEvent {
    /// What happened.
    pub kind: AuditKind,
    /// Over which protocol.
    pub protocol: Protocol,
    /// Whether it was let happen.
    pub is_success: bool,
    /// The status that it was answered with, or why it happened.
    pub status: String,
    /// From where, as far as that is known.
    pub peer: Option<SocketAddr>,
    /// Numbers of the connection and of the request on it.
    pub request: Option<(u64, u64)>,
    /// The session.
    pub session: String,
    /// Who, as they say, or as they have shown.
    pub user: String,
    /// How they show it.
    pub authentication: &'static str,
    /// The share.
    pub share: String,
    /// The path in it.
    pub path: String,
    /// What was agreed: version of the protocol, signing, encryption.
    pub agreed: Option<Agreed>,
}

/// What was agreed for a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Agreed {
    /// Version of the protocol.
    pub dialect: String,
    /// How messages are signed.
    pub signing: &'static str,
    /// How messages are sealed, or may be.
    pub cipher: &'static str,
    /// Whether all are.
    pub encrypted: bool,
}

impl AuditEvent {
    /// An event of which nothing more is known.
    #[must_use]
    pub fn new(kind: AuditKind, protocol: Protocol) -> Self {
        Self {
            kind,
            protocol,
            is_success: true,
            status: String::new(),
            peer: None,
            request: None,
            session: String::new(),
            user: String::new(),
            authentication: "",
            share: String::new(),
            path: String::new(),
            agreed: None,
        }
    }
}

/// Who writes events down. Must not wait.
pub trait AuditSink: Send + Sync + std::fmt::Debug {
    /// Takes an event.
    fn take(&self, event: &AuditEvent);
}
