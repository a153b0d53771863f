//! Durable opens: an open survives the loss of its connection for a while, and the same user can
//! reconnect it. MS-SMB2 3.3.5.9.6, 3.3.5.9.7, 3.3.5.9.10, 3.3.5.9.12, 3.3.7.1.
//!
//! An open with a batch oplock or a lease with handle caching is retained until another open would
//! break that caching. The first such open closes it. A resilient or persistent open is retained in
//! any case.

use crate::conversion::dot_names;
use crate::conversion::names::parse_path;
use crate::limits::DETACHED_MAX;
use crate::opens::create_guids::Guid;
use crate::opens::durability::Durability;
use crate::opens::open::{Open, OpenTarget};
use crate::opens::timed_table::TimedTable;
use crate::signal::Signal;
use files::{Absence, CacheKey, CachingRights, RequestFiles};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;
use sync::Mutex;

use wire::codec::utf16_units;
use wire::ntstatus::NtStatus;

/// The client that reconnects an open, and its account.
#[derive(Clone, Copy, Debug)]
pub struct ReconnectingClient<'a> {
    /// ClientGuid of its connection.
    pub guid: Guid,
    /// Name of the account of its session.
    pub account: &'a str,
}

/// The identification of an open in a reconnecting CREATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconnect {
    /// FileId.Persistent.
    pub id: u64,
    /// CreateGuid of the original CREATE; none in a reconnect of version 1.
    pub create_guid: Option<Guid>,
    /// The client claims a persistent open.
    pub persistent: bool,
    /// The lease key, if the open has a lease.
    pub lease_key: Option<[u8; 16]>,
}

impl Reconnect {
    /// Checks that the client of `session` may reconnect `open`.
    ///
    /// # Errors
    /// The errors of [`DurableOpens::reattach`].
    pub fn check(
        &self,
        open: &Open,
        by: ReconnectingClient<'_>,
        share: &str,
        name: &[u8],
    ) -> Result<(), NtStatus> {
        // A version 1 reconnect may name a version 2 open; its GUID counts as zeros then.
        let create_guid = open.origin.create_guid.unwrap_or_default();
        let is_other = self.create_guid.is_some_and(|guid| guid != create_guid);
        let client = by.guid;
        let key = self.lease_key.map(|key| CacheKey { client, key });
        let is_restored = open.origin.persistence.as_ref().is_some_and(|p| p.is_restored);
        // A lease that was not persisted is identified by its client only.
        let is_others_key = if is_restored && open.lease.is_none() {
            open.origin.client_guid != client
        } else {
            open.lease.as_ref().map(|lease| lease.key()) != key
        };
        let is_other = is_other || is_others_key;
        if is_other || open.tree.share.name != share {
            return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
        }
        if open.origin.owner != by.account {
            return Err(NtStatus::ACCESS_DENIED);
        }
        match (open.origin.persistence.is_some(), self.persistent) {
            (true, false) => return Err(NtStatus::OBJECT_NAME_NOT_FOUND),
            (false, true) => return Err(NtStatus::INVALID_PARAMETER),
            _ => {}
        }
        if open.lease.is_some() && !has_path(open, name) {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        Ok(())
    }
}

/// The opens that clients may reconnect, by FileId.Persistent.
#[derive(Debug, Default)]
pub struct DurableOpens {
    detached: Mutex<TimedTable<Arc<Open>>>,
    /// Reconnects that arrived before the server noticed the lost connection.
    expected: Mutex<TimedTable<Arc<Signal>>>,
    /// Sessions in the course of disconnection: their opens are in no table for a moment.
    detaching: AtomicUsize,
}

impl DurableOpens {
    /// Retains those opens of a lost connection that may be retained, and returns the others, which
    /// the caller closes.
    pub fn detach(
        &self,
        files: &RequestFiles,
        opens: Vec<Arc<Open>>,
        now: Instant,
    ) -> Vec<Arc<Open>> {
        let mut gone = Vec::new();
        for open in opens {
            let Some(durability) = detachable_as(&open).filter(|_| self.len() < DETACHED_MAX)
            else {
                gone.push(open);
                continue;
            };
            if let (Some(absence), Ok(file)) = (absence(&open, durability), open.file()) {
                files.set_absence(file, Some(absence));
            }
            // Requests that wait on the open have lost their client.
            open.closed.raise();
            let id = open.id.persistent;
            gone.extend(self.detached.lock().insert(id, open.clone(), now + durability.timeout));
            self.expected.lock().remove(id).inspect(|entered| entered.raise());
            if let Some(lease) = &open.lease {
                lease.handle_detached(id);
            }
            // A break that preceded the insertion found no entry, so the open must close now.
            if detachable_as(&open).is_none() {
                gone.extend(self.remove(id));
            }
        }
        gone
    }

