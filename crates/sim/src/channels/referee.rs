//! What must never be seen by clients together, whatever the server does
//! inside: told what they know for certain, it finds what cannot be.
//!
//! Knows nothing of messages. Certain is what a client was told and has not
//! given up since; possible is what it may still have without knowing.

use std::collections::BTreeMap;

/// What an open is used for, what it lets others do: bits.
#[allow(missing_docs, reason = "the names say it")]
pub mod kinds {
    pub const READ: u8 = 1;
    pub const WRITE: u8 = 2;
    pub const ALL: u8 = 7;
}

/// What may be kept to oneself, as leases have it: bits.
#[allow(missing_docs, reason = "the names say it")]
pub mod rights {
    pub const READ: u8 = 1;
    pub const HANDLE: u8 = 2;
    pub const WRITE: u8 = 4;
}

/// Number of an open, as the simulation counts them.
pub type HandleNumber = u32;

/// The file of an open whose client has not been told which it is.
pub const UNKNOWN: u32 = u32::MAX;

/// Who keeps something to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Owner {
    /// One open, by an oplock.
    Handle(HandleNumber),
    /// A client, by the key of a lease.
    Key(usize, u8),
}

/// How sure it is that something is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Its client uses it.
    Certain,
    /// Its client is away, and it is kept against everyone.
    Kept,
    /// It may be there.
    Possible,
    /// It has gone, at this step.
    Gone(u64),
}

impl Standing {
    /// Nobody may have what does not go with it.
    fn excludes(self) -> bool {
        matches!(self, Self::Certain | Self::Kept)
    }

    /// What is only possible does not become certain by doubt, nor comes back.
    fn doubted(self, standing: Self) -> Self {
        match (self, standing) {
            (Self::Gone(_), _) | (Self::Possible, Self::Kept) => self,
            _ => standing,
        }
    }

    /// It may have been there at some time since.
    fn may_be_since(self, step: u64) -> bool {
        !matches!(self, Self::Gone(gone) if gone < step)
    }
}

/// One open.
#[derive(Clone, Copy, Debug)]
pub struct OpenFact {
    /// Of which file.
    pub file: u32,
    /// Whose caches do not disturb it.
    pub owner: Owner,
    /// See [`kinds`].
    pub access: u8,
    /// See [`kinds`].
    pub share: u8,
    /// Whether it is there.
    pub standing: Standing,
}

impl OpenFact {
    fn conflicts(&self, other: &Self) -> bool {
        self.access & !other.share != 0 || other.access & !self.share != 0
    }
}

/// What an owner keeps of a file.
#[derive(Clone, Debug)]
pub struct CacheFact {
    /// Of which file.
    pub file: u32,
    /// See [`rights`].
    pub rights: u8,
    /// Its client can rely on it.
    pub is_certain: bool,
    /// When it was known last to be so much.
    pub since: u64,
    /// It was asked to keep no more than this, and has not answered.
    pub breaking: Option<u8>,
    /// When it may have been asked for that, in nanoseconds.
    asked_nanos: u64,
    /// It must still be told of this.
    owed: Option<String>,
    /// What was read and is kept, by cell.
    cells: BTreeMap<u8, u64>,
    /// Until when own writes of a cell were under way.
    unsure: BTreeMap<u8, u64>,
}

/// A range that is locked.
#[derive(Clone, Copy, Debug)]
struct LockFact {
    handle: HandleNumber,
    file: u32,
    at: u8,
    is_exclusive: bool,
    standing: Standing,
}

/// A value that was, or may have been, written.
#[derive(Clone, Copy, Debug)]
struct WriteFact {
    value: u64,
    asked: u64,
    answered: Option<u64>,
}

/// What clients know. Every method that can find something wrong says what.
#[derive(Debug, Default)]
pub struct Referee {
    opens: BTreeMap<HandleNumber, OpenFact>,
    caches: BTreeMap<Owner, CacheFact>,
    locks: Vec<LockFact>,
    writes: BTreeMap<(u32, u8), Vec<WriteFact>>,
}

impl Referee {
    /// A CREATE is asked for.
    pub fn ask_open(&mut self, handle: HandleNumber, fact: OpenFact) {
        self.opens.insert(handle, fact);
    }

    /// The open, if it was ever asked for.
    pub fn open(&self, handle: HandleNumber) -> Option<&OpenFact> {
        self.opens.get(&handle)
    }

