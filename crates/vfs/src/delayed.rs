//! A backend whose calls take longer, for measurements: what a slow disk would do to
//! whoever asks it, on a machine that has none.
//!
//! A call by a path or a handle, and one that changes names, waits once before it is carried
//! out, and finds nothing in memory: with [`Wait::Never`] it refuses. What an open node is asked
//! takes no longer, since a system has that in memory, and feeds tell of changes as before.

use crate::{
    Actor, ArrivalOrder, Attributes, Case, ChangeFeed, ChildName, ChildRename, CreateHow,
    CreationMode, Expected, Features, FileKey, FsError, KnownOpen, ListSink, ListWanted,
    ListingFeed, Located, Name, NameActor, NameLook, NewChild, Node, NodeHandle, OpenHow, Opened,
    OutsideWatch, Quota, QuotaLimits, QuotaState, RelPath, Replace, Result, ServerWork, Space,
    SpecialKind, TellChanged, TellOutside, TellOutsideIn, Vfs, Wait, Wanted,
};
use std::sync::Arc;

/// See the module.
pub struct Delayed {
    inner: Arc<dyn Vfs>,
    /// Waits.
    pause: Arc<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Delayed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Delayed").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl Delayed {
    /// `pause` returns when a call may go on.
    #[must_use]
    pub fn new(inner: Arc<dyn Vfs>, pause: Arc<dyn Fn() + Send + Sync>) -> Self {
        Self { inner, pause }
    }

    fn look(&self, wait: Wait) -> Result<()> {
        if wait == Wait::Never {
            return Err(FsError::WouldBlock);
        }
        (self.pause)();
        Ok(())
    }
}

impl Vfs for Delayed {
    fn open(&self, who: Actor<'_>, path: &RelPath, how: OpenHow) -> Result<Opened> {
        self.look(how.wait)?;
        self.inner.open(who, path, how)
    }

    fn open_known(&self, who: Actor<'_>, path: &RelPath, how: OpenHow) -> Result<KnownOpen> {
        self.look(how.wait)?;
        self.inner.open_known(who, path, how)
    }

    fn look_in(&self, who: Actor<'_>, child: ChildName<'_>, how: OpenHow) -> NameLook {
        let opened = self.inner.look_in(who, child, how)?;
        // Where it finds nothing the path is asked for, which takes its time then.
        self.look(how.wait).ok().map(|()| opened)
    }

    fn open_directory(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        case: Case,
        wait: Wait,
    ) -> Result<KnownOpen> {
        self.look(wait)?;
        self.inner.open_directory(who, path, case, wait)
    }

    fn create(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<Opened> {
        (self.pause)();
        self.inner.create(who, path, case, how)
    }

    fn create_in(
        &self,
        who: NameActor<'_>,
        child: ChildName<'_>,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<Opened> {
        (self.pause)();
        self.inner.create_in(who, child, case, how)
    }

    fn make_in(
        &self,
        who: NameActor<'_>,
        child: ChildName<'_>,
        new: NewChild<'_>,
    ) -> Result<Opened> {
        (self.pause)();
        self.inner.make_in(who, child, new)
    }

    fn creates_at_once(&self) -> bool {
        false
    }

    fn remove(&self, who: Actor<'_>, path: &RelPath, expected: FileKey) -> Result<()> {
        (self.pause)();
        self.inner.remove(who, path, expected)
    }

    fn remove_in(
        &self,
        who: NameActor<'_>,
        child: ChildName<'_>,
        expected: Expected,
    ) -> Result<()> {
        (self.pause)();
        self.inner.remove_in(who, child, expected)
    }

    fn known_change(&self, directory: &dyn Node, order: ArrivalOrder) -> Option<u64> {
        self.inner.known_change(directory, order)
    }

    fn look_at_change(&self, who: Actor<'_>, directory: &dyn Node) -> Result<u64> {
        self.inner.look_at_change(who, directory)
    }

    fn rename(&self, who: Actor<'_>, from: &RelPath, to: &RelPath, replace: Replace) -> Result<()> {
        (self.pause)();
        self.inner.rename(who, from, to, replace)
    }

    fn rename_in(&self, who: NameActor<'_>, rename: ChildRename<'_>) -> Result<()> {
        (self.pause)();
        self.inner.rename_in(who, rename)
    }

    fn link(&self, who: Actor<'_>, node: &dyn Node, to: &RelPath, replace: Replace) -> Result<()> {
        (self.pause)();
        self.inner.link(who, node, to, replace)
    }

    fn link_as_posix(&self, who: Actor<'_>, node: &dyn Node, to: &RelPath) -> Result<()> {
        (self.pause)();
        self.inner.link_as_posix(who, node, to)
    }

    fn symlink(&self, who: Actor<'_>, path: &RelPath, target: &[u8]) -> Result<Opened> {
        (self.pause)();
        self.inner.symlink(who, path, target)
    }

    fn space(&self, who: Actor<'_>) -> Result<Space> {
        self.inner.space(who)
    }

    fn space_of(&self, who: Actor<'_>, node: &dyn Node) -> Result<Space> {
        self.inner.space_of(who, node)
    }

    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }

