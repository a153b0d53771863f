//! Cache of directory listings, with the attributes of their entries.
//!
//! A listing is cached from its second request on, if the names have not changed since the first. A
//! directory that is being filled is not worthwhile. It is cached in chunks, as clients request
//! them. The first change in the directory invalidates it, because the feed reports only one
//! ([`vfs::ListingFeed`]). Attributes whose changes are not reported are never cached
//! ([`crate::records`]), or only for [`AGE_TICKS_MAX`]. Pure bookkeeping, as
//! [`crate::directories`].

use crate::counters::CacheCounters;
use crate::records::Chunk;
use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;
use vfs::{FileKey, FollowId, Identity, KeyedBuildHasher, Name};

/// Longest life of a listing in ticks: the bound on staleness from unreported changes.
const AGE_TICKS_MAX: u8 = 5;
/// Bytes of a listing beside its chunks: table entries, and the kernel's watch.
const LISTING_BYTES: usize = 1024;
/// Users with a known permission to search or to read a directory, each.
const USERS_MAX: usize = 8;
/// Slots of listing histories; directories that share a slot replace each other.
const HISTORY_SLOTS: usize = 1 << 12;
/// Most listings to skip before one without earlier use is cached again.
const WAIT_MAX: u8 = 32;

#[derive(Debug)]
struct CachedListing {
    follow: FollowId,
    chunks: Vec<Arc<Chunk>>,
    /// The listing is complete.
    is_whole: bool,
    /// Cookies increase, so that binary search works.
    is_sorted: bool,
    /// Chunk of the latest request: the next one is likely in it or behind it.
    latest: usize,
    searchers: Vec<Identity>,
    /// Users that have opened the directory for listing since it is followed. The feed would report
    /// a withdrawn permission.
    readers: Vec<Identity>,
    age_ticks: u8,
    /// Number of uses from the beginning.
    uses: u64,
    last_used: u64,
    charged_bytes: usize,
}

/// History of a directory: listings to skip before it is cached.
#[derive(Clone, Copy, Debug, Default)]
struct ListingHistory {
    number: u32,
    left: u8,
    wait: u8,
    /// Hash of the change attribute at the latest listing.
    change: u16,
}

/// Result of a lookup.
#[derive(Debug)]
pub enum ListingLookup {
    /// Chunk, first entry in it, and whether it is the last chunk.
    Chunk(Arc<Chunk>, usize, bool),
    /// The user's search permission is unknown; a stat of this name determines it.
    Ask(Name, FollowId),
    /// The cached part ends here and can be extended.
    End(AppendTicket),
    /// Nothing is cached.
    Nothing,
}

/// Permission to extend a cached listing.
#[derive(Clone, Copy, Debug)]
pub struct AppendTicket {
    pub key: FileKey,
    follow: FollowId,
    /// Cookie at which it is extended.
    start: u64,
}

/// All cached listings.
#[derive(Debug)]
pub struct ListingCache {
    counters: Arc<CacheCounters>,
    budget_bytes: usize,
    listings_max: usize,
    by_key: HashMap<FileKey, CachedListing, KeyedBuildHasher>,
    by_follow: HashMap<FollowId, FileKey, KeyedBuildHasher>,
    uses: u64,
    bytes: usize,
    unfollow: Vec<FollowId>,
    hasher: KeyedBuildHasher,
    histories: Box<[ListingHistory]>,
}

impl CachedListing {
    /// Chunk and entry behind a cookie, or past the last chunk.
    fn position_after(&self, cookie: u64) -> Option<(usize, usize)> {
        if cookie == 0 {
            return Some((0, 0));
        }
        let first = match self.is_sorted {
            true => self.chunks.partition_point(|chunk| chunk.end() < Some(cookie)),
            false => 0,
        };
        let of_chunk = |(number, chunk): (usize, &Arc<Chunk>)| {
            chunk.index_after(cookie, self.is_sorted).map(|at| (number, at))
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
        let groups: usize = users().map(|user| 4 * user.groups.len()).sum();
        LISTING_BYTES + chunks + groups + users().count() * size_of::<Identity>()
    }
}

impl ListingCache {
    pub fn new(
        counters: Arc<CacheCounters>,
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
            histories: vec![ListingHistory::default(); HISTORY_SLOTS].into(),
        }
    }

