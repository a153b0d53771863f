//! A request on its way through its handler: its message, session and open, and the writer of its
//! response.

use crate::config::SmbShare;
use crate::limits::FRAME_BYTES_MAX;
use crate::opens::open::{Open, OutstandingRequest};
use crate::outgoing::conn_handle::ConnHandle;
use crate::request::element::RelatedState;
use crate::request::unpaid::{UnpaidOpen, UnpaidTree};
use crate::server::SmbServer;
use crate::session::channel::SessionChannel;
use crate::session::negotiation::Negotiation;
use crate::session::state::SmbSession;
use crate::shares::tree::TreeConnect;
use files::{CacheGrant, RequestFiles, ResidentRange};
use limits::ThrottleReason;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;
use wire::codec::{DecodeError, Reader, Writer};
use wire::ntstatus::NtStatus;
use wire::smb::negotiate::capabilities;
use wire::smb::{Command, Dialect, ErrorResponse, FileId, Flags, Header, SessionId, TreeId};

/// A request and the writer of its response.
pub struct Request<'a> {
    /// The server.
    pub server: &'a Arc<SmbServer>,
    /// The file layer, bound to this request's context.
    pub files: &'a RequestFiles,
    /// The parameters of its connection.
    pub negotiated: &'a Arc<Negotiation>,
    /// The shared part of its connection.
    pub shared: &'a Arc<ConnHandle>,
    /// Arrival time of its frame.
    pub now: Instant,
    /// The request's header.
    pub header: &'a Header,
    /// The request, header included: the origin of its offsets.
    pub message: &'a [u8],
    /// The session's channel on this connection.
    pub channel: Option<&'a Arc<SessionChannel>>,
    /// Its entry among the outstanding requests of its open, until the response.
    pub outstanding: &'a mut Option<OutstandingRequest>,
    /// Its delay by the limits of its share.
    pub throttled: &'a mut ThrottleReason,
    /// State that earlier requests of the chain left.
    pub related: &'a mut RelatedState,
    /// True if it inherits that state.
    pub is_related: bool,
    /// True if its response is alone in its frame.
    pub is_single: bool,
    /// True if it was encrypted; its response is encrypted then.
    pub is_sealed: bool,
    /// Writer of the response's body, positioned after the reserved header.
    pub w: Writer<'a>,
}

/// The result of a handler, other than an error status with an empty body.
pub enum HandlerOutcome {
    /// The body is written.
    Done(ResponseParts),
    /// The request waits for an event.
    Wait(WaitFuture),
    /// The request waits, and survives the loss of its channel while its session lasts.
    WaitOnSession(WaitFuture),
}

/// The pending part of a request. It owns all that it needs; dropping it cancels the request.
pub type WaitFuture = Pin<Box<dyn Future<Output = Result<AsyncReply, NtStatus>> + Send>>;

/// The response of a request that waited.
pub struct AsyncReply {
    /// Header fields of the response.
    pub reply: ResponseParts,
    /// The body.
    pub body: Vec<u8>,
    /// The open that related requests inherit.
    pub open: Option<Arc<Open>>,
}

/// Header fields of a response, and file data that follows its body.
#[derive(Debug, Default)]
pub struct ResponseParts {
    /// Status; a body may accompany an error status, too.
    pub status: NtStatus,
    /// File data at the end of the frame.
    pub file: Option<ResidentRange>,
    /// The tree id that TREE_CONNECT assigned.
    pub tree_id: Option<TreeId>,
    /// The session that logged off.
    pub logged_off: Option<SessionId>,
    /// The caching that the response grants.
    pub granted: Option<CacheGrant>,
    /// The response must be encrypted even if the request was not.
    pub seal: bool,
}

impl ResponseParts {
    /// A response with a status only.
    #[must_use]
    pub fn with_status(status: NtStatus) -> Self {
        Self { status, ..Self::default() }
    }
}

impl HandlerOutcome {
    /// A successful response.
    #[must_use]
    pub fn success() -> Self {
        Self::Done(ResponseParts::default())
    }

    /// A response with a body and a status other than success.
    #[must_use]
    pub fn status(status: NtStatus) -> Self {
        Self::Done(ResponseParts::with_status(status))
    }
}

/// The refusal of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryRefusal {
    /// A status alone.
    Status(NtStatus),
    /// `BUFFER_TOO_SMALL`: the response needs at least so many bytes.
    BufferTooSmall(usize),
}

impl From<NtStatus> for QueryRefusal {
    fn from(status: NtStatus) -> Self {
        Self::Status(status)
    }
}

impl<'a> Request<'a> {
    /// Refuses a query. Clients repeat it with the buffer size that the error data names. MS-SMB2
    /// 2.2.2.2.
    ///
    /// # Errors
    /// The status, if it has no error data.
    pub fn refuse_query(&mut self, refusal: QueryRefusal) -> Result<HandlerOutcome, NtStatus> {
        match refusal {
            QueryRefusal::Status(status) => Err(status),
            QueryRefusal::BufferTooSmall(bytes) => {
                let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                self.write_error_data(&bytes.to_le_bytes());
                Ok(HandlerOutcome::status(NtStatus::BUFFER_TOO_SMALL))
            }
        }
    }

    /// Writes an error response with data of the default error id, in an error context where the
    /// dialect has them. MS-SMB2 2.2.2.
    pub fn write_error_data(&mut self, data: &[u8]) {
        if self.negotiated.dialect == Dialect::Smb311 {
            let data = ErrorResponse::context(data);
            ErrorResponse { contexts: 1, data: &data }.encode(&mut self.w);
        } else {
            ErrorResponse { contexts: 0, data }.encode(&mut self.w);
        }
    }

