//! How a file may be reached: SECINFO, SECINFO_NO_NAME. RFC 8881 18.29, 18.45.

use super::session::GssService;
use crate::codec::Malformed;
use crate::nfs::limits::{OPAQUE_BYTES_MAX, SECURITY_FLAVORS_MAX};
use crate::nfs::rpc::AuthFlavor;
use crate::nfs::xdr::{Decode, Encode, List, Opaque, XdrReader, XdrWriter, xdr_enum, xdr_struct};

xdr_enum! {
    /// Which file is meant: `secinfo_style4`.
    enum SecInfoStyle {
        /// The current one.
        CurrentFileHandle = 0,
        /// The directory above.
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
        /// Which file.
        style: SecInfoStyle,
    }

    /// One mechanism of GSS: `rpcsec_gss_info`.
    #[derive(Copy)]
    struct GssInfo<'a> {
        /// Its object identifier.
        oid: Opaque<'a, OPAQUE_BYTES_MAX>,
        /// Its quality.
        quality: u32,
        /// How messages are protected.
        service: GssService,
    }
}

/// Ways to be known, the best first: `SECINFO4resok`.
pub type SecInfoResult<'a> = List<SecInfo<'a>, SECURITY_FLAVORS_MAX>;

/// One way to be known: `secinfo4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecInfo<'a> {
    /// By a flavor that says all.
    Flavor(AuthFlavor),
    /// By GSS.
    Gss(GssInfo<'a>),
}

impl<'a> Decode<'a> for SecInfo<'a> {
    fn decode(r: &mut XdrReader<'a>) -> Result<Self, Malformed> {
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
