//! Descriptors that are loaded while other threads or processes change them.

use super::tests::{NEW, OLD, node};
use super::*;
use std::cell::Cell;
use vfs::FileKind;

/// A file that other processes change between the calls of a load.
struct ChangingTarget<'a> {
    node: &'a LocalNode,
    states_read: Cell<u32>,
    /// Called with the number of earlier calls, before the permissions are read.
    change: &'a dyn Fn(u32),
}

impl SecurityTarget for ChangingTarget<'_> {
    fn state(&self) -> Result<PermissionState> {
        (self.change)(self.states_read.replace(self.states_read.get() + 1));
        self.node.state()
    }

    fn value(&self) -> Result<Option<Vec<u8>>> {
        self.node.value()
    }

    fn put(&self, _: &[u8], _: &[StateHash]) -> Result<()> {
        unreachable!("a load writes nothing")
    }

    fn put_back(&self, _: Option<&[u8]>) -> Result<()> {
        unreachable!("a load writes nothing")
    }

    fn perform(&self, _: PermissionStep<'_>, _: u32, _: Actor<'_>) -> Result<u32> {
        unreachable!("a load writes nothing")
    }

    fn restore(&self, _: PermissionStep<'_>, _: &PermissionState) -> Result<()> {
        unreachable!("a load writes nothing")
    }
}

/// Sets a mode and stores a descriptor for it.
fn store_with_mode(node: &LocalNode, descriptor: &[u8], mode: u32) {
    node.change_mode(mode).unwrap();
    put(node, Some((descriptor, &[node.state().unwrap().hash()]))).unwrap();
}

#[test]
fn load_during_complete_change_returns_new_descriptor() {
    let Some((_folder, node)) = node(FileKind::File) else { return };
    let node = LocalNode::of(&*node).unwrap();
    let change = |number| {
        if number == 0 {
            store_with_mode(node, &NEW, 0o604);
        }
    };
    let target = ChangingTarget { node, states_read: Cell::new(0), change: &change };
    let loaded = load_consistent(&target).unwrap().unwrap();
    assert!(loaded.is_in_force());
    assert_eq!(loaded.stored.descriptor, NEW);
}

/// The value is the same before and after a change that fails, and not valid in between.
#[test]
fn load_during_undone_change_returns_former_descriptor() {
    let Some((_folder, node)) = node(FileKind::File) else { return };
    let node = LocalNode::of(&*node).unwrap();
    let mode = node.state().unwrap().mode;
    let change = |number| match number {
        0 => node.change_mode(0o600).unwrap(),
        _ => node.change_mode(mode).unwrap(),
    };
    let target = ChangingTarget { node, states_read: Cell::new(0), change: &change };
    let loaded = load_consistent(&target).unwrap().unwrap();
    assert!(loaded.is_in_force());
    assert_eq!(loaded.stored.descriptor, OLD);
}

#[test]
fn load_ends_when_every_read_finds_another_change() {
    let Some((_folder, node)) = node(FileKind::File) else { return };
    let node = LocalNode::of(&*node).unwrap();
    let change = |number| store_with_mode(node, &NEW, 0o600 | number % 8);
    let target = ChangingTarget { node, states_read: Cell::new(0), change: &change };
    assert_eq!(load_consistent(&target).map(|_| ()), Err(FsError::Unavailable));
    assert_eq!(target.states_read.get(), LOADS_MAX as u32);
    node.change_mode(0o777).unwrap();
    assert_eq!(load(node), Ok(None), "chmod(2) alone");
}

#[test]
fn interrupted_change_without_value_is_not_stored_again() {
    let Some((_folder, node)) = node(FileKind::File) else { return };
    let node = LocalNode::of(&*node).unwrap();
    let state = node.state().unwrap().hash();
    put(node, None).unwrap();
    let stored = put_with(node, Some((&OLD, &[state])), XattrFlags::REPLACE);
    assert!(stored.is_err());
    assert_eq!(node.value(), Ok(None));
}
