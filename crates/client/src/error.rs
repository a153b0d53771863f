//! Errors, grouped by the party at fault.

use std::fmt;
use std::io;
use std::sync::Arc;
use wire::codec::DecodeError;
use wire::nfs::{NfsStatus, OperationNumber};
use wire::ntstatus::NtStatus;
use wire::smb::Command;

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The SMB server refused a request.
    Refused(Command, NtStatus),
    /// The NFS server refused an operation.
    RefusedOperation(OperationNumber, NfsStatus),
    /// The server supports none of the configured options.
    Incompatible(&'static str),
    /// The server, or an attacker in between, violated the protocol.
    Hostile(&'static str),
    /// The server is unreachable.
    Unreachable(io::ErrorKind, Arc<str>),
    /// The connection was lost. If `sent`, the request may have been executed.
    Lost {
        /// The request was sent, at least in part.
        sent: bool,
        /// Reason.
        why: Arc<str>,
    },
    /// The server never grants as many credits as the request costs.
    NoCredits,
    /// There is no Kerberos ticket for the server; the reason names the remedy.
    NoTicket(Arc<str>),
    /// The caller passed invalid arguments.
    Misuse(&'static str),
}

impl Error {
    /// A lost connection.
    pub(crate) fn lost(sent: bool, why: impl fmt::Display) -> Self {
        Self::Lost { sent, why: why.to_string().into() }
    }

    /// The server's status, if the server refused the request.
    #[must_use]
    pub fn status(&self) -> Option<NtStatus> {
        match self {
            Self::Refused(_, status) => Some(*status),
            _ => None,
        }
    }
}

impl From<DecodeError> for Error {
    fn from(malformed: DecodeError) -> Self {
        Self::Hostile(malformed.what)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(command, status) => {
                write!(f, "the server refused {}: {status}", command_name(*command))
            }
            // Some servers answer a lookup with this status because of the connection's source
            // port.
            Self::RefusedOperation(OperationNumber::LOOKUP, status @ NfsStatus::PERM) => write!(
                f,
                "the server refused LOOKUP: {status}; it may want a source port below 1024: run this as root, or set reserved_ports = false for the share there"
            ),
            Self::RefusedOperation(number, status) => {
                write!(f, "the server refused {number:?}: {status}")
            }
            Self::Incompatible(what) => write!(f, "the server is incompatible: {what}"),
            Self::Hostile(what) => write!(f, "the server's reply is invalid: {what}"),
            Self::Unreachable(kind, to) => write!(f, "cannot reach {to}: {kind}"),
            Self::Lost { why, .. } => write!(f, "the connection was lost: {why}"),
            Self::NoCredits => f.write_str("the server grants too few credits for this request"),
            Self::NoTicket(why) => f.write_str(why),
            Self::Misuse(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for Error {}

fn command_name(command: Command) -> &'static str {
    const NAMES: [&str; 19] = [
        "NEGOTIATE",
        "SESSION_SETUP",
        "LOGOFF",
        "TREE_CONNECT",
        "TREE_DISCONNECT",
        "CREATE",
        "CLOSE",
        "FLUSH",
        "READ",
        "WRITE",
        "LOCK",
        "IOCTL",
        "CANCEL",
        "ECHO",
        "QUERY_DIRECTORY",
        "CHANGE_NOTIFY",
        "QUERY_INFO",
        "SET_INFO",
        "OPLOCK_BREAK",
    ];
    NAMES.get(usize::from(command.0)).copied().unwrap_or("a request")
}
