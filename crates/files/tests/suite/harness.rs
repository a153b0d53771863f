//! A served directory, a user, and hooks into the backend.

pub use files::Inline;
use files::{
    Access, CallHolder, Caller, ClientProtocol, Files, IfExists, IfMissing, OpenFile, OpenPlan,
    OpenResult, PendingAnswer, RequestContext, RequestFiles, RequestedKind, Semantics, ShareMode,
    Volume, VolumeOptions, Workers,
};
use futures_util::future::BoxFuture;
use limits::LedgerHolder;
use std::collections::BTreeMap;
use std::future::Future;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Weak};
use std::time::Duration;
use tempfile::TempDir;
use vfs::{
    Actor, ArrivalOrder, AttributeRequest, Case, ChildName, ChildRename, CreateHow, CreationMode,
    ExpectedChild, ExternalChange, ExternalChangeCallback, ExternalWatch, ExternalWatches,
    FileChangeCallback, FileKey, FsError, Identity, Name, NameActor, NewChild, Node, OpenHow,
    OpenedNode, PersistentHandles, Quota, QuotaLimits, QuotaState, RelPath, Replace, Result, Space,
    SpecialKind, TreeChangeCallback, TreeFeatures, UserQuotas, Vfs, Wait, XattrName,
};
use vfs_local::LocalVfs;

/// Holder that is charged for byte ranges.
pub static HOLDER: LazyLock<LedgerHolder> = LazyLock::new(|| LedgerHolder::User("somebody".into()));

pub const READ: Access = Access::FILE_READ;
pub const WRITE: Access = Access::FILE_WRITE;
pub const LOOK: Access = Access::READ_ATTRIBUTES;
pub const DELETE: Access = Access::DELETE;
pub const ALL: Access = Access::FILE_ALL;

/// Defers tasks until the test runs them.
#[derive(Default)]
pub struct DeferringWorkers(pub Mutex<Vec<Box<dyn FnOnce() + Send>>>);

