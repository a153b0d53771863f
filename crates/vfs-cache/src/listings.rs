//! What directories list, with the attributes of what is in them.
//!
//! A listing is kept from the second time on that it is asked for, if nothing was done to the
//! directory's names since the first (a folder that is being filled is not worth it), in chunks as
//! clients ask for them, and forgotten with the first change in its directory: the backend
//! tells of one change and no more ([`vfs::ListingFeed`]). What changes unheard is
//! never kept ([`crate::records`]), or for so long only as [`AGE_TICKS_MAX`] says. Pure
//! bookkeeping, as [`crate::directories`].

use crate::counters::Counters;
use crate::records::Chunk;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use vfs::{FileKey, FollowId, Identity, KeyedBuildHasher, Name};

/// Ticks that a listing is kept, whatever its use: the bound of what is not heard.
const AGE_TICKS_MAX: u8 = 5;
/// Bytes of a listing beside its chunks: entries of tables, the backend's mark.
const LISTING_BYTES: usize = 1024;
/// Users who are known to be shown what is in a directory, and those who may list it.
const USERS_MAX: usize = 8;
/// Directories of which it is remembered that they were listed: one of several with one number.
const SEEN_SLOTS: usize = 1 << 12;
/// Listings after which one is kept again that was of no use last time, at most.
const WAIT_MAX: u8 = 32;

#[derive(Debug)]
struct Listing {
    follow: FollowId,
    chunks: Vec<Arc<Chunk>>,
    /// All of the directory is there.
    is_whole: bool,
    /// Cookies grow, so that they can be searched for.
    is_sorted: bool,
    /// The chunk that was asked for last: who lists goes on there or in the next.
    latest: usize,
    searchers: Vec<Identity>,
    /// Who has opened it for listing since it is followed: it would be heard if that were no
    /// longer allowed.
    readers: Vec<Identity>,
    age_ticks: u8,
    /// How often it was told from its beginning.
    uses: u64,
    last_used: u64,
    charged_bytes: usize,
}

/// How often a directory is to be listed before its listing is kept.
#[derive(Clone, Copy, Debug, Default)]
struct Sighting {
    number: u32,
    left: u8,
    wait: u8,
    /// Of the directory's change attribute when it was listed last.
    change: u16,
}

/// What is known of a part of a listing.
#[derive(Debug)]
pub enum Found {
    /// From this entry of it on; whether it is the last chunk of all.
    Chunk(Arc<Chunk>, usize, bool),
    /// It is not known whether the user may see it: whoever may look at this name may.
    Ask(Name, FollowId),
    /// It ends here, and can be made longer.
    End(Ticket),
    /// There is none.
    Nothing,
}

/// Leave to make a listing longer.
#[derive(Clone, Copy, Debug)]
pub struct Ticket {
    pub key: FileKey,
    follow: FollowId,
    /// By which cookie it goes on.
    start: u64,
}

/// All listings that are kept.
#[derive(Debug)]
pub struct Listings {
    counters: Arc<Counters>,
    budget_bytes: usize,
    listings_max: usize,
    by_key: HashMap<FileKey, Listing, KeyedBuildHasher>,
    by_follow: HashMap<FollowId, FileKey, KeyedBuildHasher>,
    uses: u64,
    bytes: usize,
    unfollow: Vec<FollowId>,
    hasher: KeyedBuildHasher,
    seen: Box<[Sighting]>,
}

impl Listing {
    /// Where to go on: a chunk and a place in it, or past the last.
    fn place_of(&self, cookie: u64) -> Option<(usize, usize)> {
        if cookie == 0 {
            return Some((0, 0));
        }
        let first = match self.is_sorted {
            true => self.chunks.partition_point(|chunk| chunk.end() < Some(cookie)),
            false => 0,
        };
        let of_chunk = |(number, chunk): (usize, &Arc<Chunk>)| {
            chunk.place_after(cookie, self.is_sorted).map(|at| (number, at))
        };
        let (number, at) = match self.is_sorted {
            true => of_chunk((first, self.chunks.get(first)?)),
            false => {
                let (before, from) = self.chunks.split_at(self.latest.min(self.chunks.len()));
                let from = from.iter().zip(self.latest..).map(|(chunk, number)| (number, chunk));
                from.chain(before.iter().enumerate()).find_map(of_chunk)
            }
        }?;
        let is_through = at == self.chunks[number].len();
        Some(if is_through { (number + 1, 0) } else { (number, at) })
    }

