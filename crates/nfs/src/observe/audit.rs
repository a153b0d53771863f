//! Audit events of sessions: their begin and end, and denied operations.

use crate::clients::session::Session;
use crate::request::run::{Call, Run};
use crate::server::Server;
use meter::{AuditEvent, AuditKind, Authentication, NegotiatedSession, Protocol};
use wire::nfs::{NfsStatus, OperationNumber, SessionId};

fn shown(id: &SessionId) -> String {
    id.0.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn event(kind: AuditKind, call: &Call) -> AuditEvent {
    let identity = call.credentials.identity.as_ref();
    let by = if identity.is_some() { Authentication::AuthSys } else { Authentication::Anonymous };
    AuditEvent {
        peer: Some(call.conn.facts.peer),
        request: Some((call.conn.facts.id, u64::from(call.xid))),
        user: identity.map_or_else(String::new, |identity| format!("uid {}", identity.uid)),
        authentication: by.name(),
        ..AuditEvent::new(kind, Protocol::Nfs)
    }
}

/// Reports a created session, or a refusal.
pub(crate) fn session_setup(run: &Run<'_>, created: Result<&SessionId, NfsStatus>) {
    run.server().files.meter().audit(|| {
        let is_under_tls = run.call.conn.is_under_tls();
        let status = created.err().unwrap_or(NfsStatus::OK);
        AuditEvent {
            is_success: created.is_ok(),
            status: format!("{status:?}"),
            session: created.map_or_else(|_| String::new(), shown),
            agreed: Some(NegotiatedSession {
                dialect: format!("4.{}", run.minor_version),
                signing: "-",
                cipher: if is_under_tls { "TLS" } else { "-" },
                encrypted: is_under_tls,
            }),
            ..event(AuditKind::SessionSetup, run.call)
        }
    });
}

/// Reports a denied operation.
pub(crate) fn denied(run: &Run<'_>, number: OperationNumber, status: NfsStatus) {
    if !matches!(status, NfsStatus::ACCESS | NfsStatus::PERM | NfsStatus::WRONGSEC) {
        return;
    }
    run.server().files.meter().audit(|| AuditEvent {
        is_success: false,
        status: format!("{number:?} {status:?}"),
        session: run.session.as_ref().map_or_else(String::new, |session| shown(&session.id)),
        share: run.share_name(),
        ..event(AuditKind::Denied, run.call)
    });
}

/// Reports the end of a session.
pub(crate) fn session_end(server: &Server, session: &Session) {
    let facts = session.client.facts();
    server.files.meter().audit(|| AuditEvent {
        status: "Ended".to_owned(),
        // Address of its EXCHANGE_ID.
        peer: facts.peer.parse().ok(),
        session: shown(&session.id),
        user: facts.owner,
        ..AuditEvent::new(AuditKind::SessionEnd, Protocol::Nfs)
    });
}
