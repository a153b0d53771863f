//! The backend's interface of open files and directories.

use crate::attribute_calls::{XATTR_BYTES_MAX, restore_dos, stat, store_dos, timespec};
use crate::compression::set_compressed;
use crate::dos_attributes;
use crate::errors::refusal;
use crate::identity::{IdentityGuard, may_switch};
use crate::local_node::{LocalNode, sync_looked_at};
use crate::resident::{is_all_in_memory, is_cached, is_of_memory, last_errno, read_some};
use crate::stream_store::reserved::is_store_name;
use crate::unreported_change::UnreportedChange;
use crate::xattr_names::{is_private, user_name, users_name};
use crate::{listing, noatime, posix_acl, security, stream_store, streams, times};
use rustix::fd::{AsFd, AsRawFd, BorrowedFd};
use rustix::fs::{AtFlags, FallocateFlags, Mode, OFlags, SeekFrom, Timestamps, XattrFlags};
use rustix::io::Errno;
use std::sync::Arc;
use vfs::{
    Actor, AttributeChanges, AttributeRequest, Attributes, Case, DirEntry, ExclusiveCreation,
    ExtendedAttributes, FileExtents, FileKey, FileKind, FsError, ListSink, ListingRequest,
    LocalFile, Name, NamedStreams, Node, OwnerChange, PosixAcl, ReparseData, Replace, Result,
    SecurityChange, ServerWork, StreamEntry, StreamName, TimeChange, Wait, XattrName,
};

/// Buffer for the names of a listed file's extended attributes.
const CHILD_NAMES_BYTES_MAX: usize = 1024;
/// Samba's extended attribute for reparse data.
const REPARSE_NAME: &str = "user.SmbReparse";
/// Extended attribute with the verifier of an exclusive create.
const VERIFIER_NAME: &str = "user.anabranch.verifier";
/// Maximum number of bytes that one call copies before other work gets its turn.
const COPY_BYTES_MAX: u64 = 64 * 1024 * 1024;

impl Node for LocalNode {
    fn key(&self) -> FileKey {
        self.key
    }

    fn kind(&self) -> FileKind {
        self.kind
    }

    fn attributes(&self, wanted: AttributeRequest) -> Result<Attributes> {
        stat(self.fd.as_fd(), c"", wanted, self.path_only)
    }

    fn set_attributes(&self, who: Actor<'_>, changes: &AttributeChanges) -> Result<()> {
        if who.withholds(changes) {
            return Err(FsError::AccessDenied);
        }
        let _acting = IdentityGuard::begin(who)?;
        let _change = vfs::freshness::begin_change();
        // The kernel permits setting the access time alone to every reader.
        let alone = changes.accessed != TimeChange::Keep && changes.modified == TimeChange::Keep;
        let _change = (alone || self.is_unreported).then(UnreportedChange::begin);
        let path = self.proc_path();
        if changes.mode.is_some() || changes.owner != OwnerChange::default() {
            let _changing = security::lock(self.key);
            self.change_rights(changes)?;
        }
        // Other node types have no user extended attributes (xattr(7)), and report their own type
        // in any case.
        let has_place = matches!(self.kind, FileKind::File | FileKind::Directory);
        let dos = changes.dos.filter(|_| has_place);
        let changed = changes.changed.filter(|_| has_place);
        let _merging =
            (dos.is_some() || changed.is_some()).then(|| dos_attributes::lock_of(self.key.inode));
        let is_alone = *changes == AttributeChanges { changed, ..AttributeChanges::default() };
        if let Some(shown) = changed
            && !is_alone
            && !may_switch()
        {
            // This process may lack the permissions of an extended attribute, which no time needs.
            // Tried before the others change: a request sets all of its times or none.
            times::store_change_time(self.fd.as_fd(), self.path_only, shown, is_alone)?;
        }
        let store = |dos| store_dos(self.fd.as_fd(), self.path_only, &dos);
        let former = dos.map(store).transpose()?;
        // Times come last, because the other changes would move them.
        if changes.accessed != TimeChange::Keep || changes.modified != TimeChange::Keep {
            let times = Timestamps {
                last_access: timespec(changes.accessed),
                last_modification: timespec(changes.modified),
            };
            let set = |times: &Timestamps| {
                rustix::fs::utimensat(rustix::fs::CWD, &*path, times, AtFlags::empty())
                    .map_err(|error| refusal("set times", error))
            };
            // The creation time is among them, so either all times are set, or none.
            times::set_nearest(self.fd.as_fd(), &times, set).inspect_err(|_| {
                former.iter().for_each(|it| restore_dos(self.fd.as_fd(), self.path_only, it));
            })?;
        }
        let Some(shown) = changed else { return Ok(()) };
        // Stored last, because every later change would invalidate it.
        times::store_change_time(self.fd.as_fd(), self.path_only, shown, is_alone)
    }

