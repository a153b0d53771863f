//! What operations do, in one module a group.

pub mod attributes;
pub mod copy;
pub mod data;
pub mod delegate;
pub mod directory;
pub mod handle;
pub mod lock;
pub mod open;
pub mod readdir;
pub mod security;
pub mod session;
pub mod space;
pub mod state;
pub mod xattr;

use wire::nfs::OperationNumber as Number;

/// Whether an operation changes something, so that there must be room for its answer
/// before it is begun.
#[must_use]
pub fn changes(number: Number) -> bool {
    matches!(
        number,
        Number::CLOSE
            | Number::COMMIT
            | Number::CREATE
            | Number::CREATE_SESSION
            | Number::DELEGRETURN
            | Number::DESTROY_SESSION
            | Number::DESTROY_CLIENTID
            | Number::EXCHANGE_ID
            | Number::FREE_STATEID
            | Number::LINK
            | Number::LOCK
            | Number::LOCKU
            | Number::OPEN
            | Number::OPEN_DOWNGRADE
            | Number::RECLAIM_COMPLETE
            | Number::REMOVE
            | Number::RENAME
            | Number::SETATTR
            | Number::WRITE
            | Number::ALLOCATE
            | Number::CLONE
            | Number::COPY
            | Number::DEALLOCATE
            | Number::SETXATTR
            | Number::REMOVEXATTR
    )
}
