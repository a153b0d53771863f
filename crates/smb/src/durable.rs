//! Durable opens: what a client has open survives the loss of its connection
//! for a while, and is given back to the same user. MS-SMB2 3.3.5.9.6,
//! 3.3.5.9.7, 3.3.5.9.10, 3.3.5.9.12, 3.3.7.1.
//!
//! An open with a batch oplock is kept because nobody else had to be asked
//! while the client was away; the first who would have to be asked ends it. A
//! resilient one is kept whatever it has.

use crate::create_guids::Guid;
use crate::limits::{
    DETACHED_MAX, DURABLE_FOR, DURABLE_V2_FOR, DURABLE_V2_FOR_MAX, RESILIENT_FOR, RESILIENT_FOR_MAX,
};
use crate::open::{Open, Target};
use crate::reserve::Reserve;
use crate::session::Session;
use files::Caching;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
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

    /// Resilient, for the time that was asked for; 0 leaves it to us.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for more than [`RESILIENT_FOR_MAX`]. MS-SMB2 3.3.5.15.9.
    pub fn resilient(asked_ms: u32) -> Result<Self, NtStatus> {
        let asked = Duration::from_millis(asked_ms.into());
        if asked > RESILIENT_FOR_MAX {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        let timeout = if asked.is_zero() { RESILIENT_FOR } else { asked };
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
}

/// The opens whose clients may come back, by the lasting half of their ids.
#[derive(Debug, Default)]
pub struct DurableOpens {
    reserve: Mutex<Reserve<Arc<Open>>>,
}

impl DurableOpens {
    /// The connection is lost. Keeps those of its opens that may be kept; the
    /// others are returned, to be closed.
    pub fn detach(&self, opens: Vec<Arc<Open>>, now: Instant) -> Vec<Arc<Open>> {
        let mut gone = Vec::new();
        for open in opens {
            let Some(durability) = kept_as(&open).filter(|_| self.len() < DETACHED_MAX) else {
                gone.push(open);
                continue;
            };
            // What waits on it has lost its asker.
            open.closed.raise();
            let id = open.id.persistent;
            gone.extend(self.lock().insert(id, open.clone(), now + durability.timeout));
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
    /// `OBJECT_NAME_NOT_FOUND` if it is not there, of another share, or made by
    /// another CREATE; `ACCESS_DENIED` for another user.
    pub fn reattach(
        &self,
        wish: &Reconnect,
        session: &Session,
        share: &str,
    ) -> Result<Arc<Open>, NtStatus> {
        let mut reserve = self.lock();
        let open = reserve.get(wish.id).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)?;
        // Version 1 may ask for an open of version 2, not the other way round.
        let is_other = wish.create_guid.is_some() && wish.create_guid != open.origin.create_guid;
        if is_other || open.tree.share.name != share {
            return Err(NtStatus::OBJECT_NAME_NOT_FOUND);
        }
        if open.origin.owner != session.user().account.name {
            return Err(NtStatus::ACCESS_DENIED);
        }
        reserve.remove(wish.id).ok_or(NtStatus::OBJECT_NAME_NOT_FOUND)
    }

    /// Whether an open waits for its client.
    pub fn is_kept(&self, id: u64) -> bool {
        self.lock().get(id).is_some()
    }

    /// Its oplock is needed: ends it, if it is there and does not last whatever others need.
    #[must_use]
    pub fn remove_for_others(&self, id: u64) -> Option<Arc<Open>> {
        let mut reserve = self.lock();
        let lasts = |open: &Arc<Open>| {
            open.durability().is_some_and(|durability| durability.kind == DurableKind::Resilient)
        };
        reserve.get(id).filter(|open| !lasts(open))?;
        reserve.remove(id)
    }

    /// Takes out those whose time is over, to be closed.
    #[must_use]
    pub fn remove_expired(&self, now: Instant) -> Vec<Arc<Open>> {
        self.lock().remove_expired(now)
    }

    /// How many are kept.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    fn remove(&self, id: u64) -> Option<Arc<Open>> {
        self.lock().remove(id)
    }

    fn lock(&self) -> MutexGuard<'_, Reserve<Arc<Open>>> {
        self.reserve.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How the open is kept, if it may be: nobody needs to be asked for it.
fn kept_as(open: &Open) -> Option<Durability> {
    let Target::File(file) = &open.target else { return None };
    let durability = open.durability()?;
    let is_alone = || file.caching() == Caching::BATCH && !file.is_breaking();
    (durability.kind == DurableKind::Resilient || is_alone()).then_some(durability)
}
