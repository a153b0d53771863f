//! The end of a connection by the server.

/// Why a connection must be closed without a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmbCloseReason {
    /// Not SMB, or not allowed by SMB in this state; the text names the offending part.
    Garbage(&'static str),
    /// The client broke a security rule for which the specification closes the connection.
    Refused(&'static str),
}
