//! Changes of security of which each call fails in turn.

use super::super::tests::{NEW, OLD, list, node};
use super::super::{load, store_both};
use super::*;
use std::cell::Cell;
use std::ops::Range;
use vfs::{FileKind, FsError, OwnerChange, SecurityChange};

/// A file of which some of the calls that change it fail.
struct FailingTarget<'a> {
    node: &'a LocalNode,
    calls: Cell<u32>,
    failing: Range<u32>,
    /// Whether a call of permissions that fails has done its work, or part of it.
    is_done: bool,
    /// Another process's chmod(2) to [`NEWER_MODE`] after this call.
    overtaken_at: Option<u32>,
}

/// A mode that no change in these tests leads through.
const NEWER_MODE: u32 = 0o600;

fn failing(node: &LocalNode, failing: Range<u32>, is_done: bool) -> FailingTarget<'_> {
    FailingTarget { node, calls: Cell::new(0), failing, is_done, overtaken_at: None }
}

impl FailingTarget<'_> {
    /// Makes the next call, or lets it fail.
    fn call<T>(&self, is_done: bool, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let number = self.calls.replace(self.calls.get() + 1);
        let outcome = if !self.failing.contains(&number) {
            call()
        } else {
            let done = if is_done { call().map(|_| ()) } else { Ok(()) };
            done.and(Err(FsError::NoSpace))
        };
        if self.overtaken_at == Some(number) {
            self.node.change_mode(NEWER_MODE).unwrap();
        }
        outcome
    }
}

impl SecurityTarget for FailingTarget<'_> {
    fn state(&self) -> Result<PermissionState> {
        self.node.state()
    }

    fn value(&self) -> Result<Option<Vec<u8>>> {
        self.node.value()
    }

    fn put(&self, descriptor: &[u8], states: &[StateHash]) -> Result<()> {
        self.call(false, || self.node.put(descriptor, states))
    }

    fn put_back(&self, value: Option<&[u8]>) -> Result<()> {
        self.call(false, || self.node.put_back(value))
    }

    fn perform(&self, step: PermissionStep<'_>, uid: u32, who: Actor<'_>) -> Result<u32> {
        self.call(self.is_done, || self.node.perform(step, uid, who))
    }

    fn restore(&self, step: PermissionStep<'_>, state: &PermissionState) -> Result<()> {
        self.call(self.is_done, || self.node.restore(step, state))
    }
}

/// Permissions and stored value before a change.
type Former = (PermissionState, Option<Vec<u8>>);

/// Changes security of a new file while some calls fail, and checks the file. Returns the number of all
/// calls; none where no descriptor can be stored.
fn changed(
    kind: FileKind,
    failing: Range<u32>,
    is_done: bool,
    check: &mut dyn FnMut(&LocalNode, Result<()>, &Former),
) -> Option<u32> {
    let (_folder, node) = node(kind)?;
    let node = LocalNode::of(&*node).unwrap();
    let is_root = rustix::process::geteuid().is_root();
    let owner = OwnerChange { uid: Some(1002), gid: Some(1003) };
    let permissions = list(5, 6);
    let change = SecurityChange {
        descriptor: Some(&NEW),
        owner: if is_root { owner } else { OwnerChange::default() },
        permissions: Some(&permissions),
    };
    let former = (node.state().unwrap(), node.value().unwrap());
    let target = self::failing(node, failing, is_done);
    let outcome = store_both(&target, Actor::SUPERUSER, &NEW, &change);
    check(node, outcome, &former);
    Some(target.calls.get())
}

#[test]
fn failed_change_leaves_former_descriptor_and_permissions() {
    for kind in [FileKind::File, FileKind::Directory] {
        let mut is_new = |node: &LocalNode, outcome, _: &Former| {
            assert_eq!(outcome, Ok(()));
            assert_eq!(load(node).unwrap().as_deref(), Some(&NEW[..]));
        };
        let Some(calls) = changed(kind, 0..0, false, &mut is_new) else { return };
        assert!(calls >= 3, "a value, a step, a value");
        for failing in 0..calls - 1 {
            for is_done in [false, true] {
                let mut is_former = |node: &LocalNode, outcome, former: &Former| {
                    let (state, value) = former;
                    assert_eq!(outcome, Err(FsError::NoSpace), "call {failing}");
                    assert_eq!(node.state().unwrap(), *state, "call {failing}");
                    assert_eq!(node.value().unwrap(), *value, "call {failing}");
                    assert_eq!(load(node).unwrap().as_deref(), Some(&OLD[..]));
                };
                changed(kind, failing..failing + 1, is_done, &mut is_former);
            }
        }
        // The last call only shortens the value: the change is made.
        changed(kind, calls - 1..calls, false, &mut is_new);
    }
}

/// A disk that goes on failing leaves one of both descriptors in force, and never the permissions
/// alone, which say less.
#[test]
fn disk_that_goes_on_failing_leaves_a_descriptor_in_force() {
    for kind in [FileKind::File, FileKind::Directory] {
        let Some(calls) = changed(kind, 0..0, false, &mut |_, _, _| ()) else { return };
        for failing in 0..2 * calls {
            for is_done in [false, true] {
                let mut has_one = |node: &LocalNode, outcome: Result<()>, _: &Former| {
                    let found = load(node).unwrap();
                    let is_new = found.as_deref() == Some(&NEW[..]);
                    assert!(is_new || found.as_deref() == Some(&OLD[..]), "call {failing}");
                    assert!(is_new || outcome.is_err(), "call {failing}");
                };
                changed(kind, failing..u32::MAX, is_done, &mut has_one);
            }
        }
    }
}

