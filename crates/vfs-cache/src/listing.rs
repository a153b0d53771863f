//! Listing: from what is kept, and beyond that by the backend, keeping what that tells.

use crate::listings::{Found, Listings, Ticket};
use crate::records::{CHUNK_RECORDS_MAX, Chunk};
use crate::tree::CachedVfs;
use std::sync::{MutexGuard, PoisonError};
use vfs::{
    Actor, AttributeRequest, EntryChoice, FsError, Identity, ListSink, ListedEntry, ListingFeed,
    ListingRequest, Node, OpenHow, OpenedNode, Result, ServerWork,
};

/// How a part of a listing ended.
enum Part {
    /// There is more behind this cookie.
    Through(u64),
    /// Whoever asked has enough.
    Stopped,
}

impl CachedVfs {
    /// As [`Node::list_with_attributes`], from what is kept first.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn list_any(
        &self,
        directory: &dyn Node,
        who: Actor<'_>,
        mut cookie: u64,
        wanted: ListingRequest,
        sink: &mut dyn ListSink,
    ) -> Result<bool> {
        loop {
            match self.find_listed(directory, who, cookie, wanted) {
                Found::Chunk(chunk, at, is_last) => {
                    match tell(&chunk, at, (directory, who.effective_identity(), wanted), sink)? {
                        Part::Stopped => return Ok(false),
                        Part::Through(_) if is_last => return Ok(true),
                        Part::Through(next) => cookie = next,
                    }
                }
                Found::Ask(name, follow) => {
                    if directory.child_attributes(who, &name, AttributeRequest::default()).is_err()
                    {
                        return directory.list_with_attributes(who, cookie, wanted, sink);
                    }
                    self.listings().note_searcher(
                        directory.key(),
                        follow,
                        who.effective_identity(),
                    );
                }
                Found::End(ticket) => {
                    return self.list_and_keep(directory, who, &ticket, cookie, wanted, sink);
                }
                Found::Nothing => {
                    return directory.list_with_attributes(who, cookie, wanted, sink);
                }
            }
        }
    }

    /// As [`vfs::Vfs::list_cached`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn list_kept(
        &self,
        directory: &dyn Node,
        who: Actor<'_>,
        mut cookie: u64,
        wanted: ListingRequest,
        sink: &mut dyn ListSink,
    ) -> Result<Option<bool>> {
        loop {
            let found = self.fresh_listings().find_for_reader(
                directory.key(),
                cookie,
                who.effective_identity(),
            );
            let Found::Chunk(chunk, at, is_last) = found else { return Ok(None) };
            match tell(&chunk, at, (directory, who.effective_identity(), wanted), sink)? {
                Part::Stopped => return Ok(Some(false)),
                Part::Through(_) if is_last => return Ok(Some(true)),
                Part::Through(next) => cookie = next,
            }
        }
    }

    /// Opens a directory for listing, and notes who may.
    ///
    /// # Errors
    /// As [`vfs::Vfs::open_node`].
    pub(crate) fn open_to_list(
        &self,
        who: Actor<'_>,
        directory: &dyn Node,
        how: OpenHow,
    ) -> Result<OpenedNode> {
        let key = directory.key();
        // Followed before it is opened, it is heard if that is forbidden afterwards.
        let follow = self.listings().follow_of(key);
        let opened = self.inner.open_node(who, directory, how)?;
        if let Some(follow) = follow {
            self.listings().note_reader(key, follow, who.effective_identity());
        }
        Ok(opened)
    }

    /// The listings, as they were left.
    fn listings(&self) -> MutexGuard<'_, Listings> {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The listings, with all that was done before this call taken in.
    pub(crate) fn fresh_listings(&self) -> MutexGuard<'_, Listings> {
        let mut listings = self.listings();
        // Also what was given up while nothing else is kept.
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
            let feed = self.inner.listing_feed();
            feed.inspect_err(|error| tracing::info!(%error, "listings are not kept")).ok()
        };
        self.listing_feed.get_or_init(start).as_deref()
    }

    fn find_listed(
        &self,
        directory: &dyn Node,
        who: Actor<'_>,
        cookie: u64,
        wanted: ListingRequest,
    ) -> Found {
        let Some(feed) = self.listing_feed() else { return Found::Nothing };
        let key = directory.key();
        let grows = wanted.attributes && !wanted.few;
        let found = self.fresh_listings().find(key, cookie, who.effective_identity());
        match found {
            Found::End(_) if !grows => Found::Nothing,
            Found::Nothing if cookie == 0 && grows => {
                self.counters.listings.missed();
                self.begin_to_keep(feed, directory).map_or(Found::Nothing, Found::End)
            }
            other => other,
        }
    }

    /// Follows a directory whose listing is worth keeping from now on; none if it is not, or if
    /// somebody else has just begun.
    fn begin_to_keep(&self, feed: &dyn ListingFeed, directory: &dyn Node) -> Option<Ticket> {
        let key = directory.key();
        // The disk may take its time: not under the lock.
        let change =
            self.inner.change_attribute(Actor::server(ServerWork::FillCache), directory).ok()?;
        if !self.listings().is_worth_keeping(key, change) {
            return None;
        }
        // What was given up meanwhile is followed no longer before it is followed anew.
        let mut listings = self.fresh_listings();
        if listings.follow_of(key).is_some() {
            return None;
        }
        // While there is none nobody asks what has changed.
        feed.drain(&mut |change| listings.handle_change(change));
        match feed.follow(ServerWork::Watch, directory) {
            Ok(follow) => Some(listings.begin(key, follow)),
            Err(error) => {
                tracing::debug!(%error, "a listing is not kept");
                None
            }
        }
    }

    /// Lists by the backend what is not known yet.
    fn list_and_keep(
        &self,
        directory: &dyn Node,
        who: Actor<'_>,
        ticket: &Ticket,
        cookie: u64,
        wanted: ListingRequest,
        sink: &mut dyn ListSink,
    ) -> Result<bool> {
        // What is kept is whole: others want what this one does not.
        let wanted =
            ListingRequest { stored: wanted.stored.or(Some(ServerWork::FillCache)), ..wanted };
        let room_bytes = self.listings().budget_bytes();
        let device = directory.key().device;
        let mut keeping = Keeping {
            sink,
            chunks: Vec::new(),
            chunk: Chunk::of(device),
            device,
            room_bytes,
            is_chosen: false,
            has_gap: false,
        };
        let ended = directory.list_with_attributes(who, cookie, wanted, &mut keeping)?;
        let Keeping { mut chunks, chunk, is_chosen, has_gap, .. } = keeping;
        chunks.push(chunk);
        // Changed while it was listed, it is forgotten by now.
        let is_end = ended && !is_chosen && !has_gap;
        self.fresh_listings().append(ticket, who.effective_identity(), chunks, is_end);
        Ok(ended)
    }
}

