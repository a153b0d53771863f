//! Files of an export, by path: the programs' interface.

use super::client::{NfsClient, SequencedReply, refused};
use crate::error::Error;
use bytes::Bytes;
use std::collections::HashMap;
use std::sync::Arc;
use sync::Mutex;
use wire::nfs::attributes::{NfsAttributes, attribute};
use wire::nfs::ops::{
    CloseArgs, CommitArgs, CreateArgs, CreateResult, CreateType, GetAttrArgs, LookupArgs,
    NfsCreateHow, NfsOpenHow, NfsOpenResult, OpenArgs, OpenClaim, PutFhArgs, ReadArgs, ReadDirArgs,
    ReadDirResult, ReadResult, RemoveArgs, SetAttrArgs, SetAttrReply, ShareAccess, ShareDeny,
    WriteArgs, WriteResult,
};
use wire::nfs::xdr::Opaque;
use wire::nfs::{
    Bitmap4, ChangeInfo, Fattr, FileHandle, FileType, NfsStatus, NfsTime, Operation,
    OperationNumber, ResultBody, StableHow, StateId, StateOwner, Verifier,
};

/// Maximum number of cached directory handles.
const DIRECTORIES_MAX: usize = 65_536;

/// Maximum number of components in a path.
const PATH_COMPONENTS_MAX: usize = 64;

/// Maximum length of one READDIR reply.
const READDIR_BYTES: u32 = 256 * 1024;

/// Attributes requested by a listing: those of `ls -l`.
pub(super) const LISTED: Bitmap4 = Bitmap4::of(&[
    attribute::FILE_TYPE,
    attribute::CHANGE,
    attribute::SIZE,
    attribute::FSID,
    attribute::FILEID,
    attribute::MODE,
    attribute::NUMLINKS,
    attribute::OWNER,
    attribute::OWNER_GROUP,
    attribute::SPACE_USED,
    attribute::TIME_ACCESS,
    attribute::TIME_METADATA,
    attribute::TIME_MODIFY,
]);

/// The additional attribute that a kernel client requests, because it accesses files by handle.
const HANDLES: Bitmap4 = Bitmap4::of(&[attribute::FILEHANDLE]);

/// A directory of a server, the origin of paths. Clones share the handle cache.
#[derive(Clone, Debug)]
pub struct NfsExport {
    client: NfsClient,
    root: FileHandle,
    directories: Arc<Mutex<HashMap<Vec<u8>, FileHandle>>>,
}

/// Create mode of an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// The file must exist.
    Open,
    /// Creates the file if it does not exist.
    OpenOrCreate,
    /// Creates the file; it must not exist.
    Create,
}

/// An open file.
#[derive(Debug)]
pub struct NfsFile {
    pub(super) handle: FileHandle,
    pub(super) state_id: StateId,
}

/// An entry of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NfsDirectoryEntry {
    /// Name; a server may list names that are not UTF-8.
    pub name: Vec<u8>,
    /// File id.
    pub id: u64,
    /// True for a directory.
    pub is_directory: bool,
    /// Length, in bytes.
    pub size_bytes: u64,
    /// Bytes of storage, if the server reports them.
    pub used_bytes: Option<u64>,
    /// File type.
    pub kind: FileType,
    /// Change attribute.
    pub change: u64,
    /// Permission bits.
    pub mode: u32,
    /// Access and modification time.
    pub times: [NfsTime; 2],
}

impl NfsDirectoryEntry {
    /// The name as text; what is not UTF-8 is replaced.
    #[must_use]
    pub fn name_text(&self) -> String {
        String::from_utf8_lossy(&self.name).into_owned()
    }
}

pub(super) fn put(handle: &FileHandle) -> Operation<'static> {
    Operation::PutFh(PutFhArgs { object: *handle })
}

/// The result of one operation of a reply, after the successful operations of `before`.
pub(super) fn result<'a, T>(
    answer: &'a SequencedReply,
    before: &[OperationNumber],
    number: OperationNumber,
) -> Result<T, Error>
where
    Result<T, NfsStatus>: ResultBody<'a>,
{
    let mut results = answer.results()?;
    for number in before {
        results.succeed::<()>(*number).map_err(refused(*number))?;
    }
    results.succeed(number).map_err(refused(number))
}

