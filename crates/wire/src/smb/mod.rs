//! SMB2 and SMB3 messages. MS-SMB2 2.2.

mod app_instance;
mod apple;
mod close;
mod compound;
mod create;
mod create_context;
mod directory;
mod durable;
mod echo;
mod error;
pub mod fsctl;
mod header;
mod ids;
mod info;
mod interfaces;
mod ioctl;
mod lease;
mod lock;
pub mod negotiate;
mod read;
mod session_setup;
mod smb1;
mod transform;
mod tree_connect;
mod write;

pub use app_instance::{
    APP_INSTANCE_ID, APP_INSTANCE_VERSION, AppInstanceVersion, decode_app_instance_id,
};
pub use apple::{
    AFP_INFO_BYTES, AppleAnswer, AppleDetails, AppleQuery, apple_capabilities, apple_volume,
};
pub use close::{CloseRequest, CloseResponse, FlushRequest};
pub use compound::{COMPOUND_ALIGNMENT, next_element};
pub use create::{CreateRequest, CreateResponse};
pub use create_context::{CreateContexts, put_context};
pub use directory::{ChangeNotifyRequest, QueryDirectoryRequest, QueryFlags};
pub use durable::{
    DurableReconnectV2, DurableRequestV2, DurableResponseV2, decode_durable_reconnect,
};
pub use echo::{EmptyBody, OplockBreak, OplockBreakAck};
pub use error::ErrorResponse;
pub use header::{Command, Flags, Header};
pub use ids::{AsyncId, Dialect, FileId, MessageId, SessionId, TreeId};
pub use info::{
    InfoType, QueryInfoRequest, SetInfoRequest, decode_output_buffer, empty_notify_response,
    output_buffer_response,
};
pub use interfaces::NetworkInterface;
pub use ioctl::{IoctlRequest, IoctlResponse};
pub use lease::{
    LEASE_BREAK_IN_PROGRESS, LEASE_CONTEXT, LEASE_PARENT_KEY_SET, Lease, LeaseBreak,
    LeaseBreakResponse, LeaseV2,
};
pub use lock::{LockElement, LockRequest};
pub use read::{ReadRequest, ReadResponse};
pub use session_setup::{SessionFlags, SessionSetupRequest, SessionSetupResponse};
pub use smb1::{smb1_dialects, smb1_refusal};
pub use transform::TransformHeader;
pub use tree_connect::{TreeConnectRequest, TreeConnectResponse};
pub use write::{WriteRequest, WriteResponse};
