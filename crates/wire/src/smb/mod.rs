//! SMB2 and SMB3 messages. MS-SMB2 2.2.

mod app_instance;
mod apple;
mod change_notify;
mod close;
mod compound;
mod create;
mod create_context;
mod durable;
mod echo;
mod error;
mod flush;
pub mod fsctl;
mod header;
mod ids;
mod info_type;
mod interfaces;
mod ioctl;
mod lease;
mod lock;
pub mod negotiate;
mod oplock_break;
mod output_buffer;
mod query_directory;
mod query_info;
mod read;
mod session_setup;
mod set_info;
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
pub use change_notify::{ChangeNotifyRequest, empty_notify_response};
pub use close::{CloseRequest, CloseResponse};
pub use compound::{COMPOUND_ALIGNMENT, next_element};
pub use create::{CreateRequest, CreateResponse};
pub use create_context::{CreateContexts, put_context};
pub use durable::{
    DurableReconnectV2, DurableRequestV2, DurableResponseV2, decode_durable_reconnect,
};
pub use echo::EmptyBody;
pub use error::ErrorResponse;
pub use flush::FlushRequest;
pub use header::{Command, Flags, Header};
pub use ids::{AsyncId, Dialect, FileId, MessageId, SessionId, TreeId};
pub use info_type::InfoType;
pub use interfaces::NetworkInterface;
pub use ioctl::{IoctlRequest, IoctlResponse};
pub use lease::{
    LEASE_BREAK_IN_PROGRESS, LEASE_CONTEXT, LEASE_PARENT_KEY_SET, LeaseBreak, LeaseBreakResponse,
    LeaseContext, LeaseV2,
};
pub use lock::{LockElement, LockRequest};
pub use oplock_break::{OplockBreak, OplockBreakAck};
pub use output_buffer::{decode_output_buffer, output_buffer_response};
pub use query_directory::{QueryDirectoryRequest, QueryFlags};
pub use query_info::QueryInfoRequest;
pub use read::{ReadRequest, ReadResponse};
pub use session_setup::{SessionFlags, SessionSetupRequest, SessionSetupResponse};
pub use set_info::SetInfoRequest;
pub use smb1::{smb1_dialects, smb1_refusal};
pub use transform::TransformHeader;
pub use tree_connect::{TreeConnectRequest, TreeConnectResponse};
pub use write::{WriteRequest, WriteResponse};
