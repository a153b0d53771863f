//! Open nodes of a tree in memory.

use super::data::{BLOCK_BYTES, SIZE_BYTES_MAX, SparseBytes};
use super::inode::{Inode, NodeContent, Right};
use super::state::MemoryState;
use super::{CallOutcome, MemoryCall, SharedTree, disk};
use crate::{
    Actor, AttributeChanges, AttributeRequest, Attributes, DirEntry, DosInfo, ExclusiveCreation,
    ExtendedAttributes, FileExtents, FileKey, FileKind, FsError, Name, Node, OpenHow, Result,
    SecurityChange, ServerWork, TimeChange, Timestamp, Wait, XattrName,
};
use std::sync::Arc;

/// Longest extended attribute in bytes, as on Linux.
const XATTR_BYTES_MAX: usize = 64 * 1024;

/// The caller has checked permission.
const METADATA: Actor<'_> = Actor::server(ServerWork::Metadata);

/// An open node.
pub(super) struct MemoryNode {
    shared: Arc<SharedTree>,
    pub(super) number: u64,
    kind: FileKind,
    readable: bool,
    writable: bool,
}

impl std::fmt::Debug for MemoryNode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryNode").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Drop for MemoryNode {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if !state.is_dead {
            state.close(self.number);
        }
    }
}

impl SharedTree {
    pub(super) fn key(&self, number: u64) -> FileKey {
        FileKey { device: self.options.serial, inode: number }
    }

    /// Checks that so many more bytes fit.
    fn need_space(&self, state: &MemoryState, more_bytes: u64) -> Result<()> {
        // Overwriting needs no space, however full the disk is.
        let fits = more_bytes == 0 || state.has_room(more_bytes, self.options.capacity_bytes);
        if fits { Ok(()) } else { Err(FsError::NoSpace) }
    }
}

impl MemoryNode {
    pub(super) fn new(
        shared: &Arc<SharedTree>,
        state: &mut MemoryState,
        number: u64,
        how: &OpenHow,
    ) -> (Self, Attributes) {
        let inode = state.inode_mut(number).expect("it was found under the same lock");
        inode.opens += 1;
        let kind = inode.kind();
        let attributes = shared.attributes(state, number, how.wanted);
        let attributes = attributes.expect("it was found under the same lock");
        let readable = how.read || how.write;
        let node = Self { shared: shared.clone(), number, kind, readable, writable: how.write };
        (node, attributes)
    }

    /// The node behind the trait object, if it belongs to this tree.
    pub(super) fn of<'a>(node: &'a dyn Node, shared: &Arc<SharedTree>) -> Option<&'a Self> {
        let node: &Self = node.as_any().downcast_ref()?;
        Arc::ptr_eq(&node.shared, shared).then_some(node)
    }

    /// Runs a call on the data of an open file.
    fn on_data<T>(
        &self,
        call: MemoryCall,
        writes: bool,
        run: impl FnOnce(&mut MemoryState) -> Result<T>,
    ) -> Result<T> {
        self.need_open(writes)?;
        self.shared.call(call, run)
    }

    fn need_open(&self, writes: bool) -> Result<()> {
        let is_open = if writes { self.writable } else { self.readable };
        match self.kind {
            FileKind::File if is_open => Ok(()),
            FileKind::Directory => Err(FsError::IsDirectory),
            _ => Err(FsError::OpenMode),
        }
    }

    fn data<'a>(&self, state: &'a MemoryState) -> Result<&'a SparseBytes> {
        match &state.inode(self.number)?.body {
            NodeContent::File(data) => Ok(data),
            _ => Err(FsError::OpenMode),
        }
    }

    /// Changes data, and with it the times.
    fn change(
        &self,
        actor: Actor<'_>,
        state: &mut MemoryState,
        run: impl FnOnce(&mut SparseBytes),
    ) -> Result<()> {
        let now = state.now;
        let inode = state.inode_mut(self.number)?;
        inode.drop_set_ids(actor);
        inode.touch(now);
        if let NodeContent::File(data) = &mut inode.body {
            run(data);
        }
        Ok(())
    }

    fn put(
        &self,
        actor: Actor<'_>,
        state: &mut MemoryState,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        let missing = self.data(state)?.missing_bytes(offset, data.len() as u64);
        self.shared.need_space(state, missing)?;
        self.change(actor, state, |file| file.write(offset, data))
    }

    fn reserve(&self, actor: Actor<'_>, offset: u64, length: u64, grows: bool) -> Result<()> {
        need_size(offset.checked_add(length))?;
        self.on_data(MemoryCall::Allocate, true, |state| {
            let missing = self.data(state)?.missing_bytes(offset, length);
            self.shared.need_space(state, missing)?;
            self.change(actor, state, |data| {
                data.allocate(offset, length);
                if grows && data.size_bytes() < offset + length {
                    data.set_size(offset + length);
                }
            })
        })
    }

    fn change_facts(
        &self,
        actor: Actor<'_>,
        call: MemoryCall,
        run: impl FnOnce(&mut Inode, Timestamp) -> Result<()>,
    ) -> Result<()> {
        self.shared.call(call, |state| {
            let now = state.now;
            let inode = state.inode_mut(self.number)?;
            if !inode.owned_by(actor) {
                return Err(FsError::AccessDenied);
            }
            run(inode, now)?;
            inode.facts.change(now);
            state.notify_attributes(self.number);
            Ok(())
        })
    }
}

