//! Delegations of all clients: counts, holders of write delegations, recall deadlines, and files in
//! a cooling period. RFC 8881 10.4.
//!
//! Pure: no messages, no files, no clock.

use crate::clients::client::ClientIncarnation;
use crate::limits::{COOLING, COOLING_FILES_MAX};
use limits::{LedgerAccount, ResourceCharge};
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use sync::Mutex;
use vfs::{FileKey, KeyedBuildHasher};

/// Delegations of all clients: see the module.
#[derive(Debug, Default)]
pub struct Delegations {
    /// Number of write delegations. It is almost always zero, which needs no lock.
    write_count: AtomicUsize,
    state: Mutex<DelegationsState>,
}

#[derive(Debug, Default)]
struct DelegationsState {
    writers: HashMap<FileKey, WriteDelegationHolder, KeyedBuildHasher>,
    due: Vec<PendingRevocation>,
    /// Files whose delegation conflicted, with the end of their cooling period.
    cooling: HashMap<FileKey, Instant, KeyedBuildHasher>,
}

/// Holder of a write delegation.
#[derive(Clone, Debug)]
pub struct WriteDelegationHolder {
    /// Client with the delegation.
    pub client: Weak<ClientIncarnation>,
    /// Change attribute of the file at the grant.
    pub change: u64,
}

/// A recalled delegation.
#[derive(Clone, Debug)]
pub struct PendingRevocation {
    /// Time of its revocation.
    pub at: Instant,
    /// Client with the delegation.
    pub client: Weak<ClientIncarnation>,
    /// Its number among the client's states.
    pub number: u64,
}

/// Registration of a delegation; dropping it removes it.
#[derive(Debug)]
pub struct DelegationEntry {
    all: Arc<Delegations>,
    /// Charge to its client's address.
    _share: ResourceCharge,
    writes: Option<FileKey>,
}

impl Delegations {
    /// Registers a delegation. None if the address has too many, or the file is in its cooling
    /// period.
    pub fn enter(
        self: &Arc<Self>,
        file: FileKey,
        account: &Arc<LedgerAccount>,
        now: Instant,
    ) -> Option<DelegationEntry> {
        let share = account.take(1).ok()?;
        let mut state = self.state.lock();
        if let Some(until) = state.cooling.get(&file) {
            if *until > now {
                return None;
            }
            state.cooling.remove(&file);
        }
        Some(DelegationEntry { all: self.clone(), _share: share, writes: None })
    }

    /// The holder of a write delegation other than `client`, with the change attribute at the
    /// grant.
    #[must_use]
    pub fn writer(
        &self,
        file: FileKey,
        client: &ClientIncarnation,
    ) -> Option<(Arc<ClientIncarnation>, u64)> {
        if self.write_count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let writer = self.state.lock().writers.get(&file).cloned()?;
        let holder = writer.client.upgrade().filter(|holder| holder.id != client.id)?;
        Some((holder, writer.change))
    }

    /// Notes a recall with its deadline, and starts the cooling period of the file.
    pub fn recall(&self, file: FileKey, due: PendingRevocation, now: Instant) {
        let mut state = self.state.lock();
        state.due.push(due);
        if state.cooling.len() >= COOLING_FILES_MAX {
            state.cooling.retain(|_, until| *until > now);
        }
        if state.cooling.len() < COOLING_FILES_MAX {
            state.cooling.insert(file, now + COOLING);
        }
    }

    /// Ends the cooling period of a new file, whose number another file had before.
    pub fn end_cooling(&self, file: FileKey) {
        self.state.lock().cooling.remove(&file);
    }

    /// Takes the recalls whose deadline has passed.
    pub fn take_due(&self, now: Instant) -> Vec<PendingRevocation> {
        let mut state = self.state.lock();
        // Deadlines are nearly in order: during grace they count from its end.
        let (due, later) = state.due.drain(..).partition(|due| due.at <= now);
        state.due = later;
        due
    }
}

impl DelegationEntry {
    /// Marks it as a write delegation.
    pub fn set_writer(&mut self, file: FileKey, client: &Arc<ClientIncarnation>, change: u64) {
        let writer = WriteDelegationHolder { client: Arc::downgrade(client), change };
        self.all.state.lock().writers.insert(file, writer);
        self.all.write_count.fetch_add(1, Ordering::AcqRel);
        self.writes = Some(file);
    }
}

