//! What a share's file system says of it: looked at now and then, since a disk may hang.

use crate::system_users;
use files::{Caller, Files};
use std::sync::{Arc, Mutex, PoisonError};

/// One share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShareFact {
    /// Its name.
    pub share: String,
    /// Bytes in use where it is kept.
    pub capacity_bytes: u64,
    /// Bytes that clients see it to have in all.
    pub quota_bytes: u64,
    /// Nodes in use where it is kept; none where that has no such limit.
    pub files: Option<u64>,
    /// Previous states that clients may look into; none where none are shown.
    pub snapshots: Option<usize>,
}

/// What was seen last.
#[derive(Debug, Default)]
pub struct ShareFacts(Mutex<Arc<[ShareFact]>>);

impl ShareFacts {
    /// What was seen last, of every share that answered.
    #[must_use]
    pub fn all(&self) -> Arc<[ShareFact]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks again; may take as long as a disk does.
    pub fn refresh(&self, config: &smb::Config, files: &Arc<Files>) {
        let caller = Caller::of(system_users::own_identity());
        let fact = |share: &Arc<smb::Share>| {
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
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = facts;
    }
}
