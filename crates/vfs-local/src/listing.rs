//! Lists a directory with its entries' attributes in one pass: one `statx` per entry, and one
//! `listxattrat` if the entry's extended attributes are not cached.

use crate::attribute_calls::attributes_of;
use crate::errors::refusal;
use crate::identity::IdentityGuard;
use crate::local_node::LocalNode;
use crate::stream_store::reserved;
use crate::xattr_notes;
use crate::xattrs::{self, NodeAddress};
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, SeekFrom, StatxFlags};
use std::ffi::CStr;
use std::mem::MaybeUninit;
use vfs::{
    Actor, Attributes, DirEntry, EntryChoice, FileKind, FsError, ListSink, ListedEntry,
    ListingRequest, Name, Node, Result, ServerWork,
};

/// Buffer for a complete listing, in bytes.
const LIST_BYTES: usize = 32 * 1024;
/// Buffer for a listing that ends when the reply is full. Entries that were read but did not fit
/// are read again for the next reply. It holds a hundred short names, which keeps the cost per
/// entry low.
const SOME_BYTES: usize = 4096;
/// Buffer for few entries: room for three names of maximum length.
const FEW_BYTES: usize = 1024;

/// Lists names only.
pub fn names(
    node: &LocalNode,
    cookie: u64,
    each: &mut dyn FnMut(DirEntry) -> bool,
) -> Result<bool> {
    read_entries(node, cookie, LIST_BYTES, |entry| {
        let Ok(name) = Name::new(entry.file_name().to_bytes()) else { return Ok(true) };
        let kind = match entry.file_type() {
            rustix::fs::FileType::RegularFile => Some(FileKind::File),
            rustix::fs::FileType::Directory => Some(FileKind::Directory),
            rustix::fs::FileType::Symlink => Some(FileKind::Symlink),
            _ => None,
        };
        Ok(each(DirEntry { name, inode: entry.ino(), kind, next: entry.next_entry_cookie() }))
    })
}

/// Lists names with their attributes.
pub fn with_attributes(
    node: &LocalNode,
    who: Actor<'_>,
    cookie: u64,
    wanted: ListingRequest,
    sink: &mut dyn ListSink,
) -> Result<bool> {
    let notes = wanted.stored.map(|work| (xattr_notes::XattrNoteReader::of(node.as_fd()), work));
    let bytes = if wanted.few { FEW_BYTES } else { SOME_BYTES };
    read_entries(node, cookie, bytes, |entry| {
        let (name, next) = (entry.file_name(), entry.next_entry_cookie());
        if matches!(name.to_bytes(), b"." | b"..") {
            return Ok(true);
        }
        match sink.choose(name.to_bytes(), next) {
            EntryChoice::Take => {}
            EntryChoice::Pass => return Ok(true),
            EntryChoice::Stop => return Ok(false),
        }
        let looks = wanted.attributes || wanted.stored.is_some();
        let look = || look_at(node.as_fd(), who, name, notes.as_ref());
        let (name, inode, attributes) = (name.to_bytes(), entry.ino(), None);
        ListedEntry { name, inode, attributes, next }.give(sink, looks.then(look).transpose())
    })
}

fn read_entries(
    node: &LocalNode,
    cookie: u64,
    bytes: usize,
    mut each: impl FnMut(&rustix::fs::RawDirEntry<'_>) -> Result<bool>,
) -> Result<bool> {
    if node.kind() != FileKind::Directory {
        return Err(FsError::NotDirectory);
    }
    if node.is_path_only() {
        return Err(FsError::OpenMode);
    }
    if cookie == 0 {
        crate::case::count_scan();
    }
    let _one_at_a_time = node.listing.lock();
    let fd = node.as_fd();
    rustix::fs::seek(fd, SeekFrom::Start(cookie)).map_err(|e| refusal("list", e))?;
    let mut buffer = vec![MaybeUninit::uninit(); bytes];
    let mut entries = rustix::fs::RawDir::new(fd, &mut buffer);
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(|e| refusal("list", e))?;
        if reserved::is_store_name(entry.file_name().to_bytes()) {
            continue;
        }
        if !each(&entry)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn look_at(
    directory: BorrowedFd<'_>,
    who: Actor<'_>,
    name: &CStr,
    notes: Option<&(xattr_notes::XattrNoteReader, ServerWork)>,
) -> Result<Attributes> {
    // The sink may have changed the thread's credentials for the previous entry.
    let _acting = IdentityGuard::begin(who)?;
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::STATX_DONT_SYNC;
    let mask = StatxFlags::BASIC_STATS | StatxFlags::BTIME;
    let stat = rustix::fs::statx(directory, name, flags, mask).map_err(|e| refusal("stat", e))?;
    let mut attributes = attributes_of(&stat, directory);
    let has_stored = matches!(attributes.kind, FileKind::File | FileKind::Directory);
    let Some((notes, work)) = notes.filter(|_| has_stored) else { return Ok(attributes) };
    if let Some(noted) = notes.find(&attributes) {
        return Ok(noted);
    }
    if xattrs::fill_stored(&mut attributes, NodeAddress::Child(directory, name), *work) {
        notes.keep(&attributes);
    }
    Ok(attributes)
}
