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
pub enum Body<'a> {
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
pub struct Request<'a> {
    /// Body.
    pub body: Body<'a>,
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

impl<'a> Request<'a> {
    /// Creates a request for a tree.
    #[must_use]
    pub fn new(body: Body<'a>, tree: TreeId) -> Self {
        Self { body, tree, seals: false, is_replay: false }
    }

    pub(crate) fn command(&self) -> Command {
        match self.body {
            Body::TreeConnect(_) => Command::TREE_CONNECT,
            Body::TreeDisconnect => Command::TREE_DISCONNECT,
            Body::Logoff => Command::LOGOFF,
            Body::Echo => Command::ECHO,
            Body::Create(_) => Command::CREATE,
            Body::Close(_) => Command::CLOSE,
            Body::Flush(_) => Command::FLUSH,
            Body::Read(_) => Command::READ,
            Body::Write { .. } => Command::WRITE,
            Body::Lock(_) => Command::LOCK,
            Body::Ioctl(_) => Command::IOCTL,
            Body::QueryDirectory(_) => Command::QUERY_DIRECTORY,
            Body::QueryInfo(_) => Command::QUERY_INFO,
            Body::SetInfo(_) => Command::SET_INFO,
        }
    }

    /// Length of the payload, in the direction with the larger one.
    pub(crate) fn payload_bytes(&self) -> usize {
        match &self.body {
            Body::Read(read) => read.length_bytes as usize,
            Body::Write { data, .. } => data.len(),
            Body::Ioctl(ioctl) => ioctl.input.len().max(ioctl.output_bytes_max as usize),
            Body::QueryDirectory(query) => query.output_bytes as usize,
            Body::QueryInfo(query) => query.output_bytes as usize,
            Body::SetInfo(set) => set.input.len(),
            _ => 0,
        }
    }

    /// Credit charge, if the dialect supports large requests. MS-SMB2 3.2.4.1.5.
    pub(crate) fn charge(&self) -> u16 {
        self.payload_bytes().div_ceil(CREDIT_BYTES).max(1).min(usize::from(u16::MAX)) as u16
    }

    pub(crate) fn again(&self) -> ResendPolicy {
        match &self.body {
            Body::Write { .. } | Body::SetInfo(_) | Body::Ioctl(_) => ResendPolicy::Replay,
            // The server finds the open by its CreateGuid.
            Body::Create(create) if !create.contexts.is_empty() => ResendPolicy::Replay,
            Body::Create(_) | Body::Lock(_) | Body::Logoff => ResendPolicy::Never,
            // A listing continues behind the last response, so a repetition would skip entries.
            Body::QueryDirectory(query) if !query.flags.has(QueryFlags::RESTART) => {
                ResendPolicy::Never
            }
            _ => ResendPolicy::Repeat,
        }
    }

    /// Appends the body; without the data of a WRITE if `detached`.
    pub(crate) fn encode(&self, w: &mut Writer<'_>, detached: bool) {
        match &self.body {
            Body::TreeConnect(body) => body.encode(w),
            Body::TreeDisconnect | Body::Logoff | Body::Echo => EmptyBody.encode(w),
            Body::Create(body) => body.encode(w),
            Body::Close(body) => body.encode(w),
            Body::Flush(body) => body.encode(w),
            Body::Read(body) => body.encode(w),
            Body::Write { file_id, offset_bytes, flags, data } => {
                let (file_id, offset_bytes, flags) = (*file_id, *offset_bytes, *flags);
                let body = WriteRequest { offset_bytes, file_id, flags, data };
                if detached { body.encode_without_data(w) } else { body.encode(w) }
            }
            Body::Lock(body) => body.encode(w),
            Body::Ioctl(body) => body.encode(w),
            Body::QueryDirectory(body) => body.encode(w),
            Body::QueryInfo(body) => body.encode(w),
            Body::SetInfo(body) => body.encode(w),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(length_bytes: u32) -> Request<'static> {
        let file_id = FileId::default();
        let read =
            ReadRequest { flags: 0, length_bytes, offset_bytes: 0, file_id, minimum_bytes: 0 };
        Request::new(Body::Read(read), TreeId(1))
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
        let write = Body::Write { file_id, offset_bytes: 0, flags: 0, data: &data };
        assert_eq!(Request::new(write, TreeId(1)).again(), ResendPolicy::Replay);
        assert_eq!(read(1).again(), ResendPolicy::Repeat);
        assert_eq!(Request::new(Body::Logoff, TreeId(0)).again(), ResendPolicy::Never);
    }
}
