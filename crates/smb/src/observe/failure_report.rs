//! Failures that an administrator can remedy, reported to the process: a full disk, a failing disk,
//! a missing right, a removed share directory.

use crate::host::{RequestFailure, RequestFailureKind, SmbHost};
use crate::observe::audit;
use crate::outgoing::conn_handle::SmbConnFacts;
use crate::request::element::{Element, RelatedState};
use crate::server::SmbServer;
use wire::codec::{Reader, utf16_units};
use wire::ntstatus::NtStatus;
use wire::smb::{Command, CreateRequest, Header, MessageId};

/// The kind of failure that a status indicates.
fn kind_of(status: NtStatus) -> Option<RequestFailureKind> {
    match status {
        NtStatus::DISK_FULL => Some(RequestFailureKind::NoSpace),
        NtStatus::UNEXPECTED_IO_ERROR => Some(RequestFailureKind::StorageError),
        NtStatus::ACCESS_DENIED => Some(RequestFailureKind::AccessDenied),
        _ => None,
    }
}

/// Reports a request that failed with `status`, if its status is worth it.
pub fn report(
    server: &SmbServer,
    facts: SmbConnFacts,
    element: &Element,
    message: &[u8],
    related: &RelatedState,
    status: NtStatus,
) {
    let Some(kind) = kind_of(status) else { return };
    let Some(channel) = element.channel.as_ref().filter(|_| element.refused.is_none()) else {
        return;
    };
    let session = &channel.session;
    let user = session.user().account.name.clone();
    let (peer, request) = (facts.peer, (facts.id, element.header.message_id.0));
    let tell = |failure: RequestFailure| {
        if failure.kind == RequestFailureKind::AccessDenied {
            audit::denied(server.files.meter(), session, &failure);
        }
        server.host.report_failure(&failure);
    };
    if element.header.command == Command::CREATE {
        let tree = session.tree(related.tree.unwrap_or(element.header.tree_id)).ok();
        let share = tree.map(|tree| tree.share.name.clone()).unwrap_or_default();
        tell(RequestFailure { kind, peer, request, user, share, path: name_of(message) });
    } else if let Some(open) = &related.open {
        let path = open.file().map(|file| file.path());
        let path = path.map(|p| String::from_utf8_lossy(p.as_bytes()).into_owned());
        let path = path.unwrap_or_default();
        tell(RequestFailure {
            kind,
            peer,
            request,
            user,
            share: open.tree.share.name.clone(),
            path,
        });
    }
}

/// The file name of a CREATE, for the log.
fn name_of(message: &[u8]) -> String {
    let mut r = Reader::new(message);
    let body = r.skip(Header::LENGTH, "header").and_then(|()| CreateRequest::decode(&mut r));
    let units = body.and_then(|body| utf16_units(body.name, "name")).unwrap_or_default();
    String::from_utf16_lossy(&units).replace('\\', "/")
}

/// Reports that the directory of a share was removed.
pub fn report_share_gone(
    host: &dyn SmbHost,
    facts: SmbConnFacts,
    message: MessageId,
    user: &str,
    share: &str,
) {
    let (user, share) = (user.to_owned(), share.to_owned());
    let kind = RequestFailureKind::ShareGone;
    let (peer, request) = (facts.peer, (facts.id, message.0));
    host.report_failure(&RequestFailure { kind, peer, request, user, share, path: String::new() });
}
