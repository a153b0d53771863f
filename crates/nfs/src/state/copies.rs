//! Asynchronous copies of a client: state ids and progress. RFC 7862 4.8.
//!
//! The outcome stays until the client has received or queried it.

use crate::limits::COPIES_PER_CLIENT_MAX;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sync::Mutex;
use wire::nfs::ops::OffloadStatusResult;
use wire::nfs::{NfsStatus, StateId};

/// Marks the numbers of copies, which those of opens and locks never reach.
const IS_COPY: u64 = 1 << 63;

/// Asynchronous copies of one client.
#[derive(Debug)]
pub struct Copies {
    /// Tag in all state ids of the client.
    tag: u32,
    state: Mutex<CopiesState>,
}

#[derive(Debug, Default)]
struct CopiesState {
    last: u64,
    copies: BTreeMap<u64, Arc<CopyProgress>>,
}

/// Progress of a copy.
#[derive(Debug, Default)]
pub struct CopyProgress {
    copied_bytes: AtomicU64,
    is_cancelled: AtomicBool,
    outcome: Mutex<Option<NfsStatus>>,
}

impl CopyProgress {
    fn outcome(&self) -> Option<NfsStatus> {
        *self.outcome.lock()
    }

    /// Notes the end of the copy.
    pub fn set_outcome(&self, status: NfsStatus) {
        *self.outcome.lock() = Some(status);
    }

    /// Whether the client has cancelled the copy or is gone.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Ordering::Acquire)
    }

    /// Bytes copied so far.
    #[must_use]
    pub fn copied_bytes(&self) -> u64 {
        self.copied_bytes.load(Ordering::Acquire)
    }

    /// Notes the bytes copied so far.
    pub fn set_copied_bytes(&self, bytes: u64) {
        self.copied_bytes.store(bytes, Ordering::Release);
    }
}

impl Copies {
    /// No copies. `tag` distinguishes the state ids of this client.
    #[must_use]
    pub fn new(tag: u32) -> Self {
        Self { tag, state: Mutex::default() }
    }

    /// Registers a new copy. The oldest ended copy whose outcome was never queried makes room. None
    /// if all are in flight.
    #[must_use]
    pub fn begin(&self) -> Option<(StateId, Arc<CopyProgress>)> {
        let mut state = self.state.lock();
        if state.copies.len() >= COPIES_PER_CLIENT_MAX {
            let mut ended = state.copies.iter().filter(|(_, copy)| copy.outcome().is_some());
            let oldest = *ended.next()?.0;
            state.copies.remove(&oldest);
        }
        state.last += 1;
        let number = state.last | IS_COPY;
        let progress = Arc::<CopyProgress>::default();
        state.copies.insert(number, progress.clone());
        let mut other = [0; 12];
        other[..4].copy_from_slice(&self.tag.to_be_bytes());
        other[4..].copy_from_slice(&number.to_be_bytes());
        Some((StateId { seqid: 1, other }, progress))
    }

    fn number(&self, id: &StateId) -> Option<u64> {
        let (tag, number) = id.other.split_first_chunk::<4>()?;
        let number = number.try_into().map(u64::from_be_bytes).ok()?;
        (u32::from_be_bytes(*tag) == self.tag && id.seqid <= 1).then_some(number)
    }

    /// Progress and outcome of a copy.
    ///
    /// # Errors
    /// BAD_STATEID if there is no such copy, or its outcome has been delivered.
    pub fn status(&self, id: &StateId) -> Result<OffloadStatusResult, NfsStatus> {
        let state = self.state.lock();
        let copy = self.number(id).and_then(|number| state.copies.get(&number));
        let copy = copy.ok_or(NfsStatus::BAD_STATEID)?;
        let complete: Vec<NfsStatus> = copy.outcome().into_iter().collect();
        let count = copy.copied_bytes.load(Ordering::Acquire);
        Ok(OffloadStatusResult { count, complete: complete.into() })
    }

    /// Cancels a copy, without CB_OFFLOAD.
    ///
    /// # Errors
    /// As [`Copies::status`]; COMPLETE_ALREADY if it has ended.
    pub fn cancel(&self, id: &StateId) -> Result<(), NfsStatus> {
        let copy = self.remove(id).ok_or(NfsStatus::BAD_STATEID)?;
        copy.is_cancelled.store(true, Ordering::Release);
        if copy.outcome().is_some() { Err(NfsStatus::COMPLETE_ALREADY) } else { Ok(()) }
    }

    /// Removes a copy whose outcome the client has received.
    pub fn remove(&self, id: &StateId) -> Option<Arc<CopyProgress>> {
        self.state.lock().copies.remove(&self.number(id)?)
    }

    /// Cancels all copies of a client that is gone.
    pub fn cancel_all(&self) {
        let copies = std::mem::take(&mut self.state.lock().copies);
        copies.values().for_each(|copy| copy.is_cancelled.store(true, Ordering::Release));
    }

    /// Whether a copy is in flight.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.state.lock().copies.values().any(|copy| copy.outcome().is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_bounded_and_oldest_ended_makes_room() {
        let copies = Copies::new(7);
        let all: Vec<_> = (0..COPIES_PER_CLIENT_MAX).map(|_| copies.begin().unwrap()).collect();
        assert!(copies.begin().is_none(), "all are under way");
        *all[3].1.outcome.lock() = Some(NfsStatus::OK);
        assert!(copies.begin().is_some());
        assert!(copies.begin().is_none());
        assert_eq!(copies.status(&all[3].0).err(), Some(NfsStatus::BAD_STATEID));
        assert!(copies.status(&all[2].0).is_ok() && copies.is_busy());
    }

    #[test]
    fn copy_is_found_by_its_own_client_only() {
        let (mine, theirs) = (Copies::new(7), Copies::new(8));
        let (id, progress) = mine.begin().unwrap();
        let _other = theirs.begin().unwrap();
        assert_eq!(theirs.cancel(&id), Err(NfsStatus::BAD_STATEID));
        assert_eq!(mine.cancel(&StateId { seqid: 2, ..id }), Err(NfsStatus::BAD_STATEID));
        assert_eq!(mine.cancel(&id), Ok(()));
        assert!(progress.is_cancelled.load(Ordering::Acquire));
        assert_eq!(mine.cancel(&id), Err(NfsStatus::BAD_STATEID), "it is not there any more");
        let (id, progress) = mine.begin().unwrap();
        *progress.outcome.lock() = Some(NfsStatus::NOSPC);
        assert_eq!(*mine.status(&id).unwrap().complete, [NfsStatus::NOSPC]);
        assert_eq!(mine.cancel(&id), Err(NfsStatus::COMPLETE_ALREADY));
    }
}