pub(super) const PUT: &[OperationNumber] = &[OperationNumber::PUTFH];

impl NfsExport {
    /// Opens the directory of this path on the server.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn open(client: NfsClient, path: &str) -> Result<Self, Error> {
        let root = walk(&client, None, path.as_bytes()).await?;
        Ok(Self { client, root, directories: Arc::default() })
    }

    /// The client.
    #[must_use]
    pub fn client(&self) -> &NfsClient {
        &self.client
    }

    /// The handle of a directory, from the cache or the server.
    pub(super) async fn directory(&self, path: &[u8]) -> Result<FileHandle, Error> {
        if path.is_empty() {
            return Ok(self.root);
        }
        if let Some(handle) = self.directories.lock().get(path) {
            return Ok(*handle);
        }
        let handle = walk(&self.client, Some(self.root), path).await?;
        self.remember(path, handle);
        Ok(handle)
    }

    fn remember(&self, path: &[u8], handle: FileHandle) {
        let mut directories = self.directories.lock();
        if directories.len() < DIRECTORIES_MAX {
            directories.insert(path.to_owned(), handle);
        }
    }

    /// The parent directory of a path, and the last component.
    pub(super) async fn parent<'p>(&self, path: &'p [u8]) -> Result<(FileHandle, &'p [u8]), Error> {
        let (folder, name) = split(path);
        Ok((self.directory(folder).await?, name))
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn make_directory(&self, path: impl AsRef<[u8]>) -> Result<(), Error> {
        let (parent, name) = self.parent(path.as_ref()).await?;
        let mode = NfsAttributes { mode: Some(0o755), ..NfsAttributes::default() };
        let mut buffer = Vec::new();
        let attributes = mode.to_fattr(&mut buffer);
        let create =
            Operation::Create(CreateArgs { object_type: CreateType::Directory, name, attributes });
        let answer = self.client.compound(&[put(&parent), create, Operation::GetFh]).await?;
        let mut results = answer.results()?;
        for_put(&mut results)?;
        let number = OperationNumber::CREATE;
        results.succeed::<CreateResult>(number).map_err(refused(number))?;
        let number = OperationNumber::GETFH;
        let handle = results.succeed(number).map_err(refused(number))?;
        self.remember(path.as_ref(), handle);
        Ok(())
    }

    /// Opens a file for reading and writing, or creates it.
    ///
    /// # Errors
    /// See [`NfsExport::make_directory`].
    pub async fn open_file(
        &self,
        path: impl AsRef<[u8]>,
        disposition: Disposition,
    ) -> Result<NfsFile, Error> {
        let (parent, name) = self.parent(path.as_ref()).await?;
        let mode = NfsAttributes { mode: Some(0o644), ..NfsAttributes::default() };
        let mut buffer = Vec::new();
        let attributes = mode.to_fattr(&mut buffer);
        let how = match disposition {
            Disposition::Open => NfsOpenHow::NoCreate,
            Disposition::OpenOrCreate => NfsOpenHow::Create(NfsCreateHow::Unchecked(attributes)),
            Disposition::Create => NfsOpenHow::Create(NfsCreateHow::Guarded(attributes)),
        };
        let open = Operation::Open(OpenArgs {
            sequence_id: 0,
            share_access: ShareAccess::BOTH | ShareAccess::WANT_NO_DELEG,
            share_deny: ShareDeny(0),
            owner: StateOwner { client_id: self.client.id(), owner: Opaque(b"anabranch") },
            how,
            claim: OpenClaim::Null(name),
        });
        // The Linux client requests these attributes with an open.
        let attributes = Operation::GetAttr(GetAttrArgs { requested: LISTED });
        let operations = [put(&parent), open, Operation::GetFh, attributes];
        let answer = self.client.compound(&operations).await?;
        let mut results = answer.results()?;
        for_put(&mut results)?;
        let number = OperationNumber::OPEN;
        let opened: NfsOpenResult<'_> = results.succeed(number).map_err(refused(number))?;
        let number = OperationNumber::GETFH;
        let handle = results.succeed(number).map_err(refused(number))?;
        Ok(NfsFile { handle, state_id: opened.state_id })
    }

    /// Closes a file.
    ///
    /// # Errors
    /// See [`NfsExport::make_directory`].
    pub async fn close(&self, file: NfsFile) -> Result<(), Error> {
        let close = Operation::Close(CloseArgs { sequence_id: 0, state_id: file.state_id });
        let answer = self.client.compound(&[put(&file.handle), close]).await?;
        result::<StateId>(&answer, PUT, OperationNumber::CLOSE).map(drop)
    }

    /// Reads; returns fewer bytes at the end of the file.
    ///
    /// # Errors
    /// See [`NfsExport::make_directory`].
    pub async fn read(&self, file: &NfsFile, offset: u64, count: u32) -> Result<Bytes, Error> {
        let read = Operation::Read(ReadArgs { state_id: file.state_id, offset, count });
        let answer = self.client.compound(&[put(&file.handle), read]).await?;
        let read: ReadResult<'_> = result(&answer, PUT, OperationNumber::READ)?;
        if read.data.len() > count as usize {
            return Err(Error::Hostile("more was read than requested"));
        }
        Ok(answer.share(read.data))
    }

    /// Writes all of `data`, with the durability that the server chooses.
    ///
    /// # Errors
    /// See [`NfsExport::make_directory`].
    pub async fn write(&self, file: &NfsFile, offset: u64, data: &[u8]) -> Result<(), Error> {
        let write = Operation::Write(WriteArgs {
            state_id: file.state_id,
            offset,
            stable: StableHow::Unstable,
            data,
        });
        let answer = self.client.compound(&[put(&file.handle), write]).await?;
        let written: WriteResult = result(&answer, PUT, OperationNumber::WRITE)?;
        if written.count as usize != data.len() {
            return Err(Error::Hostile("a short write"));
        }
        Ok(())
    }

    /// Commits written data to stable storage.
    ///
    /// # Errors
    /// See [`NfsExport::make_directory`].
    pub async fn commit(&self, file: &NfsFile) -> Result<(), Error> {
        let commit = Operation::Commit(CommitArgs { offset: 0, count: 0 });
        let answer = self.client.compound(&[put(&file.handle), commit]).await?;
        result::<Verifier>(&answer, PUT, OperationNumber::COMMIT).map(drop)
    }

    /// Sets the size of a file.
    ///
    /// # Errors
    /// See [`NfsExport::make_directory`].
    pub async fn set_size(&self, file: &NfsFile, size_bytes: u64) -> Result<(), Error> {
        let size = NfsAttributes { size: Some(size_bytes), ..NfsAttributes::default() };
        let mut buffer = Vec::new();
        let attributes = size.to_fattr(&mut buffer);
        let set = Operation::SetAttr(SetAttrArgs { state_id: file.state_id, attributes });
        let answer = self.client.compound(&[put(&file.handle), set]).await?;
        let mut results = answer.results()?;
        for_put(&mut results)?;
        let number = OperationNumber::SETATTR;
        let reply: SetAttrReply = results.expect(number).map_err(refused(number))?;
        reply.status.ok().map_err(|status| Error::RefusedOperation(number, status))
    }

    /// Looks up a file and gets its attributes.
    ///
    /// # Errors
    /// See [`NfsExport::make_directory`].
    pub async fn stat(&self, path: impl AsRef<[u8]>) -> Result<NfsDirectoryEntry, Error> {
        let (parent, name) = self.parent(path.as_ref()).await?;
        let attributes = Operation::GetAttr(GetAttrArgs { requested: LISTED });
        let lookup = Operation::Lookup(LookupArgs { name });
        let operations = [put(&parent), lookup, Operation::GetFh, attributes];
        let answer = self.client.compound(&operations).await?;
        let mut results = answer.results()?;
        for_put(&mut results)?;
        let number = OperationNumber::LOOKUP;
        results.succeed::<()>(number).map_err(refused(number))?;
        let number = OperationNumber::GETFH;
        results.succeed::<FileHandle>(number).map_err(refused(number))?;
        let number = OperationNumber::GETATTR;
        let found: Fattr<'_> = results.succeed(number).map_err(refused(number))?;
        entry(name, &found)
    }

    /// Lists a directory with attributes.
    ///
    /// # Errors
    /// See [`NfsExport::make_directory`].
    pub async fn list(&self, path: impl AsRef<[u8]>) -> Result<Vec<NfsDirectoryEntry>, Error> {
        let directory = self.directory(path.as_ref()).await?;
        let mut entries = Vec::new();
        let (mut cookie, mut cookie_verifier) = (0, Verifier::default());
        loop {
            let read = Operation::ReadDir(ReadDirArgs {
                cookie,
                cookie_verifier,
                directory_bytes: READDIR_BYTES,
                bytes_max: READDIR_BYTES.min(self.client.io_bytes_max()),
                requested: LISTED | HANDLES,
            });
            let answer = self.client.compound(&[put(&directory), read]).await?;
            let listed: ReadDirResult<'_> = result(&answer, PUT, OperationNumber::READDIR)?;
            for one in &listed.entries {
                entries.push(entry(one.name, &one.attributes)?);
            }
            let Some(last) = listed.entries.last().filter(|_| !listed.is_end) else {
                return Ok(entries);
            };
            (cookie, cookie_verifier) = (last.cookie, listed.cookie_verifier);
        }
    }

    /// Removes a file or an empty directory.
    ///
    /// # Errors
    /// See [`NfsExport::make_directory`].
    pub async fn remove(&self, path: impl AsRef<[u8]>) -> Result<(), Error> {
        let (parent, name) = self.parent(path.as_ref()).await?;
        self.directories.lock().remove(path.as_ref());
        let remove = Operation::Remove(RemoveArgs { name });
        let answer = self.client.compound(&[put(&parent), remove]).await?;
        result::<ChangeInfo>(&answer, PUT, OperationNumber::REMOVE).map(drop)
    }
}

