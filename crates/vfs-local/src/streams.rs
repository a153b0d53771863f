//! Named streams in the layout of Samba's `vfs_streams_xattr`: one extended
//! attribute `user.DosStream.NAME:$DATA` a stream, whose value is the data and
//! one byte more. That byte keeps empty streams apart from missing ones, and
//! counts the attributes `user.DosStreamExt.N.NAME:$DATA` in which Samba, where
//! it is told to, continues a long stream. Those are read; what is written
//! fits one attribute or is refused, for no Samba reads more by default.
//!
//! An attribute is replaced as a whole, so that a change of a part is reading,
//! changing and writing, one at a time for a node.

use crate::errors::refusal;
use crate::identity::{Acting, as_server};
use crate::node;
use crate::node::LocalNode;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::sync::{Mutex, MutexGuard, PoisonError};
use vfs::{Actor, Case, FileKey, FsError, Replace, Result, ServerWork, StreamEntry, StreamName};

const PREFIX: &[u8] = b"user.DosStream.";
const EXTENT_PREFIX: &str = "user.DosStreamExt.";
const TYPE: &[u8] = b":$DATA";
/// Longest name of an extended attribute on Linux.
const XATTR_NAME_BYTES_MAX: usize = 255;
/// Attributes in which Samba continues a stream, at most.
const EXTENTS_MAX: u8 = 15;
/// Longest stream: the largest extended attribute of Linux without the byte
/// behind the data. ext4 takes less, a block for all attributes of a file.
pub const STREAM_BYTES_MAX: u64 = node::XATTR_BYTES_MAX as u64 - 1;

/// Nodes whose streams may be changed at the same time.
const TURNS: usize = 16;
static TURN: [Mutex<()>; TURNS] = [const { Mutex::new(()) }; TURNS];

/// Who holds it may change streams of the node.
fn turn(key: FileKey) -> MutexGuard<'static, ()> {
    TURN[key.inode as usize % TURNS].lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether an attribute (without `user.`) is part of a stream.
pub fn is_stream(name: &[u8]) -> bool {
    name.starts_with(b"DosStream.") || name.starts_with(b"DosStreamExt.")
}

fn xattr_of(name: &StreamName) -> Result<Vec<u8>> {
    let full = [PREFIX, name.as_bytes(), TYPE].concat();
    if full.len() > XATTR_NAME_BYTES_MAX { Err(FsError::NameTooLong) } else { Ok(full) }
}

fn extent_of(name: &StreamName, number: u8) -> Vec<u8> {
    [format!("{EXTENT_PREFIX}{number}.").as_bytes(), name.as_bytes(), TYPE].concat()
}

fn refused(operation: &'static str, errno: Errno) -> FsError {
    match errno {
        // Larger than Linux takes; a file system that takes less says "no space".
        Errno::TOOBIG | Errno::RANGE => FsError::NoSpace,
        other => refusal(operation, other),
    }
}

/// A stream's data, and in how many further attributes it goes on.
struct Value {
    data: Vec<u8>,
    extents: u8,
}

/// Reads all of a stream, as whom the thread acts as.
fn load(node: &LocalNode, name: &StreamName) -> Result<Value> {
    let failed = |errno| refused("read stream", errno);
    let mut data = node.get_xattr(&*xattr_of(name)?).map_err(failed)?;
    let extents = data.pop().unwrap_or(0).min(EXTENTS_MAX);
    for number in 1..=extents {
        match node.get_xattr(&*extent_of(name, number)) {
            Ok(more) => data.extend_from_slice(&more),
            // Samba was interrupted while it wrote.
            Err(Errno::NODATA) => break,
            Err(errno) => return Err(failed(errno)),
        }
    }
    Ok(Value { data, extents })
}

/// Stores `data` as the whole stream, as whom the thread acts as.
fn store(node: &LocalNode, name: &StreamName, mut data: Vec<u8>, flags: XattrFlags) -> Result<()> {
    data.push(0);
    node.put_xattr(&*xattr_of(name)?, Some(&data), flags).map_err(|e| refused("write stream", e))
}

