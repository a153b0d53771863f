//! Audit events of sessions: set-ups, tree connects, ends and denied accesses.

use crate::host::RequestFailure;
use crate::outgoing::conn_handle::SmbConnFacts;
use crate::session::state::SmbSession;
use meter::{AuditEvent, AuditKind, Authentication, Meter, MeteredProtocol, NegotiatedSession};
use std::sync::Arc;
use wire::ntstatus::NtStatus;
use wire::smb::{Header, MessageId, SessionId};

fn shown(id: SessionId) -> String {
    format!("{:016x}", id.0)
}

fn agreed(session: &SmbSession) -> NegotiatedSession {
    NegotiatedSession {
        dialect: session.dialect.to_string(),
        signing: session.signing,
        cipher: session.cipher,
        encrypted: session.encrypt_data,
    }
}

/// An audit event with the fields of a session.
fn of(kind: AuditKind, session: &SmbSession) -> AuditEvent {
    AuditEvent {
        session: shown(session.id),
        user: session.user().account.name.clone(),
        authentication: session.authentication().name(),
        ..AuditEvent::new(kind, MeteredProtocol::Smb)
    }
}

/// Audits a successful or failed session set-up.
pub fn session_setup(
    meter: &Meter,
    (facts, header): (SmbConnFacts, &Header),
    session: Option<&SmbSession>,
    (user, is_ticket): (&str, bool),
    status: NtStatus,
) {
    meter.audit(|| AuditEvent {
        is_success: session.is_some(),
        status: format!("{status:?}"),
        peer: Some(facts.peer),
        request: Some((facts.id, header.message_id.0)),
        agreed: session.map(agreed),
        ..match session {
            Some(session) => of(AuditKind::SessionSetup, session),
            None => AuditEvent {
                session: shown(header.session_id),
                user: user.to_owned(),
                authentication: if is_ticket {
                    Authentication::Kerberos.name()
                } else {
                    Authentication::NTLMv2.name()
                },
                ..AuditEvent::new(AuditKind::SessionSetup, MeteredProtocol::Smb)
            },
        }
    });
}

/// Audits a TREE_CONNECT to the given path.
pub fn tree_connect(
    meter: &Meter,
    facts: SmbConnFacts,
    (message, session): (MessageId, Option<&Arc<SmbSession>>),
    path: &[u8],
    status: NtStatus,
) {
    meter.audit(|| {
        let units = wire::codec::utf16_units(path, "tree path").unwrap_or_default();
        let path = String::from_utf16_lossy(&units);
        let share = path.trim_end_matches('\0').rsplit('\\').next().unwrap_or_default();
        let event = session.map(|session| of(AuditKind::TreeConnect, session));
        AuditEvent {
            is_success: status.is_success(),
            status: format!("{status:?}"),
            peer: Some(facts.peer),
            request: Some((facts.id, message.0)),
            share: share.to_owned(),
            ..event.unwrap_or_else(|| AuditEvent::new(AuditKind::TreeConnect, MeteredProtocol::Smb))
        }
    });
}

/// Audits a denied access.
pub fn denied(meter: &Meter, session: &SmbSession, failure: &RequestFailure) {
    meter.audit(|| AuditEvent {
        is_success: false,
        status: format!("{:?}", NtStatus::ACCESS_DENIED),
        peer: Some(failure.peer),
        request: Some(failure.request),
        share: failure.share.clone(),
        path: failure.path.clone(),
        ..of(AuditKind::Denied, session)
    });
}

/// Audits the end of a session.
pub fn session_end(meter: &Meter, session: &SmbSession, why: &str) {
    meter.audit(|| AuditEvent {
        status: why.to_owned(),
        peer: Some(session.peer),
        agreed: Some(agreed(session)),
        ..of(AuditKind::SessionEnd, session)
    });
}
