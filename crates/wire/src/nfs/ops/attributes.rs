//! Attributes and access rights: ACCESS, GETATTR, SETATTR, VERIFY, NVERIFY. RFC 8881 18.1, 18.7,
//! 18.15, 18.30, 18.31.

use crate::codec::DecodeError;
use crate::nfs::reply::ResultBody;
use crate::nfs::xdr::{XdrReader, XdrWriter, xdr_struct};
use crate::nfs::{Access, Bitmap4, Fattr, NfsStatus, StateId};

xdr_struct! {
    /// ACCESS's arguments.
    #[derive(Copy)]
    struct AccessArgs {
        /// Rights to check.
        access: Access,
    }

    /// ACCESS's results.
    #[derive(Copy)]
    struct AccessResult {
        /// Rights that the server can determine.
        supported: Access,
        /// Rights that the caller has.
        access: Access,
    }

    /// GETATTR's arguments. The result is [`Fattr`]; a server writes it with
    /// [`crate::nfs::AttributeWriter`].
    #[derive(Copy)]
    struct GetAttrArgs {
        /// Requested attributes.
        requested: Bitmap4,
    }

    /// SETATTR's arguments.
    #[derive(Copy)]
    struct SetAttrArgs<'a> {
        /// State id that authorizes a change of the size.
        state_id: StateId,
        /// Attributes to set.
        attributes: Fattr<'a>,
    }

    /// VERIFY's and NVERIFY's arguments.
    #[derive(Copy)]
    struct VerifyArgs<'a> {
        /// Attributes to compare with.
        attributes: Fattr<'a>,
    }
}

/// SETATTR's results. A failure, too, reports the attributes that were set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetAttrReply {
    /// Status of the operation.
    pub status: NfsStatus,
    /// Attributes that were set.
    pub attributes_set: Bitmap4,
}

impl SetAttrReply {
    /// A failure that set no attribute.
    #[must_use]
    pub fn failed(status: NfsStatus) -> Self {
        Self { status, attributes_set: Bitmap4::EMPTY }
    }
}

impl<'a> ResultBody<'a> for SetAttrReply {
    fn status(&self) -> NfsStatus {
        self.status
    }

    fn decode_body(status: NfsStatus, r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { status, attributes_set: r.get()? })
    }

    fn encode_body(&self, w: &mut XdrWriter<'_>) {
        w.put(&self.attributes_set);
    }
}