    fn read(&self, offset: u64, length: usize, into: &mut Vec<u8>, wait: Wait) -> Result<usize> {
        let fd = self.file()?;
        let start = into.len();
        into.reserve(length);
        let mut done = 0;
        let mut flags = if wait == Wait::Never { libc::RWF_NOWAIT } else { 0 };
        while done < length {
            match read_some(fd, offset + done as u64, length - done, into, flags) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                // The file system does not support non-blocking reads, and memory needs none.
                Err(Errno::OPNOTSUPP) if flags != 0 && is_all_in_memory(fd, offset, length) => {
                    flags = 0;
                }
                Err(errno) => {
                    into.truncate(start);
                    return Err(refusal("read", errno));
                }
            }
        }
        Ok(done)
    }

    fn write(&self, who: Actor<'_>, offset: u64, data: &[u8]) -> Result<()> {
        let fd = self.file()?;
        let _acting = IdentityGuard::on_open_file(who, || self.unmarked.is_marked(fd.as_fd()))?;
        let _change = self.unreported_change();
        let mut done = 0;
        while done < data.len() {
            match rustix::io::pwrite(fd, &data[done..], offset + done as u64) {
                Ok(0) => return Err(FsError::NoSpace),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(refusal("write", errno)),
            }
        }
        Ok(())
    }

    fn append(&self, who: Actor<'_>, data: &[u8]) -> Result<()> {
        let fd = self.file()?;
        let _acting = IdentityGuard::on_open_file(who, || self.unmarked.is_marked(fd.as_fd()))?;
        let _change = self.unreported_change();
        let mut rest = data;
        while !rest.is_empty() {
            // The kernel determines the end and writes under one lock.
            let part = [std::io::IoSlice::new(rest)];
            match rustix::io::pwritev2(fd, &part, 0, rustix::io::ReadWriteFlags::APPEND) {
                Ok(0) => return Err(FsError::NoSpace),
                Ok(count) => rest = &rest[count..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(refusal("append", errno)),
            }
        }
        Ok(())
    }

    fn sync(&self, who: Actor<'_>, data_only: bool) -> Result<()> {
        // The attributes that refer to long streams count as this file's metadata.
        let data_only = !streams::sync(self, data_only)? && data_only;
        let result = match self.kind {
            FileKind::File | FileKind::Directory if !self.path_only => match data_only {
                true => rustix::fs::fdatasync(&self.fd),
                false => rustix::fs::fsync(&self.fd),
            },
            FileKind::Directory => rustix::fs::fsync(self.syncing(who)?),
            kind => {
                let _acting = IdentityGuard::begin(who)?;
                sync_looked_at(self.fd.as_fd(), kind)
            }
        };
        match result {
            // EINVAL: the node does not support syncing.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            // Linux remounts a file system read-only after an error, so EROFS means lost data.
            Err(Errno::ROFS) => Err(refusal("sync", Errno::IO)),
            Err(errno) => Err(refusal("sync", errno)),
        }
    }

    fn set_size(&self, who: Actor<'_>, size_bytes: u64) -> Result<()> {
        let _acting = IdentityGuard::begin(who)?;
        let _change = self.unreported_change();
        let result = rustix::fs::ftruncate(self.file()?, size_bytes);
        result
            .map_err(|e| if e == Errno::INVAL { FsError::TooLarge } else { refusal("truncate", e) })
    }

    fn copy_range(
        &self,
        who: Actor<'_>,
        offset: u64,
        source: &dyn Node,
        source_offset: u64,
        length: u64,
    ) -> Result<u64> {
        let _acting = IdentityGuard::begin(who)?;
        let source = Self::of(source).ok_or(FsError::NotSupported)?;
        let _change = self.unreported_change();
        let (mut from, mut to) = (source_offset, offset);
        let length = usize::try_from(length.min(COPY_BYTES_MAX)).unwrap_or(usize::MAX);
        let copied = rustix::fs::copy_file_range(
            source.file()?,
            Some(&mut from),
            self.file()?,
            Some(&mut to),
            length,
        );
        match copied {
            Ok(count) => Ok(count as u64),
            Err(Errno::XDEV | Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS) => {
                let mut buffer = Vec::new();
                let count =
                    source.read(source_offset, length.min(1 << 20), &mut buffer, Wait::Allowed)?;
                self.write(who, offset, &buffer)?;
                Ok(count as u64)
            }
            Err(errno) => Err(refusal("copy", errno)),
        }
    }

    fn readdir(&self, cookie: u64, each: &mut dyn FnMut(DirEntry) -> bool) -> Result<bool> {
        listing::names(self, cookie, each)
    }

    fn readdir_with_attributes(
        &self,
        who: Actor<'_>,
        cookie: u64,
        wanted: ListingRequest,
        sink: &mut dyn ListSink,
    ) -> Result<bool> {
        listing::with_attributes(self, who, cookie, wanted, sink)
    }

    fn child_attributes(
        &self,
        who: Actor<'_>,
        name: &Name,
        wanted: AttributeRequest,
    ) -> Result<Attributes> {
        if is_store_name(name.as_bytes()) {
            return Err(FsError::NotFound);
        }
        let _acting = IdentityGuard::begin(who)?;
        let name = std::ffi::CString::new(name.as_bytes()).map_err(|_| FsError::InvalidName)?;
        stat(self.fd.as_fd(), &name, wanted, self.path_only)
    }

    fn readlink(&self, who: Actor<'_>) -> Result<Vec<u8>> {
        if self.kind != FileKind::Symlink {
            return Err(FsError::NotSupported);
        }
        let _acting = IdentityGuard::begin(who)?;
        let target = rustix::fs::readlinkat(&self.fd, c"", Vec::new())
            .map_err(|e| refusal("read link", e))?;
        Ok(target.into_bytes())
    }

    fn security_descriptor(&self) -> Result<Option<Vec<u8>>> {
        security::load(self)
    }

    fn posix_acl(&self) -> Result<Option<PosixAcl>> {
        posix_acl::load(self)
    }

    fn set_security(&self, who: Actor<'_>, change: &SecurityChange<'_>) -> Result<()> {
        let _change = vfs::freshness::begin_change();
        let stored = security::store(self, who, change);
        stream_store::record_known_rights(self);
        stored
    }

    fn file_extents(&self) -> Option<&dyn FileExtents> {
        Some(self)
    }

    fn named_streams(&self) -> Option<&dyn NamedStreams> {
        Some(self)
    }

    fn extended_attributes(&self) -> Option<&dyn ExtendedAttributes> {
        Some(self)
    }

    fn reparse_store(&self) -> Option<&dyn ReparseData> {
        Some(self)
    }

    fn exclusive_creation(&self) -> Option<&dyn ExclusiveCreation> {
        Some(self)
    }

    fn local_file(&self) -> Option<&dyn LocalFile> {
        Some(self)
    }

    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}

