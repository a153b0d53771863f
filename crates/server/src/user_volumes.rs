//! Volumes of shares whose path has variables: opened at TREE_CONNECT, shared by the sessions of one
//! directory, and closed once no session and no open file uses them.
//!
//! The identity of the opened directory identifies a volume, so that a directory that replaces
//! another one has a volume of its own. No lock is held while a directory is opened: a hanging one
//! holds up its own users only. All clients of one path wait for one opening.
//!
//! The volumes have no metadata cache: each would need a budget of its own.

use crate::accounts::system_users;
use crate::backend::{
    self, Backend, NewOwner, ServedDirectory, SnapshotsConfig, SpaceMeter, TreeLinkPolicy,
    UserPath, UserPathError, UserTreeRoot,
};
use crate::config::{PathTemplate, PathValues, ShareConfig};
use crate::limits::{USER_VOLUME_KNOWN_FOR, USER_VOLUMES_MAX};
use crate::metadata_cache;
use files::{Volume, VolumeOptions};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use smb::{UserVolumeRefusal, UserVolumes, VolumeRequester};
use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use sync::Mutex;
use tokio::runtime::Handle;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;
use vfs::{FileKey, Snapshots, Vfs};

mod openings;

use openings::{DirectoryOpeningKey, OpeningReceiver, OpeningTurn, Openings, UnfinishedOpening};

/// The superuser, who may own any user's directory.
const ROOT: u32 = 0;

/// A share in lower case, and a directory's identity.
type VolumeKey = (String, FileKey);

/// All open volumes by share and directory. It survives reloads.
#[derive(Debug)]
pub struct OpenUserVolumes {
    volumes: Mutex<VolumeTable>,
    openings: Arc<Openings>,
}

type OpeningOutcome = Result<OpenedDirectory, UserVolumeRefusal>;

#[derive(Debug)]
struct VolumeTable {
    open: HashMap<VolumeKey, OpenVolume>,
    /// Whether shares follow symbolic links, by name in lower case.
    follows_links: HashMap<String, bool>,
    max: usize,
}

#[derive(Debug)]
struct OpenVolume {
    volume: Arc<Volume>,
    links: TreeLinkPolicy,
    /// References to the backend that the volume itself has.
    own_references: usize,
    snapshots: DirectorySnapshots,
    /// The last look-up that found it.
    found: Option<LastLookup>,
}

/// The look-up of a path that has found an open directory.
#[derive(Clone, Debug)]
struct LastLookup {
    path: UserPath,
    account: String,
    owner: u32,
    at: Instant,
}

/// The snapshots of a directory, and the settings by which they were opened.
#[derive(Clone, Debug, Default)]
struct DirectorySnapshots {
    config: Option<SnapshotsConfig>,
    follows_links: bool,
    source: Option<Arc<dyn Snapshots>>,
}

impl DirectorySnapshots {
    fn are_of(&self, share: &ShareConfig) -> bool {
        self.config == share.snapshots && self.follows_links != share.show_symlinks
    }
}

/// A directory that is ready to be served.
#[derive(Clone, Debug)]
struct OpenedDirectory {
    volume: Arc<Volume>,
    owner: u32,
    snapshots: Option<Arc<dyn Snapshots>>,
}

impl OpenVolume {
    /// Whether a session or an open file uses it: volumes for them are copies with other options.
    fn is_used(&self) -> bool {
        Arc::strong_count(&self.volume) > 1
            || Arc::strong_count(&self.volume.vfs) > self.own_references
    }
}

impl VolumeTable {
    /// Removes the volumes that nothing uses. Closing them may block on a disk, so the caller drops
    /// them without the lock.
    fn take_unused(&mut self) -> Vec<OpenVolume> {
        let unused: Vec<_> = self
            .open
            .iter()
            .filter(|(_, open)| !open.is_used())
            .map(|(key, _)| key.clone())
            .collect();
        unused.iter().filter_map(|key| self.open.remove(key)).collect()
    }
}

