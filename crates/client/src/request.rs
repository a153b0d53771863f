//! Requests before they have a message id.

use crate::limits::CREDIT_BYTES;
use bytes::Bytes;
use wire::codec::Writer;
use wire::smb::{
    CloseRequest, Command, CreateRequest, EmptyBody, FileId, FlushRequest, IoctlRequest,
    LockRequest, QueryDirectoryRequest, QueryFlags, QueryInfoRequest, ReadRequest, SetInfoRequest,
    TreeConnectRequest, TreeId, WriteRequest,
};

/// The body of a request.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum RequestBody<'a> {
    TreeConnect(TreeConnectRequest<'a>),
    TreeDisconnect,
    Logoff,
    Echo,
    Create(CreateRequest<'a>),
    Close(CloseRequest),
    Flush(FlushRequest),
    Read(ReadRequest),
    Write { file_id: FileId, offset_bytes: u64, flags: u32, data: &'a Bytes },
    Lock(&'a LockRequest),
    Ioctl(IoctlRequest<'a>),
    QueryDirectory(QueryDirectoryRequest<'a>),
    QueryInfo(QueryInfoRequest<'a>),
    SetInfo(SetInfoRequest<'a>),
}

/// A request.
#[derive(Clone, Debug)]
pub struct SmbRequest<'a> {
    /// Body.
    pub body: RequestBody<'a>,
    /// Tree; 0 for none.
    pub tree: TreeId,
    /// The tree requires sealed messages.
    pub seals: bool,
    /// The request was sent before, on a channel that was lost.
    pub is_replay: bool,
}

/// How to resend a request whose channel was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResendPolicy {
    /// Repeating it is harmless.
    Repeat,
    /// The server detects a replay. MS-SMB2 3.2.7.1.
    Replay,
    /// It must not be sent again.
    Never,
}

impl<'a> SmbRequest<'a> {
    /// Creates a request for a tree.
    #[must_use]
    pub fn new(body: RequestBody<'a>, tree: TreeId) -> Self {
        Self { body, tree, seals: false, is_replay: false }
    }

    pub(crate) fn command(&self) -> Command {
        match self.body {
            RequestBody::TreeConnect(_) => Command::TREE_CONNECT,
            RequestBody::TreeDisconnect => Command::TREE_DISCONNECT,
            RequestBody::Logoff => Command::LOGOFF,
            RequestBody::Echo => Command::ECHO,
            RequestBody::Create(_) => Command::CREATE,
            RequestBody::Close(_) => Command::CLOSE,
            RequestBody::Flush(_) => Command::FLUSH,
            RequestBody::Read(_) => Command::READ,
            RequestBody::Write { .. } => Command::WRITE,
            RequestBody::Lock(_) => Command::LOCK,
            RequestBody::Ioctl(_) => Command::IOCTL,
            RequestBody::QueryDirectory(_) => Command::QUERY_DIRECTORY,
            RequestBody::QueryInfo(_) => Command::QUERY_INFO,
            RequestBody::SetInfo(_) => Command::SET_INFO,
        }
    }

    /// Length of the payload, in the direction with the larger one.
    pub(crate) fn payload_bytes(&self) -> usize {
        match &self.body {
            RequestBody::Read(read) => read.length_bytes as usize,
            RequestBody::Write { data, .. } => data.len(),
            RequestBody::Ioctl(ioctl) => ioctl.input.len().max(ioctl.output_bytes_max as usize),
            RequestBody::QueryDirectory(query) => query.output_bytes as usize,
            RequestBody::QueryInfo(query) => query.output_bytes as usize,
            RequestBody::SetInfo(set) => set.input.len(),
            _ => 0,
        }
    }

    /// Credit charge, if the dialect supports large requests. MS-SMB2 3.2.4.1.5.
    pub(crate) fn charge(&self) -> u16 {
        self.payload_bytes().div_ceil(CREDIT_BYTES).max(1).min(usize::from(u16::MAX)) as u16
    }

    pub(crate) fn again(&self) -> ResendPolicy {
        match &self.body {
            RequestBody::Write { .. } | RequestBody::SetInfo(_) | RequestBody::Ioctl(_) => {
                ResendPolicy::Replay
            }
            // The server finds the open by its CreateGuid.
            RequestBody::Create(create) if !create.contexts.is_empty() => ResendPolicy::Replay,
            RequestBody::Create(_) | RequestBody::Lock(_) | RequestBody::Logoff => {
                ResendPolicy::Never
            }
            // A listing continues behind the last response, so a repetition would skip entries.
            RequestBody::QueryDirectory(query) if !query.flags.has(QueryFlags::RESTART) => {
                ResendPolicy::Never
            }
            _ => ResendPolicy::Repeat,
        }
    }

    /// Appends the body; without the data of a WRITE if `detached`.
    pub(crate) fn encode(&self, w: &mut Writer<'_>, detached: bool) {
        match &self.body {
            RequestBody::TreeConnect(body) => body.encode(w),
            RequestBody::TreeDisconnect | RequestBody::Logoff | RequestBody::Echo => {
                EmptyBody.encode(w)
            }
            RequestBody::Create(body) => body.encode(w),
            RequestBody::Close(body) => body.encode(w),
            RequestBody::Flush(body) => body.encode(w),
            RequestBody::Read(body) => body.encode(w),
            RequestBody::Write { file_id, offset_bytes, flags, data } => {
                let (file_id, offset_bytes, flags) = (*file_id, *offset_bytes, *flags);
                let body = WriteRequest { offset_bytes, file_id, flags, data };
                if detached { body.encode_without_data(w) } else { body.encode(w) }
            }
            RequestBody::Lock(body) => body.encode(w),
            RequestBody::Ioctl(body) => body.encode(w),
            RequestBody::QueryDirectory(body) => body.encode(w),
            RequestBody::QueryInfo(body) => body.encode(w),
            RequestBody::SetInfo(body) => body.encode(w),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(length_bytes: u32) -> SmbRequest<'static> {
        let file_id = FileId::default();
        let read =
            ReadRequest { flags: 0, length_bytes, offset_bytes: 0, file_id, minimum_bytes: 0 };
        SmbRequest::new(RequestBody::Read(read), TreeId(1))
    }

    #[test]
    fn credit_charge_is_one_per_64_kib() {
        for (bytes, charge) in [(0, 1), (1, 1), (65_536, 1), (65_537, 2), (8 << 20, 128)] {
            assert_eq!(read(bytes).charge(), charge, "{bytes}");
        }
    }

    #[test]
    fn modifying_request_is_replayed_but_not_repeated() {
        let data = Bytes::from_static(b"x");
        let file_id = FileId::default();
        let write = RequestBody::Write { file_id, offset_bytes: 0, flags: 0, data: &data };
        assert_eq!(SmbRequest::new(write, TreeId(1)).again(), ResendPolicy::Replay);
        assert_eq!(read(1).again(), ResendPolicy::Repeat);
        assert_eq!(SmbRequest::new(RequestBody::Logoff, TreeId(0)).again(), ResendPolicy::Never);
    }
}
