//! Listing a directory with what is in it.

use super::{Handle, HandleSeal, Object, VolumeId};
use crate::authorize::{rights_by_descriptor, rights_to_opened};
use crate::context::RequestContext;
use crate::{Access, Caller, RequestFiles};
use std::sync::Arc;
use vfs::{
    Actor, Attributes, Choice, FileKind, FsError, ListSink, ListWanted, Name, Node, OpenHow,
    Result, ServerWork, Wait,
};

/// One name in a directory, with what it names.
#[derive(Clone, Debug)]
pub struct ListedObject {
    /// The name.
    pub name: Name,
    /// To go on after it; any number but zero. It stays what it is while the
    /// directory changes, as far as the file system can.
    pub cookie: u64,
    /// The number that the directory has for it: another than the object's own where
    /// a file system is mounted on it.
    pub mounted_on: u64,
    /// What it names.
    pub attributes: Attributes,
    /// What it names, if handles were asked for and there is one.
    pub handle: Option<Handle>,
}

/// One name in a directory of which nothing else is known.
#[derive(Clone, Debug)]
pub struct UnseenObject {
    /// The name.
    pub name: Name,
    /// As [`ListedObject::cookie`].
    pub cookie: u64,
    /// As [`ListedObject::mounted_on`].
    pub mounted_on: u64,
    /// Why what it names could not be looked at.
    pub error: FsError,
}

/// Takes what is listed, in the directory's order: who writes it straight into an answer needs
/// no list of all that is in it.
pub trait TakeListed: Send + 'static {
    /// One more name with what it names; whether it is taken. If not, the part ends before it.
    fn take(&mut self, entry: ListedObject) -> bool;

    /// A worker goes on from here, on another thread.
    fn expect_more(&mut self) {}

    /// The same of one that is there and may not be looked at, or could not be. Of itself it is
    /// left out.
    fn take_unseen(&mut self, entry: UnseenObject) -> bool {
        let _ = entry;
        true
    }
}

impl TakeListed for Vec<ListedObject> {
    fn take(&mut self, entry: ListedObject) -> bool {
        self.push(entry);
        true
    }
}

/// A part of a directory.
#[derive(Clone, Debug)]
pub struct Listed {
    /// In the directory's order.
    pub entries: Vec<ListedObject>,
    /// There are no more.
    pub is_end: bool,
}

/// What is asked of a listing.
#[derive(Clone, Copy, Debug)]
pub struct ListWish {
    /// To go on after this entry; 0: from the start.
    pub cookie: u64,
    /// Most entries.
    pub count_max: usize,
    /// No more names than this many bytes hold, but one in any case.
    pub name_bytes_max: usize,
    /// No more than what fits into so many bytes, if each takes `entry_bytes` beside its
    /// name; but one in any case. What does not fit need not be looked at.
    pub bytes_max: usize,
    /// See [`ListWish::bytes_max`].
    pub entry_bytes: usize,
    /// With handles in the volume of this name.
    pub handles: Option<VolumeId>,
    /// With [`Attributes::dos`] and [`Attributes::stored`], which take longer.
    pub stored: bool,
}

/// Names that are looked at before a worker goes on: a small directory costs no change of
/// threads.
const INLINE_ENTRIES: usize = 64;

impl RequestFiles {
    /// A part of a directory, without `.` and `..`, with attributes.
    ///
    /// # Errors
    /// [`FsError::NotDirectory`], [`FsError::AccessDenied`].
    pub async fn list_objects(
        &self,
        caller: &Arc<Caller>,
        directory: &Object,
        wish: ListWish,
    ) -> Result<Listed> {
        let (entries, is_end) = self.list_objects_into(caller, directory, wish, Vec::new()).await?;
        Ok(Listed { entries, is_end })
    }

