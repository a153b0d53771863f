//! What happens to names in directories that somebody follows, whoever does it.
//!
//! The outside watches ([`crate::OutsideWatch`]) tell what others do, some time
//! after they did it. This tells what everyone does, this process too, and it is
//! asked: whoever has drained it knows of everything that was done before. So it
//! can be what a cache of names rests on.

use crate::{Node, Result, ServerWork};
use std::fmt;

/// A directory that is followed. Never given to another while the feed lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FollowId(pub u64);

/// Something that happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameChange<'a> {
    /// A name is there that was not, or leads to another node now.
    Added(FollowId, &'a [u8]),
    /// Owner, permissions or other attributes of what has the name were changed.
    Attributes(FollowId, &'a [u8]),
    /// The directory is gone, or its file system; it is not followed any more.
    Ended(FollowId),
    /// Owner, permissions or other attributes of the directory itself were changed.
    Itself(FollowId),
    /// More happened than could be kept: anything, anywhere.
    Lost,
    /// A name is gone.
    Removed(FollowId, &'a [u8]),
}

/// Tells what happens in the directories that are followed.
pub trait ChangeFeed: Send + Sync + fmt::Debug {
    /// Follows a directory from now on; the same one again has the same number. Linux lets only
    /// those hear who may read it.
    ///
    /// # Errors
    /// [`crate::FsError::NotSupported`] where others could change it unheard,
    /// [`crate::FsError::TooMany`].
    fn follow(&self, work: ServerWork, directory: &dyn Node) -> Result<FollowId>;

    /// Follows it no longer; what is still told of it can be passed over.
    fn unfollow(&self, directory: FollowId);

    /// Tells that anything may have changed, if something else than a change of a name
    /// made paths lead elsewhere, as a mount does. To be asked about once a second.
    fn check(&self, tell: &mut dyn FnMut(NameChange<'_>)) {
        let _ = tell;
    }

    /// Tells all that was done before this was called and has not been told yet,
    /// what was done in one directory in the order in which it was done. Never
    /// waits. `tell` must not call back.
    fn drain(&self, tell: &mut dyn FnMut(NameChange<'_>));
}

/// Tells when a listing of a directory, with what it says of each file, is not true any more.
///
/// Heard is what is done to names in the directory, to the directory itself, and to files
/// by way of these names: to a file that has other names, and to what lies within
/// directories, things may be done that are not heard. Nor is it heard when a file is given
/// another name elsewhere, or changed through mapped memory until that is let go of; when a
/// file is read; and what file systems do by themselves (allocation).
pub trait ListingFeed: Send + Sync + fmt::Debug {
    /// Follows a directory until the first change: whoever writes on is not held up by
    /// more than that.
    ///
    /// # Errors
    /// As [`ChangeFeed::follow`].
    fn follow(&self, work: ServerWork, directory: &dyn Node) -> Result<FollowId>;

    /// Follows it no longer; what is still told of it can be passed over.
    fn unfollow(&self, directory: FollowId);

    /// Tells which directories were changed before this was called, and are followed no
    /// longer; none if it may have been any, or all. What this process does is told in any
    /// case, but for reading. Never waits. `tell` must not call back.
    fn drain(&self, tell: &mut dyn FnMut(Option<FollowId>));
}
