//! Security negotiation: SECINFO, SECINFO_NO_NAME. RFC 8881 18.29, 18.45.

use super::session::GssService;
use crate::codec::DecodeError;
use crate::nfs::limits::{OPAQUE_BYTES_MAX, SECURITY_FLAVORS_MAX};
use crate::nfs::rpc::AuthFlavor;
use crate::nfs::xdr::{Decode, Encode, List, Opaque, XdrReader, XdrWriter, xdr_enum, xdr_struct};

xdr_enum! {
    /// The file of the query: `secinfo_style4`.
    enum SecInfoStyle {
        /// The current file.
        CurrentFileHandle = 0,
        /// Its parent directory.
        Parent = 1,
    }
}

xdr_struct! {
    /// SECINFO's arguments. The result is [`SecInfoResult`].
    #[derive(Copy)]
    struct SecInfoArgs<'a> {
        /// A name in the current directory.
        name: &'a [u8],
    }

    /// SECINFO_NO_NAME's arguments. The result is [`SecInfoResult`].
    #[derive(Copy)]
    struct SecInfoNoNameArgs {
        /// The file of the query.
        style: SecInfoStyle,
    }

    /// A GSS mechanism: `rpcsec_gss_info`.
    #[derive(Copy)]
    struct GssInfo<'a> {
        /// Its object identifier.
        oid: Opaque<'a, OPAQUE_BYTES_MAX>,
        /// Quality of protection.
        quality: u32,
        /// Protection of messages.
        service: GssService,
    }
}

/// Accepted security mechanisms, in order of preference: `SECINFO4resok`.
pub type SecInfoResult<'a> = List<SecInfo<'a>, SECURITY_FLAVORS_MAX>;

/// One security mechanism: `secinfo4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecInfo<'a> {
    /// A flavor without further parameters.
    Flavor(AuthFlavor),
    /// RPCSEC_GSS.
    Gss(GssInfo<'a>),
}

impl<'a> Decode<'a> for SecInfo<'a> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, DecodeError> {
        match r.get()? {
            AuthFlavor::GSS => r.get().map(Self::Gss),
            flavor => Ok(Self::Flavor(flavor)),
        }
    }
}

impl Encode for SecInfo<'_> {
    fn encode(&self, w: &mut XdrWriter<'_>) {
        match self {
            Self::Flavor(flavor) => w.put(flavor),
            Self::Gss(info) => {
                w.put(&AuthFlavor::GSS);
                w.put(info);
            }
        }
    }
}
