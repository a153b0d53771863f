//! CB_NOTIFY_LOCK for blocking LOCKs that were denied, so that clients need not poll. RFC 8881 9.6,
//! 20.11.

use crate::clients::client::ClientIncarnation;
use crate::clients::held_state::HeldOpen;
use crate::limits::WAITING_LOCKS_PER_CLIENT_MAX;
use crate::server::NfsServer;
use crate::state::stateids::Owner;
use files::{LockOwner, RangeLock};
use futures_util::future::{Either, select};
use limits::ResourceCharge;
use std::pin::pin;
use std::sync::Arc;
use vfs::FileKey;
use wire::nfs::StateOwner;
use wire::nfs::callback::{Callback, CbNotifyLockArgs};
use wire::nfs::xdr::Opaque;

/// A denied lock that the client awaits.
#[derive(Debug)]
pub(crate) struct LockWaiter {
    /// Lock-owner of the client.
    pub lock_owner: Owner,
    /// Lock-owner of the file layer.
    pub owner: LockOwner,
    /// Wanted lock.
    pub wanted: RangeLock,
}

/// Registration of a waiting lock; its drop removes it.
struct LockWaitEntry {
    client: Arc<ClientIncarnation>,
    key: (FileKey, Owner),
    /// Charge as one state, and for the bytes of its owner, to the client's address.
    _shares: [ResourceCharge; 2],
}

impl LockWaitEntry {
    /// None if it waits already, or a limit is reached.
    fn enter(
        server: &NfsServer,
        client: &Arc<ClientIncarnation>,
        key: (FileKey, Owner),
    ) -> Option<Self> {
        let state = server.holdings.states.take(&client.holder).ok()?;
        let account = server.holdings.owner_bytes.account(&client.holder);
        let owner = account.take(key.1.len() as u64).ok()?;
        let mut waiting = client.lock_waiters.lock();
        let may_wait = waiting.len() < WAITING_LOCKS_PER_CLIENT_MAX && waiting.insert(key.clone());
        may_wait.then(|| Self { client: client.clone(), key, _shares: [state, owner] })
    }
}

impl Drop for LockWaitEntry {
    fn drop(&mut self) {
        self.client.lock_waiters.lock().remove(&self.key);
    }
}

impl LockWaiter {
    /// Sends CB_NOTIFY_LOCK once the lock may be free, if the client has a backchannel. A lost
    /// notification does no harm, because the client polls anyhow. The wait ends after one lease.
    pub fn notify_when_free(
        self,
        server: &Arc<NfsServer>,
        client: &Arc<ClientIncarnation>,
        held: &HeldOpen,
    ) {
        if !client.answers_callbacks() {
            return;
        }
        let key = (held.open.key(), self.lock_owner.clone());
        let Some(entry) = LockWaitEntry::enter(server, client, key) else { return };
        let (server, held) = (server.clone(), held.clone());
        let host = server.host.clone();
        host.carry_on(Box::pin(async move {
            let lease = server.config().lease;
            let files = server.files.for_server();
            let free = pin!(files.wait_for_unlock(&held.open, self.owner, self.wanted));
            let is_free = match select(free, server.files.pause_for(lease)).await {
                Either::Left((waited, _)) => waited.is_ok(),
                Either::Right(_) => false,
            };
            let client = entry.client.clone();
            // The client may retry at once, and wait again.
            drop(entry);
            if is_free {
                let owner = StateOwner { client_id: client.id, owner: Opaque(&self.lock_owner) };
                let args = CbNotifyLockArgs { handle: held.handle, lock_owner: owner };
                let callback = Callback::NotifyLock(args);
                // A client that misses the callback polls.
                let _ = client.call_back(&server.files, &callback, None).await;
            }
        }));
    }
}
