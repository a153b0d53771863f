//! Configuration of the NFS layer.

use crate::exports::export::Export;
use crate::exports::pseudo::PseudoTree;
use files::VolumeId;
use std::sync::Arc;
use std::time::Duration;

/// Configuration of the NFS layer.
#[derive(Clone, Debug)]
pub struct NfsConfig {
    /// All shares.
    pub exports: Vec<Arc<Export>>,
    /// Pseudo directories that lead to the shares by their server paths, beside their names in the
    /// root.
    pub tree: PseudoTree,
    /// Lease time.
    pub lease: Duration,
    /// Server owner for clients that use several addresses of this server: equal on all of them,
    /// and unique to this server. RFC 8881 2.5.
    pub owner: Vec<u8>,
    /// The server offers TLS. RFC 9289.
    pub offers_tls: bool,
    /// Most opens, locks and delegations of all clients.
    pub states_max: usize,
}

impl NfsConfig {
    /// The share with this id.
    #[must_use]
    pub fn export(&self, id: VolumeId) -> Option<&Arc<Export>> {
        self.exports.iter().find(|export| export.id == id)
    }

    /// The share with this name.
    #[must_use]
    pub fn export_named(&self, name: &[u8]) -> Option<&Arc<Export>> {
        self.exports.iter().find(|export| export.name == name)
    }
}