#[test]
fn failed_change_of_file_without_descriptor_leaves_none() {
    let Some((_folder, node)) = node(FileKind::File) else { return };
    let node = LocalNode::of(&*node).unwrap();
    put(node, None).unwrap();
    let permissions = list(5, 6);
    let change = SecurityChange {
        descriptor: Some(&NEW),
        permissions: Some(&permissions),
        ..SecurityChange::default()
    };
    let state = node.state().unwrap();
    for is_done in [false, true] {
        let target = failing(node, 1..2, is_done);
        let outcome = store_both(&target, Actor::SUPERUSER, &NEW, &change);
        assert_eq!(outcome, Err(FsError::NoSpace));
        assert_eq!(node.value().unwrap(), None);
        assert_eq!(node.state().unwrap(), state);
    }
}

/// The newer change is a local chmod(2), which takes no lock of the server.
#[test]
fn failed_change_leaves_newer_permissions() {
    for kind in [FileKind::File, FileKind::Directory] {
        let Some(calls) = changed(kind, 0..0, false, &mut |_, _, _| ()) else { return };
        let cases = (1..calls - 1).flat_map(|fails| (fails..3 * calls).map(move |at| (fails, at)));
        for (fails, overtaken_at) in cases {
            let Some((_folder, node)) = node(kind) else { return };
            let node = LocalNode::of(&*node).unwrap();
            let is_root = rustix::process::geteuid().is_root();
            let owner = OwnerChange { uid: Some(1002), gid: Some(1003) };
            let permissions = list(5, 6);
            let change = SecurityChange {
                descriptor: Some(&NEW),
                owner: if is_root { owner } else { OwnerChange::default() },
                permissions: Some(&permissions),
            };
            let value = node.value().unwrap();
            let mut target = failing(node, fails..fails + 1, true);
            target.overtaken_at = Some(overtaken_at);
            let outcome = store_both(&target, Actor::SUPERUSER, &NEW, &change);
            assert_eq!(outcome, Err(FsError::NoSpace));
            if target.calls.get() <= overtaken_at {
                continue;
            }
            let mode = node.state().unwrap().mode & 0o7777;
            assert_eq!(mode, NEWER_MODE, "call {fails} fails, {overtaken_at} is overtaken");
            assert_eq!(node.value().unwrap(), value, "{fails}, {overtaken_at}");
            assert_eq!(load(node).unwrap(), None, "{fails}, {overtaken_at}");
        }
    }
}

/// root takes a file from its user while that user's ACL is stored.
#[test]
fn failed_change_of_acl_leaves_newer_owner() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let Some((_folder, node)) = node(FileKind::File) else { return };
    let node = LocalNode::of(&*node).unwrap();
    let present = node.state().unwrap();
    let permissions = list(5, 6);
    let change = SecurityChange {
        descriptor: Some(&NEW),
        permissions: Some(&permissions),
        ..SecurityChange::default()
    };
    let steps = super::super::PermissionSteps::new(&present, Actor::SUPERUSER, &change);
    let mut log = UndoLog::new(node, &present).unwrap();
    super::super::perform_all(node, Actor::SUPERUSER, &NEW, &steps, &mut log).unwrap();
    let newer = OwnerChange { uid: Some(1002), gid: Some(1003) };
    node.change_owner(newer).unwrap();
    log.undo(node);
    let left = node.state().unwrap();
    assert_eq!((left.uid, left.gid), (1002, 1003));
}

/// While the bits were cleared, another user may have changed the content.
#[test]
fn failed_change_of_program_leaves_set_id_bits_cleared() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for (kind, left) in [(FileKind::File, 0o750), (FileKind::Directory, 0o6750)] {
        let Some((_folder, node)) = node(kind) else { return };
        let node = LocalNode::of(&*node).unwrap();
        posix_acl::store(node, &vfs::PosixAcl::of_mode(0o750)).unwrap();
        node.change_mode(0o6750).unwrap();
        put(node, Some((&OLD, &[node.state().unwrap().hash()]))).unwrap();
        let change = SecurityChange {
            descriptor: Some(&NEW),
            owner: OwnerChange { uid: Some(1002), gid: Some(1003) },
            permissions: Some(&list(5, 6)),
        };
        // The calls: the value, the mode, the owner.
        let target = failing(node, 2..3, true);
        let outcome = store_both(&target, Actor::SUPERUSER, &NEW, &change);
        assert_eq!(outcome, Err(FsError::NoSpace));
        let state = node.state().unwrap();
        assert_eq!((state.uid, state.mode & 0o7777), (0, left), "{kind:?}");
        assert_eq!(load(node).unwrap().as_deref(), Some(&OLD[..]), "{kind:?}");
        let stored = ntacl::decode(&node.value().unwrap().unwrap()).unwrap();
        assert_eq!(stored.counts, Counts::While(vec![state.hash()]), "{kind:?}");
    }
}

/// NFS SETATTR waits for the end of a change over SMB, which might be undone.
#[test]
fn changes_of_mode_and_owner_take_the_files_lock() {
    let Some((_folder, node)) = node(FileKind::File) else { return };
    let held = super::super::lock(LocalNode::of(&*node).unwrap().key);
    let (sender, changed) = std::sync::mpsc::channel();
    let other = node.clone();
    let changing = std::thread::spawn(move || {
        let mode = vfs::AttributeChanges { mode: Some(0o600), ..Default::default() };
        sender.send(other.set_attributes(Actor::SUPERUSER, &mode)).unwrap();
    });
    let early = changed.recv_timeout(std::time::Duration::from_millis(50));
    assert!(early.is_err(), "the lock is held");
    drop(held);
    assert_eq!(changed.recv().unwrap(), Ok(()));
    changing.join().unwrap();
}
