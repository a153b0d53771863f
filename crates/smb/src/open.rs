//! Opens as SMB sees them: a file of the file layer, a named pipe, or quotas.
//! MS-SMB2 3.3.1.10.

use crate::app_instances::Membership;
use crate::channel_sequence::{ChannelSequence, Generation};
use crate::create_guids::{Claim, Guid};
use crate::durable::Durability;
use crate::holdings::Charges;
use crate::lease::Lease;
use crate::lock_sequence::LockSequences;
use crate::oplock::Oplock;
use crate::pipe::OpenPipe;
use crate::quota::OpenQuotas;
use crate::signal::Signal;
use crate::tree::Tree;
use files::{FileIdentity, OpenAction, OpenFile};
use limits::Share;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wire::fscc::{
    FILE_NO_INTERMEDIATE_BUFFERING, FILE_SEQUENTIAL_ONLY, FILE_SYNCHRONOUS_IO_ALERT,
    FILE_SYNCHRONOUS_IO_NONALERT, FILE_WRITE_THROUGH,
};
use wire::ntstatus::NtStatus;
use wire::smb::FileId;

/// Either kind of synchronous I/O.
const FILE_SYNCHRONOUS: u32 = FILE_SYNCHRONOUS_IO_ALERT | FILE_SYNCHRONOUS_IO_NONALERT;

/// One open of a session.
#[derive(Debug)]
pub struct Open {
    /// Both halves of the id the client was given.
    pub id: FileId,
    /// The tree it was made on.
    pub tree: Arc<Tree>,
    /// What is open.
    pub target: Target,
    /// Its share has all changes be stable before they are answered.
    is_of_stable_share: bool,
    /// FILE_* mode flags of CREATE, as SET_INFO has changed them (MS-FSCC 2.4.31).
    mode: AtomicU32,
    /// How it came to be.
    pub origin: Arc<Origin>,
    /// How its client is asked for its oplock.
    pub oplock: Option<Arc<Oplock>>,
    /// The lease that it is under.
    pub lease: Option<Arc<Lease>>,
    /// Raised when it is closed: whatever waits on it gives up.
    pub closed: Signal,
    lock_sequences: Mutex<LockSequences>,
    /// Where QUERY_DIRECTORY stands.
    pub scan: futures_util::lock::Mutex<Option<crate::commands::query_directory::Scan>>,
    /// Where a scan of extended attributes goes on.
    pub ea_position: AtomicUsize,
    durability: Mutex<Option<Durability>>,
    requests: Mutex<Requests>,
}

/// How an open came to be; a reconnect does not change it.
#[derive(Debug)]
pub struct Origin {
    /// What CREATE did.
    pub action: OpenAction,
    /// Account that it was opened by.
    pub owner: String,
    /// Client that it was opened by.
    pub client_guid: Guid,
    /// The client's name for the CREATE, if it gave one.
    pub create_guid: Option<Guid>,
    /// Its place among the opens of its application, if that was named.
    pub membership: Option<Membership>,
    /// It is written down, to outlive the server.
    pub persistence: Option<Box<Persistence>>,
    /// What its user is charged for it.
    pub charges: Charges,
}

/// What writing an open down needs.
#[derive(Debug)]
pub struct Persistence {
    /// Which file it is of.
    pub identity: FileIdentity,
    /// It was made again after a restart: what its client kept is gone.
    pub is_restored: bool,
    /// What its user is charged for the bytes of what is written down of it. Held while the open
    /// is looked at and the writing is queued.
    pub bytes: Mutex<Share>,
    /// What its user is charged for that; none for what cannot be charged.
    pub charge: Option<Share>,
}

impl Persistence {
    /// Of this file.
    #[must_use]
    pub fn new(identity: FileIdentity, charge: Option<Share>, bytes: Share) -> Self {
        Self { identity, is_restored: false, bytes: Mutex::new(bytes), charge }
    }

    /// The same of an open that was made again.
    #[must_use]
    pub fn restored(identity: FileIdentity, charge: Share, bytes: Share) -> Self {
        Self { is_restored: true, ..Self::new(identity, Some(charge), bytes) }
    }
}

/// The requests of an open, as far as they may be sent twice.
#[derive(Debug)]
struct Requests {
    sequence: ChannelSequence,
    /// The name of its CREATE, until its client has used the open: then it has
    /// seen the answer. MS-SMB2 3.3.1.10 (IsReplayEligible).
    claim: Option<Claim<Open>>,
}

/// What an open is made of.
#[derive(Debug)]
pub struct OpenParts {
    /// See [`Open::id`]; so for the others.
    pub id: FileId,
    /// Tree.
    pub tree: Arc<Tree>,
    /// File or pipe.
    pub target: Target,
    /// See [`Open::writes_through`].
    pub is_of_stable_share: bool,
    /// See [`Open::mode`].
    pub mode: u32,
    /// How it came to be.
    pub origin: Arc<Origin>,
    /// How its client is told.
    pub oplock: Option<Arc<Oplock>>,
    /// Its lease.
    pub lease: Option<Arc<Lease>>,
    /// How it outlives its connection.
    pub durability: Option<Durability>,
    /// ChannelSequence of the CREATE.
    pub channel_sequence: u16,
}

/// What is behind an open.
#[derive(Debug)]
pub enum Target {
    /// A file or directory.
    File(Arc<OpenFile>),
    /// A pipe of IPC$.
    Pipe(Box<OpenPipe>),
    /// The quotas of a volume.
    Quotas(Box<OpenQuotas>),
}

