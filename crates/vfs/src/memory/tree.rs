//! Names: opening, making, removing, renaming, linking.

use super::inode::{Body, Directory, Facts, Right};
use super::node::MemoryNode;
use super::resolve::Way;
use super::state::State;
use super::{Call, MemoryVfs, data};
use crate::{
    Actor, Attributes, Case, ChangeFeed, ChildName, ChildRename, CreateHow, CreationMode, Expected,
    Features, FileKey, FileKind, FsError, ListingFeed, Located, Name, NameActor, NewChild, Node,
    NodeHandle, OpenHow, Opened, RelPath, Replace, Result, Space, SpecialKind, Vfs, Wait, Wanted,
};
use std::sync::Arc;

fn exact(who: Actor<'_>) -> Way<'_> {
    Way { who, case: Case::Sensitive, no_follow: true }
}

impl MemoryVfs {
    fn opened(&self, state: &mut State, number: u64, how: &OpenHow, path: RelPath) -> Opened {
        let (node, attributes) = MemoryNode::new(&self.shared, state, number, how);
        Opened { node: Arc::new(node), attributes, path }
    }

    /// Makes by a path what is neither file nor directory.
    fn make_at(&self, who: Actor<'_>, path: &RelPath, new: NewChild<'_>) -> Result<Opened> {
        let new = new_body(NameActor::Own(who), new)?;
        self.shared.call(Call::Create, |state| {
            let at = Spot::at(state, path, exact(who))?;
            self.make_other(state, NameActor::Own(who), at, new)
        })
    }

    /// Makes what is neither file nor directory.
    /// Completes what was created, or removes it.
    fn initialised(&self, created: Opened, how: CreateHow<'_>) -> Result<Opened> {
        let (path, key) = (created.path.clone(), created.attributes.key);
        let initialised = how.initialised(created);
        if initialised.is_err() {
            self.remove(Actor::SUPERUSER, &path, key)?;
        }
        initialised
    }

    fn make_other(
        &self,
        state: &mut State,
        who: NameActor<'_>,
        at: Spot,
        (mode, body): (u32, Body),
    ) -> Result<Opened> {
        may_change(state, who, at.parent, None)?;
        let facts = Facts::new(who.actor(), mode, None, state.now);
        let number = self.enter(state, at.parent, &at.name, facts, body)?;
        let how = OpenHow::looking(Wait::Allowed);
        Ok(self.opened(state, number, &how, at.path))
    }

    /// Makes a file or directory.
    fn make(
        &self,
        state: &mut State,
        who: NameActor<'_>,
        at: Spot,
        (case, how): (Case, CreateHow<'_>),
    ) -> Result<Opened> {
        let insensitive = case == Case::Insensitive;
        let taken = state.directory(at.parent).and_then(|d| d.find(&at.name, insensitive));
        if taken.is_some() {
            return Err(FsError::AlreadyExists);
        }
        may_change(state, who, at.parent, None)?;
        let body = match how.kind {
            FileKind::File => Body::File(data::Data::default()),
            FileKind::Directory => Body::Directory(Directory::within(at.parent)),
            _ => return Err(FsError::NotSupported),
        };
        let facts = Facts::new(who.actor(), how.mode.without_list(), how.dos, state.now);
        let number = self.enter(state, at.parent, &at.name, facts, body)?;
        let (wanted, wait) = (how.wanted, Wait::Allowed);
        let how = OpenHow { read: true, write: true, case, wanted, no_follow: true, wait };
        Ok(self.opened(state, number, &how, at.path))
    }

    /// Removes a name that leads to `expected`.
    fn unlink(
        &self,
        state: &mut State,
        who: NameActor<'_>,
        at: &Spot,
        expected: FileKey,
    ) -> Result<()> {
        let number = at.child(state).filter(|n| self.shared.key(*n) == expected);
        let number = number.ok_or(FsError::NotFound)?;
        may_change(state, who, at.parent, Some(number))?;
        if state.directory(number).is_some_and(|d| !d.is_empty()) {
            return Err(FsError::NotEmpty);
        }
        state.set_name(at.parent, &at.name, None);
        Ok(())
    }

    /// The place of a name in a directory that is open.
    fn spot_in(&self, state: &State, who: NameActor<'_>, child: ChildName<'_>) -> Result<Spot> {
        if !who.actor().may_resolve_paths() {
            return Err(FsError::AccessDenied);
        }
        let node = MemoryNode::of(child.directory, &self.shared).ok_or(FsError::CrossDevice)?;
        let (parent, name, path) = (node.number, child.name()?, child.path.clone());
        match state.inode(parent)? {
            inode if inode.kind() != FileKind::Directory => Err(FsError::PathNotFound),
            inode if inode.links == 0 => Err(FsError::NotFound),
            _ => Ok(Spot { parent, name, path }),
        }
    }

    /// Enters what is new under a name that is free.
    fn enter(
        &self,
        state: &mut State,
        parent: u64,
        name: &Name,
        facts: Facts,
        body: Body,
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

/// The mode and the contents of what is neither file nor directory.
fn new_body(who: NameActor<'_>, new: NewChild<'_>) -> Result<(u32, Body)> {
    match new {
        NewChild::Symlink(target) => Ok((0o777, Body::Symlink(target.to_vec()))),
        NewChild::Special { kind: SpecialKind::Device(_), .. } if !who.may_make_devices() => {
            Err(FsError::AccessDenied)
        }
        NewChild::Special { kind, mode } => Ok((mode.without_list(), Body::Special(kind))),
    }
}

/// A name in a directory.
struct Spot {
    parent: u64,
    name: Name,
    /// The path of the name, spelt as it is stored.
    path: RelPath,
}

impl Spot {
    /// By a path.
    fn at(state: &State, path: &RelPath, way: Way<'_>) -> Result<Self> {
        if !way.who.may_resolve_paths() {
            return Err(FsError::AccessDenied);
        }
        let (parent, above, name) = state.resolve_parent(path, way)?;
        let path = above.join(&name);
        Ok(Self { parent, name, path })
    }

    /// What has the name.
    fn child(&self, state: &State) -> Option<u64> {
        state.directory(self.parent)?.get(&self.name)
    }
}

/// Whether `who` may change the names in a directory, and this one of them.
fn may_change(state: &State, who: NameActor<'_>, directory: u64, child: Option<u64>) -> Result<()> {
    const STICKY: u32 = 0o1000;
    if who.is_granted() {
        return Ok(());
    }
    let who = who.actor();
    let inode = state.inode(directory)?;
    if !inode.grants(who, Right::Write) || !inode.grants(who, Right::Search) {
        return Err(FsError::AccessDenied);
    }
    let stuck = inode.facts.mode & STICKY != 0 && !inode.owned_by(who);
    match child {
        Some(child) if stuck && !state.inode(child)?.owned_by(who) => Err(FsError::AccessDenied),
        _ => Ok(()),
    }
}

/// Whether `directory` is `number` or lies below it.
fn lies_below(state: &State, mut directory: u64, number: u64) -> bool {
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
    state: &mut State,
    who: NameActor<'_>,
    (from, to): (&Spot, &Spot),
    replace: Replace,
) -> Result<()> {
    let number = from.child(state).ok_or(FsError::NotFound)?;
    let replaced = to.child(state);
    may_change(state, who, from.parent, Some(number))?;
    may_change(state, who, to.parent, replaced)?;
    let is_directory = state.directory(number).is_some();
    if is_directory && lies_below(state, to.parent, number) {
        return Err(FsError::AccessDenied);
    }
    match replaced {
        Some(_) if replace == Replace::Never => return Err(FsError::AlreadyExists),
        // Two names of one node: POSIX leaves both.
        Some(other) if other == number => return Ok(()),
        Some(other) if replace == Replace::Any => may_replace(state, other, is_directory)?,
        Some(other) if state.directory(other).is_some() => return Err(FsError::IsDirectory),
        Some(_) if is_directory => return Err(FsError::AccessDenied),
        _ => {}
    }
    state.set_name(to.parent, &to.name, Some(number));
    state.set_name(from.parent, &from.name, None);
    Ok(())
}

/// Whether POSIX lets a directory, or something else, take the place of `other`.
fn may_replace(state: &State, other: u64, is_directory: bool) -> Result<()> {
    match (state.directory(other), is_directory) {
        (Some(directory), true) if !directory.is_empty() => Err(FsError::NotEmpty),
        (Some(_), false) => Err(FsError::IsDirectory),
        (None, true) => Err(FsError::NotDirectory),
        _ => Ok(()),
    }
}

impl Vfs for MemoryVfs {
    fn open(&self, who: Actor<'_>, path: &RelPath, how: OpenHow) -> Result<Opened> {
        if !who.may_resolve_paths() {
            return Err(FsError::AccessDenied);
        }
        self.shared.call(Call::Open(how.wait), |state| {
            let way = Way { who, case: how.case, no_follow: how.no_follow };
            let (number, spelt) = state.resolve(path, way)?;
            let inode = state.inode(number)?;
            let is_file = inode.kind() == FileKind::File;
            let reads = how.read || (how.write && !is_file);
            if (reads && !inode.grants(who, Right::Read))
                || (how.write && is_file && !inode.grants(who, Right::Write))
            {
                return Err(FsError::AccessDenied);
            }
            Ok(self.opened(state, number, &how, spelt))
        })
    }

    fn create(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<Opened> {
        let created = self.shared.call(Call::Create, |state| {
            let at = Spot::at(state, path, Way { who, case, no_follow: true })?;
            self.make(state, NameActor::Own(who), at, (case, how))
        })?;
        self.initialised(created, how)
    }

    fn create_in(
        &self,
        who: NameActor<'_>,
        child: ChildName<'_>,
        case: Case,
        how: CreateHow<'_>,
    ) -> Result<Opened> {
        let created = self.shared.call(Call::Create, |state| {
            let at = self.spot_in(state, who, child)?;
            self.make(state, who, at, (case, how))
        })?;
        self.initialised(created, how)
    }

    fn make_in(
        &self,
        who: NameActor<'_>,
        child: ChildName<'_>,
        new: NewChild<'_>,
    ) -> Result<Opened> {
        let new = new_body(who, new)?;
        self.shared.call(Call::Create, |state| {
            let at = self.spot_in(state, who, child)?;
            self.make_other(state, who, at, new)
        })
    }

    fn creates_at_once(&self) -> bool {
        self.shared.around.creates_at_once()
    }

    fn remove(&self, who: Actor<'_>, path: &RelPath, expected: FileKey) -> Result<()> {
        self.shared.call(Call::Remove, |state| {
            let at = Spot::at(state, path, exact(who))?;
            self.unlink(state, NameActor::Own(who), &at, expected)
        })
    }

    fn remove_in(
        &self,
        who: NameActor<'_>,
        child: ChildName<'_>,
        expected: Expected,
    ) -> Result<()> {
        self.shared.call(Call::Remove, |state| {
            let at = self.spot_in(state, who, child)?;
            self.unlink(state, who, &at, expected.key)
        })
    }

    fn rename(&self, who: Actor<'_>, from: &RelPath, to: &RelPath, replace: Replace) -> Result<()> {
        self.shared.call(Call::Rename, |state| {
            let at = |path| Spot::at(state, path, exact(who));
            let (from, to) = (at(from)?, at(to)?);
            rename(state, NameActor::Own(who), (&from, &to), replace)
        })
    }

    fn rename_in(&self, who: NameActor<'_>, change: ChildRename<'_>) -> Result<()> {
        self.shared.call(Call::Rename, |state| {
            let from = self.spot_in(state, who, change.from)?;
            let to = self.spot_in(state, who, change.to)?;
            let key = |number| self.shared.key(number);
            if from.child(state).map(key) != Some(change.moved) {
                return Err(FsError::NotFound);
            }
            let taken = to.child(state).map(key);
            if taken.is_some() && taken != change.replaced {
                return Err(FsError::AlreadyExists);
            }
            let replace = if taken.is_some() { change.replace } else { Replace::Never };
            rename(state, who, (&from, &to), replace)
        })
    }

    fn link(&self, who: Actor<'_>, node: &dyn Node, to: &RelPath, replace: Replace) -> Result<()> {
        let node = MemoryNode::of(node, &self.shared).ok_or(FsError::CrossDevice)?;
        if node.kind() == FileKind::Directory {
            return Err(FsError::NotSupported);
        }
        self.shared.call(Call::Link, |state| {
            let at = Spot::at(state, to, exact(who))?;
            let taken = at.child(state);
            if taken.is_some() && replace == Replace::Never {
                return Err(FsError::AlreadyExists);
            }
            if taken.is_some_and(|number| state.directory(number).is_some()) {
                return Err(FsError::IsDirectory);
            }
            let inode = state.inode(node.number)?;
            // What has no name any more does not get a new one.
            if inode.links == 0 {
                return Err(FsError::NotFound);
            }
            // As Linux by default: a further name could be replaced or watched by its maker.
            // proc_sys_fs(5), protected_hardlinks.
            let may_use = inode.grants(who, Right::Read) && inode.grants(who, Right::Write);
            if !inode.owned_by(who) && !may_use {
                return Err(FsError::AccessDenied);
            }
            may_change(state, NameActor::Own(who), at.parent, taken)?;
            state.set_name(at.parent, &at.name, Some(node.number));
            Ok(())
        })
    }

    fn symlink(&self, who: Actor<'_>, path: &RelPath, target: &[u8]) -> Result<Opened> {
        self.make_at(who, path, NewChild::Symlink(target))
    }

    fn space(&self, _who: Actor<'_>) -> Result<Space> {
        self.shared.call(Call::Attributes, |state| {
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

    fn handle(&self, _who: Actor<'_>, node: &dyn Node) -> Result<NodeHandle> {
        let node = MemoryNode::of(node, &self.shared).ok_or(FsError::CrossDevice)?;
        self.handle_of(node.number)
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

    fn find(&self, who: Actor<'_>, handle: &NodeHandle, wanted: Wanted) -> Result<Located> {
        // As Linux has it: open_by_handle_at(2).
        if !who.overrides_permissions() {
            return Err(FsError::AccessDenied);
        }
        self.find_handle(handle, wanted)
    }

    fn path_of(&self, _who: Actor<'_>, node: &dyn Node) -> Result<RelPath> {
        let node = MemoryNode::of(node, &self.shared).ok_or(FsError::CrossDevice)?;
        self.place_of(node.number)
    }

    fn open_node(&self, who: Actor<'_>, node: &dyn Node, how: OpenHow) -> Result<Opened> {
        let node = MemoryNode::of(node, &self.shared).ok_or(FsError::CrossDevice)?;
        self.open_number(who, node.number, how)
    }

    fn make_special(
        &self,
        who: Actor<'_>,
        path: &RelPath,
        kind: SpecialKind,
        mode: CreationMode,
    ) -> Result<Opened> {
        self.make_at(who, path, NewChild::Special { kind, mode })
    }

    fn change_feed(&self) -> Result<Box<dyn ChangeFeed>> {
        Ok(self.feed())
    }

    fn listing_feed(&self) -> Result<Box<dyn ListingFeed>> {
        Ok(self.listings())
    }

    fn features(&self) -> Features {
        let serial = self.shared.options.serial;
        Features {
            sparse: true,
            reflink: true,
            compression: false,
            follows_links: true,
            xattrs: true,
            stream_bytes_max: 0,
            noatime: false,
            changed_unheard: false,
            waits: false,
            serial,
        }
    }
}
