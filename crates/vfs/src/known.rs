//! What is known of a node beside its attributes, when it is opened.

use crate::{Node, Opened, PosixAcl, Result};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// An open, and what is known with it.
#[derive(Clone, Debug)]
pub struct KnownOpen {
    /// The open.
    pub opened: Opened,
    /// Its security as it is now, if that may be known without asking the node.
    pub security: Option<Arc<KnownSecurity>>,
}

impl From<Opened> for KnownOpen {
    fn from(opened: Opened) -> Self {
        Self { opened, security: None }
    }
}

/// A node's security at one time. It is asked of the node when it is needed first,
/// and known to all who share this then.
#[derive(Debug, Default)]
pub struct KnownSecurity {
    descriptor: OnceLock<Option<Vec<u8>>>,
    posix_acl: OnceLock<Option<PosixAcl>>,
    bytes: AtomicUsize,
    all_bytes: Arc<AtomicUsize>,
}

impl KnownSecurity {
    /// Nothing is known yet. Bytes that are taken are added to `all_bytes`, and
    /// subtracted once nobody shares this.
    #[must_use]
    pub fn counted(all_bytes: Arc<AtomicUsize>) -> Self {
        let (descriptor, posix_acl) = (OnceLock::new(), OnceLock::new());
        Self { descriptor, posix_acl, bytes: AtomicUsize::new(0), all_bytes }
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

    fn count(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.all_bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for KnownSecurity {
    fn drop(&mut self) {
        self.all_bytes.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}
