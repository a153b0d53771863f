//! Volumes of shares whose path has variables: opened at TREE_CONNECT, shared by the sessions of one
//! directory, and closed once no session and no open file uses them.
//!
//! The volumes have no metadata cache: each would need a budget of its own.

use crate::accounts::system_users;
use crate::backend::{Backend, OpenedBackend, SpaceMeter};
use crate::config::{PathTemplate, PathValues, ShareConfig};
use crate::limits::{USER_VOLUME_WITHIN, USER_VOLUMES_MAX, USER_VOLUMES_OPENING_MAX};
use crate::metadata_cache;
use files::{Volume, VolumeOptions};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use smb::{UserVolumeRefusal, UserVolumes, VolumeRequester};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use sync::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use vfs::Vfs;

/// Attempts to enter a volume while other sessions enter and close the same directory.
const ATTEMPTS_MAX: usize = 4;

/// All open volumes by share and directory. It survives reloads.
#[derive(Debug)]
pub struct OpenUserVolumes {
    volumes: Mutex<BTreeMap<(String, PathBuf), OpenVolume>>,
    /// Directories that are being opened, which may hang.
    opening: Arc<Semaphore>,
}

#[derive(Debug)]
struct OpenVolume {
    volume: Arc<Volume>,
    /// References to the backend that the volume itself has.
    own_references: usize,
}

impl OpenVolume {
    /// Whether a session or an open file uses it: volumes for them are copies with other options.
    fn is_used(&self) -> bool {
        Arc::strong_count(&self.volume) > 1
            || Arc::strong_count(&self.volume.vfs) > self.own_references
    }
}

impl Default for OpenUserVolumes {
    fn default() -> Self {
        let opening = Arc::new(Semaphore::new(USER_VOLUMES_OPENING_MAX));
        Self { volumes: Mutex::default(), opening }
    }
}

impl OpenUserVolumes {
    /// Closes the volumes that nothing uses.
    pub(crate) fn close_unused(&self) {
        let mut closed = Vec::new();
        let mut volumes = self.volumes.lock();
        let unused: Vec<_> = volumes
            .iter()
            .filter(|(_, open)| !open.is_used())
            .map(|(key, _)| key.clone())
            .collect();
        closed.extend(unused.iter().filter_map(|key| volumes.remove(key)));
        // Closing may block on a disk.
        drop(volumes);
    }

    /// Number of open directories of a share.
    pub(crate) fn count(&self, share: &str) -> usize {
        let share = share.to_lowercase();
        self.volumes.lock().keys().filter(|(name, _)| *name == share).count()
    }

    /// The open volume with the root of `fresh`, which becomes it if there is none.
    fn enter(
        &self,
        key: &(String, PathBuf),
        fresh: &Arc<Volume>,
    ) -> Result<Arc<Volume>, UserVolumeRefusal> {
        for _ in 0..ATTEMPTS_MAX {
            let known = self.volumes.lock().get(key).map(|open| open.volume.clone());
            // Compared without the lock, since the look at a root may hang.
            if let Some(known) = &known
                && known.has_same_root(fresh)
            {
                return Ok(known.clone());
            }
            self.close_unused();
            let mut volumes = self.volumes.lock();
            let present = volumes.get(key).map(|open| &open.volume);
            let is_unchanged = match (&known, present) {
                (Some(known), Some(present)) => Arc::ptr_eq(known, present),
                (_, present) => present.is_none(),
            };
            if !is_unchanged {
                continue;
            }
            if present.is_none() && volumes.len() >= USER_VOLUMES_MAX {
                return Err(UserVolumeRefusal::TooMany);
            }
            let own_references = Arc::strong_count(&fresh.vfs);
            let open = OpenVolume { volume: fresh.clone(), own_references };
            let replaced = volumes.insert(key.clone(), open);
            drop(volumes);
            drop(replaced);
            return Ok(fresh.clone());
        }
        Err(UserVolumeRefusal::Unavailable)
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
    pub(crate) runtime: Handle,
}

impl UserVolumes for ShareUserVolumes {
    fn open(
        &self,
        requester: VolumeRequester,
    ) -> BoxFuture<'static, Result<Arc<Volume>, UserVolumeRefusal>> {
        let this = self.clone();
        async move {
            let (share, user) = (this.share.name.clone(), requester.account.clone());
            let (opening, runtime) = (this.open.opening.clone(), this.runtime.clone());
            let work = async move {
                // In turn, so that a client with many requests delays others and refuses nobody.
                let permit = opening.acquire_owned().await;
                let work = tokio::task::spawn_blocking(move || {
                    let opened = this.open_now(&requester);
                    drop(permit);
                    opened
                });
                work.await
            };
            // The runtime of the caller's thread may have no timer.
            let within =
                runtime.spawn(async move { tokio::time::timeout(USER_VOLUME_WITHIN, work).await });
            match within.await {
                Ok(Ok(Ok(opened))) => opened,
                _ => {
                    tracing::warn!(
                        share,
                        user,
                        "tree connect refused: the user's directory does \
                                                 not open; check the disk below the share's path"
                    );
                    Err(UserVolumeRefusal::Unavailable)
                }
            }
        }
        .boxed()
    }
}

