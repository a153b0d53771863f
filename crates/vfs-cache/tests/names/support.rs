//! Helpers of the tests of names and listings.
#![allow(dead_code, reason = "not all of them need all")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use vfs::memory::{MemoryOptions, MemoryVfs, Surroundings};
use vfs::{
    Actor, AttributeRequest, Attributes, Case, ChangeFeed, ChangeFeeds, CreateHow, EntryChoice,
    FileKind, FollowId, FsError, ListSink, ListedEntry, ListingFeed, ListingRequest, Name,
    NameChange, NameLookup, Node, OpenHow, OpenedNode, RelPath, Result, Timestamp, Vfs, Wait,
};
use vfs_cache::{CacheOptions, CachedVfs, Clock};

pub fn path(text: &str) -> RelPath {
    let parts = text.split('/').filter(|part| !part.is_empty());
    parts.map(|part| Name::new(part.as_bytes()).unwrap()).collect()
}

/// A cache with the system clock.
pub fn over(inner: Arc<dyn Vfs>, options: CacheOptions) -> CachedVfs {
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    CachedVfs::new(inner, options, Clock(Arc::new(move || Timestamp(now() as i128))))
}

/// Clock that advances by a tenth of a second at each reading, so that no two changes share a time.
#[derive(Debug, Default)]
pub struct HastyClock(AtomicU64);

impl Surroundings for HastyClock {
    fn now(&self) -> Timestamp {
        let tenths = self.0.fetch_add(1, Ordering::Relaxed);
        Timestamp(1_750_000_000_000_000_000 + i128::from(tenths) * 100_000_000)
    }
}

/// A tree in memory with such a clock, for caches over it.
pub fn in_memory() -> (Arc<MemoryVfs>, Clock) {
    let hasty = Arc::new(HastyClock::default());
    let vfs = MemoryVfs::new(MemoryOptions::default(), hasty.clone());
    (Arc::new(vfs), Clock(Arc::new(move || hasty.now())))
}

pub fn how(case: Case, wait: Wait) -> OpenHow {
    let wanted = AttributeRequest { dos: Some(vfs::ServerWork::Metadata) };
    OpenHow { read: false, write: false, case, wanted, no_follow: false, wait }
}

/// Stored spelling of a path, looked up in any case.
pub fn spelt(vfs: &dyn Vfs, at: &str) -> Result<String> {
    spelt_for(vfs, Actor::SUPERUSER, at)
}

pub fn spelt_for(vfs: &dyn Vfs, actor: Actor<'_>, at: &str) -> Result<String> {
    let opened = vfs.open(actor, &path(at), how(Case::Insensitive, Wait::Allowed))?;
    Ok(String::from_utf8_lossy(opened.path.as_bytes()).into_owned())
}

pub fn make(vfs: &dyn Vfs, at: &str, kind: FileKind) -> Result<()> {
    make_for(vfs, Actor::SUPERUSER, at, kind)
}

pub fn make_for(vfs: &dyn Vfs, actor: Actor<'_>, at: &str, kind: FileKind) -> Result<()> {
    let how = CreateHow::plain(kind, 0o755);
    vfs.create(actor, &path(at), Case::Insensitive, how).map(drop)
}

pub fn is_missing<T>(found: Result<T>) -> bool {
    matches!(found, Err(FsError::NotFound | FsError::PathNotFound))
}

/// One entry of a listing.
pub type ListingEntry = (Name, u64, Option<Attributes>);

/// Sink with a limit of entries.
pub struct BoundedSink {
    pub left: usize,
    pub cookie: u64,
    pub seen: Vec<ListingEntry>,
}

impl ListSink for BoundedSink {
    fn choose(&mut self, _: &[u8], _: u64) -> EntryChoice {
        if self.left == 0 { EntryChoice::Stop } else { EntryChoice::Take }
    }

    fn put(&mut self, entry: ListedEntry<'_>) -> bool {
        self.left -= 1;
        self.cookie = entry.next;
        self.seen.push((Name::new(entry.name).unwrap(), entry.inode, entry.attributes));
        true
    }
}

