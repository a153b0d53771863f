//! One open of a file or directory: its state, and the changes that it has still to report.

use crate::authorize::dos_authority;
use crate::cache_holder::ParentKey;
use crate::context::RequestContext;
use crate::frozen_times::{ACCESSED, FrozenTimes, MovedTimes, StoppedTimes, TimedNode, keep_times};
use crate::open::{OpenTicket, Semantics};
use crate::open_name::OpenName;
use crate::rename_turns::TurnRequest;
use crate::server_work::WANTED;
use crate::table::{DeletePendingName, FileTable, OpenFileState};
use crate::volume::dos;
use crate::watch::{DataReports, WatchFilter, WatchedCache, Watcher};
use crate::{Access, CacheKey, Caller, OpenId, ShareMode, Volume};
use limits::{LedgerAccount, Turns};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use sync::Mutex;
use vfs::{
    Attributes, Case, FileKey, FileKind, FsError, Node, NodeHandle, NodeSecurityCache, RelPath,
    Result, StreamName, Timestamp, TreeFeatures,
};

/// An open of a file or directory. Dropping it closes it; [`RequestFiles::close`] returns the
/// result.
pub struct OpenFile {
    pub(crate) id: OpenId,
    pub(crate) node: Arc<dyn Node>,
    pub(crate) state: Arc<OpenFileState>,
    pub(crate) name: Arc<OpenName>,
    /// For a named stream, the hold on its file; released on close.
    pub(crate) hold: Mutex<Option<Box<OpenTicket>>>,
    pub(crate) caller: Arc<Caller>,
    /// Lease or delegation key that the client's opens of the file share.
    pub(crate) key: Option<CacheKey>,
    /// Lease key under which the client caches the parent directory.
    pub(crate) parent_key: Option<ParentKey>,
    /// The times that changes by this open do not move, as bits of `TimeFreeze::bits`.
    pub(crate) frozen: AtomicU8,
    /// Whether writes by this open move the last access time, once one has asked.
    pub(crate) writes_are_accesses: OnceLock<bool>,
    /// Whether the close advances the last access time, unless a client set it after the write.
    pub(crate) has_stale_access: AtomicBool,
    /// [`Access`] and [`ShareMode`] of the open: a downgrade reduces the former and extends the
    /// latter.
    granted: AtomicU32,
    share: AtomicU32,
    pub(crate) delete_on_close: bool,
    semantics: Semantics,
    /// See [`OpenFile::is_of_object`].
    of_object: bool,
    position: AtomicU64,
    pub(crate) closed: AtomicBool,
    /// Whether this open has requested a rename: its close is ordered after it.
    pub(crate) renames: AtomicBool,
    /// Whether a rename of this directory moves opens below it.
    pub(crate) moves_opens: AtomicBool,
    /// Whether the close reports a name that was removed already or not empty.
    pub(crate) reports_removal: AtomicBool,
    /// State that few opens need.
    rare: OnceLock<Box<RareState>>,
    pub(crate) table: Arc<FileTable>,
    /// For a directory, its watch.
    pub(crate) watch: OnceLock<Arc<Watcher>>,
    /// Changes that watches and directory leases have not received yet.
    unreported: AtomicU32,
    pub(crate) watched_cache: WatchedCache,
}

/// State that few opens need, allocated separately: there may be a hundred thousand opens.
#[derive(Debug, Default)]
struct RareState {
    /// Times that changes by this open do not move.
    frozen: OnceLock<Arc<FrozenTimes>>,
    /// Security information from the time of the open.
    known: OnceLock<CachedSecurity>,
    /// Node that replaced the file, if any.
    replacement: OnceLock<Arc<dyn Node>>,
    /// Queue of its requests at the file's limits, once a request had to wait.
    turns: OnceLock<Arc<Turns>>,
    /// Reports of data changes, for a file that was written while it was watched.
    data_reports: OnceLock<Arc<DataReports>>,
}

/// Security information of a file, with the change time and counter for which it holds.
#[derive(Debug)]
struct CachedSecurity {
    changed: Timestamp,
    change: u64,
    of_it: Arc<NodeSecurityCache>,
}

/// Flag beside the watch kinds: directory leases must break.
const UNLISTED: u32 = 1 << 31;

