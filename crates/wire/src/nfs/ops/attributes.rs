//! Attributes and rights: ACCESS, GETATTR, SETATTR, VERIFY, NVERIFY.
//! RFC 8881 18.1, 18.7, 18.15, 18.30, 18.31.

use crate::codec::Malformed;
use crate::nfs::reply::Reply;
use crate::nfs::xdr::{XdrReader, XdrWriter, xdr_struct};
use crate::nfs::{Access, Bitmap4, Fattr, NfsStatus, StateId};

xdr_struct! {
    /// ACCESS's arguments.
    #[derive(Copy)]
    struct AccessArgs {
        /// What the client would like to know.
        access: Access,
    }

    /// ACCESS's results.
    #[derive(Copy)]
    struct AccessResult {
        /// Which of it the server can tell.
        supported: Access,
        /// Which of that is allowed.
        access: Access,
    }

    /// GETATTR's arguments. The result is [`Fattr`]; a server writes it with
    /// [`crate::nfs::AttributeWriter`].
    #[derive(Copy)]
    struct GetAttrArgs {
        /// Attributes that are asked for.
        requested: Bitmap4,
    }

    /// SETATTR's arguments.
    #[derive(Copy)]
    struct SetAttrArgs<'a> {
        /// As who the size is changed.
        state_id: StateId,
        /// What is set.
        attributes: Fattr<'a>,
    }

    /// VERIFY's and NVERIFY's arguments.
    #[derive(Copy)]
    struct VerifyArgs<'a> {
        /// What the attributes are compared with.
        attributes: Fattr<'a>,
    }
}

/// SETATTR's results: what was set is told whatever became of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetAttrReply {
    /// The outcome.
    pub status: NfsStatus,
    /// Attributes that were set.
    pub attributes_set: Bitmap4,
}

impl SetAttrReply {
    /// The answer that sets nothing.
    #[must_use]
    pub fn failed(status: NfsStatus) -> Self {
        Self { status, attributes_set: Bitmap4::EMPTY }
    }
}

impl<'a> Reply<'a> for SetAttrReply {
    fn status(&self) -> NfsStatus {
        self.status
    }

    fn decode_body(status: NfsStatus, r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
        Ok(Self { status, attributes_set: r.get()? })
    }

    fn encode_body(&self, w: &mut XdrWriter<'_>) {
        w.put(&self.attributes_set);
    }
}
