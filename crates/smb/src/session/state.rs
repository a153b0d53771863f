//! Sessions: their user, keys, tree connects and opens. MS-SMB2 3.3.1.8.
//!
//! All channels of a session share it. Its keys never change after set-up. Each table has its own
//! mutex, held for one look-up only. Lock order: trees before opens; neither is held across a call
//! into `files`.

use crate::limits::{OPENS_PER_SESSION_MAX, ORPHANS_PER_SESSION_MAX, TREES_PER_SESSION_MAX};
use crate::opens::open::Open;
use crate::outgoing::conn_handle::ConnHandle;
use crate::outgoing::notices::{AckRequirement, Notice, NoticeSubject};
use crate::shares::tree::{AdmittedShare, TreeConnect};
use crate::shares::user::SessionUser;
use crate::signal::Signal;
use files::ShareQueue;
use limits::{Ledger, LedgerHolder, ResourceCharge};
use meter::Authentication;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;
use sync::{Mutex, RwLock};
use vfs::Timestamp;
use wire::crypto::{OpeningKey, SealingKey, SigningKey};
use wire::ntstatus::NtStatus;
use wire::smb::{Dialect, FileId, SessionId, TreeId};

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// Keys that encrypt and decrypt a session's messages: one pair for all channels.
#[derive(Debug)]
pub struct SealingKeys {
    /// Server to client.
    pub seal: SealingKey,
    /// Client to server.
    pub open: OpeningKey,
}

impl SealingKeys {
    /// The keys of both directions.
    #[must_use]
    pub fn new(seal: SealingKey, open: OpeningKey) -> Self {
        Self { seal, open }
    }
}

/// One channel of a session, as `status` shows it.
#[derive(Clone, Debug)]
pub struct ChannelFact {
    /// The connection's number.
    pub connection: u64,
    /// Client's address.
    pub peer: SocketAddr,
    /// The server's address.
    pub local: SocketAddr,
    /// Its dialect.
    pub dialect: Dialect,
    /// Name of its signing algorithm.
    pub signing: &'static str,
    /// Name of its cipher, or `-`.
    pub cipher: &'static str,
    /// The connection, while it exists.
    pub(crate) shared: Weak<ConnHandle>,
}

impl ChannelFact {
    /// Credits that its client holds now.
    #[must_use]
    pub fn credits(&self) -> u32 {
        self.shared.upgrade().map_or(0, |shared| shared.credits.load(Ordering::Relaxed))
    }
}

/// A logged-on session.
#[derive(Debug)]
pub struct SmbSession {
    /// The session id.
    pub id: SessionId,
    /// The dialect of the connection that set the session up.
    pub dialect: Dialect,
    /// Dialects that the server offered when that connection was negotiated.
    pub served: RangeInclusive<Dialect>,
    /// The client's ClientGuid.
    pub client_guid: [u8; 16],
    /// Encryption keys, if dialect and client support encryption.
    pub sealing: Option<SealingKeys>,
    /// Name of the cipher, for `status`.
    pub cipher: &'static str,
    /// Name of the signing algorithm, for `status`.
    pub signing: &'static str,
    /// Every message must be encrypted.
    pub encrypt_data: bool,
    /// Every message must be signed or encrypted.
    pub signing_required: bool,
    /// Session.SigningKey, which is also the first channel's key. A binding request is signed with
    /// it to prove that it comes from the session's client.
    pub signing_key: Arc<SigningKey>,
    /// Its first connection negotiated multichannel.
    pub is_multichannel: bool,
    /// The client supports multichannel, whether or not the server offered it then.
    pub wants_multichannel: bool,
    /// Client address of its first channel.
    pub peer: SocketAddr,
    /// The account that pays for the session's use of shared resources.
    pub holder: LedgerHolder,
    /// The account that pays for its opens.
    pub open_account: Arc<limits::LedgerAccount>,
    /// The charge for the session itself, held while it exists.
    _charge: ResourceCharge,
    /// Raised at the end of the session, for any cause.
    pub ended: Signal,
    user: RwLock<Arc<SessionUser>>,
    /// [`Authentication`] of the user as a number, so that metering takes no lock.
    authentication: AtomicUsize,
    /// The account whose logon created the keys; none for guest and anonymous sessions.
    owner: Option<Box<str>>,
    trees: Mutex<HashMap<u32, Arc<TreeConnect>, IdHash>>,
    opens: Mutex<OpenTable>,
    channels: Mutex<Vec<ChannelFact>>,
    next_tree: AtomicU32,
    /// Session.ExpirationTime, in seconds since 1970; [`u64::MAX`] without one.
    expiration: AtomicU64,
    is_ended: AtomicBool,
    is_lost: AtomicBool,
    /// A notification was sent that the client must acknowledge without preparation.
    had_immediate_notice: AtomicBool,
    orphans: AtomicUsize,
}

