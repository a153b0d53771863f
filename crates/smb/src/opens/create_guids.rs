//! CreateGuids: a CREATE that is replayed with the same GUID gets the same open. MS-SMB2 3.3.5.9.10
//! (GlobalOpenTable by CreateGuid and ClientGuid).

use crate::signal::Signal;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Debug;
use std::sync::{Arc, Weak};
use sync::Mutex;

/// A GUID in wire byte order.
pub type Guid = [u8; 16];

/// The key of a replayable CREATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CreateKey {
    /// ClientGuid.
    pub client: Guid,
    /// CreateGuid.
    pub create: Guid,
}

/// The replayable CREATEs and their opens.
#[derive(Debug)]
pub struct CreateGuids<T> {
    entries: Arc<Mutex<GuidTable<T>>>,
}

#[derive(Debug)]
struct GuidTable<T> {
    by_key: HashMap<CreateKey, GuidEntry<T>>,
    claims: u64,
}

#[derive(Debug)]
struct GuidEntry<T> {
    /// Number of the owning claim: a claim removes only its own entry.
    number: u64,
    stage: CreateStage<T>,
}

/// Progress of a CREATE.
#[derive(Debug)]
enum CreateStage<T> {
    /// The CREATE runs, which does not take long; raised at its end.
    InProgress(Arc<Signal>),
    /// The CREATE waits for another client.
    Waits,
    /// The CREATE produced this open.
    Done(Weak<T>),
}

/// The state of a CreateGuid, and a claim on it if it is free.
#[derive(Debug)]
pub enum ClaimOutcome<T> {
    /// Unused until now: the caller owns it and runs the CREATE.
    Fresh(CreateGuidClaim<T>),
    /// Another request runs the CREATE; the signal is raised when the caller should look again.
    InProgress(Arc<Signal>),
    /// It waits for another client.
    Waits,
    /// The CREATE is complete, and its client has not used the open since.
    Done(Arc<T>),
}

/// Ownership of a CreateGuid. Dropping it frees the GUID.
#[derive(Debug)]
pub struct CreateGuidClaim<T> {
    entries: Arc<Mutex<GuidTable<T>>>,
    key: CreateKey,
    number: u64,
}

impl<T> Default for CreateGuids<T> {
    fn default() -> Self {
        let entries = GuidTable { by_key: HashMap::new(), claims: 0 };
        Self { entries: Arc::new(Mutex::new(entries)) }
    }
}

impl<T> CreateGuids<T> {
    /// Looks a CreateGuid up, and claims it if it is free.
    pub fn claim(&self, key: CreateKey) -> ClaimOutcome<T> {
        let mut entries = self.entries.lock();
        entries.claims += 1;
        let number = entries.claims;
        match entries.by_key.entry(key) {
            Entry::Vacant(vacant) => {
                vacant.insert(GuidEntry { number, stage: CreateStage::InProgress(Arc::default()) });
            }
            Entry::Occupied(mut known) => match &known.get().stage {
                CreateStage::InProgress(ended) => return ClaimOutcome::InProgress(ended.clone()),
                CreateStage::Waits => return ClaimOutcome::Waits,
                CreateStage::Done(open) => match open.upgrade() {
                    Some(open) => return ClaimOutcome::Done(open),
                    // The open has just closed. Its claim will find the entry renumbered.
                    None => {
                        known.insert(GuidEntry {
                            number,
                            stage: CreateStage::InProgress(Arc::default()),
                        });
                    }
                },
            },
        }
        ClaimOutcome::Fresh(CreateGuidClaim { entries: self.entries.clone(), key, number })
    }

    /// Number of claimed GUIDs.
    #[cfg(test)]
    fn len(&self) -> usize {
        self.entries.lock().by_key.len()
    }
}

impl<T> CreateGuidClaim<T> {
    /// The CREATE, or a reconnect of the same open, produced `open`.
    pub fn handle_done(&self, open: &Arc<T>) {
        self.advance(CreateStage::Done(Arc::downgrade(open)));
    }

    /// The CREATE waits for another client.
    pub fn handle_waiting(&self) {
        self.advance(CreateStage::Waits);
    }

    fn advance(&self, stage: CreateStage<T>) {
        if let Some(known) = self.entries.lock().by_key.get_mut(&self.key)
            && known.number == self.number
        {
            raise(std::mem::replace(&mut known.stage, stage));
        }
    }
}

/// Wakes requests that wait for the CREATE's progress.
fn raise<T>(stage: CreateStage<T>) {
    if let CreateStage::InProgress(ended) = stage {
        ended.raise();
    }
}

impl<T> Drop for CreateGuidClaim<T> {
    fn drop(&mut self) {
        let mut entries = self.entries.lock();
        if entries.by_key.get(&self.key).is_some_and(|known| known.number == self.number)
            && let Some(known) = entries.by_key.remove(&self.key)
        {
            raise(known.stage);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: CreateKey = CreateKey { client: [1; 16], create: [2; 16] };

    fn fresh(guids: &CreateGuids<u8>, key: CreateKey) -> CreateGuidClaim<u8> {
        match guids.claim(key) {
            ClaimOutcome::Fresh(claim) => claim,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn create_guid_goes_through_its_stages_until_its_claim_drops() {
        let guids = CreateGuids::default();
        let claim = fresh(&guids, KEY);
        let ClaimOutcome::InProgress(ended) = guids.claim(KEY) else { panic!("at work") };
        assert!(!ended.is_raised());
        claim.handle_waiting();
        assert!(ended.is_raised());
        assert!(matches!(guids.claim(KEY), ClaimOutcome::Waits));
        let open = Arc::new(7);
        claim.handle_done(&open);
        assert!(
            matches!(guids.claim(KEY), ClaimOutcome::Done(found) if Arc::ptr_eq(&found, &open))
        );
        drop(claim);
        drop(fresh(&guids, KEY));
        assert_eq!(guids.len(), 0);
    }

    #[test]
    fn create_guid_is_unique_by_client() {
        let guids = CreateGuids::default();
        let _claim = fresh(&guids, KEY);
        drop(fresh(&guids, CreateKey { client: [3; 16], ..KEY }));
        drop(fresh(&guids, CreateKey { create: [3; 16], ..KEY }));
    }

    #[test]
    fn outdated_claim_does_not_free_its_successor() {
        let guids = CreateGuids::default();
        let (old, open) = (fresh(&guids, KEY), Arc::new(7));
        old.handle_done(&open);
        drop(open);
        let next = fresh(&guids, KEY);
        drop(old);
        let ClaimOutcome::InProgress(ended) = guids.claim(KEY) else { panic!("at work") };
        drop(next);
        assert!(ended.is_raised());
        drop(fresh(&guids, KEY));
    }
}