impl ReparseData for LocalNode {
    fn reparse_data(&self, who: Actor<'_>) -> Result<Vec<u8>> {
        let _acting = IdentityGuard::begin(who)?;
        match self.get_xattr(REPARSE_NAME) {
            Ok(value) => Ok(value),
            Err(Errno::NODATA | Errno::OPNOTSUPP | Errno::PERM) => Err(FsError::NotFound),
            Err(errno) => Err(refusal("get reparse data", errno)),
        }
    }

    fn set_reparse_data(&self, who: Actor<'_>, data: Option<&[u8]>) -> Result<()> {
        let _acting = IdentityGuard::begin(who)?;
        match self.put_xattr(REPARSE_NAME, data, XattrFlags::empty()) {
            Ok(()) => Ok(()),
            Err(Errno::NODATA) if data.is_none() => Ok(()),
            Err(errno) => Err(refusal("set reparse data", errno)),
        }
    }
}

impl ExclusiveCreation for LocalNode {
    fn verifier(&self, who: Actor<'_>) -> Result<[u8; 8]> {
        let _acting = IdentityGuard::begin(who)?;
        let value = self.get_xattr(VERIFIER_NAME).map_err(|_| FsError::NotFound)?;
        value.try_into().map_err(|_| FsError::NotFound)
    }

    fn set_verifier(&self, who: Actor<'_>, verifier: [u8; 8]) -> Result<()> {
        let _acting = IdentityGuard::begin(who)?;
        match self.put_xattr(VERIFIER_NAME, Some(&verifier), XattrFlags::empty()) {
            Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
            Err(errno) => Err(refusal("set verifier", errno)),
        }
    }
}

