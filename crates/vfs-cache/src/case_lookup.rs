//! Case-insensitive lookup of a path without an exact match.

use crate::directories::NameAnswer;
use crate::name_index::{NameIndex, NameMatch, hash_of};
use crate::tree::CachedVfs;
use vfs::{
    Actor, ArrivalOrder, AttributeRequest, Case, FileKey, FileKind, FsError, Name, Node, OpenHow,
    OpenedNode, RelPath, Result, ServerWork, Wait, has_case,
};

/// Outcome of a case-insensitive lookup.
pub(crate) enum CaseLookup {
    /// The path as stored; it probably exists.
    Stored(RelPath),
    /// The path that it would have if it existed. Only the backend can tell whether the caller
    /// may know that.
    Absent(RelPath),
    /// No case variant exists, for this reason.
    Missing(FsError),
    /// Only the backend can tell.
    Unknown,
}

/// Outcome of a directory lookup.
pub(crate) enum DirectoryLookup {
    At(FoundDirectory),
    Missing(FsError),
    Unknown,
}

/// A directory that was found.
pub(crate) struct FoundDirectory {
    pub key: FileKey,
    /// Its path as stored.
    pub path: RelPath,
}

impl CachedVfs {
    /// Finds the stored path of a path without an exact match.
    ///
    /// # Errors
    /// The errors of the lookup of its directories.
    pub(crate) fn find_stored_path(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        wait: Wait,
    ) -> Result<CaseLookup> {
        let Some((parent, name)) = path.split() else {
            return Ok(CaseLookup::Missing(FsError::Stale));
        };
        let directory = match self.directory(actor, &parent, wait)? {
            DirectoryLookup::At(directory) => directory,
            DirectoryLookup::Missing(error) => return Ok(CaseLookup::Missing(error)),
            DirectoryLookup::Unknown => return Ok(CaseLookup::Unknown),
        };
        let stored =
            self.find_stored_name(actor.order(), (directory.key, &directory.path), &name, wait)?;
        match stored {
            CaseLookup::Missing(_) if directory.path != parent => {
                Ok(CaseLookup::Absent(directory.path.join(&name)))
            }
            other => Ok(other),
        }
    }

    /// Looks up a directory in any case.
    ///
    /// # Errors
    /// The errors of the backend, except for missing names.
    pub(crate) fn directory(
        &self,
        actor: Actor<'_>,
        path: &RelPath,
        wait: Wait,
    ) -> Result<DirectoryLookup> {
        let opened = match self.look(actor, path, wait) {
            Err(FsError::NotFound | FsError::PathNotFound) => {
                match self.find_stored_path(actor, path, wait)? {
                    CaseLookup::Stored(stored) | CaseLookup::Absent(stored) => {
                        self.look(actor, &stored, wait)
                    }
                    CaseLookup::Missing(_) => Err(FsError::PathNotFound),
                    CaseLookup::Unknown => return Ok(DirectoryLookup::Unknown),
                }
            }
            other => other,
        };
        match opened {
            Ok(OpenedNode { attributes, path, .. }) if attributes.kind == FileKind::Directory => {
                Ok(DirectoryLookup::At(FoundDirectory { key: attributes.key, path }))
            }
            Ok(_) | Err(FsError::NotFound | FsError::PathNotFound) => {
                Ok(DirectoryLookup::Missing(FsError::PathNotFound))
            }
            Err(error) => Err(error),
        }
    }

    fn look(&self, actor: Actor<'_>, path: &RelPath, wait: Wait) -> Result<OpenedNode> {
        if let Some(kept) = self.cached_directory(actor, path) {
            return Ok(kept.opened);
        }
        let (read, write, no_follow) = (false, false, false);
        let (case, wanted) = (Case::Sensitive, AttributeRequest::default());
        let how = OpenHow { read, write, case, wanted, no_follow, wait };
        self.open_exact(actor, path, how).map(|known| known.opened)
    }

