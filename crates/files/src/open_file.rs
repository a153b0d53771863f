//! One open of a file or directory.

use crate::attributes::{BasicChange, TimeSetting};
use crate::authorize::dos_authority;
use crate::context::RequestContext;
use crate::directory_lease::ParentKey;
use crate::offload::offload;
use crate::open::{Semantics, Ticket};
use crate::remove::carry_out;
use crate::server_work::{METADATA, WANTED};
use crate::table::{Doomed, FileState, OpenName, Table, lock};
use crate::volume::dos;
use crate::watch::{DataReports, Filter, Heard, Watcher};
use crate::{Access, CacheKey, CallHolder, Caller, OpenId, RequestFiles, Share, Volume};
use limits::Turns;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use vfs::{
    Attributes, Case, FileKey, FileKind, FsError, KnownSecurity, Node, RelPath, Result, StreamName,
    Timestamp,
};

/// A larger file is removed by a worker.
pub(crate) const INLINE_FREE_BYTES_MAX: u64 = 1024 * 1024;

/// An open. Dropping it closes it; [`RequestFiles::close`] does so with an answer.
pub struct OpenFile {
    pub(crate) id: OpenId,
    pub(crate) node: Arc<dyn Node>,
    pub(crate) state: Arc<FileState>,
    pub(crate) name: Arc<OpenName>,
    /// What keeps the file of a named stream, until this is closed.
    hold: Mutex<Option<Box<Ticket>>>,
    pub(crate) caller: Arc<Caller>,
    /// Under which its client keeps something, and with other opens.
    pub(crate) key: Option<CacheKey>,
    /// By which its client keeps the directory that the file is in.
    pub(crate) parent_key: Option<ParentKey>,
    pub(crate) has_frozen: AtomicBool,
    /// [`Access`], which may be given up; and [`Share`], which may grow.
    granted: AtomicU32,
    share: AtomicU32,
    delete_on_close: bool,
    semantics: Semantics,
    /// See [`OpenFile::is_of_object`].
    of_object: bool,
    position: AtomicU64,
    closed: AtomicBool,
    /// A rename by this open has been asked for: its close comes after it.
    pub(crate) renames: AtomicBool,
    /// A rename of its directory moves what is open below.
    pub(crate) moves_opens: AtomicBool,
    /// Who closes it wants to know whether the name was there, and went.
    tells_removal: AtomicBool,
    /// What few opens have.
    aside: OnceLock<Box<Aside>>,
    pub(crate) table: Arc<Table>,
    /// Of a directory: who is told of changes in it.
    pub(crate) watch: OnceLock<Arc<Watcher>>,
    /// Changes that watches, or leases on the directory, have not been told of.
    unreported: AtomicU32,
    pub(crate) heard: Heard,
}

/// What few opens have, in memory of its own: there may be a hundred thousand of them.
#[derive(Debug, Default)]
struct Aside {
    /// Times that changes by this open do not move.
    frozen: Mutex<Frozen>,
    /// What is known of the file as it was when it was opened.
    known: OnceLock<Known>,
    /// What the file was turned into, if it was.
    turned: OnceLock<Arc<dyn Node>>,
    /// In which its requests wait for the limits of its file, once one has to.
    turns: OnceLock<Arc<Turns>>,
    /// Of a file that was written while somebody watched it.
    data_reports: OnceLock<Arc<DataReports>>,
}

/// What is known of a file at one time.
#[derive(Debug)]
struct Known {
    changed: Timestamp,
    change: u64,
    of_it: Arc<KnownSecurity>,
}

/// Beside what watches are told of: leases on the directory must break.
const UNLISTED: u32 = 1 << 31;
/// Beside that: the time of access is behind a write. MS-FSA 2.1.4.17.
const UNACCESSED: u32 = 1 << 30;

/// Times that changes by this open do not move.
#[derive(Debug, Default)]
pub(crate) struct Frozen {
    pub accessed: bool,
    pub modified: bool,
    pub changed: bool,
    /// Changes by this open that have not restored the times yet.
    in_flight: u32,
    /// The times before the first of those: the others may find what it has moved.
    before: TimesBefore,
}

