//! Listing directories.

use crate::authorize::{allowed, as_granted, descriptor_of};
use crate::{Access, Caller, Files, OpenFile};
use std::sync::Arc;
use vfs::{
    Attributes, Case, DirEntry, FileKind, FsError, Name, Node, OpenHow, Result, StreamName, Wait,
    Wanted,
};

/// A child of a directory, looked at closely.
#[derive(Debug)]
pub struct Child {
    node: Arc<dyn Node>,
    caller: Arc<Caller>,
    access: Access,
}

impl Child {
    /// All that the directory's user may do to it.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// Length of a named stream in bytes; none has no bytes.
    #[must_use]
    pub fn stream_bytes(&self, name: &StreamName) -> u64 {
        self.node.find_stream(name, Case::Insensitive).map_or(0, |entry| entry.size_bytes)
    }

    /// The first bytes of a named stream, at most `length`; none if there is no
    /// such stream, or the user may not read it.
    #[must_use]
    pub fn stream(&self, name: &StreamName, length: usize) -> Option<Vec<u8>> {
        if !self.access.contains(Access::READ_DATA) {
            return None;
        }
        let entry = self.node.find_stream(name, Case::Insensitive).ok()?;
        let mut data = Vec::new();
        let who = as_granted(&self.caller, &*self.node);
        self.node.read_stream(&who, &entry.name, 0, length, &mut data).ok()?;
        Some(data)
    }
}

impl Files {
    /// Gives entries after `cookie` to `each` until it returns false. True at
    /// the end. Names that the volume does not serve are left out.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open may not list, [`FsError::NotDirectory`].
    pub fn list(
        &self,
        open: &OpenFile,
        cookie: u64,
        each: &mut dyn FnMut(DirEntry) -> bool,
    ) -> Result<bool> {
        if !open.is_directory() {
            return Err(FsError::NotDirectory);
        }
        open.need_any(Access::READ_DATA)?;
        let veto = &open.volume().options.veto_names;
        open.node.list(cookie, &mut |entry| veto.has(entry.name.as_bytes()) || each(entry))
    }

    /// A closer look at a child by its exact name; at the link itself if it is one.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if it has gone, [`FsError::AccessDenied`].
    pub fn look_at_child(&self, open: &OpenFile, name: &Name) -> Result<Child> {
        let how = OpenHow {
            read: false,
            write: false,
            case: Case::Sensitive,
            wanted: Wanted::default(),
            no_follow: true,
            wait: Wait::Allowed,
        };
        let caller = &open.caller;
        let found = open.volume().vfs.open(&caller.identity, &open.path().join(name), how)?;
        let descriptor = descriptor_of(&*found.node, &found.attributes);
        let access = allowed(open.volume(), caller, &descriptor) - Access::SYSTEM_SECURITY;
        Ok(Child { node: found.node, caller: caller.clone(), access })
    }

    /// Attributes of a child by its exact name; where links are followed, of what a
    /// link leads to, unless that cannot be seen. Who lists as POSIX has it sees the link.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if it has gone, or is not shown to those who may
    /// not read it.
    pub fn child_attributes(&self, open: &OpenFile, name: &Name) -> Result<Attributes> {
        let wanted = Wanted { dos: true };
        let mut child = open.node.child_attributes(name, wanted)?;
        let volume = open.volume();
        let follows = volume.features().follows_links && !open.is_posix();
        if child.kind == FileKind::Symlink && follows {
            let how = OpenHow {
                read: false,
                write: false,
                case: Case::Sensitive,
                wanted,
                no_follow: false,
                wait: Wait::Allowed,
            };
            let target = volume.vfs.open(&open.caller.identity, &open.path().join(name), how);
            child = target.map_or(child, |target| target.attributes);
        } else if child.kind == FileKind::Symlink {
            child = open.with_link(&open.path().join(name), child);
        }
        if volume.options.hide_unreadable && !self.may_read(open, name, child.kind) {
            return Err(FsError::NotFound);
        }
        Ok(volume.shown_as(name.as_bytes(), child))
    }
}

impl Files {
    /// Whether the caller has all that reading a child takes, or listing it: its
    /// data alone is not enough, as on Windows. What has neither data nor names
    /// may be looked at.
    fn may_read(&self, open: &OpenFile, name: &Name, kind: FileKind) -> bool {
        let reads = Access::FILE_READ - Access::SYNCHRONIZE;
        open.caller.is_root()
            || !matches!(kind, FileKind::File | FileKind::Directory)
            || self.look_at_child(open, name).is_ok_and(|child| child.access().contains(reads))
    }
}