impl Workers for DeferringWorkers {
    fn run(&self, _: &CallHolder, task: Box<dyn FnOnce() + Send>) {
        self.0.lock().unwrap().push(task);
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// Runs a hook once before the next task.
#[derive(Default)]
pub struct HookedWorkers(pub Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Workers for HookedWorkers {
    fn run(&self, _: &CallHolder, task: Box<dyn FnOnce() + Send>) {
        let first = self.0.lock().unwrap().take();
        if let Some(first) = first {
            first();
        }
        task();
    }

    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// Point in a backend call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookPoint {
    BeforeCreate,
    AfterCreate,
    AfterOpen,
    BeforeMake,
    BeforeRemove,
    BeforeRename,
    AfterRename,
}

type Hook = Box<dyn FnMut(&dyn Vfs, HookPoint, &RelPath) -> Result<()> + Send>;

/// The local backend with a hook at the points of [`At`]. The hook's own calls are not hooked.
pub struct HookedBackend {
    local: LocalVfs,
    hook: Mutex<Option<Hook>>,
    /// Number of opens by name, including refused ones.
    pub opens: AtomicU64,
    /// Receivers of external changes in directories.
    outside: Mutex<Vec<(ExternalChangeCallback, Weak<()>)>>,
    /// The same for files, with whether they receive every write.
    outside_files: Mutex<Vec<(FileChangeCallback, bool, Weak<()>)>>,
    /// The same for whole trees.
    outside_trees: Mutex<Vec<(TreeChangeCallback, Weak<()>)>>,
    /// Quotas of users; none without quota support.
    pub quotas: Mutex<Option<BTreeMap<u32, Quota>>>,
    /// Whether the disk fails to sync quotas.
    pub loses_quotas: AtomicBool,
    /// Whether the mount reports itself read-only; the backend ignores that.
    pub read_only: AtomicBool,
    /// Whether creation may wait for a disk.
    pub makes_slowly: AtomicBool,
    /// Added to device numbers, as after a restart of the machine.
    pub device_shift: AtomicU64,
}

/// A watch for external changes; the hook holds its other end.
#[derive(Debug)]
struct WatchHandle(#[allow(dead_code)] Arc<()>);

impl ExternalWatch for WatchHandle {}

impl std::fmt::Debug for HookedBackend {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.local.fmt(f)
    }
}

impl HookedBackend {
    fn step_in(&self, at: HookPoint, path: &RelPath) -> Result<()> {
        let Some(mut hook) = self.hook.lock().unwrap().take() else { return Ok(()) };
        let result = hook(&self.local, at, path);
        self.hook.lock().unwrap().get_or_insert(hook);
        result
    }
}

impl Vfs for HookedBackend {
    fn open(&self, who: Actor<'_>, path: &RelPath, how: OpenHow) -> Result<OpenedNode> {
        self.opens.fetch_add(1, Ordering::Relaxed);
        let mut opened = self.local.open(who, path, how)?;
        opened.attributes.key.device += self.device_shift.load(Ordering::Relaxed);
        self.step_in(HookPoint::AfterOpen, path)?;
        Ok(opened)
    }

    fn create(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        self.step_in(HookPoint::BeforeCreate, path)?;
        let made = self.local.create(who, path, case, how)?;
        self.step_in(HookPoint::AfterCreate, path)?;
        Ok(made)
    }

    fn create_in(
        &self,
        who: NameActor<'_>,
        child: ChildName<'_>,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        self.step_in(HookPoint::BeforeCreate, child.path)?;
        let made = self.local.create_in(who, child, case, how)?;
        self.step_in(HookPoint::AfterCreate, child.path)?;
        Ok(made)
    }

    fn create_special_in(
        &self,
        who: NameActor<'_>,
        child: ChildName<'_>,
        new: NewChild<'_>,
    ) -> Result<OpenedNode> {
        self.step_in(HookPoint::BeforeMake, child.path)?;
        self.local.create_special_in(who, child, new)
    }

    fn creates_without_waiting(&self) -> bool {
        !self.makes_slowly.load(Ordering::Relaxed)
    }

    fn remove(&self, who: Actor<'_>, path: &RelPath, expected: FileKey) -> Result<()> {
        self.step_in(HookPoint::BeforeRemove, path)?;
        self.local.remove(who, path, expected)
    }

    fn remove_in(
        &self,
        who: NameActor<'_>,
        child: ChildName<'_>,
        expected: ExpectedChild,
    ) -> Result<()> {
        self.step_in(HookPoint::BeforeRemove, child.path)?;
        self.local.remove_in(who, child, expected)
    }

    fn rename(&self, who: Actor<'_>, from: &RelPath, to: &RelPath, replace: Replace) -> Result<()> {
        self.step_in(HookPoint::BeforeRename, from)?;
        self.local.rename(who, from, to, replace)?;
        self.step_in(HookPoint::AfterRename, to)
    }

    fn rename_in(&self, who: NameActor<'_>, rename: ChildRename<'_>) -> Result<()> {
        self.step_in(HookPoint::BeforeRename, rename.from.path)?;
        self.local.rename_in(who, rename)?;
        self.step_in(HookPoint::AfterRename, rename.to.path)
    }

    fn link(&self, who: Actor<'_>, node: &dyn Node, to: &RelPath, replace: Replace) -> Result<()> {
        self.local.link(who, node, to, replace)
    }

    fn link_as_posix(&self, who: Actor<'_>, node: &dyn Node, to: &RelPath) -> Result<()> {
        self.local.link_as_posix(who, node, to)
    }

    fn symlink(&self, who: Actor<'_>, path: &RelPath, target: &[u8]) -> Result<OpenedNode> {
        self.step_in(HookPoint::BeforeMake, path)?;
        self.local.symlink(who, path, target)
    }

    fn space(&self, who: Actor<'_>) -> Result<Space> {
        self.local.space(who)
    }

    fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Relaxed) || self.local.is_read_only()
    }

    fn open_node(&self, who: Actor<'_>, node: &dyn Node, how: OpenHow) -> Result<OpenedNode> {
        let opened = self.local.open_node(who, node, how)?;
        self.step_in(HookPoint::AfterOpen, &opened.path)?;
        Ok(opened)
    }

    fn create_special(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        kind: SpecialKind,
        mode: CreationMode,
    ) -> Result<OpenedNode> {
        self.step_in(HookPoint::BeforeMake, path)?;
        self.local.create_special(who, path, kind, mode)
    }

    fn handles(&self) -> Option<&dyn PersistentHandles> {
        self.local.handles()
    }

    fn quotas(&self) -> Option<&dyn UserQuotas> {
        Some(self)
    }

    fn external_watches(&self) -> Option<&dyn ExternalWatches> {
        Some(self)
    }

    fn features(&self) -> TreeFeatures {
        self.local.features()
    }
}

impl UserQuotas for HookedBackend {
    fn quota_state(&self) -> QuotaState {
        match *self.quotas.lock().unwrap() {
            Some(_) => QuotaState::Enforced,
            None => QuotaState::Absent,
        }
    }

