//! Further sessions with the server of a share, for small files.
//!
//! Samba has one process for each client and serves it sequentially, however many channels its
//! session has. To such a server each session here is a client, so it works on their files in
//! parallel. To other servers a session costs a logon and is as good as a channel. Further sessions
//! are opened once there are many small files; the first session copies meanwhile. A lost session is
//! not reopened: its files go over the first one.

use crate::limits::FURTHER_SESSIONS_MAX;
use client::SmbTree;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use sync::Mutex;

/// The share in all sessions. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct ShareSessions {
    first: SmbTree,
    further: Arc<FurtherSessions>,
}

#[derive(Debug, Default)]
struct FurtherSessions {
    trees: Mutex<Vec<SmbTree>>,
    next: AtomicUsize,
    is_begun: AtomicBool,
    is_over: AtomicBool,
}

impl ShareSessions {
    pub(crate) fn new(first: SmbTree) -> Self {
        Self { first, further: Arc::default() }
    }

    /// The session that lasts as long as the copy.
    pub(crate) fn first(&self) -> &SmbTree {
        &self.first
    }

    /// Opens further sessions, once: as many as the first session was configured to have further
    /// channels. Must be called within a runtime.
    pub(crate) fn open_more(&self) {
        let count = self.first.client().channels_wanted().saturating_sub(1);
        if count == 0 || self.further.is_begun.swap(true, Ordering::Relaxed) {
            return;
        }
        for _ in 0..count.min(FURTHER_SESSIONS_MAX) {
            let (first, further) = (self.first.clone(), self.further.clone());
            tokio::spawn(async move {
                // The copy does without a session that the server refuses.
                let Ok(tree) = first.in_another_session().await else { return };
                let mut trees = further.trees.lock();
                if !further.is_over.load(Ordering::Relaxed) {
                    trees.push(tree);
                }
            });
        }
    }

    /// The share in the next session, round robin, and whether that is a further session.
    pub(crate) fn next(&self) -> (SmbTree, bool) {
        let mut trees = self.further.trees.lock();
        trees.retain(|tree| tree.client().is_alive());
        let turn = self.further.next.fetch_add(1, Ordering::Relaxed) % (trees.len() + 1);
        match trees.get(turn) {
            Some(tree) => (tree.clone(), true),
            None => (self.first.clone(), false),
        }
    }

    /// Number of connections of all sessions.
    pub(crate) fn connections(&self) -> usize {
        self.first.client().channels().len() + self.further.trees.lock().len()
    }

    /// Logs the further sessions off.
    pub(crate) async fn end(&self) {
        self.further.is_over.store(true, Ordering::Relaxed);
        let trees = std::mem::take(&mut *self.further.trees.lock());
        let mut ending = tokio::task::JoinSet::new();
        for tree in trees {
            ending.spawn(async move { tree.client().close().await });
        }
        ending.join_all().await;
    }
}
