//! Opens, byte-range locks and delegations of one client, by state id. RFC 8881 8.2, 9.
//!
//! Pure: the resource of a state (`O` of an open, `D` of a delegation) is only stored here. The end
//! of a state returns it, so that the caller releases it outside the client's lock.

use crate::limits::STATES_PER_CLIENT_MAX;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use vfs::{FileKey, KeyedBuildHasher};
use wire::nfs::{NfsStatus, StateId};

/// Open-owner or lock-owner as sent by the client: up to 1,024 bytes, stored once for each state.
pub type Owner = Arc<[u8]>;

/// Share access and deny bits of an open, as OPEN4_SHARE_ACCESS_* and OPEN4_SHARE_DENY_*: 1 read, 2
/// write, 3 both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareBits {
    /// Access bits; never zero.
    pub access: u32,
    /// Deny bits.
    pub deny: u32,
}

impl ShareBits {
    /// The union of both.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self { access: self.access | other.access, deny: self.deny | other.deny }
    }

    /// Whether `other` covers it.
    #[must_use]
    pub fn is_within(self, other: Self) -> bool {
        self.with(other) == other
    }
}

/// Open state of one owner on one file.
#[derive(Debug)]
pub struct OpenState<O> {
    /// Open-owner.
    pub owner: Owner,
    /// Union of the share bits of its OPENs.
    pub share: ShareBits,
    /// Resource of the open.
    pub holds: O,
}

/// Lock state of one owner on one file.
#[derive(Debug)]
pub struct LockState {
    /// Lock-owner.
    pub owner: Owner,
    /// Number of the open behind the locks.
    pub open: u64,
    /// Whether ranges are locked: FREE_STATEID needs it.
    pub is_locked: bool,
}

/// Delegation state.
#[derive(Debug)]
pub struct DelegationState<D> {
    /// A write delegation.
    pub is_write: bool,
    /// Resource of the delegation; None once it is revoked.
    pub holds: Option<D>,
}

/// Kind of a state.
#[derive(Debug)]
pub enum StateKind<O, D> {
    /// An open.
    Open(OpenState<O>),
    /// Locks.
    Lock(LockState),
    /// A delegation.
    Delegation(DelegationState<D>),
}

/// One state.
#[derive(Debug)]
pub struct StateidRecord<O, D> {
    /// Sequence number of the state id, advanced with each change.
    pub seqid: u32,
    /// File of the state.
    pub key: FileKey,
    /// Kind of the state.
    pub kind: StateKind<O, D>,
}

/// All states of one client.
#[derive(Debug)]
pub struct States<O, D> {
    /// Tag in each state id: it differs between clients and runs.
    tag: u32,
    next: u64,
    states: HashMap<u64, StateidRecord<O, D>, KeyedBuildHasher>,
    opens: HashMap<(FileKey, Owner), u64, KeyedBuildHasher>,
    locks: HashMap<(FileKey, Owner), u64, KeyedBuildHasher>,
    /// Delegations that are not revoked, one for each file.
    delegations: HashMap<FileKey, u64, KeyedBuildHasher>,
    /// Files with a grant in progress.
    delegating: HashSet<FileKey, KeyedBuildHasher>,
    revoked_count: usize,
    /// Bytes of all owner strings.
    owner_bytes: usize,
    /// The client is gone: no state can be added.
    has_ended: bool,
}

/// Resources of ended states.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct EndedStates<O, D> {
    /// Resources of opens.
    pub opens: Vec<O>,
    /// Resources of delegations.
    pub delegations: Vec<D>,
    /// Owners whose locks end with the opens.
    pub lock_owners: Vec<(FileKey, Owner)>,
}

impl<O, D> EndedStates<O, D> {
    fn nothing() -> Self {
        Self { opens: Vec::new(), delegations: Vec::new(), lock_owners: Vec::new() }
    }
}

