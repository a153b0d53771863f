//! Directory listings.

use crate::authorize::{as_granted, rights_by_mode, rights_to_opened};
use crate::server_work::{METADATA, WANTED};
use crate::{Access, Caller, OpenFile, RequestFiles};
use std::sync::Arc;
use vfs::{
    AttributeRequest, Attributes, Case, DirEntry, EntryChoice, FileKind, FsError, ListSink,
    ListedEntry, ListingRequest, Name, Node, OpenHow, Result, ServerWork, StreamName, Wait,
};

/// A directory entry that was opened for a closer look.
#[derive(Debug)]
pub struct ListedChild {
    node: Arc<dyn Node>,
    caller: Arc<Caller>,
    access: Access,
}

impl ListedChild {
    /// Rights of the directory's user to the child.
    #[must_use]
    pub fn access(&self) -> Access {
        self.access
    }

    /// Size of a named stream in bytes; 0 without the stream.
    #[must_use]
    pub fn stream_bytes(&self, name: &StreamName) -> u64 {
        self.node.find_stream(METADATA, name, Case::Insensitive).map_or(0, |entry| entry.size_bytes)
    }

    /// The first `length` bytes of a named stream; none without the stream or the right to read it.
    #[must_use]
    pub fn stream(&self, name: &StreamName, length: usize) -> Option<Vec<u8>> {
        if !self.access.contains(Access::READ_DATA) {
            return None;
        }
        let entry = self.node.find_stream(METADATA, name, Case::Insensitive).ok()?;
        let mut data = Vec::new();
        let authority = as_granted(&self.caller, &*self.node);
        let streams = self.node.named_streams()?;
        streams.read_stream(authority.actor(), &entry.name, 0, length, &mut data).ok()?;
        Some(data)
    }
}

impl RequestFiles {
    /// Passes entries after `cookie` to `each` until it returns false. Returns true at the end.
    /// Vetoed names are omitted.
    ///
    /// # Errors
    /// [`FsError::AccessDenied`] if the open lacks the right, [`FsError::NotDirectory`].
    pub fn readdir(
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
        open.reading_node()
            .readdir(cookie, &mut |entry| veto.has(entry.name.as_bytes()) || each(entry))
    }

    /// Opens a child by its exact name for a closer look; a symbolic link is not followed.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if it was removed, [`FsError::AccessDenied`].
    pub fn look_at_child(&self, open: &OpenFile, name: &Name) -> Result<ListedChild> {
        let how = OpenHow { wanted: AttributeRequest::default(), ..LOOK };
        let caller = &open.caller;
        let actor = self.context.call(caller.identity.actor());
        let found = open.volume().vfs.open(actor, &open.path().join(name), how)?;
        let access = rights_to_opened(open.volume(), caller, &found) - Access::SYSTEM_SECURITY;
        Ok(ListedChild { node: found.node, caller: caller.clone(), access })
    }

    /// As [`RequestFiles::readdir`], with the `wanted` attributes for entries that `sink` chooses,
    /// like those of [`RequestFiles::child_attributes`].
    ///
    /// # Errors
    /// As [`RequestFiles::readdir`].
    pub fn readdir_with_attributes(
        &self,
        open: &OpenFile,
        cookie: u64,
        wanted: ListingRequest,
        sink: &mut dyn ListSink,
    ) -> Result<bool> {
        if !open.is_directory() {
            return Err(FsError::NotDirectory);
        }
        open.need_any(Access::READ_DATA)?;
        let hides_unreadable = open.volume().options.hide_unreadable;
        let wanted = ListingRequest {
            attributes: wanted.attributes || hides_unreadable,
            stored: wanted.stored.or(hides_unreadable.then_some(ServerWork::Metadata)),
            ..wanted
        };
        let mut screen = Screen { files: self, open, sink };
        let authority = as_granted(&open.caller, &*open.node);
        let actor = self.context.call(authority.actor());
        let node = open.reading_node();
        open.volume().names().readdir_with_attributes(&**node, actor, cookie, wanted, &mut screen)
    }

