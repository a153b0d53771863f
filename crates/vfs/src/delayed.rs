//! A backend that delays calls, to measure the effect of a slow disk on a machine without one.
//!
//! Each call by path or handle, and each change of a name, waits once before it runs. With
//! [`Wait::Never`] it is refused, as if nothing were cached. Calls on open nodes and feeds are not
//! delayed, because a system has their data in memory.

use crate::{
    Actor, AttributeRequest, Attributes, Case, ChangeFeeds, ChildLookup, ChildName, ChildRename,
    CreateHow, CreationMode, ExpectedChild, ExternalWatches, FileKey, FsError, LocatedNode, Name,
    NameActor, NewChild, Node, NodeHandle, OpenHow, OpenedNode, PersistentHandles, RelPath,
    Replace, Result, Space, SpecialKind, TreeFeatures, UserQuotas, Vfs, Wait,
};
use std::sync::Arc;

/// Decorator that delays calls of another backend: see the module.
pub struct DelayedVfs {
    inner: Arc<dyn Vfs>,
    /// Waits until the call may run.
    pause: Arc<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for DelayedVfs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DelayedVfs").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl DelayedVfs {
    /// Wraps `inner`; `pause` returns when a call may run.
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

impl Vfs for DelayedVfs {
    fn open(&self, actor: Actor<'_>, path: &RelPath, how: OpenHow) -> Result<OpenedNode> {
        self.look(how.wait)?;
        self.inner.open(actor, path, how)
    }

    fn lookup_child(&self, actor: Actor<'_>, child: ChildName<'_>, how: OpenHow) -> ChildLookup {
        let opened = self.inner.lookup_child(actor, child, how)?;
        // On None the caller opens the path, which waits instead.
        self.look(how.wait).ok().map(|()| opened)
    }

    fn create(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        (self.pause)();
        self.inner.create(actor, path, case, how)
    }

    fn create_in(
        &self,
        actor: NameActor<'_>,
        child: ChildName<'_>,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        (self.pause)();
        self.inner.create_in(actor, child, case, how)
    }

    fn create_special_in(
        &self,
        actor: NameActor<'_>,
        child: ChildName<'_>,
        new: NewChild<'_>,
    ) -> Result<OpenedNode> {
        (self.pause)();
        self.inner.create_special_in(actor, child, new)
    }

    fn creates_without_waiting(&self) -> bool {
        false
    }

    fn remove(&self, actor: Actor<'_>, path: &RelPath, expected: FileKey) -> Result<()> {
        (self.pause)();
        self.inner.remove(actor, path, expected)
    }

    fn remove_in(
        &self,
        actor: NameActor<'_>,
        child: ChildName<'_>,
        expected: ExpectedChild,
    ) -> Result<()> {
        (self.pause)();
        self.inner.remove_in(actor, child, expected)
    }

    fn rename(
        &self,
        actor: Actor<'_>,
        from: &RelPath,
        to: &RelPath,
        replace: Replace,
    ) -> Result<()> {
        (self.pause)();
        self.inner.rename(actor, from, to, replace)
    }

    fn rename_in(&self, actor: NameActor<'_>, rename: ChildRename<'_>) -> Result<()> {
        (self.pause)();
        self.inner.rename_in(actor, rename)
    }

    fn link(
        &self,
        actor: Actor<'_>,
        node: &dyn Node,
        to: &RelPath,
        replace: Replace,
    ) -> Result<()> {
        (self.pause)();
        self.inner.link(actor, node, to, replace)
    }

    fn link_as_posix(&self, actor: Actor<'_>, node: &dyn Node, to: &RelPath) -> Result<()> {
        (self.pause)();
        self.inner.link_as_posix(actor, node, to)
    }

    fn symlink(&self, actor: Actor<'_>, path: &RelPath, target: &[u8]) -> Result<OpenedNode> {
        (self.pause)();
        self.inner.symlink(actor, path, target)
    }

    fn space(&self, actor: Actor<'_>) -> Result<Space> {
        self.inner.space(actor)
    }

    fn space_of(&self, actor: Actor<'_>, node: &dyn Node) -> Result<Space> {
        self.inner.space_of(actor, node)
    }

    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }

    fn open_node(&self, actor: Actor<'_>, node: &dyn Node, how: OpenHow) -> Result<OpenedNode> {
        self.inner.open_node(actor, node, how)
    }

