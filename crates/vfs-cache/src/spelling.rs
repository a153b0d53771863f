//! How a path is spelt that is not there as it was asked for.

use crate::directories::Answer;
use crate::index::{NameIndex, Spelling, hash_of};
use crate::tree::CachedVfs;
use std::sync::{Arc, PoisonError};
use vfs::{
    Case, FileKey, FileKind, FsError, Identity, Name, Node, OpenHow, Opened, RelPath, Result, Wait,
    Wanted, has_case,
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
    pub node: Arc<dyn Node>,
    pub key: FileKey,
    /// As it is spelt.
    pub path: RelPath,
}

impl CachedVfs {
    /// How a path is spelt that is not there byte for byte.
    ///
    /// # Errors
    /// Those of looking for its directories.
    pub(crate) fn spell(&self, who: &Identity, path: &RelPath, wait: Wait) -> Result<Spelt> {
        let Some((parent, name)) = path.split() else { return Ok(Spelt::Missing(FsError::Stale)) };
        let directory = match self.directory(who, &parent, wait)? {
            Place::At(directory) => directory,
            Place::Missing(error) => return Ok(Spelt::Missing(error)),
            Place::Unknown => return Ok(Spelt::Unknown),
        };
        let spelt = self.spell_name(&directory, &name, wait)?;
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
    pub(crate) fn directory(&self, who: &Identity, path: &RelPath, wait: Wait) -> Result<Place> {
        let opened = match self.look(who, path, wait) {
            Err(FsError::NotFound | FsError::PathNotFound) => match self.spell(who, path, wait)? {
                Spelt::As(spelt) | Spelt::Absent(spelt) => self.look(who, &spelt, wait),
                Spelt::Missing(_) => Err(FsError::PathNotFound),
                Spelt::Unknown => return Ok(Place::Unknown),
            },
            other => other,
        };
        match opened {
            Ok(Opened { node, attributes, path }) if attributes.kind == FileKind::Directory => {
                Ok(Place::At(Directory { node, key: attributes.key, path }))
            }
            Ok(_) | Err(FsError::NotFound | FsError::PathNotFound) => {
                Ok(Place::Missing(FsError::PathNotFound))
            }
            Err(error) => Err(error),
        }
    }

    fn look(&self, who: &Identity, path: &RelPath, wait: Wait) -> Result<Opened> {
        let how = OpenHow {
            read: false,
            write: false,
            case: Case::Sensitive,
            wanted: Wanted::default(),
            no_follow: false,
            wait,
        };
        self.inner.open(who, path, how)
    }

    /// How a name is spelt in a directory.
    ///
    /// # Errors
    /// [`FsError::WouldBlock`] if that cannot be told without waiting.
    pub(crate) fn spell_name(
        &self,
        directory: &Directory,
        name: &Name,
        wait: Wait,
    ) -> Result<Spelt> {
        let key = directory.key;
        let mut may_read = true;
        let mut state = self.fresh();
        loop {
            match state.find(key, name.as_bytes()) {
                Answer::Found(found) => {
                    self.counters.names.hit();
                    return Ok(match found {
                        Spelling::Absent => Spelt::Missing(FsError::NotFound),
                        Spelling::Exact => Spelt::As(directory.path.join(name)),
                        Spelling::Other(name) => Spelt::As(directory.path.join(&name)),
                    });
                }
                Answer::TooMany => break,
                Answer::BeingRead | Answer::Unread if wait == Wait::Never => {
                    return Err(FsError::WouldBlock);
                }
                // Whoever reads it is as fast as we would be.
                Answer::BeingRead => {
                    state = self.read.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                Answer::Unread => {
                    drop(state);
                    if !std::mem::take(&mut may_read) || !self.read_names(directory) {
                        break;
                    }
                    state = self.fresh();
                }
            }
        }
        self.counters.names.missed();
        Ok(Spelt::Unknown)
    }

    /// Reads all names of a directory; false if they cannot be kept.
    fn read_names(&self, directory: &Directory) -> bool {
        let key = directory.key;
        let Some(feed) = self.feed() else { return false };
        let mut state = self.fresh();
        if !state.knows(key) {
            match feed.follow(&*directory.node) {
                Ok(follow) => state.handle_followed(key, follow),
                Err(error) => {
                    tracing::debug!(%error, "names of a directory are not kept");
                    return false;
                }
            }
        }
        let begun = state.begin_reading(key);
        drop(state);
        if !begun {
            // Somebody else has just begun.
            return true;
        }
        let reading = Reading { cache: self, key, index: None, count: 0 };
        reading.run(&directory.path)
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
    fn run(mut self, path: &RelPath) -> bool {
        self.cache.counters.names.missed();
        let how = OpenHow {
            read: true,
            write: false,
            case: Case::Sensitive,
            wanted: Wanted::default(),
            no_follow: false,
            wait: Wait::Allowed,
        };
        // With the power of the process: who may look names up need not be one who may list.
        let Ok(opened) = self.cache.inner.open(&Identity::root(), path, how) else { return false };
        if opened.attributes.key != self.key {
            return false;
        }
        let hasher = self.cache.fresh().hasher().clone();
        let mut index = NameIndex::default();
        let mut fits = true;
        let listed = opened.node.list(0, &mut |entry| {
            let name = entry.name.as_bytes();
            let growth = index.growth_bytes(name);
            if growth > 0 {
                fits = self.cache.fresh().charge_reading(self.key, index.bytes() + growth);
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
        self.cache.fresh().end_reading(self.key, self.index.take(), self.count);
        self.cache.read.notify_all();
    }
}

/// Whether no other spelling of a path can exist.
pub(crate) fn has_no_case(path: &RelPath) -> bool {
    !has_case(path.as_bytes())
}
