//! Audit events of sessions: their begin and end, and denied operations.

use crate::clients::credentials::CallCredentials;
use crate::clients::link::ConnLink;
use crate::clients::session::NfsSession;
use meter::{AuditEvent, AuditKind, Authentication, Meter, MeteredProtocol, NegotiatedSession};
use wire::nfs::{NfsSessionId, NfsStatus, OperationNumber};

/// Facts of the call that an event reports.
#[derive(Debug)]
pub struct RequestOrigin<'c> {
    /// Connection on which it arrived.
    pub connection: &'c ConnLink,
    /// RPC transaction id.
    pub xid: u32,
    /// Credentials of the caller.
    pub credentials: &'c CallCredentials,
}

fn shown(id: &NfsSessionId) -> String {
    id.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn event(kind: AuditKind, origin: &RequestOrigin<'_>) -> AuditEvent {
    let identity = origin.credentials.identity.as_ref();
    let by = if identity.is_some() { Authentication::AuthSys } else { Authentication::Anonymous };
    let facts = origin.connection.facts;
    AuditEvent {
        peer: Some(facts.peer),
        request: Some((facts.id, u64::from(origin.xid))),
        user: identity.map_or_else(String::new, |identity| format!("uid {}", identity.uid)),
        authentication: by.name(),
        ..AuditEvent::new(kind, MeteredProtocol::Nfs)
    }
}

/// Reports a created session, or a refusal.
pub fn session_setup(
    meter: &Meter,
    origin: &RequestOrigin<'_>,
    minor_version: u32,
    created: Result<&NfsSessionId, NfsStatus>,
) {
    meter.audit(|| {
        let is_under_tls = origin.connection.is_under_tls();
        let status = created.err().unwrap_or(NfsStatus::OK);
        AuditEvent {
            is_success: created.is_ok(),
            status: format!("{status:?}"),
            session: created.map_or_else(|_| String::new(), shown),
            agreed: Some(NegotiatedSession {
                dialect: format!("4.{minor_version}"),
                signing: "-",
                cipher: if is_under_tls { "TLS" } else { "-" },
                encrypted: is_under_tls,
            }),
            ..event(AuditKind::SessionSetup, origin)
        }
    });
}

/// Reports a denied operation of a session on the share with the name that `share` gives.
pub fn denied(
    meter: &Meter,
    origin: &RequestOrigin<'_>,
    (session, share): (&NfsSessionId, impl FnOnce() -> String),
    (number, status): (OperationNumber, NfsStatus),
) {
    if !matches!(status, NfsStatus::ACCESS | NfsStatus::PERM | NfsStatus::WRONGSEC) {
        return;
    }
    meter.audit(|| AuditEvent {
        is_success: false,
        status: format!("{number:?} {status:?}"),
        session: shown(session),
        share: share(),
        ..event(AuditKind::Denied, origin)
    });
}

/// Reports the end of a session.
pub fn session_end(meter: &Meter, session: &NfsSession) {
    let facts = session.client.facts();
    meter.audit(|| AuditEvent {
        status: "Ended".to_owned(),
        // Address of its EXCHANGE_ID.
        peer: facts.peer.parse().ok(),
        session: shown(&session.id),
        user: facts.owner,
        ..AuditEvent::new(AuditKind::SessionEnd, MeteredProtocol::Nfs)
    });
}
