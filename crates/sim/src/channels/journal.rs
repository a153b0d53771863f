//! The journal of persistent opens, which survives the server beside its files.

use futures_channel::oneshot;
use futures_util::future::BoxFuture;
use std::collections::BTreeMap;
use sync::Mutex;

type JournalWrite = (u64, Option<Vec<u8>>, oneshot::Sender<bool>);

/// Records, and changes that are not durable yet.
pub struct MemoryJournal {
    state: Mutex<JournalState>,
    /// Fault injection: the journal discards all changes.
    forgets: bool,
}

#[derive(Default)]
struct JournalState {
    records: BTreeMap<u64, Vec<u8>>,
    queue: Vec<JournalWrite>,
}

impl MemoryJournal {
    /// An empty journal, which may discard all changes.
    pub fn new(forgets: bool) -> Self {
        Self { state: Mutex::default(), forgets }
    }

    /// Like [`smb::SmbHost::write_open_record`].
    pub fn change(&self, id: u64, record: Option<Vec<u8>>) -> BoxFuture<'static, bool> {
        let (sender, receiver) = oneshot::channel();
        self.state.lock().queue.push((id, record, sender));
        Box::pin(async move { receiver.await.unwrap_or(false) })
    }

    /// True if a change is queued.
    pub fn has_work(&self) -> bool {
        !self.state.lock().queue.is_empty()
    }

    /// Makes all queued changes durable, and confirms them.
    pub fn write(&self) {
        let queue = {
            let mut state = self.state.lock();
            let queue = std::mem::take(&mut state.queue);
            for (id, record, _) in &queue {
                state.put(*id, record.clone().filter(|_| !self.forgets));
            }
            queue
        };
        for (_, _, sender) in queue {
            // A requester that is gone needs no confirmation.
            let _ = sender.send(true);
        }
    }

    /// The process dies; a prefix of the queued changes was written.
    pub fn die(&self, mut count: usize) -> BTreeMap<u64, Vec<u8>> {
        let mut state = self.state.lock();
        let queue = std::mem::take(&mut state.queue);
        for (id, record, _) in queue {
            if count > 0 {
                count -= 1;
                state.put(id, record.filter(|_| !self.forgets));
            }
        }
        state.records.clone()
    }
}

impl JournalState {
    fn put(&mut self, id: u64, record: Option<Vec<u8>>) {
        match record {
            Some(record) => drop(self.records.insert(id, record)),
            None => drop(self.records.remove(&id)),
        }
    }
}
