//! Audit events: sessions and denied access, passed to the process's audit sink.

use crate::api::MeteredProtocol;
use std::net::SocketAddr;

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditKind {
    /// An attempt to authenticate.
    SessionSetup,
    /// An attempt to connect to a share.
    TreeConnect,
    /// An operation was denied.
    Denied,
    /// A session ended.
    SessionEnd,
}

impl AuditKind {
    /// The displayed name.
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

/// One event. Texts may come from clients and must not be trusted.
#[derive(Clone, Debug)]
pub struct AuditEvent {
    /// Kind of the event.
    pub kind: AuditKind,
    /// Protocol.
    pub protocol: MeteredProtocol,
    /// Whether the attempt succeeded.
    pub is_success: bool,
    /// Status of the reply, or the reason of the event.
    pub status: String,
    /// Address of the client, if known.
    pub peer: Option<SocketAddr>,
    /// Numbers of the connection and of the request on it.
    pub request: Option<(u64, u64)>,
    /// Id of the session.
    pub session: String,
    /// User name, claimed or authenticated.
    pub user: String,
    /// Authentication mechanism.
    pub authentication: &'static str,
    /// Name of the share.
    pub share: String,
    /// Path in the share.
    pub path: String,
    /// Negotiated dialect, signing and encryption.
    pub agreed: Option<NegotiatedSession>,
}

/// Negotiated properties of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NegotiatedSession {
    /// Protocol dialect.
    pub dialect: String,
    /// Signing algorithm.
    pub signing: &'static str,
    /// Cipher, if encryption is possible.
    pub cipher: &'static str,
    /// Whether all messages are encrypted.
    pub encrypted: bool,
}

impl AuditEvent {
    /// An event without further details.
    #[must_use]
    pub fn new(kind: AuditKind, protocol: MeteredProtocol) -> Self {
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

/// Receiver of audit events. It must not block.
pub trait AuditSink: Send + Sync + std::fmt::Debug {
    /// Takes an event.
    fn take(&self, event: &AuditEvent);
}
