//! Directory listings with attributes and handles.

use super::{HandleSeal, Object, ObjectHandle, VolumeId};
use crate::authorize::{rights_by_descriptor, rights_to_opened};
use crate::context::RequestContext;
use crate::{Access, Caller, RequestFiles};
use std::sync::Arc;
use vfs::{
    Actor, Attributes, EntryChoice, FileKind, FsError, ListSink, ListingRequest, Name, Node,
    OpenHow, Result, ServerWork, Wait,
};

/// A directory entry with its object.
#[derive(Clone, Debug)]
pub struct ListedObject {
    /// The name.
    pub name: Name,
    /// Position after the entry; never zero. It is stable while the directory changes, as far as
    /// the file system permits.
    pub cookie: u64,
    /// File number in the directory entry. It differs from the object's where a file system is
    /// mounted.
    pub mounted_on: u64,
    /// Attributes of the object.
    pub attributes: Attributes,
    /// Handle of the object, if requested and available.
    pub handle: Option<ObjectHandle>,
}

/// A directory entry whose object could not be read.
#[derive(Clone, Debug)]
pub struct UnreadableObject {
    /// The name.
    pub name: Name,
    /// As [`ListedObject::cookie`].
    pub cookie: u64,
    /// As [`ListedObject::mounted_on`].
    pub mounted_on: u64,
    /// Reason why the object could not be read.
    pub error: FsError,
}

/// Receives entries in directory order, so that a caller can encode them into a reply without an
/// intermediate list.
pub trait ObjectListSink: Send + 'static {
    /// Receives an entry, and returns whether it was accepted. If not, the listing ends before it.
    fn take(&mut self, entry: ListedObject) -> bool;

    /// Announces that a worker continues the listing on another thread.
    fn expect_more(&mut self) {}

    /// Receives an entry whose object could not be read. The default omits it.
    fn take_unreadable(&mut self, entry: UnreadableObject) -> bool {
        let _ = entry;
        true
    }
}

impl ObjectListSink for Vec<ListedObject> {
    fn take(&mut self, entry: ListedObject) -> bool {
        self.push(entry);
        true
    }
}

/// A section of a directory listing.
#[derive(Clone, Debug)]
pub struct ObjectList {
    /// Entries in directory order.
    pub entries: Vec<ListedObject>,
    /// Whether the directory has no more entries.
    pub is_end: bool,
}

/// Parameters of a listing.
#[derive(Clone, Copy, Debug)]
pub struct ListWish {
    /// Position to continue after; 0 for the start.
    pub cookie: u64,
    /// Maximum number of entries.
    pub count_max: usize,
    /// Maximum size of all names in bytes; one entry is returned in any case.
    pub name_bytes_max: usize,
    /// Maximum size of the reply, in bytes, with `entry_bytes` for each entry besides its name. One
    /// entry is returned in any case. Entries beyond the limit need not be read.
    pub bytes_max: usize,
    /// See [`ListWish::bytes_max`].
    pub entry_bytes: usize,
    /// Volume for handles, if they are requested.
    pub handles: Option<VolumeId>,
    /// Whether to read [`Attributes::dos`] and [`Attributes::stored`], which take longer.
    pub stored: bool,
}

/// Entries that are read before a worker continues: a small directory costs no thread change.
const INLINE_ENTRIES: usize = 64;

impl RequestFiles {
    /// Lists a section of a directory with attributes, without `.` and `..`.
    ///
    /// # Errors
    /// [`FsError::NotDirectory`], [`FsError::AccessDenied`].
    pub async fn readdir_object(
        &self,
        caller: &Arc<Caller>,
        directory: &Object,
        wish: ListWish,
    ) -> Result<ObjectList> {
        let (entries, is_end) =
            self.readdir_object_into(caller, directory, wish, Vec::new()).await?;
        Ok(ObjectList { entries, is_end })
    }

    /// As [`RequestFiles::readdir_object`], into `taker`. Returns it with whether the listing is
    /// complete.
    ///
    /// # Errors
    /// As [`RequestFiles::readdir_object`].
    pub async fn readdir_object_into<T: ObjectListSink>(
        &self,
        caller: &Arc<Caller>,
        directory: &Object,
        wish: ListWish,
        taker: T,
    ) -> Result<(T, bool)> {
        directory.need_directory()?;
        let mut listing = ObjectListing::new(&self.context, caller, directory, wish, taker);
        listing.seal = self.seal.clone();
        // A continued listing is long.
        let mut is_done = wish.cookie == 0 && {
            listing.run(INLINE_ENTRIES)?;
            listing.is_end || listing.count < INLINE_ENTRIES.min(wish.count_max)
        };
        is_done |= listing.is_full || listing.count >= wish.count_max;
        if !is_done {
            listing.taker.expect_more();
            listing = self
                .offload(move || {
                    listing.run(wish.count_max)?;
                    Ok(listing)
                })
                .await?;
        }
        Ok((listing.taker, listing.is_end))
    }
}