impl ExtendedAttributes for LocalNode {
    fn xattr_names(&self, who: Actor<'_>) -> Result<Vec<XattrName>> {
        let _acting = IdentityGuard::begin(who)?;
        let listed = self.list_xattrs().map_err(|e| refusal("list attributes", e))?;
        Ok(listed.split(|&b| b == 0).filter_map(users_name).collect())
    }

    fn child_xattrs(&self, who: Actor<'_>, name: &Name) -> Vec<(XattrName, usize)> {
        let Ok(child) = std::str::from_utf8(name.as_bytes()) else { return Vec::new() };
        let Ok(_acting) = IdentityGuard::begin(who) else { return Vec::new() };
        let path = format!("{}/{child}", self.proc_path());
        // A longer list is rare, and treated as empty.
        let mut listed = [0u8; CHILD_NAMES_BYTES_MAX];
        let Ok(length) = rustix::fs::llistxattr(&*path, &mut listed[..]) else { return Vec::new() };
        let names = listed[..length].split(|&b| b == 0).filter_map(users_name);
        let read = |name: &[u8], room: &mut [u8]| rustix::fs::lgetxattr(&*path, name, room);
        let length_of = |name: &XattrName| {
            let name = user_name(name);
            match read(&name, &mut [0u8; 256]) {
                Err(Errno::RANGE) => read(&name, &mut vec![0; XATTR_BYTES_MAX]).ok(),
                other => other.ok(),
            }
        };
        names.filter_map(|name| length_of(&name).map(|length| (name, length))).collect()
    }

    fn xattr(&self, who: Actor<'_>, name: &XattrName) -> Result<Vec<u8>> {
        if is_private(name.as_bytes()) {
            return Err(FsError::NotFound);
        }
        let _acting = IdentityGuard::begin(who)?;
        self.get_xattr(user_name(name).as_slice()).map_err(|e| refusal("get attribute", e))
    }

    fn set_xattr(&self, who: Actor<'_>, name: &XattrName, value: Option<&[u8]>) -> Result<()> {
        if is_private(name.as_bytes()) {
            return Err(FsError::AccessDenied);
        }
        let _acting = IdentityGuard::begin(who)?;
        match self.put_xattr(user_name(name).as_slice(), value, XattrFlags::empty()) {
            Ok(()) => Ok(()),
            Err(Errno::NODATA) if value.is_none() => Ok(()),
            Err(Errno::NOSPC) if self.has_free_blocks() => Err(FsError::TooLarge),
            Err(Errno::RANGE | Errno::TOOBIG) => Err(FsError::TooLarge),
            Err(errno) => Err(refusal("set attribute", errno)),
        }
    }
}

impl NamedStreams for LocalNode {
    fn streams(&self, who: Actor<'_>) -> Result<Vec<StreamEntry>> {
        streams::list(self, who)
    }

    fn find_stream(&self, who: Actor<'_>, name: &StreamName, case: Case) -> Result<StreamEntry> {
        streams::find(self, who, name, case)
    }

    fn create_stream(&self, who: Actor<'_>, name: &StreamName, case: Case) -> Result<()> {
        streams::create(self, who, name, case)
    }

    fn read_stream(
        &self,
        who: Actor<'_>,
        name: &StreamName,
        offset: u64,
        length: usize,
        into: &mut Vec<u8>,
    ) -> Result<usize> {
        streams::read(self, who, name, offset, length, into)
    }

    fn write_stream(
        &self,
        who: Actor<'_>,
        name: &StreamName,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        streams::write(self, who, name, offset, data)
    }

    fn stream_data(
        &self,
        who: Actor<'_>,
        name: &StreamName,
        writes: bool,
    ) -> Result<Option<Arc<dyn Node>>> {
        streams::data(self, who, name, writes)
    }

    fn set_stream_size(&self, who: Actor<'_>, name: &StreamName, size_bytes: u64) -> Result<()> {
        streams::set_size(self, who, name, size_bytes)
    }

    fn remove_stream(&self, who: Actor<'_>, name: &StreamName) -> Result<()> {
        streams::remove(self, who, name)
    }

    fn rename_stream(
        &self,
        who: Actor<'_>,
        from: &StreamName,
        to: &StreamName,
        replace: Replace,
    ) -> Result<()> {
        streams::rename(self, who, from, to, replace)
    }
}

