//! Operations for copying: whole small files in one compound, opens for one purpose, times and
//! permissions, renames, holes.

use super::client::refused;
use super::export::{
    LISTED, NfsDirectoryEntry, NfsExport, NfsFile, PUT, entry, for_put, put, result, split,
};
use crate::error::Error;
use bytes::Bytes;
use std::ops::Range;
use wire::nfs::attributes::{NfsAttributes, SetTime};
use wire::nfs::ops::{
    CloneArgs, CloseArgs, CopyArgs, CopyResult, DataContent, GetAttrArgs, NfsCreateHow, NfsOpenHow,
    NfsOpenResult, OpenArgs, OpenClaim, ReadArgs, ReadResult, RenameArgs, RenameResult, SeekArgs,
    SeekResult, SetAttrArgs, SetAttrReply, ShareAccess, ShareDeny, VerifyArgs, WriteArgs,
    WriteResult,
};
use wire::nfs::xdr::{List, Opaque};
use wire::nfs::{
    CompoundResults, Fattr, FileHandle, NfsStatus, NfsTime, Operation, OperationNumber, StableHow,
    StateId, StateOwner,
};

/// Purpose of an open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenFor {
    /// Opens for reading.
    Reading,
    /// Opens for reading and writing; creates a missing file, and truncates it if `fresh`.
    Filling {
        /// True to discard existing contents.
        fresh: bool,
    },
}

/// Attributes to set; `None` leaves one unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NfsSetAttributes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Access time.
    pub accessed: Option<NfsTime>,
    /// Modification time.
    pub modified: Option<NfsTime>,
}

impl NfsSetAttributes {
    fn attributes(&self) -> NfsAttributes<'static> {
        NfsAttributes {
            mode: self.mode,
            time_access_set: self.accessed.map(SetTime::Client),
            time_modify_set: self.modified.map(SetTime::Client),
            ..NfsAttributes::default()
        }
    }
}

type Results<'a> = CompoundResults<'a>;

/// The next result, which must be successful.
fn next<'a, T>(results: &mut Results<'a>, number: OperationNumber) -> Result<T, Error>
where
    Result<T, NfsStatus>: wire::nfs::ResultBody<'a>,
{
    results.succeed(number).map_err(refused(number))
}

fn set_attributes(results: &mut Results<'_>) -> Result<(), Error> {
    let number = OperationNumber::SETATTR;
    let reply: SetAttrReply = results.expect(number).map_err(refused(number))?;
    reply.status.ok().map_err(|status| Error::RefusedOperation(number, status))
}