/// Tells entries that are known, from one on.
fn tell(
    chunk: &Chunk,
    from: usize,
    (directory, who, wanted): (&dyn Node, &Identity, ListingRequest),
    sink: &mut dyn ListSink,
) -> Result<Part> {
    for at in from..chunk.len() {
        let Some(entry) = chunk.get(at) else { break };
        let (name, inode, next) = (entry.name, entry.inode, entry.next);
        match sink.choose(name, next) {
            EntryChoice::Take => {}
            EntryChoice::Pass => continue,
            EntryChoice::Stop => return Ok(Part::Stopped),
        }
        let look = match (wanted.attributes || wanted.stored.is_some(), entry.attributes) {
            (false, _) => Ok(None),
            (true, Some(known)) => Ok(Some(known)),
            (true, None) => {
                let name = vfs::Name::new(name).map_err(|_| FsError::Io)?;
                directory
                    .child_attributes(who.actor(), &name, AttributeRequest { dos: wanted.stored })
                    .map(Some)
            }
        };
        if !(ListedEntry { name, inode, attributes: None, next }).give(sink, look)? {
            return Ok(Part::Stopped);
        }
    }
    Ok(Part::Through(chunk.end().unwrap_or(0)))
}

/// Hands entries on and keeps them, as long as there is no gap between them.
struct Keeping<'a> {
    sink: &'a mut dyn ListSink,
    chunks: Vec<Chunk>,
    chunk: Chunk,
    device: u64,
    room_bytes: usize,
    /// An entry was chosen that has not come: gone, or not to be seen.
    is_chosen: bool,
    has_gap: bool,
}

impl Keeping<'_> {
    fn keep(&mut self, entry: &ListedEntry<'_>) {
        self.chunk.push(entry);
        if self.chunk.len() == CHUNK_RECORDS_MAX {
            let full = std::mem::replace(&mut self.chunk, Chunk::of(self.device));
            self.has_gap |= full.bytes() > self.room_bytes;
            self.room_bytes = self.room_bytes.saturating_sub(full.bytes());
            self.chunks.push(full);
        }
    }
}

impl ListSink for Keeping<'_> {
    fn choose(&mut self, name: &[u8], next: u64) -> EntryChoice {
        let choice = self.sink.choose(name, next);
        // The last one, at which a client has enough, is none.
        self.has_gap |=
            (self.is_chosen && choice != EntryChoice::Stop) || choice == EntryChoice::Pass;
        self.is_chosen |= choice == EntryChoice::Take;
        choice
    }

    fn put(&mut self, entry: ListedEntry<'_>) -> bool {
        self.is_chosen = false;
        let is_taken = self.sink.put(entry);
        if is_taken && !self.has_gap {
            self.keep(&entry);
        }
        is_taken
    }

    fn put_inaccessible(&mut self, entry: ListedEntry<'_>, error: FsError) -> bool {
        // Others may be let look at it, or the same later: it leaves a gap.
        self.sink.put_inaccessible(entry, error)
    }
}
