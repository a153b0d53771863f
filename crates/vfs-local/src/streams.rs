//! Named streams in the layout of Samba's `vfs_streams_xattr`: one extended attribute
//! `user.DosStream.NAME:$DATA` per stream, whose value is the data plus one byte. That byte
//! distinguishes empty streams from missing ones. It also counts the attributes
//! `user.DosStreamExt.N.NAME:$DATA` in which Samba, if configured so, continues a long stream. The
//! server reads those; it writes single attributes only.
//!
//! A stream that does not fit moves into a file, to which the attribute then refers
//! ([`crate::stream_store`]), even if the stream becomes short again. Replacing the attribute moves
//! it in one step, so that a reader finds the complete stream in either place.
//!
//! An attribute can only be replaced as a whole. A partial change reads, modifies and writes it,
//! serialized per node. The kernel decides which users may use a stream, because the server reads
//! and replaces the attribute with the user's credentials.

use crate::attribute_calls::XATTR_BYTES_MAX;
use crate::errors::refusal;
use crate::identity::{IdentityGuard, as_server};
use crate::local_node::LocalNode;
use crate::stream_store::{self, StoredFile, StoredId, lock_streams};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::sync::Arc;
use vfs::{Actor, Case, FsError, Node, Replace, Result, ServerWork, StreamEntry, StreamName, Wait};

const PREFIX: &[u8] = b"user.DosStream.";
const EXTENT_PREFIX: &str = "user.DosStreamExt.";
const TYPE: &[u8] = b":$DATA";
/// Maximum length of an extended attribute's name on Linux.
const XATTR_NAME_BYTES_MAX: usize = 255;
/// Maximum number of attributes in which Samba continues a stream.
const EXTENTS_MAX: u8 = 15;
/// Attempts to list all streams of a file while others rename one.
const RENAMED_TRIES_MAX: u32 = 64;
/// Maximum length of a stream in an attribute: the largest extended attribute of Linux, minus the
/// trailing byte. ext4 has less, one block for all attributes of a file.
const KEPT_BYTES_MAX: u64 = XATTR_BYTES_MAX as u64 - 1;
/// Maximum length of a stream: the largest file of ext4 with 4 KiB blocks. A file system may
/// support less.
pub const STREAM_BYTES_MAX: u64 = 1 << 44;

fn xattr_of(name: &StreamName) -> Result<Vec<u8>> {
    let full = [PREFIX, name.as_bytes(), TYPE].concat();
    if full.len() > XATTR_NAME_BYTES_MAX { Err(FsError::NameTooLong) } else { Ok(full) }
}

fn extent_of(name: &StreamName, number: u8) -> Vec<u8> {
    [format!("{EXTENT_PREFIX}{number}.").as_bytes(), name.as_bytes(), TYPE].concat()
}

/// True if an attribute is refused because of its length, or of the total length of the file's
/// attributes.
fn is_too_long(node: &LocalNode, errno: Errno) -> bool {
    match errno {
        Errno::TOOBIG | Errno::RANGE => true,
        Errno::NOSPC => node.has_free_blocks(),
        _ => false,
    }
}

fn refused(node: &LocalNode, operation: &'static str, errno: Errno) -> FsError {
    if is_too_long(node, errno) { FsError::AttributesFull } else { refusal(operation, errno) }
}

/// Location of a stream's data.
enum StreamValue {
    /// In attributes: the complete data, and the number of continuation attributes.
    Attributes { data: Vec<u8>, extents: u8 },
    /// In a file of the stream store.
    File(StoredId),
}

impl StreamValue {
    fn extents(&self) -> u8 {
        if let Self::Attributes { extents, .. } = self { *extents } else { 0 }
    }

    fn id(&self) -> Option<StoredId> {
        if let Self::File(id) = self { Some(*id) } else { None }
    }
}

