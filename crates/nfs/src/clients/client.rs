//! One client: its lease, its sessions and its state. RFC 8881 2.4, 8.3.

use crate::clients::create_session::CreateSessionSlot;
use crate::clients::held_state::ClientStates;
use crate::clients::session::NfsSession;
use crate::limits::{EXPORTS_NOTED_MAX, SESSIONS_PER_CLIENT_MAX};
use crate::state::client_record::ClientRecord;
use crate::state::copies::Copies;
use crate::state::holdings::NfsHoldings;
use crate::state::keyed_mutex::KeyedMutex;
use crate::state::principal::Principal;
use crate::state::stateids::Owner;
use files::VolumeId;
use limits::{Ledger, LedgerAccount, LedgerHolder, ResourceCharge};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use sync::Mutex;
use vfs::FileKey;
use wire::nfs::{ClientId, NfsStatus, Verifier};

/// Parts that all clients of a server share.
#[derive(Clone, Debug)]
pub struct ClientEnvironment {
    /// Resource ledgers.
    pub holdings: Arc<NfsHoldings>,
    /// Secret prefix of the client tags that the file layer sees.
    pub secret: [u8; 8],
}

/// Facts of a client for administrators.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFacts {
    /// Owner string of the client.
    pub owner: String,
    /// Name and version of the implementation, if the client reports them.
    pub implementation: String,
    /// Address of its EXCHANGE_ID.
    pub peer: String,
}

/// Arguments of EXCHANGE_ID that select a record.
#[derive(Clone, Debug)]
pub struct ExchangeIdRequest {
    /// Owner string (co_ownerid).
    pub owner: Vec<u8>,
    /// Verifier of this incarnation.
    pub verifier: Verifier,
    /// Principal of the call.
    pub principal: Principal,
    /// Source address, to which the client's resources are charged.
    pub holder: LedgerHolder,
    /// Random upper half of a new client id, so that ids cannot be guessed.
    pub id_high: u32,
    /// EXCHGID4_FLAG_UPD_CONFIRMED_REC_A: updates a confirmed record.
    pub updates: bool,
    /// Facts for administrators.
    pub facts: ClientFacts,
}

/// The sessions of a client.
#[derive(Debug, Default)]
struct Sessions {
    list: Vec<Arc<NfsSession>>,
    /// The client is gone and gets no further session.
    has_ended: bool,
}

/// One incarnation of a client.
#[derive(Debug)]
pub struct ClientIncarnation {
    /// Client id.
    pub id: ClientId,
    /// Owner string (co_ownerid).
    pub owner: Vec<u8>,
    /// Verifier of this incarnation.
    pub verifier: Verifier,
    /// Principal of its EXCHANGE_ID.
    pub principal: Principal,
    /// Slot of its CREATE_SESSION requests.
    pub create_session: Mutex<CreateSessionSlot>,
    /// Its opens, locks and delegations.
    pub states: Mutex<ClientStates>,
    /// Serialises OPENs that upgrade another open of the same owner.
    pub(crate) open_upgrades: KeyedMutex<(FileKey, Owner)>,
    /// Files and lock-owners of denied locks for which the client awaits CB_NOTIFY_LOCK.
    pub(crate) lock_waiters: Mutex<HashSet<(FileKey, Owner)>>,
    /// Its asynchronous copies.
    pub copies: Copies,
    /// The record of the client is on stable storage.
    pub has_record: AtomicBool,
    /// The record is being written after the reply to CREATE_SESSION.
    pub(crate) is_being_recorded: AtomicBool,
    /// The client did not reply to CB_GETATTR for a file that it holds a write delegation on, nor
    /// to a later callback.
    pub(crate) is_unresponsive: AtomicBool,
    /// The client has sent RECLAIM_COMPLETE. RFC 8881 18.51.
    pub has_reclaimed: AtomicBool,
    facts: Mutex<ClientFacts>,
    sessions: Mutex<Sessions>,
    is_confirmed: AtomicBool,
    /// Address of its EXCHANGE_ID, to which its resources are charged.
    pub holder: LedgerHolder,
    state_count: AtomicUsize,
    owner_bytes: AtomicUsize,
    /// Account to which its opens are charged.
    open_account: OnceLock<Arc<LedgerAccount>>,
    /// Charge for its opens, locks and delegations.
    states_share: Mutex<ResourceCharge>,
    /// Charge for the owner strings of its opens and locks, in bytes.
    owners_share: Mutex<ResourceCharge>,
    common: ClientEnvironment,
    revoked: AtomicBool,
    renewed: Mutex<Instant>,
    /// Shares that it has accessed, oldest first.
    exports: Mutex<Vec<VolumeId>>,
    /// The latest of these.
    latest_export: AtomicU32,
}

