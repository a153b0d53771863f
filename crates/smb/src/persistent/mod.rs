//! Persistent opens: opens on a continuously available share survive a restart of the server.
//! MS-SMB2 3.3.5.9.10, 3.3.5.9.12.
//!
//! The host writes a record of the open before the response that depends on it: CREATE, LOCK,
//! rename, delete on close. At the start the opens are restored before the first client is served.

mod record;

use crate::limits::PERSISTENT_LOCKS_MAX;
use crate::opens::break_router::BreakRouter;
use crate::opens::durability::{Durability, DurableKind};
use crate::opens::lease::Lease;
use crate::opens::lock_sequence::LockSequences;
use crate::opens::open::{Open, OpenParts, OpenTarget, Origin, Persistence, QueuedRecord};
use crate::opens::oplock::Oplock;
use crate::server::SmbServer;
use crate::shares::holdings::Charges;
use crate::shares::tree::{AdmittedShare, TreeConnect};
use files::{CacheHolder, CacheKey, OpenFacts, OpenJournal};
use futures_util::future::BoxFuture;
use limits::{Ledger, LedgerHolder, ResourceCharge};
pub use record::OpenRecord;
use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Weak};
use std::time::Duration;
use vfs::{FileKey, FsError};
use wire::ntstatus::NtStatus;
use wire::smb::{FileId, TreeId};

/// A new open whose record is being written. Dropping it removes the record unless the open is
/// complete.
pub struct NewRecord<'a> {
    server: &'a SmbServer,
    open: Option<Arc<Open>>,
}

impl NewRecord<'_> {
    /// The open is complete; keeps its record.
    pub fn commit(mut self) {
        self.open = None;
    }
}

impl Drop for NewRecord<'_> {
    fn drop(&mut self) {
        if let Some(open) = &self.open {
            drop(self.server.remove_record(open));
        }
    }
}