    fn quota(&self, who: Actor<'_>, uid: u32) -> Result<Quota> {
        assert!(who.may_know_quota_of(uid));
        let quotas = self.quotas.lock().unwrap();
        let quotas = quotas.as_ref().ok_or(FsError::NotSupported)?;
        Ok(quotas.get(&uid).copied().unwrap_or_default())
    }

    fn next_quota(&self, who: Actor<'_>, uid: u32) -> Result<(u32, Quota)> {
        assert!(who.may_know_all_quotas());
        let quotas = self.quotas.lock().unwrap();
        let mut next = quotas.as_ref().ok_or(FsError::NotSupported)?.range(uid..);
        next.next().map(|(uid, quota)| (*uid, *quota)).ok_or(FsError::NotFound)
    }

    fn set_quota(&self, who: Actor<'_>, uid: u32, limits: QuotaLimits) -> Result<()> {
        assert!(who.may_set_quotas());
        let mut quotas = self.quotas.lock().unwrap();
        quotas.as_mut().ok_or(FsError::NotSupported)?.entry(uid).or_default().limits = limits;
        Ok(())
    }

    fn sync_quotas(&self, _: Actor<'_>) -> Result<()> {
        if self.loses_quotas.load(Ordering::Relaxed) { Err(FsError::Io) } else { Ok(()) }
    }
}

impl ExternalWatches for HookedBackend {
    fn watch(
        &self,
        _: vfs::ServerWork,
        directory: &dyn Node,
        tell: ExternalChangeCallback,
    ) -> Result<Box<dyn ExternalWatch>> {
        assert!(directory.kind() == vfs::FileKind::Directory);
        let token = Arc::new(());
        self.outside.lock().unwrap().push((tell, Arc::downgrade(&token)));
        Ok(Box::new(WatchHandle(token)))
    }

    fn watch_tree(
        &self,
        _: vfs::ServerWork,
        tell: TreeChangeCallback,
    ) -> Result<Box<dyn ExternalWatch>> {
        let token = Arc::new(());
        self.outside_trees.lock().unwrap().push((tell, Arc::downgrade(&token)));
        Ok(Box::new(WatchHandle(token)))
    }

    fn watch_file(
        &self,
        _: vfs::ServerWork,
        _: &Arc<dyn Node>,
        every_write: bool,
        tell: FileChangeCallback,
    ) -> Result<Box<dyn ExternalWatch>> {
        let token = Arc::new(());
        self.outside_files.lock().unwrap().push((tell, every_write, Arc::downgrade(&token)));
        Ok(Box::new(WatchHandle(token)))
    }
}

/// A served directory.
pub struct ServedVolume {
    pub files: RequestFiles,
    pub volume: Arc<Volume>,
    pub vfs: Arc<HookedBackend>,
    /// An ordinary user with write access to the root directory.
    pub alice: Arc<Caller>,
    /// Whether the process runs as root.
    pub is_root: bool,
    pub dir: TempDir,
}

impl ServedVolume {
    /// The file layer as seen by a client's requests, and their pending response: drop it to queue
    /// it.
    pub fn requests_of(&self, client: [u8; 16]) -> (RequestFiles, PendingAnswer) {
        let context = RequestContext::new(ClientProtocol::Smb, client, None, ArrivalOrder::next());
        (self.files.for_request(&context, CallHolder::Server), PendingAnswer::to(&context))
    }
}

impl Drop for ServedVolume {
    fn drop(&mut self) {
        // Threads act as the user of the last call: the directory is removed as our own user.
        let _ = self.vfs.local.space(Actor::SUPERUSER);
    }
}

pub fn serve() -> ServedVolume {
    serve_with(VolumeOptions::default(), Arc::new(Inline))
}

pub fn serve_with(options: VolumeOptions, workers: Arc<dyn Workers>) -> ServedVolume {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let owner = std::fs::metadata(dir.path()).unwrap();
    let is_root = owner.uid() == 0;
    let id = |own, other| if is_root { other } else { own };
    let vfs = Arc::new(HookedBackend {
        local: LocalVfs::open(dir.path()).unwrap(),
        hook: Mutex::default(),
        opens: AtomicU64::new(0),
        outside: Mutex::default(),
        outside_files: Mutex::default(),
        outside_trees: Mutex::default(),
        quotas: Mutex::default(),
        loses_quotas: AtomicBool::default(),
        read_only: AtomicBool::default(),
        makes_slowly: AtomicBool::default(),
        device_shift: AtomicU64::default(),
    });
    ServedVolume {
        files: Arc::new(Files::new(workers)).for_server(),
        volume: Arc::new(Volume::new(vfs.clone(), options)),
        vfs,
        alice: user(id(owner.uid(), 4001), id(owner.gid(), 4001)),
        is_root,
        dir,
    }
}

pub fn user(uid: u32, gid: u32) -> Arc<Caller> {
    Arc::new(Caller::of(Identity { uid, gid, groups: Vec::new() }))
}

/// Result of a call that waits only for other threads.
pub fn now<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    for _ in 0..1_000_000 {
        if let std::task::Poll::Ready(answer) = future.as_mut().poll(&mut cx) {
            return answer;
        }
        std::thread::yield_now();
    }
    panic!("the call waits forever");
}

