//! Recall of delegations: CB_RECALL, then revocation at the deadline. RFC 8881 10.2.1, 10.4.5,
//! 10.4.6, 20.2.

use crate::clients::client::ClientIncarnation;
use crate::clients::delegations::{PendingRevocation, revocation_deadline};
use crate::clients::held_state::DelegationFacts;
use crate::limits::RECALL_PAUSE;
use crate::server::NfsServer;
use files::{CacheBreak, CacheHolder};
use std::sync::{Arc, Weak};
use sync::Mutex;
use vfs::FileKey;
use wire::nfs::callback::{Callback, CbRecallArgs};
use wire::nfs::{CallbackNumber, NfsStatus};

/// Cache holder of one client on one file: receives the break when a delegation conflicts.
#[derive(Debug)]
pub(crate) struct DelegationHolder {
    server: Weak<NfsServer>,
    client: Weak<ClientIncarnation>,
    tag: [u8; 16],
    file: Mutex<Option<FileKey>>,
    grants: Mutex<PendingGrants>,
}

/// Grants of a client that no reply has reported yet.
#[derive(Debug, Default)]
struct PendingGrants {
    count: usize,
    /// A recall was requested meanwhile.
    is_recalled: bool,
}

impl DelegationHolder {
    pub fn new(server: &Arc<NfsServer>, client: &Arc<ClientIncarnation>) -> Arc<Self> {
        Arc::new(Self {
            server: Arc::downgrade(server),
            client: Arc::downgrade(client),
            tag: client.tag(),
            file: Mutex::default(),
            grants: Mutex::default(),
        })
    }

    fn recall(&self, file: FileKey) {
        let (Some(server), Some(client)) = (self.server.upgrade(), self.client.upgrade()) else {
            return;
        };
        start_recall(&server, &client, file);
    }
}

impl CacheHolder for DelegationHolder {
    fn client(&self) -> Option<[u8; 16]> {
        Some(self.tag)
    }

    fn handle_break(&self, notice: &CacheBreak) {
        let Some(file) = file_of(notice) else { return };
        let mut grants = self.grants.lock();
        if grants.count > 0 {
            grants.is_recalled = true;
            *self.file.lock() = Some(file);
            return;
        }
        drop(grants);
        self.recall(file);
    }

    fn handle_grant_begun(&self) {
        self.grants.lock().count += 1;
    }

    fn handle_grant_ended(&self) {
        let mut grants = self.grants.lock();
        grants.count -= 1;
        let is_recalled = grants.count == 0 && std::mem::take(&mut grants.is_recalled);
        drop(grants);
        let file = *self.file.lock();
        if let Some(file) = file.filter(|_| is_recalled) {
            self.recall(file);
        }
    }
}

/// The file of a cache key: see [`files::delegation_key`].
fn file_of(notice: &CacheBreak) -> Option<FileKey> {
    let files::CacheOwner::Key(key) = notice.owner else { return None };
    let (device, inode) = key.key.split_at(8);
    let number = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
    Some(FileKey { device: number(device)?, inode: number(inode)? })
}

/// Starts the recall of a client's delegation on a file. Takes no lock, because the caller may hold
/// the client's states.
pub(crate) fn start_recall(
    server: &Arc<NfsServer>,
    client: &Arc<ClientIncarnation>,
    file: FileKey,
) {
    server.host.carry_on(Box::pin(recall(server.clone(), client.clone(), file)));
}

/// Recalls a delegation, with retries until the client replies. Does nothing if a recall is in
/// flight.
async fn recall(server: Arc<NfsServer>, client: Arc<ClientIncarnation>, file: FileKey) {
    let now = server.host.now().instant;
    let lease = server.config().lease;
    if client.is_expired(now, lease) {
        // A courtesy client loses its state at the first conflict.
        server.remove_client(&client);
        return;
    }
    let Some((number, facts)) = client.with_states(|states| {
        let number = states.delegation_of(file)?;
        let held = states.delegation_mut(number)?;
        if std::mem::replace(&mut held.is_recalled, true) {
            return None;
        }
        Some((number, DelegationFacts::of(states, number)?))
    }) else {
        return;
    };
    let at = revocation_deadline(server.grace_end(now), lease);
    server.delegations.recall(
        file,
        PendingRevocation { at, client: Arc::downgrade(&client), number },
        now,
    );
    let args = CbRecallArgs { state_id: facts.id, truncate: false, handle: facts.handle };
    loop {
        let referring = facts.referring.as_ref();
        let reply = client.call_back(&server.files, &Callback::Recall(args), referring).await;
        if let Ok(answer) = reply {
            match answer.result::<()>(CallbackNumber::RECALL) {
                Ok(()) => return,
                // The client is using the delegation, or does not know it yet.
                Err(status) => {
                    tracing::debug!(?status, "the client did not accept the recall of a delegation")
                }
            }
        }
        server.files.pause(RECALL_PAUSE).await;
        let is_over = server.host.now().instant >= at;
        if is_over || client.states.lock().delegation_of(file) != Some(number) {
            return;
        }
    }
}

/// Maps a failed return of a delegation to its status.
pub(crate) fn return_status(result: vfs::Result<()>) -> Result<(), NfsStatus> {
    result.map_err(|_| NfsStatus::DELEG_REVOKED)
}
