//! Opens that outlive the process: what must be known of one, and how it is
//! made again before anybody else opens anything.

use crate::caching::{CacheHolder, CacheKeyWish, CacheWish};
use crate::context::RequestContext;
use crate::open_file::{OpenFile, OpenParts};
use crate::server_work::{LOCATE, WANTED};
use crate::table::{Doomed, Entered, Entry, FileState, NotEntered, OpenName};
use crate::{Absence, Access, Caller, OpenId, RequestFiles, Semantics, Share, Volume};
use grants::{CacheKey, CacheState, Caching, OpenWish, RangeLock};
use limits::{Account, Holder};
use std::sync::Arc;
use vfs::{
    Case, FileKind, FsError, Node, NodeHandle, OpenHow, Opened, RelPath, Result, Timestamp, Wait,
    Wanted,
};

/// Which file an open is of, as a later process knows it. The device number is no part of it: it
/// may be another one after a restart of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileIdentity {
    /// The number of the inode.
    pub inode: u64,
    /// When the file was created, if the file system knows: another may get its number.
    pub born: Option<Timestamp>,
    /// See [`vfs::Vfs::lasting_id`].
    pub lasting: Option<NodeHandle>,
}

impl FileIdentity {
    /// That of a file of `volume`.
    fn of(volume: &Volume, node: &dyn Node, inode: u64, born: Option<Timestamp>) -> Self {
        Self { inode, born, lasting: volume.vfs.lasting_id(node) }
    }

    /// Whether both are of one file, as far as both times told.
    fn is_same(&self, other: &Self) -> bool {
        let is_lasting = match (&self.lasting, &other.lasting) {
            (Some(one), Some(other)) => one == other,
            _ => true,
        };
        is_lasting && self.inode == other.inode && self.born == other.born
    }
}

/// What must be known to make an open again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenFacts {
    /// Which file.
    pub identity: FileIdentity,
    /// Where it is.
    pub path: RelPath,
    /// Where it may be instead: renames were in flight. At most [`crate::FURTHER_PATHS_MAX`].
    pub further_paths: Vec<RelPath>,
    /// Rights that were granted.
    pub granted: Access,
    /// What is tolerated of others.
    pub share: Share,
    /// Whose customs it follows.
    pub semantics: Semantics,
    /// The file vanishes when this open is closed.
    pub delete_on_close: bool,
    /// It is marked to vanish already.
    pub delete_pending: bool,
    /// What the client keeps to itself, and from where it counts changes of that.
    pub caching: Caching,
    /// See [`CacheState::epoch`].
    pub epoch: u16,
    /// By which key, if it does that for several opens.
    pub cache_key: Option<CacheKey>,
    /// The key under which it keeps the directory that the file is in.
    pub parent_key: Option<[u8; 16]>,
    /// Its byte ranges.
    pub locks: Vec<RangeLock>,
}

impl OpenFile {
    /// Which file it is of, which was created at `born`.
    #[must_use]
    pub fn identity(&self, born: Option<Timestamp>) -> FileIdentity {
        FileIdentity::of(self.volume(), &**self.present(), self.key().inode, born)
    }

    /// What must be known to make it again; none for a stream, which cannot be.
    #[must_use]
    pub fn facts(&self, identity: &FileIdentity) -> Option<OpenFacts> {
        if self.name.stream.is_some() {
            return None;
        }
        // Names in flight are read first: a rename that ends meanwhile is seen by one of both looks.
        let mut further_paths = self.table.names_in_flight.of(&self.name);
        let path = self.path();
        further_paths.retain(|further| *further != path);
        let held = self.state.look();
        let kept = held.grants.caches.lasting(self.cache_owner());
        Some(OpenFacts {
            identity: identity.clone(),
            path,
            further_paths,
            granted: self.granted(),
            share: self.share(),
            semantics: self.semantics(),
            delete_on_close: self.deletes_on_close(),
            delete_pending: held.grants.is_delete_pending(self.name.link),
            caching: kept.has,
            epoch: kept.epoch,
            cache_key: self.key,
            parent_key: self.parent_key,
            locks: held.grants.locks.of(self.id).collect(),
        })
    }
}

