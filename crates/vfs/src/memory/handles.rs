//! Handles of nodes: inode numbers, which a tree never reuses.

use super::inode::{NodeContent, Right};
use super::node::MemoryNode;
use super::state::{MemoryState, ROOT};
use super::{MemoryCall, MemoryVfs};
use crate::{
    Actor, AttributeRequest, FileKind, FsError, LocatedNode, NodeHandle, OpenHow, OpenedNode,
    RelPath, Result, Wait,
};
use std::sync::Arc;

/// Opens a node without access to its data, as `O_PATH`.
const LOOK: OpenHow = OpenHow::looking(Wait::Allowed);

impl MemoryVfs {
    pub(super) fn handle_of(&self, number: u64) -> Result<NodeHandle> {
        let serial = self.shared.options.serial.to_le_bytes();
        NodeHandle::new([serial, number.to_le_bytes()].concat())
    }

    pub(super) fn find_handle(
        &self,
        handle: &NodeHandle,
        wanted: AttributeRequest,
    ) -> Result<LocatedNode> {
        let (serial, number) =
            handle.as_bytes().split_first_chunk().ok_or(FsError::InvalidParameter)?;
        let number = <[u8; 8]>::try_from(number).map_err(|_| FsError::InvalidParameter)?;
        let number = u64::from_le_bytes(number);
        self.shared.call(MemoryCall::Open(Wait::Allowed), |state| {
            if u64::from_le_bytes(*serial) != self.shared.options.serial {
                return Err(FsError::Stale);
            }
            let is_open = state.inode(number).is_ok_and(|inode| inode.opens > 0);
            let path = match self.place(state, number) {
                Err(FsError::Stale) if is_open && state.directory(number).is_none() => {
                    RelPath::nameless(self.shared.key(number))
                }
                other => other?,
            };
            let (node, attributes) =
                MemoryNode::new(&self.shared, state, number, &OpenHow { wanted, ..LOOK });
            Ok(LocatedNode { node: Arc::new(node), attributes, path, is_certain: true })
        })
    }

    pub(super) fn place_of(&self, number: u64) -> Result<RelPath> {
        self.shared.call(MemoryCall::Attributes, |state| self.place(state, number))
    }

    /// One of the paths of a node.
    fn place(&self, state: &MemoryState, mut number: u64) -> Result<RelPath> {
        let mut names = Vec::new();
        while number != ROOT {
            let named = |(directory, inode): (&u64, &super::inode::Inode)| {
                let NodeContent::Directory(names) = &inode.body else { return None };
                let name = names.names().find(|(_, to)| *to == number)?.0.clone();
                Some((*directory, name))
            };
            let (directory, name) = state.inodes.iter().find_map(named).ok_or(FsError::Stale)?;
            names.push(name);
            number = directory;
        }
        Ok(names.into_iter().rev().collect())
    }

    pub(super) fn open_number(
        &self,
        actor: Actor<'_>,
        number: u64,
        how: OpenHow,
    ) -> Result<OpenedNode> {
        self.shared.call(MemoryCall::Open(how.wait), |state| {
            let inode = state.inode(number)?;
            let is_file = inode.kind() == FileKind::File;
            let reads = how.read || (how.write && !is_file);
            if (reads && !inode.grants(actor, Right::Read))
                || (how.write && is_file && !inode.grants(actor, Right::Write))
            {
                return Err(FsError::AccessDenied);
            }
            let path = RelPath::nameless(self.shared.key(number));
            let (node, attributes) = MemoryNode::new(&self.shared, state, number, &how);
            Ok(OpenedNode { node: Arc::new(node), attributes, path })
        })
    }
}