/// A listing in progress.
struct ObjectListing<T> {
    context: RequestContext,
    caller: Arc<Caller>,
    directory: Object,
    wish: ListWish,
    /// The directory, open for listing.
    node: Option<Arc<dyn Node>>,
    taker: T,
    seal: Option<Arc<dyn HandleSeal>>,
    /// Number of entries so far.
    count: usize,
    /// Position after the last entry.
    cookie: u64,
    /// Size of the names so far.
    bytes: usize,
    is_end: bool,
    /// Whether the receiver refused an entry.
    is_full: bool,
}

/// Limit of entries that are buffered to look up their handles together.
const BATCH_MAX: usize = 64;

/// Passes up to `count_max` entries to a listing.
struct ListingSink<'l, T> {
    listing: &'l mut ObjectListing<T>,
    node: &'l dyn Node,
    count_max: usize,
    /// Whether to look up handles in batches.
    batches_handles: bool,
    children: Vec<(Name, Attributes)>,
    /// Position and file number of each buffered entry.
    places: Vec<(u64, u64)>,
}

impl<'l, T: ObjectListSink> ListingSink<'l, T> {
    fn new(listing: &'l mut ObjectListing<T>, node: &'l dyn Node, count_max: usize) -> Self {
        let batches_handles =
            listing.wish.handles.is_some() && listing.directory.volume.names().caches_handles();
        let (children, places) = (Vec::new(), Vec::new());
        Self { listing, node, count_max, batches_handles, children, places }
    }

    /// Passes the buffered entries on; false if one was refused.
    fn flush_batch(&mut self) -> bool {
        if self.children.is_empty() {
            return true;
        }
        let names = self.listing.directory.volume.names();
        let known = names.cached_handles(self.node, &self.children);
        let children = std::mem::take(&mut self.children).into_iter().zip(known);
        let places = std::mem::take(&mut self.places);
        for (((name, attributes), known), (cookie, mounted_on)) in children.zip(places) {
            let handle = self.handle(&name, &attributes, known);
            let listed = ListedObject { name, cookie, mounted_on, attributes, handle };
            if !self.listing.taker.take(listed) {
                self.listing.is_full = true;
                return false;
            }
        }
        true
    }

    fn handle(
        &self,
        name: &Name,
        attributes: &Attributes,
        known: Option<vfs::NodeHandle>,
    ) -> Option<ObjectHandle> {
        let ObjectListing { caller, directory, wish, seal, .. } = &*self.listing;
        let actor = caller.identity.actor();
        let ask = || {
            directory.volume.vfs.handles()?.child_handle(actor, self.node, name, attributes).ok()
        };
        let (id, node) = (wish.handles?, known.or_else(ask)?);
        Some(ObjectHandle::new(id, node, seal.as_deref()))
    }
}

impl<T: ObjectListSink> ListSink for ListingSink<'_, T> {
    fn choose(&mut self, name: &[u8], _: u64) -> EntryChoice {
        let ObjectListing { directory, wish, count, bytes, .. } = &*self.listing;
        if directory.volume.options.veto_names.has(name) {
            return EntryChoice::Pass;
        }
        let name_bytes = bytes + name.len();
        let all_bytes = name_bytes.saturating_add((count + 1) * wish.entry_bytes);
        let is_full = name_bytes > wish.name_bytes_max || all_bytes > wish.bytes_max;
        if (is_full && *count > 0) || *count >= self.count_max {
            EntryChoice::Stop
        } else {
            EntryChoice::Take
        }
    }

    fn put(&mut self, entry: vfs::ListedEntry<'_>) -> bool {
        let (Ok(name), Some(attributes)) = (Name::new(entry.name), entry.attributes) else {
            return true;
        };
        let volume = &self.listing.directory.volume;
        if volume.options.hide_unreadable && !self.listing.may_read(&name, attributes.kind) {
            return true;
        }
        let attributes = volume.presented_as(name.as_bytes(), attributes);
        let (cookie, mounted_on) = (entry.next, entry.inode);
        let is_taken = if self.batches_handles {
            self.children.push((name, attributes));
            self.places.push((cookie, mounted_on));
            self.children.len() < BATCH_MAX || self.flush_batch()
        } else {
            let handle = self.handle(&name, &attributes, None);
            let listed = ListedObject { name, cookie, mounted_on, attributes, handle };
            self.listing.taker.take(listed)
        };
        if is_taken {
            self.listing.note_taken(entry.name, cookie);
        }
        is_taken
    }

    fn put_inaccessible(&mut self, entry: vfs::ListedEntry<'_>, error: FsError) -> bool {
        let Ok(name) = Name::new(entry.name) else { return true };
        if self.listing.directory.volume.options.hide_unreadable {
            return true;
        }
        let (cookie, mounted_on) = (entry.next, entry.inode);
        let unseen = UnreadableObject { name, cookie, mounted_on, error };
        // Earlier entries come first.
        let is_taken = self.flush_batch() && self.listing.taker.take_unreadable(unseen);
        if is_taken {
            self.listing.note_taken(entry.name, cookie);
        }
        is_taken
    }
}

