//! Kerberos by the system's MIT krb5 library (`libgssapi_krb5.so.2`), which is loaded on first use.
//! The build needs nothing; a machine without the library has no Kerberos. RFC 2743, RFC 2744, RFC
//! 4121.
//!
//! Knows no SMB: tokens go in and come out. The library locates ticket caches, keytabs and realms
//! itself: `/etc/krb5.conf`, `KRB5CCNAME`, `KRB5_KTNAME`.
//!
//! `unsafe` is allowed here, because the crate calls a C library; each block states why it is
//! sound.
#![allow(unsafe_code)]

mod acceptor;
mod context;
mod initiator;
mod library;
mod name;

pub use acceptor::{AcceptedLogon, GssAcceptor, Keytab};
pub use initiator::{GssInitiator, InitiatorStep};

use std::fmt;

/// A Kerberos failure, in the library's own words where it has any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The library is not installed, or is not MIT krb5.
    Absent(String),
    /// A call failed.
    Refused {
        /// The object of the call.
        what: &'static str,
        /// The library's reason.
        reason: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(why) => {
                write!(f, "Kerberos is unavailable ({why}); install libgssapi-krb5-2")
            }
            Self::Refused { what, reason } => write!(f, "Kerberos: {what}: {reason}"),
        }
    }
}

impl std::error::Error for Error {}

/// A session key of 16 to 32 bytes, depending on the encryption type. Zeroed on drop.
pub type GssSessionKey = zeroize::Zeroizing<Vec<u8>>;
