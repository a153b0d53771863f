//! Opens of SMB: a file of the file layer, a named pipe, or quotas. MS-SMB2 3.3.1.10.

use crate::opens::app_instances::InstanceEntry;
use crate::opens::channel_sequence::{ChannelSequence, SequenceGeneration};
use crate::opens::create_guids::{CreateGuidClaim, Guid};
use crate::opens::directory_scan::DirectoryScan;
use crate::opens::durability::Durability;
use crate::opens::lease::Lease;
use crate::opens::lock_sequence::LockSequences;
use crate::opens::open_quotas::OpenQuotas;
use crate::opens::oplock::Oplock;
use crate::opens::pipe::OpenPipe;
use crate::shares::holdings::Charges;
use crate::shares::tree::TreeConnect;
use crate::signal::Signal;
use files::{FileIdentity, OpenAction, OpenFile, StoppedTimes};
use limits::ResourceCharge;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use sync::{Mutex, MutexGuard};
use wire::fscc::{
    FILE_NO_INTERMEDIATE_BUFFERING, FILE_SEQUENTIAL_ONLY, FILE_SYNCHRONOUS_IO_ALERT,
    FILE_SYNCHRONOUS_IO_NONALERT, FILE_WRITE_THROUGH,
};
use wire::ntstatus::NtStatus;
use wire::smb::FileId;

/// Both kinds of synchronous I/O.
const FILE_SYNCHRONOUS: u32 = FILE_SYNCHRONOUS_IO_ALERT | FILE_SYNCHRONOUS_IO_NONALERT;

/// One open of a session.
#[derive(Debug)]
pub struct Open {
    /// FileId, both halves.
    pub id: FileId,
    /// The tree connect of its CREATE.
    pub tree: Arc<TreeConnect>,
    /// The opened object.
    pub target: OpenTarget,
    /// The share makes all changes stable before it acknowledges them.
    is_of_stable_share: bool,
    /// FILE_* mode flags of CREATE, as SET_INFO has changed them (MS-FSCC 2.4.31).
    mode: AtomicU32,
    /// Its CREATE and owner.
    pub origin: Arc<Origin>,
    /// The oplock's break notifications, if it has an oplock.
    pub oplock: Option<Arc<Oplock>>,
    /// Its lease, if any.
    pub lease: Option<Arc<Lease>>,
    /// Raised at the close: requests that wait on the open end.
    pub closed: Signal,
    lock_sequences: Mutex<LockSequences>,
    /// Position of QUERY_DIRECTORY.
    pub scan: futures_util::lock::Mutex<Option<DirectoryScan>>,
    /// Position of the extended attribute scan.
    pub ea_position: AtomicUsize,
    durability: Mutex<Option<Durability>>,
    requests: Mutex<Requests>,
}

/// The origin of an open; a reconnect does not change it.
#[derive(Debug)]
pub struct Origin {
    /// CreateAction.
    pub action: OpenAction,
    /// Account of the CREATE.
    pub owner: String,
    /// ClientGuid of the CREATE.
    pub client_guid: Guid,
    /// CreateGuid, if the client sent one.
    pub create_guid: Option<Guid>,
    /// Its entry among the opens of its application instance, if it has one.
    pub membership: Option<InstanceEntry>,
    /// Its persistent record, if it outlives the server process.
    pub persistence: Option<Box<Persistence>>,
    /// Charges to its user.
    pub charges: Charges,
}

/// The record of a persistent open that was queued last.
#[derive(Debug)]
pub struct QueuedRecord {
    /// Charge for its bytes.
    pub bytes: ResourceCharge,
    /// Stopped times that it contains.
    pub stopped_times: StoppedTimes,
}

/// State for the persistent record of an open.
#[derive(Debug)]
pub struct Persistence {
    /// Identity of the file.
    pub identity: FileIdentity,
    /// The open was restored after a restart, so the client's caching is gone.
    pub is_restored: bool,
    /// The record queued last. The lock is held while the open is encoded and the write is queued.
    pub record: Mutex<QueuedRecord>,
    /// Charge for the persistent open; none if it could not be charged.
    pub charge: Option<ResourceCharge>,
}

impl Persistence {
    /// State for the record of an open on this file.
    #[must_use]
    pub fn new(
        identity: FileIdentity,
        charge: Option<ResourceCharge>,
        bytes: ResourceCharge,
    ) -> Self {
        let record = QueuedRecord { bytes, stopped_times: StoppedTimes::default() };
        Self { identity, is_restored: false, record: Mutex::new(record), charge }
    }

    /// State for the record of a restored open.
    #[must_use]
    pub fn restored(identity: FileIdentity, charge: ResourceCharge, record: QueuedRecord) -> Self {
        let (record, charge) = (Mutex::new(record), Some(charge));
        Self { identity, is_restored: true, record, charge }
    }
}

/// ChannelSequence and replay state of an open.
#[derive(Debug)]
struct Requests {
    sequence: ChannelSequence,
    /// Claim on its CreateGuid, until the client uses the open and thereby proves that it got the
    /// response. MS-SMB2 3.3.1.10 (IsReplayEligible).
    claim: Option<CreateGuidClaim<Open>>,
}