impl<T: ObjectListSink> ObjectListing<T> {
    fn new(
        context: &RequestContext,
        caller: &Arc<Caller>,
        directory: &Object,
        wish: ListWish,
        taker: T,
    ) -> Self {
        let context = context.clone();
        let (caller, directory, cookie) = (caller.clone(), directory.clone(), wish.cookie);
        let (node, seal, count, bytes) = (None, None, 0, 0);
        let (is_end, is_full) = (false, false);
        Self {
            context,
            caller,
            directory,
            wish,
            node,
            taker,
            seal,
            count,
            cookie,
            bytes,
            is_end,
            is_full,
        }
    }

    /// Continues up to `count_max` entries or the requested maximum, without opening the directory
    /// if its contents are cached.
    fn run(&mut self, count_max: usize) -> Result<()> {
        let count_max = count_max.min(self.wish.count_max);
        let wanted = ListingRequest {
            attributes: true,
            stored: self.wish.stored.then_some(ServerWork::Metadata),
            few: count_max == 1,
        };
        let (caller, volume) = (self.caller.clone(), self.directory.volume.clone());
        let context = self.context.clone();
        let actor = context.call(caller.identity.actor());
        let node = match self.node.take() {
            Some(node) => node,
            None => {
                let (node, cookie) = (self.directory.node.clone(), self.cookie);
                let known = |sink: &mut ListingSink<'_, T>| {
                    volume.names().readdir_cached(&*node, actor, cookie, wanted, sink)
                };
                if self.take(&*node, count_max, known)? {
                    return Ok(());
                }
                self.open()?
            }
        };
        let cookie = self.cookie;
        let ask = |sink: &mut ListingSink<'_, T>| {
            volume.names().readdir_with_attributes(&*node, actor, cookie, wanted, sink).map(Some)
        };
        self.take(&*node, count_max, ask)?;
        self.node = Some(node);
        Ok(())
    }

    /// Passes the entries of `list` on, which returns whether they are complete. Returns whether
    /// enough entries were passed.
    fn take(
        &mut self,
        node: &dyn Node,
        count_max: usize,
        list: impl FnOnce(&mut ListingSink<'_, T>) -> Result<Option<bool>>,
    ) -> Result<bool> {
        let mut taking = ListingSink::new(self, node, count_max);
        let listed = list(&mut taking)?;
        let is_taken = taking.flush_batch() && !self.is_full;
        self.is_end = listed == Some(true) && is_taken;
        Ok(listed.is_some() || !is_taken)
    }

    fn note_taken(&mut self, name: &[u8], cookie: u64) {
        self.count += 1;
        self.cookie = cookie;
        self.bytes += name.len();
    }

    /// As [`RequestFiles::child_attributes`] decides.
    fn may_read(&self, name: &Name, kind: FileKind) -> bool {
        let reads = Access::FILE_READ - Access::SYNCHRONIZE;
        let Object { volume, path, .. } = &self.directory;
        let look = || {
            let path = path.join(name);
            let actor = self.context.call(self.caller.identity.actor());
            let child = volume.vfs.open(actor, &path, OpenHow::looking(Wait::Allowed))?;
            Ok::<_, FsError>(rights_to_opened(volume, &self.caller, &child).contains(reads))
        };
        self.caller.is_root()
            || !matches!(kind, FileKind::File | FileKind::Directory)
            || look().unwrap_or(false)
    }

    /// Opens the directory for listing. A stored descriptor alone decides; without one, the kernel
    /// does. Root needs neither.
    fn open(&self) -> Result<Arc<dyn Node>> {
        let Object { volume, node, .. } = &self.directory;
        let granted = match self.caller.is_root() {
            true => None,
            false => rights_by_descriptor(volume, &self.caller, &**node)?,
        };
        if granted.is_some_and(|granted| !granted.contains(Access::READ_DATA)) {
            return Err(FsError::AccessDenied);
        }
        // As the user if possible, since a cache then attributes the result to that user.
        match self.open_as(self.context.call(self.caller.identity.actor())) {
            Err(FsError::AccessDenied) if granted.is_some() => {
                self.open_as(self.context.call(Actor::server(ServerWork::OpenChecked)))
            }
            other => other,
        }
    }

    /// Opens exactly the authorized node, since its name may refer to another by now.
    fn open_as(&self, actor: Actor<'_>) -> Result<Arc<dyn Node>> {
        let how = OpenHow { read: true, ..OpenHow::looking(Wait::Allowed) };
        let Object { volume, node, path } = &self.directory;
        let opened = match volume.vfs.open_node(actor, &**node, how) {
            Err(FsError::NotSupported) => volume.vfs.open(actor, path, how)?,
            other => other?,
        };
        let is_same = opened.attributes.key == node.key();
        if is_same { Ok(opened.node) } else { Err(FsError::Stale) }
    }
}
