//! Changes in followed directories, by inotify(7).
//!
//! The kernel queues an event while it holds the directory's lock, before the system call of the
//! change returns. So a reader that has drained the queue knows all earlier changes in their order.
//! fanotify merges the events of a name, so that their last one is unknown.

use crate::inotify::{add_watch, new_queue, remove_watch};
use crate::local_node::LocalNode;
use crate::stream_store::reserved::is_store_name;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{ReadFlags, WatchFlags};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sync::Mutex;
use vfs::{ChangeFeed, FollowId, FsError, NameChange, Node, Result, ServerWork};

/// Bytes read from the queue per call: some hundreds of events.
const READ_BYTES: usize = 16 * 1024;
/// Maximum number of reads per drain. If other processes create events faster, the drain reports a
/// loss.
const READS_MAX: usize = 1 << 12;
/// Length of an event without its name, and with the longest one, which is NUL-terminated and
/// padded.
const EVENT_BYTES: usize = 16;
const EVENT_BYTES_MAX: usize = EVENT_BYTES + 256;

/// An inotify queue.
pub struct LocalChanges {
    queue: OwnedFd,
    /// The list of mounts, which can be polled for changes.
    mounts: Option<OwnedFd>,
    buffer: Mutex<Vec<u8>>,
}

impl std::fmt::Debug for LocalChanges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LocalChanges").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl LocalChanges {
    /// Creates a queue without watches.
    ///
    /// # Errors
    /// [`FsError::TooMany`]: the user has reached `fs.inotify.max_user_instances`.
    pub fn new() -> Result<Self> {
        let queue = new_queue()?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let mounts = rustix::fs::open("/proc/self/mountinfo", flags, Mode::empty()).ok();
        Ok(Self { queue, mounts, buffer: Mutex::new(vec![0; READ_BYTES]) })
    }
}

impl ChangeFeed for LocalChanges {
    fn follow(&self, work: ServerWork, directory: &dyn Node) -> Result<FollowId> {
        let what = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_FROM
            | WatchFlags::MOVED_TO
            | WatchFlags::ATTRIB
            | WatchFlags::EXCL_UNLINK
            | WatchFlags::ONLYDIR;
        let node = LocalNode::of(directory).ok_or(FsError::NotSupported)?;
        add_watch(&self.queue, work, node.as_fd(), what)
    }

    fn unfollow(&self, directory: FollowId) {
        remove_watch(&self.queue, directory);
    }

    fn check(&self, tell: &mut dyn FnMut(NameChange<'_>)) {
        let Some(mounts) = &self.mounts else { return };
        let mut ready = [PollFd::new(mounts, PollFlags::PRI)];
        if poll(&mut ready, Some(&Timespec::default())).is_ok_and(|count| count > 0) {
            tell(NameChange::Lost);
        }
    }

    fn drain(&self, tell: &mut dyn FnMut(NameChange<'_>)) {
        let mut buffer = self.buffer.lock();
        for _ in 0..READS_MAX {
            match rustix::io::read(&self.queue, &mut buffer[..]) {
                Ok(length) => {
                    deliver_all(&buffer[..length], tell);
                    // The kernel returns all queued events that fit, and another one would have
                    // fitted.
                    if length + EVENT_BYTES_MAX <= buffer.len() {
                        return;
                    }
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(error) => {
                    tracing::error!(%error, "cannot read inotify events: cached names are invalidated");
                    return tell(NameChange::Lost);
                }
            }
        }
        tell(NameChange::Lost);
    }
}

/// Reports the events in a buffer. Each is a head of four numbers (watch, mask, cookie, length of
/// the name), and a NUL-terminated name. inotify(7).
fn deliver_all(mut bytes: &[u8], tell: &mut dyn FnMut(NameChange<'_>)) {
    while let Some((head, rest)) = bytes.split_first_chunk::<EVENT_BYTES>() {
        let number =
            |at: usize| u32::from_ne_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let length = (number(12) as usize).min(rest.len());
        let (name, next) = rest.split_at(length);
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        // Watch numbers start at 1; an overflow event has none.
        let directory = FollowId(u64::from(number(0).cast_signed().unsigned_abs()));
        deliver(directory, ReadFlags::from_bits_retain(number(4)), name, tell);
        bytes = next;
    }
}

fn deliver(
    directory: FollowId,
    what: ReadFlags,
    name: &[u8],
    tell: &mut dyn FnMut(NameChange<'_>),
) {
    if what.contains(ReadFlags::QUEUE_OVERFLOW) {
        return tell(NameChange::Lost);
    }
    if is_store_name(name) {
        return;
    }
    if what.contains(ReadFlags::IGNORED) {
        tell(NameChange::Ended(directory));
    } else if what.contains(ReadFlags::ATTRIB) && name.is_empty() {
        tell(NameChange::Itself(directory));
    } else if what.contains(ReadFlags::ATTRIB) {
        tell(NameChange::Attributes(directory, name));
    } else if what.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO) {
        tell(NameChange::Added(directory, name));
    } else if what.intersects(ReadFlags::DELETE | ReadFlags::MOVED_FROM) {
        tell(NameChange::Removed(directory, name));
    }
}
