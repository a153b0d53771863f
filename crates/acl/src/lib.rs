//! Windows security descriptors: encoding, access check, inheritance, and their mapping to POSIX
//! permissions. MS-DTYP 2.4, 2.5.3.
//!
//! Every protocol with access control lists uses this crate. Absent on purpose: state, I/O,
//! protocol messages.
#![forbid(unsafe_code)]

mod access;
mod check;
mod descriptor;
mod inherit;
mod named;
mod posix;
mod sid;

pub use access::Access;
pub use check::{AccessToken, check_access, maximal_access, privileges};
pub use descriptor::{Ace, AceKind, Descriptor, InvalidDescriptor, control};
pub use inherit::{Creator, inherit};
pub use named::{NAMED_ACES_MAX, NamedAce, NamedList, NamedWho, from_named, to_named};
pub use posix::{
    ExecuteRule, OwnerGroup, POSIX_NAMES_MAX, PosixAcl, PosixFacts, PosixName, from_posix,
    limit_to_mode, narrowed_mode, to_posix,
};
pub use sid::Sid;