impl<O, D> States<O, D> {
    /// No states. `tag` distinguishes this client from others and from other runs.
    #[must_use]
    pub fn new(tag: u32) -> Self {
        let (states, opens, locks) = (HashMap::default(), HashMap::default(), HashMap::default());
        let (delegations, delegating) = (HashMap::default(), HashSet::default());
        Self {
            tag,
            next: 1,
            states,
            opens,
            locks,
            delegations,
            delegating,
            revoked_count: 0,
            owner_bytes: 0,
            has_ended: false,
        }
    }

    /// Number of states.
    #[must_use]
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Bytes of the owner strings of all opens and locks, once for each state.
    #[must_use]
    pub fn owner_bytes(&self) -> usize {
        self.owner_bytes
    }

    /// Whether there are no states.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Whether revoked states have not been freed: every SEQUENCE reports it.
    #[must_use]
    pub fn has_revoked(&self) -> bool {
        self.revoked_count > 0
    }

    /// Whether the client has state on this file.
    #[must_use]
    pub fn holds(&self, key: FileKey) -> bool {
        self.states.values().any(|state| state.key == key)
    }

    /// The state with this number.
    #[must_use]
    pub fn get(&self, number: u64) -> Option<&StateidRecord<O, D>> {
        self.states.get(&number)
    }

    /// See [`States::get`].
    pub fn get_mut(&mut self, number: u64) -> Option<&mut StateidRecord<O, D>> {
        self.states.get_mut(&number)
    }

    /// The current state id of a state.
    #[must_use]
    pub fn id(&self, number: u64) -> StateId {
        let seqid = self.states.get(&number).map_or(0, |state| state.seqid);
        let mut other = [0; 12];
        other[..4].copy_from_slice(&self.tag.to_be_bytes());
        other[4..].copy_from_slice(&number.to_be_bytes());
        StateId { seqid, other }
    }

    /// Advances the sequence number of a state. Returns the new state id.
    pub fn advance(&mut self, number: u64) -> StateId {
        if let Some(state) = self.states.get_mut(&number) {
            // RFC 8881 8.2.2: zero means the latest, so the sequence skips it.
            state.seqid = state.seqid.wrapping_add(1).max(1);
        }
        self.id(number)
    }

    /// The number behind a state id. RFC 8881 8.2.4.
    ///
    /// # Errors
    /// BAD_STATEID if there is no such state, or the sequence number is ahead. OLD_STATEID if the
    /// state has changed since; DELEG_REVOKED if it was revoked.
    pub fn find(&self, id: &StateId) -> Result<u64, NfsStatus> {
        let number = self.number(id)?;
        let state = self.states.get(&number).ok_or(NfsStatus::BAD_STATEID)?;
        if state.is_revoked() {
            return Err(NfsStatus::DELEG_REVOKED);
        }
        match id.seqid {
            0 => Ok(number),
            seqid if seqid == state.seqid => Ok(number),
            // Half of all sequence numbers count as older.
            seqid if state.seqid.wrapping_sub(seqid) < u32::MAX / 2 => Err(NfsStatus::OLD_STATEID),
            _ => Err(NfsStatus::BAD_STATEID),
        }
    }

    fn number(&self, id: &StateId) -> Result<u64, NfsStatus> {
        let (tag, number) = id.other.split_at(4);
        if tag != self.tag.to_be_bytes() {
            return Err(NfsStatus::BAD_STATEID);
        }
        number.try_into().map(u64::from_be_bytes).map_err(|_| NfsStatus::BAD_STATEID)
    }

    /// The open behind a state id.
    ///
    /// # Errors
    /// As [`States::find`]; BAD_STATEID for another kind of state.
    pub fn find_open(&mut self, id: &StateId) -> Result<(u64, &mut OpenState<O>), NfsStatus> {
        let number = self.find(id)?;
        match self.states.get_mut(&number) {
            Some(StateidRecord { kind: StateKind::Open(open), .. }) => Ok((number, open)),
            _ => Err(NfsStatus::BAD_STATEID),
        }
    }

