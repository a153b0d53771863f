//! Durable opens: what a client has open survives the loss of its connection
//! for a while, and is given back to the same user. MS-SMB2 3.3.5.9.6,
//! 3.3.5.9.7, 3.3.5.9.10, 3.3.5.9.12, 3.3.7.1.
//!
//! An open with a batch oplock, or a lease that keeps handles, is kept because
//! nobody else had to be asked while the client was away; the first who would have to be asked ends it. A
//! resilient one is kept whatever it has.

use crate::create_guids::Guid;
use crate::dot_names;
use crate::limits::{
    DETACHED_MAX, DURABLE_FOR, DURABLE_V2_FOR, DURABLE_V2_FOR_MAX, RESILIENT_FOR,
    RESILIENT_FOR_MAX, RESILIENT_FOR_MIN,
};
use crate::names::parse_path;
use crate::open::{Open, Target};
use crate::reserve::Reserve;
use crate::session::Session;
use crate::signal::Signal;
use files::{Absence, CacheKey, Caching, RequestFiles};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use wire::codec::utf16_units;
use wire::ntstatus::NtStatus;

/// How far an open outlives its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DurableKind {
    /// As long as nobody else needs what its client keeps of the file.
    Durable,
    /// The same, with a name of its own and a time that its client chose.
    DurableV2,
    /// Whatever others need.
    Resilient,
    /// The same, and the server.
    Persistent,
}

impl DurableKind {
    /// Whether an open is kept whatever others need.
    #[must_use]
    pub fn lasts(self) -> bool {
        matches!(self, Self::Resilient | Self::Persistent)
    }
}

/// How an open outlives its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durability {
    /// See [`DurableKind`].
    pub kind: DurableKind,
    /// How long it waits for its client.
    pub timeout: Duration,
}

impl Durability {
    /// Of version 1.
    pub const DURABLE: Self = Self { kind: DurableKind::Durable, timeout: DURABLE_FOR };

    /// Of version 2, for the time that was asked for; 0 leaves it to us.
    #[must_use]
    pub fn durable_v2(asked_ms: u32) -> Self {
        let asked = Duration::from_millis(asked_ms.into());
        let timeout = if asked.is_zero() { DURABLE_V2_FOR } else { asked.min(DURABLE_V2_FOR_MAX) };
        Self { kind: DurableKind::DurableV2, timeout }
    }

    /// Resilient, for the time that was asked for or [`RESILIENT_FOR_MIN`]; 0 leaves it to us.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for more than [`RESILIENT_FOR_MAX`]. MS-SMB2 3.3.5.15.9.
    pub fn resilient(asked_ms: u32) -> Result<Self, NtStatus> {
        let asked = Duration::from_millis(asked_ms.into());
        if asked > RESILIENT_FOR_MAX {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        let timeout = if asked.is_zero() { RESILIENT_FOR } else { asked.max(RESILIENT_FOR_MIN) };
        Ok(Self { kind: DurableKind::Resilient, timeout })
    }

    /// The time as messages have it.
    #[must_use]
    pub fn timeout_ms(self) -> u32 {
        u32::try_from(self.timeout.as_millis()).unwrap_or(u32::MAX)
    }
}

/// What a client says of the open that it comes back for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconnect {
    /// The lasting half of its id.
    pub id: u64,
    /// The name of the CREATE that made it, unless it is asked for as of version 1.
    pub create_guid: Option<Guid>,
    /// It is said to outlive the server.
    pub persistent: bool,
    /// The lease that it is under, if any.
    pub lease_key: Option<[u8; 16]>,
}