/// Checks read permission on the data, which Linux wants for users' extended attributes.
fn readable<'a>(inode: &'a Inode, actor: Actor<'_>) -> Result<&'a Inode> {
    if inode.grants(actor, Right::Read) { Ok(inode) } else { Err(FsError::AccessDenied) }
}

fn need_size(end: Option<u64>) -> Result<()> {
    if end.is_some_and(|end| end <= SIZE_BYTES_MAX) { Ok(()) } else { Err(FsError::TooLarge) }
}

fn set_time(time: &mut Timestamp, change: TimeChange, now: Timestamp) {
    match change {
        TimeChange::Keep => {}
        TimeChange::Now => *time = now,
        TimeChange::Set(to) => *time = to,
    }
}

impl Node for MemoryNode {
    fn key(&self) -> FileKey {
        self.shared.key(self.number)
    }

    fn kind(&self) -> FileKind {
        self.kind
    }

    fn attributes(&self, wanted: AttributeRequest) -> Result<Attributes> {
        self.shared.call(MemoryCall::Attributes, |state| {
            self.shared.attributes(state, self.number, wanted)
        })
    }

    fn set_attributes(&self, actor: Actor<'_>, changes: &AttributeChanges) -> Result<()> {
        let user = actor.effective_identity();
        let gives_away = changes.owner.uid.is_some_and(|uid| uid != user.uid) && user.uid != 0;
        if gives_away || actor.withholds(changes) {
            return Err(FsError::AccessDenied);
        }
        self.change_facts(actor, MemoryCall::SetAttributes, |inode, now| {
            let facts = &mut inode.facts;
            facts.uid = changes.owner.uid.unwrap_or(facts.uid);
            facts.gid = changes.owner.gid.unwrap_or(facts.gid);
            facts.mode = changes.mode.unwrap_or(facts.mode) & 0o7777;
            if let Some(dos) = changes.dos {
                facts.dos = DosInfo {
                    bits: dos.bits.or(facts.dos.bits),
                    created: dos.created.or(facts.dos.created),
                };
            }
            // The change that stores it counts as one, too.
            facts.set_changed = changes.changed.map(|time| (time, facts.changes + 1));
            set_time(&mut facts.accessed, changes.accessed, now);
            set_time(&mut facts.modified, changes.modified, now);
            Ok(())
        })
    }

    fn read(&self, offset: u64, length: usize, into: &mut Vec<u8>, wait: Wait) -> Result<usize> {
        self.on_data(MemoryCall::Read(wait), false, |state| {
            Ok(self.data(state)?.read(offset, length, into))
        })
    }

    fn write(&self, actor: Actor<'_>, offset: u64, data: &[u8]) -> Result<()> {
        need_size(offset.checked_add(data.len() as u64))?;
        let call = MemoryCall::Write { length_bytes: data.len() };
        self.need_open(true)?;
        let put = |data| self.shared.carry_out(call, |state| self.put(actor, state, offset, data));
        match self.shared.around.before(call) {
            CallOutcome::Runs => put(data),
            CallOutcome::Fails(error) => Err(error),
            CallOutcome::Tears(error, count) => put(&data[..count.min(data.len())]).and(Err(error)),
        }
    }

    fn sync(&self, _who: Actor<'_>, _data_only: bool) -> Result<()> {
        self.shared.call(MemoryCall::Sync, |state| disk::sync(state, self.number))
    }