    /// The locks behind a state id, with their open.
    ///
    /// # Errors
    /// As [`States::find`]; BAD_STATEID for another kind of state.
    pub fn find_locks(&self, id: &StateId) -> Result<(u64, &OpenState<O>), NfsStatus> {
        let number = self.find(id)?;
        match self.states.get(&number) {
            Some(StateidRecord { kind: StateKind::Lock(lock), .. }) => {
                Ok((number, self.open(lock.open)?))
            }
            _ => Err(NfsStatus::BAD_STATEID),
        }
    }

    /// The open with this number.
    ///
    /// # Errors
    /// BAD_STATEID if there is none.
    pub fn open(&self, number: u64) -> Result<&OpenState<O>, NfsStatus> {
        match self.states.get(&number) {
            Some(StateidRecord { kind: StateKind::Open(open), .. }) => Ok(open),
            _ => Err(NfsStatus::BAD_STATEID),
        }
    }

    /// See [`States::open`].
    pub fn open_mut(&mut self, number: u64) -> Option<&mut OpenState<O>> {
        match self.states.get_mut(&number) {
            Some(StateidRecord { kind: StateKind::Open(open), .. }) => Some(open),
            _ => None,
        }
    }

    /// All opens.
    pub fn opens(&self) -> impl Iterator<Item = &OpenState<O>> {
        self.states.values().filter_map(|state| match &state.kind {
            StateKind::Open(open) => Some(open),
            _ => None,
        })
    }

    /// Sets whether ranges are locked.
    pub fn set_locked(&mut self, number: u64, is_locked: bool) {
        if let Some(StateidRecord { kind: StateKind::Lock(lock), .. }) =
            self.states.get_mut(&number)
        {
            lock.is_locked = is_locked;
        }
    }

    /// The open of `owner` on the file, if there is one.
    #[must_use]
    pub fn open_of(&self, key: FileKey, owner: &[u8]) -> Option<u64> {
        self.opens.get(&(key, owner.into())).copied()
    }

    /// The lock state of `owner` on the file, if there is one.
    #[must_use]
    pub fn locks_of(&self, key: FileKey, owner: &[u8]) -> Option<u64> {
        self.locks.get(&(key, owner.into())).copied()
    }

    fn add(&mut self, key: FileKey, kind: StateKind<O, D>) -> Result<u64, StateKind<O, D>> {
        if self.has_ended || self.states.len() >= STATES_PER_CLIENT_MAX {
            return Err(kind);
        }
        let number = self.next;
        self.next += 1;
        self.states.insert(number, StateidRecord { seqid: 1, key, kind });
        Ok(number)
    }

    /// Adds the open state of an owner on a file.
    ///
    /// # Errors
    /// The resource, if there are too many states or the client is gone.
    pub fn add_open(&mut self, key: FileKey, open: OpenState<O>) -> Result<u64, O> {
        let owner = open.owner.clone();
        match self.add(key, StateKind::Open(open)) {
            Ok(number) => {
                self.owner_bytes += owner.len();
                self.opens.insert((key, owner), number);
                Ok(number)
            }
            Err(StateKind::Open(open)) => Err(open.holds),
            Err(_) => unreachable!("what was to be added comes back"),
        }
    }

    /// Adds the lock state of an owner on a file.
    ///
    /// # Errors
    /// RESOURCE if there are too many states or the client is gone.
    pub fn add_lock(&mut self, key: FileKey, lock: LockState) -> Result<u64, NfsStatus> {
        let owner = lock.owner.clone();
        let number = self.add(key, StateKind::Lock(lock)).map_err(|_| NfsStatus::RESOURCE)?;
        self.owner_bytes += owner.len();
        self.locks.insert((key, owner), number);
        Ok(number)
    }

    /// Begins to grant a delegation. False if the file is delegated, or another grant is in
    /// progress: a recall would reach only one of two.
    pub fn begin_delegation(&mut self, key: FileKey) -> bool {
        !self.delegations.contains_key(&key) && self.delegating.insert(key)
    }