impl Reconnect {
    /// Whether `open` is what the client of `session` comes back for.
    ///
    /// # Errors
    /// As [`DurableOpens::reattach`].
    pub fn judge(
        &self,
        open: &Open,
        session: &Session,
        share: &str,
        name: &[u8],
    ) -> Result<(), NtStatus> {
        // Version 1 may ask for an open of version 2, which by that of version 1 has
        // a name of zeros.
        let create_guid = open.origin.create_guid.unwrap_or_default();
        let is_other = self.create_guid.is_some_and(|guid| guid != create_guid);
        let client = session.client_guid;
        let key = self.lease_key.map(|key| CacheKey { client, key });
        let is_restored = open.origin.persistence.as_ref().is_some_and(|p| p.is_restored);
        // Of a lease that was not written down nobody knows but whose it would be.
        let is_others_key = if is_restored && open.lease.is_none() {
            open.origin.client_guid != client
        } else {
            open.lease.as_ref().map(|lease| lease.key()) != key
        };
        let is_other = is_other || is_others_key;
        if is_other || open.tree.share.name != share {
            return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
        }
        if open.origin.owner != session.user().account.name {
            return Err(NtStatus::ACCESS_DENIED);
        }
        match (open.origin.persistence.is_some(), self.persistent) {
            (true, false) => return Err(NtStatus::OBJECT_NAME_NOT_FOUND),
            (false, true) => return Err(NtStatus::INVALID_PARAMETER),
            _ => {}
        }
        if open.lease.is_some() && !is_named(open, name) {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        Ok(())
    }
}

/// The opens whose clients may come back, by the lasting half of their ids.
#[derive(Debug, Default)]
pub struct DurableOpens {
    reserve: Mutex<Reserve<Arc<Open>>>,
    /// Clients that came back before it was known here that they were gone.
    early: Mutex<Reserve<Arc<Signal>>>,
    /// Sessions that are being lost: their opens are in no table for a moment.
    losing: AtomicUsize,
}

impl DurableOpens {
    /// The connection is lost. Keeps those of its opens that may be kept; the
    /// others are returned, to be closed.
    pub fn detach(
        &self,
        files: &RequestFiles,
        opens: Vec<Arc<Open>>,
        now: Instant,
    ) -> Vec<Arc<Open>> {
        let mut gone = Vec::new();
        for open in opens {
            let Some(durability) = kept_as(&open).filter(|_| self.len() < DETACHED_MAX) else {
                gone.push(open);
                continue;
            };
            if let (Some(absence), Ok(file)) = (absence(&open, durability), open.file()) {
                files.set_away(file, Some(absence));
            }
            // What waits on it has lost its asker.
            open.closed.raise();
            let id = open.id.persistent;
            gone.extend(self.lock().insert(id, open.clone(), now + durability.timeout));
            lock(&self.early).remove(id).inspect(|entered| entered.raise());
            if let Some(lease) = &open.lease {
                lease.handle_detached(id);
            }
            // Asked for its oplock before it was entered: nobody was told.
            if kept_as(&open).is_none() {
                gone.extend(self.remove(id));
            }
        }
        gone
    }

    /// The open that a client comes back for; it is the caller's to go on with.
    ///
    /// # Errors
    /// `OBJECT_NAME_NOT_FOUND` if it is not there, its time is over at `now`, or it is of another
    /// share, under another lease, made by another CREATE, or persistent and not said to be;
    /// `ACCESS_DENIED` for another user; `INVALID_PARAMETER` if it is said to be
    /// persistent and is not, and for a lease on a file of another name, which without
    /// a lease nobody looks at.
    pub fn reattach(
        &self,
        wish: &Reconnect,
        session: &Session,
        share: &str,
        name: &[u8],
        now: Instant,
    ) -> Result<Arc<Open>, NtStatus> {
        let mut reserve = self.lock();
        let open = reserve.get_in_time(wish.id, now).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
        wish.judge(open, session, share, name)?;
        reserve.remove(wish.id).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)
    }

    /// Raised once the open is entered, or it is time to look again: at the latest at the first tick
    /// after `until`, or after that of another who expects it.
    pub fn expect(&self, id: u64, until: Instant) -> Arc<Signal> {
        let mut early = lock(&self.early);
        let known = early.get(id).cloned();
        known.unwrap_or_else(|| {
            let entered = Arc::<Signal>::default();
            early.insert(id, entered.clone(), until);
            entered
        })
    }