impl SmbServer {
    /// Writes the record of a new open, whose file is stable already.
    ///
    /// # Errors
    /// `INSUFFICIENT_RESOURCES` if the record cannot be written.
    pub async fn record_new(&self, open: &Arc<Open>) -> Result<NewRecord<'_>, NtStatus> {
        let keeping = NewRecord { server: self, open: Some(open.clone()) };
        self.files.for_server().begin_record(open.file()?).await;
        self.persistent.enter(open)?;
        self.update_record(open).await?;
        Ok(keeping)
    }

    /// Updates the record of an open, if it is persistent.
    ///
    /// # Errors
    /// `INSUFFICIENT_RESOURCES` if the record cannot be written.
    pub async fn update_record(&self, open: &Open) -> Result<(), NtStatus> {
        let Some(persistence) = &open.origin.persistence else { return Ok(()) };
        let queued = self.queue(open, persistence, ChargeMode::Refusing);
        let queued = queued.ok_or(NtStatus::INSUFFICIENT_RESOURCES)?;
        if queued.await { Ok(()) } else { Err(NtStatus::INSUFFICIENT_RESOURCES) }
    }

    /// Records which times an open stopped, in the background: the change has taken effect, so it
    /// can be refused no more, and clients set times on each file that they copy.
    pub fn record_stopped_times(&self, open: &Open) {
        let (Some(persistence), Ok(file)) = (&open.origin.persistence, open.file()) else { return };
        // The lock orders the comparison after the record of a concurrent change.
        let mut queued = persistence.record.lock();
        if queued.stopped_times != file.stopped_times() {
            drop(self.queue_locked(open, persistence, &mut queued, ChargeMode::Forced));
        }
    }

    /// Queues the record of an open. None if the record or the user's total is too large, or the
    /// open was closed.
    fn queue(
        &self,
        open: &Open,
        persistence: &Persistence,
        charging: ChargeMode,
    ) -> Option<BoxFuture<'static, bool>> {
        self.queue_locked(open, persistence, &mut persistence.record.lock(), charging)
    }

    /// The same under the lock of the record, which makes a later state also the later write.
    fn queue_locked(
        &self,
        open: &Open,
        persistence: &Persistence,
        queued: &mut QueuedRecord,
        charging: ChargeMode,
    ) -> Option<BoxFuture<'static, bool>> {
        self.persistent.find(open.id.persistent)?;
        let record = record_of(open, persistence)?;
        let fits = record.file.locks.len() <= PERSISTENT_LOCKS_MAX;
        let bytes = fits.then(|| record.to_bytes())?;
        match charging {
            ChargeMode::Refusing => queued.bytes.try_resize(bytes.len() as u64).ok()?,
            ChargeMode::Forced => queued.bytes.resize(bytes.len() as u64),
        }
        queued.stopped_times = record.file.stopped_times;
        Some(self.host.write_open_record(open.id.persistent, Some(bytes)))
    }

    /// Records the break of a lease, in the background: after a restart the client has only the
    /// lower caching, notified or not.
    pub fn record_breaks_of_lease(&self, key: CacheKey) {
        if !self.persistent.is_empty() {
            self.record_breaks(&self.persistent.of_lease(key));
        }
    }

    /// Records the break of an open's oplock.
    pub fn record_break_of_open(&self, id: u64) {
        self.record_breaks(self.persistent.find(id).as_slice());
    }

    fn record_breaks(&self, opens: &[Arc<Open>]) {
        for open in opens {
            if let Some(persistence) = &open.origin.persistence {
                drop(self.queue(open, persistence, ChargeMode::Refusing));
            }
        }
    }

    /// Removes the record of an open that is about to close, if it is persistent. The removal is
    /// queued on return.
    pub fn remove_record(&self, open: &Open) -> impl Future<Output = bool> + Send + use<> {
        let queued = open.origin.persistence.as_deref().map(|persistence| {
            // The lock keeps a concurrent update from being queued after the removal.
            let _queued = persistence.record.lock();
            self.persistent.remove(open.id.persistent);
            self.host.write_open_record(open.id.persistent, None)
        });
        async move {
            match queued {
                Some(queued) => queued.await,
                None => true,
            }
        }
    }

    /// Restores the opens of the records. The caller runs it before the first client is served.
    /// Records that cannot be restored are logged and removed.
    pub fn restore(self: &Arc<Self>, records: &BTreeMap<u64, Vec<u8>>) {
        let mut restored = Vec::new();
        for (&id, bytes) in records {
            self.reserve_ids_through(id);
            let made = match OpenRecord::decode(bytes) {
                Ok(record) if record.id == id => self.restore_one(record),
                Ok(_) => Err("the record belongs to another open".into()),
                Err(malformed) => Err(malformed.to_string()),
            };
            match made {
                Ok(open) => restored.push(open),
                Err(why) => {
                    tracing::error!(
                        id,
                        reason = why,
                        "a persistent open cannot be restored: its client must open the file again"
                    );
                    drop(self.host.write_open_record(id, None));
                }
            }
        }
        // Once all opens exist: the latest open of a lease has its present state.
        for (open, facts) in restored.iter().rev() {
            let Ok(file) = open.file() else { continue };
            let holder: Option<Arc<dyn CacheHolder>> = match (&open.lease, &open.oplock) {
                (Some(lease), _) => Some(lease.clone()),
                (None, Some(oplock)) => Some(oplock.clone()),
                (None, None) => None,
            };
            holder
                .into_iter()
                .for_each(|h| self.files.for_server().restore_caching(file, facts, h));
        }
        self.detach_all(restored.into_iter().map(|(open, _)| open).collect());
    }

    fn restore_one(self: &Arc<Self>, record: OpenRecord) -> Result<(Arc<Open>, OpenFacts), String> {
        let config = self.config();
        let share = config.share(&record.share).filter(|s| s.continuously_available);
        let share = share.ok_or("its share is no longer continuously available")?;
        let volume = share.volume.as_ref().ok_or("its share has no volume")?;
        let account = self.host.account(&record.owner).ok_or("its account no longer exists")?;
        let forced = share.forced(&account.caller);
        let caller = forced.as_ref().unwrap_or(&account.caller);
        let id = FileId { persistent: record.id, volatile: record.id };
        let seal = share.encryption_required;
        let router: Weak<dyn BreakRouter> = Arc::<Self>::downgrade(self);
        let lease = record.file.cache_key.map(|key| {
            Lease::restored(router.clone(), key, record.owner.clone(), record.has_lease_v2, seal)
        });
        let oplock = Oplock::restored(router, id, seal);
        let holder: Arc<dyn CacheHolder> = match &lease {
            Some(lease) => lease.clone(),
            None => oplock.clone(),
        };
        let user = LedgerHolder::User(record.owner.as_str().into());
        let files = self.files.for_server();
        let file = files.restore(volume, caller, &record.file, &holder, &user);
        let file = file.map_err(|error| error.to_string())?;
        // The lease of an earlier open under the same key, if there is one.
        let lease = lease.and_then(|_| file.repeat_grant().1.and_then(|grant| grant.holder()));
        let durability = Durability {
            kind: DurableKind::Persistent,
            timeout: Duration::from_millis(record.timeout_ms.into()),
        };
        let counted = self.files.meter().share(&share.name);
        let (share, volume) = (share.clone(), Some(volume.clone()));
        let admitted = AdmittedShare { share, volume, forced, counted };
        let (charges, persistent) = self.charges_of_restored(&user);
        let bytes =
            self.holdings.persistent_bytes.account(&user).force(record.to_bytes().len() as u64);
        let identity = record.file.identity.clone();
        let queued = QueuedRecord { bytes, stopped_times: record.file.stopped_times };
        let open = Arc::new(Open::new(OpenParts {
            id,
            tree: Arc::new(TreeConnect::new(TreeId(0), admitted, None)),
            target: OpenTarget::File(file),
            is_of_stable_share: true,
            mode: record.mode,
            origin: Arc::new(Origin {
                action: record.action,
                owner: record.owner.clone(),
                client_guid: record.client_guid,
                create_guid: Some(record.create_guid),
                membership: None,
                persistence: Some(Box::new(Persistence::restored(identity, persistent, queued))),
                charges,
            }),
            oplock: lease.is_none().then_some(oplock),
            lease,
            durability: Some(durability),
            channel_sequence: 0,
        }));
        open.set_lock_sequences(LockSequences::from_entries(record.lock_sequences));
        self.persistent.enter(&open).map_err(|_| "the limit on persistent opens is reached")?;
        self.register_for_replay(&open);
        Ok((open, record.file))
    }
}