/// The right of one request to continue after its channel was lost.
#[derive(Debug)]
pub struct OrphanedRequest(Arc<SmbSession>);

impl OrphanedRequest {
    /// The session that the request belongs to.
    pub fn session(&self) -> &Arc<SmbSession> {
        &self.0
    }
}

impl Drop for OrphanedRequest {
    fn drop(&mut self) {
        self.0.orphans.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Opens by their volatile id.
#[derive(Debug, Default)]
struct OpenTable {
    by_id: HashMap<u64, Arc<Open>, IdHash>,
}

/// Hash builder for maps that are keyed by ids of the server's own.
pub(crate) type IdHash = std::hash::BuildHasherDefault<IdHasher>;

/// The server's ids are consecutive numbers that no client chooses. One multiplication spreads them
/// well enough, at a tenth of SipHash's cost.
#[derive(Debug, Default)]
pub(crate) struct IdHasher(u64);

impl std::hash::Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(26);
    }
}

/// The fields of a new session.
#[derive(Debug)]
pub struct SmbSessionParts {
    /// See [`SmbSession::id`]; so for the others.
    pub id: SessionId,
    /// Dialect of the connection.
    pub dialect: Dialect,
    /// See [`SmbSession::served`].
    pub served: RangeInclusive<Dialect>,
    /// See [`SmbSession::client_guid`].
    pub client_guid: [u8; 16],
    /// Encryption keys, if any.
    pub sealing: Option<SealingKeys>,
    /// Cipher's name.
    pub cipher: &'static str,
    /// Signing algorithm's name.
    pub signing: &'static str,
    /// Encrypt every message.
    pub encrypt_data: bool,
    /// Sign every message.
    pub signing_required: bool,
    /// The user who logged on.
    pub user: SessionUser,
    /// See [`SmbSession::signing_key`].
    pub signing_key: Arc<SigningKey>,
    /// See [`SmbSession::is_multichannel`].
    pub is_multichannel: bool,
    /// See [`SmbSession::wants_multichannel`].
    pub wants_multichannel: bool,
    /// See [`SmbSession::holder`].
    pub holder: LedgerHolder,
    /// See [`SmbSession::open_account`].
    pub open_account: Arc<limits::LedgerAccount>,
    /// The charge for the session.
    pub charge: ResourceCharge,
    /// The channel that set it up.
    pub channel: ChannelFact,
}

impl SmbSession {
    /// A session that was just authenticated.
    #[must_use]
    pub fn new(parts: SmbSessionParts) -> Self {
        Self {
            id: parts.id,
            dialect: parts.dialect,
            served: parts.served,
            client_guid: parts.client_guid,
            sealing: parts.sealing,
            cipher: parts.cipher,
            signing: parts.signing,
            encrypt_data: parts.encrypt_data,
            signing_required: parts.signing_required,
            signing_key: parts.signing_key,
            is_multichannel: parts.is_multichannel,
            wants_multichannel: parts.wants_multichannel,
            peer: parts.channel.peer,
            holder: parts.holder,
            open_account: parts.open_account,
            owner: parts.user.is_proven().then(|| parts.user.account.name.as_str().into()),
            _charge: parts.charge,
            ended: Signal::default(),
            expiration: AtomicU64::new(parts.user.ticket_end.unwrap_or(u64::MAX)),
            authentication: AtomicUsize::new(parts.user.authentication() as usize),
            user: RwLock::new(Arc::new(parts.user)),
            trees: Mutex::default(),
            opens: Mutex::default(),
            channels: Mutex::new(vec![parts.channel]),
            next_tree: AtomicU32::new(1),
            is_ended: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            had_immediate_notice: AtomicBool::new(false),
            orphans: AtomicUsize::new(0),
        }
    }