/// Frozen times as they were before a change; none of those that may move.
#[derive(Clone, Copy, Debug, Default)]
struct TimesBefore {
    accessed: Option<Timestamp>,
    modified: Option<Timestamp>,
    changed: Option<Timestamp>,
}

impl Frozen {
    /// Whether this open may move all times.
    pub fn is_empty(&self) -> bool {
        !(self.accessed || self.modified || self.changed)
    }

    /// A client settles times while changes are in flight: those restore what it has set.
    pub fn settle(&mut self, change: &BasicChange) {
        let settle = |slot: &mut bool, before: &mut Option<Timestamp>, setting| match setting {
            TimeSetting::Keep => {}
            TimeSetting::Thaw => (*slot, *before) = (false, None),
            TimeSetting::Freeze => *slot = true,
            TimeSetting::Set(to) => (*slot, *before) = (true, Some(to)),
        };
        settle(&mut self.accessed, &mut self.before.accessed, change.accessed);
        settle(&mut self.modified, &mut self.before.modified, change.modified);
        settle(&mut self.changed, &mut self.before.changed, change.changed);
    }
}

/// A change by an open that must not move some times, until it has restored them.
#[derive(Debug)]
#[must_use]
pub struct FrozenTimes<'a> {
    open: &'a OpenFile,
}

impl Drop for FrozenTimes<'_> {
    fn drop(&mut self) {
        let mut frozen = lock(self.open.frozen());
        frozen.in_flight = frozen.in_flight.saturating_sub(1);
    }
}

impl std::fmt::Debug for OpenFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OpenFile")
            .field("id", &self.id)
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

/// What an open is made of.
pub(crate) struct OpenParts {
    pub id: OpenId,
    pub node: Arc<dyn Node>,
    pub state: Arc<FileState>,
    pub name: Arc<OpenName>,
    pub hold: Option<Box<Ticket>>,
    pub caller: Arc<Caller>,
    pub key: Option<CacheKey>,
    pub parent_key: Option<ParentKey>,
    pub granted: Access,
    pub share: Share,
    pub delete_on_close: bool,
    pub semantics: Semantics,
    pub of_object: bool,
    pub table: Arc<Table>,
}

impl OpenFile {
    pub(crate) fn new(parts: OpenParts) -> Self {
        let writes = parts.granted.intersects(Access::WRITE_DATA | Access::APPEND_DATA);
        parts.state.heed_others(&*parts.name.volume.vfs, &parts.node, writes);
        Self {
            id: parts.id,
            node: parts.node,
            state: parts.state,
            name: parts.name,
            hold: Mutex::new(parts.hold),
            caller: parts.caller,
            key: parts.key,
            parent_key: parts.parent_key,
            has_frozen: AtomicBool::new(false),
            granted: AtomicU32::new(parts.granted.0),
            share: AtomicU32::new(parts.share.0),
            delete_on_close: parts.delete_on_close,
            semantics: parts.semantics,
            of_object: parts.of_object,
            position: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            renames: AtomicBool::new(false),
            moves_opens: AtomicBool::new(false),
            tells_removal: AtomicBool::new(false),
            aside: OnceLock::new(),
            table: parts.table,
            watch: OnceLock::new(),
            unreported: AtomicU32::new(0),
            heard: Heard::default(),
        }
    }