impl SmbServer {
    /// Restored opens are charged without a limit, because they existed before the restart.
    fn charges_of_restored(&self, user: &LedgerHolder) -> (Charges, ResourceCharge) {
        let of = |ledger: &Arc<Ledger>| ledger.account(user).force(1);
        let charges = Charges {
            open: Some(of(self.files.opens())),
            durable: of(&self.holdings.durable).into(),
        };
        (charges, of(&self.holdings.persistent))
    }
}

impl OpenJournal for SmbServer {
    fn record_opens(&self, files: &[FileKey]) -> BoxFuture<'static, vfs::Result<()>> {
        if self.persistent.is_empty() {
            return Box::pin(async { Ok(()) });
        }
        let opens = self.persistent.of_files(files);
        let queued: Vec<_> = opens
            .iter()
            .filter_map(|open| Some((open, open.origin.persistence.as_deref()?)))
            // A rename must not fail because another user exceeds their limit.
            .map(|(open, persistence)| {
                let queued = self.queue(open, persistence, ChargeMode::Forced);
                let is_closed = || self.persistent.find(open.id.persistent).is_none();
                queued.ok_or_else(is_closed)
            })
            .collect();
        Box::pin(async move {
            let mut result = Ok(());
            for queued in queued {
                let is_settled = match queued {
                    Ok(queued) => queued.await,
                    Err(is_closed) => is_closed,
                };
                if !is_settled {
                    result = Err(FsError::TooMany);
                }
            }
            result
        })
    }
}

/// The reaction to a record beyond its user's limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChargeMode {
    Refusing,
    Forced,
}

/// The record of an open; none if its state cannot be determined.
fn record_of(open: &Open, persistence: &Persistence) -> Option<OpenRecord> {
    let durability = open.durability()?;
    Some(OpenRecord {
        id: open.id.persistent,
        client_guid: open.origin.client_guid,
        create_guid: open.origin.create_guid?,
        timeout_ms: durability.timeout_ms(),
        action: open.origin.action,
        mode: open.mode(),
        owner: open.origin.owner.clone(),
        share: open.tree.share.name.clone(),
        file: open.file().ok()?.facts(&persistence.identity)?,
        has_lease_v2: open.lease.as_ref().is_some_and(|lease| lease.is_v2),
        lock_sequences: open.lock_sequences().entries(),
    })
}