impl std::fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenFile")
            .field("id", &self.id)
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

/// Constituents of an open.
pub(crate) struct OpenFileParts {
    pub id: OpenId,
    pub node: Arc<dyn Node>,
    pub state: Arc<OpenFileState>,
    pub name: Arc<OpenName>,
    pub hold: Option<Box<OpenTicket>>,
    pub caller: Arc<Caller>,
    pub key: Option<CacheKey>,
    pub parent_key: Option<ParentKey>,
    pub granted: Access,
    pub share: ShareMode,
    pub delete_on_close: bool,
    pub semantics: Semantics,
    pub of_object: bool,
    pub table: Arc<FileTable>,
}

impl OpenFile {
    pub(crate) fn new(parts: OpenFileParts) -> Self {
        let writes = parts.granted.intersects(Access::WRITE_DATA | Access::APPEND_DATA);
        parts.state.watch_external_changes(&*parts.name.volume.vfs, &parts.node, writes);
        Self {
            id: parts.id,
            node: parts.node,
            state: parts.state,
            name: parts.name,
            hold: Mutex::new(parts.hold),
            caller: parts.caller,
            key: parts.key,
            parent_key: parts.parent_key,
            frozen: AtomicU8::new(0),
            writes_are_accesses: OnceLock::new(),
            has_stale_access: AtomicBool::new(false),
            granted: AtomicU32::new(parts.granted.0),
            share: AtomicU32::new(parts.share.0),
            delete_on_close: parts.delete_on_close,
            semantics: parts.semantics,
            of_object: parts.of_object,
            position: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            renames: AtomicBool::new(false),
            moves_opens: AtomicBool::new(false),
            reports_removal: AtomicBool::new(false),
            rare: OnceLock::new(),
            table: parts.table,
            watch: OnceLock::new(),
            unreported: AtomicU32::new(0),
            watched_cache: WatchedCache::default(),
        }
    }

    /// User that opened the file. Requests of NFS clients may use the open as another user:
    /// [`RequestFiles::authorize_by_open`].
    #[must_use]
    pub fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// Identifier of the open.
    #[must_use]
    pub fn id(&self) -> OpenId {
        self.id
    }

    /// Key of the file.
    #[must_use]
    pub fn key(&self) -> FileKey {
        self.state.present_key()
    }

    fn rare(&self) -> &RareState {
        self.rare.get_or_init(Box::default)
    }

    fn replacement(&self) -> Option<&Arc<dyn Node>> {
        self.rare.get()?.replacement.get()
    }

    /// Queue of its requests at the file's limits, if one had to wait.
    pub(crate) fn turns(&self) -> Option<&Arc<Turns>> {
        self.rare.get()?.turns.get()
    }

    /// The queue, created if necessary.
    pub(crate) fn turns_or_default(&self) -> &Arc<Turns> {
        self.rare().turns.get_or_init(Arc::default)
    }

    /// Reports of its data changes, set by the first.
    pub(crate) fn data_reports(&self) -> &OnceLock<Arc<DataReports>> {
        &self.rare().data_reports
    }

    /// Reports of its data changes, if there were any.
    pub(crate) fn known_data_reports(&self) -> Option<&Arc<DataReports>> {
        self.rare.get()?.data_reports.get()
    }

    /// Caches security information that holds for these attributes.
    pub(crate) fn cache_security(&self, at: &Attributes, of_it: Option<Arc<NodeSecurityCache>>) {
        let known =
            of_it.map(|of_it| CachedSecurity { changed: at.changed, change: at.change, of_it });
        known.map(|known| self.rare().known.set(known));
    }

    /// Cached security information, if `present` shows that the file has not changed since.
    pub(crate) fn cached_security(&self, present: &Attributes) -> Option<&NodeSecurityCache> {
        let known = self.rare.get()?.known.get()?;
        let is_so = known.changed == present.changed && known.change == present.change;
        (is_so && !self.is_replaced()).then_some(&*known.of_it)
    }

    /// Kind of the file.
    #[must_use]
    pub fn kind(&self) -> FileKind {
        self.present().kind()
    }