/// A request of an open that is under way. Dropping it ends it.
#[derive(Debug)]
pub struct UnderWay {
    open: Arc<Open>,
    begun: Generation,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        lock(&self.open.requests).sequence.end(self.begun);
    }
}

impl Open {
    /// A new open.
    #[must_use]
    pub fn new(parts: OpenParts) -> Self {
        let sequence = ChannelSequence::new(parts.channel_sequence);
        Self {
            id: parts.id,
            tree: parts.tree,
            target: parts.target,
            is_of_stable_share: parts.is_of_stable_share,
            mode: AtomicU32::new(parts.mode),
            origin: parts.origin,
            oplock: parts.oplock,
            lease: parts.lease,
            closed: Signal::default(),
            lock_sequences: Mutex::default(),
            scan: futures_util::lock::Mutex::default(),
            ea_position: AtomicUsize::new(0),
            durability: Mutex::new(parts.durability),
            requests: Mutex::new(Requests { sequence, claim: None }),
        }
    }

    /// The open that goes on in the place of this one, whose connection is lost.
    #[must_use]
    pub fn successor(&self, id: FileId, tree: Arc<Tree>, channel_sequence: u16) -> Option<Self> {
        let Target::File(file) = &self.target else { return None };
        let next = Self::new(OpenParts {
            id,
            tree,
            target: Target::File(file.clone()),
            is_of_stable_share: self.is_of_stable_share,
            mode: self.mode(),
            origin: self.origin.clone(),
            oplock: self.oplock.clone(),
            lease: self.lease.clone(),
            durability: self.durability(),
            channel_sequence,
        });
        *lock(&next.lock_sequences) = std::mem::take(&mut *lock(&self.lock_sequences));
        lock(&next.requests).claim = lock(&self.requests).claim.take();
        Some(next)
    }

    /// FILE_* mode flags, as queries show them. MS-FSCC 2.4.31.
    pub fn mode(&self) -> u32 {
        self.mode.load(Ordering::Relaxed)
    }

    /// Changes by FileModeInformation whether it is written through, and read in sequence.
    /// MS-FSA 2.1.5.15.7.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for other flags, and for I/O that is synchronous where the open's is not
    /// or the reverse.
    pub fn change_mode(&self, wanted: u32) -> Result<(), NtStatus> {
        let is_synchronous = |mode: u32| mode & FILE_SYNCHRONOUS != 0;
        if wanted & !(FILE_WRITE_THROUGH | FILE_SEQUENTIAL_ONLY | FILE_SYNCHRONOUS) != 0
            || wanted & FILE_SYNCHRONOUS == FILE_SYNCHRONOUS
            || is_synchronous(wanted) != is_synchronous(self.mode())
        {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        let change = |mode: u32| {
            let is_unbuffered = mode & FILE_NO_INTERMEDIATE_BUFFERING != 0;
            let through = if is_unbuffered { 0 } else { FILE_WRITE_THROUGH };
            let changed = through | FILE_SEQUENTIAL_ONLY | FILE_SYNCHRONOUS;
            Some(mode & !changed | wanted & changed)
        };
        // It always gives a new value.
        let _ = self.mode.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        Ok(())
    }

    /// Whether all that it changes is stable before it is answered. What this decides stands in
    /// [`crate::stable`].
    pub fn writes_through(&self) -> bool {
        self.is_of_stable_share || self.mode() & FILE_WRITE_THROUGH != 0
    }

    /// Its CREATE may be sent again.
    pub fn set_claim(&self, claim: Claim<Self>) {
        lock(&self.requests).claim = Some(claim);
    }

    /// Whoever sends its CREATE again gets this open.
    pub fn answer_replays(self: &Arc<Self>) {
        if let Some(claim) = &lock(&self.requests).claim {
            claim.handle_done(self);
        }
    }

    /// A request that names it begins: its client has seen what CREATE answered.
    /// None if the request is of a channel that the client has given up.
    pub fn begin_request(self: &Arc<Self>, sequence: u16, replays: bool) -> Option<UnderWay> {
        let mut requests = lock(&self.requests);
        let claim = requests.claim.take();
        let begun = requests.sequence.begin(sequence, replays);
        drop(requests);
        drop(claim);
        Some(UnderWay { open: self.clone(), begun: begun.ok()? })
    }

    /// Which LOCK requests were carried out.
    pub fn lock_sequences(&self) -> MutexGuard<'_, LockSequences> {
        lock(&self.lock_sequences)
    }

    /// Which LOCK requests were carried out before.
    pub fn set_lock_sequences(&self, sequences: LockSequences) {
        *lock(&self.lock_sequences) = sequences;
    }

    /// How it outlives its connection, if it does.
    pub fn durability(&self) -> Option<Durability> {
        *lock(&self.durability)
    }

    /// It is to outlive its connection in another way from now on.
    pub fn set_durability(&self, durability: Durability) {
        *lock(&self.durability) = Some(durability);
    }

    /// The file behind it.
    ///
    /// # Errors
    /// `INVALID_DEVICE_REQUEST` if it is something else.
    pub fn file(&self) -> Result<&Arc<OpenFile>, NtStatus> {
        match &self.target {
            Target::File(file) => Ok(file),
            Target::Pipe(_) | Target::Quotas(_) => Err(NtStatus::INVALID_DEVICE_REQUEST),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