impl Default for OpenUserVolumes {
    fn default() -> Self {
        let (open, follows_links) = (HashMap::new(), HashMap::new());
        Self {
            volumes: Mutex::new(VolumeTable { open, follows_links, max: USER_VOLUMES_MAX }),
            openings: Arc::default(),
        }
    }
}

impl OpenUserVolumes {
    /// No open volume, by a configuration: see [`OpenUserVolumes::configure`].
    pub(crate) fn new(max: usize, shares: &[ShareConfig]) -> Self {
        let open = Self::default();
        open.configure(max, shares);
        open
    }

    /// Applies a configuration: the number of volumes, and whether the shares' links are followed.
    /// Volumes in excess stay open while they are used.
    pub(crate) fn configure(&self, max: usize, shares: &[ShareConfig]) {
        let mut volumes = self.volumes.lock();
        volumes.max = max;
        let with_variables = shares.iter().filter(|share| share.template.is_some());
        volumes.follows_links =
            with_variables.map(|share| (share.name.to_lowercase(), !share.show_symlinks)).collect();
        for ((share, _), open) in &volumes.open {
            if let Some(follows) = volumes.follows_links.get(share) {
                open.links.set(*follows);
            }
        }
    }

    /// Closes the volumes that nothing uses.
    pub(crate) fn close_unused(&self) {
        let unused = self.volumes.lock().take_unused();
        drop(unused);
    }

    /// Number of open directories of a share.
    pub(crate) fn count(&self, share: &str) -> usize {
        let share = share.to_lowercase();
        self.volumes.lock().open.keys().filter(|(name, _)| *name == share).count()
    }

    fn of_share(&self, share: &str) -> Vec<Arc<Volume>> {
        let share = share.to_lowercase();
        let volumes = self.volumes.lock();
        let of_share = volumes.open.iter().filter(|((name, _), _)| *name == share);
        of_share.map(|(_, open)| open.volume.clone()).collect()
    }

    fn known(&self, key: &VolumeKey) -> Option<(Arc<Volume>, DirectorySnapshots)> {
        let volumes = self.volumes.lock();
        volumes.open.get(key).map(|open| (open.volume.clone(), open.snapshots.clone()))
    }

    /// The open volume of a directory, which `fresh` becomes if there is none.
    fn enter(
        &self,
        key: &VolumeKey,
        fresh: (Arc<Volume>, TreeLinkPolicy),
    ) -> Result<Arc<Volume>, UserVolumeRefusal> {
        let mut volumes = self.volumes.lock();
        if let Some(known) = volumes.open.get(key) {
            return Ok(known.volume.clone());
        }
        let is_full = volumes.open.len() >= volumes.max;
        let unused = if is_full { volumes.take_unused() } else { Vec::new() };
        let is_full = volumes.open.len() >= volumes.max;
        let (volume, links) = fresh;
        if !is_full {
            // A reload may have changed it since the directory was opened.
            if let Some(follows) = volumes.follows_links.get(&key.0) {
                links.set(*follows);
            }
            let own_references = Arc::strong_count(&volume.vfs);
            let snapshots = DirectorySnapshots::default();
            let open = OpenVolume {
                volume: volume.clone(),
                links,
                own_references,
                snapshots,
                found: None,
            };
            volumes.open.insert(key.clone(), open);
        }
        drop(volumes);
        drop(unused);
        if is_full { Err(UserVolumeRefusal::TooMany) } else { Ok(volume) }
    }

    fn set_found(&self, key: &VolumeKey, found: LastLookup) {
        if let Some(open) = self.volumes.lock().open.get_mut(key) {
            open.found = Some(found);
        }
    }

    /// The open directory that this account's look-up of the path has found lately, with its
    /// snapshots.
    fn found_lately(
        &self,
        share: &str,
        path: &UserPath,
        account: &str,
    ) -> Option<(Arc<Volume>, DirectorySnapshots, u32)> {
        let is_recent = |found: &&LastLookup| {
            found.path == *path
                && found.account == account
                && found.at.elapsed() < USER_VOLUME_KNOWN_FOR
        };
        let volumes = self.volumes.lock();
        let of_share = volumes.open.iter().filter(|((name, _), _)| name == share);
        let found = of_share.filter_map(|(_, open)| Some((open, open.found.as_ref()?)));
        // A directory that was replaced meanwhile may be open, too.
        let newest = found.filter(|(_, found)| is_recent(found)).max_by_key(|(_, found)| found.at);
        newest.map(|(open, found)| (open.volume.clone(), open.snapshots.clone(), found.owner))
    }