    /// What `lose` takes out of its session is about to be entered.
    pub fn while_losing(&self, lose: impl FnOnce()) {
        self.losing.fetch_add(1, Ordering::AcqRel);
        lose();
        if self.losing.fetch_sub(1, Ordering::AcqRel) == 1 {
            lock(&self.early).drain().for_each(|look| look.raise());
        }
    }

    /// Whether opens are about to be entered.
    pub fn is_losing(&self) -> bool {
        self.losing.load(Ordering::Acquire) > 0
    }

    /// An open that waits for its client.
    pub fn find(&self, id: u64) -> Option<Arc<Open>> {
        self.lock().get(id).cloned()
    }

    /// Takes an open out, to be closed.
    pub fn remove(&self, id: u64) -> Option<Arc<Open>> {
        self.lock().remove(id)
    }

    /// Whether an open waits for its client.
    pub fn is_kept(&self, id: u64) -> bool {
        self.lock().get(id).is_some()
    }

    /// Its oplock is needed: ends it, if it is there and does not last whatever others need.
    #[must_use]
    pub fn remove_for_others(&self, id: u64) -> Option<Arc<Open>> {
        let mut reserve = self.lock();
        let lasts = |open: &Arc<Open>| open.durability().is_some_and(|d| d.kind.lasts());
        reserve.get(id).filter(|open| !lasts(open))?;
        reserve.remove(id)
    }

    /// Takes out those whose time is over, to be closed.
    #[must_use]
    pub fn remove_expired(&self, now: Instant) -> Vec<Arc<Open>> {
        lock(&self.early).remove_expired(now).iter().for_each(|entered| entered.raise());
        self.lock().remove_expired(now)
    }

    /// Lets go of persistent opens without closing them.
    pub fn leave_persistent(&self) {
        let is_persistent = |open: &Arc<Open>| open.origin.persistence.is_some();
        self.lock().drain().filter(is_persistent).for_each(std::mem::forget);
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, Reserve<Arc<Open>>> {
        lock(&self.reserve)
    }
}

fn lock<T>(reserve: &Mutex<Reserve<T>>) -> MutexGuard<'_, Reserve<T>> {
    reserve.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether `name`, as it is on the wire, is that of the open's file. Where case
/// does not count for the file it does not count here.
pub fn is_named(open: &Open, name: &[u8]) -> bool {
    let Target::File(file) = &open.target else { return false };
    let Ok(units) = utf16_units(name, "name") else { return false };
    let named = dot_names::normalize(&units).ok().and_then(|units| parse_path(&units).ok());
    let case = file.volume().options.case;
    named.is_some_and(|named| named.may_be(&file.path(), case))
}

/// What others meet who need what an open keeps while its client is away. MS-SMB2 3.3.4.6,
/// 3.3.4.7: the break of a resilient one is completed at once. One that lasts for nobody is closed:
/// none.
fn absence(open: &Open, durability: Durability) -> Option<Absence> {
    // Resilience that its client asked for besides changes its time, and no more.
    let is_persistent = open.origin.persistence.is_some();
    let lasting = if is_persistent { Absence::Keeps } else { Absence::Yields };
    durability.kind.lasts().then_some(lasting)
}

/// How the open is kept, if it may be: nobody needs to be asked for it.
pub(crate) fn kept_as(open: &Open) -> Option<Durability> {
    let Target::File(file) = &open.target else { return None };
    let durability = open.durability()?;
    let is_alone = || {
        let state = file.cache_state();
        // Locks that others were not told of yet are gone with the connection.
        let locks = state.has.contains(Caching::WRITE) || !file.has_locks();
        state.has.contains(Caching::HANDLE) && !state.is_breaking && locks
    };
    (durability.kind.lasts() || is_alone()).then_some(durability)
}
