//! Listing a directory with what is in it.

use super::find::looking;
use super::{Handle, Object, VolumeId};
use crate::authorize::{allowed, descriptor_of};
use crate::{Access, Caller, Files};
use std::sync::Arc;
use vfs::{
    Attributes, Choice, FileKind, FsError, ListSink, ListWanted, Name, Node, OpenHow, Result, Wait,
};

/// One name in a directory, with what it names.
#[derive(Clone, Debug)]
pub struct ListedObject {
    /// The name.
    pub name: Name,
    /// To go on after it; any number but zero. It stays what it is while the
    /// directory changes, as far as the file system can.
    pub cookie: u64,
    /// The number that the directory has for it: another than the object's own where
    /// a file system is mounted on it.
    pub mounted_on: u64,
    /// What it names, as by [`Files::object_attributes`].
    pub attributes: Attributes,
    /// What it names, if handles were asked for and there is one.
    pub handle: Option<Handle>,
}

/// A part of a directory.
#[derive(Clone, Debug)]
pub struct Listed {
    /// In the directory's order.
    pub entries: Vec<ListedObject>,
    /// There are no more.
    pub is_end: bool,
}

impl Files {
    /// Entries after `cookie` (0: from the start) with their attributes, and with
    /// handles in the volume of that name: at most `count_max`, and no more names than
    /// `name_bytes_max` holds, but one in any case. Without `.` and `..`.
    ///
    /// # Errors
    /// [`FsError::NotDirectory`], [`FsError::AccessDenied`].
    pub async fn list_objects(
        &self,
        caller: &Arc<Caller>,
        directory: &Object,
        cookie: u64,
        (count_max, name_bytes_max): (usize, usize),
        handles: Option<VolumeId>,
    ) -> Result<Listed> {
        directory.need_directory()?;
        let (caller, directory) = (caller.clone(), directory.clone());
        let mut listed = self
            .offload(move || {
                let list = Listing { caller, directory, count_max, name_bytes_max };
                list.run(cookie, handles.is_some())
            })
            .await?;
        let is_end = listed.0;
        let seal = |(mut entry, node): (ListedObject, Option<vfs::NodeHandle>)| {
            entry.handle = handles.zip(node).map(|(volume, node)| self.seal(volume, node));
            entry
        };
        Ok(Listed { entries: listed.1.drain(..).map(seal).collect(), is_end })
    }
}

struct Listing {
    caller: Arc<Caller>,
    directory: Object,
    count_max: usize,
    name_bytes_max: usize,
}

type Found = Vec<(ListedObject, Option<vfs::NodeHandle>)>;

impl Listing {
    fn run(&self, cookie: u64, handles: bool) -> Result<(bool, Found)> {
        let node = self.open()?;
        let mut sink =
            Collecting { listing: self, node: &*node, handles, found: Found::new(), bytes: 0 };
        let wanted = ListWanted { attributes: true, stored: true, few: self.count_max == 1 };
        let (vfs, who) = (&self.directory.volume.vfs, &self.caller.identity);
        let is_end = vfs.list_with_attributes(&*node, who, cookie, wanted, &mut sink)?;
        Ok((is_end, sink.found))
    }

    /// As [`Files::child_attributes`] has it.
    fn may_read(&self, name: &Name, kind: FileKind) -> bool {
        let reads = Access::FILE_READ - Access::SYNCHRONIZE;
        let Object { volume, path, .. } = &self.directory;
        let look = || {
            let path = path.join(name);
            let child = volume.vfs.open(&self.caller.identity, &path, looking(Wait::Allowed))?;
            let descriptor = descriptor_of(&*child.node, &child.attributes);
            Ok::<_, FsError>(allowed(volume, &self.caller, &descriptor).contains(reads))
        };
        self.caller.is_root()
            || !matches!(kind, FileKind::File | FileKind::Directory)
            || look().unwrap_or(false)
    }

    fn open(&self) -> Result<Arc<dyn Node>> {
        let how = OpenHow { read: true, ..looking(Wait::Allowed) };
        let Object { volume, node, path } = &self.directory;
        let identity = &self.caller.identity;
        match volume.vfs.open_node(identity, &**node, how) {
            Err(FsError::NotSupported) => Ok(volume.vfs.open(identity, path, how)?.node),
            other => Ok(other?.node),
        }
    }
}

/// Takes what is listed, and handles of it.
struct Collecting<'a> {
    listing: &'a Listing,
    node: &'a dyn Node,
    handles: bool,
    found: Found,
    /// Of names.
    bytes: usize,
}

impl ListSink for Collecting<'_> {
    fn choose(&mut self, name: &[u8], _: u64) -> Choice {
        let Listing { directory, count_max, name_bytes_max, .. } = self.listing;
        if directory.volume.options.veto_names.has(name) {
            return Choice::Pass;
        }
        self.bytes += name.len();
        let is_full = self.found.len() >= *count_max
            || (self.bytes > *name_bytes_max && !self.found.is_empty());
        if is_full { Choice::Stop } else { Choice::Take }
    }

    fn put(&mut self, entry: vfs::Listed<'_>) -> bool {
        let (Some(attributes), Ok(name)) = (entry.attributes, Name::new(entry.name)) else {
            return true;
        };
        let volume = &self.listing.directory.volume;
        if volume.options.hide_unreadable && !self.listing.may_read(&name, attributes.kind) {
            return true;
        }
        let attributes = volume.shown_as(entry.name, attributes);
        let handle = || volume.vfs.child_handle(self.node, &name, attributes.key).ok();
        let handle = self.handles.then(handle).flatten();
        let (cookie, mounted_on) = (entry.next, entry.inode);
        let listed = ListedObject { name, cookie, mounted_on, attributes, handle: None };
        self.found.push((listed, handle));
        true
    }
}