    /// The node that the name refers to: the open's own, or its replacement.
    pub(crate) fn present(&self) -> &Arc<dyn Node> {
        self.replacement().unwrap_or(&self.node)
    }

    /// Whether another node has replaced the file.
    pub(crate) fn is_replaced(&self) -> bool {
        self.replacement().is_some()
    }

    /// Redirects the open to `node`, which has replaced the file.
    pub(crate) fn redirect_to(&self, node: Arc<dyn Node>) {
        self.state.set_present_key(node.key());
        let _ = self.rare().replacement.set(node);
    }

    /// Leaves the times that this open set or stopped on the node that replaces its file.
    pub(crate) fn keep_times_on(&self, successor: TimedNode, present: &Attributes) {
        if let Some(times) = self.rare().frozen.get() {
            times.redirect_to(successor, present);
        }
    }

    /// Whether the file is a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.kind() == FileKind::Directory
    }

    /// The file's attributes as presented for its name.
    pub(crate) fn presented(&self, attributes: Attributes) -> Attributes {
        self.name.presented(attributes)
    }

    /// Granted rights.
    #[must_use]
    pub fn granted(&self) -> Access {
        Access(self.granted.load(Ordering::Relaxed))
    }

    /// Share mode.
    #[must_use]
    pub fn share(&self) -> ShareMode {
        ShareMode(self.share.load(Ordering::Relaxed))
    }

    /// See [`RequestFiles::downgrade`].
    pub(crate) fn downgrade(
        &self,
        context: &RequestContext,
        access: Access,
        share: ShareMode,
    ) -> Result<()> {
        if !self.granted().contains(access) || !share.contains(self.share()) {
            return Err(FsError::InvalidParameter);
        }
        let mut held = self.state.lock(context);
        if !held.grants.handle_downgrade(self.id, access, share) {
            return Err(FsError::Stale);
        }
        self.granted.store(access.0, Ordering::Relaxed);
        self.share.store(share.0, Ordering::Relaxed);
        Ok(())
    }

    /// Protocol family whose rules apply.
    #[must_use]
    pub fn semantics(&self) -> Semantics {
        self.semantics
    }

    /// Whether the file was opened by handle: byte-range locks by lock owners are advisory for such
    /// an open.
    pub(crate) fn is_of_object(&self) -> bool {
        self.of_object
    }

    /// Whether a rename of this directory moves opens below it.
    pub(crate) fn moves_opens_below(&self) -> bool {
        self.moves_opens.load(Ordering::Acquire)
    }

    pub(crate) fn is_posix(&self) -> bool {
        self.semantics == Semantics::Posix
    }

    /// Case rule for names.
    pub(crate) fn case(&self) -> Case {
        if self.is_posix() { Case::Sensitive } else { self.volume().options.case }
    }

    /// Whether the open has delete on close.
    pub(crate) fn deletes_on_close(&self) -> bool {
        self.delete_on_close
    }

    /// Current path of the file in its volume.
    #[must_use]
    pub fn path(&self) -> RelPath {
        self.name.path()
    }

    /// Name of the open stream as stored; none for the file itself.
    #[must_use]
    pub fn stream(&self) -> Option<StreamName> {
        self.name.stream.as_ref().map(|stream| stream.name())
    }

    /// Whether the stream `name` of this open's file is open.
    pub(crate) fn file_has_open_stream(&self, name: &StreamName) -> bool {
        self.table.find(self.key()).is_some_and(|file| file.view().has_open_stream(name))
    }

    /// Volume of the file.
    #[must_use]
    pub fn volume(&self) -> &Arc<Volume> {
        &self.name.volume
    }

    /// The open's node, or for a stream its file's.
    pub(crate) fn main_node(&self) -> &Arc<dyn Node> {
        self.name.stream.as_ref().map_or(&self.node, |stream| stream.file())
    }

    /// As [`Volume::features`], for the file system of the file or directory. The first call for a
    /// file system below a mount point may take long.
    #[must_use]
    pub fn features(&self) -> TreeFeatures {
        self.volume().vfs.features_of(&**self.main_node())
    }

    /// As [`Volume::is_read_only`], for the mount of the file or directory.
    #[must_use]
    pub fn is_read_only_mount(&self) -> bool {
        let volume = self.volume();
        volume.is_unchangeable() || volume.vfs.is_read_only_at(&**self.main_node())
    }

    /// Bytes that distinguish the file from every other that its file system has or had; see
    /// [`vfs::PersistentHandles::persistent_id`].
    #[must_use]
    pub fn persistent_id(&self) -> Option<NodeHandle> {
        self.volume().vfs.handles()?.persistent_id(&**self.main_node())
    }

    /// Whether the open's name is delete pending, or for a stream its file's name.
    #[must_use]
    pub fn is_delete_pending(&self) -> bool {
        self.state.view().grants.is_delete_pending(self.name.link)
            || self.hold.lock().as_ref().is_some_and(|hold| hold.is_delete_pending())
    }

    /// Whether closing may remove a name: by delete on close, or since it is delete pending.
    #[must_use]
    pub fn may_remove_at_close(&self) -> bool {
        self.delete_on_close || self.is_delete_pending()
    }

    /// Claims of a rename of the open file.
    pub(crate) fn name_change(&self) -> TurnRequest {
        let root_device = self.volume().vfs_serial();
        TurnRequest { root_device, file: self.key(), moves_directory: self.is_directory() }
    }

    /// CurrentByteOffset of the open; starts at 0. MS-FSA 2.1.1.6.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    /// See [`OpenFile::position`].
    pub fn set_position(&self, position: u64) {
        self.position.store(position, Ordering::Relaxed);
    }

    /// Checks that one of `rights` was granted.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if none was.
    pub(crate) fn need_any(&self, rights: Access) -> Result<()> {
        if self.granted().intersects(rights) { Ok(()) } else { Err(FsError::AccessDenied) }
    }

    /// Checks that the volume may be changed.
    pub(crate) fn need_writable(&self) -> Result<()> {
        self.volume().check_changeable()
    }

    /// Record that makes the open's name delete pending for its caller.
    pub(crate) fn pending_delete(&self) -> DeletePendingName {
        let (name, caller) = (self.name.clone(), self.caller.clone());
        DeletePendingName { name, caller, parent_key: self.parent_key }
    }

    /// Notes a change that watches receive when the open is closed. It costs one load after the
    /// first time.
    pub(crate) fn note_unreported(&self, what: WatchFilter) {
        if self.unreported.load(Ordering::Relaxed) & what.0 != what.0 {
            self.unreported.fetch_or(what.0, Ordering::Relaxed);
        }
    }

    /// As [`OpenFile::report_unreported`], for an open that continues: data changes may wait for
    /// the tick.
    pub(crate) fn report_flushed(&self, context: &RequestContext) {
        self.report_data();
        self.report_unreported(context);
    }

    /// Reports the noted changes to watches and directory leases.
    pub(crate) fn report_unreported(&self, context: &RequestContext) {
        if self.unreported.load(Ordering::Relaxed) != 0 {
            let noted = self.unreported.swap(0, Ordering::Relaxed);
            if noted & UNLISTED != 0 {
                self.break_directory(context, &self.path());
            }
            self.notify_watches(WatchFilter(noted & !UNLISTED));
        }
    }

    /// Reports noted data changes to watches, now or with the next tick. Directory leases break
    /// when the open is closed or flushed.
    pub(crate) fn report_data(&self) {
        if self.is_watched() {
            let noted = self.unreported.fetch_and(!WatchFilter::DATA.0, Ordering::Relaxed);
            if noted & WatchFilter::DATA.0 != 0 {
                self.report_kinds(WatchFilter(noted & WatchFilter::DATA.0));
            }
        }
    }

    /// Handles a data change by `caller`: breaks read caching, reports to watches and sets a
    /// cleared archive attribute. A client that was granted caching during the change may have read
    /// old data. It costs three loads if nothing is affected.
    pub(crate) fn note_changed(&self, context: &RequestContext, caller: &Caller) {
        self.note_written(context, caller, self.data_filter());
    }

    /// The same for a write with the kinds of [`OpenFile::kinds_after`].
    pub(crate) fn note_written(
        &self,
        context: &RequestContext,
        caller: &Caller,
        what: WatchFilter,
    ) {
        self.break_readers(context);
        self.note_length_change(what);
        self.note_unreported(what | WatchFilter(UNLISTED));
        self.note_stale_access_time();
        self.note_archived(caller);
        self.report_data();
    }

    /// The same for a change that has broken directory leases already.
    pub(crate) fn note_listed_change(&self, context: &RequestContext, caller: &Caller) {
        self.break_readers(context);
        self.note_length_change(self.data_filter());
        self.note_unreported(self.data_filter());
        self.note_stale_access_time();
        self.note_archived(caller);
        self.report_data();
    }

    fn note_archived(&self, caller: &Caller) {
        if !self.state.take_lacks_archive() {
            return;
        }
        let changed = self.node.attributes(WANTED).and_then(|present| {
            let Some(bits) = present.dos.bits.filter(|bits| bits & dos::ARCHIVE == 0) else {
                return Ok(());
            };
            let dos = Some(vfs::DosInfo { bits: Some(bits | dos::ARCHIVE), created: None });
            let changes = vfs::AttributeChanges { dos, ..Default::default() };
            let authority = dos_authority(caller, &present);
            self.keep_times(MovedTimes::Changed, || {
                self.node.set_attributes(authority.actor(), &changes)
            })
        });
        if let Err(error) = changed {
            tracing::debug!(%error, "a write cannot set the archive attribute of its file");
        }
    }
}