impl Drop for DelegationEntry {
    fn drop(&mut self) {
        if let Some(file) = self.writes {
            self.all.state.lock().writers.remove(&file);
            self.all.write_count.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

/// Deadline of a recall that starts now: a live client reacts within its lease. RFC 8881 10.2.1.
#[must_use]
pub fn revocation_deadline(now: Instant, lease: Duration) -> Instant {
    now + lease
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::client::ExchangeIdRequest;
    use crate::clients::client::{ClientEnvironment, ClientFacts};
    use crate::limits::DELEGATIONS_MAX;
    use crate::state::holdings::NfsHoldings;
    use crate::state::principal::Principal;
    use limits::LedgerHolder;
    use wire::nfs::{ClientId, Verifier};

    const FILE: FileKey = FileKey { device: 1, inode: 2 };
    const OTHER: FileKey = FileKey { device: 1, inode: 3 };

    fn holder() -> LedgerHolder {
        LedgerHolder::site(std::net::IpAddr::from([192, 0, 2, 1]))
    }

    fn account() -> Arc<LedgerAccount> {
        NfsHoldings::new(100).delegations.account(&holder())
    }

    fn client(id: u64) -> Arc<ClientIncarnation> {
        let who = ExchangeIdRequest {
            owner: vec![id as u8],
            verifier: Verifier::default(),
            principal: Principal { flavor: 1, uid: 0, gid: 0, has_reserved_port: true },
            holder: holder(),
            id_high: 0,
            updates: false,
            facts: ClientFacts::default(),
        };
        let holdings = Arc::new(NfsHoldings::new(100));
        let common = ClientEnvironment { holdings, secret: [0; 8] };
        Arc::new(ClientIncarnation::new(ClientId(id), who, Instant::now(), common))
    }

    #[test]
    fn write_delegation_holder_is_found_until_it_ends() {
        let (all, now) = (Arc::new(Delegations::default()), Instant::now());
        let (one, two) = (client(1), client(2));
        let mut entry = all.enter(FILE, &account(), now).unwrap();
        assert!(all.writer(FILE, &two).is_none(), "it is to read");
        entry.set_writer(FILE, &one, 7);
        assert!(all.writer(FILE, &one).is_none(), "itself");
        assert!(all.writer(OTHER, &two).is_none());
        assert_eq!(all.writer(FILE, &two).map(|(who, change)| (who.id, change)), Some((one.id, 7)));
        drop(entry);
        assert!(all.writer(FILE, &two).is_none());
    }

    #[test]
    fn recalled_file_is_due_and_cools_down() {
        let (all, start) = (Arc::new(Delegations::default()), Instant::now());
        let one = client(1);
        let entry = all.enter(FILE, &account(), start).unwrap();
        let at = revocation_deadline(start, Duration::from_secs(90));
        all.recall(FILE, PendingRevocation { at, client: Arc::downgrade(&one), number: 3 }, start);
        drop(entry);
        assert!(all.enter(FILE, &account(), start).is_none(), "it would be in the way again");
        assert!(all.enter(OTHER, &account(), start).is_some());
        assert!(all.enter(FILE, &account(), start + COOLING).is_some());
        all.recall(FILE, PendingRevocation { at, client: Arc::downgrade(&one), number: 4 }, start);
        all.end_cooling(FILE);
        assert!(all.enter(FILE, &account(), start).is_some(), "another file with its number");
        assert!(all.take_due(at - Duration::from_millis(1)).is_empty());
        assert_eq!(all.take_due(at).iter().map(|due| due.number).collect::<Vec<_>>(), [3, 4]);
        assert!(all.take_due(at).is_empty());
    }

    #[test]
    fn one_address_leaves_delegations_to_others() {
        let (all, now) = (Arc::new(Delegations::default()), Instant::now());
        let holdings = NfsHoldings::new(100);
        let one = holdings.delegations.account(&holder());
        let entries: Vec<DelegationEntry> =
            (0..DELEGATIONS_MAX).filter_map(|_| all.enter(FILE, &one, now)).collect();
        assert_eq!(entries.len(), DELEGATIONS_MAX / 2);
        let other = LedgerHolder::site(std::net::IpAddr::from([192, 0, 2, 2]));
        assert!(all.enter(OTHER, &holdings.delegations.account(&other), now).is_some());
        drop(entries);
        assert!(all.enter(OTHER, &one, now).is_some());
    }

    #[test]
    fn cooling_files_are_bounded() {
        let (all, now) = (Arc::new(Delegations::default()), Instant::now());
        for inode in 0..COOLING_FILES_MAX as u64 + 9 {
            let due = PendingRevocation { at: now, client: Weak::new(), number: 0 };
            all.recall(FileKey { device: 1, inode }, due, now);
        }
        assert_eq!(all.state.lock().cooling.len(), COOLING_FILES_MAX);
    }
}