/// Reads the part of a stream that is in attributes, with the thread's current credentials.
fn load(node: &LocalNode, name: &StreamName) -> Result<StreamValue> {
    let failed = |errno| refused(node, "read stream", errno);
    let mut data = node.get_xattr(&*xattr_of(name)?).map_err(failed)?;
    if let Some(id) = StoredId::of_attribute(&data) {
        return Ok(StreamValue::File(id));
    }
    let extents = data.pop().unwrap_or(0).min(EXTENTS_MAX);
    for number in 1..=extents {
        match node.get_xattr(&*extent_of(name, number)) {
            Ok(more) => data.extend_from_slice(&more),
            // Samba was interrupted during a write.
            Err(Errno::NODATA) => break,
            Err(errno) => return Err(failed(errno)),
        }
    }
    Ok(StreamValue::Attributes { data, extents })
}

fn load_as_server(node: &LocalNode, name: &StreamName) -> Result<StreamValue> {
    as_server(ServerWork::Metadata, || load(node, name))
}

/// Stores `data` as the complete stream in an attribute, with the thread's current credentials.
/// False if it exceeds the limit of an attribute.
fn try_store(node: &LocalNode, name: &StreamName, data: &[u8], flags: XattrFlags) -> Result<bool> {
    let value = [data, &[0]].concat();
    match node.put_xattr(&*xattr_of(name)?, Some(&value), flags) {
        Ok(()) => Ok(true),
        Err(errno) if is_too_long(node, errno) => Ok(false),
        Err(errno) => Err(refusal("write stream", errno)),
    }
}

/// Points a stream's attribute to a file, with the thread's current credentials: the kernel refuses
/// users that may not write the attribute. Repeating the call changes nothing.
fn refer(node: &LocalNode, name: &StreamName, id: StoredId, flags: XattrFlags) -> Result<()> {
    node.put_xattr(&*xattr_of(name)?, Some(&id.attribute()), flags)
        .map_err(|errno| refused(node, "write stream", errno))
}

/// Removes the continuation attributes of a formerly longer stream.
fn drop_extents(node: &LocalNode, name: &StreamName, count: u8) {
    for number in 1..=count {
        // A continuation attribute that remains is not referred to by any stream.
        let _ = node.put_xattr(&*extent_of(name, number), None, XattrFlags::empty());
    }
}

/// Removes a store file to which no stream of the node refers any more.
fn drop_file(node: &LocalNode, id: Option<StoredId>) {
    if let Some(id) = id
        && refers_to(node, id) == Ok(false)
    {
        stream_store::remove(node, id);
    }
}

fn names(node: &LocalNode) -> Result<Vec<StreamName>> {
    let listed = match node.list_xattrs() {
        Err(Errno::OPNOTSUPP) => Vec::new(),
        other => other.map_err(|e| refusal("list streams", e))?,
    };
    let parts = listed.split(|&b| b == 0);
    let named = parts.filter_map(|full| full.strip_prefix(PREFIX)?.strip_suffix(TYPE));
    Ok(named.filter_map(|name| StreamName::new(name).ok()).collect())
}

/// True if the NUL-separated attribute names contain a stream.
pub fn has_any(attributes: &[u8]) -> bool {
    attributes.split(|&b| b == 0).any(|name| name.starts_with(PREFIX))
}

/// The store files to which a node's streams refer.
///
/// # Errors
/// [`FsError::WouldBlock`] if other processes keep renaming streams.
pub fn ids_of(node: &LocalNode) -> Result<Vec<StoredId>> {
    for _ in 0..RENAMED_TRIES_MAX {
        if let Some(ids) = ids_unless_renamed(node)? {
            return Ok(ids);
        }
    }
    Err(FsError::WouldBlock)
}

/// Like [`ids_of`]; `None` if a listed stream is gone, because it may have been renamed.
fn ids_unless_renamed(node: &LocalNode) -> Result<Option<Vec<StoredId>>> {
    let mut ids = Vec::new();
    for name in names(node)? {
        let Some(value) = load_present(node, &name)? else { return Ok(None) };
        ids.extend(value.id());
    }
    Ok(Some(ids))
}