    /// True if a logon of `user` may re-authenticate the session. The account that created its keys
    /// may, and so may a guest or anonymous logon. A session without proven keys never becomes a
    /// user's session.
    #[must_use]
    pub fn may_be_reauthenticated_by(&self, user: &SessionUser) -> bool {
        !user.is_proven() || self.owner.as_deref() == Some(user.account.name.as_str())
    }

    /// True if a password or a ticket created its keys, so that only its client knows them.
    pub fn has_proven_keys(&self) -> bool {
        self.owner.is_some()
    }

    /// The session's present user.
    pub fn user(&self) -> Arc<SessionUser> {
        self.user.read().clone()
    }

    /// The authentication kind under which its requests are metered.
    pub fn authentication(&self) -> Authentication {
        let number = self.authentication.load(Ordering::Relaxed);
        Authentication::ALL.get(number).copied().unwrap_or(Authentication::Anonymous)
    }

    /// True once the Kerberos ticket of its logon has expired. MS-SMB2 3.3.5.2.9.
    pub fn is_expired(&self, now: impl FnOnce() -> Timestamp) -> bool {
        let end = self.expiration.load(Ordering::Relaxed);
        end != u64::MAX && now().0 >= i128::from(end) * NANOS_PER_SECOND
    }

    /// Re-authentication: later requests use the identity of `user`.
    pub fn set_user(&self, user: SessionUser) {
        self.expiration.store(user.ticket_end.unwrap_or(u64::MAX), Ordering::Relaxed);
        self.authentication.store(user.authentication() as usize, Ordering::Relaxed);
        *self.user.write() = Arc::new(user);
    }

    /// The tree connect `id`.
    ///
    /// # Errors
    /// `NETWORK_NAME_DELETED` if there is none.
    pub fn tree(&self, id: TreeId) -> Result<Arc<TreeConnect>, NtStatus> {
        self.trees.lock().get(&id.0).cloned().ok_or(NtStatus::NETWORK_NAME_DELETED)
    }