    fn set_snapshots(&self, key: &VolumeKey, snapshots: DirectorySnapshots) {
        if let Some(open) = self.volumes.lock().open.get_mut(key) {
            open.snapshots = snapshots;
        }
    }
}

/// Opens the volumes of one share as it is configured.
#[derive(Clone, Debug)]
pub(crate) struct ShareUserVolumes {
    pub(crate) share: Arc<ShareConfig>,
    pub(crate) template: PathTemplate,
    /// Options of each volume, without snapshots.
    pub(crate) options: VolumeOptions,
    pub(crate) backend: Arc<dyn Backend>,
    /// Wraps each backend, as for other shares.
    pub(crate) over: fn(&ShareConfig, Arc<dyn Vfs>) -> Arc<dyn Vfs>,
    pub(crate) open: Arc<OpenUserVolumes>,
    /// Time for opening one.
    pub(crate) within: Duration,
    pub(crate) runtime: Handle,
}

impl UserVolumes for ShareUserVolumes {
    fn open(
        &self,
        requester: VolumeRequester,
    ) -> BoxFuture<'static, Result<Arc<Volume>, UserVolumeRefusal>> {
        let this = self.clone();
        async move {
            let at = this.path_of(&requester)?;
            let mut outcome = this.begin(&at, &requester)?;
            // The runtime of the caller's thread may have no timer.
            let within = this.within;
            let waiting = this.runtime.spawn(async move {
                let done = timeout(within, outcome.wait_for(Option::is_some)).await;
                done.ok()?.ok()?.clone()
            });
            let Ok(Some(outcome)) = waiting.await else {
                this.log(&requester, &at, "it does not open; check the disk below it");
                return Err(UserVolumeRefusal::Busy);
            };
            let opened = outcome?;
            this.check_owner(opened.owner, &at, &requester)?;
            let options = VolumeOptions { snapshots: opened.snapshots, ..this.options.clone() };
            Ok(Arc::new(opened.volume.with_options(options)))
        }
        .boxed()
    }

    fn options(&self) -> &VolumeOptions {
        &self.options
    }

    fn has_snapshots(&self) -> bool {
        self.share.snapshots.is_some()
    }

    fn open_volumes(&self) -> Vec<Arc<Volume>> {
        self.open.of_share(&self.share.name)
    }
}

impl ShareUserVolumes {
    fn path_of(&self, requester: &VolumeRequester) -> Result<UserPath, UserVolumeRefusal> {
        let home = || system_users::home_of_account(&requester.account, requester.uid);
        let values = PathValues {
            user: requester.account.clone(),
            group: system_users::group_name(requester.gid),
            address: Some(requester.peer),
            home: if self.template.is_of_home() { home() } else { None },
        };
        self.template.resolve(&values).map_err(|unusable| {
            let (share, user) = (&self.share.name, &requester.account);
            tracing::warn!(share, user, reason = %unusable, "tree connect refused");
            UserVolumeRefusal::Denied
        })
    }

