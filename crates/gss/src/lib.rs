//! Kerberos by the system's own library (MIT krb5's `libgssapi_krb5.so.2`), which is looked for
//! when it is first wanted: nothing is needed to build this, and a machine without it has no
//! Kerberos. RFC 2743, RFC 2744, RFC 4121.
//!
//! Knows no SMB: tokens go in and come out. Keys of the system (ticket caches, keytabs, realms)
//! are found as the library finds them: `/etc/krb5.conf`, `KRB5CCNAME`, `KRB5_KTNAME`.
//!
//! A home of `unsafe`, since a library of C is called; each block says why it is sound.
#![allow(unsafe_code)]

mod acceptor;
mod context;
mod initiator;
mod library;
mod name;

pub use acceptor::{Accepted, Acceptor, Keytab};
pub use initiator::{Initiator, Outcome};

use std::fmt;

/// Why there is no Kerberos, or why it refused; in the library's own words where it has any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    /// The library is not installed, or is not MIT's.
    Absent(String),
    /// What it was asked for did not succeed.
    Refused {
        /// What was asked for.
        what: &'static str,
        /// The library's reason.
        reason: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent(why) => {
                write!(f, "no Kerberos here ({why}); install libgssapi-krb5-2")
            }
            Self::Refused { what, reason } => write!(f, "Kerberos: {what}: {reason}"),
        }
    }
}

impl std::error::Error for Error {}

/// A session's key: 16 to 32 bytes, by the ticket's encryption type. Wiped when it is dropped.
pub type Key = zeroize::Zeroizing<Vec<u8>>;
