//! One node in memory, and the names of a directory.

use super::data::{BLOCK_BYTES, SparseBytes};
use crate::{
    Actor, Attributes, DosInfo, FileKey, FileKind, MetadataPresence, Name, Role, SpecialKind,
    Timestamp, XattrName, fold_case,
};
use std::collections::{BTreeMap, BTreeSet};

/// A POSIX permission.
#[derive(Clone, Copy)]
pub(super) enum Right {
    Read = 4,
    Write = 2,
    Search = 1,
}

/// Content of a node.
#[derive(Clone, Debug)]
pub(super) enum NodeContent {
    Directory(MemoryDirectory),
    File(SparseBytes),
    Symlink(Vec<u8>),
    Special(SpecialKind),
}

/// Metadata of a node, apart from its content and its names.
#[derive(Clone, Debug)]
pub(super) struct NodeMetadata {
    pub(super) mode: u32,
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) accessed: Timestamp,
    pub(super) modified: Timestamp,
    pub(super) changed: Timestamp,
    /// Number of changes so far.
    pub(super) changes: u64,
    pub(super) verifier: Option<[u8; 8]>,
    pub(super) born: Timestamp,
    pub(super) dos: DosInfo,
    /// Change time that a client has set, and the number of changes at that moment.
    pub(super) set_changed: Option<(Timestamp, u64)>,
    pub(super) xattrs: BTreeMap<XattrName, Vec<u8>>,
    pub(super) descriptor: Option<MemoryDescriptor>,
}

/// A descriptor, with owner, group and mode at the time it was stored.
#[derive(Clone, Debug)]
pub(super) struct MemoryDescriptor {
    descriptor: Vec<u8>,
    beside: (u32, u32, u32),
}

#[derive(Clone, Debug)]
pub(super) struct Inode {
    pub(super) links: u32,
    /// Open handles, which keep a deleted node alive.
    pub(super) opens: u32,
    pub(super) facts: NodeMetadata,
    pub(super) body: NodeContent,
}

impl NodeMetadata {
    pub(super) fn new(actor: Actor<'_>, mode: u32, dos: Option<DosInfo>, now: Timestamp) -> Self {
        Self {
            mode: mode & 0o7777,
            uid: actor.creator().uid,
            gid: actor.creator().gid,
            accessed: now,
            modified: now,
            changed: now,
            changes: 0,
            verifier: None,
            born: now,
            dos: dos.unwrap_or_default(),
            set_changed: None,
            xattrs: BTreeMap::new(),
            descriptor: None,
        }
    }

    /// Records a change of data or metadata.
    pub(super) fn change(&mut self, now: Timestamp) {
        self.changed = now;
        self.changes += 1;
    }

    fn beside(&self) -> (u32, u32, u32) {
        (self.uid, self.gid, self.mode)
    }

    /// The descriptor, unless owner, group or mode have changed since.
    pub(super) fn descriptor(&self) -> Option<Vec<u8>> {
        let stored = self.descriptor.as_ref().filter(|stored| stored.beside == self.beside())?;
        Some(stored.descriptor.clone())
    }

    pub(super) fn keep_descriptor(&mut self, descriptor: Option<&[u8]>) {
        let beside = self.beside();
        self.descriptor =
            descriptor.map(|bytes| MemoryDescriptor { descriptor: bytes.to_vec(), beside });
    }
}

impl Inode {
    pub(super) fn new(facts: NodeMetadata, body: NodeContent) -> Self {
        Self { links: 0, opens: 0, facts, body }
    }

    pub(super) fn kind(&self) -> FileKind {
        match &self.body {
            NodeContent::Directory(_) => FileKind::Directory,
            NodeContent::File(_) => FileKind::File,
            NodeContent::Symlink(_) => FileKind::Symlink,
            NodeContent::Special(SpecialKind::Fifo) => FileKind::Fifo,
            NodeContent::Special(SpecialKind::Socket) => FileKind::Socket,
            NodeContent::Special(SpecialKind::Device(_)) => FileKind::Device,
        }
    }

    pub(super) fn allocated_bytes(&self) -> u64 {
        if let NodeContent::File(data) = &self.body { data.allocated_bytes() } else { 0 }
    }

    pub(super) fn attributes(&self, key: FileKey, dos: bool) -> Attributes {
        let size_bytes = match &self.body {
            NodeContent::Directory(_) => BLOCK_BYTES,
            NodeContent::File(data) => data.size_bytes(),
            NodeContent::Symlink(target) => target.len() as u64,
            NodeContent::Special(_) => 0,
        };
        let facts = &self.facts;
        Attributes {
            key,
            kind: self.kind(),
            mode: facts.mode,
            uid: facts.uid,
            gid: facts.gid,
            links: self.links,
            size_bytes,
            allocated_bytes: self.allocated_bytes(),
            accessed: facts.accessed,
            modified: facts.modified,
            changed: facts.changed,
            change: (facts.changed.0 as u64).wrapping_add(facts.changes),
            born: Some(facts.born),
            dos: if dos { facts.dos } else { DosInfo::default() },
            set_changed: facts
                .set_changed
                .filter(|(_, changes)| dos && *changes == facts.changes)
                .map(|(time, _)| time),
            stored: MetadataPresence::UNKNOWN,
            device: match &self.body {
                NodeContent::Special(SpecialKind::Device(device)) => Some(*device),
                _ => None,
            },
            compressed: false,
            protection: crate::Protection::None,
        }
    }

