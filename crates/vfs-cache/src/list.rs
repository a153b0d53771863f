//! Listing: from the cache first, then from the backend, whose entries are cached.

use crate::listing_cache::{AppendTicket, ListingCache, ListingLookup};
use crate::records::{CHUNK_RECORDS_MAX, Chunk};
use crate::tree::CachedVfs;
use sync::MutexGuard;
use vfs::{
    Actor, AttributeRequest, EntryChoice, FsError, Identity, ListSink, ListedEntry, ListingFeed,
    ListingRequest, Node, OpenHow, OpenedNode, Result, ServerWork,
};

/// End of a part of a listing.
enum ListingPart {
    /// The listing continues at this cookie.
    Through(u64),
    /// The sink has enough.
    Stopped,
}

impl CachedVfs {
    /// As [`Node::readdir_with_attributes`], from the cache first.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn list_any(
        &self,
        directory: &dyn Node,
        actor: Actor<'_>,
        mut cookie: u64,
        wanted: ListingRequest,
        sink: &mut dyn ListSink,
    ) -> Result<bool> {
        loop {
            match self.find_cached_listing(directory, actor, cookie, wanted) {
                ListingLookup::Chunk(chunk, at, is_last) => {
                    match pass_entries(
                        &chunk,
                        at,
                        (directory, actor.effective_identity(), wanted),
                        sink,
                    )? {
                        ListingPart::Stopped => return Ok(false),
                        ListingPart::Through(_) if is_last => return Ok(true),
                        ListingPart::Through(next) => cookie = next,
                    }
                }
                ListingLookup::Ask(name, follow) => {
                    if directory
                        .child_attributes(actor, &name, AttributeRequest::default())
                        .is_err()
                    {
                        return directory.readdir_with_attributes(actor, cookie, wanted, sink);
                    }
                    self.lock_listings().note_searcher(
                        directory.key(),
                        follow,
                        actor.effective_identity(),
                    );
                }
                ListingLookup::End(ticket) => {
                    return self.list_and_cache(directory, actor, &ticket, cookie, wanted, sink);
                }
                ListingLookup::Nothing => {
                    return directory.readdir_with_attributes(actor, cookie, wanted, sink);
                }
            }
        }
    }

    /// As [`vfs::NameCache::readdir_cached`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn list_from_cache(
        &self,
        directory: &dyn Node,
        actor: Actor<'_>,
        mut cookie: u64,
        wanted: ListingRequest,
        sink: &mut dyn ListSink,
    ) -> Result<Option<bool>> {
        loop {
            let found = self.drained_listings().find_for_reader(
                directory.key(),
                cookie,
                actor.effective_identity(),
            );
            let ListingLookup::Chunk(chunk, at, is_last) = found else { return Ok(None) };
            match pass_entries(&chunk, at, (directory, actor.effective_identity(), wanted), sink)? {
                ListingPart::Stopped => return Ok(Some(false)),
                ListingPart::Through(_) if is_last => return Ok(Some(true)),
                ListingPart::Through(next) => cookie = next,
            }
        }
    }

    /// Opens a directory for listing, and notes that the actor may.
    ///
    /// # Errors
    /// As [`vfs::Vfs::open_node`].
    pub(crate) fn open_to_list(
        &self,
        actor: Actor<'_>,
        directory: &dyn Node,
        how: OpenHow,
    ) -> Result<OpenedNode> {
        let key = directory.key();
        // Followed before the open: the feed reports if the permission is withdrawn later.
        let follow = self.lock_listings().follow_of(key);
        let opened = self.inner.open_node(actor, directory, how)?;
        if let Some(follow) = follow {
            self.lock_listings().note_reader(key, follow, actor.effective_identity());
        }
        Ok(opened)
    }

    /// The listings without draining the feed.
    fn lock_listings(&self) -> MutexGuard<'_, ListingCache> {
        self.listings.lock()
    }

    /// The listings after draining the feed.
    pub(crate) fn drained_listings(&self) -> MutexGuard<'_, ListingCache> {
        let mut listings = self.lock_listings();
        // Unfollows even if nothing is cached any more.
        if let Some(Some(feed)) = self.listing_feed.get() {
            if !listings.is_empty() {
                feed.drain(&mut |change| listings.handle_change(change));
            }
            while let Some(follow) = listings.poll_unfollow() {
                feed.unfollow(follow);
            }
        }
        listings
    }

    fn listing_feed(&self) -> Option<&dyn ListingFeed> {
        let start = || {
            let feed = self
                .inner
                .feeds()
                .ok_or(FsError::NotSupported)
                .and_then(|feeds| feeds.listing_feed());
            feed.inspect_err(|error| tracing::info!(%error, "the backend reports no changes of listings: they are not cached")).ok()
        };
        self.listing_feed.get_or_init(start).as_deref()
    }

    fn find_cached_listing(
        &self,
        directory: &dyn Node,
        actor: Actor<'_>,
        cookie: u64,
        wanted: ListingRequest,
    ) -> ListingLookup {
        let Some(feed) = self.listing_feed() else { return ListingLookup::Nothing };
        let key = directory.key();
        let grows = wanted.attributes && !wanted.few;
        let found = self.drained_listings().find(key, cookie, actor.effective_identity());
        match found {
            ListingLookup::End(_) if !grows => ListingLookup::Nothing,
            ListingLookup::Nothing if cookie == 0 && grows => {
                self.counters.listings.missed();
                self.begin_caching(feed, directory)
                    .map_or(ListingLookup::Nothing, ListingLookup::End)
            }
            other => other,
        }
    }

    /// Starts to cache a directory's listing. None if that is not worthwhile, or another thread has
    /// just started.
    fn begin_caching(&self, feed: &dyn ListingFeed, directory: &dyn Node) -> Option<AppendTicket> {
        let key = directory.key();
        // May wait for the disk, so it runs without the lock.
        let change = directory.attributes(AttributeRequest::default()).ok()?.change;
        if !self.lock_listings().is_worth_caching(key, change) {
            return None;
        }
        // Evicted listings are unfollowed before they are followed again.
        let mut listings = self.drained_listings();
        if listings.follow_of(key).is_some() {
            return None;
        }
        // While no listing is cached, the feed is not drained.
        feed.drain(&mut |change| listings.handle_change(change));
        match feed.follow(ServerWork::Watch, directory) {
            Ok(follow) => Some(listings.begin(key, follow)),
            Err(error) => {
                tracing::debug!(%error, "cannot watch a directory: its listing is not cached");
                None
            }
        }
    }

    /// Lists the uncached rest by the backend.
    fn list_and_cache(
        &self,
        directory: &dyn Node,
        actor: Actor<'_>,
        ticket: &AppendTicket,
        cookie: u64,
        wanted: ListingRequest,
        sink: &mut dyn ListSink,
    ) -> Result<bool> {
        // Cached entries are complete, because other callers need parts that this one does not.
        let wanted =
            ListingRequest { stored: wanted.stored.or(Some(ServerWork::FillCache)), ..wanted };
        let room_bytes = self.lock_listings().budget_bytes();
        let device = directory.key().device;
        let mut caching = CachingSink {
            sink,
            chunks: Vec::new(),
            chunk: Chunk::of(device),
            device,
            room_bytes,
            is_chosen: false,
            has_gap: false,
        };
        let ended = directory.readdir_with_attributes(actor, cookie, wanted, &mut caching)?;
        let CachingSink { mut chunks, chunk, is_chosen, has_gap, .. } = caching;
        chunks.push(chunk);
        // If the directory changed meanwhile, the listing has been invalidated.
        let is_end = ended && !is_chosen && !has_gap;
        self.drained_listings().append(ticket, actor.effective_identity(), chunks, is_end);
        Ok(ended)
    }
}