    fn end(&self) -> u64 {
        self.chunks.last().and_then(|chunk| chunk.end()).unwrap_or(0)
    }

    fn bytes(&self) -> usize {
        let chunks: usize = self.chunks.iter().map(|chunk| chunk.bytes()).sum();
        let users = || self.searchers.iter().chain(&self.readers);
        let groups: usize = users().map(|who| 4 * who.groups.len()).sum();
        LISTING_BYTES + chunks + groups + users().count() * size_of::<Identity>()
    }
}

impl Listings {
    pub fn new(
        counters: Arc<Counters>,
        hasher: KeyedBuildHasher,
        budget_bytes: usize,
        listings_max: usize,
    ) -> Self {
        Self {
            counters,
            budget_bytes,
            listings_max,
            by_key: HashMap::with_hasher(hasher.clone()),
            by_follow: HashMap::with_hasher(hasher.clone()),
            uses: 0,
            bytes: 0,
            unfollow: Vec::new(),
            hasher,
            seen: vec![Sighting::default(); SEEN_SLOTS].into(),
        }
    }

    /// Bytes that are taken.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Nothing is kept: nothing can have changed.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Bytes that one listing may take at most.
    pub fn budget_bytes(&self) -> usize {
        self.budget_bytes
    }

    pub fn set_budget(&mut self, budget_bytes: usize) {
        self.budget_bytes = budget_bytes;
        self.clear();
    }

    /// Which directory is to be followed no longer.
    pub fn poll_unfollow(&mut self) -> Option<FollowId> {
        self.unfollow.pop()
    }

    /// What is known of a directory's listing from a cookie on.
    pub fn find(&mut self, key: FileKey, cookie: u64, who: &Identity) -> Found {
        let Some(listing) = self.by_key.get_mut(&key) else { return Found::Nothing };
        self.uses += 1;
        listing.last_used = self.uses;
        if cookie == listing.end() && !listing.is_whole {
            let follow = listing.follow;
            return Found::End(Ticket { key, follow, start: cookie });
        }
        let Some((number, at)) = listing.place_of(cookie) else { return Found::Nothing };
        listing.latest = number;
        if !listing.searchers.contains(who) {
            let first = listing.chunks.first().and_then(|chunk| chunk.get(0));
            let name = first.and_then(|entry| Name::new(entry.name).ok());
            return name.map_or(Found::Nothing, |name| Found::Ask(name, listing.follow));
        }
        // Who goes on with it has not come for it again.
        listing.uses += u64::from(cookie == 0);
        self.counters.listings.hit();
        let last = listing.chunks.len() - 1;
        // Past the end: nothing more of the last.
        let (number, at) =
            if number > last { (last, listing.chunks[last].len()) } else { (number, at) };
        let is_last = number == last && listing.is_whole;
        Found::Chunk(listing.chunks[number].clone(), at, is_last)
    }

    /// The same for who has it not open, and may list it.
    pub fn find_for_reader(&mut self, key: FileKey, cookie: u64, who: &Identity) -> Found {
        let is_reader = |listing: &Listing| listing.readers.contains(who);
        match self.by_key.get(&key).is_some_and(is_reader) {
            true => self.find(key, cookie, who),
            false => Found::Nothing,
        }
    }

    /// By what a directory's listing is followed, if it is kept.
    pub fn follow_of(&self, key: FileKey) -> Option<FollowId> {
        self.by_key.get(&key).map(|listing| listing.follow)
    }

    /// Whether a directory that is listed from its beginning, and has this change attribute now,
    /// has been listed often enough, the last time as it is now.
    pub fn is_worth_keeping(&mut self, key: FileKey, change: u64) -> bool {
        let change = self.hasher.hash_one(change) as u16;
        let seen = self.sighting(key);
        let is_same = std::mem::replace(&mut seen.change, change) == change;
        if seen.left > 1 || is_same {
            seen.left = seen.left.saturating_sub(1);
        }
        seen.left == 0
    }

    /// A directory is followed from now on, and about to be listed.
    pub fn begin(&mut self, key: FileKey, follow: FollowId) -> Ticket {
        self.give_up(key);
        while self.by_key.len() >= self.listings_max && self.evict_one(key) {}
        let listing = Listing {
            follow,
            chunks: Vec::new(),
            is_whole: false,
            is_sorted: true,
            latest: 0,
            searchers: Vec::new(),
            readers: Vec::new(),
            age_ticks: 0,
            uses: 0,
            last_used: self.uses,
            charged_bytes: LISTING_BYTES,
        };
        self.bytes += LISTING_BYTES;
        self.by_key.insert(key, listing);
        self.by_follow.insert(follow, key);
        Ticket { key, follow, start: 0 }
    }