impl ClientIncarnation {
    /// An unconfirmed client.
    #[must_use]
    pub fn new(
        id: ClientId,
        who: ExchangeIdRequest,
        now: Instant,
        common: ClientEnvironment,
    ) -> Self {
        let states_share = Mutex::new(common.holdings.states.account(&who.holder).force(0));
        let owners_share = Mutex::new(common.holdings.owner_bytes.account(&who.holder).force(0));
        Self {
            common,
            id,
            open_account: OnceLock::new(),
            states_share,
            owners_share,
            holder: who.holder,
            owner: who.owner,
            verifier: who.verifier,
            principal: who.principal,
            create_session: Mutex::default(),
            states: Mutex::new(ClientStates::new(tag_of(id))),
            open_upgrades: KeyedMutex::default(),
            lock_waiters: Mutex::default(),
            copies: Copies::new(tag_of(id)),
            has_record: AtomicBool::new(false),
            is_being_recorded: AtomicBool::new(false),
            is_unresponsive: AtomicBool::new(false),
            has_reclaimed: AtomicBool::new(false),
            facts: Mutex::new(who.facts),
            sessions: Mutex::default(),
            is_confirmed: AtomicBool::new(false),
            state_count: AtomicUsize::new(0),
            owner_bytes: AtomicUsize::new(0),
            revoked: AtomicBool::new(false),
            renewed: Mutex::new(now),
            exports: Mutex::default(),
            latest_export: AtomicU32::new(0),
        }
    }

    /// The account of `opens` to which its opens are charged.
    pub fn open_account(&self, opens: &Arc<Ledger>) -> &Arc<LedgerAccount> {
        self.open_account.get_or_init(|| opens.account(&self.holder))
    }

    /// Tag by which the file layer distinguishes clients. SMB clients choose theirs; the secret
    /// part keeps them from choosing this one.
    #[must_use]
    pub fn tag(&self) -> [u8; 16] {
        let mut tag = [0; 16];
        tag[..8].copy_from_slice(&self.common.secret);
        tag[8..].copy_from_slice(&self.id.0.to_be_bytes());
        tag
    }

