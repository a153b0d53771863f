//! Operations on names: open, create, remove, rename, link.

use super::inode::{MemoryDirectory, NodeContent, NodeMetadata, Right};
use super::node::MemoryNode;
use super::resolve::Resolution;
use super::state::MemoryState;
use super::{MemoryCall, MemoryVfs, data};
use crate::{
    Actor, AttributeRequest, Attributes, Case, ChangeFeed, ChangeFeeds, ChildName, ChildRename,
    CreateHow, CreationMode, ExpectedChild, FileKey, FileKind, FsError, ListingFeed, LocatedNode,
    Name, NameActor, NewChild, Node, NodeHandle, OpenHow, OpenedNode, PersistentHandles, RelPath,
    Replace, Result, Space, SpecialKind, TreeFeatures, Vfs, Wait,
};
use std::sync::Arc;

fn exact(actor: Actor<'_>) -> Resolution<'_> {
    Resolution { actor, case: Case::Sensitive, no_follow: true }
}

impl MemoryVfs {
    fn opened(
        &self,
        state: &mut MemoryState,
        number: u64,
        how: &OpenHow,
        path: RelPath,
    ) -> OpenedNode {
        let (node, attributes) = MemoryNode::new(&self.shared, state, number, how);
        OpenedNode { node: Arc::new(node), attributes, path }
    }

    /// Creates a node by path that is neither file nor directory.
    fn create_special_at(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        new: NewChild<'_>,
    ) -> Result<OpenedNode> {
        let new = new_body(NameActor::Own(actor), new)?;
        self.shared.call(MemoryCall::Create, |state| {
            let at = EntryLocation::at(state, path, exact(actor))?;
            self.create_special_entry(state, NameActor::Own(actor), at, new)
        })
    }

    /// Initialises a created node, or removes it.
    fn initialised(&self, created: OpenedNode, how: CreateHow<'_>) -> Result<OpenedNode> {
        let (path, key) = (created.path.clone(), created.attributes.key);
        let initialised = how.initialised(created);
        if initialised.is_err() {
            self.remove(Actor::SUPERUSER, &path, key)?;
        }
        initialised
    }

    fn create_special_entry(
        &self,
        state: &mut MemoryState,
        actor: NameActor<'_>,
        at: EntryLocation,
        (mode, body): (u32, NodeContent),
    ) -> Result<OpenedNode> {
        check_may_change(state, actor, at.parent, None)?;
        let facts = NodeMetadata::new(actor.actor(), mode, None, state.now);
        let number = self.add_entry(state, at.parent, &at.name, facts, body)?;
        let how = OpenHow::looking(Wait::Allowed);
        Ok(self.opened(state, number, &how, at.path))
    }

    /// Creates a file or directory.
    fn create_entry(
        &self,
        state: &mut MemoryState,
        actor: NameActor<'_>,
        at: EntryLocation,
        (case, how): (Case, CreateHow<'_>),
    ) -> Result<OpenedNode> {
        let insensitive = case == Case::Insensitive;
        let taken = state.directory(at.parent).and_then(|d| d.find(&at.name, insensitive));
        if taken.is_some() {
            return Err(FsError::AlreadyExists);
        }
        check_may_change(state, actor, at.parent, None)?;
        let body = match how.kind {
            FileKind::File => NodeContent::File(data::SparseBytes::default()),
            FileKind::Directory => NodeContent::Directory(MemoryDirectory::within(at.parent)),
            _ => return Err(FsError::NotSupported),
        };
        let facts = NodeMetadata::new(actor.actor(), how.mode.without_list(), how.dos, state.now);
        let number = self.add_entry(state, at.parent, &at.name, facts, body)?;
        let (wanted, wait) = (how.wanted, Wait::Allowed);
        let how = OpenHow { read: true, write: true, case, wanted, no_follow: true, wait };
        Ok(self.opened(state, number, &how, at.path))
    }

    /// Removes a name that refers to `expected`.
    fn unlink(
        &self,
        state: &mut MemoryState,
        actor: NameActor<'_>,
        at: &EntryLocation,
        expected: FileKey,
    ) -> Result<()> {
        let number = at.child(state).filter(|n| self.shared.key(*n) == expected);
        let number = number.ok_or(FsError::NotFound)?;
        check_may_change(state, actor, at.parent, Some(number))?;
        if state.directory(number).is_some_and(|d| !d.is_empty()) {
            return Err(FsError::NotEmpty);
        }
        state.set_name(at.parent, &at.name, None);
        Ok(())
    }

    /// Location of a name in an open directory.
    fn location_in(
        &self,
        state: &MemoryState,
        actor: NameActor<'_>,
        child: ChildName<'_>,
    ) -> Result<EntryLocation> {
        if !actor.actor().may_resolve_paths() {
            return Err(FsError::AccessDenied);
        }
        let node = MemoryNode::of(child.directory, &self.shared).ok_or(FsError::CrossDevice)?;
        let (parent, name, path) = (node.number, child.name()?, child.path.clone());
        match state.inode(parent)? {
            inode if inode.kind() != FileKind::Directory => Err(FsError::PathNotFound),
            inode if inode.links == 0 => Err(FsError::NotFound),
            _ => Ok(EntryLocation { parent, name, path }),
        }
    }

    /// Adds a node under a free name.
    fn add_entry(
        &self,
        state: &mut MemoryState,
        parent: u64,
        name: &Name,
        facts: NodeMetadata,
        body: NodeContent,
    ) -> Result<u64> {
        if state.directory(parent).is_some_and(|directory| directory.get(name).is_some()) {
            return Err(FsError::AlreadyExists);
        }
        if !state.has_room(1, self.shared.options.capacity_bytes) {
            return Err(FsError::NoSpace);
        }
        let number = state.add(facts, body);
        state.set_name(parent, name, Some(number));
        Ok(number)
    }
}

/// Mode and content of a new node that is neither file nor directory.
fn new_body(actor: NameActor<'_>, new: NewChild<'_>) -> Result<(u32, NodeContent)> {
    match new {
        NewChild::Symlink(target) => Ok((0o777, NodeContent::Symlink(target.to_vec()))),
        NewChild::Special { kind: SpecialKind::Device(_), .. } if !actor.may_make_devices() => {
            Err(FsError::AccessDenied)
        }
        NewChild::Special { kind, mode } => Ok((mode.without_list(), NodeContent::Special(kind))),
    }
}

/// Location of a directory entry.
struct EntryLocation {
    parent: u64,
    name: Name,
    /// Path of the name as stored.
    path: RelPath,
}

impl EntryLocation {
    /// Resolves a path.
    fn at(state: &MemoryState, path: &RelPath, way: Resolution<'_>) -> Result<Self> {
        if !way.actor.may_resolve_paths() {
            return Err(FsError::AccessDenied);
        }
        let (parent, above, name) = state.resolve_parent(path, way)?;
        let path = above.join(&name);
        Ok(Self { parent, name, path })
    }

    /// The node of the name.
    fn child(&self, state: &MemoryState) -> Option<u64> {
        state.directory(self.parent)?.get(&self.name)
    }
}

/// Checks that `actor` may change names in the directory, and this child.
fn check_may_change(
    state: &MemoryState,
    actor: NameActor<'_>,
    directory: u64,
    child: Option<u64>,
) -> Result<()> {
    const STICKY: u32 = 0o1000;
    if actor.is_granted() {
        return Ok(());
    }
    let actor = actor.actor();
    let inode = state.inode(directory)?;
    if !inode.grants(actor, Right::Write) || !inode.grants(actor, Right::Search) {
        return Err(FsError::AccessDenied);
    }
    let stuck = inode.facts.mode & STICKY != 0 && !inode.owned_by(actor);
    match child {
        Some(child) if stuck && !state.inode(child)?.owned_by(actor) => Err(FsError::AccessDenied),
        _ => Ok(()),
    }
}

/// Whether `directory` is `number` or lies below it.
fn lies_below(state: &MemoryState, mut directory: u64, number: u64) -> bool {
    loop {
        if directory == number {
            return true;
        }
        match state.directory(directory).map(|d| d.parent) {
            Some(parent) if parent != directory => directory = parent,
            _ => return false,
        }
    }
}

fn rename(
    state: &mut MemoryState,
    actor: NameActor<'_>,
    (from, to): (&EntryLocation, &EntryLocation),
    replace: Replace,
) -> Result<()> {
    let number = from.child(state).ok_or(FsError::NotFound)?;
    let replaced = to.child(state);
    check_may_change(state, actor, from.parent, Some(number))?;
    check_may_change(state, actor, to.parent, replaced)?;
    let is_directory = state.directory(number).is_some();
    if is_directory && lies_below(state, to.parent, number) {
        return Err(FsError::AccessDenied);
    }
    match replaced {
        Some(_) if replace == Replace::Never => return Err(FsError::AlreadyExists),
        // A rename between two links of one node does nothing. rename(3p).
        Some(other) if other == number => return Ok(()),
        Some(other) if replace == Replace::Any => check_may_replace(state, other, is_directory)?,
        Some(other) if state.directory(other).is_some() => return Err(FsError::IsDirectory),
        Some(_) if is_directory => return Err(FsError::AccessDenied),
        _ => {}
    }
    state.set_name(to.parent, &to.name, Some(number));
    state.set_name(from.parent, &from.name, None);
    Ok(())
}

/// Checks that POSIX lets a directory, or another node, replace `other`.
fn check_may_replace(state: &MemoryState, other: u64, is_directory: bool) -> Result<()> {
    match (state.directory(other), is_directory) {
        (Some(directory), true) if !directory.is_empty() => Err(FsError::NotEmpty),
        (Some(_), false) => Err(FsError::IsDirectory),
        (None, true) => Err(FsError::NotDirectory),
        _ => Ok(()),
    }
}

impl Vfs for MemoryVfs {
    fn open(&self, actor: Actor<'_>, path: &RelPath, how: OpenHow) -> Result<OpenedNode> {
        if !actor.may_resolve_paths() {
            return Err(FsError::AccessDenied);
        }
        self.shared.call(MemoryCall::Open(how.wait), |state| {
            let way = Resolution { actor, case: how.case, no_follow: how.no_follow };
            let (number, spelt) = state.resolve(path, way)?;
            let inode = state.inode(number)?;
            let is_file = inode.kind() == FileKind::File;
            let reads = how.read || (how.write && !is_file);
            if (reads && !inode.grants(actor, Right::Read))
                || (how.write && is_file && !inode.grants(actor, Right::Write))
            {
                return Err(FsError::AccessDenied);
            }
            Ok(self.opened(state, number, &how, spelt))
        })
    }

    fn create(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        let created = self.shared.call(MemoryCall::Create, |state| {
            let at = EntryLocation::at(state, path, Resolution { actor, case, no_follow: true })?;
            self.create_entry(state, NameActor::Own(actor), at, (case, how))
        })?;
        self.initialised(created, how)
    }

    fn create_in(
        &self,
        actor: NameActor<'_>,
        child: ChildName<'_>,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<OpenedNode> {
        let created = self.shared.call(MemoryCall::Create, |state| {
            let at = self.location_in(state, actor, child)?;
            self.create_entry(state, actor, at, (case, how))
        })?;
        self.initialised(created, how)
    }

    fn create_special_in(
        &self,
        actor: NameActor<'_>,
        child: ChildName<'_>,
        new: NewChild<'_>,
    ) -> Result<OpenedNode> {
        let new = new_body(actor, new)?;
        self.shared.call(MemoryCall::Create, |state| {
            let at = self.location_in(state, actor, child)?;
            self.create_special_entry(state, actor, at, new)
        })
    }

    fn creates_without_waiting(&self) -> bool {
        self.shared.around.creates_without_waiting()
    }

    fn remove(&self, actor: Actor<'_>, path: &RelPath, expected: FileKey) -> Result<()> {
        self.shared.call(MemoryCall::Remove, |state| {
            let at = EntryLocation::at(state, path, exact(actor))?;
            self.unlink(state, NameActor::Own(actor), &at, expected)
        })
    }

    fn remove_in(
        &self,
        actor: NameActor<'_>,
        child: ChildName<'_>,
        expected: ExpectedChild,
    ) -> Result<()> {
        self.shared.call(MemoryCall::Remove, |state| {
            let at = self.location_in(state, actor, child)?;
            self.unlink(state, actor, &at, expected.key)
        })
    }

    fn rename(
        &self,
        actor: Actor<'_>,
        from: &RelPath,
        to: &RelPath,
        replace: Replace,
    ) -> Result<()> {
        self.shared.call(MemoryCall::Rename, |state| {
            let at = |path| EntryLocation::at(state, path, exact(actor));
            let (from, to) = (at(from)?, at(to)?);
            rename(state, NameActor::Own(actor), (&from, &to), replace)
        })
    }

    fn rename_in(&self, actor: NameActor<'_>, change: ChildRename<'_>) -> Result<()> {
        self.shared.call(MemoryCall::Rename, |state| {
            let from = self.location_in(state, actor, change.from)?;
            let to = self.location_in(state, actor, change.to)?;
            let key = |number| self.shared.key(number);
            if from.child(state).map(key) != Some(change.moved) {
                return Err(FsError::NotFound);
            }
            let taken = to.child(state).map(key);
            if taken.is_some() && taken != change.replaced {
                return Err(FsError::AlreadyExists);
            }
            let replace = if taken.is_some() { change.replace } else { Replace::Never };
            rename(state, actor, (&from, &to), replace)
        })
    }

    fn link(
        &self,
        actor: Actor<'_>,
        node: &dyn Node,
        to: &RelPath,
        replace: Replace,
    ) -> Result<()> {
        let node = MemoryNode::of(node, &self.shared).ok_or(FsError::CrossDevice)?;
        if node.kind() == FileKind::Directory {
            return Err(FsError::NotSupported);
        }
        self.shared.call(MemoryCall::Link, |state| {
            let at = EntryLocation::at(state, to, exact(actor))?;
            let taken = at.child(state);
            if taken.is_some() && replace == Replace::Never {
                return Err(FsError::AlreadyExists);
            }
            if taken.is_some_and(|number| state.directory(number).is_some()) {
                return Err(FsError::IsDirectory);
            }
            let inode = state.inode(node.number)?;
            // A deleted node gets no new name.
            if inode.links == 0 {
                return Err(FsError::NotFound);
            }
            // Linux denies this by default, because the link's creator could replace or watch the
            // file. proc_sys_fs(5), protected_hardlinks.
            let may_use = inode.grants(actor, Right::Read) && inode.grants(actor, Right::Write);
            if !inode.owned_by(actor) && !may_use {
                return Err(FsError::AccessDenied);
            }
            check_may_change(state, NameActor::Own(actor), at.parent, taken)?;
            state.set_name(at.parent, &at.name, Some(node.number));
            Ok(())
        })
    }

    fn symlink(&self, actor: Actor<'_>, path: &RelPath, target: &[u8]) -> Result<OpenedNode> {
        self.create_special_at(actor, path, NewChild::Symlink(target))
    }

    fn space(&self, _who: Actor<'_>) -> Result<Space> {
        self.shared.call(MemoryCall::Attributes, |state| {
            let total_bytes = self.shared.options.capacity_bytes;
            let free_bytes = total_bytes.saturating_sub(state.used_bytes());
            Ok(Space {
                total_bytes,
                free_bytes,
                available_bytes: free_bytes,
                block_bytes: data::BLOCK_BYTES as u32,
                nodes_total: 0,
                nodes_free: 0,
            })
        })
    }

    fn open_node(&self, actor: Actor<'_>, node: &dyn Node, how: OpenHow) -> Result<OpenedNode> {
        let node = MemoryNode::of(node, &self.shared).ok_or(FsError::CrossDevice)?;
        self.open_number(actor, node.number, how)
    }

    fn create_special(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        kind: SpecialKind,
        mode: CreationMode,
    ) -> Result<OpenedNode> {
        self.create_special_at(actor, path, NewChild::Special { kind, mode })
    }

    fn handles(&self) -> Option<&dyn PersistentHandles> {
        self.shared.options.has_handles.then_some(self as _)
    }

    fn feeds(&self) -> Option<&dyn ChangeFeeds> {
        self.shared.options.has_feeds.then_some(self as _)
    }

    fn features(&self) -> TreeFeatures {
        let serial = self.shared.options.serial;
        TreeFeatures {
            sparse: true,
            reflink: true,
            compression: false,
            follows_links: true,
            xattrs: self.shared.options.has_xattrs,
            stream_bytes_max: 0,
            misses_remote_changes: false,
            always_waits: false,
            hard_links: true,
            symlinks: true,
            case_sensitive: true,
            file_system: None,
            serial,
        }
    }
}

impl PersistentHandles for MemoryVfs {
    fn handle(&self, _who: Actor<'_>, node: &dyn Node) -> Result<NodeHandle> {
        let node = MemoryNode::of(node, &self.shared).ok_or(FsError::CrossDevice)?;
        self.handle_of(node.number)
    }

    fn persistent_id(&self, _: &dyn Node) -> Option<NodeHandle> {
        None
    }

    fn child_handle(
        &self,
        _who: Actor<'_>,
        _directory: &dyn Node,
        _name: &Name,
        child: &Attributes,
    ) -> Result<NodeHandle> {
        self.handle_of(child.key.inode)
    }

    fn find(
        &self,
        actor: Actor<'_>,
        handle: &NodeHandle,
        wanted: AttributeRequest,
    ) -> Result<LocatedNode> {
        // As Linux: open_by_handle_at(2).
        if !actor.overrides_permissions() {
            return Err(FsError::AccessDenied);
        }
        self.find_handle(handle, wanted)
    }

    fn path_of(&self, _who: Actor<'_>, node: &dyn Node) -> Result<RelPath> {
        let node = MemoryNode::of(node, &self.shared).ok_or(FsError::CrossDevice)?;
        self.place_of(node.number)
    }
}

impl ChangeFeeds for MemoryVfs {
    fn change_feed(&self) -> Result<Box<dyn ChangeFeed>> {
        Ok(self.feed())
    }

    fn listing_feed(&self) -> Result<Box<dyn ListingFeed>> {
        Ok(self.listings())
    }
}