    /// As whom it was opened. Requests of NFS clients use it as others:
    /// [`RequestFiles::authorize_by_open`].
    #[must_use]
    pub fn caller(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> OpenId {
        self.id
    }

    /// Which file it is of.
    #[must_use]
    pub fn key(&self) -> FileKey {
        self.state.present_key()
    }

    /// Times that changes by this open do not move; it is held while they are set and restored.
    pub(crate) fn frozen(&self) -> &Mutex<Frozen> {
        &self.aside().frozen
    }

    fn aside(&self) -> &Aside {
        self.aside.get_or_init(Box::default)
    }

    fn turned(&self) -> Option<&Arc<dyn Node>> {
        self.aside.get()?.turned.get()
    }

    /// In which its requests wait for the limits of its file, if one has had to.
    pub(crate) fn turns(&self) -> Option<&Arc<Turns>> {
        self.aside.get()?.turns.get()
    }

    /// The same, from now on.
    pub(crate) fn make_turns(&self) -> &Arc<Turns> {
        self.aside().turns.get_or_init(Arc::default)
    }

    /// How its changes of data are reported, once one was.
    pub(crate) fn data_reports(&self) -> &OnceLock<Arc<DataReports>> {
        &self.aside().data_reports
    }

    /// The same, if one was.
    pub(crate) fn known_data_reports(&self) -> Option<&Arc<DataReports>> {
        self.aside.get()?.data_reports.get()
    }

    /// This is known of the file with these attributes.
    pub(crate) fn learn(&self, at: &Attributes, of_it: Option<Arc<KnownSecurity>>) {
        let known = of_it.map(|of_it| Known { changed: at.changed, change: at.change, of_it });
        known.map(|known| self.aside().known.set(known));
    }

    /// What is known of the file, if it has not changed since: present attributes tell.
    pub(crate) fn known(&self, present: &Attributes) -> Option<&KnownSecurity> {
        let known = self.aside.get()?.known.get()?;
        let is_so = known.changed == present.changed && known.change == present.change;
        (is_so && !self.is_turned()).then_some(&*known.of_it)
    }

    /// File or directory.
    #[must_use]
    pub fn kind(&self) -> FileKind {
        self.present().kind()
    }

    /// The node that its name leads to: its own, or what that was turned into.
    pub(crate) fn present(&self) -> &Arc<dyn Node> {
        self.turned().unwrap_or(&self.node)
    }

    /// Whether its file was turned into another already.
    pub(crate) fn is_turned(&self) -> bool {
        self.turned().is_some()
    }

    /// The file has been replaced by `node`, and this open goes on with that.
    pub(crate) fn become_node(&self, node: Arc<dyn Node>) {
        self.state.set_present_key(node.key());
        let _ = self.aside().turned.set(node);
    }

    /// Whether it is of a directory.
    #[must_use]
    pub fn is_directory(&self) -> bool {
        self.kind() == FileKind::Directory
    }

    /// The file's attributes, as they are shown for its name.
    pub(crate) fn shown(&self, attributes: Attributes) -> Attributes {
        self.name.shown(attributes)
    }

    /// Rights it was granted.
    #[must_use]
    pub fn granted(&self) -> Access {
        Access(self.granted.load(Ordering::Relaxed))
    }

    /// What it tolerates of others.
    #[must_use]
    pub fn share(&self) -> Share {
        Share(self.share.load(Ordering::Relaxed))
    }

    /// See [`RequestFiles::narrow`].
    pub(crate) fn narrow(
        &self,
        context: &RequestContext,
        access: Access,
        share: Share,
    ) -> Result<()> {
        if !self.granted().contains(access) || !share.contains(self.share()) {
            return Err(FsError::InvalidParameter);
        }
        let mut held = self.state.lock(context);
        if !held.grants.handle_narrow(self.id, access, share) {
            return Err(FsError::Stale);
        }
        self.granted.store(access.0, Ordering::Relaxed);
        self.share.store(share.0, Ordering::Relaxed);
        Ok(())
    }

    /// Whose customs it follows.
    #[must_use]
    pub fn semantics(&self) -> Semantics {
        self.semantics
    }

    /// Whether it was opened by a handle: then locks of owners are agreements for it.
    pub(crate) fn is_of_object(&self) -> bool {
        self.of_object
    }

    /// Whether a rename of its directory moves what is open below.
    pub(crate) fn moves_opens_below(&self) -> bool {
        self.moves_opens.load(Ordering::Acquire)
    }

    pub(crate) fn is_posix(&self) -> bool {
        self.semantics == Semantics::Posix
    }

    /// How names are compared that it is about.
    pub(crate) fn case(&self) -> Case {
        if self.is_posix() { Case::Sensitive } else { self.volume().options.case }
    }

    /// Whether the file vanishes when it is closed, by its own wish.
    pub(crate) fn deletes_on_close(&self) -> bool {
        self.delete_on_close
    }

    /// Where the file is now, in its volume.
    #[must_use]
    pub fn path(&self) -> RelPath {
        self.name.path()
    }

    /// The named stream that is open, as it is stored; none for the file itself.
    #[must_use]
    pub fn stream(&self) -> Option<StreamName> {
        self.name.stream.as_ref().map(|stream| stream.name())
    }

    /// Whether the stream `name` of the file that this is a stream of is open.
    pub(crate) fn file_has_open_stream(&self, name: &StreamName) -> bool {
        self.table.find(self.key()).is_some_and(|file| file.look().has_open_stream(name))
    }

    /// The volume it is in.
    #[must_use]
    pub fn volume(&self) -> &Arc<Volume> {
        &self.name.volume
    }

    /// Whether the name it came by vanishes at the last close, or for a stream
    /// its file's.
    #[must_use]
    pub fn is_delete_pending(&self) -> bool {
        self.state.look().grants.is_delete_pending(self.name.link)
            || lock(&self.hold).as_ref().is_some_and(|hold| hold.is_delete_pending())
    }

    /// Whether a name may vanish when it is closed: by its own wish, or since it is to.
    #[must_use]
    pub fn may_remove_at_close(&self) -> bool {
        self.delete_on_close || self.is_delete_pending()
    }

    /// A number that clients may keep with the open; starts at 0.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    /// See [`OpenFile::position`].
    pub fn set_position(&self, position: u64) {
        self.position.store(position, Ordering::Relaxed);
    }

    /// Whether one of `rights` was granted.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if none was.
    pub(crate) fn need_any(&self, rights: Access) -> Result<()> {
        if self.granted().intersects(rights) { Ok(()) } else { Err(FsError::AccessDenied) }
    }

    /// Refuses changes on a read-only volume.
    pub(crate) fn need_writable(&self) -> Result<()> {
        self.volume().check_changeable()
    }

    /// Closes once; removes the name if this was its last open and it is doomed.
    fn close_now(&self, context: &RequestContext) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.note_access();
        self.note_unreported(self.take_deferred_kinds());
        self.report_unreported(context);
        if self.delete_on_close {
            let mut held = self.state.lock(context);
            held.grants.caches.handle_name_change(self.cache_owner());
            held.doom(self.doomed());
        }
        let removal = self.table.close(context, &self.state, self.id, true);
        // After it: a watch that begins now finds the open closed.
        self.end_watch();
        let result = match removal {
            Some(removal) => {
                let result = carry_out(context, &self.table, &self.state, removal, self.parent_key);
                match result {
                    Err(FsError::NotFound | FsError::PathNotFound | FsError::NotEmpty)
                        if !self.tells_removal.load(Ordering::Relaxed) =>
                    {
                        Ok(())
                    }
                    other => other,
                }
            }
            None => {
                if self.delete_on_close && self.is_directory() {
                    self.judge_watches();
                }
                Ok(())
            }
        };
        // A stream's file after the stream.
        let hold = lock(&self.hold).take();
        result.and(hold.map_or(Ok(()), |hold| hold.release(context)))
    }

