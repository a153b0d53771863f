//! Asynchronous copies: state ids, progress, and CB_OFFLOAD. RFC 7862 4.2, 4.8, 16.1.
//!
//! Workers copy piece by piece, so that a copy can be cancelled and shares its limits. The outcome
//! stays until the client has received or queried it.

use crate::clients::client::Client;
use crate::limits::{COPIES_PER_CLIENT_MAX, COPY_PIECE_BYTES};
use crate::server::Server;
use crate::status::status_of;
use files::{
    CallHolder, Caller, OpenFile, PendingAnswer, Protocol, RequestContext, RequestFiles, ShareQueue,
};
use limits::ResourceCharge;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use sync::Mutex;
use wire::nfs::callback::{Callback, CbOffloadArgs, OffloadOutcome, ReferringCalls};
use wire::nfs::ops::{OffloadStatusResult, WriteResponse};
use wire::nfs::{FileHandle, NfsStatus, StableHow, StateId, Verifier};

/// Marks the numbers of copies, which those of opens and locks never reach.
const IS_COPY: u64 = 1 << 63;

/// Asynchronous copies of one client.
#[derive(Debug)]
pub struct Copies {
    /// Tag in all state ids of the client.
    tag: u32,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
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

    fn remove(&self, id: &StateId) -> Option<Arc<CopyProgress>> {
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

/// An asynchronous copy to run.
#[derive(Debug)]
pub struct AsyncCopy {
    /// State id of the copy.
    pub id: StateId,
    /// Its progress.
    pub progress: Arc<CopyProgress>,
    /// Charge to the client's address.
    pub _share: ResourceCharge,
    /// Source open and offset in bytes.
    pub source: (Arc<OpenFile>, u64),
    /// Target open and offset in bytes.
    pub target: (Arc<OpenFile>, u64),
    /// Caller of the request, as whom the target is written.
    pub caller: Arc<Caller>,
    /// Length in bytes.
    pub length_bytes: u64,
    /// Handle of the target file.
    pub handle: FileHandle,
    /// The COPY request, whose reply CB_OFFLOAD may overtake.
    pub referring: Option<ReferringCalls>,
    /// Queues at the limits of the source's and the target's share, if they have limits.
    pub queues: [Option<Arc<ShareQueue>>; 2],
}

impl AsyncCopy {
    /// Copies, then sends CB_OFFLOAD unless the client has cancelled.
    pub async fn run(self, server: Arc<Server>, client: Arc<Client>) {
        let context =
            RequestContext::new(Protocol::Nfs, client.tag(), None, vfs::ArrivalOrder::next());
        let holder = CallHolder::Client(client.holder.clone());
        let files = server.files.for_request(&context, holder);
        let _pending = PendingAnswer::to(&context);
        let verifier = server.write_verifier(self.target.0.key());
        let result = self.copy(&server, &files).await;
        let status = result.err().unwrap_or(NfsStatus::OK);
        *self.progress.outcome.lock() = Some(status);
        if self.progress.is_cancelled.load(Ordering::Acquire) {
            return;
        }
        let callback = Callback::Offload(self.offload_args(status, verifier));
        if client.call_back(&server.files, &callback, self.referring.as_ref()).await.is_ok() {
            client.copies.remove(&self.id);
        }
    }

    async fn copy(&self, server: &Server, files: &RequestFiles) -> Result<(), NfsStatus> {
        let ((from, source_at), (to, target_at)) = (&self.source, &self.target);
        let mut done = 0;
        while done < self.length_bytes && !self.progress.is_cancelled.load(Ordering::Acquire) {
            let count = (self.length_bytes - done).min(COPY_PIECE_BYTES);
            let clock = || server.host.now().instant;
            files.admit_copy(&self.queues, [from, to], count, &clock).await;
            let copied = files.copy_range(
                &self.caller,
                (from, source_at + done),
                (to, target_at + done),
                count,
            );
            copied.await.map_err(status_of)?;
            done += count;
            self.progress.copied_bytes.store(done, Ordering::Release);
        }
        Ok(())
    }

    fn offload_args(&self, status: NfsStatus, verifier: Verifier) -> CbOffloadArgs {
        let copied_bytes = self.progress.copied_bytes.load(Ordering::Acquire);
        let outcome = match status {
            NfsStatus::OK => OffloadOutcome::Done(WriteResponse {
                callback_id: Vec::new().into(),
                count: copied_bytes,
                committed: StableHow::Unstable,
                verifier,
            }),
            status => OffloadOutcome::Failed { status, copied_bytes },
        };
        CbOffloadArgs { handle: self.handle, state_id: self.id, outcome }
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