/// The whole listing of a directory, in parts of so many entries.
pub fn list_all(
    names: NameLookup<'_>,
    directory: &dyn Node,
    actor: Actor<'_>,
    piece: usize,
) -> Vec<ListingEntry> {
    let wanted =
        ListingRequest { attributes: true, stored: Some(vfs::ServerWork::Metadata), few: false };
    let mut sink = BoundedSink { left: piece, cookie: 0, seen: Vec::new() };
    for _ in 0..1_000_000 {
        sink.left = piece;
        let cookie = sink.cookie;
        if names.readdir_with_attributes(directory, actor, cookie, wanted, &mut sink).unwrap() {
            return sink.seen;
        }
    }
    panic!("it does not end");
}

/// Watch without events.
#[derive(Debug)]
struct Deaf;

impl ChangeFeed for Deaf {
    fn follow(&self, _: vfs::ServerWork, _: &dyn Node) -> Result<FollowId> {
        Err(FsError::NotSupported)
    }

    fn unfollow(&self, _: FollowId) {}

    fn drain(&self, _: &mut dyn FnMut(NameChange<'_>)) {}
}

impl ListingFeed for Deaf {
    fn follow(&self, _: vfs::ServerWork, _: &dyn Node) -> Result<FollowId> {
        Err(FsError::NotSupported)
    }

    fn unfollow(&self, _: FollowId) {}

    fn drain(&self, _: &mut dyn FnMut(Option<FollowId>)) {}
}

/// Backend that counts scans, and may lack a feed.
#[derive(Debug)]
pub struct ScanCounter<V> {
    pub inner: V,
    pub has_feed: bool,
    /// The backend reports no external changes in any directory.
    pub is_deaf: bool,
    /// Directories opened for listing.
    pub listings: AtomicU64,
    /// Lookups in any case.
    pub searches: AtomicU64,
    /// All calls with a path.
    pub calls: AtomicU64,
}

impl<V: Vfs> ScanCounter<V> {
    pub fn over(inner: V) -> Arc<Self> {
        let zero = || AtomicU64::new(0);
        let (has_feed, is_deaf) = (true, false);
        let (listings, searches, calls) = (zero(), zero(), zero());
        Arc::new(Self { inner, has_feed, is_deaf, listings, searches, calls })
    }

    /// A backend without feeds, as over a network file system.
    pub fn deaf(inner: V) -> Arc<Self> {
        let zero = || AtomicU64::new(0);
        let (listings, searches, calls) = (zero(), zero(), zero());
        Arc::new(Self { inner, has_feed: true, is_deaf: true, listings, searches, calls })
    }

    /// Listings and lookups so far.
    pub fn scans(&self) -> (u64, u64) {
        (self.listings.load(Ordering::Relaxed), self.searches.load(Ordering::Relaxed))
    }

    fn count(&self, case: Case) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if case == Case::Insensitive {
            self.searches.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<V: Vfs> Vfs for ScanCounter<V> {
    fn open(&self, actor: Actor<'_>, path: &RelPath, how: OpenHow) -> Result<OpenedNode> {
        self.count(how.case);
        let opened = self.inner.open(actor, path, how)?;
        if how.read && opened.attributes.kind == FileKind::Directory {
            self.listings.fetch_add(1, Ordering::Relaxed);
        }
        Ok(opened)
    }

    fn open_node(&self, actor: Actor<'_>, node: &dyn Node, how: OpenHow) -> Result<OpenedNode> {
        if how.read && node.kind() == FileKind::Directory {
            self.listings.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.open_node(actor, node, how)
    }

    fn create(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        self.count(case);
        self.inner.create(actor, path, case, how)
    }

    vfs::pass_on!(remove, rename, link, symlink, create_special, space, features);

    fn feeds(&self) -> Option<&dyn ChangeFeeds> {
        Some(self)
    }
}

impl<V: Vfs> ChangeFeeds for ScanCounter<V> {
    fn change_feed(&self) -> Result<Box<dyn ChangeFeed>> {
        match self.has_feed {
            true if self.is_deaf => Ok(Box::new(Deaf)),
            true => self.inner.feeds().unwrap().change_feed(),
            false => Err(FsError::NotSupported),
        }
    }

    fn listing_feed(&self) -> Result<Box<dyn ListingFeed>> {
        match self.has_feed {
            true if self.is_deaf => Ok(Box::new(Deaf)),
            true => self.inner.feeds().unwrap().listing_feed(),
            false => Err(FsError::NotSupported),
        }
    }
}