    fn set_size(&self, actor: Actor<'_>, size_bytes: u64) -> Result<()> {
        need_size(Some(size_bytes))?;
        let grows = self.attributes(AttributeRequest::default())?.size_bytes < size_bytes;
        self.on_data(MemoryCall::SetSize { grows }, true, |state| {
            self.change(actor, state, |data| data.set_size(size_bytes))
        })
    }

    fn copy_range(
        &self,
        actor: Actor<'_>,
        offset: u64,
        source: &dyn Node,
        source_offset: u64,
        length: u64,
    ) -> Result<u64> {
        let source = Self::of(source, &self.shared).ok_or(FsError::NotSupported)?;
        if source.kind != FileKind::File || !source.readable {
            return Err(FsError::OpenMode);
        }
        self.on_data(MemoryCall::Copy, true, |state| {
            let mut bytes = Vec::new();
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let count = source.data(state)?.read(source_offset, length, &mut bytes) as u64;
            need_size(offset.checked_add(count))?;
            self.put(actor, state, offset, &bytes)?;
            Ok(count)
        })
    }

    fn readdir(&self, cookie: u64, each: &mut dyn FnMut(DirEntry) -> bool) -> Result<bool> {
        if self.kind != FileKind::Directory {
            return Err(FsError::NotDirectory);
        }
        if !self.readable {
            return Err(FsError::OpenMode);
        }
        // Collected before the callback, which may call the backend again.
        let entries = self.shared.call(MemoryCall::List, |state| {
            let directory = state.directory(self.number).ok_or(FsError::NotDirectory)?;
            let entry = |(next, name, inode): (u64, &Name, u64)| {
                let kind = state.inodes.get(&inode).map(Inode::kind);
                DirEntry { name: Name::clone(name), inode, kind, next }
            };
            Ok(directory.after(cookie).map(entry).collect::<Vec<_>>())
        })?;
        Ok(entries.into_iter().all(each))
    }

    fn child_attributes(
        &self,
        actor: Actor<'_>,
        name: &Name,
        wanted: AttributeRequest,
    ) -> Result<Attributes> {
        self.shared.call(MemoryCall::Attributes, |state| {
            if !state.inode(self.number)?.grants(actor, Right::Search) {
                return Err(FsError::AccessDenied);
            }
            let directory = state.directory(self.number).ok_or(FsError::PathNotFound)?;
            let number = directory.get(name).ok_or(FsError::NotFound)?;
            self.shared.attributes(state, number, wanted)
        })
    }

    fn readlink(&self, _who: Actor<'_>) -> Result<Vec<u8>> {
        self.shared.call(MemoryCall::Attributes, |state| match &state.inode(self.number)?.body {
            NodeContent::Symlink(target) => Ok(target.clone()),
            _ => Err(FsError::NotSupported),
        })
    }

    fn security_descriptor(&self) -> Result<Option<Vec<u8>>> {
        self.shared
            .call(MemoryCall::Xattr, |state| Ok(state.inode(self.number)?.facts.descriptor()))
    }

    fn set_security(&self, actor: Actor<'_>, change: &SecurityChange<'_>) -> Result<()> {
        if change.descriptor.is_some() {
            self.shared.need_xattrs()?;
        }
        self.change_facts(METADATA, MemoryCall::Xattr, |inode, _| {
            if change.permissions.is_some()
                && !actor.creator().actor().acts_as_owner_of(inode.facts.uid)
                && inode.kind() == FileKind::File
            {
                // The bits go whatever their present meaning: the new permissions may let the group
                // execute.
                inode.facts.mode &= !0o6000;
            }
            let facts = &mut inode.facts;
            facts.uid = change.owner.uid.unwrap_or(facts.uid);
            facts.gid = change.owner.gid.unwrap_or(facts.gid);
            if let Some(permissions) = change.permissions {
                // The tree stores no access list: named users count as others.
                let mode = permissions.mode_without_names();
                facts.mode = facts.mode & 0o7000 | mode;
            }
            facts.keep_descriptor(change.descriptor);
            Ok(())
        })
    }

    fn file_extents(&self) -> Option<&dyn FileExtents> {
        Some(self)
    }

    fn extended_attributes(&self) -> Option<&dyn ExtendedAttributes> {
        self.shared.options.has_xattrs.then_some(self as _)
    }