    /// A reader at the start of the request's body.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` if there is none.
    pub fn body(&self) -> Result<Reader<'a>, NtStatus> {
        let mut r = Reader::new(self.message);
        r.skip(Header::LENGTH, "header").map_err(malformed)?;
        Ok(r)
    }

    /// The session.
    ///
    /// # Errors
    /// `USER_SESSION_DELETED` if it has none.
    pub fn session(&self) -> Result<&'a Arc<SmbSession>, NtStatus> {
        self.channel.map(|c| &c.session).ok_or(NtStatus::USER_SESSION_DELETED)
    }

    /// The tree connect. MS-SMB2 3.3.5.2.11.
    ///
    /// # Errors
    /// `NETWORK_NAME_DELETED` without one; `ACCESS_DENIED` if the share requires encryption and the
    /// request has none; `UNEXPECTED_IO_ERROR` if the share has stopped
    /// ([`SmbShare::has_stopped`]).
    pub fn tree(&mut self) -> Result<UnpaidTree, NtStatus> {
        let id = self.related.tree.filter(|_| self.is_related).unwrap_or(self.header.tree_id);
        let tree = self.session()?.tree(id)?;
        self.related.counted = tree.counted;
        self.check_served(&tree)?;
        Ok(UnpaidTree::new(tree))
    }

    /// The open of a FileId; in a related request all ones mean the chain's open.
    ///
    /// # Errors
    /// `FILE_CLOSED` without one; the CREATE's own status if that failed.
    pub fn open(&mut self, id: FileId) -> Result<UnpaidOpen, NtStatus> {
        // Windows accepts all ones in either half of the id.
        let is_inherited = id.persistent == u64::MAX || id.volatile == u64::MAX;
        let open = if self.is_related && is_inherited {
            if let Some(status) = self.related.failed {
                return Err(status);
            }
            self.related.open.clone().ok_or(NtStatus::INVALID_PARAMETER)?
        } else {
            let found = self.session()?.open(id);
            self.related.failed = found.as_ref().err().copied();
            found?
        };
        self.related.counted = open.tree.counted;
        if open.closed.is_raised() {
            return Err(NtStatus::FILE_CLOSED);
        }
        if !self.is_related && open.tree.id != self.header.tree_id {
            // The tree of the header must exist and must be the open's.
            self.session()?.tree(self.header.tree_id)?;
            return Err(NtStatus::FILE_CLOSED);
        }
        self.check_served(&open.tree)?;
        self.related.open = Some(open.clone());
        self.count(&open)?;
        Ok(UnpaidOpen::new(open))
    }

    /// Counts the request among the outstanding requests of `open`. MS-SMB2 3.3.5.2.10.
    ///
    /// # Errors
    /// `FILE_NOT_AVAILABLE` for a modifying request with a stale ChannelSequence.
    fn count(&mut self, open: &Arc<Open>) -> Result<(), NtStatus> {
        if self.negotiated.dialect < Dialect::Smb300 {
            return Ok(());
        }
        let replays = self.header.flags.contains(Flags::REPLAY);
        let begun = open.begin_request(self.header.channel_sequence(), replays);
        let changes = [Command::WRITE, Command::SET_INFO, Command::IOCTL];
        if begun.is_none() && changes.contains(&self.header.command) {
            return Err(NtStatus::FILE_NOT_AVAILABLE);
        }
        *self.outstanding = begun;
        Ok(())
    }

    /// True if opens on a share may be persistent.
    pub fn may_persist(&self, share: &SmbShare) -> bool {
        share.continuously_available
            && self.negotiated.capabilities & capabilities::PERSISTENT_HANDLES != 0
    }

    /// Checks that the share's requirements on encryption hold, and that it has not stopped.
    fn check_served(&self, tree: &TreeConnect) -> Result<(), NtStatus> {
        if tree.share.encryption_required && !self.is_sealed {
            return Err(NtStatus::ACCESS_DENIED);
        }
        let ends = matches!(self.header.command, Command::CLOSE | Command::TREE_DISCONNECT);
        if !ends && tree.share.has_stopped(self.files) {
            return Err(NtStatus::UNEXPECTED_IO_ERROR);
        }
        Ok(())
    }

    /// Checks a payload size against the limits and the CreditCharge. MS-SMB2 3.3.5.2.5.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` if it exceeds the limit or the charge; `INSUFFICIENT_RESOURCES` if
    /// earlier responses of the chain leave no room in the frame.
    pub fn check_payload(&self, sent: usize, expected: usize) -> Result<(), NtStatus> {
        let payload = sent.max(expected);
        if payload > self.negotiated.io_bytes_max as usize {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        if self.w.origin() + expected > FRAME_BYTES_MAX {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        let needed = 1 + payload.saturating_sub(1) / 65_536;
        let paid = usize::from(self.header.credit_charge.max(1));
        if self.negotiated.multi_credit && needed > paid {
            Err(NtStatus::INVALID_PARAMETER)
        } else {
            Ok(())
        }
    }
}

/// Maps every decoding failure of a body to one status. MS-SMB2 3.3.5.2.6.
#[must_use]
pub fn malformed(_: DecodeError) -> NtStatus {
    NtStatus::INVALID_PARAMETER
}