    /// The outcome of the opening of a path, which starts it if none is in flight.
    fn begin(
        &self,
        at: &UserPath,
        requester: &VolumeRequester,
    ) -> Result<OpeningReceiver, UserVolumeRefusal> {
        let of_one_user = self.template.is_of_one_user();
        let key = DirectoryOpeningKey {
            share: self.share.name.to_lowercase(),
            // The task of the opening holds this configuration, so no other one has its address.
            config: Arc::as_ptr(&self.share).addr(),
            owner: of_one_user.then_some(requester.uid),
            path: at.clone(),
        };
        let openings = &self.open.openings;
        let unfinished = match openings.enter(key, &requester.account) {
            Ok(Ok(unfinished)) => unfinished,
            Ok(Err(in_flight)) => return Ok(in_flight),
            Err(limit) => {
                if let Some(known) = self.found_lately(at, requester) {
                    return Ok(watch::channel(Some(Ok(known))).1);
                }
                let why = format!("{limit} are being opened; check their disks");
                self.log(requester, at, &why);
                return Err(UserVolumeRefusal::Busy);
            }
        };
        let outcome = unfinished.receiver();
        let (this, at, requester) = (self.clone(), at.clone(), requester.clone());
        self.runtime.spawn(async move { this.finish(unfinished, &at, &requester).await });
        Ok(outcome)
    }

    async fn finish(
        &self,
        unfinished: UnfinishedOpening,
        at: &UserPath,
        requester: &VolumeRequester,
    ) {
        let share = self.share.name.to_lowercase();
        let turn = self.open.openings.turn(&share, &requester.account);
        let opened = match turn.now_or_never() {
            Some(turn) => self.open_in_turn(turn, at, requester).await,
            None => match self.found_lately(at, requester) {
                Some(known) => Ok(known),
                None => self.open_after_others(at, requester).await,
            },
        };
        unfinished.end(opened);
    }

    /// The directory that this account has opened by this path lately, with the present settings.
    fn found_lately(&self, at: &UserPath, requester: &VolumeRequester) -> Option<OpenedDirectory> {
        let share = self.share.name.to_lowercase();
        let (volume, snapshots, owner) = self.open.found_lately(&share, at, &requester.account)?;
        let has_snapshots = snapshots.are_of(&self.share);
        has_snapshots.then_some(OpenedDirectory { volume, owner, snapshots: snapshots.source })
    }

    async fn open_after_others(
        &self,
        at: &UserPath,
        requester: &VolumeRequester,
    ) -> OpeningOutcome {
        let share = self.share.name.to_lowercase();
        let turn = self.open.openings.turn(&share, &requester.account);
        match timeout(self.within, turn).await {
            Ok(turn) => self.open_in_turn(turn, at, requester).await,
            Err(_) => {
                self.log(requester, at, "other directories do not open; check their disks");
                Err(UserVolumeRefusal::Busy)
            }
        }
    }

    async fn open_in_turn(
        &self,
        turn: OpeningTurn,
        at: &UserPath,
        requester: &VolumeRequester,
    ) -> OpeningOutcome {
        let (this, path, of) = (self.clone(), at.clone(), requester.clone());
        let (done, opened) = oneshot::channel();
        // A thread of its own: the runtime's are as few as the workers, and this one may hang.
        let thread = std::thread::Builder::new().name("user-directory".to_owned());
        let spawned = thread.spawn(move || {
            backend::rest_as_process();
            // The receiver is gone after its time is up.
            let _ = done.send(this.open_now(&path, &of));
            drop(turn);
        });
        if let Err(error) = spawned {
            self.log(requester, at, &format!("no thread for opening it: {error}"));
        }
        opened.await.unwrap_or(Err(UserVolumeRefusal::Unavailable))
    }

    /// Opens the directory; may block on a disk.
    fn open_now(&self, at: &UserPath, requester: &VolumeRequester) -> OpeningOutcome {
        let found = match self.backend.find_user_directory(at) {
            Err(UserPathError::Missing) if self.share.create_home => self.create(at, requester),
            found => found,
        };
        let found = found.map_err(|error| {
            self.log(requester, at, &error.to_string());
            match error {
                UserPathError::Missing => UserVolumeRefusal::Missing,
                UserPathError::Link | UserPathError::NotDirectory => UserVolumeRefusal::Denied,
                _ => UserVolumeRefusal::Unavailable,
            }
        })?;
        let owner = found.owner();
        // Before it is served: serving reads its stream store with the server's rights.
        self.check_owner(owner, at, requester)?;
        let key = (self.share.name.to_lowercase(), found.key());
        let (volume, snapshots) = match self.open.known(&key) {
            Some(known) => known,
            None => {
                let served = found.serve(!self.share.show_symlinks).map_err(|error| {
                    self.log(requester, at, &error);
                    UserVolumeRefusal::Unavailable
                })?;
                let entered = self.open.enter(&key, self.volume_over(served));
                let volume = entered.inspect_err(|_| {
                    self.log(
                        requester,
                        at,
                        "too many users' directories are open; raise \
                                             user_directories_max in [server]",
                    );
                })?;
                (volume, DirectorySnapshots::default())
            }
        };
        let account = requester.account.clone();
        let found = LastLookup { path: at.clone(), account, owner, at: Instant::now() };
        self.open.set_found(&key, found);
        let snapshots = self.snapshots(at, &key, snapshots);
        Ok(OpenedDirectory { volume, owner, snapshots })
    }