impl LocalFile for LocalNode {
    fn noatime(&self, work: ServerWork) -> Result<Arc<dyn Node>> {
        if !matches!(self.kind, FileKind::File | FileKind::Directory) {
            return Err(FsError::NotSupported);
        }
        let fd = noatime::reopen(self.fd.as_fd(), work)?;
        let (mut node, _) = Self::new(fd, false, true, AttributeRequest::default())?;
        node.is_unreported |= self.is_unreported;
        Ok(Arc::new(node))
    }

    fn is_noatime(&self) -> bool {
        noatime::is_noatime(self.fd.as_fd())
    }

    fn advance_access_time(&self, work: ServerWork) -> Result<()> {
        if self.kind != FileKind::File {
            return Err(FsError::NotSupported);
        }
        noatime::advance(self.fd.as_fd(), work)
    }

    fn sendfile_source(&self) -> Option<BorrowedFd<'_>> {
        self.readable.then(|| self.fd.as_fd())
    }

    fn is_resident(&self, offset: u64, length: usize) -> bool {
        self.readable && is_cached(&self.fd, offset, length)
    }

    fn syncs_without_waiting(&self) -> bool {
        // tmpfs has no device; the check skips file systems with one.
        let has_device = rustix::fs::major(self.key.device) != 0;
        !has_device && *self.of_memory.get_or_init(|| is_of_memory(&self.fd))
    }
}

impl FileExtents for LocalNode {
    fn allocate(&self, who: Actor<'_>, offset: u64, length: u64) -> Result<()> {
        let _acting = IdentityGuard::begin(who)?;
        let _change = self.unreported_change();
        rustix::fs::fallocate(self.file()?, FallocateFlags::KEEP_SIZE, offset, length)
            .map_err(|e| refusal("allocate", e))
    }

    fn allocate_and_grow(&self, who: Actor<'_>, offset: u64, length: u64) -> Result<()> {
        let _acting = IdentityGuard::begin(who)?;
        let _change = self.unreported_change();
        // The kernel compares the length and extends the file under one lock.
        rustix::fs::fallocate(self.file()?, FallocateFlags::empty(), offset, length)
            .map_err(|e| refusal("allocate", e))
    }

    fn punch_hole(&self, who: Actor<'_>, offset: u64, length: u64) -> Result<()> {
        let _acting = IdentityGuard::begin(who)?;
        let _change = self.unreported_change();
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(self.file()?, flags, offset, length)
            .map_err(|e| refusal("punch hole", e))
    }

    fn seek_data(&self, offset: u64) -> Result<Option<(u64, u64)>> {
        let fd = self.file()?;
        let start = match rustix::fs::seek(fd, SeekFrom::Data(offset)) {
            Ok(start) => start,
            Err(Errno::NXIO) => return Ok(None),
            Err(errno) => return Err(refusal("seek data", errno)),
        };
        let end =
            rustix::fs::seek(fd, SeekFrom::Hole(start)).map_err(|e| refusal("seek hole", e))?;
        Ok(Some((start, end)))
    }

    fn clone_range(
        &self,
        who: Actor<'_>,
        offset: u64,
        source: &dyn Node,
        source_offset: u64,
        length: u64,
    ) -> Result<()> {
        let _acting = IdentityGuard::begin(who)?;
        let source = Self::of(source).ok_or(FsError::NotSupported)?;
        let _change = self.unreported_change();
        let range = libc::file_clone_range {
            src_fd: i64::from(source.file()?.as_raw_fd()),
            src_offset: source_offset,
            src_length: length,
            dest_offset: offset,
        };
        // SAFETY: the request reads one `file_clone_range` from the pointer, which lives until the
        // call returns; both descriptors are open.
        let result = unsafe { libc::ioctl(self.file()?.as_raw_fd(), libc::FICLONERANGE, &range) };
        match if result == 0 { Ok(()) } else { Err(last_errno()) } {
            Err(Errno::XDEV) => Err(FsError::CrossDevice),
            other => other.map_err(|e| refusal("clone", e)),
        }
    }

    fn set_compressed(&self, who: Actor<'_>, compressed: bool) -> Result<()> {
        let _acting = IdentityGuard::begin(who)?;
        // The kernel notifies no directory of flag changes.
        let _change = UnreportedChange::begin();
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let reopened =
            self.path_only.then(|| rustix::fs::open(self.proc_path(), flags, Mode::empty()));
        let reopened = reopened.transpose().map_err(|e| refusal("open", e))?;
        let fd = reopened.as_ref().map_or(self.fd.as_fd(), AsFd::as_fd);
        set_compressed(fd, compressed).map_err(|e| refusal("set compression", e))
    }
}
