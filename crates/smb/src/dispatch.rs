//! From a request's command to its handler: one match, one line a command.

use crate::chain::Related;
use crate::channel::Channel;
use crate::commands;
use crate::config::Share;
use crate::conn::Shared;
use crate::limits::FRAME_BYTES_MAX;
use crate::negotiate::Negotiated;
use crate::open::{Open, UnderWay};
use crate::server::Server;
use crate::session::Session;
use crate::throttle::{UnpaidOpen, UnpaidTree};
use crate::tree::Tree;
use files::{CacheGrant, RequestFiles, ResidentRange};
use limits::Throttled;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Instant;
use wire::codec::{Malformed, Reader, Writer};
use wire::ntstatus::NtStatus;
use wire::smb::negotiate::capabilities;
use wire::smb::{Command, Dialect, ErrorResponse, FileId, Flags, Header, SessionId, TreeId};

/// A request and where its reply goes.
pub struct Request<'a> {
    /// The server.
    pub server: &'a Arc<Server>,
    /// The file layer, as this request uses it.
    pub files: &'a RequestFiles,
    /// What was negotiated on it.
    pub negotiated: &'a Arc<Negotiated>,
    /// What it shares with the other requests of its connection.
    pub shared: &'a Arc<Shared>,
    /// When its frame came.
    pub now: Instant,
    /// The request's header.
    pub header: &'a Header,
    /// The request, header included: the origin of its offsets.
    pub message: &'a [u8],
    /// Its session on this connection.
    pub channel: Option<&'a Arc<Channel>>,
    /// The opens it is counted with, until it is answered.
    pub under_way: &'a mut Option<UnderWay>,
    /// What it had to wait for before it began, by the limits of its share.
    pub throttled: &'a mut Throttled,
    /// What earlier requests of the chain left.
    pub related: &'a mut Related,
    /// Whether it takes over what they left.
    pub is_related: bool,
    /// Whether its reply is alone in its frame.
    pub is_single: bool,
    /// Whether it came sealed; its reply goes sealed then.
    pub is_sealed: bool,
    /// The reply's body is written here; the header has been left room for.
    pub w: Writer<'a>,
}

/// How a handler ends, if not by an error status with an empty error body.
pub enum Outcome {
    /// The body has been written.
    Done(Reply),
    /// It may take until something else happens.
    Wait(WaitFuture),
    /// The same, and it goes on when its channel is lost and its session is not.
    WaitLasting(WaitFuture),
}

/// The rest of a request that waits. Owns all it needs; dropping it withdraws.
pub type WaitFuture = Pin<Box<dyn Future<Output = Result<Waited, NtStatus>> + Send>>;

/// The answer to a request that waited.
pub struct Waited {
    /// Status and the rest.
    pub reply: Reply,
    /// The body.
    pub body: Vec<u8>,
    /// The open that related requests go on with.
    pub open: Option<Arc<Open>>,
}

/// What goes into the reply's header, and after its body.
#[derive(Debug, Default)]
pub struct Reply {
    /// Status; need not be a success for the body to be sent.
    pub status: NtStatus,
    /// Bytes of a file that end the frame.
    pub file: Option<ResidentRange>,
    /// The tree that was connected.
    pub tree_id: Option<TreeId>,
    /// The session that logged off.
    pub logged_off: Option<SessionId>,
    /// What is granted to be cached.
    pub granted: Option<CacheGrant>,
    /// The reply must be sealed even if the request was not.
    pub seal: bool,
}

impl Reply {
    /// A reply with nothing but a status.
    #[must_use]
    pub fn with_status(status: NtStatus) -> Self {
        Self { status, ..Self::default() }
    }
}

impl Outcome {
    /// The usual end.
    #[must_use]
    pub fn success() -> Self {
        Self::Done(Reply::default())
    }

    /// A body with a status other than success.
    #[must_use]
    pub fn status(status: NtStatus) -> Self {
        Self::Done(Reply::with_status(status))
    }
}

/// Why a query is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryRefusal {
    /// By a status alone.
    Status(NtStatus),
    /// `BUFFER_TOO_SMALL`: an answer takes at least so many bytes.
    BufferTooSmall(usize),
}

impl From<NtStatus> for QueryRefusal {
    fn from(status: NtStatus) -> Self {
        Self::Status(status)
    }
}

impl<'a> Request<'a> {
    /// Refuses a query; clients ask again with the room that the answer takes. MS-SMB2 2.2.2.2.
    ///
    /// # Errors
    /// The status, if it goes without error data.
    pub fn refuse_query(&mut self, refusal: QueryRefusal) -> Result<Outcome, NtStatus> {
        match refusal {
            QueryRefusal::Status(status) => Err(status),
            QueryRefusal::BufferTooSmall(bytes) => {
                let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                self.write_error_data(&bytes.to_le_bytes());
                Ok(Outcome::status(NtStatus::BUFFER_TOO_SMALL))
            }
        }
    }

    /// Writes the body of an error response: data of the default kind, in an error context where
    /// the dialect has them. MS-SMB2 2.2.2.
    pub fn write_error_data(&mut self, data: &[u8]) {
        if self.negotiated.dialect == Dialect::Smb311 {
            let data = ErrorResponse::context(data);
            ErrorResponse { contexts: 1, data: &data }.encode(&mut self.w);
        } else {
            ErrorResponse { contexts: 0, data }.encode(&mut self.w);
        }
    }