    /// Whether the client is confirmed: it has received a reply of ours. RFC 8881 18.36.4.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.is_confirmed.load(Ordering::Acquire)
    }

    pub(crate) fn confirm(&self) {
        self.is_confirmed.store(true, Ordering::Release);
    }

    /// Renews the lease.
    pub fn renew(&self, now: Instant) {
        let mut renewed = self.renewed.lock();
        *renewed = now.max(*renewed);
    }

    /// Notes that the client has accessed a share.
    pub fn note_export(&self, export: VolumeId) {
        // The latest share repeats almost always, so that no lock is needed.
        if self.latest_export.swap(export.0, Ordering::Relaxed) == export.0 {
            return;
        }
        let mut exports = self.exports.lock();
        if !exports.contains(&export) {
            if exports.len() == EXPORTS_NOTED_MAX {
                exports.remove(0);
            }
            exports.push(export);
        }
    }

    /// Shares that it has accessed, at most the latest [`EXPORTS_NOTED_MAX`].
    #[must_use]
    pub fn exports(&self) -> Vec<VolumeId> {
        self.exports.lock().clone()
    }

    /// Time of the last renewal.
    #[must_use]
    pub fn renewed(&self) -> Instant {
        *self.renewed.lock()
    }

    /// Whether its lease has expired.
    #[must_use]
    pub fn is_expired(&self, now: Instant, lease: Duration) -> bool {
        now.saturating_duration_since(self.renewed()) > lease
    }

    /// Whether another principal that takes over the owner string would end something: state, a
    /// session with requests in flight, or a copy. RFC 8881 18.35.4, case 3, as the Linux server
    /// reads it.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.holds_state() || !self.sessions.lock().list.is_empty() || self.copies.is_busy()
    }

    /// The record for stable storage.
    #[must_use]
    pub fn record(&self) -> ClientRecord {
        ClientRecord { owner: self.owner.clone(), principal: Some(self.principal) }
    }

    /// Whether it has opens, locks or delegations.
    #[must_use]
    pub fn holds_state(&self) -> bool {
        self.state_count() > 0
    }

    /// Number of its opens, locks and delegations.
    #[must_use]
    pub fn state_count(&self) -> usize {
        self.state_count.load(Ordering::Acquire)
    }

    /// Updates the number of its opens, locks and delegations.
    pub fn count_state(&self, count: usize) {
        if self.state_count.swap(count, Ordering::AcqRel) != count {
            let mut share = self.states_share.lock();
            // Reads the current count, which other threads may have changed.
            share.resize(self.state_count() as u64);
        }
    }

    /// Updates the bytes of its owner strings; see [`ClientIncarnation::count_state`].
    fn count_owner_bytes(&self, bytes: usize) {
        if self.owner_bytes.swap(bytes, Ordering::AcqRel) != bytes {
            let mut share = self.owners_share.lock();
            share.resize(self.owner_bytes.load(Ordering::Acquire) as u64);
        }
    }

    /// Runs `work` on its state, then updates the counts.
    pub fn with_states<R>(&self, work: impl FnOnce(&mut ClientStates) -> R) -> R {
        let mut states = self.states.lock();
        let result = work(&mut states);
        self.count_state(states.len());
        self.count_owner_bytes(states.owner_bytes());
        self.revoked.store(states.has_revoked(), Ordering::Release);
        result
    }

    /// Whether state of it was revoked and not freed yet.
    #[must_use]
    pub fn has_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
    }

    /// Its sessions.
    #[must_use]
    pub fn sessions(&self) -> Vec<Arc<NfsSession>> {
        self.sessions.lock().list.clone()
    }

    /// # Errors
    /// STALE_CLIENTID for a client that is gone, since nothing would end the session. DELAY if it
    /// has too many.
    pub(crate) fn add_session(&self, session: Arc<NfsSession>) -> Result<(), NfsStatus> {
        let mut sessions = self.sessions.lock();
        if sessions.has_ended {
            return Err(NfsStatus::STALE_CLIENTID);
        }
        if sessions.list.len() >= SESSIONS_PER_CLIENT_MAX {
            return Err(NfsStatus::DELAY);
        }
        sessions.list.push(session);
        Ok(())
    }

    pub(crate) fn remove_session(&self, session: &NfsSession) {
        self.sessions.lock().list.retain(|known| known.id != session.id);
    }

    /// Takes all sessions of a client that is gone, to end them. Requests in flight can add no
    /// session, open, lock or delegation any more.
    pub(crate) fn end_sessions(&self) -> Vec<Arc<NfsSession>> {
        let mut sessions = self.sessions.lock();
        sessions.has_ended = true;
        sessions.list.clone()
    }

    /// Whether it has a session but no record on stable storage.
    pub(crate) fn needs_record(&self) -> bool {
        !self.has_record.load(Ordering::Acquire) && !self.sessions.lock().list.is_empty()
    }

    /// Facts for administrators.
    #[must_use]
    pub fn facts(&self) -> ClientFacts {
        self.facts.lock().clone()
    }

    pub(crate) fn set_facts(&self, facts: ClientFacts) {
        *self.facts.lock() = facts;
    }
}

/// Tag in all state ids of a client. It differs from the tags of other clients and other runs.
fn tag_of(id: ClientId) -> u32 {
    (id.0 as u32) ^ ((id.0 >> 32) as u32).rotate_left(16)
}