    /// As [`RequestFiles::list_objects`], told to `taker`, which comes back with whether there are no
    /// more.
    ///
    /// # Errors
    /// As [`RequestFiles::list_objects`].
    pub async fn list_objects_into<T: TakeListed>(
        &self,
        caller: &Arc<Caller>,
        directory: &Object,
        wish: ListWish,
        taker: T,
    ) -> Result<(T, bool)> {
        directory.need_directory()?;
        let mut listing = Listing::new(&self.context, caller, directory, wish, taker);
        listing.seal = self.seal.clone();
        // What goes on is long.
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

/// A listing under way.
struct Listing<T> {
    context: RequestContext,
    caller: Arc<Caller>,
    directory: Object,
    wish: ListWish,
    /// The directory, open for listing.
    node: Option<Arc<dyn Node>>,
    taker: T,
    seal: Option<Arc<dyn HandleSeal>>,
    /// Names so far.
    count: usize,
    /// To go on after the last of them.
    cookie: u64,
    /// Of the names so far.
    bytes: usize,
    is_end: bool,
    /// Whoever takes it has enough.
    is_full: bool,
}

/// Entries that are kept back until their handles are known together.
const GATHERED_MAX: usize = 64;

/// Takes entries into a listing, up to so many.
struct Taking<'l, T> {
    listing: &'l mut Listing<T>,
    node: &'l dyn Node,
    count_max: usize,
    /// Handles are asked for, and some may be known together.
    gathers: bool,
    children: Vec<(Name, Attributes)>,
    /// Of each of them, where to go on behind it, and what the directory has for its number.
    places: Vec<(u64, u64)>,
}

impl<'l, T: TakeListed> Taking<'l, T> {
    fn new(listing: &'l mut Listing<T>, node: &'l dyn Node, count_max: usize) -> Self {
        let gathers =
            listing.wish.handles.is_some() && listing.directory.volume.vfs.knows_handles();
        let (children, places) = (Vec::new(), Vec::new());
        Self { listing, node, count_max, gathers, children, places }
    }

    /// Hands on what was kept back; whether it was taken.
    fn hand_on(&mut self) -> bool {
        if self.children.is_empty() {
            return true;
        }
        let vfs = &self.listing.directory.volume.vfs;
        let known = vfs.known_handles(self.node, &self.children);
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
    ) -> Option<Handle> {
        let Listing { caller, directory, wish, seal, .. } = &*self.listing;
        let who = caller.identity.actor();
        let ask = || directory.volume.vfs.child_handle(who, self.node, name, attributes).ok();
        let (id, node) = (wish.handles?, known.or_else(ask)?);
        Some(Handle::new(id, node, seal.as_deref()))
    }
}

impl<T: TakeListed> ListSink for Taking<'_, T> {
    fn choose(&mut self, name: &[u8], _: u64) -> Choice {
        let Listing { directory, wish, count, bytes, .. } = &*self.listing;
        if directory.volume.options.veto_names.has(name) {
            return Choice::Pass;
        }
        let name_bytes = bytes + name.len();
        let all_bytes = name_bytes.saturating_add((count + 1) * wish.entry_bytes);
        let is_full = name_bytes > wish.name_bytes_max || all_bytes > wish.bytes_max;
        if (is_full && *count > 0) || *count >= self.count_max {
            Choice::Stop
        } else {
            Choice::Take
        }
    }