    /// `who` was shown these entries; with `is_end` there are no more.
    pub fn append(&mut self, ticket: &Ticket, who: &Identity, chunks: Vec<Chunk>, is_end: bool) {
        let Some(listing) = self.by_key.get_mut(&ticket.key) else { return };
        // Others may have been quicker, or it is another one by now.
        let fits = listing.follow == ticket.follow && listing.end() == ticket.start;
        if !fits || listing.is_whole {
            return;
        }
        for mut chunk in chunks.into_iter().filter(|chunk| chunk.len() > 0) {
            listing.is_sorted &= chunk.grows_from(listing.end());
            let last = listing.chunks.last_mut().map(Arc::make_mut);
            if !last.is_some_and(|last| last.append(&chunk)) {
                chunk.shrink();
                listing.chunks.push(Arc::new(chunk));
            }
        }
        // Where there is nothing nobody can be seen to be let through.
        listing.is_whole = is_end && !listing.chunks.is_empty();
        self.note_searcher(ticket.key, ticket.follow, who);
        self.recharge(ticket.key);
    }

    /// `who` may look at what is in the directory.
    pub fn note_searcher(&mut self, key: FileKey, follow: FollowId, who: &Identity) {
        let Some(listing) = self.by_key.get_mut(&key) else { return };
        if listing.follow == follow
            && !listing.chunks.is_empty()
            && note_user(&mut listing.searchers, who)
        {
            self.recharge(key);
        }
    }

    /// `who` has opened a directory for listing that was followed before.
    pub fn note_reader(&mut self, key: FileKey, follow: FollowId, who: &Identity) {
        let Some(listing) = self.by_key.get_mut(&key) else { return };
        if listing.follow == follow && note_user(&mut listing.readers, who) {
            self.recharge(key);
        }
    }

    /// A directory has changed and is followed no longer; none: any may have.
    pub fn handle_change(&mut self, follow: Option<FollowId>) {
        let Some(follow) = follow else {
            self.counters.listings.invalidated();
            return self.clear();
        };
        let Some(key) = self.by_follow.get(&follow).copied() else { return };
        self.counters.listings.invalidated();
        self.give_up(key);
    }

    /// Time has passed.
    pub fn handle_tick(&mut self) {
        self.by_key.values_mut().for_each(|listing| listing.age_ticks += 1);
        let old = self.by_key.iter().filter(|(_, listing)| listing.age_ticks > AGE_TICKS_MAX);
        let old: Vec<FileKey> = old.map(|(key, _)| *key).collect();
        old.into_iter().for_each(|key| self.give_up(key));
    }

    /// Keeps nothing any more.
    pub fn clear(&mut self) {
        let keys: Vec<FileKey> = self.by_key.keys().copied().collect();
        keys.into_iter().for_each(|key| self.give_up(key));
    }

    fn recharge(&mut self, key: FileKey) {
        let Some(listing) = self.by_key.get_mut(&key) else { return };
        let bytes = listing.bytes();
        self.bytes = self.bytes - listing.charged_bytes + bytes;
        listing.charged_bytes = bytes;
        while self.bytes > self.budget_bytes && self.evict_one(key) {}
        if self.bytes > self.budget_bytes {
            self.counters.listings.evicted();
            self.give_up(key);
            let seen = self.sighting(key);
            (seen.left, seen.wait) = (WAIT_MAX, WAIT_MAX);
        }
    }

    /// Gives up the one that was not used for longest, but for `keep`.
    fn evict_one(&mut self, keep: FileKey) -> bool {
        let others = self.by_key.iter().filter(|(key, _)| **key != keep);
        let oldest = others.min_by_key(|(_, listing)| listing.last_used).map(|(key, _)| *key);
        let Some(oldest) = oldest else { return false };
        self.counters.listings.evicted();
        self.give_up(oldest);
        true
    }

    fn give_up(&mut self, key: FileKey) {
        let Some(gone) = self.by_key.remove(&key) else { return };
        self.bytes -= gone.charged_bytes;
        self.by_follow.remove(&gone.follow);
        self.unfollow.push(gone.follow);
        let seen = self.sighting(key);
        seen.wait = if gone.uses > 0 { 0 } else { seen.wait.saturating_mul(2).clamp(1, WAIT_MAX) };
        seen.left = seen.wait;
    }

