//! Detects contradictions between what different clients know for certain, independently of the
//! server's implementation.
//!
//! The referee knows no messages. A client's state is certain from the reply that grants it until
//! the client gives it up. It is possible while the client may still have it unknowingly.

use std::collections::BTreeMap;

/// Access and share bits of an open.
#[allow(missing_docs, reason = "the names say it")]
pub mod kinds {
    pub const READ: u8 = 1;
    pub const WRITE: u8 = 2;
    pub const ALL: u8 = 7;
}

/// Caching rights, as in leases.
#[allow(missing_docs, reason = "the names say it")]
pub mod rights {
    pub const READ: u8 = 1;
    pub const HANDLE: u8 = 2;
    pub const WRITE: u8 = 4;
}

/// Number of an open in the simulation.
pub type HandleNumber = u32;

/// The file of an open whose client does not know the file yet.
pub const UNKNOWN: u32 = u32::MAX;

/// Owner of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefereeOwner {
    /// One open, with an oplock.
    Handle(HandleNumber),
    /// A client's lease key.
    Key(usize, u8),
}

/// Certainty that an open or lock exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// Its client uses it.
    Certain,
    /// Its client is absent, and the server must preserve it.
    Kept,
    /// It may exist.
    Possible,
    /// It ended in this step.
    Gone(u64),
}

impl Certainty {
    /// True if no conflicting state may exist.
    fn excludes(self) -> bool {
        matches!(self, Self::Certain | Self::Kept)
    }

    /// The certainty after doubt: a possible state does not become certain, and a gone one does not
    /// return.
    fn weakened_to(self, standing: Self) -> Self {
        match (self, standing) {
            (Self::Gone(_), _) | (Self::Possible, Self::Kept) => self,
            _ => standing,
        }
    }

    /// True if it may have existed at some time since the step.
    fn may_be_since(self, step: u64) -> bool {
        !matches!(self, Self::Gone(gone) if gone < step)
    }
}

/// One open.
#[derive(Clone, Copy, Debug)]
pub struct RefereeOpen {
    /// The file.
    pub file: u32,
    /// The owner whose caches do not conflict with it.
    pub owner: RefereeOwner,
    /// See [`kinds`].
    pub access: u8,
    /// See [`kinds`].
    pub share: u8,
    /// Certainty of its existence.
    pub standing: Certainty,
}

impl RefereeOpen {
    fn conflicts(&self, other: &Self) -> bool {
        self.access & !other.share != 0 || other.access & !self.share != 0
    }
}

/// An owner's cache of a file.
#[derive(Clone, Debug)]
pub struct CacheFact {
    /// The file.
    pub file: u32,
    /// See [`rights`].
    pub rights: u8,
    /// The client can rely on it.
    pub is_certain: bool,
    /// The last step in which the rights were confirmed.
    pub since: u64,
    /// Rights that a pending break leaves.
    pub breaking: Option<u8>,
    /// Earliest time of that break, in nanoseconds.
    break_sent_nanos: u64,
    /// A break for this reason is due.
    owed: Option<String>,
    /// Cached values, by cell.
    cells: BTreeMap<u8, u64>,
    /// End of the client's own writes in flight, by cell.
    unsure: BTreeMap<u8, u64>,
}

/// A byte-range lock.
#[derive(Clone, Copy, Debug)]
struct LockFact {
    handle: HandleNumber,
    file: u32,
    at: u8,
    is_exclusive: bool,
    standing: Certainty,
}

/// A value that was or may have been written.
#[derive(Clone, Copy, Debug)]
struct WriteFact {
    value: u64,
    sent_at: u64,
    answered: Option<u64>,
}

/// The clients' knowledge. Methods that detect a contradiction return its description.
#[derive(Debug, Default)]
pub struct Referee {
    opens: BTreeMap<HandleNumber, RefereeOpen>,
    caches: BTreeMap<RefereeOwner, CacheFact>,
    locks: Vec<LockFact>,
    writes: BTreeMap<(u32, u8), Vec<WriteFact>>,
}

impl Referee {
    /// An open is requested.
    pub fn ask_open(&mut self, handle: HandleNumber, fact: RefereeOpen) {
        self.opens.insert(handle, fact);
    }

    /// The open, if it was requested.
    pub fn open(&self, handle: HandleNumber) -> Option<&RefereeOpen> {
        self.opens.get(&handle)
    }

