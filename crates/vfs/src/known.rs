//! What is known of a node beside its attributes, when it is opened.

use crate::{Actor, Node, Opened, PosixAcl, Result, StreamEntry};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes of the longest list of streams that is remembered.
const STREAMS_BYTES_MAX: usize = 16 * 1024;

/// An open, and what is known with it.
#[derive(Clone, Debug)]
pub struct KnownOpen {
    /// The open.
    pub opened: Opened,
    /// Its security and streams as they are now, if they may be known without asking the
    /// node.
    pub security: Option<Arc<KnownSecurity>>,
}

impl From<Opened> for KnownOpen {
    fn from(opened: Opened) -> Self {
        Self { opened, security: None }
    }
}

/// What a look at a name in an open directory has shown, if it was worth trying:
/// [`crate::Vfs::look_in`].
pub type NameLook = Option<Result<Opened>>;

/// What all that is known comes to.
#[derive(Debug, Default)]
pub struct KnownTotals {
    /// Bytes that it takes.
    pub bytes: AtomicUsize,
    /// Lists of streams that were known.
    pub stream_hits: AtomicU64,
    /// Lists of streams that a node was asked for.
    pub stream_misses: AtomicU64,
}

/// A node's security and streams at one time. They are asked of the node when they are
/// needed first, and known to all who share this then.
#[derive(Debug, Default)]
pub struct KnownSecurity {
    descriptor: OnceLock<Option<Vec<u8>>>,
    posix_acl: OnceLock<Option<PosixAcl>>,
    streams: OnceLock<Vec<StreamEntry>>,
    bytes: AtomicUsize,
    totals: Arc<KnownTotals>,
}

impl KnownSecurity {
    /// Nothing is known yet. Bytes that are taken are added to `totals`, and
    /// subtracted once nobody shares this.
    #[must_use]
    pub fn counted(totals: Arc<KnownTotals>) -> Self {
        let mut known = Self::default();
        known.totals = totals;
        known
    }

    /// As [`Node::security_descriptor`].
    ///
    /// # Errors
    /// Those of the node.
    pub fn descriptor(&self, node: &dyn Node) -> Result<Option<&[u8]>> {
        if self.descriptor.get().is_none() {
            let asked = node.security_descriptor()?;
            let bytes = asked.as_ref().map_or(0, Vec::len);
            if self.descriptor.set(asked).is_ok() {
                self.count(bytes);
            }
        }
        Ok(self.descriptor.get().and_then(Option::as_deref))
    }

    /// As [`Node::posix_acl`].
    ///
    /// # Errors
    /// Those of the node.
    pub fn posix_acl(&self, node: &dyn Node) -> Result<Option<&PosixAcl>> {
        const NAMED_BYTES: usize = 16;
        if self.posix_acl.get().is_none() {
            let asked = node.posix_acl()?;
            let bytes = asked.as_ref().map_or(0, |list| list.named.len() * NAMED_BYTES);
            if self.posix_acl.set(asked).is_ok() {
                self.count(bytes);
            }
        }
        Ok(self.posix_acl.get().and_then(Option::as_ref))
    }

    /// As [`Node::streams`].
    ///
    /// # Errors
    /// Those of the node.
    pub fn streams(&self, who: Actor<'_>, node: &dyn Node) -> Result<Vec<StreamEntry>> {
        if let Some(known) = self.streams.get() {
            self.totals.stream_hits.fetch_add(1, Ordering::Relaxed);
            return Ok(known.clone());
        }
        self.totals.stream_misses.fetch_add(1, Ordering::Relaxed);
        let asked = node.streams(who)?;
        let of = |entry: &StreamEntry| size_of::<StreamEntry>() + entry.name.as_bytes().len();
        let bytes = asked.iter().map(of).sum();
        // Long lists are not worth the room.
        if bytes <= STREAMS_BYTES_MAX && self.streams.set(asked.clone()).is_ok() {
            self.count(bytes);
        }
        Ok(asked)
    }

    fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.totals.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for KnownSecurity {
    fn drop(&mut self) {
        self.totals.bytes.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}