impl NfsExport {
    fn open_operation<'a>(
        &self,
        name: &'a [u8],
        access: ShareAccess,
        how: NfsOpenHow<'a>,
    ) -> Operation<'a> {
        Operation::Open(OpenArgs {
            sequence_id: 0,
            share_access: access | ShareAccess::WANT_NO_DELEG,
            share_deny: ShareDeny(0),
            owner: StateOwner { client_id: self.client().id(), owner: Opaque(b"anabranch") },
            how,
            claim: OpenClaim::Null(name),
        })
    }

    /// Reads a file of at most `length_bytes` and its attributes, in one compound.
    ///
    /// # Errors
    /// The server's refusal.
    pub async fn get(
        &self,
        path: impl AsRef<[u8]>,
        length_bytes: u32,
    ) -> Result<(Bytes, NfsDirectoryEntry), Error> {
        let (parent, name) = self.parent(path.as_ref()).await?;
        let state_id = StateId::CURRENT;
        let operations = [
            put(&parent),
            self.open_operation(name, ShareAccess::READ, NfsOpenHow::NoCreate),
            Operation::GetFh,
            Operation::Read(ReadArgs { state_id, offset: 0, count: length_bytes }),
            Operation::GetAttr(GetAttrArgs { requested: LISTED }),
            Operation::Close(CloseArgs { sequence_id: 0, state_id }),
        ];
        let answer = self.client().compound(&operations).await?;
        let mut results = answer.results()?;
        for_put(&mut results)?;
        let opened = self.opened(&mut results)?;
        let mut rest = || {
            let read: ReadResult<'_> = next(&mut results, OperationNumber::READ)?;
            if read.data.len() > length_bytes as usize {
                return Err(Error::Hostile("more was read than requested"));
            }
            let found: Fattr<'_> = next(&mut results, OperationNumber::GETATTR)?;
            let found = entry(name, &found)?;
            next::<StateId>(&mut results, OperationNumber::CLOSE)?;
            Ok((answer.share(read.data), found))
        };
        let got = rest();
        if got.is_err() {
            let _ = self.close(opened).await;
        }
        got
    }

    fn opened(&self, results: &mut Results<'_>) -> Result<NfsFile, Error> {
        let opened: NfsOpenResult<'_> = next(results, OperationNumber::OPEN)?;
        let handle: FileHandle = next(results, OperationNumber::GETFH)?;
        Ok(NfsFile { handle, state_id: opened.state_id })
    }

    /// Creates a file under a temporary name, writes it, sets `facts`, and renames it over any
    /// existing file at `path`, in one compound, which ends with the first failing operation. RFC
    /// 8881 16.2.3. Both names are in one directory.
    ///
    /// # Errors
    /// Like [`NfsExport::get`].
    pub async fn put(
        &self,
        temporary: impl AsRef<[u8]>,
        path: impl AsRef<[u8]>,
        data: &[u8],
        facts: &NfsSetAttributes,
    ) -> Result<(), Error> {
        let (parent, old_name) = self.parent(temporary.as_ref()).await?;
        let (_, new_name) = split(path.as_ref());
        let (state_id, mut made, mut set) = (StateId::CURRENT, Vec::new(), Vec::new());
        let how = NfsOpenHow::Create(NfsCreateHow::Unchecked(emptied(&mut made)));
        let (size, mut sized) = (Some(data.len() as u64), Vec::new());
        let whole = NfsAttributes { size, ..NfsAttributes::default() }.to_fattr(&mut sized);
        let mut operations = vec![
            put(&parent),
            Operation::SaveFh,
            self.open_operation(old_name, ShareAccess::BOTH, how),
            Operation::GetFh,
        ];
        if !data.is_empty() {
            let stable = StableHow::Unstable;
            operations.push(Operation::Write(WriteArgs { state_id, offset: 0, stable, data }));
            // A short write counts as success; VERIFY stops the compound then.
            operations.push(Operation::Verify(VerifyArgs { attributes: whole }));
        }
        let attributes = facts.attributes().to_fattr(&mut set);
        operations.push(Operation::SetAttr(SetAttrArgs { state_id, attributes }));
        operations.push(Operation::Close(CloseArgs { sequence_id: 0, state_id }));
        operations.push(Operation::RestoreFh);
        operations.push(Operation::Rename(RenameArgs { old_name, new_name }));
        let answer = self.client().compound(&operations).await?;
        let mut results = answer.results()?;
        for_put(&mut results)?;
        next::<()>(&mut results, OperationNumber::SAVEFH)?;
        let opened = self.opened(&mut results)?;
        let mut is_closed = false;
        let done = put_results(&mut results, data, &mut is_closed);
        if done.is_err() {
            if !is_closed {
                let _ = self.close(opened).await;
            }
            let _ = self.remove(&temporary).await;
        }
        done
    }

    /// Opens a file for one purpose; returns its attributes, too.
    ///
    /// # Errors
    /// See [`NfsExport::get`].
    pub async fn open_for(
        &self,
        path: impl AsRef<[u8]>,
        purpose: OpenFor,
    ) -> Result<(NfsFile, NfsDirectoryEntry), Error> {
        let (parent, name) = self.parent(path.as_ref()).await?;
        let mut made = Vec::new();
        let (access, how) = match purpose {
            OpenFor::Reading => (ShareAccess::READ, NfsOpenHow::NoCreate),
            OpenFor::Filling { fresh: false } => (ShareAccess::BOTH, NfsOpenHow::NoCreate),
            OpenFor::Filling { fresh: true } => {
                (ShareAccess::BOTH, NfsOpenHow::Create(NfsCreateHow::Unchecked(emptied(&mut made))))
            }
        };
        let attributes = Operation::GetAttr(GetAttrArgs { requested: LISTED });
        let open = self.open_operation(name, access, how);
        let answer =
            self.client().compound(&[put(&parent), open, Operation::GetFh, attributes]).await?;
        let mut results = answer.results()?;
        for_put(&mut results)?;
        let file = self.opened(&mut results)?;
        let found: Fattr<'_> = next(&mut results, OperationNumber::GETATTR)?;
        Ok((file, entry(name, &found)?))
    }

    /// Sets attributes of an open file.
    ///
    /// # Errors
    /// See [`NfsExport::get`].
    pub async fn set_facts(&self, file: &NfsFile, facts: &NfsSetAttributes) -> Result<(), Error> {
        self.set_of(file.handle, file.state_id, facts).await
    }

    /// Sets attributes of a directory.
    ///
    /// # Errors
    /// See [`NfsExport::get`].
    pub async fn set_directory_facts(
        &self,
        path: impl AsRef<[u8]>,
        facts: &NfsSetAttributes,
    ) -> Result<(), Error> {
        let handle = self.directory(path.as_ref()).await?;
        self.set_of(handle, StateId::ANONYMOUS, facts).await
    }

    async fn set_of(
        &self,
        handle: FileHandle,
        id: StateId,
        facts: &NfsSetAttributes,
    ) -> Result<(), Error> {
        let mut buffer = Vec::new();
        let attributes = facts.attributes().to_fattr(&mut buffer);
        let set = Operation::SetAttr(SetAttrArgs { state_id: id, attributes });
        let answer = self.client().compound(&[put(&handle), set]).await?;
        let mut results = answer.results()?;
        for_put(&mut results)?;
        set_attributes(&mut results)
    }

    /// Renames over an existing file.
    ///
    /// # Errors
    /// See [`NfsExport::get`].
    pub async fn rename(&self, from: impl AsRef<[u8]>, to: impl AsRef<[u8]>) -> Result<(), Error> {
        let (source, old_name) = self.parent(from.as_ref()).await?;
        let (target, new_name) = self.parent(to.as_ref()).await?;
        let operations = [
            put(&source),
            Operation::SaveFh,
            put(&target),
            Operation::Rename(RenameArgs { old_name, new_name }),
        ];
        let answer = self.client().compound(&operations).await?;
        let before = [OperationNumber::PUTFH, OperationNumber::SAVEFH, OperationNumber::PUTFH];
        result::<RenameResult>(&answer, &before, OperationNumber::RENAME).map(drop)
    }

    /// The next data (or hole) at or behind `offset`; `None` at the end of the file. NFSv4.2.
    ///
    /// # Errors
    /// See [`NfsExport::get`].
    pub async fn seek(
        &self,
        file: &NfsFile,
        offset: u64,
        data: bool,
    ) -> Result<Option<u64>, Error> {
        let what = if data { DataContent::Data } else { DataContent::Hole };
        let seek = Operation::Seek(SeekArgs { state_id: file.state_id, offset, what });
        let answer = self.client().compound(&[put(&file.handle), seek]).await?;
        match result::<SeekResult>(&answer, PUT, OperationNumber::SEEK) {
            // RFC 7862 15.11.3: there is no data behind the last data.
            Err(Error::RefusedOperation(_, NfsStatus::NXIO)) => Ok(None),
            Ok(found) => Ok((!found.is_end).then_some(found.offset)),
            Err(error) => Err(error),
        }
    }

    /// Lets the server copy as much of a file as it does synchronously; returns the number of
    /// bytes. NFSv4.2.
    ///
    /// # Errors
    /// See [`NfsExport::get`].
    pub async fn copy_whole(&self, source: &NfsFile, target: &NfsFile) -> Result<u64, Error> {
        self.copy(source, target, 0, 0).await
    }

    async fn copy(
        &self,
        source: &NfsFile,
        target: &NfsFile,
        offset: u64,
        count: u64,
    ) -> Result<u64, Error> {
        let copy = Operation::Copy(CopyArgs {
            source_state_id: source.state_id,
            destination_state_id: target.state_id,
            source_offset: offset,
            destination_offset: offset,
            count,
            is_consecutive: true,
            is_synchronous: true,
            source_servers: List::default(),
        });
        let operations = [put(&source.handle), Operation::SaveFh, put(&target.handle), copy];
        let answer = self.client().compound(&operations).await?;
        let before = [OperationNumber::PUTFH, OperationNumber::SAVEFH, OperationNumber::PUTFH];
        let copied: CopyResult = result(&answer, &before, OperationNumber::COPY)?;
        if !copied.response.callback_id.is_empty() {
            return Err(Error::Hostile("a copy that continues after its reply"));
        }
        Ok(copied.response.count)
    }

    /// Lets a file share another file's blocks on the same server. NFSv4.2.
    ///
    /// # Errors
    /// See [`NfsExport::get`].
    pub async fn clone_whole(&self, source: &NfsFile, target: &NfsFile) -> Result<(), Error> {
        let clone = Operation::Clone(CloneArgs {
            source_state_id: source.state_id,
            destination_state_id: target.state_id,
            source_offset: 0,
            destination_offset: 0,
            count: 0,
        });
        let operations = [put(&source.handle), Operation::SaveFh, put(&target.handle), clone];
        let answer = self.client().compound(&operations).await?;
        let before = [OperationNumber::PUTFH, OperationNumber::SAVEFH, OperationNumber::PUTFH];
        result::<()>(&answer, &before, OperationNumber::CLONE)
    }

    /// Lets the server copy a range between two files at equal offsets; returns the number of
    /// bytes, which may be less. NFSv4.2; RFC 7862 15.2.
    ///
    /// # Errors
    /// Like [`NfsExport::get`]; also if the server would only copy asynchronously.
    pub async fn copy_range(
        &self,
        source: &NfsFile,
        target: &NfsFile,
        range: &Range<u64>,
    ) -> Result<u64, Error> {
        let length = range.end - range.start;
        match self.copy(source, target, range.start, length).await? {
            count if count > length => Err(Error::Hostile("more was copied than requested")),
            count => Ok(count),
        }
    }
}

/// Attributes that truncate a file when it is created or opened.
fn emptied(buffer: &mut Vec<u8>) -> Fattr<'_> {
    NfsAttributes { size: Some(0), mode: Some(0o644), ..NfsAttributes::default() }.to_fattr(buffer)
}

fn put_results(results: &mut Results<'_>, data: &[u8], closed: &mut bool) -> Result<(), Error> {
    if !data.is_empty() {
        let written: WriteResult = next(results, OperationNumber::WRITE)?;
        if written.count as usize > data.len() {
            return Err(Error::Hostile("more was written than requested"));
        }
        next::<()>(results, OperationNumber::VERIFY)?;
    }
    set_attributes(results)?;
    next::<StateId>(results, OperationNumber::CLOSE)?;
    *closed = true;
    next::<()>(results, OperationNumber::RESTOREFH)?;
    next::<RenameResult>(results, OperationNumber::RENAME).map(drop)
}
