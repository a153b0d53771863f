//! Directories listed together with what is in them.

use crate::{Attributes, FsError, Result};

/// What a listing needs of each entry, beside its name. What is not wanted may be
/// left at its default, which saves the time to find it out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListWanted {
    /// Attributes without those that [`ListWanted::stored`] stands for.
    pub attributes: bool,
    /// [`Attributes::dos`] and [`Attributes::stored`].
    pub stored: bool,
    /// Few entries will be taken: reading ahead would be in vain.
    pub few: bool,
}

/// One name in a directory, and what it names: the link itself if it is one.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// The name, never `.` or `..`.
    pub name: &'a [u8],
    /// As [`crate::DirEntry::inode`].
    pub inode: u64,
    /// Attributes, if they were wanted.
    pub attributes: Option<Attributes>,
    /// Give this as the cookie to continue after this entry.
    pub next: u64,
}

impl Listed<'_> {
    /// Gives an entry to a sink with what a look at it has brought; whether to go on. What has
    /// gone since its name was read is not given.
    ///
    /// # Errors
    /// Those for which the whole listing fails: others than [`FsError::leaves_out_entry`].
    pub fn give(self, sink: &mut dyn ListSink, look: Result<Option<Attributes>>) -> Result<bool> {
        match look {
            Ok(attributes) => Ok(sink.put(Self { attributes, ..self })),
            Err(FsError::NotFound) => Ok(true),
            Err(error) if error.leaves_out_entry() => Ok(sink.put_unseen(self, error)),
            Err(error) => Err(error),
        }
    }
}

/// What becomes of a name that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// It is to be looked at and given to [`ListSink::put`].
    Take,
    /// On to the next.
    Pass,
    /// The listing ends before it.
    Stop,
}

/// Takes what is listed.
pub trait ListSink {
    /// Whether an entry is wanted, before anything but its name is looked at.
    fn choose(&mut self, name: &[u8], next: u64) -> Choice;

    /// Takes an entry that was chosen; false to end the listing, with the entry
    /// not taken. One that is gone by the time it is looked at is not given.
    fn put(&mut self, entry: Listed<'_>) -> bool;

    /// Is told of an entry that was chosen, is there, and may not be looked at or could not be
    /// ([`FsError::leaves_out_entry`]); as [`ListSink::put`]. Of itself it leaves it out.
    fn put_unseen(&mut self, entry: Listed<'_>, error: FsError) -> bool {
        let _ = (entry, error);
        true
    }
}
