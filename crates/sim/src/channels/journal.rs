//! What outlives the server beside its files: the records of persistent opens.

use futures_channel::oneshot;
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

type Change = (u64, Option<Vec<u8>>, oneshot::Sender<bool>);

/// Records, and changes that are not durable yet.
pub struct Journal {
    state: Mutex<State>,
    /// For the checkers' sake: nothing is written down in truth.
    forgets: bool,
}

#[derive(Default)]
struct State {
    records: BTreeMap<u64, Vec<u8>>,
    queue: Vec<Change>,
}

impl Journal {
    /// An empty one, which may only pretend.
    pub fn new(forgets: bool) -> Self {
        Self { state: Mutex::default(), forgets }
    }

    /// As [`smb::Host::write_open_record`].
    pub fn change(&self, id: u64, record: Option<Vec<u8>>) -> BoxFuture<'static, bool> {
        let (tell, told) = oneshot::channel();
        self.lock().queue.push((id, record, tell));
        Box::pin(async move { told.await.unwrap_or(false) })
    }

    /// Whether somebody waits for it.
    pub fn has_work(&self) -> bool {
        !self.lock().queue.is_empty()
    }

    /// Makes all that is queued durable, and says so.
    pub fn write(&self) {
        let queue = {
            let mut state = self.lock();
            let queue = std::mem::take(&mut state.queue);
            for (id, record, _) in &queue {
                state.put(*id, record.clone().filter(|_| !self.forgets));
            }
            queue
        };
        for (_, _, tell) in queue {
            // Whoever has gone needs no telling.
            let _ = tell.send(true);
        }
    }

    /// The process dies; of what is queued some was written, in order.
    pub fn die(&self, mut count: usize) -> BTreeMap<u64, Vec<u8>> {
        let mut state = self.lock();
        let queue = std::mem::take(&mut state.queue);
        for (id, record, _) in queue {
            if count > 0 {
                count -= 1;
                state.put(id, record.filter(|_| !self.forgets));
            }
        }
        state.records.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn put(&mut self, id: u64, record: Option<Vec<u8>>) {
        match record {
            Some(record) => drop(self.records.insert(id, record)),
            None => drop(self.records.remove(&id)),
        }
    }
}