    /// Its name is to vanish by its wish.
    pub(crate) fn doomed(&self) -> Doomed {
        let (name, caller) = (self.name.clone(), self.caller.clone());
        Doomed { name, caller, parent_key: self.parent_key }
    }

    /// The open was used to change what watches are told of when it is
    /// closed. Costs one load but for the first time.
    pub(crate) fn note_unreported(&self, what: Filter) {
        if self.unreported.load(Ordering::Relaxed) & what.0 != what.0 {
            self.unreported.fetch_or(what.0, Ordering::Relaxed);
        }
    }

    /// As [`OpenFile::report_unreported`], of an open that goes on: changes of data may wait for
    /// the tick.
    pub(crate) fn report_flushed(&self, context: &RequestContext) {
        self.report_data();
        self.report_unreported(context);
    }

    /// Tells watches what was noted since the last time.
    pub(crate) fn report_unreported(&self, context: &RequestContext) {
        if self.unreported.load(Ordering::Relaxed) & !UNACCESSED != 0 {
            // The time of access waits for the close.
            let noted = self.unreported.fetch_and(UNACCESSED, Ordering::Relaxed);
            if noted & UNLISTED != 0 {
                self.break_directory(context, &self.path());
            }
            self.tell_watches(Filter(noted & !(UNLISTED | UNACCESSED)));
        }
    }