/// The folder of a path, and its name there.
pub(super) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

pub(super) fn for_put(results: &mut wire::nfs::CompoundResults<'_>) -> Result<(), Error> {
    let number = OperationNumber::PUTFH;
    results.succeed(number).map_err(refused(number))
}

/// Converts attributes to an entry.
pub(super) fn entry(name: &[u8], attributes: &Fattr<'_>) -> Result<NfsDirectoryEntry, Error> {
    let attributes = attributes.attributes().map_err(|_| Error::Hostile("malformed attributes"))?;
    Ok(NfsDirectoryEntry {
        name: name.to_vec(),
        id: attributes.fileid.unwrap_or_default(),
        is_directory: attributes.file_type == Some(FileType::Directory),
        size_bytes: attributes.size.unwrap_or_default(),
        used_bytes: attributes.space_used,
        kind: attributes.file_type.unwrap_or(FileType::Regular),
        change: attributes.change.unwrap_or_default(),
        mode: attributes.mode.unwrap_or_default(),
        times: [
            attributes.time_access.unwrap_or_default(),
            attributes.time_modify.unwrap_or_default(),
        ],
    })
}

/// Walks a path from `start` or the server's root.
async fn walk(
    client: &NfsClient,
    start: Option<FileHandle>,
    path: &[u8],
) -> Result<FileHandle, Error> {
    let names: Vec<&[u8]> =
        path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).collect();
    if names.len() > PATH_COMPONENTS_MAX {
        return Err(Error::Misuse("the path has too many components"));
    }
    // A few components per compound, because servers limit its operations.
    let mut at = start;
    let mut left = &names[..];
    loop {
        let (step, rest) = left.split_at(left.len().min(8));
        let from = at.map_or(Operation::PutRootFh, |handle| put(&handle));
        let first = from.number();
        let mut operations = vec![from];
        for name in step {
            operations.push(Operation::Lookup(LookupArgs { name }));
        }
        operations.push(Operation::GetFh);
        let answer = client.compound(&operations).await?;
        let mut before = vec![first];
        before.extend(step.iter().map(|_| OperationNumber::LOOKUP));
        let handle: FileHandle = result(&answer, &before, OperationNumber::GETFH)?;
        if rest.is_empty() {
            return Ok(handle);
        }
        (at, left) = (Some(handle), rest);
    }
}