    pub(super) fn grants(&self, actor: Actor<'_>, right: Right) -> bool {
        let user = actor.effective_identity();
        let shift = if user.uid == self.facts.uid {
            6
        } else if user.in_group(self.facts.gid) {
            3
        } else {
            0
        };
        // The mode of a symbolic link does not restrict access.
        let is_link = matches!(self.body, NodeContent::Symlink(_));
        is_link || actor.overrides_permissions() || (self.facts.mode >> shift) & right as u32 != 0
    }

    pub(super) fn owned_by(&self, actor: Actor<'_>) -> bool {
        actor.acts_as_owner_of(self.facts.uid)
    }

    /// Clears set-user-ID and set-group-ID bits, as Linux does on a write. On a directory they have
    /// another meaning. Without group execution set-group-ID marks mandatory locking, and only
    /// callers outside the group clear it.
    pub(super) fn drop_set_ids(&mut self, actor: Actor<'_>) {
        let keeps = matches!(actor.role(), Role::User(user) if user.uid == 0);
        if !keeps && self.kind() == FileKind::File {
            let group = self.facts.gid;
            let marks =
                self.facts.mode & 0o10 == 0 && actor.user().is_some_and(|it| it.in_group(group));
            self.facts.mode &= if marks { !0o4000 } else { !0o6000 };
        }
    }

    /// Records a change of data.
    pub(super) fn touch(&mut self, now: Timestamp) {
        self.facts.modified = now;
        self.facts.change(now);
    }
}

/// Names by spelling, by case-folded spelling, and in order of creation, which is the listing
/// order.
#[derive(Clone, Debug, Default)]
pub(super) struct MemoryDirectory {
    /// Parent directory; the root is its own.
    pub(super) parent: u64,
    names: BTreeMap<Name, DirectorySlot>,
    order: BTreeMap<u64, Name>,
    folded: BTreeMap<Vec<u8>, BTreeSet<Name>>,
    last_cookie: u64,
}

#[derive(Clone, Copy, Debug)]
struct DirectorySlot {
    inode: u64,
    cookie: u64,
}

impl MemoryDirectory {
    pub(super) fn within(parent: u64) -> Self {
        Self { parent, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub(super) fn get(&self, name: &Name) -> Option<u64> {
        self.names.get(name).map(|place| place.inode)
    }

    /// The stored name and its node: an exact match, else one that differs in case; of several the
    /// first in byte order.
    pub(super) fn find(&self, name: &Name, insensitive: bool) -> Option<(Name, u64)> {
        if let Some(place) = self.names.get(name) {
            return Some((name.clone(), place.inode));
        }
        let spelt = if insensitive {
            self.folded.get(&*fold_case(name.as_bytes()))?.first()?
        } else {
            return None;
        };
        Some((spelt.clone(), self.names[spelt].inode))
    }

    /// Adds a name, or lets it refer to another node.
    pub(super) fn insert(&mut self, name: &Name, inode: u64) {
        self.remove(name);
        self.last_cookie += 1;
        let cookie = self.last_cookie;
        self.names.insert(name.clone(), DirectorySlot { inode, cookie });
        self.order.insert(cookie, name.clone());
        let folded = fold_case(name.as_bytes()).into_owned();
        self.folded.entry(folded).or_default().insert(name.clone());
    }

    pub(super) fn remove(&mut self, name: &Name) {
        let Some(place) = self.names.remove(name) else { return };
        self.order.remove(&place.cookie);
        let folded = fold_case(name.as_bytes()).into_owned();
        if let Some(same) = self.folded.get_mut(&folded) {
            same.remove(name);
            if same.is_empty() {
                self.folded.remove(&folded);
            }
        }
    }

    /// Entries after `cookie`: cookie, name and node of each.
    pub(super) fn after(&self, cookie: u64) -> impl Iterator<Item = (u64, &Name, u64)> {
        let from = cookie.saturating_add(1);
        self.order.range(from..).map(|(next, name)| (*next, name, self.names[name].inode))
    }

    /// All names with their nodes.
    pub(super) fn names(&self) -> impl Iterator<Item = (&Name, u64)> {
        self.names.iter().map(|(name, place)| (name, place.inode))
    }
}