impl RequestFiles {
    /// Makes an open again as it was, whatever `caller` might be granted now: at the first of its
    /// paths that leads to its file, or where its handle does. What
    /// its client kept is brought back by [`RequestFiles::restore_caching`]; under a key
    /// `holder` is who is told of breaks, if nobody is yet. Its byte ranges are charged to `user`.
    ///
    /// # Errors
    /// [`FsError::Stale`] if other files are there now; those of opening it;
    /// [`FsError::ShareViolation`] and [`FsError::LockNotGranted`] if another open
    /// that was made again forbids it.
    pub fn restore(
        &self,
        volume: &Arc<Volume>,
        caller: &Arc<Caller>,
        facts: &OpenFacts,
        holder: &Arc<dyn CacheHolder>,
        user: &Holder,
    ) -> Result<Arc<OpenFile>> {
        let opened = find_again(volume, caller, facts)?;
        let attributes = &opened.attributes;
        let is_directory = attributes.kind == FileKind::Directory;
        let entry = Entry {
            key: attributes.key,
            is_directory,
            size_bytes: attributes.size_bytes,
            volume,
            path: &opened.path,
            only_link: is_directory || attributes.links <= 1,
        };
        let id = self.new_open_id();
        let wish = OpenWish {
            only_link: entry.only_link,
            delete_on_close: facts.delete_on_close,
            posix: facts.semantics == Semantics::Posix,
            ..OpenWish::new(id, facts.granted, facts.share)
        };
        let cache = facts.cache_key.map(|key| {
            let parent = facts.parent_key;
            let key = CacheKeyWish { key, epoch: facts.epoch, parent, of_directories: true };
            CacheWish { wanted: Caching::NONE, key: Some(key), holder: holder.clone() }
        });
        let Entered { state, name, key, .. } = self
            .table
            .open(&self.context, &entry, wish, cache.as_ref())
            .map_err(|refusal| match refusal {
                NotEntered::Refused(error) => error,
                NotEntered::Breaking(_) => FsError::ShareViolation,
            })?;
        let account = self.lock_ranges.account(user);
        let parts = (&*state, &name, id);
        if let Err(error) = hold_again(&self.context, parts, caller, facts, &account) {
            // It never came to be, so nothing is deleted by its end.
            drop(self.table.close(&self.context, &state, id, false));
            return Err(error);
        }
        let open = OpenFile::new(OpenParts {
            id,
            node: opened.node,
            state,
            name,
            hold: None,
            caller: caller.clone(),
            granted: facts.granted,
            share: facts.share,
            delete_on_close: facts.delete_on_close,
            semantics: facts.semantics,
            of_object: false,
            key,
            parent_key: facts.parent_key,
            table: self.table.clone(),
        });
        open.note_recorded();
        Ok(Arc::new(open))
    }

    /// Gives an open that was made again what its client kept, as far as the other opens
    /// leave it: after all of them are there. `holder` is told of breaks, if nobody
    /// is yet.
    pub fn restore_caching(
        &self,
        open: &OpenFile,
        facts: &OpenFacts,
        holder: Arc<dyn CacheHolder>,
    ) {
        let had = CacheState { has: facts.caching, is_breaking: false, epoch: facts.epoch };
        let mut held = open.state.lock(&self.context);
        held.grants.restore_caching(open.id, had);
        let owner = open.cache_owner();
        if held.grants.caches.of(owner) != Caching::NONE {
            held.keep_holder(owner, &holder);
        }
    }

    /// The client of an open goes away for a while, or is back: see
    /// [`grants::FileGrants::set_away`].
    pub fn set_away(&self, open: &OpenFile, absence: Option<Absence>) {
        open.state.lock(&self.context).grants.set_away(open.id, absence);
    }
}

/// Opens the file of `facts`. What is at its paths may be others' by now; the error is that of the
/// first path.
fn find_again(volume: &Volume, caller: &Caller, facts: &OpenFacts) -> Result<Opened> {
    let who = caller.identity.actor();
    let open_at = |path: &RelPath| {
        let opened = volume.vfs.open(who, path, opened_again(volume, facts))?;
        let attributes = &opened.attributes;
        let inode = attributes.key.inode;
        let found = FileIdentity::of(volume, &*opened.node, inode, attributes.born);
        if found.is_same(&facts.identity) { Ok(opened) } else { Err(FsError::Stale) }
    };
    let first = match open_at(&facts.path) {
        Ok(opened) => return Ok(opened),
        Err(error) => error,
    };
    if let Some(opened) = facts.further_paths.iter().find_map(|path| open_at(path).ok()) {
        return Ok(opened);
    }
    // A local process has renamed it, or somebody by another share. The kernel may know a name.
    let handle = facts.identity.lasting.as_ref().ok_or(first)?;
    let located = volume.vfs.find(LOCATE, handle, Wanted::default()).map_err(|_| first)?;
    if located.path.is_nameless() {
        return Err(first);
    }
    open_at(&located.path).map_err(|_| first)
}

/// How its file is opened.
fn opened_again(volume: &Volume, facts: &OpenFacts) -> OpenHow {
    let reads = Access::READ_DATA | Access::EXECUTE | Access::APPEND_DATA;
    let writes = Access::WRITE_DATA | Access::APPEND_DATA;
    OpenHow {
        read: facts.granted.intersects(reads),
        write: facts.granted.intersects(writes) && !volume.options.read_only,
        case: Case::Sensitive,
        wanted: WANTED,
        no_follow: true,
        wait: Wait::Allowed,
    }
}

/// The locks, and the mark to vanish.
fn hold_again(
    context: &RequestContext,
    (state, name, id): (&FileState, &Arc<OpenName>, OpenId),
    caller: &Arc<Caller>,
    facts: &OpenFacts,
    account: &Arc<Account>,
) -> Result<()> {
    let mut held = state.lock(context);
    let locked = held.grants.locks.handle_locks(id, &facts.locks);
    locked.map_err(|_| FsError::LockNotGranted)?;
    held.force_range_charge(id, account);
    if facts.delete_pending {
        held.grants.handle_disposition(id, true);
        held.doom(Doomed { name: name.clone(), caller: caller.clone(), parent_key: None });
    }
    Ok(())
}
