//! Space and snapshots of the shares' file systems. They are read in the background, because a disk
//! may hang.

use crate::accounts::system_users;
use files::{Caller, Files};
use std::sync::Arc;
use sync::Mutex;

/// Facts of one share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareFact {
    /// Name of the share.
    pub share: String,
    /// Used bytes of its file system.
    pub capacity_bytes: u64,
    /// Total bytes that clients see.
    pub quota_bytes: u64,
    /// Used inodes of its file system; `None` if the file system has no such limit.
    pub files: Option<u64>,
    /// Number of visible snapshots; `None` if the share shows none.
    pub snapshots: Option<usize>,
}

/// The last readings.
#[derive(Debug, Default)]
pub struct ShareFacts(Mutex<Arc<[ShareFact]>>);

impl ShareFacts {
    /// The last readings of all shares that answered.
    #[must_use]
    pub fn all(&self) -> Arc<[ShareFact]> {
        self.0.lock().clone()
    }

    /// Reads all shares again; blocks as long as a disk does.
    pub fn refresh(&self, config: &smb::SmbConfig, files: &Arc<Files>) {
        let caller = Caller::of(system_users::own_identity());
        let fact = |share: &Arc<smb::SmbShare>| {
            let volume = share.volume.as_ref()?;
            let space = files.for_server().space(volume, &caller).ok()?;
            let snapshots = volume.options.snapshots.as_ref().and_then(|all| all.list().ok());
            Some(ShareFact {
                share: share.name.clone(),
                capacity_bytes: space.total_bytes.saturating_sub(space.free_bytes),
                quota_bytes: space.total_bytes,
                files: (space.nodes_total > 0)
                    .then(|| space.nodes_total.saturating_sub(space.nodes_free)),
                snapshots: snapshots.map(|all| all.len()),
            })
        };
        let facts: Arc<[ShareFact]> = config.shares.iter().filter_map(fact).collect();
        *self.0.lock() = facts;
    }
}