    /// The same on a worker, for long listings.
    ///
    /// # Errors
    /// As [`RequestFiles::readdir`]; [`FsError::TooMany`].
    pub async fn readdir_on_worker<S: ListSink + Send + 'static>(
        &self,
        open: Arc<OpenFile>,
        cookie: u64,
        wanted: ListingRequest,
        mut sink: S,
    ) -> Result<(S, bool)> {
        let files = self.clone();
        let list = move || {
            let ended = files.readdir_with_attributes(&open, cookie, wanted, &mut sink)?;
            Ok((sink, ended))
        };
        self.offload(list).await
    }

    /// The stored name of the child that `name` matches by the open's rules, and its attributes.
    ///
    /// # Errors
    /// As [`RequestFiles::child_attributes`].
    pub fn find_child(&self, open: &OpenFile, name: &Name) -> Result<(Name, Attributes)> {
        open.need_any(Access::READ_DATA)?;
        let volume = open.volume();
        if volume.options.veto_names.has(name.as_bytes()) {
            return Err(FsError::NotFound);
        }
        let case = if open.is_posix() { Case::Sensitive } else { volume.options.case };
        match self.child_attributes(open, name) {
            Err(FsError::NotFound) if case == Case::Insensitive => {}
            other => return other.map(|attributes| (name.clone(), attributes)),
        }
        let how = OpenHow { case, ..LOOK };
        let authority = as_granted(&open.caller, &*open.node);
        let found =
            volume.vfs.open(self.context.call(authority.actor()), &open.path().join(name), how)?;
        let (_, name) = found.path.split().ok_or(FsError::NotFound)?;
        Ok((name.clone(), self.child_attributes(open, &name)?))
    }

    /// Attributes of a child by its exact name. Where links are followed they are the target's,
    /// unless the caller cannot reach it. A POSIX listing describes the link.
    ///
    /// # Errors
    /// [`FsError::NotFound`] if the child was removed, or is hidden from a caller that may not read
    /// it.
    pub fn child_attributes(&self, open: &OpenFile, name: &Name) -> Result<Attributes> {
        let authority = as_granted(&open.caller, &*open.node);
        let child = open.node.child_attributes(authority.actor(), name, WANTED)?;
        let child = shown(open, name.as_bytes(), child);
        if self.is_hidden_from(open, name.as_bytes(), &child) {
            return Err(FsError::NotFound);
        }
        Ok(child)
    }

    /// Rights of the directory's user to a child, derived from its attributes without opening it;
    /// none if they do not suffice.
    #[must_use]
    pub fn access_by_attributes(&self, open: &OpenFile, attributes: &Attributes) -> Option<Access> {
        let stored = attributes.stored;
        let is_plain = matches!(attributes.kind, FileKind::File | FileKind::Directory);
        if stored.descriptor || stored.posix_acl || !is_plain {
            return None;
        }
        let rights = rights_by_mode(open.volume(), &open.caller, attributes);
        Some(rights - Access::SYSTEM_SECURITY)
    }

    /// Whether a child is omitted as unreadable: its user needs all rights of reading or listing;
    /// READ_DATA alone does not suffice, as on Windows. Special files are always listed.
    fn is_hidden_from(&self, open: &OpenFile, name: &[u8], child: &Attributes) -> bool {
        let reads = Access::FILE_READ - Access::SYNCHRONIZE;
        let is_plain = matches!(child.kind, FileKind::File | FileKind::Directory);
        if !open.volume().options.hide_unreadable || open.caller.is_root() || !is_plain {
            return false;
        }
        let by_look = || {
            let child = self.look_at_child(open, &Name::new(name).ok()?).ok()?;
            Some(child.access())
        };
        let access = self.access_by_attributes(open, child).or_else(by_look);
        !access.is_some_and(|access| access.contains(reads))
    }
}

const LOOK: OpenHow = OpenHow { wanted: WANTED, ..OpenHow::looking(Wait::Allowed) };

/// Attributes of a child as presented to clients.
fn shown(open: &OpenFile, name: &[u8], child: Attributes) -> Attributes {
    let volume = open.volume();
    volume.presented_as(name, target_of(open, name, child))
}

/// Attributes of a link's target, where links are followed.
fn target_of(open: &OpenFile, name: &[u8], child: Attributes) -> Attributes {
    let (FileKind::Symlink, Ok(name)) = (child.kind, Name::new(name)) else { return child };
    let (volume, path) = (open.volume(), open.path().join(&name));
    if open.is_posix() || !volume.features().follows_links {
        return open.with_child_link_kind(&path, child);
    }
    let how = OpenHow { no_follow: false, ..LOOK };
    let target = volume.vfs.open(open.caller.identity.actor(), &path, how);
    let target = target.ok().filter(|target| volume.check_reached(target, false).is_ok());
    target.map_or(child, |target| target.attributes)
}

/// Filters a listing for presentation.
struct Screen<'a> {
    files: &'a RequestFiles,
    open: &'a OpenFile,
    sink: &'a mut dyn ListSink,
}

impl ListSink for Screen<'_> {
    fn choose(&mut self, name: &[u8], next: u64) -> EntryChoice {
        let veto = &self.open.volume().options.veto_names;
        if veto.has(name) { EntryChoice::Pass } else { self.sink.choose(name, next) }
    }

    fn put(&mut self, entry: ListedEntry<'_>) -> bool {
        let Some(attributes) = entry.attributes else { return self.sink.put(entry) };
        let shown = shown(self.open, entry.name, attributes);
        if self.files.is_hidden_from(self.open, entry.name, &shown) {
            return true;
        }
        self.sink.put(ListedEntry { attributes: Some(shown), ..entry })
    }
}
