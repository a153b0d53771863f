//! Directories listed together with what is in them.

use crate::{Actor, Attributes, FsError, Node, Result, ServerWork, Wanted};

/// What a listing needs of each entry, beside its name. What is not wanted may be
/// left at its default, which saves the time to find it out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListWanted {
    /// Attributes without those that [`ListWanted::stored`] stands for.
    pub attributes: bool,
    /// [`Attributes::dos`] and [`Attributes::stored`], as [`Wanted::dos`].
    pub stored: Option<ServerWork>,
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

/// Entries that are read before they are looked at, by backends without a pass of their own.
const ENTRIES_AHEAD: usize = 256;

/// What [`Node::list_with_attributes`] does of itself: a look at each entry.
pub(crate) fn list_one_by_one<N: Node + ?Sized>(
    node: &N,
    who: Actor<'_>,
    mut cookie: u64,
    wanted: ListWanted,
    sink: &mut dyn ListSink,
) -> Result<bool> {
    loop {
        let mut entries = Vec::new();
        let ended = node.list(cookie, &mut |entry| {
            entries.push(entry);
            entries.len() < ENTRIES_AHEAD
        })?;
        for entry in &entries {
            cookie = entry.next;
            match sink.choose(entry.name.as_bytes(), cookie) {
                Choice::Take => {}
                Choice::Pass => continue,
                Choice::Stop => return Ok(false),
            }
            let looks = wanted.attributes || wanted.stored.is_some();
            let look = || node.child_attributes(who, &entry.name, Wanted { dos: wanted.stored });
            let listed = Listed {
                name: entry.name.as_bytes(),
                inode: entry.inode,
                attributes: None,
                next: cookie,
            };
            if !listed.give(sink, looks.then(look).transpose())? {
                return Ok(false);
            }
        }
        if ended {
            return Ok(true);
        }
    }
}
