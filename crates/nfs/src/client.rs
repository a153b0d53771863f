//! One client: its lease, its sessions' number of replies, its state.
//! RFC 8881 2.4, 8.3.

use crate::client_record::ClientRecord;
use crate::clients::Introduction;
use crate::copies::Copies;
use crate::create_session::CreateSessionSlot;
use crate::held::ClientStates;
use crate::holdings::Holdings;
use crate::limits::{EXPORTS_NOTED_MAX, SESSIONS_PER_CLIENT_MAX};
use crate::session::Session;
use crate::stateids::Owner;
use crate::turns::Turns;
use crate::waiting_locks::WaitingLocks;
use files::VolumeId;
use limits::{Account, Holder, Ledger, Share};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use vfs::FileKey;
use wire::nfs::{ClientId, NfsStatus, Verifier};

/// On whose behalf a client's own state is made and ended. RFC 8881 2.4 speaks of
/// principals; with AUTH_SYS that is what the client says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    /// The flavor of the credentials.
    pub flavor: u32,
    /// The user.
    pub uid: u32,
    /// Their group.
    pub gid: u32,
    /// The claim came from a reserved source port: a program that says it is root is not the
    /// system that says so.
    pub has_reserved_port: bool,
}

/// What all clients of a server have in common.
#[derive(Clone, Debug)]
pub struct Common {
    /// What they share.
    pub holdings: Arc<Holdings>,
    /// The beginning of what the file layer knows them by.
    pub secret: [u8; 8],
}

/// What is shown of a client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientFacts {
    /// What it calls itself.
    pub owner: String,
    /// The implementation's name and version, if it tells them.
    pub implementation: String,
    /// The address that it introduced itself from.
    pub peer: String,
}

/// The sessions of a client.
#[derive(Debug, Default)]
struct Sessions {
    list: Vec<Arc<Session>>,
    /// The client is gone: it gets no more.
    has_ended: bool,
}

/// One life of a client.
#[derive(Debug)]
pub struct Client {
    /// Its number.
    pub id: ClientId,
    /// What it calls itself.
    pub owner: Vec<u8>,
    /// Which life of it this is.
    pub verifier: Verifier,
    /// Who introduced it.
    pub principal: Principal,
    /// Its CREATE_SESSIONs.
    pub create_session: Mutex<CreateSessionSlot>,
    /// Its opens, locks and delegations.
    pub states: Mutex<ClientStates>,
    /// OPENs that take the place of what their owner has open.
    pub(crate) widening: Turns<(FileKey, Owner)>,
    /// Locks that it is told of once they may be free.
    pub(crate) waiting_locks: Mutex<WaitingLocks>,
    /// Its copies that go on after their answer.
    pub copies: Copies,
    /// It is written down.
    pub is_remembered: AtomicBool,
    /// It is being written down, later than it should have been.
    pub(crate) is_being_remembered: AtomicBool,
    /// It did not answer what others asked of a file that it writes by itself, and no callback
    /// since.
    pub(crate) is_silent: AtomicBool,
    /// It has said that it reclaims nothing more. RFC 8881 18.51.
    pub has_reclaimed: AtomicBool,
    facts: Mutex<ClientFacts>,
    sessions: Mutex<Sessions>,
    is_confirmed: AtomicBool,
    /// The address that it introduced itself from: what it has is charged to it.
    pub holder: Holder,
    state_count: AtomicUsize,
    owner_bytes: AtomicUsize,
    /// The account that its opens are charged to.
    open_account: OnceLock<Arc<Account>>,
    /// Its opens, locks and delegations, among those of its address.
    states_share: Mutex<Share>,
    /// Bytes of the owners of its opens and locks, among those of its address.
    owners_share: Mutex<Share>,
    common: Common,
    revoked: AtomicBool,
    renewed: Mutex<Instant>,
    /// Shares that it has reached, in the order in which it did.
    exports: Mutex<Vec<VolumeId>>,
    /// The latest of them.
    latest_export: AtomicU32,
}

impl Client {
    /// A client that is not confirmed yet.
    #[must_use]
    pub fn new(id: ClientId, who: Introduction, now: Instant, common: Common) -> Self {
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
            widening: Turns::default(),
            waiting_locks: Mutex::default(),
            copies: Copies::new(tag_of(id)),
            is_remembered: AtomicBool::new(false),
            is_being_remembered: AtomicBool::new(false),
            is_silent: AtomicBool::new(false),
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

    /// The account of `opens` that its opens are charged to.
    pub fn open_account(&self, opens: &Arc<Ledger>) -> &Arc<Account> {
        self.open_account.get_or_init(|| opens.account(&self.holder))
    }

    /// What the file layer tells clients apart by, those of SMB, too, which choose theirs: nobody
    /// else knows this one.
    #[must_use]
    pub fn tag(&self) -> [u8; 16] {
        let mut tag = [0; 16];
        tag[..8].copy_from_slice(&self.common.secret);
        tag[8..].copy_from_slice(&self.id.0.to_be_bytes());
        tag
    }

    /// Whether it has shown that it gets our answers.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        self.is_confirmed.load(Ordering::Acquire)
    }

    pub(crate) fn confirm(&self) {
        self.is_confirmed.store(true, Ordering::Release);
    }

