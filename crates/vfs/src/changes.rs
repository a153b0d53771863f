//! Change feeds: every change of names in followed directories, whichever process makes it.
//!
//! An external watch ([`crate::ExternalWatch`]) reports the changes of other processes, some time
//! after the fact. A feed also reports the changes of this process, and the caller polls it. After
//! a drain the caller has seen every earlier change, so a cache of names can rely on it.

use crate::{Node, Result, ServerWork};
use std::fmt;

/// Number of a followed directory. A feed never reuses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FollowId(pub u64);

/// One change that a feed reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameChange<'a> {
    /// A name was added, or now refers to another node.
    Added(FollowId, &'a [u8]),
    /// Owner, permissions or other attributes of the node of this name changed.
    Attributes(FollowId, &'a [u8]),
    /// The directory or its file system is gone; the feed has stopped following it.
    Ended(FollowId),
    /// Owner, permissions or other attributes of the directory itself changed.
    Itself(FollowId),
    /// The feed lost events: anything may have changed, anywhere.
    Lost,
    /// A name was removed.
    Removed(FollowId, &'a [u8]),
}

/// Feed of all changes of names in the followed directories.
pub trait ChangeFeed: Send + Sync + fmt::Debug {
    /// Starts to follow a directory. Following it again returns the same number. Linux permits it
    /// only to a reader of the directory, hence `work`.
    ///
    /// # Errors
    /// [`crate::FsError::NotSupported`] if others could change the directory without an event,
    /// [`crate::FsError::TooMany`].
    fn follow(&self, work: ServerWork, directory: &dyn Node) -> Result<FollowId>;

    /// Stops following a directory. The caller ignores events that still arrive for it.
    fn unfollow(&self, directory: FollowId);

    /// Reports [`NameChange::Lost`] if paths may lead elsewhere by something other than a change of
    /// a name, such as a mount. The caller polls this about once a second.
    fn check(&self, report: &mut dyn FnMut(NameChange<'_>)) {
        let _ = report;
    }

    /// Reports every change that was made before this call and has not been reported yet, in order
    /// within each directory. Never waits. `report` must not call back.
    fn drain(&self, report: &mut dyn FnMut(NameChange<'_>));
}

/// Feed of directories whose listing, with the attributes of each entry, has become stale.
///
/// The feed detects changes to names in the directory, to the directory itself, and to files by way
/// of these names. It does not detect:
///
/// - changes to a file through another hard link, or within a subdirectory;
/// - a new hard link elsewhere, reads of a file, and changes that the file system makes by itself
///   (allocation);
/// - stores through mapped memory before it is unmapped.
pub trait ListingFeed: Send + Sync + fmt::Debug {
    /// Follows a directory until its first change, so that a steady writer costs no more than one
    /// event.
    ///
    /// # Errors
    /// As [`ChangeFeed::follow`].
    fn follow(&self, work: ServerWork, directory: &dyn Node) -> Result<FollowId>;

    /// Stops following a directory. The caller ignores events that still arrive for it.
    fn unfollow(&self, directory: FollowId);

    /// Reports the directories that changed before this call, and stops following them; None means
    /// that any or all may have changed. Reports the changes of this process, too, except reads.
    /// Never waits. `report` must not call back.
    fn drain(&self, report: &mut dyn FnMut(Option<FollowId>));
}

/// Capability: feeds of changes that are complete at each drain. A local kernel queues the event
/// before the call that caused it returns, so a drain at the arrival of a request sees everything
/// that was done before.
///
/// Without it, nothing is cached: each lookup and listing calls the backend.
pub trait ChangeFeeds: Send + Sync + std::fmt::Debug {
    /// A feed of all changes of names in followed directories, complete at each drain.
    ///
    /// # Errors
    /// [`FsError::NotSupported`] if the system has no such events; [`FsError::TooMany`].
    fn change_feed(&self) -> Result<Box<dyn ChangeFeed>>;

    /// A feed of directories whose listing has become stale.
    ///
    /// # Errors
    /// As [`ChangeFeeds::change_feed`].
    fn listing_feed(&self) -> Result<Box<dyn ListingFeed>>;
}