    fn create_special(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        kind: SpecialKind,
        mode: CreationMode,
    ) -> Result<OpenedNode> {
        (self.pause)();
        self.inner.create_special(actor, path, kind, mode)
    }

    fn handles(&self) -> Option<&dyn PersistentHandles> {
        self.inner.handles().map(|_| self as _)
    }

    fn quotas(&self) -> Option<&dyn UserQuotas> {
        self.inner.quotas()
    }

    fn external_watches(&self) -> Option<&dyn ExternalWatches> {
        self.inner.external_watches()
    }

    fn feeds(&self) -> Option<&dyn ChangeFeeds> {
        self.inner.feeds()
    }

    fn features(&self) -> TreeFeatures {
        TreeFeatures { always_waits: true, ..self.inner.features() }
    }
}

impl PersistentHandles for DelayedVfs {
    fn handle(&self, actor: Actor<'_>, node: &dyn Node) -> Result<NodeHandle> {
        self.inner.need_handles()?.handle(actor, node)
    }

    fn persistent_id(&self, node: &dyn Node) -> Option<NodeHandle> {
        self.inner.handles()?.persistent_id(node)
    }

    fn child_handle(
        &self,
        actor: Actor<'_>,
        directory: &dyn Node,
        name: &Name,
        child: &Attributes,
    ) -> Result<NodeHandle> {
        self.inner.need_handles()?.child_handle(actor, directory, name, child)
    }

    fn find(
        &self,
        actor: Actor<'_>,
        handle: &NodeHandle,
        wanted: AttributeRequest,
    ) -> Result<LocatedNode> {
        (self.pause)();
        self.inner.need_handles()?.find(actor, handle, wanted)
    }

    fn path_of(&self, actor: Actor<'_>, node: &dyn Node) -> Result<RelPath> {
        self.inner.need_handles()?.path_of(actor, node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{MemoryOptions, MemoryVfs, StillClock};
    use std::sync::atomic::{AtomicU64, Ordering};

    fn fresh(case: &dyn Fn(&dyn Vfs)) {
        let inner = MemoryVfs::new(MemoryOptions::default(), Arc::new(StillClock::default()));
        case(&DelayedVfs::new(Arc::new(inner), Arc::new(|| {})));
    }

    crate::backend_suite!(fresh);

    /// A provided method that this decorator does not forward would hide the backend's own, and a
    /// capability be absent.
    #[test]
    fn delayed_backend_forwards_every_call() {
        fn methods_of<'a>(source: &'a str, head: &str) -> Vec<&'a str> {
            let body = source.split_once(head).unwrap().1.split("\n}").next().unwrap();
            let methods = body.lines().filter_map(|line| line.strip_prefix("    fn "));
            methods.map(|line| line.split(['(', '<']).next().unwrap()).collect()
        }
        let traits =
            [("Vfs", include_str!("lib.rs")), ("PersistentHandles", include_str!("handle.rs"))];
        for (name, source) in traits {
            let implementation = format!("\nimpl {name} for DelayedVfs {{");
            let forwarded = methods_of(include_str!("delayed.rs"), &implementation);
            let methods = methods_of(source, &format!("\npub trait {name}:"));
            assert!(methods.len() > 4);
            for method in methods {
                assert!(forwarded.contains(&method), "{name}::{method}");
            }
        }
    }

    #[test]
    fn delayed_call_waits_once_or_would_block() {
        let inner = MemoryVfs::new(MemoryOptions::default(), Arc::new(StillClock::default()));
        let pauses = Arc::new(AtomicU64::new(0));
        let counted = pauses.clone();
        let pause = Arc::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let delayed = DelayedVfs::new(Arc::new(inner), pause);
        let (root, actor) = (RelPath::root(), Actor::SUPERUSER);
        let open = |wait| delayed.open(actor, &root, OpenHow::looking(wait));
        assert_eq!(open(Wait::Never).map(drop), Err(FsError::WouldBlock));
        assert_eq!(pauses.load(Ordering::Relaxed), 0);
        let opened = open(Wait::Allowed).unwrap();
        assert_eq!(pauses.load(Ordering::Relaxed), 1);
        opened.node.attributes(AttributeRequest::default()).unwrap();
        assert_eq!(pauses.load(Ordering::Relaxed), 1, "what is open is in memory");
        assert!(delayed.features().always_waits && !delayed.creates_without_waiting());
    }
}