    /// Ends the grant, successful or not.
    pub fn end_begun_delegation(&mut self, key: FileKey) {
        self.delegating.remove(&key);
    }

    /// Adds a delegation.
    ///
    /// # Errors
    /// The resource, if there are too many states or the client is gone.
    pub fn add_delegation(&mut self, key: FileKey, is_write: bool, holds: D) -> Result<u64, D> {
        let delegation = DelegationState { is_write, holds: Some(holds) };
        match self.add(key, StateKind::Delegation(delegation)) {
            Ok(number) => {
                self.delegations.insert(key, number);
                Ok(number)
            }
            Err(StateKind::Delegation(DelegationState { holds: Some(holds), .. })) => Err(holds),
            Err(_) => unreachable!("what was to be added comes back"),
        }
    }

    /// The client's delegation on the file.
    #[must_use]
    pub fn delegation_of(&self, key: FileKey) -> Option<u64> {
        self.delegations.get(&key).copied()
    }

    /// Number of delegations that are not revoked.
    #[must_use]
    pub fn delegation_count(&self) -> usize {
        self.delegations.len()
    }

    /// Resource of a delegation, unless it is revoked.
    #[must_use]
    pub fn delegation(&self, number: u64) -> Option<&D> {
        match &self.states.get(&number)?.kind {
            StateKind::Delegation(delegation) => delegation.holds.as_ref(),
            _ => None,
        }
    }

    /// See [`States::delegation`].
    pub fn delegation_mut(&mut self, number: u64) -> Option<&mut D> {
        match &mut self.states.get_mut(&number)?.kind {
            StateKind::Delegation(delegation) => delegation.holds.as_mut(),
            _ => None,
        }
    }

    /// The delegation behind a state id.
    ///
    /// # Errors
    /// As [`States::find`]; BAD_STATEID for another kind of state.
    pub fn find_delegation(&self, id: &StateId) -> Result<(u64, &D), NfsStatus> {
        let number = self.find(id)?;
        self.delegation(number).map(|held| (number, held)).ok_or(NfsStatus::BAD_STATEID)
    }

    /// Revokes a delegation. Returns its resource.
    pub fn revoke(&mut self, number: u64) -> Option<D> {
        let StateidRecord { key, kind, .. } = self.states.get_mut(&number)?;
        let StateKind::Delegation(delegation) = kind else { return None };
        let holds = delegation.holds.take()?;
        self.delegations.remove(key);
        self.revoked_count += 1;
        Some(holds)
    }

    /// Undoes the state of an OPEN that failed after all: removes a new state, or steps back the
    /// sequence number of an advanced one.
    pub fn undo_open(&mut self, id: &StateId) -> EndedStates<O, D> {
        match self.find(id) {
            Ok(number) if id.seqid == 1 => return self.remove(number),
            Ok(number) => {
                if let Some(state) = self.states.get_mut(&number) {
                    state.seqid -= 1;
                }
            }
            // A later request has advanced it again.
            Err(_) => {}
        }
        EndedStates::nothing()
    }

    /// Removes a state; with an open also the locks that belong to it.
    pub fn remove(&mut self, number: u64) -> EndedStates<O, D> {
        let mut ended = EndedStates::nothing();
        let Some(state) = self.states.remove(&number) else { return ended };
        match state.kind {
            StateKind::Open(open) => {
                self.owner_bytes -= open.owner.len();
                self.opens.remove(&(state.key, open.owner));
                ended.opens.push(open.holds);
                for lock in self.locks_by(number) {
                    let EndedStates { lock_owners, .. } = self.remove(lock);
                    ended.lock_owners.extend(lock_owners);
                }
            }
            StateKind::Lock(lock) => {
                self.owner_bytes -= lock.owner.len();
                self.locks.remove(&(state.key, lock.owner.clone()));
                ended.lock_owners.push((state.key, lock.owner));
            }
            StateKind::Delegation(delegation) => match delegation.holds {
                Some(holds) => {
                    self.delegations.remove(&state.key);
                    ended.delegations.push(holds);
                }
                None => self.revoked_count -= 1,
            },
        }
        ended
    }