    /// Which file was opened is known once it is.
    pub fn turns_out(&mut self, handle: HandleNumber, file: u32, owner: Owner) {
        if let Some(open) = self.opens.get_mut(&handle) {
            (open.file, open.owner) = (file, owner);
        }
    }

    /// Whether anybody of those may have a file open, or any file if it is not known which.
    pub fn may_be_open(&self, file: u32, counts: impl Fn(HandleNumber) -> bool) -> bool {
        self.opens.iter().any(|(number, open)| {
            let is_it = [open.file, UNKNOWN].contains(&file) || open.file == UNKNOWN;
            is_it && counts(*number) && !matches!(open.standing, Standing::Gone(_))
        })
    }

    /// Opens that are there for certain and do not go with this one.
    pub fn in_the_way(&self, handle: HandleNumber) -> impl Iterator<Item = HandleNumber> + '_ {
        let fact = self.opens.get(&handle).copied();
        let is_it = move |other: &OpenFact| {
            fact.is_some_and(|fact| other.file == fact.file && other.conflicts(&fact))
                && other.standing.excludes()
        };
        self.opens.iter().filter(move |(n, o)| **n != handle && is_it(o)).map(|(n, _)| *n)
    }

    /// Who reads by a delegation is alone with those who read, too, and let it.
    ///
    /// # Errors
    /// If somebody writes, or denies reading.
    pub fn check_delegations(&self, is_one: impl Fn(Owner) -> bool) -> Result<(), String> {
        for (owner, cache) in self.caches.iter().filter(|(owner, _)| is_one(**owner)) {
            let disturbs = |open: &&OpenFact| {
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

    /// An open is not under a lease any more.
    pub fn leave_key(&mut self, handle: HandleNumber) {
        if let Some(open) = self.opens.get_mut(&handle) {
            open.owner = Owner::Handle(handle);
        }
    }

    /// An open is there for certain.
    ///
    /// # Errors
    /// If another is there for certain that does not go with it, or somebody keeps
    /// all of the file to itself.
    pub fn confirm(&mut self, handle: HandleNumber, standing: Standing) -> Result<(), String> {
        let Some(fact) = self.opens.get_mut(&handle) else { return Ok(()) };
        fact.standing = standing;
        let fact = *fact;
        let others = || self.opens.iter().filter(|(n, o)| **n != handle && o.file == fact.file);
        if let Some((other, _)) =
            others().find(|(_, other)| other.standing.excludes() && other.conflicts(&fact))
        {
            return Err(format!("share modes: {handle} is open beside {other}"));
        }
        let keeps_all = |(owner, cache): &(&Owner, &CacheFact)| {
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

    /// An open is not certain any more, nor is what came with it.
    pub fn doubt(&mut self, handle: HandleNumber, standing: Standing) {
        let Some(open) = self.opens.get_mut(&handle) else { return };
        open.standing = open.standing.doubted(standing);
        for lock in self.locks.iter_mut().filter(|lock| lock.handle == handle) {
            lock.standing = lock.standing.doubted(standing);
        }
        if let Some(cache) = self.caches.get_mut(&Owner::Handle(handle)) {
            cache.is_certain = false;
            cache.owed = None;
        }
    }

    /// Somebody was refused because of share modes.
    ///
    /// # Errors
    /// If nothing can have been in the way since it was asked.
    pub fn refused_share(&self, handle: HandleNumber, asked: u64) -> Result<(), String> {
        let Some(fact) = self.opens.get(&handle) else { return Ok(()) };
        let in_the_way = |(number, other): (&HandleNumber, &OpenFact)| {
            *number != handle
                && (other.file == fact.file || other.file == UNKNOWN)
                && other.standing.may_be_since(asked)
                && other.conflicts(fact)
        };
        if self.opens.iter().any(in_the_way) {
            return Ok(());
        }
        Err(format!("share modes: {handle} was refused although nothing is in the way"))
    }

    /// An owner was told that it has so much.
    ///
    /// # Errors
    /// If that does not go with what another has for certain, or it is of another file while
    /// its owner has the first one open.
    pub fn grant(&mut self, owner: Owner, file: u32, has: u8, now: u64) -> Result<(), String> {
        // A key that nothing is open under any more may come to be that of another file.
        if let Some(before) = self.caches.get(&owner).map(|cache| cache.file)
            && before != file
        {
            let is_of = |o: &OpenFact| (o.owner, o.file) == (owner, before);
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
            asked_nanos: 0,
            owed: None,
            cells: BTreeMap::new(),
            unsure: BTreeMap::new(),
        });
        if !cache.is_certain || has & !cache.rights != 0 {
            cache.since = now;
            cache.cells.clear();
        }
        (cache.rights, cache.is_certain) = (has, true);
        let others = |(other, cache): &(&Owner, &CacheFact)| {
            **other != owner && cache.file == file && cache.is_certain && cache.rights != 0
        };
        for (other, cache) in self.caches.iter().filter(others) {
            if (has != 0 && cache.rights & rights::WRITE != 0) || has & rights::WRITE != 0 {
                return Err(format!("caching: {owner:?} has {has} beside {other:?}: {cache:?}"));
            }
        }
        Ok(())
    }

    /// What an owner has, if anything is known of it.
    pub fn cache(&self, owner: Owner) -> Option<&CacheFact> {
        self.caches.get(&owner)
    }

    /// An owner was told to keep no more than `to`, and is to answer or not: within
    /// its time, which began at `asked_nanos` or later.
    pub fn tell(&mut self, owner: Owner, to: u8, answers: Option<u64>) {
        let Some(cache) = self.caches.get_mut(&owner) else { return };
        cache.owed = None;
        let Some(asked_nanos) = answers else {
            cache.rights &= to;
            return;
        };
        if cache.breaking.is_none() {
            cache.asked_nanos = asked_nanos;
        }
        cache.breaking = Some(to);
    }

    /// An owner has read a cell, and keeps it if it may.
    pub fn keep(&mut self, owner: Owner, cell: u8, value: u64, asked: u64) {
        let Some(cache) = self.caches.get_mut(&owner) else { return };
        let may = cache.is_certain && cache.rights & rights::READ != 0 && cache.since < asked;
        let is_sure = cache.unsure.get(&cell).is_none_or(|until| *until < asked);
        if may && is_sure && cache.breaking.is_none() {
            cache.cells.insert(cell, value);
        }
    }

    /// An owner writes a cell itself, and does not know more until then.
    pub fn write_own(&mut self, owner: Owner, cell: u8, until: u64) {
        if let Some(cache) = self.caches.get_mut(&owner) {
            cache.cells.remove(&cell);
            cache.unsure.insert(cell, until);
        }
    }

    /// Nothing is under way any more, and this is in a file.
    ///
    /// # Errors
    /// If somebody relies on something else.
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

    /// An owner gives back all but `keeps`.
    pub fn give_back(&mut self, owner: Owner, keeps: u8) {
        if let Some(cache) = self.caches.get_mut(&owner) {
            cache.rights &= keeps;
            cache.breaking = None;
            cache.owed = None;
        }
    }

    /// An owner cannot rely on anything any more.
    pub fn distrust(&mut self, owner: Owner) {
        if let Some(cache) = self.caches.get_mut(&owner) {
            (cache.is_certain, cache.breaking, cache.owed) = (false, None, None);
        }
    }

    /// An owner was told things of which it does not know what came first.
    pub fn confuse(&mut self, owner: Owner) {
        if let Some(cache) = self.caches.get_mut(&owner) {
            (cache.is_certain, cache.owed) = (false, None);
        }
    }

    /// Nothing is kept by an owner any more.
    pub fn forget(&mut self, owner: Owner) {
        self.caches.remove(&owner);
    }

    /// Who was asked by then and has not answered may have lost what it has, if that is
    /// since somebody waits for it. Others may have begun to wait later.
    pub fn doubt_silent(&mut self, asked_until_nanos: u64) {
        let is_late = |cache: &&mut CacheFact| {
            cache.breaking.is_some() && cache.asked_nanos <= asked_until_nanos
        };
        self.caches.values_mut().filter(is_late).for_each(|cache| cache.is_certain = false);
    }

    /// Those who were asked and have not answered have had their time.
    pub fn time_out(&mut self) -> usize {
        let silent = self.caches.values_mut().filter(|cache| cache.breaking.is_some());
        silent.map(|cache| (cache.is_certain, cache.breaking) = (false, None)).count()
    }

    /// Whether somebody who keeps something of a file was asked and has not answered.
    pub fn is_breaking(&self, file: u32) -> bool {
        self.caches.values().any(|cache| cache.file == file && cache.breaking.is_some())
    }

    /// Whether an open of a file is kept for a client that is away.
    pub fn is_kept(&self, file: u32) -> bool {
        self.opens
            .values()
            .any(|o| o.file == file && matches!(o.standing, Standing::Kept | Standing::Possible))
    }

    /// `by` has changed a file, asked for at that step: who relied on it all the
    /// while must hear of it.
    pub fn owe(&mut self, by: Owner, file: u32, asked: u64, what: &str) {
        let others = self.caches.iter_mut().filter(|(owner, _)| **owner != by);
        for (_, cache) in others {
            let relies = cache.is_certain && cache.rights & rights::READ != 0;
            if cache.file == file && relies && cache.since < asked && cache.breaking.is_none() {
                cache.owed = Some(what.into());
            }
        }
    }

    /// Nothing is under way any more.
    ///
    /// # Errors
    /// If somebody was not told.
    pub fn check_told(&self) -> Result<(), String> {
        match self.caches.iter().find_map(|(owner, cache)| Some((owner, cache.owed.as_ref()?))) {
            Some((owner, what)) => Err(format!("caching: {owner:?} was not told of {what}")),
            None => Ok(()),
        }
    }

    /// A lock is asked for.
    pub fn ask_lock(&mut self, handle: HandleNumber, at: u8, is_exclusive: bool) {
        let file = self.opens.get(&handle).map_or(u32::MAX, |open| open.file);
        let standing = Standing::Possible;
        self.locks.push(LockFact { handle, file, at, is_exclusive, standing });
    }

    /// A lock is held for certain.
    ///
    /// # Errors
    /// If another is held that does not go with it.
    pub fn confirm_lock(&mut self, handle: HandleNumber, at: u8) -> Result<(), String> {
        let own = |lock: &&mut LockFact| lock.handle == handle && lock.at == at;
        let Some(lock) = self.locks.iter_mut().rfind(own) else { return Ok(()) };
        lock.standing = Standing::Certain;
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

    /// A lock is not certain any more, or has gone.
    pub fn doubt_lock(&mut self, handle: HandleNumber, at: u8, standing: Standing) {
        let own = |lock: &&mut LockFact| lock.handle == handle && lock.at == at;
        let live = |lock: &&mut LockFact| !matches!(lock.standing, Standing::Gone(_));
        if let Some(lock) = self.locks.iter_mut().filter(own).rfind(live) {
            lock.standing = standing;
        }
    }

    /// Locks by others that are held for certain, and keep an open from reading a range, or from
    /// writing it: each by its place.
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

    /// The open of a lock, if it is held for certain still.
    pub fn still_held(&self, place: usize) -> Option<HandleNumber> {
        self.locks.get(place).filter(|l| l.standing.excludes()).map(|l| l.handle)
    }

    /// A lock was refused, or what it forbids; `own` ones may be in the way, too.
    ///
    /// # Errors
    /// If nothing can have been in the way.
    pub fn refused_lock(
        &self,
        handle: HandleNumber,
        at: u8,
        asked: u64,
        own: bool,
    ) -> Result<(), String> {
        let Some(file) = self.opens.get(&handle).map(|open| open.file) else { return Ok(()) };
        let in_the_way = |lock: &LockFact| {
            (own || lock.handle != handle)
                && (lock.file, lock.at) == (file, at)
                && lock.standing.may_be_since(asked)
        };
        if self.locks.iter().any(in_the_way) {
            return Ok(());
        }
        Err(format!("locks: {handle} was refused {at} although nobody holds it"))
    }

    /// A write is asked for. Its value is its own.
    pub fn ask_write(&mut self, file: u32, cell: u8, value: u64, asked: u64) {
        let write = WriteFact { value, asked, answered: None };
        self.writes.entry((file, cell)).or_default().push(write);
    }

    /// A write was acknowledged.
    pub fn wrote(&mut self, file: u32, cell: u8, value: u64, now: u64) {
        let writes = self.writes.entry((file, cell)).or_default();
        if let Some(write) = writes.iter_mut().find(|write| write.value == value) {
            write.answered = Some(now);
        }
    }

    /// A cell was found to hold `value`, or nothing yet.
    ///
    /// # Errors
    /// If a write that was acknowledged before it was asked for is not in it.
    pub fn read(
        &self,
        file: u32,
        cell: u8,
        value: u64,
        asked: u64,
        now: u64,
    ) -> Result<(), String> {
        let none = Vec::new();
        let writes = self.writes.get(&(file, cell)).unwrap_or(&none);
        let found = writes.iter().find(|write| write.value == value);
        let began = match found {
            Some(write) if write.asked <= now => write.answered,
            // As it was made.
            None if value == 0 => Some(0),
            _ => return Err(format!("data: {value} was read, which nobody wrote")),
        };
        let lost = |write: &&WriteFact| {
            let follows = began.is_some_and(|ended| ended < write.asked);
            write.value != value && follows && write.answered.is_some_and(|at| at < asked)
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

    fn fact(file: u32, handle: u32, access: u8, share: u8) -> OpenFact {
        let owner = Owner::Handle(handle);
        OpenFact { file, owner, access, share, standing: Standing::Possible }
    }

    fn two(share: u8) -> Referee {
        let mut referee = Referee::default();
        referee.ask_open(1, fact(0, 1, kinds::WRITE, kinds::ALL));
        referee.ask_open(2, fact(0, 2, kinds::READ, share));
        referee.confirm(1, Standing::Certain).unwrap();
        referee
    }

    #[test]
    fn two_opens_that_do_not_go_together_are_found() {
        assert!(two(kinds::ALL).confirm(2, Standing::Certain).is_ok());
        assert!(two(kinds::READ).confirm(2, Standing::Certain).unwrap_err().contains("share"));
        let mut kept = two(kinds::READ);
        kept.doubt(1, Standing::Kept);
        assert!(kept.confirm(2, Standing::Certain).is_err(), "kept for who is away");
        kept.doubt(1, Standing::Possible);
        assert!(kept.confirm(2, Standing::Certain).is_ok(), "nobody is sure of it");
    }

    #[test]
    fn a_refusal_without_a_reason_is_found() {
        let mut referee = two(kinds::READ);
        assert!(referee.refused_share(2, 5).is_ok());
        referee.doubt(1, Standing::Gone(4));
        assert!(referee.refused_share(2, 4).is_ok(), "it may have been there");
        assert!(referee.refused_share(2, 5).unwrap_err().contains("nothing is in the way"));
    }

    #[test]
    fn two_who_keep_what_only_one_can_are_found() {
        for (first, second, goes) in [(7, 1, false), (7, 0, true), (3, 3, true), (1, 7, false)] {
            let mut referee = Referee::default();
            referee.grant(Owner::Key(0, 1), 9, first, 1).unwrap();
            assert_eq!(referee.grant(Owner::Key(1, 1), 9, second, 2).is_ok(), goes, "{second}");
            assert!(referee.grant(Owner::Key(2, 1), 8, 7, 2).is_ok(), "another file");
        }
        let mut moved = two(kinds::ALL);
        moved.grant(Owner::Handle(1), 0, 1, 1).unwrap();
        assert!(moved.grant(Owner::Handle(1), 3, 1, 2).unwrap_err().contains("names 0, and 3"));
        moved.doubt(1, Standing::Possible);
        moved.grant(Owner::Handle(1), 3, 1, 2).unwrap();
        moved.owe(Owner::Key(9, 9), 0, 3, "a write to the first");
        moved.check_told().unwrap();
        let mut referee = two(kinds::ALL);
        referee.grant(Owner::Handle(1), 0, 7, 1).unwrap();
        assert!(referee.confirm(2, Standing::Certain).unwrap_err().contains("keeps all"));
        referee.tell(Owner::Handle(1), 1, Some(0));
        assert!(referee.confirm(2, Standing::Certain).is_err(), "it has not answered");
        referee.give_back(Owner::Handle(1), 1);
        assert!(referee.confirm(2, Standing::Certain).is_ok());
    }

    #[test]
    fn who_relied_on_data_that_has_changed_and_is_not_told_is_found() {
        let mut referee = Referee::default();
        referee.grant(Owner::Key(0, 1), 9, 1, 5).unwrap();
        referee.owe(Owner::Key(0, 1), 9, 6, "its own");
        referee.owe(Owner::Key(1, 1), 9, 5, "what may have been before");
        referee.check_told().unwrap();
        referee.owe(Owner::Key(1, 1), 9, 6, "a write");
        assert!(referee.check_told().unwrap_err().contains("not told of a write"));
        referee.tell(Owner::Key(0, 1), 0, None);
        referee.check_told().unwrap();
    }

    #[test]
    fn who_relies_on_what_is_not_there_any_more_is_found() {
        let mut referee = Referee::default();
        let owner = Owner::Key(0, 1);
        referee.grant(owner, 9, 1, 5).unwrap();
        referee.keep(owner, 0, 7, 5);
        referee.check_kept(9, |_| 8).unwrap();
        referee.keep(owner, 0, 7, 6);
        referee.check_kept(9, |_| 7).unwrap();
        assert!(referee.check_kept(9, |_| 8).unwrap_err().contains("relies on 7"));
        referee.write_own(owner, 0, u64::MAX);
        referee.keep(owner, 0, 7, 9);
        referee.check_kept(9, |_| 8).unwrap();
        referee.write_own(owner, 0, 9);
        referee.keep(owner, 0, 7, 10);
        assert!(referee.check_kept(9, |_| 8).is_err());
        referee.tell(owner, 0, None);
        referee.check_kept(9, |_| 8).unwrap();
    }

    #[test]
    fn who_may_have_been_silent_for_too_long_may_have_lost_it_and_nobody_else() {
        let mut referee = two(kinds::ALL);
        referee.grant(Owner::Key(0, 1), 9, 7, 5).unwrap();
        referee.tell(Owner::Key(0, 1), 3, Some(100));
        // Told once more: its time began before.
        referee.tell(Owner::Key(0, 1), 3, Some(200));
        let file = referee.open(1).unwrap().file;
        let owner = Owner::Handle(1);
        referee.ask_open(3, OpenFact { file: 9, owner, ..*referee.open(1).unwrap() });
        assert_ne!(file, 9);
        referee.doubt_silent(99);
        assert!(referee.confirm(3, Standing::Certain).unwrap_err().contains("keeps all"));
        referee.doubt_silent(100);
        referee.confirm(3, Standing::Certain).unwrap();
        assert!(referee.is_breaking(9), "others may wait for it still");
    }

    #[test]
    fn two_locks_that_do_not_go_together_and_one_that_stays_are_found() {
        let mut referee = two(kinds::ALL);
        referee.confirm(2, Standing::Certain).unwrap();
        referee.ask_lock(1, 3, false);
        referee.confirm_lock(1, 3).unwrap();
        referee.ask_lock(2, 3, true);
        assert!(referee.refused_lock(2, 3, 9, false).is_ok());
        assert!(referee.confirm_lock(2, 3).unwrap_err().contains("beside"));
        referee.doubt_lock(1, 3, Standing::Gone(4));
        referee.confirm_lock(2, 3).unwrap();
        assert!(referee.refused_lock(2, 3, 9, false).unwrap_err().contains("nobody holds it"));
    }

    #[test]
    fn who_writes_beside_a_delegation_to_read_is_found() {
        let mut referee = two(kinds::ALL);
        referee.confirm(2, Standing::Certain).unwrap();
        referee.grant(Owner::Key(5, 0), 0, rights::READ, 1).unwrap();
        referee.check_delegations(|_| false).unwrap();
        assert!(referee.check_delegations(|_| true).unwrap_err().contains("beside"));
        referee.doubt(1, Standing::Gone(4));
        referee.check_delegations(|_| true).unwrap();
        assert!(referee.may_be_open(0, |_| true) && !referee.may_be_open(0, |one| one == 1));
    }

    #[test]
    fn what_keeps_from_reading_is_held_until_it_is_given_back() {
        let mut referee = two(kinds::ALL);
        referee.confirm(2, Standing::Certain).unwrap();
        referee.ask_lock(1, 3, false);
        assert!(referee.held_against(2, 3, true).is_empty(), "nobody is sure of it");
        referee.confirm_lock(1, 3).unwrap();
        assert!(referee.held_against(2, 3, false).is_empty(), "it is shared");
        let held = referee.held_against(2, 3, true);
        assert_eq!(held.iter().filter_map(|at| referee.still_held(*at)).next(), Some(1));
        referee.doubt_lock(1, 3, Standing::Possible);
        assert_eq!(referee.still_held(held[0]), None);
    }

    #[test]
    fn a_lost_write_is_found_and_one_under_way_may_be_seen_or_not() {
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