impl OpenFile {
    /// Runs a change by this open that moves `moved`, and restores the frozen times. It costs one
    /// load if no time is frozen. A worker needs [`OpenFile::frozen_times`].
    pub(crate) fn keep_times<T, E>(
        &self,
        moved: MovedTimes,
        change: impl FnOnce() -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        keep_times(self.frozen_times().as_ref(), moved, change)
    }

    /// Frozen times for a change on a worker, which goes on if the request is dropped.
    pub(crate) fn frozen_times(&self) -> Option<Arc<FrozenTimes>> {
        if self.frozen.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.store_others_access();
        Some(self.frozen_times_or_default().clone())
    }

    /// The frozen times, created if necessary.
    pub(crate) fn frozen_times_or_default(&self) -> &Arc<FrozenTimes> {
        self.rare().frozen.get_or_init(|| {
            // A stream has the times of its file, also when it is removed.
            let file = self.name.stream.as_ref().map_or(self.present(), |stream| stream.file());
            Arc::new(FrozenTimes::new(file.clone(), self.moves_access_time()))
        })
    }

    /// Times that this open set or stopped.
    #[must_use]
    pub fn stopped_times(&self) -> StoppedTimes {
        StoppedTimes::new(self.frozen.load(Ordering::Acquire)).unwrap_or_default()
    }