/// Passes cached entries to the sink, from one on.
fn pass_entries(
    chunk: &Chunk,
    from: usize,
    (directory, user, wanted): (&dyn Node, &Identity, ListingRequest),
    sink: &mut dyn ListSink,
) -> Result<ListingPart> {
    for at in from..chunk.len() {
        let Some(entry) = chunk.get(at) else { break };
        let (name, inode, next) = (entry.name, entry.inode, entry.next);
        match sink.choose(name, next) {
            EntryChoice::Take => {}
            EntryChoice::Pass => continue,
            EntryChoice::Stop => return Ok(ListingPart::Stopped),
        }
        let look = match (wanted.attributes || wanted.stored.is_some(), entry.attributes) {
            (false, _) => Ok(None),
            (true, Some(known)) => Ok(Some(known)),
            (true, None) => {
                let name = vfs::Name::new(name).map_err(|_| FsError::Io)?;
                directory
                    .child_attributes(user.actor(), &name, AttributeRequest { dos: wanted.stored })
                    .map(Some)
            }
        };
        if !(ListedEntry { name, inode, attributes: None, next }).give(sink, look)? {
            return Ok(ListingPart::Stopped);
        }
    }
    Ok(ListingPart::Through(chunk.end().unwrap_or(0)))
}

/// Sink that caches the entries it passes on, up to the first gap.
struct CachingSink<'a> {
    sink: &'a mut dyn ListSink,
    chunks: Vec<Chunk>,
    chunk: Chunk,
    device: u64,
    room_bytes: usize,
    /// A chosen entry has not arrived: it is gone or inaccessible.
    is_chosen: bool,
    has_gap: bool,
}

impl CachingSink<'_> {
    fn cache(&mut self, entry: &ListedEntry<'_>) {
        self.chunk.push(entry);
        if self.chunk.len() == CHUNK_RECORDS_MAX {
            let full = std::mem::replace(&mut self.chunk, Chunk::of(self.device));
            self.has_gap |= full.bytes() > self.room_bytes;
            self.room_bytes = self.room_bytes.saturating_sub(full.bytes());
            self.chunks.push(full);
        }
    }
}

impl ListSink for CachingSink<'_> {
    fn choose(&mut self, name: &[u8], next: u64) -> EntryChoice {
        let choice = self.sink.choose(name, next);
        // The entry at which the client has enough does not count.
        self.has_gap |=
            (self.is_chosen && choice != EntryChoice::Stop) || choice == EntryChoice::Pass;
        self.is_chosen |= choice == EntryChoice::Take;
        choice
    }

    fn put(&mut self, entry: ListedEntry<'_>) -> bool {
        self.is_chosen = false;
        let is_taken = self.sink.put(entry);
        if is_taken && !self.has_gap {
            self.cache(&entry);
        }
        is_taken
    }

    fn put_inaccessible(&mut self, entry: ListedEntry<'_>, error: FsError) -> bool {
        // Left as a gap: another caller, or a later call, may have access.
        self.sink.put_inaccessible(entry, error)
    }
}