    fn put(&mut self, entry: vfs::Listed<'_>) -> bool {
        let (Ok(name), Some(attributes)) = (Name::new(entry.name), entry.attributes) else {
            return true;
        };
        let volume = &self.listing.directory.volume;
        if volume.options.hide_unreadable && !self.listing.may_read(&name, attributes.kind) {
            return true;
        }
        let attributes = volume.shown_as(name.as_bytes(), attributes);
        let (cookie, mounted_on) = (entry.next, entry.inode);
        let is_taken = if self.gathers {
            self.children.push((name, attributes));
            self.places.push((cookie, mounted_on));
            self.children.len() < GATHERED_MAX || self.hand_on()
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

    fn put_unseen(&mut self, entry: vfs::Listed<'_>, error: FsError) -> bool {
        let Ok(name) = Name::new(entry.name) else { return true };
        if self.listing.directory.volume.options.hide_unreadable {
            return true;
        }
        let (cookie, mounted_on) = (entry.next, entry.inode);
        let unseen = UnseenObject { name, cookie, mounted_on, error };
        // Those before it come first.
        let is_taken = self.hand_on() && self.listing.taker.take_unseen(unseen);
        if is_taken {
            self.listing.note_taken(entry.name, cookie);
        }
        is_taken
    }
}

impl<T: TakeListed> Listing<T> {
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

    /// Goes on until there are `count_max`, or as many as are wanted: as far as it is known what
    /// the directory lists, without opening it.
    fn run(&mut self, count_max: usize) -> Result<()> {
        let count_max = count_max.min(self.wish.count_max);
        let wanted = ListWanted {
            attributes: true,
            stored: self.wish.stored.then_some(ServerWork::Metadata),
            few: count_max == 1,
        };
        let (caller, vfs) = (self.caller.clone(), self.directory.volume.vfs.clone());
        let context = self.context.clone();
        let who = context.call(caller.identity.actor());
        let node = match self.node.take() {
            Some(node) => node,
            None => {
                let (node, cookie) = (self.directory.node.clone(), self.cookie);
                let known =
                    |sink: &mut Taking<'_, T>| vfs.list_known(&*node, who, cookie, wanted, sink);
                if self.take(&*node, count_max, known)? {
                    return Ok(());
                }
                self.open()?
            }
        };
        let cookie = self.cookie;
        let ask = |sink: &mut Taking<'_, T>| {
            vfs.list_with_attributes(&*node, who, cookie, wanted, sink).map(Some)
        };
        self.take(&*node, count_max, ask)?;
        self.node = Some(node);
        Ok(())
    }

    /// Takes what `list` tells, which is whether there are no more names; whether that was all
    /// that is wanted now.
    fn take(
        &mut self,
        node: &dyn Node,
        count_max: usize,
        list: impl FnOnce(&mut Taking<'_, T>) -> Result<Option<bool>>,
    ) -> Result<bool> {
        let mut taking = Taking::new(self, node, count_max);
        let listed = list(&mut taking)?;
        let is_taken = taking.hand_on() && !self.is_full;
        self.is_end = listed == Some(true) && is_taken;
        Ok(listed.is_some() || !is_taken)
    }

    fn note_taken(&mut self, name: &[u8], cookie: u64) {
        self.count += 1;
        self.cookie = cookie;
        self.bytes += name.len();
    }

    /// As [`RequestFiles::child_attributes`] has it.
    fn may_read(&self, name: &Name, kind: FileKind) -> bool {
        let reads = Access::FILE_READ - Access::SYNCHRONIZE;
        let Object { volume, path, .. } = &self.directory;
        let look = || {
            let path = path.join(name);
            let who = self.context.call(self.caller.identity.actor());
            let child = volume.vfs.open(who, &path, OpenHow::looking(Wait::Allowed))?;
            Ok::<_, FsError>(rights_to_opened(volume, &self.caller, &child).contains(reads))
        };
        self.caller.is_root()
            || !matches!(kind, FileKind::File | FileKind::Directory)
            || look().unwrap_or(false)
    }

    /// Opens the directory to be listed. A stored descriptor decides alone whether the caller may;
    /// where none is stored the kernel does. The superuser needs neither.
    fn open(&self) -> Result<Arc<dyn Node>> {
        let Object { volume, node, .. } = &self.directory;
        let granted = match self.caller.is_root() {
            true => None,
            false => rights_by_descriptor(volume, &self.caller, &**node)?,
        };
        if granted.is_some_and(|granted| !granted.contains(Access::READ_DATA)) {
            return Err(FsError::AccessDenied);
        }
        // As the user where that will do: what a cache keeps of it is then known to be the user's.
        match self.open_as(self.context.call(self.caller.identity.actor())) {
            Err(FsError::AccessDenied) if granted.is_some() => {
                self.open_as(self.context.call(Actor::server(ServerWork::OpenChecked)))
            }
            other => other,
        }
    }

    /// Opens the very node that was judged, not what has its name by now.
    fn open_as(&self, who: Actor<'_>) -> Result<Arc<dyn Node>> {
        let how = OpenHow { read: true, ..OpenHow::looking(Wait::Allowed) };
        let Object { volume, node, path } = &self.directory;
        let opened = match volume.vfs.open_node(who, &**node, how) {
            Err(FsError::NotSupported) => volume.vfs.open(who, path, how)?,
            other => other?,
        };
        let is_same = opened.attributes.key == node.key();
        if is_same { Ok(opened.node) } else { Err(FsError::Stale) }
    }
}