    /// Tells watches what was noted, if any hears of it, now or with the next tick; leases on the
    /// directory are told when the open is closed or flushed.
    pub(crate) fn report_data(&self) {
        if self.is_watched() {
            let noted = self.unreported.fetch_and(!Filter::DATA.0, Ordering::Relaxed);
            if noted & Filter::DATA.0 != 0 {
                self.report_kinds(Filter(noted & Filter::DATA.0));
            }
        }
    }

    /// `caller` has changed the data: watches are told, and the archive bit is set
    /// if it is stored as cleared. Who was granted to keep it while it changed may have read
    /// it as it was. Costs three loads where nothing is to be done.
    pub(crate) fn note_changed(&self, context: &RequestContext, caller: &Caller) {
        self.note_written(context, caller, self.data_filter());
    }

    /// The same for a write, of [`OpenFile::kinds_after`].
    pub(crate) fn note_written(&self, context: &RequestContext, caller: &Caller, what: Filter) {
        self.break_readers(context);
        self.note_length_change(what);
        self.note_unreported(what | Filter(UNLISTED | UNACCESSED));
        self.note_archived(caller);
        self.report_data();
    }

    /// Moves the time of access to that of the last write, if a client of Windows has written since:
    /// POSIX does not. The kernel does so at a read, even one at which nothing is at hand, and leaves
    /// the change time alone; where the administrator mounted with `noatime`, it does not.
    fn note_access(&self) {
        if self.lags_access() {
            // The answer about data does not matter.
            let _ = self.node.read(0, 1, &mut Vec::new(), vfs::Wait::Never);
        }
    }

    /// Whether the time of access is behind a write until the open is closed. Costs a load where
    /// there was none. Streams have no times of their own.
    fn lags_access(&self) -> bool {
        if self.unreported.load(Ordering::Relaxed) & UNACCESSED == 0
            || self.is_posix()
            || self.name.stream.is_some()
            || self.volume().features().noatime
        {
            return false;
        }
        let is_frozen = self.has_frozen.load(Ordering::Acquire) && lock(self.frozen()).accessed;
        !is_frozen
    }

    /// The time of access as it will be once this open is closed: that of its last write, which
    /// [`OpenFile::note_access`] moves it to.
    pub(crate) fn with_access(&self, attributes: Attributes) -> Attributes {
        if !self.lags_access() {
            return attributes;
        }
        let accessed = attributes.accessed.max(attributes.modified);
        Attributes { accessed, ..attributes }
    }

    /// The same for a change of which leases on the directory know already.
    pub(crate) fn note_listed_change(&self, context: &RequestContext, caller: &Caller) {
        self.break_readers(context);
        self.note_length_change(self.data_filter());
        self.note_unreported(self.data_filter() | Filter(UNACCESSED));
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
            self.node.set_attributes(dos_authority(caller, &present).actor(), &changes)
        });
        if let Err(error) = changed {
            tracing::debug!(%error, "the archive bit could not be set");
        }
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        // An explicit close has reported what went wrong already.
        if let Err(error) = self.close_now(&RequestContext::SERVER) {
            tracing::warn!(path = ?self.path(), %error, "a file marked for deletion could not be removed");
        }
    }
}

impl RequestFiles {
    /// Closes an open: its locks and its share mode end, and a file that was
    /// marked for deletion vanishes with its last open. Other holders of the
    /// same `Arc` find it closed.
    ///
    /// # Errors
    /// Those of removing the file.
    pub async fn close(&self, open: Arc<OpenFile>) -> Result<()> {
        self.close_sized(open, None).await
    }

    /// As [`RequestFiles::close`]; the file has so many bytes, as far as that is known.
    async fn close_sized(&self, open: Arc<OpenFile>, size_bytes: Option<u64>) -> Result<()> {
        let marks = open.may_remove_at_close() && open.state.is_recorded();
        let marked = marks.then(|| open.clone());
        let closed = self.close_in_turn(open, size_bytes).await;
        let Some(marked) = marked else { return closed };
        // Opens that the journal has may keep the name. They have to remove it after a restart, too.
        let recorded = Box::pin(self.record_opens(&marked)).await;
        closed.and(recorded)
    }