/// The fields of a new open.
#[derive(Debug)]
pub struct OpenParts {
    /// See [`Open::id`]; so for the others.
    pub id: FileId,
    /// Tree.
    pub tree: Arc<TreeConnect>,
    /// File or pipe.
    pub target: OpenTarget,
    /// See [`Open::writes_through`].
    pub is_of_stable_share: bool,
    /// See [`Open::mode`].
    pub mode: u32,
    /// See [`Open::origin`].
    pub origin: Arc<Origin>,
    /// See [`Open::oplock`].
    pub oplock: Option<Arc<Oplock>>,
    /// Its lease.
    pub lease: Option<Arc<Lease>>,
    /// See [`Open::durability`].
    pub durability: Option<Durability>,
    /// ChannelSequence of the CREATE.
    pub channel_sequence: u16,
}

/// The object of an open.
#[derive(Debug)]
pub enum OpenTarget {
    /// A file or directory.
    File(Arc<OpenFile>),
    /// A named pipe of IPC$.
    Pipe(Box<OpenPipe>),
    /// The quotas of a volume.
    Quotas(Box<OpenQuotas>),
}

/// An outstanding request of an open. Dropping it ends the request.
#[derive(Debug)]
pub struct OutstandingRequest {
    open: Arc<Open>,
    begun: SequenceGeneration,
}

impl Drop for OutstandingRequest {
    fn drop(&mut self) {
        self.open.requests.lock().sequence.end(self.begun);
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

    /// The open that replaces this one after a reconnect.
    #[must_use]
    pub fn successor(
        &self,
        id: FileId,
        tree: Arc<TreeConnect>,
        channel_sequence: u16,
    ) -> Option<Self> {
        let OpenTarget::File(file) = &self.target else { return None };
        let next = Self::new(OpenParts {
            id,
            tree,
            target: OpenTarget::File(file.clone()),
            is_of_stable_share: self.is_of_stable_share,
            mode: self.mode(),
            origin: self.origin.clone(),
            oplock: self.oplock.clone(),
            lease: self.lease.clone(),
            durability: self.durability(),
            channel_sequence,
        });
        *next.lock_sequences.lock() = std::mem::take(&mut *self.lock_sequences.lock());
        next.requests.lock().claim = self.requests.lock().claim.take();
        Some(next)
    }

    /// FILE_* mode flags, as queries return them. MS-FSCC 2.4.31.
    pub fn mode(&self) -> u32 {
        self.mode.load(Ordering::Relaxed)
    }

    /// Changes write-through and sequential access by FileModeInformation. MS-FSA 2.1.5.15.7.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for other flags, and for a change between synchronous and asynchronous
    /// I/O.
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
        // The closure always returns a value.
        let _ = self.mode.fetch_update(Ordering::Relaxed, Ordering::Relaxed, change);
        Ok(())
    }

    /// True if its changes are stable before they are acknowledged. [`crate::opens::stable`] lists the
    /// consequences.
    pub fn writes_through(&self) -> bool {
        self.is_of_stable_share || self.mode() & FILE_WRITE_THROUGH != 0
    }

    /// Makes its CREATE replayable.
    pub fn set_claim(&self, claim: CreateGuidClaim<Self>) {
        self.requests.lock().claim = Some(claim);
    }

    /// Lets a replay of its CREATE return this open.
    pub fn allow_replay(self: &Arc<Self>) {
        if let Some(claim) = &self.requests.lock().claim {
            claim.handle_done(self);
        }
    }

    /// Begins a request on the open; its client has seen the CREATE response then. None if the
    /// request has a stale ChannelSequence.
    pub fn begin_request(
        self: &Arc<Self>,
        sequence: u16,
        replays: bool,
    ) -> Option<OutstandingRequest> {
        let mut requests = self.requests.lock();
        let claim = requests.claim.take();
        let begun = requests.sequence.begin(sequence, replays);
        drop(requests);
        drop(claim);
        Some(OutstandingRequest { open: self.clone(), begun: begun.ok()? })
    }

    /// The completed LOCK requests.
    pub fn lock_sequences(&self) -> MutexGuard<'_, LockSequences> {
        self.lock_sequences.lock()
    }

    /// Restores the completed LOCK requests.
    pub fn set_lock_sequences(&self, sequences: LockSequences) {
        *self.lock_sequences.lock() = sequences;
    }

    /// Its durability, if any.
    pub fn durability(&self) -> Option<Durability> {
        *self.durability.lock()
    }

    /// Changes its durability.
    pub fn set_durability(&self, durability: Durability) {
        *self.durability.lock() = Some(durability);
    }

    /// Its file.
    ///
    /// # Errors
    /// `INVALID_DEVICE_REQUEST` for a pipe or quotas.
    pub fn file(&self) -> Result<&Arc<OpenFile>, NtStatus> {
        match &self.target {
            OpenTarget::File(file) => Ok(file),
            OpenTarget::Pipe(_) | OpenTarget::Quotas(_) => Err(NtStatus::INVALID_DEVICE_REQUEST),
        }
    }
}