impl ShareUserVolumes {
    /// Opens the directory; may block on a disk.
    fn open_now(&self, requester: &VolumeRequester) -> Result<Arc<Volume>, UserVolumeRefusal> {
        let (share, user) = (&self.share.name, &requester.account);
        let values = PathValues {
            user: user.clone(),
            group: system_users::group_name(requester.gid),
            address: Some(requester.peer),
        };
        let path = self.template.resolve(&values).map_err(|unusable| {
            tracing::warn!(share, user, reason = %unusable, "tree connect refused");
            UserVolumeRefusal::Denied
        })?;
        let source = self.share.source_at(&path);
        if let Some(problem) = self.backend.find_problem(&source) {
            tracing::warn!(
                share,
                user,
                reason = problem,
                "tree connect refused: the user has no \
                                                          directory"
            );
            return Err(UserVolumeRefusal::Missing);
        }
        let OpenedBackend { vfs, snapshots, .. } = self.backend.open(&source).map_err(|error| {
            tracing::warn!(share, user, path = %path.display(), error, "tree connect refused: \
                                                            the user's directory cannot be opened");
            UserVolumeRefusal::Unavailable
        })?;
        let cache = metadata_cache::disabled_over((self.over)(&self.share, vfs));
        let fresh = Arc::new(Volume::cached(cache, VolumeOptions::default()));
        let volume = self.open.enter(&self.key(&path), &fresh).inspect_err(|_| {
            tracing::warn!(
                share,
                user,
                max = USER_VOLUMES_MAX,
                "tree connect refused: too many \
                                                                 users' directories are open"
            );
        })?;
        Ok(Arc::new(volume.with_options(VolumeOptions { snapshots, ..self.options.clone() })))
    }

    fn key(&self, path: &Path) -> (String, PathBuf) {
        (self.share.name.to_lowercase(), path.to_owned())
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
mod tests {
    use super::*;
    use vfs::memory::{MemoryOptions, MemoryVfs, StillClock};

    /// A volume whose root differs from those with other serial numbers.
    fn fresh(serial: usize) -> Arc<Volume> {
        let clock = Arc::new(StillClock::default());
        let options = MemoryOptions { serial: serial as u64, ..MemoryOptions::default() };
        let vfs = Arc::new(MemoryVfs::new(options, clock));
        Arc::new(Volume::cached(metadata_cache::disabled_over(vfs), VolumeOptions::default()))
    }

    fn key(number: usize) -> (String, PathBuf) {
        ("homes".into(), format!("/home/{number}").into())
    }

    #[test]
    fn volume_is_closed_once_its_copies_are_gone() {
        let open = OpenUserVolumes::default();
        let volume = open.enter(&key(1), &fresh(1)).unwrap();
        let used = volume.with_options(VolumeOptions::default());
        drop(volume);
        open.close_unused();
        assert_eq!((open.count("HOMES"), open.count("data")), (1, 0));
        drop(used);
        open.close_unused();
        assert_eq!(open.count("homes"), 0);
    }

    #[test]
    fn same_directory_has_one_volume() {
        let open = OpenUserVolumes::default();
        let first = open.enter(&key(1), &fresh(1)).unwrap();
        let again = Arc::new(first.with_options(VolumeOptions::default()));
        assert!(Arc::ptr_eq(&first, &open.enter(&key(1), &again).unwrap()));
        // Another directory stands at the path by now.
        let other = open.enter(&key(1), &fresh(2)).unwrap();
        assert!(!Arc::ptr_eq(&first, &other) && open.count("homes") == 1);
    }

    #[test]
    fn number_of_open_volumes_is_bounded() {
        let open = OpenUserVolumes::default();
        let enter = |number| open.enter(&key(number), &fresh(number));
        let used: Vec<_> = (0..USER_VOLUMES_MAX).map(|number| enter(number).unwrap()).collect();
        let refused = enter(USER_VOLUMES_MAX).unwrap_err();
        assert_eq!(refused, UserVolumeRefusal::TooMany);
        drop(used);
        assert!(enter(USER_VOLUMES_MAX).is_ok(), "unused ones are closed");
    }
}
