//! Remote procedure calls (RFC 5531) over streams, as far as NFS needs them:
//! records, headers of calls and replies, credentials. Both peers of a
//! connection call: the server calls back on the connection of its client.

pub mod auth;
pub mod message;
pub mod record;

pub use auth::{AuthFlavor, AuthSys, Credential, Groups, OpaqueAuth, STARTTLS};
pub use message::{
    AcceptStatus, AuthStatus, Call, Message, Reply, ReplyBody, UnreadableMessage, put_success,
};
pub use record::{Extent, Scan, begin_record, end_record, scan_record};