    /// Stops the times of a restored open; `account` is charged as by [`FrozenTimes::settle`].
    pub(crate) fn restore_stopped(&self, stopped: StoppedTimes, account: Arc<LedgerAccount>) {
        if stopped != StoppedTimes::default() {
            let times = self.frozen_times_or_default();
            times.settle(&mut times.settings(), &stopped.freeze(), || Some(account));
            self.frozen.store(stopped.bits(), Ordering::Release);
        }
    }

    /// The node to read data or entries from: reads by an open that set or stopped the last access
    /// time do not move it (MS-FSA 2.1.4.19). It costs one load if that time is not frozen.
    /// Restoring the time after each read would move the change time, which no read does.
    pub(crate) fn reading_node(&self) -> ReadingNode<'_> {
        let is_stream = self.name.stream.is_some();
        if self.frozen.load(Ordering::Acquire) & ACCESSED == 0 || is_stream {
            return ReadingNode::Shared(&self.node);
        }
        let noatime = self.frozen_times_or_default().noatime_node();
        noatime.map_or(ReadingNode::Shared(&self.node), ReadingNode::Noatime)
    }
}

/// Node that a read uses.
pub(crate) enum ReadingNode<'a> {
    /// The open's node.
    Shared(&'a Arc<dyn Node>),
    /// A node whose reads leave the last access time alone.
    Noatime(Arc<dyn Node>),
}

impl Deref for ReadingNode<'_> {
    type Target = Arc<dyn Node>;

    fn deref(&self) -> &Arc<dyn Node> {
        match self {
            Self::Shared(node) => node,
            Self::Noatime(node) => node,
        }
    }
}
