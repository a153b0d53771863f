//! Cached security and streams of an opened node.

use crate::{Actor, Node, OpenedNode, PosixAcl, Result, StreamEntry};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// Bytes of the longest list of streams that is cached.
const STREAMS_BYTES_MAX: usize = 16 * 1024;

/// An open node, with its cached security.
#[derive(Clone, Debug)]
pub struct OpenWithSecurity {
    /// The open node.
    pub opened: OpenedNode,
    /// Current security and streams, if a cache can provide them without a call to the node.
    pub security: Option<Arc<NodeSecurityCache>>,
}

impl From<OpenedNode> for OpenWithSecurity {
    fn from(opened: OpenedNode) -> Self {
        Self { opened, security: None }
    }
}

/// Outcome of [`crate::Vfs::lookup_child`]; None if the caller must open the path instead.
pub type ChildLookup = Option<Result<OpenedNode>>;

/// Counters over all [`NodeSecurityCache`] of one cache.
#[derive(Debug, Default)]
pub struct SecurityCacheTotals {
    /// Bytes in use.
    pub bytes: AtomicUsize,
    /// Lists of streams served from the cache.
    pub stream_hits: AtomicU64,
    /// Lists of streams read from the node.
    pub stream_misses: AtomicU64,
}

/// Security and streams of a node at one time. The first user of each part reads it from the node;
/// every sharer then has it.
#[derive(Debug, Default)]
pub struct NodeSecurityCache {
    descriptor: OnceLock<Option<Vec<u8>>>,
    posix_acl: OnceLock<Option<PosixAcl>>,
    streams: OnceLock<Vec<StreamEntry>>,
    bytes: AtomicUsize,
    totals: Arc<SecurityCacheTotals>,
}

impl NodeSecurityCache {
    /// An empty one. It adds its bytes to `totals`, and subtracts them when the last sharer drops
    /// it.
    #[must_use]
    pub fn counted(totals: Arc<SecurityCacheTotals>) -> Self {
        let mut known = Self::default();
        known.totals = totals;
        known
    }

    /// As [`Node::security_descriptor`].
    ///
    /// # Errors
    /// The errors of the node.
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
    /// The errors of the node.
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

    /// As [`NamedStreams::streams`](crate::NamedStreams::streams).
    ///
    /// # Errors
    /// The errors of the node.
    pub fn streams(&self, actor: Actor<'_>, node: &dyn Node) -> Result<Vec<StreamEntry>> {
        if let Some(known) = self.streams.get() {
            self.totals.stream_hits.fetch_add(1, Ordering::Relaxed);
            return Ok(known.clone());
        }
        self.totals.stream_misses.fetch_add(1, Ordering::Relaxed);
        let asked = node.streams(actor)?;
        let of = |entry: &StreamEntry| size_of::<StreamEntry>() + entry.name.as_bytes().len();
        let bytes = asked.iter().map(of).sum();
        // Long lists are not worth the memory.
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

impl Drop for NodeSecurityCache {
    fn drop(&mut self) {
        self.totals.bytes.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}