    fn quota_state(&self) -> QuotaState {
        self.inner.quota_state()
    }

    fn quota(&self, who: Actor<'_>, uid: u32) -> Result<Quota> {
        self.inner.quota(who, uid)
    }

    fn next_quota(&self, who: Actor<'_>, uid: u32) -> Result<(u32, Quota)> {
        self.inner.next_quota(who, uid)
    }

    fn set_quota(&self, who: Actor<'_>, uid: u32, limits: QuotaLimits) -> Result<()> {
        self.inner.set_quota(who, uid, limits)
    }

    fn sync_quotas(&self, who: Actor<'_>) -> Result<()> {
        self.inner.sync_quotas(who)
    }

    fn watch(
        &self,
        work: ServerWork,
        directory: &dyn Node,
        tell: TellOutside,
    ) -> Result<Box<dyn OutsideWatch>> {
        self.inner.watch(work, directory, tell)
    }

    fn watch_tree(&self, work: ServerWork, tell: TellOutsideIn) -> Result<Box<dyn OutsideWatch>> {
        self.inner.watch_tree(work, tell)
    }

    fn watch_file(
        &self,
        work: ServerWork,
        file: &Arc<dyn Node>,
        every_write: bool,
        tell: TellChanged,
    ) -> Result<Box<dyn OutsideWatch>> {
        self.inner.watch_file(work, file, every_write, tell)
    }

    fn handle(&self, who: Actor<'_>, node: &dyn Node) -> Result<NodeHandle> {
        self.inner.handle(who, node)
    }

    fn lasting_id(&self, node: &dyn Node) -> Option<NodeHandle> {
        self.inner.lasting_id(node)
    }

    fn child_handle(
        &self,
        who: Actor<'_>,
        directory: &dyn Node,
        name: &Name,
        child: &Attributes,
    ) -> Result<NodeHandle> {
        self.inner.child_handle(who, directory, name, child)
    }

    fn handle_at(&self, who: Actor<'_>, node: &dyn Node, path: &RelPath) -> Result<NodeHandle> {
        self.inner.handle_at(who, node, path)
    }

    fn remembered(
        &self,
        _: Actor<'_>,
        _: &dyn Node,
        _: &RelPath,
    ) -> Option<(Attributes, NodeHandle)> {
        // Nothing is known at once here.
        None
    }

    fn knows_handles(&self) -> bool {
        self.inner.knows_handles()
    }

    fn known_handles(
        &self,
        directory: &dyn Node,
        children: &[(Name, Attributes)],
    ) -> Vec<Option<NodeHandle>> {
        self.inner.known_handles(directory, children)
    }

    fn find(&self, who: Actor<'_>, handle: &NodeHandle, wanted: Wanted) -> Result<Located> {
        (self.pause)();
        self.inner.find(who, handle, wanted)
    }

