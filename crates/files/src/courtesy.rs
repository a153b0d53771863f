//! Clients that were not heard of for longer than they may be away. They keep what they
//! have by courtesy, until somebody needs it, by whichever protocol. RFC 8881 8.4.3.

use crate::Files;
use crate::table::Table;
use std::sync::Weak;
use vfs::FileKey;

/// A protocol whose clients may be away with what they have.
pub trait Courtesy: Send + Sync {
    /// Somebody needs the file: clients that are away let go of what they have of it. True
    /// if one did. Called with no lock of the file layer held.
    fn let_go(&self, file: FileKey) -> bool;
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
}
