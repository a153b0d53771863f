//! A backend that delays calls, to measure the effect of a slow disk on a machine without one.
//!
//! Each call by path or handle, and each change of a name, waits once before it runs. With
//! [`Wait::Never`] it is refused, as if nothing were cached. Calls on open nodes and feeds are not
//! delayed, because a system has their data in memory.

use crate::{
    Actor, ChildLookup, ChildName, FsError, OpenHow, OpenedNode, PersistentHandles, RelPath,
    Result, TreeFeatures, Vfs, Wait,
};
use std::sync::Arc;

/// Proof that a call has waited.
struct WaitedOnce;

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

    /// Waits until a call may run.
    fn wait_once(&self) -> WaitedOnce {
        (self.pause)();
        WaitedOnce
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

    crate::pass_on!(around wait_once: create, create_in, create_special, create_special_in, symlink);
    crate::pass_on!(around wait_once: remove, remove_in, rename, rename_in, link, link_as_posix);
    crate::pass_on!(open_node, space, space_of, is_read_only, is_read_only_at);
    crate::pass_on!(quotas, external_watches, feeds);

    fn creates_without_waiting(&self) -> bool {
        false
    }

    fn handles(&self) -> Option<&dyn PersistentHandles> {
        self.inner.handles().map(|_| self as _)
    }

    fn features(&self) -> TreeFeatures {
        TreeFeatures { always_waits: true, ..self.inner.features() }
    }

    fn features_of(&self, node: &dyn crate::Node) -> TreeFeatures {
        TreeFeatures { always_waits: true, ..self.inner.features_of(node) }
    }
}

impl PersistentHandles for DelayedVfs {
    crate::pass_on!(around wait_once: find);
    crate::pass_on!(handle, persistent_id, child_handle, path_of);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AttributeRequest;
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
            let methods = methods.map(|line| line.split(['(', '<']).next().unwrap());
            let passed_on =
                body.split("pass_on!(").skip(1).map(|rest| rest.split(')').next().unwrap());
            let passed_on = passed_on.flat_map(|list| list.rsplit(": ").next().unwrap().split(','));
            methods.chain(passed_on.map(str::trim)).collect()
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
