//! CHANGE_NOTIFY. MS-SMB2 3.3.5.19. `files::watch` selects the changes that a request reports.

use crate::conversion::names::{push_units, stream_units};
use crate::conversion::status::status_of;
use crate::opens::open::Open;
use crate::request::context::{AsyncReply, HandlerOutcome, Request, ResponseParts, malformed};
use files::{ChangeAction, NextChanges, WatchAnswer, WatchChange, WatchFilter, WatchWish};
use futures_util::future::{Either, select};
use limits::Cost;
use std::pin::pin;
use std::sync::Arc;
use wire::codec::Writer;
use wire::fscc::{NotifyAction, NotifyList, notify_list_bytes};
use wire::ntstatus::NtStatus;
use wire::smb::{ChangeNotifyRequest, Header, empty_notify_response, output_buffer_response};

/// Reports changes in a directory, once there are any.
///
/// # Errors
/// `INVALID_PARAMETER` for a file or too large a buffer, `ACCESS_DENIED` if the open may not list,
/// `INSUFFICIENT_RESOURCES` if the user has too many watches, `NOTIFY_CLEANUP` once the open is
/// closed, `DELETE_PENDING` once the directory is marked for deletion, `NOTIFY_ENUM_DIR` for too
/// many changes.
pub async fn change_notify(request: &mut Request<'_>) -> Result<HandlerOutcome, NtStatus> {
    let body = ChangeNotifyRequest::decode(&mut request.body()?).map_err(malformed)?;
    request.check_payload(0, body.output_bytes as usize)?;
    let open = request.open(body.file_id)?;
    let open = request.admit(open, Cost::metadata()).await?;
    let wish = WatchWish {
        filter: WatchFilter(body.filter),
        tree: body.flags & ChangeNotifyRequest::WATCH_TREE != 0,
        room_bytes: body.output_bytes as usize,
        measure,
    };
    let holder = &request.session()?.holder;
    let next = request.files.watch(open.file()?, &wish, holder).map_err(status_of)?;
    Ok(HandlerOutcome::Wait(Box::pin(wait(open, next))))
}

async fn wait(open: Arc<Open>, next: NextChanges) -> Result<AsyncReply, NtStatus> {
    let answer = match select(pin!(next.answer()), pin!(open.closed.raised())).await {
        Either::Left((answer, _)) => answer,
        Either::Right(_) => WatchAnswer::Closed,
    };
    match answer {
        WatchAnswer::Changes(changes) => {
            let list = encode(&changes);
            Ok(reply_with(NtStatus::SUCCESS, |w| output_buffer_response(w, &list)))
        }
        // Both are success codes. MS-SMB2 3.3.4.4, 3.3.5.10.
        WatchAnswer::Closed => Ok(reply_with(NtStatus::NOTIFY_CLEANUP, empty_notify_response)),
        WatchAnswer::Overflow => Ok(reply_with(NtStatus::NOTIFY_ENUM_DIR, empty_notify_response)),
        WatchAnswer::DeletePending => Err(NtStatus::DELETE_PENDING),
    }
}

/// A response with this body, whose offsets count from the header that is added later.
fn reply_with(status: NtStatus, encode: impl FnOnce(&mut Writer<'_>)) -> AsyncReply {
    let mut message = vec![0; Header::LENGTH];
    encode(&mut Writer::with_origin(&mut message, 0));
    let body = message.split_off(Header::LENGTH);
    AsyncReply { reply: ResponseParts::with_status(status), body, open: None }
}

/// The name of a change in SMB's encoding.
fn units(change: &WatchChange) -> Vec<u16> {
    let mut units = Vec::with_capacity(change.path.as_bytes().len());
    for component in change.path.components() {
        if !units.is_empty() {
            units.push(u16::from(b'\\'));
        }
        push_units(&mut units, component);
    }
    if let Some(stream) = &change.stream {
        units.push(u16::from(b':'));
        // The name of a stream that no client can open is shown lossily.
        let lossy = || String::from_utf8_lossy(stream.as_bytes()).encode_utf16().collect();
        units.extend(stream_units(stream).unwrap_or_else(lossy));
    }
    units
}

fn measure(length_bytes: usize, change: &WatchChange) -> usize {
    notify_list_bytes(length_bytes, units(change).len())
}

fn encode(changes: &[WatchChange]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut list = NotifyList::new(&mut out);
    for change in changes {
        let action = match change.kind {
            ChangeAction::Added => NotifyAction::Added,
            ChangeAction::Modified => NotifyAction::Modified,
            ChangeAction::Removed => NotifyAction::Removed,
            ChangeAction::RenamedFrom => NotifyAction::RenamedOldName,
            ChangeAction::RenamedTo => NotifyAction::RenamedNewName,
            ChangeAction::AddedStream => NotifyAction::AddedStream,
            ChangeAction::ModifiedStream => NotifyAction::ModifiedStream,
            ChangeAction::RemovedStream => NotifyAction::RemovedStream,
        };
        list.put(action, &units(change));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use vfs::{Name, RelPath};

    fn change(components: &[&str]) -> WatchChange {
        let names = components.iter().map(|name| Name::new(name.as_bytes()).unwrap());
        WatchChange { kind: ChangeAction::Added, path: names.collect::<RelPath>(), stream: None }
    }

    #[test]
    fn stream_change_is_named_after_its_file_without_a_type() {
        let stream = Some(vfs::StreamName::new(&b"Note"[..]).unwrap());
        let change =
            WatchChange { kind: ChangeAction::AddedStream, stream, ..change(&["sub", "a:b"]) };
        let expected: Vec<u16> = "sub\\a\u{F022}b:Note".encode_utf16().collect();
        assert_eq!(units(&change), expected);
        let encoded = encode(std::slice::from_ref(&change));
        assert_eq!(encoded[4..8], 6u32.to_le_bytes());
        assert_eq!(encoded.len(), measure(0, &change));
    }

    /// Microsoft's test suite follows the data offset even of an empty response.
    #[test]
    fn empty_change_response_has_a_valid_data_offset() {
        let answer = reply_with(NtStatus::NOTIFY_CLEANUP, empty_notify_response);
        assert_eq!(answer.body, [9, 0, 72, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn changed_names_are_shown_as_clients_open_them() {
        let shown = units(&change(&["dir", "a:b", "end."]));
        let expected: Vec<u16> = "dir\\a\u{F022}b\\end\u{F029}".encode_utf16().collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn measured_size_of_changes_equals_their_encoding() {
        let changes = [change(&["odd"]), change(&["sub", "🦀"]), change(&["even"])];
        assert_eq!(changes.iter().fold(0, measure), encode(&changes).len());
    }
}