pub fn path(text: &str) -> RelPath {
    text.split('/').filter(|part| !part.is_empty()).map(name).collect()
}

pub fn xattr_name(text: &str) -> XattrName {
    XattrName::new(text.as_bytes()).unwrap()
}

pub fn name(text: &str) -> Name {
    Name::new(text.as_bytes()).unwrap()
}

/// Opens an existing file for `desired`, with full sharing.
pub fn plan(at: &str, desired: Access) -> OpenPlan {
    OpenPlan {
        path: path(at),
        if_missing: IfMissing::Fail,
        kind: RequestedKind::Any,
        semantics: Semantics::Windows,
        ..OpenPlan::posix(desired, ShareMode::ALL)
    }
}

/// Creates a file that must not exist.
pub fn new_file(at: &str) -> OpenPlan {
    OpenPlan {
        if_exists: IfExists::Fail,
        if_missing: IfMissing::Create,
        kind: RequestedKind::File,
        ..plan(at, ALL)
    }
}

/// Creates a directory that must not exist.
pub fn new_directory(at: &str) -> OpenPlan {
    OpenPlan { kind: RequestedKind::Directory, ..new_file(at) }
}

impl ServedVolume {
    pub fn try_open(&self, plan: OpenPlan) -> Result<OpenResult> {
        self.try_open_as(&self.alice, plan)
    }

    pub fn try_open_as(&self, caller: &Arc<Caller>, plan: OpenPlan) -> Result<OpenResult> {
        now(self.files.open(&self.volume, caller, plan))
    }

    pub fn open(&self, at: &str, desired: Access) -> Arc<OpenFile> {
        self.try_open(plan(at, desired)).unwrap().open
    }

    /// Error of an open that must fail.
    pub fn refusal(&self, plan: OpenPlan) -> FsError {
        self.try_open(plan).map(|opened| opened.action).expect_err("it must be refused")
    }

    pub fn close(&self, open: Arc<OpenFile>) {
        now(self.files.close(open)).unwrap();
    }

    /// Creates and closes a file with these bytes.
    pub fn put(&self, at: &str, data: &[u8]) {
        let made =
            self.try_open(OpenPlan { if_exists: IfExists::Overwrite, ..new_file(at) }).unwrap();
        self.files.write(made.open.caller(), &made.open, 0, data).unwrap();
        self.close(made.open);
    }

    pub fn put_directory(&self, at: &str) {
        let made = self.try_open(new_directory(at)).unwrap();
        self.close(made.open);
    }

    /// Contents of a file, read below the file layer.
    pub fn get(&self, at: &str) -> Option<Vec<u8>> {
        let mut data = Vec::new();
        let opened = self.look(at, true)?;
        opened.node.read(0, 1 << 20, &mut data, Wait::Allowed).unwrap();
        Some(data)
    }

    /// Whether the name exists below the file layer.
    pub fn exists(&self, at: &str) -> bool {
        self.look(at, false).is_some()
    }

    pub fn look(&self, at: &str, read: bool) -> Option<OpenedNode> {
        let how = OpenHow {
            read,
            write: false,
            case: Case::Sensitive,
            wanted: AttributeRequest { dos: Some(vfs::ServerWork::Metadata) },
            no_follow: true,
            wait: Wait::Allowed,
        };
        self.vfs.local.open(Actor::SUPERUSER, &path(at), how).ok()
    }

