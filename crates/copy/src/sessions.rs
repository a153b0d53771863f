//! Further sessions with the server of a share, for small files.
//!
//! Some servers have one process for each client and let it do one thing after the other,
//! however many channels its session has: Samba. To such a server each session here is a
//! client, and it works on their files at the same time. To others they cost a logon each, and are
//! as good as channels. They are opened once there are many small files, while those are copied
//! in the session that is there. One that is lost is not opened again: its files go by the first.

use crate::limits::FURTHER_SESSIONS_MAX;
use client::Tree;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The share in all sessions. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Sessions {
    first: Tree,
    others: Arc<Others>,
}

#[derive(Debug, Default)]
struct Others {
    trees: Mutex<Vec<Tree>>,
    next: AtomicUsize,
    is_begun: AtomicBool,
    is_over: AtomicBool,
}

impl Others {
    fn lock(&self) -> MutexGuard<'_, Vec<Tree>> {
        self.trees.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sessions {
    pub(crate) fn new(first: Tree) -> Self {
        Self { first, others: Arc::default() }
    }

    /// The session that is there as long as the copy.
    pub(crate) fn first(&self) -> &Tree {
        &self.first
    }

    /// Opens further ones, once, as many as the first was to have further channels. Must be called
    /// within a runtime.
    pub(crate) fn open_more(&self) {
        let count = self.first.client().channels_wanted().saturating_sub(1);
        if count == 0 || self.others.is_begun.swap(true, Ordering::Relaxed) {
            return;
        }
        for _ in 0..count.min(FURTHER_SESSIONS_MAX) {
            let (first, others) = (self.first.clone(), self.others.clone());
            tokio::spawn(async move {
                // One that the server does not want is done without.
                let Ok(tree) = first.in_another_session().await else { return };
                let mut trees = others.lock();
                if !others.is_over.load(Ordering::Relaxed) {
                    trees.push(tree);
                }
            });
        }
    }

    /// The one whose turn it is; whether it is a further one.
    pub(crate) fn next(&self) -> (Tree, bool) {
        let mut trees = self.others.lock();
        trees.retain(|tree| tree.client().is_alive());
        let turn = self.others.next.fetch_add(1, Ordering::Relaxed) % (trees.len() + 1);
        match trees.get(turn) {
            Some(tree) => (tree.clone(), true),
            None => (self.first.clone(), false),
        }
    }

    /// Connections of all.
    pub(crate) fn connections(&self) -> usize {
        self.first.client().channels().len() + self.others.lock().len()
    }

    /// Logs the further ones off.
    pub(crate) async fn end(&self) {
        self.others.is_over.store(true, Ordering::Relaxed);
        let trees = std::mem::take(&mut *self.others.lock());
        let mut ending = tokio::task::JoinSet::new();
        for tree in trees {
            ending.spawn(async move { tree.client().close().await });
        }
        ending.join_all().await;
    }
}
