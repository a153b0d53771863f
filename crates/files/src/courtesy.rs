//! Clients that were not heard of for longer than they may be away. They keep what they
//! have by courtesy, until somebody needs it, by whichever protocol. RFC 8881 8.4.3.

use crate::Files;
use crate::table::Table;
use std::sync::{Arc, Weak};
use vfs::{FileKey, Vfs};

/// A protocol whose clients may be away with what they have.
pub trait Courtesy: Send + Sync {
    /// Somebody needs the file: clients that are away let go of what they have of it. True
    /// if one did. Called with no lock of the file layer held.
    fn let_go(&self, file: FileKey) -> bool;

    /// Clients of before a restart may still take back what they had open or locked in this
    /// tree: others take nothing meanwhile that would be in their way. RFC 8881 8.4.2.1.
    fn is_awaited(&self, vfs: &Arc<dyn Vfs>) -> bool {
        let _ = vfs;
        false
    }
}

impl Files {
    /// Whom to ask before somebody is refused for what another client has. Said once.
    pub fn set_courtesy(&self, courtesy: Weak<dyn Courtesy>) {
        let _ = self.table.courtesy.set(courtesy);
    }
}

impl Table {
    /// See [`Courtesy::let_go`].
    pub(crate) fn let_go(&self, file: FileKey) -> bool {
        let courtesy = self.courtesy.get().and_then(Weak::upgrade);
        courtesy.is_some_and(|courtesy| courtesy.let_go(file))
    }

    /// See [`Courtesy::is_awaited`].
    pub(crate) fn is_awaited(&self, vfs: &Arc<dyn Vfs>) -> bool {
        let courtesy = self.courtesy.get().and_then(Weak::upgrade);
        courtesy.is_some_and(|courtesy| courtesy.is_awaited(vfs))
    }
}
