//! Directory listings with attributes.

use crate::{Actor, AttributeRequest, Attributes, FsError, Node, Result, ServerWork};

/// Parts of each entry that a listing needs beside the name. The backend may leave other parts at
/// their default, which saves system calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ListingRequest {
    /// Attributes except those of [`ListingRequest::stored`].
    pub attributes: bool,
    /// [`Attributes::dos`] and [`Attributes::stored`], as [`AttributeRequest::dos`].
    pub stored: Option<ServerWork>,
    /// The caller takes few entries: reading ahead would be in vain.
    pub few: bool,
}

/// One entry of a listing; the link itself if it is one.
#[derive(Clone, Copy, Debug)]
pub struct ListedEntry<'a> {
    /// The name, never `.` or `..`.
    pub name: &'a [u8],
    /// As [`crate::DirEntry::inode`].
    pub inode: u64,
    /// Attributes, if requested.
    pub attributes: Option<Attributes>,
    /// Cookie to continue after this entry.
    pub next: u64,
}

impl ListedEntry<'_> {
    /// Passes an entry to the sink with the outcome of its stat. Returns whether to continue. An
    /// entry that is gone since its name was read is omitted.
    ///
    /// # Errors
    /// Errors that fail the whole listing: all but [`FsError::omits_entry`].
    pub fn give(self, sink: &mut dyn ListSink, look: Result<Option<Attributes>>) -> Result<bool> {
        match look {
            Ok(attributes) => Ok(sink.put(Self { attributes, ..self })),
            Err(FsError::NotFound) => Ok(true),
            Err(error) if error.omits_entry() => Ok(sink.put_inaccessible(self, error)),
            Err(error) => Err(error),
        }
    }
}

/// Decision of a sink on the name of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryChoice {
    /// The backend stats the entry and passes it to [`ListSink::put`].
    Take,
    /// The backend skips the entry.
    Pass,
    /// The listing ends before the entry.
    Stop,
}

/// Receiver of a listing.
pub trait ListSink {
    /// Decides on an entry by its name, before the backend stats it.
    fn choose(&mut self, name: &[u8], next: u64) -> EntryChoice;

    /// Takes a chosen entry; false ends the listing and leaves the entry untaken. The backend omits
    /// an entry that is gone by the time of its stat.
    fn put(&mut self, entry: ListedEntry<'_>) -> bool;

    /// Takes a chosen entry that exists but whose stat failed ([`FsError::omits_entry`]); as
    /// [`ListSink::put`]. The default omits it.
    fn put_inaccessible(&mut self, entry: ListedEntry<'_>, error: FsError) -> bool {
        let _ = (entry, error);
        true
    }
}

/// Entries that a backend without its own pass reads before it stats them.
const ENTRIES_AHEAD: usize = 256;

/// Default of [`Node::readdir_with_attributes`]: one stat for each entry.
pub(crate) fn readdir_one_by_one<N: Node + ?Sized>(
    node: &N,
    actor: Actor<'_>,
    mut cookie: u64,
    wanted: ListingRequest,
    sink: &mut dyn ListSink,
) -> Result<bool> {
    loop {
        let mut entries = Vec::new();
        let ended = node.readdir(cookie, &mut |entry| {
            entries.push(entry);
            entries.len() < ENTRIES_AHEAD
        })?;
        for entry in &entries {
            cookie = entry.next;
            match sink.choose(entry.name.as_bytes(), cookie) {
                EntryChoice::Take => {}
                EntryChoice::Pass => continue,
                EntryChoice::Stop => return Ok(false),
            }
            let looks = wanted.attributes || wanted.stored.is_some();
            let look = || {
                node.child_attributes(actor, &entry.name, AttributeRequest { dos: wanted.stored })
            };
            let listed = ListedEntry {
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
