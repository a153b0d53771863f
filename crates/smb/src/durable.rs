//! Durable opens: what a client has open survives the loss of its connection
//! for a while, and is given back to the same user. MS-SMB2 3.3.5.9.6,
//! 3.3.5.9.7, 3.3.7.1.
//!
//! Only opens with a batch oplock are kept: nobody else had to be asked while
//! the client was away. The first who would have to be asked ends it.

use crate::limits::{DETACHED_FOR, DETACHED_MAX};
use crate::open::{Open, Target};
use crate::session::Session;
use files::Caching;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use wire::ntstatus::NtStatus;

/// An open without a connection.
#[derive(Debug)]
struct Detached {
    open: Arc<Open>,
    user: String,
    until: Instant,
}

/// The opens whose clients may come back, by the lasting half of their ids.
#[derive(Debug, Default)]
pub struct DurableOpens {
    by_id: Mutex<HashMap<u64, Detached>>,
}

impl DurableOpens {
    /// The connection of `session` is lost. Keeps those of its opens that may
    /// be kept; the others are returned, to be closed.
    pub fn detach(&self, session: &Session, opens: Vec<Arc<Open>>, now: Instant) -> Vec<Arc<Open>> {
        let user = session.user().account.name.clone();
        let mut gone = Vec::new();
        for open in opens {
            if !may_be_kept(&open) || self.lock().len() >= DETACHED_MAX {
                gone.push(open);
                continue;
            }
            // What waits on it has lost its asker.
            open.closed.raise();
            let id = open.id.persistent;
            let until = now + DETACHED_FOR;
            let (user, open) = (user.clone(), open.clone());
            let kept = Detached { open: open.clone(), user, until };
            self.lock().insert(id, kept);
            // Asked for its oplock before it was entered: nobody was told.
            if !may_be_kept(&open) {
                gone.extend(self.remove(id));
            }
        }
        gone
    }

    /// The open that a client comes back for; it is the caller's to go on with.
    ///
    /// # Errors
    /// `OBJECT_NAME_NOT_FOUND` if it is not there, or of another share;
    /// `ACCESS_DENIED` for another user.
    pub fn reattach(&self, id: u64, session: &Session, share: &str) -> Result<Arc<Open>, NtStatus> {
        let mut by_id = self.lock();
        let kept = by_id.get(&id).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
        if kept.open.tree.share.name != share {
            return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
        }
        if kept.user != session.user().account.name {
            return Err(NtStatus::ACCESS_DENIED);
        }
        let kept = by_id.remove(&id).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
        Ok(kept.open)
    }

    /// Ends one, if it is there: its oplock is needed.
    #[must_use]
    pub fn remove(&self, id: u64) -> Option<Arc<Open>> {
        self.lock().remove(&id).map(|kept| kept.open)
    }

    /// Takes out those whose time is over, to be closed.
    #[must_use]
    pub fn remove_expired(&self, now: Instant) -> Vec<Arc<Open>> {
        self.lock().extract_if(|_, kept| kept.until <= now).map(|(_, kept)| kept.open).collect()
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Detached>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether nobody needs to be asked for what the open keeps.
fn may_be_kept(open: &Open) -> bool {
    let Target::File(file) = &open.target else { return false };
    open.is_durable && file.caching() == Caching::BATCH && !file.is_breaking()
}