    async fn close_in_turn(&self, open: Arc<OpenFile>, size_bytes: Option<u64>) -> Result<()> {
        let removes = open.may_remove_at_close();
        // Else the file might vanish by its old name, and stay by its new one:
        // POSIX renames what lies below, and files whose names have gone.
        let waits = open.renames.load(Ordering::Acquire) || (removes && open.is_posix());
        let turn = match waits {
            true => Some(self.table.rename_turns.clone().lock_owned().await),
            false => None,
        };
        if removes && open.is_better_removed_apart(size_bytes) {
            let context = self.context.clone();
            let holder = if waits { CallHolder::Names } else { self.holder.clone() };
            let close = move || {
                let _turn = turn;
                open.close_now(&context)
            };
            return offload(&*self.workers, &holder, close).await;
        }
        open.close_now(&self.context)
    }
}

impl RequestFiles {
    /// Closes an open whose name is to vanish, of a file that had so many bytes a moment ago,
    /// and says whether that could be.
    ///
    /// # Errors
    /// As [`RequestFiles::close`]; [`FsError::NotEmpty`] if something was put into the
    /// directory meanwhile, [`FsError::NotFound`] if somebody else removed the name.
    pub(crate) async fn close_removing(&self, open: Arc<OpenFile>, size_bytes: u64) -> Result<()> {
        open.tells_removal.store(true, Ordering::Relaxed);
        self.close_sized(open, Some(size_bytes)).await
    }
}

impl OpenFile {
    /// Whether a worker had better remove it: freeing a large file takes long, or
    /// all does. And who keeps something of a file is told before whoever removes it has
    /// the answer, which that client may act on.
    fn is_better_removed_apart(&self, size_bytes: Option<u64>) -> bool {
        if self.volume().features().waits {
            return true;
        }
        if self.kind() != FileKind::File {
            return false;
        }
        let present = || Some(self.node.attributes(vfs::Wanted::default()).ok()?.size_bytes);
        let is_large = || {
            let size_bytes = size_bytes.or_else(present);
            size_bytes.is_some_and(|size_bytes| size_bytes > INLINE_FREE_BYTES_MAX)
        };
        self.state.has_caches() || is_large()
    }

    /// Looks at the times that a change by this open must not move, unless another change of this
    /// open is in flight, which has looked before. Costs one load where nothing is frozen.
    #[must_use]
    pub fn keep_frozen(&self) -> Option<FrozenTimes<'_>> {
        if !self.has_frozen.load(Ordering::Acquire) {
            return None;
        }
        let mut frozen = lock(self.frozen());
        if frozen.in_flight == 0 {
            // The time that was set stands beside the DOS attributes.
            let wanted = if frozen.changed { WANTED } else { vfs::Wanted::default() };
            let present = self.node.attributes(wanted).ok()?;
            frozen.before = TimesBefore {
                accessed: frozen.accessed.then_some(present.accessed),
                modified: frozen.modified.then_some(present.modified),
                changed: frozen.changed.then(|| present.shown_changed()),
            };
        }
        frozen.in_flight += 1;
        Some(FrozenTimes { open: self })
    }

    /// Puts them back after the change, by the server's own power: the change may have taken the
    /// file from its owner, and the right to freeze times was checked when that was done.
    pub fn restore_frozen(&self, kept: Option<FrozenTimes<'_>>) {
        if kept.is_none() {
            return;
        }
        let frozen = lock(self.frozen());
        let set = |t: Option<Timestamp>| t.map_or(vfs::TimeChange::Keep, vfs::TimeChange::Set);
        let changes = vfs::AttributeChanges {
            accessed: set(frozen.before.accessed),
            modified: set(frozen.before.modified),
            changed: frozen.before.changed,
            ..Default::default()
        };
        if let Err(error) = self.node.set_attributes(METADATA, &changes) {
            tracing::debug!(%error, "frozen times could not be kept");
        }
        drop(frozen);
    }
}