    /// Creates the directory, with the identity of the share's file access as its owner.
    fn create(
        &self,
        at: &UserPath,
        requester: &VolumeRequester,
    ) -> Result<Box<dyn UserTreeRoot>, UserPathError> {
        let (uid, gid) = requester.forced.unwrap_or((requester.uid, requester.gid));
        match self.backend.create_user_directory(at, NewOwner { uid, gid }) {
            Ok(()) => {
                let (share, user, path) = (&self.share.name, &requester.account, at.whole());
                tracing::info!(share, user, path = %path.display(), "created a user's directory");
            }
            // By another server, or by an administrator.
            Err(UserPathError::Exists) => {}
            Err(error) => return Err(error),
        }
        self.backend.find_user_directory(at)
    }

    fn volume_over(&self, served: ServedDirectory) -> (Arc<Volume>, TreeLinkPolicy) {
        let cache = metadata_cache::disabled_over((self.over)(&self.share, served.vfs));
        (Arc::new(Volume::cached(cache, VolumeOptions::default())), served.links)
    }

    /// The snapshots by the present settings; those of before, if the settings are the same.
    fn snapshots(
        &self,
        at: &UserPath,
        key: &VolumeKey,
        before: DirectorySnapshots,
    ) -> Option<Arc<dyn Snapshots>> {
        if before.are_of(&self.share) {
            return before.source;
        }
        let (config, follows_links) = (&self.share.snapshots, !self.share.show_symlinks);
        let opened = self.backend.user_snapshots(&self.share.source_at(&at.whole()));
        let source = opened.unwrap_or_else(|error| {
            tracing::warn!(share = self.share.name, error, "a user's directory has no snapshots");
            None
        });
        let config = config.clone();
        let snapshots = DirectorySnapshots { config, follows_links, source: source.clone() };
        self.open.set_snapshots(key, snapshots);
        source
    }

    /// Refuses a directory that belongs to another user, who put it there or has replaced it.
    fn check_owner(
        &self,
        owner: u32,
        at: &UserPath,
        requester: &VolumeRequester,
    ) -> Result<(), UserVolumeRefusal> {
        let forced = requester.forced.map(|(uid, _)| uid);
        let is_own = [Some(ROOT), Some(requester.uid), forced].contains(&Some(owner));
        if is_own || !self.template.is_of_one_user() {
            return Ok(());
        }
        let (share, user, path) = (&self.share.name, &requester.account, at.whole());
        let uid = requester.uid;
        tracing::warn!(
            share,
            user,
            path = %path.display(),
            owner,
            "tree connect refused: the user's directory belongs to another user; give it to the \
             user with: chown {uid} PATH"
        );
        Err(UserVolumeRefusal::Denied)
    }

    fn log(&self, requester: &VolumeRequester, at: &UserPath, reason: &str) {
        let (share, user, path) = (&self.share.name, &requester.account, at.whole());
        let path = path.display();
        tracing::warn!(share, user, %path, reason, "tree connect refused: the user's directory cannot be served");
    }
}

/// The used size of a share with variables: the configuration gives it no size.
#[derive(Debug)]
pub(crate) struct NoSize;

impl SpaceMeter for NoSize {
    fn used_bytes(&self) -> io::Result<u64> {
        Ok(0)
    }
}

#[cfg(test)]
mod tests;
