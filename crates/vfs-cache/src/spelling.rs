//! How a path is spelt that is not there as it was asked for.

use crate::directories::Answer;
use crate::index::{NameIndex, Spelling, hash_of};
use crate::tree::CachedVfs;
use vfs::{
    Actor, ArrivalOrder, AttributeRequest, Case, FileKey, FileKind, FsError, Name, Node, OpenHow,
    OpenedNode, RelPath, Result, ServerWork, Wait, has_case,
};

/// A path as far as it is known.
pub(crate) enum Spelt {
    /// This is how it is spelt, and it may well be there.
    As(RelPath),
    /// It would be spelt like this if it were there. Whether the caller may know that
    /// it is not only the backend can tell.
    Absent(RelPath),
    /// It is not there, in no case; why not.
    Missing(FsError),
    /// Only the backend can tell.
    Unknown,
}

/// A directory as far as it is known.
pub(crate) enum Place {
    At(Directory),
    Missing(FsError),
    Unknown,
}

/// A directory that is open.
pub(crate) struct Directory {
    pub key: FileKey,
    /// As it is spelt.
    pub path: RelPath,
}

impl CachedVfs {
    /// How a path is spelt that is not there byte for byte.
    ///
    /// # Errors
    /// Those of looking for its directories.
    pub(crate) fn spell(&self, who: Actor<'_>, path: &RelPath, wait: Wait) -> Result<Spelt> {
        let Some((parent, name)) = path.split() else { return Ok(Spelt::Missing(FsError::Stale)) };
        let directory = match self.directory(who, &parent, wait)? {
            Place::At(directory) => directory,
            Place::Missing(error) => return Ok(Spelt::Missing(error)),
            Place::Unknown => return Ok(Spelt::Unknown),
        };
        let spelt = self.spell_name(who.order(), (directory.key, &directory.path), &name, wait)?;
        match spelt {
            Spelt::Missing(_) if directory.path != parent => {
                Ok(Spelt::Absent(directory.path.join(&name)))
            }
            other => Ok(other),
        }
    }

    /// Opens a directory for looking, however it is spelt.
    ///
    /// # Errors
    /// Those of the backend, but for what is not there.
    pub(crate) fn directory(&self, who: Actor<'_>, path: &RelPath, wait: Wait) -> Result<Place> {
        let opened = match self.look(who, path, wait) {
            Err(FsError::NotFound | FsError::PathNotFound) => match self.spell(who, path, wait)? {
                Spelt::As(spelt) | Spelt::Absent(spelt) => self.look(who, &spelt, wait),
                Spelt::Missing(_) => Err(FsError::PathNotFound),
                Spelt::Unknown => return Ok(Place::Unknown),
            },
            other => other,
        };
        match opened {
            Ok(OpenedNode { attributes, path, .. }) if attributes.kind == FileKind::Directory => {
                Ok(Place::At(Directory { key: attributes.key, path }))
            }
            Ok(_) | Err(FsError::NotFound | FsError::PathNotFound) => {
                Ok(Place::Missing(FsError::PathNotFound))
            }
            Err(error) => Err(error),
        }
    }

    fn look(&self, who: Actor<'_>, path: &RelPath, wait: Wait) -> Result<OpenedNode> {
        if let Some(kept) = self.kept_directory(who, path) {
            return Ok(kept.opened);
        }
        let (read, write, no_follow) = (false, false, false);
        let (case, wanted) = (Case::Sensitive, AttributeRequest::default());
        let how = OpenHow { read, write, case, wanted, no_follow, wait };
        self.open_exact(who, path, how).map(|known| known.opened)
    }

    /// How a name is spelt in a directory.
    ///
    /// # Errors
    /// [`FsError::WouldBlock`] if that cannot be told without waiting.
    pub(crate) fn spell_name(
        &self,
        order: ArrivalOrder,
        (key, path): (FileKey, &RelPath),
        name: &Name,
        wait: Wait,
    ) -> Result<Spelt> {
        let mut may_read = true;
        let mut state = self.fresh(order);
        loop {
            match state.directories.find(key, name.as_bytes()) {
                Answer::Found(found) => {
                    self.counters.names.hit();
                    return Ok(match found {
                        Spelling::Absent => Spelt::Missing(FsError::NotFound),
                        Spelling::Exact => Spelt::As(path.join(name)),
                        Spelling::Other(name) => Spelt::As(path.join(&name)),
                    });
                }
                Answer::TooMany => break,
                Answer::BeingRead | Answer::Unread if wait == Wait::Never => {
                    return Err(FsError::WouldBlock);
                }
                // Whoever reads it is as fast as we would be.
                Answer::BeingRead => {
                    state = state.wait(&self.read);
                }
                Answer::Unread => {
                    drop(state);
                    if !std::mem::take(&mut may_read) || !self.read_names(key, path) {
                        break;
                    }
                    state = self.fresh(order);
                }
            }
        }
        self.counters.names.missed();
        Ok(Spelt::Unknown)
    }

    /// Reads all names of a directory; false if they cannot be kept.
    fn read_names(&self, key: FileKey, path: &RelPath) -> bool {
        // With the power of the process: who may look names up need not be one who may list. The
        // path may lead to a pipe or a device by now, which must not be opened to be read.
        let server = Actor::server(ServerWork::FillCache);
        let look = OpenHow { no_follow: false, ..OpenHow::looking(Wait::Allowed) };
        let Ok(looked) = self.inner.open(server, path, look) else { return false };
        if looked.attributes.key != key {
            return false;
        }
        let how = OpenHow { read: true, ..look };
        let Ok(opened) = self.inner.open_node(server, &*looked.node, how) else { return false };
        let mut state = self.present();
        if !self.follow(&mut state, key, &opened.node) {
            return false;
        }
        let begun = state.directories.begin_reading(key);
        drop(state);
        // If not, somebody else has just begun.
        !begun || Reading { cache: self, key, index: None, count: 0 }.run(&*opened.node)
    }
}

/// A directory that is being read. However that ends, it ends.
struct Reading<'a> {
    cache: &'a CachedVfs,
    key: FileKey,
    index: Option<NameIndex>,
    count: usize,
}

impl Reading<'_> {
    fn run(mut self, directory: &dyn Node) -> bool {
        self.cache.counters.names.missed();
        let hasher = self.cache.present().directories.hasher().clone();
        let mut index = NameIndex::default();
        let mut fits = true;
        let listed = directory.list(0, &mut |entry| {
            let name = entry.name.as_bytes();
            let growth = index.growth_bytes(name);
            if growth > 0 {
                fits = self
                    .cache
                    .present()
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

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        // Drained: what happened while it was read is waiting to be put in.
        let mut state = self.cache.present();
        state.directories.end_reading(self.key, self.index.take(), self.count);
        state.settle();
        drop(state);
        self.cache.read.notify_all();
    }
}

/// Whether no other spelling of a path can exist.
pub(crate) fn has_no_case(path: &RelPath) -> bool {
    !has_case(path.as_bytes())
}