    pub fn read(&self, open: &Arc<OpenFile>) -> Result<Vec<u8>> {
        let mut data = Vec::new();
        now(self.files.read(open, 0, 1 << 20, &mut data))?;
        Ok(data)
    }

    pub fn hook(
        &self,
        hook: impl FnMut(&dyn Vfs, HookPoint, &RelPath) -> Result<()> + Send + 'static,
    ) {
        *self.vfs.hook.lock().unwrap() = Some(Box::new(hook));
    }

    /// Sets a hook for the first call at point `when`.
    pub fn hook_once(&self, when: HookPoint, what: impl FnOnce(&dyn Vfs) + Send + 'static) {
        let mut what = Some(what);
        self.hook(move |vfs, at, _| {
            if at == when
                && let Some(what) = what.take()
            {
                what(vfs);
            }
            Ok(())
        });
    }

    pub fn unhook(&self) {
        *self.vfs.hook.lock().unwrap() = None;
    }

    /// Changes the mode below the file layer.
    pub fn set_mode(&self, at: &str, mode: u32) {
        let changes = vfs::AttributeChanges { mode: Some(mode), ..Default::default() };
        self.look(at, false).unwrap().node.set_attributes(Actor::SUPERUSER, &changes).unwrap();
    }

    /// Reports an external change to every directory watch.
    pub fn somebody_did(&self, change: &ExternalChange) {
        let watches = self.vfs.outside.lock().unwrap();
        let alive = watches.iter().filter(|(_, token)| token.strong_count() > 0);
        let receivers: Vec<ExternalChangeCallback> = alive.map(|(tell, _)| tell.clone()).collect();
        drop(watches);
        receivers.iter().for_each(|tell| tell(change));
    }

    /// Reports an external change in a directory to every tree watch.
    pub fn somebody_did_in(&self, directory: &str, change: &ExternalChange) {
        let watches = self.vfs.outside_trees.lock().unwrap();
        let alive = watches.iter().filter(|(_, token)| token.strong_count() > 0);
        alive.for_each(|(tell, _)| tell(&path(directory), change));
    }

    /// Reports an external write, or a close after writing, to every file watch.
    pub fn somebody_wrote(&self, and_closed: bool) {
        let mut watches = self.vfs.outside_files.lock().unwrap();
        watches.retain(|(_, _, token)| token.strong_count() > 0);
        let receivers: Vec<FileChangeCallback> = watches
            .iter()
            .filter(|(_, every_write, _)| and_closed || *every_write)
            .map(|(tell, ..)| tell.clone())
            .collect();
        drop(watches);
        receivers.iter().for_each(|tell| tell());
    }

    /// Number of file watches in the backend, and of those for every write.
    pub fn outside_file_count(&self) -> (usize, usize) {
        let watches = self.vfs.outside_files.lock().unwrap();
        let alive = watches.iter().filter(|(_, _, token)| token.strong_count() > 0);
        alive.fold((0, 0), |(all, every), (_, write, _)| (all + 1, every + usize::from(*write)))
    }

    /// Number of tree watches in the backend.
    pub fn outside_tree_count(&self) -> usize {
        let watches = self.vfs.outside_trees.lock().unwrap();
        watches.iter().filter(|(_, token)| token.strong_count() > 0).count()
    }

    /// Number of directory watches in the backend.
    pub fn outside_watch_count(&self) -> usize {
        let watches = self.vfs.outside.lock().unwrap();
        watches.iter().filter(|(_, token)| token.strong_count() > 0).count()
    }

    /// Asserts that nothing is open.
    pub fn assert_nothing_held(&self) {
        assert_eq!(self.files.open_file_count(), 0);
    }
}

/// Creates a file below the file layer.
pub fn make_beneath(vfs: &dyn Vfs, at: &str) {
    let how = CreateHow::plain(vfs::FileKind::File, 0o666);
    vfs.create(Actor::SUPERUSER, &path(at), Case::Sensitive, how).unwrap();
}

/// Removes a file below the file layer.
pub fn remove_beneath(vfs: &dyn Vfs, at: &str) {
    let how = OpenHow::looking(Wait::Allowed);
    let found = vfs.open(Actor::SUPERUSER, &path(at), how).unwrap();
    vfs.remove(Actor::SUPERUSER, &path(at), found.attributes.key).unwrap();
}
