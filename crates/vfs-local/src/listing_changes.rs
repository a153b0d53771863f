//! Invalidation of cached listings by inotify(7), in a queue of its own. Watches are one-shot
//! (IN_ONESHOT) and give one event per directory. So the queue does not overflow, and a writer
//! triggers each watch once.
//!
//! The kernel notifies a directory of changes that go through a name in it. This process counts its
//! other changes in one global number ([`crate::unreported_change`]), because they are rare.

use crate::inotify::{add_watch, new_queue, remove_watch};
use crate::local_node::LocalNode;
use crate::unreported_change::unreported_changes;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::inotify::{self, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::mem::MaybeUninit;
use sync::Mutex;
use vfs::{FollowId, FsError, ListingFeed, Node, Result, ServerWork};

/// Bytes read from the queue per call.
const READ_BYTES: usize = 4 * 1024;
/// Maximum number of events per drain: two for each directory that can be followed.
const EVENTS_MAX: usize = 1 << 16;

/// An inotify queue.
#[derive(Debug)]
pub struct LocalListings {
    queue: OwnedFd,
    /// Value of [`unreported_changes`] at the last drain.
    unreported: Mutex<u64>,
}

impl LocalListings {
    /// Creates a queue without watches.
    ///
    /// # Errors
    /// [`vfs::FsError::TooMany`]: the user has reached `fs.inotify.max_user_instances`.
    pub fn new() -> Result<Self> {
        let unreported = Mutex::new(unreported_changes());
        Ok(Self { queue: new_queue()?, unreported })
    }
}

impl ListingFeed for LocalListings {
    fn follow(&self, work: ServerWork, directory: &dyn Node) -> Result<FollowId> {
        // A write through mapped memory is reported when the file is closed.
        let what = WatchFlags::MODIFY
            | WatchFlags::ATTRIB
            | WatchFlags::CLOSE_WRITE
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ONESHOT
            | WatchFlags::ONLYDIR;
        let node = LocalNode::of(directory).ok_or(FsError::NotSupported)?;
        add_watch(&self.queue, work, node.as_fd(), what)
    }

    fn unfollow(&self, directory: FollowId) {
        remove_watch(&self.queue, directory);
    }

    fn drain(&self, tell: &mut dyn FnMut(Option<FollowId>)) {
        let mut unreported = self.unreported.lock();
        let present = unreported_changes();
        if std::mem::replace(&mut *unreported, present) != present {
            tell(None);
        }
        let mut buffer = [MaybeUninit::uninit(); READ_BYTES];
        let mut reader = inotify::Reader::new(self.queue.as_fd(), &mut buffer);
        for _ in 0..EVENTS_MAX {
            match reader.next() {
                Ok(event) if event.events().contains(ReadFlags::QUEUE_OVERFLOW) => tell(None),
                Ok(event) => tell(Some(FollowId(u64::from(event.wd().unsigned_abs())))),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(error) => {
                    tracing::error!(%error, "cannot read inotify events: cached listings are invalidated");
                    return tell(None);
                }
            }
        }
        tell(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalVfs;
    use vfs::{
        Actor, AttributeChanges, AttributeRequest, Case, Identity, OpenHow, RelPath, TimeChange,
        Vfs, Wait,
    };

    const LIST: OpenHow = OpenHow {
        read: true,
        write: false,
        case: Case::Sensitive,
        wanted: AttributeRequest { dos: None },
        no_follow: true,
        wait: Wait::Allowed,
    };

    fn reported(feed: &LocalListings) -> Vec<Option<FollowId>> {
        let mut reported = Vec::new();
        feed.drain(&mut |change| reported.push(change));
        reported
    }

    /// Like [`reported`], without the events for all directories, which concurrent tests cause, too.
    fn of_one(feed: &LocalListings) -> Vec<Option<FollowId>> {
        reported(feed).into_iter().filter(Option::is_some).collect()
    }

    #[test]
    fn listing_watch_reports_the_first_change_only() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("file");
        std::fs::write(&at, b"content").unwrap();
        let vfs = LocalVfs::open(folder.path()).unwrap();
        let directory = vfs.open(Actor::SUPERUSER, &RelPath::root(), LIST).unwrap().node;
        let feed = LocalListings::new().unwrap();
        let id = feed.follow(ServerWork::Watch, &*directory).unwrap();
        std::fs::read(&at).unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        assert_eq!(of_one(&feed), [], "reading and listing are no changes");
        let file = std::fs::File::options().write(true).open(&at).unwrap();
        for _ in 0..100 {
            std::os::unix::fs::FileExt::write_all_at(&file, b"other", 0).unwrap();
        }
        // The event, and the end of the one-shot watch.
        assert_eq!(of_one(&feed), [Some(id), Some(id)]);
        drop(file);
        std::fs::remove_file(&at).unwrap();
        assert_eq!(of_one(&feed), [], "it is followed no longer");
        let again = feed.follow(ServerWork::Watch, &*directory).unwrap();
        assert_ne!(again, id);
        feed.unfollow(again);
        std::fs::write(&at, b"").unwrap();
        assert!(of_one(&feed).iter().all(|change| *change == Some(again)));
    }

    #[test]
    fn unreported_own_change_invalidates_all_listings() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("file"), b"content").unwrap();
        let vfs = LocalVfs::open(folder.path()).unwrap();
        let root = Identity::root();
        let path = |name: &[u8]| RelPath::root().join(&vfs::Name::new(name).unwrap());
        let open = |name: &[u8]| {
            vfs.open(root.actor(), &path(name), OpenHow { write: true, ..LIST }).unwrap().node
        };
        let feed = LocalListings::new().unwrap();
        let file = open(b"file");
        let accessed = TimeChange::Set(vfs::Timestamp(7));
        let accessed = AttributeChanges { accessed, ..Default::default() };
        let is_reported = |change: &dyn Fn()| {
            reported(&feed);
            change();
            // Concurrent tests may cause events, too.
            reported(&feed).contains(&None)
        };
        assert!(is_reported(&|| file.set_attributes(root.actor(), &accessed).unwrap()));
        assert!(is_reported(&|| vfs
            .link(root.actor(), &*file, &path(b"link"), vfs::Replace::Never)
            .unwrap()));
        let link = open(b"link");
        assert!(is_reported(&|| link.write(Actor::SUPERUSER, 0, b"by a link").unwrap()));
        assert!(is_reported(&|| link.set_size(Actor::SUPERUSER, 3).unwrap()));
        let written = is_reported(&|| file.write(Actor::SUPERUSER, 0, b"by its name").unwrap());
        let again = is_reported(&|| file.write(Actor::SUPERUSER, 0, b"by its name").unwrap());
        assert!(!(written && again), "a reported change is not counted");
    }
}