    /// Adds a tree connect, which is charged to `ledger`.
    ///
    /// # Errors
    /// `INSUFFICIENT_RESOURCES` past [`TREES_PER_SESSION_MAX`], or if the user has too many.
    pub fn add_tree(
        &self,
        admitted: AdmittedShare,
        ledger: &Arc<Ledger>,
    ) -> Result<Arc<TreeConnect>, NtStatus> {
        let mut trees = self.trees.lock();
        if trees.len() >= TREES_PER_SESSION_MAX || self.is_ended.load(Ordering::Acquire) {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        let id = loop {
            let id = self.next_tree.fetch_add(1, Ordering::Relaxed);
            if id != 0 && id != u32::MAX && !trees.contains_key(&id) {
                break TreeId(id);
            }
        };
        let limits = admitted.volume.as_ref().and_then(|volume| volume.options.limits.clone());
        let queue = limits.map(|limits| {
            let known = trees.values().find_map(|tree| tree.shared_queue(&limits));
            known.unwrap_or_else(|| Arc::new(ShareQueue::new(limits)))
        });
        let charge = ledger.take(&self.holder).map_err(|_| NtStatus::INSUFFICIENT_RESOURCES)?;
        let tree = Arc::new(TreeConnect::new(id, admitted, queue).charged(charge));
        trees.insert(id.0, tree.clone());
        Ok(tree)
    }

    /// Removes a tree connect and returns its opens, which the caller closes.
    ///
    /// # Errors
    /// `NETWORK_NAME_DELETED` if there is none.
    pub fn remove_tree(&self, id: TreeId) -> Result<Vec<Arc<Open>>, NtStatus> {
        let tree = self.trees.lock().remove(&id.0).ok_or(NtStatus::NETWORK_NAME_DELETED)?;
        let mut opens = self.opens.lock();
        let gone: Vec<u64> =
            opens.by_id.iter().filter(|(_, o)| o.tree.id == tree.id).map(|(id, _)| *id).collect();
        Ok(gone.into_iter().filter_map(|id| opens.by_id.remove(&id)).collect())
    }

    /// The open `id`.
    ///
    /// # Errors
    /// `FILE_CLOSED` if there is none.
    pub fn open(&self, id: FileId) -> Result<Arc<Open>, NtStatus> {
        let opens = self.opens.lock();
        let open = opens.by_id.get(&id.volatile).ok_or(NtStatus::FILE_CLOSED)?;
        if open.id != id {
            return Err(NtStatus::FILE_CLOSED);
        }
        Ok(open.clone())
    }

    /// Adds an open.
    ///
    /// # Errors
    /// `INSUFFICIENT_RESOURCES` past [`OPENS_PER_SESSION_MAX`], `USER_SESSION_DELETED` if the
    /// session has ended, `NETWORK_NAME_DELETED` if the tree connect has. The open is dropped then.
    pub fn add_open(&self, open: Arc<Open>) -> Result<(), NtStatus> {
        // Trees are locked first. Removing a tree removes its opens as well, so no open may be
        // added afterwards.
        let trees = self.trees.lock();
        if self.is_ended.load(Ordering::Acquire) {
            return Err(NtStatus::USER_SESSION_DELETED);
        }
        if !trees.contains_key(&open.tree.id.0) {
            return Err(NtStatus::NETWORK_NAME_DELETED);
        }
        let mut opens = self.opens.lock();
        if opens.by_id.len() >= OPENS_PER_SESSION_MAX {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        opens.by_id.insert(open.id.volatile, open);
        Ok(())
    }

    /// Removes an open from the table.
    ///
    /// # Errors
    /// `FILE_CLOSED` if there is none.
    pub fn remove_open(&self, id: FileId) -> Result<Arc<Open>, NtStatus> {
        let mut opens = self.opens.lock();
        match opens.by_id.get(&id.volatile) {
            Some(open) if open.id == id => {
                opens.by_id.remove(&id.volatile).ok_or(NtStatus::FILE_CLOSED)
            }
            _ => Err(NtStatus::FILE_CLOSED),
        }
    }

    /// Ends the session: removes its tree connects and returns its opens, which the caller closes.
    pub fn end(&self) -> Vec<Arc<Open>> {
        let mut trees = self.trees.lock();
        self.is_ended.store(true, Ordering::Release);
        trees.clear();
        let opens = std::mem::take(&mut self.opens.lock().by_id);
        self.ended.raise();
        opens.into_values().collect()
    }

    /// Like [`SmbSession::end`] after a lost connection: the client may reconnect durable opens.
    pub fn end_by_disconnect(&self) -> Vec<Arc<Open>> {
        self.is_lost.store(true, Ordering::Release);
        self.end()
    }

    /// True if the session ended by a lost connection.
    pub fn is_lost(&self) -> bool {
        self.has_ended() && self.is_lost.load(Ordering::Acquire)
    }

    /// The right to continue one request whose channel was lost. None if the session has ended or
    /// has [`ORPHANS_PER_SESSION_MAX`] such requests.
    pub fn begin_orphan(self: &Arc<Self>) -> Option<OrphanedRequest> {
        let before = self.orphans.fetch_add(1, Ordering::AcqRel);
        let place = OrphanedRequest(self.clone());
        (before < ORPHANS_PER_SESSION_MAX && !self.has_ended()).then_some(place)
    }

    /// True once the session has ended.
    pub fn has_ended(&self) -> bool {
        self.is_ended.load(Ordering::Acquire)
    }

    /// Adds a channel.
    ///
    /// # Errors
    /// `USER_SESSION_DELETED` if the session ended meanwhile,
    /// `INSUFFICIENT_RESOURCES` past `channels_max`.
    pub fn add_channel(&self, channel: ChannelFact, channels_max: usize) -> Result<(), NtStatus> {
        let mut channels = self.channels.lock();
        if self.has_ended() || channels.is_empty() {
            return Err(NtStatus::USER_SESSION_DELETED);
        }
        if channels.len() >= channels_max {
            return Err(NtStatus::INSUFFICIENT_RESOURCES);
        }
        channels.push(channel);
        Ok(())
    }

    /// Sends a notification on `connection`, or on another channel if that one is gone or none is
    /// preferred.
    pub fn notify(&self, connection: Option<u64>, notice: Notice) {
        if notice.ack == AckRequirement::Immediate {
            self.had_immediate_notice.store(true, Ordering::Relaxed);
        }
        let live = self.live_channels();
        let (preferred, others): (Vec<_>, Vec<_>) =
            live.into_iter().partition(|c| Some(c.facts.id) == connection);
        push_to_first_live(preferred.into_iter().chain(others), notice);
    }

    /// Sends a notification on another channel than `connection`, if there is one.
    pub fn notify_elsewhere(&self, connection: u64, notice: Notice) {
        // An open that was closed meanwhile has no oplock to break.
        if let Some(NoticeSubject::Open(id)) = notice.subject
            && self.open(id).is_err()
        {
            return;
        }
        let others = self.live_channels().into_iter().filter(|c| c.facts.id != connection);
        push_to_first_live(others, notice);
    }

    /// True if the session still has an open under the lease that the notification is about.
    fn has_lease_of(&self, notice: &Notice) -> bool {
        let Some(NoticeSubject::Lease(key)) = notice.subject else { return false };
        let is_of =
            |open: &Arc<Open>| open.lease.as_ref().is_some_and(|lease| lease.key().key == key);
        self.opens().iter().any(is_of)
    }

    /// Handles the client's acknowledgment of a notification.
    pub fn handle_acknowledgment(&self, subject: NoticeSubject) {
        self.live_channels().iter().for_each(|channel| channel.notices.acknowledge(subject));
    }

    /// Repeats unacknowledged notifications: those older than `due` on another channel, and those
    /// that need no preparation on the same channel once they are older than `due_at_once`.
    pub fn resend_notices(&self, due: Option<Instant>, due_at_once: Instant) {
        let live = self.live_channels();
        for channel in &live {
            for notice in channel.notices.take_late_immediate(due_at_once) {
                // If the channel closes now, another channel delivers its notifications.
                if self.has_lease_of(&notice)
                    && let Err(notice) = channel.notices.push(notice)
                {
                    self.notify_elsewhere(channel.facts.id, *notice);
                }
            }
        }
        let Some(due) = due else { return };
        if live.len() < 2 {
            return;
        }
        for channel in live {
            for notice in channel.notices.take_unacknowledged(due) {
                self.notify_elsewhere(channel.facts.id, notice);
            }
        }
    }

    fn live_channels(&self) -> Vec<Arc<ConnHandle>> {
        self.channels.lock().iter().filter_map(|c| c.shared.upgrade()).collect()
    }

    /// Removes the channel on `connection`; true if none is left.
    pub fn remove_channel(&self, connection: u64) -> bool {
        let mut channels = self.channels.lock();
        channels.retain(|c| c.connection != connection);
        channels.is_empty()
    }

    /// True if [`SmbSession::resend_notices`] may have work.
    pub fn may_resend_notices(&self) -> bool {
        self.had_immediate_notice.load(Ordering::Relaxed) || self.channels.lock().len() > 1
    }

    /// Its channels, for `status`.
    pub fn channels(&self) -> Vec<ChannelFact> {
        self.channels.lock().clone()
    }

    /// Its trees, for `status`.
    pub fn trees(&self) -> Vec<Arc<TreeConnect>> {
        self.trees.lock().values().cloned().collect()
    }

    /// Finds an open by FileId.Persistent.
    pub fn find_open(&self, id: u64) -> Option<Arc<Open>> {
        self.opens.lock().by_id.values().find(|open| open.id.persistent == id).cloned()
    }

    /// Its opens, for `status`.
    pub fn opens(&self) -> Vec<Arc<Open>> {
        self.opens.lock().by_id.values().cloned().collect()
    }
}

/// Queues the notification on the first channel that still accepts it.
fn push_to_first_live(channels: impl Iterator<Item = Arc<ConnHandle>>, notice: Notice) {
    let mut notice = Some(notice);
    for channel in channels {
        match notice.take().map(|notice| channel.notices.push(notice)) {
            Some(Err(back)) => notice = Some(*back),
            _ => return,
        }
    }
}
