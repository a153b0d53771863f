//! The stored records of NFS clients. All bytes of a record distinguish it from others: a client
//! that chooses its name must not be able to remove the record of another one.

use crate::state::journal::{Records, StateJournal};
use futures_util::future::BoxFuture;
use std::collections::{HashMap, HashSet};
use sync::Mutex;

/// Number of the record with the server's own identity; no client has it.
pub const OWN_RECORD: u64 = 0;

/// The records and their numbers in the journal.
pub struct NfsRecords {
    journal: StateJournal,
    numbers: Mutex<RecordNumbers>,
}

#[derive(Debug, Default)]
struct RecordNumbers {
    of_record: HashMap<Vec<u8>, u64>,
    used: HashSet<u64>,
    next: u64,
}

impl RecordNumbers {
    fn enter(&mut self, record: &[u8]) -> u64 {
        if let Some(number) = self.of_record.get(record) {
            return *number;
        }
        while self.next == OWN_RECORD || self.used.contains(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let number = self.next;
        self.used.insert(number);
        self.of_record.insert(record.to_vec(), number);
        number
    }

    fn leave(&mut self, record: &[u8]) -> Option<u64> {
        let number = self.of_record.remove(record)?;
        self.used.remove(&number);
        Some(number)
    }
}

impl NfsRecords {
    /// Continues with the records of the journal.
    pub fn new(journal: StateJournal, found: &Records) -> Self {
        let clients = || found.iter().filter(|(number, _)| **number != OWN_RECORD);
        let of_record = clients().map(|(number, record)| (record.clone(), *number)).collect();
        let used = clients().map(|(number, _)| *number).collect();
        Self { journal, numbers: Mutex::new(RecordNumbers { of_record, used, next: 1 }) }
    }

    /// Stores or removes a record. The future resolves to true once that survives a power loss.
    pub fn change(&self, record: &[u8], is_here: bool) -> BoxFuture<'static, bool> {
        // The lock is held until the change is queued, so that changes of one number are written in
        // order.
        let mut numbers = self.numbers.lock();
        if is_here {
            let number = numbers.enter(record);
            return self.journal.change(number, Some(record.to_vec()));
        }
        match numbers.leave(record) {
            Some(number) => self.journal.change(number, None),
            None => Box::pin(std::future::ready(true)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Different names with equal 64-bit FNV-1a hashes.
    const ONE: &[u8] = b"8yn0iYCKYHlIj4-BwPqk";
    const OTHER: &[u8] = b"GReLUrM4wMqfg9yzV3KQ";

    fn found(folder: &std::path::Path) -> (NfsRecords, BTreeSet<Vec<u8>>) {
        let (journal, records) = StateJournal::open_named(folder, "nfs-clients").unwrap();
        let all = records.values().cloned().collect();
        (NfsRecords::new(journal, &records), all)
    }

    #[tokio::test]
    async fn colliding_record_hashes_keep_both_records() {
        let folder = tempfile::tempdir().unwrap();
        let (records, none) = found(folder.path());
        assert!(none.is_empty());
        assert!(records.change(ONE, true).await);
        assert!(records.change(OTHER, true).await);
        assert!(records.change(b"third", true).await);
        assert!(records.change(b"third", false).await);
        assert!(records.change(b"never there", false).await);
        drop(records);
        let (records, both) = found(folder.path());
        assert_eq!(both, [ONE.to_vec(), OTHER.to_vec()].into());
        assert!(records.change(OTHER, false).await);
        assert!(records.change(b"fourth", true).await, "under a number that nobody has");
        drop(records);
        assert_eq!(found(folder.path()).1, [ONE.to_vec(), b"fourth".to_vec()].into());
    }
}