    /// The locks that belong to an open.
    fn locks_by(&self, open: u64) -> Vec<u64> {
        let is_by = |state: &StateidRecord<O, D>| matches!(&state.kind, StateKind::Lock(lock) if lock.open == open);
        self.states.iter().filter(|(_, state)| is_by(state)).map(|(number, _)| *number).collect()
    }

    /// Removes all states. Requests in flight can add none any more.
    pub fn end(&mut self) -> EndedStates<O, D> {
        self.has_ended = true;
        self.opens.clear();
        self.locks.clear();
        self.delegations.clear();
        (self.revoked_count, self.owner_bytes) = (0, 0);
        let mut ended = EndedStates::nothing();
        for (_, state) in self.states.drain() {
            match state.kind {
                StateKind::Open(open) => ended.opens.push(open.holds),
                StateKind::Lock(lock) => ended.lock_owners.push((state.key, lock.owner)),
                StateKind::Delegation(delegation) => ended.delegations.extend(delegation.holds),
            }
        }
        ended
    }

    /// Result of TEST_STATEID for a state id. RFC 8881 18.48.
    #[must_use]
    pub fn test(&self, id: &StateId) -> NfsStatus {
        if id.is_special() {
            return NfsStatus::BAD_STATEID;
        }
        self.find(id).err().unwrap_or(NfsStatus::OK)
    }

    /// Frees a state without resources. RFC 8881 18.38.
    ///
    /// # Errors
    /// As [`States::find`], except for revoked ones; LOCKS_HELD if the state has resources.
    pub fn free(&mut self, id: &StateId) -> Result<(), NfsStatus> {
        let number = match self.find(id) {
            Err(NfsStatus::DELEG_REVOKED) => self.number(id)?,
            other => other?,
        };
        let state = self.states.get(&number).ok_or(NfsStatus::BAD_STATEID)?;
        let holds = match &state.kind {
            StateKind::Open(_) => true,
            StateKind::Lock(lock) => lock.is_locked,
            StateKind::Delegation(delegation) => delegation.holds.is_some(),
        };
        if holds {
            return Err(NfsStatus::LOCKS_HELD);
        }
        self.remove(number);
        Ok(())
    }
}