    fn find_known(
        &self,
        handle: &NodeHandle,
        order: ArrivalOrder,
    ) -> Option<(Arc<dyn Node>, RelPath)> {
        self.inner.find_known(handle, order)
    }

    fn path_of(&self, who: Actor<'_>, node: &dyn Node) -> Result<RelPath> {
        self.inner.path_of(who, node)
    }

    fn path_since(&self, who: Actor<'_>, node: &dyn Node) -> Result<RelPath> {
        self.inner.path_since(who, node)
    }

    fn open_node(&self, who: Actor<'_>, node: &dyn Node, how: OpenHow) -> Result<Opened> {
        self.inner.open_node(who, node, how)
    }

    fn make_special(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        kind: SpecialKind,
        mode: CreationMode,
    ) -> Result<Opened> {
        (self.pause)();
        self.inner.make_special(who, path, kind, mode)
    }

    fn change_feed(&self) -> Result<Box<dyn ChangeFeed>> {
        self.inner.change_feed()
    }

    fn listing_feed(&self) -> Result<Box<dyn ListingFeed>> {
        self.inner.listing_feed()
    }

    fn list_with_attributes(
        &self,
        directory: &dyn Node,
        who: Actor<'_>,
        cookie: u64,
        wanted: ListWanted,
        sink: &mut dyn ListSink,
    ) -> Result<bool> {
        self.inner.list_with_attributes(directory, who, cookie, wanted, sink)
    }

    fn list_known(
        &self,
        directory: &dyn Node,
        who: Actor<'_>,
        cookie: u64,
        wanted: ListWanted,
        sink: &mut dyn ListSink,
    ) -> Result<Option<bool>> {
        self.inner.list_known(directory, who, cookie, wanted, sink)
    }

    fn features(&self) -> Features {
        Features { waits: true, ..self.inner.features() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryOptions, MemoryVfs, StillClock};
    use std::sync::atomic::{AtomicU64, Ordering};

    fn fresh(case: &dyn Fn(&dyn Vfs)) {
        let inner = MemoryVfs::new(MemoryOptions::default(), Arc::new(StillClock::default()));
        case(&Delayed::new(Arc::new(inner), Arc::new(|| {})));
    }

    crate::backend_suite!(fresh);

    /// A call with an answer of its own, should a backend have none, would be lost on the way.
    #[test]
    fn every_call_of_a_backend_is_handed_on() {
        let (backend, delayed) = (include_str!("lib.rs"), include_str!("delayed.rs"));
        let backend = backend.split("pub trait Vfs").nth(1).unwrap().split("\n}").next().unwrap();
        let calls = backend.lines().filter_map(|line| line.strip_prefix("    fn "));
        let names: Vec<&str> = calls.map(|line| line.split('(').next().unwrap()).collect();
        assert!(names.len() > 20);
        for name in names {
            assert!(delayed.contains(&format!("\n    fn {name}(")), "{name}");
        }
    }

    #[test]
    fn who_does_not_wait_is_refused_and_who_does_waits_once() {
        let inner = MemoryVfs::new(MemoryOptions::default(), Arc::new(StillClock::default()));
        let pauses = Arc::new(AtomicU64::new(0));
        let counted = pauses.clone();
        let pause = Arc::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let delayed = Delayed::new(Arc::new(inner), pause);
        let (root, who) = (RelPath::root(), Actor::SUPERUSER);
        let open = |wait| delayed.open_directory(who, &root, Case::Sensitive, wait);
        assert_eq!(open(Wait::Never).map(drop), Err(FsError::WouldBlock));
        assert_eq!(pauses.load(Ordering::Relaxed), 0);
        let opened = open(Wait::Allowed).unwrap().opened;
        assert_eq!(pauses.load(Ordering::Relaxed), 1);
        opened.node.attributes(Wanted::default()).unwrap();
        assert_eq!(pauses.load(Ordering::Relaxed), 1, "what is open is in memory");
        assert!(delayed.features().waits && !delayed.creates_at_once());
    }
}
