//! Failures that an administrator can remedy, reported to the process: a full disk, a failing disk,
//! a missing right, a removed share directory.

use crate::audit;
use crate::chain::{Element, RelatedState};
use crate::conn::ConnFacts;
use crate::host::{Host, Trouble, TroubleKind};
use crate::server::Server;
use wire::codec::{Reader, utf16_units};
use wire::ntstatus::NtStatus;
use wire::smb::{Command, CreateRequest, Header, MessageId};

/// The kind of failure that a status indicates.
fn kind_of(status: NtStatus) -> Option<TroubleKind> {
    match status {
        NtStatus::DISK_FULL => Some(TroubleKind::NoSpace),
        NtStatus::UNEXPECTED_IO_ERROR => Some(TroubleKind::Failed),
        NtStatus::ACCESS_DENIED => Some(TroubleKind::Denied),
        _ => None,
    }
}

/// Reports a request that failed with `status`, if its status is worth it.
pub fn report(
    server: &Server,
    facts: ConnFacts,
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
    let tell = |trouble: Trouble| {
        if trouble.kind == TroubleKind::Denied {
            audit::denied(server, session, &trouble);
        }
        server.host.trouble(&trouble);
    };
    if element.header.command == Command::CREATE {
        let tree = session.tree(related.tree.unwrap_or(element.header.tree_id)).ok();
        let share = tree.map(|tree| tree.share.name.clone()).unwrap_or_default();
        tell(Trouble { kind, peer, request, user, share, path: name_of(message) });
    } else if let Some(open) = &related.open {
        let path = open.file().map(|file| file.path());
        let path = path.map(|p| String::from_utf8_lossy(p.as_bytes()).into_owned());
        let path = path.unwrap_or_default();
        tell(Trouble { kind, peer, request, user, share: open.tree.share.name.clone(), path });
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
    host: &dyn Host,
    facts: ConnFacts,
    message: MessageId,
    user: &str,
    share: &str,
) {
    let (user, share) = (user.to_owned(), share.to_owned());
    let kind = TroubleKind::ShareGone;
    let (peer, request) = (facts.peer, (facts.id, message.0));
    host.trouble(&Trouble { kind, peer, request, user, share, path: String::new() });
}