impl<O, D> StateidRecord<O, D> {
    fn is_revoked(&self) -> bool {
        matches!(&self.kind, StateKind::Delegation(DelegationState { holds: None, .. }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: FileKey = FileKey { device: 1, inode: 2 };
    const OTHER: FileKey = FileKey { device: 1, inode: 3 };
    const READ: ShareBits = ShareBits { access: 1, deny: 0 };

    type Bench = States<&'static str, &'static str>;

    fn open(owner: &[u8]) -> OpenState<&'static str> {
        OpenState { owner: owner.into(), share: READ, holds: "open" }
    }

    fn lock(owner: &[u8], open: u64) -> LockState {
        LockState { owner: owner.into(), open, is_locked: true }
    }

    #[test]
    fn current_and_zero_seqid_find_the_state() {
        let mut states = Bench::new(9);
        let number = states.add_open(FILE, open(b"a")).unwrap();
        let id = states.id(number);
        assert_eq!(id.seqid, 1);
        assert_eq!(states.find(&id), Ok(number));
        assert_eq!(states.find(&StateId { seqid: 0, ..id }), Ok(number));
        assert_eq!(states.find_open(&id).unwrap().0, number);
        assert_eq!(states.find_locks(&id).unwrap_err(), NfsStatus::BAD_STATEID, "no locks");
        assert_eq!(states.open_of(FILE, b"a"), Some(number));
        assert_eq!(states.open_of(FILE, b"b"), None);
    }

    #[test]
    fn older_seqid_is_old_and_newer_is_bad() {
        let mut states = Bench::new(9);
        let number = states.add_open(FILE, open(b"a")).unwrap();
        let first = states.id(number);
        let second = states.advance(number);
        assert_eq!(second.seqid, 2);
        assert_eq!(states.find(&first), Err(NfsStatus::OLD_STATEID));
        assert_eq!(states.find(&StateId { seqid: 3, ..first }), Err(NfsStatus::BAD_STATEID));
    }

    #[test]
    fn seqid_wraps_around_and_skips_zero() {
        let mut states = Bench::new(9);
        let number = states.add_open(FILE, open(b"a")).unwrap();
        states.get_mut(number).unwrap().seqid = u32::MAX;
        let last = states.id(number);
        assert_eq!(states.advance(number).seqid, 1);
        assert_eq!(states.find(&last), Err(NfsStatus::OLD_STATEID));
    }

    #[test]
    fn state_id_of_another_client_is_bad() {
        let (mut ours, mut theirs) = (Bench::new(1), Bench::new(2));
        let number = theirs.add_open(FILE, open(b"a")).unwrap();
        ours.add_open(FILE, open(b"a")).unwrap();
        assert_eq!(ours.find(&theirs.id(number)), Err(NfsStatus::BAD_STATEID));
    }

    #[test]
    fn removing_an_open_removes_its_locks() {
        let mut states = Bench::new(9);
        let first = states.add_open(FILE, open(b"a")).unwrap();
        let second = states.add_open(FILE, open(b"b")).unwrap();
        let by_first = states.add_lock(FILE, lock(b"x", first)).unwrap();
        let by_second = states.add_lock(FILE, lock(b"y", second)).unwrap();
        let id = states.id(by_first);
        let ended = states.remove(first);
        assert_eq!(ended.opens, ["open"]);
        assert_eq!(ended.lock_owners, [(FILE, Owner::from(&b"x"[..]))]);
        assert_eq!(states.find(&id), Err(NfsStatus::BAD_STATEID));
        assert_eq!(states.locks_of(FILE, b"y"), Some(by_second));
        assert_eq!(states.len(), 2);
        assert!(states.holds(FILE) && !states.holds(OTHER));
    }

    #[test]
    fn owner_string_is_stored_once_and_counted() {
        let mut states = Bench::new(9);
        let (opener, locker) = (open(&[1; 1000]), lock(&[2; 24], 1));
        let strings = [opener.owner.clone(), locker.owner.clone()];
        let opened = states.add_open(FILE, opener).unwrap();
        let locked = states.add_lock(FILE, locker).unwrap();
        states.add_delegation(FILE, true, "delegation").unwrap();
        assert_eq!(states.owner_bytes(), 1024);
        let counts = strings.each_ref().map(Arc::strong_count);
        assert_eq!(counts, [3, 3], "here, in the state, and as the key that it is found by");
        states.remove(locked);
        assert_eq!(states.owner_bytes(), 1000);
        states.remove(opened);
        assert_eq!(states.owner_bytes(), 0);
        states.add_open(FILE, open(b"again")).unwrap();
        states.end();
        assert_eq!(states.owner_bytes(), 0);
    }

    #[test]
    fn state_with_resources_is_not_freed() {
        let mut states = Bench::new(9);
        let opened = states.add_open(FILE, open(b"a")).unwrap();
        let locked = states.add_lock(FILE, lock(b"x", opened)).unwrap();
        let delegated = states.add_delegation(FILE, true, "delegation").unwrap();
        for number in [opened, locked, delegated] {
            let id = states.id(number);
            assert_eq!(states.free(&id), Err(NfsStatus::LOCKS_HELD));
        }
        states.set_locked(locked, false);
        let id = states.id(locked);
        assert_eq!(states.free(&id), Ok(()));
        assert_eq!(states.free(&id), Err(NfsStatus::BAD_STATEID));
        assert_eq!(states.locks_of(FILE, b"x"), None);
    }

    #[test]
    fn concurrent_opens_get_one_delegation() {
        let mut states = Bench::new(9);
        assert!(states.begin_delegation(FILE));
        assert!(!states.begin_delegation(FILE), "another is at it");
        assert!(states.begin_delegation(OTHER));
        let number = states.add_delegation(FILE, false, "held").unwrap();
        states.end_begun_delegation(FILE);
        assert!(!states.begin_delegation(FILE), "it is delegated");
        states.remove(number);
        assert!(states.begin_delegation(FILE));
    }

    #[test]
    fn revoked_delegation_is_reported_until_freed() {
        let mut states = Bench::new(9);
        let number = states.add_delegation(FILE, false, "delegation").unwrap();
        let id = states.id(number);
        assert_eq!(states.test(&id), NfsStatus::OK);
        assert_eq!(states.delegation_of(FILE), Some(number));
        assert_eq!(states.find_delegation(&id), Ok((number, &"delegation")));
        assert_eq!(states.revoke(number), Some("delegation"));
        assert_eq!((states.delegation_of(FILE), states.delegation_count()), (None, 0));
        assert_eq!(states.find_delegation(&id), Err(NfsStatus::DELEG_REVOKED));
        assert_eq!(states.revoke(number), None, "once");
        assert_eq!(states.test(&id), NfsStatus::DELEG_REVOKED);
        assert!(states.has_revoked());
        assert_eq!(states.free(&id), Ok(()));
        assert!(!states.has_revoked());
        assert_eq!(states.test(&id), NfsStatus::BAD_STATEID);
    }

    #[test]
    fn special_state_ids_find_no_state() {
        let states = Bench::new(0);
        for id in [StateId::ANONYMOUS, StateId::READ_BYPASS, StateId::CURRENT] {
            assert_eq!(states.test(&id), NfsStatus::BAD_STATEID);
            assert_eq!(states.find(&id), Err(NfsStatus::BAD_STATEID));
        }
    }

    #[test]
    fn ending_all_states_returns_all_resources() {
        let mut states = Bench::new(9);
        let number = states.add_open(FILE, open(b"a")).unwrap();
        states.add_lock(FILE, lock(b"x", number)).unwrap();
        let delegation = states.add_delegation(OTHER, true, "gone").unwrap();
        states.add_delegation(FILE, true, "delegation").unwrap();
        states.revoke(delegation);
        let ended = states.end();
        assert_eq!((ended.opens, ended.delegations), (vec!["open"], vec!["delegation"]));
        assert_eq!(ended.lock_owners.len(), 1);
        assert!(states.is_empty() && !states.has_revoked());
        assert_eq!(states.open_of(FILE, b"a"), None);
    }

    #[test]
    fn failed_open_is_undone_unless_state_advanced_again() {
        let mut states = Bench::new(9);
        let number = states.add_open(FILE, open(b"a")).unwrap();
        let first = states.id(number);
        assert_eq!(states.undo_open(&first).opens, ["open"]);
        assert!(states.is_empty());
        let number = states.add_open(FILE, open(b"a")).unwrap();
        let first = states.id(number);
        let second = states.advance(number);
        assert!(states.undo_open(&second).opens.is_empty());
        assert_eq!(states.id(number), first);
        let second = states.advance(number);
        let third = states.advance(number);
        states.undo_open(&second);
        assert_eq!(states.id(number), third);
    }

    #[test]
    fn ended_states_accept_no_additions() {
        let mut states = Bench::new(9);
        let number = states.add_open(FILE, open(b"a")).unwrap();
        states.end();
        assert_eq!(states.add_open(FILE, open(b"a")), Err("open"));
        assert_eq!(states.add_lock(FILE, lock(b"x", number)), Err(NfsStatus::RESOURCE));
        assert_eq!(states.add_delegation(FILE, true, "delegation"), Err("delegation"));
        assert!(states.is_empty());
    }
}