/// A stream's value, read as the server; `None` if the attribute does not exist.
fn load_present(node: &LocalNode, name: &StreamName) -> Result<Option<StreamValue>> {
    match load_as_server(node, name) {
        Ok(value) => Ok(Some(value)),
        Err(FsError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Syncs the long streams of a node and the attributes that refer to them. False if there are none,
/// at no cost while the process uses no store.
///
/// # Errors
/// [`FsError::Io`]: data may be lost. [`FsError::AccessDenied`]: the store is unreachable.
pub fn sync(node: &LocalNode, data_only: bool) -> Result<bool> {
    if !stream_store::may_be_used() {
        return Ok(false);
    }
    let mut has_long = false;
    for id in ids_of(node)? {
        // If the store file is neither there nor known, this process wrote nothing to it.
        let present = StoredFile::open_written(node, id).map_err(|error| match error {
            // A retry would not help here, unlike for state that a courtesy client holds.
            FsError::Unavailable => FsError::AccessDenied,
            other => other,
        })?;
        if let Some(stored) = present {
            stored.sync(data_only)?;
            has_long = true;
        }
    }
    Ok(has_long)
}

/// True if a stream of the node is in the store file with this id.
pub fn refers_to(node: &LocalNode, id: StoredId) -> Result<bool> {
    Ok(ids_of(node)?.contains(&id))
}

/// Accounts the store files of the node's streams to its new owner.
pub fn give(node: &LocalNode) {
    match ids_of(node) {
        Ok(ids) => stream_store::record_rights(node, ids),
        Err(error) => {
            tracing::warn!(%error, "cannot read the streams of a file with a new owner: quotas count them to the former one")
        }
    }
}

fn entry(node: &LocalNode, name: StreamName) -> Result<StreamEntry> {
    let size_bytes = match load(node, &name)? {
        StreamValue::Attributes { data, .. } => data.len() as u64,
        StreamValue::File(id) => {
            let stat = StoredFile::open(node, id, false)?.stat()?;
            u64::try_from(stat.st_size).unwrap_or(0)
        }
    };
    Ok(StreamEntry { name, size_bytes })
}

/// See [`vfs::NamedStreams::streams`].
pub fn list(node: &LocalNode, who: Actor<'_>) -> Result<Vec<StreamEntry>> {
    // Linux requires no permission to list names, but does to read lengths.
    let names = names(node)?;
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let _acting = IdentityGuard::begin(who)?;
    // A stream that disappeared since it was listed is omitted.
    let entries = names.into_iter().map(|name| entry(node, name));
    entries.filter(|e| !matches!(e, Err(FsError::NotFound))).collect()
}

/// See [`vfs::NamedStreams::find_stream`].
pub fn find(node: &LocalNode, who: Actor<'_>, name: &StreamName, how: Case) -> Result<StreamEntry> {
    let _acting = IdentityGuard::begin(who)?;
    match entry(node, name.clone()) {
        Err(FsError::NotFound | FsError::NameTooLong | FsError::NotSupported) => {}
        other => return other,
    }
    if how == Case::Sensitive {
        return Err(FsError::NotFound);
    }
    let folded = vfs::fold_case(name.as_bytes());
    let same = names(node)?.into_iter().filter(|n| vfs::fold_case(n.as_bytes()) == folded);
    entry(node, same.min().ok_or(FsError::NotFound)?)
}

/// See [`vfs::NamedStreams::create_stream`].
pub fn create(node: &LocalNode, who: Actor<'_>, name: &StreamName, how: Case) -> Result<()> {
    let _lock = lock_streams(node.key);
    // Every user that may see the file may know whether the name exists.
    match find(node, Actor::server(ServerWork::Metadata), name, how) {
        Ok(_) => return Err(FsError::AlreadyExists),
        Err(FsError::NotFound) => {}
        Err(error) => return Err(error),
    }
    // A reference that was copied from another file is not a stream, so the name is free. It is
    // replaced only if the record proves that.
    let flags = match load_present(node, name)? {
        None => XattrFlags::CREATE,
        Some(StreamValue::Attributes { .. }) => return Err(FsError::AlreadyExists),
        Some(StreamValue::File(id)) => match StoredFile::open(node, id, false) {
            Err(FsError::NotFound) => XattrFlags::REPLACE,
            Err(error) => return Err(error),
            Ok(_) => return Err(FsError::AlreadyExists),
        },
    };
    let _acting = IdentityGuard::begin(who)?;
    match try_store(node, name, &[], flags)? {
        true => Ok(()),
        false => Err(FsError::AttributesFull),
    }
}

/// See [`vfs::NamedStreams::read_stream`].
pub fn read(
    node: &LocalNode,
    who: Actor<'_>,
    name: &StreamName,
    offset: u64,
    length: usize,
    into: &mut Vec<u8>,
) -> Result<usize> {
    let _acting = IdentityGuard::begin(who)?;
    let data = match load(node, name)? {
        StreamValue::File(_) if offset >= STREAM_BYTES_MAX => return Ok(0),
        StreamValue::File(id) => {
            let file = StoredFile::open(node, id, false)?.into_node()?;
            return file.read(offset, length, into, Wait::Allowed);
        }
        StreamValue::Attributes { data, .. } => data,
    };
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(data.len());
    let count = length.min(data.len() - start);
    into.extend_from_slice(&data[start..start + count]);
    Ok(count)
}

/// See [`vfs::NamedStreams::stream_data`].
pub fn data(
    node: &LocalNode,
    who: Actor<'_>,
    name: &StreamName,
    writes: bool,
) -> Result<Option<Arc<dyn Node>>> {
    let _lock = lock_streams(node.key);
    let value = match writes {
        true => load_as_server(node, name)?,
        false => IdentityGuard::begin(who).and_then(|_acting| load(node, name))?,
    };
    let StreamValue::File(id) = value else { return Ok(None) };
    if writes {
        let _acting = IdentityGuard::begin(who)?;
        refer(node, name, id, XattrFlags::REPLACE)?;
    }
    Ok(Some(Arc::new(StoredFile::open(node, id, writes)?.into_node()?)))
}

/// Changes a stream whose new length is at least `length`: in its attribute by `in_attribute`, or
/// in its store file by `in_file`. A stream that the attribute cannot hold moves into a store file.
fn modify(
    node: &LocalNode,
    who: Actor<'_>,
    (name, length): (&StreamName, u64),
    in_attribute: impl FnOnce(&mut Vec<u8>),
    in_file: impl FnOnce(&LocalNode) -> Result<()>,
) -> Result<()> {
    let lock = lock_streams(node.key);
    // A user with write but without read permission may change the stream, and sees none of its
    // data.
    let (data, extents) = match load_as_server(node, name)? {
        StreamValue::Attributes { data, extents } => (data, extents),
        StreamValue::File(id) => {
            let acting = IdentityGuard::begin(who)?;
            refer(node, name, id, XattrFlags::REPLACE)?;
            drop(acting);
            let file = StoredFile::open(node, id, true)?.into_node()?;
            // The data of store files, like those of files, are written concurrently.
            drop(lock);
            return in_file(&file);
        }
    };
    if length <= KEPT_BYTES_MAX {
        let mut changed = data.clone();
        in_attribute(&mut changed);
        let _acting = IdentityGuard::begin(who)?;
        if try_store(node, name, &changed, XattrFlags::REPLACE)? {
            drop_extents(node, name, extents);
            return Ok(());
        }
    }
    move_to_file(node, who, &data, |id, file| {
        in_file(file)?;
        let _acting = IdentityGuard::begin(who)?;
        refer(node, name, id, XattrFlags::REPLACE)
    })?;
    let _acting = IdentityGuard::begin(who)?;
    drop_extents(node, name, extents);
    Ok(())
}

/// Moves a stream's data into a store file, to which `finish` then points the attribute. On failure
/// nothing has changed.
fn move_to_file(
    node: &LocalNode,
    who: Actor<'_>,
    data: &[u8],
    finish: impl FnOnce(StoredId, &LocalNode) -> Result<()>,
) -> Result<()> {
    // Refuses an invalid identity before anything is created.
    drop(IdentityGuard::begin(who)?);
    let stored = StoredFile::create(node, data)?;
    let id = stored.id();
    let finished = stored.into_node().and_then(|file| finish(id, &file));
    if finished.is_err() {
        stream_store::remove(node, id);
    }
    finished
}

/// See [`vfs::NamedStreams::write_stream`].
pub fn write(
    node: &LocalNode,
    who: Actor<'_>,
    name: &StreamName,
    offset: u64,
    written: &[u8],
) -> Result<()> {
    if written.is_empty() {
        return Ok(());
    }
    let end = offset.checked_add(written.len() as u64).filter(|end| *end <= STREAM_BYTES_MAX);
    let end = end.ok_or(FsError::TooLarge)?;
    let in_attribute = |data: &mut Vec<u8>| {
        let end = end as usize;
        data.resize(data.len().max(end), 0);
        data[end - written.len()..end].copy_from_slice(written);
    };
    modify(node, who, (name, end), in_attribute, |file| file.write(who, offset, written))
}

/// See [`vfs::NamedStreams::set_stream_size`].
pub fn set_size(node: &LocalNode, who: Actor<'_>, name: &StreamName, size: u64) -> Result<()> {
    if size > STREAM_BYTES_MAX {
        return Err(FsError::TooLarge);
    }
    let in_attribute = |data: &mut Vec<u8>| data.resize(size as usize, 0);
    modify(node, who, (name, size), in_attribute, |file| file.set_size(who, size))
}

/// See [`vfs::NamedStreams::remove_stream`].
pub fn remove(node: &LocalNode, who: Actor<'_>, name: &StreamName) -> Result<()> {
    let _lock = lock_streams(node.key);
    let value = load_as_server(node, name)?;
    let _acting = IdentityGuard::begin(who)?;
    take_away(node, name, value.extents())?;
    drop_file(node, value.id());
    Ok(())
}

fn take_away(node: &LocalNode, name: &StreamName, extents: u8) -> Result<()> {
    node.put_xattr(&*xattr_of(name)?, None, XattrFlags::empty())
        .map_err(|e| refused(node, "remove stream", e))?;
    drop_extents(node, name, extents);
    Ok(())
}

/// Refuses to replace a stream whose store file may only be unreachable.
fn check_replaceable(node: &LocalNode, id: StoredId) -> Result<()> {
    match StoredFile::open(node, id, false) {
        Ok(_) | Err(FsError::NotFound) => Ok(()),
        Err(error) => Err(error),
    }
}

/// See [`vfs::NamedStreams::rename_stream`]. A concurrent look-up may see both names, but never
/// neither.
pub fn rename(
    node: &LocalNode,
    who: Actor<'_>,
    from: &StreamName,
    to: &StreamName,
    replace: Replace,
) -> Result<()> {
    let _lock = lock_streams(node.key);
    let value = load_as_server(node, from)?;
    let replaced = load_present(node, to)?;
    if let Some(StreamValue::File(id)) = &replaced {
        check_replaceable(node, *id)?;
    }
    let _acting = IdentityGuard::begin(who)?;
    let flags = if replace == Replace::Never { XattrFlags::CREATE } else { XattrFlags::empty() };
    match &value {
        StreamValue::File(id) => refer(node, to, *id, flags)?,
        StreamValue::Attributes { data, .. } if try_store(node, to, data, flags)? => {}
        // There is no room for both attributes.
        StreamValue::Attributes { data, .. } => {
            move_to_file(node, who, data, |id, _| refer(node, to, id, flags))?;
        }
    }
    if let Some(replaced) = replaced {
        drop_extents(node, to, replaced.extents());
        drop_file(node, replaced.id());
    }
    take_away(node, from, value.extents())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LocalVfs;
    use std::sync::Arc;
    use vfs::{CreateHow, FileKind, Identity, Name, Node, RelPath, Vfs};

    struct Fixture {
        folder: tempfile::TempDir,
        node: Arc<dyn Node>,
        who: Identity,
    }

    /// A file `f`; `None` if extended attributes cannot be stored here.
    fn fixture() -> Option<Fixture> {
        let folder = tempfile::tempdir().unwrap();
        let vfs = LocalVfs::open(folder.path()).unwrap();
        if vfs.features().stream_bytes_max == 0 {
            eprintln!("skipped: no extended attributes here");
            return None;
        }
        let who = Identity::root();
        let how = CreateHow::plain(FileKind::File, 0o600);
        let path: RelPath = [Name::new(*b"f").unwrap()].into_iter().collect();
        let node = vfs.create(who.actor(), &path, Case::Sensitive, how).unwrap().node;
        Some(Fixture { folder, node, who })
    }

    fn name(text: &str) -> StreamName {
        StreamName::new(text.as_bytes()).unwrap()
    }

    impl Fixture {
        fn create(&self, text: &str) -> Result<()> {
            self.node.need_streams().unwrap().create_stream(
                self.who.actor(),
                &name(text),
                Case::Insensitive,
            )
        }

        fn write(&self, text: &str, offset: u64, data: &[u8]) -> Result<()> {
            self.node.need_streams().unwrap().write_stream(
                self.who.actor(),
                &name(text),
                offset,
                data,
            )
        }

        fn read(&self, text: &str) -> Result<Vec<u8>> {
            let mut into = Vec::new();
            self.node.need_streams().unwrap().read_stream(
                self.who.actor(),
                &name(text),
                0,
                1 << 20,
                &mut into,
            )?;
            Ok(into)
        }

        /// Reads an attribute without the code under test.
        fn raw(&self, xattr: &str) -> Option<Vec<u8>> {
            let mut buffer = vec![0; 1 << 16];
            let path = self.folder.path().join("f");
            let length = rustix::fs::getxattr(path, xattr, &mut *buffer).ok()?;
            buffer.truncate(length);
            Some(buffer)
        }

        fn put_raw(&self, xattr: &str, value: &[u8]) {
            let path = self.folder.path().join("f");
            rustix::fs::setxattr(path, xattr, value, XattrFlags::empty()).unwrap();
        }
    }

    #[test]
    fn streams_are_stored_as_samba_stores_them() {
        let Some(f) = fixture() else { return };
        f.create("Zone.Identifier").unwrap();
        assert_eq!(f.raw("user.DosStream.Zone.Identifier:$DATA").unwrap(), b"\0");
        f.write("Zone.Identifier", 2, b"abc").unwrap();
        f.write("Zone.Identifier", 100, b"").unwrap();
        assert_eq!(f.raw("user.DosStream.Zone.Identifier:$DATA").unwrap(), b"\0\0abc\0");
        f.node
            .need_streams()
            .unwrap()
            .set_stream_size(f.who.actor(), &name("Zone.Identifier"), 3)
            .unwrap();
        assert_eq!(f.raw("user.DosStream.Zone.Identifier:$DATA").unwrap(), b"\0\0a\0");
        f.put_raw("user.DosStream.by samba:$DATA", b"data\0");
        assert_eq!(f.read("by samba").unwrap(), b"data");
        let mut all = f.node.streams(f.who.actor()).unwrap();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        let shown: Vec<_> = all.iter().map(|s| (s.name.as_bytes(), s.size_bytes)).collect();
        assert_eq!(shown, [(&b"Zone.Identifier"[..], 3), (b"by samba", 4)]);
        assert_eq!(
            f.node.need_xattrs().unwrap().xattr_names(f.who.actor()).unwrap(),
            [],
            "they are not shown as attributes"
        );
    }

    #[test]
    fn stream_is_found_in_any_case_and_created_once() {
        let Some(f) = fixture() else { return };
        f.create("Name").unwrap();
        assert_eq!(f.create("NAME"), Err(FsError::AlreadyExists));
        let found = f.node.find_stream(f.who.actor(), &name("nAME"), Case::Insensitive).unwrap();
        assert_eq!(found, StreamEntry { name: name("Name"), size_bytes: 0 });
        let exact = f.node.find_stream(f.who.actor(), &name("nAME"), Case::Sensitive);
        assert_eq!(exact, Err(FsError::NotFound));
    }

    #[test]
    fn oversized_stream_change_is_refused_completely() {
        let Some(f) = fixture() else { return };
        f.create("s").unwrap();
        f.write("s", 0, b"kept").unwrap();
        assert_eq!(f.write("s", STREAM_BYTES_MAX - 1, b"ab"), Err(FsError::TooLarge));
        assert_eq!(f.write("s", u64::MAX - 1, b"abc"), Err(FsError::TooLarge));
        let size = STREAM_BYTES_MAX + 1;
        assert_eq!(
            f.node.need_streams().unwrap().set_stream_size(f.who.actor(), &name("s"), size),
            Err(FsError::TooLarge)
        );
        assert_eq!(f.read("s").unwrap(), b"kept");
        assert_eq!(f.create(&"n".repeat(235)), Err(FsError::NameTooLong));
        f.create(&"n".repeat(234)).unwrap();
    }

    #[test]
    fn stream_continued_by_samba_is_rewritten_in_one() {
        let Some(f) = fixture() else { return };
        f.put_raw("user.DosStream.long:$DATA", b"abc\x02");
        f.put_raw("user.DosStreamExt.1.long:$DATA", b"def");
        f.put_raw("user.DosStreamExt.2.long:$DATA", b"g");
        assert_eq!(f.read("long").unwrap(), b"abcdefg");
        f.write("long", 1, b"X").unwrap();
        assert_eq!(f.raw("user.DosStream.long:$DATA").unwrap(), b"aXcdefg\0");
        assert_eq!(f.raw("user.DosStreamExt.1.long:$DATA"), None);
        f.put_raw("user.DosStream.long:$DATA", b"abc\x01");
        f.put_raw("user.DosStreamExt.1.long:$DATA", b"def");
        f.node.need_streams().unwrap().remove_stream(f.who.actor(), &name("long")).unwrap();
        assert_eq!(f.raw("user.DosStreamExt.1.long:$DATA"), None);
        assert_eq!(f.read("long"), Err(FsError::NotFound));
    }

    #[test]
    fn many_streams_are_all_listed() {
        let Some(f) = fixture() else { return };
        let names: Vec<String> = (10..50).map(|n| format!("stream {n}")).collect();
        for name in &names {
            f.create(name).unwrap();
        }
        let mut listed: Vec<_> =
            f.node.streams(f.who.actor()).unwrap().into_iter().map(|s| s.name).collect();
        listed.sort();
        assert_eq!(listed, names.iter().map(|n| name(n)).collect::<Vec<_>>());
    }

    #[test]
    fn stream_rename_replaces_only_if_permitted() {
        let Some(f) = fixture() else { return };
        f.create("a").unwrap();
        f.write("a", 0, b"data").unwrap();
        f.create("b").unwrap();
        let rename = |from, to, replace| {
            f.node.need_streams().unwrap().rename_stream(
                f.who.actor(),
                &name(from),
                &name(to),
                replace,
            )
        };
        assert_eq!(rename("a", "b", Replace::Never), Err(FsError::AlreadyExists));
        rename("a", "b", Replace::File).unwrap();
        assert_eq!(f.read("b").unwrap(), b"data");
        assert_eq!(rename("a", "c", Replace::Never), Err(FsError::NotFound));
        assert_eq!(f.node.streams(f.who.actor()).unwrap().len(), 1);
    }

    #[test]
    fn concurrent_stream_changes_lose_nothing() {
        let Some(f) = fixture() else { return };
        f.create("s").unwrap();
        std::thread::scope(|scope| {
            for at in 0..4u8 {
                let f = &f;
                scope.spawn(move || {
                    for round in 0..50 {
                        f.write("s", u64::from(at) + 4 * round, &[at + 1]).unwrap();
                    }
                });
            }
        });
        assert_eq!(f.read("s").unwrap(), [1, 2, 3, 4].repeat(50));
    }
}