    /// Bytes in use.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether no listing is cached.
    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// Most bytes of one listing.
    pub fn budget_bytes(&self) -> usize {
        self.budget_bytes
    }

    pub fn set_budget(&mut self, budget_bytes: usize) {
        self.budget_bytes = budget_bytes;
        self.clear();
    }

    /// Takes a directory to unfollow.
    pub fn poll_unfollow(&mut self) -> Option<FollowId> {
        self.unfollow.pop()
    }

    /// Looks up a directory's listing from a cookie on.
    pub fn find(&mut self, key: FileKey, cookie: u64, user: &Identity) -> ListingLookup {
        let Some(listing) = self.by_key.get_mut(&key) else { return ListingLookup::Nothing };
        self.uses += 1;
        listing.last_used = self.uses;
        if cookie == listing.end() && !listing.is_whole {
            let follow = listing.follow;
            return ListingLookup::End(AppendTicket { key, follow, start: cookie });
        }
        let Some((number, at)) = listing.position_after(cookie) else {
            return ListingLookup::Nothing;
        };
        listing.latest = number;
        if !listing.searchers.contains(user) {
            let first = listing.chunks.first().and_then(|chunk| chunk.get(0));
            let name = first.and_then(|entry| Name::new(entry.name).ok());
            return name
                .map_or(ListingLookup::Nothing, |name| ListingLookup::Ask(name, listing.follow));
        }
        // Only a listing from the beginning counts as a use.
        listing.uses += u64::from(cookie == 0);
        self.counters.listings.hit();
        let last = listing.chunks.len() - 1;
        // Past the end: an empty rest of the last chunk.
        let (number, at) =
            if number > last { (last, listing.chunks[last].len()) } else { (number, at) };
        let is_last = number == last && listing.is_whole;
        ListingLookup::Chunk(listing.chunks[number].clone(), at, is_last)
    }

    /// As [`ListingCache::find`], for a user that has not opened the directory but may list it.
    pub fn find_for_reader(&mut self, key: FileKey, cookie: u64, user: &Identity) -> ListingLookup {
        let is_reader = |listing: &CachedListing| listing.readers.contains(user);
        match self.by_key.get(&key).is_some_and(is_reader) {
            true => self.find(key, cookie, user),
            false => ListingLookup::Nothing,
        }
    }

    /// Feed number of a cached listing.
    pub fn follow_of(&self, key: FileKey) -> Option<FollowId> {
        self.by_key.get(&key).map(|listing| listing.follow)
    }

    /// Whether to cache a directory that is listed from its beginning with this change attribute:
    /// it has been listed often enough, the last time unchanged.
    pub fn is_worth_caching(&mut self, key: FileKey, change: u64) -> bool {
        let change = self.hasher.hash_one(change) as u16;
        let histories = self.history(key);
        let is_same = std::mem::replace(&mut histories.change, change) == change;
        if histories.left > 1 || is_same {
            histories.left = histories.left.saturating_sub(1);
        }
        histories.left == 0
    }

