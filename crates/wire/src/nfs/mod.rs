//! NFSv4.1 and NFSv4.2 messages (RFC 8881, RFC 7862, RFC 8276, RFC 9754) and the ONC RPC that
//! carries them (RFC 5531), in both directions.
//!
//! | module | holds |
//! |---|---|
//! | [`xdr`] | the reader, the writer, the traits [`xdr::Decode`] and [`xdr::Encode`] |
//! | [`rpc`] | records, call and reply headers, credentials |
//! | [`ids`] | [`ClientId`], [`NfsSessionId`], [`StateId`], [`Verifier`], [`FileHandle`] |
//! | [`bitmap`], [`time`], [`status`], [`numbers`] | [`Bitmap4`], [`NfsTime`], [`NfsStatus`],
//! [`OperationNumber`] |
//! | [`common`] | types that several operations share |
//! | [`ops`] | arguments and results of operations: [`Operation`], [`OperationResult`] |
//! | [`compound`] | [`Compound`] iterates over the operations of a call; [`CompoundReply`],
//! [`CompoundRequest`], [`CompoundResults`] |
//! | [`callback`] | the backchannel: [`Callback`], [`CallbackRequest`], [`CallbackResults`], and
//! the client's side |
//! | [`reply`] | [`ResultBody`]: the body that follows an operation's status |
//! | [`acl`] | access control lists |
//! | [`attributes`] | [`Fattr`] as sent, [`NfsAttributes`] by name, [`AttributeWriter`] for servers
//! |
//! | [`limits`] | upper bounds of one message's contents |
//!
//! Types have the nouns of the specification without its suffixes (`READ4args`
//! is `ReadArgs`, `READ4resok` is `ReadResult`). Names of files are bytes.

pub mod acl;
pub mod attributes;
pub mod bitmap;
pub mod callback;
pub mod common;
pub mod compound;
pub mod ids;
pub mod limits;
pub mod numbers;
pub mod ops;
pub mod reply;
pub mod rpc;
pub mod status;
pub mod time;
pub mod xdr;

pub use attributes::{AttributeWriter, BadAttributes, Fattr, NfsAttributes, attribute};
pub use bitmap::Bitmap4;
pub use callback::{
    Callback, CallbackCompound, CallbackReplyEncoder, CallbackRequest, CallbackResult,
    CallbackResults,
};
pub use common::{Access, ChangeInfo, FileType, LockType, StableHow, StateOwner};
pub use compound::{
    BadOperation, Compound, CompoundReply, CompoundRequest, CompoundResults, NoResult,
};
pub use ids::{ClientId, FileHandle, NfsSessionId, StateId, Verifier};
pub use numbers::{CallbackNumber, OperationNumber};
pub use ops::{Operation, OperationResult};
pub use reply::ResultBody;
pub use status::NfsStatus;
pub use time::NfsTime;