/// Removes what a longer stream went on in.
fn drop_extents(node: &LocalNode, name: &StreamName, count: u8) {
    for number in 1..=count {
        // Nothing refers to one that stays.
        let _ = node.put_xattr(&*extent_of(name, number), None, XattrFlags::empty());
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

fn entry(node: &LocalNode, name: StreamName) -> Result<StreamEntry> {
    let size_bytes = load(node, &name)?.data.len() as u64;
    Ok(StreamEntry { name, size_bytes })
}

/// See [`vfs::Node::streams`].
pub fn list(node: &LocalNode, who: Actor<'_>) -> Result<Vec<StreamEntry>> {
    // Linux asks nobody for a right to names, but to lengths.
    let names = names(node)?;
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let _acting = Acting::begin(who)?;
    // Gone since it was listed is as good as not listed.
    let entries = names.into_iter().map(|name| entry(node, name));
    entries.filter(|e| !matches!(e, Err(FsError::NotFound))).collect()
}

/// See [`vfs::Node::find_stream`].
pub fn find(node: &LocalNode, who: Actor<'_>, name: &StreamName, how: Case) -> Result<StreamEntry> {
    let _acting = Acting::begin(who)?;
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

/// See [`vfs::Node::create_stream`].
pub fn create(node: &LocalNode, who: Actor<'_>, name: &StreamName, how: Case) -> Result<()> {
    let _turn = turn(node.key);
    // Whether the name is taken is told to all who may look at the file.
    match find(node, Actor::server(ServerWork::Metadata), name, how) {
        Ok(_) => return Err(FsError::AlreadyExists),
        Err(FsError::NotFound) => {}
        Err(error) => return Err(error),
    }
    let _acting = Acting::begin(who)?;
    store(node, name, Vec::new(), XattrFlags::CREATE)
}

/// See [`vfs::Node::read_stream`].
pub fn read(
    node: &LocalNode,
    who: Actor<'_>,
    name: &StreamName,
    offset: u64,
    length: usize,
    into: &mut Vec<u8>,
) -> Result<usize> {
    let _acting = Acting::begin(who)?;
    let data = load(node, name)?.data;
    let start = usize::try_from(offset).unwrap_or(usize::MAX).min(data.len());
    let count = length.min(data.len() - start);
    into.extend_from_slice(&data[start..start + count]);
    Ok(count)
}

/// Replaces a stream by what `change` makes of it.
fn modify(
    node: &LocalNode,
    who: Actor<'_>,
    name: &StreamName,
    change: impl FnOnce(&mut Vec<u8>),
) -> Result<()> {
    let _turn = turn(node.key);
    // Who may write need not be able to read, and is not shown anything.
    let Value { mut data, extents } = as_server(ServerWork::Metadata, || load(node, name))?;
    change(&mut data);
    let _acting = Acting::begin(who)?;
    store(node, name, data, XattrFlags::REPLACE)?;
    drop_extents(node, name, extents);
    Ok(())
}

/// See [`vfs::Node::write_stream`].
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
    let end = end.ok_or(FsError::NoSpace)? as usize;
    modify(node, who, name, |data| {
        data.resize(data.len().max(end), 0);
        data[end - written.len()..end].copy_from_slice(written);
    })
}

/// See [`vfs::Node::set_stream_size`].
pub fn set_size(node: &LocalNode, who: Actor<'_>, name: &StreamName, size: u64) -> Result<()> {
    if size > STREAM_BYTES_MAX {
        return Err(FsError::NoSpace);
    }
    modify(node, who, name, |data| data.resize(size as usize, 0))
}

/// See [`vfs::Node::remove_stream`].
pub fn remove(node: &LocalNode, who: Actor<'_>, name: &StreamName) -> Result<()> {
    let _turn = turn(node.key);
    let extents = as_server(ServerWork::Metadata, || load(node, name))?.extents;
    let _acting = Acting::begin(who)?;
    take_away(node, name, extents)
}

fn take_away(node: &LocalNode, name: &StreamName, extents: u8) -> Result<()> {
    node.put_xattr(&*xattr_of(name)?, None, XattrFlags::empty())
        .map_err(|e| refused("remove stream", e))?;
    drop_extents(node, name, extents);
    Ok(())
}

/// See [`vfs::Node::rename_stream`]. Whoever looks meanwhile may see both names,
/// never none.
pub fn rename(
    node: &LocalNode,
    who: Actor<'_>,
    from: &StreamName,
    to: &StreamName,
    replace: Replace,
) -> Result<()> {
    let _turn = turn(node.key);
    let value = as_server(ServerWork::Metadata, || load(node, from))?;
    let replaced = as_server(ServerWork::Metadata, || Ok(load(node, to).map_or(0, |v| v.extents)))?;
    let _acting = Acting::begin(who)?;
    let flags = if replace == Replace::Never { XattrFlags::CREATE } else { XattrFlags::empty() };
    store(node, to, value.data, flags)?;
    drop_extents(node, to, replaced);
    take_away(node, from, value.extents)
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

    /// A file `f`, unless extended attributes cannot be stored here.
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
            self.node.create_stream(self.who.actor(), &name(text), Case::Insensitive)
        }

        fn write(&self, text: &str, offset: u64, data: &[u8]) -> Result<()> {
            self.node.write_stream(self.who.actor(), &name(text), offset, data)
        }

        fn read(&self, text: &str) -> Result<Vec<u8>> {
            let mut into = Vec::new();
            self.node.read_stream(self.who.actor(), &name(text), 0, 1 << 20, &mut into)?;
            Ok(into)
        }

        /// An attribute, looked at by another way than the code under test.
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
        f.node.set_stream_size(f.who.actor(), &name("Zone.Identifier"), 3).unwrap();
        assert_eq!(f.raw("user.DosStream.Zone.Identifier:$DATA").unwrap(), b"\0\0a\0");
        f.put_raw("user.DosStream.by samba:$DATA", b"data\0");
        assert_eq!(f.read("by samba").unwrap(), b"data");
        let mut all = f.node.streams(f.who.actor()).unwrap();
        all.sort_by(|a, b| a.name.cmp(&b.name));
        let shown: Vec<_> = all.iter().map(|s| (s.name.as_bytes(), s.size_bytes)).collect();
        assert_eq!(shown, [(&b"Zone.Identifier"[..], 3), (b"by samba", 4)]);
        assert_eq!(
            f.node.xattr_names(f.who.actor()).unwrap(),
            [],
            "they are not shown as attributes"
        );
    }

    #[test]
    fn a_stream_is_found_in_any_case_and_made_once() {
        let Some(f) = fixture() else { return };
        f.create("Name").unwrap();
        assert_eq!(f.create("NAME"), Err(FsError::AlreadyExists));
        let found = f.node.find_stream(f.who.actor(), &name("nAME"), Case::Insensitive).unwrap();
        assert_eq!(found, StreamEntry { name: name("Name"), size_bytes: 0 });
        let exact = f.node.find_stream(f.who.actor(), &name("nAME"), Case::Sensitive);
        assert_eq!(exact, Err(FsError::NotFound));
    }

    #[test]
    fn what_does_not_fit_is_refused_whole() {
        let Some(f) = fixture() else { return };
        f.create("s").unwrap();
        f.write("s", 0, b"kept").unwrap();
        let large = vec![1; STREAM_BYTES_MAX as usize];
        assert_eq!(f.write("s", 1, &large), Err(FsError::NoSpace));
        assert_eq!(f.write("s", u64::MAX - 1, b"abc"), Err(FsError::NoSpace));
        let size = STREAM_BYTES_MAX + 1;
        assert_eq!(f.node.set_stream_size(f.who.actor(), &name("s"), size), Err(FsError::NoSpace));
        assert_eq!(f.read("s").unwrap(), b"kept");
        assert_eq!(f.create(&"n".repeat(235)), Err(FsError::NameTooLong));
        f.create(&"n".repeat(234)).unwrap();
    }

    #[test]
    fn a_stream_that_samba_continued_is_read_and_written_in_one() {
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
        f.node.remove_stream(f.who.actor(), &name("long")).unwrap();
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
    fn a_renamed_stream_replaces_only_where_it_may() {
        let Some(f) = fixture() else { return };
        f.create("a").unwrap();
        f.write("a", 0, b"data").unwrap();
        f.create("b").unwrap();
        let rename = |from, to, replace| {
            f.node.rename_stream(f.who.actor(), &name(from), &name(to), replace)
        };
        assert_eq!(rename("a", "b", Replace::Never), Err(FsError::AlreadyExists));
        rename("a", "b", Replace::File).unwrap();
        assert_eq!(f.read("b").unwrap(), b"data");
        assert_eq!(rename("a", "c", Replace::Never), Err(FsError::NotFound));
        assert_eq!(f.node.streams(f.who.actor()).unwrap().len(), 1);
    }

    #[test]
    fn changes_at_the_same_time_lose_nothing() {
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