    /// Takes out the open that a client reconnects; the caller owns it then.
    ///
    /// # Errors
    /// - `OBJECT_NAME_NOT_FOUND`: the open does not exist, its timeout expired before `now`, or
    ///   share, lease, CreateGuid or persistence differ.
    /// - `ACCESS_DENIED`: another user owns it.
    /// - `INVALID_PARAMETER`: the client claims persistence that the open lacks, or a leased file
    ///   has another name. Without a lease the name is not compared.
    pub fn reattach(
        &self,
        wish: &Reconnect,
        by: ReconnectingClient<'_>,
        share: &str,
        name: &[u8],
        now: Instant,
    ) -> Result<Arc<Open>, NtStatus> {
        let mut detached = self.detached.lock();
        let open = detached.get_in_time(wish.id, now).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
        wish.check(open, by, share, name)?;
        detached.remove(wish.id).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)
    }

    /// A signal that is raised once open `id` is detached. It is also raised at the first tick
    /// after `until`, or after the deadline of another waiter for the same open.
    pub fn expect(&self, id: u64, until: Instant) -> Arc<Signal> {
        let mut expected = self.expected.lock();
        let known = expected.get(id).cloned();
        known.unwrap_or_else(|| {
            let entered = Arc::<Signal>::default();
            expected.insert(id, entered.clone(), until);
            entered
        })
    }

    /// Runs `lose`, which moves opens from a session into this table.
    pub fn while_detaching(&self, lose: impl FnOnce()) {
        self.detaching.fetch_add(1, Ordering::AcqRel);
        lose();
        if self.detaching.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.expected.lock().drain().for_each(|look| look.raise());
        }
    }

    /// True while opens are on their way into the table.
    pub fn is_detaching(&self) -> bool {
        self.detaching.load(Ordering::Acquire) > 0
    }

    /// Finds a detached open.
    pub fn find(&self, id: u64) -> Option<Arc<Open>> {
        self.detached.lock().get(id).cloned()
    }

    /// Removes a detached open; the caller closes it.
    pub fn remove(&self, id: u64) -> Option<Arc<Open>> {
        self.detached.lock().remove(id)
    }

    /// True if the open is detached.
    pub fn is_detached(&self, id: u64) -> bool {
        self.detached.lock().get(id).is_some()
    }

    /// Removes a detached open whose caching conflicts with another open, unless its kind survives
    /// conflicts.
    #[must_use]
    pub fn remove_conflicting(&self, id: u64) -> Option<Arc<Open>> {
        let mut detached = self.detached.lock();
        let lasts =
            |open: &Arc<Open>| open.durability().is_some_and(|d| d.kind.survives_conflicts());
        detached.get(id).filter(|open| !lasts(open))?;
        detached.remove(id)
    }

    /// Removes the opens whose timeout expired; the caller closes them.
    #[must_use]
    pub fn remove_expired(&self, now: Instant) -> Vec<Arc<Open>> {
        self.expected.lock().remove_expired(now).iter().for_each(|entered| entered.raise());
        self.detached.lock().remove_expired(now)
    }

    /// Leaks the persistent opens, so that the end of the process does not close them.
    pub fn abandon_persistent(&self) {
        let is_persistent = |open: &Arc<Open>| open.origin.persistence.is_some();
        self.detached.lock().drain().filter(is_persistent).for_each(std::mem::forget);
    }

    /// Number of detached opens.
    pub fn len(&self) -> usize {
        self.detached.lock().len()
    }
}

/// True if `name`, in wire encoding, is the path of the open's file. Case is ignored where the
/// volume ignores it.
pub fn has_path(open: &Open, name: &[u8]) -> bool {
    let OpenTarget::File(file) = &open.target else { return false };
    let Ok(units) = utf16_units(name, "name") else { return false };
    let named = dot_names::normalize(&units).ok().and_then(|units| parse_path(&units).ok());
    let case = file.volume().options.case;
    named.is_some_and(|named| named.may_be(&file.path(), case))
}

/// How a detached open reacts to conflicting opens. A break of a resilient open completes at once
/// (MS-SMB2 3.3.4.6, 3.3.4.7). None for an open that a conflict closes.
fn absence(open: &Open, durability: Durability) -> Option<Absence> {
    // Resilience that the client requests in addition changes the timeout only.
    let is_persistent = open.origin.persistence.is_some();
    let lasting = if is_persistent { Absence::RetainsCaching } else { Absence::YieldsCaching };
    durability.kind.survives_conflicts().then_some(lasting)
}

/// The durability with which an open can be detached now; none if its caching does not allow it.
pub(crate) fn detachable_as(open: &Open) -> Option<Durability> {
    let OpenTarget::File(file) = &open.target else { return None };
    let durability = open.durability()?;
    let is_alone = || {
        let state = file.cache_state();
        // Byte-range locks that other clients' caches do not reflect end with the connection.
        let locks = state.has.contains(CachingRights::WRITE) || !file.has_locks();
        state.has.contains(CachingRights::HANDLE) && !state.is_breaking && locks
    };
    (durability.kind.survives_conflicts() || is_alone()).then_some(durability)
}