    /// A reader that stands at the request's body.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` if there is none.
    pub fn body(&self) -> Result<Reader<'a>, NtStatus> {
        let mut r = Reader::new(self.message);
        r.skip(Header::LENGTH, "header").map_err(malformed)?;
        Ok(r)
    }

    /// Its session.
    ///
    /// # Errors
    /// `USER_SESSION_DELETED` if it has none.
    pub fn session(&self) -> Result<&'a Arc<Session>, NtStatus> {
        self.channel.map(|c| &c.session).ok_or(NtStatus::USER_SESSION_DELETED)
    }

    /// Its tree. MS-SMB2 3.3.5.2.11.
    ///
    /// # Errors
    /// `NETWORK_NAME_DELETED` for none; `ACCESS_DENIED` if the share wants
    /// sealing and the request is not; `UNEXPECTED_IO_ERROR` if the share has stopped
    /// ([`Share::has_stopped`]).
    pub fn tree(&mut self) -> Result<UnpaidTree, NtStatus> {
        let id = self.related.tree.filter(|_| self.is_related).unwrap_or(self.header.tree_id);
        let tree = self.session()?.tree(id)?;
        self.related.counted = tree.counted;
        self.check_served(&tree)?;
        Ok(UnpaidTree::new(tree))
    }

    /// The open a request names; all ones in a related one: the chain's.
    ///
    /// # Errors
    /// `FILE_CLOSED` for none; the CREATE's own status if that failed.
    pub fn open(&mut self, id: FileId) -> Result<UnpaidOpen, NtStatus> {
        // One half of the id is enough for Windows.
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
            // The tree in the header must exist, and must be the open's.
            self.session()?.tree(self.header.tree_id)?;
            return Err(NtStatus::FILE_CLOSED);
        }
        self.check_served(&open.tree)?;
        self.related.open = Some(open.clone());
        self.count(&open)?;
        Ok(UnpaidOpen::new(open))
    }

    /// Counts the request among those of `open`. MS-SMB2 3.3.5.2.10.
    ///
    /// # Errors
    /// `FILE_NOT_AVAILABLE` for a change that comes by a channel the client has given up.
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
        *self.under_way = begun;
        Ok(())
    }

    /// Whether opens on a share may be persistent.
    pub fn may_persist(&self, share: &Share) -> bool {
        share.continuously_available
            && self.negotiated.capabilities & capabilities::PERSISTENT_HANDLES != 0
    }

    /// Whether requests on the tree are served in this way, and still.
    fn check_served(&self, tree: &Tree) -> Result<(), NtStatus> {
        if tree.share.encryption_required && !self.is_sealed {
            return Err(NtStatus::ACCESS_DENIED);
        }
        let ends = matches!(self.header.command, Command::CLOSE | Command::TREE_DISCONNECT);
        if !ends && tree.share.has_stopped(self.files) {
            return Err(NtStatus::UNEXPECTED_IO_ERROR);
        }
        Ok(())
    }

    /// Checks a payload size against the limits and against the credits that
    /// were paid for it. MS-SMB2 3.3.5.2.5.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` if it is too large or was not paid for;
    /// `INSUFFICIENT_RESOURCES` if the replies of the chain so far leave no room
    /// for it: together they are one frame.
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

/// Every decoding failure of a body is answered the same way. MS-SMB2 3.3.5.2.6.
#[must_use]
pub fn malformed(_: Malformed) -> NtStatus {
    NtStatus::INVALID_PARAMETER
}

/// Serves one request.
///
/// # Errors
/// The status for an error reply without data.
pub async fn dispatch(request: &mut Request<'_>) -> Result<Outcome, NtStatus> {
    match request.header.command {
        Command::READ => commands::read::read(request).await,
        Command::WRITE => commands::write::write(request).await,
        Command::CLOSE => commands::close::close(request).await,
        Command::CREATE => Box::pin(commands::create::create(request)).await,
        Command::QUERY_INFO => Box::pin(commands::query_info::query_info(request)).await,
        Command::SET_INFO => Box::pin(commands::set_info::set_info(request)).await,
        Command::QUERY_DIRECTORY => {
            Box::pin(commands::query_directory::query_directory(request)).await
        }
        Command::IOCTL => Box::pin(commands::ioctl::ioctl(request)).await,
        Command::FLUSH => commands::flush::flush(request).await,
        Command::LOCK => commands::lock::lock(request).await,
        Command::ECHO => commands::echo::echo(request),
        Command::CHANGE_NOTIFY => commands::change_notify::change_notify(request).await,
        Command::OPLOCK_BREAK => commands::oplock_break::oplock_break(request),
        Command::TREE_CONNECT => Box::pin(commands::tree_connect::tree_connect(request)).await,
        Command::TREE_DISCONNECT => {
            Box::pin(commands::tree_disconnect::tree_disconnect(request)).await
        }
        Command::LOGOFF => Box::pin(commands::logoff::logoff(request)).await,
        // NEGOTIATE and SESSION_SETUP are served by the connection, alone in
        // their frame; CANCEL has no reply. Anything else does not exist.
        _ => Err(NtStatus::INVALID_PARAMETER),
    }
}