    /// It was heard of.
    pub fn renew(&self, now: Instant) {
        let mut renewed = lock(&self.renewed);
        *renewed = now.max(*renewed);
    }

    /// It has reached a share.
    pub fn note_export(&self, export: VolumeId) {
        // Almost always that of its latest request: no lock is taken for it.
        if self.latest_export.swap(export.0, Ordering::Relaxed) == export.0 {
            return;
        }
        let mut exports = lock(&self.exports);
        if !exports.contains(&export) {
            if exports.len() == EXPORTS_NOTED_MAX {
                exports.remove(0);
            }
            exports.push(export);
        }
    }

    /// Shares that it has reached, of which the latest [`EXPORTS_NOTED_MAX`] are known.
    #[must_use]
    pub fn exports(&self) -> Vec<VolumeId> {
        lock(&self.exports).clone()
    }

    /// When it was last heard of.
    #[must_use]
    pub fn renewed(&self) -> Instant {
        *lock(&self.renewed)
    }

    /// Whether it was not heard of for longer than `lease`.
    #[must_use]
    pub fn is_expired(&self, now: Instant, lease: Duration) -> bool {
        now.saturating_duration_since(self.renewed()) > lease
    }

    /// Whether another principal would end something by taking its name: a session, too, since
    /// requests are on their way by it. RFC 8881 18.35.4, case 3, as the Linux kernel's server
    /// reads it.
    #[must_use]
    pub fn is_in_use(&self) -> bool {
        self.holds_state() || !lock(&self.sessions).list.is_empty() || self.copies.is_busy()
    }

    /// What is written down of it.
    #[must_use]
    pub fn record(&self) -> ClientRecord {
        ClientRecord { owner: self.owner.clone(), principal: Some(self.principal) }
    }

    /// Whether it has opens, locks or delegations.
    #[must_use]
    pub fn holds_state(&self) -> bool {
        self.state_count() > 0
    }

    /// How many opens, locks and delegations it has.
    #[must_use]
    pub fn state_count(&self) -> usize {
        self.state_count.load(Ordering::Acquire)
    }

    /// How many opens, locks and delegations it has now.
    pub fn count_state(&self, count: usize) {
        if self.state_count.swap(count, Ordering::AcqRel) != count {
            let mut share = lock(&self.states_share);
            // The count that is there by now, if others have changed it.
            share.resize(self.state_count() as u64);
        }
    }

    /// How many bytes the owners of its opens and locks have now; see [`Client::count_state`].
    fn count_owner_bytes(&self, bytes: usize) {
        if self.owner_bytes.swap(bytes, Ordering::AcqRel) != bytes {
            let mut share = lock(&self.owners_share);
            share.resize(self.owner_bytes.load(Ordering::Acquire) as u64);
        }
    }

    /// Works on its state; how much of it there is then is noted.
    pub fn with_states<R>(&self, work: impl FnOnce(&mut ClientStates) -> R) -> R {
        let mut states = lock(&self.states);
        let result = work(&mut states);
        self.count_state(states.len());
        self.count_owner_bytes(states.owner_bytes());
        self.revoked.store(states.has_revoked(), Ordering::Release);
        result
    }

    /// Whether something was taken from it that it does not know of.
    #[must_use]
    pub fn has_revoked(&self) -> bool {
        self.revoked.load(Ordering::Acquire)
    }

    /// Its sessions.
    #[must_use]
    pub fn sessions(&self) -> Vec<Arc<Session>> {
        lock(&self.sessions).list.clone()
    }

    /// # Errors
    /// STALE_CLIENTID for a client that is gone: nobody would end its session. DELAY if it has
    /// too many.
    pub(crate) fn add_session(&self, session: Arc<Session>) -> Result<(), NfsStatus> {
        let mut sessions = lock(&self.sessions);
        if sessions.has_ended {
            return Err(NfsStatus::STALE_CLIENTID);
        }
        if sessions.list.len() >= SESSIONS_PER_CLIENT_MAX {
            return Err(NfsStatus::DELAY);
        }
        sessions.list.push(session);
        Ok(())
    }

    pub(crate) fn remove_session(&self, session: &Session) {
        lock(&self.sessions).list.retain(|known| known.id != session.id);
    }

    /// The client is gone: its sessions, which are to end. It gets no more, nor opens, locks or
    /// delegations by requests that are under way.
    pub(crate) fn end_sessions(&self) -> Vec<Arc<Session>> {
        let mut sessions = lock(&self.sessions);
        sessions.has_ended = true;
        sessions.list.clone()
    }

    /// Whether it has a session, and would find nothing of what it has after a restart.
    pub(crate) fn is_to_be_written_down(&self) -> bool {
        !self.is_remembered.load(Ordering::Acquire) && !lock(&self.sessions).list.is_empty()
    }

    /// What is shown of it.
    #[must_use]
    pub fn facts(&self) -> ClientFacts {
        lock(&self.facts).clone()
    }

    pub(crate) fn set_facts(&self, facts: ClientFacts) {
        *lock(&self.facts) = facts;
    }
}

/// What the state ids of a client have in common: neither its number alone, which begins
/// anew with every run, nor the run's.
fn tag_of(id: ClientId) -> u32 {
    (id.0 as u32) ^ ((id.0 >> 32) as u32).rotate_left(16)
}

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