    /// Starts the listing of a directory that is now followed.
    pub fn begin(&mut self, key: FileKey, follow: FollowId) -> AppendTicket {
        self.drop_listing(key);
        while self.by_key.len() >= self.listings_max && self.evict_one(key) {}
        let listing = CachedListing {
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
        AppendTicket { key, follow, start: 0 }
    }

    /// Adds entries that `user` has received; with `is_end` the listing is complete.
    pub fn append(
        &mut self,
        ticket: &AppendTicket,
        user: &Identity,
        chunks: Vec<Chunk>,
        is_end: bool,
    ) {
        let Some(listing) = self.by_key.get_mut(&ticket.key) else { return };
        // Another thread may have extended or replaced the listing.
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
        // An empty directory has no name to determine search permission with.
        listing.is_whole = is_end && !listing.chunks.is_empty();
        self.note_searcher(ticket.key, ticket.follow, user);
        self.recharge(ticket.key);
    }

    /// Notes that `user` has search permission on the directory.
    pub fn note_searcher(&mut self, key: FileKey, follow: FollowId, user: &Identity) {
        let Some(listing) = self.by_key.get_mut(&key) else { return };
        if listing.follow == follow
            && !listing.chunks.is_empty()
            && note_user(&mut listing.searchers, user)
        {
            self.recharge(key);
        }
    }

    /// Notes that `user` has opened the directory for listing after it was followed.
    pub fn note_reader(&mut self, key: FileKey, follow: FollowId, user: &Identity) {
        let Some(listing) = self.by_key.get_mut(&key) else { return };
        if listing.follow == follow && note_user(&mut listing.readers, user) {
            self.recharge(key);
        }
    }

    /// Invalidates the listing of a changed directory; with None all listings.
    pub fn handle_change(&mut self, follow: Option<FollowId>) {
        let Some(follow) = follow else {
            self.counters.listings.invalidated();
            return self.clear();
        };
        let Some(key) = self.by_follow.get(&follow).copied() else { return };
        self.counters.listings.invalidated();
        self.drop_listing(key);
    }

    /// Ages all listings by one tick.
    pub fn handle_tick(&mut self) {
        self.by_key.values_mut().for_each(|listing| listing.age_ticks += 1);
        let old = self.by_key.iter().filter(|(_, listing)| listing.age_ticks > AGE_TICKS_MAX);
        let old: Vec<FileKey> = old.map(|(key, _)| *key).collect();
        old.into_iter().for_each(|key| self.drop_listing(key));
    }

    /// Drops all listings.
    pub fn clear(&mut self) {
        let keys: Vec<FileKey> = self.by_key.keys().copied().collect();
        keys.into_iter().for_each(|key| self.drop_listing(key));
    }

    fn recharge(&mut self, key: FileKey) {
        let Some(listing) = self.by_key.get_mut(&key) else { return };
        let bytes = listing.bytes();
        self.bytes = self.bytes - listing.charged_bytes + bytes;
        listing.charged_bytes = bytes;
        while self.bytes > self.budget_bytes && self.evict_one(key) {}
        if self.bytes > self.budget_bytes {
            self.counters.listings.evicted();
            self.drop_listing(key);
            let histories = self.history(key);
            (histories.left, histories.wait) = (WAIT_MAX, WAIT_MAX);
        }
    }

    /// Evicts the least recently used listing other than `keep`.
    fn evict_one(&mut self, keep: FileKey) -> bool {
        let others = self.by_key.iter().filter(|(key, _)| **key != keep);
        let oldest = others.min_by_key(|(_, listing)| listing.last_used).map(|(key, _)| *key);
        let Some(oldest) = oldest else { return false };
        self.counters.listings.evicted();
        self.drop_listing(oldest);
        true
    }

    fn drop_listing(&mut self, key: FileKey) {
        let Some(gone) = self.by_key.remove(&key) else { return };
        self.bytes -= gone.charged_bytes;
        self.by_follow.remove(&gone.follow);
        self.unfollow.push(gone.follow);
        let histories = self.history(key);
        histories.wait =
            if gone.uses > 0 { 0 } else { histories.wait.saturating_mul(2).clamp(1, WAIT_MAX) };
        histories.left = histories.wait;
    }

    fn history(&mut self, key: FileKey) -> &mut ListingHistory {
        let hash = self.hasher.hash_one(key);
        let (slot, number) = (hash as usize % HISTORY_SLOTS, (hash >> 32) as u32);
        let history = &mut self.histories[slot];
        if history.number != number {
            *history = ListingHistory { number, left: 2, wait: 0, change: 0 };
        }
        history
    }
}

/// Adds a user, in place of the oldest if need be. False if it is known already.
fn note_user(users: &mut Vec<Identity>, user: &Identity) -> bool {
    if users.contains(user) {
        return false;
    }
    if users.len() == USERS_MAX {
        users.remove(0);
    }
    users.push(user.clone());
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

    /// A cached listing whose cookies decrease, as those of tmpfs do.
    fn falling(count: u64, key: FileKey, user: &Identity) -> ListingCache {
        let mut listings =
            ListingCache::new(Arc::default(), KeyedBuildHasher::random(), 1 << 20, 8);
        let ticket = listings.begin(key, FollowId(1));
        let mut chunks = vec![Chunk::of(key.device)];
        for number in 0..count {
            if chunks.last().is_some_and(|chunk| chunk.len() == CHUNK_RECORDS_MAX) {
                chunks.push(Chunk::of(key.device));
            }
            push_falling(chunks.last_mut().unwrap(), number, count);
        }
        listings.append(&ticket, user, chunks, true);
        listings
    }

    #[test]
    fn listing_from_the_beginning_counts_as_a_use() {
        let (key, user) = (FileKey { device: 1, inode: 2 }, Identity::root());
        // Alternates listings from `cookie` with changes. Returns the number of listings before the
        // directory is cached again.
        let wait = |cookie: u64| {
            let mut listings = falling(10, key, &user);
            for turn in 1..=3 {
                assert!(matches!(listings.find(key, cookie, &user), ListingLookup::Chunk(..)));
                listings.handle_change(Some(FollowId(turn)));
                let ticket = listings.begin(key, FollowId(turn + 1));
                listings.append(&ticket, &user, vec![chunk_of_falling(10, key)], true);
            }
            listings.handle_change(Some(FollowId(4)));
            (1..=9).find(|_| listings.is_worth_caching(key, 7))
        };
        // At first the earlier state of the directory is unknown.
        assert_eq!((wait(0), wait(5)), (Some(2), Some(8)));
    }

    #[test]
    fn unchanged_directory_is_worth_caching() {
        let key = FileKey { device: 1, inode: 2 };
        let mut listings = ListingCache::new(Arc::default(), KeyedBuildHasher::by(1), 1 << 20, 8);
        let mut worth = |changes: &[u64]| -> Vec<bool> {
            changes.iter().map(|change| listings.is_worth_caching(key, *change)).collect()
        };
        assert_eq!(worth(&[1, 2, 3, 4, 4]), [false, false, false, false, true]);
    }

    #[test]
    fn listing_with_falling_cookies_resumes_at_any() {
        let (key, user) = (FileKey { device: 1, inode: 2 }, Identity::root());
        let count = 3 * CHUNK_RECORDS_MAX as u64 + 7;
        let mut listings = falling(count, key, &user);
        // Forwards, backwards, and in leaps.
        let orders = [(1..=count).rev().collect(), (1..=count).collect::<Vec<_>>()];
        let leaps = (1..=count).map(|n| 1 + n * 701 % count).collect();
        for cookie in orders.into_iter().chain([leaps]).flatten() {
            let ListingLookup::Chunk(chunk, at, is_last) = listings.find(key, cookie, &user) else {
                panic!("{cookie} is not found");
            };
            let next = chunk.get(at).map(|entry| entry.next);
            assert_eq!(next, (cookie > 1).then(|| cookie - 1), "behind {cookie}");
            assert_eq!(is_last, cookie <= 1 + count % CHUNK_RECORDS_MAX as u64);
        }
        assert!(matches!(listings.find(key, count + 1, &user), ListingLookup::Nothing));
    }
}
