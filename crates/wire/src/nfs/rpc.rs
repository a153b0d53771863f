//! ONC RPC (RFC 5531) over streams, as far as NFS needs it: records, call and reply headers,
//! credentials. Both peers of a connection send calls, because the server sends callbacks on its
//! client's connection.

pub mod auth;
pub mod message;
pub mod record;

pub use auth::{AuthFlavor, AuthSys, Credential, Groups, OpaqueAuth, STARTTLS};
pub use message::{
    AcceptStatus, AuthStatus, ReplyBody, RpcCall, RpcMessage, RpcReply, UnreadableMessage,
    put_success,
};
pub use record::{RecordExtent, Scan, begin_record, end_record, scan_record};
