//! Courtesy clients: their lease has expired, and they retain their state until another client of
//! either protocol conflicts with it. RFC 8881 8.4.3.

use crate::Files;
use std::sync::{Arc, Weak};
use vfs::{FileKey, Vfs};

/// A protocol with courtesy clients.
pub trait CourtesyClients: Send + Sync {
    /// Revokes the state that courtesy clients hold on the file, for a conflicting request. Returns
    /// whether there was any. Called with no lock of the file layer held.
    fn revoke_courtesy_state(&self, file: FileKey) -> bool;

    /// Whether the grace period of this tree runs: clients may reclaim opens and locks after a
    /// restart, so conflicting requests are refused. RFC 8881 8.4.2.1.
    fn is_in_grace(&self, vfs: &Arc<dyn Vfs>) -> bool {
        let _ = vfs;
        false
    }
}

impl Files {
    /// Sets the protocol that is consulted before a conflict is reported; effective once.
    pub fn set_courtesy(&self, courtesy: Weak<dyn CourtesyClients>) {
        let _ = self.table.courtesy.set(courtesy);
    }
}