    /// The file of an open becomes known.
    pub fn turns_out(&mut self, handle: HandleNumber, file: u32, owner: RefereeOwner) {
        if let Some(open) = self.opens.get_mut(&handle) {
            (open.file, open.owner) = (file, owner);
        }
    }

    /// True if an open for which `counts` holds may be of the file, or of an unknown file.
    pub fn may_be_open(&self, file: u32, counts: impl Fn(HandleNumber) -> bool) -> bool {
        self.opens.iter().any(|(number, open)| {
            let is_it = [open.file, UNKNOWN].contains(&file) || open.file == UNKNOWN;
            is_it && counts(*number) && !matches!(open.standing, Certainty::Gone(_))
        })
    }

    /// Certain opens that conflict with this one.
    pub fn in_the_way(&self, handle: HandleNumber) -> impl Iterator<Item = HandleNumber> + '_ {
        let fact = self.opens.get(&handle).copied();
        let is_it = move |other: &RefereeOpen| {
            fact.is_some_and(|fact| other.file == fact.file && other.conflicts(&fact))
                && other.standing.excludes()
        };
        self.opens.iter().filter(move |(n, o)| **n != handle && is_it(o)).map(|(n, _)| *n)
    }

    /// Checks that a read delegation coexists with readers only, which deny nothing.
    ///
    /// # Errors
    /// Another open writes, or denies reading.
    pub fn check_delegations(&self, is_one: impl Fn(RefereeOwner) -> bool) -> Result<(), String> {
        for (owner, cache) in self.caches.iter().filter(|(owner, _)| is_one(**owner)) {
            let disturbs = |open: &&RefereeOpen| {
                let denies = open.share & kinds::READ == 0;
                open.file == cache.file
                    && open.owner != *owner
                    && open.standing.excludes()
                    && (denies || open.access & kinds::WRITE != 0)
            };
            let is_relied_on = cache.is_certain && cache.rights != 0;
            if let Some(open) = self.opens.values().find(|o| is_relied_on && disturbs(o)) {
                return Err(format!("caching: {owner:?} has {} beside {open:?}", cache.rights));
            }
        }
        Ok(())
    }

    /// An open is no longer under a lease.
    pub fn leave_key(&mut self, handle: HandleNumber) {
        if let Some(open) = self.opens.get_mut(&handle) {
            open.owner = RefereeOwner::Handle(handle);
        }
    }

    /// An open certainly exists.
    ///
    /// # Errors
    /// A conflicting open certainly exists, or another owner caches the file exclusively.
    pub fn confirm(&mut self, handle: HandleNumber, standing: Certainty) -> Result<(), String> {
        let Some(fact) = self.opens.get_mut(&handle) else { return Ok(()) };
        fact.standing = standing;
        let fact = *fact;
        let others = || self.opens.iter().filter(|(n, o)| **n != handle && o.file == fact.file);
        if let Some((other, _)) =
            others().find(|(_, other)| other.standing.excludes() && other.conflicts(&fact))
        {
            return Err(format!("share modes: {handle} is open beside {other}"));
        }
        let keeps_all = |(owner, cache): &(&RefereeOwner, &CacheFact)| {
            **owner != fact.owner
                && cache.file == fact.file
                && cache.is_certain
                && cache.rights & rights::WRITE != 0
        };
        match self.caches.iter().find(keeps_all) {
            Some((owner, _)) => {
                Err(format!("caching: {handle} is open although {owner:?} keeps all to itself"))
            }
            None => Ok(()),
        }
    }

    /// An open is no longer certain, nor is its state.
    pub fn mark_uncertain(&mut self, handle: HandleNumber, standing: Certainty) {
        let Some(open) = self.opens.get_mut(&handle) else { return };
        open.standing = open.standing.weakened_to(standing);
        for lock in self.locks.iter_mut().filter(|lock| lock.handle == handle) {
            lock.standing = lock.standing.weakened_to(standing);
        }
        if let Some(cache) = self.caches.get_mut(&RefereeOwner::Handle(handle)) {
            cache.is_certain = false;
            cache.owed = None;
        }
    }

    /// An open was refused with a sharing violation.
    ///
    /// # Errors
    /// No conflicting open can have existed since the request.
    pub fn refused_share(&self, handle: HandleNumber, sent_at: u64) -> Result<(), String> {
        let Some(fact) = self.opens.get(&handle) else { return Ok(()) };
        let in_the_way = |(number, other): (&HandleNumber, &RefereeOpen)| {
            *number != handle
                && (other.file == fact.file || other.file == UNKNOWN)
                && other.standing.may_be_since(sent_at)
                && other.conflicts(fact)
        };
        if self.opens.iter().any(in_the_way) {
            return Ok(());
        }
        Err(format!("share modes: {handle} was refused although nothing is in the way"))
    }

    /// An owner received these caching rights.
    ///
    /// # Errors
    /// The rights conflict with another's certain state, or the key is bound to another
    /// file that is still open.
    pub fn grant(
        &mut self,
        owner: RefereeOwner,
        file: u32,
        has: u8,
        now: u64,
    ) -> Result<(), String> {
        // A lease key without opens may be bound to another file.
        if let Some(before) = self.caches.get(&owner).map(|cache| cache.file)
            && before != file
        {
            let is_of = |o: &RefereeOpen| (o.owner, o.file) == (owner, before);
            if self.opens.values().any(|open| is_of(open) && open.standing.excludes()) {
                return Err(format!("caching: {owner:?} names {before}, and {file}"));
            }
            self.caches.remove(&owner);
        }
        let cache = self.caches.entry(owner).or_insert(CacheFact {
            file,
            rights: has,
            is_certain: true,
            since: now,
            breaking: None,
            break_sent_nanos: 0,
            owed: None,
            cells: BTreeMap::new(),
            unsure: BTreeMap::new(),
        });
        if !cache.is_certain || has & !cache.rights != 0 {
            cache.since = now;
            cache.cells.clear();
        }
        (cache.rights, cache.is_certain) = (has, true);
        let others = |(other, cache): &(&RefereeOwner, &CacheFact)| {
            **other != owner && cache.file == file && cache.is_certain && cache.rights != 0
        };
        for (other, cache) in self.caches.iter().filter(others) {
            if (has != 0 && cache.rights & rights::WRITE != 0) || has & rights::WRITE != 0 {
                return Err(format!("caching: {owner:?} has {has} beside {other:?}: {cache:?}"));
            }
        }
        Ok(())
    }

    /// An owner's cache, if it is known.
    pub fn cache(&self, owner: RefereeOwner) -> Option<&CacheFact> {
        self.caches.get(&owner)
    }

    /// An owner received a break to the rights `to`. `answers` is the earliest start of its time to
    /// answer; `None` if it need not answer.
    pub fn record_break(&mut self, owner: RefereeOwner, to: u8, answers: Option<u64>) {
        let Some(cache) = self.caches.get_mut(&owner) else { return };
        cache.owed = None;
        let Some(break_sent_nanos) = answers else {
            cache.rights &= to;
            return;
        };
        if cache.breaking.is_none() {
            cache.break_sent_nanos = break_sent_nanos;
        }
        cache.breaking = Some(to);
    }

    /// An owner has read a cell, and caches the value if it may.
    pub fn record_cached(&mut self, owner: RefereeOwner, cell: u8, value: u64, sent_at: u64) {
        let Some(cache) = self.caches.get_mut(&owner) else { return };
        let may = cache.is_certain && cache.rights & rights::READ != 0 && cache.since < sent_at;
        let is_sure = cache.unsure.get(&cell).is_none_or(|until| *until < sent_at);
        if may && is_sure && cache.breaking.is_none() {
            cache.cells.insert(cell, value);
        }
    }

    /// An owner writes a cell; its cached value is uncertain until then.
    pub fn write_own(&mut self, owner: RefereeOwner, cell: u8, until: u64) {
        if let Some(cache) = self.caches.get_mut(&owner) {
            cache.cells.remove(&cell);
            cache.unsure.insert(cell, until);
        }
    }

    /// Compares a file's contents with the caches while no request is in flight.
    ///
    /// # Errors
    /// A cached value differs.
    pub fn check_kept(&self, file: u32, found: impl Fn(u8) -> u64) -> Result<(), String> {
        let relies = |cache: &&CacheFact| {
            cache.file == file
                && cache.is_certain
                && cache.breaking.is_none()
                && cache.rights & rights::READ != 0
        };
        for (owner, cache) in self.caches.iter().filter(|(_, cache)| relies(cache)) {
            if let Some((cell, value)) = cache.cells.iter().find(|(c, v)| found(**c) != **v) {
                return Err(format!(
                    "caching: {owner:?} relies on {value} in {file}:{cell}, where {} is",
                    found(*cell)
                ));
            }
        }
        Ok(())
    }

    /// An owner gives up all rights except `keeps`.
    pub fn downgrade(&mut self, owner: RefereeOwner, keeps: u8) {
        if let Some(cache) = self.caches.get_mut(&owner) {
            cache.rights &= keeps;
            cache.breaking = None;
            cache.owed = None;
        }
    }

    /// An owner can no longer rely on its cache.
    pub fn invalidate_cache(&mut self, owner: RefereeOwner) {
        if let Some(cache) = self.caches.get_mut(&owner) {
            (cache.is_certain, cache.breaking, cache.owed) = (false, None, None);
        }
    }

    /// An owner received messages whose order it does not know.
    pub fn mark_order_unknown(&mut self, owner: RefereeOwner) {
        if let Some(cache) = self.caches.get_mut(&owner) {
            (cache.is_certain, cache.owed) = (false, None);
        }
    }

    /// An owner's cache has ended.
    pub fn drop_cache(&mut self, owner: RefereeOwner) {
        self.caches.remove(&owner);
    }

    /// Owners that have not answered a break sent by then may have lost their cache, from the time
    /// when a waiter exists. Other waiters may come later.
    pub fn mark_silent_uncertain(&mut self, sent_until_nanos: u64) {
        let is_late = |cache: &&mut CacheFact| {
            cache.breaking.is_some() && cache.break_sent_nanos <= sent_until_nanos
        };
        self.caches.values_mut().filter(is_late).for_each(|cache| cache.is_certain = false);
    }

    /// The owners that have not answered have exceeded their time.
    pub fn time_out(&mut self) -> usize {
        let silent = self.caches.values_mut().filter(|cache| cache.breaking.is_some());
        silent.map(|cache| (cache.is_certain, cache.breaking) = (false, None)).count()
    }

    /// True if a break of a cache of the file is outstanding.
    pub fn is_breaking(&self, file: u32) -> bool {
        self.caches.values().any(|cache| cache.file == file && cache.breaking.is_some())
    }

    /// True if an open of the file is preserved for an absent client.
    pub fn is_kept(&self, file: u32) -> bool {
        self.opens
            .values()
            .any(|o| o.file == file && matches!(o.standing, Certainty::Kept | Certainty::Possible))
    }

    /// `by` changed a file, as requested in that step: every owner that cached it throughout is due
    /// a break.
    pub fn expect_break(&mut self, by: RefereeOwner, file: u32, sent_at: u64, what: &str) {
        let others = self.caches.iter_mut().filter(|(owner, _)| **owner != by);
        for (_, cache) in others {
            let relies = cache.is_certain && cache.rights & rights::READ != 0;
            if cache.file == file && relies && cache.since < sent_at && cache.breaking.is_none() {
                cache.owed = Some(what.into());
            }
        }
    }

    /// Checks that all due breaks have arrived.
    ///
    /// # Errors
    /// A break has not arrived.
    pub fn check_notified(&self) -> Result<(), String> {
        match self.caches.iter().find_map(|(owner, cache)| Some((owner, cache.owed.as_ref()?))) {
            Some((owner, what)) => Err(format!("caching: {owner:?} was not notified of {what}")),
            None => Ok(()),
        }
    }

    /// A lock is requested.
    pub fn ask_lock(&mut self, handle: HandleNumber, at: u8, is_exclusive: bool) {
        let file = self.opens.get(&handle).map_or(u32::MAX, |open| open.file);
        let standing = Certainty::Possible;
        self.locks.push(LockFact { handle, file, at, is_exclusive, standing });
    }

    /// A lock is certainly held.
    ///
    /// # Errors
    /// A conflicting lock is held.
    pub fn confirm_lock(&mut self, handle: HandleNumber, at: u8) -> Result<(), String> {
        let own = |lock: &&mut LockFact| lock.handle == handle && lock.at == at;
        let Some(lock) = self.locks.iter_mut().rfind(own) else { return Ok(()) };
        lock.standing = Certainty::Certain;
        let lock = *lock;
        let conflicts = |other: &&LockFact| {
            other.handle != handle
                && (other.file, other.at) == (lock.file, at)
                && other.standing.excludes()
                && (other.is_exclusive || lock.is_exclusive)
        };
        match self.locks.iter().find(conflicts) {
            Some(other) => Err(format!("locks: {lock:?} is held beside {other:?}")),
            None => Ok(()),
        }
    }

    /// A lock is no longer certain, or has ended.
    pub fn mark_lock_uncertain(&mut self, handle: HandleNumber, at: u8, standing: Certainty) {
        let own = |lock: &&mut LockFact| lock.handle == handle && lock.at == at;
        let live = |lock: &&mut LockFact| !matches!(lock.standing, Certainty::Gone(_));
        if let Some(lock) = self.locks.iter_mut().filter(own).rfind(live) {
            lock.standing = standing;
        }
    }

    /// Other clients' certain locks that prevent an open's read or write, by index.
    pub fn held_against(&self, handle: HandleNumber, at: u8, writes: bool) -> Vec<usize> {
        let file = self.opens.get(&handle).map_or(UNKNOWN, |open| open.file);
        let is_it = |lock: &LockFact| {
            lock.handle != handle
                && (lock.file, lock.at) == (file, at)
                && lock.standing.excludes()
                && (writes || lock.is_exclusive)
        };
        let locks = self.locks.iter().enumerate().filter(|(_, lock)| is_it(lock));
        locks.map(|(place, _)| place).collect()
    }

    /// The open of a lock, if the lock is still certain.
    pub fn still_held(&self, place: usize) -> Option<HandleNumber> {
        self.locks.get(place).filter(|l| l.standing.excludes()).map(|l| l.handle)
    }

    /// A lock, or an operation that a lock prevents, was refused; `own` locks may conflict, too.
    ///
    /// # Errors
    /// No conflicting lock can have existed.
    pub fn refused_lock(
        &self,
        handle: HandleNumber,
        at: u8,
        sent_at: u64,
        own: bool,
    ) -> Result<(), String> {
        let Some(file) = self.opens.get(&handle).map(|open| open.file) else { return Ok(()) };
        let in_the_way = |lock: &LockFact| {
            (own || lock.handle != handle)
                && (lock.file, lock.at) == (file, at)
                && lock.standing.may_be_since(sent_at)
        };
        if self.locks.iter().any(in_the_way) {
            return Ok(());
        }
        Err(format!("locks: {handle} was refused {at} although nobody holds it"))
    }

    /// A write is requested. Its value is unique.
    pub fn ask_write(&mut self, file: u32, cell: u8, value: u64, sent_at: u64) {
        let write = WriteFact { value, sent_at, answered: None };
        self.writes.entry((file, cell)).or_default().push(write);
    }

    /// A write was acknowledged.
    pub fn wrote(&mut self, file: u32, cell: u8, value: u64, now: u64) {
        let writes = self.writes.entry((file, cell)).or_default();
        if let Some(write) = writes.iter_mut().find(|write| write.value == value) {
            write.answered = Some(now);
        }
    }

    /// A cell held `value`, or was empty.
    ///
    /// # Errors
    /// The value misses a write that was acknowledged before the request.
    pub fn read(
        &self,
        file: u32,
        cell: u8,
        value: u64,
        sent_at: u64,
        now: u64,
    ) -> Result<(), String> {
        let none = Vec::new();
        let writes = self.writes.get(&(file, cell)).unwrap_or(&none);
        let found = writes.iter().find(|write| write.value == value);
        let began = match found {
            Some(write) if write.sent_at <= now => write.answered,
            // The initial value.
            None if value == 0 => Some(0),
            _ => return Err(format!("data: {value} was read, which nobody wrote")),
        };
        let lost = |write: &&WriteFact| {
            let follows = began.is_some_and(|ended| ended < write.sent_at);
            write.value != value && follows && write.answered.is_some_and(|at| at < sent_at)
        };
        match writes.iter().find(lost) {
            Some(lost) => Err(format!("data: {lost:?} is lost: {value} was read of {file}:{cell}")),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(file: u32, handle: u32, access: u8, share: u8) -> RefereeOpen {
        let owner = RefereeOwner::Handle(handle);
        RefereeOpen { file, owner, access, share, standing: Certainty::Possible }
    }

    fn two(share: u8) -> Referee {
        let mut referee = Referee::default();
        referee.ask_open(1, fact(0, 1, kinds::WRITE, kinds::ALL));
        referee.ask_open(2, fact(0, 2, kinds::READ, share));
        referee.confirm(1, Certainty::Certain).unwrap();
        referee
    }

    #[test]
    fn conflicting_opens_are_detected() {
        assert!(two(kinds::ALL).confirm(2, Certainty::Certain).is_ok());
        assert!(two(kinds::READ).confirm(2, Certainty::Certain).unwrap_err().contains("share"));
        let mut kept = two(kinds::READ);
        kept.mark_uncertain(1, Certainty::Kept);
        assert!(kept.confirm(2, Certainty::Certain).is_err(), "kept for who is away");
        kept.mark_uncertain(1, Certainty::Possible);
        assert!(kept.confirm(2, Certainty::Certain).is_ok(), "nobody is sure of it");
    }

    #[test]
    fn refusal_without_a_conflict_is_detected() {
        let mut referee = two(kinds::READ);
        assert!(referee.refused_share(2, 5).is_ok());
        referee.mark_uncertain(1, Certainty::Gone(4));
        assert!(referee.refused_share(2, 4).is_ok(), "it may have been there");
        assert!(referee.refused_share(2, 5).unwrap_err().contains("nothing is in the way"));
    }

    #[test]
    fn two_exclusive_caches_are_detected() {
        for (first, second, goes) in [(7, 1, false), (7, 0, true), (3, 3, true), (1, 7, false)] {
            let mut referee = Referee::default();
            referee.grant(RefereeOwner::Key(0, 1), 9, first, 1).unwrap();
            assert_eq!(
                referee.grant(RefereeOwner::Key(1, 1), 9, second, 2).is_ok(),
                goes,
                "{second}"
            );
            assert!(referee.grant(RefereeOwner::Key(2, 1), 8, 7, 2).is_ok(), "another file");
        }
        let mut moved = two(kinds::ALL);
        moved.grant(RefereeOwner::Handle(1), 0, 1, 1).unwrap();
        assert!(
            moved.grant(RefereeOwner::Handle(1), 3, 1, 2).unwrap_err().contains("names 0, and 3")
        );
        moved.mark_uncertain(1, Certainty::Possible);
        moved.grant(RefereeOwner::Handle(1), 3, 1, 2).unwrap();
        moved.expect_break(RefereeOwner::Key(9, 9), 0, 3, "a write to the first");
        moved.check_notified().unwrap();
        let mut referee = two(kinds::ALL);
        referee.grant(RefereeOwner::Handle(1), 0, 7, 1).unwrap();
        assert!(referee.confirm(2, Certainty::Certain).unwrap_err().contains("keeps all"));
        referee.record_break(RefereeOwner::Handle(1), 1, Some(0));
        assert!(referee.confirm(2, Certainty::Certain).is_err(), "it has not answered");
        referee.downgrade(RefereeOwner::Handle(1), 1);
        assert!(referee.confirm(2, Certainty::Certain).is_ok());
    }

    #[test]
    fn missing_break_after_a_change_is_detected() {
        let mut referee = Referee::default();
        referee.grant(RefereeOwner::Key(0, 1), 9, 1, 5).unwrap();
        referee.expect_break(RefereeOwner::Key(0, 1), 9, 6, "its own");
        referee.expect_break(RefereeOwner::Key(1, 1), 9, 5, "what may have been before");
        referee.check_notified().unwrap();
        referee.expect_break(RefereeOwner::Key(1, 1), 9, 6, "a write");
        assert!(referee.check_notified().unwrap_err().contains("not notified of a write"));
        referee.record_break(RefereeOwner::Key(0, 1), 0, None);
        referee.check_notified().unwrap();
    }

    #[test]
    fn stale_cached_data_is_detected() {
        let mut referee = Referee::default();
        let owner = RefereeOwner::Key(0, 1);
        referee.grant(owner, 9, 1, 5).unwrap();
        referee.record_cached(owner, 0, 7, 5);
        referee.check_kept(9, |_| 8).unwrap();
        referee.record_cached(owner, 0, 7, 6);
        referee.check_kept(9, |_| 7).unwrap();
        assert!(referee.check_kept(9, |_| 8).unwrap_err().contains("relies on 7"));
        referee.write_own(owner, 0, u64::MAX);
        referee.record_cached(owner, 0, 7, 9);
        referee.check_kept(9, |_| 8).unwrap();
        referee.write_own(owner, 0, 9);
        referee.record_cached(owner, 0, 7, 10);
        assert!(referee.check_kept(9, |_| 8).is_err());
        referee.record_break(owner, 0, None);
        referee.check_kept(9, |_| 8).unwrap();
    }

    #[test]
    fn only_silent_owners_may_lose_their_cache() {
        let mut referee = two(kinds::ALL);
        referee.grant(RefereeOwner::Key(0, 1), 9, 7, 5).unwrap();
        referee.record_break(RefereeOwner::Key(0, 1), 3, Some(100));
        // A repeated break does not restart its time.
        referee.record_break(RefereeOwner::Key(0, 1), 3, Some(200));
        let file = referee.open(1).unwrap().file;
        let owner = RefereeOwner::Handle(1);
        referee.ask_open(3, RefereeOpen { file: 9, owner, ..*referee.open(1).unwrap() });
        assert_ne!(file, 9);
        referee.mark_silent_uncertain(99);
        assert!(referee.confirm(3, Certainty::Certain).unwrap_err().contains("keeps all"));
        referee.mark_silent_uncertain(100);
        referee.confirm(3, Certainty::Certain).unwrap();
        assert!(referee.is_breaking(9), "others may wait for it still");
    }

    #[test]
    fn conflicting_and_leftover_locks_are_detected() {
        let mut referee = two(kinds::ALL);
        referee.confirm(2, Certainty::Certain).unwrap();
        referee.ask_lock(1, 3, false);
        referee.confirm_lock(1, 3).unwrap();
        referee.ask_lock(2, 3, true);
        assert!(referee.refused_lock(2, 3, 9, false).is_ok());
        assert!(referee.confirm_lock(2, 3).unwrap_err().contains("beside"));
        referee.mark_lock_uncertain(1, 3, Certainty::Gone(4));
        referee.confirm_lock(2, 3).unwrap();
        assert!(referee.refused_lock(2, 3, 9, false).unwrap_err().contains("nobody holds it"));
    }

    #[test]
    fn writer_beside_a_read_delegation_is_detected() {
        let mut referee = two(kinds::ALL);
        referee.confirm(2, Certainty::Certain).unwrap();
        referee.grant(RefereeOwner::Key(5, 0), 0, rights::READ, 1).unwrap();
        referee.check_delegations(|_| false).unwrap();
        assert!(referee.check_delegations(|_| true).unwrap_err().contains("beside"));
        referee.mark_uncertain(1, Certainty::Gone(4));
        referee.check_delegations(|_| true).unwrap();
        assert!(referee.may_be_open(0, |_| true) && !referee.may_be_open(0, |one| one == 1));
    }

    #[test]
    fn exclusive_lock_prevents_reads_until_unlocked() {
        let mut referee = two(kinds::ALL);
        referee.confirm(2, Certainty::Certain).unwrap();
        referee.ask_lock(1, 3, false);
        assert!(referee.held_against(2, 3, true).is_empty(), "nobody is sure of it");
        referee.confirm_lock(1, 3).unwrap();
        assert!(referee.held_against(2, 3, false).is_empty(), "it is shared");
        let held = referee.held_against(2, 3, true);
        assert_eq!(held.iter().filter_map(|at| referee.still_held(*at)).next(), Some(1));
        referee.mark_lock_uncertain(1, 3, Certainty::Possible);
        assert_eq!(referee.still_held(held[0]), None);
    }

    #[test]
    fn lost_write_is_detected_but_write_in_flight_is_optional() {
        let mut referee = Referee::default();
        referee.ask_write(0, 0, 11, 1);
        for seen in [0, 11] {
            referee.read(0, 0, seen, 2, 3).unwrap();
        }
        referee.wrote(0, 0, 11, 4);
        assert!(referee.read(0, 0, 0, 5, 6).unwrap_err().contains("is lost"));
        referee.ask_write(0, 0, 12, 7);
        referee.wrote(0, 0, 12, 8);
        assert!(referee.read(0, 0, 11, 9, 9).unwrap_err().contains("is lost"));
        referee.read(0, 0, 11, 8, 9).unwrap();
        assert!(referee.read(0, 0, 13, 9, 9).unwrap_err().contains("nobody wrote"));
    }
}