    fn exclusive_creation(&self) -> Option<&dyn ExclusiveCreation> {
        self.shared.options.has_xattrs.then_some(self as _)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

impl ExtendedAttributes for MemoryNode {
    fn xattr_names(&self, _who: Actor<'_>) -> Result<Vec<XattrName>> {
        self.shared.call(MemoryCall::Xattr, |state| {
            Ok(state.inode(self.number)?.facts.xattrs.keys().cloned().collect())
        })
    }

    fn child_xattrs(&self, actor: Actor<'_>, name: &Name) -> Vec<(XattrName, usize)> {
        let found = self.shared.call(MemoryCall::Xattr, |state| {
            let directory = state.directory(self.number).ok_or(FsError::PathNotFound)?;
            let number = directory.get(name).ok_or(FsError::NotFound)?;
            let xattrs = &readable(state.inode(number)?, actor)?.facts.xattrs;
            Ok(xattrs.iter().map(|(name, value)| (name.clone(), value.len())).collect())
        });
        found.unwrap_or_default()
    }

    fn xattr(&self, actor: Actor<'_>, name: &XattrName) -> Result<Vec<u8>> {
        self.shared.call(MemoryCall::Xattr, |state| {
            let facts = &readable(state.inode(self.number)?, actor)?.facts;
            facts.xattrs.get(name).cloned().ok_or(FsError::NotFound)
        })
    }

    fn set_xattr(&self, actor: Actor<'_>, name: &XattrName, value: Option<&[u8]>) -> Result<()> {
        if value.is_some_and(|value| value.len() > XATTR_BYTES_MAX) {
            return Err(FsError::TooLarge);
        }
        self.change_facts(actor, MemoryCall::Xattr, |inode, _| {
            let xattrs = &mut inode.facts.xattrs;
            match value {
                Some(value) => xattrs.insert(name.clone(), value.to_vec()),
                None => xattrs.remove(name),
            };
            Ok(())
        })
    }
}

impl ExclusiveCreation for MemoryNode {
    fn verifier(&self, actor: Actor<'_>) -> Result<[u8; 8]> {
        self.shared.call(MemoryCall::Xattr, |state| {
            readable(state.inode(self.number)?, actor)?.facts.verifier.ok_or(FsError::NotFound)
        })
    }

    fn set_verifier(&self, actor: Actor<'_>, verifier: [u8; 8]) -> Result<()> {
        self.change_facts(actor, MemoryCall::Xattr, |inode, _| {
            inode.facts.verifier = Some(verifier);
            Ok(())
        })
    }
}

impl FileExtents for MemoryNode {
    fn allocate(&self, actor: Actor<'_>, offset: u64, length: u64) -> Result<()> {
        self.reserve(actor, offset, length, false)
    }

    fn allocate_and_grow(&self, actor: Actor<'_>, offset: u64, length: u64) -> Result<()> {
        self.reserve(actor, offset, length, true)
    }

    fn punch_hole(&self, actor: Actor<'_>, offset: u64, length: u64) -> Result<()> {
        self.on_data(MemoryCall::Punch, true, |state| {
            // Beyond the end the file has nothing to free.
            let end = offset.saturating_add(length).min(self.data(state)?.size_bytes());
            let length = end.saturating_sub(offset);
            self.change(actor, state, |data| data.punch_hole(offset, length))
        })
    }

    fn seek_data(&self, offset: u64) -> Result<Option<(u64, u64)>> {
        self.on_data(MemoryCall::Attributes, false, |state| Ok(self.data(state)?.seek_data(offset)))
    }

    fn clone_range(
        &self,
        actor: Actor<'_>,
        offset: u64,
        source: &dyn Node,
        source_offset: u64,
        length: u64,
    ) -> Result<()> {
        // Copies blocks, by the alignment rules of file systems that share them.
        let node = Self::of(source, &self.shared).ok_or(FsError::CrossDevice)?;
        let size = source.attributes(AttributeRequest::default())?.size_bytes;
        let end = source_offset.checked_add(length).ok_or(FsError::InvalidParameter)?;
        let aligned = |n: u64| n.is_multiple_of(BLOCK_BYTES);
        let tail = end == size
            && offset.saturating_add(length)
                >= self.attributes(AttributeRequest::default())?.size_bytes;
        let whole = aligned(offset) && aligned(source_offset) && (aligned(end) || tail);
        let overlaps = node.number == self.number && offset.abs_diff(source_offset) < length;
        if !whole || overlaps || end > size {
            return Err(FsError::InvalidParameter);
        }
        self.copy_range(actor, offset, source, source_offset, length).map(drop)
    }

    fn set_compressed(&self, _: Actor<'_>, _: bool) -> Result<()> {
        Err(FsError::NotSupported)
    }
}