    /// Finds the stored form of a name in a directory.
    ///
    /// # Errors
    /// [`FsError::WouldBlock`] if that needs to wait.
    pub(crate) fn find_stored_name(
        &self,
        order: ArrivalOrder,
        (key, path): (FileKey, &RelPath),
        name: &Name,
        wait: Wait,
    ) -> Result<CaseLookup> {
        let mut may_read = true;
        let mut state = self.state_for(order);
        loop {
            match state.directories.find(key, name.as_bytes()) {
                NameAnswer::Found(found) => {
                    self.counters.names.hit();
                    return Ok(match found {
                        NameMatch::Absent => CaseLookup::Missing(FsError::NotFound),
                        NameMatch::Exact => CaseLookup::Stored(path.join(name)),
                        NameMatch::Other(name) => CaseLookup::Stored(path.join(&name)),
                    });
                }
                NameAnswer::TooMany => break,
                NameAnswer::BeingRead | NameAnswer::Unread if wait == Wait::Never => {
                    return Err(FsError::WouldBlock);
                }
                // The other thread reads as fast as this one could.
                NameAnswer::BeingRead => {
                    state = state.wait(&self.read);
                }
                NameAnswer::Unread => {
                    drop(state);
                    if !std::mem::take(&mut may_read) || !self.read_names(key, path) {
                        break;
                    }
                    state = self.state_for(order);
                }
            }
        }
        self.counters.names.missed();
        Ok(CaseLookup::Unknown)
    }

    /// Reads all names of a directory. False if they cannot be cached.
    fn read_names(&self, key: FileKey, path: &RelPath) -> bool {
        // With the power of the process: a user with search permission may lack read permission.
        // The path may lead to a FIFO or a device by now, which must not be opened for reading.
        let server = Actor::server(ServerWork::FillCache);
        let look = OpenHow { no_follow: false, ..OpenHow::looking(Wait::Allowed) };
        let Ok(looked) = self.inner.open(server, path, look) else { return false };
        if looked.attributes.key != key {
            return false;
        }
        let how = OpenHow { read: true, ..look };
        let Ok(opened) = self.inner.open_node(server, &*looked.node, how) else { return false };
        let mut state = self.drained_state();
        if !self.follow(&mut state, key, &opened.node) {
            return false;
        }
        let begun = state.directories.begin_reading(key);
        drop(state);
        // Otherwise another thread has just begun.
        !begun || DirectoryRead { cache: self, key, index: None, count: 0 }.run(&*opened.node)
    }
}

/// Reading of a directory; its drop ends it, whatever the outcome.
struct DirectoryRead<'a> {
    cache: &'a CachedVfs,
    key: FileKey,
    index: Option<NameIndex>,
    count: usize,
}

impl DirectoryRead<'_> {
    fn run(mut self, directory: &dyn Node) -> bool {
        self.cache.counters.names.missed();
        let hasher = self.cache.drained_state().directories.hasher().clone();
        let mut index = NameIndex::default();
        let mut fits = true;
        let listed = directory.readdir(0, &mut |entry| {
            let name = entry.name.as_bytes();
            let growth = index.growth_bytes(name);
            if growth > 0 {
                fits = self
                    .cache
                    .drained_state()
                    .directories
                    .charge_reading(self.key, index.bytes() + growth);
            }
            if fits {
                index.add(hash_of(&hasher, name), name);
                self.count += 1;
            }
            fits
        });
        let is_whole = matches!(listed, Ok(true));
        if listed.is_err() {
            self.count = 0;
        }
        self.index = is_whole.then_some(index);
        is_whole
    }
}

impl Drop for DirectoryRead<'_> {
    fn drop(&mut self) {
        // Drained: changes during the reading are applied to the result.
        let mut state = self.cache.drained_state();
        state.directories.end_reading(self.key, self.index.take(), self.count);
        state.settle();
        drop(state);
        self.cache.read.notify_all();
    }
}

/// Whether no case variant of the path can exist.
pub(crate) fn has_no_case(path: &RelPath) -> bool {
    !has_case(path.as_bytes())
}