    fn sighting(&mut self, key: FileKey) -> &mut Sighting {
        let hash = self.hasher.hash_one(key);
        let (slot, number) = (hash as usize % SEEN_SLOTS, (hash >> 32) as u32);
        let sighting = &mut self.seen[slot];
        if sighting.number != number {
            *sighting = Sighting { number, left: 2, wait: 0, change: 0 };
        }
        sighting
    }
}

/// Notes a user, for whom the one gives way who was noted first; whether they are new.
fn note_user(users: &mut Vec<Identity>, who: &Identity) -> bool {
    if users.contains(who) {
        return false;
    }
    if users.len() == USERS_MAX {
        users.remove(0);
    }
    users.push(who.clone());
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::CHUNK_RECORDS_MAX;
    use vfs::ListedEntry;

    fn chunk_of_falling(count: u64, key: FileKey) -> Chunk {
        let mut chunk = Chunk::of(key.device);
        (0..count).for_each(|number| push_falling(&mut chunk, number, count));
        chunk
    }

    fn push_falling(chunk: &mut Chunk, number: u64, count: u64) {
        let name = number.to_string();
        let (inode, next) = (number + 1, count - number);
        chunk.push(&ListedEntry { name: name.as_bytes(), inode, attributes: None, next });
    }

    /// A listing of so many names, whose cookies fall as those of file systems in memory do.
    fn falling(count: u64, key: FileKey, who: &Identity) -> Listings {
        let mut listings = Listings::new(Arc::default(), KeyedBuildHasher::random(), 1 << 20, 8);
        let ticket = listings.begin(key, FollowId(1));
        let mut chunks = vec![Chunk::of(key.device)];
        for number in 0..count {
            if chunks.last().is_some_and(|chunk| chunk.len() == CHUNK_RECORDS_MAX) {
                chunks.push(Chunk::of(key.device));
            }
            push_falling(chunks.last_mut().unwrap(), number, count);
        }
        listings.append(&ticket, who, chunks, true);
        listings
    }

    #[test]
    fn a_listing_is_of_use_that_is_told_from_its_beginning() {
        let (key, who) = (FileKey { device: 1, inode: 2 }, Identity::root());
        // Listed from a cookie on and changed, by turns; how often it is listed until it is
        // kept again.
        let wait = |cookie: u64| {
            let mut listings = falling(10, key, &who);
            for turn in 1..=3 {
                assert!(matches!(listings.find(key, cookie, &who), Found::Chunk(..)));
                listings.handle_change(Some(FollowId(turn)));
                let ticket = listings.begin(key, FollowId(turn + 1));
                listings.append(&ticket, &who, vec![chunk_of_falling(10, key)], true);
            }
            listings.handle_change(Some(FollowId(4)));
            (1..=9).find(|_| listings.is_worth_keeping(key, 7))
        };
        // The first time it is not known to have been the same before.
        assert_eq!((wait(0), wait(5)), (Some(2), Some(8)));
    }

    #[test]
    fn a_directory_is_worth_keeping_that_was_the_same_when_it_was_listed_last() {
        let key = FileKey { device: 1, inode: 2 };
        let mut listings = Listings::new(Arc::default(), KeyedBuildHasher::by(1), 1 << 20, 8);
        let mut worth = |changes: &[u64]| -> Vec<bool> {
            changes.iter().map(|change| listings.is_worth_keeping(key, *change)).collect()
        };
        assert_eq!(worth(&[1, 2, 3, 4, 4]), [false, false, false, false, true]);
    }

    #[test]
    fn a_listing_whose_cookies_fall_goes_on_at_each_in_any_order() {
        let (key, who) = (FileKey { device: 1, inode: 2 }, Identity::root());
        let count = 3 * CHUNK_RECORDS_MAX as u64 + 7;
        let mut listings = falling(count, key, &who);
        // On and on, back, and to and fro.
        let orders = [(1..=count).rev().collect(), (1..=count).collect::<Vec<_>>()];
        let leaps = (1..=count).map(|n| 1 + n * 701 % count).collect();
        for cookie in orders.into_iter().chain([leaps]).flatten() {
            let Found::Chunk(chunk, at, is_last) = listings.find(key, cookie, &who) else {
                panic!("{cookie} is not found");
            };
            let next = chunk.get(at).map(|entry| entry.next);
            assert_eq!(next, (cookie > 1).then(|| cookie - 1), "behind {cookie}");
            assert_eq!(is_last, cookie <= 1 + count % CHUNK_RECORDS_MAX as u64);
        }
        assert!(matches!(listings.find(key, count + 1, &who), Found::Nothing));
    }
}
